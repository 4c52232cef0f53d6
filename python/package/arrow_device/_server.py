"""A socket at which the processes of one user fetch arrays: ``Server`` and ``fetch`` of ``arrow_device.share``.

A process that fetches connects to the socket and sends the 32 bytes of a key. The answer is one byte: 0 if no offer has this
key, or 1, then the number of arrays (4 bytes, little-endian), then one byte for each array, which is 1 if the array is a record
batch. From then on the connection belongs to a ``Sender``, which sends the arrays, and a ``Receiver``, which tells the
releases.

A server has one thread that accepts connections, and one thread for each connection until all of its arrays are sent. The
threads refer to a ``_State`` and not to the ``Server``, so that a server to which nothing refers any more is closed. Once a
connection was handed to a sender, the sender keeps it until the other process has finished, also after the end of the server.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from arrow_device import _native
from arrow_device._errors import ArrowDeviceError, DataError, ProducerError, TimedOutError
from arrow_device._native import Array, Receiver, RecordBatch, Sender

if TYPE_CHECKING:
    from arrow_device._native import _Device

#: How many bytes a key has: enough that nobody guesses a key.
_KEY = 32
#: For how many seconds a connection may be open without telling a key.
_HANDSHAKE = 10.0
#: How many arrays one offer has at most.
_MOST = 1 << 20
#: How many connections are handled at the same time; others wait.
_AT_ONCE = 32

_GONE, _HERE = b"\0", b"\1"
_COUNT = struct.Struct("<I")
_CREDENTIALS = struct.Struct("iII")


class _State:
    """The state that a server shares with its threads."""

    def __init__(self, listening: socket.socket, path: str | None, trust_receivers: bool, patience: float | None) -> None:
        self.listening = listening
        self.path = path
        self.trust_receivers = trust_receivers
        self.patience = patience
        self.offers: dict[bytes, list[Array]] = {}
        self.slots = threading.BoundedSemaphore(_AT_ONCE)
        self.process = os.getpid()
        self.is_closed = False

    def close(self) -> None:
        # The socket is closed last, so that a call that was interrupted is repeated.
        if self.listening.fileno() < 0:
            return
        self.is_closed = True
        self.offers.clear()
        if self.process == os.getpid():
            try:
                # Wakes the thread that accepts.
                self.listening.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if self.path is not None:
                try:
                    os.unlink(self.path)
                except OSError:
                    pass
        self.listening.close()


class Server:
    """A socket from which other processes of the same user fetch arrays, as often as they like, without a copy.

    ``offer`` makes a key for some arrays. Another process passes the server's ``address`` and the key to ``fetch``. The
    server's process holds the arrays until the other process has finished with them, or has ended. ``withdraw`` ends an offer.

    Without a ``path`` the socket has a random name that is in no file system (an abstract address, which processes of the same
    network namespace reach), so that nothing is left of the socket, however the process ends. With a ``path`` the socket is a
    file that only this user can open, and that is removed when the server is closed.

    A process gets the arrays if it runs as the same user (the system tells the server which user has connected) and has the key
    (32 random bytes, which the server sends to nobody). An array in memory of devices to which every receiver could write needs
    ``trust_receivers``; ``Sender`` says what the program then promises of all receivers. ``patience`` is for how many seconds
    the server waits for a receiver that does not read.

    >>> import arrow_device as ad
    >>> from arrow_device import share
    >>> with share.Server() as server:
    ...     key = server.offer([share.to_shareable(ad.array([1, 2]))])
    ...     [there] = share.fetch(server.address, key)      # in another process
    >>> there.to_pylist()
    [1, 2]
    """

    def __init__(self, path: str | None = None, *, trust_receivers: bool = False, patience: float | None = 60.0) -> None:
        require_time(patience)
        name = path if path is not None else f"@arrow-device-{secrets.token_hex(16)}"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(_socket_name(name))
            if path is not None:
                # No process can connect before `listen`.
                os.chmod(path, 0o600)
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
        self._name = name
        self._state = _State(listening, path, trust_receivers, patience)
        _states.add(self._state)
        weakref.finalize(self, self._state.close)
        threading.Thread(target=_accept, args=(self._state,), name="arrow-device-server", daemon=True).start()

    @property
    def address(self) -> str:
        """The address for ``fetch``. It need not be kept secret."""
        return self._name

    def offer(self, arrays: Array | Iterable[Array]) -> bytes:
        """Offers one array, or several together, and returns a key. A process of the same user with the key can fetch them.
        Several are at most 2**20.

        Waits until the arrays are ready. Raises ``NotSupportedError`` for an array in memory that other processes cannot open
        (see ``to_shareable``).
        """
        held = [arrays] if isinstance(arrays, Array) else list(arrays)
        if len(held) > _MOST:
            raise DataError(f"an offer has at most {_MOST} arrays, and not {len(held)}")
        require_data(held, Array)
        self._require_open()
        for array in held:
            require_shareable(array, trust_receiver=self._state.trust_receivers)
        key = secrets.token_bytes(_KEY)
        self._state.offers[key] = held
        if self._state.is_closed:
            self._state.offers.clear()
            self._require_open()
        return key

    def withdraw(self, key: bytes) -> None:
        """Ends the offer with this key, if there is one. Arrays that were fetched stay usable."""
        self._state.offers.pop(key, None)

    def close(self) -> None:
        """Ends the server and all offers. A ``with`` block does so at its end. Arrays that were fetched stay usable."""
        self._state.close()

    def _require_open(self) -> None:
        if self._state.process != os.getpid():
            raise DataError("the server is that of the parent process; a child of `fork` makes its own")
        if self._state.is_closed:
            raise DataError("the server is closed")

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a server is a socket, which a pickle cannot carry; send its `address` and a key")


#: The states that a child of `fork` closes. No thread accepts in the child, and a process that
#: connects to the child's copy of the socket would wait.
_states: weakref.WeakSet[_State] = weakref.WeakSet()


def _close_all() -> None:
    for state in list(_states):
        state.close()


os.register_at_fork(after_in_child=_close_all)


def require_data(values: Iterable[object], *types: type) -> None:
    """Raises if a value is of none of these types, for example an array of another library."""
    for value in values:
        if not isinstance(value, types):
            name = f"{type(value).__module__}.{type(value).__qualname__}"
            raise TypeError(
                f"an array or a record batch of arrow_device is wanted, and not {name}; make one of it first, by "
                "arrow_device.array(x) or arrow_device.record_batch(x)"
            )


def require_time(timeout: float | None) -> None:
    """Raises if a time limit is no number of seconds."""
    if timeout is not None and not timeout >= 0:
        raise DataError(f"a timeout is a number of seconds, and not {timeout}")


def require_shareable(array: Array, *, trust_receiver: bool) -> None:
    """Raises the error of a sender for an array that no other process can open."""
    here, there = socket.socketpair()
    with there, Sender(here, trust_receiver=trust_receiver) as sender:
        sender.send(array)


def _socket_name(address: str) -> str:
    return f"\0{address[1:]}" if address.startswith("@") else address


def _is_of_this_user(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(credentials)[1]
    return user == os.geteuid()


def _accept(state: _State) -> None:
    while True:
        state.slots.acquire()
        try:
            connection, _ = state.listening.accept()
        except OSError:
            state.slots.release()
            if state.is_closed:
                return
            # For instance, no descriptor is left. Processes that connect wait until there is one.
            time.sleep(0.05)
            continue
        if not _is_of_this_user(connection):
            connection.close()
            state.slots.release()
            continue
        try:
            threading.Thread(target=_serve, args=(state, connection), name="arrow-device-server", daemon=True).start()
        except RuntimeError:
            # The process cannot have more threads. The other side sees its connection end.
            connection.close()
            state.slots.release()


def _serve(state: _State, connection: socket.socket) -> None:
    try:
        with connection:
            connection.settimeout(_HANDSHAKE)
            key = _read(connection, _KEY, time.monotonic() + _HANDSHAKE)
            arrays = state.offers.get(key)
            if arrays is None:
                connection.sendall(_GONE)
                return
            kinds = bytes(isinstance(array, RecordBatch) for array in arrays)
            connection.sendall(_HERE + _COUNT.pack(len(arrays)) + kinds)
            connection.settimeout(None)
            with Sender(connection, trust_receiver=state.trust_receivers, patience=state.patience) as sender:
                for array in arrays:
                    sender.send(array)
    except (OSError, ArrowDeviceError):
        # The process that fetched has gone, or sees the end of its connection now. The connection
        # holds no array any more.
        pass
    finally:
        state.slots.release()


def _read(connection: socket.socket, count: int, end: float | None) -> bytes:
    """Reads ``count`` bytes. Raises if the connection ends, or the time is over, before all of them have come."""
    read = bytearray()
    while len(read) < count:
        if end is not None:
            connection.settimeout(max(end - time.monotonic(), 0.001))
        more = connection.recv(min(count - len(read), 1 << 16))
        if not more:
            raise ConnectionResetError("the connection has ended")
        read += more
        if end is not None and time.monotonic() >= end and len(read) < count:
            raise TimeoutError("timed out")
    return bytes(read)


def fetch(
    address: str,
    key: bytes,
    devices: Iterable[_Device] | None = None,
    *,
    timeout: float | None = None,
    trust_sender: bool = False,
    largest_allocation: int | None = None,
    passing_on: bool = False,
) -> list[Array]:
    """The arrays that a ``Server`` of another process offers under this key. Their memory is opened, and not copied.

    The process at the ``address`` has to run as the same user. What it sends is checked as by a ``Receiver``, whose
    documentation explains ``devices``, ``trust_sender``, ``largest_allocation`` and ``passing_on``. Raises ``ProducerError`` if
    the server has gone or has no such key (any more), and ``TimedOutError`` when the ``timeout``, in seconds, is over.
    """
    return fetch_from(address, key, devices, timeout, trust_sender, largest_allocation, lambda _: None, passing_on)


def fetch_from(
    address: str,
    key: bytes,
    devices: Iterable[_Device] | None,
    timeout: float | None,
    trust_sender: bool,
    largest_allocation: int | None,
    connected: Callable[[socket.socket], None],
    passing_on: bool = False,
) -> list[Array]:
    """Does what ``fetch`` does, and passes the socket to ``connected``: to shut the socket down ends the wait."""
    if len(key) != _KEY:
        raise DataError(f"a key has {_KEY} bytes, and not {len(key)}")
    require_time(timeout)
    end = None if timeout is None else time.monotonic() + timeout
    try:
        connection = _connected(address, end)
    except TimeoutError:
        raise TimedOutError("timed out: the server does not answer") from None
    except OSError as error:
        raise ProducerError(f"the server has gone, or was never there: {error}") from error
    with connection:
        connected(connection)
        try:
            if not _is_of_this_user(connection):
                raise ProducerError("the server at this address is of another user")
            connection.sendall(key)
            if _read(connection, 1, end) != _HERE:
                raise ProducerError("the server has nothing by this key; what it offered was withdrawn")
            [count] = _COUNT.unpack(_read(connection, _COUNT.size, end))
            if count > _MOST:
                raise ProducerError(f"the server says that it has {count} arrays, and an offer has at most {_MOST}")
            kinds = _read(connection, count, end)
        except TimeoutError:
            raise TimedOutError("timed out: the server does not answer") from None
        except OSError as error:
            raise ProducerError(f"the server has gone: {error}") from error
        connection.settimeout(None)
        arrays: list[Array] = []
        with Receiver(
            connection,
            devices,
            largest_allocation=largest_allocation,
            trust_sender=trust_sender,
            passing_on=passing_on,
        ) as receiver:
            for is_batch in kinds:
                left = None if end is None else max(end - time.monotonic(), 0.0)
                array = receiver.receive(left)
                if array is None:
                    raise ProducerError(f"the server ended after {len(arrays)} of {count} arrays")
                if isinstance(array, RecordBatch) != bool(is_batch):
                    if is_batch:
                        raise ProducerError("the server sent an array for a record batch")
                    array = _native._as_array(array)
                arrays.append(array)
    return arrays


def _connected(address: str, end: float | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        while True:
            if end is not None:
                connection.settimeout(max(end - time.monotonic(), 0.001))
            try:
                connection.connect(_socket_name(address))
                return connection
            except BlockingIOError:
                # The server's queue of connections is full. A socket with a time limit does not
                # wait for room in that queue by itself.
                if end is not None and time.monotonic() >= end:
                    raise TimeoutError("timed out") from None
                time.sleep(0.002)
    except BaseException:
        connection.close()
        raise
