"""The hidden command `iopatterns unpack`, which the workflow calls."""

from pathlib import Path

import click

from iopatterns.commands.arguments import DIE_WITH_PARENT_OPTION, FOLDER_PATH, LOG_OPTION
from iopatterns.commands.job import running_job


@click.command(hidden=True)
@LOG_OPTION
@DIE_WITH_PARENT_OPTION
@click.option("--sha256", help="Expected SHA-256 of the archive.")
@click.argument("archive_file", metavar="ARCHIVE", type=click.Path(path_type=Path))
@click.argument("folder", type=FOLDER_PATH)
def command(log: Path | None, die_with_parent: bool, sha256: str | None, archive_file: Path, folder: Path) -> None:
    """Verify ARCHIVE and unpack its raw files into FOLDER.

    FOLDER is the folder of the drive in data/raw.
    """
    from iopatterns.raw import archive

    with running_job(log, die_with_parent=die_with_parent):
        archive.unpack_archive(archive_file, folder, sha256)
