"""Estimators of one's own, made private by groups that agree."""

import dpopt
import numpy as np
import pandas
import pytest
from sklearn.linear_model import LinearRegression

RANGE = ([-2.0, -2.0], [2.0, 2.0])
TERMS = {"groups": 300, "epsilon": 2.0, "delta": 1e-6, "radius": 0.5}
SEEDED = {**TERMS, "insecure_seed": 1}
pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (30_000, 2))
    return X, X @ [1.0, -0.5] + 0.2 * rng.normal(size=30_000)


def slopes(X, y):
    return LinearRegression().fit(X, y).coef_


def test_an_estimator_of_ones_own_answers_privately(data):
    found = dpopt.aggregate(slopes, data, bounds=RANGE, **SEEDED)
    plan = dpopt.aggregate_plan(dimension=2, **TERMS)
    # what is released moves by one group's answer at most as far as the noise was planned for
    assert found.noise_std == pytest.approx(np.full(2, 2.0 * 0.5 * plan["noise_over_radius"]), rel=1e-3)
    assert np.abs(found.value - [1.0, -0.5]).max() < 5 * found.noise_std.max() + 0.05
    assert float(found.bound) <= 2.0 and found.event == plan["event"] and found.radius == 0.5
    with_threads = dpopt.aggregate(slopes, data, bounds=RANGE, **SEEDED, jobs=2)
    assert np.abs(with_threads.value - [1.0, -0.5]).max() < 5 * found.noise_std.max() + 0.05


def test_a_radius_is_found_and_too_few_that_agree_are_an_answer(data):
    terms = {**SEEDED, "groups": 600, "radius": None}
    found = dpopt.aggregate(slopes, data, bounds=RANGE, **terms)
    assert 0.01 < found.radius < 1.0 and np.abs(found.value - [1.0, -0.5]).max() < 0.5
    assert [record["count"] for record in found.records] == [1, 1]
    rng = np.random.default_rng(1)
    nothing = dpopt.aggregate(lambda X, y: rng.uniform(-2, 2, 2), data, bounds=RANGE, **{**SEEDED, "radius": 0.01})
    assert nothing.value is None and np.isnan(nothing.noise_std).all() and float(nothing.bound) <= 2.0


def test_what_goes_wrong_in_a_group_is_no_answer_and_not_shown(data, capsys):
    X, y = data
    y = y.copy()
    y[:8] = 1e6

    def fragile(X, y):
        if y.max() > 1e5:
            raise ValueError(f"a secret: {y.max()}")
        return slopes(X, y)

    found = dpopt.aggregate(fragile, (X, y), bounds=RANGE, **SEEDED)
    assert np.abs(found.value - [1.0, -0.5]).max() < 5 * found.noise_std.max() + 0.05
    for odd in (
        lambda X, y: [1.0],
        lambda X, y: [np.nan, 0.0],
        lambda X, y: "text",
        lambda X, y: exit(1),
        lambda X, y: None,
    ):
        assert dpopt.aggregate(odd, data, bounds=RANGE, **SEEDED).value is None
    assert capsys.readouterr() == ("", "")


def test_an_estimator_that_writes_into_one_buffer_still_answers_for_each_group(data):
    buffer = np.empty(2)

    def median(X, y):
        return np.median(X, axis=0, out=buffer)

    # one answer may be anything: if all were the last group's, all would agree at any radius
    found = dpopt.aggregate(median, data, bounds=RANGE, **{**SEEDED, "radius": 1e-5})
    assert found.value is None


def test_what_is_no_exception_is_no_answer_either(data):
    class Panic(BaseException):
        pass

    def panics(X, y):
        raise Panic("a secret")

    assert dpopt.aggregate(panics, data, bounds=RANGE, **SEEDED).value is None

    def stops(X, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dpopt.aggregate(stops, data, bounds=RANGE, **TERMS)


def test_units_are_in_one_group_with_all_their_rows(data):
    X, y = data
    persons = np.arange(len(X)) % 5000
    table = pandas.DataFrame(X, columns=["a", "b"]).assign(person=persons)
    seen = []

    def watched(X, y):
        assert list(X.columns) == ["a", "b"]
        seen.append(set((X.index % 5000).tolist()))
        return slopes(X.to_numpy(), y)

    ledger = dpopt.Ledger(epsilon=3.0, delta=1e-5, unit="person")
    found = dpopt.aggregate(watched, (table, y), bounds=RANGE, units="person", ledger=ledger, **TERMS)
    assert found.unit == "person" and ledger.remaining[0] < 1.01
    assert sum(map(len, seen)) == 5000 and len(set().union(*seen)) == 5000
    # a ledger takes secret noise only. With σ = .143 the bound is 5.7σ, missed by one of two entries with probability below 1e-7; that no answer comes
    # though all groups agree has 1e-9. An answer that is 10σ off is seen in all but 1e-4 of the runs
    assert np.abs(found.value - [1.0, -0.5]).max() < 5 * found.noise_std.max() + 0.1
    few = dpopt.aggregate(
        lambda X, y: [len(X) / 1000, 0], (table, y), bounds=RANGE, units="person", **SEEDED, unit=dpopt.Unit(max_rows=2)
    )
    # 5,000 persons with two of their six rows in 300 groups: 33 rows in each
    assert abs(few.value[0] - 0.033) < 5 * few.noise_std[0]


def test_a_seed_repeats_and_an_account_refuses(data):
    same = [dpopt.aggregate(slopes, data, bounds=RANGE, insecure_seed=4, **TERMS).value for _ in range(2)]
    assert (same[0] == same[1]).all()
    ledger = dpopt.Ledger(epsilon=1.0, delta=1e-5)
    called = []
    with pytest.raises(dpopt.BudgetExceeded):
        dpopt.aggregate(lambda X, y: called.append(1), data, bounds=RANGE, ledger=ledger, **TERMS)
    assert not called


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"groups": 20}, dpopt.PrivacyError, "20 groups are too few .* about [0-9]+ or more"),
        ({"groups": 0}, ValueError, "groups is 0"),
        ({"delta": 0.0}, dpopt.PrivacyError, "delta > 0"),
        ({"radius": 40.0}, dpopt.PrivacyError, "the radius is 40"),
        ({"outliers": 0.5}, dpopt.PrivacyError, "the share of outliers is 0.5"),
        ({"bounds": (0, 1)}, ValueError, "give dimension"),
        ({"bounds": ([0, 0], [1, np.inf])}, ValueError, "finite"),
        ({"bounds": ([0, 0, 0], [1, 1])}, ValueError, "do not fit an answer of 3"),
        ({"jobs": 0}, ValueError, "jobs is 0"),
        ({"bounds": ([-1e308, 0], [1e308, 1])}, ValueError, "finite"),
        ({"unit": dpopt.Unit(count=5)}, ValueError, "units= is not"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_called(data, change, error, message):
    called = []
    with pytest.raises(error, match=message):
        dpopt.aggregate(lambda X, y: called.append(1), data, **{"bounds": RANGE, **TERMS, **change})
    assert not called
    with pytest.raises(TypeError, match="give a function"):
        dpopt.aggregate("mean", data, bounds=RANGE, **TERMS)
    with pytest.raises(TypeError, match="rows cannot be taken"):
        dpopt.aggregate(lambda rows: called.append(1), {1.0, 2.0}, bounds=RANGE, **TERMS)
    assert not called
    with pytest.raises(ValueError, match="different numbers of rows"):
        dpopt.aggregate(slopes, (data[0], data[1][:-1]), bounds=RANGE, **TERMS)
