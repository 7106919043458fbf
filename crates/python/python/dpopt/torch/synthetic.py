"""A made-up record: zeros in the form that a data set gives its records in.

A batch without records must look like one with a record, or the loop would behave otherwise. What it is made of is a public fact (types and shapes of arrays,
or an example that is not sensitive) or the form of a record, of which everything is put to zero.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

#: Plain values, and those that say what a value is and not what it holds.
_PLAIN = (bool, int, float, complex, str, bytes, bytearray)
_KEPT = (type(None), torch.dtype, torch.device, torch.Size, torch.layout)


class UnknownFormError(TypeError):
    """Something of which no made-up one can be made."""


def zeros(value: Any, objects: bool = True) -> Any:
    """A value of the form of `value`, with zeros for all numbers and empty texts.

    Parameters
    ----------
    objects
        Objects of classes written in Python are made up from what they hold; otherwise they are unknown, but for data classes.

    Raises
    ------
    UnknownFormError
        If it is, or holds, what cannot be made up; its text is the name of that type.
    """
    return _Zeros(objects).of(value)


class _Zeros:
    def __init__(self, objects: bool) -> None:
        self._objects = objects
        self._within: list[int] = []

    def of(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return torch.zeros_like(value)
        if isinstance(value, np.ndarray) and value.dtype != object:
            return np.zeros_like(value)
        if isinstance(value, np.generic):
            return np.zeros((), value.dtype)[()]
        if kind in _PLAIN:
            return kind()
        if isinstance(value, _KEPT):
            return value
        if isinstance(value, enum.Enum):
            return next(iter(type(value)))
        if id(value) in self._within:
            raise UnknownFormError(kind.__name__)
        self._within.append(id(value))
        try:
            return self._parts(value)
        finally:
            self._within.pop()

    def _parts(self, value: Any) -> Any:
        kind, unknown = type(value), UnknownFormError(type(value).__name__)
        if isinstance(value, Mapping):
            made = {key: self.of(part) for key, part in value.items()}
            return made if kind is dict else _rebuilt(kind, made, unknown)
        if isinstance(value, (list, tuple)):
            parts = [self.of(part) for part in value]
            if kind in (list, tuple):
                return kind(parts)
            return kind(*parts) if hasattr(value, "_fields") else _rebuilt(kind, parts, unknown)
        if isinstance(value, (type, torch.nn.Module)) or callable(value):
            raise unknown
        held = _held(value)
        if held is None or not (self._objects or hasattr(kind, "__dataclass_fields__")):
            raise unknown
        made = {name: self.of(part) for name, part in held.items()}
        try:
            return _object(kind, made)
        except TypeError:
            raise unknown from None


def _object(kind: type, held: dict[str, Any]) -> Any:
    """An object that holds this, without a call of its constructor."""
    out: Any = object.__new__(kind)
    for name, part in held.items():
        object.__setattr__(out, name, part)
    return out


def _rebuilt(kind: type, parts: Any, unknown: UnknownFormError) -> Any:
    """A container of a class of its own, made of the parts by its constructor."""
    try:
        made = kind(parts)
        same = len(made) == len(parts) and (not isinstance(parts, dict) or set(made) == set(parts))
    except Exception:
        same = False
    if same:
        return made
    if isinstance(parts, dict) and issubclass(kind, dict):
        return parts
    raise unknown from None


def _held(value: Any) -> dict[str, Any] | None:
    """What an object of a class written in Python holds, by name; None for others."""
    kind = type(value)
    if not kind.__flags__ & (1 << 9):  # a heap type: one that was not made in C
        return None
    slots = [s for k in kind.__mro__ for s in _slots(k) if s not in ("__dict__", "__weakref__")]
    held = {s: getattr(value, s) for s in slots if hasattr(value, s)} | getattr(value, "__dict__", {})
    return held if slots or hasattr(value, "__dict__") else None


def _slots(kind: type) -> list[str]:
    named = vars(kind).get("__slots__", ())
    return [named] if isinstance(named, str) else list(named)


def of_example(value: Any) -> Any:
    """A made-up batch of one record, from a batch of some that are not sensitive: what cannot be put to zero stays as it is.

    Raises
    ------
    ValueError
        If it holds no tensor, or several records and something that cannot be put to zero.
    """
    records = _records(value)
    if records is None:
        raise ValueError(
            "example holds no tensor with records on its first axis; give a batch in the form that the loader returns"
        )
    return _one(value, records)


def _records(value: Any) -> int | None:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return len(value) if value.ndim else None
    if isinstance(value, Mapping):
        parts: Any = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    else:
        parts = (_held(value) or {}).values()
    return next((n for n in map(_records, parts) if n is not None), None)


def _one(value: Any, records: int) -> Any:
    """One record of a batch of so many, of zeros where they can be."""
    kind = type(value)
    if isinstance(value, (torch.Tensor, np.ndarray)):
        cut = value[:1] if value.ndim and len(value) == records else value
        return zeros(cut)
    if isinstance(value, Mapping):
        made = {key: _one(part, records) for key, part in value.items()}
        return made if kind is dict else _rebuilt(kind, made, UnknownFormError(kind.__name__))
    if isinstance(value, (list, tuple)):
        # of each record one text or number
        alone = len(value) == records and all(isinstance(part, (*_PLAIN, *_KEPT)) for part in value)
        parts = [_one(part, records) for part in (value[:1] if alone else value)]
        if kind in (list, tuple):
            return kind(parts)
        return kind(*parts) if hasattr(value, "_fields") else _rebuilt(kind, parts, UnknownFormError(kind.__name__))
    held = _held(value)
    if held is not None and hasattr(kind, "__dataclass_fields__"):
        return _object(kind, {name: _one(part, records) for name, part in held.items()})
    try:
        return zeros(value)
    except UnknownFormError:
        if records == 1:
            return value
        raise ValueError(
            f"example has {records} records and holds {kind.__name__}, which cannot be split; give an example of one record"
        ) from None


def public_item(data: Any) -> Any:
    """A record of zeros of a data set whose form is known without looking at a record: tensors, and selections of such data sets.

    Raises
    ------
    UnknownFormError
        Of other data sets.
    """
    kind = type(data)
    if kind is TensorDataset and all(t.layout is torch.strided for t in data.tensors):
        return tuple(t.new_zeros(t.shape[1:]) for t in data.tensors)
    if kind is Subset:
        return public_item(data.dataset)
    if kind is ConcatDataset:
        return public_item(data.datasets[0])
    if kind is StackDataset:
        of = data.datasets
        return {k: public_item(d) for k, d in of.items()} if isinstance(of, dict) else tuple(public_item(d) for d in of)
    raise UnknownFormError(kind.__name__)


__all__ = ["UnknownFormError", "of_example", "public_item", "zeros"]
