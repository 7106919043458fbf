"""Options of methods: keywords, types and documentation are made from the library's descriptions; none is ignored."""

import copy
import functools
import importlib.util
import inspect
import pickle
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt import _options, methods
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

ROOT = Path(__file__).parents[1]
BY_NAME = {option["name"]: option for option in _options.CATALOGUE}
EMBEDDINGS = (dpopt.EmbeddingClassifier, dpopt.TwoTowerClassifier, dpopt.TwoTowerRegressor)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None}
CLASSIFIER = {**BUDGET, "classes": [0, 1]}
ESTIMATORS = [
    (dpopt.LogisticRegression, CLASSIFIER),
    (dpopt.LinearSVC, CLASSIFIER),
    (dpopt.SGDClassifier, CLASSIFIER),
    (dpopt.LinearRegression, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.HuberRegression, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.PoissonRegressor, {**BUDGET, "target_bounds": (0, 8)}),
    (dpopt.QuantileRegressor, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.Ridge, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.SGDRegressor, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.SparseLogisticRegression, CLASSIFIER),
    (dpopt.SparseLinearRegression, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.EmbeddingClassifier, CLASSIFIER),
    (dpopt.TwoTowerClassifier, CLASSIFIER),
    (dpopt.TwoTowerRegressor, {**BUDGET, "target_bounds": (-1, 1)}),
]


def test_the_file_of_methods_is_made_from_the_descriptions():
    spec = importlib.util.spec_from_file_location("options", ROOT / "options.py")
    options = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(options)
    assert options.TARGET.read_text(encoding="utf-8") == options.text(), "run `make options`"


def test_every_method_has_a_class_with_its_options():
    assert set(methods.BY_NAME) == {"auto", "embedding-sgd", *dpopt.METHODS}
    described = {option["name"]: option for option in _options.CATALOGUE}
    for name, kind in methods.BY_NAME.items():
        assert kind.name == name and issubclass(kind, methods.Method) and getattr(methods, kind.__name__) is kind
        own = list(inspect.signature(kind).parameters)
        having = [o["name"] for o in _options.CATALOGUE if name == "auto" or name in o["methods"]]
        assert own == [option for option in having if option != "max_features"]
        text = " ".join(kind.__doc__.split())
        for option in own:
            assert inspect.signature(kind).parameters[option].default in (None, False)
            assert f" {option} : " in text
            help_text = " ".join(described[option]["help"].split())[1:]
            assert name == "auto" or help_text in text or "As in :class:`NoisySGD`" in text
    assert set(methods.__all__) == {"BY_NAME", "Method", *(kind.__name__ for kind in methods.BY_NAME.values())}


def test_a_method_without_options_of_its_own_is_an_object_too():
    plain = methods.OneStep()
    assert (
        repr(plain) == "OneStep()"
        and plain.given() == {}
        and [*inspect.signature(methods.OneStep).parameters] == ["intervals"]
    )
    for copied in (clone(plain), pickle.loads(pickle.dumps(plain)), copy.deepcopy(plain)):
        assert copied == plain and copied is not plain and hash(copied) == hash(plain)
    with pytest.raises(TypeError):
        methods.OneStep(steps=3)


@pytest.mark.parametrize(
    "kind", [k for k in methods.BY_NAME.values() if k is not methods.OneStep], ids=lambda kind: kind.__name__
)
def test_a_method_is_an_object_as_scikit_learns_are(kind):
    first = next(iter(inspect.signature(kind).parameters))
    plain, changed = kind(), kind(**{first: 0.25})
    assert repr(plain) == f"{kind.__name__}()" and repr(changed) == f"{kind.__name__}({first}=0.25)"
    assert changed.given() == {first: 0.25} and plain.given() == {}
    for copied in (
        clone(changed),
        pickle.loads(pickle.dumps(changed)),
        copy.deepcopy(changed),
        kind().set_params(**{first: 0.25}),
    ):
        assert copied == changed != plain and copied is not changed and hash(copied) == hash(changed)
    with pytest.raises(TypeError, match=f"{kind.__name__} has no parameter '{first}s'; did you mean {first}"):
        kind(**{f"{first}s": 0.25})


