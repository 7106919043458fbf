"""Warnings that concern privacy, shown at the caller's own line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

SEEDED = "insecure_seed makes the noise predictable: the guarantee is void for whoever knows the seed; for tests only"


class PrivacyWarning(UserWarning):
    """Something weakens the promise or the accuracy, or rests on a choice that you should make knowingly."""


def warn(message: str) -> None:
    """Raises a :class:`PrivacyWarning` at the line outside this package that led here."""
    level = 1
    frame: FrameType | None = sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "dpopt":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PrivacyWarning, stacklevel=level)


#: What was said and is not said again.
_SHOWN: set[str] = set()


def once(what: str, message: str) -> None:
    """As :func:`warn`, the first time in this process."""
    if what not in _SHOWN:
        _SHOWN.add(what)
        warn(message)


def refuse_seed(insecure_seed: object, charged: bool) -> None:
    """Seeded noise is not private: a warning says so, and nothing that pays from a ledger may use it."""
    if insecure_seed is None:
        return
    if charged:
        raise ValueError(
            "insecure_seed and a ledger exclude each other, since a release with predictable noise protects nobody; leave insecure_seed out, or test without the ledger"
        )
    warn(SEEDED)
