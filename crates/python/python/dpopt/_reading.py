"""Records as they come in: read once, without a message that shows a value.

Tables of numbers (NumPy, SciPy, numeric columns of pandas, Polars and Arrow) are read without any error that a record could
cause: a missing or infinite number is taken as it is, and whoever uses it says what it counts as. Cells of other types (text
in an array of objects, ragged lists) are refused with their position and type. Nothing here lets another library's message
through, because NumPy, pandas and scikit-learn quote what they could not read; errors are raised outside of ``except``, so
that no chain holds one either.
"""

from __future__ import annotations

import decimal
import fractions
import numbers
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from . import _core
from ._warnings import warn

#: Kinds of NumPy's dtypes that are numbers.
_NUMERIC = "fiub"

#: Added where numbers come and classes are text.
_NUMBERED = (
    " (voting, stacking and bagging of scikit-learn hand their members the labels' numbers 0, 1, … in sorted order: declare "
    "classes=[0, 1] or as many as there are, and the ensemble gives the labels back)"
)


def kind(value: Any) -> str:
    """What a value is, without the value."""
    if value is None:
        return "None"
    if isinstance(value, (str, bytes)):
        return "text"
    if isinstance(value, (int, float, np.number, np.bool_)):
        return "a number"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "a sequence"
    return f"of type {type(value).__name__}"


def shown(value: Any) -> str:
    """A parameter as it may stand in a message: numbers and short names; of anything else, only what it is."""
    if value is None or isinstance(value, (bool, int, float, np.number, np.bool_)):
        return str(value)
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    return kind(value)


def plainly(text: str) -> str:
    """A foreign text as it may be printed: what a terminal would obey is U+FFFD."""
    return _core.foreign(text.encode("utf-8", "replace").decode())


def plain(text: str, name: str) -> str:
    """A public text; refused where a terminal would obey a part of it."""
    if plainly(text) != text:
        raise ValueError(
            f"{name} has control characters (line breaks, escapes, marks of writing direction), which can manipulate a terminal; leave them out"
        )
    return text


def number(value: Any, name: str) -> float:
    """A public parameter as a float."""
    plain = isinstance(value, (numbers.Real, np.bool_)) or getattr(value, "ndim", None) == 0
    found = attempt(lambda: float(value)) if plain else None
    if found is None:
        raise TypeError(f"{name} is {kind(value)}; give a number")
    return found


def positive(value: Any, name: str) -> float:
    """A public parameter as a positive, finite float."""
    found = number(value, name)
    if not (found > 0 and np.isfinite(found)):
        raise ValueError(f"{name} is {found:g}; give a positive, finite number")
    return found


def whole(value: Any, name: str) -> int:
    """A public parameter as an int."""
    if not isinstance(value, (numbers.Integral, np.bool_)):
        found = number(value, name)
        if found != found or found in (np.inf, -np.inf) or int(found) != found:
            raise ValueError(f"{name} must be a whole number")
        return int(found)
    return int(value)