@pytest.mark.parametrize(("kind", "given"), ESTIMATORS)
def test_a_method_with_options_is_a_parameter_of_estimators(kind, given):
    method = methods.BY_NAME[_options.EMBEDDING if kind in EMBEDDINGS else "auto"](steps=7)
    known = kind(**given, method=method)
    assert known.get_params()["method__steps"] == 7 and clone(known).method == method and "(steps=7)" in repr(known)
    assert known.set_params(method__steps=9).method.steps == 9
    # also where only a name, or nothing, was given
    assert kind(**given).set_params(method__steps=9).method.given() == {"steps": 9}
    with pytest.raises(
        TypeError, match=r"no parameter 'clip_nrom'; did you mean method=dpopt.methods.\w+\(clip_norm=...\)"
    ):
        kind(clip_nrom=1.0)
    with pytest.raises(TypeError, match="has no parameter 'nieghbors'; did you mean neighbors"):
        kind(nieghbors="zero-out")
    for name in set(inspect.signature(methods.Auto).parameters) - {"distance"}:
        usable = any(method in kind._usable_methods for method in BY_NAME[name]["methods"])
        if usable:
            with pytest.raises(
                TypeError, match=rf"has no parameter '{name}'; write method=dpopt.methods.\w+\({name}=...\)"
            ):
                kind(**{name: 1})
    for wrong, why in ((methods.Auto, "is the class Auto; give an object of it"), (3, "method is a number; give")):
        with pytest.raises(TypeError, match=why):
            kind(**given, method=wrong).explain(2000, 3)
    with pytest.raises(ValueError, match="there is no method 'noisy'; choose one of auto, adaptive"):
        kind(**given, method="noisy").explain(2000, 3)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (dpopt.LogisticRegression(method="peeling"), r"cannot use Peeling \(peeling\), .* take SparseLogisticRegression"),
        (dpopt.LogisticRegression(method=methods.HardThresholdingGD(steps=3)), "take SparseLogisticRegression"),
        (dpopt.LogisticRegression(method=methods.EmbeddingSGD()), "is of embedding models; take EmbeddingClassifier"),
        (dpopt.LogisticRegression(method=methods.Auto(peeling="gumbel")), "no method with the option peeling, .* take Sparse"),
        (dpopt.LogisticRegression(method=methods.Auto(count_noise=3.0)), "option count_noise, which is of embedding models"),
        (dpopt.SparseLogisticRegression(method="noisy-sgd"), "keep every feature; take LogisticRegression"),
        (dpopt.EmbeddingClassifier(method="noisy-sgd"), "keep every feature; take LogisticRegression"),
        (dpopt.LinearSVC(method=methods.ObjectivePerturbation(shift=1.0)), "does not use the option shift: .*take LogisticRegression"),
        (dpopt.LinearSVC(method=methods.Auto(calibration=0)), "does not use the option calibration"),
        (dpopt.LinearRegression(method=methods.Auto(regularization=1.0)), r"option regularization: .* take Ridge\(alpha"),
        (dpopt.Ridge(method=methods.NoisySGD(regularization=1.0)), "say it as alpha="),
        (dpopt.HuberRegression(method=methods.Auto(calibration=0.1)), "take LinearRegression"),
    ],
)  # fmt: skip
def test_what_an_estimator_cannot_use_is_refused_with_what_to_take_instead(model, why):
    more = {"target_bounds": (-1, 1)} if hasattr(model, "target_bounds") else {"classes": [0, 1]}
    with pytest.raises(ValueError, match=why):
        model.set_params(bounds=(-1, 1), **more).explain(2000, 3)


def test_a_linear_model_may_use_frank_wolfe_and_its_options():
    assert (
        dpopt.LogisticRegression(**CLASSIFIER, method=methods.FrankWolfe(l1_norm=2.0)).explain(2000, 3).method
        == "frank-wolfe"
    )


def test_candidates_are_methods_or_their_options():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (X[:, 0] > 0).astype(int)
    plain = dpopt.LogisticRegression(bounds=(-1, 1), classes=[0, 1], epsilon=4.0, delta=1e-5)
    asked = {"epsilon": 8.0, "delta": 1e-5, "expected_runs": 1, "insecure_seed": 1}
    for grid in (
        {"method": [methods.NoisyGradientDescent(steps=3), methods.ObjectivePerturbation()]},
        [{"method": methods.NoisyGradientDescent(steps=3)}, {"method__regularization": 4.0}],
        {"method__regularization": [1.0, 5.0]},
    ):
        search = dpopt.select.PrivateSearchCV(plain, grid, **asked)
        with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
            found = search.fit(X, y)
        assert found.privacy_.epsilon <= 8.0
        assert all(found.best_estimator_.get_params()[name] == value for name, value in found.best_params_.items())
        with pytest.warns(dpopt.PrivacyWarning, match="every inner"):
            listed = grid if isinstance(grid, dict) else [{name: [value]} for c in grid for name, value in c.items()]
            usual = GridSearchCV(plain, listed, cv=2).fit(X, y)
        assert usual.best_params_.keys() <= {"method", "method__regularization"}
    with pytest.raises(
        ValueError, match="sets 'regularization', a parameter that .* not have; did you mean method__regularization"
    ):
        dpopt.select.PrivateSearchCV(plain, {"regularization": [1.0]}, **asked).explain(600, 2)


def values_of(option):
    """Values, not all of which are the default."""
    if option["name"] == "intervals":
        # a level for which so few rows are enough
        return [0.6]
    form = option["form"]
    if form == "words":
        return [word for word, _ in option["words"]]
    if form == "real":
        return [min(0.37 if option["low"] < 0.37 else 2.37, option["high"])]
    return [{"whole": 3, "flag": True, "norm": "lp:1.5", "reals": [0.3, 0.2, 0.1]}[form]]


