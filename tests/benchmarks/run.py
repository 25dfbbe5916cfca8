"""Run the benchmarks of this folder; print and write their results, as JSON and as a page of the documentation.

A benchmark is a program ``bench_*.py`` that prints one result per line; the first line of its docstring is its title.
A program that prints a Markdown table comes first on the page.
"""

import argparse
import ast
import datetime
import json
import operator
import subprocess
import sys
from pathlib import Path
from typing import Any

from iopatterns.base import files
from iopatterns.measuring import fio, machine

FOLDER = Path(__file__).resolve().parent
PAGE = """\
# Benchmarks

This page has the run times of the commands, and how fast the parts of the project are, on one machine.
`snakemake --cores 1 benchmarks` renews it: each section is the output of a program in `tests/benchmarks/`.
On other machines expect similar ratios, and other times and rates.

Machine: {cpu_model}, {cpu_count} processors, {kernel}, {fio}. Load at the start: {load:.1f}.
"""


def benchmarks(names: list[str]) -> list[Path]:
    """Return the programs with the given names, or all programs if no name is given."""
    there = sorted(FOLDER.glob("bench_*.py"))
    return [path for path in there if not names or path.stem.removeprefix("bench_") in names]


def title(path: Path) -> str:
    """Return the first line of a program's docstring without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
    return text.splitlines()[0].rstrip(".")


def figures(path: Path) -> tuple[list[str], int]:
    """Run a benchmark and print its output; return the lines and the exit status."""
    print(f"{title(path)} ({path.name})", flush=True)
    lines = []
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
            lines.append(line.rstrip())
    return lines, process.returncode


def page(found: dict[str, Any]) -> str:
    """Return the page of the documentation; tables come first."""
    sections = [PAGE.format(**found["machine"], fio=found["fio_version"], load=found["load_average"])]
    for each in sorted(found["benchmarks"], key=lambda each: not _is_table(each)):
        figures = each["figures"] if _is_table(each) else ["```text", *each["figures"], "```"]
        sections.append(
            "\n".join([f"## {each['title']}", "", f"`tests/benchmarks/{each['program']}`", "", *figures, ""])
        )
    return "\n".join(sections)


def _is_table(benchmark: dict[str, Any]) -> bool:
    return "".join(benchmark["figures"][:1]).startswith("|")


def main() -> None:
    """Run the benchmarks; write the JSON file and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="file for the results")
    parser.add_argument("--page", type=Path, help="file for the page")
    parser.add_argument(
        "names",
        nargs="*",
        help="run only these benchmarks, such as twin for bench_twin.py, and keep the other results (default: all)",
    )
    arguments = parser.parse_args()
    found: dict[str, Any] = {
        "machine": machine.machine_facts(),
        "fio_version": fio.version(),
        "load_average": machine.load_snapshot()["load_average"][0],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "benchmarks": [],
    }
    if arguments.names and arguments.json.exists():  # keep the other results if they are from the same machine
        before = json.loads(arguments.json.read_text(encoding="utf-8"))
        if all(before[key] == found[key] for key in ("machine", "fio_version")):
            again = {path.name for path in benchmarks(arguments.names)}
            found |= {**before, "benchmarks": [each for each in before["benchmarks"] if each["program"] not in again]}
    failed = []
    for path in benchmarks(arguments.names):
        lines, status = figures(path)
        if status:
            failed.append(f"{path.name}: failed with exit status {status}")
            continue
        found["benchmarks"].append({"program": path.name, "title": title(path), "figures": lines})
        found["benchmarks"].sort(key=operator.itemgetter("program"))
        files.write_json(arguments.json, found)  # after each benchmark, so that an interruption loses little
    if failed:
        sys.exit("\n".join(failed))
    if arguments.page:
        files.write_atomically(arguments.page, lambda temporary: temporary.write_text(page(found), encoding="utf-8"))


if __name__ == "__main__":
    main()
