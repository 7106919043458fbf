"""Fits that repeat themselves on the same people are warned about, by public facts alone; seeds void what they touch."""

import warnings
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt import LogisticRegression, PrivacyWarning, _repeats, mechanisms
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate, permutation_test_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

FACTS = {"epsilon": 0.5, "delta": 1e-6, "bounds": (-1, 1), "classes": [0, 1], "method": "objective-perturbation"}


def table(columns, rows=300, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, columns))
    return X, (X[:, 0] > 0).astype(int)


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [w for w in caught if issubclass(w.category, PrivacyWarning)]


META = {
    "cross_val_predict": lambda m, X, y: cross_val_predict(m, X, y, cv=2),
    "cross_validate": lambda m, X, y: cross_validate(m, X, y, cv=2),
    "permutation_test_score": lambda m, X, y: permutation_test_score(m, X, y, cv=2, n_permutations=2),
    "CalibratedClassifierCV": lambda m, X, y: CalibratedClassifierCV(m, cv=2).fit(X, y),
    "Stacking": lambda m, X, y: StackingClassifier([("a", m)], cv=2).fit(X, y),
    "Bagging": lambda m, X, y: BaggingClassifier(m, n_estimators=2).fit(X, y),
    "OneVsRest": lambda m, X, y: OneVsRestClassifier(m).fit(X, np.arange(len(y)) % 3),
    "GridSearchCV": lambda m, X, y: GridSearchCV(m, {"method__regularization": [1.0]}, cv=2).fit(X, y),
}


@pytest.mark.parametrize("how", META)
def test_what_fits_many_times_is_warned_about(how):
    found = [str(w.message) for w in warned(lambda: META[how](LogisticRegression(**FACTS), *table(3)))]
    assert any("inside scikit-learn's" in text and "budget=dpopt.Ledger" in text for text in found)


def test_what_fits_once_is_not_warned_about():
    pipe = make_pipeline(dpopt.PublicScaler(), LogisticRegression(**FACTS))
    assert not warned(lambda: pipe.fit(*table(11)))


def test_repeated_fits_are_counted_without_a_ledger():
    # by hand: folds are copies that scikit-learn's functions never see
    X, y = table(13)
    model = LogisticRegression(**FACTS)
    assert not warned(lambda: model.fit(X[:100], y[:100]))
    (second,) = warned(lambda: model.fit(X[100:], y[100:]))
    assert (
        "fitted 2 models" in str(second.message)
        and "epsilon 1 " in str(second.message)
        and "budget=dpopt.Ledger" in str(second.message)
    )
    assert second.filename == __file__
    assert not warned(lambda: model.fit(X, y))
    assert "fitted 4 models" in str(warned(lambda: model.fit(X, y))[0].message)
    # another table, by its columns; a ledger adds up by itself
    assert not warned(lambda: model.fit(*table(14)))
    ledger = dpopt.Ledger(5.0, 1e-3)
    for _ in range(3):
        assert not warned(lambda: LogisticRegression(**FACTS, budget=ledger).fit(*table(14)))
    assert len(warned(lambda: dpopt.MeanEstimator(epsilon=0.5, delta=1e-6, bounds=(-1, 1)).fit(X=table(14)[0]))) == 1


def test_the_count_depends_on_no_record():
    texts = []
    for columns, seeds in ((15, (0, 0)), (16, (0, 1))):
        for seed in seeds:
            texts.append(
                [str(w.message) for w in warned(lambda: LogisticRegression(**FACTS).fit(*table(columns, seed=seed)))]
            )
    # the same table twice, and two different tables: the same words but for the number of columns
    assert texts[0] == texts[2] == []
    assert texts[1] == [texts[3][0].replace("16 columns", "15 columns")]


def test_runs_of_a_private_search_are_not_counted():
    X, y = table(17, 2000)
    search = dpopt.select.PrivateSearchCV(
        LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"method__regularization": [1.0, 10.0]}, epsilon=3.0, delta=1e-6, expected_runs=4
    )  # fmt: skip
    assert not warned(lambda: search.fit(X, y))
    # one search, whatever the secret number of its runs
    assert "fitted 2 models" in str(warned(lambda: search.fit(X, y))[0].message)


