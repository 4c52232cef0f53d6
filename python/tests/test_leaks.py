"""Nothing is left behind: of many round trips of each kind, and of threads that do everything at once."""

import gc
import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
import arrow_device.testing
from support import DeviceStreamOnly, OnDevice, live, until_no_more_than

ROUND_TRIPS, WARM_UP = 100_000, 10_000

NUMBERS = pa.array([1, 2, 3])
BATCH = pa.record_batch({"x": [1, 2, 3], "y": ["a", None, "c"]})
VALUES = np.arange(3)


def resident() -> int:
    """Bytes of memory that the process has."""
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            if line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say")


TRIPS = {
    "arrays by the device protocol": lambda a: ad.array(OnDevice(a)),
    "arrays by the host protocol": lambda a: pa.array(a),
    "arrays that nobody takes": lambda a: a.__arrow_c_device_array__(),
    "batches": lambda a: ad.record_batch(BATCH).column("y"),
    "schemas": lambda a: a.schema.__arrow_c_schema__(),
    "streams by the device protocol": lambda a: ad.stream(DeviceStreamOnly(ad.stream(a))).read_all(),
    "streams by the host protocol": lambda a: ad.stream(a).__arrow_c_stream__(),
    "streams of iterables": lambda a: next(ad.stream([a, a])),
    "tensors, versioned": lambda a: np.from_dlpack(a),
    "tensors, older form": lambda a: ad.from_dlpack(a.__dlpack__()),
    "tensors that nobody takes": lambda a: a.__dlpack__(max_version=(1, 0)),
    "tensors of numpy": lambda a: ad.from_dlpack(VALUES).to_array(),
    "buffers": lambda a: ad.array(b"abc"),
    "refusals": lambda a: refused(),
}


def refused():
    for call in (lambda: ad.array(object()), lambda: ad.array(["a"]), lambda: ad.device("warp")):
        try:
            call()
        except (TypeError, ValueError):
            pass


@pytest.mark.parametrize("kind", TRIPS)
def test_round_trips_leave_nothing_behind(kind):
    trip, a, before = TRIPS[kind], ad.array(NUMBERS), live()
    for _ in range(WARM_UP):
        trip(a)
    start = resident()
    for _ in range(ROUND_TRIPS - WARM_UP):
        trip(a)
    ad.release_finished()
    grown = resident() - start
    assert grown < 1 << 20, f"{grown} bytes more"
    until_no_more_than(before, live)


def test_threads_import_export_and_drop_in_any_order():
    before, errors = live(), []
    shared = [ad.array(NUMBERS), ad.record_batch(BATCH), ad.from_dlpack(VALUES).to_array()]
    lock = threading.Lock()

    def work(seed):
        choose, mine = random.Random(seed), []
        actions = [
            lambda x: OnDevice(x).__arrow_c_device_array__(),
            lambda x: ad.array(OnDevice(x)),
            lambda x: ad.stream([x, x]).read_all(),
            lambda x: DeviceStreamOnly(ad.stream([x])).__arrow_c_device_stream__(),
            lambda x: pa.array(x),
            lambda x: ad.from_dlpack(VALUES).__dlpack__(max_version=(1, 0)),
            lambda x: ad.from_dlpack(np.arange(5)).to_array(),
            lambda x: x.slice(1, 1),
            lambda x: x.to_host() == x,
            lambda x: x.describe(),
            lambda x: x.to("ext_dev:0").to_host(),
            lambda x: ad.array(bytearray(b"abc")),
        ]
        try:
            for _ in range(400):
                with lock:
                    x = choose.choice(shared)
                mine.append(choose.choice(actions)(x))
                if len(mine) > 10:
                    mine.pop(choose.randrange(len(mine)))
                if isinstance(mine[-1], ad.Array):
                    # What one thread makes, another may drop.
                    with lock:
                        shared[choose.randrange(3)] = ad.array(NUMBERS)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    shared.clear()
    until_no_more_than(before, live)
    assert ad.testing.take_reports() == []


def test_threads_race_for_one_capsule_and_one_gets_it():
    for _ in range(100):
        made = ad.from_dlpack(VALUES).__dlpack__(max_version=(1, 0))
        parts = ad.array(NUMBERS).__arrow_c_device_array__()
        taken, refused = [], []

        class Says:
            def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
                return ad.schema(pa.int64()).__arrow_c_schema__(), parts[1]

        start = threading.Barrier(4)

        def take(what):
            start.wait()
            try:
                taken.append(what())
            except ValueError:
                refused.append(1)

        tensor, array = (lambda: ad.from_dlpack(made)), (lambda: ad.array(Says()))
        threads = [threading.Thread(target=take, args=(what,)) for what in (tensor, array, tensor, array)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(taken), len(refused)) == (2, 2)
