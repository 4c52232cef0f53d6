"""The backend that pip calls: without cargo it says so, and with cargo it is maturin's."""

import importlib.util
import sys
import types
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
        "build_wheel",
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
