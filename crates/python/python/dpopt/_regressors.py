"""Private regression: linear models of means and quantiles, log-linear ones of counts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from . import _inference, _partial_fit_numbers
from ._docs import documented
from ._fitted_table import FittedTable
from ._linear import PrivateLinear
from ._moments import Moment, in_text, moment
from ._one_fit import one_fit
from ._options import NO_INTERVALS
from ._public_facts import Columns, Encoding, Unit
from ._reading import number, same_length, scored, shown, target
from ._rows import Bounding, _pair
from ._settings import DEFAULT_EPSILON, Method, keep
from ._tables import column, names_of
from ._targets import Decoding, Interval, Reading
from ._warnings import warn
from .ledger import Ledger

_NO_SHIFT = {
    "shift": "it shifts a logistic loss, and a number is predicted here; leave it out, or take LogisticRegression"
}
_BY_RIDGE = {"regularization": "nothing is regularised here; take Ridge(alpha=...)"}


class PrivateLinearRegressor(RegressorMixin, PrivateLinear):
    """Targets and predictions of linear regression."""

    _options_of_others: ClassVar[Mapping[str, str]] = _NO_SHIFT
    target_bounds: Any
    heavy_tailed: Any
    target_range_: tuple[float, float]
    target_clip_bias_: float

    def _loss(self) -> dict[str, Any]:
        return {"name": "squared"}

    def _target(self, known: int | None) -> dict[str, Any]:
        return {"number": self._loss()}

    def _target_range(self) -> tuple[float, float] | None:
        """The declared range of y; None where a moment of it says where to clip, or the range is found privately."""
        if self.target_bounds is None:
            return None
        if self._moment() is not None:
            raise ValueError(
                "target_bounds and heavy_tailed both determine where y is clipped; leave out one of the two"
            )
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
        """Whether the range of y is to be found privately before the model."""
        return self._target_range() is None and not self._scale_is_known()

    def _range_asked(self) -> Any:
        declared = self._target_range()
        if declared is not None:
            return {"known": declared}
        return {"moment": self._moment()} if self._scale_is_known() else "found"

    def _before_charge(self, fit: Any) -> None:
        if self._finds_range() and not fit.finds_range():
            warn(
                "target_bounds is not given, and there are too few rows to find the range of y privately at this epsilon, so that y is clipped to [-1, 1]. Give the public range target_bounds=(lower, upper), or a bound on a moment of y, heavy_tailed=(2, 100, 50)"
            )

    def _table_loss(self) -> dict[str, Any] | None:
        loss = self._loss()
        return None if loss["name"] == "squared" else loss

    def _target_facts(self, y: Any) -> tuple[bool, dict[str, Any]]:
        declared = self._target_range()
        if declared is None:
            return True, {}
        lower, upper = declared
        return True, {"lower": lower, "upper": upper}

    def _learned(self, table: FittedTable) -> None:
        clip = table.target_clip
        lower, upper = table.model.range
        self.target_range_ = (lower, upper)
        self.target_clip_bias_ = float("nan") if clip is None else json.loads(clip)["clip_bias"]

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None, **said: Any) -> PrivateLinearRegressor:
        """Fits the model and releases its coefficients within (epsilon, delta).

        Parameters
        ----------
        X
            Rows × features: array, sparse matrix, or table; or :class:`dpopt.partitions.Partitions`, remote records with their targets.
        y
            One number per row, clipped to `target_bounds`. Where columns are declared by name also the name of a column of X.
        units
            Whose rows they are, where a person may have several: one id for each row, or the name of a column of a table, which
            then is no feature. All rows of an id are protected as a whole (docs/python.md, "Protect people, not rows").
        said
            Nothing else; a ``sample_weight`` is refused with the reason.
        """
        self._fit(X, y, units, said)
        self._flat()
        return self

    def _flat(self) -> None:
        """Of one output, as scikit-learn's regressors have them."""
        self.coef_, self.intercept_ = self.coef_[0], np.float64(self.intercept_[0])
        self.coef_noise_std_ = self.coef_noise_std_[0]

    def _targets(self, y: Any) -> np.ndarray:
        return target(y)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions on (X, y), whose targets are taken as they stand; exact, so not private for these records.

        Records without a finite target are left out, with a warning that says how many.
        """
        from sklearn.metrics import r2_score

        truth, guess = self._truth(X, y), self.predict(X)
        same_length(guess, truth)
        known, weights = scored(np.isfinite(truth), sample_weight, "a finite target")
        return float(r2_score(truth[known], guess[known], sample_weight=weights))

    def _truth(self, X: Any, y: Any) -> np.ndarray:
        """The targets of records that are scored; of a table `y` may be the name of a column."""
        if self._table is not None and isinstance(y, str) and y in names_of(X):
            y = column(X, names_of(X).index(y))
        return target(y)

    def _read(self, y: np.ndarray) -> Reading:
        return Reading(y)

    def _read_remote(self, owner: str | None) -> Reading:
        if owner is not None and self._finds_range():
            raise ValueError(
                "target_bounds is not given, and finding a range takes a secret choice of one row per unit, which remote records cannot make; give target_bounds=(lower, upper)"
            )
        return super()._read_remote(owner)

    def _decoding(
        self,
        reading: Reading,
        labels: list[int] | None,
        ends: tuple[float, float] | None,
        clip: tuple[float, str] | None = None,
    ) -> Decoding:
        assert ends is not None
        lower, upper = self.target_range_ = ends
        self.target_clip_bias_, words = clip or (float("nan"), f"The target is clipped to [{lower:g}, {upper:g}].")
        return self._in_units(words, lower, upper)

    def _in_units(self, words: str, lower: float, upper: float) -> Decoding:
        """What released scores stand for, of a target that was clipped to this range."""
        return Decoding(words, (upper - lower) / 2, (lower + upper) / 2)

    def predict(self, X: Any) -> np.ndarray:
        """X·coef + intercept; where columns are encoded, the same of their features and within the target's range."""
        if self._table is not None:
            return self._table.numbers(self, X)
        return self._form.scores(self, self._check_X(X))

    def predict_interval(self, X: Any) -> np.ndarray:
        """Lower and upper end of an interval for each record, an array of shape (n, 2), that holds y for at least the share of records that the fit was
        asked for: ``method=dpopt.methods.Auto(intervals=0.9)``.

        Every interval is as wide, but for ends that keep to a declared `target_bounds` (docs/inference.md, "Prediction intervals").
        """
        check_is_fitted(self)
        interval: Interval | None = getattr(self, "_interval", None)
        if interval is None:
            raise ValueError(
                f"{type(self).__name__} has no prediction intervals, which are for a regression with the squared, absolute or huber loss"
                if "intervals" in self._options_of_others
                else "this model was fitted without prediction intervals; fit it with method=dpopt.methods.Auto(intervals=0.9), or intervals= of another method"
            )
        guess = np.clip(self.predict(X), *self.target_range_)
        ends = np.column_stack([guess - interval.half_width, guess + interval.half_width])
        return np.clip(ends, *self.target_range_) if interval.within_range else ends

    def __sklearn_tags__(self) -> Any:
        # again: scikit-learn's mixin, which comes first, makes new tags
        return self._with_tags(super().__sklearn_tags__())


