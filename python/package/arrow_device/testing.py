"""Helpers for tests of programs that use devices.

``arrow_device.device("ext_dev:0")`` is a device made of software, and ``"ext_dev:1"`` a second one that cannot reach the
first. The host cannot read the memory of these devices, and their work runs only when somebody waits for it. The devices find
each access that nothing orders, memory that is freed too early and similar mistakes in every run, and ``take_reports`` returns
reports of these mistakes.
"""

from __future__ import annotations

from arrow_device import _native

__all__ = ["live_objects", "run_until_idle", "take_reports"]


def take_reports() -> list[str]:
    """The mistakes of the program that the software devices have found since the last call.

    >>> import arrow_device as ad, arrow_device.testing, pyarrow as pa
    >>> there = ad.array(pa.array([1, 2])).to("ext_dev:0")
    >>> there.to_host() == there
    True
    >>> ad.testing.take_reports()
    []
    """
    return _native._reports()


def run_until_idle() -> None:
    """Lets the software devices do all submitted work that nobody waits for, as a real device would have done by now."""
    _native._run_until_idle()


def live_objects() -> dict[str, int]:
    """How many objects of this package are alive, by kind, and how much memory waits for its last use on a device."""
    return _native._live()
