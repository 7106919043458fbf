"""Models whose outputs for a record are that record's own by construction: the graph of the forward pass is walked, and every step of it is on a closed list.

A step that is not on the list, or on it in a form in which the records' axis takes part, ends the walk: the model is then *checked* on made-up records, and no more.
"""

from __future__ import annotations

import inspect
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from .guard import HOOKS, seed_generators

#: Of a value: records on its first axis, each row by its record alone; the number of records; nothing of records.
OWN, COUNT, SHAPE, NONE = "own", "count", "shape", "none"


class NotListed(Exception):
    """The trace ended; the message says where."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        # what runs a graph adds to the message
        self.why = why


def _least(rank: int) -> Callable[[Any, torch.Tensor], bool]:
    return lambda m, x: x.dim() >= rank


def _rank(rank: int) -> Callable[[Any, torch.Tensor], bool]:
    return lambda m, x: x.dim() == rank


def _normed(m: Any, x: torch.Tensor) -> bool:
    return x.dim() > len(m.normalized_shape)


def _along(m: Any, x: torch.Tensor) -> bool:
    return m.dim is not None and m.dim % x.dim() != 0


#: Modules of exactly these types, each with what must hold of its input.
MODULES: dict[type, Callable[[Any, torch.Tensor], bool]] = {
    nn.Linear: _least(2), nn.Identity: _least(1), nn.Embedding: _least(1), nn.Bilinear: _least(2),
    nn.Conv1d: _rank(3), nn.Conv2d: _rank(4), nn.Conv3d: _rank(5),
    nn.ConvTranspose1d: _rank(3), nn.ConvTranspose2d: _rank(4), nn.ConvTranspose3d: _rank(5),
    nn.MaxPool1d: _rank(3), nn.MaxPool2d: _rank(4), nn.MaxPool3d: _rank(5),
    nn.AvgPool1d: _rank(3), nn.AvgPool2d: _rank(4), nn.AvgPool3d: _rank(5),
    nn.AdaptiveAvgPool1d: _rank(3), nn.AdaptiveAvgPool2d: _rank(4), nn.AdaptiveMaxPool1d: _rank(3), nn.AdaptiveMaxPool2d: _rank(4),
    nn.LayerNorm: _normed, nn.GroupNorm: _least(2), nn.Softmax: _along, nn.LogSoftmax: _along,
    nn.InstanceNorm1d: _rank(3), nn.InstanceNorm2d: _rank(4),
    nn.BatchNorm1d: lambda m, x: not m.training and x.dim() >= 2, nn.BatchNorm2d: lambda m, x: not m.training and x.dim() == 4,
    nn.Dropout: _least(1), nn.Dropout1d: _rank(3), nn.Dropout2d: _rank(4), nn.AlphaDropout: _least(1),
    nn.Flatten: lambda m, x: m.start_dim % max(x.dim(), 1) >= 1 and x.dim() >= 2, nn.Unflatten: lambda m, x: isinstance(m.dim, int) and m.dim % x.dim() >= 1,
    nn.ZeroPad2d: _rank(4), nn.PixelShuffle: _rank(4), nn.PReLU: _least(2),
    **dict.fromkeys(
        (
            nn.ReLU, nn.ReLU6, nn.GELU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.ELU, nn.CELU, nn.SELU, nn.LeakyReLU, nn.Softplus, nn.Softsign, nn.Mish,
            nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.Tanhshrink, nn.LogSigmoid,
        ),
        _least(1),
    ),
}  # fmt: skip
if hasattr(nn, "RMSNorm"):
    MODULES[nn.RMSNorm] = _normed

_ENTRYWISE = {
    F.relu, F.relu6, F.gelu, F.tanh, F.sigmoid, F.silu, F.elu, F.celu, F.selu, F.leaky_relu, F.softplus, F.softsign, F.mish, F.hardswish, F.hardsigmoid,
    F.hardtanh, F.tanhshrink, F.logsigmoid, F.dropout, torch.relu, torch.tanh, torch.sigmoid, torch.abs, torch.exp, torch.sqrt, torch.square, torch.neg,
    torch.sin, torch.cos, torch.clamp, torch.log1p, torch.dropout, operator.neg, operator.abs,
}  # fmt: skip
_ENTRYWISE_METHODS = {
    "relu", "relu_", "tanh", "sigmoid", "abs", "exp", "sqrt", "square", "neg", "clamp", "contiguous", "float", "double", "half", "clone", "sin", "cos", "log1p",
}  # fmt: skip
_PAIRS = {
    operator.add, operator.sub, operator.mul, operator.truediv, torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, operator.iadd,
    operator.imul, operator.isub,
}  # fmt: skip
_PAIR_METHODS = {"add", "sub", "mul", "div", "add_", "mul_"}
_POOLS: dict[Any, int] = {
    F.max_pool1d: 3, F.max_pool2d: 4, F.max_pool3d: 5, F.avg_pool1d: 3, F.avg_pool2d: 4, F.adaptive_avg_pool1d: 3, F.adaptive_avg_pool2d: 4,
    F.adaptive_max_pool2d: 4,
}  # fmt: skip
_REDUCTIONS = {"mean", "sum", "amax", "amin", "logsumexp", "softmax", "log_softmax", "std", "var"}
_REDUCING = {
    torch.mean: "mean", torch.sum: "sum", torch.amax: "amax", torch.amin: "amin", torch.logsumexp: "logsumexp", torch.softmax: "softmax",
    F.softmax: "softmax", F.log_softmax: "log_softmax", torch.log_softmax: "log_softmax",
}  # fmt: skip


class _Walk(fx.Interpreter):
    """Runs a traced forward pass on a made-up batch and says of every value how it depends on records."""

    def __init__(self, traced: fx.GraphModule, trained: set[int], records: int) -> None:
        super().__init__(traced)
        self.kinds: dict[fx.Node, str] = {}
        self._trained = trained
        self._records = records

    def run_node(self, n: fx.Node) -> Any:
        given = super().run_node(n)
        if n.op == "output":
            at = n.args[0]
            if not isinstance(at, fx.Node) or self._kind(at) != OWN:
                raise NotListed("the model's output is not one tensor of the records' own rows")
            return given
        self.kinds[n] = self._settled(n, given)
        if self.kinds[n] == OWN and not (
            isinstance(given, torch.Tensor) and given.dim() and len(given) == self._records
        ):
            raise NotListed(f"{n.target}: its first axis is not the records")
        return given

    def _kind(self, value: Any) -> str:
        """Of an argument; constants are nothing of records, and a list of values has no kind."""
        if isinstance(value, fx.Node):
            return self.kinds[value]
        if isinstance(value, (list, tuple, slice, dict)):
            found: set[str] = set()
            fx.node.map_arg(value, lambda node: found.add(self.kinds[node]))
            if found - {NONE}:
                return "several"
        return NONE

    def _value(self, value: Any) -> Any:
        return self.env[value] if isinstance(value, fx.Node) else value

    def _settled(self, n: fx.Node, given: Any) -> str:
        if n.op == "placeholder":
            return OWN if isinstance(given, torch.Tensor) and given.dim() and len(given) == self._records else NONE
        if n.op == "get_attr":
            if id(given) in self._trained:
                raise NotListed(f"the weight {n.target} is used by a function, not by a module that holds it")
            return NONE
        args = [self._kind(a) for a in (*n.args, *n.kwargs.values())]
        if all(kind == NONE for kind in args):
            if n.op == "call_module":
                raise NotListed(f"{n.target}: a module of something else than records")
            return NONE
        if n.op == "call_module":
            return self._of_module(n, args)
        name = n.target if n.op == "call_method" else None
        return self._of_function(n, str(name) if name else None, args, given)

    def _of_module(self, n: fx.Node, args: list[str]) -> str:
        module: Any = self.fetch_attr(str(n.target))
        allowed = MODULES.get(type(module))
        kind = type(module).__name__
        if allowed is None or "forward" in vars(module):
            raise NotListed(f"{kind} is not on the list")
        if any(a != OWN for a in args):
            raise NotListed(f"{kind} has arguments of other kinds")
        for a in (*n.args, *n.kwargs.values()):
            if not allowed(module, self._value(a)):
                raise NotListed(f"{kind} on an input of such a shape, or with such options")
        return OWN

    def _of_function(self, n: fx.Node, method: str | None, args: list[str], given: Any) -> str:
        target: Any = n.target
        x: Any = self._value(n.args[0]) if n.args else None
        first = self._kind(n.args[0]) if n.args else NONE
        rest = [self._kind(a) for a in (*n.args[1:], *n.kwargs.values())]
        alone = first == OWN and all(kind == NONE for kind in rest)
        if "out" in n.kwargs or (target not in _PAIRS and method not in _PAIR_METHODS and self._others(n)):
            raise NotListed(f"{getattr(target, '__name__', target)} with another tensor beside the records'")
        if alone and (target in _ENTRYWISE or method in _ENTRYWISE_METHODS):
            return OWN
        if target in _PAIRS or method in _PAIR_METHODS:
            return self._of_pair(n, given)
        if first == OWN and (method == "size" or (target is getattr and n.args[1] == "shape")):
            index = n.args[1] if method == "size" and len(n.args) > 1 else n.kwargs.get("dim")
            if method == "size" and isinstance(index, int):
                return COUNT if index % x.dim() == 0 else NONE
            return SHAPE
        if first == SHAPE and target is operator.getitem and isinstance(n.args[1], int):
            return COUNT if n.args[1] % len(x) == 0 else NONE
        if first == COUNT or first == SHAPE:
            raise NotListed("arithmetic on the number of records")
        if first == OWN and (method in ("view", "reshape") or target is torch.reshape):
            return self._reshaped(n, given)
        if alone:
            if (target is torch.flatten or method == "flatten") and self._option(n, 1, "start_dim", 0) % x.dim() >= 1:
                return OWN
            if target in _POOLS and x.dim() == _POOLS[target]:
                return OWN
            reduction = _REDUCING.get(target) if method is None else method if method in _REDUCTIONS else None
            if reduction is not None:
                dim = self._option(n, 1, "dim", None)
                dims = [dim] if isinstance(dim, int) else list(dim) if isinstance(dim, (list, tuple)) else [0]
                if dims and all(isinstance(d, int) and d % x.dim() != 0 for d in dims):
                    return OWN
            if (target in (torch.transpose,) or method in ("transpose", "swapaxes")) and all(
                isinstance(d, int) and d % x.dim() != 0
                for d in (self._option(n, 1, "dim0", 0), self._option(n, 2, "dim1", 0))
            ):
                return OWN
            if method == "permute" or target is torch.permute:
                dims = list(n.args[1:])
                dims = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
                if dims and dims[0] == 0:
                    return OWN
            if target is torch.unsqueeze or method == "unsqueeze":
                if self._option(n, 1, "dim", 0) % (x.dim() + 1) != 0:
                    return OWN
            if target is torch.squeeze or method == "squeeze":
                dim = self._option(n, 1, "dim", None)
                if isinstance(dim, int) and dim % x.dim() != 0:
                    return OWN
            if target is F.normalize and self._option(n, 2, "dim", 1) % x.dim() != 0:
                return OWN
            if target is operator.getitem and isinstance(n.args[1], tuple):
                index = n.args[1]
                if index and index[0] == slice(None) and all(isinstance(i, (int, slice)) or i is None for i in index):
                    return OWN
        if target in (torch.cat, torch.concat, torch.stack) and isinstance(n.args[0], (list, tuple)):
            kinds = [self._kind(a) for a in n.args[0]]
            dim = self._option(n, 1, "dim", 0)
            ranks = {self._value(a).dim() for a in n.args[0] if isinstance(a, fx.Node)}
            room = max(ranks) + (target is torch.stack)
            if len(ranks) == 1 and all(k == OWN for k in kinds) and isinstance(dim, int) and dim % room != 0:
                return OWN
        raise NotListed(f"{getattr(target, '__name__', target)} is not on the list in this form")

    def _others(self, n: fx.Node) -> bool:
        """Whether a tensor that is nothing of records goes in beside the first argument: what it is set against is not looked at."""
        rest = (*n.args[1:], *n.kwargs.values())
        return any(
            self._kind(a) == NONE and isinstance(self._value(a), torch.Tensor) for a in rest if isinstance(a, fx.Node)
        )

    def _option(self, n: fx.Node, place: int, name: str, default: Any) -> Any:
        value = n.args[place] if len(n.args) > place else n.kwargs.get(name, default)
        return value

    def _of_pair(self, n: fx.Node, given: Any) -> str:
        if n.kwargs or len(n.args) != 2:
            raise NotListed("arithmetic with options")
        kinds, values = [self._kind(a) for a in n.args], [self._value(a) for a in n.args]
        if any(kind not in (OWN, NONE) for kind in kinds):
            raise NotListed("arithmetic on the number of records")
        ranks = [v.dim() if isinstance(v, torch.Tensor) else 0 for v in values]
        most = max(ranks)
        for kind, value, rank in zip(kinds, values, ranks):
            # of two ranks the shorter is set against the last axes of the longer: records against something else
            if kind == OWN and rank != most:
                raise NotListed("arithmetic on values of different ranks")
            if kind == NONE and rank == most and rank and value.shape[0] != 1:
                raise NotListed("arithmetic with a value that has as many rows as there are records")
        return OWN

    def _reshaped(self, n: fx.Node, given: Any) -> str:
        shape = list(n.args[1:])
        shape = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
        if not shape or len(given) != self._records:
            raise NotListed("a reshape that joins records with something else")
        lead, more = shape[0], shape[1:]
        if not (lead == -1 or self._kind(lead) == COUNT) or any(self._kind(m) not in (NONE,) for m in more):
            raise NotListed("a reshape whose first axis is not the number of records")
        numbers = [self._value(m) for m in more]
        if lead == -1 and (-1 in numbers or math.prod(numbers) * self._records != given.numel()):
            raise NotListed("a reshape that joins records with something else")
        return OWN


def foreign_hooks(module: nn.Module) -> tuple[int, ...]:
    """Hooks on a module that are not this library's, on the way forward and back."""
    kinds = (module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks)
    return tuple(key for hooks in kinds for key in hooks if key not in HOOKS)


