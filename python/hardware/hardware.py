"""Runs a group of sections on a machine with a GPU and writes one report: `hardware.py [REPORT.json] [--group NAME] [--quick]`.

The groups are `checks`, which is the one without a name, `hazards`, `sanitizer` and `faults`. Each ends within eight minutes.

Each section is a process of its own with a time limit, so that a crash or a hang is a finding like any other, and what comes
after it still runs. Sections are the parts of the program beside this file, and those of `sections.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import plots

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "arrow-device-gpu-hardware"

#: When the last section has to be over, in seconds.
ALL = 450
#: The parts of the program, and how long each may take. What a machine's time is best spent on
#: comes first.
PARTS_FIRST = {"speed": 75, "contexts": 20, "graphs": 30, "awaits": 30, "peers": 45, "cudarc": 20, "share": 25}
PARTS_LAST = {"suite": 120, "exchange": 75, "types": 75, "pinned suite": 75, "managed suite": 75}
#: The same of `sections.py`.
SECTIONS = {
    "machine": 40, "torch": 60, "cupy": 60, "jax": 75, "conformance": 60, "pyarrow": 40, "chain": 60, "numba": 45,
    "pylibcudf": 60, "nanoarrow": 60, "numpy": 30,
}
#: The hazards of `hazards.py`, each a section. What breaks a device comes last.
HAZARDS = {
    "deletion in flight": 45, "deletion of theirs in flight": 45, "capture meanwhile": 45, "graphs of imports": 30, "fork": 30,
    "exit with live arrays": 45, "out of memory": 45, "memory of reservations": 45, "column of five gib": 45,
    "default streams of threads": 30, "lost device": 45,
}
#: What is run under compute-sanitizer: its options, the part of the program or the section, and how
#: long it may take.
MEMCHECK = ["--tool", "memcheck", "--track-stream-ordered-races", "all", "--leak-check", "full"]
INITCHECK = ["--tool", "initcheck"]
SANITIZER = {
    "memcheck suite": (MEMCHECK, "suite", 150), "memcheck exchange": (MEMCHECK, "exchange", 60),
    "initcheck exchange": (INITCHECK, "exchange", 60), "memcheck torch": (MEMCHECK, "torch", 75),
    "memcheck deletion": (MEMCHECK, "deletion in flight", 60),
}
#: The exit status of a program in which the sanitizer has found something.
FOUND_BY_SANITIZER = 86
#: The parts of the group `faults`: the suite before each fault of the test kit.
FAULTS = {"faults": 210}
GROUPS = ("checks", "hazards", "sanitizer", "faults")
#: How much of what a section said is kept.
SAID = 6000


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("report", nargs="?", default=str(HERE / "report.json"))
    arguments.add_argument("--group", choices=GROUPS, default=GROUPS[0])
    arguments.add_argument("--quick", action="store_true", help="less of everything")
    arguments.add_argument("--libraries", help="a file of Python with more libraries, for tests")
    arguments.add_argument("--only", action="append", help="a section; more than once for several")
    arguments.add_argument("--patience", type=float, default=1, help="so many times all limits, on a slow machine")
    arguments.add_argument("--limit", type=float, help="no section may take longer, in seconds")
    arguments.add_argument("--minutes", type=float, default=ALL / 60, help="no more for all sections together")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="arrow-device-") as folder:
        run = Run(Path(chosen.report).resolve(), Path(folder), chosen.quick, chosen.patience, chosen.limit)
        run.all = min(ALL, 60 * chosen.minutes)
        with contextlib.suppress(KeyboardInterrupt):
            run.everything(chosen.libraries, chosen.only, chosen.group)
        return run.finish()


class Run:
    """The sections so far, and how much time is left. The report is written after each."""

    def __init__(self, path: Path, folder: Path, is_quick: bool, patience: float = 1, longest: float | None = None):
        self.path, self.folder, self.is_quick, self.patience = path, folder, is_quick, patience
        self.longest = float("inf") if longest is None else longest
        self.all = ALL
        self.start = time.monotonic()
        self.sections, self.pictures = [], []
        self.environment = dict(os.environ, PYTHONUNBUFFERED="1", XLA_PYTHON_CLIENT_PREALLOCATE="false")
        self.write(is_complete=False)

    def everything(self, libraries, only, group="checks"):
        wanted = lambda name: only is None or name in only  # noqa: E731
        self.install()
        words = [sys.executable, str(HERE / "sections.py")]
        more = [] if libraries is None else ["--libraries", libraries]

        def parts(limits):
            if PROGRAM.is_file():
                for name, limit in limits.items():
                    if wanted(name):
                        self.section(name, [str(PROGRAM)], ["--only", name], limit, read_program)

        def python(limits):
            for name, limit in limits.items():
                if wanted(name):
                    self.section(name, [*words, name], more, limit, read_section)

        if group == "hazards":
            python(HAZARDS)
        elif group == "sanitizer":
            self.sanitizer(words, more, wanted)
        elif group == "faults":
            parts(FAULTS)
        else:
            parts(PARTS_FIRST)
            python({**SECTIONS, **self.added(words, more)})
            parts(PARTS_LAST)

    def added(self, words, more):
        """The limits of the libraries that a file of Python adds."""
        if not more:
            return {}
        found = subprocess.run([*words, "--list", *more], env=self.environment, capture_output=True, text=True, check=True)
        return {name: 60 for name in found.stdout.split() if name not in SECTIONS}

    def sanitizer(self, words, more, wanted):
        """The same sections once more, each under NVIDIA's compute-sanitizer, if it is there."""
        tool = shutil.which("compute-sanitizer")
        # PyTorch's own cache would hide what becomes of memory.
        self.environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        for name, (options, what, limit) in SANITIZER.items():
            if not wanted(name):
                continue
            if tool is None:
                self.add({"name": name, "outcome": "not there", "seconds": 0.0, "missing": "no compute-sanitizer in PATH"})
                continue
            under = [tool, *options, "--target-processes", "all", "--error-exitcode", str(FOUND_BY_SANITIZER)]
            if what not in (*PARTS_FIRST, *PARTS_LAST):
                self.section(name, [*under, *words, what], more, limit, read_section)
            elif PROGRAM.is_file():
                self.section(name, [*under, str(PROGRAM)], ["--only", what], limit, read_program)

    def install(self):
        """Installs the wheel beside this file, if there is one, in a folder that goes in the end."""
        wheels = sorted(HERE.glob("arrow_device-*.whl"))
        if not wheels:
            return
        site = self.folder / "site"
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        words += ["--disable-pip-version-check", "--target", str(site), str(wheels[-1])]
        outcome = self.child("install", words, 60)
        # Without pip, or where it refuses, what is in the archive is as good: there is nothing to
        # build.
        if outcome["outcome"] != "passed":
            shutil.rmtree(site, ignore_errors=True)
            zipfile.ZipFile(wheels[-1]).extractall(site)
        self.add({**outcome, "wheel": wheels[-1].name})
        before = self.environment.get("PYTHONPATH")
        self.environment["PYTHONPATH"] = os.pathsep.join([str(site)] + ([before] if before else []))

    def section(self, name, words, options, limit, read):
        result = self.folder / f"{name.replace(' ', '-')}.json"
        words = [*words, str(result), *options, *(["--quick"] if self.is_quick else [])]
        outcome = self.child(name, words, limit)
        found = {}
        if result.is_file():
            try:
                found = read(result.read_text(encoding="utf-8"))
            except (ValueError, KeyError) as error:
                found = {"unreadable": str(error)}
        if found.get("missing") is not None and outcome["outcome"] == "passed":
            outcome["outcome"] = "not there"
        self.add({**outcome, **found})

    def add(self, section):
        """Notes what became of a section, and says so."""
        print(f"{section['name']}: {section['outcome']} ({section['seconds']:.1f} s)", flush=True)
        if section.get("said") and section["outcome"] != "passed":
            print(section["said"], flush=True)
        self.sections.append(section)
        self.write(is_complete=False)

    def child(self, name, words, limit):
        """Runs a program until its time is up; says how it ended."""
        left = self.all * self.patience - (time.monotonic() - self.start)
        limit = min(limit * self.patience, left, self.longest)
        if limit < 5:
            return {"name": name, "outcome": "no time left", "seconds": 0.0}
        began = time.monotonic()
        log = self.folder / "log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                words, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=self.environment, cwd=self.folder, start_new_session=True)
            try:
                code = child.wait(limit)
                outcome = how(code)
            except subprocess.TimeoutExpired:
                outcome = f"stopped after {limit:.0f} s"
            finally:
                # Whatever it has started, too.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # A process that the driver holds does not end even so.
                    child.wait(10)
        seconds = time.monotonic() - began
        section = {"name": name, "outcome": outcome, "seconds": round(seconds, 3), "limit": round(limit, 1)}
        if log.stat().st_size:
            section["said"] = log.read_text(encoding="utf-8", errors="replace")[-SAID:]
        return section

    def findings(self):
        """What went wrong, in words."""
        found = []
        for section in self.sections:
            name = section["name"]
            failed = [check for check in section.get("checks", []) if not check["passed"]]
            found += [f"{name}: {check['name']}: {check['text']}"[:2000] for check in failed]
            if "unreadable" in section:
                found.append(f"{name}: its result cannot be read: {section['unreadable']}")
            elif section["outcome"] not in ("passed", "not there") and not (failed and section["outcome"] == "failed"):
                where = f", in {section['in']}" if section.get("in") else ""
                found.append(f"{name}: {section['outcome']}{where}")
        return found

    def write(self, is_complete):
        findings = self.findings()
        report = {
            "report": "arrow-device on hardware",
            "quick": self.is_quick,
            "complete": is_complete,
            "seconds": round(time.monotonic() - self.start, 1),
            "machine": {
                "system": platform.platform(), "processors": os.cpu_count(), "python": platform.python_version(),
                "glibc": "-".join(platform.libc_ver()),
            },
            "failures": len(findings),
            "findings": findings,
            "pictures": self.pictures,
            "sections": self.sections,
        }
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.path)

    def draw(self):
        """Pictures of what was measured, beside the report: their files' names."""
        runtimes = [runtime for section in self.sections for runtime in section.get("facts", {}).get("runtimes", [])]
        merged = {}
        for runtime in runtimes:
            of = merged.setdefault(runtime["runtime"], {"runtime": runtime["runtime"], "copies": []})
            of["copies"] += runtime.get("copies", [])
        drawn = []
        for name, svg in plots.pictures(merged.values()).items():
            path = self.path.with_name(f"{self.path.stem}-{name}.svg")
            path.write_text(svg, encoding="utf-8")
            drawn.append(path.name)
        return drawn

    def finish(self):
        # Whatever is wrong with a picture, the report is written.
        try:
            self.pictures = self.draw()
        except Exception as error:  # noqa: BLE001
            self.add({"name": "pictures", "outcome": f"failed: {error!r}", "seconds": 0.0})
        self.write(is_complete=True)
        findings = self.findings()
        for finding in findings:
            print(f"found: {finding}")
        print(f"{len(findings)} failures; the report is in {self.path}")
        return 1 if findings else 0


