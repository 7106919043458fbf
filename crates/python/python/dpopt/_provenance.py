"""Which build of the package runs."""

from __future__ import annotations

import json
from typing import Any

from . import _core


def provenance() -> dict[str, Any]:
    """The build that runs, as models and reports name it: ``version``, ``commit`` (of a release), ``features``, ``target`` and ``cpu``.

    A model's file says in the same words under ``provenance`` which build fitted it, and a report ends with it.

    >>> import dpopt
    >>> dpopt.provenance()["version"] == dpopt.__version__
    True
    """
    build: dict[str, Any] = json.loads(_core.provenance())
    return build


__all__ = ["provenance"]
