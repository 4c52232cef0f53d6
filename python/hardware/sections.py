"""One section in a process of its own: `sections.py NAME RESULT [--quick]`.

The result has one JSON object to a line, written as soon as it is known: `begins` and `check` for each check, `fact` for what is
worth knowing, `missing` where there is nothing to check.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import libraries
from columns import numba, pylibcudf
from compiled import nanoarrow
from hazards import ENVIRONMENT, HAZARDS
from libraries import LIBRARIES, Library, Missing


class Result:
    """What is found, line by line."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.failures = 0

    def line(self, **members):
        self.file.write(json.dumps(members) + "\n")
        self.file.flush()

    def fact(self, name, value):
        print(f"{name}: {value}", flush=True)
        self.line(fact=name, value=value)

    def check(self, name, work, *arguments):
        self.line(begins=name)
        start = time.monotonic()
        passed, text = True, ""
        try:
            text = work(*arguments) or ""
        except Missing:
            raise
        except Exception:  # noqa: BLE001
            passed, text = False, traceback.format_exc()[-3000:]
        self.failures += not passed
        print(f"{'passed' if passed else 'FAILED'} {name} {text}", flush=True)
        self.line(check=name, passed=passed, seconds=round(time.monotonic() - start, 3), text=text)


def library(kind):
    """The section of a library."""

    def section(result, is_quick):
        import exchange

        of = kind()
        if is_quick:
            of.many, of.large = 1 << 12, 1 << 14
        result.fact("version", of.version)
        result.fact("device", of.device)
        for check in exchange.CHECKS:
            result.check(check.__name__, watched, check, of)

    return section


def hazard(case):
    """The section of a hazard, on all libraries that are there."""

    def section(result, is_quick):
        there = []
        for name, kind in LIBRARIES.items():
            try:
                of = kind()
            except Missing as why:
                result.fact(name, f"not there: {why}")
                continue
            if is_quick:
                of.many, of.large = 1 << 12, 1 << 14
            there.append(of)
        result.check("it is survived", case, there, is_quick)

    return section


def watched(check, of):
    """A check, and whoever watches has nothing to say against it."""
    text = check(of)
    mistakes = of.mistakes()
    assert not mistakes, mistakes
    return text


