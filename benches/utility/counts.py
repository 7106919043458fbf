"""Models of counts: `python counts.py` prints D² and mean absolute errors over three even splits at several ε.

`PoissonRegressor` with encoded and with plain columns, `LinearRegression` on the same columns (its predictions are raised to 0.05 for a deviance), and
scikit-learn's Poisson regression without privacy, on plain columns and on splines. Nothing but the ranges of columns is said; that of the counts is found.
Odd splits are there to choose constants by (`--odd`).
"""

import argparse
import importlib.util
import pathlib
import warnings

import dpopt
import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score, mean_absolute_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

LEAST = 0.05
EPSILONS = (0.1, 1.0, 4.0)


def logs(rng):
    """Five columns whose logarithmic effects are lines: what the model is made for."""
    X = rng.uniform(-1, 1, (25_000, 5))
    return X, rng.poisson(np.exp(0.3 + X @ np.array([0.8, -0.6, 0.4, 0.2, 0.0]))), (-1, 1)


def curves(rng):
    """A wave, a threshold and a product, and counts that vary more than Poisson's law lets them."""
    X = rng.uniform(-1, 1, (25_000, 5))
    mean = np.exp(0.2 + 0.9 * np.cos(3 * X[:, 0]) + 0.6 * (X[:, 1] > 0.3) + 0.8 * X[:, 2] * X[:, 3])
    return X, rng.poisson(mean * rng.gamma(3.0, 1 / 3.0, len(X))), (-1, 1)


def visits(rng):
    """Visits to a doctor, of the RAND health insurance experiment (statsmodels' data set randhie); ranges from its description."""
    found = importlib.util.find_spec("statsmodels")
    if found is None:
        raise SystemExit("pip install statsmodels")
    table = pd.read_csv(pathlib.Path(found.origin).parent / "datasets/randhie/randhie.csv")
    y = table.pop("mdvis").to_numpy()
    ends = {"lncoins": (0, 4.62), "idp": (0, 1), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1), "disea": (0, 60)}
    ends = [ends.get(name, (0, 1)) for name in table]
    return table.to_numpy(float), y, ([low for low, _ in ends], [high for _, high in ends])


def models(epsilon, bounds):
    facts = {"epsilon": epsilon, "bounds": bounds}
    return {
        "Poisson": dpopt.PoissonRegressor(**facts),
        "Poisson, plain columns": dpopt.PoissonRegressor(**facts, encoding=None),
        "linear": dpopt.LinearRegression(**facts),
    }


def score(model, train, test):
    guess = np.maximum(model.fit(*train).predict(test[0]), LEAST)
    return d2_tweedie_score(test[1], guess, power=1), mean_absolute_error(test[1], guess)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("tables", nargs="*")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    splits = (1, 3, 5) if asked.odd else (2, 4, 6)
    print("| table | ε | model | D² | MAE |\n|---|---|---|---|---|")
    for table in (logs, curves, visits):
        if asked.tables and table.__name__ not in asked.tables:
            continue
        found = {}
        for split in splits:
            rng = np.random.default_rng(split)
            X, y, bounds = table(rng)
            order = rng.permutation(len(y))
            train, test = np.split(order, [len(y) * 4 // 5])
            train, test = (X[train], y[train]), (X[test], y[test])
            line = PoissonRegressor(alpha=0, max_iter=1000)
            splines = make_pipeline(SplineTransformer(n_knots=6), PoissonRegressor(alpha=1e-4, max_iter=1000))
            for name, model in (("scikit-learn", line), ("scikit-learn, splines", splines)):
                found.setdefault(("not private", name), []).append(score(model, train, test))
            constant = np.full(len(test[1]), train[1].mean())
            found.setdefault(("not private", "the mean"), []).append((0.0, mean_absolute_error(test[1], constant)))
            for epsilon in EPSILONS:
                for name, model in models(epsilon, bounds).items():
                    found.setdefault((epsilon, name), []).append(score(model, train, test))
        for (epsilon, name), scores in found.items():
            d2, mae = np.mean(scores, axis=0)
            print(f"| {table.__name__} | {epsilon} | {name} | {d2:.3f} | {mae:.3f} |", flush=True)


if __name__ == "__main__":
    main()
