"""The scripts for a machine with a GPU, on the simulated driver: what they find, what they report, and that whatever goes wrong
is a finding."""

import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support import skip

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "hardware"
LIBRARIES = HERE / "simulated_libraries.py"
FAULTY = HERE / "faulty_libraries.py"
STAND_INS = HERE / "stand_ins"
CHECKS, HAZARDS = 11, 11


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A copy, so that it has a machine of its own in each process that loads it, and the name that programs look for."""
    library = os.environ.get("ARROW_DEVICE_SIMULATED_DRIVER")
    if not library:
        skip("simulated", "ARROW_DEVICE_SIMULATED_DRIVER names no library; `cargo xtask python` builds it")
    copy = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    shutil.copy(library, copy)
    return {
        **os.environ, "ARROW_DEVICE_CUDA_LIBRARY": str(copy), "ARROW_DEVICE_HIP_LIBRARY": "/no/such/library",
        # Nothing is ready because somebody asked a few times.
        "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG": "patience=1000", "JAX_PLATFORMS": "cpu", "PYTHON": sys.executable,
    }


def run(words, environment, report):
    words = [*words, "--quick", "--patience", "10"]
    outcome = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert report.is_file(), outcome.stdout + outcome.stderr
    found = json.loads(report.read_text())
    assert (outcome.returncode == 0) == (found["failures"] == 0), outcome.stdout + outcome.stderr
    return found


def sections(report):
    return {section["name"]: section for section in report["sections"]}


def scripts(driver, libraries, report, *only, more=()):
    words = [sys.executable, str(SCRIPTS / "hardware.py"), str(report), "--libraries", str(libraries), *more]
    return run([*words, *(word for name in only for word in ("--only", name))], driver, report)


def test_a_library_that_keeps_all_rules_has_no_finding(driver, tmp_path):
    report = scripts(driver, LIBRARIES, tmp_path / "report.json", "simulated", "conformance", "chain")
    assert report["findings"] == [] and report["complete"] and report["seconds"] > 0, report
    found = sections(report)
    assert {name: section["outcome"] for name, section in found.items()} == {
        "simulated": "passed", "conformance": "passed", "chain": "passed"}
    checks = {check["name"]: check for check in found["simulated"]["checks"]}
    assert len(checks) == CHECKS and all(check["passed"] for check in checks.values())
    # These were no tests of order if all had been there by itself.
    for name in ("their_stream_is_waited_for", "their_stream_waits_for_ours"):
        assert checks[name]["text"].startswith("3 of 3 were not finished"), checks[name]
    assert found["simulated"]["facts"] == {"version": "simulated", "device": "cuda:0"}
    assert found["conformance"]["facts"]["devices"] == ["cuda:0", "cuda_host:0", "cuda_managed:0"]
    assert len(found["conformance"]["checks"]) == 3 + 4
    assert [check["text"] for check in found["chain"]["checks"]] == ["Simulated -> Twin", "Twin -> Simulated"]


@pytest.mark.parametrize("name, checks, text", [
    ("careless", {"their_stream_is_waited_for"}, "made on another stream: element"),
    ("hasty", {"their_stream_waits_for_ours"}, "made on a queue of ours: element"),
    ("hoarding", {"everything_is_freed"}, "after"),
    ("forgetful", {"what_is_passed_outlives_its_maker"}, ""),
    ("copying", {"every_type_goes_both_ways"}, "were copied"),
])
def test_a_library_that_breaks_a_rule_is_found_out(driver, tmp_path, name, checks, text):
    report = scripts(driver, FAULTY, tmp_path / "report.json", name)
    section = sections(report)[name]
    failed = {check["name"]: check["text"] for check in section["checks"] if not check["passed"]}
    assert checks <= set(failed), (failed, section)
    assert any(text in failed[check] for check in checks), failed
    assert report["failures"] == len(report["findings"]) == len(failed)
    assert all(finding.startswith(f"{name}: ") for finding in report["findings"])


def test_a_crash_is_a_finding_that_says_where(driver, tmp_path):
    report = scripts(driver, FAULTY, tmp_path / "report.json", "dying")
    assert report["findings"] == ["dying: crashed by SIGABRT, in other_strides_are_understood"]
    # What came before is there.
    assert [check["passed"] for check in sections(report)["dying"]["checks"]] == [True]


def test_a_section_that_hangs_or_crashes_costs_only_itself(driver, tmp_path):
    names = ("hanging", "dying", "copying", "numpy")
    start = time.monotonic()
    report = scripts(driver, FAULTY, tmp_path / "report.json", *names, more=["--limit", "12"])
    assert time.monotonic() - start < 120
    found = sections(report)
    assert set(found) == set(names) and report["complete"]
    assert found["hanging"]["outcome"] == "stopped after 12 s"
    assert found["hanging"]["in"] == found["dying"]["in"] == "other_strides_are_understood"
    assert found["dying"]["outcome"] == "crashed by SIGABRT"
    # What came before in the same section is there, and so are the sections beside.
    assert [check["passed"] for check in found["hanging"]["checks"]] == [True]
    assert found["numpy"]["outcome"] == "passed" and len(found["copying"]["checks"]) == CHECKS
    for name in ("hanging", "dying"):
        assert sum(finding.startswith(f"{name}: ") for finding in report["findings"]) == 1, report["findings"]


#: Memory enough for all cases, and not so much that it takes long to use up.
MEMORY = "patience=1000 memory=536870912"
#: The library here relies on copies of ordinary memory being done when they return.
UNKIND = f"{MEMORY} frees_wait=1 reservations=1 reuses_handles=1"


@pytest.mark.parametrize("config", [MEMORY, UNKIND])
def test_hazards_are_survived(driver, tmp_path, config):
    environment = {**driver, "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG": config}
    report = scripts(environment, LIBRARIES, tmp_path / "report.json", more=["--group", "hazards"])
    assert report["findings"] == [], report["findings"]
    found = sections(report)
    assert len(found) == HAZARDS and all(section["outcome"] == "passed" for section in found.values()), found
    [said] = [check["text"] for check in found["capture meanwhile"]["checks"]]
    assert said.count("capturing a graph") == 2, said
    for name in ("graphs of imports", "deletion in flight"):
        [said] = [check["text"] for check in found[name]["checks"]]
        assert "Simulated" in said and "no graphs" not in said, said
    [said] = [check["text"] for check in found["out of memory"]["checks"]]
    assert "blocks of" in said and "memory" in said, said


def test_memory_that_is_freed_under_a_consumer_is_found(driver, tmp_path):
    """Whoever names no stream reads what is freed for the default stream's work only, by copies and by graphs."""
    environment = {**driver, "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG": MEMORY}
    names = ("deletion in flight", "graphs of imports")
    report = scripts(environment, FAULTY, tmp_path / "report.json", *names, more=["--group", "hazards"])
    assert report["failures"] == 2, report
    for name, finding in zip(names, report["findings"]):
        assert finding.startswith(f"{name}: it is survived: "), finding


