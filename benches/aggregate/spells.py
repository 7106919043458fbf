"""Persons with several spells each: times to an event, censored at the end of follow-up, with a frailty of each person."""

import sys

import numpy as np

persons, seed, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rng = np.random.default_rng(seed)
spells = rng.integers(2, 9, persons)
who = np.repeat(np.arange(persons), spells)
age = np.repeat(rng.normal(0, 1, persons), spells)
dose = rng.normal(0, 1, len(who))
frailty = np.repeat(np.exp(rng.normal(0, 0.5, persons)), spells)
rate = 0.5 * frailty * np.exp(0.4 * age - 0.6 * dose)
time = rng.exponential(1 / rate)
end = rng.uniform(0.5, 4.0, len(who))
with open(path, "w") as f:
    f.write("person,age,dose,time,event\n")
    for w, a, d, t, e in zip(who, age, dose, np.minimum(time, end), time <= end):
        f.write(f"p{w},{a:.4f},{d:.4f},{t:.5f},{int(e)}\n")
