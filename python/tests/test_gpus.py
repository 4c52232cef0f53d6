"""Vulkan and WebGPU by the drivers that there are; CUDA and ROCm by a simulated driver, in a process of its own."""

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


def test_a_webgpu_device_is_called_by_its_place_in_the_list(webgpu):
    assert webgpu in ad.devices() and webgpu.name
    array = pa.array(["a", None, "ccc"])
    there = ad.array(array).to(str(webgpu))
    assert there.device == webgpu == ad.device(f"webgpu:{webgpu.id}") and f"on webgpu:{webgpu.id}" in repr(there)
    # What arrays carry is the WGPUDevice, and no event.
    struct = struct_of(there.__arrow_c_device_array__()[1], ArrowDeviceArray)
    assert struct.device_id > 1 << 16 and not struct.sync_event
    assert ad.device(("webgpu", struct.device_id)) == webgpu
    assert there.to(webgpu).device == webgpu and pa.array(there.to_host()).equals(array)
    with pytest.raises(ad.DeviceError, match="WebGPU has no device 99"):
        ad.array(array).to("webgpu:99")


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


CUDA_ARRAYS = """
import ctypes, gc, os, types
import arrow_device as ad

driver = ctypes.CDLL(os.environ["ARROW_DEVICE_CUDA_LIBRARY"])

class Foreign:
    def __init__(self, **about):
        self.__cuda_array_interface__ = about

def call(name, *arguments):
    wide = [ctypes.c_uint64(each) if isinstance(each, int) else each for each in arguments]
    assert getattr(driver, name)(*wide) == 0, name

# A library with a stream of its own, which fills memory there, and reads on it what others wrote.
call("cuInit", 0)
context, stream, memory = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuMemAlloc_v2", ctypes.byref(memory), 4000)
numbers = (ctypes.c_int32 * 1000)(*range(1000))
call("cuMemcpyHtoDAsync_v2", memory.value, ctypes.byref(numbers), 4000, stream.value)
filled = ad.array(Foreign(version=3, shape=(1000,), typestr="<i4", data=(memory.value, False), stream=stream.value))
assert filled.to_host().to_pylist() == list(range(1000))
del filled
read = (ctypes.c_int32 * 1000)()
for _ in range(5):
    there = ad.array(memoryview(numbers)).to(ad.device("cuda:0").queue())
    about = there.__cuda_array_interface__
    on = about["stream"] or stream.value
    call("cuCtxSetCurrent", context)
    call("cuMemcpyDtoHAsync_v2", ctypes.byref(read), about["data"][0], 4000, on)
    call("cuStreamSynchronize", on)
    assert list(read) == list(range(1000))
del there

def refused(kind, words, work):
    try:
        work()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

for device in ("cuda:1", "cuda_managed:0"):
    queue = ad.device(device).queue()
    a = ad.array([1, 2, 3], type="int32").to(queue)
    about = a.__cuda_array_interface__
    assert (about["version"], about["shape"], about["typestr"], about["strides"]) == (3, (3,), "<i4", None), about
    pointer, read_only = about["data"]
    assert pointer and read_only is True
    # Pending data is behind the stream that is named; what is complete names none.
    assert about["stream"] in (None, 1), about
    queue.synchronize()
    assert a.ready and a.__cuda_array_interface__["stream"] is None
    b = ad.array(Foreign(**about))
    assert b.device == ad.device("cuda:1") or device != "cuda:1", b
    assert b.to_host() == ad.array([1, 2, 3], type="int32"), b
    assert b.__cuda_array_interface__["data"][0] == pointer
    # Every other one, with strides in bytes; an older version has no stream.
    c = ad.array(Foreign(**{**about, "version": 2, "shape": (2,), "strides": (8,), "stream": 7}))
    assert c.to_host().to_pylist() == [1, 3], c
    for stream in (1, 2, queue.handle, None):
        again = ad.array(Foreign(**{**about, "stream": stream}))
        assert again.to_host().to_pylist() == [1, 2, 3]
    for number in (0, -7):
        refused(ValueError, "stream", lambda: ad.array(Foreign(**{**about, "stream": number})))
    table = ad.array(Foreign(**{**about, "shape": (3, 1)}))
    assert len(table) == 3 and table.to_host().child(0).to_pylist() == [1, 2, 3]

refused(BufferError, "a mask of the CUDA array interface", lambda: ad.array(Foreign(**{**about, "mask": a})))
refused(BufferError, "no elements of the type", lambda: ad.array(Foreign(**{**about, "typestr": ">i4"})))
refused(BufferError, "no elements of the type", lambda: ad.array(Foreign(**{**about, "typestr": "<M8"})))
refused(BufferError, 'has no "shape"', lambda: ad.array(Foreign(typestr="<i4", version=3, data=(0, False))))
refused(BufferError, "no CUDA device has memory at 0x10", lambda: ad.array(Foreign(**{**about, "data": (16, False)})))
refused(BufferError, "2 bytes apart", lambda: ad.array(Foreign(**{**about, "strides": (2,)})))
refused(BufferError, "2 strides do not belong to 1 dimensions", lambda: ad.array(Foreign(**{**about, "strides": (4, 4)})))
refused(BufferError, "more elements than", lambda: ad.array(Foreign(**{**about, "shape": (1 << 62, 1 << 62)})))
refused(BufferError, "and the memory there has", lambda: ad.array(Foreign(**{**about, "shape": (1 << 40,)})))
refused(BufferError, "", lambda: ad.array(Foreign(**{**about, "strides": (-1 << 40,)})))
refused(ValueError, "", lambda: ad.array(Foreign(**{**about, "shape": (-1,)})))
refused(TypeError, "is a dictionary", lambda: ad.array(types.SimpleNamespace(__cuda_array_interface__=5)))
assert len(ad.array(Foreign(**{**about, "shape": (0,), "data": (0, False)}))) == 0

missing = ad.array([1, None]).to("cuda:0")
refused(BufferError, "numbers without nulls", lambda: missing.__cuda_array_interface__)
words = ad.array(["a"]).to("cuda:0")
refused(BufferError, "numbers without nulls", lambda: words.__cuda_array_interface__)
for elsewhere in (ad.array([1]), ad.array([1]).to("cuda_host:0")):
    assert not hasattr(elsewhere, "__cuda_array_interface__")
for kind, name in (("uint8", "|u1"), ("float16", "<f2"), ("float64", "<f8"), ("int64", "<i8")):
    assert ad.array([1], type=kind).to("cuda:0").__cuda_array_interface__["typestr"] == name

# The memory is kept as long as what was made of it.
alive = ad.testing.live_objects() if hasattr(ad, "testing") else None
del a, b, c, again, table, missing, words, elsewhere, about
gc.collect()
ad.wait_until_released()
reports = []
EachReport = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
each = EachReport(lambda to, kind, number, thread: reports.append(kind))
driver.simulated_driver_take_reports(ctypes.c_uint64(0), each, None)
assert reports == [], reports
"""


def test_the_cuda_array_interface_works_both_ways():
    library = os.environ.get("ARROW_DEVICE_SIMULATED_DRIVER")
    if not library:
        skip("simulated", "ARROW_DEVICE_SIMULATED_DRIVER names no library; `cargo xtask python` builds it")
    for seed in range(3):
        variables = {
            **os.environ, "ARROW_DEVICE_CUDA_LIBRARY": library,
            "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG": f"devices=2 seed={seed}"}
        outcome = subprocess.run(
            [sys.executable, "-c", CUDA_ARRAYS], capture_output=True, text=True, env=variables, timeout=300)
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
