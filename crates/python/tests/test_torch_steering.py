"""No code of a user steers who is in a batch, what is trained, or how often: draws, samplers, unclipped gradients, several processes, states of a training."""

import collections
import copy
import dataclasses
import enum
import io
import warnings

import dpopt
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpopt.torch import ClippedSumOptimizer, PrivateOptimizer, ZerothOrder, make_private, train_only  # noqa: E402
from dpopt.torch.synthetic import UnknownFormError, of_example, zeros  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils import data as td  # noqa: E402

TERMS = {
    "dataset_size": 60,
    "sampling_probability": 0.1,
    "steps": 6,
    "clip_norm": 1.0,
    "noise_multiplier": 1.0,
    "delta": 1e-6,
}


@pytest.fixture(autouse=True)
def _same_weights():
    """Networks begin with the same weights in every run: PyTorch seeds its generator from the system, anew in each process."""
    torch.manual_seed(0)


def sgd(parameters, rate=0.1, **more):
    return torch.optim.SGD(parameters, lr=rate, **more)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def table(n=80):
    X = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (n, 3)), dtype=torch.float32)
    return X, (X[:, 0] > 0).long()


def private(model=None, data=None, inner=None, **options):
    model = network() if model is None else model
    given = {"delta": 1e-6, "epochs": 1, "batch_size": 20, "max_grad_norm": 1.0, **options}
    if "epsilon" not in given:
        given.setdefault("noise_multiplier", 1.0)
    inner = sgd([p for p in model.parameters() if p.requires_grad]) if inner is None else inner
    return make_private(model, inner, table() if data is None else data, **given)


def refused(kind, match, act, ledger=None):
    """`act(ledger)` is refused, and before the charge."""
    ledger = dpopt.Ledger(1.0, 1e-5) if ledger is None else ledger
    with pytest.raises(kind, match=match) as why:
        act(ledger)
    assert ledger.spent == (0.0, 0.0)
    return str(why.value)


# draws


def drawers():
    model = nn.Linear(2, 1, bias=False)
    wide = [torch.zeros(0, 1, 2)]
    yield "records", PrivateOptimizer(sgd(model.parameters()), **TERMS), lambda o: o.step(wide)
    ids = [f"p{i % 60}" for i in range(90)]
    of_units = PrivateOptimizer(sgd(model.parameters()), units=ids, **TERMS, unit=dpopt.Unit(max_rows=2))
    yield "units", of_units, None
    forward = ZerothOrder(model, sgd(model.parameters()), **TERMS)
    yield "forward passes", forward, lambda o: o.step(lambda x: model(x)[:, 0], torch.zeros(0, 2))
    yield "sums", dpopt.ClippedSums(np.zeros(2), **TERMS), lambda o: o.step()
    yield "sums in p.grad", ClippedSumOptimizer(sgd(model.parameters()), **TERMS), lambda o: o.step()


@pytest.mark.parametrize("which", range(5))
def test_a_batch_is_drawn_once_and_stepped_on(which):
    name, optimizer, step = list(drawers())[which]
    for taken in range(6):
        drawn = optimizer.sample()
        for _ in range(3):
            with pytest.raises(RuntimeError, match="a batch waits for its step.*if it is empty"):
                optimizer.sample()
        if step is None:
            step_units(optimizer, len(drawn))
        else:
            step(optimizer)
        assert optimizer.steps_taken == taken + 1, name
    with pytest.raises(dpopt.BudgetExceeded, match="planned"):
        optimizer.sample()
    # where gradients come from is a word; that batches were drawn here is not
    assert optimizer.privacy_.grade == ("checked" if name == "forward passes" else "research")
    assert "drawn elsewhere" not in str(optimizer.privacy_)


def step_units(optimizer, rows):
    optimizer.step([torch.zeros(rows, 1, 2)])


