"""What is published about a release: a registry entry, a checklist, a model card."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from . import _core
from ._fitted_table import FittedTable, path_of
from ._reading import kind

_FORMATS = ("registry", "checklist", "model-card")


def disclose(path: Any, format: str = "registry", facts: Mapping[str, Any] | None = None) -> str:
    """The text of what is published about a release.

    Parameters
    ----------
    path
        A file that ``dpopt verify`` reads (a model, a report or a mean in JSON), or an estimator that was fitted to a table.
    format
        ``"registry"``: YAML for the registry of deployments of differential privacy. ``"checklist"``: Markdown, by NIST SP 800-226.
        ``"model-card"``: Markdown, with what an attacker achieves at this epsilon.
    facts
        What no file says: ``name``, ``data_curators``, ``intended_use``, … (docs/disclosure.md). What is missing is marked FILL IN.

    >>> import dpopt, pandas
    >>> table = pandas.DataFrame({"age": [20, 60] * 500, "member": ["no", "yes"] * 500})
    >>> model = dpopt.LogisticRegression(epsilon=2, delta=1e-6, bounds={"age": (18, 80)}, classes=["no", "yes"]).fit(table, "member")
    >>> print(dpopt.disclose(model, "model-card", {"name": "Members"}).splitlines()[0])
    # Model card of Members
    """
    if not isinstance(format, str) or format not in _FORMATS:
        raise ValueError(f"format must be one of {', '.join(_FORMATS)}")
    if not (facts is None or isinstance(facts, Mapping)):
        raise TypeError(f"facts is {kind(facts)}; give a dict of facts by name")
    table = getattr(path, "_table", None)
    if isinstance(table, FittedTable):
        file = table.model.to_json().encode()
    else:
        file = path_of(path).read_bytes()
    said = {str(name): _plain(value) for name, value in (facts or {}).items()}
    return _core.disclose(file, format, json.dumps(said))


def _plain(value: Any) -> Any:
    """A fact as JSON has it; what is none becomes null, which is refused by name."""
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    if isinstance(value, (list, tuple)):
        return [one if isinstance(one, str) else None for one in value]
    return value if isinstance(value, str) else None


__all__ = ["disclose"]
