"""oneAPI on the simulated SYCL runtime, beside a small library that is to SYCL what dpctl is: queues in capsules, memory with
`__sycl_usm_array_interface__`. Each test has a process of its own. What dpctl and dpnp themselves do is in `test_dpctl.py`."""

import os
import subprocess
import sys

from support import skip

LIBRARY = '''
import ctypes, gc, os, types
import arrow_device as ad

runtime = ctypes.CDLL(os.environ["ARROW_DEVICE_ONEAPI_LIBRARY"])
P, N = ctypes.c_void_p, ctypes.c_size_t

def function(name, result, *arguments):
    found = getattr(runtime, name)
    found.restype, found.argtypes = result, arguments
    return found

devices = function("DPCTLDeviceMgr_GetDevices", P, ctypes.c_int)
device_at = function("DPCTLDeviceVector_GetAt", P, P, N)
usual_context = function("DPCTLDeviceMgr_GetCachedContext", P, P)
new_context = function("DPCTLContext_Create", P, P, P, ctypes.c_int)
new_queue = function("DPCTLQueue_Create", P, P, P, P, ctypes.c_int)
copy_queue = function("DPCTLQueue_Copy", P, P)
delete_queue = function("DPCTLQueue_Delete", None, P)
allocate = {kind: function("DPCTLaligned_alloc_" + kind, P, N, N, P) for kind in ("device", "host", "shared")}
free = function("DPCTLfree_with_context", None, P, P)
memcpy = function("DPCTLQueue_MemcpyWithEvents", P, P, P, P, N, P, N)
delete_event = function("DPCTLEvent_Delete", None, P)
status = function("DPCTLEvent_GetCommandExecutionStatus", ctypes.c_int, P)
gate = function("simulated_sycl_gate", P, P)
open_gate = function("simulated_sycl_open", None, P)
live = function("simulated_sycl_live", ctypes.c_uint64, ctypes.c_int)
mistakes = function("simulated_sycl_mistakes", ctypes.c_uint64)

Destroy = ctypes.CFUNCTYPE(None, P)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (P, ctypes.c_char_p, Destroy)
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = P, (ctypes.py_object, ctypes.c_char_p)
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
pointer_again = ctypes.PYFUNCTYPE(P, P, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))

@Destroy
def give_back(capsule):
    delete_queue(pointer_again(capsule, NAME))

# A name has to stay in place as long as the capsule.
NAME, USED = ctypes.create_string_buffer(b"SyclQueueRef"), ctypes.create_string_buffer(b"used_SyclQueueRef")
give_back = ctypes.PYFUNCTYPE(None, P)(lambda capsule: delete_queue(pointer_again(capsule, b"SyclQueueRef")))

device = device_at(devices(0), 0)
context = usual_context(device)

class Queue:
    """A queue, as dpctl.SyclQueue is one."""
    def __init__(self, context=context, in_order=True):
        self.context, self.raw = context, new_queue(context, device, None, 2 if in_order else 0)
    def _get_capsule(self):
        return new_capsule(copy_queue(self.raw), ctypes.cast(NAME, ctypes.c_char_p), ctypes.cast(give_back, Destroy))
    def __del__(self):
        delete_queue(self.raw)

class Memory:
    """Numbers in USM, which were written in the order of the queue."""
    freed = 0
    def __init__(self, numbers, queue, kind="device", **about):
        self.bytes, self.queue = (ctypes.c_int32 * len(numbers))(*numbers), queue
        self.address = allocate[kind](64, len(numbers) * 4, queue.raw)
        delete_event(memcpy(queue.raw, self.address, ctypes.addressof(self.bytes), len(numbers) * 4, None, 0))
        self.__sycl_usm_array_interface__ = {"version": 1, "shape": (len(numbers),), "typestr": "|i4", "strides": None,
                                             "data": (self.address, False), "syclobj": queue, **about}
    def __del__(self):
        Memory.freed += 1
        free(self.address, self.queue.context)

def read(about, count):
    """What is there in the order of the queue that the interface names."""
    capsule = about["syclobj"]._get_capsule()
    queue = copy_queue(pointer_of(capsule, b"SyclQueueRef"))
    rename(capsule, ctypes.cast(USED, ctypes.c_char_p))
    numbers = (ctypes.c_int32 * count)()
    event = memcpy(queue, ctypes.addressof(numbers), about["data"][0] + 4 * about.get("offset", 0), 4 * count, None, 0)
    while status(event) != 3: pass
    delete_event(event)
    delete_queue(queue)
    return list(numbers)

def refused(kind, words, work):
    try:
        work()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

def until(condition):
    for _ in range(100000):
        if condition(): return
        ad.release_finished()
        gc.collect()
    raise AssertionError("it did not come true")
'''

