"""Private hyper-parameter search: the search is paid for.

Trying several candidates and keeping the best reads the records once per candidate, and the choice itself is a release.
:class:`PrivateSearchCV` runs a *random, secret* number K of candidates, each drawn at random from the public list, and
releases only the best by a noisy validation score. That costs a small multiple of one run, however large E[K] is (Liu and
Talwar 2019; Papernot and Steinke 2022).

Where the candidates are public already (the checkpoints of a private run, starting points), :func:`stationary` takes the one at which the mean gradient is
smallest, for one choice.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from . import _core, accounting, encoders
from ._base import _NESTED, _NO_UNITS, PrivateEstimator, shape_of, warn_of_default_epsilon
from ._bounded_moments import BoundedColumns
from ._by_unit import settled
from ._one_fit import one_fit
from ._options import method_of
from ._plan import Privacy
from ._public_facts import Unit, unit_facts
from ._reading import (
    array,
    as_table,
    attempt,
    codes,
    distinct,
    kind,
    labels,
    listed_cells,
    number,
    required,
    same_length,
    shown,
    target,
    whole,
)
from ._repeats import counted_as_one, open_session, warn_if_repeated
from ._search_price import SHAPES, SearchPlan, plan_search
from ._settings import DEFAULT_EPSILON, DefaultEpsilon, with_known_keywords
from ._split import Split, held_out
from ._stationary import Selected, stationary
from ._steps import unpublic, warn_of_surroundings
from ._table_fit import declared_range, planned_table, target_apart, warn_undeclared
from ._tables import (
    AUTO,
    NumberTable,
    by_name,
    by_position,
    encoding_said,
    names_by_position,
    names_of,
    one_column,
    without_rows,
)
from ._units import Given, apart, one_for_each, public_number
from ._warnings import PrivacyWarning, refuse_seed
from .ledger import Ledger

#: Public steps of which the number of columns is known before they are fitted.
_KNOWN_WIDTH = (encoders.PublicScaler, encoders.PublicOneHot, encoders.HashingEncoder, encoders.TableEncoder)


def _delegates(name: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), name)


def _matches(truth: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """1 where the class is predicted."""
    classes = distinct(guess)[0]
    return (codes(truth, classes) == codes(guess, classes)).astype(np.float64)


#: Why undeclared labels are refused.
_UNDECLARED = (
    "declare the classes of the estimator: classes=[...], or classes='public'. A run that had to find them privately could find too "
    "few, and what its fit is planned for would be known after that only"
)


def _together(events: Sequence[accounting.DpEvent]) -> accounting.DpEvent:
    """All stages of one fit as one event."""
    first, *others = events
    if not others:
        return first
    if all(other == first for other in others):
        return accounting.SelfComposedDpEvent(first, len(events))
    return accounting.ComposedDpEvent(list(events))


def one_each(score: Callable[[], Any], records: int) -> np.ndarray:
    """One score in [0, 1] per record; what is not finite counts as 0. The message of a failing score goes nowhere."""
    found = attempt(lambda: np.asarray(score(), dtype=np.float64))
    if found is None or found.shape != (records,):
        raise ValueError(
            "scoring must give one number per record, whatever the records hold; it failed or gave something else"
        )
    return np.clip(np.where(np.isfinite(found), found, 0.0), 0.0, 1.0)


def _numbers(y: Any) -> np.ndarray:
    """A column of a table as numbers, whatever it holds; what is no number is missing."""
    found = attempt(lambda: target(y))
    if found is not None:
        return found

    def one(value: Any) -> float:
        number = attempt(lambda: float(value))
        return float("nan") if number is None else number

    return np.array([one(value) for value in labels(y).tolist()])


def _steps(estimator: Any) -> list[Any]:
    """What stands before the private estimator."""
    return [step for _, step in estimator.steps[:-1]] if isinstance(estimator, Pipeline) else []


@with_known_keywords
class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Chooses hyper-parameters and trains, all within one (epsilon, delta).

    The rows (or persons, with ``fit(X, y, units=ids)``, all rows of each on one side) are split once, independently of their values, into a training and a
    validation part. A random, secret number K of runs each draws a candidate, fits it on the training part within (ε₁, δ₁), and scores it on the other: the
    mean of per-record scores in [0, 1], with Gaussian noise that costs (ε₁, δ₁). A record is in one part only, so a run costs the larger of the two. ε₁ is the largest
    for which the certified cost of the whole fits; see :meth:`explain`. A run that finds no model counts as score 0. K and the losing scores are never
    shown; the time of the search depends on K, which the guarantee assumes secret. The winner is not fitted again.

    Parameters
    ----------
    estimator : estimator
        Of dpopt, or a Pipeline of encoders of dpopt and one. Where its columns are declared by name (or a :class:`dpopt.TableEncoder` declares them), X is a
        table.
    param_candidates : dict or list of dict
        A grid, or public candidates: ``{"method": [NoisySGD(steps=50), NoisyNewton()]}``, ``{"method__steps": [50, 400]}``.
    epsilon : float, default 1.0
        What the whole search may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01.
    expected_runs : float
        E[K], at least 1.
    distribution : str
        Law of K: ``"poisson"`` (without zero, mean at most 16) seldom stops early, ``"geometric"`` is cheaper for many runs, ``"logarithmic"`` the cheapest
        and the likeliest to stop early; ``"auto"``: Poisson up to 5 expected runs, then geometric.
    test_size : float
        Share of rows for validation.
    scoring : str or callable
        ``"accuracy"``, ``"absolute_error"`` (1 − |error|/range), or ``(y_true, y_pred) -> scores`` per record, clipped to [0, 1].
    neighbors : str
        ``"zero-out"`` or ``"replace-one"``.
    unit : Unit
        For ``fit(X, y, units=ids)``, the public ``count``; a bound on rows is the estimator's.
    budget : Ledger
        Charged once before the first run.
    insecure_seed : int
        Reproducible noise for tests: **no privacy**.

    Attributes
    ----------
    best_estimator_, best_params_ : estimator, dict
    best_score_ : float
        Noisy.
    privacy_ : Privacy
    plan_ : SearchPlan

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> search = dpopt.select.PrivateSearchCV(
    ...     dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"method__regularization": [1.0, 100.0]},
    ...     epsilon=3.0, delta=1e-6, expected_runs=3).fit(X, y)
    >>> bool(search.privacy_.epsilon <= 3.0), sorted(search.best_params_)
    (True, ['method__regularization'])
    """

    def __init__(
        self, estimator: Any, param_candidates: Any, *, epsilon: float = DEFAULT_EPSILON, delta: float | None = None,
        expected_runs: float = 10, distribution: str = "auto", test_size: float = 0.25, scoring: Any = None,
        neighbors: str = "zero-out", unit: Unit | None = None, budget: Ledger | None = None, insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        self.estimator = estimator
        self.param_candidates = param_candidates
        self.epsilon = epsilon
        self.delta = delta
        self.expected_runs = expected_runs
        self.distribution = distribution
        self.test_size = test_size
        self.scoring = scoring
        self.neighbors = neighbors
        self.unit = unit
        self.budget = budget
        self.insecure_seed = insecure_seed

    def _candidates(self) -> list[dict[str, Any]]:
        given: Mapping[str, Any] | Sequence[Mapping[str, Any]] = self.param_candidates
        if isinstance(given, Mapping):
            if not all(
                isinstance(name, str) and isinstance(values, (list, tuple, np.ndarray))
                for name, values in given.items()
            ):
                raise ValueError("a grid of param_candidates gives a list of values for every parameter")
            grid = list(ParameterGrid(given))
        elif isinstance(given, (list, tuple)) and all(isinstance(c, Mapping) for c in given):
            grid = [dict(c) for c in given]
        else:
            raise ValueError(f"param_candidates is {kind(given)}; give a dict for a grid, or a list of dicts")
        known = set(self.estimator.get_params()) | self._nested()
        if unknown := [name for c in grid for name in c if name not in known]:
            name = unknown[0].rpartition("__")[2]
            near = [held for held in sorted(known) if held.endswith(f"__{name}") or held == name]
            told = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(known))}"
            raise ValueError(
                f"a candidate sets {shown(unknown[0])}, a parameter that the estimator does not have; {told}"
            )
        if not grid:
            raise ValueError("param_candidates is empty; list at least one candidate")
        return grid

    def _nested(self) -> set[str]:
        """Parameters of the objects that the private estimator inside holds, or may hold where there are none yet."""
        inner, prefix = self._inner(self.estimator)
        has = inner.get_params(deep=False)
        held: dict[str, Any] = {name: kind() for name, kind in _NESTED.items() if has.get(name, 0) is None}
        if isinstance(has.get("method"), str) and hasattr(inner, "_usable_methods"):
            held["method"] = method_of(has["method"])
        return {f"{prefix}{name}__{option}" for name, settings in held.items() for option in settings.get_params()}

    def _inner(self, estimator: Any) -> tuple[PrivateEstimator, str]:
        """The private estimator inside, and the prefix of its parameters."""
        ends = estimator.steps[-1][1] if isinstance(estimator, Pipeline) and estimator.steps else estimator
        if isinstance(ends, BoundedColumns):
            raise ValueError(
                f"PrivateSearchCV chooses among options of models that are scored record by record, and {type(ends).__name__} is none; fit it by itself"
            )
        if isinstance(estimator, PrivateEstimator):
            return estimator, ""
        if isinstance(estimator, Pipeline):
            *before, (name, last) = estimator.steps
            found = [said for named, step in before for said in unpublic(step, named)]
            known = all(s in (None, "passthrough") or isinstance(s, _KNOWN_WIDTH) for _, s in before)
            if known and isinstance(last, PrivateEstimator):
                return last, f"{name}__"
            reading = f" ({'; '.join(found)})" if found else ""
        else:
            reading = ""
        raise ValueError(
            "PrivateSearchCV needs an estimator of dpopt, or a Pipeline of dpopt's public encoders that ends in one: other "
            f"steps may read the records without noise{reading}, or produce an unknown number of columns"
        )

    def _scores(self, inner: PrivateEstimator, y: Any, X: Any) -> Callable[[Any, Any, Any], np.ndarray]:
        """One score per record, from a model, rows and targets; `X` and `y` of a table that the estimator reads itself, else None."""
        scoring = self.scoring or ("accuracy" if is_classifier(inner) else "absolute_error")
        read = (lambda y: y) if X is None else labels if is_classifier(inner) else _numbers
        if callable(scoring):
            return lambda model, X, y: scoring(read(y), model.predict(X))
        if scoring == "accuracy" and X is not None:
            return lambda model, X, y: self._inner(model)[0]._table.hits(self._inner(model)[0], X, y)
        if scoring == "accuracy":
            return lambda model, X, y: _matches(y, model.predict(X))
        if scoring == "absolute_error":
            ends = inner.target_bounds
            if ends is None and X is not None:
                ends = declared_range(inner, y, names_of(X))
            if ends is None:
                raise ValueError("scoring='absolute_error' needs target_bounds of the estimator, the public range of y")
            lower, upper = ends
            return lambda model, X, y: 1.0 - np.abs(np.clip(read(y), lower, upper) - model.predict(X)) / (upper - lower)
        raise ValueError(f"scoring is {shown(scoring)}; choose accuracy, absolute_error or give a function")

    def _score_in_words(self, inner: PrivateEstimator) -> str:
        """How a report calls the score."""
        if callable(self.scoring):
            return "The mean of the given score"
        accuracy = (self.scoring or ("accuracy" if is_classifier(inner) else "absolute_error")) == "accuracy"
        return "Accuracy" if accuracy else "1 less the mean absolute error over the target's range"

    def _columns(self, estimator: Any, X: Any, n_features: int) -> int:
        """Columns that the private estimator inside will see: public, from the encoders' parameters and the names of columns."""
        for step in _steps(estimator):
            if isinstance(step, encoders.TableEncoder):
                n_features = clone(step).fit(without_rows(X)).output_columns(n_features)
            elif isinstance(step, (encoders.PublicOneHot, encoders.HashingEncoder)):
                n_features = step.output_columns(n_features)
        return n_features

    def _takes_table(self, estimator: Any) -> bool:
        """Whether columns are declared by name."""
        inner = self._inner(estimator)[0]
        return by_name(inner) or any(isinstance(step, encoders.TableEncoder) for step in _steps(estimator))

    def _seen(self, X: Any) -> Any:
        """What is as sparse as the matrix that the private estimator inside sees: most encoders of a pipeline give sparse ones."""
        dense = all(
            step in (None, "passthrough") or isinstance(step, encoders.PublicScaler) for step in _steps(self.estimator)
        )
        return X if dense else sp.csr_matrix((0, 1))

    def _trials(self, candidates: list[dict[str, Any]], facts: Mapping[str, Any]) -> tuple[list[Any], bool]:
        """The estimator of every candidate, and whether they take a table with named columns."""
        trials = [clone(self.estimator).set_params(**{**facts, **candidate}) for candidate in candidates]
        tables = {self._takes_table(trial) for trial in trials}
        if len(tables) > 1:
            raise ValueError(
                "some candidates declare columns by name and some do not; declare them for all, or for none"
            )
        for trial in trials:
            for part in (self._inner(trial)[0], *_steps(trial)):
                if tables == {True} and getattr(part, "bad_cells", "missing") == "error":
                    raise ValueError(
                        'bad_cells="error" would stop the search at a cell of a random part of the rows, and reveal it; use '
                        '"missing", and dpopt check before'
                    )
        return trials, tables == {True}

    def _planner(
        self,
        trials: list[Any],
        prefix: str,
        relation: str,
        X: Any,
        y: Any,
        rows: int,
        features: int,
        classes: int,
        units: Given | None = None,
        matrix: Any = None,
    ):
        """A function of (ε₁, δ₁): what every stage of each candidate's fit to `rows` rows is certified for; they are those of `units`, whose number is
        the trials' own; `matrix` is as sparse as what they see. Looks at names and types."""
        columns = [self._columns(trial, X, features) for trial in trials]

        def stages(trial: Any, width: int, epsilon: float, delta: float) -> list[accounting.DpEvent]:
            budget = {f"{prefix}epsilon": epsilon, f"{prefix}delta": delta, f"{prefix}neighbors": relation}
            inner = self._inner(clone(trial).set_params(**budget, **{f"{prefix}budget": None}))[0]
            if by_name(inner) or by_position(inner, matrix, width):
                given = X if X is not None else NumberTable(np.empty((0, width)), names_by_position(None, width))
                public = None if units is None else inner._public_units(None, None, relation)
                fit = planned_table(inner, given, y, rows, relation, units, public)
                if fit.finds_labels():
                    raise ValueError(_UNDECLARED)
                return [accounting.from_dict(json.loads(event)) for event in fit.stages()]
            name = None if units is None else units.protects
            if encoding_said(inner) == AUTO:
                inner.set_params(encoding=None)
            plan = inner.explain(rows, width, *([classes] if is_classifier(inner) else []), units=name)
            return [plan.event] * plan.models

        def all_stages(epsilon: float, delta: float) -> list[list[accounting.DpEvent]]:
            return [stages(trial, width, epsilon, delta) for trial, width in zip(trials, columns)]

        return all_stages

    def _search_plan(self, planner: Callable[..., Any], relation: str, law: str, records: int) -> SearchPlan:
        def train(epsilon: float, run_delta: float) -> list[accounting.DpEvent]:
            # every candidate is planned before anything is read: no run can fail because of the data
            return [_together(events) for events in planner(epsilon, run_delta)]

        delta = number(self.delta, "delta") if self.delta is not None else _core.default_delta(records)
        return plan_search(
            train, distribution=law, expected_runs=number(self.expected_runs, "expected_runs"), epsilon=number(self.epsilon, "epsilon"),
            delta=delta, relation=relation,
        )  # fmt: skip

    def _of_training(self, number: int) -> int:
        return number - held_out(number, self.test_size)

    def _checked(self, by_unit: bool = False) -> tuple[PrivateEstimator, str, str, list[dict[str, Any]], str]:
        """The estimator inside, its prefix, the relation, the candidates and the law of K; all parameters checked."""
        inner, prefix = self._inner(self.estimator)
        relation = accounting._relation(self.neighbors)
        if relation not in ("zero-out", "replace-one"):
            raise ValueError(
                "PrivateSearchCV splits and averages by the public number of rows; use zero-out or replace-one"
            )
        if self.budget is not None and not isinstance(self.budget, Ledger):
            raise ValueError("budget must be a dpopt.Ledger, or None")
        if self.budget is not None:
            refuse_seed(self.insecure_seed, charged=True)
            self.budget._check_unit("user" if by_unit else "record")
        if not (0 < number(self.test_size, "test_size") < 1):
            raise ValueError(f"test_size is {self.test_size}; give a share between 0 and 1")
        if not (number(self.expected_runs, "expected_runs") >= 1 and math.isfinite(self.expected_runs)):
            raise ValueError(f"expected_runs is {self.expected_runs}; give a finite number, at least 1")
        encoded = by_name(inner) or isinstance(encoding_said(inner), Mapping)
        if is_classifier(inner) and inner.classes is None and not encoded:
            raise ValueError(_UNDECLARED)
        if not is_classifier(inner) and not encoded and inner._finds_range():
            raise ValueError(
                "the range of y is not given, and a run may fail to find it privately; give target_bounds=(lower, upper), or a bound on a moment of y, heavy_tailed=(2, 100, 50)"
            )
        if getattr(inner, "n_rows", None) is not None:
            raise ValueError("n_rows is set by the search, which fits on a part of the rows; leave it out")
        if inner._unit().count is not None:
            raise ValueError(
                "count of unit is set by the search, which fits to a part of the units; give it to the search"
            )
        if not by_unit and (inner._unit().given() or self._unit().given()):
            raise ValueError(_NO_UNITS)
        candidates = self._candidates()
        fixed = {
            f"{prefix}{name}"
            for name in (
                "epsilon",
                "delta",
                "budget",
                "neighbors",
                "insecure_seed",
                "classes",
                "accountant",
                "unit",
            )
        }
        for candidate in candidates:
            if clash := {name for name in candidate if name in fixed or name.startswith(f"{prefix}unit__")}:
                raise ValueError(f"{', '.join(sorted(clash))} is set by the search; leave it out of param_candidates")
        law = self.distribution
        if law == "auto":
            law = "poisson" if self.expected_runs <= 5 else "geometric"
        if not isinstance(law, str) or law not in SHAPES:
            raise ValueError(f"distribution is {shown(law)}; choose one of auto, {', '.join(SHAPES)}")
        return inner, prefix, relation, candidates, law

    def explain(
        self,
        X: Any = None,
        n_features: int | None = None,
        n_classes: int = 2,
        *,
        n_rows: int | None = None,
        y: Any = None,
        units: Any = None,
    ) -> SearchPlan:
        """What the search would do and what it costs, before any data are read.

        Parameters
        ----------
        X
            The table, of which only the shape (and names and dtypes of columns that are declared by name) is looked at; or the public
            number of records.
        n_features
            Number of columns (before the encoders), if no table is given.
        n_classes
            For classifiers.
        n_rows
            Public number of records, if no table is given.
        y
            The target of a table with named columns, of which only the name is looked at.
        units
            Whose rows they are, as in :meth:`fit`: the ids are counted. Without a table the name of a unit, and ``unit=Unit(count=...)``
            says how many there are.
        """
        _, prefix, relation, candidates, law = self._checked(units is not None)
        shape_only = X is None or isinstance(X, (int, float, np.number))
        X, given = (X, Given(units, None)) if shape_only and isinstance(units, str) else apart(X, units, y)
        trials, tabular = self._trials(candidates, {})
        if tabular:
            if shape_only:
                raise TypeError(
                    "columns are declared by name, so that explain needs the table; give X, of which only names, dtypes and the number of rows are read"
                )
            X, y = target_apart(X, y)
            names_of(X)
            rows, columns = int(X.shape[0]), int(X.shape[1])
            X = matrix = without_rows(X)
        else:
            rows, columns, _ = shape_of(X, n_features, n_rows)
            X, matrix = None, X
        records, facts, to_train = rows, {}, self._of_training(rows)
        if given is not None:
            if given.ids is not None:
                one_for_each(given, rows)
            counted = None if given.ids is None else given.owners().units
            records, to_train = public_number(self._unit().count, counted, rows, relation), rows
            facts = {f"{prefix}unit": self._counted(self._of_training(records))}
        trials, _ = self._trials(candidates, facts)
        classes, seen = whole(n_classes, "n_classes"), self._seen(matrix)
        planner = self._planner(trials, prefix, relation, X, y, to_train, columns, classes, given, seen)
        return self._search_plan(planner, relation, law, records)

    def _unit(self) -> Unit:
        return unit_facts(self.unit, ("count",), "the bound on a unit's rows is the estimator's")

    def _counted(self, units: int) -> Unit:
        """What the estimator says of units, for so many of them."""
        said = self._inner(self.estimator)[0]._unit()
        return Unit(max_rows=said.max_rows, count=units, clipping=said.clipping)

    def _listed(self, X: Any) -> np.ndarray:
        """A list of rows as an array: of cells for a pipeline's encoders, or of numbers."""
        if isinstance(X, (list, tuple)) and isinstance(self.estimator, Pipeline):
            return listed_cells(X, "X")
        return array(X, "X")

    @one_fit
    def fit(self, X: Any, y: Any, *, units: Any = None) -> PrivateSearchCV:
        """Runs the search and releases its winner within (epsilon, delta). `units`: one id for each row, or the name of a column of a table that
        X is, which then is no feature."""
        inner, prefix, relation, candidates, law = self._checked(units is not None)
        if isinstance(self.epsilon, DefaultEpsilon):
            warn_of_default_epsilon()
        warn_of_surroundings()
        trials, tabular = self._trials(candidates, {})
        X, given = apart(X, units, y)
        if tabular:
            X, y = target_apart(X, required(y, self))
            names_of(X)
            y = one_column(y)
        else:
            X = as_table(X)
            X = X.tocsr() if sp.issparse(X) else X if hasattr(X, "shape") else self._listed(X)
        if len(X.shape) < 1 or X.shape[0] < 4:
            raise ValueError("X has fewer than 4 rows; give at least 4, and a target for each")
        n, width = X.shape[0], X.shape[1] if len(X.shape) == 2 else 1
        direct = tabular and by_name(inner)
        if not direct:
            y = labels(required(y, self)) if is_classifier(inner) else target(required(y, self))
        same_length(X, y)
        # labels that were declared public are the same in every run, whatever the split
        public = {}
        if is_classifier(inner) and inner.classes is not None:
            found = distinct(labels(y))[0] if isinstance(inner.classes, str) else inner.classes
            public = {f"{prefix}classes": found}
        scores = self._scores(inner, y if direct else None, X if direct else None)

        def seed(k: int) -> int | None:
            return (
                None
                if self.insecure_seed is None
                else (whole(self.insecure_seed, "insecure_seed") * 1_000_003 + k) % 2**63
            )

        whose = None
        if given is not None:
            whose = settled(given, n, relation, unit=self._unit(), seed=seed(3))
            if whose.count < 4:
                raise ValueError("there are fewer than 4 units; give the ids of at least 4")
        records = n if whose is None else whose.count
        split = Split(whose, n, self.test_size, seed(1))
        if split.units is not None:
            public[f"{prefix}unit"] = self._counted(split.units)
        to_train = self._of_training(n) if whose is None else n
        trials, _ = self._trials(candidates, public)
        names = without_rows(X) if tabular else None
        classes = len(public.get(f"{prefix}classes", []))
        seen = self._seen(X)
        planner = self._planner(trials, prefix, relation, names, y, to_train, width, classes, given, seen)
        plan = self._search_plan(planner, relation, law, records)
        planned = [[event.to_json() for event in events] for events in planner(plan.run_epsilon, plan.run_delta)]
        if direct:
            first = self._inner(trials[0])[0]
            warn_undeclared(first, planned_table(first, names, y, to_train, relation), names_of(X))
        own = {
            f"{prefix}epsilon": plan.run_epsilon, f"{prefix}delta": plan.run_delta, f"{prefix}neighbors": relation,
            f"{prefix}budget": None, **public,
        }  # fmt: skip
        if f"{prefix}accountant" in self.estimator.get_params():
            own[f"{prefix}accountant"] = "auto"
        for candidate in candidates:
            # what cannot be set is told before anything is paid
            clone(self.estimator).set_params(**own, **candidate)
        if self.budget is None and self.insecure_seed is None:
            warn_if_repeated(width, None, number(self.epsilon, "epsilon"), plan.delta)
        refuse_seed(self.insecure_seed, charged=False)

        score_noise = _core.NoisySum("gaussian", plan.score_noise, 1.0, split.held_out, 1)
        allowed = (plan.event.to_json(), number(self.epsilon, "epsilon"), plan.delta, relation)
        unit = None if whose is None else whose.name
        charge = None if self.budget is None else self.budget._charge_for(() if unit is None else (unit,))
        session = open_session("PrivateSearchCV", "private search", allowed, charge, seed(2), None, unit, of=None)
        X_train, X_validation = split.to_train(X), split.to_score(X)
        y_train, y_validation = split.to_train(y), split.to_score(y)
        price = (plan.score_event.to_json(), plan.run_epsilon, plan.run_delta, relation)
        models, drawn, scored = [], [], []

        def one_run(k: int) -> tuple[float, int]:
            at = int(_core.random_below(len(candidates), 1, seed(10 + 4 * k))[0])
            model = clone(self.estimator).set_params(**own, **candidates[at])
            model.set_params(**{f"{prefix}insecure_seed": seed(11 + 4 * k)})
            each = np.zeros(split.held_out)
            with warnings.catch_warnings(), counted_as_one():
                # warnings of single runs stay inside: they would tell how many there were
                warnings.simplefilter("ignore")
                try:
                    model.fit(X_train, y_train, **split.whose(prefix))
                except ValueError as error:
                    # an answer of this run, as a model is: it leaves only if it is the one that is chosen
                    model = error
                else:
                    fitted = self._inner(model)[0]
                    if [accounting.from_dict(stage["event"]).to_json() for stage in fitted.privacy_.stages] != planned[
                        at
                    ]:
                        raise _core.PrivacyError("a run released something else than what the search was charged for")
                    if split.rows_to_score:
                        of_rows = one_each(lambda: scores(model, X_validation, y_validation), split.rows_to_score)
                        each = split.score_each(of_rows)
            # a run is paid for by the search
            scoring = open_session("PrivateSearchCV", "score", price, None, seed(12 + 4 * k), None, unit, of=None)
            noisy = _core.gaussian_sum(each[:, None], score_noise, scoring)
            models.append(model)
            drawn.append(at)
            scored.append(float(noisy[0]))
            return scored[-1], int(_core.random_below(2**62, 1, seed(13 + 4 * k))[0])

        best = _core.select_best(SHAPES[law], number(self.expected_runs, "expected_runs"), one_run, session)
        if isinstance(models[best], ValueError):
            raise _core.PrivacyError(f"the run that was chosen found no model: {models[best]}")
        self.plan_ = plan
        self.best_estimator_, self.best_params_ = models[best], candidates[drawn[best]]
        self.best_score_ = scored[best] / split.held_out
        self.privacy_ = Privacy.of_session(session)
        # the winner was released by the search: its guarantee is the search's, not that of one run
        score = {
            "name": self._score_in_words(inner), "value": self.best_score_,
            "noise": plan.score_noise / split.held_out, "held_out": split.held_out,
        }  # fmt: skip
        self._inner(self.best_estimator_)[0]._released_by(session, self.privacy_, score)
        return self

    def _given(self, X: Any) -> Any:
        check_is_fitted(self)
        return X if self._takes_table(self.best_estimator_) else as_table(X)

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the winning estimator."""
        return self.best_estimator_.predict(self._given(X))

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities of the winning estimator."""
        return self.best_estimator_.predict_proba(self._given(X))

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the winning estimator."""
        return self.best_estimator_.decision_function(self._given(X))

    def score(self, X: Any, y: Any) -> float:
        """The winner's score on other data; exact, so not private with respect to these."""
        return self.best_estimator_.score(self._given(X), y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.input_tags.sparse, inner.input_tags.allow_nan
        return tags


__all__ = ["PrivacyWarning", "PrivateSearchCV", "SearchPlan", "Selected", "stationary"]
