"""A copy of an estimator spends from the same ledger, wherever it goes; where it cannot, it refuses to go. What goes on with one charge is never copied, and
goes on in the process that opened it."""

import ast
import copy
import multiprocessing
import os
import pickle
import signal
import threading
from pathlib import Path

import dpopt
import joblib
import numpy as np
import pytest
from dpopt import Ledger, LogisticRegression, _core, online
from dpopt.federated import PrivateUpdates
from dpopt.secure_sum import SecureSum
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (400, 2))
Y = (X[:, 0] > 0).astype(int)
FACTS = {"epsilon": 0.5, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1], "method": "objective-perturbation"}


def model(ledger, **changes):
    return LogisticRegression(**{**FACTS, **changes}, budget=ledger)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return Ledger(20.0, 1e-3, path=None if request.param == "memory" else tmp_path / "people.ledger")


@pytest.fixture
def filed(tmp_path):
    return Ledger(20.0, 1e-3, path=tmp_path / "people.ledger")


HERE = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "clone": clone, "set_params": lambda m: m.set_params(method__shift=0.0),
    "deepcopy of a list": lambda m: copy.deepcopy([m])[0], "pipeline": lambda m: clone(make_pipeline(dpopt.PublicScaler(), m)),
}  # fmt: skip


@pytest.mark.parametrize("how", HERE, ids=str)
def test_a_copy_in_this_process_shares_the_ledger(ledger, how):
    HERE[how](model(ledger)).fit(X, Y)
    assert len(ledger.entries) == 1


def refusing(estimator):
    """The text of everything in the chain of what joblib raises."""
    with pytest.raises(Exception) as caught:
        cross_val_score(estimator, X, Y, cv=2, n_jobs=2)
    error, texts = caught.value, []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def test_a_ledger_in_memory_refuses_to_travel(tmp_path):
    ledger = Ledger(20.0, 1e-3)
    fitted = model(ledger).fit(X, Y)
    for travel in (pickle.dumps, lambda m: joblib.dump(m, tmp_path / "model.joblib")):
        with pytest.raises(TypeError, match=r"Ledger.open\(path\).*set_params\(budget=None\)"):
            travel(fitted)
    assert "Ledger.open(path)" in refusing(model(ledger))
    search = GridSearchCV(model(ledger), {"method__regularization": [1.0, 2.0]}, cv=2, n_jobs=2)
    bag = BaggingClassifier(model(ledger), n_estimators=2, n_jobs=2)
    rest = OneVsRestClassifier(model(ledger), n_jobs=2)
    for meta, y in [(search, Y), (bag, Y), (rest, np.arange(400) % 3)]:
        with pytest.raises(Exception):  # noqa: B017 (whatever joblib makes of the refusal; what counts is the ledger below)
            meta.fit(X, y)
    with pytest.raises(TypeError, match="Ledger.open"):
        pickle.dumps(dpopt.select.PrivateSearchCV(model(None), {"method__shift": [0.0]}, budget=ledger))
    # nothing was fitted where the ledger is not, and nothing charged here
    assert len(ledger.entries) == 1
    again = pickle.loads(pickle.dumps(fitted.set_params(budget=None)))
    assert np.array_equal(again.predict(X), fitted.predict(X))


def test_a_pickled_ledger_file_is_the_same_file(filed, tmp_path, monkeypatch):
    fitted = pickle.loads(pickle.dumps(model(filed).fit(X, Y)))
    assert (fitted.budget.path, fitted.budget.epsilon, fitted.budget.delta) == (filed.path, 20.0, 1e-3)
    joblib.dump(fitted, tmp_path / "model.joblib")
    # also from another directory
    monkeypatch.chdir("/")
    joblib.load(tmp_path / "model.joblib").fit(X, Y)
    assert len(filed.entries) == 2


def test_a_pickled_ledger_never_makes_a_new_file(filed, tmp_path):
    filed.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)
    sent = pickle.dumps(filed)
    os.rename(filed.path, tmp_path / "moved.ledger")
    with pytest.raises(dpopt.PrivacyError, match="does not exist here"):
        pickle.loads(sent)
    assert not os.path.exists(filed.path)
    Ledger(20.0, 1e-3, path=filed.path)
    with pytest.raises(dpopt.PrivacyError, match="fewer charges"):
        pickle.loads(sent)


OTHERS = {"charged anew": ["two"], "with more charges": ["two", "three"]}
OTHER_TERMS = {
    "another total": {"epsilon": 30.0}, "another delta": {"delta": 1e-2}, "another relation": {"relation": "replace-one"},
    "another name": {"name": "other"}, "another privacy unit": {"unit": "patient"},
}  # fmt: skip


