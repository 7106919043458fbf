"""What training loops outside the library share: public facts of Poisson batches, a price for all their sums, a session that was charged for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core, accounting
from ._reading import number, whole
from ._repeats import of_numbers, open_session
from ._warnings import refuse_seed, warn
from .ledger import Ledger

#: ε of what is hardly a guarantee.
WEAK = 20.0


@dataclass(frozen=True)
class Batches:
    """T sums over Poisson batches that are to be released, each one vector.

    Attributes
    ----------
    records
        Public number of records, or of units.
    sampling_probability
        q.
    steps
        T.
    dimension
        Numbers that a sum has.
    drawn_from
        The most records that a batch is drawn from, for what the plan says of the sampler's error.
    """

    records: int
    sampling_probability: float
    steps: int
    dimension: int
    drawn_from: int

    def charged(
        self,
        name: str,
        *,
        epsilon: float | None,
        noise_multiplier: float | None,
        delta: float,
        relation: str,
        budget: Ledger | None,
        seed: int | None,
        unit: str | None = None,
        trains: int | None = None,
    ) -> tuple[float, Any]:
        """The noise multiplier (the least within (ε, δ), if ε was given), and the session after the ledger was charged; `trains`: how many numbers, if
        not as many as a record gives."""
        facts = json.dumps({
            "records": self.drawn_from, "sampling_probability": self.sampling_probability, "steps": self.steps, "dimension": self.dimension,
        })  # fmt: skip
        delta = number(delta, "delta")
        if epsilon is not None:
            allowed = number(epsilon, "epsilon")
            noise, event, _ = _core.batch_noise(facts, allowed, delta, relation)
        else:
            noise = number(noise_multiplier, "noise_multiplier")
            event = _core.batch_event(facts, noise)
            try:
                bound = float(accounting.epsilon(accounting.from_json(event), delta, relation=relation))
            except ValueError:
                bound = np.inf
            if not np.isfinite(bound):
                # a weak guarantee, and still one
                enough, _, _ = _core.batch_noise(facts, WEAK, delta, relation)
                raise ValueError(
                    f"noise_multiplier {noise:g} gives no guarantee at delta {delta:g}; epsilon {WEAK:g} would need {enough:.3g}, smaller ones more"
                )
            # a budget is positive, even where the release costs nothing at this delta
            allowed = max(bound, 1e-9)
        charge = None if budget is None else budget._charge_for(() if unit is None else (unit,))
        form = of_numbers("records that train the same", self.dimension if trains is None else trains)
        return noise, open_session(
            name, "training", (event, allowed, delta, relation), charge, seed, None, unit, of=form
        )


def stated(
    dataset_size: Any,
    sampling_probability: Any,
    steps: Any,
    epsilon: Any,
    noise_multiplier: Any,
    delta: Any,
    budget: Any,
    insecure_seed: Any,
    one: str = "record",
) -> float:
    """Refuses what cannot be planned, warns of what is odd; the sampling probability."""
    if whole(dataset_size, "dataset_size") < 1 or whole(steps, "steps") < 1:
        raise ValueError("dataset_size and steps must be at least 1")
    if (epsilon is None) == (noise_multiplier is None):
        raise ValueError(
            "epsilon and noise_multiplier exclude each other, and one is needed; give epsilon, from which the noise follows, or noise_multiplier"
        )
    if budget is not None and epsilon is None:
        raise ValueError("a ledger needs (epsilon, delta) to charge; give epsilon instead of noise_multiplier")
    if number(delta, "delta") > 1.0 / dataset_size:
        warn(
            f"delta {delta:g} is larger than 1/{dataset_size}: a program that publishes one random {one} in clear would have the same guarantee; "
            f"give a delta below 1/{dataset_size}"
        )
    refuse_seed(insecure_seed, charged=budget is not None)
    probability = number(sampling_probability, "sampling_probability")
    if not 0 < probability <= 1:
        raise ValueError(f"sampling_probability is {probability:g}; give a probability above 0")
    return probability


__all__ = ["Batches", "stated"]
