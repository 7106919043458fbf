"""Units of privacy with several rows: who is protected, how ids are read, what is refused."""

import decimal
import json
import pickle
import re
import warnings

import dpopt
import numpy as np
import pytest
from dpopt import mechanisms
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from test_tables import command_line, text_of

pd = pytest.importorskip("pandas")

UNITS, EACH = 500, 10
ROWS = UNITS * EACH
#: Quick, and planned for units as for rows.
DESCENT = {"method": dpopt.methods.NoisyGradientDescent(steps=5)}
BY_ROW = {"method": "output-perturbation"}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        yield


@pytest.fixture(scope="module")
def panel():
    """Persons with ten rows each, as alike as a person's rows are, in any order."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(UNITS), EACH)
    X = np.clip(rng.uniform(-0.7, 0.7, (UNITS, 3))[ids] + rng.uniform(-0.3, 0.3, (ROWS, 3)), -1, 1)
    y = (X @ [1.0, -1.0, 0.5] + 0.2 * rng.standard_normal(ROWS) > 0).astype(int)
    order = rng.permutation(ROWS)
    return X[order], y[order], ids[order]


def logistic(**more):
    return dpopt.LogisticRegression(**{"epsilon": 2.0, "bounds": (-1, 1), "classes": [0, 1], **more})


def seeded(**more):
    return logistic(**DESCENT, insecure_seed=5, **more)


def frame(panel):
    X, y, ids = panel
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["person"], table["member"] = ids, np.where(y == 1, "yes", "no")
    return table


def by_name(**more):
    declared = {name: (-1, 1) for name in "abc"}
    return dpopt.LogisticRegression(**{"epsilon": 2.0, "bounds": declared, "classes": ["no", "yes"], **more})


def test_a_guarantee_per_person_and_a_model_that_is_of_use(panel):
    X, y, ids = panel
    model = logistic().fit(X, y, units=ids)
    privacy = model.privacy_
    assert (privacy.unit, str(privacy).split(", ")[1:]) == (
        "user",
        ["1.075e-3)-differential privacy per user", "zero-out"],
    )
    assert (
        privacy.epsilon <= 2.0
        and privacy.delta == pytest.approx(UNITS**-1.1)
        and privacy.delta_at(2.0) <= privacy.delta
    )
    assert (model.plan_.n_units, model.plan_.n_rows) == (UNITS, ROWS)
    assert str(model.plan_).startswith("5,000 rows of 500 units")
    assert logistic(insecure_seed=5).fit(X, y, units=ids).score(X, y) > 0.85 and model.plan_.chosen["unit"] == "user"
    # the report of a matrix as it is; where columns are encoded it is that of a table
    report = logistic(encoding=None).fit(X, y, units=ids).report()
    assert (
        "differ in one user" in report and "A person has one id" in report and "Each person has one row" not in report
    )
    # a column of a table of numbers is taken out of it
    table = frame(panel).drop(columns="member")
    of_table = logistic().fit(table, y, units="person")
    assert str(of_table.privacy_).split(", ")[1].endswith("privacy per person") and of_table.n_features_in_ == 3
    of_table = logistic(insecure_seed=5).fit(table, y, units="person")
    assert of_table.score(table.drop(columns="person"), y) > 0.85


def test_tables_are_the_command_lines(panel, tmp_path):
    import subprocess

    table = frame(panel)
    more = {"delta": 1e-4, "insecure_seed": 7, "method": "noisy-gradient-descent"}
    model = by_name(**more).fit(table, "member", units="person")
    table.to_csv(tmp_path / "visits.csv", index=False)
    facts = "".join(f"[{name}]\nlower = -1\nupper = 1\n" for name in "abc") + '[member]\nlevels = ["no", "yes"]\n'
    (tmp_path / "bounds.toml").write_text(facts)
    done = subprocess.run(
        [command_line(), "fit", tmp_path / "visits.csv", "--target", "member", "--bounds", tmp_path / "bounds.toml", "--epsilon", "2",
         "--delta", "1e-4", "--insecure-seed", "7", "--unit", "person", "--method", "noisy-gradient-descent",
         "-o", tmp_path / "model.json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = (tmp_path / "model.json").read_text()
    assert text_of(model, tmp_path) == expected and json.loads(expected)["guarantee"]["unit_column"] == "person"
    # ids by themselves: the same numbers, and nothing says what a person is called
    alone = by_name(**more).fit(table.drop(columns="person"), "member", units=table["person"].to_numpy())
    assert np.array_equal(alone.coef_, model.coef_) and alone.privacy_.unit_column == "user"
    # a series says it
    named = by_name(**more).fit(table.drop(columns="person"), "member", units=table["person"])
    assert np.array_equal(named.coef_, model.coef_) and named.privacy_.unit_column == "person"
    from_file = by_name(**more, bounds=tmp_path / "bounds.toml", classes=None).fit(table, "member", units="person")
    assert text_of(from_file, tmp_path) == expected
    assert list(model.feature_names_in_) == ["a", "b", "c"] and "per person" in str(model.privacy_)
    assert "rows of one person" in model.report() or "one value of `person`" in model.report()
    loaded = dpopt.load(tmp_path / "model.json")
    assert loaded.privacy_ == dpopt.Privacy(**{**vars(model.privacy_), "ledger": []})
    assert (loaded.predict(table) == model.predict(table)).all() and (model.predict(table) == table.member).mean() > 0.8
    planned = by_name(**more).explain(table, y="member", units="person")
    assert (planned.event, planned.n_units, planned.n_rows) == (model.plan_.event, UNITS, ROWS)
    encoded = logistic(encoding={"knots": 3}, insecure_seed=2, **BY_ROW, unit=dpopt.Unit(max_rows=2)).fit(
        *panel[:2], units=panel[2]
    )
    assert encoded.privacy_.unit == "user" and str(encoded.privacy_.event).count("User(2 records") == 1


SAME = {
    "integers": lambda ids: ids,
    "floats": lambda ids: ids.astype(float),
    "unsigned": lambda ids: ids.astype(np.uint64),
    "texts with white space": lambda ids: [f" {i}\t" for i in ids],
    "7, ' 7', 7.0 and b'7'": lambda ids: [
        (int(i), f" {i}", float(i), str(i).encode())[at % 4] for at, i in enumerate(ids)
    ],
    "decimals": lambda ids: [decimal.Decimal(int(i)) for i in ids],
    "objects": lambda ids: [("person", int(i)) for i in ids],
    "dates": lambda ids: np.datetime64("2001-01-01") + ids,
    "a series": lambda ids: pd.Series(ids, index=ids[::-1], name="person"),
    "a series of text": lambda ids: pd.Series(ids).astype(str),
    "categories": lambda ids: pd.Series(ids).astype("category"),
    "nullable integers": lambda ids: pd.Series(ids, dtype="UInt64"),
    "a table of one column": lambda ids: pd.DataFrame({"person": ids}),
    "a column": lambda ids: ids[:, None],
    "polars": lambda ids: pytest.importorskip("polars").Series(ids.astype(str)),
    "arrow": lambda ids: pytest.importorskip("pyarrow").array(ids.astype(str)),
}


@pytest.mark.parametrize("form", SAME)
def test_ids_are_compared_as_text(panel, form):
    X, y, ids = (part[:2000] for part in panel)
    expected = seeded(unit=dpopt.Unit(max_rows=2)).fit(X, y, units=ids)
    model = seeded(unit=dpopt.Unit(max_rows=2)).fit(X, y, units=SAME[form](ids))
    assert model.plan_.n_units == len(set(ids.tolist())) and np.array_equal(model.coef_, expected.coef_)


def test_ids_that_are_nearly_alike_are_different_persons(panel):
    X, y, ids = panel
    big = np.uint64(2**63) + ids.astype(np.uint64)
    for units in (
        big,
        pd.Series(big, dtype="UInt64"),
        big.tolist(),
        [decimal.Decimal(int(i)) for i in big],
        (2**60 + ids).tolist(),
        [f"{'a' if i % 2 else 'A'}{i // 2}" for i in ids],
        [("a", i // 2) if i % 2 else f"('a', {i // 2})" for i in ids.tolist()],
    ):
        assert logistic(**DESCENT).explain(X, units=units).n_units == UNITS
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    exact = [decimal.Decimal(int(i)) for i in big]
    for units in (
        pl.Series(big),
        pa.array(big),
        pa.array(exact, type=pa.decimal128(30, 0)),
        pl.Series(exact, dtype=pl.Decimal(30, 0)),
    ):
        assert logistic(**DESCENT).explain(X, units=units).n_units == UNITS


@pytest.mark.parametrize(
    "missing", [None, float("nan"), pd.NA, pd.NaT, "", "NA", np.datetime64("NaT"), decimal.Decimal("sNaN"), "\ud800"]
)
def test_a_row_without_an_id_counts_nowhere(panel, missing):
    X, y, ids = panel
    nobody = ids % 7 == 0
    units = np.array(ids.tolist(), dtype=object)
    units[nobody] = missing
    other = X.copy()
    other[nobody], flipped = -X[nobody], np.where(nobody, 1 - y, y)
    for more in ({}, {"classes": None, "epsilon": 20.0}):
        found = [seeded(**more).fit(x, t, units=units) for x, t in ((X, y), (other, flipped))]
        assert np.array_equal(found[0].coef_, found[1].coef_) and found[0].plan_.n_units == len(
            set(ids[~nobody].tolist())
        )
    # labels that only nobody has are not found
    odd = seeded(classes=None, epsilon=20.0).fit(X, np.where(nobody, 7, y), units=units)
    assert odd.classes_.tolist() == [0, 1]


def test_all_ids_different_is_a_plan_for_rows(panel):
    X, y, _ = panel
    for options in (
        DESCENT,
        {"method": dpopt.methods.NoisySGD(steps=20, sampling_probability=0.1)},
        {**BY_ROW, "unit": dpopt.Unit(max_rows=1)},
    ):
        model = logistic(**options)
        rows = clone(model).set_params(unit__max_rows=None).explain(X).chosen
        units = model.explain(X, units=np.arange(ROWS)).chosen
        assert (rows["unit"], units["unit"]) == ("record", "user")
        assert (rows["noise_multiplier"], rows["delta"], rows["event"]) == (
            units["noise_multiplier"],
            units["delta"],
            units["event"],
        )
    # the plan of a fit is that of explain, from ids or from numbers alone
    ids = panel[2]
    for most in (None, 3):
        fitted = logistic(**DESCENT, unit=dpopt.Unit(max_rows=most)).fit(X, y, units=ids).plan_
        assert fitted.chosen == logistic(**DESCENT, unit=dpopt.Unit(max_rows=most)).explain(X, units=ids).chosen
        explained = logistic(**DESCENT, unit=dpopt.Unit(max_rows=most, count=UNITS)).explain(ROWS, 3, units="person")
        assert fitted.chosen == explained.chosen


def test_methods_that_need_rows_take_a_guarantee_for_a_group(panel):
    X, y, ids = panel
    with pytest.raises(dpopt.PrivacyError, match="needs a public bound on its rows"):
        logistic(**BY_ROW).fit(X, y, units=ids)
    # one release, of a model; where columns are encoded their histograms come first
    model = logistic(**BY_ROW, encoding=None, delta=1e-4, unit=dpopt.Unit(max_rows=4)).fit(X, y, units=ids)
    assert str(model.privacy_.event).startswith("User(4 records") and model.privacy_.epsilon <= 2.0
    assert any("no unit has more than 4 rows" in text for text in model.plan_.chosen["assumptions"])
    # what a row may spend is less than a person may
    alone = logistic(**BY_ROW, encoding=None, delta=1e-4).explain(X).noise_std
    assert model.plan_.noise_std > 2 * alone


def test_what_is_clipped_is_an_option(panel):
    X, y, ids = panel
    sampled = {
        "method": dpopt.methods.NoisySGD(steps=20, sampling_probability=0.1),
        "delta": 1e-4,
    }
    table = frame(panel)
    for clipping, of_rows in (("unit", False), ("row", True)):
        unit = dpopt.Unit(max_rows=4, clipping=clipping)
        model = logistic(**sampled, encoding=None, unit=unit).fit(X, y, units=ids)
        named = by_name(**sampled, encoding={"spread": False}, unit=unit).fit(table, "member", units="person")
        for fitted in (model, named):
            assert str(fitted.privacy_.event).startswith("User(4 records") == of_rows
            assert (fitted.plan_.n_units, fitted.plan_.n_rows, fitted.privacy_.unit) == (UNITS, ROWS, "user")
    with pytest.raises(ValueError, match="needs a public bound on the rows of a unit"):
        logistic(unit=dpopt.Unit(clipping="row")).fit(X, y, units=ids)
    with pytest.raises(ValueError, match='clipping of unit is \'rows\'; choose "auto", "unit" or "row"'):
        logistic(unit=dpopt.Unit(clipping="rows")).fit(X, y, units=ids)


def test_a_person_says_one_label(panel):
    X, y, ids = panel
    # a quarter of the rows are three persons' who say what nobody else says
    ids = np.where(np.arange(ROWS) % 4 == 0, UNITS + np.arange(ROWS) % 3, ids)
    y = np.where(ids >= UNITS, 7, y)
    found = {"classes": None, "epsilon": 4.0, "insecure_seed": 5, **DESCENT}
    assert logistic(**found).fit(X, y).classes_.tolist() == [0, 1, 7]
    model = logistic(**found).fit(X, y, units=ids)
    assert model.classes_.tolist() == [0, 1] and [s["name"] for s in model.privacy_.stages] == ["labels", "model"]
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(member=y, person=ids)
    model = by_name(**found).fit(table, "member", units="person")
    assert model.classes_.tolist() == [0, 1] and model.privacy_.unit_column == "person"


CLASSIFIERS = {"epsilon": 5.0, "bounds": (-1, 1), "classes": [0, 1]}
NUMBERS = {"epsilon": 5.0, "bounds": (-1, 1), "target_bounds": (-2.5, 2.5)}
EMBEDDING = {"embedding_dim": 2, "method": dpopt.methods.EmbeddingSGD(steps=5, sampling_probability=0.5)}
SELECTING = dpopt.methods.EmbeddingSGD(steps=5, sampling_probability=0.5, select_rows=True)
WORKING = [
    (dpopt.LinearSVC, {**CLASSIFIERS, **DESCENT}),
    (dpopt.SGDClassifier, {**CLASSIFIERS, "method": dpopt.methods.NoisySGD(steps=5)}),
    (dpopt.SparseLogisticRegression, {**CLASSIFIERS, "max_features": 1, "unit": dpopt.Unit(max_rows=2)}),
    (dpopt.EmbeddingClassifier, {**CLASSIFIERS, **EMBEDDING}),
    (
        dpopt.TwoTowerClassifier,
        {**CLASSIFIERS, **EMBEDDING, "unit": dpopt.Unit(max_rows=2), "method": SELECTING},
    ),
    (dpopt.LinearRegression, NUMBERS),
    (dpopt.Ridge, {**NUMBERS, **DESCENT}),
    (dpopt.HuberRegression, NUMBERS),
    (dpopt.PoissonRegressor, {**NUMBERS, "target_bounds": (0, 8)}),
    (dpopt.QuantileRegressor, {**NUMBERS, **DESCENT}),
    (dpopt.SGDRegressor, {**NUMBERS, "method": dpopt.methods.NoisySGD(steps=5)}),
    (dpopt.SparseLinearRegression, {**NUMBERS, "max_features": 1, "unit": dpopt.Unit(max_rows=2)}),
    (dpopt.TwoTowerRegressor, {**NUMBERS, **EMBEDDING}),
]


@pytest.mark.parametrize(("kind", "given"), WORKING, ids=[kind.__name__ for kind, _ in WORKING])
def test_every_estimator_fits_units(panel, kind, given):
    X, y, ids = panel
    y = y if "classes" in given else X[:, 0] - X[:, 1]
    ledger = dpopt.Ledger(5.0, 1e-2, unit="user")
    model = kind(**given, budget=ledger).fit(X, y, units=ids)
    assert model.privacy_.unit == "user" and model.privacy_.epsilon <= 5.0 and np.isfinite(model.predict(X)).all()
    assert len(ledger.entries) == 1 and ledger.entries[0].epsilon == 5.0
    again = pickle.loads(pickle.dumps(model.set_params(budget=None)))
    assert str(again.privacy_) == str(model.privacy_) and not any(
        part in repr(vars(again)) for part in ("Owners", "Given")
    )


def test_several_classes_pipelines_and_sparse_rows(panel):
    import scipy.sparse as sp

    X, _, ids = panel
    three = np.digitize(X[:, 0], [-0.3, 0.3])
    model = dpopt.LinearSVC(**{**CLASSIFIERS, "classes": [0, 1, 2]}, **DESCENT).fit(sp.csr_matrix(X), three, units=ids)
    assert [s["name"] for s in model.privacy_.stages] == [
        "model 1 of 3",
        "model 2 of 3",
        "model 3 of 3",
    ] and model.privacy_.unit == "user"
    pipe = make_pipeline(dpopt.PublicScaler(bounds=(-1, 1)), logistic(**DESCENT))
    pipe.fit(X, three > 0, logisticregression__units=ids)
    assert pipe[-1].privacy_.unit == "user"


def test_a_ledger_of_persons_refuses_rows_and_the_other_way_round(panel, tmp_path):
    X, y, ids = panel
    for path in (None, tmp_path / "a"):
        persons = dpopt.Ledger(2.0, 1e-2, unit="user", path=None if path is None else tmp_path / "persons")
        rows = dpopt.Ledger(2.0, 1e-2, path=None if path is None else tmp_path / "rows")
        with pytest.raises(ValueError, match="protects a user and this charge is per 'record'; give the fit units="):
            logistic(**DESCENT, epsilon=1.0, budget=persons).fit(X, y)
        with pytest.raises(
            ValueError, match=r'protects a record and this charge is per \'user\'; use Ledger\(..., unit="user"\)'
        ):
            logistic(**DESCENT, epsilon=1.0, budget=rows).fit(X, y, units=ids)
        with pytest.raises(ValueError, match="protects a user"):
            mechanisms.gaussian_sum(X, 1.0, epsilon=0.5, delta=1e-5, ledger=persons)
        with pytest.raises(ValueError, match="protects a user"):
            dpopt.MeanEstimator(epsilon=1.0, bounds=(-1, 1), budget=persons).fit(X)
        with pytest.raises(ValueError, match="protects a user"):
            by_name(epsilon=1.0, budget=persons).fit(frame(panel).drop(columns="person"), "member")
        assert persons.entries == () and rows.entries == ()
        logistic(**DESCENT, epsilon=1.0, budget=persons).fit(X, y, units=ids)
        # ids with a name are somebody's of whom this ledger knows nothing
        with pytest.raises(
            ValueError, match="protects a user and this charge is per 'person'; what is spent on the one"
        ):
            by_name(**DESCENT, epsilon=0.5, budget=persons).fit(frame(panel), "member", units="person")
        logistic(**DESCENT, epsilon=0.5, budget=persons).fit(X, y, units=ids)
        persons.charge("by hand", "gaussian(50)", epsilon=0.25, delta=1e-6)
        assert [e.epsilon for e in persons.entries] == [1.0, 0.5, 0.25] and "per user" in repr(persons)
        with pytest.raises(ValueError, match="protects a user"):
            persons.charge("a row's", "gaussian(50)", epsilon=0.25, delta=1e-6, unit="record")
        again = dpopt.Ledger.from_json(persons.to_json()) if path is None else dpopt.Ledger.open(tmp_path / "persons")
        assert again.unit == "user" and len(again.entries) == 3
    for wrong in ("", (), ("a", ""), 3, ["a"]):
        with pytest.raises(ValueError, match='give "record", or the name of whoever has the rows'):
            dpopt.Ledger(1.0, unit=wrong)


def test_a_ledger_knows_whose_ids_they_are(panel, tmp_path):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    X, y, ids = panel
    for path in (None, tmp_path / "persons"):
        ledger = dpopt.Ledger(9.0, 1e-1, unit="person", path=path)
        for named in ({"person": ids}, pandas.Series(ids, name="person"), polars.Series("person", ids.tolist())):
            logistic(**DESCENT, epsilon=1.0, budget=ledger).fit(X, y, units=named)
        by_name(**DESCENT, epsilon=0.5, budget=ledger).fit(frame(panel), "member", units="person")
        mechanisms.gaussian_sum(X, 1.0, epsilon=0.5, delta=1e-5, ledger=ledger, units={"person": ids})
        mean = dpopt.MeanEstimator(epsilon=0.5, bounds=(-1, 1), budget=ledger).fit(X, units={"person": ids})
        assert mean.privacy_.unit_column == "person" and len(ledger.entries) == 6
        for other, why in (
            ({"visit": ids}, "protects a person and this charge is per 'visit'; what is spent on the one"),
            (ids, "protects a person and this charge is per 'user'; say whose ids they are, units={\"person\": ids}"),
        ):
            for fitted in (
                lambda: logistic(**DESCENT, epsilon=0.5, budget=ledger).fit(X, y, units=other),
                lambda: dpopt.MeanEstimator(epsilon=0.5, bounds=(-1, 1), budget=ledger).fit(X, units=other),
                lambda: mechanisms.gaussian_sum(X, 1.0, epsilon=0.5, delta=1e-5, ledger=ledger, units=other),
            ):
                with pytest.raises(ValueError, match=re.escape(why)):
                    fitted()
        with pytest.raises(ValueError, match="protects a person and this charge is per 'record'"):
            logistic(**DESCENT, epsilon=0.5, budget=ledger).fit(X, y)
        assert len(ledger.entries) == 6 and "per person" in repr(ledger) and "per person" in ledger._repr_html_()
        again = dpopt.Ledger.from_json(ledger.to_json()) if path is None else dpopt.Ledger.open(path)
        assert again.unit == "person" and len(again.entries) == 6
    # several owners, in any order; a column that is called as a row is
    both = dpopt.Ledger(9.0, 1e-1, unit=("sender", "recipient"), path=tmp_path / "both")
    owners = {"recipient": ids, "sender": np.roll(ids, 1)}
    logistic(**DESCENT, budget=both, unit=dpopt.Unit(max_rows=2)).fit(X, y, units=owners)
    assert dpopt.Ledger.open(tmp_path / "both").unit == ("recipient", "sender") and len(both.entries) == 1
    with pytest.raises(ValueError, match="protects a recipient and sender and this charge is per 'sender'"):
        logistic(**DESCENT, budget=both).fit(X, y, units={"sender": ids})
    rows = dpopt.Ledger(9.0, 1e-1)
    with pytest.raises(ValueError, match="the ledger protects a record and this charge is per"):
        logistic(**DESCENT, budget=rows).fit(X, y, units={"record": ids})
    assert dpopt.Ledger(9.0, 1e-1, unit=("record",)).unit == ("record",)


def test_ids_with_a_name(panel):
    X, y, ids = panel
    with pytest.raises(ValueError, match="X has a column of that name, which the model would use"):
        by_name(**DESCENT).fit(frame(panel), "member", units={"person": ids})
    for wrong, why in (
        ({}, "mapping of 0 names"),
        ({3: ids}, "this one is not"),
        ({"": ids}, "this one is not"),
        ({"a": "b"}, "this one is not"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            logistic(**DESCENT).fit(X, y, units=wrong)


def test_numbers_of_units_that_are_protected(panel):
    X, y, ids = panel
    protected = {"neighbors": "add-or-remove", "n_rows": 5200, "delta": 1e-4, **DESCENT}
    for explain in (True, False):
        model = logistic(**protected)
        with pytest.raises(
            ValueError, match="number of units is protected; give a public guess of units as unit=dpopt.Unit"
        ):
            model.explain(X, units=ids) if explain else model.fit(X, y, units=ids)
    model = logistic(**protected, insecure_seed=5, unit=dpopt.Unit(count=480)).fit(X, y, units=ids)
    assert (model.plan_.n_units, model.privacy_.relation) == (480, "add-or-remove") and model.score(X, y) > 0.8
    table = frame(panel)
    model = by_name(**protected, unit=dpopt.Unit(count=480)).fit(table, "member", units="person")
    assert (model.plan_.n_units, model.plan_.n_rows) == (480, 5200)
    # a public number is one of places, whichever units fill them
    for wrong in (480, ROWS + 1):
        with pytest.raises(
            ValueError, match=f"count of unit is {wrong}, and units has more ids than that, or X fewer rows"
        ):
            logistic(unit=dpopt.Unit(count=wrong)).fit(X, y, units=ids)
        with pytest.raises(
            ValueError, match=f"count of unit is {wrong}, and units has more ids than that, or X fewer rows"
        ):
            by_name(unit=dpopt.Unit(count=wrong)).fit(table, "member", units="person")
    for model in (
        logistic(**DESCENT, unit=dpopt.Unit(count=600)).fit(X, y, units=ids),
        by_name(**DESCENT, unit=dpopt.Unit(count=600)).fit(table, "member", units="person"),
    ):
        assert model.plan_.n_units == 600 and model.privacy_.delta == pytest.approx(600**-1.1)
    for given in ({"count": 500}, {"max_rows": 3}, {"clipping": "row"}):
        with pytest.raises(ValueError, match="unit is given and units= is not"):
            logistic(unit=dpopt.Unit(**given)).fit(X, y)
    for name in ("count", "max_rows"):
        with pytest.raises(ValueError, match=f"{name} of unit is 0.5; give a whole number"):
            logistic(unit=dpopt.Unit(**{name: 0.5})).fit(X, y, units=ids)
    with pytest.raises(ValueError, match="give a public number of units as unit=dpopt.Unit"):
        logistic().explain(ROWS, 3, units="person")


class Unhashable:
    __hash__ = None

    def __repr__(self):
        return "secret-repr"


def test_wrong_ids_are_errors_that_show_none(panel):
    X, y, ids = panel
    secret = [f"secret{i}" for i in ids]
    table = frame(panel)
    for units, kind, message in [
        (secret[:-1], ValueError, "units has 4999 ids and X has 5000 rows"),
        ([*secret[:-1], ["secret"]], TypeError, "the id in row 4999 of units is a sequence, which cannot be compared"),
        ([*secret[:-1], Unhashable()], TypeError, "the id in row 4999 of units is of type Unhashable"),
        (np.array([secret, secret], dtype=object).T, ValueError, r"give unit=dpopt.Unit\(max_rows"),
        (np.array(secret, dtype=object).reshape(-1, 1, 1), ValueError, "an array of 3 dimensions"),
        (dict.fromkeys(secret), TypeError, "units is a mapping of names to ids"),
        (dict.fromkeys(secret[:1]), TypeError, "units is a mapping of names to ids"),
        (set(secret), TypeError, "units is of type set"),
        (17, TypeError, "units is a number"),
        ("secret", TypeError, "units is text, and X is a sequence"),
        (["secret"] * ROWS, ValueError, "1 units( of `user`)?: too few to learn from"),
        ([None] * ROWS, ValueError, "0 units( of `user`)?: "),
    ]:
        with pytest.raises(kind, match=message) as caught:
            logistic().fit(X, y, units=units)
        assert "secret" not in str(caught.value) and caught.value.__context__ is None
    for units, message in [
        ("secret", "no column of X has that name"),
        ("member", "y and units are the same column"),
        (table[["person", "a"]], r"give unit=dpopt.Unit\(max_rows"),
        (secret[1:], "units has 4999 ids"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            by_name().fit(table, "member", units=units)
        assert "secret" not in str(caught.value)
    # a cell of a table that can't be compared is a missing id
    table["person"] = [[1] if i == 0 else i for i in ids.tolist()]
    assert by_name(**DESCENT).fit(table, "member", units="person").plan_.n_units == UNITS - 1


def test_what_protects_rows_only_says_so(panel):
    X, y, ids = panel
    with pytest.raises(dpopt.PrivacyError, match="adaptive steps and the choice of rows"):
        dpopt.EmbeddingClassifier(**CLASSIFIERS, embedding_dim=2, method=SELECTING).fit(X, y, units=ids)
    with pytest.raises(ValueError, match="pairs cannot be chosen privately where a unit has several rows"):
        by_name(encoding={"pairs": "private"}).fit(frame(panel), "member", units="person")


def test_ids_leave_no_trace(panel, tmp_path):
    X, y, ids = panel
    secret = [f"s3cret{i}" for i in ids]
    ledger = dpopt.Ledger(10.0, 1e-1, unit="user", path=tmp_path / "a.ledger")
    model = logistic(**DESCENT, budget=ledger).fit(X, y, units=secret)
    table = frame(panel).assign(person=secret)
    persons = dpopt.Ledger(10.0, 1e-1, unit="person", path=tmp_path / "b.ledger")
    named = by_name(**DESCENT, budget=persons).fit(table, "member", units="person")
    named.save(tmp_path / "model.json")
    texts = [(tmp_path / name).read_text() for name in ("a.ledger", "b.ledger", "model.json")]
    for fitted in (model, named):
        texts += [
            repr(fitted),
            repr(vars(fitted)),
            fitted.report(),
            str(fitted.plan_),
            repr(fitted.privacy_),
            pickle.dumps(fitted).decode("latin-1"),
        ]
    # six bytes of noise that spell this by chance: 2^-48 for each place
    assert not any(re.search("s3cret", text) for text in texts)


def test_the_plan_says_what_each_method_clips(panel):
    X, _, ids = panel
    plan = logistic(unit=dpopt.Unit(max_rows=2)).explain(X, units=ids)
    clips = {c["method"]: c.get("clips") for c in plan.candidates if not c.get("not_applicable")}
    assert clips["noisy-gradient-descent"] == "unit" and clips["objective-perturbation"] == "row × 2"
    assert "clips" in str(plan).splitlines()[2] and "row × 2" in str(plan) and "row × 2" in plan._repr_html_()
    assert "clips" not in str(logistic().explain(X))
