"""A stream that a model learns from batch by batch, as an estimator holds it."""

from __future__ import annotations

from typing import Any

from ._rows import Bounding


class LeftBehind:
    """What a copy has in place of a stream: the noise goes on in the original only."""


class Learning:
    """A stream that is under way: never copied, never written down.

    Attributes
    ----------
    compiled
        The library's stream; it holds the noise.
    facts
        How rows are bounded.
    asked
        What it was opened for: rows, batches and the request.
    """

    def __init__(self, compiled: Any, facts: Bounding, asked: tuple[Any, ...]) -> None:
        self.compiled, self.facts, self.asked = compiled, facts, asked

    def __reduce__(self) -> Any:
        return LeftBehind, ()


def without_stream(state: dict[str, Any]) -> dict[str, Any]:
    """What a copy of an estimator holds: one that went on with the same noise would show the records by the difference."""
    return {**state, "_stream": LeftBehind()} if isinstance(state.get("_stream"), Learning) else state


__all__ = ["Learning", "LeftBehind", "without_stream"]
