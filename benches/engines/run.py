"""What a pass costs on each engine, in turn in one run: rows that are made where they lie, and one process as the peer.

    python run.py [dask] [ray] [spark] [--out FILE]

Each engine is asked with several numbers of rows and of parts, and before and after it one process with the same rows. Prints seconds of loading and of a pass, and
lines `ratio NAME VALUE`: how many times the limit of what a pass may cost beyond the rows' own time (.3 s on Dask and Ray, 2 s on Spark) is above what was
measured; and one process's time over the engine's with two workers.
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
# Ray gives its workers less of the processor than others get
os.environ.setdefault("RAY_worker_niceness", "0")
warnings.simplefilter("ignore")

import dpopt  # noqa: E402
import numpy as np  # noqa: E402
from dpopt.partitions import Here  # noqa: E402

FEATURES, STEPS, FULL = 20, 12, 1_000_000
LIMITS = {"dask": 0.3, "ray": 0.3, "spark": 2.0}
#: Rows in all and parts. The first three have next to no rows.
POINTS = [(40, 4), (160, 16), (640, 64), (100_000, 4), (FULL, 4), (FULL, 16), (3_000_000, 4)]


def block(part, rows):
    """Rows and labels of a part, from its number."""
    rng = np.random.default_rng(part)
    X = rng.uniform(-1, 1, (rows, FEATURES))
    return X, (X[:, 0] + 0.3 * rng.normal(size=rows) > 0).astype(float)


def model(method="noisy-gradient-descent", **more):
    if method == "noisy-gradient-descent":
        method = dpopt.methods.NoisyGradientDescent(steps=STEPS)
    facts = {"bounds": (-1, 1), "classes": [0, 1], "encoding": None}
    return dpopt.LogisticRegression(1.0, 1e-9, **facts, method=method, insecure_seed=1, **more)


def fitted(parts, **more):
    """The model, seconds of a pass (the median, the first and last of the middle half), seconds of all else."""
    started = time.perf_counter()
    found = model(**more).fit(parts)
    whole = time.perf_counter() - started
    quarters = statistics.quantiles(parts.seconds, n=4)
    return found, statistics.median(parts.seconds), (quarters[0], quarters[2]), whole - sum(parts.seconds)


def here(parts, each):
    return Here([block(part, each) for part in range(parts)])


class OnDask:
    def __init__(self):
        from distributed import Client

        self.client = Client(n_workers=2, threads_per_worker=1, dashboard_address=None)

    def parts(self, parts, each):
        import dask.array as da
        from dask import delayed

        made = [delayed(block)(part, each) for part in range(parts)]
        X = da.concatenate([da.from_delayed(m[0], (each, FEATURES), float) for m in made])
        y = da.concatenate([da.from_delayed(m[1], (each,), float) for m in made])
        return dpopt.dask.partitions(X, y)

    def close(self):
        self.client.close()


class OnRay:
    def __init__(self):
        import logging

        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray.data").setLevel(logging.ERROR)

    def parts(self, parts, each):
        import pyarrow as pa
        import ray

        names = [f"x{j}" for j in range(FEATURES)]

        @ray.remote
        def table(part):
            X, y = block(part, each)
            return pa.table([*X.T, y], names=[*names, "y"])

        return dpopt.ray.partitions(ray.data.from_arrow_refs([table.remote(p) for p in range(parts)]), target="y")

    def close(self):
        import ray

        ray.shutdown()


class OnSpark:
    def __init__(self):
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = spark.config("spark.driver.memory", "6g").config("spark.log.level", "OFF")
        self.spark = spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()

    def parts(self, parts, each):
        import pyarrow as pa

        names = [f"x{j}" for j in range(FEATURES)]

        def made(batches):
            for batch in batches:
                for part in batch.column(0).to_pylist():
                    X, y = block(part, each)
                    for at in range(0, each, 100_000):
                        columns = [pa.array(c[at : at + 100_000]) for c in [*X.T, y]]
                        yield pa.RecordBatch.from_arrays(columns, [*names, "y"])

        numbers = self.spark.range(0, parts, 1, numPartitions=parts)
        frame = numbers.mapInArrow(made, ", ".join(f"{n} double" for n in [*names, "y"]))
        return dpopt.spark.partitions(frame, target="y")

    def close(self):
        self.spark.stop()


ENGINES = {"dask": OnDask, "ray": OnRay, "spark": OnSpark}


def measured(name):
    """What one engine took, point by point, and one process beside it."""
    engine = ENGINES[name]()
    points = []
    try:
        for rows, parts in POINTS:
            each = rows // parts
            peer, before, *_ = fitted(here(parts, each))
            found, a_pass, middle, load = fitted(engine.parts(parts, each))
            _, after, _, alone = fitted(here(parts, each))
            same = np.array_equal(found.coef_, peer.coef_)
            one = (before + after) / 2
            print(
                f"{name:6} {rows:8} rows in {parts:2} parts: loads in {load:6.2f} s, a pass {a_pass:7.4f} s; one process {alone:6.2f} s, {one:7.4f} s; "
                f"{'the same model' if same else 'ANOTHER MODEL'}",
                flush=True,
            )
            if not same:
                raise SystemExit(1)
            points.append(
                {"rows": rows, "parts": parts, "pass": a_pass, "middle half": middle, "load": load, "one process": one, "one process loads": alone}
            )  # fmt: skip
    finally:
        engine.close()
    return points


def other_methods():
    """What a pass of other methods takes of a row, in times of a descent's, in one process."""
    parts, each = 4, 50_000
    took = {}
    for method in ("noisy-gradient-descent", "output-perturbation", "noisy-newton", "noisy-gradient-descent"):
        took.setdefault(method, []).append(fitted(here(parts, each), method=method)[1])
    descent = statistics.mean(took.pop("noisy-gradient-descent"))
    return {method: statistics.mean(seconds) / descent for method, seconds in took.items()}


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("engines", nargs="*", choices=[*ENGINES, []])
    asked.add_argument("--out")
    asked = asked.parse_args()
    found = {"features": FEATURES, "cores": 2, "engines": {}, "times a descent": other_methods()}
    for method, times in found["times a descent"].items():
        print(f"a pass of {method} takes {times:.1f} times that of a descent", flush=True)
    for name in asked.engines or ENGINES:
        found["engines"][name] = measured(name)
    for name, points in found["engines"].items():
        at = {(point["rows"], point["parts"]): point for point in points}
        print(f"ratio {name}-overhead-within-{LIMITS[name]}s {LIMITS[name] / at[POINTS[0]]['pass']:.1f}")
        whole = at[FULL, 4]
        print(f"ratio {name}-pass-against-one-process {whole['one process'] / whole['pass']:.2f}")
    if asked.out:
        with open(asked.out, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
