"""Arrow data and tensors on any device, passed between libraries without copies.

``array``, ``record_batch`` and ``stream`` take data over from any object that supports the Arrow PyCapsule protocol, DLPack or
Python's buffer protocol; ``from_dlpack`` takes tensors. The objects that these functions return support the same protocols, so
other libraries take them as they are. The method ``to`` moves data to a device, and ``to_host`` moves data back.

>>> import arrow_device as ad, numpy as np, pyarrow as pa
>>> a = ad.array(pa.array([1.5, 2.5]))
>>> np.from_dlpack(a)
array([1.5, 2.5])
"""

from arrow_device import _interpreter  # Before anything else is loaded.
from arrow_device._devices import DeviceList, devices
from arrow_device._errors import (
    ArrowDeviceError,
    DataError,
    DeviceError,
    ExchangeError,
    NotSupportedError,
    OutOfMemoryError,
    ProducerError,
    TimedOutError,
)
from arrow_device._native import (
    Array,
    DataType,
    Device,
    Queue,
    RecordBatch,
    Schema,
    Stream,
    Tensor,
    __version__,
    array,
    concat,
    device,
    from_dlpack,
    held_back,
    record_batch,
    release_finished,
    schema,
    set_allocation_timeout,
    stream,
    wait_until_released,
)
from arrow_device._values import MonthDayNano

__all__ = [
    "Array",
    "ArrowDeviceError",
    "DataError",
    "DataType",
    "Device",
    "DeviceError",
    "DeviceList",
    "ExchangeError",
    "MonthDayNano",
    "NotSupportedError",
    "OutOfMemoryError",
    "ProducerError",
    "Queue",
    "RecordBatch",
    "Schema",
    "Stream",
    "Tensor",
    "TimedOutError",
    "__version__",
    "array",
    "concat",
    "device",
    "devices",
    "from_dlpack",
    "held_back",
    "record_batch",
    "release_finished",
    "schema",
    "set_allocation_timeout",
    "stream",
    "wait_until_released",
]
