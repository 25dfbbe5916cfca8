"""The command `iopatterns archive`, which packs the raw files of a drive.

Raw files are the JSON output of fio.
"""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands.arguments import DRIVE_ARGUMENT, FILE_PATH, drive_entry


@click.command()
@DRIVE_ARGUMENT
@click.option("--output", type=FILE_PATH, help="File to write.  [default: data/archives/DRIVE.tar.xz]")
@OVERWRITE_OPTION
def command(drive: str, output: Path | None, overwrite: bool) -> None:
    """Pack the raw files of DRIVE into an archive.

    DRIVE is the name of a configured drive. Raw files are the JSON output of fio, a file for each repetition of a
    measurement. The archive can be analysed in another project, on a machine without the drive. The command prints the
    entry for config/drives.yaml of that project.
    """
    from iopatterns.raw import archive
    from iopatterns.raw.cells import RAW_FOLDER
    from iopatterns.workflow import planned_cells

    drive_entry(drive)
    cells = planned_cells.load_cells(Path.cwd(), {"drives": [drive]})
    experiments = {folder: names for study in cells.studies for folder, names in cells.experiments(study).items()}
    output = output or Path(f"data/archives/{drive}.tar.xz")
    made = archive.pack_archive(Path(RAW_FOLDER) / drive, experiments, output, overwrite=overwrite)
    repetitions = sum(cell.executions for cell in made.cells)
    without_experiment = sum(not cell.experiments for cell in made.cells)
    click.echo(f"{output}: {repetitions} repetitions of {len(made.cells)} cells, SHA-256 {made.sha256}")
    if without_experiment:
        click.echo(f"  {without_experiment} of the cells belong to no configured experiment: packed, but not analysed")
    click.echo(
        f"To analyse the archive elsewhere, add to config/drives.yaml:\n\n  {drive}: {{kind: archive, path: {output}}}"
    )
