"""Arrays of numbers on the simulated device, which speak the CUDA array interface. STAND_IN_FAULTS names rules that are broken."""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from simulated_libraries import Driver

FAULTS = os.environ.get("STAND_IN_FAULTS", "").split()
DRIVER = Driver()
KEPT = []


def is_available():
    return True


class Stream:
    def __init__(self):
        self.handle = DRIVER.made("cuStreamCreate", 1)

    def synchronize(self):
        DRIVER.enter()
        DRIVER.call("cuStreamSynchronize", self.handle)


def stream():
    return Stream()


class Memory:
    def __init__(self, size):
        self.address = DRIVER.made("cuMemAlloc_v2", max(size, 1))

    def __del__(self):
        DRIVER.enter()
        DRIVER.call("cuCtxSynchronize")
        DRIVER.call("cuMemFree_v2", self.address)


class Array:
    def __init__(self, owner, address, shape, dtype, on=None):
        self.owner, self.address, self.shape, self.dtype, self.on = owner, address, shape, np.dtype(dtype), on

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape, "strides": None, "typestr": self.dtype.str, "data": (self.address, False), "version": 3,
            "stream": None if self.on is None else self.on.handle,
        }

    def copy_to_host(self, stream=None):
        out = np.zeros(self.shape, self.dtype)
        handle = 1 if stream is None else stream.handle
        DRIVER.enter()
        DRIVER.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(out.ctypes.data), self.address, out.nbytes, handle)
        if stream is None:
            DRIVER.call("cuStreamSynchronize", handle)
        return out


def to_device(numbers, stream=None):
    numbers = np.ascontiguousarray(numbers)
    owner = Memory(numbers.nbytes)
    DRIVER.enter()
    handle = 1 if stream is None else stream.handle
    source = ctypes.c_void_p(numbers.ctypes.data)
    DRIVER.call("cuMemcpyHtoDAsync_v2", owner.address, source, numbers.nbytes, handle)
    if stream is None:
        DRIVER.call("cuStreamSynchronize", handle)
    return Array(owner, owner.address, numbers.shape, numbers.dtype, stream)


def as_cuda_array(theirs):
    about = theirs.__cuda_array_interface__
    if about["stream"] is not None and "hasty" not in FAULTS:
        DRIVER.enter()
        DRIVER.call("cuStreamSynchronize", about["stream"])
    if "hoarding" in FAULTS:
        KEPT.append(theirs)
    return Array(theirs, about["data"][0], about["shape"], about["typestr"])
