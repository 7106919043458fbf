"""The Flower clients account for what they release, let nothing else out, and run for real: a SuperLink and two SuperNodes on localhost."""

import logging
import math
import os
import subprocess
import sys
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt import Ledger, accounting
from dpopt.flower import Accountant, HardThresholding, PrivateClient, PrivateUpdate, hard_threshold

flwr = pytest.importorskip("flwr")
from flower_nodes import InProcess, answer, arrays_of, asked, context  # noqa: E402
from flwr.app import ArrayRecord, Error, Message, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.clientapp.mod import LocalDpMod  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"


def records(seed, n=1500, d=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / 8
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X[:, 7] += 0.3 * y
    X[:, 11] -= 0.3 * y
    return X, y


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_client_releases_what_it_planned_and_no_more(loss):
    X, y = records(1)
    with pytest.warns(dpopt.PrivacyWarning):
        client = PrivateClient(X, y, epsilon=4.0, delta=1e-5, rounds=3, local_steps=2, loss=loss, insecure_seed=1)
    weights = [np.zeros(30)]
    for _ in range(3):
        weights, n, _ = client.fit(weights, {})
    assert n == 1500 and sum(r["count"] for r in client.releases) == 6
    assert float(dpopt.accounting.epsilon(client.event, 1e-5)) <= 4.0
    assert set(np.flatnonzero(hard_threshold(weights[0], 2))) == {7, 11}
    with pytest.raises(dpopt.BudgetExceeded, match="all 3 planned rounds"):
        client.fit(weights, {})
    assert sum(r["count"] for r in client.releases) == 6
    with pytest.raises(NotImplementedError):
        client.evaluate(weights, {})


def test_thresholding_ties():
    assert hard_threshold([3, -1, 2, -4], 2).tolist() == [3, 0, 0, -4]
    assert hard_threshold([1, -1, 1], 1).tolist() == [1, 0, 0]


def test_a_client_that_always_takes_all_its_records_is_accounted_as_that():
    X, y = records(3, n=200)
    client = PrivateClient(X, y, epsilon=4.0, delta=1e-5, rounds=2, sampling_probability=1.0)
    (weights,), _, _ = client.fit([np.zeros(30)], {})
    client.fit([weights], {})
    assert sum(r["count"] for r in client.releases) == 2
    # no amplification is claimed: the noise of two plain Gaussian sums
    plain = dpopt.accounting.epsilon(f"gaussian({client.noise_multiplier!r}) x 2", 1e-5)
    assert float(dpopt.accounting.epsilon(client.event, 1e-5)) >= float(plain) * (1 - 1e-6)


def test_a_session_of_records_goes_on_and_is_charged_once(tmp_path):
    X, y = records(3, n=300)
    ledger = Ledger(4.0, 1e-4, path=tmp_path / "ledger")
    given = {
        "epsilon": 4.0,
        "delta": 1e-5,
        "rounds": 3,
        "local_steps": 2,
        "session": tmp_path / "rounds",
        "budget": ledger,
    }
    noise = set()
    for _ in range(3):
        client = PrivateClient(X, y, **given)
        client.fit([np.zeros(30)], {})
        noise.add(client.noise_multiplier)
    assert len(noise) == 1 and len(ledger.entries) == 1
    with pytest.raises(dpopt.BudgetExceeded, match="all 3 planned rounds"):
        PrivateClient(X, y, **given).fit([np.zeros(30)], {})
    with pytest.raises(ValueError, match="opened with rounds = 3"):
        PrivateClient(X, y, **{**given, "rounds": 4})
    with pytest.raises(ValueError, match="in memory"):
        PrivateClient(X, y, **{**given, "budget": Ledger(4.0, 1e-4)})
    with pytest.raises(ValueError, match="shape"):
        PrivateClient(X, y, epsilon=4.0, delta=1e-5, rounds=3).fit([np.zeros(3)], {})
    with pytest.raises(dpopt.PrivacyError, match="another ledger"):
        PrivateClient(X, y, **{**given, "budget": Ledger(4.0, 1e-4, path=tmp_path / "other")})
    unpaid = {**given, "session": tmp_path / "unpaid"}
    PrivateClient(X, y, **{**unpaid, "budget": None})
    with pytest.raises(dpopt.PrivacyError, match="without a ledger"):
        PrivateClient(X, y, **unpaid)


def test_a_client_answers_messages_with_a_session_only(tmp_path):
    X, y = records(3, n=100)
    given = {"epsilon": 4.0, "delta": 1e-5, "rounds": 2}
    message = asked({"w": np.zeros(30)})
    with pytest.raises(dpopt.PrivacyError, match="session="):
        PrivateClient(X, y, **given).train(message)
    for _ in range(2):
        reply = PrivateClient(X, y, **given, session=tmp_path / "rounds").train(message)
        assert set(reply.content) == {"arrays", "metrics"}
    with pytest.raises(dpopt.BudgetExceeded):
        PrivateClient(X, y, **given, session=tmp_path / "rounds").train(message)
    renamed = Message(RecordDict({"metrics": arrays_of({"w": np.zeros(30)})}), dst_node_id=2, message_type="train")
    with pytest.raises(ValueError, match="not called metrics"):
        PrivateClient(X, y, **given, session=tmp_path / "more").train(renamed)
    assert not hasattr(PrivateClient, "local_step")


# --- the mod ---


TERMS = {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "rounds": 4}
SENT = {"first": np.zeros((2, 3), dtype=np.float32), "second": np.zeros(4), "batches": np.array(5)}


def app(mod, train):
    made = ClientApp(mods=[mod])
    made.train()(train)
    made.evaluate()(train)
    return made


def by(amount):
    return lambda message, context: answer(message, {n: a + amount for n, a in SENT.items()}, loss=0.123)


def test_the_mod_lets_out_noisy_arrays_and_declared_constants(tmp_path):
    mod = PrivateUpdate(**TERMS, session=tmp_path / "rounds", num_examples=10, metrics={"version": 3})
    reply = app(mod, by(100.0))(asked(SENT), context())
    assert not reply.has_error() and set(reply.content) == {"arrays", "metrics"}
    assert dict(reply.content["metrics"]) == {"num-examples": 10.0, "version": 3.0}
    got = {name: array.numpy() for name, array in reply.content["arrays"].items()}
    assert {n: (a.shape, a.dtype) for n, a in got.items()} == {n: (a.shape, a.dtype) for n, a in SENT.items()}
    # of an update of norm 316 no number is moved by more than the clip and noise: z·C, ten numbers at eight standard deviations, beyond which one is with
    # probability below 2e-14
    std = mod.updates(context()).noise_multiplier
    assert all(np.abs(got[name]).max() < 1 + 8 * std for name in ("first", "second")) and got["batches"] == 5


def raising(message, context):
    raise KeyError("c4n4ry-Zoe")


def in_place(message, context):
    # a training loop that writes into what it got
    arrays = {n: a.numpy() for n, a in message.content["arrays"].items()}
    message.content["arrays"] = arrays_of({n: a + 1e6 for n, a in arrays.items()})
    return answer(message, {n: a + 1e6 for n, a in arrays.items()})


def exiting(message, context):
    raise SystemExit("c4n4ry-Zoe")


ODD = {
    "raises": raising,
    "exits": exiting,
    "an error": lambda m, c: Message(Error(code=2, reason="c4n4ry-Zoe"), reply_to=m),
    "no message": lambda m, c: None,
    "other names": lambda m, c: answer(m, {"c4n4ry": np.zeros(3)}),
    "other shapes": lambda m, c: answer(m, {**SENT, "second": np.zeros(917)}),
    "not finite": lambda m, c: answer(m, {**SENT, "second": np.full(4, np.nan)}),
    "two records": lambda m, c: Message(
        RecordDict({"a": ArrayRecord([np.zeros(3)]), "b": ArrayRecord([np.zeros(3)])}), reply_to=m
    ),
    "in place": in_place,
    "more names": lambda m, c: answer(m, {**SENT, "c4n4ry": np.zeros(3)}),
    "a plain update": by(0.1),
}


@pytest.mark.parametrize("kind", ODD)
def test_whatever_the_app_does_the_server_gets_the_same_form(kind, tmp_path, caplog):
    mod = PrivateUpdate(**TERMS, session=tmp_path / "rounds")
    with caplog.at_level(logging.DEBUG):
        reply = app(mod, ODD[kind])(asked(SENT), context())
    assert not reply.has_error() and set(reply.content) == {"arrays", "metrics"}
    assert {n: (a.shape, a.dtype) for n, a in reply.content["arrays"].items()} == {
        n: (a.shape, str(a.dtype)) for n, a in SENT.items()
    }
    assert dict(reply.content["metrics"]) == {"num-examples": 1.0}
    assert (reply.metadata.dst_node_id, reply.metadata.message_type) == (asked(SENT).metadata.src_node_id, "train")
    # the operator's log says what kind of error and where, and nothing that was in it
    assert "c4n4ry" not in caplog.text and "917" not in caplog.text
    if kind == "raises":
        assert "KeyError" in caplog.text and "test_flower.py" in caplog.text
    # the clip, and four numbers at eight standard deviations of the noise: false alarm below 5e-15; an update that is not clipped is always seen
    std = mod.updates(context()).noise_multiplier
    assert np.abs(reply.content["arrays"]["second"].numpy()).max() < 1 + 8 * std


def writing(message, context):
    """An app that leaves notes wherever its message has room."""
    made = answer(message, {n: a + 0.1 for n, a in SENT.items()})
    for name in ("group_id", "delivered_at", "message_type"):
        setattr(message.metadata, name, "train.c4n4ry")
    message.metadata.ttl = 917.0
    message.metadata.dst_node_id = 917
    message.metadata.__dict__.update(
        {"_run_id": 917, "_message_id": "c4n4ry", "_src_node_id": 917, "_created_at": 917.0}
    )
    message.content["arrays"] = arrays_of({"c4n4ry": np.zeros(917)})
    message.content["c4n4ry"] = arrays_of({"c4n4ry": np.zeros(917)})
    return made


@pytest.mark.parametrize("after", [lambda made: made, raising], ids=["answers", "raises"])
def test_what_the_app_writes_into_its_message_stays_with_it(after, tmp_path):
    def train(message, context):
        made = writing(message, context)
        return after(made) if after is not raising else raising(message, context)

    came = asked(SENT)
    replies = [
        app(PrivateUpdate(**TERMS, session=tmp_path / name), f)(came, context())
        for name, f in (("a", by(0.1)), ("b", train))
    ]
    clock = ("_created_at", "_ttl")
    plain, written = ({k: v for k, v in vars(reply.metadata).items() if k not in clock} for reply in replies)
    assert plain == written and "c4n4ry" not in str(vars(replies[1].metadata))
    assert abs(replies[0].metadata.ttl - replies[1].metadata.ttl) < 600
    assert set(replies[1].content) == {"arrays", "metrics"} and set(replies[1].content["arrays"]) == set(SENT)
    # the message is as it came, also for callers in between
    assert set(came.content) == {"arrays", "config"} and set(came.content["arrays"]) == set(SENT)


def test_what_the_app_writes_before_a_refusal_stays_with_it(tmp_path):
    # another process takes the last round while this one trains
    mod = PrivateUpdate(**{**TERMS, "rounds": 1}, session=tmp_path / "rounds")

    def train(message, context):
        mod.updates(context).release(list(SENT.values()), None)
        return writing(message, context)

    reply = app(mod, train)(asked(SENT), context())
    assert reply.has_error() and "planned rounds" in reply.error.reason and "c4n4ry" not in str(vars(reply.metadata))


def test_what_the_mod_refuses_says_nothing_of_the_client(tmp_path):
    calls = []

    def train(message, context):
        calls.append(message)
        return answer(message, SENT)

    mod = PrivateUpdate(**TERMS, session=tmp_path / "rounds")
    made = app(mod, train)
    refused = [made(asked(SENT, "evaluate"), context()), made(asked(SENT, more=ArrayRecord([np.zeros(2)])), context())]
    refused += [made(asked({"a": np.array([1, 2])}), context())]
    renamed = Message(RecordDict({"metrics": arrays_of(SENT)}), dst_node_id=2, message_type="train")
    refused += [made(renamed, context())]
    assert not calls and all(reply.has_error() and reply.error.code == 6 for reply in refused)
    for _ in range(4):
        assert not made(asked(SENT), context()).has_error()
    last = made(asked(SENT), context())
    assert len(calls) == 4 and "all 4 planned rounds are released" in last.error.reason
    other = app(PrivateUpdate(**{**TERMS, "rounds": 9}, session=tmp_path / "rounds"), train)(asked(SENT), context())
    assert "opened with rounds = 4" in other.error.reason and len(calls) == 4


def test_every_client_of_a_machine_has_a_session_and_a_ledger(tmp_path):
    ledgers = {
        n: Ledger(8.0, 1e-4, relation="replace-one", unit="client", path=tmp_path / f"ledger-{n}") for n in (0, 1)
    }
    mod = PrivateUpdate(
        **TERMS,
        session=lambda c: tmp_path / f"rounds-{c.node_config['client']}",
        budget=lambda c: ledgers[c.node_config["client"]],
    )
    made = app(mod, by(0.1))
    for _ in range(2):
        for number in (0, 1):
            assert not made(asked(SENT), context(client=number)).has_error()
    assert [mod.updates(context(client=n)).check(list(SENT.values())) for n in (0, 1)] == [None, None]
    assert [len(ledger.entries) for ledger in ledgers.values()] == [1, 1]
    # a budget without room is refused, and the client is not asked
    for name in ("rounds-0", "rounds-0.mark"):
        (tmp_path / name).unlink()
    assert "of the total budget" in made(asked(SENT), context(client=0)).error.reason
    assert [len(ledger.entries) for ledger in ledgers.values()] == [1, 1]


def test_an_older_copy_of_a_session_is_found_while_the_node_runs(tmp_path):
    path = tmp_path / "rounds"
    made, here = app(PrivateUpdate(**TERMS, session=path), by(0.1)), context()
    made(asked(SENT), here)
    old = path.read_bytes()
    made(asked(SENT), here)
    # written over in place: the same file, as far as the system knows
    path.write_bytes(old)
    assert "older copy" in made(asked(SENT), here).error.reason
    # and by its mark after that
    assert "older copy" in made(asked(SENT), context()).error.reason


def test_a_session_that_is_gone_is_charged_no_second_time_while_the_node_runs(tmp_path):
    ledger = Ledger(90.0, 1e-2, relation="replace-one", unit="client", path=tmp_path / "ledger")
    made, here = app(PrivateUpdate(**TERMS, session=tmp_path / "rounds", budget=ledger), by(0.1)), context()
    made(asked(SENT), here)
    for name in ("rounds", "rounds.mark"):
        (tmp_path / name).unlink()
    assert "older copy" in made(asked(SENT), here).error.reason
    assert len(ledger.entries) == 1 and not (tmp_path / "rounds").exists()


def test_mods_before_it_see_noise_and_those_after_it_what_is_clipped(tmp_path):
    seen = {}

    def mask(name):
        def mod(message, context, call_next):
            reply = call_next(message, context)
            seen[name] = reply.content["arrays"]["second"].numpy()
            reply.content["arrays"] = arrays_of({n: seen[name] + 1e9 if n == "second" else SENT[n] for n in SENT})
            return reply

        return mod

    private = PrivateUpdate(**TERMS, session=tmp_path / "rounds")
    made = ClientApp(mods=[mask("before"), private, mask("after")])
    made.train()(by(100.0))
    reply = made(asked(SENT), context())
    assert (seen["after"] == 100.0).all() and (seen["before"] != 100.0).all()
    # masks of the one before are as they were; those of the one after were clipped with the update
    assert np.array_equal(reply.content["arrays"]["second"].numpy(), seen["before"] + 1e9)
    # four numbers at eight standard deviations: false alarm below 5e-15
    assert np.abs(seen["before"]).max() < 1 + 8 * private.updates(context()).noise_multiplier


def test_functions_that_give_no_session_or_no_ledger_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, message in [
        ({"session": lambda c: None}, "session="),
        ({"session": lambda c: "rounds"}, "relative path"),
        ({"session": tmp_path / "rounds", "budget": lambda c: None}, "returned no ledger"),
    ]:
        reply = app(PrivateUpdate(**TERMS, **given), by(0.1))(asked(SENT), context())
        assert reply.has_error() and message in reply.error.reason
    assert not os.listdir(tmp_path)


def test_an_operator_who_stops_the_app_stops_it(tmp_path):
    def stopped(message, context):
        raise KeyboardInterrupt

    mod = PrivateUpdate(**TERMS, session=tmp_path / "rounds")
    with pytest.raises(KeyboardInterrupt):
        mod(asked(SENT), context(), stopped)


def test_mods_are_made_right_or_not_at_all(tmp_path):
    for wrong, message in [({"session": None}, "session="), ({"rounds": 0}, "rounds must"), ({"metrics": {"a": "text"}}, "metrics"), ({"session": "s"}, "relative path"),
                        ({"budget": Ledger(8.0, 1e-4, relation="replace-one", unit="client")}, "in memory")]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            PrivateUpdate(**{**TERMS, "session": tmp_path / "rounds", **wrong})


# --- the stock mod, in the same terms ---


def stock_noise(sensitivity, delta=1e-5):
    """Standard deviation of what Flower's own mod adds at a nominal epsilon of 8, as drawn: 200 000 numbers."""
    np.random.seed(0)
    sent = {"a": np.zeros(200_000)}
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=sensitivity, epsilon=8.0, delta=delta)
    reply = mod(asked(sent), context(), lambda m, c: answer(m, {"a": np.full(200_000, 1e-9)}))
    return float(np.std(reply.content["arrays"]["a"].numpy()))


