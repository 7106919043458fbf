"""Records that are elsewhere, in parts: on a cluster, in other processes, or here.

An estimator's ``fit`` takes :class:`Parts` in place of ``X`` and ``y``. Every part adds up what its own records contribute, in
integers, near where they lie; the sums are merged here, where the plan, the noise and the ledger are. The model is the same to the
last bit however the records are divided:

>>> import numpy as np, dpopt
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, (2000, 3)); y = (X[:, 0] > X[:, 1]).astype(int)
>>> blocks = [(X[:500], y[:500]), (X[500:], y[500:])]
>>> said = dict(epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], method="noisy-gradient-descent", insecure_seed=1)
>>> import warnings; warnings.simplefilter("ignore")
>>> there = dpopt.LogisticRegression(**said).fit(dpopt.parts.Here(blocks))
>>> here = dpopt.LogisticRegression(**said).fit(X, y)
>>> bool((there.coef_ == here.coef_).all())
True

**What travels is as sensitive as the records**: partial sums and parts go between the machines of the cluster without noise. Encrypt
the way (each engine's page says how) and keep them out of logs; nothing here writes any.

:mod:`dpopt.dask`, :mod:`dpopt.ray` and :mod:`dpopt.spark` make parts of what lies there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_array

from . import _core
from ._reading import table


class PartFailed(RuntimeError):
    """A part could not be read or asked. The text names the part and nothing that it holds."""


@dataclass
class Recipe:
    """Makes the compiled part out of a block of rows and targets, where they are. Travels to the workers; holds public facts only.

    Attributes:
        estimator: its parameters say how rows and targets are bounded.
        n_features: columns of a block.
        sparse: whether blocks are sparse matrices, whose rows are not centred.
    """

    estimator: Any
    n_features: int
    sparse: bool

    def __call__(self, X: Any, y: Any, part: int) -> _core.Shard:
        """Part number `part`.

        Raises:
            PartFailed: if the block has another width, or what is no number; without a value.
        """
        try:
            return self._shard(X, y, part)
        except Exception as why:
            kind = type(why).__name__
        # from None: what was raised may show a value
        raise PartFailed(
            f"part {part} could not be read ({kind}): every part needs {self.n_features} columns of numbers and one target per row"
        ) from None

    def _shard(self, X: Any, y: Any, part: int) -> _core.Shard:
        X = table(X, "X", sparse=True)
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_samples=0
        )
        if X.shape[1] != self.n_features or X.shape[0] != len(y):
            raise ValueError("shape")
        facts = self.estimator._facts(sp.csr_matrix((0, 1)) if self.sparse else None, self.n_features, quiet=True)
        if X.shape[0] == 0:
            return _core.Shard(facts.encode(np.zeros((0, self.n_features)), np.zeros(0)), part)
        reading = self.estimator._read(self.estimator._targets(y))
        if self.sparse != sp.issparse(X):
            X = sp.csr_matrix(X) if self.sparse else X.toarray()
        return _core.Shard(facts.encode(X, reading.values), part)


class Parts:
    """Records in parts. What an engine has to do is in the three methods that end in ``_parts``; a fit calls them.

    Parts stay as they are for the time of a fit: the same records in the same part whenever a part is asked or made again. The driver
    knows each by the number and a digest of its records; one that holds others, because it was computed again from a source that is not
    the same twice, ends the fit. What was mixed up before the parts were loaded nobody can see.

    One fit at a time: a second one that is started meanwhile is refused.
    """

    def __init__(self, n_features: int, feature_names: Sequence[str] | None = None, sparse: bool = False) -> None:
        self.n_features = n_features
        #: Names of the features, if the engine knows them.
        self.feature_names = None if feature_names is None else list(feature_names)
        self.sparse = sparse
        self._in_use = threading.Lock()
        #: Seconds that each question of the last fit took, from the driver's side: what a pass costs.
        self.seconds: list[float] = []

    def load_parts(self, recipe: Recipe) -> list[tuple[int, int]]:
        """Makes all parts by `recipe` and keeps them near the records; :attr:`dpopt._core.Shard.known` of each, in the order of their numbers."""
        raise NotImplementedError

    def ask_parts(self, message: bytes) -> list[bytes]:
        """What every part answers (:meth:`dpopt._core.Shard.answer`), in any order. A part may answer twice."""
        raise NotImplementedError

    def drop_parts(self) -> None:
        """Forgets the parts that were loaded."""

    # --- what a fit calls ---

    def load(self, estimator: Any) -> list[tuple[int, int]]:
        """Encodes all parts as `estimator` says; how many records each has, and their digest."""
        facts_only = clone(estimator)
        facts_only.set_params(budget=None)
        if not self._in_use.acquire(blocking=False):
            raise ValueError("these parts are in use by another fit; wait for it, or make parts of their own")
        try:
            self.seconds = []
            return list(self.load_parts(Recipe(facts_only, self.n_features, self.sparse)))
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Forgets the parts. An engine that is gone cannot forget them, and a fit has ended all the same."""
        try:
            with contextlib.suppress(Exception):
                self.drop_parts()
        finally:
            self._in_use.release()

    def ask(self, message: bytes) -> list[bytes]:
        """Hands a question to all parts."""
        started = time.perf_counter()
        answers = self.ask_parts(message)
        self.seconds.append(time.perf_counter() - started)
        return answers

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n_features} features>"


class Here(Parts):
    """Parts in this process, one for each block: to try a fit without a cluster, or to go through blocks that come one by one.

    Args:
        blocks: pairs of X and y.
        feature_names: names of the features.
    """

    def __init__(self, blocks: Iterable[tuple[Any, Any]], feature_names: Sequence[str] | None = None) -> None:
        self._blocks = list(blocks)
        if not self._blocks:
            raise ValueError("there are no blocks; give at least one pair of X and y")
        first = self._blocks[0][0]
        columns = [list(X.columns) for X, _ in self._blocks if hasattr(X, "columns")]
        if any(names != columns[0] for names in columns) or len(columns) not in (0, len(self._blocks)):
            raise ValueError("blocks have different columns; give all of them the same, in the same order")
        if columns and feature_names is None:
            feature_names = [str(name) for name in columns[0]]
        super().__init__(int(first.shape[1]), feature_names, sp.issparse(first))
        self._shards: list[_core.Shard] = []

    def load_parts(self, recipe: Recipe) -> list[tuple[int, int]]:
        self._shards = [recipe(X, y, part) for part, (X, y) in enumerate(self._blocks)]
        return [shard.known for shard in self._shards]

    def ask_parts(self, message: bytes) -> list[bytes]:
        return [shard.answer(message) for shard in self._shards]

    def drop_parts(self) -> None:
        self._shards = []


def tried(call: Callable[..., Any], *given: Any) -> Any:
    """`call` on a worker, whose logs would show the arguments of what raises: a failure comes back as its text."""
    try:
        return call(*given)
    except (KeyboardInterrupt, SystemExit):
        raise
    except PartFailed as why:
        return Failure(str(why))
    except BaseException as why:  # also a panic of compiled code, which is no Exception
        return Failure(f"a worker could not answer ({type(why).__name__})")


@dataclass
class Failure:
    """Why a worker could not do something, without a value."""

    why: str


def all_of(answers: Iterable[Any]) -> list[Any]:
    """Answers of workers; the first failure among them is raised here."""
    answers = list(answers)
    for answer in answers:
        if isinstance(answer, Failure):
            raise PartFailed(answer.why)
    return answers


__all__ = ["Here", "PartFailed", "Parts", "Recipe"]
