"""Tables made from a seed. Every split draws a problem of its own from the family, so that nothing is tuned to one function.

A family is a function (rng, rows) -> (columns, their facts, target, its facts), facts as a bounds file has them. Facts are those of
the law that rows are drawn from, rounded outwards as a codebook would: never minima and maxima of the rows.
"""

import numpy as np
from scipy.special import ndtri


def smooth(rng, rows, d=8):
    """A sum of one smooth function per column; half of the target's variance is noise."""
    u = rng.random((rows, d))
    signal = sum(wave(rng, u[:, j]) * 0.8**j for j in range(d))
    return *numbers(u * 100, 0, 100), *regression(rng, signal, noise=1.0)


def place(rng, rows):
    """A map: peaks over two correlated coordinates, and three columns that add to it."""
    centres, heights, widths = rng.random((8, 2)), rng.normal(size=8), rng.uniform(0.06, 0.25, 8)
    at = centres[rng.integers(0, 8, rows)] + rng.normal(size=(rows, 2)) * 0.12 @ np.array([[1, 0.7], [0, 0.7]])
    at = np.clip(at, 0, 1)
    peaks = sum(h * np.exp(-np.sum((at - c) ** 2, axis=1) / (2 * w * w)) for c, h, w in zip(centres, heights, widths))
    rest = rng.random((rows, 3))
    signal = 2 * peaks + sum(0.5 * wave(rng, rest[:, j]) for j in range(3))
    u = np.column_stack([at, rest])
    return *numbers(u * 50 - 10, -10, 40), *regression(rng, signal, noise=0.5)


def product(rng, rows):
    """A price: positive columns with skewed laws that multiply, and a level that scales them."""
    size, age, quality = rng.gamma(3, 30, rows), rng.exponential(12, rows), rng.beta(2, 5, rows) * 10
    kind = rng.choice(5, rows, p=[0.5, 0.25, 0.15, 0.07, 0.03])
    factor = np.exp(rng.normal(size=5) * 0.5)
    power, decay = rng.uniform(0.5, 1.2), rng.uniform(0.01, 0.04)
    price = size**power * np.exp(-decay * age + 0.15 * quality) * factor[kind] * np.exp(rng.normal(size=rows) * 0.2)
    columns = {"size": size, "age": age, "quality": quality, "kind": kind_names(kind)}
    facts = {"size": span(0, 500), "age": span(0, 100), "quality": span(0, 10), "kind": levels(5)}
    top = float(500**power * 2)
    return columns, facts, price, span(0, top)


def forest(rng, rows, d=10):
    """Two classes by a sum of twelve trees of depth four."""
    u = rng.random((rows, d))
    score = np.zeros(rows)
    for _ in range(12):
        leaf = np.zeros(rows, int)
        for _ in range(4):
            # one of four nodes of a level has a split of its own: trees, not grids
            which, cut = rng.integers(0, d, 4), rng.uniform(0.2, 0.8, 4)
            node = leaf % 4
            leaf = 2 * leaf + (u[np.arange(rows), which[node]] > cut[node])
        score += rng.normal(size=16)[leaf]
    columns, facts = numbers(u, 0, 1)
    return columns, facts, *classes(rng, score, slope=2.0)


def skewed(rng, rows):
    """Two classes; numbers lie low in wide ranges, as amounts do, and the ranges' ends are round and far."""
    d = 9
    logs = rng.normal(size=(rows, d)) @ correlation(rng, d) * 0.7
    x = np.exp(logs + 1)
    columns, facts = numbers(x, 0, 200)
    score = logs @ rng.normal(size=d) + 0.8 * (logs[:, 0] > 1) * logs[:, 1]
    return columns, facts, *classes(rng, score, slope=2.0)


def unequal(rng, rows):
    """Two classes; eight columns of levels with unequal shares that go together, one of them with names that nobody lists, and two numbers."""
    hidden = rng.normal(size=(rows, 3))
    columns, facts, score = {}, {}, np.zeros(rows)
    for j, k in enumerate([2, 2, 3, 4, 6, 9, 16, 60]):
        lean = rng.normal(size=3)
        order = hidden @ lean / np.linalg.norm(lean) + rng.normal(size=rows) * 0.7
        # Zipf's shares: the level of a row is the bin of its rank in law, N(0, 1.49)
        shares = 1 / np.arange(1, k + 1)
        cuts = np.cumsum(shares / shares.sum())[:-1]
        level = np.searchsorted(ndtri(cuts) * np.sqrt(1.49), order)
        columns[f"c{j + 1}"] = kind_names(level)
        facts[f"c{j + 1}"] = {"hash": True} if k == 60 else levels(k)
        score += (rng.normal(size=k) * 0.7)[level]
    x = np.clip(hidden[:, :2] * 15 + 45, 0, 100)
    more, more_facts = numbers(x, 0, 100)
    score += 0.05 * (x[:, 0] - 45) * (columns["c1"] == "k1")
    return columns | more, facts | more_facts, *classes(rng, score, slope=1.5)


