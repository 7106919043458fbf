"""Fits that repeat themselves on the same people are said, by public facts alone; seeds void what they touch."""

import warnings

import dpopt
import numpy as np
import pytest
from dpopt import LogisticRegression, PrivacyWarning, mechanisms
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate, permutation_test_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

FACTS = {"epsilon": 0.5, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1], "method": "objective-perturbation"}


def table(columns, rows=300, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, columns))
    return X, (X[:, 0] > 0).astype(int)


def said(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [w for w in caught if issubclass(w.category, PrivacyWarning)]


META = {
    "cross_val_predict": lambda m, X, y: cross_val_predict(m, X, y, cv=2),
    "cross_validate": lambda m, X, y: cross_validate(m, X, y, cv=2),
    "permutation_test_score": lambda m, X, y: permutation_test_score(m, X, y, cv=2, n_permutations=2),
    "CalibratedClassifierCV": lambda m, X, y: CalibratedClassifierCV(m, cv=2).fit(X, y),
    "Stacking": lambda m, X, y: StackingClassifier([("a", m)], cv=2).fit(X, y),
    "Bagging": lambda m, X, y: BaggingClassifier(m, n_estimators=2).fit(X, y),
    "OneVsRest": lambda m, X, y: OneVsRestClassifier(m).fit(X, np.arange(len(y)) % 3),
    "GridSearchCV": lambda m, X, y: GridSearchCV(m, {"regularization": [1.0]}, cv=2).fit(X, y),
}


@pytest.mark.parametrize("how", META)
def test_what_fits_many_times_is_said(how):
    found = [str(w.message) for w in said(lambda: META[how](LogisticRegression(**FACTS), *table(3)))]
    assert any("inside scikit-learn's" in text and "budget=dpopt.Ledger" in text for text in found)


def test_what_fits_once_is_not_said():
    pipe = make_pipeline(dpopt.PublicScaler(), LogisticRegression(**FACTS))
    assert not said(lambda: pipe.fit(*table(11)))


def test_repeated_fits_are_counted_without_a_ledger():
    # by hand: folds are copies that scikit-learn's functions never see
    X, y = table(13)
    model = LogisticRegression(**FACTS)
    assert not said(lambda: model.fit(X[:100], y[:100]))
    (second,) = said(lambda: model.fit(X[100:], y[100:]))
    assert (
        "fitted 2 models" in str(second.message)
        and "epsilon 1 " in str(second.message)
        and "budget=dpopt.Ledger" in str(second.message)
    )
    assert second.filename == __file__
    assert not said(lambda: model.fit(X, y))
    assert "fitted 4 models" in str(said(lambda: model.fit(X, y))[0].message)
    # another table, by its columns; a ledger adds up by itself
    assert not said(lambda: model.fit(*table(14)))
    ledger = dpopt.Ledger(5.0, 1e-3)
    for _ in range(3):
        assert not said(lambda: LogisticRegression(**FACTS, budget=ledger).fit(*table(14)))
    assert len(said(lambda: dpopt.MeanEstimator(epsilon=0.5, delta=1e-6, bounds=(-1, 1)).fit(X=table(14)[0]))) == 1


def test_the_count_depends_on_no_record():
    texts = []
    for columns, seeds in ((15, (0, 0)), (16, (0, 1))):
        for seed in seeds:
            texts.append(
                [str(w.message) for w in said(lambda: LogisticRegression(**FACTS).fit(*table(columns, seed=seed)))]
            )
    # the same table twice, and two different tables: the same words but for the number of columns
    assert texts[0] == texts[2] == []
    assert texts[1] == [texts[3][0].replace("16 columns", "15 columns")]


def test_runs_of_a_private_search_are_not_counted():
    X, y = table(17, 2000)
    search = dpopt.select.PrivateSearchCV(
        LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"regularization": [1.0, 10.0]}, epsilon=3.0, delta=1e-6, expected_runs=4
    )  # fmt: skip
    assert not said(lambda: search.fit(X, y))
    # one search, whatever the secret number of its runs
    assert "fitted 2 models" in str(said(lambda: search.fit(X, y))[0].message)


