"""Writes the classes of events into `_events.py`, from the library's table of them: `make options`."""

import json
from pathlib import Path

from dpopt import _core

TARGET = Path(__file__).parent / "python" / "dpopt" / "_events.py"
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


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