@pytest.mark.parametrize(
    ("sensitivity", "relation", "rounds", "epsilon"),
    [
        (1.0, "zero-out", 1, 7.91), (1.0, "zero-out", 10, 35.17), (1.0, "replace-one", 1, 18.90), (1.0, "replace-one", 10, 98.24),
        (2.0, "replace-one", 1, 7.91), (2.0, "replace-one", 10, 35.17),
    ],
)  # fmt: skip
def test_what_the_stock_mod_costs_at_a_nominal_epsilon_of_8(sensitivity, relation, rounds, epsilon):
    classical = sensitivity * math.sqrt(2 * math.log(1.25 / 1e-5)) / 8.0
    # 200 000 draws: six standard errors are 1 %
    assert stock_noise(sensitivity) == pytest.approx(classical, rel=0.01)
    found = accounting.epsilon(f"gaussian({classical!r}) x {rounds}", 1e-5, relation=relation)
    assert float(found) == pytest.approx(epsilon, abs=0.006)


def test_what_the_stock_mod_lets_out_besides():
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=8.0, delta=1e-5)
    reply = mod(asked(SENT), context(), by(np.nan))
    assert np.isnan(reply.content["arrays"]["second"].numpy()).all()
    assert dict(reply.content["metrics"]) == {"num-examples": 917, "loss": 0.123}
    # an update of nothing but zeros is distinguished from all others
    with pytest.raises(ZeroDivisionError):
        mod(asked(SENT), context(), by(0.0))


