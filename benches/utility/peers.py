"""Other private tools on the same rows with the same public bounds. Each: (columns, task, terms) -> results.

Noise scales of DP-SGD come from `dpopt account`, for Opacus's own neighbours: its own search stops within .01 of ε, which costs a tenth of
the noise at ε = 0.1, and takes seconds. A result is a dict with the score, and with `setting` where a tool was tried
with several: choosing among those by the test score is what an oracle would do, and is not private.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import encode
import numpy as np
from encode import NotFor

SAMPLING = 0.05


@dataclass
class Terms:
    """What a fit may spend. `noise(sampling probability, steps)` is the noise multiplier of DP-SGD that meets it."""

    epsilon: float
    delta: float
    seed: int
    noise: Callable[[float, int], float]


# Learning rate, steps; the first is what we take for a default: twenty epochs, and for classes the rate of benches/adult. Gradients of
# squared errors grow with the error, and rows have norms up to the root of the number of columns: rates above 1 diverge.
CLASS_SETTINGS = [(2.0, 400), (0.5, 400), (8.0, 400), (2.0, 100), (0.5, 100)]
NUMBER_SETTINGS = [(0.2, 400), (0.05, 400), (0.8, 400), (0.2, 100), (0.05, 100)]
HIDDEN = 32
# DP-EBM's learning rate and rounds; the first is the package's default
EBM_SETTINGS = [(0.01, 300), (0.05, 300), (0.2, 100)]


def ebm(columns, task, terms):
    """DP-EBM: private boosted shape functions."""
    if task == "multiclass":
        raise NotFor("DP-EBM has two classes or a number")
    if any(f.get("text") for f in columns.facts.values()):
        raise NotFor("DP-EBM has no text")
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    numeric = [("lower" in columns.facts[n]) for n in columns.names]
    train, test = (filled(t, columns) for t in (columns.train, columns.test))
    shared = dict(
        epsilon=terms.epsilon,
        delta=terms.delta,
        feature_types=["continuous" if is_number else "nominal" for is_number in numeric],
        privacy_bounds={
            i: (columns.facts[n]["lower"], columns.facts[n]["upper"]) for i, n in enumerate(columns.names) if numeric[i]
        },
        random_state=terms.seed,
        n_jobs=1,
    )
    if task == "regression":
        kind, y = DPExplainableBoostingRegressor, np.clip(columns.y, columns.lower, columns.upper)
        shared |= {"privacy_target_min": columns.lower, "privacy_target_max": columns.upper}
    else:
        kind, y = DPExplainableBoostingClassifier, columns.y
    results = []
    for rate, rounds in EBM_SETTINGS:
        model = kind(learning_rate=rate, max_rounds=rounds, **shared)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(train, y)
            seconds = time.perf_counter() - start
            guess = np.asarray(model.predict(test))
            if task == "regression":
                guess = np.clip(guess, columns.lower, columns.upper)
            chance = model.predict_proba(test)[:, 1] if task == "binary" else None
        setting = {"setting": f"rate {rate:g}, {rounds} rounds", "default": (rate, rounds) == EBM_SETTINGS[0]}
        results.append(told(columns, task, guess, seconds, chance) | setting)
    return results


def filled(table, columns):
    """Missing numbers at the middle of their range, numbers within it: the same for every tool."""
    out = {}
    for n in columns.names:
        fact = columns.facts[n]
        if "lower" in fact:
            values = table[n].to_numpy(float)
            middle = (fact["lower"] + fact["upper"]) / 2
            out[n] = np.clip(np.where(np.isnan(values), middle, values), fact["lower"], fact["upper"])
        else:
            out[n] = table[n].to_numpy(object)
    return np.column_stack([out[n].astype(object) for n in columns.names])


def diffprivlib(columns, task, terms):
    """Objective perturbation for classes, the functional mechanism for numbers; pure ε."""
    import diffprivlib.models as models

    d = columns.x.shape[1]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task == "regression":
            model = models.LinearRegression(
                epsilon=terms.epsilon, bounds_X=(-np.ones(d), np.ones(d)), bounds_y=(-1, 1), random_state=terms.seed
            )
            model.fit(columns.x.astype(float), columns.scaled())
            guess = columns.unscaled(np.ravel(model.predict(columns.test_x.astype(float))))
        else:
            model = models.LogisticRegression(
                epsilon=terms.epsilon, data_norm=columns.norm, max_iter=300, random_state=terms.seed
            )
            model.fit(columns.x.astype(float), columns.y)
            guess = model.predict(columns.test_x.astype(float))
        seconds = time.perf_counter() - start
        chance = model.predict_proba(columns.test_x.astype(float))[:, 1] if task == "binary" else None
    return [told(columns, task, guess, seconds, chance)]


def opacus_linear(columns, task, terms):
    return [opacus(columns, task, terms, setting, hidden=None) for setting in settings(task)]


def opacus_perceptron(columns, task, terms):
    if columns.x.shape[1] > 2000:
        raise NotFor(
            "gradients of every record for a hidden layer on thousands of words are beyond this benchmark's time"
        )
    return [opacus(columns, task, terms, setting, hidden=HIDDEN) for setting in settings(task)]


def settings(task):
    return NUMBER_SETTINGS if task == "regression" else CLASS_SETTINGS


def opacus(columns, task, terms, setting, hidden):
    """DP-SGD with Poisson batches of a twentieth of the rows, clip norm 1."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.set_num_threads(1)
    torch.manual_seed(terms.seed)
    rate, steps = setting
    sigma = terms.noise(SAMPLING, steps)
    outputs = len(columns.target["levels"]) if task == "multiclass" else 1
    d = columns.x.shape[1]
    layers = [torch.nn.Linear(d, outputs)]
    if hidden:
        layers = [torch.nn.Linear(d, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, outputs)]
    start = time.perf_counter()
    module = GradSampleModule(torch.nn.Sequential(*layers), loss_reduction="sum")
    x, n = torch.tensor(columns.x), len(columns.y)
    y = torch.tensor(columns.scaled() if task == "regression" else columns.y)
    y = y if task == "multiclass" else y.float()
    loss = {
        "regression": lambda z, t: torch.nn.functional.mse_loss(z[:, 0], t, reduction="sum") / 2,
        "binary": lambda z, t: torch.nn.functional.binary_cross_entropy_with_logits(z[:, 0], t, reduction="sum"),
        "multiclass": lambda z, t: torch.nn.functional.cross_entropy(z, t, reduction="sum"),
    }[task]
    expected = SAMPLING * n
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=rate / expected),
        noise_multiplier=sigma,
        max_grad_norm=1.0,
        expected_batch_size=expected,
        loss_reduction="sum",
    )
    for _ in range(steps):
        batch = torch.nonzero(torch.rand(n) < SAMPLING)[:, 0]
        optimizer.zero_grad()
        loss(module(x[batch]), y[batch]).backward()
        optimizer.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        z = module(torch.tensor(columns.test_x)).numpy().astype(float)
    if task == "regression":
        guess = columns.unscaled(z[:, 0])
    else:
        guess = z.argmax(1) if task == "multiclass" else (z[:, 0] > 0).astype(int)
    result = told(columns, task, guess, seconds, z[:, 0] if task == "binary" else None)
    return result | {"setting": f"rate {rate:g}, {steps} steps", "default": setting == settings(task)[0]}


