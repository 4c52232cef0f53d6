"""numpy's protocol and the buffer protocol, out of arrays; times of numpy, into arrays."""

import array
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import live

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def address(x):
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_are_shared_with_numpy_and_read_only(dtype):
    x = np.arange(5).astype(dtype)
    a = ad.array(x)
    for made in (np.asarray(a), np.array(a, copy=False), a.__array__(), np.asarray(a[0:])):
        assert made.dtype == x.dtype and address(made) == address(x) and not made.flags.writeable
        assert (made == x).all()
    copy = np.array(a, copy=True)
    assert address(copy) != address(x) and copy.flags.writeable and (copy == x).all()
    also = a.__array__(copy=True)
    assert address(also) != address(x) and also.flags.writeable
    part = np.asarray(a[2:4])
    assert address(part) == address(x) + 2 * x.itemsize and (part == x[2:4]).all()


@pytest.mark.parametrize("dtype", [*NUMBERS, "datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]", "timedelta64[s]",
                                   "timedelta64[ms]", "timedelta64[us]", "timedelta64[ns]"])
def test_to_numpy_is_what_asarray_is(dtype):
    x = np.arange(5).astype(dtype)
    a = ad.array(x)
    batch = ad.record_batch({"x": a, "y": a[0:5]})[1:4]
    for made, expected in [(a.to_numpy(), x), (a[2:4].to_numpy(), x[2:4]), (a[5:].to_numpy(), x[5:]),
                           (batch.to_numpy()["x"], x[1:4]), (batch.to_numpy()["y"], x[1:4])]:
        assert made.dtype == x.dtype and made.shape == expected.shape and (made == expected).all()
        assert not made.flags.writeable and not made.flags.owndata
        if len(expected):
            assert address(made) == address(expected)
    assert list(batch.to_numpy()) == ["x", "y"]


def test_to_numpy_converts_what_it_cannot_share():
    batch = ad.record_batch({
        "bits": [True, False, True], "days": pa.array([1, None, 3], pa.date32()), "moments": pa.array([1, None, 3], pa.timestamp("s")),
        "all there": pa.array([1, 2, 3]).slice(0, 3),
    })
    made = batch.to_numpy()
    for name, column in made.items():
        expected = np.asarray(batch[name])
        assert column.dtype == expected.dtype
        np.testing.assert_array_equal(column, expected)
        np.testing.assert_array_equal(batch[name].to_numpy(), expected)
    # Nobody has counted the nulls of a part, of which there are none.
    part = ad.record_batch({"x": pa.array([None, 1, 2])})[1:]
    assert part.column(0).null_count is None and part.to_numpy()["x"].tolist() == [1, 2]
    assert ad.record_batch({}).to_numpy() == {}


def test_to_numpy_names_the_column_that_it_cannot_convert():
    with pytest.raises(ValueError) as raised:
        ad.record_batch({"x": [1], "words": ["a"]}).to_numpy()
    assert raised.value.__notes__ == ['in column "words"; select() leaves columns out']
    twice = ad.record_batch({"x": [1], "y": [2]}).rename(["x", "x"])
    with pytest.raises(ValueError, match="two columns have one name"):
        twice.to_numpy()
    with pytest.raises(ValueError):
        ad.array(["a"]).to_numpy()


def test_what_to_numpy_gives_keeps_the_memory():
    before = live()
    batch = ad.record_batch({f"c{index}": np.arange(1000) + index for index in range(10)})
    made = batch.to_numpy()
    alone = batch["c3"].to_numpy()
    del batch
    assert made["c7"].base is not None
    last = made.pop("c9")
    del made
    junk = [bytes(8000) for _ in range(100)]
    assert (last == np.arange(1000) + 9).all() and (alone == np.arange(1000) + 3).all()
    del last, alone, junk
    assert live() == before


def test_to_numpy_copies_from_a_device_only_where_that_was_allowed(software):
    there = ad.record_batch({"x": [1, 2], "y": [0.5, 1.5]}).to(software)
    for refuses in (there, there["x"]):
        with pytest.raises(ad.NotSupportedError, match="with_host_copies"):
            refuses.to_numpy()
    made = there.with_host_copies().to_numpy()
    assert made["x"].tolist() == [1, 2] and made["y"].tolist() == [0.5, 1.5]
    assert there["x"].with_host_copies().to_numpy().tolist() == [1, 2]


