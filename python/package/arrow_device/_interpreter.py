"""Refuses interpreters beside the main one, before the compiled module is there.

What releases memory may run on any thread, without an interpreter, and finds the main one again; objects of several
interpreters would get mixed. Processes share data as well: see the pickles of arrays.
"""

from __future__ import annotations


def _is_main() -> bool:
    # Since Python 3.13, and before.
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
