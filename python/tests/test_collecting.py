"""Cycles through objects that the package holds, which Python's collector finds."""

import gc
import tempfile
import mmap
import threading
import weakref

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
import arrow_device.testing


class Bytes(bytearray):
    pass


class Values(np.ndarray):
    pass


class Source:
    """An iterator that keeps what is made of it."""

    def __init__(self):
        self.left = [pa.array([1]), pa.array([2])]

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop()


def collected(make) -> bool:
    """Whether what `make` leaves behind goes."""
    gc.collect()
    gone = weakref.ref(make())
    assert gone() is not None, "something else than the collector took it"
    gc.collect()
    # What the collector gave up is let go of by the next call.
    ad.release_finished()
    gc.collect()
    return gone() is None


def with_array(source):
    source.array = ad.array(source)
    return source


@pytest.mark.parametrize("make", [
    lambda: Bytes(b"abc"),
    lambda: np.arange(3).view(Values),
    lambda: np.arange(3, dtype="float32").view(Values),
    lambda: np.memmap(tempfile.TemporaryFile(), shape=(3,)),
], ids=["bytearray", "ndarray", "float32", "memmap"])
def test_an_object_goes_that_keeps_the_array_over_its_own_memory(make):
    before = ad.testing.live_objects()
    assert collected(lambda: with_array(make()))
    assert ad.testing.live_objects() == before


SOURCES = {
    "bytearray": lambda: Bytes(b"abcd"),
    "ndarray": lambda: np.arange(4).view(Values),
    "matrix": lambda: np.arange(8.0).reshape(4, 2).view(Values),
    "memmap": lambda: np.memmap(tempfile.TemporaryFile(), shape=(4,)),
}
#: What an object may keep of its own memory.
KEPT = {
    "array": ad.array,
    "slice": lambda x: ad.array(x)[1:3],
    "slice of a slice": lambda x: ad.array(x)[1:][:1],
    "tensor of an array": lambda x: ad.array(x).to_tensor(),
    "array with host copies": lambda x: ad.array(x).with_host_copies(),
    "array that is there": lambda x: ad.array(x).to("cpu"),
    "batch": lambda x: ad.record_batch({"x": x, "y": np.arange(4)}),
    "slice of a batch": lambda x: ad.record_batch({"x": x})[1:],
    "column": lambda x: ad.record_batch({"x": x})["x"],
    "columns": lambda x: ad.record_batch({"x": x}).columns[0],
    "selected": lambda x: ad.record_batch({"y": np.arange(4), "x": x}).select(["x"]),
    "renamed": lambda x: ad.record_batch({"x": x}).rename(["y"]),
    "batch in a batch": lambda x: ad.record_batch({"b": ad.record_batch({"x": x})}),
    "child": lambda x: ad.record_batch({"x": x}).child(0),
    "memoryview": lambda x: memoryview(ad.array(x).to_tensor().to_array()[1:].to_tensor().to_array()),
}
TENSORS = {
    "tensor": ad.from_dlpack,
    "tensor without a copy": lambda x: ad.from_dlpack(x, copy=False),
    "permuted": lambda x: ad.from_dlpack(x).permute([*range(x.ndim)][::-1]),
    "array of a tensor": lambda x: ad.from_dlpack(x).to_array(),
    "lists of a tensor": lambda x: ad.from_dlpack(x).to_array(as_lists=True),
}


def keeping(source, keep):
    source.kept = keep(source)
    return source


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("make", SOURCES)
def test_an_object_goes_that_keeps_something_over_its_own_memory(make, keep):
    if (make, keep) == ("matrix", "memoryview"):
        return  # Its elements are lists, which have no buffer.
    before = ad.testing.live_objects()
    assert collected(lambda: keeping(SOURCES[make](), KEPT[keep]))
    assert ad.testing.live_objects() == before


@pytest.mark.parametrize("keep", TENSORS)
@pytest.mark.parametrize("make", [name for name in SOURCES if name != "bytearray"])
def test_an_object_goes_that_keeps_a_tensor_over_its_own_memory(make, keep):
    before = ad.testing.live_objects()
    assert collected(lambda: keeping(SOURCES[make](), TENSORS[keep]))
    assert ad.testing.live_objects() == before


def test_two_objects_over_each_others_memory_go():
    def make():
        one, other = Bytes(b"abc"), np.arange(3).view(Values)
        one.kept, other.kept = ad.from_dlpack(other), ad.record_batch({"x": one, "y": [1, 2, 3]})
        return one

    assert collected(make)


