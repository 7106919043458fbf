"""Privacy events: plain, immutable values with the names and fields of Google's ``dp_accounting``."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from . import _core
from ._reading import attempt, kind

__all__ = ["DpEvent", "as_event", "from_dict", "from_json", "parse"]

_PEER_MODULE = "dp_accounting.dp_event"
_OWN_MODULE = "dpopt.event"
_CLASSES: dict[str, type[DpEvent]] = {}
#: A δ below and an ε above those of any guarantee that is stated: there the errors of samplers can be left out.
_NO_DELTA, _USUAL_EPSILON = 1e-12, 20.0


class DpEvent:
    """Base class of all events. Events are immutable values that compare by content."""

    _module: ClassVar[str] = _PEER_MODULE
    #: Every event is a dataclass.
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES[cls.__name__] = cls

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "event":
                value = as_event(value)
            elif field.name in ("events", "blocks"):
                value = tuple(as_event(v) for v in value)
            elif isinstance(value, list) or hasattr(value, "tolist"):
                plain = value.tolist() if hasattr(value, "tolist") else value
                value = tuple(plain) if isinstance(plain, (list, tuple)) else plain
            if not _public(value):
                raise TypeError(
                    f"{field.name} of {type(self).__name__} is {kind(value)}; give a number, or a list of numbers where it has several"
                )
            object.__setattr__(self, field.name, value)

    def to_dict(self) -> dict[str, Any]:
        """The event as plain data, as ``dp_accounting`` writes it."""
        out: dict[str, Any] = {"class_name": type(self).__name__, "module_name": self._module}
        for field in dataclasses.fields(self):
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

    def to_dp_accounting(self, apart: bool = False) -> Any:
        """What ``dp_accounting``'s accountants take, and an upper bound there: the same event, or one that is never less distinguishable.

        Pure ε of any kind becomes integer Laplace noise of the same ε, μ-GDP the Gaussian that has it, permute-and-flip Laplace noise. How far samplers are from
        their laws (:class:`ApproximateDpEvent`, about 1e-30 for a fit) has no place there: it is left out, so that their bound is of the exact laws, and
        :meth:`samplers_delta` says what to add to their δ.

        Args:
            apart: leave it out also where it could matter, beyond a δ of 1e-12; then add it.

        Raises:
            ValueError: if the package has no such event and none that bounds it; the message names it.

        >>> event = ApproximateDpEvent(1e-30, GaussianDpEvent(2.0))
        >>> event.to_dp_accounting()
        GaussianDpEvent(noise_multiplier=2.0)
        >>> event.samplers_delta(1.0)
        3.718281828459045e-30
        """
        if not apart and self.samplers_delta(_USUAL_EPSILON) > _NO_DELTA:
            raise ValueError(
                f"the samplers of this event are {self.total_sampler_error():.1g} from their exact distributions, which dp_accounting cannot represent; use to_dp_accounting(apart=True), which omits this error, and add event.samplers_delta(epsilon) to the delta that it gives"
            )
        return self._to_peer()

    def samplers_delta(self, epsilon: float) -> float:
        """What samplers add to δ at `epsilon` beyond the exact laws' δ: (1 + e^ε) times :meth:`total_sampler_error`."""
        return (1.0 + math.exp(min(epsilon, 700.0))) * self.total_sampler_error()

    def total_sampler_error(self) -> float:
        """Bound on the total-variation distance of all samplers from their exact laws, added up; 0 for exact ones."""
        inner = [getattr(self, "event", None), *getattr(self, "events", ()), *getattr(self, "blocks", ())]
        one = sum(event.total_sampler_error() for event in inner if isinstance(event, DpEvent))
        times = getattr(self, "count", getattr(self, "num_steps", 1))
        if one and isinstance(self, RepeatAndSelectDpEvent):
            raise ValueError(
                "RepeatAndSelectDpEvent: the number of draws of its samplers has no bound, so neither has their error"
            )
        return float(getattr(self, "total_variation", 0.0) + times * one)

    def _to_peer(self) -> Any:
        from dp_accounting import dp_event as peer

        name = type(self).__name__
        if self._module == _PEER_MODULE and hasattr(peer, name):
            fields = {}
            for field in dataclasses.fields(self):
                value = getattr(self, field.name)
                if isinstance(value, DpEvent):
                    value = value._to_peer()
                elif field.name == "events":
                    value = [event._to_peer() for event in value]
                elif isinstance(value, tuple):
                    value = list(value)
                fields[field.name] = value
            return getattr(peer, name)(**fields)
        bound = self._bound()
        if bound is None:
            raise ValueError(
                f"dp_accounting has no {name}, and no event that bounds it; use dpopt.accounting.epsilon or privacy_curve instead"
            )
        return bound._to_peer()

    def _bound(self) -> DpEvent | None:
        """An event of ``dp_accounting`` that is at least as distinguishable, if there is one."""
        match self:
            case ApproximateDpEvent() | GatedDpEvent():
                # a gate that has the same law on neighbours shows at most what is behind it
                return self.event
            case GdpDpEvent() if self.mu > 0:
                return GaussianDpEvent(1.0 / self.mu)
            case GdpDpEvent():
                return NoOpDpEvent()
            case PermuteAndFlipDpEvent():
                return LaplaceDpEvent(1.0 / self.epsilon)
            case PureStreamDpEvent() | ExponentialMechanismDpEvent():
                # its loss is ε or −ε, with the probabilities of randomised response: the worst that ε allows
                return DiscreteLaplaceDpEvent(self.epsilon, 1)
            case EpsilonDeltaDpEvent() | ApproxDpDpEvent() if self.delta == 0:
                return DiscreteLaplaceDpEvent(self.epsilon, 1)
            case ParallelDpEvent() if len(set(self.blocks)) == 1:
                return self.blocks[0]
        return None

    def to_opacus_history(self) -> list[tuple[float, float, int]]:
        """The event as the ``history`` of an Opacus accountant: (noise multiplier, sampling rate, steps). How far samplers are from their laws is left out
        (:meth:`samplers_delta`).

        Raises:
            ValueError: if it is not made of Poisson-sampled or whole-table Gaussian steps.

        >>> parse("poisson(0.01, gaussian(1.1)) x 1000").to_opacus_history()
        [(1.1, 0.01, 1000)]
        """
        if isinstance(self, ApproximateDpEvent):
            # Opacus' samplers have no stated error either; `samplers_delta` says what it adds
            return self.event.to_opacus_history()
        if isinstance(self, GdpDpEvent) and self.mu > 0:
            return [(1.0 / self.mu, 1.0, 1)]
        if isinstance(self, ComposedDpEvent):
            return [step for event in self.events for step in event.to_opacus_history()]
        if isinstance(self, SelfComposedDpEvent):
            return [(z, q, n * self.count) for z, q, n in self.event.to_opacus_history()]
        if isinstance(self, PoissonSampledDpEvent) and isinstance(self.event, GaussianDpEvent):
            return [(self.event.noise_multiplier, self.sampling_probability, 1)]
        if isinstance(self, GaussianDpEvent):
            return [(self.noise_multiplier, 1.0, 1)]
        raise ValueError(f"Opacus knows Poisson-sampled Gaussian steps only, not {type(self).__name__}")

    def __str__(self) -> str:
        return _core.describe(self.to_json())

    def _repr_html_(self) -> str:
        from ._html import event_table

        return event_table(self)


