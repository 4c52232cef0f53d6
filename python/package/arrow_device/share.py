"""Arrays of one process, used by another process of the same machine without a copy. On Linux.

Memory can be opened by another process where it was allocated for that: ``to_shareable`` copies an array there. From then on
only descriptors and short messages go to the other process, and both see the same memory. Nobody can write to it any more.

A program that has imported this module passes arrays, record batches and tensors that lie in such memory through
``multiprocessing`` (queues, pipes, pools, arguments of processes) in this way, and everything else as before, by its bytes:

>>> import arrow_device as ad, multiprocessing
>>> from arrow_device import share
>>> batch = share.to_shareable(ad.record_batch({"x": range(1000)}))
>>> here, there = multiprocessing.Pipe()
>>> here.send(batch)                 # some hundred bytes
>>> there.recv() == batch            # in another process
True

What was sent in this way is received once, as long as the process that sent it runs. The memory is held until the receiving
process has finished with it or has ended, and for a message that nobody receives, until the sending process ends. The data is
not validated: ``Array.validate`` does that.

Without ``multiprocessing``, a ``Ticket`` is a descriptor that stands for one array; ``Sender`` and ``Receiver`` are the two ends
of a Unix socket; a ``Server`` is a socket at which any process of the same user can ``fetch`` what it has the key of.
``arrow_device.ray`` passes arrays between actors of Ray in this way. ``pickle`` itself copies the bytes, as ever: a pickle cannot carry a descriptor.
"""

from __future__ import annotations

from collections.abc import Iterable
from multiprocessing import reduction, resource_sharer
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from arrow_device import _native
from arrow_device._errors import NotSupportedError
from arrow_device._native import Array, RecordBatch, Tensor

if not TYPE_CHECKING and not hasattr(_native, "Ticket"):
    raise ImportError("arrow_device.share works on Linux alone")

from arrow_device._native import Receiver, Sender, Ticket
from arrow_device._server import Server, fetch

if TYPE_CHECKING:
    from arrow_device._native import _Detachable, _Device

__all__ = ["Receiver", "Sender", "Server", "Ticket", "fetch", "open", "to_shareable"]

_Data = TypeVar("_Data", Array, RecordBatch, Tensor)


def to_shareable(data: _Data, device: _Device | None = None) -> _Data:
    """A copy of an array, a record batch or a tensor in memory that other processes can open.

    The memory is that of ``device``, or of the device that the data is on.

    >>> import arrow_device as ad
    >>> from arrow_device import share
    >>> share.to_shareable(ad.array(["some", None, "words"])).to_pylist()
    ['some', None, 'words']
    """
    if isinstance(data, Tensor):
        made = _native._to_shareable(data.to_array(), device).to_tensor()
        if made.shape != data.shape:
            raise NotSupportedError(f"a tensor of the shape {data.shape} is no array; give it a dimension first")
        return made
    return _native._to_shareable(data, device)


def open(ticket: int | _Detachable, devices: Iterable[_Device] | None = None) -> Array:
    """The array of a ticket of another process: a ``Ticket``, or a descriptor, which is taken over. Never waits.

    The memory is opened by the first of the ``devices`` that can open it; without any by the host. What is of a struct type
    without nulls is a ``RecordBatch``. A ``Receiver``, which takes a ticket for its socket, has limits and can trust.

    >>> import arrow_device as ad
    >>> from arrow_device import share
    >>> ticket = share.Ticket(share.to_shareable(ad.record_batch({"x": [1, 2]})))
    >>> share.open(ticket.detach())["x"].to_pylist()
    [1, 2]
    """
    return _native._open(ticket, devices)


# How bytes are pickled here: without buffers beside the pickle, which nobody would carry.
_PROTOCOL: SupportsIndex = 4


def _reduce_array(array: Array) -> tuple[Any, ...]:
    try:
        ticket = Ticket(array)
    except NotSupportedError:
        return array.__reduce_ex__(_PROTOCOL)
    # The descriptor is fetched from this process by whoever opens the array. It is not inherited
    # where a process begins: this process would have to keep it open until then, and nobody would
    # see that the other one has ended.
    with ticket:
        return _opened, (resource_sharer.DupFd(ticket.fileno()), str(array.device), isinstance(array, RecordBatch))


def _reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    try:
        array = tensor.to_array(copy=False)
        same = array.to_tensor(copy=False)
    except (ValueError, NotSupportedError):
        return tensor.__reduce_ex__(_PROTOCOL)
    if (same.shape, same.strides, same.dtype) != (tensor.shape, tensor.strides, tensor.dtype):
        return tensor.__reduce_ex__(_PROTOCOL)
    function, arguments, *_ = _reduce_array(array)
    return _tensor_of, (function, *arguments)


def _opened(ticket: resource_sharer.DupFd, device: str, as_batch: bool) -> Array:
    return _native._open(ticket.detach(), [device], as_batch)


def _tensor_of(function: Any, *arguments: Any) -> Tensor:
    array: Array = function(*arguments)
    return array.to_tensor(copy=False)


for _each in (Array, RecordBatch):
    reduction.ForkingPickler.register(_each, _reduce_array)
reduction.ForkingPickler.register(Tensor, _reduce_tensor)
