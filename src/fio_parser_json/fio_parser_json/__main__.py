"""The command `fio-parser-json`, which prints a table of fio output as CSV."""

from __future__ import annotations

import argparse
import os
import sys

import fio_parser_json
from fio_parser_json import FioParseError, Skipped, TableCoverage

_TABLES = ("jobs", "latency-bins", "sync-latencies", "disk-util", "log-samples", "log-bins")


def main() -> None:
    """Print the table that the command line asks for, as CSV on standard output.

    A line on standard error states how much of the sources the table represents.

    Ends the process. The exit status is 0 if all sources were read, 1 if a source could not be read (also with
    ``--skip``), and 2 for wrong usage.
    """
    parser = argparse.ArgumentParser(
        prog="fio-parser-json",
        description="Print the output of fio as a table of comma-separated values.",
        epilog="Example: fio-parser-json *.json > out.csv",
    )
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="a file, a folder, a glob in quotes, or - for standard input"
    )
    parser.add_argument("--table", choices=_TABLES, default="jobs", help="table to print (default: jobs)")
    parser.add_argument(
        "--all-directions", action="store_true", help="include directions without I/O in the table of jobs"
    )
    parser.add_argument("--skip", action="store_true", help="skip and report sources that cannot be read")
    parser.add_argument("--version", action="version", version=f"fio-parser-json {fio_parser_json.__version__}")
    given = parser.parse_args()
    if given.all_directions and given.table != "jobs":
        parser.error("--all-directions is valid with --table jobs only")
    skipped: list[Skipped] = []
    options = {"all_directions": True} if given.all_directions else {}
    make_table = getattr(fio_parser_json, given.table.replace("-", "_"))
    sources = [sys.stdin.buffer if source == "-" else source for source in given.sources]
    coverage = TableCoverage()
    try:
        table = make_table(
            sources, errors="skip" if given.skip else "raise", skipped=skipped, coverage=coverage, **options
        )
    except FioParseError as error:
        sys.exit(f"fio-parser-json: {error}")
    except OSError as error:
        sys.exit(f"fio-parser-json: {error.filename}: {error.strerror}")
    try:
        table.to_csv(sys.stdout, index=False, lineterminator="\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for each in skipped:
        print(f"fio-parser-json: skipped {each.source}: {each.problem}", file=sys.stderr)
    print(f"fio-parser-json: {coverage.text()}", file=sys.stderr)
    sys.exit(1 if skipped else 0)


if __name__ == "__main__":
    main()
