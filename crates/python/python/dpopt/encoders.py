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

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from . import _core
from ._public_facts import Columns, declared_columns
from ._reading import (
    as_table,
    attempt,
    cells,
    check_names,
    hashable,
    kind,
    listed_cells,
    positive,
    shown,
    validated,
    whole,
)
from ._rows import _pair, of_each
from ._settings import with_known_keywords
from ._tables import (
    at_bounds,
    column,
    columns_of,
    declarations,
    has_all,
    is_table,
    names_of,
    names_told,
    numbers_of,
    source,
    without_rows,
)
from ._warnings import warn


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Clips features to a public range and maps it to [-1, 1].

    Parameters
    ----------
    bounds : tuple
        ``(lower, upper)``: two numbers, or two arrays with one number per feature. What you know about the features without looking at the records.
    """

    def __init__(self, bounds=(-1.0, 1.0)):
        self.bounds = bounds

    def fit(self, X: Any, y: Any = None) -> PublicScaler:
        """Checks the bounds against the number of columns; reads no value into the fitted state."""
        X = validated(self, X, reset=True, sparse=False)
        lower, upper = (of_each(b, X.shape[1], "bounds") for b in _pair(self.bounds))
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError("bounds must be finite with lower < upper for every feature")
        self.lower_, self.upper_ = lower, upper
        return self

    def transform(self, X: Any) -> np.ndarray:
        """2·(clip(X) − lower)/(upper − lower) − 1; what is missing stays missing."""
        check_is_fitted(self)
        X = validated(self, X, reset=False, sparse=False)
        lower, upper = self.lower_.astype(X.dtype), self.upper_.astype(X.dtype)
        return 2 * (np.clip(X, lower, upper) - lower) / (upper - lower) - 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = True
        return tags


#: Columns of a table that `set_output` asks for.
_MOST_COLUMNS = 10_000


def _as_asked(encoder: Any, rows: sp.csr_matrix) -> Any:
    """Sparse rows, or dense ones where `set_output` asks for a table, which has no sparse columns."""
    if _get_output_config("transform", encoder)["dense"] == "default":
        return rows
    if rows.shape[1] > _MOST_COLUMNS:
        raise ValueError(
            f"set_output asks for a table of {rows.shape[1]} columns, most of them empty; tables have at most {_MOST_COLUMNS} here: use "
            'set_output(transform="default")'
        )
    return rows.toarray()


class _CellEncoder(TransformerMixin, BaseEstimator):
    """Encoders of cells of any type, one public column block per input column."""

    def _cells(self, X: Any, reset: bool) -> np.ndarray:
        X = as_table(X)
        if sp.issparse(X):
            raise TypeError("X is a sparse matrix, and sparse data are not read here; give a dense array (.toarray())")
        if getattr(getattr(X, "dtype", None), "kind", "") == "c":
            raise ValueError("Complex data not supported; give the real and imaginary parts as two columns")
        if isinstance(X, (list, tuple)):
            X = listed_cells(X, "X")
        elif not hasattr(X, "shape"):
            X = cells(X, "X")
        if getattr(self, "text", False) and X.ndim == 1:
            # a list of documents is one column
            X = np.asarray(X, dtype=object)[:, None]
        if X.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {X.ndim}D array instead: X must be rows × columns. Reshape your data, for example with "
                "array.reshape(-1, 1) if it has a single column"
            )
        if not reset:
            check_names(self, X, "X")
        return validate_data(self, X, dtype=object, ensure_all_finite=False, reset=reset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


class PublicOneHot(_CellEncoder):
    """One column per declared category; a value that was not declared gives a block of zeros, never an error.

    Parameters
    ----------
    categories : list
        One list of public categories per column of X; or one list of values, for all columns.
    """

    def __init__(self, categories=(0, 1)):
        self.categories = categories

    def _listed(self, columns: int) -> list[list[Any]]:
        given = list(self.categories)
        nested = [not isinstance(c, str) and np.ndim(c) == 1 for c in given]
        if any(nested) and not all(nested):
            raise ValueError("categories must be one list of values per column, or one list of values for all columns")
        listed = [list(c) for c in given] if any(nested) else [given] * columns
        if len(listed) != columns:
            raise ValueError(f"X has {columns} columns but categories lists {len(listed)}; give one list per column")
        for values in listed:
            if len(set(values)) != len(values):
                raise ValueError("a category is listed twice")
        return listed

    def output_columns(self, columns: int) -> int:
        """Number of output columns for `columns` input columns: public."""
        return sum(len(values) for values in self._listed(whole(columns, "columns")))

    def fit(self, X: Any, y: Any = None) -> PublicOneHot:
        """Checks the number of columns; reads no value."""
        self._cells(X, reset=True)
        self.categories_ = self._listed(self.n_features_in_)
        return self

    def transform(self, X: Any) -> Any:
        """A CSR matrix with one column per declared category."""
        check_is_fitted(self)
        cells = self._cells(X, reset=False)
        rows, places, start = [], [], 0
        for listed, given in zip(self.categories_, cells.T):
            codes = {category: i for i, category in enumerate(listed)}
            at = np.array([codes.get(value, -1) if hashable(value) else -1 for value in given], dtype=np.int64)
            known = np.flatnonzero(at >= 0)
            rows.append(known)
            places.append(at[known] + start)
            start += len(codes)
        row, place = np.concatenate(rows), np.concatenate(places)
        return _as_asked(self, sp.csr_matrix((np.ones(len(row)), (row, place)), shape=(len(cells), start)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``column=category`` for every output column."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array([f"{n}={c}" for n, listed in zip(names, self.categories_) for c in listed], dtype=object)


class HashingEncoder(_CellEncoder):
    """Hashes ``column=value`` into a fixed number of columns: for categories and words that cannot be listed beforehand.

    The hash is fixed and public, so no vocabulary is learned from the records.

    Parameters
    ----------
    n_features : int
        Number of output columns; a power of two.
    text : bool
        Split every cell into lower-case words (True; a plain list of documents will do) or take it whole (False).

    Examples
    --------
    >>> HashingEncoder(n_features=16).fit_transform(np.array([["a"], ["b"], ["a"]], dtype=object)).shape
    (3, 16)
    >>> int(HashingEncoder(n_features=64, text=True).fit_transform(["a fine day", "a bad day"]).sum())
    6
    """

    def __init__(self, n_features=2**12, text=False):
        self.n_features = n_features
        self.text = text

    def fit(self, X: Any, y: Any = None) -> HashingEncoder:
        """Checks the parameters; reads no value."""
        if not (isinstance(self.n_features, (int, np.integer)) and self.n_features >= 1):
            raise ValueError(f"n_features is {shown(self.n_features)}; give a whole number, at least 1")
        self._cells(X, reset=True)
        return self

    def output_columns(self, columns: int) -> int:
        """Number of output columns: public."""
        return int(self.n_features)

    def transform(self, X: Any) -> Any:
        """A CSR matrix of counts with n_features columns."""
        from sklearn.feature_extraction import FeatureHasher

        check_is_fitted(self, "n_features_in_")
        cells = self._cells(X, reset=False)

        def tokens(row: np.ndarray) -> Iterator[str]:
            for j, value in enumerate(row):
                if self.text:
                    for word in str(value).lower().split():
                        yield f"{j}={word}"
                else:
                    yield f"{j}={value}"

        hasher = FeatureHasher(self.n_features, input_type="string", alternate_sign=False)
        return _as_asked(self, sp.csr_matrix(hasher.transform(list(tokens(row)) for row in cells)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: ``hash0``, ``hash1``, …"""
        check_is_fitted(self, "n_features_in_")
        return np.array([f"hash{i}" for i in range(self.n_features)], dtype=object)