@pytest.mark.parametrize(("weights", "share"), [((10,) * 10, 0.1), ((10,) * 9 + (90,), 0.5)])
def test_a_client_of_more_examples_moves_what_fixed_clipping_adds_up_by_more(weights, share):
    strategy = pytest.importorskip("flwr.serverapp.strategy")
    sent, means = {"a": np.zeros(4)}, []
    for last in (1e-12, 100.0):
        # noise that shows nothing: what is left is how far the last client moves the mean of ten, clipped to 1
        wrapped = strategy.DifferentialPrivacyServerSideFixedClipping(
            strategy.FedAvg(fraction_evaluate=0.0, min_train_nodes=10, min_available_nodes=10), 1e-9, 1.0, 10
        )
        apps = []
        for number, weight in enumerate(weights):
            made, update = ClientApp(), last if number == 9 else 1e-12

            def train(message, where, update=update, weight=weight):
                reply = answer(message, {"a": np.full(4, update)})
                reply.content["metrics"]["num-examples"] = weight
                return reply

            made.train()(lambda message, where, train=train: train(message, where))
            apps.append(made)
        means.append(wrapped.start(InProcess(apps), arrays_of(sent), num_rounds=1).arrays["a"].numpy())
    # the noise is NumPy's, without a seed: 1e-10 on each number, a 700th of what is allowed here
    assert float(np.linalg.norm(means[1] - means[0])) == pytest.approx(share, rel=1e-6)


