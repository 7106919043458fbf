"""Private training loops for PyTorch: per-record gradients, Poisson batches in parts; skipped where torch is not installed."""

import copy
import io
import pickle
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dpopt  # noqa: E402
from dpopt.torch import make_private  # noqa: E402
from dpopt.torch.gradients import PerRecord  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def _same_weights():
    """Networks begin with the same weights in every run: PyTorch seeds its generator from the system, anew in each process."""
    torch.manual_seed(0)


class Twice(nn.Module):
    """One layer used two times, and a norm without a rule of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, x):
        return self.norm(torch.tanh(self.layer(torch.relu_(self.layer(x)))))


class Scaled(nn.Module):
    """Weights of its own beside a part with weights."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 6))
        self.inner = nn.Linear(6, 3)

    def forward(self, x, *, shift=None):
        return self.inner(x * self.scale) + (0 if shift is None else shift[:, :3])


MODELS = {
    "layers": (lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3, bias=False)), (6,)),
    "sequences": (lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Flatten(), nn.Linear(12, 2)), (3, 6)),
    "norm of two axes": (lambda: nn.LayerNorm((3, 6)), (2, 3, 6)),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1, groups=2), nn.Tanh(), nn.Conv2d(6, 2, 2, dilation=2, padding="valid")
        ),
        (4, 9, 8),
    ),
    "odd images": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3, padding="same"), nn.Conv2d(3, 2, 3, padding=1, padding_mode="circular")),
        (2, 5, 6),
    ),
    "volumes": (lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.ConvTranspose3d(2, 1, 2)), (1, 3, 4, 3)),
    "signals": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3, stride=2, padding=2, dilation=2), nn.Flatten()), (2, 11)),
    "twice": (Twice, (6,)),
    "scaled": (Scaled, (6,)),
}  # fmt: skip


def per_record(model, inputs, loss):
    """The definition: a backward pass for each record by itself."""
    found = []
    for i in range(len(inputs)):
        model.zero_grad()
        loss(model(inputs[i : i + 1])).backward()
        found.append([p.grad.clone() for p in model.parameters()])
    model.zero_grad()
    return [torch.stack(g) for g in zip(*found)]


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_each_record_by_itself(name, mean):
    torch.manual_seed(1)
    make, shape = MODELS[name]
    model, x = make(), torch.randn(5, *shape)
    expected = per_record(model, x, lambda out: out.flatten(1).square().sum(1).exp().reciprocal().sum())
    parameters = list(model.parameters())
    recorder = PerRecord(model, parameters, mean)
    # a smaller batch takes the room of a larger one
    for count in (5, 3, 4):
        recorder.awaited = count
        each = model(x[:count]).flatten(1).square().sum(1).exp().reciprocal()
        (each.mean() if mean else each.sum()).backward()
        for found, e in zip(recorder.gradients(parameters), expected):
            torch.testing.assert_close(found, e[:count], rtol=1e-4, atol=1e-6)
        assert all(p.grad is None for p in parameters)


def test_gradients_of_embeddings_count_every_place():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Embedding(7, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 2))
    x = torch.tensor([[0, 1, 1], [2, 6, 2], [3, 0, 0], [5, 5, 5]])
    expected = per_record(model, x, lambda out: out.square().sum())
    parameters = list(model.parameters())
    recorder = PerRecord(model, parameters, mean=False)
    recorder.awaited = 4
    model(x).square().sum().backward()
    for found, e in zip(recorder.gradients(parameters), expected):
        torch.testing.assert_close(found, e, rtol=1e-4, atol=1e-6)


def test_other_arguments_and_double_precision():
    torch.manual_seed(3)
    model, x, shift = Scaled().double(), torch.randn(4, 6).double(), torch.randn(4, 6).double()
    parameters = list(model.parameters())
    recorder = PerRecord(model, parameters, mean=False)
    recorder.awaited = 4
    model(x, shift=shift).square().sum().backward()
    found = [g.clone() for g in recorder.gradients(parameters)]
    recorder.awaited = None
    assert found[0].dtype == torch.float64
    for i in range(4):
        model.zero_grad()
        model(x[i : i + 1], shift=shift[i : i + 1]).square().sum().backward()
        for g, p in zip(found, parameters):
            torch.testing.assert_close(g[i], p.grad)


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = torch.tensor(rng.uniform(-1, 1, (n, 3)), dtype=torch.float32)
    return X, (X[:, 0] > 0).long()


