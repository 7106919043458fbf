"""What was measured before (recorded.json), on which processor, and what became better or worse since."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import subprocess
from dataclasses import dataclass, field
from importlib import metadata

from lines import NAMES, TOLERANCE, Found, Line

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE / "recorded.json"
#: The packages whose versions are recorded.
PEERS = ("numpy", "scipy", "scikit-learn", "polars", "pyarrow", "dp-accounting", "opendp", "torch", "opacus")


def processor() -> str:
    """The model of the processor and how many there are: ratios of another one are not comparable."""
    told: dict[str, str] = {}
    if os.path.exists("/proc/cpuinfo"):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            told.setdefault(name.strip(), value.strip())
    model = told.get("model name") or platform.processor() or platform.machine()
    numbers = [f"{word} {told[key]}" for word, key in (("family", "cpu family"), ("model", "model")) if key in told]
    return ", ".join([model, *numbers, f"{os.cpu_count()} cores"])


def commit() -> str:
    """The commit that was measured; with a + if files differ from it."""
    git = lambda *words: subprocess.run(["git", "-C", HERE, *words], capture_output=True, text=True).stdout.strip()
    return (git("rev-parse", "--short=8", "HEAD") or "unknown") + ("+" if git("status", "--porcelain", "-uno") else "")


def versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


@dataclass
class Entry:
    """A recorded line: its numbers, and the day and commit of the run."""

    found: Found
    date: str
    commit: str


@dataclass
class Record:
    """The last recorded run, or several in parts, on one processor."""

    processor: str = ""
    note: str = ""
    peers: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Entry] = field(default_factory=dict)
    not_measured: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: pathlib.Path = RECORDED) -> Record:
        if not path.exists():
            return cls()
        told = json.loads(path.read_text())
        lines = {
            name: Entry(Found(entry["ours"], entry["peer"], entry["cost"]), entry["date"], entry["commit"])
            for name, entry in told.pop("lines").items()
        }
        return cls(lines=lines, **told)

    def write(self, path: pathlib.Path = RECORDED) -> None:
        told = dataclasses.asdict(self)
        told["lines"] = {
            name: {
                **{key: float(f"{value:.4g}") for key, value in dataclasses.asdict(entry.found).items()},
                "date": entry.date,
                "commit": entry.commit,
            }
            for name, entry in self.lines.items()
        }
        path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")

    def comparable(self) -> bool:
        return self.processor == processor()

    def with_run(self, found: dict[str, Found], not_measured: dict[str, str], note: str) -> Record:
        """This record with the lines of a run in place of those of before; on another processor none of them stays."""
        before = self if self.comparable() else Record()
        today, at = datetime.date.today().isoformat(), commit()
        lines = {**before.lines, **{name: Entry(told, today, at) for name, told in found.items()}}
        lost = {**before.not_measured, **not_measured}
        for name in not_measured:
            lines.pop(name, None)
        return Record(
            processor(),
            # what was said of lines of before goes on to hold
            note or (before.note if set(lines) - set(found) else ""),
            versions(),
            {name: lines[name] for name in NAMES if name in lines},
            {name: lost[name] for name in NAMES if name in lost and name not in lines},
        )


def regressed(found: dict[str, Found], before: Record) -> list[str]:
    """The lines whose cost grew by more than the tolerance since the record."""
    return [name for name, told in found.items() if name in before.lines and told.worse_than(before.lines[name].found)]


def shown(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def told(line: Line, found: Found, before: Record, same_processor: bool) -> str:
    """`ratio NAME VALUE (limit L)`, and after it what a person wants to know."""
    words = [f"ours {shown(found.ours)} {line.unit}, {line.peer}: {shown(found.peer)} {line.unit}", line.direction]
    if not line.within(found):
        words.append("OVER THE LIMIT" if not line.larger_is_better else "BELOW THE LIMIT")
    if line.name in before.lines:
        old = before.lines[line.name].found
        change = found.cost / old.cost - 1
        words.append(f"recorded {shown(line.value(old))}, cost beside the peer {change:+.0%}")
        if not same_processor:
            words.append("not judged: another processor")
        elif change > TOLERANCE:
            words.append("REGRESSION")
    return f"ratio {line.name} {shown(line.value(found))} (limit {line.limit:g}) {'; '.join(words)}"
