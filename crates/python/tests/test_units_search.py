"""Private searches by unit: how units are split, what a person's rows can move, what is promised."""

import json
import warnings

import dpopt
import numpy as np
import pytest
from dpopt._by_unit import ids_alone, settled
from dpopt._split import Split
from dpopt.select import PrivateSearchCV
from sklearn.pipeline import make_pipeline

pd = pytest.importorskip("pandas")

UNITS, EACH = 400, 8
ROWS = UNITS * EACH
DESCENT = {"method": dpopt.methods.NoisyGradientDescent(steps=5)}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        yield


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(UNITS), EACH)
    X = np.clip(rng.uniform(-0.7, 0.7, (UNITS, 3))[ids] + rng.uniform(-0.3, 0.3, (ROWS, 3)), -1, 1)
    y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
    order = rng.permutation(ROWS)
    return X[order], y[order], ids[order]


def inner(**more):
    return dpopt.LogisticRegression(**{"bounds": (-1, 1), "classes": [0, 1], **DESCENT, **more})


def search(estimator=None, grid=None, **more):
    given = {"epsilon": 6.0, "delta": 1e-4, "expected_runs": 2, **more}
    return PrivateSearchCV(
        inner() if estimator is None else estimator, grid or {"method__regularization": [0.01, 0.1]}, **given
    )


def split(ids, share=0.25, seed=None, **more):
    given = {"seed": None, "unit": None, **more}
    return Split(settled(ids_alone(ids), len(ids), "zero-out", **given), len(ids), share, seed)


def test_a_units_rows_are_on_one_side_by_a_fair_coin():
    ids = ["a", "b", "a", None, "c", "d", "a", "d"]
    scored = dict.fromkeys("abcd", 0)
    draws = 4000
    for seed in range(draws):
        made = split(ids, seed=seed)
        assert (made.held_out, made.units) == (1, 3)
        (rows,) = {tuple(made.to_score(np.arange(8)))}
        trained = made.whose("")["units"]
        assert made.to_train(ids) is ids and len(trained) == 8
        owners = {ids[row] for row in rows}
        (owner,) = owners
        assert list(rows) == [i for i, own in enumerate(ids) if own == owner]
        # what is trained on has the others' ids, and nobody's rows are nobody's still
        assert [own != own for own in trained] == [own in (owner, None) for own in ids]
        scored[owner] += 1
    # a quarter each: standard deviation 27.4, six of them; however many rows a person has
    assert all(abs(n - draws / 4) < 165 for n in scored.values())


def test_a_unit_counts_once_in_a_score_whatever_its_rows():
    ids = np.concatenate([np.zeros(1000, dtype=int), np.arange(1, 8)])
    for seed in range(40):
        made = split(ids, 0.5, seed)
        of_rows = np.linspace(0, 1, made.rows_to_score)
        each = made.score_each(of_rows)
        assert each.shape == (4,) and (each >= 0).all() and (each <= 1).all()
        zero = ids[made.to_score(np.arange(len(ids)))] == 0
        wild = np.where(zero, 1.0 - of_rows, of_rows)
        assert np.abs(made.score_each(wild) - each).max() <= 1 and (made.score_each(wild) != each).sum() <= 1
    # places without rows are scored with nothing: one of 600 is trained on, and eight have rows
    empty = split(ids, 0.999, 1, unit=dpopt.Unit(count=600))
    assert (empty.units, empty.held_out) == (1, 599)
    assert empty.score_each(np.ones(empty.rows_to_score)).sum() in (7, 8)


