"""Records in Ray: a dataset's blocks, held by actors.

    parts = dpopt.ray.partitions(dataset, target="income")        # a ray.data.Dataset
    model = dpopt.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1]).fit(parts)

Actors keep the encoded partitions in memory from the first pass to the last. One that is lost is started again and makes its partitions anew
from the blocks of the dataset, which Ray keeps or computes again. Blocks, queries and partial sums are as sensitive as the records:
``RAY_USE_TLS`` encrypts what travels between the machines. Workers need the same version of dpopt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from .partitions import PartitionFailed, Partitions, Persons, Recipe, all_of, tried, without_values

#: How often a lost actor is started again, and its partitions are made again for one query.
ATTEMPTS = 3
#: Name of a column that says where rows of a unit are brought together.
PLACE = "dpopt place"


class _Holder:
    """An actor: some parts, by number."""

    def __init__(self) -> None:
        self.shards: dict[int, Any] = {}

    def load(self, recipe: Recipe, blocks: Any, part: int, columns: Columns) -> Any:
        made = tried(_made, recipe, blocks, part, columns)
        if isinstance(made, _core.Shard):
            self.shards[part] = made
            return made.known
        return made

    def answer(self, message: bytes, parts: list[int]) -> Any:
        """Answers of the parts that are here, in order; None of one that is not."""
        return [tried(self.shards[part].answer, message, True) if part in self.shards else None for part in parts]


@dataclass
class Columns:
    """Names of columns: features, what is predicted and whose a row is, if there are such; and a table of the features without rows."""

    features: list[str]
    target: str | None
    unit: str | None
    like: Any = None

    @property
    def all(self) -> list[str]:
        """Names of the columns in the order of reading, each once."""
        return [*self.features, *(name for name in (self.target, self.unit) if name is not None)]


def _made(recipe: Recipe, blocks: Any, part: int, columns: Columns) -> Any:
    import pyarrow as pa
    import ray

    # references inside of a list are not followed by Ray itself
    found = [block for block in ray.get(list(blocks)) if block.num_rows]
    if not found and recipe.raw:
        return recipe(columns.like, pa.array([], pa.float64()), part)
    if not found:
        # some blocks without rows have no columns either
        return recipe(np.zeros((0, len(columns.features))), np.zeros(0), part, [] if columns.unit else None)
    block = pa.concat_tables(found, promote_options="permissive") if len(found) > 1 else found[0]

    if recipe.raw:
        return recipe(block.select(columns.features), block.column(columns.target), part)

    def numbers(name: str) -> Any:
        return block.column(name).to_numpy()

    X = np.column_stack([numbers(name) for name in columns.features])
    y = None if columns.target is None else numbers(columns.target)
    return recipe(X, y, part, None if columns.unit is None else block.column(columns.unit))


def _placed(block: Any, persons: Persons, places: int) -> Any:
    """The rows with where those of each unit are brought together."""
    import pyarrow as pa

    found = persons.places(block.column(persons.name), places)
    return block.append_column(PLACE, pa.array(found, pa.int64()))


def _schema_of(block: Any) -> Any:
    return block.schema


def _like(blocks: list[Any], names: list[str]) -> Any:
    """A table of these columns without rows; None if no block has them."""
    import ray

    schema_of = ray.remote(num_cpus=0)(_schema_of)
    for block in blocks:
        # some blocks without rows have no columns either
        schema = ray.get(schema_of.remote(block))
        if all(name in schema.names for name in names):
            return schema.empty_table().select(names)
    return None


def _places_of(block: Any) -> Any:
    """Places that rows of a block belong to, each once."""
    return np.unique(block.column(PLACE).to_numpy()) if block.num_rows else np.zeros(0, np.int64)


def _together(blocks: list[Any]) -> list[list[Any]]:
    """Blocks with rows of one place, which Ray may have split, as one part."""
    import ray

    places_of = ray.remote(num_cpus=0)(_places_of)
    of_place: dict[int, list[Any]] = {}
    parts: list[list[Any]] = []
    for block, places in zip(blocks, ray.get([places_of.remote(block) for block in blocks])):
        # all parts that have a row of one of these places become one
        met: list[list[Any]] = []
        for place in places.tolist():
            part = of_place.get(place)
            if part is not None and all(part is not other for other in met):
                met.append(part)
        whole = met[0] if met else []
        whole.append(block)
        for other in met[1:]:
            whole += other
            parts = [part for part in parts if part is not other]
            of_place = {place: whole if part is other else part for place, part in of_place.items()}
        if not met:
            parts.append(whole)
        of_place.update(dict.fromkeys(places.tolist(), whole))
    return parts


class RayPartitions(Partitions):
    """Blocks of a dataset that actors hold; :func:`parts` makes them."""

    def __init__(self, blocks: list[list[Any]], columns: Columns, actors: int, units: Persons | None) -> None:
        super().__init__(
            len(columns.features), columns.features, units=units, targets=columns.target is not None,
            like=columns.like, target=columns.target,
        )  # fmt: skip
        self._blocks, self._columns, self._wanted = blocks, columns, actors
        self._holders: list[Any] = []
        self._recipe: Recipe | None = None

    def _of(self, holder: int) -> list[int]:
        """Numbers of the parts of an actor."""
        return list(range(holder, len(self._blocks), len(self._holders)))

    def _loading(self, holder: int) -> list[Any]:
        actor = self._holders[holder]
        return [actor.load.remote(self._recipe, self._blocks[part], part, self._columns) for part in self._of(holder)]

    def load_partitions(self, recipe: Recipe) -> list[tuple[int, int, int, bytes]]:
        import ray

        self._recipe = recipe
        # no CPU of their own: they work only while a query waits, and a dataset that is read meanwhile would wait for them
        actor = ray.remote(num_cpus=0, scheduling_strategy="SPREAD", max_restarts=ATTEMPTS, max_task_retries=ATTEMPTS)(
            _Holder
        )
        count = min(self._wanted, max(len(self._blocks), 1))
        self._holders = [actor.remote() for _ in range(count)]
        known = [(0, 0, 0, b"")] * len(self._blocks)
        asked = [self._loading(holder) for holder in range(count)]
        for holder, refs in enumerate(asked):
            for part, records in zip(self._of(holder), all_of(ray.get(refs))):
                known[part] = records
        return known

    def ask_partitions(self, message: bytes) -> list[bytes]:
        import ray

        sent = ray.put(message)
        answers: list[bytes] = []
        waiting = list(range(len(self._holders)))
        for _ in range(ATTEMPTS):
            refs = [self._holders[holder].answer.remote(sent, self._of(holder)) for holder in waiting]
            again = []
            for holder, found in zip(waiting, ray.get(refs)):
                found = all_of(found)
                if None in found:
                    # started again, and empty
                    all_of(ray.get(self._loading(holder)))
                    again.append(holder)
                else:
                    answers += found
            if not again:
                return answers
            waiting = again
        raise PartitionFailed(f"actors were lost {ATTEMPTS} times during one query; see the log of Ray")

    def drop_partitions(self) -> None:
        import ray

        for holder in self._holders:
            ray.kill(holder)
        self._holders = []


def partitions(
    dataset: Any,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
    units: str | None = None,
    actors: int | None = None,
) -> RayPartitions:
    """The blocks of a Ray dataset as parts of records.

    Parameters
    ----------
    dataset
        ``ray.data.Dataset`` with a column for each feature. Its blocks are computed once and kept (``materialize``).
    target
        The column that is predicted; None where nothing is.
    features
        Columns; by default all but the target and the unit.
    units
        The column whose values are persons, where one may have several rows: the rows of each are brought into one block (a shuffle).
    actors
        How many hold the parts. By default as many as the cluster has CPUs.

    Raises
    ------
    ValueError
        If there is no such column, or one has the name that units need.
    """
    import ray

    columns = list(dataset.columns() or [])
    names = [name for name in columns if name not in (target, units)] if features is None else list(features)
    wanted = Columns(names, target, units)
    missing = [name for name in wanted.all if name not in columns]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r} in the dataset; it has {', '.join(columns)}")
    persons = None if units is None else Persons.called(units)
    if persons is not None and PLACE in wanted.all:
        raise ValueError(f"a column is called {PLACE!r}, a name that is reserved for grouping rows by unit; rename it")
    chosen = dataset.select_columns(wanted.all).materialize()
    if persons is not None:
        count = max(chosen.num_blocks(), 1)

        def placed(block: Any) -> Any:
            return without_values(_placed, block, persons, count)

        chosen = chosen.map_batches(placed, batch_format="pyarrow", batch_size=None)
        chosen = chosen.repartition(count, keys=[PLACE]).materialize()
    # a Dataset forgets its blocks when it is forgotten: the references keep them
    refs = chosen.to_arrow_refs()
    blocks = [[ref] for ref in refs] if persons is None else _together(refs)
    wanted.like = _like(refs, names)
    if actors is None:
        actors = int(ray.cluster_resources().get("CPU", 1))
    if actors < 1:
        raise ValueError(f"actors is {actors}; give a whole number, at least 1")
    return RayPartitions(blocks, wanted, actors, persons)


__all__ = ["PartitionFailed", "RayPartitions", "partitions"]
