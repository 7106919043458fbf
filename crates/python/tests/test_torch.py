"""DP-SGD steps for PyTorch; skipped where torch is not installed."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dpopt  # noqa: E402
from dpopt.torch import PrivateOptimizer  # noqa: E402


@pytest.fixture(autouse=True)
def _same_weights():
    """Networks begin with the same weights in every run: PyTorch seeds its generator from the system, anew in each process."""
    torch.manual_seed(0)


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


@pytest.mark.filterwarnings("ignore:insecure_seed makes")
@pytest.mark.parametrize("seed", [None, 1])
def test_training_learns_within_its_budget(seed):
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.uniform(-1, 1, (4000, 3)), dtype=torch.float32)
    y = (X[:, 0] > 0).float()
    model, inner = linear()
    # one takes no seed, and what is learnt hangs on the noise
    ledger = dpopt.Ledger(2.0, 1e-5) if seed is None else None
    private = PrivateOptimizer(
        inner,
        dataset_size=4000,
        sampling_probability=0.05,
        steps=60,
        clip_norm=1.0,
        epsilon=2.0,
        delta=1e-6,
        budget=ledger,
        insecure_seed=seed,
    )
    assert private.privacy_.epsilon <= 2.0 and (ledger is None or ledger.remaining[0] == 0.0)
    for _ in range(60):
        at = private.sample()
        private.step(per_sample(model, X[at], y[at]) if len(at) else None)
    accuracy = ((model(X)[:, 0] > 0) == (y > 0)).float().mean()
    assert seed is None or accuracy > 0.8
    with pytest.raises(dpopt.BudgetExceeded, match="planned"):
        private.step(None)
    assert [(r["label"], r["count"]) for r in private.releases] == [("batch gradient", 60)]


def test_clip_and_noise_take_the_shape_of_an_ellipsoid():
    model, inner = linear()
    scales = [torch.tensor([[1.0, 10.0, 100.0]]), 1.0]
    private = PrivateOptimizer(
        inner, dataset_size=100, sampling_probability=1.0, steps=400, clip_norm=1.0, noise_multiplier=8.0, delta=1e-6,
        scales=scales, insecure_seed=1,
    )  # fmt: skip
    sums = []
    for k in range(400):
        # one record far along the last weight's axis: clipped to 1/100 there
        g = [torch.tensor([[[0.0, 0.0, 1e6]]]), torch.zeros(1, 1)] if k % 2 else None
        private.step(g)
        sums.append(model.weight.grad.numpy().ravel() * 100)
    sums = np.array(sums)
    # 400 draws: the standard deviation is off by 1/sqrt(800), six of them
    for j, scale in enumerate([1.0, 10.0, 100.0]):
        assert abs(sums[:, j].std() * scale / 8.0 - 1) < 6 / np.sqrt(800) + 0.01
    # 1/100 against noise of 8/100/sqrt(200) in both halves
    assert abs((sums[1::2, 2].mean() - sums[::2, 2].mean()) - 0.01) < 6 * 0.08 * np.sqrt(2 / 200)
    with pytest.raises(ValueError, match="positive and finite"):
        private.scales = [torch.zeros(1, 3), 1.0]
    with pytest.raises(ValueError, match="1 scales were given for 2"):
        private.scales = [1.0]


def test_ellipsoids_follow_public_moments():
    squares = [torch.tensor([[1.0, 1e-2, 0.0]]), torch.tensor([1e-4])]
    scales = dpopt.torch.ellipsoid(squares)
    assert [tuple(s.shape) for s in scales] == [(1, 3), (1,)]
    total = sum(float((s**2 * v).sum()) for s, v in zip(scales, squares))
    assert abs(total - 1) < 1e-12
    # sigma .1 against 1: 10^(2/3)
    assert abs(float(scales[0][0, 1] / scales[0][0, 0]) - 10 ** (2 / 3)) < 1e-6  # float32 moments
    with pytest.raises(ValueError, match="not all 0"):
        dpopt.torch.ellipsoid([torch.zeros(3)])


def test_a_step_is_the_clipped_sum_plus_noise():
    model, inner = linear()
    private = PrivateOptimizer(
        inner, dataset_size=10_000, sampling_probability=0.1, steps=1, clip_norm=1.0, noise_multiplier=0.5, delta=1e-6
    )
    g = [torch.full((1000, 1, 3), 100.0), torch.full((1000, 1), 100.0)]
    before = [p.detach().clone() for p in model.parameters()]
    private.step(g)
    # each record is clipped to norm 1 over all four coordinates: the sum is 1000·(1/2), divided by q·n = 1000; the noise
    # of a weight is 0.5·0.5/1000: four weights at eight standard deviations (false alarm below 1e-14); a clip or a divisor that is 1 % off is seen
    for p, b in zip(model.parameters(), before):
        assert torch.allclose(p, b - 0.5 * 0.5, atol=2e-3)


def test_wrong_shapes_are_refused():
    _, inner = linear()
    private = PrivateOptimizer(
        inner, dataset_size=100, sampling_probability=0.1, steps=5, clip_norm=1.0, noise_multiplier=1.0, delta=1e-6
    )
    with pytest.raises(ValueError, match="shape"):
        private.step([torch.zeros(4, 3), torch.zeros(4, 1)])
    with pytest.raises(ValueError, match="different batch sizes"):
        private.step([torch.zeros(4, 1, 3), torch.zeros(5, 1)])
    with pytest.raises(ValueError, match="exclude each other"):
        PrivateOptimizer(inner, dataset_size=10, sampling_probability=0.1, steps=1, clip_norm=1.0, delta=1e-6)


def test_a_drawn_batch_takes_no_more_gradients_than_it_has_records():
    _, inner = linear()
    private = PrivateOptimizer(
        inner, dataset_size=100, sampling_probability=0.1, steps=5, clip_norm=1.0, noise_multiplier=1.0, delta=1e-6
    )
    at = private.sample()
    with pytest.raises(ValueError, match="more per-sample gradients than records"):
        private.step([torch.zeros(len(at) + 1, 1, 3), torch.zeros(len(at) + 1, 1)])
    assert private.steps_taken == 0 and not private.releases


def test_odd_budgets_are_warned_about():
    _, inner = linear()
    common = {"dataset_size": 100, "sampling_probability": 0.1, "steps": 5, "clip_norm": 1.0, "noise_multiplier": 1.0}
    with pytest.warns(dpopt.PrivacyWarning, match="larger than 1/100"):
        PrivateOptimizer(inner, **common, delta=0.1)
    with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
        PrivateOptimizer(inner, **common, delta=1e-6, insecure_seed=1)


@pytest.mark.filterwarnings("ignore:insecure_seed makes")
def test_gradients_of_opacus_modules_are_taken_as_they_are():
    opacus = pytest.importorskip("opacus")
    torch.manual_seed(0)
    model = opacus.GradSampleModule(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)))
    inner = torch.optim.Adam(model.parameters(), lr=0.05)
    private = PrivateOptimizer(
        inner, dataset_size=2000, sampling_probability=0.1, steps=40, clip_norm=1.0, epsilon=4.0, delta=1e-6, insecure_seed=1
    )  # fmt: skip
    X = torch.rand(2000, 3) * 2 - 1
    y = (X[:, 0] > X[:, 1]).float()
    for _ in range(40):
        at = private.sample()
        private.zero_grad()
        # per-sample gradients must be those of each record's own loss: the reduction is a sum
        torch.nn.functional.binary_cross_entropy_with_logits(model(X[at])[:, 0], y[at], reduction="sum").backward()
        private.step()
    assert ((model(X)[:, 0] > 0) == (y > 0)).float().mean() > 0.8


def test_histories_of_opacus_accountants_go_in_and_out():
    opacus = pytest.importorskip("opacus")
    theirs = opacus.accountants.RDPAccountant()
    for _ in range(100):
        theirs.step(noise_multiplier=1.1, sample_rate=0.02)
    event = dpopt.accounting.as_event(theirs)
    assert event.to_opacus_history() == [(1.1, 0.02, 100)] == [tuple(h) for h in theirs.history]
    # theirs is a looser accountant's upper bound
    ours = dpopt.accounting.epsilon(theirs, 1e-6, relation="add-or-remove")
    assert 0.7 * theirs.get_epsilon(1e-6) < ours < theirs.get_epsilon(1e-6)
    with pytest.raises(ValueError, match="Poisson-sampled"):
        dpopt.accounting.LaplaceDpEvent(1.0).to_opacus_history()


def of_each_record(seed=0):
    """A network with a bias that stays, its data, and the loss of each record."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Conv1d(1, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)
    )
    model[0].bias.requires_grad_(False)
    X, y = torch.randn(40, 1, 6), torch.randint(0, 3, (40,))
    return model, X, y, lambda out, y: torch.nn.functional.cross_entropy(out, y, reduction="none")


