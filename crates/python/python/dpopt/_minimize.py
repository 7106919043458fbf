"""Minimization of a sum of losses that the user's code evaluates: with NumPy, PyTorch, JAX, a simulator."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import _core, accounting
from ._by_unit import Units, ids_alone, settled, unused
from ._options import said as options_said
from ._plan import Plan, Privacy
from ._public_facts import Unit
from ._reading import kind, number, positive, shown, whole
from ._repeats import of_arrays, open_session
from ._self_check import (
    MORE_WHOLE,
    SIZES,
    SORTS,
    CannotBeTried,
    Evidence,
    NotOfOneRecord,
    Pool,
    examine,
    first_that_runs,
    of_example,
    synthetic,
)
from ._settings import Method, knows_its_keywords
from ._trees import Leaves, Records, to_numpy
from .ledger import Ledger
from .objectives import Objective

Gives = Literal["gradients", "values", "derivatives"]

#: Numbers that the gradients of a part of a batch may have: 2^26, half a gigabyte.
ENTRIES = 1 << 26


@dataclass(frozen=True)
class Minimum:
    """Where the mean loss is small.

    Attributes
    ----------
    x
        The released parameters, in the form of `start`.
    privacy_
        What was promised and certified (:class:`dpopt.Privacy`).
    plan_
        What was compared, and the method that was run (:class:`dpopt.Plan`).
    """

    x: Any
    privacy_: Privacy
    plan_: Plan
    _html: str = field(repr=False)

    def report(self, path: str | Path | None = None) -> str:
        """The report as one HTML document; written to `path` if given."""
        if path is not None:
            Path(path).write_text(self._html, encoding="utf-8")
        return self._html


def _planned(
    records: int,
    dimension: int,
    gives: str,
    epsilon: float,
    delta: float | None,
    relation: str,
    said: dict[str, Any],
    remote: bool = True,
    of_units: bool = False,
    usual_clip_norm: float | None = None,
    own_evidence: str = "checked",
) -> tuple[Any, Plan]:
    _known(gives)
    known = {
        name: None if (value := said.pop(name)) is None else positive(value, name)
        for name in ("distance", "smoothness")
    }
    curvature = number(said.pop("strong_convexity"), "strong_convexity")
    if not 0 <= curvature < np.inf:
        raise ValueError("strong_convexity is out of range; give a finite number, 0 or more")
    allowed = number(epsilon, "epsilon")
    delta = _core.default_delta(records) if delta is None else number(delta, "delta")
    method, more = _named(said.pop("method"))
    if twice := sorted(set(more) & {name for name, value in said.items() if value is not None}):
        raise TypeError(f"{twice[0]} is given twice, in the method and beside it; leave out one of the two")
    options = {**more, **{name: _public(value, name) for name, value in said.items() if value is not None}}
    request = {
        "records": records, "dimension": dimension, "elsewhere": remote, "own_evidence": own_evidence, "of_units": of_units, "answers": gives, "relation": relation, "epsilon": allowed, "delta": delta,
        "distance": known["distance"], "smoothness": known["smoothness"], "usual_clip_norm": usual_clip_norm,
        "strong_convexity": curvature, "options": {**options, "method": method},
    }  # fmt: skip
    planned = _core.Minimizing(json.dumps(request))
    candidates = json.loads(planned.candidates())
    units = records if of_units else None
    return planned, Plan(
        candidates[0]["method"],
        candidates,
        records,
        dimension,
        allowed,
        candidates[0].get("delta", delta),
        relation,
        n_units=units,
    )


def _named(method: Any) -> tuple[str | None, dict[str, Any]]:
    """A method's name and what is said of its options; None where the first that applies is taken."""
    if isinstance(method, Method):
        name, options = method.name, options_said(method)
    elif isinstance(method, str):
        name, options = method, {}
    else:
        raise TypeError(
            f'method is {kind(method)}; give "auto", the name of a method, or an object: dpopt.methods.NoisySGD(steps=400)'
        )
    return None if name == "auto" else name, options


