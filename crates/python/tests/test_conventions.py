"""What the sources of the Python package are held to: short chains of classes, and few places where a type checker is silenced."""

import inspect
import io
import tokenize
from pathlib import Path

import dpopt
import pytest
from dpopt._base import PrivateEstimator

PACKAGE = Path(dpopt.__file__).parent
#: More classes of ours in a chain, and nobody knows which of them says what.
MAX_CLASSES = 4
MAX_SILENCED = 20

ESTIMATORS = sorted(
    (kind for kind in vars(dpopt).values() if inspect.isclass(kind) and hasattr(kind, "get_params")),
    key=lambda kind: kind.__name__,
)


def test_all_estimators_are_looked_at():
    assert len(ESTIMATORS) >= 20
    assert {kind for kind in ESTIMATORS if issubclass(kind, PrivateEstimator)} >= {
        dpopt.EmbeddingClassifier, dpopt.LinearRegression, dpopt.LogisticRegression, dpopt.SparseLogisticRegression, dpopt.TwoTowerRegressor,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_an_estimator_inherits_from_few_classes_of_ours(kind):
    ours = [base.__name__ for base in kind.__mro__ if base.__module__.split(".")[0] == "dpopt"]
    assert len(ours) <= MAX_CLASSES, ours


def silenced(source):
    """How many comments of a source silence the type checker."""
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    return sum("type: ignore" in comment or "mypy:" in comment for comment in comments)


def test_the_type_checker_is_seldom_silenced():
    assert silenced('x = 1  # type: ignore[misc]\ny = "# type: ignore"\n') == 1
    assert sum(silenced(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")) <= MAX_SILENCED


@pytest.mark.parametrize(
    "method, having",
    [
        ("partial_fit", "HuberRegression LinearRegression LinearSVC LogisticRegression Ridge SGDClassifier SGDRegressor"),
        ("predict_proba", "AdditiveClassifier EmbeddingClassifier GaussianNB LogisticRegression SGDClassifier SparseLogisticRegression TwoTowerClassifier"),
        ("predict_log_proba", "AdditiveClassifier EmbeddingClassifier GaussianNB LogisticRegression SGDClassifier SparseLogisticRegression TwoTowerClassifier"),
        ("get_support", "SparseLinearRegression SparseLogisticRegression"),
        ("user_vectors", "TwoTowerClassifier TwoTowerRegressor"),
        ("item_vectors", "TwoTowerClassifier TwoTowerRegressor"),
    ],
)  # fmt: skip
def test_a_method_is_there_where_it_means_something(method, having):
    assert [kind.__name__ for kind in ESTIMATORS if hasattr(kind, method)] == having.split()
