"""Checks that every engine, method and partitioning gives the model of one process to the last bit, also with workers that die and tasks that fail.

Starts each engine on this machine. Ends with `identical N of N`; any other end is a failure.

    python check.py [--short] [dask] [ray] [spark] [connect]
"""

import argparse
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
# Ray gives its workers less of the processor than others get
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "5s")
warnings.simplefilter("ignore")

import dpopt  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.base import clone  # noqa: E402

ROWS = 20_000
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (ROWS, 4))
CLASSES = np.argmax(X[:, :3], axis=1)
TWO = (X[:, 0] > X[:, 1]).astype(int)
NUMBERS = np.where(np.arange(ROWS) % 50 == 0, np.nan, X @ [0.5, -0.3, 0.2, 0.0])
COMMON = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}
KNOWN = {"classes": [0, 1, 2], "method": dpopt.methods.NoisyGradientDescent(steps=3)}
MODELS = {
    "softmax": (dpopt.LogisticRegression(**KNOWN, **COMMON), CLASSES),
    "hinge": (dpopt.LinearSVC(**KNOWN, **COMMON), CLASSES),
    "descent": (
        dpopt.LinearRegression(target_bounds=(-1, 1), method=dpopt.methods.NoisyGradientDescent(steps=3), **COMMON),
        NUMBERS,
    ),
    "adaptive": (
        dpopt.LinearRegression(target_bounds=(-1, 1), method=dpopt.methods.AdaptiveClipDescent(steps=3), **COMMON),
        NUMBERS,
    ),
    "moments": (dpopt.LinearRegression(target_bounds=(-1, 1), method="sufficient-statistics", **COMMON), NUMBERS),
    "sampled": (dpopt.LogisticRegression(**{**KNOWN, "method": dpopt.methods.NoisySGD(steps=3)}, **COMMON), CLASSES),
    "objective": (dpopt.LogisticRegression(classes=[0, 1], method="objective-perturbation", **COMMON), TWO),
    "output": (dpopt.LogisticRegression(classes=[0, 1], method="output-perturbation", **COMMON), TWO),
    "newton": (dpopt.LogisticRegression(classes=[0, 1], method=dpopt.methods.NoisyNewton(steps=2), **COMMON), TWO),
    "precondit": (
        dpopt.LogisticRegression(classes=[0, 1], method=dpopt.methods.ReleasedPreconditioner(steps=3), **COMMON),
        TWO,
    ),
    "regularized": (
        dpopt.LogisticRegression(classes=[0, 1], method=dpopt.methods.RegularizedDescent(steps=3), **COMMON),
        TWO,
    ),
}
#: What is released without a model: of the first column.
RELEASED = {
    "quantiles": lambda data: dpopt.mechanisms.quantiles(data, [0.1, 0.5, 0.9], epsilon=1.0, insecure_seed=1).value,
    "bounds": lambda data: dpopt.mechanisms.private_bounds(data, epsilon=1.0, insecure_seed=1).value,
}
#: Sums of integers in parts and of floats in memory: the last digits differ, and the model of one part is what the others are held against.
SOLVED = ("objective", "output", "newton")
SHORT = ("softmax", "moments", "objective")
PERSONS = RNG.integers(0, 3000, ROWS)
COLOURS = np.array(["red", "green", "blue"], dtype=object)[RNG.integers(0, 3, ROWS)]
#: Everything in one table with names.
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(kind=CLASSES, number=NUMBERS, person=PERSONS, colour=COLOURS)
BY_NAME = {
    "bounds": {"a": (-1, 1), "b": (-1, 1)},
    "columns": dpopt.Columns(levels={"colour": ["red", "green", "blue"]}),
    "encoding": {"spread": False},
}
#: What is fitted besides rows of numbers with targets: the estimator, what it is given in one process, what parts are told.
MORE = {
    "mean": (dpopt.MeanEstimator(**COMMON), (X,), {}, {"features": list("abcd")}),
    "range": (
        dpopt.LinearRegression(method=dpopt.methods.NoisyGradientDescent(steps=3), **COMMON),
        (X, NUMBERS),
        {},
        {"features": list("abcd"), "target": "number"},
    ),
    "units": (
        dpopt.LogisticRegression(**KNOWN, **COMMON),
        (X, CLASSES),
        {"units": {"person": PERSONS}},
        {"features": list("abcd"), "target": "kind", "units": "person"},
    ),
    "unit mean": (
        dpopt.MeanEstimator(**COMMON),
        (X,),
        {"units": {"person": PERSONS}},
        {"features": list("abcd"), "units": "person"},
    ),
    "table": (
        dpopt.LogisticRegression(**{**COMMON, **KNOWN, **BY_NAME}),
        (FRAME[["a", "b", "colour"]], FRAME["kind"]),
        {},
        {"features": ["a", "b", "colour"], "target": "kind"},
    ),
}
#: Part boundaries: 1, 2 and 7 parts, of which one is empty.
CUTS = {1: [ROWS], 2: [7000, ROWS], 7: [1, 3000, 3000, 9000, 15_000, 19_999, ROWS]}


