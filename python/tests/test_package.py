"""The package as such: how fast it is imported, what it loads, its documentation and its types."""

import doctest
import inspect
import os
import re
import signal
import subprocess
import sys

import pytest

import arrow_device as ad
import arrow_device.testing
from arrow_device import share


def run(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **variables}, timeout=300
    )


def test_import_is_fast_and_opens_nothing():
    # The time of the processor, for the machine does other things too.
    code = (
        "import time; start = time.process_time(); import arrow_device; took = time.process_time() - start\n"
        "maps = open('/proc/self/maps').read() if __import__('os').path.exists('/proc/self/maps') else ''\n"
        "assert 'OpenCL' not in maps and 'libcuda' not in maps\n"
        "import threading, os; assert len(os.listdir('/proc/self/task')) == 1 if maps else True\n"
        "import sys; assert not {'numpy', 'pyarrow', 'asyncio'} & set(sys.modules)\n"
        "print(took * 1000)"
    )
    outcomes = [run(code) for _ in range(5)]
    assert [outcome.stderr for outcome in outcomes] == [""] * 5
    assert min(float(outcome.stdout) for outcome in outcomes) < 50


@pytest.mark.parametrize("code", [
    "a = ad.array(pa.array([1])).to('ext_dev:0')",
    "s = ad.stream(pa.array([n]) for n in range(3)); next(s); c = s.__arrow_c_device_stream__()",
    "t = ad.from_dlpack(np.arange(3)); v = np.from_dlpack(t); c = t.__dlpack__()",
    "b = ad.array(bytearray(b'abc')); c = b.__arrow_c_device_array__()",
    "global_pa = pa.table(ad.stream(pa.table({'x': [1]})))",
    "q = ad.device('ext_dev:0').queue(); a = ad.array(pa.array([1])).to(q); a.wait(q)",
    "import sys; keep = sys.modules.setdefault('keep', ad.array(pa.array([1])).__dlpack__())",
    "import atexit; a = ad.array(pa.array([1])); atexit.register(lambda: pa.array(a))",
])
def test_the_interpreter_ends_well_with_objects_alive(code):
    setup = "import arrow_device as ad, numpy as np, pyarrow as pa\n"
    outcome = run(setup + code)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_the_interpreter_ends_while_a_daemon_thread_reads_a_stream():
    outcome = run(
        "import arrow_device as ad, pyarrow as pa, threading\n"
        "s = ad.stream(pa.array([1]) for _ in iter(int, 1))\n"
        "threading.Thread(target=lambda: [0 for _ in s], daemon=True).start(); next(s)"
    )
    # Before 3.14 Python ends the thread inside the generator by an unwinding of the stack, which
    # Rust does not survive: one process in forty aborts.
    ends = [0] if sys.version_info >= (3, 14) else [0, -signal.SIGABRT]
    assert outcome.returncode in ends
    assert outcome.stderr == ""


def test_opencl_objects_may_be_alive_at_the_end(opencl):
    outcome = run("import arrow_device as ad, pyarrow as pa; a = ad.array(pa.array([1])).to('opencl:0')")
    assert (outcome.returncode, outcome.stderr) == (0, "")


def documented():
    """Every docstring of the package that holds an example."""
    modules = [ad, ad.testing, share, sys.modules["arrow_device._devices"]]
    for module in modules:
        yield module.__name__, module.__doc__
        for name in getattr(module, "__all__", ()):
            each = getattr(module, name)
            yield f"{module.__name__}.{name}", inspect.getdoc(each)
            # The attributes of exceptions are documented where they are written down.
            if inspect.isclass(each) and not issubclass(each, BaseException):
                for member, value in vars(each).items():
                    yield f"{module.__name__}.{name}.{member}", inspect.getdoc(value)


EXAMPLES = {name: text for name, text in documented() if isinstance(text, str) and ">>>" in text}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_documentation_hold(name):
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed, tried = runner.run(test)
    assert failed == 0 and tried > 0


def test_everything_public_is_documented():
    assert len(EXAMPLES) >= 12
    for name, text in documented():
        member = name.rpartition(".")[2]
        if not member.startswith("_") or member.startswith(("__arrow", "__dlpack__", "__dlpack_device")):
            assert text, f"{name} has no documentation"


