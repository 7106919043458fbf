"""Exact values, independent of every accountant: 50-digit arithmetic for unsampled mechanisms (`digits50`), Laplace
inversion of the exact one-step transform for Poisson-sampled Gaussians (`inversion`, about 1e-8, from 20 steps on)."""

import math

import mpmath as mp
import numpy as np

DIGITS = 50


def solve(delta_of, delta, high):
    """Smallest ε with delta_of(ε) ≤ delta, to 40 digits."""
    mp.mp.dps = DIGITS
    delta = mp.mpf(delta)
    if delta_of(mp.mpf(0)) <= delta:
        return 0.0
    low, high = mp.mpf(0), mp.mpf(high)
    if delta_of(high) > delta:
        return math.inf
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return float(high)


def gaussian(mu, delta):
    """Composition of Gaussian mechanisms: N(mu, 1) against N(0, 1). `mu` is squared exactly as a fraction of f64."""
    mp.mp.dps = DIGITS
    mu = mp.mpf(mu)
    cdf = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2
    f = lambda e: cdf(mu / 2 - e / mu) - mp.exp(e) * cdf(-mu / 2 - e / mu)
    return solve(f, delta, mu * mu / 2 + mu * mp.sqrt(2 * mp.log(1 / mp.mpf(delta))) + 1)


def lattice(atoms, unit, times, delta, infinite=0):
    """`times` independent draws of a loss with P-masses `atoms[k]` at k·unit (k ≥ least) and `infinite` at +∞."""
    mp.mp.dps = DIGITS
    total = {0: mp.mpf(1)}
    power, n = dict(atoms), times
    product = lambda a, b: convolved(a, b)
    while n:
        if n & 1:
            total = product(total, power)
        n >>= 1
        if n:
            power = product(power, power)
    lost = 1 - (1 - mp.mpf(infinite)) ** times

    def f(e):
        return lost + sum(m * -mp.expm1(e - k * unit) for k, m in total.items() if k * unit > e)

    return solve(f, delta, max(total) * unit)


def convolved(a, b):
    out = {}
    for i, x in a.items():
        for j, y in b.items():
            out[i + j] = out.get(i + j, 0) + x * y
    return out


def approx(epsilon, d0, times, delta):
    """(ε, δ)-mechanisms: ±ε with odds e^ε, +∞ with probability d0."""
    mp.mp.dps = DIGITS
    e, d0 = mp.mpf(epsilon), mp.mpf(d0)
    p = (1 - d0) / (1 + mp.exp(-e))
    # the infinite part is taken out by `lattice`
    return lattice({1: p, -1: p * mp.exp(-e)}, e, times, delta, d0)


def randomized_response(p, k, times, delta):
    """Replace-one: the answers of two records that differ."""
    mp.mp.dps = DIGITS
    p = mp.mpf(p)
    keep, other = 1 - p + p / k, p / k
    unit = mp.log(keep / other)
    return lattice({1: keep, 0: (k - 2) * other, -1: other}, unit, times, delta)


def discrete_laplace(a, s, times, delta):
    mp.mp.dps = DIGITS
    a = mp.mpf(a)
    c = mp.tanh(a / 2)
    atoms = {-s: mp.exp(-a * s) / (1 + mp.exp(-a)), s: 1 / (1 + mp.exp(-a))}
    for x in range(1, s):
        atoms[2 * x - s] = atoms.get(2 * x - s, 0) + c * mp.exp(-a * (s - x))
    return lattice(atoms, a, times, delta)


def discrete_gaussian(sigma, s, times, delta):
    """One integer sum shifted by s: losses s(s + 2y)/(2σ²) at the integers y, on the lattice of s/(2σ²)."""
    mp.mp.dps = DIGITS
    sigma, s = mp.mpf(sigma), int(s)
    # beyond that P is below 1e-53
    reach = int(mp.ceil(mp.mpf("15.6") * sigma))
    f = {y: mp.exp(-(mp.mpf(y) ** 2) / (2 * sigma**2)) for y in range(-reach, reach + 1)}
    total = sum(f.values())
    return lattice({s + 2 * y: m / total for y, m in f.items()}, s / (2 * sigma**2), times, delta)


