"""Arrays, record batches and tensors between the actors of Ray on one machine, without a copy. On Linux.

A method of an actor that names one of these transports returns a handle, and the data stays where it is. An actor of the same
machine that gets the handle opens the memory itself. The table has the names of the transports, and the type that each passes:

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

An actor that receives data, and has no method that names a transport, is made with ``enable_tensor_transport=True``. Without
this option, Ray queues the transfer behind the method that waits for the data, and the method waits for a minute.

The import registers the transports, and Ray also registers them in the actors that this process makes. An actor that Ray may
restart, or that is called by processes that did not make the actor, has to import this module itself. Values of other types in
the result of a method, also of the other types of the table, are pickled as usual.

How data travels, from the best way to the worst:

* Data in memory that other processes can open (``share.to_shareable``) is opened by each actor that gets the handle.
* Other data is copied to such memory once, when the method returns: on the device of the data, or else on the host, from where
  each receiver copies it to that device. The copy is held beside what the method returned as long as Ray holds the object.
* To another machine, container or user, a pickle with all bytes is sent: the receiver calls the actor that has the data, and a
  thread of Ray's answers that call. An object that a driver put (``ray.put``) belongs to no actor, and stays on its machine.

The sender holds its memory as long as Ray holds the object, and as long as a process that received the object uses the memory.
After the end of the sender, data that was received stays usable; to receive data after that raises a ``ProducerError``. A
process that is killed leaves nothing behind on the machine.

Two sorts of processes can get the data: a process of the same user on the same machine that knows the key of the object, which
is sent with the handle of Ray (see ``share.Server``); and any process that Ray lets call the actor. Nobody can write to
received memory, with one exception: the transports whose names end in ``_trusting`` also pass the memory of Vulkan devices by
handle. A program that names such a transport makes the promises of a trusting ``share.Sender`` and ``share.Receiver`` for all
actors that get the object, above all that none of them writes to the memory.

Ray's interface for transports is young. The import raises if Ray has another interface than the one that this module was
written for.
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

#: The methods that a transport has to define in that release.
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
    """For how many seconds a transfer waits for the other side: a little less than Ray waits for the transfer."""
    constants = importlib.import_module("ray._private.ray_constants")
    return 0.9 * float(getattr(constants, "RDT_FETCH_FAIL_TIMEOUT_SECONDS", 60.0))


_PATIENCE = _patience()


def _machine() -> str:
    """A text that is equal for processes that can reach each other's sockets: the kernel, its network, and the user."""
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return f"{boot.read().strip()} {os.readlink('/proc/self/ns/net')} {os.geteuid()}"


@dataclass
class _Item:
    """How one value is sent."""

    #: "batch", "array", "tensor", "pyarrow", or "pickle" for bytes in an array.
    kind: str
    #: The device that opens the memory.
    device: str
    #: The device to which the opened array is copied, if that is another device.
    to: str | None = None


@dataclass
class _Metadata:
    """What Ray passes for an object: where its values are, without any of their bytes."""

    #: Ray reads these two.
    tensor_meta: list[tuple[tuple[int, ...], str]]
    tensor_device: str | None
    machine: str
    address: str
    key: bytes
    items: list[_Item]


@dataclass
class _Communicator:
    """The actor that has an object; None for an object of a driver."""

    source: Any = None


class _Sources:
    """The arrays that this process offers to others, by the ids of Ray's objects."""

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
        # In a child of `fork`, the servers are those of the parent.
        _sources = _Sources()
    return _sources


def _with_handle(value: Any, trusts: bool) -> tuple[Array, _Item, tuple[int, ...], str]:
    """An array that other processes can open, and how to make the value of that array; the shape and the type of the value."""
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
    """Makes the value that was sent from the array that came."""
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
    """Runs in the actor that has an object, for an actor that cannot open the memory of the object."""
    with _offers().lock:
        if object_id not in _offers().offered:
            raise ProducerError("the actor does not have the object any more")
        values = _offers().offered[object_id][1]
    beside: list[pickle.PickleBuffer] = []
    return pickle.dumps(values, protocol=5, buffer_callback=beside.append), beside


class _Transport:
    """The part that all transports have in common. Ray calls the methods on several threads of its own."""

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
        # Otherwise Ray kills the actors on both sides when a transfer fails.
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
        # The lock, which transfers take, is not held here: this may copy, and wait for devices.
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
            # Not an error: an exception in this method would end the process.
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
        # Not in the thread of transfers, where two actors that receive from each other would wait
        # for ever.
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
    """The actor that has an object, for a process that gets the object by ``ray.get``, for which Ray names no actor."""
    known = ray._private.worker.global_worker.rdt_manager.get_rdt_metadata(obj_id)
    actor = getattr(known, "src_actor", None)
    return actor if hasattr(actor, "__ray_call__") else None


def _class_of(name: str, trusts: bool = False) -> type:
    """The class of a transport. Actors find the class in this module, by its name."""
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

    A batch is copied once, to memory that other processes can open, when a method returns it. The batch that an actor gets
    shares that memory, without another copy. An actor that Ray may restart calls this function itself.
    """
    _register_once(_PYARROW, importlib.import_module("pyarrow").RecordBatch)
