"""What the workflows run exists: targets of the Makefile, scripts of .ci; actions are pinned, jobs end and may only read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # Dask stands on it

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands(workflow):
    """The lines of all `run` steps."""
    return [line.strip() for step in steps(workflow) for line in step.get("run", "").splitlines() if line.strip()]


def unknown(command):
    """What a command asks for that is not there, or `None`."""
    words = command.split()
    if words[0] == "make":
        missing = [w for w in words[1:] if "=" not in w and not w.startswith("-") and w not in TARGETS]
        return f"no target {', '.join(missing)} in the Makefile" if missing else None
    script = ROOT / words[0]
    if words[0].startswith(".ci/") and script.is_file():
        return None if os.name == "nt" or os.access(script, os.X_OK) else f"{words[0]} may not be executed"
    return f"neither make nor a script of .ci: {command}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists_and_may_only_read(path):
    workflow = read(path)
    asked = commands(workflow)
    assert any(command.startswith("make ") for command in asked)
    assert [why for why in map(unknown, asked) if why] == []
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] < 360, name
    for step in steps(workflow):
        assert "uses" not in step or re.fullmatch(r"[\w./-]+@v\d+\.\d+\.\d+", step["uses"]), step


def test_what_does_not_exist_is_found():
    assert unknown("make test") is None
    assert unknown("make test PYTHON=python3") is None
    assert unknown("make tset") == "no target tset in the Makefile"
    assert unknown(".ci/nothing") == "neither make nor a script of .ci: .ci/nothing"
    assert unknown("cargo test") == "neither make nor a script of .ci: cargo test"


def test_every_push_is_tested_on_three_systems_and_the_long_tests_run_by_night():
    test, slow = (read(ROOT / ".github" / "workflows" / name) for name in ("test.yml", "slow.yml"))
    # YAML reads the bare word `on` as true
    assert {"push", "pull_request"} <= set(test[True])
    assert "schedule" in slow[True]
    systems = test["jobs"]["test"]["strategy"]["matrix"]["os"]
    assert sorted(system.split("-")[0] for system in systems) == ["macos", "ubuntu", "windows"]
    assert "make test" in commands(test)
    assert "make test-slow" in commands(slow)


@pytest.mark.skipif(os.name == "nt", reason="a script is started by its first line")
def test_the_toolchain_is_the_one_that_is_promised():
    shown = subprocess.run([ROOT / ".ci" / "toolchain", "--show"], capture_output=True, text=True, check=True)
    assert f'rust-version = "{shown.stdout.strip()}"' in (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    for path in WORKFLOWS:
        assert ".ci/toolchain" in commands(read(path))


@pytest.mark.skipif(sys.platform != "linux", reason="the make of this system may not be GNU's")
def test_windows_finds_the_programs_of_the_environment():
    def plan(system):
        return subprocess.run(
            ["make", "--no-print-directory", "--dry-run", "test-python", f"OS={system}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    linux, windows = plan(""), plan("Windows_NT")
    assert ".venv/bin/python -m pytest" in linux
    assert ".venv/Scripts/python -m pytest" in windows
    assert ".venv/bin" not in windows
