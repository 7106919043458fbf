"""Accuracy and AUC of texts with and without public vectors of words, by the command line.

    python run.py DPOPT DATA OUT.tsv [--tasks sms,topics] [--epsilons .1,.5,1,4] [--splits 3] [--way NAME=FLAGS …]

DATA holds sms-spam, tinyshakespeare and wikitext-2. A way is a name and flags of `dpopt fit`, the path of public vectors among them, or the path of
another dpopt. What has been measured is in OUT already and is not measured again.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tasks import TASKS, split


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["text", "label"])
        writer.writerows((" ".join(text.split()), label) for text, label in rows)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def measure(dpopt: str, flags: list[str], train: Path, test: Path, labels: list[str], epsilon: float, place: Path):
    model = place / "model.json"
    vectors = flags[flags.index("--public-vectors") :][:2] if "--public-vectors" in flags else []
    started = time.perf_counter()
    report = place / "report.json"
    run(
        [dpopt, "fit", str(train), "--target", "label", "--text", "text", "--classes", ",".join(labels), "--epsilon",
         str(epsilon), "-o", str(model), "--report", str(report), *flags]
    )  # fmt: skip
    seconds = time.perf_counter() - started
    found = json.loads(run([dpopt, "evaluate", str(model), str(test), "--json", *vectors]))
    facts = json.loads(report.read_text())
    notes = [note for note in facts["facts"]["preparation"] if note.startswith("The encoder")]
    method = facts["candidates"][facts["chosen"]]["method"]
    return found["accuracy"], found["auc"], seconds, method, notes[0].split(": ", 1)[1] if notes else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dpopt")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--epsilons", default=".1,.5,1,4")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--way", action="append", default=[], metavar="NAME=FLAGS")
    given = parser.parse_args()
    ways = dict(way.split("=", 1) for way in given.way) or {"words": ""}
    known = set()
    if given.out.exists():
        known = {tuple(line.split("\t")[:4]) for line in given.out.read_text().splitlines()}
    with given.out.open("a") as out, tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name in given.tasks.split(","):
            texts, labels = TASKS[name](given.data)
            classes = sorted(set(labels))
            for seed in range(1, given.splits + 1):
                train, test = split(len(texts), seed)
                write(place / "train.csv", [(texts[i], labels[i]) for i in train])
                write(place / "test.csv", [(texts[i], labels[i]) for i in test])
                for epsilon in given.epsilons.split(","):
                    for way, flags in ways.items():
                        if (name, str(seed), epsilon, way) in known:
                            continue
                        own = flags.split()
                        program = own.pop(0) if own and not own[0].startswith("-") else given.dpopt
                        result = measure(
                            program, own, place / "train.csv", place / "test.csv", classes, float(epsilon), place
                        )
                        accuracy, auc, seconds, method, form = result
                        line = f"{name}\t{seed}\t{epsilon}\t{way}\t{accuracy:.4f}\t{auc:.4f}\t{seconds:.1f}\t{method}\t{form}"
                        print(line, file=out, flush=True)


if __name__ == "__main__":
    main()
