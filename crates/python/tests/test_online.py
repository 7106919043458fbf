"""Games from Python: the library's own, with Python's checks around them."""

import os

import dpopt
import numpy as np
import pytest
from dpopt.online import Bandit, Experts, OnlineConvex, explain_bandit, explain_convex, explain_experts

pytestmark = pytest.mark.filterwarnings("ignore:insecure_seed makes")

GAME = dict(experts=4, rounds=60, epsilon=2.0, delta=1e-4)


def test_a_game_is_played_to_its_end():
    game = Experts(**GAME)
    seen = []
    while (expert := game.play()) is not None:
        assert expert == game.play() and 0 <= expert < 4
        seen.append(expert)
        game.observe(np.array([0.0, 1.0, 0.5, 0.25]))
    assert len(seen) == game.observed == 60
    with pytest.raises(ValueError, match="all 60 planned rounds"):
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
    game = Experts(**GAME, insecure_seed=1, bad_losses="error")
    first = game.play()
    with pytest.raises(ValueError):
        game.observe(losses)
    assert game.observed == 0 and game.play() == first


@pytest.mark.parametrize("losses", [[0.1], [float("inf")] * 4, ["a", 0, 0, 0], None])
def test_losses_that_cannot_be_read_may_tell_nothing(losses):
    game, twin = (Experts(**GAME, insecure_seed=1) for _ in range(2))
    for round in range(60):
        assert game.play() == twin.play()
        game.observe(losses if round == 7 else [0.0, 1.0, 0.5, 0.25])
        twin.observe([0.0] * 4 if round == 7 else [0.0, 1.0, 0.5, 0.25])
    with pytest.raises(ValueError, match="all 60 planned rounds"):
        game.observe(losses)