def test_a_type_is_converted_to_by_a_copy_and_not_without():
    a = ad.array(np.arange(3))
    assert np.asarray(a, dtype="float32").dtype == np.float32 == a.__array__("float32").dtype
    assert a.__array__("int64", copy=False).dtype == np.int64
    with pytest.raises(ValueError, match="by a copy only"):
        a.__array__("float32", copy=False)
    with pytest.raises(ValueError):
        np.asarray(a, dtype="float32", copy=False)


def test_bits_become_bytes_by_a_copy():
    a = ad.array([True, False])
    assert np.asarray(a).tolist() == [True, False] and np.asarray(a).dtype == bool
    with pytest.raises(ValueError):
        np.asarray(a, copy=False)


@pytest.mark.parametrize("kind, dtype", [
    *((pa.timestamp(unit), f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "Europe/Paris"), "datetime64[us]"),
    *((pa.duration(unit), f"timedelta64[{unit}]") for unit in ("s", "ms", "us", "ns")),
    (pa.date32(), "datetime64[D]"),
    (pa.date64(), "datetime64[ms]"),
])
def test_times_are_those_of_numpy_both_ways(kind, dtype):
    width = 4 if kind == pa.date32() else 8
    numbers = pa.array([86_400_000, 0, 86_400_000], pa.int32() if width == 4 else pa.int64())
    a = ad.array(numbers.view(kind))
    x = np.asarray(a)
    assert x.dtype == dtype and x.astype("int64").tolist() == [86_400_000, 0, 86_400_000]
    missing = ad.array(pa.array([86_400_000, None], numbers.type).view(kind))
    y = np.asarray(missing)
    assert y.dtype == dtype and np.isnat(y).tolist() == [False, True] and y[0] == x[0]
    if width == 8:
        assert address(x) == numbers.buffers()[1].address
    else:
        with pytest.raises(ValueError, match="so this is a copy"):
            np.asarray(a, copy=False)
    with pytest.raises(ValueError):
        np.asarray(missing, copy=False)
    back = ad.array(y)
    back.validate(full=True)
    assert back.null_count == 1 and (np.asarray(back)[:1] == y[:1]).all()
    if kind in (pa.timestamp("ns"), pa.duration("ms")):
        assert back == missing


def test_times_of_numpy_are_shared_where_there_is_no_gap():
    x = np.array(["2024-01-01", "2024-01-02"], "datetime64[us]")
    a = ad.array(x)
    assert a.type == "timestamp[us]" and address(np.asarray(a)) == address(x) and a.null_count == 0
    assert ad.array(x[::2]).to_pylist() == [x[0].item()]
    assert ad.array(x.astype(">M8[us]")).to_pylist() == [each.item() for each in x]
    assert ad.array(x.astype("datetime64[D]")).type == "date32"
    assert ad.array(x.astype("datetime64[h]")).type == "timestamp[s]"
    assert ad.array(np.array([5], "timedelta64[m]")).to_pylist() == [np.timedelta64(300, "s").item()]
    with pytest.raises(TypeError, match="one dimension"):
        ad.array(x.reshape(2, 1))
    with pytest.raises(ValueError):
        ad.array(np.array([1], "timedelta64[M]"))
    assert ad.record_batch({"t": x}).to_pylist()[0] == {"t": x[0].item()}
    # What numpy counts less of than Arrow has no place.
    with pytest.raises(ValueError):
        ad.array(np.array([1], "datetime64[ps]"))


def test_objects_and_text_of_numpy_are_values():
    assert ad.array(np.array([1, None], object)).to_pylist() == [1, None]
    assert ad.array(np.array(["a", "long"])).to_pylist() == ["a", "long"]
    assert ad.array(np.array([b"a"]), type="binary").to_pylist() == [b"a"]
    assert ad.record_batch({"x": np.array(["a"])}).to_pylist() == [{"x": "a"}]
    with pytest.raises(TypeError, match=r"^\[1\]: str after values of int"):
        ad.array(np.array([1, "a"], object))
    with pytest.raises(BufferError):
        ad.array(np.array([["a"]]))


def test_nulls_and_text_are_refused_unless_objects_are_asked_for():
    a = ad.array([1, None, 3])
    with pytest.raises(ValueError, match="null"):
        np.asarray(a)
    with pytest.raises(ValueError):
        np.asarray(ad.array(["a"]))
    assert np.asarray(a, dtype=object).tolist() == [1, None, 3]
    lists = np.asarray(ad.array([[1], [2, 3]]), dtype=object)
    assert lists.shape == (2,) and lists.tolist() == [[1], [2, 3]]
    with pytest.raises(ValueError, match="Python objects is a copy"):
        a.__array__(object, copy=False)


