"""Questions that a peer's own test suites ask, recorded with its answers, asked of our accountant.

usage: recorded.py ACCOUNT_BINARY PAIRS.json

The recording is no part of the project: `make crosscheck PAIRS=FILE` names it, and without it these questions are not asked. Fails if an
answer of ours is below an exact value or below what a mechanism of the event is certified to attain, is refused, or is more than
0.1 % above a peer's number that is a valid bound. A peer's number below an exact or an attained value is none and is listed.
"""

import collections
import json
import math
import pathlib
import subprocess
import sys

RELATION = {"ADD_OR_REMOVE_ONE": "add-or-remove", "REPLACE_ONE": "replace-one", "REPLACE_SPECIAL": "zero-out"}
# rounding of a printed number and of the peer's own arithmetic
ROOM = 1e-9
# δ below which a peer's linear arithmetic says nothing
SMALLEST = 1e-14


def squared_shift(event, relation):
    """Σ μ² of a tree of Gaussian mechanisms, in 60 digits; None of any other."""
    import mpmath as mp

    name = event["class_name"].removesuffix("DpEvent")
    if name == "Gaussian" and event["noise_multiplier"] > 0:
        return (mp.mpf(2 if relation == "replace-one" else 1) / mp.mpf(event["noise_multiplier"])) ** 2
    if name == "NoOp":
        return mp.mpf(0)
    if name == "Composed":
        parts = [squared_shift(e, relation) for e in event["events"]]
        return None if None in parts else mp.fsum(parts)
    if name == "SelfComposed":
        one = squared_shift(event["event"], relation)
        return None if one is None else one * event["count"]
    if name == "PoissonSampled" and event["sampling_probability"] == 1:
        return squared_shift(event["event"], relation)
    return None


def exact(question):
    """The exact ε or δ of compositions of Gaussian mechanisms, else None."""
    import mpmath as mp

    mp.mp.dps = 60
    square = squared_shift(question["event"], RELATION[question["relation"]])
    if square is None or not 0 < question["at"] < math.inf:
        return None
    if square == 0:
        return 0.0
    mu = mp.sqrt(square)
    cdf = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2
    delta = lambda e: cdf(mu / 2 - e / mu) - mp.exp(e) * cdf(-mu / 2 - e / mu)
    if question["asks"] == "get_delta":
        return float(delta(mp.mpf(question["at"])))
    at = mp.mpf(question["at"])
    if at >= 1 or delta(mp.mpf(0)) <= at:
        return 0.0
    low, high = mp.mpf(0), mu * mu / 2 + mu * mp.sqrt(2 * mp.log(1 / at)) + 1
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > at else (low, middle)
    return float(high)


def task(question):
    known = "delta" if question["asks"] == "get_epsilon" else "epsilon"
    return {
        "event": question["event"],
        "relation": RELATION[question["relation"]],
        known: question["at"],
        "bracket": True,
    }


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: recorded.py ACCOUNT_BINARY PAIRS.json")
    questions = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    lines = [task(q) for q in questions]
    lines = [dict(line, accountant=name) if name else line for line in lines for name in (None, "pld")]
    run = subprocess.run(
        [sys.argv[1]], input="\n".join(map(json.dumps, lines)), capture_output=True, text=True, check=True
    )
    answers = [json.loads(x) for x in run.stdout.splitlines()]
    counts, failures, invalid = collections.Counter(), [], []
    for q, best, lattice in zip(questions, answers[::2], answers[1::2], strict=True):
        what = f"{q['asks']}({q['at']}) of {json.dumps(q['event'])[:160]} under {RELATION[q['relation']]}"
        counts["asked"] += 1
        if "error" in best:
            failures.append(f"refused: {what}: {best['error']}")
            continue
        ours = math.inf if best["upper"] is None else float(best["upper"])
        peer = math.inf if q["peer"] is None else float(q["peer"])
        value = exact(q)
        floor = max(float(a["lower"]) for a in (best, lattice, {"lower": 0.0}) if a.get("lower") is not None)
        counts["with a certified lower bound"] += floor > 0.0
        if value is not None:
            counts["with an exact value"] += 1
            floor = max(floor, value * (1 - 1e-15))
        if ours < floor * (1 - 1e-14):
            failures.append(f"below the truth: {what}: {ours}, at least {floor}")
        if peer < floor * (1 - ROOM) - SMALLEST:
            counts["peer is below the truth"] += 1
            invalid.append(f"{what}: peer {peer}, at least {floor}")
        elif ours <= peer * (1 + ROOM) + SMALLEST:
            counts["equal or tighter"] += 1
        elif ours <= peer * 1.001 + SMALLEST:
            counts["looser by at most 0.1 %"] += 1
        else:
            failures.append(f"above a valid bound: {what}: {ours}, peer {peer}")
    print(
        "recorded questions: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + f", {len(failures)} failures"
    )
    for line in invalid:
        print(f"no bound: {line}")
    for line in failures:
        print(line)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
