"""Private linear classifiers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin

from . import _core
from ._docs import documented
from ._linear import PrivateLinear, Reading, linear_scores
from ._options import LINEAR_OPTIONS, keep, with_options
from ._partial_fit import ClassesOfStream
from ._reading import codes, distinct, labels, number, same_length, scored, shown, sorted_if_comparable
from ._table_fit import ClassesOfTable
from ._warnings import warn

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import LinearOptions

#: Share of (ε, δ) that finding undeclared labels costs (decision 0001).
LABEL_SHARE = _core.LABEL_SHARE


class PrivateLinearClassifier(ClassifierMixin, ClassesOfTable, PrivateLinear):
    """Classes, labels and predictions of linear classifiers."""

    def _class_loss(self) -> Any:
        """The loss for any number of classes, as the compiled library writes it."""
        raise NotImplementedError

    def _known(self, n_classes: int) -> int | None:
        return None if self.classes is None else n_classes

    def _target(self, known: int | None) -> dict[str, Any]:
        return {"classes": {"loss": self._class_loss(), "known": known}}

    def _declared(self, y: np.ndarray) -> tuple[np.ndarray, str]:
        """The classes that are known before anything is released, and how."""
        if isinstance(self.classes, str):
            if self.classes != "public":
                raise ValueError('classes must be a list of labels, "public" or None')
            found = distinct(y)[0]
            if found.dtype.kind == "f" and not (found == np.floor(found)).all():
                raise ValueError(
                    "Unknown label type: continuous. y holds numbers that are not whole and every one of them would be a public class; "
                    "declare classes=[...], or use a regressor"
                )
            return found, "The labels that occur in y were declared to be public."
        classes = distinct(labels(self.classes, "classes"))[0]
        if len(classes) < 2:
            raise ValueError("classes must list at least two labels")
        return classes, "Classes were declared."

    def _coded(self, y: np.ndarray, classes: np.ndarray, note: str) -> Reading:
        """Labels as places of classes; a record of another class contributes nothing."""
        if len(classes) < 2:
            raise ValueError(
                f"classification needs at least two classes, but y has {len(classes)} class; declare all with classes=[...]"
            )
        place = codes(y, classes)
        self.classes_ = classes
        values = np.where(place >= 0, place.astype(np.float64), np.nan)
        return Reading(values, len(classes), f"classification into {len(classes)} classes", note)

    def _read(self, y: np.ndarray) -> Reading | None:
        if self.classes is not None:
            return self._coded(y, *self._declared(y))
        warn(
            f"classes were not declared: {LABEL_SHARE:.0%} of the budget pays for finding the frequent ones privately; "
            'give classes=[...], or classes="public" if every label that occurs may be known'
        )
        return None

    def _found(self, y: np.ndarray, run: Any, owners: Any) -> Reading:
        occurring, _ = distinct(y)
        kept = run.labels(np.ascontiguousarray(codes(y, occurring), dtype=np.int64), len(occurring), owners)
        if kept is None:
            raise _core.PrivacyError(
                "fewer than two class labels were frequent enough to be released privately (their share of the budget is "
                "spent); declare them with classes=[...], which costs nothing"
            )
        classes = occurring[kept]
        if classes.dtype.kind == "O":
            # in an order that only the labels that were found decide
            classes = np.array(sorted_if_comparable(classes.tolist()))
        return self._coded(y, classes, "Classes were found privately: those that are frequent enough.")

    def fit(self, X: Any, y: Any = None, *, units: Any = None, **said: Any) -> PrivateLinearClassifier:
        """Fits the model and releases its coefficients within (epsilon, delta).

        Args:
            X: rows × features: array, sparse matrix, or table; or :class:`dpopt.parts.Parts`, records that are elsewhere, with their targets.
            y: one label per row; a label that is not among the classes makes its record contribute nothing. Where columns are
                declared by name also the name of a column of X.
            units: whose rows they are, where a person may have several: one id for each row, or the name of a column of a table, which
                then is no feature. All rows of an id are protected as a whole (docs/python.md, "Protect people, not rows").
            said: nothing else; a ``sample_weight`` is refused with the reason.
        """
        self._fit(X, y, units, said)
        self._fitted_loss = self.plan_.chosen["loss"]
        return self

    def _targets(self, y: Any) -> np.ndarray:
        return labels(y)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the records (weighted by `sample_weight`) whose class is predicted; exact, so not private for these records.

        Records without a label, or with one that is not among `classes_`, are left out, with a warning that says how many.
        """
        if self._by_columns():
            place, guess = self._table_places(X, y)
        else:
            truth, found = labels(y), self.predict(X)
            same_length(found, truth)
            place, guess = codes(truth, self.classes_), codes(found, self.classes_)
        known, weights = scored(place >= 0, sample_weight, "a label among the classes")
        return float(np.average((place == guess)[known], weights=weights))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one per row for two classes (positive means the second class), one per row and class for more."""
        if self._by_columns():
            return self._table_scores(X)
        X = self._check_X(X)
        scores = linear_scores(X, self.coef_, self.intercept_)
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
        if self._by_columns():  # type: ignore[attr-defined]
            return self._table_probabilities(X)  # type: ignore[attr-defined]
        return self._probabilities_of(self.decision_function(X))  # type: ignore[attr-defined]

    def _probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """P(class) at scores: the one map, which exports ask for too."""
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
class LogisticRegression(ProbabilityMixin, ClassesOfStream, PrivateLinearClassifier):
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
        accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto", insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        return "logistic"


@with_options(LINEAR_OPTIONS, without=("shift", "calibration"))
@documented
class LinearSVC(ClassesOfStream, PrivateLinearClassifier):
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
        accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto", smoothing=0.5,
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        width = number(self.smoothing, "smoothing")
        if not width > 0:
            raise ValueError(f"smoothing is {width}; give a positive number, for example 0.5")
        return {"one-against-rest": {"name": "smoothed-hinge", "width": width}}


@with_options(LINEAR_OPTIONS)
@documented
class SGDClassifier(ProbabilityMixin, ClassesOfStream, PrivateLinearClassifier):
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
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[LinearOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        losses: dict[str, Any] = {
            "log_loss": "logistic",
            "hinge": {"one-against-rest": {"name": "hinge"}},
            "smoothed_hinge": {"one-against-rest": {"name": "smoothed-hinge", "width": 0.5}},
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