IMPORT = LIBRARY + '''
for kind in ("device", "host", "shared"):
    for in_order in (True, False):
        queue = Queue(in_order=in_order)
        memory = Memory([1, -2, 3, -4, 5], queue, kind)
        a = ad.array(memory)
        assert str(a.device) == "oneapi:0" and a.type == ad.array([], type="int32").type, a
        assert a.to_host().to_pylist() == [1, -2, 3, -4, 5], a
        # Shared, and not copied.
        assert a.__sycl_usm_array_interface__["data"][0] == memory.address
        del memory, queue
        gc.collect()
        freed = Memory.freed
        assert a.slice(1, 2).to_host().to_pylist() == [-2, 3] and Memory.freed == freed
        del a
        until(lambda: Memory.freed == freed + 1)

# What is still to be written is waited for, also where the object's queue goes first.
queue = Queue()
held = gate(queue.raw)
memory = Memory([7, 8, 9], queue)
a = ad.array(memory)
del queue
assert not a.ready
open_gate(held)
assert a.to_host().to_pylist() == [7, 8, 9]

# Strides and the offset are in elements.
wide = Memory(range(12), Queue())
about = wide.__sycl_usm_array_interface__
view = lambda **more: types.SimpleNamespace(__sycl_usm_array_interface__={**about, **more}, wide=wide)
assert ad.array(view(shape=(3,), strides=(4,), offset=1)).to_host().to_pylist() == [1, 5, 9]
assert ad.array(view(shape=(3,), strides=(-2,), offset=9)).to_host().to_pylist() == [9, 7, 5]
table = ad.array(view(shape=(3, 4)))
assert len(table) == 3 and table.to_host().child(0).to_pylist() == list(range(12))
assert len(ad.array(view(shape=(0,), data=(0, False)))) == 0
# The queue itself may be given in its capsule, too.
assert ad.array(view(syclobj=wide.queue._get_capsule())).to_host().to_pylist() == list(range(12))

refused(BufferError, "has to be a queue", lambda: ad.array(view(syclobj="cpu")))
refused(BufferError, "has to be a queue", lambda: ad.array(view(syclobj=None)))
refused(BufferError, "has the version 2", lambda: ad.array(view(version=2)))
refused(BufferError, 'has no "syclobj"', lambda: ad.array(types.SimpleNamespace(__sycl_usm_array_interface__={
    key: value for key, value in about.items() if key != "syclobj"})))
refused(BufferError, "no USM at", lambda: ad.array(view(data=(ctypes.addressof(wide.bytes), False))))
refused(BufferError, "is no place", lambda: ad.array(view(data=(8, False), offset=-100)))
refused(BufferError, "2 strides do not belong to 1 dimensions", lambda: ad.array(view(strides=(1, 1))))
refused(BufferError, "no elements of the type", lambda: ad.array(view(typestr="<M8")))
refused(TypeError, "is a dictionary", lambda: ad.array(types.SimpleNamespace(__sycl_usm_array_interface__=5)))

# Memory of another context, by a queue of that context.
elsewhere = Queue(new_context(device, None, 0))
a = ad.array(Memory([4, 5, 6], elsewhere))
assert a.to_host().to_pylist() == [4, 5, 6]
refused(BufferError, "no USM at", lambda: ad.array(view(syclobj=elsewhere)))
del a, table, wide, about, view, memory, elsewhere
ad.wait_until_released()
assert mistakes() == 0
'''

