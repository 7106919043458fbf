"""The compiled half: JSON text and NumPy arrays in, JSON text and NumPy arrays out."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bounding",
    "BudgetExceeded",
    "FileLedger",
    "Fit",
    "FitRun",
    "LABEL_SHARE",
    "METHODS",
    "PrivacyError",
    "Rows",
    "SequentialAudit",
    "Session",
    "Training",
    "__version__",
    "audit",
    "batch_event",
    "batch_noise",
    "bounds_event",
    "calibrate",
    "certified",
    "choose",
    "compare",
    "default_delta",
    "delta",
    "describe",
    "discrete_gaussian",
    "discrete_laplace",
    "epsilon",
    "gaussian_sum",
    "gdp_estimate",
    "guarantee_by",
    "guarantee_delta",
    "histogram",
    "label_event",
    "laplace_sum",
    "method_options",
    "parse",
    "plan_search",
    "privacy_curve",
    "private_bounds",
    "probability",
    "quantile_choices",
    "quantiles",
    "quantiles_sampler_error",
    "random_below",
    "renyi",
    "repetitions",
    "report_html",
    "second_moment",
    "select_best",
    "select_labels",
    "shown",
    "sparse_mean",
    "sparse_mean_plans",
    "sum_noise",
    "true_positive_rates",
]

__version__: str
LABEL_SHARE: float
METHODS: list[str]

#: (value, event, bound): of a search, the last two as JSON.
_Found = tuple[float, str, str]
#: Charges (run, event as JSON, ε, δ, relation, unit), or raises.
_Charge = Callable[[str, str, float, float, str, str], None]
#: Event as JSON, ε, δ, relation.
_Price = tuple[str, float, float, str]

class PrivacyError(ValueError): ...
class BudgetExceeded(PrivacyError): ...

@final
class Bounding:
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    scale: NDArray[np.float64]
    centre: NDArray[np.float64]
    intercept: float
    width: int
    nonzeros: int
    row_norm: float
    @staticmethod
    def in_ball(features: int, norm: float, intercept: float, max_nonzeros: int | None) -> Bounding: ...
    @staticmethod
    def in_box(
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        norm: float,
        intercept: float,
        sparse: bool,
        max_nonzeros: int | None,
    ) -> Bounding: ...
    def dense(self, x: NDArray[Any], targets: NDArray[np.float64]) -> Rows: ...
    def sparse(
        self,
        values: NDArray[Any],
        columns: NDArray[np.int32],
        offsets: NDArray[np.int32],
        targets: NDArray[np.float64],
    ) -> Rows: ...

@final
class Rows: ...

@final
class Fit:
    def __new__(cls, rows: int, features: int, nonzeros: int, row_norm: float, request: str) -> Fit: ...
    def plan(self, classes: int, compare: bool) -> str: ...
    def open(self, run: str, charge: _Charge | None, seed: int | None, by: str | None) -> FitRun: ...

@final
class FitRun:
    def labels(self, counts: list[int]) -> list[int] | None: ...
    def fit(
        self, rows: Rows, classes: int
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]], str, str, str, float]: ...

@final
class Session:
    def __new__(
        cls,
        run: str,
        stage: str,
        price: _Price,
        charge: _Charge | None,
        seed: int | None,
        by: str | None = None,
    ) -> Session: ...
    def guarantee(self) -> str: ...
    def releases(self) -> str: ...

@final
class FileLedger:
    def __new__(cls, path: str, label: str, under: str, epsilon: float, delta: float) -> FileLedger: ...
    @staticmethod
    def open(path: str) -> FileLedger: ...
    def charge(self, label: str, event_json: str, epsilon: float, delta: float, under: str) -> None: ...
    def status(self) -> str: ...

@final
class Training:
    def __new__(
        cls,
        records: int,
        sampling_probability: float,
        dimension: int,
        clip_norm: float,
        noise_multiplier: float,
        session: Session,
    ) -> Training: ...
    def records(self) -> str: ...
    def sample(self, records: int | None = None) -> NDArray[np.uint64]: ...
    def add(self, blocks: list[NDArray[Any]]) -> None: ...
    def step(self) -> NDArray[np.float64]: ...

def method_options() -> str: ...
def probability(loss: str, margins: NDArray[np.float64]) -> NDArray[np.float64]: ...
def epsilon(event_json: str, at_delta: float, under: str, by: str) -> str: ...
def default_delta(units: int) -> float: ...
def delta(event_json: str, at_epsilon: float, under: str, by: str) -> str: ...
def compare(event_json: str, at_delta: float, under: str) -> list[tuple[str, str | None, str | None]]: ...
def privacy_curve(event_json: str, epsilons: list[float], under: str) -> list[float]: ...
def true_positive_rates(event_json: str, rates: list[float], under: str) -> list[float]: ...
def gdp_estimate(event_json: str, under: str) -> float: ...
def certified(event_json: str, epsilon: float, delta: float, under: str) -> str: ...
def calibrate(event_of: Callable[[Any], str], what: str, epsilon: float, delta: float, under: str) -> _Found: ...
def sum_noise(law: str, coordinates: int, epsilon: float, delta: float, under: str) -> _Found: ...
def batch_noise(facts: str, epsilon: float, delta: float, under: str) -> _Found: ...
def batch_event(facts: str, noise_multiplier: float) -> str: ...
def shown(epsilon: float, delta: float) -> tuple[str, str]: ...
def guarantee_delta(text: str, epsilon: float) -> float: ...
def guarantee_by(text: str, by: str) -> str: ...
def parse(text: str, unknown: float | None) -> str: ...
def describe(event_json: str) -> str: ...
def renyi(event_json: str, under: str, orders: list[float]) -> list[tuple[float, float, float] | None]: ...
def audit(
    with_record: NDArray[np.float64],
    without_record: NDArray[np.float64],
    claimed_epsilon: float | None,
    claimed_delta: float,
    claimed_event: str | None,
    under: str,
    alpha: float,
    pilot_share: float,
) -> tuple[str, str]: ...

@final
class SequentialAudit:
    def __new__(
        cls,
        claimed_epsilon: float | None,
        claimed_delta: float,
        claimed_event: str | None,
        under: str,
        alpha: float,
        runs: int,
    ) -> SequentialAudit: ...
    def observe(self, with_record: float, without_record: float) -> bool: ...
    def conclude(self) -> tuple[str, str]: ...

def gaussian_sum(
    x: NDArray[np.float64], clip_norm: float, noise_multiplier: float, records: int, session: Session
) -> NDArray[np.float64]: ...
def laplace_sum(
    x: NDArray[np.float64], clip_norm: float, noise_multiplier: float, records: int, session: Session
) -> NDArray[np.float64]: ...
def second_moment(
    x: NDArray[np.float64], row_norm: float, noise_multiplier: float, records: int, session: Session
) -> NDArray[np.float64]: ...
def discrete_laplace(counts: list[int], scale: float, sensitivity: int, session: Session) -> list[int]: ...
def histogram(records: NDArray[np.int64], cells: int, scale: float, session: Session) -> list[int]: ...
def discrete_gaussian(counts: list[int], sigma: float, sensitivity: float, session: Session) -> list[int]: ...
def choose(scores: list[int], law: str, epsilon: float, sensitivity: int, monotone: bool, session: Session) -> int: ...
def quantile_choices(levels: int, under: str) -> int: ...
def quantiles_sampler_error(levels: int) -> float: ...
def quantiles(x: NDArray[np.float64], levels: list[int], epsilon: float, session: Session) -> list[float]: ...
def private_bounds(x: NDArray[np.float64], records: int, session: Session) -> list[tuple[float, float] | None]: ...
def label_event(epsilon: float, delta: float, under: str) -> str: ...
def bounds_event(columns: int, records: int, epsilon: float, delta: float, under: str) -> str: ...
def select_labels(counts: dict[str, int], session: Session) -> list[str]: ...
def random_below(bound: int, count: int, seed: int | None) -> list[int]: ...
def plan_search(
    shape: float,
    mean: float,
    epsilon: float,
    delta: float,
    under: str,
    train: Callable[[float, float], list[str]],
) -> str: ...
def repetitions(shape: float, mean: float, seed: int | None) -> int: ...
def select_best(shape: float, mean: float, run: Callable[[int], tuple[float, int]], session: Session) -> int: ...
def report_html(stored: str) -> str: ...

_MeanFacts = tuple[int, int, float, float, str, float, float]

def sparse_mean_plans(facts: _MeanFacts) -> str: ...
def sparse_mean(
    values: NDArray[np.float64],
    indices: NDArray[np.int64],
    offsets: NDArray[np.int64],
    facts: _MeanFacts,
    method: str,
    session: Session,
) -> tuple[list[int], list[float]]: ...
