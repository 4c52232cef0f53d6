"""Times how Python programs pass a batch to another process of the machine. On Linux.

    python benchmarks/python/processes.py [--rounds N] [--turn MILLISECONDS] [--batches COLUMNSxROWS ...] [WORD ...]

It is run with the interpreter of ``target/python/env``, as ``times.py`` is. Words select the ways whose name contains one of
them. Each line of the output is an object of JSON::

    {"workload": "to another process", "shape": "int64 batch of 100 rows", "size": 10, "peer": "IPC over a socket",
     "median_ns": 59458.5, "least_ns": 57706, "turns": 60}

``size`` is the number of columns, and ``turns`` how many times were taken. One turn is the way there and back: this process
passes a batch, the other one has it as an object of its library, looks at the number of rows, lets go of the batch, and says
so. The other process runs this file, too. Connections, schemas and the batch are made before, unless the name says otherwise:

* ``arrow-device, again``: a batch by ``Sender.send``, which was sent before. ``arrow-device, first time`` sends another copy of
  the batch each time. ``arrow-device, copy`` is ``to_shareable`` alone, which copies the batch and fixes the memory of the
  copy.
* ``arrow-device, multiprocessing``: the batch through a pipe of ``multiprocessing``.
* ``pickle, multiprocessing``: the record batch of pyarrow through such a pipe.
* ``IPC in a memfd``: pyarrow writes Arrow IPC to a file of memory, the descriptor goes over a socket, and pyarrow maps the
  file.
* ``IPC over a socket``: pyarrow writes a stream of Arrow IPC, and reads the stream.

Every way is tried once before, and the other process tells the sum of all numbers that came.
"""

import argparse
import json
import multiprocessing.connection
import os
import socket
import statistics
import subprocess
import sys
import time

import arrow_device as ad
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from arrow_device import share

BATCHES = ("10x100", "8x131072", "1000x131072")
#: The bytes of an answer: the sum of all numbers of the first batch, and then that the other
#: process has let go.
ANSWER = 8


def batch_of(columns, rows):
    """The record batch of pyarrow."""
    numbers = np.arange(rows, dtype="int64")
    return pa.record_batch({f"c{index}": numbers + index for index in range(columns)})


def total(batch):
    return sum(pc.sum(column).as_py() for column in pa.record_batch(batch).columns)


class Other:
    """The other process, with a socket for data and one for answers."""

    def __init__(self, way):
        (self.data, data), (self.answers, answers) = socket.socketpair(), socket.socketpair()
        command = [sys.executable, __file__, "--receive", way, str(data.fileno()), str(answers.fileno())]
        with data, answers:
            self.process = subprocess.Popen(command, pass_fds=[data.fileno(), answers.fileno()])

    def answer(self):
        return int.from_bytes(exactly(self.answers, ANSWER), "little", signed=True)

    def close(self):
        self.data.close()
        self.answers.close()
        self.process.wait()


def exactly(connection, count):
    read = b""
    while len(read) < count:
        more = connection.recv(count - len(read))
        if not more:
            raise EOFError
        read += more
    return read


class Way:
    """How a batch goes to the other process. ``send`` is what a turn begins with."""

    name = ""

    def __init__(self, batch):
        self.batch = batch
        self.other = Other(self.name)
        self.begin()

    def begin(self):
        """Once, before all turns."""

    def prepare(self):
        """Before each turn, and not timed."""

    def send(self):
        raise NotImplementedError

    def turn(self):
        """The nanoseconds of a turn, and the answer."""
        self.prepare()
        begin = time.perf_counter_ns()
        self.send()
        answer = self.other.answer()
        return time.perf_counter_ns() - begin, answer

    def close(self):
        self.other.close()

    @staticmethod
    def receive(data):
        """What comes in the other process, from the socket for data."""
        raise NotImplementedError


class Again(Way):
    name = "arrow-device, again"

    def begin(self):
        self.shared = share.to_shareable(ad.record_batch(self.batch))
        self.sender = share.Sender(self.other.data)

    def send(self):
        self.sender.send(self.shared)

    def close(self):
        self.sender.close()
        super().close()

    @staticmethod
    def receive(data):
        return share.Receiver(data)


class FirstTime(Again):
    name = "arrow-device, first time"

    def prepare(self):
        self.shared = share.to_shareable(ad.record_batch(self.batch))

    def turn(self):
        outcome = super().turn()
        # The memory is given back before the next turn, and not while that is timed.
        self.shared = None
        self.sender.wait()
        return outcome


class Copied(Again):
    name = "arrow-device, copy"

    def turn(self):
        if self.shared is not None:
            outcome, self.shared = super().turn(), None
            return outcome
        taken = ad.record_batch(self.batch)
        begin = time.perf_counter_ns()
        copied = share.to_shareable(taken)
        return time.perf_counter_ns() - begin, len(copied) - len(taken)


