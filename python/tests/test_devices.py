"""Devices and queues: names, copies there and back, waiting, and what is said of those that are missing."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
import arrow_device.testing
from support import ArrowDeviceArray, BlockedEvent, OnDevice, skip, struct_of, until

TYPES = [
    pa.array([1, None, 3], pa.int8()),
    pa.array([True, None, False]),
    pa.array(["a", None, "ccc"]),
    pa.array(["a", None, "a longer text than twelve"], pa.string_view()),
    pa.array([b"x", b""], pa.large_binary()),
    pa.array([[1, 2], None, []]),
    pa.array([{"x": 1, "y": "a"}, None]),
    pa.array(["a", "b", "a"]).dictionary_encode(),
    pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
    pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
    pa.array([1, 2], pa.timestamp("us", "UTC")),
    pa.nulls(3),
    pa.array([None, 1.5], pa.float64()).slice(1),
]


@pytest.mark.parametrize("array", TYPES, ids=lambda array: str(array.type))
def test_every_type_goes_to_a_device_and_back(device, array):
    there = ad.array(array, device=device)
    assert there.device == device and there.type == ad.array(array).type
    again = ad.array(OnDevice(there))
    back = again.to_host()
    back.validate(full=True)
    assert back.ready and pa.array(back).equals(array)
    assert there == ad.array(array)


def test_simulated_hardware_is_reached_with_what_the_package_brings():
    if shutil.which("vvp") is None:
        skip("vpi", "Icarus Verilog is not there (Debian: iverilog)")
    code = """