def _public(value: Any) -> bool:
    """Whether a field holds what events are made of, and not a table or a record."""
    if isinstance(value, tuple):
        return all(not isinstance(v, str) and _public(v) for v in value)
    return value is None or isinstance(value, (DpEvent, str, numbers.Real, np.generic))


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


# Made by `make options` from the library's table of events: one class per entry.


@dataclass(frozen=True)
class GaussianDpEvent(DpEvent):
    """Gaussian noise of standard deviation noise_multiplier·C on a sum clipped to l2 norm C."""

    noise_multiplier: float


@dataclass(frozen=True)
class LaplaceDpEvent(DpEvent):
    """Laplace noise of scale noise_multiplier·C on a sum clipped to l1 norm C."""

    noise_multiplier: float


@dataclass(frozen=True)
class DiscreteLaplaceDpEvent(DpEvent):
    """Integer noise P(x) ∝ exp(-noise_parameter·|x|)."""

    noise_parameter: float
    sensitivity: int


@dataclass(frozen=True)
class DiscreteGaussianDpEvent(DpEvent):
    """Integer noise P(x) ∝ exp(-x²/(2·sigma²)) on `dimension` integer sums (None: any number of them).

    `sensitivity` is the l2 norm of one record's contribution, at least 1.
    """

    sigma: float
    sensitivity: float = 1.0
    dimension: int | None = None


@dataclass(frozen=True)
class RandomizedResponseDpEvent(DpEvent):
    """A uniform bucket with probability `noise_parameter`."""

    noise_parameter: float
    num_buckets: int


@dataclass(frozen=True)
class ExponentialMechanismDpEvent(DpEvent):
    """A choice with probability ∝ exp(ε·score/(2·sensitivity))."""

    epsilon: float