ONCE = {
    "gaussian_sum": lambda **o: mechanisms.gaussian_sum([[0.5]] * 20, 1.0, epsilon=1.0, delta=1e-6, **o),
    "laplace_sum": lambda **o: mechanisms.laplace_sum([0.5] * 20, 1.0, epsilon=1.0, delta=1e-9, **o),
    "sparse_mean": lambda **o: mechanisms.sparse_mean(np.eye(20), 1, epsilon=1.0, delta=1e-6, **o),
    "second_moment": lambda **o: mechanisms.second_moment([[0.5]] * 20, 1.0, epsilon=1.0, delta=1e-6, **o),
    "histogram": lambda **o: mechanisms.histogram(["a"] * 20, ["a", "b"], epsilon=1.0, **o),
    "discrete_laplace_counts": lambda **o: mechanisms.discrete_laplace_counts([3, 4], epsilon=1.0, **o),
    "discrete_gaussian_counts": lambda **o: mechanisms.discrete_gaussian_counts([3, 4], epsilon=1.0, delta=1e-6, **o),
    "choose": lambda **o: mechanisms.choose([3, 4], epsilon=1.0, **o),
    "quantiles": lambda **o: mechanisms.quantiles([0.5] * 20, [0.5], epsilon=1.0, **o),
    "private_bounds": lambda **o: mechanisms.private_bounds([[0.5]] * 500, epsilon=1.0, **o),
    "frequent_labels": lambda **o: mechanisms.frequent_labels(["a", "b"] * 300, epsilon=1.0, delta=1e-6, **o),
}


@pytest.mark.parametrize("how", ONCE)
def test_a_seeded_release_is_marked_and_never_charged(how):
    with pytest.warns(PrivacyWarning, match="predictable") as caught:
        seeded = ONCE[how](insecure_seed=1)
    assert caught[0].filename == __file__
    assert seeded.insecure_seed and "VOID" in repr(seeded) and "VOID" in seeded._repr_html_()
    ledger = dpopt.Ledger(5.0, 1e-3)
    with pytest.raises(ValueError, match="leave insecure_seed out"):
        ONCE[how](insecure_seed=1, ledger=ledger)
    assert not ledger.entries
    honest = ONCE[how](ledger=ledger)
    assert not honest.insecure_seed and "VOID" not in repr(honest) + honest._repr_html_() and len(ledger.entries) == 1


def test_every_mechanism_is_in_the_list():
    functions = [
        n
        for n in mechanisms.__all__
        if callable(getattr(mechanisms, n)) and n[0].islower() and n != "sparse_mean_plans"
    ]
    assert set(functions) == set(ONCE)


def test_a_seeded_fit_is_marked_and_never_charged():
    X, y = table(18)
    ledger = dpopt.Ledger(5.0, 1e-3)
    models = [
        LogisticRegression(**FACTS, budget=ledger, insecure_seed=1),
        dpopt.MeanEstimator(epsilon=0.5, delta=1e-6, bounds=(-1, 1), budget=ledger, insecure_seed=1),
        dpopt.select.PrivateSearchCV(
            LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"shift": [0.0]}, delta=1e-6, budget=ledger, insecure_seed=1
        ),
    ]  # fmt: skip
    for model in models:
        with pytest.raises(ValueError, match="leave insecure_seed out"):
            model.fit(X, y)
        assert not ledger.entries
    for model in models[:2]:
        with pytest.warns(PrivacyWarning, match="predictable"):
            model.set_params(budget=None).fit(X, y)
        assert "VOID" in str(model.privacy_) and "VOID" in model.privacy_._repr_html_()
    assert "VOID" in models[1].report()
    assert "seed" in models[0].report()
