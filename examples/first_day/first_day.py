"""The first day with a table of one's own: ten jobs, each by the command line and by Python, each with a score that a reader can check.

Run it with `python examples/first_day/first_day.py` (needs the package, pandas, onnx, onnxruntime and the command: `$DPOPT`, else
`target/release/dpopt`, else `dpopt` on the path). The tables are made up, from a law that is written below beside each job, so the best
possible score is known. They are written as people have them: missing cells, dates, `$1,234.50`, `45%`, labels with commas.

Printed for each job and face: the score, that of a constant (the base rate, or the mean), the best possible one (that of the law itself),
the calibration error (ten bins of equal size: mean probability against the mean of the true ones; several classes: the worst), the mean
distance of a probability from the true one, and what was spent. Then what was checked. Noise comes from a fixed seed, so that the numbers
stay as they are from run to run, and nothing is protected; only the ledger's job has secret noise, because a ledger takes no other.
"""

import argparse
import datetime
import json
import sys
import tempfile
import warnings
from pathlib import Path

import dpopt
import numpy as np
import pandas as pd
from dpopt import export
from harness import SAME, Answer, Day, distance, ends, gained, log_loss, method_in, r_squared, spent_for
from sklearn.linear_model import LinearRegression as LeastSquares


def sigmoid(score):
    """Probabilities of two classes from log-odds."""
    p = 1 / (1 + np.exp(-np.asarray(score)))
    return np.column_stack([1 - p, p])


def drawn(rng, p, classes):
    """A label for each row of probabilities."""
    return np.array(classes)[(rng.random(len(p))[:, None] > p.cumsum(axis=1)[:, :-1]).sum(axis=1)]


def missing(rng, values, share):
    """`values` with a share of the cells missing."""
    return pd.Series(values).mask(rng.random(len(values)) < share)


