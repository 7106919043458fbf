"""Private embedding models: sums of embeddings and two towers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from . import _probabilities
from ._classifiers import PrivateLinearClassifier
from ._docs import documented
from ._embedding_forms import Sums, Towers
from ._linear import PrivateLinear
from ._options import EMBEDDING
from ._public_facts import Columns, Encoding, Unit
from ._regressors import PrivateLinearRegressor
from ._settings import DEFAULT_EPSILON, Method, keep
from ._targets import Decoding, Reading
from .ledger import Ledger

#: The one method that trains a vector per feature: DP-SGD with the noise of sparse models.
_METHODS = frozenset([EMBEDDING])
_TOWERS = Towers()

#: Why "auto" leaves a matrix as it is.
_EMBEDDED = "its columns are what is embedded"


def _encoded(estimator: PrivateLinear, X: Any) -> Any:
    """Rows as the towers read them."""
    return estimator._check_X(X) if estimator._table is None else estimator.encoder_.transform(X)


@documented(attributes=("classes_", "embeddings_", "output_"), without=("coef_, intercept_",))
class EmbeddingClassifier(PrivateLinearClassifier):
    """Private classifier on sums of embeddings (fastText): scores are linear in Σ x_j·E_j, a vector of `embedding_dim` numbers.

    {parameters}

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 4)); y = (X[:, 0] > X[:, 1]).astype(int)
    >>> model = dpopt.EmbeddingClassifier(
    ...     epsilon=4.0, delta=1e-6, method=dpopt.methods.EmbeddingSGD(steps=60), bounds=(-1, 1), classes=[0, 1], embedding_dim=4).fit(X, y)
    >>> model.embeddings_.shape, bool(model.score(X, y) > 0.8)
    ((4, 4), True)
    """

    _form: ClassVar[Sums] = Sums()
    _usable_methods: ClassVar[frozenset[str]] = _METHODS
    _options_of_others: ClassVar[Mapping[str, str]] = {}
    embedding_dim: int
    embedding_seed: int
    embeddings_: np.ndarray
    output_: np.ndarray
    predict_proba = _probabilities.predict_proba
    predict_log_proba = _probabilities.predict_log_proba

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, classes: Any = None, embedding_dim: int = 16, embedding_seed: int = 0, unit: Unit | None = None,
        neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None, row_norm: float | None = None,
        max_nonzeros: int | None = None, fit_intercept: bool = True, intercept_scaling: float = 0.5, accountant: str = "auto",
        encoding: Encoding = "auto", bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing",
        insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _keeps_columns(self) -> str | None:
        return _EMBEDDED

    def _class_loss(self) -> Any:
        return "logistic"

    def _named_coefficients(self) -> list[tuple[str, float, float | None, float | None]]:
        return []


@documented(attributes=("classes_", "embeddings_"))
class TwoTowerClassifier(PrivateLinearClassifier):
    """Private two-tower model of two classes: a user's vector times an item's, and a linear part.

    {parameters}

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, dpopt
    >>> rng = np.random.default_rng(0)
    >>> user, item = rng.integers(0, 20, 20000), rng.integers(0, 20, 20000)
    >>> y = (user + item) % 2
    >>> X = sp.hstack([sp.eye(20, format="csr")[user], sp.eye(20, format="csr")[item]], format="csr")
    >>> model = dpopt.TwoTowerClassifier(
    ...     epsilon=8.0, delta=1e-6, method=dpopt.methods.EmbeddingSGD(steps=150, learning_rate=8.0), row_norm=2**0.5, classes=[0, 1],
    ...     towers=(slice(0, 20), slice(20, 40)), embedding_dim=4).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _form: ClassVar[Towers] = _TOWERS
    _usable_methods: ClassVar[frozenset[str]] = _METHODS
    _options_of_others: ClassVar[Mapping[str, str]] = {}
    embedding_dim: int
    embedding_seed: int
    embeddings_: np.ndarray
    towers: tuple[Any, Any] | None
    predict_proba = _probabilities.predict_proba
    predict_log_proba = _probabilities.predict_log_proba

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, classes: Any = None, towers: tuple[Any, Any] | None = None, embedding_dim: int = 16,
        embedding_seed: int = 0, unit: Unit | None = None, neighbors: str = "zero-out", budget: Ledger | None = None,
        n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None, fit_intercept: bool = True,
        intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _keeps_columns(self) -> str | None:
        return _EMBEDDED

    def _class_loss(self) -> Any:
        return "logistic"

    def _target(self, known: int | None) -> dict[str, Any]:
        self._check_binary(known or 2)
        return super()._target(known)

    def _coded(self, y: np.ndarray, classes: np.ndarray) -> Reading:
        self._check_binary(len(classes))
        return super()._coded(y, classes)

    def _decoding(
        self,
        reading: Reading,
        labels: list[int] | None = None,
        ends: tuple[float, float] | None = None,
        clip: tuple[float, str] | None = None,
    ) -> Decoding:
        # that several were found was released
        self._check_binary(2 if labels is None else len(labels))
        return super()._decoding(reading, labels, ends, clip)

    def _check_binary(self, n_classes: int) -> None:
        # one score: several classes are fitted one against the rest, which a model with one pair of towers can't be
        if n_classes > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass with {n_classes} classes."
            )

    def decision_function(self, X: Any) -> np.ndarray:
        """One score per row; positive means the second class."""
        return super().decision_function(X)

    def user_vectors(self, X: Any) -> np.ndarray:
        """The user's vector of each row (rows × embedding_dim)."""
        return _TOWERS.users(self, _encoded(self, X))

    def item_vectors(self, X: Any) -> np.ndarray:
        """The item's vector of each row (rows × embedding_dim)."""
        return _TOWERS.items(self, _encoded(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@documented(attributes=("target_range_", "embeddings_"))
class TwoTowerRegressor(PrivateLinearRegressor):
    """Private two-tower model of a number, for example a rating: matrix factorisation with side features.

    {parameters}

    Examples
    --------
    >>> import dpopt
    >>> model = dpopt.TwoTowerRegressor(epsilon=2.0, target_bounds=(1, 5), towers=(slice(0, 20), slice(20, 40)))
    >>> model.explain(100_000, 40).method
    'embedding-sgd'
    """

    _form: ClassVar[Towers] = _TOWERS
    _usable_methods: ClassVar[frozenset[str]] = _METHODS
    _options_of_others: ClassVar[Mapping[str, str]] = {}
    embedding_dim: int
    embedding_seed: int
    embeddings_: np.ndarray
    towers: tuple[Any, Any] | None

    def __init__(
        self, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, method: str | Method = "auto", bounds: Any = None,
        columns: Columns | None = None, target_bounds: Any = None, towers: tuple[Any, Any] | None = None, embedding_dim: int = 16,
        embedding_seed: int = 0, unit: Unit | None = None, neighbors: str = "zero-out", budget: Ledger | None = None,
        n_rows: int | None = None, row_norm: float | None = None, max_nonzeros: int | None = None, fit_intercept: bool = True,
        intercept_scaling: float = 0.5, accountant: str = "auto", encoding: Encoding = "auto",
        bounds_budget: float | None = None, bad_cells: Literal["missing", "error"] = "missing", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def _keeps_columns(self) -> str | None:
        return _EMBEDDED

    def predict(self, X: Any) -> np.ndarray:
        """The score of each row, in the units of y; of a table with named columns within the target's range."""
        return super().predict(X)

    def user_vectors(self, X: Any) -> np.ndarray:
        """The user's vector of each row (rows × embedding_dim)."""
        return _TOWERS.users(self, _encoded(self, X))

    def item_vectors(self, X: Any) -> np.ndarray:
        """The item's vector of each row (rows × embedding_dim)."""
        return _TOWERS.items(self, _encoded(self, X))


__all__ = ["EmbeddingClassifier", "TwoTowerClassifier", "TwoTowerRegressor"]
