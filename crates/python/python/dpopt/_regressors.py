"""Private linear regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin

from ._docs import documented
from ._linear import PrivateLinear, Reading, linear_scores
from ._moments import Moment, in_text, moment
from ._options import LINEAR_OPTIONS, keep, with_options
from ._partial_fit import NumbersOfStream
from ._reading import number, same_length, scored, shown, target
from ._rows import Bounding, _pair
from ._table_fit import NumbersOfTable
from ._tables import column, names_of
from ._warnings import warn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import LinearOptions


class PrivateLinearRegressor(RegressorMixin, NumbersOfTable, PrivateLinear):
    """Targets and predictions of linear regression."""

    def _loss(self) -> dict[str, Any]:
        return {"name": "squared"}

    def _target(self, known: int | None) -> dict[str, Any]:
        return {"number": self._loss()}

    def _target_range(self) -> tuple[float, float] | None:
        """The declared range of y; None where a moment of it says where to clip, or the range is found privately."""
        if self.target_bounds is None:
            return None
        if self._moment() is not None:
            raise ValueError("target_bounds and heavy_tailed both say where y is clipped; leave out one of the two")
        lower, upper = (number(b, "target_bounds") for b in _pair(self.target_bounds))
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise ValueError("target_bounds must be finite with lower < upper")
        return lower, upper

    def _known_moment(self) -> Moment | None:
        """What is known of the tails of y."""
        given = getattr(self, "heavy_tailed", None)
        return None if given is None else moment(given, "heavy_tailed")

    def _moment(self) -> str | None:
        known = self._known_moment()
        return None if known is None else in_text(known)

    def _scale_is_known(self) -> bool:
        known = self._known_moment()
        return known is not None and known[1] is not None

    def _finds_range(self) -> bool:
        return self._target_range() is None and not self._scale_is_known()

    def _before_charge(self, fit: Any) -> None:
        if self._finds_range() and not fit.finds_range():
            warn(
                "no target_bounds were given, and these are too few rows to find the range of y privately at this epsilon, so y is clipped "
                "to [-1, 1]; nothing is read off the data. Give target_bounds=(lower, upper) with what is known about y beforehand, or a "
                "moment of it: heavy_tailed=(2, 100, 50)"
            )

    def fit(self, X: Any, y: Any = None, *, units: Any = None, **said: Any) -> PrivateLinearRegressor:
        """Fits the model and releases its coefficients within (epsilon, delta).

        Args:
            X: rows × features: array, sparse matrix, or table; or :class:`dpopt.parts.Parts`, records that are elsewhere, with their targets.
            y: one number per row, clipped to `target_bounds`. Where columns are declared by name also the name of a column of X.
            units: whose rows they are, where a person may have several: one id for each row, or the name of a column of a table, which
                then is no feature. All rows of an id are protected as a whole (docs/python.md, "Protect people, not rows").
            said: nothing else; a ``sample_weight`` is refused with the reason.
        """
        self._fit(X, y, units, said)
        self._flat()
        return self

    def _flat(self) -> None:
        """Of one output, as scikit-learn's regressors have them."""
        self.coef_, self.intercept_ = self.coef_[0], np.float64(self.intercept_[0])  # type: ignore[assignment]
        self.coef_noise_std_ = self.coef_noise_std_[0]

    def _targets(self, y: Any) -> np.ndarray:
        return target(y)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions on (X, y), whose targets are taken as they stand; exact, so not private for these records.

        Records without a finite target are left out, with a warning that says how many.
        """
        from sklearn.metrics import r2_score

        if self._by_columns() and isinstance(y, str) and y in names_of(X):
            y = column(X, names_of(X).index(y))
        truth, guess = target(y), self.predict(X)
        same_length(guess, truth)
        known, weights = scored(np.isfinite(truth), sample_weight, "a finite target")
        return float(r2_score(truth[known], guess[known], sample_weight=weights))

    def _read(self, y: np.ndarray) -> Reading | None:
        declared = self._target_range()
        return None if declared is None else self._within(y, declared, "The target is clipped to {}.")

    def _found(self, y: np.ndarray, run: Any, owners: Any) -> Reading:
        if run.finds_range():
            found = run.range(np.ascontiguousarray(y, dtype=np.float64), owners)
            return self._within(y, found, "The target is clipped to {}, found privately.")
        if not self._scale_is_known():
            return self._within(y, (-1.0, 1.0), "The target is clipped to {}.")
        lower, upper, bias, words = run.target_clip(self._moment())
        reading = self._within(y, (lower, upper), words)
        self.target_clip_bias_ = bias
        return reading

    def _found_elsewhere(self, run: Any, ask: Any, known: list[tuple[int, int]]) -> tuple[Reading, tuple[float, float]]:
        none = np.zeros(0)
        if run.finds_range():
            reading = self._within(
                none, run.range_elsewhere(ask, known), "The target is clipped to {}, found privately."
            )
        else:
            # by public facts
            reading = self._found(none, run, None)
        return reading, self.target_range_

    def _within(self, y: np.ndarray, ends: tuple[float, float], preparation: str) -> Reading:
        lower, upper = ends
        self.target_range_, self.target_clip_bias_ = (lower, upper), float("nan")
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        scaled = np.clip((np.clip(y, lower, upper) - middle) / half, -1.0, 1.0)
        return Reading(scaled, 1, "regression", preparation.format(f"[{lower:g}, {upper:g}]"), half, middle)

    def predict(self, X: Any) -> np.ndarray:
        """X·coef + intercept; of a table with named columns within the target's range."""
        if self._by_columns():
            return self._table_numbers(X)
        X = self._check_X(X)
        return linear_scores(X, self.coef_, self.intercept_)

    def __sklearn_tags__(self) -> Any:
        # again: scikit-learn's mixin, which comes first, makes new tags
        return self._with_tags(super().__sklearn_tags__())


