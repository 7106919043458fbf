"""Federated sparse learning on localhost: a Flower server and two clients, each a process of its own.

    python federated_sparse.py

Every client protects its own records: the server and the other client see noisy models only. Needs ``pip install flwr``.
"""

import socket
import subprocess
import sys
import time

import numpy as np

FEATURES, ROUNDS = 60, 8


def records(seed):
    """A client's records: two of sixty features tell the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, FEATURES)) / 8
    y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    X[:, 7] += 0.3 * y
    X[:, 31] -= 0.3 * y
    return X, y


def client(address, seed):
    from dpopt.flower import PrivateClient
    from flwr.client import start_client

    X, y = records(seed)
    private = PrivateClient(X, y, epsilon=2.0, delta=1e-5, rounds=ROUNDS, local_steps=2, learning_rate=2.0)
    start_client(server_address=address, client=private.to_client())
    released = sum(r["count"] for r in private.releases)
    print(
        f"client {seed}: {released} noisy sums, noise multiplier {private.noise_multiplier:.3f}, epsilon 2", flush=True
    )


def server(address):
    from dpopt.flower import HardThresholding
    from flwr.server import ServerConfig, start_server

    strategy = HardThresholding(2, FEATURES, min_fit_clients=2, min_available_clients=2)
    start_server(server_address=address, config=ServerConfig(num_rounds=ROUNDS), strategy=strategy)
    chosen = np.flatnonzero(strategy.weights)
    print(f"chosen features: {chosen.tolist()}, weights {np.round(strategy.weights[chosen], 2).tolist()}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server(sys.argv[2]) if sys.argv[1] == "server" else client(sys.argv[2], int(sys.argv[3]))
        sys.exit()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    me = [sys.executable, __file__]
    processes = [subprocess.Popen([*me, "server", address])]
    time.sleep(3)
    processes += [subprocess.Popen([*me, "client", address, str(seed)]) for seed in (1, 2)]
    codes = [p.wait(timeout=300) for p in processes]
    sys.exit(max(codes))
