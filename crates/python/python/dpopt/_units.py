"""Whose rows they are: units of privacy that have several rows.

Ids are compared as the command line compares the values of its ``--unit``: as text without white space around it, so that 7,
7.0, "7" and " 7" are one unit. A missing id (None, NaN, NA, or the text that a file writes for a missing cell) is nobody's: its row counts
nowhere. Ids that are neither text nor numbers are one unit where they are equal. No message shows an id.
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._reading import attempt, kind, shown
from ._tables import cells, column, is_table, names_of, objects

#: How a unit is called whose ids came without a name of their own.
UNNAMED = "user"

_MAPPING = 'units is a mapping of names to ids, for example {"person": ids}, with one id for each row; this one is not'


@dataclass(frozen=True)
class Given:
    """Ids as they were given, one for each row.

    Attributes
    ----------
    name
        The column's, None for ids that came by themselves.
    ids
        As the compiled library reads them; None where only the name is known.
    """

    name: str | None
    ids: Any

    def __repr__(self) -> str:
        return f"Given(name={shown(self.name)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns of ids, for a ledger."""
        return (self.protects,)

    @property
    def protects(self) -> str:
        """What a unit is called."""
        return UNNAMED if self.name is None else self.name

    @property
    def rows(self) -> int:
        """How many ids there are."""
        return _length(self.ids)

    def column_beside(self, taken: Sequence[str]) -> str:
        """The name of their column in a table that has others of these names."""
        if self.name is not None:
            return self.name
        name, held = UNNAMED, {other.strip() for other in taken}
        while name in held:
            name += "_"
        return name

    def columns_beside(self, taken: Sequence[str]) -> list[tuple[str, Any]]:
        """Names and ids of their columns in a table that has others of these names."""
        return [(self.column_beside(taken), self.ids)]

    def owners(self) -> Any:
        """Which unit has which row, for the compiled library."""
        assert self.ids is not None
        return _core.Owners(self.protects, self.ids)


