"""Streams: in by both protocols and from iterables, out by both, in order, once."""

import array
import gc
import subprocess
import sys
import threading
import types
import weakref

import pyarrow as pa
import pytest

import arrow_device as ad
from support import (
    ArrowDeviceArray,
    ArrowDeviceArrayStream,
    ArrowSchema,
    DeviceStreamCallbacks,
    DeviceStreamOnly,
    KEPT,
    Numbers,
    ReleaseArray,
    capsule,
    ctypes,
    live,
    struct_of,
    until,
    until_no_more_than,
)

TABLE = pa.table({"x": pa.chunked_array([[1, 2], [3]]), "y": pa.chunked_array([["a", None], ["c"]])})


def test_a_batch_on_a_device_is_a_stream_of_one(software):
    batch = ad.record_batch({"x": [1, 2]}).to("ext_dev:0")
    assert ad.stream(batch).device_type == "ext_dev"
    assert [each.device.type for each in ad.stream(batch)] == ["ext_dev"]
    assert [each.device.type for each in ad.stream(batch.with_host_copies())] == ["cpu"]


def test_a_table_comes_in_batch_by_batch_and_goes_out_again():
    s = ad.stream(TABLE)
    assert (s.schema.names, s.device_type) == (["x", "y"], "cpu")
    assert repr(s) == "<arrow_device.Stream struct<x: int64, y: utf8> on cpu>"
    assert [type(b) for b in s] == [ad.RecordBatch] * 2
    assert pa.table(ad.stream(TABLE)).equals(TABLE)
    assert pa.RecordBatchReader.from_stream(ad.stream(TABLE)).read_all().equals(TABLE)


def test_a_stream_by_the_device_protocol_gives_the_same(device):
    batches = [ad.record_batch(batch).to(device) for batch in TABLE.to_batches()]
    s = ad.stream(DeviceStreamOnly(ad.stream(batches)))
    assert (s.device_type, s.schema.names) == (device.type, ["x", "y"])
    back = [pa.record_batch(batch.to_host()) for batch in s]
    assert pa.Table.from_batches(back).equals(TABLE)


def test_arrays_of_any_type_make_a_stream(device):
    chunks = [pa.array([[1], None]), pa.array([], pa.list_(pa.int64())), pa.array([[2, 3]])]
    s = ad.stream(DeviceStreamOnly(ad.stream(ad.array(chunk).to(device) for chunk in chunks)))
    assert [pa.array(chunk.to_host()) for chunk in s] == chunks


def test_structs_with_null_rows_are_arrays_and_no_batches():
    nulls = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([True, False]))
    [chunk] = ad.stream(pa.chunked_array([nulls]))
    assert type(chunk) is ad.Array and pa.array(chunk).equals(nulls)


def test_one_array_is_a_stream_of_one():
    [chunk] = ad.stream(pa.array([1, 2]))
    assert pa.array(chunk).to_pylist() == [1, 2]
    assert ad.stream(ad.stream(TABLE)).schema.names == ["x", "y"]


def test_the_end_stays_the_end():
    s = ad.stream(TABLE)
    assert len(s.read_all()) == 2
    assert s.read_all() == [] and next(s, None) is None
    assert pa.table(s).num_rows == 0


def test_a_stream_is_handed_over_once():
    s = ad.stream(TABLE)
    capsule_of_it = s.__arrow_c_device_stream__()
    for read in (s.__arrow_c_stream__, s.__arrow_c_device_stream__, s.read_all, lambda: next(s), lambda: s.to("cpu")):
        with pytest.raises(ad.DataError, match="the stream was handed over already"):
            read()
    assert s.schema.names == ["x", "y"]
    del capsule_of_it


def test_an_empty_iterable_needs_a_schema():
    with pytest.raises(ad.DataError, match="the iterable is empty: say which schema"):
        ad.stream([])
    assert pa.table(ad.stream([], schema=TABLE.schema)).equals(TABLE.slice(0, 0))
    assert pa.table(ad.stream(TABLE.to_batches(), schema=TABLE.schema)).equals(TABLE)


