"""docs/benchmarks.md and docs/images/utility.svg from the results of `run.py`, and the lines `ratio NAME VALUE`."""

import argparse
import json
import pathlib
import statistics

import panel
import picture
import regret
from scores import FLOOR, LEAST_ACCURACY, NAMES, OURS, PEERS, Scores

ROOT = pathlib.Path(__file__).parents[2]
TASKS = {"regression": "R²", "binary": "two classes", "multiclass": "classes"}
# less than this is no difference to speak of
MARGIN = 0.005


def page(scores, found, about):
    parts = [head(scores), summary(scores), losses(scores), numbers(scores), probabilities(scores), time_taken(scores)]
    if found:
        parts.append(regrets(found))
    parts += [tables_used(scores, about), how()]
    return "\n".join(parts)


def probabilities(scores):
    """Log loss beside that of constant shares, and the calibration error, of the command line's models."""
    cells = {}
    for r in scores.records:
        if r["tool"] == "dpopt" and "log_loss" in r:
            cells.setdefault((r["table"], r["epsilon"]), []).append(r)
    if not cells:
        return ""
    mean = lambda cell, name: statistics.mean(r[name] for r in cells[cell])
    above = [c for c in cells if mean(c, "log_loss") >= mean(c, "log_loss_of_base_rate")]
    out = [
        "## Probabilities",
        "",
        "Log loss of the command line's models (that of answering the test rows' shares to everybody), and the mean distance of claimed from observed shares in ten bins of",
        "probability. Of right probabilities that is about 1/√(test rows) and not 0. "
        f"In {len(cells) - len(above)} of {len(cells)} cells the log loss is below that of constant shares"
        + (": not in " + ", ".join(f"{t} at ε = {e:g}" for t, e in above) + "." if above else "."),
        "",
    ]
    row(out, "table", "test rows", *[f"ε = {e:g}" for e in scores.epsilons])
    row(out, *["---"] * (len(scores.epsilons) + 2))
    for table in dict.fromkeys(t for t, _ in cells):
        of = lambda e: (
            f"{mean((table, e), 'log_loss'):.3f} ({mean((table, e), 'log_loss_of_base_rate'):.3f}), "
            f"{mean((table, e), 'calibration_error'):.3f}"
        )
        tested = next(r["test_rows"] for (t, _), rs in cells.items() if t == table for r in rs)
        row(out, table, tested, *[of(e) if (table, e) in cells else "" for e in scores.epsilons])
    return "\n".join([*out, ""])


def head(scores):
    splits = "split " if len(scores.splits) == 1 else "the means of splits "
    splits += ", ".join(map(str, scores.splits))
    return f"""# How good the models are

`make bench-utility` fits dpopt and other private tools to {len(scores.tables)} tables: the same rows, the same public bounds and levels,
δ = n^-1.1, one thread each, {splits}. This page and its picture are made from its results. Constants of the library were chosen on other draws of the
made tables (`g-…`) and on odd splits of real ones.

![share of the achievable gain, per table and ε](images/utility.svg)

A score is R² for numbers and accuracy for classes (AUC for two classes where even the best model without privacy beats the most frequent class by less than {LEAST_ACCURACY:g}).
A *share* is (score − baseline) / (best without privacy − baseline): 0 is what the same answer for everybody scores, 1 what boosted trees or a linear model score without privacy,
whichever is better. An *oracle* is the best of several settings by the test rows: no private tool can know it, and nobody was charged for finding it.
"""


def summary(scores):
    out = ["## In one table", "", f"Mean shares over tables; below {FLOOR:g} counts as {FLOOR:g}.", ""]
    real = [t for t in scores.tables if not t.startswith("g-")]
    for name, tables in (("all tables", scores.tables), ("real tables", real)):
        row(out, name, *[f"ε = {e:g}" for e in scores.epsilons], "tables")
        row(out, *["---"] * (len(scores.epsilons) + 2))
        for tool in present(scores):
            found = [scores.mean_share(tool, e, tables) for e in scores.epsilons]
            row(out, NAMES[tool], *[three(m) for m, _ in found], len(found[0][1]))
            if tool in PEERS and len(found[0][1]) < len(tables):
                same = [scores.mean_share("dpopt", e, t)[0] if t else None for e, (_, t) in zip(scores.epsilons, found)]
                row(out, f"— dpopt on the same {len(found[0][1])}", *[three(m) for m in same], len(found[0][1]))
        out.append("")
    return "\n".join(out)


def three(number):
    return "" if number is None else f"{number:.3f}"


def present(scores):
    return [t for t in [*OURS, *PEERS] if any(k[0] == t for k in scores.mean)]


def lost(scores):
    """(share lost, table, ε, ours, peer, its score) where the best peer is better by more than the margin."""
    out = []
    for table in scores.tables:
        for e in scores.epsilons:
            peer, ours = scores.best_peer(table, e), scores.mean.get(("dpopt", table, e))
            if ours is not None and peer is not None and peer[1] - ours > MARGIN:
                gain = (scores.without_privacy(table) or 1) - scores.baseline(table)
                out.append(((peer[1] - ours) / max(gain, 1e-9), table, e, ours, *peer))
    return sorted(out, reverse=True)


