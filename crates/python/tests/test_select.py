"""Private search: accounting, secrecy of the losers, refusals."""

import json
import pickle
import re
import warnings

import dpopt
import numpy as np
import pytest
from dpopt import _core, accounting
from dpopt.select import PrivateSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (4000, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "insecure_seed makes")
        yield


def search(**kwargs):
    given = {"epsilon": 6.0, "delta": 1e-5, "expected_runs": 4, **kwargs}
    return PrivateSearchCV(
        dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="output-perturbation"),
        {"method__regularization": [1.0, 1e6]}, **given,
    )  # fmt: skip


def test_a_search_pays_once_and_finds_a_useful_model(table):
    X, y = table
    ledger = dpopt.Ledger(6.0, 1e-5)
    fitted = search(budget=ledger).fit(X, y)
    assert ledger.remaining == (0.0, 0.0)
    assert 5.0 < fitted.privacy_.epsilon <= 6.0 and fitted.best_estimator_.privacy_ is fitted.privacy_
    # more than a third of the budget for each run, and never all of it
    assert 2.0 < fitted.best_estimator_.epsilon == fitted.plan_.run_epsilon < 6.0
    assert fitted.best_estimator_.delta <= 1e-5 / 4
    assert set(vars(fitted)) - set(fitted.get_params()) - {"estimator"} <= {
        "best_estimator_", "best_params_", "best_score_", "privacy_", "plan_", "param_candidates",
    }  # fmt: skip
    # of use, if K ≥ 1 candidates were not all the useless one: by a seed, which no ledger takes
    assert search(insecure_seed=1).fit(X, y).score(X, y) > 0.9


def test_the_better_candidate_wins_when_there_are_many_runs(table):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        fitted = search(expected_runs=30, epsilon=30.0, insecure_seed=5).fit(X, y)
        again = search(expected_runs=30, epsilon=30.0, insecure_seed=5).fit(X, y)
    assert fitted.best_params_ == again.best_params_ == {"method__regularization": 1.0}
    assert np.array_equal(fitted.best_estimator_.coef_, again.best_estimator_.coef_)


def test_the_number_of_runs_follows_its_law():
    # mean 5, variance 20; over 4000 draws the mean is within 0.36 (five standard deviations)
    draws = np.array([_core.repetitions(1.0, 5.0, seed) for seed in range(4000)])
    assert draws.min() == 1 and abs(draws.mean() - 5.0) < 0.36
    assert abs((draws == 1).mean() - 0.2) < 0.032
    assert _core.repetitions(1.0, 1.0, None) == 1
    poisson = np.array([_core.repetitions(np.inf, 3.0, seed) for seed in range(4000)])
    # mean 3/(1 - e^-3), variance below 3: within 0.14
    assert poisson.min() == 1 and abs(poisson.mean() - 3 / -np.expm1(-3)) < 0.14


@pytest.mark.parametrize("distribution", ["logarithmic", "geometric", "poisson"])
def test_every_law_searches_within_its_budget(table, distribution):
    X, y = table
    fitted = search(distribution=distribution, epsilon=3.0).fit(X, y)
    assert fitted.plan_ == search(distribution=distribution, epsilon=3.0).explain(4000, 2)
    assert fitted.privacy_.epsilon <= 3.0 and fitted.plan_.distribution == distribution
    assert fitted.privacy_.ledger[0][0]["label"] == "private selection" and "certified" in fitted.plan_._repr_html_()
    again = accounting.epsilon(fitted.privacy_.event, fitted.privacy_.delta)
    assert float(again) == pytest.approx(fitted.privacy_.epsilon, rel=1e-9)


def test_no_warning_of_a_single_run_leaves(table):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(budget=dpopt.Ledger(10.0, 1e-3)).fit(X, y)


def test_refusals(table):
    X, y = table
    with pytest.raises(ValueError, match="Pipeline of dpopt's public encoders"):
        PrivateSearchCV(make_pipeline(StandardScaler(), dpopt.LogisticRegression(classes=[0, 1])), [{}]).fit(X, y)
    with pytest.raises(ValueError, match="declare the classes"):
        PrivateSearchCV(dpopt.LogisticRegression(), [{}]).fit(X, y)
    with pytest.raises(ValueError, match="set by the search"):
        PrivateSearchCV(dpopt.LogisticRegression(classes=[0, 1]), {"epsilon": [1, 2]}).fit(X, y)
    with pytest.raises(ValueError, match="zero-out or replace-one"):
        search(neighbors="add-or-remove").fit(X, y)
    with pytest.raises(ValueError, match="no method"):
        PrivateSearchCV(dpopt.LogisticRegression(classes=[0, 1]), {"method": ["magic"]}, delta=1e-6).fit(X, y)
    ledger = dpopt.Ledger(1.0, 1e-6)
    with pytest.raises(dpopt.BudgetExceeded):
        search(budget=ledger).fit(X, y)


