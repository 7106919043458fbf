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
from ._options import keep
from ._plan import Plan, Privacy
from ._reading import number, validated
from ._repeats import open_session
from ._rows import Scaling, bounding, within
from ._tables import by_name, names_by_position, names_of
from ._units import Given, apart, one_for_each, public_number
from .parts import Parts, owner_of


def _noisy_sum(noise: float, records: int, n_features: int) -> _core.NoisySum:
    """Of rows of norm at most 1; refused where the noise cannot be drawn."""
    return _core.NoisySum("gaussian", noise, 1.0, records, n_features)


class MeanEstimator(PrivateEstimator):
    """The private mean of bounded vectors: one clipped sum with Gaussian noise, divided by the public number of rows.

    Args:
        epsilon, delta: what the fit may spend. Default δ: 1/n^1.1, at most 0.01.
        bounds: public range of the features; without it rows are clipped to norm `row_norm` (1) around 0, with a warning. Of a table's columns by name:
            ``{"age": (17, 90)}``, or the path of a bounds file.
        levels: public levels of a table's columns, ``{"sex": ["f", "m"]}``: the mean is the share of each.
        ignore: names of columns of a table that are left out.
        row_norm: public l2 norm of a row after scaling by `bounds` (then at most 1, the norm of a corner of the box); of a matrix alone.
        spread: public guess of how far nearly all rows (with units: units' means) are from their mean, in l2 norm, as a share of the largest norm that a row may
            have, which with `bounds` is half their diagonal. The mean is then found in a few rounds, each clipped around what the one before released, with noise
            for what is left. Too small a guess costs accuracy (what is further away is clipped), never privacy. None: one round, clipped around the middle.
        neighbors, accountant, budget, n_rows, insecure_seed: as in :class:`dpopt.LogisticRegression`.
        max_rows_per_unit, n_units: with ``fit(X, units=ids)``: a bound on the rows of a unit that are used (a uniform choice by secret coins;
            default: all of them), and the public number of units (a guess under add-or-remove; default: counted).

    Persons with several rows are protected as a whole by ``fit(X, units=ids)``: the mean is then over units, each of which has one
    vector, the mean of its bounded rows, whatever their number; rows without an id count nowhere.

    Of a table of pandas, Polars or Arrow with columns declared by name all means and shares are one release. Columns that nothing declares are left out, with a
    warning. A number that is missing, infinite or no number counts as the middle of its bounds (with `spread`, as the centre of its round), a cell that is
    none of its levels as none of them. ``transform`` and ``[dpopt]`` of a bounds file say how models encode, and change nothing here.

    Fitted attributes: ``mean_``, ``means_`` (the same by name), ``noise_std_`` (standard deviation of the noise in each entry of ``mean_``),
    ``privacy_`` (:class:`dpopt.Privacy`), ``plan_`` (:class:`dpopt.Plan`).

    >>> import numpy as np, dpopt
    >>> X = np.random.default_rng(0).uniform(0, 10, (5000, 2))
    >>> est = dpopt.MeanEstimator(epsilon=1.0, delta=1e-6, bounds=(0, 10)).fit(X)
    >>> bool(np.abs(est.mean_ - 5).max() < 0.3)
    True

    >>> import pandas
    >>> table = pandas.DataFrame({"age": [20, 40, 60] * 2000, "sex": ["f", "f", "m"] * 2000})
    >>> est = dpopt.MeanEstimator(epsilon=1.0, delta=1e-6, bounds={"age": (18, 80)}, levels={"sex": ["f", "m"]}, insecure_seed=1).fit(table)
    >>> {name: round(mean, 1) for name, mean in est.means_.items()}
    {'age': 40.0, 'sex=f': 0.7, 'sex=m': 0.3}
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, bounds=None, levels=None, ignore=None, row_norm=None, spread=None, neighbors="zero-out",
        accountant="auto", budget=None, n_rows=None, max_rows_per_unit=None, n_units=None, insecure_seed=None,
    ):  # fmt: skip
        keep(self, locals())

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

        Args:
            X: the table, of which only the shape is looked at; or the public number of records.
            n_features: number of columns, if no table is given; where columns are declared by name, the declarations say it.
            n_rows: public number of records, if no table is given.
            units: whose rows they are, as in :meth:`fit`: the ids are counted (not under add-or-remove). Without a table the name of a
                unit, and `n_units` of the estimator says how many there are.
        """
        relation = self._check_common("record" if units is None else "user")
        shape_only = X is None or isinstance(X, (int, float, np.number, np.bool_))
        X, given = (X, Given(units, None)) if shape_only and isinstance(units, str) else apart(X, units)
        scaling: Scaling
        if by_name(self):
            scaling = Vectors.of(self) if shape_only else VectorReader.of(self, X).vectors
            if n_features is not None:
                raise TypeError(
                    "columns are declared by name, and the declarations say how many there are; leave out n_features"
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
        return public_number(self.n_units, counted, rows, relation)

    def _settled(self, given: Given, rows: int, relation: str) -> Units:
        if self.n_rows is not None:
            raise ValueError("with units= the mean is over units, and no use is made of a number of rows; give n_units")
        return settled(
            given, rows, relation, n_units=self.n_units, max_rows_per_unit=self.max_rows_per_unit, seed=self._insecure_seed()
        )  # fmt: skip

    def fit(self, X: Any, y: Any = None, *, units: Any = None) -> MeanEstimator:
        """Releases the mean of the rows of X (or of :class:`dpopt.parts.Parts`, rows that are elsewhere); with `units` (one id for each row, or the name of a
        column of a table) of the means of units, each of whom is protected with all rows."""
        if isinstance(X, Parts):
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

    def _fit_parts(self, parts: Parts, unit: str | None) -> MeanEstimator:
        """The mean of vectors that are elsewhere."""
        relation = self._before_fit("record" if unit is None else "user")
        if unit is not None and self.max_rows_per_unit is not None:
            raise ValueError(
                "which rows of a unit are kept is chosen by secret coins, which parts do not have: leave out max_rows_per_unit"
            )
        if unit is not None and self.n_rows is not None:
            raise ValueError("with units the mean is over units, and no use is made of a number of rows; give n_units")
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
                records = public_number(self.n_units, known.records, None, relation)
                delta = self._delta(records)
                self._warn_budget(records, delta, "unit")
            noise, session = self._paid(records, relation, delta, scaling, unit)
            numbers = _core.NumbersElsewhere(parts.ask, known.parts, len(scaling.scale))
            return self._released(numbers, records, noise, scaling, session)

    def _reader_of(self, parts: Parts) -> VectorReader:
        """Refuses parts that are no tables."""
        if parts.like is None:
            raise TypeError(
                "columns are declared by name, and these parts have none; make them of a data frame, or give bounds=(lower, upper) for numbers"
            )
        if parts.units is not None:
            raise ValueError(
                "units of several rows are not read with columns by name in parts; encode the columns before, and give parts of numbers"
            )
        return self._reader(parts.like)

    def _released(self, bounded: Any, records: int, noise: float, scaling: Scaling, session: Any) -> MeanEstimator:
        """The mean of so many bounded vectors, here or elsewhere."""
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
