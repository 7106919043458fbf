"""What a pass is expected to cost, from what was measured on one machine: `python picture.py measured.json picture.svg`.

Seconds of a pass = those of a pass without rows + rows·(time of a row)/(cores), where the time of a row is the measured one times the two
cores it was measured on. Assumed: rows in memory, as many parts as cores, cores as fast as those measured, a driver that receives 8 bytes
for each weight and part and is not what limits. None of that was tested on a cluster.
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

CORES = 2


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        measured = json.load(file)
    rows = np.logspace(5, 11, 61)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True)
    for axis, engine in zip(axes, ("dask", "ray", "spark")):
        found = measured[engine]
        a_row = CORES * max(found["pass"] - found["without rows"], 0) / measured["rows"]
        print(f"{engine}: {1e9 * a_row:.0f} ns for a row and core, {found['without rows']:.3f} s without rows")
        for cores in (2, 32, 512):
            seconds = found["without rows"] + rows * a_row / cores
            axis.loglog(rows, seconds, label=f"{cores} cores")
            for n in (1e9, 1e11):
                print(f"  {n:.0e} rows on {cores} cores: {found['without rows'] + n * a_row / cores:.3g} s a pass")
        axis.plot([measured["rows"]], [found["pass"]], "ko", ms=4, label="measured")
        axis.set_title(engine)
        axis.set_xlabel(f"rows of {measured['features']} numbers")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds a pass")
    axes[-1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(sys.argv[2])


if __name__ == "__main__":
    main()
