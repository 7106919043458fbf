"""What a model says of each column, and of two together: pictures of released weights.

Run it with `python docs/gallery/shapes.py`; pictures and the model go to `$DPOPT_GALLERY_OUT` (default: gallery-out).
"""

import os
from pathlib import Path

import dpopt
import numpy as np
import pandas as pd
from dpopt import plot

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

# A made-up table: middle ages say no, gains say yes, and long hours of older people say more than either.
rng = np.random.default_rng(0)
n = 20_000
work = ["private", "state", "own", "none"]
table = pd.DataFrame({
    "age": rng.integers(17, 90, n), "gain": rng.lognormal(5, 2, n).clip(0, 99_999), "hours": rng.uniform(0, 80, n),
    "work": rng.choice(work, n),
})  # fmt: skip
score = np.sin(table.age / 12) + 0.4 * np.log(table.gain) - 2 + 0.8 * (table.work == "own")
score += 2 * ((table.age > 50) & (table.hours > 40))
y = np.where(score + 0.5 * rng.logistic(size=n) > 0, "yes", "no")

model = dpopt.LogisticRegression(
    epsilon=2.0, delta=1e-6, bounds={"age": (17, 90), "gain": (0, 99_999), "hours": (0, 80)}, columns=dpopt.Columns(levels={"work": work}),
    classes=["no", "yes"],
)  # fmt: skip

# Every method, and below them the form of the encoder that the plan takes.
print(model.explain(table, y=y))

model.fit(table, y)
print(model.privacy_)

# Of released weights alone: they cost nothing, and a loaded model has them too.
model.save(out / "model.json")
axes = plot.shapes(dpopt.load(out / "model.json"), most=4, most_pairs=2)
axes[0].figure.savefig(out / "shapes.svg")
