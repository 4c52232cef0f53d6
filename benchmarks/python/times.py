"""Times what Python programs do with the package, beside the libraries that they would do it with otherwise.

    python benchmarks/python/times.py [--rounds N] [--turn MILLISECONDS] [WORKLOAD ...]

It is run with the interpreter of ``target/python/env``, where ``cargo xtask python`` installs the package as a release build
and its peers; a peer that is missing is said on the error output and left out. Without a workload all of them are timed; a word selects those that
contain it. Each line of the output is an object of JSON::

    {"workload": "export device array", "shape": "batch", "size": 1000, "peer": "pyarrow", "median_ns": 431000.0, "least_ns": 429000.0}

``size`` is the number of columns, of chunks, or of elements. All peers have the same columns of 1024 64-bit integers, over the same buffers where
they can share them. They take turns, each round in another order, and each turn begins with one that is not timed. What is
timed includes letting go of the result, as a program does. Every case is run once before and its outcome compared.
"""

import argparse
import gc
import json
import statistics
import sys
import time

import arrow_device as ad
import numpy as np

ROWS = 1024
SIZES = (1, 10, 100, 1000)
CHUNKS = 100
# Elements of what goes through all of them.
VALUES = 1 << 20
SIDE = 1000


def imported(name):
    """A library that may not be there."""
    try:
        return __import__(name, fromlist=["x"])
    except ImportError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


pa = imported("pyarrow")
na = imported("nanoarrow")
pl = imported("polars")
arro3 = imported("arro3.core")


def columns(count):
    """Names and numbers."""
    return {f"c{index}": np.arange(ROWS, dtype="int64") + index for index in range(count)}


def batches(count):
    """The same batch by every library: its object, which exports it."""
    made = {"arrow-device": ad.record_batch(columns(count))}
    host = made["arrow-device"]
    if pa:
        made["pyarrow"] = pa.record_batch(host)
    if na:
        made["nanoarrow"] = na.c_array(host)
    if pl:
        made["polars"] = pl.DataFrame(columns(count))
    if arro3:
        made["arro3"] = arro3.RecordBatch.from_arrow(host)
    return made


def imports():
    """How each library takes a batch over."""
    ways = {"arrow-device": ad.record_batch}
    if pa:
        ways["pyarrow"] = pa.record_batch
    if na:
        ways["nanoarrow"] = na.c_array
    if pl:
        ways["polars"] = pl.DataFrame
    if arro3:
        ways["arro3"] = arro3.RecordBatch.from_arrow
    return ways


class Relay:
    """Somebody who has one of the protocols' methods and nothing else: it asks another object, so that all consumers get theirs
    from the same producer."""

    def __init__(self, **methods):
        for name, method in methods.items():
            setattr(self, name, method)


def is_batch_of(count):
    """Whether an exported pair of capsules is that batch."""

    def check(capsules):
        taken = ad.record_batch(Relay(__arrow_c_array__=lambda *_: capsules))
        assert (taken.num_rows, taken.num_columns) == (ROWS, count), taken

    return check


def is_device_batch_of(count):
    """The same for a device array."""

    def check(capsules):
        taken = ad.record_batch(Relay(__arrow_c_device_array__=lambda *_, **__: capsules))
        assert (taken.num_rows, taken.num_columns) == (ROWS, count), taken
        assert taken == ad.record_batch(columns(count))

    return check


def is_schema_of(count):
    """Whether a capsule has that batch's schema."""

    def check(capsule):
        schema = ad.schema(Relay(__arrow_c_schema__=lambda: capsule))
        assert schema.names == [f"c{index}" for index in range(count)]

    return check


def has_columns(count):
    """Whether an imported batch is that batch, in whatever library."""

    def check(taken):
        again = ad.record_batch(taken)
        assert (again.num_rows, again.num_columns) == (ROWS, count), again

    return check


def exchange_cases():
    """Batches of some columns, exported and imported by each library."""
    methods = [
        ("export array", "__arrow_c_array__", is_batch_of),
        ("export device array", "__arrow_c_device_array__", is_device_batch_of),
        ("export schema", "__arrow_c_schema__", is_schema_of),
    ]
    for count in SIZES:
        made = batches(count)
        for workload, name, check in methods:
            for peer, batch in made.items():
                source = getattr(batch, "schema", batch) if name == "__arrow_c_schema__" else batch
                if method := getattr(source, name, None):
                    yield workload, "batch", count, peer, method, check(count)
        for producer in ("arrow-device", "pyarrow"):
            if producer not in made:
                continue
            for peer, take in imports().items():
                if peer != producer:
                    shape = f"batch of {producer}"
                    yield "import", shape, count, peer, bound(take, made[producer]), has_columns(count)
        if pa:
            # What of an import is the producer's: consumers call one of these, and release it.
            own = made["pyarrow"]
            for peer, export, check in (
                ("the export of a device array alone", own.__arrow_c_device_array__, is_device_batch_of(count)),
                ("the export of an array alone", own.__arrow_c_array__, is_batch_of(count)),
            ):
                yield "import", "batch of pyarrow", count, peer, export, check