@pytest.mark.parametrize(
    "wrong",
    [
        {"experts": 1}, {"rounds": 1}, {"epsilon": -1.0}, {"delta": 2.0}, {"neighbors": "add-or-remove"}, {"neighbors": "near"},
        {"player": "best"}, {"rounds_per_user": 61}, {"rounds_per_user": 0}, {"bad_losses": "maybe"}, {"delta": 0.0, "player": "leader"},
        {"losses": "good"},
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
    game.observe([0.0, 1.0, 0.5, 0.25])  # observed, never shown
    del game
    game = Experts(**GAME, session=path)
    assert (game.observed, game.play()) == (20, shown)
    game.observe([0.0, 1.0, 0.5, 0.25])
    game.play()
    del game
    with pytest.raises(ValueError, match="opened with"):
        Experts(**{**GAME, "epsilon": 1.0}, session=path)
    path.write_bytes(old)
    with pytest.raises(ValueError, match="is an old copy that was put back"):
        Experts(**GAME, session=path)
    with pytest.raises(ValueError, match="exclude each other"):
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
    assert [row["player"] for row in rows] == ["lean", "leader", "fresh", "blocks"]
    assert [row["losses"] for row in rows] == ["any", "any", "any", "independent"]
    assert all(row["epsilon"] <= 1.0 and row["regret_bound"] > 0 for row in rows)
    best = min(rows[:3], key=lambda row: row["regret_bound"])
    assert Experts(100, 5000, 1.0, 1e-6, neighbors="replace-one").regret_bound == best["regret_bound"]
    assert "not_applicable" in explain_experts(10, 50, 1.0, 0.0)[1]


def test_blocks_are_chosen_where_they_promise_enough():
    few = dict(experts=20, rounds=3000, epsilon=0.2, neighbors="replace-one")
    chosen = {
        (delta, losses): Experts(**few, delta=delta, losses=losses)
        for delta in (0.0, 1e-6)
        for losses in (None, "any", "independent")
    }
    assert {key: game.player == "blocks" for key, game in chosen.items()} == {
        (0.0, None): True, (0.0, "any"): False, (0.0, "independent"): True,
        (1e-6, None): False, (1e-6, "any"): False, (1e-6, "independent"): True,
    }  # fmt: skip
    for game in chosen.values():
        assert game.bounded_for == ("independent" if game.player == "blocks" else "any")
    # its regret is random, and the bound is one of its mean
    pure = Experts(**few, delta=0.0, insecure_seed=1)
    assert pure.player == "blocks" and pure.regret_bound == chosen[0.0, None].regret_bound
    assert pure.privacy.delta == 0.0 and pure.regret_bound < 0.6 * chosen[0.0, "any"].regret_bound
    rng = np.random.default_rng(1)
    lost = np.zeros(20)
    own = 0.0
    while (expert := pure.play()) is not None:
        losses = (rng.uniform(size=20) < np.where(np.arange(20) == 3, 0.1, 0.9)).astype(float)
        own, lost = own + losses[expert], lost + losses
        pure.observe(losses)
    assert own - lost.min() < pure.regret_bound


POINTS = dict(dimension=3, rounds=200, epsilon=4.0, delta=1e-4)


@pytest.mark.parametrize("region", [{"radius": 2.0}, {"radius": 2.0, "centre": [1, 1, 1]}, {"bounds": (-1, [1, 2, 3])}])
def test_points_are_played_in_their_region(region):
    game = OnlineConvex(**POINTS, **region)
    first = game.play()
    seen = 0
    while (x := game.play()) is not None:
        assert x.shape == (3,)
        if "radius" in region:
            assert np.linalg.norm(x - np.asarray(region.get("centre", 0.0))) <= 2.0 + 1e-9
        else:
            assert (x >= -1).all() and (x <= [1, 2, 3]).all()
        seen += 1
        game.observe([1.0, 0.0, 0.0])
    assert seen == game.observed == 200 and first[0] > -2
    with pytest.raises(ValueError, match="all 200 planned rounds"):
        game.observe([0.0] * 3)
    assert game.privacy.unit == "round" and game.privacy.epsilon <= 4.0 and game.privacy.grade == "certified"


def test_points_follow_gradients_of_convex_losses():
    target = np.array([0.5, -0.25, 0.0])
    game = OnlineConvex(3, 20_000, 4.0, 1e-6, radius=1.0, gradient_norm=2.0, insecure_seed=5)
    lost = 0.0
    while (x := game.play()) is not None:
        lost += float(((x - target) ** 2).sum()) / 2
        game.observe(x - target)
    assert lost < game.regret_bound and np.linalg.norm(game.plan["strength"]) > 0


@pytest.mark.parametrize("gradient", [[0.1], [0.1, 0.2, float("nan")], ["a", 0, 0], None, [[1, 2, 3]], 7, [1, 2, 3, 4]])
def test_gradients_that_cannot_be_read(gradient):
    game = OnlineConvex(**POINTS, radius=1.0, insecure_seed=1, bad_gradients="error")
    first = game.play()
    with pytest.raises(ValueError):
        game.observe(gradient)
    assert game.observed == 0 and (game.play() == first).all()
    game, twin = (OnlineConvex(**POINTS, radius=1.0, insecure_seed=1) for _ in range(2))
    for round in range(200):
        assert (game.play() == twin.play()).all()
        game.observe(gradient if round == 7 else [0.0, 0.5, 0.0])
        twin.observe([0.0] * 3 if round == 7 else [0.0, 0.5, 0.0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension": 0}, {"rounds": 1}, {"epsilon": -1.0}, {"delta": 0.0}, {"delta": 2.0}, {"neighbors": "add-or-remove"}, {"radius": 0.0},
        {"radius": None}, {"bounds": (0, 1)}, {"centre": [1.0]}, {"gradient_norm": 0.0}, {"losses": "any"}, {"bad_gradients": "maybe"},
        {"budget": 3}, {"radius": None, "bounds": (1, 0)}, {"radius": None, "bounds": (1, [2, 3])},
    ],
)  # fmt: skip
def test_wrong_facts_of_points_are_refused(wrong):
    with pytest.raises(ValueError):
        OnlineConvex(**{**POINTS, "radius": 1.0, **wrong})


def test_rounds_of_one_user_are_protected_together():
    one = OnlineConvex(**POINTS, radius=1.0).plan
    five = OnlineConvex(**POINTS, radius=1.0, rounds_per_user=5).plan
    assert 5**0.5 * one["noise_std"] < five["noise_std"] < 5 * one["noise_std"]
    assert five == explain_convex(**POINTS, radius=1.0, rounds_per_user=5) and five["epsilon"] <= 4.0
    with pytest.raises(ValueError, match="1 to 200"):
        OnlineConvex(**POINTS, radius=1.0, rounds_per_user=201)
    alone, together = (explain_bandit(**ARMS, rounds_per_user=k)["noise_scale"] for k in (1, 4))
    assert together == pytest.approx(4 * alone, rel=1e-6)


ARMS = dict(arms=3, rounds=4000, epsilon=2.0)


def test_arms_are_pulled_to_the_end():
    rng = np.random.default_rng(2)
    game = Bandit(**ARMS, insecure_seed=1)
    pulled = np.zeros(3)
    while (arm := game.play()) is not None:
        assert game.play() == arm
        pulled[arm] += 1
        game.observe(float(rng.uniform() < [0.1, 0.95, 0.2][arm]))
    assert pulled.sum() == game.observed == 4000 and pulled[1] > 2000 and 1 in game.left
    with pytest.raises(ValueError, match="all 4000 planned rounds"):
        game.observe(0.0)
    assert game.privacy.delta == 0.0 and game.privacy.epsilon <= 2.0 and game.regret_bound <= 4000
    assert game.plan == explain_bandit(**ARMS)


def test_a_best_arm_that_changes_is_followed_if_switches_are_planned():
    rng, won = np.random.default_rng(3), {}
    for player, switches in [("weights", 1), ("elimination", 0)]:
        game = Bandit(3, 60_000, 2.0, rewards="any", switches=switches, player=player, insecure_seed=1)
        won[player] = 0.0
        while (arm := game.play()) is not None:
            means = [0.9, 0.5, 0.1] if game.observed < 30_000 else [0.1, 0.5, 0.9]
            reward = float(rng.uniform() < means[arm])
            won[player] += reward
            game.observe(reward)
        assert abs(game.weights.sum() - 1) < 1e-9
    assert won["weights"] > 0.8 * 60_000 > won["elimination"] + 0.1 * 60_000
    assert explain_bandit(3, 60_000, 2.0, rewards="any", switches=1)["player"] == "weights"


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "a", None, [1, 2]])
def test_rewards_that_cannot_be_read(reward):
    game = Bandit(**ARMS, insecure_seed=1, bad_rewards="error")
    with pytest.raises(ValueError):
        game.observe(reward)
    assert game.observed == 0
    game, twin = (Bandit(**ARMS, insecure_seed=1) for _ in range(2))
    for round in range(1000):
        assert game.play() == twin.play()
        game.observe(reward if round == 7 else 0.5)
        twin.observe(0.0 if round == 7 else 0.5)


