"""Plain features for tools without an encoder of their own, from the same public facts: nothing is read off the rows.

Numbers lie in [-1, 1] by their range, levels are one-hot with a column for any other value, hashed columns have 256 slots, text is
scikit-learn's HashingVectorizer with 4,096 slots. A missing number is the middle of its range.
"""

import math
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd
import tomllib

HASHED, TEXT = 256, 4096


class NotFor(Exception):
    """A tool that has no answer to this kind of table, and why."""


@dataclass
class Columns:
    """A split as arrays. `x` is bounded by 1 in every entry, y is a class's index or the number in its own units."""

    facts: dict
    target: dict
    names: list
    train: pd.DataFrame
    test: pd.DataFrame
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    # the largest l2 norm that a row can have, whatever it holds
    norm: float

    @property
    def lower(self):
        return self.target["lower"]

    @property
    def upper(self):
        return self.target["upper"]

    def scaled(self):
        """The target in [-1, 1] by its public range."""
        clipped = np.clip(self.y, self.lower, self.upper)
        return (clipped - self.lower) / (self.upper - self.lower) * 2 - 1

    def unscaled(self, z):
        return self.lower + (np.clip(z, -1, 1) + 1) / 2 * (self.upper - self.lower)


def read(place, about):
    facts = tomllib.loads((place / "bounds.toml").read_text())
    facts.pop("dpopt", None)
    target = facts.pop(about["target"])
    parts = [
        # texts as they are, so that a level "1" is no number
        pd.read_csv(place / f"{part}.csv", dtype=str, keep_default_na=False)
        for part in ("train", "test")
    ]
    used = [n for n in parts[0].columns if n != about["target"] and not facts[n].get("ignore")]
    encoded = [features(table, used, facts) for table in parts]
    answers = [answer(table[about["target"]], target) for table in parts]
    # a text is one unit vector; every other column has one entry of at most 1, hashed or one-hot or a number
    norm = math.sqrt(len(used))
    train, test = (typed(table[used], facts) for table in parts)
    return Columns(facts, target, used, train, test, encoded[0], answers[0], encoded[1], answers[1], norm)


def answer(cells, fact):
    if "levels" in fact:
        index = {level: i for i, level in enumerate(fact["levels"])}
        return np.array([index[c] for c in cells])
    return cells.astype(float).to_numpy()


def typed(table, facts):
    """Numbers as numbers, everything else as text."""
    number = lambda c: pd.to_numeric(table[c], errors="coerce") if "lower" in facts[c] else table[c]
    return pd.DataFrame({c: number(c) for c in table.columns})


def features(table, names, facts):
    return np.concatenate([block(table[n], facts[n]) for n in names], axis=1).astype(np.float32)


def block(cells, fact):
    n = len(cells)
    if "lower" in fact:
        lower, upper = fact["lower"], fact["upper"]
        values = pd.to_numeric(cells, errors="coerce").to_numpy(float)
        values = np.clip(np.where(np.isnan(values), np.nan, values), lower, upper)
        if logarithmic(fact):
            values, lower, upper = np.log1p(values - lower), 0.0, math.log1p(upper - lower)
        return np.nan_to_num((values - lower) / (upper - lower) * 2 - 1, nan=0.0)[:, None]
    if fact.get("text"):
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(n_features=TEXT, norm="l2", alternate_sign=False).transform(cells).toarray()
    if fact.get("hash"):
        slot, width = np.array([zlib.crc32(c.encode()) % HASHED for c in cells]), HASHED
    else:
        index = {level: i for i, level in enumerate(fact["levels"])}
        slot, width = np.array([index.get(c, len(index)) for c in cells]), len(index) + 1
    out = np.zeros((n, width))
    out[np.arange(n), slot] = 1
    return out


def logarithmic(fact):
    """The bounds file's `transform = "auto"`, so that every tool has what it says."""
    kind = fact.get("transform", "auto")
    return kind == "log" or kind == "auto" and fact["lower"] >= 0 and fact["upper"] >= 1000 * max(fact["lower"], 1)


def accuracy_or_r2(task, truth, guess):
    if task == "regression":
        return float(1 - np.sum((truth - guess) ** 2) / np.sum((truth - np.mean(truth)) ** 2))
    return float(np.mean(truth == guess))


def baseline(task, columns):
    """What answering the same for everybody scores: the most frequent class, or the mean, of the training rows."""
    if task == "regression":
        return accuracy_or_r2(task, columns.test_y, np.full(len(columns.test_y), columns.y.mean()))
    return float(np.mean(columns.test_y == np.bincount(columns.y).argmax()))
