"""Prediction intervals: paid for by the budget, kept by model files and copies, refused where there are none."""

import pickle

import dpopt
import numpy as np
import pytest

LEVEL = 0.9


def rows(seed=0, n=20_000):
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 3))
    return X, X @ [1.0, -0.5, 0.0] + 0.3 * random.standard_t(3, n)


def facts(**more):
    return {"epsilon": 2.0, "delta": 1e-6, "bounds": (-1, 1), "target_bounds": (-4, 4), "insecure_seed": 1, **more}


def asked(level=LEVEL):
    return dpopt.methods.Auto(intervals=level)


def held(model, X, y):
    ends = model.predict_interval(X)
    assert ends.shape == (len(X), 2) and np.all(ends[:, 0] <= ends[:, 1])
    return float(np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])))


@pytest.mark.parametrize("encoding", [None, "auto"])
@pytest.mark.parametrize(
    "model",
    [
        dpopt.LinearRegression(method=asked()),
        dpopt.Ridge(method=asked()),
        dpopt.HuberRegression(method=asked()),
        dpopt.SGDRegressor(method=dpopt.methods.NoisySGD(intervals=LEVEL)),
        dpopt.SGDRegressor(loss="absolute_error", method=dpopt.methods.NoisySGD(intervals=LEVEL)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_fresh_targets_are_held(model, encoding):
    model.set_params(**facts(), encoding=encoding)
    X, y = rows()
    model.fit(X, y)
    # six standard deviations of 20,000 rows, .013, below the level; the margin for noise and a step of the grid above
    assert LEVEL - 0.013 < held(model, *rows(1)) < LEVEL + 0.03
    guess, ends = np.clip(model.predict(X), -4, 4), model.predict_interval(X)
    assert np.all((ends[:, 0] <= guess) & (guess <= ends[:, 1])) and ends.min() >= -4 and ends.max() <= 4
    assert "Prediction intervals" in model.report()
    assert any("prediction intervals" in str(release) for release in model.privacy_.ledger)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_interval(X), ends)


def test_a_model_file_keeps_them(tmp_path):
    X, y = rows()
    model = dpopt.LinearRegression(**facts(), method=asked()).fit(X, y)
    model.save(tmp_path / "m.json")
    with pytest.warns(UserWarning):
        loaded = dpopt.load(tmp_path / "m.json")
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))


def test_the_whole_stays_within_the_budget():
    X, y = rows()
    model = dpopt.LinearRegression(**facts(), method=asked()).fit(X, y)
    assert model.privacy_.epsilon <= 2.0
    plain = dpopt.LinearRegression(**facts()).fit(X, y)
    assert plain.privacy_.epsilon <= 2.0 and "prediction intervals" not in str(plain.privacy_.ledger)


def test_of_a_range_that_is_found_no_end_is_cut():
    X, y = rows()
    model = dpopt.LinearRegression(**facts(target_bounds=None), method=asked(), encoding=None).fit(X, y)
    assert held(model, *rows(1)) > LEVEL - 0.013
    # no end is cut: all intervals are as wide
    ends = model.predict_interval(X)
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], ends[0, 1] - ends[0, 0])


def test_refusals_say_what_to_do():
    X, y = rows(n=300)
    plain = dpopt.LinearRegression(**facts()).fit(X, y)
    with pytest.raises(ValueError, match=r"without prediction intervals.*Auto\(intervals=0.9\)"):
        plain.predict_interval(X)
    with pytest.raises(ValueError, match="at least .* rows within this budget, and there are 300"):
        dpopt.LinearRegression(**facts(), method=asked()).fit(X, y)
    with pytest.raises(ValueError, match="from 0.5 to 0.99"):
        dpopt.LinearRegression(**facts(), method=asked(0.2)).fit(X, y)
    with pytest.raises(ValueError, match="intervals"):
        dpopt.PoissonRegressor(**facts(target_bounds=(0, 4)), method=asked()).fit(X, np.abs(y))
    with pytest.raises(ValueError, match="intervals"):
        dpopt.LogisticRegression(epsilon=2.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], method=asked()).fit(X, y > 0)


def test_a_later_fit_without_them_forgets_them():
    X, y = rows()
    model = dpopt.LinearRegression(**facts(), method=asked(), encoding=None).fit(X, y)
    model.set_params(method="auto").fit(X, y)
    with pytest.raises(ValueError, match="without prediction intervals"):
        model.predict_interval(X)


@pytest.mark.parametrize("encoding", [None, "auto"])
def test_a_fit_without_a_finite_width_says_so_at_once(encoding):
    X, _ = rows()
    # a range that is found leaves out a hundredth of such targets at either end, and only one in a hundred may be missed
    y = np.random.default_rng(4).standard_cauchy(len(X))
    model = dpopt.LinearRegression(method=asked(0.99), encoding=encoding, **facts(target_bounds=None))
    with pytest.warns(UserWarning, match="no finite width was found"):
        model.fit(X, y)
    assert not np.isfinite(model.predict_interval(X)).any()


@pytest.mark.parametrize("kind", [dpopt.PoissonRegressor, dpopt.QuantileRegressor])
def test_models_that_can_have_none_say_so(kind):
    X, y = rows(n=5000)
    model = kind(epsilon=2.0, delta=1e-6, bounds=(-1, 1), insecure_seed=1).fit(X, np.round(np.abs(y)))
    with pytest.raises(ValueError, match=f"{kind.__name__} has no prediction intervals"):
        model.predict_interval(X)
