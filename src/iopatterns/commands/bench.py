"""The command `iopatterns bench`, which measures a drive without a study.

A study reproduces the experiments of one source, such as a paper.
"""

from pathlib import Path

import click

from iopatterns.base import subprocess_env
from iopatterns.base.messages import printable
from iopatterns.commands import job
from iopatterns.commands.arguments import DriveName, drive_entry


@click.command()
@click.option("--drive", required=True, type=DriveName(), help="Name of the drive.")
@click.option("--rw", required=True, metavar="LEVELS", help="Workloads, such as randread,randwrite.")
@click.option("--bs", required=True, metavar="LEVELS", help="Block sizes, such as 4k,64k.")
@click.option("--iodepth", metavar="LEVELS", help="I/O depths, such as 1,8,32.")
@click.option("--numjobs", metavar="LEVELS", help="Numbers of jobs, such as 1,4.")
@click.option(
    "--repetitions", type=click.IntRange(1, 9999), help="Repetitions of each cell.  [default: from config.yaml]"
)
@click.option("--runtime", metavar="TIME", help="Runtime of fio, such as 10s.  [default: from config.yaml]")
@click.option("--file-size", metavar="SIZE", help="Used part of the drive, such as 8GiB.  [default: from config.yaml]")
@click.argument("options", nargs=-1, metavar="[OPTION=LEVELS]...")
def command(drive: str, options: tuple[str, ...], **given: str | int | None) -> None:
    """Measure a drive over a grid of workloads, without a study.

    The command measures every combination of the given levels (values), prints a table and draws figures. Each
    OPTION=LEVELS adds another fio option or drive setting to vary, such as thinktime=1ms,5ms or DRA=0,1.
    `iopatterns factors` lists the options and settings. The checks that protect a drive are the same as in a study.
    """
    from iopatterns.configuration import kinds

    entry = drive_entry(drive)
    job.require_host(kinds.host_of(entry))
    if kinds.is_real(entry):
        subprocess_env.restart_without_preloads()
    from iopatterns.lab.bench import Bench, BenchRequest

    values = {name: given.pop(name) for name in ("repetitions", "runtime", "file_size")}
    levels = {name: str(text) for name, text in given.items() if text is not None}
    for option in options:
        name, equals, text = option.partition("=")
        if not (equals and text):
            raise click.BadParameter(f"'{printable(option)}' is not OPTION=LEVELS, such as thinktime=1ms,5ms.")
        levels[name] = text
    request = BenchRequest(
        drive,
        {name: [level.strip() for level in text.split(",")] for name, text in levels.items()},
        {name: value for name, value in values.items() if value is not None},
    )
    bench = Bench.create(Path.cwd(), request)
    with job.running_job():
        bench.measure()
    click.echo(bench.write_results())
