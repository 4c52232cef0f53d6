"""pyarrow on the device that the checker lends it. A library in C++ registers that, as those who bring a device do."""

import ctypes
import os

import pyarrow as pa

library = ctypes.CDLL(os.environ["ARROW_DEVICE_CHECK_TEST_LIBRARY"])


def arrow_device_check_begin(context):
    if library.adf_cpp_use_checked(ctypes.c_void_p(context)) != 0:
        raise RuntimeError("Arrow C++ does not take the device")


def relay_array(thing):
    return pa.array(thing)


def relay_batch(thing):
    return pa.record_batch(thing)
