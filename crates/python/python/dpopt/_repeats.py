"""How often this process has fitted models on tables with the same columns, outside a ledger.

Each fit states its own (ε, δ); several fits on the same people add up, which nobody sees who looks at one ``privacy_``.
The count is kept by a keyed fingerprint of public facts (number and names of columns), so the warning cannot depend on any
record; it therefore also counts fits on other people's tables of the same columns, and says "if". The key is drawn
when the process starts, and neither key nor fingerprint is stored, shown or sent anywhere.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._copies import lock
from ._warnings import warn

_KEY = secrets.token_bytes(32)
_FITS: dict[bytes, tuple[int, float, float]] = {}
_LOCK = lock()
_INSIDE = threading.local()


@contextmanager
def counted_as_one() -> Iterator[None]:
    """Fits in here belong to something that is counted (and paid) as a whole; their number may be secret."""
    before = getattr(_INSIDE, "depth", 0)
    _INSIDE.depth = before + 1
    try:
        yield
    finally:
        _INSIDE.depth = before


def _fingerprint(columns: int, names: Any) -> bytes:
    text = repr((int(columns), None if names is None else [str(n) for n in names]))
    return hashlib.blake2b(text.encode(), key=_KEY, digest_size=16).digest()


def warn_if_repeated(columns: int, names: Any, epsilon: float, delta: float) -> None:
    """Counts one uncharged fit; warns at the 2nd, 4th, 8th, … on tables with these columns."""
    if getattr(_INSIDE, "depth", 0):
        return
    with _LOCK:
        at = _fingerprint(columns, names)
        fits, total_epsilon, total_delta = _FITS.get(at, (0, 0.0, 0.0))
        fits, total_epsilon, total_delta = fits + 1, total_epsilon + epsilon, total_delta + delta
        _FITS[at] = (fits, total_epsilon, total_delta)
    if fits > 1 and fits & (fits - 1) == 0:
        warn(
            f"this process has now fitted {fits} models on tables with these {columns} columns without a ledger. If they hold "
            f"the same people, what protects them is the sum of all fits, up to epsilon {total_epsilon:.4g} and delta "
            f"{total_delta:.2g}, not what one model states. Give all of them the same budget=dpopt.Ledger(...), which adds up "
            "and refuses what does not fit"
        )


__all__ = ["counted_as_one", "warn_if_repeated"]