def losses(scores):
    cells = [(t, e) for t in scores.tables for e in scores.epsilons if ("dpopt", t, e) in scores.mean]
    all_lost = lost(scores)
    to_oracle = sum("oracle" in peer for *_, peer, _ in all_lost)
    out = [
        "## Where we lose",
        "",
        f"In {len(all_lost)} of {len(cells)} cells (a table at one ε) the best of the other private tools, chosen for that cell by its test score, is better than the command line by "
        f"more than {MARGIN:g}; in {to_oracle} of them it is one that an oracle tuned. "
        + (
            "± is the standard error over splits of our score."
            if len(scores.splits) > 1
            else "One split: no standard errors."
        ),
        "",
    ]
    failed = [r for r in scores.failures() if r["tool"].startswith("dpopt")]
    if failed:
        what = sorted({f"{r['tool']} on {r['table']} at ε = {r['epsilon']:g}: {r['failed']}" for r in failed})
        out += ["Fits of ours that gave no model:", "", *[f"- {w}" for w in what], ""]
    row(out, "table", "ε", "ours", "best other", "by", "share lost")
    row(out, *["---"] * 6)
    for share, table, e, ours, peer, score in all_lost:
        error = scores.error("dpopt", table, e)
        plus = f" ± {error:.3f}" if error is not None else ""
        name = NAMES[peer]
        if "oracle" in peer:
            name += f" ({scores.settings[peer.removesuffix(' (oracle)'), table, e]})"
        row(out, table, f"{e:g}", f"{ours:.3f}{plus}", f"{score:.3f}", name, f"{share:.2f}")
    by_table = {}
    for _, table, *_ in all_lost:
        by_table[table] = by_table.get(table, 0) + 1
    always = [t for t, k in by_table.items() if k == len(scores.epsilons)]
    if always and len(scores.epsilons) > 1:
        out += ["", f"At every ε: {', '.join(always)}."]
    return "\n".join([*out, ""])


def numbers(scores):
    out = ["## All numbers", ""]
    tools = present(scores)
    for e in scores.epsilons:
        out += [f"ε = {e:g} (bold: best private)", ""]
        row(out, "table", "", *[NAMES[t] for t in tools], "baseline", "without privacy")
        row(out, *["---"] * (len(tools) + 4))
        for table in scores.tables:
            means = [scores.mean.get((t, table, e)) for t in tools]
            best = max((m for m in means if m is not None), default=None)
            shown = [f"**{m:.3f}**" if m is not None and m == best else three(m) for m in means]
            top = scores.without_privacy(table)
            row(out, table, scores.metric[table], *shown, f"{scores.baseline(table):.3f}", three(top))
        out.append("")
    return "\n".join(out)


def time_taken(scores):
    out = ["## Seconds of one fit", ""]
    row(out, "tool", "median", "longest")
    row(out, *["---"] * 3)
    for tool in present(scores):
        if "(oracle)" in tool:
            continue
        median, most = scores.seconds(tool)
        row(out, NAMES[tool], f"{median:.2f}", f"{most:.1f}")
    out += [
        "",
        "The command line's include starting, reading the file and writing the model and report; the others' begin with arrays in memory.",
    ]
    return "\n".join([*out, ""])


def regrets(found):
    told = regret.summary(found)
    if told is None:
        return ""
    out = [
        "## Does the plan choose well?",
        "",
        f"On {told['tables']} tables at ε = {' and '.join(f'{e:g}' for e in regret.EPSILONS)}: the {regret.METHODS} methods that `explain` lists first, each with the form that was chosen, and the best predicted "
        "form of each kind, against what `auto` does. Regret is the part of the achievable gain (best − baseline) that the choice misses.",
        "",
        f"Mean regret: **{told['regret']:.1%}** against the best of up to a dozen means over splits (which is too good by chance); **{told['crossed']:.1%}** against the candidate that was best on the other splits.",
        f"Cells without a gain above .02 have none to miss and are left out: {len(found) - told['cells']} of {len(found)}.",
        "",
    ]
    row(out, "table", "ε", "gain of auto", "best gain", "missed", "best candidate")
    row(out, *["---"] * 6)
    for (table, e), v in sorted(found.items(), key=lambda f: -f[1]["missed"] / max(f[1]["gain"], 1e-9)):
        part = f"{v['missed'] / v['gain']:.0%}" if v["gain"] > 0.02 else "–"
        row(out, table, f"{e:g}", f"{v['auto']:.3f}", f"{v['gain']:.3f}", part, v["best"])
    return "\n".join([*out, ""])


