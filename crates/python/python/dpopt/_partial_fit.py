"""``partial_fit``: linear models that learn batch by batch from a stream, by DP-FTRL within one budget for all of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from . import _core
from ._linear import PrivateLinear, Reading, refuse_weights
from ._plan import Privacy, Request
from ._reading import attempt, distinct, labels, required, same_length, shown, validated, whole
from ._rows import Bounding

#: The method that learns from a stream.
METHOD = "dp-ftrl"


def _streams(estimator: Any) -> bool:
    """Whether what is public of a stream was told."""
    if estimator.steps is None:
        raise AttributeError(
            "partial_fit needs steps=, the public number of batches that there will be at most (and takes n_rows=, the public number of "
            "records in all of them; by default the first batch's times steps)"
        )
    if estimator.method not in ("auto", METHOD):
        raise AttributeError(
            f"partial_fit learns by {METHOD}, and method is {shown(estimator.method)}; give method={METHOD!r} or 'auto'"
        )
    return True


class _LeftBehind:
    """What a copy has in place of a stream: the noise goes on in the original only."""


class Learning:
    """A stream that is under way: never copied, never written down.

    Attributes:
        compiled: the library's stream; it holds the noise.
        facts: how rows are bounded.
        asked: what it was opened for: rows, batches and the request.
    """

    def __init__(self, compiled: Any, facts: Bounding, asked: tuple[Any, ...]) -> None:
        self.compiled, self.facts, self.asked = compiled, facts, asked

    def __reduce__(self) -> Any:
        return _LeftBehind, ()


class LearnsFromStream(PrivateLinear):
    """Linear models with ``partial_fit``."""

    _stream: Learning | _LeftBehind | None = None
    n_batches_seen_: int

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        if isinstance(state.get("_stream"), Learning):
            # a copy that went on with the same noise would show the records by the difference
            state = {**state, "_stream": _LeftBehind()}
        return state

    def _reading_of_batch(self, y: np.ndarray, classes: np.ndarray | None) -> Reading:
        raise NotImplementedError

    def _cells_of(self, y: Any) -> Any:
        """The targets, in a form whose kind is not decided by single records."""
        return y

    def _told(self, classes: Any) -> np.ndarray | None:
        """The classes, where some are predicted."""
        return None

    def _shown(self) -> None:
        """What an estimator makes of new coefficients."""

    def _learn(self, X: Any, y: Any, classes: Any, said: dict[str, Any]) -> None:
        refuse_weights(said, "partial_fit")
        stream = self._stream
        if isinstance(stream, _LeftBehind):
            raise _core.PrivacyError(
                "this estimator is a copy of one that was learning from a stream: its model is here, its noise goes on in the original only, "
                "because two copies with the same noise would show the records by their difference; call partial_fit there, or start another "
                "stream with sklearn.base.clone"
            )
        if stream is None and hasattr(self, "coef_"):
            raise ValueError(
                "this estimator was fitted by fit; partial_fit begins with an estimator that was not: sklearn.base.clone makes one"
            )
        if self._by_name():
            raise ValueError(
                "columns are declared by name, and partial_fit takes a matrix; encode each batch with a TableEncoder first"
            )
        if stream is not None and stream.compiled.learned() != self.n_batches_seen_:
            # interrupted after it had learned: what was released is shown, and the batch is not taken again
            weights, noise = stream.compiled.weights()
            reading = self._reading_of_batch(np.empty(0), self._told(classes))
            self._decode(stream.facts, reading, weights, [np.full_like(w, noise) for w in weights])
            self.n_batches_seen_ = stream.compiled.learned()
            self._shown()
            raise _core.PrivacyError(
                "the last call was interrupted after its batch had been taken: the model is that after it now; go on with the next batch, because "
                "a record may be in one batch only"
            )
        y = self._targets(self._cells_of(required(y, self)))
        X = validated(self, X, reset=stream is None)
        same_length(X, y)
        told = self._told(classes)
        if stream is None:
            stream = self._opened(X, y, told)
            reading = self._reading_of_batch(y, told)
        else:
            if (
                self._request_of(stream.facts, stream.asked[0], told) != stream.asked[2]
                or stream.asked[1] != self.steps
                or stream.asked[3] != self._as_written()
            ):
                raise ValueError(
                    "parameters were changed since the stream began, which was planned and paid for with them; set them back, or start "
                    "another stream with sklearn.base.clone"
                )
            reading = self._reading_of_batch(y, told)
        stream.compiled.learn(stream.facts.encode(X, reading.values))
        weights, noise = stream.compiled.weights()
        self._decode(stream.facts, reading, weights, [np.full_like(w, noise) for w in weights])
        self.n_batches_seen_ = stream.compiled.learned()
        self._shown()

    def _request_of(self, facts: Bounding, rows: int, classes: np.ndarray | None) -> Request:
        """What the compiled library plans from; how many steps there are it is told beside it."""
        relation = self._check_common()
        known = None if classes is None else len(classes)
        request = self._request(rows, facts, relation, known)
        asked = json.loads(request.asked)
        asked["options"].pop("steps")
        return Request(
            request.rows, request.features, request.nonzeros, request.row_norm, json.dumps(asked, sort_keys=True),
            request.shown_features,
        )  # fmt: skip

    def _as_written(self) -> dict[str, str]:
        """All parameters, as they are written."""
        return {name: repr(value) for name, value in self.get_params(deep=False).items() if name != "budget"}

    def _opened(self, X: Any, y: np.ndarray, classes: np.ndarray | None) -> Learning:
        """Plans and charges the whole stream."""
        self._before_fit()
        batches = whole(self.steps, "steps")  # type: ignore[attr-defined]
        rows = X.shape[0] * batches if self.n_rows is None else whole(self.n_rows, "n_rows")  # type: ignore[attr-defined]
        if X.shape[0] > -(-rows // batches):
            raise ValueError(
                f"the batch has {X.shape[0]} rows, and {rows} in {batches} batches are at most {-(-rows // batches)} in each; hand it on in "
                "parts, or give n_rows= and steps= that fit"
            )
        facts = self._facts(X, X.shape[1])
        # what is wrong with the targets' declaration is told before the charge
        reading = self._reading_of_batch(y[:0], classes)
        self._warn_budget(rows, self._delta(rows))
        request = self._request_of(facts, rows, classes)
        accountant = None if self.accountant == "auto" else self.accountant  # type: ignore[attr-defined]
        public = (request.rows, request.features, request.nonzeros, request.row_norm)
        compiled = _core.LinearStream.open(
            public, request.asked, reading.classes, batches, type(self).__name__, self._charging(), self._insecure_seed(), accountant
        )  # fmt: skip
        # paid for, whatever comes
        self._stream = stream = Learning(compiled, facts, (rows, self.steps, request, self._as_written()))  # type: ignore[attr-defined]
        self.n_batches_seen_ = 0
        self.plan_ = request.shown(compiled.described())
        self.noise_std_ = self.plan_.noise_std
        self._range = (facts.lower, facts.upper, facts.centre)
        self.privacy_ = Privacy.of(*compiled.promised())
        self._report_facts = {
            "compared": None, "features": facts.width, "task": reading.description,
            "preparation": [
                reading.preparation, facts.note,
                f"Records came in at most {batches} batches of at most {compiled.batch_size()}, each in one of them.",
            ],
            "planning_seconds": 0.0, "ledger": None if self.budget is None else repr(self.budget),  # type: ignore[attr-defined]
        }  # fmt: skip
        return stream


class ClassesOfStream(LearnsFromStream):
    """Of classifiers."""

    def _told(self, classes: Any) -> np.ndarray:
        fixed = None if self.classes is None or isinstance(self.classes, str) else labels(self.classes, "classes")  # type: ignore[attr-defined]
        named = None if classes is None else labels(classes, "classes")
        known = [distinct(given)[0] for given in (fixed, named) if given is not None]
        if self._stream is not None:
            known.append(self.classes_)
        if not known:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, or to the estimator: a stream has no first look at its labels"
            )
        if any(len(one) != len(known[0]) or not all(a == b for a, b in zip(one, known[0])) for one in known):
            raise ValueError(
                "`classes` is not the same as on the last call to partial_fit, or as the estimator's; give the same, or leave it out"
            )
        if len(known[0]) < 2:
            raise ValueError("classes must list at least two labels")
        return known[0]

    def _reading_of_batch(self, y: np.ndarray, classes: np.ndarray | None) -> Reading:
        # which kind of array a batch makes is decided by single records: a label of another kind is one that was not declared, and no error
        if classes is not None and y.dtype.kind != classes.dtype.kind:
            y = y.astype(object)
        reading: Reading = self._coded(y, classes, "Classes were declared.")  # type: ignore[attr-defined]
        return reading

    def _shown(self) -> None:
        self._fitted_loss = self.plan_.chosen["loss"]

    @available_if(_streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, **said: Any) -> ClassesOfStream:
        """Learns from the next batch of a stream, within (epsilon, delta) for the whole stream, and releases the model so far.

        The first call plans and charges for all of it: at most `steps` batches (a parameter of the estimator, here the public number of calls), of
        at most ``ceil(n_rows / steps)`` records; without `n_rows` as many as the first batch has. Each record comes in **one batch only**: that is
        your word, nothing checks it, and several epochs over the same records cost as many times the budget (docs/online.md).

        Args:
            X, y: as in :meth:`fit`; the columns are those of the first batch.
            classes: all labels, from public knowledge and not from the data (no ``np.unique(y)``: a label that one record has would show); on the
                first call, unless they are a parameter of the estimator.
            said: nothing else; a ``sample_weight`` is refused with the reason.
        """
        self._learn(X, y, classes, said)
        return self


def _number(value: Any) -> float:
    number = attempt(lambda: float(value)) if isinstance(value, (int, float, np.number)) else None
    return np.nan if number is None else float(number)


class NumbersOfStream(LearnsFromStream):
    """Of regressors."""

    def _cells_of(self, y: Any) -> Any:
        # a target that is no number counts as missing, whatever kind of array it makes of the batch
        cells = np.asarray(y)
        if cells.ndim != 1 or cells.dtype.kind in "fiu":
            return y
        return np.array([_number(value) for value in np.asarray(y, dtype=object).tolist()], dtype=np.float64)

    def _reading_of_batch(self, y: np.ndarray, classes: np.ndarray | None) -> Reading:
        reading: Reading | None = self._read(y)
        if reading is None:
            raise ValueError(
                "a stream has no first look at its targets; give target_bounds=(lower, upper) with what is known about y beforehand"
            )
        return reading

    def _shown(self) -> None:
        self._flat()  # type: ignore[attr-defined]

    @available_if(_streams)
    def partial_fit(self, X: Any, y: Any, **said: Any) -> NumbersOfStream:
        """Learns from the next batch of a stream, within (epsilon, delta) for the whole stream, and releases the model so far.

        The first call plans and charges for all of it: at most `steps` batches (a parameter of the estimator, here the public number of calls), of
        at most ``ceil(n_rows / steps)`` records; without `n_rows` as many as the first batch has. Each record comes in **one batch only**: that is
        your word, nothing checks it, and several epochs over the same records cost as many times the budget (docs/online.md).

        Args:
            X, y: as in :meth:`fit`; the columns are those of the first batch, and `target_bounds` is needed.
            said: nothing else; a ``sample_weight`` is refused with the reason.
        """
        self._learn(X, y, None, said)
        return self


__all__ = ["ClassesOfStream", "NumbersOfStream"]
