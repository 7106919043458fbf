"""Additive models: sums that are exact, shapes that move one way, and what is refused."""

import json
import pickle

import dpopt
import dpopt._shapes
import numpy as np
import pandas as pd
import pytest
from dpopt import plot
from sklearn.base import clone

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "insecure_seed": 5}
BOUNDS = {"age": (18, 80), "dose": (0, 1), "hours": (0, 60)}
LEVELS = {"site": ["north", "south", "west"]}
pytestmark = [pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")]


def table(rows=4000, seed=0, missing=0.02):
    random = np.random.default_rng(seed)
    age, dose, hours = random.uniform(18, 80, rows), random.beta(1, 3, rows), random.uniform(0, 60, rows)
    site = random.choice(LEVELS["site"], rows)
    score = 2.5 * (dose > 0.2) + np.sin(age / 8) + (site == "west") - 1.5
    frame = pd.DataFrame({"age": age, "dose": dose, "hours": hours, "site": site})
    frame.loc[random.uniform(size=rows) < missing, "dose"] = np.nan
    return frame, score, random


def classes(rows=4000, seed=0):
    frame, score, random = table(rows, seed)
    return frame, np.where(random.uniform(size=rows) < 1 / (1 + np.exp(-score)), "yes", "no")


def numbers(rows=4000, seed=0):
    frame, score, random = table(rows, seed)
    return frame, score + 0.3 * random.standard_normal(rows)


def columns(**more):
    return dpopt.Columns(levels=LEVELS, **more)


def classifier(**more):
    facts = {"bounds": BOUNDS, "classes": ["no", "yes"], "columns": columns(), **BUDGET, **more}
    return dpopt.AdditiveClassifier(**facts)


def regressor(**more):
    return dpopt.AdditiveRegressor(
        **{"bounds": BOUNDS, "target_bounds": (-4, 5), "columns": columns(), **BUDGET, **more}
    )


def sums(model, X):
    parts = model.contributions(X)
    return parts.sum(axis=1) + model.base_value_


@pytest.mark.parametrize("interactions", ["none", "all", [("age", "hours")]])
@pytest.mark.parametrize("order", [["no", "yes"], ["yes", "no"]])
def test_contributions_add_up_to_the_score_of_two_classes(interactions, order):
    X, y = classes()
    model = classifier(interactions=interactions, classes=order).fit(X, y)
    assert model.terms_[:4] == [("age",), ("dose",), ("hours",), ("site",)]
    assert len(model.terms_) == {"none": 4, "all": 10}.get(interactions if isinstance(interactions, str) else "", 5)
    np.testing.assert_allclose(sums(model, X), model.decision_function(X), atol=1e-5)
    assert model.score(X, y) > 0.72


def test_contributions_add_up_to_a_number_and_to_several_classes():
    X, y = numbers()
    model = regressor().fit(X, y)
    np.testing.assert_allclose(np.clip(sums(model, X), -4, 5), model.predict(X), atol=1e-5)
    assert model.score(X, y) > 0.6
    three = np.digitize(y, [-1, 1])
    several = classifier(classes=[2, 0, 1]).fit(X, three)
    parts = several.contributions(X)
    assert parts.shape == (len(X), 4, 3)
    np.testing.assert_allclose(parts.sum(axis=1) + several.base_value_, several.decision_function(X), atol=1e-5)


def test_what_a_term_adds_is_what_its_shape_draws():
    X, y = numbers()
    model = regressor().fit(X, y)
    shape = next(s for s in model.shapes() if s.columns == ("age",))
    assert shape.kind == "curve" and shape.unit == "prediction"
    rows = pd.concat([X.iloc[:1]] * len(shape.at)).assign(age=shape.at)
    np.testing.assert_allclose(model.contributions(rows)[:, 0], shape.effects, atol=1e-5)
    # the same whatever the other columns are
    others = rows.assign(dose=0.9, hours=3.0, site="west")
    np.testing.assert_allclose(model.contributions(others)[:, 0], shape.effects, atol=1e-5)
    levels = next(s for s in model.shapes() if s.columns == ("site",))
    rows = pd.concat([X.iloc[:1]] * 3).assign(site=levels.at)
    np.testing.assert_allclose(model.contributions(rows)[:, 3], levels.effects, atol=1e-5)
    assert abs(levels.effects.mean()) < 1e-9 and abs(shape.effects.mean()) < 1e-9
    assert shape.reach >= shape.importance > 0


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("encoding", ["few rows", "many rows", "spread off"])
def test_predictions_move_one_way_for_every_record(falling, encoding):
    word = "decreasing" if falling else "increasing"
    X, y = numbers(400 if encoding == "few rows" else 20_000)
    bounds = {**BOUNDS, "dose": {"lower": 0, "upper": 1, "monotone": word}}
    if encoding == "spread off":
        model = dpopt.LinearRegression(
            bounds=bounds, target_bounds=(-4, 5), columns=columns(), encoding={"spread": False}, **BUDGET
        ).fit(X, y)
    else:
        model = regressor(bounds=bounds).fit(X, y)
    places = np.linspace(-0.1, 1.1, 97)
    for row in range(5):
        rows = pd.concat([X.iloc[row : row + 1]] * len(places)).assign(dose=places)
        steps = np.diff(model.predict(rows)) * (-1 if falling else 1)
        assert steps.min() > -1e-12
    if not falling and encoding != "few rows":
        # the true function rises, and stays learnt
        assert model.score(X, y) > 0.6
    released = model.coef_noise_std_
    names = list(model.encoded_feature_names_)
    assert all(np.isnan(released[i]) for i, name in enumerate(names) if name.startswith("dose"))


def test_the_second_listed_class_is_the_one_that_gets_more_likely():
    X, y = classes(20_000)
    for order in (["no", "yes"], ["yes", "no"]):
        model = classifier(classes=order, columns=columns(monotone={"dose": "increasing"})).fit(X, y)
        rows = pd.concat([X.iloc[:1]] * 50).assign(dose=np.linspace(0, 1, 50))
        chance = model.predict_proba(rows)[:, list(model.classes_).index(order[1])]
        assert np.diff(chance).min() > -1e-12
        # the data say that "yes" does: told the other way round, the function is flat
        assert (np.ptp(chance) > 0.2) == (order[1] == "yes")


def test_a_known_order_takes_noise_out():
    """Mean squared error of a rising function at small ε, over twelve fits: never above that of the same fits without the declaration beyond what chance does."""
    random = np.random.default_rng(3)
    X = random.uniform(0, 1, (3000, 1))
    y = 2 * (X[:, 0] > 0.5) + 0.3 * random.standard_normal(3000)
    grid = np.linspace(0, 1, 200)[:, None]
    truth = 2.0 * (grid[:, 0] > 0.5)
    errors = {}
    for name, monotone in (("free", None), ("rising", {"x0": "increasing"})):
        facts = {"epsilon": 0.3, "delta": 1e-6, "bounds": (0, 1), "target_bounds": (-1, 3)}
        fits = [
            dpopt.AdditiveRegressor(columns=dpopt.Columns(monotone=monotone), insecure_seed=s, **facts).fit(X, y)
            for s in range(12)
        ]
        errors[name] = np.mean([np.mean((fit.predict(grid) - truth) ** 2) for fit in fits])
    assert errors["rising"] < errors["free"]


def test_files_copies_and_onnx_predict_alike(tmp_path):
    X, y = classes()
    model = classifier(columns=columns(monotone={"dose": "increasing"}), interactions=[("age", "hours")]).fit(X, y)
    model.save(tmp_path / "m.json")
    assert (
        json.loads((tmp_path / "m.json").read_text())["encoder"]["features"][1]["as"]["numeric"]["monotone"]
        == "increasing"
    )
    loaded = dpopt.load(tmp_path / "m.json", classes=["no", "yes"])
    assert isinstance(loaded, dpopt.AdditiveClassifier) and loaded.interactions == [("age", "hours")]
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_allclose(sums(other, X), model.decision_function(X), atol=1e-5)
    assert clone(model).get_params() == model.get_params()
    onnxruntime = pytest.importorskip("onnxruntime")
    from dpopt import export

    session = onnxruntime.InferenceSession(export.to_onnx(model).SerializeToString())
    kept = X[:200]
    inputs = {
        one.name: kept[[one.name]].to_numpy(dtype=object if one.name == "site" else np.float64)
        for one in session.get_inputs()
    }
    chances = session.run(None, inputs)[-1]
    np.testing.assert_allclose(np.asarray(chances).reshape(200, -1)[:, -1], model.predict_proba(kept)[:, 1], atol=1e-6)


def test_pictures_tell_the_sum(tmp_path):
    X, y = classes()
    model = classifier().fit(X, y)
    ax = plot.contributions(model, X.iloc[:1])
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        term[0] for _, term in sorted(zip(-np.abs(model.contributions(X.iloc[:1])[0]), model.terms_))
    ]
    assert f"= {model.decision_function(X.iloc[:1])[0]:.3g}" in ax.get_title()
    assert len(plot.contributions(model, X.iloc[:1], most=2).patches) == 3
    assert len(plot.shapes(model)) == 4
    for wrong, error, words in (
        ((model, X.iloc[:2]), ValueError, "2 rows"),
        ((dpopt.LinearRegression(), X.iloc[:1]), TypeError, "AdditiveRegressor"),
    ):
        with pytest.raises(error, match=words):
            plot.contributions(*wrong)
    with pytest.raises(ValueError, match="three or more"):
        plot.contributions(model, X.iloc[:1], output="yes")


