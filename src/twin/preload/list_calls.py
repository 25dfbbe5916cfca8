"""Write docs/interposed-calls.md: run `python src/twin/preload/list_calls.py`.

This page lists the functions of the C library and of libaio that the preload library of `twin run` replaces. They are
described in the file calls.yaml beside this script.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TABLE = HERE / "calls.yaml"
PAGE = ROOT / "docs/interposed-calls.md"

NOTE = (
    "`python {script}` writes this page from `{table}`.\n"
    "A test compares the table with the symbols that the library exports, so the list is complete."
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of the page's tables: interposed functions with the same description.

    An interposed function is a function of the C library or of libaio that the preload library of `twin run` replaces.

    Attributes:
        calls: The names of the functions.
        happens: What the replacement does.
        why: Why the functions are replaced.
        limits: How the replacement differs from the original; may be empty.
    """

    calls: list[str]
    happens: str
    why: str
    limits: str = ""


@dataclasses.dataclass(frozen=True)
class Group:
    """A section of the page, with a table of interposed functions.

    Attributes:
        heading: The heading of the section.
        files: The names of the source files that define the functions. They are in the folder of this script.
        entries: The rows of the table.
        introduction: Text before the table; may be empty.
    """

    heading: str
    files: list[str]
    entries: list[Entry]
    introduction: str = ""


@dataclasses.dataclass(frozen=True)
class CallTable:
    """The content of calls.yaml, from which the page docs/interposed-calls.md is made.

    Attributes:
        introduction: The text at the beginning of the page.
        groups: The sections of the page.
        ending: The text at the end of the page.
    """

    introduction: str
    groups: list[Group]
    ending: str


def read(path: Path = TABLE) -> CallTable:
    """Read a table of interposed functions from a YAML file.

    Args:
        path: The path of the file; by default that of calls.yaml.

    Raises:
        TypeError: A key is unknown, or a key other than ``groups`` and ``entries`` is missing.
        KeyError: The key ``groups`` or ``entries`` is missing.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    groups = [
        Group(**{**group, "entries": [Entry(**entry) for entry in group["entries"]]}) for group in content["groups"]
    ]
    return CallTable(**{**content, "groups": groups})


def page(table: CallTable) -> str:
    """Return the page docs/interposed-calls.md as Markdown, with a newline at its end.

    Args:
        table: The content of calls.yaml, as `read` returns it.
    """
    note = NOTE.format(table=TABLE.relative_to(ROOT), script=Path(__file__).resolve().relative_to(ROOT))
    parts = ["# Interposed calls", table.introduction.strip(), note]
    for group in table.groups:
        parts += _section(group)
    parts += ["## What is not listed", table.ending.strip()]
    return "\n\n".join(parts) + "\n"


def _section(group: Group) -> Iterator[str]:
    yield f"## {group.heading}"
    if group.introduction:
        yield group.introduction.strip()
    rows = ["| call | what happens | why | limits |", "|---|---|---|---|"]
    for entry in group.entries:
        calls = ", ".join(f"`{call}`" for call in entry.calls)
        rows.append(f"| {calls} | {entry.happens} | {entry.why} | {entry.limits} |")
    yield "\n".join(rows)
    yield f"Source: {', '.join(f'`{(HERE / file).relative_to(ROOT)}`' for file in group.files)}."


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)
