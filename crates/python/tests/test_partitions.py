"""Records in parts: the same model to the last bit, each record once, nothing shown."""

import pickle
import warnings

import dpopt
import numpy as np
import pytest
import scipy.sparse as sp
from dpopt.partitions import Here, PartitionFailed, Partitions, Recipe

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")

N = 1500
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (N, 4))
CLASSES = np.argmax(X[:, :3], axis=1)
NUMBERS = X @ [0.5, -0.3, 0.2, 0.0]
COMMON = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}
MODELS = {
    "softmax": (
        dpopt.LogisticRegression(classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=20), **COMMON),
        CLASSES,
    ),
    "sampled": (
        dpopt.LogisticRegression(classes=[0, 1, 2], method=dpopt.methods.NoisySGD(steps=20), **COMMON),
        CLASSES,
    ),
    "one against the rest": (
        dpopt.LinearSVC(classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=20), **COMMON),
        CLASSES,
    ),
    "adaptive": (
        dpopt.LinearRegression(target_bounds=(-1, 1), method=dpopt.methods.AdaptiveClipDescent(steps=20), **COMMON),
        NUMBERS,
    ),
    "moments": (dpopt.LinearRegression(target_bounds=(-1, 1), method="sufficient-statistics", **COMMON), NUMBERS),
    "counts": (
        dpopt.PoissonRegressor(target_bounds=(0, 2), method=dpopt.methods.AdaptiveClipDescent(steps=20), **COMMON),
        NUMBERS,
    ),
    "quantile": (
        dpopt.QuantileRegressor(
            quantile=0.8, target_bounds=(-1, 1), method=dpopt.methods.NoisyGradientDescent(steps=20), **COMMON
        ),
        NUMBERS,
    ),
    "huber": (
        dpopt.HuberRegression(target_bounds=(-1, 1), method=dpopt.methods.NoisyGradientDescent(steps=20), **COMMON),
        NUMBERS,
    ),
}


TWO = (X[:, 0] > X[:, 1]).astype(int)
#: Sums of integers in parts, of floats in memory: the same bits in all parts, and of both the same point.
SOLVED = {
    "objective perturbation": (
        dpopt.LogisticRegression(classes=[0, 1], method="objective-perturbation", **COMMON),
        TWO,
        35,
    ),
    "output perturbation": (dpopt.LogisticRegression(classes=[0, 1], method="output-perturbation", **COMMON), TWO, 35),
    "softmax": (dpopt.LogisticRegression(classes=[0, 1, 2], method="objective-perturbation", **COMMON), CLASSES, 35),
    "newton": (dpopt.LogisticRegression(classes=[0, 1], method="noisy-newton", **COMMON), TWO, 15),
    "preconditioned": (
        dpopt.LogisticRegression(classes=[0, 1], method=dpopt.methods.ReleasedPreconditioner(steps=9), **COMMON),
        TWO,
        13,
    ),
}


def cut(X, y, ends):
    return Here([(X[a:b], y[a:b]) for a, b in zip([0, *ends[:-1]], ends)])


def same(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_the_same_bits_whatever_the_parts_are(name):
    model, y = MODELS[name]
    y = np.where(RNG.random(N) < 0.05, np.nan, y)
    whole = dpopt_clone(model).fit(X, y)
    for ends in ([N], [700, N], [0, 1, 300, 300, 900, N - 1, N]):
        found = dpopt_clone(model).fit(cut(X, y, ends))
        assert same(found, whole)
        assert found.privacy_.epsilon == whole.privacy_.epsilon and found.plan_.method == whole.plan_.method
    assert "remote records" in found.report() and "rows" not in repr(cut(X, y, ends))


@pytest.mark.parametrize("name", SOLVED)
def test_methods_of_few_passes_are_the_same_bits_in_all_parts_and_ask_as_often_as_they_say(name):
    model, y, passes = SOLVED[name]
    y = np.where(RNG.random(N) < 0.05, np.nan, y)
    one = dpopt_clone(model).fit(Here([(X, y)]))
    for ends in ([N], [700, N], [0, 1, 300, 300, 900, N - 1, N]):
        parts = cut(X, y, ends)
        found = dpopt_clone(model).fit(parts)
        assert same(found, one)
        assert len(parts.seconds) == passes == found.plan_.passes
    whole = dpopt_clone(model).fit(X, y)
    assert np.allclose(whole.coef_, one.coef_, rtol=1e-3, atol=1e-4) and np.allclose(
        whole.intercept_, one.intercept_, rtol=1e-3, atol=1e-4
    )
    assert whole.privacy_.epsilon == one.privacy_.epsilon and whole.plan_.passes is None


def test_a_plan_for_parts_says_how_many_passes_each_method_makes():
    model = dpopt.LogisticRegression(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1])
    plan = model.explain(cut(X, TWO, [N]), n_rows=N)
    passes = {c["method"]: c["passes"] for c in plan.candidates if "passes" in c}
    assert (plan.method, plan.passes) == ("objective-perturbation", 35)
    assert passes["noisy-gradient-descent"] > 35 and passes["noisy-newton"] == 15
    assert plan.seconds(0.5) == 17.5
    lines = str(plan).splitlines()
    assert lines[0].endswith("  passes") and any(
        line.startswith("* objective") and line.endswith(" 35") for line in lines
    )
    here = model.explain(n_rows=N, n_features=4)
    assert here.passes is None and "passes" not in str(here)
    with pytest.raises(ValueError, match="cannot query remote ones"):
        here.seconds(1.0)


