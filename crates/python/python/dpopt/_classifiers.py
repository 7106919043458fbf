"""Private linear classifiers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from . import _core, _inference, _partial_fit_classes, _probabilities
from ._docs import documented
from ._fitted_table import ClassOrder, FittedTable
from ._linear import PrivateLinear
from ._one_fit import one_fit
from ._options import NO_INTERVALS
from ._public_facts import Columns, Encoding, Unit
from ._reading import attempt, codes, distinct, labels, number, of_values, rank, same_length, scored, shown
from ._settings import DEFAULT_EPSILON, Method, keep
from ._tables import by_name
from ._targets import Decoding, Reading, declared_classes
from ._warnings import warn
from .ledger import Ledger

#: Share of (ε, δ) that finding undeclared labels costs (decision 0001).
LABEL_SHARE = _core.LABEL_SHARE

#: What files and tables write where a value is missing.
_MISSING = ("", "?", "NA", "N/A", "null", "NULL")


def _listed(classes: Any) -> bool:
    return classes is not None and not isinstance(classes, str) and hasattr(classes, "__len__")


def _or_nan(places: np.ndarray) -> np.ndarray:
    """Places of labels; NaN where there is none."""
    return np.where(places >= 0, places.astype(np.float64), np.nan)


class PrivateLinearClassifier(ClassifierMixin, PrivateLinear):
    """Classes, labels and predictions of linear classifiers. Classes are sorted, as scikit-learn has them."""

    _options_of_others: ClassVar[Mapping[str, str]] = NO_INTERVALS
    classes: Any
    classes_: np.ndarray

    def _class_loss(self) -> Any:
        """The loss for any number of classes, as the compiled library writes it."""
        raise NotImplementedError

    def _known(self, n_classes: int) -> int | None:
        return None if self.classes is None else n_classes

    def _target(self, known: int | None) -> dict[str, Any]:
        return {"classes": {"loss": self._class_loss(), "known": known}}

    def _declared(self, y: np.ndarray) -> np.ndarray:
        """The classes that are known before anything is released."""
        return declared_classes(self.classes, y)

    def _coded(self, y: np.ndarray, classes: np.ndarray) -> Reading:
        """Labels as places of classes; a record of another class contributes nothing."""
        if len(classes) < 2:
            raise ValueError(
                f"classification needs at least two classes, but y has {len(classes)} class; declare all with classes=[...]"
            )
        return Reading(_or_nan(codes(y, classes)), len(classes), classes)

    def _read(self, y: np.ndarray) -> Reading:
        if self.classes is not None:
            return self._coded(y, self._declared(y))
        self._warn_of_labels()
        occurring, _ = distinct(y)
        return Reading(_or_nan(codes(y, occurring)), None, occurring, rank(occurring))

    def _warn_of_labels(self) -> None:
        warn(
            f"classes were not declared: {LABEL_SHARE:.0%} of the budget is spent on finding the frequent ones privately; "
            'give classes=[...], or classes="public" if every label that occurs may be known'
        )

    def _check_targets(self, y: np.ndarray) -> None:
        if self.classes is not None:
            self._coded(y, self._declared(y))

    def _to_plan(self, n_classes: int) -> PrivateLinearClassifier:
        if not (isinstance(self.classes, str) and self.classes == "public"):
            return self
        known = copy.copy(self)
        known.classes = list(range(n_classes))
        return known

    def _keeps_columns(self) -> str | None:
        if self._class_loss() == "logistic" or (_listed(self.classes) and len(self.classes) == 2):
            return None
        return "a hinge is of two declared classes where columns are encoded"

    def _read_remote(self, owner: str | None) -> Reading:
        if self.classes is None or isinstance(self.classes, str):
            raise ValueError(
                "the classes are not declared, and remote records need them before the first pass; declare classes=[...]"
            )
        if any(isinstance(c, (int, np.integer)) and abs(int(c)) >= 2**53 for c in self.classes):
            # a column of whole numbers with a gap arrives in floats, which would round its neighbours
            raise ValueError("remote records cannot tell classes of 2^53 and more apart; give smaller numbers, or text")
        return self._read(np.asarray(self.classes)[:0])

    def _decoding(
        self,
        reading: Reading,
        labels: list[int] | None = None,
        ends: tuple[float, float] | None = None,
        clip: tuple[float, str] | None = None,
    ) -> Decoding:
        assert reading.labels is not None
        if labels is None:
            self.classes_, note = reading.labels, "Classes were declared."
            if isinstance(self.classes, str):
                note = "The labels that occur in y were declared to be public."
        else:
            found = reading.labels[labels]
            # texts too: as wide as the longest of them, not as the longest that occurs
            self.classes_ = of_values(found.tolist()) if found.dtype.kind in "OUS" else found
            note = "Classes were found privately: those that are frequent enough."
        return Decoding(note)

    def _table_loss(self) -> dict[str, Any] | None:
        loss = self._class_loss()
        one = None if loss == "logistic" else loss["one-against-rest"]
        return None if one == {"name": "logistic", "shift": 0.0} else one

    def _target_facts(self, y: Any) -> tuple[bool, dict[str, Any]]:
        given = self.classes
        if given is None:
            return False, {}
        if not isinstance(given, str):
            found = labels(given, "classes")
        elif given != "public":
            raise ValueError('classes must be a list of labels, "public" or None')
        elif y is None:
            raise ValueError(
                'classes="public" takes the classes that occur, but no records are read here; give classes=[...]'
            )
        else:
            found = self._declared(labels(y))
        values = [value for value in found.tolist() if value is not None and value == value]
        if isinstance(given, str) and by_name(self):
            # of a matrix every label that occurs is a class, as in the plain model
            values = [value for value in values if str(value).strip() not in _MISSING]
        values = attempt(lambda: list(dict.fromkeys(values))) or values
        if len(values) < 2:
            raise ValueError(
                f"classification needs at least two classes, but there is {len(values)} class; declare all"
            )
        return False, {"levels": values}

    def _order_of(self, model: _core.TableModel, y: Any) -> ClassOrder:
        return ClassOrder.of_texts(model.labels, self.classes, y)

    def _learned(self, table: FittedTable) -> None:
        assert table.order is not None
        self.classes_ = table.order.classes

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None, **said: Any) -> PrivateLinearClassifier:
        """Fits the model and releases its coefficients within (epsilon, delta).

        Parameters
        ----------
        X
            Rows × features: array, sparse matrix, or table; or :class:`dpopt.partitions.Partitions`, remote records with their targets.
        y
            One label per row; a label that is not among the classes makes its record contribute nothing. Where columns are
            declared by name also the name of a column of X.
        units
            Whose rows they are, where a person may have several: one id for each row, or the name of a column of a table, which
            then is no feature. All rows of an id are protected as a whole (docs/python.md, "Protect people, not rows").
        said
            Nothing else; a ``sample_weight`` is refused with the reason.
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
        if self._table is not None:
            place, guess = self._table.places(self, X, y)
        else:
            truth, found = labels(y), self.predict(X)
            same_length(found, truth)
            place, guess = codes(truth, self.classes_), codes(found, self.classes_)
        known, weights = scored(place >= 0, sample_weight, "a label among the classes")
        return float(np.average((place == guess)[known], weights=weights))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one per row for two classes (positive means the second class), one per row and class for more."""
        if self._table is not None:
            return self._table.scores(self, X)
        scores = self._form.scores(self, self._check_X(X))
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


@documented(attributes=("classes_",))
class LogisticRegression(PrivateLinearClassifier):
    """Private logistic regression, binary or multinomial.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 3)); y = (X[:, 0] > X[:, 1]).astype(int)
    >>> model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1]).fit(X, y)
    >>> bool(model.score(X, y) > 0.8), bool(model.privacy_.epsilon <= 1.0)
    (True, True)
    """

    conf_int, summary = _inference.conf_int, _inference.summary
    partial_fit = _partial_fit_classes.partial_fit
    predict_proba = _probabilities.predict_proba
    predict_log_proba = _probabilities.predict_log_proba

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, classes: Any = None, unit: Unit | None = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None,
        fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        return "logistic"


@documented(
    attributes=("classes_",),
    smoothing=("float", "Half width of the parabola that replaces the hinge's corner, in units of the score."),
)
class LinearSVC(PrivateLinearClassifier):
    """Private linear support vector classifier (hinge loss, smoothed around its corner); several classes one against the rest, each with an equal
    share of the budget.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 3)); y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = dpopt.LinearSVC(epsilon=2.0, delta=1e-6, bounds=(-1, 1), classes=["down", "up"]).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _options_of_others: ClassVar[Mapping[str, str]] = {
        **NO_INTERVALS,
        "shift": "it shifts a logistic loss, and this one is a hinge; leave it out, or take LogisticRegression",
        "calibration": "a hinge has no probabilities to calibrate; leave it out, or take LogisticRegression",
    }
    smoothing: float
    partial_fit = _partial_fit_classes.partial_fit

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, classes: Any = None, smoothing: float = 0.5, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        width = number(self.smoothing, "smoothing")
        if not width > 0:
            raise ValueError(f"smoothing is {width}; give a positive number, for example 0.5")
        return {"one-against-rest": {"name": "smoothed-hinge", "width": width}}


