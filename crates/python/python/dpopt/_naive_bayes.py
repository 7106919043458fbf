"""Private Gaussian naive Bayes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._bounded_moments import Box, PrivateMoments
from ._one_fit import one_fit
from ._plan import Plan
from ._reading import array, codes, labels, required, same_length, scored, validated
from ._rows import within
from ._settings import DEFAULT_EPSILON, keep, refuse_weights
from ._targets import declared_classes
from .ledger import Ledger


class GaussianNB(ClassifierMixin, PrivateMoments):
    """Private Gaussian naive Bayes: counts, means and variances of all classes in one noisy release.

    Numbers beyond the bounds count as the bounds; a missing one counts as their middle in the fit, and is left out of a prediction. A record whose label is not
    among the classes counts nowhere. Needs no tuning and reads the records once; where columns depend on each other, LogisticRegression is better.

    Parameters
    ----------
    epsilon : float, default 1.0
        What the fit may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01.
    bounds : tuple or dict
        Public range of the features: two numbers, two arrays, or ``{"age": (17, 90), ...}`` for the columns of a data frame. Without it numbers are clipped to
        [-1, 1], with a warning.
    classes : list or "public"
        The labels that there are; ``"public"``: those that occur in y, if they may be known.
    priors : array
        Public shares of the classes, in sorted order. Default: from the noisy counts.
    neighbors : str
        ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`) or ``"replace-one"``.
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
    classes_ : ndarray
    class_count_, class_prior_ : ndarray
        Noisy counts, and shares.
    theta_, var_ : ndarray
        Classes × features. A variance is at least as large as its noise, and predictions need the noise of the mean, which is added.
    class_count_noise_std_ : float
    theta_noise_std_, var_noise_std_ : ndarray
    privacy_ : Privacy
    plan_ : Plan

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0); y = rng.integers(0, 3, 6000)
    >>> X = np.column_stack([y, 2 - y]) + rng.normal(0, 0.3, (6000, 2))
    >>> model = dpopt.GaussianNB(epsilon=1.0, delta=1e-6, bounds=(-1, 3), classes=[0, 1, 2], insecure_seed=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.theta_[1:, 0].round(1).tolist()
    (True, [1.0, 2.0])
    """

    classes: Any
    priors: Any
    classes_: np.ndarray

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, bounds: Any = None, classes: Any = None,
        priors: Any = None, neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None,
        accountant: str = "auto", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        # again: scikit-learn's mixin, which comes first, makes new tags
        return self._with_tags(super().__sklearn_tags__())

    def _declared(self, y: Any) -> np.ndarray:
        if self.classes is None:
            raise ValueError(
                'classes are not declared, and GaussianNB does not look for them; give classes=[...], or classes="public" if every label that occurs may be known'
            )
        if isinstance(self.classes, str) and y is None:
            raise ValueError(
                'classes="public" takes the classes that occur, but no records are read here; give classes=[...], or y'
            )
        found = declared_classes(self.classes, np.empty(0) if y is None else y)
        if len(found) < 2:
            raise ValueError(
                f"classification needs at least two classes, but y has {len(found)} class; declare all with classes=[...]"
            )
        return found

    def _shares(self, classes: int) -> np.ndarray | None:
        if self.priors is None:
            return None
        shares = array(self.priors, "priors").ravel()
        if len(shares) != classes or not (shares > 0).all() or not abs(shares.sum() - 1) < 1e-6:
            raise ValueError(f"priors must be {classes} positive numbers, one for each class, that add up to 1")
        return shares / shares.sum()

    def _facts(self, records: int, columns: int, classes: int, relation: str, delta: float) -> tuple[Any, ...]:
        return records, columns, classes, True, relation, float(self.epsilon), delta

    def _planned(self, facts: tuple[Any, ...]) -> Plan:
        records, columns, classes, _, relation, _, delta = facts
        found = json.loads(_core.class_moments_plan(facts))
        noise, weights = found["noise_multiplier"], found["weights"]
        schedule = {
            "noise_std": noise, "clip_norm": 1.0, "weights": weights, "classes": classes,
            "count_noise_std": noise / weights["count"], "sum_noise_std": noise / weights["first"],
            "square_noise_std": noise / weights["second"],
        }  # fmt: skip
        risk = found["divergence"]
        return self._plan("class-moments", found, (records, columns), relation, delta, risk, noise, schedule)

    def explain(
        self, X: Any = None, y: Any = None, n_features: int | None = None, *, n_rows: int | None = None
    ) -> Plan:
        """Noise and certified guarantee, before any data are read. The predicted risk is the Kullback-Leibler divergence that noise is expected to put
        between a class's bell curves and those released, for classes of one size and columns whose standard deviation is an eighth of their bounds.

        Parameters
        ----------
        X
            The table, of which only the shape and the names are looked at; or the public number of records.
        y
            Its labels, where ``classes="public"``.
        n_features
            Number of columns, if no table is given.
        n_rows
            Public number of records, if no table is given.
        """
        relation = self._check_common()
        records, columns, names = self._shape(X, n_features, n_rows, relation)
        self._box(columns, names, quiet=True)
        classes = len(self._declared(None if y is None else labels(y)))
        return self._planned(self._facts(records, columns, classes, relation, self._delta(records)))

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None, **said: Any) -> GaussianNB:
        """Releases counts, means and variances of the classes within (epsilon, delta).

        Parameters
        ----------
        X
            Rows × features.
        y
            One label per row.
        units
            Refused: each row is protected by itself.
        said
            Nothing else; a ``sample_weight`` is refused with the reason.
        """
        refuse_weights(said)
        self._rows_only(X, units)
        relation = self._before_fit()
        X, names = self._validated(X)
        y = labels(required(y, self))
        same_length(X, y)
        classes = self._declared(y)
        shares = self._shares(len(classes))
        places = codes(y, classes)
        box = self._box(X.shape[1], names, quiet=False)
        records, delta = self._facts_of_counted(X.shape[0], relation)
        facts = self._facts(records, X.shape[1], len(classes), relation, delta)
        self.plan_ = self._planned(facts)
        session = self._paid("class moments")
        places = np.ascontiguousarray(places, dtype=np.int64)
        released = json.loads(_core.class_moments(within(X, box), places, facts, session))
        self._box_of_fit: Box = box
        self.classes_ = classes
        self._settle(released, shares)
        self._promised(session)
        return self

    def _settle(self, released: list[dict[str, Any]], shares: np.ndarray | None) -> None:
        def each(key: str) -> np.ndarray:
            return np.array([found[key] for found in released])

        box = self._box_of_fit
        half = box.half
        self.class_count_, self.class_count_noise_std_ = each("count"), float(released[0]["count_noise"])
        self.class_prior_ = self.class_count_ / self.class_count_.sum() if shares is None else shares
        self.theta_ = box.centre + half * each("means")
        self.theta_noise_std_ = half * each("mean_noise")
        self.var_ = half**2 * each("variances") + self.theta_noise_std_**2
        self.var_noise_std_ = half**2 * each("variance_noise")

    def _joint(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validated(self, X, reset=False, sparse=False).astype(np.float64, copy=False)
        X = np.clip(X, self._box_of_fit.lower, self._box_of_fit.upper)
        scores = np.empty((len(X), len(self.classes_)))
        for k, (mean, variance) in enumerate(zip(self.theta_, self.var_)):
            terms = np.log(2 * np.pi * variance) + (X - mean) ** 2 / variance
            # a number that is missing says nothing
            scores[:, k] = np.log(self.class_prior_[k]) - 0.5 * np.nansum(terms, axis=1)
        return scores

    def predict_joint_log_proba(self, X: Any) -> np.ndarray:
        """ln P(class, row): one column for each class."""
        return self._joint(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """ln P(class) per row."""
        scores = self._joint(X)
        scores -= scores.max(axis=1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class) per row."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        places = self._joint(X).argmax(axis=1)
        return self.classes_[places]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the records (weighted by `sample_weight`) whose class is predicted; exact, so not private for these records.

        Records without a label, or with one that is not among `classes_`, are left out, with a warning that says how many.
        """
        truth, found = labels(y), self.predict(X)
        same_length(found, truth)
        place, guess = codes(truth, self.classes_), codes(found, self.classes_)
        known, weights = scored(place >= 0, sample_weight, "a label among the classes")
        return float(np.average((place == guess)[known], weights=weights))

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]]]:
        rows = (
            (str(label), name, *map(float, numbers))
            for label, *all_of in zip(
                self.classes_.tolist(), self.theta_, self.theta_noise_std_, self.var_, self.var_noise_std_
            )
            for name, *numbers in zip(self._columns(), *all_of)
        )
        return "Private Gaussian naive Bayes", ["class", "feature", "mean", "noise", "variance", "noise"], rows


__all__ = ["GaussianNB"]
