"""A private step for gradients that another library clipped and added up, as Opacus' ghost clipping leaves them in ``p.grad``."""

from __future__ import annotations

from typing import Any

import torch

from .._clipped_sums import ClippedSums
from .optimizer import fill
from .ranks import refuse_steps, warn_of_ranks
from .resume import AroundOptimizer


class ClippedSumOptimizer(ClippedSums, AroundOptimizer):
    """Noise, step: for backward passes after which ``p.grad`` holds the *sum of clipped gradients* of the batch.

    ::

        model = GradSampleModuleFastGradientClipping(model, max_grad_norm=0.99, use_ghost_clipping=True, loss_reduction="sum")
        private = ClippedSumOptimizer(optimizer, dataset_size=n, sampling_probability=q, steps=T, clip_norm=1.0, epsilon=3.0, delta=1e-6)
        criterion = DPLossFastGradientClipping(model, private, torch.nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum")
        for _ in range(T):
            at = private.sample()
            if len(at):
                criterion(model(X[at]), y[at]).backward()
            private.step()

    Ghost clipping stays Opacus': that adding or removing a record moves ``p.grad`` by at most `clip_norm` over all parameters together, rounding of float32
    included, is your word (clip to a per cent less than you state), and the grade is "research". :class:`dpopt.torch.PrivateOptimizer` enforces its clip.

    Parameters
    ----------
    optimizer
        Any torch optimizer; its parameters that require gradients are trained.
    terms
        `dataset_size`, `sampling_probability`, `steps`, `clip_norm`, `epsilon` or `noise_multiplier`, `delta`, `relation`, `budget`, `insecure_seed`
        of :class:`dpopt.ClippedSums`.
    """

    #: what Opacus' loss asks its optimizer for: ``p.grad`` is a sum, and never divided by how many records there are
    loss_reduction = "sum"

    def __init__(self, optimizer: Any, **terms: Any) -> None:
        self._around(optimizer)
        refuse_steps(optimizer)
        warn_of_ranks()
        super().__init__([p.detach() for p in self._parameters()], **terms)
        #: of the parts of the batch so far
        self._parts: torch.Tensor | None = None

    def _parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]

    def sample(self, n_records: int | None = None) -> Any:
        """Positions of a fresh Poisson batch for the next step, as a tensor (there may be none). They are as secret as the records."""
        return torch.from_numpy(super().sample(n_records))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients; what was accumulated stays."""
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def accumulate(self) -> None:
        """Adds ``p.grad``, the sum of a part of the batch, to the batch's sum, and forgets it; :meth:`step` releases the sum."""
        self._refuse_beyond_plan()
        parameters = self._parameters()
        if any(p.grad is not None for p in parameters):
            found = torch.cat([
                torch.zeros(p.numel(), dtype=torch.float64) if p.grad is None else p.grad.detach().reshape(-1).cpu().double()
                for p in parameters
            ])  # fmt: skip
            self._parts = found if self._parts is None else self._parts + found
        self.zero_grad()

    def step(self, clipped_sum: Any = None) -> bool:  # type: ignore[override]
        """One private step on the sum in ``p.grad`` and what was accumulated. Always True: the weights moved.

        Parameters
        ----------
        clipped_sum
            Left out; sums without ``p.grad`` are for :class:`dpopt.ClippedSums`.
        """
        if clipped_sum is not None:
            raise ValueError("the sum is taken from p.grad; for one of another kind there is dpopt.ClippedSums")
        self.accumulate()
        found, self._parts = self._parts, None
        mean = self._mean(None if found is None else found.numpy())
        fill(self._parameters(), mean)
        self._step_inside(self._parameters())
        return True


__all__ = ["ClippedSumOptimizer"]
