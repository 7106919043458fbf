"""The compiled half: JSON text and NumPy arrays in, JSON text and NumPy arrays out."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BudgetExceeded",
    "CertifiedPlan",
    "Examples",
    "FileLedger",
    "LABEL_SHARE",
    "METHODS",
    "PrivacyError",
    "SequentialAudit",
    "Training",
    "__version__",
    "audit",
    "calibrate",
    "certified",
    "choose",
    "compare",
    "default_delta",
    "delta",
    "describe",
    "discrete_gaussian",
    "discrete_laplace",
    "encode_dense_f32",
    "encode_dense_f64",
    "encode_sparse_f32",
    "encode_sparse_f64",
    "epsilon",
    "gaussian_sum",
    "gdp_estimate",
    "histogram",
    "laplace_sum",
    "method_options",
    "parse",
    "plan",
    "privacy_curve",
    "private_bounds",
    "probability",
    "quantile_choices",
    "quantiles",
    "random_below",
    "renyi",
    "repetition_law",
    "repetitions",
    "report_html",
    "second_moment",
    "select_best",
    "select_labels",
    "sparse_mean",
    "sparse_mean_plans",
    "true_positive_rates",
]

__version__: str
LABEL_SHARE: float
METHODS: list[str]

#: (bound, releases) as JSON.
_Paper = tuple[str, str]
#: Event as JSON, ε, δ, relation.
_Price = tuple[str, float, float, str]

class PrivacyError(ValueError): ...
class BudgetExceeded(PrivacyError): ...

@final
class Examples: ...

@final
class CertifiedPlan:
    def candidates(self) -> str: ...
    def method(self) -> str | None: ...
    def run(self, examples: Examples, seed: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64], str]: ...

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
        price: _Price,
        seed: int | None,
    ) -> Training: ...
    def bound(self) -> str: ...
    def records(self) -> str: ...
    def sample(self) -> NDArray[np.uint64]: ...
    def step(self, blocks: list[NDArray[Any]]) -> NDArray[np.float64]: ...

def plan(request: str) -> CertifiedPlan: ...
def method_options() -> str: ...
def probability(loss: str, margins: NDArray[np.float64]) -> NDArray[np.float64]: ...
def encode_dense_f32(
    x: NDArray[np.float32],
    y: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    scale: NDArray[np.float64],
    centre: NDArray[np.float64],
    row_norm: float,
    intercept: float,
    whole: float,
    max_nonzeros: int | None = None,
) -> Examples: ...
def encode_dense_f64(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    scale: NDArray[np.float64],
    centre: NDArray[np.float64],
    row_norm: float,
    intercept: float,
    whole: float,
    max_nonzeros: int | None = None,
) -> Examples: ...
def encode_sparse_f32(
    values: NDArray[np.float32],
    indices: NDArray[np.int32],
    offsets: NDArray[np.int32],
    y: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    scale: NDArray[np.float64],
    centre: NDArray[np.float64],
    row_norm: float,
    intercept: float,
    whole: float,
    max_nonzeros: int | None = None,
) -> Examples: ...
def encode_sparse_f64(
    values: NDArray[np.float64],
    indices: NDArray[np.int32],
    offsets: NDArray[np.int32],
    y: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    scale: NDArray[np.float64],
    centre: NDArray[np.float64],
    row_norm: float,
    intercept: float,
    whole: float,
    max_nonzeros: int | None = None,
) -> Examples: ...
def epsilon(event_json: str, at_delta: float, under: str, by: str) -> str: ...
def default_delta(units: int) -> float: ...
def delta(event_json: str, at_epsilon: float, under: str, by: str) -> str: ...
def compare(event_json: str, at_delta: float, under: str) -> list[tuple[str, str | None, str | None]]: ...
def privacy_curve(event_json: str, epsilons: list[float], under: str) -> list[float]: ...
def true_positive_rates(event_json: str, rates: list[float], under: str) -> list[float]: ...
def gdp_estimate(event_json: str, under: str) -> float: ...
def certified(event_json: str, epsilon: float, delta: float, under: str) -> str: ...
def calibrate(
    event_of: Callable[[Any], str], what: str, epsilon: float, delta: float, under: str
) -> tuple[float, str, str]: ...
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
    x: NDArray[np.float64], clip_norm: float, noise_multiplier: float, records: int, price: _Price, seed: int | None
) -> tuple[NDArray[np.float64], _Paper]: ...
def laplace_sum(
    x: NDArray[np.float64], clip_norm: float, noise_multiplier: float, records: int, price: _Price, seed: int | None
) -> tuple[NDArray[np.float64], _Paper]: ...
def second_moment(
    x: NDArray[np.float64], row_norm: float, noise_multiplier: float, records: int, price: _Price, seed: int | None
) -> tuple[NDArray[np.float64], _Paper]: ...
def discrete_laplace(
    counts: list[int], scale: float, sensitivity: int, price: _Price, seed: int | None
) -> tuple[list[int], _Paper]: ...
def histogram(
    records: NDArray[np.int64], cells: int, scale: float, price: _Price, seed: int | None
) -> tuple[list[int], _Paper]: ...
def discrete_gaussian(
    counts: list[int], sigma: float, sensitivity: float, price: _Price, seed: int | None
) -> tuple[list[int], _Paper]: ...
def choose(
    scores: list[int], law: str, epsilon: float, sensitivity: int, monotone: bool, price: _Price, seed: int | None
) -> tuple[int, _Paper]: ...
def quantile_choices(levels: int, under: str) -> int: ...
def quantiles(
    x: NDArray[np.float64], levels: list[int], epsilon: float, price: _Price, seed: int | None
) -> tuple[list[float], _Paper]: ...
def private_bounds(
    x: NDArray[np.float64], records: int, epsilon: float, delta: float, under: str, seed: int | None
) -> tuple[list[tuple[float, float] | None], str, _Paper]: ...
def select_labels(
    counts: dict[str, int], epsilon: float, delta: float, under: str, seed: int | None
) -> tuple[list[str], str, _Paper]: ...
def random_below(bound: int, count: int, seed: int | None) -> list[int]: ...
def repetition_law(shape: float, mean: float) -> tuple[float, float]: ...
def repetitions(shape: float, mean: float, seed: int | None) -> int: ...
def select_best(
    shape: float, mean: float, run: Callable[[int], tuple[float, int]], price: _Price, seed: int | None
) -> tuple[int, str, str]: ...
def report_html(stored: str) -> str: ...

_MeanFacts = tuple[int, int, float, float, str, float, float]

def sparse_mean_plans(facts: _MeanFacts) -> str: ...
def sparse_mean(
    values: NDArray[np.float64],
    indices: NDArray[np.int64],
    offsets: NDArray[np.int64],
    facts: _MeanFacts,
    method: str,
    seed: int | None,
) -> tuple[list[int], list[float], _Paper]: ...