def _known(gives: Any) -> None:
    if not isinstance(gives, str) or gives not in ("gradients", "values", "derivatives"):
        raise ValueError(f'gives is {shown(gives)}; give "gradients", "values" or "derivatives"')


def _public(value: Any, name: str) -> Any:
    """An option as JSON has it; what JSON has no word for is refused by name."""
    if isinstance(value, (bool, str)):
        return value
    found = number(value, name)
    if not np.isfinite(found):
        raise ValueError(f"{name} is {found:g}; give a finite number")
    return int(found) if found == int(found) and not isinstance(value, (float, np.floating)) else found


def plan_minimize(
    n_records: int,
    dimension: int,
    *,
    epsilon: float,
    delta: float | None = None,
    gives: Gives = "gradients",
    method: str | Method = "auto",
    distance: float | None = None,
    smoothness: float | None = None,
    strong_convexity: float = 0.0,
    neighbors: str = "zero-out",
    **options: Any,
) -> Plan:
    """What :func:`minimize` would do, from public numbers only: every method, with its noise and its certified ε.

    Parameters
    ----------
    n_records
        Public number of records, or a public guess of it under add-or-remove.
    dimension
        How many numbers are chosen.
    epsilon, delta, gives, method, distance, smoothness, strong_convexity, neighbors, options
        As in :func:`minimize`.

    Examples
    --------
    >>> import dpopt
    >>> plan = dpopt.plan_minimize(10_000, 50, epsilon=1.0, delta=1e-6)
    >>> plan.method, plan.chosen["epsilon"] <= 1.0
    ('dp-adam', True)
    """
    relation = accounting._relation(neighbors)
    said = {
        "method": method, "distance": distance, "smoothness": smoothness, "strong_convexity": strong_convexity, **options,
    }  # fmt: skip
    return _planned(
        whole(n_records, "n_records"), whole(dimension, "dimension"), gives, epsilon, delta, relation, said
    )[1]


