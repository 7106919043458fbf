"""What seeded runs of the package answer and what they spend, as digests: a rearrangement of the code moves none of them.

The cases are those of `same_observable.py` (every estimator × method × relation × task, every mechanism, objective, game and network),
each run once, on a table without a hostile record, and linear models over records in parts. A line per case: its name, a digest of all numbers that it answers (predictions,
probabilities, released values, whatever they are called) and one of its events; or how a refused run ended. Words are not looked at.

    python seeded_fits.py [--jobs 2] [--only NAME] > FILE
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys

# NumPy, its products and PyTorch compute last bits as every processor with AVX2 does: what the last ones can do besides moves digests from machine to machine
os.environ.update(
    NPY_DISABLE_CPU_FEATURES="X86_V4", OPENBLAS_CORETYPE="Haswell", ATEN_CPU_CAPABILITY="avx2", MKL_CBWR="COMPATIBLE"
)

import dpopt
import numpy as np
import same_observable as equivalence
import scipy.sparse as sp
from dpopt.partitions import Here

#: An ordinary record: features, label, number.
USUAL = (0.25, "contradicting", 0.1)
#: Options that are far from anything sensible belong to the equivalence test.
SKIPPED = tuple(f", {name}" for name in equivalence.EXTREMES if name not in ("plain", "labels found"))

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


equivalence.structure, equivalence.of_model = keep, keep_model


def in_parts(kind, given, task):
    """A fit to records that lie in two parts."""
    X, y = equivalence.table(USUAL, task)
    parts = Here([(X[a:b], y[a:b]) for a, b in ((0, 90), (90, equivalence.ROWS))])
    return equivalence.observed(lambda: keep_model(equivalence.made(kind, given).fit(parts), X))


def columns_in_parts(relation, task):
    """A fit to columns declared by name, in two parts."""
    frame, y = equivalence.columns(USUAL, task)
    parts = Here([(frame[a:b], y[a:b]) for a, b in ((0, 90), (90, equivalence.ROWS))])
    of_task = {
        "two classes": (dpopt.LogisticRegression, {"classes": [0, 1]}),
        "three classes": (dpopt.LogisticRegression, {"classes": [0, 1, 2]}),
        "regression": (dpopt.LinearRegression, {"target_bounds": (-1.5, 1.5)}),
    }
    kind, options = of_task[task]
    model = kind(
        5.0, 1e-6, bounds={"number": (-1, 1)}, columns=dpopt.Columns(levels={"levels": ["f", "m"]}, hashed=["hash"], text=["text"]),
        encoding={"text_bits": 4, "hash_bits": 3, "spread": False, "pairs": "none"}, neighbors=relation,
        n_rows=equivalence.ROWS if relation == "add-or-remove" else None, insecure_seed=3, **options,
    )  # fmt: skip
    return equivalence.observed(lambda: keep_model(model.fit(parts), frame))


def cases():
    """The cases of the equivalence test whose options are sensible, and the linear models' over partitions."""
    for name, run in equivalence.cases():
        if not name.endswith(SKIPPED):
            yield name, lambda run=run: run(USUAL)
    for name, (kind, given, form, task) in equivalence.fits():
        if kind in (dpopt.LogisticRegression, dpopt.LinearRegression) and form == "dense" and name.endswith(", plain"):
            yield f"parts {name}", lambda given=(kind, given, task): in_parts(*given)
    for relation in equivalence.RELATIONS:
        for task in ("two classes", "three classes", "regression"):
            yield f"parts columns {relation} {task}", lambda given=(relation, task): columns_in_parts(*given)


def events(value):
    """All events in what was observed, as JSON."""
    if isinstance(value, str):
        return [value] if value.startswith("{") else []
    return [event for held in value for event in events(held)] if isinstance(value, (list, tuple)) else []


def digest(run):
    """One case, run once."""
    found.clear()
    result = run()[0]
    if result[0] == "error":
        return f"refused {result[1]}"
    short = lambda parts: hashlib.sha256(b"\n".join(sorted(parts))).hexdigest()[:16]  # noqa: E731
    return f"answer {short(found)}\tevent {short(e.encode() for e in events(result))}"


def line(name):
    """The line of a case, in a process of its own among several."""
    global known
    if "known" not in globals():
        known = dict(cases())
    return f"{name}\t{digest(known[name])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int, help="processes side by side")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    given = parser.parse_args()
    names = sorted(name for name, _ in cases() if given.only in name)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for found_line in pool.imap(line, names, chunksize=4):
            print(found_line, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
