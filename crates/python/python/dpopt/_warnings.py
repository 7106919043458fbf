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


#: scikit-learn's modules that fit an estimator they were given once, as one part of a whole or in a test of conventions.
_ONCE = ("sklearn.pipeline", "sklearn.compose", "sklearn.base", "sklearn.utils")


def warn_if_searched() -> None:
    """Warns when a fit is called by scikit-learn's searches, cross-validation, ensembles, calibration or stacking.

    All of them call ``fit`` from a function of scikit-learn, in worker threads and processes too, so a frame of one of its
    modules on the stack is the sign; pipelines, column transformers and scikit-learn's test of conventions fit once and do
    not count. No record is looked at.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "sklearn.utils.estimator_checks":
            return
        if module.startswith("sklearn.") and not module.startswith(_ONCE):
            warn(
                "this fit runs inside scikit-learn's search, cross-validation, ensemble or calibration "
                f"({module.removeprefix('sklearn.').split('.')[0]}): every inner fit spends the full (epsilon, delta) again, and "
                "scores and choices made from them read the validation records without noise. The result as a whole has no "
                "privacy guarantee near epsilon. Give the estimator budget=dpopt.Ledger(...), which is charged by every inner "
                "fit and refuses what it does not hold; use dpopt.select.PrivateSearchCV, which pays for a search; or work on "
                "public data only"
            )
            return
        frame = frame.f_back
