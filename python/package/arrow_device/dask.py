"""Arrays, record batches, tensors, schemas and types in Dask.

Dask passes them between its workers by their pickles, whose columns are frames of their own: they are sent from the memory of
the array, and the array that is made of them lies in the memory that was received. There is no copy on either side. This needs no
import of this module, and it validates what comes. It holds for workers of one machine, too: a message of Dask may be kept, sent
to several workers, written to disk, or never read, and a handle to memory can be none of that.

Dask knows how large the data is, and so when to write it to disk, by an entry point of this package (``dask.sizeof``).

A cluster that is told to take no pickles (``serializers=["dask", "error"]``) takes these objects, too, where this module was
imported in all of its processes: in the client by the program, in the scheduler and the workers by ``--preload
arrow_device.dask``. The import registers the same frames with Dask's own serializers. Where one process lacks it, that process
cannot read what the others send.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from arrow_device import _native
from arrow_device._native import Array, DataType, RecordBatch, Schema, Tensor

__all__: list[str] = []

#: Which function makes each of them again, of a header and frames.
_TYPES: dict[type, Any] = {
    Array: _native._unpickle,
    RecordBatch: _native._unpickle,
    Tensor: _native._unpickle,
    Schema: _native._unpickle_schema,
    DataType: _native._unpickle_type,
}


def _frames(data: Any) -> tuple[dict[str, Any], list[Any]]:
    _, (header, *buffers) = data.__reduce_ex__(5)
    return {"header": header}, [buffer.raw() if isinstance(buffer, pickle.PickleBuffer) else buffer for buffer in buffers]


def _made_by(function: Any) -> Any:
    def made(header: dict[str, Any], frames: list[Any]) -> Any:
        return function(header["header"], *frames)

    return made


def _register() -> None:
    try:
        protocol = importlib.import_module("distributed.protocol.serialize")
    except ImportError as error:
        raise ImportError("arrow_device.dask needs the package distributed: pip install distributed") from error
    for each, function in _TYPES.items():
        protocol.dask_serialize.register(each, _frames)
        protocol.dask_deserialize.register(each, _made_by(function))


_register()