# --- the accountant ---


def settings(relation="add-or-remove-one", sampling="no-amplification", **more):
    serverapp = pytest.importorskip("flwr.serverapp")
    if not hasattr(serverapp, "PrivacyConfig"):
        pytest.skip("this Flower has no interface for accountants")
    return serverapp.PrivacyConfig(
        target_delta=1e-5, population_size=100, neighboring_relation=serverapp.NeighboringRelation(relation),
        sampling_method=serverapp.SamplingMethod(sampling), **more,
    )  # fmt: skip


def event(noise, sample=10):
    return flwr.serverapp.GaussianPrivacyEvent(noise_multiplier=noise, sample_size=sample, population_size=100)


@pytest.mark.parametrize(
    ("relation", "sampling"), [("add-or-remove-one", "no-amplification"), ("add-or-remove-one", "poisson")]
)
def test_the_accountant_says_no_more_than_flowers_and_no_less_than_is_true(relation, sampling):
    ours, theirs = Accountant(settings(relation, sampling)), flwr.serverapp.RdpAccountant(settings(relation, sampling))
    for accountant in (ours, theirs):
        assert accountant.num_releases == 0
        accountant.compose(event(2.0), 5)
        accountant.compose(event(2.0))
        accountant.compose(event(3.0, 20), 2)
    assert ours.num_releases == theirs.num_releases == 8
    tight, loose = ours.get_privacy_spent(), theirs.get_privacy_spent()
    assert 0.5 * loose.epsilon < tight.epsilon <= loose.epsilon
    assert (tight.delta, tight.num_releases) == (loose.delta, loose.num_releases)
    assert ours.get_epsilon(1e-6) > ours.get_epsilon(1e-5) > ours.get_epsilon(1e-4)
    assert 0 < ours.get_delta(tight.epsilon) <= 1e-5 * (1 + 1e-6)
    if sampling == "no-amplification":
        exact = accounting.epsilon("gaussian(2) x 6 + gaussian(3) x 2", 1e-5, relation="add-or-remove")
        assert tight.epsilon == pytest.approx(float(exact), rel=1e-9) and tight.accounting_method == "dpopt-gdp"


