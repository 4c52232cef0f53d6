"""What may end a process, or hang it: each case is a section, and so a process of its own.

A case is a function of the libraries that are there and of whether little is enough; it returns a text for the report, raises
`Missing` where it cannot be tried, and anything else where something is wrong.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy

import arrow_device as ad
import exchange
from libraries import Missing

SMALL, LARGE = 1 << 16, 1 << 22
#: How many bytes are allocated at a time where all of them are asked for.
STEP = 1 << 30


def numbers(length, value=None):
    """int32 numbers in host memory, counted or all the same."""
    return numpy.arange(length, dtype="int32") if value is None else numpy.full(length, value, dtype="int32")


def in_order(libraries):
    """The libraries with streams of a device, or `Missing`."""
    found = [library for library in libraries if library.device != "cpu" and library.has_streams]
    if not found:
        raise Missing("no library with streams of a device")
    return found


def gpu(libraries):
    """The first device."""
    found = [str(device) for device in ad.devices() if device.type in ("cuda", "rocm")]
    if not found:
        raise Missing(f"no GPU: {ad.devices().missing}")
    return found[0]


def works(name):
    """That numbers go to the device and come back."""
    expected = ad.array(numbers(1000))
    assert expected.to(name).to_host() == expected, f"{name} does not work any more"


def unmistaken(library):
    mistakes = library.mistakes()
    assert not mistakes, mistakes


def deletion_in_flight(libraries, is_quick):
    """Their object of our memory dies while their stream reads that memory, and the memory is asked for again at once."""
    length, said = SMALL if is_quick else LARGE, []
    for library in in_order(libraries):
        expected = list(range(length))
        for turn in range(3):
            there = ad.array(numbers(length)).to(library.device)
            there.wait()
            with library.stream():
                theirs = library.take(there)
                library.keep_busy()
                copied = library.copied(theirs)
                del theirs, there
                gc.collect()
                ad.release_finished()
                others = [ad.array(numbers(length, 7)).to(library.device) for _ in range(8)]
                exchange.same(library.values(copied), expected, f"read after the deletion, turn {turn}")
            del others, copied
            exchange.release()
        unmistaken(library)
        said.append(type(library).__name__)
    return f"{said}, 3 turns each"


def deletion_of_theirs_in_flight(libraries, is_quick):
    """Our object of their memory dies while our queue reads that memory, and they ask for memory at once."""
    length, said = SMALL if is_quick else LARGE, []
    for library in in_order(libraries):
        queue = ad.device(library.device).queue()
        much = ad.array(numbers(4 * length))
        for turn in range(3):
            theirs = library.count(length)
            ours = ad.from_dlpack(theirs).to_array()
            busy = [much.to(queue) for _ in range(4)]
            there = ours.to(queue)
            del theirs, ours
            gc.collect()
            ad.release_finished()
            others = [library.make([7] * length, "int32") for _ in range(4)]
            assert there.to_host() == ad.array(numbers(length)), f"read after the deletion, turn {turn}"
            del busy, others, there
            exchange.release()
        unmistaken(library)
        said.append(type(library).__name__)
    return f"{said}, 3 turns each"


def capture_meanwhile(libraries, is_quick):
    """Somebody captures a graph: their stream is refused with words, the other threads exchange data, the capture stays whole."""
    said = []
    for library in in_order(libraries):
        wrong, told = [], []

        def elsewhere():
            try:
                works(library.device)
            except BaseException as error:  # noqa: BLE001
                wrong.append(f"{type(error).__name__}: {error}")

        array = ad.array(numbers(1000))
        works(library.device)
        exchange.release()
        with library.capture() as handle:
            if handle is None:
                said.append(f"{type(library).__name__} captures nothing")
                continue
            queue = ad.Queue.from_handle(library.device, handle)
            try:
                array.to(queue)
                wrong.append("a stream that captures was copied on")
            except ad.ArrowDeviceError as error:
                told.append(str(error))
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        assert not wrong, wrong
        assert all("capturing" in text for text in told), told
        # It is an ordinary stream again.
        assert array.to(queue).to_host() == array
        unmistaken(library)
        said.append(f"{type(library).__name__}: {told}")
    return f"{said}"


def graphs_of_imports(libraries, is_quick):
    """A graph reads what was imported from us; the import is let go of behind the last launch, and the memory asked for again."""
    length, said = SMALL if is_quick else LARGE, []
    for library in in_order(libraries):
        expected = list(range(length))
        there = ad.array(numbers(length)).to(library.device)
        there.wait()
        with library.stream():
            theirs, to = library.take(there), library.make([0] * length, "int32")
            launch = library.graph(to, theirs)
            if launch is None:
                said.append(f"{type(library).__name__} has no graphs")
                continue
            library.keep_busy()
            for _ in range(3):
                launch()
            del theirs, there
            gc.collect()
            ad.release_finished()
            others = [ad.array(numbers(length, 7)).to(library.device) for _ in range(8)]
            exchange.same(library.values(to), expected, "what the graph has read")
        del others, to, launch
        exchange.release()
        unmistaken(library)
        said.append(type(library).__name__)
    return f"{said}, 3 launches each"


# A process without the other libraries: what they started before a fork may crash in the child.
FORK = """
import gc, os, sys
import numpy, arrow_device as ad
name = sys.argv[1]
expected = ad.array(numpy.arange(1000, dtype="int32"))
there = expected.to(name)
assert there.to_host() == expected
read, write = os.pipe()
child = os.fork()
if child == 0:
    said = "nothing was refused"
    try:
        there.to_host()
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    del there
    gc.collect()
    os.write(write, said.encode())
    # This way of ending runs all handlers.
    sys.exit(0)
