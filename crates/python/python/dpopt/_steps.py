"""Steps around a private estimator that read the records without noise.

A pipeline of scikit-learn fits its steps on the records, one after another: what a scaler, a vocabulary or a selection of features learned is in no
guarantee, and one record moves what every other becomes. Which steps are public is said here, once: for the warning at a fit, for what
``privacy_`` says it is of, and for the search, which refuses. A step that is not known counts as one that reads the records. No record is looked at here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from ._warnings import warn


def _always(step: Any) -> bool:
    return True


def _categories_given(step: Any) -> bool:
    # rare categories are found by counting records
    counted = (step.min_frequency, step.max_categories)
    return not isinstance(step.categories, str) and counted == (None, None)


def _components_given(step: Any) -> bool:
    return not isinstance(step.n_components, str)


#: Steps of scikit-learn of which nothing depends on a record but its own row, and when; of the class itself, since a subclass may do anything.
_PUBLIC: dict[type, Callable[[Any], bool]] = {
    FunctionTransformer: _always,
    Normalizer: _always,
    Binarizer: _always,
    PolynomialFeatures: _always,
    HashingVectorizer: _always,
    FeatureHasher: _always,
    AdditiveChi2Sampler: _always,
    SkewedChi2Sampler: _always,
    PolynomialCountSketch: _always,
    # fitted elsewhere: nothing is fitted here
    FrozenEstimator: _always,
    RBFSampler: lambda step: not isinstance(step.gamma, str),
    GaussianRandomProjection: _components_given,
    SparseRandomProjection: _components_given,
    OneHotEncoder: _categories_given,
    OrdinalEncoder: _categories_given,
    SplineTransformer: lambda step: not isinstance(step.knots, str),
    CountVectorizer: lambda step: step.vocabulary is not None,
    TfidfVectorizer: lambda step: step.vocabulary is not None and not step.use_idf,
    TfidfTransformer: lambda step: not step.use_idf,
    MissingIndicator: lambda step: step.features == "all",
    SimpleImputer: lambda step: (
        step.strategy == "constant"
        and step.fill_value is not None
        and step.keep_empty_features
        and not step.add_indicator
    ),
}

_BOUNDS = "declare bounds= of the estimator, or use dpopt.PublicScaler(bounds)"
_TEXTS = "use dpopt.HashingEncoder, HashingVectorizer or a given vocabulary without idf"
_SCALES = f"take dpopt.PrivateScaler, {_BOUNDS}"
_LEVELS = "give categories=[...], or use dpopt.PublicOneHot"
_COMPONENTS = "take dpopt.PCA, or GaussianRandomProjection(n_components), or directions from public data"
_PROJECTIONS = "use GaussianRandomProjection(n_components), or directions from public data"
_FILL = 'leave it out: a missing number counts as the middle of its bounds; or SimpleImputer(strategy="constant", fill_value=..., keep_empty_features=True)'
_SELECT = "choose columns beforehand, or a sparse method of dpopt (max_features=)"
#: What to take instead, by the name of the class.
INSTEAD = {
    "MinMaxScaler": _BOUNDS, "MaxAbsScaler": _BOUNDS, "StandardScaler": _SCALES, "RobustScaler": _BOUNDS,
    "QuantileTransformer": "declare columns by name: numbers get a private quantile transform",
    "PowerTransformer": "use FunctionTransformer(np.log1p), or declare columns by name",
    "KBinsDiscretizer": "use FunctionTransformer with given edges, or declare columns by name",
    "SplineTransformer": "give knots= an array, or declare columns by name",
    "OneHotEncoder": _LEVELS, "OrdinalEncoder": _LEVELS, "LabelBinarizer": _LEVELS, "LabelEncoder": _LEVELS, "TargetEncoder": _LEVELS,
    "CountVectorizer": _TEXTS, "TfidfVectorizer": _TEXTS, "TfidfTransformer": "give use_idf=False", "DictVectorizer": "use FeatureHasher",
    "PCA": _COMPONENTS, "KernelPCA": _PROJECTIONS, "TruncatedSVD": _PROJECTIONS, "IncrementalPCA": _PROJECTIONS, "NMF": _PROJECTIONS,
    "FastICA": _PROJECTIONS, "Nystroem": "use RBFSampler(gamma=...)", "RBFSampler": "give gamma= a number",
    "GaussianRandomProjection": "give n_components= a number", "SparseRandomProjection": "give n_components= a number",
    "SimpleImputer": _FILL, "KNNImputer": _FILL, "IterativeImputer": _FILL, "MissingIndicator": 'give features="all"',
    "SelectKBest": _SELECT, "SelectPercentile": _SELECT, "SelectFromModel": _SELECT, "VarianceThreshold": _SELECT, "RFE": _SELECT, "RFECV": _SELECT,
}  # fmt: skip


def _of_package(value: Any) -> bool:
    return any(kind.__module__.split(".")[0] == "dpopt" for kind in type(value).__mro__)


def unpublic(step: Any, name: str = "") -> list[str]:
    """The steps in `step` that read the records without noise, each as a person is told of it; none if it is public."""
    told = type(step).__name__
    said = f"`{name}` ({told})" if name and name != told.lower() else told
    if step is None or isinstance(step, str) or _of_package(step):
        # left out, passed through, or with a promise of its own
        return []
    parts = _parts(step)
    if parts is not None:
        return [found for part_name, part in parts for found in unpublic(part, part_name)]
    if _known_as_public(step):
        return []
    if hasattr(step, "fit_resample"):
        return [f"{said}: it makes rows out of several records, or leaves records out by what others are; leave it out"]
    if told in INSTEAD and type(step).__module__.startswith("sklearn."):
        return [f"{said}: {INSTEAD[told]}"]
    return [f"{said}: it is not known as public, and may learn from the records"]


def _known_as_public(step: Any) -> bool:
    known = _PUBLIC.get(type(step))
    try:
        return known is not None and bool(known(step))
    except AttributeError:
        # a parameter that this version of scikit-learn does not have
        return False


def _parts(step: Any) -> list[tuple[str, Any]] | None:
    """What a step consists of, by name; None if it is one."""
    if isinstance(step, FeatureUnion):
        return [(name, part) for name, part, *_ in step.transformer_list]
    if isinstance(step, ColumnTransformer):
        found = [(name, part) for name, part, _ in step.transformers]
        chosen = [
            (f"columns of {name}", columns)
            for name, _, columns in step.transformers
            if callable(columns) and not isinstance(columns, make_column_selector)
        ]
        return [*found, *chosen, ("remainder", step.remainder)]
    steps = getattr(step, "steps", None)
    if not (isinstance(steps, list) and all(isinstance(part, tuple) and len(part) == 2 for part in steps)):
        return None
    return steps if isinstance(step, Pipeline) or steps else None


def _around(self: Any, function: str, at: Any) -> list[str] | None:
    """What reads the records beside the step that is fitted; None if `self` is nothing that holds steps."""
    if isinstance(self, TransformedTargetRegressor):
        return unpublic(self.transformer, "transformer")
    parts = _parts(self)
    if parts is None:
        return None
    if isinstance(self, (ColumnTransformer, FeatureUnion)):
        return unpublic(self)
    current = at if function == "_fit" and isinstance(at, int) else len(parts) - 1
    return [found for i, (name, part) in enumerate(parts) if i != current for found in unpublic(part, name)]


#: scikit-learn's modules that fit an estimator they were given once, as one part of a whole or in a test of conventions.
_ONCE = ("sklearn.pipeline", "sklearn.compose", "sklearn.base", "sklearn.utils", "sklearn.callback")


class Surroundings:
    """What a fit runs in, by the call stack.

    Attributes
    ----------
    steps
        Steps beside this one that read the records without noise, innermost pipeline first.
    repeated
        By what it may be fitted several times or on parts: a module of scikit-learn, or a class that is not known; None if it is fitted once.
    last
        No step is fitted after this one.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.repeated: str | None = None
        self.last = True
        seen: set[int] = set()
        for frame in _frames():
            module = frame.f_globals.get("__name__", "")
            if module == "sklearn.utils.estimator_checks":
                self.steps, self.repeated = [], None
                return
            inside = module.startswith("sklearn.")
            if inside and not module.startswith(_ONCE) and self.repeated is None:
                self.repeated = f"scikit-learn's {_KINDS} ({module.removeprefix('sklearn.').split('.')[0]})"
            around = _fitting(frame)
            if not isinstance(around, BaseEstimator) or id(around) in seen or _of_package(around):
                continue
            seen.add(id(around))
            found = _around(around, frame.f_code.co_name, frame.f_locals.get("step_idx"))
            if found is not None:
                self.steps += found
                self.last = self.last and frame.f_code.co_name != "_fit"
            elif not inside and self.repeated is None and hasattr(around, "fit"):
                self.repeated = (
                    f"{type(around).__name__} ({module.split('.')[0]}), which may fit it several times or on parts"
                )

    @property
    def scope(self) -> str | None:
        """What a guarantee of the fit is of, where that is not all that was fitted."""
        if self.steps:
            names = ", ".join(step.split(":")[0] for step in self.steps)
            which = "the last step" if self.last else "this step"
            return f"of {which} alone: {names} read the records without noise"
        if self.repeated is not None:
            return f"of this fit alone: it ran inside {self.repeated}"
        return None


