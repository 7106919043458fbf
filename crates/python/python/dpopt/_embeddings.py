"""Private embedding models: sums of embeddings and two towers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._classifiers import PrivateLinearClassifier, ProbabilityMixin
from ._docs import documented
from ._linear import Reading, finite_scores
from ._options import EMBEDDING_OPTIONS, keep, with_options
from ._reading import whole
from ._regressors import PrivateLinearRegressor
from ._rows import Bounding
from ._tables import by_position

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import EmbeddingOptions


class EmbeddingMixin:
    """A vector per feature instead of a weight; trained by DP-SGD with the noise of sparse models."""

    #: Embedding models have one method.
    method = "auto"

    def _model(self, facts: Bounding) -> dict[str, Any]:
        return {
            "dimension": whole(self.embedding_dim, "embedding_dim"),  # type: ignore[attr-defined]
            "seed": whole(self.embedding_seed, "embedding_seed"),  # type: ignore[attr-defined]
        }

    def _options(self, facts: Bounding | None) -> dict[str, Any]:
        assert facts is not None  # tables have options of their own
        return {**super()._options(facts), "embedding": self._model(facts)}  # type: ignore[misc]

    def _table_options(self) -> dict[str, Any]:
        return super()._options(None)  # type: ignore[misc]

    def _table_embedding(self, names: Sequence[str]) -> dict[str, Any]:
        return {
            "dimension": whole(self.embedding_dim, "embedding_dim"),  # type: ignore[attr-defined]
            "seed": whole(self.embedding_seed, "embedding_seed"),  # type: ignore[attr-defined]
            "towers": None,
        }  # fmt: skip

    def _tables(self, facts: Bounding, weights: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Per feature of X its numbers, in the units of X, and what every row has besides."""
        table = weights[: facts.width * width].reshape(facts.width, width)
        d = len(facts.scale)
        own = table[:d] * facts.scale[:, None]
        constant = table[d] * float(np.float32(facts.intercept)) if facts.intercept else np.zeros(width)
        return own, constant - facts.centre @ own


