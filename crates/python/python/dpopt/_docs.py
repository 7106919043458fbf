"""What estimators' parameters and attributes mean, put into their docstrings once, in numpydoc's form."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)

#: Type and meaning of each parameter that several estimators have.
PARAMETERS = {
    "epsilon": ("float, default 1.0", "What the whole fit may spend."),
    "delta": ("float", "Default: 1/n^1.1, at most 0.01."),
    "method": (
        "str or object of dpopt.methods",
        '``"auto"``, the best certified candidate of :meth:`explain`; a name of ``dpopt.METHODS``; or ``dpopt.methods.NoisySGD(steps=400)``.',
    ),
    "bounds": (
        "tuple, dict or path",
        'Public range, ``(lower, upper)``, never read off the data; of a table by name, ``{"age": (17, 90)}``, or a bounds file.',
    ),
    "columns": ("Columns", "What else is declared by name."),
    "classes": (
        "list",
        'Public labels; ``"public"``: those that occur; None: the frequent ones, found for 5 % of the budget.',
    ),
    "target_bounds": ("tuple", "Public range of y; else found privately, for up to 30 % of epsilon."),
    "heavy_tailed": ("float or tuple", "Or a moment of y, ``(k, m, a)``: (E|y - a|^k)^(1/k) <= m."),
    "unit": ("Unit", "What is public of persons with several rows."),
    "neighbors": ("str", '``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`) or ``"replace-one"``.'),
    "budget": ("Ledger", "Charged before any record is read."),
    "n_rows": ("int", "Public number of rows; a guess under add-or-remove."),
    "row_norm": ("float", "Public l2 norm that rows are clipped to."),
    "max_nonzeros": ("int", "Public number of entries kept of a row."),
    "fit_intercept": ("bool", "Whether there is a constant."),
    "intercept_scaling": ("float", "Its size beside a row of norm 1."),
    "accountant": ("str", 'Whose ε is reported; ``"auto"``: the tightest.'),
    "encoding": (
        "str or dict",
        '``"auto"``; constants, ``{"knots": 12}``; or None: a matrix stays plain.',
    ),
    "bounds_budget": ("float", "Share of epsilon that finds ranges of `numeric` columns."),
    "bad_cells": ("str", 'Unreadable cells are ``"missing"`` or an ``"error"``.'),
    "insecure_seed": ("int", "Reproducible noise for tests: **no privacy**."),
    "embedding_dim": ("int", "Numbers per feature."),
    "embedding_seed": ("int", "Public seed of the values that embeddings start at."),
    "towers": (
        "tuple",
        "Which columns say who and what: two slices, index lists, masks or lists of names. Default: both halves.",
    ),
    "max_features": (
        "int",
        "The most features with a coefficient: a public choice, never what looks best on these records.",
    ),
}

#: What a fit leaves.
ATTRIBUTES = {
    "coef_, intercept_": (
        "ndarray",
        "Of encoded features; with ``encoding=None`` of columns.",
    ),
    "classes_": ("ndarray", ""),
    "target_range_": ("tuple", "What y was clipped to."),
    "target_clip_bias_": ("float", "Bounds what that took from its mean."),
    "embeddings_": ("ndarray", "Features × `embedding_dim`."),
    "output_": ("ndarray", "Outputs × `embedding_dim`."),
    "privacy_": ("Privacy", ""),
    "plan_": ("Plan", ""),
    "noise_std_": ("float", "NaN for a method that adds none."),
    "coef_noise_std_": ("ndarray", "Upper bounds."),
}
_LINEAR = ("coef_, intercept_", "privacy_", "plan_", "noise_std_", "coef_noise_std_")


def section(title: str, entries: list[tuple[str, str, str]]) -> str:
    """A section of numpydoc, without its first indentation."""
    lines = [title, "-" * len(title)]
    for name, kind, text in entries:
        lines += [f"{name} : {kind}", *([f"    {text}"] if text else [])]
    return "\n    ".join(lines)


def documented(
    attributes: tuple[str, ...] = (), without: tuple[str, ...] = (), **own: tuple[str, str]
) -> Callable[[T], T]:
    """Fills ``{parameters}`` in a docstring, from the constructor's signature, and the attributes of linear models.

    Parameters
    ----------
    attributes
        What a fit leaves besides.
    without
        What it does not leave.
    own
        Type and meaning of the class's own parameters.
    """

    def decorate(cls: T) -> T:
        known = {**PARAMETERS, **own}
        names = [name for name in inspect.signature(cls).parameters]
        left = [name for name in (*attributes, *_LINEAR) if name not in without]
        text = section("Parameters", [(name, *known[name]) for name in names])
        text += "\n\n    " + section("Attributes", [(name, *ATTRIBUTES[name]) for name in left])
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", text)
        return cls

    return decorate


__all__ = ["ATTRIBUTES", "PARAMETERS", "documented", "section"]
