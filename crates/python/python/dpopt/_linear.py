"""The fit that all linear estimators share: bound the rows, plan, charge, run, decode."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from . import accounting
from ._base import PrivateEstimator, share_of, stage
from ._options import said
from ._plan import Plan, make_plan
from ._reading import number, required, same_length, validated, whole
from ._rows import Bounding, bounding


@dataclass
class Task:
    """What is fitted: one column of targets per model, each with an equal share of the model's budget.

    Attributes:
        targets, names: one per model; NaN marks a record that contributes nothing.
        loss: of the compiled library.
        budget: (ε, δ) of all models together.
        scale, shift: predictions are scale·score + shift.
        description, preparation: for the report.
        before: stage and releases of what was released before, and charged already.
    """

    targets: list[np.ndarray]
    names: list[str]
    loss: dict[str, Any]
    budget: tuple[float, float]
    description: str
    preparation: str
    scale: float = 1.0
    shift: float = 0.0
    before: tuple[dict[str, Any], list[dict[str, Any]]] | None = None


class PrivateLinear(PrivateEstimator):
    """Linear models: rows are bounded, one score per output."""

    #: Options of methods that the estimator has; see :mod:`dpopt._options`.
    _method_options: Sequence[str] = ()

    def _facts(self, X: Any, n_features: int, quiet: bool = False) -> Bounding:
        scaling = number(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else 0.0
        return bounding(
            n_features, self.bounds, self.row_norm, scaling, X is not None and sp.issparse(X), quiet, self.max_nonzeros
        )

    def _options(self, facts: Bounding) -> dict[str, Any]:
        """The method and what is said of its options."""
        options = said(self)
        spreads = options.get("public_moments")
        if spreads is not None:
            if len(spreads) != len(facts.scale):
                raise ValueError(
                    f"public_moments has {len(spreads)} entries for {len(facts.scale)} features; give one for each"
                )
            encoded = list(np.asarray(spreads) * facts.scale)
            options["public_moments"] = encoded + ([float(facts.intercept)] if facts.intercept else [])
        if self.method != "auto":
            options["method"] = self.method
        return options

    def _plan(
        self,
        rows: int,
        facts: Bounding,
        loss: dict[str, Any],
        relation: str,
        epsilon: float,
        delta: float,
        compare: bool = False,
    ) -> tuple[Any, Plan]:
        options = self._options(facts)
        if facts.intercept and "max_features" in options:
            # the last encoded feature: always kept, not counted
            options["intercept"] = facts.width - 1
        return make_plan(
            rows=rows, features=facts.width, nonzeros=facts.nonzeros, row_norm=facts.whole, loss=loss, relation=relation,
            epsilon=epsilon, delta=delta, options=options, shown_features=len(facts.scale), compare=compare,
        )  # fmt: skip

    def explain(self, n_rows: int, n_features: int, n_classes: int = 2) -> Plan:
        """Every candidate method with its noise, predicted error and certified guarantee, before any data are read.

        Args:
            n_rows: public number of records.
            n_features: number of columns of X.
            n_classes: for classifiers.
        """
        relation = self._check_common()
        n_rows, n_features, n_classes = (
            whole(n_rows, "n_rows"),
            whole(n_features, "n_features"),
            whole(n_classes, "n_classes"),
        )
        delta = self._delta(n_rows)
        facts = self._facts(None, n_features, quiet=True)
        loss, parts, share = self._explained(n_classes)
        epsilon, delta = (self.epsilon * (1 - share), delta * (1 - share)) if share else (self.epsilon, delta)
        return self._plan(n_rows, facts, loss, relation, *share_of(epsilon, delta, parts), compare=True)[1]

    def _plan_before_labels(self, rows: int, facts: Bounding, relation: str, delta: float) -> None:
        """Refuses what would be refused for any number of labels, before they are found and paid for."""
        if getattr(self, "classes", ()) is None:
            loss, parts, share = self._explained(2)
            budget = (self.epsilon * (1 - share), delta * (1 - share))
            _ = self._plan(rows, facts, loss, relation, *share_of(*budget, parts))[1].chosen

    def _explained(self, n_classes: int) -> tuple[dict[str, Any], int, float]:
        """Loss, number of equal stages and share of labels, for `n_classes`."""
        raise NotImplementedError

    def _task(self, y: np.ndarray, relation: str, delta: float) -> Task:
        """The models to fit; may release something of its own first."""
        raise NotImplementedError

    def _targets(self, y: Any) -> np.ndarray:
        """One label or number per record, read without an error that a record of numbers could cause."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any) -> None:
        relation = self._before_fit()
        y = self._targets(required(y, self))
        X = validated(self, X, reset=True)
        same_length(X, y)
        rows, delta = self._facts_of_rows(X, relation)
        facts = self._facts(X, X.shape[1])
        self._plan_before_labels(rows, facts, relation, delta)
        task = self._task(y, relation, delta)
        whole = (float(self.epsilon), delta)

        started = time.perf_counter()
        parts = len(task.targets)
        part = share_of(*task.budget, parts)
        runnable, plan = self._plan(rows, facts, task.loss, relation, *part)
        chosen = plan.chosen
        planning_seconds = time.perf_counter() - started

        stages: list[dict[str, Any]] = []
        ledger: list[list[dict[str, Any]]] = []
        if task.before is not None:
            stages, ledger = [task.before[0]], [task.before[1]]
        else:
            # certified part by part: the sum of the parts is what is charged
            several = accounting.ApproxDpDpEvent(part[0] * parts, part[1] * parts)
            self._charge(plan.event if parts == 1 else several, *whole)
        weights, noise = [], []
        for k, (target, name) in enumerate(zip(task.targets, task.names)):
            released, spread, records = runnable.run(facts.encode(X, target), self._seed(k))
            weights.append(released)
            noise.append(spread)
            stages.append(stage(name, *part, chosen["event"], chosen["bound"]))
            ledger.append(json.loads(records))

        self._decode(facts, task, weights, noise)
        self.plan_, self.noise_std_ = plan, plan.noise_std
        self._range = (facts.lower, facts.upper, facts.centre)
        self.privacy_ = self._privacy(stages, ledger, relation, *whole)
        # everything that was planned beside the chosen method is planned for the report, if one is asked for
        compared = (rows, facts, task.loss, relation, *part)
        self._report_facts = {
            "compared": compared,
            "features": facts.width, "task": task.description, "preparation": [task.preparation, facts.note],
            "planning_seconds": planning_seconds, "ledger": None if self.budget is None else repr(self.budget),
        }  # fmt: skip

    def _decode(self, facts: Bounding, task: Task, weights: list[np.ndarray], noise: list[np.ndarray]) -> None:
        """Released weights (one array per model) as attributes in the units of X: post-processing."""
        coef, intercept = facts.decode(np.vstack([w.reshape(-1, facts.width) for w in weights]))
        spread = np.vstack([s.reshape(-1, facts.width) for s in noise])
        self.coef_, self.intercept_ = coef * task.scale, intercept * task.scale + task.shift
        self.coef_noise_std_ = spread[:, : coef.shape[1]] * facts.scale * task.scale

    def _check_X(self, X: Any) -> Any:
        check_is_fitted(self)
        return _finite(validated(self, X, reset=False), *self._range)


def _finite(X: Any, lower: np.ndarray, upper: np.ndarray, centre: np.ndarray) -> Any:
    """`X` with every missing number in the middle of its bounds and every infinite one at its bound, as in the fit (0 without)."""
    values = X.data if sp.issparse(X) else X
    wild = ~np.isfinite(values)
    if not wild.any():
        return X
    X = X.copy()
    if sp.issparse(X):
        at, column = wild, X.indices[wild]
        values = X.data
    else:
        at = np.nonzero(wild)
        column, values = at[1], X
    found = np.clip(values[at].astype(np.float64), lower[column], upper[column])
    values[at] = np.where(np.isfinite(found), found, centre[column])
    return X


__all__ = ["PrivateLinear", "Task"]
