"""What every estimator shares: checking, charging, certifying, reporting."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from . import _core, accounting
from ._options import method_of
from ._plan import Plan, Privacy
from ._public_facts import Columns, Unit, unit_facts
from ._reading import kind, number, shown, whole
from ._repeats import warn_if_repeated
from ._settings import DefaultEpsilon, Method, Settings, refusal, with_known_keywords
from ._steps import warn_of_surroundings
from ._tables import by_position, encoding_said
from ._units import public_bound, public_number
from ._warnings import once, refuse_seed, warn
from .ledger import Ledger

#: At this ε and above, small samples are expected to give reasonable scores.
GENEROUS_EPSILON = 30.0


def shape_of(X: Any, n_features: Any, n_rows: Any) -> tuple[int, int, bool]:
    """Rows and columns of a table, or the numbers that stand in for it; and whether the rows were counted."""
    if X is None or isinstance(X, (int, float, np.number, np.bool_)):
        rows = n_rows if X is None else X
        if rows is None or n_features is None or (X is not None and n_rows is not None):
            raise TypeError(
                "explain needs the shape of the data; give X, of which only the shape is read, or n_rows and n_features"
            )
        return whole(rows, "n_rows"), whole(n_features, "n_features"), False
    if n_features is not None or n_rows is not None:
        raise TypeError(
            "n_features and n_rows are given, but the shape comes from X; leave them out (a public guess of n_rows is a parameter of the estimator)"
        )
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, (list, tuple)):
        shape = (len(X), *([len(X[0])] if len(X) and isinstance(X[0], (list, tuple, np.ndarray)) else []))
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise ValueError(f"Expected 2D array: X is {kind(X)}; give rows × columns, or n_rows and n_features")
    return int(shape[0]), int(shape[1]), True


def warn_of_default_epsilon() -> None:
    """Warns once per process that ε was left at its default."""
    once(
        "epsilon",
        "epsilon was not given: 1.0 is spent, which nobody chose; say epsilon=1.0, or what these records may cost (said once per process)",
    )


#: Parameters that hold objects with parameters of their own, and the object that says nothing.
_NESTED = {"columns": Columns, "unit": Unit}
_NO_UNITS = (
    "unit is given and units= is not, so that each row would be protected by itself; say whose rows they are, "
    'units="person" or one id for each row'
)


class PrivateEstimator(BaseEstimator):
    """Base of all estimators: see the class docstrings for parameters."""

    epsilon: float
    delta: float | None
    method: str | Method
    neighbors: str
    accountant: str
    budget: Ledger | None
    n_rows: int | None
    unit: Unit | None
    columns: Columns | None
    insecure_seed: int | None
    n_features_in_: int
    plan_: Plan
    privacy_: Privacy

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        with_known_keywords(cls, cls._option_of)

    @staticmethod
    def _option_of(made: Any, name: str) -> tuple[str, str] | None:
        """The option of this name, or nearly so, and the class of a method that has it and can be given to the object that is made."""
        return None

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Also those of the class above that a subclass hands on with ``**``."""
        names = set(super()._get_param_names())
        parameters = inspect.signature(cls.__init__).parameters.values()
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
            above = next(
                base for base in cls.__mro__[1:] if "__init__" in base.__dict__ and issubclass(base, PrivateEstimator)
            )
            names.update(above._get_param_names())
        return sorted(names)

    def set_params(self, **params: Any) -> Any:
        """Sets parameters; ``method__steps``, ``columns__levels`` and ``unit__max_rows`` also where no object holds them yet. An object that others may hold
        too is not changed: this estimator has one of its own then."""
        known = self._get_param_names()
        for name in params:
            if name.split("__")[0] not in known:
                raise ValueError(refusal(type(self).__name__, name, set(known), self._option_of(self, name)))
        for name in {key.split("__")[0] for key in params if "__" in key} - set(params):
            held = getattr(self, name, None)
            if isinstance(held, Settings):
                setattr(self, name, clone(held))
            elif name == "method" and isinstance(held, str):
                setattr(self, name, method_of(held))
            elif name in _NESTED and held is None:
                setattr(self, name, _NESTED[name]())
        return super().set_params(**params)

    def _unit(self) -> Unit:
        """What is said of units that own several rows."""
        return unit_facts(self.unit)

    # --- public facts -------------------------------------------------------------------------------------------

    def _check_common(self, unit: str = "record") -> str:
        if not (isinstance(self.epsilon, (int, float, np.number)) and 0 < self.epsilon < math.inf):
            raise ValueError(f"epsilon is {shown(self.epsilon)}; give a positive, finite number, for example 1")
        if self.delta is not None and not (0 <= number(self.delta, "delta") < 1):
            raise ValueError(f"delta is {self.delta}; give a number in [0, 1), usually below 1/rows, for example 1e-6")
        relation = accounting._relation(self.neighbors)
        if relation not in accounting.RELATIONS:
            raise ValueError(f"neighbors is {shown(self.neighbors)}; choose one of {', '.join(accounting.RELATIONS)}")
        self._check_budget(unit, relation)
        if self._unit().given() and unit == "record":
            raise ValueError(_NO_UNITS)
        return relation

    def _check_budget(self, unit: str, relation: str) -> None:
        """Refuses a ledger that does not count what the fit spends."""
        if self.budget is not None and not isinstance(self.budget, Ledger):
            raise ValueError("budget must be a dpopt.Ledger, or None")
        if self.budget is not None and self.budget.relation != relation:
            raise ValueError(
                f"the ledger is kept for {self.budget.relation}, the estimator for {relation}; use the same relation for both"
            )
        if self.budget is not None:
            self.budget._check_unit(unit)
            refuse_seed(self.insecure_seed, charged=True)

    def _public_rows(self, counted: int | None, relation: str) -> int:
        """n: counted where it is public, given where it is protected."""
        if self.n_rows is not None:
            if not (isinstance(self.n_rows, (int, np.integer)) and self.n_rows >= 1):
                raise ValueError(f"n_rows is {shown(self.n_rows)}; give a whole number, at least 1")
            if relation != "add-or-remove" and counted is not None and self.n_rows != counted:
                raise ValueError(
                    f"n_rows is {self.n_rows} but X has {counted} rows; leave it out, since the number of rows is public here"
                )
            return int(self.n_rows)
        if relation == "add-or-remove" and counted is not None:
            raise ValueError("under add-or-remove the number of rows is protected; give a public guess as n_rows")
        assert counted is not None
        return counted

    def _public_units(self, counted: int | None, rows: int | None, relation: str) -> dict[str, Any]:
        """What is public of units of `rows` rows: how many there are, given, or `counted` where it is public; and their bound."""
        unit = self._unit()
        count, most = public_number(unit.count, counted, rows, relation), public_bound(unit.max_rows)
        if not isinstance(unit.clipping, str) or unit.clipping not in ("auto", "unit", "row"):
            raise ValueError(f'clipping of unit is {shown(unit.clipping)}; choose "auto", "unit" or "row"')
        return {"count": count, "most_rows": most, "clipping": unit.clipping}

    def _delta(self, rows: int) -> float:
        return float(self.delta) if self.delta is not None else _core.default_delta(rows)

    def _warn_budget(self, rows: int, delta: float, unit: str = "record") -> None:
        if delta * rows > 1.0:
            warn(
                f"delta {delta:g} is larger than 1/{rows}: a program that publishes one random {unit} in clear would have the same guarantee; "
                f"give a delta below 1/{rows}, or leave delta out (then it is {_core.default_delta(rows):.4g})"
            )
        refuse_seed(self.insecure_seed, charged=False)
        if self.budget is None and self.insecure_seed is None:
            warn_if_repeated(self.n_features_in_, getattr(self, "feature_names_in_", None), float(self.epsilon), delta)

    def _with_tags(self, tags: Any) -> Any:
        # constants of an encoder ask for one, which would fill the zeros
        tags.input_tags.sparse = not (isinstance(encoding_said(self), Mapping) and by_position(self))
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
        kept = getattr(self, "_report_facts", None)
        if kept is not None:
            planned, facts = kept
            self._report_facts: tuple[Any, dict[str, Any]] = (planned, {**facts, "score": score})

    # --- charge, report -----------------------------------------------------------------------------------------

    def _charging(self, units: tuple[str, ...] = ()) -> Any:
        """What the compiled library charges a run with, before a record is read; `units`: how those are called who are protected."""
        return None if self.budget is None else self.budget._charge_for(units)

    def _insecure_seed(self) -> int | None:
        return None if self.insecure_seed is None else whole(self.insecure_seed, "insecure_seed") % 2**64

    def report(self, path: str | Path | None = None, *, source: str = "rows given in Python", target: str = "y") -> str:
        """The report of the fit as one HTML document: guarantee, plan, releases, coefficients. Written to `path` if given.

        Parameters
        ----------
        path
            Where to write; None only returns the text.
        source
            How the data are called in the report.
        target
            How the target is called in the report.
        """
        check_is_fitted(self)
        planned, facts = self._report_facts
        privacy = self.privacy_
        answer = {
            **facts, "command": f"dpopt.{type(self).__name__}.fit", "source": source, "target": target,
            "guarantee": privacy.guarantee(), "releases": privacy.ledger, "coefficients": self._named_coefficients(),
            "warnings": [] if privacy.scope is None else [f"The guarantee is {privacy.scope}."],
        }  # fmt: skip
        html = planned(json.dumps(answer))
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def _named_coefficients(self) -> list[tuple[str, float, float | None, float | None]]:
        names = getattr(self, "feature_names_in_", None)
        coef = np.atleast_2d(self.coef_)
        names = list(names) if names is not None else [f"x{j}" for j in range(coef.shape[1])]
        noise = np.broadcast_to(np.atleast_2d(self.coef_noise_std_), coef.shape)
        errors = getattr(self, "coef_std_error_", None)
        outputs = [""] if len(coef) == 1 else [f" → {c}" for c in self.classes_]
        rows = []
        for k, suffix in enumerate(outputs):
            for j, name in enumerate(names):
                std = float(noise[k, j])
                error = None if errors is None else float(np.atleast_2d(errors)[k, j])
                rows.append((f"{name}{suffix}", float(coef[k, j]), std if math.isfinite(std) else None, error))
        return rows

    def _before_fit(self, unit: str = "record") -> str:
        relation = self._check_common(unit)
        if isinstance(self.epsilon, DefaultEpsilon):
            warn_of_default_epsilon()
        warn_of_surroundings()
        return relation

    def _facts_of_counted(self, counted: int, relation: str) -> tuple[int, float]:
        """The public number of rows and δ; warns where the budget is odd."""
        rows = self._public_rows(counted, relation)
        delta = self._delta(rows)
        self._warn_budget(rows, delta)
        return rows, delta
