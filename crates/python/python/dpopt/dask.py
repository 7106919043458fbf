"""Records in Dask: arrays and data frames whose blocks lie with the workers.

    client = distributed.Client(...)
    parts = dpopt.dask.partitions(frame, target="income")         # a Dask DataFrame, or two Dask arrays X and y
    model = dpopt.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1]).fit(parts)

Each block of rows becomes a partition that stays in its worker's memory, encoded (8 bytes for each number that is not 0), from the first pass
to the last. If a worker is lost, Dask makes its partitions again from the blocks; if it moves one, the partition travels. They and the queries
are as sensitive as the records: ``distributed.security.Security`` has TLS for everything that travels between the machines; what a worker spills
lies on its disk in the clear. Persist what comes out of a source without a fixed order, or the rows of X and y that belong together may not
be computed together. Workers need the same version of dpopt.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _core
from .partitions import Failure, PartitionFailed, Partitions, Persons, Recipe, all_of, tried

#: Columns in which rows of units are brought together: where to, and the rows as one text.
PLACE, ROWS = "place", "rows"


class DaskPartitions(Partitions):
    """Blocks of rows that Dask's workers hold; :func:`parts` makes them."""

    def __init__(
        self,
        blocks: list[Any],
        n_features: int,
        names: Sequence[str] | None,
        client: Any,
        *,
        units: Persons | None = None,
        targets: bool = True,
        like: Any = None,
        target: str | None = None,
    ) -> None:
        super().__init__(n_features, names, units=units, targets=targets, like=like, target=target)
        self._blocks, self._client = blocks, client
        self._shards: list[Any] = []

    def load_partitions(self, recipe: Recipe) -> list[tuple[int, int, int, bytes]]:
        submit = self._client.submit
        self._shards = [submit(_made, recipe, block, part, pure=False) for part, block in enumerate(self._blocks)]
        return self._gathered([submit(_known_of, shard, pure=False) for shard in self._shards])

    def ask_partitions(self, message: bytes) -> list[bytes]:
        # a task of its own, so that it is there again if its worker is lost
        sent = self._client.submit(_same, _Message(message), pure=False)
        return self._gathered([self._client.submit(_answer, shard, sent, pure=False) for shard in self._shards])

    def _gathered(self, futures: list[Any]) -> list[Any]:
        return all_of(_by_dask(self._client.gather, futures))

    def drop_partitions(self) -> None:
        self._shards = []


def _by_dask(call: Callable[..., Any], *given: Any) -> Any:
    """What Dask does of its own; what it raises may quote a value of a block, or of what a block is computed from.

    Raises
    ------
    PartitionFailed
        With the kind of what was raised.
    """
    try:
        return call(*given)
    except Exception as why:
        kind = type(why).__name__
    raise PartitionFailed(
        f"Dask could not compute a partition ({kind}); see the logs of its workers, which may contain records"
    )


class _Message:
    """An aggregate query; as sensitive as the records, and never shown."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __repr__(self) -> str:
        return "<query>"


class _Block:
    """Rows with their targets, computed together; their text would show them in a worker's log."""

    def __init__(self, X: Any, y: Any = None, ids: Any = None) -> None:
        self.X, self.y, self.ids = X, y, ids

    def __repr__(self) -> str:
        return "<rows>"


def _same(message: _Message) -> _Message:
    return message


def _split(frame: Any, features: list[Any], target: Any, unit: Any) -> _Block:
    return _Block(frame[features], None if target is None else frame[target], None if unit is None else frame[unit])


def _of_a_frame(frame: Any, features: list[Any], target: Any, unit: Any) -> Any:
    return tried(_split, frame, features, target, unit)


def _packed(frame: Any, persons: Persons, places: int) -> list[tuple[int, str]]:
    """Rows of each place as one text: whatever types their columns have, a shuffle does not convert a value."""
    to = persons.places(frame[persons.name], places)
    return [(int(place), _text(frame[to == place])) for place in np.unique(to)]


def _text(rows: Any) -> str:
    return base64.b85encode(pickle.dumps(rows)).decode()


def _placed(frame: Any, persons: Persons, places: int) -> Any:
    """Where rows of each unit are brought together, and the rows; a failure, if it is one, goes where rows may go."""
    import pandas as pd

    found = tried(_packed, frame, persons, places)
    if isinstance(found, Failure):
        found = [(0, _text(found))]
    return pd.DataFrame({PLACE: np.array([place for place, _ in found], np.int64), ROWS: [rows for _, rows in found]})


def _unpacked(frame: Any, empty: Any, features: list[Any], target: Any, unit: Any) -> _Block:
    import pandas as pd

    pieces = all_of(pickle.loads(base64.b85decode(rows)) for rows in frame[ROWS])
    return _split(pd.concat(pieces) if pieces else empty, features, target, unit)