@pytest.mark.parametrize(
    ("model", "y"),
    [(dpopt.LinearSVC(classes=[0, 1]), TWO), (dpopt.HuberRegression(target_bounds=(-1, 1)), NUMBERS)],
)
def test_a_minimiser_of_a_loss_whose_curvature_jumps_is_refused(model, y):
    model = dpopt_clone(model).set_params(method="objective-perturbation", **COMMON)
    with pytest.raises(dpopt.PrivacyError, match="curvature of a loss jumps"):
        model.fit(Here([(X, y)]))


def test_a_minimiser_of_more_weights_than_its_matrix_is_for_is_refused():
    wide = np.zeros((50, 600))
    with pytest.raises(dpopt.PrivacyError, match="needs the Hessian"):
        dpopt.LogisticRegression(classes=[0, 1], method="objective-perturbation", **COMMON).fit(
            Here([(wide, np.zeros(50))])
        )


def dpopt_clone(model):
    from sklearn.base import clone

    return clone(model)


@pytest.mark.parametrize("kind", ["f32", "sparse", "texts", "missing"])
def test_blocks_may_be_what_x_may_be(kind):
    data, y = X.copy(), CLASSES
    model = dpopt.LogisticRegression(classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=10), **COMMON)
    if kind == "f32":
        data = data.astype(np.float32)
    if kind == "sparse":
        data = sp.csr_matrix(np.where(np.abs(data) < 0.5, 0, data))
    if kind == "texts":
        y = np.array(["a", "b", "c"])[y]
        model.set_params(classes=["a", "b", "c"])
    if kind == "missing":
        data[::7, 1], data[::11, 2] = np.nan, np.inf
    assert same(dpopt_clone(model).fit(cut(data, y, [400, 400, N])), dpopt_clone(model).fit(data, y))


def test_a_part_answers_once_however_often_it_is_asked():
    class Twice(Here):
        def ask_partitions(self, message):
            answers = super().ask_partitions(message)
            return [*answers[::-1], answers[0]]

    model, y = MODELS["softmax"]
    blocks = [(X[:600], y[:600]), (X[600:], y[600:])]
    assert same(dpopt_clone(model).fit(Twice(blocks)), dpopt_clone(model).fit(X, y))


@pytest.mark.parametrize("fault", ["lost", "changed", "others", "differs", "other query", "raises"])
def test_what_is_not_one_answer_of_each_part_ends_the_fit_and_keeps_the_charge(fault):
    class Faulty(Here):
        asked = 0

        def ask_partitions(self, message):
            self.asked += 1
            answers = super().ask_partitions(message)
            if self.asked < 3:
                self.old = answers
                return answers
            if fault == "lost":
                return answers[1:]
            if fault == "changed":
                return [
                    self._shards[0].answer(message),
                    dpopt.partitions._core.Shard.from_bytes(self._shards[0].to_bytes(), 1).answer(message),
                ]
            if fault == "others":
                # as many records as before, of another part
                copy = self._shards[0].to_bytes()
                return [answers[0], dpopt.partitions._core.Shard.from_bytes(copy, 1).answer(message)]
            if fault == "differs":
                return [
                    *answers,
                    dpopt.partitions._core.Shard.from_bytes(self._shards[1].to_bytes(), 0).answer(message),
                ]
            if fault == "other query":
                return self.old
            raise RuntimeError("the cluster is gone")

    ledger = dpopt.Ledger(epsilon=2.0, delta=1e-5)
    model = dpopt_clone(MODELS["softmax"][0]).set_params(insecure_seed=None, budget=ledger)
    with pytest.raises(dpopt.PrivacyError, match="keeps the charge") as raised:
        half = N // 2 if fault == "others" else 600
        model.fit(Faulty([(X[:half], CLASSES[:half]), (X[half:], CLASSES[half:])]))
    assert ledger.spent[0] > 0.9
    assert (str(raised.value.__cause__) == "the cluster is gone") == (fault == "raises")


