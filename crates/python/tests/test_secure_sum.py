"""Sums for secure aggregation: exact integers modulo 2^k, noise of the aggregator or of the clients, and Flower's own protocol."""

import copy
import math
import pickle
import subprocess
import sys
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt import BudgetExceeded, Ledger, PrivacyError, accounting
from dpopt.secure_sum import LEAST_SHARE, SecureSum, closeness

TERMS = {"clients": 6, "dimension": 50, "clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5}
RNG = np.random.default_rng(5)


def seeded(**changes):
    with pytest.warns(dpopt.PrivacyWarning):
        return SecureSum(**{**TERMS, "insecure_seed": 1, **changes})


def masked_sum(terms, updates, rng):
    """Masks that cancel, modulo 2^k."""
    modulus = np.uint64(terms.modulus)
    masks = rng.integers(0, terms.modulus, (len(updates) - 1, terms.dimension), dtype=np.uint64)
    masks = [*masks, (np.uint64(0) - masks.sum(axis=0)) % modulus]
    return sum((terms.encode(update) + mask) % modulus for update, mask in zip(updates, masks)) % modulus


@pytest.mark.parametrize("clip_norm", [1e-6, 0.3, 1.0, 1e9])
def test_the_masked_sum_is_the_sum_of_the_clipped_integers(clip_norm):
    terms = SecureSum(**{**TERMS, "clip_norm": clip_norm})
    updates = RNG.normal(size=(6, 50)) * clip_norm * np.geomspace(1e-4, 1e4, 6)[:, None]
    alone = [terms.integers(terms.encode(update)) for update in updates]
    for integers, update in zip(alone, updates):
        # exact whole numbers: no norm is above the clip, and none is shrunk by more than the grid
        assert sum(int(z) ** 2 for z in integers) <= (clip_norm / terms.step) ** 2
        clipped = update * min(1.0, clip_norm / np.linalg.norm(update))
        assert np.abs(integers * terms.step - clipped).max() <= terms.step * (1 + 1e-9)
    total = masked_sum(terms, updates, RNG)
    assert (terms.integers(total) == sum(alone)).all()
    assert np.array_equal(terms.exact(total), sum(z * terms.step for z in alone))


def test_nothing_wraps_around_at_the_bound():
    terms = SecureSum(**{**TERMS, "dimension": 1})
    for sign in (1.0, -1.0):
        total = masked_sum(terms, [np.array([sign * 1e30])] * 6, RNG)
        # each at its bound, up to a step toward zero
        assert 6.0 - 6 * terms.step <= sign * terms.exact(total)[0] <= 6.0
    # the room that a modulus of one bit less had not: clients × clip × 2, and noise
    assert 2 * 6 * terms.sensitivity < terms.modulus <= 2 ** (terms.bits) and terms.bits <= 62


@pytest.mark.parametrize(
    "update", [None, [np.nan] * 50, [np.inf] + [0.0] * 49, np.ones(49), np.ones((51,)), ["a"] * 50, [[1], [2, 3]]]
)
def test_what_is_no_update_counts_as_none(update):
    terms = SecureSum(**TERMS)
    assert not terms.encode(update).any()


def test_the_aggregator_adds_the_planned_noise_to_the_sum():
    terms = seeded(dimension=4000, rounds=2)
    sums = [terms.release(np.zeros(4000, dtype=np.uint64)) for _ in range(2)]
    for one in sums:
        # 4000 squares: six standard deviations
        assert abs(np.mean(one**2) / terms.noise_std**2 - 1) < 6 * math.sqrt(2 / 4000)
    assert not np.array_equal(*sums)
    with pytest.raises(BudgetExceeded):
        terms.release(np.zeros(4000, dtype=np.uint64))
    assert 7.5 < terms.privacy_.epsilon <= 8.0 and terms.privacy_.grade == "research"
    assert "per client, replace-one" in str(terms.privacy_) and "VOID" in str(terms.privacy_).upper()
    assert terms.local_epsilon == math.inf
    # against the Gaussian of the same noise: what the accountant of the discrete law costs more
    sigma = terms.noise_std / terms.clip_norm
    gaussian = accounting.epsilon(f"gaussian({sigma!r}) x 2", 1e-5, relation="replace-one")
    assert 0.8 * 8.0 < float(gaussian) <= 8.0


def test_a_dishonest_client_does_not_learn_on_which_side_of_a_wrap_the_others_are():
    # it sends half the modulus: one step more or less of the others is the largest number or the least
    given = {"dimension": 400, "epsilon": 0.1}
    half = SecureSum(**{**TERMS, **given}).modulus // 2
    above, below = (seeded(**given).release(np.full(400, half + side, dtype=np.uint64)) for side in (1, -1))
    terms = SecureSum(**{**TERMS, **given})
    moved = np.rint((above - below) / terms.step).astype(np.int64) % terms.modulus
    # the same noise: two steps apart on the circle, and the sign tells of the noise alone
    assert (moved == 2).all()
    assert 0.95 < np.mean(np.sign(above) == np.sign(below)) and 0.3 < np.mean(above > 0) < 0.7
    assert np.abs(above).max() <= half * terms.step


@pytest.mark.parametrize("total", [np.zeros(50), np.full(50, np.nan), [0.5] * 50, ["1"] * 50, None, [True] * 50])
def test_sums_that_are_no_whole_numbers_are_refused(total):
    terms = SecureSum(**TERMS)
    for read in (terms.integers, terms.exact, terms.release):
        with pytest.raises(TypeError, match="whole numbers"):
            read(total)
    assert terms.rounds_released == 0 and not terms.integers([0] * 50).any()


def test_terms_whose_sums_are_counted_in_memory_are_not_copied(tmp_path):
    for travel in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="session="):
            travel(SecureSum(**TERMS))
    filed = SecureSum(**TERMS, rounds=2, session=tmp_path / "sums")
    for each in (filed, pickle.loads(pickle.dumps(filed))):
        each.release(each.encode(None))
    with pytest.raises(BudgetExceeded):
        copy.copy(filed).release(filed.encode(None))


