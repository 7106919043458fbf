"""Free-threaded Python (3.13t, 3.14t), which this version does not support: said by name when dpopt is imported (docs/threads.md)."""

from __future__ import annotations

import sys
import sysconfig

_WAY_OUT = "use the interpreter without the t (python3.13 and not python3.13t)"


def is_built_for() -> bool:
    """Whether this interpreter can run without its lock."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def check() -> None:
    """Refuses to go on without the interpreter's lock.

    Raises:
        ImportError: if the compiled part cannot be loaded by a free-threaded interpreter, or the lock is off.
    """
    try:
        from . import _core  # noqa: F401 (brings the lock back, unless it was forbidden to)
    except ImportError as why:
        if not is_built_for():
            raise
        raise ImportError(
            f"this dpopt was built for Python with its global lock (abi3), and free-threaded Python cannot load it: {_WAY_OUT}, or build it here from its source, "
            f"which takes the lock back ({why})"
        ) from None
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError(
            f"dpopt does not support Python without its global lock yet, and PYTHON_GIL=0 or -X gil=0 keeps it off: leave that out, or {_WAY_OUT}"
        )


check()
