"""Passes and fits over matrices, beside NumPy and scikit-learn."""

import os
import statistics
import time

import dpopt
import numpy as np
from timing import found, in_turn, numbers, run, scaled

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def matrix(n, d):
    return np.random.default_rng(0).uniform(-1, 1, (n, d)).astype(np.float32)


def pass_group():
    n, d = 1_000_000, 100
    X, w, g = matrix(n, d), np.ones(d, dtype=np.float32), np.ones(n, dtype=np.float32)
    ours, reading, peers = [], [], []
    for _ in range(3):
        told = numbers(run(os.environ["DPOPT_BENCH_PASSES"], "--bench", "n1e6_d100"))
        ours.append(told["n1e6_d100_pass_ns"])
        reading.append(told["n1e6_d100_read_ns"])
        X @ w, X.T @ g
        times = []
        for _ in range(5):
            start = time.perf_counter()
            X @ w, X.T @ g
            times.append(time.perf_counter() - start)
        # the benchmark in Rust gives its fastest round
        peers.append(min(times) * 1e9 / (n * d))
    beside_reading = found(ours, reading)
    yield "pass-over-reading", beside_reading
    yield "pass-ns", beside_reading
    yield "pass-over-numpy", found(ours, peers)


def fit_group():
    from sklearn.linear_model import LogisticRegression

    X = matrix(200_000, 100)
    y = (X @ np.linspace(-1, 1, 100) + np.random.default_rng(1).logistic(size=len(X)) > 0).astype(int)
    ours = lambda: dpopt.LogisticRegression(
        **BUDGET, bounds=(-1, 1), classes=[0, 1], method="objective-perturbation", encoding=None
    ).fit(X, y)
    yield "fit-over-lbfgs", in_turn(ours, lambda: LogisticRegression().fit(X, y))


def classes_group():
    from sklearn.linear_model import LogisticRegression

    X = matrix(100_000, 64)
    random = np.random.default_rng(1)
    y = (3 * X @ random.standard_normal((64, 10)) / 8 + random.gumbel(size=(len(X), 10))).argmax(axis=1)
    method = dpopt.methods.CentredDescent(steps=80)
    facts = {**BUDGET, "bounds": (-1, 1), "classes": range(10), "encoding": None}
    ours = lambda: dpopt.LogisticRegression(**facts, method=method).fit(X, y)
    told = in_turn(ours, lambda: LogisticRegression().fit(X, y), rounds=3)
    yield "classes-s", told
    yield "classes-over-lbfgs", told


def statistics_group():
    X = matrix(100_000, 100)
    y = (X @ np.linspace(-0.1, 0.1, 100) + np.random.default_rng(1).normal(0, 0.1, len(X))).astype(np.float32)

    def normal_equations():
        return np.linalg.solve(X.T @ X, X.T @ y)

    ours = lambda: dpopt.LinearRegression(
        **BUDGET, bounds=(-1, 1), target_bounds=(-2, 2), method="sufficient-statistics", encoding=None
    ).fit(X, y)
    yield "statistics-over-normal-equations", in_turn(ours, normal_equations, rounds=7)
    yield "statistics-over-lstsq", in_turn(ours, lambda: np.linalg.lstsq(X, y, rcond=None), rounds=3)


def sparse_columns(random, n, k, d, uniform):
    """k different columns of each row: all as likely, or with log-uniform ranks that are scattered, as words and clicks have them."""

    def draw(count):
        ranks = (
            random.integers(0, d, count) if uniform else np.exp(random.uniform(0, np.log(d), count)).astype(np.int64)
        )
        return ranks * 2_654_435_761 % d

    columns = np.sort(draw(n * k).reshape(n, k), axis=1)
    while True:
        again = np.zeros_like(columns, dtype=bool)
        again[:, 1:] = columns[:, 1:] == columns[:, :-1]
        if not again.any():
            return columns
        columns[again] = draw(again.sum())
        columns.sort(axis=1)


def sparse_group():
    from scipy.sparse import csr_matrix

    n, d, k = 100_000, 1_000_000, 50
    for name, uniform in (("sparse-step-over-sgd", False), ("sparse-uniform-step-over-sgd", True)):
        random = np.random.default_rng(0)
        columns = sparse_columns(random, n, k, d, uniform)
        values = np.full(n * k, k**-0.5, dtype=np.float32)
        X = csr_matrix((values, columns.astype(np.int32).ravel(), np.arange(0, n * k + 1, k)), (n, d))
        yield name, sparse_steps(X, random.integers(0, 2, n))


def sparse_steps(X, y):
    """Nanoseconds of a record of a batch, and of scikit-learn's."""
    from sklearn.linear_model import SGDClassifier

    n, batch, few, many = X.shape[0], 512, 50, 650

    def fitted(steps):
        method = dpopt.methods.NoisySGD(sampling_probability=batch / n, steps=steps, momentum=0.0, calibration=0.0)
        start = time.perf_counter()
        dpopt.LogisticRegression(**BUDGET, row_norm=1.0, classes=[0, 1], fit_intercept=False, method=method).fit(X, y)
        return time.perf_counter() - start

    peer = SGDClassifier(loss="log_loss", fit_intercept=False, shuffle=True, random_state=0)

    def epoch():
        start = time.perf_counter()
        peer.partial_fit(X, y, classes=[0, 1])
        return (time.perf_counter() - start) / n

    # reading, planning and the last release are in both fits
    ours = lambda: (fitted(many) - fitted(few)) / ((many - few) * batch)
    return scaled(in_turn(ours, lambda: statistics.median(epoch() for _ in range(3))), 1e9)
