"""Rows of a table with columns declared by name, as vectors of which a mean is taken: numbers, and each level as 0 or 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _core
from ._public_facts import Columns
from ._reading import shown
from ._rows import within
from ._tables import columns_of, declarations, names_of, names_told, source, without_rows
from ._warnings import warn

#: The encoder's form of a number that can be taken back: two entries in the ratio of its distances from both bounds, and one where it is missing.
_PLAIN = {"knots": 0, "centred": False, "spread": False, "pairs": "none"}
#: Entries of a row that stand before those of its columns, and of a number.
_INTERCEPT, _NUMBER = 1, 3
#: What has no mean, as a bounds file says it.
_NO_MEAN = {"hash": "hash = true", "text": "text = true"}


@dataclass(frozen=True)
class DeclaredColumn:
    """A column and what is public of it.

    Attributes
    ----------
    name
        The column's.
    lower, upper
        Bounds of a number, 0 and 1 of levels.
    levels
        As texts; of a number none.
    """

    name: str
    lower: float
    upper: float
    levels: tuple[str, ...] = ()

    @property
    def entries(self) -> list[str]:
        """Names of its entries in a vector."""
        return [f"{self.name}={level}" for level in self.levels] or [self.name]

    @property
    def encoded(self) -> int:
        """Its entries in an encoded row; cells that are no level have two."""
        return len(self.levels) + 2 if self.levels else _NUMBER

    @property
    def ball(self) -> tuple[float, float]:
        """Centre (of each entry) and radius of the smallest ball that holds what a row may have here: with levels also none of them."""
        if not self.levels:
            half = (self.upper - self.lower) / 2
            return self.lower + half, half
        centre = 1 / max(len(self.levels), 2)
        one = (1 - centre) ** 2 + (len(self.levels) - 1) * centre**2
        return centre, float(np.sqrt(max(one, len(self.levels) * centre**2)))


@dataclass(frozen=True)
class Vectors:
    """Vectors of rows, by public facts alone. Each column lies in a ball of its own; scaled, all together lie in one of radius 1.

    Attributes
    ----------
    columns
        That are declared to hold numbers or levels.
    """

    columns: tuple[DeclaredColumn, ...]

    @classmethod
    def of(cls, declaring: Any, names: Sequence[str] | None = None) -> Vectors:
        """What an estimator declares, in the order of a table's `names` if there is one."""
        if declaring.row_norm is not None:
            raise ValueError(
                "row_norm is for matrices, and columns declared by name already bound every row; leave it out"
            )
        declared = declarations(declaring)
        if declared.trends():
            raise ValueError(
                f"the column {shown(declared.trends()[0])} is declared monotone, which says something of predictions, and a mean is none; leave it out"
            )
        order = declared.names()
        if names is not None:
            held, known = [name.strip() for name in names], set(order)
            there = set(held)
            absent = [name for name in order if name not in there]
            if absent:
                told = f"the table has {names_told(names, names, declaring)}"
                if not known & there:
                    # names of a table that was read without its header are a record
                    told = f"none of its {len(names)} columns is declared"
                raise ValueError(
                    f"the declared column {shown(absent[0])} is not a column of the table: {told}; correct its name, or leave it out of the declarations"
                )
            order = [name for name in held if name in known]
        columns = [_column(declared, name) for name in order if declared.kind(name) != "ignore"]
        if not columns:
            raise ValueError(
                'no column with a mean is declared; give bounds={"age": (17, 90)} for numbers, columns=dpopt.Columns(levels={"sex": ["f", "m"]}) for shares'
            )
        return cls(tuple(columns))

    @property
    def names(self) -> list[str]:
        """Of the entries of a vector."""
        return [entry for column in self.columns for entry in column.entries]

    def _of_entries(self, of_column: Any) -> np.ndarray:
        return np.array([of_column(column) for column in self.columns for _ in column.entries], dtype=np.float64)

    @property
    def lower(self) -> np.ndarray:
        """Bounds of each entry."""
        return self._of_entries(lambda column: column.lower)

    @property
    def upper(self) -> np.ndarray:
        """Bounds of each entry."""
        return self._of_entries(lambda column: column.upper)

    @property
    def centre(self) -> np.ndarray:
        """The value of each entry that is mapped to 0."""
        return self._of_entries(lambda column: column.ball[0])

    @property
    def scale(self) -> np.ndarray:
        """What a distance from there is multiplied by."""
        return self._of_entries(lambda column: 1 / (column.ball[1] * np.sqrt(len(self.columns))))


