"""Measures one group of lines in this process and prints a JSON object for each: `python measure.py GROUP`, called by run.py."""

import dataclasses
import importlib
import json
import os
import sys
import warnings

from lines import GROUPS

warnings.filterwarnings("ignore")


def main() -> None:
    group = next(group for group in GROUPS if group.name == sys.argv[1])
    if group.threads == 1 and hasattr(os, "sched_setaffinity"):
        # whatever threads ours or the peer start, they share one core
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measure = getattr(importlib.import_module(group.module), group.name.replace("-", "_") + "_group")
    for name, found in measure():
        print(json.dumps({"line": name, **dataclasses.asdict(found)}), flush=True)


if __name__ == "__main__":
    main()
