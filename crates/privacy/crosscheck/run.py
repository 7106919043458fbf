"""Random events against exact values and every peer that supports them; writes docs/accounting-crosscheck.md and the
short list that `cargo test` checks without Python (crates/privacy/tests/data/crosscheck.json).

usage: run.py ACCOUNT_BINARY PAGE.md LIST.json [CACHE.jsonl]

Peers' answers and exact values are kept in CACHE (they don't depend on our code), so an interrupted run goes on where it
stopped. The run fails if a number of ours is below an exact value, or more than 0.1 % above the best number
that is a valid bound.

A peer's number p below ours is judged by proof, not by opinion: it is no bound if it is below the exact value, or below
the lower bound that our accountant certifies for the same event; otherwise it is a valid, tighter number.
"""

import datetime
import json
import math
import multiprocessing
import os
import platform
import random
import signal
import subprocess
import sys
import warnings

import truth

warnings.filterwarnings("ignore")
import dp_accounting as dpa  # noqa: E402
from dp_accounting import pld, rdp  # noqa: E402

SEED = 20260101
STEP = 5e-4
SECONDS_PER_CALL = 40
NR = dpa.NeighboringRelation
RELATION = {"add-or-remove": NR.ADD_OR_REMOVE_ONE, "replace-one": NR.REPLACE_ONE, "zero-out": NR.REPLACE_SPECIAL}
rng = random.Random(SEED)


def log_uniform(a, b):
    return math.exp(rng.uniform(math.log(a), math.log(b)))


def count(a, b):
    return int(round(log_uniform(a, b)))


# ---- peers: name -> (function of the case's dictionary, what it claims) ------------------------------------------------


def event_of(case):
    return EVENTS[case["family"]](*case["parameters"])


def dpa_pld(case):
    accountant = pld.PLDAccountant(RELATION[case["relation"]], value_discretization_interval=STEP)
    return accountant.compose(event_of(case)).get_epsilon(case["delta"])


def dpa_rdp(case):
    accountant = rdp.RdpAccountant(neighboring_relation=RELATION[case["relation"]])
    event = event_of(case)
    if case["family"] == "fixed-size samples":
        # this peer wants the noise in units of the replace-one sensitivity 2C
        n, m, sigma, steps = case["parameters"]
        event = EVENTS[case["family"]](n, m, sigma / 2, steps)
    return accountant.compose(event).get_epsilon(case["delta"])


def opacus(kind):
    def epsilon(case):
        from opacus.accountants import create_accountant

        q, sigma, steps = case["parameters"]
        accountant = create_accountant(kind)
        accountant.history = [(sigma, q, steps)]
        return accountant.get_epsilon(case["delta"])

    return epsilon


def prv(case):
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    q, sigma, steps = case["parameters"]
    m = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=q)
    a = PRVAccountant(prvs=[m], max_self_compositions=[steps], eps_error=0.01, delta_error=case["delta"] / 1000)
    return a.compute_epsilon(case["delta"], [steps])[2]


def autodp(case):
    from autodp import mechanism_zoo, transformer_zoo

    q, sigma, steps = case["parameters"]
    base = mechanism_zoo.GaussianMechanism(sigma=sigma)
    base.neighboring = "add_remove"
    sampled = transformer_zoo.AmplificationBySampling(PoissonSampling=True)(base, q, improved_bound_flag=True)
    return transformer_zoo.Composition()([sampled], [steps]).get_approxDP(case["delta"])


