"""Remote records in partitions: on a cluster, in other processes, or here.

An estimator's ``fit`` takes :class:`Partitions` in place of ``X`` and ``y``. Every partition adds up what its own records contribute, in
integers, near where they lie; the sums are merged here, where the plan, the noise and the ledger are. The model is the same to the
last bit however the records are divided (with ``method="noisy-sgd"``, of records in the same order):

>>> import numpy as np, dpopt
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, (2000, 3)); y = (X[:, 0] > X[:, 1]).astype(int)
>>> blocks = [(X[:500], y[:500]), (X[500:], y[500:])]
>>> said = dict(epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], encoding=None)
>>> said.update(method="noisy-gradient-descent", insecure_seed=1)
>>> import warnings; warnings.simplefilter("ignore")
>>> there = dpopt.LogisticRegression(**said).fit(dpopt.partitions.Here(blocks))
>>> here = dpopt.LogisticRegression(**said).fit(X, y)
>>> bool((there.coef_ == here.coef_).all())
True

**What travels is as sensitive as the records**: partial sums, partitions, and aggregate queries that ask at points which carry no noise or of a secret sample go between the
machines of the cluster. Encrypt the way (each engine's page says how) and keep them out of logs; nothing here writes any.

:mod:`dpopt.dask`, :mod:`dpopt.ray` and :mod:`dpopt.spark` make partitions of what lies there.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_array

from . import _core
from ._id_kinds import ids_of_parts, is_kind
from ._reading import table
from ._tables import cells, columns_of, is_table, own_name, rows_at, source, without_rows

#: Bytes that say what ids of a part are, before what its units are called.
KIND = 16
#: Why ids of a type that may compare differently in other processes are refused.
NO_IDS = "ids of units have a type that is neither text nor numbers, or several types, so that a unit is not known again in another part; give text or numbers of one type"


class PartitionFailed(RuntimeError):
    """A partition could not be read or asked. The text names the partition and nothing that it holds."""


@dataclass(repr=False)
class Persons:
    """Units of privacy with several rows, all of which are in one part.

    Attributes
    ----------
    name
        How a unit is called.
    key
        Secret bytes, under which the driver knows units again without their names. As sensitive as the records.
    """

    name: str
    key: bytes

    @classmethod
    def called(cls, name: str) -> Persons:
        """Units with a fresh secret key."""
        if not isinstance(name, str) or not name.strip():
            raise TypeError("units is not the name of a column; give the column that identifies persons")
        return cls(name, secrets.token_bytes(32))

    def places(self, ids: Any, places: int) -> np.ndarray:
        """Which of so many places each row belongs to: rows of one unit to the same."""
        return _core.places_of_units(self.read(ids)[0], self.key, places)

    def read(self, ids: Any) -> tuple[Any, str]:
        """Ids as the compiled library reads them, and what kind they are of.

        Raises
        ------
        PartitionFailed
            If they are of none that is the same in every part.
        """
        found = ids_of_parts(ids)
        if found is None:
            raise PartitionFailed(NO_IDS)
        return found

    def marks(self, ids: Any, kind: str) -> bytes:
        """What kind of ids a partition has, and what its units are called."""
        return kind.encode().ljust(KIND) + _core.units_of(ids, self.key)


@dataclass
class Recipe:
    """Makes the compiled partition out of a block of rows and targets, where they are. Travels to the workers; holds public facts, and the key of units.

    Attributes
    ----------
    estimator
        Its parameters say how rows and targets are bounded.
    n_features
        Columns of a block.
    sparse
        Whether blocks are sparse matrices, whose rows are not centred.
    units
        Whose rows they are, if a unit may have several.
    """

    estimator: Any
    n_features: int
    sparse: bool
    units: Persons | None = field(default=None, repr=False)

    def __call__(self, X: Any, y: Any, part: int, ids: Any = None) -> _core.Shard:
        """Partition number `part`; `y` is None without targets, `ids` say whose each row is.

        Raises
        ------
        PartitionFailed
            If the block has another width, or what is no number; without a value.
        """
        try:
            return self._shard(X, y, part, ids)
        except PartitionFailed:
            raise
        except Exception as why:
            kind = type(why).__name__
        # from None: what was raised may show a value
        what = "columns" if self.raw else "columns of numbers"
        raise PartitionFailed(
            f"partition {part} could not be read ({kind}): every partition needs {self.n_features} {what} and one target per row"
        ) from None

    @property
    def raw(self) -> bool:
        """Whether blocks are read as tables with named columns, and not as numbers."""
        return bool(getattr(self.estimator, "reads_tables", False))

    def _shard(self, X: Any, y: Any, part: int, ids: Any) -> _core.Shard:
        if self.raw:
            return self.estimator._part(X, y, part, False, None, b"")
        owners, marks = None, b""
        if self.units is not None:
            ids, kind = self.units.read(ids)
            owners, marks = _core.Owners(self.units.name, ids), self.units.marks(ids, kind)
        return self.estimator._part(self.matrix(X, y), y, part, self.sparse, owners, marks)

    def matrix(self, X: Any, y: Any) -> Any:
        """The block as a matrix of numbers."""
        X = table(X, "X", sparse=True)
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_samples=0
        )
        if X.shape[1] != self.n_features or (y is not None and X.shape[0] != len(y)):
            raise ValueError("shape")
        if self.sparse != sp.issparse(X):
            X = sp.csr_matrix(X) if self.sparse else X.toarray()
        return X


class Partitions:
    """Records in partitions. What an engine has to do is in the three methods that end in ``_parts``; a fit calls them.

    Partitions stay as they are for the time of a fit: the same records in the same partition whenever a partition is asked or made again. The driver
    knows each by the number and a digest of its records; one that holds others, because it was computed again from a source that is not
    the same twice, ends the fit. What was mixed up before the partitions were loaded nobody can see.

    One fit at a time: a second one that is started meanwhile is refused.

    Parameters
    ----------
    n_features
        Columns of every block.
    feature_names
        Their names, if the engine knows them.
    sparse
        Whether blocks are sparse matrices.
    units
        Whose rows they are, if a unit may have several. All of them are in one partition then, or the fit is refused.
    targets
        Whether the blocks have targets.
    like
        A table without rows that has the features' names and types, where blocks can be read as such tables.
    target
        The name of what is predicted, if it has one.
    """

    def __init__(
        self,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        sparse: bool = False,
        *,
        units: Persons | None = None,
        targets: bool = True,
        like: Any = None,
        target: str | None = None,
    ) -> None:
        self.n_features = n_features
        #: Names of the features, if the engine knows them.
        self.feature_names = None if feature_names is None else list(feature_names)
        self.sparse, self.units, self.targets = sparse, units, targets
        self.like, self.target = like, target
        #: Seconds that an aggregate query without an answer took when the partitions were loaded last: what each pass of a fit costs besides its sums. For whoever runs
        #: the fit and nobody else: an engine that opens its partitions first takes longer for more of them.
        self.seconds_per_pass: float | None = None
        self._in_use = threading.Lock()
        #: Seconds that each aggregate query of the last fit took, from the driver's side: what a pass costs.
        self.seconds: list[float] = []

    def load_partitions(self, recipe: Recipe) -> list[tuple[int, int, int, bytes]]:
        """Makes all partitions by `recipe` and keeps them near the records; :attr:`dpopt._core.Shard.known` of each, in the order of their numbers."""
        raise NotImplementedError

    def ask_partitions(self, message: bytes) -> list[bytes]:
        """What every partition answers (:meth:`dpopt._core.Shard.answer`), in any order. A partition may answer twice."""
        raise NotImplementedError

    def drop_partitions(self) -> None:
        """Forgets the partitions that were loaded."""

    # --- what a fit calls ---

    def load(self, estimator: Any) -> Known:
        """Makes all partitions as `estimator` says.

        Raises
        ------
        PartitionFailed
            If rows of one unit are in two partitions, or ids are not of the same type in all of them. Nothing is charged then. That it is raised may tell that there
            is such a unit.
        """
        if hasattr(estimator, "get_params"):
            estimator = clone(estimator)
            estimator.set_params(budget=None)
        if not self._in_use.acquire(blocking=False):
            raise ValueError("these partitions are in use by another fit; wait for it, or make separate ones")
        try:
            self.seconds = []
            found = list(self.load_partitions(Recipe(estimator, self.n_features, self.sparse, self.units)))
            known = Known([(records, digest) for records, digest, _, _ in found], sum(rows for _, _, rows, _ in found))
            if self.units is not None:
                _one_kind([bytes(marks[:KIND]) for *_, marks in found if len(marks) > KIND])
                marks = [bytes(marks[KIND:]) for *_, marks in found]
                # a unit in two partitions would be clipped twice, and count twice
                if _core.units_are_apart(marks) is not True or sum(map(len, marks)) != 16 * known.records:
                    raise PartitionFailed(
                        "rows of one unit are in several partitions, where the unit would count several times; partition the rows by unit, as parts(units=...) of an engine does"
                    )
            started = time.perf_counter()
            self.ask_partitions(_core.empty_query())
            self.seconds_per_pass = time.perf_counter() - started
            return known
        except BaseException:
            self.drop()
            raise

    @contextlib.contextmanager
    def loaded(self, estimator: Any) -> Iterator[Known]:
        """Loads the partitions for a block of code, and drops them at its end."""
        known = self.load(estimator)
        try:
            yield known
        finally:
            self.drop()

    def drop(self) -> None:
        """Forgets the partitions. An engine that is gone cannot forget them, and a fit has ended all the same."""
        try:
            with contextlib.suppress(Exception):
                self.drop_partitions()
        finally:
            self._in_use.release()

    def ask(self, message: bytes) -> list[bytes]:
        """Hands an aggregate query to all partitions."""
        started = time.perf_counter()
        answers = self.ask_partitions(message)
        self.seconds.append(time.perf_counter() - started)
        return answers

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n_features} features>"


def _one_kind(kinds: list[bytes]) -> None:
    """Refuses partitions with units whose ids are not all of one kind: the same id may have several names then."""
    if len(set(kinds)) > 1 or not all(is_kind(kind.decode("ascii", "replace").rstrip()) for kind in kinds):
        raise PartitionFailed(
            "ids of units do not have the same type in all partitions, so that a unit in several of them would go unnoticed; give them one type, for example text"
        )


@dataclass(frozen=True, repr=False)
class Known:
    """What the driver knows of loaded partitions.

    Attributes
    ----------
    parts
        How many records each has, which are rows or units, and a digest of what they hold.
    rows
        How many rows there are.
    """

    parts: list[tuple[int, int]]
    rows: int

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(records for records, _ in self.parts)


class Here(Partitions):
    """Partitions in this process, one for each block: to try a fit without a cluster, or to go through blocks that come one by one.

    Parameters
    ----------
    blocks
        Pairs of X and y (None without targets), or triples with one id of a unit for each row.
    feature_names
        Names of the features.
    units
        How a unit is called, where blocks come with ids. The rows of each unit are brought into one part.
    """

    def __init__(
        self,
        blocks: Iterable[tuple[Any, ...]],
        feature_names: Sequence[str] | None = None,
        *,
        units: str | None = None,
    ) -> None:
        found = [tuple(block) for block in blocks]
        if not found:
            raise ValueError("there are no blocks; give at least one pair of X and y")
        if any(len(block) != (2 if units is None else 3) for block in found):
            raise ValueError("give pairs of X and y; with units=, triples of X, y and ids of units")
        first = found[0][0]
        columns = [list(block[0].columns) for block in found if hasattr(block[0], "columns")]
        if any(names != columns[0] for names in columns) or len(columns) not in (0, len(found)):
            raise ValueError("blocks have different columns; give all of them the same, in the same order")
        if columns and feature_names is None:
            feature_names = [str(name) for name in columns[0]]
        targets = [block[1] is not None for block in found]
        if any(targets) and not all(targets):
            raise ValueError("some blocks have targets and some have none; give y with all of them")
        persons = None if units is None else Persons.called(units)
        super().__init__(
            int(first.shape[1]), feature_names, sp.issparse(first), units=persons, targets=all(targets),
            like=without_rows(first) if is_table(first) else None, target=own_name(found[0][1]),
        )  # fmt: skip
        self._blocks = found if persons is None else self._together(found, persons)
        self._shards: list[_core.Shard] = []

    def _together(self, blocks: list[tuple[Any, ...]], persons: Persons) -> list[tuple[Any, ...]]:
        """As many blocks, the rows of each unit in one of them."""
        for X, y, ids in blocks:
            if len(ids) != X.shape[0] or (y is not None and len(y) != X.shape[0]):
                raise ValueError("X, y and the ids of a block differ in length; give one of each for every row")
        places = [persons.places(ids, len(blocks)) for _, _, ids in blocks]
        return [
            tuple(
                None if blocks[0][j] is None else _joined([_at(b[j], p == place) for b, p in zip(blocks, places)])
                for j in range(3)
            )
            for place in range(len(blocks))
        ]

    def load_partitions(self, recipe: Recipe) -> list[tuple[int, int, int, bytes]]:
        self._shards = [recipe(X, y, part, *ids) for part, (X, y, *ids) in enumerate(self._blocks)]
        return [shard.known for shard in self._shards]

    def ask_partitions(self, message: bytes) -> list[bytes]:
        return [shard.answer(message) for shard in self._shards]

    def drop_partitions(self) -> None:
        self._shards = []


def _at(values: Any, chosen: np.ndarray) -> Any:
    """The rows of `values` that `chosen` marks."""
    at = np.flatnonzero(chosen)
    return values[at] if sp.issparse(values) else rows_at(values, at)


def _joined(pieces: list[Any]) -> Any:
    """Rows of all pieces, which are of one kind."""
    if sp.issparse(pieces[0]):
        return sp.vstack(pieces, format="csr")
    if hasattr(pieces[0], "iloc"):
        import pandas as pd

        return pd.concat(pieces)
    if isinstance(pieces[0], (list, tuple)):
        return [value for piece in pieces for value in piece]
    return np.concatenate(pieces)


class Counted:
    """Counts the rows of tables."""

    reads_tables = True

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> _core.Shard:
        return _core.Shard.of_numbers(np.zeros((int(X.shape[0]), 1)), part)


@dataclass
class Encoded:
    """Encodes tables with named columns, by public facts alone.

    Attributes
    ----------
    encoder
        The compiled encoder.
    target
        How what is predicted is called in it.
    """

    encoder: Any
    target: str
    reads_tables = True

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> _core.Shard:
        columns = [*columns_of(X, self.encoder.columns), (self.target, cells(y))]
        return _core.Shard.of_table(_core.Table.to_read(source(X), columns), self.encoder, part)


class Plain(BaseEstimator):
    """Makes partitions of numbers as they are."""

    def __init__(self, budget=None):
        self.budget = budget

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> _core.Shard:
        if sparse or owners is not None:
            raise TypeError("numbers of rows, each of which is a unit of its own")
        return _core.Shard.of_numbers(np.asarray(X, dtype=np.float64), part)


def owner_of(parts: Partitions, units: Any) -> str | None:
    """How a unit of partitions is called, if they are of units with several rows."""
    if units is not None:
        raise ValueError(
            "a unit is clipped as a whole, so that all of its rows must be in one partition; give units= where the partitions are made"
        )
    return None if parts.units is None else parts.units.name


def tried(call: Callable[..., Any], *given: Any) -> Any:
    """`call` on a worker, whose logs would show the arguments of what raises: a failure comes back as its text."""
    try:
        return call(*given)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except PartitionFailed as why:
        return Failure(str(why))
    except BaseException as why:  # also a panic of compiled code, which is no Exception
        return Failure(f"a worker could not answer ({type(why).__name__})")


def without_values(call: Callable[..., Any], *given: Any) -> Any:
    """`call` on a worker; what it raises is a :class:`PartitionFailed` that shows nothing of what it was given.

    Raises
    ------
    PartitionFailed
        If `call` raises anything but an interruption.
    """
    found = tried(call, *given)
    if isinstance(found, Failure):
        raise PartitionFailed(found.why)
    return found


def each_without_values(items: Iterable[Any]) -> Iterator[Any]:
    """The `items`, one by one; what their iterator raises is a :class:`PartitionFailed` that shows no value.

    Raises
    ------
    PartitionFailed
        If the iterator raises anything but an interruption.
    """
    end = object()
    coming = iter(items)
    while (item := without_values(next, coming, end)) is not end:
        yield item


@dataclass
class Failure:
    """Why a worker could not do something, without a value."""

    why: str


def all_of(answers: Iterable[Any]) -> list[Any]:
    """Answers of workers; the first failure among them is raised here."""
    answers = list(answers)
    for answer in answers:
        if isinstance(answer, Failure):
            raise PartitionFailed(answer.why)
    return answers


__all__ = ["Here", "PartitionFailed", "Partitions", "Recipe"]
