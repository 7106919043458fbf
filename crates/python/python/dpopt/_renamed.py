"""Keywords as they were called once, and where the same is said now: the one place that knows the old names (docs/decisions/0044)."""

from __future__ import annotations

#: Of columns and of units, in every constructor and function that had them.
OLD = {
    "levels": "columns=dpopt.Columns(levels=...)",
    "text": "columns=dpopt.Columns(text=...)",
    "hashed": "columns=dpopt.Columns(hashed=...)",
    "numeric": "columns=dpopt.Columns(numeric=...)",
    "ignore": "columns=dpopt.Columns(ignore=...)",
    "public_vectors": "columns=dpopt.Columns(public_vectors=...)",
    "max_rows_per_unit": "unit=dpopt.Unit(max_rows=...)",
    "n_units": "unit=dpopt.Unit(count=...)",
    "unit_clipping": "unit=dpopt.Unit(clipping=...)",
    "user_features": "towers=(user_features, item_features)",
    "item_features": "towers=(user_features, item_features)",
}
#: Those that no function with options of its own has either.
OF_UNITS = ("max_rows_per_unit", "n_units", "unit_clipping")


def new_place(name: str, takes: set[str], option: tuple[str, str] | None) -> str | None:
    """What to write for an old keyword of something that takes these parameters; `option`: the one of a method that it is, and a class that has it."""
    if name in OLD and OLD[name].split("=")[0] in takes:
        return OLD[name]
    return None if option is None or "method" not in takes else f"method=dpopt.methods.{option[1]}({option[0]}=...)"


__all__ = ["OF_UNITS", "OLD", "new_place"]
