"""Made by `make options` from the descriptions that stand with the methods: their options, as type checkers read them."""

from __future__ import annotations

from typing import Literal, TypedDict

from numpy.typing import ArrayLike


class LinearOptions(TypedDict, total=False):
    """Options of methods that use all features."""

    calibration: float | None
    steps: int | None
    learning_rate: float | None
    momentum: float | None
    regularization: float | None
    shift: float | None
    clip_norm: float | None
    rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None
    sampling_probability: float | None
    correlation: Literal["blt", "banded", "tree", "independent"] | None
    draws: int | None
    constant_time: bool
    geometry: str | None
    dual_row_norm: float | None
    distance: float | None
    gradient_rank: int | None
    gradient_decay: float | None
    public_moments: ArrayLike | None
    box_radius: float | None
    ball_radius: float | None
    moments: Literal["private", "private-halving", "running", "none"] | None
    moment_share: float | None
    moment_ratio: float | None
    subspace_rank: int | None
    subspace_first: int | None
    euclidean_clip: bool
    second_momentum: float | None
    phases: int | None
    gradient_moment: float | None
    moment_order: float | None


class SparseOptions(TypedDict, total=False):
    """Options of methods that keep few features."""

    calibration: float | None
    steps: int | None
    learning_rate: float | None
    momentum: float | None
    regularization: float | None
    clip_norm: float | None
    sampling_probability: float | None
    initial_features: int | None
    refit_share: float | None
    difference_clip: float | None
    inner_steps: Literal["fixed", "geometric"] | None
    snapshot_probability: float | None
    peeling: Literal["gumbel", "laplace"] | None
    l1_norm: float | None
    refresh_every: int | None


class EmbeddingOptions(TypedDict, total=False):
    """Options of embedding models."""

    steps: int | None
    learning_rate: float | None
    momentum: float | None
    regularization: float | None
    clip_norm: float | None
    rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None
    sampling_probability: float | None
    public_moments: ArrayLike | None
    box_radius: float | None
    ball_radius: float | None
    moments: Literal["private", "private-halving", "running", "none"] | None
    moment_share: float | None
    moment_ratio: float | None
    second_momentum: float | None
    count_noise: float | None
    count_level: float | None
    select_rows: bool
    embedding_update: Literal["scalar", "diagonal", "adam"] | None