def tables_used(scores, about):
    out = ["## The tables", ""]
    row(out, "table", "task", "rows", "columns", "from")
    row(out, *["---"] * 5)
    for table in scores.tables:
        a = about[table]
        task = f"{a['classes']} classes" if "classes" in a else "a number"
        row(out, table, task, f"{a['rows']:,}", a["columns"], a["source"])
    absent = [t for t in panel.NAMES if t not in scores.tables]
    if absent:
        out += ["", f"Not on the machine where this was measured: {', '.join(absent)}."]
    return "\n".join([*out, ""])


def how():
    return """## How it is measured

- `benches/utility/panel.py` writes the tables. Real ones are shuffled by the split's number and divided 80/20; made ones (`g-…`, `benches/utility/generated.py`) are drawn anew for each split, function and all.
- Bounds are typed from codebooks or are round ranges that somebody would give who had not seen the rows (`benches/utility/bounds`); for made ones they follow from the law.
- dpopt's command line gets the table, the bounds and ε. Tools without an encoder get numbers in [-1, 1] (logarithms where the bounds file's rule takes them), one-hot levels, 256 slots for hashed columns and 4,096 for texts; DP-EBM gets the columns and the bounds.
- On tables with fewer than 2,500 rows the command line is fitted three times per split, because one draw of noise says little there; other tools once per setting. An oracle picks the best of several such draws, which is a little too good.
- Guarantees differ a little: dpopt's neighbours have a record zeroed out, Opacus's and DP-EBM's one added or removed, diffprivlib is pure ε-DP. δ is the same for all that have one.
- Opacus: Poisson batches of a twentieth of the rows, clip norm 1, 400 or 100 steps of SGD, noise from `dpopt account` for its neighbours (less than from its own search, which stops within .01 of ε). One setting is rate 2 for classes (0.2 for numbers) and 400 steps; the oracle also has rates of a quarter and of four times that, and 100 steps. The perceptron has 32 hidden tanh units.
- DP-EBM: the package's defaults (rate .01, 300 rounds); the oracle also has .05 with 300 and .2 with 100.
- An empty cell: the tool has no answer (DP-EBM has two classes or a number and no text; the perceptron and the trees no thousands of words) or failed.
- `make bench-utility QUICK=1` takes minutes; `DPOPT_DATA` names the folder that holds Adult and SMS (`adult/adult.csv`, `sms-spam/SMSSpamCollection`); without it they are left out.
"""


def ratios(scores, found):
    out = []
    for e in scores.epsilons:
        peers = {t: scores.best_peer(t, e) for t in scores.tables}
        both = [t for t in scores.tables if peers[t] and scores.share("dpopt", t, e) is not None]
        if not both:
            continue
        best = sum(max(scores.share(peers[t][0], t, e), FLOOR) for t in both)
        ours = sum(scores.bounded_share("dpopt", t, e) for t in both)
        if best > 0:
            out.append(f"ratio gain-eps{e:g}-vs-best-peer-oracles-included {ours / best:.4f}")
        for peer in PEERS:
            mean, tables = scores.mean_share(peer, e)
            if mean is not None and mean > 0:
                slug = peer.replace(" (oracle)", "-oracle")
                out.append(
                    f"ratio gain-eps{e:g}-vs-{slug} {(scores.mean_share('dpopt', e, tables)[0] or 0) / mean:.4f}"
                )
        for t in both:
            share = scores.share(peers[t][0], t, e)
            # where no other tool is above the baseline there is nothing to divide by
            if share > 0.05:
                out.append(f"ratio gain-{t}-eps{e:g}-vs-best-peer {scores.share('dpopt', t, e) / share:.4f}")
    told = regret.summary(found) if found else None
    if told:
        out.append(f"ratio regret-limit-0.10-vs-regret {0.1 / max(told['regret'], 1e-3):.3f}")
    return out


def row(out, *cells):
    out.append("| " + " | ".join(str(c) for c in cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="files of run.py; later lines win")
    parser.add_argument("--panel", type=pathlib.Path, default=ROOT / "target" / "utility-panel")
    parser.add_argument("--page", type=pathlib.Path, help="where the page goes, and images/utility.svg beside it")
    options = parser.parse_args()
    records = [json.loads(line) for file in options.results for line in file.read_text().splitlines()]
    scores = Scores(records)
    tried = [r for r in records if r["tool"] == "regret"]
    baselines = {(r["table"], r["split"]): r["score"] for r in records if r["tool"] == "baseline"}
    found = regret.regrets(tried, baselines)
    about = {t: json.loads((options.panel / t / "about.json").read_text()) for t in scores.tables}
    if options.page:
        (options.page.parent / "images").mkdir(parents=True, exist_ok=True)
        options.page.write_text(page(scores, found, about))
        (options.page.parent / "images" / "utility.svg").write_text(picture.draw(scores))
    print(summary(scores).replace("| --- ", "").replace("|\n\n", "\n"))
    print(losses(scores))
    print("\n".join(ratios(scores, found)))


if __name__ == "__main__":
    main()
