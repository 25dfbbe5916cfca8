"""Command `twin replay`, which replays a list of requests on a simulated drive."""

import json
from pathlib import Path
from typing import Any

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import (
    FILE_TYPE,
    INTERVAL_BYTES_OPTION,
    INTERVAL_OPTION,
    MODEL_ARGUMENT,
    SET_OPTION,
    reading_options,
    trace_options,
)


@click.command()
@MODEL_ARGUMENT
@click.argument("trace", type=FILE_TYPE)
@click.option(
    "--depth", type=click.IntRange(1), help="Outstanding requests of each thread; ignores the times of the trace."
)
@click.option("--arrival-times", is_flag=True, help="Submit each request at its time in the trace.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads that submit requests.")
@click.option("--output", type=FILE_TYPE, help="File for the latencies of all requests (.parquet, .csv).")
@click.option("--counters", "counters_file", type=FILE_TYPE, help="File for counters of the drive over time.")
@OVERWRITE_OPTION
@INTERVAL_OPTION
@INTERVAL_BYTES_OPTION
@SET_OPTION
@trace_options
def command(
    model: str,
    trace: Path,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Replay the block trace TRACE on MODEL without fio.

    A block trace lists the requests that a drive received. TRACE has any form that `twin trace` reads. MODEL is the
    name of a model of a drive (`twin list`), or the path of a model file.

    Programs wait for their requests. If the trace has completion times, a request is therefore submitted when as many
    requests are complete as in the trace, after the same delay. If the trace has none, and with --arrival-times, each
    request is submitted at its time in the trace, whatever the drive does. With --depth, each thread keeps that many
    requests outstanding.

    The command prints a summary and the counters of the drive as JSON. The summary has what the replay keeps
    (dependencies, arrival times or depth), the number of requests, the duration, the rate and the latencies. A line on
    standard error has the coverage of the trace, if the replay does not represent it completely.
    """
    from iopatterns.base import reading_progress
    from iopatterns.twin import models
    from iopatterns.twin.trace_replay import replay_to_files

    reading = reading_options(trace, options)
    drive = models.load_model(model).overridden(settings)
    with reading_progress.shown():
        session = replay_to_files(drive, trace, reading=reading, **options)
    skipped = reading["skipped"]
    skipped_count = {} if skipped is None else {"skipped": skipped.report()}
    result = {"summary": session.summary(), **skipped_count, "counters": session.counters()}
    click.echo(json.dumps(result, indent=2))
    if not reading["coverage"].is_complete:
        click.echo(f"twin: {reading['coverage'].text()}", err=True)
    if warning := session.warning():
        click.echo(f"twin: warning: {warning}", err=True)