def test_what_cannot_be_done_with_parts_is_refused_before_a_part_is_read():
    class Unread(Partitions):
        def load_partitions(self, recipe):
            raise AssertionError("read")

    parts = Unread(4)
    for model, why in [
        (dpopt.LogisticRegression(), "declare classes"),
        (dpopt.LogisticRegression(classes="public"), "declare classes"),
        (
            dpopt.LogisticRegression(classes=[0, 1], columns=dpopt.Columns(levels={"a": ["x", "y"]})),
            "these partitions have no names",
        ),
    ]:
        with pytest.raises((ValueError, TypeError), match=why):
            model.fit(parts)
    model = dpopt.LogisticRegression(classes=[0, 1])
    with pytest.raises(ValueError, match="leave y out"):
        model.fit(parts, CLASSES)
    with pytest.raises(ValueError, match="clipped as a whole"):
        model.fit(parts, units=np.arange(N))
    with pytest.raises(dpopt.PrivacyError, match="answer with sums only; choose one of"):
        dpopt.LogisticRegression(classes=[0, 1, 2], method="dp-ftrl").fit(cut(X, CLASSES, [N]))
    with pytest.raises(ValueError, match="public guess"):
        dpopt.LogisticRegression(classes=[0, 1, 2], neighbors="add-or-remove").fit(cut(X, CLASSES, [N]))


def test_a_block_that_cannot_be_read_is_named_without_what_it_holds():
    for block in (np.array([["secret", "b", "c", "d"]] * 3, dtype=object), np.zeros((3, 5)), np.zeros((2, 4))):
        parts = Here([(X, CLASSES), (block, np.zeros(3))])
        with pytest.raises(PartitionFailed, match="partition 1 could not be read") as raised:
            dpopt.LogisticRegression(classes=[0, 1, 2], bounds=(-1, 1)).fit(parts)
        assert (
            "secret" not in str(raised.value) and raised.value.__cause__ is None and raised.value.__suppress_context__
        )


def test_what_travels_to_workers_has_no_ledger_and_parts_survive_moving():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dpopt.LogisticRegression(
            classes=[0, 1, 2], bounds=(-1, 1), budget=dpopt.Ledger(epsilon=5.0, delta=1e-2)
        )
    seen = []

    class Moving(Here):
        def load_partitions(self, recipe):
            seen.append(pickle.loads(pickle.dumps(recipe)))
            sizes = super().load_partitions(seen[-1])
            self._shards = [pickle.loads(pickle.dumps(shard)) for shard in self._shards]
            return sizes

    blocks = [(X[:600], CLASSES[:600]), (X[600:], CLASSES[600:])]
    model.fit(Moving(blocks))
    assert isinstance(seen[0], Recipe) and seen[0].estimator.budget is None and model.budget.spent[0] > 0
    shard = seen[0](X, CLASSES, 3)
    again = dpopt.partitions._core.Shard.from_bytes(shard.to_bytes(), 5)
    assert (again.part, again.records, repr(again)) == (5, N, "<part 5>")
    assert again.to_bytes()[24:-8] == shard.to_bytes()[24:-8]


def test_under_add_or_remove_the_guess_counts_and_not_the_rows():
    model = dpopt.LogisticRegression(
        1.0,
        1e-6,
        bounds=(-1, 1),
        encoding=None,
        classes=[0, 1, 2],
        neighbors="add-or-remove",
        n_rows=1400,
        method="noisy-gradient-descent",
        insecure_seed=1,
    )
    whole = dpopt_clone(model).fit(X, CLASSES)
    assert same(dpopt_clone(model).fit(cut(X, CLASSES, [700, N])), whole)
    assert whole.plan_.n_rows == 1400