def laplace(scale, times, delta):
    """P(dx) = e^(x/2)ν(dx), Q(dx) = e^(−x/2)ν(dx); ν has atoms ½e^(−s/2) at ±s and the density ¼e^(−s/2) between.
    The T-fold ν: atoms at multiples of s and polynomials on cells of length s, both exact up to rounding."""
    mp.mp.dps = DIGITS
    s = 1 / mp.mpf(scale)
    edge = mp.exp(-s / 2) / 2
    flat = edge / 2 * s  # mass per unit of t = x/s
    atoms, cells = {0: mp.mpf(1)}, {}
    for _ in range(times):
        next_atoms, next_cells = {}, {}
        add = lambda k, poly: next_cells.__setitem__(k, summed(next_cells.get(k, []), poly))
        for k, m in atoms.items():
            for side in (-1, 1):
                next_atoms[k + side] = next_atoms.get(k + side, 0) + edge * m
                add(k + (side - 1) // 2, [flat * m])
        keys = range(min(cells, default=0) - 1, max(cells, default=-1) + 2)
        mass = {k: sum(c / (i + 1) for i, c in enumerate(poly)) for k, poly in cells.items()}
        for k in keys:
            left, right = cells.get(k - 1, []), cells.get(k + 1, [])
            # t from the cell's left end: all of cell k, the part above t of k−1 and below t of k+1
            rest = [mass.get(k, 0) + mass.get(k - 1, 0)] + [-c / (i + 1) for i, c in enumerate(left)]
            upto = [mp.mpf(0)] + [c / (i + 1) for i, c in enumerate(right)]
            add(k, [flat * x for x in summed(rest, upto)])
            for side in (-1, 1):
                shifted = cells.get(k - side)
                if shifted:
                    add(k, [edge * x for x in shifted])
        atoms, cells = next_atoms, next_cells

    def exp_moments(rate, low, degree):
        """∫_low^1 t^j e^(rate·t) dt for j = 0 … degree, by the series of e^(rate·t)."""
        out = []
        for j in range(degree + 1):
            total, term, i = mp.mpf(0), mp.mpf(1), 0
            while True:
                piece = term * (1 - low ** (i + j + 1)) / (i + j + 1)
                total += piece
                i += 1
                term *= rate / i
                if abs(term) < mp.mpf(10) ** -(DIGITS + 5):
                    break
            out.append(total)
        return out

    degree = max((len(p) for p in cells.values()), default=1) - 1
    whole = [exp_moments(side * s / 2, mp.mpf(0), degree) for side in (1, -1)]

    def f(e):
        total = sum(m * (mp.exp(k * s / 2) - mp.exp(e - k * s / 2)) for k, m in atoms.items() if k * s > e)
        for k, poly in cells.items():
            if (k + 1) * s <= e:
                continue
            low = max(mp.mpf(0), e / s - k)
            up, down = whole if low == 0 else [exp_moments(side * s / 2, low, degree) for side in (1, -1)]
            up = sum(c * x for c, x in zip(poly, up))
            down = sum(c * x for c, x in zip(poly, down))
            total += mp.exp(k * s / 2) * up - mp.exp(e - k * s / 2) * down
        return total

    return solve(f, delta, times * s)


def summed(a, b):
    if len(a) < len(b):
        a, b = b, a
    return [x + (b[i] if i < len(b) else 0) for i, x in enumerate(a)]


class Inversion:
    """δ(ε) of T Poisson-sampled Gaussians in one direction. Not a bound; the integrand decays too slowly before 20 steps."""

    def __init__(self, q, sigma, steps, forward):
        x = np.linspace(-14 * sigma - 2, 14 * sigma + 30 / max(sigma, 0.3) + 3, 4001)
        h = x[1] - x[0]
        ln0 = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(h)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
        self.lnp, self.loss = (ln0 + loss, loss) if forward else (ln0, -loss)
        keep = self.lnp > -110
        self.lnp, self.loss, self.steps = self.lnp[keep], self.loss[keep], steps

    def cumulant(self, z):
        w = self.lnp + z * self.loss
        return self.steps * np.log(np.sum(np.exp(w - w.real.max()))) + self.steps * w.real.max()

    def delta(self, eps):
        # saddle point of K(λ) − λε − ln λ − ln(1+λ) by golden section in ln λ
        f = lambda t: float(self.cumulant(math.exp(t)).real) - math.exp(t) * eps - t - math.log1p(math.exp(t))
        lo, hi = math.log(1e-2), math.log(3e4)
        g = (math.sqrt(5) - 1) / 2
        for _ in range(40):
            a, b = hi - g * (hi - lo), lo + g * (hi - lo)
            lo, hi = (lo, b) if f(a) < f(b) else (a, hi)
        lam = math.exp((lo + hi) / 2)
        d = 1e-3 * lam
        curve = (self.cumulant(lam + d) + self.cumulant(lam - d) - 2 * self.cumulant(lam)).real / d**2 + 1 / lam**2
        step = 0.25 / math.sqrt(curve)
        total, top = 0.0, f(math.log(lam))
        for n in range(4000):
            z = complex(lam, (n + 0.5) * step)
            v = np.exp(self.cumulant(z) - z * eps - np.log(z) - np.log(1 + z) - top)
            total += v.real
            if n > 8 and abs(v) < 1e-13:
                break
        else:
            return math.nan
        return total * step / math.pi * math.exp(top)

    def epsilon(self, delta):
        lo, hi = 0.0, 1.0
        if not self.delta(1e-9) > delta:
            return math.nan  # ε near 0: the inversion's own error in δ is not small against it
        while self.delta(hi) > delta:
            hi *= 2
            if hi > 300:
                return math.nan
        for _ in range(40):
            mid = (lo + hi) / 2
            lo, hi = (mid, hi) if self.delta(mid) > delta else (lo, mid)
        return hi


def poisson(q, sigma, steps, delta):
    return max(Inversion(q, sigma, steps, f).epsilon(delta) for f in (True, False))
