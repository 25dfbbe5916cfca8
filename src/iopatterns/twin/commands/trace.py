"""Command `twin trace`, which converts a list of requests to Parquet and other formats."""

import json
from pathlib import Path
from typing import Any

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import FILE_TYPE, reading_options, trace_options

_FORMS = ("parquet", "csv", "blkparse", "iolog", "mqsim", "oracleGeneral")


@click.command()
@click.argument("trace", metavar="IN", type=FILE_TYPE)
@click.argument("output", metavar="OUT", type=FILE_TYPE)
@click.option("--issued", is_flag=True, help="Requests issued to the drive instead of queued requests (block events).")
@click.option("--to", type=click.Choice(_FORMS), help="Format of OUT.  [default: its suffix]")
@trace_options
@OVERWRITE_OPTION
def command(trace: Path, output: Path, issued: bool, to: str | None, overwrite: bool, **given: Any) -> None:
    """Convert the block trace IN to the file OUT.

    A block trace lists the requests that a drive received. IN is an I/O log of fio, the text output of blkparse, the
    binary records of blktrace, block events of perf or ftrace, output of biosnoop, a Parquet file, a CSV file with a
    header, or a public trace: MSR Cambridge, SYSTOR 2017, Alibaba, Tencent, SPC (UMass), FIU, DiskSim, MQSim, or
    oracleGeneral of libCacheSim. IN may be compressed.

    OUT is a Parquet file, or has the format that its suffix or --to names. A name that ends in .zst gives a compressed
    file.

    The command prints a summary as JSON: the form of IN, the number of requests, the duration in nanoseconds, and the
    coverage, which says how much of IN the file OUT represents. A line on standard error has the coverage, too.
    """
    from iopatterns.base import reading_progress
    from iopatterns.twin import traces

    options: traces.ReadingOptions = {**reading_options(trace, given), "issued": issued}
    with reading_progress.shown():
        done = traces.convert_trace(trace, output, to=to, overwrite=overwrite, **options)
    summary = {"form": done.form, "requests": done.requests, "duration_ns": done.duration_ns}
    skipped = options["skipped"]
    skipped_count = {} if skipped is None else {"skipped": skipped.report()}
    click.echo(json.dumps({**summary, **skipped_count, "coverage": done.coverage.to_dict()}, indent=2))
    click.echo(f"twin: {done.coverage.text()}", err=True)
