"""Arrays as plain objects through Dask and Ray. These packages are installed by `cargo xtask test --setup --everything`."""

import tempfile

import pytest

import arrow_device as ad
from support import skip

BATCH = [{"x": 1, "y": "a"}, {"x": 2, "y": None}]


def work():
    """What runs in another process, which does not have this file."""

    def twice(batch):
        import arrow_device

        return arrow_device.concat([batch, batch])

    return twice


def test_batches_go_through_dask():
    try:
        import distributed
    except ImportError as error:
        skip("dask", error)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            [there] = client.scatter([ad.record_batch(BATCH)])
            answer = client.submit(work(), there).result(timeout=60)
            assert type(answer) is ad.RecordBatch and answer.to_pylist() == BATCH * 2
            schema = client.submit(lambda batch: batch.schema, there).result(timeout=60)
            assert schema == answer.schema


def test_batches_go_through_ray(monkeypatch):
    try:
        import ray
    except ImportError as error:
        skip("ray", error)
    # No file in the home of whoever runs this.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    # Ray writes there, and a socket of Ray needs a short path.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        try:
            there = ray.put(ad.record_batch(BATCH))
            answer = ray.get(ray.remote(work()).remote(there), timeout=120)
            assert type(answer) is ad.RecordBatch and answer.to_pylist() == BATCH * 2
            # Memory of the object store is shared, and read-only.
            numbers = ray.get(ray.put(ad.array(list(range(100_000)))))
            assert numbers[-1] == 99_999 and memoryview(numbers).readonly
        finally:
            ray.shutdown()
