"""The first day with one's own table: the ten jobs of examples/first_day, by command line and by Python, with all that they check."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "first_day" / "first_day.py"


def loaded():
    """The script as a module, beside which its harness lies."""
    sys.path.insert(0, str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("first_day", SCRIPT)
    module = sys.modules["first_day"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


first_day = loaded()


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
@pytest.mark.parametrize("job", first_day.JOBS, ids=lambda job: job.__name__)
def test_job(job, tmp_path):
    day = first_day.Day(tmp_path)
    job(day)
    assert {row[1] for row in day.rows} == {"command line", "Python"}
    assert {face for face in ("command line", "Python") for check in day.checks if check[1].startswith(face)} == {
        "command line",
        "Python",
    }
    failed = [
        f"{what}: {value:.6g}, not in {low:.6g} to {high:.6g}" for _, what, value, low, high, ok in day.checks if not ok
    ]
    assert not failed, "\n".join(failed)


def test_there_are_ten():
    assert len(set(first_day.JOBS)) == 10


def test_a_check_fails_outside_of_its_ends(tmp_path):
    day = first_day.Day(tmp_path)
    for value in (0.1, 0.3, 0.5, float("nan")):
        day.check("job", "a number", value, 0.2, 0.4)
    assert [check[-1] for check in day.checks] == [False, True, False, False]


def test_a_command_that_ends_otherwise_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="exit code 2"):
        first_day.Day(tmp_path).run("predict", "no such model", "no such table")


def test_the_script_prints_both_faces():
    done = subprocess.run([sys.executable, str(SCRIPT), "rare_label"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "command line" in done.stdout and "Python" in done.stdout and done.stdout.endswith(" 0 failed\n")