def test_what_does_not_belong_into_the_stream_ends_it(software):
    wrong = ad.stream([pa.array([1]), pa.array(["a"])])
    next(wrong)
    with pytest.raises(ad.DataError, match="an array of the stream has the type utf8, and the schema says int64"):
        next(wrong)
    assert next(wrong, None) is None
    elsewhere = ad.stream([ad.array(pa.array([1])), ad.array(pa.array([1])).to(software)])
    next(elsewhere)
    with pytest.raises(ad.DataError, match="and the stream is one of cpu"):
        next(elsewhere)


def test_an_iterators_own_exception_comes_out_as_it_was():
    def chunks():
        yield pa.array([1])
        raise LookupError("no more")

    s = ad.stream(chunks())
    next(s)
    with pytest.raises(LookupError, match="no more"):
        next(s)
    copied = ad.stream(chunks()).to("ext_dev:0")
    next(copied)
    with pytest.raises(LookupError, match="no more"):
        next(copied)
    again = ad.stream(DeviceStreamOnly(ad.stream(chunks())))
    next(again)
    with pytest.raises(ad.ProducerError, match="LookupError: no more"):
        next(again)
    with pytest.raises(Exception, match="LookupError: no more"):
        pa.chunked_array(ad.stream(chunks()))


def test_an_iterator_that_reads_its_own_stream_is_told():
    def chunks():
        yield pa.array([1])
        yield from s

    s = ad.stream(chunks())
    next(s)
    with pytest.raises(RuntimeError, match="the stream is being read by this thread already"):
        next(s)


def test_a_copied_stream_copies_when_it_is_asked(device):
    asked = []

    def chunks():
        for number in range(3):
            asked.append(number)
            yield pa.array([number])

    s = ad.stream(chunks()).to(device)
    assert (s.device_type, asked) == (device.type, [0])
    first = next(s)
    assert (first.device, asked) == (device, [0])
    assert [pa.array(chunk.to_host()).to_pylist() for chunk in s] == [[1], [2]]


def test_threads_share_a_stream_without_losing_or_doubling_a_chunk():
    s = ad.stream(pa.array([number]) for number in range(400))
    seen, lock = [], threading.Lock()

    def read():
        for chunk in s:
            with lock:
                seen.append(pa.array(chunk).to_pylist()[0])

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(400))


def test_chunks_and_schema_outlive_the_stream():
    s = ad.stream(TABLE)
    first, schema = next(s), s.schema
    del s
    gc.collect()
    assert pa.record_batch(first).num_rows == 2 and schema.names == ["x", "y"]


def test_a_stream_lets_go_where_its_block_ends():
    ended = []

    def chunks():
        try:
            yield pa.array([0])
            yield pa.array([1])
        finally:
            ended.append(True)

    with ad.stream(chunks()) as s:
        next(s)
        assert not ended
    gc.collect()
    assert ended == [True]
    with pytest.raises(ad.DataError, match="handed over already, or closed"):
        next(s)
    s.close()
    with pytest.raises(LookupError), ad.stream(TABLE):
        raise LookupError
    with ad.stream(TABLE) as s:
        table = pa.table(s)
    assert table.equals(TABLE)


@pytest.mark.parametrize("made", [TABLE.to_reader, lambda: ad.stream(TABLE), lambda: TABLE], ids=["reader", "stream", "table"])
@pytest.mark.parametrize("take", [ad.array, ad.record_batch])
def test_what_was_read_of_several_chunks_is_not_lost(made, take):
    with pytest.raises(ad.DataError, match="has several chunks, and an array is one") as raised:
        take(made())
    assert pa.table(raised.value.stream).equals(TABLE)


