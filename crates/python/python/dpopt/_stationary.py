"""One of several public candidates, by how stationary it is for the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core, accounting
from ._by_unit import ids_alone, settled, unused
from ._minimize import ENTRIES, ONE_AT_A_TIME, _by_unit, _called, _counted, _quiet, _tried
from ._plan import Privacy
from ._public_facts import Unit
from ._reading import attempt, kind, number, positive, whole
from ._repeats import of_arrays, open_session
from ._settings import knows_its_keywords
from ._trees import Leaves, Records, to_numpy
from .ledger import Ledger


@dataclass(frozen=True)
class Selected:
    """Which candidate was chosen.

    Attributes
    ----------
    index
        Its place in the list; None where none was good enough.
    x
        The candidate itself, or None.
    error
        Public, as a norm of the mean *clipped* gradient: how much smaller that of the best candidate is on average at most; with ``first=True`` how far the
        chosen one is beyond `alpha` with probability .95 at most.
    privacy_
        What was promised and certified (:class:`dpopt.Privacy`).
    assumptions
        What the guarantee rests on, in words: what is enforced or proved, and what was told and nobody checks.
    """

    index: int | None
    x: Any
    error: float
    privacy_: Privacy
    assumptions: tuple[str, ...] = ()


@knows_its_keywords
def stationary(
    gradients: Callable[..., Any],
    data: Any,
    candidates: Sequence[Any],
    *,
    epsilon: float,
    clip_norm: float = 1.0,
    alpha: float | None = None,
    first: bool = False,
    curvatures: Callable[..., Any] | None = None,
    directions: Any = None,
    curvature_bound: float | None = None,
    hessian_lipschitz: float | None = None,
    neighbors: str = "zero-out",
    n_records: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    budget: Ledger | None = None,
    insecure_seed: int | None = None,
    batch_records: int | None = None,
    example: Any = None,
    show_errors: bool = False,
) -> Selected:
    """Takes the candidate at which the mean gradient of the records is smallest, privately (δ = 0).

    Candidates are public or private already: checkpoints of a private run, starting points, other people's models. Training is not paid for here.

    >>> import numpy as np, dpopt
    >>> records = np.random.default_rng(0).normal(1.0, 0.1, (5000, 1))
    >>> checkpoints = [np.array([0.0]), np.array([1.0]), np.array([3.0])]
    >>> found = dpopt.select.stationary(lambda x, a: x - a, records, checkpoints, epsilon=1.0)
    >>> found.index, found.privacy_.delta
    (1, 0.0)

    Small gradients are not small losses: a saddle or a maximum has none. With `curvatures` a candidate must not be curved downwards either, along any of a few
    public `directions`: the score is then max((‖mean gradient‖ − α)/C, (−√(ρα) − least mean curvature)/M), both parts of it always computed.

    Parameters
    ----------
    gradients
        ``gradients(x, *rows)``: arrays of the shapes of a candidate with the records in front, as for :func:`dpopt.minimize`; row i depends on record i
        and on x only.
    data
        An array with a record in each row, or a tuple of them.
    candidates
        Parameters of one form: arrays, or dicts, lists and tuples of arrays.
    epsilon
        What is spent. There is no δ.
    clip_norm
        Bound C on the l2 norm of one record's gradient; larger ones are shortened to it.
    alpha
        Norm of the mean gradient that is wanted; needed with `first` and with `curvatures`.
    first
        Take the first candidate that is good enough, which may be none, by one noisy threshold; candidates after it are not evaluated. By default the best
        of all is taken, with less noise.
    curvatures
        ``curvatures(x, directions, *rows)``: for m records and K directions an array m × K of vᵀ∇²f(x)v.
    directions
        K public directions, as an array K × parameters (all numbers of a candidate side by side); made unit vectors here.
    curvature_bound
        M: a record's curvature along a direction is cut to ±M.
    hessian_lipschitz
        ρ: curvatures of the mean of at least −√(ρα) are allowed.
    budget
        A :class:`dpopt.Ledger`, charged before a record is read and after the functions were tried on made-up records. If one raises on the records, the charge
        **stays**: that it raised is a fact about them.
    neighbors, n_records, units, unit, insecure_seed, batch_records, example, show_errors
        As in :func:`dpopt.minimize`.
    """
    relation = accounting._relation(neighbors)
    if not callable(gradients):
        raise TypeError(f"gradients is {kind(gradients)}; give a function of parameters and records")
    listed = attempt(lambda: list(candidates))
    if not listed:
        raise ValueError("there are no candidates; give a list with at least one")
    forms = [Leaves(candidate, "a candidate") for candidate in listed]
    points = [forms[0].same(candidate) for candidate in listed]
    if not all(np.isfinite(point).all() for point in points):
        raise ValueError("a candidate has an entry that is not finite; leave it out")
    ways, curvature = _curvature(curvatures, directions, curvature_bound, hessian_lipschitz, forms[0].size)
    seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
    if budget is not None and seed is not None:
        raise ValueError(
            "insecure_seed and a ledger exclude each other, since predictable noise protects nobody; leave one of them out"
        )
    records = Records(data)
    present, whose = len(records), None
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
    request = {
        "records": count, "candidates": len(listed), "of_units": whose is not None, "relation": relation, "epsilon": positive(epsilon, "epsilon"),
        "clip_norm": positive(clip_norm, "clip_norm"), "alpha": None if alpha is None else number(alpha, "alpha"), "curvature": curvature, "first": bool(first),
    }  # fmt: skip
    planned = _core.Stationary(json.dumps(request))
    told = json.loads(planned.told())
    if relation == "add-or-remove":
        if batch_records not in (None, 1):
            raise ValueError(ONE_AT_A_TIME)
        batch_records = 1
    elif batch_records is None:
        batch_records = max(1, ENTRIES // max(forms[0].size, len(ways)))
    elif whole(batch_records, "batch_records") < 1:
        raise ValueError("batch_records must be at least 1")
    evidence = [_tried(gradients, records, forms[0], "gradients", example, subject="the function of gradients")]
    if curvatures is not None:
        evidence.append(
            _tried(curvatures, records, forms[0], "derivatives", example, ways, "the function of curvatures")
        )
    quiet = (lambda f: f) if show_errors else _quiet
    slopes = _called(quiet(gradients), records.at, forms[0], "gradients")
    bent = quiet(curvatures) if curvatures is not None else None

    def bends(x: np.ndarray, positions: np.ndarray, along: np.ndarray) -> np.ndarray:
        assert bent is not None
        given = to_numpy(bent(forms[0].tree(x), along, *records.at(positions)))
        if given.ndim != 2:
            raise ValueError("curvatures did not return an array of records × directions")
        return given.astype(np.float64)

    if whose is not None:
        assert whose.most is not None
        slopes = _by_unit(slopes, whose, forms[0].size, "gradients")
        bends = _by_unit(bends, whose, forms[0].size, "derivatives")
        batch_records = max(1, batch_records // whose.most)
    price = (planned.event(), float(epsilon), 0.0, relation)
    charge = None if budget is None else budget._charge_for(names)
    session = open_session(
        "stationary",
        "stationary",
        price,
        charge,
        seed,
        None,
        None if whose is None else whose.name,
        of=of_arrays(records.arrays),
    )
    for why in evidence:
        why.note(session)
    index = planned.run(
        session,
        lambda candidate, positions: slopes(points[candidate], positions),
        None if curvatures is None else lambda candidate, positions: bends(points[candidate], positions, ways.copy()),
        present,
        forms[0].size,
        len(ways),
        batch_records,
    )
    return Selected(
        index,
        None if index is None else listed[index],
        told["error"],
        Privacy.of_session(session),
        tuple(told["assumptions"]),
    )


def _curvature(
    curvatures: Any, directions: Any, bound: Any, rho: Any, dimension: int
) -> tuple[np.ndarray, tuple[float, float] | None]:
    """Unit vectors in rows, and M with ρ; none of them where there are no curvatures."""
    if curvatures is None:
        if any(value is not None for value in (directions, bound, rho)):
            raise ValueError(
                "directions, curvature_bound and hessian_lipschitz have no effect without curvatures; give curvatures, or leave them out"
            )
        return np.zeros((0, dimension)), None
    if not callable(curvatures):
        raise TypeError(f"curvatures is {kind(curvatures)}; give a function of parameters, directions and records")
    if directions is None or bound is None or rho is None:
        raise ValueError(
            "curvatures need public directions and bounds; give directions, curvature_bound and hessian_lipschitz. (The smallest eigenvalue of the Hessian cannot be tested, since nothing bounds the contribution of a record to it.)"
        )
    ways = attempt(lambda: np.atleast_2d(np.asarray(directions, dtype=np.float64)))
    if ways is None or ways.ndim != 2 or ways.shape[1] != dimension or not len(ways):
        raise ValueError(f"directions must be an array of directions × {dimension} numbers")
    lengths = np.linalg.norm(ways, axis=1)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("a direction is zero or not finite; give finite vectors other than zero")
    return ways / lengths[:, None], (positive(bound, "curvature_bound"), positive(rho, "hessian_lipschitz"))


__all__ = ["Selected", "stationary"]
