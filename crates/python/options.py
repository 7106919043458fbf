"""Writes the classes of methods with their options, from the compiled library's descriptions: `make options`."""

import re
import textwrap
from pathlib import Path

from dpopt import _core, _options

HERE = Path(__file__).parent
TARGET = HERE / "python" / "dpopt" / "methods.py"
#: The table of methods that `dpopt help options --markdown` writes says what each of them does.
TABLE = HERE.parents[1] / "docs" / "methods" / "options.md"
TYPES = {
    "real": "float | None",
    "whole": "int | None",
    "flag": "bool",
    "reals": "ArrayLike | None",
    "norm": "str | None",
}
IN_WORDS = {"real": "float", "whole": "int", "flag": "bool", "reals": "array", "norm": "str"}
WORDS = {
    "sgd": "SGD", "dp": "DP", "pdp": "PDP", "ftrl": "FTRL", "adam": "Adam", "adagrad": "AdaGrad", "pagan": "PAGAN", "pasan": "PASAN",
    "gd": "GD", "svrg": "SVRG", "scsg": "SCSG",
}  # fmt: skip
#: Of a class's documentation; beyond it what is in another class is not said again.
MAX_WORDS = 380
#: What `Auto` has, in one line each.
AUTO = '''class Auto(Method):
    """The best certified method of those that have all options that are given; ``method="auto"`` is the same without any.

    Each option is described in the class of a method that has it: most in :class:`NoisySGD`, :class:`DPAdam` and :class:`ObjectivePerturbation`.
    Options that the estimator's methods do not have are refused by name.

    Parameters
    ----------
'''


def class_name(method):
    """A method's name as a class, in the field's way: hard thresholding is what "ht" stands for."""
    words = method.split("-")
    if words[-1] == "ht":
        return f"HardThresholding{WORDS[words[1]]}"
    return "".join(WORDS.get(word, word.capitalize()) for word in words)


def kind(option):
    if option["form"] == "words":
        return "Literal[" + ", ".join(f'"{word}"' for word, _ in option["words"]) + "] | None"
    return TYPES[option["form"]]


def in_words(option):
    if option["form"] == "words":
        return "{" + ", ".join(f'"{word}"' for word, _ in option["words"]) + "}, optional"
    return f"{IN_WORDS[option['form']]}, " + ("default False" if option["form"] == "flag" else "optional")


def default(option):
    return "False" if option["form"] == "flag" else "None"


def wrapped(text, indent):
    return textwrap.fill(
        text, 150, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def constructor(options):
    lines = ["    def __init__(", "        self,", "        *,"]
    lines += [f"        {o['name']}: {kind(o)} = {default(o)}," for o in options]
    return [*lines, "    ) -> None:", *[f"        self.{o['name']} = {o['name']}" for o in options]]


def sentence(text):
    return (text[0].upper() if text[0].isascii() else text[0]) + text[1:]


def documented(options, described=()):
    lines = ["    Parameters", "    ----------"]
    for option in options:
        text = (
            "As in :class:`NoisySGD`." if option["name"] in described else sentence(_options.described(option["name"]))
        )
        lines += [f"    {option['name']} : {in_words(option)}", wrapped(text, "        ")]
    return lines


def of_method(method, what, options):
    lines = [f"class {class_name(method)}(Method):", wrapped(f'"""``"{method}"``. {sentence(what)}.', "    "), ""]
    if not options:
        return [lines[0], lines[1] + '"""', "", f'    name: ClassVar[str] = "{method}"']
    parameters = documented(options)
    if len(" ".join([*lines, *parameters]).split()) > MAX_WORDS:
        parameters = documented(options, [o["name"] for o in options if "noisy-sgd" in o["methods"]])
    return [*lines, *parameters, '    """', "", f'    name: ClassVar[str] = "{method}"', "", *constructor(options)]


def auto(options):
    lines = AUTO.splitlines()
    lines += [f"    {option['name']} : {in_words(option)}" for option in options]
    return [*lines, '    """', "", '    name: ClassVar[str] = "auto"', "", *constructor(options)]


def text():
    summaries = dict(
        re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (?:`| \|$)", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    catalogue = [option for option in _options.CATALOGUE if option["name"] != _options.REQUIRED]
    methods = [*_core.METHODS, _options.EMBEDDING]
    classes = {method: class_name(method) for method in methods}
    lines = [
        '"""Methods with their options, as objects: what ``method=`` of an estimator takes beside a name.',
        "",
        ">>> import dpopt",
        '>>> model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, method=dpopt.methods.NoisySGD(steps=400, clip_norm=1.0))',
        ">>> model.set_params(method__steps=100).method",
        "NoisySGD(clip_norm=1.0, steps=100)",
        "",
        "An option that is not given is chosen from public facts. Made by `make options` from the descriptions that stand with the methods.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import ClassVar, Literal",
        "",
        "from numpy.typing import ArrayLike",
        "",
        "from ._settings import Method",
        "", "", *auto(catalogue),
    ]  # fmt: skip
    for method in methods:
        own = [option for option in catalogue if method in option["methods"]]
        lines += ["", "", *of_method(method, summaries[method], own)]
    lines += ["", "", "#: Every class by the name of its method.", "BY_NAME: dict[str, type[Method]] = {"]
    lines += [f'    "{name}": {made},' for name, made in {"auto": "Auto", **classes}.items()]
    lines += ["}", "", "__all__ = ["]
    lines += [f'    "{name}",' for name in sorted(["Auto", "BY_NAME", "Method", *classes.values()])]
    return "\n".join([*lines, "]"]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