def numpy_cases():
    """All columns of a batch as arrays of numpy."""
    for count in SIZES:
        expected = list(columns(count).values())
        batch = ad.record_batch(columns(count))
        check = are_columns(expected)
        all_at_once = lambda batch: list(batch.to_numpy().values())
        yield "to numpy", "columns of a batch", count, "arrow-device", bound(all_at_once, batch), check
        yield "to numpy", "columns of a batch, one by one", count, "arrow-device", bound(numpy_columns, batch), check
        if not pa:
            continue
        theirs = pa.record_batch(batch)
        table = pa.Table.from_batches([theirs])
        to_numpy = lambda rows: [column.to_numpy() for column in rows.columns]
        yield "to numpy", "columns of a batch", count, "pyarrow", bound(to_numpy, theirs), check
        taken = lambda table: all_at_once(ad.record_batch(table))
        yield "to numpy", "columns of a table of pyarrow", count, "arrow-device", bound(taken, table), check
        yield "to numpy", "columns of a table of pyarrow", count, "pyarrow", bound(to_numpy, table), check


def numpy_columns(batch):
    return [np.from_dlpack(column) for column in batch.columns]


def are_columns(expected):
    """Whether these are the columns, as arrays of numpy."""

    def check(made):
        assert len(made) == len(expected)
        for one, other in zip(made, expected):
            np.testing.assert_array_equal(one, other)

    return check


def stream_cases():
    """A table in chunks, read as a stream; per stream and not per chunk."""
    if not pa:
        return
    for count in SIZES:
        table = pa.Table.from_batches([pa.record_batch(ad.record_batch(columns(count)))] * CHUNKS)
        consumers = {
            "arrow-device": lambda table: list(ad.stream(table)),
            "pyarrow": lambda table: list(pa.RecordBatchReader.from_stream(table)),
        }
        if na:
            consumers["nanoarrow"] = lambda table: list(na.c_array_stream(table))
        for peer, read in consumers.items():
            yield "stream of 100", "batch of pyarrow", count, peer, bound(read, table), counts(CHUNKS)


def counts(expected):
    """Whether there are so many chunks."""

    def check(chunks):
        assert len(chunks) == expected, len(chunks)

    return check


def tensor_cases():
    """A flat tensor through DLPack."""
    numbers = np.arange(ROWS, dtype="int64")
    numbers.flags.writeable = False
    version = (1, 1)
    exporters = {"arrow-device": ad.array(numbers), "numpy": numbers}
    tensors = {"arrow-device": ad.from_dlpack(numbers), "numpy": numbers}
    if pa:
        exporters["pyarrow"] = pa.array(numbers)
    for shape, sources in (("array", exporters), ("tensor", tensors)):
        for peer, source in sources.items():
            yield "dlpack export", shape, ROWS, peer, bound(export_tensor, source, version), is_tensor
            yield "numpy from dlpack", shape, ROWS, peer, bound(np.from_dlpack, source), equals(numbers)
    yield "from dlpack", "of numpy", ROWS, "arrow-device", bound(ad.from_dlpack, numbers), equals(numbers)
    yield "from dlpack", "of numpy", ROWS, "numpy", bound(np.from_dlpack, numbers), equals(numbers)
    yield "to tensor", "array", ROWS, "arrow-device", exporters["arrow-device"].to_tensor, equals(numbers)
    yield "to array", "tensor", ROWS, "arrow-device", tensors["arrow-device"].to_array, equals(numbers)


