"""A person has many visits. A guarantee per row says little of such a person: what it says, and a model that protects people."""

import os
from pathlib import Path

import dpopt
import numpy as np

out = Path(os.environ.get("DPOPT_GALLERY_OUT", "gallery-out"))
out.mkdir(parents=True, exist_ok=True)

rng = np.random.default_rng(11)
people, visits = 2000, 12
person = np.repeat(np.arange(people), visits)
habits = rng.uniform(-0.8, 0.8, (people, 3))
X = np.clip(habits[person] + rng.uniform(-0.2, 0.2, (people * visits, 3)), -1, 1)
y = (X @ [1.0, -1.0, 0.5] + rng.normal(0, 0.3, len(X)) > 0).astype(int)
held_out = person >= people // 2
X_train, y_train, ids = X[~held_out], y[~held_out], person[~held_out]
facts = {"epsilon": 1.0, "delta": 1e-5, "bounds": (-1, 1), "classes": [0, 1]}

by_row = dpopt.LogisticRegression(**facts).fit(X_train, y_train)
group = dpopt.accounting.UserUnitDpEvent(visits, by_row.privacy_.event)
print("by row:    ", by_row.privacy_)
print(f"            for a person with {visits} rows that is epsilon {dpopt.accounting.epsilon(group, 1e-5):.3g}")

by_person = dpopt.LogisticRegression(**facts).fit(X_train, y_train, units=ids)
print("by person: ", by_person.privacy_)

# the same promise from a plan for rows: each may spend so little that twelve of them together keep it
as_group = dpopt.LogisticRegression(**facts, method="output-perturbation", unit=dpopt.Unit(max_rows=visits))
as_group.fit(X_train, y_train, units=ids)
for name, model in (("by row", by_row), ("by person", by_person), ("as a group of rows", as_group)):
    print(
        f"{name + ':':<20} {model.plan_.method:<24} accuracy on other people {model.score(X[held_out], y[held_out]):.3f}"
    )

# people and rows do not add up: a budget is for the one or the other
budget = dpopt.Ledger(epsilon=2.0, delta=1e-4, unit="user")
dpopt.LogisticRegression(**facts, budget=budget).fit(X_train, y_train, units=ids)
try:
    dpopt.LogisticRegression(**facts, budget=budget).fit(X_train, y_train)
except ValueError as refused:
    print("refused:", refused)
print(budget)
by_person.report(out / "people_not_rows.html")
