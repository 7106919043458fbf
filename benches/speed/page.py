"""docs/benchmarks-speed.md, made of recorded.json: `python page.py` writes it again."""

from __future__ import annotations

from collections import Counter

from lines import GROUPS, LINES, TOLERANCE, Line
from records import Entry, Record, shown
from timing import ROOT

PAGE = ROOT / "docs" / "benchmarks-speed.md"

HEAD = """# How fast it is

`make bench` measures dpopt beside its peers and compares with what was recorded; this page is made of that record by `make bench RECORD=1`, never by hand. [How good the models are](benchmarks.md) is another page.
"""

HOW = """## How it is measured

- Ours and the peer's in turn, in one run, on one core and one thread each unless the line says otherwise; the numbers are medians (of the benchmarks in Rust of their fastest rounds). Fits begin with arrays in memory; the command line's include its start, reading and writing.
- The ratio is ours ÷ peer (×, smaller is better) or peer ÷ ours (× as fast, larger is better), the median over rounds. Lines in ns, ms, s or MB/s show ours alone, and their peer is there for comparisons.
- Runs are compared by the *cost*, ours ÷ the peer's time in the same run: what slows the whole machine down changes both. A line whose cost is more than {tolerance} above the recorded one is measured once more at the end; if it still is, `make bench` says so and ends with 1. A record of another processor is shown and not judged.
- *What binds* is what profiles show most of our time in (fits, statistics, releases, files, explain and curves: `perf`, 2026-11-30); of passes, sparse steps, noise, imports and networks it follows from what they do.
- A limit that is not met is a goal, not a fault: the run names it and does not fail.
- Tables, settings and data are generated; `benches/speed` has all of it. `make bench ONLY='csv noise'` measures the lines whose names contain a word, `make bench RECORD=1` records.
"""


def number(line: Line, value: float) -> str:
    """The number of a line with its unit."""
    unit = {"over": "×", "speed-up": "× as fast"}.get(line.shows, line.unit)
    return f"{shown(value)} {unit}"


def limit(line: Line) -> str:
    sign = "≥" if line.larger_is_better else "≤"
    return f"{sign} {line.limit:g}" + (f" {line.unit}" if line.shows in ("time", "rate") else "")


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def table(record: Record) -> list[str]:
    out = [row("line", "what", "beside", "ours", "theirs", "number", "limit", "met", "what binds"), row(*["---"] * 9)]
    for line in LINES:
        entry = record.lines.get(line.name)
        ours, theirs, value = ["–"] * 3
        if entry is not None:
            ours, theirs = (f"{shown(x)} {line.unit}" for x in (entry.found.ours, entry.found.peer))
            value = number(line, line.value(entry.found))
        met = "–" if entry is None else "yes" if line.within(entry.found) else "**no**"
        threads = next(group.threads for group in GROUPS if group.name == line.group)
        what = line.what if threads == 1 or "threads" in line.what else f"{line.what}, {threads} threads"
        out.append(row(f"`{line.name}`", what, line.peer, ours, theirs, value, limit(line), met, line.resource))
    return out


def when(entries: list[Entry]) -> str:
    counted = Counter((entry.date, entry.commit) for entry in entries)
    parts = [
        f"{count} {'line' if count == 1 else 'lines'} on {date} at commit {commit}"
        for (date, commit), count in sorted(counted.items())
    ]
    return "; ".join(parts)


def page(record: Record) -> str:
    out = [HEAD]
    if record.lines:
        peers = ", ".join(f"{name} {version}" for name, version in record.peers.items())
        out += [f"Recorded on {record.processor}: {when(list(record.lines.values()))}. Peers: {peers}.", ""]
    if record.note:
        out += [f"*{record.note}*", ""]
    out += table(record) + [""]
    lost = {
        line.name: record.not_measured.get(line.name, "never recorded")
        for line in LINES
        if line.name not in record.lines
    }
    if lost:
        out += ["Not measured:", "", *[f"- `{name}`: {why}" for name, why in lost.items()], ""]
    return "\n".join([*out, HOW.format(tolerance=f"{TOLERANCE:.0%}".replace("%", " %"))])


if __name__ == "__main__":
    PAGE.write_text(page(Record.read()))
