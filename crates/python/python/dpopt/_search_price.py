"""What a private search costs, and the largest budget that each of its runs may have.

K runs, K drawn in secret from a public law, and only the best leaves. With runs that are (ε₁, δ₁)-DP the search is
((2+η)ε₁, E[K]·δ₁)-DP for truncated negative binomial K of shape η (geometric: η = 1, logarithmic: η = 0; Liu and Talwar
2019, Papernot and Steinke 2022). With a Rényi curve of the runs it is often much less (Papernot and Steinke 2022, Theorem 2;
for Poisson K without zero their Theorem 6). Both are computed and the smaller is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import _core, accounting
from ._html import table

#: Total variation of one rounded Gaussian sample from the exact law.
GAUSSIAN_SAMPLER_ERROR = 2.0**-110

#: Shape η of each law of the number of runs.
SHAPES = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}

#: Rényi orders of the curves, from 1.1 to 1001.
ORDERS = [1.0 + 10.0 ** (-1 + k / 12) for k in range(49)]

#: Rounding up of sums and logarithms in this file, far above the error of a few dozen operations.
UP = 1 + 1e-12


@dataclass(frozen=True)
class SearchPlan:
    """What a search would do, from public facts only.

    Attributes:
        distribution, expected_runs: law of the number of runs and its mean (for Poisson before zero is cut off).
        run_epsilon, run_delta: what one run may spend on training, and on its validation score.
        score_noise: standard deviation of the noise in the *sum* of the validation scores.
        event: what the search as a whole is accounted as.
        epsilon, delta, relation: the certified guarantee.
        theorem: which bound was smaller, ``"approximate"`` or ``"renyi"``.
    """

    distribution: str
    expected_runs: float
    run_epsilon: float
    run_delta: float
    score_noise: float
    event: accounting.DpEvent
    epsilon: float
    delta: float
    relation: str
    theorem: str

    def _repr_html_(self) -> str:
        rows = [
            ("runs", f"{self.distribution}, mean {self.expected_runs:g}"), ("epsilon of a run", self.run_epsilon),
            ("delta of a run", self.run_delta), ("noise of the sum of scores", self.score_noise),
            ("certified epsilon", self.epsilon), ("delta", self.delta), ("bound", self.theorem),
        ]  # fmt: skip
        return table(["search", ""], rows)


def score_event(noise_multiplier: float) -> accounting.DpEvent:
    """One noisy sum of validation scores, each in [0, 1]."""
    return accounting.ApproximateDpEvent(GAUSSIAN_SAMPLER_ERROR, accounting.GaussianDpEvent(noise_multiplier))


def _log_inverse_gamma(shape: float, mean: float) -> float:
    """ln(1/γ) of the truncated negative binomial law with this mean, rounded up; γ falls as the mean rises."""

    def mean_of(t: float) -> float:  # t = ln(1/γ)
        if shape == 0:
            return math.expm1(t) / t
        return shape * math.expm1(t) / -math.expm1(-shape * t)

    low, high = 1e-12, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_of(middle) < mean else (low, middle)
    return high * (1 + 1e-9)


def _run_curve(events: Sequence[accounting.DpEvent], relation: str) -> tuple[list[tuple[float, float]], float, float]:
    """Pointwise largest Rényi curve of all events, and the largest failure probability and sampler error."""
    curve: dict[float, float] = dict.fromkeys(ORDERS, 0.0)
    failure = error = 0.0
    for event in {event.to_json() for event in events}:
        for order, cost in zip(ORDERS, _core.renyi(event, relation, ORDERS)):
            if cost is None or not math.isfinite(cost[0]):
                curve.pop(order, None)
            elif order in curve:
                curve[order] = max(curve[order], cost[0])
                failure, error = max(failure, cost[1]), max(error, cost[2])
    return sorted(curve.items()), failure, error


def _delta(curve: list[tuple[float, float]], epsilon: float) -> float:
    """δ at `epsilon` from a Rényi curve (Balle et al. 2020), rounded up."""
    exponents = [(o - 1) * (rho - epsilon + math.log1p(-1 / o)) - math.log(o) for o, rho in curve]
    return min(1.0, math.exp(min(0.0, *exponents)) * (1 + 1e-9))


def _selected_curve(curve: list[tuple[float, float]], shape: float, mean: float) -> list[tuple[float, float]]:
    """Rényi curve of the best of K runs that each have `curve`."""
    if math.isinf(shape):
        log_mean = math.log(mean / -math.expm1(-mean))
        return [
            (order, (rho + mean * _delta(curve, math.log1p(1 / (order - 1))) + log_mean / (order - 1)) * UP)
            for order, rho in curve
        ]
    log_gamma = _log_inverse_gamma(shape, mean)
    # λ̂ = 1 is allowed: the run's own curve then does not enter
    beyond = min([log_gamma] + [(1 - 1 / order) * rho + log_gamma / order for order, rho in curve])
    return [(order, (rho + (1 + shape) * beyond + math.log(mean) / (order - 1)) * UP) for order, rho in curve]


def search_event(
    runs: Sequence[accounting.DpEvent], run_budget: tuple[float, float], distribution: str, expected_runs: float,
    epsilon: float, delta: float, relation: str,
) -> tuple[accounting.DpEvent, float, str] | None:  # fmt: skip
    """The event of a whole search within (ε, δ), its certified ε and which bound gave it; None if it costs more.

    Args:
        runs: what a run may be: the training of each candidate, and the score.
        run_budget: (ε₁, δ₁) that each of them meets.
    """
    shape = SHAPES[distribution]
    mean, sampler = _core.repetition_law(shape, expected_runs)
    found: list[tuple[accounting.DpEvent, float, str]] = []

    def certified(event: accounting.DpEvent, theorem: str) -> None:
        try:
            found.append((event, float(accounting.certify(event, epsilon, delta, relation=relation)), theorem))
        except _core.PrivacyError:
            pass

    if math.isfinite(shape):
        price = accounting.ApproxDpDpEvent((2 + shape) * run_budget[0] * UP, mean * run_budget[1] * UP)
        certified(accounting.ApproximateDpEvent(sampler, price), "approximate")
    curve, failure, error = _run_curve(runs, relation)
    if curve:
        # P(some run fails) ≤ E[K]·P(a run fails); Poisson without zero has a larger mean than before
        counted = mean if math.isfinite(shape) else mean / -math.expm1(-mean)
        selected = _selected_curve(curve, shape, mean)
        event: accounting.DpEvent = accounting.RdpDpEvent([o for o, _ in selected], [r for _, r in selected])
        if failure > 0:
            event = accounting.ComposedDpEvent([event, accounting.ApproxDpDpEvent(0.0, counted * failure * UP)])
        certified(accounting.ApproximateDpEvent((sampler + counted * error) * UP, event), "renyi")
    return min(found, key=lambda entry: entry[1]) if found else None


def plan_search(
    train: Callable[[float, float], Sequence[accounting.DpEvent]], *, distribution: str, expected_runs: float,
    epsilon: float, delta: float, relation: str,
) -> SearchPlan:  # fmt: skip
    """The largest run budget for which the whole search stays within (ε, δ).

    Args:
        train: the training event of every candidate at a run budget (ε₁, δ₁).
    """
    if delta <= 0:
        raise ValueError("the validation score needs delta > 0; give a small delta, for example 1e-6")
    mean, _ = _core.repetition_law(SHAPES[distribution], expected_runs)
    # a share of δ is left for the samplers' errors and for rounding
    run_delta = 0.999 * delta / max(1.0, mean)

    def at(run_epsilon: float) -> SearchPlan | None:
        budget = (run_epsilon, run_delta)
        score = accounting.calibrate(score_event, *budget, relation=relation)
        got = search_event(
            [*train(*budget), score.event], budget, distribution, expected_runs, epsilon, delta, relation
        )
        if got is None:
            return None
        event, certified, theorem = got
        return SearchPlan(
            distribution, expected_runs, run_epsilon, run_delta, score.value, event, certified, delta, relation, theorem
        )

    # one run alone may spend all; a third of it always fits a geometric search
    low, high, best = 0.0, epsilon, at(epsilon)
    if best is not None:
        return best
    step = epsilon / 3.01
    while best is None and step > epsilon * 1e-3:
        best = at(step)
        low, high, step = (step, high, step) if best is not None else (0.0, step, step / 2)
    if best is None:
        raise _core.PrivacyError(
            f"a {distribution} search with {expected_runs:g} expected runs does not fit epsilon {epsilon:g} and delta {delta:g}; "
            "lower expected_runs, or raise epsilon"
        )
    for _ in range(5):
        middle = (low + high) / 2
        more = at(middle)
        best, low, high = (more, middle, high) if more is not None else (best, low, middle)
    return best


__all__ = ["SHAPES", "SearchPlan", "plan_search", "score_event", "search_event"]
