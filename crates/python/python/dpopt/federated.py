"""A client's model updates, released in rounds: what the mod for Flower and the filter for NVFlare do, for any other framework.

A client gets arrays from a server, trains on its own records and sends the arrays back. What leaves is the *difference*, clipped as one vector and
noised on the client, so that nobody else has to be trusted: not the server, not other clients, not whoever looks at the messages. That is so where the client's
operator decides what code runs there: a framework that runs what the server sends runs a server's plan too (docs/federated.md).

>>> import numpy as np
>>> from dpopt.federated import PrivateUpdates
>>> updates = PrivateUpdates(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=10)
>>> sent = [np.zeros((2, 2)), np.zeros(3)]
>>> received = updates.release(sent, [array + 0.1 for array in sent])
>>> [array.shape for array in received], updates.rounds_released
([(2, 2), (3,)], 1)
>>> print(updates.privacy_)
(8, 1e-5)-differential privacy per client, replace-one
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core, accounting
from ._copies import lock
from ._plan import Privacy
from ._reading import attempt, number, positive, whole
from ._repeats import Form, of_numbers, open_session
from ._rounds import Charge, RoundsFile, RoundsInMemory, opened, refuse_beyond, refuse_ledger, refuse_remote
from ._warnings import refuse_seed
from .ledger import Ledger

#: Who is protected: everything that one client holds, however many records of however many people.
UNIT = "client"


class PrivateUpdates:
    """Releases of one client's updates: clipped as one vector, noised here, in no more rounds than were planned.

    The unit is the client: whatever it trains on, and however, may be another thing entirely (``"replace-one"``: local differential privacy, between any two
    inputs) or nothing (``"zero-out"``). That a client takes part is not hidden, nor in which rounds, nor how long it takes. Nothing but :meth:`release` may
    leave the client: no losses, no numbers of records, no errors.

    The first round fixes how many numbers an update has.

    Parameters
    ----------
    clip_norm
        C, l2 bound on the difference to what the server sent, over all arrays together. A difference moves by 2C between any two
        inputs, by C between an input and none.
    epsilon, delta
        Of all `rounds` together; the least noise is found by calibration.
    rounds
        Planned number of releases; one more is refused.
    relation
        ``"replace-one"`` (default) or ``"zero-out"``.
    session
        The absolute path of a file in which the releases are counted, for clients whose process ends between rounds: whoever is given the same file goes on where it
        was, with the same noise and at no further charge; two at once share the rounds. A copy of the file is refused. Without it
        the rounds are counted in this object, which then neither travels nor is copied.
    budget
        A :class:`dpopt.Ledger` with ``unit="client"``, charged with all rounds before the first; with a `session` it must be a file.
    insecure_seed
        Reproducible noise for tests. **No privacy.**
    """

    def __init__(
        self,
        *,
        clip_norm: float,
        epsilon: float,
        delta: float,
        rounds: int,
        relation: str = "replace-one",
        session: Any = None,
        budget: Ledger | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.clip_norm, self.rounds = positive(clip_norm, "clip_norm"), whole(rounds, "rounds")
        self.epsilon, self.delta = number(epsilon, "epsilon"), number(delta, "delta")
        self.relation = accounting._relation(relation)
        if self.rounds < 1:
            raise ValueError("rounds must be at least 1")
        if self.relation not in ("replace-one", "zero-out"):
            raise ValueError(
                "add-or-remove would hide whether a client takes part, which is public here; use replace-one or zero-out"
            )
        # refuses what cannot be planned before anything is trained; the noise depends on the dimension by its samplers alone
        self._planned_for(1)
        refuse_seed(insecure_seed, charged=budget is not None)
        self._seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**32
        if session is not None and insecure_seed is not None:
            raise ValueError("a session and an insecure_seed exclude each other; leave one of them out")
        self._check_budget(budget, session)
        self._session, self._budget, self._opening = session, budget, lock()
        self._process = os.getpid()
        self._open: RoundsFile | RoundsInMemory | None = None

    def _check_budget(self, budget: Any, session: Any) -> None:
        refuse_ledger(budget, session)
        if budget is None:
            return
        if budget.relation != self.relation:
            raise ValueError(
                f"the ledger is kept for {budget.relation} and the updates for {self.relation}; use the same relation"
            )
        budget._check_names((UNIT,))

    def _planned_for(self, dimension: int) -> tuple[float, str]:
        facts = {"records": 1, "sampling_probability": 1.0, "steps": self.rounds, "dimension": dimension}
        noise, event, _ = _core.batch_noise(json.dumps(facts), self.epsilon, self.delta, self.relation)
        return noise, event

    def _opened(self, dimension: int) -> RoundsFile | RoundsInMemory:
        """The rounds and their plan; charged if they are new."""
        if self._session is None:
            refuse_remote(self._process)
        with self._opening:
            if self._open is None:
                self._open = opened(self._session, self._terms(), lambda: self._charged(dimension), self._budget)
        planned = self._open.plan["dimension"]
        if planned != dimension:
            raise ValueError(
                f"the server sent {dimension} numbers, but {planned} in the first round; the size must stay the same"
            )
        return self._open

    def _charged(self, dimension: int) -> dict[str, Any]:
        noise, event = self._planned_for(dimension)
        charge = Charge(self._budget, (UNIT,))
        self._kernel_session(event, charge.pay, self._seed, of_numbers("updates of clients", dimension))
        return {"dimension": dimension, "noise_multiplier": noise, "event": event, **charge.proof}

    def _terms(self) -> dict[str, Any]:
        return {
            "clip_norm": self.clip_norm, "epsilon": self.epsilon, "delta": self.delta, "rounds": self.rounds, "relation": self.relation,
        }  # fmt: skip

    def _kernel_session(self, event: str, charge: Any, seed: int | None, of: Form | None = None) -> Any:
        price = (event, self.epsilon, self.delta, self.relation)
        return open_session("PrivateUpdates", "updates", price, charge, seed, None, UNIT, of=of)

    @property
    def noise_multiplier(self) -> float:
        """Noise standard deviation of every number that leaves, over `clip_norm`."""
        return self._planned_for(1)[0] if self._open is None else float(self._open.plan["noise_multiplier"])

    @property
    def event(self) -> accounting.DpEvent:
        """What all planned rounds release."""
        return accounting.from_json(self._planned_for(1)[1] if self._open is None else self._open.plan["event"])

    @property
    def privacy_(self) -> Privacy:
        """What all planned rounds cost, per client."""
        session = self._kernel_session(self.event.to_json(), None, self._seed)
        dimension = 1 if self._open is None else self._open.plan["dimension"]
        # opens the curator that every release goes through, and releases nothing
        _core.Training(1, 1.0, dimension, self.clip_norm, self.noise_multiplier, session)
        return Privacy.of_session(session)

    def epsilon_at(self, rounds: int) -> accounting.Bound:
        """Certified ε of the first so many rounds, at the `delta` of all."""
        rounds = whole(rounds, "rounds")
        if not 1 <= rounds <= self.rounds:
            raise ValueError(f"rounds is {rounds}; give a number from 1 to {self.rounds}")
        facts = {"records": 1, "sampling_probability": 1.0, "steps": rounds, "dimension": 1}
        event = _core.batch_event(json.dumps(facts), self.noise_multiplier)
        return accounting.epsilon(accounting.from_json(event), self.delta, relation=self.relation)

    @property
    def rounds_released(self) -> int:
        """Releases so far, those of other processes with the same session too."""
        return 0 if self._open is None else self._open.taken

    def check(self, sent: Sequence[Any]) -> None:
        """Refuses, before anything is trained, what :meth:`release` would refuse: by what the server sent and what was released so far.

        Raises
        ------
        dpopt.BudgetExceeded
            If all planned rounds are released, or the ledger has no room.
        ValueError
            If the server sent no arrays of numbers, or others than in the first round.
        """
        refuse_beyond(self._opened(_dimension(_arrays(sent))).taken, self.rounds)

    def release(self, sent: Sequence[Any], update: Sequence[Any] | None) -> list[np.ndarray]:
        """`sent` + clip(`update` − `sent`) + noise, in the shapes and types of `sent`.

        Parameters
        ----------
        sent
            The server's arrays. Those of whole numbers are given back as they are.
        update
            The same arrays after training; ``None`` where there are none. Other shapes, what is no number and any that is not
            finite: nothing of it counts, and noise alone is released.
        """
        arrays = _arrays(sent)
        rounds = self._opened(_dimension(arrays))
        plan, taken = rounds.plan, rounds.take(self.rounds)
        difference = attempt(lambda: _difference(arrays, update))
        if difference is None:
            difference = np.zeros(plan["dimension"])
        seed = None if self._seed is None else self._seed + taken
        session = self._kernel_session(plan["event"], None, seed)
        training = _core.Training(1, 1.0, plan["dimension"], self.clip_norm, plan["noise_multiplier"], session)
        training.sample()
        training.add([np.ascontiguousarray(difference[None, :])])
        return _added(arrays, training.step())

    def __reduce__(self) -> Any:
        if self._session is None:
            raise TypeError(
                "updates whose rounds are counted in memory cannot be copied, since both copies could release all of them; give session= the path of a file"
            )
        return (_remade, ({**self._terms(), "session": self._session, "budget": self._budget},))

    def __repr__(self) -> str:
        return f"PrivateUpdates(clip_norm={self.clip_norm:g}, epsilon={self.epsilon:g}, delta={self.delta:g}, rounds={self.rounds})"


def _remade(given: dict[str, Any]) -> PrivateUpdates:
    return PrivateUpdates(**given)


def _arrays(sent: Any) -> list[np.ndarray]:
    """The server's arrays, which are public."""
    arrays = attempt(lambda: [np.asarray(array) for array in sent])
    if arrays is None or any(array.dtype.kind not in "fiub" for array in arrays):
        raise ValueError("the server must send arrays of numbers, from which differences can be computed")
    if _dimension(arrays) == 0:
        raise ValueError(
            "the server sent no arrays of floating-point numbers, so that there is nothing to release; have it send floating-point weights"
        )
    return arrays


