"""C code that Python code calls lets go of the interpreter's lock, and then calls this package on the same thread.

Each program runs in a process of its own, because a failure ends the process.
"""

import array
import os
import subprocess
import sys

import pytest

import arrow_device as ad

# What each program begins with. `lengths` reads a stream by its C function, which `ctypes` calls
# without the interpreter's lock. A program that hangs says where.
BEGINNING = """
import array, ctypes, faulthandler, gc, sys, threading
faulthandler.dump_traceback_later(100, exit=True)
import arrow_device as ad
import arrow_device.testing
from support import ArrowArray, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema, ReleaseArray, struct_of

def chunks(count=50):
    for number in range(count):
        yield ad.array(array.array("q", [number]))

def lengths(stream):
    given = stream.__arrow_c_device_stream__()
    struct, out = struct_of(given, ArrowDeviceArrayStream), ArrowDeviceArray()
    while True:
        error = struct.get_next(ctypes.byref(struct), ctypes.byref(out))
        if error:
            raise OSError(error, ctypes.string_at(struct.get_last_error(ctypes.byref(struct))).decode())
        if not out.array.release:
            return
        yield out.array.length
        out.array.release(ctypes.byref(out.array))
"""

PYARROW = """
import pyarrow as pa

def batches(count=50):
    for number in range(count):
        yield pa.record_batch({"x": [number, number + 1]})
"""


def run(program: str, seconds: float = 120.0) -> str:
    """What the program printed."""
    paths = [os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]
    outcome = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    assert outcome.returncode == 0, (outcome.returncode, outcome.stdout, outcome.stderr[-4000:])
    assert outcome.stderr == ""
    return outcome.stdout.strip()


BY_CTYPES = {
    "a generator that reads another": """
def outer():
    for length in lengths(ad.stream(chunks())):
        yield ad.array(array.array("q", [length]))

print(sum(len(chunk) for chunk in ad.stream(outer())))
""",
    "three generators that read each other": """
def outer(depth):
    for length in lengths(ad.stream(outer(depth - 1) if depth else chunks())):
        yield ad.array(array.array("q", [length]))

print(sum(len(chunk) for chunk in ad.stream(outer(3))))
""",
    "a list": """
def outer():
    for _ in range(50):
        yield ad.array(array.array("q", [*lengths(ad.stream([array.array("q", [1])] * 20))][:1]))

print(sum(len(chunk) for chunk in ad.stream(outer())))
""",
    "a stream that is released": """
def outer():
    for _ in range(50):
        given = ad.stream(chunks()).__arrow_c_device_stream__()
        struct = struct_of(given, ArrowDeviceArrayStream)
        struct.release(ctypes.byref(struct))
        yield ad.array(array.array("q", [1]))

print(sum(len(chunk) for chunk in ad.stream(outer())))
""",
    "an array over a buffer that is released": """
def outer():
    for _ in range(50):
        given = ad.array(bytearray(100)).__arrow_c_device_array__()
        struct = struct_of(given[1], ArrowDeviceArray)
        struct.array.release(ctypes.byref(struct.array))
        yield ad.array(array.array("q", [1]))

print(sum(len(chunk) for chunk in ad.stream(outer())))
""",
    "a generator that raises": """
def fails():
    yield ad.array(array.array("q", [1]))
    raise LookupError("no more")

def outer():
    for _ in range(50):
        try:
            for length in lengths(ad.stream(fails())):
                pass
        except OSError as error:
            assert "LookupError: no more" in str(error), error
            yield ad.array(array.array("q", [1]))

print(sum(len(chunk) for chunk in ad.stream(outer())))
""",
    "four threads": """
def outer():
    for length in lengths(ad.stream(chunks())):
        yield ad.array(array.array("q", [length]))

read = []
def work():
    for chunk in ad.stream(outer()):
        read.append(len(chunk))

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(read) // 4)
""",
    "a destructor": """
class Reads:
    def __del__(self):
        for _ in lengths(ad.stream(chunks(4))):
            pass

class Buffer(bytearray):
    pass

read = 0
for _ in range(50):
    buffer = Buffer(8)
    buffer.reads = Reads()
    held = ad.array(buffer)
    del buffer
    del held
    read += 1
print(read)
""",
    "a method that makes a capsule": """
class Producer:
    def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
        [*_] = lengths(ad.stream(chunks(4)))
        return ad.array(array.array("q", [1])).__arrow_c_device_array__()

print(sum(len(ad.array(Producer())) for _ in range(50)))
""",
    "a method of DLPack": """
class Producer:
    def __dlpack__(self, **kwargs):
        [*_] = lengths(ad.stream(chunks(4)))
        return ad.array(array.array("q", [1])).__dlpack__(max_version=(1, 0))

    def __dlpack_device__(self):
        return 1, 0

print(sum(ad.from_dlpack(Producer()).size for _ in range(50)))
""",
}

