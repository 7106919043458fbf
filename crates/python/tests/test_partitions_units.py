"""Units of several rows in parts: all rows of a unit in one part, clipped as one."""

import pickle

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp
from dpopt.partitions import Here, PartitionFailed, Persons, Recipe
from sklearn.base import clone

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

N = 1500
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (N, 4))
CLASSES = np.argmax(X[:, :3], axis=1)
NUMBERS = X @ [0.5, -0.3, 0.2, 0.0]
IDS = RNG.integers(0, 450, N)
ENDS = ([N], [700, N], [0, 1, 300, 300, 900, N - 1, N])
COMMON = {"epsilon": 4.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}
MODELS = {
    "softmax": (
        dpopt.LogisticRegression(classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=10), **COMMON),
        CLASSES,
    ),
    "one against the rest": (
        dpopt.LinearSVC(classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=10), **COMMON),
        CLASSES,
    ),
    "adaptive": (
        dpopt.LinearRegression(target_bounds=(-1, 1), method=dpopt.methods.AdaptiveClipDescent(steps=10), **COMMON),
        NUMBERS,
    ),
    "auto": (dpopt.LinearRegression(target_bounds=(-1, 1), **COMMON), NUMBERS),
}


def cut(ends, X, y, ids, kind=Here):
    blocks = [(X[a:b], y[a:b], ids[a:b]) for a, b in zip([0, *ends[:-1]], ends)]
    return kind(blocks, units="person")


class AsTheyAre(Here):
    """Does not bring rows of a unit together."""

    def _together(self, blocks, persons):
        return blocks