def test_an_error_leaves_the_batch_that_was_drawn():
    model = nn.Linear(2, 1, bias=False)
    optimizer = PrivateOptimizer(sgd(model.parameters()), **TERMS)
    drawn = len(optimizer.sample())
    for wrong in ([torch.zeros(drawn + 1, 1, 2)], [torch.zeros(2, 1, 3)], [torch.zeros(1, 1, 2)] * 2):
        with pytest.raises(ValueError):
            optimizer.step(wrong)
        with pytest.raises(RuntimeError, match="waits for its step"):
            optimizer.sample()
    # and it takes the gradients of its records, as if nothing had been
    assert optimizer.step([torch.ones(drawn, 1, 2)]) and optimizer.steps_taken == 1
    assert "drawn elsewhere" not in str(optimizer.privacy_)
    forward = ZerothOrder(model, sgd(model.parameters()), **TERMS)
    forward.sample()
    # a function that fails on made-up records draws no directions
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        forward.step(lambda x: 1 / 0, torch.zeros(3, 2))
    assert forward._seeds is None

    def broken(x):
        if len(x) == 3:
            raise ZeroDivisionError
        return model(x)[:, 0]

    with pytest.raises(ZeroDivisionError):
        forward.step(broken, torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="waits for its step"):
        forward.sample()
    # and the directions: what is tried again is tried along the same ones
    seeds = list(forward._seeds)
    with pytest.raises(ZeroDivisionError):
        forward.step(broken, torch.zeros(3, 2))
    assert forward._seeds == seeds
    forward.step(lambda x: model(x)[:, 0], torch.zeros(0, 2))
    assert forward._seeds is None


def test_gradients_of_a_batch_from_elsewhere_are_released_before_one_is_drawn():
    optimizer = PrivateOptimizer(sgd(nn.Linear(2, 1, bias=False).parameters()), **TERMS)
    optimizer.accumulate([torch.ones(3, 1, 2)])
    with pytest.raises(RuntimeError, match="waits for its step"):
        optimizer.sample()
    optimizer.step([torch.ones(1, 1, 2)])
    optimizer.sample()
    assert optimizer.privacy_.grade == "research"


def interrupted(optimizer, name):
    """The next call of this method is made, and its answer lost."""
    whole = getattr(optimizer, name)

    def once(*given):
        setattr(optimizer, name, whole)
        whole(*given)
        raise KeyboardInterrupt

    setattr(optimizer, name, once)


@pytest.mark.parametrize("at", ["_drawn", "_add", "_release"])
def test_an_interrupted_loop_goes_on_with_the_batch_that_was_drawn(at):
    model, optimizer, loader = private(physical_batch_size=6)
    counts = []
    interrupted(optimizer, at)
    for _ in range(2):
        try:
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                if optimizer.step():
                    counts.append(optimizer.steps_taken)
        except KeyboardInterrupt:
            # one of the first batches of 20 expected records is empty, and adds nothing, with probability below 1e-9
            assert optimizer.steps_taken == (at == "_release")
            continue
        break
    assert optimizer.steps_taken == 4 == optimizer.releases[0]["count"] and "drawn elsewhere" not in str(
        optimizer.privacy_
    )


def test_a_part_that_was_added_before_an_interrupt_is_not_added_again():
    model, optimizer, loader = private(batch_size=80, physical_batch_size=30)
    added = []
    add = optimizer._add
    optimizer._add = lambda blocks: (added.append(len(blocks[0])), add(blocks))
    interrupted(optimizer, "_add")
    for _ in range(2):
        try:
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        except KeyboardInterrupt:
            with pytest.raises(RuntimeError, match="no batch"):
                optimizer.step()
    assert added == [30, 30, 20] and optimizer.steps_taken == 1


def test_under_add_or_remove_a_batch_is_drawn_from_the_records_that_there_are():
    model = nn.Linear(2, 1, bias=False)
    optimizer = PrivateOptimizer(
        sgd(model.parameters()), relation="add-or-remove", **(TERMS | {"sampling_probability": 1.0})
    )
    for records in (0, 1, 75):
        assert len(optimizer.sample(records)) == records
        optimizer.step([torch.zeros(records, 1, 2)])
    with pytest.raises(ValueError, match="public under this relation"):
        PrivateOptimizer(sgd(model.parameters()), **TERMS).sample(75)


# what a loader leaves out


class Odd(td.DataLoader):
    def __iter__(self):
        return iter([])


class Every(td.SequentialSampler):
    def __iter__(self):
        return iter(range(0, 80, 2))


