"""Writes docs/interposed-calls.md from calls.yaml, which lies beside it: `python src/twin/preload/list_calls.py`."""

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
    "This page is written from `{table}` by `python {script}`.\n"
    "A test holds that table against the symbols that the library exports, so the list is complete."
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """Calls that have what happens, why, and where it ends in common."""

    calls: list[str]
    happens: str
    why: str
    limits: str = ""


@dataclasses.dataclass(frozen=True)
class Group:
    """A section of the page; ``files`` are those of this folder that define its calls."""

    heading: str
    files: list[str]
    entries: list[Entry]
    introduction: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """All calls, with what the page says before and after them."""

    introduction: str
    groups: list[Group]
    ending: str


def read(path: Path = TABLE) -> Table:
    """Return what a table says. Raises TypeError where a key is missing or unknown."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    groups = [
        Group(**{**group, "entries": [Entry(**entry) for entry in group["entries"]]}) for group in content["groups"]
    ]
    return Table(**{**content, "groups": groups})


def page(table: Table) -> str:
    """Return the page of the documentation."""
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
    yield f"Source: {_listed([f'`{(HERE / file).relative_to(ROOT)}`' for file in group.files])}."


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)
