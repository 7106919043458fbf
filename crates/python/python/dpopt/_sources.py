"""Where the records of a model come from: a matrix or a table with named columns, here or in parts. A fit and a plan take the same steps over each.

Nothing of the records is released before :meth:`Source.run`, which charges first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from . import _core
from ._base import shape_of
from ._fitted_table import FittedTable
from ._plan import Plan, Privacy, Request
from ._reading import required, same_length, validated, whole
from ._rows import Bounding
from ._table_fit import check_parameters, framed, plan_of, planned_table, table_fit, target_apart, warn_undeclared
from ._tables import (
    NumberTable,
    by_name,
    by_position,
    encoding_said,
    is_table,
    names_by_position,
    names_of,
    one_column,
    own_name,
    target_name,
)
from ._targets import Reading
from ._units import Given, Shared, kept_counts, kept_note, one_for_each, owned
from .partitions import Counted, Encoded, Known, Partitions, owner_of

if TYPE_CHECKING:
    from ._linear import PrivateLinear

#: The note of a model over partitions: not how many there are, which under add-or-remove may disclose how many records there are.
REMOTE_NOTE = "The records were remote, in partitions; each partition added up its own, in integers."
_NO_TARGETS = "these parts have no targets; make them with the column that is predicted"


class Source:
    """Records that an estimator is fitted to, or planned for.

    Parameters
    ----------
    estimator
        Whose parameters say what is public.
    X, y, units
        As they were given.

    Attributes
    ----------
    unit
        Who is protected: a ``"record"``, or a ``"user"`` with several.
    rows
        The public number of rows.
    public
        What is public of units, where a unit may have several rows.
    names
        Of the columns of ids, for a ledger.
    """

    rows: int
    public: dict[str, Any] | None = None
    names: tuple[str, ...] = ()

    def __init__(self, estimator: PrivateLinear, X: Any, y: Any, units: Any) -> None:
        self.estimator, self.X, self.y, self.units = estimator, X, y, units
        self.unit = "record" if units is None else "user"

    @property
    def protected(self) -> tuple[int, str]:
        """How many are protected, by the public number, and what one of them is called."""
        return (self.rows, "record") if self.public is None else (self.public["count"], "unit")

    # --- a plan -------------------------------------------------------------------------------------------------

    def outline(self, relation: str, n_features: Any, n_rows: Any) -> None:
        """Takes what is public of the records: their shape, or the numbers that stand in for it, names, types, and how many units there are."""
        raise NotImplementedError

    def plan(self, relation: str, n_classes: int) -> Plan:
        """The plan for an outline."""
        raise NotImplementedError

    def predicted(self, relation: str, n_classes: int) -> tuple[str, tuple[float, float] | None]:
        """The loss of a plan for an outline, as JSON, and the range of a number that is predicted, if it is known."""
        raise NotImplementedError

    # --- a fit --------------------------------------------------------------------------------------------------

    def open(self, relation: str) -> None:
        """Finds who owns the records, the names of their columns and their public number."""
        raise NotImplementedError

    def planned(self, relation: str, charge: Any, seed: int | None) -> Any:
        """The compiled fit: planned, and nothing read."""
        raise NotImplementedError

    def warn(self, fit: Any) -> None:
        """Says what is to be known of a planned fit before it is paid for."""
        raise NotImplementedError

    def run(self, fit: Any, charge: Any, seed: int | None) -> Any:
        """Charges, reads the records and answers what was released."""
        raise NotImplementedError

    def remember(self, released: Any, relation: str) -> None:
        """What was released, as attributes of the estimator."""
        raise NotImplementedError

    def close(self) -> None:
        """Forgets what was loaded."""


def source_of(estimator: PrivateLinear, X: Any, y: Any, units: Any, columns: Any = None) -> Source:
    """The records that were given, of the kind that the estimator's parameters declare; `columns`: how many there are, of records that are not there."""
    named = by_name(estimator)
    if isinstance(X, Partitions):
        # of a matrix in parts "auto" leaves the columns as they are
        encoded = named or (isinstance(encoding_said(estimator), Mapping) and by_position(estimator))
        return (PartitionedTable if encoded else PartitionedMatrix)(estimator, X, y, units)
    if named:
        return Table(estimator, X, y, units)
    return (EncodedMatrix if by_position(estimator, X, columns) else Matrix)(estimator, X, y, units)


# --- rows of numbers ------------------------------------------------------------------------------------------------


