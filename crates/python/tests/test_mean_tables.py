"""Means of columns declared by name: numbers in their units, shares of levels, and what a record can move."""

import pickle
import warnings

import dpopt
import numpy as np
import pytest
from dpopt._mean_tables import VectorReader, Vectors
from dpopt._rows import within
from dpopt.partitions import Here
from sklearn.base import clone

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

N = 3000
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({
    "income": RNG.gamma(2.0, 15_000, N),
    "sex": RNG.choice(["F", "M", "unknown"], N),
    "age": RNG.integers(15, 95, N),
    "city": RNG.choice(list("abcdef"), N),
    "member": RNG.random(N) < 0.3,
})  # fmt: skip
DECLARED = {
    "bounds": {"age": (17, 90), "income": (0, 100_000)},
    "columns": dpopt.Columns(levels={"sex": ["F", "M"], "city": list("abcde"), "member": [True]}),
}
NAMES = ["income", "sex=F", "sex=M", "age", "city=a", "city=b", "city=c", "city=d", "city=e", "member=true"]
#: In the order of the table's columns.
EXPECTED = np.array([
    TABLE.income.clip(0, 100_000).mean(), *((TABLE.sex == s).mean() for s in "FM"), TABLE.age.clip(17, 90).mean(),
    *((TABLE.city == c).mean() for c in "abcde"), TABLE.member.mean(),
])  # fmt: skip
BOUNDS = """
[dpopt]
knots = 12
[age]
lower = 17
upper = 90
[income]
lower = 0
upper = 100000
transform = "log"
[sex]
levels = ["F", "M"]
[city]
levels = ["a", "b", "c", "d", "e"]
[member]
levels = [true]
"""


def mean(**more):
    return dpopt.MeanEstimator(**{"epsilon": 1000.0, "delta": 1e-3, "insecure_seed": 1, **DECLARED, **more})


def vectors(model, X):
    """Bounded rows, as they are added up."""
    reader = VectorReader.of(model, X)
    return within(reader.values(reader.table(X)), reader.vectors)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-or-remove"])
def test_means_and_shares_are_those_of_the_table(relation):
    model = mean(neighbors=relation, n_rows=N if relation == "add-or-remove" else None).fit(TABLE)
    assert model.get_feature_names_out().tolist() == NAMES == list(model.means_)
    assert list(model.means_.values()) == model.mean_.tolist()
    # ten entries within six standard deviations: false alarms below 3e-8; numbers are read to seven digits of their range
    assert (np.abs(model.mean_ - EXPECTED) < 6 * model.noise_std_ + 1e-7 * 1e5).all()
    assert model.noise_std_[0] < 50 and model.noise_std_[3] < 0.05 and model.noise_std_[1] < 1e-3
    assert model.n_features_in_ == 5 and model.feature_names_in_.tolist() == list(TABLE.columns)


def test_rows_that_are_close_are_found_in_rounds():
    X = pd.DataFrame({"age": RNG.normal(30, 0.3, N), "sex": ["F"] * N})
    options = {
        "bounds": {"age": (17, 90)},
        "epsilon": 1.0,
        "delta": 1e-6,
        "columns": dpopt.Columns(levels={"sex": ["F", "M"]}),
    }
    plain, close = mean(**options).fit(X), mean(**options, spread=0.03).fit(X)
    assert (close.noise_std_ < plain.noise_std_ / 4).all() and close.plan_.method == "centred-mean"
    # three entries within six standard deviations, and a part of the spread that the clip may take
    assert (np.abs(close.mean_ - [30, 1, 0]) < 6 * close.noise_std_ + 0.003 * np.array([52, 1, 1])).all()


def test_cells_are_read_to_seven_digits_of_their_range():
    reader = VectorReader.of(mean(), TABLE)
    values = reader.values(reader.table(TABLE))
    assert np.abs(values[:, 0] - TABLE.income.clip(0, 100_000)).max() < 1e-7 * 1e5
    assert np.abs(values[:, 3] - TABLE.age.clip(17, 90)).max() < 1e-7 * 73
    assert np.array_equal(values[:, [1, 2]], np.stack([TABLE.sex == "F", TABLE.sex == "M"], axis=1))
    assert np.array_equal(values[:, 9], TABLE.member)