class Tally:
    """What was the same."""

    def __init__(self):
        self.of = self.identical = 0
        self.whole = {
            name: clone(model).fit(dpopt.partitions.Here([(X, y)])) if name in SOLVED else clone(model).fit(X, y)
            for name, (model, y) in MODELS.items()
        }
        for name, (model, given, said, _) in MORE.items():
            self.whole[name] = clone(model).fit(*given, **said)
        for name, release in RELEASED.items():
            self.whole[name] = release(X[:, :1])

    def methods(self, engine, names, parts):
        """Every method and what is released without one, in 1, 2 and 7 parts: of targets (or none), boundaries and so many columns `parts` makes them."""
        for count, cuts in CUTS.items():
            for name in names:
                self.fit(engine, name, parts(MODELS[name][1], cuts, 4), f"{count} parts")
            self.fit(engine, "mean", parts(None, cuts, 4), f"{count} parts")
            for name, release in RELEASED.items():
                column = parts(None, cuts, 1)
                self.count(engine, name, column, f"{count} parts", lambda: release(column), self.same_value)

    def same_value(self, name, value):
        return np.array_equal(value, self.whole[name])

    def same_model(self, name, model):
        released = ("mean_",) if hasattr(model, "mean_") else ("coef_", "intercept_")
        return all(np.array_equal(getattr(model, a), getattr(self.whole[name], a)) for a in released)

    def more(self, engine, names, parts):
        """Means, ranges, units and columns by name, of the parts that `parts` makes of the table with names."""
        for name in MORE if set(names) >= set(MODELS) else ("mean", "units", "table"):
            self.fit(engine, name, parts(**MORE[name][3]), "a table with names")

    def fit(self, engine, name, parts, what, after=None):
        """Fits `parts` and compares; `after`: what happens between the passes, with the number of the pass."""
        model = clone((MODELS if name in MODELS else MORE)[name][0])
        if after is not None:
            asked = parts.ask_partitions

            def asking(message):
                after(len(parts.seconds))
                return asked(message)

            parts.ask_partitions = asking
        return self.count(engine, name, parts, what, lambda: model.fit(parts), self.same_model)

    def count(self, engine, name, parts, what, run, same):
        """Runs, compares, counts and tells; what came out."""
        started = time.perf_counter()
        found = run()
        seconds = time.perf_counter() - started
        identical = same(name, found)
        self.of += 1
        self.identical += identical
        a_pass = statistics.median(parts.seconds)
        print(
            f"{engine:6} {name:11} {what:34} passes {len(parts.seconds):2}  {a_pass:6.3f} s each, {seconds:5.1f} s in all  "
            f"{'identical' if identical else 'DIFFERS'}",
            flush=True,
        )
        return found


def blocks(y, cuts, columns=4):
    """Rows and targets, if there are some, of each part."""
    return [(X[a:b, :columns], None if y is None else y[a:b]) for a, b in zip([0, *cuts[:-1]], cuts)]


def refused(engine, tally, fit):
    """Counts a fit of ids that cannot be known again elsewhere, which has to end in a sentence without a value."""
    said = "nothing"
    try:
        fit()
    except Exception as why:
        said = f"{type(why).__name__}: {why} {why.__cause__} {why.__context__}"
    fixed = "neither text nor numbers" in said and "secret" not in said
    tally.of, tally.identical = tally.of + 1, tally.identical + fixed
    print(f"{engine:6} ids that are tuples are {'refused' if fixed else 'NOT REFUSED IN A FIXED SENTENCE'}", flush=True)


