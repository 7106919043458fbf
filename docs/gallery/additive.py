"""A model that can be read: one function for each column, one of which is known to rise, and why one person is predicted what they are.

Run it with `python docs/gallery/additive.py`; pictures and the report go to `$DPOPT_GALLERY_OUT` (default: gallery-out).
"""

import os
from pathlib import Path

import dpopt
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dpopt import plot

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

# Made-up loans: the more debt for the income the likelier it is not paid back, and age matters in the middle.
rng = np.random.default_rng(0)
n = 8_000
loans = pd.DataFrame(
    {
        "debt_ratio": rng.beta(2, 4, n),
        "age": rng.uniform(20, 75, n),
        "home": rng.choice(["owns", "rents", "other"], n, p=[0.5, 0.4, 0.1]),
    }
)
score = 6 * loans.debt_ratio - np.exp(-(((loans.age - 48) / 10) ** 2)) + 0.8 * (loans.home == "rents") - 3
outcome = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-score)), "unpaid", "paid")

facts = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "bounds": {"debt_ratio": (0, 1), "age": (20, 75)},
    "classes": ["paid", "unpaid"],
    # both fits are of the same loans, and what they spend adds up
    "budget": dpopt.Ledger(2.0, 2e-6),
}
levels = {"home": ["owns", "rents", "other"]}
rising = {"debt_ratio": "increasing"}
free = dpopt.AdditiveClassifier(columns=dpopt.Columns(levels=levels), **facts).fit(loans, outcome)
model = dpopt.AdditiveClassifier(columns=dpopt.Columns(levels=levels, monotone=rising), **facts).fit(loans, outcome)

for shape in model.shapes():
    print(f"{' & '.join(shape.columns):<12} moves log-odds by {shape.importance:.2f} (root mean square)")

# The functions: released numbers alone. The dashed one is of the fit that did not know that risk rises with debt.
fig, axes = plt.subplots(1, 4, figsize=(15, 3.4), layout="constrained")
plot.shapes(model, columns=["debt_ratio", "age", "home"], axes=axes[:3])
plot.shape(free, "debt_ratio", ax=axes[0])
axes[0].lines[-1].set(linestyle="--", alpha=0.6)

# Why this person, of our own making?
someone = pd.DataFrame({"debt_ratio": [0.7], "age": [48.0], "home": ["rents"]})
plot.contributions(model, someone, ax=axes[3])
print(
    "chance that it is not paid back:",
    round(float(model.predict_proba(someone)[0, list(model.classes_).index("unpaid")]), 2),
)
fig.savefig(out / "additive.svg")
model.report(out / "additive.html")
