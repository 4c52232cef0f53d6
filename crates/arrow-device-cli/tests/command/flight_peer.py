"""A server and a client of pyarrow's Flight, for the tests of `serve`, `fetch` and `copy`."""

import os
import sys
import time

import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.ipc as ipc


def stream(path: str) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    with ipc.open_stream(path) as reader:
        return reader.schema, list(reader)


class Server(flight.FlightServerBase):
    """Has the files that it is given as flights, and some that go wrong."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.flights = {os.path.basename(path): stream(path) for path in paths}

    def info(self, name: str, endpoints: list[flight.FlightEndpoint]) -> flight.FlightInfo:
        schema, batches = self.flights[name]
        rows = sum(batch.num_rows for batch in batches)
        descriptor = flight.FlightDescriptor.for_path(name)
        return flight.FlightInfo(schema, descriptor, endpoints, rows, -1)

    def list_flights(self, context, criteria):
        return (self.info(name, []) for name in self.flights)

    def get_flight_info(self, context, descriptor):
        name = descriptor.path[0].decode()
        if name == "parts":
            first = sorted(self.flights)[0]
            places = [f"grpc://localhost:{self.port}"]
            endpoint = flight.FlightEndpoint(first.encode(), places)
            return self.info(first, [endpoint, endpoint])
        if name == "elsewhere":
            first = sorted(self.flights)[0]
            return self.info(first, [flight.FlightEndpoint(b"x", ["grpc://127.0.0.1:9"])])
        raise NotImplementedError("flights are got by their names")

    def do_get(self, context, ticket):
        name = ticket.ticket.decode()
        schema = pa.schema([("n", pa.int64())])
        batch = pa.record_batch([pa.array([1, 2, 3])], schema=schema)

        def dies():
            yield batch
            time.sleep(0.2)
            os._exit(1)

        def fails():
            yield batch
            raise flight.FlightServerError("the disk is on fire")

        def endless():
            while True:
                yield batch

        made = {"dies": dies, "fails": fails, "endless": endless}
        if name in made:
            return flight.GeneratorStream(schema, made[name]())
        if name == "huge":
            huge = pa.record_batch([pa.array(range(400_000), pa.int64())], schema=schema)
            return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, [huge]))
        if name not in self.flights:
            raise flight.FlightUnavailableError(f"nobody has {name}")
        schema, batches = self.flights[name]
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def do_put(self, context, descriptor, reader, writer):
        name = descriptor.path[0].decode()
        try:
            batches = [chunk.data for chunk in reader]
        except pa.ArrowException as error:
            print(f"{name} broke off: {type(error).__name__}", flush=True)
            raise
        self.flights[name] = (reader.schema, batches)
        print(f"{name} came", flush=True)


def serve(paths: list[str]) -> None:
    server = Server(paths)
    print(server.port, flush=True)
    server.serve()


def expected(path: str) -> pa.Table:
    if path.endswith(".parquet"):
        import pyarrow.parquet as parquet

        return parquet.read_table(path)
    if path.endswith(".arrow"):
        return ipc.open_file(path).read_all()
    return ipc.open_stream(path).read_all()


def read(port: str, pause: str, paths: list[str]) -> None:
    """Reads each file as a flight, with a pause after each batch."""
    connection = flight.connect(f"grpc://127.0.0.1:{port}")
    listed = {info.descriptor.path[0].decode(): info for info in connection.list_flights()}
    for path in paths:
        name = os.path.basename(path)
        table = expected(path)
        descriptor = flight.FlightDescriptor.for_path(name)
        info = connection.get_flight_info(descriptor)
        assert info.schema.equals(table.schema, check_metadata=True), name
        assert connection.get_schema(descriptor).schema.equals(table.schema), name
        assert info.total_records in (-1, table.num_rows), info.total_records
        assert listed[name].endpoints[0].ticket == info.endpoints[0].ticket, name
        reader = connection.do_get(info.endpoints[0].ticket)
        batches = []
        for chunk in reader:
            chunk.data.validate(full=True)
            batches.append(chunk.data)
            time.sleep(float(pause))
        found = pa.Table.from_batches(batches, reader.schema)
        assert found.equals(table), name
    print(len(listed))


def refused(port: str, names: list[str]) -> None:
    """Asks for what is no flight, in every way."""
    connection = flight.connect(f"grpc://127.0.0.1:{port}")
    tickets = [name.encode() for name in names] + [b"", b"\xff\xfe", b"x" * 10_000]
    for ticket in tickets:
        try:
            connection.do_get(flight.Ticket(ticket)).read_all()
        except flight.FlightError as error:
            raise SystemExit(f"{ticket!r}: {error!r}") from error
        except KeyError as error:
            # pyarrow's name for what is not found.
            assert "there is no flight" in str(error), error
        else:
            raise SystemExit(f"{ticket!r} was found")
    for path in [[], ["a", "b"], *[[name] for name in names]]:
        descriptor = flight.FlightDescriptor.for_path(*path)
        try:
            connection.get_flight_info(descriptor)
        except (KeyError, pa.ArrowInvalid):
            pass
        else:
            raise SystemExit(f"{path!r} was found")


def put(port: str, name: str, path: str, how: str) -> None:
    """Puts a stream. `cut` ends the process in the middle."""
    connection = flight.connect(f"grpc://127.0.0.1:{port}")
    schema, batches = stream(path)
    descriptor = flight.FlightDescriptor.for_path(name)
    writer, _ = connection.do_put(descriptor, schema)
    for batch in batches:
        writer.write_batch(batch)
    if how == "cut":
        time.sleep(0.2)
        os._exit(0)
    writer.close()


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "serve":
        serve(rest)
    elif role == "read":
        read(rest[0], rest[1], rest[2:])
    elif role == "refused":
        refused(rest[0], rest[1:])
    else:
        put(*rest)