def test_pipelines_of_public_encoders_and_regression():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 10, (2000, 2))
    y = X[:, 0] / 10
    pipe = make_pipeline(
        dpopt.PublicScaler((0, 10)), dpopt.Ridge(bounds=(-1, 1), target_bounds=(0, 1), method="output-perturbation")
    )
    fitted = PrivateSearchCV(
        pipe, {"ridge__alpha": [1.0, 5.0]}, epsilon=9.0, delta=1e-5, expected_runs=2, insecure_seed=1
    ).fit(X, y)
    assert fitted.predict(X[:3]).shape == (3,)
    assert 6.0 < fitted.best_estimator_[-1].privacy_.epsilon <= 9.0


PEOPLE = {"bounds": {"age": (17, 90), "gain": (0, 99999)}, "columns": dpopt.Columns(levels={"sex": ["f", "m"]})}
#: Settled, so that planning is quick.
PLAIN = {"fine_knots": 0, "pairs": "none", "knots": 4}


@pytest.fixture(scope="module")
def people():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    age = rng.integers(17, 90, 3000)
    facts = {"age": age, "gain": rng.lognormal(5, 2, 3000).clip(0, 99999), "sex": rng.choice(["f", "m"], 3000)}
    return pandas.DataFrame({**facts, "income": np.where(age > 50, "high", "low")})


def test_a_search_wants_the_range_of_a_number():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (3000, 2))
    grid = {"method__regularization": [1.0, 10.0]}
    search = PrivateSearchCV(
        dpopt.LinearRegression(bounds=(-1, 1)), grid, epsilon=4.0, delta=1e-5, scoring=lambda a, b: a == b
    )
    with pytest.raises(ValueError, match="a run may fail to find it privately"):
        search.fit(X, X[:, 0])


def named_search(grid, *, inner=dpopt.LogisticRegression, **kwargs):
    facts = {
        **PEOPLE,
        # a search plans it at many budgets: its noise has a closed form
        "method": "output-perturbation",
        **({} if "target_bounds" in kwargs else {"classes": ["low", "high"]}),
    }
    own = {
        name: kwargs.pop(name)
        for name in list(kwargs)
        if name in inner().get_params() and name not in ("epsilon", "budget", "insecure_seed")
    }
    return PrivateSearchCV(
        inner(**{**facts, **own}), grid, **{"epsilon": 6.0, "delta": 1e-5, "expected_runs": 2, **kwargs}
    )


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_search_takes_tables_with_named_columns(people, library, tmp_path):
    if library != "pandas":
        module = pytest.importorskip(library)
        given = module.DataFrame(people.to_dict("list")) if library == "polars" else module.Table.from_pandas(people)
    else:
        given = people
    search = named_search({"encoding": [PLAIN, {**PLAIN, "knots": 8}], "row_norm": [1.0]}, insecure_seed=1)
    fitted = search.fit(given, "income")
    assert fitted.score(given, "income") > 0.9 and 0.5 < fitted.best_score_ < 1.5
    assert fitted.predict(given).tolist() == fitted.best_estimator_.predict(given).tolist()
    assert fitted.plan_ == search.explain(given, y="income") and fitted.privacy_.epsilon <= 6.0
    # the file promises what the search costs, not what the winner's own fit does
    fitted.best_estimator_.save(tmp_path / "model.json")
    stored = json.loads((tmp_path / "model.json").read_text())["guarantee"]
    assert [stage["name"] for stage in stored["stages"]] == ["private search"]
    assert stored["certified_epsilon"] == fitted.privacy_.epsilon > fitted.plan_.run_epsilon
    # and so does the report
    report = fitted.best_estimator_.report(tmp_path / "report.html")
    assert "A private search chose this model" in report and (tmp_path / "report.html").read_text() == report
    assert "private search" in report.split("A private search chose")[0]
    # the score that was released, with its band
    score = re.search(
        r"Accuracy on the ([\d,]+) rows of the validation set: ([\d.]+), with a 95 % interval from ([\d.]+) to (\d+\.?\d*)",
        report,
    )
    value, low, high = (float(number) for number in score.groups()[1:])
    assert abs(value - fitted.best_score_) < 1e-3 and low < min(value, 1) <= high <= 1, score[0]
    assert pickle.loads(pickle.dumps(fitted.best_estimator_)).report() == report


