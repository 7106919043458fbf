"""Plans and guarantees as plain values that can be printed, pickled and shown in a notebook."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core, accounting
from ._steps import Surroundings

if TYPE_CHECKING:
    from ._sizing import Sizing

#: What is written beside every guarantee of seeded noise.
VOID = " — VOID: the noise was seeded"


#: Forms of the encoder that a printed plan shows.
SHOWN_FORMS = 8


def _about(seconds: float) -> str:
    """So many seconds, with as many digits as are of use."""
    if seconds < 1.0:
        return "less than a second"
    return "about a second" if seconds < 1.5 else f"about {round(float(f'{seconds:.1e}'))} seconds"


@dataclass(frozen=True)
class Plan:
    """What a fit would do, from public facts only: every candidate method, the best prediction first.

    Attributes
    ----------
    method
        The chosen method, or None if none applies.
    candidates
        One dict per method (noise multiplier, steps, predicted risk, certified ε, schedule, or a reason).
    n_rows, n_features, epsilon, delta, relation
        What was planned for (the budget of one model).
    reason
        Why that method was chosen: what follows "because".
    models
        How many models are fitted, one for each class where each class is fitted against the rest.
    refusal
        Why there is no chosen method.
    encoders
        Forms of the encoder that were compared where it encodes a table, each with its constants (``knots``, ``pair_knots``,
        …), ``words`` and ``excess_risk``: the first one is taken. None where there was no choice.
    n_units
        How many units own the rows, where a unit may have several; None: each row is one.
    sizing
        Which ε and how many rows a goal needs, where one was given to ``explain``.

    Where records are in memory each candidate has its ``core_seconds``. Where they are in partitions it has its ``passes``: aggregate queries to all partitions, for all models together. It is a public number; of the
    methods that minimise, ``objective-perturbation`` and ``output-perturbation``, tables that resist make it two or four times as large, so
    that the number of passes that were made may disclose something of the records.
    """

    method: str | None
    candidates: list[dict[str, Any]]
    n_rows: int
    n_features: int
    epsilon: float
    delta: float
    relation: str
    models: int = 1
    refusal: str | None = None
    encoders: list[dict[str, Any]] = field(default_factory=list)
    n_units: int | None = None
    reason: str | None = None
    sizing: Sizing | None = None

    @property
    def encoder(self) -> dict[str, Any] | None:
        """The form of the encoder that is taken, where there was a choice."""
        return self.encoders[0] if self.encoders else None

    @property
    def chosen(self) -> dict[str, Any]:
        """The candidate of the chosen method."""
        for candidate in self.candidates:
            if candidate["method"] == self.method and not candidate.get("not_applicable"):
                return candidate
        raise _core.PrivacyError(self.refusal or "no method applies")

    @property
    def passes(self) -> int | None:
        """Aggregate queries that the chosen method asks of partitions; None if the records are here."""
        return None if self.method is None else self.chosen.get("passes")

    @property
    def core_seconds(self) -> float | None:
        """Seconds of one core that the chosen method takes, of all models together, within a factor of five; reading and encoding records comes on top. None if
        records are in partitions."""
        return None if self.method is None else self.chosen.get("core_seconds")

    def seconds(self, a_pass: float) -> float:
        """What the chosen method's passes take, if one takes so many seconds: ``parts.seconds_per_pass``, or ``statistics.median(parts.seconds)`` of an
        earlier fit.

        Raises
        ------
        ValueError
            If the records are not in parts.
        """
        if self.passes is None:
            raise ValueError(
                "this plan is for records in memory and cannot query remote ones; make a plan with explain(parts)"
            )
        return self.passes * a_pass

    @property
    def refused(self) -> dict[str, str]:
        """Why each method that does not apply does not."""
        return {c["method"]: c["not_applicable"] for c in self.candidates if c.get("not_applicable")}

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
        rows = "" if self.n_rows == self.n_units else f"{self.n_rows:,} rows of "
        whose = [] if self.n_units is None else [f"{rows}{self.n_units:,} units", ""]
        by_unit = any("clips" in c for c in self.candidates)
        in_parts = any("passes" in c for c in self.candidates)
        lines = [
            *whose,
            f"{'method':<26} {'noise':>8} {'steps':>6} {'risk':>9} {'epsilon':>8}"
            f"{'  clips' if by_unit else ''}{'  passes' if in_parts else ''}",
        ]
        refused = [c for c in self.candidates if c.get("not_applicable")]
        for c in self.candidates:
            if not c.get("not_applicable"):
                mark = "*" if c["method"] == self.method else " "
                lines.append(
                    f"{mark} {c['method']:<24} {c['noise_multiplier']:>8.4g} {c['steps']:>6} "
                    f"{c['predicted_excess_risk']:>9.3g} {c['epsilon']:>8.4g}"
                    f"{'  ' + c['clips'] if 'clips' in c else ''}"
                    f"{'  {:>6}'.format(c['passes']) if 'passes' in c else ''}"
                )
        if len(refused) == len(self.candidates):
            lines += [f"  {c['method']:<24} does not apply: {c['not_applicable']}" for c in refused]
        elif refused:
            names = ", ".join(c["method"] for c in refused)
            lines.append(f"  {len(refused)} of {len(self.candidates)} do not apply (plan.refused says why): {names}")
            if self.refusal is not None:
                lines.append(f"  {self.refusal}")
        if self.core_seconds is not None:
            lines += [
                "",
                f"time: {_about(self.core_seconds)} of one core, within a factor of five, beside reading and encoding",
            ]
        if self.encoder is not None:
            lines += ["", f"encoder: {self.encoder['words']}"]
        if len(self.encoders) > 1:
            lines.append("forms of it that were compared, and their expected excess risk:")
            best = self.encoders[:SHOWN_FORMS]
            width = max(len(form["words"]) for form in best)
            lines += [
                f"{' ' if i else '*'} {form['words']:<{width}} {form['excess_risk']:>9.3g}"
                for i, form in enumerate(best)
            ]
            if len(self.encoders) > len(best):
                lines.append(f"  {len(self.encoders) - len(best)} more in plan.encoders")
        if self.sizing is not None:
            lines += ["", str(self.sizing)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ._html import plan_table

        return plan_table(self) + ("" if self.sizing is None else self.sizing.svg)


@dataclass(frozen=True)
class Privacy:
    """What was promised and certified.

    Attributes
    ----------
    epsilon
        Certified ε of everything the fit released (at `delta`), rounded up.
    delta
        δ of the whole fit.
    relation
        Which data sets are neighbours.
    allowed_epsilon
        ε that was allowed.
    event
        What was released.
    stages
        Name, ε, δ, event and bound of each part, in order.
    ledger
        What was released, in order: label, event, count per stage.
    insecure_seed
        True if the noise was seeded: no guarantee against who knows the seed.
    unit
        Who is protected: a ``"record"``, or a ``"user"`` with all rows.
    unit_column
        The column whose values are the units, where rows of one value are one.
    public_ownership
        Who owns which rows, and so who shares rows with whom, is not protected: a row may have several owners.
    grade
        ``"certified"``; ``"checked"`` where what your code does with a record was tried on made-up records before the first release, which is no proof; or
        ``"research"`` where a part is not proved or rests on a word that nobody checked.
    evidence
        What a grade below certified rests on, as text.
    scope
        What it is of, where that is less than what was fitted: ``"of the last step alone: …"`` in a pipeline with steps that read the
        records without noise. None: all of it.
    """

    epsilon: float
    delta: float
    relation: str
    allowed_epsilon: float
    event: accounting.DpEvent
    stages: list[dict[str, Any]] = field(repr=False)
    ledger: list[list[dict[str, Any]]] = field(repr=False)
    insecure_seed: bool = False
    unit: str = "record"
    grade: str = "certified"
    unit_column: str | None = None
    public_ownership: bool = False
    evidence: tuple[str, ...] = ()
    scope: str | None = None

    @classmethod
    def of(cls, guarantee: str, releases: str) -> Privacy:
        """From the compiled library's guarantee and what was released, both as JSON."""
        promised = json.loads(guarantee)
        events = [accounting.from_dict(stage["event"]) for stage in promised["stages"]]
        return cls(
            promised["certified_epsilon"], promised["delta"], promised["relation"], promised["epsilon"],
            events[0] if len(events) == 1 else accounting.ComposedDpEvent(events), promised["stages"], json.loads(releases),
            promised["insecure_seed"], promised["unit"], promised["grade"], promised.get("unit_column"),
            promised.get("public_ownership", False), tuple(promised.get("evidence", ())), Surroundings().scope,
        )  # fmt: skip

    @classmethod
    def of_session(cls, session: Any, accountant: str = "auto") -> Privacy:
        """Of a session of the compiled library, accounted by one accountant or the tightest."""
        guarantee = session.guarantee()
        if accountant != "auto":
            guarantee = _core.guarantee_by(guarantee, accountant)
        return cls.of(guarantee, session.releases())

    def guarantee(self) -> dict[str, Any]:
        """The guarantee in the form of model files and reports."""
        column: dict[str, Any] = {} if self.unit_column is None else {"unit_column": self.unit_column}
        if self.public_ownership:
            column["public_ownership"] = True
        if self.evidence:
            column["evidence"] = list(self.evidence)
        return {
            "unit": self.unit, **column, "relation": self.relation, "epsilon": self.allowed_epsilon, "delta": self.delta,
            "certified_epsilon": self.epsilon, "grade": self.grade, "insecure_seed": self.insecure_seed,
            "stages": self.stages,
        }  # fmt: skip

    def delta_at(self, epsilon: float) -> float:
        """A certified δ of the same release at another ε; 1.0 where nothing is certified."""
        return float(_core.guarantee_delta(json.dumps(self.guarantee()), epsilon))

    def __str__(self) -> str:
        epsilon, delta = _core.shown(self.epsilon, self.delta)
        text = f"({epsilon}, {delta})-differential privacy per {_core.foreign(self.unit_column or self.unit)}, {self.relation}"
        if self.public_ownership:
            text += "; who owns which rows, and so who shares rows with whom, is not protected"
        if self.scope is not None:
            text += f"; {self.scope}"
        if self.grade != "certified":
            words = {
                "checked": "checked, not proved",
                "research": "research grade: not proved, or resting on a word that nobody checked",
            }
            text += "; " + "; ".join([words[self.grade], *self.evidence])
        return text + (VOID if self.insecure_seed else "")

    def _repr_html_(self) -> str:
        from ._html import table

        rows = [
            (s["name"], s["epsilon"], s["delta"], s["bound"]["upper"], s["bound"]["accountant"]) for s in self.stages
        ]
        return table(["stage", "epsilon", "delta", "certified epsilon", "accountant"], rows, str(self))


