"""The scripts for a machine with a GPU, on the simulated driver: what they find, what they report, and that whatever goes wrong
is a finding."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support import skip

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "hardware"
LIBRARIES = HERE / "simulated_libraries.py"
FAULTY = HERE / "faulty_libraries.py"
CHECKS = 11


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


def scripts(driver, libraries, report, *only):
    words = [sys.executable, str(SCRIPTS / "hardware.py"), str(report), "--libraries", str(libraries)]
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


def test_the_limits_end_in_time(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import hardware
    import libraries
    import sections as of_sections

    assert hardware.ALL < 8 * 60
    assert set(hardware.SECTIONS) == set(of_sections.SECTIONS) | set(libraries.LIBRARIES)


def test_what_is_not_there_is_no_finding(driver, tmp_path):
    """Without a driver, and without what was never installed here."""
    environment = {**driver, "ARROW_DEVICE_CUDA_LIBRARY": "/no/such/library"}
    path = tmp_path / "report.json"
    report = run([sys.executable, str(SCRIPTS / "hardware.py"), str(path)], environment, path)
    assert report["findings"] == []
    found = sections(report)
    assert found["conformance"]["outcome"] == "not there" and "/no/such/library" in found["conformance"]["missing"]
    assert found["machine"]["facts"]["missing"]["cuda"]
    for name in ("torch", "cupy", "chain"):
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
    no_network = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "http_proxy": "http://127.0.0.1:9/", "https_proxy": "http://127.0.0.1:9/"}
    report = run(["sh", str(folder / "run.sh")], {**driver, **no_network}, folder / "report.json")
    assert report["findings"] == [], report["findings"]
    found = sections(report)
    assert found["install"] == {**found["install"], "outcome": "passed", "wheel": wheel.name}
    assert found["conformance"]["outcome"] == found["machine"]["outcome"] == found["pyarrow"]["outcome"] == "passed"
    assert set(found["machine"]["facts"]) >= {"arrow_device", "devices", "missing"}
    if not built:
        return
    size = sum(file.stat().st_size for file in folder.rglob("*"))
    assert size <= 60 << 20
    for part in ("speed", "suite", "exchange", "types", "pinned suite", "managed suite"):
        assert found[part]["outcome"] == "passed" and found[part]["checks"], found[part]
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
