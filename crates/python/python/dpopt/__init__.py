"""dpopt: differentially private optimization. Plan, certify, run, report.

>>> import numpy as np, dpopt
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(0, 1, (2000, 4)); y = (X[:, 0] > 0.5).astype(int)
>>> model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> plan = model.explain(n_rows=2000, n_features=4)   # reads no data
>>> plan.method in dpopt.METHODS
True
>>> model = model.fit(X, y)
>>> bool(model.privacy_.epsilon <= 1.0)
True

Ctrl-C ends any call within a second; what may be called from which thread, and after a fork, is in docs/threads.md.
"""

from . import _free_threaded as _free_threaded
from . import accounting, encoders, mechanisms, methods, objectives, online, partitions, select
from ._additive import AdditiveClassifier, AdditiveRegressor
from ._aggregate import Aggregate, aggregate, aggregate_plan
from ._classifiers import LinearSVC, LogisticRegression, SGDClassifier
from ._clipped_sums import ClippedSums
from ._core import METHODS, BudgetExceeded, PrivacyError, __version__
from ._disclose import disclose
from ._embeddings import EmbeddingClassifier, TwoTowerClassifier, TwoTowerRegressor
from ._heavy_tailed import HeavyTailedMean
from ._mean import MeanEstimator
from ._minimize import check_per_record, minimize, plan_minimize
from ._model_file import load
from ._naive_bayes import GaussianNB
from ._pca import PCA
from ._plan import Plan, Privacy
from ._provenance import provenance
from ._public_facts import Columns, Unit
from ._regressors import (
    HuberRegression,
    LinearRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    SGDRegressor,
)
from ._scaler import PrivateScaler
from ._sparse_models import SparseLinearRegression, SparseLogisticRegression
from ._survival import CoxRegressor, survival
from ._warnings import PrivacyWarning
from .encoders import HashingEncoder, PublicOneHot, PublicScaler, TableEncoder, TextEncoder
from .ledger import Ledger


def __getattr__(name: str) -> object:
    # plotting, audits, export, engines and torch are loaded when they are first used
    if name in ("audit", "dask", "export", "plot", "ray", "spark", "torch"):
        import importlib

        return importlib.import_module(f"dpopt.{name}")
    raise AttributeError(f"module 'dpopt' has no attribute {name!r}")


__all__ = [
    "AdditiveClassifier",
    "AdditiveRegressor",
    "Aggregate",
    "BudgetExceeded",
    "ClippedSums",
    "Columns",
    "CoxRegressor",
    "EmbeddingClassifier",
    "GaussianNB",
    "HashingEncoder",
    "HeavyTailedMean",
    "HuberRegression",
    "Ledger",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "METHODS",
    "MeanEstimator",
    "PCA",
    "Plan",
    "PoissonRegressor",
    "PrivacyError",
    "PrivacyWarning",
    "Privacy",
    "PrivateScaler",
    "PublicOneHot",
    "PublicScaler",
    "QuantileRegressor",
    "Ridge",
    "SGDClassifier",
    "SGDRegressor",
    "SparseLinearRegression",
    "SparseLogisticRegression",
    "TableEncoder",
    "TextEncoder",
    "TwoTowerClassifier",
    "TwoTowerRegressor",
    "Unit",
    "__version__",
    "accounting",
    "aggregate",
    "aggregate_plan",
    "audit",
    "check_per_record",
    "disclose",
    "encoders",
    "load",
    "export",
    "mechanisms",
    "methods",
    "minimize",
    "objectives",
    "online",
    "partitions",
    "plan_minimize",
    "plot",
    "provenance",
    "select",
    "survival",
    "torch",
]