def clouds(rng, rows, d=10, k=6):
    """k classes, each a mixture of two normal clouds; classes are not equally frequent."""
    centres, shapes = rng.normal(size=(k, 2, d)) * 1.2, [correlation(rng, d) for _ in range(2 * k)]
    shares = rng.dirichlet(np.full(k, 5.0))
    label, part = rng.choice(k, rows, p=shares), rng.integers(0, 2, rows)
    x = centres[label, part] + np.einsum("ni,nij->nj", rng.normal(size=(rows, d)), np.array(shapes)[2 * label + part])
    columns, facts = numbers(np.clip(x, -8, 8), -8, 8)
    return columns, facts, kind_names(label), levels(k)


def letters(rng, rows):
    """Twenty classes in sixteen columns."""
    return clouds(rng, rows, d=16, k=20)


def heavy(rng, rows, d=10):
    """Correlated columns, a line and one bend, residuals with t law of 2.2 degrees; the range of the target is wide."""
    x = np.clip(rng.normal(size=(rows, d)) @ correlation(rng, d), -5, 5)
    signal = x @ rng.normal(size=d) + 1.5 * np.maximum(x[:, 0], 0)
    signal = signal / np.std(signal)
    y = 20 + 5 * signal + 2.5 * rng.standard_t(2.2, rows)
    columns, facts = numbers(x, -5, 5)
    return columns, facts, y, span(-50, 100)


def ill_conditioned(rng, rows, d=25):
    """Twenty-five columns of which a few directions hold nearly all variance, and the target lies along the others too."""
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    scales = 2.0 ** -np.arange(d)
    hidden = rng.normal(size=(rows, d))
    x = (hidden * np.maximum(scales, 0.02)) @ turn.T
    weights = np.zeros(d)
    weights[:8] = rng.normal(size=8)
    signal = hidden @ weights
    columns, facts = numbers(np.clip(x * 10, -40, 40), -40, 40)
    return columns, facts, *regression(rng, signal, noise=0.4)


def few_rows(rng, rows, d=20):
    """Two classes, few rows and many columns of which five matter."""
    x = np.clip(rng.normal(size=(rows, d)) @ correlation(rng, d), -4, 4)
    columns, facts = numbers(x, -4, 4)
    return columns, facts, *classes(rng, x[:, :5] @ rng.normal(size=5), slope=3.0)


def wave(rng, u):
    """A smooth function of [0, 1] with variance about ½: three waves, the faster the weaker."""
    a, phase = rng.normal(size=3) / np.arange(1, 4), rng.random(3)
    return sum(a[k] * np.cos(np.pi * (k + 1) * (u + phase[k])) for k in range(3))


def correlation(rng, d):
    """A factor that makes independent normal columns correlated, each with variance 1."""
    mix = np.eye(d) + rng.normal(size=(d, d)) * 0.5 * (rng.random((d, d)) < 0.3)
    return mix / np.linalg.norm(mix, axis=0)


def span(lower, upper):
    return {"lower": float(lower), "upper": float(upper)}


def levels(k):
    return {"levels": [f"k{i + 1}" for i in range(k)]}


def kind_names(index):
    return np.array([f"k{i + 1}" for i in index], dtype=object)


def numbers(x, lower, upper):
    names = [f"x{j + 1}" for j in range(x.shape[1])]
    return {n: x[:, j] for j, n in enumerate(names)}, {n: span(lower, upper) for n in names}


def regression(rng, signal, noise):
    """The target, its range and its noise, in units of the signal's standard deviation in this law."""
    scale = np.std(signal)
    y = 50 + 10 * (signal - np.mean(signal)) / scale + 10 * noise * rng.normal(size=len(signal))
    return y, span(0, 100)


def classes(rng, score, slope):
    """Labels with probability 1/(1 + e^-z) of the second, z the standardised score times the slope, less ½."""
    z = slope * (score - np.mean(score)) / np.std(score) - 0.5
    return kind_names((rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(int)), levels(2)


# name: family, rows of the training part, task
FAMILIES = {
    "g-smooth": (smooth, 8_000, "regression"),
    "g-smooth-few": (smooth, 800, "regression"),
    "g-map": (place, 16_000, "regression"),
    "g-product": (product, 12_000, "regression"),
    "g-heavy": (heavy, 4_000, "regression"),
    "g-ill-conditioned": (ill_conditioned, 100_000, "regression"),
    "g-forest": (forest, 10_000, "binary"),
    "g-skewed": (skewed, 3_000, "binary"),
    "g-unequal": (unequal, 20_000, "binary"),
    "g-few-rows": (few_rows, 500, "binary"),
    "g-clouds": (clouds, 4_000, "multiclass"),
    "g-letters": (letters, 12_000, "multiclass"),
}

TEST_ROWS = 5_000


def make(name, split):
    """(train, test, facts, task): columns by name with the target as `y`; a pure function of name and split."""
    family, rows, task = FAMILIES[name]
    rng = np.random.default_rng([split, *name.encode()])
    columns, facts, y, target = family(rng, rows + TEST_ROWS)
    columns, facts = columns | {"y": y}, facts | {"y": target}
    part = lambda where: {n: v[where] for n, v in columns.items()}
    return part(slice(None, rows)), part(slice(rows, None)), facts, task
