"""Options of methods: keywords, types and documentation are made from the library's descriptions; none is ignored."""

import functools
import importlib.util
import inspect
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt import _options
from sklearn.base import clone

ROOT = Path(__file__).parents[1]
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1)}
CLASSIFIER = {**BUDGET, "classes": [0, 1]}
ESTIMATORS = [
    (dpopt.LogisticRegression, CLASSIFIER),
    (dpopt.LinearSVC, CLASSIFIER),
    (dpopt.SGDClassifier, CLASSIFIER),
    (dpopt.LinearRegression, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.HuberRegression, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.Ridge, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.SGDRegressor, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.SparseLogisticRegression, CLASSIFIER),
    (dpopt.SparseLinearRegression, {**BUDGET, "target_bounds": (-1, 1)}),
    (dpopt.EmbeddingClassifier, CLASSIFIER),
    (dpopt.TwoTowerClassifier, CLASSIFIER),
    (dpopt.TwoTowerRegressor, {**BUDGET, "target_bounds": (-1, 1)}),
]


def test_types_are_those_of_the_descriptions():
    spec = importlib.util.spec_from_file_location("options", ROOT / "options.py")
    options = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(options)
    assert options.TARGET.read_text(encoding="utf-8") == options.text(), "run `make options`"


@pytest.mark.parametrize(("kind", "given"), ESTIMATORS)
def test_every_option_is_a_keyword_with_its_documentation(kind, given):
    parameters = inspect.signature(kind).parameters
    described = {option["name"]: option for option in _options.CATALOGUE}
    assert set(kind._method_options) <= set(parameters) | {"regularization"}
    for name in kind._keyword_options:
        assert parameters[name].default in (None, False)
        assert f"{name}: {described[name]['help']}" in kind.__doc__
    known = kind(**given, steps=7)
    assert known.get_params()["steps"] == 7 and clone(known).steps == 7 and "steps=7" in repr(known)
    assert known.set_params(steps=9).steps == 9
    with pytest.raises(TypeError, match="no parameter 'clip_nrom'; did you mean clip_norm"):
        kind(clip_nrom=1.0)


def values_of(option):
    """Values, not all of which are the default."""
    form = option["form"]
    if form == "words":
        return [word for word, _ in option["words"]]
    if form == "real":
        return [min(0.37 if option["low"] < 0.37 else 2.37, option["high"])]
    return [{"whole": 3, "flag": True, "norm": "lp:1.5", "reals": [0.3, 0.2, 0.1]}[form]]


@pytest.mark.parametrize(("kind", "given"), ESTIMATORS)
def test_an_option_changes_the_plan_of_a_method_or_is_refused_by_its_name(kind, given):
    # every pair of method and option is a test of the library; here one method per keyword
    by_name = {option["name"]: option for option in _options.CATALOGUE}
    embedding = "embedding_dim" in inspect.signature(kind).parameters
    plain = kind(**given)

    def row(method, **options):
        fixed = clone(plain).set_params(**({} if embedding else {"method": method}), **options)
        return next(c for c in fixed.explain(2000, 3).candidates if c["method"] == method)

    known = functools.cache(row)
    for name in kind._keyword_options:
        if name in ("phases", "gradient_moment", "moment_order") and kind is dpopt.Ridge:
            # Ridge always says a regularization, which methods in phases do not have
            continue
        more = {"embedding_update": "adam"} if embedding and name in SHAPES else {}
        methods = [m for m in by_name[name]["methods"] if (m == _options.EMBEDDING) == embedding]
        method = next((m for m in methods if not known(m, **more).get("not_applicable")), None)
        assert method is not None, f"{kind.__name__} has {name}, but no method that takes it"
        before, rows = known(method, **more), []
        for value in values_of(by_name[name]):
            rows.append(row(method, **more, **{name: value}))
            why = rows[-1].get("not_applicable")
            assert why is None or name in why, (method, name, why)
        # one of several words may be the default
        assert any(after != before for after in rows), (method, name)


#: Options that shape adaptive steps.
SHAPES = ("moments", "public_moments", "moment_share", "moment_ratio", "box_radius", "ball_radius", "second_momentum")


def option_names(method):
    return [option["name"] for option in _options.CATALOGUE if method in option["methods"]]


def test_a_method_refuses_what_it_does_not_have():
    plan = dpopt.LogisticRegression(**CLASSIFIER, method="noisy-newton", clip_norm=1.0).explain(2000, 3)
    with pytest.raises(
        dpopt.PrivacyError,
        match="noisy-newton has no option `clip_norm`; it has `calibration`, `steps`, `regularization`",
    ):
        _ = plan.chosen
    # and auto takes a method that has it
    plan = dpopt.LogisticRegression(**CLASSIFIER, ball_radius=0.5).explain(2000, 3)
    assert "ball_radius" in option_names(plan.method)
    assert plan.schedule["domain"] == {"form": "ball", "radius": 0.5}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"clip_norm": "a"}, TypeError, "clip_norm is a string; give a number|clip_norm is .*; give a number"),
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
        dpopt.LogisticRegression(**CLASSIFIER, method="pagan", **options).explain(2000, 3)


def test_labels_are_not_paid_for_where_an_option_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (500, 2)), rng.integers(0, 2, 500)
    ledger = dpopt.Ledger(2.0, 1e-5)
    for options in ({"method": "noisy-newton", "clip_norm": 1.0}, {"rate_schedule": "x"}, {"steps": 2.5}):
        model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1, 1), budget=ledger, **options)
        with pytest.raises((ValueError, dpopt.PrivacyError)):
            model.fit(X, y)
    assert ledger.spent == (0.0, 0.0)


def test_a_flag_that_is_not_set_says_nothing():
    given = {**CLASSIFIER, "select_rows": np.False_, "count_noise": 2.0}
    with pytest.raises(dpopt.PrivacyError, match="`count_noise` means nothing without `select_rows`"):
        _ = dpopt.EmbeddingClassifier(**given).explain(2000, 3).chosen
    plan = dpopt.LogisticRegression(**CLASSIFIER, method="noisy-sgd", constant_time=np.False_).explain(2000, 3)
    assert plan.method == "noisy-sgd"


def test_subclasses_keep_the_options_that_they_hand_on():
    class Mine(dpopt.LogisticRegression):
        def __init__(self, epsilon=1.0, **options):
            super().__init__(epsilon, **options)

    model = Mine(2.0, steps=9)
    assert model.get_params()["steps"] == 9 and clone(model).steps == 9 and clone(model).epsilon == 2.0
    with pytest.raises(TypeError, match="no parameter 'clip_nrom'; did you mean clip_norm"):
        Mine(clip_nrom=1.0)
