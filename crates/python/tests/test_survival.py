"""Proportional hazards: times to an event that are partly censored."""

import pickle

import dpopt
import numpy as np
import pandas as pd
import pytest
from dpopt._concordance import concordance
from dpopt._survival import CoxRegressor, outcomes
from sklearn.base import clone

HORIZON = 8.0
EFFECTS = np.array([1.0, -0.7, 0.0])
SEEDED = {"epsilon": 2.0, "delta": 1e-6, "horizon": HORIZON, "bounds": (-1, 1), "insecure_seed": 1}
RELATIONS = ("zero-out", "replace-one", "add-or-remove")
pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")


def cohort(n, seed):
    """A Weibull law, proportional hazards, and independent censoring."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 3))
    time = 3 * random.exponential(np.exp(-X @ EFFECTS)) ** (1 / 1.3)
    end = random.uniform(1, 9, n)
    return X, dpopt.survival(np.minimum(time, end), time <= end)


def truth(X, times):
    return np.exp(-np.exp(X @ EFFECTS)[:, None] * (np.asarray(times) / 3) ** 1.3)


def exact_cox(X, y):
    """The partial likelihood's maximum, by Newton's method (no ties)."""
    order = np.argsort(-y["time"])
    X, event, coef = X[order], y["event"][order], np.zeros(X.shape[1])
    for _ in range(15):
        weight = np.exp(X @ coef)
        zero, one = np.cumsum(weight), np.cumsum(weight[:, None] * X, axis=0)
        two = np.cumsum(weight[:, None, None] * X[:, :, None] * X[:, None, :], axis=0)
        mean = one / zero[:, None]
        information = (two / zero[:, None, None] - mean[:, :, None] * mean[:, None, :])[event].sum(axis=0)
        coef = coef + np.linalg.solve(information, (X - mean)[event].sum(axis=0))
    return coef


@pytest.fixture(scope="module")
def data():
    return cohort(12_000, 1)


@pytest.mark.parametrize("relation", RELATIONS)
def test_effects_and_curves_are_those_of_the_exact_fit(data, relation):
    X, y = data
    more = {"n_rows": len(X)} if relation == "add-or-remove" else {}
    model = dpopt.CoxRegressor(**SEEDED, neighbors=relation, **more).fit(X, y)
    exact = exact_cox(X, y)
    # a period is a thirty-second of the horizon: up to an eighth of an effect is lost to that and to clips
    assert np.abs(model.coef_ - exact).max() < 0.25
    new, outcome = cohort(4000, 2)
    assert model.score(new, outcome) > concordance(new @ exact, outcome["time"], outcome["event"]) - 0.01
    times = [1.0, 2.0, 4.0, 8.0]
    found = model.predict_survival_function(new, times)
    assert np.abs(found - truth(new, times)).mean(axis=0).max() < 0.07
    assert model.privacy_.relation == relation and model.privacy_.epsilon <= 2.0
    assert str(model.privacy_).startswith("(2, 1e-6)-differential privacy per record")


def test_curves_begin_at_one_and_fall(data):
    X, y = data
    model = dpopt.CoxRegressor(**SEEDED).fit(X[:3000], y[:3000])
    curves = model.predict_survival_function(X[:50], np.linspace(0, HORIZON, 100))
    assert (curves[:, 0] == 1).all() and (np.diff(curves, axis=1) < 0).all() and (curves > 0).all()
    at_ends = model.predict_cumulative_hazard_function(np.zeros((1, 3)))
    assert np.allclose(at_ends[0], model.baseline_cumulative_hazard_) and at_ends.shape == (1, 32)
    median = model.predict_median(X[:50])
    seen = np.isfinite(median)
    assert seen.any()
    halves = [model.predict_survival_function(X[i : i + 1], [median[i]])[0, 0] for i in np.flatnonzero(seen)]
    assert np.allclose(halves, 0.5)
    assert (model.predict_survival_function(X[:50])[~seen, -1] > 0.5).all()
    # who has the larger risk has the lower curve, and a missing number counts as the middle of its bounds
    order = np.argsort(model.predict(X[:50]))
    assert (np.diff(curves[order, 60]) <= 1e-12).all()
    assert np.array_equal(model.predict([[np.nan, 0.5, 0.1]]), model.predict([[0.0, 0.5, 0.1]]))


def test_what_a_record_counts_for_is_its_time_and_its_event():
    """Its rows, by hand: followed to the nearest end of a period, the event in the last."""
    ends = np.array([1.0, 2.0, 3.0])
    nan = np.nan
    cases = [
        (0.4, False, [nan, nan, nan]), (0.4, True, [1, nan, nan]), (1.4, False, [0, nan, nan]), (1.6, True, [0, 1, nan]),
        (3.0, True, [0, 0, 1]), (3.1, True, [0, 0, 0]), (np.inf, True, [0, 0, 0]), (2.6, False, [0, 0, 0]), (nan, True, [nan] * 3),
        (-1.0, True, [nan] * 3), (0.0, True, [1, nan, nan]), (2.0, nan, [nan] * 3),
    ]  # fmt: skip
    y = dpopt.survival([c[0] for c in cases], [c[1] for c in cases])
    X = np.arange(len(cases), dtype=float)[:, None]
    rows, happened = CoxRegressor._periods(X, y, ends, CoxRegressor._baseline(3))
    assert np.array_equal(happened.reshape(-1, 3), [c[2] for c in cases], equal_nan=True)
    # as many rows of each, whose last three are the baseline's
    assert np.array_equal(rows[:, 0], np.repeat(X[:, 0], 3)) and np.array_equal(rows[3:6, 1:], np.eye(3))
    assert np.allclose(CoxRegressor._baseline(32).sum(axis=1), 1) and CoxRegressor._baseline(32).shape == (32, 6)


def test_targets_are_read_in_each_form(data):
    X, y = data
    X, y = X[:600], y[:600]
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    named = {"time": y["time"], "event": y["event"]}
    forms = [
        y, np.rec.fromarrays([y["time"], y["event"]], names="t,e"), pd.DataFrame(named), pd.DataFrame({"Duration": y["time"], "STATUS": y["event"].astype(float)}),
        pd.DataFrame(named).astype({"event": "bool[pyarrow]"}), polars.DataFrame(named), arrow.table(named),
    ]  # fmt: skip
    weights = [dpopt.CoxRegressor(**SEEDED).fit(X, form).coef_ for form in forms]
    assert all(np.array_equal(found, weights[0]) for found in weights)
    for wrong in (y["time"], [1.0, 2.0], pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({0: [1.0], 1: [True]}), np.zeros((600, 2)), None,
                  np.zeros(600, dtype=[("a", bool), ("b", bool)]), np.zeros(600, dtype=[("a", bool), ("b", float), ("c", float)])):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=r"dpopt.survival\(time, event\)|requires y|not text"):
            dpopt.CoxRegressor(**SEEDED).fit(X, wrong)


def test_a_missing_cell_changes_no_more_than_its_record():
    """Types of a table's columns follow from all cells: what is read and refused does not follow from them."""
    for event in (
        [True, None, False],
        pd.array([True, None, False], dtype="boolean"),
        [1.0, np.nan, 0.0],
        [1, 2, 0],
        [1, -1, 0],
        [1, np.inf, 0],
    ):
        for time in ([1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0], dtype=object)):
            found = outcomes(pd.DataFrame({"time": time, "event": event}))
            assert np.array_equal(found["time"], [1, np.nan, 3], equal_nan=True) and found["event"].tolist() == [
                True,
                False,
                False,
            ]
    with pytest.raises(ValueError, match="time has 3 entries and event has 2"):
        dpopt.survival([1, 2, 3], [0, 1])
    with pytest.raises(TypeError, match="give numbers .*dead"):
        dpopt.survival([1.0, 2.0], pd.Series(["dead", "alive"], dtype="category"))
    with pytest.raises(TypeError, match=r"give numbers .*\.dt\.days"):
        dpopt.survival(pd.Series(pd.to_timedelta([1, 2], unit="D")), [0, 1])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"horizon": None}, "give horizon="), ({"horizon": -1.0}, "positive"), ({"horizon": np.inf}, "positive"), ({"periods": 1}, "from 2 to 1000"),
        ({"periods": 3.5}, "whole number"), ({"bounds": (1, 0)}, "lower < upper"), ({"method": "objective-perturbation"}, "objective-perturbation"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_before_a_charge(data, change, why):
    X, y = data
    ledger = dpopt.Ledger(epsilon=5.0, delta=1e-5)
    given = {**{k: v for k, v in SEEDED.items() if k != "insecure_seed"}, "budget": ledger, **change}
    with pytest.raises((ValueError, dpopt.PrivacyError), match=why):
        dpopt.CoxRegressor(**given).fit(X[:500], y[:500])
    assert not ledger.entries


def test_bounds_that_are_far_too_wide_move_no_curve():
    """A record in the middle of the bounds may have a hazard beyond what is told apart, and those who occur have not."""
    random = np.random.default_rng(1)
    age = random.uniform(20, 50, 6000)
    time, end = random.exponential(20 * np.exp(-0.1 * (age - 35))), random.uniform(5, 20, 6000)
    y = dpopt.survival(np.minimum(time, end), time <= end)
    new = np.array([[25.0], [35.0], [45.0]])
    exact = np.exp(-10 / 20 * np.exp(0.1 * (new[:, 0] - 35)))
    for upper in (60, 150):
        model = dpopt.CoxRegressor(8.0, 1e-6, horizon=20.0, bounds=(0, upper), insecure_seed=1).fit(age[:, None], y)
        assert np.abs(model.predict_survival_function(new, [10.0])[:, 0] - exact).max() < 0.08


def test_a_horizon_that_is_far_too_long_is_reported(data):
    X, y = data
    with pytest.warns(dpopt.PrivacyWarning, match="give a shorter horizon"):
        dpopt.CoxRegressor(**{**SEEDED, "horizon": 3000.0, "periods": 4}).fit(X[:3000], y[:3000])
    # events at the horizon itself are seen
    odd = dpopt.CoxRegressor(**{**SEEDED, "horizon": 0.7, "periods": 3})
    assert odd._ends()[-1] == 0.7
    _, happened = CoxRegressor._periods(np.zeros((1, 1)), dpopt.survival([0.7], [True]), odd._ends(), odd._baseline(3))
    assert happened.tolist() == [0, 0, 1]


def test_fits_of_a_table_are_counted_whatever_the_periods_are(data):
    X, y = data
    given = {k: v for k, v in SEEDED.items() if k != "insecure_seed"}
    frame = pd.DataFrame(X[:300], columns=["one", "of these", "columns"])
    dpopt.CoxRegressor(**given, periods=3).fit(frame, y[:300])
    with pytest.warns(dpopt.PrivacyWarning, match="has now fitted 2 models on tables with these 3 columns"):
        dpopt.CoxRegressor(**given, periods=5).fit(frame, y[:300])


def test_other_formats_and_searches_are_refused(data):
    X, y = data
    model = dpopt.CoxRegressor(**SEEDED).fit(X[:300], y[:300])
    for write in (dpopt.export.to_sklearn, dpopt.export.to_onnx):
        with pytest.raises(ValueError, match="CoxRegressor is not written in other formats"):
            write(model)
    with pytest.raises(ValueError, match="fit it by itself"):
        dpopt.select.PrivateSearchCV(model, [{}], epsilon=5.0, delta=1e-5, expected_runs=1).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="CoxRegressor"):
        dpopt.CoxRegressor(**SEEDED, method=dpopt.methods.Auto(intervals=0.9)).fit(X[:300], y[:300])