def stand_ins(driver, report, faults=""):
    """The sections of libraries that are not installed here, with what stands for them."""
    environment = {**driver, "PYTHONPATH": str(STAND_INS), "STAND_IN_FAULTS": faults}
    return scripts(environment, LIBRARIES, report, "numba", "pylibcudf")


def test_columns_are_exchanged_with_numba_and_pylibcudf(driver, tmp_path):
    report = stand_ins(driver, tmp_path / "report.json")
    assert report["findings"] == [], report["findings"]
    found = sections(report)
    assert {name: section["outcome"] for name, section in found.items()} == {"numba": "passed", "pylibcudf": "passed"}
    for section, check in (("numba", "numba_waits_for_ours"), ("pylibcudf", "cudf_waits_for_ours")):
        [said] = [each["text"] for each in found[section]["checks"] if each["name"] == check]
        assert said.startswith("3 of 3 were not finished"), said


def test_libraries_of_columns_that_break_rules_are_found_out(driver, tmp_path):
    """Numba waits for nothing, pylibcudf turns values round, and both keep what they took."""
    report = stand_ins(driver, tmp_path / "report.json", "hasty wrong hoarding")
    found = {": ".join(finding.split(": ")[:2]) for finding in report["findings"]}
    assert found >= {
        "numba: numba_waits_for_ours", "numba: numba_gives_all_back", "pylibcudf: cudf_takes_ours", "pylibcudf: ours_are_cudfs",
        "pylibcudf: cudf_gives_all_back",
    }, report["findings"]
    # What has nothing to do with these rules is all right.
    assert not found & {"numba: numba_takes_ours", "numba: ours_are_numbas", "pylibcudf: cudfs_stays_while_we_have_it"}, found