def attempt(convert: Callable[[], Any]) -> Any:
    """What `convert` gives, or None if it fails; its message may quote a record and goes nowhere."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return convert()
    except Exception:
        return None


def _missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _cell(value: Any) -> float | None:
    if _missing(value):
        return np.nan
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        return None
    found = attempt(lambda: float(value))
    if found is None and isinstance(value, (int, fractions.Fraction)):
        # too large for a float
        return np.inf if value > 0 else -np.inf
    return found


#: What to do with a data frame of more than numbers.
_BY_NAME = '; or declare the columns by name, bounds={"age": (17, 90)}, columns=dpopt.Columns(levels={"sex": [...]}, text=[...]), and the table is encoded'


#: And of an estimator that takes nothing else.
_AS_NUMBERS = "; make a column of 0 and 1 of each level of a category beforehand, by levels that are public"


def _cells(values: np.ndarray, name: str, more: str = "") -> np.ndarray:
    """An array of objects as float64."""
    whole = attempt(lambda: values.astype(np.float64))
    if whole is not None:
        return whole
    out = np.empty(values.shape)
    wrong = None
    for at, value in np.ndenumerate(values):
        found = _cell(value)
        if found is None:
            wrong = (at, kind(value))
            break
        out[at] = found
    if wrong is not None:
        at, what = wrong
        place = f"row {at[0]}" + "".join(f", column {j}" for j in at[1:]) if at else "it"
        # scikit-learn's convention: TypeError for objects, ValueError for text
        error = ValueError if what == "text" else TypeError
        raise error(
            f"{place} of {name} is {what}: every argument must be a number, or a string that reads as a number{more}"
        )
    return out


def _rows(values: Sequence[Any], name: str) -> np.ndarray:
    """A list (of lists) as an array, of numbers where it can be."""
    whole = attempt(lambda: np.asarray(values))
    return whole if whole is not None and whole.dtype.kind in _NUMERIC + "c" else listed_cells(values, name)


def listed_cells(values: Sequence[Any], name: str) -> np.ndarray:
    """A list (of lists) as an array of objects, each cell as it is."""
    lengths = {len(row) if isinstance(row, (list, tuple, np.ndarray)) else -1 for row in values}
    if len(lengths) > 1:
        first = len(values[0]) if isinstance(values[0], (list, tuple, np.ndarray)) else None
        odd = next(
            i for i, row in enumerate(values)
            if (len(row) if isinstance(row, (list, tuple, np.ndarray)) else None) != first
        )  # fmt: skip
        raise ValueError(f"row {odd} of {name} has another number of entries than row 0; give rows of equal length")
    if lengths == {-1}:
        flat = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            flat[i] = value
        return flat
    nested = np.empty((len(values), lengths.pop()) if lengths else (0,), dtype=object)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            nested[i, j] = value
    return nested


def cells(values: Any, name: str) -> np.ndarray:
    """Any other array-like as an array of objects."""
    found = attempt(lambda: np.asarray(values, dtype=object))
    if found is None:
        raise TypeError(f"{name} is {kind(values)} and could not be read as an array")
    return found


def array(values: Any, name: str) -> np.ndarray:
    """Any array-like as a float array of its own shape; float32 stays float32, everything else becomes float64."""
    if values is None or isinstance(values, (str, bytes, dict, set)):
        raise TypeError(f"{name} is {kind(values)}; give an array of numbers")
    if sp.issparse(values):
        raise TypeError(
            f"{name} is a sparse matrix, and sparse data are not read here; give a dense array (.toarray())"
        )
    if isinstance(values, np.ma.MaskedArray):
        values = attempt(lambda: values.astype(np.float64).filled(np.nan))
    if isinstance(values, (list, tuple)):
        found: Any = _rows(values, name)
    elif hasattr(values, "iloc") and hasattr(values, "columns"):
        found = np.asarray(table(values, name))
    else:
        found = attempt(lambda: np.asarray(values))
    if found is None:
        raise TypeError(f"{name} is {kind(values)} and could not be read as an array; give an array of numbers")
    if found.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has complex numbers; give the real and imaginary parts as two columns"
        )
    if found.dtype.kind in _NUMERIC:
        if found.dtype in (np.float32, np.float64):
            return found
        with np.errstate(all="ignore"):
            return found.astype(np.float64)
    if found.dtype.kind in "OUS":
        return _cells(found.astype(object), name)
    raise TypeError(
        f"{name} holds dates or records, not numbers (dtype kind {found.dtype.kind}); convert it to numbers"
    )


def _plain_columns(X: Any, name: str, more: str) -> Any:
    """A pandas table whose columns are all numbers; itself if they are. An error ends with `more`."""
    kinds = [dtype.kind if isinstance(dtype, np.dtype) and dtype.itemsize <= 8 else "O" for dtype in X.dtypes]
    if all(k in _NUMERIC for k in kinds):
        return X
    columns = []
    for j in range(X.shape[1]):
        column = X.iloc[:, j]
        found = None
        if kinds[j] in _NUMERIC + "O" and not _is_category_of_text(column):
            found = attempt(lambda: column.to_numpy(dtype=np.float64, na_value=np.nan))
        if found is None:
            found = _cells(np.asarray(column, dtype=object), f"column {j} of {name}", more)
        columns.append(found)
    return type(X)(np.column_stack(columns) if columns else np.empty(X.shape), columns=X.columns, index=X.index)


def _is_category_of_text(column: Any) -> bool:
    return str(column.dtype) == "category" and column.cat.categories.dtype.kind not in _NUMERIC


def as_table(X: Any) -> Any:
    """Arrow and Polars tables as what scikit-learn's validation understands; everything else unchanged."""
    module = type(X).__module__.split(".")[0]
    if module not in ("pyarrow", "polars") or not hasattr(X, "columns"):
        return X
    names = list(X.column_names if module == "pyarrow" else X.columns)
    if module == "pyarrow":
        columns = [attempt(lambda: np.asarray(X.column(i))) for i in range(len(names))]
    else:
        columns = [attempt(lambda: X[:, i].to_numpy()) for i in range(len(names))]
    for j, column in enumerate(columns):
        if column is None:
            raise TypeError(
                f"column {j} of the table cannot be read as an array; give columns of numbers, text or truth values"
            )
    try:
        import pandas as pd
    except ImportError:
        return np.column_stack(columns)
    return pd.DataFrame(dict(zip(names, columns)), copy=False)


