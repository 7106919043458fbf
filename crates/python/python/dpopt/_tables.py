"""Tables with named columns of any type (pandas, Polars, Arrow) for the compiled library, and what is declared of them by name.

A declared column is what it was declared to be, whatever its dtype: dtypes are often guessed from rows. Cells mean what they mean
on the command line: the same marks of missing values, numbers written as text are numbers in a numeric column.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _core, _times
from ._public_facts import Columns, declared_columns
from ._reading import attempt, kind, plainly, shown
from ._rows import _pair, of_each

#: What `encoding` says by default: a matrix is encoded wherever its columns have bounds and no parameter speaks of its rows.
AUTO = "auto"
#: Parameters that speak of the rows of a matrix as it is, and what they say by default.
PLAIN_ROWS = {
    "row_norm": None, "max_nonzeros": None, "fit_intercept": True, "intercept_scaling": 0.5, "accountant": "auto",
}  # fmt: skip
#: A matrix of more columns is no table: encoded, it would be planned for seconds and have some entries for each of them in every row.
WIDEST = 4096
#: Kinds of columns that are lists of names, and their key in a bounds file.
_FLAGS = {"text": "text", "hashed": "hash", "numeric": "numeric", "ignore": "ignore"}


def encoding_said(declaring: Any) -> Mapping[str, Any] | str | None:
    """What an estimator or an encoder says of the encoder: constants, ``"auto"``, or None."""
    given = getattr(declaring, "encoding", None)
    if given is None or isinstance(given, Mapping) or (isinstance(given, str) and given == AUTO):
        return given
    raise TypeError(
        f'encoding is {shown(given)}; give "auto", None for a matrix as it is, or constants: {{"knots": 12}}'
    )


def by_name(declaring: Any) -> bool:
    """Whether an estimator's parameters declare columns by name: `columns`, and `bounds` if it is a mapping or the path of a bounds file."""
    bounds, asked = getattr(declaring, "bounds", None), isinstance(encoding_said(declaring), Mapping)
    if isinstance(bounds, (str, os.PathLike, Mapping)):
        return True
    if bounds is not None and asked:
        return False
    unbounded = bounds is None and getattr(declaring, "bounds_budget", None) is None
    # which way predictions move can be said of x0, x1, … too
    named = set(declared_columns(declaring).given()) - ({"monotone"} if bounds is not None or not unbounded else set())
    return bool(named) or (asked and unbounded)


def by_position(declaring: Any, X: Any = None, columns: Any = None) -> bool:
    """Whether the columns of a matrix are encoded as a table's numeric columns are; of an `X` that is not there only the number of `columns` speaks
    against it."""
    said = encoding_said(declaring)
    if said is None or by_name(declaring):
        return False
    return said != AUTO or why_plain(declaring, X, columns) is None


def _width(X: Any) -> int:
    """The number of columns of a matrix or of a list of rows; 0 where there is none."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple):
        return int(shape[1]) if len(shape) == 2 else 0
    listed = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], (list, tuple, np.ndarray))
    return len(X[0]) if listed else 0


def why_plain(declaring: Any, X: Any = None, columns: Any = None) -> str | None:
    """Why ``encoding="auto"`` leaves a matrix as it is, by public facts alone; None where its columns are encoded."""
    if declaring.bounds is None and declaring.bounds_budget is None:
        return "its columns have no bounds"
    if sp.issparse(X):
        return "it is sparse"
    if (columns if isinstance(columns, (int, float, np.number)) else _width(X)) > WIDEST:
        return f"it has more than {WIDEST} columns"
    for parameter, usual in PLAIN_ROWS.items():
        given = getattr(declaring, parameter)
        if isinstance(given, np.ndarray) or given != usual:
            return f"{parameter} is given"
    if getattr(declaring.method, "public_moments", None) is not None:
        return "public_moments are of its columns"
    if getattr(declaring.method, "name", declaring.method) == "one-step":
        return "standard errors are of its columns"
    why: str | None = declaring._keeps_columns()
    return why


class NumberTable:
    """A matrix as a table of numeric columns.

    Parameters
    ----------
    values
        Rows × columns, floats.
    names
        Of its columns.
    """

    def __init__(self, values: np.ndarray, names: Sequence[str]) -> None:
        self.values, self.columns, self.shape = values, list(names), values.shape


def numbers_of(values: np.ndarray, names: Sequence[str]) -> NumberTable:
    """A matrix as a table: an infinite number is its bound, as in every matrix, where it would be missing in a table."""
    return NumberTable(np.nan_to_num(values, nan=np.nan) if np.isinf(values).any() else values, names)


def _distinct_names(X: Any) -> list[str]:
    """The names of a table's columns, without space around them, where they are different texts; of anything else none."""
    given = list(getattr(X, "column_names", None) or getattr(X, "columns", [])) if is_table(X) else []
    names = [name.strip() for name in given if isinstance(name, str)]
    return names if len(set(names)) == len(given) else []