def test_under_replace_one_a_noise_multiplier_is_over_the_clip():
    ours = Accountant(settings("replace-one", "without-replacement"))
    theirs = flwr.serverapp.RdpAccountant(settings("replace-one", "without-replacement"))
    halved = flwr.serverapp.RdpAccountant(settings("replace-one", "without-replacement"))
    ours.compose(event(4.0), 10)
    theirs.compose(event(4.0), 10)
    halved.compose(event(2.0), 10)
    assert theirs.get_epsilon(1e-5) < ours.get_epsilon(1e-5) <= halved.get_epsilon(1e-5)


def test_the_accountant_looks_ahead_saves_and_goes_on():
    ours = Accountant(settings(max_epsilon=3.0))
    ours.compose(event(2.0))
    assert not ours.would_exceed(event(2.0)) and ours.would_exceed(event(2.0), count=30) and ours.num_releases == 1
    assert ours.would_exceed(event(2.0), max_epsilon=0.1)
    import json

    again = Accountant(settings(max_epsilon=3.0))
    again.load_state_dict(json.loads(json.dumps(ours.state_dict())))
    assert again.get_privacy_spent() == ours.get_privacy_spent()
    # members of JSON have no order
    sorted_by_name = json.loads(json.dumps(ours.state_dict(), sort_keys=True))
    reversed_events = [
        {"event": dict(reversed(entry["event"].items())), "count": entry["count"]} for entry in sorted_by_name["compositions"]
    ]  # fmt: skip
    again.load_state_dict({**sorted_by_name, "compositions": reversed_events})
    assert again.get_privacy_spent() == ours.get_privacy_spent()
    for state in (
        {},
        {**ours.state_dict(), "backend": "rdp"},
        {**ours.state_dict(), "config": {}},
        {**ours.state_dict(), "compositions": [3]},
    ):
        with pytest.raises(ValueError, match="state"):
            again.load_state_dict(state)
    assert again.num_releases == 1
    with pytest.raises(ValueError, match="limit"):
        Accountant(settings()).would_exceed(event(2.0))
    for wrong in (lambda: Accountant({}), lambda: ours.compose("gaussian(2)")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="clients"):
        ours.compose(flwr.serverapp.GaussianPrivacyEvent(noise_multiplier=1.0, sample_size=10, population_size=50))
    for wrong in (lambda: ours.get_epsilon(0.0), lambda: ours.get_delta(-1.0), lambda: ours.compose(event(2.0), 0)):
        with pytest.raises(ValueError):
            wrong()


