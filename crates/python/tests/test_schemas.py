"""docs/schemas: what is written today and what earlier versions wrote is valid by them, and what readers refuse is not."""

import copy
import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dpopt
import dpopt.accounting as acc
import jsonschema
import numpy as np
import pytest
from dpopt import _core
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from test_accounting import example_of
from test_model_file import fields

ROOT = Path(__file__).parents[3]
SCHEMAS = {
    path.name.split(".")[0]: json.loads(path.read_text("utf-8")) for path in (ROOT / "docs/schemas").glob("*.json")
}
OLD = ROOT / "crates/cli/tests/old_files/2026-11-27"

pytestmark = pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")


def closed(schema):
    """The schema without fields that it does not name: what is written today has no others."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(part) for key, part in schema.items()}
    # a game has public facts of its own kind
    if schema.get("type") == "object" and "properties" in schema and "rounds" not in schema["properties"]:
        inner.setdefault("additionalProperties", False)
    return inner


def validators(schemas):
    registry = Registry().with_resources((s["$id"], DRAFT202012.create_resource(s)) for s in schemas.values())
    return {name: jsonschema.Draft202012Validator(schema, registry=registry) for name, schema in schemas.items()}


VALIDATORS = validators(SCHEMAS)
# classes of events are closed as they are; their root names what all have
CLOSED = validators({name: schema if name == "event" else closed(schema) for name, schema in SCHEMAS.items()})


def problems(name, document, among=VALIDATORS):
    return [f"{error.json_path}: {error.message[:300]}" for error in among[name].iter_errors(document)]


def valid(name, document):
    """Whether it is valid, without a list of what is not."""
    return VALIDATORS[name].is_valid(document)


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def lines(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


# --- the schemas themselves ---------------------------------------------------------------------------------------


def objects(schema, at=""):
    """All objects in a schema that describe fields, with their places."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield at, schema
        for key, part in schema.items():
            yield from objects(part, f"{at}/{key}")
    elif isinstance(schema, list):
        for index, part in enumerate(schema):
            yield from objects(part, f"{at}/{index}")


def references(schema):
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"]
        for part in schema.values():
            yield from references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_says_what_its_fields_are(name):
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"https://github.com/dpopt/dpopt/schemas/{name}-1.json" and schema["title"]
    resolver = VALIDATORS[name]._resolver
    for reference in references(schema):
        resolver.lookup(reference)
    for place, found in objects(schema):
        assert found.get("description") or place == "", place
        for field, of_field in found["properties"].items():
            described = {"description", "$ref", "const"} & set(of_field)
            assert described or field == "module_name", f"{place}: {field}"


def test_the_schemas_are_the_five():
    assert set(SCHEMAS) == {"model", "report", "event", "ledger", "plan"}


def test_the_schema_of_events_is_made_from_the_entries_of_the_library():
    import importlib.util

    spec = importlib.util.spec_from_file_location("events", ROOT / "crates/python/events.py")
    events = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(events)
    assert events.SCHEMA.read_text(encoding="utf-8") == events.schema(), "run `make options`"


