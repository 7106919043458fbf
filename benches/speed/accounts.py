"""Privacy accounting, beside dp_accounting's PLD accountant at its default interval."""

import json
import math
import random
import statistics
import time

import dp_accounting
from dp_accounting import pld
from timing import ACCOUNT, found, in_turn, run, scaled

INTERVAL = 1e-4


def ours(settings, repeat=1):
    """Seconds of each of `settings` (q, σ, steps, δ), the median of `repeat` answers in one process."""
    lines = [
        {
            "expression": f"poisson({q}, gaussian({sigma})) x {steps}",
            "relation": "add-or-remove",
            "delta": delta,
            # the lattice accountant itself, whatever the automatic choice
            "accountant": "pld",
        }
        for q, sigma, steps, delta in settings
        # the first answer finds cold caches
        for _ in range(repeat + 1)
    ]
    told = [json.loads(line)["seconds"] for line in run(ACCOUNT, input="\n".join(map(json.dumps, lines))).splitlines()]
    parts = [told[i * (repeat + 1) + 1 : (i + 1) * (repeat + 1)] for i in range(len(settings))]
    return [statistics.median(part) for part in parts]


def composed(q, sigma, steps):
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=INTERVAL
    )
    step = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))


def peer(q, sigma, steps, delta):
    start = time.perf_counter()
    composed(q, sigma, steps).get_epsilon(delta)
    return time.perf_counter() - start


def steps_group():
    for name, setting in {
        "account-1000-steps-speed-up": (0.01, 1.0, 1000, 1e-6),
        "account-10000-steps-speed-up": (0.004, 0.8, 10000, 1e-6),
    }.items():
        told = in_turn(lambda: ours([setting], 60)[0], lambda: peer(*setting))
        yield name, scaled(told, 1e3)


def random_settings(count=40, seed=20261130):
    """The settings of `make bench-accounting`: rates 1e-4 to .3, noise .7 to 20, 1 to 10,000 steps, δ 1e-9 to 1e-4, all log-uniform."""
    draw = random.Random(seed)
    for _ in range(count):
        q = 10 ** draw.uniform(-4, math.log10(0.3))
        sigma = 10 ** draw.uniform(math.log10(0.7), math.log10(20))
        steps = round(10 ** draw.uniform(0, 4))
        yield float(f"{q:.4g}"), float(f"{sigma:.4g}"), steps, float(f"{10 ** draw.uniform(-9, -4):.3g}")


def settings_group():
    settings = list(random_settings())
    mine = ours(settings, 9)
    theirs = [peer(*setting) for setting in settings]
    total = found([sum(mine)], [sum(theirs)])
    yield "settings-total-speed-up", scaled(total, 1e3)
    yield "settings-median-speed-up", scaled(found(mine, theirs), 1e3)
    # its cost is beside the peer's mean, which one slow setting does not move
    yield "settings-slowest-ms", scaled(found([max(mine)], [statistics.mean(theirs)]), 1e3)


def curve_group():
    import dpopt

    epsilons = [0.1 * (i + 1) for i in range(50)]
    count = iter(range(1, 1_000))

    def ours():
        # the library remembers what it was asked
        sigma = 1 + 2**-40 * next(count)
        dpopt.accounting.privacy_curve(f"poisson(0.01, gaussian({sigma!r})) x 1000", epsilons, relation="add-or-remove")

    def theirs():
        accountant = composed(0.01, 1.0, 1000)
        [accountant.get_delta(epsilon) for epsilon in epsilons]

    yield "curve-ms", scaled(in_turn(ours, theirs), 1e3)
