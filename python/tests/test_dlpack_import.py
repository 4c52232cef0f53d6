"""DLPack, as a consumer: tensors of numpy and of hand-written producers, old and new, right and wrong."""

import array
import ctypes
import gc
import mmap
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import (
    IS_COPIED,
    READ_ONLY,
    OldTensorProducer,
    TensorProducer,
    live,
    name_of,
    rename,
    until,
    until_no_more_than,
)


def values(x):
    return np.from_dlpack(x).tolist()


# Requirement: DLP-2
def test_a_producer_is_asked_for_the_newest_form():
    producer = TensorProducer()
    assert values(ad.from_dlpack(producer)) == [0, 1, 2]
    assert producer.asked == [{"max_version": (1, 3)}]
    assert name_of(producer.made) == "used_dltensor_versioned"


@pytest.mark.parametrize("kwargs", [{}, {"copy": True}, {"device": "cpu"}, {"copy": False}])
# Requirement: DLP-2, DLP-11
def test_a_producer_with_the_old_signature_is_taken(kwargs):
    producer = OldTensorProducer()
    t = ad.from_dlpack(producer, **kwargs)
    assert values(t) == [0, 1, 2] and producer.asked == [{"stream": None}]
    assert name_of(producer.made) == "used_dltensor"
    producer.values[0] = 9
    assert values(t)[0] == (0 if kwargs.get("copy") else 9), "a copy that was asked for is made here"


# Requirement: DLP-2, DLP-11
def test_the_older_form_is_taken_from_a_producer_that_was_asked_for_the_newer():
    class Legacy(TensorProducer):
        def __init__(self):
            super().__init__(versioned=False)

    assert values(ad.from_dlpack(Legacy())) == [0, 1, 2]


# Requirement: DLP-2
def test_what_was_asked_for_is_passed_on():
    for kwargs in ({"copy": True}, {"copy": False}):
        producer = TensorProducer(flags=IS_COPIED)
        ad.from_dlpack(producer, **kwargs)
        assert producer.asked == [{"max_version": (1, 3), **kwargs}]
    elsewhere = TensorProducer(flags=IS_COPIED, device_type=2)
    elsewhere.__class__ = type("OnGpu", (TensorProducer,), {"__dlpack_device__": lambda self: (2, 0)})
    elsewhere.managed.dl_tensor.device_type = 1
    assert ad.from_dlpack(elsewhere, device="cpu").device == ad.device("cpu")
    assert elsewhere.asked == [{"max_version": (1, 3), "dl_device": (1, 0)}]


# Requirement: DLP-2
def test_an_object_without_the_methods_is_an_attribute_error():
    class Half:
        def __dlpack__(self):
            raise AssertionError("not before the device is known")

    for x in (object(), Half(), 7):
        with pytest.raises(AttributeError, match="__dlpack"):
            ad.from_dlpack(x)


@pytest.mark.parametrize("device, name", [((2, 0), "cuda:0"), ((8, 1), "metal:1"), ((4711, 3), r"device_type\(4711\):3")])
# Requirement: DLP-9
def test_a_device_that_is_not_supported_is_named(device, name):
    producer = TensorProducer(device_type=device[0], device_id=device[1])
    with pytest.raises(TypeError, match=f"tensors on {name} are not supported here"):
        ad.from_dlpack(producer)
    assert producer.asked == [], "and its producer is asked for nothing"


# Requirement: DLP-2
def test_a_producers_own_error_comes_out_as_it_was():
    class Refuses(TensorProducer):
        def __dlpack__(self, **kwargs):
            raise BufferError("not today")

    class Confused(TensorProducer):
        def __dlpack__(self, stream=None):
            raise TypeError("nulls")

    with pytest.raises(BufferError, match="not today"):
        ad.from_dlpack(Refuses())
    with pytest.raises(TypeError, match="nulls"):
        ad.from_dlpack(Confused())
    with pytest.raises(TypeError, match="__dlpack__ gives a capsule"):
        ad.from_dlpack(type("Wrong", (TensorProducer,), {"__dlpack__": lambda self, **kwargs: 7})())