def test_a_session_of_sums_and_its_ledger_belong_together(tmp_path):
    ledger = Ledger(9.0, 1e-4, relation="replace-one", unit="client", path=tmp_path / "ledger")
    given = {**TERMS, "rounds": 3, "session": tmp_path / "sums"}
    for _ in range(2):
        paid = SecureSum(**given, budget=ledger)
        paid.release(paid.encode(None))
    assert len(ledger.entries) == 1
    other = Ledger(9.0, 1e-4, relation="replace-one", unit="client", path=tmp_path / "other")
    with pytest.raises(PrivacyError, match="another ledger"):
        SecureSum(**given, budget=other).release(paid.encode(None))
    unpaid = {**given, "session": tmp_path / "unpaid"}
    SecureSum(**unpaid).release(paid.encode(None))
    with pytest.raises(PrivacyError, match="without a ledger"):
        SecureSum(**unpaid, budget=other).release(paid.encode(None))
    assert len(other.entries) == 0
    memory = Ledger(9.0, 1e-4, relation="replace-one", unit="client")
    with pytest.raises(ValueError, match="in memory"):
        SecureSum(**given, budget=memory)
    with pytest.raises(TypeError, match="dpopt.Ledger"):
        SecureSum(**TERMS, budget="ledger")


def test_a_ledger_of_the_aggregator_is_charged_once():
    ledger = Ledger(10.0, 1e-4, relation="replace-one", unit="client")
    terms = SecureSum(**TERMS, rounds=2, budget=ledger)
    assert len(ledger.entries) == 0
    for _ in range(2):
        terms.release(terms.encode(np.ones(50)))
    assert len(ledger.entries) == 1 and ledger.remaining[0] == 2.0
    with pytest.raises(BudgetExceeded):
        SecureSum(**TERMS, budget=ledger).release(terms.encode(None))


def discrete_gaussian(sigma, half):
    k = np.arange(-half, half + 1, dtype=np.longdouble)
    weights = np.exp(-(k**2) / (2 * np.longdouble(sigma) ** 2))
    return weights / weights.sum()


