"""What a linear model learns of each record, as the compiled library reads it, and what released scores stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._reading import distinct, labels


@dataclass
class Reading:
    """The targets as the compiled library reads them.

    Attributes
    ----------
    values
        One number per record: a target, or the place of its label; NaN marks a record that contributes nothing.
    classes
        How many there are (1 where a number is predicted); None where they are to be found privately.
    labels
        Those that the places are of.
    rank
        Where each label that occurs stands in the order of classes, if they are to be found.
    """

    values: np.ndarray
    classes: int | None = 1
    labels: np.ndarray | None = None
    rank: list[int] | None = None


@dataclass
class Decoding:
    """What released scores stand for.

    Attributes
    ----------
    preparation
        For the report.
    scale, shift
        Predictions are scale·score + shift; of counts that is their logarithm.
    ends
        The range of the target, where that does not follow from the two.
    """

    preparation: str
    scale: float = 1.0
    shift: float = 0.0
    ends: tuple[float, float] | None = None

    @property
    def range(self) -> tuple[float, float]:
        """The range of the target, of a number."""
        return (self.shift - self.scale, self.shift + self.scale) if self.ends is None else self.ends


def declared_classes(classes: Any, y: np.ndarray) -> np.ndarray:
    """The classes that are known before anything is released: those of a list, or of labels that are public."""
    if isinstance(classes, str):
        if classes != "public":
            raise ValueError('classes must be a list of labels, "public" or None')
        found = distinct(y)[0]
        if found.dtype.kind == "f" and not (found == np.floor(found)).all():
            raise ValueError(
                "Unknown label type: continuous. y holds numbers that are not whole and every one of them would be a public class; "
                "declare classes=[...], or use a regressor"
            )
        return found
    known = distinct(labels(classes, "classes"))[0]
    if len(known) < 2:
        raise ValueError("classes must list at least two labels")
    return known


@dataclass(frozen=True)
class Interval:
    """Prediction intervals of a fit.

    Attributes
    ----------
    level
        Share of records whose target they are to hold.
    half_width
        Half of their width, in the unit of y; infinite where no finite one was found to.
    within_range
        Whether ends keep to the range of y, which was declared.
    """

    level: float
    half_width: float
    within_range: bool


def interval_of(found: tuple[float, float, bool], scale: float) -> Interval:
    """Of what a fit of a matrix released, in halves of the range: a little wider than rounding moves sums."""
    level, half_width, declared = found
    return Interval(level, half_width * scale * (1 + 1e-9), declared)


def interval_note(interval: Interval | None) -> list[str]:
    """What a report says of prediction intervals."""
    if interval is None:
        return []
    if not math.isfinite(interval.half_width):
        return [
            f"Prediction intervals: no finite width was found to hold y in at least {100 * interval.level:g} % of rows; declare target_bounds, or ask for a lower level."
        ]
    return [
        f"Prediction intervals: the prediction ± {interval.half_width:.6g} is to hold y in at least {100 * interval.level:g} % of rows like these."
    ]


__all__ = ["Decoding", "Interval", "Reading", "declared_classes", "interval_note", "interval_of"]