def private(data=None, seed=0, learning_rate=0.5, **options):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    given = {"delta": 1e-6, "epochs": 2, "batch_size": 40, "max_grad_norm": 1.0, **options}
    if "epsilon" not in given:
        given.setdefault("noise_multiplier", 1.0)
    if given.get("loss_reduction", "mean") in ("mean", "sum"):
        given.setdefault("loss", partial(nn.functional.cross_entropy, reduction=given.get("loss_reduction", "mean")))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    return make_private(model, optimizer, table() if data is None else data, **given)


def train(model, optimizer, loader, passes, reduction="mean"):
    released, parts = 0, []
    for _ in range(passes):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y, reduction=reduction).backward()
            released += optimizer.step()
            parts.append(len(x))
    return released, parts


@pytest.mark.filterwarnings("ignore:insecure_seed makes")
@pytest.mark.parametrize("seed", [None, 1])
def test_training_learns_within_its_budget_and_no_further(seed):
    # one takes no seed, and what is learnt hangs on the noise
    ledger = dpopt.Ledger(2.0, 1e-5) if seed is None else None
    X, y = table(4000)
    model, optimizer, loader = private((X, y), epsilon=2.0, batch_size=200, epochs=3, budget=ledger, insecure_seed=seed)
    assert len(loader) == 20 and (ledger is None or ledger.remaining[0] == 0.0)
    released, parts = train(model, optimizer, loader, 3)
    assert released == 60 == len(parts)
    assert seed is None or (model(X).argmax(1) == y).float().mean() > 0.8
    assert optimizer.privacy_.epsilon <= 2.0 and optimizer.privacy_.grade == "certified"
    assert [(r["label"], r["count"]) for r in optimizer.releases] == [("batch gradient", 60)]
    for _ in range(2):
        with pytest.raises(dpopt.BudgetExceeded, match="planned"):
            iter(loader)
        with pytest.raises(dpopt.BudgetExceeded, match="planned"):
            optimizer.step()


def test_parts_of_a_batch_give_what_the_whole_gives():
    weights = []
    for size, reduction in [(1000, "mean"), (7, "mean"), (1, "sum"), (16, "sum")]:
        with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
            model, optimizer, loader = private(
                insecure_seed=5, physical_batch_size=size, loss_reduction=reduction, noise_multiplier=0.6
            )
        released, parts = train(model, optimizer, loader, 2, reduction)
        assert released == 20 and max(parts) <= size
        assert sum(parts) > 600 and (size > 100) == (len(parts) == 20)
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    for other in weights[1:]:
        # float32 gradients of other shapes of batches, and the grid
        torch.testing.assert_close(other, weights[0], rtol=1e-3, atol=1e-4)


def test_every_batch_is_released_once_also_without_records():
    # 300 batches of one expected record: 37 % of them are empty
    model, optimizer, loader = private(table(300), batch_size=1, epochs=1, physical_batch_size=2)
    synthetic = 0
    released = 0
    for x, y in loader:
        synthetic += bool((x == 0).all() and (y == 0).all())
        assert 1 <= len(x) <= 2
        nn.functional.cross_entropy(model(x), y).backward()
        released += optimizer.step()
    assert released == 300 == optimizer.releases[0]["count"]
    # mean 110, standard deviation 8.3: six of them, probability below 1e-8; a loop that skips empty batches, or finds all empty, is always seen
    assert abs(synthetic - 110) < 50


def test_a_made_up_record_counts_for_nothing():
    data, model = (torch.ones(1000, 1),), nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model, optimizer, loader = make_private(
        model, optimizer, data, noise_multiplier=0.5, delta=1e-6, epochs=1, batch_size=1, max_grad_norm=1.0
    )
    empty, full = [], []
    for (x,) in loader:
        model(x).mean().backward()
        optimizer.step()
        (empty if (x == 0).all() else full).append(float(model.bias.grad))
    assert len(empty) > 250
    # 368 of 1,000 expected, standard deviation 15. A record's gradient is (1, 1) clipped to 1, the made-up one's (0, 1); six standard deviations,
    # and more for those below: false alarm below 1e-8. Of a made-up record that counts the mean is 1, which is always seen
    assert abs(np.mean(empty)) < 6 * 0.5 / np.sqrt(len(empty))
    assert np.mean(full) > np.sqrt(0.5)


