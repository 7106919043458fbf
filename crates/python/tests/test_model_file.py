"""docs/model-file.md names every field of a model's file."""

import json
import re
from pathlib import Path

import dpopt
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "model-file.md"
#: What is stored, by the file that says so.
STORED = {
    "crates/dpopt/src/model/linear.rs": ["Stored"],
    "crates/dpopt/src/guarantee.rs": ["Guarantee", "Stage"],
    "crates/privacy/src/ledger.rs": ["Receipt"],
    "crates/objective/src/loss/embedding.rs": ["Embedding", "Towers"],
    "crates/data/src/encode/form.rs": [
        "EncoderSpec",
        "PairSpec",
        "TextSpec",
        "VectorsSpec",
        "NamedTarget",
        "FeatureSpec",
    ],
}


def named():
    return set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))


def fields(source, struct):
    """Names of a struct's fields as they are stored."""
    body = re.search(rf"struct {struct}\b[^{{]*\{{(.*?)^\}}", source, re.S | re.M)
    assert body, struct
    found = re.findall(
        r"(?:#\[serde\(rename = \"(\w+)\"\)\]\s*)?^    (?:pub(?:\([a-z]+\))? )?(\w+): ", body.group(1), re.M
    )
    assert found, struct
    return {renamed or name for renamed, name in found}


def test_every_stored_field_is_on_the_page():
    missing = {
        f"{struct}.{field}"
        for path, structs in STORED.items()
        for struct in structs
        for field in fields((ROOT / path).read_text(), struct) - named()
    }
    assert not missing, f"docs/model-file.md does not say what these are: {sorted(missing)}"


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_every_key_of_a_file_is_on_the_page(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.uniform(18, 80, 2000), "job": rng.choice(["a", "b"], 2000), "city": rng.choice(["x", "y"], 2000),
         "note": rng.choice(["good day", "bad day"], 2000), "paid": rng.uniform(0, 9, 2000)}
    )  # fmt: skip
    ledger = dpopt.Ledger(4.0, 1e-5, path=tmp_path / "budget.jsonl")
    model = dpopt.LogisticRegression(
        epsilon=2.0,
        delta=1e-6,
        bounds={"age": (18, 80), "paid": (0, 9)},
        classes=["no", "yes"],
        budget=ledger,
        columns=dpopt.Columns(levels={"job": ["a", "b"]}, hashed=["city"], text=["note"]),
    ).fit(table, np.where(table["age"] > 40, "yes", "no"))
    model.save(tmp_path / "model.json")

    def keys(part, within=""):
        if isinstance(part, dict):
            for key, value in part.items():
                # an event has the fields of its class, a bound those of its accountant
                yield key
                if key not in ("event", "bound"):
                    yield from keys(value, key)
        elif isinstance(part, list):
            for value in part:
                yield from keys(value, within)

    stored = set(keys(json.loads((tmp_path / "model.json").read_text())))
    assert {"receipt", "text", "hashed", "categorical"} <= stored
    assert stored <= named(), stored - named()


LIST = """
format = "dpopt-recalls"
version = 1
date = "2027-01-10"
[[recall]]
id = "DPOPT-2027-001"
date = "2027-01-09"
summary = "An invented fault."
follows = "Fit again."
effect = "grade"
files = ["model", "ledger"]
"""


def test_known_faults_of_models_and_ledgers(tmp_path):
    old = ROOT / "crates" / "cli" / "tests" / "old_files" / "2026-11-27"
    newer, ledger = tmp_path / "recalls.toml", tmp_path / "budget.jsonl"
    newer.write_text(LIST)
    ledger.write_bytes((old / "ledger.jsonl").read_bytes())
    # what may concern it is no warning
    dpopt.load(old / "number.json")
    with pytest.warns(dpopt.PrivacyWarning, match=r"DPOPT-2027-001 \(concerns this file\): An invented fault\."):
        dpopt.load(old / "number.json", recalls=newer)
    found = {recall["id"]: recall for recall in dpopt.Ledger.open(ledger).recalls(newer)}
    assert [charge["concern"] for charge in found["DPOPT-2027-001"]["charges"]] == ["certain", "certain"]
    assert "DPOPT-2027-001" not in {recall["id"] for recall in dpopt.Ledger.open(ledger).recalls()}
    newer.write_text("Zx7731977 = 1\n")
    with pytest.raises(ValueError, match="not a list of recalls") as refused:
        dpopt.load(old / "number.json", recalls=newer)
    assert "7731977" not in str(refused.value)


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_labels_of_a_file_are_values_of_python_where_they_are_given(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    y = (X[:, 0] > 0).astype(int)
    facts = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1)}
    model, path = dpopt.LogisticRegression(**facts, classes=[0, 1]).fit(X, y), tmp_path / "model.json"
    model.save(path)
    assert dpopt.load(path).classes_.tolist() == ["0", "1"]
    for classes in ([0, 1], [1, 0], np.array([0, 1])):
        loaded = dpopt.load(path, classes=classes)
        assert loaded.classes_.tolist() == [0, 1]
        assert np.array_equal(loaded.predict(X), model.predict(X)) and loaded.score(X, y) == model.score(X, y)
    for wrong in ([0], [0, 1, 1], [0, 2]):
        with pytest.raises(ValueError, match="they are '0', '1'"):
            dpopt.load(path, classes=wrong)
    dpopt.LinearRegression(**facts, target_bounds=(0, 1)).fit(X, y).save(path)
    with pytest.raises(ValueError, match="predicts a number"):
        dpopt.load(path, classes=[0, 1])
