"""Plans and guarantees as plain values that can be printed, pickled and shown in a notebook."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

from . import _core, accounting

#: Total variation of one rounded Gaussian sample from the exact law.
GAUSSIAN_SAMPLER_ERROR = 2.0**-110

#: What is written beside every guarantee of seeded noise.
VOID = " — VOID: the noise was seeded"


@dataclass(frozen=True)
class Plan:
    """What a fit would do, from public facts only: every candidate method, the best prediction first.

    Attributes:
        method: the chosen method, or None if none applies.
        candidates: one dict per method (noise multiplier, steps, predicted risk, certified ε, schedule, or a reason).
        n_rows, n_features, epsilon, delta, relation: what was planned for (the budget of the model stage).
    """

    method: str | None
    candidates: list[dict[str, Any]]
    n_rows: int
    n_features: int
    epsilon: float
    delta: float
    relation: str

    @property
    def chosen(self) -> dict[str, Any]:
        """The chosen candidate."""
        for candidate in self.candidates:
            if candidate["method"] == self.method and not candidate.get("not_applicable"):
                return candidate
        # one that was asked for by name stands first
        refused = [c for c in self.candidates if c.get("not_applicable")]
        reasons = "; ".join(f"{c['method']}: {c['not_applicable']}" for c in refused)
        raise _core.PrivacyError(f"no method applies; {reasons}")

    @property
    def schedule(self) -> dict[str, Any]:
        """All hyper-parameters and noise scales of the chosen method."""
        return self.chosen["schedule"]

    @property
    def event(self) -> accounting.DpEvent:
        """What the chosen method will release."""
        return accounting.from_dict(self.chosen["event"])

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of the main release (gradient sum, linear term or minimiser)."""
        for key in ("noise_std", "linear_std", "vector_std"):
            if key in self.schedule:
                return float(self.schedule[key])
        # noise multiplier times the bound on one record's contribution, by its name in the schedule
        bounds = [self.schedule[k] for k in ("sensitivity", "step_sensitivity", "clip_norm") if k in self.schedule]
        return float(self.chosen["noise_multiplier"] * bounds[0]) if bounds else float("nan")

    def __str__(self) -> str:
        lines = [
            f"{'method':<26} {'noise':>8} {'steps':>6} {'risk':>9} {'epsilon':>8}",
        ]
        for c in self.candidates:
            if c.get("not_applicable"):
                lines.append(f"  {c['method']:<24} does not apply: {c['not_applicable']}")
            else:
                mark = "*" if c["method"] == self.method else " "
                lines.append(
                    f"{mark} {c['method']:<24} {c['noise_multiplier']:>8.4g} {c['steps']:>6} "
                    f"{c['predicted_excess_risk']:>9.3g} {c['epsilon']:>8.4g}"
                )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ._html import plan_table

        return plan_table(self)


@dataclass(frozen=True)
class Privacy:
    """What was promised and certified.

    Attributes:
        epsilon: certified ε of everything the fit released (at `delta`), rounded up.
        delta: δ of the whole fit.
        relation: which data sets are neighbours.
        event: what was released.
        stages: name, ε, δ, event and bound of each part, in order.
        ledger: what was released, in order: label, event, count per stage.
        insecure_seed: True if the noise was seeded: no guarantee against who knows the seed.
    """

    epsilon: float
    delta: float
    relation: str
    allowed_epsilon: float
    event: accounting.DpEvent
    stages: list[dict[str, Any]] = field(repr=False)
    ledger: list[list[dict[str, Any]]] = field(repr=False)
    insecure_seed: bool = False

    def delta_at(self, epsilon: float) -> float:
        """A certified δ of the same release at another ε; 1.0 where nothing is certified."""
        if len(self.stages) == 1:
            return float(accounting.delta(self.stages[0]["event"], epsilon, relation=self.relation))
        spent = sum(stage["bound"]["upper"] for stage in self.stages[:-1])
        if epsilon < spent:
            return 1.0
        last = accounting.delta(self.stages[-1]["event"], epsilon - spent, relation=self.relation)
        return min(1.0, float(last) + sum(stage["delta"] for stage in self.stages[:-1]))

    def __str__(self) -> str:
        text = f"({self.epsilon:.6g}, {self.delta:.3g})-differential privacy per record, {self.relation}"
        return text + (VOID if self.insecure_seed else "")

    def _repr_html_(self) -> str:
        from ._html import table

        rows = [
            (s["name"], s["epsilon"], s["delta"], s["bound"]["upper"], s["bound"]["accountant"]) for s in self.stages
        ]
        return table(["stage", "epsilon", "delta", "certified epsilon", "accountant"], rows, str(self))


@functools.lru_cache(maxsize=256)
def _planned(request: str) -> Any:
    """Plans depend on public facts only and can be run many times, so equal requests are planned once."""
    return _core.plan(request)


def make_plan(
    *,
    rows: int,
    features: int,
    nonzeros: int,
    row_norm: float,
    loss: dict[str, Any],
    relation: str,
    epsilon: float,
    delta: float,
    options: dict[str, Any],
    shown_features: int,
    compare: bool,
) -> tuple[Any, Plan]:
    """The runnable plan of the compiled library and its description."""
    request = {
        "rows": rows, "features": features, "nonzeros": nonzeros, "row_norm": row_norm, "loss": loss, "relation": relation,
        "epsilon": epsilon, "delta": delta, "options": options,
        "compare": compare,
    }  # fmt: skip
    runnable = _planned(json.dumps(request, sort_keys=True))
    shown = Plan(runnable.method(), json.loads(runnable.candidates()), rows, shown_features, epsilon, delta, relation)
    return runnable, shown
