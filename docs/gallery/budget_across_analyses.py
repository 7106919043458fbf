"""One budget for several analyses of the same table: a mean, a histogram, a choice, a model. The fifth is refused."""

import os
from pathlib import Path

import dpopt
import numpy as np
from dpopt import mechanisms, plot

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(3)
n = 5000
age, visits = rng.uniform(18, 90, n), rng.poisson(3, n)
y = (age / 90 + visits / 10 + rng.normal(0, 0.2, n) > 0.9).astype(int)
ledger = dpopt.Ledger(epsilon=2.0, delta=1e-5)

mean = dpopt.MeanEstimator(epsilon=0.25, delta=1e-6, bounds=(18, 90), budget=ledger).fit(age[:, None])
print(f"mean age {mean.mean_[0]:.1f} ± {2 * mean.noise_std_[0]:.1f}")

histogram = mechanisms.histogram(np.minimum(visits, 9), range(10), epsilon=0.25, ledger=ledger)
print("visits", histogram.value)

decade = mechanisms.choose(np.bincount((age // 10).astype(int)), epsilon=0.25, monotone=True, ledger=ledger)
print("most frequent decade of age", decade.value * 10)

X = np.column_stack([age, visits])
common = {"delta": 1e-6, "bounds": ([18, 0], [90, 15]), "classes": [0, 1], "budget": ledger}
model = dpopt.LogisticRegression(epsilon=1.0, **common).fit(X, y)
print("accuracy", round(model.score(X, y), 3))

try:
    dpopt.LogisticRegression(epsilon=1.0, **common).fit(X, y)
except dpopt.BudgetExceeded as refused:
    print("refused:", refused)

print(ledger)
(out / "ledger.html").write_text(ledger._repr_html_(), encoding="utf-8")
ax = plot.privacy_curve(
    *[e.event for e in ledger.entries],
    labels=[e.name for e in ledger.entries],
    epsilons=[0.05, 0.1, 0.2, 0.3, 0.5, 1.0],
)
ax.figure.savefig(out / "budget_curves.svg")
