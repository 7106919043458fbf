"""Pictures, exports and their round trips."""

import json

import dpopt
import numpy as np
import pytest
from dpopt import accounting, export

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (3000, 3))
    return X, X[:, 0] - 0.5 * X[:, 1]


@pytest.fixture(scope="module")
def models(data):
    X, score = data
    common = {"epsilon": 4.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}
    three = np.digitize(score, [-0.3, 0.3])
    return {
        "binary": dpopt.LogisticRegression(**common, classes=["no", "yes"]).fit(X, np.where(score > 0, "yes", "no")),
        "plain link": dpopt.LogisticRegression(**common, classes=[0, 1], method=dpopt.methods.Auto(shift=0)).fit(
            X, (score > 0).astype(int)
        ),
        "three": dpopt.LogisticRegression(**common, classes=[0, 1, 2]).fit(X, three),
        "svc": dpopt.LinearSVC(**common, classes=[0, 1, 2]).fit(X, three),
        "line": dpopt.LinearRegression(**common, target_bounds=(-2, 2)).fit(X, score),
    }


def test_plots_draw_what_they_are_given(models):
    from dpopt import plot

    ax = plot.privacy_curve("gaussian(2)", models["binary"], epsilons=[0.5, 1.0, 3.9])
    y = ax.lines[0].get_ydata()
    assert y[1] == pytest.approx(float(accounting.delta("gaussian(2)", 1.0))) and len(ax.lines) == 2
    # at the budget's ε the model's δ is at most its δ
    assert models["binary"].privacy_.delta_at(4.0) <= 1e-6
    ax = plot.accuracy_against_epsilon({"a": {0.1: [0.5, 0.7], 1.0: [0.8]}}, baseline=0.9)
    assert list(ax.lines[0].get_ydata()) == pytest.approx([0.6, 0.8])
    ax = plot.epsilon_over_steps("poisson(0.1, gaussian(2))", [1, 10, 100], 1e-6)
    assert np.all(np.diff(ax.lines[0].get_ydata()) > 0)
    ax = plot.coefficient_intervals(models["binary"])
    assert len(ax.get_yticks()) == 3
    plt.close("all")


