"""Private PyTorch training by unit: what a person with many rows can move; skipped where torch is not installed."""

import warnings

import dpopt
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpopt.torch import PrivateOptimizer, make_private  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

CLIP = 2.0
UNITS = 12


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        yield


def step_alone(ids, most, relation="zero-out", **more):
    """An optimizer of two parameters that takes every unit into every batch."""
    parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 2))]
    optimizer = PrivateOptimizer(
        torch.optim.SGD(parameters, lr=0.0),
        dataset_size=UNITS,
        sampling_probability=1.0,
        steps=1,
        clip_norm=CLIP,
        noise_multiplier=1.0,
        delta=1e-6,
        units=ids,
        insecure_seed=4,
        relation=relation,
        **more,
        unit=dpopt.Unit(max_rows=most),
    )
    return optimizer, parameters


def released_sum(ids, most, gradients, part=10**6):
    """What leaves in one step, for a gradient (7 entries) of each row."""
    optimizer, parameters = step_alone(ids, most)
    rows = optimizer.sample().numpy()
    for start in range(0, len(rows), part):
        of = torch.as_tensor(gradients[rows[start : start + part]])
        optimizer.accumulate([of[:, :3], of[:, 3:].reshape(-1, 2, 2)])
    optimizer.step([torch.zeros(0, 3), torch.zeros(0, 2, 2)])
    return torch.cat([p.grad.flatten() for p in parameters]).double().numpy() * UNITS


#: Person 0 has 40 rows, the others have 1 to 4.
IDS = np.concatenate([np.zeros(40, dtype=int), np.repeat(np.arange(1, UNITS), 1 + np.arange(1, UNITS) % 4)])
OWN = IDS == 0


def gradients(own, dtype=np.float32):
    """Those of the others are long and agree, so that a loss of one of them would be seen."""
    found = np.full((len(IDS), 7), 5.0, dtype=dtype)
    with np.errstate(over="ignore"):
        found[OWN] = own
    return found


HOSTILE = {
    "rows that agree": np.full((40, 7), 1e6),
    "rows that agree on nothing": np.diag(np.full(7, 1e9))[np.arange(40) % 7],
    "one row of many": np.where(np.arange(40)[:, None] == 3, 1e30, 0.0),
    "infinite": np.where(np.arange(40)[:, None] == 5, np.inf, 1.0),
    "no numbers": np.full((40, 7), np.nan),
    "both infinities": np.where(np.arange(40)[:, None] % 2, np.inf, -np.inf) * np.ones((1, 7)),
    "sums beyond float32": np.full((40, 7), 3e38),
    "short": np.full((40, 7), 1e-3),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_unit_moves_a_sum_by_one_clip_norm_whatever_its_rows(name, dtype):
    for most in (1, 3, 40, 1000):
        nothing = released_sum(IDS, most, gradients(0.0, dtype))
        for part in (10**6, 7, 1):
            moved = np.linalg.norm(released_sum(IDS, most, gradients(HOSTILE[name], dtype), part) - nothing)
            assert moved <= CLIP * (1 + 1e-5), (most, part)
            if name == "rows that agree":
                assert moved >= 0.99 * CLIP
    # the others' clipped means are there: eleven of length C in one direction, and noise of standard deviation C
    assert np.linalg.norm(nothing) > 6 * CLIP


def test_a_units_vector_is_the_mean_of_its_rows():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(len(IDS), 7)) * 0.1
    nothing = released_sum(IDS, 1000, np.zeros((len(IDS), 7)))
    means = np.array([rows[u == IDS].mean(0) for u in range(UNITS)])
    assert np.linalg.norm(means, axis=1).max() < CLIP
    for part in (10**6, 9, 2):
        # every unit's mean is truncated on the grid, whose step is 2^-10 for this noise
        found = released_sum(IDS, 1000, rows, part) - nothing
        np.testing.assert_allclose(found, means.sum(0), rtol=0, atol=UNITS * 2.0**-10)
    # of at most two rows: one pair or another of each person's
    two = released_sum(IDS, 2, rows) - nothing
    assert np.abs(two - means.sum(0)).max() > 4 * UNITS * 2.0**-10


