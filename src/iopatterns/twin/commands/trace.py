"""`twin trace`."""

import json
from pathlib import Path

import click

from iopatterns.twin.commands.arguments import FILE_TYPE, SKIP_BAD_OPTION


@click.command()
@click.argument("trace", metavar="IN", type=FILE_TYPE)
@click.argument("output", metavar="OUT", type=FILE_TYPE)
@click.option("--issued", is_flag=True, help="Requests issued to the drive instead of queued requests (blktrace only).")
@SKIP_BAD_OPTION
def command(trace: Path, output: Path, issued: bool, skip_bad: bool) -> None:
    """Convert the block trace IN to the Parquet file OUT.

    IN is a CSV file with a header or a Parquet file (columns operation, offset_bytes, size_bytes, and time_ns or
    time_us), an I/O log of fio, a CSV trace of MSR Cambridge, the text output of blkparse, or the binary records of
    blktrace. The command prints a summary as JSON.
    """
    from iopatterns.twin import traces

    skipped = traces.SkippedLines() if skip_bad else None
    done = traces.convert_trace(trace, output, skipped=skipped, issued=issued)
    summary = {"form": done.form, "requests": done.requests, "duration_ns": done.duration_ns}
    skipped_count = {} if skipped is None else {"skipped": skipped.report()}
    click.echo(json.dumps({**summary, **skipped_count}, indent=2))
