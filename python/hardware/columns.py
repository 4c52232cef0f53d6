"""Exchange of whole columns with libraries that have no DLPack: Numba, by the CUDA array interface, and pylibcudf, by Arrow's C device
interface, with its memory from a pool of RMM.
"""

from __future__ import annotations

import gc

import numpy

import arrow_device as ad
import exchange
from libraries import Missing, imported

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64")


def device():
    """The first CUDA device, or `Missing`."""
    found = ad.devices()
    if not any(each.type == "cuda" for each in found):
        raise Missing(f"no CUDA device: {found.missing}")
    return "cuda:0"


def held():
    """How many bytes of the device arrays of this package have, when all is released."""
    exchange.release()
    return ad.device("cuda:0").held["allocated"]


def behind_a_lot(array, length):
    """A copy on the device that is behind much else on its queue, and what it is behind."""
    queue = ad.device("cuda:0").queue()
    much = ad.array(numpy.zeros(8 * length, dtype="int64"))
    before = [much.to(queue) for _ in range(4)]
    return array.to(queue), before


# ---- Numba


def numba(result, is_quick):
    """The section."""
    device()
    library = imported("numba")
    cuda = imported("numba.cuda")
    if not cuda.is_available():
        raise Missing("Numba sees no CUDA device")
    result.fact("version", library.__version__)
    length = 1 << 12 if is_quick else 1 << 22
    for check in (numba_takes_ours, ours_are_numbas, numba_waits_for_ours, ours_waits_for_numba, numba_keeps_ours, numba_gives_all_back):
        result.check(check.__name__, check, cuda, length)


def numba_takes_ours(cuda, length):
    copied = []
    for name in NUMBERS:
        numbers = numpy.arange(100).astype(name)
        there = ad.array(numbers).to("cuda:0")
        theirs = cuda.as_cuda_array(there)
        exchange.same(theirs.copy_to_host().tolist(), numbers.tolist(), name)
        if theirs.__cuda_array_interface__["data"][0] != there.__cuda_array_interface__["data"][0]:
            copied.append(name)
    assert not copied, f"these were copied: {copied}"
    return f"{len(NUMBERS)} types"


def ours_are_numbas(cuda, length):
    for name in NUMBERS:
        numbers = numpy.arange(100).astype(name)
        theirs = cuda.to_device(numbers)
        ours = ad.array(theirs)
        assert str(ours.device) == "cuda:0", ours
        exchange.same(ours.to_host().to_pylist(), numbers.tolist(), name)
        exchange.same(cuda.as_cuda_array(ours).copy_to_host().tolist(), numbers.tolist(), f"{name}, and back")
    return f"{len(NUMBERS)} types"


def numba_waits_for_ours(cuda, length):
    """Ours is behind a lot on a queue of ours, and Numba reads on a stream of its own."""
    numbers, late = numpy.arange(length, dtype="int32"), 0
    for _ in range(3):
        stream = cuda.stream()
        there, before = behind_a_lot(ad.array(numbers), length)
        late += not there.ready
        theirs = cuda.as_cuda_array(there)
        found = theirs.copy_to_host(stream=stream)
        stream.synchronize()
        exchange.same(found.tolist(), numbers.tolist(), "made on a queue of ours")
        del before, there, theirs
    return f"{late} of 3 were not finished when they were handed over"


def ours_waits_for_numba(cuda, length):
    """Numba copies on a stream that it names, and we read at once."""
    numbers = numpy.arange(length, dtype="int32")
    for _ in range(3):
        stream = cuda.stream()
        much = numpy.zeros(8 * length, dtype="int64")
        before = [cuda.to_device(much, stream=stream) for _ in range(4)]
        ours = ad.array(cuda.to_device(numbers, stream=stream))
        exchange.same(ours.to_host().to_pylist(), numbers.tolist(), "made on a stream of Numba's")
        del before, ours
    return ""


def numba_keeps_ours(cuda, length):
    numbers = numpy.arange(length, dtype="int32")
    there = ad.array(numbers).to("cuda:0")
    theirs = cuda.as_cuda_array(there)
    del there
    exchange.release()
    others = [ad.array(numpy.full(length, 7, dtype="int32")).to("cuda:0") for _ in range(4)]
    exchange.same(theirs.copy_to_host().tolist(), numbers.tolist(), "ours, after we let go")
    del others
    return ""


def numba_gives_all_back(cuda, length):
    before = held()
    there = ad.array(numpy.zeros(length, dtype="int32")).to("cuda:0")
    theirs = cuda.as_cuda_array(there)
    del there
    during = held()
    assert during >= before + 4 * length, f"we hold nothing: {before}, {during}"
    del theirs
    gc.collect()
    after = held()
    assert after == before, f"{before} bytes before, {after} after"
    return f"{after} bytes"


# ---- pylibcudf