#: The structs that are stored, by the places of their schemas. A flattened field has the fields of another struct.
STRUCTS = {
    "crates/dpopt/src/model/linear.rs": {"Stored": "model"},
    "crates/dpopt/src/provenance.rs": {"Provenance": "model/$defs/provenance"},
    "crates/dpopt/src/guarantee.rs": {"Guarantee": "model/$defs/guarantee", "Stage": "model/$defs/stage"},
    "crates/dpopt/src/model/reading.rs": {"Reading": "model/$defs/reading"},
    "crates/privacy/src/ledger.rs": {"Receipt": "model/$defs/receipt"},
    "crates/accounting/src/accountant.rs": {"Bound": "model/$defs/bound", "Slack": "model/$defs/slack"},
    "crates/objective/src/loss/embedding.rs": {"Embedding": "model/$defs/embedding", "Towers": "model/$defs/embedding/properties/towers"},
    "crates/data/src/encode/form.rs": {
        "EncoderSpec": "model/$defs/encoder", "PairSpec": "model/$defs/encoder/properties/pairs", "TextSpec": "model/$defs/encoder/properties/text",
        "VectorsSpec": "model/$defs/encoder/properties/text/properties/file", "NamedTarget": "model/$defs/target", "FeatureSpec": "model/$defs/feature",
    },
    "crates/dpopt/src/report.rs": {
        "Report": "report/$defs/report", "DataFacts": "report/$defs/facts", "PlannedRow": "report/$defs/candidate", "Coefficient": "report/$defs/coefficient",
        "Baseline": "report/$defs/baseline", "Score": "report/$defs/score", "Intervals": "report/$defs/intervals",
        "IntervalRow": "report/$defs/intervals/properties/rows/items",
    },
    "crates/dpopt/src/report/effects.rs": {"Effects": "report/$defs/effects", "Importance": "report/$defs/effects/properties/importance/items"},
    "crates/dpopt/src/report/ownership.rs": {"Ownership": "report/$defs/ownership"},
    "crates/dpopt/src/moment.rs": {"Moment": "report/$defs/moment", "TargetClip": "report/$defs/target_clip"},
    "crates/dpopt/src/estimate/heavy_tailed_plan.rs": {"ColumnMean": "report/$defs/column"},
    "crates/kernel/src/curator.rs": {"ReleaseRecord": "report/$defs/release"},
    "crates/privacy/src/ledger/record.rs": {"Header": "ledger/$defs/header", "Charge": "ledger/$defs/charge"},
    "crates/cli/src/explain.rs": {"Explained": "plan", "EncoderRow": "plan/$defs/encoder"},
    "crates/data/src/encoder_form.rs": {"EncoderForm": "plan/$defs/encoder", "TextForm": "plan/$defs/encoder"},
    "crates/dpopt/src/sizing.rs": {
        "Sizing": "plan/$defs/sizing", "Least": "plan/$defs/least", "Point": "plan/$defs/point", "Given": "plan/$defs/sizing/properties/given",
    },
    "crates/dpopt/src/sizing/scale.rs": {"Estimate": "plan/$defs/estimate"},
    "crates/optimize/src/plan.rs": {"Problem": "plan/$defs/problem"},
}  # fmt: skip
#: What a schema has from a flattened struct, or what is put beside a struct where it is written.
BESIDE = {
    "report/$defs/report": {"chosen", "reason"}, "report/$defs/candidate": {"method", "not_applicable"}, "report/$defs/column": {"column"},
    "ledger/$defs/header": {"check"}, "ledger/$defs/charge": {"check"}, "plan/$defs/problem": {"unit", "relation"},
}  # fmt: skip
#: Fields of structs that are flattened or not written.
NOT_WRITTEN = {
    "Report": {"selection"}, "EncoderRow": {"form", "words"}, "EncoderForm": {"text"}, "Explained": {"selection", "baseline", "layout"},
    "Problem": {"neighbours", "directions", "prior_release", "calibrated", "intervals", "record"},
}  # fmt: skip


def test_a_schema_has_the_fields_that_are_stored():
    said, stored = {}, {}
    for path, structs in STRUCTS.items():
        source = (ROOT / path).read_text(encoding="utf-8")
        for struct, place in structs.items():
            schema = SCHEMAS
            for key in place.split("/"):
                schema = schema[key]
            said[place] = set(schema["properties"])
            stored.setdefault(place, set(BESIDE.get(place, ())))
            stored[place] |= fields(source, struct) - NOT_WRITTEN.get(struct, set())
    assert stored == said


# --- events -------------------------------------------------------------------------------------------------------

CLASSES = {entry["name"]: entry for entry in json.loads(_core.event_classes())}


def accepted(document):
    """Whether the library reads an event."""
    try:
        _core.describe(json.dumps(document))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", CLASSES)
