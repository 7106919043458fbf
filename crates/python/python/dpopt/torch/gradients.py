"""Per-record gradients of a model: what each module's weights get from each record of a batch.

A hook on a module's output takes the gradient there and the module's input. Linear, convolution, embedding and layer norm have
rules of their own (an outer product, or a product of matrices, for each record); every other module goes through
``torch.func.vmap`` over the records. The gradients stay in the recorder and never in ``p.grad`` or on the module, so that a model
that is saved or copied has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree

from .closed_list import foreign_hooks
from .guard import FREEZE, HOOKS, Refused, normalizes_by_records, trains
from .ranks import refuse_parallel
from .slopes import RecordLoss

#: Why modules can't be trained here: what a record gives would depend on the other records, or cannot be told apart.
_MIXING: list[tuple[tuple[type, ...], Callable[[Any], bool], str]] = [
    (
        (nn.modules.batchnorm._BatchNorm,),
        lambda m: normalizes_by_records(m) or trains(m),
        f"mixes the records of a batch in training mode; use GroupNorm or LayerNorm, or {FREEZE}",
    ),
    (
        (nn.modules.instancenorm._InstanceNorm,),
        lambda m: m.track_running_stats and (m.training or trains(m)),
        f"keeps statistics of the records; make it with track_running_stats=False, or {FREEZE}",
    ),
    (
        (nn.Embedding, nn.EmbeddingBag),
        lambda m: m.max_norm is not None or m.scale_grad_by_freq,
        "changes weights by the records without noise; make it without max_norm and scale_grad_by_freq",
    ),
    (
        (nn.EmbeddingBag, nn.RNNBase, nn.MultiheadAttention),
        lambda m: True,
        "has no per-record gradients here; give gradients of your own (torch.func.vmap) to dpopt.torch.PrivateOptimizer",
    ),
]


def refuse_mixing(model: nn.Module, gradients: bool = True) -> None:
    """Refuses modules whose outputs for a record depend on other records, or (if `gradients` are asked for) whose per-record gradients are not known.

    What a module of your own computes cannot be seen here: it is tried on made-up records (:mod:`dpopt.torch.self_check`).
    """
    refuse_parallel(model)
    for name, module in model.named_modules():
        for kinds, wrong, why in _MIXING if gradients else _MIXING[:-1]:
            if isinstance(module, kinds) and wrong(module):
                raise ValueError(f"{type(module).__name__} ({name or 'the model'}) {why}")
        if any(nn.parameter.is_lazy(p) for p in module.parameters(recurse=False)):
            raise ValueError(
                f"{type(module).__name__} ({name or 'the model'}) has no shape yet; run the model once first"
            )


def _matrices(x: torch.Tensor) -> torch.Tensor:
    """Records × positions × entries."""
    return x.reshape(len(x), -1, x.shape[-1])


def _linear(module: Any, x: torch.Tensor, g: torch.Tensor, give: Give) -> None:
    if x.dim() == 2:
        # an outer product per record, written where it stays
        give(module.weight, lambda out: torch.mul(g.unsqueeze(2), x.unsqueeze(1), out=out))
        give(module.bias, lambda out: out.copy_(g))
        return
    x, g = _matrices(x), _matrices(g)
    give(module.weight, lambda out: torch.bmm(g.transpose(1, 2), x, out=out))
    give(module.bias, lambda out: torch.sum(g, 1, out=out))


def _convolution(module: Any, x: torch.Tensor, g: torch.Tensor, give: Give) -> None:
    def pair(values: Any, first: int) -> tuple[int, ...]:
        return (first, *values) if x.dim() == 3 else tuple(values)

    kernel, stride, dilation = (pair(v, 1) for v in (module.kernel_size, module.stride, module.dilation))
    padding = pair([0] * len(module.kernel_size) if module.padding == "valid" else module.padding, 0)
    image = x.unsqueeze(2) if x.dim() == 3 else x
    # records × (groups × inputs of a group and places of the kernel) × positions
    windows = F.unfold(image, kernel, dilation, padding, stride)
    n, groups = len(x), module.groups
    windows = windows.reshape(n * groups, -1, windows.shape[-1])
    slopes = g.reshape(n * groups, module.out_channels // groups, -1)

    def weight(out: torch.Tensor) -> None:
        torch.bmm(slopes, windows.transpose(1, 2), out=out.view(n * groups, slopes.shape[1], -1))

    give(module.weight, weight)
    give(module.bias, lambda out: torch.sum(g.flatten(2), 2, out=out))


def _embedding(module: Any, x: torch.Tensor, g: torch.Tensor, give: Give) -> None:
    index = x.reshape(len(x), -1)
    slopes = g.reshape(*index.shape, -1)
    if module.padding_idx is not None:
        slopes = slopes * (index != module.padding_idx).unsqueeze(2)

    def weight(out: torch.Tensor) -> None:
        out.zero_().scatter_add_(1, index.unsqueeze(2).expand_as(slopes), slopes)

    give(module.weight, weight)


def _layer_norm(module: Any, x: torch.Tensor, g: torch.Tensor, give: Give) -> None:
    shape = module.normalized_shape
    plain = F.layer_norm(x, shape, eps=module.eps)
    give(module.weight, lambda out: torch.sum((g * plain).reshape(len(x), -1, *shape), 1, out=out))
    give(module.bias, lambda out: torch.sum(g.reshape(len(x), -1, *shape), 1, out=out))


#: A rule writes each parameter's block of gradients by `give(parameter, write)`.
Give = Callable[[Any, Callable[[torch.Tensor], Any]], None]
Rule = Callable[[Any, torch.Tensor, torch.Tensor, Give], None]


def _rule(module: nn.Module, x: Any) -> Rule | None:
    """The rule of a module of exactly this type (a subclass may compute something else) for such an input."""
    kind = type(module)
    if kind is nn.Linear and x.dim() >= 2:
        return _linear
    if kind in (nn.Conv1d, nn.Conv2d) and x.dim() == (3 if kind is nn.Conv1d else 4):
        plain: Any = module
        return _convolution if plain.padding_mode == "zeros" and plain.padding != "same" else None
    if kind is nn.Embedding:
        return _embedding
    if isinstance(module, nn.LayerNorm) and kind is nn.LayerNorm and x.dim() > len(module.normalized_shape):
        return _layer_norm
    return None


class PerRecord:
    """Records the per-record gradients of `parameters` in backward passes over the batch that is :attr:`awaited`.

    Parameters
    ----------
    model
        What is trained.
    parameters
        Those of its parameters that the optimizer moves.
    mean
        The loss is a mean over the records of the batch that is handed in, not their sum.
    loss
        Of each record by itself: slopes at the model's output are then its own, whatever loss the backward pass begins with.
    """

    def __init__(self, model: nn.Module, parameters: list[Any], mean: bool, loss: RecordLoss | None = None) -> None:
        self._mean = mean and loss is None
        self._loss = loss
        #: the batch whose gradients are recorded: what the model takes, the targets, and how often each was written to; None: not known
        self._handed: tuple[Any, tuple[Any, ...], list[int]] | None = None
        #: what the loop did that was not tried, in words; None: nothing
        self.strayed: str | None = None
        #: how many calls of the model are under way
        self._within = 0
        #: what the model is made of, as it was tried
        self._made_of = None if loss is None else _made_of(model)
        self._handles: list[Any] = []
        self._trained = {id(p) for p in parameters}
        self._awaited: int | None = None
        self._turn = 0
        self._recomputing = False
        self._found: dict[int, torch.Tensor] = {}
        self._room: dict[int, torch.Tensor] = {}
        if loss is not None:
            entered = model.register_forward_pre_hook(self._enter)
            HOOKS.add(entered.id)
            self._handles.append(entered)
            # first, so that a model that is one module of torch sees them too
            self._hook(model, self._output)
        for name, module in model.named_modules():
            if any(id(p) in self._trained for p in module.parameters(recurse=False)):
                label = f"{type(module).__name__} ({name or 'the model'})"
                self._hook(module, partial(self._forward, label))
        if loss is not None:
            self._hook(model, self._leave)
        for name, p in model.named_parameters():
            if id(p) in self._trained:
                self._handles.append(p.register_post_accumulate_grad_hook(partial(self._drop, name)))

    def _hook(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        handle = module.register_forward_hook(hook, with_kwargs=True)
        HOOKS.add(handle.id)
        self._handles.append(handle)

    def remove(self) -> None:
        """Takes all hooks away again."""
        for handle in self._handles:
            handle.remove()
            HOOKS.discard(handle.id)
        self._handles = []

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the model, in a file or in memory, records nothing and holds no gradients."""
        return {"_mean": self._mean, "_loss": None, "_trained": set(), "_recomputing": False} | _nothing()

    def _enter(self, model: Any, args: Any) -> None:
        self._within += 1

    def _leave(self, model: Any, args: Any, kwargs: Any, output: Any) -> None:
        self._within -= 1

    def _output(self, model: Any, args: Any, kwargs: Any, output: Any) -> Any:
        """The slopes at the model's output are those of each record's own loss."""
        if self._awaited is None or self._recomputing or not torch.is_grad_enabled() or self._loss is None:
            return None
        if not isinstance(output, torch.Tensor):
            raise Refused("the model gives more than one tensor; loss= is for models with one")
        if self._handed is None or not output.requires_grad:
            return None
        given, targets, versions = self._handed
        if not args or not _same(args[0], given) or versions != _versions(given, targets):
            self.strayed = "the loop gave the model something else than the records that the loader gave: that it did not mix them is your word"
        now, before = _made_of(model), self._made_of or {}
        if now != before:
            name = next(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
            self.strayed = (
                f"{name} was changed after the model was tried (its mode, hooks, parts or attributes), and what it does since is your word; "
                "have it as it is trained, model.train() say, when make_private is called"
            )
        # a tensor of its own: hooks of the last module inside are on the output already, and would see the slopes of the loop's loss
        given_out = output.view_as(output)
        given_out.register_hook(partial(self._own_slopes, self._turn, self._loss, output.detach(), targets))
        return given_out

    def hand_out(self, inputs: Any, targets: tuple[Any, ...]) -> None:
        """Notes the batch that a loop is given."""
        self._handed = (inputs, targets, _versions(inputs, targets))

    def _own_slopes(self, turn: int, loss: RecordLoss, output: torch.Tensor, targets: Any, slopes: torch.Tensor) -> Any:
        if turn != self._turn or len(output) != self._awaited:
            return None
        try:
            own = loss.slopes(output, targets)
            if self._handed is not None and self._handed[2] != _versions(self._handed[0], targets):
                self.strayed = (
                    self.strayed
                    or "the loop wrote to the records or targets that the loader gave: that it did not mix them is your word"
                )
        except Refused:
            raise
        except Exception as why:
            # its message may hold values of records
            failed = type(why).__name__
        else:
            return own.to(slopes.dtype)
        raise Refused(
            f"loss= failed on the batch ({failed}), and its message is not shown, since it may contain values of records"
        )

    @property
    def awaited(self) -> int | None:
        """Records of the batch whose gradients are recorded; None: nothing is."""
        return self._awaited

    @awaited.setter
    def awaited(self, records: int | None) -> None:
        self._awaited = records
        self._turn += 1
        self._within = 0
        self._found = {}
        self._handed = None

    def forget(self) -> None:
        """Forgets the gradients of the current batch."""
        self._found = {}

    def gradients(self, parameters: list[Any]) -> list[Any]:
        """Records × shape, for each parameter; None where a backward pass came by none."""
        return [self._found.get(id(p)) for p in parameters]

    def take(self, parameters: list[Any]) -> list[Any]:
        """Per-record gradients as :meth:`gradients` gives them; the caller owns their memory from then on."""
        taken = self.gradients(parameters)
        self._room, self._found = {}, {}
        return taken

    def _forward(self, label: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._awaited is None or self._recomputing or not torch.is_grad_enabled():
            return
        if not isinstance(output, torch.Tensor):
            raise Refused(f"{label} gives more than one tensor; per-record gradients are known of modules with one")
        if output.requires_grad:
            kept = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
            named = {k: a.detach() if isinstance(a, torch.Tensor) else a for k, a in kwargs.items()}
            inside = self._loss is None or self._within > 0
            output.register_hook(partial(self._backward, label, self._turn, inside, module, kept, named))

    def _backward(
        self, label: str, turn: int, inside: bool, module: Any, args: Any, kwargs: Any, slopes: torch.Tensor
    ) -> None:
        if turn != self._turn:
            raise Refused(
                f"{label}: a second backward pass over records whose part was stepped on, which would leave their raw gradients at the weights; call backward() before step()"
            )
        if not inside:
            self.strayed = f"the loop called {label} by itself, and not the model: what it made of its output is your word; call model(x)"
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        if not tensors or any(t.dim() == 0 or len(t) != self._awaited for t in (slopes, *tensors)):
            raise Refused(
                f"{label}: the first axis of its inputs and outputs must be the records of the batch; pass what all records share (for example positions of a sequence) once for each record, x.expand(len(batch), …), so that per-record gradients are known, or freeze the module"
            )
        g = slopes.detach()
        if self._mean:
            # the loss of each record, not its share of a mean
            g = g * len(g)
        with torch.no_grad():
            rule = None if kwargs or len(args) != 1 else _rule(module, args[0])
            if rule is None:
                self._by_vmap(label, module, args, kwargs, g)
                return
            x = args[0]
            kind = torch.float64 if module.weight.dtype == torch.float64 else torch.float32
            rule(module, x.to(kind) if x.is_floating_point() else x, g.to(kind), self._give)

    def _by_vmap(self, label: str, module: Any, args: list[Any], kwargs: dict[str, Any], g: torch.Tensor) -> None:
        own = {n: p.detach() for n, p in module.named_parameters(recurse=False) if id(p) in self._trained}
        at = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        keys = [k for k, a in kwargs.items() if isinstance(a, torch.Tensor)]

        def one(weights: dict[str, Any], given: list[Any], slope: torch.Tensor) -> torch.Tensor:
            single, named = list(args), dict(kwargs)
            for i, a in zip(at, given):
                single[i] = a.unsqueeze(0)
            for k, a in zip(keys, given[len(at) :]):
                named[k] = a.unsqueeze(0)
            out = torch.func.functional_call(module, weights, tuple(single), named)
            return (out[0] * slope).sum()

        given = [args[i] for i in at] + [kwargs[k] for k in keys]
        self._recomputing = True
        try:
            with torch.enable_grad():
                found = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(own, given, g)
        except Exception:
            # its message may hold values of records
            failed = True
        else:
            failed = False
        finally:
            self._recomputing = False
        if failed:
            raise Refused(
                f"{label} cannot be run for one record at a time (random numbers in it, perhaps); make it of modules of torch.nn"
            )
        for name, p in module.named_parameters(recurse=False):
            if name in found:
                self._give(p, lambda out: out.copy_(found[name]))

    def _give(self, parameter: Any, write: Callable[[torch.Tensor], Any]) -> None:
        """Writes a parameter's block into room that is kept from step to step, or adds it to what another use of it gave."""
        key = id(parameter)
        if parameter is None or key not in self._trained or self._awaited is None:
            return
        before = self._found.get(key)
        kind = torch.float64 if parameter.dtype == torch.float64 else torch.float32
        room = self._room.get(key) if before is None else None
        if room is None or len(room) < self._awaited or room.device != parameter.device or room.dtype != kind:
            room = torch.empty((self._awaited, *parameter.shape), dtype=kind, device=parameter.device)
            if before is None:
                self._room[key] = room
        block = room[: self._awaited]
        write(block)
        if before is None:
            self._found[key] = block
        else:
            before += block

    def _drop(self, name: str, parameter: Any) -> None:
        """What autograd adds up without clip is no one's to see."""
        if self._awaited is None:
            return
        parameter.grad = None
        if id(parameter) not in self._found:
            raise Refused(
                f"the weights {name} are not used by the module that holds them, so that their per-record gradients are unknown; give your own gradients (torch.func.vmap) to dpopt.torch.PrivateOptimizer"
            )


def _made_of(model: nn.Module) -> dict[str, Any]:
    """What a model is made of, by name: modules, modes (where the module is not torch's own), hooks that are not this library's, and plain attributes."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        own = [id(module), type(module), foreign_hooks(module), "forward" in vars(module) and id(module.forward)]
        if not type(module).__module__.startswith("torch.nn"):
            own.append({k: _plain(v, 3) for k, v in vars(module).items() if not k.startswith("_")})
        found[f"{type(module).__name__} ({name or 'the model'})"] = own
    return found


def _plain(value: Any, deep: int) -> Any:
    """Numbers and texts of an attribute, or of what it holds; nothing of anything else."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if not deep or isinstance(value, (torch.Tensor, nn.Module)) or callable(value):
        return None
    if isinstance(value, Mapping):
        return [(str(k), _plain(v, deep - 1)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(v, deep - 1) for v in value]
    held = getattr(value, "__dict__", None)
    return None if held is None else [(k, _plain(v, deep - 1)) for k, v in held.items()]


def _same(x: Any, given: Any) -> bool:
    """Whether the model was given the records as they were handed out, on whatever device."""
    if isinstance(given, (dict, list, tuple)):
        leaves, spec = _pytree.tree_flatten(given)
        some, other = _pytree.tree_flatten(x)
        return spec == other and all(a is b or _same(a, b) for a, b in zip(some, leaves))
    if x is given:
        return True
    if (
        not (isinstance(x, torch.Tensor) and isinstance(given, torch.Tensor))
        or x.shape != given.shape
        or x.dtype != given.dtype
    ):
        return False
    x, given = x.detach().to(given.device), given.detach()
    return bool(((x == given) | ((x != x) & (given != given))).all())


def _versions(inputs: Any, targets: tuple[Any, ...]) -> list[int]:
    # in a container another tensor may take a place: which one it is counts too
    leaves = _pytree.tree_leaves((inputs, *targets))
    return [n for t in leaves if isinstance(t, torch.Tensor) for n in (id(t), t._version)]


def _nothing() -> dict[str, Any]:
    return {
        "_awaited": None,
        "_turn": 0,
        "_found": {},
        "_room": {},
        "_handed": None,
        "strayed": None,
        "_within": 0,
        "_made_of": None,
        "_handles": [],
    }
