"""The fit that all linear estimators share: bound the rows, let the compiled library plan, charge and run, decode."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from . import _core, _inference
from ._base import PrivateEstimator
from ._fitted_table import ClassOrder, FittedTable, path_of
from ._forms import Linear
from ._options import EMBEDDING, LINEAR, asked, option_meant
from ._plan import Plan, Privacy, Request
from ._public_facts import Encoding, declared_columns
from ._reading import number, validated, whole
from ._rows import Bounding, bounding
from ._scores import finite_rows
from ._settings import refuse_weights
from ._sizing import ROWS_TO_BEGIN_WITH, keywords_of, sized
from ._sources import Source, Table, source_of
from ._stream import Learning, LeftBehind, without_stream
from ._tables import why_plain
from ._targets import Decoding, Interval, Reading, interval_note, interval_of
from ._warnings import warn
from .encoders import TableEncoder
from .partitions import Partitions


class PrivateLinear(PrivateEstimator):
    """Linear models: rows are bounded, one score per output."""

    #: What the numbers of the model are.
    _form: ClassVar[Linear] = Linear()
    #: Methods that the estimator can use.
    _usable_methods: ClassVar[frozenset[str]] = LINEAR
    #: Options that mean nothing here, and what to take instead.
    _options_of_others: ClassVar[Mapping[str, str]] = {}
    #: The model of a table, if that is what was fitted.
    _table: FittedTable | None = None
    #: The stream that the model learns from.
    _stream: Learning | LeftBehind | None = None

    bounds: Any
    row_norm: float | None
    max_nonzeros: int | None
    fit_intercept: bool
    intercept_scaling: float
    encoding: Encoding
    bounds_budget: float | None
    bad_cells: str
    coef_: np.ndarray
    intercept_: Any
    coef_noise_std_: np.ndarray
    encoded_feature_names_: np.ndarray
    n_batches_seen_: int

    def __getstate__(self) -> Any:
        return without_stream(super().__getstate__())

    @staticmethod
    def _option_of(made: Any, name: str) -> tuple[str, str] | None:
        return option_meant(name, type(made)._usable_methods)

    def _facts(self, X: Any, n_features: int, quiet: bool = False) -> Bounding:
        if declared_columns(self).monotone:
            raise ValueError(
                f"monotone is for columns that are encoded, and {self._not_encoded(X, n_features)}; leave it out, or give bounds=(lower, upper) without encoding=None"
            )
        if self.bounds_budget is not None:
            raise ValueError(
                f"bounds_budget finds ranges of columns that are encoded, and {self._not_encoded(X, n_features)}; leave it out, and give bounds=(lower, upper)"
            )
        scaling = number(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else 0.0
        return bounding(
            n_features, self.bounds, self.row_norm, scaling, X is not None and sp.issparse(X), quiet, self.max_nonzeros
        )

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        """The method and what is said of its options; without `facts` for encoded rows of a table."""
        method, options = asked(self)
        spreads = options.get("public_moments")
        if spreads is not None and facts is not None:
            if len(spreads) != len(facts.scale):
                raise ValueError(
                    f"public_moments has {len(spreads)} entries for {len(facts.scale)} features; give one for each"
                )
            encoded = list(np.asarray(spreads) * facts.scale)
            options["public_moments"] = encoded + ([float(facts.intercept)] if facts.intercept else [])
        if method not in ("auto", EMBEDDING):
            options["method"] = method
        return options if facts is None else {**options, **self._form.options(self, facts)}

    def _request(
        self,
        rows: int,
        facts: Bounding,
        relation: str,
        known: int | None,
        units: dict[str, Any] | None = None,
        remote: bool = False,
    ) -> Request:
        """What the compiled library plans from, for a known number of classes or one that is found."""
        options = self._options(facts)
        if facts.intercept:
            # the last encoded feature: always kept, not counted, and what rows are centred along
            options["intercept"], options["constant"] = facts.width - 1, float(facts.intercept)
        if remote:
            options["elsewhere"] = True
        delta = None if self.delta is None else float(self.delta)
        asked = {
            "name": type(self).__name__, "target": self._target(known), "relation": relation, "epsilon": float(self.epsilon),
            "delta": delta, "options": options, "units": units, "range": self._range_asked(),
            "accountant": None if self.accountant == "auto" else self.accountant,
        }  # fmt: skip
        text = json.dumps(asked, sort_keys=True)
        return Request(rows, facts.width, facts.nonzeros, facts.row_norm, text, len(facts.scale))

    def explain(
        self,
        X: Any = None,
        n_features: int | None = None,
        n_classes: int = 2,
        *,
        n_rows: int | None = None,
        y: Any = None,
        units: Any = None,
        accuracy: float | None = None,
        loss_points: float | None = None,
        error: float | None = None,
        added_error: float | None = None,
        best: float | None = None,
    ) -> Plan:
        """Every candidate method with its noise, predicted error and certified guarantee, before any data are read.

        Parameters
        ----------
        X
            The table, of which only the shape (and names and dtypes of columns that are declared by name) is looked at; or the
            public number of records.
        n_features
            Number of columns, if no table is given.
        n_classes
            For classifiers whose classes are not declared.
        n_rows
            Public number of records, if no table is given, or the records are in :class:`dpopt.partitions.Partitions`.
        y
            The target, of which only the name and the dtype are looked at.
        units
            Whose rows they are, as in :meth:`fit`: the ids are counted (not under add-or-remove). Without a table the name of a
            unit, and ``unit=Unit(count=...)`` of the estimator says how many there are.
        accuracy, loss_points
            A goal for classes: this share of right answers, beside `best`; or so many points of accuracy that privacy may cost. Then the plan has a
            :class:`~dpopt._sizing.Sizing`: the least ε that is predicted to reach the goal with these rows, the least number of rows at this ε, and what is
            predicted over both, with bands. An estimate and no guarantee; no record is read.
        error, added_error
            A goal for numbers, in the unit of the target: this root-mean-square error, beside `best`; or so large an error that privacy may add.
        best
            What a model without privacy reaches, from a public table or literature and never from the records.
        """
        if X is not None and n_features is not None and np.ndim(n_features) > 0:
            raise TypeError("the second argument of explain is n_features; give the targets by name: explain(X, y=y)")
        n_classes = whole(n_classes, "n_classes")
        goal = keywords_of(accuracy=accuracy, loss_points=loss_points, error=error, added_error=added_error, best=best)
        sought = goal is not None and X is None and n_rows is None
        source = source_of(self, X, None if isinstance(X, Partitions) else y, units, n_features)
        relation = self._check_common(source.unit)
        source.outline(relation, n_features, ROWS_TO_BEGIN_WITH if sought else n_rows)
        plan = source.plan(relation, n_classes)
        if goal is None:
            return plan
        return replace(plan, sizing=sized(source, relation, n_classes, goal, not sought))

    def _known(self, n_classes: int) -> int | None:
        """The number of classes, None where it is found privately."""
        return n_classes

    def _range_asked(self) -> Any:
        """What is known of the range of a number that is predicted, as the compiled library reads it."""
        return "scaled"

    def _before_charge(self, fit: Any) -> None:
        """What the user should know of a planned fit before it is paid for."""

    def _keeps_columns(self) -> str | None:
        """Why ``encoding="auto"`` leaves a matrix as it is for this estimator, by its own parameters; None where it does not."""
        return None

    def _check_targets(self, y: np.ndarray) -> None:
        """Refuses targets of another kind than what is declared of them."""

    def _to_plan(self, n_classes: int) -> PrivateLinear:
        """The estimator whose columns are encoded in a plan for so many classes, where the targets are not looked at."""
        return self

    def _warn_of_labels(self) -> None:
        """Says that labels are found privately."""

    def _target(self, known: int | None) -> dict[str, Any]:
        """What is predicted, by which loss, as the compiled library writes it."""
        raise NotImplementedError

    def _targets(self, y: Any) -> np.ndarray:
        """One label or number per record, read without an error that a record of numbers could cause."""
        raise NotImplementedError

    def _read(self, y: np.ndarray) -> Reading:
        """The targets, before a fit."""
        raise NotImplementedError

    def _decoding(
        self,
        reading: Reading,
        labels: list[int] | None,
        ends: tuple[float, float] | None,
        clip: tuple[float, str] | None,
    ) -> Decoding:
        """What a fit settled of the target, as attributes: places of the labels that were found, the range it was clipped to, and what a moment says of
        that (what clipping takes from the mean at most, and all of it in words)."""
        raise NotImplementedError

    def _target_facts(self, y: Any) -> tuple[bool, dict[str, Any]]:
        """Whether a number is predicted, and what is declared of the target of a table."""
        raise NotImplementedError

    def _table_loss(self) -> dict[str, Any] | None:
        """The loss of one score of a table, None for the command line's: logistic (softmax), or squared."""
        raise NotImplementedError

    def _moment(self) -> str | None:
        """What is known of the tails of a number that is predicted, as the command line writes it."""
        return None

    def _order_of(self, model: _core.TableModel, y: Any) -> ClassOrder | None:
        """The order of classes of a model of a table; None where a number is predicted."""
        return None

    def _learned(self, table: FittedTable) -> None:
        """What a model of a table knows of the target, as attributes."""
        raise NotImplementedError

    def _read_remote(self, owner: str | None) -> Reading:
        """What is known of remote targets, of units that are called `owner`."""
        return self._read(np.zeros(0))

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> Any:
        """A part of the records, near them."""
        facts = self._facts(sp.csr_matrix((0, 1)) if sparse else None, X.shape[1], quiet=True)
        if X.shape[0] == 0:
            X, values = np.zeros(X.shape), np.zeros(0)
        else:
            values = self._read(self._targets(y)).values
        return _core.Shard(facts.encode(X, values), part, owners, marks)

    def _fit(self, X: Any, y: Any, units: Any, said: dict[str, Any]) -> None:
        """The one road of a fit: over a matrix or a table, here or in parts."""
        refuse_weights(said)
        source = source_of(self, X, y, units)
        self._forget(source)
        relation = self._before_fit(source.unit)
        try:
            source.open(relation)
            charge, seed = self._charging(source.names), self._insecure_seed()
            fit = source.planned(relation, charge, seed)
            protected, unit = source.protected
            self._warn_budget(protected, self._delta(protected), unit)
            source.warn(fit)
            source.remember(source.run(fit, charge, seed), relation)
        finally:
            source.close()

    def _forget(self, source: Source) -> None:
        """What an earlier fit left that this one does not replace."""
        self.__dict__.pop("_stream", None)
        if not isinstance(source, Table):
            for of_a_table in ("_table", "encoded_feature_names_"):
                self.__dict__.pop(of_a_table, None)

    def _remember(
        self, request: Request, facts: Bounding, reading: Reading, released: Any, notes: Sequence[str]
    ) -> None:
        """What was released, as attributes."""
        weights, noise, described, guarantee, releases, planning_seconds, found, ends, clip, covariances, interval = (
            released
        )
        decoding = self._decoding(reading, found, ends, clip)
        self._decode(facts, decoding, weights, noise)
        _inference.settle(self, facts, decoding, covariances)
        self._interval = None if interval is None else interval_of(interval, decoding.scale)
        if self._interval is not None and not np.isfinite(self._interval.half_width):
            warn(interval_note(self._interval)[0])
        self.plan_ = request.shown(described)
        self.noise_std_ = self.plan_.noise_std
        self._range = (facts.lower, facts.upper, facts.centre)
        self.privacy_ = Privacy.of(guarantee, releases)
        classes = len(found or ()) if reading.classes is None else reading.classes
        self._report_facts = partial(request.report, classes), {
            "preparation": [decoding.preparation, facts.note, *notes, *interval_note(self._interval)], "planning_seconds": planning_seconds, "score": None,
            "ledger": None if self.budget is None else repr(self.budget),
            "range": None if is_classifier(self) else list(decoding.range),
        }  # fmt: skip

    def _decode(self, facts: Bounding, decoding: Decoding, weights: list[np.ndarray], noise: list[np.ndarray]) -> None:
        """Released weights (one array per model) as attributes in the units of X: post-processing."""
        _inference.forget(self)
        self._form.decode(self, facts, decoding, weights, noise)

    def _settle(self, table: FittedTable, noise: np.ndarray | None) -> None:
        """Attributes of a model of a table: its own, and those of its target; `noise`: standard deviations of its weights, if they are known."""
        _inference.forget(self)
        self._table = table
        self.encoded_feature_names_ = np.array(table.model.feature_names(), dtype=object)
        self._fitted_loss: Any = json.loads(table.model.loss())
        interval = table.model.interval()
        self._interval = None if interval is None else Interval(*interval)
        self._learned(table)
        self._form.decode_table(self, table, noise)

    def _released_by(self, session: Any, privacy: Any, score: dict[str, Any]) -> None:
        super()._released_by(session, privacy, score)
        if self._table is not None:
            # file and report promise what the search costs
            self._table = self._table.found_by(session, score)

    def report(self, path: Any = None, *, source: str | None = None, target: str | None = None) -> str:
        """The report of the fit as one HTML document: guarantee, plan, releases, coefficients. Written to `path` if given.

        Parameters
        ----------
        path
            Where to write; None only returns the text.
        source
            How the data are called in the report; where columns are encoded they have their own name there.
        target
            How the target is called in the report; likewise.
        """
        check_is_fitted(self)
        if self._table is not None:
            return self._table.report_to(path, source is not None or target is not None)
        return super().report(path, source=source or "rows given in Python", target=target or "y")

    def _check_X(self, X: Any) -> Any:
        check_is_fitted(self)
        return finite_rows(validated(self, X, reset=False), *self._range)

    def _not_encoded(self, X: Any = None, n_features: int | None = None) -> str:
        """Why the columns of a matrix are not encoded."""
        columns = getattr(self, "n_features_in_", None) if n_features is None else n_features
        why = "encoding is None" if self.encoding is None else why_plain(self, X, columns)
        return "this model is of a matrix as it is" + ("" if why is None else f", since {why}")

    @property
    def encoder_(self) -> TableEncoder:
        """The encoder of a fit to a table or to a matrix whose columns are encoded: a fitted :class:`TableEncoder`, whose columns are those of ``coef_``."""
        if self._table is None:
            raise AttributeError(f"encoder_ is there after a fit whose columns are encoded, and {self._not_encoded()}")
        return self._table.encoder(self)

    def save(self, path: Any) -> None:
        """Writes the model file of a fit whose columns are encoded, whole or not at all: ``dpopt predict`` and ``dpopt verify``
        read it, and :func:`dpopt.load`."""
        check_is_fitted(self)
        if self._table is None:
            raise ValueError(
                f"a model file holds an encoder, and {self._not_encoded()}; fit columns that are encoded, or use dpopt.export"
            )
        self._table.model.save(str(path_of(path)))


__all__ = ["PrivateLinear"]
