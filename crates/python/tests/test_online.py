"""The game of experts from Python: the library's own, with Python's checks around it."""

import os

import numpy as np
import pytest
from dpopt.online import Experts, explain_experts

GAME = dict(experts=4, rounds=60, epsilon=2.0, delta=1e-4)


def test_a_game_is_played_to_its_end():
    game = Experts(**GAME)
    seen = []
    while (expert := game.play()) is not None:
        assert expert == game.play() and 0 <= expert < 4
        seen.append(expert)
        game.observe(np.array([0.0, 1.0, 0.5, 0.25]))
    assert len(seen) == game.observed == 60
    with pytest.raises(ValueError, match="all 60 rounds"):
        game.observe([0.0] * 4)
    assert game.privacy.unit == "round" and game.privacy.epsilon <= 2.0 and game.privacy.grade == "certified"
    assert str(game.privacy).endswith("per round, zero-out")


def test_a_seed_gives_the_same_game_and_voids_the_promise():
    def plays():
        game, seen = Experts(**GAME, insecure_seed=3), []
        while (expert := game.play()) is not None:
            seen.append(expert)
            game.observe([0.0, 1.0, 0.5, 0.25])
        return seen

    assert plays() == plays()
    assert Experts(**GAME, insecure_seed=3).privacy.insecure_seed


@pytest.mark.parametrize(
    "losses", [[0.1], [0.1, 0.2, 0.3, float("nan")], ["a", 0, 0, 0], None, [[0.1, 0.2], [0.3, 0.4]], 7]
)
def test_wrong_losses_change_nothing(losses):
    game = Experts(**GAME, insecure_seed=1)
    first = game.play()
    with pytest.raises(ValueError):
        game.observe(losses)
    assert game.observed == 0 and game.play() == first


@pytest.mark.parametrize("losses", [[0.1], [float("inf")] * 4, ["a", 0, 0, 0], None])
def test_losses_that_cannot_be_read_may_tell_nothing(losses):
    game, twin = (Experts(**GAME, insecure_seed=1, bad_losses="nothing") for _ in range(2))
    for round in range(60):
        assert game.play() == twin.play()
        game.observe(losses if round == 7 else [0.0, 1.0, 0.5, 0.25])
        twin.observe([0.0] * 4 if round == 7 else [0.0, 1.0, 0.5, 0.25])
    with pytest.raises(ValueError, match="all 60 rounds"):
        game.observe(losses)


@pytest.mark.parametrize(
    "wrong",
    [
        {"experts": 1}, {"rounds": 1}, {"epsilon": -1.0}, {"delta": 2.0}, {"neighbors": "add-or-remove"}, {"neighbors": "near"},
        {"player": "best"}, {"rounds_per_user": 61}, {"rounds_per_user": 0}, {"bad_losses": "maybe"}, {"delta": 0.0, "player": "leader"},
    ],
)  # fmt: skip
def test_wrong_facts_are_refused(wrong):
    with pytest.raises(ValueError):
        Experts(**{**GAME, **wrong})


def test_a_session_goes_on_and_is_one_at_a_time(tmp_path):
    path = tmp_path / "session"
    game = Experts(**GAME, session=path)
    for _ in range(20):
        shown = game.play()
        game.observe([0.0, 1.0, 0.5, 0.25])
    shown = game.play()
    with pytest.raises(ValueError, match="held by another process"):
        Experts(**GAME, session=path)
    old = path.read_bytes()
    game.observe([0.0, 1.0, 0.5, 0.25])  # told, never shown
    del game
    game = Experts(**GAME, session=path)
    assert (game.observed, game.play()) == (20, shown)
    game.observe([0.0, 1.0, 0.5, 0.25])
    game.play()
    del game
    with pytest.raises(ValueError, match="opened with"):
        Experts(**{**GAME, "epsilon": 1.0}, session=path)
    path.write_bytes(old)
    with pytest.raises(ValueError, match="older"):
        Experts(**GAME, session=path)
    with pytest.raises(ValueError, match="do not go together"):
        Experts(**GAME, session=tmp_path / "other", insecure_seed=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_copy_does_not_go_on(tmp_path):
    game = Experts(**GAME, session=tmp_path / "game")
    game.play()
    child = os.fork()
    if child == 0:
        refused = 0
        for step in (game.play, lambda: game.observe([0.0] * 4)):
            try:
                step()
            except Exception as why:
                refused += "another process" in str(why)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    game.observe([0.0] * 4)
    assert game.play() is not None and game.observed == 1


def test_explained_without_a_loss():
    rows = explain_experts(100, 5000, 1.0, 1e-6, neighbors="replace-one")
    assert [row["player"] for row in rows] == ["lean", "leader", "fresh"]
    assert all(row["epsilon"] <= 1.0 and row["regret_bound"] > 0 for row in rows)
    best = min(rows, key=lambda row: row["regret_bound"])
    assert Experts(100, 5000, 1.0, 1e-6, neighbors="replace-one").regret_bound == best["regret_bound"]
    assert "not_applicable" in explain_experts(10, 50, 1.0, 0.0)[1]
