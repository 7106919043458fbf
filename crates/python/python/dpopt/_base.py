"""What every estimator shares: checking, charging, certifying, reporting."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import _core, accounting
from ._reading import kind, number, shown, whole
from ._repeats import warn_if_repeated
from ._steps import warn_of_surroundings
from ._tables import by_position
from ._units import public_bound, public_number
from ._warnings import refuse_seed, warn
from .ledger import Ledger

#: At this ε and above, small samples are expected to give reasonable scores.
GENEROUS_EPSILON = 30.0


def shape_of(X: Any, n_features: Any, n_rows: Any) -> tuple[int, int, bool]:
    """Rows and columns of a table, or the numbers that stand in for it; and whether the rows were counted."""
    if X is None or isinstance(X, (int, float, np.number, np.bool_)):
        rows = n_rows if X is None else X
        if rows is None or n_features is None or (X is not None and n_rows is not None):
            raise TypeError("explain takes X, of which it looks at the shape only, or n_rows and n_features")
        return whole(rows, "n_rows"), whole(n_features, "n_features"), False
    if n_features is not None or n_rows is not None:
        raise TypeError(
            "the shape comes from X; leave out n_features and n_rows (a public guess is a parameter of the estimator)"
        )
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, (list, tuple)):
        shape = (len(X), *([len(X[0])] if len(X) and isinstance(X[0], (list, tuple, np.ndarray)) else []))
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise ValueError(f"Expected 2D array: X is {kind(X)}; give rows × columns, or n_rows and n_features")
    return int(shape[0]), int(shape[1]), True


def _whose_rows(privacy: Any) -> str:
    """What a report says of who is protected."""
    if privacy.unit == "record":
        return "Each person has one row."
    return "A person has one id, and nobody else has it; rows without an id count nowhere."


#: Parameters of units with several rows, which mean nothing without them.
UNIT_PARAMETERS = {"max_rows_per_unit": None, "n_units": None, "unit_clipping": "auto"}


class PrivateEstimator(BaseEstimator):
    """Base of all estimators: see the class docstrings for parameters."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Also the options of methods that a subclass hands on with ``**``."""
        names = set(super()._get_param_names())
        parameters = inspect.signature(cls.__init__).parameters.values()
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
            names.update(getattr(cls, "_keyword_options", ()))
        return sorted(names)

    # --- public facts -------------------------------------------------------------------------------------------

    def _check_common(self, unit: str = "record") -> str:
        if not (isinstance(self.epsilon, (int, float, np.number)) and 0 < self.epsilon < math.inf):
            raise ValueError(f"epsilon is {shown(self.epsilon)}; give a positive, finite number, for example 1")
        if self.delta is not None and not (0 <= number(self.delta, "delta") < 1):
            raise ValueError(f"delta is {self.delta}; give a number in [0, 1), usually below 1/rows, for example 1e-6")
        relation = accounting._relation(self.neighbors)
        if relation not in accounting.RELATIONS:
            raise ValueError(f"neighbors is {shown(self.neighbors)}; choose one of {', '.join(accounting.RELATIONS)}")
        if self.budget is not None and not isinstance(self.budget, Ledger):
            raise ValueError("budget must be a dpopt.Ledger, or None")
        if self.budget is not None and self.budget.relation != relation:
            raise ValueError(
                f"the ledger is kept for {self.budget.relation}, the estimator for {relation}; use the same"
            )
        if self.budget is not None:
            self.budget._check_unit(unit)
            refuse_seed(self.insecure_seed, charged=True)
        for name, default in UNIT_PARAMETERS.items() if unit == "record" else ():
            given = getattr(self, name, default)
            if given is not default and given != default:
                raise ValueError(
                    f"{name} is given and units= is not, so that each row would be protected by itself; say whose rows they are, "
                    'units="person" or one id for each row'
                )
        return relation

    def _public_rows(self, counted: int | None, relation: str) -> int:
        """n: counted where it is public, given where it is protected."""
        if self.n_rows is not None:
            if not (isinstance(self.n_rows, (int, np.integer)) and self.n_rows >= 1):
                raise ValueError(f"n_rows is {shown(self.n_rows)}; give a whole number, at least 1")
            if relation != "add-or-remove" and counted is not None and self.n_rows != counted:
                raise ValueError(
                    f"n_rows is {self.n_rows} but X has {counted} rows; leave it out, the number is public here"
                )
            return int(self.n_rows)
        if relation == "add-or-remove" and counted is not None:
            raise ValueError("under add-or-remove the number of rows is protected; give a public guess as n_rows")
        assert counted is not None
        return counted

    def _public_units(self, counted: int | None, rows: int | None, relation: str) -> dict[str, Any]:
        """What is public of units of `rows` rows: how many there are, given, or `counted` where it is public; and their bound."""
        count, most = (
            public_number(self.n_units, counted, rows, relation),
            public_bound(self.max_rows_per_unit),
        )
        clipping = self.unit_clipping
        if not isinstance(clipping, str) or clipping not in ("auto", "unit", "row"):
            raise ValueError(f'unit_clipping is {shown(clipping)}; choose "auto", "unit" or "row"')
        return {"count": count, "most_rows": most, "clipping": clipping}

    def _delta(self, rows: int) -> float:
        return float(self.delta) if self.delta is not None else _core.default_delta(rows)

    def _warn_budget(self, rows: int, delta: float, unit: str = "record") -> None:
        if delta * rows > 1.0:
            warn(
                f"delta {delta:g} is larger than 1/{rows}: publishing one {unit} at random would be allowed; "
                f"give a delta below {1.0 / rows:.1g}"
            )
        refuse_seed(self.insecure_seed, charged=False)
        if self.budget is None and self.insecure_seed is None:
            warn_if_repeated(self.n_features_in_, getattr(self, "feature_names_in_", None), float(self.epsilon), delta)

    def _with_tags(self, tags: Any) -> Any:
        # encoded columns would fill the zeros
        tags.input_tags.sparse = not by_position(self)
        # a missing or infinite number is no error: an error would tell that there is one
        tags.input_tags.allow_nan = True
        poor = self.epsilon < GENEROUS_EPSILON
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = poor
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = poor
        # fits differ unless the noise is seeded
        tags.non_deterministic = self.insecure_seed is None
        return tags

    def __sklearn_tags__(self) -> Any:
        return self._with_tags(super().__sklearn_tags__())

    def _released_by(self, session: Any, privacy: Any, score: dict[str, Any]) -> None:
        """The fit was one run of a search, whose promise is the model's and which released its `score`."""
        self.privacy_ = privacy
        facts = getattr(self, "_report_facts", None)
        if facts is not None:
            self._report_facts: dict[str, Any] = {**facts, "score": score}

    # --- charge, report -----------------------------------------------------------------------------------------

    def _charging(self, units: tuple[str, ...] = ()) -> Any:
        """What the compiled library charges a run with, before a record is read; `units`: how those are called who are protected."""
        return None if self.budget is None else self.budget._charge_for(units)

    def _insecure_seed(self) -> int | None:
        return None if self.insecure_seed is None else whole(self.insecure_seed, "insecure_seed") % 2**64

    def report(self, path: str | Path | None = None, *, source: str = "rows given in Python", target: str = "y") -> str:
        """The report of the fit as one HTML document: guarantee, plan, releases, coefficients. Written to `path` if given.

        Args:
            path: where to write; None only returns the text.
            source: how the data are called in the report.
            target: how the target is called in the report.
        """
        check_is_fitted(self)
        facts, plan, privacy = self._report_facts, self.plan_, self.privacy_
        if len(plan.candidates) == 1 and facts["compared"] is not None:
            # a method asked for by name is shown beside the others
            request, classes = facts["compared"]
            plan = request.plan(classes, compare=True)
        candidates = [{**c, "accountant": c.get("bound", {}).get("accountant", "")} for c in plan.candidates]
        chosen = next(i for i, c in enumerate(plan.candidates) if c["method"] == plan.method)
        schedule = plan.chosen
        stored = {
            "command": f"dpopt.{type(self).__name__}.fit", "source": source, "rows": plan.n_rows, "units": plan.n_units,
            "features": facts["features"], "target": target, "task": facts["task"], "preparation": facts["preparation"],
            "guarantee": privacy.guarantee(),
            "releases": privacy.ledger, "candidates": candidates, "chosen": chosen,
            "by_name": self.method != "auto", "schedule": schedule["schedule"],
            "coefficients": self._named_coefficients(),
            "assumptions": schedule["assumptions"] + [
                _whose_rows(privacy), "Declared bounds, classes and row norms do not come from the records.",
                "A missing number counts as the middle of its bounds, an infinite one as its bound (both as 0 without bounds), a record "
                "without target or with an undeclared class as nothing; no error and no message depends on them.",
            ],
            "warnings": schedule["warnings"] + ([] if privacy.scope is None else [f"The guarantee is {privacy.scope}."]),
            "planning_seconds": facts["planning_seconds"],
            "ledger": facts["ledger"], "loss": schedule.get("loss"), "range": facts.get("range"), "score": facts.get("score"),
        }  # fmt: skip
        html = _core.report_html(json.dumps(stored))
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def _named_coefficients(self) -> list[tuple[str, float, float | None]]:
        names = getattr(self, "feature_names_in_", None)
        coef = np.atleast_2d(self.coef_)
        names = list(names) if names is not None else [f"x{j}" for j in range(coef.shape[1])]
        noise = np.broadcast_to(np.atleast_2d(self.coef_noise_std_), coef.shape)
        outputs = [""] if len(coef) == 1 else [f" → {c}" for c in self.classes_]
        rows = []
        for k, suffix in enumerate(outputs):
            for j, name in enumerate(names):
                std = float(noise[k, j])
                rows.append((f"{name}{suffix}", float(coef[k, j]), std if math.isfinite(std) else None))
        return rows

    def _before_fit(self, unit: str = "record") -> str:
        relation = self._check_common(unit)
        warn_of_surroundings()
        return relation

    def _facts_of_rows(self, X: Any, relation: str, units: dict[str, Any] | None = None) -> tuple[int, float]:
        """The public number of rows and δ; warns where the budget is odd."""
        return self._facts_of_counted(X.shape[0], relation, units)

    def _facts_of_counted(self, counted: int, relation: str, units: dict[str, Any] | None = None) -> tuple[int, float]:
        """The same of rows that were counted elsewhere."""
        rows = self._public_rows(counted, relation)
        protected, unit = (rows, "record") if units is None else (units["count"], "unit")
        delta = self._delta(protected)
        self._warn_budget(protected, delta, unit)
        return rows, delta