def on_dask(tally, names):
    import dask
    import dask.array as da
    import dask.dataframe as dd
    from dask import delayed
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    client = Client(n_workers=2, threads_per_worker=1, dashboard_address=None)

    def parts(y, cuts, columns=4):
        def array(some):
            return da.concatenate([da.from_delayed(delayed(block), block.shape, block.dtype) for block in some])

        rows, targets = zip(*blocks(y, cuts, columns))
        return dpopt.dask.partitions(array(rows), None if y is None else array(targets))

    tally.methods("dask", names, parts)

    def kill(at):
        if at == 2:
            worker = next(iter(client.scheduler_info()["workers"]))
            pid = client.run(os.getpid, workers=[worker])[worker]
            os.kill(pid, signal.SIGKILL)

    for name in ("softmax", "sampled"):
        tally.fit("dask", name, parts(CLASSES, CUTS[7]), "a worker is killed between passes", kill)
    frame = dd.from_pandas(FRAME, npartitions=3)
    tally.more("dask", names, lambda **said: dpopt.dask.partitions(frame, **said))
    numbers = dd.from_pandas(FRAME[[*"abcd", "kind"]], npartitions=3)
    model = tally.fit("dask", "softmax", dpopt.dask.partitions(numbers, target="kind"), "a data frame")
    assert list(model.feature_names_in_) == list("abcd")
    # objects of several types in one column, that no shuffle may convert or show
    with dask.config.set({"dataframe.convert-string": False}):
        labels = CLASSES.astype(object)
        labels[::2] = labels[::2].astype(str)
        mixed = dd.from_pandas(FRAME.assign(kind=labels), npartitions=3)
        classes = {"classes": ["0", "1", "2"], "steps": 3}
        model = clone(MORE["units"][0]).set_params(**classes)
        whole = clone(model).fit(dpopt.partitions.Here([(X, labels, PERSONS)], units="person"))
        model.fit(dpopt.dask.partitions(mixed, **MORE["units"][3]))
        same = np.array_equal(model.coef_, whole.coef_) and np.abs(model.coef_).sum() > 0
        tally.of, tally.identical = tally.of + 1, tally.identical + same
        print(f"dask   labels of two types in one column: {'identical' if same else 'DIFFERS'}", flush=True)
        odd = dd.from_pandas(FRAME.assign(person=[("secret", i) for i in PERSONS]), npartitions=3)
        refused("dask", tally, lambda: MORE["units"][0].fit(dpopt.dask.partitions(odd, **MORE["units"][3])))
    # a worker that was killed takes its time to be forgotten
    client.close(timeout=60)


def on_ray(tally, names):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)

    def parts(y, cuts, columns=4):
        frames = [pd.DataFrame(x, columns=list("abcd")[:columns]) for x, _ in blocks(y, cuts, columns)]
        if y is None:
            return dpopt.ray.partitions(ray.data.from_pandas(frames))
        frames = [frame.assign(y=targets) for frame, (_, targets) in zip(frames, blocks(y, cuts))]
        return dpopt.ray.partitions(ray.data.from_pandas(frames), target="y")

    tally.methods("ray", names, parts)
    for name in ("softmax", "sampled"):
        dying = parts(CLASSES, CUTS[7])

        def kill(at, dying=dying):
            if at == 2:
                ray.kill(dying._holders[0], no_restart=False)

        tally.fit("ray", name, dying, "an actor is killed between passes", kill)
    dataset = ray.data.from_pandas([FRAME[a:b] for a, b in zip([0, *CUTS[7][:-1]], CUTS[7]) if a < b])
    tally.more("ray", names, lambda **said: dpopt.ray.partitions(dataset, **said))
    ray.shutdown()


