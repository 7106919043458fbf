"""Neighbouring tables look the same from outside: every estimator × method × relation × task × extreme option, and every mechanism.

A base table has one record that is missing (NaN everywhere, no target); each neighbour holds something hostile there instead:
1e308, infinities, a contradicting label, a class that nobody declared. Both are fitted with the same seed, and everything that
an outsider could see apart from the noisy numbers themselves must be equal: success, or the exception's type and text; every warning
and printed line; names, shapes and dtypes of all fitted attributes; classes; plan; stages, labels and counts of the releases; the
report's structure. A run that takes longer than a public limit counts as differing.

    python same_observable.py --full     # the whole test; ends with "python pairs N, differing M", exit code 1 if M > 0
    python same_observable.py            # a slice of it, as the tests run it
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import io
import itertools
import multiprocessing
import os
import queue
import re
import sys
import threading
import time
import warnings

import dpopt
import numpy as np
import scipy.sparse as sp
from dpopt import mechanisms, select

RELATIONS = ("zero-out", "add-or-remove", "replace-one")
#: Seconds that the eight fits of a case, of some hundred records each, may take at most on a busy machine.
LIMIT = 600.0
ROWS, COLUMNS = 240, 3

#: Options that are allowed and far from anything sensible; a method without the option refuses it, whatever the records are.
EXTREMES = {
    "plain": {},
    "clip 0.01": {"clip_norm": 0.01},
    "lambda 1e-9": {"regularization": 1e-9},
    "all records in a batch": {"sampling_probability": 1.0, "steps": 3},
    "no bounds": {"bounds": None, "row_norm": 1e-3},
    "one entry per row": {"max_nonzeros": 1, "bounds": None, "row_norm": 1.0},
    "much budget": {"epsilon": 1e3, "delta": 0.5},
    "little budget": {"epsilon": 1e-3},
    "labels found": {"classes": None, "epsilon": 20.0},
}
#: Names of the options of all methods.
OPTIONS = frozenset(inspect.signature(dpopt.methods.Auto).parameters)


def has(kind, given, options):
    """Whether an estimator has these parameters, and its method these options."""
    own = set(inspect.signature(kind).parameters)
    usable = getattr(kind, "_usable_methods", frozenset())
    method = dpopt.methods.BY_NAME["embedding-sgd" if "embedding-sgd" in usable else given.get("method", "auto")]
    of_method = set(inspect.signature(method).parameters) - set(getattr(kind, "_options_of_others", {}))
    return set(options) <= (own | (of_method if usable else set()))


def made(kind, given):
    """The estimator of these parameters, options of its method among them."""
    options = {name: value for name, value in given.items() if name in OPTIONS}
    rest = {name: value for name, value in given.items() if name not in OPTIONS}
    if options:
        rest["method"] = dpopt.methods.BY_NAME[rest.get("method", "auto")](**options)
    return kind(**rest)


#: Methods that keep a given number of features.
SPARSE = ("auto", "peeling", "frank-wolfe", "dp-gd-ht", "dp-sgd-ht", "dp-svrg-ht", "dp-scsg-ht")
#: What one record may hold: features, label, number.
MISSING = (np.nan, np.nan, np.nan)
HOSTILE = {
    "huge": (1e308, "contradicting", 1e308),
    "huge and negative": (-1e308, "contradicting", -1e308),
    "infinite": (np.inf, "contradicting", np.inf),
    "negative infinity, unknown class": (-np.inf, "unknown", -np.inf),
    "half a class": (0.5, "half", 0.7),
    "valid features, no target": (0.5, np.nan, np.nan),
    "no features, a target": (np.nan, "contradicting", 0.7),
}


def table(record, task):
    """Rows and targets, the record at row 7."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (ROWS, COLUMNS))
    value, label, number = record
    X[7] = value
    if task == "regression":
        y = X[:, 0] - 0.5 * rng.uniform(-1, 1, ROWS)
        y[7] = number
    else:
        y = np.digitize(rng.uniform(-1, 1, ROWS), [0.0] if task == "two classes" else [-0.3, 0.3]).astype(float)
        y[7] = {"contradicting": 1.0, "unknown": 77.0, "half": 0.5}.get(label, np.nan)
    return X, y


