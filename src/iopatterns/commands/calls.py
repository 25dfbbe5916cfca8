"""The command group `iopatterns calls`, for traces of system calls.

Such a trace lists the system calls with which a program accessed files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands.arguments import FILE_PATH, FOLDER_PATH

if TYPE_CHECKING:
    import pandas as pd

    from iopatterns.calls import Trace

_TRACE_FILES = click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=FILE_PATH)


def _reading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading a trace to the function of a click command.

    The options are ``--name``, ``--only``, ``--adapter`` and ``--skip-bad``.
    """
    options = (
        click.option("--name", default="", help="Name of the trace.  [default: the name of its first file]"),
        click.option(
            "--only",
            default="*",
            metavar="PATTERN",
            help="Pattern of the files whose accesses are read, such as '/scratch/*'.",
        ),
        click.option("--adapter", default="", metavar="FILE.py:CLASS", help="Class that reads another format."),
        click.option("--skip-bad", is_flag=True, help="Skip and count faulty lines."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@contextmanager
def _opened_trace(paths: Sequence[Path], given: Mapping[str, Any]) -> Iterator["Trace"]:
    """Yield the trace in some files. Without an error, report on exit how much of the source it represents.

    With ``--skip-bad``, faulty lines are reported, too.

    Args:
        paths: The files of the trace.
        given: The values of the options that `_reading_options` adds.
    """
    from iopatterns import calls
    from iopatterns.base import reading_progress

    skipped = calls.SkippedLines() if given["skip_bad"] else None
    trace = calls.open_trace(paths, skipped=skipped, **{name: given[name] for name in ("name", "only", "adapter")})

    def read() -> Iterator["pd.DataFrame"]:
        with reading_progress.shown():
            yield from trace.read()

    yield replace(trace, read=read)
    if skipped is not None:
        skipped.report()
    click.echo(trace.coverage.text())


@click.group()
def command() -> None:
    """Inspect, convert and replay traces of system calls.

    A trace lists the system calls with which a program accessed files. The commands read the text of
    `strace -f -ttt -T`, a log of Darshan with DXT records, I/O logs of fio (a file per process), and the Parquet files
    of `iopatterns calls convert`. docs/application-traces.md is a tutorial.
    """


@command.command("show")
@_TRACE_FILES
@_reading_options
@click.option("--figures", type=FOLDER_PATH, help="Folder for figures: request sizes, and a map of accesses.")
@OVERWRITE_OPTION
def show_trace(paths: tuple[Path, ...], figures: Path | None, overwrite: bool, **given: object) -> None:
    """Print access patterns, read share and request sizes of a trace.

    FILE... are the files of one trace of system calls. `iopatterns calls --help` lists the formats. With --figures, the
    command also draws the request sizes and a map of the accesses.
    """
    from iopatterns.analysis import applications, plots, tables
    from iopatterns.base import ownership

    if figures is not None:
        ownership.claim_folder(str(figures), overwrite=overwrite)
    with _opened_trace(paths, given) as trace:
        seen = applications.characterise_trace(trace)
        click.echo(tables.to_text(applications.characteristics_table(applications.characteristics_frame([seen]))))
        for direction, requests in seen.directions.items():
            if requests.requests:
                sizes = applications.size_distribution([seen], direction)
                shares = sizes[sizes["requests"] > 0]
                texts = [
                    f"{bucket} KB {share:.1%}" for bucket, share in zip(shares["bucket"], shares["share"], strict=True)
                ]
                click.echo(f"{direction} requests by size, up to: {', '.join(texts)}")
                if figures is not None:
                    plots.save_figure(applications.size_figure(sizes, direction), figures / f"{direction}-sizes")
        if figures is not None:
            plots.save_figure(applications.access_map(trace), figures / "access-map")
            click.echo(f"{figures}: figures written")


@command.command("convert")
@_TRACE_FILES
@click.argument("output", type=FILE_PATH)
@_reading_options
@OVERWRITE_OPTION
def convert_command(paths: tuple[Path, ...], output: Path, overwrite: bool, **given: object) -> None:
    """Convert a trace of any supported format to a Parquet file.

    FILE... are the files of one trace, which lists the system calls of a program. `iopatterns calls --help` lists the
    formats. OUTPUT is the Parquet file to write. Its name must end in .parquet.
    """
    from iopatterns import calls

    with _opened_trace(paths, given) as trace:
        done = calls.convert_calls(trace, output, paths, overwrite=overwrite)
        click.echo(
            f"{output}: {done.name} ({done.origin}), {done.calls} calls of {done.processes} processes in"
            f" {done.duration_ns / 1e9:.3f} s, from the format '{done.form}'"
        )


@command.command("stand-in")
@click.argument("workload")
@click.argument("output", type=FILE_PATH)
@OVERWRITE_OPTION
def write_stand_in(workload: str, output: Path, overwrite: bool) -> None:
    """Write a synthetic trace, a stand-in for an unpublished trace.

    A trace lists the system calls with which a program accessed files. WORKLOAD is an application that Park and Shen
    (2009) traced, such as Sandia-cth. OUTPUT is the Parquet file to write. Its name must end in .parquet.
    """
    from iopatterns import calls
    from iopatterns.calls.stand_ins import stand_in

    done = calls.convert_calls(stand_in(workload), output, overwrite=overwrite)
    click.echo(f"{output}: {done.name} ({done.origin}), {done.calls} calls of {done.processes} processes")


@command.command("logs")
@_TRACE_FILES
@click.option("--to", "folder", required=True, type=FOLDER_PATH, help="New folder for the logs and the replayed files.")
@_reading_options
@click.option("--process", "processes", multiple=True, type=int, help="Process to replay; may be given several times.")
@click.option("--timed", is_flag=True, help="Replay at the times of the trace, not as fast as possible.")
@click.option("--drive", is_flag=True, help="Replay all requests on one bare drive instead of on files.")
def write_logs(
    paths: tuple[Path, ...], folder: Path, processes: tuple[int, ...], timed: bool, drive: bool, **given: object
) -> None:
    """Write I/O logs and a job file with which fio replays a trace.

    FILE... are the files of one trace of system calls. `iopatterns calls --help` lists the formats. The command writes
    a log for each process, the job file, and the files that the trace accesses, each in the size that the replay needs.
    With --drive, all requests go to one drive without a file system: the simulated drive on which `twin run` runs fio.
    """
    from iopatterns.calls import replaying

    with _opened_trace(paths, given) as trace:
        job_file = replaying.write_replay_folder(trace, folder, processes=processes or None, timed=timed, drive=drive)
        click.echo(f"{job_file}: replay it with `{'twin run MODEL -- ' if drive else ''}fio {job_file}`")