def warn_undeclared(declaring: Any, names: Sequence[str]) -> None:
    """Warns of columns of a table that an estimator says nothing of."""
    known = set(declarations(declaring).names())
    left = [name for name in names if name.strip() not in known]
    if left:
        warn(
            f"nothing declares the columns {names_told(left, names, declaring)}: they are left out. To use them, declare them with bounds or columns=dpopt.Columns(levels=...), or "
            "list them in its ignore"
        )


def _column(declared: Any, name: str) -> DeclaredColumn:
    kind, bounds = declared.kind(name), declared.range(name)
    if kind in _NO_MEAN:
        raise ValueError(
            f"the column {shown(name)} is declared with {_NO_MEAN[kind]}, and has no mean; declare its levels, or leave it out of the declarations"
        )
    if kind == "levels":
        return DeclaredColumn(name, 0.0, 1.0, tuple(level.strip() for level in declared.levels(name)))
    if bounds is None:
        raise ValueError(
            f"the column {shown(name)} is declared numeric without bounds; give lower and upper, what is known beforehand, or find a range privately "
            "(mechanisms.private_bounds)"
        )
    return DeclaredColumn(name, *bounds)


@dataclass(frozen=True)
class VectorReader:
    """Reads rows of tables as vectors. Cells mean what they mean to every encoder here: it is one that reads them.

    Attributes
    ----------
    vectors
        The public facts.
    encoder
        The compiled encoder.
    """

    vectors: Vectors
    encoder: Any
    reads_tables = True

    @classmethod
    def of(cls, declaring: Any, X: Any) -> VectorReader:
        """Of what an estimator declares, for tables like `X`, of which names and types are looked at alone."""
        vectors = Vectors.of(declaring, names_of(X))
        bounds = {c.name: (c.lower, c.upper, "linear") for c in vectors.columns if not c.levels}
        levels = {c.name: list(c.levels) for c in vectors.columns if c.levels}
        declared = declarations(SimpleNamespace(bounds=bounds, columns=Columns(levels=levels), encoding=_PLAIN))
        columns = columns_of(without_rows(X), [c.name for c in vectors.columns])
        encoder = _core.ColumnEncoder(_core.Table(source(X), columns, declared), declared)
        return cls(vectors, encoder)

    def table(self, X: Any) -> Any:
        """The columns that it reads, for the compiled library."""
        return _core.Table.to_read(source(X), columns_of(X, self.encoder.columns))

    def values(self, table: Any) -> np.ndarray:
        """A vector of each row in the units of its columns; a missing number is NaN, of a cell that is no level all levels are 0."""
        values, places, offsets, width = self.encoder.encode(table, "missing")
        encoded = sp.csr_matrix((values, places, offsets), shape=(len(offsets) - 1, width)).tocsc()
        out = np.empty((encoded.shape[0], len(self.vectors.names)))
        here, there = _INTERCEPT, 0
        for column in self.vectors.columns:
            block = encoded[:, here : here + column.encoded].toarray().astype(np.float64)
            if column.levels:
                out[:, there : there + len(column.levels)] = block[:, : len(column.levels)] > 0
            else:
                below, above, missing = block.T
                with np.errstate(all="ignore"):
                    # how long a row is cancels
                    out[:, there] = column.lower + above / (below + above) * (column.upper - column.lower)
                out[missing > 0, there] = np.nan
            here, there = here + column.encoded, there + len(column.entries)
        return out

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> Any:
        return _core.Shard.of_numbers(within(self.values(self.table(X)), self.vectors), part)


__all__ = ["DeclaredColumn", "VectorReader", "Vectors", "warn_undeclared"]
