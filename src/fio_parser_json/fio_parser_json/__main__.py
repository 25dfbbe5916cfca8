"""The command `fio-parser-json`: what fio wrote as a table of comma-separated values."""

from __future__ import annotations

import argparse
import os
import sys

import fio_parser_json
from fio_parser_json import FioParseError, Skipped

_TABLES = ("jobs", "latency-bins", "sync-latencies", "disk-util", "log-samples", "log-bins")


def main() -> None:
    """Print a table: 2 for wrong usage, 1 for a source that is not fio's, also where others were read."""
    parser = argparse.ArgumentParser(
        prog="fio-parser-json",
        description="Print what fio wrote as a table of comma-separated values.",
        epilog="fio-parser-json *.json > out.csv",
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="a file, a folder, a glob in quotes, or - (input)")
    parser.add_argument("--table", choices=_TABLES, default="jobs", help="which table (default: jobs)")
    parser.add_argument("--all-directions", action="store_true", help="of jobs also directions without I/O")
    parser.add_argument("--skip", action="store_true", help="leave out what is not fio's, say so, and go on")
    parser.add_argument("--version", action="version", version=f"fio-parser-json {fio_parser_json.__version__}")
    given = parser.parse_args()
    if given.all_directions and given.table != "jobs":
        parser.error("--all-directions is of the table jobs")
    skipped: list[Skipped] = []
    options = {"all_directions": True} if given.all_directions else {}
    table_of = getattr(fio_parser_json, given.table.replace("-", "_"))
    sources = [sys.stdin.buffer if source == "-" else source for source in given.sources]
    try:
        table = table_of(sources, errors="skip" if given.skip else "raise", skipped=skipped, **options)
    except FioParseError as error:
        sys.exit(f"fio-parser-json: {error}")
    except OSError as error:
        sys.exit(f"fio-parser-json: {error.filename}: {error.strerror}")
    try:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for each in skipped:
        print(f"fio-parser-json: left out {each.source}: {each.problem}", file=sys.stderr)
    if skipped:
        sys.exit(1)


if __name__ == "__main__":
    main()
