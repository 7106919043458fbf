"""Tables for notebooks: plans, ledgers, events. Plain HTML, no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def number(x: Any) -> str:
    """Four significant digits; '' for None."""
    if x is None:
        return ""
    if isinstance(x, (int, str)):
        return f"{x:,}" if isinstance(x, int) else x
    return f"{x:.4g}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", marked: int | None = None) -> str:
    """An HTML table; row `marked` is bold."""
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption style='text-align:left'>{escape(caption)}</caption>")
    parts.append("<thead><tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr></thead><tbody>")
    for i, row in enumerate(rows):
        style = " style='font-weight:bold'" if i == marked else ""
        parts.append(f"<tr{style}>" + "".join(f"<td>{escape(number(c))}</td>" for c in row) + "</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)


def event_table(event: Any) -> str:
    fields = {k: v for k, v in event.to_dict().items() if k not in ("class_name", "module_name")}
    rows = [(k, v if isinstance(v, (int, float, str)) else str(getattr(event, k))) for k, v in fields.items()]
    return table(["field", "value"], rows, f"{type(event).__name__}: {event}")


def ledger_table(ledger: Any) -> str:
    rows = [(e.name, str(e.event), e.epsilon, e.delta) for e in ledger.entries]
    if ledger.path is None:
        rows.append(("left", "", *ledger.remaining))
    else:
        rows.append((f"{ledger.share:.1%} spent", "", *ledger.spent))
    caption = f"Ledger: epsilon {ledger.epsilon:g}, delta {ledger.delta:g}, {ledger.relation}, per {ledger._per}"
    return table(["charge", "event", "epsilon", "delta"], rows, caption, marked=len(rows) - 1)


def plan_table(plan: Any) -> str:
    rows: list[Sequence[Any]] = []
    marked = None
    for c in plan.candidates:
        if c.get("not_applicable"):
            continue
        if c["method"] == plan.method and marked is None:
            marked = len(rows)
        rows.append(
            (
                c["method"],
                c["noise_multiplier"],
                c["steps"],
                c["gradients"],
                c["predicted_excess_risk"],
                c["epsilon"],
                c["grade"],
                *([c["clips"]] if "clips" in c else []),
            )
        )
    caption = f"Plan for {plan.n_rows:,} rows and {plan.n_features:,} features: epsilon {plan.epsilon:g}, delta {plan.delta:.3g}, {plan.relation}"
    head = ["method", "noise multiplier", "steps", "gradients", "predicted excess risk", "certified epsilon", "grade"]
    head += ["clips"] if any("clips" in c for c in plan.candidates) else []
    folded = table(["method", "does not apply because"], plan.refused.items())
    more = (
        f"<details><summary>{len(plan.refused)} methods do not apply</summary>{folded}</details>"
        if plan.refused
        else ""
    )
    forms = [(form["words"], form["excess_risk"]) for form in plan.encoders]
    if forms:
        more += table(["form of the encoder", "expected excess risk"], forms, "", 0)
    return table(head, rows, caption, marked) + more