BY_PYARROW = {
    "a generator that reads another": """
def outer():
    for batch in pa.RecordBatchReader.from_stream(ad.stream(batches())):
        yield batch

print(len(list(ad.stream(outer()))))
""",
    "a generator that makes tables": """
def outer():
    for _ in range(50):
        yield pa.table(ad.stream(batches())).to_batches()[0]

print(len(list(ad.stream(outer()))))
""",
    "a list": """
def outer():
    for _ in range(50):
        yield pa.table(ad.stream([pa.record_batch({"x": [1]})] * 20)).to_batches()[0]

print(len(list(ad.stream(outer()))))
""",
    "a destructor": """
class Reads:
    def __del__(self):
        pa.table(ad.stream(batches()))

def outer():
    for _ in range(50):
        yield pa.record_batch({"x": [1]})
        Reads()

print(len(list(ad.stream(outer()))))
""",
    "a method that makes a capsule": """
class Producer:
    def __arrow_c_array__(self, requested_schema=None):
        return pa.table(ad.stream(batches())).to_batches()[0].__arrow_c_array__(requested_schema)

print(len([ad.record_batch(Producer()) for _ in range(50)]))
""",
    "a generator that raises": """
def fails():
    yield from batches(2)
    raise LookupError("no more")

def outer():
    for _ in range(50):
        try:
            pa.table(ad.stream(fails()))
        except Exception as error:
            assert "LookupError: no more" in str(error), error
            yield pa.record_batch({"x": [1]})

print(len(list(ad.stream(outer()))))
""",
    "while other threads run Python": """
over = []

def spin():
    while not over:
        [object() for _ in range(100)]

def outer():
    for _ in range(50):
        yield pa.table(ad.stream(batches())).to_batches()[0]

# Who wants the lock of a thread that goes on running gets it after so many seconds.
sys.setswitchinterval(0.0005)
threads = [threading.Thread(target=spin) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    print(len(list(ad.stream(outer()))))
finally:
    over.append(True)
""",
}


@pytest.mark.parametrize("program", BY_CTYPES)
def test_c_functions_are_called_without_the_lock_below_a_frame_of_ours(program):
    assert run(BEGINNING + BY_CTYPES[program]) == "50"


@pytest.mark.parametrize("program", BY_PYARROW)
def test_pyarrow_reads_without_the_lock_below_a_frame_of_ours(program):
    assert run(BEGINNING + PYARROW + BY_PYARROW[program]) == "50"


# Each puts what it made into `made`, and it goes with `made.clear()`.
TAKES_A_BUFFER_OVER = {
    "an array": "made.append(ad.array(buffer))",
    "a batch": 'made.append(ad.record_batch({"x": buffer}))',
    "a part": "made.append(ad.array(buffer).slice(1, 2))",
    "a tensor": "made.append(ad.array(buffer).to_tensor())",
    "a capsule": "made.append(ad.array(buffer).__arrow_c_device_array__())",
    "a capsule of DLPack": "made.append(ad.array(buffer).__dlpack__(max_version=(1, 0)))",
    "a stream": "made.append(ad.stream([buffer]))",
    "a stream that is read": "made.append(ad.stream([buffer])); next(made[0])",
    "a refusal": """
try:
    ad.array(buffer, device="warp")
except ValueError:
    pass
""",
}


@pytest.mark.parametrize("how", TAKES_A_BUFFER_OVER)
def test_a_buffer_is_given_up_with_the_object_that_holds_it(how):
    made, buffer = [], bytearray(8)
    exec(TAKES_A_BUFFER_OVER[how], {"ad": ad, "made": made, "buffer": buffer})
    made.clear()
    # Refused as long as anything shares the memory.
    buffer.append(1)