@pytest.mark.parametrize(
    "wrong", [{"arms": 1}, {"rounds": 1}, {"epsilon": 0.0}, {"delta": 2.0}, {"neighbors": "add-or-remove"}, {"rounds_per_user": 0},
              {"player": "lean"}, {"rewards": "linear"}, {"switches": -1}, {"switches": 4000}, {"switches": 2**64},
              {"switches": 1, "player": "elimination"}]
)  # fmt: skip
def test_wrong_facts_of_arms_are_refused(wrong):
    with pytest.raises(ValueError):
        Bandit(**{**ARMS, **wrong})


@pytest.mark.parametrize("player", ["weights", "elimination"])
def test_a_game_of_arms_goes_on_where_it_was(tmp_path, player):
    path = tmp_path / "arms"
    game = Bandit(**ARMS, session=path, player=player)
    for _ in range(1000):
        game.observe([0.0, 1.0, 0.5][game.play()])
    shown, weights = game.play(), game.weights
    old = path.read_bytes()
    with pytest.raises(ValueError, match="held by another process"):
        Bandit(**ARMS, session=path)
    game.observe(0.5)  # observed, never shown
    del game
    game = Bandit(**ARMS, session=path)
    assert (game.observed, game.play()) == (1000, shown) and np.array_equal(game.weights, weights)
    while (arm := game.play()) is not None:
        game.observe([0.0, 1.0, 0.5][arm])
    assert game.player == player and game.privacy.epsilon <= 2.0
    # a session takes no seed. The noise of a mean of 454 rewards takes the second arm's for another's with probability e^-100; what weights
    # come to is less certain, and asserted of seeded games
    assert game.left == ([1] if player == "elimination" else [0, 1, 2])
    del game
    other = {"weights": "elimination", "elimination": "weights"}[player]
    for wrong in ({"player": other}, {"switches": 1}):
        with pytest.raises(ValueError, match="opened with"):
            Bandit(**ARMS, session=path, **wrong)
    if player == "elimination":
        with pytest.raises(ValueError, match="independent rewards"):
            Bandit(**ARMS, session=path, rewards="any")
    with pytest.raises(ValueError, match="opened with"):
        Bandit(**{**ARMS, "epsilon": 1.0}, session=path)
    with pytest.raises(ValueError, match="charged to its ledger when it was opened"):
        Bandit(**ARMS, session=path, budget=dpopt.Ledger(9.0, 1e-3, unit="round"))
    path.write_bytes(old)
    with pytest.raises(ValueError, match="is an old copy that was put back"):
        Bandit(**ARMS, session=path)
    with pytest.raises(ValueError, match="exclude each other"):
        Bandit(**ARMS, session=tmp_path / "other", insecure_seed=1)


