"""Fits to tables with named columns: the command line's road (encoder, ledger, private labels and bounds, report, model file)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._base import shape_of
from ._plan import Plan, Privacy
from ._reading import attempt, distinct, kind, labels, number, required, same_length, shown, validated
from ._tables import (
    NumberTable,
    by_name,
    by_position,
    cells,
    columns_of,
    declarations,
    declared_for,
    declared_in,
    is_table,
    names_by_position,
    names_of,
    names_told,
    numbers_of,
    one_column,
    own_name,
    rows_at,
    source,
    target_name,
    without_rows,
)
from ._units import Given, owned
from ._warnings import warn
from .parts import Counted, Encoded, Parts, owner_of

#: What files and tables write where a value is missing.
_MISSING = ("", "?", "NA", "N/A", "null", "NULL")
_TO_VALUE: dict[str, Any] = {"i": int, "u": int, "f": float, "b": lambda text: {"false": False, "true": True}[text]}


class TableRoad:
    """Fits, predictions and model files of estimators whose columns are declared by name."""

    #: The compiled model of a fit to a table.
    _table: Any = None
    #: Where the target is clipped, if a moment of it says so.
    _target_clip: str | None = None
    #: The names that stand for the columns of a matrix, where that is what was fitted.
    _positions: list[str] | None = None

    # --- what each kind of estimator says -----------------------------------------------------------------------

    def _table_loss(self) -> dict[str, Any] | None:
        """The loss of one score, None for the command line's: logistic (softmax), or squared."""
        raise NotImplementedError

    def _table_embedding(self, names: Sequence[str]) -> dict[str, Any] | None:
        """The form of an embedding model; None for a linear one."""
        return None

    def _table_options(self) -> dict[str, Any]:
        """The method and what is said of its options, for encoded rows."""
        return self._options(None)  # type: ignore[attr-defined]

    def _moment(self) -> str | None:
        """What is known of the tails of a number that is predicted, as the command line writes it."""
        return None

    def _target_facts(self, y: Any) -> tuple[bool, dict[str, Any]]:
        """Whether a number is predicted, and what is declared of it."""
        raise NotImplementedError

    def _learned(self, y: Any) -> None:
        """What is known of the target, as attributes."""
        raise NotImplementedError

    def _weighed(self, weights: np.ndarray, noise: np.ndarray) -> None:
        """Released weights of a linear model (outputs × encoded features) as attributes."""
        raise NotImplementedError

    # --- fit ----------------------------------------------------------------------------------------------------

    def _by_name(self) -> bool:
        return by_name(self)

    def _by_columns(self) -> bool:
        return self._table is not None

    def _framed(self, X: Any, reset: bool) -> Any:
        """The table to read: a matrix whose columns are declared by position becomes one of numbers."""
        if not (by_position(self) if reset else self._positions is not None and not _has_all(X, self._positions)):
            return X
        if sp.issparse(X):
            raise TypeError(
                "X is a sparse matrix, and encoding makes every column a line and hats, which fills its zeros; give a dense array "
                "(.toarray()), or leave encoding out: bounds alone keep zeros"
            )
        values = validated(self, X, reset=reset, sparse=False)
        if reset:
            named = getattr(self, "feature_names_in_", None)
            self._positions = (
                names_by_position(X, values.shape[1]) if named is not None else names_by_position(None, values.shape[1])
            )
        return numbers_of(values, self._positions)  # type: ignore[arg-type]

    def _names_alone(self, X: Any) -> Any:
        """The table without its rows: names and types of its columns."""
        if not by_position(self):
            names_of(X)
            return without_rows(X)
        if sp.issparse(X):
            return self._framed(X, reset=True)
        columns = shape_of(X, None, None)[1]
        return NumberTable(np.empty((0, columns)), names_by_position(X, columns))

    def _checked_table(self) -> None:
        how = "the columns are encoded" if by_position(self) else "columns are declared by name"
        for parameter, default, why in (
            ("max_nonzeros", None, "the encoder's own bound on non-zeros holds"),
            ("fit_intercept", True, "the encoder has an intercept"),
            ("intercept_scaling", 0.5, "the encoder's intercept has the size of one column"),
            (
                "accountant",
                "auto",
                "a model file holds the tightest bound; `dpopt verify` and accounting.compare give others",
            ),
        ):
            given = getattr(self, parameter)
            if isinstance(given, np.ndarray) or given != default:
                raise ValueError(f"{parameter} is {shown(given)}, and {how}: {why}; leave it out")

    def _table_fit(
        self,
        X: Any,
        y: Any,
        own: str | None,
        rows: int | None,
        relation: str,
        charge: Any,
        seed: int | None,
        given: Given | None = None,
        units: dict[str, Any] | None = None,
        elsewhere: bool = False,
    ) -> Any:
        """The compiled fit: checked against everything public, nothing read. Of `given`, whose rows they are, `units` are public facts. `elsewhere`: the
        table's rows are in parts, and X has none."""
        names = names_of(X)
        regression, facts = self._target_facts(y)
        beside = declarations(declared_for(self, names)).names() if given is not None else []
        columns = [] if given is None else given.columns_beside([*names, own or "y", *beside])
        whose = [column for column, _ in columns]
        name = target_name(self, own, [*names, *whose], regression)
        loss = self._table_loss()
        declared = declarations(declared_for(self, names), (name, facts))
        if declared.kind(name) == ("levels" if regression else "numeric"):
            other = "levels; use a classifier" if regression else "numbers; use a regressor"
            raise ValueError(f"the target {shown(name)} is declared with {other}")
        if self.bad_cells not in ("missing", "error"):  # type: ignore[attr-defined]
            raise ValueError(f'bad_cells is {shown(self.bad_cells)}; give "missing" or "error"')  # type: ignore[attr-defined]
        # a plan needs no targets
        target = (np.full(X.shape[0], -1, dtype=np.int64), []) if y is None else cells(y)
        ids = [(column, ids if X.shape[0] else []) for column, ids in columns]
        table = _core.Table(source(X), [*columns_of(X), *ids, (name, target)], declared)
        share, budget = self.bounds_budget, self.budget  # type: ignore[attr-defined]
        request = {
            "target": name, "regression": regression, "relation": relation, "epsilon": float(self.epsilon),  # type: ignore[attr-defined]
            "delta": None if self.delta is None else float(self.delta),  # type: ignore[attr-defined]
            "options": {**self._table_options(), **({"elsewhere": True} if elsewhere else {})}, "rows": rows, "loss": loss, "embedding": self._table_embedding(names),
            "bounds_budget": None if share is None else number(share, "bounds_budget"),
            "target_moment": self._moment(), "bad_cells": self.bad_cells, "command": f"dpopt.{type(self).__name__}.fit",  # type: ignore[attr-defined]
            "declared_in": declared_in(self), "ledger": None if budget is None else repr(budget),
            "unit": None if given is None else ([column.strip() for column in whose], units),
        }  # fmt: skip
        return _core.TableFit(table, declared, json.dumps(request), charge, seed)

    def _plan_of(
        self, described: tuple[str, int, int], relation: str, rows: int, units: dict[str, Any] | None = None
    ) -> Plan:
        plan, features = json.loads(described[0]), described[2]
        return Plan(
            plan["method"], plan["candidates"], rows, features, plan["epsilon"], plan["delta"], relation, plan["models"],
            plan["refusal"], plan["encoders"], None if units is None else units["count"],
        )  # fmt: skip

    def _planned_table(
        self, X: Any, y: Any, rows: int, relation: str, given: Given | None = None, units: dict[str, Any] | None = None
    ) -> Any:
        """The compiled fit to so many rows of a table like `X`, of which names and types are looked at alone."""
        self._checked_table()
        X, y = _apart(X, y)
        target = None if y is None else rows_at(one_column(y), np.arange(0))
        return self._table_fit(self._names_alone(X), target, own_name(y), rows, relation, None, None, given, units)

    def _explain_table(self, X: Any, y: Any, classes: int, n_features: Any, n_rows: Any, units: Any) -> Plan:
        """Plans from names, dtypes and the number of rows; ids of units are counted."""
        relation = self._check_common("record" if units is None else "user")  # type: ignore[attr-defined]
        X, given = self._without_ids(X, units, y)  # type: ignore[attr-defined]
        counted: int | None = None
        if X is None or isinstance(X, (int, float, np.number)):
            if not by_position(self):
                raise TypeError(
                    "columns are declared by name, so explain(X) takes the table, of which it looks at names, dtypes and the number of rows"
                )
            rows, columns, _ = shape_of(X, n_features, n_rows)
            X = NumberTable(np.empty((0, columns)), names_by_position(None, columns))
        else:
            if n_features is not None or n_rows is not None:
                shape_of(X, n_features, n_rows)
            table, y = _apart(X, y)
            counted = shape_of(table, None, None)[0] if by_position(self) else _rows_of(table)
            rows = self._public_rows(counted, relation)  # type: ignore[attr-defined]
            X = table
        public = None if given is None else self._planned_units(given, counted, relation)  # type: ignore[attr-defined]
        fit = self._planned_table(X, y, rows, relation, given, public)
        return self._plan_of(fit.plan(classes), relation, rows, public)

    def _fit_table(self, X: Any, y: Any, units: Any) -> None:
        relation = self._before_fit("record" if units is None else "user")  # type: ignore[attr-defined]
        self._checked_table()
        X, given = owned(X, units, y)
        X, y = _apart(X, required(y, self))
        self._positions = None
        own = own_name(y)
        y = self._targets(y) if by_position(self) else one_column(y)  # type: ignore[attr-defined]
        X = self._framed(X, reset=True)
        names = names_of(X)
        same_length(X, y)
        rows = self._public_rows(X.shape[0], relation)  # type: ignore[attr-defined]
        # under add-or-remove what was given stands in for the number of rows, which is protected
        said = rows if self.n_rows is not None else None  # type: ignore[attr-defined]
        _, public = self._owned(given, X.shape[0], relation)  # type: ignore[attr-defined]
        charge = self._charging(() if given is None else given.names)  # type: ignore[attr-defined]
        seed = self._insecure_seed()  # type: ignore[attr-defined]
        fit = self._table_fit(X, y, own, said, relation, charge, seed, given, public)
        if self._positions is None:
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        protected, unit = (rows, "record") if public is None else (public["count"], "unit")
        self._warn_budget(protected, self._delta(protected), unit)  # type: ignore[attr-defined]
        self._warn_undeclared(fit, names)
        self._target_clip = fit.target_clip()
        model, described, releases, noise, html = fit.run()
        self._table, self._table_report = model, html
        self._settle(y, noise)
        self.plan_ = self._plan_of(described, relation, rows, public)
        self.noise_std_ = self.plan_.noise_std
        self.privacy_ = Privacy.of(model.guarantee(), releases)

    def _of_parts(self, parts: Parts) -> str:
        """Refuses parts that are no tables; how what is predicted is called."""
        if by_position(self):
            raise ValueError(
                "columns are declared by position, which is done with a matrix in one place; name them: bounds={'age': (18, 80)}"
            )
        if parts.like is None:
            raise TypeError(
                "columns are declared by name, and these parts have none; make them of a data frame, or give bounds=(lower, upper) for numbers"
            )
        if parts.units is not None:
            raise ValueError(
                "units of several rows are not fitted with columns by name in parts; encode the columns before, and give parts of numbers"
            )
        if not parts.targets:
            raise ValueError("these parts have no targets; make them with the column that is predicted")
        regression, _ = self._target_facts(None)
        return target_name(self, parts.target, names_of(parts.like), regression)

    def _explain_table_parts(self, parts: Parts, rows: int, relation: str, classes: int) -> Plan:
        """Plans from names, dtypes and the number of rows."""
        self._checked_table()
        self._of_parts(parts)
        fit = self._table_fit(parts.like, None, parts.target, rows, relation, None, None, elsewhere=True)
        return self._plan_of(fit.plan(classes), relation, rows)

    def _fit_table_parts(self, parts: Parts, y: Any, units: Any) -> None:
        """The fit of a table whose rows are elsewhere: counted, encoded where they are by public facts, asked for sums."""
        owner_of(parts, units)
        if y is not None:
            raise ValueError("parts hold their targets; leave out y")
        relation = self._before_fit("record")  # type: ignore[attr-defined]
        self._checked_table()
        target, names = self._of_parts(parts), names_of(parts.like)
        self._positions = None
        if self.n_rows is None:  # type: ignore[attr-defined]
            with parts.loaded(Counted()) as known:
                rows = self._public_rows(known.rows, relation)  # type: ignore[attr-defined]
        else:
            rows = self._public_rows(None, relation)  # type: ignore[attr-defined]
        charge, seed = self._charging(), self._insecure_seed()  # type: ignore[attr-defined]
        fit = self._table_fit(parts.like, None, parts.target, rows, relation, charge, seed, elsewhere=True)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        self._warn_budget(rows, self._delta(rows), "record")  # type: ignore[attr-defined]
        self._warn_undeclared(fit, names)
        self._target_clip = fit.target_clip()
        with parts.loaded(Encoded(fit.encoder(), target)) as known:
            model, described, releases, noise, html = fit.run_elsewhere(parts.ask, known.parts)
        self._table, self._table_report = model, html
        self._settle(None, noise)
        self.plan_ = self._plan_of(described, relation, rows)
        self.noise_std_ = self.plan_.noise_std
        self.privacy_ = Privacy.of(model.guarantee(), releases)

    def _warn_undeclared(self, fit: Any, names: list[str]) -> None:
        undeclared = fit.undeclared()
        if undeclared:
            warn(
                f"nothing declares the columns {names_told(undeclared, names, self)}: they are taken as categories and hashed, as "
                "their dtypes say; declare them with bounds, levels, text or hashed, or list them in ignore"
            )

    def _released_by(self, session: Any, privacy: Any, score: dict[str, Any]) -> None:
        super()._released_by(session, privacy, score)  # type: ignore[misc]
        if self._table is not None:
            # file and report promise what the search costs
            self._table, self._table_report = self._table.found_by(session, json.dumps(score))

    def _declared_range(self, y: Any, names: list[str]) -> tuple[float, float] | None:
        """The range that a bounds file declares for the target of a table with these columns."""
        declared = declarations(declared_for(self, names))
        found: tuple[float, float] | None = declared.range(target_name(self, own_name(y), names, True))
        return found

    def _settle(self, y: Any, noise: np.ndarray) -> None:
        """Attributes of a model: its own, and those of its target."""
        self.encoded_feature_names_ = np.array(self._table.feature_names(), dtype=object)
        self._fitted_loss = json.loads(self._table.loss())
        self._learned(y)
        weights = self._table.weights()
        if weights is None:
            self._embedded(json.loads(self._table.embedding()))  # type: ignore[attr-defined]
        else:
            self._weighed(weights, noise.reshape(weights.shape))

    def _table_of(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._framed(X, reset=False)
        return _core.Table.to_read(source(X), columns_of(X, self._table.columns))

    @property
    def encoder_(self) -> Any:
        """The encoder of a fit to a table: a fitted :class:`TableEncoder`, whose columns are those of ``coef_``."""
        from .encoders import TableEncoder

        if not self._by_columns():
            raise AttributeError("encoder_ is there after a fit to a table with columns declared by name")
        vectors = self._table.vectors_path
        encoder = TableEncoder(bad_cells=self.bad_cells, public_vectors=vectors)  # type: ignore[attr-defined]
        encoder._encoder = _core.ColumnEncoder.from_json(
            json.dumps(json.loads(self._table.to_json())["encoder"]), vectors
        )
        encoder.n_features_in_ = len(self._table.columns)
        if self._positions is None or hasattr(self, "feature_names_in_"):
            encoder.feature_names_in_ = np.array(self._table.columns, dtype=object)
        encoder._positions = self._positions
        return encoder

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Writes the model file of a fit to a table with named columns, whole or not at all: ``dpopt predict`` and ``dpopt verify``
        read it, and :func:`dpopt.load`."""
        check_is_fitted(self)
        if not self._by_columns():
            raise ValueError(
                "a model file holds an encoder, which a model of a matrix does not have; fit a table with columns declared by name, "
                "or use dpopt.export"
            )
        self._table.save(str(path_of(path)))

    def _report_of_table(self, path: Any, named: bool) -> str:
        html = getattr(self, "_table_report", None)
        if html is None:
            raise ValueError("this model was loaded, and its report was written when it was fitted")
        if named:
            raise ValueError("the report of a table names its target itself; leave out source and target")
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html


class ClassesOfTable(TableRoad):
    """Labels and predictions of classifiers of tables. Classes are sorted, as scikit-learn has them; the model file keeps the order in
    which they were declared."""

    def _table_loss(self) -> dict[str, Any] | None:
        loss = self._class_loss()  # type: ignore[attr-defined]
        one = None if loss == "logistic" else loss["one-against-rest"]
        return None if one == {"name": "logistic", "shift": 0.0} else one

    def _target_facts(self, y: Any) -> tuple[bool, dict[str, Any]]:
        given = self.classes  # type: ignore[attr-defined]
        if given is None:
            return False, {}
        if not isinstance(given, str):
            found = labels(given, "classes")
        elif given != "public":
            raise ValueError('classes must be a list of labels, "public" or None')
        elif y is None:
            raise ValueError('classes="public" are those that occur, and nothing is read here; give classes=[...]')
        else:
            found = self._declared(labels(y))[0]  # type: ignore[attr-defined]
        values = [v for v in found.tolist() if not (isinstance(given, str) and str(v).strip() in _MISSING)]
        if len(values) < 2:
            raise ValueError(
                f"classification needs at least two classes, but there is {len(values)} class; declare all"
            )
        return False, {"levels": values}

    def _learned(self, y: Any) -> None:
        texts = self._table.labels
        found = self._values(texts, y)
        in_order = attempt(lambda: sorted(range(len(found)), key=lambda i: found[i]))
        order = list(range(len(found))) if in_order is None else in_order
        #: Where each of the sorted classes stands in the model file.
        self._places = np.array(order, dtype=np.int64)
        values = np.empty(len(found), dtype=object)
        values[:] = [found[i] for i in order]
        plain = attempt(lambda: np.asarray(values.tolist()))
        same = plain is not None and plain.ndim == 1 and plain.tolist() == values.tolist()
        self.classes_ = plain if same else values
        self._sign = 1.0 if len(texts) > 2 or order == [0, 1] else -1.0

    def _weighed(self, weights: np.ndarray, noise: np.ndarray) -> None:
        if len(self.classes_) == 2:
            self.coef_, self.coef_noise_std_ = self._sign * weights, noise
        else:
            self.coef_, self.coef_noise_std_ = weights[self._places], noise[self._places]
        self.intercept_ = np.zeros(len(self.coef_))

    def _values(self, texts: list[str], y: Any) -> list[Any]:
        """The labels of the model file as they were declared, or of the type of y."""
        given = self.classes  # type: ignore[attr-defined]
        declared = given is not None and not isinstance(given, str)
        if declared or (given is not None and y is not None):
            values = labels(given, "classes").tolist() if declared else distinct(labels(y))[0].tolist()
            by_place = dict(zip(_core.Table.codes(values, texts).tolist(), values))
            if set(by_place) == set(range(len(texts))):
                return [by_place[i] for i in range(len(texts))]
        kind_of_y = "" if y is None else labels(y).dtype.kind
        convert = _TO_VALUE.get(kind_of_y)
        found = None if convert is None else attempt(lambda: [convert(text.lower()) for text in texts])
        return list(texts) if found is None else found

    def _table_scores(self, X: Any) -> np.ndarray:
        scores = self._table.scores(self._table_of(X), self.bad_cells)  # type: ignore[attr-defined]
        return self._sign * scores.ravel() if len(self.classes_) == 2 else scores[:, self._places]

    def _table_probabilities(self, X: Any) -> np.ndarray:
        return self._table.predict(self._table_of(X), self.bad_cells)[:, self._places]  # type: ignore[attr-defined]

    def _table_places(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The place of each record's label, −1 where it is none of the model's, and of the one that is predicted."""
        X, y = _apart(X, y)
        place = _core.Table.codes(cells(one_column(y)), self._table.labels)
        guess = self._places[self._table_probabilities(X).argmax(axis=1)]
        same_length(guess, place)
        return place, guess

    def _table_hits(self, X: Any, y: Any) -> np.ndarray:
        """Whether the class of each record is predicted; a record without a label of the model's is no hit."""
        place, guess = self._table_places(X, y)
        return place == guess


class NumbersOfTable(TableRoad):
    """Targets and predictions of regressors of tables."""

    def _table_loss(self) -> dict[str, Any] | None:
        loss = self._loss()  # type: ignore[attr-defined]
        return None if loss["name"] == "squared" else loss

    def _target_facts(self, y: Any) -> tuple[bool, dict[str, Any]]:
        declared = self._target_range()  # type: ignore[attr-defined]
        if declared is None:
            return True, {}
        lower, upper = declared
        return True, {"lower": lower, "upper": upper}

    def _learned(self, y: Any) -> None:
        """A range is in the model file."""
        self.target_range_ = tuple(self._table.range)
        self.target_clip_bias_ = (
            float("nan") if self._target_clip is None else json.loads(self._target_clip)["clip_bias"]
        )

    def _weighed(self, weights: np.ndarray, noise: np.ndarray) -> None:
        lower, upper = self._table.range
        half = (upper - lower) / 2
        self.coef_, self.coef_noise_std_ = weights * half, noise * half
        self.intercept_ = np.array([(lower + upper) / 2])

    def _table_numbers(self, X: Any) -> np.ndarray:
        return self._table.predict(self._table_of(X), self.bad_cells).ravel()  # type: ignore[attr-defined]


def _has_all(X: Any, names: list[str]) -> bool:
    """Whether `X` is a table with all these columns, wherever they stand."""
    return is_table(X) and set(names) <= set(names_by_position(X, 0))


def _rows_of(X: Any) -> int:
    names_of(X)
    return int(X.shape[0])


def _apart(X: Any, y: Any) -> tuple[Any, Any]:
    """A table and its target; `y` may be the name of a column of the table."""
    if not isinstance(y, str):
        return X, y
    names = names_of(X)
    if y not in names:
        raise ValueError(
            "y is text and no column of X has that name; give one label or number per row, or a column's name"
        )
    at = names.index(y)
    if hasattr(X, "iloc"):
        return X.drop(columns=[y]), X.iloc[:, at]
    if hasattr(X, "drop_columns"):
        return X.drop_columns([y]), X.select([y])
    return X.drop([y]), X[:, at]


def path_of(path: Any) -> Path:
    found = attempt(lambda: Path(path))
    if found is None:
        raise TypeError(f"path is {kind(path)}; give the path of a file")
    return found


__all__ = ["ClassesOfTable", "NumbersOfTable", "TableRoad"]
