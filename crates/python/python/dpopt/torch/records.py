"""Gradients of a model's loss, record by record, for :func:`dpopt.minimize`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .._self_check import CannotBeTried, Evidence, Pool
from .gradients import PerRecord, refuse_mixing
from .guard import Guard, Refused, refuse_weights_of_loss
from .ranks import warn_of_ranks
from .self_check import Form, pools_of, secret_coins, try_model
from .slopes import RecordLoss, is_listed


class RecordGradients:
    """What :func:`dpopt.minimize` takes: the gradient of ``loss(model(x), *targets)`` for each record, in one pass forward and one back.

    ::

        each = dpopt.torch.RecordGradients(model, lambda out, y: cross_entropy(out, y, reduction="none"))
        found = dpopt.minimize(each, (X, y), each.start(), epsilon=1.0, delta=1e-6)
        each.load(found.x)

    The same gradients as ``vmap(grad(loss))``, without running the model for one record at a time (:mod:`dpopt.torch.gradients`). Privacy rests on
    the clip of :func:`dpopt.minimize`, provided that a record's gradient depends on that record and the weights alone: modules that mix records are refused,
    and model and loss are tried on made-up records before anything is charged (:func:`dpopt.torch.check`). Dropout draws its masks from coins that nobody knows.

    Parameters
    ----------
    model
        What is trained; parameters with ``requires_grad=False`` stay as they are. Its weights are those of the last call.
    loss
        From the model's outputs and what follows the first array of records; one number for each record (``reduction="none"``).

    Raises
    ------
    ValueError
        A module mixes records or is not known, nothing is trained, or (in a call) there is not one loss for each record, or PyTorch
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
        self._tried = False
        # a loss of torch's functions alone is taken for one record at a time, so that it cannot mix them
        self._by_record = RecordLoss(loss) if is_listed(loss) else None

    def _recording(self) -> bool:
        return self._recorder.awaited is not None

    def _self_check(self, pools: Sequence[Callable[[], Pool]]) -> Evidence:
        """What may be said of model and loss, tried on made-up records: what :func:`dpopt.minimize` asks for."""

        def tensors(batch: Any) -> list[Any]:
            return [torch.as_tensor(part) for part in batch]

        form = Form(lambda batch: ((tensors(batch)[0],), {}), lambda batch: tuple(tensors(batch)[1:]))
        own = list(self._parameters.values())
        self._tried = True
        return try_model(self._model, own, pools, loss=self._loss, mean=False, each=True, forms=(form,))

    def __reduce__(self) -> Any:
        raise TypeError(
            "this RecordGradients belongs to another model, and a copied model needs its own; make another with the copy"
        )

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
        """Records × shape for each parameter, at the weights that are given. The first call tries model and loss on made-up records of these types and shapes."""
        self.load(parameters)
        x, *more = (torch.as_tensor(part) for part in (x, *targets))
        if not self._tried:
            with contextlib.suppress(CannotBeTried):
                self._self_check(pools_of([x, *more]))
            self._tried = True
        own = list(self._parameters.values())
        if not len(x):
            return {name: p.new_zeros((0, *p.shape)) for name, p in self._parameters.items()}
        self._recorder.awaited = len(x)
        failed = None
        try:
            with torch.enable_grad(), secret_coins():
                output = self._model(x)
                losses = self._loss(output, *more)
                if not isinstance(losses, torch.Tensor) or losses.shape != (len(x),):
                    raise Refused('the loss did not return one number for each record; give it reduction="none"')
                if self._by_record is None:
                    losses.sum().backward()
                else:
                    output.backward(self._by_record.slopes(output, more))
            found = self._recorder.take(own)
        except Refused:
            raise
        except Exception as why:
            # its message may hold values of records
            failed = type(why).__name__
        finally:
            self._recorder.awaited = None
        if failed is not None:
            raise ValueError(
                f"the model or its loss failed ({failed}), and its message is not shown, since it may contain values of records; run loss(model(x), …) on synthetic records of the same types and shapes: wrong types, and labels outside the model's outputs, are the usual causes"
            )
        rows = zip(self._parameters.items(), found)
        return {name: p.new_zeros((len(x), *p.shape)) if g is None else g for (name, p), g in rows}
