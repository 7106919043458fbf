"""Naive Bayes, scalers and principal components from released moments."""

import json
import pickle

import dpopt
import numpy as np
import pandas as pd
import pytest
from dpopt import _pca
from sklearn import naive_bayes, preprocessing
from sklearn.base import clone
from sklearn.decomposition import PCA as Exact
from sklearn.pipeline import make_pipeline

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SEEDED = {**BUDGET, "insecure_seed": 1}
RELATIONS = ("zero-out", "replace-one", "add-or-remove")
ROWS = 9000
MAKERS = {
    "GaussianNB": lambda **more: dpopt.GaussianNB(**{**SEEDED, "bounds": (-4, 8), "classes": ["a", "b", "c"], **more}),
    "PrivateScaler": lambda **more: dpopt.PrivateScaler(**{**SEEDED, "bounds": (-4, 8), **more}),
    "PCA": lambda **more: dpopt.PCA(**{**SEEDED, "bounds": (-4, 8), **more}),
}
seeds = pytest.mark.filterwarnings("ignore:insecure_seed makes")
pytestmark = seeds


def relation(name):
    return {"neighbors": name, "n_rows": ROWS} if name == "add-or-remove" else {"neighbors": name}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    y = rng.choice(["a", "b", "c"], ROWS, p=[0.5, 0.3, 0.2])
    at = {"a": (0, 0, 1), "b": (2, 0, 3), "c": (2, 4, 1)}
    X = np.array([at[label] for label in y]) + rng.normal(0, 0.8, (ROWS, 3)) * [1, 0.5, 1]
    return X, y


@pytest.mark.parametrize("name", RELATIONS)
def test_moments_of_classes_are_as_far_off_as_they_say(table, name):
    X, y = table
    model = MAKERS["GaussianNB"](**relation(name)).fit(X, y)
    exact = naive_bayes.GaussianNB().fit(X, y)
    # of 21 numbers none is further off than 6 standard deviations with fresh noise but for 5e-8; these are seeded
    assert (np.abs(model.class_count_ - exact.class_count_) < 6 * model.class_count_noise_std_).all()
    assert (np.abs(model.theta_ - exact.theta_) < 6 * model.theta_noise_std_).all()
    off = np.abs(model.var_ - model.theta_noise_std_**2 - exact.var_)
    assert (off < 6 * model.var_noise_std_).all()
    assert np.isclose(model.class_prior_.sum(), 1) and list(model.classes_) == ["a", "b", "c"]
    assert model.score(X, y) > exact.score(X, y) - 0.01
    p = model.predict_proba(X[:50])
    assert np.allclose(p.sum(axis=1), 1) and np.allclose(np.log(p), model.predict_log_proba(X[:50]))
    assert (model.classes_[p.argmax(axis=1)] == model.predict(X[:50])).all()
    joint = model.predict_joint_log_proba(X[:50])
    assert np.allclose(joint - joint[:, :1], np.log(p) - np.log(p[:, :1]))
    assert model.privacy_.epsilon <= 1.0 and model.privacy_.relation == name


def test_predictions_are_those_of_scikit_learn_with_the_same_moments(table):
    X, y = table
    model = MAKERS["GaussianNB"]().fit(X, y)
    same = naive_bayes.GaussianNB().fit(X, y)
    same.theta_, same.var_, same.class_prior_ = model.theta_, model.var_, model.class_prior_
    inside = np.clip(X[:200], -4, 8)
    assert np.allclose(same.predict_log_proba(inside), model.predict_log_proba(inside))
    # beyond the bounds: as at the bounds; a missing number: as if its column were not there
    wild = inside.copy()
    wild[:, 0] = np.inf
    at_the_bound = inside.copy()
    at_the_bound[:, 0] = 8
    assert np.allclose(model.predict_proba(wild), model.predict_proba(at_the_bound))
    wild[:, 0] = np.nan
    without = naive_bayes.GaussianNB().fit(X[:, 1:], y)
    without.theta_, without.var_, without.class_prior_ = model.theta_[:, 1:], model.var_[:, 1:], model.class_prior_
    assert np.allclose(without.predict_log_proba(inside[:, 1:]), model.predict_log_proba(wild))


