"""Arrays between actors of Ray by handle. Ray is installed by `cargo xtask test --setup --everything`.

Each actor counts for itself what it holds: memory of a device, descriptors, offers to others, objects of Ray.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

import arrow_device as ad
import arrow_device.testing
from arrow_device import share
from support import skip
from test_share import batch, is_shared
from test_values import CASES, IDS

HERE = os.path.dirname(os.path.abspath(__file__))

#: What Ray reads when it is imported: no file in the home of whoever runs this, nothing told to
#: anybody, and no address but that of the machine to itself. Ray's workers import this file.
os.environ |= {
    "PYTHONPATH": os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")])),
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # An actor waits for so long for what an actor that died would have sent.
    "RAY_rdt_fetch_fail_timeout_milliseconds": "10000",
}

try:
    import ray
except ImportError as error:
    ray = None
    missing = error
else:
    import arrow_device.ray

SMALL = {"num_cpus": 3, "include_dashboard": False, "log_to_driver": False, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def cluster():
    if ray is None:
        skip("ray", missing)
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        ray.init(_temp_dir=folder, **SMALL)
        arrow_device.ray.register_pyarrow()
        try:
            yield ray
        finally:
            ray.shutdown()


@pytest.fixture(autouse=True)
def no_test_hangs(request):
    signal.alarm(180)
    yield
    signal.alarm(0)


class Actor:
    """Makes data, and looks at data."""

    def __init__(self, device="cpu"):
        import arrow_device.ray

        # With this import, an actor that Ray restarts has the transports.
        self.module = arrow_device.ray
        self.device = device
        self.kept = []
        # What is opened once stays open.
        share.to_shareable(ad.array([1]), device).to_host()

    def pid(self):
        return os.getpid()

    def move(self, machine):
        """From now on this actor takes itself to be on another machine."""
        self.module._machine = lambda: machine

    def make(self, rows, shareable=True):
        made = ad.record_batch({"x": np.arange(rows), "y": pa.array(["a", None] * (rows // 2))})
        return share.to_shareable(made, self.device) if shareable else made.to(self.device)

    def make_array(self, number):
        kind, values = CASES[number]
        return [ad.array(values, type=kind), {"of two": ad.array(values, type=kind)[1:]}]

    def make_tensor(self, kind):
        x = np.arange(6, dtype="float32").reshape(2, 3)
        return ad.from_dlpack({"plain": x, "turned": x.T, "step": x[:, ::2], "one": np.array(3.0), "empty": x[:0]}[kind])

    def make_pyarrow(self, rows):
        return pa.record_batch({"x": np.arange(rows)})

    def fail(self):
        raise KeyError("the well is dry")

    def look(self, data):
        """The sum of x, the type, the device, and whether the memory is shared."""
        shared = str(data.device) == "cpu" and is_shared(data["x"])
        return sum(row["x"] for row in data.to_host()), type(data).__name__, str(data.device), shared

    def values(self, data):
        return data[0].to_pylist(), data[1]["of two"].to_pylist()

    def numbers(self, data):
        return np.from_dlpack(data).tolist(), data.shape

    def of_pyarrow(self, data):
        address = data.column("x").buffers()[1].address
        with open("/proc/self/maps") as maps:
            inside = [line for line in maps if int(line.split("-")[0], 16) <= address < int(line.split("-")[1].split()[0], 16)]
        return type(data).__module__, data.num_rows, "memfd:arrow-device" in inside[0]

    def keep(self, data):
        self.kept.append(data)
        return len(self.kept)

    def drop(self):
        self.kept.clear()

    def held(self):
        import gc

        gc.collect()
        # The software device works when it is told to.
        ad.testing.run_until_idle()
        ad.release_finished()
        store = ray._private.worker.global_worker.rdt_manager.rdt_store
        devices = {self.device, "cpu"}
        memory = sum(ad.device(name).held["allocated"] for name in devices)
        links = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:
                pass
        kinds = [link for link in links if "memfd:arrow-device" in link]
        return memory, len(kinds), len(self.module._sources.offered), store.get_num_objects()


#: Nothing is held.
NOTHING = (0, 0, 0, 0)


def actor(device="cpu", **options):
    transports = {
        "make": "arrow_device",
        "make_array": "arrow_device_array",
        "make_tensor": "arrow_device_tensor",
        "make_pyarrow": "arrow_device_pyarrow",
        "fail": "arrow_device",
    }
    methods = {}
    for name, transport in transports.items():
        def method(self, *arguments, _name=name):
            return getattr(Actor, _name)(self, *arguments)

        method.__name__ = name
        methods[name] = ray.method(tensor_transport=transport)(method)
    made = type("Actor", (Actor,), methods)
    return ray.remote(num_cpus=0.1, **options)(made).remote(device)


def get(reference, timeout=60):
    return ray.get(reference, timeout=timeout)


def settles(actors, expected=NOTHING):
    """Waits until all of these actors hold what is expected: Ray tells them in its own time."""
    end = time.monotonic() + 30
    while True:
        held = get([each.held.remote() for each in actors])
        if all(each == expected for each in held):
            return
        assert time.monotonic() < end, held
        time.sleep(0.05)


@pytest.fixture
def two(cluster):
    actors = [actor(), actor()]
    settles(actors)
    yield actors
    for each in actors:
        ray.kill(each)


# ---- what is passed


def test_a_batch_is_opened_by_all_actors_that_get_it(two):
    maker, other = two
    third = actor()
    made = maker.make.remote(1000)
    for each in (other, third, other, maker):
        assert get(each.look.remote(made)) == (499500, "RecordBatch", "cpu", True)
    here = get(made)
    assert here == batch() and is_shared(here["x"])
    del made, here
    settles([maker, other, third])


@pytest.mark.parametrize("number", range(len(CASES)), ids=IDS)
def test_arrays_of_every_type_are_passed(two, number):
    maker, other = two
    values, parts = get(other.values.remote(maker.make_array.remote(number)))
    expected = ad.array(CASES[number][1], type=CASES[number][0])
    assert values == expected.to_pylist() and parts == expected[1:].to_pylist()


@pytest.mark.parametrize("kind, expected", [
    ("plain", [[0, 1, 2], [3, 4, 5]]),
    ("turned", [[0, 3], [1, 4], [2, 5]]),
    ("step", [[0, 2], [3, 5]]),
    ("one", 3.0),
    ("empty", []),
])
def test_tensors_are_passed(two, kind, expected):
    maker, other = two
    assert get(other.numbers.remote(maker.make_tensor.remote(kind)))[0] == expected


def test_batches_of_pyarrow_are_passed_after_one_copy(cluster):
    maker, other = actor(), actor()
    assert get(other.of_pyarrow.remote(maker.make_pyarrow.remote(1000))) == ("pyarrow.lib", 1000, True)
    settles([maker, other])


@pytest.mark.parametrize("shareable", [True, False])
@pytest.mark.parametrize("name", ["cpu", "ext_dev:0", "opencl:0", "vulkan:0"])
def test_data_stays_on_its_device(cluster, name, shareable, request):
    if name.startswith(("opencl", "vulkan")):
        request.getfixturevalue(name.partition(":")[0])
    maker, other = actor(name), actor(name)
    before = get([each.held.remote() for each in (maker, other)])
    made = maker.make.remote(1000, shareable)
    for _ in range(2):
        assert get(other.look.remote(made)) == (499500, "RecordBatch", name, name == "cpu")
    del made
    assert before == [NOTHING, NOTHING]
    settles([maker, other])


class OnVulkan:
    """Makes data in memory of Vulkan, and looks at data."""

    def make(self, kind):
        x = np.arange(1000, dtype="float64").reshape(10, 100)
        made = {"": ad.record_batch({"x": x[0]}), "_array": ad.array(x[0]), "_tensor": ad.from_dlpack(x)}[kind]
        return share.to_shareable(made, "vulkan:0")

    def look(self, data):
        """The type, the device, how many bytes were allocated for a copy there, and the last value."""
        array = data.to_array() if isinstance(data, ad.Tensor) else data
        allocated = ad.device("vulkan:0").held["allocated"]
        return type(data).__name__, str(array.device), allocated, array.to_host().to_pylist()[-1]


@pytest.mark.parametrize("kind, name, last", [
    ("", "RecordBatch", {"x": 99.0}),
    ("_array", "Array", 99.0),
    ("_tensor", "Tensor", list(np.arange(900.0, 1000.0))),
])
@pytest.mark.parametrize("trusting", ["_trusting", ""])
def test_actors_that_trust_each_other_pass_memory_of_vulkan_by_handle(cluster, vulkan, trusting, kind, name, last):
    @ray.method(tensor_transport=f"arrow_device{kind}{trusting}")
    def make(self):
        return OnVulkan.make(self, kind)

    made = type("Maker", (OnVulkan,), {"make": make})
    maker = ray.remote(num_cpus=0.1)(made).remote()
    other = ray.remote(num_cpus=0.1, enable_tensor_transport=True)(OnVulkan).remote()
    got_name, device, allocated, got_last = get(other.look.remote(maker.make.remote()))
    assert (got_name, device, got_last) == (name, "vulkan:0", last)
    assert (allocated == 0) == bool(trusting)
    for each in (maker, other):
        ray.kill(each)


def test_what_a_driver_puts_is_passed(two):
    put = ray.put(batch(), _tensor_transport="arrow_device")
    for each in two:
        assert get(each.look.remote(put)) == (499500, "RecordBatch", "cpu", True)
    assert get(put) == batch()
    del put
    settles(two)


def test_what_fails_is_an_error_of_whoever_asks(two):
    maker, other = two
    with pytest.raises(KeyError, match="the well is dry"):
        get(other.look.remote(maker.fail.remote()))
    assert get(other.look.remote(maker.make.remote(10)))[0] == 45


# ---- another machine


def test_bytes_go_to_another_machine(two):
    maker, other = two
    get(other.move.remote("another"))
    made = maker.make.remote(1000)
    for _ in range(2):
        assert get(other.look.remote(made)) == (499500, "RecordBatch", "cpu", False)
    del made
    settles(two)
    put = ray.put(batch(), _tensor_transport="arrow_device")
    with pytest.raises(Exception, match="what a driver has put"):
        get(other.look.remote(put))


def test_a_driver_gets_bytes_from_another_machine(two, monkeypatch):
    made = two[0].make.remote(1000)
    monkeypatch.setattr(arrow_device.ray, "_machine", lambda: "another")
    assert get(made) == batch()


def test_two_actors_get_bytes_from_each_other_at_once(two):
    for number, each in enumerate(two):
        get(each.move.remote(f"machine {number}"))
    one, other = two
    made = [(one.make.remote(100), other.make.remote(100)) for _ in range(50)]
    ray.wait([each for pair in made for each in pair], num_returns=100, fetch_local=False, timeout=60)
    # Both are there, so that all transfers begin at once.
    answers = [answer for mine, its in made for answer in (other.look.remote(mine), one.look.remote(its))]
    assert {answer[0] for answer in get(answers)} == {4950}
    del made, answers
    settles(two)


# ---- how long it is held


def test_data_is_held_until_ray_and_all_receivers_have_finished(two):
    maker, other = two
    made = maker.make.remote(1000)
    assert get(other.keep.remote(made)) == 1
    size = get(maker.held.remote())[0]
    assert size > 0 and get(maker.held.remote())[2:] == (1, 1)
    del made
    settles([maker], (size, 1, 0, 0))
    get(other.drop.remote())
    settles(two)


def test_a_receiver_that_is_killed_leaves_nothing_behind(two):
    maker, _ = two
    for _ in range(3):
        third = actor()
        made = maker.make.remote(1000)
        assert get(third.keep.remote(made)) == 1
        os.kill(get(third.pid.remote()), signal.SIGKILL)
        assert get(maker.look.remote(made))[0] == 499500
        del made
        settles([maker])


def test_the_end_of_a_sender_is_an_error_for_those_that_come_late(two):
    _, other = two
    third = actor()
    made, late = third.make.remote(1000), third.make.remote(10)
    assert get(other.keep.remote(made)) == 1
    ray.wait([late])
    os.kill(get(third.pid.remote()), signal.SIGKILL)
    with pytest.raises(Exception):
        get(other.look.remote(late))
    # What came before is there, and the receiver lives.
    get(other.drop.remote())
    settles([other])


def test_an_actor_that_ray_restarts_sends_and_receives(two):
    _, other = two
    third = actor(max_restarts=1, max_task_retries=3)
    before = get(third.pid.remote())
    assert get(other.look.remote(third.make.remote(10)))[0] == 45
    os.kill(before, signal.SIGKILL)
    assert get(third.pid.remote()) != before
    assert get(other.look.remote(third.make.remote(10)))[0] == 45
    assert get(third.look.remote(other.make.remote(10)))[0] == 45
    settles([other, third])


def test_many_objects_are_passed_and_released(two):
    maker, other = two
    answers = [other.look.remote(maker.make.remote(10)) for _ in range(300)]
    assert {answer[0] for answer in get(answers)} == {45}
    kept = [maker.make.remote(10) for _ in range(100)]
    assert get([other.keep.remote(each) for each in kept])[-1] == 100
    get(other.drop.remote())
    del answers, kept
    settles(two)


# ---- drivers


SECOND = """
import os, ray, sys
import arrow_device as ad, arrow_device.ray
from arrow_device import share
ray.init(address=sys.argv[1], log_to_driver=False)

