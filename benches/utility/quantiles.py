"""Models of quantiles: `python quantiles.py` prints the mean pinball loss, over that of the best constant, and the share below, over three even splits at several ε.

`QuantileRegressor` with encoded and with plain columns, `LinearRegression` on the same columns (what a user without it would take), and scikit-learn's
quantile regression without privacy, on plain columns and on splines (of 3,000 rows at most: it solves a linear program). Nothing but the ranges of columns is
said; that of the target is found. Odd splits are there to choose constants by (`--odd`).
"""

import argparse
import os
import pathlib
import warnings

import dpopt
import numpy as np
import pandas as pd
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import d2_pinball_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

LEVELS = (0.1, 0.5, 0.9)
EPSILONS = (0.1, 1.0, 4.0)
MOST = 3_000


def lines(rng):
    """Quantiles that are lines: skewed noise whose size grows along a column."""
    X = rng.uniform(-1, 1, (25_000, 5))
    return X, 5 + X @ np.array([3.0, -1.0, 0.5, 0, 0]) + (1.5 + X[:, 1]) * rng.exponential(1.0, len(X)), (-1, 1)


def tails(rng):
    """A wave, a threshold and a product, with noise of heavy tails whose size follows a wave too."""
    X = rng.uniform(-1, 1, (25_000, 5))
    mean = 3 * np.cos(3 * X[:, 0]) + 2 * (X[:, 1] > 0.3) + 3 * X[:, 2] * X[:, 3]
    return X, mean + (1 + 0.8 * np.sin(3 * X[:, 0])) * rng.standard_t(2.0, len(X)), (-1, 1)


def adult(rng):
    """Ages in the Adult table (UCI), by its four other numbers; ranges as everybody knows them. `DPOPT_DATA` names the folder that holds adult/adult.csv."""
    folder = os.environ.get("DPOPT_DATA")
    if folder is None:
        raise SystemExit("DPOPT_DATA is to name the folder that holds adult/adult.csv; or name other tables")
    table = pd.read_csv(pathlib.Path(folder) / "adult/adult.csv", skipinitialspace=True)
    ends = {
        "education_num": (1, 16),
        "hours_per_week": (0, 99),
        "capital_gain": (0, 20_000),
        "capital_loss": (0, 4_000),
    }
    X = table[list(ends)].to_numpy(float)
    return X, table["age"].to_numpy(float), ([low for low, _ in ends.values()], [high for _, high in ends.values()])


def models(level, epsilon, bounds):
    facts = {"epsilon": epsilon, "bounds": bounds}
    return {
        "quantile": dpopt.QuantileRegressor(level, **facts),
        "quantile, plain columns": dpopt.QuantileRegressor(level, **facts, encoding=None),
    }


def score(model, level, test):
    guess = model.predict(test[0])
    return d2_pinball_score(test[1], guess, alpha=level), np.mean(test[1] <= guess)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("tables", nargs="*")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| table | level | ε | model | D² | share below | least | most |\n|---|---|---|---|---|---|---|---|")
    for table in (lines, tails, adult):
        if asked.tables and table.__name__ not in asked.tables:
            continue
        found = {}
        for split in range(1 if asked.odd else 2, 2 * asked.splits + 1, 2):
            rng = np.random.default_rng(split)
            X, y, bounds = table(rng)
            order = rng.permutation(len(y))
            train, test = np.split(order, [len(y) * 4 // 5])
            train, test = (X[train], y[train]), (X[test], y[test])
            few = (train[0][:MOST], train[1][:MOST])
            means = {
                epsilon: dpopt.LinearRegression(epsilon=epsilon, bounds=bounds).fit(*train) for epsilon in EPSILONS
            }
            for level in LEVELS:
                line = QuantileRegressor(quantile=level, alpha=0)
                splines = make_pipeline(SplineTransformer(n_knots=6), QuantileRegressor(quantile=level, alpha=1e-4))
                for name, model in (("scikit-learn", line), ("scikit-learn, splines", splines)):
                    found.setdefault((level, "not private", name), []).append(score(model.fit(*few), level, test))
                for epsilon in EPSILONS:
                    for name, model in models(level, epsilon, bounds).items():
                        found.setdefault((level, epsilon, name), []).append(score(model.fit(*train), level, test))
                    found.setdefault((level, epsilon, "mean"), []).append(score(means[epsilon], level, test))
        for (level, epsilon, name), scores in found.items():
            (d2, below), shares = np.mean(scores, axis=0), [share for _, share in scores]
            ends = f"{min(shares):.3f} | {max(shares):.3f}"
            print(f"| {table.__name__} | {level} | {epsilon} | {name} | {d2:.3f} | {below:.3f} | {ends} |", flush=True)


if __name__ == "__main__":
    main()
