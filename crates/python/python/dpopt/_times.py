"""Points and spans of time of Python, NumPy and pandas, as ticks: what the compiled library reads as days."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

#: Ticks of a day, by NumPy's names of units.
PER_DAY = {
    "D": 1,
    "h": 24,
    "m": 1440,
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def of_array(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, bool]:
    """An array of ``datetime64`` or ``timedelta64`` as ticks, which are missing, how many are a day, and whether they are points in time."""
    points = values.dtype.kind == "M"
    unit, count = np.datetime_data(values.dtype)
    if unit not in PER_DAY or count != 1:
        # weeks, months and years as days, what is finer than nanoseconds as these
        values = values.astype(("datetime64" if points else "timedelta64") + ("[D]" if unit in "YMW" else "[ns]"))
        unit, _ = np.datetime_data(values.dtype)
    return (np.ascontiguousarray(values).view(np.int64), np.isnat(values), PER_DAY[unit], points)


def ticks_of(value: Any) -> tuple[int, int, bool] | None:
    """One value: its ticks, how many are a day, and whether it is a point in time; None if it is neither a point nor a span."""
    # of pandas to its own resolution, so that a column of objects is what a column of dates is
    value = getattr(value, "asm8", value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        if np.isnat(value):
            return None
        ticks, _, per_day, points = of_array(np.array([value]))
        return (int(ticks[0]), per_day, points)
    if isinstance(value, datetime.datetime):
        if value != value:
            return None
        naive = value.astimezone(datetime.timezone.utc).replace(tzinfo=None) if value.tzinfo is not None else value
        return ((naive - _EPOCH) // _MICROSECOND, PER_DAY["us"], True)
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH.toordinal(), 1, True)
    if isinstance(value, datetime.timedelta):
        return (value // _MICROSECOND, PER_DAY["us"], False)
    if isinstance(value, datetime.time):
        span = datetime.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
        return (span // _MICROSECOND, PER_DAY["us"], False)
    return None


def in_toml(value: Any) -> str | None:
    """A public point or span of time as a bounds file writes it; None if it is neither."""
    found = ticks_of(value)
    if found is None:
        return None
    ticks, per_day, points = found
    microseconds = ticks * PER_DAY["us"] // per_day
    if points:
        moment = _EPOCH + datetime.timedelta(microseconds=microseconds)
        return moment.isoformat(timespec="microseconds")
    return f'"{"-" if microseconds < 0 else ""}PT{abs(microseconds) // 10**6}.{abs(microseconds) % 10**6:06}S"'


__all__ = ["PER_DAY", "in_toml", "of_array", "ticks_of"]
