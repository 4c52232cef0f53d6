"""Arrays, record batches, tensors, schemas and types in Dask.

Dask passes these objects between its workers by their pickles, in which each column is a frame of its own. A frame is sent from
the memory of the array, and the array that the receiver makes lies in the memory that was received: there is no copy on either
side. The receiver validates the data. For all this, a program need not import this module. Workers of one machine also send the
bytes and no handle to memory, because a message of Dask may be kept, sent to several workers, written to disk, or never read.

An entry point of this package (``dask.sizeof``) tells Dask how large the data is, and so when to write it to disk.

A cluster that takes no pickles (``serializers=["dask", "error"]``) takes these objects, too, if this module was imported in all
of its processes: in the client by the program, in the scheduler and the workers by ``--preload arrow_device.dask``. The import
registers the same frames with Dask's own serializers. A process that has not imported the module cannot read the objects that
others send.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from arrow_device import _native
from arrow_device._native import Array, DataType, RecordBatch, Schema, Tensor

__all__: list[str] = []

#: For each type, the function that makes an object of a header and frames.
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
