"""A global minimum from a public tree of cells."""

import dpopt
import numpy as np
import pytest


def steps(x, dose, worked):
    """1 where the threshold is on the wrong side of the dose, with a ramp of width .1."""
    side = np.where(worked, 1.0, -1.0)
    return np.clip(0.5 + side * (x[0] - dose) / 0.1, 0.0, 1.0)


def distances(x, *records):
    return np.sqrt(((np.stack(records, axis=1) - x) ** 2).sum(axis=1))


@pytest.fixture(scope="module")
def doses():
    rng = np.random.default_rng(0)
    dose = rng.uniform(-1, 1, 4000)
    # a shallow valley at -.5 and a deeper one at .4
    chance = np.select([dose < -0.5, dose < -0.1, dose < 0.4], [0.1, 0.7, 0.2], 0.95)
    return dose, rng.uniform(size=4000) < chance


@pytest.mark.parametrize("neighbors", ["zero-out", "replace-one"])
def test_the_deeper_of_two_valleys_is_found_with_no_delta(doses, neighbors):
    found = dpopt.minimize(
        steps, doses, np.array([-0.5]), epsilon=1.0, gives="values", method="tree", box_radius=1.5, clip_norm=10.0,
        loss_bound=1.0, neighbors=neighbors, insecure_seed=3,
    )  # fmt: skip
    assert abs(found.x[0] - 0.4) < 0.1
    assert (found.privacy_.delta, found.plan_.delta, found.plan_.method) == (0.0, 0.0, "tree")
    schedule = found.plan_.schedule
    scale = (2 if neighbors == "replace-one" else 1) / 4000
    assert schedule["cover_radius"] == pytest.approx(1.5 / 2 ** schedule["levels"])
    assert 10 * schedule["cover_radius"] <= 0.25 * scale
    bound = 10 * schedule["cover_radius"] + scale * (schedule["levels"] * np.log(2) + 1)
    assert found.plan_.chosen["predicted_excess_risk"] == pytest.approx(bound, rel=1e-5)


def test_a_guess_of_the_number_of_records_is_enough():
    records = np.random.default_rng(2).normal(0.3, 0.01, 300)
    found = dpopt.minimize(
        lambda x, a: np.abs(a - x[0]), records, np.zeros(1), epsilon=2.0, gives="values", method="tree", box_radius=1.0,
        neighbors="add-or-remove", n_records=200, insecure_seed=1,
    )  # fmt: skip
    assert abs(found.x[0] - 0.3) < 0.1


def test_four_dimensions_parameters_by_name_and_units():
    rng = np.random.default_rng(1)
    records = rng.normal(0.2, 0.01, (5000, 4))
    found = dpopt.minimize(
        distances, tuple(records.T), np.zeros(4), epsilon=1.0, gives="values", method="tree", box_radius=1.0, insecure_seed=2
    )  # fmt: skip
    # d scales of 4/(εn) or so
    assert np.linalg.norm(found.x - np.median(records, axis=0)) < 0.03
    person = np.arange(5000) // 2
    by_name = dpopt.minimize(
        lambda x, a, b: distances([x["east"], x["north"]], a, b), (records[:, 0], records[:, 1]), {"east": np.array(0.0), "north": np.array(0.0)},
        epsilon=1.0, gives="values", method="tree", ball_radius=1.0, units=person, unit=dpopt.Unit(max_rows=2), insecure_seed=1,
    )  # fmt: skip
    assert abs(float(by_name.x["east"]) - 0.2) < 0.03 and "per user" in str(by_name.privacy_)


def test_objectives_of_the_library_have_values_and_can_be_regularised():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 2)).astype(np.float32)
    y = (X @ [0.5, -0.3]).astype(np.float32)
    y[::4] = 30.0
    robust = dpopt.objectives.RobustRegression(2, scale=0.3)
    asked = {"epsilon": 2.0, "method": "tree", "ball_radius": 1.0, "insecure_seed": 2}
    found = dpopt.minimize(robust, (X, y), **asked)
    assert np.abs(found.x - [0.5, -0.3]).max() < 0.1
    shrunk = dpopt.minimize(robust, (X, y), regularization=1e5, **asked)
    assert np.linalg.norm(shrunk.x) < 0.1


def test_what_a_tree_is_not_for_is_refused_before_the_charge(doses):
    with pytest.raises(ValueError, match="at most 5"):
        dpopt.plan_minimize(1000, 6, epsilon=1.0, gives="values", method="tree")
    with pytest.raises(ValueError, match="one loss for each record"):
        dpopt.plan_minimize(1000, 2, epsilon=1.0, method="tree")
    with pytest.raises(ValueError, match="points"):
        dpopt.plan_minimize(1000, 2, epsilon=1.0, gives="values", method="tree", points=7)
    ledger = dpopt.Ledger(epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="regularization"):
        dpopt.minimize(
            steps, doses, np.zeros(1), epsilon=1.0, gives="values", method="tree", regularization=1e300, budget=ledger
        )
    assert ledger.spent == (0.0, 0.0)
    # never unasked: its time depends on the records
    plan = dpopt.plan_minimize(1000, 2, epsilon=1.0, delta=0.0, gives="values")
    assert plan.method == "net"
    why = next(c for c in plan.candidates if c["method"] == "tree")
    assert "time depends on the records" in str(why)
    flat = dpopt.plan_minimize(100_000, 3, epsilon=1.0, gives="values", method="tree", smoothness=1.0)
    assert any("given smoothness" in text for text in flat.chosen["warnings"])


def test_an_objective_that_fails_midway_tells_its_type_alone(doses):
    calls = []

    def fails(x, dose, worked):
        calls.append(x)
        if len(dose) == 4000 and len(calls) > 40:
            raise RuntimeError(f"the dose was {dose[0]}")
        return steps(x, dose, worked)

    with pytest.raises(Exception) as told:
        dpopt.minimize(fails, doses, np.zeros(1), epsilon=1.0, gives="values", method="tree", clip_norm=10.0)
    assert "RuntimeError" in str(told.value) and str(doses[0][0]) not in str(told.value)