@pytest.mark.parametrize(("kind", "given"), ESTIMATORS)
def test_an_option_changes_the_plan_of_a_method_or_is_refused_by_its_name(kind, given):
    # every pair of method and option is a test of the library; here one method per option
    embedding = kind in EMBEDDINGS
    plain = kind(**given)

    def row(method, **options):
        fixed = clone(plain).set_params(method=methods.BY_NAME[method](**options))
        return next(c for c in fixed.explain(2000, 3).candidates if c["method"] == method)

    known = functools.cache(row)
    tried = 0
    for name in inspect.signature(methods.Auto).parameters:
        usable = [m for m in BY_NAME[name]["methods"] if m in kind._usable_methods]
        if not usable or name in kind._options_of_others:
            continue
        if kind is dpopt.Ridge and not any("regularization" in option_names(m) for m in usable):
            # Ridge always says a regularization, which its only methods do not have
            continue
        more = {"embedding_update": "adam"} if embedding and name in SHAPES else {}
        method = next((m for m in usable if not known(m, **more).get("not_applicable")), None)
        assert method is not None, f"{kind.__name__} takes {name}, but has no method that takes it"
        before, rows = known(method, **more), []
        for value in values_of(BY_NAME[name]):
            rows.append(row(method, **more, **{name: value}))
            why = rows[-1].get("not_applicable")
            assert why is None or name in why, (method, name, why)
        # one of several words may be the default
        assert any(after != before for after in rows), (method, name)
        tried += 1
    assert tried >= 10


#: Options that shape adaptive steps.
SHAPES = ("moments", "public_moments", "moment_share", "moment_ratio", "box_radius", "ball_radius", "second_momentum")


def option_names(method):
    return [option["name"] for option in _options.CATALOGUE if method in option["methods"]]


def test_a_method_refuses_what_it_does_not_have():
    with pytest.raises(TypeError, match="NoisyNewton has no parameter 'clip_norm'"):
        methods.NoisyNewton(clip_norm=1.0)
    # and auto takes a method that has it
    plan = dpopt.LogisticRegression(**CLASSIFIER, method=dpopt.methods.Auto(ball_radius=0.5)).explain(2000, 3)
    assert "ball_radius" in option_names(plan.method)
    assert plan.schedule["domain"] == {"form": "ball", "radius": 0.5}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"clip_norm": "a"}, TypeError, "clip_norm is a string; give a number|clip_norm is .*; give a number"),
        ({"clip_norm": -1.0}, ValueError, "clip_norm is -1; give a positive, finite number"),
        ({"clip_norm": False}, ValueError, "clip_norm is 0; give a positive"),
        ({"steps": 2.5}, ValueError, "steps must be a whole number"),
        ({"moments": "all"}, ValueError, "moments is `all`; give one of private"),
        ({"moments": [1.0, 1.0, 1.0]}, ValueError, "moments is a sequence; give one of private"),
        ({"euclidean_clip": "yes"}, ValueError, "euclidean_clip is 'yes'; give one of True, False"),
        ({"public_moments": [1.0, 1.0]}, ValueError, "2 entries for 3 features"),
    ],
)
def test_wrong_values_are_refused_by_name(options, error, words):
    with pytest.raises(error, match=words):
        dpopt.LogisticRegression(**CLASSIFIER, method=methods.PAGAN(**options)).explain(2000, 3)


def test_labels_are_not_paid_for_where_an_option_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (500, 2)), rng.integers(0, 2, 500)
    ledger = dpopt.Ledger(2.0, 1e-5)
    for options in (
        {"method": methods.NoisyNewton(regularization=-1.0)},
        {"method": dpopt.methods.Auto(rate_schedule="x")},
        {"method": dpopt.methods.Auto(steps=2.5)},
    ):
        model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), budget=ledger, **options)
        with pytest.raises((ValueError, dpopt.PrivacyError)):
            model.fit(X, y)
    assert ledger.spent == (0.0, 0.0)


def test_a_flag_that_is_not_set_says_nothing():
    given = {**CLASSIFIER, "method": dpopt.methods.Auto(select_rows=np.False_, count_noise=2.0)}
    with pytest.raises(dpopt.PrivacyError, match="count_noise has no effect without select_rows"):
        _ = dpopt.EmbeddingClassifier(**given).explain(2000, 3).chosen
    plan = dpopt.LogisticRegression(**CLASSIFIER, method=methods.Auto(steps=50, constant_time=np.False_)).explain(
        2000, 3
    )
    assert "steps" in option_names(plan.method)


def test_subclasses_keep_the_parameters_that_they_hand_on():
    class Mine(dpopt.LogisticRegression):
        def __init__(self, epsilon=1.0, **options):
            super().__init__(epsilon, **options)

    model = Mine(2.0, method=methods.NoisySGD(steps=9))
    assert model.get_params()["method__steps"] == 9 and clone(model).method.steps == 9 and clone(model).epsilon == 2.0
    with pytest.raises(TypeError, match="no parameter 'neigbors'; did you mean neighbors"):
        Mine(neigbors="zero-out")
