"""Private Cox regression beside the exact one: order of risks, effects, and survival curves.

    benches/survival/run.py [--runs 5] [--flchain flchain.arff]

Each case is fitted `--runs` times at ε = 0.1, 0.5, 1 and 4, δ = 1e-6, zero-out neighbours, on rows drawn anew (of a file: on another 80 % of them, the rest being the
test). *Exact*: the maximum of the partial likelihood and Breslow's baseline, without privacy. *C*: Harrell's concordance on test rows. *Effects*: the root of the mean squared difference
of coefficients from the exact ones, over the mean standard error of these, which is what other rows would change. *Curves*: the mean difference of survival
curves from the exact fit's on test rows, over 20 times. `flchain.arff`: the file of scikit-survival's wheel (7,874 persons of Olmsted County, time to death; Dispenzieri et al. 2012).
Prints a table in Markdown.
"""

import argparse
import warnings

import dpopt
import numpy as np
from dpopt._concordance import concordance

EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-6


def weibull(effects, shape, scale):
    def drawn(random, rows):
        X = random.uniform(-1, 1, (rows, len(effects)))
        event = scale * random.exponential(np.exp(-X @ np.array(effects))) ** (1 / shape)
        end = random.uniform(1, 9, rows)
        return X, dpopt.survival(np.minimum(event, end), event <= end)

    return drawn


def not_proportional(random, rows):
    """The effect of the first column is gone after a third of the time."""
    X = random.uniform(-1, 1, (rows, 5))
    first, second = np.exp(1.5 * X[:, 0] - 0.5 * X[:, 1]) / 4, np.exp(-0.5 * X[:, 1]) / 4
    event = random.exponential(1 / first)
    event = np.where(event <= 3, event, 3 + random.exponential(1 / second))
    end = random.uniform(1, 9, rows)
    return X, dpopt.survival(np.minimum(event, end), event <= end)


LAWS = {
    "effects of 1, 2,000 rows": (weibull([1, -0.7, 0.5, 0, 0], 1.3, 3), 2000),
    "effects of 1, 5,000 rows": (weibull([1, -0.7, 0.5, 0, 0], 1.3, 3), 5000),
    "effects of 1, 20,000 rows": (weibull([1, -0.7, 0.5, 0, 0], 1.3, 3), 20_000),
    "effects of 2.5, 5,000 rows": (weibull([2.5, -2, 1, 0, 0], 1.3, 3), 5000),
    "falling hazard, 5,000 rows": (weibull([1, -0.7, 0.5, 0, 0], 0.6, 3), 5000),
    "rare event, 20,000 rows": (weibull([1, -0.7, 0.5, 0, 0], 1.3, 60), 20_000),
    "effect that ends, 5,000 rows": (not_proportional, 5000),
    "20 columns, 20,000 rows": (weibull([0.5] * 4 + [0] * 16, 1.3, 3), 20_000),
}


def exact(X, y):
    """Coefficients, their standard errors, and Breslow's baseline: times and cumulative hazards."""
    order = np.argsort(-y["time"], kind="stable")
    X, event, times = X[order], y["event"][order], y["time"][order]
    # of equal times all are at risk
    last = np.searchsorted(-times, -times, "right") - 1
    coef = np.zeros(X.shape[1])
    for _ in range(25):
        weight = np.exp(X @ coef)
        zero, one = np.cumsum(weight)[last], np.cumsum(weight[:, None] * X, axis=0)[last]
        two = np.cumsum(weight[:, None, None] * X[:, :, None] * X[:, None, :], axis=0)[last]
        mean = one / zero[:, None]
        information = (two / zero[:, None, None] - mean[:, :, None] * mean[:, None, :])[event].sum(axis=0)
        coef = coef + np.linalg.solve(information, (X - mean)[event].sum(axis=0))
    hazard = np.where(event, 1 / np.cumsum(np.exp(X @ coef))[last], 0.0)[::-1]
    return coef, np.sqrt(np.diag(np.linalg.inv(information))), (times[::-1], np.cumsum(hazard))


def cases(flchain):
    for name, (law, rows) in LAWS.items():
        yield name, (lambda random, law=law, rows=rows: (*law(random, rows), *law(random, 5000))), 8.0, (-1.0, 1.0)
    if flchain:
        # the cause of death holds spaces, and is not used
        lines = open(flchain, encoding="utf-8").read().split("@data\n")[1].split()
        cells = [line.split(",")[:10] for line in lines if line.count(",") >= 10]
        number = np.array(
            [[float("nan") if c == "?" else float(c) for c in (r[0], r[3], r[4], r[6], r[8])] for r in cells]
        )
        sex, mgus = (np.array([r[j] == name for r in cells], float) for j, name in ((1, "M"), (7, "yes")))
        X = np.column_stack([number[:, 0], sex, np.log(number[:, 1]), np.log(number[:, 2]), number[:, 3], mgus])
        X[:, 4] = np.where(np.isnan(X[:, 4]), 1.25, X[:, 4])
        lower, upper = (
            np.array([50, 0, np.log(0.1), np.log(0.1), 0.3, 0]),
            np.array([100, 1, np.log(10), np.log(10), 2.2, 1.0]),
        )
        X = np.clip(X, lower, upper)
        y = dpopt.survival(number[:, 4], np.array([r[9] == "dead" for r in cells], float))

        def split(random):
            order = random.permutation(len(X))
            fit, test = order[: len(X) * 4 // 5], order[len(X) * 4 // 5 :]
            return X[fit], y[fit], X[test], y[test]

        yield f"flchain, {len(X) * 4 // 5:,} rows", split, 5300.0, (lower, upper)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--flchain")
    parser.add_argument("--periods", type=int, default=32)
    given = parser.parse_args()
    warnings.simplefilter("ignore", dpopt.PrivacyWarning)
    print("| case | ε | C | exact C | effects, in standard errors | curves |\n|---|---|---|---|---|---|")
    for name, drawn, horizon, bounds in cases(given.flchain):
        for epsilon in EPSILONS:
            found = []
            for run in range(given.runs):
                X, y, new, outcome = drawn(np.random.default_rng(run))
                coef, errors, (at, cumulative) = exact(X, y)
                model = dpopt.CoxRegressor(
                    epsilon=epsilon, delta=DELTA, horizon=horizon, periods=given.periods, bounds=bounds
                ).fit(X, y)
                scale = (np.broadcast_to(bounds[1], coef.shape) - np.broadcast_to(bounds[0], coef.shape)) / 2
                times = np.linspace(0, horizon, 21)[1:]
                place = np.searchsorted(at, times, "right") - 1
                base = np.where(place >= 0, cumulative[np.maximum(place, 0)], 0.0)
                curves = np.exp(-np.exp(new @ coef)[:, None] * base)
                found.append(
                    (
                        model.score(new, outcome),
                        concordance(new @ coef, outcome["time"], outcome["event"]),
                        np.sqrt(np.mean(((model.coef_ - coef) * scale) ** 2) / np.mean((errors * scale) ** 2)),
                        np.abs(model.predict_survival_function(new, times) - curves).mean(),
                    )
                )
            c, exact_c, effects, curves = np.mean(found, axis=0)
            print(
                f"| {name} | {epsilon:g} | {c:.3f} | {exact_c:.3f} | {effects:.1f} | {curves:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