def test_noise_is_that_of_one_part_for_each_column():
    model = mean(epsilon=1.0, delta=1e-6).fit(TABLE)
    assert model.plan_.n_features == 10 and model.privacy_.grade == "certified" and model.privacy_.epsilon <= 1
    one = model.plan_.chosen["noise_multiplier"] / N * np.sqrt(5)
    radii = dict(zip(NAMES, [50_000, 0.5**0.5, 0.5**0.5, 36.5, *[0.8**0.5] * 5, 0.5]))
    np.testing.assert_allclose(model.noise_std_, one * np.array(list(radii.values())), rtol=1e-12)
    # numbers alone: as for a matrix
    numbers = TABLE[["age", "income"]]
    by_name = mean(columns=None).fit(numbers)
    by_place = dpopt.MeanEstimator(1000.0, 1e-3, bounds=([17, 0], [90, 100_000]), insecure_seed=1).fit(numbers)
    np.testing.assert_allclose(by_name.noise_std_, by_place.noise_std_, rtol=1e-12)
    np.testing.assert_allclose(by_name.mean_, by_place.mean_, rtol=1e-6)
    assert by_place.means_ == by_name.means_ or list(by_place.means_) == list(by_name.means_) == ["age", "income"]
    assert list(dpopt.MeanEstimator(5.0, bounds=(0, 1)).fit(np.zeros((9, 2))).means_) == ["x0", "x1"]


#: What one cell may hold.
CELLS = {
    "age": ["forty", None, np.nan, np.inf, -np.inf, 1e308, -1e308, [1], {"a": 1}, b"\xff", "\ud800", " 90 ", 10**400, 17, pd.NA],
    "sex": ["F", "M", " F ", "f", 7, None, np.nan, [], "\ud800"],
    "city": ["a", "z", "?", None, b"\xff\x00"],
    "member": [True, False, "true", 2, None],
}  # fmt: skip


def test_a_record_moves_the_sum_by_at_most_one():
    table = TABLE[:200].astype(object)
    for column, cells in CELLS.items():
        for row, cell in enumerate(cells):
            table.iat[row, list(table.columns).index(column)] = cell
    for options in (
        DECLARED,
        {"bounds": None, "columns": DECLARED["columns"]},
        {"bounds": {"age": (17, 90)}, "columns": None},
    ):
        norms = np.linalg.norm(np.nan_to_num(vectors(mean(**options), table)), axis=1)
        # the compiled sum clips what rounding leaves
        assert norms.max() <= 1 + 1e-12 and norms.max() > 0.9
    # every corner, with each level or none
    public = Vectors.of(mean())
    corners = np.array(np.meshgrid([17, 90], [0, 1e5], range(6), range(2), range(3))).reshape(5, -1).T
    rows = [
        dict(zip(public.names, [0.0] * 10))
        | {"age": a, "income": i}
        | ({f"city={'abcde'[c]}": 1.0} if c < 5 else {})
        | ({"member=true": 1.0} if m else {})
        | ({f"sex={'FM'[int(s)]}": 1.0} if s < 2 else {})
        for a, i, c, m, s in [(a, i, int(c), m, s) for a, i, c, m, s in corners]
    ]
    bounded = within(np.array([[row[name] for name in public.names] for row in rows]), public)
    norms = np.linalg.norm(bounded, axis=1)
    assert norms.max() == pytest.approx(1, abs=1e-12) and len(norms) == 2 * 2 * 6 * 2 * 3