@dataclass(frozen=True, repr=False)
class Shared(Given):
    """Ids of several owners of each row; `ids` are those of the first column.

    Attributes
    ----------
    columns
        Name and ids of each.
    """

    columns: tuple[tuple[str, Any], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def protects(self) -> str:
        return " and ".join(name for name, _ in self.columns)

    def columns_beside(self, taken: Sequence[str]) -> list[tuple[str, Any]]:
        held, out = {other.strip() for other in taken}, []
        for name, ids in self.columns:
            if self.name is None:
                while name in held:
                    name += "_"
            held.add(name)
            out.append((name, ids))
        return out

    def owners(self) -> Any:
        return _core.Owners.several(list(self.columns))


def apart(X: Any, units: Any, target: Any = None) -> tuple[Any, Given | None]:
    """The table without the column that `units` names, and its ids; or the ids that `units` are. `target`: what y was given as."""
    if units is None:
        return X, None
    if not isinstance(units, str):
        name, ids = _named(units)
        return X, Given(_beside(X, name), _ids(_one_column(ids), strict=True))
    if isinstance(target, str) and target == units:
        raise ValueError(
            "y and units are the same column; give the target as y, and the column that identifies persons as units"
        )
    if not is_table(X):
        raise TypeError(
            f"units is text, and X is {kind(X)}, whose columns have no names; give one id for each row, or a table of pandas, Polars or Arrow"
        )
    names = names_of(X)
    if units not in names:
        raise ValueError("units is text and no column of X has that name; give a column's name, or one id for each row")
    at = names.index(units)
    ids = Given(units, _ids(column(X, at), strict=False))
    if hasattr(X, "iloc"):
        return X.drop(columns=[units]), ids
    return (X.drop_columns([units]) if hasattr(X, "drop_columns") else X.drop([units])), ids


def owned(X: Any, units: Any, target: Any = None) -> tuple[Any, Given | None]:
    """As :func:`apart`, also for several columns of ids: a tuple of names of columns of X, or a table or an array of two columns or more."""
    if isinstance(units, tuple) and len(units) > 1 and all(isinstance(name, str) for name in units) and is_table(X):
        names = names_of(X)
        if len(set(units)) < len(units):
            raise ValueError("units names a column twice; name it once")
        if all(name in names for name in units):
            if isinstance(target, str) and target in units:
                raise ValueError(
                    "y is one of the columns of units; give the target as y, and the columns that identify persons as units"
                )
            columns = []
            for name in units:
                X, given = apart(X, name)
                assert given is not None
                columns.append((name, given.ids))
            return X, Shared(units[0], columns[0][1], tuple(columns))
        if len(units) != X.shape[0]:
            raise ValueError(
                "units is a tuple of texts, and not all are columns of X; give names of columns, or one id for each row"
            )
    several = _several(units)
    if several is None:
        return apart(X, units, target)
    if isinstance(units, dict):
        return X, Shared(_beside(X, *units), several[0][1], tuple(several))
    return X, Shared(None, several[0][1], tuple(several))


def _named(units: Any) -> tuple[str | None, Any]:
    """Ids with their name, if they have one: a series' own, or the key of a mapping."""
    if isinstance(units, dict):
        if len(units) != 1:
            raise ValueError(f"units is a mapping of {len(units)} names; give one id for each row")
        name, ids = next(iter(units.items()))
        return _name(name), _ids_of(ids)
    # a series of pandas or Polars; that of a column without a name is empty, None or a number
    name = attempt(lambda: units.name) if hasattr(units, "dtype") and not isinstance(units, np.ndarray) else None
    return (name if isinstance(name, str) and name.strip() else None), units


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise TypeError(_MAPPING)
    return name


def _ids_of(values: Any) -> Any:
    if isinstance(values, (str, bytes, dict, set, frozenset)) or not hasattr(values, "__len__"):
        raise TypeError(_MAPPING)
    return _one_column(values)


def _beside(X: Any, *names: str | None) -> str | None:
    """The first name, for ids that came beside X."""
    if is_table(X) and any(name in names_of(X) for name in names if name is not None):
        raise ValueError(
            "units are ids with a name, and X has a column of that name, which the model would use as a feature; name the column "
            '(units="person"), which removes it from X, or remove it yourself'
        )
    return names[0]


def _several(units: Any) -> list[tuple[str, Any]] | None:
    """Names and ids of two columns or more; None where there are not so many."""
    if isinstance(units, dict) and len(units) > 1:
        every = [(_name(name), _ids_of(values)) for name, values in units.items()]
    elif is_table(units) and units.shape[1] > 1:
        every = [(name, column(units, at)) for at, name in enumerate(names_of(units))]
    elif isinstance(units, np.ndarray) and units.ndim == 2 and units.shape[1] > 1:
        every = [(f"owner {at + 1}", units[:, at]) for at in range(units.shape[1])]
    else:
        return None
    return [(name, _ids(values, strict=True)) for name, values in every]


def kept_counts(given: Given | None, owners: Any, public: dict[str, Any], relation: str) -> dict[str, Any]:
    """What is public of units, with the numbers of rows that are kept where a row may have several owners."""
    if not isinstance(given, Shared):
        return public
    if relation == "add-or-remove":
        raise ValueError(
            "rows have several owners here, and under add-or-remove one owner more or less changes which rows of others are kept, without bound; "
            'use neighbors="zero-out" or "replace-one"'
        )
    most = public["most_rows"]
    if most is None:
        raise ValueError(
            "rows have several owners here, and only so many rows of each owner can be kept; give unit=dpopt.Unit(max_rows=...)"
        )
    rows, one_each = owners.kept(most)
    return {**public, "kept": {"most": most, "rows": rows, "one_each": one_each}}


def kept_note(public: dict[str, Any] | None) -> list[str]:
    """What a report says of rows with several owners."""
    kept = None if public is None else public.get("kept")
    if kept is None:
        return []
    return [
        f"A row may have several owners: {kept['rows']} rows are kept, so that nobody owns more than {kept['most']} of them; {kept['one_each']} count where "
        "one row of each is counted. Which ones follows from who owns what alone."
    ]


def one_for_each(given: Given, rows: int) -> None:
    """Refuses ids of other rows."""
    found = _length(given.ids)
    if found != rows:
        raise ValueError(f"units has {found} ids and X has {rows} rows; give one for each row, or the name of a column")


def public_number(
    n_units: Any, counted: int | None, rows: int | None, relation: str, name: str = "unit=dpopt.Unit(count=...)"
) -> int:
    """How many units there are: `n_units` (which is given as `name`), or the `counted` ones where their number is public. Of units without rows there
    may be any number; how many have rows is not told."""
    given = _at_least_one(_short(name), n_units)
    if given is None:
        if counted is None or relation == "add-or-remove":
            why = "" if counted is None else "under add-or-remove the number of units is protected; "
            raise ValueError(f"{why}give a public {'number' if counted is None else 'guess'} of units as {name}")
        return counted
    if counted is not None and relation != "add-or-remove" and (given < counted or (rows is not None and given > rows)):
        raise ValueError(
            f"{_short(name)} is {given}, and units has more ids than that, or X fewer rows; give the number of units, leave it out to "
            "count them, or protect their number (add-or-remove), which takes a guess"
        )
    return given


def _short(name: str) -> str:
    return "count of unit" if name.startswith("unit=") else name


def public_bound(max_rows: Any) -> int | None:
    """A bound on the rows of a unit."""
    return _at_least_one("max_rows of unit", max_rows)


def _at_least_one(name: str, value: Any) -> int | None:
    if value is not None and not (isinstance(value, (int, np.integer)) and 1 <= value < 2**63):
        raise ValueError(f"{name} is {shown(value)}; give a whole number, at least 1")
    return None if value is None else int(value)


def _length(found: Any) -> int:
    if isinstance(found, tuple):
        # arrow's borders are one more than the texts
        return len(found[2]) if len(found) == 3 else len(found[0])
    return len(found)


def _one_column(units: Any) -> Any:
    if is_table(units):
        if units.shape[1] != 1:
            raise ValueError(f"units has {units.shape[1]} columns; give one id for each row")
        return column(units, 0)
    if isinstance(units, (bytes, dict, set, frozenset)) or np.isscalar(units):
        raise TypeError(f"units is {kind(units)}; give one id for each row, or the name of a column of X")
    if isinstance(units, np.ndarray):
        if units.ndim == 2 and units.shape[1] == 1:
            return units.ravel()
        if units.ndim != 1:
            raise ValueError(f"units is an array of {units.ndim} dimensions; give one id for each row")
        return units
    if isinstance(units, (list, tuple)):
        return list(units)
    if not hasattr(units, "__len__"):
        raise TypeError(f"units is {kind(units)}; give one id for each row, or the name of a column of X")
    return units


def _ids(values: Any, strict: bool) -> Any:
    """Ids in a form that the compiled library reads. What can't be compared is an error, or (not `strict`) the id of no unit."""
    dtype = str(getattr(values, "dtype", getattr(values, "type", ""))).lower()
    # as floats, large ids would become those of others
    exact = dtype.startswith("uint64") or "decimal" in dtype
    found = attempt(lambda: objects(values) if exact else cells(values))
    if found is None:
        raise TypeError(f"units is {kind(values)} and could not be read; give one id for each row")
    if strict and isinstance(found, tuple) and isinstance(found[0], str):
        raise TypeError("the ids of units are in a column whose type cannot be compared; give text or numbers")
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], list):
        return (found[0], _comparable(found[1], strict))
    return _comparable(found, strict) if isinstance(found, list) else found


