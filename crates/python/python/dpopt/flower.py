"""Flower: a mod that protects a client's whole update, and private sparse learning whose clients protect their own records.

**A client as a whole** is protected by :class:`PrivateUpdate`, whatever its app trains and however: one line in the client's app,

    app = ClientApp(mods=[PrivateUpdate(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=10, session="/var/lib/client/rounds")])

**The records of a client** (a hospital, say, that holds those of many) are protected by :class:`PrivateClient`: every local gradient is clipped, summed and noised on
the client, which accounts for all local steps of all rounds before the first one; the server sees noisy models only, of whose mean
:class:`HardThresholding` keeps the largest coordinates. Where a person has several records, so are the persons with all of theirs (``units=``).
Whether a client takes part is not hidden, and a person with records at two clients is protected at each by itself.

:class:`Accountant` is this library's accounting behind Flower's own interface for it. Needs ``pip install flwr``; docs/federated.md says who is trusted for what.

>>> from dpopt.flower import hard_threshold
>>> hard_threshold([0.5, -2.0, 0.1, 1.0], 2).tolist()
[0.0, -2.0, 0.0, 1.0]
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from . import _core, accounting
from ._by_unit import UnitMeans, Units, ids_alone, settled, unused
from ._copies import lock
from ._flower_accountant import Accountant
from ._flower_update import PrivateUpdate
from ._plan import Privacy
from ._public_facts import Unit
from ._reading import array, number, positive, shown, target, whole
from ._repeats import of_columns, open_session
from ._rounds import Charge, opened, refuse_ledger
from ._settings import knows_its_keywords
from ._warnings import refuse_seed
from .ledger import RECORD, Ledger

try:
    import flwr.client
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp.strategy import FedAvg
except ImportError:  # only the strategy and real clients need it
    flwr = None  # type: ignore[assignment]
    FedAvg = object  # type: ignore[assignment, misc]


def hard_threshold(values: Any, keep: int) -> np.ndarray:
    """The `keep` largest coordinates by size (ties to the smaller index), the others 0."""
    values = array(values, "values").astype(np.float64, copy=False).ravel()
    kept = np.lexsort((np.arange(len(values)), -np.abs(values)))[: whole(keep, "keep")]
    out = np.zeros_like(values)
    out[kept] = values[kept]
    return out


class PrivateClient(flwr.client.NumPyClient if flwr else object):  # type: ignore[misc]
    """A client whose records are protected from everybody else, the server included.

    Parameters
    ----------
    X
        Records × features; rows are clipped to l2 norm `row_norm`.
    y
        -1 or 1 (``loss="logistic"``), or numbers (``"squared"``).
    epsilon, delta
        Of this client's records, for all rounds together.
    rounds, local_steps
        Planned; asking for more is refused.
    sampling_probability
        Of a record to enter a local batch.
    learning_rate
        Of a local step, on this client's mean loss.
    clip_norm
        l2 bound on a record's gradient.
    insecure_seed
        Reproducible noise for tests. **No privacy.**
    units
        Whose records they are, one id for each: persons with several are protected as a whole. Local batches are then drawn of
        persons, and the mean of a person's gradients is clipped as one vector. Records without an id are nobody's and in no batch.
    unit
        What is public of them, ``dpopt.Unit(max_rows=..., count=...)``. `max_rows` must be given, since the time that a step takes is the server's to see:
        the most records of a person in a batch; of one with more, a uniform choice by secret coins, made anew for each batch. Persons are counted
        unless `count` says how many there are.
    session
        The absolute path of a file in which the rounds are counted, for apps that are started anew for each message, as Flower does:
        whoever is given the same file goes on where it was, at no further charge. A copy of the file is refused. :meth:`train` needs it.
    budget
        A :class:`dpopt.Ledger` of these records, charged with all rounds before the first; with a `session` it must be a file.

    Attributes
    ----------
    noise_multiplier
        Noise standard deviation of a gradient sum over `clip_norm`.
    event
        What all rounds together release about this client's records.
    """

    @knows_its_keywords
    def __init__(
        self, X: Any, y: Any, *, epsilon: float, delta: float, rounds: int, local_steps: int = 1,
        sampling_probability: float = 0.5, learning_rate: float = 1.0, clip_norm: float = 0.5, row_norm: float = 1.0,
        loss: str = "logistic", relation: str = "zero-out", insecure_seed: int | None = None, units: Any = None,
        unit: Unit | None = None, session: Any = None, budget: Ledger | None = None,
    ):  # fmt: skip
        if loss not in ("logistic", "squared"):
            raise ValueError(f"loss is {shown(loss)}; choose logistic or squared")
        table, self._y = array(X, "X").astype(np.float64, copy=False), target(y).copy()
        if table.ndim != 2 or len(table) != len(self._y) or len(self._y) == 0:
            raise ValueError("X (records × features) and y must have the same number of records, at least one")
        # what is not finite counts as 0, a record without a usable target as nothing
        table = np.where(np.isfinite(table), table, 0.0)
        unusable = ~np.isfinite(self._y) if loss == "squared" else np.abs(self._y) != 1.0
        table[unusable], self._y[unusable] = 0.0, 1.0
        # divided by the largest first: squares never overflow
        largest = np.maximum(np.abs(table).max(axis=1, keepdims=True, initial=0.0), 1e-300)
        # where a norm is too large for a number the row counts as 0, and no warning tells of it
        with np.errstate(over="ignore"):
            norms = largest * np.linalg.norm(table / largest, axis=1, keepdims=True)
            factor = np.minimum(1.0, number(row_norm, "row_norm") / np.maximum(norms, 1e-300))
        self._X = table * factor
        self._loss, self._rate, self._local = (
            loss,
            number(learning_rate, "learning_rate"),
            whole(local_steps, "local_steps"),
        )
        self._q = number(sampling_probability, "sampling_probability")
        if not 0 < self._q <= 1:
            raise ValueError(f"sampling_probability is {self._q:g}; give a probability above 0")
        clip_norm = positive(clip_norm, "clip_norm")
        steps, dimension = whole(rounds, "rounds") * self._local, self._X.shape[1]
        relation = accounting._relation(relation)
        if steps < 1:
            raise ValueError("rounds and local_steps must be at least 1")
        if relation == "add-or-remove":
            raise ValueError(
                "add-or-remove would protect the number of records of a client, which is public here; use zero-out or replace-one"
            )
        refuse_seed(insecure_seed, charged=budget is not None)
        refuse_ledger(budget, session)
        if session is not None and insecure_seed is not None:
            raise ValueError("a session and an insecure_seed exclude each other; leave one of them out")
        seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
        self._units: Units | None = None
        if units is None:
            unused(unit)
        else:
            self._units = settled(
                ids_alone(units), len(self._y), relation, unit=unit, seed=seed, bounded=True
            )  # fmt: skip
        #: of records, or of persons, and public
        self._number = len(self._y) if self._units is None else self._units.count
        facts = json.dumps({
            "records": self._number, "sampling_probability": self._q, "steps": steps, "dimension": dimension,
        })  # fmt: skip
        epsilon, delta = number(epsilon, "epsilon"), number(delta, "delta")
        whose = None if self._units is None else self._units.name
        self._rounds, self._in_file, self._stepping = whole(rounds, "rounds"), session is not None, lock()
        charge = Charge(budget, () if whose is None else (whose,))

        def charged() -> dict[str, Any]:
            noise, event, _ = _core.batch_noise(facts, epsilon, delta, relation)
            price = (event, epsilon, delta, relation)
            open_session("PrivateClient", "training", price, charge.pay, seed, None, whose, of=of_columns(dimension))
            return {"noise_multiplier": noise, "event": event, **charge.proof}

        terms = {
            **json.loads(facts), "epsilon": epsilon, "delta": delta, "relation": relation, "rounds": self._rounds, "clip_norm": clip_norm,
            "unit": RECORD if whose is None else whose,
        }  # fmt: skip
        self._open = opened(session, terms, charged, budget)
        plan = self._open.plan
        self.noise_multiplier, self.event = plan["noise_multiplier"], accounting.from_json(plan["event"])

        def mechanism() -> tuple[Any, Any]:
            price = (plan["event"], epsilon, delta, relation)
            paid = open_session("PrivateClient", "training", price, None, seed, None, whose, of=None)
            return paid, _core.Training(self._number, self._q, dimension, clip_norm, self.noise_multiplier, paid)

        self._mechanism, self._process = mechanism, os.getpid()
        self._session, self._training = mechanism()

    @property
    def privacy_(self) -> Privacy:
        """What all rounds cost, per record or per person, and what was released so far."""
        return Privacy.of_session(self._session)

    @property
    def releases(self) -> list[dict[str, Any]]:
        """What has been released so far: label, event, count."""
        return json.loads(self._training.records())

    def _local_step(self, weights: np.ndarray) -> np.ndarray:
        """One noisy step on a secret batch, of a round that was taken."""
        # one waits where an error came between its draw and its step
        drawn, added = self._training.waiting() or (self._training.sample(), 0)
        if not added:
            self._add(drawn, weights)
        total = self._training.step()
        # by the expected size of the batch, which is public
        return weights - self._rate * total / (self._q * self._number)

    def _add(self, drawn: np.ndarray, weights: np.ndarray) -> None:
        """Adds the gradients of a batch to its sum."""
        means = None
        if self._units is None:
            batch = drawn.astype(np.int64)
        else:
            batch, counts = self._units.rows.draw(drawn)
            means = UnitMeans(counts)
        X, y = self._X[batch], self._y[batch]
        with np.errstate(all="ignore"):
            # a gradient that is not finite counts as 0
            scores = X @ weights
            slopes = -y / (1.0 + np.exp(np.clip(y * scores, -700, 700))) if self._loss == "logistic" else scores - y
            gradients = np.ascontiguousarray(slopes[:, None] * X)
        self._training.add([gradients] if means is None else means.of([gradients]))

    def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        """`local_steps` noisy steps from the server's weights. The number of records, or of persons, is public."""
        weights = np.asarray(parameters[0], dtype=np.float64)
        if weights.shape != (self._X.shape[1],):
            raise ValueError(
                f"the server sent weights of shape {weights.shape}; a record has {self._X.shape[1]} features"
            )
        with self._stepping:
            self._open.take(self._rounds)
            if self._process != os.getpid():
                # the rounds are counted in a file: a forked process goes on through a mechanism of its own
                self._session, self._training = self._mechanism()
                self._process = os.getpid()
            for _ in range(self._local):
                weights = self._local_step(weights)
        return [weights], self._number, {}

    def train(self, message: Any) -> Any:
        """The answer to a message of Flower that asks for training: one round from its arrays.

        ::

            @app.train()
            def train(message, context):
                return PrivateClient(X, y, session="/var/lib/hospital/rounds", …).train(message)
        """
        if not self._in_file:
            raise _core.PrivacyError(
                "Flower starts the app anew for each message, so that rounds must be counted in a file; give session= its path"
            )
        (key, record), *more = message.content.array_records.items()
        names = list(record.keys())
        if more or len(names) != 1 or key == "metrics":
            raise ValueError("the server must send one array, the weights, in a record that is not called metrics")
        (weights,), count, _ = self.fit(record.to_numpy_ndarrays(), {})
        answer: dict[str, Any] = {
            key: ArrayRecord({names[0]: Array(weights)}),
            "metrics": MetricRecord({"num-examples": count}),
        }
        return Message(RecordDict(answer), reply_to=message)

    def evaluate(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
        """Refused: a loss on the records would be another release."""
        raise NotImplementedError(
            "evaluate on public data at the server; a loss on this client's records is not released"
        )


class HardThresholding(FedAvg):  # type: ignore[misc, valid-type]
    """Weighted mean of the clients' models, of which the `max_features` largest coordinates are kept.

    Parameters
    ----------
    max_features
        τ.
    dimension
        Number of weights; training starts from zeros.
    options
        Of ``flwr.serverapp.strategy.FedAvg``. All clients take part in every round unless these say otherwise, and no
        client evaluates.

    Attributes
    ----------
    weights
        The model so far.
    """

    def __init__(self, max_features: int, dimension: int, **options: Any) -> None:
        if flwr is None:
            raise ImportError("dpopt.flower needs Flower: pip install flwr")
        self.max_features = whole(max_features, "max_features")
        if not 1 <= self.max_features <= dimension:
            raise ValueError(f"max_features is {self.max_features}; give a number from 1 to {dimension}")
        self.weights = np.zeros(whole(dimension, "dimension"))
        super().__init__(**{"fraction_evaluate": 0.0, **options})

    def start(self, grid: Any, initial_arrays: Any = None, *given: Any, **options: Any) -> Any:
        """Runs the rounds, as every strategy of Flower does; from zeros, unless other arrays are given."""
        first = ArrayRecord([self.weights]) if initial_arrays is None else initial_arrays
        return super().start(grid, first, *given, **options)

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        """The mean by public numbers of records, then the threshold: post-processing of what the clients released."""
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None:
            return None, metrics
        (name,) = arrays.keys()
        self.weights = hard_threshold(arrays[name].numpy(), self.max_features)
        return ArrayRecord({name: Array(self.weights)}), metrics


__all__ = ["Accountant", "HardThresholding", "PrivateClient", "PrivateUpdate", "hard_threshold"]