@functools.lru_cache(maxsize=256)
def _fit(rows: int, features: int, nonzeros: int, row_norm: float, request: str) -> Any:
    """Plans depend on public facts only and can be run many times, so equal requests are planned once."""
    return _core.Fit(rows, features, nonzeros, row_norm, request)


@dataclass(frozen=True)
class Request:
    """Public facts of a fit: plain values, from which the compiled library plans it.

    Attributes
    ----------
    rows
        Number of records.
    features, nonzeros, row_norm
        Of a bounded row.
    asked
        Target, relation, ε, δ, options and what is public of units, as JSON.
    shown_features
        Columns of X.
    """

    rows: int
    features: int
    nonzeros: int
    row_norm: float
    asked: str
    shown_features: int

    def fit(self) -> Any:
        """The fit of the compiled library, to be planned or run."""
        return _fit(self.rows, self.features, self.nonzeros, self.row_norm, self.asked)

    def plan(self, classes: int, compare: bool) -> Plan:
        """The plan for so many classes; beside a method asked for by name all others to `compare`."""
        return self.shown(self.fit().plan(classes, compare))

    def report(self, classes: int, answer: str) -> str:
        """The report of a run that released `answer` (JSON): all methods are compared for it."""
        report: str = self.fit().report(classes, answer)
        return report

    def shown(self, described: str) -> Plan:
        """A plan as the compiled library describes it."""
        plan, asked = json.loads(described), json.loads(self.asked)
        units = asked["units"]
        return Plan(
            plan["method"], plan["candidates"], self.rows, self.shown_features, plan["epsilon"], plan["delta"],
            asked["relation"], plan["models"], plan["refusal"], n_units=None if units is None else units["count"],
            reason=plan["reason"],
        )  # fmt: skip