def structure(value):
    """Shape and type of a value, not its numbers."""
    if sp.issparse(value):
        return (type(value).__name__, value.shape, str(value.dtype))
    if isinstance(value, np.ndarray):
        return ("array", value.shape, str(value.dtype))
    if isinstance(value, dict):
        return {str(k): structure(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [structure(v) for v in value]
    return type(value).__name__


def of_report(html):
    """Headings and number of table rows of a report."""
    return re.findall(r"<h\d[^>]*>(.*?)</h\d>", html), re.findall(r"<th[^>]*>(.*?)</th>", html), html.count("<tr")


def of_model(model, X):
    """Everything of a fitted model that is not a noisy number."""
    seen = {
        "attributes": {
            k: structure(v) for k, v in sorted(vars(model).items()) if k not in ("_report_facts", "plan_", "privacy_")
        }
    }
    if hasattr(model, "classes_"):
        seen["classes"] = model.classes_.tolist()
    if hasattr(model, "get_support"):
        seen["support"] = structure(model.get_support())
    privacy = model.privacy_
    seen["privacy"] = (str(privacy), privacy.event.to_json(), [s["name"] for s in privacy.stages])
    seen["ledger"] = [[(r["label"], r["count"]) for r in stage] for stage in privacy.ledger]
    seen["plan"] = repr(getattr(model, "plan_", None)) if not isinstance(model, select.PrivateSearchCV) else None
    if hasattr(model, "report"):
        seen["report"] = of_report(model.report())
    if hasattr(model, "predict"):
        finite = X if hasattr(X, "columns") else np.where(np.isfinite(X), X, 0.0)
        seen["predictions"] = structure(model.predict(finite))
    return seen


def observed(run):
    """What `run` shows: its result's structure or its exception, all warnings, all printed lines."""
    out, err = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("always")
        try:
            result = ("ok", run())
        except Exception as error:
            result = ("error", type(error).__name__, str(error))
    return result, [(w.category.__name__, str(w.message)) for w in caught], out.getvalue(), err.getvalue()


def of_network(model):
    """Which parameters of a PyTorch model are finite, and their structure."""
    parameters = [p.detach().numpy() for p in model.parameters()]
    return [bool(np.isfinite(p).all()) for p in parameters], structure(parameters)


def fit(make, form, task, record):
    X, y = table(record, task)
    if form == "csr":
        given = sp.csr_matrix(X)
    elif form == "float32":
        with np.errstate(all="ignore"):
            given = X.astype(np.float32)
    elif form == "pandas":
        import pandas as pd

        given = pd.DataFrame(X, columns=["a", "b", "c"])
    elif form == "lists":
        given, y = X.tolist(), y.tolist()
    elif form == "objects":
        given, y = X.astype(object), y.astype(object)
    else:
        given = X
    # a missing label is None in a list, as anybody would write it
    y = [None if v != v else v for v in y] if form in ("lists", "objects") and task != "regression" else y
    model = make()
    if isinstance(model, dpopt.CoxRegressor):
        # seen until then, or lost to sight where the number is negative
        numbers = np.array(y, dtype=float)
        y = dpopt.survival(np.abs(numbers), np.where(np.isnan(numbers), np.nan, numbers > 0))
    return observed(lambda: of_model(model.fit(given) if isinstance(model, MEANS) else model.fit(given, y), X))


#: What is fitted without a target.
MEANS = (dpopt.MeanEstimator, dpopt.HeavyTailedMean, dpopt.PrivateScaler, dpopt.PCA)
#: What is not fitted to a sparse matrix.
DENSE = (*MEANS, dpopt.GaussianNB, dpopt.CoxRegressor, dpopt.AdditiveClassifier, dpopt.AdditiveRegressor)


def estimators(task):
    """(name, class, options, methods) of every estimator for a task."""
    sampled = {"sampling_probability": 0.5, "steps": 4}
    facts = {"epsilon": 5.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 3}
    if task == "regression":
        facts["target_bounds"] = (-1.5, 1.5)
        yield "LinearRegression", dpopt.LinearRegression, facts, ("auto", *dpopt.METHODS)
        yield "Ridge", dpopt.Ridge, {**facts, "alpha": 1e-9}, ("auto",)
        yield "HuberRegression", dpopt.HuberRegression, facts, ("auto",)
        # where there are so few records below 0 and above 1.5 that counts say little: what is compared is what is seen
        counts = {**facts, "target_bounds": (0, 1.5)}
        yield "PoissonRegressor", dpopt.PoissonRegressor, counts, ("auto", *dpopt.METHODS)
        found = {k: v for k, v in counts.items() if k != "target_bounds"}
        yield "PoissonRegressor no range", dpopt.PoissonRegressor, found, ("auto",)
        high = {**facts, "quantile": 0.9}
        yield "QuantileRegressor", dpopt.QuantileRegressor, high, ("auto", *dpopt.METHODS)
        unknown = {k: v for k, v in facts.items() if k != "target_bounds"}
        yield "QuantileRegressor no range", dpopt.QuantileRegressor, {**unknown, "quantile": 0.1}, ("auto",)
        times = {k: v for k, v in unknown.items() if k != "encoding"}
        yield (
            "CoxRegressor",
            dpopt.CoxRegressor,
            {**times, "horizon": 1.2, "periods": 4},
            ("auto", "noisy-sgd", "dp-ftrl"),
        )
        known = {k: v for k, v in facts.items() if k != "encoding"}
        yield "AdditiveRegressor", dpopt.AdditiveRegressor, known, ("auto",)
        rising = {**known, "columns": dpopt.Columns(monotone={"x1": "increasing"})}
        yield "AdditiveRegressor rising", dpopt.AdditiveRegressor, rising, ("auto", "objective-perturbation")
        yield "LinearRegression moment", dpopt.LinearRegression, {**unknown, "heavy_tailed": (2, 1.0)}, ("auto",)
        yield "LinearRegression no range", dpopt.LinearRegression, unknown, ("auto",)
        for loss in ("squared_error", "huber", "absolute_error"):
            yield (
                f"SGDRegressor {loss}",
                dpopt.SGDRegressor,
                {**facts, **sampled, "loss": loss, "threshold": 1e-3},
                ("noisy-sgd",),
            )
        yield "SparseLinearRegression", dpopt.SparseLinearRegression, {**facts, "max_features": 1}, SPARSE
        yield "TwoTowerRegressor", dpopt.TwoTowerRegressor, {**facts, **sampled, "embedding_dim": 2}, ("",)
        means = {k: v for k, v in facts.items() if k not in ("target_bounds", "encoding")}
        yield "MeanEstimator", dpopt.MeanEstimator, means, ("",)
        yield "PrivateScaler", dpopt.PrivateScaler, means, ("",)
        yield "PCA", dpopt.PCA, means, ("",)
        columns = {"moment": (2, 3.0), **{k: v for k, v in means.items() if k != "bounds"}}
        yield "HeavyTailedMean", dpopt.HeavyTailedMean, columns, ("",)
        return
    facts["classes"] = [0, 1] if task == "two classes" else [0, 1, 2]
    yield "GaussianNB", dpopt.GaussianNB, {k: v for k, v in facts.items() if k != "encoding"}, ("",)
    yield "LogisticRegression", dpopt.LogisticRegression, facts, ("auto", *dpopt.METHODS)
    known = {k: v for k, v in facts.items() if k != "encoding"}
    rising = {**known, "columns": dpopt.Columns(monotone={"x1": "increasing"})}
    yield "AdditiveClassifier", dpopt.AdditiveClassifier, rising if task == "two classes" else known, ("auto",)
    yield (
        "LinearSVC",
        dpopt.LinearSVC,
        {**facts, "smoothing": 1e-3},
        ("auto", "objective-perturbation", "output-perturbation"),
    )
    for loss in ("log_loss", "hinge", "smoothed_hinge"):
        yield f"SGDClassifier {loss}", dpopt.SGDClassifier, {**facts, **sampled, "loss": loss}, ("noisy-sgd",)
    yield "SparseLogisticRegression", dpopt.SparseLogisticRegression, {**facts, "max_features": 1}, SPARSE
    yield "EmbeddingClassifier", dpopt.EmbeddingClassifier, {**facts, **sampled, "embedding_dim": 2}, ("",)
    if task == "two classes":
        yield (
            "TwoTowerClassifier",
            dpopt.TwoTowerClassifier,
            {**facts, **sampled, "embedding_dim": 2, "select_rows": True},
            ("",),
        )


def fits():
    """Every (name, case): the case says how to make the estimator, the form of the table and the task."""
    for task in ("two classes", "three classes", "regression"):
        for name, kind, facts, methods in estimators(task):
            for method, relation, (extreme, options) in itertools.product(methods, RELATIONS, EXTREMES.items()):
                given = {**facts, "neighbors": relation, **options}
                if method:
                    given["method"] = method
                if not has(kind, given, options) or (task == "regression" and "classes" in options):
                    continue
                if relation == "add-or-remove":
                    given["n_rows"] = ROWS
                if method == "exponential-mechanism" and has(kind, given, {"regularization"} - set(options)):
                    given["regularization"] = 2000.0  # the default's sampler takes half a minute
                yield f"{name} {method} {relation} {task}, {extreme}", (kind, given, "dense", task)
            for form in ("csr", "float32", "pandas", "lists", "objects"):
                if form == "csr" and kind in DENSE:
                    continue
                given = (
                    dict(facts)
                    if not methods[0]
                    else {**facts, "method": methods[-1] if methods[0] == "noisy-sgd" else "auto"}
                )
                yield f"{name} {form} {task}", (kind, given, form, task)


def run_fit(case, record):
    kind, given, form, task = case
    return fit(lambda: made(kind, given), form, task, record)


#: What a column declared by name may hold in one cell, whatever its dtype then is: for a range, levels, a hash, text.
CELLS = {
    "huge": (1e308, "unknown", 10**30, "x" * 5000),
    "huge and negative": ("-1e308", -1e308, -1e308, "\ud800"),
    "infinite": (np.inf, np.inf, np.inf, np.inf),
    "negative infinity, unknown class": ("no number", b"\xff\x00", [1], {"a": 1}),
    "half a class": (" 0.5 ", " f ", True, "free money http://x.org call 0800"),
    "valid features, no target": (0.5, "m", "a", "hi there"),
    "no features, a target": (None, None, None, None),
}


def columns(record, task):
    """The table with columns of every kind, and their declarations."""
    import pandas as pd

    X, y = table(record, task)
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "number": X[:, 0],
            "levels": rng.choice(["f", "m"], ROWS),
            "hash": rng.choice(list("abc"), ROWS),
            "text": rng.choice(["hi there", "call me"], ROWS),
        }
    ).astype(object)
    name = next((name for name, held in HOSTILE.items() if held is record), None)
    frame.loc[7] = [np.nan, None, None, None]
    for j, cell in enumerate(CELLS.get(name, ())):
        frame.iat[7, j] = cell
    if record is MISSING:
        # dtypes follow from what all cells hold
        frame = frame.infer_objects()
    return frame, y


