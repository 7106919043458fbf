"""What is public of a table's columns and of units that own several rows, as objects: ``columns=`` and ``unit=`` of every estimator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ._reading import shown
from ._settings import Settings, one_of

#: What ``encoding=`` takes: "auto", None for a matrix as it is, or constants of the encoder.
Encoding: TypeAlias = Mapping[str, Any] | Literal["auto"] | None


class Columns(Settings):
    """What is declared of a table's columns by name, beside the ranges in ``bounds=``.

    Parameters
    ----------
    levels : dict, optional
        Public levels of categories, ``{"sex": ["f", "m"]}``.
    text : list of str, optional
        Names of columns of free text, whose words are hashed.
    hashed : list of str, optional
        Names of categories whose levels nobody can list.
    numeric : list of str, optional
        Names of numbers without a public range; ``bounds_budget=`` finds one privately.
    ignore : list of str, optional
        Names of columns that are not used.
    monotone : dict, optional
        Numbers that predictions may move one way with, ``{"age": "increasing"}`` or ``"decreasing"``, whatever was released: the number that is predicted, or of two
        listed classes the chance of the second one. Costs nothing (docs/additive.md).
    public_vectors : str or path, optional
        A file of word vectors that are not sensitive (word2vec's or GloVe's text format, also gzipped), for the columns in `text`: words that mean alike
        then count alike. A model needs the same file again: ``dpopt.load(path, public_vectors=...)``.

    Examples
    --------
    >>> import dpopt
    >>> dpopt.Columns(levels={"sex": ["f", "m"]}, ignore=["id"])
    Columns(ignore=['id'], levels={'sex': ['f', 'm']})
    """

    def __init__(
        self,
        *,
        levels: Mapping[str, Sequence[Any]] | None = None,
        text: Sequence[str] | None = None,
        hashed: Sequence[str] | None = None,
        numeric: Sequence[str] | None = None,
        ignore: Sequence[str] | None = None,
        monotone: Mapping[str, Literal["increasing", "decreasing"]] | None = None,
        public_vectors: str | os.PathLike[str] | None = None,
    ) -> None:
        self.levels = levels
        self.text = text
        self.hashed = hashed
        self.numeric = numeric
        self.ignore = ignore
        self.monotone = monotone
        self.public_vectors = public_vectors


class Unit(Settings):
    """What is public of units (persons, say) that may own several rows; whose rows they are is said by ``units=`` of a fit.

    Parameters
    ----------
    max_rows : int, optional
        A bound on the rows of a unit: of one with more, so many are taken at random. Methods that look at rows one by one need it.
    count : int, optional
        How many units there are, of whom some may have no row; or a guess of it under add-or-remove. By default they are counted.
    clipping : {"auto", "unit", "row"}
        What is clipped: the mean of a unit's gradients; or each row, whose guarantee is then taken for a group of `max_rows`; ``"auto"`` takes for each
        method what promises the smaller error.

    Examples
    --------
    >>> import dpopt
    >>> dpopt.Unit(max_rows=8)
    Unit(max_rows=8)
    """

    def __init__(
        self,
        *,
        max_rows: int | None = None,
        count: int | None = None,
        clipping: Literal["auto", "unit", "row"] = "auto",
    ) -> None:
        self.max_rows = max_rows
        self.count = count
        self.clipping = clipping


def declared_columns(declaring: Any) -> Columns:
    """What an estimator or an encoder declares of columns; one that says nothing where it has none."""
    given = getattr(declaring, "columns", None)
    found: Columns = one_of(given, Columns, "columns", 'dpopt.Columns(levels={"sex": ["f", "m"]}, ...)')
    return found


def unit_facts(given: Any, allowed: Sequence[str] = ("max_rows", "count", "clipping"), why: str = "") -> Unit:
    """What ``unit=`` says; one that says nothing for None.

    Parameters
    ----------
    given
        What a parameter called ``unit`` holds.
    allowed
        What may be said here; the rest is refused.
    why
        Why it may not be said.
    """
    more = "; whose rows they are is said by units=" if isinstance(given, str) else ""
    unit: Unit = one_of(given, Unit, "unit", "dpopt.Unit(max_rows=..., count=...)", more)
    for name in unit.given():
        if name not in allowed:
            raise ValueError(f"unit says {name} ({shown(getattr(unit, name))}), and {why}; leave it out")
    return unit


__all__ = ["Columns", "Encoding", "Unit", "declared_columns", "unit_facts"]