_KINDS = "search, cross-validation, ensemble or calibration"


def _frames() -> Iterator[FrameType]:
    """Those of the call stack that are not this package's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] != "dpopt":
            yield frame
        frame = frame.f_back


def _fitting(frame: FrameType) -> Any:
    """The object whose method fits here. Other frames are left alone: looking into one keeps what its variables hold alive until it ends."""
    code = frame.f_code
    method = "fit" in code.co_name or frame.f_globals.get("__name__", "").split(".")[0] in ("sklearn", "imblearn")
    return frame.f_locals.get("self") if method and code.co_varnames[:1] == ("self",) else None


def warn_of_surroundings() -> None:
    """Warns when a fit is called by a pipeline with steps that are not public, or by scikit-learn's searches, cross-validation, ensembles,
    calibration or stacking.

    All of them call ``fit`` from a function of scikit-learn, in worker threads and processes too, so a frame of one of its
    modules on the stack is the sign; pipelines, column transformers and scikit-learn's test of conventions fit once and do
    not count as repeated. No record is looked at.
    """
    around = Surroundings()
    if around.repeated is not None:
        warn(
            f"this fit runs inside {around.repeated}: every inner fit spends the full (epsilon, delta) again, and the scores that select among them read the validation records without noise. The result as a whole has no "
            "privacy guarantee near epsilon. Give the estimator budget=dpopt.Ledger(...), which is charged by every inner "
            "fit and refuses what it does not hold; use dpopt.select.PrivateSearchCV, which pays for a search; or work on "
            "public data only"
        )
    if around.steps:
        whose = "the last step" if around.last else "this step"
        warn(
            f"steps around this fit read the records without noise, which no guarantee covers: {'; '.join(around.steps)}. "
            f"privacy_ covers {whose} only, not the pipeline as a whole. Public steps, and steps fitted on public data alone (sklearn.frozen.FrozenEstimator), give no warning; docs/python.md lists a replacement for each"
        )


__all__ = ["INSTEAD", "Surroundings", "unpublic", "warn_of_surroundings"]
