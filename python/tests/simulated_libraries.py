"""Tensor libraries over the simulated driver of CUDA, as the scripts for hardware want them.

They have a current stream for each thread, as PyTorch and CuPy have, and their arrays speak DLPack with streams. The driver runs work
as late as its order allows, and reports whoever does not wait.
"""

import contextlib
import ctypes
import math
import os
import sys
import threading

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from libraries import Library
from support import DLManagedTensorVersioned, Deleter, capsule, pointer_of, rename

#: The driver's own name for its default stream.
DEFAULT = 1
CODES = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}
DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")


def code_of(dtype):
    kind = np.dtype(dtype)
    name = kind.name.rstrip("0123456789")
    return CODES[name], 8 * kind.itemsize


class Driver:
    """The functions that are used, with errors as exceptions."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["ARROW_DEVICE_CUDA_LIBRARY"])
        self.call("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)

    def call(self, name, *arguments):
        wide = [ctypes.c_uint64(each) if isinstance(each, int) else each for each in arguments]
        code = getattr(self.library, name)(*wide)
        assert code == 0, f"{name} returned {code}"

    def enter(self):
        self.call("cuCtxSetCurrent", self.context)

    def made(self, name, *arguments):
        self.enter()
        out = ctypes.c_uint64()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value


class Allocation:
    """Memory of the library's own. It is given back when all is done, so that it is never too early."""

    def __init__(self, of, size):
        self.of, self.size = of, size
        self.address = of.driver.made("cuMemAlloc_v2", max(size, 1))
        of.allocations.add(self.address)
        of.bytes += size

    def __del__(self):
        self.of.synchronize()
        self.of.driver.call("cuMemFree_v2", self.address)
        self.of.allocations.discard(self.address)
        self.of.bytes -= self.size


class Foreign:
    """Memory of another library's, which is told when it is not used any more."""

    def __init__(self, of, address):
        self.of, self.managed = of, DLManagedTensorVersioned.from_address(address)

    def __del__(self):
        # As PyTorch and CuPy do: what was submitted may still run.
        self.managed.deleter(ctypes.addressof(self.managed))


class Array:
    def __init__(self, of, owner, address, shape, strides, dtype):
        self.of, self.owner, self.address = of, owner, address
        self.shape, self.strides, self.dtype = shape, strides, dtype

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.of.order(DEFAULT if stream is None else stream)
        shape, strides = ((ctypes.c_int64 * max(len(each), 1))(*each) for each in (self.shape, self.strides))
        managed = DLManagedTensorVersioned(major=1, minor=0)
        kept = self.of.exported

        def delete(_):
            kept.pop(id(managed))

        managed.deleter = Deleter(delete)
        tensor = managed.dl_tensor
        tensor.data, tensor.device_type, tensor.device_id, tensor.ndim = self.address, 2, 0, len(self.shape)
        (tensor.code, tensor.bits), tensor.lanes = code_of(self.dtype), 1
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        kept[id(managed)] = (managed, shape, strides, self.owner)
        return capsule(managed, b"dltensor_versioned")


class Simulated(Library):
    """One that keeps all rules."""

    has_streams = True
    dtypes = DTYPES
    version = "simulated"

    def __init__(self):
        self.driver = Driver()
        self.local = threading.local()
        self.allocations, self.exported, self.bytes = set(), {}, 0

    @property
    def current(self):
        self.driver.enter()
        return getattr(self.local, "stream", DEFAULT)

    def make(self, values, dtype):
        values = np.ascontiguousarray(np.array(values).astype(dtype))
        owner = Allocation(self, values.nbytes)
        self.driver.enter()
        self.driver.call(
            "cuMemcpyHtoDAsync_v2", owner.address, ctypes.c_void_p(values.ctypes.data), values.nbytes, self.current)
        strides = [stride // values.itemsize for stride in values.strides]
        return Array(self, owner, owner.address, list(values.shape), strides, dtype)

    def count(self, number):
        return self.make(np.arange(number), "int32")

    def values(self, array):
        kind = np.dtype(array.dtype)
        span = 1 + sum((length - 1) * stride for length, stride in zip(array.shape, array.strides))
        if math.prod(array.shape) == 0:
            return []
        out = np.zeros(span, kind)
        current = self.current
        self.driver.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(out.ctypes.data), array.address, out.nbytes, current)
        self.driver.call("cuStreamSynchronize", current)
        strides = [stride * kind.itemsize for stride in array.strides]
        return np.lib.stride_tricks.as_strided(out, array.shape, strides).tolist()

    def take(self, tensor):
        assert tuple(tensor.__dlpack_device__()) == (2, 0)
        made = tensor.__dlpack__(stream=self.asked_stream(), max_version=(1, 0))
        address = pointer_of(made)
        rename(made, b"used_dltensor_versioned")
        found = DLManagedTensorVersioned.from_address(address).dl_tensor
        shape, strides = found.shape[: found.ndim], found.strides[: found.ndim]
        [dtype] = [each for each in DTYPES if code_of(each) == (found.code, found.bits)]
        return Array(self, Foreign(self, address), (found.data or 0) + found.byte_offset, shape, strides, dtype)

    def copied(self, array):
        owner = Allocation(self, array.shape[0] * np.dtype(array.dtype).itemsize)
        self.driver.enter()
        self.driver.call("cuMemcpyDtoDAsync_v2", owner.address, array.address, owner.size, self.current)
        return Array(self, owner, owner.address, array.shape, array.strides, array.dtype)

    def asked_stream(self):
        return self.current

    def order(self, stream):
        """Has a stream wait for the current one."""
        if stream in (-1, self.current):
            return
        event = self.driver.made("cuEventCreate", 2)
        self.driver.call("cuEventRecord", event, self.current)
        self.driver.call("cuStreamWaitEvent", stream, event, 0)
        self.driver.call("cuEventDestroy_v2", event)

    def address(self, array):
        return array.address

    def transposed(self, array):
        return Array(self, array.owner, array.address, array.shape[::-1], array.strides[::-1], array.dtype)

    @contextlib.contextmanager
    def stream(self):
        before = self.current
        self.local.stream = self.driver.made("cuStreamCreate", 1)
        try:
            yield self.local.stream
        finally:
            self.local.stream = before

    def held(self):
        return self.bytes

    def synchronize(self):
        self.driver.enter()
        self.driver.call("cuCtxSynchronize")

    @contextlib.contextmanager
    def capture(self):
        self.driver.enter()
        stream = self.driver.made("cuStreamCreate", 1)
        self.driver.call("cuStreamBeginCapture_v2", stream, 0)
        try:
            yield stream
        finally:
            self.driver.enter()
            graph = ctypes.c_uint64()
            self.driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))

    def graph(self, to, array):
        stream, size = self.current, to.owner.size
        self.driver.call("cuStreamBeginCapture_v2", stream, 1)
        self.driver.call("cuMemcpyDtoDAsync_v2", to.address, array.address, size, stream)
        graph = ctypes.c_uint64()
        self.driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        launched = self.driver.made("cuGraphInstantiateWithFlags", graph.value, 0)
        self.driver.call("cuGraphDestroy", graph.value)
        return lambda: self.driver.call("cuGraphLaunch", launched, stream)

    def lose(self):
        self.driver.library.simulated_driver_lose(0, 710)
        return True

    def reservations(self):
        return "as the driver is configured"

    def mistakes(self):
        found = []
        each = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
        self.driver.library.simulated_driver_take_reports(
            ctypes.c_uint64(0), each(lambda to, kind, number, thread: found.append(kind.decode())), None)
        return found


class Twin(Simulated):
    """Another one, so that there are two."""