def test_public_priors_are_taken_and_others_refused(table):
    X, y = table
    model = MAKERS["GaussianNB"](priors=[0.2, 0.3, 0.5]).fit(X, y)
    assert model.class_prior_.tolist() == [0.2, 0.3, 0.5]
    for priors in ([0.5, 0.5], [0.5, 0.6, -0.1], [0.5, 0.5, 0.5]):
        with pytest.raises(ValueError, match="priors must be 3 positive numbers"):
            MAKERS["GaussianNB"](priors=priors).fit(X, y)


def test_labels_beyond_the_classes_and_missing_numbers_are_no_errors(table):
    X, y = table
    X, y = X.copy(), y.astype(object)
    X[::7, 1], X[::11, 2] = np.nan, np.inf
    y[::5], y[1::500] = None, "d"
    model = MAKERS["GaussianNB"]().fit(X, y)
    known = np.isin(y.astype(str), ["a", "b", "c"]).sum()
    assert abs(model.class_count_.sum() - known) < 6 * np.sqrt(3) * model.class_count_noise_std_
    assert np.isfinite(model.theta_).all() and np.isfinite(model.predict_log_proba(X)).all()


def test_classes_are_declared(table):
    X, y = table
    with pytest.raises(ValueError, match=r"give classes=\[...\], or classes=\"public\""):
        MAKERS["GaussianNB"](classes=None).fit(X, y)
    with pytest.raises(ValueError, match="at least two"):
        MAKERS["GaussianNB"](classes=["a"]).fit(X, y)
    assert list(MAKERS["GaussianNB"](classes="public").fit(X, y).classes_) == ["a", "b", "c"]
    # a class that nobody has is there, and rare
    model = MAKERS["GaussianNB"](classes=["a", "b", "c", "d"]).fit(X, y)
    assert model.class_prior_[3] < 0.01 and np.isfinite(model.var_).all() and model.score(X, y) > 0.9


@pytest.mark.parametrize("name", RELATIONS)
def test_scales_are_as_far_off_as_they_say(table, name):
    X, _ = table
    scaler = MAKERS["PrivateScaler"](**relation(name)).fit(X)
    exact = preprocessing.StandardScaler().fit(X)
    assert (np.abs(scaler.mean_ - exact.mean_) < 6 * scaler.mean_noise_std_).all()
    assert (np.abs(scaler.var_ - exact.var_) < 6 * scaler.var_noise_std_).all()
    if name == "add-or-remove":
        assert scaler.n_samples_seen_ != ROWS and abs(scaler.n_samples_seen_ / ROWS - 1) < 0.02
    else:
        assert scaler.n_samples_seen_ == ROWS
    scaled = scaler.transform(X)
    assert np.allclose(scaled, (X - scaler.mean_) / scaler.scale_) and np.allclose(scaler.inverse_transform(scaled), X)
    assert (scaled >= scaler.bounds_[0] - 1e-9).all() and (scaled <= scaler.bounds_[1] + 1e-9).all()
    holed = np.where(np.arange(3) == 1, np.nan, X)
    assert np.isnan(scaler.transform(holed)[:, 1]).all() and np.isfinite(scaler.fit(holed).mean_).all()


def test_a_constant_column_is_scaled_by_its_noise():
    scaler = MAKERS["PrivateScaler"]().fit(np.full((500, 2), 2.0))
    assert (scaler.var_ >= scaler.var_noise_std_ * (1 - 1e-12)).all() and (scaler.scale_ > 0).all()


def test_names_go_through_a_pipeline(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["length", "width", "height"])
    bounds = {"length": (-4, 8), "height": (-4, 8), "width": (-4, 8)}
    ledger = dpopt.Ledger(3.0, 1e-5)
    facts = {"epsilon": 1.0, "delta": 1e-6, "budget": ledger}
    pipe = make_pipeline(
        dpopt.PrivateScaler(bounds=bounds, **facts),
        dpopt.PCA(2, bounds=(-4, 4), **facts),
        dpopt.GaussianNB(bounds=(-5, 5), classes=["a", "b", "c"], **facts),
    )
    assert pipe[0].set_output(transform="pandas") is pipe[0]
    pipe.fit(frame, y)
    assert list(pipe[0].get_feature_names_out()) == ["length", "width", "height"]
    assert list(pipe[1].get_feature_names_out()) == ["pca0", "pca1"]
    assert list(pipe[1].feature_names_in_) == ["length", "width", "height"]
    # fresh noise, of a hundredth of what separates the classes; the parts' guarantees add up in the ledger, and each is of its step whatever is before it
    assert pipe.score(frame, y) > 0.8
    assert [entry.name for entry in ledger.entries] == ["PrivateScaler", "PCA", "GaussianNB"]
    assert all(step.privacy_.scope is None for step in pipe)
    with pytest.raises(dpopt.BudgetExceeded):
        pipe.fit(frame, y)
    with pytest.raises(ValueError, match="1 of the 3 columns of X have none, while 1"):
        dpopt.PrivateScaler(bounds={**{k: bounds[k] for k in ("length", "width")}, "depth": (0, 1)}, **BUDGET).fit(
            frame
        )