def test_flowers_strategy_stops_when_our_accountant_says_so():
    strategy = pytest.importorskip("flwr.serverapp.strategy")
    ours = Accountant(settings(max_epsilon=4.0))
    wrapped = strategy.DifferentialPrivacyServerSideFixedClipping(
        strategy.FedAvg(fraction_evaluate=0.0), noise_multiplier=2.0, clipping_norm=1.0, num_sampled_clients=2, accountant=ours
    )  # fmt: skip

    def plain():
        made = ClientApp()
        made.train()(by(0.1))
        return made

    start = arrays_of({name: array.astype(float) for name, array in SENT.items()})
    with pytest.raises(flwr.serverapp.exception.PrivacyBudgetExhausted):
        wrapped.start(InProcess([plain(), plain()]), start, num_rounds=50)
    spent = ours.get_privacy_spent()
    assert spent.epsilon <= 4.0 < float(accounting.epsilon(f"gaussian(2) x {spent.num_releases + 1}", 1e-5))


# --- apps ---


def test_the_strategy_keeps_the_largest_coordinates_of_the_clients_mean(tmp_path):
    data = {1: records(1), 2: records(2)}
    made = ClientApp()

    @made.train()
    def train(message, where):
        number = where.node_config["client"]
        return PrivateClient(
            *data[number], epsilon=6.0, delta=1e-5, rounds=3, local_steps=2, learning_rate=2.0, session=tmp_path / f"rounds-{number}"
        ).train(message)  # fmt: skip

    strategy = HardThresholding(2, 30)
    result = strategy.start(InProcess([made, made]), num_rounds=3)
    # a session takes no seed. Two weights of .6 after a round and 1.4 after three, the others below .02, noise of .01 on each: another is among the
    # largest with probability below 1e-300. A strategy that adds up or keeps others than the largest is always seen
    assert set(np.flatnonzero(strategy.weights)) == {7, 11}
    (weights,) = result.arrays.to_numpy_ndarrays()
    assert np.array_equal(weights, strategy.weights)
    # every round was counted, and there is no fourth
    with pytest.raises(dpopt.BudgetExceeded):
        strategy.start(InProcess([made, made]), num_rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "lines"),
    [
        # secret noise, of .01 on weights of 1 after a round and 2.2 after three: other features are chosen with probability below 1e-300
        ("federated_sparse", ["server: chosen features [7, 31]", "client 0: 4 noisy sums", "3 of 3 rounds released"]),
        ("federated_update", ["server: rounds [1, 2, 3] of 4 answered", "a model of 3 numbers, metrics {}", "3 of 3 rounds released"]),
    ],
)  # fmt: skip
def test_a_federation_of_processes_on_localhost(app, lines):
    settings()  # older versions are started by other flags
    done = subprocess.run(
        [sys.executable, EXAMPLES / "on_localhost.py", app], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    for line in lines:
        assert line in done.stdout, (line, done.stdout, done.stderr)
