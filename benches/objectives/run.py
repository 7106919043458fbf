"""One network by dpopt.minimize (its own Network, a PyTorch callable, and RecordGradients of a model) and by Opacus, at equal (epsilon, delta): accuracy and seconds an epoch.

scikit-learn's digits, 64-32-10 with ReLU; three splits, all ways in turn in one run. dpopt has its defaults; Opacus has none, so it gets 20 epochs, heavy
ball .9, and the best of five rates and two batch sizes *chosen on the test rows*: more than anybody can have. An epoch is as many gradients as there are records.
Then one pass over a million records. Last lines: `ratio NAME VALUE`, ours over theirs; accuracy is a difference. Say which machine and load with the numbers.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings

import dpopt
import dpopt.torch
import numpy as np
import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.func import functional_call, grad, vmap

warnings.filterwarnings("ignore")
DELTA = 1e-4
TRAIN = 1437
EPOCHS = 20
RATES, BATCHES = (0.1, 0.2, 0.5, 1.0, 2.0), (72, 144)


def split(seed):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = (X[order] / 16).astype(np.float32), y[order]
    return X[:TRAIN], y[:TRAIN], X[TRAIN:], y[TRAIN:]


def model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def native(method):
    def run(data, epsilon, _seed):
        X, y, Xt, yt = data
        network = dpopt.objectives.Network(64, [32, 10])
        start = time.perf_counter()
        found = dpopt.minimize(network, (X, y), epsilon=epsilon, delta=DELTA, method=method)
        seconds = time.perf_counter() - start
        right = (np.asarray(network.outputs(found.x, Xt)).argmax(axis=1) == yt).mean()
        return right, seconds / epochs_of(found, len(X))

    return run


def epochs_of(found, n):
    chosen = found.plan_.chosen
    return chosen["gradients"] / n


def by_torch(data, epsilon, seed):
    X, y, Xt, yt = (torch.tensor(part) for part in data)
    net = model(seed)
    names = [name for name, _ in net.named_parameters()]

    def loss(parameters, x, target):
        return torch.nn.functional.cross_entropy(functional_call(net, parameters, (x[None],)), target[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    begin = {name: p.detach().clone() for name, p in net.named_parameters()}
    start = time.perf_counter()
    found = dpopt.minimize(each, (X, y), begin, epsilon=epsilon, delta=DELTA)
    seconds = time.perf_counter() - start
    assert list(found.x) == names
    with torch.no_grad():
        right = float((functional_call(net, found.x, (Xt,)).argmax(1) == yt).float().mean())
    return right, seconds / epochs_of(found, len(X))


def by_records(data, epsilon, seed):
    X, y, Xt, yt = (torch.tensor(part) for part in data)
    net = model(seed)
    each = dpopt.torch.RecordGradients(net, torch.nn.CrossEntropyLoss(reduction="none"))
    start = time.perf_counter()
    found = dpopt.minimize(each, (X, y), each.start(), epsilon=epsilon, delta=DELTA)
    seconds = time.perf_counter() - start
    each.load(found.x)
    with torch.no_grad():
        right = float((net(Xt).argmax(1) == yt).float().mean())
    return right, seconds / epochs_of(found, len(X))


def by_opacus(data, epsilon, seed, rate, batch):
    X, y, Xt, yt = (torch.tensor(part) for part in data)
    net = model(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=batch)
    net, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=net, optimizer=optimizer, data_loader=loader, target_epsilon=epsilon, target_delta=DELTA, epochs=EPOCHS,
        max_grad_norm=1.0,
    )  # fmt: skip
    loss = torch.nn.CrossEntropyLoss()
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for x, target in loader:
            optimizer.zero_grad()
            loss(net(x), target).backward()
            optimizer.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        right = float((net(Xt).argmax(1) == yt).float().mean())
    return right, seconds / EPOCHS


def compare():
    ours = {
        "dpopt, Network (default: dp-adam)": native(None),
        "dpopt, Network, noisy-sgd": native("noisy-sgd"),
        "dpopt, PyTorch callable": by_torch,
        "dpopt, RecordGradients": by_records,
    }
    accuracy, seconds = {}, {}
    for epsilon in (1.0, 4.0):
        for seed in range(3):
            data = split(seed)
            for name, run in ours.items():
                right, took = run(data, epsilon, seed)
                accuracy.setdefault((name, epsilon), []).append(right)
                seconds.setdefault(name, []).append(took)
            tried = [by_opacus(data, epsilon, seed, rate, batch) for rate in RATES for batch in BATCHES]
            accuracy.setdefault(("Opacus, best on the test rows", epsilon), []).append(max(r for r, _ in tried))
            seconds.setdefault("Opacus, best on the test rows", []).extend(t for _, t in tried)
    for name, took in seconds.items():
        shown = "  ".join(
            f"epsilon {e:g}: {np.mean(accuracy[name, e]):.4f} +- {np.std(accuracy[name, e]) / 3**0.5:.4f}"
            for e in (1.0, 4.0)
        )
        print(f"{name:38s} {shown}  {1e3 * statistics.median(took):8.2f} ms an epoch", flush=True)
    theirs = statistics.median(seconds["Opacus, best on the test rows"])
    best = {
        e: max(np.mean(accuracy[name, e]) for name in ours) - np.mean(accuracy["Opacus, best on the test rows", e])
        for e in (1.0, 4.0)
    }
    return theirs, seconds, best


def one_pass():
    n, d = 1_000_000, 20
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((n, d)) / d**0.5).astype(np.float32)
    truth = np.where(np.arange(d) % 2, 1.5, -1.5)
    y = rng.poisson(np.exp(X @ truth)).astype(np.float32)
    objective = dpopt.objectives.PoissonRegression(d)
    found = []
    for method in ("noisy-sgd", "dp-ftrl"):
        start = time.perf_counter()
        x = dpopt.minimize(
            objective, (X, y), epsilon=1.0, delta=1e-7, passes=1, method=method, distance=float(np.linalg.norm(truth))
        ).x
        took = time.perf_counter() - start
        off = float(np.linalg.norm(x - truth) / np.linalg.norm(truth))
        print(f"one pass over {n:,} records x {d}, {method}: {took:.2f} s, {off:.3f} of the truth's length away")
        found.append(took)
    return found


def main():
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.2f} of {os.cpu_count()} processors, torch {torch.__version__}")
    theirs, seconds, best = compare()
    one_pass()
    for name, took in seconds.items():
        if name.startswith("dpopt"):
            print(f"ratio epoch {name.removeprefix('dpopt, ')!r} {statistics.median(took) / theirs:.3f}")
    for epsilon, gained in best.items():
        print(f"ratio accuracy-gained-at-epsilon-{epsilon:g} {gained:+.4f}")


if __name__ == "__main__":
    main()
