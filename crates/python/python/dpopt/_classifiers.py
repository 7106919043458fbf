"""Private linear classifiers."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin

from . import _core, accounting
from ._base import stage
from ._docs import documented
from ._linear import PrivateLinear, Task
from ._options import LINEAR_OPTIONS, keep, with_options
from ._reading import codes, distinct, labels, number, same_length, shown, sorted_if_comparable, target
from ._warnings import warn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import LinearOptions

#: Share of (ε, δ) that finding undeclared labels costs (decision 0001).
LABEL_SHARE = _core.LABEL_SHARE


def _below(x: float) -> float:
    return math.nextafter(x, 0.0)


class PrivateLinearClassifier(ClassifierMixin, PrivateLinear):
    """Classes, labels and predictions of linear classifiers."""

    def _loss(self, n_classes: int) -> tuple[dict[str, Any], bool]:
        """The loss, and whether several classes are fitted one against the rest."""
        raise NotImplementedError

    def _explained(self, n_classes: int) -> tuple[dict[str, Any], int, float]:
        loss, one_against_rest = self._loss(n_classes)
        parts = n_classes if one_against_rest and n_classes > 2 else 1
        return loss, parts, LABEL_SHARE if self.classes is None else 0.0

    def _labels(self, y: np.ndarray, relation: str, delta: float) -> tuple[np.ndarray, Any, str]:
        """The classes; what releasing them cost (stage and releases), if anything."""
        if isinstance(self.classes, str):
            if self.classes != "public":
                raise ValueError('classes must be a list of labels, "public" or None')
            found = distinct(y)[0]
            if found.dtype.kind == "f" and not (found == np.floor(found)).all():
                raise ValueError(
                    "Unknown label type: continuous. y holds numbers that are not whole and every one of them would be a public class; "
                    "declare classes=[...], or use a regressor"
                )
            return found, None, "The labels that occur in y were declared to be public."
        if self.classes is not None:
            classes = distinct(labels(self.classes, "classes"))[0]
            if len(classes) < 2:
                raise ValueError("classes must list at least two labels")
            return classes, None, "Classes were declared."
        epsilon, delta = self.epsilon * LABEL_SHARE, delta * LABEL_SHARE
        occurring, counts = distinct(y)
        keys = [f"{i:012d}" for i in range(len(occurring))]
        advice = (
            "fewer than two class labels were frequent enough to be released privately (their share of the budget is "
            "spent); declare them with classes=[...], which costs nothing"
        )
        refusal = None
        try:
            names, event, (bound, records) = _core.select_labels(
                dict(zip(keys, counts.tolist())), epsilon, delta, relation, self._seed(1 << 20)
            )
        except _core.PrivacyError as error:
            refusal = str(error)
        if refusal is not None:
            raise _core.PrivacyError(advice if delta > 0 else refusal)
        released = (stage("labels", epsilon, delta, json.loads(event), json.loads(bound)), json.loads(records))
        kept = occurring[[int(key) for key in names]]
        if kept.dtype.kind == "O":
            # in an order that only the labels that were found decide
            kept = np.array(sorted_if_comparable(kept.tolist()))
        return kept, released, "Classes were found privately: those that are frequent enough."

    def fit(self, X: Any, y: Any) -> PrivateLinearClassifier:
        """Fits the model and releases its coefficients within (epsilon, delta).

        Args:
            X: rows × features: array, sparse matrix, or table.
            y: one label per row; a label that is not among the classes makes its record contribute nothing.
        """
        self._fit(X, y)
        self._fitted_loss = self.plan_.chosen["loss"]
        return self

    def _targets(self, y: Any) -> np.ndarray:
        return labels(y)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the records (weighted by `sample_weight`) whose class is predicted; exact, so not private for these records."""
        truth, guess = labels(y), self.predict(X)
        same_length(guess, truth)
        weights = None if sample_weight is None else target(sample_weight, "sample_weight")
        return float(np.average(codes(truth, self.classes_) == codes(guess, self.classes_), weights=weights))

    def _task(self, y: np.ndarray, relation: str, delta: float) -> Task:
        budget = (float(self.epsilon), delta)
        if self.classes is None:
            warn(
                f"classes were not declared: {LABEL_SHARE:.0%} of the budget pays for finding the frequent ones privately; "
                'give classes=[...], or classes="public" if every label that occurs may be known'
            )
            # the model depends on the labels that are found, so the whole budget is charged before they are looked at
            self._charge(accounting.ApproxDpDpEvent(*budget), *budget)
        classes, before, note = self._labels(y, relation, delta)
        if len(classes) < 2:
            raise ValueError(
                f"classification needs at least two classes, but y has {len(classes)} class; declare all with classes=[...]"
            )
        if before is not None:
            budget = (_below(budget[0] * (1 - LABEL_SHARE)), _below(budget[1] * (1 - LABEL_SHARE)))
        loss, one_against_rest = self._loss(len(classes))
        position = codes(y, classes)
        known = position >= 0
        if len(classes) == 2:
            columns = [2.0 * position - 1.0]
        elif one_against_rest:
            columns = [np.where(position == k, 1.0, -1.0) for k in range(len(classes))]
        else:
            columns = [position.astype(float)]
        names = ["model"] if len(columns) == 1 else [f"model {k + 1} of {len(columns)}" for k in range(len(columns))]
        self.classes_ = classes
        return Task(
            [np.where(known, column, np.nan) for column in columns], names, loss, budget,
            f"classification into {len(classes)} classes", note, before=before,
        )  # fmt: skip

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one per row for two classes (positive means the second class), one per row and class for more."""
        X = self._check_X(X)
        with np.errstate(all="ignore"):
            scores = X @ self.coef_.T + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest score."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[index]

    def __sklearn_tags__(self) -> Any:
        # again: scikit-learn's mixin, which comes first, makes new tags
        tags = self._with_tags(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


class ProbabilityMixin:
    """Class probabilities from scores, by the loss that was minimised."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(class) per row; for a shifted logistic loss by its own link (probabilities stay calibrated)."""
        scores = self.decision_function(X)  # type: ignore[attr-defined]
        if scores.ndim == 1:
            p = _core.probability(json.dumps(self._fitted_loss), np.ascontiguousarray(scores, dtype=np.float64))  # type: ignore[attr-defined]
            return np.column_stack([1 - p, p])
        scores = scores - scores.max(axis=1, keepdims=True)
        e = np.exp(scores)
        return e / e.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """ln P(class) per row."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


@with_options(LINEAR_OPTIONS)
@documented
class LogisticRegression(ProbabilityMixin, PrivateLinearClassifier):
    """Private logistic regression, binary or multinomial.

    {parameters}

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 3)); y = (X[:, 0] > X[:, 1]).astype(int)
    >>> model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1]).fit(X, y)
    >>> bool(model.score(X, y) > 0.8), bool(model.privacy_.epsilon <= 1.0)
    (True, True)
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, classes=None, neighbors="zero-out",
        accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, insecure_seed=None, **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _loss(self, n_classes: int) -> tuple[dict[str, Any], bool]:
        if n_classes <= 2:
            return {"name": "logistic", "shift": 0.0}, False
        return {"name": "softmax", "classes": int(n_classes)}, False


