"""What a linear model learns of each record, as the compiled library reads it, and what released scores stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
        Predictions are scale·score + shift.
    """

    preparation: str
    scale: float = 1.0
    shift: float = 0.0


__all__ = ["Decoding", "Reading"]
