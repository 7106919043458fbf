"""Single private releases: clipped sums, counts, choices, label sets.

Each function releases once, is done by the compiled library (secure noise, exact integer sums on a public grid) and
returns a :class:`Release` that knows its event, so that it can be charged to a ledger:

>>> import numpy as np, dpopt
>>> from dpopt import mechanisms
>>> ages = np.random.default_rng(0).uniform(18, 80, (1000, 1))
>>> ledger = dpopt.Ledger(1.0, 1e-6)
>>> release = mechanisms.gaussian_sum(ages, clip_norm=80, epsilon=0.5, delta=1e-7, ledger=ledger)
>>> release.event.event
GaussianDpEvent(noise_multiplier=7.867...)
>>> ledger.remaining[0]
0.5
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from . import _core, accounting
from .ledger import Ledger

#: Total variation of one rounded Gaussian sample, and of one sample of the discrete samplers, from the exact law.
GAUSSIAN_SAMPLER_ERROR = 2.0**-110
DISCRETE_SAMPLER_ERROR = 2.0**-170


@dataclass(frozen=True)
class Release:
    """A released value with the event that it cost."""

    value: Any
    event: accounting.DpEvent
    epsilon: float
    delta: float

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype=dtype)


def _matrix(values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise ValueError("give one row per record: a vector, or a matrix rows × coordinates")
    return np.ascontiguousarray(values)


def _pay(name: str, event: Any, epsilon: float, delta: float, relation: str, ledger: Ledger | None) -> accounting.DpEvent:
    event = accounting.as_event(event)
    if ledger is None:
        accounting.certify(event, epsilon, delta, relation=relation)
    else:
        ledger.charge(name, event, epsilon=epsilon, delta=delta, relation=relation)
    return event


def gaussian_sum(
    values: Any,
    clip_norm: float,
    *,
    epsilon: float,
    delta: float,
    relation: str = "zero-out",
    n_rows: int | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Σ of rows clipped to l2 norm `clip_norm`, with the least Gaussian noise that meets (ε, δ).

    Args:
        values: one row per record.
        n_rows: public number of rows (for the grid only); counted unless the relation protects it, then required.
    """
    values = _matrix(values)
    records = _records(len(values), n_rows, relation)
    error = values.shape[1] * GAUSSIAN_SAMPLER_ERROR
    found = accounting.calibrate(
        lambda z: accounting.ApproximateDpEvent(error, accounting.GaussianDpEvent(z)), epsilon, delta, relation=relation
    )
    _pay("gaussian sum", found.event, epsilon, delta, relation, ledger)
    total = _core.gaussian_sum(values, float(clip_norm), found.value, records, insecure_seed, 0)
    return Release(total, found.event, epsilon, delta)