def test_gradients_of_records_are_those_of_vmap():
    model, X, y, loss = of_each_record()
    each = dpopt.torch.RecordGradients(model, loss)
    start = each.start()
    assert "0.bias" not in start and len(start) == 5
    fixed = {name: p.detach() for name, p in model.named_parameters() if name not in start}

    def alone(parameters, x, t):
        return loss(torch.func.functional_call(model, parameters | fixed, (x[None],)), t[None])[0]

    expected = torch.func.vmap(torch.func.grad(alone), in_dims=(None, 0, 0))
    first = each(start, X, y)
    moved = {name: p + 0.1 for name, p in start.items()}
    second = each(moved, X[:7], y[:7])
    # a later call changes nothing of what an earlier one gave
    for given, at, rows in ((first, start, 40), (second, moved, 7)):
        wanted = expected(at, X[:rows], y[:rows])
        assert set(given) == set(wanted) == set(start)
        for name, g in given.items():
            assert g.shape == wanted[name].shape
            torch.testing.assert_close(g, wanted[name], rtol=1e-4, atol=1e-6)
    assert all(p.grad is None for p in model.parameters())
    assert {g.shape[0] for g in each(start, X[:0], y[:0]).values()} == {0}


def test_minimize_takes_gradients_of_records():
    model, X, y, loss = of_each_record()
    y = (X[:, 0, 0] > 0).long()
    each = dpopt.torch.RecordGradients(model, loss)
    dpopt.check_per_record(each, (X, y), each.start())
    asked = {"delta": 1e-6, "method": "dp-adam", "steps": 200, "insecure_seed": 3}
    many = (X.repeat(100, 1, 1), y.repeat(100))
    found = dpopt.minimize(each, many, each.start(), epsilon=8.0, **asked)
    each.load(found.x)
    with torch.no_grad():
        right = (model(X).argmax(1) == y).float().mean()
    # guessing has the larger class
    assert right > 0.85 > float(y.float().mean()), right
    # one record at a time: the same gradients
    few = asked | {"steps": 2, "n_records": 40, "neighbors": "add-or-remove"}
    assert dpopt.minimize(each, (X, y), each.start(), epsilon=8.0, **few).privacy_.grade == found.privacy_.grade