def test_the_stubs_are_those_of_the_module(tmp_path):
    # Modules that cannot be imported without what they are for, and the library that a Verilog
    # simulator loads.
    others = ["dask", "ray", "libarrow_device_vpi_module"]
    (tmp_path / "allowed").write_text("".join(f"arrow_device.{other}\n" for other in others))
    allow = ["--allowlist", str(tmp_path / "allowed"), "--ignore-unused-allowlist"]
    outcome = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "arrow_device", *allow], capture_output=True, text=True, cwd="/", timeout=600
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("files, message", [
    ({"ray/__init__.py": "raise ImportError('no ray')"}, "needs Ray, which is not installed: pip install ray=="),
    ({"ray/__init__.py": "__version__ = '1.0'"}, "of Ray 1.0 is not there: pip install ray=="),
    (
        {
            "ray/__init__.py": "__version__ = '9.0'",
            "ray/experimental/__init__.py": "def register_tensor_transport(): pass",
            "ray/experimental/rdt/__init__.py": "class TensorTransportManager: __abstractmethods__ = {'is_one_sided', 'hurry'}",
        },
        "of Ray 9.0 is another one (.*, hurry, .*): pip install ray==",
    ),
])
def test_another_ray_is_refused_with_what_to_do(files, message, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = "try: import arrow_device.ray\nexcept ImportError as error: print(error)"
    outcome = run(program, PYTHONPATH=str(tmp_path))
    assert outcome.stderr == "" and re.search(message.replace("(", r"\(").replace(")", r"\)"), outcome.stdout)


def test_errors_are_pythons_own_too():
    assert issubclass(ad.DataError, ValueError)
    assert issubclass(ad.ExchangeError, BufferError) and issubclass(ad.ExchangeError, ValueError)
    assert issubclass(ad.NotSupportedError, NotImplementedError)
    assert issubclass(ad.DeviceError, RuntimeError)
    assert issubclass(ad.OutOfMemoryError, MemoryError) and issubclass(ad.OutOfMemoryError, ad.DeviceError)
    assert issubclass(ad.TimedOutError, TimeoutError) and issubclass(ad.TimedOutError, ad.DeviceError)
    for name in ad.__all__:
        assert getattr(getattr(ad, name), "__module__", "arrow_device") in ("arrow_device", "arrow_device._native", "arrow_device._devices")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, RecursionError])
def test_what_is_raised_while_an_exception_is_made_comes_out(kind, monkeypatch):
    def interrupted(message):
        raise kind

    a = ad.array([1.5, None])
    for name, call in {"data": lambda: ad.array([300], type="int8"), "exchange": a.to_tensor}.items():
        with monkeypatch.context() as patch:
            patch.setitem(arrow_device._errors._CLASSES, name, interrupted)
            with pytest.raises(kind):
                call()
        with pytest.raises(ad.ArrowDeviceError):
            call()


PROCESSES = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "processes.md")
with open(PROCESSES) as file:
    PROGRAMS = [part.split("```")[0] for part in file.read().split("```python\n")[1:]]


@pytest.mark.parametrize("number, method", [(0, "fork"), (0, "spawn"), (0, "forkserver"), (1, None), (2, None)])
def test_the_programs_of_the_page_on_processes_run(number, method, tmp_path):
    assert len(PROGRAMS) == 3
    program = tmp_path / "program.py"
    start = f"import multiprocessing\nmultiprocessing.set_start_method({method!r}, force=True)\n" if method else ""
    program.write_text(start + PROGRAMS[number])
    outcome = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


README = os.path.join(os.path.dirname(__file__), "..", "README.md")
with open(README) as file:
    BLOCKS = [part.split("```")[0] for part in file.read().split("```python\n")[1:]]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split(", ")[1].split()[0].strip(","))
def test_the_examples_of_the_readme_run(block):
    for name in ("polars", "torch", "pylibcudf", "duckdb"):
        if name in block:
            pytest.importorskip(name, reason=f"skipped: {name} is not installed")
    if "opencl" in block and "opencl" not in {device.type for device in ad.devices()}:
        pytest.skip("skipped: there is no OpenCL device")
    exec(compile(block, "README.md", "exec"), {})
