"""Private hyper-parameter search: the search is paid for.

Trying several candidates and keeping the best reads the records once per candidate, and the choice itself is a release.
:class:`PrivateSearchCV` runs a *random, secret* number K of candidates, each drawn at random from the public list, and
releases only the best by a noisy validation score. That costs a small multiple of one run, however large E[K] is (Liu and
Talwar 2019; Papernot and Steinke 2022).
"""

from __future__ import annotations

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
from ._base import PrivateEstimator
from ._options import keep
from ._plan import Privacy
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
from ._repeats import counted_as_one, warn_if_repeated
from ._search_price import SHAPES, SearchPlan, plan_search
from ._warnings import PrivacyWarning, refuse_seed
from .ledger import Ledger

_PUBLIC_ENCODERS = (encoders.PublicScaler, encoders.PublicOneHot, encoders.HashingEncoder)


def _delegates(name: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), name)


def _matches(truth: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """1 where the class is predicted."""
    classes = distinct(guess)[0]
    return (codes(truth, classes) == codes(guess, classes)).astype(np.float64)


def one_each(score: Callable[[], Any], records: int) -> np.ndarray:
    """One score in [0, 1] per record; what is not finite counts as 0. The message of a failing score goes nowhere."""
    found = attempt(lambda: np.asarray(score(), dtype=np.float64))
    if found is None or found.shape != (records,):
        raise ValueError(
            "scoring must give one number per record, whatever the records hold; it failed or gave something else"
        )
    return np.clip(np.where(np.isfinite(found), found, 0.0), 0.0, 1.0)


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Chooses hyper-parameters and trains, all within one (epsilon, delta).

    The rows are split once, at random and independently of their values, into a training and a validation part. Each of
    the K runs draws a candidate, fits it on the training part within (ε₁, δ₁), and scores it on the validation part (mean of
    per-record scores in [0, 1], with Gaussian noise that costs (ε₁, δ₁)). A record is in one part only, so a run costs the
    larger of the two, not their sum. ε₁ is the largest for which the certified cost of the whole search fits; see
    :meth:`explain`. K, the losing scores and the candidates' order are never shown. The time of the search depends on K:
    whoever can measure it learns about K, which the guarantee assumes secret.

    The winner is the model that was trained in its run; it is not fitted again on all rows (that would be a new release).

    Args:
        estimator: an estimator of dpopt, or a Pipeline of encoders of dpopt and one.
        param_candidates: a dict for a grid, or a list of dicts: public candidates of hyper-parameters.
        epsilon, delta: what the whole search may spend. Default δ: 1/n^1.1, at most 0.01.
        expected_runs: E[K], the mean number of runs, at least 1.
        distribution: law of K. ``"poisson"`` (without zero, mean at most 16) seldom stops early, ``"geometric"`` is cheaper for
            many runs, ``"logarithmic"`` the cheapest and the most likely to stop after few. ``"auto"``: Poisson up to 5
            expected runs, geometric beyond.
        test_size: share of rows for validation.
        scoring: ``"accuracy"`` (classifiers' default), ``"absolute_error"`` (1 − |error|/range, regressors' default; needs
            target_bounds), or a function ``(y_true, y_pred) -> scores`` per record, clipped to [0, 1].
        neighbors: ``"zero-out"`` or ``"replace-one"`` (the split and the mean use the public number of rows).
        budget: a :class:`dpopt.Ledger`, charged once before the first run.
        insecure_seed: reproducible noise for tests.

    Fitted attributes: ``best_estimator_``, ``best_params_``, ``best_score_`` (noisy), ``privacy_``, ``plan_``.

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> search = dpopt.select.PrivateSearchCV(
    ...     dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"regularization": [1.0, 100.0]},
    ...     epsilon=3.0, delta=1e-6, expected_runs=3).fit(X, y)
    >>> bool(search.privacy_.epsilon <= 3.0), sorted(search.best_params_)
    (True, ['regularization'])
    """

    def __init__(
        self, estimator, param_candidates, *, epsilon=1.0, delta=None, expected_runs=10, distribution="auto", test_size=0.25,
        scoring=None, neighbors="zero-out", budget=None, insecure_seed=None,
    ):  # fmt: skip
        keep(self, locals())

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
        known = set(self.estimator.get_params())
        if any(set(c) - known for c in grid):
            raise ValueError(
                f"a candidate sets a parameter that the estimator does not have; it has {', '.join(sorted(known))}"
            )
        if not grid:
            raise ValueError("param_candidates is empty; list at least one candidate")
        return grid

    def _inner(self, estimator: Any) -> tuple[PrivateEstimator, str]:
        """The private estimator inside, and the prefix of its parameters."""
        if isinstance(estimator, PrivateEstimator):
            return estimator, ""
        if isinstance(estimator, Pipeline):
            *before, (name, last) = estimator.steps
            public = all(s in (None, "passthrough") or isinstance(s, _PUBLIC_ENCODERS) for _, s in before)
            if public and isinstance(last, PrivateEstimator):
                return last, f"{name}__"
        raise ValueError(
            "PrivateSearchCV needs an estimator of dpopt, or a Pipeline of dpopt's public encoders that ends in one: other "
            "steps may read the records without noise"
        )

    def _scores(self, inner: PrivateEstimator) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        scoring = self.scoring or ("accuracy" if is_classifier(inner) else "absolute_error")
        if callable(scoring):
            return scoring
        if scoring == "accuracy":
            return _matches
        if scoring == "absolute_error":
            if inner.target_bounds is None:
                raise ValueError("scoring='absolute_error' needs target_bounds of the estimator, the public range of y")
            lower, upper = inner.target_bounds
            return lambda truth, guess: 1.0 - np.abs(np.clip(truth, lower, upper) - guess) / (upper - lower)
        raise ValueError(f"scoring is {shown(scoring)}; choose accuracy, absolute_error or give a function")

    def _columns(self, estimator: Any, n_features: int) -> int:
        """Columns that the private estimator inside will see: public, from the encoders' parameters."""
        for _, step in estimator.steps[:-1] if isinstance(estimator, Pipeline) else ():
            if isinstance(step, (encoders.PublicOneHot, encoders.HashingEncoder)):
                n_features = step.output_columns(n_features)
        return n_features

    def _checked(self) -> tuple[PrivateEstimator, str, str, list[dict[str, Any]], str]:
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
        if not (0 < number(self.test_size, "test_size") < 1):
            raise ValueError(f"test_size is {self.test_size}; give a share between 0 and 1")
        if not (number(self.expected_runs, "expected_runs") >= 1 and math.isfinite(self.expected_runs)):
            raise ValueError(f"expected_runs is {self.expected_runs}; give a finite number, at least 1")
        if is_classifier(inner) and inner.classes is None:
            raise ValueError("declare the classes of the estimator: classes=[...], or classes='public'")
        candidates = self._candidates()
        fixed = {
            f"{prefix}{name}"
            for name in ("epsilon", "delta", "budget", "neighbors", "insecure_seed", "classes", "accountant")
        }
        for candidate in candidates:
            if clash := fixed & set(candidate):
                raise ValueError(f"{', '.join(sorted(clash))} is set by the search; leave it out of param_candidates")
        law = self.distribution
        if law == "auto":
            law = "poisson" if self.expected_runs <= 5 else "geometric"
        if not isinstance(law, str) or law not in SHAPES:
            raise ValueError(f"distribution is {shown(law)}; choose one of auto, {', '.join(SHAPES)}")
        return inner, prefix, relation, candidates, law

    def explain(self, n_rows: int, n_features: int, n_classes: int = 2) -> SearchPlan:
        """What the search would do and what it costs, before any data are read.

        Args:
            n_rows, n_features: public size of the table (columns before the encoders).
            n_classes: for classifiers.
        """
        inner, prefix, relation, candidates, law = self._checked()
        delta = number(self.delta, "delta") if self.delta is not None else _core.default_delta(n_rows)
        n_training = n_rows - max(1, int(round(n_rows * self.test_size)))

        def train(epsilon: float, run_delta: float) -> list[accounting.DpEvent]:
            # every candidate is planned before anything is read: no run can fail because of the data
            events = []
            for candidate in candidates:
                budget = {f"{prefix}epsilon": epsilon, f"{prefix}delta": run_delta, f"{prefix}neighbors": relation}
                trained = clone(self.estimator).set_params(**{**budget, f"{prefix}budget": None}, **candidate)
                trial, columns = self._inner(trained)[0], self._columns(trained, n_features)
                plan = trial.explain(n_training, columns, *([n_classes] if is_classifier(trial) else []))
                one = plan.event
                events.append(one if plan.models == 1 else accounting.SelfComposedDpEvent(one, plan.models))
            return events

        return plan_search(
            train, distribution=law, expected_runs=number(self.expected_runs, "expected_runs"), epsilon=number(self.epsilon, "epsilon"), delta=delta,
            relation=relation,
        )  # fmt: skip

    def _listed(self, X: Any) -> np.ndarray:
        """A list of rows as an array: of cells for a pipeline's encoders, or of numbers."""
        if isinstance(X, (list, tuple)) and isinstance(self.estimator, Pipeline):
            return listed_cells(X, "X")
        return array(X, "X")

    def fit(self, X: Any, y: Any) -> PrivateSearchCV:
        """Runs the search and releases its winner within (epsilon, delta)."""
        inner, prefix, relation, candidates, law = self._checked()
        scores = self._scores(inner)
        X = as_table(X)
        X = X.tocsr() if sp.issparse(X) else X if hasattr(X, "shape") else self._listed(X)
        if len(X.shape) < 1 or X.shape[0] < 4:
            raise ValueError("X has less than 4 rows; give at least 4, and a target for each")
        n = X.shape[0]
        y = labels(required(y, self)) if is_classifier(inner) else target(required(y, self))
        same_length(X, y)
        # labels that were declared public are the same in every run, whatever the split
        public = {}
        if is_classifier(inner):
            public = {f"{prefix}classes": distinct(y)[0] if isinstance(inner.classes, str) else inner.classes}
        plan = self.explain(n, X.shape[1] if X.ndim == 2 else 1, len(next(iter(public.values()), [])))
        own = {
            f"{prefix}epsilon": plan.run_epsilon, f"{prefix}delta": plan.run_delta, f"{prefix}neighbors": relation,
            f"{prefix}budget": None, f"{prefix}accountant": "auto", **public,
        }  # fmt: skip
        if self.budget is None and self.insecure_seed is None:
            warn_if_repeated(X.shape[1] if X.ndim == 2 else 1, None, number(self.epsilon, "epsilon"), plan.delta)
        refuse_seed(self.insecure_seed, charged=False)

        def seed(k: int) -> int | None:
            return (
                None
                if self.insecure_seed is None
                else (whole(self.insecure_seed, "insecure_seed") * 1_000_003 + k) % 2**63
            )

        allowed = (plan.event.to_json(), number(self.epsilon, "epsilon"), plan.delta, relation)
        charge = None if self.budget is None else self.budget._charge
        session = _core.Session("PrivateSearchCV", "private search", allowed, charge, seed(2))
        n_validation = max(1, int(round(n * self.test_size)))
        order = np.argsort(np.array(_core.random_below(2**62, n, seed(1)), dtype=np.int64), kind="stable")
        training, validation = order[: n - n_validation], order[n - n_validation :]
        take = (lambda at: X.iloc[at]) if hasattr(X, "iloc") else (lambda at: X[at])
        X_train, X_validation = take(training), take(validation)
        price = (plan.score_event.to_json(), plan.run_epsilon, plan.run_delta, relation)
        models, drawn, scored = [], [], []

        def one_run(k: int) -> tuple[float, int]:
            at = _core.random_below(len(candidates), 1, seed(10 + 4 * k))[0]
            model = clone(self.estimator).set_params(**own, **candidates[at])
            model.set_params(**{f"{prefix}insecure_seed": seed(11 + 4 * k)})
            with warnings.catch_warnings(), counted_as_one():
                # warnings of single runs stay inside: they would tell how many there were
                warnings.simplefilter("ignore")
                model.fit(X_train, y[training])
                each = one_each(lambda: scores(y[validation], model.predict(X_validation)), n_validation)
            # a run is paid for by the search
            scoring = _core.Session("PrivateSearchCV", "score", price, None, seed(12 + 4 * k))
            noisy = _core.gaussian_sum(each[:, None], 1.0, plan.score_noise, n_validation, scoring)
            models.append(model)
            drawn.append(at)
            scored.append(float(noisy[0]))
            return scored[-1], _core.random_below(2**62, 1, seed(13 + 4 * k))[0]

        best = _core.select_best(SHAPES[law], number(self.expected_runs, "expected_runs"), one_run, session)
        self.plan_ = plan
        self.best_estimator_, self.best_params_ = models[best], candidates[drawn[best]]
        self.best_score_ = scored[best] / n_validation
        self.privacy_ = Privacy.of_session(session)
        # the winner was released by the search: its guarantee is the search's, not that of one run
        self._inner(self.best_estimator_)[0].privacy_ = self.privacy_
        return self

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """The winner's predictions."""
        check_is_fitted(self)
        return self.best_estimator_.predict(as_table(X))

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """The winner's probabilities."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(as_table(X))

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """The winner's scores."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(as_table(X))

    def score(self, X: Any, y: Any) -> float:
        """The winner's score on other data; exact, so not private with respect to these."""
        check_is_fitted(self)
        return self.best_estimator_.score(as_table(X), y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.input_tags.sparse, inner.input_tags.allow_nan
        return tags


__all__ = ["PrivacyWarning", "PrivateSearchCV", "SearchPlan"]
