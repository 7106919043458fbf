"""Warnings that concern privacy, and where a fit was called from."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


class PrivacyWarning(UserWarning):
    """Something weakens the promise or the accuracy, or rests on a choice that you should make knowingly."""


def warn(message: str) -> None:
    """Raises a :class:`PrivacyWarning` at the caller's caller."""
    warnings.warn(message, PrivacyWarning, stacklevel=4)


def warn_if_searched() -> None:
    """Warns when a fit is called by scikit-learn's own search or cross-validation.

    Both run ``sklearn.model_selection._validation._fit_and_score`` for every fit, in worker threads and processes too;
    a search refits its winner from ``BaseSearchCV.fit``. So a frame of one of these functions on the stack is the sign.
    Code that copies these functions is not recognised.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        name = frame.f_code.co_name
        if (module, name) == ("sklearn.model_selection._validation", "_fit_and_score") or (
            module == "sklearn.model_selection._search" and name == "fit"
        ):
            warnings.warn(
                "this fit runs inside scikit-learn's search or cross-validation: every inner fit spends the full (epsilon, "
                "delta) again, and the scores and the choice made from them read the validation records without noise. The "
                "result as a whole has no privacy guarantee near epsilon. Use dpopt.select.PrivateSearchCV, which pays for "
                "the search, or search on public data only",
                PrivacyWarning,
                stacklevel=2,
            )
            return
        frame = frame.f_back
