"""The type stubs of the compiled module say what it has; the package passes a type checker."""

import subprocess
import sys
from pathlib import Path

import dpopt
import pytest

pytest.importorskip("mypy")
pytestmark = pytest.mark.slow


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_match_the_compiled_module():
    run("mypy.stubtest", "dpopt._core", "--ignore-disjoint-bases", "--concise")


def test_the_package_passes_the_type_checker():
    run("mypy", "--config-file", str(Path(__file__).parents[3] / "pyproject.toml"), "-p", "dpopt")
    assert (Path(dpopt.__file__).parent / "py.typed").exists()
