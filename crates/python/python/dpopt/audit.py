"""Empirical lower bounds on ε: run something on two neighbouring data sets and count.

An audit can refute a guarantee, never prove one.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from . import _core, accounting


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Attributes:
        lower_bound: ε is at least this at `delta`, with probability `confidence`.
        claimed: the claimed ε at `delta`.
        violated: True if the claim is impossible at this confidence.
        runs: runs per data set; part of them chose the event and were not counted.
        details: everything else (event, counts, empirical curve).
        svg: the picture: both error rates in log scale, the claimed region shaded.
    """

    lower_bound: float
    claimed: float
    delta: float
    confidence: float
    violated: bool
    runs: int
    details: dict[str, Any] = field(repr=False)
    svg: str = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Writes the picture as SVG."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        return f"epsilon at least {self.lower_bound:.4g}, claimed {self.claimed:.4g} at delta {self.delta:g}: {verdict}"


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

    Args:
        with_record, without_record: statistics of independent runs, at least 8 each.
        epsilon, delta: the claim; or
        event: an event (see :func:`dpopt.accounting.as_event`) whose certified curve is the claim.
        confidence: probability of not blaming a correct mechanism.
        pilot_share: share of the runs that choose the event to count.
    """
    text = None if event is None else accounting.as_event(event).to_json()
    present, absent = (np.ascontiguousarray(a, dtype=np.float64) for a in (with_record, without_record))
    report, svg = _core.audit(
        present, absent, epsilon, float(delta), text, accounting._relation(relation), 1 - confidence, pilot_share
    )
    data = json.loads(report)
    claimed = data["claimed"]
    return AuditReport(
        data["lower_bound"], float("inf") if claimed is None else claimed, data["delta"], data["confidence"],
        data["verdict"] == "violated", data["runs"], data, svg,
    )  # fmt: skip


def _counted(runs: int, progress: bool | None) -> Iterator[int]:
    """0, 1, …, with a bar on the terminal; `None` shows it where somebody can see it."""
    shown = sys.stderr.isatty() if progress is None else progress
    started = last = time.monotonic()
    for k in range(runs):
        yield k
        now = time.monotonic()
        if shown and (now - last > 0.1 or k + 1 == runs):
            last = now
            full = 30 * (k + 1) // runs
            left = (now - started) / (k + 1) * (runs - k - 1)
            bar = "█" * full + "·" * (30 - full)
            print(f"\raudit {bar} {k + 1}/{runs} runs, {left:.0f} s left ", end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)


def audit(
    run: Callable[[Any], float],
    with_record: Any,
    without_record: Any,
    *,
    runs: int = 2000,
    progress: bool | None = None,
    **claim: Any,
) -> AuditReport:
    """Runs your own mechanism `run(data)`, which returns one number, `runs` times on each data set and tests the claim.

    Args:
        run: any callable from data to one number: your mechanism with a statistic of its output.
        with_record, without_record: two neighbouring data sets; the worse the pair, the stronger the audit.
        progress: a bar on stderr; None shows it on terminals.
        claim: `epsilon` and `delta`, or `event`, and the other arguments of :func:`audit_samples`.

    >>> from dpopt import mechanisms
    >>> def count(ages):
    ...     return mechanisms.discrete_laplace_counts([len(ages)], epsilon=1.0).value[0]
    >>> audit(count, [30, 40, 50], [30, 40], runs=500, epsilon=1.0).violated
    False
    """
    pairs = [(float(run(with_record)), float(run(without_record))) for _ in _counted(runs, progress)]
    return audit_samples([a for a, _ in pairs], [b for _, b in pairs], **claim)


__all__ = ["AuditReport", "audit", "audit_samples"]
