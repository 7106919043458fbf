"""dpopt's command line on a table's files, as a user would call it: bounds, target, ε, and nothing else."""

import json
import pathlib
import subprocess
import tempfile
import time

ENCODER = "The encoder, chosen from public facts:"


class Failed(Exception):
    """A tool did not give a model; the text is its own last line."""


def delta(rows):
    """The command line's own default, said to all tools: n^-1.1, at most 0.01."""
    return min(0.01, rows**-1.1)


def call(arguments, limit):
    try:
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"no answer within {limit} s") from None
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["no message"])[-1])
    return done.stdout


def terms(about, place, epsilon, bounds=None):
    return [
        place / "train.csv",
        "--target",
        about["target"],
        "--epsilon",
        epsilon,
        "--delta",
        repr(delta(about["rows"])),
        "--bounds",
        bounds or place / "bounds.toml",
    ]


def fit(binary, about, place, epsilon, method=None, bounds=None, limit=600):
    """Fits and evaluates: score (accuracy or R²), AUC where there are two classes, seconds of the fit, method and form."""
    with tempfile.TemporaryDirectory() as scratch:
        model, report = pathlib.Path(scratch) / "model.json", pathlib.Path(scratch) / "report.json"
        extra = ["--method", method] if method else []
        start = time.perf_counter()
        call([binary, "fit", *terms(about, place, epsilon, bounds), "-o", model, "--report", report, *extra], limit)
        seconds = time.perf_counter() - start
        told = json.loads(report.read_text())
        scores = json.loads(call([binary, "evaluate", model, place / "test.csv", "--json"], limit))
    chosen = told["candidates"][told["chosen"]]
    return score(scores) | {
        "seconds": round(seconds, 3),
        "method": chosen["method"],
        "predicted": chosen.get("predicted_excess_risk"),
        "form": form(told["facts"]),
    }


def score(scores):
    if "r_squared" in scores:
        return {"score": scores["r_squared"], "metric": "R2"}
    probabilities = {name: scores[name] for name in ("log_loss", "log_loss_of_base_rate", "calibration_error")}
    return {
        "score": scores["accuracy"],
        "metric": "accuracy",
        "auc": scores.get("auc"),
        "test_rows": scores["rows"],
    } | probabilities


def form(facts):
    """What the plan made of columns, in the report's words."""
    said = [line for line in facts["preparation"] if line.startswith(ENCODER)]
    return said[0][len(ENCODER) :].strip(" .") if said else "as declared"


def explain(binary, about, place, epsilon, limit=120):
    return json.loads(call([binary, "explain", *terms(about, place, epsilon), "--json"], limit))


def noise(binary, epsilon, delta, sampling, steps):
    """The noise multiplier of DP-SGD with Poisson batches, for neighbours with one record more or less."""
    mechanism = f"poisson({sampling}, gaussian(?)) x {steps}"
    told = ["--epsilon", epsilon, "--delta", repr(delta), "--relation", "add-or-remove", "--json"]
    return json.loads(call([binary, "account", mechanism, *told], 60))["found"]
