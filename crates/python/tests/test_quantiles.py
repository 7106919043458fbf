"""QuantileRegressor: a share of the targets stays below, and where there is little noise the coefficients are scikit-learn's."""

import json
import warnings

import dpopt
import numpy as np
import pytest
from dpopt.export import to_onnx, to_sklearn
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score

pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")


def numbers(rows, seed=0):
    """Columns in [-1, 1] and targets whose skewed noise grows along the second."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 3))
    return X, 5 + 3 * X[:, 0] + (1.5 + X[:, 1]) * rng.exponential(1.0, rows)


PLAIN = {"delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("encoding", [None, "auto"])
def test_the_share_below_is_the_level(level, encoding):
    X, y = numbers(40_000)
    train, test = slice(20_000), slice(20_000, None)
    facts = {**PLAIN, "epsilon": 1.0, "encoding": encoding}
    model = dpopt.QuantileRegressor(quantile=level, **facts).fit(X[train], y[train])
    below = np.mean(y[test] <= model.predict(X[test]))
    assert abs(below - level) < 0.02, below
    # what the law itself has: a line plus the spread times the exponential's quantile
    law = 5 + 3 * X[test, 0] - (1.5 + X[test, 1]) * np.log(1 - level)
    assert model.score(X[test], y[test]) > d2_pinball_score(y[test], law, alpha=level) - 0.05


def test_heavy_tails_move_no_median():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (30_000, 2))
    y = 10 * X[:, 0] + 4 * rng.standard_t(1.5, len(X))
    model = dpopt.QuantileRegressor(epsilon=1.0, **PLAIN).fit(X, y)
    assert abs(np.mean(y <= model.predict(X)) - 0.5) < 0.02
    truth = 10 * X[:, 0]
    assert np.mean(np.abs(model.predict(X) - truth)) < 1.0


def test_with_little_noise_the_coefficients_are_those_of_scikit_learn():
    X, y = numbers(8000)
    model = dpopt.QuantileRegressor(quantile=0.75, epsilon=8.0, target_bounds=(0, 20), **PLAIN).fit(X, y)
    exact = QuantileRegressor(quantile=0.75, alpha=0).fit(X, y)
    assert model.plan_.method == "noisy-gradient-descent"
    assert np.abs(model.coef_ - exact.coef_).max() < 0.25 and abs(model.intercept_ - exact.intercept_) < 0.15
    assert model.score(X, y) > d2_pinball_score(y, exact.predict(X), alpha=0.75) - 0.01


def test_a_saved_model_predicts_and_scores_the_same(tmp_path):
    X, y = numbers(8000)
    model = dpopt.QuantileRegressor(quantile=0.8, epsilon=2.0, delta=1e-6, bounds=(-1, 1), insecure_seed=1).fit(X, y)
    model.save(tmp_path / "m.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = dpopt.load(tmp_path / "m.json")
    assert isinstance(again, dpopt.QuantileRegressor) and again.quantile == 0.8
    assert np.array_equal(again.predict(X), model.predict(X)) and again.score(X, y) == model.score(X, y)
    assert np.array_equal(again.coef_, model.coef_) and again.target_range_ == model.target_range_
    saved = json.loads((tmp_path / "m.json").read_text())
    assert saved["loss"] == {"name": "quantile", "level": 0.8, "width": 0.02}
    report = model.report()
    assert "the pinball loss of the quantile at 0.8" in report and "Calibrated" not in report


@pytest.mark.parametrize("encoding", [None, "auto"])
def test_exported_models_predict_the_same(encoding):
    runtime = pytest.importorskip("onnxruntime")
    X, y = numbers(8000)
    model = dpopt.QuantileRegressor(quantile=0.3, epsilon=2.0, **{**PLAIN, "encoding": encoding}).fit(X, y)
    session = runtime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"X": X} if encoding is None else {f"x{j}": X[:, j : j + 1] for j in range(X.shape[1])}
    assert np.allclose(session.run(None, given)[0], model.predict(X), rtol=1e-5)
    if encoding is None:
        plain = to_sklearn(model)
        assert isinstance(plain, QuantileRegressor) and plain.quantile == 0.3
        assert np.allclose(plain.predict(X), model.predict(X))


def test_targets_outside_the_range_count_as_its_ends_and_scores_leave_out_what_is_no_number():
    X, y = numbers(8000)
    facts = {"quantile": 0.5, "epsilon": 2.0, "target_bounds": (2, 12), **PLAIN}
    model = dpopt.QuantileRegressor(**facts).fit(X, y)
    wild = np.where(y <= 2, -1e300, np.where(y >= 12, 1e300, y))
    same = dpopt.QuantileRegressor(**facts).fit(X, wild)
    assert np.array_equal(same.coef_, model.coef_) and same.intercept_ == model.intercept_
    spoiled = y.copy()
    spoiled[:2] = np.nan, np.inf
    with pytest.warns(UserWarning, match="2 "):
        score = model.score(X, spoiled)
    assert score == pytest.approx(model.score(X[2:], y[2:]), abs=1e-12)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-or-remove"])
def test_relations_and_explain(relation):
    X, y = numbers(4000)
    facts = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "target_bounds": (0, 20), "neighbors": relation}
    model = dpopt.QuantileRegressor(quantile=0.9, **facts, n_rows=4000, insecure_seed=1).fit(X, y)
    assert model.privacy_.relation == relation and model.privacy_.epsilon <= 1.0
    plan = dpopt.QuantileRegressor(quantile=0.9, **facts, n_rows=4000).explain(4000, 3)
    assert plan.method == model.plan_.method


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"quantile": 0.0}, "between 0 and 1"),
        ({"quantile": 1}, "between 0 and 1"),
        ({"quantile": float("nan")}, "between 0 and 1"),
        ({"quantile": "0.5"}, "quantile"),
        ({"method": dpopt.methods.NoisyGradientDescent(calibration=0.1)}, "calibration"),
        ({"method": "noisy-newton"}, "logistic loss only"),
        ({"method": "sufficient-statistics"}, "squared"),
        ({"method": "adaptive-clip-descent"}, "bounded whatever the residuals"),
    ],
)
@pytest.mark.parametrize("encoding", [None, "auto"])
def test_what_is_of_no_use_is_refused_before_a_charge(given, message, encoding):
    X, y = numbers(600)
    ledger = dpopt.Ledger(5.0, 1e-4)
    facts = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": encoding, "target_bounds": (0, 12), **given}
    with pytest.raises((ValueError, TypeError, dpopt.PrivacyError), match=message):
        dpopt.QuantileRegressor(**facts, budget=ledger).fit(X, y)
    assert not ledger.entries