def _hooked(model: nn.Module) -> str | None:
    for name, module in model.named_modules():
        if foreign_hooks(module):
            return f"{type(module).__name__} ({name or 'the model'}) has hooks of somebody's"
    everywhere = nn.modules.module
    if any(
        getattr(everywhere, f"_global_{which}_hooks", None)
        for which in ("forward_pre", "forward", "backward_pre", "backward")
    ):
        return "there are hooks of somebody's on all modules"
    return None


class _Stand(fx.Proxy):
    """Stands for a tensor in a trace. It is none, and code that asks (isinstance) may go another way on tensors: who asks is noted."""

    tracer: _Tracer

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        caller = sys._getframe(1)
        # functions of torch ask too, from the frame of whoever calls them
        asks = {"isinstance", "__class__"} & set(caller.f_code.co_names)
        if asks and caller.f_globals.get("__name__", "").partition(".")[0] != "torch":
            self.tracer.asked = True
        return type(self)

    def __len__(self) -> int:
        self.tracer.asked = True
        raise TypeError("a trace has no lengths")


class _Tracer(fx.Tracer):
    """Notes who asks a value for what it has not in a trace: code may catch the error and go on."""

    asked = False

    def to_bool(self, obj: fx.Proxy) -> bool:
        self.asked = True
        return super().to_bool(obj)

    def iter(self, obj: fx.Proxy) -> Any:
        self.asked = True
        return super().iter(obj)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Stand(node, self)


