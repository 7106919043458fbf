"""Each client as a whole is protected from everybody: whatever it trains, its update leaves with noise and nothing else does."""

import numpy as np
from dpopt.flower import PrivateUpdate
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

PLANNED = 3

client = ClientApp(
    mods=[PrivateUpdate(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=PLANNED, session=lambda context: context.node_config["session"])]
)  # fmt: skip
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Any training; this one goes towards the mean of the client's records, and reports a loss that stays on the client."""
    number = int(context.node_config["client"])
    data = np.random.default_rng(number).normal([0.4, -0.2, 0.0], 0.1, (500, 3))
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    print(f"client {number}: trains, loss {np.square(data - weights).mean():.3f} stays here", flush=True)
    answer = {
        "arrays": ArrayRecord([(weights + data.mean(axis=0)) / 2]),
        "metrics": MetricRecord({"num-examples": len(data), "loss": float(np.square(data - weights).mean())}),
    }
    return Message(RecordDict(answer), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """One round more than the clients planned: they refuse it."""
    rounds = int(context.run_config["rounds"]) + 1
    result = FedAvg(fraction_evaluate=0.0).start(grid, ArrayRecord([np.zeros(3)]), num_rounds=rounds)
    (weights,) = result.arrays.to_numpy_ndarrays()
    answered = sorted(result.train_metrics_clientapp)
    print(f"server: rounds {answered} of {rounds} answered, a model of {weights.size} numbers, metrics {dict(result.train_metrics_clientapp[1])}", flush=True)  # fmt: skip
