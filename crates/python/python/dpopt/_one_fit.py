"""One fit of an estimator at a time, and whole: a fit writes what it has learned into the estimator, attribute by attribute."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ._copies import lock

Method = TypeVar("Method", bound=Callable[..., Any])

#: What is being fitted, by identity, and by which thread of which process: a fork has none of its parent's other threads.
_FITTING: dict[int, tuple[int, int]] = {}
_LOCK = lock()


@contextmanager
def _alone(estimator: Any) -> Iterator[None]:
    at, here = id(estimator), (os.getpid(), threading.get_ident())
    within = _FITTING.get(at) == here
    try:
        with _LOCK:
            other = _FITTING.get(at)
            if other is None or other[0] != here[0]:
                _FITTING[at] = other = here
        if other != here:
            raise RuntimeError(
                f"this {type(estimator).__name__} is being fitted by another thread, and two fits at once would corrupt it; nothing was charged for this call. Fit a separate estimator in each thread: sklearn.base.clone(estimator)"
            )
        yield
    finally:
        # a fit within a fit of the same thread leaves it to the outer one
        if not within and _FITTING.get(at) == here:
            del _FITTING[at]


def one_fit(fit: Method) -> Method:
    """A method that fits: refused while another thread fits the same estimator. If it is interrupted or refused, the estimator is what it was before."""

    @functools.wraps(fit)
    def whole(self: Any, *given: Any, **said: Any) -> Any:
        with _alone(self):
            before = dict(self.__dict__)
            try:
                return fit(self, *given, **said)
            except BaseException:
                self.__dict__ = before
                raise

    return whole  # type: ignore[return-value]


def one_step(learn: Method) -> Method:
    """A method that learns more: refused while another thread is at it. What was paid for and learned before it was interrupted stays."""

    @functools.wraps(learn)
    def alone(self: Any, *given: Any, **said: Any) -> Any:
        with _alone(self):
            return learn(self, *given, **said)

    return alone  # type: ignore[return-value]


__all__ = ["one_fit", "one_step"]