def _not_given(root: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Arguments that the forward pass is not given, with their defaults: code asks whether they are None."""
    if isinstance(root, nn.Sequential):
        return {}
    parameters = list(inspect.signature(root.forward).parameters.values())
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise NotListed("its forward pass takes any number of arguments")
    return {p.name: p.default for p in parameters[len(inputs) :]}


def _of_somebody(output: torch.Tensor) -> str | None:
    """A backward pass that a user wrote (torch.autograd.Function), of which a trace shows the way forward only."""
    seen, rest = set(), [output.grad_fn]
    while rest:
        step = rest.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        if isinstance(step, torch.autograd.function.BackwardCFunction):
            return f"{type(step).__name__} is a backward pass of somebody's own"
        rest += [before for before, _ in step.next_functions]
    return None


def _close(found: Any, real: Any) -> bool:
    return (
        isinstance(found, torch.Tensor)
        and found.shape == real.shape
        and torch.allclose(found.double(), real.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
    )


def walk(model: nn.Module, inputs: tuple[Any, ...], trained: list[Any]) -> str | None:
    """Whether the model's output for a record is that record's own by construction: None, or where the trace ended.

    Parameters
    ----------
    model
        What is trained, as it will be run.
    inputs
        A made-up batch: what the forward pass takes, records on the first axis.
    trained
        The parameters that the optimizer moves.
    """
    found = _hooked(model)
    if found is not None:
        return found
    records = len(inputs[0])
    try:
        # a model that is one module of torch is a step, and not the inside of one
        root = nn.Sequential(model) if type(model) in MODULES else model
        tracer = _Tracer()
        traced = fx.GraphModule(root, tracer.trace(root, concrete_args=_not_given(root, inputs) or None))
        if tracer.asked:
            return "its forward pass asks of what type a value is, and may do something else than when it is traced"
        # the same masks of dropout in both
        seed_generators(0)
        with torch.enable_grad():
            real = model(*inputs)
        if isinstance(real, torch.Tensor) and (wrote := _of_somebody(real)) is not None:
            return wrote
        seed_generators(0)
        with torch.no_grad():
            found = _Walk(traced, {id(p) for p in trained}, records).run(*inputs)
        if not _close(found, real):
            return "its forward pass does something else than when it is traced"
    except NotListed as ended:
        return ended.why
    except Exception as why:
        return f"its forward pass cannot be traced ({type(why).__name__})"
    return None


__all__ = ["foreign_hooks", "walk"]
