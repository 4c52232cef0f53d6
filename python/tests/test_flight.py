"""Flight of pyarrow on loopback: readers as streams to devices, batches of devices as what is sent and served."""

import asyncio
import gc
import threading

import pyarrow as pa
import pytest
from pyarrow import flight

import arrow_device as ad
from arrow_device import flight as adf
from support import DeviceStreamOnly, live, until, until_no_more_than

NUMBERS = pa.table({"x": pa.chunked_array([[1, 2], [3, None]]), "y": pa.chunked_array([["a", None], ["c", "d"]])})
CODED = pa.chunked_array([["a", "b", "a"], ["b", "b", None]]).dictionary_encode()
WORDS = pa.table({"w": CODED, "s": pa.chunked_array([pa.StructArray.from_arrays([part], ["in"]) for part in CODED.chunks])})
TABLES = {"numbers": NUMBERS, "words": WORDS}


class Server(flight.FlightServerBase):
    """Serves tables from the software device, keeps there what it is sent, and sends back what it is sent in between."""

    def __init__(self):
        super().__init__("grpc://127.0.0.1:0")
        self.kept = {}
        self.seen = []
        self.gone = threading.Event()
        self.go = threading.Event()

    def do_get(self, context, ticket):
        name = ticket.ticket.decode()
        if name in TABLES:
            return adf.data_stream(ad.stream(TABLES[name]).to("ext_dev:0"))
        batches = NUMBERS.to_batches()
        if name == "pairs":
            pairs = [(batches[0], b"one"), batches[1]]
            return adf.data_stream(pairs, schema=NUMBERS.schema)
        if name == "coded pairs":
            return adf.data_stream([(WORDS.to_batches()[0], b"one")], schema=WORDS.schema)
        if name == "broken":
            return adf.data_stream(self.broken())
        if name == "refused":
            return adf.data_stream(ad.stream(self.refused()).to("ext_dev:0"))
        if name == "endless":
            return flight.GeneratorStream(NUMBERS.schema, self.endless())
        if name == "slow":
            return flight.GeneratorStream(NUMBERS.schema, self.slow())
        raise flight.FlightUnauthenticatedError("who are you", extra_info=b"nobody")

    def broken(self):
        yield NUMBERS.to_batches()[0]
        raise LookupError("the second half is lost")

    def refused(self):
        yield NUMBERS.to_batches()[0]
        raise flight.FlightUnauthorizedError("no more of it", extra_info=b"more")

    def endless(self):
        try:
            while True:
                yield pa.record_batch({"x": [1] * 100_000, "y": ["a"] * 100_000})
        finally:
            self.gone.set()

    def slow(self):
        yield NUMBERS.to_batches()[0]
        self.go.wait(60)

    def do_put(self, context, descriptor, reader, writer):
        chunks = list(adf.read(reader, "ext_dev:0"))
        self.seen = [chunk.app_metadata and chunk.app_metadata.to_pybytes() for chunk in chunks]
        self.kept[descriptor.path[0].decode()] = [chunk.data for chunk in chunks]
        writer.write(b"%d" % len(chunks))

    def do_exchange(self, context, descriptor, reader, writer):
        writer.begin(reader.schema)
        adf.write(writer, ad.stream(reader).to("ext_dev:0"))


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.go.set()
    server.shutdown()


@pytest.fixture
def client(server):
    with flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


def ticket(name):
    return flight.Ticket(name.encode())


def path(name):
    return flight.FlightDescriptor.for_path(name)


@pytest.mark.parametrize("name", TABLES)
def test_a_flight_reader_is_a_stream_to_a_device(client, software, name):
    stream = ad.stream(client.do_get(ticket(name)))
    assert (stream.device_type, stream.schema.names) == ("cpu", TABLES[name].column_names)
    there = stream.to("ext_dev:0")
    batches = there.read_all()
    assert [(type(batch), batch.device.type) for batch in batches] == [(ad.RecordBatch, "ext_dev")] * 2
    assert pa.table(ad.stream(batches).with_host_copies()).equals(TABLES[name])