@pytest.mark.parametrize("share", [0.5, 0.6, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("clients", [2, 3, 5])
def test_a_sum_of_shares_is_as_close_to_its_law_as_proved(share, clients):
    # exact convolution of exact laws: a bound that is broken, or that says nothing, is found
    half = 40
    one = discrete_gaussian(share, half)
    total = one
    for _ in range(clients - 1):
        total = np.convolve(total, one)
    law = discrete_gaussian(math.sqrt(clients) * share, half * clients)
    middle = slice(half * clients - 12, half * clients + 13)
    found = float(np.abs(np.log(total[middle] / law[middle])).max())
    bound = closeness(clients, share)
    assert found <= bound + 1e-15
    # two shares have nothing that smooths what they are off: the bound is about twice that
    if clients == 2 and share >= 0.6:
        assert found > bound / 4


def test_shares_of_noise_make_the_noise_of_the_sum():
    terms = seeded(clients=8, honest=5, dimension=4000, rounds=8)
    shares = [terms.encode(None) for _ in range(8)]
    of_five = terms.exact(sum(shares[:5]))
    assert np.mean(of_five**2) / terms.noise_std**2 == pytest.approx(1.0, abs=6 * math.sqrt(2 / 4000))
    of_all = terms.exact(sum(shares))
    assert np.mean(of_all**2) / terms.noise_std**2 == pytest.approx(8 / 5, abs=8 / 5 * 6 * math.sqrt(2 / 4000))
    with pytest.raises(BudgetExceeded):
        terms.encode(None)


def test_what_clients_who_add_noise_promise():
    aggregator, clients = SecureSum(**TERMS), SecureSum(**TERMS, honest=4)
    # the price of the shares' law is far below what floats show
    assert clients.noise_std == pytest.approx(aggregator.noise_std, rel=1e-6)
    assert clients._share >= LEAST_SHARE and closeness(4, clients._share) < 1e-290
    # one client alone: σ/2, so between twice and four times the ε
    assert 2 * 8.0 < clients.local_epsilon < 4 * 8.0
    local = accounting.epsilon(clients._local_event, 1e-5, relation="replace-one")
    assert float(local) == clients.local_epsilon
    # many shares of little noise each: nothing is promised of one, and too little is refused. Fifty of 16 steps or more are all 0 with probability below 1e-80
    many = SecureSum(**{**TERMS, "clients": 400, "honest": 200})
    assert many.local_epsilon == math.inf and many.encode(None).any()
    with pytest.raises(ValueError, match="count on fewer"):
        SecureSum(**{**TERMS, "clients": 10**5, "honest": 10**5})
    for refused in (lambda: clients.privacy_, lambda: clients.release(clients.encode(None))):
        with pytest.raises(PrivacyError):
            refused()
    for wrong, message in [({"honest": 7}, "honest"), ({"honest": 0}, "honest"), ({"rounds": 0}, "rounds"), ({"relation": "add-or-remove"}, "takes part"),
                        ({"honest": 2, "budget": Ledger(9.0, 1e-4)}, "no ledger can check"), ({"clients": 2**50}, "bits")]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            SecureSum(**{**TERMS, **wrong})


def test_clients_that_are_started_anew_count_their_sums_in_a_file(tmp_path):
    for _ in range(2):
        SecureSum(**TERMS, rounds=2, honest=4, session=tmp_path / "sums").encode(None)
    with pytest.raises(BudgetExceeded):
        SecureSum(**TERMS, rounds=2, honest=4, session=tmp_path / "sums").encode(None)


def test_the_example_runs():
    pytest.importorskip("flwr")
    example = Path(__file__).parents[1] / "examples" / "secure_sum.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "unmasked = sum of the clipped integers: True" in done.stdout
    assert "trusted aggregator: epsilon 8" in done.stdout and "3 honest clients: epsilon 8" in done.stdout


# --- Flower's own protocol ---


def flowers_mean(vectors, settings, gone=None):
    """What Flower's workflow and mod make of vectors of weight 1, one of whose nodes is gone before it sends its own."""
    pytest.importorskip("flwr.server.workflow")
    from types import SimpleNamespace

    from flower_nodes import InProcess, context
    from flwr.app import ConfigRecord
    from flwr.client import NumPyClient
    from flwr.client.mod import secaggplus_mod
    from flwr.clientapp import ClientApp
    from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.common.secure_aggregation.secaggplus_constants import Stage
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server.compat.legacy_context import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

    class Numbers(NumPyClient):
        def __init__(self, vector):
            self.vector = vector

        def fit(self, parameters, config):
            return [self.vector], 1, {}

    class Nodes(list):
        num_available = list.__len__

    class Mean:
        def configure_fit(self, round, parameters, nodes):
            return [(SimpleNamespace(node_id=node), FitIns(parameters, {})) for node in nodes]

        def aggregate_fit(self, round, results, failures):
            (self.mean,) = parameters_to_ndarrays(results[0][1].parameters)
            return None, {}

    def silent(message):
        stage = next(record["stage"] for record in message.content.config_records.values() if "stage" in record)
        return message.metadata.dst_node_id == gone and stage in (Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK)

    def app(vector):
        return ClientApp(client_fn=lambda context: Numbers(vector).to_client(), mods=[secaggplus_mod])

    grid, strategy, here = InProcess([app(vector) for vector in vectors], silent), Mean(), context()
    here.state[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    sent = ndarrays_to_parameters([np.zeros(len(vectors[0]))])
    here.state[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(sent, True)
    workflow = SecAggPlusWorkflow(num_shares=len(vectors), reconstruction_threshold=len(vectors) - 2, **settings)
    workflow(grid, LegacyContext(here, strategy=strategy, client_manager=Nodes(grid.apps)))
    return strategy.mean


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("gone", [None, 3])
@pytest.mark.parametrize("honest", [None, 2])
def test_flowers_protocol_sums_our_numbers_without_an_error(gone, honest):
    terms = SecureSum(**{**TERMS, "clients": 5, "honest": honest, "rounds": 5})
    vectors = [terms.on_grid(update) for update in RNG.normal(size=(5, 50)) * np.geomspace(1e-3, 10, 5)[:, None]]
    mean = flowers_mean(vectors, terms.secagg_plus(), gone)
    here = [vector for node, vector in enumerate(vectors, 1) if node != gone]
    # a mean of floats: the whole numbers of the sum are found again by rounding, and they are all the same. There is room for 15 standard deviations
    # of a share: one of 250 goes beyond with probability below 1e-47
    found = mean * len(here) / terms.step
    assert np.abs(found - np.rint(found)).max() < 1e-6
    assert np.array_equal(np.rint(found) * terms.step, sum(here))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_flowers_quantiser_has_an_error_where_numbers_are_not_on_the_grid():
    terms = SecureSum(**{**TERMS, "clients": 5})
    vectors = [terms.on_grid(update) + terms.step / 3 for update in RNG.normal(size=(5, 50))]
    mean = flowers_mean(vectors, terms.secagg_plus())
    assert np.abs(mean * 5 - sum(vectors)).max() > terms.step / 4


def test_sums_that_do_not_fit_flowers_32_bits_are_refused():
    with pytest.raises(ValueError, match="32 bits"):
        SecureSum(**{**TERMS, "clients": 2**16, "dimension": 10**6}).secagg_plus()


def test_masks_of_flower_come_from_32_bits_of_their_secrets():
    utils = pytest.importorskip("flwr.common.secure_aggregation.secaggplus_utils")
    keys = pytest.importorskip("flwr.common.secure_aggregation.crypto.symmetric_encryption")
    from flwr.supercore.primitives.asymmetric import generate_key_pairs

    words = np.frombuffer(RNG.bytes(32), dtype="<u4")
    # another secret of the same exclusive or, and the same mask
    other = words.copy()
    other[[0, 5]] ^= np.uint32(0xDEADBEEF)
    masks = [utils.pseudo_rand_gen(secret.tobytes(), 2**32, [(20,)])[0] for secret in (words, other)]
    assert words.tolist() != other.tolist() and np.array_equal(*masks)
    # pairwise secrets are text there: of each byte of the seed the highest bit is always 0
    for _ in range(5):
        (mine, _), (_, yours) = generate_key_pairs(), generate_key_pairs()
        secret = np.frombuffer(keys.generate_shared_key(mine, yours), dtype="<u4")
        assert int(np.bitwise_xor.reduce(secret)) & 0x80808080 == 0
