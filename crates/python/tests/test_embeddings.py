"""Embedding models: what they learn, that predictions are the released model, options."""

import json
import pickle
import warnings

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

USERS, ITEMS = 20, 30
BUDGET = {"epsilon": 8.0, "delta": 1e-6}
SIDES = {"towers": (slice(0, USERS), slice(USERS, USERS + ITEMS))}


@pytest.fixture(scope="module")
def likes():
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, USERS, 20000), rng.integers(0, ITEMS, 20000)
    X = sp.hstack([sp.eye(USERS, format="csr")[user], sp.eye(ITEMS, format="csr")[item]], format="csr")
    return X, (user + item) % 2


@pytest.mark.parametrize("select_rows", [False, True])
def test_two_towers_learn_pairs(likes, select_rows):
    X, y = likes
    model = dpopt.TwoTowerClassifier(
        **BUDGET,
        **SIDES,
        row_norm=2**0.5,
        classes=[0, 1],
        embedding_dim=4,
        insecure_seed=1,
        method=dpopt.methods.EmbeddingSGD(steps=150, learning_rate=8.0, select_rows=select_rows),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.plan_.method == "embedding-sgd" and 0 < model.privacy_.epsilon <= 8.0
    assert ("selection" in model.plan_.schedule) == select_rows
    assert model.embeddings_.shape == (USERS + ITEMS, 4)
    # scores are the vectors' product and the weights of single features
    pairs = model.user_vectors(X[:5]) * model.item_vectors(X[:5])
    assert np.allclose(model.decision_function(X[:5]), pairs.sum(axis=1) + X[:5] @ model.coef_[0] + model.intercept_[0])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert "<html" in model.report()


@pytest.mark.parametrize("update", ["diagonal", "scalar", "adam"])
def test_adaptive_steps_learn_and_say_so(likes, update):
    X, y = likes
    moments = "private" if update == "diagonal" else None
    model = dpopt.TwoTowerClassifier(
        **BUDGET,
        **SIDES,
        row_norm=2**0.5,
        classes=[0, 1],
        embedding_dim=4,
        insecure_seed=1,
        method=dpopt.methods.EmbeddingSGD(steps=150, embedding_update=update, moments=moments),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.plan_.method == "embedding-sgd" and 0 < model.privacy_.epsilon <= 8.0
    assert model.plan_.schedule["adaptive"]["rule"] == update
    with pytest.raises(ValueError):
        clone(model).set_params(method__embedding_update="soon").fit(X, y)


def test_dense_rows_with_bounds_predict_as_they_are_trained():
    # centred features: the constants of the towers must come out right
    rng = np.random.default_rng(1)
    X = rng.uniform(2, 4, (30000, 4))
    score = (X[:, 0] - 3) * (X[:, 2] - 3)
    model = dpopt.TwoTowerRegressor(
        **BUDGET,
        bounds=(2, 4),
        target_bounds=(-1, 1),
        embedding_dim=2,
        insecure_seed=2,
        towers=([0, 1], [2, 3]),
        method=dpopt.methods.EmbeddingSGD(steps=200, learning_rate=3.0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, score)
    assert model.score(X, score) > 0.5


def test_sums_of_embeddings_tell_several_classes():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (20000, 3))
    y = X.argmax(axis=1)
    model = dpopt.EmbeddingClassifier(
        **BUDGET,
        bounds=(-1, 1),
        classes=[0, 1, 2],
        embedding_dim=4,
        insecure_seed=1,
        method=dpopt.methods.EmbeddingSGD(steps=100),
    )
    with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
        model.fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.output_.shape == (3, 4) and np.allclose(model.predict_proba(X).sum(axis=1), 1)
    plan = model.explain(n_rows=20000, n_features=3, n_classes=3)
    assert [c["method"] for c in plan.candidates] == ["embedding-sgd"]
    assert "not convex" in json.dumps(plan.chosen["warnings"])


def test_bad_sides_are_refused(likes):
    X, y = likes
    for sides, message in [
        ({"towers": (slice(0, 5), slice(4, 9))}, "overlap"),
        ({"towers": (slice(0, 0), slice(4, 9))}, "needs features"),
        ({"towers": slice(0, 5)}, "give a pair"),
    ]:
        with pytest.raises(ValueError, match=message):
            dpopt.TwoTowerClassifier(**BUDGET, row_norm=2**0.5, classes=[0, 1], **sides).fit(X, y)


def test_rate_schedule_and_correlation_reach_the_plan():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (2000, 3))
    y = (X[:, 0] > 0).astype(int)
    common = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1]}
    falling = dpopt.SGDClassifier(**common, method=dpopt.methods.NoisySGD(rate_schedule="cosine", steps=40)).fit(X, y)
    assert falling.plan_.schedule["rate_schedule"] == "cosine"
    stream = dpopt.LogisticRegression(**common, method=dpopt.methods.DPFTRL(correlation="tree")).fit(X, y)
    assert stream.plan_.schedule["correlation"] == "tree"
    with pytest.raises(ValueError):
        dpopt.SGDClassifier(**common, method=dpopt.methods.NoisySGD(rate_schedule="soon")).fit(X, y)


@pytest.mark.parametrize("kind", [dpopt.TwoTowerClassifier, dpopt.TwoTowerRegressor])
def test_predictions_of_towers_say_nothing_of_numbers_that_overflow(kind):
    X = np.random.default_rng(1).uniform(-1, 1, (200, 4))
    target = {"classes": [0, 1]} if kind is dpopt.TwoTowerClassifier else {"target_bounds": (-1, 1)}
    given = {
        "epsilon": 5.0,
        "delta": 1e-6,
        "row_norm": 1e-3,
        "embedding_dim": 2,
        **target,
        "method": dpopt.methods.Auto(steps=3),
    }
    model = kind(**given).fit(X, (X[:, 0] > 0).astype(float))
    X[7] = 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(X).shape == (200,)
        assert model.user_vectors(X).shape == model.item_vectors(X).shape == (200, 2)
