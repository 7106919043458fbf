"""The private step: per-sample gradients are clipped, summed and released by the compiled library.

:class:`PrivateOptimizer` wraps any ``torch.optim`` optimizer. It takes per-sample gradients (``p.grad_sample`` as Opacus'
``GradSampleModule`` leaves them, or what ``torch.func.vmap(grad(...))`` gives) to the compiled library, whose curator clips
each record's gradient, sums in exact integers, adds secure noise and lets out at most the planned number of sums.

The guarantee assumes that every batch is a fresh Poisson sample: each record enters with `sampling_probability`,
independently. :meth:`PrivateOptimizer.sample` draws one (the curator then also refuses more gradients than sampled records,
and a second step on the same batch); with ``opacus.data_loader.DPDataLoader`` you vouch for it. Shuffled fixed-size batches
are *not* covered. Buffers that depend on the records (batch norm statistics) are not covered either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core, accounting
from .._batches import Batches, stated
from .._by_unit import UnitMeans, Units, ids_alone, settled, unused
from .._copies import GoesOnOnce
from .._plan import Privacy
from .._public_facts import Unit, unit_facts
from .._reading import positive, whole
from .._self_check import Evidence
from .._settings import knows_its_keywords
from ..ledger import Ledger
from .ranks import refuse_steps, warn_of_ranks
from .resume import AroundOptimizer

try:
    import torch as _torch
except ImportError as error:  # pragma: no cover - depends on the environment
    raise ImportError("dpopt.torch needs PyTorch; pip install torch") from error


#: What the guarantee rests on where gradients come from code outside of the library.
OWN_WORD = "that each gradient is that of its own record and of no other is your word (make_private, or gradients= and example=, have it tried)"


class PrivateOptimizer(GoesOnOnce, AroundOptimizer):
    """Clip, noise, step. Schedulers of learning rates take it, or the optimizer inside.

    Parameters
    ----------
    optimizer
        Any torch optimizer; its parameters that require gradients are trained.
    dataset_size
        Public number of records n; with `units`, of units, of whom some may have no row.
    sampling_probability
        q of the Poisson batches.
    steps
        Planned number of steps; one more is refused.
    clip_norm
        l2 bound C on a record's gradient over all parameters.
    epsilon, delta
        What all steps together may spend; the least noise is found by calibration. Or
    noise_multiplier
        Noise standard deviation over C, instead of `epsilon`.
    relation
        ``"zero-out"``, ``"add-or-remove"`` or ``"replace-one"``.
    budget
        A :class:`dpopt.Ledger`, charged when the optimizer is made (needs `epsilon`).
    insecure_seed
        Reproducible noise for tests.
    scales
        √C per parameter (a tensor of its shape, or a number), for a clip ‖g‖_C ≤ `clip_norm` and noise of that shape: from
        public moments (:func:`ellipsoid`), or from released gradients. Default: a ball. Privacy does not depend on it.
    units
        Whose rows they are, one id for each row of the data: persons with several rows are protected as a whole. Batches are then
        Poisson samples of *units*, drawn by :meth:`sample` and by nothing else, which gives rows of the drawn units; the mean of a
        unit's gradients is clipped as one vector, however many rows it has. A row without an id is nobody's and in no batch.
    unit
        What is public of them: ``dpopt.Unit(max_rows=...)``, the most rows of a unit in a batch: of one with more, a uniform choice by secret
        coins, made anew for each batch. Must be given.
    gradients
        ``gradients(*batch)`` gives one tensor (batch × parameter shape) per trained parameter, in the optimizer's order: what :meth:`step_on` calls. It is tried
        on `example` before anything is charged, and what is found is refused; the grade is then ``"checked"`` as long as nothing but :meth:`step_on` steps.
        Without it nobody has seen where gradients come from: that each is its own record's is your word, and the grade ``"research"``.
    example
        With `gradients`, a batch of at least two records that are not sensitive, in the form that :meth:`step_on` is given.

    Attributes
    ----------
    noise_multiplier
        What is added, over `clip_norm`.
    """

    #: of its runs in ledgers and reports
    _name = "PrivateOptimizer"

    @knows_its_keywords
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
        scales: Sequence[Any] | None = None,
        units: Any = None,
        unit: Unit | None = None,
        gradients: Callable[..., Any] | None = None,
        example: Any = None,
    ) -> None:
        #: where per-sample gradients come from, if it is known
        self._gradients = gradients
        if units is None:
            unused(unit)
        self._around(optimizer)
        refuse_steps(optimizer)
        warn_of_ranks()
        self.sampling_probability = stated(
            dataset_size, sampling_probability, steps, epsilon, noise_multiplier, delta, budget, insecure_seed,
            "record" if units is None else "unit",
        )  # fmt: skip
        self.clip_norm = positive(clip_norm, "clip_norm")
        self.dataset_size = whole(dataset_size, "dataset_size")
        self.planned_steps = whole(steps, "steps")
        self.steps_taken = 0
        numbers, sensitivity = self._given_by_a_record()
        self.scales = scales
        self._relation = relation = accounting._relation(relation)
        if units is not None and relation == "add-or-remove":
            raise ValueError(
                "units= does not work with add-or-remove here: batches are processed in parts, whose ends depend on the other members of the batch, and so "
                'does the rounding of a unit\'s mean; use relation="zero-out" or "replace-one"'
            )
        seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
        self._seed = seed
        self._one_at_a_time = relation == "add-or-remove"
        #: who is protected, where it is not each record by itself
        self._units: Units | None = units if isinstance(units, Units) or units is None else self._read_units(
            units, unit, relation, seed
        )  # fmt: skip
        #: of the batch that was drawn: what becomes of its rows
        self._means: UnitMeans | None = None
        evidence = self._evidence_of(gradients, example, relation)
        batches = Batches(
            self.dataset_size, self.sampling_probability, self.planned_steps, numbers, self._drawn_from(relation)
        )
        self.noise_multiplier, self._session = batches.charged(
            self._name, epsilon=epsilon, noise_multiplier=noise_multiplier, delta=delta,
            relation=relation, budget=budget, seed=seed, unit=None if self._units is None else self._units.name,
            trains=sum(p.numel() for p in self._parameters()),
        )  # fmt: skip
        if evidence is not None:
            evidence.note(self._session)
        self._training = _core.Training(
            self.dataset_size, self.sampling_probability, numbers, sensitivity, self.noise_multiplier, self._session,
        )  # fmt: skip

    def _evidence_of(self, gradients: Any, example: Any, relation: str) -> Evidence | None:
        """Why a record's gradient is believed to be its own."""
        if gradients is None:
            if example is not None:
                raise ValueError(
                    "example has no effect without gradients=, which is tested on it; give both, or leave it out"
                )
            return Evidence("research", OWN_WORD)
        if not callable(gradients) or example is None:
            raise ValueError(
                "gradients must be a function of a batch, and example must be a batch of at least two non-sensitive records to test it on"
            )
        from .self_check import pools_of, try_gradients

        return try_gradients(gradients, self._parameters(), pools_of(None, example))

    def step_on(self, *batch: Any) -> bool:
        """One private step on a batch (or, with nothing, on an empty one): `gradients` is called with it. Always True: the weights moved."""
        if self._gradients is None:
            raise ValueError(
                "there are no gradients; give gradients= and example= to the constructor, or call step with gradients"
            )
        self._add_on(batch)
        self._release()
        return True

    def _add_on(self, batch: tuple[Any, ...]) -> None:
        self._refuse_beyond_plan()
        if not batch or not len(batch[0]):
            return
        assert self._gradients is not None
        # products of matrices round a record's row by how many others there are, which add-or-remove protects
        size = 1 if self._one_at_a_time else len(batch[0])
        from .self_check import secret_coins

        for start in range(0, len(batch[0]), size):
            with secret_coins():
                found = self._gradients(*[part[start : start + size] for part in batch])
            self._add(self._blocks(found))

    def _given_by_a_record(self) -> tuple[int, float]:
        """How many numbers a record gives to a sum, and the l2 norm that they are clipped to."""
        return sum(p.numel() for p in self._parameters()), self.clip_norm

    def _drawn_from(self, relation: str) -> int:
        """The most records that a batch is drawn from, for what the plan says of the sampler's error."""
        # how many records there are may be protected: the plan must not fail by it
        return 1 << 40 if relation == "add-or-remove" else self.dataset_size

    def _read_units(self, ids: Any, unit: Any, relation: str, seed: int | None) -> Units:
        """The units of ids that came alone: there are `dataset_size` of them."""
        given = ids_alone(ids)
        most = unit_facts(unit, ("max_rows",), "dataset_size is how many units there are").max_rows
        public = Unit(max_rows=most, count=self.dataset_size)
        return settled(
            given, given.rows, relation, unit=public, seed=seed, bounded=True,
            name="dataset_size",
        )  # fmt: skip

    @property
    def privacy_(self) -> Privacy:
        """What all planned steps cost, and what was released so far; research grade once a batch was drawn elsewhere."""
        return Privacy.of_session(self._session)

    def _parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]

    @property
    def scales(self) -> Any:
        """√C, one number per entry of all parameters; None for a ball. May be set between steps, from public knowledge or from what
        was released (``p.grad``), never from per-sample gradients."""
        return self._scales

    @scales.setter
    def scales(self, given: Any) -> None:
        if given is None:
            self._scales: np.ndarray | None = None
            return
        parameters = self._parameters()
        if len(given) != len(parameters):
            raise ValueError(f"{len(given)} scales were given for {len(parameters)} parameters")
        parts = []
        for p, s in zip(parameters, given):
            tensor = _torch.as_tensor(s, dtype=_torch.float64).detach().cpu()
            if tensor.ndim and tensor.shape != p.shape:
                raise ValueError("a scale must be a number or have the shape of its parameter")
            parts.append(np.broadcast_to(tensor.numpy().ravel(), (p.numel(),)))
        scales = np.concatenate(parts)
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise ValueError("scales must be positive and finite: a weight without scale would get no noise")
        self._scales = scales

    @property
    def releases(self) -> list[dict[str, Any]]:
        """What has been released so far: label, event, count."""
        return json.loads(self._training.records())

    def sample(self, n_records: int | None = None) -> Any:
        """Indices of a fresh Poisson batch for the next step (may be empty). They are as secret as the records. With `units`: rows of the
        units that were drawn, unit by unit; gradients must come in this order, in one part or several.

        Parameters
        ----------
        n_records
            How many records there are, where `dataset_size` is a guess of it (add-or-remove).

        Raises
        ------
        RuntimeError
            While a batch that was drawn waits for its :meth:`step`, whatever is in it: batches are not drawn until one suits.
        """
        self._refuse_beyond_plan()
        records = self.dataset_size if n_records is None else whole(n_records, "n_records")
        if records != self.dataset_size and (self._units is not None or self._relation != "add-or-remove"):
            raise ValueError("n_records differs from dataset_size, which is public under this relation; leave it out")
        return _torch.from_numpy(self._drawn(records))

    def _drawn(self, records: int) -> np.ndarray:
        """Positions of the rows of a fresh batch, drawn from `records` records, or from as many units as there are."""
        return self._rows_of(self._training.sample(records if self._units is None else len(self._units.rows)))

    def _rows_of(self, drawn: np.ndarray) -> np.ndarray:
        """Positions of the rows of a batch, of which nothing was added yet."""
        if self._units is None:
            return drawn.astype(np.int64)
        rows, counts = self._units.rows.draw(drawn)
        self._means = UnitMeans(counts)
        return rows

    def _add(self, blocks: list[np.ndarray]) -> None:
        """Adds gradients of the next rows of the batch to its sum: one vector for each record, or for each unit whose rows are all there."""
        if self._units is not None:
            self._refuse_undrawn()
            # of a batch whose draw was interrupted nobody has the rows: it is stepped on without gradients
            blocks = (UnitMeans(np.zeros(0, dtype=np.int64)) if self._means is None else self._means).of(blocks)
        self._training.add(blocks)

    def _refuse_undrawn(self) -> None:
        if self._units is not None and self._training.waiting() is None:
            raise RuntimeError(
                "with units= every batch must be drawn with sample() before its gradients are computed, even if it turns out empty; call sample() first"
            )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients and per-sample gradients."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        self._forget_samples()

    def _forget_samples(self) -> None:
        for p in self._parameters():
            if hasattr(p, "grad_sample"):
                p.grad_sample = None

    def _blocks(self, per_sample_gradients: Sequence[Any] | Mapping[Any, Any] | None) -> list[np.ndarray]:
        """Per-sample gradients as one matrix (batch × entries) per parameter, without a copy where torch allows it."""
        parameters = self._parameters()
        if per_sample_gradients is None:
            given = [getattr(p, "grad_sample", None) for p in parameters]
        elif isinstance(per_sample_gradients, Mapping):
            given = list(per_sample_gradients.values())
        else:
            given = list(per_sample_gradients)
        if len(given) != len(parameters):
            raise ValueError(f"{len(given)} gradients were given for {len(parameters)} parameters")
        given = [_torch.cat(list(g)) if isinstance(g, (list, tuple)) else g for g in given]
        batch = next((len(g) for g in given if g is not None), 0)
        blocks = []
        start = 0
        for p, g in zip(parameters, given):
            if g is not None and tuple(g.shape[1:]) != tuple(p.shape):
                raise ValueError("a per-sample gradient must have the shape batch × parameter shape")
            # a parameter without gradient counts as zero: the clip is over all parameters together
            flat = _torch.zeros(batch, p.numel()) if g is None else g.detach().reshape(len(g), p.numel()).cpu()
            if flat.dtype not in (_torch.float32, _torch.float64):
                flat = flat.to(_torch.float32)
            block = flat.numpy()
            if self._scales is not None:
                # coordinates in which the ellipsoid is a ball: the clip and the noise below are those of a ball
                block = block * self._scales[start : start + p.numel()].astype(block.dtype)
            start += p.numel()
            blocks.append(block)
        return blocks

    def accumulate(self, per_sample_gradients: Sequence[Any] | Mapping[Any, Any] | None = None) -> None:
        """Clips the gradients of a part of the batch and adds them to its sum; :meth:`step` releases it. Nothing else of them is kept, but for
        the sum over a unit whose other rows are still to come: a batch larger than the memory comes in parts.

        Parameters
        ----------
        per_sample_gradients
            As in :meth:`step`; ``p.grad_sample`` is forgotten.
        """
        self._refuse_beyond_plan()
        if self._gradients is not None:
            Evidence("research", OWN_WORD).note(self._session)
        self._add(self._blocks(per_sample_gradients))
        if per_sample_gradients is None:
            self._forget_samples()
        # what a backward pass left there beside them was not clipped
        for p in self._parameters():
            p.grad = None

    def step(self, per_sample_gradients: Sequence[Any] | Mapping[Any, Any] | None = None) -> bool:  # type: ignore[override]
        """One private step. Call it for empty batches too (without per-sample gradients: noise only). Always True: the weights moved.

        Parameters
        ----------
        per_sample_gradients
            One tensor (batch × parameter shape) per trained parameter, in the optimizer's order.
            Default: ``p.grad_sample``.
        """
        self.accumulate(per_sample_gradients)
        self._release()
        return True

    def _refuse_beyond_plan(self) -> None:
        if self.steps_taken >= self.planned_steps:
            raise _core.BudgetExceeded(
                f"all {self.planned_steps} planned steps are taken; plan more steps at the start, with more noise"
            )

    def _release(self) -> None:
        if self._means is not None and not self._means.complete:
            raise RuntimeError(
                "some rows that sample() drew have no gradients yet; give those of all of them before step()"
            )
        self._refuse_undrawn()
        total = self._training.step()
        self.steps_taken += 1
        self._means = None
        if self._scales is not None:
            total = total / self._scales
        # divided by the *expected* batch size, which is public; the drawn one is not
        self._move(total / (self.sampling_probability * self.dataset_size))

    def _move(self, mean: np.ndarray) -> None:
        """A step of the optimizer inside, by what was released."""
        fill(self._parameters(), mean)
        self._step_inside(self._parameters())