def test_an_array_on_a_device_is_for_numpy_where_copies_are_allowed(device):
    a = ad.array([1, 2, 3]).to(device)
    if device == ad.device("cpu"):
        return
    with pytest.raises(ad.NotSupportedError, match="__array__ is for host memory"):
        np.asarray(a)
    with pytest.raises(BufferError, match=f"a buffer is host memory, and this lives on {device};"):
        memoryview(a)
    for name in ("__cuda_array_interface__", "__sycl_usm_array_interface__"):
        with pytest.raises(AttributeError, match=f"{name} is for .* devices, and this lives on {device}$"):
            getattr(a, name)
    assert np.asarray(a.with_host_copies()).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="by a copy only"):
        np.asarray(a.with_host_copies(), copy=False)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_the_buffer_protocol_shares_numbers(dtype):
    x = np.arange(6).astype(dtype)
    view = memoryview(ad.array(x)[1:5])
    assert (view.readonly, view.ndim, view.shape, view.strides) == (True, 1, (4,), (x.itemsize,))
    assert view.itemsize == struct.calcsize(view.format) == x.itemsize
    if dtype != "float16":
        assert view.tolist() == x[1:5].tolist()
    assert bytes(view) == x[1:5].tobytes()
    assert np.asarray(view).dtype == x.dtype and address(np.asarray(view)) == address(x) + x.itemsize
    assert ad.array(view).to_pylist() == x[1:5].tolist()


def test_a_buffer_keeps_the_memory_until_it_is_released():
    before = live()
    view = memoryview(ad.array(array.array("d", [0.5, 1.5])))
    assert view.tolist() == [0.5, 1.5] and live()["arrays"] == before["arrays"] + 1
    other = memoryview(view)
    view.release()
    assert other.tolist() == [0.5, 1.5]
    other.release()
    assert live() == before
    assert memoryview(ad.array([], type="int8")).tolist() == []


@pytest.mark.parametrize("values, kind, why", [
    ([1, None], "int64", "1 elements are null"),
    ([True], "bool", "its elements are bits"),
    (["a"], "utf8", "it is for numbers"),
    ([[1]], pa.list_(pa.int8()), "it is for numbers"),
    ([1], "timestamp[s]", "as_integers=True"),
    ([1], pa.decimal128(5, 2), "as_integers=True"),
    ([{"x": 1}], pa.struct([("x", pa.int8())]), "it is for numbers"),
])
def test_what_is_no_buffer_says_why(values, kind, why):
    with pytest.raises(BufferError, match=why):
        memoryview(ad.array(values, type=kind))
    with pytest.raises(BufferError):
        memoryview(ad.array(pa.array([1, None, 2]))[0:2])
    memoryview(ad.array(pa.array([1, None, 2]))[2:])


def test_nobody_gets_a_buffer_to_write_to():
    a = ad.array(bytearray(b"abc"))
    assert memoryview(a).readonly
    with pytest.raises((TypeError, BufferError)):
        struct.pack_into("b", a, 0, 1)
    with pytest.raises(ValueError, match="read-only"):
        np.frombuffer(a, "uint8")[0] = 1
    assert a.to_pylist() == list(b"abc")


#: Ways in which the first look at numpy's C interface fails: in a module that is numpy by name
#: alone, and by a signal.
FIRST_LOOKS = {
    "AttributeError": "sys.modules['numpy'] = types.ModuleType('numpy')",
    "KeyboardInterrupt": """
import numpy
def trace(frame, event, _):
    if frame.f_code.co_filename.endswith("_version.py"):
        sys.settrace(None)
        raise KeyboardInterrupt
    return trace
sys.settrace(trace)
""",
}


@pytest.mark.parametrize("raised", FIRST_LOOKS)
def test_a_first_look_at_numpy_that_fails_is_the_exception_of_python(raised):
    program = f"""
import sys, types
import arrow_device as ad
{FIRST_LOOKS[raised]}
try:
    ad.array([1, 2]).to_numpy()
except BaseException as error:
    print(type(error).__name__)
if {raised != "AttributeError"}:
    print(ad.array([1, 2]).to_numpy())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == [raised] + ["[1", "2]"] * (raised != "AttributeError"), ended.stderr
    assert ended.stderr == ""
