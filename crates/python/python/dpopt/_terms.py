"""What the estimators of additive models have in common: an encoder whose columns add up exactly, their terms, and what each adds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ._reading import shown
from ._shapes import Shape, scale_of, shapes_of


def encoding(self: Any) -> dict[str, Any]:
    """Constants of the encoder: rows are not scaled as a whole, so that each column adds what it says alone."""
    given = self.interactions
    if isinstance(given, str):
        if given not in ("none", "private", "all"):
            raise ValueError(
                f'interactions is {shown(given)}; give "none", "private", "all" or pairs of names: [("age", "hours")]'
            )
        return {"additive": True, "pairs": given}
    pairs = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
        for pair in pairs
    ):
        raise TypeError('interactions has an entry that is no pair of names; give [("age", "hours")]')
    return {"additive": True, "pairs": [list(pair) for pair in pairs] or "none"}


def _held(self: Any) -> list[list[dict[str, Any]]]:
    """The terms of each output as the model's file has them."""
    check_is_fitted(self)
    found: list[list[dict[str, Any]]] = json.loads(self._table.model.terms())
    return found


def terms(self: Any) -> list[tuple[str, ...]]:
    """The columns and pairs of columns that predictions are a sum over, in the order of :meth:`contributions`."""
    return [tuple(term["columns"]) for term in _held(self)[0]]


def shapes(self: Any, output: Any = None) -> list[Shape]:
    """The function of each column and pair, the one that moves predictions most first; :func:`dpopt.plot.shapes` draws them.

    Parameters
    ----------
    output
        Of three or more classes, the class.

    Hashed columns and texts have none: nothing declares which values there are. Made of what was released: it costs nothing.
    """
    return shapes_of(self, output)


def contributions(self: Any, X: Any) -> np.ndarray:
    """What each column and pair of :attr:`terms_` adds for each record.

    Parameters
    ----------
    X
        Records as for ``predict``.

    Returns
    -------
    ndarray
        Records × terms, of three or more classes × classes. With :attr:`base_value_` they add up to the decision function, or to the prediction before it is
        brought into the range of y. What is shown tells of the records in X, which the guarantee is not about.
    """
    held = _held(self)
    rows, scale, outputs = self.encoder_.transform(X), scale_of(self._table), np.atleast_2d(self.coef_)
    order = _order(self, len(outputs))
    found = []
    for coef, place in zip(outputs, order):
        ends = [term["features"] for term in held[place]]
        first = np.repeat(np.arange(len(ends)), [last - start for start, last in ends])
        features = np.concatenate([np.arange(*pair) for pair in ends])
        to_terms = sp.csr_matrix((coef[features], (features, first)), shape=(len(coef), len(ends)))
        means = np.array([term["mean"] for term in held[place]]) * scale
        found.append((rows @ to_terms).toarray() - means)
    return found[0] if len(found) == 1 else np.stack(found, axis=2)


def base_value(self: Any) -> Any:
    """What :meth:`contributions` are added to: of three or more classes one number for each."""
    held, scale, outputs = _held(self), scale_of(self._table), np.atleast_2d(self.coef_)
    constant = np.ravel(self.intercept_) + outputs[:, 0] * self._table.model.constant()
    means = [sum(term["mean"] for term in held[place]) * scale for place in _order(self, len(outputs))]
    found = constant + means
    return float(found[0]) if len(found) == 1 else found


def _order(self: Any, outputs: int) -> Sequence[int]:
    """Where the model's file has each output."""
    return [0] if outputs == 1 else self._table.order.places.tolist()


__all__ = ["base_value", "contributions", "encoding", "shapes", "terms"]