class Matrix(Source):
    """Rows of numbers, here."""

    remote = False
    facts: Bounding
    reading: Reading
    request: Request
    _owners: Any = None

    def outline(self, relation: str, n_features: Any, n_rows: Any) -> None:
        estimator = self.estimator
        X, given = _without_ids(self.X, self.units, self.y)
        there, columns, counted = shape_of(X, n_features, n_rows)
        self.rows = estimator._public_rows(there, relation) if counted else there
        self.facts = estimator._facts(X if sp.issparse(X) else None, columns, quiet=True)
        self.public = None if given is None else _planned_units(estimator, given, there if counted else None, relation)

    def plan(self, relation: str, n_classes: int) -> Plan:
        return self._requested(relation, self.estimator._known(n_classes)).plan(n_classes, compare=True)

    def predicted(self, relation: str, n_classes: int) -> tuple[str, tuple[float, float] | None]:
        described = self._requested(relation, self.estimator._known(n_classes)).fit().plan(n_classes, True)
        asked = self.estimator._range_asked()
        declared = asked.get("known") if isinstance(asked, dict) else None
        return json.dumps(json.loads(described)["loss"]), None if declared is None else (declared[0], declared[1])

    def _requested(self, relation: str, known: int | None) -> Request:
        return self.estimator._request(self.rows, self.facts, relation, known, self.public, self.remote)

    def open(self, relation: str) -> None:
        estimator = self.estimator
        X, given = owned(self.X, self.units, self.y)
        self.y = estimator._targets(required(self.y, estimator))
        self.X = X = validated(estimator, X, reset=True)
        same_length(X, self.y)
        self._owners, self.public = _owners_of(estimator, given, X.shape[0], relation)
        self.rows = estimator._public_rows(X.shape[0], relation)
        self.names = () if given is None else given.names

    def _read(self) -> None:
        """Reads how rows are bounded, and the targets."""
        self.facts = self.estimator._facts(self.X, self.X.shape[1])
        self.reading = self.estimator._read(self.y)

    def planned(self, relation: str, charge: Any, seed: int | None) -> _core.Fit:
        self._read()
        self.request = self._requested(relation, self.reading.classes)
        fit: _core.Fit = self.request.fit()
        return fit

    def warn(self, fit: _core.Fit) -> None:
        self.estimator._before_charge(fit)

    def run(self, fit: _core.Fit, charge: Any, seed: int | None) -> Any:
        return fit.run(self.facts.encode(self.X, self.reading.values), self.reading.rank, self._owners, charge, seed)

    def remember(self, released: Any, relation: str) -> None:
        self.estimator._remember(self.request, self.facts, self.reading, released, self._notes())

    def _notes(self) -> list[str]:
        return kept_note(self.public)


class PartitionedMatrix(Matrix):
    """Remote rows of numbers."""

    remote = True
    known: Known | None = None

    def __init__(self, estimator: PrivateLinear, X: Partitions, y: Any, units: Any) -> None:
        super().__init__(estimator, X, y, units)
        self.parts, self.owner = X, _owner(X, y, units)
        self.unit = "record" if self.owner is None else "user"

    def outline(self, relation: str, n_features: Any, n_rows: Any) -> None:
        self.rows = _rows_said(self.estimator, n_rows)
        self.public = None if self.owner is None else self.estimator._public_units(None, None, relation)
        self.facts = self._bounded(quiet=True)

    def _bounded(self, quiet: bool) -> Bounding:
        rows = sp.csr_matrix((0, 1)) if self.parts.sparse else None
        return self.estimator._facts(rows, self.parts.n_features, quiet=quiet)

    def open(self, relation: str) -> None:
        estimator, parts = self.estimator, self.parts
        if not parts.targets:
            raise ValueError(_NO_TARGETS)
        # of no target: what is known without them
        self.reading = estimator._read_remote(self.owner)
        self.facts = self._bounded(quiet=False)
        self.known = known = parts.load(estimator)
        estimator.n_features_in_ = parts.n_features
        estimator.__dict__.pop("feature_names_in_", None)
        if parts.feature_names is not None:
            estimator.feature_names_in_ = np.array(parts.feature_names, dtype=object)
        if self.owner is not None:
            self.public = estimator._public_units(known.records, known.rows, relation)
            self.names = (self.owner,)
        self.rows = estimator._public_rows(known.rows, relation)

    def _read(self) -> None:
        """Was read before the parts were loaded."""

    def run(self, fit: _core.Fit, charge: Any, seed: int | None) -> Any:
        assert self.known is not None
        return fit.run_remote(self.parts.ask, self.known.parts, self.owner, charge, seed)

    def _notes(self) -> list[str]:
        return [REMOTE_NOTE]

    def close(self) -> None:
        if self.known is not None:
            self.parts.drop()


# --- tables with named columns --------------------------------------------------------------------------------------