NAMED = {
    "declared": {"bounds": {"number": (-1, 1)}},
    "labels found": {"bounds": {"number": (-1, 1)}, "classes": None, "epsilon": 30.0},
    "range found": {"bounds": None, "bounds_budget": 0.5, "epsilon": 40.0},
    "little budget": {"bounds": {"number": (-1, 1)}, "epsilon": 1e-3},
}


#: Options that some estimators need besides.
SIDES = {"towers": (["number", "levels"], ["hash"])}
STEPS = {"embedding_dim": 2, "method": dpopt.methods.EmbeddingSGD(steps=4, sampling_probability=0.5)}
MORE = {
    dpopt.TwoTowerClassifier: {**SIDES, **STEPS},
    dpopt.TwoTowerRegressor: {**SIDES, **STEPS},
    dpopt.EmbeddingClassifier: STEPS,
}


def named(kind, relation, task, options, record):
    """A fit to columns declared by name."""
    frame, y = columns(record, task)
    facts = {
        "encoding": {"text_bits": 4, "hash_bits": 3},
        "delta": 1e-6,
        "epsilon": 5.0,
        "insecure_seed": 3,
        "neighbors": relation,
        "n_rows": ROWS if relation == "add-or-remove" else None,
        "columns": dpopt.Columns(
            levels={"levels": ["f", "m"]},
            hashed=["hash"],
            text=["text"],
            numeric=None if "bounds" in options and options["bounds"] else ["number"],
        ),
    }
    if task == "regression":
        facts["target_bounds"] = (-1.5, 1.5)
    else:
        facts["classes"] = [0, 1] if task == "two classes" else [0, 1, 2]
    return observed(lambda: of_model(kind(**{**facts, **options, **MORE.get(kind, {})}).fit(frame, y), frame))


def mean_of_columns(relation, spread, record):
    """Means and shares of columns declared by name, in one round or in several; one column is undeclared."""
    frame, _ = columns(record, "regression")
    model = dpopt.MeanEstimator(
        epsilon=5.0,
        delta=1e-6,
        bounds={"number": (-1, 1)},
        spread=spread,
        neighbors=relation,
        n_rows=ROWS if relation == "add-or-remove" else None,
        insecure_seed=3,
        columns=dpopt.Columns(levels={"levels": ["f", "m"]}, ignore=["hash"]),
    )
    return observed(lambda: of_model(model.fit(frame), frame))


#: What a row's id may be, beside the ids of other persons; the first one has no owner.
IDS = (None, " 3 ", 3.0, np.inf, "\ud800", b"\xff\x00", ("a", 1), 10**30, "NA")


def persons(record, task):
    """Rows, targets and ids of persons with six rows each: one person's rows differ, and the id of one row."""
    X, y = table(record, task)
    ids = (np.arange(ROWS) % 40).astype(object)
    person = ids == ids[7]
    X[person], y[person] = X[7], y[7]
    hostile = next((at for at, held in enumerate(HOSTILE.values()) if held is record), -1)
    ids[7] = IDS[hostile + 1]
    return X, y, ids


def by_unit(kind, relation, task, how, record):
    """A fit that protects persons, among a public number of them."""
    X, y, ids = persons(record, task)
    given = {
        "epsilon": 8.0,
        "delta": 1e-4,
        "bounds": (-1, 1),
        "encoding": None,
        "insecure_seed": 3,
        "neighbors": relation,
        **MORE.get(kind, {}),
        **BY_UNIT[how],
        "n_rows": ROWS if relation == "add-or-remove" else None,
        "unit": dpopt.Unit(count=41, **MOST.get(how, {})),
    }
    given = {k: v for k, v in given.items() if k not in SIDES}
    if task == "regression":
        given["target_bounds"] = (-1.5, 1.5)
    else:
        given["classes"] = None if how == "labels found" else [0, 1] if task == "two classes" else [0, 1, 2]
    if how != "columns":
        return observed(lambda: of_model(kind(**given).fit(X, y, units=ids), X))
    import pandas as pd

    given["bounds"] = {name: (-1, 1) for name in "abc"}
    frame = pd.DataFrame(X, columns=list("abc")).assign(person=ids)
    return observed(lambda: of_model(kind(**given).fit(frame, y, units="person"), frame))