def test_at_most_so_many_rows_are_a_new_uniform_choice_for_each_batch():
    parameters = [nn.Parameter(torch.zeros(1))]
    steps = 3000
    optimizer = PrivateOptimizer(
        torch.optim.SGD(parameters, lr=0.0),
        dataset_size=2,
        sampling_probability=1.0,
        steps=steps,
        clip_norm=1.0,
        noise_multiplier=50.0,
        delta=1e-6,
        units=["a", "b", "a", None, "a", "a"],
        insecure_seed=1,
        unit=dpopt.Unit(max_rows=2),
    )
    seen = {}
    for _ in range(steps):
        rows = tuple(optimizer.sample().tolist())
        seen[rows] = seen.get(rows, 0) + 1
        optimizer.step([torch.ones(3, 1)])
    # six pairs of four rows, 500 each: six standard deviations are 123; a row without an id is in no batch
    assert len(seen) == 6 and all(len(rows) == 3 and rows[2] == 1 and 3 not in rows for rows in seen)
    assert all(377 <= n <= 623 for n in seen.values())


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = torch.tensor(rng.uniform(-1, 1, (n, 3)), dtype=torch.float32)
    return X, (X[:, 0] > 0).long()


def trained(data=None, passes=2, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    given = {"delta": 1e-4, "epsilon": 4.0, "epochs": passes, "batch_size": 20, "max_grad_norm": 1.0, **options}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    if given.get("loss_reduction", "mean") == "mean":
        given.setdefault("loss", F.cross_entropy)
    model, optimizer, loader = make_private(model, optimizer, table() if data is None else data, **given)
    for _ in range(passes):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return model, optimizer, torch.cat([p.detach().flatten() for p in model.parameters()])


def test_one_row_each_is_what_records_give():
    _, of_records, expected = trained(insecure_seed=3)
    for ids in (np.arange(400), [f"p{i}" for i in range(400)]):
        _, of_units, found = trained(insecure_seed=3, units=ids, unit=dpopt.Unit(max_rows=1))
        assert torch.equal(found, expected) and of_units.noise_multiplier == of_records.noise_multiplier
    assert (of_records.privacy_.unit, of_units.privacy_.unit, of_units.privacy_.unit_column) == (
        "record",
        "user",
        "user",
    )
    assert "differential privacy per user, zero-out" in str(of_units.privacy_)


def test_parts_of_a_batch_give_what_the_whole_gives():
    ids = np.arange(400) % 80
    weights = [
        trained(insecure_seed=5, units=ids, physical_batch_size=size, noise_multiplier=0.6, epsilon=None, unit=dpopt.Unit(max_rows=4))[2]
        for size in (1000, 7, 3, 1)
    ]  # fmt: skip
    for other in weights[1:]:
        # float32 gradients of other shapes of batches, and the grid
        torch.testing.assert_close(other, weights[0], rtol=1e-3, atol=1e-4)


def test_people_are_protected_within_a_budget_of_people():
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(1500), 4)
    X, y = table(6000, 3)
    ledger = dpopt.Ledger(3.0, 1e-4, unit="user")
    asked = {"units": rng.permutation(ids), "batch_size": 150, "epsilon": 3.0, "unit": dpopt.Unit(max_rows=4)}
    _, optimizer, _ = trained((X, y), 3, budget=ledger, **asked)
    # a ledger takes no seed, and what is learnt hangs on the noise
    model, _, _ = trained((X, y), 3, insecure_seed=1, **asked)
    assert (model(X).argmax(1) == y).float().mean() > 0.8
    assert optimizer.privacy_.epsilon <= 3.0 and optimizer.privacy_.grade == "certified"
    assert [(r["label"], r["count"]) for r in optimizer.releases] == [("batch gradient", 30)]
    assert optimizer.sampling_probability == 0.1 and len(ledger.entries) == 1
    # the noise is that of 1,500 records: planned for units, whatever rows they have
    as_records = PrivateOptimizer(
        torch.optim.SGD([nn.Parameter(torch.zeros(58))], lr=0.1), dataset_size=1500, sampling_probability=0.1, steps=30, clip_norm=1.0,
        epsilon=3.0, delta=1e-4,
    )  # fmt: skip
    assert as_records.noise_multiplier == optimizer.noise_multiplier
    rows = dpopt.Ledger(3.0, 1e-4)
    with pytest.raises(
        ValueError, match=r'protects a record and this charge is per \'user\'; use Ledger\(..., unit="user"\)'
    ):
        trained(units=np.arange(400), budget=rows, unit=dpopt.Unit(max_rows=1))
    with pytest.raises(ValueError, match="protects a user"):
        trained(budget=dpopt.Ledger(4.0, 1e-4, unit="user"))
    assert rows.entries == ()


