"""What is made from the library's table of events: the classes in `_events.py` and `docs/schemas/event.schema.json`. `make options` runs it."""

import json
from pathlib import Path

from dpopt import _core

TARGET = Path(__file__).parent / "python" / "dpopt" / "_events.py"
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "event.schema.json"
BEGIN = "# Made by `make options` from the library's table of events: one class per entry.\n"
END = "# What follows is written by hand.\n"
#: The library's kinds of fields as types.
TYPES = {
    "real": "float",
    "whole": "int",
    "word": "str",
    "event": "DpEvent",
    "reals": "Sequence[float]",
    "wholes": "Sequence[int] | int",
    "events": "Sequence[DpEvent]",
    "real or none": "float | None",
    "whole or none": "int | None",
}
OWN = "dpopt.event"

IDENTITY = "https://github.com/dpopt/dpopt/schemas/event-1.json"
ANY_EVENT = {"$ref": "#"}
#: The library's kinds of fields as JSON.
JSON_TYPES = {
    "real": {"type": "number"},
    "whole": {"type": "integer", "minimum": 0},
    "word": {"type": "string"},
    "event": ANY_EVENT,
    "reals": {"type": "array", "items": {"type": "number"}},
    "wholes": {"type": ["array", "integer"], "items": {"type": "integer", "minimum": 0}, "minimum": 0},
    "events": {"type": "array", "items": ANY_EVENT},
    "whole or none": {"type": ["integer", "null"], "minimum": 0},
    "real or none": {"type": ["number", "null"]},
}
#: The library's ranges of numbers as JSON.
RANGES = {
    "any": {},
    "at least 0": {"minimum": 0},
    "at least 0 or infinity": {"minimum": 0},
    "at least 1": {"minimum": 1},
    "at least 2": {"minimum": 2},
    "above 0": {"exclusiveMinimum": 0},
    "0 to 1": {"minimum": 0, "maximum": 1},
    "0 to below 1": {"minimum": 0, "exclusiveMaximum": 1},
}
#: Classes that were dpopt's own before dp_accounting had them are read under both modules.
MOVED = {"ExponentialMechanismDpEvent"}
#: Words that a field may be, and the field that one of them needs.
WORDS = {"link": {"monotone": None, "smooth": "smoothness", "softmax": "classes"}}
#: What fields are, whatever class has them. C is the norm bound of one record's contribution.
FIELDS = {
    "blocks": "One event for each of the disjoint blocks of records.",
    "classes": "Number of classes of a softmax loss, at least 2; with `link` `softmax` only.",
    "count": "How many times the event happens.",
    "dataset_size": "Number of records; under add-or-remove an upper bound on it.",
    "degrees_of_freedom": "Rows of the random projection.",
    "delta": "δ of the stated guarantee: a probability. Of a test, that it passes wrongly.",
    "deltas": "δ of each pair, a probability; as many as `epsilons`.",
    "dimension": "Number of sums; null: any number of them.",
    "divergences": "Rényi divergence at each order, in nats; as many as `orders`.",
    "epsilon": "ε of the mechanism or of the stated guarantee, in nats.",
    "epsilons": "ε of each pair, in nats.",
    "event": "The event that this one is made of.",
    "events": "The events that happen, in order.",
    "link": "What is known of the loss: `monotone` slope, `smooth` with a bound on the curvature, or `softmax` of several classes.",
    "mean": "Expected number of repetitions.",
    "mu": "μ of Gaussian differential privacy: the shift of the mean, in standard deviations of the noise.",
    "noise_multiplier": "Standard deviation of the noise (of Laplace noise: its scale) over C, under every relation.",
    "noise_parameter": "Of integer noise: its decay a, in nats per unit. Of randomized response: the probability of a uniform answer.",
    "num_buckets": "Number of possible answers.",
    "num_selected": "In how many of the steps a record takes part.",
    "num_steps": "Number of steps.",
    "orders": "Rényi orders α, above 1 and increasing.",
    "probability": "Bound on the probability that the coin says so.",
    "records_per_user": "Most records of one user.",
    "regularization": "λ of the sum of losses, divided by R²·L with R the norm bound of rows and L that of slopes.",
    "rho": "ρ of zero-concentrated differential privacy, in nats.",
    "sample_size": "Records of a sample.",
    "sampling_probability": "With which probability a record takes part.",
    "sampling_probs": "Probability of each shift; they add up to 1, and are as many as `sensitivities`.",
    "sensitivities": "Shifts of the mean by the record's presence, in the unit of `standard_deviation`.",
    "sensitivity": "Norm of one record's contribution, in whole units.",
    "shape": 'Shape of the negative binomial law of the number of repetitions; `"Infinity"`: a Poisson law.',
    "sigma": "σ of the law exp(-x²/2σ²), in whole units (not divided by the sensitivity).",
    "smoothness": "Bound on the curvature of the loss; with `link` `smooth` only.",
    "source_dataset_size": "Number of records from which samples are drawn.",
    "standard_deviation": "Standard deviation of the noise.",
    "step_counts": "Numbers of steps, one for each tree; a number stands for a list of one.",
    "total_variation": "Distance in total variation of what is drawn from the exact law: a probability.",
    "truncated_batch_size": "Most records of a batch.",
    "xi": "ξ of (ξ, ρ)-zCDP, in nats.",
}


