"""The fit that all linear estimators share: bound the rows, let the compiled library plan, charge and run, decode."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._base import PrivateEstimator, shape_of
from ._options import said
from ._plan import Plan, Privacy, Request
from ._reading import number, required, same_length, shown, validated, whole
from ._rows import Bounding, bounding
from ._table_fit import TableRoad
from ._units import Given, Shared, kept_counts, kept_note, one_for_each, owned
from .parts import Parts, owner_of


@dataclass
class Reading:
    """The targets as the compiled library reads them.

    Attributes:
        values: one number per record: a target, or the place of its class; NaN marks a record that contributes nothing.
        classes: how many there are (any number where a number is predicted).
        description, preparation: for the report.
        scale, shift: predictions are scale·score + shift.
    """

    values: np.ndarray
    classes: int
    description: str
    preparation: str
    scale: float = 1.0
    shift: float = 0.0


class PrivateLinear(TableRoad, PrivateEstimator):
    """Linear models: rows are bounded, one score per output."""

    #: Options of methods that the estimator has; see :mod:`dpopt._options`.
    _method_options: Sequence[str] = ()

    def _facts(self, X: Any, n_features: int, quiet: bool = False) -> Bounding:
        scaling = number(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else 0.0
        return bounding(
            n_features, self.bounds, self.row_norm, scaling, X is not None and sp.issparse(X), quiet, self.max_nonzeros
        )

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        """The method and what is said of its options."""
        options = said(self)
        spreads = options.get("public_moments")
        if spreads is not None and facts is not None:
            if len(spreads) != len(facts.scale):
                raise ValueError(
                    f"public_moments has {len(spreads)} entries for {len(facts.scale)} features; give one for each"
                )
            encoded = list(np.asarray(spreads) * facts.scale)
            options["public_moments"] = encoded + ([float(facts.intercept)] if facts.intercept else [])
        if self.method != "auto":
            options["method"] = self.method
        return options

    def _request(
        self,
        rows: int,
        facts: Bounding,
        relation: str,
        known: int | None,
        units: dict[str, Any] | None = None,
        elsewhere: bool = False,
    ) -> Request:
        """What the compiled library plans from, for a known number of classes or one that is found."""
        options = self._options(facts)
        if facts.intercept:
            # the last encoded feature: always kept, not counted, and what rows are centred along
            options["intercept"], options["constant"] = facts.width - 1, float(facts.intercept)
        if elsewhere:
            options["elsewhere"] = True
        delta = None if self.delta is None else float(self.delta)
        asked = {
            "target": self._target(known), "relation": relation, "epsilon": float(self.epsilon), "delta": delta,
            "options": options, "units": units, "finds_range": self._finds_range(),
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
    ) -> Plan:
        """Every candidate method with its noise, predicted error and certified guarantee, before any data are read.

        Args:
            X: the table, of which only the shape (and names and dtypes of columns that are declared by name) is looked at; or the
                public number of records.
            n_features: number of columns, if no table is given.
            n_classes: for classifiers whose classes are not declared.
            n_rows: public number of records, if no table is given, or the records are in :class:`dpopt.parts.Parts`.
            y: the target, of which only the name and the dtype are looked at.
            units: whose rows they are, as in :meth:`fit`: the ids are counted (not under add-or-remove). Without a table the name of a
                unit, and `n_units` of the estimator says how many there are.
        """
        n_classes = whole(n_classes, "n_classes")
        if isinstance(X, Parts):
            owner = owner_of(X, units)
            relation = self._check_common("record" if owner is None else "user")
            rows = whole(required_rows(self.n_rows if n_rows is None else n_rows), "n_rows")
            if self._by_name():
                return self._explain_table_parts(X, rows, relation, n_classes)
            public = None if owner is None else self._public_units(None, None, relation)
            facts = self._facts(sp.csr_matrix((0, 1)) if X.sparse else None, X.n_features, quiet=True)
            request = self._request(rows, facts, relation, self._known(n_classes), public, elsewhere=True)
            return request.plan(n_classes, compare=True)
        if self._by_name():
            return self._explain_table(X, y, n_classes, n_features, n_rows, units)
        relation = self._check_common("record" if units is None else "user")
        X, given = self._without_ids(X, units, y)
        there, columns, counted = shape_of(X, n_features, n_rows)
        rows = self._public_rows(there, relation) if counted else there
        facts = self._facts(X if sp.issparse(X) else None, columns, quiet=True)
        public = None if given is None else self._planned_units(given, there if counted else None, relation)
        return self._request(rows, facts, relation, self._known(n_classes), public).plan(n_classes, compare=True)

    def _without_ids(self, X: Any, units: Any, y: Any) -> tuple[Any, Given | None]:
        """What is explained, without ids; of rows that are not there only the name of a unit is known."""
        shape_only = X is None or isinstance(X, (int, float, np.number, np.bool_))
        return (X, Given(units, None)) if shape_only and isinstance(units, str) else owned(X, units, y)

    def _planned_units(self, given: Given, rows: int | None, relation: str) -> dict[str, Any]:
        """What is public of units, for a plan; of `rows` rows, if they are there."""
        if given.ids is not None and rows is not None:
            one_for_each(given, rows)
        if isinstance(given, Shared):
            owners = given.owners()
            public = self._public_units(owners.units, rows if self.n_units is None else None, relation)
            return kept_counts(given, owners, public, relation)
        if given.ids is None or self.n_units is not None:
            return self._public_units(None, None, relation)
        # counted where the number is public; under add-or-remove a guess has to be given
        return self._public_units(-1 if relation == "add-or-remove" else given.owners().units, rows, relation)

    def _known(self, n_classes: int) -> int | None:
        """The number of classes, None where it is found privately."""
        return n_classes

    def _finds_range(self) -> bool:
        """Whether the range of a number is to be found privately before the model."""
        return False

    def _before_charge(self, fit: Any) -> None:
        """What the user should know of a planned fit before it is paid for."""

    def _target(self, known: int | None) -> dict[str, Any]:
        """What is predicted, by which loss, as the compiled library writes it."""
        raise NotImplementedError

    def _targets(self, y: Any) -> np.ndarray:
        """One label or number per record, read without an error that a record of numbers could cause."""
        raise NotImplementedError

    def _read(self, y: np.ndarray) -> Reading | None:
        """The targets; None where classes or a range have to be found first."""
        raise NotImplementedError

    def _found(self, y: np.ndarray, run: Any, owners: Any) -> Reading:
        """The targets after classes or a range were found by `run`, which is charged for it; the rows are those of `owners`."""
        raise NotImplementedError

    def _found_elsewhere(self, run: Any, ask: Any, known: list[tuple[int, int]]) -> tuple[Reading, tuple[float, float]]:
        """The same of targets in parts, and their range, which the parts are still to be told."""
        raise NotImplementedError

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> Any:
        """A part of the records, near them."""
        facts = self._facts(sp.csr_matrix((0, 1)) if sparse else None, X.shape[1], quiet=True)
        if X.shape[0] == 0:
            X, values = np.zeros(X.shape), np.zeros(0)
        else:
            values = self._elsewhere(self._targets(y))
        return _core.Shard(facts.encode(X, values), part, owners, marks)

    def _elsewhere(self, y: np.ndarray) -> np.ndarray:
        """Targets as a part holds them."""
        reading = self._read(y)
        return y if reading is None else reading.values

    def _fit(self, X: Any, y: Any, units: Any, said: dict[str, Any]) -> None:
        refuse_weights(said)
        self.__dict__.pop("_stream", None)
        if self._by_name():
            if isinstance(X, Parts):
                self._fit_table_parts(X, y, units)
            else:
                self._fit_table(X, y, units)
            return
        for of_a_table in ("_table", "_table_report", "_positions", "encoded_feature_names_"):
            self.__dict__.pop(of_a_table, None)
        if isinstance(X, Parts):
            self._fit_parts(X, y, units)
            return
        relation = self._before_fit("record" if units is None else "user")
        X, given = owned(X, units, y)
        y = self._targets(required(y, self))
        X = validated(self, X, reset=True)
        same_length(X, y)
        owners, public = self._owned(given, X.shape[0], relation)
        rows, _ = self._facts_of_rows(X, relation, public)
        facts = self._facts(X, X.shape[1])
        reading = self._read(y)
        request = self._request(rows, facts, relation, None if reading is None else reading.classes, public)
        run = self._run_of(request, () if given is None else given.names)
        if reading is None:
            reading = self._found(y, run, owners)
        self._remember(
            request,
            facts,
            reading,
            run.fit(facts.encode(X, reading.values), reading.classes, owners),
            kept_note(public),
        )

    def _fit_parts(self, parts: Parts, y: Any, units: Any) -> None:
        """The fit of records that are elsewhere."""
        if y is not None:
            raise ValueError("parts hold their targets; leave out y")
        owner = owner_of(parts, units)
        if not parts.targets:
            raise ValueError("these parts have no targets; make them with the column that is predicted")
        relation = self._before_fit("record" if owner is None else "user")
        classes = getattr(self, "classes", ())
        told = classes is not None and not isinstance(classes, str)
        # of no target: what is known without them
        reading = self._read(np.asarray(classes)[:0]) if told else None
        numbers = [c for c in classes if isinstance(c, (int, np.integer))] if told else []
        if any(abs(int(c)) >= 2**53 for c in numbers):
            # a column of whole numbers with a gap arrives in floats, which would round its neighbours
            raise ValueError("classes of 2^53 and more cannot be told apart in parts; give smaller numbers, or text")
        if reading is None and owner is not None and self._finds_range():
            raise ValueError(
                "the range of a number is found by one row of each unit, which is chosen by secret coins that parts do not have; declare "
                "target_bounds=(lower, upper)"
            )
        if reading is None and hasattr(self, "classes"):
            raise ValueError(
                "which classes occur is not known beforehand, and what a part answers has a public shape; declare classes=[...]"
            )
        facts = self._facts(sp.csr_matrix((0, 1)) if parts.sparse else None, parts.n_features)
        known = parts.load(self)
        try:
            self.n_features_in_ = parts.n_features
            self.__dict__.pop("feature_names_in_", None)
            if parts.feature_names is not None:
                self.feature_names_in_ = np.array(parts.feature_names, dtype=object)
            public = None if owner is None else self._public_units(known.records, known.rows, relation)
            rows, _ = self._facts_of_counted(known.rows, relation, public)
            classes, later = None if reading is None else reading.classes, None
            request = self._request(rows, facts, relation, classes, public, elsewhere=True)
            run = self._run_of(request, () if owner is None else (owner,))
            if reading is None:
                reading, later = self._found_elsewhere(run, parts.ask, known.parts)
            # not how many: under add-or-remove that may tell how many records there are
            note = ["The records were elsewhere, in parts; each part added up its own, in integers."]
            fitted = run.fit_elsewhere(parts.ask, known.parts, reading.classes, owner, later)
            self._remember(request, facts, reading, fitted, note)
        finally:
            parts.drop()

    def _run_of(self, request: Request, names: tuple[str, ...]) -> Any:
        """The planned fit, charged."""
        accountant = None if self.accountant == "auto" else self.accountant
        charge = self._charging(names)
        planned = request.fit()
        self._before_charge(planned)
        return planned.open(type(self).__name__, charge, self._insecure_seed(), accountant)

    def _remember(
        self, request: Request, facts: Bounding, reading: Reading, released: Any, notes: Sequence[str]
    ) -> None:
        """What was released, as attributes."""
        weights, noise, described, guarantee, releases, planning_seconds = released
        self._decode(facts, reading, weights, noise)
        self.plan_ = request.shown(described)
        self.noise_std_ = self.plan_.noise_std
        self._range = (facts.lower, facts.upper, facts.centre)
        self.privacy_ = Privacy.of(guarantee, releases)
        # everything that was planned beside the chosen method is planned for the report, if one is asked for
        self._report_facts = {
            "compared": (request, reading.classes),
            "features": facts.width, "task": reading.description, "preparation": [reading.preparation, facts.note, *notes],
            "planning_seconds": planning_seconds, "ledger": None if self.budget is None else repr(self.budget),
            "range": None if is_classifier(self) else [reading.shift - reading.scale, reading.shift + reading.scale],
        }  # fmt: skip

    def _owned(self, given: Given | None, rows: int, relation: str) -> tuple[Any, dict[str, Any] | None]:
        """Whose `rows` rows they are, for the compiled library, and what is public of it."""
        if given is None:
            return None, None
        one_for_each(given, rows)
        owners = given.owners()
        return owners, kept_counts(given, owners, self._public_units(owners.units, rows, relation), relation)

    def _decode(self, facts: Bounding, reading: Reading, weights: list[np.ndarray], noise: list[np.ndarray]) -> None:
        """Released weights (one array per model) as attributes in the units of X: post-processing."""
        coef, intercept = facts.decode(np.vstack([w.reshape(-1, facts.width) for w in weights]))
        spread = np.vstack([s.reshape(-1, facts.width) for s in noise])
        self.coef_, self.intercept_ = coef * reading.scale, intercept * reading.scale + reading.shift
        self.coef_noise_std_ = spread[:, : coef.shape[1]] * facts.scale * reading.scale

    def report(self, path: Any = None, *, source: str | None = None, target: str | None = None) -> str:
        """The report of the fit as one HTML document: guarantee, plan, releases, coefficients. Written to `path` if given.

        Args:
            path: where to write; None only returns the text.
            source: how the data are called in the report; a table with named columns has its own name there.
            target: how the target is called in the report; likewise.
        """
        check_is_fitted(self)
        if self._by_columns():
            return self._report_of_table(path, source is not None or target is not None)
        return super().report(path, source=source or "rows given in Python", target=target or "y")

    def _check_X(self, X: Any) -> Any:
        check_is_fitted(self)
        return _finite(validated(self, X, reset=False), *self._range)


def required_rows(n_rows: Any) -> Any:
    """The number of rows of parts, which nobody counts for a plan."""
    if n_rows is None:
        raise ValueError("rows that are elsewhere are counted when they are fitted; for a plan say n_rows")
    return n_rows


def refuse_weights(said: dict[str, Any], call: str = "fit") -> None:
    """Whatever else a call of ``fit`` says; a weight per record is refused with the reason."""
    for name, value in said.items():
        if name != "sample_weight":
            raise TypeError(f"{call}() got an unexpected keyword argument {shown(name)}")
        if value is not None:
            raise ValueError(
                "sample_weight multiplies what single records contribute: beyond the bound that the noise is made for, and a weight "
                "may itself tell something about its record. Fit without it; leave records out or repeat none"
            )


#: Scores beyond are this: differences of them are finite too.
LARGEST_SCORE = float(np.finfo(np.float64).max) / 4


def finite_scores(scores: np.ndarray, X: Any, again: Callable[[Any, np.ndarray], np.ndarray]) -> np.ndarray:
    """`scores`, and those of rows whose numbers are too large to be added up from `again`: of such rows divided by their largest number, and that number,
    scores divided by it. Those of one row keep their order."""
    wild = ~np.isfinite(scores).reshape(scores.shape[0], -1).all(axis=1)
    if wild.any():
        rows = X[wild]
        rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
        scale = np.abs(rows).max(axis=1)
        with np.errstate(all="ignore"):
            parts = np.clip(again(rows / scale[:, None], scale), -LARGEST_SCORE, LARGEST_SCORE)
            top = np.abs(parts.reshape(len(rows), -1)).max(axis=1)
            factor = np.minimum(scale, LARGEST_SCORE / np.maximum(top, np.finfo(np.float64).tiny))
            scores[wild] = parts * (factor if parts.ndim == 1 else factor[:, None])
    return scores


def linear_scores(X: Any, coef: np.ndarray, intercept: Any) -> np.ndarray:
    """X·coef + intercept, finite whatever finite numbers X holds."""
    with np.errstate(all="ignore"):
        scores = np.asarray(X @ coef.T + intercept)

    def again(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
        total = rows @ coef.T
        return total + intercept / (scale if total.ndim == 1 else scale[:, None])

    return finite_scores(scores, X, again)


def _finite(X: Any, lower: np.ndarray, upper: np.ndarray, centre: np.ndarray) -> Any:
    """`X` with every missing number in the middle of its bounds and every infinite one at its bound, as in the fit (0 without)."""
    values = X.data if sp.issparse(X) else X
    wild = ~np.isfinite(values)
    if not wild.any():
        return X
    X = X.copy()
    if sp.issparse(X):
        at, column = wild, X.indices[wild]
        values = X.data
    else:
        at = np.nonzero(wild)
        column, values = at[1], X
    found = np.clip(values[at].astype(np.float64), lower[column], upper[column])
    values[at] = np.where(np.isfinite(found), found, centre[column])
    return X


__all__ = ["PrivateLinear", "Reading"]
