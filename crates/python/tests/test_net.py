"""A global minimum from a public net."""

import dpopt
import numpy as np
import pytest


def steps(x, dose, worked):
    """1 where the threshold is on the wrong side of the dose, with a ramp of width .1."""
    side = np.where(worked, 1.0, -1.0)
    return np.clip(0.5 + side * (x[0] - dose) / 0.1, 0.0, 1.0)


@pytest.fixture(scope="module")
def doses():
    rng = np.random.default_rng(0)
    dose = rng.uniform(-1, 1, 4000)
    # a shallow valley at -.5 and a deeper one at .4
    chance = np.select([dose < -0.5, dose < -0.1, dose < 0.4], [0.1, 0.7, 0.2], 0.95)
    return dose, rng.uniform(size=4000) < chance


@pytest.mark.parametrize("neighbors", ["zero-out", "replace-one", "add-or-remove"])
def test_the_deeper_of_two_valleys_is_found_with_no_delta(doses, neighbors):
    guess = {"n_records": 4000} if neighbors == "add-or-remove" else {}
    found = dpopt.minimize(
        steps, doses, np.array([-0.5]), epsilon=1.0, gives="values", method="net", box_radius=1.5, clip_norm=10.0, points=101,
        neighbors=neighbors, insecure_seed=3, **guess,
    )  # fmt: skip
    assert abs(found.x[0] - 0.4) < 0.1
    assert (found.privacy_.delta, found.plan_.delta, found.plan_.method) == (0.0, 0.0, "net")
    schedule = found.plan_.schedule
    assert schedule["points"] == 101 and schedule["cover_radius"] == pytest.approx(1.5 / 101)
    bound = 10 * schedule["cover_radius"] + (2 if neighbors == "replace-one" else 1) * 2 * 10 * 1.5 / 4000 * (
        np.log(101) + 1
    )
    assert found.plan_.chosen["predicted_excess_risk"] == pytest.approx(bound, rel=1e-5)


def test_whole_parameters_units_and_parts_of_records(doses):
    dose, worked = doses
    tree = dpopt.minimize(
        lambda x, d, w: steps([x["threshold"]], d, w), doses, {"threshold": np.array(-0.5)}, epsilon=2.0, delta=0.0,
        gives="values", box_radius=1.5, clip_norm=10.0, points=101, insecure_seed=1, batch_records=700,
    )  # fmt: skip
    assert tree.plan_.method == "net"  # nothing else has no delta
    assert abs(float(tree.x["threshold"]) - 0.4) < 0.15
    person = np.arange(len(dose)) // 2
    by_person = dpopt.minimize(
        steps,
        doses,
        np.array([-0.5]),
        epsilon=2.0,
        gives="values",
        method="net",
        box_radius=1.5,
        clip_norm=10.0,
        points=101,
        units=person,
        insecure_seed=1,
        unit=dpopt.Unit(max_rows=2),
    )
    assert abs(by_person.x[0] - 0.4) < 0.15 and "per user" in str(by_person.privacy_)


def test_objectives_of_the_library_have_values():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 2)).astype(np.float32)
    y = (X @ [0.5, -0.3]).astype(np.float32)
    y[::4] = 30.0
    robust = dpopt.objectives.RobustRegression(2, scale=0.3)
    found = dpopt.minimize(robust, (X, y), epsilon=2.0, method="net", ball_radius=1.0, points=2000, insecure_seed=2)
    assert np.abs(found.x - [0.5, -0.3]).max() < 0.2


def test_what_a_net_is_not_for_is_refused(doses):
    with pytest.raises(ValueError, match="at most 3"):
        dpopt.plan_minimize(1000, 4, epsilon=1.0, gives="values", method="net")
    with pytest.raises(ValueError, match="one loss for each record"):
        dpopt.plan_minimize(1000, 2, epsilon=1.0, method="net")
    with pytest.raises(ValueError, match="n_records"):
        dpopt.minimize(steps, doses, np.zeros(1), epsilon=1.0, gives="values", method="net", neighbors="add-or-remove")
    with pytest.raises(ValueError, match="one row for each record"):
        dpopt.minimize(
            lambda x, d, w: np.zeros(3), doses, np.zeros(1), epsilon=1.0, gives="values", method="net", points=5
        )