@with_known_keywords
class TableEncoder(TransformerMixin, BaseEstimator):
    """The command line's encoder: columns of a table declared by name become rows of l2 norm at most 1.

    Numbers become a linear term and linear B-splines over their public range, categories one column per level, texts hashed words. Fitting looks at
    names (and at the dtypes of columns that nothing declares), never at a value; each row is encoded by itself.

    Parameters
    ----------
    bounds : dict or path, optional
        Public ranges, ``{"age": (17, 90)}``; or the path of a bounds file.
    columns : Columns, optional
        What else is declared by name: ``dpopt.Columns(levels={"sex": ["f", "m"]}, text=["note"])``.
    encoding : dict, optional
        Constants of the encoder as under ``[dpopt]`` in a bounds file, for example ``{"knots": 12}``.
    target : str, optional
        Name of a column that a bounds file declares and X does not have.
    bad_cells : {"missing", "error"}
        A cell that cannot be read is missing, or an error that tells column and row.

    Examples
    --------
    >>> import dpopt, pandas
    >>> table = pandas.DataFrame({"age": [20, None], "sex": ["f", "x"]})
    >>> encoder = TableEncoder(bounds={"age": (18, 80)}, columns=dpopt.Columns(levels={"sex": ["f", "m"]})).fit(table)
    >>> encoder.transform(table).shape, encoder.get_feature_names_out()[-4:].tolist()
    ((2, 16), ['sex=f', 'sex=m', 'sex=(other)', 'sex=(missing)'])
    """

    #: Names that stand for the columns of a matrix, where the model that has this encoder was fitted to one.
    _positions: list[str] | None = None

    def __init__(
        self,
        bounds: Any = None,
        columns: Columns | None = None,
        encoding: Mapping[str, Any] | None = None,
        target: str | None = None,
        bad_cells: Literal["missing", "error"] = "missing",
    ) -> None:
        self.bounds = bounds
        self.columns = columns
        self.encoding = encoding
        self.target = target
        self.bad_cells = bad_cells

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Holds the declarations against the names of the columns; reads no value."""
        if not isinstance(self.bad_cells, str) or self.bad_cells not in ("missing", "error"):
            raise ValueError(f'bad_cells is {shown(self.bad_cells)}; give "missing" or "error"')
        names = names_of(X)
        if declared_columns(self).numeric is not None:
            raise ValueError(
                "numeric columns have no bounds, and a TableEncoder cannot find them, since it reads no records; declare their bounds, or leave the columns out"
            )
        declared = declarations(self)
        if self.target is not None:
            if not isinstance(self.target, str) or self.target in names:
                raise ValueError("target must be the name of a column that X does not have")
            declared = declared.without(self.target)
        self._encoder = _core.ColumnEncoder(
            _core.Table(source(X), columns_of(without_rows(X)), declared), declared
        )  # fmt: skip
        known = set(declared.names())
        undeclared = [name for name in names if name.strip() not in known]
        if undeclared:
            warn(
                f"nothing declares the columns {names_told(undeclared, names, self)}: they are encoded as their dtypes say"
            )
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        return self

    def transform(self, X: Any) -> Any:
        """A CSR matrix of float32 with one column per encoded feature, the intercept first."""
        check_is_fitted(self)
        if self._positions is not None and not has_all(X, self._positions):
            # that of a model of a matrix
            X = numbers_of(validated(self, X, reset=False, sparse=False), self._positions)
        columns = columns_of(X, self._encoder.columns)
        if self._positions is not None:
            columns = at_bounds(columns)
        table = _core.Table.to_read(source(X), columns)
        values, places, offsets, width = self._encoder.encode(table, self.bad_cells)
        return _as_asked(self, sp.csr_matrix((values, places, offsets), shape=(len(offsets) - 1, width)))

    def output_columns(self, columns: int) -> int:
        """Number of output columns: public, and known after fit."""
        check_is_fitted(self)
        return len(self._encoder.feature_names())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``age@53.5``, ``sex=f``, …: as in reports."""
        check_is_fitted(self)
        return np.array(self._encoder.feature_names(), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags


class TextEncoder(TransformerMixin, BaseEstimator):
    """Texts as the vectors that a function of one text gives: a sentence-embedding model, say, that was trained on public text.

    The function is called once for every record, with its text and nothing else, so no record can change another's vector as long as the
    function keeps nothing between calls; that, and that its weights are public, cannot be checked and is yours to promise. Vectors are
    clipped to `norm`. What is not a finite vector of the dimension that the empty text has becomes a vector of zeros, and so does a record of
    which the function fails (``bad_cells="error"`` tells its row, never its text).

    Parameters
    ----------
    encoder : callable
        str → one-dimensional array.
    public_texts : list of str, optional
        Texts that are not sensitive. The mean of their vectors is subtracted from all, so that the norm is not spent on what all texts have in common; a
        few dozen sentences will do.
    norm : float
        l2 norm that no vector exceeds.
    bad_cells : {"missing", "error"}
        What a record without a vector is.

    Examples
    --------
    >>> import numpy as np
    >>> def lengths(text): return np.array([len(word) for word in (text.split() + ["", ""])[:2]], dtype=float)
    >>> TextEncoder(lengths).fit_transform(["a fine day", "no"]).round(2).tolist()
    [[0.24, 0.97], [1.0, 0.0]]
    """

    def __init__(self, encoder=None, public_texts=None, norm=1.0, bad_cells="missing"):
        self.encoder = encoder
        self.public_texts = public_texts
        self.norm = norm
        self.bad_cells = bad_cells

    def _vector(self, text: str) -> np.ndarray | None:
        """The function's vector of one text; its messages may quote the text, and go no further."""
        found = attempt(lambda: np.asarray(self.encoder(text), dtype=np.float64))
        return found if found is not None and found.ndim == 1 and np.isfinite(found).all() else None

    def fit(self, X: Any, y: Any = None) -> TextEncoder:
        """Asks the function for the empty text's vector, whose dimension is public, and for those of `public_texts`; reads no record."""
        if not callable(self.encoder):
            raise TypeError(f"encoder is {kind(self.encoder)}; give a callable that takes one text")
        if not isinstance(self.bad_cells, str) or self.bad_cells not in ("missing", "error"):
            raise ValueError(f'bad_cells is {shown(self.bad_cells)}; give "missing" or "error"')
        self._norm = positive(self.norm, "norm")
        empty = self._vector("")
        if empty is None or len(empty) == 0:
            raise ValueError(
                'encoder("") must give a one-dimensional array of finite numbers: its length is the public dimension'
            )
        self.n_features_out_ = len(empty)
        self.center_ = np.zeros(len(empty))
        if self.public_texts is not None:
            if isinstance(self.public_texts, str) or not all(isinstance(text, str) for text in self.public_texts):
                raise TypeError("public_texts must be a list of texts that are not sensitive")
            vectors = [self._vector(text) for text in self.public_texts]
            known = [vector for vector in vectors if vector is not None and vector.shape == empty.shape]
            if not known or len(known) < len(vectors):
                raise ValueError("encoder must give a vector of the same dimension for every one of public_texts")
            self.center_ = np.mean(known, axis=0)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """One row per text: an array of n × the encoder's dimension."""
        check_is_fitted(self, "center_")
        found = np.zeros((len(texts := _one_text_column(X)), self.n_features_out_))
        for row, text in enumerate(texts):
            vector = self._vector(text) if isinstance(text, str) else None
            if vector is None or vector.shape != self.center_.shape:
                if self.bad_cells == "error":
                    raise ValueError(f"row {row + 1} has no text, or encoder gives no vector for it")
                continue
            vector = vector - self.center_
            length = np.linalg.norm(vector)
            if np.isfinite(length):
                found[row] = vector * min(1.0, self._norm / length) if length > 0 else 0.0
        return found

    def output_columns(self, columns: int) -> int:
        """Number of output columns: public, and known after fit."""
        check_is_fitted(self, "center_")
        return self.n_features_out_

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: ``vector0``, ``vector1``, …"""
        check_is_fitted(self, "center_")
        return np.array([f"vector{i}" for i in range(self.n_features_out_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags


def _one_text_column(X: Any) -> list[Any]:
    """Texts of a list, a column, or a table with one column; what is no text stays what it is."""
    if is_table(X):
        if X.shape[1] != 1:
            raise ValueError(f"TextEncoder takes one column of texts, and X has {X.shape[1]} columns; select one")
        X = column(X, 0)
    if isinstance(X, (str, bytes)) or not hasattr(X, "__len__"):
        raise TypeError(f"X is {kind(X)}; give a list of texts, or a column of them")
    values = np.empty(len(X), dtype=object)
    found = attempt(lambda: list(X.to_pylist() if hasattr(X, "to_pylist") else X))
    if found is None:
        raise TypeError(f"X is {kind(X)} and could not be read as a list of texts")
    values[:] = found
    if values.ndim == 1 and len(values) and isinstance(values[0], np.ndarray) and values[0].shape == (1,):
        return [value[0] for value in values]
    return [str(value) if isinstance(value, np.str_) else value for value in values]


__all__ = ["HashingEncoder", "PublicOneHot", "PublicScaler", "TableEncoder", "TextEncoder"]
