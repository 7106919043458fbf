"""Single private releases: clipped sums, means of sparse vectors, second moments, counts, choices, quantiles, ranges, label sets.

Each function releases once: the compiled library certifies the event, opens a curator for it and lets the value out through
that curator only (secure noise, exact integer sums on a public grid). The returned :class:`Release` knows its event, and can
be charged to a ledger:

>>> import numpy as np, dpopt
>>> from dpopt import mechanisms
>>> ages = np.random.default_rng(0).uniform(18, 80, (1000, 1))
>>> ledger = dpopt.Ledger(1.0, 1e-6)
>>> release = mechanisms.gaussian_sum(ages, clip_norm=80, epsilon=0.5, delta=1e-7, ledger=ledger)
>>> round(release.event.event.noise_multiplier, 2), release.bound.accountant
(9.0, 'gdp')
>>> ledger.remaining[0]
0.5

What can be known from public numbers (an ε for which no noise can be drawn) is refused before a ledger is charged; the charge comes before anything is released, and stays
even if the release fails.

**Persons with several rows** are protected as a whole by ``units=``: one id for each row, or the name of a column of a table. What one
unit adds is then bounded as one row's was, in the way that each function says: its rows are added up or averaged and clipped as one vector,
or one of its rows, or at most so many, are chosen by secret coins. ``unit=dpopt.Unit(count=...)`` is the public number of units (of whom some may have no row;
counted unless the relation protects it, then a guess), a row without an id counts nowhere, and a ledger needs ``unit="user"``:

>>> visits, persons = np.ones((3000, 1)), np.arange(3000) % 1000
>>> release = mechanisms.gaussian_sum(visits, 3, units=persons, epsilon=1.0, delta=1e-6, insecure_seed=1)
>>> bool(abs(release.value[0] - 3000) < 60), release.unit
(True, 'user')
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from . import _core, accounting
from ._by_unit import Units, name_alone, unused
from ._public_facts import Unit, unit_facts
from ._reading import (
    array,
    as_text,
    distinct,
    hashable,
    integers,
    number,
    positive,
    shown,
    sorted_if_comparable,
    table,
    whole,
)
from ._reading import labels as read_labels
from ._release import Release, least, matrix, named, owned, pay, released
from ._repeats import of_categories, of_columns, of_numbers
from ._settings import knows_its_keywords
from ._tables import is_table, one_column
from ._units import Given, apart
from .ledger import Ledger
from .partitions import Partitions, Plain

#: Total variation of one sample of the discrete samplers from the exact law.
DISCRETE_SAMPLER_ERROR = 2.0**-170


@knows_its_keywords
def gaussian_sum(
    values: Any,
    clip_norm: float,
    *,
    epsilon: float,
    delta: float,
    relation: str = "zero-out",
    n_rows: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Σ of rows clipped to l2 norm `clip_norm`, with the least Gaussian noise that meets (ε, δ).

    Parameters
    ----------
    values
        One row per record; entries that are not finite count as 0.
    units
        Whose rows they are: a unit's rows are added up, and the *sum of a unit* is clipped to `clip_norm`, however many there are (of
        at most ``unit=dpopt.Unit(max_rows=...)`` of them, a uniform choice by secret coins, if that is given).
    n_rows
        Public number of rows (for the grid only); counted unless the relation protects it, then required.

    Examples
    --------
    >>> r = gaussian_sum([[30.0, 40.0]] * 900 + [[0.3, 0.4]] * 100, 1.0, epsilon=1.0, delta=1e-6, insecure_seed=1)
    >>> bool(np.abs(r.value - [0.6 * 950, 0.8 * 950]).max() < 6 * r.event.event.noise_multiplier)
    True
    """
    values, given = apart(values, units)
    values = matrix(values)
    whose, records = owned(
        given, len(values), relation, n_rows=n_rows, unit=unit, seed=insecure_seed
    )  # fmt: skip
    values = values if whose is None else whose.rows.combined(values, False)
    size, clip_norm = values.shape[1], positive(clip_norm, "clip_norm")
    multiplier, event = least("gaussian", size, epsilon, delta, relation)
    noise = _core.NoisySum("gaussian", multiplier, clip_norm, records, size)
    session = pay(
        "gaussian sum", event, epsilon, delta, relation, ledger, insecure_seed, named(whose), of=of_columns(size)
    )
    total = _core.gaussian_sum(values, noise, session)
    return released(total, epsilon, delta, session)