def test_loaders_that_give_other_records_are_refused_before_the_charge():
    rows = td.TensorDataset(*table())
    half = td.Subset(rows, range(40))
    for loader in (
        td.DataLoader(rows, batch_size=20, sampler=td.SubsetRandomSampler(range(40))),
        td.DataLoader(rows, batch_size=20, sampler=td.WeightedRandomSampler([1.0] * 80, 80)),
        td.DataLoader(rows, batch_size=20, sampler=range(40)),
        td.DataLoader(rows, batch_size=20, sampler=td.SequentialSampler(half)),
        td.DataLoader(rows, batch_size=20, sampler=Every(rows)),
        td.DataLoader(rows, batch_size=20, sampler=td.RandomSampler(rows, replacement=True)),
        td.DataLoader(rows, batch_size=20, sampler=td.RandomSampler(rows, num_samples=40)),
        td.DataLoader(rows, batch_size=20, sampler=td.distributed.DistributedSampler(rows, 2, 0)),
        td.DataLoader(rows, batch_sampler=td.BatchSampler(td.SequentialSampler(half), 20, False)),
        td.DataLoader(rows, batch_size=None),
        td.DataLoader(rows, batch_size=30, drop_last=True),
        td.DataLoader(rows, batch_size=30, shuffle=True, drop_last=True),
        Odd(rows, batch_size=20),
    ):
        refused(
            ValueError, r"torch.utils.data.Subset\(", lambda b, data=loader: private(data=data, epsilon=1.0, budget=b)
        )
    for loader in (
        td.DataLoader(rows, batch_size=20),
        td.DataLoader(rows, batch_size=20, shuffle=True, generator=torch.Generator()),
        td.DataLoader(half, batch_size=20, shuffle=True),
        td.DataLoader(rows, batch_size=20, sampler=td.RandomSampler(rows)),
    ):
        model, optimizer, batches = private(data=loader, batch_size=None)
        assert optimizer.dataset_size == len(loader.dataset) and len(batches) == len(loader)


def test_records_outside_a_subset_are_never_given():
    X, y = table()
    X[40:] = 7.0
    loader = td.DataLoader(td.Subset(td.TensorDataset(X, y), range(40)), batch_size=20, shuffle=True)
    model, optimizer, batches = private(data=loader, batch_size=None, epochs=4)
    for _ in range(4):
        for x, t in batches:
            assert float(x.max()) <= 1.0
            F.cross_entropy(model(x), t).backward()
            optimizer.step()


def test_a_record_in_several_places_of_a_data_set_is_refused_where_places_are_protected():
    rows = td.TensorDataset(*table())
    for data in (
        td.Subset(rows, [0] * 20 + list(range(60))),
        td.Subset(rows, [-1, *range(80)]),
        td.Subset(td.Subset(rows, [5] * 80), range(80)),
        td.ConcatDataset([rows, rows]),
        td.ConcatDataset([td.Subset(rows, [1, 1]), rows]),
    ):
        for way in (data, td.DataLoader(data, batch_size=20)):
            refused(ValueError, "positions repeat.*units=", lambda b, d=way: private(data=d, epsilon=1.0, budget=b))
    ids = [0] * 20 + list(range(60))
    private(data=td.Subset(rows, ids), units=ids, batch_size=10, unit=dpopt.Unit(max_rows=4))
    private(data=td.ConcatDataset([td.Subset(rows, range(40)), td.Subset(rows, np.arange(40, 80))]))


# what nobody clips


def test_weights_that_the_optimizer_does_not_have_are_refused_before_the_charge():
    model = network()
    message = refused(
        ValueError,
        r'0\.weight, 0\.bias.*train_only\(model, \["2"\]\)',
        lambda b: private(model, inner=sgd(model[2].parameters()), epsilon=1.0, budget=b),
    )
    assert "requires_grad" in message
    # one weight of a module
    refused(
        ValueError, r'\["2.weight"\]', lambda b: private(model, inner=sgd([model[2].weight]), epsilon=1.0, budget=b)
    )
    model, optimizer, loader = private(model, inner=sgd(train_only(model, ["2"])))
    for x, y in loader:
        F.cross_entropy(model(x), y).backward()
        assert all(p.grad is None for p in model.parameters())
        optimizer.step()
        assert model[0].weight.grad is None and model[2].weight.grad is not None


