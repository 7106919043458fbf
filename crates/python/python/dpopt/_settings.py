"""Constructors that know their keywords, and groups of parameters that are objects of their own: what `method`, `columns` and `unit` take."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator

from ._reading import kind, shown
from ._renamed import OF_UNITS, OLD, new_place

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

#: What scikit-learn's estimators have, and why these have not.
WEIGHTS = {
    "class_weight": "the losses here weigh every record alike, and the noise is made for that; move the threshold on predict_proba instead",
    "sample_weight": "it multiplies what single records contribute, beyond the bound that the noise is made for",
}


class DefaultEpsilon(float):
    """The ε of an estimator that was given none: 1.0 in every respect, and known as a default in copies and other processes too."""

    def __repr__(self) -> str:
        return "1.0"

    __str__ = __repr__

    def __copy__(self) -> DefaultEpsilon:
        return self

    def __deepcopy__(self, memo: Any) -> DefaultEpsilon:
        return self

    def __reduce__(self) -> str:
        return "DEFAULT_EPSILON"


DEFAULT_EPSILON = DefaultEpsilon(1.0)


def _as_shown(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter as a signature shows it: tests of scikit-learn's conventions take plain numbers only."""
    return parameter.replace(default=1.0) if isinstance(parameter.default, DefaultEpsilon) else parameter


def knows_its_keywords(
    function: Callable[P, R], option_of: Callable[[Any, str], tuple[str, str] | None] | None = None
) -> Callable[P, R]:
    """`function`, which refuses a keyword that it does not have with what to write instead.

    Parameters
    ----------
    function
        A constructor, or any function.
    option_of
        Of the object that is made and a keyword: the option that is meant, and the class of a method that has it.
    """
    signature = inspect.signature(function)
    taken = {name for name in signature.parameters if name != "self"}
    handed_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        unknown = [name for name in kwargs if name not in taken and not (handed_on and name not in OF_UNITS)]
        if unknown and not (handed_on and option_of is not None):
            called = type(args[0]).__name__ if option_of is not None else _name_of(function)
            option = None if option_of is None else option_of(args[0], unknown[0])
            raise TypeError(refusal(called, unknown[0], taken, option))
        return function(*args, **kwargs)

    shown_as = signature.replace(parameters=[_as_shown(p) for p in signature.parameters.values()])
    setattr(checked, "__signature__", shown_as)  # noqa: B010
    return checked


def _name_of(function: Any) -> str:
    """What is called: a function, or the class of a constructor."""
    return str(function.__qualname__).removesuffix(".__init__").rpartition(".")[2]


def refusal(called: str, name: str, taken: set[str], option: tuple[str, str] | None) -> str:
    """Why a keyword is none, and what to write instead; `option`: the one of a method that is meant, and a class that has it."""
    if name in WEIGHTS:
        return f"{called} has no parameter {name}: {WEIGHTS[name]}"
    place = new_place(name, taken, option)
    if place is not None and (name in OLD or option is None or option[0] == name):
        return f"{called} has no parameter {name!r}; write {place}"
    near = [*difflib.get_close_matches(name, sorted(taken), n=1), *([] if place is None else [place])]
    return f"{called} has no parameter {shown(name)}" + (f"; did you mean {near[0]}?" if near else "")


def refuse_weights(said: Mapping[str, Any], call: str = "fit") -> None:
    """Whatever else a call of ``fit`` says; a weight per record is refused with the reason."""
    for name, value in said.items():
        if name != "sample_weight":
            raise TypeError(f"{call}() got an unexpected keyword argument {shown(name)}")
        if value is not None:
            raise ValueError(
                "sample_weight is not supported: it would scale contributions beyond the bound that the noise is made for, and a weight may itself reveal something about its record. Fit without it"
            )


def of_no_method(made: Any, name: str) -> tuple[str, str] | None:
    """The option of this name, or nearly so, of an object that takes no method: none."""
    return None


def with_known_keywords(cls: C, option_of: Callable[[Any, str], tuple[str, str] | None] = of_no_method) -> C:
    """`cls`, whose own constructor refuses a keyword that it does not have with what to write instead.

    Parameters
    ----------
    cls
        A class; one without a constructor of its own stays as it is.
    option_of
        Of the object that is made and a keyword: the option that is meant, and the class of a method that has it.
    """
    if "__init__" in cls.__dict__:
        setattr(cls, "__init__", knows_its_keywords(cls.__dict__["__init__"], option_of))  # noqa: B010
    return cls


def keep(made: Any, given: Mapping[str, Any]) -> None:
    """Stores the parameters of ``__init__`` (its ``locals()``) under their names, as scikit-learn wants them: unchanged."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(made, name, value)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    return bool(a is b or a == b)


class Settings(BaseEstimator):
    """Parameters that belong together, with ``get_params``, ``set_params`` and ``repr`` as scikit-learn's estimators have them; equal where all are."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        with_known_keywords(cls)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _same(
            self.get_params(deep=False), cast(Settings, other).get_params(deep=False)
        )

    def __hash__(self) -> int:
        # parameters may be set later
        return hash(type(self))

    def given(self) -> dict[str, Any]:
        """The parameters that say something: those that are not what they are by default."""
        defaults = {p.name: p.default for p in inspect.signature(type(self)).parameters.values()}
        return {
            name: value for name, value in self.get_params(deep=False).items() if not _same(value, defaults.get(name))
        }


class Method(Settings):
    """A method with its options; every option that is not given is chosen from public facts.

    Attributes
    ----------
    name : str
        What the method is called in ``dpopt.METHODS``, in plans and on the command line.
    """

    name: ClassVar[str]


def one_of(value: Any, expected: type[Settings], parameter: str, example: str, more: str = "") -> Any:
    """`value`, or an object that says nothing for None; anything else is refused with what to write."""
    if value is None:
        return expected()
    if isinstance(value, expected):
        return value
    if isinstance(value, type) and issubclass(value, expected):
        raise TypeError(f"{parameter} is the class {value.__name__}; give an object of it: {example}")
    raise TypeError(f"{parameter} is {kind(value)}; give {example}{more}")


__all__ = [
    "DEFAULT_EPSILON", "DefaultEpsilon", "Method", "Settings", "keep", "knows_its_keywords", "of_no_method", "one_of", "refusal", "refuse_weights",
    "with_known_keywords",
]  # fmt: skip
