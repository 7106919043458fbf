"""Private linear models with at most k features, by iterative hard thresholding, peeling or Frank–Wolfe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._classifiers import PrivateLinearClassifier, ProbabilityMixin
from ._docs import documented
from ._options import SPARSE_OPTIONS, keep, with_options
from ._reading import shown
from ._regressors import PrivateLinearRegressor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import SparseOptions

SPARSE_PARAMETERS = """    max_features: k, the largest number of features with a coefficient that is not zero; the intercept is not counted.
            A public choice: never the number that looks best on these records."""


def _sparse(cls: Any) -> Any:
    cls.__doc__ = (cls.__doc__ or "").replace("{sparse}", SPARSE_PARAMETERS)
    return documented(cls)


class _Support:
    """Which features were chosen."""

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Features with a coefficient that is not zero: a mask, or their indices."""
        mask = (np.atleast_2d(self.coef_) != 0).any(axis=0)  # type: ignore[attr-defined]
        return np.flatnonzero(mask) if indices else mask

    def _check_k(self) -> None:
        k = self.max_features  # type: ignore[attr-defined]
        if not (isinstance(k, (int, np.integer)) and k >= 1):
            raise ValueError(f"max_features is {shown(k)}; give a whole number, at least 1")


@with_options(SPARSE_OPTIONS)
@_sparse
class SparseLogisticRegression(_Support, ProbabilityMixin, PrivateLinearClassifier):
    """Private logistic regression with at most `max_features` features (per class, if there are more than two).

    More than two classes are fitted one against the rest, each with an equal share of the budget.

    {parameters}
    {sparse}

    >>> import numpy as np, scipy.sparse as sp, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = sp.random(4000, 2000, density=0.005, format="lil", random_state=0, data_rvs=lambda n: np.full(n, 0.3))
    >>> y = rng.integers(0, 2, 4000); X[y == 1, 7] = 1.0; X[y == 0, 11] = 1.0
    >>> model = dpopt.SparseLogisticRegression(
    ...     max_features=2, epsilon=2.0, delta=1e-6, row_norm=1.0, classes=[0, 1]).fit(X.tocsr(), y)
    >>> model.get_support(indices=True).tolist()
    [7, 11]
    """

    def __init__(
        self, max_features=10, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, classes=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[SparseOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        self._check_k()
        return {"one-against-rest": {"name": "logistic", "shift": 0.0}}


@with_options(SPARSE_OPTIONS)
@_sparse
class SparseLinearRegression(_Support, PrivateLinearRegressor):
    """Private least squares with at most `max_features` features.

    {parameters}
    {sparse}

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (8000, 30)); y = X[:, 3] - 0.8 * X[:, 20]
    >>> model = dpopt.SparseLinearRegression(
    ...     max_features=2, epsilon=4.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1.8, 1.8)).fit(X, y)
    >>> model.get_support(indices=True).tolist()
    [3, 20]
    """

    def __init__(
        self, max_features=10, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, target_bounds=None, heavy_tailed=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[SparseOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _loss(self) -> dict[str, Any]:
        self._check_k()
        return {"name": "squared"}


__all__ = ["SparseLinearRegression", "SparseLogisticRegression"]