def test_a_flight_reader_goes_on_to_another_library(client):
    assert pa.table(ad.stream(client.do_get(ticket("numbers")))).equals(NUMBERS)


def test_a_flight_reader_is_read_by_a_task(client):
    async def rows():
        async with ad.stream(client.do_get(ticket("numbers"))).to_async() as stream:
            return [batch.num_rows async for batch in stream]

    assert asyncio.run(rows()) == [2, 2]


def test_an_attempt_that_is_refused_reads_no_batch(client):
    reader = client.do_get(ticket("numbers"))
    with pytest.raises(TypeError, match="arrow_device.stream"):
        ad.array(reader)
    with pytest.raises(TypeError, match="arrow_device.stream"):
        ad.record_batch(reader)
    with pytest.raises(ad.DataError, match="nothing is converted"):
        ad.stream(reader, schema=WORDS.schema)
    with pytest.raises(ad.DeviceError):
        ad.stream(reader).to("ext_dev:77")
    with pytest.raises(ad.DeviceError):
        adf.read(reader, "ext_dev:77")
    assert pa.table(ad.stream(reader, schema=NUMBERS.schema)).equals(NUMBERS)


def test_a_chunk_with_metadata_is_refused_and_is_not_lost(client):
    stream = ad.stream(client.do_get(ticket("pairs")))
    with pytest.raises(ad.DataError, match="3 bytes of application metadata") as caught:
        next(stream)
    assert caught.value.item.app_metadata.to_pybytes() == b"one"
    assert caught.value.item.data.equals(NUMBERS.to_batches()[0])
    assert "`item`" in caught.value.__notes__[0]
    # As pyarrow has it.
    assert pa.table(ad.stream(client.do_get(ticket("pairs")).to_reader())).equals(NUMBERS)


def test_metadata_comes_beside_the_batches(client, software):
    chunks = list(adf.read(client.do_get(ticket("pairs")), "ext_dev:0"))
    assert [chunk.app_metadata and chunk.app_metadata.to_pybytes() for chunk in chunks] == [b"one", None]
    assert {chunk.data.device.type for chunk in chunks} == {"ext_dev"}
    back = [pa.record_batch(chunk.data.with_host_copies()) for chunk in chunks]
    assert pa.Table.from_batches(back).equals(NUMBERS)
    data, metadata = next(adf.read(client.do_get(ticket("pairs"))))
    assert (data.device.type, metadata) == ("cpu", pa.py_buffer(b"one"))


def test_an_item_that_is_no_array_is_not_lost():
    items = iter([pa.array([1]), "no array", pa.array([2])])
    stream = ad.stream(items)
    next(stream)
    with pytest.raises(TypeError) as caught:
        next(stream)
    assert caught.value.item == "no array"
    assert next(items).to_pylist() == [2]
    with pytest.raises(TypeError) as caught:
        ad.stream(iter(["no array either"]))
    assert caught.value.item == "no array either"


def test_errors_of_flight_are_raised_as_they_are(client):
    with pytest.raises(flight.FlightUnauthenticatedError, match="who are you") as caught:
        ad.stream(client.do_get(ticket("nothing of that name")))
    assert caught.value.extra_info == b"nobody"
    for read in (lambda reader: list(ad.stream(reader).to("ext_dev:0")), lambda reader: list(adf.read(reader))):
        with pytest.raises(flight.FlightUnauthorizedError, match="no more of it") as caught:
            read(client.do_get(ticket("refused")))
        assert caught.value.extra_info == b"more"
    # Another library has no way for exceptions of Python's, and gets the words.
    with pytest.raises(Exception, match="no more of it"):
        pa.table(ad.stream(client.do_get(ticket("refused"))))


def test_an_error_of_a_served_stream_is_no_end(client):
    reader = client.do_get(ticket("broken"))
    stream = ad.stream(reader)
    next(stream)
    with pytest.raises(flight.FlightServerError, match="LookupError: the second half is lost"):
        next(stream)
    with pytest.raises(flight.FlightServerError, match="no dictionary with a batch that has application metadata"):
        list(adf.read(client.do_get(ticket("coded pairs"))))


