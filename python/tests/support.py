"""What the tests share: C structs by ctypes, capsules of any kind, and counts of what is alive."""

from __future__ import annotations

import ctypes
import gc
import os
import time
import threading

import pytest

import arrow_device as ad
import arrow_device.testing


def skip(name: str, reason: object):
    """Leaves a test out with its reason, or fails where the thing may not be missing."""
    required = [word.strip() for word in os.environ.get("ARROW_DEVICE_REQUIRE", "").split(",")]
    if os.environ.get("CI") == "true" or name in required or "all" in required:
        pytest.fail(f"{name} is required: {reason}")
    pytest.skip(f"skipped: {name}: {reason}")


def live() -> dict[str, int]:
    gc.collect()
    return ad.testing.live_objects()


def until(condition, seconds=60.0):
    """Waits for what another thread does: memory is given back by whichever thread comes by."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        ad.testing.run_until_idle()
        ad.release_finished()
        gc.collect()
        time.sleep(0.001)


def is_no_more_than(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether no number is higher than before.

    A lower number is right: another thread may have been letting go of what an earlier test had when `before` was counted.
    """
    return all(number <= before[name] for name, number in now.items())


def until_no_more_than(before: dict[str, int], count):
    """Waits until `count()` has no number that is higher than before."""
    until(lambda: is_no_more_than(before, count()))


# Arrow's C structs.
class ArrowSchema(ctypes.Structure):
    pass


ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]


class ArrowArray(ctypes.Structure):
    pass


ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ReleaseArray),
    ("private_data", ctypes.c_void_p),
]


class ArrowDeviceArray(ctypes.Structure):
    _fields_ = [
        ("array", ArrowArray),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    ]


class ArrowArrayStream(ctypes.Structure):
    pass


def _stream_callbacks(stream, array):
    pointer = ctypes.POINTER(stream)
    return (
        ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.POINTER(ArrowSchema)),
        ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.POINTER(array)),
        ctypes.CFUNCTYPE(ctypes.c_void_p, pointer),
        ctypes.CFUNCTYPE(None, pointer),
    )


def _stream_fields(callbacks):
    names = ("get_schema", "get_next", "get_last_error", "release")
    return [*zip(names, callbacks), ("private_data", ctypes.c_void_p)]


StreamCallbacks = _stream_callbacks(ArrowArrayStream, ArrowArray)
ArrowArrayStream._fields_ = _stream_fields(StreamCallbacks)


class ArrowDeviceArrayStream(ctypes.Structure):
    pass


DeviceStreamCallbacks = _stream_callbacks(ArrowDeviceArrayStream, ArrowDeviceArray)
ArrowDeviceArrayStream._fields_ = [
    ("device_type", ctypes.c_int32),
    *_stream_fields(DeviceStreamCallbacks),
]


# DLPack's C structs.
class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", Deleter),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


READ_ONLY, IS_COPIED = 1, 2

# Python's functions for capsules.
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

# A capsule does not copy its name, and neither the struct that it points to.
_kept: dict[bytes, bytes] = {}


def capsule(structure, name: bytes):
    """A capsule with this struct, which somebody else keeps, and without a destructor."""
    return _new(ctypes.addressof(structure), _kept.setdefault(name, name), None)


def name_of(capsule) -> str:
    return _name(capsule).decode()


def pointer_of(capsule) -> int:
    return _pointer(capsule, _name(capsule))


def rename(capsule, name: bytes):
    assert _rename(capsule, _kept.setdefault(name, name)) == 0


def struct_of(capsule, kind):
    """The struct in a capsule, as long as the capsule lives."""
    return kind.from_address(pointer_of(capsule))


# Producers whose callbacks may be called as long as anything that they made lives: for ever, as far
# as a test knows.
KEPT: list[object] = []


class Numbers:
    """A hand-written producer: int32 numbers in host memory, by the Arrow PyCapsule protocol, with counted releases."""

    def __init__(self, count=3, **faults):
        KEPT.append(self)
        self.values = (ctypes.c_int32 * count)(*range(1, count + 1))
        self.released_schema = 0
        self.released_array = 0
        self.threads = []
        self.faults = faults
        self.schema = ArrowSchema(format=b"i", name=b"", flags=2)
        self.device_array = ArrowDeviceArray(device_id=-1, device_type=1)
        self.buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(self.values))
        array = self.device_array.array
        array.length, array.n_buffers = count, 2
        array.buffers = ctypes.cast(self.buffers, ctypes.POINTER(ctypes.c_void_p))
        self._callbacks = ReleaseSchema(self._release_schema), ReleaseArray(self._release_array)
        self.schema.release, array.release = self._callbacks
        for name, value in faults.items():
            for structure in (array, self.device_array, self.schema):
                if name in dict(structure._fields_):
                    setattr(structure, name, value)
                    break
            else:
                raise AssertionError(name)

    def _release_schema(self, schema):
        self.released_schema += 1
        schema.contents.release = ReleaseSchema()

    def _release_array(self, array):
        self.released_array += 1
        self.threads.append(threading.get_ident())
        array.contents.release = ReleaseArray()

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        return (
            capsule(self.schema, b"arrow_schema"),
            capsule(self.device_array, b"arrow_device_array"),
        )


