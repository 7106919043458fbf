"""How often prediction intervals hold a fresh target, and how wide they are.

    benches/inference/intervals.py [--runs 20]

Each case is fitted `--runs` times at ε = 0.5, 1 and 4, δ = 1e-6, zero-out neighbours, level .9, on rows drawn anew; 50,000 fresh rows say what is held. The oracle is
the least-squares model of the fit's rows without privacy, with the width that holds .9 of the fresh rows: the best constant width at that level around it. *Proved* is
what differential privacy gives for a fresh row: Φ(Φ⁻¹(.9) − μ), μ that of replacing a row. Prints a table in Markdown.
"""

import argparse
import statistics
import warnings

import dpopt
import numpy as np

EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-6
LEVEL = 0.9
FRESH = 50_000
SLOPES = np.array([1.0, -1.0, 0.5, 0.0, 0.25])
NORMAL = statistics.NormalDist()


def normal(random, X):
    return X @ SLOPES + 0.5 * random.standard_normal(len(X))


def skewed(random, X):
    return X @ SLOPES + random.exponential(0.7, len(X))


def heavy(random, X):
    return X @ SLOPES + 0.3 * random.standard_t(2.2, len(X))


def wrong(random, X):
    """A square, a product and an uneven spread that the columns do not have."""
    mean = X @ SLOPES + X[:, 0] ** 2 + X[:, 1] * X[:, 2]
    return mean + (0.2 + 0.5 * np.abs(X[:, 0])) * random.standard_normal(len(X))


#: Law, columns, declared range of y; None: found privately.
CASES = {
    "normal": (normal, 5, (-5, 5)),
    "skewed": (skewed, 5, (-5, 10)),
    "heavy tails": (heavy, 5, (-8, 8)),
    "wrong model": (wrong, 5, (-5, 7)),
    "normal, 100 columns": (normal, 100, (-5, 5)),
    "normal, range found": (normal, 5, None),
    "skewed, range found": (skewed, 5, None),
}


def drawn(random, law, columns, rows):
    X = random.uniform(-1, 1, (rows, columns))
    return X, law(random, X[:, :5])


def mu_of(epsilon):
    """μ of Gaussian differential privacy within (ε, δ), by halving."""
    low, high = 0.0, 10.0
    for _ in range(100):
        mu = (low + high) / 2
        delta = NORMAL.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * NORMAL.cdf(-epsilon / mu - mu / 2)
        low, high = (mu, high) if delta < DELTA else (low, mu)
    return low


def one(law, columns, target, rows, epsilon, seed):
    """Coverage of fresh rows, of the fit's own, and the width over the oracle's."""
    random = np.random.default_rng(seed)
    X, y = drawn(random, law, columns, rows)
    fresh, truth = drawn(random, law, columns, FRESH)
    model = dpopt.LinearRegression(
        epsilon=epsilon,
        delta=DELTA,
        bounds=(-1, 1),
        target_bounds=target,
        encoding=None,
        method=dpopt.methods.Auto(intervals=LEVEL),
    )
    model.fit(X, y)

    def held(X, y):
        ends = model.predict_interval(X)
        return np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])), np.mean(ends[:, 1] - ends[:, 0])

    ones = np.ones((rows, 1))
    weights = np.linalg.lstsq(np.hstack([X, ones]), y, rcond=None)[0]
    best = 2 * np.quantile(np.abs(truth - fresh @ weights[:-1] - weights[-1]), LEVEL)
    (of_fresh, width), (own, _) = held(fresh, truth), held(X, y)
    return of_fresh, own, width / best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="*", default=[5000, 20_000])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| rows | ε | held, fresh rows | least of all runs | held, rows of the fit | proved | width over the oracle's |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, (law, columns, target) in CASES.items():
        for rows in asked.rows:
            for epsilon in EPSILONS:
                runs = [one(law, columns, target, rows, epsilon, seed) for seed in range(asked.runs)]
                fresh, own, width = np.array(runs).T
                proved = NORMAL.cdf(NORMAL.inv_cdf(LEVEL) - 2 * mu_of(epsilon))
                cells = [f"{name}, {rows:,}", f"{epsilon:g}", f"{fresh.mean():.3f}", f"{fresh.min():.3f}"]
                cells += [f"{own.mean():.3f}", f"{proved:.2f}", f"{width.mean():.2f}"]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
