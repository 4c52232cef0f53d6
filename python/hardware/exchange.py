"""The checks of exchange with one library: each is a function of the library, returns a text for the report, and raises where
something is wrong.

Values say whether data was ordered: what is exchanged is made by a stream that was given something long to do before, so that
whoever does not wait reads what was there before. The memory is filled with other numbers first.
"""

from __future__ import annotations

import gc
import threading
import time

import numpy

import arrow_device as ad
import arrow_device.testing

ROWS = [[0, 1, 1], [1, 0, 1]]


def same(found, expected, what):
    """That two lists are equal, of which there may be many elements."""
    if found == expected:
        return
    different = next((n for n, (one, other) in enumerate(zip(found, expected)) if one != other), "the length")
    raise AssertionError(f"{what}: element {different} differs: {str(found)[:200]} and not {str(expected)[:200]}")


def release():
    """Lets go of everything that nobody uses."""
    gc.collect()
    ad.wait_until_released(20)


def every_type_goes_both_ways(library):
    copied = []
    for dtype in library.dtypes:
        theirs = library.make(ROWS, dtype)
        ours = ad.from_dlpack(theirs)
        assert (ours.dtype, ours.shape, str(ours.device)) == (dtype, (2, 3), library.device), repr(ours)
        expected = library.values(theirs)
        back = library.take(ours)
        same(library.values(back), expected, f"{dtype}, handed back")
        if library.address(back) != library.address(theirs):
            copied.append(dtype)
        copy = library.take(ours.to_host().to(library.device))
        same(library.values(copy), expected, f"{dtype}, by way of the host")
    assert not copied or library.may_copy, f"these were copied: {copied}"
    return f"{len(library.dtypes)} types, of which it copied {copied}"


def other_strides_are_understood(library):
    theirs = library.make(ROWS, "int32")
    turned = library.transposed(theirs)
    if turned is None:
        return "it has no views with other strides"
    ours = ad.from_dlpack(turned)
    assert ours.shape == (3, 2), repr(ours)
    expected = [[0, 1], [1, 0], [1, 1]]
    same(library.values(library.take(ours)), expected, "transposed")
    same(library.values(library.take(ours.to_host().to(library.device))), expected, "transposed, by way of the host")
    return ""


def arrays_are_taken_as_tensors(library):
    numbers = host(range(1000))
    there = ad.array(numbers).to(library.device)
    same(library.values(library.take(there)), list(range(1000)), "an array")
    same(library.values(library.take(there[100:200])), list(range(100, 200)), "a part of it")
    assert library.values(library.take(there[1000:])) == []
    again = ad.from_dlpack(library.take(there)).to_array()
    assert again.to_host() == ad.array(numbers), "an array that went through the library"
    return ""


def their_stream_is_waited_for(library):
    """They produce on another stream than the default one; we copy at once."""
    if not library.has_streams:
        return "it shows no streams; its arrays are waited for all the same: " + theirs_while_busy(library)
    late = 0
    for _ in range(3):
        with library.stream():
            theirs = library.count(library.many)
            library.synchronize()
            theirs_was = library.values(theirs)[:3]
            del theirs
            library.keep_busy()
            theirs = library.count(library.many)
            ours = ad.from_dlpack(theirs)
        late += not ours.ready
        same(numbers_of(ours.to_host()), list(range(library.many)), "made on another stream")
        assert theirs_was == [0, 1, 2]
        # Freeing may wait, and the next round shall not have been waited for.
        del ours, theirs
        release()
    return f"{late} of 3 were not finished when they were taken"


def theirs_while_busy(library):
    library.keep_busy()
    ours = ad.from_dlpack(library.count(library.many))
    same(numbers_of(ours.to_host()), list(range(library.many)), "made while busy")
    return "equal"


def their_stream_waits_for_ours(library):
    """We copy to the device on a queue of our own, behind a lot else; they use it at once, on another stream."""
    if not library.device.startswith("cuda"):
        return "on the host nothing is copied later"
    queue, numbers = ad.device(library.device).queue(), host(range(library.many))
    much = ad.array(host(range(library.large)))
    late = 0
    for _ in range(3):
        before = [much.to(queue) for _ in range(4)]
        there = ad.array(numbers).to(queue)
        late += not there.ready
        with library.stream():
            theirs = library.take(there)
            same(library.values(theirs), list(range(library.many)), "made on a queue of ours")
        del before, there, theirs
        release()
    return f"{late} of 3 were not finished when they were handed over"


def their_stream_is_our_queue(library):
    """Our copies in the order of their stream, and theirs of them on the default one."""
    if not library.has_streams:
        return "it shows no streams"
    numbers = host(range(library.many))
    with library.stream() as handle:
        queue = ad.Queue.from_handle(library.device, handle)
        assert queue.handle == handle
        library.keep_busy()
        there = ad.array(numbers).to(queue)
        was_ready = there.ready
        on_it = library.take(there)
        same(library.values(on_it), list(range(library.many)), "on the same stream")
        library.keep_busy()
        again = ad.array(numbers).to(queue)
        del on_it
    same(library.values(library.take(again)), list(range(library.many)), "on the default stream")
    library.synchronize()
    del there, again, queue
    release()
    return "it was finished at once" if was_ready else "it was not finished when it was handed over"


