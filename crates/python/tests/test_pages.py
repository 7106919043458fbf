"""Every block of every page runs, in order, in one folder for each page.

The language of a block says what it is: `sh` and `console` are commands, `python` runs in one namespace for the page, `toml` and `csv` are files that the
text before them names, `text` and `json` are what the block before has printed. An HTML comment just before a block says otherwise:

    <!-- not run: WHY -->     needs what is not here: another machine, a download, many minutes
    <!-- runs in PATH -->     the same lines stand in that file, which another test runs
    <!-- example: WHY -->     an output that no run repeats
    <!-- file: NAME -->       a file, where the text does not name it
    <!-- setup LANGUAGE …     what a page takes as given (a table, a matrix) is made by these lines, which readers do not see
    -->

Noise is secret here, as it is for readers, and no block hangs on it: the true claim of docs/audit.md is blamed with probability 1e-6 at most, the answer that
docs/mean.md prints has a seed, and all else is asked to end without an error.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for part in ("*.md", "gallery/*.md", "methods/*.md", "schemas/*.md") for page in sorted(DOCS.glob(part))),
]

#: The pages that take longest: `make test-slow` runs them.
LONG = {
    "docs/aggregate.md",
    "docs/distributed.md",
    "docs/embeddings.md",
    "docs/methods/o2nc.md",
    "docs/privacy-model.md",
}
#: Blocks that run nowhere; a new one has its reason on the page and is counted here.
NOT_RUN = {"docs/audit.md": 1, "docs/distributed.md": 3, "docs/federated.md": 1, "docs/text.md": 1}

COMMANDS = ("sh", "bash", "console")
FILES = ("toml", "csv")
OUTPUTS = ("text", "json")
FENCE = re.compile(r" *(```+)(\S*)")
MARKER = re.compile(r"<!-- (not run|runs in|example|file|setup):? (.*?)(?: -->|$)")


@dataclass
class Block:
    """A block of a page, or the lines of a setup: its first line's number, and the marker before it with what that says."""

    line: int
    language: str
    text: str
    marker: str | None = None
    argument: str = ""
    before: str = ""


def blocks(page):
    """The blocks of a page's text and its setups, in order."""
    lines = page.split("\n")
    found, marker, at = [], (None, ""), 0
    while at < len(lines):
        line, start = lines[at], at
        if argument := MARKER.match(line):
            marker = argument.groups()
            if marker[0] == "setup":
                at = next(i for i in range(start + 1, len(lines)) if lines[i].strip() == "-->")
                found.append(Block(start + 2, marker[1], "\n".join(lines[start + 1 : at]), "setup"))
                marker = (None, "")
        elif fence := FENCE.match(line):
            at = next(i for i in range(start + 1, len(lines)) if lines[i].strip() == fence[1])
            text = "\n".join(lines[start + 1 : at])
            found.append(Block(start + 2, fence[2], text, *marker, before="\n".join(lines[:start])))
            marker = (None, "")
        elif line.startswith("    ") and line.strip() and not (start and lines[start - 1].strip()):
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            text = "\n".join(line[4:] for line in lines[start : at + 1]).rstrip()
            found.append(Block(start + 1, "", text, *marker, before="\n".join(lines[:start])))
            marker = (None, "")
        elif line.strip():
            assert marker[0] is None, f"line {start}: a marker stands before a block"
        at += 1
    return found


def name(path):
    return path.relative_to(ROOT).as_posix()


def of(path):
    return blocks(path.read_text(encoding="utf-8"))


def squeezed(text):
    """Lines without what documentation comments and indentation put before them."""
    stripped = (re.sub(r"^\s*(//[!/]|# )?\s*", "", line) for line in text.split("\n"))
    return [line.rstrip() for line in stripped if line.strip()]


class Page:
    """Runs the blocks of one page in a folder."""

    def __init__(self, path, folder, command):
        self.path, self.folder = path, folder
        programs = folder.parent / f"{folder.name}-programs"
        programs.mkdir()
        for program, target in (("dpopt", command), ("python3", sys.executable), ("python", sys.executable)):
            # a link to the interpreter of a virtual environment would not find its packages
            (programs / program).write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
            (programs / program).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "Agg"}
        self.names = {"__name__": "__main__"}
        self.printed = ""

    def run(self, block):
        """What became of a block, in one word."""
        if block.marker in ("not run", "example"):
            return block.marker
        if block.marker == "runs in":
            there = squeezed((ROOT / block.argument).read_text(encoding="utf-8"))
            assert [line for line in squeezed(block.text) if line not in there] == [], f"not in {block.argument}"
        elif block.language in FILES or block.marker == "file":
            named = block.argument or re.findall(rf"`([\w.-]+\.{block.language})`", block.before)[-1]
            (self.folder / named).write_text(block.text + "\n", encoding="utf-8")
        elif block.language in OUTPUTS:
            assert block.text.strip() == self.printed.strip()
        elif block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, expected = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.DOTALL).groups()
                self.shell(command)
                assert not expected.strip() or expected.strip() == self.printed.strip()
        elif block.language in COMMANDS or (
            not block.language and squeezed(block.text)[0].split()[0] in ("dpopt", "$")
        ):
            self.shell(re.sub(r"^\$ ", "", block.text, flags=re.MULTILINE))
        elif block.language == "python" and block.text.lstrip().startswith(">>>"):
            self.session(block)
        elif block.language == "python":
            self.python(block)
        else:
            raise AssertionError(f"a block of {block.language or 'no language'}: what is it?")
        return "setup" if block.marker == "setup" else "elsewhere" if block.marker == "runs in" else "run"

    def shell(self, text):
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr}"
        self.printed = done.stdout

    def python(self, block):
        shown = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.text, str(self.path), "exec")
        with contextlib.redirect_stdout(shown):
            exec(code, self.names)
        self.printed = shown.getvalue()

    def session(self, block):
        example = doctest.DocTestParser().get_doctest(
            block.text + "\n", self.names, name(self.path), None, block.line - 1
        )
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        shown = io.StringIO()
        runner.run(example, out=shown.write, clear_globs=False)
        assert not runner.failures, shown.getvalue()
        self.names.update(example.globs)