BY_UNIT = {
    "as units": {},
    "at most two rows": {},
    "as rows": {"method": "output-perturbation"},
    # so much that which labels are found, an answer with noise, is the same: a dozen persons say each
    "labels found": {"epsilon": 400.0, "method": "noisy-gradient-descent"},
    "columns": {"encoding": {"knots": 2, "pairs": "none"}},
}
#: A bound on the rows of a person.
MOST = {how: {"max_rows": 2} for how in ("at most two rows", "as rows", "labels found")}


def search(record, task):
    X, y = table(record, task)
    if task == "regression":
        inner, grid = (
            dpopt.Ridge(bounds=(-1, 1), target_bounds=(-1.5, 1.5), method="objective-perturbation", encoding=None),
            {"alpha": [1.0, 5.0]},
        )
    else:
        facts = {"bounds": (-1, 1), "encoding": None, "classes": [0, 1, 2]}
        inner = dpopt.LogisticRegression(**facts, method="objective-perturbation")
        grid = {"method__regularization": [1.0, 50.0]}
    model = select.PrivateSearchCV(inner, grid, epsilon=8.0, delta=1e-5, expected_runs=2, insecure_seed=4)
    return observed(lambda: of_model(model.fit(X, y), X))


def search_by_unit(relation, form, record):
    """A search that protects persons."""
    X, y, ids = persons(record, "three classes")
    inner = dpopt.LogisticRegression(
        bounds=(-1, 1),
        classes=[0, 1, 2],
        method=dpopt.methods.NoisyGradientDescent(steps=4),
        unit=dpopt.Unit(max_rows=2),
    )
    given, units = X, ids
    if form == "columns":
        import pandas as pd

        inner.set_params(bounds={name: (-1, 1) for name in "abc"}, encoding={"knots": 2, "pairs": "none"})
        given, units = pd.DataFrame(X, columns=list("abc")).assign(person=ids), "person"
    model = select.PrivateSearchCV(
        inner,
        {"row_norm": [0.5, 1.0]},
        epsilon=200.0,
        delta=1e-4,
        expected_runs=1,
        neighbors=relation,
        insecure_seed=4,
        unit=dpopt.Unit(count=41),
    )
    return observed(lambda: of_model(model.fit(given, y, units=units), given))


def search_of_columns(record, task):
    """A search over a table with columns declared by name, a private range among them."""
    frame, y = columns(record, task)
    facts = {
        "bounds_budget": 0.5,
        "columns": dpopt.Columns(levels={"levels": ["f", "m"]}, numeric=["number"], ignore=["text", "hash"]),
    }
    settled = {"knots": 2, "fine_knots": 0, "pairs": "none", "spread": False}
    if task == "regression":
        inner = dpopt.Ridge(**facts, target_bounds=(-1.5, 1.5), method="objective-perturbation", encoding=settled)
    else:
        inner = dpopt.LogisticRegression(**facts, classes=[0, 1, 2], method="objective-perturbation", encoding=settled)
    model = select.PrivateSearchCV(
        inner, {"row_norm": [0.5]}, epsilon=200.0, delta=1e-5, expected_runs=1, insecure_seed=4
    )
    return observed(lambda: of_model(model.fit(frame, y), frame))


def encoded(kind, relation, task, form, record):
    """A fit to a matrix whose columns are encoded as a table's are."""
    given = {
        "epsilon": 5.0, "delta": 1e-6, "bounds": (-1, 1), "insecure_seed": 3, "neighbors": relation, "encoding": "auto",
        "n_rows": ROWS if relation == "add-or-remove" else None, "method": "objective-perturbation",
    }  # fmt: skip
    if task == "regression":
        given["target_bounds"] = (-1.5, 1.5)
    else:
        given["classes"] = [0, 1] if task == "two classes" else [0, 1, 2]
    return fit(lambda: kind(**given), form, task, record)


def release(name, relation, by_unit, record):
    X, y = table(record, "three classes")
    n = {"n_rows": ROWS} if relation == "add-or-remove" else {}
    common = {"epsilon": 2.0, "relation": relation, "insecure_seed": 2}
    if by_unit:
        X, y, ids = persons(record, "three classes")
        # so much that which labels are found is the same
        bound = {"max_rows": 2} if name in BOUNDED else {}
        common, n = common | {"units": ids, "epsilon": 20.0, "unit": dpopt.Unit(count=41, **bound)}, {}
    delta = {**common, "delta": 1e-6}
    with np.errstate(all="ignore"):
        run = {
            "gaussian_sum": lambda: mechanisms.gaussian_sum(X, 1e-3, **delta, **n),
            "laplace_sum": lambda: mechanisms.laplace_sum(X, 1e-3, **delta, **n),
            "second_moment": lambda: mechanisms.second_moment(X, 1e-3, **delta, **n),
            "sparse_mean": lambda: mechanisms.sparse_mean(sp.csr_matrix(X), 1, **delta, **n),
            "histogram": lambda: mechanisms.histogram(y, [0, 1, 2], **common, **(n if by_unit else {})),
            "quantiles": lambda: mechanisms.quantiles(X[:, 0], [0.25, 0.5], **common),
            "private_bounds": lambda: mechanisms.private_bounds(X[:, :1], **{**common, "epsilon": 200.0 if by_unit else 20.0}, **n),
            "frequent_labels": lambda: mechanisms.frequent_labels([None if v != v else v for v in y], **delta),
            "frequent_labels of mixed types": lambda: mechanisms.frequent_labels([{"a": 1} if v == 77 else v for v in y], **delta),
            "histogram of mixed types": lambda: mechanisms.histogram([[1] if v == 77 else v for v in y], [0, 1, 2], **common),
        }[name]  # fmt: skip
    return observed(
        lambda: (lambda r: (structure(r.value), r.event.to_json(), float(r.bound), structure(r.records)))(run())
    )


MECHANISMS = (
    "gaussian_sum", "laplace_sum", "second_moment", "sparse_mean", "histogram", "quantiles", "private_bounds", "frequent_labels",
    "frequent_labels of mixed types", "histogram of mixed types",
)  # fmt: skip