def laplace_sum(
    values: Any,
    clip_norm: float,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: str = "zero-out",
    n_rows: int | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Σ of rows clipped to l1 norm `clip_norm`, with Laplace noise: ε-DP up to the sampler's error of about 1e-51.

    >>> r = laplace_sum([0.2, 0.9, 4.0], 1.0, epsilon=50.0, delta=1e-9, insecure_seed=1)
    >>> bool(abs(float(r.value[0]) - 2.1) < 0.5)
    True
    """
    values = _matrix(values)
    records = _records(len(values), n_rows, relation)
    # the sampler's error needs a δ, however small
    allowed = delta if delta > 0 else 1e-30
    error = values.shape[1] * DISCRETE_SAMPLER_ERROR
    found = accounting.calibrate(
        lambda b: accounting.ApproximateDpEvent(error, accounting.LaplaceDpEvent(b)), epsilon, allowed, relation=relation
    )
    _pay("laplace sum", found.event, epsilon, allowed, relation, ledger)
    total = _core.laplace_sum(values, float(clip_norm), found.value, records, insecure_seed)
    return Release(total, found.event, epsilon, allowed)


def discrete_laplace_counts(
    counts: Sequence[int],
    *,
    epsilon: float,
    sensitivity: int = 1,
    relation: str = "zero-out",
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Integer counts plus integer noise. `sensitivity`: l1 norm of one record's contribution to all counts.

    >>> discrete_laplace_counts([10, 20], epsilon=40.0, insecure_seed=1).value
    [10, 20]
    """
    moves = 2 if relation == "replace-one" else 1
    scale = max(1, int(np.ceil(sensitivity * moves / epsilon * (1 + 1e-12))))
    event = accounting.DiscreteLaplaceDpEvent(1.0 / scale, int(sensitivity))
    _pay("counts", event, epsilon, 0.0, relation, ledger)
    noisy = _core.discrete_laplace([int(c) for c in counts], scale, insecure_seed)
    return Release(noisy, event, epsilon, 0.0)


def discrete_gaussian_counts(
    counts: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    relation: str = "zero-out",
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Integer counts plus discrete Gaussian noise, accounted as zero-concentrated DP.

    `sensitivity`: l2 norm of one record's contribution to all counts.
    """
    moves = 2.0 if relation == "replace-one" else 1.0
    error = len(counts) * DISCRETE_SAMPLER_ERROR

    def event(sigma: float) -> accounting.DpEvent:
        rho = (moves * sensitivity) ** 2 / (2 * sigma**2) * (1 + 1e-12)
        return accounting.ApproximateDpEvent(error, accounting.ZCDpEvent(rho))

    found = accounting.calibrate(event, epsilon, delta, relation=relation)
    _pay("counts", found.event, epsilon, delta, relation, ledger)
    noisy = _core.discrete_gaussian([int(c) for c in counts], found.value, insecure_seed)
    return Release(noisy, found.event, epsilon, delta)


def choose(
    scores: Sequence[int],
    *,
    epsilon: float,
    sensitivity: int = 1,
    monotone: bool = False,
    mechanism: str = "permute-and-flip",
    ledger: Ledger | None = None,
    relation: str = "zero-out",
    insecure_seed: int | None = None,
) -> Release:
    """Index of a good candidate by *integer* scores. `sensitivity`: largest change of one score by one record.

    Args:
        monotone: a record moves all scores in one direction (counts, not under replace-one): half the noise.
        mechanism: ``"permute-and-flip"`` (never worse) or ``"exponential"``.

    >>> choose([3, 400, 20], epsilon=1.0, insecure_seed=1).value
    1
    """
    if monotone and relation == "replace-one":
        raise ValueError("under replace-one a record can lower one score and raise another; use monotone=False")
    if not len(scores):
        raise ValueError("there are no scores to choose from")
    if any(int(s) != s for s in scores):
        raise ValueError("scores must be integers: sums of floating-point numbers have no proved sensitivity")
    functions = {"permute-and-flip": _core.permute_and_flip, "exponential": _core.choose_exponential}
    if mechanism not in functions:
        raise ValueError(f"mechanism is {mechanism!r}; choose one of {', '.join(functions)}")
    if mechanism == "exponential":
        event: Any = accounting.ExponentialMechanismDpEvent(float(epsilon))
    else:
        event = accounting.ApproxDpDpEvent(float(epsilon), 0.0)
    _pay("choice", event, epsilon, 0.0, relation, ledger)
    index = functions[mechanism]([int(s) for s in scores], float(epsilon), int(sensitivity), monotone, insecure_seed)
    return Release(index, event, epsilon, 0.0)


def frequent_labels(
    labels: Sequence[Any],
    *,
    epsilon: float,
    delta: float,
    relation: str = "zero-out",
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Which labels occur often: one that a single record owns is published with probability at most δ.

    >>> frequent_labels(["a"] * 500 + ["b"] * 400 + ["zoe"], epsilon=1.0, delta=1e-6, insecure_seed=1).value
    ['a', 'b']
    """
    values, counts = np.unique(np.asarray(labels), return_counts=True)
    keys = [f"{i:012d}" for i in range(len(values))]
    if ledger is not None:
        ledger.charge("labels", accounting.ApproxDpDpEvent(epsilon, delta), epsilon=epsilon, delta=delta, relation=relation)
    found, event, _, _ = _core.select_labels(
        dict(zip(keys, counts.tolist())), float(epsilon), float(delta), relation, insecure_seed
    )
    kept = values[[keys.index(key) for key in found]].tolist()
    return Release(kept, accounting.from_dict(json.loads(event)), epsilon, delta)


def _records(counted: int, given: int | None, relation: str) -> int:
    if given is not None:
        return int(given)
    if relation == "add-or-remove":
        raise ValueError("under add-or-remove the number of rows is protected; give a public guess as n_rows")
    return counted


__all__ = [
    "Release", "choose", "discrete_gaussian_counts", "discrete_laplace_counts", "frequent_labels", "gaussian_sum",
    "laplace_sum",
]
