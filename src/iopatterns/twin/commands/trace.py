"""Command `twin trace`, which converts a list of requests to a Parquet file."""

import json
from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import FILE_TYPE, SKIP_BAD_OPTION


@click.command()
@click.argument("trace", metavar="IN", type=FILE_TYPE)
@click.argument("output", metavar="OUT", type=FILE_TYPE)
@click.option("--issued", is_flag=True, help="Requests issued to the drive instead of queued requests (blktrace only).")
@SKIP_BAD_OPTION
@OVERWRITE_OPTION
def command(trace: Path, output: Path, issued: bool, skip_bad: bool, overwrite: bool) -> None:
    """Convert the block trace IN to the Parquet file OUT.

    A block trace lists the requests that a drive received. IN is an I/O log of fio, the text output of blkparse, the
    binary records of blktrace, a CSV trace of MSR Cambridge, a Parquet file, or a CSV file with a header.

    A Parquet file, or a CSV file with a header, needs the columns operation, offset_bytes and size_bytes. The arrival
    times are in the optional column time_ns or time_us.

    The command prints a summary as JSON: the form of IN, the number of requests, and the duration in nanoseconds.
    """
    from iopatterns.base import reading_progress
    from iopatterns.twin import traces

    skipped = traces.SkippedLines() if skip_bad else None
    with reading_progress.shown():
        done = traces.convert_trace(trace, output, skipped=skipped, issued=issued, overwrite=overwrite)
    summary = {"form": done.form, "requests": done.requests, "duration_ns": done.duration_ns}
    skipped_count = {} if skipped is None else {"skipped": skipped.report()}
    click.echo(json.dumps({**summary, **skipped_count}, indent=2))
