"""Arrays for numpy: what `Array.__array__` does. numpy is imported when it asks."""

from __future__ import annotations

from typing import Any

_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
# The value that numpy takes for "no time".
_NAT = -(1 << 63)


def _kind(format: str) -> str | None:
    """The type of numpy for a type of times that is an integer of 64 bits in memory."""
    if format.startswith("ts"):
        return f"datetime64[{_UNITS[format[2]]}]"
    if format.startswith("tD"):
        return f"timedelta64[{_UNITS[format[2]]}]"
    return "datetime64[ms]" if format == "tdm" else None


def asarray(array: Any, dtype: Any, copy: bool | None) -> Any:
    """An array in host memory as one of numpy's, shared where it can be and ``copy`` is not true."""
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
    # Where there is no null after all, nothing is copied.
    try:
        return array.to_tensor(copy=False, as_integers=True)
    except ValueError:
        if copy is False:
            raise
    return array.to_tensor(nulls=_NAT, as_integers=True)


def _days(np: Any, array: Any) -> Any:
    days, other = (np.from_dlpack(array.to_tensor(nulls=fill, as_integers=True)) for fill in (0, 1))
    made = days.astype("int64").view("datetime64[D]")
    # Where the fill shows there is a null.
    made[days != other] = np.datetime64("NaT")
    return made
