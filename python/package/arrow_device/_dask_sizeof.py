"""Tells Dask how large arrays, batches and tensors are: the entry point ``dask.sizeof``.

Dask loads this while Dask itself is imported, so that nothing of Dask is imported here.
"""

from __future__ import annotations

from typing import Any

from arrow_device._native import Array, RecordBatch, Tensor

#: About as much as an object has beside its buffers.
_OBJECT = 200


def register(sizeof: Any) -> None:
    """Registers the types with Dask's function ``sizeof``."""
    for each in (Array, RecordBatch, Tensor):
        sizeof.register(each, _size)


def _size(data: Any) -> int:
    # Nobody knows the size of some arrays on a device.
    return int(data.nbytes or 0) + _OBJECT