def test_the_schema_of_events_and_the_library_read_the_same(name):
    document = example_of(name).to_dict()
    assert not problems("event", document)
    assert not problems("event", {key: part for key, part in document.items() if key != "module_name"})
    wrong = [
        {**document, "nonsense": 1},
        {**document, "module_name": "elsewhere"},
        {**document, "class_name": "NoSuchDpEvent"},
    ]
    for field in CLASSES[name]["fields"]:
        if field["default"] is None:
            wrong.append({key: part for key, part in document.items() if key != field["name"]})
        if field["name"] in document:
            wrong += [{**document, field["name"]: value} for value in ("often", [[]], {"class_name": "No"}, True)]
        if field["range"] != "any" and field["name"] in document:
            many = isinstance(document[field["name"]], list)
            outside = {**document, field["name"]: [-1.0] if many else -1.0}
            assert problems("event", outside), outside
            with pytest.raises(ValueError):
                _core.certified(json.dumps(outside), 1e3, 0.5, "zero-out")
    for changed in wrong:
        assert problems("event", changed), changed
        assert not accepted(changed), changed


@pytest.mark.parametrize(
    "expression",
    ["objective(8, 8, smooth(0.25)) + gaussian(9)", "objective(8, 8, softmax(3))", "best_of(5, inf, gaussian(8))", "tree(8, 10, 20)",
     "approximate(1e-20, poisson(0.1, gaussian(2)) x 10 + laplace(3))", "discrete_gaussian(4, 2)", "users(3, gaussian(5))"],
)  # fmt: skip
def test_events_of_events_and_words_are_valid(expression):
    event = acc.parse(expression)
    assert not problems("event", event.to_dict()) and not problems("event", json.loads(event.to_json()))


def test_links_have_their_own_field_and_no_other():
    monotone = acc.parse("objective(8, 8)").to_dict()
    for wrong in ({"link": "smooth"}, {"smoothness": 1.0}, {"link": "softmax", "smoothness": 1.0}, {"link": "concave"}):
        assert problems("event", {**monotone, **wrong}) and not accepted({**monotone, **wrong})


# --- files --------------------------------------------------------------------------------------------------------


def the_command():
    sys.path.insert(0, str(ROOT / "examples" / "first_day"))
    import harness

    return harness.the_command()


