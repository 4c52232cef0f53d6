"""Refuses all interpreters but the main one, before the compiled module is loaded.

A release of memory may run on any thread, without an interpreter, and then uses the main interpreter; objects of several
interpreters would get mixed. Use processes instead, which can also share data: see ``arrow_device.share``.
"""

from __future__ import annotations


def _is_main() -> bool:
    # The name of the module since Python 3.13, and its name before.
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        return bool(module.get_current() == module.get_main())
    return True


if not _is_main():
    raise ImportError(
        "arrow_device works in the main interpreter of a process, and not in subinterpreters; use threads, which it is made "
        "for, or processes"
    )