def test_an_object_stays_whose_memory_somebody_else_uses():
    uses = [
        lambda a: a,
        lambda a: a[1:],
        lambda a: a.with_host_copies(),
        lambda a: a.to_tensor(),
        lambda a: a.to_tensor().to_array(),
        lambda a: np.from_dlpack(a),
        lambda a: memoryview(a),
        lambda a: pa.array(a),
        lambda a: a.__arrow_c_device_array__(),
        lambda a: a.__arrow_c_array__(),
        lambda a: a.__dlpack__(max_version=(1, 0)),
        lambda a: iter(a),
        lambda a: ad.stream([a]),
        lambda a: ad.record_batch({"x": a}),
        lambda a: ad.record_batch({"x": a})["x"],
        lambda a: ad.record_batch({"x": a, "y": a}),
    ]
    # What an object keeps, of which somebody outside has a part.
    keeps = [
        ad.array,
        lambda x: ad.array(x).to_tensor().to_array(),
        lambda x: ad.record_batch({"x": x})["x"],
    ]
    for keep in keeps:
        for use in uses:
            used = []

            def make():
                source = keeping(Bytes(b"abc"), keep)
                used.append(use(source.kept))
                return source

            assert not collected(make)
            values = used[0].to_pylist() if hasattr(used[0], "to_pylist") else None
            assert values in (None, [97, 98, 99], [98, 99], [{"x": n} for n in b"abc"], [{"x": n, "y": n} for n in b"abc"])
            used.clear()
            del values
            gc.collect()
            ad.release_finished()
            gc.collect()
            assert not [each for each in gc.get_objects() if type(each) is Bytes], (keep, use)


def test_a_part_that_somebody_has_keeps_the_rest():
    matrix = np.arange(6).reshape(3, 2).view(Values)
    gone = weakref.ref(matrix)
    matrix.kept = ad.record_batch({"x": matrix, "y": [1, 2, 3]})
    items = matrix.kept["x"].child(0)
    del matrix
    for _ in range(3):
        gc.collect()
        ad.release_finished()
    assert gone() is not None and items.to_pylist() == [0, 1, 2, 3, 4, 5]
    del items
    gc.collect()
    ad.release_finished()
    gc.collect()
    assert gone() is None


def test_a_source_goes_that_keeps_the_stream_over_itself():
    def make(use):
        source = Source()
        source.stream = use(ad.stream(source))
        return source

    def half_read(stream):
        next(stream)
        return stream

    for use in (
        lambda s: s,
        half_read,
        lambda s: s.with_host_copies(),
        lambda s: s.to("ext_dev:0"),
        lambda s: s.to("ext_dev:0").with_host_copies(),
    ):
        assert collected(lambda: make(use))
    source = Source()
    source.stream = ad.stream(source, schema=pa.int64())
    gone = weakref.ref(source)
    del source
    gc.collect()
    ad.release_finished()
    assert gone() is None


def test_a_generator_goes_that_keeps_the_stream_over_itself():
    class Box:
        pass

    ended = []

    def chunks(box):
        try:
            yield pa.array([1])
            yield pa.array([2])
        finally:
            ended.append(box is not None)

    def make():
        box = Box()
        box.stream = ad.stream(chunks(box))
        next(box.stream)
        return box

    assert collected(make)
    assert ended == [True]


def test_a_source_stays_whose_stream_somebody_else_reads():
    source = Source()
    source.stream = ad.stream(source)
    handed = source.stream.__arrow_c_stream__()
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is not None
    del handed
    gc.collect()
    ad.release_finished()
    gc.collect()
    assert gone() is None


def test_the_collector_runs_while_other_threads_use_what_it_looks_at():
    stop, errors = threading.Event(), []

    def use():
        try:
            while not stop.is_set():
                source = with_array(Bytes(b"abc" * 100))
                parts = [source.array[n:] for n in range(3)]
                matrix, other = (np.arange(200).reshape(100, 2).view(Values) for _ in range(2))
                matrix.kept = ad.from_dlpack(other)
                other.kept = ad.record_batch({"x": ad.from_dlpack(matrix).to_array(), "y": np.arange(100)})
                column = other.kept["x"].to_tensor()
                assert np.from_dlpack(column).sum() == np.from_dlpack(matrix.kept).sum() == 19900
                assert matrix.kept.ready and other.kept.nbytes
                del column
                there = source.array.to("ext_dev:0")
                assert there.to_host() == source.array and len(parts) == 3
                reader = Source()
                reader.stream = ad.stream(reader).to("ext_dev:0")
                assert len(next(reader.stream)) == 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        gc.collect()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    gc.collect()
    ad.release_finished()
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) in (Bytes, Source, Values)]
    assert ad.testing.take_reports() == []