os.close(write)
with os.fdopen(read) as pipe:
    said = pipe.read()
_, status = os.waitpid(child, 0)
assert status == 0, f"the child ended with {status}: {said}"
assert "fork" in said, said
assert there.to_host() == expected
print(said)
"""


def fork(libraries, is_quick):
    """A child of `fork` is refused with words and ends; its parent goes on."""
    words = [sys.executable, "-c", FORK, gpu(libraries)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 0, f"it ended with {ended.returncode}: {ended.stdout}{ended.stderr}"
    return ended.stdout.strip()


AT_EXIT = """
import sys, threading
import numpy, arrow_device as ad
name, way = sys.argv[1:]
queue = ad.device(name).queue()
kept = [ad.array(numpy.arange(1 << 20, dtype="int32")).to(queue) for _ in range(8)]
if way == "tensors":
    kept = [array.to_tensor() for array in kept] + [array.__dlpack__(stream=1, max_version=(1, 0)) for array in kept]
if way == "thread":
    def work():
        while True:
            ad.array(numpy.arange(1000, dtype="int32")).to(name).to_host()
    threading.Thread(target=work, daemon=True).start()
    import time
    time.sleep(0.2)
if way == "cycle":
    kept.append(kept)
"""


def exit_with_live_arrays(libraries, is_quick):
    """A process ends that has arrays, tensors, capsules, and work that runs."""
    name, said = gpu(libraries), []
    for way in ("arrays", "tensors", "cycle", "thread"):
        words = [sys.executable, "-c", AT_EXIT, name, way]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=30)
        assert ended.returncode == 0, f"{way}: it ended with {ended.returncode}: {ended.stdout}{ended.stderr}"
        said.append(way)
    return f"{said}"


def out_of_memory(libraries, is_quick):
    """All of the device's memory is asked for. The error says so, what there is can be used, and memory comes back."""
    name = gpu(libraries)
    ad.set_allocation_timeout(1)
    block = ad.array(numpy.zeros((64 << 20 if is_quick else STEP) // 8, dtype="int64"))
    kept = []
    try:
        while len(kept) < 512:
            kept.append(block.to(name))
    except ad.OutOfMemoryError as error:
        text = str(error)
    else:
        raise AssertionError(f"{len(kept)} blocks of {block.nbytes} bytes were given out")
    assert kept, text
    count = len(kept)
    same = kept[-1].slice(0, 1000).to_host() == block.slice(0, 1000)
    assert same, "what was given out before"
    kept.clear()
    exchange.release()
    works(name)
    assert block.to(name).slice(0, 1000).to_host() == block.slice(0, 1000)
    return f"after {count} blocks of {block.nbytes} bytes: {text}"


def lost_device(libraries, is_quick):
    """A fault of somebody's kernel breaks the device: all calls say so, nothing hangs, everything is released."""
    name = gpu(libraries)
    works(name)
    there = ad.array(numbers(1000)).to(name)
    for library in in_order(libraries):
        if not library.lose():
            continue
        try:
            there.to_host()
        except ad.DeviceError as error:
            text = str(error)
        else:
            raise AssertionError("the device works still")
        assert "start the process anew" in text, text
        del there
        gc.collect()
        ad.wait_until_released(20)
        return f"{type(library).__name__}: {text}"
    raise Missing("no library that can break a device")


def memory_of_reservations(libraries, is_quick):
    """Memory of virtual ranges, which grow: PyTorch's `expandable_segments`."""
    said = []
    for library in in_order(libraries):
        text = library.reservations()
        if text is None:
            continue
        small = library.count(1000)
        large = library.count(SMALL if is_quick else 16 * LARGE)
        for theirs, length in ((small, 1000), (large, SMALL if is_quick else 16 * LARGE)):
            ours = ad.from_dlpack(theirs)
            back = numpy.from_dlpack(ours.to_host())
            assert (back == numbers(length)).all(), f"{length} numbers"
            del ours
        for check in (exchange.every_type_goes_both_ways, exchange.what_is_passed_outlives_its_maker):
            check(library)
        unmistaken(library)
        said.append(f"{type(library).__name__}: {text}")
    if not said:
        raise Missing("no library with such memory")
    return f"{said}"


def column_of_five_gib(libraries, is_quick):
    """A column of texts of more than 2^32 bytes, whose last text begins behind them."""
    name = gpu(libraries)
    try:
        import pyarrow as pa
    except ImportError as error:
        raise Missing(f"pyarrow: {error}") from error
    length = 5 << 20 if is_quick else 5 << 30
    bytes_ = numpy.zeros(length, dtype="uint8")
    last = b"the last one"
    bytes_[-len(last):] = numpy.frombuffer(last, dtype="uint8")
    offsets = numpy.array([0, length - len(last), length], dtype="int64")
    texts = pa.LargeStringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(bytes_))
    there = ad.array(texts).to(name)
    found = pa.array(there.slice(1, 1).to_host()).to_pylist()
    assert found == [last.decode()], found
    return f"{length} bytes"


def default_streams_of_threads(libraries, is_quick):
    """`cudaStreamPerThread` is another stream on each thread: tensors are handed over in its order on one thread, and deleted on another.
    A queue of it is refused with words, since a queue may be used on any thread."""
    name, made, wrong = gpu(libraries), {}, []
    try:
        ad.Queue.from_handle(name, 2)
    except ad.ArrowDeviceError as error:
        text = str(error)
    else:
        raise AssertionError("a queue of a thread's default stream was made")

    def hand_over(number):
        there = ad.array(numbers(LARGE // 16, number)).to(name)
        made[number] = [there.__dlpack__(stream=2, max_version=(1, 0)) for _ in range(4)], there

    def delete(number):
        capsules, there = made.pop((number + 1) % 4)
        del capsules
        gc.collect()
        again = ad.array(numbers(LARGE // 16, 7)).to(name)
        expected = ad.array(numbers(LARGE // 16, (number + 1) % 4))
        assert there.to_host() == expected, "what was handed over and deleted"
        assert again.to_host() == ad.array(numbers(LARGE // 16, 7)), "what was made after the deletion"

    def on_threads(work):
        def watched(number):
            try:
                work(number)
            except BaseException as error:  # noqa: BLE001
                wrong.append(f"thread {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=watched, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong

    on_threads(hand_over)
    on_threads(delete)
    exchange.release()
    works(name)
    return f"4 threads; a queue is refused: {text}"


#: By the names of the sections.
HAZARDS = {
    case.__name__.replace("_", " "): case
    for case in (
        deletion_in_flight, deletion_of_theirs_in_flight, capture_meanwhile, graphs_of_imports, fork, exit_with_live_arrays,
        out_of_memory, memory_of_reservations, column_of_five_gib, default_streams_of_threads, lost_device,
    )
}


#: What a case needs in its environment before a library is imported.
ENVIRONMENT = {
    memory_of_reservations.__name__.replace("_", " "): {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    },
}
