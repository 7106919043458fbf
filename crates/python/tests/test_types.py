"""The type stubs of the compiled module say what it has; the package passes a type checker."""

import os
import subprocess
import sys
from pathlib import Path

import dpopt
import pytest

pytest.importorskip("mypy")
pytestmark = pytest.mark.slow


#: Each line is wrong in one way, and what a type checker says of it.
WRONG = {
    "dpopt.methods.NoisySGD(clip_nrom=1.0)": 'Unexpected keyword argument "clip_nrom" for "NoisySGD"',
    'dpopt.methods.NoisySGD(steps="many")': 'Argument "steps" to "NoisySGD" has incompatible type',
    'dpopt.methods.DPFTRL(correlation="none")': 'Argument "correlation" to "DPFTRL" has incompatible type',
    "dpopt.LogisticRegression(1.0, levels={})": 'Unexpected keyword argument "levels" for "LogisticRegression"',
    'dpopt.LogisticRegression(1.0, columns={"levels": {}})': 'Argument "columns" to "LogisticRegression" has incompatible',
    "dpopt.Unit(max_row=1)": 'Unexpected keyword argument "max_row" for "Unit"',
    "dpopt.mechanisms.gaussian_sum([1.0], 1.0, epsilon=1.0, delta=0.1, n_units=3)": 'Unexpected keyword argument "n_units"',
}
RIGHT = (
    'dpopt.LogisticRegression(1.0, method="noisy-sgd", columns=dpopt.Columns(levels={"a": [1]}), unit=dpopt.Unit(max_rows=2))',
    "dpopt.Ridge(method=dpopt.methods.Auto(steps=3), bounds=(0, 1))",
)


def run(*arguments):
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_match_the_compiled_module():
    run("mypy.stubtest", "dpopt._core", "--ignore-disjoint-bases", "--concise")


def test_the_package_passes_the_type_checker():
    run("mypy", "--config-file", str(Path(__file__).parents[3] / "pyproject.toml"), "-p", "dpopt")
    assert (Path(dpopt.__file__).parent / "py.typed").exists()


def test_type_checkers_know_every_option(tmp_path):
    path = tmp_path / "uses.py"
    path.write_text("\n".join(["import dpopt", *WRONG, *RIGHT]) + "\n", encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nignore_missing_imports = true\n", encoding="utf-8")
    # an installed package is found without a path, and mypy refuses one into site-packages
    folder = Path(dpopt.__file__).parents[1]
    path_of_mypy = {} if folder.name == "site-packages" else {"MYPYPATH": str(folder)}
    environment = {**os.environ, **path_of_mypy}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path / "cache"), str(path)],
        capture_output=True, text=True, timeout=1200, env=environment,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == len(WRONG), done.stdout + done.stderr
    for number, (error, expected) in enumerate(zip(errors, WRONG.values()), start=2):
        assert f":{number}: error: {expected}" in error
