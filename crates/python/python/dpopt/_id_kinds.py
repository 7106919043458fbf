"""Ids of units in parts: what kind of ids a part has, so that equal ids are called the same wherever they are.

An id is read by the type of its column. The integer 2⁶⁰ + 1 and the float that is nearest to it, .1 in 32 and in 64 bits, or one moment in
nanoseconds and in microseconds have different names. Within one kind of this fixed list, equal ids have the same name in every part.
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._reading import attempt
from ._tables import cells
from ._units import _ids, _is_missing, _is_whole

_PLAIN = ("text", "whole", "truth", "float16", "float32", "float64", "nobody")
_UNITS = ("D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
#: Numbers of ticks: moments without a zone and with one, spans, times of day.
_TICKS = ("moment", "zoned", "span", "time")


def is_kind(kind: str) -> bool:
    """Whether it is one of the list."""
    family, _, unit = kind.partition(" ")
    return kind in _PLAIN or (family in _TICKS and unit in _UNITS)


def ids_of_parts(values: Any) -> tuple[Any, str] | None:
    """Ids in a form that the compiled library reads, and what kind they are of; None if they are of several, or of one whose names depend on what else is
    in the part."""
    ids = _ids(values, strict=False)
    if isinstance(ids, tuple) and isinstance(ids[0], str):
        # a column of a type that holds no ids
        kind: str | None = None
    elif isinstance(ids, tuple) and len(ids) == 3:
        kind = "text"
    elif isinstance(ids, tuple) and not isinstance(ids[1], list):
        kind = _of_numbers(ids[0].dtype, values)
    else:
        kind = _of_objects(values)
    return None if kind is None else (ids, kind)


def _of_numbers(read: np.dtype[Any], values: Any) -> str | None:
    """Of an array, by the type that the column has where it came from."""
    dtype = _dtype(values)
    ticks = _ticks(dtype)
    if ticks is not None:
        return ticks if is_kind(ticks) else None
    if read == np.uint64:
        # was read as floats
        return None
    if read.kind in "iu":
        return "whole"
    if read.kind == "b":
        return "truth"
    name = str(dtype).lower()
    if "float16" in name or "half" in name or name.endswith("f2"):
        return "float16"
    if read == np.float32 or "float32" in name or name == "float" or name.startswith("float["):
        return "float32"
    return "float64"


def _dtype(values: Any) -> Any:
    """A column's type; Arrow's where it has one."""
    if type(values).__module__.startswith("polars"):
        found = attempt(lambda: values.to_arrow().type)
        return values.dtype if found is None else found
    if not hasattr(values, "dtype") and not hasattr(values, "type"):
        return np.asarray(values).dtype
    dtype = values.dtype if hasattr(values, "dtype") else values.type
    return getattr(dtype, "pyarrow_dtype", dtype)


def _ticks(dtype: Any) -> str | None:
    """The kind of a column of times; one that is not in the list if it has no name; None of anything else."""
    if isinstance(dtype, np.dtype):
        if dtype.kind not in "mM":
            return None
        unit, count = np.datetime_data(dtype)
        return f"{'moment' if dtype.kind == 'M' else 'span'} {unit if count == 1 else 'several'}"
    name = str(dtype).lower()
    if name.startswith("date32"):
        return "moment D"
    if name.startswith("date64"):
        return "moment ms"
    if not any(word in name for word in ("date", "time", "duration", "interval")):
        return None
    if name.startswith(("timestamp", "datetime")):
        return f"{'moment' if getattr(dtype, 'tz', None) is None else 'zoned'} {getattr(dtype, 'unit', 'unknown')}"
    return f"time {getattr(dtype, 'unit', 'unknown')}" if name.startswith(("time32", "time64")) else "unknown"


def _of_objects(values: Any) -> str | None:
    """Of texts and numbers as objects; levels of a category are what it has."""
    found = attempt(lambda: cells(values))
    listed = found[1] if isinstance(found, tuple) and isinstance(found[1], list) else found
    if not isinstance(listed, list):
        # whole numbers of 64 bits without a sign, and decimals, which were read as objects
        declared = str(_dtype(values)).lower()
        if declared.startswith("uint64") or getattr(_dtype(values), "scale", 1) <= 0:
            return "whole"
        return None
    kinds = set(map(_of_object, _present(listed)))
    if not kinds:
        return "nobody"
    return kinds.pop() if len(kinds) == 1 else None


def _present(values: Iterable[Any]) -> Iterable[Any]:
    return (value for value in values if not (_is_missing(value) or (isinstance(value, float) and value != value)))


def _of_object(value: Any) -> str | None:
    if isinstance(value, (str, bytes)):
        return "text"
    if isinstance(value, (bool, np.bool_)):
        return "truth"
    if isinstance(value, numbers.Integral) or (isinstance(value, decimal.Decimal) and _is_whole(value)):
        return "whole"
    if isinstance(value, float):
        return "float64"
    return {np.float32: "float32", np.float16: "float16"}.get(type(value))


__all__ = ["ids_of_parts", "is_kind"]
