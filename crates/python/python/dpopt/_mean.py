"""Private means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._base import PrivateEstimator, shape_of
from ._html import table
from ._options import keep
from ._plan import Plan, Privacy
from ._reading import validated
from ._rows import Bounding, bounding
from ._units import refuse


class MeanEstimator(PrivateEstimator):
    """The private mean of bounded vectors: one clipped sum with Gaussian noise, divided by the public number of rows.

    Args:
        epsilon, delta: what the fit may spend. Default δ: 1/n^1.1, at most 0.01.
        bounds: public range of the features; without it rows are clipped to norm `row_norm` (1) around 0, with a warning.
        row_norm: public l2 norm of a row after scaling by `bounds` (then at most 1, the norm of a corner of the box).
        neighbors, accountant, budget, n_rows, insecure_seed: as in :class:`dpopt.LogisticRegression`.

    Fitted attributes: ``mean_``, ``noise_std_`` (standard deviation of the noise in each entry of ``mean_``),
    ``privacy_`` (:class:`dpopt.Privacy`), ``plan_`` (:class:`dpopt.Plan`).

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
        keep(self, locals())

    def _with_tags(self, tags: Any) -> Any:
        tags = super()._with_tags(tags)
        tags.input_tags.sparse = False
        tags.target_tags.required = False
        return tags

    def _scaling(self, n_features: int, quiet: bool) -> Bounding:
        return bounding(n_features, self.bounds, self.row_norm, 0.0, False, quiet)

    def _planned(
        self, rows: int, n_features: int, relation: str, delta: float, scaling: Bounding
    ) -> tuple[float, Plan]:
        if delta <= 0:
            raise ValueError("Gaussian noise needs delta > 0; give a small delta, for example 1e-6")
        noise, event, text = _core.sum_noise("gaussian", n_features, float(self.epsilon), delta, relation)
        bound = json.loads(text)
        std = noise / scaling.scale / rows
        chosen = {
            "method": "clipped-mean", "grade": "certified", "noise_multiplier": noise, "steps": 1,
            "gradients": float(rows), "predicted_excess_risk": float(np.sum(std**2)), "epsilon": bound["upper"],
            "delta": delta, "allowed_epsilon": float(self.epsilon), "relation": relation, "bound": bound,
            "event": json.loads(event), "schedule": {"clip_norm": 1.0, "noise_std": noise}, "assumptions": [],
            "warnings": [],
        }  # fmt: skip
        return noise, Plan("clipped-mean", [chosen], rows, n_features, float(self.epsilon), delta, relation)

    def explain(self, X: Any = None, n_features: int | None = None, *, n_rows: int | None = None) -> Plan:
        """Noise and certified guarantee, before any data are read; the predicted risk is the squared error from noise.

        Args:
            X: the table, of which only the shape is looked at; or the public number of records.
            n_features: number of columns, if no table is given.
            n_rows: public number of records, if no table is given.
        """
        relation = self._check_common()
        rows, columns, counted = shape_of(X, n_features, n_rows)
        rows = self._public_rows(rows, relation) if counted else rows
        delta = self._delta(rows)
        return self._planned(rows, columns, relation, delta, self._scaling(columns, quiet=True))[1]

    def fit(self, X: Any, y: Any = None, *, units: Any = None) -> MeanEstimator:
        """Releases the mean of the rows of X. `units` are refused: each row is protected by itself."""
        refuse(
            units,
            "this mean is of rows, each protected by itself; give it one row for each person, such as the mean of theirs",
        )
        relation = self._before_fit()
        X = validated(self, X, reset=True, sparse=False)
        rows, delta = self._facts_of_rows(X, relation)
        scaling = self._scaling(X.shape[1], quiet=False)
        noise, self.plan_ = self._planned(rows, X.shape[1], relation, delta, scaling)
        price = (self.plan_.event.to_json(), float(self.epsilon), delta, relation)
        by = None if self.accountant == "auto" else self.accountant
        session = _core.Session(type(self).__name__, "mean", price, self._charging(), self._insecure_seed(), by)
        with np.errstate(all="ignore"):
            # what is not finite then counts as 0, which is the centre
            bounded = (
                np.clip(X.astype(np.float64, copy=False), scaling.lower, scaling.upper) - scaling.centre
            ) * scaling.scale
        # the compiled library clips each row to norm 1 in exact integers, whatever rounding happened above
        total = _core.gaussian_sum(bounded, 1.0, noise, rows, session)
        self.mean_ = total / rows / scaling.scale + scaling.centre
        self.noise_std_ = noise / rows / scaling.scale
        self.privacy_ = Privacy.of_session(session, self.accountant)
        return self

    def report(self, path: Any = None, **names: Any) -> str:
        """A one-page text of the mean, its noise and its guarantee (an HTML table). Written to `path` if given."""
        check_is_fitted(self)
        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(self.mean_))])
        html = "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>Private mean</title><body>"
        html += self.privacy_._repr_html_()
        html += table(["feature", "mean", "noise"], zip(columns, self.mean_.tolist(), self.noise_std_.tolist()))
        html += "</body></html>"
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html


__all__ = ["MeanEstimator"]