def test_units_and_weights_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="the time to the first event"):
        dpopt.CoxRegressor(**SEEDED).fit(X[:500], y[:500], units=np.arange(500))
    with pytest.raises((TypeError, ValueError), match="weigh"):
        dpopt.CoxRegressor(**SEEDED).fit(X[:500], y[:500], sample_weight=np.ones(500))


def test_a_fit_is_one_charge_of_records(data):
    X, y = data
    ledger = dpopt.Ledger(epsilon=5.0, delta=1e-5)
    model = dpopt.CoxRegressor(epsilon=1.0, delta=1e-6, horizon=HORIZON, bounds=(-1, 1), budget=ledger).fit(
        X[:800], y[:800]
    )
    (entry,) = ledger.entries
    assert (entry.name, entry.epsilon, entry.delta) == ("CoxRegressor", 1.0, 1e-6)
    assert model.plan_.n_units == 800 and model.plan_.n_rows == 800 * 32
    assert (model.privacy_.unit, model.privacy_.unit_column) == ("record", None)
    with pytest.raises(ValueError, match="ledger"):
        dpopt.CoxRegressor(
            epsilon=1.0,
            delta=1e-6,
            horizon=HORIZON,
            bounds=(-1, 1),
            budget=dpopt.Ledger(epsilon=5.0, delta=1e-5, unit="person"),
        ).fit(X, y)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_plan_before_the_records_is_the_fits(data, relation):
    X, y = data
    more = {"n_rows": 700} if relation == "add-or-remove" else {}
    model = dpopt.CoxRegressor(**SEEDED, neighbors=relation, **more)
    fitted = dpopt.CoxRegressor(**SEEDED, neighbors=relation, **more).fit(X[:700], y[:700]).plan_
    for plan in (model.explain(X[:700]), model.explain(n_rows=700, n_features=3)):
        assert (plan.event, plan.method, plan.schedule) == (fitted.event, fitted.method, fitted.schedule)
        assert (plan.n_rows, plan.n_units) == (700 * 32, 700)


