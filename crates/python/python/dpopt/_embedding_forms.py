"""Forms of models with a vector per feature in place of a weight: sums of embeddings, and two towers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._fitted_table import FittedTable
from ._forms import Linear
from ._reading import kind, whole
from ._rows import Bounding
from ._scores import finite_scores
from ._tables import by_name
from ._targets import Decoding


class Sums(Linear):
    """Scores are linear in Σ x_j·E_j, a vector for each row."""

    def _size(self, estimator: Any) -> dict[str, Any]:
        return {
            "dimension": whole(estimator.embedding_dim, "embedding_dim"),
            "seed": whole(estimator.embedding_seed, "embedding_seed"),
        }

    def options(self, estimator: Any, facts: Bounding) -> dict[str, Any]:
        return {"embedding": self._size(estimator)}

    def of_table(self, estimator: Any, names: Sequence[str]) -> dict[str, Any] | None:
        return {**self._size(estimator), "towers": None}

    def decode(
        self, estimator: Any, facts: Bounding, decoding: Decoding, weights: list[np.ndarray], noise: list[np.ndarray]
    ) -> None:
        k = whole(estimator.embedding_dim, "embedding_dim")
        estimator.embeddings_, estimator._constant = _in_units(facts, weights[0], k)
        estimator.output_ = weights[0][facts.width * k :].reshape(-1, k)

    def decode_table(self, estimator: Any, table: FittedTable, noise: np.ndarray | None) -> None:
        k, width = int(table.form["dimension"]), len(estimator.encoded_feature_names_)
        weights, order = table.model.parameters(), table.order
        assert order is not None
        estimator.embeddings_ = weights[: width * k].reshape(width, k)
        output = weights[width * k :].reshape(-1, k)
        estimator.output_ = output * order.sign if len(output) == 1 else output[order.places]

    def scores(self, estimator: Any, X: Any) -> np.ndarray:
        embeddings, constant, output = estimator.embeddings_, estimator._constant, estimator.output_
        with np.errstate(all="ignore"):
            scores = np.asarray((X @ embeddings + constant) @ output.T)
        return finite_scores(
            scores, X, lambda rows, scale: (rows @ embeddings + constant / scale[:, None]) @ output.T
        )  # fmt: skip


class Towers(Sums):
    """Score ⟨user, item⟩ + X·coef + intercept."""

    def options(self, estimator: Any, facts: Bounding) -> dict[str, Any]:
        users, items = _sides(estimator, len(facts.scale))
        return {"embedding": {**self._size(estimator), "towers": {"users": _ranges(users), "items": _ranges(items)}}}

    def of_table(self, estimator: Any, names: Sequence[str]) -> dict[str, Any] | None:
        given = _given_sides(estimator)
        if all(isinstance(side, (list, tuple)) and side and all(isinstance(n, str) for n in side) for side in given):
            sides = [list(side) for side in given]
        elif not by_name(estimator):
            sides = [[names[j] for j in np.flatnonzero(chosen).tolist()] for chosen in _sides(estimator, len(names))]
        else:
            raise ValueError("columns are declared by name, so towers must be two lists of names of columns")
        return {**self._size(estimator), "towers": sides}

    def decode(
        self, estimator: Any, facts: Bounding, decoding: Decoding, weights: list[np.ndarray], noise: list[np.ndarray]
    ) -> None:
        k = whole(estimator.embedding_dim, "embedding_dim")
        table, constant = _in_units(facts, weights[0], k + 1)
        users, items = _sides(estimator, len(facts.scale))
        # the constant of each tower comes from its own features' centres; the intercept belongs to neither
        centre = -facts.centre[:, None] * table[:, :k]
        estimator.embeddings_ = table[:, :k]
        estimator._user_constant, estimator._item_constant = centre[users].sum(axis=0), centre[items].sum(axis=0)
        estimator._users, estimator._items = users, items
        scale, shift = decoding.scale, decoding.shift
        estimator._score_scale = scale
        estimator.coef_, estimator.intercept_ = table[None, :, k] * scale, np.array([constant[k] * scale + shift])
        spread = noise[0].reshape(facts.width, k + 1)[: len(facts.scale), k]
        estimator.coef_noise_std_ = (spread * facts.scale * scale)[None, :]

    def decode_table(self, estimator: Any, table: FittedTable, noise: np.ndarray | None) -> None:
        k, width = int(table.form["dimension"]), len(estimator.encoded_feature_names_)
        weights = table.model.parameters().reshape(width, k + 1)
        estimator._users, estimator._items = (_chosen(table.form["towers"][side], width) for side in ("users", "items"))
        # of classes that are sorted the other way round than in the model file, all scores change their sign
        sign = 1.0 if table.order is None else table.order.sign
        estimator._user_constant, estimator._item_constant = np.zeros(k), np.zeros(k)
        estimator.embeddings_ = weights[:, :k] * np.where(estimator._items, sign, 1.0)[:, None]
        scale, shift = sign, 0.0
        if table.order is None:
            lower, upper = table.model.range
            scale, shift = (upper - lower) / 2, (lower + upper) / 2
        estimator._score_scale = scale
        estimator.coef_, estimator.intercept_ = weights[None, :, k] * scale, np.array([shift])
        estimator.coef_noise_std_ = np.full((1, width), np.nan)

    def users(self, estimator: Any, X: Any) -> np.ndarray:
        """The user's vector of each row of a matrix."""
        with np.errstate(all="ignore"):
            found: np.ndarray = X[:, estimator._users] @ estimator.embeddings_[estimator._users]
            return found + estimator._user_constant

    def items(self, estimator: Any, X: Any) -> np.ndarray:
        """The item's vector of each row of a matrix."""
        with np.errstate(all="ignore"):
            found: np.ndarray = X[:, estimator._items] @ estimator.embeddings_[estimator._items]
            return found + estimator._item_constant

    def scores(self, estimator: Any, X: Any) -> np.ndarray:
        # of one output, which regressors have without its axis
        coef, intercept = np.atleast_2d(estimator.coef_)[0], np.atleast_1d(estimator.intercept_)[0]
        embeddings, factor = estimator.embeddings_, estimator._score_scale
        of_users, of_items = estimator._users, estimator._items
        with np.errstate(all="ignore"):
            product = (self.users(estimator, X) * self.items(estimator, X)).sum(axis=1) * factor
            scores = np.asarray(product + X @ coef + intercept)

        def again(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
            users = rows[:, of_users] @ embeddings[of_users] + estimator._user_constant / scale[:, None]
            items = rows[:, of_items] @ embeddings[of_items] + estimator._item_constant / scale[:, None]
            product = (users * items).sum(axis=1) * factor
            return product * scale + rows @ coef + intercept / scale

        return finite_scores(scores, X, again)


def _in_units(facts: Bounding, weights: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Per feature of X its numbers, in the units of X, and what every row has besides."""
    table = weights[: facts.width * width].reshape(facts.width, width)
    d = len(facts.scale)
    own = table[:d] * facts.scale[:, None]
    constant = table[d] * float(np.float32(facts.intercept)) if facts.intercept else np.zeros(width)
    return own, constant - facts.centre @ own


def _given_sides(estimator: Any) -> tuple[Any, Any]:
    towers = estimator.towers
    if towers is None:
        return None, None
    if not isinstance(towers, (tuple, list)) or len(towers) != 2:
        raise ValueError(f"towers is {kind(towers)}; give a pair: the columns of the user, and those of the item")
    return towers[0], towers[1]


def _sides(estimator: Any, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    half = n_features // 2
    sides = []
    for given, default in zip(_given_sides(estimator), (slice(0, half), slice(half, None))):
        chosen = np.zeros(n_features, dtype=bool)
        chosen[default if given is None else given] = True
        sides.append(chosen)
    if not (sides[0].any() and sides[1].any()):
        raise ValueError(
            f"each of the two towers needs features, but X has {n_features} feature(s); give towers, the columns of the user and those of the item"
        )
    if (sides[0] & sides[1]).any():
        raise ValueError("the two sides of towers overlap; give each column to one of them")
    return sides[0], sides[1]


def _ranges(chosen: np.ndarray) -> list[tuple[int, int]]:
    """Half-open runs of a mask."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


def _chosen(ranges: Sequence[tuple[int, int]], width: int) -> np.ndarray:
    """The mask of half-open runs."""
    mask = np.zeros(width, dtype=bool)
    for first, end in ranges:
        mask[first:end] = True
    return mask


__all__ = ["Sums", "Towers"]
