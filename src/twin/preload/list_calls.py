"""Write docs/interposed-calls.md from calls.yaml in this folder: `python src/twin/preload/list_calls.py`."""

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
    """A description that several interposed functions share.

    Attributes:
        calls: Names of the functions.
        happens: What the replacement does.
        why: Why the call is replaced.
        limits: Differences from the original; may be empty.
    """

    calls: list[str]
    happens: str
    why: str
    limits: str = ""


@dataclasses.dataclass(frozen=True)
class Group:
    """A section of the page.

    Attributes:
        heading: The heading of the section.
        files: The source files in this folder that define the calls.
        entries: The rows of the table.
        introduction: Text before the table; may be empty.
    """

    heading: str
    files: list[str]
    entries: list[Entry]
    introduction: str = ""


@dataclasses.dataclass(frozen=True)
class CallTable:
    """The content of calls.yaml.

    Attributes:
        introduction: Text at the beginning of the page.
        groups: The sections of the page.
        ending: Text at the end of the page.
    """

    introduction: str
    groups: list[Group]
    ending: str


def read(path: Path = TABLE) -> CallTable:
    """Return the content of a table such as calls.yaml.

    Raises:
        TypeError: A key is missing or unknown.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    groups = [
        Group(**{**group, "entries": [Entry(**entry) for entry in group["entries"]]}) for group in content["groups"]
    ]
    return CallTable(**{**content, "groups": groups})


def page(table: CallTable) -> str:
    """Return the page of the documentation as Markdown."""
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
