"""From predicted excess risks to points of accuracy and errors: constants of `crates/dpopt/src/sizing/scale.rs` and how often their band holds.

`python sizing.py results.jsonl --panel target/utility-panel`, on what `run.py --tools dpopt,trees,linear` wrote for odd and for even splits. A
cell is a table at one ε, with means over splits and runs. Constants are chosen on cells of odd splits (made tables are drawn anew for each split);
what is told of the band comes from cells of even splits, with constants chosen on the other tables too.
"""

import argparse
import json
import math
import pathlib
import statistics
from collections import defaultdict

import numpy as np
import panel

#: Shares of the cells below the low end, the middle and the high end: the narrowest band that holds in 85 % of the cells of odd splits with constants
#: from other tables.
QUANTILES = {"points of best": (0.05, 0.5, 0.9), "points": (0.05, 0.5, 0.9), "error": (0.04, 0.5, 0.95)}
POWERS = np.arange(0.5, 2.01, 0.25)
#: The high end has room for what is lost to the form of a model where nothing is lost to privacy; the low end is 0 where little is lost.
FLOORS = {
    "low": (0.0, -0.01, -0.02, -0.03, -0.05, -0.07, -0.1, -0.15),
    "middle": (0.0,),
    "high": (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06),
}


def pairs(records, folder):
    """(kind, table, split, ε, predicted, lost) of every fit; both in the shares that the constants are about."""
    best = defaultdict(dict)
    for r in records:
        if r["tool"] in ("trees", "linear") and "score" in r:
            key = r["table"], r["split"]
            best[key] = max(best.get(key) or -math.inf, r["score"])
    found = []
    for r in records:
        key = r["table"], r["split"]
        if r["tool"] != "dpopt" or "score" not in r or key not in best:
            continue
        short = best[key] - r["score"]
        about = json.loads((folder / r["table"] / "about.json").read_text())
        if r["task"] == "regression":
            variance, half = spread(folder / r["table"] / f"split-{r['split']}", about["target"])
            sizes = math.sqrt(2 * r["predicted"]), math.copysign(math.sqrt(abs(short) * variance) / half, short)
            found.append(("error", *key, r["epsilon"], *sizes))
        else:
            classes = about["classes"]
            for kind, ceiling in (("points of best", best[key] - 1 / classes), ("points", 1 - 1 / classes)):
                found.append((kind, *key, r["epsilon"], r["predicted"], short / ceiling))
    return found


def spread(place, target, known={}):  # noqa: B006 - read once
    """Variance of the test rows' target, and half of its declared range."""
    if place not in known:
        import pandas as pd
        import tomllib

        facts = tomllib.loads((place / "bounds.toml").read_text())[target]
        values = pd.read_csv(place / "test.csv", usecols=[target])[target]
        known[place] = float(values.var(ddof=0)), (facts["upper"] - facts["lower"]) / 2
    return known[place]


def cells(found, kind, odd):
    """Means over splits and runs: table, ε, predicted, lost. A model that beats all others loses nothing."""
    by_cell = defaultdict(list)
    for of, table, split, epsilon, predicted, lost in found:
        if of == kind and split % 2 == odd:
            by_cell[table, epsilon].append((predicted, lost))
    mean = lambda all, place: statistics.mean(one[place] for one in all)
    return [(*cell, mean(all, 0), max(0.0, mean(all, 1))) for cell, all in by_cell.items()]


def curve(chosen, quantile, floors):
    """(floor, factor, power) of the least pinball loss."""
    x, y = (np.array([cell[place] for cell in chosen]) for place in (2, 3))
    best = None
    for floor in floors:
        for power in POWERS:
            weights = x**power
            ratios = (y - floor) / weights
            order = np.argsort(ratios)
            heap = np.cumsum(weights[order])
            factor = max(0.0, ratios[order][np.searchsorted(heap, quantile * heap[-1])])
            rest = y - at((floor, factor, power), x)
            loss = np.where(rest >= 0, quantile * rest, (quantile - 1) * rest).sum()
            if best is None or loss < best[0] - 1e-12:
                best = loss, (floor, float(factor), float(power))
    return best[1]


def band(chosen, kind):
    return [curve(chosen, quantile, floors) for quantile, floors in zip(QUANTILES[kind], FLOORS.values())]


def at(constants, x):
    floor, factor, power = constants
    return np.maximum(0.0, floor + factor * x**power)


def ends(constants, x):
    low, middle, high = (at(end, x) for end in constants)
    return min(low, middle), max(high, middle)


def holds(constants, cell):
    low, high = ends(constants, cell[2])
    return low - 1e-12 <= cell[3] <= high + 1e-12


def share(values):
    values = list(values)
    return f"{sum(values) / len(values):.2f} of {len(values)}" if values else "-"


def told(found, kind):
    odd, even = cells(found, kind, 1), cells(found, kind, 0)
    constants = band(odd, kind)
    print(f"\n{kind}: {len(odd)} cells of odd splits, {len(even)} of even splits")
    for name, (floor, factor, power) in zip(FLOORS, constants):
        print(f"  {name:6} {floor:.3f} + {factor:.3f}·x^{power:.3f}")
    print("  holds in cells of odd splits: ", share(holds(constants, cell) for cell in odd))
    print("  holds in cells of even splits:", share(holds(constants, cell) for cell in even))
    for epsilon in sorted({cell[1] for cell in even}):
        print(f"    at epsilon {epsilon:g}:", share(holds(constants, cell) for cell in even if cell[1] == epsilon))
    print("    below the band:", share(cell[3] < ends(constants, cell[2])[0] - 1e-12 for cell in even))
    print("    above the band:", share(cell[3] > ends(constants, cell[2])[1] + 1e-12 for cell in even))
    for name, judged in (("odd", odd), ("even", even)):
        left_out = []
        for table in sorted({cell[0] for cell in odd}):
            others = band([cell for cell in odd if cell[0] != table], kind)
            left_out += [holds(others, cell) for cell in judged if cell[0] == table]
        print(f"  {name} splits, constants from other tables:", share(left_out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--panel", type=pathlib.Path, default=panel.HERE.parents[1] / "target" / "utility-panel")
    options = parser.parse_args()
    records = [json.loads(line) for path in options.results for line in path.read_text().splitlines()]
    found = pairs(records, options.panel)
    for kind in QUANTILES:
        told(found, kind)


if __name__ == "__main__":
    main()