def test_a_search_pays_for_all_that_its_runs_release(people, monkeypatch):
    """Histograms that spread numbers and ranges that are found privately are a part of what the search is certified for."""
    X, y = people.drop(columns="income"), people.income
    seen = []
    fit = dpopt.LogisticRegression._fit

    def watched(self, *given):
        fit(self, *given)
        # this run is certified for the budget that the search allows it, all stages together, and has released no more than that
        assert self.epsilon == plan.run_epsilon and self.delta == plan.run_delta
        assert self.privacy_.epsilon <= plan.run_epsilon and self.privacy_.delta <= plan.run_delta
        again = accounting.epsilon(accounting.ComposedDpEvent([self.privacy_.event]), plan.run_delta)
        assert float(again) <= plan.run_epsilon
        seen.append((self.privacy_.stages, [release["label"] for stage in self.privacy_.ledger for release in stage]))

    for facts, names, labels in (
        ({"encoding": {**PLAIN, "spread": True}}, ["model"], {"histograms of numbers"}),
        ({"bounds": {"gain": (0, 99999)}, "bounds_budget": 0.3, "encoding": {**PLAIN, "spread": True}, "columns": dpopt.Columns(numeric=["age"])}, ["bounds", "model"], {"histograms of numbers"}),
    ):  # fmt: skip
        search = named_search([{"encoding": PLAIN}], insecure_seed=1, **facts)
        plan = search.explain(X, y=y)
        with monkeypatch.context() as patched:
            patched.setattr(dpopt.LogisticRegression, "_fit", watched)
            search.fit(X, y)
        for stages, released in seen:
            assert [stage["name"] for stage in stages] == names and labels <= set(released)
        # and the event of the search is made from theirs: the same curve, priced again from the released events
        law = _core.plan_search(
            np.inf, 2.0, 6.0, 1e-5, "zero-out", lambda e, d: [accounting.ComposedDpEvent([accounting.from_dict(s["event"]) for s in seen[0][0]]).to_json()]
        )  # fmt: skip
        assert seen and json.loads(law)["epsilon"] <= 6.0
        seen.clear()


def test_a_run_that_releases_something_else_is_refused(people, monkeypatch):
    def cheaper(self, *given):
        self.epsilon *= 2
        return fit(self, *given)

    fit = dpopt.LogisticRegression._fit
    monkeypatch.setattr(dpopt.LogisticRegression, "_fit", cheaper)
    with pytest.raises(dpopt.PrivacyError, match="something else than what the search was charged for"):
        named_search([{"encoding": PLAIN}]).fit(people, "income")


def test_a_run_without_a_model_is_an_outcome_like_others(people, monkeypatch):
    """A private range that is not found ends its run, and the search only if that run is the one that is chosen."""
    fit = dpopt.LogisticRegression._fit

    def failing(self, *given):
        if self.row_norm == 0.5:
            raise dpopt.PrivacyError("no range was found for `age`")
        fit(self, *given)

    monkeypatch.setattr(dpopt.LogisticRegression, "_fit", failing)
    ledger = dpopt.Ledger(6.0, 1e-5)
    with pytest.raises(
        dpopt.PrivacyError, match="the run that was chosen found no model: no range was found for `age`"
    ):
        named_search({"row_norm": [0.5]}, encoding=PLAIN, budget=ledger).fit(people, "income")
    assert ledger.remaining == (0.0, 0.0)
    # none of five runs with a model has probability e^-2.5; the seed is the search's, which hands each run its own
    both = named_search(
        {"row_norm": [0.5, 1.0]},
        encoding=PLAIN,
        epsilon=60.0,
        expected_runs=5,
        distribution="poisson",
        insecure_seed=3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpopt.PrivacyWarning)
        assert both.fit(people, "income").best_params_ == {"row_norm": 1.0}


def test_pipelines_of_table_encoders_and_matrices_with_an_encoding(people):
    pipe = make_pipeline(
        dpopt.TableEncoder(**PEOPLE), dpopt.LinearSVC(row_norm=1, fit_intercept=False, classes=["low", "high"], method="output-perturbation")
    )  # fmt: skip
    grid = {"tableencoder__encoding": [{"knots": 4}]}
    fitted = PrivateSearchCV(pipe, grid, epsilon=8.0, delta=1e-5, expected_runs=1, insecure_seed=1)
    fitted.fit(people, "income")
    assert fitted.score(people.drop(columns="income"), people.income) > 0.8
    assert fitted.plan_ == PrivateSearchCV(pipe, grid, epsilon=8.0, delta=1e-5, expected_runs=1).explain(
        people, y="income"
    )
    matrix = people[["age", "gain"]].to_numpy(dtype=float)
    search = named_search({"encoding": [None, PLAIN]}, bounds=([17, 0], [90, 99999]), insecure_seed=1, columns=None)
    assert search.fit(matrix, people.income).score(matrix, people.income) > 0.9
    number = named_search([{"encoding": PLAIN}], inner=dpopt.Ridge, target_bounds=(17, 90), insecure_seed=1)
    assert number.fit(people[["gain", "sex"]].assign(age=people.age), people.age.astype(object)).best_score_ > 0.7


def test_refusals_for_tables(people):
    with pytest.raises(ValueError, match="declare the classes .* could find too few"):
        named_search([{"encoding": PLAIN}], classes=None).fit(people, "income")
    with pytest.raises(ValueError, match='and reveal it; use "missing"'):
        named_search([{"encoding": PLAIN}], bad_cells="error").fit(people, "income")
    with pytest.raises(ValueError, match="for all, or for none"):
        named_search([{}, {"bounds": (0, 1), "columns": None}]).fit(people, "income")
    with pytest.raises(ValueError, match="n_rows is set by the search"):
        named_search([{"encoding": PLAIN}], n_rows=3000).fit(people, "income")
    with pytest.raises(TypeError, match="explain needs the table; give X"):
        named_search([{"encoding": PLAIN}]).explain(3000, 3)
    with pytest.raises(TypeError, match="columns are declared by name, and X is a sequence"):
        named_search([{"encoding": PLAIN}]).fit(people[["age", "gain"]].to_numpy(), people.income)
