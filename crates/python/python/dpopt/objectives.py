"""Losses that the compiled library evaluates itself: many times as fast as a callable, with the same guarantee.

Each is given to :func:`dpopt.minimize` in place of a function:

>>> import numpy as np, dpopt
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, (20_000, 2))
>>> y = rng.poisson(np.exp(X @ [1.0, -0.5]))
>>> counts = dpopt.objectives.PoissonRegression(n_features=2)
>>> found = dpopt.minimize(counts, (X, y), epsilon=1.0, delta=1e-6)
>>> bool(np.abs(found.x - [1.0, -0.5]).max() < 0.3)
True

Gradients are clipped: none of these losses has slopes that are bounded by themselves. A loss of Cox's partial likelihood is not here: what it says of one record
depends on everybody who was at risk at the same time, so that a person moves the terms of all others and clipping per record protects nobody.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from . import _core
from ._reading import attempt, number, whole


class Objective:
    """A loss that the library knows: made by the classes of this module."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told
        self._native = _core.NativeObjective(json.dumps(told))

    @property
    def dimension(self) -> int:
        """How many numbers are chosen."""
        return self._native.dimension()

    def start(self, seed: int | None = None) -> np.ndarray:
        """Where :func:`dpopt.minimize` starts by default: zeros, or random numbers where zeros are no place to start from. No record has a part in it."""
        return self._native.start(None if seed is None else whole(seed, "seed") % 2**64)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._told.items() if name != "objective")
        return f"{type(self).__name__}({said})"

    def __reduce__(self) -> Any:
        return _restored, (type(self), self._told)

    def _records(self, data: Any) -> tuple[Any, int]:
        """The data as the library reads them, and how many records there are."""
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise TypeError("data must be a pair: rows and their targets")
        rows, targets = (_numbers(part, np.float32) for part in data)
        if rows.ndim != 2 or targets.ndim != 1 or len(rows) != len(targets):
            raise ValueError("data must be rows (a table of numbers) and as many targets")
        if rows.shape[1] != self._width():
            raise ValueError(f"rows have {rows.shape[1]} columns, and the objective was made for {self._width()}")
        return (rows, targets), len(rows)

    def _width(self) -> int:
        return int(self._told["features"])


def _restored(kind: type[Objective], told: dict[str, Any]) -> Objective:
    made: Objective = kind.__new__(kind)
    Objective.__init__(made, told)
    return made


def _numbers(part: Any, dtype: Any) -> np.ndarray:
    """An array of numbers; what is no number is not told."""
    if hasattr(part, "detach"):
        part = part.detach().cpu().numpy()
    found = attempt(lambda: np.ascontiguousarray(np.asarray(part), dtype=dtype))
    if found is None:
        raise TypeError("data holds something else than numbers, or rows of different lengths; give arrays of numbers")
    return found


def _scored(n_features: Any, loss: dict[str, Any]) -> dict[str, Any]:
    features = whole(n_features, "n_features")
    if features < 1:
        raise ValueError("n_features must be at least 1")
    return {"objective": "scored", "loss": loss, "features": features}


class RobustRegression(Objective):
    """Geman and McClure's loss ½r²/(1 + r²/scale²) of the residual r = ⟨x, row⟩ − target: residuals far beyond `scale` hardly count. Not convex."""

    def __init__(self, n_features: int, *, scale: float = 1.0) -> None:
        super().__init__(_scored(n_features, {"loss": "geman-mc-clure", "scale": number(scale, "scale")}))


class PoissonRegression(Objective):
    """Counts with mean exp(⟨x, row⟩): exp(s) − target·s. Targets below 0 contribute nothing."""

    def __init__(self, n_features: int) -> None:
        super().__init__(_scored(n_features, {"loss": "poisson"}))


class NegativeBinomialRegression(Objective):
    """Counts with mean m = exp(⟨x, row⟩) and variance m + dispersion·m². Targets below 0 contribute nothing."""

    def __init__(self, n_features: int, *, dispersion: float = 1.0) -> None:
        loss = {"loss": "negative-binomial", "dispersion": number(dispersion, "dispersion")}
        super().__init__(_scored(n_features, loss))


class PhaseRetrieval(Objective):
    """¼(⟨x, row⟩² − target)²: a signal from squared amplitudes, up to its sign. Not convex: start near an estimate, or at random (`start=`)."""

    def __init__(self, n_features: int) -> None:
        super().__init__(_scored(n_features, {"loss": "phase-retrieval"}))

    def start(self, seed: int | None = None) -> np.ndarray:
        """Small random numbers: at zero every gradient is zero."""
        coins = _core.random_below(1 << 53, 2 * self.dimension, seed).astype(np.float64) / (1 << 53)
        first, second = coins.reshape(2, -1)
        return 0.1 * np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)


