"""Files of a table of 20 columns by the command line, beside polars; one thread each."""

import contextlib
import pathlib
import tempfile

import numpy as np
import polars
from timing import COMMAND, in_turn, rate, run

COLUMNS = 20
#: Rows of the table that is read as quickly as can be; and of the others, whose megabytes in a second are the same and would take minutes.
MANY, FEWER = 1_000_000, 250_000
BOUNDS = "[y]\nlevels = ['no', 'yes']\n" + "".join(f"[c{j}]\nlower = -6\nupper = 6\n" for j in range(COLUMNS))
FIT = ("--target", "y", "--epsilon", 1, "--delta", 1e-7)
ONE_STEP = ("--method", "noisy-gradient-descent", "--steps", 1, "--calibration", 0)


@contextlib.contextmanager
def table(rows):
    """A folder with data.csv, data.parquet and bounds.toml, and megabytes of the CSV file."""
    random = np.random.default_rng(0)
    columns = {f"c{j}": random.standard_normal(rows).round(5) for j in range(COLUMNS)}
    columns["y"] = np.where(columns["c0"] + random.logistic(size=rows) > 0, "yes", "no")
    with tempfile.TemporaryDirectory(prefix="dpopt-bench-") as name:
        folder = pathlib.Path(name)
        frame = polars.DataFrame(columns)
        frame.write_csv(folder / "data.csv")
        frame.write_parquet(folder / "data.parquet")
        (folder / "bounds.toml").write_text(BOUNDS)
        (folder / "linear.toml").write_text(BOUNDS + "[dpopt]\nknots = 0\nfine_knots = 0\npairs = 'none'\n")
        yield folder, (folder / "data.csv").stat().st_size / 1e6


def fitted(folder, data, bounds="linear.toml"):
    return lambda: run(COMMAND, "fit", data, *FIT, *ONE_STEP, "--bounds", bounds, "-o", "model.json", cwd=folder)


def csv_group():
    with table(MANY) as (folder, megabytes):
        told = in_turn(fitted(folder, "data.csv"), lambda: polars.read_csv(folder / "data.csv"), rounds=3)
        yield "csv-MB-s", rate(told, megabytes)
        yield "csv-over-polars", told
    with table(FEWER) as (folder, megabytes):
        reading = lambda: polars.read_csv(folder / "data.csv")
        yield "csv-splines-MB-s", rate(in_turn(fitted(folder, "data.csv", "bounds.toml"), reading, rounds=3), megabytes)


def parquet_group():
    with table(MANY) as (folder, _):
        told = in_turn(fitted(folder, "data.parquet"), lambda: polars.read_parquet(folder / "data.parquet"), rounds=5)
    yield "parquet-over-polars", told


def tools_group():
    with table(FEWER) as (folder, megabytes):
        fitted(folder, "data.csv")()
        data, reading = folder / "data.csv", lambda: polars.read_csv(folder / "data.csv")

        def parted():
            frame = polars.read_csv(data)
            frame[: FEWER * 4 // 5].write_csv(folder / "a.csv")
            frame[FEWER * 4 // 5 :].write_csv(folder / "b.csv")

        split = lambda: run(COMMAND, "split", data, "--fraction", 0.8, "--seed", 1, "-o", "a.csv", "b.csv", cwd=folder)
        yield "split-MB-s", rate(in_turn(split, parted), megabytes)
        predict = lambda: run(COMMAND, "predict", "model.json", data, "-o", "out.csv", cwd=folder)
        yield "predict-MB-s", rate(in_turn(predict, reading), megabytes)
        evaluate = lambda: run(COMMAND, "evaluate", "model.json", data, cwd=folder)
        yield "evaluate-MB-s", rate(in_turn(evaluate, reading), megabytes)
