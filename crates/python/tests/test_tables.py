"""Tables with columns declared by name: the command line's bytes, every kind of data frame, model files, what one record can change."""

import datetime
import json
import os
import pickle
import re
import subprocess
import warnings
from pathlib import Path

import dpopt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

pd = pytest.importorskip("pandas")

RECORDS = 1500
LEVELS = {"sex": ["f", "m"], "member": ["False", "True"]}
FACTS = {
    "bounds": {"age": (17, 90), "gain": (0, 99999)},
    "encoding": {"text_bits": 8},
    "columns": dpopt.Columns(levels=LEVELS, text=["message"], hashed=["city"]),
}
BOUNDS = """
[dpopt]
text_bits = 8
[age]
lower = 17
upper = 90
[gain]
lower = 0
upper = 99999
[sex]
levels = ["f", "m"]
[member]
levels = ["False", "True"]
[message]
text = true
[city]
hash = true
"""
INCOME = '[income]\nlevels = ["<=50K", ">50K"]\n'
CLASSES = ["<=50K", ">50K"]


def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(17, 90, RECORDS),
            "gain": np.where(rng.random(RECORDS) < 0.2, np.nan, rng.uniform(0, 99999, RECORDS)),
            "sex": rng.choice(["f", "m", "?"], RECORDS),
            "city": rng.choice(list("abcdef"), RECORDS),
            "message": rng.choice(["free money, call 0800", "hi there", "see http://x.org\n now"], RECORDS),
            "member": rng.random(RECORDS) < 0.5,
        }
    )
    table["income"] = np.where(table.age + rng.normal(0, 10, RECORDS) > 50, ">50K", "<=50K")
    return table


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        yield


def command_line():
    root = Path(__file__).parents[3]
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    name = "dpopt.exe" if os.name == "nt" else "dpopt"
    found = [p for p in (target / "release" / name, target / "debug" / name) if p.exists()]
    if not found:
        pytest.skip("the command line is not built: cargo build --release -p dpopt-cli")
    return str(max(found, key=lambda p: p.stat().st_mtime))


def model(**more):
    return dpopt.LogisticRegression(
        **{"epsilon": 2.0, "delta": 1e-6, **FACTS, "classes": CLASSES, "insecure_seed": 7, **more}
    )


def text_of(fitted, tmp_path):
    fitted.save(tmp_path / "saved.json")
    return (tmp_path / "saved.json").read_text()


