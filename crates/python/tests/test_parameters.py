"""Constructors: few parameters, each documented; columns and units are objects; old keywords are refused with their new place."""

import copy
import inspect
import pickle
import re
import subprocess
import sys

import dpopt
import numpy as np
import pytest
from dpopt import Columns, Unit, _renamed, _settings, _warnings
from sklearn.base import clone

LINEAR = (
    dpopt.LogisticRegression, dpopt.LinearSVC, dpopt.SGDClassifier, dpopt.LinearRegression, dpopt.Ridge, dpopt.HuberRegression, dpopt.SGDRegressor,
    dpopt.PoissonRegressor, dpopt.QuantileRegressor,
    dpopt.SparseLogisticRegression, dpopt.SparseLinearRegression, dpopt.EmbeddingClassifier, dpopt.TwoTowerClassifier, dpopt.TwoTowerRegressor,
)  # fmt: skip
MOMENTS = (dpopt.GaussianNB, dpopt.PrivateScaler, dpopt.PCA, dpopt.CoxRegressor)
ADDITIVE = (dpopt.AdditiveClassifier, dpopt.AdditiveRegressor)
ESTIMATORS = (*LINEAR, *ADDITIVE, dpopt.MeanEstimator, dpopt.HeavyTailedMean, *MOMENTS, dpopt.select.PrivateSearchCV)
ENCODERS = (dpopt.TableEncoder, dpopt.PublicScaler, dpopt.PublicOneHot, dpopt.HashingEncoder, dpopt.TextEncoder)
GROUPS = (Columns, Unit, *dpopt.methods.BY_NAME.values())
MAX_PARAMETERS, MAX_WORDS = 22, 400


