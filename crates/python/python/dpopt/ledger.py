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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from . import _core, accounting
from ._core import BudgetExceeded, PrivacyError
from ._reading import attempt, kind, number, plain, plainly, shown

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


@dataclass(frozen=True)
class _Known:
    """By what a ledger file is known again: its terms, and the last charge that was seen in it, with the hash over all lines up to it."""

    epsilon: float
    delta: float
    relation: str
    name: str
    names: tuple[str, ...]
    charges: int
    check: str | None


class Ledger:
    """A total (ε, δ) for one data set; everything that is charged adds up to at most that.

    Estimators take a ledger as ``budget=`` and charge it *before* a record counts; a charge is never taken back, not
    even when a fit fails.

    In memory (without `path`) charges add by basic composition, in exact arithmetic of the numbers as they are written: ten charges of
    0.1 fit into 1. With `path` they go to the ledger
    file that ``dpopt fit --ledger`` uses: appended and synced before anything is released, shared by processes, and added up
    by a filter that is much tighter for many small Gaussian releases. Both stay valid when a later analysis is chosen after
    looking at earlier answers, where accounting all events jointly would not.

    A ledger is one object: ``copy``, ``deepcopy`` and ``sklearn.base.clone`` return the same ledger. In memory it can neither
    be pickled nor be charged in another process (the same budget would be spent twice): estimators that hold one then refuse to
    travel. With `path` it travels as the file's name: the other process opens the same file, never a new one, and charges it. What travelled
    also knows the terms and the last charge that was seen: a file that was begun anew under that name, or an older copy, is refused.

    Parameters
    ----------
    epsilon, delta
        The total.
    relation
        The neighbouring relation all charges must be stated for.
    unit
        Who is protected: ``"record"``, or whoever may have several rows (fits with ``units=``), by the name of their ids:
        ``"patient_id"`` for ``units="patient_id"``, a series or a mapping of that name; a tuple of names where rows have several owners;
        ``"user"`` for ids that came without a name. What is spent per row, per patient and per doctor does not add up, so a charge that is
        per somebody else is refused. ``"round"`` for games of :mod:`dpopt.online`. Ids without a name say nothing of whose they are: that those of one ledger are of one kind is your word.
    path
        Ledger file, created if it does not exist.
    name
        Public name of the data set, written into the file.
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
        plain(name, "name")
        self.path, self.name = None if path is None else _whole_path(path), name
        self._file = None
        if self.path is not None:
            written = () if self._names in ((UNNAMED,), (ROUND,)) else self._names
            self._file = _core.FileLedger(
                self.path, name, self._kind, list(written), relation, self.epsilon, self.delta
            )
        self._start()
        if self._file is not None:
            self._status()

    def _start(self) -> None:
        #: and of each: whether what is certified is within (ε, δ) as they are written, too. Replaced as a whole, which nothing interrupts
        self._charges: tuple[tuple[Entry, bool], ...] = ()
        #: charges that were seen in the file, and the hash in the line of the last one
        self._seen: tuple[int, str | None] = (0, None)
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
        ledger._start()
        terms = ledger._status()["terms"]
        ledger.epsilon, ledger.delta, ledger.relation = terms["epsilon"], terms["delta"], terms["relation"]
        ledger.name = terms["name"]
        own = {RECORD: (), ROUND: (ROUND,)}
        ledger._names = own[terms["unit"]] if terms["unit"] in own else tuple(terms["unit_names"]) or (UNNAMED,)
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
                f"this ledger is in the memory of another process, so that a charge here would be lost; {_WAY_OUT}"
            )
        found = _same(self.path, self._known())
        self._file, self._seen, self._process = found._file, found._seen, os.getpid()

    def _saw(self, charges: int, check: str) -> None:
        """So many charges are in the file; of what several threads see, the most."""
        if charges > self._seen[0]:
            self._seen = (charges, check)

    def _known(self) -> _Known:
        charges, check = self._seen
        return _Known(self.epsilon, self.delta, self.relation, self.name, self._names, charges, check)

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

        Raises
        ------
        dpopt.BudgetExceeded
            If less is left, or the event costs more than (ε, δ). Nothing is charged then.
        ValueError
            If `name` has control characters, which the ledger would send to whoever's terminal shows it.
        """
        if isinstance(name, str):
            plain(name, "the name of a charge")
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
            receipt = self._file.charge(name, event.to_json(), epsilon, delta, self._kind, self.relation)
            proof = json.loads(receipt)
            self._saw(proof["number"], proof["check"])
            return receipt
        as_written = self._certified(event, epsilon, delta)
        with self._lock:
            entry = Entry(name, event, epsilon, delta)
            charges = (*self._charges, (entry, as_written))
            after, exact = zip(*charges)
            if not (all(exact) and self._fits(after, _written) or self._fits(after, Fraction)):
                raise BudgetExceeded(self._too_much(entry, as_written))
            self._charges = charges
        return None

    def _certified(self, event: accounting.DpEvent, epsilon: float, delta: float) -> bool:
        """Refuses an event that costs more than (ε, δ); whether it costs no more than these numbers as they are written, either."""
        bound = accounting.certify(event, epsilon, delta, relation=self.relation)
        if Fraction(delta) > _written(delta):
            # at the machine's number below
            smaller = attempt(lambda: accounting.epsilon(event, math.nextafter(delta, 0.0), relation=self.relation))
            if smaller is None:
                return False
            bound = smaller
        return Fraction(float(bound)) <= _written(epsilon)

    def _fits(self, entries: Sequence[Entry], exact: Callable[[float], Fraction]) -> bool:
        """Whether their (ε, δ) add up to the total at most, as they are written or as the machine has them."""
        epsilon, delta = _sums(entries, exact)
        return epsilon <= exact(self.epsilon) and delta <= exact(self.delta)

    def _too_much(self, entry: Entry, as_written: bool) -> str:
        """Why it does not fit, with as many digits as it takes to see that."""
        exact = self._exactly() if as_written else Fraction
        left = self._left(exact)
        wants = (entry.epsilon, entry.delta)
        over = [(want, rest) for want, rest in zip(wants, left) if exact(want) > exact(rest)]
        digits = next(d for d in range(6, 18) if d == 17 or all(f"{w:.{d}g}" != f"{r:.{d}g}" for w, r in over))
        return (
            f"`{plainly(entry.name)}` needs epsilon {wants[0]:.{digits}g} and delta {wants[1]:.{digits}g}, but only epsilon {left[0]:.{digits}g} and delta "
            f"{left[1]:.{digits}g} are left of the ledger; lower its epsilon, or do not run it"
        )

    def _charge_for(self, names: tuple[str, ...]) -> Callable[..., str | None]:
        """What a session of the compiled library charges: run, event as JSON, and between which data sets; for units of `names`, or rows."""

        def charge(run: str, event: str, epsilon: float, delta: float, relation: str, unit: str) -> str | None:
            if (unit == RECORD) != (not names) or (unit == ROUND) != (names == (ROUND,)):
                raise PrivacyError(f"the run is per {unit}, but would be charged as one per {_told(tuple(names))}")
            # a run's name may hold those of a table's columns
            return self._charged(plainly(run), accounting.from_json(event), epsilon, delta, relation, _sorted(names))

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

    def _left(self, exact: Callable[[float], Fraction]) -> tuple[float, float]:
        """What is left, rounded down."""

        def below(left: Fraction) -> float:
            near = float(left)
            return near if exact(near) <= left else math.nextafter(near, -math.inf)

        epsilon, delta = _sums(self._entries, exact)
        return below(exact(self.epsilon) - epsilon), below(exact(self.delta) - delta)

    def _exactly(self) -> Callable[[float], Fraction]:
        """What the numbers of this ledger in memory are to be added as."""
        return _written if all(as_written for _, as_written in self._charges) else Fraction

    @property
    def _entries(self) -> tuple[Entry, ...]:
        """What was charged to a ledger in memory."""
        return tuple(entry for entry, _ in self._charges)

    def _holds(self, receipt: dict[str, Any]) -> bool:
        """Whether the charge of a receipt is in the file, in its place."""
        charges = self._status()["charges"]
        at = receipt["number"] - 1
        return 0 <= at < len(charges) and (charges[at]["id"], charges[at]["check"]) == (receipt["id"], receipt["check"])

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges, in order."""
        if self._file is None:
            return self._entries
        charges = self._status()["charges"]
        # another program may have written the names
        return tuple(
            Entry(plainly(c["name"]), accounting.from_dict(c["event"]), c["epsilon"], c["delta"]) for c in charges
        )

    def _status(self) -> dict[str, Any]:
        self._here()
        assert self._file is not None
        self._here()
        status: dict[str, Any] = json.loads(self._file.status())
        if charges := status["charges"]:
            self._saw(len(charges), charges[-1]["check"])
        return status

    @property
    def share(self) -> float:
        """Share of the total that is spent, in [0, 1]."""
        if self._file is not None:
            return self._status()["share"]
        epsilon, delta = self.spent
        return min(1.0, max(epsilon / self.epsilon, delta / self.delta if self.delta else 0.0))

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) charged so far; for a ledger file ε of all charges at the total δ, unless the file adds the δ of its charges."""
        if self._file is None:
            epsilon, delta = _sums(self._entries, self._exactly())
            return float(epsilon), float(delta)
        status = self._status()
        charges = status["charges"]
        if not charges or status["rule"] == "basic":
            return status["epsilon"], math.fsum(c["delta"] for c in charges)
        return status["epsilon"], self.delta

    @property
    def remaining(self) -> tuple[float, float]:
        """(ε, δ) that may still be charged, rounded down. A ledger file has no such pair: see :attr:`share`."""
        if self._file is not None:
            raise ValueError(
                "a ledger file composes by a privacy filter, so that the remaining budget is not one pair (epsilon, delta); see `share`"
            )
        return self._left(self._exactly())

    def recalls(self, newer: Any = None) -> list[dict[str, Any]]:
        """Known faults of earlier versions that concern charges of a ledger file or may, each with its ``id``, ``effect``, ``summary``, what
        ``follows``, and the ``charges``: their ``number``, whether the ``concern`` is ``"certain"`` or ``"possible"``, and the ``reasons``. `newer` is
        the path of a newer list than the one that ships (SECURITY.md). Charges of a ledger in memory are of this version: none.

        >>> Ledger(1.0).recalls()
        []
        """
        if self._file is None:
            return []
        self._here()
        found: list[dict[str, Any]] = json.loads(self._file.recalls(None if newer is None else _whole_path(newer)))
        return found

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
            raise ValueError("this is not a ledger written by to_json")
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
                f"a ledger in memory cannot be pickled, since another process would spend the same budget again; {_WAY_OUT}"
            )
        # what another process appended is known, too
        self._status()
        return (_same, (self.path, self._known()))

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        per = f" per {plainly(self._per)}" if self._names else ""
        where = "" if self.path is None else f", path={self.path!r}"
        return f"Ledger(epsilon={self.epsilon:g}, delta={self.delta:g}{per}; spent epsilon={epsilon:g}, delta={delta:g}{where})"

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
    for name in names:
        plain(name, "unit")
    return () if unit == RECORD else _sorted(names)


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({name.strip() for name in names}))