def run(tmp_path, table, bounds, *more, suffix="csv"):
    data = tmp_path / f"table.{suffix}"
    # a field with a line break in it is no line
    plain = table.assign(message=table.message.str.replace("\n", " ")) if "message" in table else table
    plain.to_csv(data, index=False) if suffix == "csv" else table.to_parquet(data)
    (tmp_path / "bounds.toml").write_text(bounds)
    done = subprocess.run(
        [command_line(), "fit", data, "--bounds", tmp_path / "bounds.toml", "--insecure-seed", "7", "-o",
         tmp_path / "model.json", *map(str, more)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (tmp_path / "model.json").read_text()


def test_the_same_bytes_as_the_command_line(table, tmp_path):
    X, y = table.drop(columns="income"), table.income
    X = X.assign(message=X.message.str.replace("\n", " "))
    more = ("--target", "income", "--epsilon", 2, "--delta", 1e-6)
    expected = run(tmp_path, table, BOUNDS + INCOME, *more)
    assert text_of(model().fit(X, y), tmp_path) == expected
    # by the same file, by the target's name, from Parquet
    facts = {"epsilon": 2.0, "delta": 1e-6, "insecure_seed": 7, "bounds": tmp_path / "bounds.toml"}
    assert text_of(dpopt.LogisticRegression(**facts).fit(X.assign(income=y), "income"), tmp_path) == expected
    pytest.importorskip("pyarrow")
    words = BOUNDS.replace("False", "false").replace("True", "true")
    stored = run(tmp_path, table, words + INCOME, *more, suffix="parquet")
    levels = {"sex": ["f", "m"], "member": [False, True]}
    assert (
        text_of(
            model(columns=dpopt.Columns(levels=levels, text=["message"], hashed=["city"])).fit(
                table.drop(columns="income"), y
            ),
            tmp_path,
        )
        == stored
    )
    # what differs between two files is how truth values are spelled
    weights = [json.loads(text)["weights"] for text in (stored, expected)]
    assert weights[0] == weights[1]


def test_private_bounds_and_labels_are_those_of_the_command_line(table, tmp_path):
    columns = ["age", "gain", "income"]
    given = ("--target", "income", "--epsilon", 8, "--delta", 1e-6, "--bounds-budget", 0.2)
    expected = run(tmp_path, table[columns], "[age]\nnumeric = true\n[gain]\nlower = 0\nupper = 99999\n", *given)
    fitted = dpopt.LogisticRegression(
        epsilon=8.0,
        delta=1e-6,
        insecure_seed=7,
        bounds={"gain": (0, 99999)},
        bounds_budget=0.2,
        columns=dpopt.Columns(numeric=["age"]),
    )
    assert text_of(fitted.fit(table[["age", "gain"]], table.income), tmp_path) == expected
    assert [s["name"] for s in fitted.privacy_.stages] == ["labels", "bounds", "model"]
    assert fitted.classes_.tolist() == CLASSES and fitted.privacy_.epsilon <= 8.0
    with pytest.raises(
        ValueError, match=r"numeric columns have no declared range: age; give bounds=\{.* or bounds_budget=0.1"
    ):
        clone(fitted).set_params(bounds_budget=None).fit(table[["age", "gain"]], table.income)


def test_regression_is_that_of_the_command_line(table, tmp_path):
    X = table[["gain", "sex"]].assign(age=table.age.astype(float))
    bounds = "[gain]\nlower = 0\nupper = 99999\n[sex]\nlevels = ['f', 'm']\n[age]\nlower = 17\nupper = 90\n"
    given = ("--target", "age", "--epsilon", 2, "--delta", 1e-6, "--task", "regression")
    expected = run(tmp_path, X, bounds, *given)
    facts = {
        "bounds": {"gain": (0, 99999)},
        "target_bounds": (17, 90),
        "columns": dpopt.Columns(levels={"sex": ["f", "m"]}),
    }
    fitted = dpopt.LinearRegression(epsilon=2.0, delta=1e-6, insecure_seed=7, **facts).fit(X, "age")
    assert text_of(fitted, tmp_path) == expected
    predicted = fitted.predict(X)
    assert predicted.shape == (RECORDS,) and predicted.min() >= 17 and predicted.max() <= 90
    rows = fitted.encoder_.transform(X[["gain", "sex"]])
    np.testing.assert_allclose(np.clip(rows @ fitted.coef_ + fitted.intercept_, 17, 90), predicted, rtol=1e-9)
    loaded = dpopt.load(tmp_path / "model.json")
    assert isinstance(loaded, dpopt.LinearRegression) and (loaded.predict(X) == predicted).all()
    assert loaded.coef_.shape == fitted.coef_.shape and np.isfinite(fitted.score(X, "age"))
    ridge = dpopt.Ridge(alpha=2.0, epsilon=2.0, delta=1e-6, **facts).fit(X[["gain", "sex"]], X.age.tolist())
    assert ridge.plan_.schedule is not None


def frames(table):
    """One table in every form that the library reads, by name."""
    yield "objects", table.astype(object)
    yield "categories", table.assign(sex=table.sex.astype("category"), city=table.city.astype("category"))
    yield "nullable", table.convert_dtypes(dtype_backend="numpy_nullable")
    yield "float32 age", table.assign(age=table.age.astype("float32"))
    yield "numbers as text", table.assign(age=table.age.astype(str) + " ")
    yield "strided", table.iloc[::1, ::-1][list(table.columns)]
    try:
        import pyarrow as pa
    except ImportError:
        pass
    else:
        yield "arrow", pa.Table.from_pandas(table)
        yield "arrow in pieces", pa.concat_tables([pa.Table.from_pandas(table[i : i + 700]) for i in (0, 700, 1400)])
        yield "arrow dictionaries", pa.Table.from_pandas(table.assign(sex=table.sex.astype("category")))
        yield "arrow in pandas", table.convert_dtypes(dtype_backend="pyarrow")
    try:
        import polars
    except ImportError:
        return
    yield "polars", polars.from_pandas(table)
    yield "polars categories", polars.from_pandas(table).with_columns(polars.col("city").cast(polars.Categorical))


def test_every_data_frame_is_the_same_table(table, tmp_path):
    expected = text_of(model().fit(table, "income"), tmp_path)
    probabilities = dpopt.load(tmp_path / "saved.json").predict_proba(table)
    for name, frame in frames(table):
        fitted = model().fit(frame, "income")
        assert text_of(fitted, tmp_path) == expected, name
        assert (fitted.predict_proba(frame) == probabilities).all(), name
        assert fitted.feature_names_in_.tolist() == [n for n in table.columns if n != "income"], name


def test_what_a_fitted_model_has(table, tmp_path):
    X, y = table.drop(columns="income"), table.income
    fitted = model().fit(X, y)
    width = fitted.coef_.shape[1]
    assert fitted.n_features_in_ == 6 and len(fitted.encoded_feature_names_) == width
    assert {"(intercept)", "age@17", "sex=(missing)", "sex=(other)"} <= set(fitted.encoded_feature_names_)
    assert fitted.privacy_.epsilon <= 2.0 and fitted.plan_.n_features == width and fitted.plan_.n_rows == RECORDS
    assert fitted.score(X, y) > 0.8 and fitted.score(table, "income") == fitted.score(X, y)
    # spaces around a label are no part of it, as in files
    assert fitted.score(X, " " + y) == fitted.score(X, y)
    scores, proba = fitted.decision_function(X), fitted.predict_proba(X)
    assert scores.shape == (RECORDS,) and proba.shape == (RECORDS, 2)
    assert ((scores > 0) == (proba[:, 1] > 0.5)).all() and (
        fitted.predict(X) == np.array(CLASSES)[(scores > 0) * 1]
    ).all()
    encoder = fitted.encoder_
    np.testing.assert_allclose(encoder.transform(X) @ fitted.coef_[0] + fitted.intercept_, scores, rtol=1e-6, atol=1e-9)
    assert encoder.get_feature_names_out().tolist() == fitted.encoded_feature_names_.tolist()
    report = fitted.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == report and "(insecure_seed)" in report and "age:line" in report
    # columns may stand in another order, and others beside them
    assert (fitted.predict(table[table.columns[::-1]]) == fitted.predict(X)).all()
    for again in (pickle.loads(pickle.dumps(fitted)), clone(fitted).fit(X, y)):
        assert (again.predict_proba(X) == proba).all() and again.report().startswith("<!DOCTYPE")
    from dpopt import plot

    labels = [t.get_text() for t in plot.coefficient_intervals(fitted, most=5).get_yticklabels()]
    assert len(labels) == 5 and set(labels) <= set(fitted.encoded_feature_names_)
    with pytest.raises(ValueError, match="estimator.save"):
        dpopt.export.to_sklearn(fitted)


def test_model_files_go_both_ways(table, tmp_path):
    fitted = model(insecure_seed=None).fit(table, "income")
    fitted.save(tmp_path / "model.json")
    table.drop(columns="message").assign(message="hi there").to_csv(tmp_path / "new.csv", index=False)
    verified = subprocess.run([command_line(), "verify", tmp_path / "model.json"], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    done = subprocess.run(
        [command_line(), "predict", tmp_path / "model.json", tmp_path / "new.csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(",") for line in done.stdout.splitlines()[1:]]
    new = pd.read_csv(tmp_path / "new.csv")
    loaded = dpopt.load(tmp_path / "model.json")
    assert [line[0] for line in lines] == loaded.predict(new).tolist() == fitted.predict(new).tolist()
    assert [float(line[2]) for line in lines] == loaded.predict_proba(new)[:, 1].tolist()
    assert loaded.privacy_.epsilon == fitted.privacy_.epsilon and not loaded.privacy_.insecure_seed
    with pytest.raises(ValueError, match="was loaded from a file and has no report"):
        loaded.report()
    with pytest.raises(ValueError, match="cannot read"):
        dpopt.load(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="this model is of a matrix as it is, since encoding is None"):
        plain = dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1], encoding=None)
        plain.fit(np.zeros((200, 2)), [0, 1] * 100).save(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("classes", "values"),
    [
        ([1, 0], [0, 1]),
        ([False, True], [False, True]),
        ("public", [3, 5]),
        (["b", "a"], ["a", "b"]),
        ([2, 0, 1], [0, 1, 2]),
        ([0.5, 1.5], [0.5, 1.5]),
    ],
)
def test_labels_have_the_type_they_were_declared_with_and_are_sorted(table, classes, values):
    X = table[["age", "sex"]]
    y = np.array(values)[np.digitize(table.age, np.linspace(17, 90, len(values) + 1)[1:-1])]
    facts = {"bounds": {"age": (17, 90)}, "columns": dpopt.Columns(levels={"sex": ["f", "m"]})}
    fitted = dpopt.LogisticRegression(epsilon=20.0, delta=1e-4, classes=classes, insecure_seed=1, **facts)
    for given in (y, y.tolist(), pd.Series(y), y.astype(object)):
        fitted.fit(X, given)
        assert fitted.classes_.tolist() == values and fitted.classes_.dtype == np.array(values).dtype
        assert fitted.score(X, y) > 0.8, (classes, fitted.score(X, y))
        assert (fitted.predict_proba(X).argmax(axis=1) == np.searchsorted(values, fitted.predict(X))).all()
        assert fitted.coef_.shape[0] == (1 if len(values) == 2 else len(values))


def test_budgets_in_memory_and_in_files(table, tmp_path):
    from dpopt import Ledger

    X, y = table[["age", "sex"]], table.income
    facts = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "bounds": {"age": (17, 90)},
        "classes": CLASSES,
        "columns": dpopt.Columns(levels={"sex": ["f", "m"]}),
    }
    memory = Ledger(1.5, 1e-5)
    dpopt.LogisticRegression(**facts, budget=memory).fit(X, y)
    assert memory.spent == (1.0, 1e-6) and memory.entries[0].name == "fit income of a table of pandas"
    with pytest.raises(dpopt.BudgetExceeded, match=r"only epsilon 0\.5"):
        dpopt.LogisticRegression(**facts, budget=memory).fit(X, y)
    with pytest.raises(ValueError, match="insecure_seed and a ledger exclude each other"):
        dpopt.LogisticRegression(**facts, budget=memory, insecure_seed=1).fit(X, y)
    file = Ledger(3.0, 1e-5, path=tmp_path / "a.ledger")
    fitted = dpopt.LogisticRegression(**facts, budget=file).fit(X, y)
    fitted.save(tmp_path / "model.json")
    receipt = json.loads((tmp_path / "model.json").read_text())["receipt"]
    assert receipt["number"] == 1 and len(file.entries) == 1 and "Ledger" in fitted.report()
    with pytest.raises(dpopt.BudgetExceeded):
        dpopt.LogisticRegression(**{**facts, "epsilon": 20.0}, budget=file).fit(X, y)
    # refused before anything is charged
    with pytest.raises(ValueError, match="not a column of the table"):
        dpopt.LogisticRegression(**{**facts, "columns": dpopt.Columns(levels={"sxe": ["f", "m"]})}, budget=file).fit(
            X, y
        )
    assert len(file.entries) == 1


def test_explain_takes_its_shape_from_the_table(table):
    X = table.drop(columns="income")
    plan = model().explain(X)
    fitted = model().fit(X, table.income)
    assert plan == fitted.plan_ and plan.n_rows == RECORDS
    # nothing but names, dtypes and the number of rows is looked at
    assert model().explain(X.assign(age=-1, message=None, gain=np.inf).astype({"message": object})) == plan
    assert model().explain(table, y="income") == plan
    for encoding in ("auto", None):
        matrix = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], encoding=encoding)
        expected = matrix.explain(n_rows=300, n_features=4)
        for given in (np.zeros((300, 4)), pd.DataFrame(np.zeros((300, 4))), [[0.0] * 4] * 300):
            assert matrix.explain(given) == expected
    assert (
        matrix.explain(300, 4) == expected and dpopt.MeanEstimator(bounds=(0, 1)).explain(np.zeros((9, 2))).n_rows == 9
    )
    for wrong, message in (
        ({}, "explain needs the shape of the data; give X"),
        ({"n_rows": 3}, "explain needs the shape of the data; give X"),
        ({"X": np.zeros((3, 2)), "n_features": 2}, "n_features and n_rows are given, but the shape comes from X"),
    ):
        with pytest.raises(TypeError, match=message):
            matrix.explain(**wrong)
    # the form of the encoder, as the command line's explain has it
    forms = plan.encoders
    assert plan.encoder is forms[0] and {"knots", "spread", "pair_knots", "words", "excess_risk"} <= set(forms[0])
    assert f"encoder: {forms[0]['words']}" in str(plan).splitlines() and forms[0]["words"] in plan._repr_html_()
    assert f"{len(forms) - 8} more in plan.encoders" in str(plan) and len(forms) > 8
    assert expected.encoders == [] and expected.encoder is None and "encoder" not in str(expected)
    printed = str(expected).splitlines()
    refused = [c["method"] for c in expected.candidates if c.get("not_applicable")]
    assert len(printed) == 4 + len(expected.candidates) - len(refused)
    assert all(name in printed[-3] for name in refused) and set(expected.refused) == set(refused)
    assert printed[-1].startswith("time: less than a second") and 0 < expected.core_seconds < 1