def test_batches_of_a_device_are_put(client, server, software):
    stream = ad.stream(NUMBERS).to("ext_dev:0")
    writer, answers = client.do_put(path("put"), pa.schema(stream.schema))
    with writer:
        adf.write(writer, stream)
        writer.done_writing()
        assert answers.read().to_pybytes() == b"2"
    kept = server.kept.pop("put")
    assert {batch.device.type for batch in kept} == {"ext_dev"}
    assert pa.table(ad.stream(kept).with_host_copies()).equals(NUMBERS)
    assert server.seen == [None, None]


def test_what_is_written_may_be_a_batch_a_stream_or_pairs(client, server, software):
    batches = [ad.record_batch(batch).to("ext_dev:0") for batch in NUMBERS.to_batches()]
    writer, answers = client.do_put(path("all"), NUMBERS.schema)
    with writer:
        adf.write(writer, batches[0])
        adf.write(writer, NUMBERS)
        adf.write(writer, batches)
        adf.write(writer, DeviceStreamOnly(ad.stream(batches)))
        adf.write(writer, [(batches[0], b"zero"), batches[1], (NUMBERS.to_batches()[0], b"two")])
        adf.write(writer, adf.read(client.do_get(ticket("pairs"))))
        writer.done_writing()
        assert answers.read().to_pybytes() == b"12"
    kept = server.kept.pop("all")
    assert server.seen == [None] * 7 + [b"zero", None, b"two", b"one", None]
    assert pa.table(ad.stream(kept[:7]).with_host_copies()).num_rows == 14


@pytest.mark.parametrize("name", TABLES)
def test_batches_go_through_an_exchange(client, software, name):
    writer, reader = client.do_exchange(path("echo"))
    with writer:
        writer.begin(TABLES[name].schema)
        adf.write(writer, ad.stream(TABLES[name]).to("ext_dev:0"))
        writer.done_writing()
        back = ad.stream(reader).to("ext_dev:0").read_all()
    assert pa.table(ad.stream(back).with_host_copies()).equals(TABLES[name])


def test_a_batch_that_is_not_written_is_not_lost(server, software):
    with flight.connect(f"grpc://127.0.0.1:{server.port}", write_size_limit_bytes=20_000) as client:
        batches = [ad.record_batch({"x": range(count)}).to("ext_dev:0") for count in (10, 10_000, 20)]
        stream = ad.stream(batches)
        writer, _ = client.do_put(path("large"), pa.schema(stream.schema))
        with writer:
            with pytest.raises(flight.FlightWriteSizeExceededError) as caught:
                adf.write(writer, stream)
            assert (len(caught.value.item), "batch 1" in caught.value.__notes__[0]) == (10_000, True)
            large = caught.value.item
            adf.write(writer, (large[at : at + 2000] for at in range(0, len(large), 2000)))
            adf.write(writer, stream)
            writer.done_writing()
    kept = server.kept.pop("large")
    assert [len(batch) for batch in kept] == [10] + [2000] * 5 + [20]
    assert ad.concat(kept[1:6], device="cpu") == large.to_host()


def test_a_stream_that_is_closed_ends_the_call(client, server):
    server.gone.clear()
    with ad.stream(client.do_get(ticket("endless"))) as stream:
        next(stream)
    gc.collect()
    until(server.gone.is_set)


def test_a_call_is_cancelled_while_a_batch_is_awaited(client, server):
    reader = client.do_get(ticket("slow"))
    stream = ad.stream(reader)
    next(stream)
    timer = threading.Timer(0.05, reader.cancel)
    timer.start()
    with pytest.raises(flight.FlightCancelledError):
        next(stream)
    timer.join()
    server.go.set()


def test_flights_leave_nothing_behind(client, server, software):
    before = live()
    reader = client.do_get(ticket("pairs"))
    stream = ad.stream(reader).to("ext_dev:0")
    with pytest.raises(ad.DataError) as caught:
        next(stream)
    del stream, caught, reader
    for _ in adf.read(client.do_get(ticket("pairs")), "ext_dev:0"):
        pass
    ad.stream(client.do_get(ticket("numbers"))).to("ext_dev:0").read_all()
    del _
    until_no_more_than(before, live)