def test_weights_that_are_unfrozen_later_are_refused_at_the_pass():
    model = network()
    model, optimizer, loader = private(model, inner=sgd(train_only(model, ["2"])))
    parts = iter(loader)
    x, y = next(parts)
    model[0].requires_grad_(True)
    with pytest.raises(ValueError, match=r"0\.weight, 0\.bias.*requires_grad_\(False\)"):
        F.cross_entropy(model(x), y).backward()
    assert all(p.grad is None for p in model.parameters())
    with torch.no_grad():
        model(x)
    # a copy, and a pass outside the loop, are the user's
    F.cross_entropy(copy.deepcopy(model)(x), y).backward()
    model[0].requires_grad_(False)
    F.cross_entropy(model(x), y).backward()
    assert optimizer.step()


def test_the_optimizer_inside_moves_by_what_was_released_alone():
    model = nn.Linear(2, 1)
    inner = sgd(model.parameters(), 1.0)
    model.bias.requires_grad_(False)
    optimizer = PrivateOptimizer(inner, **(TERMS | {"clip_norm": 1e-9}))
    model.bias.requires_grad_(True)
    model(torch.full((5, 2), 100.0)).square().sum().backward()
    model.bias.requires_grad_(False)
    before = model.bias.detach().clone(), model.weight.detach().clone()
    assert model.bias.grad is not None
    optimizer.accumulate([torch.ones(5, 1, 2)])
    # raw gradients beside those of each record are no one's to see
    assert model.weight.grad is None
    optimizer.step([torch.ones(0, 1, 2)])
    assert torch.equal(model.bias, before[0]) and model.bias.grad is None
    # clip and noise are 1e-9 over six expected records: thousands of standard deviations are allowed here, and what is not clipped is seen
    assert float((model.weight.detach() - before[1]).abs().max()) < 1e-6


def test_a_loss_with_weights_of_its_own_is_refused():
    class Margin(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, out, y):
            return F.cross_entropy(self.scale * out, y, reduction="none")

    loss = Margin()
    with pytest.raises(ValueError, match=r"loss.requires_grad_\(False\)"):
        dpopt.torch.RecordGradients(network(), loss)
    dpopt.torch.RecordGradients(network(), loss.requires_grad_(False))


# batches without records


@dataclasses.dataclass(frozen=True)
class Pair:
    x: torch.Tensor
    y: torch.Tensor
    names: list


Named = collections.namedtuple("Named", "x y")


class Moved:
    """As batches of other libraries: an object that goes to a device."""

    def __init__(self, x, y, size):
        self.x, self.y, self.size = x, y, size

    def to(self, device):
        return Moved(self.x.to(device), self.y.to(device), self.size)


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Colour(enum.Enum):
    NONE = 0
    RED = 7


class Rows(td.Dataset):
    """Records of which no number is 0."""

    def __init__(self, n=50):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return {"x": torch.full((3,), i + 7.0), "y": 1, "name": f"person {i}"}


def stacked(items):
    x = torch.stack([i["x"] for i in items])
    return x, torch.tensor([i["y"] for i in items]), [i["name"] for i in items]


FORMS = {
    "default": td.default_collate,
    "user dict": lambda items: collections.UserDict(zip("xyn", stacked(items))),
    "ordered": lambda items: collections.OrderedDict(zip("xyn", stacked(items))),
    "tuple": stacked,
    "named": lambda items: Named(*stacked(items)[:2]),
    "data class": lambda items: Pair(*stacked(items)),
    "object": lambda items: Moved(*stacked(items)[:2], len(items)),
    "slots": lambda items: Slotted(*stacked(items)[:2]),
    "arrays": lambda items: [stacked(items)[0], stacked(items)[1].numpy(), {"n": len(items), "of": stacked(items)[2]}],
}


def leaves(value):
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return [float(v) for v in value.reshape(-1)]
    if isinstance(value, (str, int, float)):
        return [value]
    if isinstance(value, collections.abc.Mapping):
        return [v for part in value.values() for v in leaves(part)]
    if isinstance(value, (list, tuple)):
        return [v for part in value for v in leaves(part)]
    names = value.__slots__ if hasattr(value, "__slots__") else vars(value)
    return [v for name in names for v in leaves(getattr(value, name))]