@pytest.fixture(scope="module")
def with_sources(tmp_path_factory):
    """The scripts with nanoarrow's source package beside them, and an environment that has what compiling takes."""
    peers = Path(os.environ.get("ARROW_DEVICE_PEERS", HERE.parents[1] / "target/peers"))
    packages = sorted(peers.glob("sources/nanoarrow-*.tar.gz"))
    headers = sorted(peers.glob("venv/lib/python3*/site-packages/nvidia/*/include/cuda.h"))
    if not packages or not headers:
        skip("nanoarrow", f"no source package of nanoarrow or no cuda.h in {peers}; `cargo xtask test --setup` installs them")
    folder = tmp_path_factory.mktemp("bundle") / "scripts"
    shutil.copytree(SCRIPTS, folder)
    shutil.copy(packages[-1], folder)
    built = tmp_path_factory.mktemp("built")
    return folder, {"CUDA_HOME": str(headers[-1].parents[1]), "ARROW_DEVICE_HARDWARE_BUILD": str(built)}


#: nanoarrow's own tests wait for streams without a context, and pin nothing.
LENIENT = "patience=1000 lenient=1"


def compiled(driver, with_sources, report, config):
    folder, variables = with_sources
    words = [sys.executable, str(folder / "hardware.py"), str(report), "--only", "nanoarrow"]
    return run(words, {**driver, **variables, "ARROW_DEVICE_SIMULATED_DRIVER_CONFIG": config}, report)


def test_nanoarrow_is_compiled_and_exchanges(driver, with_sources, tmp_path):
    report = compiled(driver, with_sources, tmp_path / "report.json", LENIENT)
    assert report["findings"] == [], report["findings"]
    [section] = report["sections"]
    names = [check["name"] for check in section["checks"]]
    # Five tests of its own, and one with sixteen parameters.
    assert section["outcome"] == "passed" and sum(name.startswith("its own ") for name in names) == 5 + 16, names
    assert set(names) >= {"it compiles", "its copies of ours", "its arrays are taken", "all memory comes back"}
    # A copy that is not made is found by its own test and by ours; it is not compiled again.
    report = compiled(driver, with_sources, tmp_path / "wrong.json", f"{LENIENT} fail=cuMemcpyDtoHAsync_v2:1:0")
    found = "".join(report["findings"])
    assert "its own NanoarrowDeviceCuda.DeviceCudaBufferInit" in found and "its copies of ours" in found, found
    [section] = report["sections"]
    assert "it was compiled before" in section["checks"][0]["text"]