def pylibcudf(result, is_quick):
    """The section."""
    device()
    try:
        import pyarrow as pa
    except ImportError as error:
        raise Missing(f"pyarrow: {error}") from error
    cudf, rmm = imported("pylibcudf"), imported("rmm")
    stream = imported("rmm.pylibrmm.stream").Stream
    result.fact("version", cudf.__version__)
    result.fact("rmm", rmm.__version__)
    # All memory of libcudf from here on, which is counted.
    pool = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaAsyncMemoryResource())
    rmm.mr.set_current_device_resource(pool)
    of = Cudf(cudf, stream, pool, pa, 1 << 12 if is_quick else 1 << 22)
    for check in (
        cudf_takes_ours, ours_are_cudfs, cudf_waits_for_ours, ours_stays_while_cudf_reads_it, cudfs_stays_while_we_have_it,
        cudf_gives_all_back,
    ):
        result.check(check.__name__, check, of)


class Cudf:
    """The libraries, and what is exchanged with them."""

    def __init__(self, cudf, stream, pool, pa, length):
        self.column, self.stream, self.pool, self.pa, self.length = cudf.Column, stream, pool, pa, length

    def values(self, column, **options):
        return self.column.to_arrow(column, **options).to_pylist()

    def samples(self):
        """Arrays of the types that libcudf has."""
        pa = self.pa
        return {
            "int32": pa.array([1, None, 3], pa.int32()), "int64": pa.array(range(1000)), "float64": pa.array([1.5, None, -0.0]),
            "bool": pa.array([True, None, False] * 11), "utf8": pa.array(["a", None, "ccc", "", "a longer text"]),
            "timestamp": pa.array([0, None, 10**9], pa.timestamp("us")), "date32": pa.array([0, None, 19000], pa.date32()),
            "list": pa.array([[1, 2], None, [], [3, None]]),
            "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]), "empty": pa.array([], pa.int64()),
        }

    def numbers(self, value=None):
        counted = numpy.arange(self.length, dtype="int64")
        return counted if value is None else numpy.full(self.length, value, dtype="int64")


def cudf_takes_ours(of):
    samples = of.samples()
    for name, array in samples.items():
        for part in (array, array[1:]):
            there = ad.array(part).to("cuda:0")
            exchange.same(of.values(of.column.from_arrow(there)), part.to_pylist(), name)
    return f"{len(samples)} types"


def ours_are_cudfs(of):
    samples = of.samples()
    for name, array in samples.items():
        ours = ad.array(of.column.from_arrow(array))
        assert str(ours.device) == "cuda:0", f"{name}: {ours}"
        ours.to_host().validate(full=True)
        exchange.same(of.pa.array(ours.to_host()).to_pylist(), array.to_pylist(), name)
        again = of.column.from_arrow(ours)
        exchange.same(of.values(again), array.to_pylist(), f"{name}, and back")
    return f"{len(samples)} types"


def cudf_waits_for_ours(of):
    """Ours is behind a lot on a queue of ours, and libcudf copies it on a stream of its own."""
    expected, late = of.numbers().tolist(), 0
    for _ in range(3):
        stream = of.stream()
        there, before = behind_a_lot(ad.array(of.numbers()), of.length)
        late += not there.ready
        copied = of.column.copy(of.column.from_arrow(there, stream=stream), stream=stream)
        exchange.same(of.values(copied, stream=stream), expected, "made on a queue of ours")
        del before, there, copied
    return f"{late} of 3 were not finished when they were handed over"


def ours_stays_while_cudf_reads_it(of):
    """libcudf copies ours on a stream, and lets go at once; the memory is asked for again.

    Arrow's release says that its caller is done: libcudf waits for its stream, or the values show that it does not.
    """
    expected = of.numbers().tolist()
    for _ in range(3):
        stream = of.stream()
        there = ad.array(of.numbers()).to("cuda:0")
        column = of.column.from_arrow(there, stream=stream)
        copied = of.column.copy(column, stream=stream)
        stream.synchronize()
        del there, column
        gc.collect()
        ad.release_finished()
        others = [ad.array(of.numbers(7)).to("cuda:0") for _ in range(4)]
        exchange.same(of.values(copied, stream=stream), expected, "ours, read after they let go")
        del others, copied
    return ""


def cudfs_stays_while_we_have_it(of):
    theirs = of.column.from_arrow(of.pa.array(of.numbers()))
    ours = ad.array(theirs)
    del theirs
    gc.collect()
    others = [of.column.from_arrow(of.pa.array(of.numbers(9))) for _ in range(4)]
    exchange.same(ours.to_host().to_pylist(), of.numbers().tolist(), "theirs, after they let go")
    del others
    return ""


def cudf_gives_all_back(of):
    def counts():
        ours = held()
        return {"ours": ours, "theirs": of.pool.allocation_counts.current_bytes}

    # What is kept for the next time is there after a first round.
    for _ in range(2):
        before = counts()
        there = ad.array(of.numbers()).to("cuda:0")
        column = of.column.from_arrow(there)
        del there
        during = counts()
        assert during["ours"] >= before["ours"] + 8 * of.length, f"we hold nothing: {before}, {during}"
        del column
        gc.collect()
        after = counts()
    assert after == before, f"ours that they had: {before} before, {after} after"
    theirs = of.column.from_arrow(of.pa.array(of.numbers()))
    ours = ad.array(theirs)
    del theirs
    gc.collect()
    during = counts()
    assert during["theirs"] >= before["theirs"] + 8 * of.length, f"they hold nothing: {before}, {during}"
    del ours
    gc.collect()
    after = counts()
    assert after == before, f"theirs that we had: {before} before, {after} after"
    return f"{after}"