@documented(attributes=("target_range_", "target_clip_bias_"))
class LinearRegression(PrivateLinearRegressor):
    """Private least squares (Huber's loss where a method needs a bounded slope).

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = X[:, 0] - 0.5 * X[:, 1]
    >>> model = dpopt.LinearRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1.5, 1.5)).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _options_of_others: ClassVar[Mapping[str, str]] = {**_NO_SHIFT, **_BY_RIDGE}
    partial_fit = _partial_fit_numbers.partial_fit
    conf_int, summary = _inference.conf_int, _inference.summary

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, target_bounds: Any = None, heavy_tailed: Any = None, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())


@documented(
    attributes=("target_range_", "target_clip_bias_"),
    alpha=(
        "float",
        "λ of the penalty (λ/2)‖θ‖² on the *sum* of half squared errors, in units of bounded rows and of y scaled to [-1, 1]. A method raises it where "
        "its proof needs more.",
    ),
)
class Ridge(PrivateLinearRegressor):
    """Private ridge regression.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = X[:, 0]
    >>> model = dpopt.Ridge(alpha=1.0, epsilon=2.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    _options_of_others: ClassVar[Mapping[str, str]] = {
        **_NO_SHIFT,
        "regularization": "say it as alpha=, a parameter of Ridge",
    }
    alpha: float
    partial_fit = _partial_fit_numbers.partial_fit

    def __init__(
        self, alpha: float = 1.0, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto",
        bounds: Any = None, columns: Columns | None = None, target_bounds: Any = None, heavy_tailed: Any = None, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        alpha = number(self.alpha, "alpha")
        if not (alpha > 0 and math.isfinite(alpha)):
            raise ValueError(f"alpha is {alpha}; give a positive, finite number (or use LinearRegression)")
        return {**super()._options(facts), "regularization": alpha}


@documented(
    attributes=("target_range_", "target_clip_bias_"),
    threshold=("float", "Where the loss becomes linear, with y scaled to [-1, 1]."),
)
class HuberRegression(PrivateLinearRegressor):
    """Private regression by Huber's loss: squared for small residuals, linear for large ones, so that a few records far off move the answer
    little, and no record's gradient is larger than `threshold`.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (6000, 2)); y = 50 + 20 * X[:, 0] + 5 * rng.standard_t(2.2, 6000)
    >>> model = dpopt.HuberRegression(
    ...     epsilon=2.0, delta=1e-6, bounds=(-1, 1), heavy_tailed=(2, 20, 50), encoding=None).fit(X, y)
    >>> bool(abs(model.coef_[0] - 20) < 5)
    True
    """

    _options_of_others: ClassVar[Mapping[str, str]] = {
        **_NO_SHIFT,
        **_BY_RIDGE,
        "calibration": "means are not what Huber's loss is about; leave it out, or take LinearRegression",
    }
    threshold: float
    partial_fit = _partial_fit_numbers.partial_fit

    def __init__(
        self, threshold: float = 0.1, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto",
        bounds: Any = None, columns: Columns | None = None, target_bounds: Any = None, heavy_tailed: Any = None, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _loss(self) -> dict[str, Any]:
        return {"name": "huber", "threshold": number(self.threshold, "threshold")}


#: Options of methods that only take other losses.
_OF_OTHER_LOSSES = dict.fromkeys(
    ("draws", "constant_time", "geometry", "dual_row_norm", "phases", "gradient_moment", "moment_order"),
    "the methods that have it do not take the Poisson loss; leave it out",
)


@documented(
    attributes=("target_range_", "target_clip_bias_"),
    target_bounds=(
        "(0, largest)",
        "Public range of y, from 0; too large a largest count costs accuracy. Else found privately, for up to 30 % of epsilon.",
    ),
)
class PoissonRegressor(PrivateLinearRegressor):
    """Private Poisson regression: the expected count is exp(X·coef + intercept), positive and within the range of y.

    The Poisson deviance is minimised without a penalty, by methods that clip gradients. ``score`` is D².

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2)); y = rng.poisson(np.exp(0.5 + X[:, 0] - 0.5 * X[:, 1]))
    >>> model = dpopt.PoissonRegressor(epsilon=2.0, delta=1e-6, bounds=(-1, 1), encoding=None).fit(X, y)
    >>> bool(np.all(model.predict(X) > 0)), bool(model.score(X, y) > 0.2)
    (True, True)
    """

    _options_of_others: ClassVar[Mapping[str, str]] = {**_NO_SHIFT, **NO_INTERVALS, **_OF_OTHER_LOSSES}
    #: The largest count that is told from larger ones, over the one that a score of 0 stands for.
    _top: float = 8.0

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, target_bounds: Any = None, unit: Unit | None = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None,
        fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _loss(self) -> dict[str, Any]:
        return {"name": "poisson", "top": self._top}

    def _in_units(self, words: str, lower: float, upper: float) -> Decoding:
        return Decoding(words, 1.0, math.log(upper / self._top), (lower, upper))

    def predict(self, X: Any) -> np.ndarray:
        """Expected counts: exp(X·coef + intercept), at most the largest count of ``target_range_``."""
        if self._table is not None:
            return self._table.numbers(self, X)
        with np.errstate(over="ignore"):
            return np.minimum(np.exp(super().predict(X)), self.target_range_[1])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D² of the predictions on (X, y), whose targets are taken as they stand; exact, so not private for these records.

        Records without a finite target of 0 or more are left out, with a warning that says how many.
        """
        from sklearn.metrics import d2_tweedie_score

        truth, guess = self._truth(X, y), np.maximum(self.predict(X), np.finfo(float).tiny)
        same_length(guess, truth)
        known, weights = scored(np.isfinite(truth) & (truth >= 0), sample_weight, "a finite target of 0 or more")
        return float(d2_tweedie_score(truth[known], guess[known], sample_weight=weights, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        # of counts the law itself leaves most of the deviance
        tags.regressor_tags.poor_score = True
        return tags


#: Half width of the parabola in place of the corner of the pinball loss, with y scaled to [-1, 1].
_USUAL_WIDTH = 0.02


@documented(
    attributes=("target_range_", "target_clip_bias_"),
    quantile=("float", "The share of targets below the predictions, between 0 and 1; 0.5 is the median."),
)
class QuantileRegressor(PrivateLinearRegressor):
    """Private quantile regression: predicts what a share `quantile` of the targets stays below.

    The pinball loss is minimised without a penalty, its corner replaced by a narrow parabola. ``score`` is D² of the pinball loss.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2)); y = 5 + 2 * X[:, 0] + (2 + X[:, 1]) * rng.exponential(1.0, 20000)
    >>> model = dpopt.QuantileRegressor(quantile=0.9, epsilon=2.0, delta=1e-6, bounds=(-1, 1), encoding=None).fit(X, y)
    >>> bool(abs(np.mean(y <= model.predict(X)) - 0.9) < 0.02)
    True
    """

    _options_of_others: ClassVar[Mapping[str, str]] = {
        **NO_INTERVALS,
        **_NO_SHIFT,
        **_BY_RIDGE,
        "calibration": "it sets means, and a quantile is predicted here; leave it out, or take LinearRegression",
    }
    quantile: float

    def __init__(
        self, quantile: float = 0.5, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto",
        bounds: Any = None, columns: Columns | None = None, target_bounds: Any = None, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _level(self) -> float:
        level = number(self.quantile, "quantile")
        if not 0 < level < 1:
            raise ValueError(f"quantile is {level:g}; give a number between 0 and 1, such as 0.9")
        return level

    def _loss(self) -> dict[str, Any]:
        return {"name": "quantile", "level": self._level(), "width": _USUAL_WIDTH}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D² of the pinball loss of the predictions on (X, y), whose targets are taken as they stand; exact, so not private for these records.

        1 less the mean pinball loss over that of the quantile of y alone. Records without a finite target are left out, with a warning that says how many.
        """
        from sklearn.metrics import d2_pinball_score

        truth, guess = self._truth(X, y), self.predict(X)
        same_length(guess, truth)
        known, weights = scored(np.isfinite(truth), sample_weight, "a finite target")
        return float(d2_pinball_score(truth[known], guess[known], sample_weight=weights, alpha=self._level()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn scores by R², which is about means
        tags.regressor_tags.poor_score = True
        return tags


@documented(
    attributes=("target_range_", "target_clip_bias_"),
    loss=("str", '``"squared_error"``, ``"huber"`` or ``"absolute_error"``.'),
    threshold=("float", "Where Huber's loss becomes linear, with y scaled to [-1, 1]."),
)
class SGDRegressor(PrivateLinearRegressor):
    """Private stochastic gradient descent (DP-SGD with Poisson batches) for linear regression.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = X[:, 0]
    >>> model = dpopt.SGDRegressor(
    ...     epsilon=4.0, delta=1e-6, method=dpopt.methods.NoisySGD(sampling_probability=0.2), bounds=(-1, 1), target_bounds=(-1, 1)).fit(X, y)
    >>> model.plan_.method
    'noisy-sgd'
    """

    loss: str
    threshold: float
    partial_fit = _partial_fit_numbers.partial_fit

    def __init__(
        self, loss: str = "squared_error", epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *,
        method: str | Method = "noisy-sgd", bounds: Any = None, columns: Columns | None = None, target_bounds: Any = None,
        heavy_tailed: Any = None, threshold: float = 0.5, unit: Unit | None = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None,
        fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
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


__all__ = ["HuberRegression", "LinearRegression", "PoissonRegressor", "QuantileRegressor", "Ridge", "SGDRegressor"]
