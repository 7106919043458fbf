"""How often the intervals of `method="one-step"` hold the truth, and how wide they are.

    benches/inference/run.py [--runs 200] [--data FOLDER] [--only NAME]

Each case is fitted `--runs` times at ε = 0.5, 1 and 4, δ = 1e-6, zero-out neighbours, on rows drawn anew. Generated rows: the truth is the best
coefficient for four million other rows. With `--data` (a folder that holds adult/adult.csv): rows drawn with
replacement from the table, of which a fit without privacy is the truth. An oracle knows the standard deviation of the estimator: that of the runs. Prints a
table in Markdown and lines `cell NAME EPSILON ...`.
"""

import argparse
import csv
import pathlib
import warnings

import dpopt
import numpy as np

EPSILONS = (0.5, 1.0, 4.0)
DELTA = 1e-6
ROWS = 20_000
REACH = 1.959964
SLOPES = np.array([1.0, -1.0, 0.5, 0.0, 0.25])


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def least_squares(X, y):
    return np.linalg.lstsq(X, y, rcond=None)[0]


def logistic(X, y):
    weights = np.zeros(X.shape[1])
    for _ in range(30):
        p = sigmoid(X @ weights)
        step = np.linalg.solve((X * (p * (1 - p))[:, None]).T @ X, X.T @ (y - p))
        weights += step
        if np.abs(step).max() < 1e-10:
            break
    return weights


def truth_of(X, y, bounds, target):
    """The best coefficients, the intercept last, of columns and target within their bounds."""
    X = np.column_stack([np.clip(X, *bounds), np.ones(len(X))])
    return logistic(X, y) if target is None else least_squares(X, np.clip(y, *target))


def even(random, n):
    return random.uniform(-1, 1, (n, 5))


def heavy(random, n):
    """Covariates of which a few are far out: t with 3 degrees of freedom, one column a multiple of another and noise."""
    X = 0.25 * random.standard_t(3, (n, 5))
    X[:, 1] += 0.5 * X[:, 0]
    return X


def labels(random, score):
    return (random.uniform(size=len(score)) < sigmoid(score)).astype(int)


def classes(columns, score):
    def draw(random, n):
        X = columns(random, n)
        return X, labels(random, score(np.clip(X, -1, 1)))

    return draw


def numbers(columns, mean, spread):
    def draw(random, n):
        X = columns(random, n)
        inside = np.clip(X, -1, 1)
        return X, mean(inside) + spread(inside) * random.standard_normal(n)

    return draw


def line(X):
    return X @ SLOPES - 0.3


def bent(X):
    return line(X) + 1.5 * X[:, 0] ** 2 + X[:, 1] * X[:, 2]


#: Name, how rows are drawn, range of the target (None: two classes).
GENERATED = [
    ("logistic", classes(even, line), None),
    ("logistic, coefficients of 3", classes(even, lambda X: 3 * line(X)), None),
    ("logistic, wrong model", classes(even, bent), None),
    ("logistic, heavy covariates", classes(heavy, line), None),
    ("linear", numbers(even, line, lambda X: 0.5), (-4, 4)),
    ("linear, wrong model, uneven spread", numbers(even, bent, lambda X: 0.2 + np.abs(X[:, 0])), (-6, 6)),
    ("linear, heavy covariates", numbers(heavy, line, lambda X: 0.5), (-4, 4)),
]
#: Public ranges of the census table's numbers.
ADULT = {
    "age": (17, 90),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
#: Name, columns, and the number that is predicted (None: whether the income is above 50,000).
REAL = [
    ("adult, income by all five numbers", list(ADULT), None),
    ("adult, income by age, education, hours", ["age", "education_num", "hours_per_week"], None),
    ("adult, hours by age, education", ["age", "education_num"], "hours_per_week"),
]


def adult(folder, columns, target):
    """The table's numbers, and as target whether the income is above 50,000, or another of its numbers."""
    with open(pathlib.Path(folder) / "adult" / "adult.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    keys = {name.strip().replace("-", "_").replace(".", "_"): name for name in rows[0]}
    X = np.array([[float(row[keys[name]]) for name in columns] for row in rows])
    if target is not None:
        return X, np.array([float(row[keys[target]]) for row in rows])
    return X, np.array([">50K" in row[keys["income"]] for row in rows]).astype(int)


def fitted(X, y, bounds, target, epsilon):
    facts = dict(epsilon=epsilon, delta=DELTA, bounds=bounds, encoding=None, method="one-step")
    model = (
        dpopt.LogisticRegression(classes=[0, 1], **facts)
        if target is None
        else dpopt.LinearRegression(target_bounds=target, **facts)
    )
    return model.fit(X, y)


def cell(name, draw, truth, bounds, target, epsilon, runs, seed):
    values, errors = [], []
    for run in range(runs):
        X, y = draw(np.random.default_rng([seed, run]))
        model = fitted(X, y, bounds, target, epsilon)
        if hasattr(model, "covariance_"):
            values.append(np.append(np.ravel(model.coef_), np.ravel(model.intercept_)))
            errors.append(np.append(np.ravel(model.coef_std_error_), np.ravel(model.intercept_std_error_)))
    if len(values) < max(2, runs // 4):
        return f"| {name} | {epsilon:g} | {len(values)} of {runs} | – | – | – |"
    values, errors = np.array(values), np.array(errors)
    held = np.abs(values - truth) <= REACH * errors
    deviation = values.std(axis=0, ddof=1)
    widths = errors.mean(axis=0) / deviation
    worst = held.mean(axis=0).min()
    print(f"cell {name!r} {epsilon:g} {held.mean():.4f} {worst:.4f} {widths.mean():.3f}", flush=True)
    return f"| {name} | {epsilon:g} | {len(values)} of {runs} | {held.mean():.3f} | {worst:.3f} | {widths.mean():.2f} |"


def cases(data):
    for name, draw, target in GENERATED:
        X, y = draw(np.random.default_rng(1), 4_000_000)
        yield name, lambda random, draw=draw: draw(random, ROWS), truth_of(X, y, (-1, 1), target), (-1, 1), target
    for name, columns, target in REAL:
        if data is None:
            return
        X, y = adult(data, columns, target)
        bounds = tuple(np.array([ADULT[column][end] for column in columns], dtype=float) for end in (0, 1))
        ends = None if target is None else ADULT[target]

        def resampled(random, X=X, y=y):
            rows = random.integers(0, len(X), len(X))
            return X[rows], y[rows]

        yield name, resampled, truth_of(X, y, bounds, ends), bounds, ends


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--data")
    parser.add_argument("--only")
    asked = parser.parse_args()
    # fits without standard errors say so; they are counted
    warnings.simplefilter("ignore")
    rows = [
        "| rows | ε | with standard errors | coverage | of the worst coefficient | width over the oracle's |",
        "|---|---|---|---|---|---|",
    ]
    for place, (name, draw, truth, bounds, target) in enumerate(cases(asked.data)):
        if asked.only is None or asked.only in name:
            rows += [cell(name, draw, truth, bounds, target, epsilon, asked.runs, place) for epsilon in EPSILONS]
    print("\n".join(rows))


if __name__ == "__main__":
    main()
