"""DP-SGD for PyTorch models: per-sample gradients in, a private step out.

:class:`PrivateOptimizer` wraps any ``torch.optim`` optimizer. It takes per-sample gradients (``p.grad_sample`` as Opacus'
``GradSampleModule`` leaves them, or what ``torch.func.vmap(grad(...))`` gives), clips each record's gradient and adds noise
in the compiled library (exact integer sums on a public grid, secure noise), and steps.

The guarantee assumes that every batch is a fresh Poisson sample: each record enters with `sampling_probability`,
independently (``opacus.data_loader.DPDataLoader``, or :meth:`PrivateOptimizer.sample`). Shuffled fixed-size batches are
*not* covered. Buffers that depend on the records (batch norm statistics) are not covered either.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from . import _core, accounting
from ._base import stage
from ._plan import Privacy
from .ledger import Ledger

try:
    import torch as _torch
except ImportError as error:  # pragma: no cover - depends on the environment
    raise ImportError("dpopt.torch needs PyTorch; pip install torch") from error

#: Total variation of one rounded Gaussian sample from the exact law.
SAMPLER_ERROR = 2.0**-110


class PrivateOptimizer:
    """Clip, noise, step.

    Args:
        optimizer: any torch optimizer; its parameters that require gradients are trained.
        dataset_size: public number of records n.
        sampling_probability: q of the Poisson batches.
        steps: planned number of steps; one more is refused.
        clip_norm: l2 bound C on a record's gradient over all parameters.
        epsilon, delta: what all steps together may spend; the least noise is found by calibration. Or
        noise_multiplier: noise standard deviation over C, instead of `epsilon`.
        relation: ``"zero-out"``, ``"add-or-remove"`` or ``"replace-one"``.
        budget: a :class:`dpopt.Ledger`, charged when the optimizer is made (needs `epsilon`).
        insecure_seed: reproducible noise for tests.

    Attributes:
        noise_multiplier, privacy_: what is added, and what all planned steps cost.
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        dataset_size: int,
        sampling_probability: float,
        steps: int,
        clip_norm: float,
        delta: float,
        epsilon: float | None = None,
        noise_multiplier: float | None = None,
        relation: str = "zero-out",
        budget: Ledger | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        if (epsilon is None) == (noise_multiplier is None):
            raise ValueError("give either epsilon (the noise is then found) or noise_multiplier")
        if budget is not None and epsilon is None:
            raise ValueError("a ledger is charged with (epsilon, delta); give epsilon instead of noise_multiplier")
        self.optimizer = optimizer
        self.clip_norm = float(clip_norm)
        self.dataset_size = int(dataset_size)
        self.sampling_probability = float(sampling_probability)
        self.planned_steps = int(steps)
        self.steps_taken = 0
        self.insecure_seed = insecure_seed
        dimension = sum(p.numel() for p in self._parameters())

        def event(z: float) -> accounting.DpEvent:
            one = accounting.PoissonSampledDpEvent(self.sampling_probability, accounting.GaussianDpEvent(z))
            every = accounting.SelfComposedDpEvent(one, self.planned_steps)
            return accounting.ApproximateDpEvent(self.planned_steps * dimension * SAMPLER_ERROR, every)

        if epsilon is not None:
            found = accounting.calibrate(event, epsilon, delta, relation=relation)
            self.noise_multiplier, whole, bound = found.value, found.event, found.bound
        else:
            self.noise_multiplier, whole = float(noise_multiplier), event(float(noise_multiplier))  # type: ignore[arg-type]
            bound = accounting.epsilon(whole, delta, relation=relation)
        if budget is not None:
            budget.charge("PrivateOptimizer", whole, epsilon=float(epsilon), delta=delta, relation=relation)  # type: ignore[arg-type]
        plain = whole.to_dict()
        allowed = float(bound) if epsilon is None else float(epsilon)
        self.privacy_ = Privacy(
            float(bound), delta, accounting._relation(relation), allowed, whole,
            [stage("training", allowed, delta, plain, bound.details)],
            [[{"label": "batch gradient", "event": plain, "count": 1}]], insecure_seed is not None,
        )  # fmt: skip

    def _parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]

    def sample(self) -> Any:
        """Indices of a fresh Poisson batch, from the secure generator (may be empty)."""
        bits = 53
        seed = None if self.insecure_seed is None else self.insecure_seed * 1_000_003 + self.steps_taken
        draws = np.array(_core.random_below(1 << bits, self.dataset_size, seed), dtype=np.uint64)
        # rounded down: never more likely than planned
        return _torch.from_numpy(np.flatnonzero(draws < np.uint64(int(self.sampling_probability * (1 << bits)))))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients and per-sample gradients."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        for p in self._parameters():
            if hasattr(p, "grad_sample"):
                p.grad_sample = None

    def step(self, per_sample_gradients: Sequence[Any] | Mapping[Any, Any] | None = None) -> None:
        """One private step. Call it for empty batches too (without per-sample gradients: noise only).

        Args:
            per_sample_gradients: one tensor (batch × parameter shape) per trained parameter, in the optimizer's order.
                Default: ``p.grad_sample``.
        """
        if self.steps_taken >= self.planned_steps:
            raise _core.BudgetExceeded(
                f"all {self.planned_steps} planned steps are taken; plan more steps at the start, with more noise"
            )
        parameters = self._parameters()
        if per_sample_gradients is None:
            given = [getattr(p, "grad_sample", None) for p in parameters]
        else:
            values = per_sample_gradients.values() if isinstance(per_sample_gradients, Mapping) else per_sample_gradients
            given = list(values)
        if len(given) != len(parameters):
            raise ValueError(f"{len(given)} gradients were given for {len(parameters)} parameters")
        given = [None if g is None else (_torch.cat(list(g)) if isinstance(g, (list, tuple)) else g) for g in given]
        sizes = {len(g) for g in given if g is not None}
        if len(sizes) > 1:
            raise ValueError("the parameters' per-sample gradients have different batch sizes")
        batch = sizes.pop() if sizes else 0
        columns = []
        for p, g in zip(parameters, given):
            if g is not None and tuple(g.shape[1:]) != tuple(p.shape):
                raise ValueError("a per-sample gradient must have the shape batch × parameter shape")
            # a parameter without gradient counts as zero: the clip is over all parameters together
            flat = _torch.zeros(batch, p.numel()) if g is None else g.detach().reshape(batch, -1)
            columns.append(flat.to("cpu", _torch.float64).numpy())
        matrix = np.ascontiguousarray(np.concatenate(columns, axis=1))
        self.steps_taken += 1
        total = _core.gaussian_sum(
            matrix, self.clip_norm, self.noise_multiplier, self.dataset_size, self.insecure_seed, self.steps_taken
        )
        # divided by the *expected* batch size, which is public; the drawn one is not
        mean = _torch.from_numpy(total / (self.sampling_probability * self.dataset_size))
        start = 0
        for p in parameters:
            p.grad = mean[start : start + p.numel()].reshape(p.shape).to(p.device, p.dtype)
            start += p.numel()
        self.optimizer.step()


__all__ = ["PrivateOptimizer"]
