"""A filter for NVFlare that lets nothing of a client's training out but its noisy update.

In the job's client configuration, under ``task_result_filters``, with *every* task that an executor answers (there is no wildcard; results of tasks that are not
named go out as they are). Filters of a site's privacy policy are told of no events, so this one would see no task there and block every result::

    {"tasks": ["train", "validate", "submit_model"], "filters": [{"path": "dpopt.nvflare.PrivateUpdateFilter",
                                  "args": {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "rounds": 10,
                                           "session": "/var/lib/nvflare/rounds-{client}"}}]}

The job, and so this filter and its plan, comes from whoever submits it, unless the site's operator says what runs there. The guarantee is that of :class:`dpopt.federated.PrivateUpdates`; docs/federated.md says who is trusted for what. Needs ``pip install nvflare``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from ._reading import attempt, shown, whole
from ._rounds import absolute
from .federated import UNIT, PrivateUpdates
from .ledger import Ledger

#: Arrays that training can change.
KINDS = (DataKind.WEIGHTS, DataKind.WEIGHT_DIFF)
#: Header of a task and of its result, which servers look at.
ROUND = "current_round"


class PrivateUpdateFilter(DXOFilter):
    """Clips what a client's training changed as one vector, adds noise, and lets nothing else out.

    The result of a task is made anew: arrays of the names and shapes that the *server* sent, and what you declare. Metrics, metadata, headers, return codes and results of another kind stay with
    the client; a result that has no usable arrays counts as one without an update, and noise is sent. Results of other tasks are blocked. **An executor that raises, or returns what is no Shareable, is not hidden**: NVFlare
    then answers without asking filters, so let your executor return weights whatever happens. Nor do events that a client fires for the federation,
    analytics, metrics or logs that are streamed pass filters; nor do *public* properties of the context (``fl_ctx.set_prop(…, private=False)``), which
    NVFlare sends beside every request: leave components that make any out of the client.

    Parameters
    ----------
    clip_norm, epsilon, delta, rounds, relation
        As in :class:`dpopt.federated.PrivateUpdates`.
    session
        The absolute path of the file in which this client's rounds are counted; ``{client}`` in it is the client's name.
    ledger
        Path of a ledger file that exists, with ``unit="client"``, charged with all rounds before the first; ``{client}`` as above.
    data_kind
        ``"WEIGHT_DIFF"`` or ``"WEIGHTS"``: what the server is sent, whatever the client made.
    train_task
        The only task whose results are let out.
    meta
        Public constants to send with the arrays, for example ``{"NUM_STEPS_CURRENT_ROUND": 1}``, by which some servers weigh clients.
    """

    def __init__(
        self,
        clip_norm: float,
        epsilon: float,
        delta: float,
        rounds: int,
        session: str,
        relation: str = "replace-one",
        ledger: str | None = None,
        data_kind: str = DataKind.WEIGHT_DIFF,
        train_task: str = "train",
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(supported_data_kinds=list(KINDS), data_kinds_to_filter=None)
        if data_kind not in KINDS:
            raise ValueError(f"data_kind is {shown(data_kind)}; choose WEIGHT_DIFF or WEIGHTS")
        if not isinstance(session, str):
            raise TypeError(
                "the rounds must be counted in a file; give session= its path, for example /var/lib/rounds-{client}"
            )
        absolute(session)
        # under the names of the arguments: NVFlare writes a job's configuration by them
        self.clip_norm, self.epsilon, self.delta, self.rounds, self.relation = (
            clip_norm,
            epsilon,
            delta,
            rounds,
            relation,
        )
        self.session, self.ledger, self.data_kind = session, ledger, str(DataKind(data_kind).value)
        self.train_task, self.meta = train_task, dict(meta or {})
        # refuses what cannot be planned when the job is deployed
        self.updates("unknown", charged=False)
        self._sent: dict[str, np.ndarray] | None = None
        self._round: Any = None

    def updates(self, client: str, charged: bool = True) -> PrivateUpdates:
        """The releases of the client of this name."""
        ledger = self.ledger if charged else None
        return PrivateUpdates(
            clip_norm=self.clip_norm, epsilon=self.epsilon, delta=self.delta, rounds=self.rounds, relation=self.relation,
            session=self.session.replace("{client}", client),
            budget=None if ledger is None else Ledger.open(ledger.replace("{client}", client)),
        )  # fmt: skip

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Keeps what the server sent, before the client trains: the update is the difference to it."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.BEFORE_TASK_EXECUTION:
            task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
            self._sent = attempt(lambda: _weights(from_shareable(task), (DataKind.WEIGHTS,)))
            # a number, which nobody who trains can write into
            self._round = attempt(lambda: whole(task.get_header(ROUND), ROUND))

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """The result that the server gets in place of `shareable`.

        Raises
        ------
        ContentBlockedException
            For a result of another task, or one to whose task the server sent no weights: nothing that the client holds decides it.
        """
        # for one result only, whatever becomes of it
        sent, self._sent = self._sent, None
        if fl_ctx.get_prop(FLContextKey.TASK_NAME) != self.train_task:
            raise ContentBlockedException(f"results of other tasks than {self.train_task} are not protected by noise")
        if sent is None:
            raise ContentBlockedException(
                "the server sent no weights with the task, from which a difference could be computed"
            )
        made = None
        if attempt(lambda: shareable.get_return_code()) == ReturnCode.OK:
            made = attempt(lambda: _changes(from_shareable(shareable), sent))
        zeros = [np.zeros_like(array) for array in sent.values()]
        released = self.updates(str(fl_ctx.get_identity_name())).release(zeros, made)
        data = dict(zip(sent, released))
        if self.data_kind == DataKind.WEIGHTS:
            data = {name: sent[name] if sent[name].dtype.kind != "f" else sent[name] + data[name] for name in sent}
        result = DXO(self.data_kind, data=data, meta=dict(self.meta)).to_shareable()
        if self._round is not None:
            result.set_header(ROUND, self._round)
        return result

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO:
        """Not a way around :meth:`process`, which makes the whole result anew."""
        raise ContentBlockedException(f"a single DXO per {UNIT} is not released by itself")


def _weights(dxo: DXO, kinds: tuple[str, ...]) -> dict[str, np.ndarray] | None:
    """The arrays of a DXO of one of `kinds`, each a copy: what trains may write into the task's."""
    if dxo.data_kind not in kinds:
        return None
    return {str(name): np.array(array) for name, array in dxo.data.items()}


def _changes(dxo: DXO, sent: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """By how much the client's arrays differ from the server's, in the server's order; None if they are not the same arrays."""
    made = _weights(dxo, KINDS)
    if made is None or set(made) != set(sent):
        return None
    if any(made[name].shape != sent[name].shape for name in sent):
        return None
    if dxo.data_kind == DataKind.WEIGHT_DIFF:
        return [made[name] for name in sent]
    return [made[name].astype(np.float64) - sent[name].astype(np.float64) for name in sent]


__all__ = ["PrivateUpdateFilter"]
