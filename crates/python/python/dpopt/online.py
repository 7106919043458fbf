"""Learning while it happens: whom to trust, where to stand, which arm to pull in every round (docs/online.md).

>>> import dpopt
>>> game = dpopt.online.Experts(experts=3, rounds=100, epsilon=5.0, insecure_seed=1)
>>> lost = 0.0
>>> while (expert := game.play()) is not None:
...     losses = [1.0, 0.5, 0.0]
...     lost += losses[expert]
...     game.observe(losses)
>>> bool(lost < 75)
True
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._copies import GoesOnOnce
from ._plan import Privacy
from ._reading import array, attempt, kind, number, shown, whole
from ._repeats import of_numbers, uncharged
from ._warnings import refuse_seed
from .ledger import ROUND, Ledger

__all__ = ["Bandit", "Experts", "OnlineConvex", "explain_bandit", "explain_convex", "explain_experts"]


RELATIONS = ("zero-out", "replace-one", "add-or-remove")
PLAYERS = ("lean", "fresh", "leader", "blocks")
LOSSES = ("any", "independent")


def _relation(neighbors: Any) -> str:
    if not (isinstance(neighbors, str) and neighbors in RELATIONS):
        raise ValueError(f"neighbors is {shown(neighbors)}; choose zero-out or replace-one")
    return neighbors


def _counts(**given: Any) -> list[int]:
    checked = {name: whole(value, name) for name, value in given.items()}
    for name, value in checked.items():
        if not 1 <= value < 2**62:
            raise ValueError(f"{name} is {value}; give a whole number from 1")
    return list(checked.values())


def _forgives(said: Any, name: str) -> bool:
    if not (isinstance(said, str) and said in ("error", "nothing")):
        raise ValueError(f"{name} is {shown(said)}; choose error or nothing")
    return said == "nothing"


def _charging(budget: Any, neighbors: str) -> Any:
    """What a game is charged to: a ledger of rounds."""
    if budget is None:
        return None
    if not isinstance(budget, Ledger):
        raise ValueError("budget must be a dpopt.Ledger, or None")
    if budget.relation != neighbors:
        raise ValueError(f"the ledger is kept for {budget.relation}, the game for {neighbors}; use the same")
    budget._check_names((ROUND,))
    return budget._charge_for((ROUND,))


def _count(of: str, many: int, epsilon: float, delta: float | None, rounds: int, charge: Any, seed: int | None) -> None:
    """A game that no ledger was charged for."""
    if charge is None and seed is None:
        share = _core.default_delta(rounds) if delta is None else float(delta)
        uncharged(of_numbers(of, many), float(epsilon), share)


def _seed(insecure_seed: Any, budget: Any) -> int | None:
    """Says that a seed voids the promise, and refuses it beside a ledger."""
    seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
    refuse_seed(insecure_seed, budget is not None)
    return seed


def _session(session: Any, moved: Any, insecure_seed: Any, budget: Any) -> tuple[Path | None, bool]:
    """Where a game is kept, and whether it is there already."""
    if not isinstance(moved, bool):
        raise TypeError(f"moved is {kind(moved)}; give True or False")
    if moved and session is None:
        raise ValueError("moved has no effect without a session; give session= a file, or leave moved out")
    if session is None:
        return None, False
    if not isinstance(session, (str, os.PathLike)):
        raise TypeError(f"session is {kind(session)}; give the path of a file")
    if insecure_seed is not None:
        raise ValueError(
            "a session and an insecure_seed exclude each other, since the same randomness would be drawn again after a restart; leave one of them out"
        )
    path = Path(session)
    resumes = path.exists() or path.is_symlink()
    if resumes and budget is not None:
        raise ValueError("the session was charged to its ledger when it was opened; leave budget out to resume it")
    return path, resumes


def _facts(
    experts: Any, rounds: Any, epsilon: Any, delta: Any, neighbors: Any, rounds_per_user: Any, player: Any, losses: Any
) -> tuple[int, int, float, float | None, str, int, str | None, str | None]:
    counts = _counts(experts=experts, rounds=rounds, rounds_per_user=rounds_per_user)
    neighbors = _relation(neighbors)
    if not (player is None or isinstance(player, str) and player in PLAYERS):
        raise ValueError(f"there is no player {shown(player)}; choose one of {', '.join(PLAYERS)}")
    if not (losses is None or isinstance(losses, str) and losses in LOSSES):
        raise ValueError(f"losses is {shown(losses)}; choose any or independent")
    share = None if delta is None else number(delta, "delta")
    return (
        counts[0], counts[1], number(epsilon, "epsilon"), share, neighbors, counts[2], player, losses,
    )  # fmt: skip


def explain_experts(
    experts: int,
    rounds: int,
    epsilon: float,
    delta: float | None = None,
    *,
    neighbors: str = "zero-out",
    rounds_per_user: int = 1,
) -> list[dict[str, Any]]:
    """What every player is proved to lose at most, or why it is not applicable; nothing is read.

    >>> rows = explain_experts(10, 2000, 1.0, 1e-6)
    >>> [row["player"] for row in rows]
    ['lean', 'leader', 'fresh', 'blocks']
    >>> [row["losses"] for row in rows]
    ['any', 'any', 'any', 'independent']
    >>> all(row["epsilon"] <= 1.0 for row in rows)
    True
    """
    facts = _facts(experts, rounds, epsilon, delta, neighbors, rounds_per_user, None, None)
    found: list[dict[str, Any]] = json.loads(_core.experts_plans(facts))
    return found


class Experts(GoesOnOnce):
    """One of many experts in every round, privately, while their losses come in.

    Parameters
    ----------
    experts
        How many there are.
    rounds
        How many rounds are played at most, fixed in advance.
    epsilon
        ε of the whole game.
    delta
        δ of the whole game; by default 1/rounds^1.1, at most 0.01; 0 for a pure guarantee.
    neighbors
        ``"zero-out"`` (a round may tell nothing) or ``"replace-one"``.
    rounds_per_user
        So many rounds are protected together.
    player
        ``"lean"``, ``"fresh"``, ``"leader"`` or ``"blocks"``; by default whoever has the least proved regret.
    losses
        What is known of them, which decides whose bounds count where nobody is named: ``"any"``, fixed before the first round, or
        ``"independent"``, each round's drawn from one law. By default any; but where ``delta=0`` a bound for independent ones will do, as others
        are far above it. Privacy is the same.
    bad_losses
        What losses do that are not one finite number per expert: ``"nothing"``, a round without losses, so that nothing an
        outsider may see depends on it; or ``"error"``, which tells that there was one: for trials.
    budget
        A :class:`dpopt.Ledger` with ``unit="round"`` that is charged with the whole game before it begins; refused where a session goes
        on, which was charged when it was opened.
    session
        A file that the game is kept in, as sensitive as the losses; if it is there, the game goes on where it was.
    moved
        The session was moved from another file system, and nothing goes on where it was; without this a copy is refused.
    insecure_seed
        Reproducible coins for tests: no privacy.
    """

    def __init__(
        self,
        experts: int,
        rounds: int,
        epsilon: float,
        delta: float | None = None,
        *,
        neighbors: str = "zero-out",
        rounds_per_user: int = 1,
        player: str | None = None,
        losses: str | None = None,
        bad_losses: str = "nothing",
        budget: Ledger | None = None,
        session: str | os.PathLike[str] | None = None,
        moved: bool = False,
        insecure_seed: int | None = None,
    ) -> None:
        facts = _facts(experts, rounds, epsilon, delta, neighbors, rounds_per_user, player, losses)
        self._experts, self._forgiving = facts[0], _forgives(bad_losses, "bad_losses")
        charge = _charging(budget, facts[4])
        path, resumes = _session(session, moved, insecure_seed, budget)
        insecure_seed = _seed(insecure_seed, budget)
        if path is not None and resumes:
            self._game = _core.ExpertsGame.resume(path, moved)
            opened = self._game.facts()
            usual = _core.default_delta(facts[1]) if facts[3] is None else facts[3]
            asked = (facts[0], facts[1], facts[5], facts[4], facts[2], usual)
            if opened != asked or player not in (None, self.player):
                raise ValueError(
                    f"the session was opened with (experts, rounds, rounds_per_user, neighbors, epsilon, delta) = {opened} and player "
                    f"{self.player}; give the same, or another file"
                )
        else:
            self._game = _core.ExpertsGame.open(facts, path, charge, insecure_seed)
            _count("losses of experts", facts[0], facts[2], facts[3], facts[1], charge, insecure_seed)

    def play(self) -> int | None:
        """The expert of the coming round, from 0; ``None`` after the last round. Asking again gives the same."""
        return self._game.play()

    def observe(self, losses: Sequence[float] | NDArray[np.float64]) -> None:
        """What each expert lost in the round that was played for, clamped to [0, 1]."""
        told = attempt(lambda: [float(loss) for loss in losses])
        sound = told is not None and len(told) == self._experts and all(map(math.isfinite, told))
        if not sound and self._forgiving:
            self._game.observe_nothing()
            return
        if told is None:
            raise ValueError("losses must be a list of one finite number per expert")
        self._game.observe(told)

    @property
    def observed(self) -> int:
        """Rounds observed so far."""
        return self._game.standing()[0]

    @property
    def player(self) -> str:
        """Name of the algorithm that plays."""
        return self._game.standing()[1]

    @property
    def regret_bound(self) -> float:
        """Expected regret at most, against losses of the kind that :attr:`bounded_for` says."""
        return self._game.standing()[2]

    @property
    def bounded_for(self) -> str:
        """What has to be true of the losses for the bound on regret: ``"any"`` or ``"independent"``, as `losses`. Privacy asks for neither."""
        return self._game.standing()[3]

    @property
    def privacy(self) -> Privacy:
        """What is promised, per round."""
        return Privacy.of(self._game.guarantee(), "[]")


def _point(given: Any, dimension: int, name: str) -> list[float]:
    """One number for all coordinates, or one for each."""
    values = np.array(number(given, name)) if np.isscalar(given) else array(given, name).astype(np.float64)
    if values.shape not in ((), (dimension,)):
        raise ValueError(
            f"{name} has shape {values.shape}; give one number, or one for each of the {dimension} coordinates"
        )
    listed: list[float] = np.broadcast_to(values, (dimension,)).tolist()
    return listed


def _convex_facts(
    dimension: Any, rounds: Any, epsilon: Any, delta: Any, bounds: Any, radius: Any, centre: Any, gradient_norm: Any, losses: Any,
    neighbors: Any, rounds_per_user: Any,
) -> tuple[list[float], list[float], float | None, float, int, float, float | None, str, str, int]:  # fmt: skip
    d, count, together = _counts(dimension=dimension, rounds=rounds, rounds_per_user=rounds_per_user)
    if d > 1 << 24:
        raise ValueError(f"dimension is {d}; give at most {1 << 24}")
    if (bounds is None) == (radius is None):
        raise ValueError(
            "the set of points is not given, or given twice; give bounds=(lower, upper) for a box or radius= for a ball"
        )
    if bounds is not None and centre is not None:
        raise ValueError("centre is given, but the centre of a box follows from its bounds; leave centre out")
    if not (isinstance(losses, str) and losses in ("linear", "convex")):
        raise ValueError(f"losses is {shown(losses)}; choose linear or convex")
    if bounds is not None:
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise ValueError(
                "bounds must be a pair (lower, upper): two numbers, or two lists with one number per coordinate"
            )
        first, second, size = _point(bounds[0], d, "bounds"), _point(bounds[1], d, "bounds"), None
    else:
        first, second, size = _point(0.0 if centre is None else centre, d, "centre"), [], number(radius, "radius")
    share = None if delta is None else number(delta, "delta")
    return (
        first, second, size, number(gradient_norm, "gradient_norm"), count, number(epsilon, "epsilon"), share, _relation(neighbors),
        losses, together,
    )  # fmt: skip


def explain_convex(
    dimension: int,
    rounds: int,
    epsilon: float,
    delta: float | None = None,
    *,
    bounds: Any = None,
    radius: float | None = None,
    centre: Any = None,
    gradient_norm: float = 1.0,
    losses: str = "convex",
    neighbors: str = "zero-out",
    rounds_per_user: int = 1,
) -> dict[str, Any]:
    """What is planned for a game of points, with its proved regret; nothing is read.

    >>> plan = explain_convex(20, 100_000, 1.0, 1e-6, radius=1.0, losses="linear", neighbors="replace-one")
    >>> plan["regret_bound"] < 2 * plan["without_privacy"]
    True
    """
    facts = _convex_facts(
        dimension, rounds, epsilon, delta, bounds, radius, centre, gradient_norm, losses, neighbors, rounds_per_user
    )
    found: dict[str, Any] = json.loads(_core.convex_plan(facts))
    return found


class _Planned(GoesOnOnce):
    """What can be read of a game whose plan has one player."""

    _game: Any

    @property
    def observed(self) -> int:
        """Rounds observed so far."""
        return int(self._game.observed())

    @property
    def plan(self) -> dict[str, Any]:
        """What was planned, as :func:`explain_convex` and :func:`explain_bandit` say it."""
        found: dict[str, Any] = json.loads(self._game.plan())
        return found

    @property
    def regret_bound(self) -> float:
        """Expected regret at most: of points for the stated kind of losses, of arms for the rewards that the plan says."""
        return float(self.plan["regret_bound"])

    @property
    def privacy(self) -> Privacy:
        """What is promised, per round."""
        return Privacy.of(self._game.guarantee(), "[]")


class OnlineConvex(_Planned):
    """A point of a box or a ball in every round, privately, against linear losses or by gradients of convex ones.

    >>> import dpopt
    >>> game = dpopt.online.OnlineConvex(dimension=2, rounds=500, epsilon=5.0, delta=1e-4, radius=1.0, insecure_seed=1)
    >>> while (x := game.play()) is not None:
    ...     last = x
    ...     game.observe([0.6, -0.8])
    >>> bool(last[0] < -0.3 and last[1] > 0.5)
    True

    Parameters
    ----------
    dimension
        How many coordinates a point has.
    rounds
        How many rounds are played at most, fixed in advance.
    epsilon
        ε of the whole game.
    delta
        δ > 0 of the whole game; by default 1/rounds^1.1, at most 0.01.
    bounds
        Points lie in a box ``(lower, upper)``: two numbers, or two lists with one number per coordinate.
    radius, centre
        Or in a ball; its centre is 0 by default.
    gradient_norm
        Gradients are clipped to this l2 norm.
    losses
        ``"convex"``, told by a gradient at the point that was played; or ``"linear"`` ones that were fixed before the first round, for
        which much less regret is proved. Privacy is the same.
    neighbors
        ``"zero-out"`` (a round may tell nothing) or ``"replace-one"``.
    rounds_per_user
        So many rounds are protected together, wherever they are.
    bad_gradients
        What a gradient does that is not one finite number per coordinate: ``"nothing"``, a round that tells nothing, so that
        nothing an outsider may see depends on it; or ``"error"``, which tells that there was one: for trials.
    budget
        A :class:`dpopt.Ledger` with ``unit="round"`` that is charged with the whole game before it begins.
    insecure_seed
        Reproducible noise for tests: no privacy.
    """

    def __init__(
        self,
        dimension: int,
        rounds: int,
        epsilon: float,
        delta: float | None = None,
        *,
        bounds: Any = None,
        radius: float | None = None,
        centre: Any = None,
        gradient_norm: float = 1.0,
        losses: str = "convex",
        neighbors: str = "zero-out",
        rounds_per_user: int = 1,
        bad_gradients: str = "nothing",
        budget: Ledger | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        facts = _convex_facts(
            dimension, rounds, epsilon, delta, bounds, radius, centre, gradient_norm, losses, neighbors, rounds_per_user
        )
        self._dimension, self._forgiving = len(facts[0]), _forgives(bad_gradients, "bad_gradients")
        charge, seed = _charging(budget, facts[7]), _seed(insecure_seed, budget)
        self._game = _core.ConvexGame.open(facts, charge, seed)
        _count("gradients", self._dimension, epsilon, delta, rounds, charge, seed)

    def play(self) -> NDArray[np.float64] | None:
        """The point of the coming round; ``None`` after the last round. Asking again gives the same."""
        return self._game.play()

    def observe(self, gradient: Sequence[float] | NDArray[np.float64]) -> None:
        """The gradient of the round's loss at the point that was played, clipped to `gradient_norm`."""
        told = attempt(lambda: np.array([float(entry) for entry in gradient]))
        sound = told is not None and told.shape == (self._dimension,) and bool(np.isfinite(told).all())
        if sound:
            assert told is not None
            self._game.observe(told)
        elif self._forgiving:
            self._game.observe_nothing()
        else:
            raise ValueError(f"a gradient must be a list of {self._dimension} finite numbers, one for each coordinate")


