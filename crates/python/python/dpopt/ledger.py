"""A budget that several analyses of the same data share.

>>> import dpopt
>>> ledger = dpopt.Ledger(epsilon=1.0, delta=1e-6)
>>> ledger.charge("histogram", "laplace(4.01)", epsilon=0.25, delta=0.0)
>>> ledger.remaining
(0.75, 1e-06)
>>> ledger.charge("too much", "laplace(1.01)", epsilon=1.0, delta=0.0)
Traceback (most recent call last):
    ...
dpopt.BudgetExceeded: `too much` needs epsilon 1 and delta 0, but only epsilon 0.75 and delta 1e-06 are left of the ledger; lower its epsilon, or do not run it
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from . import _core, accounting
from ._core import BudgetExceeded, PrivacyError
from ._reading import attempt, kind, number, shown

#: Who a ledger protects if no name is given: a row, or whoever's ids came without a name.
RECORD, UNNAMED = "record", "user"
#: Who a ledger of games protects (dpopt.online): all that one round tells.
ROUND = "round"

_WAY_OUT = (
    "keep it in a file, Ledger(epsilon, delta, path=...), which other processes open (Ledger.open(path)); or use threads, or one "
    "process; a fitted model travels after set_params(budget=None)"
)


@dataclass(frozen=True)
class Entry:
    """One charge: what it was, its event, and the (ε, δ) it was charged with."""

    name: str
    event: accounting.DpEvent
    epsilon: float
    delta: float


class Ledger:
    """A total (ε, δ) for one data set; everything that is charged adds up to at most that.

    Estimators take a ledger as ``budget=`` and charge it *before* a record counts; a charge is never taken back, not
    even when a fit fails.

    In memory (without `path`) charges add by basic composition, in exact arithmetic. With `path` they go to the ledger
    file that ``dpopt fit --ledger`` uses: appended and synced before anything is released, shared by processes, and added up
    by a filter that is much tighter for many small Gaussian releases. Both stay valid when a later analysis is chosen after
    looking at earlier answers, where accounting all events jointly would not.

    A ledger is one object: ``copy``, ``deepcopy`` and ``sklearn.base.clone`` return the same ledger. In memory it can neither
    be pickled nor be charged in another process (the same budget would be spent twice): estimators that hold one then refuse to
    travel. With `path` it travels as the file's name: the other process opens the same file, never a new one, and charges it.

    Args:
        epsilon, delta: the total.
        relation: the neighbouring relation all charges must be stated for.
        unit: who is protected: ``"record"``, or whoever may have several rows (fits with ``units=``), by the name of their ids:
            ``"patient_id"`` for ``units="patient_id"``, a series or a mapping of that name; a tuple of names where rows have several owners;
            ``"user"`` for ids that came without a name. What is spent per row, per patient and per doctor does not add up, so a charge that is
            per somebody else is refused. ``"round"`` for games of :mod:`dpopt.online`. Ids without a name say nothing of whose they are: that those of one ledger are of one kind is your word.
        path: ledger file, created if it does not exist.
        name: public name of the data set, written into the file.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        relation: str = "zero-out",
        unit: str | tuple[str, ...] = RECORD,
        path: Any = None,
        name: str = "data",
    ) -> None:
        epsilon, delta = number(epsilon, "epsilon"), number(delta, "delta")
        if not (0 < epsilon < math.inf):
            raise ValueError(f"epsilon is {epsilon}; give a positive, finite number, for example 1")
        if not (0 <= delta < 1):
            raise ValueError(f"delta is {delta}; give a number in [0, 1), usually below 1/rows, for example 1e-6")
        relation = accounting._relation(relation)
        if relation not in accounting.RELATIONS:
            raise ValueError(f"there is no relation {shown(relation)}; choose one of {', '.join(accounting.RELATIONS)}")
        self._names = _names_of(unit)
        self.epsilon, self.delta, self.relation = epsilon, delta, relation
        # whole: another process may have another working directory
        if not isinstance(name, str):
            raise TypeError(f"name is {kind(name)}; give the public name of the data set")
        self.path, self.name = None if path is None else _whole_path(path), name
        self._file = None
        if self.path is not None:
            written = () if self._names in ((UNNAMED,), (ROUND,)) else self._names
            self._file = _core.FileLedger(
                self.path, name, self._kind, list(written), relation, self.epsilon, self.delta
            )
        self._start()

    def _start(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def open(cls, path: Any) -> Ledger:
        """The ledger of a file that exists, with the terms it was started with; never makes a file.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "census.ledger")
        >>> first = Ledger(2.0, 1e-6, path=path)
        >>> Ledger.open(path).epsilon
        2.0
        """
        ledger = cls.__new__(cls)
        ledger.path = _whole_path(path)
        ledger._file = _core.FileLedger.open(ledger.path)
        terms = ledger._status()["terms"]
        ledger.epsilon, ledger.delta, ledger.relation = terms["epsilon"], terms["delta"], terms["relation"]
        ledger.name = terms["name"]
        own = {RECORD: (), ROUND: (ROUND,)}
        ledger._names = own[terms["unit"]] if terms["unit"] in own else tuple(terms["unit_names"]) or (UNNAMED,)
        ledger._start()
        return ledger

    @property
    def unit(self) -> str | tuple[str, ...]:
        """Who is protected, as it was given."""
        if not self._names:
            return RECORD
        return self._names[0] if len(self._names) == 1 and self._names != (RECORD,) else self._names

    @property
    def _per(self) -> str:
        return _told(self._names)

    @property
    def _kind(self) -> str:
        return ROUND if self._names == (ROUND,) else "user" if self._names else RECORD

    def _here(self) -> None:
        """A forked process holds a copy of everything: a file is opened again, a ledger in memory refuses."""
        if self._process == os.getpid():
            return
        if self.path is None:
            raise BudgetExceeded(
                f"this ledger is in the memory of another process, so a charge here would be lost; {_WAY_OUT}"
            )
        self._file, self._process = _core.FileLedger.open(self.path), os.getpid()

    def charge(
        self,
        name: str,
        event: Any,
        *,
        epsilon: float,
        delta: float,
        relation: str | None = None,
        unit: str | tuple[str, ...] | None = None,
    ) -> None:
        """Charges (ε, δ) for `event`, after certifying that the event costs no more; refuses what does not fit. `relation` and `unit`
        say what it is stated for: what the ledger is kept for, unless they are given.

        Raises:
            dpopt.BudgetExceeded: if less is left, or the event costs more than (ε, δ). Nothing is charged then.
            ValueError: if `name` has control characters, which the ledger would send to whoever's terminal shows it.
        """
        if isinstance(name, str) and _core.foreign(name) != name:
            raise ValueError(
                "the name of a charge has characters that command a terminal (control characters, line breaks, marks of direction); give a short text"
            )
        self._charged(name, event, epsilon, delta, relation, self._names if unit is None else _names_of(unit))

    def _charged(
        self, name: Any, event: Any, epsilon: Any, delta: Any, relation: str | None, names: tuple[str, ...]
    ) -> str | None:
        """The proof of a charge, as JSON, where the ledger is a file."""
        if relation is not None and accounting._relation(relation) != self.relation:
            raise ValueError(
                f"the ledger is kept for {self.relation} but this charge is stated for {relation}; use the same relation"
            )
        self._check_names(names)
        if not isinstance(name, str):
            raise TypeError(f"the name of a charge is {kind(name)}; give a short text, which the ledger shows")
        event, epsilon, delta = accounting.as_event(event), number(epsilon, "epsilon"), number(delta, "delta")
        self._here()
        if self._file is not None:
            return self._file.charge(name, event.to_json(), epsilon, delta, self._kind, self.relation)
        accounting.certify(event, epsilon, delta, relation=self.relation)
        with self._lock:
            spent_epsilon = sum((Fraction(e.epsilon) for e in self._entries), Fraction(0))
            spent_delta = sum((Fraction(e.delta) for e in self._entries), Fraction(0))
            fits = spent_epsilon + Fraction(epsilon) <= Fraction(self.epsilon)
            if not (fits and spent_delta + Fraction(delta) <= Fraction(self.delta)):
                left = self._left(spent_epsilon, spent_delta)
                # 0.2 and 0.8 are a hair more than 1, as numbers of the machine: all digits, where few look the same
                digits = ".6g" if f"{epsilon:g} {delta:g}" != f"{left[0]:g} {left[1]:g}" else ".17g"
                raise BudgetExceeded(
                    f"`{name}` needs epsilon {epsilon:{digits}} and delta {delta:{digits}}, but only epsilon {left[0]:{digits}} and delta "
                    f"{left[1]:{digits}} are left of the ledger; lower its epsilon, or do not run it"
                )
            self._entries.append(Entry(name, event, epsilon, delta))
        return None

    def _charge_for(self, names: tuple[str, ...]) -> Callable[..., str | None]:
        """What a session of the compiled library charges: run, event as JSON, and between which data sets; for units of `names`, or rows."""

        def charge(run: str, event: str, epsilon: float, delta: float, relation: str, unit: str) -> str | None:
            if (unit == RECORD) != (not names) or (unit == ROUND) != (names == (ROUND,)):
                raise PrivacyError(f"a run per {unit} was to be charged as one per {_told(tuple(names))}")
            return self._charged(run, accounting.from_json(event), epsilon, delta, relation, _sorted(names))

        return charge

    def _check_unit(self, unit: str) -> None:
        """Refuses a fit of rows where units are protected, and the other way round, before their names are known."""
        if unit != self._kind:
            self._check_names(() if unit == RECORD else (UNNAMED,))

    def _check_names(self, names: tuple[str, ...]) -> None:
        """Refuses what protects another unit than the ledger: what protects a row says little of a person with many."""
        if names == self._names:
            return
        kept, charged = _told(self._names), _told(names)
        if ROUND in (kept, charged):
            why = 'what is spent on the one says nothing of the other; games of rounds have a ledger of their own, Ledger(..., unit="round")'
        elif not self._names:
            why = f'use Ledger(..., unit="{charged}") for what is fitted with units='
        elif not names:
            why = "give the fit units= (whose rows they are), or use another ledger"
        elif names == (UNNAMED,):
            why = f'say whose ids they are, units={{"{kept}": ids}}, if they are these, or use another ledger'
        else:
            why = "what is spent on the one says nothing of the other; use a ledger for each"
        raise ValueError(f"the ledger protects a {kept} and this charge is per '{charged}'; {why}")

    def _left(self, epsilon: Fraction, delta: Fraction) -> tuple[float, float]:
        def below(exact: Fraction) -> float:
            near = float(exact)
            return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)

        return below(Fraction(self.epsilon) - epsilon), below(Fraction(self.delta) - delta)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges, in order."""
        if self._file is None:
            return tuple(self._entries)
        charges = self._status()["charges"]
        return tuple(Entry(c["name"], accounting.from_dict(c["event"]), c["epsilon"], c["delta"]) for c in charges)

    def _status(self) -> dict[str, Any]:
        assert self._file is not None
        return json.loads(self._file.status())

    @property
    def share(self) -> float:
        """Share of the total that is spent, in [0, 1]."""
        if self._file is not None:
            return self._status()["share"]
        epsilon, delta = self.spent
        return min(1.0, max(epsilon / self.epsilon, delta / self.delta if self.delta else 0.0))

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) charged so far; for a ledger file ε of all charges at the total δ."""
        if self._file is not None:
            return (self._status()["epsilon"], self.delta)
        return (math.fsum(e.epsilon for e in self._entries), math.fsum(e.delta for e in self._entries))

    @property
    def remaining(self) -> tuple[float, float]:
        """(ε, δ) that may still be charged, rounded down. A ledger file has no such pair: see :attr:`share`."""
        if self._file is not None:
            raise ValueError(
                "a ledger file adds up by a filter, so what is left is not one (epsilon, delta); see `share`"
            )
        return self._left(
            sum((Fraction(e.epsilon) for e in self._entries), Fraction(0)),
            sum((Fraction(e.delta) for e in self._entries), Fraction(0)),
        )

    def to_json(self) -> str:
        """The ledger's state, for the record."""
        return json.dumps(
            {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "relation": self.relation,
                "unit": self.unit if isinstance(self.unit, str) else list(self.unit),
                "entries": [
                    {"name": e.name, "event": e.event.to_dict(), "epsilon": e.epsilon, "delta": e.delta}
                    for e in self.entries
                ],
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """A ledger that goes on where the written one stopped; every entry is certified again."""
        data = attempt(lambda: json.loads(text))
        if not (isinstance(data, dict) and {"epsilon", "delta", "relation", "entries"} <= set(data)):
            raise ValueError("this is not a ledger that to_json wrote")
        unit = data.get("unit", RECORD)
        unit = tuple(unit) if isinstance(unit, list) else unit
        ledger = cls(data["epsilon"], data["delta"], relation=data["relation"], unit=unit)
        for entry in data["entries"]:
            ledger.charge(entry["name"], entry["event"], epsilon=entry["epsilon"], delta=entry["delta"])
        return ledger

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: Any) -> Ledger:
        return self

    def __sklearn_clone__(self) -> Ledger:
        return self

    def __reduce__(self) -> Any:
        if self.path is None:
            raise TypeError(
                f"a ledger in memory cannot be pickled: another process would spend the same budget again; {_WAY_OUT}"
            )
        return (_opened, (self.path, len(self.entries)))

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        per = f" per {_core.foreign(self._per)}" if self._names else ""
        return (
            f"Ledger(epsilon={self.epsilon:g}, delta={self.delta:g}{per}; spent epsilon={epsilon:g}, delta={delta:g})"
        )

    def _repr_html_(self) -> str:
        from ._html import ledger_table

        return ledger_table(self)


def _names_of(unit: Any) -> tuple[str, ...]:
    """Of the ids of a unit, in no order; none for a row."""
    names = (unit,) if isinstance(unit, str) else unit
    if not (isinstance(names, tuple) and names and all(isinstance(name, str) and name.strip() for name in names)):
        raise ValueError(
            f'unit is {shown(unit)}; give "record", or the name of whoever has the rows, for example "patient_id", or "user"'
        )
    return () if unit == RECORD else _sorted(names)


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in names}))


def _told(names: tuple[str, ...]) -> str:
    return RECORD if not names else " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _whole_path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {kind(path)}; give the path of a file")
    return os.path.abspath(path)


def _opened(path: str, charges: int) -> Ledger:
    """Where a pickled ledger arrives: the same file, or an error."""
    if not os.path.exists(path):
        raise PrivacyError("the ledger's file is not there; open the ledger where its file is, or share the directory")
    ledger = Ledger.open(path)
    if len(ledger.entries) < charges:
        raise PrivacyError(
            "the ledger's file holds fewer charges than when it was sent, so it is another file or an older copy"
        )
    return ledger


__all__ = ["Entry", "Ledger"]