def columns(batch):
    if isinstance(batch, collections.abc.Mapping):
        return batch["x"], batch["y"]
    return (batch.x, batch.y) if hasattr(batch, "x") else batch[:2]


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_without_records_is_of_zeros_whatever_its_form(form):
    loader = td.DataLoader(Rows(), batch_size=1, collate_fn=FORMS[form])
    model, optimizer, batches = private(data=loader, batch_size=None, epochs=2)
    kinds, empty = set(), 0
    for _ in range(2):
        for batch in batches:
            kinds.add(type(batch))
            x, y = columns(batch)
            if not x.any():
                empty += 1
                assert x.shape == (1, 3) and x.dtype == torch.float32
                assert set(leaves(batch)) <= {0, "", 1 if form == "object" else 0}
            F.cross_entropy(model(x), torch.as_tensor(y)).backward()
            optimizer.step()
    # 36 of 100 expected, standard deviation 4.8: outside of these ends with probability below 1e-9; a loader that skips empty batches, or gives
    # nothing else, is always seen
    assert 8 <= empty <= 66 and len(kinds) == 1


def test_what_cannot_be_made_up_is_an_error_that_shows_no_value_and_comes_in_every_pass():
    class Pictures(Rows):
        def __getitem__(self, i):
            return {"x": object(), "y": "s3cret"}

    for relation in ("zero-out", "replace-one"):
        loader = td.DataLoader(Pictures(), batch_size=50, collate_fn=lambda items: items)
        _, _, batches = private(data=loader, batch_size=None, relation=relation)
        for _ in range(2):
            with pytest.raises(TypeError, match="which cannot be built from object; give example=") as why:
                next(iter(batches))
            assert "s3cret" not in str(why.value)
    for value in (object(), {1, 2}, iter([1]), print, nn.Linear(1, 1), np.array([None])):
        with pytest.raises(UnknownFormError):
            zeros({"a": [value]})
    loop = []
    loop.append(loop)
    with pytest.raises(UnknownFormError):
        zeros(loop)
    assert zeros(Colour.RED) is Colour.NONE and zeros((np.float32(3), None, b"x", True)) == (0.0, None, b"", False)


def test_an_example_gives_the_form_before_the_charge():
    unknown = object()
    loader = td.DataLoader(Rows(), batch_size=1, collate_fn=lambda items: (*stacked(items), unknown))
    for wrong, why in [
        ((torch.ones(2, 3), torch.ones(2), ["a", "b"], unknown), "an example of one record"),
        (["a", 3], "holds no tensor"),
        (torch.tensor(3.0), "holds no tensor"),
    ]:
        refused(
            ValueError,
            why,
            lambda b, e=wrong: private(data=loader, batch_size=None, example=e, epsilon=1.0, budget=b),
        )
    model, optimizer, batches = private(
        data=loader, batch_size=None, example=(torch.ones(1, 3), torch.ones(1, dtype=torch.long), ["a"], unknown)
    )
    for x, y, names, kept in batches:
        assert kept is unknown and (x.any() or (x.shape == (1, 3) and names == [""] and not y.any()))
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    # of several records one is left
    several = {
        "x": torch.ones(4, 3),
        "n": 4,
        "y": torch.ones(4),
        "of": list("abcd"),
        "pair": Pair(torch.ones(4), torch.ones(2), list("abcd")),
    }
    one = of_example(several)
    assert one["x"].shape == (1, 3) and one["of"] == [""] and one["n"] == 0 and one["pair"].names == [""]
    assert one["pair"].x.shape == (1,) and one["pair"].y.shape == (2,)


def test_a_collate_function_that_takes_no_zeros_is_refused_before_the_charge():
    def logs(items):
        if not all(x.any() for x, _ in items):
            raise KeyError("s3cret")
        return td.default_collate(items)

    loader = td.DataLoader(td.TensorDataset(*table()), batch_size=10, collate_fn=logs)
    message = refused(
        ValueError,
        "collate_fn does not take a record of zeros \\(KeyError\\)",
        lambda b: private(data=loader, epsilon=1.0, budget=b),
    )
    assert "s3cret" not in message


