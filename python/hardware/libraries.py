"""The libraries that data is exchanged with: each says in its own words what the checks of `exchange.py` need.

A library is made by its class; `Missing` says that it is not there. Its methods work on the current stream of the thread, as
everything does in these libraries. What is not there in a library is None.
"""

from __future__ import annotations

import contextlib


class Missing(Exception):
    """The library, or a device for it, is not there."""


class Library:
    """What a library says of itself. These are those of one without streams and without an account of its memory."""

    #: The device that its data is on.
    device = "cuda:0"
    #: The types that it has, as this package calls them.
    dtypes: tuple[str, ...] = ()
    version = ""
    has_streams = False
    #: Whether it may copy what it is handed.
    may_copy = False
    #: How many numbers are large enough to be seen in an allocator's account.
    many = 1 << 20
    #: And how many it takes to keep a stream of copies busy.
    large = 1 << 24

    def make(self, values, dtype):
        """An array of these values, which may be in lists."""
        raise NotImplementedError

    def count(self, number):
        """The int32 numbers from 0 on, by work that is submitted and not waited for."""
        raise NotImplementedError

    def values(self, array):
        """What is in an array, as lists."""
        raise NotImplementedError

    def take(self, tensor):
        """An array of a tensor of others, by DLPack."""
        raise NotImplementedError

    def copied(self, array):
        """A copy of an array, by work that is submitted and not waited for."""
        raise NotImplementedError

    def address(self, array):
        """Where its first element is, or None."""
        return None

    def transposed(self, array):
        """The same elements in another order, without a copy; None where there is no such thing."""
        return None

    @contextlib.contextmanager
    def stream(self):
        """Another stream is the current one of this thread: its handle. It stays open, since queues of ours refer to it."""
        yield None

    def keep_busy(self):
        """Submits work that takes some hundredths of a second."""

    def held(self):
        """How many bytes of the device's memory its arrays have, or None."""
        return None

    def synchronize(self):
        """Waits for everything."""

    @contextlib.contextmanager
    def capture(self):
        """A graph is captured in the strictest mode, on a stream with this handle; None where the library has no graphs."""
        yield None

    def graph(self, to, array):
        """A graph that copies an array into another one, captured on the current stream: a function that launches the graph on that
        stream, or None where the library has no graphs."""
        return None

    def lose(self):
        """Breaks the device for this process, if the library can; says whether it has."""
        return False

    def reservations(self):
        """Whether its memory is in reserved ranges of addresses, in words, or None."""
        return None

    def mistakes(self):
        """What somebody who watches has found to be wrong."""
        return []


