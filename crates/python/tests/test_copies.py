"""A copy of an estimator spends from the same ledger, wherever it goes; where it cannot, it refuses to go."""

import copy
import multiprocessing
import os
import pickle

import dpopt
import joblib
import numpy as np
import pytest
from dpopt import Ledger, LogisticRegression
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 2))
Y = (X[:, 0] > 0).astype(int)
FACTS = {"epsilon": 0.5, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1], "method": "objective-perturbation"}


def model(ledger, **changes):
    return LogisticRegression(**{**FACTS, **changes}, budget=ledger)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger(20.0, 1e-3, path=None if request.param == "memory" else tmp_path / "people.ledger")


@pytest.fixture
def filed(tmp_path):
    return Ledger(20.0, 1e-3, path=tmp_path / "people.ledger")


HERE = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "clone": clone, "set_params": lambda m: m.set_params(shift=0.0),
    "deepcopy of a list": lambda m: copy.deepcopy([m])[0], "pipeline": lambda m: clone(make_pipeline(dpopt.PublicScaler(), m)),
}  # fmt: skip


@pytest.mark.parametrize("how", HERE, ids=str)
def test_a_copy_in_this_process_shares_the_ledger(ledger, how):
    HERE[how](model(ledger)).fit(X, Y)
    assert len(ledger.entries) == 1


def refusing(estimator):
    """The text of everything in the chain of what joblib raises."""
    with pytest.raises(Exception) as caught:
        cross_val_score(estimator, X, Y, cv=2, n_jobs=2)
    error, texts = caught.value, []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def test_a_ledger_in_memory_refuses_to_travel(tmp_path):
    ledger = Ledger(20.0, 1e-3)
    fitted = model(ledger).fit(X, Y)
    for travel in (pickle.dumps, lambda m: joblib.dump(m, tmp_path / "model.joblib")):
        with pytest.raises(TypeError, match=r"Ledger.open\(path\).*set_params\(budget=None\)"):
            travel(fitted)
    assert "Ledger.open(path)" in refusing(model(ledger))
    search = GridSearchCV(model(ledger), {"regularization": [1.0, 2.0]}, cv=2, n_jobs=2)
    bag = BaggingClassifier(model(ledger), n_estimators=2, n_jobs=2)
    rest = OneVsRestClassifier(model(ledger), n_jobs=2)
    for meta, y in [(search, Y), (bag, Y), (rest, np.arange(400) % 3)]:
        with pytest.raises(Exception):  # noqa: B017 (whatever joblib makes of the refusal; what counts is the ledger below)
            meta.fit(X, y)
    with pytest.raises(TypeError, match="Ledger.open"):
        pickle.dumps(dpopt.select.PrivateSearchCV(model(None), {"shift": [0.0]}, budget=ledger))
    # nothing was fitted where the ledger is not, and nothing charged here
    assert len(ledger.entries) == 1
    again = pickle.loads(pickle.dumps(fitted.set_params(budget=None)))
    assert np.array_equal(again.predict(X), fitted.predict(X))


def test_a_pickled_ledger_file_is_the_same_file(filed, tmp_path, monkeypatch):
    fitted = pickle.loads(pickle.dumps(model(filed).fit(X, Y)))
    assert (fitted.budget.path, fitted.budget.epsilon, fitted.budget.delta) == (filed.path, 20.0, 1e-3)
    joblib.dump(fitted, tmp_path / "model.joblib")
    # also from another directory
    monkeypatch.chdir("/")
    joblib.load(tmp_path / "model.joblib").fit(X, Y)
    assert len(filed.entries) == 2


def test_a_pickled_ledger_never_makes_a_new_file(filed, tmp_path):
    filed.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)
    sent = pickle.dumps(filed)
    os.rename(filed.path, tmp_path / "moved.ledger")
    with pytest.raises(dpopt.PrivacyError, match="not there"):
        pickle.loads(sent)
    assert not os.path.exists(filed.path)
    Ledger(20.0, 1e-3, path=filed.path)
    with pytest.raises(dpopt.PrivacyError, match="fewer charges"):
        pickle.loads(sent)


OTHERS = {"charged anew": ["two"], "with more charges": ["two", "three"]}
OTHER_TERMS = {
    "another total": {"epsilon": 30.0}, "another delta": {"delta": 1e-2}, "another relation": {"relation": "replace-one"},
    "another name": {"name": "other"}, "another unit": {"unit": "patient"},
}  # fmt: skip


@pytest.mark.parametrize("how", OTHERS)
def test_a_pickled_ledger_refuses_a_file_that_was_begun_anew(filed, how):
    filed.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)
    sent = pickle.dumps(filed)
    os.remove(filed.path)
    charges = OTHERS[how]
    other = Ledger(20.0, 1e-3, path=filed.path)
    for name in charges:
        other.charge(name, "laplace(10)", epsilon=0.2, delta=0.0)
    with pytest.raises(dpopt.PrivacyError, match="begun anew"):
        pickle.loads(sent)
    assert len(Ledger.open(filed.path).entries) == len(charges)