def test_the_report_says_which_part_of_a_device_there_is(driver, tmp_path):
    """MIG, compute modes and what the environment hides, as the vendor's tool has it."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "said of: $*"\n')
    tool.chmod(0o755)
    environment = {**driver, "PATH": f"{tool.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0"}
    report = scripts(environment, LIBRARIES, tmp_path / "report.json", "machine")
    [machine] = report["sections"]
    facts = machine["facts"]
    assert "mig.mode.current" in facts["modes"] and "compute_mode" in facts["modes"], facts
    assert facts["instances"] == "said of: -L\n" and facts["topology"] == "said of: topo -m\n"
    assert facts["visible"]["CUDA_VISIBLE_DEVICES"] == "0"


#: Measurements as the program has them.
COPIES = [
    {"device": "cuda:0", "way": "one large copy from pinned memory", "gigabytes_per_second": 50.0},
    {"device": "cuda:0", "way": "host to device, pinned", "columns": 1000, "bytes_each": 4096, "gigabytes_per_second": 25.0,
     "of_link_rate": 0.5, "times_call_per_buffer": 3.0},
    {"device": "cuda:0 to cuda:1", "way": "to <another>", "columns": 1000, "bytes_each": 1 << 20, "gigabytes_per_second": 100.0},
]


def test_measurements_are_drawn(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import hardware

    here = hardware.Run(tmp_path / "report.json", tmp_path, is_quick=True)
    for copies in (COPIES[:2], COPIES[2:]):
        facts = {"runtimes": [{"runtime": "CUDA", "copies": copies}, {"runtime": "ROCm", "copies": []}]}
        here.add({"name": "speed", "outcome": "passed", "seconds": 1.0, "facts": facts})
    assert here.finish() == 0
    assert json.loads((tmp_path / "report.json").read_text())["pictures"] == ["report-cuda.svg"]
    picture = ElementTree.fromstring((tmp_path / "report-cuda.svg").read_text())
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "cuda:0: host to device, pinned, 1000 of 4 KiB" in texts and "cuda:0 to cuda:1: to <another>, 1000 of 1 MiB" in texts
    assert "25 GB/s, 50% of one large copy, 3 times a call for each" in texts, texts
    # Bars are as long as the rates say.
    widths = [float(bar.get("width")) for bar in picture.iter("{http://www.w3.org/2000/svg}rect") if bar.get("width") != "100%"]
    assert widths[0] == 2 * widths[1] and widths[2] == 4 * widths[1], widths
    # What cannot be drawn is a finding, and the report is there.
    here.sections[0]["facts"]["runtimes"][0]["copies"][0]["gigabytes_per_second"] = "fast"
    assert here.finish() == 1
    [finding] = json.loads((tmp_path / "report.json").read_text())["findings"]
    assert finding.startswith("pictures: failed: "), finding


#: Stands for NVIDIA's tool: notes how it was called, runs the program, and complains of some.
SANITIZER = """#!/bin/sh
echo "$@" >>"$FAKE_SANITIZER_LOG"
while [ "${1#--}" != "$1" ]; do shift 2; done
"$@" || exit
case "$*" in *suite*|*deletion*) exit 86 ;; esac
"""


def test_sections_run_under_a_sanitizer(driver, tmp_path):
    tool, log = tmp_path / "bin" / "compute-sanitizer", tmp_path / "log"
    tool.parent.mkdir()
    tool.write_text(SANITIZER)
    tool.chmod(0o755)
    environment = {**driver, "PATH": f"{tool.parent}:{os.environ['PATH']}", "FAKE_SANITIZER_LOG": str(log)}
    only = ("memcheck torch", "memcheck deletion")
    report = scripts(environment, LIBRARIES, tmp_path / "report.json", *only, more=["--group", "sanitizer"])
    assert report["findings"] == ["memcheck deletion: the sanitizer found something"]
    assert sections(report)["memcheck torch"]["outcome"] == "not there"
    said = log.read_text()
    assert "--track-stream-ordered-races all --leak-check full" in said and "--error-exitcode 86" in said
    # Where there is no such tool, nothing is found either.
    report = scripts(driver, LIBRARIES, tmp_path / "report.json", *only, more=["--group", "sanitizer"])
    assert report["findings"] == []
    assert {section["outcome"] for section in report["sections"]} == {"not there"}


def test_the_report_says_what_was_run(driver, tmp_path):
    report = scripts(driver, LIBRARIES, tmp_path / "report.json", "machine")
    [machine] = report["sections"]
    facts = machine["facts"]
    assert len(facts["files"]["hardware.py"]) == 64 and any(line.startswith("numpy==") for line in facts["packages"])
    assert "commit" in facts 
    # What passed has said something, too.
    assert machine["outcome"] == "passed" and "arrow_device: " in machine["said"]


def test_a_hang_ends_and_is_a_finding(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import hardware

    here = hardware.Run(tmp_path / "report.json", tmp_path, is_quick=True)
    outcome = here.child("endless", ["sh", "-c", "echo begun; sleep 600"], 5)
    assert (outcome["outcome"], outcome["said"]) == ("stopped after 5 s", "begun\n")
    here.add(outcome)
    # Nothing is begun that could not end in time.
    here.start -= hardware.ALL
    here.add(here.child("late", ["false"], 60))
    assert here.finish() == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"] == ["endless: stopped after 5 s", "late: no time left"]


def test_all_sections_together_have_so_many_minutes(driver, tmp_path):
    path = tmp_path / "report.json"
    words = [sys.executable, str(SCRIPTS / "hardware.py"), str(path), "--only", "machine", "--minutes", "0.001"]
    assert run(words, driver, path)["findings"] == ["machine: no time left"]


def test_the_limits_end_in_time(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import hardware
    import libraries
    import sections as of_sections

    assert hardware.ALL < 8 * 60
    hazards = set(of_sections.HAZARDS)
    assert set(hardware.SECTIONS) == set(of_sections.SECTIONS) - hazards | set(libraries.LIBRARIES)
    assert set(hardware.HAZARDS) == hazards
    of_sanitizer = [limit for _, _, limit in hardware.SANITIZER.values()]
    for limits in (hardware.HAZARDS.values(), of_sanitizer, hardware.FAULTS.values()):
        assert sum(limits) <= hardware.ALL
    for _, what, _ in hardware.SANITIZER.values():
        assert what in {**hardware.SECTIONS, **hardware.HAZARDS, **hardware.PARTS_FIRST, **hardware.PARTS_LAST}


def test_what_is_not_there_is_no_finding(driver, tmp_path):
    """Without a driver, and without what was never installed here."""
    environment = {**driver, "ARROW_DEVICE_CUDA_LIBRARY": "/no/such/library"}
    path = tmp_path / "report.json"
    report = run([sys.executable, str(SCRIPTS / "hardware.py"), str(path)], environment, path)
    assert report["findings"] == []
    found = sections(report)
    assert found["conformance"]["outcome"] == "not there" and "/no/such/library" in found["conformance"]["missing"]
    assert found["machine"]["facts"]["missing"]["cuda"]
    for name in ("torch", "cupy", "chain", "numba", "pylibcudf", "nanoarrow"):
        assert found[name]["outcome"] == "not there", found[name]
    assert found["numpy"]["outcome"] == "passed" and len(found["numpy"]["checks"]) == CHECKS


def test_the_folder_runs_wherever_it_is_copied(driver, tmp_path):
    """By `run.sh`, with a wheel that it installs without a network. `ARROW_DEVICE_BUNDLE` names a folder that has the program, too."""
    built = os.environ.get("ARROW_DEVICE_BUNDLE")
    folder = tmp_path / "a folder"
    if built:
        shutil.copytree(built, folder)
    else:
        wheels = list((HERE.parents[1] / "target/python/wheels").glob("*.whl"))
        if not wheels:
            skip("wheel", "no wheel in target/python/wheels; `cargo xtask python` builds it")
        shutil.copytree(SCRIPTS, folder)
        shutil.copy(wheels[0], folder)
    [wheel] = folder.glob("*.whl")
    assert "-abi3-" in wheel.name
    # This package as it is installed here must not be what is tested, nor a network or a compiler
    # what it needs.
    # cudarc looks for the driver by its name.
    driver = {**driver, "LD_LIBRARY_PATH": str(Path(driver["ARROW_DEVICE_CUDA_LIBRARY"]).parent)}
    no_network = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "http_proxy": "http://127.0.0.1:9/", "https_proxy": "http://127.0.0.1:9/"}
    report = run(["sh", str(folder / "run.sh")], {**driver, **no_network}, folder / "report.json")
    assert report["findings"] == [], report["findings"]
    found = sections(report)
    assert found["install"] == {**found["install"], "outcome": "passed", "wheel": wheel.name}
    assert found["conformance"]["outcome"] == found["machine"]["outcome"] == found["pyarrow"]["outcome"] == "passed"
    assert set(found["machine"]["facts"]) >= {"arrow_device", "devices", "missing"}
    # Each group can run alone.
    found = run(["sh", str(folder / "run.sh"), str(folder / "hazards.json"), "--group", "hazards"], {**driver, **no_network},
                folder / "hazards.json")
    assert found["findings"] == [], found["findings"]
    assert sections(found)["fork"]["outcome"] == "passed" and len(sections(found)) == 1 + HAZARDS
    found = sections(report)
    if not built:
        return
    commit = found["machine"]["facts"]["commit"].split()
    assert len(commit[0]) == 40 and set(found["machine"]["facts"]["files"]) >= {"COMMIT", "run.sh", "gtest.h", "nanoarrow-0.9.0.tar.gz", wheel.name}
    size = sum(file.stat().st_size for file in folder.rglob("*"))
    assert size <= 60 << 20
    for part in (
        "speed", "contexts", "graphs", "awaits", "peers", "cudarc", "share", "suite", "exchange", "types", "pinned suite", "managed suite",
    ):
        assert found[part]["outcome"] == "passed" and found[part]["checks"], found[part]
    assert report["pictures"] == ["report-cuda.svg"] and (folder / "report-cuda.svg").is_file()
    faults = run(["sh", str(folder / "run.sh"), str(folder / "faults.json"), "--group", "faults"], {**driver, **no_network},
                 folder / "faults.json")
    assert faults["findings"] == [], faults["findings"]
    assert "the suite sees 2 of 2 faults" in json.dumps(faults), faults
    [cuda, _] = found["speed"]["facts"]["runtimes"]
    assert "Simulated CUDA device" in cuda["diagnosis"]
    rows = {(row["way"], row.get("columns")): row for row in cuda["copies"]}
    for source in ("pinned", "pageable"):
        row = rows[(f"host to device, {source}", 1000)]
        assert {"of_link_rate", "of_one_threads_memcpy", "times_call_per_buffer"} <= set(row)
        assert row["bytes_each"] == 4096 and row["times_call_per_buffer"] > 0


def test_the_wheel_has_what_a_machine_without_a_compiler_needs():
    wheels = list((HERE.parents[1] / "target/python/wheels").glob("*.whl"))
    if not wheels:
        skip("wheel", "no wheel in target/python/wheels; `cargo xtask python` builds it")
    [names] = [zipfile.ZipFile(wheel).namelist() for wheel in wheels]
    assert any(name.endswith("_native.abi3.so") for name in names), names
    assert "manylinux" in wheels[0].name


def container(entries, size=None):
    """A container of kernels, as `slim.py` describes it: of each entry its kind, its architecture and its payload."""
    body = b""
    for kind, architecture, payload in entries:
        header = struct.pack("<HHIQ", kind, 0x101, 64, len(payload)) + bytes(12) + struct.pack("<I", architecture)
        body += header + bytes(64 - len(header)) + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body) if size is None else size) + body


def test_a_library_keeps_the_code_of_one_architecture(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import slim

    code = {of: bytes([of]) * 640 for of in (75, 80, 90)}
    entries = [(2, of, payload) for of, payload in code.items()] + [(1, 90, b"p" * 320)]
    # Something that looks like a container and is none, and one that claims too much.
    other = b"before" + struct.pack("<I", slim.MAGIC) + b"no container" * 9
    library = other + container(entries) + b"between" + container(entries[:1]) + container(entries, size=1 << 40)
    data = bytearray(library)
    found = slim.slim(data, 90)
    assert len(data) == len(library) and data[: len(other)] == other
    assert found == {75: [0, 1280], 80: [0, 640], 90: [640, 320]}
    whole = container(entries)
    slimmed = bytes(data[len(other): len(other) + len(whole)])
    assert slimmed.count(code[90]) == 1 and b"p" not in slimmed
    assert code[75] not in slimmed and code[80] not in slimmed
    assert data[-len(whole):] == container(entries, size=1 << 40)
    # By its name, and where there is nothing for the architecture.
    (tmp_path / "lib.so").write_bytes(library)
    for architecture, code_of in (("90", 0), ("100", 1)):
        words = [sys.executable, str(SCRIPTS / "slim.py"), str(tmp_path / "lib.so"), str(tmp_path / architecture), architecture]
        assert subprocess.run(words, capture_output=True).returncode == code_of
    assert (tmp_path / "90").read_bytes() == bytes(data) and not (tmp_path / "100").exists()
