"""Warnings that concern privacy, shown at the caller's own line."""

from __future__ import annotations

import sys
import warnings

SEEDED = "insecure_seed makes the noise predictable: the guarantee is void for whoever knows the seed; for tests only"


class PrivacyWarning(UserWarning):
    """Something weakens the promise or the accuracy, or rests on a choice that you should make knowingly."""


def warn(message: str) -> None:
    """Raises a :class:`PrivacyWarning` at the line outside this package that led here."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "dpopt":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, PrivacyWarning, stacklevel=level)


def refuse_seed(insecure_seed: object, charged: bool) -> None:
    """Seeded noise protects nobody: it is said, and nothing that pays from a ledger may use it."""
    if insecure_seed is None:
        return
    if charged:
        raise ValueError(
            "insecure_seed together with a ledger: a release whose noise is predictable is not worth what it would be charged; "
            "leave insecure_seed out, or test without the ledger"
        )
    warn(SEEDED)