def names_by_position(X: Any, columns: int) -> list[str]:
    """The names of a data frame where they can be declared, and x0, x1, … of a matrix. An error about one would quote it, and names of a table that was
    read without its header are a record."""
    given = _distinct_names(X)
    # a section [dpopt] of a bounds file is the encoder's own
    usable = all(name not in ("", "dpopt") and plainly(name) == name for name in given)
    return given if given and usable else [f"x{j}" for j in range(columns)]


def has_all(X: Any, names: Sequence[str]) -> bool:
    """Whether `X` is a table with all these columns, wherever they stand."""
    return set(names) <= set(_distinct_names(X))


def at_bounds(columns: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Columns for a model of a matrix, of which an infinite number is its bound, also in a data frame."""
    return [(name, _at_bounds(found)) for name, found in columns]


def _at_bounds(found: Any) -> Any:
    if isinstance(found, list):
        infinite = (np.inf, -np.inf)
        return [float(np.nan_to_num(v)) if isinstance(v, (float, np.floating)) and v in infinite else v for v in found]
    if isinstance(found, np.ndarray):
        return np.nan_to_num(found, nan=np.nan) if found.dtype.kind == "f" and np.isinf(found).any() else found
    # numbers and which are missing, or places and what stands there
    return tuple(map(_at_bounds, found)) if isinstance(found, tuple) and len(found) == 2 else found


def declared_for(declaring: Any, names: Sequence[str]) -> Any:
    """What an estimator declares, by name: bounds by position become those of the columns, which are numbers to be bounded privately without any."""
    if by_name(declaring):
        return declaring
    facts = {name: getattr(declaring, name, None) for name in ("columns", "encoding", "row_norm")}
    if declaring.bounds is None:
        monotone = declared_columns(declaring).monotone
        return SimpleNamespace(**{**facts, "bounds": None, "columns": Columns(numeric=list(names), monotone=monotone)})
    lower, upper = (of_each(b, len(names), "bounds").tolist() for b in _pair(declaring.bounds))
    for at, (low, high) in enumerate(zip(lower, upper)):
        # by its place: names of a table that was read without its header are a record
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(
                f"bounds must be finite with lower < upper for every feature, and those of feature {at} are not"
            )
        if not np.isfinite(high - low):
            raise ValueError(f"bounds of feature {at} are further apart than a float can say; give narrower ones")
    return SimpleNamespace(**{**facts, "bounds": dict(zip(names, zip(lower, upper)))})


# --- declarations ---------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    if any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ValueError("a name or level is not valid Unicode; give text that UTF-8 can hold")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: Any, where: str) -> str:
    """A public fact as a bounds file writes it."""
    time = attempt(lambda: _times.in_toml(value))
    if time is not None:
        return str(time)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value) if -(2**63) <= value < 2**63 else repr(float(value))
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(_toml(v, where) for v in value) + "]"
    raise TypeError(f"{where} holds a value that is {kind(value)}; give text, numbers or truth values")


def _names(given: Any, parameter: str) -> list[str]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{parameter} is {kind(given)}; give a list of column names")
    return list(names)


def _mapping(given: Any, parameter: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{parameter} is {kind(given)}; give a dict with a column name for each entry")
    return given


def _monotone(given: Any) -> Mapping[str, str]:
    if given is not None and (not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given)):
        raise TypeError(
            f'monotone is {kind(given)} whose names are not all text; give {{"age": "increasing"}}, where columns of an array are called x0, x1, …'
        )
    return given or {}


def _range(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(_mapping(given, "an entry of bounds"))
    if isinstance(given, np.ndarray):
        given = list(given)
    if not isinstance(given, (list, tuple)) or len(given) not in (2, 3):
        raise ValueError(
            'an entry of bounds must be (lower, upper), (lower, upper, "log") or a dict as in a bounds file'
        )
    return dict(zip(("lower", "upper", "transform"), given))


def declarations(declaring: Any, target: tuple[str, Mapping[str, Any]] | None = None) -> Any:
    """What an estimator's parameters declare, for the compiled library; also of a `target`."""
    bounds, path, columns = getattr(declaring, "bounds", None), None, declared_columns(declaring)
    if isinstance(bounds, (str, os.PathLike)):
        path, bounds = os.fspath(bounds), None
    elif bounds is not None and not isinstance(bounds, Mapping):
        raise ValueError('bounds must be by name here: {"age": (17, 90)}, or the path of a bounds file')
    tables: dict[str, dict[str, Any]] = {}

    def declare(name: str, facts: Mapping[str, Any]) -> None:
        if tables.setdefault(name, dict(facts)) != dict(facts):
            raise ValueError(f"column {shown(name)} is declared twice, as different kinds; keep one of the two")

    for name, given in _mapping(bounds or {}, "bounds").items():
        declare(name, _range(given))
    for name, given in _mapping(columns.levels or {}, "levels").items():
        if isinstance(given, (str, bytes)) or not isinstance(given, (list, tuple, np.ndarray)):
            raise TypeError(f"an entry of levels is {kind(given)}; give a list of levels")
        declare(name, {"levels": list(given)})
    for parameter, key in _FLAGS.items():
        for name in _names(getattr(columns, parameter) or [], parameter):
            declare(name, {key: True})
    for name, trend in _monotone(columns.monotone).items():
        if not isinstance(trend, str) or trend not in ("increasing", "decreasing"):
            raise ValueError(f'monotone has an entry that is {shown(trend)}; give "increasing" or "decreasing"')
        facts = tables.setdefault(name, {})
        if facts.setdefault("monotone", trend) != trend:
            raise ValueError(f"column {shown(name)} is declared increasing and decreasing; keep one of the two")
    if target is not None and target[1]:
        if "monotone" in tables.get(target[0], {}):
            raise ValueError(
                f"{shown(target[0])} is the target and declared monotone; say it of the columns that predictions move with"
            )
        declare(*target)
    said = encoding_said(declaring)
    options = dict(_mapping(said, "encoding")) if isinstance(said, Mapping) else {}
    row_norm = getattr(declaring, "row_norm", None)
    if row_norm is not None:
        options["row_norm"] = row_norm
    if options:
        tables["dpopt"] = {**tables.get("dpopt", {}), **options}
    lines = []
    for name, facts in tables.items():
        lines.append(f"[{_quoted(name)}]")
        lines += [f"{_quoted(key)} = {_toml(value, 'a declaration')}" for key, value in facts.items()]
    return _core.Declarations(path, "\n".join(lines) + "\n", vectors_path(columns.public_vectors))


def vectors_path(given: Any) -> str | None:
    """The path of a file of public vectors, as text."""
    found = None if given is None else attempt(lambda: os.fspath(given))
    if given is not None and not isinstance(found, str):
        raise TypeError(f"public_vectors is {kind(given)}; give the path of a file of word vectors")
    return found


def declared_in(declaring: Any) -> str | None:
    """Where the declarations come from, for the report."""
    own = f"the parameters of {type(declaring).__name__}"
    if isinstance(declaring.bounds, (str, os.PathLike)):
        more = any(declared_columns(declaring).given().values()) or isinstance(declaring.encoding, Mapping)
        return os.fspath(declaring.bounds) + (f" and {own}" if more else "")
    return own


# --- columns --------------------------------------------------------------------------------------------------------


def _module(value: Any) -> str:
    return type(value).__module__.split(".")[0]


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns") and hasattr(X, "dtypes")


def is_table(X: Any) -> bool:
    """Whether `X` is a table with named columns."""
    if _is_pandas(X) or isinstance(X, NumberTable):
        return True
    return _module(X) in ("polars", "pyarrow") and hasattr(X, "shape") and hasattr(X, "columns")


def names_of(X: Any) -> list[str]:
    """The names of a table's columns."""
    if not is_table(X):
        more = " (collect() a lazy frame first)" if type(X).__name__ == "LazyFrame" else ""
        raise TypeError(
            f"columns are declared by name, and X is {kind(X)}; give a table of pandas, Polars or Arrow{more}, or declare "
            "bounds=(lower, upper) for an array"
        )
    names = list(X.column_names if _module(X) == "pyarrow" else X.columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a column has a name that is not text; rename the columns, X.columns = [...]")
    return names


def names_told(wanted: Sequence[str], names: Sequence[str], declaring: Any) -> str:
    """Some of a table's names for a message: only where a name that was declared is among all of them, because the names of a table that
    was read without its header are a record."""
    if not {name.strip() for name in names} & set(declarations(declaring).names()):
        return f"({len(wanted)} of {len(names)})"
    more = f" and {len(wanted) - 12} more" if len(wanted) > 12 else ""
    return ", ".join(wanted[:12]) + more


def column(X: Any, j: int) -> Any:
    """Column `j` of a table."""
    if isinstance(X, NumberTable):
        return X.values[:, j]
    if _is_pandas(X):
        return X.iloc[:, j]
    return X.column(j) if _module(X) == "pyarrow" else X[:, j]


def without_rows(X: Any) -> Any:
    """The table's columns without its rows."""
    if isinstance(X, NumberTable):
        return NumberTable(X.values[:0], X.columns)
    return X.iloc[:0] if _is_pandas(X) else X.slice(0, 0)


def objects(values: Any) -> list[Any]:
    """A column as a list of its cells."""
    for convert in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, convert):
            found = attempt(getattr(values, convert))
            if isinstance(found, list):
                return found
    return list(values)


def unsupported(dtype: Any, rows: int) -> tuple[str, int]:
    """A column whose whole type holds neither numbers, texts nor times: the library refuses it before anything is spent."""
    return (str(dtype)[:60], rows)


def _of_array(values: np.ndarray) -> Any:
    if values.ndim != 1:
        raise ValueError(f"a column should be a 1d array, got an array of shape {values.shape} instead")
    if values.dtype.kind in "mM":
        return (*_times.of_array(values), False)
    if values.dtype.kind in "Vc":
        return unsupported("of records" if values.dtype.kind == "V" else "complex", len(values))
    if values.dtype.kind in "fiub":
        if values.dtype.itemsize > 8 or values.dtype == np.float16:
            values = values.astype(np.float64)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        return (values if values.flags.aligned else values.copy(), None)
    return objects(values)


def _of_arrow(values: Any) -> Any:
    # Arrow's messages may quote a cell
    found = attempt(lambda: _of_arrow_type(values))
    return objects(values) if found is None else found


def _of_arrow_type(values: Any) -> Any:
    import pyarrow as pa

    types = pa.types
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0) if values.num_chunks else pa.array([], type=values.type)
    dtype = values.type
    if isinstance(dtype, pa.BaseExtensionType):
        return _of_arrow_type(values.storage)
    if types.is_dictionary(dtype):
        inner = _of_arrow_type(values.dictionary)
        if isinstance(inner, tuple) and isinstance(inner[0], str):
            return unsupported(dtype, len(values))
        places = values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return (places, objects(values.dictionary))
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if types.is_boolean(dtype):
        return (values.fill_null(False).to_numpy(zero_copy_only=False), missing)
    if types.is_date(dtype) or types.is_time(dtype) or types.is_timestamp(dtype) or types.is_duration(dtype):
        unit = ("D" if dtype.bit_width == 32 else "ms") if types.is_date(dtype) else dtype.unit
        ticks = values.cast(pa.int32() if dtype.bit_width == 32 else pa.int64()).cast(pa.int64())
        none = np.zeros(len(values), dtype=bool) if missing is None else missing
        points = types.is_date(dtype) or types.is_timestamp(dtype)
        return (ticks.fill_null(0).to_numpy(zero_copy_only=False), none, _times.PER_DAY[unit], points, True)
    if types.is_integer(dtype) and not types.is_uint64(dtype):
        return (values.fill_null(0).to_numpy(zero_copy_only=False), missing)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return (values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), missing)
    string_view = getattr(types, "is_string_view", lambda _: False)
    if types.is_string(dtype) or types.is_large_string(dtype) or string_view(dtype):
        values = values.cast(pa.large_string())
        _, borders, text = values.buffers()
        first = values.offset
        found = np.frombuffer(borders, np.int64)[first : first + len(values) + 1] if borders else np.zeros(1, np.int64)
        none = np.zeros(len(values), dtype=bool) if missing is None else missing
        return (found, np.frombuffer(text, np.uint8) if text else np.empty(0, np.uint8), none)
    binary_view = getattr(types, "is_binary_view", lambda _: False)
    if types.is_null(dtype) or types.is_binary(dtype) or types.is_large_binary(dtype) or binary_view(dtype):
        return objects(values)
    if types.is_fixed_size_binary(dtype):
        return objects(values)
    return unsupported(dtype, len(values))