def test_add_or_remove_needs_a_guess(table):
    X, y = table[["age"]], table.income
    facts = {"bounds": {"age": (17, 90)}, "classes": CLASSES, "neighbors": "add-or-remove", "delta": 1e-6}
    with pytest.raises(ValueError, match="give a public guess as n_rows"):
        dpopt.LogisticRegression(**facts).fit(X, y)
    fitted = dpopt.LogisticRegression(**facts, n_rows=1000).fit(X, y)
    assert fitted.plan_.n_rows == 1000 and fitted.plan_.relation == "add-or-remove"


def test_weights_of_records_are_refused_with_the_reason(table):
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    y = (X[:, 0] > 0).astype(int)
    for estimator in (
        dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1]),
        dpopt.Ridge(bounds=(-1, 1), target_bounds=(0, 1)),
    ):
        with pytest.raises(ValueError, match="sample_weight is not supported"):
            estimator.fit(X, y, sample_weight=np.ones(200))
        with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
            estimator.fit(X, y, weights=1)
        estimator.fit(X, y, sample_weight=None)
    with pytest.raises(TypeError, match="no parameter class_weight: the losses here weigh every record alike"):
        dpopt.LogisticRegression(class_weight={0: 1.0, 1: 2.0})
    with pytest.raises(ValueError, match="sample_weight"):
        model().fit(table, "income", sample_weight=np.ones(RECORDS))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"bounds": {"agee": (17, 90)}}, "`agee` is not a column of the table, did you mean `age`"),
        ({"bounds": {"age": (90, 17)}}, "is above upper"),
        ({"bounds": {"age": 3}}, r"must be \(lower, upper\)"),
        ({"bounds": {"age": (17, 90)}, "columns": dpopt.Columns(text=["age"])}, "declared twice"),
        ({"columns": dpopt.Columns(levels={"sex": "fm"})}, "give a list of levels"),
        ({"encoding": {"knotz": 3}}, "has no key `knotz`, did you mean `knots`"),
        ({"encoding": {"knots": 300}}, "knots = 300 is out of range"),
        ({"fit_intercept": False}, "fit_intercept is False, and columns are declared by name"),
        ({"accountant": "renyi"}, "accountant is 'renyi'"),
        ({"bounds": "nowhere.toml"}, "cannot read nowhere.toml"),
        ({"bad_cells": "skip"}, 'give "missing" or "error"'),
        ({"method": "peeling"}, "SparseLogisticRegression.* with max_features"),
        ({"bounds_budget": 2.0}, "bounds_budget is 2"),
    ],
)
def test_messages_are_in_the_words_of_python(table, facts, message):
    X, y = table[["age", "sex"]], table.income
    base = {"bounds": {"age": (17, 90)}, "classes": CLASSES, "columns": dpopt.Columns(levels={"sex": ["f", "m"]})}
    if facts.get("bounds") == "nowhere.toml":
        base["columns"] = None
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        dpopt.LogisticRegression(**{**base, **facts}).fit(X, y)
    assert "--" not in str(caught.value)


