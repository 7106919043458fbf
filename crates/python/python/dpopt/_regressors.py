"""Private linear regression and private means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from . import _core, accounting
from ._base import PrivateEstimator, PrivateLinear, coefficient_noise, stage
from ._docs import documented
from ._rows import _pair, as_table
from ._warnings import warn, warn_if_searched


class PrivateLinearRegressor(RegressorMixin, PrivateLinear):
    """Targets and predictions of linear regression."""

    _method_options = ("steps", "learning_rate", "clip_norm", "momentum", "sampling_probability", "regularization")

    def _loss(self) -> dict[str, Any]:
        return {"name": "squared"}

    def _explained(self, n_classes: int) -> tuple[dict[str, Any], int, float]:
        return self._loss(), 1, 0.0

    def _target_range(self) -> tuple[float, float]:
        if self.target_bounds is None:
            warn(
                "no target_bounds were given, so y is clipped to [-1, 1]; nothing is read off the data. Give "
                "target_bounds=(lower, upper) with what is known about y beforehand"
            )
            return -1.0, 1.0
        lower, upper = (float(b) for b in _pair(self.target_bounds))
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise ValueError("target_bounds must be finite with lower < upper")
        return lower, upper

    def fit(self, X: Any, y: Any) -> "PrivateLinearRegressor":
        """Fits the model and releases its coefficients within (epsilon, delta).

        Args:
            X: rows × features: array, sparse matrix, or table.
            y: one number per row, clipped to `target_bounds`.
        """
        relation = self._before_fit()
        X, y = self._validate(X, y, y_numeric=True)
        rows = self._public_rows(X.shape[0], relation)
        delta = self._delta(rows)
        self._warn_budget(rows, delta)
        facts = self._facts(X, X.shape[1])
        lower, upper = self._target_range()
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        target = np.clip((np.clip(np.asarray(y, dtype=np.float64), lower, upper) - middle) / half, -1.0, 1.0)
        budget = (float(self.epsilon), delta)
        weights, stages, ledger = self._run_stages(
            X, [target], ["model"], facts, self._loss(), rows, relation, budget, budget
        )
        coef, intercept = facts.decode(weights)
        self.coef_ = coef[0] * half
        self.intercept_ = float(intercept[0] * half + middle)
        self.coef_noise_std_ = coefficient_noise(self.plan_, facts) * half
        self.privacy_ = self._privacy(stages, ledger, relation, *budget)
        self._keep(
            features=facts.width, task="regression",
            preparation=[f"The target is clipped to [{lower:g}, {upper:g}].", facts.note],
            planning_seconds=self._planning_seconds, ledger=None if self.budget is None else repr(self.budget),
        )  # fmt: skip
        return self

    def predict(self, X: Any) -> np.ndarray:
        """X·coef + intercept."""
        return self._check_X(X) @ self.coef_ + self.intercept_


@documented
class LinearRegression(PrivateLinearRegressor):
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
        self, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, target_bounds=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None,
        steps=None, learning_rate=None, clip_norm=None, momentum=None, sampling_probability=None, insecure_seed=None,
    ):  # fmt: skip
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bounds = bounds
        self.row_norm = row_norm
        self.target_bounds = target_bounds
        self.neighbors = neighbors
        self.accountant = accountant
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.n_rows = n_rows
        self.steps = steps
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.momentum = momentum
        self.sampling_probability = sampling_probability
        self.insecure_seed = insecure_seed


@documented
class Ridge(PrivateLinearRegressor):
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
        self, alpha=1.0, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, target_bounds=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None,
        steps=None, learning_rate=None, clip_norm=None, momentum=None, sampling_probability=None, insecure_seed=None,
    ):  # fmt: skip
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bounds = bounds
        self.row_norm = row_norm
        self.target_bounds = target_bounds
        self.neighbors = neighbors
        self.accountant = accountant
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.n_rows = n_rows
        self.steps = steps
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.momentum = momentum
        self.sampling_probability = sampling_probability
        self.insecure_seed = insecure_seed

    def _options(self) -> dict[str, Any]:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise ValueError(f"alpha is {self.alpha}; give a positive, finite number (or use LinearRegression)")
        return {**super()._options(), "regularization": float(self.alpha)}


@documented
class SGDRegressor(PrivateLinearRegressor):
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
        row_norm=None, target_bounds=None, neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True,
        intercept_scaling=0.5, n_rows=None, regularization=None, steps=None, learning_rate=None, clip_norm=None,
        momentum=None, sampling_probability=None, insecure_seed=None,
    ):  # fmt: skip
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.threshold = threshold
        self.bounds = bounds
        self.row_norm = row_norm
        self.target_bounds = target_bounds
        self.neighbors = neighbors
        self.accountant = accountant
        self.budget = budget
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.n_rows = n_rows
        self.regularization = regularization
        self.steps = steps
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.momentum = momentum
        self.sampling_probability = sampling_probability
        self.insecure_seed = insecure_seed

    def _loss(self) -> dict[str, Any]:
        losses = {
            "squared_error": {"name": "squared"},
            "huber": {"name": "huber", "threshold": float(self.threshold)},
            "absolute_error": {"name": "absolute"},
        }
        if self.loss not in losses:
            raise ValueError(f"loss is {self.loss!r}; choose one of {', '.join(losses)}")
        return losses[self.loss]


#: Total variation of one rounded Gaussian sample from the exact law.
SAMPLER_ERROR = 2.0**-110


class MeanEstimator(PrivateEstimator):
    """The private mean of bounded vectors: one clipped sum with Gaussian noise, divided by the public number of rows.

    Args:
        epsilon, delta: what the fit may spend. Default δ: 1/n^1.1.
        bounds: public range of the features; without it rows are clipped to norm `row_norm` (1) around 0, with a warning.
        row_norm: public l2 norm of a row after scaling by `bounds` (then at most 1, the norm of a corner of the box).
        neighbors, accountant, budget, n_rows, insecure_seed: as in :class:`dpopt.LogisticRegression`.

    Fitted attributes: ``mean_``, ``noise_std_`` (standard deviation of the noise in each entry of ``mean_``),
    ``privacy_``.

    >>> import numpy as np, dpopt
    >>> X = np.random.default_rng(0).uniform(0, 10, (5000, 2))
    >>> est = dpopt.MeanEstimator(epsilon=1.0, delta=1e-6, bounds=(0, 10)).fit(X)
    >>> bool(np.abs(est.mean_ - 5).max() < 0.3)
    True
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, bounds=None, row_norm=None, neighbors="zero-out", accountant="auto",
        budget=None, n_rows=None, insecure_seed=None,
    ):  # fmt: skip
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.row_norm = row_norm
        self.neighbors = neighbors
        self.accountant = accountant
        self.budget = budget
        self.n_rows = n_rows
        self.insecure_seed = insecure_seed

    def _more_tags(self, tags: Any) -> Any:
        tags = super()._more_tags(tags)
        tags.input_tags.sparse = False
        tags.target_tags.required = False
        return tags

    def _calibrated(self, dimension: int, relation: str, delta: float) -> accounting.Calibration:
        if delta <= 0:
            raise ValueError("Gaussian noise needs delta > 0; give a small delta, for example 1e-6")
        return accounting.calibrate(
            lambda z: accounting.ApproximateDpEvent(dimension * SAMPLER_ERROR, accounting.GaussianDpEvent(z)),
            float(self.epsilon), delta, relation=relation,
        )  # fmt: skip

    def _scaling(self, n_features: int, quiet: bool) -> Any:
        from ._rows import bounding

        return bounding(n_features, self.bounds, self.row_norm, 0.0, False, quiet)

    def explain(self, n_rows: int, n_features: int) -> dict[str, Any]:
        """Noise multiplier, noise per entry of the mean and certified ε, before any data are read."""
        relation, delta = self._check_common(), self._delta(n_rows)
        found = self._calibrated(n_features, relation, delta)
        scaling = self._scaling(n_features, quiet=True)
        return {
            "noise_multiplier": found.value, "noise_std": found.value / scaling.scale / n_rows, "epsilon": float(found.bound),
            "delta": delta, "relation": relation,
        }  # fmt: skip

    def fit(self, X: Any, y: Any = None) -> "MeanEstimator":
        """Releases the mean of the rows of X."""
        relation = self._check_common()
        warn_if_searched()
        X = validate_data(self, as_table(X), dtype=[np.float64, np.float32])
        rows = self._public_rows(X.shape[0], relation)
        delta = self._delta(rows)
        self._warn_budget(rows, delta)
        scaling = self._scaling(X.shape[1], quiet=False)
        found = self._calibrated(X.shape[1], relation, delta)
        self._charge(found.event, float(self.epsilon), delta)
        bounded = (np.clip(X.astype(np.float64, copy=False), scaling.lower, scaling.upper) - scaling.centre) * scaling.scale
        # the compiled library clips each row to norm 1 in exact integers, whatever rounding happened above
        total = _core.gaussian_sum(np.ascontiguousarray(bounded), 1.0, found.value, rows, self._seed(0), 0)
        self.mean_ = total / rows / scaling.scale + scaling.centre
        self.noise_std_ = found.value / rows / scaling.scale
        event = found.event.to_dict()
        self.privacy_ = self._privacy(
            [stage("mean", float(self.epsilon), delta, event, found.bound.details)],
            [[{"label": "clipped sum", "event": event, "count": 1}]], relation, float(self.epsilon), delta,
        )  # fmt: skip
        return self

    def report(self, path: Any = None, **names: Any) -> str:
        """A one-page text of the mean, its noise and its guarantee (an HTML table). Written to `path` if given."""
        from pathlib import Path

        from sklearn.utils.validation import check_is_fitted

        from ._html import table

        check_is_fitted(self)
        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(self.mean_))])
        html = "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>Private mean</title><body>"
        html += self.privacy_._repr_html_()
        html += table(["feature", "mean", "noise"], zip(columns, self.mean_.tolist(), self.noise_std_.tolist()))
        html += "</body></html>"
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html


__all__ = ["LinearRegression", "MeanEstimator", "Ridge", "SGDRegressor"]