ONCE = {
    "gaussian_sum": lambda **o: mechanisms.gaussian_sum([[0.5]] * 20, 1.0, epsilon=1.0, delta=1e-6, **o),
    "laplace_sum": lambda **o: mechanisms.laplace_sum([0.5] * 20, 1.0, epsilon=1.0, delta=1e-9, **o),
    "sparse_mean": lambda **o: mechanisms.sparse_mean(np.eye(20), 1, epsilon=1.0, delta=1e-6, **o),
    "second_moment": lambda **o: mechanisms.second_moment([[0.5]] * 20, 1.0, epsilon=1.0, delta=1e-6, **o),
    "histogram": lambda **o: mechanisms.histogram(["a"] * 20, ["a", "b"], epsilon=1.0, **o),
    "discrete_laplace_counts": lambda **o: mechanisms.discrete_laplace_counts([3, 4], epsilon=1.0, **o),
    "discrete_gaussian_counts": lambda **o: mechanisms.discrete_gaussian_counts([3, 4], epsilon=1.0, delta=1e-6, **o),
    "choose": lambda **o: mechanisms.choose([3, 4], epsilon=1.0, **o),
    "quantiles": lambda **o: mechanisms.quantiles([0.5] * 20, [0.5], epsilon=1.0, **o),
    "private_bounds": lambda **o: mechanisms.private_bounds([[0.5]] * 500, epsilon=1.0, **o),
    "frequent_labels": lambda **o: mechanisms.frequent_labels(["a", "b"] * 300, epsilon=1.0, delta=1e-6, **o),
}


@pytest.mark.parametrize("how", ONCE)
def test_a_seeded_release_is_marked_and_never_charged(how):
    with pytest.warns(PrivacyWarning, match="predictable") as caught:
        seeded = ONCE[how](insecure_seed=1)
    assert caught[0].filename == __file__
    assert seeded.insecure_seed and "VOID" in repr(seeded) and "VOID" in seeded._repr_html_()
    ledger = dpopt.Ledger(5.0, 1e-3)
    with pytest.raises(ValueError, match="leave insecure_seed out"):
        ONCE[how](insecure_seed=1, ledger=ledger)
    assert not ledger.entries
    honest = ONCE[how](ledger=ledger)
    assert not honest.insecure_seed and "VOID" not in repr(honest) + honest._repr_html_() and len(ledger.entries) == 1


def test_every_mechanism_is_in_the_list():
    functions = [
        n
        for n in mechanisms.__all__
        if callable(getattr(mechanisms, n)) and n[0].islower() and n != "sparse_mean_plans"
    ]
    assert set(functions) == set(ONCE)


def test_a_seeded_fit_is_marked_and_never_charged():
    X, y = table(18)
    ledger = dpopt.Ledger(5.0, 1e-3)
    models = [
        LogisticRegression(**FACTS, budget=ledger, insecure_seed=1),
        dpopt.MeanEstimator(epsilon=0.5, delta=1e-6, bounds=(-1, 1), budget=ledger, insecure_seed=1),
        dpopt.select.PrivateSearchCV(
            LogisticRegression(bounds=(-1, 1), classes=[0, 1]), {"method__shift": [0.0]}, delta=1e-6, budget=ledger, insecure_seed=1
        ),
    ]  # fmt: skip
    for model in models:
        with pytest.raises(ValueError, match="leave insecure_seed out"):
            model.fit(X, y)
        assert not ledger.entries
    for model in models[:2]:
        with pytest.warns(PrivacyWarning, match="predictable"):
            model.set_params(budget=None).fit(X, y)
        assert "VOID" in str(model.privacy_) and "VOID" in model.privacy_._repr_html_()
    assert "VOID" in models[1].report()
    assert "seed" in models[0].report()


# --- releases without a ledger, from every entrance ---


def numbers(columns, rows=40):
    return np.random.default_rng(1).uniform(-1, 1, (rows, columns))


def trained_by_hand(width, **given):
    torch = pytest.importorskip("torch")
    from dpopt.torch import PrivateOptimizer

    model = torch.nn.Linear(width, 1)
    facts = {
        "dataset_size": 40,
        "sampling_probability": 0.5,
        "steps": 2,
        "clip_norm": 1.0,
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    PrivateOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **facts, **given)


def made_private(width, outputs=2, **given):
    torch = pytest.importorskip("torch")
    from dpopt.torch import make_private

    model = torch.nn.Linear(width, outputs)
    make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), (numbers(width).astype(np.float32), np.zeros(40, dtype=np.int64)), epsilon=1.0,
        delta=1e-5, epochs=1, batch_size=20, max_grad_norm=1.0, **given,
    )  # fmt: skip