def test_a_record_moves_a_step_by_at_most_its_bound():
    X, y = table(50)
    wild = X.clone()
    wild[7] = torch.tensor([1e30, -1e30, 1e5])
    missing = X.clone()
    missing[7] = float("nan")
    steps = []
    for data in (X, wild, missing):
        with pytest.warns(dpopt.PrivacyWarning):
            model, optimizer, loader = private(
                (data, y), batch_size=50, epochs=1, max_grad_norm=0.5, insecure_seed=3, physical_batch_size=8
            )
        train(model, optimizer, loader, 1)
        steps.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    for other in steps[1:]:
        # two records of norm 0.5 are at most 1 apart
        assert 0 < (other - steps[0]).norm() <= 1.0 / 50 * (1 + 1e-4)


def test_no_record_is_read_before_the_charge():
    class Watched(torch.utils.data.Dataset):
        read = 0

        def __len__(self):
            return 100

        def __getitem__(self, i):
            Watched.read += 1
            return {"x": torch.ones(3), "label": i % 2}

    ledger = dpopt.Ledger(1.0, 1e-5)
    loader = torch.utils.data.DataLoader(Watched(), batch_size=10)
    model, optimizer, batches = private(loader, batch_size=None, epsilon=1.0, epochs=1, budget=ledger, loss=None)
    assert Watched.read == 0 and ledger.remaining[0] == 0.0 and len(batches) == 10
    with pytest.raises(dpopt.BudgetExceeded):
        private(loader, batch_size=None, epsilon=1.0, epochs=1, budget=ledger, loss=None)
    assert Watched.read == 0
    for batch in batches:
        nn.functional.cross_entropy(model(batch["x"]), batch["label"]).backward()
        optimizer.step()
    # ten batches of ten expected records are all empty with probability 2e-46
    assert Watched.read > 0 and optimizer.releases[0]["count"] == 10


def test_a_batch_that_was_drawn_is_released_before_another_is():
    model, optimizer, loader = private(physical_batch_size=8, insecure_seed=None)
    first = None
    for x, _ in loader:
        first = x
        break
    with pytest.raises(RuntimeError, match="no gradients"):
        optimizer.step()
    # left early: the same part comes again
    again = iter(loader)
    x, y = next(again)
    assert torch.equal(x, first)
    with pytest.raises(RuntimeError, match="has not stepped"):
        next(again)
    released, _ = train(model, optimizer, loader, 2)
    assert released == 20
    model, optimizer, loader = private()
    with pytest.raises(RuntimeError, match="no batch"):
        optimizer.step()
    x, y = next(iter(loader))
    nn.functional.cross_entropy(model(x), y).backward()
    assert optimizer.step()
    with pytest.raises(RuntimeError, match="no batch"):
        optimizer.step()
    with pytest.raises(RuntimeError, match="the loader"):
        optimizer.sample()
    with pytest.raises(RuntimeError, match=r"call step\(\)"):
        optimizer.accumulate()
    with pytest.raises(ValueError, match="PrivateOptimizer"):
        optimizer.step([])


def test_modules_that_mix_records_are_refused_before_the_charge():
    ledger = dpopt.Ledger(1.0, 1e-5)
    for module, why in [
        (nn.BatchNorm1d(3), "BatchNorm1d .* mixes the records"),
        (nn.SyncBatchNorm(3), "mixes the records"),
        (nn.InstanceNorm1d(3, affine=True, track_running_stats=True), "statistics of the records"),
        (nn.Embedding(3, 3, max_norm=1.0), "without noise"),
        (nn.Embedding(3, 3, scale_grad_by_freq=True), "without noise"),
        (nn.EmbeddingBag(3, 3), "no per-record gradients"),
        (nn.LSTM(3, 3), "no per-record gradients"),
        (nn.TransformerEncoderLayer(4, 2), "self_attn.* no per-record gradients"),
        (nn.LazyLinear(3), "no shape yet"),
    ]:
        model = nn.Sequential(nn.Linear(3, 3), module)
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
        with pytest.raises(ValueError, match=why):
            make_private(
                model, optimizer, table(), epsilon=1.0, delta=1e-6, epochs=1, batch_size=10, max_grad_norm=1.0, budget=ledger
            )  # fmt: skip
    assert ledger.remaining[0] == 1.0