import arrow_device as ad, pyarrow as pa
batch = pa.record_batch({"x": pa.array([1, None, 3]), "s": pa.array(["a", None, "ccc"])})
there = ad.record_batch(batch).to("vpi:0")
assert str(there.device) == "vpi:0" and pa.record_batch(there.to_host()) == batch
"""
    # The module for the simulator is the one of the installed package.
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEVICE_VPI_MODULE"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=environment)


def test_what_is_there_already_is_shared(device):
    there = ad.array(pa.array([1, 2]), device=device)
    allocated = device.held["allocated"]
    assert there.to(device).device == device
    assert device.held["allocated"] == allocated


def test_devices_are_named_in_several_ways():
    assert ad.device("cuda:1") == ad.device(("cuda", 1)) == ad.device((2, 1)) == ad.device(ad.device("cuda:1"))
    assert str(ad.device("cuda")) == "cuda:0" and repr(ad.device("cpu")) == "Device('cpu', -1)"
    assert ad.device(("cpu", 3)) == ad.device("cpu") and ad.device("cuda") != "cuda:0"
    assert (ad.device("cuda").type, ad.device("cuda").type_id, ad.device("cuda").id) == ("cuda", 2, 0)
    assert {ad.device("cpu"): 1}[ad.device("cpu")] == 1
    assert pickle.loads(pickle.dumps(ad.device("opencl:3"))) == ad.device("opencl:3")
    for wrong in ("warp", "cuda:x", ("cuda",), ("warp", 0)):
        with pytest.raises(ad.DataError):
            ad.device(wrong)
    with pytest.raises(TypeError, match="expected a device such as 'cuda:0'"):
        ad.device(1.5)


@pytest.mark.parametrize("name", ["ext_dev:0", "ext_dev:1", "vulkan:0", "webgpu:0"])
def test_a_device_is_shown_as_it_is_typed(name, request):
    if name.startswith(("vulkan", "webgpu")):
        request.getfixturevalue(name.split(":")[0])
    device, (kind, number) = ad.device(name), name.split(":")
    there = ad.array(pa.array([1, 2])).to(name)
    assert (str(device), repr(device), device.id) == (name, f"Device('{kind}', {number})", int(number))
    assert there.device == device and there.device.name == device.name and device.name
    for shown in (repr(there), there.describe(), there._repr_html_(), repr(device.queue()), repr(there.to_tensor()), repr(ad.record_batch({"x": there}))):
        assert name in shown and not any(word.isdigit() and len(word) > 8 for word in shown.replace(":", " ").replace(",", " ").split())
    with pytest.raises(ad.ArrowDeviceError) as raised:
        there.__arrow_c_array__()
    assert name in str(raised.value)
    assert pickle.loads(pickle.dumps(there.device)) == device


@pytest.mark.parametrize("name", ["cuda:0", "cuda:1", "rocm:0"])
def test_an_error_of_a_missing_driver_names_the_device(name):
    if name.split(":")[0] in {device.type for device in ad.devices()}:
        pytest.skip(f"skipped: there is a device {name}")
    for use in (lambda: ad.array(pa.array([1])).to(name), lambda: ad.device(name).queue()):
        with pytest.raises(ad.DeviceError, match=name) as raised:
            use()
        assert raised.value.device == name


def test_a_queue_is_taken_where_a_device_is(device):
    queue, values = device.queue(), np.arange(3)
    assert ad.device(queue) == device
    assert ad.array(values, device=queue).device == device
    assert ad.record_batch({"x": values}, device=queue).device == device
    assert ad.from_dlpack(values, device=queue).device == device
    assert ad.from_dlpack(values).to(queue).to_host().to_array() == ad.array(values)
    assert [each.device for each in ad.stream([values, values]).to(queue)] == [device] * 2


def test_the_list_of_devices_says_why_others_are_missing():
    found = ad.devices()
    assert found[0] == ad.device("cpu")
    types = {device.type for device in found}
    for name, why in found.missing.items():
        assert name not in types and why
        assert f"# no {name}: {why}" in repr(found)
    assert "Device('cpu', -1),  # host memory" in repr(found)


def test_a_device_that_is_not_there_is_a_device_error():
    with pytest.raises(ad.DeviceError, match="this build has no backend for it") as caught:
        ad.array(pa.array([1])).to("maia:0")
    error = caught.value
    assert (error.kind, error.device) == ("no such device", "maia:0") and isinstance(error, RuntimeError)
    with pytest.raises(ad.DeviceError, match="the software device has the numbers 0 to 1"):
        ad.device("ext_dev:7")


def test_waiting_is_said_and_done(software):
    there = ad.array(pa.array(range(1000))).to(software)
    assert not there.ready and "not waited for" in repr(there)
    there.wait()
    assert there.ready
    there.wait()


def test_the_event_travels_and_nobody_waits_for_it_on_the_way(software):
    there = ad.array(pa.array(range(1000))).to(software)
    parts = there.__arrow_c_device_array__()
    assert struct_of(parts[1], ArrowDeviceArray).sync_event
    again = ad.array(OnDevice(there))
    assert not there.ready and not again.ready
    again.wait()
    assert there.ready
    [chunk] = ad.stream(OnDevice(there))
    assert chunk == there


def test_columns_with_different_events_go_out_with_one(software):
    columns = {name: ad.array(pa.array([1, 2])).to(software.queue()) for name in "xy"}
    batch = ad.record_batch(columns)
    again = ad.record_batch(OnDevice(batch))
    assert pa.record_batch(again.to_host()).to_pydict() == {"x": [1, 2], "y": [1, 2]}


def test_a_queue_waits_instead_of_the_host(software):
    there = ad.array(pa.array(range(1000))).to(software)
    queue = software.queue()
    there.wait(queue)
    assert not there.ready and not queue.idle
    queue.synchronize()
    assert there.ready and queue.idle
    assert (queue.device, repr(queue)) == (software, f"<arrow_device.Queue on {software}>")


def test_an_adopted_queue_is_the_same_queue(device):
    queue = device.queue()
    again = ad.Queue.from_handle(device, queue.handle)
    there = ad.array(pa.array([1, 2, 3])).to(again)
    again.synchronize()
    assert (again.handle, again.device, there.ready) == (queue.handle, device, True)
    # A queue that was adopted stays open until nothing that was used on it is left.
    del there, again
    ad.wait_until_released()
    queue.synchronize()


def test_what_a_queue_still_uses_is_held_back_and_told():
    ad.wait_until_released()
    assert ad.held_back() == 0
    ad.set_allocation_timeout(0.5)
    ad.set_allocation_timeout(10)
    for wrong in (-1, float("nan"), 1e300):
        for use in (ad.set_allocation_timeout, ad.wait_until_released):
            with pytest.raises(ad.DataError, match="a timeout is a number of seconds from 0 to"):
                use(wrong)


def test_two_devices_that_cannot_reach_each_other_exchange_by_the_host(software):
    other = ad.device("ext_dev:1")
    there = ad.array(pa.array(["a", None])).to(software)
    assert there.to(other).device == other
    assert pa.array(there.to(other).to_host()).to_pylist() == ["a", None]


def test_bytes_on_a_device_are_those_that_are_known(software):
    assert ad.array(pa.array([1, 2, 3], pa.int32())).to(software).nbytes == 12
    held = software.held
    assert set(held) == {"allocated", "staging", "imported", "exported"}
    assert held["allocated"] > 0


def test_memory_is_given_back(device):
    before = device.held["allocated"]
    for _ in range(10):
        there = ad.array(pa.array(range(1000))).to(device)
        there.wait()
    del there
    ad.testing.run_until_idle()
    ad.wait_until_released()
    until(lambda: device.held["allocated"] <= before)


def test_the_software_device_finds_a_missing_wait(software):
    there = ad.array(pa.array(range(1000))).to(software)
    # A consumer that takes the data without a wait, and reads it in an order of its own.
    tensor = ad.from_dlpack(there.__dlpack__(stream=-1, max_version=(1, 0)))
    ad.array(tensor).to("ext_dev:1")
    reports = ad.testing.take_reports()
    assert any("read without order" in report for report in reports), reports


def interrupted(script, after=0):
    """What a program of Python prints that gets Ctrl-C so many seconds after it said that it is waiting."""
    paths = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert process.stdout.readline() == "waiting\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    finally:
        process.kill()
    assert process.returncode == 0
    return process.stdout.read()


WAITS = [
    "a.wait()",
    "a.to_host()",
    "a.to('cpu')",
    "a.validate(full=True)",
    "a == ad.array([1])",
    "a.with_host_copies().to_pylist()",
    "a.with_host_copies()[0]",
    "a.with_host_copies().to_numpy()",
    "a.with_host_copies().__arrow_c_array__()",
    "a.__dlpack__(max_version=(1, 0), dl_device=(1, 0))",
    "a.to_tensor().to_host()",
    "a.to_tensor().wait()",
    "a.wait(ad.device('ext_dev:0').queue())",
    "pickle.dumps(a)",
    "ad.concat([a, a], device='cpu')",
    "next(ad.stream([a]).to('cpu'))",
    "ad.stream([a]).to('cpu').read_all()",
]


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(tmp_path, wait):
    """In a process of its own, which gets a real signal."""
    script = tmp_path / "wait.py"
    script.write_text(
        "import pickle, threading, arrow_device as ad\n"
        "go = threading.Event()\n"
        "from support import BlockedEvent\n"
        "a = ad.array(BlockedEvent(go, lambda: print('waiting', flush=True)))\n"
        "try:\n"
        f"    {wait}\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        # The thread that waits is in a callback of Python's, which real drivers do not have: such a
        # thread must not be met by the end of the interpreter.
        "import os; os._exit(0)\n"
    )
    assert interrupted(script) == "interrupted\n"


def test_ctrl_c_ends_the_wait_for_releases(tmp_path):
    script = tmp_path / "wait.py"
    script.write_text(
        "import threading, time, arrow_device as ad, arrow_device.testing\n"
        "from support import HostNumbers\n"
        "begun = threading.Event()\n"
        "class Slow(HostNumbers):\n"
        "    def _release_array(self, array):\n"
        "        begun.set()\n"
        "        threading.Event().wait()\n"
        "there = ad.array(Slow()).to('ext_dev:0')\n"
        "def release():\n"
        "    ad.testing.run_until_idle()\n"
        "    ad.release_finished()\n"
        "threading.Thread(target=release, daemon=True).start()\n"
        "assert begun.wait(60) and ad.held_back() == 1\n"
        "try: ad.wait_until_released(0.1)\n"
        "except ad.DeviceError as error: assert 'after 100ms' in str(error), error\n"
        "print('waiting', flush=True)\n"
        "start = time.monotonic()\n"
        "try: ad.wait_until_released(1000)\n"
        "except KeyboardInterrupt: print('interrupted', time.monotonic() - start < 60, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    # What the program prints comes before its wait.
    assert interrupted(script, after=0.3) == "interrupted True\n"


def test_a_stream_of_which_an_array_was_lost_in_a_copy_is_closed():
    go = threading.Event()

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    stream = ad.stream([ad.array(BlockedEvent(go)), ad.array(BlockedEvent(go))]).to("cpu")
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stop):
            next(stream)
    finally:
        signal.signal(signal.SIGALRM, before)
        go.set()
    with pytest.raises(ValueError, match="closed"):
        next(stream)


def test_other_threads_run_while_one_waits():
    go = threading.Event()
    a = ad.array(BlockedEvent(go))
    done = []

    def wait():
        a.wait()
        done.append(a.ready)

    thread = threading.Thread(target=wait)
    thread.start()
    assert not done and not a.ready
    go.set()
    thread.join(60)
    assert done == [True]


# Requirement: SAF-27
@pytest.mark.parametrize("kind", ["software", "opencl", "vulkan"])
def test_a_child_of_fork_is_told_what_to_do_instead(tmp_path, kind, request):
    device = request.getfixturevalue(kind)
    script = tmp_path / "fork.py"
    script.write_text(
        "import os, re, sys, arrow_device as ad\n"
        "device = sys.argv[1]\n"
        "there = ad.array([1, 2, 3]).to(device)\n"
        "host = ad.array([4])\n"
        "there.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (there.to_host, lambda: there.with_host_copies().to_pylist(), lambda: ad.concat([there], device='cpu')):\n"
        "        try: print(use())\n"
        "        except ad.ArrowDeviceError as error:\n"
        "            is_told = 'fork' in str(error) and 'copy data to the host before' in str(error)\n"
        "            is_named = error.device == device and re.search(r':\\d{3}', str(error)) is None\n"
        "            print(is_told and is_named or str(error), flush=True)\n"
        "    print(host.to_pylist(), len(there), device in repr(there), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(there.to_host().to_pylist())\n"
    )
    outcome = subprocess.run([sys.executable, script, str(device)], capture_output=True, text=True, timeout=60)
    assert outcome.stdout == "True\n" * 3 + "[4] 3 True\n[1, 2, 3]\n", outcome
