"""Tells Dask how large arrays, batches and tensors are: the entry point ``dask.sizeof``.

Dask loads this module while Dask itself is imported, so the module imports nothing of Dask.
"""

from __future__ import annotations

from typing import Any

from arrow_device._native import Array, RecordBatch, Tensor

#: About how many bytes an object has in addition to its buffers.
_OBJECT = 200


def register(sizeof: Any) -> None:
    """Registers the types with Dask's function ``sizeof``."""
    for each in (Array, RecordBatch, Tensor):
        sizeof.register(each, _size)


def _size(data: Any) -> int:
    # The size of some arrays on a device is not known.
    return int(data.nbytes or 0) + _OBJECT
