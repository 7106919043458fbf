"""Parameters as the user's program has them (one array, or dicts, lists and tuples of arrays) and as one vector; records by position."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ._reading import attempt, kind


def library(array: Any) -> str:
    """``numpy``, ``torch`` or ``jax``: whose arrays these are."""
    module = type(array).__module__.split(".")[0]
    if module == "torch" or (module not in ("numpy", "builtins") and _is(array, "torch", "Tensor")):
        return "torch"
    return "jax" if module in ("jax", "jaxlib") else "numpy"


def _is(array: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(array, getattr(loaded, name))


def to_numpy(array: Any) -> np.ndarray:
    """Floats, without a copy where possible: f32 stays f32, all else is f64."""
    if library(array) == "torch":
        array = array.detach().cpu()
        if str(array.dtype) in ("torch.bfloat16", "torch.float16"):
            array = array.float()
        array = array.numpy()
    found = np.asarray(array)
    if found.dtype.kind not in "fiub":
        raise TypeError("an array holds something other than numbers; give arrays of numbers")
    return found if found.dtype in (np.float32, np.float64) else found.astype(np.float64)


class Leaves:
    """The arrays of a tree, side by side as one vector."""

    def __init__(self, tree: Any, name: str) -> None:
        self._arrays: list[Any] = []
        self._rebuild = self._walk(tree, name)
        if not self._arrays:
            raise ValueError(f"{name} has no array in it; give the parameters to start from")
        self._shapes = [tuple(np.shape(a)) for a in self._arrays]
        self._sizes = [math.prod(shape) for shape in self._shapes]

    def _walk(self, tree: Any, name: str) -> Callable[[list[Any]], Any]:
        if isinstance(tree, dict):
            parts = {key: self._walk(value, name) for key, value in tree.items()}
            return lambda leaves: {key: part(leaves) for key, part in parts.items()}
        if isinstance(tree, (list, tuple)) and any(hasattr(v, "shape") or isinstance(v, (dict, list)) for v in tree):
            walked = [self._walk(value, name) for value in tree]
            make = type(tree) if type(tree) in (list, tuple) else tuple
            return lambda leaves: make(part(leaves) for part in walked)
        if not hasattr(tree, "shape"):
            if not isinstance(tree, (int, float, list, tuple)):
                raise TypeError(f"{name} is {kind(tree)}; give an array, or dicts, lists and tuples of arrays")
            numbers = attempt(lambda: np.asarray(tree, dtype=np.float64))
            if numbers is None:
                raise TypeError(f"{name} holds something else than numbers; give arrays of numbers")
            tree = numbers
        place = len(self._arrays)
        self._arrays.append(tree)
        return lambda leaves: leaves[place]

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(self._sizes)

    def vector(self) -> np.ndarray:
        """All numbers as one vector of f64."""
        return np.concatenate([to_numpy(a).astype(np.float64).ravel() for a in self._arrays])

    def tree(self, vector: np.ndarray) -> Any:
        """A vector in the form, the type and the library of the arrays."""
        leaves, start = [], 0
        for like, shape, size in zip(self._arrays, self._shapes, self._sizes):
            part = vector[start : start + size].reshape(shape)
            start += size
            leaves.append(_like(part, like))
        return self._rebuild(leaves)

    def same(self, tree: Any) -> np.ndarray:
        """Arrays in the same form and of the same shapes, as one vector of f64."""
        found = Leaves(tree, "what was given")
        if found._shapes != self._shapes:
            raise ValueError(
                "the argument does not have the structure of the parameters; give one array of the same shape for each"
            )
        return found.vector()

    def rows(self, tree: Any) -> list[np.ndarray]:
        """Per-record arrays in the same form, each as records × numbers."""
        found = Leaves(tree, "what the objective gave")
        if len(found._arrays) != len(self._arrays):
            raise ValueError(
                "the objective did not return the structure of the parameters; return one array of records × shape for each"
            )
        rows = []
        for given, shape, size in zip(found._arrays, self._shapes, self._sizes):
            flat = to_numpy(given)
            if flat.ndim != len(shape) + 1 or flat.shape[1:] != shape:
                raise ValueError(
                    f"the objective did not return an array of records × {' × '.join(map(str, shape)) or '1 number'} for a parameter of that shape"
                )
            rows.append(np.ascontiguousarray(flat.reshape(len(flat), size)))
        return rows


def _like(values: np.ndarray, like: Any) -> Any:
    where = library(like)
    if where == "torch":
        import torch

        return torch.as_tensor(np.array(values), dtype=like.dtype, device=like.device)
    if where == "jax":
        import jax.numpy as jnp

        return jnp.asarray(values, dtype=like.dtype)
    dtype = getattr(like, "dtype", np.float64)
    return np.array(values, dtype=dtype if np.dtype(dtype).kind == "f" else np.float64)


class Records:
    """One array, or a tuple of them with a record in each row: read by position."""

    def __init__(self, data: Any) -> None:
        #: as they were given
        self.arrays = list(data) if isinstance(data, (tuple, list)) else [data]
        for part in self.arrays:
            if not hasattr(part, "shape") or len(part.shape) == 0:
                raise TypeError(f"data is {kind(part)}; give an array with a record in each row, or a tuple of such")
        if len({part.shape[0] for part in self.arrays}) != 1:
            raise ValueError("the arrays of data have different numbers of rows; give one row for each record")

    def __len__(self) -> int:
        return int(self.arrays[0].shape[0])

    def at(self, positions: np.ndarray) -> list[Any]:
        """Those rows of each array."""
        return [_taken(part, positions.astype(np.int64)) for part in self.arrays]


def _taken(part: Any, positions: np.ndarray) -> Any:
    if library(part) == "torch":
        import torch

        return part[torch.from_numpy(positions).to(part.device)]
    return part.iloc[positions] if hasattr(part, "iloc") else part[positions]


__all__ = ["Leaves", "Records", "library", "to_numpy"]