def test_numbers_of_units():
    ids = np.arange(400) % 80
    _, optimizer, _ = trained(units=ids, unit=dpopt.Unit(max_rows=5, count=100))
    assert optimizer.dataset_size == 100 and optimizer.sampling_probability == 0.2
    _, optimizer, _ = trained(units=ids, relation="replace-one", unit=dpopt.Unit(max_rows=5))
    assert (optimizer.dataset_size, optimizer.privacy_.relation) == (80, "replace-one")
    # where parts end, a unit's mean is rounded: that may not depend on who is there
    with pytest.raises(ValueError, match="does not work with add-or-remove here"):
        trained(units=ids, relation="add-or-remove", unit=dpopt.Unit(max_rows=5, count=70))
    for wrong in (79, 401):
        with pytest.raises(ValueError, match=f"count of unit is {wrong}, and units has more ids than that"):
            trained(units=ids, unit=dpopt.Unit(max_rows=5, count=wrong))
    with pytest.raises(ValueError, match="dataset_size is 11, and units has more ids than that"):
        PrivateOptimizer(
            torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1),
            dataset_size=11,
            sampling_probability=0.5,
            steps=1,
            clip_norm=1.0,
            epsilon=1.0,
            delta=1e-6,
            units=IDS,
            unit=dpopt.Unit(max_rows=1),
        )
    with pytest.raises(ValueError, match="the number of records has no effect"):
        trained(units=ids, dataset_size=400, unit=dpopt.Unit(max_rows=5))
    for name in ("max_rows", "count"):
        with pytest.raises(ValueError, match="unit is given and units= is not"):
            trained(unit=dpopt.Unit(**{name: 3}))
    with pytest.raises(TypeError, match=r"make_private has no parameter 'max_rows_per_unit'; write unit=dpopt.Unit"):
        trained(units=ids, max_rows_per_unit=3)


def test_ids_that_are_missing_are_nobodys():
    ids = [None if i % 5 == 0 else float("nan") if i % 5 == 1 else f"p{i % 60}" for i in range(400)]
    _, optimizer, _ = trained(units=ids, unit=dpopt.Unit(max_rows=3))
    assert optimizer.dataset_size == len({i for i in ids if isinstance(i, str)})


def test_wrong_ids_are_errors_that_show_none():
    secret = [f"s3cret{i % 80}" for i in range(400)]
    for units, kind, message in [
        (secret[:-1], ValueError, "units has 399 ids and X has 400 rows"),
        ([*secret[:-1], ["s3cret"]], TypeError, "the id in row 399 of units is a sequence"),
        (np.array([secret, secret], dtype=object), ValueError, "an array of 2 dimensions"),
        (set(secret), TypeError, "units is of type set"),
        ("s3cret", TypeError, "units is text, but there is no table"),
        ([None] * 400, ValueError, "0 units: no id can be read"),
    ]:
        with pytest.raises(kind, match=message) as caught:
            trained(units=units, unit=dpopt.Unit(max_rows=2))
        assert "s3cret" not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(ValueError, match=r"give unit=dpopt.Unit\(max_rows=...\), a public bound"):
        trained(units=secret)
    for wrong in (0, 2.5, "s3cret"):
        with pytest.raises(ValueError, match="max_rows of unit is .*; give a whole number, at least 1"):
            trained(units=secret, unit=dpopt.Unit(max_rows=wrong))


def test_rows_of_a_batch_must_all_come_and_be_drawn_here():
    optimizer, parameters = step_alone(IDS, 3)
    ones = lambda n: [torch.ones(n, 3), torch.ones(n, 2, 2)]  # noqa: E731
    with pytest.raises(RuntimeError, match=r"drawn with sample\(\) before"):
        optimizer.step(ones(3))
    drawn = len(optimizer.sample())
    with pytest.raises(RuntimeError, match="some rows that sample") as caught:
        optimizer.step(ones(drawn - 1))
    assert not any(c.isdigit() for c in str(caught.value))
    optimizer.accumulate(ones(1))
    with pytest.raises(ValueError, match="more per-sample gradients than rows of units"):
        optimizer.accumulate(ones(1))
    assert optimizer.step(ones(0)) and optimizer.steps_taken == 1