GAMES = [
    lambda **options: Experts(**{**GAME, "epsilon": 1.0, **options}),
    lambda **options: OnlineConvex(**{**POINTS, "radius": 1.0, "epsilon": 1.0, **options}),
    lambda **options: Bandit(**{**ARMS, "epsilon": 1.0, **options}),
]


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("file", [False, True])
def test_games_are_charged_once_to_a_ledger_of_rounds(game, file, tmp_path):
    path = {"path": tmp_path / "games.ledger"} if file else {}
    # less than two games by any accountant
    ledger = dpopt.Ledger(1.05, 1e-3, unit="round", **path)
    assert ledger.unit == "round"
    opened = game(budget=ledger)
    opened.play()
    assert len(ledger.entries) == 1 and ledger.entries[0].epsilon == 1.0
    with pytest.raises(dpopt.BudgetExceeded):
        game(budget=ledger)
    if file:
        again = dpopt.Ledger.open(tmp_path / "games.ledger")
        assert again.unit == "round" and len(again.entries) == 1
    with pytest.raises(ValueError, match="seed"):
        game(budget=ledger, insecure_seed=1)
    for other in (dpopt.Ledger(9.0, 1e-3), dpopt.Ledger(9.0, 1e-3, unit="person")):
        with pytest.raises(ValueError, match="ledger of their own"):
            game(budget=other)
    with pytest.raises(ValueError, match="kept for replace-one"):
        game(budget=dpopt.Ledger(9.0, 1e-3, unit="round", relation="replace-one"))


def test_rows_are_not_charged_to_a_ledger_of_rounds():
    ledger = dpopt.Ledger(9.0, 1e-3, unit="round")
    X = np.zeros((50, 2))
    with pytest.raises(ValueError, match="ledger of their own"):
        dpopt.LogisticRegression(budget=ledger, bounds=(-1, 1), classes=[0, 1]).fit(X, np.arange(50) % 2)


def test_a_game_that_goes_on_is_not_charged_again(tmp_path):
    ledger = dpopt.Ledger(1.5, 1e-3, unit="round")
    path = tmp_path / "session"
    game = Experts(**{**GAME, "epsilon": 1.0}, session=path, budget=ledger)
    game.play()
    game.observe([0.0] * 4)
    game.play()
    del game
    # another ledger would show nothing of it
    for given in (ledger, dpopt.Ledger(1.5, 1e-3, unit="round")):
        with pytest.raises(ValueError, match="charged to its ledger when it was opened"):
            Experts(**{**GAME, "epsilon": 1.0}, session=path, budget=given)
    assert Experts(**{**GAME, "epsilon": 1.0}, session=path).observed == 1
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("game", GAMES)
def test_games_are_not_copied(game):
    import copy
    import pickle

    opened = game()
    for how in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            how(opened)


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("game", GAMES[1:])
def test_a_forked_game_refuses(game):
    opened = game(rounds=4000)
    child = os.fork()
    if child == 0:
        try:
            play = opened.play()
            opened.observe(0.5 if isinstance(play, int) else play)
        except ValueError as error:
            os._exit(0 if "another process" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("default:insecure_seed makes")
@pytest.mark.parametrize("game", GAMES)
def test_a_seed_voids_the_promise_and_reports_say_so(game):
    with pytest.warns(dpopt.PrivacyWarning, match="insecure_seed makes the noise predictable"):
        assert game(insecure_seed=1).privacy.insecure_seed


@pytest.mark.parametrize("game", [Experts, Bandit])
def test_a_charge_that_is_refused_leaves_no_mark(game, tmp_path):
    given = GAME if game is Experts else ARMS
    path = tmp_path / "session"
    with pytest.raises(dpopt.BudgetExceeded):
        game(**given, session=path, budget=dpopt.Ledger(0.01, 1e-3, unit="round"))
    assert not list(tmp_path.iterdir())
    game(**given, session=path, budget=dpopt.Ledger(50.0, 1e-2, unit="round"))
    assert path.exists()
