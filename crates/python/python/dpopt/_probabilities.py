"""Class probabilities from scores, by the loss that was minimised: methods of those classifiers that have them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import _core


def predict_proba(self, X: Any) -> np.ndarray:
    """P(class) per row; for a shifted logistic loss by its own link (probabilities stay calibrated)."""
    if self._table is not None:
        return self._table.probabilities(self, X)
    return probabilities_of(self, self.decision_function(X))


def predict_log_proba(self, X: Any) -> np.ndarray:
    """ln P(class) per row."""
    with np.errstate(divide="ignore"):
        return np.log(self.predict_proba(X))


def probabilities_of(estimator: Any, scores: np.ndarray) -> np.ndarray:
    """P(class) at scores: the one map, which exports ask for too."""
    if scores.ndim == 1:
        p = _core.probability(json.dumps(estimator._fitted_loss), np.ascontiguousarray(scores, dtype=np.float64))
        return np.column_stack([1 - p, p])
    scores = scores - scores.max(axis=1, keepdims=True)
    e = np.exp(scores)
    return e / e.sum(axis=1, keepdims=True)


__all__ = ["predict_log_proba", "predict_proba", "probabilities_of"]
