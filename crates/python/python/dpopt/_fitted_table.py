"""The compiled model of a table, as an estimator holds it: its order of classes, its predictions, its file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import _core
from ._public_facts import Columns
from ._reading import attempt, distinct, kind, labels, of_values, same_length
from ._table_fit import matrix_of, target_apart
from ._tables import (
    at_bounds,
    cells,
    column,
    columns_of,
    has_all,
    is_table,
    names_by_position,
    numbers_of,
    one_column,
    source,
)
from .encoders import TableEncoder

#: How the text of a label becomes a value of the type of y.
_TO_VALUE: dict[str, Callable[[str], Any]] = {
    "i": int,
    "u": int,
    "f": float,
    "b": lambda text: {"false": False, "true": True}[text],
}

_WHOLE, _DECIMAL = re.compile(r"0|-?[1-9][0-9]*"), re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?")


def _kind_of(y: Any) -> str | None:
    """The kind of a target by the type of its column, which no record decides; None for a list, which has no type. Objects are texts, as in a file."""
    if is_table(y):
        y = column(y, 0)
    dtype = getattr(y, "dtype", getattr(y, "type", None))
    if dtype is None:
        return "" if y is None else None
    if str(dtype) == "category":
        dtype = dtype.categories.dtype
    if isinstance(dtype, np.dtype):
        return str(dtype.kind)
    name = str(dtype).lower().removeprefix("torch.")
    kinds = {"int": "i", "uint": "u", "float": "f", "double": "f", "half": "f", "bool": "b"}
    return next((kind for start, kind in kinds.items() if name.startswith(start)), "")


def _as_read(texts: Sequence[str]) -> list[Any]:
    """Labels of a list by what all of them read as: types of a list's entries are those of single records."""
    if all(_WHOLE.fullmatch(text) for text in texts):
        return [int(text) for text in texts]
    if all(_DECIMAL.fullmatch(text) for text in texts):
        return [float(text) for text in texts]
    return [text == "true" for text in texts] if set(texts) <= {"false", "true"} else list(texts)


@dataclass(frozen=True, repr=False)
class ClassOrder:
    """The classes of a model file, sorted as scikit-learn has them; the file keeps the order in which they were declared.

    Attributes
    ----------
    classes
        Sorted.
    places
        Where each of them stands in the file.
    sign
        Of scores for two classes: −1 where the file has them the other way round.
    """

    classes: np.ndarray
    places: np.ndarray
    sign: float

    @classmethod
    def of(cls, found: Sequence[Any]) -> ClassOrder:
        """Of classes in the file's order."""
        in_order = attempt(lambda: sorted(range(len(found)), key=lambda i: found[i]))
        order = list(range(len(found))) if in_order is None else in_order
        sign = 1.0 if len(found) > 2 or order == [0, 1] else -1.0
        return cls(of_values([found[i] for i in order]), np.array(order, dtype=np.int64), sign)

    @classmethod
    def of_texts(cls, texts: list[str], given: Any, y: Any) -> ClassOrder:
        """Of the labels in a model file: as they were declared (`given`), or of the type of y."""
        declared = given is not None and not isinstance(given, str)
        if declared or (given is not None and y is not None):
            values = labels(given, "classes").tolist() if declared else distinct(labels(y))[0].tolist()
            by_place = dict(zip(_core.Table.codes(values, texts).tolist(), values))
            if set(by_place) == set(range(len(texts))):
                return cls.of([by_place[i] for i in range(len(texts))])
        kind = _kind_of(y)
        if kind is None:
            return cls.of(_as_read(texts))
        convert = _TO_VALUE.get(kind)
        found = None if convert is None else attempt(lambda: [convert(text.lower()) for text in texts])
        return cls.of(list(texts) if found is None else found)