@knows_its_keywords
def laplace_sum(
    values: Any,
    clip_norm: float,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: str = "zero-out",
    n_rows: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Σ of rows clipped to l1 norm `clip_norm`, with Laplace noise: ε-DP up to the sampler's error of about 1e-51.

    `units`: as in :func:`gaussian_sum`, the sum of a unit's rows is clipped.

    >>> r = laplace_sum([0.2, 0.9, 4.0], 1.0, epsilon=50.0, delta=1e-9, insecure_seed=1)
    >>> bool(abs(float(r.value[0]) - 2.1) < 0.5)
    True
    """
    values, given = apart(values, units)
    values = matrix(values)
    whose, records = owned(
        given, len(values), relation, n_rows=n_rows, unit=unit, seed=insecure_seed
    )  # fmt: skip
    values = values if whose is None else whose.rows.combined(values, False)
    # the sampler's error needs a δ, however small
    allowed = delta if delta > 0 else 1e-30
    size, clip_norm = values.shape[1], positive(clip_norm, "clip_norm")
    multiplier, event = least("laplace", size, epsilon, allowed, relation)
    noise = _core.NoisySum("laplace", multiplier, clip_norm, records, size)
    session = pay(
        "laplace sum", event, epsilon, allowed, relation, ledger, insecure_seed, named(whose), of=of_columns(size)
    )
    total = _core.laplace_sum(values, noise, session)
    return released(total, epsilon, allowed, session)


@dataclass(frozen=True, repr=False)
class SparseMean(Release):
    """A released mean of sparse vectors.

    Attributes
    ----------
    value
        The mean, a SciPy CSR array of one row; what it does not store is 0.
    method
        How it was estimated.
    error_bound
        With probability 0.95 the l2 distance from the mean of the clipped rows is at most this (proved).
    """

    method: str
    error_bound: float

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value.toarray()[0], dtype=dtype)


def sparse_mean_plans(
    n_rows: int,
    n_features: int,
    sparsity: float,
    *,
    epsilon: float,
    delta: float,
    norm: float = 1.0,
    relation: str = "zero-out",
) -> list[dict[str, Any]]:
    """Every way to estimate a mean of sparse vectors: its noise and its proved error, the smallest first. Reads no data.

    >>> [p["method"] for p in sparse_mean_plans(10_000, 1_000_000, 10, epsilon=1.0, delta=1e-6)][0]
    'projected-gaussian'
    """
    under = accounting._relation(relation)
    facts = (
        int(n_rows),
        int(n_features),
        number(sparsity, "sparsity"),
        number(norm, "norm"),
        under,
        number(epsilon, "epsilon"),
        number(delta, "delta"),
    )
    plans: list[dict[str, Any]] = json.loads(_core.sparse_mean_plans(facts))
    return plans


@knows_its_keywords
def sparse_mean(
    values: Any,
    sparsity: float,
    *,
    epsilon: float,
    delta: float,
    norm: float = 1.0,
    method: str | None = None,
    relation: str = "zero-out",
    n_rows: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> SparseMean:
    """The mean of vectors with few entries among very many coordinates, as ``dpopt mean`` computes it.

    Noise is added to every coordinate and the noisy mean is projected on the set in which the true one must lie: the error
    grows like (s ln d)^(1/4) and not like sqrt(d).

    Parameters
    ----------
    values
        A SciPy sparse matrix or an array, one row per record; entries that are not finite count as 0.
    sparsity
        About how many entries of a row differ from 0, a public guess; a wrong one costs accuracy, never privacy.
    delta
        0 for a pure guarantee (Laplace noise).
    norm
        Rows longer than this (l2) are shrunk to it.
    method
        A name from :func:`sparse_mean_plans`; by default the smallest proved error.
    units
        Whose rows they are: the mean is over units, and each is in it with the *mean of its rows* (of at most ``unit=dpopt.Unit(max_rows=...)`` of them, a
        uniform choice by secret coins, if that is given), shrunk to `norm` as one.
    n_rows
        Public number of rows; counted unless the relation protects it, then required.

    Examples
    --------
    >>> import scipy.sparse
    >>> X = scipy.sparse.csr_array(([0.8, 0.6] * 5000, np.tile([3, 70], 5000), np.arange(0, 10_001, 2)), shape=(5000, 10**6))
    >>> mean = sparse_mean(X, 2, epsilon=1.0, delta=1e-6, insecure_seed=1)
    >>> mean.method, bool(abs(mean.value[0, 3] - 0.8) < 0.1), mean.value.nnz < 50_000
    ('projected-laplace', True, True)
    """
    import scipy.sparse

    values, given = apart(values, units)
    rows = table(values, "values", sparse=True) if scipy.sparse.issparse(values) else matrix(values)
    csr = scipy.sparse.csr_array(rows, dtype=np.float64)
    counted, dimension = csr.shape
    whose, records = owned(
        given, counted, relation, n_rows=n_rows, unit=unit, seed=insecure_seed
    )  # fmt: skip
    plans = sparse_mean_plans(records, dimension, sparsity, epsilon=epsilon, delta=delta, norm=norm, relation=relation)
    plan = next((p for p in plans if method in (None, p["method"])), None)
    if plan is None:
        raise ValueError(
            f"there is no method {shown(method)} for means; choose one of {', '.join(p['method'] for p in plans)}"
        )
    if "not_applicable" in plan:
        raise _core.PrivacyError(plan["not_applicable"])
    event = accounting.from_json(plan["event"])
    session = pay(
        "sparse mean", event, epsilon, delta, relation, ledger, insecure_seed, named(whose), of=of_columns(dimension)
    )
    facts = (
        records,
        dimension,
        number(sparsity, "sparsity"),
        number(norm, "norm"),
        accounting._relation(relation),
        number(epsilon, "epsilon"),
        number(delta, "delta"),
    )
    indices, entries = _core.sparse_mean(
        csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64), facts, plan["method"], session,
        None if whose is None else whose.owners, None if whose is None else whose.most,
    )  # fmt: skip
    value = scipy.sparse.csr_array((entries, indices, [0, len(indices)]), shape=(1, dimension))
    done = released(value, epsilon, delta, session)
    return SparseMean(
        value, done.event, epsilon, delta, done.bound, done.records, done.insecure_seed, done.unit, plan["method"], plan["error_bound"]
    )  # fmt: skip


@knows_its_keywords
def second_moment(
    values: Any,
    row_norm: float,
    *,
    epsilon: float,
    delta: float,
    relation: str = "zero-out",
    n_rows: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Σ x xᵀ over rows clipped to l2 norm `row_norm`: the matrix behind covariances, PCA and least squares.

    The noise is symmetric, with standard deviation z·row_norm² on the diagonal and 29/41 of that off it (nearly 1/√2). Entries of a row are rounded to
    2^-18 of row_norm or finer for up to a million rows.

    `units`: a unit adds the *mean* of x xᵀ over its rows (over at most ``unit=dpopt.Unit(max_rows=...)`` of them, a uniform choice by secret coins, if that
    is given), which is clipped as one to row_norm²: the sum is over units.

    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    >>> m = second_moment(X, 1.0, epsilon=1.0, delta=1e-6, insecure_seed=1).value
    >>> bool(np.abs(m / 5000 - np.eye(2) / 12).max() < 0.02), bool((m == m.T).all())
    (True, True)
    """
    values, given = apart(values, units)
    values = matrix(values)
    whose, records = owned(
        given, len(values), relation, n_rows=n_rows, unit=unit, seed=insecure_seed
    )  # fmt: skip
    size, row_norm = values.shape[1] * (values.shape[1] + 1) // 2, positive(row_norm, "row_norm")
    multiplier, event = least("gaussian", size, epsilon, delta, relation)
    # squares are on the finest grid with room for their sum: for sixteen times a guess, and sixteen million at least
    is_guess = n_rows is not None or relation == "add-or-remove"
    room = 16 * max(records, 1_000_000) if is_guess else records
    noise = _core.NoisySum("second moment", multiplier, row_norm * row_norm, room, size)
    form = of_columns(values.shape[1])
    session = pay("second moment", event, epsilon, delta, relation, ledger, insecure_seed, named(whose), of=form)
    found = _core.second_moment(values, row_norm, noise, session, None if whose is None else whose.rows)
    return released(found, epsilon, delta, session)


def _at_least_one(sensitivity: int) -> int:
    found = whole(sensitivity, "sensitivity")
    if found < 1:
        raise ValueError(f"sensitivity is {found}; give a whole number, at least 1")
    return found


def _laplace_noise(epsilon: float, sensitivity: int, relation: str) -> tuple[_core.NoisyCounts, accounting.DpEvent]:
    epsilon, sensitivity = number(epsilon, "epsilon"), _at_least_one(sensitivity)
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon is {epsilon}; give a positive, finite number, for example 1")
    moves = 2 if accounting._relation(relation) == "replace-one" else 1
    # the factor covers the rounding of the event's decay; below 2^-6 there is no sampler
    scale = max(2.0**-6, sensitivity * moves / epsilon * (1 + 1e-12))
    decay = 1.0 / scale
    if Fraction(decay) * Fraction(scale) < 1:
        decay = math.nextafter(decay, math.inf)
    return _core.NoisyCounts.laplace(scale, sensitivity), accounting.DiscreteLaplaceDpEvent(decay, sensitivity)


def _alone(values: Any, given: Given | None) -> Any:
    """The one column that is left of a table, when the ids are taken out."""
    return one_column(values) if given is not None and is_table(values) else values


def _counted(
    given: Given | None,
    rows: int,
    relation: str,
    unit: Unit | None,
    seed: int | None,
    one: bool = True,
) -> tuple[Units | None, np.ndarray | None]:
    """Whose records are counted, where no number of rows is needed; and the position of one record of each unit, by secret coins, -1 for who has none."""
    if given is None:
        unused(unit)
        return None, None
    whose, _ = owned(given, rows, relation, unit=unit, seed=seed, one=one)
    assert whose is not None
    return whose, whose.rows.one_each()


@knows_its_keywords
def histogram(
    values: Sequence[Any],
    categories: Sequence[Any],
    *,
    epsilon: float,
    relation: str = "zero-out",
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """How many records have each of the public `categories`, with integer noise (discrete Laplace).

    A record counts in one cell at most, whatever it holds; values that are not listed count nowhere.

    Parameters
    ----------
    units
        Whose records they are: at most ``unit=dpopt.Unit(max_rows=...)`` records of a unit count, a uniform choice by secret coins, and the noise is
        made for so many (k of them move all counts by k together).
    unit
        What is public of them: without ``dpopt.Unit(max_rows=...)`` one record of each counts, so that units are counted.

    Examples
    --------
    >>> a, b = histogram(["a", "b"] * 500 + ["zoe"], ["a", "b"], epsilon=1.0, insecure_seed=1).value
    >>> abs(a - 500) < 30 and abs(b - 500) < 30
    True
    """
    values, given = apart(values, units)
    public = as_text(read_labels(list(categories), "categories"))
    listed = {category: i for i, category in enumerate(public.tolist()) if hashable(category)}
    if not listed or len(listed) != len(categories):
        raise ValueError("categories must list at least one value, and each once")
    read = as_text(read_labels(_alone(values, given), "values"))
    kinds = {array.dtype.kind in "fiub" for array in (read, public) if array.dtype.kind in "fiubU"}
    if len(kinds) == 2:
        raise ValueError(
            "one of values and categories holds numbers and the other text; give both as numbers, or both as text"
        )
    found = read.tolist()
    cells = np.fromiter((listed.get(v, -1) if hashable(v) else -1 for v in found), dtype=np.int64)
    if given is not None:
        said = unit_facts(unit)
        unit = Unit(max_rows=1, count=said.count, clipping=said.clipping) if said.max_rows is None else said
    whose, _ = _counted(given, len(cells), relation, unit, insecure_seed, one=False)
    together = 1 if whose is None or whose.most is None else whose.most
    noise, event = _laplace_noise(epsilon, together, relation)
    session = pay(
        "histogram", event, epsilon, 0.0, relation, ledger, insecure_seed, named(whose), of=of_categories(listed)
    )
    if whose is None:
        counts = _core.histogram(cells, len(listed), noise, session)
    else:
        counts = _core.histogram_of_units(cells, len(listed), noise, whose.rows, session)
    return released(counts, epsilon, 0.0, session)


def discrete_laplace_counts(
    counts: Sequence[int],
    *,
    epsilon: float,
    sensitivity: int = 1,
    relation: str = "zero-out",
    units: str | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Integer counts made elsewhere plus integer noise. You vouch for `sensitivity`; :func:`histogram` enforces it.

    Parameters
    ----------
    sensitivity
        l1 norm of one record's contribution to all counts; with `units`, of all records of a unit together.
    units
        The name of a unit (``"person"``), where what you vouch for is a unit's contribution. No records come in here, so none can be
        bounded here.

    Examples
    --------
    >>> a, b = discrete_laplace_counts([1000, 2000], epsilon=1.0, insecure_seed=1).value
    >>> abs(a - 1000) < 30 and abs(b - 2000) < 30
    True
    """
    made = integers(counts, "counts")
    noise, event = _laplace_noise(epsilon, sensitivity, relation)
    session = pay(
        "counts",
        event,
        epsilon,
        0.0,
        relation,
        ledger,
        insecure_seed,
        name_alone(units),
        of=of_numbers("counts", len(made)),
    )
    noisy = _core.noisy_counts(made, noise, session)
    return released(noisy, epsilon, 0.0, session)


def discrete_gaussian_counts(
    counts: Sequence[int],
    *,
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    relation: str = "zero-out",
    units: str | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Integer counts made elsewhere plus discrete Gaussian noise.

    Parameters
    ----------
    sensitivity
        l2 norm of one record's contribution to all counts, at least 1; you vouch for it. With `units`, of all records of
        a unit together.
    units
        The name of a unit, as in :func:`discrete_laplace_counts`.

    Examples
    --------
    >>> discrete_gaussian_counts([10, 20], epsilon=400.0, delta=1e-6, insecure_seed=1).value
    [10, 20]
    """
    made = integers(counts, "counts")
    error = len(made) * DISCRETE_SAMPLER_ERROR

    def event(sigma: float) -> accounting.DpEvent:
        # the compiled mechanism's event
        return accounting.ApproximateDpEvent(error, accounting.DiscreteGaussianDpEvent(sigma, float(sensitivity)))

    calibrated = accounting.calibrate(event, epsilon, delta, relation=relation)
    noise = _core.NoisyCounts.gaussian(calibrated.value, number(sensitivity, "sensitivity"))
    form = of_numbers("counts", len(made))
    session = pay(
        "counts", calibrated.event, epsilon, delta, relation, ledger, insecure_seed, name_alone(units), of=form
    )
    noisy = _core.noisy_counts(made, noise, session)
    return released(noisy, epsilon, delta, session)


def choose(
    scores: Sequence[int],
    *,
    epsilon: float,
    sensitivity: int = 1,
    monotone: bool = False,
    mechanism: str = "permute-and-flip",
    units: str | None = None,
    ledger: Ledger | None = None,
    relation: str = "zero-out",
    insecure_seed: int | None = None,
) -> Release:
    """Index of a good candidate by *integer* scores.

    Parameters
    ----------
    sensitivity
        Largest change of one score by one record's presence; you vouch for it. Under replace-one scores move
        twice as far, and the noise is made for that.
        With `units`, of a unit with all its records.
    units
        The name of a unit, as in :func:`discrete_laplace_counts`.
    monotone
        A record moves all scores in one direction (counts, not under replace-one): half the noise.
    mechanism
        ``"permute-and-flip"`` (never worse) or ``"exponential"``.

    Examples
    --------
    >>> choose([3, 400, 20], epsilon=1.0, insecure_seed=1).value
    1
    """
    if monotone and accounting._relation(relation) == "replace-one":
        raise ValueError(
            "under replace-one a record can lower one score and raise another, so that scores are not monotone; use monotone=False"
        )
    made = integers(scores, "scores")
    if not made:
        raise ValueError("there are no scores to choose from")
    event: accounting.DpEvent
    if mechanism == "exponential":
        event = accounting.ExponentialMechanismDpEvent(number(epsilon, "epsilon"))
    elif mechanism == "permute-and-flip":
        event = accounting.PermuteAndFlipDpEvent(number(epsilon, "epsilon"))
    else:
        raise ValueError(f"mechanism is {shown(mechanism)}; choose permute-and-flip or exponential")
    under = accounting._relation(relation)
    by = _core.NoisyChoice(mechanism, number(epsilon, "epsilon"), _at_least_one(sensitivity), monotone, under)
    session = pay(
        "choice",
        event,
        epsilon,
        0.0,
        relation,
        ledger,
        insecure_seed,
        name_alone(units),
        of=of_numbers("scores", len(made)),
    )
    index = _core.choose(made, by, session)
    return released(index, epsilon, 0.0, session)


def _rows_alone(parts: Partitions, units: Any) -> None:
    """Refuses parts of units with several rows, of which one is counted."""
    if units is not None or parts.units is not None:
        raise ValueError(
            "counting one row per unit takes a secret choice of rows, which remote records cannot make; bring the rows to one place, or leave units out"
        )


def _at(rows: np.ndarray, one: np.ndarray) -> np.ndarray:
    """One row of each unit; for a unit without rows a missing one."""
    if not len(rows):
        return np.full((len(one), rows.shape[1]), np.nan)
    return np.where((one >= 0)[:, None], rows[one], np.nan)


@knows_its_keywords
def quantiles(
    values: Any,
    levels: Sequence[float],
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: str = "zero-out",
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Quantiles of one column on a fixed public grid (64 cells per factor of ten from 0.001 to 1e9, both signs, and 0).

    A sixteenth of a cell is chosen, by how far it is from holding the wanted rank, and its middle is the answer: constants, few values and the ends of a bounded range are found to a cell, which is 3.7 % wide (0 itself, where
    values are 0 to 0.001). Levels 0 and 1 have no end on their far side: :func:`private_bounds` finds ranges.

    Parameters
    ----------
    levels
        Between 0 and 1, in thousandths, for example ``[0.25, 0.5, 0.75]``; missing values (NaN) are left out.
    units
        Whose values they are: *one* row of each unit is looked at, a uniform choice by secret coins, so that the quantiles are of units.
    delta
        A positive δ lets the choices compose more tightly.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(0, 100, 4000)
    >>> low, middle, high = quantiles(x, [0.1, 0.5, 0.9], epsilon=1.0, insecure_seed=1).value
    >>> 5 < low < 20 < middle < 60 < high < 100
    True
    """
    if isinstance(values, Partitions):
        _rows_alone(values, units)
        with values.loaded(Plain()) as known:
            numbers = _core.RemoteNumbers(values.ask, known.parts, values.n_features)
            return _quantiles(numbers, values.n_features, levels, epsilon, delta, relation, ledger, insecure_seed, None)
    values, given = apart(values, units)
    column = matrix(values)
    whose, one = _counted(given, len(column), relation, unit, insecure_seed)
    column = column if one is None else _at(column, one)
    return _quantiles(column, column.shape[1], levels, epsilon, delta, relation, ledger, insecure_seed, named(whose))


def _quantiles(
    column: Any,
    columns: int,
    levels: Sequence[float],
    epsilon: float,
    delta: float,
    relation: str,
    ledger: Ledger | None,
    insecure_seed: int | None,
    unit: str | None,
) -> Release:
    """Quantiles of a column of numbers, local or remote."""
    if columns != 1:
        raise ValueError("quantiles are of one column; call it once per column")
    thousandths = [
        round(1000 * level) if np.isfinite(level) else -1 for level in array(levels, "levels").ravel().tolist()
    ]
    if not thousandths or any(not 0 <= t <= 1000 for t in thousandths):
        raise ValueError("levels must be between 0 and 1, for example [0.25, 0.5, 0.75]")
    choices = _core.quantile_choices(len(thousandths), accounting._relation(relation))
    drawn = _core.quantiles_sampler_error(len(thousandths))

    def event(noise: float) -> accounting.DpEvent:
        one = accounting.ExponentialMechanismDpEvent(1.0 / noise)
        all_choices = one if choices == 1 else accounting.SelfComposedDpEvent(one, choices)
        # a pure guarantee is of the exact law: there is no delta to pay samplers from
        return accounting.ApproximateDpEvent(drawn, all_choices) if number(delta, "delta") > 0 else all_choices

    calibrated = accounting.calibrate(event, epsilon, delta, relation=relation)
    by = _core.NoisyQuantiles(sorted(thousandths), 1.0 / calibrated.value, accounting._relation(relation))
    session = pay(
        "quantiles", calibrated.event, epsilon, delta, relation, ledger, insecure_seed, unit, of=of_columns(1)
    )
    found = _core.quantiles(column, by, session)
    # in the order in which they were asked for
    place = np.argsort(np.argsort(thousandths, kind="stable"), kind="stable")
    return released([found[i] for i in place], epsilon, delta, session)


@knows_its_keywords
def private_bounds(
    values: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: str = "zero-out",
    n_rows: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Ranges of numeric columns, found privately: for when they are not known beforehand.

    The value is ``(lower, upper)``, two arrays that fit ``bounds=`` of the estimators. A column whose range lies beyond the
    public grid (±0.001 to ±1e9, and 0) gets [-1, 1]. Declared bounds are better wherever they are known: they cost nothing.

    `units`: *one* row of each unit is looked at, a uniform choice by secret coins.

    >>> X = np.random.default_rng(0).uniform(20, 60, (5000, 1))
    >>> lower, upper = private_bounds(X, epsilon=0.5, insecure_seed=1).value
    >>> bool(0 < lower[0] < 30 and 50 < upper[0] < 90)
    True
    """
    if isinstance(values, Partitions):
        _rows_alone(values, units)
        with values.loaded(Plain()) as known:
            _, rows = owned(None, known.records, relation, n_rows=n_rows, unit=unit, seed=insecure_seed, one=True)
            numbers = _core.RemoteNumbers(values.ask, known.parts, values.n_features)
            return _private_bounds(
                numbers, values.n_features, rows, epsilon, delta, relation, ledger, insecure_seed, None
            )
    values, given = apart(values, units)
    columns = matrix(values)
    whose, rows = owned(given, len(columns), relation, n_rows=n_rows, unit=unit, seed=insecure_seed, one=True)
    columns = columns if whose is None else _at(columns, whose.rows.one_each())
    return _private_bounds(
        columns, columns.shape[1], rows, epsilon, delta, relation, ledger, insecure_seed, named(whose)
    )


def _private_bounds(
    columns: Any,
    width: int,
    rows: int,
    epsilon: float,
    delta: float,
    relation: str,
    ledger: Ledger | None,
    insecure_seed: int | None,
    unit: str | None,
) -> Release:
    """Ranges of columns of numbers, local or remote."""
    under = accounting._relation(relation)
    event = _core.bounds_event(width, rows, number(epsilon, "epsilon"), number(delta, "delta"), under)
    session = pay(
        "private bounds",
        accounting.from_json(event),
        epsilon,
        delta,
        relation,
        ledger,
        insecure_seed,
        unit,
        of=of_columns(width),
    )
    found = _core.private_bounds(columns, rows, session)
    pairs = [pair if pair is not None else (-1.0, 1.0) for pair in found]
    lower, upper = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    return released((lower, upper), epsilon, delta, session)


@knows_its_keywords
def frequent_labels(
    labels: Sequence[Any],
    *,
    epsilon: float,
    delta: float,
    relation: str = "zero-out",
    units: Any = None,
    unit: Unit | None = None,
    ledger: Ledger | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Which labels occur often: one that a single record owns is published with probability at most δ.

    `units`: *one* label of each unit counts, a uniform choice by secret coins, so that a label is published if many units have it.

    >>> frequent_labels(["a"] * 500 + ["b"] * 400 + ["zoe"], epsilon=1.0, delta=1e-6, insecure_seed=1).value
    ['a', 'b']
    """
    if isinstance(labels, Partitions):
        raise ValueError(
            "the labels are not declared, and remote records need them before the first pass; bring the labels to one place, or count declared ones"
        )
    labels, given = apart(labels, units)
    read = read_labels(_alone(labels, given), "labels")
    whose, one = _counted(given, len(read), relation, unit, insecure_seed)
    values, counts = distinct(read if one is None else read[one[one >= 0]])
    keys = [f"{i:012d}" for i in range(len(values))]
    event = _core.label_event(number(epsilon, "epsilon"), number(delta, "delta"), accounting._relation(relation))
    session = pay(
        "labels",
        accounting.from_json(event),
        epsilon,
        delta,
        relation,
        ledger,
        insecure_seed,
        named(whose),
        of=of_columns(1),
    )
    found = _core.select_labels(dict(zip(keys, counts.tolist())), session)
    # as plain Python values, whatever the other labels are: NumPy's and Python's numbers would tell whether one is missing
    plain = [v.item() if isinstance(v, np.generic) else v for v in values[[int(key) for key in found]].tolist()]
    kept = sorted_if_comparable(plain)
    return released(kept, epsilon, delta, session)


__all__ = [
    "Release",
    "SparseMean",
    "choose",
    "discrete_gaussian_counts",
    "discrete_laplace_counts",
    "frequent_labels",
    "gaussian_sum",
    "histogram",
    "laplace_sum",
    "private_bounds",
    "quantiles",
    "second_moment",
    "sparse_mean",
    "sparse_mean_plans",
]
