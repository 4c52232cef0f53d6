"""Iterables without end, of many items, and with wrong things to say of their length."""

import socket
import subprocess
import sys

import pytest

import arrow_device as ad
from arrow_device import share

#: What takes an iterable, and one that never ends.
ENDLESS = {
    "array": "ad.array(itertools.repeat(None))",
    "record_batch": "ad.record_batch(itertools.repeat({'x': 1}))",
    "concat": "ad.concat(itertools.repeat(ad.array([1])))",
    "select": "ad.record_batch({'x': [1]}).select(itertools.repeat('x'))",
    "rename": "ad.record_batch({'x': [1]}).rename(itertools.repeat('x'))",
    "Receiver": "share.Receiver(socket.socketpair()[0], itertools.repeat('cpu'))",
}

START = """
import itertools, resource, signal, socket
import arrow_device as ad
from arrow_device import share
try:
    {}
except BaseException as error:
    print(type(error).__name__)
"""


def end_of(program):
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("call", ENDLESS.values(), ids=ENDLESS)
def test_ctrl_c_ends_an_iterable_without_end(call):
    # As a Ctrl-C that comes a moment later.
    interrupted = f"signal.signal(signal.SIGALRM, signal.default_int_handler); signal.setitimer(signal.ITIMER_REAL, 0.2); {call}"
    assert end_of(START.format(interrupted)) == "KeyboardInterrupt"


@pytest.mark.parametrize("call", ENDLESS.values(), ids=ENDLESS)
def test_an_iterable_that_is_longer_than_memory_is_a_memory_error(call):
    most = "int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + (64 << 20)"
    limited = f"most = {most}; resource.setrlimit(resource.RLIMIT_AS, (most, most)); {call}"
    assert end_of(START.format(limited)) == "MemoryError"


def test_nobody_is_asked_how_long_an_iterable_is(capfd):
    class Names:
        def __init__(self, *names):
            self.names = iter(names)

        def __iter__(self):
            return self.names

        def __length_hint__(self):
            raise KeyboardInterrupt

    class Iterator(Names):
        def __iter__(self):
            return self

        def __next__(self):
            return next(self.names)

    batch = ad.record_batch({"x": [1], "y": [2]})
    for names in (Names, Iterator):
        assert batch.select(names("y")).column_names == ["y"]
        assert batch.rename(names("a", "b")).column_names == ["a", "b"]
        here, there = socket.socketpair()
        with there, share.Receiver(here, names("cpu")) as receiver:
            assert receiver is not None
    # Nor was an exception printed and dropped.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("values", ["list(range(1_500_000))", "tuple(range(1_500_000))", "[dict.fromkeys(range(1_000_000))]"])
def test_a_list_for_which_there_is_no_memory_is_a_memory_error(values):
    code = START.format(
        f"values = {values}\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000, resource.RLIM_INFINITY))\n"
        "    ad.array(values)"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (outcome.returncode, outcome.stdout) == (0, "MemoryError\n"), outcome
