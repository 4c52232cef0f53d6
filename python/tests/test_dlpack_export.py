"""DLPack, as a producer: arrays and tensors that numpy and hand-written consumers take."""

import ctypes
import gc
import inspect
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import (
    DLManagedTensor,
    DLManagedTensorVersioned,
    IS_COPIED,
    READ_ONLY,
    Numbers,
    live,
    name_of,
    rename,
    struct_of,
    until,
)

NUMERIC = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def versioned(x, **kwargs):
    made = x.__dlpack__(max_version=(1, 3), **kwargs)
    return made, struct_of(made, DLManagedTensorVersioned)


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.to_tensor()])
# Requirement: DLP-3
def test_objects_have_both_methods_with_the_standards_signature(make):
    x = make(ad.array(pa.array([1, 2])))
    signature = inspect.signature(type(x).__dlpack__)
    given = {name: each.default for name, each in signature.parameters.items() if name != "self"}
    assert given == {"stream": None, "max_version": None, "dl_device": None, "copy": None}
    kinds = {each.kind for name, each in signature.parameters.items() if name != "self"}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    assert x.__dlpack_device__() == (1, 0)
    assert all(type(part) is int for part in x.__dlpack_device__())


@pytest.mark.parametrize("name", NUMERIC)
# Requirement: DLP-4
def test_numbers_of_every_type_are_shared(name):
    values = np.arange(5).astype(name)
    array = ad.array(pa.array(values))
    there = np.from_dlpack(array)
    assert there.dtype == name and (there == values).all()
    assert there.ctypes.data == pa.array(array).buffers()[1].address
    assert (np.from_dlpack(array.slice(1, 3)) == values[1:4]).all()
    assert np.from_dlpack(array.slice(5)).shape == (0,)


@pytest.mark.parametrize("name", ["bool", "complex64", "complex128"])
# Requirement: DLP-4
def test_what_arrow_has_no_numbers_of_makes_the_round_trip(name):
    values = np.array([0, 1, 1, 0]).astype(name)
    t = ad.from_dlpack(values)
    assert t.dtype == name
    for again in (np.from_dlpack(t), np.from_dlpack(t.to_array())):
        assert again.dtype == name and (again == values).all()


# Requirement: DLP-4, DLP-5
def test_booleans_of_arrow_are_bits_and_become_bytes():
    bits = ad.array(pa.array([True, False, True]))
    assert np.from_dlpack(bits).tolist() == [True, False, True]
    _, made = versioned(bits)
    assert made.flags & IS_COPIED
    with pytest.raises(BufferError, match="allow a copy"):
        bits.__dlpack__(max_version=(1, 0), copy=False)


