"""The backend that pip calls: without cargo it says so, and with cargo it is maturin's."""

import base64
import hashlib
import importlib.util
import sys
import types
import zipfile
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[1] / "build_backend.py"
REQUIREMENTS = ["get_requires_for_build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_editable"]


@pytest.fixture
def backend():
    spec = importlib.util.spec_from_file_location("build_backend", BACKEND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("hook", REQUIREMENTS)
def test_a_missing_cargo_is_said_before_anything_is_asked_for(backend, hook, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CARGO", raising=False)
    with pytest.raises(SystemExit, match="cargo was not found"):
        getattr(backend, hook)()


@pytest.mark.parametrize("hook", REQUIREMENTS)
def test_maturin_is_asked_for_where_there_is_a_cargo(backend, hook, monkeypatch, tmp_path):
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CARGO", raising=False)
    assert getattr(backend, hook)({}) == [backend.MATURIN]
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CARGO", str(cargo))
    assert getattr(backend, hook)({}) == [backend.MATURIN]


@pytest.mark.parametrize(
    "hook",
    [
        "build_editable",
        "build_sdist",
        "prepare_metadata_for_build_editable",
        "prepare_metadata_for_build_wheel",
    ],
)
def test_all_else_is_done_by_maturin(backend, hook, monkeypatch):
    calls = []
    maturin = types.ModuleType("maturin")
    setattr(maturin, hook, lambda *arguments, **named: calls.append((arguments, named)) or "built")
    monkeypatch.setitem(sys.modules, "maturin", maturin)
    assert getattr(backend, hook)("folder", config_settings={"a": "b"}) == "built"
    assert calls == [(("folder",), {"config_settings": {"a": "b"}})]


def built(folder):
    """A folder of cargo's with a module, and a wheel that has none."""
    deps = folder / "target" / "some-system" / "release" / "deps"
    deps.mkdir(parents=True)
    wheel = folder / "arrow_device-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(zipfile.ZipInfo("arrow_device/_native.so"), "native")
        archive.writestr(zipfile.ZipInfo("arrow_device-0.dist-info/RECORD"), "arrow_device/_native.so,,\narrow_device-0.dist-info/RECORD,,\n")
    return deps, wheel


def test_a_wheel_has_what_a_simulator_loads_beside_the_library(backend, monkeypatch, tmp_path):
    deps, wheel = built(tmp_path)
    maturin = types.ModuleType("maturin")
    maturin.build_wheel = lambda folder, settings, metadata: wheel.name
    monkeypatch.setitem(sys.modules, "maturin", maturin)
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\necho '{{\"target_directory\": \"{tmp_path / 'target'}\"}}'\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("CARGO", str(cargo))
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(FileNotFoundError, match="cargo has left no libarrow_device_vpi_module"):
        backend.build_wheel(str(tmp_path))
    (deps / backend.MODULE).write_bytes(b"the module")
    assert backend.build_wheel(str(tmp_path)) == wheel.name
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"the module").digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"arrow_device/{backend.MODULE}") == b"the module"
        assert f"arrow_device/{backend.MODULE},sha256={digest},10\n" in archive.read("arrow_device-0.dist-info/RECORD").decode()
        # The list of files stays behind them.
        assert archive.namelist()[-1].endswith("RECORD")


def test_cargo_is_asked_about_the_manifest_that_maturin_builds(backend, monkeypatch, tmp_path):
    assert backend._manifest() == BACKEND.with_name("Cargo.toml")
    # In the package of sources, the root has the manifest of a workspace that is not whole.
    monkeypatch.setattr(backend, "__file__", str(tmp_path / "build_backend.py"))
    description = tmp_path / "pyproject.toml"
    description.write_text('[tool.maturin]\nmanifest-path = "python/Cargo.toml"\n')
    assert backend._manifest() == tmp_path / "python/Cargo.toml"
    deps, wheel = built(tmp_path)
    (deps / backend.MODULE).write_bytes(b"the module")
    maturin = types.ModuleType("maturin")
    maturin.build_wheel = lambda folder, settings, metadata: wheel.name
    monkeypatch.setitem(sys.modules, "maturin", maturin)
    cargo = tmp_path / "cargo"
    says = f"""echo '{{"target_directory": "{tmp_path / "target"}"}}'"""
    cargo.write_text(f"#!/bin/sh\n[ \"$2\" = '--manifest-path={tmp_path}/python/Cargo.toml' ] && {says}\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("CARGO", str(cargo))
    monkeypatch.setattr(sys, "platform", "linux")
    assert backend.build_wheel(str(tmp_path)) == wheel.name


def test_two_wheels_of_the_same_files_are_the_same_bytes(backend, tmp_path):
    wheels = []
    for name in ("one", "two"):
        deps, wheel = built(tmp_path / name)
        (deps / backend.MODULE).write_bytes(b"the module")
        backend.add_module(tmp_path / name / "target", wheel)
        wheels.append(wheel.read_bytes())
    assert wheels[0] == wheels[1]