def how(code):
    """How a process ended."""
    if code == 0:
        return "passed"
    if code == FOUND_BY_SANITIZER:
        return "the sanitizer found something"
    if code > 0:
        return "failed" if code == 1 else f"failed with status {code}"
    try:
        return f"crashed by {signal.Signals(-code).name}"
    except ValueError:
        return f"crashed by signal {-code}"


def read_program(text):
    """What the program wrote: its checks as those of other sections are."""
    report = json.loads(text)
    runtimes = report["runtimes"]
    checks = [check for runtime in runtimes for check in runtime.pop("checks")]
    missing = None if checks else "no device that the program can open"
    return {"checks": checks, "facts": {"runtimes": runtimes}, "missing": missing}


def read_section(text):
    """What `sections.py` wrote, one object to a line. The last of a process that died may be cut off."""
    checks, facts, missing, begun = [], {}, None, None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        try:
            said = json.loads(line)
        except ValueError:
            if number + 1 == len(lines):
                break
            raise
        if "begins" in said:
            begun = said["begins"]
        elif "check" in said:
            begun = None
            checks.append({"name": said["check"], **{key: said[key] for key in ("passed", "seconds", "text")}})
        elif "fact" in said:
            facts[said["fact"]] = said["value"]
        elif "missing" in said:
            missing = said["missing"]
    found = {"checks": checks, "facts": facts, "missing": missing}
    return found if begun is None else {**found, "in": begun}


if __name__ == "__main__":
    sys.exit(main())