def test_what_has_no_gradient_per_record_is_refused_before_the_charge():
    class Loose(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return x @ self.layer.weight.T

    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 2)

        def forward(self, x):
            return self.layer(x.reshape(-1, 1)).reshape(len(x), 3, 2).sum(1)

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return torch.nn.functional.dropout(x * self.scale)

    ledger = dpopt.Ledger(1.0, 1e-5)
    for module, why in [
        (Loose(), "not used by the module"),
        (Folded(), "first axis"),
        (Noisy(), "one record at a time"),
    ]:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        with pytest.raises(ValueError, match=why):
            make_private(
                module, optimizer, table(), epsilon=1.0, delta=1e-6, epochs=1, batch_size=40, max_grad_norm=1.0, budget=ledger
            )  # fmt: skip
        assert all(p.grad is None for p in module.parameters()) and not module._forward_hooks
    assert ledger.spent == (0.0, 0.0)


def test_a_copy_of_the_model_has_no_gradients_and_records_none():
    model, optimizer, loader = private()
    x, y = next(iter(loader))
    nn.functional.cross_entropy(model(x), y).backward()
    assert all(p.grad is None and not hasattr(p, "grad_sample") for p in model.parameters())
    written = io.BytesIO()
    torch.save(model, written)
    read = torch.load(io.BytesIO(written.getvalue()), weights_only=False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), read):
        hooks = [*other._forward_hooks.values(), *(hook for m in other for hook in m._forward_hooks.values())]
        recorders = [getattr(hook, "func", hook).__self__ for hook in hooks]
        # two of the model, and one of each layer with weights
        assert len(recorders) == 4
        for recorder in recorders:
            assert not recorder._found and not recorder._room and recorder.awaited is None
        nn.functional.cross_entropy(other(x), y).backward()
        assert all(p.grad is not None for p in other.parameters())
    assert optimizer.step()


def test_odd_arguments_are_named():
    X, y = table()
    for options, why in [
        ({"loss_reduction": "none"}, "loss_reduction"),
        ({"batch_size": 401}, "at most the number of records"),
        ({"batch_size": None}, "give batch_size"),
        ({"epochs": 0}, "epochs"),
        ({"physical_batch_size": 0}, "physical_batch_size"),
        ({"relation": "add-or-remove"}, "dataset_size"),
        ({"dataset_size": 399}, "leave it out"),
        ({"data": (X, y[:-1])}, "one length"),
        ({"epsilon": 1.0, "noise_multiplier": 1.0}, "exclude each other"),
        ({"max_grad_norm": 0.0}, "clip_norm"),
    ]:
        with pytest.raises(ValueError, match=why):
            private(**options)
    with pytest.raises(TypeError, match="by position"):
        private(data=iter([1, 2]))
    model = nn.Linear(3, 2)
    common = {"noise_multiplier": 1.0, "delta": 1e-6, "epochs": 1, "batch_size": 40, "max_grad_norm": 1.0}
    for optimizer, why in [
        (torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1), "parameters of the model"),
        (torch.optim.LBFGS(model.parameters()), "LBFGS"),
        (private()[1], "private already"),
    ]:
        with pytest.raises(ValueError, match=why):
            make_private(model, optimizer, (X, y), **common)


def test_under_add_or_remove_the_plan_rests_on_a_public_size():
    model, optimizer, loader = private(table(600), relation="add-or-remove", dataset_size=400, epochs=1)
    released, parts = train(model, optimizer, loader, 1)
    assert released == 10 == len(loader)
    # drawn from all 600: 600 records expected, standard deviation 23; outside with probability below 1e-8. Of a draw from 400 they are 400 ± 19, which is
    # seen in 998 of 1000 runs
    assert abs(sum(parts) - 600) < 142
    assert optimizer.privacy_.relation == "add-or-remove"


def test_schedulers_and_the_optimizer_inside():
    model, optimizer, loader = private(physical_batch_size=8, epochs=1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer.optimizer, 0.5)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        if optimizer.step():
            scheduler.step()
    assert abs(optimizer.param_groups[0]["lr"] - 0.5**11) < 1e-12


def test_frozen_weights_stay():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.5)
    model, optimizer, loader = make_private(
        model, optimizer, table(), noise_multiplier=1.0, delta=1e-6, epochs=1, batch_size=40, max_grad_norm=1.0
    )
    train(model, optimizer, loader, 1)
    assert torch.equal(model[0].weight, before)
    with torch.no_grad():
        model.eval()(table()[0])
