"""Few trained weights on a frozen model: a private head, adapters of low rank (LoRA, Hu et al. 2021), and whether only they moved.

Noise grows with the number of trained weights, so that fine-tuning few of a model that was trained on public data is often the best that a small budget buys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .._reading import positive, whole


def train_only(model: nn.Module, names: Iterable[str]) -> list[Any]:
    """Freezes all weights of a model but those of the modules (or the parameters) of these names; gives the trained ones, for an optimizer.

    >>> import torch, dpopt.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> [tuple(p.shape) for p in dpopt.torch.train_only(model, ["2"])]
    [(2, 8), (2,)]
    """
    wanted = [names] if isinstance(names, str) else list(names)
    found: set[str] = set()
    trained = []
    for name, p in model.named_parameters():
        of = [w for w in wanted if w == "" or name == w or name.startswith(f"{w}.")]
        p.requires_grad_(bool(of))
        found.update(of)
        if of:
            trained.append(p)
    missing = [w for w in wanted if w not in found]
    if missing or not trained:
        raise ValueError(f"the model has no weights of the names {missing or wanted}; see model.named_modules()")
    return trained


class LowRank(nn.Module):
    """A frozen linear layer, and beside it `scale`·up(down(x)) through `rank` numbers; up starts at zero, so that nothing changes at first."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Linear(base.in_features, rank, bias=False, **like)
        self.up = nn.Linear(rank, base.out_features, bias=False, **like)
        nn.init.zeros_(self.up.weight)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.scale * self.up(self.down(x))


def add_low_rank(
    model: nn.Module, names: Iterable[str] | None = None, *, rank: int = 4, scale: float = 1.0
) -> list[Any]:
    """Freezes a model and puts adapters of low rank beside its linear layers, in place; gives the adapters' weights, for an optimizer.

    Parameters
    ----------
    model
        Changed in place; it must not be a linear layer itself.
    names
        Of the linear layers; by default all of them.
    rank
        Numbers that an adapter goes through.
    scale
        Factor on what an adapter adds.

    Examples
    --------
    >>> import torch, dpopt.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(40, 80), torch.nn.Tanh(), torch.nn.Linear(80, 2))
    >>> sum(p.numel() for p in dpopt.torch.add_low_rank(model, ["0"], rank=2))
    240
    """
    if whole(rank, "rank") < 1:
        raise ValueError("rank must be at least 1")
    scale = positive(scale, "scale")
    linear = {name for name, module in model.named_modules() if name and type(module) is nn.Linear}
    wanted = linear if names is None else {names} if isinstance(names, str) else set(names)
    if not wanted or not wanted <= linear:
        raise ValueError(
            f"the model has no linear layers of the names {sorted(wanted - linear)}; see model.named_modules()"
        )
    model.requires_grad_(False)
    trained = []
    for name in sorted(wanted):
        parent, _, last = name.rpartition(".")
        base = model.get_submodule(name)
        assert isinstance(base, nn.Linear)
        adapter = LowRank(base, rank, scale)
        setattr(model.get_submodule(parent), last, adapter)
        trained += [adapter.down.weight, adapter.up.weight]
    return trained


def _digests(model: nn.Module) -> Iterator[tuple[str, bool, bytes]]:
    """(name, trained, digest) of every weight and buffer."""
    named = [
        *((n, p.requires_grad, p) for n, p in model.named_parameters()),
        *((n, False, b) for n, b in model.named_buffers()),
    ]
    for name, trained, tensor in named:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        yield name, trained, hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).digest()


class MovedWeights:
    """Whether a training moved the weights that it should, and none of the others.

    >>> import torch, dpopt.torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    >>> optimizer = torch.optim.SGD(dpopt.torch.train_only(model, ["1"]), lr=0.1)
    >>> moved = dpopt.torch.MovedWeights(model)
    >>> model(torch.ones(3, 4)).square().sum().backward()
    >>> optimizer.step()
    >>> moved.confirm()
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._before = {name: digest for name, _, digest in _digests(model)}

    def confirm(self) -> None:
        """Raises RuntimeError if a trained weight is where it was (the optimizer does not know it, perhaps), or if a frozen one or a buffer is not: it was changed
        without noise."""
        now = list(_digests(self._model))
        if {name for name, *_ in now} != self._before.keys():
            raise RuntimeError("the model has other weights than before; look again after it was put together")
        still = [name for name, trained, digest in now if trained and digest == self._before[name]]
        if still:
            raise RuntimeError(
                f"weights that should be trained have not moved: {', '.join(still)}; does the optimizer have them?"
            )
        strayed = [name for name, trained, digest in now if not trained and digest != self._before[name]]
        if strayed:
            raise RuntimeError(f"weights that are frozen, or buffers, have changed without noise: {', '.join(strayed)}")


__all__ = ["LowRank", "MovedWeights", "add_low_rank", "train_only"]
