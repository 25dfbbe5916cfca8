"""The command `iopatterns compare`, for two drives, two settings or two runs."""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands.arguments import CONFIDENCE_OPTION, FOLDER_PATH, QUANTITY_OPTION, DriveName


@click.command()
@click.argument("first", type=DriveName())
@click.argument("second", type=DriveName())
@QUANTITY_OPTION
@CONFIDENCE_OPTION
@click.option(
    "--output",
    type=FOLDER_PATH,
    help="Folder for the table and figures.  [default: results/compare/FIRST-SECOND]",
)
@OVERWRITE_OPTION
def command(first: str, second: str, of: str, confidence: float, output: Path | None, *, overwrite: bool) -> None:
    """Compare two drives, two levels of a factor or two runs.

    FIRST and SECOND are two drives, two levels of a factor, such as DRA=0 and DRA=1, or the results folders of two
    runs. A factor is a fio option or a drive setting. Runs may differ in the configuration or in the version of fio. A
    folder that `iopatterns bench` has written is also a run.

    A point is a workload with its settings. The command compares the points that both sides have measured. It prints
    the ratio of the means with its confidence interval, and writes a table and figures.
    """
    from iopatterns.analysis import plots, tables
    from iopatterns.base import ownership
    from iopatterns.lab import comparison

    compared = comparison.Comparison(comparison.load_sides(Path.cwd(), first, second), of, confidence)
    output = output or Path("results/compare") / f"{Path(first).name}-{Path(second).name}"
    ownership.claim_folder(str(output), inputs=[Path(first), Path(second)], overwrite=overwrite)
    points = compared.points()
    table = compared.table(points)
    tables.write_table(table, output / of.replace(" ", "-"))
    for name, figure in compared.figures():
        plots.save_figure(figure, output / f"{name}-{of.replace(' ', '-')}")
    click.echo(f"{tables.to_text(table)}\n{compared.summary_text(points)}\n{output}: table and figures written")
