"""The mod for Flower that protects a client's update as a whole."""

from __future__ import annotations

import copy
import logging
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._core import PrivacyError
from ._reading import attempt, number
from ._rounds import OLDER, absolute, counted
from .federated import PrivateUpdates
from .ledger import Ledger

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
except ImportError:  # only real messages need it
    ArrayRecord = None  # type: ignore[assignment, misc]

logger = logging.getLogger("dpopt.flower")

#: ErrorCode.MOD_FAILED_PRECONDITION of Flower: what a mod answers where it cannot work.
REFUSED = 6
#: Where a node's memory of a run says how many rounds were released.
MEMORY = "dpopt.rounds"


class PrivateUpdate:
    """A mod that lets nothing of a client out but its noisy update: ``ClientApp(mods=[PrivateUpdate(…)])``.

    Mods before it in the list are around it, and see what it lets out; those after it are within, and see what the app answers, which stays here. A mod
    that masks (secure aggregation) must come before it: masked arrays would be clipped. So must no mod that trains or answers by itself. The first message
    fixes how many numbers an update has. The mod and its plan are part of the app, which comes from the server's side unless the operator of the
    SuperNode says whose apps run: docs/federated.md. The client trains as it likes; the difference of its arrays to the server's is
    clipped as one vector and noised on the client (:class:`dpopt.federated.PrivateUpdates`, whose guarantee this is). **Everything else that the client's app
    answers stays here**: metrics, numbers of examples, other records, and what it writes into its message. In their place go constants that you declare. An app that raises, answers an
    error or arrays of other names, shapes or kinds, or numbers that are not finite, counts as one without an update: the server gets noise, and
    this machine's log the kind of error. Messages that do not ask for training (evaluate, query) are refused without asking the app; to answer them
    unprotected, give the mod to the training function alone, ``@app.train(mods=[…])``.

    Parameters
    ----------
    clip_norm, epsilon, delta, rounds, relation
        As in :class:`dpopt.federated.PrivateUpdates`.
    session
        The absolute path of the file in which this client's rounds are counted: Flower starts the app anew for each message. Or a function of Flower's context that gives it,
        where several clients run on one machine: ``lambda context: f"/data/rounds-{context.node_config['partition-id']}"``.
    budget
        A :class:`dpopt.Ledger` of a file with ``unit="client"``, or a function of the context that gives it.
    num_examples
        Weight of this client in a mean, a public constant. The number of its records is *not* looked at.
    metrics
        Further public constants to answer with, by name.
    """

    def __init__(
        self,
        *,
        clip_norm: float,
        epsilon: float,
        delta: float,
        rounds: int,
        session: Any,
        relation: str = "replace-one",
        budget: Ledger | Callable[[Any], Ledger] | None = None,
        num_examples: float = 1,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        self._terms: dict[str, Any] = {
            "clip_norm": clip_norm, "epsilon": epsilon, "delta": delta, "rounds": rounds, "relation": relation,
        }  # fmt: skip
        if not callable(session):
            _path(session)
        self._session, self._budget = session, budget
        declared = attempt(lambda: {str(name): number(value, "metrics") for name, value in (metrics or {}).items()})
        if declared is None:
            raise TypeError("metrics must be public numbers by name, for example {'loss': 0.0}")
        self._metrics = {"num-examples": number(num_examples, "num_examples"), **declared}
        # refuses what cannot be planned when the app is loaded, and not when it is asked
        PrivateUpdates(**self._terms, budget=None if callable(budget) else budget, session=_of(session))

    def updates(self, context: Any) -> PrivateUpdates:
        """The releases of the client whose context this is."""
        budget = self._budget(context) if callable(self._budget) else self._budget
        if budget is None and self._budget is not None:
            raise ValueError("the function given as budget returned no ledger; have it return one for every client")
        return PrivateUpdates(**self._terms, session=self._file(context), budget=budget)

    def _file(self, context: Any) -> Path:
        return _path(self._session(context) if callable(self._session) else self._session)

    def __call__(self, message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """The answer to `message`: arrays with noise and declared constants, or an error that depends on nothing that the client holds."""
        kind = str(message.metadata.message_type)
        if kind.split(".")[0] != "train":
            return _refusal(message, f"{kind} is refused: what it would answer is not protected by noise")
        records = message.content.array_records
        if len(records) != 1:
            return _refusal(message, f"the server sent {len(records)} records of arrays; send one")
        (key, record), *_ = records.items()
        if key == "metrics":
            return _refusal(
                message, "the server's record of arrays is called metrics, as is what is answered beside it"
            )
        names, sent = list(record.keys()), record.to_numpy_ndarrays()
        try:
            _not_put_back(context, self._file(context))
            updates = self.updates(context)
            updates.check(sent)
            # what the app writes into its message stays with it: the answer is to the one that came
            released = updates.release(sent, _trained(copy.deepcopy(message), context, call_next, names))
        except ValueError as why:
            # of what the server sent, of public terms and of what was released
            return _refusal(message, str(why))
        context.state.config_records[MEMORY] = ConfigRecord({"released": updates.rounds_released})
        arrays = ArrayRecord({name: Array(np.asarray(array)) for name, array in zip(names, released)})
        return Message(RecordDict({key: arrays, "metrics": MetricRecord(dict(self._metrics))}), reply_to=message)


def _of(session: Any) -> Any:
    """A session that is known before there is a context."""
    return "unknown" if callable(session) else session


def _path(session: Any) -> Path:
    if session is None:
        raise ValueError(
            "Flower starts the app anew for each message, so that rounds must be counted in a file; give session= its path"
        )
    return absolute(session)


def _trained(message: Any, context: Any, call_next: Callable[[Any, Any], Any], names: list[str]) -> list[Any] | None:
    """The arrays that the app made, in the order of `names`; None if it made none such."""
    try:
        answer = call_next(message, context)
    except KeyboardInterrupt:
        raise
    except BaseException as why:
        # the text of an error may quote a record; kind and place do not
        last = traceback.extract_tb(why.__traceback__)[-1]
        logger.warning(
            "the client's app raised %s (%s, line %s); noise alone is released", type(why).__name__, last.filename, last.lineno
        )  # fmt: skip
        return None
    found = attempt(lambda: _of_answer(answer, names))
    if found is None:
        logger.warning("the client's app answered no arrays of the server's names; noise alone is released")
    return found


def _of_answer(answer: Any, names: list[str]) -> list[Any] | None:
    if answer.has_error() or len(answer.content.array_records) != 1:
        return None
    (record,) = answer.content.array_records.values()
    return [record[name].numpy() for name in names] if set(record.keys()) == set(names) else None


def _not_put_back(context: Any, session: Path) -> None:
    """The node remembers how many rounds this run released, as long as it runs; its session file must not tell of fewer."""
    remembered = context.state.config_records.get(MEMORY)
    if remembered is not None and remembered["released"] > counted(session):
        raise PrivacyError(OLDER)


def _refusal(message: Any, reason: str) -> Any:
    logger.error("%s", reason)
    return Message(Error(code=REFUSED, reason=reason), reply_to=message)


__all__ = ["PrivateUpdate"]