@pytest.mark.parametrize("made", [TABLE.to_reader, lambda: ad.stream(TABLE), lambda: TABLE.to_batches()[0]])
def test_a_schema_beside_what_has_one_is_compared(made):
    with pytest.raises(ad.DataError, match="`schema` says struct<z: int64>, and what is there is struct<x: int64, y: utf8>"):
        ad.stream(made(), schema=pa.schema({"z": pa.int64()}))
    assert ad.stream(made(), schema=TABLE.schema).schema.names == ["x", "y"]


def test_nothing_of_an_iterable_with_a_schema_is_asked_for_before_it_is_wanted(software):
    asked = []

    def chunks(*places):
        for number, place in enumerate(places):
            asked.append(number)
            yield ad.array(pa.array([number])).to(place)

    def stream(*places):
        asked.clear()
        return ad.stream(chunks(*places), schema=pa.int64())

    s = stream("cpu", "cpu")
    assert repr(s) == "<arrow_device.Stream int64, not read yet>" and s.schema.type == "int64" and asked == []
    assert len(next(s)) == 1 and asked == [0] and s.device_type == "cpu"
    assert [pa.array(a).to_pylist() for a in s] == [[1]]
    # Nor to be handed on.
    reader = pa.RecordBatchReader.from_stream(ad.stream((pa.table({"x": [n]}) for n in asked), schema=pa.schema({"x": pa.int64()})))
    capsule = stream("cpu", "cpu").__arrow_c_stream__()
    assert asked == [] and reader.read_all().num_rows == 0
    del capsule
    moved = stream("cpu", "cpu").to(software)
    assert asked == [] and [a.device for a in moved] == [software] * 2
    moved = stream(software, software).with_host_copies()
    assert asked == [] and pa.chunked_array(moved).to_pylist() == [0, 1]
    # Those on a device need a stream that says on which type, which the first array tells.
    s = stream(software, software)
    assert (s.device_type, asked) == ("ext_dev", [0])
    assert len(s.read_all()) == 2
    with pytest.raises(Exception, match="an array of the stream lies on ext_dev:.*, and the stream is one of cpu"):
        pa.chunked_array(stream(software))
    # An exception of the source is its own, and the end.
    s = ad.stream((1 / 0 for _ in [1]), schema=pa.int64())
    with pytest.raises(ZeroDivisionError):
        s.device_type
    assert s.read_all() == []
    assert ad.stream(iter([]), schema=pa.int64()).read_all() == []


def test_a_query_that_has_not_run_is_to_be_collected():
    class Query:
        def collect(self):
            return pa.table({"x": [1]})

        def __iter__(self):
            raise TypeError("a query has no rows")

    for take in (ad.stream, ad.array, ad.record_batch):
        with pytest.raises(TypeError, match="has no data yet; collect it first"):
            take(Query())


def test_a_reader_with_another_schema_is_not_lost():
    with pytest.raises(ad.DataError) as raised:
        ad.stream(TABLE.to_reader(), schema=pa.schema({"z": pa.int64()}))
    assert pa.table(raised.value.stream).equals(TABLE)


def test_an_item_that_raises_stop_iteration_does_not_end_the_stream():
    class Item:
        def __arrow_c_array__(self, requested_schema=None):
            raise StopIteration

    with pytest.raises(RuntimeError, match="taking an array over raised StopIteration") as raised:
        list(ad.stream([pa.array([1]), Item(), pa.array([2])]))
    assert isinstance(raised.value.__cause__, StopIteration)


def test_chunks_of_another_extension_type_are_refused():
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16)))
    for chunks in ([ids, ids.storage], [ids.storage, ids], [[ids], [ids.storage]]):
        if isinstance(chunks[0], list):
            chunks = [pa.record_batch(columns, ["id"]) for columns in chunks]
        s = ad.stream(chunks)
        next(s)
        with pytest.raises(ad.DataError, match="arrow.uuid"):
            next(s)
    assert len(list(ad.stream([ids, ids]))) == 2


