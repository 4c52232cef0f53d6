"""DLPack's table of functions, called as a C++ library calls it."""

import ctypes
import gc
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import (
    Deleter,
    DLManagedTensorVersioned,
    DLTensor,
    IS_COPIED,
    READ_ONLY,
    Numbers,
    TensorProducer,
    live,
    name_of,
    pointer_of,
    until,
    until_no_more_than,
)

SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Allocate = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(DLTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, SetError
)
# These set exceptions, so they are called with the interpreter's lock.
FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
CurrentStream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("allocate", Allocate),
        ("from_object", FromObject),
        ("to_object", ToObject),
        ("dltensor_from_object", ctypes.c_void_p),
        ("current_work_stream", CurrentStream),
    ]


def table(kind=ad.Tensor) -> Table:
    return Table.from_address(pointer_of(kind.__dlpack_c_exchange_api__))


# Requirement: DLP-1
def test_the_types_carry_one_table_for_the_whole_process():
    for kind in (ad.Array, ad.RecordBatch, ad.Tensor):
        assert name_of(kind.__dlpack_c_exchange_api__) == "dlpack_exchange_api"
        assert pointer_of(kind.__dlpack_c_exchange_api__) == pointer_of(ad.Tensor.__dlpack_c_exchange_api__)
    assert (table().major, table().minor, table().prev_api) == (1, 3, None)
    assert ctypes.sizeof(Table) == 56


@pytest.mark.parametrize("make", [ad.array, lambda x: ad.array(x).to_tensor()])
# Requirement: DLP-1
def test_an_object_becomes_a_tensor_without_a_python_call(make):
    numbers = Numbers()
    x, out = make(numbers), ctypes.c_void_p()
    assert table().from_object(x, ctypes.byref(out)) == 0
    managed = DLManagedTensorVersioned.from_address(out.value)
    assert managed.dl_tensor.data == ctypes.addressof(numbers.values)
    assert (managed.flags, managed.dl_tensor.shape[0]) == (READ_ONLY, 3)
    del x
    gc.collect()
    assert numbers.released_array == 0
    managed.deleter(out.value)
    until(lambda: numbers.released_array == 1)


# Requirement: DLP-1
def test_what_is_no_tensor_sets_an_exception():
    out = ctypes.c_void_p()
    for x, kind, text in [
        (ad.array(pa.array(["a"])), BufferError, "utf8"),
        (ad.array(pa.array([None, 1])), BufferError, "there are nulls"),
        (7, TypeError, "this table is not for"),
    ]:
        with pytest.raises(kind, match=text):
            # ctypes raises what a function of this kind has set.
            table().from_object(x, ctypes.byref(out))
        assert out.value is None


# Requirement: DLP-1
def test_a_tensor_becomes_an_object_without_a_python_call():
    producer, out = TensorProducer(), ctypes.py_object()
    assert table().to_object(ctypes.addressof(producer.managed), ctypes.byref(out)) == 0
    t = out.value
    assert type(t) is ad.Tensor and np.from_dlpack(t).tolist() == [0, 1, 2]
    ctypes.pythonapi.Py_DecRef(out)
    del t, out
    until(lambda: producer.deleted == 1)


# Requirement: DLP-1
def test_a_tensor_that_is_refused_is_deleted():
    producer, out = TensorProducer(ndim=-1), ctypes.py_object()
    with pytest.raises(BufferError, match="-1 dimensions"):
        table().to_object(ctypes.addressof(producer.managed), ctypes.byref(out))
    assert producer.deleted == 1