def same(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_the_same_bits_whatever_the_parts_are(name):
    model, y = MODELS[name]
    y = np.where(RNG.random(N) < 0.05, np.nan, y)
    # some rows are nobody's
    ids = np.where(RNG.random(N) < 0.03, np.nan, IDS)
    if name == "auto":
        # a whole table of rows one by one has more methods
        model = clone(model).set_params(method=clone(model).fit(cut([N], X, y, ids)).plan_.method)
    whole = clone(model).fit(X, y, units={"person": ids})
    for ends in ENDS:
        found = clone(model).fit(cut(ends, X, y, ids))
        assert same(found, whole)
        assert found.privacy_.epsilon == whole.privacy_.epsilon and found.privacy_.unit == "user"
        assert found.plan_.n_units == whole.plan_.n_units and found.plan_.n_rows == whole.plan_.n_rows
        assert "person" in found.report()
    # nor does the order of rows matter
    order = RNG.permutation(N)
    assert same(clone(model).fit(cut([400, N], X[order], y[order], ids[order])), whole)


@pytest.mark.parametrize("kind", ["sparse", "table", "texts"])
def test_blocks_and_ids_may_be_what_they_may_be(kind):
    pd = pytest.importorskip("pandas")
    model, y = MODELS["softmax"]
    data, ids = X, IDS
    if kind == "sparse":
        data = sp.csr_matrix(np.where(np.abs(X) < 0.5, 0, X))
    if kind == "table":
        data, y = pd.DataFrame(X, columns=list("abcd")), pd.Series(CLASSES)
        ids = pd.Series(IDS)
    if kind == "texts":
        # the same persons, however they are written
        ids = np.array([f" {i}" if k % 2 else f"{i}.0" for k, i in enumerate(IDS)], dtype=object)
    assert same(clone(model).fit(cut([400, 400, N], data, y, ids)), clone(model).fit(data, y, units=IDS))


def test_rows_of_a_unit_in_two_parts_are_refused_before_the_charge():
    model, y = MODELS["softmax"]
    ledger = dpopt.Ledger(epsilon=9.0, delta=1e-2, unit="person")
    charged = clone(model).set_params(insecure_seed=None, budget=ledger)
    names = np.array([f"secret{i}" for i in IDS])
    parts = cut([700, N], X, y, names, AsTheyAre)
    with pytest.raises(PartitionFailed, match="rows of one unit are in several partitions") as raised:
        charged.fit(parts)
    assert "secret" not in str(raised.value) and ledger.spent == (0.0, 0.0)
    # the parts are free again, and what is divided by unit is not refused
    by_unit = np.argsort(IDS, kind="stable")
    border = int(np.searchsorted(IDS[by_unit], 150))
    there = cut([border, N], X[by_unit], y[by_unit], IDS[by_unit], AsTheyAre)
    assert same(clone(model).fit(there), clone(model).fit(X, y, units=IDS))


#: One id in each pair, read from columns of two types.
LARGE, MOMENT = 1234567890123456789, np.datetime64("2020-01-02")
TWO_TYPES = {
    "whole and float": ([LARGE], np.array([LARGE], np.float64)),
    "floats of two sizes": (np.array([0.1], np.float32), np.array([0.1], np.float32).astype(np.float64)),
    "truth and whole": (np.array([True]), np.array([1])),
    "ticks": (np.array([MOMENT], "datetime64[ns]"), np.array([MOMENT], "datetime64[us]")),
    "text and float": (np.array(["1e300"]), np.array([1e300])),
}


@pytest.mark.parametrize("name", TWO_TYPES)
def test_ids_of_two_types_are_refused_before_the_charge(name):
    model, _ = MODELS["softmax"]
    ledger = dpopt.Ledger(epsilon=9.0, delta=1e-2, unit="person")
    charged = clone(model).set_params(insecure_seed=None, budget=ledger)
    first, second = (list(ids) * 300 if isinstance(ids, list) else np.repeat(ids, 300) for ids in TWO_TYPES[name])
    blocks = [(X[:300], CLASSES[:300], first), (X[300:600], CLASSES[300:600], second)]
    with pytest.raises(PartitionFailed, match="do not have the same type in all partitions") as raised:
        charged.fit(AsTheyAre(blocks, units="person"))
    assert str(LARGE) not in str(raised.value) and ledger.spent == (0.0, 0.0)
    # who is in both is noticed where the types are the same
    blocks[1] = (*blocks[1][:2], first)
    with pytest.raises(PartitionFailed, match="several partitions"):
        charged.fit(AsTheyAre(blocks, units="person"))


def test_ids_of_one_kind_are_one_however_their_columns_hold_them():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    model, y = MODELS["softmax"]
    whole = clone(model).fit(X, y, units=IDS)
    by_unit = np.argsort(IDS, kind="stable")
    border = int(np.searchsorted(IDS[by_unit], 150))
    first, second = IDS[by_unit][:border], IDS[by_unit][border:]
    for ids in (
        (first.astype(np.uint64), second.tolist()),
        (pd.Series(first, dtype="Int64"), pd.Series(second.astype(np.int16))),
        (pa.array(first), pd.Series(second, dtype="category")),
        (first.astype(str), pd.Series(second.astype(str).astype(object))),
        (pa.chunked_array([first.astype(str)]), pd.Series(second.astype(str)).astype("category")),
        (first.astype(np.float64), pd.Series(second, dtype="Float64")),
    ):
        ends = [slice(None, border), slice(border, None)]
        blocks = [(X[by_unit][end], y[by_unit][end], own) for end, own in zip(ends, ids)]
        # a part where nobody has an id may have ids of any type
        blocks.append((X[:2], y[:2], [None, np.nan]))
        assert same(clone(model).fit(AsTheyAre(blocks, units="person")), whole)


def test_ids_that_are_neither_text_nor_numbers_are_refused_in_parts():
    import datetime
    import decimal
    import uuid

    pa = pytest.importorskip("pyarrow")
    model, y = MODELS["softmax"]
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(i)) for i in IDS]
    cents = [decimal.Decimal(int(i)) / 100 for i in IDS]
    for ids in (
        [uuid.UUID(int=int(i)) for i in IDS],
        days,
        [(int(i),) for i in IDS],
        cents,
        pa.array(cents, pa.decimal128(10, 2)),
        [*IDS[:-1].tolist(), "a text"],
    ):
        for kind in (Here, AsTheyAre):
            with pytest.raises(PartitionFailed, match="neither text nor numbers") as raised:
                clone(model).fit(kind([(X, y, ids)], units="person"))
            assert raised.value.__cause__ is None
    # those of a column of days are numbers, and so are whole decimals
    whole = clone(model).fit(X, y, units=IDS)
    for ids in (pa.array(days), pa.array(IDS.tolist(), pa.decimal128(10, 0)), [decimal.Decimal(int(i)) for i in IDS]):
        assert same(clone(model).fit(AsTheyAre([(X, y, ids)], units="person")), whole)