EXPORT = LIBRARY + '''
a = ad.array([1, -2, 3], type="int32", device="oneapi:0")
about = a.__sycl_usm_array_interface__
assert (about["version"], about["shape"], about["typestr"], about["strides"]) == (1, (3,), "<i4", None), about
assert about["data"][1] is True and about["offset"] == 0
assert read(about, 3) == [1, -2, 3]
assert read(a.slice(1, 2).__sycl_usm_array_interface__, 2) == [-2, 3]
# A capsule that nobody takes is given back, too.
queues = live(2)
for _ in range(5):
    about["syclobj"]._get_capsule()
assert live(2) == queues
# Pending data: the queue that is named waits for what another one still does.
lane = ad.device("oneapi:0").queue()
held = gate(lane.handle)
pending = ad.array([4, 5, 6], type="int32").to(lane)
about = pending.__sycl_usm_array_interface__
assert not pending.ready
open_gate(held)
assert read(about, 3) == [4, 5, 6]
# The memory is kept until the queue has passed its use.
capsule = about["syclobj"]._get_capsule()
queue = copy_queue(pointer_of(capsule, b"SyclQueueRef"))
held = gate(queue)
numbers = (ctypes.c_int32 * 3)()
event = memcpy(queue, ctypes.addressof(numbers), about["data"][0], 12, None, 0)
del pending, capsule
gc.collect()
ad.release_finished()
open_gate(held)
while status(event) != 3: pass
assert list(numbers) == [4, 5, 6]
delete_event(event)
delete_queue(queue)

# Tensors, with strides where they are needed.
import numpy
table = ad.from_dlpack(numpy.arange(6, dtype="int32").reshape(2, 3)).to("oneapi:0")
about = table.__sycl_usm_array_interface__
assert (about["shape"], about["strides"], about["typestr"], about["data"][1]) == ((2, 3), None, "<i4", True), about
assert read(about, 6) == [0, 1, 2, 3, 4, 5]
about = table.permute([1, 0]).__sycl_usm_array_interface__
assert (about["shape"], about["strides"]) == ((3, 2), (1, 3)), about
assert not hasattr(ad.array([1]).to_tensor(), "__sycl_usm_array_interface__")
lane = ad.device("oneapi:0").queue()
held = gate(lane.handle)
pending = ad.array([4, 5, 6], type="int32").to(lane).to_tensor()
about = pending.__sycl_usm_array_interface__
assert not pending.ready
open_gate(held)
assert read(about, 3) == [4, 5, 6]
# The memory is kept until the queue has passed its use.
capsule = about["syclobj"]._get_capsule()
queue = copy_queue(pointer_of(capsule, b"SyclQueueRef"))
held = gate(queue)
event = memcpy(queue, ctypes.addressof(numbers), about["data"][0], 12, None, 0)
del pending, capsule
gc.collect()
ad.release_finished()
open_gate(held)
while status(event) != 3: pass
assert list(numbers) == [4, 5, 6]
delete_event(event)
delete_queue(queue)
del table

flags = ad.from_dlpack(numpy.array([True, False])).to("oneapi:0")
assert flags.__sycl_usm_array_interface__["typestr"] == "|b1"
del flags
refused(BufferError, "numbers without nulls", lambda: ad.array([1, None], device="oneapi:0").__sycl_usm_array_interface__)
refused(BufferError, "numbers without nulls", lambda: ad.array(["a"], device="oneapi:0").__sycl_usm_array_interface__)
assert not hasattr(ad.array([1]), "__sycl_usm_array_interface__")
# There and back without a copy.
again = ad.array(types.SimpleNamespace(__sycl_usm_array_interface__=a.__sycl_usm_array_interface__, a=a))
assert again.to_host().to_pylist() == [1, -2, 3]
del a, again, about
ad.wait_until_released()
assert mistakes() == 0
'''

DLPACK = LIBRARY + '''
# A library whose DLPack capsules say nothing of the order, as dpnp's. Its arrays have the other interface as well.
class Array:
    def __init__(self, memory):
        self.__sycl_usm_array_interface__, self.memory = memory.__sycl_usm_array_interface__, memory
        self.plain = ad.array(memory)
        self.plain.wait()
    def __dlpack_device__(self):
        return (14, 0)
    def __dlpack__(self, stream=None, **more):
        assert stream is None
        return self.plain.__dlpack__(**more)

queue = Queue()
array = Array(Memory([1, 2, 3], queue))
held = gate(queue.raw)
source = (ctypes.c_int32 * 3)(7, 8, 9)
delete_event(memcpy(queue.raw, array.memory.address, ctypes.addressof(source), 12, None, 0))
tensor = ad.from_dlpack(array)
assert not tensor.ready
open_gate(held)
assert ad.array(tensor).to_host().to_pylist() == [7, 8, 9]
# Our own, for a library that passes no stream: the host has waited.
assert ad.array([1], device="oneapi:0").__dlpack_device__() == (14, 0)
del tensor, array, queue
ad.wait_until_released()
assert mistakes() == 0
'''

MANY = LIBRARY + '''
import threading
def work(number):
    queue = Queue(in_order=number % 2 == 0)
    for round in range(40):
        memory = Memory([number, round], queue)
        assert ad.array(memory).to_host().to_pylist() == [number, round]
        about = ad.array([round], type="int32", device="oneapi:0").__sycl_usm_array_interface__
failures = []
def guarded(number):
    try: work(number)
    except BaseException as error: failures.append(error)
threads = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
ad.wait_until_released()
assert mistakes() == 0
'''


def runs(code):
    library = os.environ.get("ARROW_DEVICE_SIMULATED_SYCL")
    if not library:
        skip("simulated", "ARROW_DEVICE_SIMULATED_SYCL names no library; `cargo xtask python` builds it")
    variables = {**os.environ, "ARROW_DEVICE_ONEAPI_LIBRARY": library}
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, timeout=300)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_memory_of_another_library_is_shared_in_the_order_of_its_queue():
    runs(IMPORT)


def test_another_library_uses_our_memory_in_the_order_of_our_queue():
    runs(EXPORT)


def test_a_tensor_without_an_order_of_its_own_has_that_of_the_objects_queue():
    runs(DLPACK)


def test_threads_exchange_at_once():
    runs(MANY)