def the_command():
    sys.path.insert(0, str(ROOT / "examples" / "first_day"))
    import harness

    return harness.the_command()


@pytest.mark.skipif(os.name == "nt", reason="the commands of the pages are for a POSIX shell")
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=name(p), marks=[pytest.mark.slow] * (name(p) in LONG)) for p in PAGES if of(p)],
)
def test_every_block_runs(path, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    page, found = Page(path, folder, the_command()), Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in of(path):
            try:
                found[page.run(block)] += 1
            except (Exception, SystemExit) as error:
                raise AssertionError(f"{name(path)}, line {block.line}: {error}") from error
    assert found["not run"] == NOT_RUN.get(name(path), 0)


def test_few_blocks_run_nowhere(capsys):
    rows = [(name(path), Counter(block.marker for block in of(path))) for path in PAGES]
    with capsys.disabled():
        for page, markers in rows:
            shown = sum(n for marker, n in markers.items() if marker != "setup")
            if shown:
                print(f"\n{page}: {shown} blocks, not run {markers['not run']}, elsewhere {markers['runs in']}", end="")
    assert {page: markers["not run"] for page, markers in rows if markers["not run"]} == NOT_RUN
    assert all(
        len(block.argument) > 10 for path in PAGES for block in of(path) if block.marker in ("not run", "example")
    )


PAGE = """Text.

<!-- setup python
a = 2
-->

```python
print(a + {added})
```

{marker}
```text
4
```

A file `b.toml`:

```toml
[x]
```

```console
$ cat b.toml
[x]
$ dpopt --version \\
    > out
```

    dpopt --help | head -1

{last}
"""


def ran(tmp_path, **words):
    text = PAGE.format(**{"added": 2, "marker": "", "last": "", **words})
    folder = tmp_path / "page"
    folder.mkdir()
    page = Page(ROOT / "a page", folder, the_command())
    return [page.run(block) for block in blocks(text)]


@pytest.mark.skipif(os.name == "nt", reason="the commands of the pages are for a POSIX shell")
class TestTheTest:
    """A block that fails fails the test, and no block is passed over in silence."""

    def test_a_page_that_is_right(self, tmp_path):
        assert ran(tmp_path) == ["setup", "run", "run", "run", "run", "run"]
        assert (tmp_path / "page" / "b.toml").read_text() == "[x]\n"
        assert (tmp_path / "page" / "out").read_text().startswith("dpopt ")

    def test_another_output(self, tmp_path):
        with pytest.raises(AssertionError):
            ran(tmp_path, added=3)

    def test_another_output_that_is_an_example(self, tmp_path):
        assert ran(tmp_path, added=3, marker="<!-- example: sums differ -->")[2] == "example"

    @pytest.mark.parametrize(
        "last",
        [
            "```sh\nfalse\ntrue\n```",
            "```sh\nfalse | true\n```",
            "```console\n$ echo 1\n2\n```",
            "```\nwhat\n```",
            "```rust\nfn main() {}\n```",
            "    an indented block",
            "<!-- runs in README.md -->\n```rust\nfn nothing_of_this_name() {}\n```",
            "```python\nundefined\n```",
            "```python\n>>> 1 + 1\n3\n```",
        ],
    )
    def test_a_block_that_fails(self, tmp_path, last):
        with pytest.raises((AssertionError, NameError)):
            ran(tmp_path, last=last)

    def test_a_marker_without_a_block(self, tmp_path):
        with pytest.raises(AssertionError, match="a marker stands before a block"):
            ran(tmp_path, last="<!-- not run: needs a cluster -->\nText.")

    def test_marked_blocks(self, tmp_path):
        last = "<!-- not run: needs a cluster -->\n```python\nundefined\n```\n\n<!-- runs in Cargo.toml -->\n```rust\n[workspace]\n```"
        assert ran(tmp_path, last=last)[-2:] == ["not run", "elsewhere"]
