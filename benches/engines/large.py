"""Many rows through two workers in bounded memory: what a row costs in a pass, beside one process and beside Spark ML's LogisticRegression.

    python large.py DPOPT [rows] [--directory DIR] [--memory 1G] [--rounds 2] [--without-spark] [--without-one-process]

DPOPT is the command line's binary. Rows of 20 numbers are written as Parquet shards, the same bytes every time, into a directory outside of the repository, which is
removed afterwards; the disk is looked at before. In every round each takes its turn, once with few steps and once with more: the difference is time of passes alone.
Spark's LogisticRegression keeps its rows itself, as blocks in memory and on disk. It adds no noise and clips nothing, and a step of its L-BFGS may take more than one pass; it is told by iterations.

Prints seconds of whole fits, nanoseconds for a row and a pass where passes take longer than loads differ, and the largest resident memory of a worker and of the fit.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FEATURES, WORKERS, LEAST_SHARDS, SHARD = 20, 2, 8, 1_000_000
#: Bytes of a row in Parquet, encoded in a worker's file, and in Spark's storage; a fifth more has to be free.
ON_DISK = {"shards": 4 * FEATURES + 1, "workers": 12 + 8 * (FEATURES + 1), "Spark": 8 * (FEATURES + 2)}
#: Bytes of an encoded row in the memory of one process.
IN_MEMORY = 8 * (FEATURES + 1) + 24
BOUNDS = "".join(f"[x{j}]\nlower = -1\nupper = 1\n" for j in range(FEATURES)) + (
    "[y]\nlevels = ['0', '1']\n[dpopt]\nknots = 0\nfine_knots = 0\nspread = false\npairs = 'none'\n"
)


def shard(path, number, rows):
    """Writes shard `number`: uniform numbers and a label by two of them."""
    rng = np.random.default_rng(number)
    with pq.ParquetWriter(path, schema(), compression="NONE", use_dictionary=False) as writer:
        for at in range(0, rows, 100_000):
            count = min(100_000, rows - at)
            X = rng.uniform(-1, 1, (count, FEATURES)).astype(np.float32)
            y = (X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=count) > 0).astype(np.int8)
            writer.write_table(pa.table([*(pa.array(c) for c in X.T), pa.array(y)], schema=schema()))


def schema():
    return pa.schema([*((f"x{j}", pa.float32()) for j in range(FEATURES)), ("y", pa.int8())])


def written(directory, rows):
    """All shards of so many rows."""
    shards = max(LEAST_SHARDS, -(-rows // SHARD))
    ends = [rows * i // shards for i in range(shards + 1)]
    paths = [directory / f"part-{i:03}.parquet" for i in range(shards)]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(shard, paths, range(shards), [b - a for a, b in zip(ends, ends[1:])]))
    return paths


class Memory(threading.Thread):
    """Looks at the largest resident memory that a process and its children had, in bytes."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.own, self.children = process, 0, {}
        self.start()

    def run(self):
        while self.process.poll() is None:
            self.own = max(self.own, peak(self.process.pid))
            for child in children(self.process.pid):
                self.children[child] = max(self.children.get(child, 0), peak(child))
            time.sleep(0.05)


