"""Fine-tuning with forward passes alone: K derivatives per record along public directions, clipped as one vector (DPZero, Zhang et al. 2024; DP-AggZO).

A direction is drawn from a seed and drawn again whenever it is needed, so that neither it nor a second copy of the weights is held.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from .. import _core, accounting
from .._reading import positive, whole
from .._self_check import SORTS, Evidence, synthetic
from .gradients import refuse_mixing
from .guard import Guard
from .optimizer import PrivateOptimizer
from .self_check import pools_of, secret_coins, secret_seed, try_losses


class Direction:
    """A vector of length √d, uniform on that sphere, in parts of the parameters' shapes; made anew from its seed each time."""

    def __init__(self, seed: int, parameters: list[Any]) -> None:
        self._seed = seed
        self._parameters = parameters
        squares = sum(float(u.double().square().sum()) for u in self._normals())
        size = sum(p.numel() for p in parameters)
        # a vector of zeros has no direction
        self._scale = math.sqrt(size / squares) if squares > 0 else 0.0

    def _normals(self) -> Iterator[torch.Tensor]:
        # on the CPU: the same numbers on every device
        coins = torch.Generator().manual_seed(self._seed)
        for p in self._parameters:
            yield torch.randn(p.shape, generator=coins, dtype=torch.float32)

    def parts(self) -> Iterator[torch.Tensor]:
        """u, one part for each parameter, in its type and on its device."""
        for p, normal in zip(self._parameters, self._normals()):
            yield (normal * self._scale).to(p.device, p.dtype)

    def add_to_weights(self, factor: float) -> None:
        """Adds factor·u to the weights w, in place."""
        with torch.no_grad():
            for p, u in zip(self._parameters, self.parts()):
                p.add_(u, alpha=factor)


