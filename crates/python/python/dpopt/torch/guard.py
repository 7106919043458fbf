"""What would leave without noise beside a private step: raw gradients of weights that it does not train, and statistics of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn

#: Keys of the forward hooks that are this library's.
HOOKS: set[int] = set()


class Refused(ValueError):
    """What this library says of a model or a loss: no value of a record is in it."""


#: Modules that normalize by statistics of what they are given, in training mode, and by those that they keep, in eval mode.
_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)

#: The way to a pretrained backbone.
FREEZE = (
    "for a pretrained backbone freeze it, so that its statistics stay as they are: dpopt.torch.train_only(model, [the modules to train]) and model.eval(), which "
    "stays in the loop"
)


def normalizes_by_records(module: Any) -> bool:
    """Whether a pass through a batch norm would use, or keep, statistics of the batch."""
    return bool(module.training or module.running_mean is None)


def trains(module: nn.Module) -> bool:
    """Whether a module has weights of its own that are trained."""
    return any(p.requires_grad for p in module.parameters(recurse=False))


def _untrained(model: nn.Module, trained: Iterable[int]) -> list[str]:
    # a pass for one record at a time puts other tensors in place of the parameters
    return [
        n
        for n, p in model.named_parameters()
        if p.requires_grad and isinstance(p, nn.Parameter) and id(p) not in trained
    ]


def _first(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def refuse_untrained(model: nn.Module, parameters: list[Any]) -> None:
    """Refuses weights that a backward pass gives gradients to and that the private optimizer does not have."""
    trained = {id(p) for p in parameters}
    others = _untrained(model, trained)
    if not others:
        return
    mine = [n for n, p in model.named_parameters() if id(p) in trained]
    of = {n.rpartition(".")[0] for n in mine}
    whole = {m for m in of if m and all(id(p) in trained for p in model.get_submodule(m).parameters())}
    names = sorted(whole) + [n for n in mine if n.rpartition(".")[0] not in whole]
    shown = ", ".join(f'"{n}"' for n in names[:4]) + (", …" if len(names) > 4 else "")
    raise ValueError(
        f"the model has weights with requires_grad that its optimizer does not have ({_first(others)}): a backward pass would leave the records' raw gradients in them. Freeze them: give the optimizer dpopt.torch.train_only(model, [{shown}]); or give it all weights"
    )


def refuse_weights_of_loss(loss: Any) -> None:
    """Refuses a loss with weights of its own, whose gradients would not be clipped."""
    if isinstance(loss, nn.Module) and any(p.requires_grad for p in loss.parameters()):
        raise ValueError(
            "the loss has weights with requires_grad, and a backward pass would leave raw gradients of the records there; make them a part of the model, or freeze "
            "them: loss.requires_grad_(False)"
        )


def seed_generators(seed: int) -> None:
    """``torch.manual_seed`` without what it notes down for devices that are never used, which takes milliseconds and stays in memory."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def _refuse_statistics(name: str, module: Any) -> None:
    # an instance norm that keeps nothing takes those of each record by itself
    kept = module.training and module.running_mean is not None
    if kept or (isinstance(module, nn.modules.batchnorm._BatchNorm) and normalizes_by_records(module)):
        raise Refused(
            f"{type(module).__name__} ({name}) is in training mode, where it takes and keeps statistics of the records without noise: call model.eval() before "
            "the pass (model.train() puts it back), or only model.train() of the parts to train"
        )


def refuse_training_mode(model: nn.Module) -> None:
    """Refuses a model that would normalize by statistics of the records in a pass as it is."""
    for name, module in model.named_modules():
        if isinstance(module, _NORMS):
            _refuse_statistics(name or "the model", module)


class Guard:
    """Refuses, at a pass through the model, what was not there when it was made private.

    Parameters
    ----------
    model
        Gets a hook before its forward pass, and before that of each module that normalizes by statistics.
    parameters
        What the private optimizer trains; None: no backward pass follows.
    recording
        Whether a backward pass over records is awaited.
    open
        Whether the training has steps to come, so that no pass may leave statistics of records.
    """

    def __init__(
        self, model: nn.Module, parameters: list[Any] | None, recording: Callable[[], bool], open: Callable[[], bool]
    ) -> None:
        self._trained = None if parameters is None else {id(p) for p in parameters}
        self._recording: Callable[[], bool] | None = recording
        self._open: Callable[[], bool] | None = open
        HOOKS.add(model.register_forward_pre_hook(self._unfrozen).id)
        for name, module in model.named_modules():
            if isinstance(module, _NORMS):
                hook = partial(self._in_training_mode, name or "the model")
                HOOKS.add(module.register_forward_pre_hook(hook).id)

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the model, in a file or in memory, is free."""
        return {"_trained": None, "_recording": None, "_open": None}

    def _unfrozen(self, model: nn.Module, args: Any) -> None:
        if self._trained is None or self._recording is None or not torch.is_grad_enabled() or not self._recording():
            return
        others = _untrained(model, self._trained)
        if others:
            raise Refused(
                f"weights have requires_grad now that had not when the training was made private ({_first(others)}): a backward pass would leave the records' raw "
                "gradients there; set requires_grad_(False), or make another training private with them"
            )

    def _in_training_mode(self, name: str, module: Any, args: Any) -> None:
        if self._open is not None and self._open():
            _refuse_statistics(name, module)


__all__ = [
    "FREEZE",
    "HOOKS",
    "Guard",
    "Refused",
    "normalizes_by_records",
    "refuse_training_mode",
    "refuse_untrained",
    "refuse_weights_of_loss",
    "seed_generators",
    "trains",
]