def dpa_pld_of(case):
    """Its distributions of mechanisms that version 0.6 has no event for."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as distribution

    *p, times = case["parameters"]
    if case["family"] == "discrete Gaussian":
        one = distribution.from_discrete_gaussian_mechanism(p[0], sensitivity=p[1], value_discretization_interval=STEP)
    else:
        stated = common.DifferentialPrivacyParameters(*p)
        one = distribution.from_privacy_parameters(stated, value_discretization_interval=STEP)
    return one.self_compose(times).get_epsilon_for_delta(case["delta"])


PEERS = {
    "dp_accounting PLD": dpa_pld,
    "dp_accounting distributions": dpa_pld_of,
    "dp_accounting RDP": dpa_rdp,
    "Opacus RDP": opacus("rdp"),
    "Opacus PRV": opacus("prv"),
    "prv_accountant": prv,
    "autodp": autodp,
}

# ---- cases -------------------------------------------------------------------------------------------------------------

TIMES = dpa.SelfComposedDpEvent
EVENTS = {
    "Poisson-sampled Gaussian": lambda q, s, t: TIMES(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(s)), t),
    "Poisson, replace-one": lambda q, s, t: TIMES(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(s)), t),
    "Gaussian composition": lambda *parts: dpa.ComposedDpEvent([TIMES(dpa.GaussianDpEvent(s), t) for s, t in parts]),
    "Laplace composition": lambda b, t: TIMES(dpa.LaplaceDpEvent(b), t),
    "discrete Laplace": lambda a, s, t: TIMES(dpa.dp_event.DiscreteLaplaceDpEvent(a, s), t),
    # composed one by one: this peer's accountant drops `count` of a self-composed randomized response
    "randomized response": lambda p, k, t: dpa.ComposedDpEvent([dpa.dp_event.RandomizedResponseDpEvent(p, k)] * t),
    "mixed": lambda q, s, t, b, k, z: dpa.ComposedDpEvent(
        [
            TIMES(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(s)), t),
            TIMES(dpa.LaplaceDpEvent(b), k),
            dpa.GaussianDpEvent(z),
        ]
    ),
    "mixture of Gaussians": lambda s, c, w, t: TIMES(dpa.dp_event.MixtureOfGaussiansDpEvent(s, c, w), t),
    "fixed-size samples": lambda n, m, s, t: TIMES(
        dpa.SampledWithoutReplacementDpEvent(n, m, dpa.GaussianDpEvent(s)), t
    ),
    # as its own later versions account it
    "permute-and-flip": lambda epsilon, t: TIMES(dpa.LaplaceDpEvent(1 / epsilon), t),
    "truncated batches": lambda n, q, m, s, t: TIMES(dpa.dp_event.TruncatedSubsampledGaussianDpEvent(n, q, m, s), t),
}


# events that dp_accounting 0.6 does not have, in the form of its later versions or in our own
OWN_EVENTS = {
    "(ε, δ) composition": lambda epsilon, d0: {"class_name": "ApproxDpDpEvent", "epsilon": epsilon, "delta": d0},
    "(ε, δ) as an event": lambda epsilon, d0: {"class_name": "EpsilonDeltaDpEvent", "epsilon": epsilon, "delta": d0},
    "discrete Gaussian": lambda sigma, s: {
        "class_name": "DiscreteGaussianDpEvent",
        "sigma": sigma,
        "sensitivity": s,
        "dimension": 1,
    },
    "permute-and-flip": lambda epsilon: {"class_name": "PermuteAndFlipDpEvent", "epsilon": epsilon},
}


def plain(event):
    """dp_accounting's own dictionary form, nested events included."""
    if isinstance(event, dpa.DpEvent):
        return {k: plain(v) for k, v in event.to_named_tuple()._asdict().items()}
    if isinstance(event, (list, tuple)):
        if hasattr(event, "_asdict"):
            return {k: plain(v) for k, v in event._asdict().items()}
        return [plain(x) for x in event]
    return event


def exact(case):
    """(value, method) or None."""
    family, p, delta = case["family"], case["parameters"], case["delta"]
    if family == "Gaussian composition":
        import mpmath as mp

        mp.mp.dps = truth.DIGITS
        shift = 2 if case["relation"] == "replace-one" else 1
        return truth.gaussian(shift * mp.sqrt(sum(t / mp.mpf(s) ** 2 for s, t in p)), delta), "50 digits"
    if family == "Laplace composition" and p[1] <= 25:
        return truth.laplace(*p, delta), "50 digits"
    if family == "discrete Laplace":
        return truth.discrete_laplace(*p, delta), "50 digits"
    if family == "randomized response" and case["relation"] == "replace-one":
        return truth.randomized_response(*p, delta), "50 digits"
    if family in ("(ε, δ) composition", "(ε, δ) as an event"):
        return truth.approx(*p, delta), "50 digits"
    if family == "discrete Gaussian":
        return truth.discrete_gaussian(*p, delta), "50 digits"
    if family == "permute-and-flip" and p[1] <= 25:
        # two candidates attain the pair of Laplace noise
        return truth.laplace(1 / p[0], p[1], delta), "50 digits"
    if family == "Poisson-sampled Gaussian" and p[2] >= 20:
        return truth.poisson(*p, delta), "inversion"
    return None


