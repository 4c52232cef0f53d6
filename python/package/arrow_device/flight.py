"""Arrow Flight, by ``pyarrow.flight``, to and from the memory of devices.

A client asks for batches, and each goes to the device when it is asked for. The reader of ``do_put`` and of ``do_exchange``, in a
client or in a server, is read in the same way::

    stream = ad.stream(client.do_get(ticket)).to("cuda:0")

A client sends batches from wherever they are. ``write`` copies to the host what the host cannot read, a batch at a time::

    writer, _ = client.do_put(descriptor, pa.schema(stream.schema))
    flight.write(writer, stream)
    writer.close()

A ``with`` block of the writer ends the call also after an exception, and the server then takes what came for all of it. Where that
matters, close the client after an exception instead, as this example can.

A server answers ``do_get`` with what ``data_stream`` returns::

    def do_get(self, context, ticket):
        return flight.data_stream(self.tables[ticket.ticket])

``ad.stream`` asks for no batch before it is read, so a schema or a device that is refused costs no batch. Errors of
``pyarrow.flight`` are raised as they are, whichever thread reads. ``reader.cancel()`` ends a call from another thread, and so does
the end of the stream's ``with`` block where nothing else has the reader. A server reads its reader within the call.

Batches come from another program, and nobody has looked at their data: ``batch.validate(full=True)`` does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from arrow_device import _native
from arrow_device._errors import DataError, NotSupportedError
from arrow_device._native import Queue, RecordBatch, record_batch, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arrow_device._native import _Device

__all__ = ["Chunk", "data_stream", "read", "write"]

#: What an object has that is one array or one stream, and not an iterable of batches.
_PROTOCOLS = ("__arrow_c_device_stream__", "__arrow_c_stream__", "__arrow_c_device_array__", "__arrow_c_array__", "read_chunk")


class Chunk(NamedTuple):
    """A message of a Flight: a batch, application metadata, or both."""

    #: The batch, ``None`` in a message that has metadata alone.
    data: RecordBatch | None
    #: The application metadata, a ``pyarrow.Buffer``, or ``None``.
    app_metadata: Any


def read(reader: Any, device: _Device | None = None) -> Iterator[Chunk]:
    """The batches of a Flight reader with their application metadata, which ``ad.stream(reader)`` has no place for.

    With a ``device``, each batch is copied to it when it is asked for. A device that cannot be opened is an error before anything
    is read. Where a copy fails, the exception has the chunk as its attribute ``item``.
    """
    if device is not None and not isinstance(device, Queue):
        _native.device(device).queue()
    return _read(reader, device)


def _read(reader: Any, device: _Device | None) -> Iterator[Chunk]:
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return
        data = None
        if chunk.data is not None:
            try:
                data = record_batch(chunk.data, device)
            except Exception as error:
                _keep(error, "the chunk that was read", chunk)
                raise
        yield Chunk(data, chunk.app_metadata)


def write(writer: Any, data: Any) -> None:
    """Writes to a Flight writer: of ``do_put`` or ``do_exchange``, in a client or in a server.

    ``data`` is a batch, anything that ``ad.stream`` takes, or an iterable whose items are batches, or pairs of a batch and its
    application metadata. A batch on a device is copied to the host when its turn comes, so one batch at a time is in host memory.
    The writer stays open, and was told the schema before, by ``do_put`` or ``begin``: ``pyarrow.schema(stream.schema)``.

    Where a batch is not written, as one that is larger than the client's limit, the exception has the batch as its attribute
    ``item``. All batches before it were written, and those behind it are still in ``data``.
    """
    pyarrow = importlib.import_module("pyarrow")
    for number, (batch, metadata) in enumerate(_pairs(data)):
        try:
            if batch is None:
                writer.write_metadata(metadata)
                continue
            made = pyarrow.record_batch(record_batch(batch).with_host_copies())
            if metadata is None:
                writer.write_batch(made)
            else:
                writer.write_with_metadata(made, metadata)
        except Exception as error:
            _keep(error, f"batch {number}, which was not written", batch)
            raise


def data_stream(data: Any, options: Any = None, *, schema: Any = None) -> Any:
    """What ``do_get`` of a ``pyarrow.flight`` server returns: for a batch, anything that ``ad.stream`` takes, or pairs as above.

    The batches are asked for, and copied to the host where they are on a device, when the client has room for them. Pairs of
    batches and application metadata need the ``schema``. ``options`` are ``pyarrow.ipc.IpcWriteOptions``.

    The client gets errors of ``pyarrow.flight`` as they are, and the words of any other one in a ``FlightServerError``. Dictionaries
    are sent again with each batch, and cannot have metadata beside them, because ``pyarrow`` has no place for both.
    """
    pyarrow, flight = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.flight")
    if schema is None:
        data = stream(data)
        schema = data.schema
    declared = pyarrow.schema(schema)
    has_dictionaries = any(_has_dictionaries(pyarrow, field.type) for field in declared)

    def batches() -> Iterator[Any]:
        try:
            for batch, metadata in _pairs(data):
                made = pyarrow.record_batch(record_batch(batch).with_host_copies())
                if not has_dictionaries:
                    yield made, metadata
                elif metadata is None:
                    yield pyarrow.Table.from_batches([made])
                else:
                    raise NotSupportedError("pyarrow sends no dictionary with a batch that has application metadata")
        except flight.FlightError:
            raise
        except Exception as error:
            raise flight.FlightServerError(f"{type(error).__name__}: {error}") from error

    return flight.GeneratorStream(declared, batches(), options)


def _has_dictionaries(pyarrow: Any, of: Any) -> bool:
    if isinstance(of, pyarrow.BaseExtensionType):
        return _has_dictionaries(pyarrow, of.storage_type)
    children = (of.field(index).type for index in range(of.num_fields))
    return pyarrow.types.is_dictionary(of) or any(_has_dictionaries(pyarrow, child) for child in children)


def _pairs(data: Any) -> Iterator[tuple[Any, Any]]:
    if any(hasattr(data, name) for name in _PROTOCOLS):
        for batch in stream(data):
            yield batch, None
        return
    for item in data:
        if isinstance(item, tuple):
            batch, metadata = item
            yield batch, metadata
        else:
            yield item, None


class _Batches:
    """The batches of a Flight reader, for ``ad.stream``."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        chunk = self._reader.read_chunk()
        if chunk.app_metadata is None:
            return chunk.data
        error = DataError(
            f"a chunk of the Flight has {len(chunk.app_metadata)} bytes of application metadata, which a stream of batches has no "
            "place for; read with arrow_device.flight.read(reader), or leave metadata out with "
            "arrow_device.stream(reader.to_reader())"
        )
        _keep(error, "the chunk", chunk)
        raise error


def _keep(error: BaseException, what: str, item: object) -> None:
    """Gives an exception what was read already, and would be lost."""
    error.item = item  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    error.add_note(f"The attribute `item` of this exception is {what}.")