class Numpy(Library):
    """On the host, where there are no streams."""

    device = "cpu"
    dtypes = (
        "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )

    def __init__(self):
        self.library = imported("numpy")
        self.version = self.library.__version__

    def make(self, values, dtype):
        return self.library.array(values).astype(dtype)

    def count(self, number):
        return self.library.arange(number, dtype="int32")

    def values(self, array):
        return array.tolist()

    def take(self, tensor):
        return self.library.from_dlpack(tensor)

    def address(self, array):
        return array.ctypes.data

    def transposed(self, array):
        return array.T


class Torch(Library):
    """PyTorch, by the memory that its allocator has given out."""

    has_streams = True
    dtypes = (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128", "bfloat16",
    )

    def __init__(self):
        self.library = imported("torch")
        self.version = self.library.__version__
        if not self.library.cuda.is_available():
            raise Missing("PyTorch sees no CUDA device")

    def make(self, values, dtype):
        return self.library.tensor(values).to(getattr(self.library, dtype)).to("cuda:0")

    def count(self, number):
        return self.library.arange(number, dtype=self.library.int32, device="cuda:0")

    def values(self, array):
        return array.tolist()

    def take(self, tensor):
        return self.library.from_dlpack(tensor)

    def copied(self, array):
        return array.clone()

    def address(self, array):
        return array.data_ptr()

    def transposed(self, array):
        return array.mT

    @contextlib.contextmanager
    def stream(self):
        stream = self.library.cuda.Stream("cuda:0")
        with self.library.cuda.stream(stream):
            yield stream.cuda_stream

    def keep_busy(self):
        # Clock cycles.
        self.library.cuda._sleep(100_000_000)

    def held(self):
        return self.library.cuda.memory_allocated("cuda:0")

    def synchronize(self):
        self.library.cuda.synchronize("cuda:0")

    @contextlib.contextmanager
    def capture(self):
        cuda = self.library.cuda
        kept = self.library.zeros(16, device="cuda:0")
        stream = cuda.Stream("cuda:0")
        graph = cuda.CUDAGraph()
        self.synchronize()
        with cuda.stream(stream):
            graph.capture_begin(capture_error_mode="global")
            try:
                kept += 1
                yield stream.cuda_stream
            finally:
                graph.capture_end()
        for _ in range(3):
            graph.replay()
        assert kept.tolist() == [3] * 16, "the graph is not what was captured"

    def graph(self, to, array):
        cuda = self.library.cuda
        graph = cuda.CUDAGraph()
        self.synchronize()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            to.copy_(array)
        finally:
            graph.capture_end()
        return graph.replay

    def lose(self):
        # An index beyond the end, which a kernel finds.
        try:
            wrong = self.library.tensor([1 << 20], device="cuda:0")
            self.library.zeros(4, device="cuda:0")[wrong].tolist()
        except RuntimeError:
            return True
        return False

    def reservations(self):
        segments = [each for each in self.library.cuda.memory_snapshot() if each.get("is_expandable")]
        if not segments:
            self.count(1 << 20)
            segments = [each for each in self.library.cuda.memory_snapshot() if each.get("is_expandable")]
        return f"{len(segments)} segments that grow" if segments else None


SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


class Cupy(Library):
    """CuPy, by the memory that its pool has given out."""

    has_streams = True
    dtypes = Numpy.dtypes

    def __init__(self):
        self.library = imported("cupy")
        self.version = self.library.__version__
        try:
            count = self.library.cuda.runtime.getDeviceCount()
        except self.library.cuda.runtime.CUDARuntimeError as error:
            raise Missing(f"CuPy sees no device: {error}") from error
        if count == 0:
            raise Missing("CuPy sees no device")
        self.spin = self.library.RawKernel(SPIN, "spin")
        self.streams = []

    def make(self, values, dtype):
        numpy = imported("numpy")
        return self.library.asarray(numpy.array(values).astype(dtype))

    def count(self, number):
        return self.library.arange(number, dtype="int32")

    def values(self, array):
        return array.tolist()

    def take(self, tensor):
        return self.library.from_dlpack(tensor)

    def copied(self, array):
        return array.copy()

    def address(self, array):
        return array.data.ptr

    def transposed(self, array):
        return array.T

    @contextlib.contextmanager
    def stream(self):
        stream = self.library.cuda.Stream(non_blocking=True)
        self.streams.append(stream)
        with stream:
            yield stream.ptr

    def keep_busy(self):
        self.spin((1,), (1,), (imported("numpy").int64(100_000_000),))

    def held(self):
        return self.library.get_default_memory_pool().used_bytes()

    def synchronize(self):
        self.library.cuda.Device(0).synchronize()

    @contextlib.contextmanager
    def capture(self):
        kept = self.library.zeros(16)
        stream = self.library.cuda.Stream(non_blocking=True)
        self.streams.append(stream)
        self.synchronize()
        with stream:
            stream.begin_capture()
            try:
                kept += 1
                yield stream.ptr
            finally:
                graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        assert kept.tolist() == [1] * 16, "the graph is not what was captured"

    def graph(self, to, array):
        stream = self.library.cuda.get_current_stream()
        self.synchronize()
        stream.begin_capture()
        try:
            self.library.copyto(to, array)
        finally:
            graph = stream.end_capture()
        return lambda: graph.launch(stream)


class Jax(Library):
    """JAX, which has streams and shows none, on its first GPU; on the host where it has none, so that something is tested."""

    may_copy = True
    dtypes = (*Numpy.dtypes, "bfloat16")

    def __init__(self):
        self.library = imported("jax")
        self.version = self.library.__version__
        self.library.config.update("jax_enable_x64", True)
        self.numpy = imported("jax.numpy")
        try:
            self.place = self.library.devices("gpu")[0]
        except RuntimeError:
            self.place, self.device = self.library.devices("cpu")[0], "cpu"
        self.library.config.update("jax_default_device", self.place)

    def make(self, values, dtype):
        return self.library.device_put(self.numpy.array(values).astype(dtype), self.place)

    def count(self, number):
        return self.numpy.arange(number, dtype="int32")

    def values(self, array):
        return imported("numpy").asarray(array).tolist()

    def take(self, tensor):
        return self.library.dlpack.from_dlpack(tensor)

    def address(self, array):
        return array.unsafe_buffer_pointer()

    def keep_busy(self):
        x = self.numpy.ones((2048, 2048) if self.device != "cpu" else (64, 64), dtype="float32")
        for _ in range(100):
            x = (x @ x) * 1e-4
        self.kept = x

    def held(self):
        statistics = self.place.memory_stats()
        return None if not statistics else statistics.get("bytes_in_use")

    def synchronize(self):
        self.kept = None
        (self.numpy.zeros(()) + 1).block_until_ready()


#: By the names of the sections.
LIBRARIES = {"numpy": Numpy, "torch": Torch, "cupy": Cupy, "jax": Jax}


def imported(name):
    """A module, or `Missing`."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Missing(f"{name}: {error}") from error
