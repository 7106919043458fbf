"""What a model that is a sum over columns and pairs of them says of each: curves, levels and maps, of released weights alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._reading import kind


@dataclass(frozen=True)
class Shape:
    """What one column, or two together, add to the score or prediction, around 0.

    Attributes
    ----------
    columns
        One name, or two.
    kind
        ``"curve"``: of a number, at points; between them straight where predictions move one way with it. ``"levels"``: of a category. ``"map"``: of two columns together, beyond what each says alone.
    at
        Values of a curve's points, or levels; of a map two lists, of its rows and of its columns.
    effects
        What is added at each; of a map a matrix.
    unit
        What it is added to: ``"score"`` (of two classes the second one's), ``"prediction"`` (in units of y), or of counts ``"logarithm"``.
    counts
        What a curve's values are: ``"number"``, ``"date"`` or ``"duration"``, in days.
    """

    columns: tuple[str, ...]
    kind: Literal["curve", "levels", "map"]
    at: Any = field(repr=False)
    effects: np.ndarray = field(repr=False)
    unit: str
    counts: str = field(default="number", repr=False)

    @property
    def reach(self) -> float:
        """The largest effect less the smallest."""
        return float(np.ptp(self.effects)) if self.effects.size else 0.0

    @property
    def importance(self) -> float:
        """Root mean square of the effects: a curve's points lie where records do, evenly after the private quantile transform; levels count alike."""
        return float(np.sqrt(np.mean(self.effects**2))) if self.effects.size else 0.0


def _place_of(estimator: Any, output: Any, outputs: int) -> int:
    """The place of the output that is asked for in the model's file, of three or more classes."""
    if outputs > 1:
        known = list(getattr(estimator, "classes_", []))
        if output is None or output not in known:
            raise ValueError(f"there are {len(known)} classes, each with its own shapes; give output=, one of classes_")
        return int(estimator._table.order.places[known.index(output)])
    if output is not None:
        raise ValueError(
            "output is for models of three or more classes; leave it out: with two classes the shapes are those of the second"
        )
    return 0


def is_logarithm(table: Any) -> bool:
    """Whether scores are logarithms of what is predicted."""
    return bool(json.loads(table.model.loss())["name"] == "poisson")


def scale_of(table: Any) -> float:
    """What leads from a model's score to the estimator's: of two classes its second one, a number in the units of y."""
    if len(table.model.labels) == 2:
        return float(table.order.sign)
    if table.model.labels or is_logarithm(table):
        return 1.0
    lower, upper = table.model.range
    return float(upper - lower) / 2


def shapes_of(estimator: Any, output: Any = None) -> list[Shape]:
    """What the released weights of one output say of columns and pairs of them, those that move the score most first."""
    table = getattr(estimator, "_table", None)
    if table is None:
        if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
            raise TypeError(f"estimator is {kind(estimator)}; give a fitted estimator, or what dpopt.load gives")
        check_is_fitted(estimator)
        raise ValueError(
            "this model has no shapes, since its columns are not encoded; declare them by name, or give bounds=(lower, upper) without encoding=None, or draw coefficient_intervals"
        )
    found = json.loads(table.model.shapes())
    if not found:
        raise ValueError("an embedding model has no shapes to draw, since it is not a sum of functions of its columns")
    place = _place_of(estimator, output, len(found))
    unit = "score" if table.model.labels else "logarithm" if is_logarithm(table) else "prediction"
    factor = scale_of(table)
    shapes = []
    for one in found[place]:
        ((form, held),) = one.items()
        columns = held["columns"] if form == "map" else [held["column"]]
        at: Any
        if form == "map":
            at, effects = (held["first"], held["second"]), held["effects"]
        else:
            pairs = held["points"] if form == "curve" else held["levels"]
            at, effects = [p[0] for p in pairs], [p[1] for p in pairs]
        effects = np.array(effects, dtype=float) * factor
        shapes.append(Shape(tuple(columns), form, at, effects, unit, held.get("unit", "number")))
    return sorted(shapes, key=lambda s: -s.reach)


__all__ = ["Shape", "scale_of", "shapes_of"]