@pytest.mark.parametrize("make", [TensorProducer, OldTensorProducer])
# Requirement: DLP-6
def test_a_tensor_is_deleted_once_when_its_last_use_is_over(make):
    producer = make()
    t = ad.from_dlpack(producer)
    a = t.to_array()
    view = np.from_dlpack(a)
    del t, a
    gc.collect()
    assert producer.deleted == 0
    del view
    until(lambda: producer.deleted == 1)
    del producer.made
    gc.collect()
    assert producer.deleted == 1


# Requirement: DLP-6
def test_a_capsule_is_consumed_once():
    producer = TensorProducer()
    made = producer.capsule()
    t = ad.from_dlpack(made)
    with pytest.raises(ValueError, match="the capsule was consumed already"):
        ad.from_dlpack(made)
    assert producer.deleted == 0
    del t
    until(lambda: producer.deleted == 1)


# Requirement: DLP-6
def test_a_capsule_of_another_name_is_left_alone():
    producer = TensorProducer()
    made = producer.capsule()
    rename(made, b"tensor")
    with pytest.raises(ValueError, match="expected a capsule named 'dltensor' or 'dltensor_versioned', got 'tensor'"):
        ad.from_dlpack(made)
    assert producer.deleted == 0


@pytest.mark.parametrize("faults", [
    {"ndim": -1}, {"ndim": 65}, {"bits": 0}, {"lanes": 0}, {"code": 99}, {"data": None},
    {"has_shape": False}, {"device_type": 0}, {"device_type": -1}, {"bits": 7},
    {"byte_offset": 2**64 - 1},
])
@pytest.mark.parametrize("make", [TensorProducer, lambda **faults: TensorProducer(versioned=False, **faults)])
# Requirement: DLP-6
def test_a_malformed_tensor_is_refused_and_deleted_once(make, faults):
    producer = make(**faults)
    made = producer.capsule()
    with pytest.raises(ValueError):
        ad.from_dlpack(made)
    assert producer.deleted == 1
    assert name_of(made).startswith("used_"), "it is renamed before anything can fail"


@pytest.mark.parametrize("shape, strides", [
    ((-1,), (1,)), ((2**62, 4), (4, 1)), ((2,), (2**62,)), ((2**31, 2**31, 2**31), None),
])
# Requirement: DLP-6
def test_a_shape_that_no_memory_has_is_refused(shape, strides):
    producer = TensorProducer(shape=shape, strides=strides)
    with pytest.raises(ValueError):
        ad.from_dlpack(producer)
    assert producer.deleted == 1


# Requirement: DLP-11
def test_of_an_unknown_major_version_only_the_deleter_is_used():
    producer = TensorProducer(version=(2, 0), ndim=-1, code=99)
    with pytest.raises(BufferError, match="DLPack 2.0"):
        ad.from_dlpack(producer)
    assert producer.deleted == 1


def test_a_tensor_without_a_deleter_is_taken():
    from support import Deleter

    t = ad.from_dlpack(TensorProducer(deleter=Deleter()))
    assert values(t) == [0, 1, 2]


# Requirement: DLP-7
def test_strides_may_be_missing_odd_negative_or_zero():
    cases = [
        (((2, 3), None, 0), [[0, 1, 2], [3, 4, 5]]),
        (((3,), (2,), 0), [0, 2, 4]),
        (((3,), (-1,), 8), [2, 1, 0]),
        (((2, 2), (1, 2), 0), [[0, 2], [1, 3]]),
        (((2, 2), (0, 1), 4), [[1, 2], [1, 2]]),
        (((1, 3), (77, 1), 0), [[0, 1, 2]]),
        (((), None, 12), 3),
        (((0, 4), (4, 1), 0), []),
    ]
    for (shape, strides, offset), expected in cases:
        t = ad.from_dlpack(TensorProducer(shape=shape, strides=strides, byte_offset=offset))
        assert t.shape == shape
        assert values(t) == expected, (shape, strides)
        flat = [expected] if shape == () else expected
        assert pa.array(t.to_array(as_lists=True)).to_pylist() == flat, (shape, strides)


