"""Linear models that learn batch by batch: one budget, one charge, one noise."""

import copy
import pickle

import dpopt
import numpy as np
import pytest
from dpopt._partial_fit_classes import Classes
from sklearn.base import clone

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:This process"),
]

ROWS, BATCHES = 6000, 60
PUBLIC = dict(epsilon=4.0, delta=1e-6, bounds=(-1, 1), insecure_seed=3)


def table(seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (ROWS, 4))
    score = X[:, 0] - X[:, 1] + 0.2 * rng.normal(size=ROWS)
    return X, (np.digitize(score, [0.0] if classes == 2 else [-0.4, 0.4])), score


def batches(X, y, size=ROWS // BATCHES):
    for start in range(0, len(X), size):
        yield X[start : start + size], y[start : start + size]


def model(kind=dpopt.LogisticRegression, **options):
    return kind(**{**PUBLIC, "n_rows": ROWS, "method": dpopt.methods.Auto(steps=BATCHES), **options})


@pytest.mark.parametrize("kind", [dpopt.LogisticRegression, dpopt.LinearSVC, dpopt.SGDClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_learn_and_can_be_read_after_every_batch(kind, classes):
    X, y, _ = table(classes=classes)
    learner = model(kind, method=dpopt.methods.DPFTRL(steps=BATCHES))
    scores = []
    for part, labels in batches(X, y):
        assert learner.partial_fit(part, labels, classes=range(classes)) is learner
        scores.append(learner.score(X, y))
        assert learner.privacy_.epsilon <= 4.0 and learner.n_batches_seen_ == len(scores)
    # no line has the middle one of three classes on one side
    least = 0.9 if classes == 2 else 0.6 if kind is dpopt.LinearSVC else 0.7
    assert scores[-1] > least
    assert scores[-1] > scores[0] + 0.01 or scores[0] > 0.9
    after = learner.coef_.copy()
    with pytest.raises(ValueError, match=f"all {BATCHES} planned batches"):
        learner.partial_fit(X[:10], y[:10])
    np.testing.assert_array_equal(learner.coef_, after)
    assert learner.predict(X).shape == y.shape


@pytest.mark.parametrize("kind", [dpopt.LinearRegression, dpopt.Ridge, dpopt.HuberRegression, dpopt.SGDRegressor])
def test_regressors_learn(kind):
    X, _, score = table()
    learner = model(kind, method=dpopt.methods.DPFTRL(steps=BATCHES), target_bounds=(-2, 2))
    for part, numbers in batches(X, score):
        learner.partial_fit(part, numbers)
    assert learner.score(X, score) > 0.6 and learner.coef_.shape == (4,)


@pytest.mark.parametrize("kind", [dpopt.LogisticRegression, dpopt.LinearRegression])
def test_a_stream_ends_where_a_fit_in_the_same_batches_does(kind):
    X, y, score = table()
    options = {"classes": [0, 1]} if kind is dpopt.LogisticRegression else {"target_bounds": (-2, 2)}
    targets = y if kind is dpopt.LogisticRegression else score
    learner = model(kind, **options)
    for part, given in batches(X, targets):
        learner.partial_fit(part, given)
    method = dpopt.methods.DPFTRL(steps=BATCHES, sampling_probability=1 / BATCHES, calibration=0)
    whole = model(kind, method=method, encoding=None, **options).fit(X, targets)
    np.testing.assert_allclose(learner.coef_, whole.coef_, atol=1e-9)
    assert learner.privacy_.epsilon == whole.privacy_.epsilon
    assert learner.plan_.schedule["batching"] == "arrival" and whole.plan_.schedule["batching"] == "position"


def test_the_whole_stream_is_charged_once_and_first():
    X, y, _ = table()
    ledger = dpopt.Ledger(4.0, 1e-6)
    learner = model(budget=ledger, insecure_seed=None, classes=[0, 1])
    for part, labels in list(batches(X, y))[:3]:
        learner.partial_fit(part, labels)
        assert len(ledger.entries) == 1 and ledger.spent[0] == 4.0
    with pytest.raises(dpopt.BudgetExceeded):
        clone(learner).partial_fit(X[:10], y[:10])


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_has_the_model_and_not_the_noise(how):
    X, y, _ = table()
    learner = model(classes=[0, 1]).partial_fit(X[:100], y[:100])
    twin = how(learner)
    np.testing.assert_array_equal(twin.coef_, learner.coef_)
    np.testing.assert_array_equal(twin.predict(X), learner.predict(X))
    with pytest.raises(dpopt.PrivacyError, match="copy of one that was learning"):
        twin.partial_fit(X[100:200], y[100:200])
    with pytest.raises(dpopt.PrivacyError, match="copy of one that was learning"):
        how(twin).partial_fit(X[100:200], y[100:200])
    learner.partial_fit(X[100:200], y[100:200])
    assert learner.n_batches_seen_ == 2 and twin.n_batches_seen_ == 1
    # a clone has nothing of it
    assert not hasattr(clone(learner), "coef_")
    clone(twin).partial_fit(X[:100], y[:100])


def test_a_forked_process_refuses():
    import os

    X, y, _ = table()
    learner = model(classes=[0, 1]).partial_fit(X[:100], y[:100])
    child = os.fork()
    if child == 0:
        try:
            learner.partial_fit(X[100:200], y[100:200])
        except ValueError as error:
            os._exit(0 if "opened in another process" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    learner.partial_fit(X[100:200], y[100:200])


def test_what_was_not_planned_changes_nothing():
    X, y, _ = table()
    learner = model(classes=[0, 1]).partial_fit(X[:100], y[:100])
    before = learner.coef_.copy()
    for part, labels, options, error in [
        (X[:101], y[:101], {}, "at most 100"),
        (X[:10, :3], y[:10], {}, "features"),
        (X[:10], y[:9], {}, "inconsistent"),
        (X[:10], y[:10], {"classes": [0, 1, 2]}, "not the same"),
        (X[:10], y[:10], {"sample_weight": np.ones(10)}, "sample_weight"),
    ]:
        with pytest.raises(ValueError, match=error):
            learner.partial_fit(part, labels, **options)
    learner.set_params(epsilon=1.0)
    with pytest.raises(ValueError, match="parameters were changed"):
        learner.partial_fit(X[:10], y[:10])
    learner.set_params(epsilon=4.0)
    np.testing.assert_array_equal(learner.coef_, before)
    assert learner.partial_fit(X[100:130], y[100:130]).n_batches_seen_ == 2


def test_what_no_stream_has_is_refused():
    X, y, score = table()
    part, labels = X[:100], y[:100]
    for kind, options, error in [
        (dpopt.LogisticRegression, {}, "classes must be passed on the first call"),
        (dpopt.LogisticRegression, {"classes": "public"}, "classes must be passed on the first call"),
        (dpopt.LogisticRegression, {"classes": [0, 1], "neighbors": "add-or-remove"}, "moves all later ones"),
        (dpopt.LogisticRegression, {"classes": [0, 1], "method": dpopt.methods.Auto(steps=BATCHES, sampling_probability=0.1)}, "sampling_probability"),
        (dpopt.LogisticRegression, {"classes": [0, 1], "n_rows": 50}, "batches"),
        (dpopt.LogisticRegression, {"classes": [0, 1], "delta": 0.0}, "delta"),
        (dpopt.LogisticRegression, {"classes": [0], }, "at least two"),
        (dpopt.LinearRegression, {}, "target_bounds"),
        (dpopt.LinearRegression, {"heavy_tailed": (2, 1.0, 0.0)}, "target_bounds"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=error):
            model(kind, **options).partial_fit(part, labels if kind is dpopt.LogisticRegression else score[:100])
    with pytest.raises(ValueError, match="fitted by fit"):
        model(classes=[0, 1], n_rows=None).fit(X, y).partial_fit(part, labels)
    for hidden in ({"method": "auto"}, {"method": dpopt.methods.NoisySGD(steps=BATCHES)}):
        assert not hasattr(model(**hidden), "partial_fit")
    with pytest.raises(AttributeError) as caught:
        dpopt.LogisticRegression().partial_fit(part, labels)
    assert "steps=" in str(caught.value.__cause__)
    assert not hasattr(dpopt.SparseLogisticRegression(max_features=2), "partial_fit")


def test_the_first_batch_says_how_large_batches_are():
    X, y, _ = table()
    learner = model(n_rows=None, classes=[0, 1]).partial_fit(X[:50], y[:50])
    assert learner.plan_.n_rows == 50 * BATCHES
    with pytest.raises(ValueError, match="at most 50"):
        learner.partial_fit(X[:51], y[:51])


def test_labels_that_nobody_declared_tell_nothing():
    X, y, _ = table()
    odd = y.copy()
    odd[7] = 77
    missing = X.copy()
    missing[7] = np.nan
    one = model(classes=[0, 1]).partial_fit(X[:100], odd[:100])
    other = model(classes=[0, 1]).partial_fit(missing[:100], odd[:100])
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_a_fit_after_a_stream_is_a_fit(tmp_path):
    X, y, _ = table()
    learner = model(classes=[0, 1]).partial_fit(X[:100], y[:100])
    html = learner.report(tmp_path / "report.html")
    assert "in at most 60 batches of at most 100" in html and "dp-ftrl" in html
    assert "dp-ftrl" in str(learner.plan_)
    learner.set_params(method__steps=None, n_rows=None)
    assert learner.fit(X, y).score(X, y) > 0.9
    with pytest.raises(AttributeError):
        learner.partial_fit(X[:10], y[:10])


@pytest.mark.parametrize("label", [np.nan, None, "c", 3, 2.5])
def test_one_label_of_another_kind_is_one_that_was_not_declared(label):
    """Batches of one record: whatever its label is, it is learnt, and no error."""
    model = dpopt.LogisticRegression(
        epsilon=2.0, delta=1e-5, bounds=(-1, 1), classes=["a", "b"], n_rows=4, method=dpopt.methods.Auto(steps=4)
    )
    for y in (["a"], [label], ["b"]):
        model.partial_fit(np.ones((1, 2)) / 2, np.array(y, dtype=object) if y[0] is None else y)
    assert model.n_batches_seen_ == 3


@pytest.mark.parametrize("target", [np.nan, None, "many", 7])
def test_one_target_that_is_no_number_counts_as_missing(target):
    model = dpopt.LinearRegression(
        epsilon=2.0, delta=1e-5, bounds=(-1, 1), target_bounds=(-1, 1), n_rows=4, method=dpopt.methods.Auto(steps=4)
    )
    for y in ([0.5], [target], [0.25]):
        model.partial_fit(np.ones((1, 2)) / 2, y)
    assert model.n_batches_seen_ == 3


def test_a_parameter_that_changed_ends_the_stream():
    model = dpopt.LinearRegression(
        epsilon=2.0, delta=1e-5, bounds=(-1, 1), target_bounds=(-1, 1), method=dpopt.methods.Auto(steps=4)
    )
    model.partial_fit(np.ones((2, 2)), [0.5, 0.25])
    model.set_params(target_bounds=(-100, 100))
    with pytest.raises(ValueError, match="parameters were changed"):
        model.partial_fit(np.ones((2, 2)), [0.5, 0.25])


def test_after_an_interruption_the_batch_is_not_taken_again():
    learner = model()
    X, y, _ = table()
    taken = list(batches(X, y))
    learner.partial_fit(*taken[0], classes=[0, 1])
    learner._stream.compiled.learn(learner._stream.facts.encode(*_encoded(learner, taken[1])))
    with pytest.raises(dpopt.PrivacyError, match="continue with the next batch"):
        learner.partial_fit(*taken[1])
    assert learner.n_batches_seen_ == 2
    learner.partial_fit(*taken[2])
    assert learner.n_batches_seen_ == 3


def _encoded(learner, batch):
    return batch[0], Classes().reading(learner, batch[1], learner.classes_)[0].values