def what_is_passed_outlives_its_maker(library):
    there = ad.array(host(range(library.many))).to(library.device)
    theirs = library.take(there)
    del there
    release()
    other = ad.array(host([7] * library.many)).to(library.device)
    same(library.values(theirs), list(range(library.many)), "ours, after we let go")
    ours = ad.from_dlpack(library.count(library.many))
    gc.collect()
    again = library.make([9] * library.many, "int32")
    same(numbers_of(ours.to_host()), list(range(library.many)), "theirs, after they let go")
    del other, again
    return ""


def ours_is_kept_while_their_stream_reads_it(library):
    """They read ours on a stream that is busy, and let go at once: nobody waits for the stream."""
    if not library.has_streams:
        return "it shows no streams"
    expected = list(range(library.many))
    for _ in range(3):
        there = ad.array(host(expected)).to(library.device)
        there.wait()
        with library.stream():
            theirs = library.take(there)
            del there
            library.keep_busy()
            copied = library.copied(theirs)
            del theirs
            gc.collect()
            ad.release_finished()
            # Whatever is given back is used again.
            others = [ad.array(host([7] * library.many)).to(library.device) for _ in range(4)]
            same(library.values(copied), expected, "ours, read after they let go")
        del others, copied
        release()
    return ""


def everything_is_freed(library):
    def counts():
        library.synchronize()
        release()
        held = ad.device(library.device).held
        live = ad.testing.live_objects()
        # A consumer may take the destructor out of a capsule, by which they are counted.
        del live["capsules"]
        return {**live, "ours": held["allocated"], "theirs": library.held()}

    def settled(expected):
        """The counts, when they are those or have had some time to become so: a library may free on a thread of its own."""
        for _ in range(20):
            found = counts()
            if found == expected:
                break
            time.sleep(0.1)
        return found

    # What is kept for the next time, by whomever, is there after a first round.
    for _ in range(2):
        before = counts()
        there = ad.array(host(range(library.many))).to(library.device)
        theirs = library.take(there)
        del there
        during = counts()
        if library.device != "cpu":
            assert during["ours"] >= before["ours"] + 4 * library.many, f"we hold nothing: {before}, {during}"
        library.values(theirs)
        del theirs
        after = settled(before)
    assert after == before, f"ours that they had: {before} before, {after} after"

    before = counts()
    theirs = library.count(library.many)
    ours = ad.from_dlpack(theirs)
    del theirs
    during = counts()
    if before["theirs"] is not None:
        assert during["theirs"] >= before["theirs"] + 4 * library.many, f"they hold nothing: {before}, {during}"
    del ours
    after = settled(before)
    assert after == before, f"theirs that we had: {before} before, {after} after"
    return f"{after}"


def what_cannot_be_a_tensor_is_refused(library):
    import_arrow = arrow()
    if import_arrow is None:
        return "pyarrow, which makes the arrays, is not there"
    nulls = ad.array(import_arrow.array([1, None])).to(library.device)
    texts = ad.array(import_arrow.array(["a"])).to(library.device)
    for array in (nulls, texts):
        try:
            library.take(array)
        except (BufferError, ValueError, TypeError, RuntimeError):
            continue
        raise AssertionError(f"{array!r} was taken")
    return ""


def threads_exchange_at_once(library):
    wrong = []

    def work(number):
        try:
            for turn in range(5):
                expected = list(range(number, number + 1000))
                with library.stream():
                    theirs = library.take(ad.array(host(expected)).to(library.device))
                    same(library.values(theirs), expected, f"thread {number}, turn {turn}")
                    ours = ad.from_dlpack(library.count(1000))
                    same(numbers_of(ours.to_host()), list(range(1000)), f"thread {number}, turn {turn}, back")
                    del ours, theirs
        except BaseException as error:  # noqa: BLE001
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    return "4 threads"


#: In this order.
CHECKS = [
    every_type_goes_both_ways,
    other_strides_are_understood,
    arrays_are_taken_as_tensors,
    their_stream_is_waited_for,
    their_stream_waits_for_ours,
    their_stream_is_our_queue,
    what_is_passed_outlives_its_maker,
    ours_is_kept_while_their_stream_reads_it,
    everything_is_freed,
    what_cannot_be_a_tensor_is_refused,
    threads_exchange_at_once,
]


def host(numbers):
    """int32 numbers in host memory."""
    return numpy.array(numbers, dtype="int32")


def numbers_of(tensor):
    """The elements of a tensor in host memory."""
    return numpy.from_dlpack(tensor).tolist()


def arrow():
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow
