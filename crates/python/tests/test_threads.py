"""What docs/threads.md promises: Ctrl-C ends any call within a second, and objects in several threads at once do what they do in one."""

import copy
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dpopt
import long_calls
import numpy as np
import pytest
from dpopt import _free_threaded, _one_fit, accounting, mechanisms, online
from sklearn.base import clone

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

#: Seconds within which Ctrl-C ends a call.
PROMISED = 1.0
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


class Process:
    """A process that makes long calls."""

    def __init__(self):
        path = Path(long_calls.__file__)
        self.process = subprocess.Popen(
            [sys.executable, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.greeting = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"the process has ended: {self.process.wait()}"
        return json.loads(line)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def make(self, call, *given):
        """Everything that the call needs."""
        self.tell(json.dumps([call.__name__, *map(str, given)]))
        assert self.answer() == {"made": call.__name__}

    def interrupt(self):
        """Makes the call, and presses Ctrl-C when it has begun. Its message, and how long after: by the clock, or in the process's own time, where the machine
        is busy with other work."""
        self.tell("")
        begun = self.answer()
        assert "begun" in begun, f"it was over before it could be interrupted: {begun}"
        os.kill(self.process.pid, signal.SIGINT)
        became = self.answer()
        assert became["became"] == "interrupted", became
        after = min(then - now for then, now in zip(became["clocks"], begun["clocks"]))
        return became["message"], after, begun["begun"]

    def end(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def process():
    made = []

    def alive():
        if not made or made[-1].process.poll() is not None:
            made.append(Process())
        return made[-1]

    yield alive
    for one in made:
        one.end()


def stops(process, call, *given):
    process.make(call, *given)
    message, after, where = process.interrupt()
    print(f"{call.__name__}: {after:.3f} s after Ctrl-C, at {where}")
    assert after < PROMISED, (after, where)
    return message


@posix
@pytest.mark.parametrize(
    "call",
    [*long_calls.USUAL, *(pytest.param(call, marks=pytest.mark.slow) for call in long_calls.LONGER)],
    ids=lambda call: call.__name__,
)
def test_ctrl_c_ends_it_within_a_second(process, call):
    stops(process(), call)


@posix
def test_what_was_charged_stays_charged_and_the_file_is_whole(process, tmp_path):
    path = tmp_path / "people.ledger"
    child = process()
    message = stops(child, long_calls.fit_with_a_ledger, path)
    assert "what was charged stays charged" in message and "nothing was released" in message
    (entry,) = dpopt.Ledger.open(path).entries
    assert (entry.name, entry.epsilon) == ("LogisticRegression", 1.0)
    # the process is as good as before
    message = stops(child, long_calls.fit_with_a_ledger, path)
    assert len(dpopt.Ledger.open(path).entries) == 2


@posix
@pytest.mark.parametrize(
    "call",
    [long_calls.charge_of_a_ledger_that_is_held, long_calls.opening_of_a_ledger_that_is_held],
    ids=lambda call: call.__name__,
)
def test_waiting_for_a_ledger_that_another_process_holds_ends(process, tmp_path, call):
    fcntl = pytest.importorskip("fcntl")
    path, child = tmp_path / "people.ledger", process()
    child.make(call, path)
    before = path.read_bytes()
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        _, after, _ = child.interrupt()
        assert after < PROMISED
        assert path.read_bytes() == before
    # nobody holds it any more, and nothing is in it
    ledger = dpopt.Ledger.open(path)
    ledger.charge("another", "laplace(10)", epsilon=0.2, delta=0.0)
    assert [entry.name for entry in ledger.entries] == ["another"]


@posix
def test_a_ledger_goes_on_after_its_wait_was_interrupted(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "people.ledger"
    ledger = dpopt.Ledger(4.0, 1e-5, path=path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with path.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            pressed = when_waiting(lambda: os.kill(os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                ledger.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)
            pressed.join()
    finally:
        signal.signal(signal.SIGINT, before)
    ledger.charge("two", "laplace(10)", epsilon=0.2, delta=0.0)
    assert [entry.name for entry in ledger.entries] == ["two"]


def when_waiting(then, thread=None):
    """Calls `then` when a thread has been at one instruction for a while: the main one, unless another is named."""
    of = threading.main_thread().ident if thread is None else thread.ident

    def look():
        at, since = None, time.monotonic()
        while time.monotonic() - since < long_calls.INSIDE:
            time.sleep(0.005)
            frame = sys._current_frames()[of]
            if (frame, frame.f_lasti) != at:
                at, since = (frame, frame.f_lasti), time.monotonic()
        then()

    looking = threading.Thread(target=look)
    looking.start()
    return looking


@posix
def test_ctrl_c_is_heard_while_another_thread_has_the_ledger(tmp_path):
    """The main thread waits for an object that a thread of its own process is at work with."""
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "people.ledger"
    ledger = dpopt.Ledger(4.0, 1e-5, path=path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Thread(target=lambda: ledger.charge("other", "laplace(10)", epsilon=0.2, delta=0.0), daemon=True)
    try:
        with path.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            other.start()
            when_waiting(lambda: None, other).join()
            pressed = when_waiting(lambda: os.kill(os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                ledger.charge("main", "laplace(10)", epsilon=0.2, delta=0.0)
            pressed.join()
    finally:
        signal.signal(signal.SIGINT, before)
    other.join()
    assert [entry.name for entry in ledger.entries] == ["other"]


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt])
def test_what_a_callable_raises_comes_out_as_it_is(raised):
    rows, tried = np.zeros((500, 2)), []

    def gradients(x, batch):
        # not while it is tried on made-up records
        tried.append(len(batch) and not batch.any())
        if tried[-1] and len(tried) > 40:
            raise raised("from the callable")
        return np.zeros((len(batch), 2))

    def event(noise):
        raise raised("from the callable")

    calls = [
        lambda: accounting.calibrate(event, 1.0, 1e-6),
        lambda: dpopt.minimize(gradients, (rows,), np.zeros(2), epsilon=1.0, delta=1e-6, method="noisy-gradient-descent", steps=500, show_errors=True),
        lambda: dpopt.audit.audit(lambda data: event(data), 1.0, 0.0, epsilon=1.0, delta=1e-6, runs=100, progress=False),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(raised) as caught:
            call()
        assert str(caught.value) == "from the callable"


# Several threads.

FACTS = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1]}


def table(n=4000, d=6, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    return X, (X[:, 0] > 0).astype(int)


def at_once(*works):
    """What each gives, begun together in a thread of its own."""
    together = threading.Barrier(len(works))

    def begin(work):
        together.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [done.result() for done in [pool.submit(begin, work) for work in works]]


def test_fits_at_once_are_what_they_are_one_after_the_other():
    X, y = table()
    names = [f"x{j}" for j in range(X.shape[1])]

    def matrix(seed):
        return dpopt.LogisticRegression(**FACTS, insecure_seed=seed).fit(X, y).coef_

    def encoded(seed):
        return dpopt.LogisticRegression(**FACTS, encoding={}, insecure_seed=seed).fit(X, y).coef_

    def mean(seed):
        return dpopt.MeanEstimator(epsilon=1.0, delta=1e-6, bounds=(-1, 1), insecure_seed=seed).fit(X).mean_

    def smallest(seed):
        found = dpopt.minimize(
            dpopt.objectives.RobustRegression(len(names)), (X, X[:, 0]), np.zeros(6), epsilon=1.0, delta=1e-6, insecure_seed=seed
        )  # fmt: skip
        return found.x

    works = [lambda f=f, seed=seed: f(seed) for f in (matrix, encoded, mean, smallest) for seed in (1, 2)]
    alone = [work() for work in works]
    for one, other in zip(alone, at_once(*works)):
        assert np.array_equal(one, other)
    assert not np.array_equal(alone[0], alone[1])


def test_one_model_predicts_in_several_threads():
    X, y = table()
    model = dpopt.LogisticRegression(**FACTS, insecure_seed=1).fit(X, y)
    encoded = dpopt.LogisticRegression(**FACTS, encoding={}, insecure_seed=1).fit(X, y)
    expected = [model.predict_proba(X), encoded.predict_proba(X)]
    works = [lambda model=model: model.predict_proba(X) for model in (model, encoded)] * 3
    for got, of in zip(at_once(*works), expected * 3):
        assert np.array_equal(got, of)


class Waiting(dpopt.Ledger):
    """A ledger that says when it is charged, and waits until it may go on."""

    def _charged(self, *given):
        self.begun.set()
        assert self.go_on.wait(600)
        return super()._charged(*given)


def fits():
    X, y = table(500)
    learning = {"method": dpopt.methods.DPFTRL(steps=3), "n_rows": 1500}
    return {
        "matrix": (dpopt.LogisticRegression(**FACTS), lambda m: m.fit(X, y)),
        "table": (dpopt.LogisticRegression(**FACTS, encoding={}), lambda m: m.fit(X, y)),
        "regression": (dpopt.LinearRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1)), lambda m: m.fit(X, X[:, 0])),
        "mean": (dpopt.MeanEstimator(epsilon=1.0, delta=1e-6, bounds=(-1, 1)), lambda m: m.fit(X)),
        "stream": (dpopt.LogisticRegression(**FACTS, **learning), lambda m: m.partial_fit(X, y)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["matrix", "table", "regression", "mean", "stream"])
def test_one_estimator_is_fitted_by_one_thread_at_a_time(kind):
    model, fit = fits()[kind]
    ledger = Waiting(10.0, 1e-4)
    ledger.begun, ledger.go_on = threading.Event(), threading.Event()
    model.set_params(budget=ledger)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(fit, model)
        assert ledger.begun.wait(600)
        try:
            with pytest.raises(RuntimeError, match=r"fitted by another thread.*nothing was charged.*clone"):
                fit(model)
            # another object is nobody's business
            free = clone(model).set_params(budget=None)
            fit(free)
        finally:
            ledger.go_on.set()
        assert first.result() is model
    assert len(ledger.entries) == 1 and model.privacy_.epsilon <= 1.0
    # and it is free again
    assert not _one_fit._FITTING
    fit(model)


def test_a_search_is_fitted_by_one_thread_at_a_time():
    X, y = table(500)
    search = dpopt.select.PrivateSearchCV(
        dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"method__shift": [0.0]}, epsilon=3.0, delta=1e-6
    )
    with _one_fit._alone(search):
        refused = ThreadPoolExecutor(1).submit(search.fit, X, y)
        assert isinstance(refused.exception(600), RuntimeError)
    assert search.fit(X, y).best_params_ == {"method__shift": 0.0}


def test_a_fit_that_fails_leaves_the_estimator_as_it_was():
    X, y = table(500)
    model = dpopt.LogisticRegression(**{**FACTS, "classes": ["no", "yes"]}).fit(X, np.where(y == 1, "yes", "no"))
    before = dict(vars(model))
    for failing, budget in [
        (lambda: model.fit(X[:, :2], np.where(y == 1, "yes", "no")), dpopt.Ledger(0.1, 1e-9)),
        (lambda: model.fit(X, y[:10]), None),
    ]:
        model.budget = budget
        with pytest.raises(ValueError):
            failing()
        model.budget = None
        assert vars(model) == before
    assert model.predict(X).shape == (500,)


def test_threads_charge_one_ledger_once_each(tmp_path):
    X, y = table(500)
    for path in (None, tmp_path / "people.ledger"):
        ledger = dpopt.Ledger(8.0, 1e-4, path=path)
        works = [lambda: dpopt.LogisticRegression(**FACTS, budget=ledger).fit(X, y)] * 4
        works += [lambda: mechanisms.laplace_sum(X, 1.0, epsilon=0.5, ledger=ledger)] * 4
        at_once(*works)
        names = [entry.name for entry in ledger.entries]
        assert sorted(names) == ["fit y of a matrix"] * 4 + ["laplace sum"] * 4


def test_threads_spend_no_more_than_there_is():
    ledger = dpopt.Ledger(1.0, 1e-6)

    def charge():
        try:
            ledger.charge("one", "laplace(10)", epsilon=0.15, delta=0.0)
        except dpopt.BudgetExceeded:
            return 0
        return 1

    # six times .15 fit
    assert sum(at_once(*[charge] * 12)) == len(ledger.entries) == 6
    assert ledger.remaining[0] == pytest.approx(0.1)


def test_games_and_sums_of_several_threads_count_each_step_once():
    game = online.Experts(4, 400, 2.0, 1e-4)

    def play():
        for _ in range(50):
            game.play()
            game.observe([0.0, 1.0, 0.5, 0.25])

    at_once(*[play] * 4)
    assert game.observed == 200


def kept_waiting(work):
    """How long `work` of another thread takes, and how long this one had to wait for the interpreter at a time: in the process's own time, in which other work of
    the machine is not."""
    ticks, over = [time.process_time()], threading.Event()

    def run():
        work()
        over.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not over.is_set():
        time.sleep(0.001)
        ticks.append(time.process_time())
    thread.join()
    # it may have been over at once
    ticks.append(time.process_time())
    return ticks[-1] - ticks[0], max(np.diff(ticks))


def native_works():
    values = np.random.default_rng(0).integers(0, 50, 12_000_000)
    X = np.random.default_rng(0).uniform(-1, 1, (100_000, 30))
    network = dpopt.objectives.Network(30, [64, 2])
    start, labels = network.start(1), [f"label {k % 100_000}" for k in range(400_000)]
    noise, event = mechanisms._laplace_noise(1.0, 1, "zero-out")
    text = " + ".join(f"laplace({1 + k * 0.01})" for k in range(100_000))
    columns = [(f"x{j}", (np.tile(X[:, j], 3), None)) for j in range(30)]

    def histogram():
        session = dpopt._core.Session("one", "one", (event.to_json(), 1.0, 0.0, "zero-out"), None, None)
        return dpopt._core.histogram(values, 50, noise, session)

    return {
        "moments": lambda: mechanisms.second_moment(X, 1.0, epsilon=1.0, delta=1e-6),
        "histogram": histogram,
        "network": lambda: network.outputs(start, X[:50_000]),
        "random numbers": lambda: dpopt._core.random_below(10, 3_000_000, None),
        "parser": lambda: dpopt._core.parse(text, None),
        "audit": lambda: dpopt.audit.audit_samples(X.ravel(), -X.ravel(), epsilon=1.0, delta=1e-6),
        "columns of numbers": lambda: dpopt._core.Table.to_read("table", columns),
        # read with the lock, which is let go now and then
        "columns of objects": lambda: dpopt._core.Table.to_read("table", [("a", labels)]),
    }


def test_other_threads_go_on_while_native_code_is_at_work():
    for name, work in native_works().items():
        # a thread may have to wait for a core on a busy machine, but not each time
        shares = []
        for _ in range(8):
            took, longest = kept_waiting(work)
            shares.append(longest / took)
            if longest < max(0.25 * took, 0.02):
                break
        else:
            pytest.fail(f"{name}: others had to wait for {min(shares):.0%} of its time")


# Forks: test_copies.py. Here is what a fork must not take over from a thread that it does not have.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_fits_what_a_thread_of_its_parent_was_fitting():
    X, y = table(300)
    model = dpopt.LogisticRegression(**FACTS)
    _one_fit._FITTING[id(model)] = (os.getpid(), -1)
    try:
        child = os.fork()
        if child == 0:
            try:
                model.fit(X, y)
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(RuntimeError, match="another thread"):
            model.fit(X, y)
    finally:
        del _one_fit._FITTING[id(model)]


# Free-threaded Python.


def test_python_without_its_lock_is_refused_by_name(monkeypatch):
    _free_threaded.check()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(ImportError, match="does not support Python without its global lock yet.*PYTHON_GIL=0"):
        _free_threaded.check()


def test_an_abi3_module_that_cannot_be_loaded_is_explained(monkeypatch):
    monkeypatch.delattr(dpopt, "_core")
    monkeypatch.setitem(sys.modules, "dpopt._core", None)
    with pytest.raises(ImportError) as plain:
        _free_threaded.check()
    assert "abi3" not in str(plain.value)
    monkeypatch.setattr(_free_threaded, "is_built_for", lambda: True)
    with pytest.raises(ImportError, match="built for Python with its global lock.*python3.13 and not python3.13t"):
        _free_threaded.check()


def test_the_compiled_module_asks_for_the_lock():
    source = Path(__file__).parents[1] / "src" / "lib.rs"
    assert "#[pyo3::pymodule(gil_used = true)]" in source.read_text(encoding="utf-8")


def test_the_page_is_linked():
    docs = Path(__file__).parents[3] / "docs"
    assert "docs/threads.md" in dpopt.__doc__
    for page in (docs.parent / "README.md", docs / "python.md"):
        assert "threads.md" in page.read_text(encoding="utf-8")
    named = {
        name
        for name in ("test_threads.py", "test_interrupt.py", "test_copies.py")
        if name in (docs / "threads.md").read_text(encoding="utf-8")
    }
    assert all((Path(__file__).parent / name).exists() for name in named) and len(named) == 3


def test_a_copy_of_an_estimator_may_be_made_while_it_is_fitted():
    model = dpopt.LogisticRegression(**FACTS)
    with _one_fit._alone(model):
        assert copy.deepcopy(model).get_params() == model.get_params()