def value_cases():
    """What goes through every element: comparisons, nulls that are filled, and elements that do not lie together."""
    random = np.random.default_rng(0)
    numbers, floats = random.integers(0, 1 << 40, VALUES), random.random(VALUES)
    if pa:
        is_null = random.random(VALUES) < 0.1
        made = {
            "int64": lambda: pa.array(numbers),
            "int64, a tenth null": lambda: pa.array(numbers, mask=is_null),
            "bool": lambda: pa.array(is_null),
            "text": lambda: pa.array([f"text {number % 977}" for number in numbers.tolist()]),
        }
        for shape, make in made.items():
            one, other = make(), make()
            mine, others = ad.array(one), ad.array(other)
            yield "equals", shape, VALUES, "arrow-device", bound(mine.__eq__, others), is_true
            yield "equals", shape, VALUES, "pyarrow", bound(one.equals, other), is_true
        one, other = (pa.record_batch([make() for make in made.values()], list(made)) for _ in range(2))
        mine, others = ad.record_batch(one), ad.record_batch(other)
        yield "equals", "batch of these", VALUES, "arrow-device", bound(mine.__eq__, others), is_true
        yield "equals", "batch of these", VALUES, "pyarrow", bound(one.equals, other), is_true
        gaps = pa.array(floats, mask=is_null)
        filled = np.where(is_null, np.nan, floats)
        check = has_floats(filled)
        mine = ad.array(gaps)
        yield "nulls as nan", "float64", VALUES, "arrow-device", lambda: np.from_dlpack(mine.to_tensor(nulls="nan")), check
        yield "nulls as nan", "float64", VALUES, "pyarrow", lambda: gaps.to_numpy(zero_copy_only=False), check
    square = floats[: SIDE * SIDE].reshape(SIDE, SIDE)
    strided = {"x[::2]": floats[::2], "x[::-1]": floats[::-1], "x.T": square.T, "x[:, ::2]": square[:, ::2]}
    for shape, view in strided.items():
        yield "strided", shape, view.size, "arrow-device", bound(ad.array, view), has_tensor(view)
        yield "strided", shape, view.size, "numpy", view.copy, has_floats(view)
        if pa and view.ndim == 1:
            yield "strided", shape, view.size, "pyarrow", bound(pa.array, view), bound_last(has_floats(view))


def is_true(answer):
    assert answer is True


def has_floats(expected):
    """Whether an array of numpy's has these numbers."""
    return lambda made: np.testing.assert_array_equal(made, expected)


def has_tensor(expected):
    """Whether an array has these numbers in any number of dimensions."""
    return lambda made: np.testing.assert_array_equal(np.from_dlpack(made), expected)


def bound_last(check):
    """The check, of what numpy makes of it."""
    return lambda made: check(np.asarray(made))


def export_tensor(source, version):
    try:
        return source.__dlpack__(max_version=version)
    except TypeError:
        return source.__dlpack__()


def is_tensor(capsule):
    """Whether a capsule has a tensor."""
    assert len(ad.from_dlpack(capsule)) == ROWS


def equals(numbers):
    """Whether what speaks DLPack has these numbers."""

    def check(tensor):
        assert (np.from_dlpack(tensor) == numbers).all()

    return check


def bound(function, *arguments):
    """A call without arguments."""
    return lambda: function(*arguments)


def turns_of(call, wanted):
    """So many calls that they take about as long as wanted, in nanoseconds."""
    turns = 1
    while True:
        took = timed(call, turns)
        if 2 * took >= wanted or turns >= 1 << 20:
            return max(1, min(1 << 20, round(turns * wanted / took)))
        turns *= 2


def timed(call, turns):
    """Nanoseconds for so many calls."""
    repeat = range(turns)
    begin = time.perf_counter_ns()
    for _ in repeat:
        call()
    return max(1, time.perf_counter_ns() - begin)


def compare(cases, rounds, turn):
    """Prints a line for each of some cases that belong together."""
    for *_, call, check in cases:
        check(call())
    turns = [turns_of(call, turn) for *_, call, _ in cases]
    took = [[] for _ in cases]
    for round_number in range(rounds):
        for position in range(len(cases)):
            index = (position + round_number) % len(cases)
            call = cases[index][4]
            timed(call, 1 + turns[index] // 10)
            took[index].append(timed(call, turns[index]) / turns[index])
    for (workload, shape, size, peer, *_), times in zip(cases, took):
        line = {"workload": workload, "shape": shape, "size": size, "peer": peer}
        spread = {"median_ns": round(statistics.median(times), 1), "least_ns": round(min(times), 1)}
        print(json.dumps({**line, **spread}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21, help="of which the median is taken")
    parser.add_argument("--turn", type=float, default=3.0, help="how long one timed turn takes")
    parser.add_argument("workloads", nargs="*", help="words that select workloads")
    chosen = parser.parse_args()
    groups = {}
    for case in [*exchange_cases(), *numpy_cases(), *stream_cases(), *tensor_cases(), *value_cases()]:
        if not chosen.workloads or any(word in case[0] for word in chosen.workloads):
            groups.setdefault(case[:3], []).append(case)
    gc.disable()
    for cases in groups.values():
        compare(cases, chosen.rounds, chosen.turn * 1e6)
        gc.collect()


if __name__ == "__main__":
    main()
