"""Rows by unit: which rows of a unit take part, and one vector of each unit in place of a vector of each row.

What is protected is a unit with all its rows, so whatever is clipped, counted or scored must be one thing per unit. It is made here, or in
the compiled library, from that unit's rows and secret coins alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._public_facts import unit_facts
from ._reading import kind, shown
from ._units import Given, apart, one_for_each, public_bound, public_number

#: Stands for "no such parameter" where units need a bound on their rows.
_NEEDED = (
    "give unit=dpopt.Unit(max_rows=...), a public bound on the rows of a unit that are used: without one, the time and the memory of a step would "
    "tell of a unit with many rows"
)


@dataclass(frozen=True)
class Units:
    """Who is protected with all rows.

    Attributes
    ----------
    name
        How a unit is called.
    count
        Public number of units, of whom some may have no row; a guess under add-or-remove.
    most
        Public bound on the rows of a unit that are used, if there is one.
    rows
        Which rows each unit has, for the compiled library.
    owners
        Whose each row is, for the compiled library.
    """

    name: str
    count: int
    most: int | None
    rows: Any
    owners: Any

    def __repr__(self) -> str:
        return f"Units(name={shown(self.name)}, count={self.count}, most={self.most})"


def settled(
    given: Given,
    rows: int,
    relation: str,
    *,
    unit: Any,
    seed: int | None,
    bounded: bool = False,
    name: str = "unit=dpopt.Unit(count=...)",
) -> Units:
    """The units of `rows` rows, with everything that is public about them checked; `bounded`: they need a bound on their rows;
    `name`: of the parameter that says how many there are.

    Parameters
    ----------
    unit
        What is public of them: a :class:`dpopt.Unit`.
    seed
        Of the coins that choose rows of a unit, for tests; secret without one.
    """
    unit = unit_facts(unit, ("max_rows", "count"), "what is clipped of a unit is a choice of linear models alone")
    one_for_each(given, rows)
    most = public_bound(unit.max_rows)
    if bounded and most is None:
        raise ValueError(_NEEDED)
    owners = given.owners()
    count = public_number(unit.count, owners.units, rows, relation, name)
    if count < 1:
        raise ValueError("0 units: no id can be read; give the id of a person for each row")
    return Units(given.protects, count, most, _core.UnitRows(owners, count, relation, most, seed), owners)


def ids_alone(units: Any) -> Given:
    """Ids of rows that come without a table."""
    if isinstance(units, str):
        raise TypeError("units is text, but there is no table with a column of that name; give one id for each row")
    given = apart(None, units)[1]
    assert given is not None
    return given


def unused(unit: Any) -> None:
    """Refuses facts about units where there are none."""
    if unit_facts(unit).given():
        raise ValueError(
            "unit is given and units= is not, so that each row would be protected by itself; give units=, one id for each row"
        )


def name_alone(units: Any) -> str | None:
    """How a unit is called, where what comes in was made elsewhere."""
    if units is None:
        return None
    if not isinstance(units, str) or not units.strip():
        raise _core.PrivacyError(
            f"units is {kind(units)}, but this release has no rows that ids could belong to; bound the contribution of a unit where the "
            'numbers are computed, give it as sensitivity, and name the unit: units="person"'
        )
    return units.strip()


class UnitMeans:
    """One vector for each unit of a batch, the mean of those of its rows, which come unit by unit and in parts of any size.

    A unit's vector is handed out when its last row has come, so that it can be clipped as one.
    """

    def __init__(self, counts: np.ndarray) -> None:
        #: rows of each unit that has any, in the order in which they come
        self._counts: list[int] = [n for n in np.asarray(counts).tolist() if n]
        self._single = all(n == 1 for n in self._counts)
        self._unit = 0
        #: of the unit whose rows are coming: how many came, and their sums
        self._came = 0
        self._sums: list[np.ndarray] | None = None

    @property
    def complete(self) -> bool:
        """Whether all rows have come."""
        return self._unit == len(self._counts)

    def of(self, blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Means of the units whose last row is among these, for blocks (rows × entries) of as many rows each."""
        rows = len(blocks[0]) if blocks else 0
        parts = self._parts(rows)
        if self._single:
            return list(blocks)
        out = [np.empty((sum(last for *_, last in parts), block.shape[1]), block.dtype) for block in blocks]
        done = 0
        # what is not finite stays so, in its own unit, and counts as 0 where it is clipped: no warning tells of it
        with np.errstate(all="ignore"):
            for start, stop, count, last in parts:
                sums = [block[start:stop].sum(axis=0) for block in blocks]
                if self._sums is not None:
                    for total, before in zip(sums, self._sums):
                        total += before
                self._sums = None if last else sums
                if last:
                    for mean, total in zip(out, sums):
                        np.divide(total, count, out=mean[done])
                    done += 1
        return out

    def _parts(self, rows: int) -> list[tuple[int, int, int, bool]]:
        """(first, end, rows of the unit, whether they end there) of each unit's share of the next rows."""
        parts, start = [], 0
        while start < rows:
            if self.complete:
                raise ValueError("there are more per-sample gradients than rows of units in the batch that was drawn")
            count = self._counts[self._unit]
            stop = min(rows, start + count - self._came)
            self._came += stop - start
            last = self._came == count
            parts.append((start, stop, count, last))
            if last:
                self._unit, self._came = self._unit + 1, 0
            start = stop
        return parts


__all__ = ["UnitMeans", "Units", "ids_alone", "name_alone", "settled", "unused"]