ARM_PLAYERS = ("weights", "elimination")


def _bandit_facts(
    arms: Any, rounds: Any, epsilon: Any, delta: Any, neighbors: Any, rounds_per_user: Any, player: Any, rewards: Any, switches: Any
) -> tuple[int, int, float, float, str, int, str | None, str, int]:  # fmt: skip
    counts = _counts(arms=arms, rounds=rounds, rounds_per_user=rounds_per_user)
    if not (player is None or isinstance(player, str) and player in ARM_PLAYERS):
        raise ValueError(f"there is no player {shown(player)}; choose one of {', '.join(ARM_PLAYERS)}")
    if not (isinstance(rewards, str) and rewards in LOSSES):
        raise ValueError(f"rewards is {shown(rewards)}; choose any or independent")
    changes = whole(switches, "switches")
    if not 0 <= changes < 2**62:
        raise ValueError(f"switches is {changes}; give 0 or more, and less than there are rounds")
    return (
        counts[0], counts[1], number(epsilon, "epsilon"), number(delta, "delta"), _relation(neighbors), counts[2], player, rewards,
        changes,
    )  # fmt: skip


def explain_bandit(
    arms: int,
    rounds: int,
    epsilon: float,
    delta: float = 0.0,
    *,
    neighbors: str = "zero-out",
    rounds_per_user: int = 1,
    player: str | None = None,
    rewards: str = "independent",
    switches: int = 0,
) -> dict[str, Any]:
    """What is planned for a game of arms, with its proved regret; nothing is read.

    >>> plan = explain_bandit(5, 100_000, 1.0, rewards="any")
    >>> plan["player"], plan["noise_scale"] < 1.001, plan["regret_bound"] < 3000
    ('weights', True, True)
    """
    found: dict[str, Any] = json.loads(
        _core.bandit_plan(
            _bandit_facts(arms, rounds, epsilon, delta, neighbors, rounds_per_user, player, rewards, switches)
        )
    )
    return found


