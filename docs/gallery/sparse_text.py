"""Sparse text: words are hashed (a vocabulary would be a release), rows stay sparse from end to end."""

import os
from pathlib import Path

import dpopt
import numpy as np
from dpopt import plot
from sklearn.pipeline import make_pipeline

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

# Reviews: two telling words among six that say nothing. In practice `texts` is a column of a table.
rng = np.random.default_rng(2)
good, bad, other = ["great", "love", "perfect"], ["awful", "broken", "refund"], [f"word{i}" for i in range(200)]
n = 4000
y = rng.integers(0, 2, n)
texts = [" ".join([*rng.choice(good if label else bad, 2), *rng.choice(other, 6)]) for label in y]

# A row is a bag of at most eight or so hashed words: its norm is about the root of their number, √8 < 3. That is a fact about
# reviews, not about these reviews; longer rows are clipped.
model = make_pipeline(
    dpopt.HashingEncoder(n_features=2**9, text=True),
    dpopt.LogisticRegression(epsilon=2.0, delta=1e-6, row_norm=3.0, classes=[0, 1], fit_intercept=False),
)
model.fit(texts, y)
print("accuracy", round(model.score(texts, y), 3))
print(model[-1].plan_)

# What would many small steps cost? DP-SGD reads a batch at a time; ε grows slowly with the number of steps.
steps = [1, 3, 10, 30, 100, 200, 300]
ax = plot.epsilon_over_steps(
    "poisson(0.02, gaussian(1.0))", steps, delta=1e-6, label="batches of 2 %, noise multiplier 1"
)
plot.epsilon_over_steps(
    "poisson(0.02, gaussian(2.0))", steps, delta=1e-6, label="batches of 2 %, noise multiplier 2", ax=ax
)
ax.figure.savefig(out / "sparse_text_epsilon_over_steps.svg")
