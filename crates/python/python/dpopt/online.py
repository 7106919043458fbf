"""Learning while it happens: whom to trust in every round (docs/online.md).

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
from typing import TYPE_CHECKING, Any

from . import _core
from ._plan import Privacy
from ._reading import attempt, kind, number, shown, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Experts", "explain_experts"]


RELATIONS = ("zero-out", "replace-one", "add-or-remove")
PLAYERS = ("lean", "fresh", "leader")


def _facts(
    experts: Any, rounds: Any, epsilon: Any, delta: Any, neighbors: Any, rounds_per_user: Any, player: Any
) -> tuple[int, int, float, float | None, str, int, str | None]:
    counts = {"experts": experts, "rounds": rounds, "rounds_per_user": rounds_per_user}
    checked = {name: whole(value, name) for name, value in counts.items()}
    for name, value in checked.items():
        if not 1 <= value < 2**62:
            raise ValueError(f"{name} is {value}; give a whole number from 1")
    if not (isinstance(neighbors, str) and neighbors in RELATIONS):
        raise ValueError(f"neighbors is {shown(neighbors)}; choose zero-out or replace-one")
    if not (player is None or isinstance(player, str) and player in PLAYERS):
        raise ValueError(f"there is no player {shown(player)}; choose one of {', '.join(PLAYERS)}")
    share = None if delta is None else number(delta, "delta")
    return (
        checked["experts"], checked["rounds"], number(epsilon, "epsilon"), share, neighbors,
        checked["rounds_per_user"], player,
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
    ['lean', 'leader', 'fresh']
    >>> all(row["epsilon"] <= 1.0 for row in rows)
    True
    """
    facts = _facts(experts, rounds, epsilon, delta, neighbors, rounds_per_user, None)
    found: list[dict[str, Any]] = json.loads(_core.experts_plans(facts))
    return found


class Experts:
    """One of many experts in every round, privately, while their losses come in.

    Args:
        experts: how many there are.
        rounds: how many rounds are played at most, fixed in advance.
        epsilon: ε of the whole game.
        delta: δ of the whole game; by default 1/rounds^1.1, at most 0.01; 0 for a pure guarantee.
        neighbors: ``"zero-out"`` (a round may tell nothing) or ``"replace-one"``.
        rounds_per_user: so many rounds are protected together.
        player: ``"lean"``, ``"fresh"`` or ``"leader"``; by default whoever has the least proved regret.
        bad_losses: what losses do that are not one finite number per expert: ``"error"``, or ``"nothing"``: a round without losses, so
            that nothing an outsider may see depends on it.
        session: a file that the game is kept in, as sensitive as the losses; if it is there, the game goes on where it was.
        insecure_seed: reproducible coins for tests: no privacy.
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
        bad_losses: str = "error",
        session: str | os.PathLike[str] | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        facts = _facts(experts, rounds, epsilon, delta, neighbors, rounds_per_user, player)
        if not (isinstance(bad_losses, str) and bad_losses in ("error", "nothing")):
            raise ValueError(f"bad_losses is {shown(bad_losses)}; choose error or nothing")
        self._experts, self._forgiving = facts[0], bad_losses == "nothing"
        path = None
        if session is not None:
            if not isinstance(session, (str, os.PathLike)):
                raise TypeError(f"session is {kind(session)}; give the path of a file")
            path = Path(session)
        insecure_seed = None if insecure_seed is None else whole(insecure_seed, "insecure_seed") % 2**64
        if path is not None and insecure_seed is not None:
            raise ValueError(
                "a session and an insecure_seed do not go together: the same coins would come again after a restart"
            )
        if path is not None and (path.exists() or path.is_symlink()):
            self._game = _core.ExpertsGame.resume(path)
            opened = self._game.facts()
            usual = _core.default_delta(facts[1]) if facts[3] is None else facts[3]
            asked = (facts[0], facts[1], facts[5], facts[4], facts[2], usual)
            if opened != asked or player not in (None, self.player):
                raise ValueError(
                    f"the session was opened with (experts, rounds, rounds_per_user, neighbors, epsilon, delta) = {opened} and player "
                    f"{self.player}; give the same, or another file"
                )
        else:
            self._game = _core.ExpertsGame.open(facts, path, insecure_seed)

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
        """Who plays."""
        return self._game.standing()[1]

    @property
    def regret_bound(self) -> float:
        """Expected regret at most, against losses that were fixed before the first round."""
        return self._game.standing()[2]

    @property
    def privacy(self) -> Privacy:
        """What is promised, per round."""
        return Privacy.of(self._game.guarantee(), "[]")