class ZerothOrder(PrivateOptimizer):
    """A private step from losses alone: no gradients, no activations kept, any model.

    ::

        private = ZerothOrder(model, optimizer, dataset_size=n, sampling_probability=q, steps=T, directions=4, epsilon=4.0, delta=1e-6)
        for _ in range(T):
            at = private.sample()
            private.step(lambda x, y: cross_entropy(model(x), y, reduction="none"), X[at], y[at])

    For each of K directions u (of length √d) the weights are moved to w ± h·u in place and the losses of the batch's records are evaluated; a record's K
    differences over 2h are one vector, clipped to `clip_norm`·√K as one; their noisy sum leaves, and (1/K)Σ s_k·u_k is the gradient for the optimizer inside.
    Directions depend on no record. Noise is on K numbers, whatever the size of the model.

    The guarantee holds for any loss, if a record's loss depends on that record and the weights only. Modules known to mix records are refused, and the losses are tried on made-up
    records: before anything is charged, if `losses` and `example` are given here, otherwise before the first step. What is found is refused; what passes is of grade ``"checked"``.

    Moving the weights there and back rounds them, by the weights and directions alone and equally often for every batch, so nothing of the records is in it.
    Their memory is the model's, and one gradient for the optimizer inside. Steps are many and small: learning rates some d/K times below those of gradients.

    Parameters
    ----------
    model
        The module that the losses are made with.
    optimizer
        Any torch optimizer of its parameters; those that require gradients are trained.
    directions
        K.
    difference
        h, half the distance of the two points. Losses must differ there by more than their floats' rounding.
    clip_norm
        Bound on a derivative; with K of them, their vector is clipped to `clip_norm`·√K.
    physical_batch_size
        The most records that the losses are asked for at a time; all by default, under add-or-remove one.
    losses, example
        What :meth:`step` will be given, and a batch of at least two records that are not sensitive, on which they are tried before anything is charged.
    terms
        `dataset_size`, `sampling_probability`, `steps`, `epsilon` or `noise_multiplier`, `delta`, `relation`, `budget`, `insecure_seed`, `units` and
        `unit` of :class:`PrivateOptimizer`.
    """

    _name = "ZerothOrder"

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        *,
        clip_norm: float,
        directions: int = 1,
        difference: float = 1e-3,
        physical_batch_size: int | None = None,
        losses: Callable[..., Any] | None = None,
        example: Any = None,
        **terms: Any,
    ) -> None:
        refuse_mixing(model, gradients=False)
        if (losses is None) != (example is None):
            raise ValueError(
                "losses and example need each other: example is a batch of non-sensitive records to test losses on; give both, or none"
            )
        self._model = model
        self._losses_tried: Callable[..., Any] | None = losses
        self.directions = whole(directions, "directions")
        if self.directions < 1:
            raise ValueError("directions must be at least 1")
        self.difference = positive(difference, "difference")
        if physical_batch_size is not None and whole(physical_batch_size, "physical_batch_size") < 1:
            raise ValueError("physical_batch_size must be at least 1")
        self.physical_batch_size = physical_batch_size
        seed = terms.get("insecure_seed")
        self._seed = None if seed is None else whole(seed, "insecure_seed") % 2**64
        for name in ("gradients", "scales"):
            if terms.get(name) is not None:
                raise ValueError(f"{name} have no effect with losses; leave them out")
        if accounting._relation(terms.get("relation", "zero-out")) == "add-or-remove":
            if physical_batch_size not in (None, 1):
                raise ValueError(
                    "under add-or-remove losses are evaluated one record at a time, since the rounding of matrix products depends on the number of records; "
                    'leave physical_batch_size out, or use relation="zero-out"'
                )
            self.physical_batch_size = 1
        super().__init__(optimizer, clip_norm=clip_norm, example=example, **terms)
        known = {id(p) for p in model.parameters()}
        if not self._parameters() or any(id(p) not in known for p in self._parameters()):
            raise ValueError("the optimizer must train parameters of the model, and of nothing else")
        self._along: list[Direction] = []
        self._masks = 0
        #: of the directions of the next step
        self._seeds: list[int] | None = None
        self._guard = Guard(model, None, self._stepping, self._stepping)

    def _stepping(self) -> bool:
        return bool(self._along)

    def _evidence_of(self, gradients: Any, example: Any, relation: str) -> Evidence | None:
        if self._losses_tried is None:
            # on records of the types and shapes of the first batch
            return Evidence("checked", "the losses are tried on made-up records before the first step")
        return try_losses(self._model, self._losses_tried, pools_of(None, example))

    def step_on(self, *batch: Any) -> bool:
        """One private step on a batch, by the `losses` that were given when the optimizer was made."""
        if self._losses_tried is None:
            raise ValueError(
                "there are no losses; give losses= and example= to the constructor, or call step with losses"
            )
        return self.step(self._losses_tried, *batch)

    def _tried(self, losses: Callable[..., Any], batch: tuple[Any, ...]) -> None:
        """Before the first release, and again where other code is given: the losses are tried on records of the types and shapes of the batch."""
        before = self._losses_tried
        if before is losses or (
            before is not None and getattr(before, "__code__", before) is getattr(losses, "__code__", losses)
        ):
            return
        pools = [partial(synthetic, batch, sort) for sort in SORTS]
        try_losses(self._model, losses, pools).note(self._session)
        self._losses_tried = losses

    def _given_by_a_record(self) -> tuple[int, float]:
        return self.directions, self.clip_norm * math.sqrt(self.directions)

    def accumulate(self, per_sample_gradients: Any = None) -> None:
        """Refused: the weights are moved equally often for every batch, so that all of it comes to :meth:`step` at once."""
        raise RuntimeError(
            "step() was given a part of a batch; give it the whole batch (physical_batch_size bounds how many records are evaluated at a time)"
        )

    def step(self, losses: Any = None, *batch: Any) -> bool:  # type: ignore[override]
        """One private step. Call it for empty batches too. Always True: the weights moved.

        Parameters
        ----------
        losses
            ``losses(*part)`` gives one loss for each record of a part of `batch`, at the weights as they are then.
        batch
            Tensors or arrays with the records of the batch on their first axis.
        """
        self._refuse_beyond_plan()
        sizes = {len(part) for part in batch}
        if not callable(losses) or len(sizes) != 1:
            raise ValueError("give a function of the records' losses, and the records: arrays of equal length")
        (count,) = sizes
        self._tried(losses, batch)
        if self._seeds is None:
            # after an error the same again: whoever drew until they suit would choose them by the losses
            seed = None if self._seed is None else (self._seed + self.steps_taken) % 2**64
            self._seeds = _core.random_below(2**62, self.directions, seed).tolist()
        self._along = [Direction(seed, self._parameters()) for seed in self._seeds]
        try:
            found = np.zeros((count, self.directions))
            for k, direction in enumerate(self._along):
                found[:, k] = self._derivatives(direction, losses, batch, count)
            self._add([found])
            self._release()
            self._seeds = None
        finally:
            self._along = []
        return True

    def _derivatives(self, direction: Direction, losses: Callable[..., Any], batch: Any, count: int) -> np.ndarray:
        """(φ(w + h·u) − φ(w − h·u))/2h of each record; the weights come back whatever happens."""
        h = self.difference
        # both losses of a difference have the same masks of dropout, which nobody knows
        self._masks = secret_seed(None if self._seed is None else (self._seed + 7919 * self.steps_taken) % 2**64)
        with _moved(direction, h):
            ahead = self._losses(losses, batch, count)
            with _moved(direction, -2 * h):
                behind = self._losses(losses, batch, count)
        # what is not finite counts as nothing where it is clipped: no warning tells of it
        with np.errstate(all="ignore"):
            return (ahead - behind) / (2 * h)

    def _losses(self, losses: Callable[..., Any], batch: Any, count: int) -> np.ndarray:
        size = self.physical_batch_size or max(count, 1)
        found = np.zeros(count)
        with torch.no_grad(), secret_coins(self._masks):
            for start in range(0, count, size):
                part = [a[start : start + size] for a in batch]
                given = losses(*part)
                if not isinstance(given, torch.Tensor) or given.shape != (len(part[0]),):
                    raise ValueError('the losses are not a vector with one loss for each record; use reduction="none"')
                found[start : start + size] = given.detach().cpu().double().numpy()
        return found

    def _move(self, mean: np.ndarray) -> None:
        shares = mean / self.directions
        with torch.no_grad():
            for p in self._parameters():
                p.grad = torch.zeros_like(p)
            for share, direction in zip(shares.tolist(), self._along):
                for p, u in zip(self._parameters(), direction.parts()):
                    p.grad.add_(u, alpha=share)
        self._step_inside(self._parameters())


@contextlib.contextmanager
def _moved(direction: Direction, factor: float) -> Iterator[None]:
    """The weights at w + factor·u, and back."""
    direction.add_to_weights(factor)
    try:
        yield
    finally:
        direction.add_to_weights(-factor)


__all__ = ["ZerothOrder"]