@pytest.mark.parametrize("kind", ["arrays", "tensors", "loader", "subset", "joined", "example"])
def test_whether_there_is_a_record_is_not_seen_under_add_or_remove(kind):
    def outcome(n):
        X, y = torch.zeros(n, 3), torch.zeros(n, dtype=torch.long)
        rows = td.TensorDataset(X, y)
        data, example = {
            "arrays": ((X.numpy(), y.numpy()), None),
            "tensors": ((X, y), None),
            "loader": (td.DataLoader(rows, batch_size=10), None),
            "subset": (td.Subset(rows, range(n)), None),
            "joined": (td.ConcatDataset([td.TensorDataset(torch.zeros(0, 3), torch.zeros(0).long()), rows]), None),
            "example": (
                td.DataLoader(Rows(n), batch_size=10, collate_fn=stacked),
                (torch.ones(1, 3), torch.ones(1, dtype=torch.long), ["a"]),
            ),
        }[kind]
        ledger = dpopt.Ledger(1.0, 1e-5, relation="add-or-remove")
        model, optimizer, loader = private(
            data=data, example=example, epsilon=1.0, relation="add-or-remove", dataset_size=50, loss_reduction="sum",
            batch_size=10, budget=ledger,
        )  # fmt: skip
        shapes = set()
        for x, t, *_ in loader:
            shapes.add((tuple(x.shape[1:]), x.dtype, t.dtype))
            F.cross_entropy(model(x), t, reduction="sum").backward()
            optimizer.step()
        return optimizer.steps_taken, ledger.spent[0] > 0, shapes

    assert outcome(0) == outcome(1) and outcome(1)[0] == 5


def test_data_whose_form_is_that_of_a_record_is_refused_alike_with_and_without_one():
    lists = lambda n: ([[0.0, 0.0, 0.0]] * n, [0] * n)  # noqa: E731
    for make in (Rows, lambda n: td.DataLoader(Rows(n), batch_size=5), lists):
        messages = set()
        for n in (0, 1):
            ledger = dpopt.Ledger(1.0, 1e-5, relation="add-or-remove")
            act = lambda b, n=n: private(  # noqa: E731
                data=make(n), epsilon=1.0, relation="add-or-remove", dataset_size=50, batch_size=10, budget=b
            )
            messages.add(refused(ValueError, "under add-or-remove no record may be read.*example=", act, ledger))
        assert len(messages) == 1


# one process


class FullyShardedDataParallel(nn.Module):
    """Of this name; torch's own needs a group of processes."""

    def __init__(self, module):
        super().__init__()
        self.module = module


class DeepSpeedEngine(nn.Module):
    """A module of the name that DeepSpeed's engine has."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def test_models_that_run_in_several_processes_are_refused_by_name_before_the_charge():
    for wrap in (nn.DataParallel, FullyShardedDataParallel, DeepSpeedEngine):
        for model in (wrap(network()), nn.Sequential(nn.Linear(3, 3), wrap(network()))):
            for make in (
                lambda b, m=model: private(m, epsilon=1.0, budget=b),
                lambda b, m=model: dpopt.torch.RecordGradients(m, F.cross_entropy),
                lambda b, m=model: ZerothOrder(
                    m,
                    sgd(m.parameters()),
                    epsilon=1.0,
                    budget=b,
                    **{k: v for k, v in TERMS.items() if k != "noise_multiplier"},
                ),
            ):
                refused(ValueError, f"{wrap.__name__} .*Train in one process", make)


@pytest.fixture
def group(tmp_path):
    """A group of one process, which is as good as none."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed here")
def test_a_process_that_is_one_of_several_is_warned(group, monkeypatch):
    with pytest.raises(ValueError, match="DistributedDataParallel .*model.module"):
        private(nn.parallel.DistributedDataParallel(network()))
    model = nn.Linear(2, 1)
    ways = [
        lambda: private(),
        lambda: PrivateOptimizer(sgd(model.parameters()), **TERMS),
        lambda: ZerothOrder(model, sgd(model.parameters()), **TERMS),
        lambda: ClippedSumOptimizer(sgd(model.parameters()), **TERMS),
        lambda: dpopt.torch.RecordGradients(model, F.mse_loss),
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".* processes")
        for way in ways:
            way()
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    for way in ways:
        with pytest.warns(dpopt.PrivacyWarning, match="one of 2 processes"):
            way()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.distributed, "is_torchelastic_launched", lambda: True)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.warns(dpopt.PrivacyWarning, match="one of 3 processes"):
        private()


