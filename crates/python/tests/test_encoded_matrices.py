"""Matrices whose columns are encoded as a table's numeric columns: `bounds=(lower, upper)`, unless `encoding=None`."""

import pickle
import time
import warnings

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp
from dpopt.partitions import Here
from dpopt.select import PrivateSearchCV
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
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


# --- by default --------------------------------------------------------------------------------------------------

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "insecure_seed": 1}


def usual(kind=dpopt.LogisticRegression, **more):
    """An estimator that says nothing of an encoder."""
    return kind(**{**BUDGET, "bounds": (0, 1), **more})


def test_a_matrix_takes_the_road_of_a_table(data):
    X, y = data
    fitted = usual(classes=[0, 1]).fit(X, y)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    by_name = usual(classes=[0, 1], bounds={name: (0.0, 1.0) for name in frame}).fit(frame, y)
    # one road: the same noise, the same event, the same stages
    assert np.array_equal(fitted.coef_, by_name.coef_) and fitted.plan_ == by_name.plan_
    assert fitted.privacy_.event == by_name.privacy_.event and fitted.privacy_.stages == by_name.privacy_.stages
    assert fitted.privacy_.epsilon <= 4.0 and fitted.score(X, y) > 0.9
    assert len(fitted.encoded_feature_names_) == fitted.coef_.shape[1] > 3 == fitted.n_features_in_
    # constants that fix nothing are the same, and None is the plain model
    assert np.array_equal(usual(classes=[0, 1], encoding={}).fit(X, y).coef_, fitted.coef_)
    plain = usual(classes=[0, 1], encoding=None).fit(X, y)
    assert plain.coef_.shape == (1, 3) and not hasattr(plain, "encoded_feature_names_") and plain.score(X, y) < 0.65
    # one model after another leaves nothing of the first
    again = fitted.set_params(encoding=None).fit(X, y)
    assert np.array_equal(again.coef_, plain.coef_) and not hasattr(again, "encoded_feature_names_")
    assert clone(again).encoding is None and clone(by_name).encoding == "auto"


def test_a_fit_is_charged_once_for_all_of_its_stages(data):
    ledger = dpopt.Ledger(epsilon=5.0, delta=1e-5)
    fitted = usual(classes=[0, 1], budget=ledger, insecure_seed=None).fit(*data)
    assert len(ledger.entries) == 1 and ledger.entries[0].event == fitted.privacy_.event
    assert len(fitted.privacy_.stages) >= 1 and fitted.privacy_.epsilon <= 4.0


THREE = {"classes": [0, 1, 2]}
#: What leaves a matrix as it is: parameters, and why.
AS_IT_IS = [
    ({"row_norm": 1.0}, "row_norm is given"),
    ({"row_norm": 1.0, "bounds": None}, "its columns have no bounds"),
    ({"max_nonzeros": 2}, "max_nonzeros is given"),
    ({"fit_intercept": False}, "fit_intercept is given"),
    ({"intercept_scaling": 1.0}, "intercept_scaling is given"),
    ({"accountant": "rdp"}, "accountant is given"),
    ({"method": dpopt.methods.PAGAN(public_moments=[1.0, 1.0, 1.0])}, "public_moments are of its columns"),
    ({"bounds": None}, "its columns have no bounds"),
]


@pytest.mark.parametrize(("facts", "why"), AS_IT_IS, ids=lambda given: str(given)[:30])
@pytest.mark.filterwarnings("ignore:no public bounds")
def test_what_speaks_of_rows_leaves_a_matrix_as_it_is(data, facts, why, tmp_path):
    X, y = data
    fitted = usual(classes=[0, 1], **facts).fit(X, y)
    assert fitted.coef_.shape == (1, 3) and fitted.plan_.encoders == []
    assert np.array_equal(fitted.coef_, usual(classes=[0, 1], encoding=None, **facts).fit(X, y).coef_)
    with pytest.raises(AttributeError, match=why):
        fitted.encoder_  # noqa: B018
    with pytest.raises(ValueError, match=why):
        fitted.save(tmp_path / "model.json")


