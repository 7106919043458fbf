"""Private means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._base import PrivateEstimator, shape_of
from ._by_unit import Units, settled
from ._html import table
from ._mean_tables import VectorReader, Vectors, warn_undeclared
from ._one_fit import one_fit
from ._plan import Plan, Privacy
from ._public_facts import Columns, Unit, unit_facts
from ._reading import number, validated
from ._repeats import open_session
from ._rows import Scaling, bounding, within
from ._settings import DEFAULT_EPSILON, keep
from ._tables import by_name, names_by_position, names_of
from ._units import Given, apart, one_for_each, public_number
from .ledger import Ledger
from .partitions import Partitions, owner_of

#: Why nothing may be said of what is clipped of a unit.
NO_CLIPPING = "each unit has one vector here, which is clipped as one"


def _noisy_sum(noise: float, records: int, n_features: int) -> _core.NoisySum:
    """Of rows of norm at most 1; refused where the noise cannot be drawn."""
    return _core.NoisySum("gaussian", noise, 1.0, records, n_features)


class MeanEstimator(PrivateEstimator):
    """The private mean of bounded vectors: one clipped sum with Gaussian noise, divided by the public number of rows.

    With ``fit(X, units=ids)`` the mean is over persons, each of whom has one vector, the mean of its bounded rows, and is protected as a whole; rows
    without an id count nowhere. Of a table all means and shares are one release; columns that nothing declares are left out, with a warning. A number that
    is missing, infinite or no number counts as the middle of its bounds (with `spread`, as the centre of its round), a cell that is none of its levels as
    none of them.

    Parameters
    ----------
    epsilon : float, default 1.0
        What the fit may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01.
    bounds : tuple, dict or path
        Public range of the features; without it rows are clipped to norm `row_norm` (1) around 0, with a warning. Of a table's columns by name:
        ``{"age": (17, 90)}``, or a bounds file.
    columns : Columns
        ``levels``, of each of which the mean is its share, and ``ignore``.
    unit : Unit
        For ``fit(X, units=ids)``: ``max_rows`` (default: all count) and ``count``.
    spread : float
        Public guess of how far nearly all rows (with units: units' means) are from their mean, in l2 norm, as a share of the largest norm of a row, which
        with `bounds` is half their diagonal. The mean is then found in a few rounds, each clipped around what the one before released. Too small a
        guess costs accuracy, never privacy.
    neighbors : str
        ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`) or ``"replace-one"``.
    budget : Ledger
        Charged before any record is read.
    n_rows : int
        Public number of rows, or a guess under add-or-remove.
    row_norm : float
        Public l2 norm of a row of a matrix, after scaling.
    accountant : str
        Whose ε is reported; ``"auto"``: the tightest.
    insecure_seed : int
        Reproducible noise for tests: **no privacy**.

    Attributes
    ----------
    mean_ : ndarray
    means_ : dict
        The same by name.
    noise_std_ : ndarray
        Of each entry.
    privacy_ : Privacy
    plan_ : Plan

    Examples
    --------
    >>> import pandas, dpopt
    >>> table = pandas.DataFrame({"age": [20, 40, 60] * 2000, "sex": ["f", "f", "m"] * 2000})
    >>> est = dpopt.MeanEstimator(
    ...     epsilon=1.0, delta=1e-6, bounds={"age": (18, 80)}, columns=dpopt.Columns(levels={"sex": ["f", "m"]}), insecure_seed=1).fit(table)
    >>> {name: round(mean, 1) for name, mean in est.means_.items()}
    {'age': 40.0, 'sex=f': 0.7, 'sex=m': 0.3}
    """

    bounds: Any
    row_norm: float | None
    spread: float | None

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, bounds: Any = None, columns: Columns | None = None,
        unit: Unit | None = None, spread: float | None = None, neighbors: str = "zero-out", budget: Ledger | None = None,
        n_rows: int | None = None, row_norm: float | None = None, accountant: str = "auto", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _unit(self) -> Unit:
        return unit_facts(self.unit, ("max_rows", "count"), NO_CLIPPING)

    def _with_tags(self, tags: Any) -> Any:
        tags = super()._with_tags(tags)
        tags.input_tags.sparse = False
        tags.target_tags.required = False
        if by_name(self):
            tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _scaling(self, n_features: int, quiet: bool) -> Scaling:
        return bounding(n_features, self.bounds, self.row_norm, 0.0, False, quiet)

    def _planned(
        self, records: int, n_features: int, relation: str, delta: float, scaling: Scaling, unit: str
    ) -> tuple[float, Plan]:
        """For `records` rows, or units; how many rows units have is none of the public facts."""
        if delta <= 0:
            raise ValueError("Gaussian noise needs delta > 0; give a small delta, for example 1e-6")
        if self.spread is not None:
            return self._planned_in_rounds(records, n_features, relation, delta, scaling, unit)
        noise, event, text = _core.sum_noise("gaussian", n_features, float(self.epsilon), delta, relation)
        _noisy_sum(noise, records, n_features)
        bound = json.loads(text)
        std = noise / scaling.scale / records
        chosen = {
            "method": "clipped-mean", "grade": "certified", "noise_multiplier": noise, "steps": 1,
            "gradients": float(records), "predicted_excess_risk": float(np.sum(std**2)), "epsilon": bound["upper"],
            "delta": delta, "allowed_epsilon": float(self.epsilon), "relation": relation, "bound": bound,
            "unit": unit,
            "event": json.loads(event), "schedule": {"clip_norm": 1.0, "noise_std": noise}, "assumptions": [],
            "warnings": [],
        }  # fmt: skip
        return noise, Plan(
            "clipped-mean",
            [chosen],
            records,
            n_features,
            float(self.epsilon),
            delta,
            relation,
            n_units=None if unit == "record" else records,
        )

    def _centred(
        self, records: int, n_features: int, relation: str, delta: float
    ) -> tuple[int, int, float, str, float, float]:
        """The public facts of a mean in rounds."""
        return records, n_features, number(self.spread, "spread"), relation, float(self.epsilon), delta

    def _planned_in_rounds(
        self, records: int, n_features: int, relation: str, delta: float, scaling: Scaling, unit: str
    ) -> tuple[float, Plan]:
        facts = self._centred(records, n_features, relation, delta)
        found = json.loads(_core.centred_plan(facts, unit == "user"))
        std, rounds = found["noise_std"] / scaling.scale, found["rounds"]
        chosen = {
            "method": "centred-mean", "grade": "certified", "noise_multiplier": rounds[-1]["noise_multiplier"],
            "steps": len(rounds), "gradients": float(records * len(rounds)),
            "predicted_excess_risk": float(np.sum(std**2)), "epsilon": found["bound"]["upper"],
            "delta": delta, "allowed_epsilon": float(self.epsilon), "relation": relation, "bound": found["bound"],
            "unit": unit, "event": json.loads(found["event"]), "schedule": {"rounds": rounds}, "assumptions": [],
            "warnings": [],
        }  # fmt: skip
        n_units = None if unit == "record" else records
        plan = Plan(
            "centred-mean", [chosen], records, n_features, float(self.epsilon), delta, relation, n_units=n_units
        )
        return found["noise_std"] * records, plan

    def explain(
        self, X: Any = None, n_features: int | None = None, *, n_rows: int | None = None, units: Any = None
    ) -> Plan:
        """Noise and certified guarantee, before any data are read; the predicted risk is the squared error from noise.

        Parameters
        ----------
        X
            The table, of which only the shape is looked at; or the public number of records.
        n_features
            Number of columns, if no table is given; where columns are declared by name, the declarations say it.
        n_rows
            Public number of records, if no table is given.
        units
            Whose rows they are, as in :meth:`fit`: the ids are counted (not under add-or-remove). Without a table the name of a
            unit, and ``unit=Unit(count=...)`` of the estimator says how many there are.
        """
        relation = self._check_common("record" if units is None else "user")
        shape_only = X is None or isinstance(X, (int, float, np.number, np.bool_))
        X, given = (X, Given(units, None)) if shape_only and isinstance(units, str) else apart(X, units)
        scaling: Scaling
        if by_name(self):
            scaling = Vectors.of(self) if shape_only else VectorReader.of(self, X).vectors
            if n_features is not None:
                raise TypeError(
                    "n_features is given, but the columns are declared by name, which determines it; leave it out"
                )
            rows, _, counted = shape_of(X, len(scaling.columns) if shape_only else None, n_rows)
        else:
            rows, columns, counted = shape_of(X, n_features, n_rows)
            scaling = self._scaling(columns, quiet=True)
        if given is not None:
            records = self._number_of(given, rows if counted else None, relation)
        else:
            records = self._public_rows(rows, relation) if counted else rows
        unit = "record" if given is None else "user"
        return self._planned(records, len(scaling.scale), relation, self._delta(records), scaling, unit)[1]

    def _number_of(self, given: Given, rows: int | None, relation: str) -> int:
        """The public number of units of `rows` rows, if they are there."""
        if given.ids is not None and rows is not None:
            one_for_each(given, rows)
        counted = None if given.ids is None or relation == "add-or-remove" else given.owners().units
        return public_number(self._unit().count, counted, rows, relation)

    def _settled(self, given: Given, rows: int, relation: str) -> Units:
        if self.n_rows is not None:
            raise ValueError(
                "with units= the mean is over units, and the number of rows has no effect; give unit=dpopt.Unit(count=...)"
            )
        return settled(given, rows, relation, unit=self._unit(), seed=self._insecure_seed())

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None) -> MeanEstimator:
        """Releases the mean of the rows of X (or of :class:`dpopt.partitions.Partitions`, remote rows); with `units` (one id for each row, or the name of a
        column of a table) of the means of units, each of whom is protected with all rows."""
        if isinstance(X, Partitions):
            return self._fit_parts(X, owner_of(X, units))
        relation = self._before_fit("record" if units is None else "user")
        X, given = apart(X, units)
        scaling: Scaling
        if by_name(self):
            reader = self._reader(X)
            scaling, X, rows = reader.vectors, reader.table(X), X.shape[0]
            if rows == 0 and relation != "add-or-remove":
                raise ValueError("X has 0 rows, of which there is no mean; give at least one")
        else:
            reader = None
            X = validated(self, X, reset=True, sparse=False)
            scaling, rows = self._scaling(X.shape[1], quiet=False), X.shape[0]
        whose = None if given is None else self._settled(given, rows, relation)
        if whose is None:
            records, delta = self._facts_of_counted(rows, relation)
        else:
            records, delta = whose.count, self._delta(whose.count)
            self._warn_budget(records, delta, "unit")
        noise, session = self._paid(records, relation, delta, scaling, None if whose is None else whose.name)
        bounded = within(X if reader is None else reader.values(X), scaling)
        if self.spread is not None:
            if whose is not None:
                # nobody's vector is none: one of zeros would count, wherever the centre is
                bounded = whose.rows.combined(bounded, True, float("nan"))
        elif whose is not None:
            bounded = whose.rows.combined(bounded, True)
        return self._released(bounded, records, noise, scaling, session)

    def _reader(self, X: Any) -> VectorReader:
        """Of the columns of tables like `X` that are declared by name."""
        reader, names = VectorReader.of(self, X), names_of(X)
        warn_undeclared(self, names)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        return reader

    def _paid(self, records: int, relation: str, delta: float, scaling: Scaling, unit: str | None) -> tuple[float, Any]:
        """The noise, and a session that is charged for it."""
        noise, self.plan_ = self._planned(
            records, len(scaling.scale), relation, delta, scaling, "record" if unit is None else "user"
        )
        price = (self.plan_.event.to_json(), float(self.epsilon), delta, relation)
        by = None if self.accountant == "auto" else self.accountant
        charge = self._charging(() if unit is None else (unit,))
        return noise, open_session(type(self).__name__, "mean", price, charge, self._insecure_seed(), by, unit, of=None)

    def _part(self, X: Any, y: Any, part: int, sparse: bool, owners: Any, marks: bytes) -> Any:
        """A part of the vectors, near them: of each row, or of each unit."""
        if sparse:
            raise TypeError("a sparse matrix")
        bounded = within(X, self._scaling(X.shape[1], quiet=True))
        if owners is not None:
            bounded = _core.UnitRows(owners, owners.units, "zero-out", None, None).combined(bounded, True)
        return _core.Shard.of_numbers(bounded, part, marks)

    def _fit_parts(self, parts: Partitions, unit: str | None) -> MeanEstimator:
        """The mean of remote vectors."""
        relation = self._before_fit("record" if unit is None else "user")
        if unit is not None and self._unit().max_rows is not None:
            raise ValueError(
                "max_rows of unit takes a secret choice of rows, which remote records cannot make; leave it out"
            )
        if unit is not None and self.n_rows is not None:
            raise ValueError(
                "with units the mean is over units, and the number of rows has no effect; give unit=dpopt.Unit(count=...)"
            )
        scaling: Scaling
        if by_name(self):
            maker: Any = self._reader_of(parts)
            scaling = maker.vectors
        else:
            maker, scaling = self, self._scaling(parts.n_features, quiet=False)
        with parts.loaded(maker) as known:
            if not by_name(self):
                self.n_features_in_ = parts.n_features
                self.__dict__.pop("feature_names_in_", None)
                if parts.feature_names is not None:
                    self.feature_names_in_ = np.array(parts.feature_names, dtype=object)
            if unit is None:
                records, delta = self._facts_of_counted(known.records, relation)
            else:
                records = public_number(self._unit().count, known.records, None, relation)
                delta = self._delta(records)
                self._warn_budget(records, delta, "unit")
            noise, session = self._paid(records, relation, delta, scaling, unit)
            numbers = _core.RemoteNumbers(parts.ask, known.parts, len(scaling.scale))
            return self._released(numbers, records, noise, scaling, session)

    def _reader_of(self, parts: Partitions) -> VectorReader:
        """Refuses parts that are no tables."""
        if parts.like is None:
            raise TypeError(
                "columns are declared by name, but these partitions have no names; make them from a data frame, or give bounds=(lower, upper) for numbers"
            )
        if parts.units is not None:
            raise ValueError(
                "remote records with privacy units cannot be encoded from named columns; encode the columns first, and give partitions of numbers"
            )
        return self._reader(parts.like)

    def _released(self, bounded: Any, records: int, noise: float, scaling: Scaling, session: Any) -> MeanEstimator:
        """The mean of so many bounded vectors, local or remote."""
        if self.spread is not None:
            facts = self._centred(records, len(scaling.scale), self.plan_.relation, self.plan_.delta)
            mean = _core.centred_mean(bounded, facts, session)
        else:
            # the compiled library clips each row to norm 1 in exact integers, whatever rounding happened above
            mean = _core.gaussian_sum(bounded, _noisy_sum(noise, records, len(scaling.scale)), session) / records
        self.mean_ = mean / scaling.scale + scaling.centre
        self.noise_std_ = noise / records / scaling.scale
        self._entries = scaling.names if isinstance(scaling, Vectors) else self._names_by_position()
        self.means_ = dict(zip(self._entries, self.mean_.tolist()))
        self.privacy_ = Privacy.of_session(session, self.accountant)
        return self

    def _names_by_position(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return names_by_position(None, self.n_features_in_) if names is None else list(names)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the entries of ``mean_``: ``age``, ``sex=f``, …"""
        check_is_fitted(self)
        return np.array(self._entries, dtype=object)

    def report(self, path: Any = None, **names: Any) -> str:
        """A one-page text of the mean, its noise and its guarantee (an HTML table). Written to `path` if given."""
        check_is_fitted(self)
        html = "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>Private mean</title><body>"
        html += self.privacy_._repr_html_()
        html += table(["feature", "mean", "noise"], zip(self._entries, self.mean_.tolist(), self.noise_std_.tolist()))
        html += "</body></html>"
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html


__all__ = ["MeanEstimator"]
