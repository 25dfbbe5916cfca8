"""Run the benchmarks of this folder; write their output as JSON and as a page of the documentation.

A benchmark is a program ``bench_*.py`` that prints one result per line. The first line of its docstring is its title.
Times depend on the machine and its load; ratios within one run depend much less on them.
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

This page has the output of `snakemake --cores 1 benchmarks` on the machine named below, written by
`tests/benchmarks/run.py`. Each section is a program in `tests/benchmarks/`. Ratios are similar on other machines; times
and rates are not.

Machine: {cpu_model}, {cpu_count} processors, {kernel}, {fio}. Load average at the start: {load:.1f}.
"""


def benchmarks(names: list[str]) -> list[Path]:
    """Return the programs with the given names; all programs if there are none."""
    programs = sorted(FOLDER.glob("bench_*.py"))
    return [path for path in programs if not names or path.stem.removeprefix("bench_") in names]


def title(path: Path) -> str:
    """Return the first line of a program's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
    return text.splitlines()[0].rstrip(".")


def figures(path: Path) -> tuple[list[str], int]:
    """Run a benchmark and print its output; return the lines of the output and the exit status."""
    print(f"{title(path)} ({path.name})", flush=True)
    lines = []
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {line}", end="", flush=True)
            lines.append(line.rstrip())
    return lines, process.returncode


def page(found: dict[str, Any]) -> str:
    """Return the page of the documentation, in Markdown."""
    sections = [PAGE.format(**found["machine"], fio=found["fio_version"], load=found["load_average"])]
    for each in found["benchmarks"]:
        lines = "\n".join(each["figures"])
        sections.append(f"## {each['title']}\n\n`tests/benchmarks/{each['program']}`\n\n```text\n{lines}\n```\n")
    return "\n".join(sections)


def main() -> None:
    """Run the benchmarks that the command line names, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="file for the output as JSON")
    parser.add_argument("--page", type=Path, help="file for the page")
    parser.add_argument(
        "names",
        nargs="*",
        help="benchmarks to run, such as twin for bench_twin.py  [default: all]",
    )
    arguments = parser.parse_args()
    found: dict[str, Any] = {
        "machine": machine.machine_facts(),
        "fio_version": fio.version(),
        "load_average": machine.load_snapshot()["load_average"][0],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "benchmarks": [],
    }
    if arguments.names and arguments.json.exists():  # keep the other benchmarks if they ran on the same machine
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
        files.write_json(arguments.json, found)  # after each benchmark, in case the run is interrupted
    if failed:
        sys.exit("\n".join(failed))
    if arguments.page:
        files.write_atomically(arguments.page, lambda temporary: temporary.write_text(page(found), encoding="utf-8"))


if __name__ == "__main__":
    main()