@pytest.mark.parametrize("how", OTHERS)
def test_a_pickled_ledger_refuses_a_file_that_was_begun_anew(filed, how):
    filed.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)
    sent = pickle.dumps(filed)
    os.remove(filed.path)
    charges = OTHERS[how]
    other = Ledger(20.0, 1e-3, path=filed.path)
    for name in charges:
        other.charge(name, "laplace(10)", epsilon=0.2, delta=0.0)
    with pytest.raises(dpopt.PrivacyError, match="begun anew"):
        pickle.loads(sent)
    assert len(Ledger.open(filed.path).entries) == len(charges)


@pytest.mark.parametrize("what", OTHER_TERMS)
def test_a_pickled_ledger_refuses_a_file_of_other_terms(filed, what):
    sent = pickle.dumps(filed)
    os.remove(filed.path)
    Ledger(**{"epsilon": 20.0, "delta": 1e-3, "path": filed.path, **OTHER_TERMS[what]})
    with pytest.raises(dpopt.PrivacyError, match=r"another (epsilon|delta|relation|name|unit)"):
        pickle.loads(sent)


def test_a_pickled_ledger_knows_what_others_charged(filed):
    Ledger.open(filed.path).charge("elsewhere", "laplace(10)", epsilon=0.2, delta=0.0)
    sent = pickle.dumps(filed)
    again = pickle.loads(sent)
    again.charge("there", "laplace(10)", epsilon=0.2, delta=0.0)
    assert len(pickle.loads(sent).entries) == 2
    os.remove(filed.path)
    Ledger(20.0, 1e-3, path=filed.path).charge("other", "laplace(10)", epsilon=0.2, delta=0.0)
    for ledger in (filed, again):
        with pytest.raises(dpopt.PrivacyError, match="lost charges"):
            ledger.charge("more", "laplace(10)", epsilon=0.2, delta=0.0)


def test_a_relative_path_is_kept_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(1.0, 1e-6, path="people.ledger")
    assert os.path.isabs(ledger.path)


AWAY = {
    "cross_val_score": lambda m: cross_val_score(m, X, Y, cv=2, n_jobs=2),
    "GridSearchCV": lambda m: GridSearchCV(m, {"method__regularization": [1.0, 2.0]}, cv=2, n_jobs=2, refit=False).fit(
        X, Y
    ),
    "Bagging": lambda m: BaggingClassifier(m, n_estimators=2, n_jobs=2).fit(X, Y),
    "OneVsRest": lambda m: OneVsRestClassifier(m, n_jobs=2).fit(X, np.arange(400) % 3),
    "Stacking": lambda m: StackingClassifier([("a", m)], final_estimator=m, cv=2, n_jobs=2, stack_method="predict").fit(
        X, Y
    ),
}
#: Inner fits of each: two folds; two candidates of two folds; two bags; three classes; all rows, two folds and the last one.
FITS = {"cross_val_score": 2, "GridSearchCV": 4, "Bagging": 2, "OneVsRest": 3, "Stacking": 4}


@pytest.mark.parametrize("how", AWAY)
def test_every_fit_in_a_worker_charges_the_file(filed, how):
    AWAY[how](model(filed))
    assert len(filed.entries) == FITS[how]


@pytest.mark.parametrize("how", AWAY)
def test_a_worker_is_refused_what_the_file_does_not_hold(tmp_path, how):
    small = Ledger(0.55, 1.2e-6, path=tmp_path / "small.ledger")
    try:
        AWAY[how](model(small))
    except Exception:
        pass  # scikit-learn scores a refused fit as NaN, or passes the refusal on
    assert len(small.entries) == 1 and small.share <= 1.0


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_spend_a_copy(ledger):
    def child(answers):
        try:
            ledger.charge("child", "laplace(10)", epsilon=0.2, delta=0.0)
            answers.put("charged")
        except dpopt.BudgetExceeded as error:
            answers.put(str(error))

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    answer = answers.get(timeout=600)
    process.join()
    if ledger.path is None:
        assert "another process" in answer and "Ledger.open(path)" in answer and not ledger.entries
    else:
        assert answer == "charged" and len(ledger.entries) == 1


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_refuses_a_file_that_was_begun_anew(filed):
    filed.charge("one", "laplace(10)", epsilon=0.2, delta=0.0)

    def child(answers):
        os.remove(filed.path)
        Ledger(20.0, 1e-3, path=filed.path).charge("other", "laplace(10)", epsilon=0.2, delta=0.0)
        for use in (lambda: filed.entries, lambda: filed.charge("child", "laplace(10)", epsilon=0.2, delta=0.0)):
            try:
                use()
                answers.put("went on")
            except dpopt.PrivacyError as error:
                answers.put(str(error))

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    answer = [answers.get(timeout=600) for _ in range(2)]
    process.join()
    assert all("begun anew" in text for text in answer)


def test_open_needs_a_file_of_records(tmp_path):
    with pytest.raises(dpopt.PrivacyError):
        Ledger.open(tmp_path / "none.ledger")
    assert not (tmp_path / "none.ledger").exists()
    Ledger(2.0, 1e-6, relation="replace-one", path=tmp_path / "a.ledger", name="census")
    again = Ledger.open(tmp_path / "a.ledger")
    assert (again.epsilon, again.delta, again.relation, again.name) == (2.0, 1e-6, "replace-one", "census")


# What public classes there are, and what a copy of each may do. A class that is in no line is an error below: it is thought about, and listed.

#: They release more and more of what was charged when they were made: neither copied nor pickled.
GOING_ON = """
_clipped_sums: ClippedSums
_copies: GoesOnOnce
online: Bandit Experts OnlineConvex
torch.clipped_sums: ClippedSumOptimizer
torch.optimizer: PrivateOptimizer
torch.private: BatchOptimizer
torch.resume: AroundOptimizer
torch.zeroth: ZerothOrder
"""
#: They count rounds: in memory they do not travel, in a file all who share it count in it. And a loader, which is refused with its optimizer.
COUNTED = """
_rounds: RoundsFile RoundsInMemory Charge
federated: PrivateUpdates
flower: PrivateClient
nvflare: PrivateUpdateFilter
secure_sum: SecureSum
torch.loader: PoissonLoader
"""
#: One object, or one file.
LEDGERS = "ledger: Ledger"
#: Refused, since it would be of another model.
OF_A_MODEL = "torch.records: RecordGradients"
#: Parameters and what was released; each fit is charged for itself. A stream that is under way stays behind.
ESTIMATORS = """
_additive: AdditiveClassifier AdditiveRegressor
_base: PrivateEstimator
_bounded_moments: BoundedColumns PrivateMoments
_classifiers: LinearSVC LogisticRegression PrivateLinearClassifier SGDClassifier
_embeddings: EmbeddingClassifier TwoTowerClassifier TwoTowerRegressor
_heavy_tailed: HeavyTailedMean
_linear: PrivateLinear
_mean: MeanEstimator
_naive_bayes: GaussianNB
_pca: PCA
_regressors: HuberRegression LinearRegression PoissonRegressor PrivateLinearRegressor QuantileRegressor Ridge SGDRegressor
_scaler: PrivateScaler
_sparse_models: SparseLinearRegression SparseLogisticRegression
_stream: Learning LeftBehind
_survival: CoxRegressor
select: PrivateSearchCV
spark: SparkLinearRegression SparkLogisticRegression SparkMean SparkMeanModel SparkModel
"""
#: Facts, records and what was released: nothing is released by one of them.
VALUES = """
_aggregate: Aggregate
_batches: Batches
_bounded_moments: Box
_by_unit: UnitMeans Units
_embedding_forms: Sums Towers
_events: DpEvent
_flower_accountant: Accountant
_flower_update: PrivateUpdate
_forms: Linear
_inference: Summary
_fitted_table: ClassOrder FittedTable
_mean_tables: DeclaredColumn VectorReader Vectors
_minimize: Minimum
_onnx_encoder: Graph
_partial_fit: Targets
_partial_fit_classes: Classes
_partial_fit_numbers: Numbers
_plan: Plan Privacy Request
_sizing: Sizing
_public_facts: Columns Unit
_release: Release
_repeats: Form
_rows: Bounding Scaling
_search_price: SearchPlan
_self_check: CannotBeTried Evidence NotOfOneRecord Pool
_settings: DefaultEpsilon Method Settings
_shapes: Shape
_sources: EncodedMatrix Matrix PartitionedMatrix Source Table PartitionedTable
_split: Split
_steps: Surroundings
_stationary: Selected
_tables: NumberTable
_targets: Decoding Interval Reading
_trees: Leaves Records
_units: Given Shared
_warnings: PrivacyWarning
accounting: Bound Calibration
audit: AuditReport
dask: DaskPartitions
encoders: HashingEncoder PublicOneHot PublicScaler TableEncoder TextEncoder
flower: HardThresholding
ledger: Entry
mechanisms: SparseMean
methods: AdaptiveClipDescent Auto BiasReducedSGD CentredDescent ClippedSGD DPAdaGrad DPAdam DPFTRL EmbeddingSGD ExponentialMechanism FrankWolfe HardThresholdingGD HardThresholdingSCSG HardThresholdingSGD HardThresholdingSVRG LastIterate NoisyGradientDescent NoisyNewton NoisySGD ObjectivePerturbation OneStep OutputPerturbation PAGAN PASAN PDPSGD Peeling PhasedSGD RegularizedDescent ReleasedPreconditioner SparseExponential SparseOutputPerturbation SufficientStatistics
objectives: MatrixFactorization NegativeBinomialRegression Network Objective PhaseRetrieval PoissonRegression RobustRegression
partitions: Counted Encoded Failure Here Known PartitionFailed Partitions Persons Plain Recipe
ray: Columns RayPartitions
spark: SparkPartitions
torch.adapters: LowRank MovedWeights
torch.closed_list: NotListed
torch.gradients: PerRecord
torch.guard: Guard Refused
torch.loader: Source
torch.synthetic: UnknownFormError
torch.self_check: Form
torch.slopes: RecordLoss
torch.zeroth: Direction
"""
#: Of the compiled library, what goes on with one charge.
COMPILED = {
    "BanditGame", "ClippedOutside", "ConvexGame", "ExpertsGame", "LinearStream", "Session", "Training",
}  # fmt: skip


def named(table):
    lines = [line.split(": ") for line in table.strip().splitlines()]
    return {f"{module}.{name}" for module, names in lines for name in names.split()}


def classes():
    """Every public class of the package by its name, as its source says, with what it keeps of the compiled library's."""
    root, found = Path(dpopt.__file__).parent, {}
    for file in root.rglob("*.py"):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        for node in ast.parse(file.read_text()).body:
            if (
                not isinstance(node, ast.ClassDef)
                or node.name.startswith("_")
                or node.name.endswith("DpEvent")
                and module == "_events"
            ):
                continue
            kept = set()
            for part in (n for n in ast.walk(node) if isinstance(n, ast.Assign)):
                if any(isinstance(t, ast.Attribute) for target in part.targets for t in ast.walk(target)):
                    kept |= {n.attr for n in ast.walk(part.value) if isinstance(n, ast.Attribute)} & COMPILED
            found[f"{module}.{node.name}"] = kept
    return found


def test_what_a_copy_may_do_is_known_of_every_public_class():
    found, listed = classes(), [GOING_ON, COUNTED, LEDGERS, OF_A_MODEL, ESTIMATORS, VALUES]
    every = [name for table in listed for name in named(table)]
    assert len(every) == len(set(every)), "a class is in two lines"
    found["_events.DpEvent"] = set()
    assert sorted(found) == sorted(every)
    # an object that keeps something compiled which goes on refuses to be copied, or counts its rounds
    keeping = {name for name, kept in found.items() if kept}
    assert keeping <= named(GOING_ON) | named(COUNTED), keeping
    assert {"_clipped_sums.ClippedSums", "online.Bandit", "torch.optimizer.PrivateOptimizer"} <= keeping


def test_what_goes_on_is_not_copied_by_what_compiled_it():
    compiled = [c for c in vars(_core).values() if isinstance(c, type) and not issubclass(c, Exception)]
    assert {c.__name__ for c in compiled} >= COMPILED
    ways = {
        "__reduce__",
        "__reduce_ex__",
        "__copy__",
        "__deepcopy__",
        "__getstate__",
        "__getnewargs__",
        "__getnewargs_ex__",
    }
    # parts of a table, and what was released
    assert {c.__name__ for c in compiled if ways & set(vars(c))} == {"ColumnEncoder", "Shard", "TableModel"}


TERMS = {"dataset_size": 40, "sampling_probability": 0.5, "steps": 4, "clip_norm": 1.0, "epsilon": 1.0, "delta": 1e-5}


