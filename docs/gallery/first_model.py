"""First model: plan, fit, look at the guarantee, write the report.

Run it with `python docs/gallery/first_model.py`; pictures and the report go to `$DPOPT_GALLERY_OUT` (default: gallery-out).
"""

import os
from pathlib import Path

import dpopt
import numpy as np
import pandas as pd
from dpopt import plot

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

# A table of people: age, years of education, hours per week. The ranges are common knowledge, not read off the table.
rng = np.random.default_rng(0)
n = 20_000
X = pd.DataFrame({
    "age (decades)": rng.uniform(1.8, 8, n), "school (years)": rng.integers(1, 17, n), "work (10 h/week)": rng.uniform(0, 8, n),
})  # fmt: skip
logit = X.to_numpy() @ [0.4, 0.35, 0.5] - 7
y = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-logit)), ">50K", "<=50K")

# One coefficient for each column, to be read: encoding=None. By default columns are encoded, which is as good or better where the truth is no line.
model = dpopt.LogisticRegression(
    epsilon=1.0, delta=1e-6, bounds=([1.8, 1, 0], [8, 16, 8]), classes=["<=50K", ">50K"], encoding=None
)

# Before any record is read: every method, its noise, its predicted error, its certified guarantee.
print(model.explain(n_rows=n, n_features=3))

model.fit(X, y)
print(model.privacy_)
print(
    "accuracy", round(model.score(X, y), 3), "(of the training table; a published number would be a release of its own)"
)

plot.coefficient_intervals(model).figure.savefig(out / "first_model_coefficients.svg")
plot.privacy_curve(model, epsilons=np.linspace(0.1, 1.5, 15)).figure.savefig(out / "first_model_privacy.svg")
model.report(out / "first_model_report.html", source="a made-up table of people", target="income")
