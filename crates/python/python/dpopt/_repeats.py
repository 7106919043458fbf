"""How often this process has released something of records of the same form, outside a ledger.

Each release states its own (ε, δ); several on the same people add up, which nobody sees who looks at one ``privacy_``.
The count is kept by a keyed fingerprint of public facts (number and names of columns, shapes without the number of records, declared categories, what is
trained), so the warning cannot depend on any record; it therefore also counts releases of other people's tables of the same form, and says "if". The key is drawn
when the process starts, and neither key nor fingerprint is stored, shown or sent anywhere.

Every session of the compiled library that Python opens is opened here, by :func:`open_session`, which is told what the records are: a new entrance cannot forget it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _core
from ._copies import lock
from ._warnings import warn

_KEY = secrets.token_bytes(32)
_LOCK = lock()
_HERE = threading.local()


@dataclass(frozen=True)
class Form:
    """What is public of records: `words` for a person, and what two of the same form have in common."""

    words: str
    facts: tuple[Any, ...]


@dataclass
class _Count:
    releases: int = 0
    #: all of them were fits of models
    fits: bool = True
    epsilon: float = 0.0
    delta: float = 0.0


_COUNTS: dict[bytes, _Count] = {}


def of_columns(columns: int, names: Any = None) -> Form:
    """Of a table of numbers."""
    listed = None if names is None else tuple(str(name) for name in names)
    return Form(f"tables with these {columns} columns", ("table", int(columns), listed))


def of_categories(categories: Iterable[Any]) -> Form:
    """Of labels, of which these were declared."""
    listed = tuple(repr(category) for category in categories)
    return Form(f"labels of these {len(listed)} categories", ("labels", listed))


def of_numbers(what: str, count: int) -> Form:
    """Of what is known by a kind and a number: what is trained, what is sent."""
    return Form(f"{what} ({count:,} numbers)", (what, int(count)))


def of_arrays(arrays: Iterable[Any]) -> Form:
    """Of arrays with a record in each row, whose number has no part in it; targets beside a table have none either."""
    parts = list(arrays)
    names = getattr(parts[0], "columns", None)
    if names is not None:
        return of_columns(len(names), names)
    shapes = [
        (tuple(int(n) for n in getattr(part, "shape", (0,))[1:]), str(getattr(part, "dtype", "")).split(".")[-1])
        for part in parts
    ]
    (first, _), *others = shapes
    if len(first) <= 1 and all(shape in ((), (1,)) for shape, _ in others):
        return of_columns(first[0] if first else 1)
    return Form(f"records of these shapes ({', '.join(str(shape) for shape, _ in shapes)})", ("arrays", tuple(shapes)))


@contextmanager
def counted_as_one() -> Iterator[None]:
    """Releases in here belong to something that is counted (and paid) as a whole; their number may be secret."""
    before = getattr(_HERE, "depth", 0)
    _HERE.depth = before + 1
    try:
        yield
    finally:
        _HERE.depth = before


@contextmanager
def records_of(form: Form) -> Iterator[None]:
    """What is opened in here reads records of this form, whatever it says itself."""
    before = getattr(_HERE, "form", None)
    _HERE.form = form
    try:
        yield
    finally:
        _HERE.form = before


def open_session(
    run: str,
    stage: str,
    price: tuple[str, float, float, str],
    charge: Any,
    seed: int | None,
    by: str | None = None,
    unit: str | None = None,
    *,
    of: Form | None,
) -> _core.Session:
    """A session that was charged, or is counted: of records of this form, or of None where it is counted elsewhere. Seeded ones are void, and count nothing."""
    session = _core.Session(run, stage, price, charge, seed, by, unit)
    if charge is None and seed is None and of is not None:
        uncharged(of, price[1], price[2])
    return session


def warn_if_repeated(columns: int, names: Any, epsilon: float, delta: float) -> None:
    """Counts one uncharged fit; warns at the 2nd, 4th, 8th, … on tables with these columns."""
    uncharged(of_columns(columns, names), epsilon, delta, fit=True)


def uncharged(form: Form, epsilon: float, delta: float, fit: bool = False) -> None:
    """Counts one uncharged release; warns at the 2nd, 4th, 8th, … of records of this form."""
    if getattr(_HERE, "depth", 0):
        return
    form = getattr(_HERE, "form", None) or form
    at = hashlib.blake2b(repr(form.facts).encode(), key=_KEY, digest_size=16).digest()
    with _LOCK:
        count = _COUNTS.setdefault(at, _Count())
        count.releases += 1
        count.fits = count.fits and fit
        count.epsilon += epsilon
        count.delta += delta
        made, fits, total = count.releases, count.fits, (count.epsilon, count.delta)
    if made > 1 and made & (made - 1) == 0:
        what = f"fitted {made} models on" if fits else f"made {made} private releases of"
        warn(
            f"this process has now {what} {form.words} without a ledger. If they hold "
            f"the same people, their guarantee is the sum of all {'fits' if fits else 'releases'}, up to epsilon {total[0]:.4g} and delta "
            f"{total[1]:.2g}, not what one {'model' if fits else 'release'} states. Give all of them the same ledger (budget= or ledger=, a "
            "budget=dpopt.Ledger(...)), which adds up the costs and refuses a run beyond the total"
        )


__all__ = [
    "Form",
    "counted_as_one",
    "of_arrays",
    "of_categories",
    "of_columns",
    "of_numbers",
    "open_session",
    "records_of",
    "uncharged",
    "warn_if_repeated",
]
