"""How good private models are on a panel of tables: `python run.py --tables iris,g-map --epsilon 1 --splits even --count 2`.

Every tool gets the same rows, the same public bounds and levels, and δ = n^-1.1. A line of JSON per fit is appended to the results file.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys
import time

import command_line
import panel

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
EPSILONS = [0.1, 0.5, 1.0, 4.0]


def prepare(options):
    """Writes what the panel lacks; returns {name: facts}, and says what is absent."""
    splits = panel.chosen_splits(options.splits, options.count)
    listed = {}
    for name in options.tables:
        made = [options.panel / name / f"split-{s}" / "bounds.toml" for s in splits]
        line = options.panel / name / "about.json"
        try:
            if all(p.exists() for p in made) and line.exists() and not options.rebuild:
                listed[name] = json.loads(line.read_text())
            else:
                listed[name] = panel.build(options.panel, name, splits)
                line.write_text(json.dumps(listed[name]) + "\n")
        except panel.Absent as absent:
            print(f"{name} is left out: {absent}", flush=True)
    return listed, splits


def one(job):
    """A cell: a tool on a split of a table at one ε."""
    tool, name, about, place, split, epsilon, binary = job
    record = {"tool": tool, "table": name, "task": about["task"], "split": split, "epsilon": epsilon}
    start = time.perf_counter()
    try:
        record |= command_line.fit(binary, about, place, epsilon)
    except command_line.Failed as failed:
        record |= {"failed": str(failed), "seconds": round(time.perf_counter() - start, 3)}
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", help="names, with commas; a prefix with * takes all that begin so (all)")
    parser.add_argument("--epsilon", help="with commas", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--splits", choices=["odd", "even"], default="odd", help="odd to choose by, even to report")
    parser.add_argument("--count", type=int, default=2, help="how many splits")
    parser.add_argument("--binary", default=ROOT / "target" / "release" / "dpopt")
    parser.add_argument("--panel", type=pathlib.Path, default=ROOT / "target" / "utility-panel")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "utility.jsonl")
    parser.add_argument("--label", help="a word that every line of results gets, to tell versions apart")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rebuild", action="store_true", help="write the panel's files anew")
    options = parser.parse_args()
    options.tables = named(options.tables)
    listed, splits = prepare(options)
    jobs = [
        ("dpopt", name, about, options.panel / name / f"split-{split}", split, float(epsilon), options.binary)
        for name, about in listed.items()
        for epsilon in options.epsilon.split(",")
        for split in splits
    ]
    records = []
    with open(options.out, "a") as out, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for record in pool.map(one, jobs):
            if options.label:
                record["label"] = options.label
            records.append(record)
            out.write(json.dumps(record) + "\n")
            out.flush()
            print(shown(record), file=sys.stderr, flush=True)
    table(records, listed, options.epsilon.split(","))


def named(text):
    if not text:
        return panel.NAMES
    chosen = []
    for word in text.split(","):
        found = [n for n in panel.NAMES if n == word or word.endswith("*") and n.startswith(word[:-1])]
        if not found:
            sys.exit(f"no table {word}; there are {', '.join(panel.NAMES)}")
        chosen += found
    return chosen


def shown(record):
    head = f"{record['table']:18} split {record['split']} eps {record['epsilon']:<4} {record['tool']:10}"
    if "failed" in record:
        return f"{head} failed: {record['failed']}"
    return f"{head} {record['score']:.4f} {record['seconds']:7.2f} s {record.get('method', '')} {record.get('form') or ''}"


def table(records, listed, epsilons):
    """Means over splits, and the slowest fit of each table."""
    print(f"{'table':18}{'rows':>8}  " + "".join(f"{'eps ' + e:>10}" for e in epsilons) + "   slowest")
    for name, about in listed.items():
        mine = [r for r in records if r["table"] == name]
        line = ""
        for e in epsilons:
            scores = [r["score"] for r in mine if r["epsilon"] == float(e) and "score" in r]
            line += f"{sum(scores) / len(scores):10.4f}" if scores else f"{'failed':>10}"
        print(f"{name:18}{about['rows']:8}  {line}{max(r['seconds'] for r in mine):8.1f} s")


if __name__ == "__main__":
    main()