def test_copies_stay_allowed_on_the_way_to_a_device(device):
    s = ad.stream(TABLE).with_host_copies().to(device)
    assert pa.RecordBatchReader.from_stream(s).read_all().equals(TABLE)


class Stream:
    """A hand-written producer of an `ArrowDeviceArrayStream`, with what it is asked and faults to order."""

    def __init__(self, chunks, device_type=1, schema_error=0, next_error=0, text=b"out of luck"):
        KEPT.append(self)
        self.chunks, self.next_error, self.schema_error = list(chunks), next_error, schema_error
        self.calls, self.released = [], 0
        self.text = ctypes.create_string_buffer(text) if text is not None else None
        functions = (self.get_schema, self.get_next, self.get_last_error, self.release)
        self.callbacks = [kind(each) for kind, each in zip(DeviceStreamCallbacks, functions)]
        self.structure = ArrowDeviceArrayStream(device_type, *self.callbacks)
        self.kept = []

    def get_schema(self, _, out):
        self.calls.append("get_schema")
        if self.schema_error:
            return self.schema_error
        numbers = Numbers()
        self.kept.append(numbers)
        ctypes.memmove(out, ctypes.addressof(numbers.schema), ctypes.sizeof(ArrowSchema))
        return 0

    def get_next(self, _, out):
        self.calls.append("get_next")
        if self.chunks:
            source = self.chunks.pop(0).device_array
            ctypes.memmove(out, ctypes.addressof(source), ctypes.sizeof(ArrowDeviceArray))
            return 0
        if self.next_error:
            return self.next_error
        out.contents.array.release = ReleaseArray()
        return 0

    def get_last_error(self, _):
        self.calls.append("get_last_error")
        return None if self.text is None else ctypes.addressof(self.text)

    def release(self, stream):
        self.calls.append("release")
        self.released += 1
        stream.contents.release = DeviceStreamCallbacks[3]()

    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        return capsule(self.structure, b"arrow_device_array_stream")


def test_a_foreign_stream_is_read_to_its_end_and_released():
    chunks = [Numbers(2), Numbers(3)]
    source = Stream(chunks)
    s = ad.stream(source)
    assert source.calls == ["get_schema"]
    got = [pa.array(chunk).to_pylist() for chunk in s]
    assert got == [[1, 2], [1, 2, 3]]
    assert source.released == 1 and "get_last_error" not in source.calls
    until(lambda: [chunk.released_array for chunk in chunks] == [1, 1])


def test_a_foreign_stream_that_nobody_reads_is_released():
    source = Stream([Numbers()])
    s = ad.stream(source)
    del s
    assert source.released == 1


@pytest.mark.parametrize("errno, kind", [(22, ad.DataError), (12, MemoryError), (5, ad.DeviceError), (71, ad.ProducerError)])
def test_a_foreign_streams_error_keeps_its_code_and_its_text(errno, kind):
    source = Stream([Numbers()], next_error=errno)
    s = ad.stream(source)
    next(s)
    with pytest.raises(kind, match="out of luck"):
        next(s)
    assert source.calls[-2:] == ["get_last_error", "release"]
    with pytest.raises(Exception, match="out of luck"):
        ad.stream(Stream([], schema_error=errno))
    with pytest.raises(Exception, match="returned 71 and no text"):
        next(ad.stream(Stream([], next_error=71, text=None)))


def test_a_chunk_on_another_type_of_device_is_refused_and_released():
    chunk = Numbers(device_type=2, device_id=0)
    s = ad.stream(Stream([chunk]))
    with pytest.raises(ad.DataError, match="an array of the stream lies on cuda:0, and the stream is one of cpu"):
        next(s)
    until(lambda: chunk.released_array == 1)


