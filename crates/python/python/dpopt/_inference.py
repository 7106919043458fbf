"""How sure a coefficient is: standard errors, intervals and their table, of a fit whose method finds the covariance of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ._html import table
from ._reading import number
from ._rows import Bounding
from ._targets import Decoding

#: The method that finds a covariance.
METHOD = "one-step"
#: What a fit leaves where there is one.
ATTRIBUTES = ("coef_std_error_", "intercept_std_error_", "covariance_")
_HEAD = ("coef", "std err", "z")


@dataclass(frozen=True)
class Summary:
    """Coefficients with their standard errors and intervals.

    Attributes
    ----------
    names
        Of the columns; the last one is ``"intercept"``, where one was fitted.
    values, std_errors
        Of each coefficient, in the units of the columns.
    intervals
        Lower and upper ends, one row for each.
    level
        Probability with which one of the intervals holds its coefficient.
    about
        What the numbers are about, in sentences.
    """

    names: tuple[str, ...]
    values: np.ndarray = field(repr=False)
    std_errors: np.ndarray = field(repr=False)
    intervals: np.ndarray = field(repr=False)
    level: float
    about: str = field(repr=False)

    def _rows(self) -> list[Sequence[str]]:
        """A row for each coefficient, as text."""
        numbers = np.column_stack([self.values, self.std_errors, self.values / self.std_errors, self.intervals])
        return [(name, *(f"{x:.4g}" for x in row)) for name, row in zip(self.names, numbers.tolist())]

    def _head(self) -> Sequence[str]:
        tail = (1 - self.level) / 2
        return ("", *_HEAD, f"{tail:.4g}", f"{1 - tail:.4g}")

    def __str__(self) -> str:
        rows = [self._head(), *self._rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]) for row in rows
        ]
        return "\n".join([*lines, "", self.about])

    def _repr_html_(self) -> str:
        return table(self._head(), self._rows(), self.about)


def forget(estimator: Any) -> None:
    """Removes what an earlier fit left."""
    for name in ATTRIBUTES:
        estimator.__dict__.pop(name, None)


def settle(estimator: Any, facts: Bounding, decoding: Decoding, covariances: Sequence[np.ndarray | None]) -> None:
    """The covariance of the weights of one model of bounded rows as attributes, in the units of X and y: post-processing."""
    if len(covariances) != 1 or covariances[0] is None:
        return
    d, width = len(facts.scale), facts.width
    # what decodes weights is linear in them
    map_ = np.zeros((d + 1, width))
    map_[np.arange(d), np.arange(d)] = facts.scale
    map_[d, :d] = -facts.scale * facts.centre
    if facts.intercept:
        map_[d, d] = facts.intercept
    map_ *= decoding.scale
    covariance = map_ @ covariances[0].reshape(width, width) @ map_.T
    errors = np.sqrt(np.diag(covariance))
    if is_classifier(estimator):
        estimator.coef_std_error_, estimator.intercept_std_error_ = errors[None, :d], errors[d:]
    else:
        estimator.coef_std_error_, estimator.intercept_std_error_ = errors[:d], np.float64(errors[d])
    estimator.covariance_ = covariance


def _why_none(estimator: Any) -> str:
    """Why a fitted estimator has no standard errors, and what to do."""
    if estimator._table is not None:
        return 'standard errors are of plain columns, and these were encoded; give bounds=(lower, upper), encoding=None and method="one-step"'
    if getattr(getattr(estimator, "plan_", None), "method", None) == METHOD:
        return "there are no standard errors: along some direction of the columns the released curvature is no larger than its noise; raise epsilon, or give more rows or fewer columns"
    return 'this fit has no standard errors; fit with method="one-step", which releases what they follow from'


def _found(estimator: Any, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients with the intercept last, their standard errors and intervals."""
    check_is_fitted(estimator)
    level = number(level, "level")
    if not 0 < level < 1:
        raise ValueError(f"level is {level:g}; give a number between 0 and 1, such as 0.95")
    if not hasattr(estimator, "covariance_"):
        raise ValueError(_why_none(estimator))
    values = np.append(np.ravel(estimator.coef_), np.ravel(estimator.intercept_))
    errors = np.append(np.ravel(estimator.coef_std_error_), np.ravel(estimator.intercept_std_error_))
    if not estimator.fit_intercept:
        values, errors = values[:-1], errors[:-1]
    reach = NormalDist().inv_cdf((1 + level) / 2) * errors
    return values, errors, np.column_stack([values - reach, values + reach])


def conf_int(self: Any, level: float = 0.95) -> np.ndarray:
    """Intervals that hold the coefficients of the population, each with probability `level`: noise of privacy and sampling together.

    Parameters
    ----------
    level
        Between 0 and 1.

    Returns
    -------
    ndarray
        Lower and upper ends, a row for each column of X and, where an intercept was fitted, a last one for it. They follow from what the fit released and
        cost nothing (docs/inference.md).
    """
    return _found(self, level)[2]


def summary(self: Any, level: float = 0.95) -> Summary:
    """Coefficients, standard errors, z values and intervals as a table: printed as text, in a notebook as HTML.

    Parameters
    ----------
    level
        Of the intervals, between 0 and 1.
    """
    values, errors, intervals = _found(self, level)
    d = np.ravel(self.coef_).size
    names = getattr(self, "feature_names_in_", None)
    named = [str(name) for name in names] if names is not None else [f"x{j}" for j in range(d)]
    kind = "logistic" if is_classifier(self) else "linear"
    about = (
        f"Best {kind} coefficients of the population the rows are from, of columns within their bounds, in units of X"
        + (f" (log-odds of {self.classes_[1]})." if is_classifier(self) else " and y.")
        + f" Intervals of {100 * level:.4g} % by the normal law: noise of sampling (sandwich) and of privacy."
        + f" Epsilon {self.privacy_.epsilon:.4g}, delta {self.privacy_.delta:.4g}."
    )
    return Summary((*named, "intercept")[: len(values)], values, errors, intervals, float(level), about)


__all__ = ["ATTRIBUTES", "METHOD", "Summary", "conf_int", "forget", "settle", "summary"]
