"""``partial_fit``: linear models that learn batch by batch from a stream, by DP-FTRL within one budget for all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from . import _core
from ._plan import Privacy, Request
from ._reading import required, same_length, shown, validated, whole
from ._rows import Bounding
from ._settings import Method, refuse_weights
from ._stream import Learning, LeftBehind
from ._tables import by_name, encoding_said
from ._targets import Decoding, Reading

if TYPE_CHECKING:
    from ._linear import PrivateLinear

#: The method that learns from a stream.
METHOD = "dp-ftrl"


class Targets(Protocol):
    """What a stream's targets are: classes or numbers."""

    def told(self, estimator: Any, classes: Any) -> np.ndarray | None:
        """The classes, where some are predicted."""

    def cells(self, y: Any) -> Any:
        """The targets, in a form whose kind is not decided by single records."""

    def reading(self, estimator: Any, y: np.ndarray, classes: np.ndarray | None) -> tuple[Reading, Decoding]:
        """Targets of a batch, numbers in [-1, 1], and what scores stand for."""

    def shown(self, estimator: Any) -> None:
        """What an estimator makes of new coefficients."""


def streams(estimator: Any) -> bool:
    """Whether the public facts of a stream were given."""
    given = estimator.method
    name = given.name if isinstance(given, Method) else given
    if name not in ("auto", METHOD):
        raise AttributeError(
            f"partial_fit learns by {METHOD}, and method is {shown(name)}; give method=dpopt.methods.DPFTRL(steps=...)"
        )
    if getattr(given, "steps", None) is None:
        raise AttributeError(
            "partial_fit needs the largest number of batches; give method=dpopt.methods.DPFTRL(steps=...), and optionally n_rows=, the number of records in all batches (by default the size of the first batch times steps)"
        )
    return True


def learn(estimator: PrivateLinear, targets: Targets, X: Any, y: Any, classes: Any, said: dict[str, Any]) -> None:
    """Learns from the next batch; the first one opens the stream."""
    refuse_weights(said, "partial_fit")
    stream = estimator._stream
    if isinstance(stream, LeftBehind):
        raise _core.PrivacyError(
            "this estimator is a copy of one that was learning from a stream, and only the original can continue: two copies with the same noise would reveal records by their difference; call partial_fit on the original, or start another stream with sklearn.base.clone"
        )
    if stream is None and hasattr(estimator, "coef_"):
        raise ValueError(
            "this estimator was fitted by fit, and partial_fit must start from an unfitted one; make one with sklearn.base.clone"
        )
    if by_name(estimator) or isinstance(encoding_said(estimator), Mapping):
        raise ValueError(
            "columns are declared by name, but partial_fit takes a matrix; encode each batch with a TableEncoder first"
        )
    if stream is not None and stream.compiled.learned() != estimator.n_batches_seen_:
        # interrupted after it had learned: what was released is shown, and the batch is not taken again
        weights, noise = stream.compiled.weights()
        _, decoding = targets.reading(estimator, np.empty(0), targets.told(estimator, classes))
        estimator._decode(stream.facts, decoding, weights, [np.full_like(w, noise) for w in weights])
        estimator.n_batches_seen_ = stream.compiled.learned()
        targets.shown(estimator)
        raise _core.PrivacyError(
            "the last call was interrupted after its batch had been used, and the model now includes this batch; continue with the next batch, since each record may be in one batch only"
        )
    y = estimator._targets(targets.cells(required(y, estimator)))
    X = validated(estimator, X, reset=stream is None)
    same_length(X, y)
    told = targets.told(estimator, classes)
    if stream is None:
        stream = _opened(estimator, targets, X, y, told)
        reading, decoding = targets.reading(estimator, y, told)
    else:
        if (
            _request_of(estimator, stream.facts, stream.asked[0], told) != stream.asked[2]
            or stream.asked[1] != _batches(estimator)
            or stream.asked[3] != _as_written(estimator)
        ):
            raise ValueError(
                "parameters were changed since the stream began, but its plan and charge depend on them; set them back, or start another stream with sklearn.base.clone"
            )
        reading, decoding = targets.reading(estimator, y, told)
    stream.compiled.learn(stream.facts.encode(X, reading.values))
    weights, noise = stream.compiled.weights()
    estimator._decode(stream.facts, decoding, weights, [np.full_like(w, noise) for w in weights])
    estimator.n_batches_seen_ = stream.compiled.learned()
    targets.shown(estimator)


def _request_of(estimator: PrivateLinear, facts: Bounding, rows: int, classes: np.ndarray | None) -> Request:
    """What the compiled library plans from; how many steps there are it is told beside it."""
    relation = estimator._check_common()
    known = None if classes is None else len(classes)
    request = estimator._request(rows, facts, relation, known)
    asked = json.loads(request.asked)
    asked["options"].pop("steps")
    return Request(
        request.rows, request.features, request.nonzeros, request.row_norm, json.dumps(asked, sort_keys=True),
        request.shown_features,
    )  # fmt: skip


def _batches(estimator: PrivateLinear) -> int:
    """The public number of batches."""
    return whole(getattr(estimator.method, "steps", None), "steps")


def _as_written(estimator: PrivateLinear) -> dict[str, str]:
    """All parameters, as they are written."""
    return {name: repr(value) for name, value in estimator.get_params(deep=False).items() if name != "budget"}


def _opened(estimator: PrivateLinear, targets: Targets, X: Any, y: np.ndarray, classes: np.ndarray | None) -> Learning:
    """Plans and charges the whole stream."""
    estimator._before_fit()
    batches = _batches(estimator)
    rows = X.shape[0] * batches if estimator.n_rows is None else whole(estimator.n_rows, "n_rows")
    if X.shape[0] > -(-rows // batches):
        raise ValueError(
            f"the batch has {X.shape[0]} rows, and {rows} in {batches} batches are at most {-(-rows // batches)} in each; pass it in several batches, or give n_rows= and method=dpopt.methods.DPFTRL(steps=...) that fit"
        )
    facts = estimator._facts(X, X.shape[1])
    # what is wrong with the targets' declaration is told before the charge
    reading, decoding = targets.reading(estimator, y[:0], classes)
    estimator._warn_budget(rows, estimator._delta(rows))
    request = _request_of(estimator, facts, rows, classes)
    assert reading.classes is not None
    public = (request.rows, request.features, request.nonzeros, request.row_norm)
    compiled = _core.LinearStream.open(
        public, request.asked, reading.classes, batches, estimator._charging(), estimator._insecure_seed()
    )  # fmt: skip
    # paid for, whatever comes
    estimator._stream = stream = Learning(compiled, facts, (rows, batches, request, _as_written(estimator)))
    estimator.n_batches_seen_ = 0
    estimator.plan_ = request.shown(compiled.described())
    estimator.noise_std_ = estimator.plan_.noise_std
    estimator._range = (facts.lower, facts.upper, facts.centre)
    estimator.privacy_ = Privacy.of(*compiled.promised())
    planned = partial(_core.stream_report, public, request.asked, reading.classes, batches)
    estimator._report_facts = planned, {
        "preparation": [
            decoding.preparation, facts.note,
            f"Records came in at most {batches} batches of at most {compiled.batch_size()}, each in one of them.",
        ],
        "planning_seconds": 0.0, "range": None, "score": None,
        "ledger": None if estimator.budget is None else repr(estimator.budget),
    }  # fmt: skip
    return stream


__all__ = ["METHOD", "Targets", "learn", "streams"]