def table(X: Any, name: str = "X", sparse: bool = False, more: str = _BY_NAME) -> Any:
    """A table of numbers: a dense array of two dimensions, a pandas table of numeric columns, or (if `sparse`) a SciPy matrix."""
    X = as_table(X)
    if sp.issparse(X):
        if not sparse:
            raise TypeError(
                f"{name} is a sparse matrix, and sparse data are not read here; give a dense array (.toarray())"
            )
        if X.dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported: {name} has complex numbers; give the real and imaginary parts as two columns"
            )
        if X.dtype.kind not in _NUMERIC:
            raise TypeError(f"{name} is a sparse matrix of objects; give one of numbers")
        if X.dtype.itemsize > 8:
            with np.errstate(all="ignore"):
                X = X.astype(np.float64)
        return X
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return _plain_columns(X, name, more)
    # numbers of more than 64 bits may overflow, of which NumPy would warn
    plain = type(X) is np.ndarray and X.dtype.kind in _NUMERIC and X.dtype.itemsize <= 8
    found = X if plain else array(X, name)
    if found.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {found.ndim}D array instead: {name} must be rows × columns. Reshape your data, either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is a single record"
        )
    return found


def check_names(estimator: Any, X: Any, name: str) -> None:
    """Column names are shown only where one of them is known: without a header they are values of a record."""
    known = getattr(estimator, "feature_names_in_", None)
    names = getattr(X, "columns", None)
    if known is None or names is None or not all(isinstance(n, str) for n in names) or not len(names):
        return
    if not set(known) & set(names):
        raise ValueError(
            f"The feature names should match those that were passed during fit: none of the {len(names)} names of {name} does. They are not shown, since the first line may be a record: read the table with its header"
        )


def validated(estimator: Any, X: Any, *, reset: bool, sparse: bool = True, name: str = "X") -> Any:
    """`X` as a float array or CSR matrix, with scikit-learn's checks of its shape and column names."""
    X = table(X, name, sparse=sparse, more=_BY_NAME if hasattr(estimator, "columns") else _AS_NUMBERS)
    if not reset:
        check_names(estimator, X, name)
    return validate_data(
        estimator, X, accept_sparse="csr" if sparse else False, dtype=[np.float64, np.float32], order=None, ensure_all_finite=False,
        reset=reset,
    )  # fmt: skip


def _one_column(values: np.ndarray, name: str) -> np.ndarray:
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), for example "
            "using ravel().", DataConversionWarning, stacklevel=4,
        )  # fmt: skip
        return values.ravel()
    if values.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got an array of shape {values.shape} instead.")
    return values


def required(y: Any, estimator: Any) -> Any:
    """`y`, which may not be None."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    return y


def same_length(X: Any, y: Any) -> None:
    """One target per row."""
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if rows != len(y):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {rows} rows and y has {len(y)}"
        )


def target(y: Any, name: str = "y") -> np.ndarray:
    """One number per record as float64; what is missing is NaN."""
    if hasattr(y, "to_frame") and hasattr(y, "iloc"):
        return array(y.to_frame(), name).ravel().astype(np.float64, copy=False)
    return _one_column(array(as_table(y), name), name).astype(np.float64, copy=False)


def scored(known: np.ndarray, sample_weight: Any, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Which records count in a score, and their weights: those of which `what` is known, as in `dpopt evaluate`; says how many do not."""
    weights = None if sample_weight is None else target(sample_weight, "sample_weight")
    if weights is not None:
        same_length(known, weights)
        weights = weights[known]
    if not known.any():
        raise ValueError(f"no record has {what}, so there is nothing to score")
    if not known.all():
        warn(f"{(~known).sum()} of {len(known)} records are without {what} and are left out of the score")
    return known, weights


def labels(y: Any, name: str = "y") -> np.ndarray:
    """One label per record: an array of numbers, of text, or of objects where types are mixed."""
    y = as_table(y)
    if isinstance(y, (str, bytes, dict, set)) or np.isscalar(y):
        raise ValueError(f"{name} should be a 1d array: it is {kind(y)}; give one label per record")
    if sp.issparse(y):
        raise TypeError(f"{name} is a sparse matrix; give one label per record")
    if isinstance(y, (list, tuple)):
        flat = np.empty(len(y), dtype=object)
        for i, value in enumerate(y):
            flat[i] = value
        if len({type(v) for v in y}) == 1 and not isinstance(y[0], (dict, set)):
            # only if all records are of one type, which then is a fact of the table
            found = attempt(lambda: np.asarray(y))
            flat = flat if found is None else found
        found = flat
    else:
        found = attempt(lambda: np.asarray(y))
    if found is None or found.dtype.kind == "V":
        raise TypeError(f"{name} could not be read as one label per record")
    if found.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has complex numbers")
    return _one_column(found, name)