class Table(Source):
    """A table with columns declared by name, here."""

    _given: Given | None = None
    _own: str | None = None
    _columns: list[str]

    def outline(self, relation: str, n_features: Any, n_rows: Any) -> None:
        estimator = self.estimator
        X, self._given = _without_ids(self.X, self.units, self.y)
        counted: int | None = None
        if X is None or isinstance(X, (int, float, np.number)):
            self.rows, self.X = self._stand_in(n_features, n_rows)
        else:
            if n_features is not None or n_rows is not None:
                shape_of(X, n_features, n_rows)
            self.X, self.y = target_apart(X, self.y)
            counted = self._counted()
            self.rows = estimator._public_rows(counted, relation)
        if self._given is not None:
            self.public = _planned_units(estimator, self._given, counted, relation)

    def _stand_in(self, n_features: Any, n_rows: Any) -> tuple[int, Any]:
        """The number of rows that was given, and what has the columns of records that are not there."""
        raise TypeError(
            "columns are declared by name, so that explain needs the table; give X, of which only names, dtypes and the number of rows are read"
        )

    def _counted(self) -> int:
        names_of(self.X)
        return int(self.X.shape[0])

    def plan(self, relation: str, n_classes: int) -> Plan:
        fit = self._outlined(relation)
        return plan_of(fit.plan(n_classes), relation, self.rows, self.public)

    def predicted(self, relation: str, n_classes: int) -> tuple[str, tuple[float, float] | None]:
        fit = self._outlined(relation)
        return json.dumps(json.loads(fit.plan(n_classes)[0])["loss"]), fit.target_range()

    def _outlined(self, relation: str) -> _core.TableFit:
        return planned_table(self.estimator, self.X, self.y, self.rows, relation, self._given, self.public)

    def open(self, relation: str) -> None:
        estimator = self.estimator
        check_parameters(estimator)
        X, self._given = owned(self.X, self.units, self.y)
        X, y = target_apart(X, required(self.y, estimator))
        self._own = own_name(y)
        self.y = self._targets(y)
        self.X = framed(estimator, X)
        self._columns = names_of(self.X)
        same_length(self.X, self.y)
        self.rows = estimator._public_rows(self.X.shape[0], relation)
        _, self.public = _owners_of(estimator, self._given, self.X.shape[0], relation)
        self.names = () if self._given is None else self._given.names

    def _targets(self, y: Any) -> Any:
        return one_column(y)

    def planned(self, relation: str, charge: Any, seed: int | None) -> _core.TableFit:
        # under add-or-remove what was given stands in for the number of rows, which is protected
        said = self.rows if self.estimator.n_rows is not None else None
        fit = table_fit(
            self.estimator, self.X, self.y, self._own, said, relation, charge, seed, self._given, self.public
        )
        self._named()
        return fit

    def _named(self) -> None:
        """The names of the columns, as attributes."""
        names = self._columns
        self.estimator.n_features_in_, self.estimator.feature_names_in_ = len(names), np.array(names, dtype=object)

    def warn(self, fit: _core.TableFit) -> None:
        warn_undeclared(self.estimator, fit, self._columns)

    def run(self, fit: _core.TableFit, charge: Any, seed: int | None) -> Any:
        clip = fit.target_clip()
        return fit.run(), clip

    def remember(self, released: Any, relation: str) -> None:
        (model, described, releases, noise, report), clip = released
        estimator = self.estimator
        positions = self.X.columns if isinstance(self.X, NumberTable) else None
        order = estimator._order_of(model, self.y)
        estimator._settle(FittedTable(model, order, report, positions, clip), noise)
        estimator.plan_ = plan_of(described, relation, self.rows, self.public)
        estimator.noise_std_ = estimator.plan_.noise_std
        estimator.privacy_ = Privacy.of(model.guarantee(), releases)


class EncodedMatrix(Table):
    """A matrix, here, whose columns are encoded as a table's numeric columns are."""

    def _stand_in(self, n_features: Any, n_rows: Any) -> tuple[int, Any]:
        rows, columns, _ = shape_of(self.X, n_features, n_rows)
        return rows, NumberTable(np.empty((0, columns)), names_by_position(None, columns))

    def _counted(self) -> int:
        return shape_of(self.X, None, None)[0]

    def plan(self, relation: str, n_classes: int) -> Plan:
        self.estimator = self.estimator._to_plan(n_classes)
        return super().plan(relation, n_classes)

    def _targets(self, y: Any) -> Any:
        found = self.estimator._targets(y)
        self.estimator._check_targets(found)
        if not is_classifier(self.estimator):
            return found
        # as it came: the types of a list's entries, or whether one is missing, are facts of records and decide nothing
        if hasattr(y, "dtype") or is_table(y) or hasattr(y, "type"):
            return one_column(y)
        return one_column(np.asarray(y)) if hasattr(y, "__array__") else list(y)

    def _named(self) -> None:
        """The matrix has told them."""

    def warn(self, fit: _core.TableFit) -> None:
        if fit.finds_labels():
            self.estimator._warn_of_labels()


