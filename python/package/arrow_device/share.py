"""Arrays of one process, used by another process of the same machine without a copy. On Linux.

Another process can open memory only if the memory was allocated for that: ``to_shareable`` copies an array to such memory. From
then on only descriptors and short messages go to the other process, and both processes see the same memory. Nobody can write to
this memory any more.

In a program that has imported this module, ``multiprocessing`` (queues, pipes, pools, arguments of processes) passes arrays,
record batches and tensors that lie in such memory in this way. Everything else is sent with its bytes, as before:

>>> import arrow_device as ad, multiprocessing
>>> from arrow_device import share
>>> batch = share.to_shareable(ad.record_batch({"x": range(1000)}))
>>> here, there = multiprocessing.Pipe()
>>> here.send(batch)                 # some hundred bytes
>>> there.recv() == batch            # in another process
True

An array that was sent in this way can be received once, while the process that sent it runs. A process that
``multiprocessing`` started waits at its end until everything that it sent was received (``wait_until_received``), so receive
before you ``join``. Such a process stops waiting once nothing was received for a minute. The memory is held until the receiving
process has finished with it or has ended; the memory of a message that nobody receives is held until the sending process ends.
The data is not validated: ``array.validate(full=True)`` does that. Call it before another library gets what came from a process
that is not trusted, because that library believes the offsets.

Without ``multiprocessing``, a ``Ticket`` is a descriptor that stands for one array; ``Sender`` and ``Receiver`` are the two
ends of a Unix socket; a ``Server`` is a socket from which any process of the same user can ``fetch`` the arrays that it has the
key of. ``arrow_device.ray`` passes arrays between actors of Ray in this way. ``pickle`` itself copies the bytes, as before,
because a pickle cannot carry a descriptor.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterable
from multiprocessing import AuthenticationError, reduction, resource_sharer, util
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from arrow_device import _native
from arrow_device._errors import DeviceError, NotSupportedError, ProducerError, TimedOutError
from arrow_device._native import Array, RecordBatch, Tensor

if not TYPE_CHECKING and not hasattr(_native, "Ticket"):
    raise ImportError("arrow_device.share works on Linux alone")

from arrow_device._native import Receiver, Sender, Ticket
from arrow_device._server import Server, fetch, require_data, require_time

if TYPE_CHECKING:
    from arrow_device._native import _Detachable, _Device

__all__ = ["Receiver", "Sender", "Server", "Ticket", "fetch", "open", "to_shareable", "wait_until_received"]

_Data = TypeVar("_Data", Array, RecordBatch, Tensor)


def to_shareable(data: _Data, device: _Device | None = None) -> _Data:
    """A copy of an array, a record batch or a tensor in memory that other processes can open.

    The copy lies in memory of ``device``, or, if no device is named, of the device that the data is on. Waits where
    ``Array.to`` waits.

    >>> import arrow_device as ad
    >>> from arrow_device import share
    >>> share.to_shareable(ad.array(["some", None, "words"])).to_pylist()
    ['some', None, 'words']
    """
    require_data([data], Array, Tensor)
    if isinstance(data, Tensor):
        made = _native._to_shareable(data.to_array(), device).to_tensor()
        if made.shape != data.shape:
            raise NotSupportedError(f"a tensor of the shape {data.shape} is no array; give it a dimension first")
        return made
    return _native._to_shareable(data, device)


def open(ticket: int | _Detachable, devices: Iterable[_Device] | None = None) -> Array:
    """The array of a ticket of another process: a ``Ticket``, or a descriptor, which is taken over. Never waits.

    The first of the ``devices`` that can open the memory opens it; if no devices are named, the host does. An array of a struct
    type without nulls is returned as a ``RecordBatch``. A ``Receiver`` also takes a ticket, in place of its socket; use one to
    set limits or to trust the sender.

    >>> import arrow_device as ad
    >>> from arrow_device import share
    >>> ticket = share.Ticket(share.to_shareable(ad.record_batch({"x": [1, 2]})))
    >>> share.open(ticket.detach())["x"].to_pylist()
    [1, 2]
    """
    return _native._open(ticket, devices)


class _Sent:
    """The arrays that this process has sent by ``multiprocessing``: the keys under which descriptors wait to be fetched."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begins with no keys, in a new process."""
        self.lock = threading.Lock()
        self.keys: set[int] = set()

    def add(self, descriptor: resource_sharer.DupFd) -> None:
        """Counts a descriptor, until it has been sent to the process that fetches it."""
        # Python tells of this only by calling the function that closes a descriptor that was sent.
        key: int = getattr(descriptor, "_id", ("", -1))[1]
        unfetched = getattr(getattr(resource_sharer, "_resource_sharer", None), "_cache", {})
        if key not in unfetched:
            return
        send, close = unfetched[key]

        def closed() -> None:
            close()
            with self.lock:
                self.keys.discard(key)

        with self.lock:
            self.keys.add(key)
        unfetched[key] = send, closed

    def waiting(self) -> int:
        """How many arrays were not received yet."""
        with self.lock:
            return len(self.keys)


