"""Private search: accounting, secrecy of the losers, refusals."""

import warnings

import dpopt
import numpy as np
import pytest
from dpopt import _core, accounting
from dpopt.select import PrivateSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (4000, 2))
    return X, (X[:, 0] > 0).astype(int)


def search(**kwargs):
    given = {"epsilon": 6.0, "delta": 1e-5, "expected_runs": 4, **kwargs}
    return PrivateSearchCV(
        dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="objective-perturbation"),
        {"regularization": [1.0, 1e6]}, **given,
    )  # fmt: skip


def test_a_search_pays_once_and_finds_a_useful_model(table):
    X, y = table
    ledger = dpopt.Ledger(6.0, 1e-5)
    fitted = search(budget=ledger).fit(X, y)
    assert ledger.remaining == (0.0, 0.0)
    assert 5.0 < fitted.privacy_.epsilon <= 6.0 and fitted.best_estimator_.privacy_ is fitted.privacy_
    # more than a third of the budget for each run, and never all of it
    assert 2.0 < fitted.best_estimator_.epsilon == fitted.plan_.run_epsilon < 6.0
    assert fitted.best_estimator_.delta <= 1e-5 / 4
    assert set(vars(fitted)) - set(fitted.get_params()) - {"estimator"} <= {
        "best_estimator_", "best_params_", "best_score_", "privacy_", "plan_", "param_candidates",
    }  # fmt: skip
    # K ≥ 1 candidates, each with probability 1/2 the useless one; its accuracy is still above chance or about it
    assert fitted.score(X, y) > 0.4


def test_the_better_candidate_wins_when_there_are_many_runs(table):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        fitted = search(expected_runs=30, epsilon=30.0, insecure_seed=5).fit(X, y)
        again = search(expected_runs=30, epsilon=30.0, insecure_seed=5).fit(X, y)
    assert fitted.best_params_ == again.best_params_ == {"regularization": 1.0}
    assert np.array_equal(fitted.best_estimator_.coef_, again.best_estimator_.coef_)


def test_the_number_of_runs_follows_its_law():
    # mean 5, variance 20; over 4000 draws the mean is within 0.36 (five standard deviations)
    draws = np.array([_core.repetitions(1.0, 5.0, seed) for seed in range(4000)])
    assert draws.min() == 1 and abs(draws.mean() - 5.0) < 0.36
    assert abs((draws == 1).mean() - 0.2) < 0.032
    assert _core.repetitions(1.0, 1.0, None) == 1
    poisson = np.array([_core.repetitions(np.inf, 3.0, seed) for seed in range(4000)])
    # mean 3/(1 - e^-3), variance below 3: within 0.14
    assert poisson.min() == 1 and abs(poisson.mean() - 3 / -np.expm1(-3)) < 0.14


@pytest.mark.parametrize("distribution", ["logarithmic", "geometric", "poisson"])
def test_every_law_searches_within_its_budget(table, distribution):
    X, y = table
    fitted = search(distribution=distribution, epsilon=3.0).fit(X, y)
    assert fitted.plan_ == search(distribution=distribution, epsilon=3.0).explain(4000, 2)
    assert fitted.privacy_.epsilon <= 3.0 and fitted.plan_.distribution == distribution
    assert fitted.privacy_.ledger[0][0]["label"] == "private selection" and "certified" in fitted.plan_._repr_html_()
    again = accounting.epsilon(fitted.privacy_.event, fitted.privacy_.delta)
    assert float(again) == pytest.approx(fitted.privacy_.epsilon, rel=1e-9)


def test_no_warning_of_a_single_run_leaves(table):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(budget=dpopt.Ledger(10.0, 1e-3)).fit(X, y)


def test_refusals(table):
    X, y = table
    with pytest.raises(ValueError, match="Pipeline of dpopt's public encoders"):
        PrivateSearchCV(make_pipeline(StandardScaler(), dpopt.LogisticRegression(classes=[0, 1])), [{}]).fit(X, y)
    with pytest.raises(ValueError, match="declare the classes"):
        PrivateSearchCV(dpopt.LogisticRegression(), [{}]).fit(X, y)
    with pytest.raises(ValueError, match="set by the search"):
        PrivateSearchCV(dpopt.LogisticRegression(classes=[0, 1]), {"epsilon": [1, 2]}).fit(X, y)
    with pytest.raises(ValueError, match="zero-out or replace-one"):
        search(neighbors="add-or-remove").fit(X, y)
    with pytest.raises(ValueError, match="no method"):
        PrivateSearchCV(dpopt.LogisticRegression(classes=[0, 1]), {"method": ["magic"]}, delta=1e-6).fit(X, y)
    ledger = dpopt.Ledger(1.0, 1e-6)
    with pytest.raises(dpopt.BudgetExceeded):
        search(budget=ledger).fit(X, y)


def test_pipelines_of_public_encoders_and_regression():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 10, (2000, 2))
    y = X[:, 0] / 10
    pipe = make_pipeline(dpopt.PublicScaler((0, 10)), dpopt.Ridge(bounds=(-1, 1), target_bounds=(0, 1)))
    fitted = PrivateSearchCV(pipe, {"ridge__alpha": [1.0, 5.0]}, epsilon=9.0, delta=1e-5, expected_runs=2).fit(X, y)
    assert fitted.predict(X[:3]).shape == (3,)
    assert 6.0 < fitted.best_estimator_[-1].privacy_.epsilon <= 9.0
