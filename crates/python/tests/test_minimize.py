"""Objectives of one's own: what is found, what is promised, what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp

#: Calls of an objective on made-up records, before the first one on records.
TRIED = 29
CENTRE = np.array([1.0, -2.0, 0.5])


def points(n: int = 3000) -> np.ndarray:
    return np.random.default_rng(0).normal(CENTRE, 0.1, (n, 3))


def gradients(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return x - a


def values(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    return 0.5 * ((x - a) ** 2).sum(axis=1)


def derivatives(x: np.ndarray, directions: np.ndarray, a: np.ndarray) -> np.ndarray:
    return (x - a) @ directions.T


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("auto", {}),
        ("noisy-gradient-descent", {}),
        ("dp-adam", {}),
        ("dp-ftrl", {}),
        ("accelerated", {"smoothness": 1.0, "strong_convexity": 1.0}),
        ("accelerated-srgd", {"smoothness": 1.0}),
        ("spider", {"smoothness": 1.0, "initial_gap": 2.7, "steps": 200}),
    ],
)
def test_every_method_finds_the_minimiser_within_its_budget(method: str, options: dict) -> None:
    found = dpopt.minimize(
        gradients,
        points(),
        np.zeros(3),
        epsilon=1.0,
        delta=1e-6,
        method=method,
        distance=3.0,
        insecure_seed=4,
        **options,
    )
    # the start is 2.3 away; over all steps the noise is that of about one release, 4√3/3000 = .002 times a few
    assert np.linalg.norm(found.x - CENTRE) < 0.15
    assert found.privacy_.epsilon <= 1.0 and found.privacy_.insecure_seed
    assert found.plan_.method == ("dp-adam" if method == "auto" else method)


@pytest.mark.parametrize(("gives", "objective"), [("values", values), ("derivatives", derivatives)])
def test_an_objective_without_gradients(gives: str, objective: object) -> None:
    found = dpopt.minimize(
        objective, points(), np.zeros(3), epsilon=1.0, delta=1e-6, gives=gives, distance=3.0, passes=50, insecure_seed=4
    )
    assert found.plan_.method == "zeroth-order"
    assert np.linalg.norm(found.x - CENTRE) < 0.25


def test_a_method_with_options_is_the_same_as_options_beside_its_name() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "insecure_seed": 4}
    method = dpopt.methods.NoisySGD(steps=30, clip_norm=2.0)
    found = dpopt.minimize(gradients, points(), np.zeros(3), method=method, **asked)
    named = dpopt.minimize(gradients, points(), np.zeros(3), method="noisy-sgd", steps=30, clip_norm=2.0, **asked)
    assert np.array_equal(found.x, named.x) and found.plan_.method == "noisy-sgd"
    # options of minimize's own methods stand beside it
    plan = dpopt.plan_minimize(3000, 3, epsilon=1.0, delta=1e-6, method=dpopt.methods.Auto(clip_norm=2.0), passes=2)
    assert plan.method == "dp-adam" and plan.schedule["clip_norm"] == 2.0
    for wrong, more, why in (
        (method, {"steps": 3}, "steps is given twice"),
        (None, {}, 'method is None; give "auto"'),
        (dpopt.methods.NoisyNewton, {}, "method is of type"),
    ):
        with pytest.raises(TypeError, match=why):
            dpopt.minimize(gradients, points(), np.zeros(3), method=wrong, **more, **asked)
    with pytest.raises(TypeError, match=r"minimize has no parameter 'n_units'; write unit=dpopt.Unit\(count=...\)"):
        dpopt.minimize(gradients, points(), np.zeros(3), n_units=3, **asked)
    with pytest.raises(ValueError, match="noisy-newton"):
        dpopt.plan_minimize(3000, 3, epsilon=1.0, delta=1e-6, method=dpopt.methods.NoisyNewton(steps=3))


def test_a_plan_needs_public_numbers_only_and_is_what_is_run() -> None:
    plan = dpopt.plan_minimize(3000, 3, epsilon=1.0, delta=1e-6, distance=3.0)
    found = dpopt.minimize(gradients, points(), np.zeros(3), epsilon=1.0, delta=1e-6, distance=3.0, insecure_seed=1)
    assert plan.schedule == found.plan_.schedule
    assert plan.event == found.plan_.event
    # the ε is recomputed from the event by the accountant of everything else
    assert float(dpopt.accounting.epsilon(plan.event, 1e-6)) <= 1.0
    # a plan counts on the trial, and a run tells what was tried
    assert any("tested on synthetic records" in text for text in plan.chosen["assumptions"])
    assert plan.chosen["grade"] == found.plan_.chosen["grade"] == found.privacy_.grade == "checked"
    assert "one at a time against batches of 7 and 12" in str(found.privacy_) and found.privacy_.evidence


def test_the_size_of_parts_and_the_type_of_numbers_change_nothing_that_matters() -> None:
    run = lambda f, **more: (
        dpopt.minimize(  # noqa: E731
            f, points(500), np.zeros(3), epsilon=1.0, delta=1e-6, steps=20, insecure_seed=9, **more
        ).x
    )
    assert (run(gradients) == run(gradients, batch_records=7)).all()
    # f32 is added up where it lies: the same up to its own rounding
    single = run(lambda x, a: (x - a).astype(np.float32))
    assert np.allclose(single, run(gradients), atol=1e-4)


def test_parameters_may_be_a_tree_and_records_several_arrays() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 2))
    y = X @ [1.0, -1.0] + 0.5

    def of_model(model: dict, rows: np.ndarray, targets: np.ndarray) -> dict:
        r = rows @ model["weights"] + model["bias"][0] - targets
        return {"weights": r[:, None] * rows, "bias": r[:, None]}

    start = {"weights": np.zeros(2), "bias": np.zeros(1)}
    found = dpopt.minimize(of_model, (X, y), start, epsilon=2.0, delta=1e-6, distance=2.0, insecure_seed=3)
    assert set(found.x) == {"weights", "bias"} and found.x["weights"].shape == (2,)
    assert np.allclose(found.x["weights"], [1, -1], atol=0.1) and abs(found.x["bias"][0] - 0.5) < 0.1
    # sparse rows are indexed as they are
    sparse = lambda x, a: x - a.toarray()  # noqa: E731
    x = dpopt.minimize(sparse, sp.csr_matrix(points(500)), np.zeros(3), epsilon=1.0, steps=5, insecure_seed=3).x
    assert np.isfinite(x).all()


def test_a_wild_record_moves_the_sum_by_the_clip_norm() -> None:
    calm = np.zeros((400, 1))
    wild = calm.copy()
    wild[17] = 1e30
    odd = calm.copy()
    odd[17] = np.nan
    one = {"method": "noisy-gradient-descent", "steps": 1, "learning_rate": 1.0, "momentum": 0.0}
    run = lambda a: dpopt.minimize(gradients, a, np.zeros(1), epsilon=1.0, delta=1e-6, insecure_seed=5, **one).x[0]  # noqa: E731
    assert 0.99 / 400 < abs(run(wild) - run(calm)) <= 1.0 / 400
    assert run(odd) == run(calm), "what is no number counts as nothing"


def by_unit(n: int = 300, each: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Records of n units, their ids in another order; the first unit has forty, all of them far off."""
    rng = np.random.default_rng(7)
    ids = np.concatenate([np.repeat(np.arange(1, n), each), np.zeros(40, int)])
    a = np.vstack([rng.normal(CENTRE, 0.1, (len(ids) - 40, 3)), np.full((40, 3), 1e3)])
    order = rng.permutation(len(ids))
    return a[order], ids[order]


