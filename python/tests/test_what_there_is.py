"""The table of the README that has this package beside others: each word of it is tried, where the package is installed."""

import pathlib
import pickle
import tempfile

import arro3.core as arro3
import nanoarrow as na
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import arrow_device as ad

HERE = pathlib.Path(__file__).parent
PACKAGES = ("arrow_device", "pyarrow", "nanoarrow", "arro3")
VALUES = [1, 2, 3]
ARRAYS = {
    "arrow_device": ad.array(VALUES),
    "pyarrow": pa.array(VALUES),
    "nanoarrow": na.Array(VALUES, na.int64()),
    "arro3": arro3.Array(VALUES, arro3.DataType.int64()),
}
#: What makes an array where no type is said.
MAKERS = {
    "arrow_device": ad.array, "pyarrow": pa.array, "nanoarrow": na.Array, "arro3": arro3.Array,
}
BATCHES = {
    "arrow_device": ad.record_batch({"x": VALUES}),
    "pyarrow": pa.record_batch({"x": VALUES}),
    "arro3": arro3.RecordBatch.from_arrow(pa.record_batch({"x": VALUES})),
}
CONCAT = {"arrow_device": ad.concat, "pyarrow": pa.concat_arrays}


def has(*names):
    return lambda package: all(hasattr(ARRAYS[package], name) for name in names)


def beside(package):
    """How many buffers a pickle leaves beside it."""
    buffers = []
    pickle.loads(pickle.dumps(ARRAYS[package], 5, buffer_callback=buffers.append), buffers=buffers)
    return len(buffers) > 0


def validates(package):
    """Whether an offset that leads outside is found when a pickle is read."""
    text = {"arrow_device": lambda: ad.array(["a", "b"]), "pyarrow": lambda: pa.array(["a", "b"])}[package]()
    data = pickle.dumps(text, 5)
    offsets = np.array([0, 1, 2], "int32").tobytes()
    assert data.count(offsets) == 1
    try:
        pickle.loads(data.replace(offsets, np.array([0, 1, 1 << 20], "int32").tobytes()))
    except ValueError:
        return True
    return False


def composes(package):
    batch = BATCHES[package].select(["x"])
    renames = any(hasattr(batch, name) for name in ("rename", "rename_columns"))
    return renames and len(CONCAT[package]([ARRAYS[package]] * 2)) == 6


def with_nulls(package):
    tensor = {"arrow_device": lambda: ad.array([1.0, None]).to_tensor(nulls="nan")}[package]()
    return np.isnan(np.from_dlpack(tensor)).tolist() == [False, True]


def moves(package):
    """Whether an array has a copy of itself elsewhere, and what is there comes back."""
    if package == "arrow_device":
        return ad.array(VALUES).to("ext_dev:0").to_host().to_pylist() == VALUES
    # pyarrow's packages are built without CUDA: to the host is as far as the method goes here.
    return ARRAYS[package].copy_to(pa.default_cpu_memory_manager()).to_pylist() == VALUES


#: How each package reads a file of Arrow IPC, where it does.
READERS = {
    "pyarrow": lambda path: pa.ipc.open_stream(path).read_all().num_rows,
    "nanoarrow": lambda path: len(na.ArrayStream.from_path(path).read_all()),
}


def reads(package):
    with tempfile.NamedTemporaryFile(suffix=".arrows") as file:
        with pa.ipc.new_stream(file.name, BATCHES["pyarrow"].schema) as writer:
            writer.write_batch(BATCHES["pyarrow"])
        return READERS[package](file.name) == len(VALUES)


def computes(package):
    add = {"pyarrow": lambda: pc.sum(ARRAYS["pyarrow"]).as_py()}
    return add.get(package, lambda: ARRAYS[package].sum())() == sum(VALUES)


PROBES = {
    "Arrow PyCapsule protocol, host": has("__arrow_c_array__"),
    "the same for devices": has("__arrow_c_device_array__"),
    "copies to devices, and back": moves,
    "asynchronous streams": lambda package: hasattr({"arrow_device": ad.Stream, "pyarrow": pa.RecordBatchReader}[package], "to_async"),
    "DLPack, with nulls refused or replaced": with_nulls,
    "DLPack": lambda package: np.from_dlpack(ARRAYS[package]).tolist() == VALUES,
    "CUDA array interface": lambda package: hasattr(type(ARRAYS[package]), "__cuda_array_interface__"),
    "SYCL USM array interface": lambda package: hasattr(type(ARRAYS[package]), "__sycl_usm_array_interface__"),
    "`numpy.asarray`": lambda package: np.asarray(ARRAYS[package].__array__()).tolist() == VALUES,
    "buffer protocol": lambda package: memoryview(ARRAYS[package]).tolist() == VALUES,
    "Python values, both ways": lambda package: ARRAYS[package].to_pylist() == VALUES,
    "`a[0]` is a Python value": lambda package: type(ARRAYS[package][0]) is int,
    "types found out from Python values": lambda package: len(MAKERS[package](VALUES)) == 3,
    "columns selected, renamed, arrays concatenated": composes,
    "pickle": lambda package: pickle.loads(pickle.dumps(ARRAYS[package])) is not None,
    "pickle without a copy of host memory": beside,
    "unpickled data is validated in full": validates,
    "files of Arrow IPC": reads,
    "computation": computes,
}


def rows():
    text = (HERE.parent / "README.md").read_text()
    table = text.split("## What there is beside others")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    assert cells[0][1:5] == list(PACKAGES)
    return cells[2:]


def found(probe, package):
    try:
        return "yes" if probe(package) else "no"
    except (AttributeError, BufferError, KeyError, TypeError, ValueError, RuntimeError):
        return "no"


def test_all_rows_are_tried():
    assert {row[0] for row in rows()} == set(PROBES)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_table_says_what_is_found(row):
    said = {package: "no" if cell == "no" else "yes" for package, cell in zip(PACKAGES, row[1:5])}
    assert said == {package: found(PROBES[row[0]], package) for package in PACKAGES}


def test_the_devices_that_the_table_names_are_those_that_are_looked_for():
    [row] = [row for row in rows() if row[0] == "copies to devices, and back"]
    named = {name.strip().lower() for name in row[1].split(",")}
    devices = ad.devices()
    # A simulator is started on request, and not listed before.
    looked_for = {device.type for device in devices} | set(devices.missing) | {"vpi"}
    assert named == looked_for - {"cpu", "ext_dev"}


def test_each_yes_of_ours_names_a_test():
    for row in rows():
        if row[1] != "no" or row[6]:
            assert (HERE / row[6].strip("`")).is_file(), row
