"""Encoders that need only public facts: fitting them reads nothing but the number of columns.

>>> import numpy as np
>>> from dpopt.encoders import PublicScaler, PublicOneHot
>>> PublicScaler(bounds=(0, 10)).fit_transform(np.array([[0.0, 5.0], [20.0, 10.0]]))
array([[-1.,  0.],
       [ 1.,  1.]])
>>> PublicOneHot(categories=[["red", "green"]]).fit_transform(np.array([["green"], ["blue"]], dtype=object)).toarray()
array([[0., 1.],
       [0., 0.]])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ._rows import _pair, as_table


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Clips features to a public range and maps it to [-1, 1].

    Args:
        bounds: ``(lower, upper)``: two numbers, or two arrays with one number per feature. What you know about the
            features without looking at the records.
    """

    def __init__(self, bounds=(-1.0, 1.0)):
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> "PublicScaler":
        """Checks the bounds against the number of columns; reads no value into the fitted state."""
        X = validate_data(self, as_table(X), dtype=[np.float64, np.float32])
        lower, upper = (np.broadcast_to(np.asarray(b, dtype=np.float64), (X.shape[1],)) for b in _pair(self.bounds))
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError("bounds must be finite with lower < upper for every feature")
        self.lower_, self.upper_ = lower.copy(), upper.copy()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """2·(clip(X) − lower)/(upper − lower) − 1."""
        check_is_fitted(self)
        X = validate_data(self, as_table(X), dtype=[np.float64, np.float32], reset=False)
        lower, upper = self.lower_.astype(X.dtype), self.upper_.astype(X.dtype)
        return 2 * (np.clip(X, lower, upper) - lower) / (upper - lower) - 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PublicOneHot(TransformerMixin, BaseEstimator):
    """One column per declared category; a value that was not declared gives a block of zeros, never an error.

    Args:
        categories: one list of public categories per column of X.
    """

    def __init__(self, categories=()):
        self.categories = categories

    def fit(self, X: Any, y: Any = None) -> "PublicOneHot":
        """Checks the number of columns; reads no value."""
        columns = _object_columns(X)
        if len(columns) != len(self.categories):
            raise ValueError(f"X has {len(columns)} columns but categories lists {len(self.categories)}; give one list per column")
        for listed in self.categories:
            if len(set(listed)) != len(listed):
                raise ValueError("a category is listed twice")
        self.n_features_in_ = len(columns)
        self._codes = [{c: i for i, c in enumerate(listed)} for listed in self.categories]
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """A CSR matrix with one column per declared category."""
        check_is_fitted(self)
        columns = _object_columns(X)
        if len(columns) != self.n_features_in_:
            raise ValueError(f"X has {len(columns)} columns, but PublicOneHot was fitted with {self.n_features_in_}")
        rows, places, start = [], [], 0
        for codes, column in zip(self._codes, columns):
            at = np.array([codes.get(value, -1) for value in column], dtype=np.int64)
            known = np.flatnonzero(at >= 0)
            rows.append(known)
            places.append(at[known] + start)
            start += len(codes)
        row, place = np.concatenate(rows or [[]]), np.concatenate(places or [[]])
        n = len(columns[0]) if columns else 0
        return sp.csr_matrix((np.ones(len(row)), (row, place)), shape=(n, start))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``column=category`` for every output column."""
        check_is_fitted(self)
        names = input_features if input_features is not None else [f"x{i}" for i in range(self.n_features_in_)]
        return np.array([f"{n}={c}" for n, listed in zip(names, self.categories) for c in listed], dtype=object)


class HashingEncoder(TransformerMixin, BaseEstimator):
    """Hashes ``column=value`` into a fixed number of columns: for categories and words that nobody can list beforehand.

    The hash is fixed and public, so no vocabulary is learned from the records.

    Args:
        n_features: number of output columns; a power of two.
        text: split every cell into lower-case words (True) or take it whole (False).

    >>> HashingEncoder(n_features=16).fit_transform(np.array([["a"], ["b"], ["a"]], dtype=object)).shape
    (3, 16)
    """

    def __init__(self, n_features=2**12, text=False):
        self.n_features = n_features
        self.text = text

    def fit(self, X: Any, y: Any = None) -> "HashingEncoder":
        """Checks the parameters; reads no value."""
        if self.n_features < 1:
            raise ValueError("n_features must be at least 1")
        self.n_features_in_ = len(_object_columns(X))
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """A CSR matrix of counts with n_features columns."""
        from sklearn.feature_extraction import FeatureHasher

        check_is_fitted(self, "n_features_in_")
        columns = _object_columns(X)
        if len(columns) != self.n_features_in_:
            raise ValueError(f"X has {len(columns)} columns, but HashingEncoder was fitted with {self.n_features_in_}")

        def tokens(row: tuple[Any, ...]) -> Any:
            for j, value in enumerate(row):
                if self.text:
                    for word in str(value).lower().split():
                        yield f"{j}={word}"
                else:
                    yield f"{j}={value}"

        hasher = FeatureHasher(self.n_features, input_type="string", alternate_sign=False)
        return hasher.transform(list(tokens(row)) for row in zip(*columns))


def _object_columns(X: Any) -> list[np.ndarray]:
    X = as_table(X)
    if hasattr(X, "iloc"):
        if X.ndim == 1:
            return [X.to_numpy(dtype=object)]
        return [X.iloc[:, j].to_numpy(dtype=object) for j in range(X.shape[1])]
    X = np.asarray(X, dtype=object)
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2:
        raise ValueError("X must have rows and columns")
    return [X[:, j] for j in range(X.shape[1])]


__all__ = ["HashingEncoder", "PublicOneHot", "PublicScaler"]