def torch_of(name):
    """A maker of one of dpopt.torch, and how it takes a step."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    model = torch.nn.Linear(2, 1, bias=False)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    if name == "BatchOptimizer":
        data = torch.zeros(40, 2), torch.zeros(40, 1)
        _, made, loader = dpopt.torch.make_private(
            model, inner, data, epsilon=1.0, delta=1e-5, epochs=2, batch_size=20, max_grad_norm=1.0
        )

        def step(_):
            for x, y in loader:
                (model(x) - y).square().mean().backward()
                made.step()

        return made, step
    if name == "ClippedSumOptimizer":
        return dpopt.torch.ClippedSumOptimizer(inner, **TERMS), lambda o: (o.sample(), o.step())
    if name == "ZerothOrder":
        made = dpopt.torch.ZerothOrder(model, inner, **TERMS)
        return made, lambda o: o.step(lambda x: x.sum(1), torch.zeros(len(o.sample()), 2))
    made = dpopt.torch.PrivateOptimizer(inner, **TERMS)
    return made, lambda o: o.step([torch.zeros(len(o.sample()), 1, 2)])


GOES_ON = {
    "ClippedSums": lambda: (dpopt.ClippedSums(np.zeros(2), **TERMS), lambda o: (o.sample(), o.step(np.zeros(2)))),
    "sums of its own batches": lambda: (dpopt.ClippedSums(np.zeros(2), **TERMS), lambda o: o.step(np.zeros(2))),
    "Experts": lambda: (online.Experts(3, 60, 1.0, 1e-5), lambda g: (g.play(), g.observe([0.0, 1.0, 0.5]))),
    "OnlineConvex": lambda: (
        online.OnlineConvex(2, 60, 5.0, 1e-4, radius=1.0), lambda g: (g.play(), g.observe([0.5, 0.5]))
    ),
    "Bandit": lambda: (online.Bandit(2, 20_000, 1.0), lambda g: (g.play(), g.observe(0.5))),
    **{
        name: lambda name=name: torch_of(name)
        for name in ("PrivateOptimizer", "ZerothOrder", "ClippedSumOptimizer", "BatchOptimizer")
    },
}  # fmt: skip
#: Those of GOES_ON that are refused by another name.
COUNTING = {
    "SecureSum": lambda: (
        SecureSum(clients=3, dimension=2, clip_norm=1.0, epsilon=1.0, delta=1e-6, rounds=4), lambda s: s.release(s.encode([0.5, 0.5]))
    ),
    "shares of a SecureSum": lambda: (
        SecureSum(clients=3, dimension=2, clip_norm=1.0, epsilon=1.0, delta=1e-6, rounds=4, honest=3), lambda s: s.encode([0.5, 0.5])
    ),
    "PrivateUpdates": lambda: (
        PrivateUpdates(clip_norm=1.0, epsilon=1.0, delta=1e-6, rounds=4), lambda u: u.release([np.zeros(2)], [np.ones(2)])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES_ON)
def test_what_goes_on_with_one_charge_is_not_copied(name):
    made, step = GOES_ON[name]()
    for before in (True, False):
        for how in (copy.copy, copy.deepcopy, pickle.dumps, lambda o: copy.deepcopy([o]), clone):
            with pytest.raises(TypeError, match="would use its charge a second time|clone"):
                how(made)
        if before:
            step(made)


def test_record_gradients_are_of_the_model_they_were_made_with():
    torch = pytest.importorskip("torch")
    each = dpopt.torch.RecordGradients(torch.nn.Linear(2, 1), lambda out, y: (out - y).square().sum(1))
    for how in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="make another with the copy"):
            how(each)


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_a_fork(work, seconds=120):
    """What `work` gives in a forked process, as text; it is ended if it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        try:
            answer = str(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode()[:60_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the child ended with {status}"
    return answer


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", {**GOES_ON, **COUNTING})
def test_of_two_copies_of_a_process_one_goes_on(name):
    made, step = {**GOES_ON, **COUNTING}[name]()
    for _ in range(2):
        answer = in_a_fork(lambda: step(made))
        assert answer.startswith(("PrivacyError", "BudgetExceeded")) and "another process" in answer, answer
        # the one that opened it has all that was planned
        step(made)
    if name != "shares of a SecureSum" and hasattr(made, "privacy_"):
        assert in_a_fork(lambda: made.privacy_.epsilon) == str(made.privacy_.epsilon)


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_in_the_middle_of_a_call_goes_on_in_the_parent_only():
    X, inside = np.full((300, 1), 0.5), []

    def gradients(x, rows):
        # not on the made-up records before the charge
        if len(rows) > 12 and not inside:
            inside.append(os.fork())
        return x[None, :] - rows

    parent = os.getpid()
    try:
        found = dpopt.minimize(gradients, (X,), np.zeros(1), epsilon=1.0, delta=1e-5)
    except dpopt.PrivacyError as error:
        if os.getpid() != parent:
            os._exit(0 if "another process" in str(error) else 2)
        raise
    finally:
        if os.getpid() != parent:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(inside[0], 0)[1]) == 0
    assert np.isfinite(found.x).all()


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rounds_in_a_file_go_on_in_a_fork(tmp_path):
    updates = PrivateUpdates(clip_norm=1.0, epsilon=1.0, delta=1e-6, rounds=3, session=tmp_path / "rounds")
    updates.release([np.zeros(2)], None)
    assert "array" in in_a_fork(lambda: updates.release([np.zeros(2)], None))
    assert updates.rounds_released == 2
    updates.release([np.zeros(2)], None)
    assert "BudgetExceeded" in in_a_fork(lambda: updates.release([np.zeros(2)], None))


def work(seed=7):
    """Most of what runs in threads, as one list of numbers."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 6))
    y, secret = (X[:, 0] > 0).astype(int), {"insecure_seed": seed}
    fitted = [
        LogisticRegression(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1], method=method, **secret).fit(X, y)
        for method in ("objective-perturbation", "noisy-gradient-descent", "noisy-sgd")
    ]
    numbers = [model.predict_proba(X[:50])[:, 1] for model in fitted]
    numbers.append(
        dpopt.LinearRegression(1.0, 1e-6, bounds=(-1, 1), target_bounds=(-1, 1), **secret)
        .fit(X, X[:, 1])
        .predict(X[:50])
    )
    numbers.append(dpopt.MeanEstimator(1.0, bounds=(-1, 1), **secret).fit(X).mean_)
    numbers.append([dpopt.mechanisms.quantiles(X[:, 0], [0.5], epsilon=1.0, **secret).value])
    found = dpopt.minimize(
        lambda x, rows: x[None, :] - rows, (X[:500],), np.zeros(6), epsilon=1.0, delta=1e-5, **secret
    )
    numbers.append(found.x)
    numbers.append([plan_of(X.shape)])
    return np.concatenate([np.ravel(part) for part in numbers]).tolist()


def plan_of(shape):
    model = LogisticRegression(0.7, 1e-6, bounds=(-1, 1), classes=[0, 1])
    return model.explain(n_rows=shape[0], n_features=shape[1]).epsilon


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_works_as_its_parent_does():
    once = work()
    # threads of the parent's are not there
    assert in_a_fork(work) == str(once)
    # nor are those of a parent that is a fork itself
    assert in_a_fork(lambda: (work(), in_a_fork(work, 60))[1]) == str(once)
    assert work() == once


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lock_that_a_thread_held_does_not_hang_a_fork(tmp_path):
    ledger = Ledger(1e4, 1e-2, path=tmp_path / "people.ledger")
    sums = dpopt.ClippedSums(np.zeros(200_000), **{**TERMS, "steps": 10_000})
    game = online.Experts(3, 100_000, 1.0, 1e-5)
    over = threading.Event()

    def busy(step):
        while not over.is_set():
            step()

    steps = [
        lambda: sums.step(np.zeros(200_000)),
        lambda: (game.play(), game.observe([0.0, 0.0, 1.0])),
        lambda: model(ledger).fit(X, Y),
    ]
    threads = [threading.Thread(target=busy, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        for k in range(5):
            assert "another process" in in_a_fork(lambda: sums.step(np.zeros(200_000)))
            assert "another process" in in_a_fork(game.play)
            # a bound that nobody knows yet, a charge and a fit
            done = in_a_fork(
                lambda: (plan_of((1000 + k, 3)), len(ledger.entries), model(ledger).fit(X, Y).score(X, Y))[2]
            )
            assert 0 <= float(done) <= 1, done
    finally:
        over.set()
        for thread in threads:
            thread.join()


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_neither_holds_nor_gives_back_its_parents_lock(tmp_path):
    path = tmp_path / "game"
    facts = {"experts": 3, "rounds": 50, "epsilon": 1.0, "delta": 1e-5, "session": path}
    game = online.Experts(**facts)
    game.play()
    game.observe([0.0, 1.0, 0.5])
    # the object that gets the losses writes them down
    assert "another process" in in_a_fork(game.play)

    def left():
        nonlocal game
        del game

    assert in_a_fork(left) == "None"
    with pytest.raises(ValueError, match="held by another process"):
        online.Experts(**facts)
    game.play()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    del game
    # the child has the file open
    assert online.Experts(**facts).observed == 1
    os.close(writer)
    os.waitpid(child, 0)
