"""Vulkan by the driver that there is; CUDA and ROCm by a simulated driver, in a process of its own."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest

import arrow_device as ad
from support import ArrowDeviceArray, skip, struct_of


def test_a_vulkan_device_is_called_by_its_place_in_the_list(vulkan):
    assert vulkan in ad.devices() and vulkan.name
    array = pa.array(["a", None, "ccc"])
    there = ad.array(array).to(str(vulkan))
    assert there.device == vulkan == ad.device(f"vulkan:{vulkan.id}") and f"on vulkan:{vulkan.id}" in repr(there)
    # What arrays carry is the VkDevice.
    handle = struct_of(there.__arrow_c_device_array__()[1], ArrowDeviceArray).device_id
    assert handle > 1 << 16 and ad.device(("vulkan", handle)) == vulkan
    assert there.to(vulkan).device == vulkan and pa.array(there.to_host()).equals(array)
    with pytest.raises(ad.DeviceError, match="Vulkan has no device 99"):
        ad.array(array).to("vulkan:99")


SIMULATED = """
import ctypes, gc, os, sys
import arrow_device as ad, pyarrow as pa

own, host, managed = "{own}", "{own}_host", "{managed}"
kinds = [kind for kind in (own, host, managed) if kind]
found = ad.devices()
assert [str(device) for device in found if device.type in kinds] == [
    f"{{kind}}:{{number}}" for number in range(2) for kind in kinds], found
array = pa.array(["a", None, "ccc"])
# Before any is open: pinned memory is that of all devices.
assert ad.array(array).to(host + ":-1").device == ad.device(host)
for kind in kinds:
    device = ad.device(kind + ":0")
    assert device in found and device.name
    there = ad.array(array, device=device)
    assert there.device == device and pa.array(there.to_host()).equals(array)

# A consumer of tensors, on a stream that it opened, and on the default ones.
queue = ad.device(own).queue()
again = ad.Queue.from_handle(own, queue.handle)
assert again.handle == queue.handle and again.device == ad.device(own)
try:
    ad.Queue.from_handle(own, 2)
    raise AssertionError("another thread has another one")
except ad.DataError as error:
    assert "on each thread" in str(error)
numbers = ad.array(pa.array([1, 2, 3], pa.int32())).to(again)
for stream in {streams}:
    ad.from_dlpack(numbers)
    numbers.__dlpack__(stream=stream)
numbers.__dlpack__(stream=queue.handle)
for stream in {no_streams}:
    try:
        numbers.__dlpack__(stream=stream)
    except ad.DataError:
        continue
    raise AssertionError(stream)
again.synchronize()
assert numbers.ready and ad.array(ad.from_dlpack(numbers)).to_host() == ad.array(pa.array([1, 2, 3], pa.int32()))

# DLPack's table names the stream that most libraries work on.
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
table = pointer(ad.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
WorkStream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
advertised = ctypes.c_void_p(7)
function = WorkStream(ctypes.c_void_p.from_address(table + 48).value)
assert function(ad.device(own).type_id, 0, ctypes.byref(advertised)) == 0
assert advertised.value == {advertised}, advertised

del there, numbers, again
gc.collect()
ad.wait_until_released()
queue.synchronize()
reports = []
EachReport = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
each = EachReport(lambda to, kind, number, thread: reports.append(kind))
driver = ctypes.CDLL(os.environ["{variable}"])
driver.simulated_driver_take_reports(ctypes.c_uint64(0), each, None)
assert reports == [], reports
assert driver.simulated_driver_count(None) > 10
"""


@pytest.mark.parametrize("code, variable", [
    (SIMULATED.format(
        own="cuda", managed="cuda_managed", variable="ARROW_DEVICE_CUDA_LIBRARY",
        streams=[None, 1, 2, -1], no_streams=[0, -2], advertised=1), "ARROW_DEVICE_CUDA_LIBRARY"),
    (SIMULATED.format(
        own="rocm", managed="", variable="ARROW_DEVICE_HIP_LIBRARY",
        streams=[None, 0, -1], no_streams=[1, 2, -2], advertised=None), "ARROW_DEVICE_HIP_LIBRARY"),
], ids=["cuda", "rocm"])
def test_a_gpu_gets_data_and_streams_of_others(code, variable):
    library = os.environ.get("ARROW_DEVICE_SIMULATED_DRIVER")
    if not library:
        skip("simulated", "ARROW_DEVICE_SIMULATED_DRIVER names no library; `cargo xtask python` builds it")
    variables = {**os.environ, variable: library, "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG": "devices=2 seed=5"}
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, timeout=300)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_without_a_driver_the_list_says_why():
    code = (
        "import arrow_device as ad; missing = ad.devices().missing\n"
        "for name in ('cuda', 'rocm'):\n"
        "    assert 'install' in missing[name] and '/no/such/library' in missing[name], missing\n"
        "    try: ad.array(bytearray(4)).to(name + ':0')\n"
        "    except ad.DeviceError as error: assert 'install' in str(error)\n"
        "    else: raise AssertionError(name)\n"
    )
    none = {"ARROW_DEVICE_CUDA_LIBRARY": "/no/such/library", "ARROW_DEVICE_HIP_LIBRARY": "/no/such/library"}
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **none}, timeout=300)
    assert (outcome.returncode, outcome.stderr) == (0, "")
