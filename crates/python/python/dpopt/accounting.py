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

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Sequence

from . import _core

RELATIONS = ("zero-out", "add-or-remove", "replace-one")

_PEER_MODULE = "dp_accounting.dp_event"
_OWN_MODULE = "dpopt.event"
_CLASSES: dict[str, type["DpEvent"]] = {}


class DpEvent:
    """Base class of all events. Events are immutable values that compare by content."""

    _module: ClassVar[str] = _PEER_MODULE

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data, as ``dp_accounting`` writes it."""
        out: dict[str, Any] = {"class_name": type(self).__name__, "module_name": self._module}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is None:
                continue
            out[field.name] = _plain(value)
        return out

    def to_json(self) -> str:
        """The event as JSON, checked by the library.

        >>> GaussianDpEvent(2.0).to_json()
        '{"class_name": "GaussianDpEvent", "module_name": "dp_accounting.dp_event", "noise_multiplier": 2.0}'
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_dp_accounting(self) -> Any:
        """The same event as an object of the ``dp_accounting`` package.

        Raises:
            ValueError: if the package has no such event.
        """
        from dp_accounting import dp_event as peer

        name = type(self).__name__
        if self._module != _PEER_MODULE or not hasattr(peer, name):
            raise ValueError(f"dp_accounting has no {name}; use dpopt.accounting.epsilon on it instead")
        fields = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, DpEvent):
                value = value.to_dp_accounting()
            elif field.name == "events":
                value = [event.to_dp_accounting() for event in value]
            elif isinstance(value, tuple):
                value = list(value)
            fields[field.name] = value
        return getattr(peer, name)(**fields)

    def __str__(self) -> str:
        return _core.describe(self.to_json())

    def _repr_html_(self) -> str:
        from ._html import event_table

        return event_table(self)


