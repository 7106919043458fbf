"""Standard errors of coefficients: what a fit leaves, in which units, and what is said where there are none."""

import pickle
import re

import dpopt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

FACTS = {"epsilon": 4.0, "delta": 1e-6, "method": "one-step", "insecure_seed": 3}


def rows(n=6000, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 3))
    score = X @ [1.0, -0.5, 0.0] + 0.3
    return X, score, random


def linear(**more):
    X, score, random = rows()
    y = score + 0.4 * random.standard_normal(len(X))
    return dpopt.LinearRegression(bounds=(-1, 1), target_bounds=(-3, 3), **{**FACTS, **more}).fit(X, y)


def logistic(**more):
    X, score, random = rows()
    y = np.where(random.uniform(size=len(X)) < 1 / (1 + np.exp(-score)), "yes", "no")
    return dpopt.LogisticRegression(bounds=(-1, 1), classes=["no", "yes"], **{**FACTS, **more}).fit(X, y)


def test_a_linear_fit_has_standard_errors_near_those_of_least_squares():
    model = linear()
    # σ/√(n·Var x), Var x = 1/3, and the intercept's σ/√n; the noise of privacy on top
    exact = np.array([0.4 / np.sqrt(6000 / 3)] * 3)
    assert model.coef_std_error_.shape == (3,) and np.isscalar(model.intercept_std_error_)
    assert (model.coef_std_error_ > exact).all() and (model.coef_std_error_ < 2 * exact).all()
    assert (np.abs(model.coef_ - [1.0, -0.5, 0.0]) < 6 * model.coef_std_error_).all()
    np.testing.assert_allclose(
        np.sqrt(np.diag(model.covariance_)), [*model.coef_std_error_, model.intercept_std_error_]
    )
    ends = model.conf_int()
    assert ends.shape == (4, 2)
    np.testing.assert_allclose(ends.mean(axis=1), [*model.coef_, model.intercept_])
    np.testing.assert_allclose(np.diff(ends[:3]).ravel(), 2 * 1.959964 * model.coef_std_error_, rtol=1e-6)
    assert (np.diff(model.conf_int(0.5)) < np.diff(ends)).all()


def test_a_logistic_fit_has_them_in_the_shape_of_its_coefficients():
    model = logistic()
    assert model.coef_std_error_.shape == (1, 3) and model.intercept_std_error_.shape == (1,)
    # the curvature of a row is at most 1/4
    assert (model.coef_std_error_ > np.sqrt(12 / 6000)).all() and (model.coef_std_error_ < 0.15).all()
    assert (np.abs(model.coef_[0] - [1.0, -0.5, 0.0]) < 6 * model.coef_std_error_[0]).all()


