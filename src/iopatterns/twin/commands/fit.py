"""Command `twin fit`, which fits parameters of a simulated drive to measurements."""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import FILE_TYPE, MODEL_ARGUMENT, PATHS_ARGUMENT, SET_OPTION, SIZE_TYPE

_PERCENT = click.FloatRange(0, min_open=True)


@click.command()
@MODEL_ARGUMENT
@PATHS_ARGUMENT
@click.option(
    "--move",
    multiple=True,
    metavar="GROUP.NAME",
    help="Parameter to fit; may be given several times.  [default: the parameters with the largest effect]",
)
@click.option("--output", type=FILE_TYPE, help="File for the fitted model.")
@click.option(
    "--most-error",
    "max_error",
    type=_PERCENT,
    metavar="PERCENT",
    default=20,
    show_default=True,
    help="Largest mean error of the fitted points.",
)
@click.option(
    "--most-point-error",
    "max_point_error",
    type=_PERCENT,
    metavar="PERCENT",
    default=30,
    show_default=True,
    help="Largest error of each fitted point.",
)
@click.option(
    "--held-out",
    type=click.FloatRange(0, 90),
    metavar="PERCENT",
    default=25,
    show_default=True,
    help="Share of the points that the fit does not use, if no point states its part.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the split and of the search.")
@click.option("--ramp-time", type=click.FloatRange(0), metavar="SECONDS", help="Time before the measurement.")
@click.option("--runtime", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Measured time.")
@click.option("--region", "region_bytes", type=SIZE_TYPE, help="Accessed part of the drive, from its start.")
@SET_OPTION
@OVERWRITE_OPTION
def command(  # noqa: PLR0917 - click passes arguments by name
    model: str,
    paths: tuple[str, ...],
    move: tuple[str, ...],
    output: Path | None,
    max_error: float,
    max_point_error: float,
    held_out: float,
    seed: int,
    ramp_time: float | None,
    runtime: float | None,
    region_bytes: int | None,
    settings: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Fit parameters of MODEL to the measured points of each PATH.

    A PATH is fio's JSON or JSON+ output, a folder or glob of such files (the results of bench-fio, for example), or a
    CSV table. Each section of fio's job file is a point. Without a PATH, the command repeats the fit that the model
    file records.

    The fit begins at the values of MODEL. With `auto` as MODEL, it begins at the shipped model that is nearest to the
    points.

    Region, runtime, ramp time and engine of a point are taken from fio's options. --region, --runtime and --ramp-time
    are for points that do not state them; by default such points access all of the drive for 60 s without a ramp. A
    point that cannot represent the drive is refused, with the reason and what to measure instead.

    The fit changes the parameters until rates, mean latencies and percentiles of the simulated drive are as near to the
    measured ones as possible. A part of the points is held out to test the result. The command prints the fitted
    parameters, those that the points do not determine, and the error of each point. If the errors of rate and mean
    latency are above the limits, the command writes no file and exits with status 1. The values of --set apply during
    the fit only.
    """
    from iopatterns.base import messages
    from iopatterns.base.ownership import OutputFile
    from iopatterns.twin import models, points
    from iopatterns.twin.fitting import NEAREST, NoFitError, fit_from_files

    loaded = None if model == NEAREST else models.load_model(model)
    begins = [models.load_model(name) for name in models.list_models()] if loaded is None else [loaded]
    inputs = [*(each.path for each in begins), *points.input_files(paths)]
    file = None if output is None else OutputFile(output, inputs=inputs, overwrite=overwrite)
    try:
        report = fit_from_files(
            loaded,
            paths,
            move,
            file,
            Path.cwd(),
            max_error=max_error / 100,
            max_point_error=max_point_error / 100,
            held_out=held_out / 100,
            seed=seed,
            settings=models.parse_settings(settings),
            conditions={"ramp_s": ramp_time, "runtime_s": runtime, "size_bytes": region_bytes},
            say=messages.say,
        )
    except NoFitError as error:
        click.echo(error.report)
        raise
    click.echo(report)