@pytest.mark.parametrize("max_version, name", [
    (None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"),
    ((1, 3), "dltensor_versioned"), ((2, 0), "dltensor_versioned"), ((100, 3), "dltensor_versioned"),
])
# Requirement: DLP-11
def test_the_form_is_the_newest_that_the_consumer_understands(max_version, name):
    for x in (ad.array(pa.array([1, 2])), ad.from_dlpack(np.arange(2))):
        made = x.__dlpack__(max_version=max_version)
        assert name_of(made) == name
        if name == "dltensor_versioned":
            structure = struct_of(made, DLManagedTensorVersioned)
            assert (structure.major, structure.minor) == (1, 3), "our own version, whatever was asked"


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("kind", ["array", "tensor"])
# Requirement: DLP-5, DLP-12
def test_flags_and_copies_are_honest(copy, max_version, kind):
    source = pa.array([1, 2, 3])
    x = ad.array(source)
    x = x if kind == "array" else x.to_tensor()
    address = source.buffers()[1].address
    if max_version is None:
        if copy is False:
            with pytest.raises(BufferError, match="cannot say that memory is read-only"):
                x.__dlpack__(copy=False)
            return
        made = x.__dlpack__(copy=copy)
        assert struct_of(made, DLManagedTensor).dl_tensor.data != address
        return
    made, structure = versioned(x, copy=copy)
    shared = structure.dl_tensor.data == address
    assert shared == (copy is not True)
    assert structure.flags == (READ_ONLY if shared else IS_COPIED)


# Requirement: DLP-12
def test_nobody_can_write_to_what_is_shared():
    there = np.from_dlpack(ad.array(pa.array([1, 2])))
    assert not there.flags.writeable
    own = np.from_dlpack(ad.array(pa.array([1, 2])), copy=True)
    own[0] = 7
    assert own.tolist() == [7, 2]


# Requirement: DLP-6
def test_a_capsule_that_nobody_consumes_frees_its_tensor():
    numbers, before = Numbers(), live()
    a = ad.array(numbers)
    for max_version in (None, (1, 0)):
        made = a.__dlpack__(max_version=max_version)
        assert live()["capsules"] == before["capsules"] + 1
        del made
    del a
    until(lambda: numbers.released_array == 1)
    assert live() == before


# Requirement: DLP-6
def test_a_consumed_capsule_leaves_the_tensor_to_its_consumer():
    numbers = Numbers()
    a = ad.array(numbers)
    made, structure = versioned(a)
    rename(made, b"used_dltensor_versioned")
    address, delete = ctypes.addressof(structure), structure.deleter
    del made, a
    gc.collect()
    assert numbers.released_array == 0
    delete(address)
    until(lambda: numbers.released_array == 1)


# Requirement: DLP-10
def test_the_deleter_runs_on_any_thread_without_the_interpreters_lock():
    numbers = Numbers()
    a = ad.array(numbers)
    made, structure = versioned(a)
    rename(made, b"used_dltensor_versioned")
    delete = ctypes.cast(structure.deleter, ctypes.c_void_p).value
    # ctypes.CFUNCTYPE gives the lock away during the call.
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)
    address = ctypes.addressof(structure)
    del made, a
    thread = threading.Thread(target=call, args=(address,))
    thread.start()
    thread.join()
    until(lambda: numbers.released_array == 1)


# Requirement: DLP-7
def test_strides_are_written_and_an_empty_tensor_has_no_address():
    _, made = versioned(ad.array(pa.array([1, 2, 3])))
    assert made.dl_tensor.strides[0] == 1 and made.dl_tensor.byte_offset == 0
    for empty in (ad.array(pa.array([], pa.int32())), ad.from_dlpack(np.zeros((2, 0)))):
        _, made = versioned(empty)
        assert made.dl_tensor.data is None
    scalar, made = versioned(ad.from_dlpack(np.array(7)))
    assert made.dl_tensor.ndim == 0 and np.from_dlpack(ad.from_dlpack(np.array(7))).item() == 7


@pytest.mark.parametrize("array, why", [
    (pa.array([1, None]), "there are nulls"),
    (pa.array(["a"]), "utf8"),
    (pa.array([[1], [2, 3]]), "list"),
    (pa.array([1], pa.timestamp("s")), "timestamp"),
    (pa.array([1], pa.decimal128(5)), "decimal"),
])
# Requirement: DLP-9
def test_data_that_is_no_tensor_is_a_buffer_error(array, why):
    for kwargs in ({}, {"max_version": (1, 0)}, {"copy": True}):
        with pytest.raises(BufferError, match=why) as caught:
            ad.array(array).__dlpack__(**kwargs)
        assert not isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ad.ExchangeError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("kwargs", [
    {"stream": 1}, {"stream": "x"}, {"max_version": 1}, {"max_version": (1,)}, {"dl_device": "cpu"},
    {"dl_device": (1, 0, 0)}, {"stream": -2},
])
# Requirement: DLP-9
def test_arguments_that_are_none_are_no_type_errors(kwargs):
    with pytest.raises(ValueError):
        ad.array(pa.array([1])).__dlpack__(**kwargs)


def test_a_tensor_goes_to_no_other_device_but_the_host():
    a = ad.array(pa.array([1, 2]))
    assert name_of(a.__dlpack__(dl_device=(1, 0), max_version=(1, 0))) == "dltensor_versioned"
    with pytest.raises(BufferError, match=r"and not on device \(2, 0\)"):
        a.__dlpack__(dl_device=(2, 0))


