"""Choosing ε: accuracy against ε on *public* (here: made-up) data of the same shape, never on the private table.

Every fit on the private table costs; a simulated table with the same facts costs nothing.
"""

import os
from pathlib import Path

import dpopt
import numpy as np
from dpopt import plot
from sklearn.linear_model import LogisticRegression

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)
small = "DPOPT_GALLERY_SMALL" in os.environ
n, repetitions = (2000, 3) if small else (10_000, 10)

rng = np.random.default_rng(1)
X = rng.uniform(-1, 1, (2 * n, 5))
y = (X @ [2.0, -1.0, 0.5, 0.0, 0.0] + rng.normal(0, 0.5, 2 * n) > 0).astype(int)
train, test = slice(0, n), slice(n, None)

results = {}
for epsilon in (0.05, 0.1, 0.3, 1.0, 3.0):
    # a linear model, as the one without privacy that it is held against
    model = dpopt.LogisticRegression(epsilon=epsilon, delta=1e-6, bounds=(-1, 1), classes=[0, 1], encoding=None)
    results[epsilon] = [model.fit(X[train], y[train]).score(X[test], y[test]) for _ in range(repetitions)]
    print(f"epsilon {epsilon:<5} accuracy {np.mean(results[epsilon]):.3f}")

baseline = LogisticRegression().fit(X[train], y[train]).score(X[test], y[test])
plot.accuracy_against_epsilon(results, baseline=baseline).figure.savefig(out / "choosing_epsilon.svg")
