"""Tables in parts: columns by name, encoded where they are by public facts."""

import dpopt
import numpy as np
import pytest
from dpopt.partitions import Here
from sklearn.base import clone

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

N = 1500
RNG = np.random.default_rng(4)
TABLE = pd.DataFrame({
    "age": np.where(RNG.random(N) < 0.05, np.nan, RNG.integers(18, 80, N)),
    "sex": RNG.choice(["f", "m", "other"], N),
    "city": RNG.choice(["a", "b", "c", "d"], N),
    "member": RNG.random(N) < 0.3,
})  # fmt: skip
LABEL = pd.Series(np.where(TABLE["age"].fillna(40) + RNG.normal(0, 10, N) > 45, "yes", "no"), name="income")
LABEL[::31] = None
NUMBER = pd.Series(TABLE["age"].fillna(40) / 10 + RNG.normal(0, 1, N), name="score")
ENDS = ([N], [700, N], [0, 1, 300, 300, 900, N - 1, N])
FACTS = {
    "bounds": {"age": (18, 80)},
    "epsilon": 2.0,
    "delta": 1e-6,
    "insecure_seed": 1,
    "encoding": {"spread": False, "pairs": "none", "hash_bits": 4},
    "columns": dpopt.Columns(levels={"sex": ["f", "m"], "member": [False, True]}, hashed=["city"]),
}
MODELS = {
    "classes": (dpopt.LogisticRegression(classes=["no", "yes"], method=dpopt.methods.NoisyGradientDescent(steps=5), **FACTS), LABEL),
    "numbers": (
        dpopt.LinearRegression(target_bounds=(0, 10), method="sufficient-statistics", **FACTS),
        NUMBER,
    ),
    "three": (
        dpopt.LogisticRegression(classes=["f", "m", "other"], method=dpopt.methods.NoisyGradientDescent(steps=5), **{**FACTS, "columns": dpopt.Columns(levels={"member": [False, True]})}),
        TABLE["sex"],
    ),
}  # fmt: skip


def features(y):
    return TABLE.drop(columns=[y.name], errors="ignore")


def cut(ends, y):
    X = features(y)
    return Here([(X[a:b], y[a:b]) for a, b in zip([0, *ends[:-1]], ends)])


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_the_same_bits_whatever_the_parts_are(name, tmp_path):
    model, y = MODELS[name]
    X = features(y)
    whole = clone(model).fit(X, y)
    for ends in ENDS:
        found = clone(model).fit(cut(ends, y))
        assert np.array_equal(found.coef_, whole.coef_)
        assert found.privacy_.epsilon == whole.privacy_.epsilon and found.plan_.method == whole.plan_.method
        assert list(found.feature_names_in_) == list(X.columns)
        assert np.array_equal(found.predict(X), whole.predict(X))
    found.save(tmp_path / "model.json")
    assert np.array_equal(dpopt.load(tmp_path / "model.json").predict(X), whole.predict(X))
    assert y.name in found.report()


def test_what_is_left_to_the_plan_is_planned_without_releases_before_encoding():
    model = dpopt.LogisticRegression(
        2.0,
        1e-6,
        bounds={"age": (18, 80)},
        classes=["no", "yes"],
        insecure_seed=1,
        columns=dpopt.Columns(levels={"sex": ["f", "m"]}, ignore=["city", "member"]),
    )
    parts = cut([700, N], LABEL)
    plan = model.explain(parts, n_rows=N)
    found = clone(model).fit(parts)
    assert plan.method == found.plan_.method and len(found.privacy_.ledger) == 1
    assert plan.encoders and not any(form["spread"] for form in plan.encoders)
    assert clone(model).set_params(n_rows=N).fit(parts).plan_.method == found.plan_.method
    assert found.score(features(LABEL)[LABEL.notna()], LABEL[LABEL.notna()]) > 0.6
    with pytest.raises((ValueError, dpopt.PrivacyError), match="1500"):
        clone(model).set_params(n_rows=N - 1).fit(parts)


def test_what_is_found_before_rows_are_encoded_is_refused_with_the_reason():
    model, y = MODELS["classes"]
    parts = cut([700, N], y)
    for options, why in [
        ({"classes": None}, "before the first pass"),
        ({"bounds": None, "bounds_budget": 0.1, "columns": dpopt.Columns(numeric=["age"])}, "private_bounds"),
        ({"encoding": {"spread": True}}, "leave out spread"),
        ({"encoding": {"pairs": "private"}}, "name the pairs"),
        ({"bad_cells": "error"}, "missing"),
        ({"method": "dp-ftrl"}, "remote records answer with sums only"),
    ]:
        with pytest.raises((ValueError, dpopt.PrivacyError), match=why):
            clone(model).set_params(**options).fit(parts)
    with pytest.raises(TypeError, match="have no names"):
        clone(model).fit(Here([(np.zeros((5, 2)), np.zeros(5))]))
    units = Here([(features(y), y, np.arange(N))], units="person")
    with pytest.raises(ValueError, match="encode the columns first"):
        clone(model).fit(units)
    with pytest.raises(ValueError, match="n_rows"):
        clone(model).explain(parts)


def test_a_charge_is_made_after_the_rows_are_counted_and_stays():
    class Losing(Here):
        asked = 0

        def ask_partitions(self, message):
            self.asked += 1
            return super().ask_partitions(message)[self.asked > 2 :]

    model, y = MODELS["classes"]
    ledger = dpopt.Ledger(epsilon=9.0, delta=1e-2)
    X = features(y)
    parts = Losing([(X[:700], y[:700]), (X[700:], y[700:])])
    with pytest.raises(dpopt.PrivacyError, match="keeps the charge"):
        clone(model).set_params(insecure_seed=None, budget=ledger).fit(parts)
    assert ledger.spent[0] > 1.9


def test_missing_labels_of_many_classes_are_those_of_no_record_in_parts_too():
    model, y = MODELS["three"]
    gaps = y.astype(object)
    gaps[::7], gaps[3::50], gaps[5::50] = None, np.nan, "undeclared"
    X = features(y)
    whole = clone(model).fit(X, gaps)
    for ends in ENDS:
        assert np.array_equal(clone(model).fit(cut(ends, gaps)).coef_, whole.coef_)
    # it is not as if these rows were of the first class, or of another
    assert not np.array_equal(clone(model).fit(cut(ENDS[1], y)).coef_, whole.coef_)
    for label in ("f", "other"):
        of_one = gaps.where(gaps.isin(["f", "m", "other"]), label)
        assert not np.array_equal(clone(model).fit(cut(ENDS[1], of_one)).coef_, whole.coef_)
