"""`make bench`: the speed of all of dpopt beside its peers, in at most ten minutes on two cores.

Prints `ratio NAME VALUE (limit L)` for each line of lines.py. Each is compared with recorded.json by its cost (ours ÷ the peer's time in the
same run); one that is more than 15 % worse is measured once more at the end. If it still is, or the measurement of a recorded line fails, the exit
status is 1. Records of another processor are shown and not judged. `--record` writes recorded.json and docs/benchmarks-speed.md. What cannot be
measured (a peer is missing, time ran out) is named with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import page
from lines import LINES, NAMES, TOLERANCE, Found, Group, chosen
from records import RECORDED, Record, processor, regressed, told
from timing import ACCOUNT, COMMAND, ROOT

HERE = pathlib.Path(__file__).resolve().parent
#: Benchmarks in Rust: the group that runs one, its crate and its name.
BENCHMARKS = {
    "pass": ("dpopt-kernel", "passes"),
    "noise": ("dpopt-draws", "noise"),
    "noise-two": ("dpopt-draws", "noise"),
}
#: Rust programs of groups; where they are missing, so is the group.
PROGRAMS = {
    "csv": COMMAND,
    "parquet": COMMAND,
    "tools": COMMAND,
    "start": COMMAND,
    "steps": ACCOUNT,
    "settings": ACCOUNT,
}
#: A child is ended with all that it started; where it can be, without a session of its own, which would have a priority of its own.
OWN_GROUP: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
#: One thread, whoever makes them.
THREADS = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def benchmarks(groups: list[Group]) -> dict[str, str]:
    """The environment that tells where the benchmarks in Rust are; they are built if need be."""
    found = {}
    for crate, name in dict.fromkeys(BENCHMARKS[group.name] for group in groups if group.name in BENCHMARKS):
        command = [os.environ.get("CARGO", "cargo"), "bench", "-q", "-p", crate, "--bench", name, "--no-run"]
        out = subprocess.run(
            [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        messages = [json.loads(line) for line in out.splitlines()]
        found[f"DPOPT_BENCH_{name.upper()}"] = next(
            m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == name
        )
    return found


class TooLong(Exception):
    """A group took longer than it may."""


class Runs:
    """Groups measured one after the other, each in a process of its own, until the time is over."""

    def __init__(self, minutes: float, environment: dict[str, str]) -> None:
        self.end = time.monotonic() + 60 * minutes
        self.environment = environment
        self.found: dict[str, Found] = {}
        self.not_measured: dict[str, str] = {}
        #: Those of them whose measurement began and broke off.
        self.failed: list[str] = []

    def left(self) -> float:
        return self.end - time.monotonic()

    def missing(self, group: Group) -> str | None:
        for package in group.packages:
            if importlib.util.find_spec(package) is None:
                return f"{package} is not installed"
        program = PROGRAMS.get(group.name)
        if program is not None and not program.exists():
            return f"{program} was not built"
        return "no time was left" if self.left() < 5 else None

    def measure(self, group: Group) -> dict[str, Found]:
        """The lines of a group that could be measured; why the others could not is kept."""
        found, why = {}, self.missing(group)
        began = why is None
        if began:
            limit = min(group.seconds, self.left())
            try:
                with child(group, self.environment, limit) as lines:
                    # a package may print words of its own
                    for line in filter(lambda line: line.startswith('{"line"'), lines):
                        entry = json.loads(line)
                        name = entry.pop("line")
                        found[name] = Found(**entry)
            except TooLong:
                why = f"took longer than {limit:.0f} s"
            except RuntimeError as error:
                why = str(error)
        for line in LINES:
            if line.group == group.name and line.name not in found and line.name not in self.found:
                self.not_measured[line.name] = why or "the measurement gave no such line"
                self.failed += [line.name] * began
        return found


@contextlib.contextmanager
def child(group: Group, environment: dict[str, str], limit: float):
    """The lines that the process of a group prints; it and all it started end with the block."""
    threads = dict.fromkeys(THREADS, str(group.threads))
    process = subprocess.Popen(
        [sys.executable, HERE / "measure.py", group.name], env={**os.environ, **threads, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **OWN_GROUP,
    )  # fmt: skip
    late = threading.Event()

    def end() -> None:
        late.set()
        kill(process)

    clock, complaints = threading.Timer(limit, end), []
    reader = threading.Thread(target=lambda: complaints.extend(process.stderr), daemon=True)
    clock.start(), reader.start()
    try:
        yield process.stdout
        process.wait()
        reader.join()
        if late.is_set():
            raise TooLong
        if process.returncode:
            raise RuntimeError((complaints or [f"ended with {process.returncode}"])[-1].strip())
    finally:
        clock.cancel()
        kill(process)


def kill(process: subprocess.Popen) -> None:
    """Ends the process and those that it started."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def show(group: Group, runs: Runs, before: Record) -> None:
    for line in LINES:
        if line.group == group.name and line.name in runs.found:
            print(told(line, runs.found[line.name], before, before.comparable()), flush=True)
        elif line.group == group.name:
            print(f"not measured {line.name}: {runs.not_measured[line.name]}", flush=True)