def test_what_gives_no_gradients_of_records_is_refused():
    model, X, y, loss = of_each_record()
    with pytest.raises(ValueError, match="mixes the records"):
        dpopt.torch.RecordGradients(torch.nn.BatchNorm1d(3), loss)
    with pytest.raises(ValueError, match="torch.nn.Module"):
        dpopt.torch.RecordGradients(lambda x: x, loss)
    with pytest.raises(ValueError, match="nothing would be trained"):
        dpopt.torch.RecordGradients(torch.nn.Tanh(), loss)
    mean = dpopt.torch.RecordGradients(model, torch.nn.functional.cross_entropy)
    with pytest.raises(ValueError, match='reduction="none"'):
        mean(mean.start(), X, y)
    with pytest.raises(ValueError, match="names"):
        mean.load({"weight": 0.0})
    before = mean.start()
    with pytest.raises(ValueError, match="4.bias has another shape"):
        mean.load({name: p + 1 for name, p in before.items()} | {"4.bias": torch.zeros(1)})
    assert all(torch.equal(p, before[name]) for name, p in mean.start().items())


def test_why_a_model_fails_on_records_is_not_shown():
    model, X, y, loss = of_each_record()
    each = dpopt.torch.RecordGradients(model, loss)
    y[3] = 77
    with pytest.raises(ValueError, match="synthetic records") as found:
        dpopt.minimize(each, (X, y), each.start(), epsilon=1.0, delta=1e-5)
    assert found.value.__context__ is None and "77" not in str(found.value)
    # and the next call is as if nothing had been
    assert len(each(each.start(), X[:3], y[:3])["4.bias"]) == 3
