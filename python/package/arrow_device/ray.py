"""Arrays, record batches and tensors between the actors of Ray on one machine, without a copy. On Linux.

A method of an actor that names one of these transports returns a handle, and its data stays where it is. An actor of the same
machine that gets the handle opens the memory itself. Names of transports, and what each passes:

==========================  ============================================
``"arrow_device"``          ``RecordBatch``
``"arrow_device_array"``    ``Array``
``"arrow_device_tensor"``   ``Tensor``
``"arrow_device_pyarrow"``  ``pyarrow.RecordBatch``, after ``register_pyarrow``
==========================  ============================================

::

    import arrow_device as ad, ray
    import arrow_device.ray
    from arrow_device import share

    @ray.remote
    class Scanner:
        @ray.method(tensor_transport="arrow_device")
        def batch(self):
            return share.to_shareable(ad.record_batch({"x": range(1000)}))

    @ray.remote(enable_tensor_transport=True)
    class Counter:
        def count(self, batch):
            return len(batch)

    scanner, counter = Scanner.remote(), Counter.remote()
    assert ray.get(counter.count.remote(scanner.batch.remote())) == 1000

An actor that receives, and has no method that names a transport, is made with ``enable_tensor_transport=True``: without that, Ray
lets it wait for data behind the very method that needs the data, for a minute.

The import registers the transports, and Ray passes that on to actors that this process makes. An actor that Ray may restart, or
that is called by processes that did not make it, has to import this module itself. Other types in what a method returns, also
the other types of this table, are pickled as ever.

How data travels, from the best way to the worst:

* Data in memory that other processes can open (``share.to_shareable``) is opened by each actor that gets the handle.
* Other data is copied to such memory once, when the method returns: on the device of the data, or else on the host, from where
  each receiver copies it to that device. The copy is held beside what the method returned as long as Ray holds the object.
* To another machine, container or user goes a pickle with all bytes, by a call of the actor that has the data. Ray answers that
  call in a thread of its own. What a driver put (``ray.put``) is not an actor's, and stays on its machine.

The sender's memory is held as long as Ray holds the object, and as long as any process that got it uses it, or lives. After the
end of the sender, data that was received stays usable, and what was not received is a ``ProducerError``. Nothing is left on the
machine by a process that is killed.

Who can get the data: a process of the same user on the same machine that knows the key of the object, which is sent with the
handle of Ray (see ``share.Server``); and any process that Ray lets call the actor. Received memory cannot be written to, with one
exception: the transports whose names end in ``_trusting`` also pass the memory of Vulkan devices by handle. A program that
names one promises that no actor that gets the object writes to it, and that all of them are what they say (``share.Sender``
and ``share.Receiver`` say it in full).

Ray's interface for transports is young. The import is an error where it is not the one that this module was written for.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import socket
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arrow_device import _native
from arrow_device import share as _share
from arrow_device._errors import DeviceError, NotSupportedError, ProducerError
from arrow_device._native import Array, RecordBatch, Tensor, device, record_batch
from arrow_device._server import fetch_from, require_shareable

__all__ = ["register_pyarrow"]

_logger = logging.getLogger(__name__)

#: The release of Ray with the interface below.
_WRITTEN_FOR = "2.60.0"

#: What a transport has to define there.
_METHODS = {
    "abort_transport",
    "actor_has_tensor_transport",
    "can_abort_transport",
    "extract_tensor_transport_metadata",
    "garbage_collect",
    "get_communicator_metadata",
    "is_one_sided",
    "recv_multiple_tensors",
    "send_multiple_tensors",
    "tensor_transport_backend",
}

#: All types of devices: Ray asks for the names of those that a transport is for.
_DEVICES = ["cpu", "cuda", "cuda_host", "cuda_managed", "ext_dev", "hexagon", "maia", "metal", "oneapi", "opencl", "rocm"]
_DEVICES += ["rocm_host", "trainium", "vpi", "vulkan", "webgpu"]


def _interface() -> tuple[Any, Any]:
    """Ray, and the class that a transport derives from."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(f"arrow_device.ray needs Ray, which is not installed: pip install ray=={_WRITTEN_FOR}") from error
    version = getattr(ray, "__version__", "of no known version")
    advice = f"arrow_device.ray was written for Ray {_WRITTEN_FOR}, and the interface for tensor transports of Ray {version}"
    try:
        experimental = importlib.import_module("ray.experimental")
        base = importlib.import_module("ray.experimental.rdt").TensorTransportManager
        register = experimental.register_tensor_transport
    except (ImportError, AttributeError) as error:
        raise ImportError(f"{advice} is not there: pip install ray=={_WRITTEN_FOR}") from error
    methods = set(getattr(base, "__abstractmethods__", ()))
    if methods != _METHODS:
        different = ", ".join(sorted(methods ^ _METHODS))
        raise ImportError(f"{advice} is another one ({different}): pip install ray=={_WRITTEN_FOR}")
    return base, register


_base, _register = _interface()