@ray.remote(num_cpus=0.1)
class One:
    @ray.method(tensor_transport="arrow_device")
    def make(self): return share.to_shareable(ad.record_batch({"x": range(1000)}))
    def total(self, b): return sum(row["x"] for row in b), os.getpid()

one, other = One.remote(), One.remote()
made = one.make.remote()
put = ray.put(share.to_shareable(ad.record_batch({"x": range(1000)})), _tensor_transport="arrow_device")
(a, first), (b, second), (c, _) = ray.get([other.total.remote(made), one.total.remote(made), other.total.remote(put)])
print(a, b, c, first, second, flush=True)
sys.stdin.readline()
"""


def test_two_drivers_use_one_cluster_and_one_is_killed(two):
    maker, other = two
    made = maker.make.remote(1000)
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", SECOND, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second:
        # Ray writes there, too, what it has to say.
        answer = next(line.split() for line in second.stdout if line[0].isdigit())
        assert answer[:3] == ["499500"] * 3
        second.kill()
    end = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in answer[3:]):
        assert time.monotonic() < end, "its actors live"
        time.sleep(0.1)
    assert get(other.look.remote(made))[0] == 499500
    del made
    settles(two)


# ---- a pipeline


class Scanner:
    def __init__(self, path, device):
        import arrow_device.ray  # noqa: F401

        self.file, self.device = pa.parquet.ParquetFile(path), device

    def groups(self):
        return self.file.num_row_groups

    def scan(self, group):
        [read] = self.file.read_row_group(group).to_batches()
        return share.to_shareable(ad.record_batch(read), self.device)


class Filter:
    def __init__(self, device):
        import arrow_device.ray  # noqa: F401

        self.device = device

    def large(self, scanned, least):
        assert str(scanned.device) == self.device
        host = pa.record_batch(scanned.to_host())
        kept = host.filter(pa.compute.greater_equal(host.column("x"), least))
        return share.to_shareable(ad.record_batch(kept), self.device)


@pytest.mark.parametrize("name", ["ext_dev:0", "opencl:0"])
def test_a_pipeline_goes_on_with_another_filter_where_one_is_killed(cluster, tmp_path, name, request):
    if name == "opencl:0":
        request.getfixturevalue("opencl")
    numbers = np.random.default_rng(7).integers(0, 1000, 20_000)
    path = str(tmp_path / "numbers.parquet")
    pa.parquet.write_table(pa.table({"x": numbers, "row": np.arange(20_000)}), path, row_group_size=1000)

    class Scan(Scanner, Actor):
        def __init__(self, path, device):
            Actor.__init__(self, device)
            Scanner.__init__(self, path, device)

        @ray.method(tensor_transport="arrow_device")
        def scan(self, group):
            return Scanner.scan(self, group)

    class Choose(Filter, Actor):
        def __init__(self, device):
            Actor.__init__(self, device)

        @ray.method(tensor_transport="arrow_device")
        def large(self, scanned, least):
            return Filter.large(self, scanned, least)

    class Collect(Actor):
        def take(self, chosen):
            assert str(chosen.device) == self.device
            host = chosen.to_host()
            return host["x"].to_pylist(), host["row"].to_pylist()

    scan = ray.remote(num_cpus=0.1)(Scan).remote(path, name)
    collect = ray.remote(num_cpus=0.1, enable_tensor_transport=True)(Collect).remote(name)
    filters = [ray.remote(num_cpus=0.1)(Choose).remote(name)]
    rows = {}
    killed = 0
    groups = list(range(get(scan.groups.remote())))
    while groups:
        now, groups = groups[:3], groups[3:]
        scanned = [scan.scan.remote(group) for group in now]
        answers = [collect.take.remote(filters[-1].large.remote(each, 500)) for each in scanned]
        if len(groups) == 11:
            # In the middle, with all of these on their way.
            ray.wait(answers, num_returns=1, timeout=60)
            os.kill(get(filters[-1].pid.remote()), signal.SIGKILL)
        for group, answer in zip(now, answers):
            try:
                values, numbers_of_rows = get(answer)
            except Exception:
                killed += 1
                groups.append(group)
                continue
            rows.update(zip(numbers_of_rows, values))
        del scanned, answers
        if killed and len(filters) == 1:
            filters.append(ray.remote(num_cpus=0.1)(Choose).remote(name))
    expected = {row: value for row, value in enumerate(numbers.tolist()) if value >= 500}
    assert rows == expected and len(filters) <= 2
    settles([scan, collect, filters[-1]])


@pytest.mark.parametrize("name", ["ext_dev:0", "opencl:0"])
def test_the_example_runs(cluster, name, request):
    if name == "opencl:0":
        request.getfixturevalue("opencl")
    file = os.path.join(HERE, "..", "examples", "ray_pipeline.py")
    outcome = subprocess.run(
        [sys.executable, file, name, ray.get_runtime_context().gcs_address], capture_output=True, text=True, timeout=170)
    assert outcome.stdout.splitlines()[-1:] == ["5000 of 10000 rows, as they should be"], outcome.stdout + outcome.stderr