def test_sparse_matrices_parts_hinges_and_choices_of_columns_are_as_they_are(data):
    X, y = data
    kinds = y + (X[:, 1] > 0.9)
    cases = [
        (usual(classes=[0, 1]), sp.csr_matrix(X), y, 1),
        (usual(dpopt.LinearSVC, **THREE), X, kinds, 3),
        (usual(dpopt.SGDClassifier, loss="hinge", **THREE), X, kinds, 3),
        (usual(dpopt.SparseLogisticRegression, max_features=2, classes=[0, 1]), X, y, 1),
    ]
    for made, given, target, outputs in cases:
        plan = made.explain(given, n_classes=outputs if outputs > 1 else 2)
        fitted = made.fit(given, target)
        assert fitted.coef_.shape == (outputs, 3) and fitted._table is None and fitted.plan_.encoders == []
        assert plan.method == fitted.plan_.method
    wide = usual(classes=[0, 1]).explain(n_rows=1000, n_features=4097)
    assert wide.encoders == [] != usual(classes=[0, 1]).explain(n_rows=1000, n_features=4096).encoders
    parts = Here([(X[:1000], y[:1000]), (X[1000:], y[1000:])])
    descent = usual(classes=[0, 1], method="noisy-gradient-descent")
    assert np.array_equal(clone(descent).fit(parts).coef_, clone(descent).set_params(encoding=None).fit(X, y).coef_)
    # two listed classes are one score
    assert usual(dpopt.LinearSVC, classes=[0, 1]).fit(X, y).score(X, y) > 0.8
    stream = usual(classes=[0, 1], method=dpopt.methods.DPFTRL(steps=3)).partial_fit(X[:1000], y[:1000])
    assert stream.coef_.shape == (1, 3) and stream.predict(X).shape == (3000,)


def test_regression_several_classes_and_targets_that_are_found(data):
    X, _ = data
    bend = np.abs(X[:, 0] - 0.5)
    for kind in (dpopt.LinearRegression, dpopt.Ridge, dpopt.HuberRegression):
        number = usual(kind, target_bounds=(0, 0.5)).fit(X, bend)
        assert (
            number.score(X, bend) > 0.5 > usual(kind, target_bounds=(0, 0.5), encoding=None).fit(X, bend).score(X, bend)
        )
        assert number.coef_.ndim == 1 and len(number.coef_) == len(number.encoded_feature_names_)
        assert 0 <= number.predict(X * 100).min() and number.predict(X * 100).max() <= 0.5
    kinds = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [0.3, 0.6])]
    three = usual(classes=["low", "middle", "high"]).fit(X, kinds)
    assert three.classes_.tolist() == ["high", "low", "middle"] and three.score(X, kinds) > 0.8
    assert np.allclose(three.predict_proba(X).sum(axis=1), 1) and three.decision_function(X).shape == (3000, 3)
    with pytest.warns(dpopt.PrivacyWarning, match="classes were not declared: 5%"):
        found = usual().fit(X, kinds)
    assert found.classes_.tolist() == three.classes_.tolist() and len(found.privacy_.stages) > 1
    public = usual(classes="public")
    plans = [public.explain(X, n_classes=3), public.explain(n_rows=3000, n_features=3, n_classes=3)]
    assert plans[0] == plans[1] == public.fit(X, kinds).plan_
    # the range of a number: refused before anything is charged where no share of the budget would find it
    ledger = dpopt.Ledger(epsilon=5.0, delta=1e-5)
    with pytest.raises(ValueError, match="rows"):
        usual(dpopt.LinearRegression, epsilon=0.01, insecure_seed=None, budget=ledger).fit(X[:200], bend[:200])
    assert not ledger.entries


def test_ranges_of_columns_are_found_for_a_share_of_the_budget(data):
    X, y = data
    found = usual(classes=[0, 1], bounds=None, bounds_budget=0.2).fit(X * [1, 10, 100] - [0, 5, 0], y)
    assert "model" in [stage["name"] for stage in found.privacy_.stages] and len(found.privacy_.stages) >= 2
    assert found.privacy_.epsilon <= 4.0 and found.n_features_in_ == 3
    assert found.score(X * [1, 10, 100] - [0, 5, 0], y) > 0.85


