"""What the single releases of :mod:`dpopt.mechanisms` share: a price, a session that was charged for it, what left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core, accounting
from ._by_unit import Units, settled, unused
from ._plan import VOID
from ._public_facts import Unit, unit_facts
from ._reading import array, as_table, number, shown, whole
from ._repeats import Form, open_session
from ._units import Given
from ._warnings import refuse_seed
from .ledger import Ledger


@dataclass(frozen=True, repr=False)
class Release:
    """A released value with the event that it cost.

    Attributes
    ----------
    value
        What left.
    event
        What was done.
    epsilon, delta
        What was allowed (and charged).
    bound
        The certified ε of the event at `delta`.
    records
        What the curator wrote down: label, event, count.
    unit
        Who is protected: ``"record"`` (a row), or how a unit is called that may have several rows.
    insecure_seed
        True if the noise was seeded: no guarantee against who knows the seed.
    """

    value: Any
    event: accounting.DpEvent
    epsilon: float
    delta: float
    bound: accounting.Bound
    records: list[dict[str, Any]]
    insecure_seed: bool
    unit: str

    def __repr__(self) -> str:
        shown = f"value={self.value!r}, event={self.event!r}, epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"{type(self).__name__}({shown})" + (VOID if self.insecure_seed else "")

    def _repr_html_(self) -> str:
        from ._html import table

        rows = [(r["label"], str(accounting.from_dict(r["event"])), r["count"]) for r in self.records]
        return table(
            ["release", "event", "times"],
            rows,
            "({}, {})-differential privacy per {}".format(*_core.shown(float(self.bound), self.delta), self.unit)
            + (VOID if self.insecure_seed else ""),
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype=dtype)


def matrix(values: Any) -> np.ndarray:
    values = array(as_table(values), "values").astype(np.float64, copy=False)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise ValueError("give one row per record: a vector, or a matrix rows × coordinates")
    return values


def public_records(counted: int, given: int | None, relation: str) -> int:
    if given is not None:
        if not (isinstance(given, (int, np.integer)) and given >= 1):
            raise ValueError(f"n_rows is {shown(given)}; give a whole number, at least 1")
        return int(given)
    if relation == "add-or-remove":
        raise ValueError("under add-or-remove the number of rows is protected; give a public guess as n_rows")
    return counted


def pay(
    name: str,
    event: accounting.DpEvent,
    epsilon: float,
    delta: float,
    relation: str,
    ledger: Ledger | None,
    seed: int | None,
    unit: str | None = None,
    *,
    of: Form,
) -> Any:
    """A session of the compiled library that was charged for `event`: what the release goes through. What it draws is made before, so that noise that cannot be
    drawn costs nothing."""
    refuse_seed(seed, charged=ledger is not None)
    under = accounting._relation(relation)
    price = (event.to_json(), number(epsilon, "epsilon"), number(delta, "delta"), under)
    charge = None if ledger is None else ledger._charge_for(() if unit is None else (unit,))
    return open_session(name, name, price, charge, seed, None, unit, of=of)


def released(value: Any, epsilon: float, delta: float, session: Any) -> Release:
    promised = json.loads(session.guarantee())
    (stage,), (records,) = promised["stages"], json.loads(session.releases())
    bound = accounting.Bound(stage["bound"])
    return Release(
        value, accounting.from_dict(stage["event"]), epsilon, delta, bound, records, promised["insecure_seed"],
        promised.get("unit_column", promised["unit"]),
    )  # fmt: skip


def least(law: str, coordinates: int, epsilon: float, delta: float, relation: str) -> tuple[float, accounting.DpEvent]:
    """The least noise of one sum within (ε, δ), and what is then released."""
    under = accounting._relation(relation)
    noise, event, _ = _core.sum_noise(law, coordinates, number(epsilon, "epsilon"), number(delta, "delta"), under)
    return noise, accounting.from_json(event)


def owned(
    given: Given | None,
    rows: int,
    relation: str,
    *,
    n_rows: int | None = None,
    unit: Unit | None,
    seed: int | None,
    one: bool = False,
) -> tuple[Units | None, int]:
    """Whose `rows` rows they are, None if each row is protected by itself; and the public number of what is protected. `one`: one row of each is looked at."""
    if given is None:
        unused(unit)
        return None, public_records(rows, n_rows, relation)
    if n_rows is not None:
        raise ValueError(
            "with units= the number of rows has no effect; give unit=dpopt.Unit(count=...), or leave both out"
        )
    seed = None if seed is None else whole(seed, "insecure_seed") % 2**64
    if one:
        unit = unit_facts(unit, ("count",), "one row of each unit is looked at")
    units = settled(given, rows, accounting._relation(relation), unit=unit, seed=seed)
    return units, units.count


def named(units: Units | None) -> str | None:
    """How a unit is called, for what is charged."""
    return None if units is None else units.name


__all__ = ["Release", "least", "matrix", "named", "owned", "pay", "public_records", "released"]
