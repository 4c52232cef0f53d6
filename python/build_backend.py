"""What pip calls to build the package: maturin, after a look for cargo.

maturin's own backend asks pip for a package that downloads Rust where there is no cargo. Pip prints
nothing while that package tries, for minutes where there is no network. This backend asks for
nothing before the look, so a missing cargo is said at once.
"""

import os
import shutil
import sys

MATURIN = "maturin>=1.9,<2"


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


prepare_metadata_for_build_wheel = _hook("prepare_metadata_for_build_wheel")
prepare_metadata_for_build_editable = _hook("prepare_metadata_for_build_editable")
build_wheel = _hook("build_wheel")
build_sdist = _hook("build_sdist")
build_editable = _hook("build_editable")