@pytest.mark.parametrize(
    ("facts", "given", "why"),
    [
        ({"encoding": None}, np.asarray, "encoding is None"),
        ({"bounds": None}, sp.csr_matrix, "it is sparse"),
        ({"row_norm": 1.0}, np.asarray, "row_norm is given"),
    ],
)
def test_ranges_are_not_found_for_a_matrix_that_stays_as_it_is(data, facts, given, why):
    X, y = data
    for call in (lambda m: m.fit(given(X), y), lambda m: m.explain(given(X))):
        with pytest.raises(ValueError, match=f"bounds_budget finds ranges .* as it is, since {why}; leave it out"):
            call(usual(classes=[0, 1], **{"bounds_budget": 0.1, **facts}))


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-or-remove"])
def test_every_relation_and_persons(data, relation):
    X, y = data
    guess = {"n_rows": 2900} if relation == "add-or-remove" else {}
    fitted = usual(classes=[0, 1], neighbors=relation, **guess).fit(X, y)
    assert fitted.privacy_.relation == relation and fitted.score(X, y) > 0.9
    count = {"unit": dpopt.Unit(count=600)} if relation == "add-or-remove" else {}
    persons = usual(classes=[0, 1], neighbors=relation, **guess, **count).fit(X, y, units=np.arange(3000) // 5)
    assert persons._table is not None and persons.privacy_.epsilon <= 4.0
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    named = {name: (0.0, 1.0) for name in frame}
    by_name = usual(classes=[0, 1], neighbors=relation, **guess, **count, bounds=named)
    by_name.fit(frame, y, units=np.arange(3000) // 5)
    assert by_name.privacy_.event == persons.privacy_.event and np.array_equal(by_name.coef_, persons.coef_)


def test_arrays_of_every_kind_give_the_same_model(data):
    X, y = data
    X = np.round(X * 64)
    bounds = {"bounds": (0, 64), "classes": [0, 1], "method": "objective-perturbation", "encoding": "auto"}
    expected = usual(**bounds).fit(X, y).coef_
    still = X.copy()
    still.flags.writeable = False
    strided = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    kinds = [
        X.astype(np.float32),
        X.astype(np.int64),
        X.astype(np.uint8),
        np.asfortranarray(X),
        still,
        strided,
        X.tolist(),
    ]
    for given in kinds:
        assert np.array_equal(usual(**bounds).fit(given, y).coef_, expected)
    odd = X.copy()
    odd[3], odd[5, 0], odd[7, 1] = np.nan, np.inf, -np.inf
    before = odd.copy()
    fitted = usual(**bounds).fit(odd, y)
    assert np.array_equal(odd, before, equal_nan=True) and fitted.coef_.shape == expected.shape
    # a constant column, and one column
    flat = np.column_stack([X[:, 0], np.full(3000, 7.0)])
    assert usual(**bounds).fit(flat, y).score(flat, y) > 0.9
    assert usual(**bounds).fit(X[:, :1], y).score(X[:, :1], y) > 0.9


def test_a_search_fits_what_it_was_charged_for(data):
    X, y = data
    facts = {"bounds": (0, 1), "classes": [0, 1], "method": "objective-perturbation"}
    terms = {"epsilon": 6.0, "delta": 1e-5, "expected_runs": 1, "insecure_seed": 1}
    search = PrivateSearchCV(dpopt.LogisticRegression(**facts), {"encoding": ["auto"]}, **terms)
    assert search.fit(X, y).best_estimator_._table is not None and search.score(X, y) > 0.8
    assert search.plan_ == clone(search).explain(n_rows=3000, n_features=3)
    assert clone(search).fit(sp.csr_matrix(X), y).best_estimator_.coef_.shape == (1, 3)
    words = make_pipeline(dpopt.HashingEncoder(n_features=8), dpopt.LogisticRegression(**facts))
    piped = PrivateSearchCV(words, {"logisticregression__method": ["objective-perturbation"]}, **terms)
    assert piped.fit(np.array(["a", "b"], dtype=object)[y][:, None], y).score(
        np.array(["a", "b"], dtype=object)[y][:, None], y
    ) > 0.9  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grid = GridSearchCV(dpopt.LogisticRegression(**facts, **BUDGET), {"encoding": [None, "auto"]}, cv=2).fit(X, y)
    assert grid.best_params_ == {"encoding": "auto"}


def test_what_encoding_may_be(data):
    for wrong in ("encoder", 3, [("knots", 4)], True):
        with pytest.raises(TypeError, match='encoding is .*; give "auto", None for a matrix as it is, or constants'):
            usual(classes=[0, 1], encoding=wrong).fit(*data)


def test_a_thousand_columns_are_planned_in_seconds():
    X = np.random.default_rng(0).uniform(0, 1, (400, 1000)).astype(np.float32)
    start = time.perf_counter()
    fitted = usual(classes=[0, 1]).fit(X, (X[:, 0] > 0.5).astype(int))
    assert fitted.n_features_in_ == 1000 and time.perf_counter() - start < 60


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


# --- what one record can change, and what it cannot ---------------------------------------------------------------


def test_types_of_labels_that_are_found_are_those_of_the_column(data):
    X, y = data
    names = np.array(["low", "high"])[y]

    def found(y, **more):
        return usual(**more).fit(X, y).classes_

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for encoding in ("auto", None):
            # one record without a label, or of another type, or with a long one
            whole = found(y.tolist(), encoding=encoding)
            for other in (None, "a", 2.5, 10**30, b"x"):
                one = found([other, *y.tolist()[1:]], encoding=encoding)
                assert one.dtype == whole.dtype == np.int64 and one.tolist() == [0, 1]
            truths = (y > 0).tolist()
            one, whole = (usual(encoding=encoding).fit(X, t) for t in ([None, *truths[1:]], truths))
            assert one.classes_.tolist() == whole.classes_.tolist() == [False, True]
            # nor does one record decide whether labels are to be found
            assert one.plan_ == whole.plan_ and one.privacy_.event == whole.privacy_.event
            assert [stage["name"] for stage in one.privacy_.stages] == ["labels", "model"]
            for kind in (list, np.array):
                texts = found(kind(["a label that is longer", *names[1:]]), encoding=encoding)
                assert texts.dtype == np.dtype("<U4") and texts.tolist() == ["high", "low"]
        gap = usual().fit(X, pd.Series([None, *truths[1:]], dtype="boolean"))
        assert gap.plan_ == usual().fit(X, pd.Series(truths, dtype="boolean")).plan_ == usual().explain(X, y=y > 0)
        for column in (pd.Series([None, *y[1:]], dtype="Int64"), pd.Series(y, dtype="Int64"), pd.Series(y)):
            assert found(column).tolist() == [0, 1] and found(column).dtype == np.int64
        assert found((y + 0.5).tolist()).tolist() == [0.5, 1.5]
        # texts that look like numbers are texts where the column says so
        assert (
            found(np.array(["0", "1"])[y]).tolist() == found(pd.Series(np.array(["0", "1"])[y])).tolist() == ["0", "1"]
        )


def test_listed_classes_are_those_of_the_plain_model(data):
    X, y = data
    texts = np.array(["NA", "EU"])[y]
    for given, classes, target in (
        ([0, 1, np.nan], [0, 1], y),
        ([0, 1, 1, None], [0, 1], y),
        (["EU", "NA", "EU"], ["EU", "NA"], texts),
        ("public", ["EU", "NA"], texts),
    ):
        for encoding in ("auto", None):
            fitted = usual(classes=given, encoding=encoding).fit(X, target)
            assert fitted.classes_.tolist() == classes and fitted.predict_proba(X).shape == (3000, 2)
    assert fitted.set_params(encoding="auto").fit(X, texts).score(X, texts) > 0.9


@pytest.mark.parametrize("encoding", ["auto", None])
def test_numbers_beyond_a_float_are_their_bounds(data, encoding):
    X, y = data
    numbers = usual(classes=[0, 1], encoding=encoding)
    high, low = X.copy(), X.copy()
    high[7], low[7] = 1.0, 0.0
    for bound, factor in ((high, 1), (low, -1)):
        expected = clone(numbers).fit(bound, y).coef_
        with warnings.catch_warnings():
            # NumPy warns where a number overflows: that would tell of it
            warnings.simplefilter("error", RuntimeWarning)
            wide = X.astype(np.longdouble)
            if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
                wide[7] = factor * np.longdouble("1e4000")
                assert np.array_equal(clone(numbers).fit(wide, y).coef_, expected)
                assert np.array_equal(
                    clone(numbers).fit(pd.DataFrame(wide), y).predict(wide), numbers.fit(bound, y).predict(bound)
                )
            for made in (list, lambda rows: np.array(rows, dtype=object)):
                rows = X.tolist()
                rows[7] = [factor * 10**400] * 3
                assert np.array_equal(clone(numbers).fit(made(rows), y).coef_, expected)


def test_an_infinite_number_is_its_bound_in_every_table(data, tmp_path):
    X, y = data
    odd, at_bounds = X[:6].copy(), X[:6].copy()
    odd[0, 0], odd[1], odd[2, 1] = np.inf, -np.inf, np.nan
    at_bounds[0, 0], at_bounds[1], at_bounds[2, 1] = 1.0, 0.0, np.nan
    for names, fitted_to in ((["a", "b", "c"], pd.DataFrame(X, columns=["a", "b", "c"])), (["x0", "x1", "x2"], X)):
        fitted = usual(classes=[0, 1]).fit(fitted_to, y)
        fitted.save(tmp_path / "model.json")
        frame = pd.DataFrame(odd, columns=names)
        expected = fitted.decision_function(pd.DataFrame(at_bounds, columns=names))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for given in (odd, frame, frame.astype(object), frame.astype(np.float32), frame[names[::-1]]):
                assert np.allclose(fitted.decision_function(given), expected, atol=1e-5)
                assert np.allclose(fitted.encoder_.transform(given) @ fitted.coef_[0], expected, atol=1e-4)
        onnxruntime = pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")
        session = onnxruntime.InferenceSession(dpopt.export.to_onnx(fitted).SerializeToString())
        inputs = {name: np.ascontiguousarray(odd[:, [j]]) for j, name in enumerate(names)}
        assert np.allclose(session.run(["probabilities"], inputs)[0], fitted.predict_proba(frame), atol=1e-6)
    # a file of columns x0, x1, … is taken for one of a matrix
    assert np.allclose(dpopt.load(tmp_path / "model.json").decision_function(frame), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["", " ", "dpopt", "a\nb", "\x1b[31m", "a\tb", " a", "\u00a0a", "b "])
def test_a_name_that_cannot_be_declared_is_no_error(data, name):
    X, y = data
    frame = pd.DataFrame(X, columns=[name, "0.7251", "b"])
    fitted = usual(classes=[0, 1]).fit(frame, y)
    assert fitted.plan_ == usual(classes=[0, 1]).explain(frame) and fitted.feature_names_in_.tolist() == list(frame)
    assert np.array_equal(fitted.coef_, usual(classes=[0, 1]).fit(X, y).coef_)
    assert np.array_equal(fitted.encoder_.transform(frame) @ fitted.coef_[0] > 0, fitted.predict(frame) == 1)
    # an error names no column: names without a header are a record
    with pytest.raises(ValueError, match="feature 0 are further apart than a float can say") as told:
        usual(classes=[0, 1], bounds=(-1e308, 1e308)).fit(frame, y)
    assert "0.7251" not in str(told.value)


def test_errors_before_the_charge_say_what_to_do(data):
    X, y = data
    ledger = dpopt.Ledger(epsilon=5.0, delta=1e-5)
    charged = {"classes": [0, 1], "budget": ledger, "insecure_seed": None}
    for facts, target, message in (
        ({"bounds": None, "bounds_budget": np.nan}, y, "bounds_budget is nan; give a share of epsilon above 0"),
        ({"bounds": None, "bounds_budget": 1.0}, y, "bounds_budget is 1; give a share of epsilon above 0"),
        ({}, "income", "y should be a 1d array: it is text"),
        ({"bad_cells": "drop"}, y, "bad_cells is 'drop'"),
    ):
        with pytest.raises(ValueError, match=message):
            usual(**charged, **facts).fit(X, target)
    assert not ledger.entries


def test_targets_in_the_place_of_the_number_of_features_are_told_by_name():
    X = np.zeros((20, 2))
    with pytest.raises(TypeError, match=r"explain\(X, y=y\)"):
        dpopt.LogisticRegression(epsilon=1.0, bounds=(-1, 1), classes=[0, 1]).explain(X, np.zeros(20))
