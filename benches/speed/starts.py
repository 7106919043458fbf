"""What a new process takes: the command line, explain, the import of the package; beside Python's start and scikit-learn's import."""

import pathlib
import sys
import tempfile

from lines import Found
from timing import COMMAND, found, in_turn, run, scaled, seconds

ROWS, COLUMNS = 20_000, 20


def python(code):
    return lambda: run(sys.executable, "-c", code)


def table(folder):
    names = [f"c{j}" for j in range(COLUMNS)]
    rows = "".join(
        ",".join(str((i * 7919 + j * 104729) % 1000) for j in range(COLUMNS)) + f",{i % 2}\n" for i in range(ROWS)
    )
    (folder / "data.csv").write_text(",".join([*names, "y"]) + "\n" + rows)
    bounds = "[y]\nlevels = ['0', '1']\n" + "".join(f"[{name}]\nlower = 0\nupper = 1000\n" for name in names)
    (folder / "bounds.toml").write_text(bounds)


def start_group():
    nothing = lambda: run(sys.executable, "-I", "-S", "-c", "pass")
    yield "command-start-ms", scaled(in_turn(lambda: run(COMMAND, "--version"), nothing, rounds=41), 1e3)
    explain = (COMMAND, "explain", "--epsilon", 1)
    shape = lambda: run(*explain, "--rows", 50_000, "--features", 100)
    yield "explain-cold-ms", scaled(in_turn(shape, nothing, rounds=21), 1e3)
    with tempfile.TemporaryDirectory(prefix="dpopt-bench-") as name:
        folder = pathlib.Path(name)
        table(folder)
        of_table = lambda: run(*explain, "data.csv", "--target", "y", "--bounds", "bounds.toml", cwd=folder)
        yield "explain-table-cold-ms", scaled(in_turn(of_table, nothing, rounds=21), 1e3)
    whole, peer = python("import dpopt"), python("import sklearn.linear_model")
    whole(), peer()
    pairs = [(seconds(whole), seconds(peer)) for _ in range(7)]
    told = found([a for a, _ in pairs], [b for _, b in pairs])
    # what dpopt adds; the cost is of the whole import, whose noise is smaller
    yield "import-over-sklearn-ms", Found(1e3 * (told.ours - told.peer), 1e3 * told.peer, told.cost)
