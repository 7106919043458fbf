"""How good private models are on a panel of tables: `python run.py --tables iris,g-map --epsilon 1 --splits odd --count 2`.

Every tool gets the same rows, the same public bounds and levels, and δ = n^-1.1. A line of JSON per fit is appended to the results file.
Constants of the library are chosen on made tables and odd splits; what is published (`page.py`) comes from even splits.
"""

import argparse
import concurrent.futures
import functools
import json
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
import time
from dataclasses import dataclass

import command_line
import encode
import panel
import peers
import references
import regret

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
EPSILONS = "0.1,0.5,1,4"
QUICK = "iris,pima,diabetes,chile,computers,g-few-rows,g-smooth-few,g-map"
SECONDS = 600
FEW_ROWS = 2_500

PRIVATE = {
    "dpopt-matrix": peers.dpopt_matrix,
    "dpopt-table": peers.dpopt_table,
    "dpopt-additive": peers.dpopt_additive,
    "dp-ebm": peers.ebm,
    "opacus-linear": peers.opacus_linear,
    "opacus-perceptron": peers.opacus_perceptron,
    "diffprivlib": peers.diffprivlib,
}
NOT_PRIVATE = {"trees": references.trees, "linear": references.linear, "baseline": references.baseline}
TOOLS = ["dpopt", *PRIVATE, *NOT_PRIVATE]


class OutOfTime(Exception):
    pass


def prepare(options):
    """Writes what the panel lacks; returns {name: facts} and the splits, and says what is absent."""
    splits = panel.chosen_splits(options.splits, options.count)
    listed = {}
    for name in options.tables:
        try:
            listed[name] = panel.kept(options.panel, name, splits, options.rebuild)
        except panel.Absent as absent:
            print(f"{name} is left out: {absent}", flush=True)
    return listed, splits


@functools.lru_cache(maxsize=2)
def columns_of(place, target):
    return encode.read(place, {"target": target})


def one(job):
    """A tool on a split of a table at one ε; several records where it was tried with several settings."""
    tool, name, about, place, epsilon, options = job
    split = int(place.name.removeprefix("split-"))
    record = {"tool": tool, "table": name, "task": about["task"], "split": split, "epsilon": epsilon}
    if options.label:
        record["label"] = options.label
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    start = time.perf_counter()
    try:
        if tool == "dpopt":
            results = [
                command_line.fit(options.binary, about, place, epsilon, limit=SECONDS) | {"run": run}
                for run in range(runs(about))
            ]
        else:
            columns = columns_of(place, about["target"])
            if tool in NOT_PRIVATE:
                results = [NOT_PRIVATE[tool](columns, about["task"], split)]
            else:
                delta = command_line.delta(about["rows"])
                noise = functools.partial(command_line.noise, options.binary, epsilon, delta)
                results = PRIVATE[tool](columns, about["task"], peers.Terms(epsilon, delta, split, noise))
    except encode.NotFor as reason:
        results = [{"not_for": str(reason)}]
    except OutOfTime:
        results = [{"failed": f"no answer within {SECONDS} s"}]
    except Exception as failed:  # noqa: BLE001 - a tool that fails is a result, and the others go on
        results = [{"failed": f"{type(failed).__name__}: {failed}".splitlines()[0][:300]}]
    finally:
        signal.alarm(0)
    for result in results:
        result.setdefault("seconds", round(time.perf_counter() - start, 3))
    return [record | result for result in results]


def work(job):
    return candidate(job) if isinstance(job, Candidate) else one(job)


@dataclass
class Candidate:
    """A method or a form that `auto` might have chosen."""

    about: dict
    place: pathlib.Path
    epsilon: float
    name: str
    method: str | None
    form: dict | None
    run: int
    options: argparse.Namespace


def regret_jobs(listed, splits, options):
    jobs = []
    for name, about in listed.items():
        for epsilon in regret.EPSILONS if name in regret.TABLES else []:
            first = options.panel / name / f"split-{splits[0]}"
            choices = regret.candidates(options.binary, about, first, epsilon)
            for split in splits:
                place = options.panel / name / f"split-{split}"
                jobs += [
                    Candidate(about, place, epsilon, n, m, f, run, options)
                    for n, (m, f) in choices.items()
                    for run in range(runs(about))
                ]
    return jobs


def candidate(job):
    record = {"tool": "regret", "table": job.place.parent.name, "split": int(job.place.name.removeprefix("split-"))}
    record |= {"epsilon": job.epsilon, "candidate": job.name, "run": job.run}
    if job.options.label:
        record["label"] = job.options.label
    start = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            where = pathlib.Path(scratch)
            record |= regret.one(
                job.options.binary, job.about, job.place, job.epsilon, job.name, job.method, job.form, where
            )
    except command_line.Failed as failed:
        record |= {"failed": str(failed)[:300], "seconds": round(time.perf_counter() - start, 3)}
    return [record]


def runs(about):
    """On few rows one draw of noise says little, and fits take a moment: ours are repeated there."""
    return 3 if about["rows"] < FEW_ROWS else 1


KEY = ("tool", "table", "split", "epsilon")


def key(job):
    """What a job's records have in the fields of `KEY`; candidates are always tried again."""
    if isinstance(job, Candidate):
        return None
    tool, name, _, place, epsilon, _ = job
    return tool, name, int(place.name.removeprefix("split-")), epsilon


