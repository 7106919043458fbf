"""Records in Ray: a dataset's blocks, held by actors.

    parts = dpopt.ray.parts(dataset, target="income")        # a ray.data.Dataset
    model = dpopt.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1]).fit(parts)

Actors keep the encoded parts in memory from the first pass to the last. One that is lost is started again and makes its parts anew
from the blocks of the dataset, which Ray keeps or computes again. Blocks and partial sums are as sensitive as the records:
``RAY_USE_TLS`` encrypts what travels between the machines. Workers need the same version of dpopt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from .parts import PartFailed, Parts, Recipe, all_of, tried

#: How often a lost actor is started again, and its parts are made again for one question.
ATTEMPTS = 3


class _Holder:
    """An actor: some parts, by number."""

    def __init__(self) -> None:
        self.shards: dict[int, Any] = {}

    def load(self, recipe: Recipe, block: Any, part: int, features: list[str], target: str) -> Any:
        made = tried(_made, recipe, block, part, features, target)
        if isinstance(made, _core.Shard):
            self.shards[part] = made
            return made.known
        return made

    def answer(self, message: bytes, parts: list[int]) -> Any:
        """Answers of the parts that are here, in order; None of one that is not."""
        return [tried(self.shards[part].answer, message, True) if part in self.shards else None for part in parts]


def _made(recipe: Recipe, block: Any, part: int, features: list[str], target: str) -> Any:
    if block.num_rows == 0:
        # some blocks without rows have no columns either
        return recipe(np.zeros((0, len(features))), np.zeros(0), part)
    X = np.column_stack([block.column(name).to_numpy(zero_copy_only=False) for name in features])
    return recipe(X, block.column(target).to_numpy(zero_copy_only=False), part)


class RayParts(Parts):
    """Blocks of a dataset that actors hold; :func:`parts` makes them."""

    def __init__(self, blocks: list[Any], features: list[str], target: str, actors: int) -> None:
        super().__init__(len(features), features)
        self._blocks, self._target, self._wanted = blocks, target, actors
        self._holders: list[Any] = []
        self._recipe: Recipe | None = None

    def _of(self, holder: int) -> list[int]:
        """Numbers of the parts of an actor."""
        return list(range(holder, len(self._blocks), len(self._holders)))

    def _loading(self, holder: int) -> list[Any]:
        actor = self._holders[holder]
        return [
            actor.load.remote(self._recipe, self._blocks[part], part, self.feature_names, self._target)
            for part in self._of(holder)
        ]

    def load_parts(self, recipe: Recipe) -> list[tuple[int, int]]:
        import ray

        self._recipe = recipe
        # no CPU of their own: they work only while a question waits, and a dataset that is read meanwhile would wait for them
        actor = ray.remote(num_cpus=0, scheduling_strategy="SPREAD", max_restarts=ATTEMPTS, max_task_retries=ATTEMPTS)(
            _Holder
        )
        count = min(self._wanted, max(len(self._blocks), 1))
        self._holders = [actor.remote() for _ in range(count)]
        known = [(0, 0)] * len(self._blocks)
        asked = [self._loading(holder) for holder in range(count)]
        for holder, refs in enumerate(asked):
            for part, records in zip(self._of(holder), all_of(ray.get(refs))):
                known[part] = records
        return known

    def ask_parts(self, message: bytes) -> list[bytes]:
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
        raise PartFailed(f"actors were lost {ATTEMPTS} times while one question was asked; see Ray's own log")

    def drop_parts(self) -> None:
        import ray

        for holder in self._holders:
            ray.kill(holder)
        self._holders = []


def parts(dataset: Any, *, target: str, features: Sequence[str] | None = None, actors: int | None = None) -> RayParts:
    """The blocks of a Ray dataset as parts of records.

    Args:
        dataset: ``ray.data.Dataset`` with a column for each feature. Its blocks are computed once and kept (``materialize``).
        target: the column that is predicted.
        features: columns; by default all but the target.
        actors: how many hold the parts. By default as many as the cluster has CPUs.

    Raises:
        ValueError: if there is no such column.
    """
    import ray

    columns = list(dataset.columns() or [])
    names = [name for name in columns if name != target] if features is None else list(features)
    missing = [name for name in [*names, target] if name not in columns]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r} in the dataset; it has {', '.join(columns)}")
    # a Dataset forgets its blocks when it is forgotten: the references keep them
    blocks = dataset.select_columns([*names, target]).materialize().to_arrow_refs()
    if actors is None:
        actors = int(ray.cluster_resources().get("CPU", 1))
    if actors < 1:
        raise ValueError(f"actors is {actors}; give a whole number, at least 1")
    return RayParts(blocks, names, target, actors)


__all__ = ["PartFailed", "RayParts", "parts"]
