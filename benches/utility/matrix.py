"""What the encoder gains for a matrix in Python: `python matrix.py` prints a table of means over five even splits at ε = 1.

The same matrix, the same bounds by position; the one fit keeps its columns as they are, the other encodes them as a table's numeric columns.
"""

import warnings

import dpopt
import generated
import numpy as np
import tomllib
from panel import HERE, REAL

EPSILON = 1.0
SPLITS = (2, 4, 6, 8, 10)
NAMES = ("breast-cancer", "wine", "diabetes", "g-skewed", "g-forest", "g-map")


def split_of(name, split):
    """Training and test columns with the target as `y`, their facts, and the task."""
    if name in generated.FAMILIES:
        return generated.make(name, split)
    table = REAL[name]
    frame = table.load().rename(columns={table.target: "y"})
    facts = tomllib.loads((HERE / "bounds" / f"{name}.toml").read_text())
    facts["y"] = facts.pop(table.target)
    order = np.random.default_rng(split).permutation(len(frame))
    cut = len(frame) * 4 // 5
    return frame.iloc[order[:cut]], frame.iloc[order[cut:]], facts, table.task


def scores(name, split):
    """Accuracy or R² of the plain matrix and of the encoded one."""
    train, test, facts, task = split_of(name, split)
    names = [column for column in train if column != "y"]
    matrix = lambda part: np.column_stack([part[column] for column in names]).astype(float)
    # levels that are numbers have a range too
    ends = [f["levels"] if "levels" in f else [f["lower"], f["upper"]] for f in (facts[column] for column in names)]
    lower, upper = [min(map(float, e)) for e in ends], [max(map(float, e)) for e in ends]
    if task == "regression":
        kind, target = dpopt.LinearRegression, {"target_bounds": (facts["y"]["lower"], facts["y"]["upper"])}
    else:
        kind, target = dpopt.LogisticRegression, {"classes": sorted(set(np.asarray(train["y"]).tolist()))}
    found = []
    for encoding in (None, "auto"):
        model = kind(epsilon=EPSILON, bounds=(lower, upper), encoding=encoding, **target)
        model.fit(matrix(train), np.asarray(train["y"]))
        found.append(model.score(matrix(test), np.asarray(test["y"])))
    return found


def main():
    warnings.simplefilter("ignore")
    print(
        "| table | rows × columns | `encoding=None` | default | gain, and its standard error |\n|---|---|---|---|---|"
    )
    for name in NAMES:
        pairs = np.array([scores(name, split) for split in SPLITS])
        train, _, _, _ = split_of(name, SPLITS[0])
        gain = pairs[:, 1] - pairs[:, 0]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        plain, encoded = pairs.mean(axis=0)
        shape = f"{len(np.asarray(train['y'])):,} × {len(list(train)) - 1}"
        print(f"| {name} | {shape} | {plain:.3f} | {encoded:.3f} | {gain.mean():+.3f} ± {error:.3f} |", flush=True)


if __name__ == "__main__":
    main()
