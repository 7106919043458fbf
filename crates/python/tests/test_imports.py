"""Modules of the package import each other in no circle, also where a function imports."""

import ast
import graphlib
from pathlib import Path

import dpopt
import pytest

PACKAGE = Path(dpopt.__file__).parent


def sources(package: Path) -> dict[str, tuple[str, bool]]:
    """The source of each module by its full name, and whether it is a package."""
    found = {}
    for path in package.rglob("*.py"):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if is_package else parts)] = (path.read_text(encoding="utf-8"), is_package)
    return found


def imports(name: str, source: str, is_package: bool, known: set[str]) -> set[str]:
    """The modules among `known` that a module imports anywhere. Annotations need no order: what only a type checker imports does not count."""
    tree = ast.parse(source)
    unread = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in unread:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            around = name.split(".")[: -(node.level - is_package) or None] if node.level else []
            base = ".".join([*around, *([node.module] if node.module else [])])
            # a name of a package may be a module in it
            names |= {inner if (inner := f"{base}.{alias.name}") in known else base for alias in node.names}
    return (names & known) - {name}


def graph(modules: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    # compiled: it imports none of them
    known = {*modules, "dpopt._core"}
    return {name: imports(name, source, is_package, known) for name, (source, is_package) in modules.items()}


def test_modules_import_each_other_in_no_circle():
    found = graph(sources(PACKAGE))
    # a reader that saw nothing would find no circle
    assert sum(map(len, found.values())) > 300
    graphlib.TopologicalSorter(found).prepare()


@pytest.mark.parametrize(
    "low",
    [
        "from .high import f",
        "from . import high",
        "import dpopt.high",
        "from dpopt import high",
        "def g():\n    from .high import f",
        "def g():\n    from . import high as h",
        "from .part import x",
    ],
)
def test_circles_are_seen(low):
    synthetic = {
        "dpopt": ("from .high import f", True),
        "dpopt.low": (low, False),
        "dpopt.part": ("from ..high import f", True),
        "dpopt.part.deep": ("from ..low import g", False),
        "dpopt.high": ("from .part.deep import x", False),
    }
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph(synthetic)).prepare()
    for harmless in ("from ._core import f", "if TYPE_CHECKING:\n    from .high import f", "import numpy"):
        graphlib.TopologicalSorter(graph({**synthetic, "dpopt.low": (harmless, False)})).prepare()
