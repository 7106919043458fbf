"""Poisson batches of a data set, in parts that fit the memory.

The curator of the compiled library draws each batch; a batch that was drawn is released before another is drawn, also where a loop
is left early and entered again. Which records are in a batch, and how many, is as secret as the records.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sized
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from .._repeats import Form, of_arrays
from .synthetic import UnknownFormError, of_example, public_item, zeros

#: Entries of per-record gradients that are held at a time, if nothing else was asked for: 256 MiB of float32.
ENTRIES = 1 << 26


class Source:
    """Records by position, from a data set, a loader (its data set and `collate_fn`), or arrays of equal length.

    Parameters
    ----------
    data
        As in :func:`make_private`.
    example
        A batch of records that are not sensitive, in the form that the loader gives; None: there is none.
    """

    def __init__(self, data: Any, example: Any = None) -> None:
        #: Records of a batch of the loader; None where `data` is no loader.
        self.batch_size: int | None = None
        self._collate: Callable[[list[Any]], Any] = default_collate
        #: whether the types of the records were looked up in records
        self._types_found = False
        if isinstance(data, DataLoader):
            refuse_sampler(data)
            self.batch_size = data.batch_size
            self._collate = data.collate_fn or default_collate
            data = data.dataset
        elif not isinstance(data, Dataset) and not hasattr(data, "__getitems__") and isinstance(data, (tuple, list)):
            self._types_found = any(not hasattr(a, "dtype") for a in data)
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
        #: records that are not sensitive, as collate_fn takes them; None: an example is a batch, or there is none
        self.listed: list[Any] | None = None
        if self.collate is not None and isinstance(example, list):
            with contextlib.suppress(Exception):
                example, self.listed = self._collate(example), example
        #: makes a batch of one made-up record; None: its form is that of a record
        self._form: Callable[[], Any] | None = None
        if example is not None:
            of = of_example(example)
            self._form = lambda: of_example(of)
        else:
            with contextlib.suppress(UnknownFormError):
                item = public_item(data)
                self._form = partial(self._collated, item)
                self._form()

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

    @property
    def form_is_public(self) -> bool:
        """Whether what a batch looks like is known without a record: there may be none."""
        return self._form is not None and not self._types_found

    def at(self, positions: np.ndarray) -> Any:
        """The records at these positions, as a batch."""
        if self._tensors is not None:
            index = torch.from_numpy(positions)
            return tuple(t[index.to(t.device)] for t in self._tensors)
        return self._collate([self._data[i] for i in positions.tolist()])

    @property
    def collate(self) -> Callable[[list[Any]], Any] | None:
        """The user's function that puts records together; None where it is the usual one."""
        return None if self._collate is default_collate else self._collate

    @property
    def is_of_tensors(self) -> bool:
        """Whether what is given at a position is that row of tensors, and nothing that the user's code makes of others."""
        data = self._data
        while type(data) is Subset:
            data = data.dataset
        return type(data) is TensorDataset and self.collate is None

    def known_form(self) -> Any:
        """A batch of one made-up record; None where its form cannot be known without reading one."""
        return None if self._form is None else self._form()

    def synthetic(self) -> Any:
        """A batch of one record of zeros.

        Raises
        ------
        TypeError
            If the form of the records is not known, and is none that can be made up.
        """
        if self._form is None:
            self._form = self._form_of_a_record()
        return self._form()

    def _collated(self, item: Any) -> Any:
        if self._tensors is not None:
            return tuple(part.clone().unsqueeze(0) for part in item)
        try:
            return self._collate([zeros(item)])
        except Exception as why:
            failed = type(why).__name__
        raise ValueError(
            f"collate_fn does not take a record of zeros ({failed}), which stands in for an empty batch; give example=, a batch of non-sensitive records"
        )

    def _form_of_a_record(self) -> Callable[[], Any]:
        """The form of record 0, or of what is collated of zeros in its place: nothing else of it is kept."""
        item = self._data[0]
        try:
            batch = zeros(self._collate([item]), objects=False)
            return lambda: zeros(batch, objects=False)
        except UnknownFormError as why:
            unknown = str(why)
        with contextlib.suppress(UnknownFormError):
            alone = zeros(item)
            return partial(self._collated, alone)
        raise TypeError(
            f"an empty batch is replaced by a record of zeros, which cannot be built from {unknown}; give example=, a batch of non-sensitive records in the form that the loader returns (it is read before anything is charged)"
        )


def refuse_repeats(source: Source) -> None:
    """Refuses a data set that has a record in several places, where each place is protected by itself."""
    if _repeats(source._data):
        raise ValueError(
            "positions repeat in the data set (Subset, ConcatDataset), so that a record is at several positions, each of which is protected only by itself; give each record once, or give the owner of each position: units=, unit=dpopt.Unit(max_rows=...)"
        )


def _repeats(data: Any) -> bool:
    if type(data) is Subset:
        positions = np.asarray(data.indices)
        places = len(cast(Sized, data.dataset))
        # counted from the end where they are negative
        return len(np.unique(np.where(positions < 0, positions + places, positions))) < len(positions) or _repeats(
            data.dataset
        )
    if type(data) is ConcatDataset:
        return len({id(d) for d in data.datasets}) < len(data.datasets) or any(map(_repeats, data.datasets))
    return False


def refuse_sampler(loader: Any) -> None:
    """Refuses a loader that would give other records than all of its data set, each once: every one of them is in the draw here."""
    sampler, why = loader.sampler, None
    if type(loader).__iter__ is not DataLoader.__iter__:
        why = f"{type(loader).__name__} iterates in a way of its own"
    elif loader.batch_size is None:
        why = "the loader has a batch_sampler of its own, or makes no batches (batch_size=None)"
    elif loader.drop_last:
        why = "the loader leaves out the last records of a pass (drop_last=True)"
    elif type(sampler) not in (SequentialSampler, RandomSampler) or sampler.data_source is not loader.dataset:
        why = f"the loader has a sampler of its own ({type(sampler).__name__})"
    elif type(sampler) is RandomSampler and (sampler.replacement or sampler._num_samples is not None):
        why = "the loader's RandomSampler draws with replacement, or a part of the records"
    if why is not None:
        raise ValueError(
            f"{why}, which would have no effect: batches are Poisson samples of all records, drawn by dpopt. Give a plain DataLoader(dataset, batch_size=…); for a part of the records use torch.utils.data.Subset(dataset, positions)"
        )


class PoissonLoader:
    """One pass gives about as many batches as it takes to see each record once, in parts of at most `physical_batch_size` records.

    A batch without records gives one record of zeros, whose gradient is not counted: the loop takes as many steps as was planned,
    whatever was drawn.

    Attributes
    ----------
    physical_batch_size
        The most records at a time.
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
        # what cannot be made up is an error in every pass, whatever is drawn
        self._source.synthetic()
        last = min(optimizer.steps_taken + self._batches, optimizer.planned_steps)
        while optimizer.steps_taken < last:
            part = optimizer._next_part(self.physical_batch_size)
            batch = self._source.at(part) if len(part) else self._source.synthetic()
            optimizer._handed(batch)
            yield batch
            if optimizer._awaits():
                raise RuntimeError(
                    "the optimizer has not stepped on the last part of the batch; call step() for every part, since leaving one out would make the release depend on its records"
                )