def test_dates_are_drawn_as_dates():
    import pandas
    from dpopt import plot

    day = pandas.date_range("2010-01-01", periods=2000, freq="D")
    bounds = {"day": (day[0], day[-1])}
    model = dpopt.LogisticRegression(epsilon=5, delta=1e-6, bounds=bounds, classes=["no", "yes"], insecure_seed=1)
    model.fit(pandas.DataFrame({"day": day}), np.where(np.arange(2000) < 1000, "no", "yes"))
    ax = plot.shape(model, "day")
    labels = [tick.get_text() for tick in ax.get_xticklabels()]
    assert labels[0] == "2010-01-01" and labels[-1] == "2015-06-23" and len(labels) == 3
    html = model.report()
    assert "2010-01-01" in html and "log-odds of yes" in html and "Which columns matter" in html
    plt.close("all")


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_shapes_are_what_a_model_adds_for_each_value(data, tmp_path):
    from dpopt import plot

    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {"u": rng.uniform(0, 1, 4000), "v": rng.uniform(0, 1, 4000), "k": rng.choice(["a", "b"], 4000)}
    )
    facts = {
        "delta": 1e-6,
        "epsilon": 50.0,
        "bounds": {"u": (0, 1), "v": (0, 1)},
        "method": "objective-perturbation",
        # what is drawn of noise has no bound: the answer of one seed
        "insecure_seed": 7,
        "columns": dpopt.Columns(levels={"k": ["a", "b"]}),
    }
    form = {"knots": 4, "fine_knots": 0, "spread": False, "pairs": [["u", "v"]], "pair_knots": 4, "pair_share": 0.3}
    together = 4 * (table.u - 0.5) * (table.v - 0.5)
    label = lambda score: np.where(score > 0, "up", "down")
    # sorted, "down" is first; the model file has it second
    models = [
        dpopt.LogisticRegression(**facts, encoding=form, classes=order).fit(
            table, label(table.u - 0.5 + 0.4 * (table.k == "b") - 0.2)
        )
        for order in (["up", "down"], ["down", "up"])
    ]
    for model in models:
        ax = plot.shape(model, "u")
        values = ax.lines[1].get_ydata()
        assert ax.get_xlabel() == "u" and values[-1] > 1 and values[0] < -1 and abs(values.mean()) < 1e-9
        levels = plot.shape(model, "k")
        drawn = dict(zip([t.get_text() for t in levels.get_yticklabels()], levels.lines[1].get_xdata()))
        assert drawn["b"] > 0.5 and drawn["a"] < -0.5
    number = dpopt.LinearRegression(**facts, encoding=form, target_bounds=(-3, 3)).fit(table, together)
    image = plot.shape(number, ("v", "u")).images[0].get_array()
    # what two columns do together, and neither alone: the corners agree or contradict each other
    assert image.shape == (4, 4) and image[0, 0] > 0.1 < image[-1, -1] and image[0, -1] < -0.1 > image[-1, 0]
    assert abs(image.mean(axis=0)).max() < 1e-9 and number.score(table, together) > 0.5
    number.save(tmp_path / "model.json")
    again = plot.shape(dpopt.load(tmp_path / "model.json"), ("u", "v")).images[0].get_array()
    assert np.array_equal(again, image)
    axes = plot.shapes(number)
    assert [ax.get_title() for ax in axes][-1] == "u and v" and len(axes) == 4
    given = plt.subplots(1, 3)[1]
    assert len(plot.shapes(number, columns=["u", ("u", "v")], axes=given)) == 2 and not given[2].get_visible()
    three = dpopt.LogisticRegression(**facts, classes=["c", "b", "a"], encoding=form).fit(
        table, np.array(["a", "b", "c"])[np.digitize(table.u, [0.3, 0.6])]
    )
    ends = {c: plot.shape(three, "u", output=c).lines[1].get_ydata()[[0, -1]] for c in "ac"}
    assert ends["a"][0] > ends["a"][1] and ends["c"][0] < ends["c"][1]
    for call, error, message in (
        (lambda: plot.shape(number, "w"), ValueError, "shapes of k, u, v, and of 1 pairs"),
        (lambda: plot.shapes(number, axes=given[:1]), ValueError, "4 shapes to draw on 1 axes"),
        (lambda: plot.shapes(three), ValueError, "3 classes, each with its own shapes"),
        (lambda: plot.shapes(number, output="a"), ValueError, "output is for models of three or more"),
        (lambda: plot.shapes(table), TypeError, "give a fitted estimator"),
        (
            lambda: plot.shapes(dpopt.LinearRegression(insecure_seed=1).fit(*data)),
            ValueError,
            r"give bounds=\(lower, upper\) without encoding=None",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
    plt.close("all")


def test_intervals_cover_the_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 2))
    y = (X[:, 0] > 0).astype(int)
    kwargs = {
        "delta": 1e-3,
        "bounds": (-1, 1),
        "encoding": None,
        "classes": [0, 1],
        # the bars are those of the noise of the weights; where scores are scaled, exact ones are scaled otherwise
        "method": dpopt.methods.OutputPerturbation(regularization=500.0, calibration=0),
    }
    exact = dpopt.LogisticRegression(epsilon=1e6, **kwargs).fit(X, y)
    noisy = dpopt.LogisticRegression(epsilon=1.0, **kwargs).fit(X, y)
    # six standard deviations of two coefficients: false alarm below 1e-8; bars that are twenty times too short are seen in 94 of 100 runs
    assert np.all(np.abs(noisy.coef_ - exact.coef_) < 6 * noisy.coef_noise_std_)


def test_scikit_learn_objects_decide_the_same_and_have_the_models_probabilities_or_none(models, data):
    X, score = data
    common = {"epsilon": 4.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "classes": [0, 1], "insecure_seed": 1}
    y = (score > 0).astype(int)
    shifted = dpopt.LogisticRegression(**common, method=dpopt.methods.ObjectivePerturbation(shift=4.0)).fit(X, y)
    raw = dpopt.LogisticRegression(**common, method=dpopt.methods.ObjectivePerturbation(shift=4.0, calibration=0)).fit(
        X, y
    )
    hinge, logistic = (dpopt.SGDClassifier(loss=loss, **common).fit(X, y) for loss in ("hinge", "log_loss"))
    # a calibrated model has the plain link, whatever shift it was trained with
    known = {
        "shifted": True,
        "raw": False,
        "hinge": False,
        "plain link": True,
        "three": True,
        "svc": False,
        "sgd": True,
    }
    for name, model in {**models, "shifted": shifted, "raw": raw, "hinge": hinge, "sgd": logistic}.items():
        plain = export.to_sklearn(model)
        assert np.array_equal(plain.predict(X), model.predict(X)), name
        if name == "line":
            continue
        assert np.allclose(plain.decision_function(X), model.decision_function(X)), name
        assert hasattr(plain, "predict_proba") == known.get(name, hasattr(plain, "predict_proba")), name
        if hasattr(plain, "predict_proba"):
            assert plain.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-9), name


