"""Sparse models keep at most k features and find the right ones."""

import numpy as np
import pytest
import scipy.sparse as sp

import dpopt


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (6000, 40))
    return X, np.where(X[:, 3] - X[:, 20] > 0, 1, 0), X[:, 3] - 0.8 * X[:, 20]


@pytest.mark.parametrize("method", ["dp-gd-ht", "dp-sgd-ht", "dp-svrg-ht", "dp-scsg-ht", "auto"])
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
    kwargs = dict(max_features=2, epsilon=8.0, delta=1e-6, row_norm=4.0, target_bounds=(-1.8, 1.8))
    model = dpopt.SparseLinearRegression(**kwargs).fit(sp.csr_matrix(X), y)
    assert model.get_support(indices=True).tolist() == [3, 20]
    assert (model.coef_ != 0).sum() == 2


def test_wrong_numbers_of_features_are_refused(table):
    X, y, _ = table
    for wrong in (0, 1.5, None):
        with pytest.raises(ValueError, match="max_features"):
            dpopt.SparseLogisticRegression(max_features=wrong, classes=[0, 1], bounds=(-1, 1)).fit(X, y)