def minimized(case, relation, record):
    """A user-defined objective, or one of the library's, with everything a run shows but its numbers."""
    X, y = table(record, "two classes" if case == "Network" else "regression")
    case, persons_have = case.removesuffix(" persons"), case.endswith(" persons")
    native = getattr(dpopt.objectives, case, None)
    asked = {
        "epsilon": 5.0,
        "delta": 1e-6,
        "neighbors": relation,
        "insecure_seed": 3,
        "n_records": ROWS if relation == "add-or-remove" else None,
        "steps": 4,
    }
    data, start, objective = (X, y), np.zeros(COLUMNS), native
    if case == "MatrixFactorization":
        objective, data, start = native(COLUMNS, COLUMNS, 1), np.column_stack([np.arange(ROWS) % 3, X[:, :1], y]), None
    elif case == "Network":
        objective, start = native(COLUMNS, [3, 2]), None
    elif native is not None:
        objective = native(COLUMNS)
    elif case in ("values", "values net", "values tree", "values o2nc"):
        objective = lambda x, a, b: 0.5 * (a @ x - b) ** 2  # noqa: E731
        asked["gives"] = "values"
        if case == "values net":
            del asked["steps"]
            asked |= {"method": "net", "points": 27}
        elif case == "values tree":
            del asked["steps"]
            # with little noise a loss that is flat near its minimum takes thousands of sums
            asked |= {"method": "tree", "epsilon": 0.05}
        elif case == "values o2nc":
            asked |= {"method": "o2nc", "period": 2}
    elif case.startswith("kinked"):
        # scores that cancel at the start: the sign of a record's gradient hangs on their last bit
        objective, asked["method"] = lambda x, a, b: np.sign(a @ x)[:, None] * a, case.split()[1]  # noqa: E731
    else:
        objective = lambda x, a, b: (a @ x - b)[:, None] * a  # noqa: E731
        _, asked["method"], *more = case.split()
        if more:
            asked |= {"population": {"goal": "population"}, "fixed": {"batches": "fixed"}}[more[0]]
        if case.endswith("srgd"):
            asked["smoothness"] = 1.0
        if case.endswith("o2nc"):
            asked |= {"directions": 2} if "one-pass" in case else {"period": 2, "directions": 2}
        if case.endswith("spider"):
            asked |= {"smoothness": 1.0, "initial_gap": 1.0}
        if case.endswith("population"):
            # enough records for several blocks; those that are added are the same in both worlds
            data, asked["smoothness"] = (np.vstack([X, np.ones((300, COLUMNS))]), np.append(y, np.ones(300))), 1.0
            asked["n_records"] = ROWS + 300 if relation == "add-or-remove" else None

    if persons_have:
        *data, ids = persons(record, "regression")
        asked |= {"units": ids, "n_records": None, "unit": dpopt.Unit(count=41, max_rows=2)}
        data = tuple(data)

    def run():
        with np.errstate(all="ignore"):
            found = dpopt.minimize(objective, data, start, **asked)
        privacy = found.privacy_
        return (
            structure(found.x), repr(found.plan_), of_report(found.report()), str(privacy), privacy.event.to_json(),
            [[(r["label"], r["count"]) for r in stage] for stage in privacy.ledger],
        )  # fmt: skip

    return observed(run)


def most_stationary(relation, curved, record):
    """One of three candidates."""
    X, y = table(record, "regression")
    curvature = {
        "curvatures": lambda x, v, a, b: (a @ v.T) ** 2, "directions": np.eye(COLUMNS), "curvature_bound": 1.0, "hessian_lipschitz": 1.0, "alpha": 0.5,
    }  # fmt: skip

    def run():
        with np.errstate(all="ignore"):
            found = dpopt.select.stationary(
                lambda x, a, b: (a @ x - b)[:, None] * a, (X, y), [np.full(COLUMNS, value) for value in (0.0, 0.5, -1.0)], epsilon=5.0, neighbors=relation,
                n_records=ROWS if relation == "add-or-remove" else None, insecure_seed=3, **(curvature if curved else {}),
            )  # fmt: skip
        privacy = found.privacy_
        return (
            structure(found.index), structure(found.x), found.error, str(privacy), privacy.event.to_json(),
            [[(r["label"], r["count"]) for r in stage] for stage in privacy.ledger],
        )  # fmt: skip

    return observed(run)


#: Objectives that Python evaluates, by method, and those of the library.
OBJECTIVES = (
    "gradients noisy-sgd", "gradients noisy-gradient-descent", "kinked noisy-gradient-descent", "kinked dp-adam", "gradients dp-adam", "gradients dp-ftrl", "values",
    "gradients noisy-sgd population", "gradients accelerated population", "gradients noisy-sgd fixed", "gradients accelerated-srgd",
    "gradients spider", "gradients spider persons", "gradients one-pass-spider", "gradients o2nc", "gradients o2nc persons", "values o2nc", "gradients one-pass-o2nc",
    "gradients noisy-sgd persons", "values persons", "RobustRegression persons", "values net", "values net persons", "values tree", "values tree persons",
    "PoissonRegression", "RobustRegression", "PhaseRetrieval", "MatrixFactorization", "Network",
)  # fmt: skip


#: What takes a bound on the rows of a unit.
BOUNDED = ("gaussian_sum", "laplace_sum", "second_moment", "sparse_mean", "histogram")


def mean_by_unit(relation, most, record, spread=None):
    """A mean of persons' means, in one round or in several."""
    X, _, ids = persons(record, "regression")
    model = dpopt.MeanEstimator(
        epsilon=5.0,
        delta=1e-4,
        bounds=(-1, 1),
        neighbors=relation,
        spread=spread,
        insecure_seed=3,
        unit=dpopt.Unit(count=41, max_rows=most),
    )
    return observed(lambda: of_model(model.fit(X, units=ids), X))


def network_by_unit(relation, record):
    """A PyTorch network that is trained on persons' records, in parts that split a person's."""
    import torch
    from dpopt.torch import make_private

    X, y, ids = persons(record, "regression")
    with np.errstate(all="ignore"):
        data = (torch.tensor(X.astype(np.float32)), torch.tensor(y.astype(np.float32)))

    def run():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        model, optimizer, loader = make_private(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            data,
            epsilon=5.0,
            delta=1e-4,
            epochs=1,
            batch_size=10,
            max_grad_norm=1.0,
            physical_batch_size=4,
            relation=relation,
            units=ids,
            insecure_seed=6,
            loss=lambda out, t: torch.nn.functional.mse_loss(out[:, 0], t),
            unit=dpopt.Unit(count=41, max_rows=3),
        )
        for x, target in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x)[:, 0], target).backward()
            optimizer.step()
        finite = of_network(model)
        released = [(r["label"], r["count"]) for r in optimizer.releases]
        return len(loader), finite, str(optimizer.privacy_), optimizer.privacy_.event.to_json(), released

    return observed(run)


