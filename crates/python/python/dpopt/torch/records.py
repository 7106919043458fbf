"""Gradients of a model's loss, record by record, for :func:`dpopt.minimize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .gradients import PerRecord, refuse_mixing
from .guard import Guard, refuse_weights_of_loss
from .ranks import warn_of_ranks


class RecordGradients:
    """What :func:`dpopt.minimize` takes: the gradient of ``loss(model(x), *targets)`` for each record, in one pass forward and one back.

    ::

        each = dpopt.torch.RecordGradients(model, lambda out, y: cross_entropy(out, y, reduction="none"))
        found = dpopt.minimize(each, (X, y), each.start(), epsilon=1.0, delta=1e-6)
        each.load(found.x)

    The same gradients as ``vmap(grad(loss))``, without running the model for one record at a time (:mod:`dpopt.torch.gradients`). Privacy rests on
    the clip of :func:`dpopt.minimize`, provided that a record's gradient depends on that record and the weights alone: modules that mix records are refused;
    of modules of your own, and of the loss, it is your word.

    Args:
        model: what is trained; parameters with ``requires_grad=False`` stay as they are. Its weights are those of the last call.
        loss: from the model's outputs and what follows the first array of records; one number for each record (``reduction="none"``).

    Raises:
        ValueError: a module mixes records or is not known, nothing is trained, or (in a call) there is not one loss for each record, or PyTorch
            fails: why is not shown, since it may hold values of records.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        if not isinstance(model, nn.Module) or not callable(loss):
            raise ValueError("give a torch.nn.Module, and a loss of its outputs and the targets")
        refuse_mixing(model)
        refuse_weights_of_loss(loss)
        warn_of_ranks()
        self._model = model
        self._loss = loss
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self._parameters:
            raise ValueError("no parameter of the model has requires_grad: nothing would be trained")
        trained = list(self._parameters.values())
        self._recorder = PerRecord(model, trained, mean=False)
        self._guard = Guard(model, trained, self._recording, self._recording)

    def _recording(self) -> bool:
        return self._recorder.awaited is not None

    def start(self) -> dict[str, torch.Tensor]:
        """A copy of the weights: where :func:`dpopt.minimize` starts."""
        return {name: p.detach().clone() for name, p in self._parameters.items()}

    def load(self, parameters: Mapping[str, Any]) -> None:
        """Gives the model weights, such as ``found.x``."""
        if set(parameters) != set(self._parameters):
            raise ValueError(
                "the names are not those of the model's trained parameters; take what start() and minimize give"
            )
        given = {name: torch.as_tensor(parameters[name]) for name in self._parameters}
        for name, p in self._parameters.items():
            if given[name].shape != p.shape:
                raise ValueError(f"{name} has another shape than the model's {tuple(p.shape)}")
        with torch.no_grad():
            for name, p in self._parameters.items():
                p.copy_(given[name])

    def __call__(self, parameters: Mapping[str, Any], x: Any, *targets: Any) -> dict[str, torch.Tensor]:
        """Records × shape for each parameter, at the weights that are given."""
        self.load(parameters)
        x, *more = (torch.as_tensor(part) for part in (x, *targets))
        own = list(self._parameters.values())
        if not len(x):
            return {name: p.new_zeros((0, *p.shape)) for name, p in self._parameters.items()}
        self._recorder.awaited = len(x)
        failed = None
        try:
            with torch.enable_grad():
                losses = self._loss(self._model(x), *more)
                if not isinstance(losses, torch.Tensor) or losses.shape != (len(x),):
                    raise ValueError('the loss gave no array with one number for each record; give it reduction="none"')
                losses.sum().backward()
            found = self._recorder.take(own)
        except (RuntimeError, IndexError) as why:
            # its message may hold values of records
            failed = type(why).__name__
        finally:
            self._recorder.awaited = None
        if failed is not None:
            raise ValueError(
                f"the model or its loss failed ({failed}), and why is not shown, since it may hold values of records; run loss(model(x), …) on made-up "
                "records of the same types and shapes: types, or labels that the model has no place for, are the usual reasons"
            )
        rows = zip(self._parameters.items(), found)
        return {name: p.new_zeros((len(x), *p.shape)) if g is None else g for (name, p), g in rows}
