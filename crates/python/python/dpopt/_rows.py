"""From tables and matrices to bounded rows, by public facts.

No copy is made of a C- or Fortran-ordered float32/float64 array or of a CSR matrix with int32 indices: the compiled
library reads it in place and writes the bounded rows (float32, compressed) that the fit uses, which is the one copy.
Other dtypes are converted (a copy), tables of pandas, Polars or Arrow become one matrix (a copy unless they hold one block).
"""

from __future__ import annotations

import math
import operator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from . import _core
from ._reading import array, number, shown
from ._warnings import warn


class Scaling(Protocol):
    """What bounds a vector: x ↦ scale·(clip(x, lower, upper) − centre), entry by entry."""

    @property
    def lower(self) -> np.ndarray: ...

    @property
    def upper(self) -> np.ndarray: ...

    @property
    def centre(self) -> np.ndarray: ...

    @property
    def scale(self) -> np.ndarray: ...


class Bounding:
    """How rows are bounded, x ↦ scale·(clip(x, lower, upper) − centre) clipped to l2 norm 1, by the compiled library; and in words."""

    def __init__(self, compiled: Any, note: str) -> None:
        self._compiled, self.note = compiled, note
        self.lower, self.upper = compiled.lower, compiled.upper
        self.scale, self.centre = compiled.scale, compiled.centre
        #: The constant that every row ends with, 0 if there is none.
        self.intercept: float = compiled.intercept
        #: Entries of a bounded row, and how many of them may differ from 0.
        self.width: int = compiled.width
        self.nonzeros: int = compiled.nonzeros
        #: l2 norm that no bounded row exceeds.
        self.row_norm: float = compiled.row_norm

    def encode(self, X: Any, targets: np.ndarray) -> Any:
        """Bounded records for the compiled library; a target that is NaN marks a record that contributes nothing."""
        targets = np.ascontiguousarray(targets, dtype=np.float64)
        if sp.issparse(X):
            X = X.tocsr()
            single = X.data.dtype == np.float32
            data: Any = np.ascontiguousarray(X.data, dtype=np.float32 if single else np.float64)
            if X.indptr[-1] > np.iinfo(np.int32).max:
                raise ValueError("the sparse matrix has more than 2^31 stored values; fit on fewer rows")
            indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
            return self._compiled.sparse(data, np.ascontiguousarray(indices), np.ascontiguousarray(indptr), targets)
        X = np.asarray(X)
        return self._compiled.dense(X if X.dtype == np.float32 else X.astype(np.float64, copy=False), targets)

    def decode(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (outputs × features) and intercepts in the units of X: post-processing."""
        d = len(self.scale)
        coef = weights[:, :d] * self.scale
        intercept = weights[:, d] * self.intercept if self.intercept else np.zeros(len(weights))
        return coef, intercept - coef @ self.centre


def bounding(
    n_features: int,
    bounds: Any,
    row_norm: float | None,
    intercept_scaling: float,
    sparse: bool,
    quiet: bool = False,
    max_nonzeros: int | None = None,
) -> Bounding:
    """The public facts of the rows; warns where they are missing."""
    row_norm = None if row_norm is None else number(row_norm, "row_norm")
    if row_norm is not None and not (row_norm > 0 and math.isfinite(row_norm)):
        raise ValueError(f"row_norm is {row_norm}; give a positive, finite number")
    if not (intercept_scaling >= 0 and math.isfinite(intercept_scaling)):
        raise ValueError(f"intercept_scaling is {intercept_scaling}; give a finite number, at least 0")
    if max_nonzeros is not None and not (
        isinstance(max_nonzeros, (int, np.integer)) and operator.index(max_nonzeros) >= 1
    ):
        raise ValueError(f"max_nonzeros is {shown(max_nonzeros)}; give a whole number, at least 1, or None")
    most = None if max_nonzeros is None else operator.index(max_nonzeros)
    norm = 1.0 if row_norm is None else float(row_norm)
    if bounds is None:
        if row_norm is None and not quiet:
            warn(
                "no public bounds are given, so that every row is clipped to l2 norm 1 in the units of X. Give bounds=(lower, upper), the public range of the features (two numbers, or one per feature), or row_norm=, a norm that few rows exceed"
            )
        note = f"Every row is clipped to norm {norm:g}; no bounds were declared."
        return Bounding(_core.Bounding.in_ball(n_features, norm, intercept_scaling, most), note)
    lower, upper = (of_each(b, n_features, "bounds") for b in _pair(bounds))
    # a sparse matrix is not centred, which would fill the zeros
    compiled = _core.Bounding.in_box(lower, upper, norm, intercept_scaling, sparse, most)
    note = "Features are clipped to declared bounds and scaled so that no row is longer than 1"
    note += "." if norm == 1 else f"; rows are then clipped to norm {norm:g}."
    return Bounding(compiled, note)


#: Rows that are bounded at a time.
_BLOCK = 1 << 14


def within(X: np.ndarray, scaling: Scaling) -> np.ndarray:
    """Rows within their bounds, in units of the norm that one may have."""
    bounded = np.empty(X.shape)
    with np.errstate(all="ignore"):
        # block by block: nothing but the answer is as large as X, and Ctrl-C is heard between them
        for start in range(0, len(X), _BLOCK):
            block = slice(start, start + _BLOCK)
            # what is not finite then counts as the centre of its round: the middle of the bounds in the first
            clipped = np.clip(X[block].astype(np.float64, copy=False), scaling.lower, scaling.upper)
            bounded[block] = (clipped - scaling.centre) * scaling.scale
    return bounded


def of_each(given: Any, n_features: int, name: str) -> np.ndarray:
    """One number per feature, from one for all or from one for each."""
    listed = np.full(1, number(given, name)) if np.isscalar(given) else array(given, name)
    if listed.ndim != 1 and listed.size != 1 or listed.size not in (1, n_features):
        raise ValueError(
            f"{name} has {listed.size} entries for {n_features} features; give one number for all, or one for each"
        )
    return np.broadcast_to(listed.ravel().astype(np.float64), (n_features,)).copy()


def _pair(bounds: Any) -> tuple[Any, Any]:
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
        raise ValueError("bounds must be a pair (lower, upper): two numbers, or two arrays with one number per feature")
    return bounds[0], bounds[1]
