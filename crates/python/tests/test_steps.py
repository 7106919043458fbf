"""Steps around a private estimator: those that read the records are named, the public ones pass in silence, and privacy_ says what it is of."""

import copy
import gc
import pickle
import warnings
import weakref
from pathlib import Path

import dpopt
import numpy as np
import pandas as pd
import pytest
from dpopt import PrivacyWarning
from dpopt._steps import INSTEAD, unpublic
from sklearn import (
    decomposition,
    ensemble,
    feature_extraction,
    feature_selection,
    impute,
    kernel_approximation,
    naive_bayes,
    preprocessing,
)
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction import text
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 3))
Y = (X[:, 0] > 0).astype(int)
TEXTS = ["green apples", "red pears"] * 150
LETTERS = np.array([["a", "b"], ["b", "a"]] * 150, dtype=object)
ALONE = "of the last step alone"


def classifier(**options):
    facts = {
        "epsilon": 0.5,
        "delta": 1e-6,
        "bounds": None,
        "row_norm": 1.0,
        "classes": [0, 1],
        "method": "objective-perturbation",
    }
    return dpopt.LogisticRegression(**{**facts, "budget": dpopt.Ledger(5.0, 1e-3), **options})


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run()
    return result, [str(w.message) for w in caught if issubclass(w.category, PrivacyWarning)]


class Centred(TransformerMixin, BaseEstimator):
    """An unknown step."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


class Doubling(BaseEstimator):
    """A sampler, as imbalanced-learn has them."""

    def fit_resample(self, X, y):
        return np.concatenate([X, X]), np.concatenate([y, y])


class Resampling(Pipeline):
    """A pipeline with samplers, as imbalanced-learn has it."""

    def fit(self, X, y=None, **params):
        for _, step in self.steps[:-1]:
            X, y = step.fit_resample(X, y) if hasattr(step, "fit_resample") else (step.fit_transform(X, y), y)
        self.steps[-1][1].fit(X, y)
        return self


class Halves(BaseEstimator):
    """A meta-estimator of another library."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y):
        self.inner.fit(X[::2], y[::2])
        return self


class Quiet(preprocessing.FunctionTransformer):
    """A class of one's own under a known name's roof."""


READING = {
    "MinMaxScaler": (preprocessing.MinMaxScaler((-1, 1)), X),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler(), X),
    "StandardScaler": (preprocessing.StandardScaler(), X),
    "RobustScaler": (preprocessing.RobustScaler(), X),
    "QuantileTransformer": (preprocessing.QuantileTransformer(n_quantiles=10), X),
    "PowerTransformer": (preprocessing.PowerTransformer(), X),
    "KBinsDiscretizer": (preprocessing.KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), X),
    "SplineTransformer": (preprocessing.SplineTransformer(), X),
    "OneHotEncoder": (preprocessing.OneHotEncoder(), LETTERS),
    "OneHotEncoder of frequent levels": (preprocessing.OneHotEncoder(categories=[["a", "b"]] * 2, min_frequency=5), LETTERS),
    "OrdinalEncoder": (preprocessing.OrdinalEncoder(), LETTERS),
    "PCA": (decomposition.PCA(2), X),
    "TruncatedSVD": (decomposition.TruncatedSVD(2), X),
    "TfidfVectorizer": (text.TfidfVectorizer(), TEXTS),
    "TfidfVectorizer of given words": (text.TfidfVectorizer(vocabulary=["apples", "pears"]), TEXTS),
    "CountVectorizer": (text.CountVectorizer(), TEXTS),
    "DictVectorizer": (feature_extraction.DictVectorizer(), [{"a": 1.0}, {"b": 1.0}] * 150),
    "SimpleImputer": (impute.SimpleImputer(), X),
    "KNNImputer": (impute.KNNImputer(), X),
    "SelectKBest": (feature_selection.SelectKBest(k=2), X),
    "VarianceThreshold": (feature_selection.VarianceThreshold(), X),
    "Nystroem": (kernel_approximation.Nystroem(n_components=5), X),
    "RBFSampler": (kernel_approximation.RBFSampler(gamma="scale"), X),
    "GaussianRandomProjection": (GaussianRandomProjection(eps=0.99), rng.uniform(-1, 1, (300, 900))),
    "Centred": (Centred(), X),
    "Quiet": (Quiet(), X),
    "nested: MinMaxScaler": (make_pipeline(preprocessing.Normalizer(), make_pipeline(preprocessing.MinMaxScaler())), X),
    "in a union: MinMaxScaler": (make_union(preprocessing.Normalizer(), preprocessing.MinMaxScaler()), X),
    "in columns: MinMaxScaler": (ColumnTransformer([("numbers", preprocessing.MinMaxScaler(), [0])]), X),
    "the rest: MinMaxScaler": (ColumnTransformer([("numbers", "passthrough", [0])], remainder=preprocessing.MinMaxScaler()), X),
    "function": (ColumnTransformer([("numbers", "passthrough", lambda X: [int(np.argmax(X[0]))])]), X),
    "ExtraTreesClassifier": (feature_selection.SelectFromModel(ensemble.ExtraTreesClassifier(3), max_features=2), X),
}  # fmt: skip
READING["SelectFromModel"] = READING.pop("ExtraTreesClassifier")