def test_every_estimator_takes_tables_and_says_what_it_cannot(table, tmp_path):
    X, y = table[["age", "sex"]], (table.age > 50).map({False: "young", True: "old"})
    facts = {
        "bounds": {"age": (17, 90)},
        "epsilon": 20.0,
        "delta": 1e-6,
        "insecure_seed": 1,
        "columns": dpopt.Columns(levels={"sex": ["f", "m"]}),
    }
    two = {**facts, "classes": ["young", "old"]}
    steps = {"method": dpopt.methods.Auto(steps=60, sampling_probability=0.2)}
    towers = {"towers": (["age"], ["sex"])}
    fitted = [
        (dpopt.LinearSVC(**two), {"name": "smoothed-hinge", "width": 0.5}),
        (dpopt.SGDClassifier(loss="hinge", **two, **steps), {"name": "hinge"}),
        (dpopt.EmbeddingClassifier(embedding_dim=3, **two, **steps), {"name": "logistic", "shift": 0.0}),
        (dpopt.TwoTowerClassifier(embedding_dim=3, **towers, **two, **steps), {"name": "logistic", "shift": 0.0}),
    ]
    number = {**facts, "target_bounds": (0.0, 100.0), **steps}
    fitted += [
        (dpopt.SGDRegressor(loss="huber", threshold=0.25, **number), {"name": "huber", "threshold": 0.25}),
        (dpopt.SGDRegressor(loss="absolute_error", **number), {"name": "absolute"}),
        (dpopt.TwoTowerRegressor(embedding_dim=3, **towers, **number), {"name": "squared"}),
    ]
    for at, (estimator, loss) in enumerate(fitted):
        target = y if hasattr(estimator, "classes") else table.age
        estimator.fit(X, target)
        assert {**loss, **estimator._fitted_loss} == estimator._fitted_loss
        assert estimator.score(X, target) > (0.9 if hasattr(estimator, "classes") else 0.6), type(estimator)
        assert 0 < estimator.privacy_.epsilon <= 20.0
        estimator.save(tmp_path / f"{at}.json")
        again = dpopt.load(tmp_path / f"{at}.json")
        assert type(again) is type(estimator) and np.array_equal(again.predict(X), estimator.predict(X))
        if hasattr(estimator, "user_vectors"):
            # what it is made of, in the order of the sorted classes
            scores = (estimator.user_vectors(X) * estimator.item_vectors(X)).sum(axis=1) * abs(estimator._score_scale)
            scores += estimator.encoder_.transform(X) @ np.ravel(estimator.coef_) + estimator.intercept_
            whole = estimator.decision_function(X) if hasattr(estimator, "classes") else estimator.predict(X)
            assert np.allclose(
                np.clip(scores, 0, 100) if not hasattr(estimator, "classes") else scores, whole, atol=1e-4
            )
    vectors = fitted[2][0]
    assert np.allclose(
        (vectors.encoder_.transform(X) @ vectors.embeddings_) @ vectors.output_[0],
        vectors.decision_function(X),
        atol=1e-5,
    )
    # what a model file has no place for
    with pytest.raises(ValueError, match="takes two classes, and `income` has 3; .*TableEncoder"):
        dpopt.LinearSVC(**facts, classes=["a", "b", "c"]).fit(X, table.income)
    with pytest.raises(ValueError, match="undeclared labels; declare two"):
        dpopt.LinearSVC(**facts).fit(X, y)
    with pytest.raises(ValueError, match="towers must be two lists of names"):
        dpopt.TwoTowerRegressor(**facts, target_bounds=(0, 1)).fit(X, table.age)
    with pytest.raises(TypeError, match="columns are declared by name, and X is a sequence"):
        dpopt.LogisticRegression(bounds={"age": (17, 90)}, classes=CLASSES).fit(X.to_numpy(), y)
    sparse = dpopt.SparseLogisticRegression(
        max_features=3, epsilon=8.0, bounds={"age": (17, 90)}, classes=CLASSES, insecure_seed=1
    )
    assert 1 <= sparse.fit(X[["age"]], table.income).get_support().sum() <= 4