@pytest.mark.parametrize("name", RELATIONS)
def test_components_are_those_of_scikit_learn_but_for_noise(name):
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X = rng.normal(size=(ROWS, 6)) * [5, 3, 1, 0.5, 0.5, 0.5] @ basis.T + 2
    pca = dpopt.PCA(2, bounds=(-25, 25), row_norm=20, **SEEDED, **relation(name)).fit(X)
    exact = Exact(2).fit(X)
    assert (np.abs(pca.mean_ - exact.mean_) < 6 * pca.mean_noise_std_ + 0.02).all()
    # sin of the angles between components: at most the noise's spectral norm (2√d of its entries, and as much again) over the gap
    gap = min(25 - 9, 9 - 1)
    bound = 4 * np.sqrt(6) * pca.covariance_noise_std_ / gap
    overlap = (pca.components_ * exact.components_).sum(axis=1)
    assert (np.sqrt(np.maximum(1 - overlap**2, 0)) < bound).all() and bound < 0.5
    assert (overlap > 0).all(), "signs differ"
    assert np.allclose(pca.components_ @ pca.components_.T, np.eye(2))
    assert (
        np.abs(pca.explained_variance_ - exact.explained_variance_) < 4 * np.sqrt(6) * pca.covariance_noise_std_
    ).all()
    assert np.allclose(pca.explained_variance_ratio_.sum(), exact.explained_variance_ratio_.sum(), atol=0.1)
    found = pca.transform(X)
    assert np.allclose(found, (X - pca.mean_) @ pca.components_.T) and found.shape == (ROWS, 2)
    assert np.abs(pca.inverse_transform(found) - X).std() < 0.7
    assert dpopt.PCA(0.9, bounds=(-25, 25), row_norm=20, **SEEDED).fit(X).n_components_ == 2
    assert dpopt.PCA(bounds=(-25, 25), row_norm=20, **SEEDED).fit(X).components_.shape == (6, 6)


def explained_and_told(noise, draws=3000):
    """What components of a noisy matrix explain of the exact one, less what is said of it: as eigenvalues, and corrected."""
    rng = np.random.default_rng(7)
    truth = np.diag([9.0, 5.0, 3.0, 1.0, 1.0, 0.5, 0.0, 0.0])
    naive, corrected = np.empty((draws, 8)), np.empty((draws, 8))
    for i in range(draws):
        drawn = np.triu(rng.normal(0, noise, (8, 8)), 1)
        matrix = truth + drawn + drawn.T + np.diag(rng.normal(0, np.sqrt(2) * noise, 8))
        values, vectors = np.linalg.eigh(matrix)
        explains = np.einsum("ji,jk,ki->i", vectors, truth, vectors)[::-1]
        told = _pca.explained(values[::-1], noise)
        # falling, and never below 0
        assert (np.diff(told) <= 1e-9).all() and (told >= 0).all()
        naive[i], corrected[i] = values[::-1] - explains, told - explains
    return naive, corrected


def test_what_components_explain_is_told_without_the_bias_of_noise():
    # eight noises apart, so that hardly any are pooled: five standard errors, and eigenvalues as they are would be found out
    naive, corrected = explained_and_told(0.25)
    errors = corrected.std(axis=0) / np.sqrt(len(corrected))
    for k in range(3):
        assert abs(corrected[:, k].mean()) < 5 * errors[k] < naive[:, k].mean()
    # where noise is as wide as gaps, pooling leaves some of it
    naive, corrected = explained_and_told(0.6)
    assert abs(corrected[:, :3].sum(axis=1).mean()) < 0.2 * naive[:, :3].sum(axis=1).mean()
    # equal ones are no error
    assert np.isfinite(_pca.explained(np.zeros(4), 0.1)).all() and np.isfinite(_pca.explained(np.ones(1), 0.1)).all()