# Requirement: DLP-1
def test_tensors_are_allocated_and_may_be_written():
    before, said = live(), []
    shape = (ctypes.c_int64 * 2)(2, 3)
    like = DLTensor(device_type=1, ndim=2, code=2, bits=32, lanes=1, shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)))
    out = ctypes.c_void_p()
    report = SetError(lambda context, kind, text: said.append((kind, text)))
    assert table().allocate(ctypes.byref(like), ctypes.byref(out), None, report) == 0
    managed = DLManagedTensorVersioned.from_address(out.value)
    tensor = managed.dl_tensor
    assert managed.flags == IS_COPIED and tensor.shape[:2] == [2, 3] and tensor.strides[:2] == [3, 1]
    (ctypes.c_float * 6).from_address(tensor.data)[:] = range(6)
    result = ctypes.py_object()
    assert table().to_object(out.value, ctypes.byref(result)) == 0
    assert np.from_dlpack(result.value).tolist() == [[0, 1, 2], [3, 4, 5]]
    ctypes.pythonapi.Py_DecRef(result)
    del result
    until_no_more_than(before, live)

    like.ndim = -1
    assert table().allocate(ctypes.byref(like), ctypes.byref(out), None, report) == -1
    [(kind, text)] = said
    assert kind == b"BufferError" and b"dimensions" in text
    like.ndim, like.device_type = 2, 17
    assert table().allocate(ctypes.byref(like), ctypes.byref(out), None, report) == -1
    assert b"no backend" in said[-1][1]
    like.device_type = 1
    for code, bits, lanes in [(2, 0, 1), (2, 32, 0), (99, 32, 1), (2, 33, 1)]:
        like.code, like.bits, like.lanes = code, bits, lanes
        assert table().allocate(ctypes.byref(like), ctypes.byref(out), None, report) == -1
        kind, text = said[-1]
        assert kind == b"BufferError" and (b"bits" in text or b"that this library knows" in text), text


# Requirement: DLP-1
def test_the_host_has_no_stream():
    out = ctypes.c_void_p(7)
    assert table().current_work_stream(1, 0, ctypes.byref(out)) == 0 and out.value is None


def advertised(device):
    """The stream that the table names for a device."""
    out = ctypes.c_void_p()
    assert table().current_work_stream(*device, ctypes.byref(out)) == 0
    return out.value


def handed_out(x):
    """The address of the tensor that the table makes of an object."""
    out = ctypes.c_void_p()
    assert table().from_object(x, ctypes.byref(out)) == 0
    return out.value


def taken_over(address):
    """The object that the table makes of a tensor."""
    out = ctypes.py_object()
    assert table().to_object(address, ctypes.byref(out)) == 0
    value = out.value
    ctypes.pythonapi.Py_DecRef(out)
    return value


# Requirement: DLP-8, SAF-36
def test_what_goes_through_the_table_is_in_the_order_of_the_advertised_stream(software):
    source = ad.array(pa.array(range(1000))).to(software)
    assert not source.ready
    there = taken_over(handed_out(source))
    assert not there.ready and not source.ready, "nobody has waited"
    assert there.to_array().to_host() == ad.array(pa.array(range(1000)))
    again = taken_over(handed_out(there))
    assert again.to_array().to_host() == ad.array(pa.array(range(1000)))


# Requirement: DLP-8, SAF-36
def test_each_device_has_one_advertised_stream(software):
    device = ad.array(pa.array([1])).to(software).__dlpack_device__()
    assert advertised(device) is not None
    assert advertised(device) == advertised(device)
    out = ctypes.c_void_p(7)
    with pytest.raises(ad.DeviceError, match="no backend"):
        table().current_work_stream(17, 0, ctypes.byref(out))
    assert out.value == 7


# Requirement: DLP-8, SAF-36
def test_memory_of_the_table_is_filled_in_the_order_of_the_advertised_stream(software):
    device_type, device_id = ad.array(pa.array([1])).to(software).__dlpack_device__()
    shape = (ctypes.c_int64 * 1)(8)
    like = DLTensor(device_type=device_type, device_id=device_id, ndim=1, code=0, bits=8, lanes=1,
                    shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)))
    out = ctypes.c_void_p()
    assert table().allocate(ctypes.byref(like), ctypes.byref(out), None, SetError(lambda *_: None)) == 0
    there = taken_over(out.value)
    assert not there.ready, "whoever fills it has submitted that to the advertised stream"


# Requirement: DLP-10
def test_allocated_tensors_are_deleted_on_any_thread():
    before = live()
    shape = (ctypes.c_int64 * 1)(3)
    like = DLTensor(device_type=1, ndim=1, code=0, bits=8, lanes=1, shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)))
    out = ctypes.c_void_p()
    assert table().allocate(ctypes.byref(like), ctypes.byref(out), None, SetError(lambda *_: None)) == 0
    managed = DLManagedTensorVersioned.from_address(out.value)
    delete = Deleter(ctypes.cast(managed.deleter, ctypes.c_void_p).value)
    thread = threading.Thread(target=delete, args=(out.value,))
    thread.start()
    thread.join()
    until_no_more_than(before, live)