def sorting():
    """A model that puts its records into the order of a column, and back."""
    import torch

    class Sorting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(COLUMNS, 4), torch.nn.Linear(4, 1)

        def forward(self, x):
            order = torch.argsort(x[:, 0])
            return self.last(torch.tanh(self.first(x[order]))[torch.argsort(order)])

    return Sorting()


def network(relation, form, record):
    """A PyTorch network that is trained on records: with dropout, or one that sorts them, which is refused whatever they are."""
    import torch
    from dpopt.torch import make_private

    X, y = table(record, "regression")
    with np.errstate(all="ignore"):
        data = (torch.tensor(X.astype(np.float32)), torch.tensor(y.astype(np.float32)))
    guess = {"dataset_size": ROWS} if relation == "add-or-remove" else {"physical_batch_size": 4}

    def run():
        torch.manual_seed(0)
        model = sorting() if form == "sorting" else torch.nn.Sequential(
            torch.nn.Linear(COLUMNS, 4), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1)
        )  # fmt: skip
        model, optimizer, loader = make_private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), data, epsilon=5.0, delta=1e-4, epochs=1, batch_size=10, max_grad_norm=1.0,
            relation=relation, insecure_seed=6, loss=lambda out, t: torch.nn.functional.mse_loss(out[:, 0], t), **guess,
        )  # fmt: skip
        for x, target in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x)[:, 0], target).backward()
            optimizer.step()
        finite = of_network(model)
        released = [(r["label"], r["count"]) for r in optimizer.releases]
        return len(loader), finite, str(optimizer.privacy_), optimizer.privacy_.event.to_json(), released

    return observed(run)


def clipped_sums(relation, record):
    """Sums of clipped gradients that were made outside, where a missing or infinite gradient counts as nothing."""
    X, _ = table(record, "regression")

    def run():
        made = dpopt.ClippedSums(
            np.zeros(COLUMNS), dataset_size=ROWS, sampling_probability=0.3, steps=3, clip_norm=1.0, epsilon=5.0, delta=1e-5,
            relation=relation, insecure_seed=6,
        )  # fmt: skip
        seen = []
        for _ in range(3):
            with np.errstate(all="ignore"):
                rows = X[made.sample()]
                rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
                size = np.abs(rows).max(axis=1, initial=1.0, keepdims=True)
                rows = rows / size / np.maximum(np.linalg.norm(rows / size, axis=1, keepdims=True), 1.0)
            mean = made.step(rows.sum(axis=0))
            seen.append((structure(mean), bool(np.isfinite(mean).all())))
        return (
            seen,
            str(made.privacy_),
            made.privacy_.event.to_json(),
            [(r["label"], r["count"]) for r in made.releases],
        )

    return observed(run)


def forward_passes(relation, record):
    """A PyTorch network that is trained with losses alone."""
    import torch
    from dpopt.torch import ZerothOrder

    X, y = table(record, "regression")
    with np.errstate(all="ignore"):
        data = [torch.tensor(a.astype(np.float32)) for a in (X, y)]

    def run():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        private = ZerothOrder(
            model, torch.optim.SGD(model.parameters(), lr=0.1), dataset_size=ROWS, sampling_probability=0.3, steps=3, clip_norm=1.0,
            directions=2, epsilon=5.0, delta=1e-5, relation=relation, insecure_seed=6,
            physical_batch_size=None if relation == "add-or-remove" else 16,
        )  # fmt: skip
        for _ in range(3):
            at = private.sample()
            private.step(lambda x, t: (model(x)[:, 0] - t).square(), data[0][at], data[1][at])
        finite = of_network(model)
        released = [(r["label"], r["count"]) for r in private.releases]
        return finite, str(private.privacy_), private.privacy_.event.to_json(), released

    return observed(run)