def stop(*_):
    raise OutOfTime


def main():
    options = flags().parse_args()
    if options.quick:
        options.tables, options.epsilon, options.count = options.tables or QUICK, "1", 1
    options.tables = named(options.tables or (regret.TABLES if options.regret and not options.tools else None))
    options.tools = (
        TOOLS if options.tools == "all" else (options.tools or ("baseline" if options.regret else "dpopt")).split(",")
    )
    if unknown := [t for t in options.tools if t not in TOOLS]:
        sys.exit(f"no tool {unknown[0]}; there are {', '.join(TOOLS)}")
    listed, splits = prepare(options)
    epsilons = [float(e) for e in options.epsilon.split(",")]
    jobs = [
        (tool, name, about, options.panel / name / f"split-{split}", epsilon, options)
        # a split of all tables before the next split: what is there early says something about all
        for split in splits
        for name, about in listed.items()
        for tool in options.tools
        for epsilon in ([None] if tool in NOT_PRIVATE else epsilons)
    ]
    if options.regret:
        jobs += regret_jobs(listed, splits, options)
    if options.resume and options.out.exists():
        done = {tuple(json.loads(line)[k] for k in KEY) for line in options.out.read_text().splitlines()}
        jobs = [j for j in jobs if key(j) not in done]
    # one thread for each tool, so that seconds compare and two jobs are two cores; read when a new process imports NumPy
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    fresh = multiprocessing.get_context("spawn")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    records, start = [], time.perf_counter()
    with open(options.out, "a") as out, concurrent.futures.ProcessPoolExecutor(options.jobs, fresh) as pool:
        for i, done in enumerate(pool.map(work, jobs)):
            for record in done:
                out.write(json.dumps(record) + "\n")
                if not options.quiet:
                    print(shown(record), file=sys.stderr, flush=True)
            out.flush()
            records += done
            if options.quiet and (i + 1) % 100 == 0:
                print(f"{i + 1} of {len(jobs)} after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if options.regret:
        told(records)
    for tool in options.tools:
        if tool not in NOT_PRIVATE:
            table(tool, records, listed, epsilons)


def flags():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", help="names, with commas; g-* takes all that begin with g- (default: all)")
    parser.add_argument("--tools", help=f"all, or with commas among {', '.join(TOOLS)} (default: dpopt)")
    parser.add_argument("--quick", action="store_true", help=f"one split at ε = 1 of {QUICK}")
    parser.add_argument("--epsilon", help="with commas", default=EPSILONS)
    parser.add_argument("--splits", choices=["odd", "even"], default="odd", help="odd to choose by, even to report")
    parser.add_argument("--count", type=int, default=2, help="how many splits")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target" / "release" / "dpopt")
    parser.add_argument("--panel", type=pathlib.Path, default=ROOT / "target" / "utility-panel")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "utility.jsonl")
    parser.add_argument("--label", help="a word that every line of results gets, to tell versions apart")
    parser.add_argument("--jobs", type=int, default=1, help="how many tools at a time, one thread each")
    parser.add_argument("--regret", action="store_true", help="other methods and forms against the choice of auto")
    parser.add_argument("--rebuild", action="store_true", help="write the panel's files anew")
    parser.add_argument("--resume", action="store_true", help="leave out what the results file has already")
    parser.add_argument("--quiet", action="store_true", help="no line per fit")
    return parser


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
    epsilon = "" if record["epsilon"] is None else f"eps {record['epsilon']:g}"
    head = f"{record['table']:18} split {record['split']} {epsilon:8} {record['tool']:18}"
    if "score" not in record:
        return f"{head} {'failed: ' + record['failed'] if 'failed' in record else record['not_for']}"
    choice = (
        record.get("candidate") or record.get("setting") or f"{record.get('method', '')} {record.get('form') or ''}"
    )
    return f"{head} {record['score']:7.4f} {record['seconds']:7.2f} s  {choice}"


def told(records):
    baselines = {(r["table"], r["split"]): r["score"] for r in records if r["tool"] == "baseline"}
    found = regret.regrets([r for r in records if r["tool"] == "regret"], baselines)
    for (name, epsilon), v in found.items():
        print(f"{name:18} eps {epsilon:<4g} auto gains {v['auto']:.4f} of {v['gain']:.4f}, best: {v['best']}")
    print(json.dumps(regret.summary(found)))


def table(tool, records, listed, epsilons):
    """Means over splits, and the slowest fit of each table."""
    print(f"\n{tool:18}{'rows':>8}  " + "".join(f"{f'eps {e:g}':>10}" for e in epsilons) + "   slowest")
    for name, about in listed.items():
        mine = [r for r in records if r["table"] == name and r["tool"] == tool and r.get("default", True)]
        if not mine:
            continue
        line = ""
        for e in epsilons:
            scores = [r["score"] for r in mine if r["epsilon"] == e and "score" in r]
            line += f"{sum(scores) / len(scores):10.4f}" if scores else f"{'-':>10}"
        print(f"{name:18}{about['rows']:8}  {line}{max(r['seconds'] for r in mine):8.1f} s")


if __name__ == "__main__":
    main()