def entries(kind, title):
    """Names in a section of numpydoc."""
    text = inspect.cleandoc(kind.__doc__)
    found = re.search(rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=^\w[^\n]*\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{kind.__name__} has no section {title}"
    return [name for line in re.findall(r"^(\S[^\n]*?) : ", found[1], re.MULTILINE) for name in line.split(", ")]


@pytest.mark.parametrize("kind", [*ESTIMATORS, *ENCODERS, *GROUPS], ids=lambda kind: kind.__name__)
def test_constructors_are_short_and_every_parameter_is_documented(kind):
    parameters = [name for name in inspect.signature(kind).parameters]
    assert len(parameters) <= MAX_PARAMETERS or kind is dpopt.methods.Auto
    if parameters:
        assert entries(kind, "Parameters") == parameters
    else:
        assert "Parameters\n---" not in inspect.cleandoc(kind.__doc__)
    assert len(kind.__doc__.split()) <= MAX_WORDS
    if kind in ESTIMATORS:
        assert {"privacy_", "plan_"} <= set(entries(kind, "Attributes")) and ">>> " in kind.__doc__.split("Examples\n")[
            1
        ]


@pytest.mark.parametrize("kind", LINEAR)
def test_what_estimators_share_is_called_the_same(kind):
    own = set(inspect.signature(kind).parameters)
    shared = {
        "epsilon", "delta", "method", "bounds", "columns", "unit", "neighbors", "budget", "n_rows", "row_norm", "max_nonzeros", "fit_intercept",
        "intercept_scaling", "accountant", "encoding", "bounds_budget", "bad_cells", "insecure_seed",
    }  # fmt: skip
    assert shared <= own and len(own - shared) <= 4
    assert not own & set(_renamed.OLD)


@pytest.mark.parametrize(
    ("group", "options", "other"),
    [
        (Columns, {"levels": {"sex": ["f", "m"]}, "ignore": ["id"]}, {"text": ["note"]}),
        (Columns, {"levels": {"n": np.array([1, 2])}}, {"levels": {"n": np.array([1, 3])}}),
        (Unit, {"max_rows": 4, "clipping": "row"}, {"max_rows": 5}),
    ],
)
def test_columns_and_units_are_objects_as_scikit_learns_are(group, options, other):
    made = group(**options)
    shown = ", ".join(f"{name}={options[name]!r}" for name in sorted(options))
    assert repr(made) == f"{group.__name__}({shown})" and repr(group()) == f"{group.__name__}()"
    for copied in (clone(made), pickle.loads(pickle.dumps(made)), copy.deepcopy(made), group().set_params(**options)):
        assert copied == made and copied != group(**other) and copied != object()
    assert made.given() == options


def test_columns_and_units_are_set_from_outside():
    model = dpopt.LogisticRegression().set_params(columns__levels={"sex": ["f", "m"]}, unit__max_rows=3)
    assert model.columns == Columns(levels={"sex": ["f", "m"]}) and model.unit == Unit(max_rows=3)
    again = clone(model).set_params(columns__ignore=["id"], unit=None)
    assert again.columns == Columns(levels={"sex": ["f", "m"]}, ignore=["id"]) and again.unit is None
    with pytest.raises(ValueError, match=r"no parameter 'levels'; write columns=dpopt.Columns\(levels=...\)"):
        model.set_params(levels={})
    with pytest.raises(ValueError, match=r"no parameter 'steps'; write method=dpopt.methods.NoisySGD\(steps=...\)"):
        model.set_params(steps=3)
    # an object that two estimators hold is not changed by one of them
    shared = Columns(levels={"sex": ["f", "m"]})
    one, other = dpopt.Ridge(columns=shared), dpopt.Ridge(columns=shared)
    assert one.set_params(columns__levels=None).columns.given() == {} and other.columns == shared != Columns()
    assert model.columns.ignore is None and model.get_params()["columns__levels"] == {"sex": ["f", "m"]}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"columns": {"levels": {"a": [1]}}}, "columns is of type dict; give dpopt.Columns"),
        ({"columns": Columns}, "columns is the class Columns; give an object of it: dpopt.Columns"),
        (
            {"unit": "person"},
            r"unit is text; give dpopt.Unit\(max_rows=..., count=...\); whose rows they are is said by units=",
        ),
        ({"unit": 3}, "unit is a number; give dpopt.Unit"),
    ],
)
def test_something_else_is_refused_with_what_to_give(options, why):
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    for kind in (dpopt.LogisticRegression, dpopt.EmbeddingClassifier):
        with pytest.raises(TypeError, match=why):
            kind(classes=[0, 1], bounds=(-1, 1), epsilon=1.0, **options).fit(X, y)
    with pytest.raises(TypeError, match=why):
        dpopt.MeanEstimator(bounds=(-1, 1), epsilon=1.0, **options).fit(X)


@pytest.mark.parametrize("kind", [*LINEAR, dpopt.MeanEstimator, dpopt.TableEncoder, dpopt.HeavyTailedMean, *MOMENTS])
def test_an_old_keyword_is_refused_with_its_new_place(kind):
    own = inspect.signature(kind).parameters
    for name, place in _renamed.OLD.items():
        if place.split("=")[0] in own:
            with pytest.raises(TypeError) as caught:
                kind(**{name: 1})
            assert str(caught.value) == f"{kind.__name__} has no parameter {name!r}; write {place}"
    if "method" in own and kind in LINEAR:
        with pytest.raises(TypeError, match=r"write method=dpopt.methods.\w+\(steps=...\)"):
            kind(steps=3)
    with pytest.raises(TypeError, match="has no parameter class_weight: the losses here weigh every record alike"):
        kind(class_weight="balanced")
    # what the new place is called is there
    group = {"columns": Columns, "unit": Unit}
    for place in _renamed.OLD.values():
        where, called, parameter = re.fullmatch(r"(\w+)=(?:dpopt\.(\w+))?\(?(\w+)=?.*", place).groups()
        assert called is None or (
            group[where].__name__ == called and parameter in inspect.signature(group[where]).parameters
        )