def gradients_of_records(relation, form, record):
    """A PyTorch network whose gradients `minimize` takes record by record."""
    import torch
    from dpopt.torch import RecordGradients

    X, y = table(record, "regression")
    with np.errstate(all="ignore"):
        data = [torch.tensor(a.astype(np.float32)) for a in (X, y)]

    def run():
        torch.manual_seed(0)
        model = sorting() if form == "sorting" else torch.nn.Sequential(
            torch.nn.Linear(COLUMNS, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
        )  # fmt: skip
        each = RecordGradients(model, lambda out, t: (out[:, 0] - t).square())
        with np.errstate(all="ignore"):
            found = dpopt.minimize(
                each, tuple(data), each.start(), epsilon=5.0, delta=1e-5, neighbors=relation, steps=4, insecure_seed=3,
                n_records=ROWS if relation == "add-or-remove" else None,
            )  # fmt: skip
        each.load(found.x)
        finite = of_network(model)
        return finite, [p.grad is None for p in model.parameters()], repr(found.plan_), str(found.privacy_)

    return observed(run)


def client(record, loss, q, by_unit=False):
    """A Flower client's rounds."""
    from dpopt.flower import PrivateClient

    task, whose = "two classes" if loss == "logistic" else "regression", {}
    X, y = table(record, task)
    if by_unit:
        X, y, ids = persons(record, task)
        whose = {"units": ids, "unit": dpopt.Unit(count=41, max_rows=2)}
    y = 2 * y - 1 if loss == "logistic" else y

    def run():
        made = PrivateClient(
            X, y, epsilon=5.0, delta=1e-5, rounds=2, loss=loss, sampling_probability=q, insecure_seed=6, **whose
        )
        first = made.fit([np.zeros(COLUMNS)], {})
        second = made.fit(first[0], {})
        finite = [bool(np.isfinite(w).all()) for w in (*first[0], *second[0])]
        return structure(second), finite, [(r["label"], r["count"]) for r in made.releases]

    return observed(run)


def encoder(name, record):
    X, y = table(record, "three classes")
    made = {
        "PublicScaler": (lambda: dpopt.PublicScaler(bounds=(-1, 1)), X),
        "PublicOneHot": (
            lambda: dpopt.PublicOneHot(categories=[[0, 1, 2]]),
            np.array([{"a": 1} if v == 77 else v for v in y], dtype=object)[:, None],
        ),
        "HashingEncoder": (lambda: dpopt.HashingEncoder(n_features=8), y.astype(object)[:, None]),
    }[name]
    return observed(lambda: structure(made[0]().fit_transform(made[1])))


def table_encoder(record):
    frame, _ = columns(record, "regression")
    made = dpopt.TableEncoder(
        bounds={"number": (-1, 1)}, columns=dpopt.Columns(levels={"levels": ["f", "m"]}, hashed=["hash"], text=["text"])
    )
    return observed(lambda: (made.fit_transform(frame).shape, made.get_feature_names_out().tolist()))


def text_encoder(record):
    frame, _ = columns(record, "regression")
    made = dpopt.TextEncoder(lambda text: np.array([len(text), 1.0]))
    return observed(lambda: made.fit_transform(list(frame["text"])).shape)


def experts(record, relation, delta=1e-3):
    """A game in one of whose rounds the losses are the record's; pure, it is played by blocks."""

    def play():
        game = dpopt.online.Experts(3, 12, 1.0, delta, neighbors=relation, insecure_seed=1)
        seen = []
        while (expert := game.play()) is not None:
            seen.append((game.observed, structure(expert)))
            game.observe([record[0], record[2], 0.5] if game.observed == 4 else [0.1, 0.9, 0.5])
        return seen, game.player, game.regret_bound, str(game.privacy)

    return observed(play)


def points(record, relation, losses):
    """A game of points in one of whose rounds the gradient is the record's."""

    def play():
        game = dpopt.online.OnlineConvex(
            3, 12, 1.0, 1e-3, radius=1.0, losses=losses, neighbors=relation, insecure_seed=1
        )
        seen = []
        while (x := game.play()) is not None:
            seen.append((game.observed, structure(x), bool(np.linalg.norm(x) <= 1 + 1e-9)))
            game.observe([record[0], record[2], 0.5] if game.observed == 4 else [0.1, 0.9, -0.5])
        return seen, game.plan, str(game.privacy)

    return observed(play)


def arms(record, relation):
    """A game of arms in one of whose rounds the reward is the record's."""

    def play():
        game = dpopt.online.Bandit(2, 40, 1.0, neighbors=relation, insecure_seed=1)
        seen = []
        while (arm := game.play()) is not None:
            seen.append((game.observed, structure(arm)))
            game.observe(record[2] if game.observed == 4 else 0.5)
        return seen, game.plan, str(game.privacy)

    return observed(play)


def stream(record, relation, task):
    """A model that learns in eight batches, with the record in the first; looked at after each."""
    X, y = table(record, task)
    facts = (
        {"target_bounds": (-1.5, 1.5)}
        if task == "regression"
        else {"classes": [0, 1] if task == "two classes" else [0, 1, 2]}
    )
    kind = dpopt.LinearRegression if task == "regression" else dpopt.LogisticRegression

    def learn():
        model = kind(
            epsilon=5.0,
            delta=1e-6,
            method=dpopt.methods.Auto(steps=8),
            bounds=(-1, 1),
            n_rows=ROWS,
            neighbors=relation,
            insecure_seed=3,
            **facts,
        )
        size = ROWS // 8
        return [of_model(model.partial_fit(X[i : i + size], y[i : i + size]), X) for i in range(0, ROWS, size)]

    return observed(learn)


def cases():
    """Every (name, function from a record to what is observed)."""
    for name, case in fits():
        yield name, lambda record, case=case: run_fit(case, record)
    for task, relation, (how, options) in itertools.product(
        ("two classes", "three classes", "regression"), RELATIONS, NAMED.items()
    ):
        kinds = {
            "regression": [dpopt.Ridge, dpopt.LinearRegression, dpopt.TwoTowerRegressor],
            "two classes": [
                dpopt.LogisticRegression,
                dpopt.LinearSVC,
                dpopt.EmbeddingClassifier,
                dpopt.TwoTowerClassifier,
            ],
            "three classes": [dpopt.LogisticRegression, dpopt.EmbeddingClassifier],
        }[task]
        if (relation, how) != ("zero-out", "declared"):
            kinds = kinds[: 2 if task == "regression" else 1]
        for kind in kinds if "classes" not in options or task != "regression" else []:
            yield (
                f"columns {kind.__name__} {relation} {task}, {how}",
                lambda record, given=(kind, relation, task, options): named(*given, record),
            )
    for task, relation in itertools.product(("two classes", "three classes", "regression"), RELATIONS):
        kind = dpopt.LinearRegression if task == "regression" else dpopt.LogisticRegression
        for form in ("dense", "float32", "pandas", "lists", "objects") if relation == "zero-out" else ("dense",):
            yield (
                f"encoded {kind.__name__} {relation} {form} {task}",
                lambda record, given=(kind, relation, task, form): encoded(*given, record),
            )
    kinds = {
        "two classes": (dpopt.LogisticRegression, dpopt.LinearSVC, dpopt.EmbeddingClassifier, dpopt.TwoTowerClassifier),
        "three classes": (dpopt.LogisticRegression,),
        "regression": (dpopt.LinearRegression, dpopt.TwoTowerRegressor),
    }
    for (task, some), relation, (how, options) in itertools.product(kinds.items(), RELATIONS, BY_UNIT.items()):
        for kind in some:
            embedding = kind in MORE
            if how == "labels found" and (task == "regression" or kind is not dpopt.LogisticRegression):
                continue
            if embedding and ("method" in options or how == "columns"):
                continue
            yield (
                f"units {kind.__name__} {relation} {task}, {how}",
                lambda record, given=(kind, relation, task, how): by_unit(*given, record),
            )
    for relation in ("zero-out", "replace-one"):
        yield f"online experts {relation}", lambda record, relation=relation: experts(record, relation)
        yield f"online experts {relation}, pure", lambda record, relation=relation: experts(record, relation, 0.0)
        yield f"online bandit {relation}", lambda record, relation=relation: arms(record, relation)
        for losses in ("linear", "convex"):
            yield (
                f"online convex {losses} {relation}",
                lambda record, given=(relation, losses): points(record, *given),
            )
    for relation, task in itertools.product(RELATIONS, ("two classes", "three classes", "regression")):
        yield f"partial_fit {task} {relation}", lambda record, given=(relation, task): stream(record, *given)
    yield "TableEncoder", table_encoder
    yield "TextEncoder", text_encoder
    for task in ("three classes", "regression"):
        yield f"PrivateSearchCV {task}", lambda record, task=task: search(record, task)
        yield f"PrivateSearchCV {task}, columns", lambda record, task=task: search_of_columns(record, task)
    for relation, form in itertools.product(("zero-out", "replace-one"), ("dense", "columns")):
        yield (
            f"PrivateSearchCV {relation}, {form} by unit",
            lambda record, given=(relation, form): search_by_unit(*given, record),
        )
    for name, relation, by in itertools.product(MECHANISMS, RELATIONS, ("row", "unit")):
        yield (
            f"{name} {relation} by {by}",
            lambda record, given=(name, relation, by == "unit"): release(*given, record),
        )
    for relation, spread in itertools.product(RELATIONS, (None, 0.05)):
        yield (
            f"columns MeanEstimator {relation}{'' if spread is None else ', in rounds'}",
            lambda record, given=(relation, spread): mean_of_columns(*given, record),
        )
    for relation, most in itertools.product(RELATIONS, (None, 2)):
        yield (
            f"units MeanEstimator {relation}, {'all' if most is None else 'some'} rows",
            lambda record, given=(relation, most): mean_by_unit(*given, record),
        )
        yield (
            f"units MeanEstimator {relation}, {'all' if most is None else 'some'} rows, in rounds",
            lambda record, given=(relation, most): mean_by_unit(*given, record, spread=0.05),
        )
    for loss, q, by in itertools.product(("logistic", "squared"), (0.5, 1.0), ("row", "unit")):
        yield (
            f"PrivateClient {loss} q={q} by {by}",
            lambda record, given=(loss, q, by == "unit"): client(record, *given),
        )
    for case, relation in itertools.product(OBJECTIVES, RELATIONS):
        yield f"minimize {case} {relation}", lambda record, given=(case, relation): minimized(*given, record)
    for relation, curved in itertools.product(RELATIONS, (False, True)):
        yield (
            f"stationary {relation}{' with curvature' if curved else ''}",
            lambda record, given=(relation, curved): most_stationary(*given, record),
        )
    for relation in RELATIONS:
        yield f"ClippedSums {relation}", lambda record, relation=relation: clipped_sums(relation, record)
    # PyTorch is optional
    for relation in RELATIONS if importlib.util.find_spec("torch") else ():
        yield f"make_private {relation} by unit", lambda record, relation=relation: network_by_unit(relation, record)
        yield f"ZerothOrder {relation}", lambda record, relation=relation: forward_passes(relation, record)
        for form in ("plain", "sorting"):
            given = (relation, form)
            yield f"make_private {relation} {form}", lambda record, given=given: network(*given, record)
            yield f"RecordGradients {relation} {form}", lambda record, given=given: gradients_of_records(*given, record)
    for name in ("PublicScaler", "PublicOneHot", "HashingEncoder"):
        yield name, lambda record, name=name: encoder(name, record)


def differing(run):
    """(number of pairs, descriptions of those that differ, whether the base table is refused) of one case."""
    base, found = run(MISSING), []
    for hostile, record in HOSTILE.items():
        other = run(record)
        if other != base:
            found.append((hostile, difference(base, other)))
    return len(HOSTILE), found, base[0][0] == "error"


def difference(a, b):
    """The first place where two observations differ, for the developer who reads this."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        key = next(k for k in a if a[k] != b[k])
        return f"{key}: {difference(a[key], b[key])}"
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return difference(*next((x, y) for x, y in zip(a, b) if x != y))
    return f"{str(a)[:300]!r} against {str(b)[:300]!r}"


def worker(inbox, outbox):
    """Answers with the result of each case by its number, in a process that can be ended if it hangs."""
    known = list(cases())
    while (at := inbox.recv()) is not None:
        outbox.send((at, differing(known[at][1])))


class Comparer:
    """One process that runs cases; started again where a case took too long."""

    def __init__(self):
        self.start()

    def start(self):
        context = multiprocessing.get_context("spawn")
        here, self.inbox = context.Pipe(duplex=False)
        self.outbox, there = context.Pipe(duplex=False)
        self.process = context.Process(target=worker, args=(here, there), daemon=True)
        self.process.start()

    def compare(self, at):
        self.inbox.send(at)
        # a fit per record, each within the limit
        if not self.outbox.poll(LIMIT):
            self.process.kill()
            self.start()
            return len(HOSTILE), [("any", f"did not end within {LIMIT:g} s")], False
        return self.outbox.recv()[1]

    def stop(self):
        self.inbox.send(None)


def compared(chosen, jobs):
    """(number of the case, what was found) of every chosen case, in any order, from `jobs` processes side by side."""
    waiting, results = queue.SimpleQueue(), queue.SimpleQueue()
    for at in chosen:
        waiting.put(at)

    def compare():
        comparer = Comparer()
        try:
            while True:
                at = waiting.get_nowait()
                results.put((at, comparer.compare(at)))
        except queue.Empty:
            comparer.stop()
        except BaseException as error:
            results.put((None, error))

    for _ in range(min(jobs, len(chosen))):
        threading.Thread(target=compare, daemon=True).start()
    for _ in chosen:
        at, found = results.get()
        if at is None:
            raise found
        yield at, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--full", action="store_true", help="compare everything (half an hour or more; prints how far it is)"
    )
    parser.add_argument(
        "--slice", default=(0, 23), type=int, nargs=2, metavar=("FIRST", "STEP"), help="which cases without --full"
    )
    parser.add_argument("--jobs", default=os.cpu_count() or 1, type=int, help="processes side by side")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    given = parser.parse_args()
    names = [name for name, _ in cases()]
    chosen = [at for at, name in enumerate(names) if given.only in name]
    if not given.full:
        chosen = chosen[given.slice[0] :: given.slice[1]]
    pairs = wrong = refused = 0
    began = time.monotonic()
    for done, (at, (made, found, error)) in enumerate(compared(chosen, given.jobs), 1):
        pairs, wrong, refused = pairs + made, wrong + len(found), refused + made * error
        for hostile, text in found:
            print(f"{names[at]} | {hostile} | {text}", flush=True)
        if done % 100 == 0:
            minutes = (time.monotonic() - began) / 60
            print(f"{done} of {len(chosen)} cases in {minutes:.0f} min, differing {wrong}", file=sys.stderr, flush=True)
    print(f"{refused} of the pairs are refused on both sides, in the same words")
    print(f"python pairs {pairs}, differing {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    # one thread per process: the test is made of small fits
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
