"""Whether what a model's weights get from a record is that record's own: tried on made-up records before the first release.

The reference is autograd's gradient of one record by itself; against it stand the recorded gradients of batches (:mod:`dpopt.torch.gradients`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from .. import _core
from .._self_check import (
    EXTREME,
    SIZES,
    SORTS,
    CannotBeTried,
    Evidence,
    NotOfOneRecord,
    Pool,
    examine,
    first_that_runs,
    of_example,
    synthetic,
)
from .closed_list import walk
from .gradients import PerRecord, refuse_mixing
from .guard import refuse_training_mode, seed_generators
from .slopes import RecordLoss, is_listed

#: Entries of per-record gradients that a trial holds at a time.
ENTRIES = 1 << 25
#: Entries of a record's gradient of one parameter that are compared one by one; of larger ones every k-th, and the norm.
COMPARED = 1 << 14


_KEPT = (
    "{} of the model changes in a forward pass: what it keeps of the records would leave with the model, without noise; keep nothing from call to call "
    "(statistics: GroupNorm or LayerNorm, or a buffer that is computed on public data before the training)"
)


class _WithoutDropout(TorchFunctionMode):
    """Dropout that drops nothing: masks are drawn from secret coins in a training, and would differ from call to call here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "dropout" in getattr(func, "__name__", ""):
            return args[0] if args else (kwargs or {})["input"]
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def secret_coins(seed: int | None = None) -> Iterator[None]:
    """Random numbers that PyTorch draws in here come from secret coins (or from `seed`), and those outside go on as before."""
    devices = (
        list(range(torch.cuda.device_count())) if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    )
    with torch.random.fork_rng(devices):
        seed_generators(secret_seed() if seed is None else seed)
        yield


def secret_seed(seed: int | None = None) -> int:
    """What PyTorch's generator is seeded with: from the operating system, or from an insecure seed."""
    return int(_core.random_below(2**62, 1, seed)[0])


def _kept(model: nn.Module) -> dict[str, Any]:
    """What a model keeps beside its parameters: buffers, and tensors and numbers that modules have as attributes."""
    found: dict[str, Any] = {f"the buffer {name}": b.detach().clone() for name, b in model.named_buffers()}
    skipped = {"training", "_parameters", "_buffers", "_modules"}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if (
                key in skipped
                or key.startswith("_forward")
                or key.startswith("_backward")
                or isinstance(value, nn.Module)
            ):
                continue
            _note(found, f"the attribute {f'{name}.' if name else ''}{key}", value, 4)
    return found


def _note(found: dict[str, Any], key: str, value: Any, deep: int) -> None:
    """A copy of an attribute, or of what it holds."""
    if isinstance(value, (torch.Tensor, np.ndarray, int, float, bool)) or value is None:
        copied = value.detach().clone() if isinstance(value, torch.Tensor) else np.array(value)
        found[key] = None if value is None else copied
    elif isinstance(value, nn.Module) or callable(value) or not deep:
        return
    elif isinstance(value, Mapping):
        found[f"{key} (its length)"] = np.array(len(value))
        for name, part in value.items():
            _note(found, f"{key}[{name!r}]", part, deep - 1)
    elif isinstance(value, (list, tuple, deque, set, frozenset)):
        found[f"{key} (its length)"] = np.array(len(value))
        for i, part in enumerate(value):
            _note(found, f"{key}[{i}]", part, deep - 1)
    elif hasattr(value, "__dict__"):
        for name, part in vars(value).items():
            _note(found, f"{key}.{name}", part, deep - 1)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    for key in before.keys() | after.keys():
        a, b = before.get(key), after.get(key)
        if (a is None) != (b is None):
            return key
        if a is None or b is None:
            continue
        if a.shape != b.shape or not np.array_equal(_plain(a), _plain(b), equal_nan=True):
            return key
    return None


def _plain(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype in (torch.bfloat16, torch.float16) else value.numpy()
    found = np.asarray(value)
    return found.astype(np.float64) if found.dtype.kind in "iub" else found


@contextlib.contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Buffers, gradients and PyTorch's random numbers are afterwards what they were."""
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    gradients: list[tuple[Any, Any]] = [(p, p.grad) for p in model.parameters()]
    with secret_coins(0):
        try:
            yield
        finally:
            with torch.no_grad():
                for b, before in buffers:
                    b.copy_(before)
            for p, before in gradients:
                p.grad = before


@dataclass(frozen=True)
class Form:
    """How a batch is handed to model and loss.

    Attributes
    ----------
    inputs
        What the model takes of a batch.
    targets
        What the loss takes beside the model's output.
    """

    inputs: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]
    targets: Callable[[Any], tuple[Any, ...]]


