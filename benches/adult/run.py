"""Census income: dpopt with default flags against Opacus and diffprivlib, one after the other in one go.

Every tool sees the same five 80/20 splits (seeds 0-4), delta = 1e-5, zero-out neighbours for dpopt (add-or-remove for
the peers, which have no other). Bounds and category lists come from the census codebook. Prints one table and then
`ratio NAME VALUE` lines: how many times better than the peer or the limit named in NAME.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import tomllib

HERE = pathlib.Path(__file__).parent
LIMITS = {0.1: 0.838, 0.5: 0.847, 1.0: 0.850, 4.0: 0.853}
DELTA = 1e-5


def data_file():
    found = pathlib.Path(os.environ.get("DPOPT_DATA", "")) / "adult" / "adult.csv"
    if "DPOPT_DATA" not in os.environ or not found.exists():
        sys.exit("set DPOPT_DATA to the folder that holds adult/adult.csv")
    return found


def split(rows, seed):
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    cut = len(rows) * 8 // 10
    return [rows[i] for i in order[:cut]], [rows[i] for i in order[cut:]]


def write(path, header, rows):
    with open(path, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(header)
        writer.writerows(rows)


def dpopt_fit(binary, folder, bounds, epsilon):
    """Fits and evaluates with the command line; returns (accuracy, seconds of the fit, method)."""
    model = folder / "model.json"
    start = time.perf_counter()
    fit = subprocess.run(
        [
            binary,
            "fit",
            folder / "train.csv",
            "--target",
            "income",
            "--epsilon",
            str(epsilon),
            "--delta",
            str(DELTA),
            "--bounds",
            bounds,
            "-o",
            model,
        ],
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    if fit.returncode:
        sys.exit(fit.stderr)
    scores = subprocess.run([binary, "evaluate", model, folder / "test.csv", "--json"], capture_output=True, text=True)
    if scores.returncode:
        sys.exit(scores.stderr)
    return json.loads(scores.stdout)["accuracy"], seconds


def one_hot(rows, facts, columns):
    """Plain features from the same public facts: numbers scaled to [0, 1], categories one-hot."""
    import numpy as np

    blocks, labels = [], facts["income"]["levels"]
    for name, position in columns.items():
        if name == "income":
            continue
        values = [r[position] for r in rows]
        fact = facts[name]
        if "lower" in fact:
            x = np.clip(np.array(values, float), fact["lower"], fact["upper"])
            blocks.append(((x - fact["lower"]) / (fact["upper"] - fact["lower"]))[:, None])
        else:
            index = {level: i for i, level in enumerate(fact["levels"])}
            block = np.zeros((len(rows), len(index) + 1))
            block[np.arange(len(rows)), [index.get(v, len(index)) for v in values]] = 1
            blocks.append(block)
    y = np.array([labels.index(r[columns["income"]]) for r in rows])
    return np.concatenate(blocks, 1).astype("float32"), y


def opacus_fit(train, test, epsilon, seed):
    import torch
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    x, y = (torch.tensor(a) for a in train)
    start = time.perf_counter()
    model = torch.nn.Linear(x.shape[1], 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y.float()), batch_size=1024)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        epochs=10,
        target_epsilon=epsilon,
        target_delta=DELTA,
        max_grad_norm=1.0,
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(10):
        for batch, target in loader:
            optimizer.zero_grad()
            if len(batch):
                loss(model(batch)[:, 0], target).backward()
            optimizer.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        guess = (model(torch.tensor(test[0]))[:, 0] > 0).numpy()
    return float((guess == test[1]).mean()), seconds


def diffprivlib_fit(train, test, epsilon, seed):
    from diffprivlib.models import LogisticRegression

    # 14 columns, each with one entry of size at most 1
    model = LogisticRegression(epsilon=epsilon, data_norm=math.sqrt(14), max_iter=300, random_state=seed)
    start = time.perf_counter()
    model.fit(*train)
    return float(model.score(*test)), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=str(HERE.parents[1] / "target" / "release" / "dpopt"))
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    with open(data_file(), newline="") as f:
        header, *rows = list(csv.reader(f))
    columns = {name: i for i, name in enumerate(header)}
    facts = tomllib.loads((HERE / "bounds-vocabulary.toml").read_text())
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for seed in range(5):
            train, test = split(rows, seed)
            write(folder / "train.csv", header, train)
            write(folder / "test.csv", header, test)
            for epsilon in LIMITS:
                for kind in ("hashed", "vocabulary"):
                    out = dpopt_fit(options.binary, folder, HERE / f"bounds-{kind}.toml", epsilon)
                    results.setdefault((f"dpopt ({kind})", epsilon), []).append(out)
            if not options.no_peers:
                plain = one_hot(train, facts, columns), one_hot(test, facts, columns)
                for epsilon in LIMITS:
                    results.setdefault(("opacus", epsilon), []).append(opacus_fit(*plain, epsilon, seed))
                    results.setdefault(("diffprivlib", epsilon), []).append(diffprivlib_fit(*plain, epsilon, seed))
            print(f"seed {seed} done", file=sys.stderr)
    tools = list(dict.fromkeys(tool for tool, _ in results))
    print(f"{'mean test accuracy':22}" + "".join(f"  eps={e:<5}" for e in LIMITS) + "  fit seconds (median)")
    mean, seconds = {}, {}
    for tool in tools:
        for epsilon in LIMITS:
            mean[tool, epsilon] = statistics.mean(a for a, _ in results[tool, epsilon])
        seconds[tool] = statistics.median(s for e in LIMITS for _, s in results[tool, e])
        print(f"{tool:22}" + "".join(f"  {mean[tool, e]:.4f}   " for e in LIMITS) + f"  {seconds[tool]:.3f}")
    for tool in tools:
        if tool.startswith("dpopt"):
            kind = tool[7:-1]
            for epsilon, limit in LIMITS.items():
                print(f"ratio accuracy-{kind}-eps{epsilon}-vs-{limit} {mean[tool, epsilon] / limit:.4f}")
            if "opacus" in tools:
                for epsilon in LIMITS:
                    gain = (1 - mean["opacus", epsilon]) / (1 - mean[tool, epsilon])
                    print(f"ratio error-{kind}-eps{epsilon}-vs-opacus {gain:.3f}")
                print(f"ratio fit-time-{kind}-vs-opacus-10-epochs {seconds['opacus'] / seconds[tool]:.1f}")


if __name__ == "__main__":
    main()
