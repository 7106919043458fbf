"""Pictures of privacy and accuracy. Needs matplotlib; every function draws on `ax` (or a new one) and returns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import accounting
from ._reading import array, kind, number, whole

#: Where the axis of δ ends.
SMALLEST_DELTA = 1e-12


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plotting needs matplotlib; pip install matplotlib") from error
    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def privacy_curve(
    *events: Any,
    labels: Sequence[str] | None = None,
    epsilons: Sequence[float] | None = None,
    relation: str = "zero-out",
    ax: Any = None,
) -> Any:
    """δ as a function of ε, certified, for events or fitted estimators.

    >>> ax = privacy_curve("gaussian(2)", "laplace(2)", epsilons=[0.1, 0.4, 1.0])
    >>> len(ax.lines)
    2
    """
    ax = _axes(ax)
    at = [number(e, "epsilons") for e in (np.linspace(0.05, 3.0, 40) if epsilons is None else epsilons)]
    for i, event in enumerate(events):
        privacy = getattr(event, "privacy_", None)
        if privacy is not None:
            deltas = [privacy.delta_at(e) for e in at]
            name = type(event).__name__
        else:
            event = accounting.as_event(event)
            deltas = accounting.privacy_curve(event, at, relation=relation)
            name = str(event)
        # a δ of 0 has no place on a logarithmic axis: the line leaves the picture at the bottom
        shown = np.maximum(deltas, SMALLEST_DELTA / 10)
        ax.plot(at, shown, label=labels[i] if labels else name)
    ax.set(xlabel="ε", ylabel="δ (certified)", yscale="log", title=f"Privacy curve, {relation}")
    ax.set_ylim(bottom=max(SMALLEST_DELTA, ax.get_ylim()[0]))
    ax.legend(frameon=False)
    return ax


def accuracy_against_epsilon(
    results: Mapping[Any, Any],
    *,
    baseline: float | None = None,
    metric: str = "accuracy",
    ax: Any = None,
) -> Any:
    """Mean score against ε, with error bars of two standard errors and a band of all repetitions.

    Args:
        results: scores of repeated fits for every ε; or a dict of such dicts, one per line.
        baseline: score without privacy, drawn as a dashed line.

    >>> ax = accuracy_against_epsilon({0.1: [0.6, 0.7], 1.0: [0.8, 0.82]}, baseline=0.85)
    >>> ax.get_xscale()
    'log'
    """
    ax = _axes(ax)
    if not isinstance(results, Mapping):
        raise TypeError(f"results is {kind(results)}; give a dict of scores for every epsilon")
    several = isinstance(next(iter(results.values()), None), Mapping)
    for name, scores in (results if several else {"": results}).items():
        epsilons = sorted(number(e, "an epsilon of results") for e in scores)
        table = [array(list(scores[e]), "scores").ravel() for e in epsilons]
        error = [2 * t.std(ddof=1) / np.sqrt(len(t)) if len(t) > 1 else np.nan for t in table]
        (line,) = ax.plot(epsilons, [t.mean() for t in table], marker="o", label=name or None)
        ax.errorbar(epsilons, [t.mean() for t in table], yerr=error, fmt="none", capsize=3, color=line.get_color())
        ax.fill_between(
            epsilons, [t.min() for t in table], [t.max() for t in table], alpha=0.2, linewidth=0, color=line.get_color()
        )
    if baseline is not None:
        ax.axhline(number(baseline, "baseline"), linestyle="--", color="gray", label="without privacy")
    ax.set(
        xlabel="ε",
        ylabel=metric,
        xscale="log",
        title=f"{metric.capitalize()} against ε (mean, 2 standard errors, range)",
    )
    _plain_ticks(ax)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)
    return ax


def _plain_ticks(ax: Any) -> None:
    """0.1, 1, 10 in place of powers of ten."""
    from matplotlib.ticker import FuncFormatter

    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))


def epsilon_over_steps(
    event: Any,
    steps: Sequence[int],
    delta: float,
    *,
    relation: str = "zero-out",
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Certified ε after each number of steps of a repeated event.

    >>> ax = epsilon_over_steps("poisson(0.01, gaussian(1.1))", [10, 100], delta=1e-6)
    >>> bool(ax.lines[0].get_ydata()[1] > ax.lines[0].get_ydata()[0])
    True
    """
    ax = _axes(ax)
    event = accounting.as_event(event)
    values = [
        float(accounting.epsilon(accounting.SelfComposedDpEvent(event, whole(t, "steps")), delta, relation=relation))
        for t in steps
    ]
    ax.plot(list(steps), values, marker=".", label=label or str(event))
    ax.set(xlabel="steps", ylabel=f"ε at δ = {delta:g} (certified)", title="Privacy loss over steps")
    ax.legend(frameon=False)
    return ax


def coefficient_intervals(
    estimator: Any, *, level: float = 0.95, output: int = 0, most: int = 40, ax: Any = None
) -> Any:
    """Coefficients with intervals for the privacy noise only (not for the sampling of the records).

    The bars use ``coef_noise_std_``, an upper bound of the noise's standard deviation, by the normal quantile. Methods
    without such a bound (gradient descent) get no bars.

    Args:
        estimator: a fitted linear estimator of dpopt.
        output: row of ``coef_`` for several classes.
        most: coefficients that are shown, the largest ones; a table of text has thousands.
    """
    from scipy.stats import norm

    ax = _axes(ax)
    coef = np.atleast_2d(estimator.coef_)[output]
    std = np.broadcast_to(np.atleast_2d(estimator.coef_noise_std_), np.atleast_2d(estimator.coef_).shape)[output]
    names = getattr(estimator, "encoded_feature_names_", getattr(estimator, "feature_names_in_", None))
    names = [f"x{j}" for j in range(len(coef))] if names is None or len(names) != len(coef) else list(names)
    shown = np.sort(np.argsort(-np.abs(coef), kind="stable")[: max(1, whole(most, "most"))])
    coef, std, names = coef[shown], std[shown], [names[j] for j in shown]
    at = np.arange(len(coef))[::-1]
    half = norm.ppf(0.5 + number(level, "level") / 2) * std
    if np.isfinite(half).all():
        ax.errorbar(coef, at, xerr=half, fmt="o", capsize=3)
        title = f"Coefficients, {level:.0%} intervals of the privacy noise"
    else:
        ax.plot(coef, at, "o")
        title = f"Coefficients ({estimator.plan_.method} has no bound on their noise)"
    ax.axvline(0, color="gray", linewidth=0.8)
    ax.set_yticks(at, names)
    ax.set_ylim(-0.5, len(coef) - 0.5)
    ax.set(xlabel="coefficient", title=title)
    return ax


__all__ = ["accuracy_against_epsilon", "coefficient_intervals", "epsilon_over_steps", "privacy_curve"]