def test_a_matrix_names_its_columns_by_place():
    X, y = numbers()
    values = X[["age", "dose", "hours"]].to_numpy()
    lower, upper = zip(*BOUNDS.values())
    model = regressor(bounds=(lower, upper), columns=dpopt.Columns(monotone={"x1": "increasing"})).fit(values, y)
    assert model.terms_ == [("x0",), ("x1",), ("x2",)]
    rows = np.repeat(values[:1], 40, axis=0)
    rows[:, 1] = np.linspace(0, 1, 40)
    assert np.diff(model.predict(rows)).min() > -1e-12


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"interactions": "some"}, "interactions is 'some'"),
        ({"interactions": [("age",)]}, "no pair of names"),
        ({"columns": columns(monotone={"dose": "up"})}, "monotone has an entry"),
        ({"columns": columns(monotone={"site": "increasing"})}, "no number"),
        ({"columns": columns(monotone={"dsoe": "increasing"})}, "dsoe"),
        ({"columns": columns(monotone={"dose": "increasing"}), "interactions": [("dose", "age")]}, "leave out the pair"),
        ({"bounds": {**BOUNDS, "dose": {"lower": 0, "upper": 1, "monotone": "decreasing"}}, "columns": columns(monotone={"dose": "increasing"})}, "increasing and decreasing"),
        ({"columns": columns(monotone={"dose": "increasing"}), "method": dpopt.methods.Auto(intervals=0.9)}, "prediction intervals"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_before_the_charge(more, words):
    X, y = numbers()
    ledger = dpopt.Ledger(5.0, 1e-5)
    with pytest.raises((ValueError, TypeError, dpopt.PrivacyError), match=words):
        regressor(budget=ledger, insecure_seed=None, **more).fit(X, y)
    assert not ledger.entries


def test_one_way_needs_one_score():
    X, y = numbers()
    rising = columns(monotone={"dose": "increasing"})
    with pytest.raises(ValueError, match="more than two classes"):
        classifier(classes=[0, 1, 2], columns=rising).fit(X, np.digitize(y, [-1, 1]))
    with pytest.raises(ValueError, match="declare the levels"):
        classifier(classes=None, columns=rising).fit(X, np.digitize(y, [0]))
    with pytest.raises(ValueError, match="a fit sees to"):
        dpopt.TableEncoder(bounds=BOUNDS, columns=rising).fit(X)
    with pytest.raises(ValueError, match="leave out additive"):
        dpopt.LinearRegression(bounds=BOUNDS, columns=rising, encoding={"additive": False}, **BUDGET).fit(X, y)


def test_a_search_pays_once_and_finds_interactions():
    X, y = numbers()
    ledger = dpopt.Ledger(5.0, 1e-3)
    search = dpopt.select.PrivateSearchCV(
        regressor(insecure_seed=None, method="objective-perturbation"),
        {"interactions": ["none", [("age", "hours")]]}, epsilon=2.0, delta=1e-5, budget=ledger,
    ).fit(X, y)  # fmt: skip
    assert len(ledger.entries) == 1 and search.best_params_["interactions"] in ("none", [("age", "hours")])
    assert np.isfinite(search.predict(X)).all()
    wrong = dpopt.select.PrivateSearchCV(
        regressor(insecure_seed=None), {"knots": [4]}, epsilon=2.0, delta=1e-5, budget=ledger
    )
    with pytest.raises(ValueError, match="knots"):
        wrong.fit(X, y)
    assert len(ledger.entries) == 1


def test_a_bounds_file_says_the_same(tmp_path):
    X, y = numbers()
    file = tmp_path / "b.toml"
    file.write_text(
        "[age]\nlower = 18\nupper = 80\n[dose]\nlower = 0\nupper = 1\nmonotone = 'increasing'\n[hours]\nlower = 0\nupper = 60\n"
        "[site]\nlevels = ['north', 'south', 'west']\n"
    )
    named = regressor(columns=columns(monotone={"dose": "increasing"})).fit(X, y)
    filed = regressor(bounds=file, columns=None).fit(X, y)
    assert np.array_equal(named.predict(X), filed.predict(X))
    # said twice alike it is one declaration; two opposite ones are none
    again = regressor(bounds=file, columns=dpopt.Columns(monotone={"dose": "increasing"})).fit(X, y)
    assert np.array_equal(again.predict(X), filed.predict(X))
    with pytest.raises(ValueError, match="increasing and decreasing"):
        regressor(bounds=file, columns=dpopt.Columns(monotone={"dose": "decreasing"})).fit(X, y)
    file.write_text("[dpopt]\nknots = 4\n" + file.read_text())
    with pytest.raises(ValueError, match="leave out one of the two"):
        regressor(bounds=file, columns=None).fit(X, y)


def test_a_curve_that_is_drawn_is_the_model():
    """Between its points a monotone curve is straight, so that whoever publishes the shape publishes the function."""
    X, y = numbers(20_000)
    spread = dpopt.LinearRegression(
        bounds={**BOUNDS, "dose": {"lower": 0, "upper": 1, "monotone": "increasing"}}, target_bounds=(-4, 5),
        columns=columns(), encoding={"spread": False, "pairs": "none"}, **BUDGET,
    ).fit(X, y)  # fmt: skip
    shape = next(s for s in dpopt._shapes.shapes_of(spread) if s.columns == ("dose",))
    places = np.linspace(0, 1, 777)
    rows = pd.concat([X.iloc[:1]] * len(places)).assign(dose=places)
    added = spread.predict(rows) - spread.predict(rows.iloc[:1])
    drawn = np.interp(places, shape.at, shape.effects)
    np.testing.assert_allclose(added, drawn - drawn[0], atol=1e-4 * shape.reach)


def test_other_estimators_say_what_they_cannot():
    X, y = numbers()
    values = X[["age", "hours"]].to_numpy()
    rising = dpopt.Columns(monotone={"x0": "increasing"})
    facts = {"bounds": ([18, 0], [80, 60]), "target_bounds": (-4, 5), "columns": rising, **BUDGET}
    fitted = dpopt.LinearRegression(**facts).fit(values, y)
    rows = np.column_stack([np.linspace(18, 80, 60), np.full(60, 5.0)])
    assert np.diff(fitted.predict(rows)).min() > -1e-12
    for wrong, words in (
        (lambda: dpopt.LinearRegression(encoding=None, **facts).fit(values, y), "encoded"),
        (lambda: dpopt.MeanEstimator(1.0, 1e-6, bounds=BOUNDS, columns=columns(monotone={"dose": "increasing"})).fit(X), "a mean is none"),
        (lambda: regressor(interactions=[("dose", "agee")]).fit(X, y), "did you mean `age`"),
        (lambda: regressor(columns=columns(monotone={0: "increasing"})).fit(X, y), "x0, x1"),
        (lambda: plot.contributions(regressor().fit(X, y), X.iloc[0]), "iloc"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=words):
            wrong()
