"""What a private search would do, as the compiled library plans it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import _core, accounting
from ._html import table

#: Shape η of each law of the number of runs.
SHAPES = {"logarithmic": 0.0, "geometric": 1.0, "poisson": math.inf}


@dataclass(frozen=True)
class SearchPlan:
    """What a search would do, from public facts only.

    Attributes
    ----------
    distribution, expected_runs
        Law of the number of runs and its mean (for Poisson before zero is cut off).
    run_epsilon, run_delta
        What one run may spend on training, and on its validation score.
    score_noise
        Standard deviation of the noise in the *sum* of the validation scores.
    score_event
        What one noisy sum of scores releases.
    event
        What the search as a whole is accounted as.
    epsilon, delta, relation
        The certified guarantee.
    theorem
        Which bound was smaller, ``"approximate"`` or ``"renyi"``.
    """

    distribution: str
    expected_runs: float
    run_epsilon: float
    run_delta: float
    score_noise: float
    score_event: accounting.DpEvent
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


def plan_search(
    train: Callable[[float, float], Sequence[accounting.DpEvent]], *, distribution: str, expected_runs: float,
    epsilon: float, delta: float, relation: str,
) -> SearchPlan:  # fmt: skip
    """The largest run budget for which the whole search stays within (ε, δ).

    Parameters
    ----------
    train
        The training event of every candidate at a run budget (ε₁, δ₁).
    """
    plan = json.loads(
        _core.plan_search(
            SHAPES[distribution], expected_runs, epsilon, delta, relation,
            lambda run_epsilon, run_delta: [event.to_json() for event in train(run_epsilon, run_delta)],
        )
    )  # fmt: skip
    return SearchPlan(
        distribution, expected_runs, plan["run_epsilon"], plan["run_delta"], plan["score_noise"],
        accounting.from_dict(plan["score_event"]), accounting.from_dict(plan["event"]), plan["epsilon"], delta, relation,
        plan["theorem"],
    )  # fmt: skip


__all__ = ["SHAPES", "SearchPlan", "plan_search"]
