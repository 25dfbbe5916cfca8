"""Command `twin validate`, which compares a simulated drive with measurements."""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import FILE_TYPE, MODEL_ARGUMENT, PATHS_ARGUMENT, SET_OPTION

_SUFFIXES = (".svg", ".pdf", ".png")


@click.command()
@MODEL_ARGUMENT
@PATHS_ARGUMENT
@click.option("--output", type=FILE_TYPE, help="File for the heat map of the errors (.svg, .pdf or .png).")
@SET_OPTION
@OVERWRITE_OPTION
def command(
    model: str, paths: tuple[str, ...], output: Path | None, settings: tuple[str, ...], overwrite: bool
) -> None:
    """Simulate measured points on MODEL, and print the errors.

    A PATH is fio's JSON or JSON+ output, a folder or glob of such files (the results of bench-fio, for example), or a
    CSV table, as for `twin fit`. The command prints the errors of rate, mean latency, and 50th and 99th percentile for
    each point, and their mean, median, 90th percentile and worst. If points were measured repeatedly, it prints how
    much the repeats differ (noise floor), which no simulated drive can be expected to undercut.
    """
    from iopatterns.base import messages
    from iopatterns.base.ownership import OutputFile
    from iopatterns.twin import models, points, validation
    from iopatterns.twin.error import TwinError

    loaded = models.load_model(model).overridden(settings)
    if not paths:
        raise TwinError("give the measured points: files, folders or globs of fio's output, or CSV tables")
    inputs = [loaded.path, *points.input_files(paths)]
    file = None if output is None else OutputFile(output, inputs=inputs, overwrite=overwrite)
    if output is not None and output.suffix not in _SUFFIXES:
        raise TwinError(f"{output}: give the heat map a name that ends in {', '.join(_SUFFIXES)}")
    found = points.possible_points(points.read_points(paths), loaded)
    for line in [*found.refused, *found.notes]:
        messages.say(line)
    errors = validation.errors(found.table, validation.simulate_points(loaded, found.table))
    noise = validation.noise_floor(found.table)
    click.echo(validation.error_table(errors))
    click.echo()
    click.echo(validation.summary_table(validation.summary(errors), noise))
    if file is not None:
        figure = validation.error_maps(errors, noise=validation.noise_floor(found.table, by=["rw", "rwmixread"]))
        with file as temporary:
            figure.savefig(temporary)