def measured(groups: list[Group], runs: Runs, before: Record) -> None:
    """Measures the groups, and at the end once more those that are worse than recorded: a load that passed by has gone then."""
    again = []
    for i, group in enumerate(groups):
        begun = time.monotonic()
        say(f"[{i + 1}/{len(groups)}] {group.name} (at most {group.seconds} s; {max(runs.left(), 0):.0f} s are left)")
        runs.found.update(runs.measure(group))
        show(group, runs, before)
        say(f"  {time.monotonic() - begun:.1f} s")
        if before.comparable() and regressed(
            {n: f for n, f in runs.found.items() if NAMES[n].group == group.name}, before
        ):
            again.append(group)
    for group in again:
        if runs.left() < 5:
            say(f"{group.name}: no time was left to measure it once more")
            break
        say(f"{group.name} is more than {TOLERANCE:.0%} worse than recorded: once more")
        for name, one in runs.measure(group).items():
            runs.found[name] = min(one, runs.found.get(name, one), key=lambda f: f.cost)
            runs.not_measured.pop(name, None)
        show(group, runs, before)


def summary(runs: Runs, before: Record) -> int:
    over = [name for name, found in runs.found.items() if not NAMES[name].within(found)]
    worse = regressed(runs.found, before)
    print(
        f"{len(runs.found)} lines measured, {len(runs.not_measured)} not; beyond their limits: {', '.join(over) or 'none'}"
    )
    if not before.lines:
        print("nothing is recorded yet: nothing to compare with")
    elif not before.comparable():
        print(f"the record is of {before.processor}, this is {processor()}: shown, not judged")
        worse = []
    else:
        print(f"more than {TOLERANCE:.0%} worse than recorded: {', '.join(worse) or 'none'}")
        lost = [name for name in dict.fromkeys(runs.failed) if name in before.lines and name not in runs.found]
        if lost:
            print(f"recorded, and could not be measured now: {', '.join(lost)}")
        worse += lost
    return 1 if worse else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="lines and groups whose name contains a word"
    )
    parser.add_argument("--minutes", type=float, default=10, help="what is not measured by then is left out [10]")
    parser.add_argument("--record", action="store_true", help="write recorded.json and docs/benchmarks-speed.md")
    parser.add_argument("--note", default="", help="a sentence for the record and the page")
    parser.add_argument("--list", action="store_true", help="name the lines and measure nothing")
    options = parser.parse_args()
    groups = chosen(options.only)
    if not groups:
        parser.error(f"no line has {' or '.join(options.only)} in its name; --list names them")
    if options.list:
        for group in groups:
            print(
                "\n".join(f"{line.name} ({group.name}; {line.resource})" for line in LINES if line.group == group.name)
            )
        return 0
    before = Record.read()
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    say(f"{processor()}, {load}: what else runs on the machine is in these numbers")
    runs = Runs(options.minutes, benchmarks(groups))
    try:
        measured(groups, runs, before)
    except KeyboardInterrupt:
        summary(runs, before)
        say("interrupted: nothing is recorded")
        return 130
    status = summary(runs, before)
    if options.record:
        before.with_run(runs.found, runs.not_measured, options.note).write()
        page.PAGE.write_text(page.page(Record.read()))
        print(f"wrote {RECORDED.relative_to(ROOT)} and {page.PAGE.relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
