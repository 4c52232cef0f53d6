"""Pickles: what comes back, what is not copied, and what is not believed."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import live
from test_values import CASES, IDS

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def pickled(thing, buffers=None):
    return pickle.dumps(thing, protocol=5, buffer_callback=None if buffers is None else buffers.append)


def address(a):
    return pa.array(a).buffers()[1].address


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_arrays_of_every_type_come_back(kind, values):
    whole = ad.array(values, type=kind)
    for a in (whole, whole[1:], whole[:0], ad.record_batch({"x": whole, "y": whole})[1:]):
        for protocol in PROTOCOLS:
            back = pickle.loads(pickle.dumps(a, protocol=protocol))
            assert type(back) is type(a) and back.schema == a.schema and back.to_pylist() == a.to_pylist()
            back.validate(full=True)
        buffers = []
        back = pickle.loads(pickled(a, buffers), buffers=buffers)
        assert back.schema == a.schema and back.to_pylist() == a.to_pylist()


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_slices_without_elements_come_back_as_other_libraries_take_them(kind, values):
    whole = ad.array(values, type=kind)
    empty = whole[len(whole):]
    outer = ad.array(pa.ListArray.from_arrays([0, 0, len(whole)], pa.array(whole)))
    for a in (empty, whole[1:1], outer[1:1], outer[:1], ad.record_batch({"x": whole})[1:1], ad.record_batch({"x": empty})):
        make, (header, *parts) = a.__reduce_ex__(5)
        for back in (pickle.loads(pickle.dumps(a)), make(header, *parts)):
            back.validate(full=True)
            theirs = pa.record_batch(back) if isinstance(a, ad.RecordBatch) else pa.array(back)
            theirs.validate(full=True)
            assert back.schema == a.schema and theirs.to_pylist() == a.to_pylist()


def test_a_slice_without_elements_that_was_pickled_with_its_offset_is_read():
    make, (header, *parts) = ad.array(pa.array(["a"] * 30))[13:13].__reduce_ex__(5)
    # The offset is before the number of the buffers.
    at = header.rindex(struct.pack("<Q", 3))
    theirs = pa.array(make(header[:at - 8] + struct.pack("<Q", 13) + header[at:], *parts))
    theirs.validate(full=True)
    assert theirs.offset == 0 and theirs.to_pylist() == []


def test_schemas_and_types_come_back():
    field = pa.field("x", pa.dictionary(pa.int8(), pa.map_(pa.string(), pa.timestamp("ms", "UTC")), ordered=True),
                     nullable=False, metadata={"unit": "m"})
    schema = ad.schema(pa.schema([field, ("y", pa.dense_union([field, pa.field("z", pa.null())]))], metadata={"by": "us"}))
    for protocol in PROTOCOLS:
        for thing in (schema, schema.field(0), schema.type, schema.field("y").type):
            back = pickle.loads(pickle.dumps(thing, protocol=protocol))
            assert type(back) is type(thing) and back == thing
    back = pickle.loads(pickle.dumps(schema))
    assert back.metadata == {b"by": b"us"} and back["x"].metadata == {b"unit": b"m"} and not back["x"].nullable
    assert copy.copy(schema) == schema == copy.deepcopy(schema)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "bool", "complex64"])
def test_tensors_come_back(dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    for view in (x, x.T, x[::2, ::2], x[:0], x[0, 0:1], np.array(3, dtype)):
        t = ad.from_dlpack(view)
        for protocol in PROTOCOLS:
            back = pickle.loads(pickle.dumps(t, protocol=protocol))
            assert (back.shape, back.dtype) == (view.shape, dtype)
            assert (np.from_dlpack(back) == view).all()
    buffers = []
    back = pickle.loads(pickled(ad.from_dlpack(x), buffers), buffers=buffers)
    assert np.from_dlpack(back).__array_interface__["data"][0] == x.__array_interface__["data"][0]


def test_memory_of_the_host_is_not_copied_beside_a_pickle():
    x = np.arange(100_000)
    a, buffers = ad.array(x), []
    data = pickled(a, buffers)
    assert len(data) < 300 and len(buffers) == 1
    assert np.frombuffer(buffers[0], "int64").__array_interface__["data"][0] == x.__array_interface__["data"][0]
    back = pickle.loads(data, buffers=buffers)
    assert address(back) == address(a) == x.__array_interface__["data"][0]
    # Each of them holds the memory by itself.
    del x, a, buffers
    assert back[-1] == 99_999 and memoryview(back).readonly
    words = ad.record_batch({"w": pa.array(["some", None, "words"] * 5000)})
    buffers = []
    assert len(pickled(words, buffers)) < 500
    there = pickle.loads(pickled(words), buffers=None)
    assert there == words and len(buffers) == 3


def test_a_slice_is_pickled_without_what_it_does_not_show():
    a = ad.array(np.arange(100_000))
    assert len(pickle.dumps(a[10:20])) < 1000 and len(pickle.dumps(a[99_990:])) < 1000
    assert pickle.loads(pickle.dumps(a[99_990:])).to_pylist() == list(range(99_990, 100_000))
    words = ad.array(pa.array(["ten letters"] * 10_000))
    assert len(pickle.dumps(words[5000:5010])) < 1000


@pytest.mark.parametrize("words", [["secret", "b"], ["secret", None, "b"], ["secret"] + ["b" * 10] * 1000])
def test_a_slice_that_was_concatenated_is_pickled_without_what_it_does_not_show(words):
    for a in (ad.array(words)[1:], ad.record_batch({"x": words})[1:], ad.array([words[:1], words[1:]])[1:]):
        assert b"secret" in pickle.dumps(a)
        assert b"secret" not in pickle.dumps(ad.concat([a]))


def test_what_holds_a_pickle_is_given_back():
    before = live()
    buffers = []
    a = ad.record_batch({"x": np.arange(1000), "y": pa.array(["a", None] * 500)})
    back = pickle.loads(pickled(a, buffers), buffers=buffers)
    del a, buffers
    assert back[1:2].to_pylist() == [{"x": 1, "y": None}]
    del back
    assert live() == before


def test_a_copy_is_the_same_object():
    a = ad.array([1, None])
    assert copy.copy(a) is a and copy.deepcopy([a])[0] is a


def test_the_parts_of_a_receiver_may_lie_anywhere():
    for kind, values in CASES:
        a = ad.array(values, type=kind)
        make, (header, *parts) = a.__reduce_ex__(5)
        odd = [memoryview(b"x" + bytes(part.raw()))[1:] for part in parts]
        back = make(header, *odd)
        assert back.to_pylist() == values
        back.validate(full=True)
    gaps = memoryview(bytes(2 * len(parts[0].raw())))[::2]
    with pytest.raises(ValueError, match="gaps"):
        make(header, gaps, *parts[1:])
    with pytest.raises(TypeError):
        make(header, 5)


SMALL = [
    (kind, values) for kind, values in CASES
    if str(kind) not in ("int16", "int32", "uint16", "uint32", "large_binary", "large_string", "time32[s]", "time32[ms]")
]


def read(make, header, parts):
    """An altered pickle is an array that keeps all rules, or a ValueError."""
    try:
        back = make(header, *parts)
    except ValueError:
        return False
    except (ad.DeviceError, MemoryError) as error:
        # The device is a number of the header; so is a length.
        assert "pickled on" in str(error) or isinstance(error, MemoryError)
        return False
    if isinstance(back, ad.Array):
        back.validate(full=True)
        repr(back)
    return True


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_altered_bytes_are_found_or_do_no_harm(number):
    kind, values = SMALL[number]
    a = ad.array(values, type=kind)
    if number % 2:
        a = ad.record_batch({"x": a})
    make, (header, *parts) = a.__reduce_ex__(4)
    assert read(make, header, parts)
    for place in range(len(header)):
        for bits in (0x01, 0x80, 0xFF):
            read(make, header[:place] + bytes([header[place] ^ bits]) + header[place + 1:], parts)
    for index, part in enumerate(parts):
        for place in range(len(part)):
            for bits in (0x01, 0x80, 0xFF):
                altered = part[:place] + bytes([part[place] ^ bits]) + part[place + 1:]
                read(make, header, [*parts[:index], altered, *parts[index + 1:]])


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_truncated_pickles_are_found(number):
    kind, values = SMALL[number]
    a = ad.array(values, type=kind)
    make, (header, *parts) = a.__reduce_ex__(4)
    for end in range(len(header)):
        assert not read(make, header[:end], parts)
    assert not read(make, header + b"\0", parts)
    assert not read(make, header, [*parts, b"more"])
    for index, part in enumerate(parts):
        assert not read(make, header, parts[:index])
        for end in range(len(part)):
            back = read(make, header, [*parts[:index], part[:end], *parts[index + 1:]])
            # What lies behind the last element belongs to none.
            assert not back or kind in (pa.null(),) or len(part) - end < 8 or "view" in str(kind), (index, end)


@pytest.mark.parametrize("thing", [
    ad.from_dlpack(np.arange(6, dtype="int16").reshape(2, 3)), ad.schema(pa.schema([("x", pa.list_(pa.int8()))])),
], ids=["tensor", "schema"])
def test_altered_tensors_and_schemas_are_found_or_do_no_harm(thing):
    make, (header, *parts) = thing.__reduce_ex__(4)
    for place in range(len(header)):
        for bits in range(1, 256):
            read(make, header[:place] + bytes([header[place] ^ bits]) + header[place + 1:], parts)
        assert not read(make, header[:place], parts)
    if parts:
        assert not read(make, header, [parts[0][:-1]]) and not read(make, header, [parts[0] + b"\0"])


def test_types_nested_without_an_end_are_refused():
    make, (header,) = ad.schema(pa.list_(pa.int8())).__reduce__()
    start = header.index(b"+l") - 16
    child = header[start:header.index(b"item") - 8]
    with pytest.raises(ValueError, match="nested too deep"):
        make(header[:start] + child * 100_000)


def test_data_goes_back_to_its_device(device):
    for a in (ad.array([1, None, 3]).to(device), ad.record_batch({"x": ["a", None]}).to(device),
              ad.from_dlpack(np.arange(3)).to(device)):
        for protocol in PROTOCOLS:
            back = pickle.loads(pickle.dumps(a, protocol=protocol))
            assert back.device == device and type(back) is type(a)
            if isinstance(a, ad.Array):
                assert back.to_host().to_pylist() == a.to_host().to_pylist()
            else:
                assert np.from_dlpack(back.to_host()).tolist() == [0, 1, 2]


ARRIVAL = """
import pickle, sys, arrow_device as ad
try:
    print(pickle.load(sys.stdin.buffer).device)
