"""DP-SGD steps for PyTorch; skipped where torch is not installed."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dpopt  # noqa: E402
from dpopt.torch import PrivateOptimizer  # noqa: E402


def linear(seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.5)


def per_sample(model, X, y):
    def loss(params, x, t):
        out = torch.func.functional_call(model, params, (x[None],))
        return torch.nn.functional.binary_cross_entropy_with_logits(out[0, 0], t)

    params = {k: v.detach() for k, v in model.named_parameters()}
    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, X, y)


def test_training_learns_within_its_budget():
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.uniform(-1, 1, (4000, 3)), dtype=torch.float32)
    y = (X[:, 0] > 0).float()
    model, inner = linear()
    ledger = dpopt.Ledger(2.0, 1e-5)
    private = PrivateOptimizer(
        inner, dataset_size=4000, sampling_probability=0.05, steps=60, clip_norm=1.0, epsilon=2.0, delta=1e-6, budget=ledger
    )
    assert private.privacy_.epsilon <= 2.0 and ledger.remaining[0] == 0.0
    for _ in range(60):
        at = private.sample()
        private.step(per_sample(model, X[at], y[at]) if len(at) else None)
    accuracy = ((model(X)[:, 0] > 0) == (y > 0)).float().mean()
    assert accuracy > 0.8
    with pytest.raises(dpopt.BudgetExceeded, match="planned"):
        private.step(None)


def test_a_step_is_the_clipped_sum_plus_noise():
    model, inner = linear()
    private = PrivateOptimizer(
        inner, dataset_size=100, sampling_probability=0.1, steps=1, clip_norm=1.0, noise_multiplier=1e-3, delta=1e-6
    )
    g = [torch.full((10, 1, 3), 100.0), torch.full((10, 1), 100.0)]
    before = [p.detach().clone() for p in model.parameters()]
    private.step(g)
    # each record is clipped to norm 1 over all four coordinates: the sum is 10·(1/2), divided by q·n = 10
    for p, b in zip(model.parameters(), before):
        assert torch.allclose(p, b - 0.5 * 0.5, atol=5e-3)


def test_wrong_shapes_are_refused():
    _, inner = linear()
    private = PrivateOptimizer(
        inner, dataset_size=100, sampling_probability=0.1, steps=5, clip_norm=1.0, noise_multiplier=1.0, delta=1e-6
    )
    with pytest.raises(ValueError, match="shape"):
        private.step([torch.zeros(4, 3), torch.zeros(4, 1)])
    with pytest.raises(ValueError, match="batch sizes"):
        private.step([torch.zeros(4, 1, 3), torch.zeros(5, 1)])
    with pytest.raises(ValueError, match="either"):
        PrivateOptimizer(inner, dataset_size=10, sampling_probability=0.1, steps=1, clip_norm=1.0, delta=1e-6)