def test_a_generator_ends_with_the_stream_that_reads_it():
    ended = []

    def chunks():
        try:
            while True:
                yield array.array("q", [1])
        finally:
            ended.append(True)

    s = ad.stream(chunks())
    next(s)
    assert ended == []
    del s
    assert ended == [True]


def test_an_exception_keeps_its_identity_and_its_traceback():
    raised = []

    def chunks():
        yield array.array("q", [1])
        try:
            {}["key"]
        except KeyError as error:
            raised.append(LookupError("no more"))
            raise raised[0] from error

    s = ad.stream(chunks())
    next(s)
    with pytest.raises(LookupError) as caught:
        next(s)
    assert caught.value is raised[0] and isinstance(caught.value.__cause__, KeyError)
    assert "chunks" in [entry.name for entry in caught.traceback]


RELEASES_ON_A_THREAD_WITHOUT_PYTHON = BEGINNING + """
def release(struct, callback):
    # The thread that has the interpreter's lock waits for one that releases: `PyDLL` keeps it.
    libc, thread = ctypes.PyDLL(None), ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(thread), None, callback, ctypes.byref(struct)) == 0
    assert libc.pthread_join(thread, None) == 0

class Buffer(bytearray):
    def __del__(self):
        ended.append("buffer")

def endless():
    try:
        while True:
            yield array.array("q", [1])
    finally:
        ended.append("generator")

ended = []
given = ad.array(Buffer(8)).__arrow_c_device_array__()
struct = struct_of(given[1], ArrowDeviceArray)
release(struct, struct.array.release)
stream = ad.stream(endless())
next(stream)
given = stream.__arrow_c_device_stream__()
struct = struct_of(given, ArrowDeviceArrayStream)
release(struct, struct.release)
ad.release_finished()
print(*sorted(ended))
"""


# Requirement: SAF-15
def test_a_release_does_not_wait_for_the_interpreter():
    assert run(RELEASES_ON_A_THREAD_WITHOUT_PYTHON, seconds=30) == "buffer generator"


BELOW_A_FRAME = BEGINNING + """
class Buffer(bytearray):
    def __del__(self):
        order.append("given up")

order = []

def outer():
    given = ad.array(Buffer(8)).__arrow_c_device_array__()
    struct = struct_of(given[1], ArrowDeviceArray)
    struct.array.release(ctypes.byref(struct.array))
    order.append("released")
    yield array.array("q", [1])

s = ad.stream(outer())
del s
print(*order)
"""


# Requirement: SAF-15
def test_a_release_runs_no_python_code():
    assert run(BELOW_A_FRAME) == "released given up"


LONG_CHAINS = BEGINNING + """
class Reads:
    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        return self

    def __next__(self):
        return ONE

class Buffer(bytearray):
    pass

def work():
    stream = held = None
    for _ in range(20_000):
        stream = ad.stream(Reads(stream))
        buffer = Buffer(8)
        buffer.held, held = held, ad.array(buffer)
    del stream
    del buffer, held

ONE = ad.array(array.array("q", [1]))
threading.stack_size(512 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(ad.testing.live_objects()["streams"], ad.testing.live_objects()["arrays"])
"""


# Requirement: SAF-37
def test_objects_that_hold_each_other_in_a_long_chain_need_little_stack():
    assert run(LONG_CHAINS) == "0 1"


ONE_THREAD_WAITS = BEGINNING + """
began, quick_is_gone = threading.Event(), threading.Event()

class Slow(array.array):
    def __del__(self):
        began.set()
        order.append("waited" if quick_is_gone.wait(60) else "waited for nothing")

class Quick(array.array):
    def __del__(self):
        quick_is_gone.set()

def exported(buffer):
    _, capsule = ad.array(buffer).__arrow_c_device_array__()
    return capsule

order = []
# The one that was released last is given up first.
capsules = [exported(Quick("q", [2])), exported(Slow("q", [1]))]
for capsule in capsules:
    struct = struct_of(capsule, ArrowDeviceArray)
    struct.array.release(ctypes.byref(struct.array))
thread = threading.Thread(target=ad.release_finished)
thread.start()
assert began.wait(60)
while thread.is_alive():
    ad.release_finished()
    thread.join(0.001)
print(*order)
"""


# Requirement: SAF-23, SAF-24
def test_what_one_thread_gives_up_keeps_nothing_from_others():
    assert run(ONE_THREAD_WAITS) == "waited"