def on_spark(tally, names):
    import pyarrow as pa
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    # a task may fail four times
    spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.log.level", "OFF").config("spark.ui.showConsoleProgress", "false").getOrCreate()

    def frame(y, cuts):
        """The blocks as partitions, the empty one too."""
        bounds = list(zip([0, *cuts[:-1]], cuts))
        rows = np.column_stack([X, y])

        def block(batches):
            for batch in batches:
                for part in batch.column(0).to_pylist():
                    a, b = bounds[part]
                    columns = [pa.array(rows[a:b, j]) for j in range(5)]
                    yield pa.RecordBatch.from_arrays(columns, list("abcd") + ["y"])

        numbers = spark.range(0, len(cuts), 1, numPartitions=len(cuts))
        return numbers.mapInArrow(block, "a double, b double, c double, d double, y double")

    def parts(y, cuts, columns=4):
        if y is None:
            return dpopt.spark.partitions(frame(TWO, cuts), features=list("abcd")[:columns])
        return dpopt.spark.partitions(frame(y, cuts), target="y")

    tally.methods("spark", names, parts)

    named = spark.createDataFrame(FRAME).repartition(3).cache()
    tally.more("spark", names, lambda **said: dpopt.spark.partitions(named, **said))

    # partitions in many parts, none of which ends within a person
    most, dpopt.spark.MAX_NUMBERS = dpopt.spark.MAX_NUMBERS, 4 * 700
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    for name in ("units", "unit mean", "mean", "table"):
        many = dpopt.spark.partitions(named, **MORE[name][3])
        tally.fit("spark", name, many, "partitions of many parts")
        assert len(many._numbers) > 15, f"{len(many._numbers)} parts"
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    dpopt.spark.MAX_NUMBERS = most

    # the first attempt of every task of a pass dies after it has read its partition
    marks = tempfile.mkdtemp()
    answered = dpopt.spark._answered

    def failing(batches, numbers, message):
        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        mark = Path(marks) / f"{part}-{len(message)}-{hash(message)}"
        answers = list(answered(batches, numbers, message))
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from answers

    dpopt.spark._answered = failing
    for name in ("softmax", "sampled"):
        tally.fit(
            "spark", name, dpopt.spark.partitions(frame(CLASSES, CUTS[2]), target="y"), "first attempts are killed"
        )
    dpopt.spark._answered = answered
    killed = len(list(Path(marks).iterdir()))
    assert killed >= 4, f"{killed} tasks were killed"

    vectors = VectorAssembler(inputCols=list("abcd"), outputCol="features").transform(frame(CLASSES, CUTS[7]))
    estimator = dpopt.spark.SparkLogisticRegression(labelCol="y", **KNOWN, **COMMON)
    found = estimator.fit(vectors)
    same = np.array_equal(found.model.coef_, tally.whole["softmax"].coef_)
    tally.of, tally.identical = tally.of + 1, tally.identical + same
    hits = found.transform(vectors).select(F.avg((F.col("prediction") == F.col("y")).cast("double"))).first()[0]
    here = np.mean(tally.whole["softmax"].predict(X) == CLASSES)
    print(f"spark  pyspark.ml, vectors: {'identical' if same else 'DIFFERS'}; accuracy {hits:.4f}, here {here:.4f}")
    assert abs(hits - here) < 1e-12
    centred = dpopt.spark.SparkMean(inputCol=list("abcd"), **COMMON).fit(named)
    same = np.array_equal(centred.model.mean_, tally.whole["mean"].mean_)
    tally.of, tally.identical = tally.of + 1, tally.identical + same
    first = np.array(centred.transform(named).select("a", "b", "c", "d", "centred").first()[4])
    print(f"spark  pyspark.ml, SparkMean: {'identical' if same else 'DIFFERS'}")
    assert first.shape == (4,) and np.isfinite(first).all()
    spark.stop()


def on_connect(tally, names):
    """Spark Connect, which has no RDDs; in a process of its own, since one process has one kind of session."""
    if os.environ.get("SPARK_CONNECT_INSIDE") is None:
        inside = {**os.environ, "SPARK_CONNECT_INSIDE": "1"}
        run = subprocess.run([sys.executable, __file__, "connect"], env=inside, stdout=subprocess.PIPE, text=True)
        *lines, last = run.stdout.strip().splitlines() or ["identical 0 of 1"]
        print("\n".join(lines), flush=True)
        words = last.split()
        tally.identical, tally.of = tally.identical + int(words[1]), tally.of + int(words[3])
        return
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    frame = spark.createDataFrame(FRAME).repartition(3).cache()
    numbers = frame.select(*"abcd", "kind")
    tally.fit("spark", "softmax", dpopt.spark.partitions(numbers, target="kind"), "Spark Connect, 3 parts")
    tally.fit("spark", "units", dpopt.spark.partitions(frame, **MORE["units"][3]), "Spark Connect, units")
    spark.stop()


ENGINES = {"dask": on_dask, "ray": on_ray, "spark": on_spark, "connect": on_connect}


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("engines", nargs="*", choices=[*ENGINES, []])
    asked.add_argument("--short", action="store_true", help=f"{len(SHORT)} methods of {len(MODELS)}")
    asked = asked.parse_args()
    tally = Tally()
    names = SHORT if asked.short else tuple(MODELS)
    for engine in asked.engines or ENGINES:
        ENGINES[engine](tally, names)
    print(f"identical {tally.identical} of {tally.of}")
    return 0 if tally.of and tally.identical == tally.of else 1


if __name__ == "__main__":
    raise SystemExit(main())