def binary(day):
    """Who comes back? 40,000 rows, of whom one in twenty has no hours on record; a level with a comma in its name.

    By default the plan takes curves and products of columns, which this law does not need, and a single probability is off by more than twice as much as where
    log-odds are declared to be straight in the columns. Both are calibrated.
    """
    rng, job = np.random.default_rng(1), "binary"
    classes, trades = ["no", "yes"], ["farming", "sales, retail", "nursing", "teaching"]

    def made(n):
        age, trade = rng.integers(18, 81, n), rng.choice(trades, n)
        hours = missing(rng, rng.normal(38, 10, n).clip(0, 80).round(), 0.05)
        effect = pd.Series(trade).map(dict(zip(trades, [-0.6, 0.0, 0.4, 0.8])))
        p = sigmoid(0.04 * (age - 48) + 0.05 * (hours - 38).fillna(0) + effect - 0.2)
        return {"age": age, "hours": hours, "trade": trade, "returns": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(40_000), made(10_000)
    train, holdout = day.table("binary", rows), day.table("binary_holdout", new)
    bounds = day.bounds("binary", """
        [age]
        lower = 18
        upper = 80
        [hours]
        lower = 0
        upper = 80
        [trade]
        levels = ["farming", "sales, retail", "nursing", "teaching"]
        [returns]
        levels = ["no", "yes"]
    """)  # fmt: skip
    facts = {
        "epsilon": 1.0, "bounds": {"age": (18, 80), "hours": (0, 80)}, "columns": dpopt.Columns(levels={"trade": trades}),
        "classes": classes,
    }  # fmt: skip
    answers = [
        day.command_line(train, holdout, "returns", "--epsilon", 1, "--bounds", bounds),
        day.python(dpopt.LogisticRegression(**facts), pd.read_csv(train), pd.read_csv(holdout), "returns"),
    ]
    day.classes(job, answers, new["returns"], truth, classes, gain=0.9, calibrated=0.015, apart=0.03)

    # log-odds are known to be straight in the columns: declared, and fewer weights are paid for
    job = "binary, straight"
    straight = {"knots": 0, "fine_knots": 0, "spread": False, "pairs": "none"}
    form = "\n[dpopt]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in straight.items())
    bounds = day.bounds("straight", bounds.read_text(encoding="utf-8") + form)
    answers = [
        day.command_line(train, holdout, "returns", "--epsilon", 1, "--bounds", bounds),
        day.python(
            dpopt.LogisticRegression(**facts, encoding=straight), pd.read_csv(train), pd.read_csv(holdout), "returns"
        ),
    ]
    day.classes(job, answers, new["returns"], truth, classes, calibrated=0.015, apart=0.015)


def rare_label(day):
    """Which transfers are fraud? One in forty, in 40,000 rows."""
    rng, job = np.random.default_rng(2), "rare label"
    classes, channels = ["fine", "fraud"], ["branch", "web", "phone"]

    def made(n):
        hour, channel = rng.integers(0, 24, n), rng.choice(channels, n, p=[0.3, 0.5, 0.2])
        amount = rng.lognormal(4, 1.2, n).clip(1, 10_000).round(2)
        p = sigmoid(-4.4 + 0.6 * (np.log(amount) - 4) + 1.4 * (channel == "phone") + 0.06 * (hour - 12))
        return {"hour": hour, "amount": amount, "channel": channel, "kind": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(40_000), made(20_000)
    train, holdout = day.table("rare", rows), day.table("rare_holdout", new)
    bounds = day.bounds("rare", """
        [hour]
        lower = 0
        upper = 23
        [amount]
        lower = 1
        upper = 10000
        transform = "log"
        [channel]
        levels = ["branch", "web", "phone"]
        [kind]
        levels = ["fine", "fraud"]
    """)  # fmt: skip
    model = dpopt.LogisticRegression(
        epsilon=1.0,
        bounds={"hour": (0, 23), "amount": (1, 10_000, "log")},
        columns=dpopt.Columns(levels={"channel": channels}),
        classes=classes,
    )
    answers = [
        day.command_line(train, holdout, "kind", "--epsilon", 1, "--bounds", bounds),
        day.python(model, pd.read_csv(train), pd.read_csv(holdout), "kind"),
    ]
    labels = new["kind"]
    constant = day.classes(job, answers, labels, truth, classes, gain=0.5, calibrated=0.015)
    for a in answers:
        day.check(
            job,
            f"{a.face}: mean probability over the mean true one",
            a.predicted[:, 1].mean() / truth[:, 1].mean(),
            0.8,
            1.25,
        )
    scores = json.loads(day.run("evaluate", train.with_suffix(".model.json"), holdout, "--json").stdout)
    fraud = scores["classes"][1]
    day.check(
        job,
        "evaluate: average precision of fraud over its share",
        fraud["average_precision"] * len(labels) / fraud["rows"],
        low=2,
    )
    day.check(
        job,
        "evaluate: its base rate's log loss less the one computed here",
        abs(scores["log_loss_of_base_rate"] - constant),
        high=SAME,
    )


def skewed_target(day):
    """What will a claim cost? Most little, few very much: a lognormal target in a range that is declared far too wide."""
    rng, job = np.random.default_rng(3), "skewed target"
    kinds = ["glass", "storm", "water"]

    def made(n):
        size, kind = rng.uniform(20, 200, n).round(), rng.choice(kinds, n)
        factor = pd.Series(kind).map(dict(zip(kinds, [1.0, 2.5, 1.6]))).to_numpy()
        mean = 1500 * factor * (0.4 + size / 100)
        cost = (mean * rng.lognormal(-(0.6**2) / 2, 0.6, n)).clip(0, 100_000).round(2)
        return {"size": missing(rng, size, 0.02), "kind": kind, "cost": cost}, mean

    (rows, _), (new, truth) = made(20_000), made(20_000)
    train, holdout = day.table("skewed", rows), day.table("skewed_holdout", new)
    bounds = day.bounds("skewed", """
        [size]
        lower = 20
        upper = 200
        [kind]
        levels = ["glass", "storm", "water"]
        [cost]
        lower = 0
        upper = 100000
    """)  # fmt: skip
    model = dpopt.LinearRegression(
        epsilon=1.0,
        bounds={"size": (20, 200)},
        columns=dpopt.Columns(levels={"kind": kinds}),
        target_bounds=(0, 100_000),
    )
    answers = [
        day.command_line(train, holdout, "cost", "--epsilon", 1, "--bounds", bounds),
        day.python(model, pd.read_csv(train), pd.read_csv(holdout), "cost"),
    ]
    design = lambda t: np.column_stack([t["size"].fillna(110), t["size"].isna(), *(t["kind"] == k for k in kinds)])
    plain = LeastSquares().fit(design(pd.DataFrame(rows)), rows["cost"])
    least_squares = r_squared(plain.predict(design(pd.DataFrame(new))), new["cost"])
    constant, best = r_squared(np.mean(rows["cost"]), new["cost"]), r_squared(truth, new["cost"])
    day.report(job, "R squared", answers, constant, best)
    for a in answers:
        day.check(
            job, f"{a.face}: R squared less that of least squares without privacy", a.score - least_squares, low=-0.02
        )
        day.check(
            job, f"{a.face}: mean prediction over the mean target", a.predicted.mean() / new["cost"].mean(), 0.9, 1.1
        )


def several_classes(day):
    """Which of four ways does a case end? Shares of about .5, .3, .15 and .05."""
    rng, job = np.random.default_rng(4), "several classes"
    classes, regions = ["settled", "dropped", "won", "lost"], ["north", "south", "east"]

    def made(n):
        weeks, region = rng.uniform(0, 52, n).round(), rng.choice(regions, n)
        w, south, east = (weeks - 26) / 26, region == "south", region == "east"
        scores = np.column_stack(
            [0.9 * w, -0.5 - 0.9 * w + 0.8 * south, -1.3 + 1.2 * east, -2.6 + 1.5 * w - 0.5 * south]
        )
        p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return {"weeks": weeks, "region": region, "end": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(20_000), made(10_000)
    train, holdout = day.table("several", rows), day.table("several_holdout", new)
    bounds = day.bounds("several", """
        [weeks]
        lower = 0
        upper = 52
        [region]
        levels = ["north", "south", "east"]
        [end]
        levels = ["settled", "dropped", "won", "lost"]
    """)  # fmt: skip
    model = dpopt.LogisticRegression(
        epsilon=1.0, bounds={"weeks": (0, 52)}, columns=dpopt.Columns(levels={"region": regions}), classes=classes
    )
    answers = [
        day.command_line(train, holdout, "end", "--epsilon", 1, "--bounds", bounds),
        day.python(model, pd.read_csv(train), pd.read_csv(holdout), "end"),
    ]
    day.classes(job, answers, new["end"], truth, classes, gain=0.8, calibrated=0.05, apart=0.05)
    for a in answers:
        day.check(
            job,
            f"{a.face}: largest mean probability less share",
            np.abs(a.predicted.mean(axis=0) - truth.mean(axis=0)).max(),
            high=0.02,
        )


def dates(day):
    """How long does a patient wait? Longer every year, and the longer the journey was; bounds are dates, times and spans."""
    rng, job = np.random.default_rng(5), "dates"
    first, last = np.datetime64("2015-01-01"), np.datetime64("2025-01-01")

    def made(n):
        admitted = first + rng.integers(0, int((last - first).astype(int)), n).astype("timedelta64[D]")
        seen = admitted + rng.integers(0, 24 * 3600, n).astype("timedelta64[s]")
        journey = rng.integers(0, 48 * 3600, n)
        mean = 8 + 3 * (admitted - first).astype(int) / 365.25 + 0.3 * journey / 3600
        columns = {
            "admitted": admitted.astype(str),
            "seen": missing(rng, np.char.replace(seen.astype(str), "T", " "), 0.02),
            "journey": pd.Series(pd.to_timedelta(journey, unit="s")).astype(str),
            "wait": (mean + rng.normal(0, 6, n)).clip(0, 90).round(1),
        }
        return columns, mean

    (rows, _), (new, truth) = made(20_000), made(10_000)
    train, holdout = day.table("dates", rows), day.table("dates_holdout", new)
    bounds = day.bounds("dates", """
        [admitted]
        lower = 2015-01-01
        upper = 2025-01-01
        [seen]
        lower = 2015-01-01T00:00:00
        upper = 2025-01-01T00:00:00
        [journey]
        lower = "PT0S"
        upper = "P2D"
        [wait]
        lower = 0
        upper = 90
    """)  # fmt: skip
    model = dpopt.LinearRegression(
        epsilon=1.0,
        bounds={
            "admitted": (datetime.date(2015, 1, 1), datetime.date(2025, 1, 1)),
            "seen": (pd.Timestamp("2015-01-01"), np.datetime64("2025-01-01")),
            "journey": (datetime.timedelta(0), pd.Timedelta(days=2)),
        },
        target_bounds=(0, 90),
    )
    read = lambda path: pd.read_csv(path, parse_dates=["admitted", "seen"], converters={"journey": pd.Timedelta})
    answers = [
        day.command_line(train, holdout, "wait", "--epsilon", 1, "--bounds", bounds),
        day.python(model, read(train), read(holdout), "wait"),
    ]
    constant, best = r_squared(np.mean(rows["wait"]), new["wait"]), r_squared(truth, new["wait"])
    day.report(job, "R squared", answers, constant, best)
    found = json.loads(day.run("check", train, "--target", "wait", "--epsilon", 1, "--bounds", bounds, "--json").stdout)
    day.check(job, "check: problems", len(found["problems"]), high=0)
    year = pd.Series(new["admitted"]).str[:4]
    for a in answers:
        rise = a.predicted[year == "2024"].mean() - a.predicted[year == "2015"].mean()
        day.check(job, f"{a.face}: R squared less the best possible", a.score - best, low=-0.03)
        day.check(job, f"{a.face}: days more from 2015 to 2024 (27 in truth)", rise, 25, 29)


def text(day):
    """Which messages are complaints? Six words of two hundred tell; nobody declares which."""
    rng, job = np.random.default_rng(6), "text"
    classes = ["other", "complaint"]
    telling = {"broken": 2.0, "refund": 2.2, "late": 1.6, "thanks": -2.0, "great": -1.8, "happy": -1.6}
    syllables = ["ba", "de", "fo", "gu", "ki", "lo", "ma", "ne", "po", "ru", "sa", "ti", "vo", "we"]
    plain = sorted({"".join(rng.choice(syllables, 3)) for _ in range(220)})[:194]

    def made(n):
        chosen = rng.choice(plain, (n, 8)).astype(object)
        which, known = rng.choice(list(telling), n), rng.random(n) < 0.6
        chosen[known, 3] = which[known]
        p = sigmoid(-0.8 + np.where(known, pd.Series(which).map(telling), 0.0))
        message = [" ".join(words[:4]) + ", " + " ".join(words[4:]) + "." for words in chosen]
        return {"id": np.arange(n), "message": message, "kind": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(20_000), made(10_000)
    train, holdout = day.table("text", rows), day.table("text_holdout", new)
    bounds = day.bounds("text", """
        [id]
        ignore = true
        [message]
        text = true
        [kind]
        levels = ["other", "complaint"]
    """)  # fmt: skip
    model = dpopt.LogisticRegression(
        epsilon=1.0, columns=dpopt.Columns(text=["message"], ignore=["id"]), classes=classes
    )
    answers = [
        day.command_line(train, holdout, "kind", "--epsilon", 1, "--bounds", bounds),
        day.python(model, pd.read_csv(train), pd.read_csv(holdout), "kind"),
    ]
    day.classes(job, answers, new["kind"], truth, classes, gain=0.5, calibrated=0.05)
    # what one word changes in a message of words that say nothing
    sentence = " ".join(plain[:7])
    probes = day.table("text_probes", {"id": 0, "message": [f"{sentence} {w}" for w in [plain[7], *telling]]})
    written = probes.with_suffix(".predictions.csv")
    day.run("predict", train.with_suffix(".model.json"), probes, "-o", written)
    by_command = pd.read_csv(written)["p(complaint)"].to_numpy()
    by_python = model.predict_proba(pd.read_csv(probes))[:, list(model.classes_).index("complaint")]
    for face, p in (("command line", by_command), ("Python", by_python)):
        moved = (p[1:] - p[0]) * np.sign(list(telling.values()))
        day.check(
            job,
            f"{face}: words of six that move the probability by .05 or more, the right way",
            (moved >= 0.05).sum(),
            low=6,
        )


def persons(day):
    """Which visits end in a fall? One in eleven; 3,000 persons with 2 to 14 visits each, and persons are protected, not visits."""
    rng, job = np.random.default_rng(7), "persons"
    classes, wards = ["no", "yes"], ["day", "short", "long"]

    def made(people):
        person = np.repeat([f"P{i:05d}" for i in rng.permutation(people)], rng.integers(2, 15, people))
        age = np.repeat(rng.integers(40, 96, people), pd.Series(person).groupby(person, sort=False).size())
        ward, steady = rng.choice(wards, len(person)), rng.uniform(0, 10, len(person)).round(1)
        p = sigmoid(-3.2 + 0.05 * (age - 68) - 0.25 * (steady - 5) + 0.9 * (ward == "long"))
        return {"person": person, "age": age, "ward": ward, "steady": steady, "fall": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(3_000), made(2_000)
    train, holdout = day.table("persons", rows), day.table("persons_holdout", new)
    bounds = day.bounds("persons", """
        [age]
        lower = 40
        upper = 95
        [ward]
        levels = ["day", "short", "long"]
        [steady]
        lower = 0
        upper = 10
        [fall]
        levels = ["no", "yes"]
    """)  # fmt: skip
    model = dpopt.LogisticRegression(
        epsilon=1.0,
        bounds={"age": (40, 95), "steady": (0, 10)},
        columns=dpopt.Columns(levels={"ward": wards}),
        classes=classes,
    )
    answers = [
        day.command_line(train, holdout, "fall", "--epsilon", 1, "--bounds", bounds, "--unit", "person"),
        day.python(model, pd.read_csv(train), pd.read_csv(holdout), "fall", units="person"),
    ]
    day.classes(job, answers, new["fall"], truth, classes, gain=0.3, calibrated=0.05)
    stated = json.loads(train.with_suffix(".model.json").read_text(encoding="utf-8"))["guarantee"]
    day.check(job, "command line: the guarantee is per person", "person" in json.dumps(stated), low=1)
    day.check(job, "Python: the guarantee is per person", "per person" in str(model.privacy_), low=1)


def percent_and_currency(day):
    """What is the fee? Amounts as spreadsheets show them: `$1,234.50`, `(120.00)`, `45%`; the same table in plain numbers has the same model."""
    rng, job = np.random.default_rng(8), "percent and currency"

    def made(n):
        turnover, rate, balance = (
            rng.uniform(0, 20_000, n).round(2),
            rng.integers(0, 101, n),
            rng.uniform(-2000, 2000, n).round(2),
        )
        mean = 40 + 0.03 * turnover + 2.0 * rate + 0.1 * balance
        fee = (mean + rng.normal(0, 60, n)).clip(0, 2000).round(2)
        gone = rng.random(n) < 0.02
        mean = np.where(gone, 40 + 0.03 * turnover + 2.0 * 50 + 0.1 * balance, mean)
        plain = {
            "turnover": turnover,
            "rate": pd.Series(rate).astype("Int64").mask(gone),
            "balance": balance,
            "fee": fee,
        }
        shown = {
            "turnover": [f"${v:,.2f}" for v in turnover],
            "rate": pd.Series([f"{v}%" for v in rate]).mask(gone),
            "balance": [f"{v:,.2f}" if v >= 0 else f"({-v:,.2f})" for v in balance],
            "fee": [f"${v:,.2f}" for v in fee],
        }
        return plain, shown, mean

    (plain, rows, _), (new, shown, truth) = made(20_000), made(10_000)
    train, holdout = day.table("currency", rows), day.table("currency_holdout", shown)
    plain_train, plain_holdout = day.table("plain", plain), day.table("plain_holdout", new)
    bounds = day.bounds("currency", """
        [turnover]
        lower = 0
        upper = 20000
        [rate]
        lower = 0
        upper = 100
        [balance]
        lower = -2000
        upper = 2000
        [fee]
        lower = 0
        upper = 2000
    """)  # fmt: skip
    facts = {
        "epsilon": 1.0,
        "bounds": {"turnover": (0, 20_000), "rate": (0, 100), "balance": (-2000, 2000)},
        "target_bounds": (0, 2000),
    }
    flags = ["fee", "--epsilon", 1, "--bounds", bounds]
    by_command = day.command_line(train, holdout, *flags)
    model = dpopt.LinearRegression(**facts, insecure_seed=day.seed)
    predicted = model.fit(pd.read_csv(train), "fee").predict(pd.read_csv(holdout))
    by_python = Answer(
        "Python", model.plan_.method, model.privacy_.epsilon, predicted, r_squared(predicted, new["fee"])
    )
    constant, best = r_squared(np.mean(plain["fee"]), new["fee"]), r_squared(truth, new["fee"])
    day.report(job, "R squared", [by_command, by_python], constant, best)
    of_plain = {
        "command line": (by_command, day.command_line(plain_train, plain_holdout, *flags)),
        "Python": (by_python, day.python(dpopt.LinearRegression(**facts), pd.read_csv(plain_train), pd.read_csv(plain_holdout), "fee")),
    }  # fmt: skip
    for face, (a, b) in of_plain.items():
        day.check(
            job,
            f"{face}: largest difference from the table in plain numbers",
            distance(a.predicted, b.predicted),
            high=SAME,
        )
        day.check(job, f"{face}: R squared less the best possible", a.score - best, low=-0.03)
    found = json.loads(day.run("check", train, "--target", *flags, "--json").stdout)
    day.check(job, "check: problems", len(found["problems"]), high=0)


def ledger(day):
    """One budget for a table: a model and a mean fit in, another model does not, and its refusal costs nothing. Secret noise."""
    rng, job = np.random.default_rng(9), "ledger"
    classes = ["no", "yes"]

    def made(n):
        age = rng.integers(18, 81, n)
        p = sigmoid(0.08 * (age - 45))
        return {"age": age, "returns": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(20_000), made(10_000)
    train, holdout = day.table("ledger", rows), day.table("ledger_holdout", new)
    bounds = day.bounds("ledger", """
        [age]
        lower = 18
        upper = 80
        [returns]
        levels = ["no", "yes"]
    """)  # fmt: skip
    labels = new["returns"]
    constant, best = ends(labels, truth, classes)
    by_command, by_python = day.folder / "by_command.jsonl", day.folder / "by_python.jsonl"

    # by the command line: the totals are given once and stand in the file
    fit = ["fit", train, "--target", "returns", "--epsilon", 0.5, "--bounds", bounds, "--ledger", by_command]
    first, mean = train.with_suffix(".model.json"), day.folder / "mean.json"
    printed = day.run(*fit, "--total-epsilon", 1, "--total-delta", 1e-4, "-o", first).stdout
    moment = ["--moment", "2:60", "--confidence", 0.999999]
    day.run("mean", train, "--of", "age", "--epsilon", 0.3, *moment, "--ledger", by_command, "-o", mean)
    before = by_command.read_bytes()
    third = day.folder / "third.json"
    refused = day.run(*fit, "-o", third, code=2)
    day.check(job, "command line: the refusal names what is left", "is left" in refused.stderr, low=1)
    day.check(
        job, "command line: bytes of the ledger that the refusal changed", by_command.read_bytes() != before, high=0
    )
    day.check(job, "command line: files that it left", third.exists(), high=0)
    day.run("ledger", by_command, "--verify", first, mean)
    scores = json.loads(day.run("evaluate", first, holdout, "--json").stdout)
    written = day.folder / "ledger.predictions.csv"
    day.run("predict", first, holdout, "-o", written)
    predicted = pd.read_csv(written).filter(like="p(").to_numpy()
    one = Answer("command line", method_in(printed), spent_for(first), predicted, scores["log_loss"])
    intervals = {"command line": json.loads(mean.read_text(encoding="utf-8"))["columns"][0]["interval"]}

    # by Python: the same kind of file
    budget = dpopt.Ledger(epsilon=1.0, delta=1e-4, path=by_python)
    facts = {"epsilon": 0.5, "bounds": {"age": (18, 80)}, "classes": classes, "budget": budget}
    table, new_table = pd.read_csv(train), pd.read_csv(holdout)
    model = dpopt.LogisticRegression(**facts).fit(table, "returns")
    estimate = dpopt.HeavyTailedMean(epsilon=0.3, moment=(2, 60), confidence=0.999999, budget=budget).fit(
        table[["age"]]
    )
    before, error = by_python.read_bytes(), None
    try:
        dpopt.LogisticRegression(**facts).fit(table, "returns")
    except dpopt.BudgetExceeded as refused:
        error = refused
    day.check(job, "Python: BudgetExceeded names what is left", "is left" in str(error), low=1)
    day.check(job, "Python: bytes of the ledger that the refusal changed", by_python.read_bytes() != before, high=0)
    predicted = model.predict_proba(new_table)
    other = Answer(
        "Python", model.plan_.method, model.privacy_.epsilon, predicted, log_loss(predicted, labels, classes)
    )
    intervals["Python"] = estimate.confidence_interval_[0]

    # noise is new in every run: of twenty the score had a standard deviation of .0005, whose fortyfold is allowed here. What a model loses by normal
    # noise is a sum of squares of normal numbers, at worst of one, and that is so far off with probability below 1e-12; the interval is missed by the
    # noise of a mean with probability below 1e-20
    day.check(job, "both faces: difference of the scores", abs(one.score - other.score), high=0.02)
    age = np.mean(rows["age"])
    for a, path in ((one, by_command), (other, by_python)):
        day.line(job, "log loss", a, constant, best, truth)
        day.check(job, f"{a.face}: share of the possible gain in log loss", gained(a.score, constant, best), low=0.7)
        low, high = intervals[a.face]
        day.check(job, f"{a.face}: the mean age within its interval", low <= age <= high, low=1)
        spent = json.loads(day.run("ledger", path, "--json").stdout)
        day.check(job, f"{a.face}: charges", len(spent["charges"]), 2, 2)
        day.check(
            job,
            f"{a.face}: sum of what was asked for",
            sum(c["epsilon"] for c in spent["charges"]),
            0.8 - SAME,
            0.8 + SAME,
        )
        day.check(job, f"{a.face}: spent, as the ledger adds up, of epsilon 1", spent["spent_epsilon"], 0, 1)


def exports(day):
    """Probabilities outside of dpopt: a table's model as ONNX with its encoder inside, a matrix's as scikit-learn object and ONNX."""
    import onnxruntime

    rng, job = np.random.default_rng(10), "export"
    classes, plans = ["stays", "leaves"], ["free", "basic", "pro"]

    def made(n):
        months, calls = rng.integers(0, 61, n), missing(rng, rng.poisson(2, n), 0.05)
        plan = rng.choice(plans, n)
        p = sigmoid(-0.6 - 0.04 * (months - 30) + 0.5 * (calls - 2).fillna(0) - 0.9 * (plan == "pro"))
        return {"months": months, "calls": calls, "plan": plan, "next": drawn(rng, p, classes)}, p

    (rows, _), (new, truth) = made(20_000), made(10_000)
    train, holdout = day.table("export", rows), day.table("export_holdout", new)
    bounds = day.bounds("export", """
        [months]
        lower = 0
        upper = 60
        [calls]
        lower = 0
        upper = 20
        [plan]
        levels = ["free", "basic", "pro"]
        [next]
        levels = ["stays", "leaves"]
    """)  # fmt: skip
    model = dpopt.LogisticRegression(
        epsilon=1.0,
        bounds={"months": (0, 60), "calls": (0, 20)},
        columns=dpopt.Columns(levels={"plan": plans}),
        classes=classes,
    )
    table = pd.read_csv(holdout)
    answers = [
        day.command_line(train, holdout, "next", "--epsilon", 1, "--bounds", bounds),
        day.python(model, pd.read_csv(train), table, "next"),
    ]
    day.classes(job, answers, new["next"], truth, classes, gain=0.8, calibrated=0.03)

    def of_onnx(fitted, feeds, name):
        path = day.folder / f"{name}.onnx"
        export.to_onnx(fitted, path)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        given = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        return given["probabilities"][:, [list(fitted.classes_).index(c) for c in classes]]

    feeds = {name: table[name].to_numpy(float).reshape(-1, 1) for name in ("months", "calls")}
    feeds["plan"] = table["plan"].to_numpy(object).reshape(-1, 1)
    of_file = dpopt.load(train.with_suffix(".model.json"))
    for a, fitted in zip(answers, (of_file, model)):
        found = of_onnx(fitted, feeds, a.face.replace(" ", "_"))
        day.check(
            job, f"{a.face}: ONNX, largest difference of a probability", np.abs(found - a.predicted).max(), high=1e-6
        )

    # a matrix as it is: what Python fits on numbers goes to scikit-learn too, and its file to the command line
    matrix = lambda t: np.column_stack([t["months"] / 60, t["calls"].fillna(2) / 20, t["plan"] == "pro"]).astype(float)
    X, holdout_X = matrix(pd.read_csv(train)), matrix(table)
    facts = {"bounds": (0, 1), "encoding": None, "classes": classes}
    of_matrix = dpopt.LogisticRegression(epsilon=1.0, **facts, insecure_seed=day.seed)
    of_matrix.fit(X, rows["next"])
    predicted = of_matrix.predict_proba(holdout_X)
    day.check(
        job,
        "matrix: scikit-learn, largest difference of a probability",
        np.abs(export.to_sklearn(of_matrix).predict_proba(holdout_X) - predicted).max(),
        high=1e-6,
    )
    in_order = predicted[:, [list(of_matrix.classes_).index(c) for c in classes]]
    day.check(
        job,
        "matrix: ONNX, largest difference of a probability",
        np.abs(of_onnx(of_matrix, {"X": holdout_X}, "matrix") - in_order).max(),
        high=1e-6,
    )


JOBS = (binary, rare_label, skewed_target, several_classes, dates, text, persons, percent_and_currency, ledger, exports)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("jobs", nargs="*", help=f"some of {', '.join(j.__name__ for j in JOBS)}; all unless given")
    arguments.add_argument("--seed", type=int, default=1, help="seed of the noise")
    arguments.add_argument("--quiet", action="store_true", help="of the checks show those that failed")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", dpopt.PrivacyWarning)
    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder), given.seed)
        for job in JOBS:
            if not given.jobs or job.__name__ in given.jobs:
                job(day)
    heads = ("job", "face", "method", "score", "", "constant", "best", "calibration", "|p-truth|", "epsilon")
    line = "{:<20}  {:<12}  {:<22}  {:<9}  {:>7}  {:>8}  {:>7}  {:>11}  {:>9}  {:>7}"
    print(line.format(*heads))
    for row in day.rows:
        print(line.format(*row[:4], *("" if np.isnan(v) else f"{v:.4f}" for v in row[4:])))
    print()
    for job, what, value, low, high, holds in day.checks:
        if not (holds and given.quiet):
            ends = (
                f"at least {low:.6g}"
                if high == np.inf
                else f"at most {high:.6g}"
                if low == -np.inf
                else f"{low:.6g} to {high:.6g}"
            )
            print(f"{'holds' if holds else 'FAILS'}  {job}: {what}: {value:.6g} ({ends})")
    failed = sum(not check[-1] for check in day.checks)
    print(f"\n{len(day.checks)} checks, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
