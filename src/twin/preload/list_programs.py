"""Write docs/programs.md: run `python src/twin/preload/list_programs.py`.

This page lists common programs for storage and what they report on a simulated drive. They are described in the file
programs.yaml beside this script, whose commands tests/twin/test_programs.py runs.
"""

import dataclasses
import sys
from pathlib import Path

import yaml

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_TABLE = _HERE / "programs.yaml"
PROGRAMS_PAGE = _ROOT / "docs/programs.md"


@dataclasses.dataclass(frozen=True)
class Program:
    """A row of the page's table: a command on a simulated drive.

    Attributes:
        program: The name of the program.
        command: The command, with ``{drive}`` in place of the drive.
        happens: What the program reports, or why it is refused.
        models: The models of simulated drives on which the command is tested.
        prints: Regular expressions for the output, with words such as ``{serial}`` from the model's identity.
        rate: A regular expression with the group ``rate``, or with the groups ``bytes`` and ``seconds``.
        unit: Bytes per second in a unit of the rate; 0 if the rate is in requests per second.
        fio: Options of fio for the same requests.
        status: The exit status of the command.
    """

    program: str
    command: str
    happens: str
    models: list[str] = dataclasses.field(default_factory=lambda: ["c400"])
    prints: list[str] = dataclasses.field(default_factory=list)
    rate: str = ""
    unit: int = 1
    fio: str = ""
    status: int = 0


@dataclasses.dataclass(frozen=True)
class ProgramTable:
    """The content of programs.yaml.

    Attributes:
        introduction: The text at the beginning of the page.
        rows: The rows of the table.
        untested: The names of programs that Debian does not have, and that nobody has tried.
    """

    introduction: str
    rows: list[Program]
    untested: list[str]


def read_programs(path: Path = _TABLE) -> ProgramTable:
    """Read a table of programs from a YAML file.

    Args:
        path: The path of the file; by default that of programs.yaml.

    Raises:
        TypeError: A key is unknown or missing.
        KeyError: The key ``rows`` is missing.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return ProgramTable(**{**content, "rows": [Program(**row) for row in content["rows"]]})


def programs_page(table: ProgramTable) -> str:
    """Return the page docs/programs.md as Markdown, with a newline at its end.

    Args:
        table: The content of programs.yaml, as `read_programs` returns it.
    """
    script = Path(__file__).resolve().relative_to(_ROOT)
    rows = ["| program | command after `twin run MODEL --` | what happens | compared with fio |", "|---|---|---|---|"]
    for row in table.rows:
        compared = f"`{row.fio}`" if row.fio else ""
        rows.append(f"| {row.program} | `{row.command}` | {row.happens.strip()} | {compared} |")
    note = f"`python {script}` writes this page from `{_TABLE.relative_to(_ROOT)}`."
    untested = f"Not tested, because Debian has no package: {', '.join(table.untested)}."
    parts = ["# Programs on a simulated drive", table.introduction.strip(), "\n".join(rows), untested, note]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PROGRAMS_PAGE.write_text(programs_page(read_programs()), encoding="utf-8")
    print(PROGRAMS_PAGE.relative_to(_ROOT), file=sys.stderr)