@pytest.mark.parametrize("gives", ["gradients", "values", "derivatives"])
def test_a_unit_gives_the_mean_of_its_records(gives: str) -> None:
    a, ids = by_unit()
    functions = {"gradients": gradients, "values": values, "derivatives": derivatives}[gives]
    asked = {
        "epsilon": 1.0, "delta": 1e-6, "gives": gives, "steps": 4, "clip_norm": 2.0, "distance": 3.0, "insecure_seed": 5,
        **({"method": "noisy-gradient-descent"} if gives == "gradients" else {"directions": 3}),
    }  # fmt: skip
    found = dpopt.minimize(functions, a, np.zeros(3), units={"person": ids}, **asked, unit=dpopt.Unit(max_rows=50))
    assert "person" in str(found.privacy_)
    assert found.plan_.n_units == 300
    assert "person" in found.report() and "300 units" in found.report()
    # all rows of each are used: the same as with one record that is their mean, which has the same derivatives but for a constant of the values
    means = np.array([a[ids == unit].mean(axis=0) for unit in dict.fromkeys(ids)])
    once = dpopt.minimize(functions, means, np.zeros(3), **asked)
    assert np.allclose(found.x, once.x, rtol=1e-6, atol=1e-6)
    # in parts of a few records
    parts = dpopt.minimize(
        functions, a, np.zeros(3), units={"person": ids}, batch_records=101, **asked, unit=dpopt.Unit(max_rows=50)
    )
    assert np.allclose(found.x, parts.x, rtol=1e-9, atol=1e-9)


