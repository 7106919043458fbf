"""Empirical lower bounds on ε: run something on two neighbouring data sets, and bet or count.

An audit can refute a guarantee, never prove one. :func:`audit` takes any callable and stops when the claim has fallen;
:func:`audit_samples` judges numbers that were drawn elsewhere.

>>> import numpy as np
>>> from dpopt import audit
>>> rng = np.random.default_rng(0)
>>> honest = audit.audit_samples(rng.laplace(1, 1, 20000), rng.laplace(0, 1, 20000), epsilon=1.0)
>>> honest.violated
False
>>> broken = audit.audit_samples(rng.laplace(1, 0.3, 20000), rng.laplace(0, 0.3, 20000), epsilon=1.0)
>>> broken.violated, bool(broken.lower_bound > 1.0)
(True, True)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import _core, accounting
from ._reading import array, number


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Attributes
    ----------
    lower_bound
        ε is at least this at `delta`, with probability `confidence`.
    claimed
        The claimed ε at `delta`.
    violated
        True if the claim is impossible at this confidence.
    runs
        Runs made per data set.
    refuted_after
        Runs per data set after which the claim had fallen; None if it stands, or if the number of runs was
        fixed in advance.
    details
        Everything else (event, counts, empirical curve).
    svg
        The picture: both error rates in log scale, the claimed region shaded.
    """

    lower_bound: float
    claimed: float
    delta: float
    confidence: float
    violated: bool
    runs: int
    refuted_after: int | None
    details: dict[str, Any] = field(repr=False)
    svg: str = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Writes the picture as SVG."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        after = "" if self.refuted_after is None else f" after {self.refuted_after} runs on each data set"
        return f"epsilon at least {self.lower_bound:.4g}, claimed {self.claimed:.4g} at delta {self.delta:g}: {verdict}{after}"


def audit_samples(
    with_record: Sequence[float],
    without_record: Sequence[float],
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    event: Any = None,
    relation: str = "zero-out",
    confidence: float = 1 - 1e-6,
    pilot_share: float = 0.25,
) -> AuditReport:
    """Tests a claim with one number per run on each of two neighbouring data sets.

    Parameters
    ----------
    with_record, without_record
        Statistics of independent runs, at least 8 each.
    epsilon, delta
        The claim; or
    event
        An event (see :func:`dpopt.accounting.as_event`) whose certified curve is the claim.
    confidence
        Probability of not blaming a correct mechanism.
    pilot_share
        Share of the runs that choose the event to count.
    """
    present, absent = (
        np.ascontiguousarray(array(a, n).ravel(), dtype=np.float64)
        for a, n in ((with_record, "with_record"), (without_record, "without_record"))
    )
    return _report(*_core.audit(present, absent, *_claim(epsilon, delta, event, relation), 1 - confidence, pilot_share))


def _claim(
    epsilon: float | None, delta: float, event: Any, relation: str
) -> tuple[float | None, float, str | None, str]:
    text = None if event is None else accounting.as_event(event).to_json()
    return (
        None if epsilon is None else number(epsilon, "epsilon"),
        number(delta, "delta"),
        text,
        accounting._relation(relation),
    )


def _one(run: Callable[[Any], float], data: Any) -> float:
    """The number of one run; NaN and infinities are numbers here."""
    return number(run(data), "what run returned")


def _report(report: str, svg: str) -> AuditReport:
    data = json.loads(report)
    claimed, stopping = data["claimed"], data["stopping"]
    return AuditReport(
        data["lower_bound"], float("inf") if claimed is None else claimed, data["delta"], data["confidence"],
        data["verdict"] == "violated", data["runs"], stopping["refuted_after"] if stopping else None, data, svg,
    )  # fmt: skip


def _counted(runs: int, progress: bool | None) -> Iterator[int]:
    """0, 1, …, with a bar on the terminal; `None` shows it on a terminal only."""
    shown = sys.stderr.isatty() if progress is None else progress
    started = last = time.monotonic()

    def draw(done: int) -> None:
        full = 30 * done // runs
        left = (time.monotonic() - started) / done * (runs - done)
        bar = "█" * full + "·" * (30 - full)
        print(f"\raudit {bar} {done}/{runs} runs, at most {left:.0f} s left ", end="", file=sys.stderr, flush=True)

    done = 0
    try:
        for k in range(runs):
            done = k + 1
            yield k
            if shown and time.monotonic() - last > 0.1:
                last = time.monotonic()
                draw(done)
    finally:
        # the audit may stop before the last run
        if shown and done:
            draw(done)
            print(file=sys.stderr)


def audit(
    run: Callable[[Any], float],
    with_record: Any,
    without_record: Any,
    *,
    runs: int = 2000,
    stop_early: bool = True,
    progress: bool | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    event: Any = None,
    relation: str = "zero-out",
    confidence: float = 1 - 1e-6,
) -> AuditReport:
    """Runs your own mechanism `run(data)`, which returns one number, on each data set in turn and tests the claim.

    The audit bets on pairs of runs and stops when the claim has fallen, or after `runs` runs on each: it may be stopped by
    what it sees because the bets are valid at any time.

    Parameters
    ----------
    run
        Any callable from data to one number: your mechanism with a statistic of its output, fresh randomness each time.
    with_record, without_record
        Two neighbouring data sets; the worse the pair, the stronger the audit.
    runs
        Runs on each data set, at most.
    stop_early
        False makes all runs and counts, which proves a somewhat larger bound.
    progress
        A bar on stderr; None shows it on terminals.
    epsilon, delta
        The claim; or
    event
        An event (see :func:`dpopt.accounting.as_event`) whose certified curve is the claim.
    confidence
        Probability of not blaming a correct mechanism.

    Examples
    --------
    >>> from dpopt import mechanisms
    >>> def count(ages):
    ...     return mechanisms.discrete_laplace_counts([len(ages)], epsilon=1.0).value[0]
    >>> audit(count, [30, 40, 50], [30, 40], runs=500, epsilon=1.0).violated
    False
    >>> report = audit(count, [30, 40, 50], [30, 40], runs=5000, epsilon=0.1)
    >>> report.violated, report.refuted_after == report.runs < 5000
    (True, True)
    """
    claim = _claim(epsilon, delta, event, relation)
    if not stop_early:
        pairs = [(_one(run, with_record), _one(run, without_record)) for _ in _counted(runs, progress)]
        present, absent = np.ascontiguousarray(np.array(pairs, dtype=float).reshape(-1, 2).T)
        return _report(*_core.audit(present, absent, *claim, 1 - confidence, 0.25))
    bets = _core.SequentialAudit(*claim, 1 - confidence, runs)
    for _ in _counted(runs, progress):
        if bets.observe(_one(run, with_record), _one(run, without_record)):
            break
    return _report(*bets.conclude())


__all__ = ["AuditReport", "audit", "audit_samples"]
