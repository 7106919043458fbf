"""What the jobs of a first day share: the folder of the tables, both faces, the table of scores, what was checked."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

#: Both faces read the same cells and draw the same noise: they differ by nothing but rounding.
SAME = 1e-9


def the_command():
    """The command line: `$DPOPT`, what this checkout has built, or what is installed."""
    built = Path(__file__).parents[2] / "target" / "release" / ("dpopt.exe" if os.name == "nt" else "dpopt")
    found = os.environ.get("DPOPT") or (str(built) if built.exists() else shutil.which("dpopt"))
    if not found:
        sys.exit("no dpopt command: cargo build --release -p dpopt-cli, or say where it is in $DPOPT")
    return os.path.abspath(found)


@dataclass
class Answer:
    """What one face predicts for the holdout: a column of probabilities for each class, or one of values."""

    face: str
    method: str
    epsilon: float
    predicted: np.ndarray
    score: float


@dataclass
class Day:
    """The folder of the tables, the seed of the noise, the lines of the report and what was checked."""

    folder: Path
    seed: int = 1
    rows: list = field(default_factory=list)
    checks: list = field(default_factory=list)

    def table(self, name, columns):
        """Writes a CSV file; a missing cell is NA."""
        path = self.folder / f"{name}.csv"
        pd.DataFrame(columns).to_csv(path, index=False, na_rep="NA")
        return path

    def bounds(self, name, text):
        """Writes a bounds file."""
        path = self.folder / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments, code=0):
        """One command, which has to end with this exit code."""
        done = subprocess.run([the_command(), *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != code:
            raise RuntimeError(f"dpopt {' '.join(map(str, arguments))}\nexit code {done.returncode}\n{done.stderr}")
        return done

    def command_line(self, train, holdout, target, *more):
        """`dpopt fit`, `evaluate` and `predict`."""
        model = train.with_suffix(".model.json")
        printed = self.run("fit", train, "--target", target, *more, "--insecure-seed", self.seed, "-o", model).stdout
        scores = json.loads(self.run("evaluate", model, holdout, "--json").stdout)
        written = train.with_suffix(".predictions.csv")
        self.run("predict", model, holdout, "-o", written)
        predicted = pd.read_csv(written)
        if "log_loss" in scores:
            return Answer(
                "command line",
                method_in(printed),
                spent_for(model),
                predicted.filter(like="p(").to_numpy(),
                scores["log_loss"],
            )
        return Answer(
            "command line", method_in(printed), spent_for(model), predicted[target].to_numpy(), scores["r_squared"]
        )

    def python(self, model, train, holdout, target, **of_fit):
        """An estimator on a data frame; classes in the order of their declaration."""
        model.set_params(insecure_seed=self.seed).fit(train, target, **of_fit)
        if hasattr(model, "predict_proba"):
            order = [list(model.classes_).index(c) for c in model.classes]
            predicted = model.predict_proba(holdout)[:, order]
            score = log_loss(predicted, holdout[target], model.classes)
        else:
            predicted = model.predict(holdout)
            score = r_squared(predicted, holdout[target])
        return Answer("Python", model.plan_.method, model.privacy_.epsilon, predicted, score)

    def check(self, job, what, value, low=-np.inf, high=np.inf):
        """A number that has to lie within two ends."""
        self.checks.append((job, what, float(value), low, high, bool(low <= value <= high)))

    def line(self, job, kind, a, constant, best, truth=None):
        """A line of the table."""
        off = calibrated = np.nan
        if kind == "log loss":
            calibrated, off = calibration(a.predicted, truth), np.abs(a.predicted - truth).mean()
        self.rows.append((job, a.face, a.method, kind, a.score, constant, best, calibrated, off, a.epsilon))

    def report(self, job, kind, answers, constant, best, truth=None):
        """Lines of both faces, and what holds of every job: the faces agree, and the command's score is the one computed here."""
        for a in answers:
            self.line(job, kind, a, constant, best, truth)
        one, other = answers
        self.check(
            job,
            "both faces: largest difference, in units of the answer",
            distance(one.predicted, other.predicted),
            high=SAME,
        )
        self.check(job, "both faces: difference of the scores", abs(one.score - other.score), high=SAME)
        self.check(job, "both faces: difference of what was spent", abs(one.epsilon - other.epsilon), high=SAME)

    def classes(self, job, answers, labels, truth, classes, gain=None, calibrated=None, apart=None):
        """Reports probabilities against the true ones, and checks what of `gain`, `calibrated` and `apart` is asked.

        The share of the possible gain in log loss is at least `gain` (0: no worse than the base rate), the calibration error at most
        `calibrated`, the mean distance from the true probabilities at most `apart`. Returns the log loss of the base rate.
        """
        constant, best = ends(labels, truth, classes)
        self.report(job, "log loss", answers, constant, best, truth)
        for a in answers:
            if gain is not None:
                self.check(
                    job, f"{a.face}: share of the possible gain in log loss", gained(a.score, constant, best), low=gain
                )
            if calibrated is not None:
                self.check(job, f"{a.face}: calibration error", calibration(a.predicted, truth), high=calibrated)
            if apart is not None:
                self.check(job, f"{a.face}: mean |p - truth|", np.abs(a.predicted - truth).mean(), high=apart)
        return constant


def method_in(printed):
    """The method that `dpopt fit` names."""
    return re.search(r"^method +([a-z-]+)", printed, re.MULTILINE)[1]


def spent_for(model):
    """What a model file says was certified."""
    return json.loads(model.read_text(encoding="utf-8"))["guarantee"]["certified_epsilon"]


def distance(a, b):
    """The largest difference, in units of the largest number."""
    return np.abs(a - b).max() / max(1.0, np.abs(b).max())


def log_loss(p, labels, classes):
    """The mean of -log of the probability that the true class was given."""
    at = np.array([list(classes).index(label) for label in labels])
    return -np.log(p[np.arange(len(at)), at]).mean()


def r_squared(values, truth):
    """The share of the variance that is explained."""
    return 1 - np.mean((values - truth) ** 2) / np.var(truth)


def calibration(p, truth):
    """Ten bins of equal size by probability: the mean distance of mean probability and mean truth; of several classes, the worst."""
    errors = []
    for k in range(p.shape[1]):
        bins = np.array_split(np.argsort(p[:, k]), 10)
        errors.append(np.mean([abs(p[b, k].mean() - truth[b, k].mean()) for b in bins]))
    return max(errors)


def shares(labels, classes):
    """The base rate: the share of each class, as probabilities of every row."""
    share = np.array([np.mean(np.asarray(labels) == c) for c in classes])
    return np.tile(share, (len(labels), 1))


def ends(labels, truth, classes):
    """The log loss of the base rate, and of the true probabilities."""
    return log_loss(shares(labels, classes), labels, classes), log_loss(truth, labels, classes)


def gained(score, constant, best):
    """How much of what the law knows beyond a constant was found: 1 is all of it."""
    return (constant - score) / (constant - best)
