"""The most stationary of public candidates."""

import dpopt
import numpy as np
import pytest
from dpopt.select import stationary


def slopes(x, a):
    """Of ½(x₀ − a)² + ¼(x₁² − 1)²: a saddle at (a, 0), minima at (a, ±1)."""
    return np.column_stack([x[0] - a, np.full(len(a), x[1] * (x[1] ** 2 - 1))])


def bends(x, directions, a):
    hessian = np.diag([1.0, 3 * x[1] ** 2 - 1])
    return np.tile(np.einsum("ki,ij,kj->k", directions, hessian, directions), (len(a), 1))


A = np.random.default_rng(0).normal(0.5, 0.1, 5000)
CHECKPOINTS = [np.array(p) for p in ([3.0, 0.5], [0.5, 0.0], [0.5, 0.97], [-2.0, 1.0])]
#: Calls of a function on made-up records, before the first one on records.
TRIED = 29
CURVED = {"curvatures": bends, "directions": np.eye(2), "curvature_bound": 4.0, "hessian_lipschitz": 0.05, "alpha": 0.2}


@pytest.mark.parametrize("neighbors", ["zero-out", "replace-one", "add-or-remove"])
def test_a_saddle_is_taken_unless_curvature_counts(neighbors):
    guess = {"n_records": 5000} if neighbors == "add-or-remove" else {}
    common = {"epsilon": 2.0, "clip_norm": 2.0, "neighbors": neighbors, "insecure_seed": 1, **guess}
    found = stationary(slopes, A, CHECKPOINTS, **common)
    assert found.index == 1 and np.array_equal(found.x, CHECKPOINTS[1])
    assert found.privacy_.delta == 0 and found.privacy_.epsilon <= 2.0
    assert 0 < found.error < 0.02
    assert len(found.assumptions) == 4 and any("tested on synthetic records" in text for text in found.assumptions)
    assert stationary(slopes, A, CHECKPOINTS, **CURVED, **common).index == 2


def test_the_first_that_is_good_enough_or_none():
    common = {"epsilon": 4.0, "clip_norm": 2.0, "alpha": 0.25, "first": True, "insecure_seed": 1}
    seen = []

    def noted(x, a):
        seen.append(tuple(x))
        return slopes(x, a)

    found = stationary(noted, A, CHECKPOINTS, **common)
    assert found.index == 1
    # candidates after the answer are not evaluated
    assert set(seen[TRIED:]) == {tuple(CHECKPOINTS[0]), tuple(CHECKPOINTS[1])}
    none = stationary(slopes, A, CHECKPOINTS[:1], **common)
    assert none.index is None and none.x is None


def test_both_parts_are_computed_for_every_candidate():
    counts = {"slopes": 0, "bends": 0}

    def counted(name, inner):
        def call(*arguments):
            counts[name] += 1
            return inner(*arguments)

        return call

    curved = {**CURVED, "curvatures": counted("bends", bends)}
    common = {"epsilon": 1.0, "clip_norm": 2.0, "insecure_seed": 1}
    stationary(counted("slopes", slopes), A, CHECKPOINTS, **curved, **common)
    assert counts == {"slopes": TRIED + 4, "bends": TRIED + 4}
    # the first one is far off by its gradient, and its curvature is looked at all the same
    counts.update(slopes=0, bends=0)
    found = stationary(counted("slopes", slopes), A, CHECKPOINTS, first=True, **curved, **common | {"epsilon": 4.0})
    assert found.index is not None and counts == dict.fromkeys(counts, TRIED + found.index + 1)


def test_persons_trees_and_a_ledger():
    person = np.arange(len(A)) // 5
    ledger = dpopt.Ledger(epsilon=3.0, delta=1e-6, unit="user")
    found = stationary(
        lambda x, a: {"w": (x["w"] - a)[:, None]},
        A,
        [{"w": np.array([w])} for w in (0.0, 0.5, 1.0)],
        epsilon=2.0,
        units=person,
        budget=ledger,
        unit=dpopt.Unit(max_rows=5),
    )
    assert found.x["w"][0] in (0.0, 0.5, 1.0)
    assert 1.99 < ledger.spent()[0] <= 2.0 if hasattr(ledger, "spent") and callable(ledger.spent) else True


def test_what_is_missing_is_asked_for():
    common = {"epsilon": 1.0}
    for wrong, message in [
        ({"first": True}, "alpha"),
        ({"curvatures": bends}, "smallest eigenvalue"),
        ({"directions": np.eye(2)}, "no effect without curvatures"),
        ({**CURVED, "directions": np.eye(3)}, "directions × 2"),
        ({**CURVED, "directions": np.zeros((1, 2))}, "zero or not finite"),
        ({"clip_norm": -1.0}, "positive"),
        ({"unit": dpopt.Unit(count=3)}, "units= is not"),
    ]:
        with pytest.raises(ValueError, match=message):
            stationary(slopes, A, CHECKPOINTS, **{**common, **wrong})
    with pytest.raises(ValueError, match="no candidates"):
        stationary(slopes, A, [], **common)
    with pytest.raises(ValueError, match="not finite"):
        stationary(slopes, A, [np.array([np.nan, 0.0])], **common)
    with pytest.raises(ValueError, match="one row for each record"):
        stationary(lambda x, a: np.zeros((3, 2)), A, CHECKPOINTS, **common)
