"""A private head and adapters of low rank on a frozen model, and the check of what moved."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")

from dpopt.torch import MovedWeights, add_low_rank, make_private, train_only  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def _same_weights():
    """Networks begin with the same weights in every run: PyTorch seeds its generator from the system, anew in each process."""
    torch.manual_seed(0)


def digits():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)


def backbone(X, y):
    """A network that learnt to tell the digits below five, as if from public data."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[y < 5]), y[y < 5]).backward()
        optimizer.step()
    return model


def train(model, parameters, X, y, rate=0.1):
    moved = MovedWeights(model)
    model, optimizer, loader = make_private(
        model, torch.optim.Adam(parameters, lr=rate), (X, y), epsilon=4.0, delta=1e-5, epochs=8, batch_size=150, max_grad_norm=1.0,
        insecure_seed=1,
    )  # fmt: skip
    for _ in range(8):
        for x, target in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), target).backward()
            optimizer.step()
    moved.confirm()
    return optimizer


def test_a_private_head_learns_new_classes_on_a_frozen_backbone():
    X, y = digits()
    model = backbone(X, y)
    keep = np.arange(len(X)) % 5 > 0
    frozen = model[0].weight.detach().clone()
    head = train_only(model, ["4"])
    assert [tuple(p.shape) for p in head] == [(10, 16), (10,)]
    optimizer = train(model, head, X[keep], y[keep])
    assert torch.equal(frozen, model[0].weight) and optimizer.privacy_.epsilon <= 4.0
    # without the head's training digits from five on are never named: below .51
    accuracy = float((model(X[~keep]).argmax(1) == y[~keep]).float().mean())
    assert accuracy > 0.6, accuracy


def test_adapters_of_low_rank_change_nothing_at_first_and_learn():
    X, y = digits()
    model = backbone(X, y)
    keep = np.arange(len(X)) % 5 > 0
    before = model(X).detach()
    adapters = add_low_rank(model, rank=4)
    assert torch.equal(model(X).detach(), before)
    assert [p.numel() for p in adapters] == [4 * 64, 32 * 4, 4 * 32, 16 * 4, 4 * 16, 10 * 4]
    train(model, adapters, X[keep], y[keep], rate=0.02)
    accuracy = float((model(X[~keep]).argmax(1) == y[~keep]).float().mean())
    assert accuracy > 0.6, accuracy


def test_what_did_not_move_or_should_not_have_is_named():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    train_only(model, "2")
    with pytest.raises(RuntimeError, match="not moved: 2.weight, 2.bias"):
        MovedWeights(model).confirm()
    moved = MovedWeights(model)
    model(torch.randn(5, 3))
    with torch.no_grad():
        model[2].weight += 1
        model[2].bias += 1
    with pytest.raises(RuntimeError, match="changed without noise: 1.running_mean"):
        moved.confirm()
    moved = MovedWeights(model.eval())
    with torch.no_grad():
        model[2].weight += 1
        model[2].bias += 1
    moved.confirm()
    with torch.no_grad():
        model[0].bias += 1
    with pytest.raises(RuntimeError, match="changed without noise: 0.bias"):
        moved.confirm()
    add_low_rank(model, ["2"])
    with pytest.raises(RuntimeError, match="put together"):
        moved.confirm()


def test_unknown_names_are_refused():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    for names in (["7"], ["1"], [], "weight"):
        with pytest.raises(ValueError, match="no weights of the names"):
            train_only(model, names)
    with pytest.raises(ValueError, match="no linear layers"):
        add_low_rank(model, ["1"])
    with pytest.raises(ValueError, match="no linear layers"):
        add_low_rank(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="rank"):
        add_low_rank(model, rank=0)
