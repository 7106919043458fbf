"""A private step of a small network, dpopt.torch.make_private and Opacus in turn in one go; then the accuracy of both.

784-64-10, 50,890 weights, 500 records expected per batch. A step is what a training loop does between two batches: zero_grad,
forward, backward, step; the batch is drawn before the clock starts. Prints medians over rounds, the accuracy at the same
(epsilon, delta), schedule and clip norm (zero-out neighbours for dpopt, add-or-remove for Opacus, which has no other), and last
`ratio NAME VALUE`: torch-step is our time over Opacus's. Say which machine and load with the numbers.
"""

import argparse
import os
import statistics
import time
import warnings

import numpy as np
import torch
from dpopt.torch import make_private
from opacus import PrivacyEngine
from sklearn.datasets import load_digits

warnings.filterwarnings("ignore")

RECORDS, INPUTS, CLASSES, BATCH = 20_000, 784, 10, 500
ROUNDS, STEPS = 15, 8
DELTA = 1e-5


def parts(inputs, rate, seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(inputs, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))
    return model, torch.optim.SGD(model.parameters(), lr=rate)


def ours(data, batch, epochs, rate=0.1, seed=0, **options):
    model, optimizer = parts(data[0].shape[1], rate, seed)
    return make_private(
        model, optimizer, data, delta=DELTA, epochs=epochs, batch_size=batch, max_grad_norm=1.0, **options
    )


def opacus(data, batch, epochs, rate=0.1, seed=0, epsilon=None, noise_multiplier=None):
    model, optimizer = parts(data[0].shape[1], rate, seed)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=batch)
    common = {"module": model, "optimizer": optimizer, "data_loader": loader, "max_grad_norm": 1.0}
    if epsilon is None:
        return PrivacyEngine().make_private(noise_multiplier=noise_multiplier, **common)
    return PrivacyEngine().make_private_with_epsilon(
        target_epsilon=epsilon, target_delta=DELTA, epochs=epochs, **common
    )


def steps(model, optimizer, loader):
    """Seconds of each step, forever."""
    loss = torch.nn.CrossEntropyLoss()
    while True:
        for x, y in loader:
            start = time.perf_counter()
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
            yield time.perf_counter() - start


def speed():
    data = (torch.randn(RECORDS, INPUTS), torch.randint(0, CLASSES, (RECORDS,)))
    epochs = 2 + ROUNDS * STEPS * BATCH // RECORDS
    runs = {
        "dpopt": steps(*ours(data, BATCH, epochs, noise_multiplier=1.0)),
        "opacus": steps(*opacus(data, BATCH, epochs, noise_multiplier=1.0)),
    }
    for run in runs.values():
        for _ in range(5):
            next(run)
    # one after the other, so that a load on the machine meets both
    medians = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            medians[name].append(statistics.median(next(run) for _ in range(STEPS)))
    print(
        f"load {os.getloadavg()[0]:.2f} of {os.cpu_count()} processors, torch {torch.__version__}, {ROUNDS} x {STEPS}"
    )
    for name, found in medians.items():
        low, high = 1e3 * np.quantile(found, [0.1, 0.9])
        print(f"{name:8s} {1e3 * statistics.median(found):7.2f} ms a step (10 to 90 %: {low:.2f} to {high:.2f})")
    return statistics.median(a / b for a, b in zip(medians["dpopt"], medians["opacus"]))


def pictures(seed, count=12_000, side=28):
    """Smooth pictures of ten classes, moved, scaled and under noise: a linear rule is far from enough to be right."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(-1, 1, side)
    y = rng.integers(0, CLASSES, count)
    fixed = np.random.default_rng(0)
    centre, width = fixed.uniform(-0.6, 0.6, (CLASSES, 4, 2)), fixed.uniform(0.1, 0.3, (CLASSES, 4))
    X = np.zeros((count, side, side), dtype=np.float32)
    for k in range(4):
        at = centre[y, k] + rng.normal(0, 0.12, (count, 2))
        dx, dy = grid[None] - at[:, :1], grid[None] - at[:, 1:]
        w = 2 * width[y, k][:, None] ** 2
        X += (np.exp(-(dx**2) / w)[:, :, None] * np.exp(-(dy**2) / w)[:, None, :]).astype(np.float32)
    X += rng.normal(0, 0.5, X.shape).astype(np.float32)
    return torch.tensor(X.reshape(count, -1)), torch.tensor(y)


def digits(seed):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    return torch.tensor(X[order] / 16, dtype=torch.float32), torch.tensor(y[order])


def accuracy(make, data, held_out, batch, epochs, rate, seed, epsilon):
    model, optimizer, loader = make(data, batch, epochs, rate, seed, epsilon=epsilon)
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        right = float((model(held_out[0]).argmax(1) == held_out[1]).float().mean())
    return right, float(optimizer.noise_multiplier)


def compare():
    # small matrices: threads would wait for each other
    torch.set_num_threads(1)
    # the batch divides the records, so that both tools sample with one probability
    for name, table, cut, batch, epochs, epsilons, seeds in [
        ("digits", digits, 1400, 140, 30, (1.0, 3.0), 10),
        ("pictures", pictures, 10_000, 500, 5, (3.0,), 4),
    ]:
        for epsilon in epsilons:
            found = {"dpopt": [], "opacus": []}
            for seed in range(seeds):
                X, y = table(seed)
                for tool, make in (("dpopt", ours), ("opacus", opacus)):
                    run = accuracy(make, (X[:cut], y[:cut]), (X[cut:], y[cut:]), batch, epochs, 0.5, seed, epsilon)
                    found[tool].append(run)
            for tool, runs in found.items():
                right, noise = np.array(runs).T
                print(
                    f"{name:8s} epsilon {epsilon:g} {tool:6s} accuracy {right.mean():.4f} +- "
                    f"{right.std() / len(right) ** 0.5:.4f}, {seeds} seeds, noise multiplier {noise[0]:.4f}",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-accuracy", action="store_true")
    arguments = parser.parse_args()
    ratio = speed()
    if not arguments.no_accuracy:
        compare()
    print(f"ratio torch-step {ratio:.2f}")


if __name__ == "__main__":
    main()
