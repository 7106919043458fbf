"""The form of a model: what its numbers are, and the scores that they give. An estimator names one; here is that of linear models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._fitted_table import FittedTable
from ._rows import Bounding
from ._scores import linear_scores
from ._targets import Decoding


class Linear:
    """A weight per feature and output."""

    def options(self, estimator: Any, facts: Bounding) -> dict[str, Any]:
        """The options of the compiled library besides the method's, for bounded rows."""
        return {}

    def of_table(self, estimator: Any, names: Sequence[str]) -> dict[str, Any] | None:
        """The form of a model of a table with these columns, as the compiled library writes it; None for a linear one."""
        return None

    def decode(
        self, estimator: Any, facts: Bounding, decoding: Decoding, weights: list[np.ndarray], noise: list[np.ndarray]
    ) -> None:
        """Released weights (one array per model) as attributes in the units of X: post-processing."""
        coef, intercept = facts.decode(np.vstack([w.reshape(-1, facts.width) for w in weights]))
        spread = np.vstack([s.reshape(-1, facts.width) for s in noise])
        estimator.coef_, estimator.intercept_ = coef * decoding.scale, intercept * decoding.scale + decoding.shift
        estimator.coef_noise_std_ = spread[:, : coef.shape[1]] * facts.scale * decoding.scale

    def decode_table(self, estimator: Any, table: FittedTable, noise: np.ndarray | None) -> None:
        """The weights of a model of a table as attributes, of encoded columns; `noise`: their standard deviations, None where they are unknown."""
        weights = table.model.weights()
        assert weights is not None
        spread = np.full(weights.shape, np.nan) if noise is None else noise.reshape(weights.shape)
        estimator.coef_, estimator.intercept_, estimator.coef_noise_std_ = table.in_units(weights, spread)

    def scores(self, estimator: Any, X: Any) -> np.ndarray:
        """The scores of rows of a matrix: one for each output, or one."""
        return linear_scores(X, estimator.coef_, estimator.intercept_)


__all__ = ["Linear"]
