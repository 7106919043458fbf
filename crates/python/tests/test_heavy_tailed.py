"""Means of columns without a known range: intervals, units, ledgers, refusals."""

import dpopt
import numpy as np
import pytest
from dpopt import HeavyTailedMean, Ledger, PrivacyError

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

COMMON = {"epsilon": 1.0, "delta": 1e-6, "insecure_seed": 1}


def pareto(rows, columns=1, seed=0):
    """Mean 1.5, second moment 3."""
    return np.random.default_rng(seed).pareto(3, (rows, columns)) + 1


def test_the_parts_add_up_and_the_plan_knew_them():
    X = pareto(5000, 2)
    est = HeavyTailedMean(moment={0: (2, 1.7321), 1: (2, 2.0, 1.0)}, **COMMON).fit(X)
    low, high = est.confidence_interval_.T
    assert (low < 1.5).all() and (high > 1.5).all() and (np.abs(est.mean_ - 1.5) < 0.2).all()
    half = est.noise_bound_ + est.sampling_bound_ + est.bias_bound_
    assert high - low == pytest.approx(2 * half, rel=1e-9)
    assert est.centre_.tolist() == [0.0, 1.0] and est.moment_root_.tolist() == [1.7321, 2.0]
    plan = HeavyTailedMean(moment={0: (2, 1.7321), 1: (2, 2.0, 1.0)}, **COMMON).explain(n_rows=5000, n_features=2)
    assert plan == est.plan_ and plan.method == "clipped-laplace"
    column = plan.schedule["columns"][1]
    assert est.noise_std_[1] == pytest.approx(2.0 * column["noise_std"])
    assert sum(column["half_width"].values()) * 2.0 >= half[1]
    assert est.guarantee_.epsilon <= 1.0 and est.privacy_.unit == "record" and "column" in est.report()


def test_intervals_hold():
    # each misses with probability 5 % at most: 23 of 100 or more have a probability below 1e-8
    missed = 0
    for seed in range(100):
        est = HeavyTailedMean(moment=(2, 1.7321), epsilon=0.5, delta=0.0, insecure_seed=seed).fit(
            pareto(500, seed=seed)
        )
        low, high = est.confidence_interval_[0]
        missed += not low <= 1.5 <= high
    assert missed < 23


def test_the_order_alone_releases_centre_and_scale_first():
    X = 1000 + np.random.default_rng(1).standard_t(3, (8000, 1))
    est = HeavyTailedMean(moment=2, **COMMON).fit(X)
    assert abs(est.centre_[0] - 1000) < 50 and est.confidence_interval_[0][0] < 1000 < est.confidence_interval_[0][1]
    assert est.plan_.event.to_json().count("ExponentialMechanism") >= 1
    assert est.plan_.schedule["ranges"]["records"] < 2000
    with pytest.raises(PrivacyError, match="records at this budget"):
        HeavyTailedMean(moment=2, **COMMON).fit(X[:500])
    with pytest.raises(PrivacyError, match="which others have rows"):
        HeavyTailedMean(moment=2, **COMMON).fit(X, units=np.arange(8000) // 2)
    with pytest.raises(PrivacyError, match="borders"):
        HeavyTailedMean(moment=2, neighbors="add-or-remove", n_rows=8000, **COMMON).fit(X)


def test_what_ranges_cost_is_what_was_planned_whatever_the_number_of_rows():
    # δ follows the number of rows, and with it the last bit of ε of each choice
    for rows in range(12_000, 18_001, 750):
        X = np.random.default_rng(0).uniform(-1, 1, (rows, 3))
        ledger = dpopt.Ledger(1.0, 1e-2)
        # a ledger takes no seed. An end of a range that is 1,200 ranks off at ε = .12 has probability e^-70. Noise is Laplace's of scale .03 at
        # 12,000 rows, less at more: one of three entries is beyond .5 with probability below 5e-7 in all, and one
        # that is 1 off is seen in all but 1e-7 of the runs
        found = dpopt.HeavyTailedMean(epsilon=0.5, moment=2.0, budget=ledger).fit(X)
        assert np.abs(found.mean_).max() < 0.5 and ledger.spent[0] == 0.5


def test_units_have_the_mean_of_their_rows_and_missing_numbers_are_the_centre():
    X = np.array([[1.0, np.nan], [3.0, 8.0], [5.0, np.inf], [7.0, 4.0]])
    many = {"epsilon": 1e6, "delta": 0.0, "insecure_seed": 1, "moment": (2, 1e3)}
    assert HeavyTailedMean(**many).fit(X).mean_ == pytest.approx([4.0, 3.0], abs=0.1)
    est = HeavyTailedMean(**many).fit(X, units=["a", "a", "b", None])
    assert est.mean_ == pytest.approx([3.5, 4.0], abs=0.1)
    assert est.privacy_.unit == "user"
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": X[:, 0], "who": ["a", "a", "b", "b"]})
    named = HeavyTailedMean(**{**many, "moment": {"x": (2, 1e3)}})
    assert named.fit(table, units="who").mean_ == pytest.approx([4.0], abs=0.1)
    assert named.privacy_.unit_column == "who"
    assert named.explain(table, units="who") == named.plan_


def test_the_number_of_rows_is_released_where_it_is_protected():
    est = HeavyTailedMean(moment=(2, 1.7321), neighbors="add-or-remove", n_rows=4000, **COMMON).fit(pareto(5000))
    assert abs(est.mean_[0] - 1.5) < 0.2 and est.confidence_interval_[0][0] < 1.5 < est.confidence_interval_[0][1]


def test_a_ledger_pays_before_anything_is_read_and_refuses_what_is_left_over():
    ledger = Ledger(epsilon=1.5, delta=1e-5)
    X = pareto(1000)
    HeavyTailedMean(epsilon=1.0, delta=1e-6, moment=(2, 2.0), budget=ledger).fit(X)
    assert [e.name for e in ledger.entries] == ["HeavyTailedMean"]
    with pytest.raises(dpopt.BudgetExceeded):
        HeavyTailedMean(epsilon=1.0, delta=1e-6, moment=(2, 2.0), budget=ledger).fit(X)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"moment": (1, 2)}, "above 1"),
        ({"moment": (2, -1.0)}, "1e-60"),
        ({"moment": "2:3"}, "moment"),
        ({"moment": (2, 1, 0, 0)}, "moment"),
        ({"moment": {}}, "says nothing"),
        ({"moment": {"z": (2, 1.0)}}, "no column"),
        ({"confidence": 1.0}, "confidence"),
        ({"spread_factor": 0.0}, "spread factor"),
        ({"method": "median"}, "clipped-laplace"),
        ({"method": "clipped-gaussian", "delta": 0.0}, "delta > 0"),
    ],
)
def test_what_is_wrong_is_refused(wrong, says):
    with pytest.raises((TypeError, ValueError, PrivacyError), match=says):
        HeavyTailedMean(**{**COMMON, "moment": (2, 2.0), **wrong}).fit(pareto(100))
