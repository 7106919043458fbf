"""The slope of each record's loss at the model's output, by the record and its targets alone."""

from __future__ import annotations

import dis
import functools
import inspect
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree

from .guard import Refused

#: Losses of torch that are evaluated for one record at a time, whatever their options.
_MODULES = (
    nn.CrossEntropyLoss, nn.NLLLoss, nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss, nn.PoissonNLLLoss,
    nn.KLDivLoss, nn.SoftMarginLoss, nn.MultiMarginLoss, nn.MultiLabelSoftMarginLoss, nn.GaussianNLLLoss,
)  # fmt: skip


class RecordLoss:
    """``loss(output, *targets)`` of each record by itself: a batch of one record, so that no other has a part in it.

    Parameters
    ----------
    loss
        From outputs and targets of a batch; a number, or one for each record.
    """

    def __init__(self, loss: Callable[..., Any]) -> None:
        self.loss = loss
        self._vectorised = True

    def _one(self, spec: Any, output: torch.Tensor, *targets: torch.Tensor | None) -> torch.Tensor:
        own = [None if t is None else t.unsqueeze(0) for t in targets]
        found = self.loss(output.unsqueeze(0), *_pytree.tree_unflatten(own, spec))
        if not isinstance(found, torch.Tensor):
            raise ValueError("the loss gave no tensor")
        return found.sum()

    def slopes(self, output: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Records × shape of an output."""
        output = output.detach()
        leaves, spec = _pytree.tree_flatten(list(targets))
        for t in leaves:
            # of anything else no part is known to be one record's, and all of it would go into every record's loss
            if t is not None and not (isinstance(t, torch.Tensor) and t.dim() and len(t) == len(output)):
                raise Refused(
                    f"loss= is taken for one record at a time, and of a target of type {type(t).__name__} the part of one record is unknown; have the loader return tensors with the records on their first axis (or dictionaries, tuples and lists of such)"
                )
        given = [None if t is None else t.to(output.device) for t in leaves]
        at = tuple(None if t is None else 0 for t in given)
        one = functools.partial(self._one, spec)
        with torch.enable_grad():
            if self._vectorised:
                try:
                    return torch.func.vmap(torch.func.grad(one), in_dims=(0, *at))(output, *given).detach()
                except RuntimeError:
                    # not every function can be mapped over records; the loop below says what fails, if something does
                    self._vectorised = False
            rows = []
            for i in range(len(output)):
                own = output[i].clone().requires_grad_()
                one(own, *[None if t is None else t[i] for t in given]).backward()
                rows.append(torch.zeros_like(own) if own.grad is None else own.grad)
            return torch.stack(rows)


def _stateless(loss: Any, deep: int) -> bool:
    """Whether a function reads and writes nothing that could be other from call to call: a trace runs it once and shows operations on tensors only."""
    if not isinstance(loss, types.FunctionType) or not deep:
        return False
    code = loss.__code__
    # functions inside are not looked into
    writes = {i.opname for i in dis.get_instructions(code)} & {"STORE_GLOBAL", "STORE_SUBSCR", "STORE_ATTR"}
    own_cells = any(i.opname == "STORE_DEREF" and i.argval in code.co_freevars for i in dis.get_instructions(code))
    if writes or own_cells or any(isinstance(c, types.CodeType) for c in code.co_consts):
        return False
    used = inspect.getclosurevars(loss)
    defaults = (*(loss.__defaults__ or ()), *(loss.__kwdefaults__ or {}).values())
    for value in (*used.nonlocals.values(), *used.globals.values(), *defaults):
        if value is None or isinstance(value, (bool, int, float, str, torch.Tensor, types.ModuleType)):
            continue
        module = getattr(value, "__module__", None) or ""
        if module.partition(".")[0] == "torch" or isinstance(value, types.BuiltinFunctionType):
            # functions of torch, and its losses
            continue
        if not _stateless(value, deep - 1):
            return False
    return True


def is_listed(loss: Any) -> bool:
    """Whether a loss is one of torch's, or a function that is seen to be made of torch's functions alone: it keeps no state then."""
    if isinstance(loss, functools.partial):
        return is_listed(loss.func)
    if isinstance(loss, nn.Module):
        return type(loss) in _MODULES and "forward" not in vars(loss) and not loss._forward_hooks
    if getattr(loss, "__module__", "") == "torch.nn.functional":
        return True
    if not _stateless(loss, 4):
        return False
    try:
        graph = fx.Tracer().trace(loss)
    except Exception:
        return False
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            return False
        if node.op == "call_function" and not (
            getattr(node.target, "__module__", "")
            in ("torch", "torch.nn.functional", "_operator", "torch._C._nn", "torch._C")
            or node.target in (operator.getitem, getattr)
        ):
            return False
    return True


__all__ = ["RecordLoss", "is_listed"]