def _of_texts(frame: Any, empty: Any, features: list[Any], target: Any, unit: Any) -> Any:
    """The rows that were brought together, or why they were not."""
    return tried(_unpacked, frame, empty, features, target, unit)


def _made(recipe: Recipe, block: Any, part: int) -> Any:
    return tried(recipe, block.X, block.y, part, block.ids) if isinstance(block, _Block) else block


def _known_of(shard: Any) -> Any:
    return shard.known if isinstance(shard, _core.Shard) else shard


def _answer(shard: Any, message: _Message) -> Any:
    return tried(shard.answer, message.content, True) if isinstance(shard, _core.Shard) else shard


def partitions(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
    units: str | None = None,
    client: Any = None,
) -> DaskPartitions:
    """The blocks of a Dask array or data frame as parts of records.

    Parameters
    ----------
    X
        A Dask array, rows × features, or a Dask DataFrame. Persist what is slow or random to compute: a block that changes ends the fit.
    y
        Beside an array, a Dask array with one target per row in the same blocks; None where nothing is predicted.
    target
        Of a data frame, the column that is predicted; None where nothing is.
    features
        Columns of a data frame; by default all but the target and the unit.
    units
        Of a data frame, the column whose values are persons, where one may have several rows: the rows of each are brought into one partition
        (a shuffle).
    client
        ``distributed.Client``; by default the current one.

    Raises
    ------
    ValueError
        If blocks of X and y do not correspond, or there is no client.
    """
    import dask
    from distributed import get_client

    try:
        client = client or get_client()
    except ValueError:
        raise ValueError(
            "there is no Dask client to hold the partitions; start one, distributed.Client() for processes on this machine"
        ) from None
    names: list[Any] | None = None
    persons: Persons | None = None
    like: Any = None
    if hasattr(X, "columns"):
        columns = list(X.columns)
        if y is not None:
            # a block of X and one of y that are computed one by one may be of different rows
            raise ValueError("no target is given; give the name of its column, target='column'")
        others = [name for name in (target, units) if name is not None]
        names = [name for name in columns if name not in others] if features is None else list(features)
        missing = [name for name in [*names, *others] if name not in columns]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r} in X; it has {', '.join(map(str, columns))}")
        width = len(names)
        like = X._meta[names]
        wanted = X[[*names, *others]]
        if units is not None:
            persons = Persons.called(units)
            places = int(X.npartitions)
            empty = wanted._meta
            wanted = wanted.map_partitions(_placed, persons, places, meta={PLACE: np.int64, ROWS: object})
            wanted = _by_dask(lambda: wanted.shuffle(on=PLACE, npartitions=places, ignore_index=True))
            made = dask.delayed(_of_texts, pure=False)
            left = [made(block, empty, names, target, units) for block in _blocks(wanted)]
        else:
            made = dask.delayed(_of_a_frame, pure=False)
            left = [made(block, names, target, units) for block in _blocks(wanted)]
        y = target
    else:
        if target is not None or features is not None or units is not None:
            raise ValueError(
                "target, features and units name columns of a data frame, and X is an array; give y, and a data frame where there are units"
            )
        if len(X.shape) != 2:
            raise ValueError(f"X has {len(X.shape)} dimensions; give rows × features")
        # all features of a row in one block
        X = X.rechunk({1: -1})
        width = int(X.shape[1])
        if y is None:
            made = dask.delayed(_Block, pure=False)
            left = [made(block) for block in _blocks(X)]
            return DaskPartitions(_by_dask(client.compute, left), width, None, client, targets=False)
        if len(y.shape) == 1 and None not in map(_known, (X.chunks[0], y.chunks[0])) and X.chunks[0] != y.chunks[0]:
            y = y.rechunk({0: X.chunks[0]})
        rows, targets = _blocks(X), _blocks(y)
        if len(rows) != len(targets):
            raise ValueError(f"X is in {len(rows)} blocks of rows and y in {len(targets)}; give both the same")
        made = dask.delayed(_Block, pure=False)
        left = [made(*pair) for pair in zip(rows, targets)]
    named = None if names is None else [str(name) for name in names]
    return DaskPartitions(
        _by_dask(client.compute, left),
        width,
        named,
        client,
        units=persons,
        targets=y is not None,
        like=like,
        target=target,
    )


def _known(sizes: Any) -> Any:
    """Sizes of blocks, None where Dask does not know them."""
    return None if any(size != size for size in sizes) else sizes


def _blocks(collection: Any) -> list[Any]:
    # as they are: what is common to X and y keeps its name, and is computed once for both
    delayed = collection.to_delayed(optimize_graph=False)
    return list(delayed.ravel()) if hasattr(delayed, "ravel") else list(delayed)


__all__ = ["DaskPartitions", "PartitionFailed", "partitions"]