@knows_its_keywords
def minimize(
    objective: Callable[..., Any] | Objective,
    data: Any,
    start: Any = None,
    *,
    epsilon: float,
    delta: float | None = None,
    gives: Gives = "gradients",
    method: str | Method = "auto",
    distance: float | None = None,
    smoothness: float | None = None,
    strong_convexity: float = 0.0,
    neighbors: str = "zero-out",
    n_records: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    budget: Ledger | None = None,
    insecure_seed: int | None = None,
    batch_records: int | None = None,
    example: Any = None,
    show_errors: bool = False,
    **options: Any,
) -> Minimum:
    """Finds parameters at which the mean loss of the records is small, privately, whatever the loss is.

    `objective` is called with the parameters (in the form of `start`) and some of the records, and says of each of *these records* its gradient:

    >>> import numpy as np, dpopt
    >>> def gradients(x, a):  # of ½‖x − a‖², one row for each record
    ...     return x - a
    >>> records = np.random.default_rng(0).normal([1.0, -2.0], 0.1, (5000, 2))
    >>> found = dpopt.minimize(gradients, records, np.zeros(2), epsilon=1.0, delta=1e-6)
    >>> bool(np.abs(found.x - [1.0, -2.0]).max() < 0.2)
    True

    Each gradient is clipped and the sum gets noise in the compiled library, so that the guarantee holds for any loss, convex or not. It rests on one thing:
    **row i of what is returned depends on record i and on the parameters only** (no batch normalisation, no state from call to call), and
    something is returned for every record. Before anything is charged the function is tried on made-up records (as by :func:`check_per_record`); what is found is refused, and
    what passes is of grade ``"checked"``: a test is no proof. A library objective is ``"certified"``, and so is a :class:`dpopt.torch.RecordGradients` whose every step treats records
    one by one. Under add-or-remove the function gets one record at a time. How many records a call gets is secret; what your code prints about them is not protected.

    Parameters
    ----------
    objective
        ``objective(x, *rows)``. By `gives` it returns for m records: ``"gradients"``: arrays of the shapes of `start` with m in front;
        ``"values"``: m losses (derivatives along random directions are differences of them); ``"derivatives"``, called as
        ``objective(x, directions, *rows)`` with K directions as rows of an array: m × K derivatives. Or one of
        :mod:`dpopt.objectives`, which the library evaluates itself.
    data
        An array with a record in each row, or a tuple of them: NumPy, SciPy, pandas, PyTorch, JAX.
    start
        Where to start, public: an array, or dicts, lists and tuples of arrays. The answer has the same form. May be left out
        with one of :mod:`dpopt.objectives`.
    epsilon, delta
        What may be spent. Default δ: 1/n^1.1, at most 0.01; ``"net"`` and ``"tree"`` spend none of it.
    gives
        What the objective says of a record.
    method
        ``"dp-adam"``, ``"noisy-sgd"``, ``"noisy-gradient-descent"``, ``"dp-ftrl"``, ``"accelerated"``, ``"accelerated-srgd"``,
        ``"zeroth-order"``, ``"spider"``, ``"one-pass-spider"``, ``"net"``, ``"tree"``, ``"o2nc"``, ``"one-pass-o2nc"``; ``"auto"``: the first that applies; or an object of :mod:`dpopt.methods` with
        options, ``dpopt.methods.NoisySGD(steps=400)``. ``"net"`` finds a global minimum among the points of a
        public net, in at most three dimensions, by values (``gives="values"``, or one of :mod:`dpopt.objectives`), with δ = 0; ``"tree"`` the same
        in up to five dimensions, among so many points that their spacing costs nothing, of which few are looked at: fast where the loss has kinks, slow where it is flat near its minimum. ``"o2nc"`` and ``"one-pass-o2nc"``,
        which are never taken by default, are for losses with kinks that are not convex: gradients near the answer have a small mean; they take gradients or values.
    distance
        Public guess of how far the answer is from the start, in l2 norm: sets step sizes. Default 2·d^¼.
    smoothness, strong_convexity
        Public bounds on the largest and the least curvature of the mean loss, if you have them: they steer steps, never privacy.
    neighbors
        ``"zero-out"``, ``"replace-one"`` or ``"add-or-remove"``.
    n_records
        Public guess of the number of records, needed under add-or-remove; otherwise they are counted.
    units
        Whose the records are: one id for each, so that all records of a person are protected together. A unit gives the mean of what is said of its
        records, clipped as one. A series with a name, or ``{"person": ids}``, says what a unit is called.
    unit
        What is public of them: ``dpopt.Unit(max_rows=..., count=...)``. `max_rows` is needed: of one with more records, so many are chosen by secret coins, once for
        the run; `count`, or a guess of it, is needed under add-or-remove.
    budget
        A :class:`dpopt.Ledger`, charged before a record is read. If `objective` raises, the charge **stays**, since what
        was released until then was paid for with it. That it raised is not covered: it may depend on the records, so make it one that raises for none.
    insecure_seed
        Reproducible noise for tests: no privacy.
    batch_records
        The most records that the objective gets at a time; by default as many as have 2^26 numbers, under add-or-remove one.
    example
        Records that are not sensitive, in the form of `data`, on which the objective is tried; by default records are made up from the types and shapes of `data`:
        numbers from a normal distribution (or between 0 and 1), whole numbers 0 and 1.
    show_errors
        Shows what `objective` says where it raises on the records. It may hold their values, so that only its type is told otherwise.
    options
        Of the method: ``clip_norm`` (1, of networks that tell classes 2; of ``"accelerated-srgd"``, which asks for each record's gradient at two points, it bounds their weighted difference),
        ``passes`` (20), ``steps``, ``learning_rate``, ``momentum``, ``sampling_probability``, ``regularization``,
        ``ball_radius`` or ``box_radius`` (around the start), ``average``, ``second_momentum``, ``correlation``, ``directions``, ``difference``;
        ``goal="population"``: phases on disjoint blocks of the records, for the loss of records yet unseen, with ``chunks`` of each; ``batches="fixed"``: always as many records;
        ``restarts`` and ``smoothing`` of ``"accelerated"``; ``initial_gap``, a public guess of how far the mean loss can fall, which ``"spider"`` and ``"one-pass-spider"`` need beside `smoothness`,
        with its ``fresh_gradients``, ``drift``, ``difference_clip``, ``second_stage`` and ``hessian_lipschitz``; ``goldstein_radius``, ``period``, ``block``, ``directions`` of
        ``"o2nc"``, with ``initial_gap`` and ``difference_clip``; ``points`` of ``"net"``: the most it has. There and for ``"tree"``
        `clip_norm` bounds how much a record's loss counts as changing per unit of distance from `start`, and without a radius the points cover the ball of radius `distance`;
        ``loss_bound``: losses lie between 0 and this (others are cut), which is less noise where they are flat or jump.
    """
    relation = accounting._relation(neighbors)
    native = objective if isinstance(objective, Objective) else None
    if native is None and not callable(objective):
        raise TypeError(
            f"objective is {kind(objective)}; give a function of parameters and records, or one of dpopt.objectives"
        )
    if start is None:
        if native is None:
            raise TypeError("start is missing; give the parameters to start from")
        start = native.start(insecure_seed)
    parameters = Leaves(start, "start")
    if native is not None and parameters.size != native.dimension:
        raise ValueError(f"start has {parameters.size} numbers, and the objective {native.dimension}")
    records: Any
    present: int
    if native is not None:
        records, present = native._records(data)
        form = of_arrays(records)
    else:
        records = Records(data)
        present, form = len(records), of_arrays(records.arrays)
    seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
    whose: Units | None = None
    names: tuple[str, ...] = ()
    if units is None:
        unused(unit)
        count = _counted(present, n_records, relation)
    else:
        if n_records is not None:
            raise ValueError(
                "n_records is given, but units are protected; give the number of units, unit=dpopt.Unit(count=...)"
            )
        given = ids_alone(units)
        names = given.names
        whose = settled(given, present, relation, unit=unit, seed=seed, bounded=True)
        count, present = whose.count, len(whose.rows)
    if budget is not None and insecure_seed is not None:
        raise ValueError(
            "insecure_seed and a ledger exclude each other, since predictable noise protects nobody; leave one of them out"
        )
    if native is None and relation == "add-or-remove" and batch_records not in (None, 1):
        raise ValueError(ONE_AT_A_TIME)
    said = {
        "method": method, "distance": distance, "smoothness": smoothness, "strong_convexity": strong_convexity, **options,
    }  # fmt: skip

    def plan_with(own_evidence: str) -> tuple[Any, Plan]:
        return _planned(
            count, parameters.size, gives, epsilon, delta, relation, dict(said), remote=native is None, of_units=whose is not None,
            usual_clip_norm=None if native is None or whose is not None else native._native.usual_clip_norm(), own_evidence=own_evidence,
        )  # fmt: skip

    planned, plan = plan_with("checked" if native is None else "proved")
    charge = None if budget is None else budget._charge_for(names)
    evidence = None if native is not None else _tried(objective, records, parameters, gives, example)
    if evidence is not None and evidence.kind != "checked":
        planned, plan = plan_with(evidence.kind)
    if relation == "add-or-remove":
        batch_records = 1
    elif batch_records is None:
        width = parameters.size if gives == "gradients" else plan.schedule.get("directions", 1)
        batch_records = max(1, ENTRIES // max(width, 1))
    elif whole(batch_records, "batch_records") < 1:
        raise ValueError("batch_records must be at least 1")
    price = (planned.event(), plan.epsilon, plan.delta, relation)
    session = open_session(
        "minimize", "minimize", price, charge, seed, None, None if whose is None else whose.name, of=form
    )
    if native is not None:
        rows = None if whose is None else whose.rows
        found = planned.run_native(session, parameters.vector(), native._native, records, rows)
    else:
        assert evidence is not None and not isinstance(objective, Objective)
        evidence.note(session)
        # what the library's own say holds no values
        shown = show_errors or hasattr(objective, "_self_check")
        called = _called(objective if shown else _quiet(objective), records.at, parameters, gives)
        if whose is not None:
            assert whose.most is not None
            called = _by_unit(called, whose, parameters.size, gives)
            batch_records = max(1, batch_records // whose.most)
        found = planned.run(session, parameters.vector(), called, present, batch_records)
    name = getattr(objective, "__name__", type(objective).__name__)
    html = planned.report(session, found, "records in memory", f"the mean of {name}")
    return Minimum(parameters.tree(found), Privacy.of_session(session), plan, html)


def _counted(present: int, n_records: Any, relation: str) -> int:
    """The public number of records, or the guess of it."""
    if relation == "add-or-remove":
        if n_records is None:
            raise ValueError("add-or-remove protects the number of records; give a public guess as n_records")
        return whole(n_records, "n_records")
    if n_records is not None and whole(n_records, "n_records") != present:
        raise ValueError(
            "n_records differs from the number of records, which is public under this relation; leave it out"
        )
    return present


def _by_unit(called: Callable[..., Any], whose: Units, dimension: int, gives: Gives) -> Callable[..., Any]:
    """What is said of records as what is said of units: positions are units, and a unit gives the mean over its records, which are chosen here."""
    rows, counts = whose.rows.draw(np.arange(len(whose.rows), dtype=np.uint64))
    starts = np.cumsum(counts) - counts

    def of_units(x: np.ndarray, units: np.ndarray, *more: np.ndarray) -> Any:
        own = counts[units]
        begin = np.cumsum(own) - own
        members = rows[np.repeat(starts[units] - begin, own) + np.arange(own.sum())]
        if not len(members):
            shapes = {"gradients": (dimension,), "values": (), "derivatives": (len(more[0]),) if more else ()}
            nothing = np.zeros((len(units), *shapes[gives]))
            return [nothing] if gives == "gradients" else nothing
        said = called(x, members.astype(np.uint64), *more)
        blocks = said if isinstance(said, list) else [said]
        if any(len(block) != len(members) for block in blocks):
            raise ValueError("the objective did not return one row for each record of the batch")
        there = own > 0
        means = []
        # what is not finite stays so, in its own unit, and counts as 0 where it is clipped: no warning tells of it
        with np.errstate(all="ignore"):
            for block in blocks:
                mean = np.zeros((len(units), *block.shape[1:]), np.result_type(block.dtype, np.float32))
                sums = np.add.reduceat(block, begin[there], axis=0)
                mean[there] = sums / own[there].reshape(-1, *[1] * (block.ndim - 1))
                means.append(mean)
        return means if isinstance(said, list) else means[0]

    return of_units


def _quiet(objective: Callable[..., Any]) -> Callable[..., Any]:
    """The objective; what it says where it raises may hold values of records, and is not shown."""

    def quiet(*given: Any) -> Any:
        try:
            return objective(*given)
        except Exception as why:
            failed = type(why).__name__
        raise RuntimeError(
            f"the objective raised {failed} on the records, and its message is not shown, since it may contain their values. It passed the test on synthetic records, so that the cause lies in the values of these records or in the parameters that were tried; give similar non-sensitive records as example=, or show_errors=True if nobody else will read the message"
        )

    return quiet


ONE_AT_A_TIME = (
    "under add-or-remove the objective gets one record at a time, since products of matrices round a record's row by how many others there are; leave "
    'batch_records out, or use neighbors="zero-out"'
)


def _tried(
    objective: Any,
    records: Records,
    parameters: Leaves,
    gives: str,
    example: Any,
    directions: np.ndarray | None = None,
    subject: str = "the objective",
) -> Evidence:
    """What may be said of an objective, tried on made-up records before anything is charged."""
    if example is None:
        pools: list[Callable[[], Pool]] = [partial(synthetic, records.arrays, sort) for sort in SORTS]
    else:
        pools = [lambda: of_example(Records(example).arrays)]
    itself = getattr(objective, "_self_check", None)
    if itself is not None:
        return itself(pools)
    coins = np.random.default_rng(0)
    x = parameters.vector() + 0.1 * coins.standard_normal(parameters.size)
    along = coins.standard_normal((3, parameters.size)) if directions is None else directions
    more = (along,) if gives == "derivatives" else ()

    def said(pool: Pool, positions: Sequence[int]) -> np.ndarray:
        called = _called(objective, lambda at: pool.at(at.tolist()), parameters, gives)
        given = called(x.copy(), np.array(positions, dtype=np.uint64), *more)
        return np.column_stack(given) if isinstance(given, list) else given.reshape(len(given), -1)

    pool, _ = first_that_runs(pools, lambda pool: (said(pool, [0]), said(pool, pool.batch(SIZES[0]))))

    def rows(positions: list[int]) -> np.ndarray:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return said(pool, positions)
            except Exception as why:
                if {pool.zeroed, pool.extreme} & set(positions):
                    raise CannotBeTried(str(why)) from None
                raise

    tried = examine(subject, rows, pool)
    for sort in MORE_WHOLE if example is None and any(_whole_on_cpu(a) for a in records.arrays) else ():
        pool = synthetic(records.arrays, sort)
        try:
            examine(subject, rows, pool)
        except NotOfOneRecord:
            raise
        except Exception:
            # what it does not take refutes nothing
            continue
        tried += f"; with {sort} too"
    return Evidence("checked", f"that what {subject} says of a record depends on that record alone was {tried}")


def _whole_on_cpu(array: Any) -> bool:
    """Whether an array has whole numbers, and a place that is none in a table is an error and not the end of a device."""
    kind = str(getattr(array, "dtype", ""))
    return (
        kind.removeprefix("torch.").startswith(("int", "uint"))
        and getattr(getattr(array, "device", None), "type", "cpu") == "cpu"
    )


def _called(
    objective: Callable[..., Any], at: Callable[[np.ndarray], Sequence[Any]], parameters: Leaves, gives: str
) -> Callable[..., Any]:
    """The objective as the compiled library calls it: with a vector and positions."""

    def gradients(x: np.ndarray, positions: np.ndarray) -> list[np.ndarray]:
        return parameters.rows(objective(parameters.tree(x), *at(positions)))

    def values(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        given = to_numpy(objective(parameters.tree(x), *at(positions)))
        if given.ndim != 1:
            raise ValueError("the objective did not return an array with one loss for each record")
        return given.astype(np.float64)

    def derivatives(x: np.ndarray, positions: np.ndarray, directions: np.ndarray) -> np.ndarray:
        given = to_numpy(objective(parameters.tree(x), directions, *at(positions)))
        if given.ndim != 2:
            raise ValueError("the objective did not return an array of records × directions")
        return given.astype(np.float64)

    calls: dict[str, Callable[..., Any]] = {"gradients": gradients, "values": values, "derivatives": derivatives}
    return calls[gives]


def check_per_record(objective: Callable[..., Any], data: Any, start: Any, *, gives: Gives = "gradients") -> Evidence:
    """Tries whether what an objective says of a record depends on that record only: on records that are **not sensitive**, such as made-up ones.

    :func:`minimize` does the same before it charges anything. Records are given one at a time and in batches of two sizes, in another order, twice, and with one replaced, one of zeros and
    one with very large numbers: what is said of a record must stay what it is, that of others to the last bit. It finds batch normalisation, means over the batch, rows out of order and
    state from call to call. What it does not find is not proved to be absent.

    Parameters
    ----------
    objective
        What :func:`minimize` takes.
    data
        At least two records that are not sensitive.
    start
        parameters.
    gives
        What the objective says of a record.

    Returns
    -------
    What was tried: ``grade`` and ``why``.

    Raises
    ------
    ValueError
        Which of them it looks like.

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> dpopt.check_per_record(lambda x, a: x - a, np.eye(3), np.zeros(3)).grade
    'checked'
    >>> dpopt.check_per_record(lambda x, a: x - a + a.mean(axis=0), np.eye(3), np.zeros(3))
    Traceback (most recent call last):
      ...
    dpopt._self_check.NotOfOneRecord: the objective: a record gives different numbers alone and in a batch of 7, so that its row depends on other records or their number, and nothing would be protected; make row i depend on record i only
    """
    _known(gives)
    records, parameters = Records(data), Leaves(start, "start")
    if len(records) < 2:
        raise ValueError("example has fewer than two records; give at least two, which must not be sensitive")
    return _tried(objective, records, parameters, gives, data)


__all__ = ["check_per_record", "minimize", "plan_minimize"]