def peak(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return max((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0)


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def fitted(dpopt, directory, files, steps, flags):
    """Seconds of a fit of so many steps; its largest memory, and that of a worker."""
    said = ["--target", "y", "--epsilon", "1", "--delta", "1e-10", "--bounds", "bounds.toml", "--bad-cells", "missing"]
    said += ["--method", "noisy-gradient-descent", "--steps", str(steps), "--insecure-seed", "1", "-q", "-o"]
    started = time.perf_counter()
    process = subprocess.Popen(
        [dpopt, "fit", *map(str, files), *said, f"model-{len(flags)}.json", *flags],
        cwd=directory,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(directory)},
    )
    memory = Memory(process)
    if process.wait():
        raise SystemExit(f"a fit of {steps} steps ended with {process.returncode}")
    return time.perf_counter() - started, memory.own, max(memory.children.values(), default=0)


class Spark:
    """Rows in a Spark data frame, fitted by pyspark.ml."""

    def __init__(self, directory):
        from pyspark.ml.feature import VectorAssembler
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = session.config("spark.driver.memory", "12g").config("spark.log.level", "OFF")
        session = session.config("spark.local.dir", str(directory)).config("spark.ui.showConsoleProgress", "false")
        self.session = session.getOrCreate()
        frame = self.session.read.parquet(f"{directory}/part-*.parquet").withColumnRenamed("y", "label")
        made = VectorAssembler(inputCols=[f"x{j}" for j in range(FEATURES)], outputCol="features")
        self.frame = made.transform(frame).select("features", "label")

    def fitted(self, iterations):
        """Seconds of a fit of so many iterations, and how many there were."""
        from pyspark.ml.classification import LogisticRegression

        started = time.perf_counter()
        model = LogisticRegression(maxIter=iterations, tol=0.0, regParam=1e-4, standardization=False).fit(self.frame)
        return time.perf_counter() - started, model.summary.totalIterations


def main():
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("dpopt")
    asked.add_argument("rows", nargs="?", type=lambda text: int(float(text)), default=1_000_000)
    asked.add_argument("--directory", default=tempfile.gettempdir())
    asked.add_argument("--memory", default="1G")
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--without-spark", action="store_true")
    asked.add_argument("--without-one-process", action="store_true")
    asked = asked.parse_args()
    dpopt, rows = str(Path(asked.dpopt).resolve()), asked.rows
    needed = 1.2 * rows * sum(ON_DISK.values())
    free = shutil.disk_usage(asked.directory).free
    if free < needed:
        raise SystemExit(f"{asked.directory} has {free / 1e9:.1f} GB free, and {rows} rows need {needed / 1e9:.1f} GB")
    alone = not asked.without_one_process
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if alone and rows * IN_MEMORY > 0.5 * memory:
        print(f"one process is left out: encoded rows take {rows * IN_MEMORY / 1e9:.0f} GB of {memory / 1e9:.0f}")
        alone = False
    few, more = 2, 2 + max(5, min(100, 200_000_000 // rows))
    runs = {"workers": [], "one process": [], "Spark": []}
    wholes = {name: [] for name in runs}
    with tempfile.TemporaryDirectory(prefix="rows-", dir=asked.directory) as made:
        directory = Path(made)
        (directory / "bounds.toml").write_text(BOUNDS)
        started = time.perf_counter()
        files = written(directory, rows)
        print(f"{rows} rows x {FEATURES} in {len(files)} shards: {time.perf_counter() - started:.1f} s", flush=True)
        spark = None if asked.without_spark else Spark(directory)
        largest = {"workers": (0, 0), "one process": (0, 0)}
        flags = {"workers": ["--workers", str(WORKERS), "--memory", asked.memory], "one process": []}
        for turn in range(asked.rounds):
            for name in ("workers", "one process")[: 1 + alone]:
                (short, *_), (long, *peaks) = (
                    fitted(dpopt, directory, files, steps, flags[name]) for steps in (few, more)
                )
                largest[name] = tuple(map(max, zip(largest[name], peaks)))
                runs[name].append((long - short) / (more - few))
                wholes[name].append(long)
                loads = short - few * runs[name][-1]
                print(f"{name:11} round {turn}: loads in {loads:.1f} s, a pass {runs[name][-1]:.3f} s", flush=True)
            if spark:
                (short, first), (long, last) = spark.fitted(few), spark.fitted(more)
                if last <= first:
                    raise SystemExit(f"Spark made {first} and {last} iterations: nothing to compare")
                runs["Spark"].append((long - short) / (last - first))
                wholes["Spark"].append(long)
                loads = short - first * runs["Spark"][-1]
                print(
                    f"Spark       round {turn}: loads in {loads:.1f} s, an iteration {runs['Spark'][-1]:.3f} s",
                    flush=True,
                )
        if alone:
            models = [(directory / f"model-{len(flags[name])}.json").read_bytes() for name in flags]
            print(f"the models are {'the same bytes' if models[0] == models[1] else 'NOT THE SAME'}")
            if models[0] != models[1]:
                raise SystemExit(1)
        if spark:
            spark.session.stop()
    passes = {name: statistics.median(found) for name, found in runs.items() if found}
    for name in passes:
        print(f"{name:11} {statistics.median(wholes[name]):7.1f} s for a fit of {more} steps")
    for name, found in passes.items():
        if min(runs[name]) <= 0:
            print(f"{name:11} passes are lost in what loads differ by: more rounds, or fewer rows")
            continue
        spread = f"{min(runs[name]):.3f} to {max(runs[name]):.3f} s"
        print(f"{name:11} {1e9 * found / rows:7.1f} ns for a row and a pass (a pass {found:.3f} s; {spread})")
    for name, (own, worker) in largest.items():
        if own:
            print(f"{name:11} largest memory: the fit {own / 1e6:.0f} MB, a worker {worker / 1e6:.0f} MB")
    for name in ("one process", "Spark"):
        if name in passes:
            whole = statistics.median(wholes[name]) / statistics.median(wholes["workers"])
            print(f"ratio workers-fit-against-{name.lower().replace(' ', '-')} {whole:.2f}")
        if name in passes and min(runs[name]) > 0:
            print(f"ratio workers-pass-against-{name.lower().replace(' ', '-')} {passes[name] / passes['workers']:.2f}")


if __name__ == "__main__":
    main()