def test_a_unit_moves_the_sum_by_one_clip_however_many_records_it_has() -> None:
    a, ids = by_unit()
    gone = np.where(ids == 0, np.nan, ids.astype(float))
    calm = np.where(ids[:, None] == 0, CENTRE, a)
    one = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "insecure_seed": 5,
        "method": dpopt.methods.NoisyGradientDescent(steps=1, learning_rate=1.0, momentum=0.0),
        "unit": dpopt.Unit(max_rows=50, count=300),
    }
    run = lambda a, ids: dpopt.minimize(gradients, a, CENTRE, units=ids, **one).x  # noqa: E731
    nothing, without, wild = run(calm, ids), run(a, gone), run(a, ids)
    assert np.allclose(nothing, without, atol=1e-9), "nobody's records count nowhere"
    assert 0.99 / 300 < np.linalg.norm(wild - without) <= 1.0 / 300
    native = dpopt.objectives.RobustRegression(3, scale=0.5)
    y = a @ CENTRE
    robust = lambda y: dpopt.minimize(native, (a, y), np.zeros(3), units=ids, **one).x  # noqa: E731
    assert 0 < np.linalg.norm(robust(np.where(ids == 0, 7.0, y)) - robust(y)) <= 2.0 / 300


def test_units_that_cannot_be_protected_are_refused_before_anything_is_read() -> None:
    a, ids = by_unit()

    def never(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        assert len(a) <= 12, "called with more than made-up records"
        return x - a

    asked = {"epsilon": 1.0, "delta": 1e-6}
    cases = [
        ({"units": ids}, "max_rows"),
        ({"unit": dpopt.Unit(max_rows=3)}, "units= is not"),
        ({"units": ids[1:], "unit": dpopt.Unit(max_rows=3)}, "one for each"),
        ({"units": ids, "n_records": 300, "unit": dpopt.Unit(max_rows=3)}, "count="),
        ({"units": ids, "neighbors": "add-or-remove", "unit": dpopt.Unit(max_rows=3)}, "count="),
        ({"units": ids, "method": "dp-ftrl", "unit": dpopt.Unit(max_rows=3)}, "secret assignment to batches"),
    ]
    for options, why in cases:
        with pytest.raises((ValueError, dpopt.PrivacyError), match=why):
            dpopt.minimize(never, a, np.zeros(3), **options, **asked)
    ledger = dpopt.Ledger(epsilon=2.0, delta=1e-5, unit="person")
    options = {"budget": ledger, **asked, "unit": dpopt.Unit(max_rows=3), "steps": 3}
    with pytest.raises(ValueError, match="person"):
        dpopt.minimize(never, a, np.zeros(3), units={"patient": ids}, **options)
    assert dpopt.minimize(gradients, a, np.zeros(3), units={"person": ids}, **options).privacy_.epsilon <= 1.0


def test_a_ledger_is_charged_before_a_record_is_read(tmp_path: Path) -> None:
    ledger = dpopt.Ledger(epsilon=1.0, delta=1e-5)
    dpopt.minimize(gradients, points(300), np.zeros(3), epsilon=0.6, delta=1e-6, steps=5, budget=ledger)
    calls = []

    def watched(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        calls.append(len(a))
        return x - a

    with pytest.raises(dpopt.BudgetExceeded):
        dpopt.minimize(watched, points(300), np.zeros(3), epsilon=0.6, delta=1e-6, steps=5, budget=ledger)
    # made-up records only
    assert len(calls) == TRIED and max(calls) <= 12
    with pytest.raises(ValueError, match="ledger"):
        dpopt.minimize(watched, points(300), np.zeros(3), epsilon=0.1, budget=ledger, insecure_seed=1)
    # what fails on made-up records costs nothing
    spent = ledger.spent if not callable(ledger.spent) else ledger.spent()

    def fails(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        raise RuntimeError("mine")

    with pytest.raises(ValueError, match="RuntimeError: mine.* give example="):
        dpopt.minimize(fails, points(300), np.zeros(3), epsilon=0.1, delta=1e-6, steps=2, budget=ledger)
    assert (ledger.spent if not callable(ledger.spent) else ledger.spent()) == spent


def test_the_number_of_records_is_protected_under_add_or_remove() -> None:
    with pytest.raises(ValueError, match="n_records"):
        dpopt.minimize(gradients, points(300), np.zeros(3), epsilon=1.0, neighbors="add-or-remove")
    asked = {"epsilon": 1.0, "delta": 1e-6, "neighbors": "add-or-remove", "n_records": 320, "steps": 5}
    schedules = [dpopt.minimize(gradients, points(n), np.zeros(3), **asked).plan_.schedule for n in (300, 301)]
    assert schedules[0] == schedules[1]


BAD = [
    ({"clip_nrom": 1.0}, "did you mean clip_norm"),
    ({"method": "dp-sgd"}, "no method `dp-sgd`"),
    ({"method": "accelerated"}, "smoothness"),
    ({"method": "accelerated-srgd"}, "smoothness"),
    ({"method": "spider", "initial_gap": 1.0}, "give smoothness"),
    ({"method": "spider", "smoothness": 1.0}, "as initial_gap"),
    ({"method": "spider", "learning_rate": 0.1}, "has no option learning_rate"),
    (
        {
            "method": "one-pass-spider",
            "smoothness": 1.0,
            "initial_gap": 1.0,
            "neighbors": "add-or-remove",
            "n_records": 300,
        },
        "would move all others",
    ),
    ({"method": "one-pass-spider", "smoothness": 1.0, "initial_gap": 1.0, "drift": 0.1}, "has no option drift"),
    ({"method": "o2nc", "learning_rate": 0.1}, "has no option learning_rate"),
    ({"method": "one-pass-o2nc", "neighbors": "add-or-remove", "n_records": 300}, "would move all others"),
    ({"goldstein_radius": 0.1}, "runs only by name"),
    ({"clip_norm": -1.0}, "positive"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"delta": 0.0}, "delta > 0"),
    ({"gives": "hessians"}, "gives"),
    ({"n_records": 5}, "leave it out"),
    ({"steps": 1 << 30}, "give fewer"),
    ({"distance": float("nan")}, "distance"),
]


@pytest.mark.parametrize(("changed", "says"), BAD, ids=[next(iter(c)) for c, _ in BAD])
def test_what_is_wrong_is_refused_and_nothing_is_read(changed: dict, says: str) -> None:
    def never(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        raise AssertionError("a record was read")

    with pytest.raises((ValueError, TypeError), match=says):
        dpopt.minimize(never, points(50), np.zeros(3), **{"epsilon": 1.0, "delta": 1e-6, **changed})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, a: (x - a)[1:],
        lambda x, a: (x - a)[:, :2],
        lambda x, a: (x - a).mean(axis=0),
        lambda x, a: np.array([["a"] * 3] * len(a)),
        lambda x, a: None,
    ],
)
def test_an_answer_of_another_shape_is_refused_without_numbers_of_the_batch(wrong: object) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        dpopt.minimize(wrong, points(200), np.zeros(3), epsilon=1.0, delta=1e-6, sampling_probability=0.3, steps=3)
    assert not any(str(n) in str(caught.value) for n in range(30, 100)), "the size of a batch is secret"


def test_mistakes_that_mix_records_are_found_on_records_that_are_not_sensitive() -> None:
    synthetic = np.random.default_rng(1).normal(size=(20, 3))
    dpopt.check_per_record(gradients, synthetic, np.zeros(3))
    dpopt.check_per_record(values, synthetic, np.zeros(3), gives="values")
    dpopt.check_per_record(derivatives, synthetic, np.zeros(3), gives="derivatives")
    state = []

    def counting(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        state.append(1)
        return (x - a) * len(state)

    for mixing, says in [
        (lambda x, a: (x - a) / len(a), "depends on other records"),
        (lambda x, a: (x - a) - (x - a).mean(axis=0), "depends on other records"),
        (lambda x, a: np.sort(x - a, axis=0), "depends on other records"),
        (counting, "two equal calls gave different results"),
    ]:
        with pytest.raises(ValueError, match=says):
            dpopt.check_per_record(mixing, synthetic, np.zeros(3))


def test_the_report_tells_the_guarantee_and_what_it_rests_on(tmp_path: Path) -> None:
    found = dpopt.minimize(gradients, points(500), np.zeros(3), epsilon=1.0, delta=1e-6, steps=5)
    html = found.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html
    for part in (
        "A private minimizer of the mean of gradients",
        "Checked, not proved",
        "tried on 15 made-up records",
        "dp-adam",
        "zero-out",
    ):
        assert part in html
    assert (pickle.loads(pickle.dumps(found)).x == found.x).all()


# objectives of the library


def test_a_native_objective_is_the_same_as_a_callable_of_the_same_loss() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (600, 2)).astype(np.float32)
    y = rng.poisson(np.exp(X @ [0.5, -0.5])).astype(np.float32)
    called = lambda x, rows, counts: (np.exp(rows.astype(float) @ x) - counts)[:, None] * rows.astype(float)  # noqa: E731
    asked = {"epsilon": 1.0, "delta": 1e-6, "steps": 30, "sampling_probability": 0.2, "insecure_seed": 6}
    native = dpopt.minimize(dpopt.objectives.PoissonRegression(2), (X, y), **asked)
    foreign = dpopt.minimize(called, (X, y), np.zeros(2), **asked)
    assert np.allclose(native.x, foreign.x, atol=1e-5)
    assert not any("assumed, not checked" in text for text in native.plan_.chosen["assumptions"])


def test_regressions_find_their_truth() -> None:
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (20_000, 2))
    truth = np.array([1.0, -0.5])
    asked = {"epsilon": 1.0, "delta": 1e-6, "distance": 2.0, "insecure_seed": 8}
    noisy = X @ truth + np.where(rng.uniform(size=len(X)) < 0.1, 50.0, 0.0)
    robust = dpopt.minimize(dpopt.objectives.RobustRegression(2, scale=0.5), (X, noisy), **asked)
    counts = rng.poisson(np.exp(X @ truth) * rng.gamma(2.0, 0.5, len(X)))
    spread = dpopt.minimize(dpopt.objectives.NegativeBinomialRegression(2, dispersion=0.5), (X, counts), **asked)
    phase = dpopt.objectives.PhaseRetrieval(2)
    found = dpopt.minimize(phase, (X, (X @ truth) ** 2), np.array([0.6, -0.1]), **asked)
    for answer in (robust, spread, found):
        assert np.linalg.norm(answer.x - truth) < 0.2, answer.x