class HostNumbers(Numbers):
    """The same with the method for host memory only."""

    __arrow_c_device_array__ = property()

    def __arrow_c_array__(self, requested_schema=None):
        return capsule(self.schema, b"arrow_schema"), capsule(self.device_array.array, b"arrow_array")


class OnDevice:
    """Hands an object on by the methods for devices only, as a producer that has no other does."""

    def __init__(self, inner):
        self.inner = inner

    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        return self.inner.__arrow_c_device_array__(requested_schema, **kwargs)


class DeviceStreamOnly:
    """The same for streams."""

    def __init__(self, inner):
        self.inner = inner

    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        return self.inner.__arrow_c_device_stream__(requested_schema, **kwargs)


class TensorProducer:
    """A hand-written producer of DLPack: int32 numbers in host memory, in either form, with counted deletions."""

    def __init__(self, versioned=True, shape=(3,), strides=(1,), flags=0, version=(1, 3), has_shape=True, **faults):
        KEPT.append(self)
        self.values = (ctypes.c_int32 * 64)(*range(64))
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.deleted = 0
        self.asked = []
        self.threads = []
        self.versioned = versioned
        self._deleter = Deleter(self._delete)
        if versioned:
            self.managed = DLManagedTensorVersioned(major=version[0], minor=version[1], flags=flags)
        else:
            self.managed = DLManagedTensor()
        self.managed.deleter = self._deleter
        tensor = self.managed.dl_tensor
        tensor.data, tensor.device_type, tensor.ndim = ctypes.addressof(self.values), 1, len(shape)
        tensor.code, tensor.bits, tensor.lanes = 0, 32, 1
        if has_shape:
            tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides is not None:
            tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for name, value in faults.items():
            setattr(tensor if name in dict(DLTensor._fields_) else self.managed, name, value)

    def _delete(self, _):
        self.deleted += 1
        self.threads.append(threading.get_ident())

    def capsule(self):
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        self.made = capsule(self.managed, name)
        return self.made

    def __dlpack__(self, **kwargs):
        self.asked.append(kwargs)
        return self.capsule()

    def __dlpack_device__(self):
        tensor = self.managed.dl_tensor
        return tensor.device_type, tensor.device_id


class OldTensorProducer(TensorProducer):
    """With the signature of before DLPack 1.0."""

    def __init__(self, **kwargs):
        super().__init__(versioned=False, **kwargs)

    def __dlpack__(self, stream=None):
        self.asked.append({"stream": stream})
        return self.capsule()


class EventTable(ctypes.Structure):
    """What `sync_event` of a software device points to."""


_Query = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(EventTable))
_Wait = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(EventTable), ctypes.c_int64)
EventTable._fields_ = [
    ("magic", ctypes.c_uint64),
    ("version", ctypes.c_uint32),
    ("size", ctypes.c_uint32),
    ("query", _Query),
    ("wait", _Wait),
    ("queue_wait", ctypes.c_void_p),
    ("context", ctypes.c_void_p),
]
EAGAIN = 11


class BlockedEvent(Numbers):
    """Numbers on the software device that are ready when the test says so. `waiting` is called when somebody waits."""

    def __init__(self, go: threading.Event, waiting=lambda: None):
        # Arrays carry a number of their own for it.
        _, capsule = ad.array(b"a").to("ext_dev:0").__arrow_c_device_array__()
        there = struct_of(capsule, ArrowDeviceArray)
        super().__init__(device_type=there.device_type, device_id=there.device_id)
        self.go, self.waiting = go, waiting
        self._functions = _Query(self._query), _Wait(self._wait)
        size = ctypes.sizeof(EventTable)
        self.table = EventTable(int.from_bytes(b"ARROWSIM", "big"), 1, size, *self._functions)
        self.device_array.sync_event = ctypes.addressof(self.table)

    def _query(self, _):
        return 0 if self.go.is_set() else EAGAIN

    def _wait(self, _, nanoseconds):
        self.waiting()
        self.go.wait()
        return 0
