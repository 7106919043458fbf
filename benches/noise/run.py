"""Noise samplers side by side: dpopt, NumPy and OpenDP in one go, on one thread.

Prints nanoseconds per sample and, last, `ratio NAME VALUE`: how many times faster dpopt is than NAME.
"""

import pathlib
import subprocess
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore", category=DeprecationWarning)
import opendp.prelude as dp  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 3


def nanoseconds(items, work, repeat=7):
    work()
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1e9 / items


def dpopt():
    command = ["cargo", "bench", "-q", "-p", "dpopt-draws", "--bench", "noise"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    pairs = (line.split() for line in lines)
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}


def numpy_peers():
    n = 1 << 20
    rng = np.random.default_rng()
    single, double = np.empty(n, dtype=np.float32), np.empty(n)
    return {
        "numpy_float32_normal": nanoseconds(n, lambda: rng.standard_normal(out=single, dtype=np.float32)),
        "numpy_float64_normal": nanoseconds(n, lambda: rng.standard_normal(out=double)),
        # a legacy call that much code still makes: Mersenne Twister, float64, then a cast
        "numpy_legacy_normal_as_float32": nanoseconds(n, lambda: np.random.normal(0.0, 1.1, n).astype(np.float32)),
    }


def opendp_peers():
    dp.enable_features("contrib", "floating-point")
    n = 2000
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=1.1)
    zeros = [0.0] * n
    return {"opendp_vector_gaussian": nanoseconds(n, lambda: measurement(zeros), repeat=2)}


def main():
    ours, peers = {}, {}
    for _ in range(ROUNDS):  # in turn, best of each: other work on the machine hits all alike
        for table, part in ((ours, dpopt()), (peers, numpy_peers()), (peers, opendp_peers())):
            for name, value in part.items():
                table[name] = min(value, table.get(name, float("inf")))
    for name, value in {**ours, **peers}.items():
        print(f"{name:34s} {value:12.3f}")
    for name, value in peers.items():
        print(f"ratio {name} {value / ours['gaussian_secure_ns']:.2f}")


main()
