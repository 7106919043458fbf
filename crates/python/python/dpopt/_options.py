"""Options of methods as keywords of estimators: names, ranges and documentation are those of the compiled library."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from . import _core
from ._reading import array, number, shown, whole

T = TypeVar("T", bound=type)

#: What scikit-learn's estimators have, and why these have not.
WEIGHTS = {
    "class_weight": "the losses here weigh every record alike, and the noise is made for that; move the threshold on predict_proba instead",
    "sample_weight": "it multiplies what single records contribute, beyond the bound that the noise is made for",
}

#: Every option: name, help, form, range or words, and the methods that have it.
CATALOGUE: list[dict[str, Any]] = json.loads(_core.method_options())
_BY_NAME = {option["name"]: option for option in CATALOGUE}
#: The method of embedding models.
EMBEDDING = "embedding-sgd"
_SPARSE_METHODS = frozenset(_BY_NAME["max_features"]["methods"])


def _of(methods: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(option["name"] for option in CATALOGUE if any(map(methods, option["methods"])))


#: Options of methods that use all features.
LINEAR_OPTIONS = _of(lambda method: method != EMBEDDING and method not in _SPARSE_METHODS)
#: Options of methods that keep few features.
SPARSE_OPTIONS = _of(lambda method: method in _SPARSE_METHODS)
#: Options of embedding models.
EMBEDDING_OPTIONS = _of(lambda method: method == EMBEDDING)


def default(name: str) -> Any:
    """The value that leaves an option to the library."""
    return False if _BY_NAME[name]["form"] == "flag" else None


def described(name: str) -> str:
    """What an option does and takes, in one paragraph."""
    option = _BY_NAME[name]
    values = {
        "real": option.get("in_words", ""),
        "whole": "a whole number, at least 1",
        "flag": "True or False",
        "reals": "an array, one number per feature in the units of X (around the middle of `bounds`)",
        "norm": '``"l1"``, ``"l2"``, or ``"lp:P"`` with a number P from 1 on',
        "words": "; ".join(f'``"{word}"``: {meaning}' for word, meaning in option.get("words", [])),
    }[option["form"]]
    return f"{option['help']} ({values})."


def documentation(names: Sequence[str]) -> str:
    """Lines of a docstring's list of parameters."""
    return "\n".join(f"        {name}: {described(name)}" for name in names)


def with_options(names: Sequence[str], without: Sequence[str] = ()) -> Callable[[T], T]:
    """Gives ``__init__``'s ``**options`` their names: in the signature, and in the docstring for ``{options}``.

    Args:
        names: of the options.
        without: those of them that mean nothing for this estimator.
    """

    def decorate(cls: T) -> T:
        cls._method_options = tuple(name for name in names if name not in without)  # type: ignore[attr-defined]
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        new = [name for name in cls._method_options if name not in signature.parameters]  # type: ignore[attr-defined]
        keywords = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=default(n)) for n in new]
        cls._keyword_options = tuple(new)  # type: ignore[attr-defined]
        cls.__init__.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[misc]
        cls.__doc__ = (cls.__doc__ or "").replace("{options}", documentation(new))
        return cls

    return decorate


def keep(estimator: Any, given: dict[str, Any]) -> None:
    """Stores the parameters of ``__init__`` (its ``locals()``) under their names, as scikit-learn wants them: unchanged."""
    options = dict(given.get("options", {}))
    for name, value in given.items():
        if name not in ("self", "__class__", "options"):
            setattr(estimator, name, value)
    for name in getattr(estimator, "_keyword_options", ()):
        setattr(estimator, name, options.pop(name, default(name)))
    for name in options:
        if name in WEIGHTS:
            raise TypeError(f"{type(estimator).__name__} has no parameter {name}: {WEIGHTS[name]}")
        near = difflib.get_close_matches(name, type(estimator)._get_param_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TypeError(f"{type(estimator).__name__} has no parameter {shown(name)}{hint}")


def said(estimator: Any) -> dict[str, Any]:
    """What the user said of the estimator's options, as the compiled library reads it."""
    result: dict[str, Any] = {}
    for name in estimator._method_options:
        value = getattr(estimator, name, None)
        form = _BY_NAME[name]["form"]
        if value is None or (form == "flag" and isinstance(value, (bool, np.bool_)) and not value):
            continue
        if form == "real":
            result[name] = number(value, name)
        elif form == "whole":
            result[name] = whole(value, name)
        elif form == "reals":
            result[name] = array(value, name).astype(np.float64).ravel().tolist()
        elif form == "flag" and isinstance(value, (bool, np.bool_)):
            result[name] = True
        elif form in ("words", "norm") and isinstance(value, str):
            result[name] = value
        else:
            others = ["l1", "l2", "lp:P"] if form == "norm" else ["True", "False"]
            words = [word for word, _ in _BY_NAME[name].get("words", [])] or others
            raise ValueError(f"{name} is {shown(value)}; give one of {', '.join(words)}")
    return result