def first_is_input(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``model(x)`` of a batch ``(x, *targets)``, ``model(**batch)`` of a dictionary."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    return ((batch[0],) if isinstance(batch, (tuple, list)) else (batch,)), {}


def rest_are_targets(batch: Any) -> tuple[Any, ...]:
    """What follows the inputs of a batch ``(x, *targets)``."""
    return tuple(batch[1:]) if isinstance(batch, (tuple, list)) else ()


#: How a batch may come to the model; the first that runs is taken where the loss is not shown.
FORMS = (
    Form(first_is_input, rest_are_targets),
    Form(lambda b: (tuple(b[:-1]), {}), lambda b: (b[-1],)),
    Form(lambda b: (tuple(b), {}), lambda b: ()),
)


class _Stand(nn.Module):
    """A loss that stands for an unknown one: every number of a record's output counts, each by a weight of its own."""

    def forward(self, output: Any, *targets: Any) -> torch.Tensor:
        total: Any = 0.0
        leaves = [
            t
            for t in _pytree.tree_leaves(dict(output) if isinstance(output, Mapping) else output)
            if isinstance(t, torch.Tensor)
        ]
        for leaf in leaves:
            if leaf.dim() and leaf.requires_grad:
                weights = torch.cos(torch.arange(max(leaf[0].numel(), 1), dtype=torch.float32) * 1.7 + 0.3).reshape(
                    leaf.shape[1:]
                )
                total = total + (leaf * weights.to(leaf.device, leaf.dtype) + 0.5 * leaf * leaf).sum()
        if not isinstance(total, torch.Tensor):
            raise CannotBeTried("the model's output has no tensor that depends on the trained weights")
        return total


@dataclass
class _Trial:
    model: nn.Module
    parameters: list[Any]
    recorder: PerRecord
    loss: Callable[..., Any]
    form: Form
    #: multiply a record's share of a mean by the number of records
    mean: bool
    random: bool = False

    def _forward(self, batch: Any) -> Any:
        args, named = self.form.inputs(batch)
        return self.model(*args, **named)

    def _loss(self, output: Any, batch: Any) -> torch.Tensor:
        found = self.loss(output, *self.form.targets(batch))
        if not isinstance(found, torch.Tensor):
            raise CannotBeTried("the loss gave no tensor")
        return found

    def batch(self, pool: Pool, positions: list[int]) -> np.ndarray:
        """Recorded gradients of a batch, as a training takes them."""
        batch = pool.at(positions)
        seed_generators(0)
        self.recorder.awaited = len(positions)
        try:
            with torch.enable_grad():
                losses = self._loss(self._forward(batch), batch)
                losses.sum().backward()
            found = self.recorder.take(self.parameters)
        finally:
            self.recorder.awaited = None
        scale = len(positions) if self.mean and losses.dim() == 0 else 1
        return self._compared([None if g is None else g * scale for g in found], len(positions))

    def alone(self, pool: Pool, position: int) -> np.ndarray:
        """Autograd's gradient of one record by itself, of which no recorder knows."""
        batch = pool.at([position])
        seed_generators(0)
        with torch.enable_grad():
            losses = self._loss(self._forward(batch), batch)
            found = torch.autograd.grad(losses.sum(), self.parameters, allow_unused=True)
        return self._compared([None if g is None else g.unsqueeze(0) for g in found], 1)[0]

    def _compared(self, blocks: Sequence[Any], records: int) -> np.ndarray:
        parts = []
        for p, block in zip(self.parameters, blocks):
            every = -(-p.numel() // COMPARED)
            if block is None:
                parts.append(np.zeros((records, -(-p.numel() // every) + 1)))
                continue
            flat = block.detach().reshape(records, -1)
            norms = flat.double().norm(dim=1, keepdim=True)
            parts.append(torch.cat([flat[:, ::every].double(), norms], dim=1).cpu().numpy())
        return np.concatenate(parts, axis=1)


def try_model(
    model: nn.Module,
    parameters: list[Any],
    pools: Sequence[Callable[[], Pool]],
    *,
    loss: Callable[..., Any] | None,
    mean: bool,
    each: bool = False,
    forms: Sequence[Form] = FORMS,
) -> Evidence:
    """Tries the per-record gradients of a model on made-up records, and traces its forward pass.

    Parameters
    ----------
    model
        What is trained, as it is (in training mode or not).
    parameters
        The trained ones.
    pools
        Kinds of made-up records, in the order in which they are tried.
    loss
        Of outputs and targets; None: nobody has shown it.
    mean
        The loss is a mean over the batch.
    each
        The loss gives one number for each record.
    forms
        How a batch may come to model and loss.

    Raises
    ------
    NotOfOneRecord
        A record's gradient depends on more than the record.
    CannotBeTried
        It fails on made-up records.
    """
    refuse_mixing(model)
    refuse_training_mode(model)
    device = parameters[0].device
    pools = [partial(_moved, made, device) for made in pools]
    numbers = sum(p.numel() for p in parameters)
    sizes = SIZES if SIZES[-1] * numbers <= ENTRIES else (2, 3)
    recorder = PerRecord(model, parameters, mean=False)
    own = loss is None
    judged: Callable[..., Any] = _Stand() if loss is None else loss
    trial = _Trial(model, parameters, recorder, judged, forms[0], mean and not own)
    try:
        with _as_it_was(model):
            before = _kept(model)

            def runs(pool: Pool) -> None:
                failure: Exception | None = None
                for form in forms if own else forms[:1]:
                    trial.form = form
                    try:
                        with _WithoutDropout():
                            trial.alone(pool, 0)
                            _one_each(trial, pool, each)
                        return
                    except (NotOfOneRecord, CannotBeTried):
                        raise
                    except Exception as why:
                        failure = failure or why
                assert failure is not None
                raise failure

            pool, _ = first_that_runs(pools, runs)
            with _WithoutDropout():
                a, b = _twice(trial, pool)
                trial.random = not np.array_equal(a, b, equal_nan=True) and not np.allclose(
                    a, b, rtol=1e-3, equal_nan=True
                )

                def said(positions: list[int]) -> np.ndarray:
                    try:
                        return trial.batch(pool, positions)
                    except ValueError as why:
                        if "the first axis" in str(why):
                            raise NotOfOneRecord(str(why)) from None
                        raise
                    except Exception as why:
                        special = {pool.zeroed, pool.extreme} & set(positions)
                        if special:
                            raise CannotBeTried(str(why)) from None
                        raise NotOfOneRecord(
                            f"it runs for one record by itself and fails for {len(positions)} ({type(why).__name__}: {why}); every module must take any "
                            "number of records on the first axis"
                        ) from None

                tried = examine(
                    "the model's gradients" if own else "the gradients of model and loss",
                    said, pool, alone=lambda i: trial.alone(pool, i), sizes=sizes, random=trial.random,
                    rounding=max(torch.finfo(p.dtype).eps for p in (*parameters, torch.zeros((), dtype=torch.float32))),
                )  # fmt: skip
            _first_pass(trial, pool, sizes[0])
            moved = _changed(before, _kept(model))
            if moved is not None:
                raise NotOfOneRecord(_KEPT.format(moved))
            batch = pool.at(pool.batch(sizes[0]))
            args, named = trial.form.inputs(batch)
            ended = "its inputs come by name" if named else walk(model, args, parameters)
    finally:
        recorder.remove()
    kept = "; buffers and attributes unchanged; dropout masks come from secret coins"
    if own:
        return Evidence(
            "research", f"the loss was not shown, so that it may mix records (give loss=); the model was {tried}{kept}"
        )
    if trial.random:
        return Evidence("research", f"the model or its loss draws random numbers of its own; {tried}{kept}")
    if ended is None and not is_listed(loss):
        ended = "the loss is not one of torch's"
    if ended is None:
        return Evidence("certified", "every step of the model and its loss treats records one by one")
    return Evidence(
        "checked",
        f"that a record's gradient depends on that record alone was {tried}{kept}; not by construction, since {ended}",
    )


def _first_pass(trial: _Trial, pool: Pool, size: int) -> None:
    """A pass as a training makes it, dropout included: what fails there fails before anything is charged."""
    try:
        trial.batch(pool, pool.batch(size))
        if not isinstance(trial.loss, _Stand):
            batch = pool.at(pool.batch(size))
            with torch.no_grad():
                output = trial._forward(batch)
            if isinstance(output, torch.Tensor):
                RecordLoss(trial.loss).slopes(output, trial.form.targets(batch))
    except ValueError:
        raise
    except Exception as why:
        raise CannotBeTried(
            f"a backward pass over {size} synthetic records fails ({type(why).__name__}: {why})"
        ) from None


def _moved(made: Callable[[], Pool], device: Any) -> Pool:
    """Records where the model is."""
    pool = made()

    def at(positions: Sequence[int]) -> Any:
        return _pytree.tree_map(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t, pool.at(positions))

    return replace(pool, at=at)


def _twice(trial: _Trial, pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of one record under two seeds of PyTorch's generator, which are equal if the model draws nothing."""
    found = []
    for seed in (1, 2):
        batch = pool.at([0])
        seed_generators(seed)
        with torch.enable_grad():
            losses = trial._loss(trial._forward(batch), batch)
            grads = torch.autograd.grad(losses.sum(), trial.parameters, allow_unused=True)
        found.append(trial._compared([None if g is None else g.unsqueeze(0) for g in grads], 1))
    return found[0], found[1]


def _one_each(trial: _Trial, pool: Pool, each: bool) -> None:
    if not each:
        return
    batch = pool.at(pool.batch(SIZES[0]))
    with torch.no_grad():
        losses = trial._loss(trial._forward(batch), batch)
    if losses.shape != (SIZES[0],):
        raise CannotBeTried('the loss did not return one number for each record; give it reduction="none"')


def pools_of(batch: Any, example: Any = None) -> list[Callable[[], Pool]]:
    """Made-up records of the form of a batch; its values are not read. Or those of an example, a batch that is not sensitive."""
    given = batch if example is None else example
    mapped: Any = type(given) if isinstance(given, Mapping) and not isinstance(given, dict) else None
    leaves, spec = _pytree.tree_flatten(dict(given) if mapped else given)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if not places:
        raise CannotBeTried("a batch holds no tensor; give example=, a batch of non-sensitive records")
    tensors = [leaves[i] for i in places]

    def whole(pool: Pool) -> Pool:
        def at(positions: Sequence[int]) -> Any:
            found = list(leaves)
            for i, part in zip(places, pool.at(positions)):
                found[i] = part
            made = _pytree.tree_unflatten(found, spec)
            return mapped(made) if mapped else made

        return Pool(at, pool.usual, pool.zeroed, pool.extreme, pool.origin)

    # of one record its form is taken
    if example is not None and len(tensors[0]) > 1:
        return [lambda: whole(of_example(tensors))]

    def of_sort(sort: str) -> Pool:
        return whole(synthetic(tensors, sort))

    return [partial(of_sort, sort) for sort in SORTS]


def pool_of_records(records: list[Any], collate: Callable[[list[Any]], Any]) -> Pool:
    """Records as a data set has them, that are not sensitive, put together by the user's function."""
    if len(records) < 2:
        raise ValueError("example has fewer than two records; give at least two, which must not be sensitive")

    def scaled(factor: float) -> Any:
        def leaf(t: Any) -> Any:
            if not isinstance(t, torch.Tensor):
                return t
            return t * factor if t.is_floating_point() else t.clone().zero_() if factor == 0.0 else t

        return _pytree.tree_map(leaf, records[0])

    every = [*records, scaled(0.0), scaled(EXTREME)]
    count = len(records)
    return Pool(
        lambda positions: collate([every[i] for i in positions]),
        count,
        count,
        count + 1,
        f"{count} records of the example, one of zeros and one with very large numbers",
    )


def _special(pool: Pool, positions: Sequence[int], why: Exception) -> Exception:
    """What a failure comes to: on records of zeros or of very large numbers it refutes nothing."""
    return CannotBeTried(str(why)) if {pool.zeroed, pool.extreme} & set(positions) else why


def try_losses(model: nn.Module, losses: Callable[..., Any], pools: Sequence[Callable[[], Pool]]) -> Evidence:
    """Tries losses that are called with a batch and give one number for each of its records.

    Raises
    ------
    NotOfOneRecord
        A record's loss depends on more than the record.
    CannotBeTried
        They fail on made-up records.
    """
    refuse_training_mode(model)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))

    def said(pool: Pool, positions: Sequence[int]) -> np.ndarray:
        seed_generators(0)
        batch = pool.at(positions)
        with torch.no_grad():
            found = losses(*(batch if isinstance(batch, (tuple, list)) else (batch,)))
        if not isinstance(found, torch.Tensor) or found.shape != (len(positions),):
            raise CannotBeTried('the losses are not a vector with one loss for each record; use reduction="none"')
        return found.detach().cpu().double().numpy()[:, None]

    with _as_it_was(model):
        before = _kept(model)
        moved = [partial(_moved, made, device) for made in pools]
        with _WithoutDropout():
            pool, _ = first_that_runs(moved, lambda pool: (said(pool, [0]), said(pool, pool.batch(SIZES[0]))))

            def rows(positions: list[int]) -> np.ndarray:
                try:
                    return said(pool, positions)
                except Exception as why:
                    raise _special(pool, positions, why) from None

            tried = examine("the losses", rows, pool)
        changed = _changed(before, _kept(model))
        if changed is not None:
            raise NotOfOneRecord(_KEPT.format(changed))
    return Evidence(
        "checked", f"that a record's loss depends on that record alone was {tried}; buffers and attributes unchanged"
    )


def try_gradients(
    gradients: Callable[..., Any], parameters: Sequence[Any], pools: Sequence[Callable[[], Pool]]
) -> Evidence:
    """Tries a function that is called with a batch and gives per-record gradients, one tensor (records × shape) for each of `parameters`.

    Raises
    ------
    NotOfOneRecord
        A record's gradient depends on more than the record.
    CannotBeTried
        It fails on made-up records.
    """

    def said(pool: Pool, positions: Sequence[int]) -> np.ndarray:
        seed_generators(0)
        batch = pool.at(positions)
        found = gradients(*(batch if isinstance(batch, (tuple, list)) else (batch,)))
        given = list(found.values()) if isinstance(found, Mapping) else list(found)
        if len(given) != len(parameters) or any(
            g is not None and g.shape != (len(positions), *p.shape) for p, g in zip(parameters, given)
        ):
            raise CannotBeTried(
                "it did not return a tensor of records × shape for each trained parameter, in the optimizer's order"
            )
        flat = [
            torch.zeros(len(positions), p.numel()) if g is None else g.detach().reshape(len(positions), -1).cpu()
            for p, g in zip(parameters, given)
        ]
        return torch.cat([f.double() for f in flat], 1).numpy()

    device = parameters[0].device
    moved = [partial(_moved, made, device) for made in pools]
    with secret_coins(0), _WithoutDropout():
        pool, _ = first_that_runs(moved, lambda pool: (said(pool, [0]), said(pool, pool.batch(SIZES[0]))))

        def rows(positions: list[int]) -> np.ndarray:
            try:
                return said(pool, positions)
            except Exception as why:
                raise _special(pool, positions, why) from None

        tried = examine("the gradients", rows, pool)
    return Evidence("checked", f"that a record's gradient depends on that record alone was {tried}")


def check(model: nn.Module, loss: Callable[..., Any], example: Any, *, mean: bool = True) -> Evidence:
    """Whether a model and its loss give every record a gradient of its own: tried on records that are not sensitive.

    >>> import torch, dpopt.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> example = (torch.randn(8, 4), torch.randint(0, 2, (8,)))
    >>> dpopt.torch.check(model, torch.nn.functional.cross_entropy, example).grade
    'certified'

    Records go one at a time and in batches of two sizes, in another order, with one replaced, one of zeros and one with very large numbers: a record's gradient must stay what it is,
    others' to the last bit; buffers and attributes of the model must not change.

    Parameters
    ----------
    model
        A module; its trained parameters are those with ``requires_grad``.
    loss
        ``loss(output, *targets)``: a number, or one for each record.
    example
        A batch ``(x, *targets)`` of at least two records that are not sensitive: made-up or public ones.
    mean
        A loss that is one number is a mean over the batch, not a sum.

    Returns
    -------
    What may be said of it: ``grade`` and ``why``.

    Raises
    ------
    ValueError
        What is wrong, and the way out.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("no parameter of the model has requires_grad: nothing would be trained")
    return try_model(model, trained, pools_of(None, example), loss=loss, mean=mean)


__all__ = [
    "Form",
    "check",
    "pool_of_records",
    "pools_of",
    "secret_coins",
    "secret_seed",
    "try_gradients",
    "try_losses",
    "try_model",
]