def test_cells_that_cannot_be_read_are_the_middle_or_no_level():
    same = np.full(100, 30)
    for cell in ("forty", None, np.inf, -np.inf, [1], "\ud800", pd.NaT):
        X = pd.DataFrame(
            {
                "age": pd.Series([cell] * 50 + [30] * 50, dtype=object),
                "sex": pd.Series(["F"] * 25 + [cell] * 75, dtype=object),
            }
        )
        found = mean(bounds={"age": (10, 90)}, columns=dpopt.Columns(levels={"sex": ["F", "M"]})).fit(X).means_
        assert found["age"] == pytest.approx(40, abs=1) and found["sex=F"] == pytest.approx(0.25, abs=0.02), cell
        assert found["sex=M"] == pytest.approx(0, abs=0.02)
    # as in a matrix, also in rounds
    X = pd.DataFrame({"age": pd.Series([None] * 1000 + [30.0] * 4000, dtype=object)})
    for spread in (None, 0.05):
        by_name = mean(bounds={"age": (10, 90)}, spread=spread, columns=None).fit(X).mean_[0]
        by_place = mean(bounds=(10, 90), spread=spread, columns=None).fit(X.astype(float)).mean_[0]
        assert by_name == pytest.approx(by_place, abs=1e-4) and by_name < 34.1
    # numbers as text, far numbers, truth values, one level for all rows
    X = pd.DataFrame({"age": [" 30 ", "3e1"] * 50, "far": [1e308, -1e308] * 50, "yes": [True] * 100, "same": same})
    options = {
        "bounds": {"age": (10, 90), "far": (0, 4), "yes": (0, 1)},
        "columns": dpopt.Columns(levels={"same": [30]}),
    }
    expected = {"age": 30, "far": 2, "yes": 1, "same=30": 1}
    assert mean(**options).fit(X).means_ == pytest.approx(expected, abs=1)
    assert list(mean(**options).fit(X).means_) == list(expected)


def test_every_data_frame_is_the_same_table(tmp_path):
    polars, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    holes = TABLE.assign(
        age=TABLE.age.astype(float).where(TABLE.index % 7 > 0), sex=TABLE.sex.where(TABLE.index % 5 > 0)
    )
    expected = mean().fit(holes)
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    frames = {
        "polars": polars.from_pandas(holes),
        "arrow": pa.Table.from_pandas(holes),
        "objects": holes.astype(object),
        "categories": holes.astype({"sex": "category", "city": "category"}),
        "text": holes.assign(age=[None if v != v else str(v) for v in holes.age]),
    }
    for name, frame in frames.items():
        found = mean().fit(frame)
        assert found.mean_.tobytes() == expected.mean_.tobytes(), name
        assert found.get_feature_names_out().tolist() == NAMES, name
    for path in (tmp_path / "bounds.toml", str(tmp_path / "bounds.toml")):
        # what it says of encoders changes nothing
        assert mean(bounds=path, columns=None).fit(holes).mean_.tobytes() == expected.mean_.tobytes()
        with pytest.raises(ValueError, match="declared"):
            mean(bounds=path, columns=dpopt.Columns(levels={"sex": ["F"]})).fit(holes)


def test_undeclared_columns_are_left_out_and_named():
    few = mean(bounds={"age": (17, 90)}, columns=None)
    with pytest.warns(
        dpopt.PrivacyWarning, match="nothing declares the columns income, sex, city, member: they are left out"
    ):
        found = few.fit(TABLE)
    assert list(found.means_) == ["age"] and found.n_features_in_ == 5
    # nothing of them is read
    strange = TABLE.assign(income=[object()] * N, sex=[{"a": [1]}] * N)
    assert clone(few).fit(strange).mean_.tobytes() == found.mean_.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "insecure_seed|delta")
        listed = mean(bounds={"age": (17, 90)}, columns=dpopt.Columns(ignore=["income", "sex", "city", "member"])).fit(
            TABLE
        )
        few.explain(TABLE)
    assert listed.mean_.tobytes() == found.mean_.tobytes()