def test_without_bounds_numbers_are_clipped_with_a_warning(table):
    X, y = table
    for maker in MAKERS.values():
        with pytest.warns(dpopt.PrivacyWarning, match="no public bounds are given"):
            model = maker(bounds=None).fit(X, y)
        with pytest.raises(ValueError, match="lower < upper|pair"):
            maker(bounds=(1, 1)).fit(X, y)
    # a ball of radius 1 around the origin
    assert np.linalg.norm(model.mean_) < 1.1


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_plans_say_what_fits_do(table, maker):
    X, y = table
    model = maker()
    plan = model.explain(ROWS, n_features=3)
    shape = model.explain(X)
    model.fit(X, y)
    for other in (shape, model.plan_):
        assert (other.method, other.noise_std, other.epsilon) == (plan.method, plan.noise_std, plan.epsilon)
    assert model.privacy_.event == plan.event and model.privacy_.epsilon <= 1.0
    assert plan.chosen["predicted_excess_risk"] > 0 and plan.method in str(plan)
    assert (
        plan.chosen["predicted_excess_risk"]
        < maker(epsilon=0.1).explain(ROWS, n_features=3).chosen["predicted_excess_risk"]
    )
    html = model.report()
    assert "<table" in html and "VOID" in html
    again = pickle.loads(pickle.dumps(model))
    assert again.privacy_ == model.privacy_
    ask = "predict_proba" if hasattr(model, "predict_proba") else "transform"
    assert (getattr(again, ask)(X) == getattr(model, ask)(X)).all()
    with pytest.raises(ValueError, match="delta > 0"):
        maker(delta=0).explain(ROWS, n_features=3)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_what_is_not_there_is_refused_before_the_charge(table, maker):
    X, y = table
    ledger = dpopt.Ledger(5.0, 1e-3)
    model = maker(budget=ledger, insecure_seed=None)
    for refused in (
        lambda: model.fit(X, y, units=np.arange(ROWS)),
        lambda: clone(model).set_params(delta=0).fit(X, y),
        lambda: clone(model).set_params(bounds=(0, np.inf)).fit(X, y),
        lambda: clone(model).set_params(neighbors="add-or-remove").fit(X, y),
    ):
        with pytest.raises(ValueError):
            refused()
    with pytest.raises(ValueError, match="protects each row by itself and has no units="):
        model.fit(X, y, units=np.arange(ROWS))
    with pytest.raises(ValueError, match="partitions are remote"):
        model.fit(dpopt.partitions.Here([(X[:5], None)]), y)
    assert not ledger.entries
    model.fit(X, y)
    (entry,) = ledger.entries
    assert entry.name == type(model).__name__ and entry.epsilon == 1.0 and not model.privacy_.insecure_seed


def test_components_that_are_not_there_are_refused(table):
    X, _ = table
    for asked in (0, 4, 1.5, "mle", True):
        with pytest.raises(ValueError, match="n_components is"):
            dpopt.PCA(asked, bounds=(-4, 8), **SEEDED).fit(X)
    with pytest.raises(ValueError, match="row_norm is"):
        dpopt.PCA(row_norm=-1, **SEEDED).fit(X)


def test_a_report_is_written(table, tmp_path):
    X, y = table
    model = MAKERS["GaussianNB"]().fit(pd.DataFrame(X, columns=["p", "q", "r"]), y)
    html = model.report(tmp_path / "report.html")
    assert html.count("<td>q</td>") == 3 and (tmp_path / "report.html").read_text(encoding="utf-8") == html


def test_weights_of_the_plan_are_those_of_the_proof():
    plan = MAKERS["GaussianNB"]().explain(ROWS, n_features=30)
    w = plan.schedule["weights"]
    column = (1 - w["count"] ** 2) / 30
    g = 1 / w["centre"]
    assert np.isclose(w["first"] ** 2, column * g * (2 - g)) and np.isclose(w["second"] ** 2, column * g * g)
    assert json.dumps(plan.schedule)
