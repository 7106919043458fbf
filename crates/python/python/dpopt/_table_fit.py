"""The compiled fit to a table with named columns: the command line's encoder, ledger, private labels and bounds, report and model file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from . import _core
from ._base import shape_of
from ._plan import Plan
from ._reading import number, shown, validated
from ._tables import (
    NumberTable,
    by_name,
    cells,
    columns_of,
    declarations,
    declared_for,
    declared_in,
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
from ._units import Given, Shared
from ._warnings import warn

if TYPE_CHECKING:
    from ._linear import PrivateLinear


def target_apart(X: Any, y: Any) -> tuple[Any, Any]:
    """A table and its target; `y` may be the name of a column of the table."""
    if not isinstance(y, str):
        return X, y
    if isinstance(X, (np.ndarray, list, tuple)):
        one_column(y)
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


def matrix_of(estimator: PrivateLinear, X: Any, reset: bool) -> np.ndarray:
    """A matrix whose columns are declared by position, as numbers."""
    if sp.issparse(X):
        raise TypeError(
            "X is a sparse matrix, and encoding would turn every column into a linear term and a spline, which are dense; give a dense array (.toarray()), or leave encoding out, since a sparse matrix then keeps its zeros"
        )
    values: np.ndarray = validated(estimator, X, reset=reset, sparse=False)
    return values


def framed(estimator: PrivateLinear, X: Any) -> Any:
    """The table to fit to: a matrix whose columns are declared by position becomes one of numbers."""
    if by_name(estimator):
        return X
    values = matrix_of(estimator, X, reset=True)
    named = hasattr(estimator, "feature_names_in_")
    return numbers_of(values, names_by_position(X if named else None, values.shape[1]))


def _names_alone(estimator: PrivateLinear, X: Any, given: Given | None) -> Any:
    """The table without its rows: names and types of its columns. Which rows several owners leave follows from ids alone, so of a matrix of theirs
    there are as many rows, all of zeros."""
    if by_name(estimator):
        names_of(X)
        return without_rows(X)
    if sp.issparse(X):
        return framed(estimator, X)
    rows, columns, _ = shape_of(X, None, None)
    rows = rows if isinstance(given, Shared) else 0
    return NumberTable(np.broadcast_to(np.zeros(1), (rows, columns)), names_by_position(X, columns))


def check_parameters(estimator: PrivateLinear) -> None:
    """Refuses parameters that mean nothing where columns are encoded."""
    how = "columns are declared by name" if by_name(estimator) else "the columns are encoded"
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
        given = getattr(estimator, parameter)
        if isinstance(given, np.ndarray) or given != default:
            raise ValueError(f"{parameter} is {shown(given)}, and {how}: {why}; leave it out")


def table_fit(
    estimator: PrivateLinear,
    X: Any,
    y: Any,
    own: str | None,
    rows: int | None,
    relation: str,
    charge: Any,
    seed: int | None,
    given: Given | None = None,
    units: dict[str, Any] | None = None,
    remote: bool = False,
) -> _core.TableFit:
    """The compiled fit: checked against everything public, nothing read. Of `given`, whose rows they are, `units` are public facts. `remote`: the
    table's rows are in partitions, and X has none."""
    names = names_of(X)
    regression, facts = estimator._target_facts(y)
    beside = declarations(declared_for(estimator, names)).names() if given is not None else []
    columns = [] if given is None else given.columns_beside([*names, own or "y", *beside])
    whose = [column for column, _ in columns]
    name = target_name(estimator, own, [*names, *whose], regression)
    loss = estimator._table_loss()
    declared = declarations(declared_for(estimator, names), (name, facts))
    if declared.kind(name) == ("levels" if regression else "numeric"):
        other = "levels; use a classifier" if regression else "numbers; use a regressor"
        raise ValueError(f"the target {shown(name)} is declared with {other}")
    if estimator.bad_cells not in ("missing", "error"):
        raise ValueError(f'bad_cells is {shown(estimator.bad_cells)}; give "missing" or "error"')
    # a plan needs no targets
    target = (np.full(X.shape[0], -1, dtype=np.int64), []) if y is None else cells(y)
    ids = [(column, ids if X.shape[0] else []) for column, ids in columns]
    table = _core.Table(source(X), [*columns_of(X), *ids, (name, target)], declared)
    share, budget = estimator.bounds_budget, estimator.budget
    if share is not None and not np.isfinite(number(share, "bounds_budget")):
        raise ValueError(f"bounds_budget is {share}; give a share of epsilon above 0 and below 1")
    request = {
        "target": name, "regression": regression, "relation": relation, "epsilon": float(estimator.epsilon),
        "delta": None if estimator.delta is None else float(estimator.delta),
        "options": {**estimator._options(None), **({"elsewhere": True} if remote else {})}, "rows": rows, "loss": loss, "embedding": estimator._form.of_table(estimator, names),
        "bounds_budget": None if share is None else number(share, "bounds_budget"),
        "target_moment": estimator._moment(), "bad_cells": estimator.bad_cells, "command": f"dpopt.{type(estimator).__name__}.fit",
        "declared_in": declared_in(estimator), "ledger": None if budget is None else repr(budget),
        "unit": None if given is None else ([column.strip() for column in whose], units),
    }  # fmt: skip
    return _core.TableFit(table, declared, json.dumps(request), charge, seed)


def plan_of(described: tuple[str, int, int], relation: str, rows: int, units: dict[str, Any] | None = None) -> Plan:
    """A plan as the compiled library describes it."""
    plan, features = json.loads(described[0]), described[2]
    return Plan(
        plan["method"], plan["candidates"], rows, features, plan["epsilon"], plan["delta"], relation, plan["models"],
        plan["refusal"], plan["encoders"], None if units is None else units["count"], plan["reason"],
    )  # fmt: skip


def planned_table(
    estimator: PrivateLinear,
    X: Any,
    y: Any,
    rows: int,
    relation: str,
    given: Given | None = None,
    units: dict[str, Any] | None = None,
) -> _core.TableFit:
    """The compiled fit to so many rows of a table like `X`, of which names and types are looked at alone."""
    check_parameters(estimator)
    X, y = target_apart(X, y)
    like = _names_alone(estimator, X, given)
    target = None if y is None or like.shape[0] else rows_at(one_column(y), np.arange(0))
    return table_fit(estimator, like, target, own_name(y), rows, relation, None, None, given, units)


def warn_undeclared(estimator: PrivateLinear, fit: _core.TableFit, names: list[str]) -> None:
    """Warns of columns of a table that the parameters say nothing of."""
    undeclared = fit.undeclared()
    if undeclared:
        warn(
            f"nothing declares the columns {names_told(undeclared, names, estimator)}: they are taken as categories and hashed, as "
            "their dtypes say; declare them with bounds or columns=dpopt.Columns(levels, text, hashed), or list them in its ignore"
        )


def declared_range(estimator: PrivateLinear, y: Any, names: list[str]) -> tuple[float, float] | None:
    """The range that a bounds file declares for the target of a table with these columns."""
    declared = declarations(declared_for(estimator, names))
    found: tuple[float, float] | None = declared.range(target_name(estimator, own_name(y), names, True))
    return found


__all__ = [
    "target_apart", "check_parameters", "declared_range", "framed", "matrix_of", "plan_of", "planned_table", "table_fit", "warn_undeclared",
]  # fmt: skip
