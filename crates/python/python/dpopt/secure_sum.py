"""Sums of clients' updates in integers modulo a power of two, for secure aggregation, and what of them is private.

Secure aggregation adds up masked vectors modulo 2^k and shows the sum alone. Here an update is clipped to integers on a public grid, exactly, so that it has nothing to be
quantised, and the modulus has room for all clients, so that nothing wraps around: what is unmasked *is* the sum of the clipped updates.

>>> import numpy as np
>>> from dpopt.secure_sum import SecureSum
>>> terms = SecureSum(clients=4, dimension=3, clip_norm=1.0, epsilon=8.0, delta=1e-5)
>>> updates = np.array([[0.3, -0.4, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.25], [0.1, 0.1, 0.1]])
>>> masks = np.random.default_rng(0).integers(0, terms.modulus, (3, 3), dtype=np.uint64)
>>> masks = [*masks, (0 - masks.sum(axis=0)) % np.uint64(terms.modulus)]
>>> masked = [(terms.encode(update) + mask) % np.uint64(terms.modulus) for update, mask in zip(updates, masks)]
>>> bool(np.abs(terms.exact(sum(masked)) - [1.0, 0.5, 0.35]).max() < 4 * terms.step)
True

**A sum without noise is no private release**, however well each summand is hidden. Either the aggregator adds noise to the exact sum, and is trusted to do so and
to show nothing else (:meth:`SecureSum.release`); or each client adds a share of it before it masks (``honest=``), and nobody has to be trusted but so many of the clients.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from . import _core, accounting
from ._copies import lock
from ._plan import Privacy
from ._reading import attempt, number, positive, shown, whole
from ._repeats import Form, of_numbers, open_session
from ._rounds import Charge, RoundsFile, RoundsInMemory, opened, refuse_ledger, refuse_remote
from ._warnings import refuse_seed
from .federated import UNIT
from .ledger import Ledger
from .mechanisms import DISCRETE_SAMPLER_ERROR

#: Beyond so many standard deviations noise may wrap around, which costs accuracy and no privacy: less than 2^-162 for each number.
ROOM = 15
#: Of a modulus: NumPy's integers hold a sum of masked vectors.
MAX_BITS = 62
#: The least share of noise of one client, in steps of the grid.
LEAST_SHARE = 16.0


def closeness(clients: int, share: float) -> float:
    r"""How far the sum of so many discrete Gaussians of standard deviation parameter `share` is from one of √clients·share: a bound on \|log\| of the ratio of
    their probabilities, anywhere (docs/proofs/sum-of-discrete-gaussians.md).

    >>> closeness(10, 1.0) < 2e-3, closeness(1000, 4.0) < 1e-60
    (True, True)
    """
    clients, share, total = whole(clients, "clients"), positive(share, "share"), 0.0
    for k in range(1, clients):
        # of rounding up: exp errs by less than an ulp, and below 1e-300 the bound stays there
        q = max(math.exp(-2.0 * math.pi**2 * share**2 * k / (k + 1)) * (1.0 + 1e-12), 1e-300)
        r = 2.0 * q / (1.0 - q) if q < 1.0 else math.inf
        if r >= 1.0:
            return math.inf
        total += (math.log1p(r) - math.log1p(-r)) * (1.0 + 1e-12)
    return total


class SecureSum:
    """Terms of a sum over clients: grid, modulus and noise, the same for all who take part.

    Parameters
    ----------
    clients
        Most clients in a sum, public.
    dimension
        Numbers of an update.
    clip_norm
        C, l2 bound on an update. Between any two inputs of a client a sum moves by 2C, between an input and none by C.
    epsilon, delta
        Of all `rounds` sums together, per client.
    rounds
        Planned number of sums.
    relation
        ``"replace-one"`` (default) or ``"zero-out"``.
    honest
        ``None``: :meth:`release` adds the noise to the sum. A number h: every client adds its share in :meth:`encode`, made so
        that the noise of any h clients is enough. Then h is your word: in every sum that anybody sees there are so many clients who
        drew their noise with this code and tell it nobody. A protocol that shows the sum of fewer voids the guarantee, and so does an
        aggregator that shows clients different sets of those who are left, unless the protocol finds that. No ledger is charged.
    session
        The absolute path of a file in which the sums are counted (as in :class:`dpopt.federated.PrivateUpdates`), of whoever adds noise.
    budget
        A :class:`dpopt.Ledger` with ``unit="client"``, of an aggregator that adds the noise; charged before the first release.
    insecure_seed
        Reproducible noise for tests. **No privacy.**

    Attributes
    ----------
    step
        Of the grid, a power of two; an update is rounded to it, toward zero.
    modulus
        2^k, with room for the sum of all clients and its noise.
    noise_std
        Standard deviation of the noise in a sum, of h clients' where there are more.
    local_epsilon
        ε of what *one* client sends in all sums, if everybody else works together and unmasks it; infinite where it adds no noise, or too little
        to be certified.
    event
        What all sums release, as it is accounted.
    """

    def __init__(
        self,
        *,
        clients: int,
        dimension: int,
        clip_norm: float,
        epsilon: float,
        delta: float,
        rounds: int = 1,
        relation: str = "replace-one",
        honest: int | None = None,
        session: Any = None,
        budget: Ledger | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.clients, self.dimension, self.rounds = (
            whole(clients, "clients"), whole(dimension, "dimension"), whole(rounds, "rounds"),
        )  # fmt: skip
        if min(self.clients, self.dimension, self.rounds) < 1:
            raise ValueError("clients, dimension and rounds must be at least 1")
        self.clip_norm, self.relation = positive(clip_norm, "clip_norm"), accounting._relation(relation)
        self.epsilon, self.delta = positive(epsilon, "epsilon"), number(delta, "delta")
        if self.relation not in ("replace-one", "zero-out"):
            raise ValueError(
                "add-or-remove would hide whether a client takes part, which is public here; use replace-one or zero-out"
            )
        self.honest = None if honest is None else whole(honest, "honest")
        if self.honest is not None and not 1 <= self.honest <= self.clients:
            raise ValueError(f"honest is {shown(honest)}; give a number from 1 to clients")
        if self.honest is not None and budget is not None:
            raise ValueError(
                "the clients add the noise, so that the guarantee depends on h honest ones, which no ledger can check; leave budget out"
            )
        refuse_seed(insecure_seed, charged=budget is not None)
        refuse_ledger(budget, session)
        if session is not None and insecure_seed is not None:
            raise ValueError("a session and an insecure_seed exclude each other; leave one of them out")
        self._seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**32
        self._session, self._budget, self._opening = session, budget, lock()
        self._process = os.getpid()
        self._choose_grid()
        self._choose_noise()
        self._choose_modulus()
        self._open: RoundsFile | RoundsInMemory | None = None

    def _choose_grid(self) -> None:
        """By public facts: the noise of a Gaussian sum says how fine it has to be."""
        about, _, _ = _core.sum_noise("gaussian", self.dimension, self.epsilon, self.delta, self.relation)
        std = about * self.clip_norm * math.sqrt(self.rounds)
        self._exponent = _core.grid_exponent(self.clip_norm, std, self.clients, self.dimension)
        self.step = 2.0**self._exponent
        #: C in steps; a power of two changes no digit
        self.sensitivity = self.clip_norm / self.step

    def _choose_noise(self) -> None:
        within = self.epsilon, self.delta
        if self.honest is not None:
            # the sum of shares is that close to the law that is accounted, in every number of every sum
            slack = self.rounds * self.dimension * closeness(self.honest, LEAST_SHARE)
            within = math.nextafter(self.epsilon - 2.0 * slack, 0.0), math.nextafter(self.delta * math.exp(-slack), 0.0)
        drawn = self.dimension * (1 if self.honest is None else self.clients) * DISCRETE_SAMPLER_ERROR
        found = accounting.calibrate(lambda z: self._event(drawn, z), *within, relation=self.relation)
        self._sigma, self.event = float(found.value), found.event
        self.noise_std, self._share, self.local_epsilon = self._sigma * self.step, 0.0, math.inf
        if self.honest is None:
            self._noise = _core.NoisyCounts.gaussian(self._sigma, self.sensitivity)
            return
        # √h times it is at least σ, whatever is rounded
        self._share = self._sigma / math.sqrt(self.honest) * (1.0 + 1e-12)
        if self._share < LEAST_SHARE:
            raise ValueError(
                "the grid is too coarse for shares of noise; use fewer clients or a smaller epsilon, which allow a finer grid"
            )
        self._noise = _core.NoisyCounts.gaussian(self._share, self.sensitivity)
        drawn = self.dimension * DISCRETE_SAMPLER_ERROR
        self._local_event = self._once(drawn, self._share)
        try:
            alone = accounting.epsilon(self._event(drawn, self._share), self.delta, relation=self.relation)
            self.local_epsilon = float(alone)
        except _core.PrivacyError:
            # beyond about 95 the samplers' error is more than any delta
            self.local_epsilon = math.inf
        self._price()

    def _price(self) -> tuple[str, float, float, str]:
        """What opens the kernel's mechanism: a sum and its noise as the aggregator promises them, or one share as it is for itself, which is no promise to anybody."""
        if self.honest is None:
            return self.event.to_json(), self.epsilon, self.delta, self.relation
        try:
            alone = float(accounting.epsilon(self._local_event, 0.5, relation="zero-out"))
        except _core.PrivacyError:
            raise ValueError(
                f"a share for {self.honest} honest clients is too little noise to be certified by itself; count on fewer of them"
            ) from None
        return self._local_event.to_json(), max(alone, 1e-9), 0.5, "zero-out"

    def _event(self, drawn: float, sigma: float) -> accounting.DpEvent:
        once = self._once(drawn, sigma)
        return once if self.rounds == 1 else accounting.SelfComposedDpEvent(once, self.rounds)

    def _once(self, drawn: float, sigma: float) -> accounting.DpEvent:
        return accounting.ApproximateDpEvent(drawn, accounting.DiscreteGaussianDpEvent(sigma, self.sensitivity))

    def _choose_modulus(self) -> None:
        # of many shares more noise may come than of h
        std = self._sigma if self.honest is None else self._share * math.sqrt(self.clients)
        most = self.clients * math.ceil(self.sensitivity) + math.ceil(ROOM * std)
        self.bits = (2 * most + 1).bit_length()
        if self.bits > MAX_BITS:
            raise ValueError(f"a sum of {self.clients} clients needs {self.bits} bits; at most {MAX_BITS} fit")
        self.modulus = 2**self.bits

    @property
    def rounds_released(self) -> int:
        """Sums, or shares, that were noised here so far."""
        return 0 if self._open is None else self._open.taken

    @property
    def privacy_(self) -> Privacy:
        """What all planned sums cost, per client, where the aggregator adds the noise. Research grade: each client's own clip bounds what it adds, and nobody can
        check that in a sum."""
        if self.honest is not None:
            raise _core.PrivacyError(
                "the guarantee of the sum rests on h honest clients and on the protocol, which are not certified here; see epsilon and local_epsilon"
            )
        bound = accounting.certify(self.event, self.epsilon, self.delta, relation=self.relation)
        stage = {
            "name": "sums", "epsilon": self.epsilon, "delta": self.delta, "event": self.event.to_dict(), "bound": bound.details,
        }  # fmt: skip
        return Privacy(
            float(bound), self.delta, self.relation, self.epsilon, self.event, [stage], [], insecure_seed=self._seed is not None, unit="user",
            grade="research", unit_column=UNIT,
        )  # fmt: skip

    def encode(self, update: Any) -> np.ndarray:
        """What a client masks and sends: its clipped update in steps of the grid, with its share of noise if clients add it, modulo 2^k.

        Parameters
        ----------
        update
            The difference that the client made, as one vector or in the shape of the model; nothing of it counts if it has another
            size, or holds what is no finite number.
        """
        return self._residues(self._integers(update))

    def on_grid(self, update: Any) -> np.ndarray:
        """The clipped update with its share of noise as numbers, multiples of the grid's step, for frameworks that quantise themselves (:meth:`secagg_plus`)."""
        return self._integers(update) * self.step

    def _integers(self, update: Any) -> np.ndarray:
        given = attempt(lambda: np.asarray(update, dtype=np.float64).ravel())
        if given is None or given.size != self.dimension or not np.isfinite(given).all():
            given = np.zeros(self.dimension)
        integers = _core.clipped_integers(np.ascontiguousarray(given), self.clip_norm, self._exponent)
        return integers if self.honest is None else self._noised(integers)

    def integers(self, total: Any) -> np.ndarray:
        """The sum in steps of the grid, from its residues modulo 2^k (of masked vectors, once the masks have cancelled)."""
        given = attempt(lambda: np.asarray(total))
        if given is None or given.dtype.kind not in "iu":
            raise TypeError("the sum must be whole numbers modulo 2^k, as NumPy's integers")
        residues = given.astype(np.uint64) & np.uint64(self.modulus - 1)
        if residues.shape != (self.dimension,):
            raise ValueError(f"the sum has shape {residues.shape}; it must have {self.dimension} numbers")
        centred = residues.astype(np.int64)
        return np.where(centred >= self.modulus // 2, centred - self.modulus, centred)

    def exact(self, total: Any) -> np.ndarray:
        """The sum of what the clients encoded. Where they added no noise it is as sensitive as their records."""
        return self.integers(total) * self.step

    def release(self, total: Any) -> np.ndarray:
        """The sum with the aggregator's noise: all that may leave it. Noise comes before the last reduction modulo 2^k: a dishonest client
        chooses where a sum wraps around, and must not learn by that on which side of it the others are.

        Raises
        ------
        dpopt.BudgetExceeded
            If all planned sums are released, or the ledger has no room.
        """
        if self.honest is not None:
            raise _core.PrivacyError(
                "the clients added the noise, and the result of exact() is released already; use it as it is"
            )
        return self.integers(self._residues(self._noised(self.integers(total)))) * self.step

    def secagg_plus(self) -> dict[str, Any]:
        """Keywords of Flower's ``SecAggPlusWorkflow`` under which it sums what :meth:`on_grid` gives without a rounding error. Each client answers with weight 1."""
        most = math.ceil(self.sensitivity) + math.ceil(ROOM * self._share)
        half = 2 ** most.bit_length()
        if 2 * half * self.clients >= 2**32 or 2 * half >= 2**31:
            raise ValueError(
                f"Flower sums 32 bits, and {self.clients} clients of {self.dimension} numbers need more; use another protocol"
            )
        return {
            "max_weight": 1.0, "clipping_range": half * self.step, "quantization_range": 2 * half, "modulus_range": 2**32,
        }  # fmt: skip

    def _residues(self, integers: np.ndarray) -> np.ndarray:
        return integers.astype(np.int64).view(np.uint64) & np.uint64(self.modulus - 1)

    def _kernel_session(self, charge: Any, seed: int | None, of: Form | None = None) -> Any:
        return open_session("SecureSum", "sums", self._price(), charge, seed, None, UNIT, of=of)

    def _opened(self) -> RoundsFile | RoundsInMemory:
        if self._session is None:
            refuse_remote(self._process)
        with self._opening:
            if self._open is None:
                self._open = opened(self._session, self._terms(), self._charged, self._budget)
            return self._open

    def _charged(self) -> dict[str, Any]:
        charge = Charge(self._budget, (UNIT,))
        self._kernel_session(charge.pay, self._seed, of_numbers("updates of clients", self.dimension))
        return charge.proof

    def _terms(self) -> dict[str, Any]:
        return {
            "clients": self.clients, "dimension": self.dimension, "clip_norm": self.clip_norm, "epsilon": self.epsilon, "delta": self.delta,
            "rounds": self.rounds, "relation": self.relation, "honest": self.honest,
        }  # fmt: skip

    def __reduce__(self) -> Any:
        if self._session is None:
            raise TypeError(
                "sums counted in memory cannot be copied, since both copies could release all of them; give session= the path of a file, or make new terms"
            )
        return (_remade, ({**self._terms(), "session": self._session, "budget": self._budget},))

    def _noised(self, integers: np.ndarray) -> np.ndarray:
        taken = self._opened().take(self.rounds)
        session = self._kernel_session(None, None if self._seed is None else self._seed + taken)
        noisy = _core.noisy_counts(integers.tolist(), self._noise, session)
        return np.array(noisy, dtype=np.int64)


def _remade(given: dict[str, Any]) -> SecureSum:
    return SecureSum(**given)


__all__ = ["SecureSum", "closeness"]
