"""Sparse models keep at most k features and find the right ones."""

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (6000, 40))
    return X, np.where(X[:, 3] - X[:, 20] > 0, 1, 0), X[:, 3] - 0.8 * X[:, 20]


@pytest.mark.parametrize("method", ["dp-gd-ht", "dp-sgd-ht", "dp-svrg-ht", "dp-scsg-ht", "peeling", "auto"])
def test_classifier_finds_the_features_within_its_budget(table, method):
    X, y, _ = table
    # few long steps are not for the variance-reduced methods (docs/methods/hard-thresholding.md): more budget does not help them
    accuracy = 0.85 if method in ("dp-svrg-ht", "dp-scsg-ht") else 0.9
    model = dpopt.SparseLogisticRegression(
        max_features=2, epsilon=8.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], method=method, insecure_seed=1
    )
    with pytest.warns(dpopt.PrivacyWarning):
        model.fit(X, y)
    assert model.get_support(indices=True).tolist() == [3, 20]
    assert 0 < model.privacy_.epsilon <= 8.0 and model.score(X, y) > accuracy
    assert model.predict_proba(X).shape == (6000, 2)
    assert "--max-features" in model.report() or "dp-gd-ht" in model.report()


def test_regressor_and_sparse_input(table):
    X, _, y = table
    kwargs = dict(max_features=2, epsilon=8.0, delta=1e-6, row_norm=4.0, target_bounds=(-1.8, 1.8), insecure_seed=1)
    with pytest.warns(dpopt.PrivacyWarning):
        model = dpopt.SparseLinearRegression(**kwargs).fit(sp.csr_matrix(X), y)
    assert model.get_support(indices=True).tolist() == [3, 20]
    assert (model.coef_ != 0).sum() == 2


def test_frank_wolfe_finds_features_among_many_and_keeps_its_norm():
    rng = np.random.default_rng(3)
    row, column = rng.integers(0, 4000, 20_000), rng.integers(0, 50_000, 20_000)
    X = sp.coo_matrix((np.full(20_000, 0.3), (row, column)), (4000, 50_000)).tolil()
    y = rng.integers(0, 2, 4000)
    X[y == 1, 7] = 1.0
    X[y == 0, 11] = 1.0
    model = dpopt.SparseLogisticRegression(
        max_features=8,
        epsilon=4.0,
        delta=1e-6,
        row_norm=1.0,
        classes=[0, 1],
        method=dpopt.methods.FrankWolfe(l1_norm=8.0, steps=8),
        fit_intercept=False,
        insecure_seed=1,
    )
    with pytest.warns(dpopt.PrivacyWarning):
        model.fit(X.tocsr(), y)
    assert np.abs(model.coef_).sum() <= 8.0 + 1e-9
    assert {7, 11} <= set(model.get_support(indices=True).tolist()) and len(model.get_support(indices=True)) <= 8
    assert model.score(X.tocsr(), y) > 0.95 and 0 < model.privacy_.epsilon <= 4.0


@pytest.mark.parametrize("law", ["gumbel", "laplace"])
def test_peeling_needs_no_delta(table, law):
    X, _, y = table
    kwargs = dict(
        max_features=2,
        bounds=(-1, 1),
        target_bounds=(-1.8, 1.8),
        method=dpopt.methods.Peeling(peeling=law),
        insecure_seed=1,
    )
    with pytest.warns(dpopt.PrivacyWarning):
        model = dpopt.SparseLinearRegression(epsilon=8.0, delta=0.0, **kwargs).fit(X, y)
    assert model.get_support(indices=True).tolist() == [3, 20]
    assert (model.privacy_.epsilon, model.privacy_.delta) == (pytest.approx(8.0, rel=1e-6), 0.0)
    with pytest.raises(ValueError, match="peeling|gumbel"):
        dpopt.SparseLinearRegression(
            epsilon=8.0, delta=0.0, **{**kwargs, "method": dpopt.methods.Peeling(peeling="uniform")}
        ).fit(X, y)


def test_wrong_numbers_of_features_are_refused(table):
    X, y, _ = table
    for wrong in (0, 1.5, None):
        with pytest.raises(ValueError, match="max_features"):
            dpopt.SparseLogisticRegression(max_features=wrong, classes=[0, 1], bounds=(-1, 1)).fit(X, y)
