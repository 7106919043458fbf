"""Sums of gradients that another library clipped (ghost clipping, JAX Privacy): noise, accounting, ledger and report for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core, accounting
from ._batches import Batches, stated
from ._copies import GoesOnOnce
from ._plan import Privacy
from ._reading import positive, whole
from ._self_check import Evidence, examine_sums, of_example
from ._trees import Leaves, Records
from .ledger import Ledger


class ClippedSums(GoesOnOnce):
    """Noisy means of sums that you clip: what the sums are is your word, what leaves is the library's.

    For programs that make the sum of clipped gradients of a batch themselves, without a gradient for each record in memory: ghost clipping, JAX Privacy.
    For every batch, :meth:`sample` draws its records and :meth:`step` takes the *sum* (not the mean) of their clipped gradients and gives the noisy mean:

    >>> import numpy as np, dpopt
    >>> records = np.random.default_rng(0).normal([0.3, -0.2], 0.1, (5000, 2))
    >>> x = np.zeros(2)
    >>> sums = dpopt.ClippedSums(x, dataset_size=5000, sampling_probability=0.1, steps=20, clip_norm=1.0, epsilon=2.0, delta=1e-6)
    >>> for _ in range(20):
    ...     gradients = x - records[sums.sample()]
    ...     norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    ...     x = x - 0.3 * sums.step((gradients / np.maximum(norms, 1)).sum(axis=0))
    >>> bool(np.abs(x - [0.3, -0.2]).max() < 0.1), sums.privacy_.grade
    (True, 'research')

    The guarantee rests on what nobody can check here, so that its grade is "research": **adding or removing one record moves the sum by at most** `clip_norm` in l2
    norm over all arrays together. Rounding of your floats counts too: a float32 sum is moved by a little more than its records were clipped to, so clip
    to a per cent less than the `clip_norm` that you state. Where a record's gradient can be clipped here (:class:`dpopt.torch.PrivateOptimizer`,
    :func:`dpopt.minimize`), the clip is enforced.

    Parameters
    ----------
    like
        The parameters: an array (NumPy, PyTorch, JAX), or dicts, lists and tuples of arrays; sums come, and means leave, in this form.
    dataset_size
        Public number of records n, or a public guess of it under add-or-remove.
    sampling_probability
        q of the Poisson batches, which :meth:`sample` draws; if it does not, that they are drawn so is your word too.
    steps
        Planned number of sums; one more is refused.
    clip_norm
        By how much a record's presence moves a sum at most, in l2 norm.
    epsilon, delta
        What all steps together may spend; the least noise is found by calibration. Or
    noise_multiplier
        Noise standard deviation over `clip_norm`, instead of `epsilon`.
    relation
        ``"zero-out"``, ``"add-or-remove"`` or ``"replace-one"``.
    budget
        A :class:`dpopt.Ledger`, charged here (needs `epsilon`).
    insecure_seed
        Reproducible noise and batches for tests.
    sums, example
        ``sums(*batch)`` gives Σ clip(gradient) of a batch: what :meth:`step_on` calls. It is tried on `example`, a tuple of arrays of records that are not
        sensitive, before anything is charged: with and without a record, with one zeroed and one very large. What is found is refused; the grade stays ``"research"``, since no trial shows
        that *every* record moves a sum by at most `clip_norm`.

    Attributes
    ----------
    noise_multiplier
        What is added, over `clip_norm` (which has room for the rounding to the library's grid).
    steps_taken
        Sums that were released.
    """

    def __init__(
        self,
        like: Any,
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
        sums: Callable[..., Any] | None = None,
        example: Any = None,
    ) -> None:
        self._like = Leaves(like, "like")
        self.clip_norm = positive(clip_norm, "clip_norm")
        self._made_by = sums
        evidence = self._tried(sums, example)
        self.sampling_probability = stated(
            dataset_size, sampling_probability, steps, epsilon, noise_multiplier, delta, budget, insecure_seed
        )
        self.dataset_size, self.planned_steps = whole(dataset_size, "dataset_size"), whole(steps, "steps")
        self.steps_taken = 0
        relation = accounting._relation(relation)
        # how many records there are may be protected: the plan must not fail by it, and nothing is held against the guess
        protected = relation == "add-or-remove"
        self._most = None if protected else self.dataset_size
        batches = Batches(
            self.dataset_size, self.sampling_probability, self.planned_steps, self._like.size, 1 << 40 if protected else self.dataset_size
        )  # fmt: skip
        seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
        self.noise_multiplier, self._session = batches.charged(
            "ClippedSums", epsilon=epsilon, noise_multiplier=noise_multiplier, delta=delta, relation=relation, budget=budget, seed=seed
        )  # fmt: skip
        evidence.note(self._session)
        self._sums = _core.ClippedOutside(
            self.dataset_size, self.sampling_probability, self._like.size, self.clip_norm, self.noise_multiplier, self._session
        )  # fmt: skip

    def _tried(self, sums: Any, example: Any) -> Evidence:
        """Why a sum is believed to be moved by one record by at most the clip norm."""
        word = "that one record moves a sum by at most clip_norm is your word"
        if sums is None:
            if example is not None:
                raise ValueError(
                    "example has no effect without sums=, which is tested on it; give both, or leave it out"
                )
            return Evidence("research", word)
        if not callable(sums) or example is None:
            raise ValueError(
                "sums must be a function of a batch, and example must be non-sensitive records to test it on"
            )
        pool = of_example(Records(example).arrays)
        tried = examine_sums("sums", lambda at: self._like.same(sums(*pool.at(at))), pool, self.clip_norm)
        return Evidence("research", f"{word}; {tried}")

    def step_on(self, *batch: Any) -> Any:
        """The noisy mean over a batch (or, with nothing, over an empty one): `sums` is called with it."""
        if self._made_by is None:
            raise ValueError(
                "there is no function of sums; give sums= and example= to the constructor, or call step with a sum"
            )
        return self.step(self._made_by(*batch) if batch and len(batch[0]) else None)

    @property
    def privacy_(self) -> Privacy:
        """What all planned steps cost, and what was released so far. Research grade: the clip is vouched for, not enforced."""
        return Privacy.of_session(self._session)

    @property
    def releases(self) -> list[dict[str, Any]]:
        """What has been released so far: label, event, count."""
        return json.loads(self._sums.records())

    def sample(self, n_records: int | None = None) -> np.ndarray:
        """Positions of a fresh Poisson batch for the next step (there may be none). They are as secret as the records.

        Parameters
        ----------
        n_records
            How many records there are, where `dataset_size` is a guess of it.
        """
        self._refuse_beyond_plan()
        records = self.dataset_size if n_records is None else whole(n_records, "n_records")
        if self._most is not None and records != self.dataset_size:
            raise ValueError("n_records differs from dataset_size, which is public under this relation; leave it out")
        return self._sums.sample(records).astype(np.int64)

    def step(self, clipped_sum: Any = None) -> Any:
        """The noisy mean: (`clipped_sum` + noise)/(q·n), in the form of the parameters. Call it for empty batches too, without a sum.

        Parameters
        ----------
        clipped_sum
            Σ clip(gradient) over the batch, in the form of the parameters.

        Raises
        ------
        ValueError
            If it cannot be such a sum: a number in it is not finite, or it is longer than all records of the batch come to. Nothing was released
            then, and the batch that :meth:`sample` drew stays: hand in another sum over it.
        """
        self._refuse_beyond_plan()
        return self._like.tree(self._mean(None if clipped_sum is None else self._like.same(clipped_sum)))

    def _mean(self, vector: np.ndarray | None) -> np.ndarray:
        released = self._sums.step(np.zeros(self._like.size) if vector is None else vector, self._most)
        self.steps_taken += 1
        # divided by the *expected* batch size, which is public; the drawn one is not
        return released / (self.sampling_probability * self.dataset_size)

    def _refuse_beyond_plan(self) -> None:
        if self.steps_taken >= self.planned_steps:
            raise _core.BudgetExceeded(
                f"all {self.planned_steps} planned steps are taken; plan more steps at the start, with more noise"
            )


__all__ = ["ClippedSums"]
