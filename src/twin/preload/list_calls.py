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
class Unreplaced:
    """A row of the page's last table: functions about time that the preload library does not replace.

    Attributes:
        calls: The names of the functions.
        why: Why the functions need no replacement.
    """

    calls: list[str]
    why: str


@dataclasses.dataclass(frozen=True)
class CallTable:
    """The content of calls.yaml, from which the page docs/interposed-calls.md is made.

    Attributes:
        introduction: The text at the beginning of the page.
        groups: The sections of the page.
        unreplaced: The rows of the last table.
        ending: The text at the end of the page.
    """

    introduction: str
    groups: list[Group]
    unreplaced: list[Unreplaced]
    ending: str


def read(path: Path = TABLE) -> CallTable:
    """Read a table of interposed functions from a YAML file.

    Args:
        path: The path of the file; by default that of calls.yaml.

    Raises:
        TypeError: A key is unknown or missing.
        KeyError: The key ``groups``, ``entries`` or ``unreplaced`` is missing.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    groups = [
        Group(**{**group, "entries": [Entry(**entry) for entry in group["entries"]]}) for group in content["groups"]
    ]
    unreplaced = [Unreplaced(**row) for row in content["unreplaced"]]
    return CallTable(**{**content, "groups": groups, "unreplaced": unreplaced})


def page(table: CallTable) -> str:
    """Return the page docs/interposed-calls.md as Markdown, with a newline at its end.

    Args:
        table: The content of calls.yaml, as `read` returns it.
    """
    note = NOTE.format(table=TABLE.relative_to(ROOT), script=Path(__file__).resolve().relative_to(ROOT))
    parts = ["# Interposed calls", table.introduction.strip(), note]
    for group in table.groups:
        parts += _section(group)
    rows = ["| function | why it needs no replacement |", "|---|---|"]
    rows += [f"| {_code(row.calls)} | {row.why} |" for row in table.unreplaced]
    parts += ["## Functions about time that are not replaced", "\n".join(rows)]
    parts += ["## What is not listed", table.ending.strip()]
    return "\n\n".join(parts) + "\n"


def _section(group: Group) -> Iterator[str]:
    yield f"## {group.heading}"
    if group.introduction:
        yield group.introduction.strip()
    rows = ["| call | what happens | why | limits |", "|---|---|---|---|"]
    for entry in group.entries:
        rows.append(f"| {_code(entry.calls)} | {entry.happens} | {entry.why} | {entry.limits} |")
    yield "\n".join(rows)
    yield f"Source: {', '.join(f'`{(HERE / file).relative_to(ROOT)}`' for file in group.files)}."


def _code(calls: list[str]) -> str:
    return ", ".join(f"`{call}`" for call in calls)


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)
