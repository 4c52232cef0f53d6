"""A server and a client of pyarrow's Flight, for the tests beside this file."""

import os
import sys

import pyarrow as pa
import pyarrow.flight as flight


class Server(flight.FlightServerBase):
    """Keeps what it is sent, gives it back, and echoes."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tables: dict[str, tuple[pa.Schema, list[pa.RecordBatch]]] = {}

    def do_put(self, context, descriptor, reader, writer):
        batches = [chunk.data for chunk in reader]
        self.tables[descriptor.path[0].decode()] = (reader.schema, batches)

    def do_get(self, context, ticket):
        name = ticket.ticket.decode()
        if name == "dies":
            schema = pa.schema([("n", pa.int64())])
            batch = pa.record_batch([pa.array([1, 2, 3])], schema=schema)

            def batches():
                yield batch
                os._exit(1)

            return flight.GeneratorStream(schema, batches())
        schema, batches = self.tables[name]
        # A `GeneratorStream` leaves the dictionaries out.
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def do_exchange(self, context, descriptor, reader, writer):
        writer.begin(reader.schema)
        for chunk in reader:
            writer.write_batch(chunk.data)


def serve() -> None:
    server = Server()
    print(server.port, flush=True)
    server.serve()


def client(port: str, names: list[str]) -> None:
    connection = flight.connect(f"grpc://127.0.0.1:{port}")
    for name in names:
        reader = connection.do_get(flight.Ticket(name.encode()))
        batches = [chunk.data for chunk in reader]
        for batch in batches:
            batch.validate()
        target = flight.FlightDescriptor.for_path(f"copy of {name}")
        writer, _ = connection.do_put(target, reader.schema)
        for batch in batches:
            writer.write_batch(batch)
        writer.close()
        if not batches:
            # pyarrow does not come back from an exchange without batches.
            continue
        echo = flight.FlightDescriptor.for_path("echo")
        writer, reader = connection.do_exchange(echo)
        with writer:
            writer.begin(batches[0].schema)
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            back = [chunk.data for chunk in reader]
        assert len(back) == len(batches), name
        for found, expected in zip(back, batches):
            assert found.equals(expected), name
    connection.close()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        client(sys.argv[2], sys.argv[3:])