@dataclass(frozen=True)
class PermuteAndFlipDpEvent(DpEvent):
    """A choice by permute-and-flip: ε-DP, and never more distinguishable than Laplace noise of scale 1/ε."""

    epsilon: float


@dataclass(frozen=True)
class MixtureOfGaussiansDpEvent(DpEvent):
    """A mixture of shifted Gaussians against one."""

    standard_deviation: float
    sensitivities: Sequence[float]
    sampling_probs: Sequence[float]


@dataclass(frozen=True)
class ChiSquareGaussianDpEvent(DpEvent):
    """Gaussian noise behind a fresh random projection."""

    _module: ClassVar[str] = _OWN_MODULE
    degrees_of_freedom: int
    mu: float


@dataclass(frozen=True)
class SingleEpochTreeAggregationDpEvent(DpEvent):
    """Prefix sums over one pass, noise per dyadic node."""

    noise_multiplier: float
    step_counts: Sequence[int] | int


@dataclass(frozen=True)
class ObjectivePerturbationDpEvent(DpEvent):
    """Objective perturbation at its exact minimiser; link is 'monotone', 'smooth' or 'softmax'."""

    _module: ClassVar[str] = _OWN_MODULE
    noise_multiplier: float
    regularization: float
    link: str
    smoothness: float | None = None
    classes: int | None = None


@dataclass(frozen=True)
class PureStreamDpEvent(DpEvent):
    """Any interactive ε-DP mechanism."""

    _module: ClassVar[str] = _OWN_MODULE
    epsilon: float


@dataclass(frozen=True)
class ApproxDpDpEvent(DpEvent):
    """Any interactive (ε, δ)-DP mechanism."""

    _module: ClassVar[str] = _OWN_MODULE
    epsilon: float
    delta: float


