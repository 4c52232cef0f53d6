"""The programs that time this package beside others run, and say what they timed."""

import json
import os
import subprocess
import sys

import pytest

PROGRAMS = os.path.join(os.path.dirname(__file__), "..", "..", "benchmarks", "python")


def lines_of(program, *arguments):
    command = [sys.executable, os.path.join(PROGRAMS, program), *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 0 and outcome.stderr == "", outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


WAYS = {
    "arrow-device, first time", "arrow-device, again", "arrow-device, copy", "arrow-device, multiprocessing",
    "pickle, multiprocessing", "IPC in a memfd", "IPC over a socket",
}


def test_batches_go_to_another_process_by_each_way_with_the_numbers_that_they_had():
    # The program compares the sums on both sides.
    lines = lines_of("processes.py", "--rounds", "2", "--turn", "0", "--batches", "3x16", "1x1")
    assert [(line["size"], line["shape"]) for line in lines[:: len(WAYS)]] == [
        (3, "int64 batch of 16 rows"), (1, "int64 batch of 1 rows")]
    for shape in (lines[: len(WAYS)], lines[len(WAYS) :]):
        assert {line["peer"] for line in shape} == WAYS
        assert all(0 < line["least_ns"] <= line["median_ns"] and line["turns"] == 2 for line in shape)


@pytest.mark.parametrize("word, count", [("socket", 1), ("arrow-device", 4)])
def test_words_select_ways(word, count):
    lines = lines_of("processes.py", word, "--rounds", "1", "--turn", "0", "--batches", "1x8")
    assert len(lines) == count and all(word in line["peer"] for line in lines)
