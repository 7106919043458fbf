"""Nothing is charged for what could be known before: at every entrance that takes a ledger, an ε for which no noise can be drawn is refused with the ledger as
it was, and one that is charged gives its answer."""

import warnings

import dpopt
import numpy as np
import pytest
from dpopt import ClippedSums, Ledger, mechanisms
from dpopt.federated import PrivateUpdates
from dpopt.online import Bandit, Experts, OnlineConvex
from dpopt.secure_sum import SecureSum
from dpopt.select import PrivateSearchCV

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
LABELS, TARGETS = (X[:, 0] > 0).astype(int), X[:, 0].clip(-2, 2)
COUNTS = [1, 2, 3] * 50
DELTA = 1e-6
ROOM = 1e305
ABSURD = (1e-300, 1e-9, 1e-4, 1e4, 1e9, 1e300)


def secure_sum(epsilon, budget):
    sums = SecureSum(clients=10, dimension=5, clip_norm=1.0, epsilon=epsilon, delta=DELTA, budget=budget)
    total = sum(sums.encode(np.ones(5)) for _ in range(10))
    sums.release(total & np.uint64(sums.modulus - 1))


def updates(epsilon, budget):
    rounds = PrivateUpdates(
        clip_norm=1.0, epsilon=epsilon, delta=DELTA, rounds=2, relation="replace-one", budget=budget
    )
    rounds.release([np.zeros(3)], [np.ones(3)])


def of(name, **more):
    """A function of `dpopt.mechanisms` as an entrance."""
    return lambda epsilon, budget: getattr(mechanisms, name)(epsilon=epsilon, ledger=budget, **more)


ENTRANCES = {
    "gaussian_sum": of("gaussian_sum", values=X, clip_norm=1.0, delta=DELTA),
    "laplace_sum": of("laplace_sum", values=X, clip_norm=1.0),
    "sparse_mean": of("sparse_mean", values=X, sparsity=2, delta=DELTA),
    "sparse_mean pure": of("sparse_mean", values=X, sparsity=2, delta=0),
    "second_moment": of("second_moment", values=X, row_norm=1.0, delta=DELTA),
    "histogram": of("histogram", values=COUNTS, categories=[1, 2]),
    "histogram of units": of("histogram", values=COUNTS, categories=[1, 2], units=list(range(50)) * 3, unit=dpopt.Unit(max_rows=2)),
    "discrete_laplace_counts": of("discrete_laplace_counts", counts=COUNTS),
    "discrete_gaussian_counts": of("discrete_gaussian_counts", counts=COUNTS, delta=DELTA),
    "choose": of("choose", scores=COUNTS),
    "choose exponential": of("choose", scores=COUNTS, mechanism="exponential", sensitivity=3),
    "quantiles": of("quantiles", values=X[:, :1], levels=[0.5]),
    "quantiles approximate": of("quantiles", values=X[:, :1], levels=[0.1, 0.5], delta=DELTA),
    "private_bounds": of("private_bounds", values=X),
    "private_bounds approximate": of("private_bounds", values=X, delta=DELTA),
    "MeanEstimator": lambda e, b: dpopt.MeanEstimator(e, DELTA, bounds=(-3, 3), budget=b).fit(X),
    "MeanEstimator in rounds": lambda e, b: dpopt.MeanEstimator(e, DELTA, bounds=(-3, 3), spread=0.2, budget=b).fit(X),
    "HeavyTailedMean": lambda e, b: dpopt.HeavyTailedMean(e, DELTA, budget=b).fit(RNG.normal(size=(600, 3))),
    "GaussianNB": lambda e, b: dpopt.GaussianNB(e, DELTA, bounds=(-3, 3), classes=[0, 1], budget=b).fit(X, LABELS),
    "PrivateScaler": lambda e, b: dpopt.PrivateScaler(e, DELTA, bounds=(-3, 3), budget=b).fit(X),
    "PCA": lambda e, b: dpopt.PCA(2, e, DELTA, bounds=(-3, 3), budget=b).fit(X),
    "CoxRegressor": lambda e, b: dpopt.CoxRegressor(e, DELTA, horizon=2.0, bounds=(-3, 3), budget=b).fit(
        X, dpopt.survival(np.abs(X[:, 0]), LABELS)
    ),
    "LogisticRegression": lambda e, b: dpopt.LogisticRegression(
        e, DELTA, bounds=(-3, 3), classes=[0, 1], budget=b
    ).fit(X, LABELS),
    "LinearRegression": lambda e, b: dpopt.LinearRegression(
        e, DELTA, bounds=(-3, 3), target_bounds=(-2, 2), budget=b
    ).fit(X, TARGETS),
    "PrivateSearchCV": lambda e, b: PrivateSearchCV(
        dpopt.LogisticRegression(classes=[0, 1], bounds=(-3, 3), method="output-perturbation"), {"row_norm": [0.5, 1.0]}, epsilon=e, delta=DELTA, budget=b
    ).fit(X, LABELS),
    "SecureSum": secure_sum,
    "PrivateUpdates": updates,
    "Experts": lambda e, b: Experts(3, 5, e, DELTA, budget=b).play(),
    "Bandit": lambda e, b: Bandit(3, 5, e, budget=b).play(),
    "OnlineConvex": lambda e, b: OnlineConvex(3, 5, e, DELTA, radius=1.0, budget=b).play(),
    "ClippedSums": lambda e, b: ClippedSums(
        np.zeros(3), dataset_size=300, sampling_probability=0.1, steps=3, clip_norm=1.0, epsilon=e, delta=DELTA, budget=b
    ),
    "minimize": lambda e, b: dpopt.minimize(
        dpopt.objectives.RobustRegression(3), (X, TARGETS), epsilon=e, delta=DELTA, distance=1.0, budget=b
    ),
    "aggregate": lambda e, b: dpopt.aggregate(
        lambda a: a.mean(axis=0), X, groups=30, bounds=(-1, 1), dimension=3, epsilon=e, delta=DELTA, ledger=b
    ),
}  # fmt: skip
#: of whom the ledger is kept, where not of a record under zero-out
KEPT_OF = {
    "histogram of units": ("user", "zero-out"), "SecureSum": ("client", "replace-one"), "PrivateUpdates": ("client", "replace-one"),
    "Experts": ("round", "zero-out"), "Bandit": ("round", "zero-out"), "OnlineConvex": ("round", "zero-out"),
}  # fmt: skip


@pytest.mark.parametrize("epsilon", ABSURD)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_an_epsilon_without_noise_costs_nothing(entrance, epsilon):
    unit, relation = KEPT_OF.get(entrance, ("record", "zero-out"))
    ledger = Ledger(ROOM, 0.1, unit=unit, relation=relation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ENTRANCES[entrance](epsilon, ledger)
        except (ValueError, dpopt.PrivacyError):
            assert not ledger.entries, "refused, and charged all the same"
        else:
            assert len(ledger.entries) == 1


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_the_entrances_are_open(entrance):
    """At an ordinary ε each of them is charged once, so that the refusals above are those of ε. The one that has to find a range first (of a heavy-tailed
    mean) finds none with probability below 1e-50."""
    unit, relation = KEPT_OF.get(entrance, ("record", "zero-out"))
    ledger = Ledger(100.0, 0.1, unit=unit, relation=relation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ENTRANCES[entrance](20.0, ledger)
    assert len(ledger.entries) == 1
