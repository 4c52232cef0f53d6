"""What type checkers say of programs that use the package: mypy and pyright (as basedpyright, which is a wheel), both strict."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys

import pytest

import arrow_device as ad
from support import skip

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
PACKAGE = os.path.dirname(ad.__file__)


def snippets():
    """The Python of all pages."""
    pages = ["README.md", "python/README.md"]
    for folder in ("docs", "book/src"):
        pages += (f"{folder}/{name}" for name in sorted(os.listdir(f"{ROOT}/{folder}")) if name.endswith(".md"))
    for page in pages:
        with open(os.path.join(ROOT, page)) as file:
            for number, part in enumerate(file.read().split("```python\n")[1:]):
                yield f"{page.removesuffix('.md').replace('/', '_').replace('.', '_')}_{number}", part.split("```")[0]


# What is said here of types is checked by `assert_type`.
PROGRAM = """
from typing import assert_type

import arrow_device as ad
import numpy as np

a = ad.array(np.arange(3))
print(np.from_dlpack(a), np.from_dlpack(a.to_tensor()), np.from_dlpack(ad.from_dlpack(np.ones(2))))
for b in ad.stream(np.zeros(n) for n in (1, 2)):
    assert_type(b, ad.RecordBatch)
    print(b.num_rows, b.column_names)


def numbers(arrays: ad.Stream[ad.Array]) -> None:
    assert_type(next(arrays), ad.Array)
    assert_type(arrays.to("cpu").read_all(), list[ad.Array])


numbers(ad.stream([a, a]))
assert_type(ad.devices()[0], ad.Device)
assert_type(ad.devices().missing, dict[str, str])
queue = ad.devices()[0].queue()
assert_type(ad.array(a, device=queue), ad.Array)
assert_type(ad.record_batch({"x": a}).to(queue), ad.RecordBatch)
assert_type(ad.record_batch({"x": a})["x"], ad.Array)
assert_type(ad.record_batch({"x": a})[1:], ad.RecordBatch)


async def read() -> None:
    async with ad.stream(a).to_async() as stream:
        async for c in stream:
            assert_type(c, ad.RecordBatch)
    assert_type(await anext(ad.stream(a).to_async()), ad.RecordBatch)
"""


@pytest.fixture
def programs(tmp_path):
    """A folder with all of it."""
    for name, text in [*snippets(), ("program", PROGRAM)]:
        (tmp_path / f"{name}.py").write_text(text)
    assert len(list(tmp_path.iterdir())) > 5
    return tmp_path


def check(command, folder):
    path = os.pathsep.join(filter(None, [os.path.dirname(PACKAGE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "MYPYPATH": os.path.dirname(PACKAGE) if "site-packages" not in PACKAGE else "", "PYTHONPATH": path}
    outcome = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder, env=environment, timeout=500)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_mypy_finds_nothing_in_the_examples(programs):
    # Some libraries have no types, or are not installed.
    check(["mypy", "--strict", "--ignore-missing-imports", "."], programs)


def test_mypy_finds_nothing_in_the_package(tmp_path):
    # Beside the package lie others, such as typing_extensions, that mypy knows already.
    shutil.copytree(PACKAGE, tmp_path / "arrow_device", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    check(["mypy", "--strict", "arrow_device"], tmp_path)


def settings(folder, **more):
    # Where other libraries have no types, neither have their results.
    unknown = ("MemberType", "VariableType", "ArgumentType")
    others = {f"reportUnknown{of}": False for of in unknown}
    others |= {"reportMissingTypeStubs": False, "reportMissingImports": False, "reportMissingModuleSource": False}
    config = {"typeCheckingMode": "strict", "extraPaths": [os.path.dirname(PACKAGE)], **others, **more}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))


@pytest.fixture
def pyright():
    if importlib.util.find_spec("basedpyright") is None:
        skip("basedpyright", "not installed")
    return ["basedpyright", "--pythonpath", sys.executable]


def test_pyright_finds_nothing_in_the_examples(programs, pyright):
    settings(programs)
    check([*pyright, "--project", "."], programs)


def test_pyright_knows_the_types_of_all_that_is_public(tmp_path, pyright):
    check([*pyright, "--verifytypes", "arrow_device", "--ignoreexternal"], tmp_path)


def test_a_stream_may_be_annotated_with_what_it_gives():
    assert ad.Stream[ad.Array].__origin__ is ad.Stream