def hashable(value: Any) -> bool:
    return attempt(lambda: hash(value)) is not None


def as_text(values: np.ndarray) -> np.ndarray:
    """Labels in bytes as their text, alone or among others; what is none stays as it is."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind != "O" or not any(isinstance(value, bytes) for value in values.flat):
        return values
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values.tolist()]
    out = np.empty(len(texts), dtype=object)
    for i, value in enumerate(texts):
        out[i] = value
    return out


def codes(found: np.ndarray, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """Place of each record's label among the public `classes`; −1 where it is none of them. Bytes count as their text."""
    found, classes = as_text(found), as_text(classes)
    numeric, text = (
        (found.dtype.kind in _NUMERIC, classes.dtype.kind in _NUMERIC),
        (found.dtype.kind == "U", classes.dtype.kind == "U"),
    )
    if all(numeric) or all(text):
        place = np.minimum(np.searchsorted(classes, found), len(classes) - 1)
        return np.where(classes[place] == found, place, -1)
    if numeric[0] and text[1] or text[0] and numeric[1]:
        raise ValueError(
            f"{name} holds {'numbers' if numeric[0] else 'text'} and the classes are {'text' if text[1] else 'numbers'}; use one"
            + (_NUMBERED if numeric[0] else "")
        )
    places = {c: i for i, c in enumerate(classes.tolist())}
    return np.fromiter(
        (places.get(v, -1) if hashable(v) else -1 for v in found.tolist()), dtype=np.int64, count=len(found)
    )


def distinct(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels that occur and how often; missing ones are none. In order where all can be compared."""
    if found.dtype.kind in "fMm":
        found = found[found == found]
    if found.dtype.kind != "O":
        return np.unique(found, return_counts=True)
    counts: dict[Any, int] = {}
    for value in found.tolist():
        if not _missing(value) and hashable(value) and value == value:
            counts[value] = counts.get(value, 0) + 1
    order = sorted_if_comparable(list(counts))
    values = np.empty(len(order), dtype=object)
    for i, value in enumerate(order):
        values[i] = value
    return values, np.array([counts[v] for v in order], dtype=np.int64)


def of_values(values: list[Any]) -> np.ndarray:
    """Some labels as an array that follows from them alone; of objects where another type would change one of them."""
    found = attempt(lambda: np.asarray(values))
    if found is not None and found.ndim == 1 and found.tolist() == values:
        return found
    kept = np.empty(len(values), dtype=object)
    kept[:] = values
    return kept


def rank(values: np.ndarray) -> list[int]:
    """Where each of some labels stands in an order that follows for any two of them from these two alone: numbers by value, then what is of other types by
    type and value."""

    def key(value: Any) -> tuple[str, Any]:
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, decimal.Decimal):
            plain = fractions.Fraction(plain) if plain.is_finite() else float(plain)
        return ("", plain) if isinstance(plain, numbers.Real) else (type(plain).__name__, str(plain))

    order = (
        sorted(range(len(values)), key=lambda place: key(values[place]))
        if values.dtype.kind == "O"
        else range(len(values))
    )
    standing = [0] * len(values)
    for at, place in enumerate(order):
        standing[place] = at
    return standing


def sorted_if_comparable(values: list[Any]) -> list[Any]:
    """Sorted, or by name of type where types cannot be compared."""
    found = attempt(lambda: sorted(values))
    return found if found is not None else sorted(values, key=lambda v: (type(v).__name__, str(v)))


def integers(values: Any, name: str) -> list[int]:
    """Whole numbers of 64 bits."""
    found = array(values, name) if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" else values
    found = found.ravel() if found.ndim == 0 else found
    if found.ndim != 1:
        raise ValueError(f"{name} must be a list of whole numbers")
    exact = values if isinstance(values, (list, tuple)) else found.tolist()
    out = []
    for i, value in enumerate(exact):
        whole = attempt(lambda: int(value))
        if whole is None or whole != value or not -(2**63) <= whole < 2**63:
            raise ValueError(
                f"entry {i} of {name} is not one of the integers of 64 bits; sums of floating-point numbers have no proved sensitivity"
            )
        out.append(whole)
    return out


__all__ = [
    "array",
    "as_table",
    "as_text",
    "attempt",
    "cells",
    "check_names",
    "codes",
    "distinct",
    "hashable",
    "integers",
    "kind",
    "labels",
    "listed_cells",
    "number",
    "of_values",
    "rank",
    "required",
    "same_length",
    "shown",
    "table",
    "target",
    "validated",
    "whole",
]