@dataclass(frozen=True, repr=False)
class FittedTable:
    """A model of a table with named columns.

    Attributes
    ----------
    model
        The compiled library's.
    order
        Of its classes; None where a number is predicted.
    report
        Of the fit, as HTML; None for a model that was loaded.
    positions
        The names that stand for the columns of a matrix, where that is what was fitted.
    target_clip
        Where the target is clipped, if a moment of it says so, as JSON.
    """

    model: _core.TableModel
    order: ClassOrder | None = None
    report: str | None = None
    positions: list[str] | None = None
    target_clip: str | None = None

    @property
    def _classes(self) -> ClassOrder:
        """The order of classes, of a model that has some."""
        assert self.order is not None
        return self.order

    @property
    def form(self) -> dict[str, Any]:
        """The form of an embedding model, as its file has it."""
        text = self.model.embedding()
        assert text is not None
        found: dict[str, Any] = json.loads(text)
        return found

    def in_units(self, weights: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients, intercepts and standard deviations, of released weights (outputs × encoded features): classes as they are sorted, numbers in
        the units of y, counts as their logarithms."""
        if self.order is None:
            lower, upper = self.model.range
            loss = json.loads(self.model.loss())
            if loss["name"] == "poisson":
                # scores are logarithms of counts over the usual one
                return weights, np.array([math.log(upper / loss["top"])]), noise
            half = (upper - lower) / 2
            return weights * half, np.array([(lower + upper) / 2]), noise * half
        if len(self.order.classes) == 2:
            coef, spread = self.order.sign * weights, noise
        else:
            coef, spread = weights[self.order.places], noise[self.order.places]
        return coef, np.zeros(len(coef)), spread

    # --- predictions --------------------------------------------------------------------------------------------

    def _read(self, estimator: Any, X: Any) -> _core.Table:
        """The table to predict for; also a matrix, where that is what was fitted."""
        if self.positions is not None and not has_all(X, self.positions):
            X = numbers_of(matrix_of(estimator, X, reset=False), self.positions)
        columns = columns_of(X, self.model.columns)
        return _core.Table.to_read(source(X), columns if self.positions is None else at_bounds(columns))

    def scores(self, estimator: Any, X: Any) -> np.ndarray:
        """One score per row for two classes, one per row and class for more."""
        scores = self.model.scores(self._read(estimator, X), estimator.bad_cells)
        return (
            self._classes.sign * scores.ravel() if len(self._classes.classes) == 2 else scores[:, self._classes.places]
        )

    def probabilities(self, estimator: Any, X: Any) -> np.ndarray:
        """Probability of each class, for each row."""
        return self.model.predict(self._read(estimator, X), estimator.bad_cells)[:, self._classes.places]

    def numbers(self, estimator: Any, X: Any) -> np.ndarray:
        """The predicted number of each row."""
        return self.model.predict(self._read(estimator, X), estimator.bad_cells).ravel()

    def places(self, estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The place of each record's label, −1 where it is none of the model's, and of the one that is predicted."""
        X, y = target_apart(X, y)
        place = _core.Table.codes(cells(one_column(y)), self.model.labels)
        guess = self._classes.places[self.probabilities(estimator, X).argmax(axis=1)]
        same_length(guess, place)
        return place, guess

    def hits(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Whether the class of each record is predicted; a record without a label of the model's is no hit."""
        place, guess = self.places(estimator, X, y)
        return place == guess

    def encoder(self, estimator: Any) -> TableEncoder:
        """The encoder, whose columns are those of ``coef_``."""
        vectors = self.model.vectors_path
        encoder = TableEncoder(bad_cells=estimator.bad_cells, columns=Columns(public_vectors=vectors))
        encoder._encoder = _core.ColumnEncoder.from_json(
            json.dumps(json.loads(self.model.to_json())["encoder"]), vectors
        )
        encoder.n_features_in_ = len(self.model.columns)
        if self.positions is None:
            encoder.feature_names_in_ = np.array(self.model.columns, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            # as they were given; those of the model are without space around them, or by position
            encoder.feature_names_in_ = estimator.feature_names_in_
        encoder._positions = self.positions
        return encoder

    # --- files --------------------------------------------------------------------------------------------------

    def found_by(self, session: _core.Session, score: dict[str, Any]) -> FittedTable:
        """The model whose file and report promise what the search cost that released its `score`."""
        model, report = self.model.found_by(session, json.dumps(score))
        return replace(self, model=model, report=report)

    def report_to(self, path: Any, named: bool) -> str:
        """The report, written to `path` if given; `named`: whether names were given for data and target."""
        if self.report is None:
            raise ValueError(
                "this model was loaded from a file and has no report; write the report when the model is fitted"
            )
        if named:
            raise ValueError(
                "source and target have no effect, since the report of encoded columns names both itself (a matrix, y); leave them out, or fit a matrix with encoding=None"
            )
        if path is not None:
            Path(path).write_text(self.report, encoding="utf-8")
        return self.report


def loaded(model: _core.TableModel, classes: ClassOrder | None) -> FittedTable:
    """A model out of a file."""
    named_by_position = model.columns == names_by_position(None, len(model.columns))
    # of a matrix, or of a table whose columns are called as a matrix's are
    return FittedTable(model, classes, positions=model.columns if named_by_position else None)


def path_of(path: Any) -> Path:
    """The path of a model file."""
    found = attempt(lambda: Path(path))
    if found is None:
        raise TypeError(f"path is {kind(path)}; give the path of a file")
    return found


__all__ = ["ClassOrder", "FittedTable", "loaded", "path_of"]