class Bandit(_Planned):
    """One of several arms in every round, privately, where only the reward of the arm that was played is observed.

    >>> import dpopt
    >>> game = dpopt.online.Bandit(arms=2, rounds=20_000, epsilon=1.0, insecure_seed=1)
    >>> won = 0.0
    >>> while (arm := game.play()) is not None:
    ...     reward = [0.1, 0.9][arm]
    ...     won += reward
    ...     game.observe(reward)
    >>> bool(won > 17_000)
    True

    Parameters
    ----------
    arms
        How many there are.
    rounds
        How many rounds are played at most, fixed in advance.
    epsilon
        ε of the whole game.
    delta
        δ of the whole game; 0 by default: of the exact laws.
    neighbors
        ``"zero-out"`` (a round may tell nothing, a reward of 0) or ``"replace-one"``.
    rounds_per_user
        So many rounds are protected together.
    player
        ``"weights"`` or ``"elimination"``; by default whoever has the least proved regret for such rewards.
    rewards
        What is known of them, which decides whose bounds count where nobody is named: ``"independent"``, each arm's drawn from
        one law, or ``"any"``, fixed before the first round. Privacy is the same.
    switches
        The plays are held against the best arms that change at most so often; 0: against the best single one.
    bad_rewards
        What a reward does that is no finite number: ``"nothing"``, it counts as 0, so that nothing an outsider may see depends
        on it; or ``"error"``, which tells that there was one: for trials.
    budget
        A :class:`dpopt.Ledger` with ``unit="round"`` that is charged with the whole game before it begins; refused where a session goes
        on, which was charged when it was opened.
    session
        A file that the game is kept in, as sensitive as the rewards; if it is there, the game goes on where it was.
    moved
        The session was moved from another file system, and nothing goes on where it was; without this a copy is refused.
    insecure_seed
        Reproducible noise for tests: no privacy.
    """

    def __init__(
        self,
        arms: int,
        rounds: int,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbors: str = "zero-out",
        rounds_per_user: int = 1,
        player: str | None = None,
        rewards: str = "independent",
        switches: int = 0,
        bad_rewards: str = "nothing",
        budget: Ledger | None = None,
        session: str | os.PathLike[str] | None = None,
        moved: bool = False,
        insecure_seed: int | None = None,
    ) -> None:
        facts = _bandit_facts(arms, rounds, epsilon, delta, neighbors, rounds_per_user, player, rewards, switches)
        self._forgiving = _forgives(bad_rewards, "bad_rewards")
        charge = _charging(budget, facts[4])
        path, resumes = _session(session, moved, insecure_seed, budget)
        insecure_seed = _seed(insecure_seed, budget)
        if path is not None and resumes:
            self._game = _core.BanditGame.resume(path, moved)
            opened = self._game.facts()
            asked = (facts[0], facts[1], facts[5], facts[4], facts[2], facts[3], facts[8])
            if opened != asked or player not in (None, self.player):
                raise ValueError(
                    f"the session was opened with (arms, rounds, rounds_per_user, neighbors, epsilon, delta, switches) = {opened} and player "
                    f"{self.player}; give the same, or another file"
                )
            if rewards == "any" and self.plan["rewards"] != "any":
                raise ValueError(
                    f"this session's player {self.player} has a regret bound for independent rewards only; leave out rewards='any', or open another session"
                )
        else:
            self._game = _core.BanditGame.open(facts, path, charge, insecure_seed)
            _count("rewards of arms", facts[0], facts[2], facts[3], facts[1], charge, insecure_seed)

    def play(self) -> int | None:
        """The arm of the coming round, from 0; ``None`` after the last round. Asking again gives the same."""
        return self._game.play()

    def observe(self, reward: float) -> None:
        """The reward of the arm that was played, clamped to [0, 1]."""
        told = attempt(lambda: float(reward))
        if told is None or not math.isfinite(told):
            if not self._forgiving:
                raise ValueError("a reward must be one finite number in [0, 1]")
            told = 0.0
        self._game.observe(told)

    @property
    def player(self) -> str:
        """Name of the algorithm that plays."""
        return str(self.plan["player"])

    @property
    def weights(self) -> NDArray[np.float64]:
        """How much each arm is trusted, adding up to 1: made of what was released."""
        return self._game.weights()

    @property
    def left(self) -> list[int]:
        """Arms that may still be played: all of them, but for those that elimination has left for good."""
        weights = self.weights
        return [arm for arm in range(len(weights)) if self.player != "elimination" or weights[arm] > 0.0]