def docstring(about):
    lines = about.split("\n")
    if len(lines) == 1:
        return [f'    """{about}"""']
    return [f'    """{lines[0]}', *(f"    {line}".rstrip() for line in lines[1:]), '    """']


def of(entry):
    lines = ["@dataclass(frozen=True)", f"class {entry['name']}(DpEvent):", *docstring(entry["about"])]
    fields = ["    _module: ClassVar[str] = _OWN_MODULE"] if entry["module"] == OWN else []
    for field in entry["fields"]:
        default = "" if field["default"] is None else f" = {field['default']}"
        fields.append(f"    {field['name']}: {TYPES[field['kind']]}{default}")
    return [*lines, *([""] if fields else []), *fields]


def classes():
    entries, lines = json.loads(_core.event_classes()), []
    for entry in entries:
        lines += ["", "", *of(entry)]
    names = sorted(entry["name"] for entry in entries)
    lines += ["", "", "__all__ += [", *(f'    "{name}",' for name in names), "]", "", ""]
    return "\n".join(lines) + "\n"


def text():
    before, rest = TARGET.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + classes() + END + after


def schema_of_field(field):
    """The schema of one field of a class."""
    form, limits = dict(JSON_TYPES[field["kind"]]), RANGES[field["range"]]
    if field["kind"] in ("reals", "wholes"):
        form["items"] = {**form["items"], **limits}
    if field["kind"] != "reals":
        form.update(limits)
    if field["range"] == "at least 0 or infinity":
        form = {"anyOf": [form, {"const": "Infinity"}]}
    if field["name"] in {name for words in WORDS.values() for name in words.values()}:
        # one that is there only with its word is never null
        form["type"] = form["type"][0]
    if field["name"] in WORDS:
        form["enum"] = list(WORDS[field["name"]])
    if field["default"] not in (None, "None"):
        form["default"] = json.loads(field["default"])
    return {"description": FIELDS[field["name"]], **form}


def schema_of_class(entry):
    """The schema of one class of events."""
    module = {"enum": [entry["module"], OWN]} if entry["name"] in MOVED else {"const": entry["module"]}
    form = {
        "title": entry["name"],
        "description": " ".join(entry["about"].split()),
        "type": "object",
        "properties": {
            "class_name": {"const": entry["name"]},
            "module_name": module,
            **{field["name"]: schema_of_field(field) for field in entry["fields"]},
        },
        "required": ["class_name", *(field["name"] for field in entry["fields"] if field["default"] is None)],
        "additionalProperties": False,
    }
    for field, words in WORDS.items():
        if field in form["properties"]:
            # each word with the field that it needs, and without those of the others
            needed = {word: name for word, name in words.items() if name}
            form["allOf"] = [
                {
                    "if": {"properties": {field: {"const": word}}, "required": [field]},
                    "then": {"required": [name]},
                    "else": {"properties": {name: False}},
                }
                for word, name in needed.items()
            ]
    return form


def schema():
    """The schema of events, as JSON text: a class is told by its name, so that an error is about that class alone."""
    entries = json.loads(_core.event_classes())
    of_class = lambda name: {  # noqa: E731
        "if": {"properties": {"class_name": {"const": name}}, "required": ["class_name"]},
        "then": {"$ref": f"#/$defs/{name}"},
    }
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": IDENTITY,
        "title": "Privacy event",
        "description": (
            "What a mechanism does with records, in public numbers, as the file for `dpopt account --event`, a model, a report and a ledger hold it. "
            "Names and fields are those of Google's dp_accounting 0.6; classes of the module dpopt.event are dpopt's own. Noise multipliers do not "
            "depend on the relation of neighbours: an accountant puts it in. Made by `make options` from the library's table of events."
        ),
        "type": "object",
        "properties": {
            "class_name": {
                "description": "Name of the class, which says what other fields there are.",
                "enum": [entry["name"] for entry in entries],
            },
            "module_name": {
                "description": "Module of the class; may be left out.",
                "type": "string",
            },
        },
        "required": ["class_name"],
        "allOf": [of_class(entry["name"]) for entry in entries],
        "$defs": {entry["name"]: schema_of_class(entry) for entry in entries},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