@with_options(
    LINEAR_OPTIONS,
    without=(
        "regularization",
        "shift",
    ),
)
@documented
class LinearRegression(NumbersOfStream, PrivateLinearRegressor):
    """Private least squares (Huber's loss where a method needs a bounded slope).

    {parameters}

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = X[:, 0] - 0.5 * X[:, 1]
    >>> model = dpopt.LinearRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1.5, 1.5)).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, target_bounds=None, heavy_tailed=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())


@with_options(
    LINEAR_OPTIONS,
    without=(
        "regularization",
        "shift",
    ),
)
@documented
class Ridge(NumbersOfStream, PrivateLinearRegressor):
    """Private ridge regression.

    {parameters}
        alpha: λ of the penalty (λ/2)‖θ‖² on the *sum* of half squared errors, in units of bounded rows and of y scaled
            to [-1, 1]. A method raises it where its proof needs more.

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = X[:, 0]
    >>> model = dpopt.Ridge(alpha=1.0, epsilon=2.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    def __init__(
        self, alpha=1.0, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, target_bounds=None, heavy_tailed=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        alpha = number(self.alpha, "alpha")
        if not (alpha > 0 and math.isfinite(alpha)):
            raise ValueError(f"alpha is {alpha}; give a positive, finite number (or use LinearRegression)")
        return {**super()._options(facts), "regularization": alpha}


@with_options(
    LINEAR_OPTIONS,
    without=(
        "regularization",
        "shift",
        "calibration",
    ),
)
@documented
class HuberRegression(NumbersOfStream, PrivateLinearRegressor):
    """Private regression by Huber's loss: squared for small residuals, linear for large ones, so that a few records far off move the answer
    little, and no record's gradient is larger than `threshold`.

    {parameters}
        threshold: where the loss becomes linear, with y scaled to [-1, 1].

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (6000, 2)); y = 50 + 20 * X[:, 0] + 5 * rng.standard_t(2.2, 6000)
    >>> model = dpopt.HuberRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), heavy_tailed=(2, 20, 50)).fit(X, y)
    >>> bool(abs(model.coef_[0] - 20) < 5)
    True
    """

    def __init__(
        self, threshold=0.1, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, target_bounds=None, heavy_tailed=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _loss(self) -> dict[str, Any]:
        return {"name": "huber", "threshold": number(self.threshold, "threshold")}


@with_options(LINEAR_OPTIONS, without=("shift",))
@documented
class SGDRegressor(NumbersOfStream, PrivateLinearRegressor):
    """Private stochastic gradient descent (DP-SGD with Poisson batches) for linear regression.

    {parameters}
        loss: ``"squared_error"``, ``"huber"`` or ``"absolute_error"``.
        threshold: where Huber's loss becomes linear, with y scaled to [-1, 1].

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = X[:, 0]
    >>> model = dpopt.SGDRegressor(
    ...     epsilon=4.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1), sampling_probability=0.2).fit(X, y)
    >>> model.plan_.method
    'noisy-sgd'
    """

    def __init__(
        self, loss="squared_error", epsilon=1.0, delta=None, *, method="noisy-sgd", threshold=0.5, bounds=None,
        row_norm=None, max_nonzeros=None, target_bounds=None, heavy_tailed=None, neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True,
        intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto", insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _loss(self) -> dict[str, Any]:
        losses: dict[str, dict[str, Any]] = {
            "squared_error": {"name": "squared"},
            "huber": {"name": "huber", "threshold": number(self.threshold, "threshold")},
            "absolute_error": {"name": "absolute"},
        }
        if not isinstance(self.loss, str) or self.loss not in losses:
            raise ValueError(f"loss is {shown(self.loss)}; choose one of {', '.join(losses)}")
        return losses[self.loss]


__all__ = ["HuberRegression", "LinearRegression", "Ridge", "SGDRegressor"]
