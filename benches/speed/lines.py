"""The lines of `make bench`: what is measured, beside whom, by which limit, and the resource that binds."""

from __future__ import annotations

from dataclasses import dataclass

#: A ratio that is worse by more than this than the recorded one is a regression.
TOLERANCE = 0.15


@dataclass(frozen=True)
class Line:
    """One number.

    `shows` says how ours and the peer's, measured in turn in one run in `unit`, become the number:
    "over": ours ÷ peer, smaller is better; "speed-up": peer ÷ ours, larger is better; "time": ours alone, smaller is better; "rate": ours alone, larger is
    better. Whatever it shows, runs are compared by the *cost*: ours ÷ peer of times, peer ÷ ours of rates; smaller is better.
    """

    name: str
    group: str
    what: str
    peer: str
    shows: str
    limit: float
    resource: str
    unit: str = "s"

    @property
    def larger_is_better(self) -> bool:
        return self.shows in ("speed-up", "rate")

    @property
    def direction(self) -> str:
        return "larger is better" if self.larger_is_better else "smaller is better"

    def value(self, found: Found) -> float:
        if self.shows in ("time", "rate"):
            return found.ours
        return 1 / found.cost if self.shows == "speed-up" else found.cost

    def within(self, found: Found) -> bool:
        value = self.value(found)
        return value >= self.limit if self.larger_is_better else value <= self.limit


@dataclass(frozen=True)
class Found:
    """A measurement of a line: medians of ours and the peer's in the line's unit, and the median over rounds of their cost."""

    ours: float
    peer: float
    cost: float

    def worse_than(self, before: Found) -> bool:
        return self.cost > before.cost * (1 + TOLERANCE)


@dataclass(frozen=True)
class Group:
    """Lines that one process measures: what is done, in so many threads and at most so many seconds, with these packages."""

    name: str
    module: str
    seconds: int
    packages: tuple[str, ...] = ()
    threads: int = 1


GROUPS = [
    Group("pass", "matrices", 45, ("numpy",)),
    Group("fit", "matrices", 60, ("numpy", "sklearn")),
    Group("classes", "matrices", 60, ("numpy", "sklearn")),
    Group("statistics", "matrices", 30, ("numpy",)),
    Group("sparse", "matrices", 60, ("numpy", "scipy", "sklearn")),
    Group("noise", "noise", 40, ("numpy",)),
    Group("noise-two", "noise", 30, ("numpy",), threads=2),
    Group("noise-opendp", "noise", 30, ("numpy", "opendp")),
    Group("noise-torch", "noise", 60, ("numpy", "torch")),
    Group("csv", "tables", 60, ("numpy", "polars")),
    Group("parquet", "tables", 45, ("numpy", "polars", "pyarrow")),
    Group("tools", "tables", 60, ("numpy", "polars")),
    Group("steps", "accounts", 30, ("dp_accounting",)),
    Group("settings", "accounts", 60, ("dp_accounting",)),
    Group("curve", "accounts", 30, ("dp_accounting",)),
    Group("start", "starts", 40, ("sklearn",)),
    Group("torch", "networks", 60, ("numpy", "torch", "opacus")),
]

ADDITIONS = "multiplications and additions of integers"
PRODUCTS = "multiplications and additions"
WORDS = "random words"
PARSING = "parsing"
MEMORY = "fresh memory and copies"
CACHE = "cache misses"
FORMULAS = "exponentials of the lattice"
LOADING = "loading of files and pages"