def zeroth(width, **given):
    torch = pytest.importorskip("torch")
    from dpopt.torch import ZerothOrder

    model = torch.nn.Linear(width, 1)
    ZerothOrder(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        clip_norm=1.0,
        dataset_size=40,
        sampling_probability=0.5,
        steps=2,
        epsilon=1.0,
        delta=1e-5,
        **given,
    )


def updates(width, **given):
    from dpopt.federated import PrivateUpdates

    PrivateUpdates(clip_norm=1.0, epsilon=4.0, delta=1e-5, rounds=2, **given).check([np.zeros(width)])


def summed(width, **given):
    from dpopt.secure_sum import SecureSum

    terms = SecureSum(clients=4, dimension=width, clip_norm=1.0, epsilon=8.0, delta=1e-5, **given)
    terms.release(terms.encode(np.zeros(width)))


def of_records(width, **given):
    from dpopt.flower import PrivateClient

    PrivateClient(numbers(width), np.sign(numbers(1)[:, 0]), epsilon=4.0, delta=1e-5, rounds=2, **given)


ENTRANCES = {
    "minimize": lambda w, **o: dpopt.minimize(
        lambda x, a: x - a, numbers(w), np.zeros(w), epsilon=1.0, delta=1e-4, method="noisy-gradient-descent", steps=2, **o
    ),
    "minimize of an objective": lambda w, **o: dpopt.minimize(
        dpopt.objectives.PoissonRegression(n_features=w), (numbers(w), np.ones(40)), epsilon=1.0, delta=1e-4, method="noisy-gradient-descent",
        steps=2, **o,
    ),
    "stationary": lambda w, **o: dpopt.select.stationary(
        lambda x, a: x - a, numbers(w, 400), [np.zeros(w), np.ones(w)], epsilon=1.0, clip_norm=1.0, **o
    ),
    "aggregate": lambda w, **o: dpopt.aggregate(
        lambda rows: rows.mean(axis=0), numbers(w, 4000), groups=400, bounds=([-1] * w, [1] * w), epsilon=2.0, **renamed(o)
    ),
    "ClippedSums": lambda w, **o: dpopt.ClippedSums(
        np.zeros(w), dataset_size=40, sampling_probability=0.5, steps=2, clip_norm=1.0, epsilon=1.0, delta=1e-5, **o
    ),
    "make_private": made_private, "PrivateOptimizer": trained_by_hand, "ZerothOrder": zeroth,
    "PrivateUpdates": updates, "SecureSum": summed, "PrivateClient": of_records,
    "Experts": lambda w, **o: dpopt.online.Experts(w, 50, 1.0, 1e-6, **o),
    "OnlineConvex": lambda w, **o: dpopt.online.OnlineConvex(w, 50, 1.0, 1e-6, radius=1.0, **o),
    "Bandit": lambda w, **o: dpopt.online.Bandit(w, 50, 1.0, **o),
    "partial_fit": lambda w, **o: dpopt.LogisticRegression(**FACTS | {"method": dpopt.methods.Auto(steps=2)}, **o).partial_fit(
        numbers(w, 400), (numbers(1, 400)[:, 0] > 0).astype(int), classes=[0, 1]
    ),
    "HeavyTailedMean": lambda w, **o: dpopt.HeavyTailedMean(epsilon=0.5, moment=2.0, **o).fit(numbers(w, 40_000)),
    "GaussianNB": lambda w, **o: dpopt.GaussianNB(epsilon=1.0, delta=1e-5, bounds=(-1, 1), classes=[0, 1], **o).fit(
        numbers(w, 400), (numbers(1, 400)[:, 0] > 0).astype(int)
    ),
    "CoxRegressor": lambda w, **o: dpopt.CoxRegressor(epsilon=1.0, delta=1e-5, horizon=1.0, bounds=(-1, 1), **o).fit(
        numbers(w, 400), dpopt.survival(np.abs(numbers(1, 400)[:, 0]), numbers(1, 400)[:, 0] > 0)
    ),
    "PrivateScaler": lambda w, **o: dpopt.PrivateScaler(epsilon=1.0, delta=1e-5, bounds=(-1, 1), **o).fit(numbers(w, 400)),
    "PCA": lambda w, **o: dpopt.PCA(epsilon=1.0, delta=1e-5, bounds=(-1, 1), **o).fit(numbers(w, 400)),
    "histogram": lambda w, **o: mechanisms.histogram(["a"] * 20, [f"{i} of {w}" for i in range(w)], epsilon=1.0, **renamed(o)),
    "gaussian_sum": lambda w, **o: mechanisms.gaussian_sum(numbers(w), 1.0, epsilon=1.0, delta=1e-6, **renamed(o)),
    "laplace_sum": lambda w, **o: mechanisms.laplace_sum(numbers(w), 1.0, epsilon=1.0, delta=1e-6, **renamed(o)),
    "second_moment": lambda w, **o: mechanisms.second_moment(numbers(w), 1.0, epsilon=1.0, delta=1e-6, **renamed(o)),
    "private_bounds": lambda w, **o: mechanisms.private_bounds(numbers(w, 5000), epsilon=1.0, **renamed(o)),
    "discrete_laplace_counts": lambda w, **o: mechanisms.discrete_laplace_counts([3] * w, epsilon=1.0, **renamed(o)),
    "discrete_gaussian_counts": lambda w, **o: mechanisms.discrete_gaussian_counts([3] * w, epsilon=1.0, delta=1e-6, **renamed(o)),
    "choose": lambda w, **o: mechanisms.choose([3.0] * w, epsilon=1.0, **renamed(o)),
}  # fmt: skip
#: who is protected, where it is no record; the relation of what knows one alone
UNITS = {
    "PrivateUpdates": {"unit": "client", "relation": "replace-one"}, "SecureSum": {"unit": "client", "relation": "replace-one"},
    "Experts": {"unit": "round"}, "OnlineConvex": {"unit": "round"}, "Bandit": {"unit": "round"},
}  # fmt: skip


