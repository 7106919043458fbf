"""Scores of rows, finite whatever finite numbers they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Scores beyond are this: differences of them are finite too.
LARGEST_SCORE = float(np.finfo(np.float64).max) / 4


def finite_scores(scores: np.ndarray, X: Any, again: Callable[[Any, np.ndarray], np.ndarray]) -> np.ndarray:
    """`scores`, and those of rows whose numbers are too large to be added up from `again`: of such rows divided by their largest number, and that number,
    scores divided by it. Those of one row keep their order."""
    wild = ~np.isfinite(scores).reshape(scores.shape[0], -1).all(axis=1)
    if wild.any():
        rows = X[wild]
        rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
        scale = np.abs(rows).max(axis=1)
        with np.errstate(all="ignore"):
            parts = np.clip(again(rows / scale[:, None], scale), -LARGEST_SCORE, LARGEST_SCORE)
            top = np.abs(parts.reshape(len(rows), -1)).max(axis=1)
            factor = np.minimum(scale, LARGEST_SCORE / np.maximum(top, np.finfo(np.float64).tiny))
            scores[wild] = parts * (factor if parts.ndim == 1 else factor[:, None])
    return scores


def linear_scores(X: Any, coef: np.ndarray, intercept: Any) -> np.ndarray:
    """X·coef + intercept, finite whatever finite numbers X holds."""
    with np.errstate(all="ignore"):
        scores = np.asarray(X @ coef.T + intercept)

    def again(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
        total = rows @ coef.T
        return total + intercept / (scale if total.ndim == 1 else scale[:, None])

    return finite_scores(scores, X, again)


def finite_rows(X: Any, lower: np.ndarray, upper: np.ndarray, centre: np.ndarray) -> Any:
    """`X` with every missing number in the middle of its bounds and every infinite one at its bound, as in the fit (0 without)."""
    values = X.data if sp.issparse(X) else X
    wild = ~np.isfinite(values)
    if not wild.any():
        return X
    X = X.copy()
    if sp.issparse(X):
        at, column = wild, X.indices[wild]
        values = X.data
    else:
        at = np.nonzero(wild)
        column, values = at[1], X
    found = np.clip(values[at].astype(np.float64), lower[column], upper[column])
    values[at] = np.where(np.isfinite(found), found, centre[column])
    return X


__all__ = ["finite_rows", "finite_scores", "linear_scores"]
