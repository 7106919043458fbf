"""Writes the keywords of estimators for type checkers, from the compiled library's descriptions: `make options`."""

from pathlib import Path

from dpopt import _options

TARGET = Path(__file__).parent / "python" / "dpopt" / "_keywords.py"
TYPES = {
    "real": "float | None",
    "whole": "int | None",
    "flag": "bool",
    "reals": "ArrayLike | None",
    "norm": "str | None",
}
#: A parameter of its own, which sparse models cannot do without.
REQUIRED = "max_features"
FAMILIES = {
    "LinearOptions": (_options.LINEAR_OPTIONS, "methods that use all features"),
    "SparseOptions": (_options.SPARSE_OPTIONS, "methods that keep few features"),
    "EmbeddingOptions": (_options.EMBEDDING_OPTIONS, "embedding models"),
}


def kind(option):
    if option["form"] == "words":
        return "Literal[" + ", ".join(f'"{word}"' for word, _ in option["words"]) + "] | None"
    return TYPES[option["form"]]


def text():
    lines = [
        '"""Made by `make options` from the descriptions that stand with the methods: their options, as type checkers read them."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Literal, TypedDict",
        "",
        "from numpy.typing import ArrayLike",
    ]
    by_name = {option["name"]: option for option in _options.CATALOGUE}
    for family, (names, whose) in FAMILIES.items():
        lines += ["", "", f"class {family}(TypedDict, total=False):", f'    """Options of {whose}."""', ""]
        lines += [f"    {name}: {kind(by_name[name])}" for name in names if name != REQUIRED]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
