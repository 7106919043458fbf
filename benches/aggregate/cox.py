"""Cox regression of time on age and dose (Breslow ties), by Newton's method."""

import sys

import numpy as np

X = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1, usecols=(1, 2, 3, 4), ndmin=2)
X = X[np.argsort(-X[:, 2])]
Z, event = X[:, :2], X[:, 3] == 1
beta = np.zeros(2)
for _ in range(25):
    w = np.exp(Z @ beta)
    s0 = np.cumsum(w)
    s1 = np.cumsum(w[:, None] * Z, axis=0)
    s2 = np.cumsum(w[:, None, None] * Z[:, :, None] * Z[:, None, :], axis=0)
    mean = s1 / s0[:, None]
    gradient = (Z - mean)[event].sum(axis=0)
    information = (s2 / s0[:, None, None] - mean[:, :, None] * mean[:, None, :])[event].sum(axis=0)
    step = np.linalg.solve(information, gradient)
    beta = beta + np.clip(step, -1, 1)
    if np.abs(step).max() < 1e-10:
        break
print(*beta)
