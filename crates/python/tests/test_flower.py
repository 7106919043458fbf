"""The Flower client accounts for what it releases; a server and two clients run on localhost."""

import subprocess
import sys
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt.flower import PrivateClient, hard_threshold


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
    with pytest.raises(dpopt.PrivacyError, match="refused"):
        client.fit(weights, {})
    with pytest.raises(NotImplementedError):
        client.evaluate(weights, {})


def test_thresholding_ties():
    assert hard_threshold([3, -1, 2, -4], 2).tolist() == [3, 0, 0, -4]
    assert hard_threshold([1, -1, 1], 1).tolist() == [1, 0, 0]


def test_a_federation_of_processes_on_localhost():
    pytest.importorskip("flwr")
    example = Path(__file__).parents[1] / "examples" / "federated_sparse.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "chosen features: [7, 31]" in done.stdout


def test_a_client_that_always_takes_all_its_records_is_accounted_as_that():
    X, y = records(3, n=200)
    client = PrivateClient(X, y, epsilon=4.0, delta=1e-5, rounds=2, sampling_probability=1.0)
    (weights,), _, _ = client.fit([np.zeros(30)], {})
    client.fit([weights], {})
    assert sum(r["count"] for r in client.releases) == 2
    # no amplification is claimed: the noise of two plain Gaussian sums
    plain = dpopt.accounting.epsilon(f"gaussian({client.noise_multiplier!r}) x 2", 1e-5)
    assert float(dpopt.accounting.epsilon(client.event, 1e-5)) >= float(plain) * (1 - 1e-6)