LINES = [
    Line("pass-over-reading", "pass", "a clipped pass over 10⁶ × 100 numbers of f32, an entry", "reading them once", "over", 5, ADDITIONS, "ns"),
    Line("pass-ns", "pass", "the same pass, nanoseconds an entry", "reading them once", "time", 0.8, ADDITIONS, "ns"),
    Line("pass-over-numpy", "pass", "the same pass", "NumPy: X @ w and X.T @ g in f32", "over", 1.0, ADDITIONS, "ns"),
    Line("fit-over-lbfgs", "fit", "default logistic fit of 2·10⁵ × 100, objective perturbation", "scikit-learn, lbfgs", "over", 5, PRODUCTS),
    Line("classes-s", "classes", "ten classes, 10⁵ × 64, 80 passes", "scikit-learn, lbfgs", "time", 2.5, PRODUCTS, "s"),
    Line("classes-over-lbfgs", "classes", "the same fit of ten classes", "scikit-learn, lbfgs", "over", 5, PRODUCTS),
    Line("statistics-over-normal-equations", "statistics", "sufficient statistics of 10⁵ × 100, released", "NumPy: X.T @ X and X.T @ y in f32, solved", "over", 2, "multiplications and additions, copies of rows"),
    Line("statistics-over-lstsq", "statistics", "the same release", "NumPy: lstsq in f32", "over", 1, "multiplications and additions, copies of rows"),
    Line("sparse-step-over-sgd", "sparse", "noisy-sgd on 10⁵ × 10⁶ with 50 non-zeros a row of log-uniform ranks, a record", "scikit-learn, SGDClassifier, a record", "over", 1.5, CACHE, "ns"),
    Line("sparse-uniform-step-over-sgd", "sparse", "the same where all columns are as likely", "scikit-learn, SGDClassifier, a record", "over", 1.5, CACHE, "ns"),
    Line("noise-kernel-speed-up", "noise", "Gaussian noise in the kernel, a number", "NumPy: standard_normal in f32", "speed-up", 4, WORDS, "ns"),
    Line("noise-kernel-two-threads-speed-up", "noise-two", "Gaussian noise in the kernel on two threads, a number", "NumPy: standard_normal in f32, one thread", "speed-up", 7, WORDS, "ns"),
    Line("release-over-kernel", "noise", "Gaussian release of 10⁷ numbers in Python, a number", "the kernel's noise", "over", 1.3, MEMORY, "ns"),
    Line("release-speed-up", "noise", "the same release", "NumPy: standard_normal in f32", "speed-up", 3, MEMORY, "ns"),
    Line("release-speed-up-over-opendp", "noise-opendp", "the same release", "OpenDP: make_gaussian of a vector, a number", "speed-up", 1, MEMORY, "ns"),
    Line("release-speed-up-over-torch", "noise-torch", "the same release", "PyTorch: randn in f32, a number", "speed-up", 1, MEMORY, "ns"),
    Line("csv-MB-s", "csv", "CSV of 20 numbers a row: read, encoded as linear terms, one step", "polars, read_csv", "rate", 500, PARSING, "MB/s"),
    Line("csv-over-polars", "csv", "the same fit", "polars, read_csv", "over", 1.2, PARSING),
    Line("csv-splines-MB-s", "csv", "the same with the form that the plan chooses: linear terms and splines", "polars, read_csv", "rate", 500, "encoding", "MB/s"),
    Line("parquet-over-polars", "parquet", "Parquet of 20 numbers a row: read, encoded as linear terms, one step", "polars, read_parquet", "over", 1.2, "decompression and encoding"),
    Line("split-MB-s", "tools", "dpopt split of a CSV file", "polars: read_csv and write_csv of both parts", "rate", 500, "parsing, fresh memory", "MB/s"),
    Line("predict-MB-s", "tools", "dpopt predict of a CSV file", "polars, read_csv", "rate", 500, PARSING, "MB/s"),
    Line("evaluate-MB-s", "tools", "dpopt evaluate of a CSV file", "polars, read_csv", "rate", 500, PARSING, "MB/s"),
    Line("account-1000-steps-speed-up", "steps", "ε of 1,000 steps of DP-SGD", "dp_accounting, PLD at 1e-4", "speed-up", 100, FORMULAS, "ms"),
    Line("account-10000-steps-speed-up", "steps", "ε of 10,000 steps of DP-SGD", "dp_accounting, PLD at 1e-4", "speed-up", 100, FORMULAS, "ms"),
    Line("settings-total-speed-up", "settings", "ε of 40 random settings of DP-SGD, all", "dp_accounting, PLD at 1e-4", "speed-up", 100, FORMULAS, "ms"),
    Line("settings-median-speed-up", "settings", "the same settings, the median", "dp_accounting, PLD at 1e-4", "speed-up", 30, FORMULAS, "ms"),
    Line("settings-slowest-ms", "settings", "the slowest of these settings", "dp_accounting, its mean", "time", 3, FORMULAS, "ms"),
    Line("curve-ms", "curve", "privacy curve of 50 points in Python", "dp_accounting, PLD at 1e-4, 50 points", "time", 20, FORMULAS, "ms"),
    Line("explain-cold-ms", "start", "dpopt explain --rows 50000 --features 100, a new process", "start of Python", "time", 50, FORMULAS, "ms"),
    Line("explain-table-cold-ms", "start", "dpopt explain of a table of 20 columns, a new process", "start of Python", "time", 100, FORMULAS, "ms"),
    Line("import-over-sklearn-ms", "start", "import dpopt, without what scikit-learn's own import takes", "import sklearn.linear_model", "time", 300, LOADING, "ms"),
    Line("command-start-ms", "start", "dpopt --version, a new process", "start of Python", "time", 10, LOADING, "ms"),
    Line("torch-epoch-over-opacus-loop", "torch", "an epoch of DP-SGD of 784-64-10, batches drawn beforehand", "Opacus, without its loader", "over", 1, PRODUCTS),
    Line("torch-epoch-over-opacus", "torch", "the same epoch with dpopt's loader", "Opacus, with its loader", "over", 1, PRODUCTS),
]  # fmt: skip

NAMES = {line.name: line for line in LINES}


def chosen(words: list[str]) -> list[Group]:
    """The groups of which a line's name, or the group's own, contains one of `words`; all of them without words."""
    by_name = lambda group: [group.name, *(line.name for line in LINES if line.group == group.name)]
    return [g for g in GROUPS if not words or any(word in name for word in words for name in by_name(g))]