def machine(result, is_quick):
    """What there is."""
    import arrow_device as ad

    result.fact("arrow_device", ad.__version__)
    found = ad.devices()
    result.fact("devices", [f"{device}: {device.name}" for device in found])
    result.fact("missing", found.missing)
    if shutil.which("nvidia-smi"):
        fields = "name,driver_version,memory.total,memory.used,pcie.link.gen.current,pcie.link.width.current"
        words = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv"]
        result.fact("nvidia-smi", subprocess.run(words, capture_output=True, text=True, timeout=20).stdout)
        fields = "index,uuid,mig.mode.current,compute_mode,persistence_mode,ecc.mode.current"
        for name, words in {
            # MIG and exclusive mode say what a process may have of a device.
            "modes": ["nvidia-smi", f"--query-gpu={fields}", "--format=csv"], "instances": ["nvidia-smi", "-L"],
            "topology": ["nvidia-smi", "topo", "-m"], "nvidia-smi -q": ["nvidia-smi", "-q"],
        }.items():
            ended = subprocess.run(words, capture_output=True, text=True, timeout=20)
            result.fact(name, ended.stdout + ended.stderr)
    chosen = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    result.fact("visible", {name: os.environ[name] for name in chosen if name in os.environ})
    words = [sys.executable, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    result.fact("packages", subprocess.run(words, capture_output=True, text=True, timeout=30).stdout.split())
    here = Path(__file__).resolve().parent
    files = sorted(file for file in here.iterdir() if file.is_file() and file.suffix != ".json")
    result.fact("files", {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
    commit = here / "COMMIT"
    result.fact("commit", commit.read_text(encoding="utf-8").strip() if commit.is_file() else None)
    result.check("the host is a device", lambda: str(ad.array(bytearray(4)).to("cpu").device))


def gpu():
    """The GPU's name here, or `Missing`."""
    import arrow_device as ad

    found = ad.devices()
    for kind in ("cuda", "rocm"):
        if any(device.type == kind for device in found):
            return kind
    raise Missing(f"no GPU: {found.missing}")


def arrays():
    """Arrays of many types, with and without nulls, as pyarrow makes them."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise Missing(f"pyarrow: {error}") from error

    texts = ["a", None, "ccc", "", "a longer text that is not kept inside of a view"]
    return {
        "int32": pa.array([1, None, 3], pa.int32()),
        "int64": pa.array(range(1000)),
        "float64": pa.array([1.5, None, -0.0]),
        "bool": pa.array([True, None, False] * 11),
        "utf8": pa.array(texts),
        "large_binary": pa.array([b"a", None, b"\0"], pa.large_binary()),
        "utf8_view": pa.array(texts, pa.string_view()),
        "decimal128": pa.array([None, 12345], pa.decimal128(20, 3)),
        "timestamp": pa.array([0, None, 10**9], pa.timestamp("us", "UTC")),
        "list": pa.array([[1, 2], None, [], [3, None]]),
        "large_list": pa.array([["a"], None, ["b", None]], pa.large_list(pa.string())),
        "fixed_size_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2)),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays([2, 5], ["a", "b"]),
        "dense_union": pa.UnionArray.from_dense(
            pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["z"])]),
        "null": pa.nulls(4),
        "empty": pa.array([], pa.string()),
    }


def conformance(result, is_quick):
    """Arrays of every kind from the host to each kind of memory and between them, and all memory back in the end."""
    import gc

    import arrow_device as ad

    kind = gpu()
    found = [str(device) for device in ad.devices() if device.type.startswith(kind)]
    result.fact("devices", found)
    all_arrays = arrays()

    def there_and_back(name):
        for shape, array in all_arrays.items():
            for part in (array, array[1:]):
                source = ad.array(part)
                there = source.to(name)
                assert str(there.device) == name and len(there) == len(part)
                back = there.to_host()
                back.validate(full=True)
                assert back == source, f"{shape}: {part}"
        return f"{2 * len(all_arrays)} arrays"

    def among_each_other():
        for shape, array in all_arrays.items():
            source = ad.array(array)
            for one in found:
                there = source.to(one)
                for other in found:
                    assert there.to(other).to_host() == source, f"{shape}, {one} to {other}"
        return f"{len(found)} kinds of memory, {len(all_arrays)} arrays"

    def batches():
        import pyarrow as pa

        table = pa.table({shape: array[:1] for shape, array in all_arrays.items() if len(array)})
        batches = [ad.record_batch(batch) for batch in table.to_batches()]
        for name in found:
            stream = ad.stream(table).to(name)
            assert stream.device_type == name.split(":")[0], stream.device_type
            read = [ad.record_batch(array) for array in stream]
            assert [batch.to_host() for batch in read] == batches, name
        return f"{table.num_columns} columns"

    def on_a_queue_of_its_own():
        import numpy

        for name in found:
            queue = ad.device(name).queue()
            numbers = ad.array(numpy.arange(1 << 20, dtype="int32"))
            there = numbers.to(queue)
            there.wait()
            assert there.ready and there.to_host() == numbers, name
            queue.synchronize()
            assert queue.idle
        return ""

    def all_memory_comes_back():
        before = None
        for _ in range(3):
            for name in found:
                there = [ad.array(array).to(name) for array in all_arrays.values()]
                assert ad.device(name).held["allocated"] > 0
                del there
            gc.collect()
            ad.wait_until_released(20)
            after = {name: ad.device(name).held["allocated"] for name in found}
            assert before in (None, after), f"{before}, {after}"
            before = after
        assert not any(before.values()), before
        return f"{before}"

    for name in found:
        result.check(f"there and back on {name}", there_and_back, name)
    result.check("among each other", among_each_other)
    result.check("streams of batches", batches)
    result.check("queues", on_a_queue_of_its_own)
    result.check("all memory comes back", all_memory_comes_back)


def pyarrow(result, is_quick):
    """Host arrays in both directions, and device arrays where pyarrow has CUDA."""
    all_arrays = arrays()
    import arrow_device as ad
    import pyarrow as pa

    kind = gpu()
    result.fact("version", pa.__version__)

    def host_arrays():
        for shape, array in all_arrays.items():
            back = pa.array(ad.array(array).to(f"{kind}:0").to_host())
            assert back.equals(array), f"{shape}: {back} and not {array}"
        return f"{len(all_arrays)} arrays"

    def device_arrays():
        try:
            import pyarrow.cuda  # noqa: F401
        except ImportError as error:
            return f"not there: {error}"
        array = all_arrays["utf8"]
        there = ad.array(array).to("cuda:0")
        theirs = pa.Array._import_from_c_device_capsule(*there.__arrow_c_device_array__())
        assert theirs.device_type == pa.lib.DeviceAllocationType.CUDA, theirs.device_type
        back = theirs.copy_to(pa.default_cpu_memory_manager())
        assert back.equals(array), back
        again = ad.array(theirs)
        assert again.device == ad.device("cuda:0") and again.to_host() == ad.array(array)
        return "both ways"

    def without_cuda_it_is_an_error():
        """A pyarrow that knows no such device refuses an array, and the array is released."""
        import gc

        there = ad.array(all_arrays["int32"]).to(f"{kind}:0")
        try:
            taken = pa.Array._import_from_c_device_capsule(*there.__arrow_c_device_array__())
        except Exception as error:  # noqa: BLE001
            text = f"{type(error).__name__}: {error}"
        else:
            text = f"it took it: {taken.device_type}"
            del taken
        del there
        gc.collect()
        ad.wait_until_released(20)
        held = ad.device(f"{kind}:0").held["allocated"]
        assert held == 0, f"{held} bytes are left; {text}"
        return text

    result.check("host arrays", host_arrays)
    result.check("device arrays", device_arrays)
    result.check("what it says to a device array", without_cuda_it_is_an_error)


def chain(result, is_quick):
    """From each library that is there through the next one and so on, on the device, without a copy in host memory."""
    import arrow_device as ad
    from exchange import ROWS, same

    there = []
    for name, kind in LIBRARIES.items():
        try:
            of = kind()
        except Missing as why:
            result.fact(name, f"not there: {why}")
            continue
        if of.device != "cpu":
            there.append(of)
    if len(there) < 2:
        raise Missing(f"{len(there)} libraries with a device")

    def go_round(first):
        order = there[first:] + there[:first]
        data = order[0].make(ROWS, "float32")
        for turn in range(3):
            for of in order[1:] + order[:1]:
                data = of.take(ad.from_dlpack(data))
        same(order[0].values(data), ROWS, "after three rounds")
        return " -> ".join(type(of).__name__ for of in order)

    for first in range(len(there)):
        result.check(f"beginning with {type(there[first]).__name__}", go_round, first)


SECTIONS = {
    "machine": machine, "conformance": conformance, "pyarrow": pyarrow, "chain": chain, "numba": numba, "pylibcudf": pylibcudf,
    "nanoarrow": nanoarrow,
    **{name: hazard(case) for name, case in HAZARDS.items()},
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("name", nargs="?")
    arguments.add_argument("result", nargs="?")
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--libraries", help="a file of Python whose subclasses of `Library` are libraries, too")
    arguments.add_argument("--list", action="store_true", help="say which libraries there are names of")
    chosen = arguments.parse_args()
    if chosen.libraries is not None:
        for name, found in runpy.run_path(chosen.libraries).items():
            if isinstance(found, type) and issubclass(found, Library) and found.__module__ == "<run_path>":
                LIBRARIES[name.lower()] = found
    if chosen.list:
        print("\n".join(libraries.LIBRARIES))
        return 0
    section = SECTIONS.get(chosen.name) or library(LIBRARIES[chosen.name])
    os.environ.update(ENVIRONMENT.get(chosen.name, {}))
    result = Result(chosen.result)
    try:
        section(result, chosen.quick)
    except Missing as why:
        print(f"not there: {why}")
        result.line(missing=str(why))
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
