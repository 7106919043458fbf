"""What a copy of an object, or a forked copy of the process, may do: go on with what was charged once, it may not."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any


class GoesOnOnce:
    """Releases more and more of what was charged when it was made. A copy would count by itself what is left of it and which records it is at, so there is none:
    it is neither copied nor pickled. In a forked process it refuses to go on, by itself or by the compiled session that it holds.
    """

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} is neither copied nor pickled, since a copy would use its charge a second time; pass on the object itself, or make another, which is charged separately"
        )


#: Locks that a thread of a parent may hold when it forks.
_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> Any:
    """A ``threading.Lock`` that nobody holds in a forked process, which has no thread that would give it back."""
    made = threading.Lock()
    _LOCKS.add(made)
    return made


def _let_go() -> None:
    for held in tuple(_LOCKS):
        held._at_fork_reinit()


# none on Windows
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


__all__ = ["GoesOnOnce", "lock"]
