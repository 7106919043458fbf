"""PoissonRegressor: expected counts that are private, positive, and where there is little noise scikit-learn's."""

import json
import warnings

import dpopt
import numpy as np
import pytest
from dpopt.export import to_onnx, to_sklearn
from sklearn.linear_model import PoissonRegressor

pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")


def counts(rows, seed=0, level=0.5, columns=3):
    """Columns in [-1, 1] and counts whose logarithmic mean is linear in them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, rng.poisson(np.exp(level + X @ np.array([0.8, -0.5, 0.2, *[0.0] * (columns - 3)])))


PLAIN = {"delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}


@pytest.mark.parametrize("target_bounds", [None, (0, 16)], ids=["found", "declared"])
def test_with_little_noise_the_coefficients_are_those_of_scikit_learn(target_bounds):
    X, y = counts(60_000)
    model = dpopt.PoissonRegressor(epsilon=8.0, target_bounds=target_bounds, **PLAIN).fit(X, y)
    exact = PoissonRegressor(alpha=0, max_iter=1000, tol=1e-9).fit(X, y)
    # the standard error of a coefficient of the exact fit is .006; clips and the end of the descent cost a few of these
    assert np.abs(model.coef_ - exact.coef_).max() < 0.05 and abs(model.intercept_ - exact.intercept_) < 0.05
    assert model.score(X, y) > exact.score(X, y) - 0.01
    assert model.predict(X).min() > 0 and model.predict(X).max() <= model.target_range_[1]
    assert abs(model.predict(X).mean() / y.mean() - 1) < 0.03
    assert model.plan_.method == "adaptive-clip-descent"
    # nothing that counts from 0 has a lower end anywhere else
    assert model.target_range_[0] == 0 and (target_bounds is None or model.target_range_ == target_bounds)


def test_encoded_columns_follow_what_no_line_does():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (30_000, 2))
    y = rng.poisson(np.exp(1.2 * np.cos(3 * X[:, 0])))
    facts = {"epsilon": 2.0, "delta": 1e-6, "bounds": (-1, 1), "insecure_seed": 1}
    model = dpopt.PoissonRegressor(**facts).fit(X, y)
    plain = dpopt.PoissonRegressor(**facts, encoding=None).fit(X, y)
    assert model.score(X, y) > 0.25 > 0.1 > plain.score(X, y)
    # scores of the encoder's features are logarithms of counts in the model's unit
    scores = model.encoder_.transform(X) @ model.coef_ + model.intercept_
    assert np.allclose(np.minimum(np.exp(scores), model.target_range_[1]), model.predict(X), rtol=1e-5)
    assert "ln y" in model.report()


def test_a_saved_model_predicts_and_scores_the_same(tmp_path):
    X, y = counts(8000)
    model = dpopt.PoissonRegressor(epsilon=2.0, delta=1e-6, bounds=(-1, 1), insecure_seed=1).fit(X, y)
    model.save(tmp_path / "m.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = dpopt.load(tmp_path / "m.json")
    assert isinstance(again, dpopt.PoissonRegressor) and np.array_equal(again.predict(X), model.predict(X))
    assert again.score(X, y) == model.score(X, y) and again.target_range_ == model.target_range_
    assert np.array_equal(again.coef_, model.coef_) and again.intercept_ == model.intercept_
    loss = json.loads((tmp_path / "m.json").read_text())["loss"]
    assert loss == {"name": "poisson", "top": 8.0}


@pytest.mark.parametrize("encoding", [None, "auto"])
def test_exported_models_predict_the_same(encoding):
    runtime = pytest.importorskip("onnxruntime")
    X, y = counts(8000)
    model = dpopt.PoissonRegressor(epsilon=2.0, **{**PLAIN, "encoding": encoding}).fit(X, y)
    session = runtime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"X": X} if encoding is None else {f"x{j}": X[:, j : j + 1] for j in range(X.shape[1])}
    assert np.allclose(session.run(None, given)[0], model.predict(X), rtol=1e-5)
    if encoding is None:
        assert np.allclose(to_sklearn(model).predict(X), model.predict(X))


def test_predictions_stay_within_the_range_and_below_zero_counts_nothing():
    X, y = counts(8000)
    model = dpopt.PoissonRegressor(epsilon=2.0, target_bounds=(0, 4), **PLAIN).fit(X, y)
    assert model.predict(np.full((1, 3), [1e6, -1e6, 1e6])).max() <= 4.0
    # a count below 0 is none, and one above the range is the largest
    wild = np.where(y == 0, -1e9, np.where(y >= 4, 1e9, y))
    same = dpopt.PoissonRegressor(epsilon=2.0, target_bounds=(0, 4), **PLAIN).fit(X, wild)
    assert np.array_equal(same.coef_, model.coef_)


def test_scores_leave_out_what_is_no_count():
    X, y = counts(8000)
    model = dpopt.PoissonRegressor(epsilon=2.0, **PLAIN).fit(X, y)
    spoiled = y.astype(float)
    spoiled[:2] = np.nan, -3.0
    with pytest.warns(UserWarning, match="2 "):
        score = model.score(X, spoiled)
    assert score == pytest.approx(model.score(X[2:], y[2:]), abs=1e-12)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-or-remove"])
def test_relations_and_explain(relation):
    X, y = counts(4000)
    facts = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "target_bounds": (0, 12), "neighbors": relation}
    model = dpopt.PoissonRegressor(**facts, n_rows=4000, insecure_seed=1).fit(X, y)
    assert model.privacy_.relation == relation and model.privacy_.epsilon <= 1.0
    plan = dpopt.PoissonRegressor(**facts, n_rows=4000).explain(4000, 3)
    assert plan.method == model.plan_.method


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target_bounds": (1, 9)}, "does not begin at 0"),
        ({"method": "objective-perturbation"}, "Poisson loss"),
        ({"method": "output-perturbation"}, "Poisson loss"),
        ({"method": "noisy-newton"}, "logistic loss only"),
        ({"method": "sufficient-statistics"}, "squared"),
        ({"method": "exponential-mechanism"}, "Poisson loss"),
        ({"epsilon": 0.01}, "too few rows"),
    ],
)
@pytest.mark.parametrize("encoding", [None, "auto"])
def test_what_is_not_proved_or_of_no_use_is_refused_before_a_charge(given, message, encoding):
    X, y = counts(600)
    ledger = dpopt.Ledger(5.0, 1e-4)
    facts = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": encoding, **given}
    if "epsilon" not in given:
        facts.setdefault("target_bounds", (0, 12))
    with pytest.raises((ValueError, dpopt.PrivacyError), match=message):
        dpopt.PoissonRegressor(**facts, budget=ledger).fit(X, y)
    assert not ledger.entries
