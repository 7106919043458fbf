"""The split of a private search: what candidates are trained on, and what they are scored on, by records or by units."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._by_unit import Units
from ._tables import rows_at


def held_out(number: int, share: float) -> int:
    """How many of so many records, or units, are kept for scores."""
    return max(1, round(number * share))


class Split:
    """One part to train on and one to score on, by coins that depend on nothing but the public number of records, or of units.

    All rows of a unit are in one part. A fit to the training part is then a fit to all rows, of which those of the other part are nobody's and count
    nowhere: the number of rows that it is planned for is the public one, whichever units were drawn.

    Attributes
    ----------
    held_out
        Number of records, or of units, that are scored.
    units
        Number of units to train on; None where a record is one.
    """

    def __init__(self, whose: Units | None, rows: int, share: float, seed: int | None) -> None:
        number = rows if whose is None else whose.count
        self.held_out = held_out(number, share)
        order = np.argsort(_core.random_below(2**62, number, seed), kind="stable")
        training, scored = order[: number - self.held_out], order[number - self.held_out :]
        self.units: int | None = None
        #: whose rows those of the training part are; rows to train on, and to score; the scored unit of each of the latter
        self._ids: np.ndarray | None = None
        self._training, self._scored, self._place = training, scored, np.arange(self.held_out)
        if whose is None:
            return
        self.units = len(training)
        positions, counts = whose.rows.draw(np.arange(number, dtype=np.uint64))
        # row by row; the last place is that of rows of nobody
        unit_of = np.full(rows, number, dtype=np.int64)
        unit_of[positions] = np.repeat(np.arange(number), counts)
        place = np.full(number + 1, -1, dtype=np.int64)
        place[scored] = np.arange(self.held_out)
        mine = place[unit_of]
        self._ids = np.where((mine < 0) & (unit_of < number), unit_of, np.nan)
        self._training, self._scored = np.arange(rows), np.flatnonzero(mine >= 0)
        self._place = mine[self._scored]

    def to_train(self, given: Any) -> Any:
        """What a candidate is fitted to, of a table or of its targets."""
        return given if self._ids is not None else rows_at(given, self._training)

    def to_score(self, given: Any) -> Any:
        """What a candidate is scored on."""
        return rows_at(given, self._scored)

    @property
    def rows_to_score(self) -> int:
        """How many rows are scored."""
        return len(self._scored)

    def whose(self, prefix: str) -> dict[str, Any]:
        """The options of a fit about units."""
        return {} if self._ids is None else {f"{prefix}units": self._ids}

    def score_each(self, of_rows: np.ndarray) -> np.ndarray:
        """One score in [0, 1] for each record, or each unit: the mean over its rows, 0 for a unit without rows."""
        if self._ids is None:
            return of_rows
        sums = np.bincount(self._place, of_rows, self.held_out)
        return sums / np.maximum(np.bincount(self._place, minlength=self.held_out), 1)


__all__ = ["Split", "held_out"]