def _dimension(arrays: list[np.ndarray]) -> int:
    return sum(array.size for array in arrays if array.dtype.kind == "f")


def _difference(sent: list[np.ndarray], update: Any) -> np.ndarray | None:
    """What the update adds, as one vector; None where it is no such thing."""
    made = [np.asarray(array) for array in update]
    if [array.shape for array in made] != [array.shape for array in sent]:
        return None
    if any(array.dtype.kind not in "fiub" for array in made):
        return None
    with np.errstate(all="ignore"):
        parts = [
            (after.astype(np.float64) - before.astype(np.float64)).ravel()
            for before, after in zip(sent, made)
            if before.dtype.kind == "f"
        ]
    whole_vector = np.concatenate(parts)
    return whole_vector if np.isfinite(whole_vector).all() else None


def _added(sent: list[np.ndarray], released: np.ndarray) -> list[np.ndarray]:
    """The server's arrays plus what was released, in their types."""
    out, place = [], 0
    for array in sent:
        if array.dtype.kind != "f":
            out.append(array.copy())
            continue
        part = released[place : place + array.size].reshape(array.shape)
        place += array.size
        with np.errstate(all="ignore"):
            out.append((array.astype(np.float64) + part).astype(array.dtype))
    return out


__all__ = ["PrivateUpdates"]
