"""Matrices whose columns are encoded as a table's numeric columns: `bounds=(lower, upper)` with `encoding`."""

import pickle
import warnings

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import estimator_checks_generator

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")

#: Settled, so that planning is quick.
PLAIN = {"knots": 8, "fine_knots": 0, "pairs": "none"}
FACTS = {"epsilon": 4.0, "delta": 1e-6, "method": "objective-perturbation", "encoding": PLAIN, "insecure_seed": 1}


@pytest.fixture(scope="module")
def data():
    """No line tells the classes apart."""
    X = np.random.default_rng(0).uniform(0, 1, (3000, 3))
    return X, (np.abs(X[:, 0] - 0.5) > 0.25).astype(int)


def model(**more):
    return dpopt.LogisticRegression(**{**FACTS, "bounds": (0, 1), "classes": [0, 1], **more})


def test_an_encoded_matrix_says_what_a_line_cannot(data, tmp_path):
    X, y = data
    fitted = model().fit(X, y)
    assert fitted.score(X, y) > 0.9 > 0.65 > model(encoding=None).fit(X, y).score(X, y)
    assert fitted.encoded_feature_names_[:3].tolist() == ["(intercept)", "x0:line", "x0@0"]
    assert fitted.n_features_in_ == 3 and not hasattr(fitted, "feature_names_in_")
    # the same as a table with these names and ranges
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    by_name = model(bounds={name: (0.0, 1.0) for name in frame})
    assert np.array_equal(by_name.fit(frame, y).coef_, fitted.coef_)
    assert (
        model().explain(X) == model().explain(n_rows=3000, n_features=3) == fitted.plan_ == by_name.explain(frame, y=y)
    )
    # predictions, by position or by name, of copies and of files
    scores = fitted.decision_function(X)
    assert np.allclose(fitted.encoder_.transform(X) @ fitted.coef_[0], scores, atol=1e-5)
    fitted.save(tmp_path / "model.json")
    for other in (pickle.loads(pickle.dumps(fitted)), dpopt.load(tmp_path / "model.json")):
        for given in (X, X.tolist(), frame, frame[["x2", "x0", "x1"]]):
            assert np.array_equal(other.decision_function(given), scores)
    assert "a matrix" in fitted.report()
    # and the plain road is one parameter away
    assert fitted.set_params(encoding=None).fit(X, y).coef_.shape == (1, 3) and fitted._table is None


def test_names_of_data_frames_are_those_of_the_columns(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = model(bounds=([0, 0, 0], [1, 2, 1])).fit(frame, y)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"] and "a:line" in fitted.encoded_feature_names_
    assert np.array_equal(fitted.predict(frame), fitted.predict(frame[["c", "a", "b"]]))
    number = dpopt.LinearRegression(**FACTS, bounds=(0, 1), target_bounds=(-0.1, 0.5)).fit(X, np.abs(X[:, 1] - 0.5))
    assert number.score(X, np.abs(X[:, 1] - 0.5)) > 0.7
    three = model(classes="public").fit(X, np.digitize(X[:, 0], [0.3, 0.6]))
    assert three.predict_proba(X).shape == (3000, 3) and three.score(X, np.digitize(X[:, 0], [0.3, 0.6])) > 0.8


def test_numbers_that_are_missing_or_infinite(data):
    fitted = model().fit(*data)
    odd = np.array([[np.inf, 0.5, 0.5], [-np.inf, 0.5, 0.5], [np.nan, 0.5, 0.5]])
    at_bounds = np.array([[1.0, 0.5, 0.5], [0.0, 0.5, 0.5], [np.nan, 0.5, 0.5]])
    assert np.array_equal(fitted.predict_proba(odd), fitted.predict_proba(at_bounds))
    assert np.isfinite(fitted.predict_proba(odd)).all()


@pytest.mark.parametrize(
    ("facts", "given", "message"),
    [
        ({}, sp.csr_matrix, "sparse matrix, and encoding would turn every column into a linear term and a spline"),
        ({"bounds": ([0, 0], [1, 1])}, np.asarray, "bounds has 2 entries for 3 features"),
        ({"bounds": (1, 0)}, np.asarray, "lower < upper for every feature, and those of feature 0 are not"),
        ({"columns": dpopt.Columns(levels={"x0": ["a"]})}, np.asarray, "column 'x0' is declared twice"),
        ({"encoding": {"knotz": 3}}, np.asarray, "has no key `knotz`"),
        ({"fit_intercept": False}, np.asarray, "fit_intercept is False, and the columns are encoded"),
        ({"bounds": None}, np.asarray, "columns are declared by name, and X is a sequence"),
    ],
)
def test_what_is_refused(data, facts, given, message):
    X, y = data
    for call in (lambda m: m.fit(given(X), y), lambda m: m.explain(given(X))):
        with pytest.raises((TypeError, ValueError), match=message):
            call(model(**facts))


#: Of scikit-learn's checks those about shapes, names, copies and kinds of matrices; all of them pass, in two minutes.
CHECKS = {
    "check_n_features_in_after_fitting",
    "check_estimator_sparse_tag",
    "check_supervised_y_2d",
    "check_estimators_pickle",
}


def test_scikit_learn_conventions():
    seeded = {**FACTS, "epsilon": 100.0, "delta": 1e-3}
    made = dpopt.LogisticRegression(**seeded, bounds=(-100, 100), classes="public")
    checked = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(made):
            if check.func.__name__ in CHECKS:
                check(estimator)
                checked.add(check.func.__name__)
    assert checked == CHECKS