def _has_probabilities(self: Any) -> bool:
    if self.loss != "log_loss":
        raise AttributeError(f"predict_proba needs loss='log_loss', not {self.loss!r}")
    return True


@documented(
    attributes=("classes_",),
    loss=(
        "str",
        '``"log_loss"`` (softmax for several classes), ``"hinge"`` or ``"smoothed_hinge"`` (one against the rest).',
    ),
)
class SGDClassifier(PrivateLinearClassifier):
    """Private stochastic gradient descent (DP-SGD with Poisson batches) for linear classifiers.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> method = dpopt.methods.NoisySGD(sampling_probability=0.1, steps=50)
    >>> model = dpopt.SGDClassifier(epsilon=2.0, delta=1e-6, method=method, bounds=(-1, 1), classes=[0, 1]).fit(X, y)
    >>> model.plan_.method, model.plan_.schedule["steps"]
    ('noisy-sgd', 50)
    """

    loss: str
    partial_fit = _partial_fit_classes.partial_fit
    predict_proba = available_if(_has_probabilities)(_probabilities.predict_proba)
    predict_log_proba = available_if(_has_probabilities)(_probabilities.predict_log_proba)

    def __init__(
        self, loss: str = "log_loss", epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "noisy-sgd",
        bounds: Any = None, columns: Columns | None = None, classes: Any = None, unit: Unit | None = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None,
        fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
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


__all__ = ["LinearSVC", "LogisticRegression", "SGDClassifier"]