class MatrixFactorization(Objective):
    """½(⟨u_row, v_column⟩ − value)² for entries of a matrix of n_rows × n_columns; data: an array with row, column and value of an entry in each row.

    The answer is all u, then all v, each of `rank` numbers: :meth:`factors` gives them as two matrices. **A record is an entry**: a person with several
    entries is protected for one of them.
    """

    def __init__(self, n_rows: int, n_columns: int, rank: int) -> None:
        sizes = {"rows": whole(n_rows, "n_rows"), "columns": whole(n_columns, "n_columns"), "rank": whole(rank, "rank")}
        if min(sizes.values()) < 1:
            raise ValueError("n_rows, n_columns and rank must be at least 1")
        super().__init__({"objective": "factorization", **sizes})

    def factors(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The answer as U (n_rows × rank) and V (n_columns × rank)."""
        both = _numbers(x, np.float64).reshape(-1, self._told["rank"])
        return both[: self._told["rows"]], both[self._told["rows"] :]

    def _records(self, data: Any) -> tuple[Any, int]:
        cells = _numbers(data, np.float64)
        if cells.ndim != 2 or cells.shape[1] != 3:
            raise ValueError("data must be an array with row, column and value of an entry in each of its rows")
        return cells, len(cells)


class Network(Objective):
    """A small neural network, trained natively: dense layers and convolutions with ReLU between them.

    Parameters
    ----------
    input_shape
        Length of a row, or (channels, height, width) of a picture whose numbers are the row, channel after channel.
    layers
        Numbers of outputs of dense layers, or ``("conv", channels, kernel, stride)``; the last one is the answer: one number per class, or 1.
    loss
        ``"cross-entropy"`` (targets are classes 0, 1, …) or ``"squared"``.

    Examples
    --------
    >>> import dpopt
    >>> dpopt.objectives.Network((1, 8, 8), [("conv", 8, 3, 2), 10]).dimension
    810
    """

    def __init__(self, input_shape: int | Sequence[int], layers: Sequence[Any], *, loss: str = "cross-entropy") -> None:
        sides = None if isinstance(input_shape, (int, np.integer)) else attempt(partial(list, input_shape))
        picture = [1, 1, input_shape] if sides is None else sides
        if len(picture) != 3:
            raise ValueError("input_shape is the length of a row, or (channels, height, width)")
        if not isinstance(loss, str) or loss not in ("cross-entropy", "squared"):
            raise ValueError('loss must be "cross-entropy" or "squared"')
        super().__init__({
            "objective": "network", "input": [whole(side, "input_shape") for side in picture],
            "layers": [self._layer(layer) for layer in (attempt(lambda: list(layers)) or [])], "loss": loss,
        })  # fmt: skip

    @staticmethod
    def _layer(layer: Any) -> dict[str, Any]:
        if isinstance(layer, (int, np.integer)):
            return {"layer": "dense", "outputs": max(int(layer), 0)}
        if isinstance(layer, (tuple, list)) and len(layer) == 4 and layer[0] == "conv":
            names = ("channels", "kernel", "stride")
            return {"layer": "convolution", **{name: max(whole(v, name), 0) for name, v in zip(names, layer[1:])}}
        raise ValueError('a layer is a number of outputs, or ("conv", channels, kernel, stride)')

    def _width(self) -> int:
        channels, height, width = self._told["input"]
        return channels * height * width

    def outputs(self, x: np.ndarray, rows: Any) -> np.ndarray:
        """What the network with parameters `x` gives for each row: scores of the classes, or one number."""
        given = _numbers(rows, np.float64)
        if given.ndim != 2 or given.shape[1] != self._width():
            raise ValueError(f"rows must be a table of {self._width()} columns")
        return self._native.outputs(_numbers(x, np.float64).ravel(), given)

    def predict(self, x: np.ndarray, rows: Any) -> np.ndarray:
        """The class with the largest score of each row, or the number."""
        outputs = self.outputs(x, rows)
        return outputs[:, 0] if self._told["loss"] == "squared" else outputs.argmax(axis=1)


__all__ = [
    "MatrixFactorization",
    "NegativeBinomialRegression",
    "Network",
    "PhaseRetrieval",
    "PoissonRegression",
    "RobustRegression",
]