class Pipe(Way):
    name = "pickle, multiprocessing"

    def begin(self):
        self.pipe = multiprocessing.connection.Connection(self.other.data.detach())

    def send(self):
        self.pipe.send(self.batch)

    def close(self):
        self.pipe.close()
        super().close()

    @staticmethod
    def receive(data):
        pipe = multiprocessing.connection.Connection(data.detach())
        while True:
            try:
                yield pipe.recv()
            except EOFError:
                return


class SharedPipe(Pipe):
    name = "arrow-device, multiprocessing"

    def begin(self):
        super().begin()
        self.batch = share.to_shareable(ad.record_batch(self.batch))
        # What fetches descriptors has this key.
        self.other.answers.sendall(multiprocessing.current_process().authkey)


def mapped(file):
    """The batch in a file, whose descriptor is closed."""
    memory = pa.memory_map(f"/proc/self/fd/{file}")
    os.close(file)
    return pa.ipc.open_stream(memory).read_next_batch()


class Memfd(Way):
    name = "IPC in a memfd"

    def send(self):
        file = os.memfd_create("batch", os.MFD_CLOEXEC)
        with pa.OSFile(f"/proc/self/fd/{file}", "wb") as sink, pa.ipc.new_stream(sink, self.batch.schema) as writer:
            writer.write_batch(self.batch)
        socket.send_fds(self.other.data, [b"f"], [file])
        os.close(file)

    @staticmethod
    def receive(data):
        while True:
            _, files, *_ = socket.recv_fds(data, 1, 1)
            if not files:
                return
            yield mapped(files[0])


class Socket(Way):
    name = "IPC over a socket"

    def begin(self):
        self.file = self.other.data.makefile("wb", buffering=0)
        self.writer = pa.ipc.new_stream(self.file, self.batch.schema)

    def send(self):
        self.writer.write_batch(self.batch)

    def close(self):
        self.writer.close()
        self.file.close()
        super().close()

    @staticmethod
    def receive(data):
        with data.makefile("rb", buffering=1 << 20) as file:
            yield from pa.ipc.open_stream(file)


WAYS = {way.name: way for way in (FirstTime, Again, Copied, SharedPipe, Pipe, Memfd, Socket)}


def receive(way, data, answers):
    """What the other process does."""
    answers = socket.socket(fileno=answers)
    if way == SharedPipe.name:
        multiprocessing.current_process().authkey = exactly(answers, len(multiprocessing.current_process().authkey))
    sum_of = total
    for batch in WAYS[way].receive(socket.socket(fileno=data)):
        assert batch.num_rows > 0
        answer = sum_of(batch)
        sum_of, batch = (lambda _: 0), None
        answers.sendall(answer.to_bytes(ANSWER, "little", signed=True))


def times_of(ways, rounds, wanted):
    """Nanoseconds of turns by each way. The ways take turns."""
    turns = {}
    for way in ways:
        least = min(way.turn()[0] for _ in range(3))
        turns[way.name] = max(1, min(1000, round(wanted / max(least, 1))))
    took = {way.name: [] for way in ways}
    for number in range(rounds):
        for position in range(len(ways)):
            way = ways[(position + number) % len(ways)]
            way.turn()
            took[way.name].extend(way.turn()[0] for _ in range(turns[way.name]))
    return took


def compare(columns, rows, chosen):
    """Prints a line for each way."""
    batch = batch_of(columns, rows)
    expected = total(batch)
    names = [name for name in WAYS if not chosen.words or any(word in name for word in chosen.words)]
    ways = [WAYS[name](batch) for name in names]
    for way in ways:
        _, answer = way.turn()
        assert answer == expected, f"{way.name}: {answer} came, and {expected} were sent"
    shape = f"int64 batch of {rows} rows"
    for name, times in times_of(ways, chosen.rounds, chosen.turn * 1e6).items():
        line = {"workload": "to another process", "shape": shape, "size": columns, "peer": name}
        spread = {"median_ns": round(statistics.median(times), 1), "least_ns": round(min(times), 1), "turns": len(times)}
        print(json.dumps({**line, **spread}), flush=True)
    for way in ways:
        way.close()


def main():
    if sys.argv[1:2] == ["--receive"]:
        return receive(sys.argv[2], *map(int, sys.argv[3:]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="in how many rounds the ways take turns")
    parser.add_argument("--turn", type=float, default=50.0, help="how long the turns of a way take in a round, in milliseconds")
    parser.add_argument("--batches", nargs="*", default=BATCHES, help="sizes of batches, as COLUMNSxROWS")
    parser.add_argument("words", nargs="*", help="words that select ways")
    chosen = parser.parse_args()
    for size in chosen.batches:
        compare(*map(int, size.split("x")), chosen)


if __name__ == "__main__":
    main()
