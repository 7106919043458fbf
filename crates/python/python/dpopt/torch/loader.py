"""Poisson batches of a data set, in parts that fit the memory.

The curator of the compiled library draws each batch; a batch that was drawn is released before another is drawn, also where a loop
is left early and entered again. Which records are in a batch, and how many, is as secret as the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, default_collate

from .._repeats import Form, of_arrays

#: Entries of per-record gradients that are held at a time, if nothing else was asked for: 256 MiB of float32.
ENTRIES = 1 << 26


def _made_up(value: Any) -> Any:
    """Zeros of the same shape: a record that is nobody's."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {k: _made_up(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_made_up(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


class Source:
    """Records by position, from a data set, a loader (its data set and `collate_fn`), or arrays of equal length."""

    def __init__(self, data: Any) -> None:
        #: of a loader
        self.batch_size: int | None = None
        self._collate: Callable[[list[Any]], Any] = default_collate
        if isinstance(data, DataLoader):
            self.batch_size = data.batch_size
            self._collate = data.collate_fn or default_collate
            data = data.dataset
        elif not isinstance(data, Dataset) and not hasattr(data, "__getitems__") and isinstance(data, (tuple, list)):
            tensors = [torch.as_tensor(np.asarray(a)) if not isinstance(a, torch.Tensor) else a for a in data]
            if len({len(t) for t in tensors}) != 1:
                raise ValueError("the arrays of the data must have one length: an entry per record in each")
            data = TensorDataset(*tensors)
        if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            raise TypeError(
                "batches are drawn by position: give a data set with a length and __getitem__, a loader of one, or arrays (X, y)"
            )
        self._data: Any = data
        self._tensors = data.tensors if type(data) is TensorDataset and self._collate is default_collate else None

    def __len__(self) -> int:
        return len(self._data)

    @property
    def form(self) -> Form:
        """What is public of the records, without one being read."""
        tensors = getattr(self._data, "tensors", None)
        if isinstance(tensors, tuple) and tensors:
            return of_arrays(tensors)
        kind = type(self._data)
        return Form(f"data sets of this class ({kind.__name__})", (kind.__module__, kind.__qualname__))

    def at(self, positions: np.ndarray) -> Any:
        """The records at these positions, as a batch."""
        if self._tensors is not None:
            index = torch.from_numpy(positions)
            return tuple(t[index.to(t.device)] for t in self._tensors)
        return self._collate([self._data[i] for i in positions.tolist()])

    @property
    def collate(self) -> Callable[[list[Any]], Any] | None:
        """Somebody's function that puts records together; None where it is the usual one."""
        return None if self._collate is default_collate else self._collate

    def empty_batch(self) -> Any:
        """An empty batch of the types and shapes of the records; None where they cannot be known without reading one."""
        data = self._data
        while type(data) is Subset:
            data = data.dataset
        if type(data) is TensorDataset and self._collate is default_collate:
            return tuple(t[:0] for t in data.tensors)
        return None

    def made_up(self) -> Any:
        """A batch of one record of zeros."""
        return _made_up(self.at(np.zeros(1, dtype=np.int64)))


class PoissonLoader:
    """One pass gives about as many batches as it takes to see each record once, in parts of at most `physical_batch_size` records.

    A batch without records gives one record of zeros, whose gradient is not counted: the loop takes as many steps as was planned,
    whatever was drawn.

    Attributes:
        physical_batch_size: the most records at a time.
    """

    def __init__(self, source: Source, optimizer: Any, batches: int, physical_batch_size: int) -> None:
        self._source = source
        self._optimizer = optimizer
        self._batches = batches
        self.physical_batch_size = physical_batch_size

    def __len__(self) -> int:
        """Batches of a pass, each of which is one step of the weights; how many parts they have is secret."""
        return self._batches

    def __iter__(self) -> Iterator[Any]:
        self._optimizer._refuse_beyond_plan()
        return self._parts()

    def _parts(self) -> Iterator[Any]:
        optimizer = self._optimizer
        last = min(optimizer.steps_taken + self._batches, optimizer.planned_steps)
        while optimizer.steps_taken < last:
            part = optimizer._next_part(self.physical_batch_size)
            batch = self._source.at(part) if len(part) else self._source.made_up()
            optimizer._handed(batch)
            yield batch
            if optimizer._awaits():
                raise RuntimeError(
                    "the optimizer has not stepped on the last part; leaving a part out would let its records decide about each other"
                )
