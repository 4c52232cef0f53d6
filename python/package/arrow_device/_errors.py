"""The exceptions of the package.

Each exception is also one of Python's own, so that code which expects those needs no change: wrong data is a ``ValueError``,
data that cannot be exchanged a ``BufferError``, and an operation that is not possible a ``NotImplementedError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arrow_device._native import Array, Stream

__all__ = [
    "ArrowDeviceError",
    "DataError",
    "DeviceError",
    "ExchangeError",
    "NotSupportedError",
    "OutOfMemoryError",
    "ProducerError",
    "TimedOutError",
]


class ArrowDeviceError(Exception):
    """The base class of all exceptions of this package.

    The text of an exception contains all that is known of the error. The attributes have the parts, for programs:
    """

    #: The kind of the error, such as ``"device missing"``.
    kind: str = ""
    #: The device that the error is about, such as ``"cuda:0"``.
    device: str | None = None
    #: The operation that failed, such as ``"allocate"``.
    operation: str | None = None
    #: The place in a tree of columns, such as ``"col[3].child[0]"``.
    place: str | None = None
    #: The code of the vendor's library.
    code: int | None = None
    #: What the vendor's library calls that code.
    vendor: str | None = None


class DataError(ArrowDeviceError, ValueError):
    """Data, a schema or an argument that breaks a rule."""

    #: The stream with all of its arrays, also those that were read before the mistake was found.
    stream: Stream[Array] | None = None


class ExchangeError(ArrowDeviceError, BufferError, ValueError):
    """Data that cannot be handed over in the way that was asked for.

    The array API asks for a ``BufferError`` in some places and for a ``ValueError`` in others; this is both.
    """


class NotSupportedError(ArrowDeviceError, NotImplementedError):
    """An operation that is legal, but that this package, device or driver cannot do."""


class DeviceError(ArrowDeviceError, RuntimeError):
    """A device, its driver or its memory is missing, lost, too small or not reachable."""


class OutOfMemoryError(DeviceError, MemoryError):
    """A device, or the host, has no memory left."""


class TimedOutError(DeviceError, TimeoutError):
    """A wait was not over in the time that was given."""


class ProducerError(ArrowDeviceError, RuntimeError):
    """An error that another library reported."""


_CLASSES: dict[str, type[ArrowDeviceError]] = {
    "data": DataError,
    "device": DeviceError,
    "exchange": ExchangeError,
    "memory": OutOfMemoryError,
    "producer": ProducerError,
    "timeout": TimedOutError,
    "unsupported": NotSupportedError,
}

for _each in (ArrowDeviceError, *_CLASSES.values()):
    _each.__module__ = "arrow_device"


def make(
    name: str,
    message: str,
    kind: str,
    device: str | None,
    operation: str | None,
    place: str | None,
    code: int | None,
    vendor: str | None,
) -> ArrowDeviceError:
    """Called by the compiled module."""
    error = _CLASSES[name](message)
    error.kind, error.device, error.operation = kind, device, operation
    error.place, error.code, error.vendor = place, code, vendor
    return error
