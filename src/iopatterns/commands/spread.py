"""The command `iopatterns spread`, which compares drives of one model.

It shows how much results vary between the drives.
"""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands.arguments import CONFIDENCE_OPTION, FOLDER_PATH, QUANTITY_OPTION, DriveName


@click.command()
@click.argument("drives", nargs=-1, required=True, type=DriveName())
@QUANTITY_OPTION
@CONFIDENCE_OPTION
@click.option(
    "--output",
    type=FOLDER_PATH,
    default=Path("results/spread"),
    show_default=True,
    help="Folder for the table and figures.",
)
@OVERWRITE_OPTION
def command(drives: tuple[str, ...], of: str, confidence: float, output: Path, overwrite: bool) -> None:
    """Compare drives of one model with each other.

    DRIVES may be the drives of a lab, or the archives of several students. The command prints how much results vary
    between DRIVES, and how much between repetitions of a measurement on one drive. It writes a table and figures to the
    output folder.
    """
    from iopatterns.analysis import plots, tables
    from iopatterns.base import ownership
    from iopatterns.lab.spread import DriveSpread

    spread = DriveSpread.load(Path.cwd(), drives, of, confidence)
    ownership.claim_folder(str(output), inputs=map(Path, drives), overwrite=overwrite)
    points = spread.points()
    table = spread.table(points)
    tables.write_table(table, output / of.replace(" ", "-"))
    for name, figure in spread.figures(points):
        plots.save_figure(figure, output / f"{name}-{of.replace(' ', '-')}")
    click.echo(f"{tables.to_text(table)}\n{spread.summary_text(points)}\n{output}: table and figures written")
