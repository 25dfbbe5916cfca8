"""Command `twin fit`, which fits parameters of a simulated drive to measurements."""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import FILE_TYPE, MODEL_ARGUMENT, SET_OPTION, SIZE_TYPE


@click.command()
@MODEL_ARGUMENT
@click.option(
    "--points",
    type=FILE_TYPE,
    multiple=True,
    help="CSV file or JSON output of fio with measured points; may be given several times.",
)
@click.option("--move", multiple=True, metavar="GROUP.NAME", help="Parameter to fit; may be given several times.")
@click.option("--output", type=FILE_TYPE, help="File for the fitted model.")
@click.option(
    "--most-error",
    "max_error",
    type=click.FloatRange(0, min_open=True),
    metavar="PERCENT",
    help="Largest mean error of the fitted points.  [default: 20]",
)
@click.option(
    "--ramp-time", type=click.FloatRange(0), metavar="SECONDS", help="Time before the measurement.  [default: 0]"
)
@click.option(
    "--runtime", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Measured time.  [default: 2]"
)
@click.option(
    "--region",
    "region_bytes",
    type=SIZE_TYPE,
    help="Part of the drive that the workloads access, from its start.  [default: 1 GiB]",
)
@SET_OPTION
@OVERWRITE_OPTION
def command(  # noqa: PLR0917 - click passes arguments by name
    model: str,
    points: tuple[Path, ...],
    move: tuple[str, ...],
    output: Path | None,
    max_error: float | None,
    ramp_time: float | None,
    runtime: float | None,
    region_bytes: int | None,
    settings: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Fit parameters of MODEL to measured points.

    A point is a workload and the rate or latency that was measured for it. The fit changes the parameters of --move
    until the simulated workloads give the measured values as nearly as possible. If neither --points nor --move is
    given, the command repeats the fit that is recorded in the model file.

    In fio's JSON output, each section of the job file gives up to two points: one for its reads and one for its writes.
    The value of a point is the total of all jobs of the section.

    The command prints the fitted parameters and the error of each point. If the mean error of the fitted points is
    above --most-error, the command writes no file and exits with status 1. The values of --set apply during the fit
    only.
    """
    from iopatterns.base.ownership import OutputFile
    from iopatterns.twin import models
    from iopatterns.twin.fitting import MAX_MEAN_ERROR, NoFitError, fit_from_files

    loaded = models.load_model(model)
    file = None if output is None else OutputFile(output, inputs=[loaded.path, *points], overwrite=overwrite)
    limit = MAX_MEAN_ERROR if max_error is None else max_error / 100
    run = {
        "ramp_time_s": ramp_time,
        "runtime_s": runtime,
        "region_bytes": region_bytes,
        "set": models.parse_settings(settings) or None,
    }
    given = {name: value for name, value in run.items() if value is not None}
    try:
        click.echo(fit_from_files(loaded, list(points), list(move), file, Path.cwd(), max_error=limit, given=given))
    except NoFitError as error:
        click.echo(error.report)
        raise