@with_options(LINEAR_OPTIONS, without=("shift",))
@documented
class LinearSVC(PrivateLinearClassifier):
    """Private linear support vector classifier (hinge loss, smoothed around its corner).

    More than two classes are fitted one against the rest, each with an equal share of the budget.

    {parameters}
        smoothing: half width of the parabola that replaces the hinge's corner, in units of the score.

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 3)); y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = dpopt.LinearSVC(epsilon=2.0, delta=1e-6, bounds=(-1, 1), classes=["down", "up"]).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, method="auto", bounds=None, row_norm=None, max_nonzeros=None, classes=None, neighbors="zero-out",
        accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, smoothing=0.5,
        insecure_seed=None, **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _loss(self, n_classes: int) -> tuple[dict[str, Any], bool]:
        width = number(self.smoothing, "smoothing")
        if not width > 0:
            raise ValueError(f"smoothing is {width}; give a positive number, for example 0.5")
        return {"name": "smoothed-hinge", "width": width}, True


@with_options(LINEAR_OPTIONS)
@documented
class SGDClassifier(ProbabilityMixin, PrivateLinearClassifier):
    """Private stochastic gradient descent (DP-SGD with Poisson batches) for linear classifiers.

    {parameters}
        loss: ``"log_loss"`` (softmax for several classes), ``"hinge"`` or ``"smoothed_hinge"`` (one against the rest).

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = dpopt.SGDClassifier(
    ...     epsilon=2.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], sampling_probability=0.1, steps=50).fit(X, y)
    >>> model.plan_.method, model.plan_.schedule["steps"]
    ('noisy-sgd', 50)
    """

    def __init__(
        self, loss="log_loss", epsilon=1.0, delta=None, *, method="noisy-sgd", bounds=None, row_norm=None, max_nonzeros=None, classes=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None,
        insecure_seed=None, **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _loss(self, n_classes: int) -> tuple[dict[str, Any], bool]:
        losses: dict[str, tuple[dict[str, Any], bool]] = {
            "log_loss": (
                {"name": "logistic", "shift": 0.0}
                if n_classes <= 2
                else {"name": "softmax", "classes": int(n_classes)},
                False,
            ),
            "hinge": ({"name": "hinge"}, True),
            "smoothed_hinge": ({"name": "smoothed-hinge", "width": 0.5}, True),
        }
        if not isinstance(self.loss, str) or self.loss not in losses:
            raise ValueError(f"loss is {shown(self.loss)}; choose one of {', '.join(losses)}")
        return losses[self.loss]


def _has_probabilities(self: SGDClassifier) -> bool:
    if self.loss != "log_loss":
        raise AttributeError(f"predict_proba needs loss='log_loss', not {self.loss!r}")
    return True


def _only_for_log_loss() -> None:
    from sklearn.utils.metaestimators import available_if

    for name in ("predict_proba", "predict_log_proba"):
        setattr(SGDClassifier, name, available_if(_has_probabilities)(getattr(ProbabilityMixin, name)))


_only_for_log_loss()

__all__ = ["LinearSVC", "LogisticRegression", "SGDClassifier"]
