"""`make bench` (benches/speed): its page is made from its record, its lines are complete, and it notices what became slower."""

import ast
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SPEED = Path(__file__).parents[3] / "benches" / "speed"


@pytest.fixture(scope="module")
def speed():
    """The modules of benches/speed that need no peer."""
    names = ("lines", "timing", "records", "page", "run")
    sys.path.insert(0, str(SPEED))
    try:
        modules = {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(SPEED))
    yield type("Speed", (), modules)
    for name in names:
        del sys.modules[name]


def record_of(speed, costs, processor=None):
    """A record with one number for each of `costs`, by the name of a line."""
    entries = {
        name: speed.records.Entry(speed.lines.Found(cost, 1.0, cost), "2026-01-01", "abc")
        for name, cost in costs.items()
    }
    return speed.records.Record(processor or speed.records.processor(), lines=entries)


def test_the_page_is_made_from_the_record(speed):
    record = speed.records.Record.read()
    assert record.lines and record.processor
    assert speed.page.PAGE.read_text() == speed.page.page(record), "python benches/speed/page.py writes it again"


def test_every_line_has_a_limit_a_resource_and_a_place_on_the_page(speed):
    text, names = speed.page.PAGE.read_text(), [line.name for line in speed.lines.LINES]
    assert len(set(names)) == len(names) > 30
    for line in speed.lines.LINES:
        assert line.limit > 0 and line.resource and line.peer and line.shows in ("over", "speed-up", "time", "rate"), (
            line
        )
        assert f"| `{line.name}` |" in text and line.resource in text
        assert line.unit in ("s", "ms", "ns", "MB/s") and (line.unit == "MB/s") <= (line.shows == "rate"), line
    recorded = speed.records.Record.read()
    assert set(recorded.lines) <= set(names)
    for name in set(names) - set(recorded.lines):
        assert f"- `{name}`: " in text, "named as not measured, with the reason"


def test_every_group_has_a_measurement_that_gives_its_lines(speed):
    for group in speed.lines.GROUPS:
        source = (SPEED / f"{group.module}.py").read_text()
        wanted = group.name.replace("-", "_") + "_group"
        body = next(f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef) and f.name == wanted)
        told = {node.value for node in ast.walk(body) if isinstance(node, ast.Constant)}
        lines = {line.name for line in speed.lines.LINES if line.group == group.name}
        assert lines and lines <= told, group.name
    assert max(group.seconds for group in speed.lines.GROUPS) <= 60
    assert {line.group for line in speed.lines.LINES} == {group.name for group in speed.lines.GROUPS}


def test_a_line_that_became_slower_is_noticed_and_one_within_the_tolerance_is_not(speed, capsys):
    before = record_of(speed, {"csv-MB-s": 1.0, "curve-ms": 1.0, "fit-over-lbfgs": 1.0})
    found = {
        "csv-MB-s": speed.lines.Found(400, 500, 1.16),
        "curve-ms": speed.lines.Found(1, 1, 1.14),
        "fit-over-lbfgs": speed.lines.Found(1, 2, 0.5),
        "classes-s": speed.lines.Found(9, 1, 9.0),
    }
    assert speed.records.regressed(found, before) == ["csv-MB-s"]
    runs = speed.run.Runs(1, {})
    runs.found = found
    assert speed.run.summary(runs, before) == 1
    assert "worse than recorded: csv-MB-s" in capsys.readouterr().out
    told = speed.records.told(speed.lines.NAMES["csv-MB-s"], found["csv-MB-s"], before, True)
    assert told.startswith("ratio csv-MB-s 400 (limit 500) ") and "REGRESSION" in told and "BELOW THE LIMIT" in told
    told = speed.records.told(speed.lines.NAMES["curve-ms"], found["curve-ms"], before, True)
    assert told.startswith("ratio curve-ms 1 (limit 20) ") and "REGRESSION" not in told


def test_the_record_of_another_processor_is_shown_and_not_judged(speed, capsys):
    before = record_of(speed, {"curve-ms": 1.0}, "another processor, 64 cores")
    runs = speed.run.Runs(1, {})
    runs.found = {"curve-ms": speed.lines.Found(9, 1, 9.0)}
    assert speed.run.summary(runs, before) == 0
    assert "shown, not judged" in capsys.readouterr().out
    assert "not judged" in speed.records.told(speed.lines.NAMES["curve-ms"], runs.found["curve-ms"], before, False)
    # and recording on this one keeps none of its lines
    assert before.with_run({}, {}, "").lines == {}


def test_speed_ups_are_larger_and_times_smaller_when_better(speed):
    found = speed.lines.Found(2.0, 10.0, 0.2)
    faster, over = speed.lines.NAMES["noise-kernel-speed-up"], speed.lines.NAMES["fit-over-lbfgs"]
    assert faster.value(found) == pytest.approx(5) and faster.within(found) and over.value(found) == 0.2
    slow = speed.lines.Found(10.0, 2.0, 5.01)
    assert not faster.within(slow) and not over.within(slow)


