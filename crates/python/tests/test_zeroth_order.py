"""Training of PyTorch models with forward passes alone."""

import dpopt
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpopt.torch import ZerothOrder  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def _same_weights():
    """Networks begin with the same weights in every run: PyTorch seeds its generator from the system, anew in each process."""
    torch.manual_seed(0)


def losses_of(model):
    return lambda x, y: nn.functional.cross_entropy(model(x), y, reduction="none")


def small(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    given = {
        "dataset_size": 60, "sampling_probability": 0.5, "steps": 3, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-6, **options,
    }  # fmt: skip
    return model, ZerothOrder(model, torch.optim.SGD(model.parameters(), lr=0.1), **given)


X = torch.tensor(np.random.default_rng(0).normal(size=(60, 3)), dtype=torch.float32)
Y = (X[:, 0] > 0).long()


@pytest.mark.parametrize("directions", [1, 8])
def test_the_event_is_that_of_the_native_method(directions):
    plan = dpopt.plan_minimize(
        5000, 62, epsilon=2.0, delta=1e-6, gives="values", method="zeroth-order", directions=directions,
        sampling_probability=0.05, steps=40,
    )  # fmt: skip
    model = nn.Linear(30, 2)
    private = ZerothOrder(
        model, torch.optim.SGD(model.parameters(), lr=0.1), dataset_size=5000, sampling_probability=0.05, steps=40, clip_norm=1.0,
        directions=directions, epsilon=2.0, delta=1e-6,
    )  # fmt: skip
    assert private.privacy_.event == dpopt.accounting.from_dict(plan.chosen["event"])
    assert private.noise_multiplier == plan.chosen["noise_multiplier"]


def test_the_estimate_is_the_gradient_along_the_directions():
    n, d = 4000, 6
    A = torch.tensor(np.random.default_rng(1).normal(size=(n, d)), dtype=torch.float64)
    model = nn.Linear(d, 1, bias=False).double()
    private = ZerothOrder(
        model, torch.optim.SGD(model.parameters(), lr=0.0), dataset_size=n, sampling_probability=1.0, steps=300, clip_norm=100.0,
        directions=5, noise_multiplier=3.0, delta=1e-6,
    )  # fmt: skip
    before = model.weight.detach().clone()
    mean = np.zeros(d)
    for _ in range(300):
        private.step(lambda a: model(a)[:, 0] + 0.5 * model.weight.square().sum(), A)
        mean += model.weight.grad.numpy()[0] / 300
    exact = (A.mean(0) + before[0]).numpy()
    # each of 1500 directions gives ⟨g, u⟩u, of standard deviation below √2‖g‖ per entry; noise adds 3·100·√5/4000 = .17 to
    # ⟨g, u⟩. Of the six entries, means of 1500 products of normal numbers, one is 5.5 of these off with probability below 4e-8 (Chernoff's bound from the
    # law of the product, at these weights); one of half or twice the length is seen in all but 1e-9 of the runs
    assert np.abs(mean - exact).max() < 5.5 * np.sqrt(2 / 1500) * np.linalg.norm(exact)
    # and the weights came back from every evaluation, but for rounding
    torch.testing.assert_close(model.weight.detach(), before, rtol=0, atol=1e-11)


def test_weights_come_back_the_same_whatever_the_batch_and_its_parts():
    def rounded(batch, size):
        model, private = small(insecure_seed=3, physical_batch_size=size)
        for group in private.optimizer.param_groups:
            group["lr"] = 0.0
        private.step(losses_of(model), X[:batch], Y[:batch])
        return [p.detach().clone() for p in model.parameters()]

    with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
        ways = [rounded(*w) for w in ((0, None), (1, None), (20, None), (20, 3), (7, 1))]
    for way in ways[1:]:
        assert all(torch.equal(a, b) for a, b in zip(way, ways[0]))


def test_parts_of_a_batch_give_what_the_whole_gives():
    weights = []
    for size in (None, 1, 4):
        with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
            model, private = small(insecure_seed=3, physical_batch_size=size, directions=2)
        for _ in range(3):
            at = private.sample()
            private.step(losses_of(model), X[at], Y[at])
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    for other in weights[1:]:
        # losses of float32 over 2h = .002
        torch.testing.assert_close(other, weights[0], rtol=1e-3, atol=1e-3)


def test_a_records_derivatives_are_clipped_as_one_vector():
    released = []
    for extra in (0.0, 1e12):
        model = nn.Linear(2, 1, bias=False).double()
        nn.init.zeros_(model.weight)
        with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
            private = ZerothOrder(
                model, torch.optim.SGD(model.parameters(), lr=0.0), dataset_size=10, sampling_probability=1.0, steps=1, clip_norm=1.0,
                directions=4, noise_multiplier=1.0, delta=1e-6, insecure_seed=9,
            )  # fmt: skip
        kept = []
        original = private._move
        private._move = lambda mean: (kept.append(mean * 10), original(mean))
        rows = torch.zeros(10, 2, dtype=torch.float64)
        rows[0] = extra
        private.step(lambda a: model(a)[:, 0], rows)
        released.append(kept[0])
    # the same noise: one record moves the four sums by √4 in all, not by 4 and not by 1e12; truncated to a grid of step 2^-10 at most
    assert abs(np.linalg.norm(released[1] - released[0]) - 2.0) < 2 * 2.0**-10


def test_digits_are_learnt_without_gradients():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    train, test = np.arange(len(images)) % 5 > 0, np.arange(len(images)) % 5 == 0
    X = torch.tensor(images / 16, dtype=torch.float32)
    y = torch.tensor(labels)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    n = int(train.sum())
    xs, ys = X[train], y[train]
    with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
        private = ZerothOrder(
            model, torch.optim.Adam(model.parameters(), lr=0.01), dataset_size=n, sampling_probability=0.2, steps=300, clip_norm=3.0,
            directions=8, epsilon=4.0, delta=1e-5, insecure_seed=1,
        )  # fmt: skip
    for _ in range(300):
        at = private.sample()
        private.step(losses_of(model), xs[at], ys[at])
    accuracy = float((model(X[test]).argmax(1) == y[test]).float().mean())
    assert private.privacy_.epsilon <= 4.0 and [r["count"] for r in private.releases] == [300]
    # chance is .1, of 360 images: 0.25 is nine of its standard deviations above
    assert accuracy > 0.25, accuracy


def test_odd_calls_are_refused():
    model, private = small()
    with pytest.raises(RuntimeError, match="whole batch"):
        private.accumulate()
    with pytest.raises(ValueError, match="function of the records' losses"):
        private.step()
    with pytest.raises(ValueError, match="function of the records' losses"):
        private.step(losses_of(model), X, Y[:3])
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(ValueError, match="one loss for each record"):
        private.step(lambda x, y: nn.functional.cross_entropy(model(x), y), X[:4], Y[:4])
    # the weights are back
    for p, b in zip(model.parameters(), before):
        torch.testing.assert_close(p.detach(), b, rtol=0, atol=1e-5)
    private.sample()
    with pytest.raises(ValueError, match="more per-sample gradients than records"):
        private.step(losses_of(model), X.repeat(2, 1), Y.repeat(2))
    assert private.steps_taken == 0 and not private.releases
    with pytest.raises(ValueError, match="directions"):
        small(directions=0)
    norm = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    with pytest.raises(ValueError, match="mixes the records"):
        ZerothOrder(
            norm, torch.optim.SGD(norm.parameters(), lr=0.1), dataset_size=60, sampling_probability=0.5, steps=3, clip_norm=1.0,
            noise_multiplier=1.0, delta=1e-6,
        )  # fmt: skip


def test_models_without_gradients_per_record_and_units_are_taken():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.cell(x)[0][:, -1])

    torch.manual_seed(0)
    model = Last()
    private = ZerothOrder(model, torch.optim.SGD(model.parameters(), lr=0.1), dataset_size=20, sampling_probability=1.0, steps=2, clip_norm=1.0, directions=2, noise_multiplier=1.0, delta=1e-6, units=np.arange(60) % 20, unit=dpopt.Unit(max_rows=2))  # fmt: skip
    sequences = X[:, None, :].expand(60, 5, 3)
    before = model.head.weight.detach().clone()
    for _ in range(2):
        at = private.sample()
        assert len(at) == 40
        private.step(losses_of(model), sequences[at], Y[at])
    # noise on a grid is 0 in all four numbers with probability below 1e-13
    assert not torch.equal(before, model.head.weight) and private.privacy_.unit_column == "user"