@pytest.mark.parametrize(
    ("options", "table", "kind", "message"),
    [
        ({"bounds": {"agee": (17, 90), "age": (0, 1)}}, TABLE, ValueError, "'agee' is not a column of the table: the table has income, sex, age"),
        ({"bounds": {"q": (17, 90)}, "columns": None}, TABLE, ValueError, "'q' is not a column of the table: none of its 5 columns is declared"),
        ({"columns": dpopt.Columns(ignore=["q"])}, TABLE, ValueError, "'q' is not a column"),
        ({"bounds": {"age": {"text": True}}}, TABLE, ValueError, "'age' is declared with text = true, and has no mean"),
        ({"bounds": {"city": {"hash": True}}, "columns": None}, TABLE, ValueError, "'city' is declared with hash = true, and has no mean"),
        ({"bounds": {"age": {"numeric": True}}}, TABLE, ValueError, "'age' is declared numeric without bounds"),
        ({"bounds": {"age": (90, 17)}}, TABLE, ValueError, "is above upper"),
        ({"bounds": {}, "columns": None}, TABLE, ValueError, "no column with a mean is declared"),
        ({"bounds": None, "columns": dpopt.Columns(ignore=["age"])}, TABLE, ValueError, "no column with a mean is declared"),
        ({"bounds": (0, 1)}, TABLE, ValueError, "bounds must be by name here"),
        ({"columns": dpopt.Columns(levels={"age": [17]})}, TABLE, ValueError, "'age' is declared twice, as different kinds"),
        ({"columns": dpopt.Columns(levels={"sex": []})}, TABLE, ValueError, "levels is empty"),
        ({"columns": dpopt.Columns(levels={"sex": ["F", " F"]})}, TABLE, ValueError, "listed twice"),
        ({"columns": dpopt.Columns(levels={"sex": "F"})}, TABLE, TypeError, "give a list of levels"),
        ({"row_norm": 2.0}, TABLE, ValueError, "row_norm is for matrices"),
        ({"delta": 0.0}, TABLE, ValueError, "Gaussian noise needs delta > 0"),
        ({}, TABLE.to_numpy(), TypeError, "columns are declared by name, and X is"),
        ({}, TABLE[:0], ValueError, "X has 0 rows"),
        ({}, TABLE.drop(columns="age"), ValueError, "'age' is not a column"),
        ({"neighbors": "add-or-remove"}, TABLE, ValueError, "give a public guess as n_rows"),
        ({"n_rows": 7}, TABLE, ValueError, "n_rows is 7 but X has 3000 rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_before_anything_is_charged(options, table, kind, message):
    ledger = dpopt.Ledger(2000.0, 1e-2, relation=options.get("neighbors", "zero-out"))
    with pytest.raises(kind, match=message):
        mean(**options, insecure_seed=None, budget=ledger).fit(table)
    assert ledger.entries == ()


def test_names_of_a_table_without_its_header_are_not_shown():
    table = pd.DataFrame([[1.0, 2.0]], columns=["s3cret", "17"])
    for options in ({"bounds": {"age": (17, 90)}}, {"bounds": None, "columns": dpopt.Columns(levels={"sex": ["F"]})}):
        with pytest.raises(ValueError, match="none of its 2 columns is declared") as caught:
            mean(**{"columns": None, **options}).fit(table)
        assert "s3cret" not in str(caught.value)


def test_an_empty_table_is_a_neighbour_where_the_number_is_protected():
    options = {
        "neighbors": "add-or-remove",
        "n_rows": 100,
        "bounds": {"age": (10, 90)},
        "columns": dpopt.Columns(levels={"sex": ["F", "M"]}),
    }
    found = mean(**options).fit(TABLE[:0])
    # places without rows count as the middle
    assert found.means_ == pytest.approx({"sex=F": 0.5, "sex=M": 0.5, "age": 50}, abs=1)


@pytest.mark.parametrize("spread", [None, 1.0])
def test_units_have_one_vector_each(spread):
    ids = np.minimum(np.arange(N), 1000)
    table = TABLE.assign(person=ids)
    by = TABLE.assign(F=TABLE.sex == "F", age=TABLE.age.clip(17, 90))[["age", "F"]].groupby(ids).mean().mean()
    model = mean(spread=spread)
    by_column = clone(model).fit(table, units="person")
    beside = clone(model).fit(TABLE, units=ids)
    assert by_column.mean_.tobytes() == beside.mean_.tobytes() and by_column.n_features_in_ == 5
    assert by_column.privacy_.unit == "user" and "per person" in by_column.report()
    for name, expected in (("age", by.age), ("sex=F", by.F)):
        at = NAMES.index(name)
        assert abs(by_column.mean_[at] - expected) < 6 * by_column.noise_std_[at] + 1e-5
    plan = model.explain(table, units="person")
    assert (plan.event, plan.n_units) == (by_column.plan_.event, 1001)
    assert clone(model).set_params(unit__count=1001).explain(5, units="person").event == plan.event
    few = clone(model).set_params(unit__max_rows=2, unit__count=1200).fit(table, units="person")
    assert few.plan_.n_units == 1200
    with pytest.raises(ValueError, match="the number of rows has no effect"):
        clone(model).set_params(n_rows=N).fit(table, units="person")


def test_the_plan_needs_no_table():
    model = mean(epsilon=1.0, delta=1e-6)
    fitted = clone(model).fit(TABLE)
    for plan in (
        model.explain(TABLE),
        model.explain(TABLE[:0].reindex(range(N))),
        model.explain(N),
        model.explain(n_rows=N),
    ):
        assert plan.event == fitted.plan_.event and plan.noise_std == fitted.plan_.noise_std
        assert (plan.n_rows, plan.n_features) == (N, 10)
    in_rounds = model.set_params(spread=0.1)
    assert in_rounds.explain(N).event == clone(in_rounds).fit(TABLE).plan_.event
    for wrong in ({"X": N, "n_features": 3}, {"X": TABLE, "n_rows": N}, {}):
        with pytest.raises(TypeError):
            model.explain(**wrong)
    with pytest.raises(ValueError, match="is not a column of the table"):
        model.explain(TABLE.drop(columns="age"))


def test_what_a_fitted_mean_has(tmp_path):
    model = mean()
    assert clone(model).get_params() == model.get_params() and model.get_params()["columns"] == DECLARED["columns"]
    with pytest.raises(Exception, match="not fitted"):
        model.get_feature_names_out()
    model.fit(TABLE)
    again = pickle.loads(pickle.dumps(model))
    assert again.means_ == model.means_ and again.get_feature_names_out().tolist() == NAMES
    html = model.report(tmp_path / "mean.html")
    assert (tmp_path / "mean.html").read_text(encoding="utf-8") == html
    assert all(f"<td>{name}</td>" in html for name in NAMES) and html.count("<tr") >= len(NAMES) + 2
    # a matrix afterwards
    model.set_params(bounds=(0, 1), columns__levels=None).fit(np.zeros((50, 2)))
    assert list(model.means_) == ["x0", "x1"] and not hasattr(model, "feature_names_in_")
    # columns in any order, other names with white space around them
    turned = mean().fit(TABLE[list(TABLE.columns[::-1])].rename(columns={"age": " age "}))
    assert list(turned.means_)[:3] == ["member=true", "city=a", "city=b"]
    assert turned.means_["age"] == pytest.approx(EXPECTED[3], abs=0.1)


def test_a_mean_of_columns_in_parts_is_the_same_bits():
    for options in ({}, {"spread": 0.5}):
        whole = mean(**options).fit(TABLE)
        for ends in ([N], [0, 1, 300, 300, 900, N]):
            cut = [(TABLE[a:b], None) for a, b in zip([0, *ends[:-1]], ends)]
            found = mean(**options).fit(Here(cut))
            assert found.mean_.tobytes() == whole.mean_.tobytes() and found.plan_.event == whole.plan_.event
            assert found.means_ == whole.means_ and found.feature_names_in_.tolist() == list(TABLE.columns)
    ledger = dpopt.Ledger(2000.0, 1e-2)
    refused = mean(insecure_seed=None, budget=ledger)
    with pytest.raises(TypeError, match="these partitions have no names"):
        refused.fit(Here([(np.zeros((5, 2)), None)]))
    ledger_of_people = dpopt.Ledger(2000.0, 1e-2, unit="user")
    with pytest.raises(ValueError, match="encode the columns first"):
        mean(insecure_seed=None, budget=ledger_of_people).fit(Here([(TABLE, None, np.arange(N))], units="person"))
    with pytest.raises(ValueError, match="is not a column of the table"):
        refused.fit(Here([(TABLE.drop(columns="age"), None)]))
    assert ledger.entries == () == ledger_of_people.entries