def _plain(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and value == float("inf"):
        return "Infinity"
    if hasattr(value, "item"):  # NumPy scalars
        return value.item()
    return value


def _event(name: str, fields: str, doc: str, module: str = _PEER_MODULE) -> type[DpEvent]:
    """A frozen dataclass with the given fields (`*` marks a list), in dp_accounting's order."""
    specification: list[Any] = []
    for entry in fields.split():
        field, _, default = entry.partition("=")
        if default:
            specification.append((field, Any, dataclasses.field(default=json.loads(default))))
        else:
            specification.append((field, Any))

    def normalise(self: Any) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("event",):
                value = as_event(value)
            elif field.name in ("events", "blocks"):
                value = tuple(as_event(v) for v in value)
            elif isinstance(value, list) or hasattr(value, "tolist"):
                plain = value.tolist() if hasattr(value, "tolist") else value
                value = tuple(plain) if isinstance(plain, (list, tuple)) else plain
            object.__setattr__(self, field.name, value)

    made = dataclasses.make_dataclass(
        name, specification, bases=(DpEvent,), frozen=True, namespace={"__post_init__": normalise, "_module": module}
    )
    made.__doc__ = doc
    made.__module__ = __name__
    made.__str__ = DpEvent.__str__  # type: ignore[method-assign]
    return made


NoOpDpEvent = _event("NoOpDpEvent", "", "Nothing is released.")
NonPrivateDpEvent = _event("NonPrivateDpEvent", "", "Something is released without protection; every accountant refuses it.")
UnsupportedDpEvent = _event("UnsupportedDpEvent", "", "Something without a description; every accountant refuses it.")
RandomizedResponseDpEvent = _event(
    "RandomizedResponseDpEvent", "noise_parameter num_buckets", "A uniform bucket with probability `noise_parameter`."
)
GaussianDpEvent = _event(
    "GaussianDpEvent", "noise_multiplier", "Gaussian noise of standard deviation noise_multiplier·C on a sum clipped to l2 norm C."
)
LaplaceDpEvent = _event("LaplaceDpEvent", "noise_multiplier", "Laplace noise of scale noise_multiplier·C on a sum clipped to l1 norm C.")
DiscreteLaplaceDpEvent = _event(
    "DiscreteLaplaceDpEvent", "noise_parameter sensitivity", "Integer noise P(x) ∝ exp(-noise_parameter·|x|)."
)
SelfComposedDpEvent = _event("SelfComposedDpEvent", "event count", "`event`, `count` times with fresh randomness.")
ComposedDpEvent = _event("ComposedDpEvent", "events", "All of `events`.")
PoissonSampledDpEvent = _event(
    "PoissonSampledDpEvent", "sampling_probability event", "Each record enters independently with `sampling_probability`."
)
SampledWithReplacementDpEvent = _event(
    "SampledWithReplacementDpEvent", "source_dataset_size sample_size event", "A fresh sample drawn with replacement."
)
SampledWithoutReplacementDpEvent = _event(
    "SampledWithoutReplacementDpEvent", "source_dataset_size sample_size event", "A fresh subset of fixed size."
)
SingleEpochTreeAggregationDpEvent = _event(
    "SingleEpochTreeAggregationDpEvent", "noise_multiplier step_counts", "Prefix sums over one pass, noise per dyadic node."
)
RepeatAndSelectDpEvent = _event(
    "RepeatAndSelectDpEvent", "event mean shape", "`event` a random secret number of times, the best output released."
)
MixtureOfGaussiansDpEvent = _event(
    "MixtureOfGaussiansDpEvent", "standard_deviation sensitivities sampling_probs", "A mixture of shifted Gaussians against one."
)
ZCDpEvent = _event("ZCDpEvent", "rho xi=0.0", "(xi, rho)-zCDP.")
TruncatedSubsampledGaussianDpEvent = _event(
    "TruncatedSubsampledGaussianDpEvent",
    "dataset_size sampling_probability truncated_batch_size noise_multiplier",
    "Poisson batches cut to a size; no accountant here supports it.",
)
ExponentialMechanismDpEvent = _event(
    "ExponentialMechanismDpEvent", "epsilon", "A choice with probability ∝ exp(ε·score/(2·sensitivity)).", _OWN_MODULE
)
GdpDpEvent = _event("GdpDpEvent", "mu", "μ-Gaussian differential privacy.", _OWN_MODULE)
RdpDpEvent = _event("RdpDpEvent", "orders divergences", "A Rényi curve at some orders.", _OWN_MODULE)
PrivacyProfileDpEvent = _event("PrivacyProfileDpEvent", "epsilons deltas", "(epsilons[i], deltas[i])-DP for every i.", _OWN_MODULE)
PureStreamDpEvent = _event("PureStreamDpEvent", "epsilon", "Any interactive ε-DP mechanism.", _OWN_MODULE)
ApproxDpDpEvent = _event("ApproxDpDpEvent", "epsilon delta", "Any interactive (ε, δ)-DP mechanism.", _OWN_MODULE)
ChiSquareGaussianDpEvent = _event(
    "ChiSquareGaussianDpEvent", "degrees_of_freedom mu", "Gaussian noise behind a fresh random projection.", _OWN_MODULE
)
ParallelDpEvent = _event("ParallelDpEvent", "blocks", "One event on each of several disjoint blocks of records.", _OWN_MODULE)
UserUnitDpEvent = _event("UserUnitDpEvent", "records_per_user event", "`event` per record, for users with at most k records.", _OWN_MODULE)
ApproximateDpEvent = _event(
    "ApproximateDpEvent", "total_variation event", "`event` drawn by a sampler within `total_variation` of the exact law.", _OWN_MODULE
)
ObjectivePerturbationDpEvent = _event(
    "ObjectivePerturbationDpEvent",
    "noise_multiplier regularization link smoothness=null classes=null",
    "Objective perturbation at its exact minimiser; link is 'monotone', 'smooth' or 'softmax'.",
    _OWN_MODULE,
)


def from_dict(data: dict[str, Any]) -> DpEvent:
    """An event from plain data (the inverse of :meth:`DpEvent.to_dict`)."""
    fields = dict(data)
    name = fields.pop("class_name", None)
    fields.pop("module_name", None)
    if name not in _CLASSES:
        raise ValueError(f"unknown event class {name!r}; known: {', '.join(sorted(_CLASSES))}")
    for key in ("event",):
        if isinstance(fields.get(key), dict):
            fields[key] = from_dict(fields[key])
    for key in ("events", "blocks"):
        if key in fields:
            fields[key] = [from_dict(e) for e in fields[key]]
    if fields.get("shape") == "Infinity":
        fields["shape"] = float("inf")
    try:
        return _CLASSES[name](**fields)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None


def from_json(text: str) -> DpEvent:
    """An event from JSON text.

    >>> from_json('{"class_name": "GaussianDpEvent", "noise_multiplier": 2.0}')
    GaussianDpEvent(noise_multiplier=2.0)
    """
    event = from_dict(json.loads(text))
    _core.describe(event.to_json())  # the library's own checks
    return event


def parse(expression: str, unknown: float | None = None) -> DpEvent:
    """An event from the expression language of ``dpopt account``; `unknown` is the value of every ``?``.

    >>> parse("poisson(1/100, gaussian(1.1)) x 1000")
    SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.01, event=GaussianDpEvent(noise_multiplier=1.1)), count=1000)
    """
    return from_dict(json.loads(_core.parse(expression, unknown)))


def as_event(value: Any) -> DpEvent:
    """`value` as an event of this module: an event, an object of ``dp_accounting``, JSON text, an expression or a dict."""
    if isinstance(value, DpEvent):
        return value
    if isinstance(value, dict):
        return from_dict(value)
    if isinstance(value, str):
        return from_json(value) if value.lstrip().startswith("{") else parse(value)
    name = type(value).__name__
    if type(value).__module__.startswith("dp_accounting") and name in _CLASSES:
        known = {f.name for f in dataclasses.fields(_CLASSES[name])}  # type: ignore[arg-type]
        given = {key: getattr(value, key) for key in known if hasattr(value, key)}
        extra = {k for k in getattr(value, "__dict__", {}) if not k.startswith("_")} - known
        if extra:
            raise ValueError(f"{name} has fields that dpopt does not know: {', '.join(sorted(extra))}")
        return _CLASSES[name](**given)
    raise TypeError(f"{name} is not a privacy event; give one of dpopt.accounting, of dp_accounting, JSON or an expression")


def _relation(value: Any) -> str:
    """Our name of a relation; dp_accounting's NeighboringRelation is understood."""
    name = getattr(value, "name", value)
    peers = {"ADD_OR_REMOVE_ONE": "add-or-remove", "REPLACE_ONE": "replace-one", "REPLACE_SPECIAL": "zero-out"}
    return peers.get(str(name), str(name))


class Bound(float):
    """A certified upper bound (ε or δ): a float that knows where it comes from.

    Attributes:
        lower: certified lower bound on what the worst pair attains, or None.
        accountant: ``gdp``, ``pure``, ``zcdp``, ``rdp`` or ``pld``.
        details: everything the accountant says (directions, numerical slack).
    """

    lower: float | None
    accountant: str
    details: dict[str, Any]

    def __new__(cls, details: dict[str, Any]) -> "Bound":
        self = super().__new__(cls, details["upper"])
        self.lower, self.accountant, self.details = details.get("lower"), details["accountant"], details
        return self

    def __reduce__(self) -> Any:
        return (Bound, (self.details,))

    def __repr__(self) -> str:
        return f"{float(self)!r}"


@dataclass(frozen=True)
class Calibration:
    """What a search found: `value`, its `event`, and the certified `bound` of that event."""

    value: float
    event: DpEvent
    bound: Bound


def epsilon(event: Any, delta: float, *, relation: Any = "zero-out", accountant: str = "auto") -> Bound:
    """The smallest certified ε of `event` at `delta`.

    Args:
        event: see :func:`as_event`.
        delta: in [0, 1).
        relation: ``"zero-out"`` (default), ``"add-or-remove"`` or ``"replace-one"``.
        accountant: ``"auto"`` takes the tightest valid one.

    >>> round(epsilon("gaussian(3.730632)", 1e-5), 4)
    1.0
    """
    text = _core.epsilon(as_event(event).to_json(), float(delta), _relation(relation), accountant)
    return Bound(json.loads(text))


def delta(event: Any, epsilon: float, *, relation: Any = "zero-out", accountant: str = "auto") -> Bound:
    """The smallest certified δ of `event` at `epsilon`.

    >>> bool(delta("gaussian(3.730632)", 1.0) <= 1e-5)
    True
    """
    text = _core.delta(as_event(event).to_json(), float(epsilon), _relation(relation), accountant)
    return Bound(json.loads(text))


def compare(event: Any, delta: float, *, relation: Any = "zero-out") -> dict[str, Bound | str]:
    """Every accountant's ε, or the reason why it has none.

    >>> sorted(compare("gaussian(2)", 1e-5))
    ['gdp', 'pld', 'pure', 'rdp', 'zcdp']
    """
    rows = _core.compare(as_event(event).to_json(), float(delta), _relation(relation))
    return {name: Bound(json.loads(bound)) if bound is not None else str(why) for name, bound, why in rows}


def certify(event: Any, epsilon: float, delta: float, *, relation: Any = "zero-out") -> Bound:
    """The certified ε of `event`, which must be at most `epsilon`.

    Raises:
        dpopt.BudgetExceeded: if the event costs more.
    """
    text = _core.certified(as_event(event).to_json(), float(epsilon), float(delta), _relation(relation))
    return Bound(json.loads(text))


def calibrate(
    make_event: Callable[[float], Any],
    epsilon: float,
    delta: float,
    *,
    what: str = "noise",
    relation: Any = "zero-out",
) -> Calibration:
    """The least noise (`what="noise"`), the largest ``"sampling_probability"`` or number of ``"steps"`` within (ε, δ).

    Args:
        make_event: gives the event for a value; ε must be monotone in it.

    >>> found = calibrate(lambda q: f"poisson({q!r}, gaussian(1.5627)) x 1000", 1.0, 1e-6, what="sampling_probability")
    >>> round(found.value, 4)
    0.01
    """
    value, event, bound = _core.calibrate(
        lambda x: as_event(make_event(x)).to_json(), what, float(epsilon), float(delta), _relation(relation)
    )
    return Calibration(int(value) if what == "steps" else value, from_json(event), Bound(json.loads(bound)))


def privacy_curve(event: Any, epsilons: Sequence[float], *, relation: Any = "zero-out") -> list[float]:
    """δ at each of `epsilons`."""
    return [float(delta(event, e, relation=relation)) for e in epsilons]


__all__ = [
    "Bound", "Calibration", "DpEvent", "RELATIONS", "as_event", "calibrate", "certify", "compare", "delta", "epsilon",
    "from_dict", "from_json", "parse", "privacy_curve", *sorted(_CLASSES),
]
