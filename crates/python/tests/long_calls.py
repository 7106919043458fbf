"""Calls that take long on purpose, made in a process of their own: it reads which, says when one is inside native code, and what became of it.

A call has begun when the main thread has been at one instruction of Python for a while, or, where it is made of many short ones, when it has gone on for long. Another
thread sees that, which it can't while the call keeps Python's lock.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings

import dpopt
import numpy as np
from dpopt import accounting, audit, mechanisms, objectives, partitions, select

#: Seconds at one instruction, and of a call that stays at none for so long.
INSIDE, GOING_ON = 0.15, 5.0
FACTS = {"epsilon": 1.0, "delta": 1e-6}
CLASSES = {**FACTS, "bounds": (-1, 1), "encoding": None, "classes": [0, 1]}
DESCENT = {"method": dpopt.methods.NoisyGradientDescent(steps=100_000)}


def rows(n, d):
    X = np.random.default_rng(0).uniform(-1, 1, (n, d))
    return X, (X[:, 0] > 0).astype(int)


def laplaces(count, scale=1.0):
    """As many different mechanisms as a long ledger has."""
    return accounting.ComposedDpEvent([accounting.LaplaceDpEvent(scale * (1 + k / 100)) for k in range(count)])


def fit():
    X, y = rows(20_000, 30)
    return lambda: dpopt.LogisticRegression(**CLASSES, **DESCENT).fit(X, y)


def fit_of_a_table():
    import pandas as pd

    X, y = rows(20_000, 8)
    table = pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y.astype(str))
    bounds = {name: (-1, 1) for name in "abcdefgh"}
    return lambda: dpopt.LogisticRegression(**FACTS, bounds=bounds, classes=["0", "1"], **DESCENT).fit(table, "y")


def fit_of_parts():
    X, y = rows(400_000, 30)
    return lambda: dpopt.LogisticRegression(**CLASSES, **DESCENT).fit(partitions.Here([(X, y), (X, y)]))


def comparison_of_accountants():
    event = laplaces(6000)
    return lambda: accounting.compare(event, 1e-9)


def delta_of_many_parts():
    event = laplaces(1500)
    return lambda: accounting.delta(event, 1.0)


def calibration():
    return lambda: accounting.calibrate(lambda noise: laplaces(3000, noise), 1.0, 1e-9)


def minimisation():
    X, _ = rows(20_000, 30)
    loss = objectives.RobustRegression(30)
    return lambda: dpopt.minimize(loss, (X, X[:, 0]), np.zeros(30), **FACTS, **DESCENT)


def search():
    X, y = rows(20_000, 30)
    inner = dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1], **DESCENT)
    return lambda: select.PrivateSearchCV(inner, {"method__regularization": [0.01, 0.1]}, **FACTS).fit(X, y)


def audit_of_samples():
    draws = np.random.default_rng(0).normal(size=4_000_000)
    return lambda: audit.audit_samples(draws, draws + 1, epsilon=1.0, delta=1e-6)


def second_moment():
    X, _ = rows(30_000, 900)
    return lambda: mechanisms.second_moment(X, 1.0, **FACTS)


def histogram_of_units():
    cells, ids = np.zeros(3_000_000, dtype=int), np.random.default_rng(0).integers(0, 1_000_000, 3_000_000)
    return lambda: mechanisms.histogram(cells, [0, 1], epsilon=1.0, units=ids)


def wide_noise():
    X = np.ones((1, 10_000_000))
    return lambda: mechanisms.laplace_sum(X, 1.0, **FACTS)


def encoding():
    import pandas as pd

    words = np.random.default_rng(0).integers(0, 1000, (300_000, 6)).astype(str)
    table = pd.DataFrame({"text": [" ".join(line) for line in words]})
    encoder = dpopt.TableEncoder(columns=dpopt.Columns(text=["text"])).fit(table)
    return lambda: encoder.transform(table)


def scores_of_a_network():
    network = objectives.Network(64, [256, 256, 2])
    x, X = network.start(1), rows(100_000, 64)[0]
    return lambda: network.outputs(x, X)


def report():
    X, y = rows(200, 2)
    model = dpopt.LogisticRegression(**CLASSES).fit(X, y)
    model.coef_, model.coef_noise_std_ = np.ones((1, 4_000_000)), np.ones((1, 4_000_000))
    return model.report


def fit_with_a_ledger(path):
    X, y = rows(20_000, 30)
    ledger = dpopt.Ledger(4.0, 1e-5, path=path)
    return lambda: dpopt.LogisticRegression(**CLASSES, **DESCENT, budget=ledger).fit(X, y)


def charge_of_a_ledger_that_is_held(path):
    ledger = dpopt.Ledger(4.0, 1e-5, path=path)
    return lambda: ledger.charge("one", accounting.LaplaceDpEvent(10.0), epsilon=0.2, delta=0.0)


def opening_of_a_ledger_that_is_held(path):
    dpopt.Ledger(4.0, 1e-5, path=path)
    return lambda: dpopt.Ledger.open(path)


#: What is fast enough in every run of the tests, and what test-slow has besides.
USUAL = [
    delta_of_many_parts,
    audit_of_samples,
    calibration,
    fit,
    fit_of_a_table,
    minimisation,
    report,
    search,
    second_moment,
]
LONGER = [
    comparison_of_accountants, encoding, fit_of_parts, histogram_of_units, scores_of_a_network, wide_noise,
]  # fmt: skip
OF_A_FILE = [fit_with_a_ledger, charge_of_a_ledger_that_is_held, opening_of_a_ledger_that_is_held]
CALLS = {call.__name__: call for call in (*USUAL, *LONGER, *OF_A_FILE)}


class Watch(threading.Thread):
    """Says that the main thread is inside a call."""

    def __init__(self):
        super().__init__(daemon=True)
        self.main, self.over = threading.main_thread().ident, threading.Event()

    def run(self):
        at, since, made = None, 0.0, time.monotonic()
        while not self.over.wait(0.005):
            frame = sys._current_frames()[self.main]
            if (frame, frame.f_lasti) != at:
                at, since = (frame, frame.f_lasti), time.monotonic()
            if time.monotonic() - since > INSIDE or time.monotonic() - made > GOING_ON:
                where = f"{frame.f_code.co_filename.rpartition(os.sep)[2]}:{frame.f_lineno}"
                answer({"begun": where, "clocks": clocks()})
                return


def clocks():
    """Of the machine, which its processes share, and of this process."""
    return [time.monotonic(), time.process_time()]


def answer(document):
    print(json.dumps(document), flush=True)


def interrupted(work):
    """What becomes of a call that a signal comes into."""
    watch = Watch()
    watch.start()
    try:
        work()
        became = {"became": "done", "clocks": clocks()}
    except KeyboardInterrupt as stopped:
        became = {"became": "interrupted", "message": str(stopped), "clocks": clocks()}
    except Exception as failed:
        became = {"became": f"{type(failed).__name__}: {failed}", "clocks": clocks()}
    watch.over.set()
    watch.join()
    return became


def main():
    """Reads lines of a call and what it is given; after `made` another line, and the call is made."""
    warnings.simplefilter("ignore")
    answer({"ready": True})
    for line in sys.stdin:
        name, *given = json.loads(line)
        work = CALLS[name](*given)
        answer({"made": name})
        sys.stdin.readline()
        answer(interrupted(work))


if __name__ == "__main__":
    import signal

    # a shell that starts this in the background lets nobody hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