@dataclass(frozen=True)
class EpsilonDeltaDpEvent(DpEvent):
    """A mechanism of which nothing is known but that it is (ε, δ)-DP."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class ProposeTestReleaseDpEvent(DpEvent):
    """A test that is ε-DP, and Gaussian noise where it passes; δ: to pass where nothing bounds what a record moves."""

    _module: ClassVar[str] = _OWN_MODULE
    epsilon: float
    delta: float
    noise_multiplier: float


@dataclass(frozen=True)
class GdpDpEvent(DpEvent):
    """μ-Gaussian differential privacy."""

    _module: ClassVar[str] = _OWN_MODULE
    mu: float


@dataclass(frozen=True)
class ZCDpEvent(DpEvent):
    """(xi, rho)-zCDP."""

    rho: float
    xi: float = 0.0


@dataclass(frozen=True)
class RdpDpEvent(DpEvent):
    """A Rényi curve at some orders."""

    _module: ClassVar[str] = _OWN_MODULE
    orders: Sequence[float]
    divergences: Sequence[float]


@dataclass(frozen=True)
class PrivacyProfileDpEvent(DpEvent):
    """(epsilons[i], deltas[i])-DP for every i."""

    _module: ClassVar[str] = _OWN_MODULE
    epsilons: Sequence[float]
    deltas: Sequence[float]


@dataclass(frozen=True)
class PoissonSampledDpEvent(DpEvent):
    """Each record enters independently with `sampling_probability`."""

    sampling_probability: float
    event: DpEvent


@dataclass(frozen=True)
class GatedDpEvent(DpEvent):
    """`event` where a coin says so that is shown and has the same law on neighbouring data."""

    _module: ClassVar[str] = _OWN_MODULE
    probability: float
    event: DpEvent


@dataclass(frozen=True)
class TruncatedSubsampledGaussianDpEvent(DpEvent):
    """Poisson batches cut to a size; `dataset_size` is an upper bound under add-or-remove."""

    dataset_size: int
    sampling_probability: float
    truncated_batch_size: int
    noise_multiplier: float


@dataclass(frozen=True)
class RandomAllocationDpEvent(DpEvent):
    """Each record takes part in `num_selected` of `num_steps` calls of `event`, chosen uniformly, independently of all others."""

    event: DpEvent
    num_selected: int
    num_steps: int


@dataclass(frozen=True)
class SampledWithoutReplacementDpEvent(DpEvent):
    """A fresh subset of fixed size."""

    source_dataset_size: int
    sample_size: int
    event: DpEvent


@dataclass(frozen=True)
class SampledWithReplacementDpEvent(DpEvent):
    """A fresh sample drawn with replacement."""

    source_dataset_size: int
    sample_size: int
    event: DpEvent


@dataclass(frozen=True)
class RepeatAndSelectDpEvent(DpEvent):
    """`event` a random secret number of times, the best output released."""

    event: DpEvent
    mean: float
    shape: float


@dataclass(frozen=True)
class ParallelDpEvent(DpEvent):
    """One event on each of several disjoint blocks of records."""

    _module: ClassVar[str] = _OWN_MODULE
    blocks: Sequence[DpEvent]


@dataclass(frozen=True)
class UserUnitDpEvent(DpEvent):
    """`event` per record, for users with at most k records."""

    _module: ClassVar[str] = _OWN_MODULE
    records_per_user: int
    event: DpEvent


@dataclass(frozen=True)
class ApproximateDpEvent(DpEvent):
    """`event` drawn by a sampler within `total_variation` of the exact law."""

    _module: ClassVar[str] = _OWN_MODULE
    total_variation: float
    event: DpEvent


@dataclass(frozen=True)
class NoOpDpEvent(DpEvent):
    """Nothing is released."""


@dataclass(frozen=True)
class NonPrivateDpEvent(DpEvent):
    """Something is released without protection; every accountant refuses it."""


@dataclass(frozen=True)
class UnsupportedDpEvent(DpEvent):
    """Something without a description; every accountant refuses it."""


@dataclass(frozen=True)
class SelfComposedDpEvent(DpEvent):
    """`event`, `count` times with fresh randomness."""

    event: DpEvent
    count: int


@dataclass(frozen=True)
class ComposedDpEvent(DpEvent):
    """All of `events`."""

    events: Sequence[DpEvent]


__all__ += [
    "ApproxDpDpEvent",
    "ApproximateDpEvent",
    "ChiSquareGaussianDpEvent",
    "ComposedDpEvent",
    "DiscreteGaussianDpEvent",
    "DiscreteLaplaceDpEvent",
    "EpsilonDeltaDpEvent",
    "ExponentialMechanismDpEvent",
    "GatedDpEvent",
    "GaussianDpEvent",
    "GdpDpEvent",
    "LaplaceDpEvent",
    "MixtureOfGaussiansDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "ObjectivePerturbationDpEvent",
    "ParallelDpEvent",
    "PermuteAndFlipDpEvent",
    "PoissonSampledDpEvent",
    "PrivacyProfileDpEvent",
    "ProposeTestReleaseDpEvent",
    "PureStreamDpEvent",
    "RandomAllocationDpEvent",
    "RandomizedResponseDpEvent",
    "RdpDpEvent",
    "RepeatAndSelectDpEvent",
    "SampledWithReplacementDpEvent",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "SingleEpochTreeAggregationDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "UnsupportedDpEvent",
    "UserUnitDpEvent",
    "ZCDpEvent",
]


# What follows is written by hand.


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
    data = attempt(lambda: json.loads(text))
    if not isinstance(data, dict):
        raise ValueError("this is not an event: it must be a JSON object with a class_name")
    event = from_dict(data)
    _core.describe(event.to_json())  # the library's own checks
    return event


def parse(expression: str, unknown: float | None = None) -> DpEvent:
    """An event from the expression language of ``dpopt account``; `unknown` is the value of every ``?``.

    >>> parse("poisson(1/100, gaussian(1.1)) x 1000")
    SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.01, event=GaussianDpEvent(noise_multiplier=1.1)), count=1000)
    """
    return from_dict(json.loads(_core.parse(expression, unknown)))


def as_event(value: Any) -> DpEvent:
    """`value` as an event of this module: an event, an object of ``dp_accounting``, an accountant of Opacus (its history), JSON text,
    an expression or a dict."""
    if isinstance(value, DpEvent):
        return value
    if isinstance(value, dict):
        return from_dict(value)
    if isinstance(value, str):
        return from_json(value) if value.lstrip().startswith("{") else parse(value)
    name = type(value).__name__
    if type(value).__module__.startswith("opacus") and hasattr(value, "history"):
        # what an accountant of Opacus has seen: (noise multiplier, sampling rate, steps)
        steps = [SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(z)), int(n)) for z, q, n in value.history]
        return steps[0] if len(steps) == 1 else ComposedDpEvent(steps)
    if type(value).__module__.startswith("dp_accounting") and name in _CLASSES:
        known = {f.name for f in dataclasses.fields(_CLASSES[name])}
        given = {key: getattr(value, key) for key in known if hasattr(value, key)}
        extra = {k for k in getattr(value, "__dict__", {}) if not k.startswith("_")} - known
        if extra:
            raise ValueError(f"{name} has fields that dpopt does not know: {', '.join(sorted(extra))}")
        return _CLASSES[name](**given)
    raise TypeError(
        f"{name} is not a privacy event; give one of dpopt.accounting, of dp_accounting, JSON or an expression"
    )
