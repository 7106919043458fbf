"""Private principal components."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from . import _core
from ._bounded_moments import Box, PrivateMoments, declared_bounds
from ._one_fit import one_fit
from ._plan import Plan
from ._reading import positive, shown, validated
from ._rows import within
from ._scores import finite_rows
from ._settings import DEFAULT_EPSILON, keep
from ._warnings import warn
from .ledger import Ledger

#: Gaps of eigenvalues are read no closer than this share of the largest, where rounding makes them.
_CLOSEST = 1e-9


def explained(eigenvalues: np.ndarray, noise: float) -> np.ndarray:
    """What the eigenvectors of A + E explain of A, from the eigenvalues of A + E (falling), E symmetric normal noise of this standard deviation off the diagonal.

    uᵀAu = λ − uᵀEu, and the last has the expectation 2·noise²·Σ 1/(λ − λ_j) by Stein's identity (docs/proofs/principal-components.md). What comes out of order is
    pooled, as Stein pools covariances: the noise of two eigenvalues that are close is nearly all of their gap, and cancels in their sum.
    """
    gaps = eigenvalues[:, None] - eigenvalues[None, :]
    least = max(_CLOSEST * max(float(np.abs(eigenvalues).max()), noise), 1e-150)
    sign = np.sign(np.arange(len(gaps))[None, :] - np.arange(len(gaps))[:, None])
    gaps = sign * np.maximum(np.abs(gaps), least)
    np.fill_diagonal(gaps, np.inf)
    found = eigenvalues - 2 * noise**2 * (1 / gaps).sum(axis=1)
    return np.maximum(isotonic_regression(found, increasing=False), 0.0)


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateMoments):
    """Private principal components: the mean and the second moment of the rows are released with noise, and all else follows from them.

    Rows are centred on the middle of their bounds and clipped to the largest norm that they can have there, or to `row_norm` if that is smaller. In the fit a missing number
    counts as the middle of its bounds, in `transform` too. Components are as good as the gaps of the eigenvalues are large against ``covariance_noise_std_`` times the root
    of the number of columns.

    Parameters
    ----------
    n_components : int or float
        How many; between 0 and 1 as many as explain this share of the variance, by what was released. Default: all.
    epsilon : float, default 1.0
        What the fit may spend.
    delta : float
        Default: 1/n^1.1, at most 0.01.
    bounds : tuple or dict
        Public range of the features: two numbers, two arrays, or ``{"age": (17, 90), ...}`` for the columns of a data frame.
    row_norm : float
        Public l2 norm, in the units of X, that few rows exceed around the middle of the bounds (without bounds: around 0).
    neighbors : str
        ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`; the number of rows is then released too) or ``"replace-one"``.
    budget : Ledger
        Charged before any record is read.
    n_rows : int
        Public number of rows, or a guess under add-or-remove.
    accountant : str
        Whose ε is reported; ``"auto"``: the tightest.
    insecure_seed : int
        Reproducible noise for tests: **no privacy**.

    Attributes
    ----------
    components_ : ndarray
        Components × features; of each the entry that is largest in size is positive, as in scikit-learn.
    explained_variance_, explained_variance_ratio_ : ndarray
        Of the rows along the components, less what noise is expected to add.
    mean_ : ndarray
    n_components_ : int
    mean_noise_std_, covariance_noise_std_ : float
        Of each entry of the mean, and of the covariance off its diagonal.
    n_samples_ : float
        Public, or noisy under add-or-remove.
    privacy_ : Privacy
    plan_ : Plan

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0); t = rng.normal(0, 1, 20_000)
    >>> X = np.column_stack([3 * t, 4 * t, rng.normal(0, 1, 20_000)])
    >>> pca = dpopt.PCA(n_components=1, epsilon=1.0, delta=1e-6, bounds=(-20, 20), insecure_seed=1).fit(X)
    >>> pca.components_[0, :2].round(1).tolist(), pca.explained_variance_.round().tolist()
    ([0.6, 0.8], [25.0])
    """

    n_components: Any
    row_norm: float | None

    _needs_target: ClassVar[bool] = False

    def __init__(
        self, n_components: Any = None, epsilon: float = DEFAULT_EPSILON, delta: float | None = None, *, bounds: Any = None,
        row_norm: float | None = None, neighbors: str = "zero-out", budget: Ledger | None = None, n_rows: int | None = None,
        accountant: str = "auto", insecure_seed: int | None = None,
    ) -> None:  # fmt: skip
        keep(self, locals())

    def __sklearn_tags__(self) -> Any:
        # again: scikit-learn's mixins, which come first, make new tags
        return self._with_tags(super().__sklearn_tags__())

    def _box(self, n_features: int, names: Sequence[str] | None, quiet: bool) -> Box:
        norm = None if self.row_norm is None else positive(self.row_norm, "row_norm")
        if self.bounds is None:
            if norm is None and not quiet:
                warn(
                    "no public bounds are given, so that every row is clipped to l2 norm 1 in the units of X. Give bounds=(lower, upper), the public range of the features (two numbers, or one per feature), or row_norm=, a norm that few rows exceed"
                )
            ends, norm = np.full(n_features, np.inf), 1.0 if norm is None else norm
            return Box(-ends, ends, np.zeros(n_features), np.full(n_features, 1 / norm))
        box = Box.between(*declared_bounds(self.bounds, n_features, names))
        largest = float(np.linalg.norm(box.half))
        norm = largest if norm is None else min(norm, largest)
        return Box(box.lower, box.upper, box.centre, np.full(n_features, 1 / norm))

    def _asked(self, columns: int) -> Any:
        """How many components are asked for: a number of them, or a share of the variance."""
        asked = self.n_components
        if asked is None:
            return columns
        if isinstance(asked, (int, np.integer)) and not isinstance(asked, bool) and 1 <= asked <= columns:
            return int(asked)
        if isinstance(asked, (float, np.floating)) and 0 < asked < 1:
            return float(asked)
        raise ValueError(
            f"n_components is {shown(asked)}; give a whole number from 1 to {columns}, the number of columns, or a share of the variance between 0 and 1"
        )

    def _facts(self, records: int, columns: int, relation: str, delta: float) -> tuple[Any, ...]:
        return records, columns, relation, float(self.epsilon), delta

    def _planned(self, facts: tuple[Any, ...], box: Box) -> Plan:
        records, columns, relation, _, delta = facts
        if records < 2:
            raise ValueError("1 sample: a covariance is of at least two rows; use some hundred for a useful answer")
        found = json.loads(_core.covariance_plan(facts))
        noise, norm = found["moment_noise"], float(1 / box.scale[0])
        beside = noise * norm**2 / records / np.sqrt(2)
        schedule = {
            "noise_std": noise * norm**2, "clip_norm": norm, "sum_noise_multiplier": found["sum_noise"],
            "moment_noise_multiplier": noise, "sum_weights": found["sum_weights"], "covariance_noise_std": beside,
        }  # fmt: skip
        # the spectral norm of the covariance's noise
        risk = 2 * beside * float(np.sqrt(columns))
        return self._plan("noisy-covariance", found, (records, columns), relation, delta, risk, noise, schedule)

    def explain(self, X: Any = None, n_features: int | None = None, *, n_rows: int | None = None) -> Plan:
        """Noise and certified guarantee, before any data are read. The predicted risk is about the spectral norm of the covariance's noise: how far eigenvalues
        must be apart to be told apart.

        Parameters
        ----------
        X
            The table, of which only the shape and the names are looked at; or the public number of records.
        n_features
            Number of columns, if no table is given.
        n_rows
            Public number of records, if no table is given.
        """
        relation = self._check_common()
        records, columns, names = self._shape(X, n_features, n_rows, relation)
        self._asked(columns)
        box = self._box(columns, names, quiet=True)
        return self._planned(self._facts(records, columns, relation, self._delta(records)), box)

    @one_fit
    def fit(self, X: Any, y: Any = None, *, units: Any = None) -> PCA:
        """Releases mean and covariance of the rows of X; y is not looked at. With `units` it is refused: each row is protected by itself."""
        self._rows_only(X, units)
        relation = self._before_fit()
        X, names = self._validated(X)
        asked, box = self._asked(X.shape[1]), self._box(X.shape[1], names, quiet=False)
        records, delta = self._facts_of_counted(X.shape[0], relation)
        facts = self._facts(records, X.shape[1], relation, delta)
        self.plan_ = self._planned(facts, box)
        session = self._paid("covariance")
        told, matrix = _core.covariance(within(X, box), facts, session)
        self._settle(json.loads(told), matrix, box, asked)
        self._range = (box.lower, box.upper, box.centre)
        self._promised(session)
        return self

    def _settle(self, found: dict[str, Any], matrix: np.ndarray, box: Box, asked: Any) -> None:
        norm = float(1 / box.scale[0])
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors[:, ::-1].T
        variances = explained(values, found["matrix_noise"])
        total = max(float(np.trace(matrix)), float(variances.sum()), np.finfo(np.float64).tiny)
        if isinstance(asked, float):
            asked = min(int((np.cumsum(variances / total) < asked).sum()) + 1, len(values))
        vectors = vectors[:asked]
        largest = vectors[np.arange(asked), np.abs(vectors).argmax(axis=1)]
        self.components_ = np.ascontiguousarray(vectors * np.where(largest < 0, -1.0, 1.0)[:, None])
        self.explained_variance_ = norm**2 * variances[:asked]
        self.explained_variance_ratio_ = variances[:asked] / total
        self.mean_ = box.centre + norm * np.array(found["mean"])
        self.mean_noise_std_ = norm * found["mean_noise"]
        self.covariance_noise_std_ = norm**2 * found["matrix_noise"]
        self.n_components_, self.n_samples_ = asked, found["count"]

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> np.ndarray:
        """Rows less the mean, along the components; a missing number counts as the middle of its bounds, an infinite one as its bound."""
        check_is_fitted(self)
        X = finite_rows(validated(self, X, reset=False, sparse=False), *self._range)
        return ((X - self.mean_) @ self.components_.T).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The rows that have these parts along the components, and none beside them."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_ + self.mean_

    def _table(self) -> tuple[str, Sequence[str], Iterable[Sequence[Any]]]:
        parts = (self.explained_variance_.tolist(), self.explained_variance_ratio_.tolist(), self.components_.tolist())
        rows = ((f"pca{k}", *each[:2], *each[2]) for k, each in enumerate(zip(*parts)))
        return "Private principal components", ["component", "variance", "share", *self._columns()], rows


__all__ = ["PCA", "explained"]
