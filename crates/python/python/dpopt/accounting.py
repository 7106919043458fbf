"""What mechanisms cost: events, certified bounds, calibration.

An *event* describes what a mechanism does. The classes have the names and fields of Google's ``dp_accounting``, whose
own objects are accepted wherever an event is expected:

>>> from dpopt import accounting as acc
>>> dp_sgd = acc.SelfComposedDpEvent(acc.PoissonSampledDpEvent(0.01, acc.GaussianDpEvent(1.5627)), 1000)
>>> print(dp_sgd)
1000 × Poisson(0.01, Gaussian(1.5627))
>>> eps = acc.epsilon(dp_sgd, delta=1e-6)
>>> bool(0.999 < eps <= 1.0)
True
>>> eps.accountant
'pld'
>>> found = acc.calibrate(lambda z: acc.GaussianDpEvent(z), epsilon=1.0, delta=1e-5)
>>> round(found.value, 4)
3.7306

Every bound is an upper bound, rounded toward larger ε.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core, _events
from ._events import *  # noqa: F403
from ._events import DpEvent, as_event, from_json
from ._reading import array, kind, number

RELATIONS = ("zero-out", "add-or-remove", "replace-one")


def _relation(value: Any) -> str:
    """Our name of a relation; dp_accounting's NeighboringRelation is understood."""
    name = value.name if isinstance(value, enum.Enum) else value
    if not isinstance(name, str):
        raise TypeError(f"the relation is {kind(value)}; choose one of {', '.join(RELATIONS)}")
    peers = {"ADD_OR_REMOVE_ONE": "add-or-remove", "REPLACE_ONE": "replace-one", "REPLACE_SPECIAL": "zero-out"}
    return peers.get(str(name), str(name))


def _name(accountant: Any) -> str:
    if not isinstance(accountant, str):
        raise TypeError(f"the accountant is {kind(accountant)}; give the name of one, or auto")
    return accountant


class Bound(float):
    """A certified upper bound (ε or δ): a float that knows where it comes from.

    Attributes
    ----------
    lower
        Certified lower bound: what a mechanism that the event describes really costs; None where none is known.
    accountant
        ``gdp``, ``pure``, ``zcdp``, ``rdp`` or ``pld``.
    details
        Everything the accountant says (directions, numerical slack).
    """

    lower: float | None
    accountant: str
    details: dict[str, Any]

    def __new__(cls, details: dict[str, Any]) -> Bound:
        self = super().__new__(cls, details["upper"])
        self.lower, self.accountant, self.details = details.get("lower"), details["accountant"], details
        return self

    def __reduce__(self) -> Any:
        return (Bound, (self.details,))

    def __repr__(self) -> str:
        return f"{float(self)!r}"


@dataclass(frozen=True)
class Calibration:
    """What a search found: `value`, its `event`, and the certified `bound` of that event. `search_ended`: the search for steps stopped at
    1e9, its largest number; more may fit."""

    value: float
    event: DpEvent
    bound: Bound
    search_ended: bool = False


def epsilon(event: Any, delta: float, *, relation: Any = "zero-out", accountant: str = "auto") -> Bound:
    """The smallest certified ε of `event` at `delta`.

    Parameters
    ----------
    event
        See :func:`as_event`.
    delta
        In [0, 1).
    relation
        ``"zero-out"`` (default), ``"add-or-remove"`` or ``"replace-one"``.
    accountant
        ``"auto"`` takes the tightest valid one.

    Examples
    --------
    >>> round(epsilon("gaussian(3.730632)", 1e-5), 4)
    1.0
    >>> eps = epsilon("poisson(0.01, gaussian(1)) x 100", 1e-6)
    >>> bool(0.999 * eps < eps.lower <= eps)
    True
    """
    text = _core.epsilon(as_event(event).to_json(), number(delta, "delta"), _relation(relation), _name(accountant))
    return Bound(json.loads(text))


def delta(event: Any, epsilon: float, *, relation: Any = "zero-out", accountant: str = "auto") -> Bound:
    """The smallest certified δ of `event` at `epsilon`.

    >>> bool(delta("gaussian(3.730632)", 1.0) <= 1e-5)
    True
    """
    text = _core.delta(as_event(event).to_json(), number(epsilon, "epsilon"), _relation(relation), _name(accountant))
    return Bound(json.loads(text))


