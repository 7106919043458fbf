"""Which ε, how many rows: the answer to a goal that is given to ``explain``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core
from ._plan import Plan
from ._reading import number

if TYPE_CHECKING:
    from ._sources import Source

#: What a plan is made for while the number of rows is what is asked for.
ROWS_TO_BEGIN_WITH = 10_000

#: Names of what can be asked for, and of what is reached without privacy.
GOALS = ("accuracy", "loss_points", "error", "added_error", "best")


@dataclass(frozen=True)
class Sizing:
    """The least ε and the least number of rows at which a fit is predicted to reach a goal. An estimate from public facts and no guarantee; no record was read.

    Attributes
    ----------
    goal
        What was asked for.
    unit
        Unit of what is lost to privacy: points of accuracy, or a root-mean-square error.
    allowed
        The most that may be lost.
    epsilon, rows
        The least ε with this many rows, and the least number of rows (of units, where a unit may have several) at this ε. None where the largest that is looked at does not reach the
        goal, or where nothing was settled from which to look.
    epsilon_band, rows_band
        The least ones by the two ends of the band of what is lost. None at an end: beyond all that is looked at.
    at
        What is predicted at the ε and the number of rows of the plan: a dict with ``epsilon``, ``rows``, ``excess_risk``, and ``lost`` with ``low``, ``middle`` and ``high``.
    over_epsilon, over_rows
        Such dicts for several ε at these rows, and for several numbers of rows at this ε.
    coverage
        The share of measured cells that the band is made to hold for.
    plans
        How many plans were made.
    svg
        Both curves as an SVG picture.
    """

    goal: dict[str, Any]
    unit: str
    allowed: float
    epsilon: float | None
    epsilon_band: tuple[float | None, float | None]
    rows: int | None
    rows_band: tuple[float | None, float | None]
    at: dict[str, Any]
    over_epsilon: list[dict[str, Any]] = field(repr=False)
    over_rows: list[dict[str, Any]] = field(repr=False)
    coverage: float
    plans: int
    text: str = field(repr=False)
    svg: str = field(repr=False)

    @classmethod
    def of(cls, described: str, text: str, svg: str) -> Sizing:
        """The answer as the compiled library describes it."""
        told = json.loads(described)
        epsilon, rows = told.get("epsilon", {}), told.get("rows", {})
        return cls(
            told["goal"], told["unit"], told["allowed"], epsilon.get("value"), (epsilon.get("low"), epsilon.get("high")),
            None if not rows else int(rows["value"]), (rows.get("low"), rows.get("high")), told["at"], told["over_epsilon"],
            told["over_rows"], told["coverage"], told["plans"], text, svg,
        )  # fmt: skip

    def reached(self, lost: float) -> float:
        """Accuracy or error where so much is lost; what is lost itself where only that was asked for."""
        if self.goal["kind"] == "accuracy":
            return float(self.goal["best"] - lost / 100)
        if self.goal["kind"] == "error":
            return float((self.goal["best"] ** 2 + lost**2) ** 0.5)
        return lost

    def __str__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_svg_(self) -> str:
        return self.svg


def keywords_of(**said: Any) -> tuple[float | None, ...] | None:
    """The goal that was said, if one was."""
    keywords = tuple(None if said[name] is None else number(said[name], name) for name in GOALS)
    return keywords if _core.has_goal(keywords) else None


def sized(
    source: Source, relation: str, n_classes: int, keywords: tuple[float | None, ...], rows_known: bool
) -> Sizing:
    """The answer for records whose outline was taken. Each plan is of an estimator with another ε, for another number of rows."""
    estimator, rows, public = source.estimator, source.rows, source.public
    if public is not None and public.get("kept") is not None:
        raise ValueError(
            "where a row may have several owners, who owns which rows settles how many are kept, and no curve over rows can be drawn; leave the goal out, and give epsilon"
        )
    if public is not None and public.get("clipping") == "row":
        raise ValueError("a goal is reached by units or by rows; leave the clipping of rows out, or leave the goal out")
    protected = source.protected[0]
    parameters = estimator.get_params(deep=False)

    def planned(epsilon: float, count: int) -> Plan:
        source.estimator = type(estimator)(**{**parameters, "epsilon": epsilon, "n_rows": None})
        source.rows = round(rows * count / protected)
        source.public = None if public is None else {**public, "count": count}
        try:
            return source.plan(relation, n_classes)
        finally:
            source.estimator, source.rows, source.public = estimator, rows, public

    def excess(epsilon: float, count: int) -> float | None:
        try:
            chosen = planned(epsilon, count).chosen
        except ValueError:
            # what cannot be planned there reaches no goal
            return None
        return float(chosen["predicted_excess_risk"])

    loss, declared = source.predicted(relation, n_classes)
    answer = _core.sizing(keywords, loss, declared, float(estimator.epsilon), protected if rows_known else None, excess)
    return Sizing.of(*answer)


__all__ = ["GOALS", "ROWS_TO_BEGIN_WITH", "Sizing", "keywords_of", "sized"]
