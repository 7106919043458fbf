"""``explain`` with a goal: which ε, how many rows, before a record is read."""

import json
import subprocess
import xml.etree.ElementTree as ET

import dpopt
import numpy as np
import pandas as pd
import pytest
from test_schemas import the_command

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


class Unreadable(np.ndarray):
    """A matrix that tells its shape and nothing else."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("a record was read")

    def __getitem__(self, item):
        raise AssertionError("a record was read")


def classes(**more):
    return dpopt.LogisticRegression(delta=1e-6, bounds=(-1, 1), **more)


def test_the_least_epsilon_reaches_the_goal_and_a_little_less_does_not():
    goal = {"accuracy": 0.82, "best": 0.86}
    found = classes(epsilon=1).explain(20_000, 40, **goal).sizing
    assert found.epsilon is not None and found.rows is not None and found.allowed == pytest.approx(4)
    lost = lambda epsilon: classes(epsilon=epsilon).explain(20_000, 40, **goal).sizing.at["lost"]["middle"]  # noqa: E731
    assert lost(found.epsilon) <= found.allowed < lost(0.98 * found.epsilon)
    fewer = classes(epsilon=1).explain(int(0.98 * found.rows), 40, **goal).sizing
    assert fewer.at["lost"]["middle"] > found.allowed
    assert found.plans <= 64 and found.epsilon_band[0] is None or found.epsilon_band[0] <= found.epsilon


def test_without_a_number_of_rows_it_is_what_is_found():
    found = classes(epsilon=1).explain(n_features=40, loss_points=2).sizing
    assert found.rows > 100 and found.epsilon is None and found.at["rows"] == found.rows
    more = classes(epsilon=4).explain(n_features=40, loss_points=2).sizing
    assert more.rows < found.rows


def test_a_goal_for_a_number_is_in_its_unit():
    ridge = dpopt.Ridge(epsilon=1, delta=1e-6, bounds=(-1, 1), target_bounds=(0, 1000))
    wide = ridge.explain(20_000, 10, added_error=40).sizing
    half = dpopt.Ridge(epsilon=1, delta=1e-6, bounds=(-1, 1), target_bounds=(0, 500)).explain(
        20_000, 10, added_error=20
    )
    assert wide.epsilon == half.sizing.epsilon and wide.at["lost"]["middle"] == 2 * half.sizing.at["lost"]["middle"]
    total = ridge.explain(20_000, 10, error=125, best=118).sizing
    assert total.allowed == pytest.approx((125**2 - 118**2) ** 0.5)
    assert total.reached(total.allowed) == pytest.approx(125)


def test_units_are_what_is_counted():
    ids = pd.Series(np.repeat(np.arange(500), 4), name="person")
    X = np.zeros((2000, 5))
    found = classes(epsilon=1).explain(X, units=ids, loss_points=3).sizing
    assert found.at["rows"] == 500


def test_no_record_is_looked_at():
    X = np.zeros((5000, 6)).view(Unreadable)
    found = classes(epsilon=1).explain(X, loss_points=3).sizing
    assert found.at["rows"] == 5000


def test_the_command_line_says_the_same(tmp_path):
    subprocess.run(
        [the_command(), "generate", "census", "--rows", "3000", "--seed", "1", "-o", "c.csv"], cwd=tmp_path, check=True
    )
    told = subprocess.run(
        [the_command(), "explain", "c.csv", "--target", "income", "--bounds", "bounds.toml", "--epsilon", "1", "--delta", "1e-6",
         "--accuracy", "0.8", "--best", "0.86", "--json"], cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    told = json.loads(told.stdout)["sizing"]
    table = pd.read_csv(tmp_path / "c.csv")
    model = dpopt.LogisticRegression(epsilon=1, delta=1e-6, bounds=str(tmp_path / "bounds.toml"))
    found = model.explain(table, y="income", accuracy=0.8, best=0.86).sizing
    assert found.epsilon == told["epsilon"]["value"] and found.rows == told["rows"]["value"]
    assert found.over_epsilon == told["over_epsilon"] and found.over_rows == told["over_rows"]


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"accuracy": 1.2, "best": 0.9}, "accuracy is 1.2; give a share above 0.5"),
        ({"accuracy": float("nan"), "best": 0.9}, "accuracy"),
        ({"accuracy": 0.9, "best": 0.86}, "no epsilon reaches it"),
        ({"accuracy": 0.8}, "depends on the records"),
        ({"best": 0.8}, "belongs to a goal"),
        ({"loss_points": 2, "accuracy": 0.8}, "two goals"),
        ({"error": 3, "best": 2}, "for numbers, and the target has classes"),
        ({"loss_points": "two"}, "loss_points"),
    ],
)
def test_absurd_goals_are_refused(goal, message):
    with pytest.raises((ValueError, TypeError), match=message):
        classes(epsilon=1).explain(2000, 5, **goal)


def test_goals_out_of_reach_are_reported():
    found = classes(epsilon=1).explain(60, 50, accuracy=0.855, best=0.86).sizing
    assert found.epsilon is None and "none up to 20 reaches it with 60 rows" in str(found)


def test_a_plan_shows_its_answer_as_text_and_pictures():
    plan = classes(epsilon=1).explain(20_000, 40, accuracy=0.82, best=0.86)
    assert "No record was read" in str(plan) and str(plan.sizing) in str(plan)
    assert ET.fromstring(plan.sizing._repr_svg_()).tag.endswith("svg")
    for over in ("epsilon", "rows"):
        ax = dpopt.plot.sizing(plan, over=over)
        assert len(ax.lines) == 2 and len(ax.collections) == 1 and ax.get_xscale() == "log"
        low, high = 0.5, 0.86
        assert all(low <= y <= high for y in ax.lines[0].get_ydata())
    with pytest.raises(ValueError, match="over is 'delta'"):
        dpopt.plot.sizing(plan, over="delta")
    with pytest.raises(TypeError, match="give the plan of explain with a goal"):
        dpopt.plot.sizing(3)