def test_an_exported_stream_keeps_to_the_protocol():
    s = ad.stream([pa.array([1], pa.int32()), pa.array([2, 3], pa.int32())])
    given = s.__arrow_c_device_stream__()
    stream = struct_of(given, ArrowDeviceArrayStream)
    this = ctypes.byref(stream)
    schema, array = ArrowSchema(), ArrowDeviceArray()

    def format_now():
        assert stream.get_schema(this, ctypes.byref(schema)) == 0
        said = schema.format
        schema.release(ctypes.byref(schema))
        return said

    assert format_now() == b"i"
    lengths = []
    while True:
        array.device_type = -1
        assert stream.get_next(this, ctypes.byref(array)) == 0
        if not array.array.release:
            break
        lengths.append(array.array.length)
        assert (array.device_type, array.device_id, list(array.reserved)) == (1, -1, [0, 0, 0])
        array.array.release(ctypes.byref(array.array))
        assert format_now() == b"i"
    assert lengths == [1, 2] and stream.device_type == 1
    assert stream.get_next(this, ctypes.byref(array)) == 0 and not array.array.release
    stream.release(this)
    assert not stream.release


def test_an_exported_stream_reports_errors_with_code_and_text():
    def chunks():
        yield pa.array([1])
        raise MemoryError("all gone")

    given = ad.stream(chunks()).__arrow_c_device_stream__()
    stream, array = struct_of(given, ArrowDeviceArrayStream), ArrowDeviceArray()
    this = ctypes.byref(stream)
    assert stream.get_next(this, ctypes.byref(array)) == 0
    array.array.release(ctypes.byref(array.array))
    for _ in range(2):
        assert stream.get_next(this, ctypes.byref(array)) == 12
        assert b"all gone" in ctypes.string_at(stream.get_last_error(this))
    stream.release(this)


def test_streams_leave_nothing_behind():
    before = live()
    for _ in range(20):
        ad.stream(TABLE).read_all()
        next(ad.stream(DeviceStreamOnly(ad.stream(TABLE))))
        ad.stream(pa.array([n]) for n in range(3)).__arrow_c_device_stream__()
    until_no_more_than(before, live)


def test_a_child_of_fork_is_told_that_another_thread_was_reading():
    """In a process of its own, because libraries of other tests have threads."""
    script = """
import array, os, threading, arrow_device as ad

chunk = ad.array(array.array("q", [1]))
asked, go_on = threading.Event(), threading.Event()

def chunks():
    yield chunk
    asked.set()
    go_on.wait()

s = ad.stream(chunks())
next(s)
reader = threading.Thread(target=lambda: next(s, None))
reader.start()
asked.wait()
child = os.fork()
if child == 0:
    try:
        next(s)
    except ad.NotSupportedError as error:
        os._exit(0 if "fork" in str(error) else 1)
    os._exit(2)
_, status = os.waitpid(child, 0)
go_on.set()
reader.join()
print(status)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert process.stdout == "0\n", process


def test_streams_read_from_one_another_only_so_deep():
    chunk = ad.array(array.array("q", [1]))
    s = ad.stream(iter([chunk]))
    for _ in range(20_000):
        s = s.to("cpu")
    with pytest.raises(ad.DataError, match="128 streams"):
        next(s)


def test_the_exception_of_a_generator_that_another_library_read_keeps_nothing():
    class Big:
        pass

    def failed(method):
        held, big = [], Big()

        def batches():
            yield ad.record_batch({"x": [1]})
            # What the frame of the exception has: the stream, and something else.
            mine, other = held[0], big
            raise ValueError(f"broken after {mine is not None and other is not None}")

        stream = ad.stream(batches())
        held.append(stream)
        reader = pa.RecordBatchReader.from_stream(stream) if method is None else ad.stream(types.SimpleNamespace(**{method: getattr(stream, method)}))
        with pytest.raises(Exception, match="broken after True"):
            list(reader)
        held.clear()
        return weakref.ref(stream), weakref.ref(big)

    for method in (None, "__arrow_c_stream__", "__arrow_c_device_stream__"):
        refs = failed(method)
        until(lambda: [ref() for ref in refs] == [None, None])
