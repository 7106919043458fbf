"""Does the plan choose well? Other methods and other forms of the encoder against the choice of `auto`, in scores of test rows.

For each table and ε: the methods that `explain` lists first, each with the form that was chosen, and the best predicted form of each
kind (knots, second scale, products or not), each with the method that the plan then takes. Regret is what the choice misses of the
achievable gain: (best - chosen) / (best - baseline), all three means over splits. The best of a dozen noisy means is too good; so a second
number takes, for each split, what was best on the *other* splits.
"""

import json
import statistics

import command_line

TABLES = (
    "wine,digits,breast-cancer,diabetes,g-smooth,g-smooth-few,g-map,g-product,g-heavy,g-forest,g-skewed,g-unequal,g-few-rows,"
    "g-clouds,nitrogen-oxides,light-chains,tuna"
)
EPSILONS = (0.5, 1.0)
METHODS, FORMS, SECONDS = 6, 5, 60


def candidates(binary, about, place, epsilon):
    """Names of candidates with their method and form; the same for every split, because all facts are public."""
    told = command_line.explain(binary, about, place, epsilon)
    planned = [c["method"] for c in told["candidates"] if "predicted_excess_risk" in c]
    kinds, forms = set(), []
    for form in told.get("encoders", []):
        kind = (form["knots"], form["fine_knots"], form["pair_knots"] > 0)
        if kind not in kinds:
            kinds.add(kind)
            forms.append(form)
    chosen = forms[0] if forms else None
    out = {"auto": (None, None)}
    out |= {f"method {m}": (m, chosen) for m in planned[:METHODS]}
    out |= {f"form {words(f)}": (None, f) for f in forms[1 : FORMS + 1]}
    return out


def words(form):
    knots = f"{form['knots']}+{form['fine_knots']}" if form["fine_knots"] else str(form["knots"])
    pairs = f", pairs {form['pair_knots']} at {form['pair_share']}" if form["pair_knots"] else ""
    return knots + pairs


def lines(form):
    """The part of a bounds file that fixes a form."""
    said = {"knots": form["knots"], "fine_knots": form["fine_knots"], "centred": form["centred"]}
    said |= {"pairs": "all" if form["pair_knots"] else "none"}
    if form["pair_knots"]:
        said |= {"pair_knots": form["pair_knots"], "pair_share": form["pair_share"]}
    return "".join(f"dpopt.{key} = {json.dumps(value)}\n" for key, value in said.items())


def one(binary, about, place, epsilon, name, method, form, scratch):
    """A fit of a candidate; a copy of the bounds file fixes the form."""
    bounds = place / "bounds.toml"
    if form:
        text = bounds.read_text()
        bounds = scratch / "bounds.toml"
        bounds.write_text(lines(form) + text)
    return command_line.fit(binary, about, place, epsilon, method=method, bounds=bounds, limit=SECONDS)


def regrets(records, baselines):
    """Per table and ε: (regret, regret against what was best on the other splits, best candidate, gain of it)."""
    scores = {}
    for r in records:
        drawn = scores.setdefault((r["table"], r["epsilon"]), {}).setdefault(r["candidate"], {})
        # a candidate that gave no model scores like the baseline: nobody would have used it
        value = r["score"] if "score" in r else baselines[r["table"], r["split"]]
        drawn.setdefault(r["split"], {})[r.get("run", 0)] = value
    out = {}
    for (table, epsilon), tried in scores.items():
        splits = sorted(tried["auto"])
        by_candidate = {
            c: {s: statistics.mean(d.values()) for s, d in drawn.items()}
            for c, drawn in tried.items()
            if sorted(drawn) == splits
        }
        base = statistics.mean(baselines[table, s] for s in splits)
        mean = {c: statistics.mean(v.values()) for c, v in by_candidate.items()}
        best = max(mean, key=mean.get)
        crossed = statistics.mean(
            by_candidate[best_without(by_candidate, splits, s)][s] - by_candidate["auto"][s] for s in splits
        )
        gain = mean[best] - base
        out[table, epsilon] = {
            "best": best,
            "gain": gain,
            "auto": mean["auto"] - base,
            "missed": mean[best] - mean["auto"],
            "crossed": crossed,
        }
    return out


def best_without(by_candidate, splits, left_out):
    rest = [s for s in splits if s != left_out] or splits
    return max(by_candidate, key=lambda c: statistics.mean(by_candidate[c][s] for s in rest))


def summary(found, floor=0.02):
    """Mean regrets over the tables where there is a gain to speak of, and how many those are."""
    real = {k: v for k, v in found.items() if v["gain"] > floor}
    if not real:
        return None
    return {
        "cells": len(real),
        "tables": len({t for t, _ in real}),
        "regret": statistics.mean(v["missed"] / v["gain"] for v in real.values()),
        "crossed": statistics.mean(v["crossed"] / v["gain"] for v in real.values()),
        "over_ten_percent": sorted(f"{t} eps {e:g}" for (t, e), v in real.items() if v["missed"] / v["gain"] > 0.1),
    }
