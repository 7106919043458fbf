"""How the lines of `make bench` are timed: ours and the peer's in turn, medians; and where the programs are."""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import time
from collections.abc import Callable

from lines import Found

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
EXE = ".exe" if os.name == "nt" else ""
COMMAND = TARGET / "release" / f"dpopt{EXE}"
ACCOUNT = TARGET / "release" / "examples" / f"account{EXE}"

#: A measurement: it is timed, unless it returns its own seconds.
Work = Callable[[], object]


def seconds(work: Work) -> float:
    start = time.perf_counter()
    told = work()
    took = time.perf_counter() - start
    return told if isinstance(told, float) else took


def found(ours: list[float], peers: list[float]) -> Found:
    """Times of rounds, pair by pair."""
    cost = statistics.median(a / b for a, b in zip(ours, peers))
    return Found(statistics.median(ours), statistics.median(peers), cost)


def in_turn(ours: Work, peer: Work, rounds: int = 5, warm: bool = True) -> Found:
    """Seconds of both, one after the other: a load on the machine meets both."""
    if warm:
        ours(), peer()
    pairs = [(seconds(ours), seconds(peer)) for _ in range(rounds)]
    return found(*map(list, zip(*pairs)))


def scaled(told: Found, factor: float) -> Found:
    """Both times in another unit; their cost stays."""
    return Found(told.ours * factor, told.peer * factor, told.cost)


def rate(told: Found, megabytes: float) -> Found:
    return Found(megabytes / told.ours, megabytes / told.peer, told.cost)


def run(*command: object, **options: object) -> str:
    """What a program prints; its complaint, if it fails, is the error."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise RuntimeError(f"{pathlib.Path(str(command[0])).name} ended with {done.returncode}: {last}")
    return done.stdout


def numbers(text: str) -> dict[str, float]:
    """The lines `NAME VALUE` of a benchmark in Rust."""
    return {
        name: float(value) for name, value in (line.split() for line in text.splitlines() if len(line.split()) == 2)
    }