def test_frames_clones_copies_and_reports(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X[:900], columns=["age", "dose", "<b>"])
    bounds = {"age": (-1, 1), "dose": (-1, 1), "<b>": (-1, 1)}
    model = clone(dpopt.CoxRegressor(**{**SEEDED, "bounds": bounds})).fit(frame, y[:900])
    plain = dpopt.CoxRegressor(**SEEDED).fit(X[:900], y[:900])
    assert np.array_equal(model.coef_, plain.coef_) and list(model.feature_names_in_) == list(bounds)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_survival_function(frame), model.predict_survival_function(frame))
    text = model.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    assert "dpopt.CoxRegressor.fit" in text and "cut into 32 periods" in text and "dose" in text and "<b>" not in text
    with pytest.raises(ValueError, match="between 0 and the horizon"):
        model.predict_survival_function(frame, [9.0])
    # without bounds: said, and clipped to [-1, 1]
    with pytest.warns(dpopt.PrivacyWarning, match="no public bounds"):
        dpopt.CoxRegressor(**{**SEEDED, "bounds": None}).fit(X[:900], y[:900])


def brute(risk, time, event):
    pairs = right = 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        pairs += later.sum()
        right += (risk[later] < risk[i]).sum() + 0.5 * (risk[later] == risk[i]).sum()
    return right / pairs if pairs else None


@pytest.mark.parametrize("seed", range(12))
def test_concordance_counts_each_pair(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 1700))
    risk, time = random.integers(0, 9, n).astype(float), random.integers(0, [3, 20, 5000][seed % 3], n).astype(float)
    event = random.random(n) < 0.5
    expected = brute(risk, time, event)
    assert expected is not None and abs(concordance(risk, time, event) - expected) < 1e-12


def test_scores_leave_out_who_is_unknown(data):
    X, y = data
    model = dpopt.CoxRegressor(**SEEDED).fit(X[:900], y[:900])
    known = model.score(X[:300], y[:300])
    lost = y[:310].copy()
    lost["time"][300:] = np.nan
    with pytest.warns(UserWarning, match="10 of 310 records"):
        assert model.score(X[:310], lost) == known
    with pytest.raises(ValueError, match="no pair"):
        model.score(X[:5], dpopt.survival(np.ones(5), np.zeros(5)))
