"""What pip calls to build the package: maturin, after a look for cargo. Wheels get what maturin does not put into them.

maturin's own backend asks pip for a package that downloads Rust where there is no cargo. Pip prints
nothing while that package tries, for minutes where there is no network. This backend asks for
nothing before the look, so a missing cargo is said at once.

A Verilog simulator loads a module, which cargo builds with the package, and which is looked for beside the package's own
library. Where maturin is called directly, `python build_backend.py TARGET WHEEL` puts the module into the wheel; TARGET is the
folder that cargo built in.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib
import zipfile

MATURIN = "maturin>=1.9,<2"
MODULE = "libarrow_device_vpi_module.dylib" if sys.platform == "darwin" else "libarrow_device_vpi_module.so"


def _needed():
    # `CARGO` is what cargo's own environment says, and what maturin takes first.
    if shutil.which(os.environ.get("CARGO", "cargo")) is None:
        sys.exit(
            "arrow-device is compiled from its sources here, and cargo was not found.\n"
            "Install Rust 1.88 or newer by rustup, or put the folder of cargo into PATH."
        )
    return [MATURIN]


def get_requires_for_build_wheel(config_settings=None):
    return _needed()


def get_requires_for_build_sdist(config_settings=None):
    return _needed()


def get_requires_for_build_editable(config_settings=None):
    return _needed()


def _hook(name):
    def run(*arguments, **named):
        # Not above: there is no maturin before the hooks above have asked for it.
        import maturin

        return getattr(maturin, name)(*arguments, **named)

    run.__name__ = name
    return run


def add_module(target, wheel):
    """Puts the module for simulators beside the library in a wheel: the newest of a folder of cargo's, which is that of the
    wheel. The same files become the same bytes."""
    built = [*pathlib.Path(target).glob(f"*/deps/{MODULE}"), *pathlib.Path(target).glob(f"*/*/deps/{MODULE}")]
    if not built:
        raise FileNotFoundError(f"cargo has left no {MODULE} in {target}")
    module = max(built, key=lambda path: path.stat().st_mtime_ns).read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(module).digest()).rstrip(b"=").decode()
    name = f"arrow_device/{MODULE}"
    wheel = pathlib.Path(wheel)
    complete = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(complete, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                file = zipfile.ZipInfo(name, entry.date_time)
                file.external_attr = 0o100755 << 16
                new.writestr(file, module, zipfile.ZIP_DEFLATED)
                data = f"{name},sha256={digest},{len(module)}\n".encode() + data
            new.writestr(entry, data, zipfile.ZIP_DEFLATED)
    complete.replace(wheel)


def _manifest():
    """The manifest of the package for cargo. The package of sources has another one in its root, which names crates that only
    a checkout has."""
    folder = pathlib.Path(__file__).parent
    described = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return folder / described["tool"]["maturin"].get("manifest-path", "Cargo.toml")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    import maturin

    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    # There are no simulators by Unix sockets on Windows.
    if sys.platform != "win32":
        cargo = [os.environ.get("CARGO", "cargo"), "metadata", f"--manifest-path={_manifest()}"]
        metadata = [*cargo, "--format-version=1", "--no-deps", "--offline"]
        target = json.loads(subprocess.check_output(metadata))["target_directory"]
        add_module(target, pathlib.Path(wheel_directory) / name)
    return name


prepare_metadata_for_build_wheel = _hook("prepare_metadata_for_build_wheel")
prepare_metadata_for_build_editable = _hook("prepare_metadata_for_build_editable")
build_sdist = _hook("build_sdist")
build_editable = _hook("build_editable")

if __name__ == "__main__":
    add_module(*sys.argv[1:])
