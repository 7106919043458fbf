"""Private additive models: a sum of one function for each column, which can be drawn, bounded in its direction and read off for each record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from . import _probabilities
from ._classifiers import PrivateLinearClassifier
from ._docs import documented
from ._linear import PrivateLinear
from ._public_facts import Columns, Unit
from ._reading import shown
from ._regressors import PrivateLinearRegressor
from ._settings import DEFAULT_EPSILON, Method, keep
from ._shapes import Shape, scale_of, shapes_of
from .ledger import Ledger

#: What ``interactions=`` takes.
Interactions = Sequence[tuple[str, str]] | Literal["none", "private", "all"]
_INTERACTIONS = (
    "str or list",
    'Products of two columns: ``"none"``; pairs of names, ``[("age", "hours")]``; ``"private"``, those that a first private model finds to matter, for a part of '
    'epsilon; or ``"all"``.',
)


class _Additive(PrivateLinear):
    """An encoder whose rows are not scaled as a whole, so that each column adds what it says alone."""

    # what else the estimators of linear models have as parameters
    row_norm = max_nonzeros = None
    fit_intercept, intercept_scaling, accountant = True, 0.5, "auto"
    interactions: Any

    @property
    def encoding(self) -> dict[str, Any]:
        """Constants of the encoder."""
        given = self.interactions
        if isinstance(given, str):
            if given not in ("none", "private", "all"):
                raise ValueError(
                    f'interactions is {shown(given)}; give "none", "private", "all" or pairs of names: [("age", "hours")]'
                )
            return {"centred": False, "pairs": given}
        pairs = list(given) if isinstance(given, (list, tuple)) else [given]
        if not all(
            isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
            for pair in pairs
        ):
            raise TypeError('interactions has an entry that is no pair of names; give [("age", "hours")]')
        return {"centred": False, "pairs": [list(pair) for pair in pairs] or "none"}

    def _terms(self) -> list[list[dict[str, Any]]]:
        """The terms of each output as the model's file has them."""
        check_is_fitted(self)
        found: list[list[dict[str, Any]]] = json.loads(self._table.model.terms())  # type: ignore[union-attr]
        return found

    @property
    def terms_(self) -> list[tuple[str, ...]]:
        """The columns and pairs of columns that predictions are a sum over, in the order of :meth:`contributions`."""
        return [tuple(term["columns"]) for term in self._terms()[0]]

    def shapes(self, output: Any = None) -> list[Shape]:
        """The function of each column and pair, the one that moves predictions most first; :func:`dpopt.plot.shapes` draws them.

        Parameters
        ----------
        output
            Of three or more classes, the class.

        Hashed columns and texts have none: nothing declares which values there are. Made of what was released: it costs nothing.
        """
        return shapes_of(self, output)

    def contributions(self, X: Any) -> np.ndarray:
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
        terms = self._terms()
        rows, scale, outputs = self.encoder_.transform(X), scale_of(self._table), np.atleast_2d(self.coef_)
        order = self._order(len(outputs))
        found = []
        for coef, place in zip(outputs, order):
            ends = [term["features"] for term in terms[place]]
            first = np.repeat(np.arange(len(ends)), [last - start for start, last in ends])
            features = np.concatenate([np.arange(*pair) for pair in ends])
            to_terms = sp.csr_matrix((coef[features], (features, first)), shape=(len(coef), len(ends)))
            means = np.array([term["mean"] for term in terms[place]]) * scale
            found.append((rows @ to_terms).toarray() - means)
        return found[0] if len(found) == 1 else np.stack(found, axis=2)

    @property
    def base_value_(self) -> Any:
        """What :meth:`contributions` are added to: of three or more classes one number for each."""
        terms, scale, outputs = self._terms(), scale_of(self._table), np.atleast_2d(self.coef_)
        constant = np.ravel(self.intercept_) + outputs[:, 0] * self._table.model.constant()  # type: ignore[union-attr]
        means = [sum(term["mean"] for term in terms[place]) * scale for place in self._order(len(outputs))]
        found = constant + means
        return float(found[0]) if len(found) == 1 else found

    def _order(self, outputs: int) -> Sequence[int]:
        """Where the model's file has each output."""
        return [0] if outputs == 1 else self._table.order.places.tolist()  # type: ignore[union-attr]


@documented(attributes=("classes_",), interactions=_INTERACTIONS)
class AdditiveClassifier(_Additive, PrivateLinearClassifier):
    """Private additive classifier: log-odds are a sum of one function for each column, as of a generalized additive model or an explainable boosting machine.

    Numbers are piecewise linear functions after a private quantile transform, categories a value for each level. A number may be declared to move predictions one
    way, with ``columns=dpopt.Columns(monotone={"age": "increasing"})``: the second one of two listed `classes` gets never less likely.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (5000, 2)); y = (np.abs(X[:, 0] - 0.5) < 0.3 * X[:, 1]).astype(int)
    >>> monotone = dpopt.Columns(monotone={"x1": "increasing"})
    >>> model = dpopt.AdditiveClassifier(epsilon=2.0, delta=1e-6, bounds=(0, 1), classes=[0, 1], columns=monotone).fit(X, y)
    >>> model.terms_
    [('x0',), ('x1',)]
    >>> parts = model.contributions(X[:3])
    >>> bool(np.allclose(parts.sum(axis=1) + model.base_value_, model.decision_function(X[:3]), atol=1e-5))
    True
    >>> rising = next(shape for shape in model.shapes() if shape.columns == ("x1",))
    >>> bool(np.all(np.diff(rising.effects) >= -1e-6))
    True
    """

    predict_proba = _probabilities.predict_proba
    predict_log_proba = _probabilities.predict_log_proba

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, classes: Any = None, interactions: Interactions = "none", unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, bounds_budget: float | None = None,
        bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        return "logistic"


@documented(attributes=("target_range_", "target_clip_bias_"), interactions=_INTERACTIONS)
class AdditiveRegressor(_Additive, PrivateLinearRegressor):
    """Private additive regression: predictions are a sum of one function for each column, as of a generalized additive model or an explainable boosting machine.

    Numbers are piecewise linear functions after a private quantile transform, categories a value for each level. A number may be declared to move predictions one
    way, with ``columns=dpopt.Columns(monotone={"age": "increasing"})``.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (5000, 2)); y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
    >>> model = dpopt.AdditiveRegressor(epsilon=2.0, delta=1e-6, bounds=(0, 1), target_bounds=(-1, 2)).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> [shape.columns for shape in model.shapes()]
    [('x0',), ('x1',)]
    """

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, target_bounds: Any = None, heavy_tailed: Any = None, interactions: Interactions = "none",
        unit: Unit | None = None, neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None,
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())


__all__ = ["AdditiveClassifier", "AdditiveRegressor"]