def fill(parameters: Sequence[Any], mean: np.ndarray) -> None:
    """Writes a released vector where an optimizer looks for gradients."""
    flat, start = _torch.from_numpy(mean), 0
    for p in parameters:
        p.grad = flat[start : start + p.numel()].reshape(p.shape).to(p.device, p.dtype)
        start += p.numel()


def ellipsoid(squares: Sequence[Any], *, exponent: float = 2 / 3) -> list[Any]:
    """Scales √C ∝ σ^−exponent for :class:`PrivateOptimizer` from *public* mean squares σ² of gradients, one tensor per parameter.

    Exponent 2/3 (C = σ^−4/3) is best for steps with a rate per weight (AdaGrad: PAGAN), 1/2 for one rate (PASAN). σ is floored at a
    thousandth of its positive median and the spread of C limited to 10⁶; ΣCσ² = 1, so that clip norms have scale 1.
    """
    flat = _torch.cat([_torch.as_tensor(s, dtype=_torch.float64).reshape(-1) for s in squares])
    if not bool(_torch.isfinite(flat).all()) or bool((flat < 0).any()) or not bool((flat > 0).any()):
        raise ValueError("mean squares must be finite, at least 0, and not all 0")
    sigma = flat.sqrt()
    floor = 1e-3 * sigma[sigma > 0].median()
    scales = sigma.clamp_min(float(floor)).pow(-exponent)
    scales = scales.clamp_max(float(scales.min()) * 1e3)
    scales = scales / (scales.pow(2) * flat).sum().sqrt()
    parts = scales.split([_torch.as_tensor(s).numel() for s in squares])
    return [part.reshape(_torch.as_tensor(s).shape) for part, s in zip(parts, squares)]


__all__ = ["PrivateOptimizer", "ellipsoid"]
