"""Private linear models with at most k features, by iterative hard thresholding, peeling or Frank–Wolfe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from . import _probabilities
from ._classifiers import PrivateLinearClassifier
from ._docs import documented
from ._options import NO_INTERVALS, SPARSE
from ._public_facts import Columns, Encoding, Unit
from ._reading import shown
from ._regressors import PrivateLinearRegressor
from ._rows import Bounding
from ._settings import DEFAULT_EPSILON, Method, keep
from .ledger import Ledger


def _most_features(estimator: Any) -> int:
    """The public number of features with a coefficient."""
    k = estimator.max_features
    if not (isinstance(k, (int, np.integer)) and k >= 1):
        raise ValueError(f"max_features is {shown(k)}; give a whole number, at least 1")
    return int(k)


def _chosen(estimator: Any, indices: bool) -> np.ndarray:
    """Which features were chosen."""
    mask = (np.atleast_2d(estimator.coef_) != 0).any(axis=0)
    return np.flatnonzero(mask) if indices else mask


@documented(attributes=("classes_",))
class SparseLogisticRegression(PrivateLinearClassifier):
    """Private logistic regression with at most `max_features` features; several classes one against the rest, each with an equal share of the
    budget.

    {parameters}

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = sp.random(4000, 2000, density=0.005, format="lil", random_state=0, data_rvs=lambda n: np.full(n, 0.3))
    >>> y = rng.integers(0, 2, 4000); X[y == 1, 7] = 1.0; X[y == 0, 11] = 1.0
    >>> model = dpopt.SparseLogisticRegression(
    ...     max_features=2, epsilon=2.0, delta=1e-6, row_norm=1.0, classes=[0, 1]).fit(X.tocsr(), y)
    >>> model.get_support(indices=True).tolist()
    [7, 11]
    """

    _usable_methods: ClassVar[frozenset[str]] = SPARSE
    _options_of_others: ClassVar[Mapping[str, str]] = NO_INTERVALS
    max_features: int
    predict_proba = _probabilities.predict_proba
    predict_log_proba = _probabilities.predict_log_proba

    def __init__(
        self, max_features: int = 10, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto",
        bounds: Any = None, columns: Columns | None = None, classes: Any = None, unit: Unit | None = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None,
        fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        k = _most_features(self)
        return {**super()._options(facts), "max_features": k}

    def _keeps_columns(self) -> str | None:
        return "its columns are what is chosen from"

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Features with a coefficient that is not zero: a mask, or their indices."""
        return _chosen(self, indices)

    def _class_loss(self) -> Any:
        _most_features(self)
        return {"one-against-rest": {"name": "logistic", "shift": 0.0}}


@documented(attributes=("target_range_", "target_clip_bias_"))
class SparseLinearRegression(PrivateLinearRegressor):
    """Private least squares with at most `max_features` features.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (8000, 30)); y = X[:, 3] - 0.8 * X[:, 20]
    >>> model = dpopt.SparseLinearRegression(
    ...     max_features=2, epsilon=4.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1.8, 1.8)).fit(X, y)
    >>> model.get_support(indices=True).tolist()
    [3, 20]
    """

    _usable_methods: ClassVar[frozenset[str]] = SPARSE
    _options_of_others: ClassVar[Mapping[str, str]] = {}
    max_features: int

    def __init__(
        self, max_features: int = 10, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto",
        bounds: Any = None, columns: Columns | None = None, target_bounds: Any = None, heavy_tailed: Any = None, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        k = _most_features(self)
        return {**super()._options(facts), "max_features": k}

    def _keeps_columns(self) -> str | None:
        return "its columns are what is chosen from"

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Features with a coefficient that is not zero: a mask, or their indices."""
        return _chosen(self, indices)

    def _loss(self) -> dict[str, Any]:
        _most_features(self)
        return {"name": "squared"}


__all__ = ["SparseLinearRegression", "SparseLogisticRegression"]
