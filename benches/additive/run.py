"""What it is worth to know that a function rises: errors of the same fits with and without the declaration.

    benches/additive/run.py [--runs 12]

3,000 rows of one column, uniform in [0, 1], and of five more of which nothing depends; a number with errors of .3, or two classes. Each case is fitted `--runs` times at each ε, δ = 1e-6, on
rows drawn anew, with `monotone` and without, with the same seeds of noise. *Error*: the mean squared difference of the predicted number (of the chance of the second class) from the
true one on 200 places of the column, the others in their middle. Prints a table in Markdown.
"""

import argparse
import warnings

import dpopt
import numpy as np

EPSILONS = (0.1, 0.5, 1.0, 4.0)
SHAPES = {
    "step": lambda x: 2.0 * (x > 0.5),
    "line": lambda x: 2.0 * x,
    "saturating": lambda x: 2.0 * (1 - np.exp(-6 * x)),
    "flat": lambda x: np.ones_like(x),
    "falls at the end (declared wrongly)": lambda x: 2.0 - 8 * (x - 0.5) ** 2,
}


def drawn(random, shape, task, rows=3000):
    X = random.uniform(0, 1, (rows, 6))
    truth = shape(X[:, 0])
    if task == "number":
        return X, truth + 0.3 * random.standard_normal(rows)
    return X, (random.uniform(size=rows) < 1 / (1 + np.exp(2 - 2 * truth))).astype(int)


def error(shape, task, epsilon, monotone, run):
    X, y = drawn(np.random.default_rng(run), shape, task)
    facts = {"epsilon": epsilon, "delta": 1e-6, "bounds": (0, 1), "insecure_seed": run}
    facts["columns"] = dpopt.Columns(monotone={"x0": "increasing"}) if monotone else None
    if task == "number":
        model = dpopt.AdditiveRegressor(target_bounds=(-1, 3), **facts).fit(X, y)
    else:
        model = dpopt.AdditiveClassifier(classes=[0, 1], **facts).fit(X, y)
    places = np.full((200, 6), 0.5)
    places[:, 0] = np.linspace(0, 1, 200)
    truth = shape(places[:, 0])
    if task == "number":
        return np.mean((model.predict(places) - truth) ** 2)
    return np.mean((model.predict_proba(places)[:, 1] - 1 / (1 + np.exp(2 - 2 * truth))) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore")
    print("| function | task | " + " | ".join(f"ε = {e:g}: free, rising" for e in EPSILONS) + " |")
    print("|---|---|" + "---|" * len(EPSILONS))
    for name, shape in SHAPES.items():
        for task in ("number", "classes"):
            cells = []
            for epsilon in EPSILONS:
                free, rising = (
                    np.mean([error(shape, task, epsilon, told, run) for run in range(runs)]) for told in (False, True)
                )
                cells.append(f"{free:.4f}, {rising:.4f}")
            print(f"| {name} | {task} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