def test_optimizers_that_step_more_than_once_or_in_several_processes_are_refused_before_the_charge():
    class ZeroRedundancyOptimizer(torch.optim.SGD):
        pass

    terms = {k: v for k, v in TERMS.items() if k != "noise_multiplier"} | {"epsilon": 1.0}
    model = nn.Linear(3, 2)
    for inner, why in [
        (torch.optim.LBFGS(model.parameters()), "LBFGS"),
        (ZeroRedundancyOptimizer(model.parameters(), lr=0.1), "ZeroRedundancyOptimizer is sharded"),
        (PrivateOptimizer(sgd(model.parameters()), **TERMS), "private already"),
    ]:
        refused(ValueError, why, lambda b, i=inner: PrivateOptimizer(i, budget=b, **terms))
        refused(ValueError, why, lambda b, i=inner: ClippedSumOptimizer(i, budget=b, **terms))
        refused(ValueError, why, lambda b, i=inner: ZerothOrder(model, i, budget=b, **terms))
        refused(ValueError, why, lambda b, i=inner: private(model, inner=i, epsilon=1.0, budget=b))


# stopping and going on


def run(model, optimizer, loader, passes=1):
    for _ in range(passes):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


def test_a_training_goes_on_from_a_state_with_the_steps_that_it_has_left():
    model = network()
    ledger = dpopt.Ledger(1.0, 1e-5)
    model, optimizer, loader = private(
        model, inner=sgd(model.parameters(), momentum=0.9), epochs=3, epsilon=1.0, budget=ledger
    )
    run(model, optimizer, loader)
    written = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, written)
    at = [p.detach().clone() for p in model.parameters()]
    moments = optimizer.state[model[0].weight]["momentum_buffer"].clone()
    run(model, optimizer, loader)
    # noise on a grid moves none of twelve weights in a step with probability below 1e-40
    assert not torch.equal(model[0].weight, at[0])
    for _ in range(2):
        # loaded twice: nothing is released twice
        read = torch.load(io.BytesIO(written.getvalue()), weights_only=True)
        model.load_state_dict(read["model"])
        optimizer.load_state_dict(read["optimizer"])
        assert all(torch.equal(p, b) for p, b in zip(model.parameters(), at))
        assert torch.equal(optimizer.state[model[0].weight]["momentum_buffer"], moments)
        assert optimizer.steps_taken == 8 and read["optimizer"]["dpopt"]["steps_taken"] == 4
    run(model, optimizer, loader)
    assert optimizer.releases[0]["count"] == 12 and len(ledger.entries) == 1 and optimizer.privacy_.epsilon <= 1.0
    with pytest.raises(dpopt.BudgetExceeded, match="planned"):
        iter(loader)
    optimizer.load_state_dict(read["optimizer"])
    with pytest.raises(dpopt.BudgetExceeded, match="planned"):
        iter(loader)


def test_a_state_of_another_training_is_refused_with_the_road_that_is_left():
    model, optimizer, loader = private()
    state = optimizer.state_dict()
    _, other, _ = private()
    for wrong, why in [
        (state, "which cannot be resumed.*start another training.*optimizer.optimizer.load_state_dict"),
        (sgd(model.parameters()).state_dict(), "not the state of a private training"),
        ({**state, "dpopt": None}, "not the state of a private training"),
        ({**state, "dpopt": {**state["dpopt"], "training": None}}, "of another training"),
        (None, "not the state of a private training"),
    ]:
        with pytest.raises(dpopt.PrivacyError, match=why):
            other.load_state_dict(wrong)
    # moments are released, and may be used
    other.optimizer.load_state_dict(state)
    for make in (
        lambda m: PrivateOptimizer(sgd(m.parameters()), **TERMS),
        lambda m: ZerothOrder(m, sgd(m.parameters()), **TERMS),
        lambda m: ClippedSumOptimizer(sgd(m.parameters()), **TERMS),
    ):
        one, two = make(network()), make(network())
        one.load_state_dict(one.state_dict())
        with pytest.raises(dpopt.PrivacyError, match="of another training"):
            two.load_state_dict(one.state_dict())
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copy.deepcopy(one)
        with pytest.raises(RuntimeError, match="all weights when it is made private"):
            one.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})