# Requirement: DLP-5
def test_a_tensor_becomes_an_array_without_a_copy_where_it_can():
    producer = TensorProducer()
    t = ad.from_dlpack(producer)
    shared, own = t.to_array(copy=False), t.to_array(copy=True)
    producer.values[0] = 9
    assert (pa.array(shared)[0].as_py(), pa.array(own)[0].as_py()) == (9, 0)
    turned = ad.from_dlpack(TensorProducer(shape=(3,), strides=(2,)))
    with pytest.raises(BufferError, match="do not lie as those of an array"):
        turned.to_array(copy=False)
    with pytest.raises(BufferError, match="booleans are bytes in DLPack and bits in Arrow"):
        ad.from_dlpack(np.array([True])).to_array(copy=False, pack_bools=True)
    assert ad.from_dlpack(np.array([True])).to_array(pack_bools=True).type == "bool"


# Requirement: DLP-5
def test_a_tensor_that_has_to_move_is_not_moved_without_a_copy(software):
    for x in (np.arange(3), TensorProducer(), OldTensorProducer()):
        with pytest.raises(BufferError, match="by a copy only"):
            ad.from_dlpack(x, device=software, copy=False)
    there = ad.from_dlpack(np.arange(6).reshape(2, 3), device=software)
    assert (there.device, there.shape) == (software, (2, 3))
    assert values(there.to_host()) == [[0, 1, 2], [3, 4, 5]]
    back = ad.from_dlpack(there, device="cpu")
    assert values(back) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError):
        ad.from_dlpack(there, device="cpu", copy=False)


# Requirement: DLP-8
def test_an_old_producer_is_told_the_stream_that_copies_to_the_host(software):
    class Old:
        asked = []

        def __init__(self):
            self.source = ad.array(pa.array(range(100))).to(software)

        def __dlpack__(self, stream=None):
            self.asked.append(stream)
            return self.source.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return self.source.__dlpack_device__()

    assert values(ad.from_dlpack(Old(), device="cpu")) == list(range(100))
    [stream] = Old.asked
    assert stream is not None, "the producer ordered the default stream, and another one copied"


# Requirement: DLP-12
def test_read_only_is_kept_and_what_is_shared_stays_read_only():
    for flags in (READ_ONLY, 0):
        t = ad.from_dlpack(TensorProducer(flags=flags))
        assert not np.from_dlpack(t).flags.writeable
    frozen = np.arange(3)
    frozen.flags.writeable = False
    assert values(ad.from_dlpack(frozen)) == [0, 1, 2]
    assert "Nobody may write" in ad.from_dlpack.__doc__.replace("\n", " ")