def test_what_is_not_for_means_is_refused():
    X = np.zeros((20, 1))
    for kind in (dpopt.MeanEstimator, dpopt.HeavyTailedMean):
        with pytest.raises(ValueError, match=r"unit says clipping \('row'\), and each unit has one vector here"):
            kind(epsilon=1.0, unit=Unit(clipping="row", max_rows=2)).fit(X, units=np.arange(20) % 5)
    with pytest.raises(
        ValueError, match=r"unit says max_rows \(2\), and the bound on a unit's rows is the estimator's"
    ):
        search = dpopt.select.PrivateSearchCV(
            dpopt.Ridge(target_bounds=(0, 1)), {"alpha": [1.0]}, unit=Unit(max_rows=2)
        )
        search.fit(X, X[:, 0], units=np.arange(20) % 5)


def test_the_default_budget_is_one_and_is_known_as_a_default():
    default = dpopt.LogisticRegression().epsilon
    assert default == 1.0 and repr(default) == str(default) == f"{default}" == "1.0" and isinstance(default, float)
    assert inspect.signature(dpopt.LogisticRegression).parameters["epsilon"].default == 1.0
    for copied in (copy.copy(default), copy.deepcopy(default), pickle.loads(pickle.dumps(default))):
        assert copied is default
    assert isinstance(clone(dpopt.Ridge()).epsilon, _settings.DefaultEpsilon)
    assert not isinstance(dpopt.Ridge(epsilon=1.0).epsilon, _settings.DefaultEpsilon)
    assert repr(dpopt.Ridge()) == "Ridge()"


def test_a_fit_at_the_default_budget_says_so_once(monkeypatch):
    monkeypatch.setattr(_warnings, "_SHOWN", set())
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    for given in ({"epsilon": 1.0}, {}):
        with pytest.warns(dpopt.PrivacyWarning) as caught:
            dpopt.MeanEstimator(bounds=(-1, 1), insecure_seed=1, **given).fit(X)
        messages = [str(w.message) for w in caught if "epsilon was not given" in str(w.message)]
        assert len(messages) == (not given) and all("say epsilon=1.0" in text for text in messages)
    with pytest.warns(dpopt.PrivacyWarning) as caught:
        dpopt.LinearRegression(bounds=(-1, 1), target_bounds=(-1, 1), insecure_seed=1).fit(X, X[:, 0])
    assert not any("epsilon was not given" in str(w.message) for w in caught)


def test_another_process_knows_a_default_too():
    code = (
        "import pickle, sys, warnings, numpy as np\n"
        "model = pickle.load(sys.stdin.buffer)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    model.fit(np.zeros((50, 1)))\n"
        "    model.fit(np.zeros((50, 1)))\n"
        "print(sum('epsilon was not given' in str(w.message) for w in caught))\n"
    )
    given = pickle.dumps(dpopt.MeanEstimator(bounds=(-1, 1)))
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, timeout=120)
    assert done.stdout.decode().strip() == "1", done.stderr.decode()


@pytest.mark.parametrize("kind", MOMENTS, ids=lambda kind: kind.__name__)
def test_text_is_answered_with_a_parameter_that_there_is(kind):
    """Estimators of bounded columns take no `columns=`, and no error asks for it."""
    import pandas as pd

    X = pd.DataFrame({"a": np.linspace(0, 1, 60), "b": ["x", "y", "z"] * 20})
    more = {"horizon": 1.0} if kind is dpopt.CoxRegressor else {}
    y = dpopt.survival(np.linspace(0, 1, 60), np.ones(60)) if more else [0, 1] * 30
    assert "columns" not in inspect.signature(kind).parameters
    with pytest.raises(ValueError, match="column of 0 and 1 of each level") as refused:
        kind(1.0, 1e-6, bounds=(0, 1), **more).fit(X, y)
    assert "columns=" not in str(refused.value)