def test_people_are_protected_by_a_search(panel):
    X, y, ids = panel
    ledger = dpopt.Ledger(6.0, 1e-3, unit="user")
    found = search(budget=ledger).fit(X, y, units=ids)
    # a ledger takes no seed, and how good the model is hangs on the noise
    seeded = search(insecure_seed=4).fit(X, y, units=ids)
    assert seeded.score(X, y) > 0.85 and 0.5 < seeded.best_score_ < 1.2
    assert (found.privacy_.unit, found.privacy_.epsilon <= 6.0, len(ledger.entries)) == ("user", True, 1)
    assert str(found.privacy_).endswith("differential privacy per user, zero-out")
    best = found.best_estimator_
    # planned for the units to train on, and for all rows whichever units these are
    assert (best.plan_.n_units, best.plan_.n_rows) == (UNITS - UNITS // 4, ROWS)
    assert best.privacy_ == found.privacy_
    assert (
        found.plan_
        == search().explain(X, units=ids)
        == search(unit=dpopt.Unit(count=UNITS)).explain(ROWS, 3, units="person")
    )
    # the default delta follows from the number of units
    assert search(delta=None).explain(X, units=ids).delta == pytest.approx(UNITS**-1.1)
    with pytest.raises(ValueError, match=r"protects a record and this charge is per 'user'"):
        search(budget=dpopt.Ledger(6.0, 1e-3)).fit(X, y, units=ids)
    with pytest.raises(ValueError, match="protects a user and this charge is per 'record'"):
        search(budget=ledger).fit(X, y)


def test_one_row_each_costs_what_rows_cost(panel):
    X, y, _ = panel
    of_rows, of_units = search().explain(X), search().explain(X, units=np.arange(ROWS))
    assert of_rows.run_epsilon == pytest.approx(of_units.run_epsilon, rel=1e-3)
    assert of_rows.score_noise == pytest.approx(of_units.score_noise, rel=1e-3)


def test_tables_pipelines_and_methods_that_need_rows(panel, tmp_path):
    X, y, ids = panel
    table = pd.DataFrame(X, columns=list("abc")).assign(person=ids, member=np.where(y == 1, "yes", "no"))
    named = dpopt.LogisticRegression(bounds={c: (-1, 1) for c in "abc"}, classes=["no", "yes"], **DESCENT)
    for settings in ({}, {"classes": "public"}):
        of_table = lambda **more: search(named, **more, unit=dpopt.Unit(count=UNITS + 20)).fit(
            table, "member", units="person"
        )
        named.set_params(**settings)
        found, seeded = of_table(), of_table(insecure_seed=4)
        assert seeded.score(table.drop(columns="person"), table.member) > 0.8
        assert str(found.privacy_).endswith("privacy per person, zero-out")
        assert found.best_estimator_.plan_.n_units == 315
        found.best_estimator_.save(tmp_path / "model.json")
        written = json.loads((tmp_path / "model.json").read_text())["guarantee"]
        assert (written["unit"], written["unit_column"]) == ("user", "person")
    piped = make_pipeline(dpopt.PublicScaler(bounds=(-1, 1)), inner())
    found = search(piped, {"logisticregression__method__regularization": [0.1]}, insecure_seed=4).fit(X, y, units=ids)
    assert found.score(X, y) > 0.85 and found.privacy_.unit == "user"
    by_row = inner(method="output-perturbation", unit=dpopt.Unit(max_rows=2))
    found = search(by_row, {"method__regularization": [0.1]}, neighbors="replace-one").fit(X, y, units=ids)
    assert "User(2 records" in str(found.best_estimator_.plan_.event) and found.privacy_.relation == "replace-one"
    with pytest.raises(dpopt.PrivacyError, match="needs a public bound on its rows"):
        search(inner(method="output-perturbation"), {"method__regularization": [0.1]}).fit(X, y, units=ids)
    numbers = dpopt.Ridge(bounds=(-1, 1), target_bounds=(-2.5, 2.5), **DESCENT)
    found = search(numbers, {"alpha": [0.1]}, insecure_seed=4).fit(X, X @ [1.0, -1.0, 0.5], units=ids)
    assert found.score(X, X @ [1.0, -1.0, 0.5]) > 0.5


def test_what_is_refused(panel):
    X, y, ids = panel
    secret = [f"s3cret{i}" for i in ids]
    for units, kind, message in [
        (secret[:-1], ValueError, f"units has {ROWS - 1} ids"),
        ([*secret[:-1], ["s3cret"]], TypeError, "which cannot be compared"),
        ("s3cret", TypeError, "units is text, and X is"),
        ([None] * ROWS, ValueError, "0 units"),
        ([f"s3cret{i % 3}" for i in range(ROWS)], ValueError, "fewer than 4 units"),
    ]:
        with pytest.raises(kind, match=message) as caught:
            search().fit(X, y, units=units)
        assert "s3cret" not in str(caught.value) and caught.value.__context__ is None
    for wrong in (UNITS - 1, ROWS + 1):
        with pytest.raises(ValueError, match=f"count of unit is {wrong}, and units has more ids than that"):
            search(unit=dpopt.Unit(count=wrong)).fit(X, y, units=ids)
    with pytest.raises(ValueError, match="unit is given and units= is not"):
        search(unit=dpopt.Unit(count=UNITS)).fit(X, y)
    with pytest.raises(ValueError, match="count of unit is set by the search"):
        search(inner(unit=dpopt.Unit(count=UNITS))).fit(X, y, units=ids)
    with pytest.raises(ValueError, match="unit__max_rows is set by the search"):
        search(grid={"unit__max_rows": [3]}).fit(X, y, units=ids)
    with pytest.raises(ValueError, match="unit is given and units= is not"):
        search(inner(unit=dpopt.Unit(max_rows=2))).fit(X, y)
    with pytest.raises(ValueError, match="give a public number of units as unit=dpopt.Unit"):
        search().explain(ROWS, 3, units="person")


def test_missing_ids_are_nobodys_and_leave_no_trace(panel):
    X, y, ids = panel
    secret = np.array([f"s3cret{i}" for i in ids], dtype=object)
    secret[ids >= UNITS - 100] = None
    found = search(insecure_seed=4).fit(X, y, units=secret)
    assert found.best_estimator_.plan_.n_units == 225
    texts = [repr(found), repr(vars(found)), repr(vars(found.best_estimator_)), found.best_estimator_.report()]
    assert not any("s3cret" in text for text in texts)