def _of_polars(values: Any) -> Any:
    """A column of Polars where Arrow is not there, or does not have its type."""
    dtype = values.dtype
    if dtype.is_nested() or type(dtype).__name__ == "DataTypeClass" or str(dtype).startswith("Object"):
        return objects(values) if str(dtype).startswith("Object") else unsupported(dtype, len(values))
    if dtype.is_temporal():
        none = values.is_null().to_numpy()
        per_day = {"Date": 1, "Time": _times.PER_DAY["ns"]}.get(str(dtype))
        per_day = _times.PER_DAY[dtype.time_unit] if per_day is None else per_day
        points = str(dtype).startswith("Date")
        return (values.to_physical().cast(int).fill_null(0).to_numpy(), none, per_day, points, True)
    if dtype.is_integer() and str(dtype) in ("Int128", "UInt128"):
        values = values.cast(float)
    return _of_array(values.to_numpy()) if dtype.is_numeric() else objects(values)


def _arrow_of(convert: Any) -> Any:
    """What `convert` gives as Arrow, if Arrow is there and takes it."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    return attempt(lambda: convert(pa))


def cells(values: Any) -> Any:
    """A column in a form that the compiled library reads: arrays, or a list of objects."""
    module = _module(values)
    if module == "pyarrow":
        return _of_arrow(values)
    if module == "polars":
        found = _arrow_of(lambda pa: values.to_arrow())
        if found is not None:
            return _of_arrow(found)
        return _of_polars(values)
    if hasattr(values, "iloc") and hasattr(values, "array"):
        dtype = values.dtype
        if isinstance(dtype, np.dtype):
            return _of_array(values.to_numpy())
        if str(dtype) == "category":
            inner = values.cat.categories.dtype
            if not isinstance(inner, np.dtype) and str(inner).startswith("interval"):
                return unsupported(inner, len(values))
            return (values.cat.codes.to_numpy().astype(np.int64), objects(values.cat.categories))
        if getattr(dtype, "tz", None) is not None and hasattr(values, "dt"):
            return _of_array(values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        if str(dtype).startswith("period"):
            return _of_array(values.dt.to_timestamp().to_numpy())
        if str(dtype).startswith("interval"):
            return unsupported(dtype, len(values))
        found = _arrow_of(lambda pa: pa.array(values.array)) if hasattr(values.array, "__arrow_array__") else None
        return objects(values) if found is None else _of_arrow(found)
    if isinstance(values, (list, tuple)):
        return list(values)
    found = attempt(lambda: np.asarray(values))
    if found is None:
        raise TypeError(f"a column is {kind(values)} and could not be read as an array")
    return _of_array(found)


def rows_at(X: Any, at: np.ndarray) -> Any:
    """Some rows of a table or a matrix, or some entries of a column, as the same kind of thing."""
    if hasattr(X, "iloc"):
        return X.iloc[at]
    if _module(X) == "pyarrow":
        return X.take(at)
    return [X[i] for i in at] if isinstance(X, (list, tuple)) else X[at]


def columns_of(X: Any, only: Iterable[str] | None = None) -> list[tuple[str, Any]]:
    """A table's columns by name, all or those that are wanted."""
    wanted = None if only is None else {name.strip() for name in only}
    names = names_of(X)
    return [(name, cells(column(X, j))) for j, name in enumerate(names) if wanted is None or name.strip() in wanted]


