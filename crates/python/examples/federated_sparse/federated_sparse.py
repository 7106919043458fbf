"""Federated sparse learning: every client protects its own records, the server and the other clients see noisy models only."""

import numpy as np
from dpopt.flower import HardThresholding, PrivateClient
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

FEATURES, ROUNDS = 60, 3

client = ClientApp()
server = ServerApp()


def records(seed):
    """A client's records: two of sixty features tell the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, FEATURES)) / 8
    y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    X[:, 7] += 0.3 * y
    X[:, 31] -= 0.3 * y
    return X, y


@client.train()
def train(message: Message, context: Context) -> Message:
    """One round. The app is started anew for each of them; the session file knows how many there were."""
    number = int(context.node_config["client"])
    X, y = records(number)
    private = PrivateClient(
        X, y, epsilon=2.0, delta=1e-5, rounds=ROUNDS, local_steps=4, learning_rate=2.0, session=context.node_config["session"]
    )  # fmt: skip
    answer = private.train(message)
    print(f"client {number}: 4 noisy sums, noise multiplier {private.noise_multiplier:.3f}, epsilon 2", flush=True)
    return answer


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Three rounds, two features."""
    strategy = HardThresholding(2, FEATURES)
    strategy.start(grid, num_rounds=int(context.run_config["rounds"]))
    chosen = np.flatnonzero(strategy.weights)
    print(
        f"server: chosen features {chosen.tolist()}, weights {np.round(strategy.weights[chosen], 2).tolist()}", flush=True
    )  # fmt: skip