def renamed(given):
    """Mechanisms call a ledger a ledger."""
    return {"ledger" if name == "budget" else name: value for name, value in given.items()}


@pytest.fixture
def nothing_counted(monkeypatch):
    monkeypatch.setattr(_repeats, "_COUNTS", {})


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_counts_what_no_ledger_pays(entrance, nothing_counted):
    run = ENTRANCES[entrance]
    found = [
        [w for w in warned(lambda: run(3)) if "without a ledger" in str(w.message)]  # noqa: B023
        for _ in range(4)
    ]
    assert [len(each) for each in found] == [0, 1, 0, 1]
    assert (
        " 2 " in str(found[1][0].message)
        and " 4 " in str(found[3][0].message)
        and "If they hold the same people" in str(found[1][0].message)
    )
    assert found[1][0].filename == __file__
    # of another form; and with a ledger, whose sum is its own
    assert warned(lambda: run(5)) == []
    ledger = dpopt.Ledger(90.0, 0.1, **UNITS.get(entrance, {}))
    for _ in range(4):
        assert warned(lambda: run(5, budget=ledger)) == []
    assert len(ledger.entries) == 4


def test_records_of_one_form_are_counted_together(nothing_counted):
    assert warned(lambda: LogisticRegression(**FACTS).fit(*table(3))) == []
    (second,) = warned(lambda: ENTRANCES["gaussian_sum"](3))
    assert "made 2 private releases of tables with these 3 columns" in str(second.message) and "epsilon 1.5 " in str(
        second.message
    )
    assert warned(lambda: ENTRANCES["minimize of an objective"](3)) == []
    assert "4 private releases" in str(warned(lambda: ENTRANCES["minimize"](3))[0].message)
    # networks of other sizes are trained on the same records
    assert warned(lambda: made_private(7)) == [] and "2 private releases" in str(
        warned(lambda: made_private(7, 5))[0].message
    )


def test_how_many_records_there_are_has_no_part_in_the_count(nothing_counted):
    def run(rows):
        mechanisms.gaussian_sum(numbers(3, rows), 1.0, epsilon=1.0, delta=1e-6, relation="add-or-remove", n_rows=40)

    assert warned(lambda: run(40)) == [] and len(warned(lambda: run(39))) == 1


def test_seeded_releases_are_void_and_count_nothing(nothing_counted):
    for _ in range(3):
        assert not any("without a ledger" in str(w.message) for w in warned(lambda: ONCE["histogram"](insecure_seed=1)))
    assert not any("without a ledger" in str(w.message) for w in warned(lambda: ONCE["histogram"]()))


def test_every_session_is_opened_where_it_is_counted():
    here = Path(dpopt.__file__).parent
    files = {file.relative_to(here).as_posix() for file in here.rglob("*.py") if "_core.Session(" in file.read_text()}
    assert files == {"_repeats.py"}
