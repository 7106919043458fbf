"""Moments of numbers of unknown range."""

from __future__ import annotations

from typing import Any

from . import _core
from ._reading import number, shown

#: Order, bound on the root or None, and the number that the moment is about.
Moment = tuple[float, "float | None", float]


def moment(said: Any, name: str) -> Moment:
    """4, (4, 2.5) or (4, 2.5, 1000), which the parameter `name` says."""
    parts = tuple(said) if isinstance(said, (tuple, list)) else (said,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            f"{name} is {shown(said)}; give an order, (order, root) or (order, root, about), for example (4, 2.5)"
        )
    order = number(parts[0], "the order of the moment")
    root = number(parts[1], "the root of the moment") if len(parts) > 1 and parts[1] is not None else None
    return order, root, number(parts[2], "what the moment is about") if len(parts) > 2 else 0.0


def in_text(said: Moment) -> str:
    """As the command line writes it, if it can be used."""
    order, root, about = said
    text = repr(order) if root is None else f"{order!r}:{root!r}@{about!r}"
    checked: str = _core.moment(text)
    return checked