def test_messages_have_the_ways_out(table):
    X, y = table[["age", "sex"]], table.income
    with pytest.raises(ValueError, match="declare the columns by name, bounds="):
        dpopt.LogisticRegression(classes=CLASSES).fit(X, y)
    facts = {"epsilon": 1.0, "insecure_seed": 1, "columns": dpopt.Columns(levels={"sex": ["f", "m"]})}
    # of 4,000 rows so little of so little finds no range
    with pytest.raises(dpopt.PrivacyError, match="needs about [0-9]+ rows at this budget; declare its range"):
        dpopt.LinearRegression(**{**facts, "epsilon": 0.01}).fit(X, "age")
    found = dpopt.LinearRegression(**{**facts, "epsilon": 8.0}).fit(X, "age")
    assert [stage["name"] for stage in found.privacy_.stages] == ["bounds", "model"]
    clipped = dpopt.LinearRegression(**{**facts, "epsilon": 8.0, "heavy_tailed": (4, 40, 50)}).fit(X, "age")
    assert [stage["name"] for stage in clipped.privacy_.stages] == ["model"]
    assert sum(clipped.target_range_) == pytest.approx(100) and clipped.target_range_[1] >= 90
    assert clipped.target_clip_bias_ <= 27 / 256 * 40 and "clipping moves its mean by at most" in clipped.report()
    with pytest.raises(dpopt.PrivacyError, match="`age` has a declared range"):
        dpopt.LinearRegression(bounds={"age": (17, 90)}, **{**facts, "heavy_tailed": (4, 40)}).fit(X, "age")
    with pytest.raises(ValueError, match="declared with levels; use a classifier"):
        dpopt.LinearRegression(
            bounds={"age": (17, 90)}, columns=dpopt.Columns(levels={"sex": ["f", "m"], "income": CLASSES})
        ).fit(X, y)
    with pytest.raises(TypeError, match="explain needs the table; give X"):
        dpopt.LogisticRegression(**facts).explain(2000, 2)


def test_a_matrix_as_it_is_stays_on_its_own_road(table):
    X = table[["age"]].to_numpy(dtype=float)
    facts = {"bounds": (17, 90), "encoding": None}
    fitted = dpopt.LogisticRegression(**facts, classes=CLASSES, epsilon=5.0, insecure_seed=1)
    fitted.fit(X, table.income)
    assert fitted._table is None and fitted.coef_.shape == (1, 1)
    # and an estimator can go from one to the other
    fitted.set_params(bounds={"age": (17, 90)}).fit(table[["age"]], table.income)
    assert fitted._table is not None and fitted.coef_.shape[1] > 1
    fitted.set_params(bounds=(17, 90)).fit(X, table.income)
    assert fitted._table is None and fitted.coef_.shape == (1, 1) and not hasattr(fitted, "encoded_feature_names_")


def test_the_encoder_reads_names_and_dtypes_only(table, tmp_path):
    X = table.drop(columns="income")
    encoder = dpopt.TableEncoder(**FACTS).fit(X)
    names = encoder.get_feature_names_out()
    other = X.assign(age=-5, sex="zz", gain=np.nan)
    assert (dpopt.TableEncoder(**FACTS).fit(other).get_feature_names_out() == names).all()
    rows = encoder.transform(X)
    assert rows.shape == (RECORDS, len(names)) and rows.dtype == np.float32 and rows.format == "csr"
    assert np.sqrt(rows.multiply(rows).sum(axis=1)).max() <= 1.0 + 1e-6
    again = pickle.loads(pickle.dumps(encoder))
    assert (again.transform(X) != rows).nnz == 0
    (tmp_path / "bounds.toml").write_text(BOUNDS + INCOME)
    same = dpopt.TableEncoder(bounds=str(tmp_path / "bounds.toml"), target="income").fit(X)
    assert (same.transform(X) != rows).nnz == 0
    pipe = make_pipeline(
        dpopt.TableEncoder(bounds=FACTS["bounds"], columns=dpopt.Columns(levels=LEVELS, ignore=["message", "city"])),
        dpopt.LinearSVC(epsilon=8.0, delta=1e-6, row_norm=1.0, fit_intercept=False, classes=CLASSES, insecure_seed=1),
    )
    assert pipe.fit(X, table.income).score(X, table.income) > 0.7
    with pytest.raises(ValueError, match="numeric columns have no declared range: age"):
        dpopt.TableEncoder(columns=dpopt.Columns(levels=LEVELS, text=["message"], hashed=["city", "gain"])).fit(X)


