"""Ctrl-C ends native work within a second: nothing is released, what was charged stays charged, and the next run is what it was."""

import os
import signal
import sys
import threading
import time

import dpopt
import numpy as np
import pytest
from dpopt import accounting, mechanisms

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]

#: Seconds until the signal comes, and until it has to have been heard.
BEGUN, PATIENCE = 0.4, 3.0


@pytest.fixture(autouse=True)
def _heard():
    """A shell that starts this in the background lets nobody hear Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def clocks():
    return np.array([time.monotonic(), time.process_time()])


def interrupted(work, begun=lambda: True):
    """What `work` raises when Ctrl-C comes in its middle, after `begun()`, and how long after: in the process's own time where the machine is
    busy with other work, by the clock where many cores work for it."""
    at = []

    def press():
        while not begun():
            time.sleep(0.01)
        start = time.process_time()
        while time.process_time() - start < BEGUN:
            time.sleep(0.01)
        at.append(clocks())
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            work()
        return str(raised.value), min(clocks() - at[0])
    finally:
        pressing.join()


def rows(n, d):
    X = np.random.default_rng(0).uniform(-1, 1, (n, d))
    return X, (X[:, 0] > 0).astype(int)


def long_fit(ledger=None):
    X, y = rows(40_000, 40)
    model = dpopt.LogisticRegression(
        epsilon=1.0,
        delta=1e-6,
        bounds=(-1, 1),
        classes=[0, 1],
        method=dpopt.methods.NoisyGradientDescent(steps=100_000),
        budget=ledger,
    )
    return lambda: model.fit(X, y)


def long_minimisation():
    X = np.random.default_rng(0).uniform(-1, 1, (20_000, 30))
    loss = dpopt.objectives.RobustRegression(30)
    return lambda: dpopt.minimize(
        loss, (X, X[:, 0]), np.zeros(30), epsilon=1.0, delta=1e-6, method="noisy-gradient-descent", steps=300_000
    )


def long_plans():
    def plan():
        for steps in range(10_000, 10**9, 997):
            accounting.calibrate(
                lambda noise, steps=steps: accounting.parse(f"poisson(0.013, gaussian({noise!r})) x {steps}"), 1.0, 1e-6
            )

    return plan


def test_a_fit_ends_and_its_charge_stays(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger = dpopt.Ledger(3.0, 1e-5, path=path)
    opened = path.stat().st_size
    message, after = interrupted(long_fit(ledger), begun=lambda: path.stat().st_size > opened)
    assert after < PATIENCE and "what was charged stays charged" in message and "nothing was released" in message
    # the file is whole, and says so
    assert ledger.share > 0.05
    assert dpopt.Ledger(3.0, 1e-5, path=path).share == ledger.share


@pytest.mark.parametrize("work", [long_minimisation, long_plans], ids=lambda work: work.__name__)
def test_other_work_ends(work):
    _, after = interrupted(work())
    assert after < PATIENCE


def test_what_runs_afterwards_is_the_same():
    X, y = rows(3000, 3)
    fit = lambda: dpopt.LogisticRegression(
        epsilon=2.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], insecure_seed=3
    ).fit(X, y)  # noqa: E731
    before = fit().coef_
    interrupted(long_fit())
    assert (fit().coef_ == before).all()
    total = mechanisms.gaussian_sum(X, 2.0, epsilon=1.0, delta=1e-6, insecure_seed=1).value
    assert np.isfinite(total).all()


def test_a_handler_of_ones_own_is_heard_and_may_let_it_go_on():
    X, y = rows(20_000, 20)
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    try:
        threading.Timer(BEGUN, os.kill, (os.getpid(), signal.SIGINT)).start()
        for _ in range(1000):
            if heard:
                break
            dpopt.LogisticRegression(
                epsilon=1.0,
                delta=1e-6,
                bounds=(-1, 1),
                classes=[0, 1],
                method=dpopt.methods.NoisyGradientDescent(steps=300),
            ).fit(X, y)
        assert heard
    finally:
        signal.signal(signal.SIGINT, before)


def test_work_of_other_threads_goes_on():
    X, y = rows(20_000, 20)
    done = []

    def fit():
        model = dpopt.LogisticRegression(
            epsilon=1.0,
            delta=1e-6,
            bounds=(-1, 1),
            classes=[0, 1],
            method=dpopt.methods.NoisyGradientDescent(steps=2000),
        )
        done.append(model.fit(X, y))

    other = threading.Thread(target=fit)
    other.start()
    interrupted(long_fit())
    other.join()
    assert len(done) == 1