def _comparable(ids: list[Any], strict: bool) -> list[Any]:
    """Texts and numbers as they are; any other object as a number of its own, which no text is."""
    places: dict[Any, bytes] = {}
    out: list[Any] = []
    wrong = None
    for row, value in enumerate(ids):
        found: Any = None
        if isinstance(value, (str, bytes, numbers.Real, np.bool_)):
            found = value
        elif isinstance(value, decimal.Decimal) and _is_whole(value):
            found = int(value)
        elif not _is_missing(value):
            # bytes that are no text
            found = attempt(lambda: places.setdefault(value, b"\xff" + str(len(places)).encode()))
            if found is None and wrong is None:
                wrong = (row, kind(value))
        out.append(found)
    if strict and wrong is not None:
        raise TypeError(
            f"the id in row {wrong[0]} of units is {wrong[1]}, which cannot be compared; give text or numbers"
        )
    return out


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    # a date of NumPy, or a decimal, that is missing is not equal to itself
    return isinstance(value, (np.generic, decimal.Decimal)) and attempt(lambda: bool(value == value)) is not True


def _is_whole(value: decimal.Decimal) -> bool:
    return value.is_finite() and value.adjusted() < 100 and value == value.to_integral_value()


__all__ = [
    "UNNAMED", "Given", "Shared", "apart", "kept_counts", "kept_note", "one_for_each", "owned", "public_bound", "public_number",
]  # fmt: skip
