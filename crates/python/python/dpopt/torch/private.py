"""A training loop made private: model, optimizer and data in; the same with per-record gradients, noise and Poisson batches out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from .. import accounting
from .._by_unit import Units, ids_alone, settled, unused
from .._public_facts import Unit
from .._reading import whole
from .._repeats import records_of
from .._self_check import Evidence, Pool
from .._settings import knows_its_keywords
from .._warnings import warn
from ..ledger import Ledger
from .closed_list import foreign_hooks
from .gradients import PerRecord, refuse_mixing
from .guard import Guard, refuse_untrained, seed_generators
from .loader import ENTRIES, PoissonLoader, Source, refuse_repeats
from .optimizer import PrivateOptimizer
from .ranks import refuse_steps
from .resume import AroundOptimizer
from .self_check import (
    first_is_input,
    pool_of_records,
    pools_of,
    rest_are_targets,
    secret_seed,
    try_model,
)
from .slopes import RecordLoss


class BatchOptimizer(PrivateOptimizer):
    """The optimizer that :func:`make_private` gives: it takes per-record gradients from the backward pass, and batches from its loader
    only.

    Attributes
    ----------
    noise_multiplier
        What is added, over the clip norm.
    optimizer
        The optimizer inside.
    """

    def __init__(
        self, optimizer: Any, model: Any, records: int, mean: bool, loss: Any, evidence: Evidence, **options: Any
    ) -> None:
        self._evidence = evidence
        super().__init__(optimizer, **options)
        self._recorder = PerRecord(model, self._parameters(), mean, None if loss is None else RecordLoss(loss))
        self._shown = loss is not None
        self._coins: Any = None
        self._guard = Guard(model, self._parameters(), self._recording, self._open)
        self._records = records
        #: positions of the batch's records that have not been handed out and stepped on; None: no batch is open
        self._rest: np.ndarray | None = None
        self._part = 0
        self._handed_out = False
        #: learning rates at the first part of the batch
        self._rates: list[Any] = []

    def _evidence_of(self, gradients: Any, example: Any, relation: str) -> Evidence | None:
        return self._evidence

    def step_on(self, *batch: Any) -> bool:
        """Refused: the loader gives the batches."""
        raise RuntimeError(
            "the optimizer of make_private takes no batch here; iterate over its loader, and call step() after the backward pass"
        )

    def _recording(self) -> bool:
        return self._recorder.awaited is not None

    def _open(self) -> bool:
        return self._handed_out or self.steps_taken < self.planned_steps

    def sample(self, n_records: int | None = None) -> Any:
        """Refused: the loader draws the batches."""
        raise RuntimeError("batches cannot be drawn here, since the loader of make_private draws them; iterate over it")

    def accumulate(self, per_sample_gradients: Sequence[Any] | Mapping[Any, Any] | None = None) -> None:
        """Refused: :meth:`step` knows which parts of a batch are still to come."""
        raise RuntimeError("call step() for every part that the loader gives; it releases when a batch is complete")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients; what was added to the batch's sum stays there."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        self._recorder.forget()

    def _next_part(self, size: int) -> np.ndarray:
        """Positions of the next rows, at most `size`; none if the batch has none. A part that was handed out and never stepped on comes
        again: a batch that was drawn is released. The rows of a unit may come in several parts."""
        waiting = self._training.waiting()
        if waiting is None:
            self._rest = self._drawn(self._records)
        elif self._rest is None:
            # drawn, and interrupted before anything of it was handed out
            self._rest = self._rows_of(waiting[0])
        part = self._rest[:size]
        self._part = len(part)
        self._handed_out = True
        self._recorder.awaited = max(len(part), 1)
        self._draw_secretly()
        return part

    def _handed(self, batch: Any) -> None:
        """Notes what the loop is given."""
        if self._shown and not isinstance(batch, (tuple, list)):
            raise ValueError(
                "loss= needs batches (x, *targets), and the loader returns others; leave loss= out, or give a collate_fn"
            )
        inputs, _ = first_is_input(batch)
        self._recorder.hand_out(inputs[0] if inputs else None, rest_are_targets(batch))

    def _draw_secretly(self) -> None:
        """Until :meth:`step`, PyTorch draws (masks of dropout) from secret coins, whatever its generator was seeded with."""
        if self._coins is None:
            self._coins = torch.get_rng_state()
        taken = self.steps_taken * 1_000_003 + self._part
        seed_generators(secret_seed(None if self._seed is None else (self._seed + taken) % 2**64))

    def _draw_as_before(self) -> None:
        if self._coins is not None:
            torch.set_rng_state(self._coins)
            self._coins = None

    def _awaits(self) -> bool:
        return self._handed_out

    def step(self, per_sample_gradients: Sequence[Any] | Mapping[Any, Any] | None = None) -> bool:  # type: ignore[override]
        """Call it for every part of a batch, after its backward pass. True if the batch is complete: its sum was released with noise, and
        the weights moved (a scheduler that counts steps goes on then, and only then)."""
        if per_sample_gradients is not None:
            raise ValueError(
                "gradients were given, but they come from the backward pass here; use PrivateOptimizer for your own gradients"
            )
        self._refuse_beyond_plan()
        if not self._handed_out or self._rest is None:
            raise RuntimeError("no batch: call step() once after each backward pass of a part that the loader returns")
        self._rates = self._same_rates()
        gradients: list[Any] = []
        if self._part:
            gradients = self._recorder.gradients(self._parameters())
            if all(g is None for g in gradients):
                raise RuntimeError(
                    "no gradients: call loss.backward() for the part that the loader returned before step()"
                )
        # it is over before it is added: interrupted here, none is added twice
        rest, self._rest, self._handed_out = self._rest, self._rest[self._part :], False
        try:
            if gradients:
                self._add(self._blocks(gradients))
        except Exception:
            # nothing was
            self._rest, self._handed_out = rest, True
            raise
        self._recorder.awaited = None
        self._draw_as_before()
        if self._recorder.strayed is not None:
            self._session.rest_on_evidence("vouched", self._recorder.strayed)
        if len(self._rest):
            return False
        self._release()
        self._rest, self._rates = None, []
        return True

    def _same_rates(self) -> list[Any]:
        """Learning rates, which are those of the batch's first part, or there is a warning."""
        rates = [float(group["lr"]) for group in self.param_groups if "lr" in group]
        if self._rates and rates != self._rates:
            warn(
                "a learning rate changed between two parts of a batch, which reveals the secret number of parts; step the scheduler only when step() returned True, or once per pass"
            )
        return rates


