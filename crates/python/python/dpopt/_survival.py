"""Private proportional hazards: times to an event, of which some are only known to be later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._bounded_moments import BoundedColumns, Box
from ._concordance import concordance
from ._linear import PrivateLinear
from ._one_fit import one_fit
from ._options import LINEAR
from ._plan import Plan
from ._public_facts import Unit
from ._reading import array, kind, positive, required, same_length, scored, shown, target, validated, whole
from ._regressors import PoissonRegressor
from ._repeats import of_columns, records_of
from ._scores import finite_rows
from ._settings import DEFAULT_EPSILON, Method, keep, refuse_weights
from ._tables import column, is_table, names_of
from ._warnings import warn
from .ledger import RECORD, Ledger

#: Linear B-splines over the periods, whose sum is the logarithm of the baseline.
_KNOTS = 6
#: Names of the two columns of a target that is a table.
_TIMES, _EVENTS = ("time", "duration", "futime", "tenure"), ("event", "status", "observed", "death", "dead")


def survival(time: Any, event: Any) -> np.ndarray:
    """Times and whether the event happened then, as one target: a structured array with the fields ``event`` (bool) and ``time``.

    Parameters
    ----------
    time
        How long each record was followed: numbers, in one unit.
    event
        For each record 1 (True) if the event happened at that time, 0 if only so much is known that it had not yet. Anything else is missing.

    Returns
    -------
    ndarray
        What :class:`CoxRegressor` learns from, and scikit-survival too. A record whose time or event is missing has the time NaN.

    Examples
    --------
    >>> import dpopt
    >>> dpopt.survival([2.5, 4.0], [True, False])["event"].tolist()
    [True, False]
    """
    times, events = (
        _numbers(time, "time", "durations are .dt.days"),
        _numbers(event, "event", "event=(status == 'dead')"),
    )
    if len(times) != len(events):
        raise ValueError(f"time has {len(times)} entries and event has {len(events)}; give one of each for each record")
    found = np.empty(len(times), dtype=[("event", bool), ("time", np.float64)])
    # codes of several kinds of events would all count as the event: they are missing
    found["event"], found["time"] = events == 1, np.where((events == 0) | (events == 1), times, np.nan)
    return found


def _numbers(given: Any, name: str, advice: str) -> np.ndarray:
    """One number for each record."""
    dtype = str(getattr(given, "dtype", ""))
    if dtype.startswith(("category", "timedelta", "datetime", "Enum", "Categorical", "Duration", "Date")):
        raise TypeError(f"{name} has the type {dtype.split('(')[0].split('[')[0]}; give numbers ({advice})")
    return target(given, name)


def outcomes(y: Any) -> np.ndarray:
    """A target as an array of :func:`survival`; no message tells of a record."""
    fields = getattr(getattr(y, "dtype", None), "names", None)
    if isinstance(y, np.ndarray) and fields is not None:
        # the types of fields are fixed, whatever the records hold
        truths = [name for name in fields if y.dtype[name] == np.bool_]
        if len(fields) == 2 and len(truths) == 1:
            (event,) = truths
            (time,) = set(fields) - {event}
            return survival(y[time], y[event])
    elif is_table(y):
        # by name, since the type of a column may follow from one record
        names = names_of(y)
        low = [name.strip().lower() for name in names]
        found = [[i for i, name in enumerate(low) if name in known] for known in (_TIMES, _EVENTS)]
        if len(names) == 2 and all(len(places) == 1 for places in found):
            return survival(*(column(y, places[0]) for places in found))
        raise ValueError(
            f"y is a table whose two columns are not called {_either(_TIMES)} and {_either(_EVENTS)}; rename them, or give y=dpopt.survival(time, event)"
        )
    raise TypeError(
        f"y is {kind(y)}, and of every record a time and whether the event happened are needed; give y=dpopt.survival(time, event)"
    )


def _either(names: tuple[str, ...]) -> str:
    return " or ".join((", ".join(f'"{name}"' for name in names[:-1]), f'"{names[-1]}"'))


class _Hazards(PoissonRegressor):
    """The model of the periods of all records, one record being one unit."""

    def _charging(self, units: tuple[str, ...] = ()) -> Any:
        charge = super()._charging(())
        if charge is None:
            return None
        # all periods of a record are protected together, which is what protecting that record means
        return lambda run, event, epsilon, delta, relation, unit: charge(run, event, epsilon, delta, relation, RECORD)

    def _before_fit(self, unit: str = RECORD) -> str:
        # the estimator of the records has said what there is to say
        return self._check_common(unit)

    def _check_budget(self, unit: str, relation: str) -> None:
        # and has checked its ledger, which is one of records
        pass


# what messages and ledgers call it
_Hazards.__name__ = "CoxRegressor"


class CoxRegressor(BoundedColumns):
    """Private Cox regression: how columns multiply the hazard of an event, and the chance to be without it at every time.

    Time up to `horizon` is cut into periods of one length, a record is a row for each period that it was followed (to the nearest), and a log-linear model of whether
    the event happens in a row is fitted with the logarithm of the baseline as a spline of time (a piecewise exponential model). All rows of a record are
    clipped as one. Needs no tuning; ties and censored records are nothing special.

    Parameters
    ----------
    epsilon : float, default 1.0
        What the fit may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01.
    horizon : float
        Public: the largest time that matters, in the unit of times. Later events count as not seen.
    periods : int, default 32
        Of how many rows a record can be. More are finer in time and take longer.
    method : str or object of dpopt.methods
        As of :class:`PoissonRegressor`.
    bounds : tuple or dict
        Public range of the features: two numbers, two arrays, or ``{"age": (17, 90), ...}`` for the columns of a data frame. Without it numbers are clipped to
        [-1, 1], with a warning.
    neighbors : str
        ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`) or ``"replace-one"``.
    budget : Ledger
        Charged before any record is read.
    n_rows : int
        Public number of records, or a guess under add-or-remove.
    accountant : str
        Whose ε is reported; ``"auto"``: the tightest.
    insecure_seed : int
        Reproducible noise for tests: **no privacy**.

    Attributes
    ----------
    coef_ : ndarray
        Logarithms of hazard ratios, for one more unit of a column of X.
    times_ : ndarray
        The ends of the periods.
    baseline_cumulative_hazard_ : ndarray
        At `times_`, of a record in the middle of the bounds.
    privacy_ : Privacy
    plan_ : Plan

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0); X = rng.uniform(-1, 1, (8000, 2))
    >>> time = rng.exponential(np.exp(-X[:, 0])); end = rng.uniform(0.5, 3, 8000)
    >>> y = dpopt.survival(np.minimum(time, end), time <= end)
    >>> model = dpopt.CoxRegressor(epsilon=2.0, delta=1e-6, horizon=3.0, bounds=(-1, 1), insecure_seed=1).fit(X, y)
    >>> bool(0.7 < model.coef_[0] < 1.2), bool(model.score(X, y) > 0.65), model.predict_survival_function(X[:2], [0.5, 1.0]).shape
    (True, True, (2, 2))
    """

    #: Methods that the estimator can use.
    _usable_methods: ClassVar[frozenset[str]] = LINEAR
    _option_of = staticmethod(PrivateLinear._option_of)

    horizon: Any
    periods: int
    coef_: np.ndarray
    times_: np.ndarray
    baseline_cumulative_hazard_: np.ndarray

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, horizon: float | None = None, periods: int = 32,
        method: str | Method = "auto", bounds: Any = None, neighbors: str = "zero-out", budget: Ledger | None = None,
        n_rows: int | None = None, accountant: str = "auto", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = self._with_tags(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags

    # --- public facts -------------------------------------------------------------------------------------------

    def _ends(self) -> np.ndarray:
        """The ends of the periods."""
        if self.horizon is None:
            raise ValueError(
                "horizon is not given, and no time is looked at before the fit; give horizon=, the largest time that matters, in the unit of times"
            )
        horizon, periods = positive(self.horizon, "horizon"), whole(self.periods, "periods")
        if not 2 <= periods <= 1000:
            raise ValueError(f"periods is {periods}; give a whole number from 2 to 1000, for example 32")
        # the last is the horizon, to the last digit
        ends: np.ndarray = np.linspace(0.0, horizon, periods + 1)[1:]
        return ends

    @staticmethod
    def _baseline(periods: int) -> np.ndarray:
        """Linear B-splines at each period: periods × knots."""
        knots = min(_KNOTS, periods)
        place = np.linspace(0, knots - 1, periods)
        found = np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(knots)))
        # the same numbers in rows of float32 and of float64
        rounded: np.ndarray = found.astype(np.float32).astype(np.float64)
        return rounded

    def _model(self, box: Box, records: int, relation: str, periods: int) -> _Hazards:
        """The estimator of the periods of so many records."""
        knots = self._baseline(periods).shape[1]
        ends = (np.append(box.lower, np.full(knots, -1.0)), np.append(box.upper, np.full(knots, 1.0)))
        model = _Hazards(
            epsilon=self.epsilon, delta=self.delta, method=self.method, bounds=ends, target_bounds=(0.0, 1.0), encoding=None,
            unit=Unit(count=records, max_rows=periods, clipping="unit"), neighbors=self.neighbors, budget=self.budget,
            n_rows=records * periods if relation == "add-or-remove" else None,
            # of the splines over time at most two are not 0
            max_nonzeros=len(box.lower) + min(knots, 2), accountant=self.accountant, insecure_seed=self.insecure_seed,
        )  # fmt: skip
        # begins with one event in all periods together: then the mean over a record's rows is its events less what is expected of it
        model._top = float(periods)
        return model

    def explain(self, X: Any = None, n_features: int | None = None, *, n_rows: int | None = None) -> Plan:
        """Every candidate method with its noise, predicted error and certified guarantee, before any data are read. Rows of the plan are periods, and its units
        are the records.

        Parameters
        ----------
        X
            The table, of which only the shape and the names are looked at; or the public number of records.
        n_features
            Number of columns, if no table is given.
        n_rows
            Public number of records, if no table is given.
        """
        relation = self._check_common()
        records, columns, names = self._shape(X, n_features, n_rows, relation)
        box, periods = self._box(columns, names, quiet=True), len(self._ends())
        model = self._model(box, records, relation, periods)
        width = columns + self._baseline(periods).shape[1]
        # the shape says it here
        model.set_params(n_rows=None)
        return model.explain(n_rows=records * periods, n_features=width, units=RECORD)

    # --- fit ----------------------------------------------------------------------------------------------------

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None, **said: Any) -> CoxRegressor:
        """Fits the model and releases its coefficients and its baseline within (epsilon, delta).

        Parameters
        ----------
        X
            Records × features.
        y
            ``dpopt.survival(time, event)``; or a structured array (scikit-survival's ``Surv``), or a table of two columns ``time`` and ``event``.
            A record with a missing or negative time, or a missing event, counts as one without a period.
        units
            Refused: each record is protected by itself.
        said
            Nothing else; a ``sample_weight`` is refused with the reason.
        """
        refuse_weights(said)
        self._rows_only(X, units)
        relation = self._before_fit()
        ends = self._ends()
        X, names = self._validated(X)
        y = outcomes(required(y, self))
        same_length(X, y)
        box = self._box(X.shape[1], names, quiet=False)
        records = self._public_rows(X.shape[0], relation)
        baseline = self._baseline(len(ends))
        model = self._model(box, records, relation, len(ends))
        rows, happened = self._periods(X, y, ends, baseline)
        with records_of(of_columns(X.shape[1], getattr(self, "feature_names_in_", None))):
            model.fit(rows, happened, units={RECORD: np.repeat(np.arange(len(X)), len(ends))})
        del rows
        d = X.shape[1]
        self.coef_, self.coef_noise_std_ = model.coef_[:d], model.coef_noise_std_[:d]
        self.times_ = ends
        self._centre: np.ndarray = box.centre
        self._range = (box.lower, box.upper, box.centre)
        self._log_hazards: np.ndarray = baseline @ model.coef_[d:] + model.intercept_ + box.centre @ self.coef_
        at_most = int((self._log_hazards >= 0).sum())
        if at_most > len(ends) // 2:
            warn(
                f"hazards end at 1 a period, and a record in the middle of the bounds has that in {at_most} of {len(ends)} periods; give a shorter horizon if nearly all "
                "events come early in it, or bounds nearer to what occurs"
            )
        self.baseline_cumulative_hazard_ = np.cumsum(self._of_periods(np.zeros(1))[0])
        # all periods of a record together are that record
        self.plan_, self.privacy_ = model.plan_, replace(model.privacy_, unit=RECORD, unit_column=None)
        planned, facts = model._report_facts
        note = f"Time up to {shown(ends[-1])} is cut into {len(ends)} periods; a record is a row for each that it was followed, and all of its rows are protected together."
        self._report_facts = planned, {**facts, "preparation": [note, *facts["preparation"][1:]]}
        return self

    @staticmethod
    def _periods(X: np.ndarray, y: np.ndarray, ends: np.ndarray, baseline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A row for each record and period, and whether the event happened in it; NaN where the record was not followed: each record has as many rows."""
        n, periods, d = len(X), len(ends), X.shape[1]
        times = np.where(y["time"] >= 0, y["time"], np.nan)
        seen = y["event"] & (times <= ends[-1])
        with np.errstate(invalid="ignore"):
            followed = np.rint(np.minimum(times, ends[-1]) / ends[-1] * periods)
            # an event without a period would count without a chance that it happens
            followed = np.where(seen, np.maximum(followed, 1), followed)
        rows = np.empty((n, periods, d + baseline.shape[1]), dtype=X.dtype)
        rows[:, :, :d] = X[:, None, :]
        rows[:, :, d:] = baseline
        at = np.arange(1, periods + 1)
        happened = np.where(at <= followed[:, None], 0.0, np.nan)
        last = np.where(seen, followed, 0)
        happened[at == last[:, None]] = 1.0
        return rows.reshape(n * periods, -1), happened.ravel()

    # --- predictions --------------------------------------------------------------------------------------------

    def _given(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return finite_rows(validated(self, X, reset=False, sparse=False), *self._range)

    def predict(self, X: Any) -> np.ndarray:
        """Logarithms of hazard ratios against a record in the middle of the bounds: the larger, the earlier the event is expected."""
        found: np.ndarray = (self._given(X) - self._centre) @ self.coef_
        return found

    def _of_periods(self, log_ratios: np.ndarray) -> np.ndarray:
        """Hazards of each record in each period; 1 leaves a third of those who are there, and more is not told from it."""
        with np.errstate(over="ignore"):
            found: np.ndarray = np.minimum(np.exp(log_ratios[:, None] + self._log_hazards), 1.0)
        return found

    def _at(self, times: Any) -> np.ndarray:
        """Times between 0 and the horizon."""
        if times is None:
            return self.times_
        found = np.atleast_1d(array(times, "times")).astype(np.float64)
        if found.ndim != 1 or not (found >= 0).all() or not (found <= self.times_[-1]).all():
            raise ValueError(f"times must be between 0 and the horizon, which is {shown(self.times_[-1])}")
        return found

    def predict_cumulative_hazard_function(self, X: Any, times: Any = None) -> np.ndarray:
        """Cumulative hazard of each record at each time: records × times.

        Parameters
        ----------
        X
            Records × features.
        times
            Between 0 and the horizon; default: ``times_``.
        """
        at = self._at(times)
        hazards = self._of_periods(self.predict(X))
        cumulative = np.hstack([np.zeros((len(hazards), 1)), np.cumsum(hazards, axis=1)])
        place = at / self.times_[-1] * len(self.times_)
        below = np.minimum(place.astype(int), len(self.times_) - 1)
        part = place - below
        found: np.ndarray = cumulative[:, below] + part * hazards[:, below]
        return found

    def predict_survival_function(self, X: Any, times: Any = None) -> np.ndarray:
        """Chance of each record to be without the event at each time: records × times.

        Parameters
        ----------
        X
            Records × features.
        times
            Between 0 and the horizon; default: ``times_``.
        """
        found: np.ndarray = np.exp(-self.predict_cumulative_hazard_function(X, times))
        return found

    def predict_median(self, X: Any) -> np.ndarray:
        """The time at which half of the records like these have had the event; infinite where that is after the horizon."""
        ends = np.append(0.0, self.times_)
        cumulative = self.predict_cumulative_hazard_function(X, ends)
        found = np.full(len(cumulative), np.inf)
        reached = cumulative[:, -1] >= np.log(2)
        for i in np.flatnonzero(reached):
            found[i] = np.interp(np.log(2), cumulative[i], ends)
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Concordance of :meth:`predict` with the outcomes (Harrell's C): of the pairs of records of which it is known who had the event first, the share whose
        order is predicted. Exact, so not private for these records.

        Records without a time or an event are left out, with a warning that says how many.
        """
        refuse_weights({} if sample_weight is None else {"sample_weight": sample_weight})
        y, risk = outcomes(y), self.predict(X)
        same_length(risk, y)
        known, _ = scored(y["time"] >= 0, None, "a time and an event")
        return concordance(risk[known], y["time"][known], y["event"][known])

    def _rows_only(self, X: Any, units: Any) -> None:
        if units is not None:
            raise ValueError(
                "CoxRegressor protects each record by itself and has no units=; where a person has several records, make one of them beforehand: the time to the first event, say"
            )
        super()._rows_only(X, units)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    coef_noise_std_: np.ndarray


__all__ = ["CoxRegressor", "outcomes", "survival"]