def _patience() -> float:
    """For how many seconds a transfer waits for the other side: somewhat less than Ray waits for the transfer."""
    constants = importlib.import_module("ray._private.ray_constants")
    return 0.9 * float(getattr(constants, "RDT_FETCH_FAIL_TIMEOUT_SECONDS", 60.0))


_PATIENCE = _patience()


def _machine() -> str:
    """What has to be equal for one process to reach the socket of another: the kernel, its network, and the user."""
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return f"{boot.read().strip()} {os.readlink('/proc/self/ns/net')} {os.geteuid()}"


@dataclass
class _Item:
    """How one value travels."""

    #: "batch", "array", "tensor", "pyarrow", or "pickle" for bytes in an array.
    kind: str
    #: The device that opens the memory.
    device: str
    #: The device that what was opened is copied to, where that is another one.
    to: str | None = None


@dataclass
class _Metadata:
    """What Ray passes for an object: where its values are, and nothing of them."""

    #: Ray looks at these two.
    tensor_meta: list[tuple[tuple[int, ...], str]]
    tensor_device: str | None
    machine: str
    address: str
    key: bytes
    items: list[_Item]


@dataclass
class _Communicator:
    """The actor that has an object; none for what a driver has."""

    source: Any = None


class _Sources:
    """What this process offers to others, by the objects of Ray."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.servers: dict[bool, _share.Server] = {}
        self.offered: dict[str, tuple[_Metadata, list[Any]]] = {}

    def server(self, trusts: bool) -> _share.Server:
        if trusts not in self.servers:
            self.servers[trusts] = _share.Server(trust_receivers=trusts, patience=_PATIENCE)
        return self.servers[trusts]


_sources = _Sources()


def _offers() -> _Sources:
    global _sources
    if _sources.process != os.getpid():
        # In a child of `fork` the server is the parent's.
        _sources = _Sources()
    return _sources


def _with_handle(value: Any, trusts: bool) -> tuple[Array, _Item, tuple[int, ...], str]:
    """An array that other processes can open, and how to make the value of it; its shape and type."""
    if isinstance(value, Tensor):
        shape, kind, about = tuple(value.shape), "tensor", str(value.dtype)
        try:
            array = value.to_array(copy=False)
            same = array.to_tensor(copy=False)
            as_it_was = (same.shape, same.strides, same.dtype) == (value.shape, value.strides, value.dtype)
        except (ValueError, NotSupportedError):
            as_it_was, array = False, None
        if not as_it_was or array is None:
            return _pickled(value), _Item("pickle", "cpu"), shape, about
    elif isinstance(value, Array):
        array, shape, about = value, (len(value),), str(value.type)
        kind = "batch" if isinstance(value, RecordBatch) else "array"
    else:
        array, shape, about, kind = record_batch(value), (value.num_rows,), "pyarrow", "pyarrow"
    where = str(array.device)
    try:
        require_shareable(array, trust_receiver=trusts)
        return array, _Item(kind, where), shape, about
    except NotSupportedError:
        pass
    try:
        copied = _share.to_shareable(array)
        require_shareable(copied, trust_receiver=trusts)
        return copied, _Item(kind, where), shape, about
    except NotSupportedError:
        return _share.to_shareable(array, "cpu"), _Item(kind, "cpu", where), shape, about


def _pickled(value: Any) -> Array:
    return _share.to_shareable(_native.array(pickle.dumps(value, protocol=4)))


def _value(array: Array, item: _Item) -> Any:
    """What was sent, of the array that came."""
    if item.kind == "pickle":
        buffer: Any = array
        return pickle.loads(memoryview(buffer))
    if item.to is not None:
        array = array.to(item.to)
    if item.kind == "tensor":
        return array.to_tensor(copy=False)
    if item.kind == "pyarrow":
        return importlib.import_module("pyarrow").record_batch(array)
    return array


def _bytes_of(_actor: Any, object_id: str) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Runs in the actor that has an object, for one that cannot open its memory."""
    with _offers().lock:
        if object_id not in _offers().offered:
            raise ProducerError("the actor does not have the object any more")
        values = _offers().offered[object_id][1]
    beside: list[pickle.PickleBuffer] = []
    return pickle.dumps(values, protocol=5, buffer_callback=beside.append), beside