PUBLIC = {
    "FunctionTransformer": (preprocessing.FunctionTransformer(np.tanh), X),
    "Normalizer": (preprocessing.Normalizer(), X),
    "Binarizer": (preprocessing.Binarizer(), X),
    "PolynomialFeatures": (preprocessing.PolynomialFeatures(2), X),
    "HashingVectorizer": (text.HashingVectorizer(n_features=16), TEXTS),
    "FeatureHasher": (feature_extraction.FeatureHasher(8), [{"a": 1.0}, {"b": 1.0}] * 150),
    "OneHotEncoder": (preprocessing.OneHotEncoder(categories=[["a", "b"]] * 2), LETTERS),
    "OrdinalEncoder": (preprocessing.OrdinalEncoder(categories=[["a", "b"]] * 2), LETTERS),
    "SplineTransformer": (preprocessing.SplineTransformer(knots=np.linspace(-1, 1, 4)[:, None].repeat(3, 1)), X),
    "CountVectorizer": (text.CountVectorizer(vocabulary=["apples", "pears"]), TEXTS),
    "TfidfVectorizer": (text.TfidfVectorizer(vocabulary=["apples", "pears"], use_idf=False), TEXTS),
    "SimpleImputer": (impute.SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True), X),
    "RBFSampler": (kernel_approximation.RBFSampler(gamma=1.0, n_components=5), X),
    "SparseRandomProjection": (SparseRandomProjection(2), X),
    "passthrough": ("passthrough", X),
    "PublicScaler": (dpopt.PublicScaler((-1, 1)), X),
    "PublicOneHot": (dpopt.PublicOneHot([["a", "b"]] * 2), LETTERS),
    "HashingEncoder": (dpopt.HashingEncoder(), LETTERS),
    "TextEncoder": (dpopt.TextEncoder(lambda text: np.array([float(len(text))])), TEXTS),
    "frozen": (FrozenEstimator(preprocessing.MinMaxScaler().fit(np.array([[-1.0] * 3, [1.0] * 3]))), X),
    "nested": (make_pipeline(preprocessing.Normalizer(), make_union(preprocessing.Binarizer(), preprocessing.PolynomialFeatures())), X),
    "in columns": (
        ColumnTransformer([("a", preprocessing.Binarizer(), [0]), ("b", "drop", [1])], remainder="passthrough"), X,
    ),
    "by type": (ColumnTransformer([("a", preprocessing.Binarizer(), make_column_selector(dtype_include="number"))]), pd.DataFrame(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", READING)
def test_a_step_that_reads_the_records_is_named(name):
    step, data = READING[name]
    # as a pipeline fits it: a copy each time
    pipe, texts = warned(lambda: make_pipeline(copy.deepcopy(step), classifier()).fit(data, Y))
    (message,) = texts
    named = name.split(": ")[-1].split()[0]
    assert named in message and "no guarantee" in message and "docs/python.md" in message
    privacy = pipe[-1].privacy_
    assert (
        ALONE in str(privacy) and ALONE in repr(privacy) and named in privacy.scope and ALONE in privacy._repr_html_()
    )
    assert ALONE in pickle.loads(pickle.dumps(privacy)).scope and ALONE in pipe[-1].report()
    with pytest.raises(ValueError, match=named):
        dpopt.select.PrivateSearchCV(
            make_pipeline(step, classifier(budget=None)),
            {"logisticregression__method__regularization": [1.0]},
            delta=1e-6,
        ).fit(data, Y)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_step_passes_in_silence(name):
    step, data = PUBLIC[name]
    pipe, texts = warned(lambda: make_pipeline(copy.deepcopy(step), classifier()).fit(data, Y))
    assert texts == [] and pipe[-1].privacy_.scope is None and ALONE not in str(pipe[-1].privacy_) + pipe[-1].report()
    assert unpublic(step) == []


def test_each_step_is_named_once_with_what_to_do():
    steps = [("low", preprocessing.MinMaxScaler()), ("norm", preprocessing.Normalizer()), ("pca", decomposition.PCA(2))]
    _, (message,) = warned(lambda: Pipeline([*steps, ("model", classifier())]).fit(X, Y))
    assert (
        message.count("`low` (MinMaxScaler)") == message.count("PCA: take dpopt.PCA") == 1
        and "Normalizer" not in message
    )
    assert "PublicScaler" in message and "GaussianRandomProjection" in message
    inner = Pipeline([("norm", preprocessing.Normalizer()), ("model", classifier())])
    pipe, (message,) = warned(lambda: make_pipeline(preprocessing.MinMaxScaler(), inner).fit(X, Y))
    assert "MinMaxScaler" in message and ALONE in str(pipe[-1][-1].privacy_)


def test_a_step_from_a_cache_is_named_too(tmp_path):
    for _ in range(2):
        pipe = make_pipeline(preprocessing.StandardScaler(), classifier(), memory=str(tmp_path))
        assert "StandardScaler" in warned(lambda pipe=pipe: pipe.fit(X, Y))[1][0]
        assert (
            warned(lambda: make_pipeline(preprocessing.Normalizer(), classifier(), memory=str(tmp_path)).fit(X, Y))[1]
            == []
        )


def test_samplers_and_pipelines_of_other_libraries():
    pipe, (message,) = warned(lambda: Resampling([("twice", Doubling()), ("model", classifier())]).fit(X, Y))
    assert "`twice` (Doubling): it makes rows out of several records" in message and ALONE in pipe[-1].privacy_.scope
    assert (
        warned(lambda: Resampling([("norm", preprocessing.Normalizer()), ("model", classifier())]).fit(X, Y))[1] == []
    )
    halves, (message,) = warned(lambda: Halves(classifier()).fit(X, Y))
    assert "inside Halves" in message and "Halves" in halves.inner.privacy_.scope


def test_targets_that_are_transformed():
    def regression(**around):
        inner = dpopt.LinearRegression(
            epsilon=0.5, delta=1e-6, bounds=(-1, 1), target_bounds=(-5, 5), budget=dpopt.Ledger(5.0, 1e-3)
        )
        return TransformedTargetRegressor(inner, **around).fit(X, X[:, 0])

    model, (message,) = warned(lambda: regression(transformer=preprocessing.StandardScaler()))
    assert "StandardScaler" in message and ALONE in model.regressor_.privacy_.scope
    for around in ({}, {"func": np.sinh, "inverse_func": np.arcsinh}):
        model, texts = warned(lambda around=around: regression(**around))
        assert texts == [] and model.regressor_.privacy_.scope is None


def test_what_fits_several_times_is_in_the_scope_too():
    for around in (
        lambda m: CalibratedClassifierCV(m, cv=2),
        lambda m: ensemble.BaggingClassifier(m, n_estimators=2),
        lambda m: ensemble.VotingClassifier([("a", m)]),
        lambda m: ensemble.StackingClassifier([("a", m)], cv=2),
    ):
        seen = []

        class Noted(dpopt.LogisticRegression):
            def fit(self, X, y, **given):
                super().fit(X, y, **given)
                seen.append(self.privacy_.scope)  # noqa: B023
                return self

        model = Noted(epsilon=0.1, delta=1e-6, bounds=(-1, 1), classes=[0, 1], budget=dpopt.Ledger(5.0, 1e-3))
        _, texts = warned(lambda around=around, model=model: around(model).fit(X, Y))
        assert texts and seen and all("of this fit alone" in scope and "scikit-learn's" in scope for scope in seen)


OTHERS = {
    "a table": (
        lambda ledger: dpopt.LogisticRegression(
            epsilon=1.0, delta=1e-6, bounds={"a": (-1, 1)}, classes=[0, 1], budget=ledger
        ),
        pd.DataFrame({"a": X[:, 0]}), Y,
    ),
    "a mean": (lambda ledger: dpopt.MeanEstimator(epsilon=0.5, delta=1e-6, bounds=(-1, 1), budget=ledger), X, None),
    "a heavy-tailed mean": (lambda ledger: dpopt.HeavyTailedMean(epsilon=0.5, moment=2.0, budget=ledger), np.tile(X, (80, 1)), None),
    "naive Bayes": (lambda ledger: dpopt.GaussianNB(epsilon=0.5, delta=1e-6, bounds=(-1, 1), classes=[0, 1], budget=ledger), X, Y),
    "scales": (lambda ledger: dpopt.PrivateScaler(epsilon=0.5, delta=1e-6, bounds=(-1, 1), budget=ledger), X, None),
    "components": (lambda ledger: dpopt.PCA(epsilon=0.5, delta=1e-6, bounds=(-1, 1), budget=ledger), X, None),
    "a search": (
        lambda ledger: dpopt.select.PrivateSearchCV(
            dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"method__regularization": [1.0]}, epsilon=2.0, delta=1e-6,
            expected_runs=1, budget=ledger,
        ),
        np.tile(X, (8, 1)), np.tile(Y, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_every_estimator_looks_around(name):
    make, data, y = OTHERS[name]
    scale = preprocessing.MaxAbsScaler().set_output(transform="pandas" if name == "a table" else "default")
    pipe, texts = warned(lambda: make_pipeline(scale, make(dpopt.Ledger(9.0, 1e-2))).fit(data, y))
    (message,) = [text for text in texts if "MaxAbsScaler" in text]
    assert ALONE in str(pipe[-1].privacy_)
    alone, texts = warned(lambda: make(dpopt.Ledger(9.0, 1e-2)).fit(data, y))
    assert not any("read the records without noise" in text for text in texts) and alone.privacy_.scope is None


def test_a_step_that_is_not_the_last_says_so():
    seen = []

    class Noted(dpopt.LogisticRegression):
        def fit(self, X, y, **given):
            super().fit(X, y, **given)
            seen.append(self.privacy_.scope)
            return self

    # the step takes coefficients of the columns
    facts = {"bounds": (-1, 1), "classes": [0, 1], "encoding": None}
    first = Noted(epsilon=0.5, delta=1e-6, **facts, budget=dpopt.Ledger(5.0, 1e-3))
    _, texts = warned(
        lambda: make_pipeline(feature_selection.SelectFromModel(first), naive_bayes.GaussianNB()).fit(X, Y)
    )
    assert any("GaussianNB" in text and "covers this step only" in text for text in texts)
    assert seen == ["of this step alone: GaussianNB read the records without noise"]


def test_looking_around_keeps_nothing_alive():
    class Held:
        pass

    gc.disable()
    try:
        held = Held()
        gone = weakref.ref(held)
        model = classifier().fit(X, Y)
        kept = weakref.ref(model)
        del held, model
        assert gone() is None and kept() is None
    finally:
        gc.enable()


def test_every_replacement_has_its_row_in_the_docs():
    rows = (Path(__file__).parents[3] / "docs" / "python.md").read_text().split("\n## Pipelines")[1].split("\n## ")[0]
    assert [name for name in INSTEAD if f"`{name}`" not in rows] == []