class TowerMixin(EmbeddingMixin):
    """Score ⟨user, item⟩ + X·coef + intercept."""

    def _sides(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        half = n_features // 2
        sides = []
        for given, default in ((self.user_features, slice(0, half)), (self.item_features, slice(half, None))):  # type: ignore[attr-defined]
            chosen = np.zeros(n_features, dtype=bool)
            chosen[default if given is None else given] = True
            sides.append(chosen)
        if not (sides[0].any() and sides[1].any()):
            raise ValueError(
                f"two towers need features each, but X has {n_features} feature(s); give user_features and item_features"
            )
        if (sides[0] & sides[1]).any():
            raise ValueError("user_features and item_features overlap")
        return sides[0], sides[1]

    def _model(self, facts: Bounding) -> dict[str, Any]:
        users, items = self._sides(len(facts.scale))
        return {**super()._model(facts), "towers": {"users": _ranges(users), "items": _ranges(items)}}

    def _decode(self, facts: Bounding, reading: Reading, weights: list[np.ndarray], noise: list[np.ndarray]) -> None:
        k = whole(self.embedding_dim, "embedding_dim")  # type: ignore[attr-defined]
        table, constant = self._tables(facts, weights[0], k + 1)
        users, items = self._sides(len(facts.scale))
        # the constant of each tower comes from its own features' centres; the intercept belongs to neither
        centre = -facts.centre[:, None] * table[:, :k]
        self.embeddings_ = table[:, :k]
        self._user_constant, self._item_constant = centre[users].sum(axis=0), centre[items].sum(axis=0)
        self._users, self._items = users, items
        self._score_scale, shift = reading.scale, reading.shift
        self.coef_, self.intercept_ = table[None, :, k] * reading.scale, np.array([constant[k] * reading.scale + shift])
        spread = noise[0].reshape(facts.width, k + 1)[: len(facts.scale), k]
        self.coef_noise_std_ = (spread * facts.scale * reading.scale)[None, :]

    def _table_embedding(self, names: Sequence[str]) -> dict[str, Any]:
        given = (self.user_features, self.item_features)  # type: ignore[attr-defined]
        if all(isinstance(side, (list, tuple)) and side and all(isinstance(n, str) for n in side) for side in given):
            sides = [list(side) for side in given]
        elif by_position(self):
            sides = [[names[j] for j in np.flatnonzero(chosen).tolist()] for chosen in self._sides(len(names))]
        else:
            raise ValueError(
                "columns are declared by name, so user_features and item_features must be lists of names of columns"
            )
        return {**super()._table_embedding(names), "towers": sides}

    def _embedded(self, form: dict[str, Any]) -> None:
        k, width = form["dimension"], len(self.encoded_feature_names_)  # type: ignore[attr-defined]
        table = self._table.parameters().reshape(width, k + 1)  # type: ignore[attr-defined]
        chosen = []
        for side in ("users", "items"):
            mask = np.zeros(width, dtype=bool)
            for first, end in form["towers"][side]:
                mask[first:end] = True
            chosen.append(mask)
        self._users, self._items = chosen
        # of classes that are sorted the other way round than in the model file, all scores change their sign
        sign = getattr(self, "_sign", 1.0)
        self._user_constant, self._item_constant = np.zeros(k), np.zeros(k)
        self.embeddings_ = table[:, :k] * np.where(self._items, sign, 1.0)[:, None]
        scale, shift = sign, 0.0
        if not self._table.labels:  # type: ignore[attr-defined]
            lower, upper = self._table.range  # type: ignore[attr-defined]
            scale, shift = (upper - lower) / 2, (lower + upper) / 2
        self._score_scale = scale
        self.coef_, self.intercept_ = table[None, :, k] * scale, np.array([shift])
        self.coef_noise_std_ = np.full((1, width), np.nan)

    def _encoded(self, X: Any) -> Any:
        return self.encoder_.transform(X) if self._by_columns() else self._check_X(X)  # type: ignore[attr-defined]

    def user_vectors(self, X: Any) -> np.ndarray:
        """The user's vector of each row (rows × embedding_dim)."""
        X = self._encoded(X)
        with np.errstate(all="ignore"):
            return X[:, self._users] @ self.embeddings_[self._users] + self._user_constant

    def item_vectors(self, X: Any) -> np.ndarray:
        """The item's vector of each row (rows × embedding_dim)."""
        X = self._encoded(X)
        with np.errstate(all="ignore"):
            return X[:, self._items] @ self.embeddings_[self._items] + self._item_constant

    def _product(self, X: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return (self.user_vectors(X) * self.item_vectors(X)).sum(axis=1) * self._score_scale

    def _tower_scores(self, X: Any, coef: np.ndarray, intercept: Any) -> np.ndarray:
        checked, of_users, of_items = self._check_X(X), self._users, self._items  # type: ignore[attr-defined]
        with np.errstate(all="ignore"):
            scores = np.asarray(self._product(X) + checked @ coef + intercept)

        def again(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
            users = rows[:, of_users] @ self.embeddings_[of_users] + self._user_constant / scale[:, None]
            items = rows[:, of_items] @ self.embeddings_[of_items] + self._item_constant / scale[:, None]
            product = (users * items).sum(axis=1) * self._score_scale
            return product * scale + rows @ coef + intercept / scale

        return finite_scores(scores, checked, again)


def _ranges(chosen: np.ndarray) -> list[tuple[int, int]]:
    """Half-open runs of a mask."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


@with_options(EMBEDDING_OPTIONS)
@documented
class EmbeddingClassifier(EmbeddingMixin, ProbabilityMixin, PrivateLinearClassifier):
    """Private classifier on sums of embeddings (fastText): scores are linear in Σ x_j·E_j, a vector of `embedding_dim` numbers.

    {parameters}
        embedding_dim: numbers per feature.
        embedding_seed: public seed of the values that embeddings start at.

    Also ``embeddings_`` (features × embedding_dim) and ``output_`` (outputs × embedding_dim); no ``coef_``.

    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 4)); y = (X[:, 0] > X[:, 1]).astype(int)
    >>> model = dpopt.EmbeddingClassifier(
    ...     epsilon=4.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], embedding_dim=4, steps=60).fit(X, y)
    >>> model.embeddings_.shape, bool(model.score(X, y) > 0.8)
    ((4, 4), True)
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, embedding_dim=16, embedding_seed=0, bounds=None,
        row_norm=None, max_nonzeros=None, classes=None, neighbors="zero-out", accountant="auto", budget=None,
        fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto", insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[EmbeddingOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        return "logistic"

    def _decode(self, facts: Bounding, reading: Reading, weights: list[np.ndarray], noise: list[np.ndarray]) -> None:
        k = whole(self.embedding_dim, "embedding_dim")
        self.embeddings_, self._constant = self._tables(facts, weights[0], k)
        self.output_ = weights[0][facts.width * k :].reshape(-1, k)

    def _embedded(self, form: dict[str, Any]) -> None:
        k, width = form["dimension"], len(self.encoded_feature_names_)
        weights = self._table.parameters()
        self.embeddings_ = weights[: width * k].reshape(width, k)
        output = weights[width * k :].reshape(-1, k)
        self.output_ = output * self._sign if len(output) == 1 else output[self._places]

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: one per row for two classes (positive means the second class), one per row and class for more."""
        if self._by_columns():
            return self._table_scores(X)
        X = self._check_X(X)
        with np.errstate(all="ignore"):
            scores = np.asarray((X @ self.embeddings_ + self._constant) @ self.output_.T)
        scores = finite_scores(
            scores,
            X,
            lambda rows, scale: (rows @ self.embeddings_ + self._constant / scale[:, None]) @ self.output_.T,
        )
        return scores.ravel() if len(self.classes_) == 2 else scores

    def _named_coefficients(self) -> list[tuple[str, float, float | None]]:
        return []


@with_options(EMBEDDING_OPTIONS)
@documented
class TwoTowerClassifier(TowerMixin, ProbabilityMixin, PrivateLinearClassifier):
    """Private two-tower model of two classes: a user's vector times an item's, plus a weight per feature.

    {parameters}
        user_features, item_features: which columns of X say who and what: a slice, indices or a mask; by default the first
            and the second half. Of a table with named columns two lists of names.
        embedding_dim: numbers per feature.
        embedding_seed: public seed of the values that embeddings start at.

    Also ``embeddings_`` (features × embedding_dim).

    >>> import numpy as np, scipy.sparse as sp, dpopt
    >>> rng = np.random.default_rng(0)
    >>> user, item = rng.integers(0, 20, 20000), rng.integers(0, 20, 20000)
    >>> y = (user + item) % 2   # no linear model can tell
    >>> X = sp.hstack([sp.eye(20, format="csr")[user], sp.eye(20, format="csr")[item]], format="csr")
    >>> model = dpopt.TwoTowerClassifier(
    ...     epsilon=8.0, delta=1e-6, row_norm=2**0.5, classes=[0, 1], user_features=slice(0, 20), item_features=slice(20, 40),
    ...     embedding_dim=4, steps=150, learning_rate=8.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, user_features=None, item_features=None, embedding_dim=16, embedding_seed=0,
        bounds=None, row_norm=None, max_nonzeros=None, classes=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[EmbeddingOptions],
    ):  # fmt: skip
        keep(self, locals())

    def _class_loss(self) -> Any:
        return "logistic"

    def _target(self, known: int | None) -> dict[str, Any]:
        self._check_binary(known or 2)
        return super()._target(known)

    def _coded(self, y: np.ndarray, classes: np.ndarray, note: str) -> Reading:
        self._check_binary(len(classes))
        return super()._coded(y, classes, note)

    def _check_binary(self, n_classes: int) -> None:
        # one score: several classes are fitted one against the rest, which a model with one pair of towers can't be
        if n_classes > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass with {n_classes} classes."
            )

    def decision_function(self, X: Any) -> np.ndarray:
        """One score per row; positive means the second class."""
        if self._by_columns():
            return self._table_scores(X)
        return self._tower_scores(X, self.coef_[0], self.intercept_[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@with_options(EMBEDDING_OPTIONS)
@documented
class TwoTowerRegressor(TowerMixin, PrivateLinearRegressor):
    """Private two-tower model of a number, for example a rating: matrix factorisation with side features.

    {parameters}
        user_features, item_features: which columns of X say who and what: a slice, indices or a mask; by default the first
            and the second half. Of a table with named columns two lists of names.
        embedding_dim: numbers per feature.
        embedding_seed: public seed of the values that embeddings start at.

    Also ``embeddings_`` (features × embedding_dim).
    """

    def __init__(
        self, epsilon=1.0, delta=None, *, user_features=None, item_features=None, embedding_dim=16, embedding_seed=0,
        bounds=None, row_norm=None, max_nonzeros=None, target_bounds=None,
        neighbors="zero-out", accountant="auto", budget=None, fit_intercept=True, intercept_scaling=0.5, n_rows=None, max_rows_per_unit=None, n_units=None, unit_clipping="auto",
        insecure_seed=None, levels=None, text=None, hashed=None, numeric=None, ignore=None, public_vectors=None,
        bounds_budget=None, encoding=None, bad_cells="missing", **options: Unpack[EmbeddingOptions],
    ):  # fmt: skip
        keep(self, locals())

    def predict(self, X: Any) -> np.ndarray:
        """The score of each row, in the units of y; of a table with named columns within the target's range."""
        if self._by_columns():
            return self._table_numbers(X)
        return self._tower_scores(X, self.coef_, self.intercept_)


__all__ = ["EmbeddingClassifier", "TwoTowerClassifier", "TwoTowerRegressor"]
