"""``partial_fit`` of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from ._one_fit import one_step
from ._partial_fit import learn, streams
from ._reading import distinct, labels
from ._targets import Decoding, Reading


class Classes:
    """Targets that are labels."""

    def told(self, estimator: Any, classes: Any) -> np.ndarray:
        fixed = (
            None
            if estimator.classes is None or isinstance(estimator.classes, str)
            else labels(estimator.classes, "classes")
        )
        named = None if classes is None else labels(classes, "classes")
        known = [distinct(given)[0] for given in (fixed, named) if given is not None]
        if estimator._stream is not None:
            known.append(estimator.classes_)
        if not known:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, or to the estimator, since a stream cannot look for its labels first"
            )
        if any(len(one) != len(known[0]) or not all(a == b for a, b in zip(one, known[0])) for one in known):
            raise ValueError(
                "`classes` is not the same as on the last call to partial_fit, or as the estimator's; give the same, or leave it out"
            )
        if len(known[0]) < 2:
            raise ValueError("classes must list at least two labels")
        return known[0]

    def cells(self, y: Any) -> Any:
        return y

    def reading(self, estimator: Any, y: np.ndarray, classes: np.ndarray | None) -> tuple[Reading, Decoding]:
        # which kind of array a batch makes is decided by single records: a label of another kind is one that was not declared, and no error
        if classes is not None and y.dtype.kind != classes.dtype.kind:
            y = y.astype(object)
        reading = estimator._coded(y, classes)
        return reading, estimator._decoding(reading)

    def shown(self, estimator: Any) -> None:
        estimator._fitted_loss = estimator.plan_.chosen["loss"]


@available_if(streams)
@one_step
def partial_fit(self, X: Any, y: Any, classes: Any = None, **said: Any) -> Any:
    """Learns from the next batch of a stream, within (epsilon, delta) for the whole stream, and releases the model so far.

    The first call plans and charges for all of it: at most `steps` batches (of ``method=dpopt.methods.DPFTRL(steps=...)``: here the public number of
    calls), of at most ``ceil(n_rows / steps)`` records; without `n_rows` as many as the first batch has. Each record comes in **one batch only**: that is
    your word, nothing checks it, and several epochs over the same records cost as many times the budget (docs/online.md).

    Parameters
    ----------
    X, y
        As in :meth:`fit`; the columns are those of the first batch.
    classes
        All labels, from public knowledge and not from the data (no ``np.unique(y)``: a label that one record has would show); on the
        first call, unless they are a parameter of the estimator.
    said
        Nothing else; a ``sample_weight`` is refused with the reason.
    """
    learn(self, Classes(), X, y, classes, said)
    return self


__all__ = ["Classes", "partial_fit"]