class PartitionedTable(Table):
    """A remote table with columns declared by name: counted, encoded where it is by public facts, asked for sums."""

    def __init__(self, estimator: PrivateLinear, X: Partitions, y: Any, units: Any) -> None:
        super().__init__(estimator, X, y, units)
        self.parts, self.owner = X, _owner(X, y, units)
        self.unit = "record" if self.owner is None else "user"

    def outline(self, relation: str, n_features: Any, n_rows: Any) -> None:
        self.rows = _rows_said(self.estimator, n_rows)
        self._checked()

    def _outlined(self, relation: str) -> _core.TableFit:
        return self._compiled(relation, None, None)

    def _compiled(self, relation: str, charge: Any, seed: int | None) -> _core.TableFit:
        parts = self.parts
        return table_fit(self.estimator, parts.like, None, parts.target, self.rows, relation, charge, seed, remote=True)

    def _checked(self) -> None:
        """Refuses parts that are no tables; how what is predicted is called."""
        parts, estimator = self.parts, self.estimator
        check_parameters(estimator)
        if not by_name(estimator):
            raise ValueError(
                "columns are declared by position, which needs a matrix in one place; declare them by name: bounds={'age': (18, 80)}"
            )
        if parts.like is None:
            raise TypeError(
                "columns are declared by name, but these partitions have no names; make them from a data frame, or give bounds=(lower, upper) for numbers"
            )
        if parts.units is not None:
            raise ValueError(
                "remote records with privacy units cannot be encoded from named columns; encode the columns first, and give partitions of numbers"
            )
        if not parts.targets:
            raise ValueError(_NO_TARGETS)
        regression, _ = estimator._target_facts(None)
        self._columns = names_of(parts.like)
        self._target = target_name(estimator, parts.target, self._columns, regression)

    def open(self, relation: str) -> None:
        self._checked()
        counted = None
        if self.estimator.n_rows is None:
            with self.parts.loaded(Counted()) as known:
                counted = known.rows
        self.rows = self.estimator._public_rows(counted, relation)

    def planned(self, relation: str, charge: Any, seed: int | None) -> _core.TableFit:
        fit = self._compiled(relation, charge, seed)
        self._named()
        return fit

    def run(self, fit: _core.TableFit, charge: Any, seed: int | None) -> Any:
        clip = fit.target_clip()
        with self.parts.loaded(Encoded(fit.encoder(), self._target)) as known:
            return fit.run_remote(self.parts.ask, known.parts), clip


# --- whose rows they are --------------------------------------------------------------------------------------------


def _owner(parts: Partitions, y: Any, units: Any) -> str | None:
    """How a unit of parts is called, which hold their targets."""
    owner = owner_of(parts, units)
    if y is not None:
        raise ValueError("y is given, but the partitions hold their targets; leave y out")
    return owner


def _rows_said(estimator: PrivateLinear, n_rows: Any) -> int:
    """The number of rows of partitions, which are not counted for a plan."""
    said = estimator.n_rows if n_rows is None else n_rows
    if said is None:
        raise ValueError("the number of remote records is not known before the fit; give n_rows to plan")
    return whole(said, "n_rows")


def _without_ids(X: Any, units: Any, y: Any) -> tuple[Any, Given | None]:
    """What is explained, without ids; of rows that are not there only the name of a unit is known."""
    shape_only = X is None or isinstance(X, (int, float, np.number, np.bool_))
    return (X, Given(units, None)) if shape_only and isinstance(units, str) else owned(X, units, y)


def _planned_units(estimator: PrivateLinear, given: Given, rows: int | None, relation: str) -> dict[str, Any]:
    """What is public of units, for a plan; of `rows` rows, if they are there."""
    if given.ids is not None and rows is not None:
        one_for_each(given, rows)
    if isinstance(given, Shared):
        owners = given.owners()
        counted = rows if estimator._unit().count is None else None
        return kept_counts(given, owners, estimator._public_units(owners.units, counted, relation), relation)
    if given.ids is None or estimator._unit().count is not None:
        return estimator._public_units(None, None, relation)
    # counted where the number is public; under add-or-remove a guess has to be given
    return estimator._public_units(-1 if relation == "add-or-remove" else given.owners().units, rows, relation)


def _owners_of(
    estimator: PrivateLinear, given: Given | None, rows: int, relation: str
) -> tuple[Any, dict[str, Any] | None]:
    """Whose `rows` rows they are, for the compiled library, and what is public of it."""
    if given is None:
        return None, None
    one_for_each(given, rows)
    owners = given.owners()
    return owners, kept_counts(given, owners, estimator._public_units(owners.units, rows, relation), relation)


__all__ = ["EncodedMatrix", "Matrix", "PartitionedMatrix", "PartitionedTable", "Source", "Table", "source_of"]