def test_a_part_that_hides_its_units_is_refused():
    class Hiding(Here):
        def load_partitions(self, recipe):
            return [(records, digest, rows, b"") for records, digest, rows, _ in super().load_partitions(recipe)]

    model, y = MODELS["softmax"]
    with pytest.raises(PartitionFailed, match="several partitions"):
        clone(model).fit(cut([700, N], X, y, IDS, Hiding))


def test_what_needs_single_rows_or_secret_coins_is_refused():
    model, y = MODELS["softmax"]
    for options in ({"unit": dpopt.Unit(max_rows=3)}, {"unit": dpopt.Unit(max_rows=3, clipping="row")}):
        with pytest.raises(ValueError, match="secret choice"):
            clone(model).set_params(**options).fit(cut([N], X, y, IDS))
    ridge = dpopt.Ridge(target_bounds=(-1, 1), method="sufficient-statistics", **COMMON)
    with pytest.raises(dpopt.PrivacyError, match="clips row by row"):
        ridge.fit(cut([N], X, NUMBERS, IDS))
    with pytest.raises(ValueError, match="units= where the partitions are made"):
        clone(model).fit(Here([(X, y)]), units=IDS)
    with pytest.raises(ValueError, match="target_bounds"):
        dpopt.LinearRegression(**COMMON).fit(cut([N], X, NUMBERS, IDS))
    with pytest.raises(ValueError, match="triples"):
        Here([(X, y)], units="person")
    with pytest.raises(ValueError, match="pairs"):
        Here([(X, y, IDS)])


def test_numbers_of_units_are_those_of_one_process():
    model, y = MODELS["softmax"]
    more = clone(model).set_params(unit__count=500)
    assert same(clone(more).fit(cut([700, N], X, y, IDS)), clone(more).fit(X, y, units=IDS))
    with pytest.raises(ValueError, match="more ids than that"):
        clone(model).set_params(unit__count=100).fit(cut([700, N], X, y, IDS))
    guess = clone(model).set_params(neighbors="add-or-remove", unit__count=430, n_rows=1400)
    assert same(clone(guess).fit(cut([700, N], X, y, IDS)), clone(guess).fit(X, y, units=IDS))
    plan = clone(model).set_params(unit__count=450).explain(cut([N], X, y, IDS), n_rows=N, n_classes=3)
    assert plan.n_units == 450 and plan.method == "noisy-gradient-descent"


def test_the_key_of_units_is_shown_nowhere_and_moves_with_the_recipe():
    persons = Persons.called("person")
    recipe = Recipe(MODELS["softmax"][0], 4, False, persons)
    assert persons.key.hex() not in repr(recipe) + repr(persons) and str(persons.key) not in repr(recipe) + repr(
        persons
    )
    moved = pickle.loads(pickle.dumps(recipe))
    shard = moved(X, CLASSES, 0, IDS)
    again = pickle.loads(pickle.dumps(shard))
    assert again.known == shard.known == recipe(X, CLASSES, 0, IDS).known
    records, _, rows, marks = shard.known
    assert (records, rows, len(marks)) == (len(np.unique(IDS)), N, 16 * (1 + records)) and marks[
        :16
    ].strip() == b"whole"
    # another key, other marks
    other = Recipe(MODELS["softmax"][0], 4, False, Persons.called("person"))(X, CLASSES, 0, IDS)
    assert other.known[:3] == shard.known[:3] and other.known[3] != marks