def test_a_matrix_is_factorized() -> None:
    rng = np.random.default_rng(9)
    U, V = rng.normal(size=(30, 2)), rng.normal(size=(20, 2))
    cells = np.column_stack([rng.integers(30, size=30_000), rng.integers(20, size=30_000), np.zeros(30_000)])
    cells[:, 2] = (U[cells[:, 0].astype(int)] * V[cells[:, 1].astype(int)]).sum(axis=1)
    objective = dpopt.objectives.MatrixFactorization(30, 20, 2)
    found = dpopt.minimize(objective, cells, epsilon=4.0, delta=1e-6, distance=10.0, insecure_seed=2)
    left, right = objective.factors(found.x)
    product, true = left @ right.T, U @ V.T
    assert ((product - true) ** 2).mean() < 0.5 * (true**2).mean()


def test_a_net_and_then_a_descent_is_ahead_of_both() -> None:
    width = 0.12

    def losses(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return 1 - np.exp(-((x - a) ** 2).sum(axis=1) / (2 * width**2))

    def gradients(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return (np.exp(-((x - a) ** 2).sum(axis=1) / (2 * width**2)) / width**2)[:, None] * (x - a)

    random = np.random.default_rng(3)
    centres = np.array([[0.6, 0.5], [-0.5, 0.6], [-0.6, -0.4], [0.4, -0.6]])
    records = centres[random.choice(4, 2000, p=[0.4, 0.2, 0.2, 0.2])] + random.normal(0, 0.05, (2000, 2))
    values = {
        "gives": "values",
        "method": "net",
        "box_radius": 1.0,
        "clip_norm": 6.0,
        "loss_bound": 1.0,
        "points": 2500,
    }
    downhill = {"method": "noisy-gradient-descent", "clip_norm": 6.0}
    ledger = dpopt.Ledger(epsilon=1.0, delta=1e-6)

    def both(**more: object) -> np.ndarray:
        first = dpopt.minimize(losses, records, np.zeros(2), epsilon=0.25, delta=0.0, **values, **more)
        then = dpopt.minimize(gradients, records, first.x, epsilon=0.75, delta=1e-6, distance=0.1, **downhill, **more)
        return then.x

    net = dpopt.minimize(losses, records, np.zeros(2), epsilon=1.0, delta=0.0, insecure_seed=1, **values).x
    descent = dpopt.minimize(
        gradients, records, np.zeros(2), epsilon=1.0, delta=1e-6, distance=1.0, insecure_seed=1, **downhill
    ).x
    least = losses(centres[0], records).mean()
    found, alone, slid = ((losses(x, records).mean() - least) for x in (both(insecure_seed=1), net, descent))
    assert found < alone and found < slid
    # and both are within one budget, wherever they end with secret noise
    assert np.isfinite(both(budget=ledger)).all() and len(ledger.entries) == 2
    with pytest.raises(dpopt.BudgetExceeded):
        dpopt.minimize(losses, records, np.zeros(2), epsilon=0.1, delta=0.0, budget=ledger, **values)


def test_a_network_learns_digits() -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / 16
    train, test = np.arange(len(X)) % 5 > 0, np.arange(len(X)) % 5 == 0
    network = dpopt.objectives.Network(64, [32, 10])
    found = dpopt.minimize(network, (X[train], y[train]), epsilon=4.0, delta=1e-4, insecure_seed=1)
    # .93 on three random splits; chance is .1
    assert (network.predict(found.x, X[test]) == y[test]).mean() > 0.85
    assert pickle.loads(pickle.dumps(network)).dimension == network.dimension == found.x.size


def test_objectives_of_the_library_refuse_what_they_cannot_read() -> None:
    o = dpopt.objectives
    for make in (
        lambda: o.RobustRegression(0),
        lambda: o.RobustRegression(2, scale=-1.0),
        lambda: o.NegativeBinomialRegression(2, dispersion=0.0),
        lambda: o.MatrixFactorization(0, 2, 2),
        lambda: o.Network(4, []),
        lambda: o.Network((1, 4, 4), [("conv", 2, 9, 1), 2]),
        lambda: o.Network(4, [2], loss="hinge"),
        lambda: o.Network(4, ["two"]),
    ):
        with pytest.raises(ValueError):
            make()
    poisson, X = o.PoissonRegression(2), np.ones((10, 2))
    for data in (X, (X, np.ones(9)), (np.ones((10, 3)), np.ones(10)), (X, ["secret"] * 10)):
        with pytest.raises((ValueError, TypeError)) as caught:
            dpopt.minimize(poisson, data, epsilon=1.0)
        assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="numbers, and the objective"):
        dpopt.minimize(poisson, (X, np.ones(10)), np.zeros(3), epsilon=1.0)
    # values that are no numbers, or no counts, contribute nothing, and no message mentions them
    odd = np.where(np.arange(10) % 2 == 0, np.nan, -1.0)
    assert np.isfinite(dpopt.minimize(poisson, (X, odd), epsilon=1.0, steps=3).x).all()


@pytest.mark.parametrize("method", ["auto", "noisy-sgd", "accelerated"])
def test_for_the_population_phases_have_blocks_of_their_own(method: str) -> None:
    counts: list[int] = []

    def counted(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        counts.append(len(a))
        return x - a

    asked = {
        "epsilon": 1.0, "delta": 1e-6, "method": method, "distance": 3.0, "smoothness": 1.0, "goal": "population", "sampling_probability": 1.0, "steps": 20,
    }  # fmt: skip
    found = dpopt.minimize(counted, points(), np.zeros(3), insecure_seed=4, **asked)
    # the start is 2.3 away; the last blocks are small
    assert np.linalg.norm(found.x - CENTRE) < 1.2
    sizes = [phase["records"] for phase in found.plan_.schedule["phases"]]
    assert sizes == [1595, 750, 375, 187, 93]
    assert counts[TRIED:] == [size for size in sizes for _ in range(20)]
    event = json.loads(found.privacy_.event.to_json())
    assert event["class_name"] == "ParallelDpEvent" and len(event["blocks"]) == len(sizes)
    assert found.privacy_.epsilon <= 1.0
    assert "blocks, chosen at random" in found.report()
    with pytest.raises(ValueError, match="move the borders"):
        dpopt.minimize(gradients, points(), np.zeros(3), neighbors="add-or-remove", n_records=3000, **asked)
    with pytest.raises(ValueError, match="leave out momentum"):
        dpopt.minimize(gradients, points(), np.zeros(3), **{**asked, "method": "noisy-sgd", "momentum": 0.5})


def test_batches_of_fixed_size_cost_more_noise_and_say_so() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "steps": 30, "sampling_probability": 0.1}
    sizes: list[int] = []

    def counted(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        sizes.append(len(a))
        return x - a

    found = dpopt.minimize(counted, points(500), np.zeros(3), batches="fixed", insecure_seed=1, **asked)
    assert sizes[TRIED:] == [50] * 30
    poisson = dpopt.plan_minimize(500, 3, **asked)
    assert found.plan_.chosen["noise_multiplier"] > 1.3 * poisson.chosen["noise_multiplier"]


def test_a_pass_reads_each_record_once_in_batches_as_large_as_the_way() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "method": "one-pass-spider", "smoothness": 1.0, "initial_gap": 2.7}
    seen = []

    def noted(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        seen.append((x.copy(), a[:, 0].copy()))
        return x - a

    records = points(200_000)
    records[:, 0] += 1e-9 * np.arange(len(records))  # every one is known by its first number
    found = dpopt.minimize(noted, records, np.zeros(3), insecure_seed=4, clip_norm=4.0, **asked)
    assert np.linalg.norm(found.x - CENTRE) < 3 * found.plan_.schedule["aim"] < 1.0
    (ledger,) = found.privacy_.ledger
    assert [line["label"] for line in ledger] == ["restarted sums"]
    # a batch of gradients at one point, of changes at two: the same records both times
    read, last = [], None
    for _, batch in seen[TRIED:]:
        if last is None or not np.array_equal(batch, last):
            read.append(batch)
        last = batch
    once = np.concatenate(read)
    assert len(np.unique(once)) == len(once) <= len(records)
    assert len({len(batch) for batch in read}) > 3


def test_changes_of_gradients_are_asked_for_at_two_points_of_all_records_and_no_oftener_than_planned() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "method": "spider", "smoothness": 1.0, "initial_gap": 2.7, "steps": 6}
    seen = []

    def noted(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        seen.append(len(a))
        return x - a

    found = dpopt.minimize(noted, points(3000), np.zeros(3), insecure_seed=4, fresh_gradients=2, **asked)
    most = 2 + 1 + 2 * (6 + 32)
    assert found.plan_.chosen["gradients"] == 3000 * most
    (ledger,) = found.privacy_.ledger
    counts = {
        label: sum(line["count"] for line in ledger if line["label"] == label)
        for label in ("gradient", "change of the gradient")
    }
    assert counts["gradient"] == 3 and 0 < counts["change of the gradient"] <= 6 + 32
    # each gradient at one point, each change at two
    assert seen[TRIED:] == [3000] * (counts["gradient"] + 2 * counts["change of the gradient"])


def test_estimates_near_a_point_and_their_changes_are_along_the_same_directions() -> None:
    asked = {"epsilon": 4.0, "delta": 1e-6, "method": "o2nc", "distance": 1.0, "steps": 6, "period": 3, "directions": 2}
    seen: list[np.ndarray] = []

    def kinked(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        seen.append(x.copy())
        return np.sign(x - a)

    found = dpopt.minimize(kinked, points(3000), np.zeros(3), clip_norm=2.0, insecure_seed=4, **asked)
    (ledger,) = found.privacy_.ledger
    counts = {
        label: sum(line["count"] for line in ledger if line["label"] == label)
        for label in ("gradient", "change of the gradient")
    }
    assert counts == {"gradient": 2, "change of the gradient": 4} and found.plan_.method == "o2nc"
    assert found.plan_.chosen["gradients"] == 3000 * 2 * (6 + 4)
    seen = seen[TRIED:]
    assert len(seen) == 2 * (6 + 4)
    # fresh, change, change: two points within the radius, then two and the two of the step before along the same directions
    radius = found.plan_.schedule["goldstein_radius"]
    assert radius == pytest.approx(0.1)
    assert all(np.linalg.norm(x) <= radius for x in seen[:2])
    for first in (2, 6):
        here, there = np.array(seen[first : first + 2]), np.array(seen[first + 2 : first + 4])
        ways = here - there
        assert np.allclose(ways[0], ways[1]) and 0 < np.linalg.norm(ways[0]) <= 2 * found.plan_.schedule["reach"]
        assert not np.allclose(here[0] - here[1], seen[0] - seen[1])


def test_a_loss_with_kinks_is_led_to_where_gradients_near_by_cancel() -> None:
    def median(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.abs(x - a).sum(axis=1)

    plan = dpopt.plan_minimize(3000, 3, epsilon=4.0, delta=1e-6, gives="values")
    assert plan.method == "zeroth-order"
    found = dpopt.minimize(
        median, points(3000), np.zeros(3), epsilon=4.0, delta=1e-6, gives="values", method="o2nc", distance=3.0,
        clip_norm=1.8, steps=100, directions=6, insecure_seed=4,
    )  # fmt: skip
    schedule = found.plan_.schedule
    assert (schedule["estimator"], schedule["own_directions"], schedule["clip_norm"]) == ("values", False, 3.6)
    # the start is 2.3 away
    assert np.linalg.norm(found.x - CENTRE) < 1.2


def test_one_epoch_reads_each_record_once_at_two_points() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "method": "accelerated-srgd", "smoothness": 1.0, "distance": 3.0}
    X, seen = points(300), []
    place = {row.tobytes(): i for i, row in enumerate(X)}

    def noted(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        seen.append((x.copy(), [place.get(row.tobytes()) for row in a]))
        return x - a

    found = dpopt.minimize(noted, X, np.zeros(3), insecure_seed=4, steps=10, **asked)
    seen = seen[TRIED:]
    # the first batch at one point, all others at two, in an order that is not the table's
    assert len(seen) == 19 and [len(rows) for _, rows in seen] == [30] * 19
    assert all(seen[k][1] == seen[k + 1][1] for k in range(1, 19, 2))
    assert all((seen[k + 1][0] == seen[max(k - 2, 0)][0]).all() for k in range(1, 19, 2))
    batches = [rows for _, rows in seen[::2]]
    assert sorted(sum(batches, [])) == list(range(300)) and sum(batches, []) != list(range(300))
    # arrays that are written again by the next call, of either kind of float, and in several parts
    buffer = np.empty((30, 3))

    def reused(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.subtract(x, a, out=buffer[: len(a)])

    again = dpopt.minimize(reused, X, np.zeros(3), insecure_seed=4, steps=10, batch_records=7, **asked)
    assert np.array_equal(found.x, again.x)
    single = dpopt.minimize(lambda x, a: (x - a).astype(np.float32), X, np.zeros(3), insecure_seed=4, steps=10, **asked)
    assert np.allclose(found.x, single.x, atol=1e-3)
    assert found.plan_.chosen["gradients"] == 600
    # one vector for each record, of the right length
    with pytest.raises(ValueError, match="one row"):
        dpopt.minimize(lambda x, a: (x - a)[:-1], X, np.zeros(3), steps=10, **asked)


def test_the_charge_stays_if_the_objective_raises() -> None:
    ledger = dpopt.Ledger(epsilon=3.0, delta=1e-5)

    def broken(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        if len(a) > 12:
            raise KeyError(f"the value {a[0, 0]}")
        return x - a

    # what it says may hold values of records
    with pytest.raises(RuntimeError, match="raised KeyError on the records") as caught:
        dpopt.minimize(broken, points(300), np.zeros(3), epsilon=1.0, delta=1e-6, budget=ledger)
    assert "value 0" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__context__ is None
    assert len(ledger.entries) == 1
    with pytest.raises(KeyError, match="the value"):
        dpopt.minimize(broken, points(300), np.zeros(3), epsilon=1.0, delta=1e-6, budget=ledger, show_errors=True)
    assert len(ledger.entries) == 2


def test_rounds_and_points_of_their_own() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "method": "accelerated", "smoothness": 1.0, "strong_convexity": 1.0}
    found = dpopt.minimize(gradients, points(), np.zeros(3), restarts=2, insecure_seed=3, distance=3.0, **asked)
    assert np.linalg.norm(found.x - CENTRE) < 0.2 and len(found.plan_.schedule["phases"]) == 2
    with pytest.raises(ValueError, match="at one point"):
        dpopt.minimize(gradients, points(), np.zeros(3), smoothing=1.0, **asked)


def test_options_of_every_method_are_described() -> None:
    described = json.loads(dpopt._core.minimize_options())
    assert {"goal", "batches", "restarts", "smoothing", "clip_norm", "passes", "directions", "learning_rate"} <= {
        option["name"] for option in described
    }
    assert all(option["help"] and option["methods"] for option in described)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_network_of_another_library_learns_as_the_same_one_in_numpy(library: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (3000, 4)).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(np.float32)
    weights = {
        "hidden": rng.normal(size=(4, 8)).astype(np.float32),
        "out": [np.zeros(8, dtype=np.float32), np.zeros(1, dtype=np.float32)],
    }
    if library == "torch":
        torch = pytest.importorskip("torch")
        array, softplus, kind = torch.tensor, torch.nn.functional.softplus, torch.Tensor
        grad, vmap, tanh, fast = torch.func.grad, torch.func.vmap, torch.tanh, lambda function: function
        axes = {"in_dims": (None, 0, 0)}
    else:
        jax = pytest.importorskip("jax")
        array, softplus, kind = jax.numpy.asarray, jax.nn.softplus, jax.Array
        grad, vmap, tanh, fast = jax.grad, jax.vmap, jax.numpy.tanh, jax.jit
        axes = {"in_axes": (None, 0, 0)}

    def score(w, x):
        return tanh(x @ w["hidden"]) @ w["out"][0] + w["out"][1][0]

    def loss(w, x, t):
        return softplus(score(w, x)) - t * score(w, x)

    start = {"hidden": array(weights["hidden"]), "out": [array(a) for a in weights["out"]]}
    data = (array(X), array(y))
    each = fast(vmap(grad(loss), **axes))
    dpopt.check_per_record(each, tuple(part[:20] for part in data), start)
    # all records in each batch: JAX compiles anew for every size that it meets
    asked = {"epsilon": 4.0, "delta": 1e-6, "sampling_probability": 1.0, "insecure_seed": 1}
    found = dpopt.minimize(each, data, start, steps=60, method="dp-adam", learning_rate=0.05, **asked)
    assert isinstance(found.x["hidden"], kind) and isinstance(found.x["out"][1], kind)
    assert found.x["hidden"].dtype == start["hidden"].dtype and found.privacy_.epsilon <= 4.0
    right = (np.asarray(vmap(score, *[(None, 0)])(found.x, data[0])) > 0) == (y > 0.5)
    assert right.mean() > 0.8, right.mean()

    # the same losses in NumPy, by gradients of its own: the same up to float32
    def by_hand(w, x, t):
        hidden = np.tanh(x @ w["hidden"])
        slope = 1 / (1 + np.exp(-(hidden @ w["out"][0] + w["out"][1][0]))) - t
        back = slope[:, None] * w["out"][0] * (1 - hidden**2)
        return {"hidden": x[:, :, None] * back[:, None, :], "out": [slope[:, None] * hidden, slope[:, None]]}

    few = {**asked, "steps": 5, "method": "noisy-sgd"}
    theirs = dpopt.minimize(each, data, start, **few)
    ours = dpopt.minimize(by_hand, (X, y), weights, **few)
    for a, b in ((theirs.x["hidden"], ours.x["hidden"]), *zip(theirs.x["out"], ours.x["out"])):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-4)

    # forward passes alone: values, and derivatives along directions by forward mode
    along = dpopt.minimize(fast(vmap(loss, **axes)), data, start, gives="values", directions=4, steps=5, **asked)
    assert isinstance(along.x["hidden"], kind) and np.isfinite(np.asarray(along.x["hidden"])).all()
