"""Gaussian noise and a release of ten million numbers, beside NumPy, OpenDP and PyTorch."""

import os
import warnings

import dpopt
import numpy as np
from timing import found, in_turn, numbers, run, scaled, seconds

SIZE = 10_000_000


def release(row):
    return lambda: dpopt.mechanisms.gaussian_sum(row, 1.0, epsilon=1.0, delta=1e-6)


def kernel(name):
    return numbers(run(os.environ["DPOPT_BENCH_NOISE"], "--bench"))[name]


def numpy_noise():
    random, out = np.random.default_rng(), np.empty(SIZE, dtype=np.float32)
    return lambda: random.standard_normal(out=out, dtype=np.float32)


def rounds(kernel_name, count=3):
    """Nanoseconds a number: the kernel's noise, NumPy's, and a release, in turn."""
    row, peer = np.zeros((1, SIZE), dtype=np.float32), numpy_noise()
    release(row)(), peer()
    told = {"kernel": [], "numpy": [], "release": []}
    for _ in range(count):
        told["kernel"].append(kernel(kernel_name))
        # the kernel's benchmark gives its fastest round
        told["numpy"].append(min(seconds(peer) for _ in range(3)) * 1e9 / SIZE)
        told["release"].append(min(seconds(release(row)) for _ in range(3)) * 1e9 / SIZE)
    return told


def noise_group():
    told = rounds("gaussian_secure_ns")
    yield "noise-kernel-speed-up", found(told["kernel"], told["numpy"])
    yield "release-over-kernel", found(told["release"], told["kernel"])
    yield "release-speed-up", found(told["release"], told["numpy"])


def noise_two_group():
    told = rounds("gaussian_secure_two_threads_ns")
    yield "noise-kernel-two-threads-speed-up", found(told["kernel"], told["numpy"])


def noise_opendp_group():
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point")
    n = 20_000
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    measurement, zeros = dp.m.make_gaussian(*space, scale=1.1), [0.0] * n
    row = np.zeros((1, SIZE), dtype=np.float32)
    ours = lambda: seconds(release(row)) * 1e9 / SIZE
    yield "release-speed-up-over-opendp", in_turn(ours, lambda: seconds(lambda: measurement(zeros)) * 1e9 / n, rounds=3)


def noise_torch_group():
    import torch

    torch.set_num_threads(1)
    row = np.zeros((1, SIZE), dtype=np.float32)
    yield "release-speed-up-over-torch", scaled(in_turn(release(row), lambda: torch.randn(SIZE)), 1e9 / SIZE)
