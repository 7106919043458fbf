"""Private means of columns that have no known range."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._base import PrivateEstimator, shape_of
from ._by_unit import settled
from ._html import table
from ._mean import NO_CLIPPING
from ._moments import Moment, moment
from ._one_fit import one_fit
from ._plan import Plan, Privacy
from ._public_facts import Unit, unit_facts
from ._reading import number, shown, validated
from ._repeats import open_session
from ._settings import DEFAULT_EPSILON, keep
from ._units import apart, one_for_each, public_number
from .ledger import Ledger
from .partitions import Partitions


class HeavyTailedMean(PrivateEstimator):
    """Private means of columns of unknown range, each with a confidence interval that holds.

    Every number is clipped, noise is added to the sum, and the interval accounts for the noise, for sampling and for what the clip took. With
    ``fit(X, units=ids)`` the means are over persons, each with the mean of its rows, and `moment` is about those means. A number that is missing or not
    finite counts as the centre: 0, or what the moment is about, or what was released.

    Parameters
    ----------
    epsilon : float, default 1.0
        What the fit may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01; 0 for a pure guarantee.
    method : {"auto", "clipped-laplace", "clipped-gaussian"}
        ``"auto"``: the narrowest intervals.
    moment : float, tuple or dict
        A public fact, on which privacy does not rest. ``(k, m)``: (E|X|^k)^(1/k) is at most m, k above 1; ``(k, m, a)``: the same of X - a. ``k`` alone:
        there is such an m; centre and scale are then released first, of a part of the rows. A dict of these by column name (or number) where columns differ.
    confidence : float
        Probability with which all intervals hold at once, at least.
    spread_factor : float
        Where only k is known, the moment's root about the released centre is assumed to be at most so many times the released range from about the 10 %
        to the 90 % quantile.
    unit : Unit
        For ``fit(X, units=ids)``: ``max_rows`` and ``count``.
    neighbors : str
        ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`) or ``"replace-one"``.
    budget : Ledger
        Charged before any record is read.
    n_rows : int
        Public number of rows, or a guess under add-or-remove.
    accountant : str
        Whose ε is reported; ``"auto"``: the tightest.
    insecure_seed : int
        Reproducible noise for tests: **no privacy**.

    Attributes
    ----------
    mean_, centre_, threshold_ : ndarray
        Numbers were clipped to `threshold_` around `centre_`.
    confidence_interval_ : ndarray
        Columns × 2.
    noise_std_, noise_bound_, sampling_bound_, bias_bound_ : ndarray
        The last three add up to half a width.
    moment_root_ : ndarray
        Declared, or assumed from what was released.
    privacy_, guarantee_ : Privacy
    plan_ : Plan

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> X = np.random.default_rng(0).pareto(3, (20_000, 1)) + 1    # mean 1.5, second moment 3
    >>> est = dpopt.HeavyTailedMean(epsilon=1.0, delta=1e-6, moment=(2, 1.733), insecure_seed=1).fit(X)
    >>> low, high = est.confidence_interval_[0]
    >>> bool(low < 1.5 < high and high - low < 0.2)
    True
    """

    method: str
    moment: Any
    confidence: float
    spread_factor: float

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str = "auto", moment: Any = 2,
        confidence: float = 0.95, spread_factor: float = 2.0, unit: Unit | None = None, neighbors: str = "zero-out",
        budget: Ledger | None = None, n_rows: int | None = None, accountant: str = "auto", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _unit(self) -> Unit:
        return unit_facts(self.unit, ("max_rows", "count"), NO_CLIPPING)

    def _with_tags(self, tags: Any) -> Any:
        tags = super()._with_tags(tags)
        tags.input_tags.sparse = False
        tags.target_tags.required = False
        return tags

    def _moments(self, names: list[str]) -> list[Moment]:
        """One for each column."""
        if not isinstance(self.moment, Mapping):
            return [moment(self.moment, "moment")] * len(names)
        by_number: dict[Any, int] = {**{j: j for j in range(len(names))}, **{name: j for j, name in enumerate(names)}}
        unknown = [key for key in self.moment if key not in by_number]
        if unknown:
            raise ValueError(f"moment speaks of {shown(unknown[0])}, which is no column; use names or numbers from 0")
        found = {by_number[key]: moment(said, "moment") for key, said in self.moment.items()}
        missing = [name for j, name in enumerate(names) if j not in found]
        if missing:
            raise ValueError(f"moment says nothing of the column {shown(missing[0])}; give one for each")
        return [found[j] for j in range(len(names))]

    def _facts(self, records: int, names: list[str], relation: str, delta: float) -> tuple[Any, ...]:
        return (
            records,
            self._moments(names),
            number(self.spread_factor, "spread_factor"),
            number(self.confidence, "confidence"),
            relation,
            float(self.epsilon),
            delta,
        )

    def _planned(self, facts: tuple[Any, ...], unit: str) -> Plan:
        records, moments, _, _, relation, epsilon, delta = facts
        found = json.loads(_core.heavy_tailed_plans(facts, unit == "user"))
        candidates = []
        for row in found:
            if "not_applicable" in row:
                candidates.append(row)
                continue
            candidates.append({
                **row, "grade": "certified", "steps": 1 + ("ranges" in row["schedule"]), "gradients": float(records),
                "predicted_excess_risk": row["half_width_over_moment"], "delta": delta, "allowed_epsilon": epsilon,
                "relation": relation, "unit": unit, "event": json.loads(row["event"]), "assumptions": [], "warnings": [],
            })  # fmt: skip
        names = [c["method"] for c in candidates]
        if not isinstance(self.method, str) or self.method not in ("auto", *names):
            raise ValueError(
                f"there is no method {shown(self.method)} for means of columns; choose one of auto, {', '.join(names)}"
            )
        wanted = (c for c in candidates if self.method in ("auto", c["method"]) and "not_applicable" not in c)
        chosen = next(wanted, None)
        refusal = None
        if chosen is None:
            why = (c["not_applicable"] for c in candidates if self.method in ("auto", c["method"]))
            refusal = next(why, "no method applies")
        return Plan(
            None if chosen is None else chosen["method"], candidates, records, len(moments), epsilon, delta, relation,
            refusal=refusal, n_units=None if unit == "record" else records,
        )  # fmt: skip

    def explain(
        self, X: Any = None, n_features: int | None = None, *, n_rows: int | None = None, units: Any = None
    ) -> Plan:
        """Noise, half widths (over the roots of the moments) and certified guarantee, before any data are read; ``plan.schedule["columns"]`` has them by
        column.

        Parameters
        ----------
        X
            The table, of which only the shape and the names are looked at; or the public number of records.
        n_features
            Number of columns, if no table is given.
        n_rows
            Public number of records, if no table is given.
        units
            Whose rows they are, as in :meth:`fit`; without a table the name of a unit, and ``unit=Unit(count=...)`` of the estimator says how many there are.
        """
        unit = "record" if units is None else "user"
        relation = self._check_common(unit)
        X, given = apart(X, units) if not isinstance(units, str) or hasattr(X, "shape") else (X, None)
        rows, columns, counted = shape_of(X, n_features, n_rows)
        if unit == "record":
            records = self._public_rows(rows, relation) if counted else rows
        else:
            if given is not None and given.ids is not None and counted:
                one_for_each(given, rows)
            known = None if given is None or given.ids is None or relation == "add-or-remove" else given.owners().units
            records = public_number(self._unit().count, known, rows if counted else None, relation)
        named = [str(name) for name in getattr(X, "columns", [])] if counted else []
        names = named if len(named) == columns else [f"x{j}" for j in range(columns)]
        return self._planned(self._facts(records, names, relation, self._delta(records)), unit)

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None) -> HeavyTailedMean:
        """Releases the means of the columns of X; with `units` (one id for each row, or the name of a column of a table) over units, each of whom is
        protected with all rows."""
        if isinstance(X, Partitions):
            raise ValueError(
                "clipping numbers without a range needs a random part of the records, which remote records cannot select; find a range with mechanisms.private_bounds(parts), and use MeanEstimator(bounds=...)"
            )
        unit = "record" if units is None else "user"
        relation = self._before_fit(unit)
        X, given = apart(X, units)
        X = validated(self, X, reset=True, sparse=False)
        if given is None:
            whose = None
            records, delta = self._facts_of_counted(X.shape[0], relation)
        else:
            if self.n_rows is not None:
                raise ValueError(
                    "with units= the mean is over units, and the number of rows has no effect; give unit=dpopt.Unit(count=...)"
                )
            whose = settled(given, X.shape[0], relation, unit=self._unit(), seed=self._insecure_seed())
            records, delta = whose.count, self._delta(whose.count)
            self._warn_budget(records, delta, "unit")
        if records < 2:
            raise ValueError(
                "1 sample: too few for a private mean; use at least two, and some hundred for a useful answer"
            )
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])]
        facts = self._facts(records, names, relation, delta)
        self.plan_ = self._planned(facts, unit)
        method = self.plan_.chosen["method"]
        price = (self.plan_.event.to_json(), float(self.epsilon), delta, relation)
        by = None if self.accountant == "auto" else self.accountant
        name = None if whose is None else whose.name
        charge = self._charging(() if name is None else (name,))
        session = open_session(type(self).__name__, "mean", price, charge, self._insecure_seed(), by, name, of=None)
        found = json.loads(
            _core.heavy_tailed_mean(
                np.ascontiguousarray(X, dtype=np.float64), facts, method, session,
                None if whose is None else whose.owners, None if whose is None else whose.most,
            )
        )  # fmt: skip

        def each(key: str, part: str | None = None) -> np.ndarray:
            return np.array([column[key] if part is None else column[key][part] for column in found])

        self.mean_ = each("mean")
        self.confidence_interval_ = each("interval")
        self.noise_std_ = each("noise_std")
        self.noise_bound_, self.sampling_bound_ = each("parts", "noise"), each("parts", "sampling")
        self.bias_bound_ = each("parts", "bias")
        self.centre_, self.threshold_, self.moment_root_ = each("centre"), each("threshold"), each("root")
        self.privacy_ = Privacy.of_session(session, self.accountant)
        return self

    @property
    def guarantee_(self) -> Privacy:
        """What was promised: ``privacy_``."""
        check_is_fitted(self)
        return self.privacy_

    def report(self, path: Any = None, **names: Any) -> str:
        """A one-page text of the means, their intervals and the guarantee (an HTML table). Written to `path` if given."""
        check_is_fitted(self)
        columns = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(self.mean_))])
        html = "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>Private means</title><body>"
        html += self.privacy_._repr_html_()
        rows = zip(
            columns, self.mean_.tolist(), *self.confidence_interval_.T.tolist(), self.noise_bound_.tolist(),
            self.sampling_bound_.tolist(), self.bias_bound_.tolist(),
        )  # fmt: skip
        html += table(["column", "mean", "low", "high", "noise ±", "sampling ±", "clip bias ±"], rows)
        html += "</body></html>"
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html


__all__ = ["HeavyTailedMean"]