def test_an_interruption_is_raised_and_partitions_can_be_used_again():
    class Interrupted(Here):
        interrupt = True

        def ask_partitions(self, message):
            if self.interrupt:
                raise KeyboardInterrupt
            return super().ask_partitions(message)

    parts = Interrupted([(X, CLASSES)])
    model, _ = MODELS["softmax"]
    with pytest.raises(KeyboardInterrupt):
        dpopt_clone(model).fit(parts)
    parts.interrupt = False
    assert same(dpopt_clone(model).fit(parts), dpopt_clone(model).fit(X, CLASSES))


def test_two_fits_at_once_on_the_same_parts_are_refused():
    class Nested(Here):
        def ask_partitions(self, message):
            with pytest.raises(ValueError, match="in use by another fit"):
                dpopt_clone(MODELS["softmax"][0]).fit(self)
            return super().ask_partitions(message)

    model, y = MODELS["softmax"]
    assert same(dpopt_clone(model).fit(Nested([(X, y)])), dpopt_clone(model).fit(X, y))


def test_an_engine_that_is_gone_at_the_end_does_not_take_the_model_away():
    class Gone(Here):
        def drop_partitions(self):
            raise RuntimeError("gone")

    assert dpopt_clone(MODELS["softmax"][0]).fit(Gone([(X, CLASSES)])).privacy_.epsilon <= 1.0


def test_a_plan_for_parts_is_that_of_the_fit():
    model = dpopt.LogisticRegression(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1, 2], insecure_seed=1)
    parts = cut(X, CLASSES, [700, N])
    plan = model.explain(parts, n_rows=N, n_classes=3)
    assert plan.method == model.fit(parts).plan_.method
    with pytest.raises(ValueError, match="give n_rows"):
        model.explain(parts)


def test_blocks_with_other_columns_and_classes_that_floats_round_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    ends = [(frame[:700], CLASSES[:700]), (frame[700:], CLASSES[700:])]
    model = dpopt.LogisticRegression(
        classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=3), **COMMON
    ).fit(Here(ends))
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="different columns"):
        Here([ends[0], (frame[list("bacd")][700:], CLASSES[700:])])
    with pytest.raises(ValueError, match=r"cannot tell classes of 2\^53"):
        dpopt.LogisticRegression(classes=[2**60, 2**60 + 1]).fit(Here(ends))


def test_blocks_may_be_read_by_many_threads_without_a_warning_being_lost():
    from concurrent.futures import ThreadPoolExecutor

    recipe = Recipe(dpopt.LogisticRegression(classes=[0, 1, 2], bounds=(-1, 1)), 4, False)
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        known = set(pool.map(lambda part: recipe(X, CLASSES, part).known, range(64)))
    assert len(known) == 1 and warnings.filters == before


def test_a_plan_for_parts_under_add_or_remove_takes_a_guess():
    model = dpopt.LogisticRegression(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1, 2], neighbors="add-or-remove")
    parts = cut(X, CLASSES, [N])
    assert model.explain(parts, n_rows=1400, n_classes=3).n_rows == 1400
    assert model.set_params(n_rows=1300).explain(parts, n_classes=3).n_rows == 1300


def test_a_text_label_that_is_missing_is_one_of_no_record():
    labels = np.array(["a", "b", "c"], dtype=object)[CLASSES]
    labels[::9] = None
    model = dpopt.LogisticRegression(
        classes=["a", "b", "c"], method=dpopt.methods.NoisyGradientDescent(steps=5), **COMMON
    )
    assert same(dpopt_clone(model).fit(cut(X, labels, [700, N])), dpopt_clone(model).fit(X, labels))
    ridge = dpopt.Ridge(target_bounds=(-1, 1), **COMMON)
    assert ridge.fit(cut(X, NUMBERS, [700, N])).privacy_.epsilon <= 1.0


def test_a_part_of_memory_that_others_write_to_is_its_own():
    shard = Recipe(MODELS["softmax"][0], 4, False)(X, CLASSES, 0)
    memory = np.frombuffer(bytearray(shard.to_bytes()), np.uint8)
    assert memory.flags.writeable
    again = dpopt.partitions._core.Shard.from_bytes(memory)
    memory[:] = 0
    assert again.to_bytes() == shard.to_bytes() and again.answer(dpopt.partitions._core.empty_query())
    for wrong in (memory, memory[::2], memory.astype(np.int64)):
        with pytest.raises((ValueError, TypeError)):
            dpopt.partitions._core.Shard.from_bytes(wrong)