@pytest.mark.parametrize("what", OTHER_TERMS)
def test_a_pickled_ledger_refuses_a_file_of_other_terms(filed, what):
    sent = pickle.dumps(filed)
    os.remove(filed.path)
    Ledger(**{"epsilon": 20.0, "delta": 1e-3, "path": filed.path, **OTHER_TERMS[what]})
    with pytest.raises(dpopt.PrivacyError, match=r"another (epsilon|delta|relation|name|unit)"):
        pickle.loads(sent)


def test_a_pickled_ledger_knows_what_others_charged(filed):
    Ledger.open(filed.path).charge("elsewhere", "laplace(10)", epsilon=0.2, delta=0.0)
    sent = pickle.dumps(filed)
    again = pickle.loads(sent)
    again.charge("there", "laplace(10)", epsilon=0.2, delta=0.0)
    assert len(pickle.loads(sent).entries) == 2
    os.remove(filed.path)
    Ledger(20.0, 1e-3, path=filed.path).charge("other", "laplace(10)", epsilon=0.2, delta=0.0)
    for ledger in (filed, again):
        with pytest.raises(dpopt.PrivacyError, match="lost charges"):
            ledger.charge("more", "laplace(10)", epsilon=0.2, delta=0.0)


def test_a_relative_path_is_kept_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(1.0, 1e-6, path="people.ledger")
    assert os.path.isabs(ledger.path)


AWAY = {
    "cross_val_score": lambda m: cross_val_score(m, X, Y, cv=2, n_jobs=2),
    "GridSearchCV": lambda m: GridSearchCV(m, {"regularization": [1.0, 2.0]}, cv=2, n_jobs=2, refit=False).fit(X, Y),
    "Bagging": lambda m: BaggingClassifier(m, n_estimators=2, n_jobs=2).fit(X, Y),
    "OneVsRest": lambda m: OneVsRestClassifier(m, n_jobs=2).fit(X, np.arange(400) % 3),
    "Stacking": lambda m: StackingClassifier([("a", m)], final_estimator=m, cv=2, n_jobs=2, stack_method="predict").fit(
        X, Y
    ),
}
#: Inner fits of each: two folds; two candidates of two folds; two bags; three classes; all rows, two folds and the last one.
FITS = {"cross_val_score": 2, "GridSearchCV": 4, "Bagging": 2, "OneVsRest": 3, "Stacking": 4}


@pytest.mark.parametrize("how", AWAY)
def test_every_fit_in_a_worker_charges_the_file(filed, how):
    AWAY[how](model(filed))
    assert len(filed.entries) == FITS[how]


@pytest.mark.parametrize("how", AWAY)
def test_a_worker_is_refused_what_the_file_does_not_hold(tmp_path, how):
    small = Ledger(0.55, 1.2e-6, path=tmp_path / "small.ledger")
    try:
        AWAY[how](model(small))
    except Exception:
        pass  # scikit-learn scores a refused fit as NaN, or passes the refusal on
    assert len(small.entries) == 1 and small.share <= 1.0


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_spend_a_copy(ledger):
    def child(answers):
        try:
            ledger.charge("child", "laplace(10)", epsilon=0.2, delta=0.0)
            answers.put("charged")
        except dpopt.BudgetExceeded as error:
            answers.put(str(error))

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    said = answers.get(timeout=60)
    process.join()
    if ledger.path is None:
        assert "another process" in said and "Ledger.open(path)" in said and not ledger.entries
    else:
        assert said == "charged" and len(ledger.entries) == 1


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_refuses_a_file_that_was_begun_anew(filed):
    filed.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)

    def child(answers):
        os.remove(filed.path)
        Ledger(20.0, 1e-3, path=filed.path).charge("other", "laplace(10)", epsilon=0.2, delta=0.0)
        for use in (lambda: filed.entries, lambda: filed.charge("child", "laplace(10)", epsilon=0.2, delta=0.0)):
            try:
                use()
                answers.put("went on")
            except dpopt.PrivacyError as error:
                answers.put(str(error))

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    said = [answers.get(timeout=60) for _ in range(2)]
    process.join()
    assert all("begun anew" in text for text in said)


def test_open_needs_a_file_of_records(tmp_path):
    with pytest.raises(dpopt.PrivacyError):
        Ledger.open(tmp_path / "none.ledger")
    assert not (tmp_path / "none.ledger").exists()
    Ledger(2.0, 1e-6, relation="replace-one", path=tmp_path / "a.ledger", name="census")
    again = Ledger.open(tmp_path / "a.ledger")
    assert (again.epsilon, again.delta, again.relation, again.name) == (2.0, 1e-6, "replace-one", "census")
