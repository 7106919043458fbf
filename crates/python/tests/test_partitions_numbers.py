"""Numbers in parts: means, quantiles, ranges: the same bits as in one process."""

import dpopt
import numpy as np
import pytest
from dpopt import mechanisms
from dpopt.partitions import Here
from sklearn.base import clone

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

N = 1500
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (N, 4)) * 30 + 5
X[::17, 1], X[::23, 2] = np.nan, np.inf
IDS = RNG.integers(0, 200, N)
ENDS = ([N], [700, N], [0, 1, 300, 300, 900, N - 1, N])
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "insecure_seed": 1}


def cut(ends, *columns, **options):
    return Here([tuple(c if c is None else c[a:b] for c in columns) for a, b in zip([0, *ends[:-1]], ends)], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": (-40, 40)},
        {"row_norm": 50},
        {"bounds": (-40, 40), "spread": 0.5},
        {"bounds": (-40, 40), "neighbors": "add-or-remove", "n_rows": 1400},
    ],
    ids=["bounds", "norm", "rounds", "guess"],
)
def test_a_mean_is_the_same_bits_whatever_the_parts_are(options):
    model = dpopt.MeanEstimator(**options, **BUDGET)
    whole = clone(model).fit(X)
    for ends in ENDS:
        found = clone(model).fit(cut(ends, X, None))
        assert np.array_equal(found.mean_, whole.mean_) and np.array_equal(found.noise_std_, whole.noise_std_)
        assert found.privacy_.epsilon == whole.privacy_.epsilon and found.plan_.event == whole.plan_.event
    # targets are of no interest
    assert np.array_equal(clone(model).fit(cut([700, N], X, IDS)).mean_, whole.mean_)


@pytest.mark.parametrize("spread", [None, 0.5])
def test_a_mean_of_units_is_the_same_bits_whatever_the_parts_are(spread):
    model = dpopt.MeanEstimator(bounds=(-40, 40), spread=spread, **BUDGET, unit=dpopt.Unit(count=250))
    whole = clone(model).fit(X, units=IDS)
    for ends in ENDS:
        found = clone(model).fit(cut(ends, X, None, IDS, units="user"))
        assert np.array_equal(found.mean_, whole.mean_)
        assert found.privacy_.unit == whole.privacy_.unit == "user"
    with pytest.raises(ValueError, match="secret choice"):
        clone(model).set_params(unit__max_rows=3).fit(cut([N], X, None, IDS, units="user"))


def test_quantiles_and_ranges_are_the_same_as_in_one_process():
    one = X[:, 1:2]
    for ends in ENDS:
        for levels in ([0.5], [0.9, 0.1, 0.5]):
            there = mechanisms.quantiles(cut(ends, one, None), levels, epsilon=1.0, insecure_seed=3)
            assert there.value == mechanisms.quantiles(one, levels, epsilon=1.0, insecure_seed=3).value
        there = mechanisms.private_bounds(cut(ends, X, None), epsilon=1.0, insecure_seed=3)
        here = mechanisms.private_bounds(X, epsilon=1.0, insecure_seed=3)
        assert all(np.array_equal(a, b) for a, b in zip(there.value, here.value))
        assert there.value[0][0] < there.value[1][0]


@pytest.mark.parametrize(
    "options", [{}, {"heavy_tailed": (2, 40, 5)}, {"heavy_tailed": 2}], ids=["none", "moment", "order"]
)
def test_the_range_of_a_target_is_found_in_parts(options):
    y = np.where(RNG.random(N) < 0.05, np.nan, X[:, 0] * 2 + 7)
    y[3], y[4] = np.inf, -np.inf
    rows = X / 50
    for epsilon in (2.0, 0.05):
        # at the smaller epsilon these are too few rows to look for a range
        model = dpopt.LinearRegression(
            epsilon,
            1e-6,
            bounds=(-1, 1),
            encoding=None,
            insecure_seed=1,
            method=dpopt.methods.NoisyGradientDescent(steps=5),
            **options,
        )
        whole = clone(model).fit(rows, y)
        for ends in ENDS:
            found = clone(model).fit(cut(ends, rows, y))
            assert found.target_range_ == whole.target_range_
            assert np.array_equal(found.coef_, whole.coef_) and np.array_equal(found.intercept_, whole.intercept_)
            assert found.privacy_.epsilon == whole.privacy_.epsilon
        assert (whole.target_range_ == (-1, 1)) == (epsilon < 1 and options.get("heavy_tailed") != (2, 40, 5))


def test_what_has_no_public_shape_is_refused_with_the_reason():
    parts = cut([700, N], X, None)
    with pytest.raises(ValueError, match="private_bounds"):
        dpopt.HeavyTailedMean().fit(parts)
    with pytest.raises(ValueError, match="before the first pass"):
        mechanisms.frequent_labels(parts, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="secret choice"):
        mechanisms.quantiles(cut([N], X[:, :1], None, IDS, units="user"), [0.5], epsilon=1.0)
    with pytest.raises(ValueError, match="secret choice"):
        mechanisms.private_bounds(parts, epsilon=1.0, units=IDS)
    with pytest.raises(ValueError, match="one column"):
        mechanisms.quantiles(parts, [0.5], epsilon=1.0)
    with pytest.raises(ValueError, match="no targets"):
        dpopt.LinearRegression(target_bounds=(-1, 1)).fit(parts)
    with pytest.raises(ValueError, match="units= where the partitions are made"):
        dpopt.MeanEstimator(bounds=(-1, 1)).fit(parts, units=IDS)
    with pytest.raises(ValueError, match="some have none"):
        Here([(X, None), (X, IDS)])


def test_a_lost_part_ends_a_mean_and_keeps_the_charge():
    class Losing(Here):
        asked = 0

        def ask_partitions(self, message):
            self.asked += 1
            answers = super().ask_partitions(message)
            return answers if self.asked == 1 else answers[1:]

    ledger = dpopt.Ledger(epsilon=2.0, delta=1e-5)
    model = dpopt.MeanEstimator(1.0, 1e-6, bounds=(-1, 1), budget=ledger)
    with pytest.raises(dpopt.PrivacyError, match="partition 0 was lost by the engine"):
        model.fit(Losing([(X[:700], None), (X[700:], None)]))
    assert ledger.spent[0] > 0.9


def test_a_failure_of_the_engine_is_the_cause_and_an_interruption_is_one():
    class Failing(Here):
        def ask_partitions(self, message):
            if getattr(self, "late", False):
                raise self.error
            self.late = True
            return super().ask_partitions(message)

    for error in (RuntimeError("the cluster is gone"), KeyboardInterrupt()):
        parts = Failing([(X, None)])
        parts.error = error
        with pytest.raises((dpopt.PrivacyError, KeyboardInterrupt)) as raised:
            dpopt.MeanEstimator(**BUDGET, bounds=(-1, 1)).fit(parts)
        assert raised.value is error or raised.value.__cause__ is error
        assert isinstance(raised.value, KeyboardInterrupt) == isinstance(error, KeyboardInterrupt)