def cases():
    out = []

    def add(family, relation, parameters, delta, peers):
        case = dict(number=len(out), family=family, relation=relation, parameters=parameters, delta=delta, peers=peers)
        if family in OWN_EVENTS:
            *own, k = parameters
            case["event"] = {"class_name": "SelfComposedDpEvent", "count": k, "event": OWN_EVENTS[family](*own)}
        else:
            case["event"] = plain(event_of(case))
        out.append(case)

    generic = ["dp_accounting PLD", "dp_accounting RDP"]
    for i in range(180):
        peers = generic + ["Opacus RDP"]
        # the slow ones on a part of the cases
        peers += [["Opacus PRV", "prv_accountant", "autodp"][i // 4 % 3]] if i % 4 == 0 else []
        p = [log_uniform(1e-4, 0.5), rng.uniform(0.6, 8), count(1, 5000)]
        add("Poisson-sampled Gaussian", "add-or-remove", p, log_uniform(1e-10, 1e-4), peers)
    for _ in range(70):
        relation = rng.choice(["add-or-remove", "replace-one"])
        # ε stays below some 60
        p = [[rng.uniform(2, 40), count(1, 100)] for _ in range(rng.randint(1, 4))]
        add("Gaussian composition", relation, p, log_uniform(1e-10, 1e-3), generic)
    for i in range(60):
        p = [log_uniform(1, 100), count(1, 25) if i % 2 == 0 else count(25, 2000)]
        add("Laplace composition", "add-or-remove", p, log_uniform(1e-10, 1e-4), generic)
    for _ in range(20):
        add(
            "discrete Laplace",
            "add-or-remove",
            [log_uniform(0.02, 1.0), rng.randint(1, 5), count(1, 100)],
            log_uniform(1e-10, 1e-4),
            generic[:1],
        )
    for _ in range(50):
        p = [
            log_uniform(1e-3, 0.3),
            rng.uniform(0.8, 5),
            count(10, 1000),
            rng.uniform(3, 40),
            rng.randint(1, 10),
            rng.uniform(2, 30),
        ]
        add("mixed", "add-or-remove", p, log_uniform(1e-9, 1e-5), generic)
    for _ in range(40):
        p = [log_uniform(1e-3, 0.3), rng.uniform(1, 8), count(1, 1000)]
        add("Poisson, replace-one", "replace-one", p, log_uniform(1e-9, 1e-5), generic[:1])
    for i in range(40):
        relation = "replace-one" if i % 4 else "zero-out"
        p = [rng.uniform(0.2, 0.95), rng.randint(2, 20), count(1, 60)]
        add("randomized response", relation, p, log_uniform(1e-9, 1e-4), generic[:1])
    for _ in range(40):
        p = [log_uniform(0.005, 0.5), rng.choice([0.0, 1e-10]), count(1, 400)]
        add("(ε, δ) composition", "add-or-remove", p, log_uniform(1e-7, 1e-3), [])
    for _ in range(30):
        n = rng.randint(2, 4)
        w = [rng.random() for _ in range(n)]
        w = [x / sum(w) for x in w]
        w[-1] = 1.0 - sum(w[:-1])
        c = sorted(rng.uniform(0, 2) for _ in range(n))
        p = [rng.uniform(1.5, 6), c, w, count(1, 100)]
        add("mixture of Gaussians", "add-or-remove", p, log_uniform(1e-8, 1e-4), generic[:1])
    for _ in range(30):
        p = [10_000, count(10, 1000), rng.uniform(2, 10), count(10, 2000)]
        add("fixed-size samples", "replace-one", p, log_uniform(1e-8, 1e-5), ["dp_accounting RDP"])
    for _ in range(20):
        n, q = 10_000, log_uniform(1e-3, 0.1)
        m = int(n * q + rng.uniform(-1, 4) * math.sqrt(n * q))
        p = [n, q, max(m, 1), rng.uniform(1, 6), count(1, 500)]
        add("truncated batches", "zero-out", p, log_uniform(1e-8, 1e-5), generic[:1])
    for _ in range(30):
        p = [log_uniform(0.4, 4), rng.randint(1, 4), count(1, 8)]
        add("discrete Gaussian", "add-or-remove", p, log_uniform(1e-10, 1e-4), ["dp_accounting distributions"])
    for i in range(20):
        p = [log_uniform(0.02, 1), count(1, 25) if i % 2 == 0 else count(25, 2000)]
        add("permute-and-flip", "add-or-remove", p, log_uniform(1e-10, 1e-4), ["dp_accounting PLD"])
    for _ in range(20):
        p = [log_uniform(0.005, 0.5), rng.choice([0.0, 1e-10]), count(1, 400)]
        add("(ε, δ) as an event", "add-or-remove", p, log_uniform(1e-7, 1e-3), ["dp_accounting distributions"])
    return out


# ---- the run -----------------------------------------------------------------------------------------------------------


class Late(Exception):
    pass


def late(*_):
    raise Late


def limited(work, case):
    """{"value": x}, {"error": why} or {"late": true}. The limit is in processor time: a busy machine changes no verdict."""
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CALL)
    try:
        answer = work(case)
        if answer is None:
            return {}
        if isinstance(answer, tuple):
            return {"value": float(answer[0]), "method": answer[1]}
        return {"value": float(answer)}
    except Late:
        return {"late": True}
    except Exception as e:  # noqa: BLE001 - a peer that aborts is a finding
        return {"error": f"{type(e).__name__}: {e}"[:160]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def referee(case):
    warnings.filterwarnings("ignore")
    if any(name.startswith("Opacus") for name in case["peers"]):
        # outside of the limit: torch cannot be imported again after an interruption
        import opacus.accountants  # noqa: F401
    answers = {name: limited(PEERS[name], case) for name in case["peers"]}
    return {"key": key(case), "truth": limited(exact, case), "peers": answers}


def key(case):
    return json.dumps([case["family"], case["relation"], case["parameters"], case["delta"], case["peers"]])


def referees(todo, cache):
    known = {}
    if cache and os.path.exists(cache):
        with open(cache, encoding="utf-8") as f:
            known = {r["key"]: r for r in map(json.loads, f)}
    missing = [c for c in todo if key(c) not in known]
    print(f"{len(todo)} events, {len(todo) - len(missing)} of them known from an earlier run", flush=True)
    out = open(cache, "a", encoding="utf-8") if cache else None
    with multiprocessing.Pool(os.cpu_count(), maxtasksperchild=40) as pool:
        for n, answer in enumerate(pool.imap_unordered(referee, missing), 1):
            known[answer["key"]] = answer
            if out:
                out.write(json.dumps(answer) + "\n")
                out.flush()
            if n % 25 == 0:
                print(f"{n} of {len(missing)}", flush=True)
    return [known[key(c)] for c in todo]


def ours(binary, todo):
    lines = [
        dict(event=c["event"], relation=c["relation"], delta=c["delta"], accountant=accountant, bracket=True)
        for c in todo
        for accountant in ("pld", None)
    ]
    answers = subprocess.run(
        [binary], input="\n".join(map(json.dumps, lines)), capture_output=True, text=True, check=True
    )
    answers = [json.loads(x) for x in answers.stdout.splitlines()]
    # the tightest bound, and the lattice's lower bound
    return [(best, lattice) for lattice, best in zip(answers[::2], answers[1::2], strict=True)]


def judge(todo, judged, mine):
    table, verdicts, lower, failures, seconds = {}, {}, [], [], []

    def verdict(name, why):
        verdicts[name, why] = verdicts.get((name, why), 0) + 1

    for c, r, (best, lattice) in zip(todo, judged, mine, strict=True):
        what = f"{c['family']} {c['parameters']}, {c['relation']}, δ = {c['delta']:.3e}"
        if "error" in best:
            failures.append(f"{what}: refused by us: {best['error']}")
            continue
        upper, attained = best["upper"], lattice.get("lower") or 0.0
        seconds.append(best["seconds"])
        t, method = r["truth"].get("value", math.nan), r["truth"].get("method")
        if math.isfinite(t) and t > 0:
            # what the reference itself is good for: 50 digits to the last of f64; inversion to 1e-7
            good = 1e-14 if method == "50 digits" else 1e-7
            table.setdefault((c["family"], f"exact ({method})"), []).append(upper / t - 1)
            if upper < t * (1 - good) - (0 if method == "50 digits" else 1e-9):
                failures.append(f"{what}: ours {upper!r} is below the exact value {t!r}")
            if attained > t * (1 + good) + 1e-9:
                failures.append(f"{what}: our lower bound {attained!r} is above the exact value {t!r}")
        if upper > 0 and lattice.get("lower") is not None:
            table.setdefault((c["family"], "our certified lower bound"), []).append(upper / max(attained, 1e-300) - 1)
        for name, answer in r["peers"].items():
            if "value" not in answer or not math.isfinite(answer["value"]) or answer["value"] < 0:
                why = (
                    "no answer within the time limit"
                    if "late" in answer
                    else "aborts or refuses: " + answer["error"]
                    if "error" in answer
                    else f"returns {answer['value']}"
                )
                verdict(name, why if len(why) < 90 else why[:90] + "…")
                continue
            p = answer["value"]
            if upper > 1e-6 or p > 1e-6:
                table.setdefault((c["family"], name), []).append(p / upper - 1 if upper > 0 else math.inf)
            if p >= upper:
                verdict(name, "above ours" if p > upper * 1.001 else "above ours by at most 0.1 %")
            elif math.isfinite(t) and p < t * (1 - 1e-7) - 1e-9:
                verdict(name, "below the exact value: not a bound")
                lower.append((name, what, p, t, "exact value", upper))
            elif p < attained:
                verdict(name, "below the certified lower bound: not a bound")
                lower.append((name, what, p, attained, "certified lower bound", upper))
            elif p >= upper * (1 - 1e-5) - 1e-9:
                verdict(name, "a valid bound, tighter than ours by at most 1e-5 of ε")
            elif p >= upper / 1.001 - 1e-9:
                verdict(name, "a valid bound, tighter than ours by at most 1e-3 of ε")
                lower.append((name, what, p, attained, "valid as far as is known", upper))
            else:
                failures.append(f"{what}: ours {upper!r}, {name} {p!r}, exact {t}, certified lower bound {attained}")
    return table, verdicts, lower, failures, seconds


NOTES = """
**Why a number below the exact value or below the certified lower bound is wrong.** The lower bound is that of the merged
pair of the same event ([proof](proofs/accounting-pld.md)): merging outcomes is post-processing, so some test attains at least
that much. Exact values: 50-digit closed forms of unsampled mechanisms (crosscheck/truth.py), and Laplace inversion of the exact
one-step transform for Poisson-sampled Gaussians (good to 1e-7).

What the peers do in such cases, read in their code: dp_accounting's RDP accountant under replace-one returns the
add-or-remove number of Gaussian and Laplace mechanisms. dp_accounting's PLD accountant adds nothing for the rounding of its
Fourier transform and truncates with a fixed mass. Where it is given a self-composed randomized response it composes
one release, whatever the count (here its events are listed one by one). prv_accountant and Opacus PRV are asked for their upper end.
"""


def page(todo, judged, table, verdicts, lower, failures, seconds):
    truths = [r["truth"].get("method") for r in judged]
    text = [
        "# Cross-check of the accountants",
        "",
        f"{len(todo)} random events (seed {SEED}), written by `make crosscheck` (crates/privacy/crosscheck/run.py); nothing here is by "
        f"hand. Exact values: {truths.count('50 digits')} in 50-digit arithmetic, {truths.count('inversion')} by inversion. "
        f"dp_accounting's lattice at {STEP:g}; at most {SECONDS_PER_CALL} s of processor time per call of a peer. "
        f"Our times: median {1e3 * sorted(seconds)[len(seconds) // 2]:.2f} ms, largest {1e3 * max(seconds):.0f} ms.",
        "",
        f"**Ours below an exact value, or more than 0.1 % above the best valid number: {len(failures)}.**",
        "",
    ]
    text += [f"* {x}" for x in failures]
    text += [
        "",
        "Relative excess of ε over ours (for exact values and our lower bound: of ours over them).",
        "",
        "| event | against | cases | least | median | largest |",
        "|---|---|---|---|---|---|",
    ]
    for (family, name), row in sorted(table.items()):
        row = sorted(row)
        text.append(f"| {family} | {name} | {len(row)} | {row[0]:+.2e} | {row[len(row) // 2]:+.2e} | {row[-1]:+.2e} |")
    text += ["", "## What each peer's numbers are", "", "| peer | its number is | cases |", "|---|---|---|"]
    text += [f"| {name} | {why} | {n} |" for (name, why), n in sorted(verdicts.items())]
    text += [
        "",
        "## Every case where a peer is lower by more than 1e-5 of ε",
        NOTES.rstrip(),
        "",
        "| peer | event | its ε | against | which is | ours |",
        "|---|---|---|---|---|---|",
    ]
    for name, what, p, value, kind, upper in sorted(lower):
        text.append(f"| {name} | {what} | {p:.8g} | {value:.8g} | {kind} | {upper:.8g} |")
    return "\n".join(text).rstrip() + "\n"


def short_list(todo, judged, mine, versions):
    """Exact values and peers' numbers that are valid bounds, for a test without Python."""
    rows = []
    for c, r, (best, lattice) in zip(todo, judged, mine, strict=True):
        t, attained = r["truth"].get("value"), lattice.get("lower") or 0.0
        if "error" in best or (t is None and c["number"] % 4) or (t is not None and not math.isfinite(t)):
            continue
        if r["truth"].get("method") == "inversion" and c["number"] % 3:
            continue
        floor = max(attained, (t or 0.0) * (1 - 1e-7))
        valid = {name: a["value"] for name, a in r["peers"].items() if a.get("value", -1.0) >= floor}
        valid = {name: v for name, v in valid.items() if math.isfinite(v)}
        row = dict(event=c["event"], relation=c["relation"], delta=c["delta"], peers=valid)
        if t is not None:
            row.update(exact=t, method=r["truth"]["method"])
        if valid or t is not None:
            rows.append(json.dumps(row, ensure_ascii=False))
    head = json.dumps(dict(made_by="make crosscheck", seed=SEED, versions=versions), ensure_ascii=False)
    return '{"provenance": ' + head + ',\n"cases": [\n' + ",\n".join(rows) + "\n]}\n"


def main():
    binary, target, listed = sys.argv[1:4]
    todo = cases()
    judged = referees(todo, sys.argv[4] if len(sys.argv) > 4 else None)
    mine = ours(binary, todo)
    table, verdicts, lower, failures, seconds = judge(todo, judged, mine)
    text = page(todo, judged, table, verdicts, lower, failures, seconds)
    from importlib.metadata import version

    names = ["dp-accounting", "prv-accountant", "autodp", "opacus", "mpmath"]
    versions = {"python": platform.python_version(), "date": datetime.date.today().isoformat()}
    versions.update({name: version(name) for name in names})
    with open(target, "w", encoding="utf-8") as f:
        f.write(text)
    os.makedirs(os.path.dirname(listed), exist_ok=True)
    with open(listed, "w", encoding="utf-8") as f:
        f.write(short_list(todo, judged, mine, versions))
    print(text)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
