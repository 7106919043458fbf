"""What seeded runs of the package answer and what they spend, as digests: a rearrangement of the code moves none of them.

The cases are those of `same_observable.py`: every estimator × method × relation × task, every mechanism, objective, game and network,
each run once, on a table without a hostile record. A line per case: its name, a digest of all numbers that it answers (predictions,
probabilities, released values, whatever they are called) and one of its events; or how a refused run ended. Words are not looked at.

    python seeded_fits.py [--jobs 2] [--only NAME] > FILE
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys

import numpy as np
import same_observable as walk
import scipy.sparse as sp

#: An ordinary record: features, label, number.
USUAL = (0.25, "contradicting", 0.1)
#: Options that are far from anything sensible are the walk's, not ours.
SKIPPED = tuple(f", {name}" for name in walk.EXTREMES if name not in ("plain", "labels found"))

found: list[bytes] = []


def keep(value):
    """Keeps the numbers of a value, in place of its structure."""
    if sp.issparse(value):
        value = value.toarray()
    if isinstance(value, dict):
        for held in value.values():
            keep(held)
    elif isinstance(value, (list, tuple)) and not all(isinstance(v, (int, float, np.number)) for v in value):
        for held in value:
            keep(held)
    elif value is not None:
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            found.append(hashlib.sha256(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes()).digest())
    return "kept"


def keep_model(model, X):
    """Keeps what a fitted model says of the rows it was fitted to, and returns its event."""
    finite = X if hasattr(X, "columns") else np.where(np.isfinite(X), X, 0.0)
    for name in ("predict_proba", "decision_function", "predict"):
        if hasattr(model, name):
            keep(getattr(model, name)(finite))
    for name in ("mean_", "shares_", "support_"):
        if hasattr(model, name):
            keep(getattr(model, name))
    return model.privacy_.event.to_json()


walk.structure, walk.of_model = keep, keep_model


def events(value):
    """All events in what was observed, as JSON."""
    if isinstance(value, str):
        return [value] if value.startswith("{") else []
    return [event for held in value for event in events(held)] if isinstance(value, (list, tuple)) else []


def digest(run):
    """One case, run once."""
    found.clear()
    result = run(USUAL)[0]
    if result[0] == "error":
        return f"refused {result[1]}"
    short = lambda parts: hashlib.sha256(b"\n".join(sorted(parts))).hexdigest()[:16]  # noqa: E731
    return f"answer {short(found)}\tevent {short(e.encode() for e in events(result))}"


def line(name):
    """The line of a case, in a process of its own among several."""
    global known
    if "known" not in globals():
        known = dict(walk.cases())
    return f"{name}\t{digest(known[name])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int, help="processes side by side")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    given = parser.parse_args()
    names = sorted(name for name, _ in walk.cases() if given.only in name and not name.endswith(SKIPPED))
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for found_line in pool.imap(line, names, chunksize=4):
            print(found_line, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
