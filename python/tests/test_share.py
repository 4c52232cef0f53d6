"""Arrays of one process in another one: by multiprocessing, by tickets, by senders and receivers."""

import errno
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pyarrow as pa
import pytest

import arrow_device as ad
from arrow_device import share
from support import is_no_more_than, until, until_no_more_than
from test_values import CASES, IDS

#: The start methods in which the other process begins anew.
METHODS = ["spawn", "forkserver"]


@pytest.fixture(autouse=True)
def no_test_hangs():
    signal.alarm(120)
    yield
    signal.alarm(0)


def batch(rows=1000):
    return share.to_shareable(ad.record_batch({"x": np.arange(rows), "y": pa.array(["a", None] * (rows // 2))}))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def allocated():
    return ad.device("cpu").held["allocated"]


def shared():
    """What is alive of all that was shared."""
    servers = sum(thread.name == "arrow-device-server" for thread in threading.enumerate())
    return {"descriptors": descriptors(), "bytes": allocated(), "threads of servers": servers}


def nothing_shared():
    """The counts of `shared`, once threads of the library have let go of what earlier tests shared."""
    until(lambda: shared() | {"descriptors": 0} == {"descriptors": 0, "bytes": 0, "threads of servers": 0})
    return shared()


def is_shared(data):
    """Whether the first buffer lies in memory that is shared with other processes."""
    address = pa.array(data.to_host()).buffers()[-1].address
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            if start <= address < end:
                return "memfd:arrow-device" in line
    return False


# ---- what can be shared


@pytest.mark.parametrize("kind, values", CASES, ids=IDS)
def test_arrays_of_every_type_are_opened_as_they_were(kind, values):
    a = ad.array(values, type=kind)
    for whole in (a, a[1:], a[:0], ad.record_batch({"x": a, "y": a})[1:]):
        there = share.open(share.Ticket(share.to_shareable(whole)))
        assert there.schema == whole.schema and (type(there) is type(whole) or pa.types.is_struct(kind))
        assert there.to_pylist() == whole.to_pylist()
        there.validate(full=True)
        # Libraries refuse a null pointer for a buffer that has bytes: offsets do without elements.
        (pa.record_batch if isinstance(there, ad.RecordBatch) else pa.array)(there).validate(full=True)


def test_what_no_process_can_open_is_refused_with_what_to_do():
    with pytest.raises(ad.NotSupportedError, match="shareable"):
        share.Ticket(ad.array([1, 2]))
    here, there = socket.socketpair()
    with share.Sender(here) as sender, pytest.raises(ad.NotSupportedError, match="`x`.*shareable"):
        sender.send(ad.record_batch({"x": [1, 2]}))
    there.close()


@pytest.mark.parametrize("make", [
    lambda kind: pa.array([], pa.list_(kind)),
    lambda kind: pa.array([[]], pa.list_(kind)),
    lambda kind: pa.array([None], pa.list_(pa.list_(kind))),
    lambda kind: pa.StructArray.from_arrays([pa.array([], kind)], ["x"]),
    lambda kind: pa.array([], pa.large_list(pa.struct([("x", pa.int32()), ("y", kind)]))),
])
@pytest.mark.parametrize("kind", list(dict.fromkeys(kind for kind, _ in CASES)), ids=str)
def test_what_has_no_elements_comes_as_other_libraries_take_it(kind, make):
    try:
        theirs = make(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        pytest.skip(f"pyarrow makes no such array: {error}")
    made = share.to_shareable(ad.array(theirs))
    for array in (made, made[:0], made[1:]):
        there = pa.array(share.open(share.Ticket(array)))
        there.validate(full=True)
        assert there.to_pylist() == array.to_pylist()


def test_wrong_offsets_that_came_lead_nowhere_after_a_way_through_c_structs():
    class Passed:
        def __init__(self, it):
            self.it = it

        def __arrow_c_device_array__(self, *args, **kwargs):
            return self.it.__arrow_c_device_array__(*args, **kwargs)

    offsets = pa.py_buffer(np.array([0, 1, 4000, 2], np.int32))
    wrong = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"ab")])
    came = share.open(share.Ticket(share.to_shareable(ad.array(wrong))))
    batch = ad.record_batch({"x": came, "n": [1, 2, 3]})
    backs = [came, ad.array(Passed(came)), ad.array(Passed(ad.array(Passed(came)))), ad.record_batch(Passed(batch))["x"]]
    for back in backs:
        assert back[:1].to_pylist() == [b"a"]
        for read in (lambda it: it.to_pylist(), share.to_shareable, ad.concat):
            with pytest.raises(ad.DataError, match="the last offset is 4000, and buffer 2 has 2 bytes"):
                read([back[:2]] if read is ad.concat else back[:2])


def test_what_is_of_another_library_is_refused_with_what_to_do():
    for thing in (pa.array([1]), pa.table({"x": [1]}), np.arange(3), [1]):
        with pytest.raises(TypeError, match="arrow_device is wanted, and not .*; make one of it first, by .*record_batch"):
            share.to_shareable(thing)
    for take in (share.open, share.Sender, share.Receiver):
        with pytest.raises(TypeError, match="a socket or a descriptor is wanted"):
            take("x")


def test_errors_name_nothing_of_rust(vulkan):
    here, there = socket.socketpair()
    a = share.to_shareable(ad.array([1, 2]), vulkan)
    with share.Sender(here) as sender, pytest.raises(ad.NotSupportedError, match="a sender that trusts its receiver") as untrusted:
        sender.send(a)
    here, there = socket.socketpair()
    sender = share.Sender(here, trust_receiver=True)
    sender.send(a)
    with pytest.raises(ad.NotSupportedError, match="a receiver that trusts its sender") as untrusting:
        share.Receiver(there, [vulkan]).receive()
    here, there = socket.socketpair()
    sender = share.Sender(here, fix=False)
    host = ad.concat([ad.array([1, 2])])
    with pytest.raises(ad.NotSupportedError, match="to_shareable") as plain:
        sender.send(host)
    for error in (untrusted, untrusting, plain):
        assert "::" not in str(error.value)


def test_a_wait_that_is_over_is_an_error_of_its_own():
    here, there = socket.socketpair()
    with share.Sender(here), share.Receiver(there) as receiver:
        with pytest.raises(TimeoutError) as error:
            receiver.receive(timeout=0)
    assert type(error.value) is ad.TimedOutError and error.value.kind == "timed out"


def test_plain_pickles_have_the_bytes_and_no_descriptor():
    b = batch()
    assert len(pickle.dumps(b)) > 8000 and pickle.loads(pickle.dumps(b)) == b
    here, there = socket.socketpair()
    for thing in (share.Ticket(b), share.Sender(here), share.Receiver(there)):
        with pytest.raises(ad.ExchangeError, match="multiprocessing.*send_fds"):
            pickle.dumps(thing)


# ---- tickets


def test_a_ticket_is_opened_once_by_a_program_that_inherits_it():
    ticket = share.Ticket(batch())
    assert ticket.sender.held == 1
    program = (
        "import sys; from arrow_device import share\n"
        "b = share.open(int(sys.argv[1])); print(sum(row['x'] for row in b))\n"
    )
    with ticket:
        outcome = subprocess.run(
            [sys.executable, "-c", program, str(ticket.fileno())], pass_fds=[ticket.fileno()], capture_output=True, text=True)
        assert (outcome.stdout, outcome.stderr) == ("499500\n", "")
        ticket.sender.wait()
        with pytest.raises(ValueError, match="opened before"):
            share.open(os.dup(ticket.fileno()))
    with pytest.raises(ValueError, match="closed"):
        ticket.fileno()


def test_a_ticket_that_is_closed_unopened_releases_the_array():
    before = nothing_shared()
    ticket = share.Ticket(batch())
    sender = ticket.sender
    assert sender.held == 1
    with pytest.raises(ad.DeviceError, match="timed out"):
        sender.wait(0.01)
    ticket.close()
    sender.wait()
    assert sender.held == 0
    del ticket, sender
    assert is_no_more_than(before, shared())


def test_descriptors_are_taken_over_whatever_the_outcome():
    before = nothing_shared()
    for _ in range(3):
        with pytest.raises(Exception):
            share.open(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(ValueError):
            share.open(share.Ticket(batch()), ["no device"])
        with pytest.raises(ValueError):
            share.open(-1)
        with pytest.raises(ValueError):
            share.Receiver(socket.socketpair()[0], ["no device"])
    until_no_more_than(before, shared)


@pytest.mark.parametrize("use", [share.Sender, share.Receiver, share.open])
def test_what_is_no_descriptor_is_refused(use):
    class Raises:
        def __index__(self):
            raise KeyboardInterrupt

        def detach(self):
            raise AssertionError

    class Detached:
        def __init__(self, given):
            self.given = given

        def detach(self):
            return self.given

    with pytest.raises(KeyboardInterrupt):
        use(Raises())
    for given in (-1, 1 << 40, -(1 << 40)):
        for wrong in (given, Detached(given)):
            with pytest.raises(ad.DataError, match=f"{given} is no descriptor"):
                use(wrong)
    here, there = os.pipe()
    os.close(here), os.close(there)
    for wrong in (1_000_000, there, Detached(there)):
        with pytest.raises(OSError) as raised:
            use(wrong)
        assert raised.value.errno == errno.EBADF
    for wrong in (None, "a", Detached("a")):
        with pytest.raises(TypeError):
            use(wrong)


# ---- senders and receivers


def test_arrays_are_sent_until_the_sender_is_closed():
    here, there = socket.socketpair()
    sender, receiver = share.Sender(here), share.Receiver(there)
    assert here.fileno() == there.fileno() == -1 and sender.fileno() != receiver.fileno()
    with pytest.raises(ad.DeviceError, match="timed out"):
        receiver.receive(timeout=0)
    for rows in (0, 2, 1000):
        sender.send(batch(rows))
    first = receiver.receive()
    assert isinstance(first, ad.RecordBatch) and len(first) == 0
    sender.close()
    assert [len(b) for b in receiver] == [2, 1000]
    assert receiver.receive() is None
    receiver.close()
    with pytest.raises(ValueError, match="closed"):
        receiver.receive()
    with pytest.raises(ValueError, match="closed"):
        sender.send(batch())


#: Receives a batch and gives it to a third program, by a ticket that the third program inherits.
_SECOND = """
import subprocess, sys
from arrow_device import share
receiver = share.Receiver(int(sys.argv[1]), passing_on=sys.argv[2] == "True")
batch = receiver.receive()
with share.Ticket(batch) as ticket:
    sender, number = ticket.sender, ticket.fileno()
    third = subprocess.Popen([sys.executable, "-c", sys.argv[3], str(number)], pass_fds=[number])
del batch
sender.wait()
sys.exit(third.wait())
"""
_THIRD = "import sys; from arrow_device import share; print(sum(row['x'] for row in share.open(int(sys.argv[1]))))"


@pytest.mark.parametrize("passing_on", [True, False])
def test_a_third_program_opens_what_the_second_one_received_for_that(passing_on):
    before = nothing_shared()
    here, there = socket.socketpair()
    sender = share.Sender(here)
    sender.send(batch())
    with there:
        outcome = subprocess.run(
            [sys.executable, "-c", _SECOND, str(there.fileno()), str(passing_on), _THIRD],
            pass_fds=[there.fileno()], capture_output=True, text=True)
    if passing_on:
        assert (outcome.stdout, outcome.stderr, outcome.returncode) == ("499500\n", "", 0)
    else:
        assert "NotSupportedError" in outcome.stderr and "pass it on" in outcome.stderr
    sender.wait()
    del sender
    assert is_no_more_than(before, shared())


def test_what_was_fetched_for_it_is_offered_on():
    with share.Server() as first, share.Server() as second:
        [b] = share.fetch(first.address, first.offer([batch()]), passing_on=True)
        [again] = share.fetch(second.address, second.offer([b]))
        assert again == b and is_shared(again["x"])
        [kept] = share.fetch(first.address, first.offer([batch()]))
        with pytest.raises(ad.NotSupportedError, match="pass it on"):
            second.offer([kept])


def test_arrays_on_a_device_come_before_their_data(software):
    here, there = socket.socketpair()
    sender = share.Sender(here, early=True)
    receiver = share.Receiver(there, [software], early=60)
    for rows in (0, 2, 1000):
        sender.send(share.to_shareable(ad.record_batch({"x": np.arange(rows)}), software))
        there = receiver.receive()
        assert there["x"].to_host().to_pylist() == list(range(rows))
    del there
    sender.wait()


def test_a_receiver_without_early_refuses_what_comes_before_its_data(software):
    here, there = socket.socketpair()
    sender, receiver = share.Sender(here, early=True), share.Receiver(there, [software])
    array = share.to_shareable(ad.array(range(1000)), software)
    if array.ready:
        pytest.skip("the software device has made the copy already")
    sender.send(array)
    with pytest.raises(ad.NotSupportedError, match="taking_early"):
        receiver.receive()


def test_a_limit_for_early_arrays_is_a_number_of_seconds():
    for wrong in (-1, float("nan")):
        here, there = socket.socketpair()
        with pytest.raises(ad.DataError, match="a timeout is a number of seconds"):
            share.Receiver(there, early=wrong)
        here.close()


def test_a_receiver_that_has_gone_is_told_to_the_sender():
    here, there = socket.socketpair()
    sender = share.Sender(here)
    share.Receiver(there).close()
    with pytest.raises(ad.ProducerError):
        for _ in range(1000):
            sender.send(batch())
    sender.wait()


def test_streams_are_served_with_their_schema_and_their_errors():
    here, there = socket.socketpair()
    raised = []

    def batches():
        yield from (batch(rows) for rows in (2, 4, 6))
        raise KeyError("the well is dry")

    def serve():
        with share.Sender(here) as sender, pytest.raises(KeyError, match="the well is dry") as exception:
            sender.serve(batches())
        raised.append(exception)

    thread = threading.Thread(target=serve)
    thread.start()
    receiver = share.Receiver(there)
    stream = receiver.stream(ahead=2)
    assert stream.schema == batch().schema and stream.device_type == "cpu"
    with pytest.raises(ValueError, match="become a stream"):
        receiver.receive()
    assert [len(next(stream)) for _ in range(3)] == [2, 4, 6]
    with pytest.raises(ad.ProducerError, match="the well is dry"):
        next(stream)
    thread.join()
    assert len(raised) == 1


WAITS = {
    "receive": "share.Receiver(there).receive()",
    "iteration": "list(share.Receiver(there))",
    "wait": "ticket = share.Ticket(a); ticket.sender.wait()",
    "stream": "share.Receiver(there).stream()",
    "serve": "share.Sender(there).serve([a])",
    "send": "s = share.Sender(there)\nwhile True: s.send(a)",
}


def state_of(process):
    """What the main thread of a process does, as proc(5) has it: S sleeps."""
    with open(f"/proc/{process}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait):
    program = (
        "import arrow_device as ad, socket, sys; from arrow_device import share\n"
        "here, there = socket.socketpair(); a = share.to_shareable(ad.array([1, 2]))\n"
        "try:\n    print('begun', flush=True)\n    " + WAITS[wait].replace("\n", "\n    ") + "\nexcept KeyboardInterrupt: print('interrupted', flush=True)\n"
        "import os; os._exit(0)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        # Not before it sleeps.
        until(lambda: state_of(process.pid) == "S")
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"


# ---- multiprocessing


def total(data):
    """Runs in another process."""
    if isinstance(data, ad.Tensor):
        return int(np.from_dlpack(data).sum()), data.shape, is_shared(data.to_array()), data
    return sum(row["x"] for row in data), type(data).__name__, is_shared(data["x"]), data


@pytest.mark.parametrize("method", METHODS)
def test_what_lies_in_shareable_memory_is_passed_without_its_bytes(method):
    context = multiprocessing.get_context(method)
    shared, plain = batch(), ad.record_batch({"x": np.arange(1000)})
    with context.Pool(1) as pool:
        answers = pool.map(total, [shared, plain, shared[10:20]])
        assert [answer[:3] for answer in answers] == [
            (499500, "RecordBatch", True), (499500, "RecordBatch", False), (145, "RecordBatch", True)]
        assert len(answers[0][3]) == 1000 and answers[0][3] == shared
    data = ForkingPickler.dumps(shared)
    assert len(data) < 1000 < 8000 < len(ForkingPickler.dumps(plain))
    # What is never received stays held.
    assert ForkingPickler.loads(data) == shared
    # An array of structs is no batch.
    structs = share.to_shareable(ad.array([{"x": 1}, {"x": 2}]))
    assert type(structs) is ad.Array and type(ForkingPickler.loads(ForkingPickler.dumps(structs))) is ad.Array


@pytest.mark.parametrize("method", METHODS)
def test_tensors_are_passed_without_their_bytes(method):
    context = multiprocessing.get_context(method)
    x = np.arange(3000, dtype="int32").reshape(100, 30)
    shared = share.to_shareable(ad.from_dlpack(x))
    assert shared.shape == (100, 30) and np.array_equal(np.from_dlpack(shared), x)
    with context.Pool(1) as pool:
        numbers, shape, is_there, back = pool.apply(total, [shared])
        assert (numbers, shape, is_there) == (int(x.sum()), (100, 30), True)
        assert np.array_equal(np.from_dlpack(back), x)
        # What no array can be the same memory of goes by its bytes.
        one = ad.from_dlpack(np.from_dlpack(shared)[3, 4, ...])
        for tensor, expected in ((shared.permute([1, 0]), x.T), (one, x[3, 4, ...])):
            numbers, shape, back = pool.apply(total_of_tensor, [tensor])
            assert (numbers, shape) == (int(expected.sum()), expected.shape)
            assert np.array_equal(np.from_dlpack(back), expected)
    with pytest.raises(ad.NotSupportedError, match="give it a dimension"):
        share.to_shareable(one)


def total_of_tensor(tensor):
    """Runs in another process."""
    return int(np.from_dlpack(tensor).sum()), tensor.shape, tensor


def hold(data, connection):
    """Runs in another process, until that is killed."""
    held = [data, connection.recv()]
    connection.send(sum(row["x"] for each in held for row in each))
    connection.recv()


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_that_is_killed_leaves_nothing_behind(method):
    context = multiprocessing.get_context(method)

    def kill_one():
        here, there = context.Pipe()
        process = context.Process(target=hold, args=(batch(), there))
        process.start()
        here.send(batch())
        assert here.recv() == 2 * 499500
        assert allocated() > 0
        process.kill()
        process.join()
        process.close()
        here.close()
        there.close()

    kill_one()
    # What multiprocessing opens once stays open.
    before = nothing_shared()
    for _ in range(5):
        kill_one()
    until_no_more_than(before, shared)


def where(data):
    """Runs in another process."""
    return str(data.device), data.to_host().to_pylist()


def test_memory_of_the_software_device_is_passed_too(software):
    a = share.to_shareable(ad.array([1, None, 3]), software)
    assert a.device == software
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(where, [a]) == ("ext_dev:0", [1, None, 3])


def produced_and_killed(queue):
    """Runs in another process, which ends before anybody receives."""
    queue.put(batch())
    queue.close()
    queue.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("method", ["fork", *METHODS])
def test_what_was_sent_by_a_process_that_has_ended_is_an_error_that_says_so(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=produced_and_killed, args=(queue,))
    process.start()
    process.join()
    with pytest.raises(ad.ProducerError, match="the process that sent the array has ended.*wait_until_received"):
        queue.get(timeout=60)


def test_what_was_received_before_is_an_error_that_says_so(capfd):
    sent = ForkingPickler.dumps(batch())
    assert ForkingPickler.loads(sent) == batch()
    with pytest.raises(ad.ProducerError, match="was received before"):
        ForkingPickler.loads(sent)
    # A thread of multiprocessing prints that it has no such number, and needs an open file.
    printed = []
    until(lambda: printed.append(capfd.readouterr().err) or "KeyError" in "".join(printed))


def test_a_program_of_another_family_is_told_what_to_use(monkeypatch):
    sent = ForkingPickler.dumps(batch())
    monkeypatch.setattr(multiprocessing.process.current_process(), "authkey", b"of another family")
    with pytest.raises(ad.ProducerError, match="another key of multiprocessing.*share.Server"):
        ForkingPickler.loads(sent)
    # What nobody receives is kept, and other tests wait until nothing is.
    monkeypatch.undo()
    assert ForkingPickler.loads(sent) == batch()


def produced(queue, count):
    """Runs in another process, which waits at its end until all was received."""
    for _ in range(count):
        queue.put(batch())


@pytest.mark.parametrize("method", ["fork", *METHODS])
def test_a_process_ends_when_all_was_received_that_it_sent(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=produced, args=(queue, 5))
    process.start()
    # It would have ended by now.
    process.join(1)
    for _ in range(5):
        assert process.is_alive() and queue.get(timeout=60) == batch()
    process.join()
    assert process.exitcode == 0


def test_a_process_whose_arrays_nobody_receives_gives_up(monkeypatch):
    monkeypatch.setattr(share, "_PATIENCE", 0.1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=produced, args=(queue, 5))
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("method", ["fork", *METHODS])
def test_workers_that_end_after_each_task_give_their_results(method):
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as pool:
        results = [pool.apply_async(batch, (rows,)) for rows in range(0, 20, 2)]
        assert [len(result.get(timeout=100)) for result in results] == list(range(0, 20, 2))


def test_a_program_waits_until_what_it_sent_was_received(monkeypatch):
    monkeypatch.setattr(share, "_sent", share._Sent())
    share.wait_until_received()
    sent = ForkingPickler.dumps(batch())
    with pytest.raises(TimeoutError, match="1 arrays that were sent by multiprocessing were not received"):
        share.wait_until_received(timeout=0)
    thread = threading.Timer(0.1, ForkingPickler.loads, [sent])
    thread.start()
    share.wait_until_received(timeout=60)
    thread.join()


def test_memory_that_a_child_of_fork_inherited_is_shared_with_the_child_without_its_bytes():
    context = multiprocessing.get_context("fork")
    before = batch()
    here, there = context.Pipe()
    process = context.Process(target=hold, args=(before, there))
    process.start()
    sent = ForkingPickler.dumps(before)
    assert len(sent) < 1000 and ForkingPickler.loads(sent) == before
    here.send(before)
    assert here.recv() == 2 * 499500
    process.kill()
    process.join()


def test_memory_that_cannot_be_fixed_is_passed_by_its_bytes(monkeypatch):
    def busy(array):
        raise ad.DeviceError("another process can write to it")

    monkeypatch.setattr(share, "Ticket", busy)
    data = ForkingPickler.dumps(batch())
    assert len(data) > 8000 and ForkingPickler.loads(data) == batch()


def test_what_a_child_of_fork_inherited_is_passed_by_its_bytes():
    a = share.to_shareable(ad.array([1, None, 3]))
    here, there = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        there.send(a)
        os._exit(0)
    assert here.recv() == a
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("timeout", [float("nan"), -1.0])
def test_what_is_no_time_is_not_waited_for(timeout):
    with pytest.raises(ad.DataError, match="a timeout is a number of seconds"):
        share.wait_until_received(timeout)
