"""What a pass costs on each engine, in turn in one run: rows that are made where they lie, and one process as the peer.

    python run.py [rows] [dask] [ray] [spark] [--out FILE]

Prints seconds of loading and of a pass, and lines `ratio NAME VALUE`: how many times the limit of what a pass may cost beyond the rows'
own time (.3 s on Dask and Ray, 2 s on Spark) is above what was measured; and one process's time over the engine's with two workers.
"""

import json
import os
import statistics
import sys
import time
import warnings

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
warnings.simplefilter("ignore")

import dpopt  # noqa: E402
import numpy as np  # noqa: E402
from dpopt.parts import Here  # noqa: E402

FEATURES, PARTS, STEPS = 20, 4, 12
LIMITS = {"dask": 0.3, "ray": 0.3, "spark": 2.0}


def block(part, rows):
    """Rows and labels of a part, from its number."""
    rng = np.random.default_rng(part)
    X = rng.uniform(-1, 1, (rows, FEATURES))
    return X, (X[:, 0] + 0.3 * rng.normal(size=rows) > 0).astype(float)


def model():
    return dpopt.LogisticRegression(
        1.0, 1e-9, bounds=(-1, 1), classes=[0, 1], method="noisy-gradient-descent", steps=STEPS, insecure_seed=1
    )


def fitted(parts):
    started = time.perf_counter()
    found = model().fit(parts)
    whole = time.perf_counter() - started
    return found, statistics.median(parts.seconds), whole - sum(parts.seconds)


def here(rows):
    return Here([block(part, rows) for part in range(PARTS)])


def on_dask(rows):
    import dask.array as da
    from dask import delayed
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        made = [delayed(block)(part, rows) for part in range(PARTS)]
        X = da.concatenate([da.from_delayed(m[0], (rows, FEATURES), float) for m in made])
        y = da.concatenate([da.from_delayed(m[1], (rows,), float) for m in made])
        return fitted(dpopt.dask.parts(X, y))


def on_ray(rows):
    import logging

    import pyarrow as pa
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    names = [f"x{j}" for j in range(FEATURES)]

    @ray.remote
    def table(part):
        X, y = block(part, rows)
        return pa.table([*X.T, y], names=[*names, "y"])

    found = fitted(dpopt.ray.parts(ray.data.from_arrow_refs([table.remote(p) for p in range(PARTS)]), target="y"))
    ray.shutdown()
    return found


def on_spark(rows):
    import pyarrow as pa
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.driver.memory", "6g").config("spark.log.level", "OFF")
    spark = spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    names = [f"x{j}" for j in range(FEATURES)]

    def made(batches):
        for batch in batches:
            for part in batch.column(0).to_pylist():
                X, y = block(part, rows)
                for at in range(0, rows, 100_000):
                    yield pa.RecordBatch.from_arrays([pa.array(c[at : at + 100_000]) for c in [*X.T, y]], [*names, "y"])

    frame = spark.range(0, PARTS, 1, numPartitions=PARTS).mapInArrow(
        made, ", ".join(f"{n} double" for n in [*names, "y"])
    )
    found = fitted(dpopt.spark.parts(frame, target="y"))
    spark.stop()
    return found


def main():
    asked = sys.argv[1:]
    out = None
    if "--out" in asked:
        place = asked.index("--out")
        out = asked[place + 1]
        del asked[place : place + 2]
    rows = int(float(asked.pop(0))) if asked and asked[0][0].isdigit() else 1_000_000
    engines = asked or ["dask", "ray", "spark"]
    each = rows // PARTS
    lines = []
    peer, alone, load = fitted(here(each))
    measured = {"rows": rows, "features": FEATURES, "one process": {"load": load, "pass": alone}}
    print(f"{'one process':12} {rows} rows x {FEATURES}: loads in {load:6.2f} s, a pass {alone:7.4f} s", flush=True)
    for engine in engines:
        run = {"dask": on_dask, "ray": on_ray, "spark": on_spark}[engine]
        # a table with next to no rows: what a pass costs by itself
        _, empty, _ = run(10)
        found, a_pass, load = run(each)
        same = np.array_equal(found.coef_, peer.coef_)
        print(
            f"{engine:12} {rows} rows x {FEATURES}: loads in {load:6.2f} s, a pass {a_pass:7.4f} s, without rows {empty:7.4f} s; "
            f"{'the same model' if same else 'ANOTHER MODEL'}",
            flush=True,
        )
        measured[engine] = {"load": load, "pass": a_pass, "without rows": empty}
        lines += [f"ratio {engine}-overhead-within-{LIMITS[engine]}s {LIMITS[engine] / empty:.1f}"]
        lines += [f"ratio {engine}-pass-against-one-process {alone / a_pass:.2f}"]
    print("\n".join(lines))
    if out:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(measured, file, indent=1)


if __name__ == "__main__":
    main()