def test_units_of_columns_and_target_are_those_of_the_errors():
    X, score, random = rows()
    y = score + 0.4 * random.standard_normal(len(X))
    plain = dpopt.LinearRegression(bounds=(-1, 1), target_bounds=(-3, 3), **FACTS).fit(X, y)
    scale, shift = np.array([10.0, 0.1, 7.0]), np.array([4.0, -1.0, 0.0])
    bounds = (shift - scale, shift + scale)
    other = dpopt.LinearRegression(bounds=bounds, target_bounds=(-60 + 5, 60 + 5), **FACTS).fit(
        X * scale + shift, 20 * y + 5
    )
    # bounded rows are the same but for rounding to 32 bits, and so is the noise
    np.testing.assert_allclose(other.coef_, plain.coef_ * 20 / scale, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(other.coef_std_error_, plain.coef_std_error_ * 20 / scale, rtol=1e-3)
    # c·shift of every coefficient is in the intercept now, with its error
    reach = np.append(-shift * 20 / scale, 20.0)
    np.testing.assert_allclose(other.intercept_std_error_, np.sqrt(reach @ plain.covariance_ @ reach), rtol=1e-3)


def test_the_summary_names_columns_and_reads_as_a_table():
    X, score, _ = rows()
    frame = pd.DataFrame(X, columns=["age", "dose", "<b>"])
    model = dpopt.LinearRegression(bounds=(-1, 1), target_bounds=(-3, 3), **FACTS).fit(frame, score)
    text = str(model.summary())
    lines = text.splitlines()
    assert lines[0].split() == ["coef", "std", "err", "z", "0.025", "0.975"]
    assert [line.split()[0] for line in lines[1:5]] == ["age", "dose", "<b>", "intercept"]
    first = [float(cell) for cell in lines[1].split()[1:]]
    np.testing.assert_allclose(first[:2], [model.coef_[0], model.coef_std_error_[0]], rtol=1e-3)
    assert "units of X" in text and "sampling" in text and "privacy" in text
    html = model.summary(0.9)._repr_html_()
    assert "<table>" in html and "&lt;b&gt;" in html and "<b>" not in html and "0.95" in html
    assert "log-odds of yes" in str(logistic().summary())


def test_the_report_draws_intervals():
    html = linear().report()
    assert "standard error" in html and "interval of 95" in html and "slopes and curvatures" in html


def test_without_an_intercept_there_is_no_row_for_it():
    model = linear(fit_intercept=False)
    assert model.conf_int().shape == (3, 2) and model.summary().names == ("x0", "x1", "x2")


def test_a_matrix_stays_plain_and_a_copy_keeps_the_errors():
    model = linear()
    assert model.plan_.method == "one-step" and len(model.coef_) == 3
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.conf_int(), model.conf_int())
    with pytest.raises(Exception, match="not fitted"):
        clone(model).conf_int()


def test_another_method_says_what_to_do_and_leaves_no_old_errors():
    model = linear()
    X, score, _ = rows()
    model.set_params(method="auto", encoding=None).fit(X, score)
    assert not hasattr(model, "coef_std_error_") and not hasattr(model, "covariance_")
    with pytest.raises(ValueError, match='method="one-step"'):
        model.conf_int()
    encoded = linear(method="auto")
    with pytest.raises(ValueError, match="plain columns"):
        encoded.summary()


def test_levels_are_checked():
    for level in (0, 1, 95, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            linear().conf_int(level)


def test_too_few_rows_for_the_noise_leave_coefficients_and_a_sentence():
    X, score, _ = rows(200)
    model = dpopt.LinearRegression(bounds=(-1, 1), target_bounds=(-3, 3), **{**FACTS, "epsilon": 0.3})
    with pytest.warns(UserWarning, match="no standard errors"):
        model.fit(X, score)
    assert np.isfinite(model.coef_).all()
    with pytest.raises(ValueError, match="raise epsilon"):
        model.conf_int()


def test_what_it_cannot_do_is_refused_before_a_charge():
    X, score, _ = rows()
    y = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match="two classes"):
        dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1, 2], **FACTS).fit(X, y)
    with pytest.raises(ValueError, match="one unit"):
        dpopt.LinearRegression(bounds=(-1, 1), target_bounds=(-3, 3), unit=dpopt.Unit(max_rows=2), **FACTS).fit(
            X, score, units=np.arange(len(X)) // 2
        )
    with pytest.raises(ValueError, match="regularization|alpha"):
        dpopt.Ridge(bounds=(-1, 1), target_bounds=(-3, 3), **FACTS).fit(X, score)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-or-remove"])
def test_other_relations_have_wider_intervals(neighbors):
    usual = linear()
    other = linear(neighbors=neighbors, n_rows=6000)
    wider = other.coef_std_error_ / usual.coef_std_error_
    assert (wider > (1.05 if neighbors == "replace-one" else 0.9)).all()
    assert re.match(neighbors, other.privacy_.relation)


def test_nothing_moves_the_weights_after_their_covariance_was_found():
    for model in (linear(), logistic()):
        labels = [release["label"] for stage in model.privacy_.ledger for release in stage]
        assert set(labels) == {"slopes and curvatures"}


def test_the_charge_is_that_of_the_budget():
    ledger = dpopt.Ledger(5.0, 1e-5)
    linear(budget=ledger, insecure_seed=None)
    assert len(ledger.entries) == 1 and ledger.entries[0].epsilon <= 4.0
