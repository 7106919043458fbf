"""Options of methods: names, ranges and documentation are those of the compiled library, and what an estimator may be given of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _core
from ._reading import array, kind, number, shown, whole
from ._settings import Method

#: Every option: name, help, form, range or words, and the methods that have it.
CATALOGUE: list[dict[str, Any]] = json.loads(_core.method_options())
_BY_NAME = {option["name"]: option for option in CATALOGUE}
#: The method of embedding models.
EMBEDDING = "embedding-sgd"
#: A parameter of sparse models themselves, which is no option of a method in Python.
REQUIRED = "max_features"
#: Methods that keep few features, and those of them that have to be told how many.
SPARSE = frozenset(_BY_NAME[REQUIRED]["methods"])
COUNTED = SPARSE - {"frank-wolfe"}
#: Methods of models that keep every feature, of sparse ones, and of embedding models.
LINEAR = frozenset(_core.METHODS) - COUNTED


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


def option_meant(name: str, usable: frozenset[str]) -> tuple[str, str] | None:
    """The option of this name, or nearly so, and the class of one of these methods that has it: the usual one, if it has."""
    from .methods import BY_NAME

    known = [o["name"] for o in CATALOGUE if o["name"] != REQUIRED and usable & set(o["methods"])]
    option = name if name in known else next(iter(difflib.get_close_matches(name, known, n=1)), None)
    if option is None:
        return None
    having = [method for method in _BY_NAME[option]["methods"] if method in usable]
    usual = [method for method in ("noisy-sgd", "dp-gd-ht", EMBEDDING) if method in having]
    return option, BY_NAME[(usual or having)[0]].__name__


def method_of(given: Any) -> Method:
    """What ``method=`` holds, as an object; names that the library does not have are refused by it."""
    from .methods import BY_NAME, Auto

    if isinstance(given, Method):
        return given
    if isinstance(given, type) and issubclass(given, Method):
        raise TypeError(f"method is the class {given.__name__}; give an object of it: dpopt.methods.{given.__name__}()")
    if not isinstance(given, str):
        raise TypeError(
            f'method is {kind(given)}; give "auto", a name of dpopt.METHODS, or an object: dpopt.methods.NoisySGD(steps=400)'
        )
    named = BY_NAME.get(given)
    if named is None or given == EMBEDDING:
        choices = ", ".join(name for name in BY_NAME if name != EMBEDDING)
        raise ValueError(f"there is no method {shown(given)}; choose one of {choices}")
    return Auto() if named is Auto else named()


def said(method: Method) -> dict[str, Any]:
    """What the user said of a method's options, as the compiled library reads it."""
    result: dict[str, Any] = {}
    for name, value in method.get_params(deep=False).items():
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


#: Why an estimator of other than numbers has no prediction intervals.
NO_INTERVALS = {
    "intervals": "prediction intervals are for a regression with the squared, absolute or huber loss; leave it out"
}


def asked(estimator: Any) -> tuple[str, dict[str, Any]]:
    """The method of an estimator and what is said of its options; what the estimator cannot use is refused by name, with what to take instead."""
    method = method_of(estimator.method)
    options, whose = said(method), type(estimator).__name__
    usable: frozenset[str] = estimator._usable_methods
    instead: Mapping[str, str] = estimator._options_of_others
    if method.name != "auto" and method.name not in usable:
        raise _core.PrivacyError(
            f"{whose} cannot use {type(method).__name__} ({method.name}), {_other_estimator(method.name)}"
        )
    for name in options:
        if name in instead:
            raise ValueError(f"{whose} does not use the option {name}: {instead[name]}")
        if not usable & set(_BY_NAME[name]["methods"]):
            first = _BY_NAME[name]["methods"][0]
            raise _core.PrivacyError(f"{whose} has no method with the option {name}, {_other_estimator(first)}")
    return method.name, options


def _other_estimator(method: str) -> str:
    """What a method that an estimator cannot use is of, and which estimator can."""
    if method == EMBEDDING:
        return "which is of embedding models; take EmbeddingClassifier, TwoTowerClassifier or TwoTowerRegressor"
    if method in COUNTED:
        return (
            "which keeps a given number of features; take SparseLogisticRegression or SparseLinearRegression with "
            "max_features"
        )
    return "which is of linear models that keep every feature; take LogisticRegression or LinearRegression"


__all__ = ["CATALOGUE", "COUNTED", "EMBEDDING", "LINEAR", "NO_INTERVALS", "REQUIRED", "SPARSE", "asked", "described", "method_of", "option_meant", "said"]  # fmt: skip