def mixed(n):
    """A table of numbers and levels with missing cells, and what depends on it."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(8)
    table = pd.DataFrame(
        {"age": rng.uniform(18, 80, n).round(), "job": rng.choice(["a", "b", "c"], n),
         "city": rng.choice(list("uvwxyz"), n), "paid": rng.lognormal(7, 1, n)}
    )  # fmt: skip
    table["age"] = table["age"].mask(rng.random(n) < 0.05)
    table["job"] = table["job"].mask(rng.random(n) < 0.05)
    return table, np.where(table["age"].fillna(40) + rng.normal(0, 10, n) > 45, "high", "low")


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
@pytest.mark.parametrize(
    "encoding",
    [
        {},
        {"knots": 5, "fine_knots": 0, "centred": False, "pair_knots": 0, "pair_share": 0},
        {"knots": 0, "fine_knots": 0},
    ],
    ids=["planned", "splines", "lines"],
)
def test_onnx_has_the_encoder_of_a_table_inside(encoding):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    table, y = mixed(3000)
    facts = {
        "epsilon": 4.0,
        "delta": 1e-6,
        "bounds": {"age": (18, 80), "paid": (0, 10_000)},
        "encoding": encoding,
        "insecure_seed": 1,
        "columns": dpopt.Columns(levels={"job": ["a", "b", "c"], "city": list("uvwxy")}),
    }
    three = np.where(table["paid"] > 2000, "rich", y)
    fits = {
        "two": dpopt.LogisticRegression(classes=["high", "low"], **facts).fit(table, y),
        "three": dpopt.LogisticRegression(classes=["high", "low", "rich"], **facts).fit(table, three),
        "shifted": dpopt.LogisticRegression(
            classes=["high", "low"], method=dpopt.methods.ObjectivePerturbation(shift=2.0), **facts
        ).fit(table, y),
        "number": dpopt.LinearRegression(target_bounds=(0, 5000), **facts).fit(table, table["paid"].to_numpy()),
    }
    # beyond the ranges, no number, a marker of missing cells, and a level that nobody declared (z)
    new = table.head(200).copy()
    new.loc[0:2, "age"] = [1e9, -3.0, np.inf]
    markers = ["?", "n/a", "NaN", "None", "#N/A", "\\N", "null", ""]
    new.loc[3 : 3 + len(markers) - 1, "job"] = markers
    feeds = {name: new[name].to_numpy(float).reshape(-1, 1) for name in ("age", "paid")}
    feeds |= {name: new[name].fillna("").to_numpy(object).reshape(-1, 1) for name in ("job", "city")}
    for name, model in fits.items():
        written = export.to_onnx(model)
        session = runtime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
        answers = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        if name == "number":
            assert answers["y"] == pytest.approx(model.predict(new), abs=1e-5 * 5000)
            continue
        assert list(answers["label"]) == list(model.predict(new)), name
        # features are single precision in the model and double here
        assert answers["probabilities"] == pytest.approx(model.predict_proba(new), abs=1e-5), name
        assert accounting.from_json({p.key: p.value for p in written.metadata_props}["event"]) == model.privacy_.event


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_onnx_refuses_what_it_has_no_operators_for():
    pytest.importorskip("onnx")
    table, y = mixed(500)
    facts = {"epsilon": 4.0, "delta": 1e-6, "bounds": {"age": (18, 80), "paid": (0, 10_000)}, "insecure_seed": 1}
    for more, column in [
        ({"columns": dpopt.Columns(levels={"job": ["a", "b", "c"]}, hashed=["city"])}, "city"),
        ({"columns": dpopt.Columns(levels={"city": list("uvwxyz")}, text=["job"])}, "job"),
    ]:
        model = dpopt.LogisticRegression(classes=["high", "low"], **facts, **more).fit(table, y)
        with pytest.raises(ValueError, match=f"'{column}' is .*ONNX has no operators"):
            export.to_onnx(model)


def test_onnx_models_predict_the_same(models, data, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X = data[0][:50]
    for name, model in models.items():
        written = export.to_onnx(model, tmp_path / "model.onnx")
        session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
        answers = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"X": X})))
        if name == "line":
            assert answers["y"] == pytest.approx(model.predict(X))
            continue
        assert list(answers["label"]) == list(model.predict(X)), name
        if "probabilities" in answers:
            assert answers["probabilities"] == pytest.approx(model.predict_proba(X))
        properties = {p.key: p.value for p in written.metadata_props}
        assert accounting.from_json(properties["event"]) == model.privacy_.event


def test_safetensors_keep_the_guarantee(models, tmp_path):
    safetensors = pytest.importorskip("safetensors")
    export.to_safetensors(models["binary"], tmp_path / "m.safetensors")
    with safetensors.safe_open(tmp_path / "m.safetensors", framework="numpy") as file:
        assert np.array_equal(file.get_tensor("coef"), models["binary"].coef_)
        assert float(file.metadata()["epsilon"]) == models["binary"].privacy_.epsilon
        assert json.loads(file.metadata()["classes"]) == ["no", "yes"]


def test_reports_of_all_models(models):
    for model in models.values():
        html = model.report()
        assert "<html" in html and "zero-out" in html or "contributes nothing" in html
    assert "<table" in dpopt.MeanEstimator(epsilon=1.0, delta=1e-5, bounds=(-1, 1)).fit(np.zeros((100, 2))).report()