#: Files by what they are, and the arguments that write them; `report` writes a report too, `plan` prints one.
TOTAL = ["--ledger", "budget.jsonl", "--total-epsilon", "50", "--total-delta", "1e-3"]
INCOME = ["--target", "income", "--bounds", "bounds.toml", "--delta", "1e-6"]
FITS = {
    "classes": ["census.csv", *INCOME, "--epsilon", "1", *TOTAL],
    "sampled": ["census.csv", *INCOME, "--epsilon", "1", "--method", "noisy-sgd", "--steps", "20"],
    "labels-found": ["census.csv", "--target", "income", "--epsilon", "4", "--delta", "1e-6", "--numeric", "age", "--bounds-budget", "0.1"],
    "several": ["census.csv", "--target", "occupation", "--bounds", "bounds.toml", "--delta", "1e-6", "--epsilon", "2"],
    "number": ["census.csv", "--target", "age", "--bounds", "bounds.toml", "--delta", "1e-6", "--epsilon", "2", *TOTAL],
    "seeded": ["census.csv", *INCOME, "--epsilon", "1", "--insecure-seed", "1"],
    "units": ["visits.csv", "--target", "outcome", "--classes", "no,yes", "--unit", "person", "--epsilon", "2", "--delta", "1e-5"],
    "embedding": ["likes.csv", "--target", "liked", "--classes", "no,yes", "--epsilon", "8", "--delta", "1e-6", "--bounds", "likes.toml",
                  "--model", "two-tower", "--user-columns", "user", "--item-columns", "item", "--embedding-dim", "4", "--steps", "10"],
    "texts": ["texts.csv", "--target", "label", "--text", "text", "--classes", "ham,spam", "--epsilon", "2", "--delta", "1e-4",
              "--public-vectors", "vectors.txt"],
}  # fmt: skip
PLANS = {
    "classes": ["census.csv", *INCOME, "--epsilon", "1"],
    "number": ["census.csv", "--target", "age", "--bounds", "bounds.toml", "--epsilon", "1"],
    "units": FITS["units"],
    "texts": FITS["texts"],
    "without a table": ["--rows", "20000", "--features", "50", "--epsilon", "1", "--max-nonzeros", "5"],
    "a goal": ["census.csv", *INCOME, "--accuracy", "0.8", "--best", "0.85"],
    "a goal in rows": ["--features", "50", "--epsilon", "1", "--loss-points", "2"],
    "a goal for a number": [
        "census.csv",
        "--target",
        "age",
        "--bounds",
        "bounds.toml",
        "--epsilon",
        "1",
        "--error",
        "15",
        "--best",
        "12",
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of tables, and what the command line makes of them."""
    folder = tmp_path_factory.mktemp("written")
    command = the_command()

    def run(*arguments, told=None):
        done = subprocess.run(
            [command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, input=told,
            env={**os.environ, "RAYON_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    run("generate", "census", "--rows", "1500", "--seed", "1", "-o", "census.csv")
    visits = [f"0.{visit}3,p{i},{'yes' if i % 2 else 'no'}" for visit in range(4) for i in range(300) if visit <= i % 5]
    (folder / "visits.csv").write_text("\n".join(["x,person,outcome", *visits]) + "\n")
    likes = [f"u{i % 12},i{i % 5},{'yes' if (i % 12 + i % 5) % 2 else 'no'}" for i in range(2000)]
    (folder / "likes.csv").write_text("\n".join(["user,item,liked", *likes]) + "\n")
    levels = lambda letter, n: ", ".join(f"'{letter}{k}'" for k in range(n))  # noqa: E731
    (folder / "likes.toml").write_text(f"[user]\nlevels = [{levels('u', 12)}]\n[item]\nlevels = [{levels('i', 5)}]\n")
    texts = [f"win the prize {i},spam" if i % 2 else f"see you for lunch at {i % 12},ham" for i in range(600)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *texts]) + "\n")
    (folder / "vectors.txt").write_text("the 1 0 2\nprize 0 2 1\nlunch 0 1 3\nwin 1 1 3\nsee 2 0 0\n")
    (folder / "sparse.libsvm").write_text("".join(f"1 {1 + i % 7}:0.5 {20 + i % 3}:0.5\n" for i in range(2000)))
    for name, arguments in FITS.items():
        run("fit", *arguments, "-o", f"{name}.model.json", "--report", f"{name}.report.json", "--quiet")
    for name, arguments in PLANS.items():
        (folder / f"{name}.plan.json").write_text(run("explain", *arguments, "--json"))
    mean = ["--epsilon", "2", "--delta", "1e-6", "--quiet"]
    run(
        "mean",
        "census.csv",
        "--of",
        "age",
        "--moment",
        "2:60",
        *mean,
        *TOTAL,
        "-o",
        "means.json",
        "--report",
        "means.report.json",
    )
    run(
        "mean",
        "sparse.libsvm",
        "--features",
        "30",
        "--sparsity",
        "2",
        *mean,
        "-o",
        "mean.json",
        "--report",
        "mean.report.json",
    )
    rounds = "".join(f"[0.{i % 10}, 0.{i * 3 % 10}, 0.5]\n" for i in range(20))
    game = ["--experts", "3", "--rounds", "20", "--epsilon", "2", "--delta", "1e-4", "--quiet"]
    run("online", "experts", *game, "--guarantee", "game.json", told=rounds)
    if os.name != "nt":
        program = "awk -F, 'NR > 1 {s += $1} END {print s / (NR - 1)}' {group}"
        terms = [
            "--groups",
            "60",
            "--range",
            "0:100",
            "--radius",
            "0.5",
            "--epsilon",
            "8",
            "--delta",
            "1e-6",
            "--quiet",
        ]
        run(
            "aggregate",
            "visits.csv",
            "--command",
            program,
            *terms,
            "-o",
            "aggregate.json",
            "--report",
            "aggregate.report.json",
        )
    return folder


def test_what_the_command_line_writes_is_valid(folder):
    written = {"model": 0, "report": 0, "plan": 0}
    for path in sorted(folder.glob("*.json")):
        kind = path.name.split(".")[-2] if path.name.count(".") == 2 else "report"
        document = read(path)
        assert not problems(kind, document, CLOSED), path.name
        if kind != "plan":
            assert document["provenance"] == dpopt.provenance(), path.name
        written[kind] += 1
    assert written["model"] == len(FITS) and written["plan"] == len(PLANS) and written["report"] >= len(FITS) + 5
    charged = lines(folder / "budget.jsonl")
    assert len(charged) == 4 and not [p for line in charged for p in problems("ledger", line, CLOSED)]


def test_what_python_writes_is_valid(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.uniform(18, 80, 1000), "job": rng.choice(["a", "b"], 1000), "on": pd.Timestamp("2026-01-01")}
    )
    ledger = dpopt.Ledger(20.0, 1e-4, path=tmp_path / "budget.jsonl", unit="job")
    days = (datetime.date(2026, 1, 1), datetime.date(2026, 12, 31))
    said = {"epsilon": 2.0, "delta": 1e-6, "bounds": {"age": (18, 80), "on": days}}
    classes = dpopt.LogisticRegression(**said, classes=["no", "yes"], columns=dpopt.Columns(levels={"job": ["a", "b"]}))
    number = dpopt.LinearRegression(**said, target_bounds=(0, 2), columns=dpopt.Columns(hashed=["job"]))
    classes.fit(table, np.where(table["age"] > 40, "yes", "no")).save(tmp_path / "classes.json")
    number.fit(table, rng.uniform(0, 2, 1000)).save(tmp_path / "number.json")
    for name in ("classes", "number"):
        document = read(tmp_path / f"{name}.json")
        assert not problems("model", document, CLOSED) and document["provenance"] == dpopt.provenance()
    assert "dpopt " + dpopt.__version__ in classes.report() and dpopt.provenance()["target"] in classes.report()
    for event in (classes.privacy_.event, number.privacy_.event):
        assert not problems("event", event.to_dict())
    ledger.charge("by hand", acc.GaussianDpEvent(5.0), epsilon=1.0, delta=1e-6)
    assert not [p for line in lines(tmp_path / "budget.jsonl") for p in problems("ledger", line, CLOSED)]


def test_what_earlier_versions_wrote_is_valid():
    for name in ("labels", "sampled", "several", "number", "charged", "charged-again"):
        assert not problems("model", read(OLD / f"{name}.json")), name
    for name in ("number.report", "mean", "game"):
        assert not problems("report", read(OLD / f"{name}.json")), name
    assert not [p for line in lines(OLD / "ledger.jsonl") for p in problems("ledger", line)]


# --- what is not valid --------------------------------------------------------------------------------------------


def mutations(document):
    """Copies with one change: an unknown field, a field of another type, a field left out; with what was changed. Long lists are changed at their first entry."""

    def places(part, path=()):
        if isinstance(part, dict):
            for key, value in part.items():
                yield (*path, key)
                yield from places(value, (*path, key))
        elif isinstance(part, list) and part:
            yield from places(part[0], (*path, 0))

    def changed(path, change):
        copied = copy.deepcopy(document)
        part = copied
        for key in path[:-1]:
            part = part[key]
        change(part, path[-1])
        return copied

    yield ("unknown", ()), {**document, "nonsense": 1}
    for path in places(document):
        if "schedule" in path:
            continue
        value = document
        for key in path:
            value = value[key]
        other = "other" if isinstance(value, (dict, list)) else {"other": 1}
        yield ("type", path), changed(path, lambda part, key, other=other: part.update({key: other}))
        yield ("left out", path), changed(path, lambda part, key: part.pop(key))
        if isinstance(value, dict):
            yield ("unknown", path), changed(path, lambda part, key: part[key].update(nonsense=1))


def with_a_small_event(document):
    """The document with one stage, of one event: events have tests of their own."""
    stage = {**document["guarantee"]["stages"][0], "event": acc.GaussianDpEvent(1.0).to_dict()}
    return {**document, "guarantee": {**document["guarantee"], "stages": [stage]}}


#: Parts of a file in which readers pass over what they do not know: what an accountant says of itself.
OPEN = ("bound",)


def test_models_that_are_changed_are_refused_by_schema_and_library_alike(folder, tmp_path):
    kinds, path = set(), tmp_path / "changed.json"
    for name in ("classes", "embedding"):
        for (kind, place), changed in mutations(with_a_small_event(read(folder / f"{name}.model.json"))):
            path.write_text(json.dumps(changed))
            try:
                _core.TableModel.load(str(path), None)
                refused = ""
            except ValueError as error:
                refused = str(error)
            said = not valid("model", changed)
            if said:
                assert refused, f"{kind} {place}: the library reads what is not valid: {problems('model', changed)}"
            elif re.search("a field is missing, unknown or of another type", refused):
                raise AssertionError(f"{kind} {place}: valid, but refused: {refused}")
            if kind == "type" or (kind == "unknown" and not set(OPEN) & set(place)):
                assert said, f"{kind} {place}"
            kinds.add((kind, said))
    assert {("type", True), ("unknown", True), ("left out", True)} <= kinds


@pytest.mark.parametrize(
    ("schema", "name", "needed"),
    [
        (
            "report",
            "classes.report.json",
            ("answer", "software", "facts", "guarantee", "candidates", "coefficients", "planning_seconds"),
        ),
        ("report", "means.json", ("columns", "confidence", "guarantee")),
        ("report", "mean.json", ("indices", "values", "error_bound", "guarantee")),
        ("report", "game.json", ("game", "guarantee")),
        ("plan", "classes.plan.json", ("epsilon", "delta", "problem", "candidates", "weights", "warnings")),
    ],
)
def test_reports_and_plans_that_are_changed_are_not_valid(folder, schema, name, needed):
    document = read(folder / name)
    if "guarantee" in document:
        document = with_a_small_event(document)
    # what is said of single weights is the same for each
    for key in ("effects", "releases", "coefficients", "candidates"):
        if isinstance(document.get(key), list):
            document[key] = document[key][:1]
    document.pop("effects", None)
    assert not problems(schema, document)
    for field in needed:
        assert not valid(schema, {key: part for key, part in document.items() if key != field}), field
    for (kind, place), changed in mutations(document):
        within = place and place[0] in ("guarantee", "receipt", "provenance") and not set(OPEN) & set(place)
        if (kind == "type" and "game" not in place[:-1]) or (kind == "unknown" and within):
            assert not valid(schema, changed), f"{kind} {place}"


def test_lines_of_ledgers_that_are_changed_are_not_valid(folder):
    header, charge = lines(folder / "budget.jsonl")[:2]
    for line in (header, charge):
        for (kind, place), changed in mutations(line):
            optional = kind == "left out" and (place[-1] in ("module_name", "smoothness") or "event" in place[:-1])
            assert optional or not valid("ledger", changed), f"{kind} {place}"
    assert problems("ledger", {**charge, "check": "z" * 16}) and problems("ledger", {**charge, "charge": 0})
    assert problems("ledger", {**header, "version": 2}) and problems("ledger", {**header, "rule": "sum"})
