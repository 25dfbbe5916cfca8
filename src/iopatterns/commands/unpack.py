"""The hidden command `iopatterns unpack`.

The workflow calls it to unpack the raw files of a drive that was measured elsewhere.
"""

from pathlib import Path

import click

from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.commands.arguments import DIE_WITH_PARENT_OPTION, FOLDER_PATH, LOG_OPTION
from iopatterns.commands.job import running_job


@click.command(hidden=True)
@LOG_OPTION
@OVERWRITE_OPTION
@DIE_WITH_PARENT_OPTION
@click.option("--sha256", help="Expected SHA-256 of the archive.")
@click.argument("archive_file", metavar="ARCHIVE", type=click.Path(path_type=Path))
@click.argument("folder", type=FOLDER_PATH)
def command(
    *, log: Path | None, overwrite: bool, die_with_parent: bool, sha256: str | None, archive_file: Path, folder: Path
) -> None:
    """Verify the archive of a drive, and unpack its raw files.

    Raw files are the JSON output of fio. ARCHIVE is a file that `iopatterns archive` has written. FOLDER is the folder
    of the drive in data/raw.
    """
    from iopatterns.raw import archive

    with running_job(log, inputs=[archive_file], overwrite=overwrite, die_with_parent=die_with_parent):
        archive.unpack_archive(archive_file, folder, sha256)