def _public_size(given: int | None, counted: int, relation: str) -> int:
    """The number of records to plan for."""
    protected = relation == "add-or-remove"
    if protected and given is None:
        raise ValueError("add-or-remove protects the number of records; give a public guess as dataset_size")
    if given is None:
        return counted
    if whole(given, "dataset_size") != counted and not protected:
        raise ValueError(
            "dataset_size differs from the number of records, which is public under this relation; leave it out"
        )
    return given


@knows_its_keywords
def make_private(
    model: Any,
    optimizer: Any,
    data: Any,
    *,
    delta: float,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    epochs: int,
    batch_size: int | None = None,
    max_grad_norm: float,
    physical_batch_size: int | None = None,
    loss_reduction: str = "mean",
    relation: str = "zero-out",
    dataset_size: int | None = None,
    budget: Ledger | None = None,
    insecure_seed: int | None = None,
    units: Any = None,
    unit: Unit | None = None,
    loss: Callable[..., Any] | None = None,
    example: Any = None,
) -> tuple[Any, BatchOptimizer, PoissonLoader]:
    """Model, optimizer and loader for private training; the loop stays as it is.

    ::

        loss = torch.nn.functional.cross_entropy
        model, optimizer, loader = make_private(
            model, optimizer, (X, y), epsilon=3.0, delta=1e-6, epochs=10, batch_size=500, max_grad_norm=1.0, loss=loss
        )
        for _ in range(10):
            for x, y in loader:
                optimizer.zero_grad()
                loss(model(x), y).backward()
                optimizer.step()

    Everything is planned, certified and charged here, before a record is read. Each record enters a batch with probability
    `batch_size`/n, independently, drawn by the compiled library; its gradient over all parameters is clipped there to `max_grad_norm`,
    the sum is exact, and one noisy sum leaves per batch. Batches come in parts of at most `physical_batch_size` records, each with a
    forward pass, a backward pass and a ``step()`` of its own.

    The guarantee needs that a record's gradient depends on that record only. Before anything is charged, model and loss are tried on made-up records
    (:func:`check`), and what is found is refused. ``optimizer.privacy_.grade`` is then ``"certified"`` where every step of the forward pass and the loss is on a
    closed list of steps that treat records one by one (dense, convolutional and frozen models are, as people write them), ``"checked"`` where the trial
    found nothing, and ``"research"`` without `loss`, which nobody has seen then. Do not publish losses: they are computed on the records.

    One process, and one training: ``optimizer.state_dict()`` is a state from which this training goes on while its process lives, and no other. One that is
    interrupted is over; its weights are released and may be the start of another, which is planned and paid for by itself.

    Parameters
    ----------
    model
        A module whose inputs and outputs have the records on their first axis; it is returned as it is, with hooks.
    optimizer
        Any torch optimizer of the model's parameters, except those that call the loss themselves.
    data
        A data set with a length, a ``DataLoader`` of one (its data set, ``collate_fn`` and ``batch_size`` are taken; one that gives other records than all
        of its data set is refused: ``torch.utils.data.Subset`` is a part), or a tuple of arrays.
    epsilon, delta
        What all steps together may spend; the least noise is found by calibration. Or
    noise_multiplier
        Noise standard deviation over `max_grad_norm`, instead of `epsilon`.
    epochs
        Passes over the loader; one more is refused.
    batch_size
        Expected records per batch.
    max_grad_norm
        l2 bound C on a record's gradient over all trained parameters.
    physical_batch_size
        The most records at a time; default: as many as have 2^26 gradient entries (256 MiB).
    loss_reduction
        ``"mean"`` or ``"sum"``: how the loss treats the records that the loader gives.
    relation
        ``"zero-out"``, ``"add-or-remove"`` or ``"replace-one"``.
    dataset_size
        Number of records to plan for. Must be given, from public knowledge, under add-or-remove, which protects it;
        otherwise it is the data's own.
    budget
        A :class:`dpopt.Ledger`, charged here (needs `epsilon`).
    insecure_seed
        Reproducible noise and batches for tests.
    units
        Whose records they are, one id for each: persons with several rows are protected as a whole. `batch_size` is then the expected
        number of *units* in a batch, which are drawn as records are, and the mean of a unit's gradients is clipped as one vector,
        however many rows it has (added up before that where they come in several parts). A row without an id is nobody's and in no batch.
    unit
        What is public of them, ``dpopt.Unit(max_rows=..., count=...)``. `max_rows` must be given, the most rows of a unit in a batch: of one with more, a
        uniform choice by secret coins, made anew for each batch. `count` takes the place of `dataset_size`: counted unless the relation protects it,
        then a guess.
    loss
        ``loss(output, *targets)`` of batches ``(x, *targets)``: what the loop calls ``backward`` of. Each record's slope at the model's output is then
        made by this loss from that record alone, and the loop's own loss only begins the backward pass.
    example
        A batch of at least two records that are not sensitive (made-up ones, say), in the form that the loader gives them (with a ``collate_fn``: a list of
        records that it takes): what model and loss are tried on, and what a batch without records looks like, with zeros for its numbers. Of arrays and of data sets of
        tensors the form is known, and records are made up from it: numbers from a normal distribution, whole numbers 0 and 1. Of other data sets the form of an empty batch is that of
        record 0, and nothing is tried; under add-or-remove, which protects whether there is a record, `example` must be given.
    """
    if loss_reduction not in ("mean", "sum"):
        raise ValueError(f'loss_reduction is {loss_reduction!r}; give "mean" or "sum"')
    if isinstance(optimizer, AroundOptimizer):
        raise ValueError("the optimizer is private already; give the inner optimizer, optimizer.optimizer")
    refuse_steps(optimizer)
    refuse_mixing(model)
    known = {id(p) for p in model.parameters()}
    trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if not trained or any(id(p) not in known for p in trained):
        raise ValueError("the optimizer must train parameters of the model, and of nothing else")
    if len({id(p) for p in trained}) != len(trained):
        raise ValueError("the optimizer has a parameter twice")
    if loss is not None and not callable(loss):
        raise ValueError("loss must be a function of the model's output and the targets")
    refuse_untrained(model, trained)
    source = Source(data, example)
    relation = accounting._relation(relation)
    one_at_a_time = relation == "add-or-remove"
    if one_at_a_time and physical_batch_size not in (None, 1):
        raise ValueError(
            "under add-or-remove records go through the model one at a time, since the rounding of matrix products depends on the number of records; leave "
            'physical_batch_size out, or use relation="zero-out"'
        )
    if one_at_a_time and not source.form_is_public:
        raise ValueError(
            "under add-or-remove no record may be read to find the form of a batch; give arrays with a dtype, a TensorDataset, or example=, a batch of non-sensitive records in the form that the loader returns"
        )
    if units is not None and relation == "add-or-remove":
        raise ValueError(
            "units= does not work with add-or-remove here: batches are processed in parts, whose ends depend on the other members of the batch, and so "
            'does the rounding of a unit\'s mean; use relation="zero-out" or "replace-one"'
        )
    whose: Units | None = None
    if units is None:
        unused(unit)
        refuse_repeats(source)
        dataset_size = _public_size(dataset_size, len(source), relation)
    elif dataset_size is not None:
        raise ValueError(
            "with units= the number of records has no effect; give unit=dpopt.Unit(count=...), or leave both out"
        )
    else:
        seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
        whose = settled(
            ids_alone(units), len(source), relation, unit=unit, seed=seed, bounded=True
        )  # fmt: skip
        dataset_size = whose.count
    what = "records" if whose is None else "units"
    if batch_size is None:
        batch_size = source.batch_size
    if batch_size is None:
        raise ValueError(f"give batch_size, the expected number of {what} per batch")
    if not 1 <= whole(batch_size, "batch_size") <= dataset_size:
        raise ValueError(f"batch_size must be at least 1 and at most the number of {what}")
    if whole(epochs, "epochs") < 1:
        raise ValueError("epochs must be at least 1")
    if one_at_a_time:
        physical_batch_size = 1
    elif physical_batch_size is None:
        physical_batch_size = max(1, ENTRIES // sum(p.numel() for p in trained))
    if whole(physical_batch_size, "physical_batch_size") < 1:
        raise ValueError("physical_batch_size must be at least 1")
    batches = math.ceil(dataset_size / batch_size)
    options: dict[str, Any] = {
        "dataset_size": dataset_size, "sampling_probability": batch_size / dataset_size, "steps": epochs * batches,
        "clip_norm": max_grad_norm, "delta": delta, "epsilon": epsilon, "noise_multiplier": noise_multiplier,
        "relation": relation, "budget": budget, "insecure_seed": insecure_seed, "units": whose,
    }  # fmt: skip
    evidence = _tried(model, trained, source, loss, loss_reduction == "mean", example)
    with records_of(source.form):
        private = BatchOptimizer(optimizer, model, len(source), loss_reduction == "mean", loss, evidence, **options)
    return model, private, PoissonLoader(source, private, batches, physical_batch_size)


def _tried(model: Any, trained: list[Any], source: Source, loss: Any, mean: bool, example: Any) -> Evidence:
    """What may be said of a model and its loss, before anything is charged."""
    form = source.known_form()
    if form is None and example is None:
        return Evidence(
            "research",
            "model and loss were not tried, since nothing is known of the records before one is read: give example=, a batch of records that are not sensitive",
        )
    if source.listed is not None and source.collate is not None:
        pools: list[Callable[[], Pool]] = [partial(pool_of_records, source.listed, source.collate)]
    else:
        pools = pools_of(form, example)
    found = try_model(model, trained, pools, loss=loss, mean=mean)
    if loss is not None and any(foreign_hooks(module) for module in model.modules()):
        return Evidence(
            "research",
            f"the model has hooks of somebody's, whose output a loop may use beside the model's: that no record is mixed there is your word; {found.why}",
        )
    if found.grade == "certified" and not source.is_of_tensors:
        return Evidence(
            "checked",
            "every step of the model and its loss treats records one by one; what a record is, the data set's own code says",
        )
    if source.collate is None or source.listed is not None:
        return found
    return Evidence(
        "research",
        f"collate_fn puts records together, and was not tried (give example= as a list of records that it takes, none of them sensitive); {found.why}",
    )