def _told(names: tuple[str, ...]) -> str:
    return RECORD if not names else " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _whole_path(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is {kind(path)}; give the path of a file")
    return os.path.abspath(path)


def _same(path: str, known: _Known) -> Ledger:
    """The ledger of a file that was known in another process, where it arrives: the same file, or an error."""
    if not os.path.exists(path):
        raise PrivacyError(
            "the ledger's file does not exist here; open the ledger on the machine that has its file, or share the directory"
        )
    ledger = Ledger.open(path)
    charges = ledger._status()["charges"]
    if len(charges) < known.charges:
        raise PrivacyError(
            "the ledger's file holds fewer charges than when it was sent, so that it is another file or an older copy; use the original file"
        )
    found = ledger._known()
    if known.charges and charges[known.charges - 1]["check"] != known.check:
        raise PrivacyError(
            "the ledger's file holds other charges than when it was sent: it was begun anew, or is another file of the same name; use the original file"
        )
    for what in ("epsilon", "delta", "relation", "name", "names"):
        if getattr(found, what) != getattr(known, what):
            raise PrivacyError(
                f"the ledger's file has another {what.replace('names', 'unit')} than when it was sent: it was begun anew, or is another file under the "
                "same name"
            )
    return ledger


def _written(value: float) -> Fraction:
    """A number of the machine as it is written: 0.1 is a tenth."""
    return Fraction(repr(value))


def _sums(entries: Sequence[Entry], exact: Callable[[float], Fraction]) -> tuple[Fraction, Fraction]:
    return (
        sum((exact(entry.epsilon) for entry in entries), Fraction(0)),
        sum((exact(entry.delta) for entry in entries), Fraction(0)),
    )


__all__ = ["Entry", "Ledger"]
