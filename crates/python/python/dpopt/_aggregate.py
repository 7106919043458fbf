"""Any estimator made private: it answers for each of many groups of records, and the mean of the answers that agree is released."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from . import _core, accounting
from ._public_facts import Unit
from ._reading import array, attempt, kind, number, whole
from ._release import Release, owned, pay, released
from ._repeats import of_arrays
from ._rows import _pair
from ._settings import knows_its_keywords
from ._units import Given, apart
from .ledger import Ledger


@dataclass(frozen=True, repr=False)
class Aggregate(Release):
    """What groups of records agree on.

    Attributes
    ----------
    value
        An array, the mean of the answers that agree with noise; or None: too few agree, which is an answer and was paid for.
    noise_std
        Standard deviation of the noise in each number of the value; NaN where there is none.
    radius
        Answers that agree are so close, in l2 norm in units of half the ranges: told, or found. None: none was found.
    groups
        How many there were.
    """

    noise_std: np.ndarray
    radius: float | None
    groups: int


def aggregate_plan(
    *,
    groups: int,
    dimension: int,
    epsilon: float,
    delta: float,
    radius: float | None = None,
    outliers: float = 0.05,
    relation: str = "zero-out",
) -> dict[str, Any]:
    """What :func:`aggregate` would do, from public facts: noise over the radius, how many groups have to agree, the event.

    >>> import dpopt
    >>> plan = dpopt.aggregate_plan(groups=400, dimension=3, epsilon=2.0, delta=1e-6, radius=0.1)
    >>> plan["core"] < 400 and plan["noise_over_radius"] < 0.1
    True
    """
    facts = _facts(groups, dimension, outliers, radius, relation, epsilon, delta)
    found = json.loads(_core.agreed_plan(facts, False))
    schedule: dict[str, Any] = found.pop("schedule")
    return {**schedule, **found, "event": accounting.from_json(found["event"])}


@knows_its_keywords
def aggregate(
    estimator: Callable[..., Any],
    data: Any,
    *,
    groups: int,
    bounds: Any,
    epsilon: float,
    delta: float | None = None,
    dimension: int | None = None,
    radius: float | None = None,
    outliers: float = 0.05,
    relation: str = "zero-out",
    units: Any = None,
    unit: Unit | None = None,
    n_rows: int | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
    jobs: int = 1,
) -> Aggregate:
    """The private answer of any estimator of yours (subsample and aggregate).

    Each row, or each unit with all its rows, goes to one of so many groups by a secret coin; `estimator` answers for each group by itself; answers far from
    most weigh nothing, and the mean of the others is released with noise, if enough of them agree. No gradient and no sensitivity is asked for. The price is
    that an answer of a group is worse than one of all records, and that hundreds of groups are needed; where an estimator of this package fits, it is far
    better (docs/aggregate.md).

    Parameters
    ----------
    estimator
        Called with the rows of one group (with one part for each member of `data`, if that is a tuple); returns numbers. It must look at nothing
        else and remember nothing: **this is taken on trust**, and the guarantee rests on it. Make models and generators inside the function; a
        seeded generator that groups share, or a model that goes on from the last group's, mixes them. An exception, or numbers that are too many, too few or NaN,
        is no answer; it is counted and never shown.
    data
        Array, sparse matrix or table; or a tuple of them with equally many rows, for example ``(X, y)``.
    groups
        How many; public.
    bounds
        Public range of the answer, ``(lower, upper)``: two numbers (then give `dimension`) or two arrays. Answers are clipped to it.
    epsilon, delta
        What may be spent. Default δ: 1/n^1.1 for n rows or units, at most 0.01.
    dimension
        How many numbers an answer has, if `bounds` does not say it.
    radius
        How far apart answers of groups are, in l2 norm in units of half the ranges, for example from public data: a third of the groups further
        apart than that, and there is no answer. None: it is found privately, for a fifth of ε.
    outliers
        Share of groups whose answers may be far from the others, 0 to .15: with more it becomes likely that nothing is released; fewer are less noise.
    relation
        ``"zero-out"``, ``"replace-one"`` or ``"add-or-remove"``; noise is the same.
    units
        Whose rows they are, where a person may have several: one id for each row, or the name of a column of a table.
    unit
        What is public of them, a :class:`dpopt.Unit`: of one with more than `max_rows`, so many are taken at random.
    n_rows
        Public number, or a guess under add-or-remove; only the default of δ depends on it, and on the units' `count`.
    ledger
        Is charged before `estimator` is called.
    insecure_seed
        Reproducible noise for tests. **No privacy** against who knows it.
    jobs
        So many threads call `estimator` at once, which must share nothing. How long it takes can tell something of the records, and is not protected.

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(3.0, 1.0, (40_000, 2))
    >>> found = dpopt.aggregate(
    ...     lambda rows: np.median(rows, axis=0), X, groups=400, bounds=([0, 0], [10, 10]), epsilon=2.0, insecure_seed=1
    ... )   # the seed is for this page: without one the noise is secret
    >>> bool(np.abs(found.value - 3.0).max() < 0.2)
    True
    """
    if not callable(estimator):
        raise TypeError(f"estimator is {kind(estimator)}; give a function that answers for the rows of one group")
    if whole(jobs, "jobs") < 1:
        raise ValueError(f"jobs is {jobs}; give at least 1")
    lower, upper = _range(bounds, dimension)
    parts, given = _parts(data, units)
    rows = _rows_of(parts)
    whose, count = owned(given, rows, relation, n_rows=n_rows, unit=unit, seed=insecure_seed)
    delta = _core.default_delta(count) if delta is None else number(delta, "delta")
    facts = _facts(groups, len(lower), outliers, radius, relation, epsilon, delta)
    plan = json.loads(_core.agreed_plan(facts, whose is not None))
    event = accounting.from_json(plan["event"])
    name = None if whose is None else whose.name
    session = pay("aggregate", event, epsilon, delta, relation, ledger, insecure_seed, name, of=of_arrays(parts))
    members = _members(whose, rows, facts[0], insecure_seed)
    answers = _answers(estimator, parts, members, len(lower), int(jobs))
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    with np.errstate(all="ignore"):
        scaled = np.ascontiguousarray((answers - middle) / half)
    found = json.loads(_core.agreed_mean(scaled, facts, session))
    noise = float("nan") if found["noise_std"] is None else found["noise_std"]
    value = None if found["mean"] is None else middle + half * np.array(found["mean"])
    what = released(value, epsilon, delta, session)
    return Aggregate(
        what.value, what.event, what.epsilon, what.delta, what.bound, what.records, what.insecure_seed, what.unit,
        half * noise, found["radius"], facts[0],
    )  # fmt: skip


def _facts(
    groups: Any, dimension: Any, outliers: Any, radius: Any, relation: str, epsilon: Any, delta: Any
) -> tuple[int, int, float, float | None, str, float, float]:
    radius = None if radius is None else number(radius, "radius")
    counts = whole(groups, "groups"), whole(dimension, "dimension")
    for name, count in zip(("groups", "dimension"), counts):
        if count < 1:
            raise ValueError(f"{name} is {count}; give at least 1")
    share = number(outliers, "outliers")
    return (*counts, share, radius, accounting._relation(relation), number(epsilon, "epsilon"), number(delta, "delta"))


def _range(bounds: Any, dimension: Any) -> tuple[np.ndarray, np.ndarray]:
    ends = [np.atleast_1d(array(end, "bounds").astype(np.float64)) for end in _pair(bounds)]
    if dimension is None and max(len(end) for end in ends) == 1 and all(np.ndim(end) == 0 for end in _pair(bounds)):
        raise ValueError("bounds are two numbers, and the number of numbers in an answer is unknown; give dimension")
    size = max(len(end) for end in ends) if dimension is None else whole(dimension, "dimension")
    if any(end.ndim != 1 or len(end) not in (1, size) for end in ends):
        raise ValueError(f"bounds do not fit an answer of {size} numbers; give one lower and one upper end for each")
    lower, upper = (np.broadcast_to(end, (size,)).copy() for end in ends)
    with np.errstate(over="ignore"):
        half = (upper - lower) / 2
    if not (np.isfinite(lower).all() and np.isfinite(upper).all() and np.isfinite(half).all() and (half > 0).all()):
        raise ValueError("bounds are not finite, or lower is not below upper; give finite numbers with lower < upper")
    return lower, upper


def _parts(data: Any, units: Any) -> tuple[tuple[Any, ...], Given | None]:
    parts = data if isinstance(data, tuple) else (data,)
    if not parts:
        raise ValueError("data is empty; give an array or a table, or a tuple of them")
    first, given = apart(parts[0], units)
    return (first, *parts[1:]), given


def _rows_of(parts: tuple[Any, ...]) -> int:
    counts = {part.shape[0] if hasattr(part, "shape") else len(part) for part in parts}
    if len(counts) != 1:
        raise ValueError("the parts of data have different numbers of rows; give one row of each for every record")
    for part in parts:
        # noticed before anything is paid for; whether a row can be taken depends on the type
        if attempt(functools.partial(_safe_indexing, part, np.arange(min(1, *counts, 1)))) is None:
            raise TypeError(
                f"data is {kind(part)}, of which rows cannot be taken; give an array, a CSR matrix or a table"
            )
    return int(counts.pop())


def _members(whose: Any, rows: int, groups: int, seed: int | None) -> list[np.ndarray]:
    """Which rows each group has: every unit is in one, chosen by a coin that depends on nothing."""
    seed = None if seed is None else whole(seed, "insecure_seed") % 2**64
    if whose is None:
        order, units = np.arange(rows), np.arange(rows)
        count = rows
    else:
        count = len(whose.rows)
        order, lengths = whose.rows.draw(np.arange(count, dtype=np.uint64))
        units = np.repeat(np.arange(count), lengths)
    group = _core.random_below(groups, count, seed).astype(np.int64)[units] if count else np.zeros(0, np.int64)
    sorted_rows = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[sorted_rows], np.arange(groups + 1))
    return [np.sort(order[sorted_rows[a:b]]) for a, b in zip(ends[:-1], ends[1:])]


def _answers(
    estimator: Callable[..., Any], parts: tuple[Any, ...], members: list[np.ndarray], size: int, jobs: int
) -> np.ndarray:
    """One row of numbers for each group, NaN where there is no answer: why there is none is not shown."""
    nothing = np.full(size, np.nan)

    def answer(rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return nothing
        try:
            # a copy: an estimator may write its next answer where this one stands
            found = np.array(estimator(*(_safe_indexing(part, rows) for part in parts)), dtype=np.float64).ravel()
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None
        except BaseException:
            # panics of compiled libraries among them
            return nothing
        return found if len(found) == size else nothing

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if jobs == 1:
            return np.array([answer(rows) for rows in members]).reshape(len(members), size)
        with ThreadPoolExecutor(jobs) as pool:
            return np.array(list(pool.map(answer, members))).reshape(len(members), size)


__all__ = ["Aggregate", "aggregate", "aggregate_plan"]
