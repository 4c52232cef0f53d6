"""Arrays in Dask as frames without copies. Dask is installed by `cargo xtask test --setup --everything`."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from support import skip
from test_values import CASES, IDS


@pytest.fixture(autouse=True)
def dask():
    try:
        import distributed
    except ImportError as error:
        skip("dask", error)
    return distributed


#: Dask's own serializers are registered in a process of their own, and not in that of the other
#: tests.
REGISTERED = """
import arrow_device as ad, arrow_device.dask, numpy as np
from distributed.protocol import deserialize, serialize
batch = ad.record_batch({"x": np.arange(1000), "y": ["a", None] * 500})
for thing in (batch, batch["x"], ad.from_dlpack(np.arange(6.0).reshape(2, 3)), batch.schema, batch["x"].type, batch[10:20], batch[:0]):
    header, frames = serialize(thing, serializers=["dask"], on_error="raise")
    assert header["serializer"] == "dask", header
    again = deserialize(header, [bytes(frame) for frame in frames])
    assert type(again) is type(thing)
    if isinstance(thing, ad.Tensor):
        assert np.array_equal(np.from_dlpack(again), np.from_dlpack(thing))
    else:
        assert again == thing
try:
    deserialize(header | {"sub-header": {"header": b"nonsense"}}, [])
except ValueError:
    print("as it should be")
"""


def test_dasks_own_serializers_take_arrays_after_an_import():
    outcome = subprocess.run([sys.executable, "-c", REGISTERED], capture_output=True, text=True, timeout=120)
    assert (outcome.stdout, outcome.stderr) == ("as it should be\n", "")


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_frames_are_the_memory_of_the_array_and_become_that_of_the_next(kind, values):
    from distributed.protocol import deserialize, serialize

    a = ad.array(values, type=kind)
    header, frames = serialize(a)
    assert header["serializer"] == "pickle" and deserialize(header, frames).to_pylist() == a.to_pylist()


def test_frames_are_not_copied():
    from distributed.protocol import deserialize, serialize

    a = ad.array(np.arange(100_000))
    header, frames = serialize(a)
    address = pa.array(a).buffers()[1].address
    assert address in {np.frombuffer(frame, "uint8").ctypes.data for frame in frames if memoryview(frame).nbytes}
    again = deserialize(header, frames)
    assert pa.array(again).buffers()[1].address == address


def test_dask_knows_how_large_the_data_is():
    from dask.sizeof import sizeof

    a = ad.array(np.arange(100_000))
    for thing in (a, ad.record_batch({"x": a}), ad.from_dlpack(np.arange(100_000))):
        assert 800_000 <= sizeof(thing) < 801_000


def test_a_worker_writes_what_it_has_too_much_of_to_disk(dask, tmp_path):
    options = {"memory_limit": "200MB", "local_directory": str(tmp_path), "dashboard_address": None}
    config = {"distributed.worker.memory.target": 0.1, "distributed.worker.memory.spill": False, "distributed.worker.memory.pause": False}
    from dask import config as settings

    with settings.set(config), dask.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **options) as cluster:
        with dask.Client(cluster) as client:
            made = client.map(lambda n: ad.record_batch({"x": np.full(1_000_000, n)}), range(5))
            client.gather(made[-1:])
            [spilled] = client.run(lambda dask_worker: len(dask_worker.data.slow)).values()
            assert spilled >= 2
            first = client.gather(made[0])
            assert len(first) == 1_000_000 and first["x"][5] == 0