# Requirement: DLP-10
def test_a_tensor_may_be_dropped_on_any_thread():
    producer = TensorProducer()
    held = [ad.from_dlpack(producer)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    until(lambda: producer.deleted == 1)


# Requirement: DLP-8
def test_a_producer_on_a_device_is_told_the_queue_that_will_wait(software):
    source = ad.array(pa.array(range(100))).to(software)

    class Spy:
        asked = []

        def __dlpack__(self, **kwargs):
            self.asked.append(kwargs)
            return source.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return source.__dlpack_device__()

    t = ad.from_dlpack(Spy())
    [asked] = Spy.asked
    assert asked["stream"] > 2 and asked["max_version"] == (1, 3)
    assert not source.ready and not t.ready, "nobody has waited"
    assert t.device == software
    assert values(t.to_host()) == list(range(100))


@pytest.mark.parametrize("make", [
    lambda: bytes([1, 2, 3]),
    lambda: bytearray([1, 2, 3]),
    lambda: memoryview(bytes([0, 1, 2, 3]))[1:],
    lambda: array.array("B", [1, 2, 3]),
    lambda: array.array("d", [1, 2, 3]),
    lambda: array.array("q", [1, 2, 3]),
    lambda: memoryview(bytes([1, 0, 2, 0, 3, 0]))[::2],
    lambda: memoryview(bytes([3, 2, 1]))[::-1],
    lambda: (ctypes.c_int16 * 3)(1, 2, 3),
])
# Requirement: DLP-1
def test_pythons_buffers_are_taken(make):
    assert pa.array(ad.array(make())).to_pylist() == [1, 2, 3]


def test_a_buffer_is_held_as_long_as_its_data():
    source = bytearray(b"abc")
    a = ad.array(source)
    with pytest.raises(BufferError):
        source.append(1)
    del a
    ad.release_finished()
    source.append(1)
    with mmap.mmap(-1, 16) as memory:
        a = ad.array(memory)
        assert len(a) == 16
        with pytest.raises(BufferError):
            memory.close()
        del a


@pytest.mark.parametrize("value", [
    np.array(2.5), np.array(2, dtype="int16"), np.array(True), np.array(1.5, dtype="float16"), np.array(3, dtype="<u4"),
    ctypes.c_double(1.5), np.array(2 + 1j),
])
def test_a_buffer_of_no_dimension_is_an_array_of_one_element(value):
    view = memoryview(value)
    assert view.ndim == 0
    a = ad.array(view)
    expected = value if isinstance(value, np.ndarray) else np.array(value.value)
    assert len(a) == 1 and a == ad.array(expected) and a.type == ad.array(expected).type
    assert np.from_dlpack(a)[0] == expected


def test_a_buffer_of_no_dimension_is_refused_for_its_format_too():
    with pytest.raises(BufferError, match="format '>i'"):
        ad.array(memoryview(np.array(1, dtype=">i4")))


def test_a_buffer_that_is_no_tensor_is_refused():
    for wrong in (memoryview(b"ab").cast("c").cast("B").toreadonly()[:0], ):
        assert len(ad.array(wrong)) == 0
    big = np.arange(3, dtype=">i4")
    with pytest.raises(BufferError, match="format '>i'"):
        ad.array(memoryview(big))
    with pytest.raises(BufferError):
        ad.array(memoryview(np.zeros(2, dtype=[("a", "i4")])))


# The cases that the array API has for DLPack, for a library whose arrays these are.
@pytest.mark.parametrize("dtype", [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "complex64", "complex128",
])
# Requirement: DLP-4
def test_every_type_of_the_array_api_keeps_its_device_its_shape_and_its_values(dtype):
    for shape in ((), (0,), (3,), (2, 3), (2, 0, 3), (1, 1, 1, 2)):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        t = ad.from_dlpack(x)
        kind, number = t.__dlpack_device__()
        assert isinstance(kind, int) and isinstance(number, int)
        for copy in (None, True, False):
            for device in (None, t.device):
                y = ad.from_dlpack(t, device=device, copy=copy)
                assert (y.device, y.shape, y.dtype) == (t.device, shape, dtype)
                assert (np.from_dlpack(y) == x).all()
        for major in (0, 1, 2):
            for copy in (None, True):
                for dl_device in (None, (1, 0)):
                    t.__dlpack__(max_version=(major, 0), copy=copy, dl_device=dl_device)


def test_tensors_leave_nothing_behind():
    before = live()
    for _ in range(20):
        t = ad.from_dlpack(np.arange(5))
        t.to_array(copy=True), t.__dlpack__(), np.from_dlpack(t), t.permute([0])
    del t
    until_no_more_than(before, live)
