"""A server at which processes fetch arrays, and what senders and receivers are told to trust."""

import gc
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from arrow_device import _server, share
from support import until, until_no_more_than
from test_share import batch, descriptors, is_shared, nothing_shared, shared


@pytest.fixture(autouse=True)
def no_test_hangs():
    signal.alarm(120)
    yield
    signal.alarm(0)


def program(text, *arguments, **options):
    """A program that fetches, whose lines are read as it writes them."""
    start = "import os, sys, arrow_device as ad; from arrow_device import share\n"
    command = [sys.executable, "-c", start + text, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


#: Fetches, tells the sum, and stays until it is told to end.
HOLDER = """
arrays = share.fetch(sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3:] or None)
print(sum(row["x"] for array in arrays for row in array.to_host()), flush=True)
sys.stdin.readline()
print(sum(row["x"] for array in arrays for row in array.to_host()), flush=True)
"""


# ---- servers


def test_one_array_is_offered_as_it_is_and_what_is_none_is_refused():
    with share.Server() as server:
        [array] = share.fetch(server.address, server.offer(batch()))
        assert array == batch()
        for wrong in ([1], [pa.array([1])], pa.record_batch({"x": [1]}), [ad.from_dlpack(np.arange(3))]):
            with pytest.raises(TypeError, match="an array or a record batch of arrow_device is wanted"):
                server.offer(wrong)


def test_arrays_are_fetched_as_often_as_they_are_asked_for():
    structs = share.to_shareable(ad.array([{"x": 1}, {"x": 2}]))
    with share.Server() as server:
        key = server.offer([batch(), structs])
        for _ in range(3):
            first, second = share.fetch(server.address, key)
            assert first == batch() and type(first) is ad.RecordBatch and is_shared(first["x"])
            assert second == structs and type(second) is ad.Array
        holders = [program(HOLDER, server.address, server.offer([batch(), batch()]).hex()) for _ in range(2)]
        for holder in holders:
            assert holder.stdout.readline() == "999000\n"
            assert holder.communicate("end\n", timeout=60)[0] == "999000\n"
    assert share.fetch.__module__ == "arrow_device._server"


def test_an_offer_has_as_many_arrays_as_it_likes_and_none():
    a = share.to_shareable(ad.array(list(range(100))))
    with share.Server() as server:
        many = share.fetch(server.address, server.offer([a[n : n + 1] for n in range(100)] * 20))
        assert [each[0] for each in many] == list(range(100)) * 20
        assert share.fetch(server.address, server.offer([])) == []


def test_what_was_fetched_stays_usable_after_the_offer_and_the_server():
    before = nothing_shared()
    server = share.Server()
    key = server.offer([batch()])
    [first] = share.fetch(server.address, key)
    server.withdraw(key)
    server.withdraw(key)
    with pytest.raises(ad.ProducerError, match="withdrawn"):
        share.fetch(server.address, key)
    [second] = share.fetch(server.address, server.offer([batch()]))
    server.close()
    server.close()
    with pytest.raises(ad.ProducerError, match="has gone"):
        share.fetch(server.address, key)
    with pytest.raises(ValueError, match="closed"):
        server.offer([batch()])
    assert first == second == batch()
    del first, second
    until_no_more_than(before, shared)


def test_a_server_that_nobody_refers_to_is_closed():
    before = nothing_shared()
    server = share.Server()
    server.offer([batch()])
    del server
    gc.collect()
    until_no_more_than(before, shared)


def test_a_close_that_was_interrupted_is_done_by_the_next_one(tmp_path):
    code = _server._State.close.__code__
    lines = sorted({line for _, _, line in code.co_lines() if line and line > code.co_firstlineno})
    interrupted, threads = 0, threading.active_count()
    for at in lines:
        path = str(tmp_path / "socket")
        server = share.Server(path)
        key = server.offer(batch())

        def trace(frame, event, argument):
            nonlocal interrupted
            if frame.f_code is code and event == "line" and frame.f_lineno == at:
                interrupted += 1
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            server.close()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        server.close()
        assert server._state.listening.fileno() == -1 and not os.path.exists(path) and not server._state.offers
        with pytest.raises(ad.DataError, match="closed"):
            server.offer(batch())
        with pytest.raises(ad.ProducerError, match="has gone"):
            share.fetch(path, key)
        until(lambda: threading.active_count() <= threads)
    assert interrupted >= 6


@pytest.mark.parametrize("timeout", [float("nan"), -1.0])
def test_what_is_no_time_is_neither_a_patience_nor_a_limit(timeout):
    with pytest.raises(ad.DataError, match="a timeout is a number of seconds"):
        share.Server(patience=timeout)
    with share.Server() as server, pytest.raises(ad.DataError, match="a timeout is a number of seconds"):
        share.fetch(server.address, server.offer(batch()), timeout=timeout)


def test_a_key_is_not_guessed_from_another_one():
    with share.Server() as server:
        keys = {server.offer([batch(2)]) for _ in range(100)}
        assert len(keys) == 100 and {len(key) for key in keys} == {32}
        with pytest.raises(ad.ProducerError, match="withdrawn"):
            share.fetch(server.address, bytes(32))
        with pytest.raises(ValueError, match="32 bytes"):
            share.fetch(server.address, b"short")
        with pytest.raises(TypeError, match="address.*key"):
            pickle.dumps(server)


def test_a_server_in_a_file_is_of_its_user_alone_and_removed_in_the_end(tmp_path):
    path = str(tmp_path / "server")
    with share.Server(path) as server:
        assert server.address == path and stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert share.fetch(path, server.offer([batch()])) == [batch()]
        with pytest.raises(OSError):
            share.Server(path)
    assert not os.path.exists(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="skipped: only root becomes another user")
def test_another_user_gets_nothing():
    # The first says who serves, before any key is told; the second, with no such care, is not
    # answered.
    told = "os.setuid(65534)\ntry: share.fetch(sys.argv[1], bytes.fromhex(sys.argv[2]))\nexcept ad.ProducerError as e: print(e)"
    untold = (
        "import socket\nos.setuid(65534)\nwith socket.socket(socket.AF_UNIX) as s:\n    s.connect('\\0' + sys.argv[1][1:])\n"
        "    try: s.sendall(bytes.fromhex(sys.argv[2])); print(s.recv(1))\n    except OSError: print(b'')"
    )
    with share.Server() as server:
        key = server.offer([batch()])
        for text, answer in ((told, "the server at this address is of another user\n"), (untold, "b''\n")):
            with program(text, server.address, key.hex()) as process:
                assert process.communicate(timeout=60)[0] == answer
        assert share.fetch(server.address, key) == [batch()]


def test_a_server_that_does_not_answer_is_not_waited_for():
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind("\0arrow-device-silent")
        silent.listen(0)
        others = []
        for _ in range(3):
            with pytest.raises(ad.DeviceError, match="timed out"):
                share.fetch("@arrow-device-silent", bytes(32), timeout=0.05)
            # As many as it lets wait, so that the next does not get as far as that.
            others.append(socket.socket(socket.AF_UNIX))
            others[-1].setblocking(False)
            try:
                others[-1].connect("\0arrow-device-silent")
            except BlockingIOError:
                pass
        for other in others:
            other.close()


def test_a_fetch_that_goes_away_or_never_reads_keeps_nothing():
    before = nothing_shared()
    with share.Server(patience=0.1) as server:
        a = share.to_shareable(ad.array(list(range(5000))))
        key = server.offer([a] * 5000)
        connections = []
        for _ in range(3):
            for sent in (b"", key[:3], key):
                connection = socket.socket(socket.AF_UNIX)
                connection.connect("\0" + server.address[1:])
                connection.sendall(sent)
                connections.append(connection)
        assert len(share.fetch(server.address, key)) == 5000
        server.withdraw(key)
        del a
        for connection in connections:
            connection.close()
    until_no_more_than(before, shared)


@pytest.mark.parametrize("name", ["cpu", "ext_dev:0", "opencl:0"])
def test_a_process_that_is_killed_leaves_nothing_behind(name, request):
    if name == "opencl:0":
        request.getfixturevalue("opencl")
    device = ad.device(name)

    def held():
        return device.held.get("allocated", 0)

    memory = held()
    with share.Server() as server:
        key = server.offer([share.to_shareable(batch(), name)])
        # What is opened once stays open.
        for first in (True, False):
            if not first:
                before = descriptors(), held()
            for _ in range(3):
                with program(HOLDER, server.address, key.hex(), name) as process:
                    assert process.stdout.readline() == "499500\n"
                    process.kill()
            if not first:
                # The threads of the first ones may not have been finished when that was counted.
                until(lambda: descriptors() <= before[0] and held() <= before[1])
    until(lambda: held() == memory)


def test_what_a_killed_server_sent_stays_usable():
    text = (
        "server = share.Server(); key = server.offer([share.to_shareable(ad.record_batch({'x': range(1000)}))])\n"
        "print(server.address, key.hex(), flush=True); sys.stdin.readline()"
    )
    before = nothing_shared()
    with program(text) as process:
        address, key = process.stdout.readline().split()
        [there] = share.fetch(address, bytes.fromhex(key))
        process.kill()
    assert sum(row["x"] for row in there) == 499500
    with pytest.raises(ad.ProducerError, match="has gone"):
        share.fetch(address, bytes.fromhex(key))
    del there
    until_no_more_than(before, shared)


def test_a_child_of_fork_neither_serves_nor_keeps_others_waiting():
    server = share.Server()
    key = server.offer([batch()])
    go, come = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            server.offer([])
        except ValueError as error:
            os.write(come, str(error).encode())
        os._exit(0 if share.fetch(server.address, key, timeout=60) == [batch()] else 1)
    assert b"child of `fork`" in os.read(go, 200)
    assert os.waitpid(child, 0)[1] == 0
    assert share.fetch(server.address, key) == [batch()]
    # A child that lives on does not keep the address.
    wait, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(wait, 1)
        os._exit(0)
    server.close()
    with pytest.raises(ad.ProducerError, match="has gone"):
        share.fetch(server.address, key)
    os.close(end)
    os.waitpid(child, 0)
    for fd in (go, come, wait):
        os.close(fd)


def test_a_child_of_a_server_that_was_killed_does_not_keep_the_address():
    text = (
        "server = share.Server(); key = server.offer([share.to_shareable(ad.array([1]))])\n"
        "if os.fork() == 0: sys.stdin.readline(); os._exit(0)\n"
        "print(server.address, key.hex(), flush=True); os.kill(os.getpid(), 9)"
    )
    with program(text) as process:
        address, key = process.stdout.readline().split()
        process.wait()
        with pytest.raises(ad.ProducerError, match="has gone"):
            share.fetch(address, bytes.fromhex(key), timeout=20)


def test_what_no_process_can_open_is_refused_when_it_is_offered():
    with share.Server() as server:
        with pytest.raises(ad.NotSupportedError, match="shareable"):
            server.offer([batch(), ad.array([1, 2])])


# ---- trust


def pair(devices=None, *, sender=None, receiver=None):
    here, there = socket.socketpair()
    return share.Sender(here, **(sender or {})), share.Receiver(there, devices, **(receiver or {}))


def test_memory_that_is_not_fixed_is_opened_by_those_that_trust_the_sender(opencl):
    for trusts in (False, True):
        # Memory of the host is fixed by `to_shareable`. The device is a processor, whose memory is
        # fixed when it is sent.
        sender, receiver = pair([opencl], sender={"fix": False}, receiver={"trust_sender": trusts})
        sender.send(share.to_shareable(batch(), opencl))
        if trusts:
            assert receiver.receive().to_host() == batch()
        else:
            with pytest.raises(ad.ArrowDeviceError, match="trust"):
                receiver.receive()


def test_an_allocation_that_is_too_large_is_refused():
    a = share.to_shareable(ad.array(np.arange(100_000)))
    for largest in (1 << 20, 1 << 10):
        sender, receiver = pair(receiver={"largest_allocation": largest})
        sender.send(a)
        if largest > 800_000:
            assert receiver.receive() == a
        else:
            with pytest.raises(ad.ArrowDeviceError, match="1024"):
                receiver.receive()
    with share.Server() as server:
        key = server.offer([a])
        assert share.fetch(server.address, key, largest_allocation=1 << 20) == [a]
        with pytest.raises(ad.ArrowDeviceError, match="1024"):
            share.fetch(server.address, key, largest_allocation=1 << 10)


def test_a_sender_waits_no_longer_than_its_patience():
    sender, receiver = pair(sender={"patience": 0.05})
    a = batch()
    with pytest.raises(ad.ArrowDeviceError, match="has not read"):
        for _ in range(100_000):
            sender.send(a)
    receiver.close()
    with pytest.raises(ValueError):
        pair(sender={"patience": -1.0})


def test_trust_is_said_by_name():
    here, there = socket.socketpair()
    with pytest.raises(TypeError):
        share.Sender(here, True)
    with pytest.raises(TypeError):
        share.Receiver(there, None, 5, True)
    here.close()
    there.close()


def test_vulkan_memory_goes_to_another_process_where_both_sides_trust(vulkan):
    name = str(vulkan)
    b = share.to_shareable(ad.record_batch({"x": np.arange(1000), "y": pa.array(["a", None] * 500)}), name)
    with pytest.raises(ad.NotSupportedError, match="can write"):
        share.Ticket(b)
    with share.Server() as server, pytest.raises(ad.NotSupportedError, match="can write"):
        server.offer([b])
    text = (
        "try: [a] = share.fetch(sys.argv[1], bytes.fromhex(sys.argv[2]), [sys.argv[3]], trust_sender=sys.argv[4] == 'True')\n"
        "except ad.ArrowDeviceError as e: print('refused:', e); raise SystemExit\n"
        "print(a.device, sum(row['x'] for row in a.to_host()), flush=True)\n"
        "sys.stdin.readline()"
    )
    before = vulkan.held.get("allocated", 0)
    with share.Server(trust_receivers=True) as server:
        key = server.offer([b])
        for trusts in (True, False):
            with program(text, server.address, key.hex(), name, str(trusts)) as process:
                answer = process.stdout.readline()
                if trusts:
                    assert answer == f"{name} 499500\n"
                    process.kill()
                else:
                    assert answer.startswith("refused:") and "trust" in answer
        del b
    until(lambda: vulkan.held.get("allocated", 0) < before)


def lying(count, sent):
    """The address of a server that says that it has so many arrays, and sends so many bytes of their kinds."""
    listening = socket.socket(socket.AF_UNIX)
    name = f"arrow-device-test-{os.getpid()}-{count}"
    listening.bind("\0" + name)
    listening.listen(1)

    def serve():
        with listening, listening.accept()[0] as connection:
            connection.recv(32)
            try:
                connection.sendall(b"\1" + count.to_bytes(4, "little"))
                connection.sendall(bytes(sent))
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    return "@" + name


def test_a_server_that_says_too_much_is_an_error():
    with pytest.raises(ad.ProducerError, match="says that it has 4294967295 arrays, and an offer has at most 1048576"):
        share.fetch(lying(2**32 - 1, 1 << 20), bytes(32))
    with pytest.raises(ad.ProducerError, match="the server has gone"):
        share.fetch(lying(1 << 20, (1 << 20) - 1), bytes(32))
    with share.Server() as server, pytest.raises(ad.DataError, match="an offer has at most 1048576 arrays, and not 1048577"):
        server.offer([ad.array([1])] * ((1 << 20) + 1))