def test_a_record_is_read_as_it_was_written_and_takes_over_new_lines(speed, tmp_path):
    before = record_of(speed, {"curve-ms": 1.0, "classes-s": 2.0})
    after = before.with_run(
        {"curve-ms": speed.lines.Found(3, 3, 1)}, {"classes-s": "sklearn is not installed"}, "a note"
    )
    after.write(tmp_path / "recorded.json")
    again = speed.records.Record.read(tmp_path / "recorded.json")
    assert again == after and list(again.lines) == ["curve-ms"] and again.lines["curve-ms"].date > "2026-01-01"
    text = speed.page.page(again)
    assert (
        "- `classes-s`: sklearn is not installed" in text
        and "- `csv-MB-s`: never recorded" in text
        and "*a note*" in text
    )


def group_that(speed, monkeypatch, tmp_path, code, seconds=20, packages=()):
    """A group whose process runs `code`, with the lines of curve."""
    (tmp_path / "measure.py").write_text(code)
    monkeypatch.setattr(speed.run, "HERE", tmp_path)
    return speed.lines.Group("curve", "none", seconds, packages)


def test_what_cannot_be_measured_is_named_with_the_reason(speed, monkeypatch, tmp_path):
    runs = speed.run.Runs(1, {})
    line = (
        'print("a word of a package")\nprint(\'{"line": "curve-ms", "ours": 1, "peer": 2, "cost": 0.5}\', flush=True)\n'
    )
    good = group_that(speed, monkeypatch, tmp_path, line)
    assert runs.measure(good) == {"curve-ms": speed.lines.Found(1, 2, 0.5)} and not runs.not_measured
    for code, seconds, packages, why in [
        ("raise ValueError('no such method')", 20, (), "ValueError: no such method"),
        ("import time; time.sleep(30)", 1, (), "took longer than 1 s"),
        (line, 20, ("no_such_peer",), "no_such_peer is not installed"),
        ("pass", 20, (), "the measurement gave no such line"),
    ]:
        runs = speed.run.Runs(1, {})
        assert runs.measure(group_that(speed, monkeypatch, tmp_path, code, seconds, packages)) == {}
        assert runs.not_measured == {"curve-ms": why} and runs.failed == ["curve-ms"] * (not packages)
        # what broke off is a regression if it is recorded; a peer that is missing is none
        assert speed.run.summary(runs, record_of(speed, {"curve-ms": 1.0})) == (0 if packages else 1)
    assert speed.run.Runs(0, {}).measure(good) == {}


def test_what_is_worse_is_measured_once_more_and_the_better_of_both_counts(speed, monkeypatch, capsys):
    before = record_of(speed, {"curve-ms": 1.0, "fit-over-lbfgs": 1.0})
    costs = {"curve": iter([2.0, 1.1]), "fit": iter([2.0, 1.5])}
    runs = speed.run.Runs(1, {})

    def measure(group):
        name = "curve-ms" if group.name == "curve" else "fit-over-lbfgs"
        cost = next(costs[group.name])
        return {name: speed.lines.Found(cost, 1.0, cost)}

    monkeypatch.setattr(runs, "measure", measure)
    speed.run.measured(speed.lines.chosen(["curve-ms", "fit-over-lbfgs"]), runs, before)
    assert {name: found.cost for name, found in runs.found.items()} == {"curve-ms": 1.1, "fit-over-lbfgs": 1.5}
    assert speed.run.summary(runs, before) == 1
    out = capsys.readouterr().out
    assert out.count("ratio curve-ms") == 2 and "worse than recorded: fit-over-lbfgs\n" in out


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise on Windows")
def test_ctrl_c_ends_the_run_and_what_it_started(tmp_path):
    (tmp_path / "measure.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path(__file__).with_name('new').write_text(str(os.getpid()))\n"
        "pathlib.Path(__file__).with_name('new').rename(pathlib.Path(__file__).with_name('pid'))\n"
        "time.sleep(60)\n"
    )
    code = (
        f"import pathlib, sys\nsys.path.insert(0, {str(SPEED)!r})\nimport lines, run\n"
        f"run.HERE, run.chosen = pathlib.Path({str(tmp_path)!r}), lambda words: [lines.Group('curve', 'none', 50)]\n"
        "sys.argv = ['run.py', '--record']\nsys.exit(run.main())"
    )
    recorded = (SPEED / "recorded.json").read_bytes()
    # a shell's jobs in the background ignore the signal, and what they start does too
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **piped)
    try:
        for _ in range(400):
            if (tmp_path / "pid").exists():
                break
            time.sleep(0.05)
        child = int((tmp_path / "pid").read_text())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130 and "interrupted: nothing is recorded" in err and "0 lines measured" in out
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert (SPEED / "recorded.json").read_bytes() == recorded


def test_lines_are_chosen_by_words():
    ask = lambda *words: subprocess.run([sys.executable, SPEED / "run.py", *words], capture_output=True, text=True)
    told = ask("--list", "--only", "csv-MB-s", "curve")
    # a group is measured as a whole
    wanted = {"csv-MB-s", "csv-over-polars", "csv-splines-MB-s", "curve-ms"}
    assert told.returncode == 0 and {line.split()[0] for line in told.stdout.splitlines()} == wanted
    refused = ask("--only", "no-such-line")
    assert refused.returncode == 2 and "no line has no-such-line in its name" in refused.stderr
