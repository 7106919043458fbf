"""Means, single releases and Flower clients by unit: what a person with many rows can move, and that one row each is what rows give."""

import subprocess
import warnings

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp
from dpopt import mechanisms
from dpopt._by_unit import UnitMeans
from dpopt.flower import PrivateClient
from test_tables import command_line

pd = pytest.importorskip("pandas")

UNITS = 30
#: Person 0 has 40 rows, the others have 1 to 4, in any order.
ORDER = np.random.default_rng(9).permutation(40 + sum(1 + u % 4 for u in range(1, UNITS)))
IDS = np.concatenate([np.zeros(40, dtype=int), np.repeat(np.arange(1, UNITS), 1 + np.arange(1, UNITS) % 4)])[ORDER]
OWN = IDS == 0
ROWS = len(IDS)
SEEDED = {"insecure_seed": 3, "units": IDS}
BOTH = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        yield


def rows(own):
    """Those of the others are long and agree, so that a loss of one of them would be seen."""
    X = np.full((ROWS, 2), 5.0)
    X[OWN] = own
    return X


HOSTILE = {
    "rows that agree": np.full((40, 2), 1e6),
    "rows that agree on nothing": np.where(np.arange(40)[:, None] % 2 == [0, 1], 1e9, -1e3),
    "one row of many": np.where(np.arange(40)[:, None] == 3, 1e300, 0.0),
    "infinite": np.where(np.arange(40)[:, None] == 5, np.inf, 1.0),
    "no numbers": np.full((40, 2), np.nan),
    "sums beyond doubles": np.full((40, 2), 1.7e308),
}

