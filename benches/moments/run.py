"""Naive Bayes, scalers and principal components from released moments: dpopt beside diffprivlib on the same rows and bounds.

    DPOPT_DATA=FOLDER python run.py [splits]      # the folder that holds adult/adult.csv

Both tools get the same public bounds: of digits the grey levels 0 to 16, of breast cancer the table in the data set's description, of adult (its six numeric
columns) the census codebook. diffprivlib's guarantee is pure epsilon; dpopt's has delta = 1/n^1.1 besides. A line for each task, data set and epsilon, then Markdown.
"""

import os
import pathlib
import re
import sys
import time
import warnings

import diffprivlib
import diffprivlib.models as peer
import dpopt
import numpy as np
import pandas as pd
import sklearn
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

EPSILONS = (0.1, 1.0, 4.0)
COMPONENTS = 5
CODEBOOK = {
    "age": (17, 90), "fnlwgt": (0, 1_500_000), "education_num": (1, 16), "capital_gain": (0, 99_999), "capital_loss": (0, 4356),
    "hours_per_week": (1, 99),
}  # fmt: skip
RELATIONS = ("zero-out", "replace-one")


def described(data):
    """The ranges in the table of a data set's description, in the order of its features."""
    found = re.findall(r"^ *([a-z ]+?(?: \([a-z ]+\))?): +([\d.]+) +([\d.]+)$", data.DESCR, re.MULTILINE)
    kinds = {"mean": "mean {}", "standard error": "{} error", "worst": "worst {}"}
    ranges = {}
    for name, low, high in found:
        feature, kind = re.match(r"(.*) \((.*)\)", name).groups()
        ranges[kinds[kind].format(feature)] = (float(low), float(high))
    return np.array([ranges[name] for name in data.feature_names]).T


def tables():
    cancer = datasets.load_breast_cancer()
    yield "breast cancer", cancer.data, cancer.target, described(cancer)
    digits = datasets.load_digits()
    yield "digits", digits.data, digits.target, np.array([[0.0] * 64, [16.0] * 64])
    adult = pd.read_csv(pathlib.Path(os.environ["DPOPT_DATA"]) / "adult" / "adult.csv", skipinitialspace=True)
    y = (adult["income"].astype(str).str.strip() == ">50K").to_numpy(int)
    yield "adult", adult[list(CODEBOOK)].to_numpy(float), y, np.array(list(CODEBOOK.values()), dtype=float).T


def naive_bayes(train, y, test, truth, bounds, epsilon, seed):
    """Accuracies."""
    classes = list(range(int(y.max()) + 1))
    made = peer.GaussianNB(epsilon=epsilon, bounds=tuple(bounds), random_state=seed).fit(train, y)
    found = {"diffprivlib": made.score(test, truth)}
    for relation in RELATIONS:
        model = dpopt.GaussianNB(
            epsilon=epsilon, bounds=tuple(bounds), classes=classes, neighbors=relation, insecure_seed=seed
        )
        found[f"dpopt, {relation}"] = model.fit(train, y).score(test, truth)
    found["no privacy"] = GaussianNB().fit(train, y).score(test, truth)
    return found


def scaler(train, y, test, truth, bounds, epsilon, seed):
    """Mean over columns of |Δmean| and |Δσ|, over σ, both in one number: their mean."""
    mean, std = train.mean(axis=0), train.std(axis=0)
    used = std > 0

    def off(model):
        return 0.5 * float(np.mean((np.abs(model.mean_ - mean) + np.abs(model.scale_ - std))[used] / std[used]))

    found = {
        "diffprivlib": off(peer.StandardScaler(epsilon=epsilon, bounds=tuple(bounds), random_state=seed).fit(train))
    }
    for relation in RELATIONS:
        model = dpopt.PrivateScaler(epsilon=epsilon, bounds=tuple(bounds), neighbors=relation, insecure_seed=seed)
        found[f"dpopt, {relation}"] = off(model.fit(train))
    return found


def components(train, y, test, truth, bounds, epsilon, seed):
    """Variance of the test rows along the released components, over that along the exact ones. Columns are scaled to [−1, 1] by their bounds."""
    lower, upper = bounds
    train, test = (2 * (np.clip(part, lower, upper) - lower) / (upper - lower) - 1 for part in (train, test))
    d = train.shape[1]
    covariance = np.cov(test, rowvar=False)

    def along(model):
        # an orthonormal basis of what the components span
        basis = np.linalg.qr(model.components_.T)[0]
        return float(np.trace(basis.T @ covariance @ basis))

    exact = along(PCA(COMPONENTS).fit(train))
    box = (-np.ones(d), np.ones(d))
    made = peer.PCA(COMPONENTS, epsilon=epsilon, bounds=box, data_norm=float(np.sqrt(d)), random_state=seed)
    found = {"diffprivlib": along(made.fit(train)) / exact}
    for relation in RELATIONS:
        model = dpopt.PCA(COMPONENTS, epsilon=epsilon, bounds=(-1, 1), neighbors=relation, insecure_seed=seed).fit(
            train
        )
        found[f"dpopt, {relation}"] = along(model) / exact
    return found


TASKS = {"GaussianNB": naive_bayes, "scaler": scaler, "PCA": components}


def shown(values):
    # a mean of numbers of which one is huge says nothing: the median beside it
    mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.3f} ± {error:.3f}" if abs(mean) < 100 else f"{mean:.1e} (median {np.median(values):.2g})"


def main():
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    warnings.simplefilter("ignore")
    print(
        f"dpopt {dpopt.__version__}, diffprivlib {diffprivlib.__version__}, scikit-learn {sklearn.__version__}, {splits} splits"
    )
    data = list(tables())
    for task, run in TASKS.items():
        rows = []
        for name, X, y, bounds in data:
            for epsilon in EPSILONS:
                start, found = time.perf_counter(), {}
                for seed in range(splits):
                    train, test, of_train, of_test = train_test_split(X, y, test_size=0.2, random_state=seed)
                    for tool, score in run(train, of_train, test, of_test, bounds, epsilon, seed).items():
                        found.setdefault(tool, []).append(score)
                rows.append((f"{name}, {epsilon:g}", found))
                print(
                    task,
                    rows[-1][0],
                    {tool: shown(v) for tool, v in found.items()},
                    f"{time.perf_counter() - start:.1f} s",
                    flush=True,
                )
        tools = list(rows[0][1])
        print("\n| " + " | ".join([f"{task}: data, ε", *tools]) + " |\n|" + "---|" * (len(tools) + 1))
        for name, found in rows:
            print("| " + " | ".join([name, *(shown(found[tool]) for tool in tools)]) + " |")
        print()


if __name__ == "__main__":
    main()