@pytest.mark.parametrize("inside", [True, False])
def test_schedulers_take_the_private_optimizer_or_the_one_inside(inside):
    model = network()
    model, optimizer, loader = private(model, inner=sgd(model.parameters(), 1.0, momentum=0.9), epochs=2)
    of = optimizer.optimizer if inside else optimizer
    assert isinstance(optimizer, torch.optim.Optimizer)
    schedulers = [
        torch.optim.lr_scheduler.StepLR(of, 1, gamma=0.5),
        torch.optim.lr_scheduler.LambdaLR(of, lambda k: 1.0),
        torch.optim.lr_scheduler.OneCycleLR(of, max_lr=1.0, total_steps=50),
        torch.optim.lr_scheduler.ReduceLROnPlateau(of, patience=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step_by = torch.optim.lr_scheduler.StepLR(of, 1, gamma=0.5)
        for group in optimizer.param_groups:
            group["lr"] = 1.0
        for _ in range(2):
            run(model, optimizer, loader)
            step_by.step()
    assert optimizer.param_groups[0]["lr"] == 0.25 and len(schedulers) == 4
    seen = []
    optimizer.register_step_post_hook(lambda *of: seen.append(of))
    assert optimizer.steps_taken == 8 and not seen


def test_a_rate_that_changes_between_parts_of_a_batch_is_warned_of():
    model, optimizer, loader = private(batch_size=80, physical_batch_size=30, epochs=2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with pytest.warns(dpopt.PrivacyWarning, match="between two parts of a batch"):
        for x, y in loader:
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in loader:
            F.cross_entropy(model(x), y).backward()
            if optimizer.step():
                scheduler.step()


# frozen norms


def backbone():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_a_frozen_batch_norm_is_taken_in_eval_mode_and_refused_in_a_pass_in_training_mode():
    model = backbone()
    with torch.no_grad():
        model(table()[0] * 3 + 1)
    refused(
        ValueError,
        "BatchNorm1d .* mixes the records.*train_only.*model.eval",
        lambda b: private(model, epsilon=1.0, budget=b),
    )
    parameters = train_only(model, ["3"])
    # in training mode still
    refused(ValueError, "mixes the records", lambda b: private(model, inner=sgd(parameters), epsilon=1.0, budget=b))
    model.eval()
    moved = dpopt.torch.MovedWeights(model)
    model, optimizer, loader = private(model, inner=sgd(parameters))
    state = {k: v.clone() for k, v in model.state_dict().items() if k.startswith("1.")}
    for k, (x, y) in enumerate(loader):
        if k == 1:
            model.train()
            for way in (lambda: model(x), lambda: model(table()[0])):
                with pytest.raises(ValueError, match=r"BatchNorm1d \(1\) is in training mode.*model.eval\(\)"):
                    way()
            # a copy is free
            copy.deepcopy(model)(x)
            model.eval()
            model[3].train()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in state.items())
    moved.confirm()
    # all steps are taken: on public data it is the user's again
    model.train()(table()[0])


def test_norms_whose_weights_are_trained_or_that_keep_no_statistics_are_refused():
    for model in (
        backbone().eval(),
        nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False, affine=False), nn.Linear(4, 2)
        ).eval(),
    ):
        refused(ValueError, "mixes the records", lambda b, m=model: private(m, epsilon=1.0, budget=b))
    keeping = nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.InstanceNorm1d(1, track_running_stats=True), nn.Flatten(), nn.Linear(3, 2)
    )
    refused(ValueError, "keeps statistics of the records", lambda b: private(keeping, epsilon=1.0, budget=b))
    model, optimizer, loader = private(keeping.eval())
    x, y = next(iter(loader))
    with pytest.raises(ValueError, match=r"InstanceNorm1d \(1\) is in training mode"):
        model.train()(x)
    F.cross_entropy(model.eval()(x), y).backward()
    assert optimizer.step()


def test_other_entrances_take_frozen_norms_too():
    model = backbone().eval()
    parameters = train_only(model, ["3"])
    loss = lambda out, y: F.cross_entropy(out, y, reduction="none")  # noqa: E731
    X, y = table()
    each = dpopt.torch.RecordGradients(model, loss)
    assert each(each.start(), X, y)["3.bias"].shape == (80, 2)
    model.train()
    with pytest.raises(ValueError, match="is in training mode"):
        each(each.start(), X, y)
    model.eval()
    forward = ZerothOrder(model, sgd(parameters), **(TERMS | {"dataset_size": 80}))
    forward.sample()
    model.train()
    with pytest.raises(ValueError, match="is in training mode"):
        forward.step(lambda x, t: loss(model(x), t), X[:3], y[:3])
    model.eval()
    assert forward.step(lambda x, t: loss(model(x), t), X[:0], y[:0])