#: A release of a table by unit as numbers, with the most that a unit may move it by in the l2 norm (l1 for Laplace noise).
SUMS = {
    "gaussian_sum": (lambda X, **k: mechanisms.gaussian_sum(X, 2.0, **BOTH, **SEEDED, **k).value, 2, 2.0),
    "laplace_sum": (lambda X, **k: mechanisms.laplace_sum(X, 2.0, epsilon=1.0, **SEEDED, **k).value, 1, 2.0),
    "second_moment": (lambda X, **k: mechanisms.second_moment(X, 2.0, **BOTH, **SEEDED, **k).value, 2, 4.0),
    "MeanEstimator": (
        lambda X, unit=None: dpopt.MeanEstimator(**BOTH, row_norm=2.0, insecure_seed=3, unit=unit).fit(X, units=IDS).mean_ * UNITS, 2, 2.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("release", SUMS)
def test_a_unit_moves_a_sum_by_its_bound_whatever_its_rows(release, name):
    run, norm, bound = SUMS[release]
    for most in (None, 1, 3, 100):
        nothing = run(rows(0.0), unit=dpopt.Unit(max_rows=most))
        moved = np.linalg.norm((run(rows(HOSTILE[name]), unit=dpopt.Unit(max_rows=most)) - nothing).ravel(), norm)
        assert moved <= bound * (1 + 1e-6), most
        if name == "rows that agree":
            assert moved >= 0.98 * bound


def test_every_row_a_unit_is_what_rows_give():
    X = np.random.default_rng(1).uniform(-1, 1, (600, 2))
    labels, ids = np.where(X[:, 0] > 0, "a", "b"), np.arange(600)
    seeded = {"insecure_seed": 4}
    for release in (
        lambda **u: mechanisms.gaussian_sum(X, 1.0, **BOTH, **seeded, **u),
        lambda **u: mechanisms.laplace_sum(X, 1.0, epsilon=1.0, **seeded, **u),
        lambda **u: mechanisms.histogram(labels, ["a", "b"], epsilon=1.0, **seeded, **u),
        lambda **u: mechanisms.quantiles(X[:, 0], [0.5, 0.1], epsilon=1.0, **seeded, **u),
        lambda **u: mechanisms.private_bounds(X, epsilon=30.0, **seeded, **u),
        lambda **u: mechanisms.frequent_labels(labels, epsilon=5.0, delta=1e-3, **seeded, **u),
        lambda **u: mechanisms.sparse_mean(X, 2, **BOTH, **seeded, **u),
    ):
        of_rows, of_units = release(), release(units=ids)
        assert np.array_equal(np.asarray(of_rows), np.asarray(of_units))
        assert (of_rows.event, of_rows.bound) == (of_units.event, of_units.bound)
        assert (of_rows.unit, of_units.unit) == ("record", "user") and "privacy per user" in of_units._repr_html_()
    # rows are rounded to 2^-21 of their norm before they are squared, and shortened by two such steps where they are at it; means of squares are not
    moments = [np.asarray(mechanisms.second_moment(X, 1.0, **BOTH, **seeded, **u)) for u in ({}, {"units": ids})]
    assert np.abs(moments[0] - moments[1]).max() <= 600 * 6 * 2.0**-21
    for release in (
        lambda **u: mechanisms.discrete_laplace_counts([3, 4], epsilon=1.0, **seeded, **u),
        lambda **u: mechanisms.discrete_gaussian_counts([3, 4], **BOTH, **seeded, **u),
        lambda **u: mechanisms.choose([3, 400], epsilon=1.0, **seeded, **u),
    ):
        assert release().value == release(units="person").value and release(units=" person ").unit == "person"
        with pytest.raises(dpopt.PrivacyError, match="has no rows that ids could belong to"):
            release(units=ids)
    means = [dpopt.MeanEstimator(**BOTH, bounds=(-1, 1), insecure_seed=4).fit(X, units=u) for u in (None, ids)]
    assert np.array_equal(means[0].mean_, means[1].mean_) and means[0].plan_.event == means[1].plan_.event


def test_what_of_a_units_rows_counts():
    """By much budget: the sum, the mean, at most so many, one of each."""
    much = {"epsilon": 400.0, "units": IDS, "insecure_seed": 2}
    X = np.random.default_rng(2).uniform(0.1, 0.9, (ROWS, 2))
    means = np.array([X[u == IDS].mean(0) for u in range(UNITS)])
    small = {"delta": 1e-3, **much}
    total = mechanisms.gaussian_sum(X, 100.0, **small).value
    np.testing.assert_allclose(total, X.sum(0), rtol=0, atol=15)
    one_each = mechanisms.gaussian_sum(X, 100.0, **small, unit=dpopt.Unit(max_rows=1)).value
    assert (one_each < total - 20).all()
    moment = np.mean([(X[u == IDS][:, :, None] * X[u == IDS][:, None]).mean(0) for u in range(UNITS)], axis=0)
    np.testing.assert_allclose(mechanisms.second_moment(X, 2.0, **small).value / UNITS, moment, rtol=0, atol=0.05)
    mean = dpopt.MeanEstimator(epsilon=400.0, delta=1e-3, bounds=(0, 1), insecure_seed=2).fit(X, units=IDS).mean_
    np.testing.assert_allclose(mean, means.mean(0), rtol=0, atol=0.02)
    sparse = np.asarray(mechanisms.sparse_mean(X, 2, norm=2.0, **small))
    np.testing.assert_allclose(sparse, means.mean(0), rtol=0, atol=0.05)
    labels = np.where(OWN, "zoe", "a")
    counted = lambda k: mechanisms.histogram(labels, ["zoe", "a"], **much, unit=dpopt.Unit(max_rows=k)).value  # noqa: E731
    for most, expected in ((None, [1, UNITS - 1]), (3, [3, sum(min(3, 1 + u % 4) for u in range(1, UNITS))])):
        assert np.abs(np.array(counted(most)) - expected).max() <= 1
    # one person's forty rows are one of thirty
    assert mechanisms.quantiles(np.where(OWN, 1000.0, np.linspace(1, 2, ROWS)), [0.5], **much).value[0] < 2
    crowd = np.concatenate([np.zeros(4000, dtype=int), np.arange(1, 300)])
    names = np.where(crowd == 0, "zoe", np.where(crowd % 2, "a", "b"))
    both = {"epsilon": 5.0, "delta": 1e-3, "insecure_seed": 1}
    assert mechanisms.frequent_labels(names, **both).value == ["a", "b", "zoe"]
    assert mechanisms.frequent_labels(names, **both, units=crowd).value == ["a", "b"]
    wide = np.where(crowd == 0, 1e6, np.linspace(1, 2, len(crowd)))
    assert mechanisms.private_bounds(wide, epsilon=30.0, insecure_seed=1, units=crowd).value[1][0] < 1e3


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-or-remove"])
def test_events_are_those_of_the_noise_and_a_ledger_pays_for_people(relation, tmp_path):
    ledger = dpopt.Ledger(12.0, 1e-2, relation=relation, unit="user", path=tmp_path / "a.ledger")
    count = 25 if relation == "add-or-remove" else None
    given = {"units": IDS, "relation": relation, "unit": dpopt.Unit(count=count)}
    five = {**given, "unit": dpopt.Unit(max_rows=5, count=count)}
    release = mechanisms.histogram(["a"] * ROWS, ["a", "b"], epsilon=1.0, ledger=ledger, **five)
    # five rows of one person move counts by five, by ten if they may say another thing
    moves = 10 if relation == "replace-one" else 5
    assert release.event.sensitivity == 5 and release.event.noise_parameter == pytest.approx(1 / moves, rel=1e-9)
    assert release.bound <= 1.0
    mechanisms.gaussian_sum(rows(1.0), 1.0, **BOTH, **given, ledger=ledger)
    dpopt.MeanEstimator(
        epsilon=1.0,
        delta=1e-4,
        bounds=(0, 9),
        neighbors=relation,
        budget=ledger,
        unit=given["unit"],
    ).fit(rows(1.0), units=IDS)
    assert [e.epsilon for e in ledger.entries] == [1.0, 1.0, 1.0]
    of_rows = dpopt.Ledger(12.0, 1e-2, relation=relation)
    with pytest.raises(ValueError, match="protects a record and this charge is per 'user'"):
        mechanisms.gaussian_sum(rows(1.0), 1.0, **BOTH, **given, ledger=of_rows)
    with pytest.raises(ValueError, match="protects a record and this charge is per 'user'"):
        dpopt.MeanEstimator(epsilon=1.0, bounds=(0, 9), neighbors=relation, budget=of_rows).fit(rows(1.0), units=IDS)
    assert of_rows.entries == ()
    if relation == "add-or-remove":
        with pytest.raises(
            ValueError, match="number of units is protected; give a public guess of units as unit=dpopt.Unit"
        ):
            mechanisms.gaussian_sum(rows(1.0), 1.0, **BOTH, **{**given, "unit": dpopt.Unit(count=None)})


def test_sparse_means_are_the_command_lines(tmp_path):
    X = pd.DataFrame(np.random.default_rng(3).uniform(-0.6, 0.6, (ROWS, 3)), columns=list("abc")).assign(person=IDS)
    X.to_csv(tmp_path / "visits.csv", index=False)
    for most in (None, 2):
        bound = [] if most is None else ["--max-rows-per-unit", str(most)]
        done = subprocess.run(
            [command_line(), "mean", tmp_path / "visits.csv", "--unit", "person", "--sparsity", "3", "--epsilon", "5", "--delta", "1e-4",
             "--insecure-seed", "7", "-o", "-", *bound],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        given = {"epsilon": 5.0, "delta": 1e-4, "insecure_seed": 7, "unit": dpopt.Unit(max_rows=most)}
        found = mechanisms.sparse_mean(X, 3, units="person", **given)
        expected = [line.split(",") for line in done.stdout.splitlines() if line[:1].isdigit()]
        assert dict(zip(found.value.indices.tolist(), found.value.data.tolist())) == {
            int(j): float(v) for j, v in expected
        }
        assert len(expected) > 0 and found.unit == "person"
        assert "certified" not in done.stdout


def test_means_of_people_are_reported_as_such():
    X = pd.DataFrame(rows(1.0), columns=["a", "b"]).assign(person=IDS)
    mean = dpopt.MeanEstimator(epsilon=2.0, delta=1e-4, bounds=(0, 9), unit=dpopt.Unit(max_rows=3))
    plan = mean.explain(X, units="person")
    promised = str(mean.fit(X, units="person").privacy_)
    # the digits of a noisy mean below hold this number or not: secret ones do once in a while
    mean.set_params(insecure_seed=1).fit(X, units="person")
    assert (plan.event, plan.n_units, plan.noise_std) == (mean.plan_.event, UNITS, mean.plan_.noise_std)
    assert promised.endswith("privacy per person, zero-out") and mean.n_features_in_ == 2
    assert str(plan).startswith("30 units") and "per person" in mean.report()
    explained = dpopt.MeanEstimator(epsilon=2.0, delta=1e-4, bounds=(0, 9), unit=dpopt.Unit(count=UNITS)).explain(
        ROWS, 2, units="person"
    )
    assert explained.event == plan.event
    # how many rows they have is nobody's business
    assert str(ROWS) not in repr(mean.plan_) + mean.report()
    with pytest.raises(ValueError, match="the number of rows has no effect"):
        dpopt.MeanEstimator(bounds=(0, 9), n_rows=ROWS).fit(X, units="person")
    with pytest.raises(ValueError, match="unit is given and units= is not"):
        dpopt.MeanEstimator(bounds=(0, 9), unit=dpopt.Unit(max_rows=3)).fit(X[["a", "b"]])


def test_wrong_ids_and_bounds_are_errors_that_show_none():
    secret = [f"s3cret{i}" for i in IDS]
    X = rows(1.0)
    for units, kind, message in [
        (secret[:-1], ValueError, f"units has {ROWS - 1} ids and X has {ROWS} rows"),
        ([*secret[:-1], ["s3cret"]], TypeError, f"the id in row {ROWS - 1} of units is a sequence"),
        (set(secret), TypeError, "units is of type set"),
        ("s3cret", TypeError, "units is text, and X is"),
        ([None] * ROWS, ValueError, "0 units: no id can be read"),
    ]:
        for release in (
            lambda units: mechanisms.gaussian_sum(X, 1.0, **BOTH, units=units),
            lambda units: mechanisms.histogram(X[:, 0], [5.0, 1.0], epsilon=1.0, units=units),
            lambda units: mechanisms.frequent_labels(X[:, 0], **BOTH, units=units),
            lambda units: dpopt.MeanEstimator(bounds=(0, 9)).fit(X, units=units),
        ):
            with pytest.raises(kind, match=message) as caught:
                release(units)
            assert "s3cret" not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(ValueError, match="the number of rows has no effect"):
        mechanisms.gaussian_sum(X, 1.0, **BOTH, units=IDS, n_rows=ROWS)
    for name in ("count", "max_rows"):
        with pytest.raises(ValueError, match="unit is given and units= is not"):
            mechanisms.gaussian_sum(X, 1.0, **BOTH, unit=dpopt.Unit(**{name: 3}))
        with pytest.raises(ValueError, match=f"{name} of unit is 0; give a whole number"):
            mechanisms.gaussian_sum(X, 1.0, **BOTH, units=IDS, unit=dpopt.Unit(**{name: 0}))
    with pytest.raises(ValueError, match="unit says max_rows .3., and one row of each unit is looked at; leave it out"):
        mechanisms.quantiles(X[:, 0], [0.5], epsilon=1.0, units=IDS, unit=dpopt.Unit(max_rows=3))
    with pytest.raises(ValueError, match="unit says clipping .'row'., and what is clipped"):
        mechanisms.gaussian_sum(X, 1.0, **BOTH, units=IDS, unit=dpopt.Unit(clipping="row"))
    with pytest.raises(TypeError, match=r"gaussian_sum has no parameter 'n_units'; write unit=dpopt.Unit\(count=...\)"):
        mechanisms.gaussian_sum(X, 1.0, **BOTH, units=IDS, n_units=3)


def test_places_without_rows_count_as_nothing():
    X = np.full((60, 1), 0.5)
    ids = np.arange(60) % 20
    much = {"epsilon": 400.0, "delta": 1e-3, "insecure_seed": 2}
    assert mechanisms.gaussian_sum(X, 2.0, units=ids, **much, unit=dpopt.Unit(count=50)).value[0] == pytest.approx(
        30, abs=1
    )
    mean = dpopt.MeanEstimator(bounds=(0, 1), **much, unit=dpopt.Unit(count=50)).fit(X + 0.5, units=ids)
    # twenty at 1, thirty at the middle
    assert mean.mean_[0] == pytest.approx(0.7, abs=0.02)
    spread = np.linspace(1, 3, 60)
    middle = mechanisms.quantiles(
        spread, [0.5], units=ids, epsilon=400.0, insecure_seed=1, unit=dpopt.Unit(count=50)
    ).value[0]
    assert middle == pytest.approx(2, abs=0.5)


@pytest.mark.parametrize("part", [1, 2, 5, 100])
def test_means_of_units_that_come_in_parts(part):
    counts = np.array([3, 0, 1, 7, 1, 2])
    block = np.random.default_rng(1).normal(size=(14, 4))
    block[4] = np.inf
    expected = [piece.mean(0) for piece in np.split(block, np.cumsum(counts)[:-1]) if len(piece)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        means, out = UnitMeans(counts), []
        for start in range(0, 14, part):
            assert not means.complete
            first, second = means.of([block[start : start + part], -block[start : start + part, :2]])
            np.testing.assert_array_equal(second, -first[:, :2])
            out.append(first)
    assert means.complete
    np.testing.assert_allclose(np.concatenate(out), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="more per-sample gradients than rows of units"):
        means.of([block[:1]])


def client(X, y, **more):
    given = {
        "epsilon": 40.0,
        "delta": 1e-4,
        "rounds": 1,
        "sampling_probability": 1.0,
        "learning_rate": 1.0,
        "insecure_seed": 6,
        **more,
    }
    made = PrivateClient(X, y, **given)
    weights, number, _ = made.fit([np.array([0.3, -0.2])], {})
    return weights[0] * number, number, made


def test_a_client_protects_people_with_many_records():
    y = np.where(np.arange(ROWS) % 2, 1.0, -1.0)
    bounded = {"units": IDS, "unit": dpopt.Unit(max_rows=100), "clip_norm": 0.2}
    nothing, number, _ = client(rows(0.0), y, **bounded)
    assert number == UNITS
    for name, own in HOSTILE.items():
        for most in (1, 3, 100):
            base = nothing if most == 100 else client(rows(0.0), y, **{**bounded, "unit": dpopt.Unit(max_rows=most)})[0]
            moved, _, made = client(rows(own), y, **{**bounded, "unit": dpopt.Unit(max_rows=most)})
            assert np.linalg.norm(moved - base) <= 0.2 * (1 + 1e-6), (name, most)
    assert (made.privacy_.unit, made.privacy_.epsilon <= 40.0) == ("user", True)
    X = np.random.default_rng(1).uniform(-0.7, 0.7, (200, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    sampled = {"sampling_probability": 0.2, "rounds": 1, "local_steps": 4}
    of_rows, _, rowwise = client(X, y, **sampled)
    of_units, _, unitwise = client(X, y, **sampled, units=np.arange(200), unit=dpopt.Unit(max_rows=1))
    assert np.array_equal(of_rows, of_units) and rowwise.event == unitwise.event
    with pytest.raises(ValueError, match=r"give unit=dpopt.Unit\(max_rows"):
        client(X, y, units=np.arange(200))
    with pytest.raises(ValueError, match="unit is given and units= is not"):
        client(X, y, unit=dpopt.Unit(max_rows=2))
    with pytest.raises(ValueError, match="units has 199 ids"):
        client(X, y, units=np.arange(199), unit=dpopt.Unit(max_rows=1))


def test_sparse_rows_of_people():
    X = sp.csr_array(np.eye(ROWS)[:, :50])
    mean = mechanisms.sparse_mean(X, 1, epsilon=5.0, delta=1e-4, units=IDS, insecure_seed=1)
    assert mean.value.shape == (1, 50) and mean.unit == "user"


@pytest.mark.parametrize("whose", [{"n_rows": 10}, {"units": np.arange(100_000), "unit": dpopt.Unit(count=10)}])
def test_second_moments_have_room_for_more_rows_than_a_guess_says(whose):
    X = np.full((100_000, 1), 0.9)
    found = np.asarray(mechanisms.second_moment(X, 1.0, relation="add-or-remove", insecure_seed=1, **BOTH, **whose))
    assert abs(found[0, 0] - 81_000) < 100
