"""How long until it happens, when many are still waiting at the end: hazard ratios and survival curves.

Run it with `python docs/gallery/survival.py`; the picture and the report go to `$DPOPT_GALLERY_OUT` (default: gallery-out).
"""

import os
from pathlib import Path

import dpopt
import numpy as np
import pandas as pd
from dpopt import plot
from sklearn.model_selection import train_test_split

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

# A made-up cohort: age raises the hazard, treatment halves it, and half of the patients are lost to sight before their event.
rng = np.random.default_rng(0)
n = 12_000
patients = pd.DataFrame({"age": rng.uniform(40, 90, n), "treated": rng.integers(0, 2, n), "bmi": rng.normal(27, 4, n)})
hazard = 0.25 * np.exp((patients.age - 65) / 18 - 0.7 * patients.treated)
event, lost = rng.exponential(1 / hazard), rng.uniform(0.5, 9, n)
y = dpopt.survival(time=np.minimum(event, lost), event=event <= lost)

known, new, y_known, y_new = train_test_split(patients, y, random_state=0)
model = dpopt.CoxRegressor(
    epsilon=1.0, delta=1e-6, horizon=8.0, bounds={"age": (40, 90), "treated": (0, 1), "bmi": (15, 45)}
)

# What it will take and release, before a record is read.
print(model.explain(known))

model.fit(known, y_known)
print(model.privacy_)
print("hazard ratio of treatment:", round(float(np.exp(model.coef_[1])), 2))
print("concordance on new patients:", round(model.score(new, y_new), 3))

# Curves of patients of our own making: released numbers alone, so they cost nothing.
someone = pd.DataFrame({"age": [50, 75, 75], "treated": [1, 1, 0], "bmi": [27.0, 27.0, 27.0]})
print("half of such patients have had it after:", model.predict_median(someone).round(1))
ax = plot.survival_curves(model, someone, labels=["50, treated", "75, treated", "75, not treated"])
ax.figure.savefig(out / "survival.svg")
model.report(out / "survival.html")
