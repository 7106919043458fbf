"""What estimators from released moments of bounded columns share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._base import PrivateEstimator, shape_of
from ._html import table
from ._plan import Plan, Privacy
from ._public_facts import Unit
from ._reading import number, validated
from ._repeats import open_session
from ._rows import _pair, of_each
from ._tables import names_of
from ._warnings import warn
from .partitions import Partitions


@dataclass(frozen=True)
class Box:
    """How columns are bounded: x ↦ scale·(clip(x, lower, upper) − centre)."""

    lower: np.ndarray
    upper: np.ndarray
    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def between(cls, lower: np.ndarray, upper: np.ndarray) -> Box:
        """To [−1, 1] in each column."""
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError("bounds must be finite with lower < upper for every feature")
        return cls(lower, upper, lower / 2 + upper / 2, 1 / (upper / 2 - lower / 2))

    @property
    def half(self) -> np.ndarray:
        """What one unit of a bounded column is in units of X."""
        return 1 / self.scale


def declared_bounds(bounds: Any, n_features: int, names: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of each column: of a pair, or by name."""
    if not isinstance(bounds, Mapping):
        lower, upper = _pair(bounds)
        return of_each(lower, n_features, "bounds"), of_each(upper, n_features, "bounds")
    known = list(bounds) if names is None else list(names)
    if set(known) != set(bounds) or len(known) != n_features:
        missing = sum(name not in bounds for name in known)
        more = sum(name not in known for name in bounds)
        raise ValueError(
            f"bounds are declared by name, and {missing} of the {len(known)} columns of X have none, while {more} of those declared are not there; "
            "declare every column once, and give no others"
        )
    lower, upper = np.array(
        [[number(end, "bounds") for end in _pair(bounds[name])] for name in known], dtype=np.float64
    ).T
    return lower, upper


class BoundedColumns(PrivateEstimator):
    """Numbers between declared bounds, in columns of a matrix; each row is protected by itself."""

    bounds: Any
    #: Each row is protected by itself.
    unit: Unit | None = None
    #: Whether `fit` needs a target.
    _needs_target: ClassVar[bool] = True

    def _with_tags(self, tags: Any) -> Any:
        tags = super()._with_tags(tags)
        tags.input_tags.sparse = False
        tags.target_tags.required = self._needs_target
        return tags

    def _rows_only(self, X: Any, units: Any) -> None:
        name = type(self).__name__
        if isinstance(X, Partitions):
            raise ValueError(
                f"{name} reads records that are here, and partitions are remote; collect them, or use an estimator that docs/distributed.md lists"
            )
        if units is not None:
            raise ValueError(
                f"{name} protects each row by itself and has no units=; where a person has several rows, make one row of them beforehand (their mean, say), or use "
                "LogisticRegression or MeanEstimator, which take units="
            )

    def _names(self, X: Any) -> list[str] | None:
        """Names of the columns, where bounds are declared by name."""
        return names_of(X) if isinstance(self.bounds, Mapping) else None

    def _box(self, n_features: int, names: Sequence[str] | None, quiet: bool) -> Box:
        if self.bounds is None:
            if not quiet:
                warn(
                    "no public bounds are given, so that every number is clipped to [-1, 1] in the units of X. Give bounds=(lower, upper), the public range of the features (two numbers, or one per feature)"
                )
            return Box.between(np.full(n_features, -1.0), np.full(n_features, 1.0))
        return Box.between(*declared_bounds(self.bounds, n_features, names))

    def _shape(
        self, X: Any, n_features: int | None, n_rows: int | None, relation: str
    ) -> tuple[int, int, list[str] | None]:
        """Public number of rows, and columns with their names, for a plan."""
        alone = X is None or isinstance(X, (int, float, np.number, np.bool_))
        if alone and n_features is None and isinstance(self.bounds, Mapping):
            n_features = len(self.bounds)
        rows, columns, counted = shape_of(X, n_features, n_rows)
        return (self._public_rows(rows, relation) if counted else rows), columns, None if alone else self._names(X)

    def _validated(self, X: Any) -> tuple[np.ndarray, list[str] | None]:
        names = self._names(X)
        return validated(self, X, reset=True, sparse=False), names

    def _columns(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]


class PrivateMoments(BoundedColumns):
    """One noisy release of moments of the rows, and what follows from it."""

    def _plan(
        self, method: str, found: dict[str, Any], shape: tuple[int, int], relation: str, delta: float, risk: float,
        noise: float, schedule: dict[str, Any],
    ) -> Plan:  # fmt: skip
        records, columns = shape
        chosen = {
            "method": method, "grade": "certified", "noise_multiplier": noise, "steps": 1, "gradients": float(records),
            "predicted_excess_risk": risk, "epsilon": found["bound"]["upper"], "delta": delta,
            "allowed_epsilon": float(self.epsilon), "relation": relation, "bound": found["bound"], "unit": "record",
            "event": json.loads(found["event"]), "schedule": schedule, "assumptions": [], "warnings": [],
        }  # fmt: skip
        return Plan(method, [chosen], records, columns, float(self.epsilon), delta, relation)

    def _paid(self, stage: str) -> Any:
        """A session that is charged for the plan."""
        plan = self.plan_
        price = (plan.event.to_json(), plan.epsilon, plan.delta, plan.relation)
        by = None if self.accountant == "auto" else self.accountant
        return open_session(type(self).__name__, stage, price, self._charging(), self._insecure_seed(), by, of=None)

    def _promised(self, session: Any) -> None:
        self.privacy_ = Privacy.of_session(session, self.accountant)

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]]]:
        """Title, heads and rows of the report."""
        raise NotImplementedError

    def report(self, path: Any = None, **names: Any) -> str:
        """A one-page text of what was released, its noise and its guarantee (an HTML table). Written to `path` if given."""
        check_is_fitted(self)
        title, head, rows = self._table()
        html = f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>{title}</title><body>"
        html += self.privacy_._repr_html_() + table(head, rows) + "</body></html>"
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html


__all__ = ["BoundedColumns", "Box", "PrivateMoments", "declared_bounds"]
