"""Private additive models: a sum of one function for each column, which can be drawn, bounded in its direction and read off for each record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from . import _probabilities, _terms
from ._classifiers import PrivateLinearClassifier
from ._docs import documented
from ._public_facts import Columns, Unit
from ._regressors import PrivateLinearRegressor
from ._settings import DEFAULT_EPSILON, Method, keep
from .ledger import Ledger

#: What ``interactions=`` takes.
Interactions = Sequence[tuple[str, str]] | Literal["none", "private", "all"]
_INTERACTIONS = (
    "str or list",
    'Products of two columns: ``"none"``; pairs of names, ``[("age", "hours")]``; ``"private"``, those that a first private model finds to matter, for a part of '
    'epsilon; or ``"all"``.',
)


@documented(attributes=("classes_",), interactions=_INTERACTIONS)
class AdditiveClassifier(PrivateLinearClassifier):
    """Private additive classifier: log-odds are a sum of one function for each column, as of a generalized additive model or an explainable boosting machine.

    A number has a curve, of splines after a private quantile transform; a category a value for each level. A number may be declared to move predictions one
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

    # what other linear models have as parameters
    row_norm = max_nonzeros = None
    fit_intercept, intercept_scaling, accountant = True, 0.5, "auto"
    encoding = property(_terms.encoding)
    terms_, base_value_ = property(_terms.terms), property(_terms.base_value)
    shapes, contributions = _terms.shapes, _terms.contributions
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
class AdditiveRegressor(PrivateLinearRegressor):
    """Private additive regression: predictions are a sum of one function for each column, as of a generalized additive model or an explainable boosting machine.

    A number has a curve, of splines after a private quantile transform; a category a value for each level. A number may be declared to move predictions one
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

    # what other linear models have as parameters
    row_norm = max_nonzeros = None
    fit_intercept, intercept_scaling, accountant = True, 0.5, "auto"
    encoding = property(_terms.encoding)
    terms_, base_value_ = property(_terms.terms), property(_terms.base_value)
    shapes, contributions = _terms.shapes, _terms.contributions

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, target_bounds: Any = None, heavy_tailed: Any = None, interactions: Interactions = "none",
        unit: Unit | None = None, neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None,
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())


__all__ = ["AdditiveClassifier", "AdditiveRegressor"]