_sent = _Sent()
os.register_at_fork(after_in_child=_sent.begin)

#: For how many seconds a process waits at its end while nothing is received.
_PATIENCE = 60.0


def wait_until_received(timeout: float | None = None) -> None:
    """Waits until other processes have received everything that this process sent by ``multiprocessing``.

    Raises ``TimedOutError`` after ``timeout`` seconds. Processes that ``multiprocessing`` started wait by themselves at their
    end.

    >>> import arrow_device as ad, multiprocessing
    >>> from arrow_device import share
    >>> here, there = multiprocessing.Pipe()
    >>> here.send(share.to_shareable(ad.array([1, 2])))
    >>> there.recv().to_pylist()         # in another process
    [1, 2]
    >>> share.wait_until_received()
    """
    require_time(timeout)
    end = None if timeout is None else time.monotonic() + timeout
    while waiting := _sent.waiting():
        if end is not None and time.monotonic() >= end:
            raise TimedOutError(f"timed out: {waiting} arrays that were sent by multiprocessing were not received")
        time.sleep(0.002)


def _wait_at_end() -> None:
    """Waits for receivers as long as they receive something within a minute and the process that started this one runs."""
    parent = multiprocessing.parent_process()
    before, end = None, 0.0
    # A thread of each queue sends the contents of the queue.
    while (now := (_sent.waiting(), _queues_that_send())) != (0, 0):
        if now != before:
            before, end = now, time.monotonic() + _PATIENCE
        if time.monotonic() >= end or parent is None or not parent.is_alive():
            return
        time.sleep(0.002)


def _queues_that_send() -> int:
    return sum(thread.name == "QueueFeederThread" for thread in threading.enumerate())


def _will_wait(_sent: _Sent) -> None:
    """Registers the wait at the end of the process, also in a process that begins with a copy of this module."""
    # After the threads of queues were told to end (10), before nobody can fetch any more (0).
    util.Finalize(None, _wait_at_end, exitpriority=5)


util.register_after_fork(_sent, _will_wait)
_will_wait(_sent)


# The protocol for bytes: without buffers beside the pickle, which nothing here would send.
_PROTOCOL: SupportsIndex = 4


def _reduce_array(array: Array) -> tuple[Any, ...]:
    try:
        ticket = Ticket(array)
    except (DeviceError, NotSupportedError):
        # Also if a child of `fork` can write to the memory, or if no descriptor is left.
        return array.__reduce_ex__(_PROTOCOL)
    # The descriptor is fetched from this process by whoever opens the array. It is not inherited
    # where a process begins: this process would have to keep it open until then, and nobody would
    # see that the other one has ended.
    with ticket:
        descriptor = resource_sharer.DupFd(ticket.fileno())
    _sent.add(descriptor)
    return _opened, (descriptor, str(array.device), isinstance(array, RecordBatch))


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
    try:
        descriptor = ticket.detach()
    except AuthenticationError as error:
        raise ProducerError(
            "the process that sent the array has another key of multiprocessing; between programs that did not start one "
            "another, use a share.Server"
        ) from error
    except (EOFError, OSError) as error:
        raise ProducerError(
            "the process that sent the array has ended, or the array was received before; a process has to run until what it "
            "sent was received, as arrow_device.share.wait_until_received() waits for"
        ) from error
    return _native._open(descriptor, [device], as_batch)


def _tensor_of(function: Any, *arguments: Any) -> Tensor:
    array: Array = function(*arguments)
    return array.to_tensor(copy=False)


for _each in (Array, RecordBatch):
    reduction.ForkingPickler.register(_each, _reduce_array)
reduction.ForkingPickler.register(Tensor, _reduce_tensor)