def test_lists_of_fixed_size_have_more_dimensions():
    values = np.arange(24, dtype="int32").reshape(2, 3, 4)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    assert (np.from_dlpack(ad.array(tensors)) == values).all()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(range(6)), 3)
    assert np.from_dlpack(ad.array(lists)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.from_dlpack(ad.array(lists).slice(1)).tolist() == [[3, 4, 5]]


def test_nulls_and_times_can_be_asked_for():
    gaps = ad.array(pa.array([1.5, None]))
    assert np.isnan(np.from_dlpack(gaps.to_tensor(nulls="nan"))[1])
    assert np.from_dlpack(gaps.to_tensor(nulls=-1)).tolist() == [1.5, -1]
    assert np.from_dlpack(ad.array(pa.array([1, None])).to_tensor(nulls=7)).tolist() == [1, 7]
    assert np.from_dlpack(ad.array(pa.array([True, None])).to_tensor(nulls=True)).tolist() == [True, True]
    with pytest.raises(BufferError, match="there are nulls"):
        gaps.to_tensor()
    with pytest.raises(OverflowError):
        ad.array(pa.array([1, None], pa.int8())).to_tensor(nulls=1000)
    times = ad.array(pa.array([1, 2], pa.timestamp("s")))
    assert np.from_dlpack(times.to_tensor(as_integers=True)).tolist() == [1, 2]
    with pytest.raises(BufferError):
        ad.array(pa.array([True])).to_tensor(copy=False)


# Requirement: DLP-8
def test_the_consumers_stream_waits_and_the_host_does_not(software):
    source = ad.array(pa.array(range(100))).to(software)
    queue = software.queue()
    assert not source.ready
    made = source.__dlpack__(stream=queue.handle, max_version=(1, 3))
    # Nothing has run on the device, so nobody has waited.
    assert not source.ready and not queue.idle
    assert struct_of(made, DLManagedTensorVersioned).dl_tensor.device_type == 12
    unordered = source.__dlpack__(stream=-1, max_version=(1, 3))
    assert not source.ready
    without = source.__dlpack__(max_version=(1, 3))
    assert source.ready, "a consumer without a stream gets data that is complete"
    del made, unordered, without


# Requirement: DLP-8
def test_a_tensor_of_a_device_comes_to_the_host_when_asked(software):
    source = ad.array(pa.array(range(100))).to(software)
    made, structure = versioned(source, dl_device=(1, 0))
    assert structure.dl_tensor.device_type == 1 and structure.flags == IS_COPIED
    assert np.from_dlpack(ad.from_dlpack(made)).tolist() == list(range(100))
    with pytest.raises(BufferError, match="by a copy only"):
        source.__dlpack__(dl_device=(1, 0), copy=False)
    # The stream is one of the device that the data comes from.
    queue = software.queue()
    for stream in (-1, None, queue.handle):
        made, structure = versioned(source, dl_device=(1, 0), stream=stream)
        assert np.from_dlpack(ad.from_dlpack(made)).tolist() == list(range(100))
    with pytest.raises(ValueError, match="`stream` is -1, a stream or None on ext_dev"):
        source.__dlpack__(dl_device=(1, 0), stream=-2)
    assert np.from_dlpack(source, device="cpu").tolist() == list(range(100))


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit of the process's addresses")
@pytest.mark.parametrize("make, convert", [
    ("pa.array(np.zeros(100_000_000, dtype=bool))", "a.to_tensor()"),
    ("pa.array(np.zeros(20_000_000), mask=np.arange(20_000_000) % 2 == 0)", "a.to_tensor(nulls=0.0)"),
])
def test_a_conversion_without_memory_is_a_memory_error(make, convert):
    program = f"""
import resource, numpy as np, pyarrow as pa, arrow_device as ad
a = ad.array({make})
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (5 << 20),) * 2)
try:
    {convert}
except MemoryError as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("OutOfMemoryError\n", 0), done.stderr