def compare(event: Any, delta: float, *, relation: Any = "zero-out") -> dict[str, Bound | str]:
    """Every accountant's ε, or the reason why it has none.

    >>> answers = compare("gaussian(2)", 1e-5)
    >>> bool(answers["gdp"] < answers["zcdp"]), sorted(n for n, a in answers.items() if isinstance(a, str))
    (True, ['pure'])
    """
    rows = _core.compare(as_event(event).to_json(), number(delta, "delta"), _relation(relation))
    return {name: Bound(json.loads(bound)) if bound is not None else str(why) for name, bound, why in rows}


def certify(event: Any, epsilon: float, delta: float, *, relation: Any = "zero-out") -> Bound:
    """The certified ε of `event`, which must be at most `epsilon`.

    Raises
    ------
    dpopt.BudgetExceeded
        If the event costs more.
    """
    text = _core.certified(
        as_event(event).to_json(), number(epsilon, "epsilon"), number(delta, "delta"), _relation(relation)
    )
    return Bound(json.loads(text))


def calibrate(
    make_event: Callable[[float], Any],
    epsilon: float,
    delta: float,
    *,
    what: str = "noise",
    relation: Any = "zero-out",
) -> Calibration:
    """The least noise (`what="noise"`), the largest ``"sampling_probability"``, number of ``"steps"`` or ``"cost"`` (the ε, μ or ρ of a
    mechanism) within (ε, δ). The value returned was certified by an evaluation of its own.

    Parameters
    ----------
    make_event
        Gives the event for a value; ε must be monotone in it.

    Examples
    --------
    >>> found = calibrate(lambda q: f"poisson({q!r}, gaussian(1.5627)) x 1000", 1.0, 1e-6, what="sampling_probability")
    >>> round(found.value, 4)
    0.01
    """
    value, event, bound = _core.calibrate(
        lambda x: as_event(make_event(x)).to_json(),
        what,
        number(epsilon, "epsilon"),
        number(delta, "delta"),
        _relation(relation),
    )
    steps = what == "steps"
    return Calibration(
        int(value) if steps else value, from_json(event), Bound(json.loads(bound)), steps and value >= 1e9
    )


def privacy_curve(event: Any, epsilons: Sequence[float], *, relation: Any = "zero-out") -> list[float]:
    """δ at each of `epsilons`, never growing with ε: what is certified at a smaller one holds at a larger one.

    >>> privacy_curve("gaussian(1)", [0.5, 1.0, 2.0]) == sorted(privacy_curve("gaussian(1)", [0.5, 1.0, 2.0]), reverse=True)
    True
    """
    return list(
        _core.privacy_curve(
            as_event(event).to_json(), [float(e) for e in array(epsilons, "epsilons").ravel()], _relation(relation)
        )
    )


def get_true_positive_rates(
    event: Any, false_positive_rates: Sequence[float], *, relation: Any = "zero-out"
) -> list[float]:
    """Upper bounds on the probability that a test of each false positive rate detects the record, whatever the attacker knows.

    >>> [round(x, 3) for x in get_true_positive_rates("gaussian(1)", [0.05, 1.0])]
    [0.26, 1.0]
    """
    rates = [float(x) for x in array(false_positive_rates, "false_positive_rates").ravel()]
    outside = next((i for i, rate in enumerate(rates) if not 0.0 <= rate <= 1.0), None)
    if outside is not None:
        raise ValueError(f"false_positive_rates[{outside}] is not a rate; give numbers from 0 to 1")
    return list(_core.true_positive_rates(as_event(event).to_json(), rates, _relation(relation)))


def gdp_estimate(event: Any, *, relation: Any = "zero-out") -> float:
    """The least μ whose Gaussian mechanism allows every certified (ε, δ) that is read, δ from 1e-10. Exact for Gaussian mechanisms;
    otherwise one number to compare by, and no guarantee.

    >>> round(gdp_estimate("gaussian(2) x 4"), 9)
    1.0
    """
    return float(_core.gdp_estimate(as_event(event).to_json(), _relation(relation)))


__all__ = [
    "Bound",
    "Calibration",
    "RELATIONS",
    "calibrate",
    "certify",
    "compare",
    "delta",
    "epsilon",
    "gdp_estimate",
    "get_true_positive_rates",
    "privacy_curve",
]
__all__ += _events.__all__
