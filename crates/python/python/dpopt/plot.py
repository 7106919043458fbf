"""Pictures of privacy and accuracy. Needs matplotlib; every function draws on `ax` (or a new one) and returns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import accounting
from ._reading import array, kind, number, shown, whole
from ._shapes import Shape, shapes_of

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

    Parameters
    ----------
    results
        Scores of repeated fits for every ε; or a dict of such dicts, one per line.
    baseline
        Score without privacy, drawn as a dashed line.

    Examples
    --------
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


def sizing(found: Any, *, over: str = "epsilon", ax: Any = None) -> Any:
    """What is predicted over ε, or over the number of rows, with its band and the goal.

    Parameters
    ----------
    found
        What ``explain`` answers to a goal: the plan, or its ``sizing``.
    over
        ``"epsilon"`` or ``"rows"``.

    Examples
    --------
    >>> import dpopt
    >>> plan = dpopt.LogisticRegression(epsilon=1).explain(20_000, 30, accuracy=0.8, best=0.86)
    >>> ax = sizing(plan, over="rows")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('rows', 'accuracy')
    """
    found = getattr(found, "sizing", found)
    if not hasattr(found, "over_epsilon"):
        raise TypeError(f"found is {kind(found)}; give the plan of explain with a goal, or its sizing")
    if over not in ("epsilon", "rows"):
        raise ValueError(f'over is {shown(over)}; give "epsilon" or "rows"')
    points = found.over_epsilon if over == "epsilon" else found.over_rows
    at = [point[over] for point in points]
    ends = [[found.reached(point["lost"][end]) for point in points] for end in ("low", "middle", "high")]
    ax = _axes(ax)
    (line,) = ax.plot(at, ends[1], marker="o", label="predicted")
    ax.fill_between(at, ends[0], ends[2], alpha=0.2, linewidth=0, color=line.get_color(), label="band")
    ax.axhline(found.reached(found.allowed), linestyle="--", color="gray", label="goal")
    names = {
        "accuracy": "accuracy",
        "loss-points": "points of accuracy lost",
        "error": "root-mean-square error",
        "added-error": "root-mean-square error added",
    }
    fixed = f"{found.at['rows']:,} rows" if over == "epsilon" else f"ε = {found.at['epsilon']:g}"
    ax.set(
        xlabel="ε" if over == "epsilon" else "rows",
        ylabel=names[found.goal["kind"]],
        xscale="log",
        title=f"Predicted before any record is read, {fixed}",
    )
    _plain_ticks(ax)
    ax.legend(frameon=False)
    return ax


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

    Parameters
    ----------
    estimator
        A fitted linear estimator of dpopt.
    output
        Row of ``coef_`` for several classes.
    most
        Coefficients that are shown, the largest ones; a table of text has thousands.
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


def _wanted(shapes: list[Shape], columns: Any, most: Any, most_pairs: Any) -> list[Shape]:
    known = sorted({name for s in shapes for name in s.columns})
    if columns is None:
        alone = [s for s in shapes if s.kind != "map" and s.reach > 0]
        pairs = [s for s in shapes if s.kind == "map" and s.reach > 0]
        return alone[: whole(most, "most")] + pairs[: whole(most_pairs, "most_pairs")]
    chosen = []
    for wanted in [columns] if isinstance(columns, str) else list(columns):
        names = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, (list, tuple)) else []
        fits = [s for s in shapes if sorted(s.columns) == sorted(str(n) for n in names)]
        if not fits:
            raise ValueError(
                f"columns has an entry without a shape; the model has shapes of {', '.join(known[:12])}"
                f"{' and others' if len(known) > 12 else ''}, and of {sum(s.kind == 'map' for s in shapes)} pairs of them"
            )
        chosen += fits
    return chosen


def shape(estimator: Any, columns: Any, *, output: Any = None, ax: Any = None) -> Any:
    """What a model says of one column, or of two together: a curve, levels, or a map.

    Drawn from released weights alone, so it costs nothing; noise that was added for privacy is in the picture. A curve is drawn on the
    encoder's scale (a spread column has its values where they lie evenly), around 0, and a map of two columns has what they say
    together beyond what each says alone. Effects are in the units of the score (for classes) or of y, to the scaling of the whole row.

    Parameters
    ----------
    estimator
        A fitted estimator whose columns are encoded, or what :func:`dpopt.load` gives.
    columns
        A column's name, or a pair of names.
    output
        Of three or more classes, the class.

    Examples
    --------
    >>> import dpopt, pandas
    >>> table = pandas.DataFrame({"age": [20, 60] * 500, "member": ["no", "yes"] * 500})
    >>> model = dpopt.LogisticRegression(epsilon=2, delta=1e-6, bounds={"age": (18, 80)}, classes=["no", "yes"]).fit(table, "member")
    >>> ax = shape(model, "age")
    >>> ax.get_xlabel(), bool(ax.lines[1].get_ydata()[-1] > 0)
    ('age', True)
    """
    given = columns if isinstance(columns, str) else tuple(columns) if isinstance(columns, (list, tuple)) else None
    if given is None:
        raise TypeError(f"columns is {kind(columns)}; give a column's name, or a pair of names")
    (found, *_) = _wanted(shapes_of(estimator, output), [given], 1, 1)
    return _draw(_axes(ax), found)


def shapes(
    estimator: Any, *, columns: Any = None, output: Any = None, most: int = 8, most_pairs: int = 4, axes: Any = None
) -> Any:
    """What a model says of each column and of pairs of them, the ones that move the score most first: the axes of one figure.

    Parameters
    ----------
    estimator
        A fitted estimator whose columns are encoded, or what :func:`dpopt.load` gives.
    columns
        Names, and pairs of names, of those to draw; by default the `most` columns and `most_pairs` pairs with the largest reach.
    output
        Of three or more classes, the class.
    axes
        Matplotlib axes to draw on, at least as many; those that are left over are hidden.

    Each one as :func:`shape` draws it. Returns an array of axes.
    """
    found = _wanted(shapes_of(estimator, output), columns, most, most_pairs)
    if not found:
        raise ValueError("there is nothing to draw: no column has a declared range or levels, or all weights are 0")
    if axes is None:
        import matplotlib.pyplot as plt

        across = min(3, len(found))
        down = -(-len(found) // across)
        axes = plt.subplots(down, across, figsize=(4.2 * across, 3.2 * down), layout="constrained", squeeze=False)[1]
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(axes) < len(found):
        raise ValueError(f"there are {len(found)} shapes to draw on {len(axes)} axes; give more, or name columns")
    for ax, one in zip(axes, found):
        _draw(ax, one)
    for ax in axes[len(found) :]:
        ax.set_visible(False)
    return axes[: len(found)]


def contributions(estimator: Any, record: Any, *, output: Any = None, most: int = 12, ax: Any = None) -> Any:
    """Why an additive model predicts what it does for one record: what each column and pair adds, the largest first.

    Drawn from what was released and the record that is given: one of your own making, since the picture shows what is in it.

    Parameters
    ----------
    estimator
        A fitted :class:`dpopt.AdditiveClassifier` or :class:`dpopt.AdditiveRegressor`.
    record
        One record, as for ``predict``.
    output
        Of three or more classes, the class.
    most
        Bars that are shown; the rest is one bar.

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0); X = rng.uniform(0, 1, (4000, 2)); y = 3 * X[:, 0] + X[:, 1]
    >>> model = dpopt.AdditiveRegressor(epsilon=4.0, delta=1e-6, bounds=(0, 1), target_bounds=(0, 4)).fit(X, y)
    >>> ax = contributions(model, [[0.95, 0.5]])
    >>> len(ax.patches), ax.get_yticklabels()[0].get_text()
    (2, 'x0')
    """
    if not hasattr(estimator, "contributions"):
        raise TypeError(
            f"estimator is {kind(estimator)}; give a fitted dpopt.AdditiveClassifier or dpopt.AdditiveRegressor"
        )
    if getattr(record, "ndim", 2) == 1:
        raise ValueError(
            "record is a single row without its dimension of rows; give a table of one, such as X.iloc[[0]] or X[:1]"
        )
    parts, base = estimator.contributions(record), estimator.base_value_
    if len(parts) != 1:
        raise ValueError(f"record has {len(parts)} rows; give one record, such as X[:1]")
    (parts,), names = parts, [" & ".join(term) for term in estimator.terms_]
    if parts.ndim == 2:
        known = list(estimator.classes_)
        if output not in known:
            raise ValueError(f"there are {len(known)} classes, each with its own sum; give output=, one of classes_")
        parts, base = parts[:, known.index(output)], base[known.index(output)]
    elif output is not None:
        raise ValueError(
            "output is for models of three or more classes; leave it out: with two classes the sum is the second one's"
        )
    order = np.argsort(-np.abs(parts), kind="stable")
    shown_, rest = order[: max(1, whole(most, "most"))], order[max(1, whole(most, "most")) :]
    values, labels = list(parts[shown_]), [_short(names[i]) for i in shown_]
    if rest.size:
        values.append(parts[rest].sum())
        labels.append(f"{rest.size} others")
    ax, at = _axes(ax), np.arange(len(values))
    ax.barh(at, values, color=["tab:red" if value < 0 else "tab:blue" for value in values])
    ax.set_yticks(at, labels)
    ax.invert_yaxis()
    ax.axvline(0, color="gray", linewidth=0.8)
    total = base + float(np.sum(values))
    unit = "score" if hasattr(estimator, "classes_") else "prediction"
    ax.set(xlabel=f"added to the {unit}", title=f"{base:.3g} + these = {total:.3g}")
    return ax


def survival_curves(
    estimator: Any, X: Any, *, labels: Sequence[str] | None = None, times: Any = None, ax: Any = None
) -> Any:
    """The chance of records to be without the event over time, as a fitted :class:`dpopt.CoxRegressor` predicts it.

    Drawn from what was released and the records that are given, at most a dozen of them: records of your own making, since a curve shows what is in one.

    Parameters
    ----------
    estimator
        A fitted ``CoxRegressor``.
    X
        Records × features, a curve for each.
    labels
        Names of the curves.
    times
        Between 0 and the horizon; by default 0 and the ends of the periods.

    Examples
    --------
    >>> import numpy as np, dpopt
    >>> rng = np.random.default_rng(0); X = rng.uniform(-1, 1, (4000, 1)); time = rng.exponential(np.exp(-X[:, 0]))
    >>> model = dpopt.CoxRegressor(epsilon=2.0, delta=1e-6, horizon=2.0, bounds=(-1, 1)).fit(X, dpopt.survival(time, time < 2.0))
    >>> ax = survival_curves(model, [[-1.0], [1.0]], labels=["low", "high"])
    >>> len(ax.lines), float(ax.lines[0].get_ydata()[0])
    (2, 1.0)
    """
    if not hasattr(estimator, "predict_survival_function"):
        raise TypeError(f"estimator is {kind(estimator)}; give a fitted dpopt.CoxRegressor")
    check_is_fitted(estimator)
    at = np.append(0.0, estimator.times_) if times is None else array(times, "times")
    curves = estimator.predict_survival_function(X, at)
    if len(curves) > _MOST_LEVELS:
        raise ValueError(
            f"X has {len(curves)} records, and no more than {_MOST_LEVELS} curves are told apart; give fewer"
        )
    if labels is not None and len(labels) != len(curves):
        raise ValueError(f"labels has {len(labels)} entries for {len(curves)} records; give one for each")
    ax = _axes(ax)
    for i, curve in enumerate(curves):
        ax.plot(at, curve, label=str(labels[i]) if labels is not None else f"record {i + 1}")
    ax.set(xlabel="time", ylabel="without the event", ylim=(0, 1.02), title="Predicted survival")
    if len(curves) > 1 or labels is not None:
        ax.legend(frameon=False)
    return ax


#: Levels of a category that are drawn, the largest; cells of a map that have a name each.
_MOST_LEVELS, _MOST_NAMES = 12, 8


def _draw(ax: Any, shape: Shape) -> Any:
    effects, at = shape.effects, shape.at
    if shape.kind == "curve":
        values = np.array(at, dtype=float)
        place = np.linspace(0, 1, len(values))
        ax.axhline(0, color="gray", linewidth=0.8)
        ax.plot(place, effects)
        # on the encoder's scale, which values of a skewed column do not crowd
        # a date takes the room of two numbers
        ticks = np.linspace(0, 1, 3 if shape.counts == "date" else 5)
        ax.set_xticks(ticks, [_plain(value, shape.counts) for value in np.interp(ticks, place, values)])
        days = " (days)" if shape.counts == "duration" else ""
        ax.set(xlabel=shape.columns[0] + days, ylabel=f"added to the {shape.unit}", title=shape.columns[0])
    elif shape.kind == "levels":
        largest = np.argsort(-np.abs(effects), kind="stable")[:_MOST_LEVELS]
        names, rows = [_short(at[i]) for i in largest], np.arange(len(largest))[::-1]
        ax.axvline(0, color="gray", linewidth=0.8)
        ax.plot(effects[largest], rows, "o")
        ax.set_yticks(rows, names)
        ax.set_ylim(-0.5, len(largest) - 0.5)
        ax.set(xlabel=f"added to the {shape.unit}", title=shape.columns[0])
    else:
        reach = np.abs(effects).max() or 1.0
        picture = ax.imshow(effects.T, origin="lower", aspect="auto", cmap="RdBu_r", vmin=-reach, vmax=reach)
        ax.figure.colorbar(picture, ax=ax, label="beyond each alone")
        for axis, names in ((ax.xaxis, at[0]), (ax.yaxis, at[1])):
            step = -(-len(names) // _MOST_NAMES)
            axis.set_ticks(range(0, len(names), step), [_short(name) for name in names[::step]])
        ax.tick_params(axis="x", rotation=45)
        first, second = shape.columns
        ax.set(xlabel=first, ylabel=second, title=f"{first} and {second}")
    return ax


def _plain(value: float, counts: str) -> str:
    if counts == "date":
        return str(np.datetime64(round(value), "D"))
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.3g}"


def _short(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"


__all__ = [
    "accuracy_against_epsilon",
    "coefficient_intervals",
    "contributions",
    "epsilon_over_steps",
    "privacy_curve",
    "shape",
    "shapes",
    "sizing",
    "survival_curves",
]
