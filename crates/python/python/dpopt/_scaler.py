"""Private means and scales of columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._bounded_moments import PrivateMoments
from ._one_fit import one_fit
from ._plan import Plan
from ._reading import validated
from ._rows import within
from ._settings import DEFAULT_EPSILON, keep
from .ledger import Ledger


class PrivateScaler(OneToOneFeatureMixin, TransformerMixin, PrivateMoments):
    """Columns less their mean, over their standard deviation, both found privately: one noisy release of sums and of squares.

    Before a model in a pipeline it pays for itself and the model does too: the pipeline's guarantee is the sum. What it buys is a tighter clip: the model's ``bounds=(-3, 3)`` then
    are three standard deviations. Where public bounds are about as wide as the data, PublicScaler costs nothing.
    In the fit numbers beyond the bounds count as the bounds, and missing ones as their middle; `transform` clips nothing and leaves missing ones missing.

    Parameters
    ----------
    epsilon : float, default 1.0
        What the fit may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01.
    bounds : tuple or dict
        Public range of the features: two numbers, two arrays, or ``{"age": (17, 90), ...}`` for the columns of a data frame. Without it numbers are clipped to
        [-1, 1], with a warning.
    neighbors : str
        ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`; the number of rows is then released too) or ``"replace-one"``.
    budget : Ledger
        Charged before any record is read.
    n_rows : int
        Public number of rows, or a guess under add-or-remove.
    accountant : str
        Whose ε is reported; ``"auto"``: the tightest.
    insecure_seed : int
        Reproducible noise for tests: **no privacy**.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray
        `scale_` is the root of `var_`, which is at least as large as its noise.
    mean_noise_std_, var_noise_std_ : ndarray
    bounds_ : ndarray
        2 × features: what becomes of the bounds, which nothing but a number out of bounds exceeds.
    n_samples_seen_ : float
        Public, or noisy under add-or-remove.
    privacy_ : Privacy
    plan_ : Plan

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0); X = rng.normal(30, 4, (20_000, 3)); y = (X[:, 0] > X[:, 1]).astype(int)
    >>> ledger = dpopt.Ledger(epsilon=1.0, delta=1e-6)
    >>> scaler = dpopt.PrivateScaler(epsilon=0.2, delta=1e-7, bounds=(0, 200), budget=ledger)
    >>> model = dpopt.LogisticRegression(epsilon=0.7, delta=8e-7, bounds=(-3, 3), classes=[0, 1], budget=ledger)
    >>> pipe = make_pipeline(scaler, model).fit(X, y)
    >>> [charge.name.split()[0] for charge in ledger.entries], bool(pipe.score(X, y) > 0.9)
    (['PrivateScaler', 'fit'], True)
    """

    _needs_target: ClassVar[bool] = False

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, bounds: Any = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, accountant: str = "auto", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        # again: scikit-learn's mixins, which come first, make new tags
        return self._with_tags(super().__sklearn_tags__())

    def _facts(self, records: int, columns: int, relation: str, delta: float) -> tuple[Any, ...]:
        return records, columns, 1, relation == "add-or-remove", relation, float(self.epsilon), delta

    def _planned(self, facts: tuple[Any, ...]) -> Plan:
        records, columns, _, counted, relation, _, delta = facts
        found = json.loads(_core.class_moments_plan(facts))
        noise, weights = found["noise_multiplier"], found["weights"]
        schedule = {
            "noise_std": noise, "clip_norm": 1.0, "weights": weights, "sum_noise_std": noise / weights["first"],
            "square_noise_std": noise / weights["second"],
        }  # fmt: skip
        if counted:
            schedule["count_noise_std"] = noise / weights["count"]
        risk = found["divergence"]
        return self._plan("column-moments", found, (records, columns), relation, delta, risk, noise, schedule)

    def explain(self, X: Any = None, n_features: int | None = None, *, n_rows: int | None = None) -> Plan:
        """Noise and certified guarantee, before any data are read. The predicted risk is the Kullback-Leibler divergence that noise is expected to put
        between bell curves of the columns and those released, where their standard deviation is an eighth of their bounds.

        Parameters
        ----------
        X
            The table, of which only the shape and the names are looked at; or the public number of records.
        n_features
            Number of columns, if no table is given.
        n_rows
            Public number of records, if no table is given.
        """
        relation = self._check_common()
        records, columns, names = self._shape(X, n_features, n_rows, relation)
        self._box(columns, names, quiet=True)
        return self._planned(self._facts(records, columns, relation, self._delta(records)))

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None) -> PrivateScaler:
        """Releases means and variances of the columns of X; y is not looked at. With `units` it is refused: each row is protected by itself."""
        self._rows_only(X, units)
        relation = self._before_fit()
        X, names = self._validated(X)
        box = self._box(X.shape[1], names, quiet=False)
        records, delta = self._facts_of_counted(X.shape[0], relation)
        facts = self._facts(records, X.shape[1], relation, delta)
        self.plan_ = self._planned(facts)
        session = self._paid("column moments")
        (found,) = json.loads(_core.class_moments(within(X, box), None, facts, session))
        half = box.half
        self.n_samples_seen_ = found["count"]
        self.mean_, self.mean_noise_std_ = box.centre + half * found["means"], half * found["mean_noise"]
        self.var_, self.var_noise_std_ = half**2 * found["variances"], half**2 * found["variance_noise"]
        self.scale_ = np.sqrt(self.var_)
        self.bounds_ = (np.array([box.lower, box.upper]) - self.mean_) / self.scale_
        self._promised(session)
        return self

    def _given(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validated(self, X, reset=False, sparse=False)

    def transform(self, X: Any) -> np.ndarray:
        """(X − mean_)/scale_; what is missing stays missing."""
        X = self._given(X)
        return ((X - self.mean_) / self.scale_).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """X·scale_ + mean_."""
        X = self._given(X)
        return (X * self.scale_ + self.mean_).astype(X.dtype, copy=False)

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]]]:
        parts = (self.mean_, self.mean_noise_std_, self.var_, self.var_noise_std_)
        rows = zip(self._columns(), *(part.tolist() for part in parts))
        return "Private scales", ["feature", "mean", "noise", "variance", "noise"], rows


__all__ = ["PrivateScaler"]