class _Transport:
    """The part that all transports have in common. Ray calls it from several threads of its own."""

    trusts = False
    name = ""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: The connections of transfers, by their objects.
        self.receiving: dict[str, list[socket.socket]] = {}

    def tensor_transport_backend(self) -> str:
        return self.name.upper()

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        # Otherwise Ray kills the actors on both sides where a transfer fails.
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> _Metadata:
        sources = _offers()
        with sources.lock:
            if obj_id in sources.offered:
                # The answer of the first attempt was lost.
                return sources.offered[obj_id][0]
            server = sources.server(self.trusts)
        # Without the lock, which transfers take: this may copy, and wait for devices.
        arrays, items, about = [], [], []
        for value in rdt_object:
            array, item, shape, kind = _with_handle(value, self.trusts)
            arrays.append(array)
            items.append(item)
            about.append((shape, kind))
        where = items[0].device.partition(":")[0] if items else None
        metadata = _Metadata(about, where, _machine(), server.address, server.offer(arrays), items)
        with sources.lock:
            sources.offered[obj_id] = metadata, list(rdt_object)
        return metadata

    def get_communicator_metadata(self, src_actor: Any, dst_actor: Any, backend: str | None = None) -> _Communicator:
        if not getattr(dst_actor, "_ray_enable_tensor_transport", True):
            # No error: Ray calls this where an exception ends the process.
            _logger.warning("%r receives by a transport, and was made without enable_tensor_transport=True: it may wait", dst_actor)
        return _Communicator(src_actor)

    def recv_multiple_tensors(
        self, obj_id: str, tensor_transport_metadata: _Metadata, communicator_metadata: _Communicator, target_buffers: Any = None
    ) -> list[Any]:
        metadata = tensor_transport_metadata
        if target_buffers:
            raise NotSupportedError("arrays are opened where they are, and not written into buffers of the receiver")
        with _offers().lock:
            if obj_id in _offers().offered:
                return list(_offers().offered[obj_id][1])
        if metadata.machine != _machine():
            return self.receive_bytes(obj_id, communicator_metadata)
        devices = {item.device: None for item in metadata.items}
        # An error of a device that this process lacks names the device.
        opened = [device(name) for name in devices]
        try:
            arrays = fetch_from(
                metadata.address, metadata.key, opened, _PATIENCE, self.trusts, None, lambda used: self.watch(obj_id, used)
            )
        finally:
            self.unwatch(obj_id)
        if len(arrays) != len(metadata.items):
            raise ProducerError(f"{len(metadata.items)} arrays were announced, and {len(arrays)} came")
        return [_value(array, item) for array, item in zip(arrays, metadata.items)]

    def receive_bytes(self, obj_id: str, communicator: _Communicator) -> list[Any]:
        ray = sys.modules["ray"]
        source = communicator.source or _actor_of(ray, obj_id)
        if source is None:
            raise NotSupportedError(
                "what a driver has put goes to processes of its own machine only; return it from an actor, or put it without "
                "the transport"
            )
        # Not in the thread of transfers: two actors that receive from each other would wait for
        # ever.
        call = source.__ray_call__.options(concurrency_group="_ray_system_error")
        data, buffers = ray.get(call.remote(_bytes_of, obj_id), timeout=_PATIENCE)
        values: list[Any] = pickle.loads(data, buffers=buffers)
        return values

    def watch(self, obj_id: str, used: socket.socket) -> None:
        with self.lock:
            self.receiving.setdefault(obj_id, []).append(used.dup())

    def unwatch(self, obj_id: str) -> None:
        with self.lock:
            for used in self.receiving.pop(obj_id, []):
                used.close()

    def send_multiple_tensors(
        self, tensors: list[Any], tensor_transport_metadata: _Metadata, communicator_metadata: _Communicator
    ) -> None:
        raise NotImplementedError("the receiver fetches")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: _Metadata, tensors: list[Any]) -> None:
        sources = _offers()
        with sources.lock:
            sources.offered.pop(obj_id, None)
            sources.server(self.trusts).withdraw(tensor_transport_meta.key)

    def abort_transport(self, obj_id: str, communicator_metadata: _Communicator) -> None:
        with self.lock:
            for used in self.receiving.get(obj_id, []):
                try:
                    used.shutdown(socket.SHUT_RDWR)
                except OSError:
                    # It has ended already.
                    pass


def _actor_of(ray: Any, obj_id: str) -> Any:
    """The actor that has an object, of a process that gets it by ``ray.get``: for this Ray names no actor."""
    known = ray._private.worker.global_worker.rdt_manager.get_rdt_metadata(obj_id)
    actor = getattr(known, "src_actor", None)
    return actor if hasattr(actor, "__ray_call__") else None


def _class_of(name: str, trusts: bool = False) -> type:
    """The class of a transport. Actors find it in this module, by the name of the class."""
    class_name = f"_{name.title().replace('_', '')}"
    made = type(class_name, (_Transport, _base), {"name": name, "trusts": trusts, "__module__": __name__})
    globals()[class_name] = made
    return made


_PYARROW = _class_of("arrow_device_pyarrow")


def _register_once(made: Any, data_type: type) -> None:
    # Ray may have registered the transport on this actor already, for the process that made the
    # actor.
    if made.name.upper() not in importlib.import_module("ray.experimental.rdt.util").transport_manager_info:
        _register(made.name, _DEVICES, made, data_type)


for _name, _type in {"arrow_device": RecordBatch, "arrow_device_array": Array, "arrow_device_tensor": Tensor}.items():
    _register_once(_class_of(_name), _type)
    _register_once(_class_of(f"{_name}_trusting", trusts=True), _type)


def register_pyarrow() -> None:
    """Registers the transport ``"arrow_device_pyarrow"``, for record batches of pyarrow.

    They are copied once, to memory that other processes can open, when a method returns them. What an actor gets shares that
    memory, and is copied no more. An actor that Ray may restart calls this itself.
    """
    _register_once(_PYARROW, importlib.import_module("pyarrow").RecordBatch)
