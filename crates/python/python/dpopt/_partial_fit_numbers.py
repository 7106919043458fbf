"""``partial_fit`` of regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from ._one_fit import one_step
from ._partial_fit import learn, streams
from ._reading import attempt
from ._targets import Decoding, Reading


def _number(value: Any) -> float:
    number = attempt(lambda: float(value)) if isinstance(value, (int, float, np.number)) else None
    return np.nan if number is None else float(number)


class Numbers:
    """Targets that are numbers."""

    def told(self, estimator: Any, classes: Any) -> None:
        return None

    def cells(self, y: Any) -> Any:
        # a target that is no number counts as missing, whatever kind of array it makes of the batch
        cells = np.asarray(y)
        if cells.ndim != 1 or cells.dtype.kind in "fiu":
            return y
        return np.array([_number(value) for value in np.asarray(y, dtype=object).tolist()], dtype=np.float64)

    def reading(self, estimator: Any, y: np.ndarray, classes: np.ndarray | None) -> tuple[Reading, Decoding]:
        declared = estimator._target_range()
        if declared is None:
            raise ValueError(
                "y has no public range, and a stream cannot look for it first; give target_bounds=(lower, upper)"
            )
        lower, upper = declared
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        reading = Reading(np.clip((np.clip(y, lower, upper) - middle) / half, -1.0, 1.0))
        return reading, estimator._decoding(reading, None, declared)

    def shown(self, estimator: Any) -> None:
        estimator._flat()


@available_if(streams)
@one_step
def partial_fit(self, X: Any, y: Any, **said: Any) -> Any:
    """Learns from the next batch of a stream, within (epsilon, delta) for the whole stream, and releases the model so far.

    The first call plans and charges for all of it: at most `steps` batches (of ``method=dpopt.methods.DPFTRL(steps=...)``: here the public number of
    calls), of at most ``ceil(n_rows / steps)`` records; without `n_rows` as many as the first batch has. Each record comes in **one batch only**: that is
    your word, nothing checks it, and several epochs over the same records cost as many times the budget (docs/online.md).

    Parameters
    ----------
    X, y
        As in :meth:`fit`; the columns are those of the first batch, and `target_bounds` is needed.
    said
        Nothing else; a ``sample_weight`` is refused with the reason.
    """
    learn(self, Numbers(), X, y, None, said)
    return self


__all__ = ["Numbers", "partial_fit"]
