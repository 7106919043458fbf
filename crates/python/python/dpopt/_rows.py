"""From tables and matrices to bounded rows, by public facts.

No copy is made of a C- or Fortran-ordered float32/float64 array or of a CSR matrix with int32 indices: the compiled
library reads it in place and writes the bounded rows (float32, compressed) that the fit uses, which is the one copy.
Other dtypes are converted (a copy), tables of pandas, Polars or Arrow become one matrix (a copy unless they hold one block).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import _core
from ._reading import array, number, shown
from ._warnings import warn


@dataclass(frozen=True)
class Bounding:
    """How rows are bounded: x ↦ scale·(clip(x, lower, upper) − centre), then clipped to l2 norm `row_norm`."""

    lower: np.ndarray
    upper: np.ndarray
    scale: np.ndarray
    centre: np.ndarray
    row_norm: float
    intercept: float
    note: str
    max_nonzeros: int | None = None

    @property
    def whole(self) -> float:
        """Norm of a row with its constant, rounded up."""
        return math.nextafter(math.hypot(self.row_norm, np.float32(self.intercept)) * (1 + 1e-12), math.inf)

    @property
    def width(self) -> int:
        return len(self.scale) + (self.intercept != 0)

    @property
    def nonzeros(self) -> int:
        """No encoded row has more entries."""
        if self.max_nonzeros is None:
            return self.width
        return min(self.width, self.max_nonzeros + (self.intercept != 0))

    def encode(self, X: Any, targets: np.ndarray) -> Any:
        """Encoded records for the compiled library."""
        facts = (
            self.lower, self.upper, self.scale, self.centre, self.row_norm, self.intercept, self.whole, self.max_nonzeros
        )  # fmt: skip
        targets = np.ascontiguousarray(targets, dtype=np.float64)
        if sp.issparse(X):
            X = X.tocsr()
            single = X.data.dtype == np.float32
            data: Any = np.ascontiguousarray(X.data, dtype=np.float32 if single else np.float64)
            if X.indptr[-1] > np.iinfo(np.int32).max:
                raise ValueError("the sparse matrix has more than 2^31 stored values; fit on fewer rows")
            indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
            encode = _core.encode_sparse_f32 if single else _core.encode_sparse_f64
            return encode(data, np.ascontiguousarray(indices), np.ascontiguousarray(indptr), targets, *facts)
        X = np.asarray(X)
        if X.dtype == np.float32:
            return _core.encode_dense_f32(X, targets, *facts)
        return _core.encode_dense_f64(X.astype(np.float64, copy=False), targets, *facts)

    def decode(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (outputs × features) and intercepts in the units of X: post-processing."""
        d = len(self.scale)
        coef = weights[:, :d] * self.scale
        intercept = weights[:, d] * float(np.float32(self.intercept)) if self.intercept else np.zeros(len(weights))
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
    unlimited = np.full(n_features, np.inf)
    if bounds is None:
        norm = 1.0 if row_norm is None else float(row_norm)
        if row_norm is None and not quiet:
            warn(
                "no public bounds were given, so every row is clipped to l2 norm 1 in the units of X; nothing is read off the "
                "data. Give bounds=(lower, upper) with what is known about the features beforehand (numbers, or one per "
                "feature), or row_norm= with a length that few rows exceed"
            )
        note = f"Every row is clipped to norm {norm:g}; no bounds were declared."
        # divided by the norm, so that bounded rows have norm at most 1
        scale = np.full(n_features, 1.0 / norm)
        return Bounding(-unlimited, unlimited, scale, np.zeros(n_features), 1.0, intercept_scaling, note, max_nonzeros)
    lower, upper = (of_each(b, n_features, "bounds") for b in _pair(bounds))
    if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
        raise ValueError("bounds must be finite with lower < upper for every feature")
    root = math.sqrt(n_features)
    half: Any
    centre: Any
    if sparse:
        # centring would fill the zeros
        half, centre = np.maximum(np.abs(lower), np.abs(upper)), np.zeros(n_features)
    else:
        half, centre = (upper - lower) / 2, (upper + lower) / 2
    norm = 1.0 if row_norm is None else float(row_norm)
    if norm > 1:
        raise ValueError(f"row_norm is {norm:g}, but with bounds no row is longer than 1 after scaling; give at most 1")
    note = "Features are clipped to declared bounds and scaled so that no row is longer than 1"
    note += "." if norm == 1 else f"; rows are then clipped to norm {norm:g}."
    # divided by norm: a smaller row_norm gives the same relative noise to shorter rows
    return Bounding(lower, upper, 1.0 / (half * root * norm), centre, 1.0, intercept_scaling, note, max_nonzeros)


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