def one_column(y: Any) -> Any:
    """A target as one column."""
    if is_table(y):
        if y.shape[1] != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
        return column(y, 0)
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        return y.ravel()
    if y is None or isinstance(y, (str, bytes, dict, set)) or np.isscalar(y):
        raise ValueError(f"y should be a 1d array: it is {kind(y)}; give one label or number per row")
    return y


def source(X: Any) -> str:
    """How a report calls the table."""
    return "a matrix" if isinstance(X, NumberTable) else f"a table of {_module(X)}"


def own_name(y: Any) -> str | None:
    """The name that a target has itself."""
    own = names_of(y)[0] if is_table(y) and y.shape[1] == 1 else getattr(y, "name", None)
    return own if isinstance(own, str) and own.strip() else None


def target_name(declaring: Any, own: str | None, names: Sequence[str], regression: bool) -> str:
    """The name of the target's column: its own; or that of the one column that a bounds file declares as a target may be, and that X
    does not have."""
    own = own if own not in names else None
    if isinstance(declaring.bounds, (str, os.PathLike)):
        declared, held = declarations(declaring), {n.strip() for n in names}
        absent = [name for name in declared.names() if name not in held]
        if len(absent) == 1 and declared.kind(absent[0]) == ("numeric" if regression else "levels"):
            return absent[0]
    name = own or "y"
    while name in names:
        name += "_"
    return name


__all__ = [
    "AUTO",
    "NumberTable",
    "PLAIN_ROWS",
    "WIDEST",
    "at_bounds",
    "by_name",
    "by_position",
    "cells",
    "columns_of",
    "declarations",
    "declared_for",
    "declared_in",
    "encoding_said",
    "has_all",
    "is_table",
    "names_by_position",
    "names_of",
    "names_told",
    "numbers_of",
    "objects",
    "one_column",
    "own_name",
    "rows_at",
    "source",
    "target_name",
    "vectors_path",
    "why_plain",
    "without_rows",
]
