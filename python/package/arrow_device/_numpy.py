"""Arrays for numpy: the implementation of `Array.__array__`. numpy is imported when this is first called."""

from __future__ import annotations

from typing import Any

_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
# The value of NaT ("not a time") in numpy.
_NAT = -(1 << 63)


def _kind(format: str) -> str | None:
    """numpy's type for an Arrow type of times that is a 64-bit integer in memory; None for any other type."""
    if format.startswith("ts"):
        return f"datetime64[{_UNITS[format[2]]}]"
    if format.startswith("tD"):
        return f"timedelta64[{_UNITS[format[2]]}]"
    return "datetime64[ms]" if format == "tdm" else None


def asarray(array: Any, dtype: Any, copy: bool | None) -> Any:
    """Makes a numpy array of an array in host memory. The memory is shared where possible, unless ``copy`` is true."""
    import numpy as np

    wanted = None if dtype is None else np.dtype(dtype)
    if wanted == np.dtype(object):
        if copy is False:
            raise ValueError("an array of Python objects is a copy")
        objects = np.empty(len(array), object)
        for index, value in enumerate(array):
            objects[index] = value
        return objects
    kind = _kind(array.type.format)
    if kind is not None:
        made = np.from_dlpack(_integers(array, copy)).view(kind)
    elif array.type.format == "tdD":
        if copy is False:
            raise ValueError("datetime64[D] of numpy has 64 bits and date32 has 32, so this is a copy")
        made = _days(np, array)
    else:
        made = np.from_dlpack(array.to_tensor(copy=False if copy is False else None))
    if wanted is not None and made.dtype != wanted:
        if copy is False:
            raise ValueError(f"an array of {made.dtype} becomes one of {wanted} by a copy only")
        return made.astype(wanted)
    return np.array(made) if copy else made


def _integers(array: Any, copy: bool | None) -> Any:
    if array.null_count == 0:
        return array.to_tensor(copy=False if copy is False else None, as_integers=True)
    # If the array has no null after all, nothing is copied.
    try:
        return array.to_tensor(copy=False, as_integers=True)
    except ValueError:
        if copy is False:
            raise
    return array.to_tensor(nulls=_NAT, as_integers=True)


def _days(np: Any, array: Any) -> Any:
    days, other = (np.from_dlpack(array.to_tensor(nulls=fill, as_integers=True)) for fill in (0, 1))
    made = days.astype("int64").view("datetime64[D]")
    # An element that differs between the two fills is a null.
    made[days != other] = np.datetime64("NaT")
    return made
