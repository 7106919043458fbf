"""This library's accounting behind Flower's interface for privacy accountants (``flwr.serverapp.PrivacyAccountant``)."""

from __future__ import annotations

import math
from typing import Any

from . import accounting
from ._reading import attempt, number, whole

#: Of the state that an accountant writes.
VERSION, BACKEND = 1, "dpopt"
RELATIONS = {"add-or-remove-one": "add-or-remove", "replace-one": "replace-one"}


class Accountant:
    """An accountant for Flower's strategies with differential privacy, in place of ``flwr.serverapp.RdpAccountant``.

    >>> from dpopt.flower import Accountant  # doctest: +SKIP
    >>> strategy = DifferentialPrivacyServerSideFixedClipping(
    ...     FedAvg(), noise_multiplier=1.0, clipping_norm=1.0, num_sampled_clients=10, accountant=Accountant(config)
    ... )  # doctest: +SKIP

    It says what Gaussian sums of that noise cost, as tightly as it is known and never too little. It says nothing of what Flower draws: noise in floating point from
    NumPy's generator, whose seed is 32 bits wide where a strategy sets one, and an aggregator that sees every client's update; nor of metrics.

    Under replace-one a client's update moves a sum by up to twice the clip norm, and Flower's noise multiplier is over the clip norm: both are taken as they are. The
    accountant of Flower takes the noise multiplier over the move, and so half of it.

    Parameters
    ----------
    config
        ``flwr.serverapp.PrivacyConfig``.
    """

    def __init__(self, config: Any) -> None:
        read = attempt(
            lambda: (RELATIONS[config.neighboring_relation.value], str(config.sampling_method.value), float(config.target_delta))
        )  # fmt: skip
        if read is None:
            raise TypeError("config must be flwr.serverapp.PrivacyConfig")
        self._config = config
        self._relation, self._sampling, self._delta = read
        self._composed: list[tuple[tuple[float, int, int], int]] = []

    @property
    def config(self) -> Any:
        """What it was made with."""
        return self._config

    @property
    def num_releases(self) -> int:
        """Number of releases composed so far."""
        return sum(count for _, count in self._composed)

    def compose(self, event: Any, count: int = 1) -> None:
        """Adds `count` releases of ``flwr.serverapp.GaussianPrivacyEvent``."""
        self._composed = self._with(event, count)

    def get_epsilon(self, delta: float) -> float:
        """Certified ε of all releases so far."""
        return self._spent(self._composed, delta)[0]

    def get_delta(self, epsilon: float) -> float:
        """Certified δ of all releases so far."""
        epsilon = number(epsilon, "epsilon")
        if not (epsilon >= 0 and math.isfinite(epsilon)):
            raise ValueError(f"epsilon is {epsilon:g}; give a finite number, at least 0")
        if not self._composed:
            return 0.0
        return float(accounting.delta(self._event(self._composed), epsilon, relation=self._relation))

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        """``flwr.serverapp.PrivacySpent`` at `delta`, or at that of the configuration."""
        from flwr.serverapp import PrivacySpent

        at = self._delta if delta is None else delta
        epsilon, method = self._spent(self._composed, at)
        return PrivacySpent(epsilon=epsilon, delta=at, num_releases=self.num_releases, accounting_method=method)

    def would_exceed(self, event: Any, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether `count` releases more would cost more than `max_epsilon`, or than that of the configuration. Nothing is added."""
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None:
            raise ValueError("no limit of epsilon is given; give max_epsilon here, or in the configuration")
        return self._spent(self._with(event, count), self._delta)[0] > number(limit, "max_epsilon")

    def state_dict(self) -> dict[str, object]:
        """What was composed, as JSON can write it."""
        return {
            "schema_version": VERSION,
            "backend": BACKEND,
            "config": self._stated(),
            "compositions": [
                {"event": {"noise_multiplier": z, "sample_size": sample, "population_size": population}, "count": count}
                for (z, sample, population), count in self._composed
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was written; refuses that of another accountant or configuration."""
        if not (isinstance(state, dict) and (state.get("schema_version"), state.get("backend")) == (VERSION, BACKEND)):
            raise ValueError("this is no state of this accountant")
        if state.get("config") != self._stated():
            raise ValueError("the state is of another configuration; make the accountant with the same one")
        before, self._composed = self._composed, []
        try:
            for entry in state["compositions"]:
                event = entry["event"]
                facts = event["noise_multiplier"], event["sample_size"], event["population_size"]
                self._composed = self._with_facts(facts, entry["count"])
        except (KeyError, TypeError, AttributeError, ValueError):
            self._composed = before
            raise ValueError("the state holds a release that is not Gaussian noise") from None

    def _stated(self) -> dict[str, object]:
        config = self._config
        return {
            "target_delta": config.target_delta, "population_size": config.population_size,
            "neighboring_relation": config.neighboring_relation.value, "sampling_method": config.sampling_method.value,
            "max_epsilon": config.max_epsilon,
        }  # fmt: skip

    def _with(self, event: Any, count: int) -> list[tuple[tuple[float, int, int], int]]:
        facts = attempt(lambda: (event.noise_multiplier, event.sample_size, event.population_size))
        if facts is None:
            raise TypeError("give an event of Flower, flwr.serverapp.GaussianPrivacyEvent")
        return self._with_facts(facts, count)

    def _with_facts(self, facts: Any, count: Any) -> list[tuple[tuple[float, int, int], int]]:
        noise, sample, population = facts
        read = number(noise, "noise_multiplier"), whole(sample, "sample_size"), whole(population, "population_size")
        if not (read[0] > 0 and math.isfinite(read[0]) and 1 <= read[1] <= read[2]):
            raise ValueError("a release needs positive, finite noise and a sample within the population")
        if read[2] != self._config.population_size:
            raise ValueError(
                f"the event is of {read[2]} clients and the configuration of {self._config.population_size}"
            )
        if whole(count, "count") < 1:
            raise ValueError("count must be at least 1")
        if self._composed and self._composed[-1][0] == read:
            *before, (_, so_far) = self._composed
            return [*before, (read, so_far + whole(count, "count"))]
        return [*self._composed, (read, whole(count, "count"))]

    def _spent(self, composed: list[tuple[tuple[float, int, int], int]], delta: float) -> tuple[float, str]:
        delta = number(delta, "delta")
        if not 0 < delta < 1:
            raise ValueError(f"delta is {delta:g}; give a number above 0 and below 1")
        if not composed:
            return 0.0, BACKEND
        bound = accounting.epsilon(self._event(composed), delta, relation=self._relation)
        return float(bound), f"{BACKEND}-{bound.accountant}"

    def _event(self, composed: list[tuple[tuple[float, int, int], int]]) -> accounting.DpEvent:
        each = [accounting.SelfComposedDpEvent(self._once(*facts), count) for facts, count in composed]
        return each[0] if len(each) == 1 else accounting.ComposedDpEvent(each)

    def _once(self, noise: float, sample: int, population: int) -> accounting.DpEvent:
        gaussian = accounting.GaussianDpEvent(noise)
        if self._sampling == "poisson":
            return accounting.PoissonSampledDpEvent(min(1.0, math.nextafter(sample / population, 1.0)), gaussian)
        if self._sampling == "without-replacement":
            return accounting.SampledWithoutReplacementDpEvent(population, sample, gaussian)
        # without amplification who is sampled changes nothing
        return gaussian


__all__ = ["Accountant"]