def as_matrix(columns):
    """What somebody puts into an array: numbers as they are, levels and words in slots, whose range is [-1, 1] so that an empty one is in the middle;
    training rows, test rows, and the ranges of all."""
    train, test, lower, upper, at = [], [], [], [], 0
    for name in columns.names:
        fact, width = columns.facts[name], 1
        if "lower" in fact:
            blocks = [part[[name]].to_numpy(float) for part in (columns.train, columns.test)]
            ends = float(fact["lower"]), float(fact["upper"])
        else:
            text = encode.TEXT if fact.get("text") else encode.HASHED if fact.get("hash") else None
            width = text or len(fact["levels"]) + 1
            blocks = [x[:, at : at + width] for x in (columns.x, columns.test_x)]
            ends = -1.0, 1.0
        train.append(blocks[0])
        test.append(blocks[1])
        lower += [ends[0]] * width
        upper += [ends[1]] * width
        at += width
    return np.concatenate(train, axis=1), np.concatenate(test, axis=1), (lower, upper)


def dpopt_matrix(columns, task, terms):
    """Our Python estimators on matrices of numbers, with what they do by default."""
    import dpopt

    x, test_x, bounds = as_matrix(columns)
    shared = dict(epsilon=terms.epsilon, delta=terms.delta, bounds=bounds)
    start = time.perf_counter()
    if task == "regression":
        model = dpopt.LinearRegression(target_bounds=(columns.lower, columns.upper), **shared)
    else:
        model = dpopt.LogisticRegression(classes=list(range(len(columns.target["levels"]))), **shared)
    model.fit(x, columns.y)
    seconds = time.perf_counter() - start
    guess = np.asarray(model.predict(test_x))
    chance = model.predict_proba(test_x)[:, 1] if task == "binary" else None
    return [told(columns, task, guess, seconds, chance) | {"method": model.plan_.chosen["method"]}]


def dpopt_table(columns, task, terms):
    """Our Python estimators on the table as it is, with the bounds file's declarations."""
    import dpopt

    return of_table(columns, task, terms, dpopt.LinearRegression if task == "regression" else dpopt.LogisticRegression)


def dpopt_additive(columns, task, terms):
    """Our Python estimators of sums of one function for each column."""
    import dpopt

    return of_table(columns, task, terms, dpopt.AdditiveRegressor if task == "regression" else dpopt.AdditiveClassifier)


def of_table(columns, task, terms, model_class):
    import dpopt

    bounds, declared = {}, {"levels": {}, "hashed": [], "text": []}
    for n in columns.names:
        fact = columns.facts[n]
        if "lower" in fact:
            bounds[n] = {k: fact[k] for k in ("lower", "upper", "transform") if k in fact}
        elif "levels" in fact:
            declared["levels"][n] = fact["levels"]
        else:
            declared["text" if fact.get("text") else "hashed"].append(n)
    target = (
        {"target_bounds": (columns.lower, columns.upper)}
        if task == "regression"
        else {"classes": columns.target["levels"]}
    )
    answers = columns.y if task == "regression" else np.array(columns.target["levels"])[columns.y]
    start = time.perf_counter()
    named = dpopt.Columns(**{k: v for k, v in declared.items() if v})
    model = model_class(epsilon=terms.epsilon, delta=terms.delta, bounds=bounds or None, columns=named, **target)
    model.fit(columns.train, answers)
    seconds = time.perf_counter() - start
    guess = np.asarray(model.predict(columns.test))
    chance = None
    if task != "regression":
        guess = np.array([columns.target["levels"].index(g) for g in guess])
    if task == "binary":
        chance = model.predict_proba(columns.test)[:, list(model.classes_).index(columns.target["levels"][1])]
    return [told(columns, task, guess, seconds, chance) | {"method": model.plan_.chosen["method"]}]


def told(columns, task, guess, seconds, chance):
    result = {"score": encode.accuracy_or_r2(task, columns.test_y, guess), "seconds": round(seconds, 3)}
    if chance is not None:
        from sklearn.metrics import roc_auc_score

        result["auc"] = float(roc_auc_score(columns.test_y, chance))
    return result