except ad.DeviceError as error:
    print(error.device, error)
"""


def arrival(data, **variables):
    outcome = subprocess.run(
        [sys.executable, "-c", ARRIVAL], input=data, capture_output=True, timeout=60, env={**os.environ, **variables})
    assert outcome.stderr == b""
    return outcome.stdout.decode()


def test_a_device_that_is_not_there_is_named():
    a = ad.array([1, 2, 3]).to("ext_dev:0")
    data = pickle.dumps(a)
    assert arrival(data).startswith("ext_dev:")
    place = data.index(b"ADPK") + 6
    cuda = data[:place] + struct.pack("<iq", 2, 0) + data[place + 12:]
    answer = arrival(cuda, ARROW_DEVICE_CUDA_LIBRARY="/no/such/library")
    assert answer.startswith("cuda:0 ") and "this was pickled on cuda:0" in answer
    assert "Pickle `to_host()` of it" in answer


def total(batch):
    """Runs in another process."""
    assert isinstance(batch, ad.RecordBatch)
    return sum(row["x"] for row in batch), batch[1:]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_batches_go_to_other_processes_and_back(method):
    signal.alarm(120)
    context = multiprocessing.get_context(method)
    batches = [ad.record_batch({"x": np.arange(count), "y": pa.array(["a"] * count)}) for count in (2, 1000)]
    with context.Pool(2) as pool:
        answers = pool.map(total, batches)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        answers += [pool.submit(total, batch).result() for batch in batches]
    for (sum_of_all, rest), batch in zip(answers, batches * 2):
        assert sum_of_all == sum(range(len(batch))) and rest == batch[1:]
    queue = context.SimpleQueue()
    queue.put(batches[0]["y"])
    assert queue.get() == batches[0]["y"]
    signal.alarm(0)