def test_dates_are_days_and_other_columns_are_read_too():
    days = pd.Series(pd.date_range("2020-01-01", periods=300)).astype("datetime64[us]")
    days.iloc[3] = pd.NaT
    plain = pd.DataFrame({"t": days})
    ends = (pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01"))
    encode = lambda frame, bounds: dpopt.TableEncoder(bounds={"t": bounds}).fit_transform(frame).toarray()
    expected = encode(plain, ends)
    assert len(np.unique(expected, axis=0)) == 300 and expected[3, -1] > 0
    assert (encode(pd.DataFrame({"t": days.dt.tz_localize("UTC")}), ends) == expected).all()
    assert (encode(pd.DataFrame({"t": pd.arrays.SparseArray([0.0, np.nan])}), (0, 1))[1, -1]) > 0
    pa = pytest.importorskip("pyarrow")
    assert (encode(pa.Table.from_pandas(plain), ends) == expected).all()
    numbers = encode(pa.table({"t": [1.0, 2.0]}), (0, 9))
    # a slice of a column, and numbers of every type
    assert (encode(pa.table({"t": pa.array(["x", "1", "2"]).slice(1)}), (0, 9)) == numbers).all()
    for kind in (pa.uint8(), pa.uint64(), pa.int16(), pa.float16(), pa.decimal128(22, 2)):
        assert (encode(pa.table({"t": pa.array([1, 2], pa.int64()).cast(kind)}), (0, 9)) == numbers).all(), kind
    assert encode(pa.table({"t": pa.chunked_array([], type=pa.string())}), (0, 9)).shape[0] == 0
    with pytest.raises(TypeError, match="collect"):
        polars = pytest.importorskip("polars")
        dpopt.TableEncoder(bounds={"t": (0, 9)}).fit(polars.DataFrame({"t": [1]}).lazy())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_is_one_number_whatever_holds_it(unit):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    days = pd.date_range("2020-01-01 06:00", periods=50, freq="3D")
    low, high = datetime.date(2020, 1, 1), np.datetime64("2020-06-01T00:00")
    encode = lambda frame, bounds=(low, high): dpopt.TableEncoder(bounds={"t": bounds}).fit_transform(frame).toarray()
    expected = encode(pd.DataFrame({"t": days}))
    assert len(np.unique(expected, axis=0)) == 50
    stored = pd.DataFrame({"t": days.as_unit(unit)})
    given = [
        stored, stored.astype(object), stored.assign(t=[day.to_pydatetime() for day in days]).astype(object),
        pd.DataFrame({"t": [day.isoformat() for day in days]}), stored.assign(t=stored.t.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
        pa.table({"t": pa.array(days.as_unit("ns").asi8, pa.timestamp("ns")).cast(pa.timestamp(unit))}),
        pl.DataFrame({"t": [day.to_pydatetime() for day in days]}).cast(pl.Datetime(unit if unit != "s" else "ms")),
    ]  # fmt: skip
    for frame in given:
        assert (encode(frame) == expected).all(), (type(frame), frame)
    # what one odd cell does to its dtype changes no other row
    odd = stored.astype(object)
    odd.iat[3, 0] = "oops"
    assert (np.delete(encode(odd), 3, axis=0) == np.delete(expected, 3, axis=0)).all() and encode(odd)[3, -1] > 0
    # plain numbers are ticks where the type is a fact of the column, and refused where rows may have decided it
    ticks = [int(pd.Timestamp(end).as_unit(unit)._value) for end in (low, high)]
    assert (encode(given[5], tuple(ticks)) == expected).all()
    with pytest.raises(ValueError, match="column `t` holds dates .* give dates"):
        encode(stored, tuple(ticks))
    with pytest.raises(ValueError, match="its bounds are dates and it holds numbers"):
        encode(pd.DataFrame({"t": [1, 2]}))
    spans = pd.to_timedelta(np.arange(50), unit="h")
    over = (datetime.timedelta(0), np.timedelta64(3, "D"))
    expected = encode(pd.DataFrame({"t": np.arange(50) / 24}), (0.0, 3.0))
    hours = pd.DataFrame({"t": spans.as_unit(unit)})
    for frame in [
        hours,
        hours.astype(object),
        pa.Table.from_pandas(hours),
        pl.from_pandas(pd.DataFrame({"t": spans})),
        hours.astype(str),
    ]:
        assert np.allclose(encode(frame, over), expected, atol=1e-6), frame


def test_columns_whose_whole_type_is_no_number_are_refused():
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    ages = list(range(20, 60))
    classes = ["a" if age < 40 else "b" for age in ages]
    given = {
        "struct": pa.table({"age": pa.array([{"v": age} for age in ages])}),
        "list": pa.table({"age": pa.array([[age] for age in ages])}),
        "dictionary": pa.table({"age": pa.DictionaryArray.from_arrays(pa.array([0] * 40), pa.array([[1]]))}),
        "Array": pl.DataFrame({"age": pl.Series([[age] for age in ages], dtype=pl.Array(pl.Int64, 1))}),
        "interval": pd.DataFrame({"age": pd.cut(ages, 5)}),
        "interval[": pd.DataFrame({"age": pd.arrays.IntervalArray.from_breaks(range(41))}),
        "complex": pd.DataFrame({"age": np.array(ages, dtype=complex)}),
    }
    fit = lambda frame, **more: dpopt.LogisticRegression(
        **{"epsilon": 5.0, "bounds": {"age": (18, 80)}, "classes": ["a", "b"], "insecure_seed": 1, **more}
    ).fit(frame, classes)
    plain = fit(pd.DataFrame({"age": ages}))
    from dpopt import Ledger

    ledger = Ledger(50.0, 1e-3)
    for kind, frame in given.items():
        with pytest.raises(ValueError, match="`age`.* nested or binary type|`age`.*flatten") as caught:
            fit(frame, budget=ledger, insecure_seed=None)
        assert "`age`" in str(caught.value), kind
        with pytest.raises(ValueError, match="`age`"):
            plain.predict(frame)
    assert not ledger.entries
    # numbers of any width, and cells that hold what a column may not
    assert np.array_equal(fit(pl.DataFrame({"age": ages}).cast(pl.Int128)).coef_, plain.coef_)
    fit(pd.DataFrame({"age": [[1], {"a": 1}, None, *ages[3:]]}))


def test_labels_are_found_by_value_whatever_holds_them():
    ages = np.arange(20, 60)
    fit = lambda y, classes: dpopt.LogisticRegression(
        epsilon=5.0, bounds={"age": (18, 80)}, classes=classes, method="output-perturbation", insecure_seed=1
    ).fit(pd.DataFrame({"age": ages}), y)
    old = ages > 40
    expected = fit(np.where(old, "1", "0"), ["0", "1"]).coef_
    for y in [
        old,
        old.astype(int),
        old.astype(float),
        old.astype(str),
        old.astype("S5"),
        [str(v).encode() for v in old.astype(int)],
        pd.Series(old.astype(float), dtype=object),
    ]:
        for classes in [["0", "1"], [0, 1], [0.0, 1.0], [False, True], ["False", "True"], [b"0", b"1"]]:
            assert np.array_equal(fit(y, classes).coef_, expected), (y, classes)
    assert np.array_equal(fit(old, ["no", "yes"]).coef_, expected)
    # an array on its own road
    array = lambda y, classes: dpopt.LogisticRegression(
        epsilon=5.0, bounds=(18, 80), classes=classes, insecure_seed=1
    ).fit(ages[:, None], y)
    words = np.where(old, "b", "a")
    expected = array(words, ["a", "b"])
    for y in [words.astype("S1"), np.array([w.encode() for w in words], dtype=object), list(words.astype("S1"))]:
        found = array(y, ["a", "b"])
        assert np.array_equal(found.coef_, expected.coef_) and found.score(ages[:, None], y) == expected.score(
            ages[:, None], words
        )
    found = array(words.astype("S1"), [b"a", b"b"])
    assert np.array_equal(found.coef_, expected.coef_) and found.predict(ages[:1, None])[0] == b"a"


def outcome(frame, **more):
    """Everything but the noisy numbers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted = model(**more).fit(frame, "income")
        except Exception as error:
            return type(error).__name__, str(error)
    # where a B-spline of a column after the quantile transform stands follows from a noisy histogram
    names = [re.sub("@.*", "@", name) for name in fitted.encoded_feature_names_]
    return (
        fitted.coef_.shape, fitted.classes_.tolist(), names, str(fitted.plan_),
        str(fitted.privacy_), [str(w.message) for w in caught if "fitted" not in str(w.message)], fitted.predict(frame).shape,
    )  # fmt: skip


HOSTILE = {
    "age": ["forty", None, np.inf, 1e308, [1], {"a": 1}, b"\xff", "\ud800", True],
    "gain": ["", "NA", "zehn", -1e300, 10**400, pd.NA, pd.NaT],
    "sex": ["unknown", 7, np.nan, [], "\x00"],
    "message": [None, 3.5, "x" * 100_000, b"bytes", "\ud800"],
    "member": ["maybe", None, 2, "True "],
    "income": ["never", None, 3, []],
}


@pytest.mark.parametrize("column", HOSTILE)
def test_one_record_changes_noisy_numbers_only(table, column):
    # whatever stands in one cell, also if the column's dtype changes with it
    table = table[:400]
    expected = outcome(table, method="objective-perturbation")
    assert len(expected) == 7
    for value in HOSTILE[column]:
        frame = table.astype({column: object})
        frame.iat[7, list(table.columns).index(column)] = value
        assert outcome(frame, method="objective-perturbation") == expected, (column, value)


def test_a_missing_cell_of_categories_is_missing(table):
    few = table[:400].assign(
        sex=table.sex[:400].where(table.index[:400] != 7), income=table.income[:400].where(table.index[:400] != 9)
    )
    options = {
        "bounds": {"age": (17, 90)},
        "encoding": None,
    }
    options |= {
        "method": "objective-perturbation",
        "insecure_seed": 1,
        "columns": dpopt.Columns(levels={"sex": ["f", "m"]}, ignore=["gain", "city", "message", "member"]),
    }
    expected = model(**options).fit(few, "income").coef_
    categories = few.astype({"sex": "category", "income": "category"})
    assert np.array_equal(model(**options).fit(categories, "income").coef_, expected)
    pa = pytest.importorskip("pyarrow")
    dictionary = pa.Table.from_pandas(categories, preserve_index=False)
    assert pa.types.is_dictionary(dictionary.schema.field("sex").type)
    assert np.array_equal(model(**options).fit(dictionary, "income").coef_, expected)
    # whose rows they are
    ids = pd.Series(np.arange(400) // 4).astype(str).where(few.index != 11)
    mean = lambda units: (
        dpopt.MeanEstimator(5.0, 1e-6, bounds=(0, 90), insecure_seed=1).fit(few[["age"]], units=units).mean_
    )
    assert np.array_equal(mean(ids.astype("category")), mean(ids.astype(object)))


def test_errors_tell_column_and_row_and_never_the_value(table):
    frame = table.astype({"age": object})
    frame.iat[7, 0] = "c4n4ry"
    kind, message = outcome(frame, bad_cells="error")
    assert kind == "ValueError" and "column `age`, row 8: not a finite number" in message
    assert "c4n4ry" not in message and 'bad_cells="missing"' in message
    with pytest.raises(ValueError, match="column `age`, row 8") as caught:
        model(bad_cells="error").fit(table, "income").predict(frame)
    assert "c4n4ry" not in str(caught.value) and caught.value.__context__ is None


def test_undeclared_columns_follow_their_dtypes_and_are_named(table):
    facts = {
        "bounds": {"age": (17, 90)},
        "encoding": None,
        "columns": None,
    }
    X = table[["age", "city", "income"]]
    with pytest.warns(dpopt.PrivacyWarning, match="nothing declares the columns city"):
        model(**facts).fit(X, "income")
    with pytest.raises(ValueError, match="numeric columns have no declared range: gain"):
        model(**facts).fit(table[["age", "gain", "income"]], "income")
    assert (
        model(**{**facts, "columns": dpopt.Columns(ignore=["gain"])})
        .fit(table[["age", "gain", "income"]], "income")
        .n_features_in_
        == 2
    )


def test_columns_that_are_missing_at_predictions_are_named(table):
    fitted = model().fit(table, "income")
    with pytest.raises(ValueError, match="the model's column `gain` is not a column of the table"):
        fitted.predict(table.drop(columns="gain"))
    with pytest.raises(TypeError, match="columns are declared by name"):
        fitted.predict(np.zeros((3, 6)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.fit(table.drop(columns="income"), table.income[:-1])


VECTORS = "free 1 0 2\nmoney 0 2 1\nhi 0 1 3\nsee 1 1 3\nthere 2 0 0\nnow 0.5 1 1\n"


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text(VECTORS)
    return path


def test_texts_with_public_vectors(table, vectors, tmp_path):
    messages = table[["message", "member"]]
    facts = {
        "classes": ["False", "True"],
        "delta": 1e-4,
        "columns": dpopt.Columns(text=["message"], public_vectors=vectors),
    }
    model = dpopt.LogisticRegression(epsilon=2, insecure_seed=1, **facts).fit(messages, "member")
    assert any(name.startswith("message:vector[") for name in model.encoded_feature_names_)
    assert "public word vectors" in model.report()
    scores = model.decision_function(messages)
    for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(messages, "member")):
        assert np.array_equal(copy.decision_function(messages), scores)
    encoded = model.encoder_.transform(messages)
    assert np.allclose(encoded @ model.coef_.ravel(), scores)
    model.save(tmp_path / "m.json")
    loaded = dpopt.load(tmp_path / "m.json", public_vectors=vectors)
    assert np.array_equal(loaded.decision_function(messages), scores)
    with pytest.raises(ValueError, match=r"v\.txt, which are missing; give dpopt\.load\(path, public_vectors"):
        dpopt.load(tmp_path / "m.json").predict(messages)
    vectors.write_text(VECTORS.replace("3", "4"))
    with pytest.raises(ValueError, match="are others"):
        dpopt.load(tmp_path / "m.json", public_vectors=vectors)
    encoder = dpopt.TableEncoder(
        columns=dpopt.Columns(text=["message"], public_vectors=vectors, ignore=["member"])
    ).fit(messages)
    assert pickle.loads(pickle.dumps(encoder)).transform(messages).shape == (RECORDS, 1 + 12 + 2**16 + 3)
    with pytest.raises(TypeError, match="public_vectors"):
        dpopt.LogisticRegression(columns=dpopt.Columns(text=["message"], public_vectors=3)).fit(messages, "member")


def test_an_encoder_of_texts_sees_one_record():
    seen = []

    def encode(text):
        seen.append(text)
        if "canary" in text:
            raise ValueError(text)
        if "wide" in text:
            return np.zeros(7)
        return np.array([len(text), text.count("a"), np.nan if "nan" in text else 1.0])

    encoder = dpopt.TextEncoder(encode, public_texts=["a b", "c"], norm=2.0).fit(["never read"])
    assert seen == ["", "a b", "c"] and encoder.output_columns(1) == 3
    texts = ["a long text", "canary", "wide", "nan", None, 3, "c"]
    found = encoder.transform(texts)
    assert seen[3:] == [text for text in texts if isinstance(text, str)]
    assert found.shape == (7, 3) and not found[1:6].any() and np.linalg.norm(found, axis=1).max() <= 2.0 + 1e-12
    # the mean of the public texts is subtracted, then the norm is enforced
    vector = np.array([11, 1, 1]) - np.array([2, 0.5, 1])
    assert np.allclose(found[0], 2 * vector / np.linalg.norm(vector)) and np.allclose(found[6], [-1, -0.5, 0])
    alone = np.vstack([encoder.transform([text]) for text in texts])
    assert np.array_equal(alone, found)
    column = pd.DataFrame({"t": texts})
    assert np.array_equal(encoder.transform(column), found) and np.array_equal(encoder.transform(column["t"]), found)
    with pytest.raises(ValueError, match="row 2 has no text, or encoder") as caught:
        dpopt.TextEncoder(encode, bad_cells="error").fit([]).transform(texts)
    assert caught.value.__context__ is None and "canary" not in str(caught.value)
    for wrong in ({"encoder": None}, {"encoder": encode, "norm": 0.0}, {"encoder": encode, "public_texts": "one"}):
        with pytest.raises((TypeError, ValueError)):
            dpopt.TextEncoder(**wrong).fit([])
    with pytest.raises(ValueError, match="one-dimensional"):
        dpopt.TextEncoder(lambda text: "no").fit([])
    model = make_pipeline(
        dpopt.TextEncoder(lambda text: np.array([1.0, float("spam" in text)])),
        dpopt.LogisticRegression(epsilon=2, delta=1e-4, row_norm=1, classes=[0, 1], insecure_seed=1),
    )
    texts = [["spam", "ham"][i % 2] + str(i) for i in range(1000)]
    assert model.fit(texts, [1 - i % 2 for i in range(1000)]).score(texts, [1 - i % 2 for i in range(1000)]) > 0.95


def test_scores_leave_out_what_has_no_known_target_and_say_so(table):
    facts = {k: v for k, v in FACTS.items() if k != "encoding"}
    model = dpopt.LogisticRegression(epsilon=8.0, delta=1e-6, classes=CLASSES, insecure_seed=1, **facts)
    model.fit(table, "income")
    unlabelled = table.copy()
    unlabelled.loc[unlabelled.index % 10 == 3, "income"] = None
    unlabelled.loc[unlabelled.index % 10 == 7, "income"] = "unheard of"
    known = unlabelled.income.isin(CLASSES)
    rest = table[known.to_numpy()]
    with pytest.warns(dpopt.PrivacyWarning, match=f"^{(~known).sum()} of {RECORDS} records are without a label"):
        score = model.score(unlabelled, "income")
    assert score == model.score(rest, "income") == (model.predict(rest) == rest.income).mean()
    weights = np.arange(RECORDS, dtype=float)
    weighted = model.score(unlabelled, "income", sample_weight=weights)
    assert weighted == pytest.approx(
        np.average(model.predict(rest) == rest.income, weights=weights[known.to_numpy()]), abs=1e-12
    )
    with pytest.raises(ValueError, match="nothing to score"):
        model.score(unlabelled[~known], "income")
    regression = dpopt.LinearRegression(epsilon=8.0, delta=1e-6, target_bounds=(17, 90), insecure_seed=1, **facts)
    ages = table.drop(columns="age")
    regression.set_params(bounds={"gain": (0, 99999)}).fit(ages, table.age)
    age = table.age.astype(float).where(table.index % 10 != 3)
    with pytest.warns(dpopt.PrivacyWarning, match="without a finite target"):
        score = regression.score(ages, age)
    assert score == regression.score(ages[age.notna()], age[age.notna()])
