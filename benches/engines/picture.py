"""What passes are expected to cost for many rows, from what was measured on one machine: `python picture.py measured.json picture.svg`.

Seconds of a pass = start + task·parts + row·rows/cores + bytes·parts/bandwidth, where bytes are those of a part's answer.

The first three are fitted to the measurements by least squares of relative errors, none below 0, the two cores that were measured on counting as cores. Assumed for more: rows stay in
memory, as many parts as cores, cores as fast as those measured, and a driver that receives the sums at 1.25 GB/s and starts tasks one after the other as the measured one
does. None of that was tested on a cluster. The band is what any fit without one of the measurements says, widened by the largest residual.
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from scipy.optimize import nnls  # noqa: E402

BANDWIDTH = 1.25e9
#: Rows and cores that the table is about: what fits into 4 GB for each core.
LARGE = [(1e9, 64), (1e11, 4096)]
#: Passes, and numbers of 8 bytes in the answer of a part with so many weights.
METHODS = {
    "sufficient-statistics": (2, lambda d: d * (d + 1) // 2),
    "noisy-newton": (12, lambda d: d * (d + 1) // 2),
    "output-perturbation": (32, lambda d: 2 * d + d * (d + 1) // 2),
    "noisy-gradient-descent": (100, lambda d: d),
}


def terms(rows, parts, cores):
    return np.array([1.0, parts, rows / cores])


class Fitted:
    """Seconds of a pass by rows and cores."""

    def __init__(self, points, cores, weights):
        self.weights = weights
        seconds = np.array([point["pass"] for point in points])
        each = np.array([terms(point["rows"], point["parts"], cores) for point in points])
        # relative errors, and columns of about the same size
        scale = each.max(axis=0)
        lines = each / scale / seconds[:, None]
        solve = lambda chosen: nnls(lines[chosen], np.ones(len(chosen)))[0] / scale  # noqa: E731
        everything = list(range(len(points)))
        self.found = solve(everything)
        self.residuals = each @ self.found / seconds - 1
        self.without = [solve([i for i in everything if i != left]) for left in everything]

    def seconds(self, rows, cores, more=0.0, numbers=0, found=None):
        """`more`: seconds of a core for a row besides those of a descent."""
        found = self.found if found is None else found
        parts = cores
        return (
            terms(rows, parts, cores) @ found + more * rows / cores + 8 * (numbers or self.weights) * parts / BANDWIDTH
        )

    def band(self, rows, cores, more=0.0, numbers=0):
        all_of = [self.seconds(rows, cores, more, numbers, found) for found in (self.found, *self.without)]
        widest = np.abs(self.residuals).max()
        return min(all_of) / (1 + widest), max(all_of) * (1 + widest)


def shown(seconds):
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        measured = json.load(file)
    cores, weights = measured["cores"], measured["features"] + 1
    rows = np.logspace(5, 11, 61)
    engines = {name: Fitted(points, cores, weights) for name, points in measured["engines"].items()}
    figure, axes = plt.subplots(1, len(engines), figsize=(10, 3.6), sharey=True, squeeze=False)
    for axis, (name, fit) in zip(axes[0], engines.items()):
        start, task, row = fit.found
        print(
            f"{name}: start {1e3 * start:.1f} ms, a task {1e3 * task:.2f} ms, a row {1e9 * row:.1f} ns of a core; residuals "
            f"{100 * fit.residuals.min():+.0f} % to {100 * fit.residuals.max():+.0f} %"
        )
        for place, many in enumerate((cores, 64, 4096)):
            low, high = np.array([fit.band(n, many) for n in rows]).T
            axis.fill_between(rows, low, high, color=f"C{place}", alpha=0.2, linewidth=0)
            axis.loglog(rows, [fit.seconds(n, many) for n in rows], color=f"C{place}", label=f"{many} cores")
        points = [point for point in measured["engines"][name] if point["parts"] == 4 and point["rows"] >= rows[0]]
        axis.plot([p["rows"] for p in points], [p["pass"] for p in points], "ko", ms=4, label="measured, 2 cores")
        axis.set_title(name)
        axis.set_xlabel(f"rows of {measured['features']} numbers")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("seconds a pass of a descent")
    axes[0][-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(sys.argv[2])
    print(
        "\n| method, passes | "
        + " | ".join(f"{n:.0e} rows, {c} cores: {name}" for n, c in LARGE for name in engines)
        + " |"
    )
    # of a descent in one process, in seconds of a core
    largest = [max(points, key=lambda point: point["rows"]) for points in measured["engines"].values()]
    a_row = cores * float(np.median([point["one process"] / point["rows"] for point in largest]))
    print("|---" * (1 + len(LARGE) * len(engines)) + "|")
    for method, (passes, numbers) in METHODS.items():
        more = (measured["times a descent"].get(method, 1.0) - 1) * a_row
        cells = []
        for n, many in LARGE:
            for fit in engines.values():
                said = (n, many, more, numbers(weights))
                low, high = (passes * seconds for seconds in fit.band(*said))
                cells.append(f"{shown(passes * fit.seconds(*said))} ({shown(low)} to {shown(high)})")
        print(f"| {method}, {passes} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
