"""Values that Python has no type for."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MonthDayNano"]


class MonthDayNano(NamedTuple):
    """A length of time by the calendar: an element of any interval type.

    >>> import arrow_device as ad
    >>> ad.array([ad.MonthDayNano(1, 2, 3)]).type
    DataType('interval[month_day_nano]')
    """

    months: int
    days: int
    nanoseconds: int


MonthDayNano.__module__ = "arrow_device"
