"""Arguments and options that several commands have, and the look-up of drives."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iopatterns.base.command_line import CompletedName
from iopatterns.configuration import study_files

if TYPE_CHECKING:
    from iopatterns.configuration.kinds import DriveEntry


class DriveName(CompletedName):
    """The type of a click argument or option for the name of a drive.

    The shell completes the names of drives in config/drives.yaml and in studies. The type accepts any other text too.
    """

    name = "drive"

    def names(self) -> Iterable[str]:
        """Return the names of the drives of the project in the current folder.

        These are the drives in config/drives.yaml and in config/studies. A name may occur several times.
        """
        from iopatterns.configuration import drive_entries

        return drive_entries.named_drives(Path.cwd())


class StudyName(CompletedName):
    """The type of a click argument for the name of a study.

    The shell completes the names of the files in config/studies, without suffix. The type accepts any other text too.
    """

    name = "study"

    def names(self) -> Iterable[str]:
        """Return the names of the studies in config/studies of the current folder, sorted."""
        return study_files.study_names(Path.cwd())


def _default_results() -> str:
    from iopatterns.configuration import config

    return config.results_folder(Path.cwd())


FILE_PATH = click.Path(path_type=Path, dir_okay=False)
FOLDER_PATH = click.Path(path_type=Path, file_okay=False)
DRIVE_ARGUMENT = click.argument("drive", type=DriveName())
RESULTS_OPTION = click.option(
    "--results",
    metavar="FOLDER",
    default=_default_results,
    show_default="from config.yaml",
    help="Results folder.",
)
LOG_OPTION = click.option("--log", type=FILE_PATH, help="File for a copy of all messages.")
DIE_WITH_PARENT_OPTION = click.option("--die-with-parent", is_flag=True, help="Stop when the parent process ends.")
QUANTITY_OPTION = click.option(
    "--of",
    default="bandwidth",
    show_default=True,
    metavar="QUANTITY",
    help="Quantity to compare, such as iops, latency or 'clat p99'.",
)
CONFIDENCE_OPTION = click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0.5, 0.999),
    help="Confidence level of the intervals.",
)


def drive_entry(name: str, *, complete: bool = True) -> "DriveEntry":
    """Return the configuration entry of a drive of the project in the current folder.

    The entry is a dictionary with the keys of config/drives.yaml, such as ``{"kind": "twin", "model": "c400"}``. A
    drive can be in config/drives.yaml, be defined by a study, or be a model of a simulated drive in data/twins.

    Args:
        name: The name of the drive.
        complete: Whether to check that all entries of config/drives.yaml have the keys that their kinds require. False
            allows an incomplete entry, such as one without ``serial``.

    Raises:
        ConfigError: The project has no drive of this name, or a file has a mistake.
    """
    from iopatterns.base import yaml_schema
    from iopatterns.base.messages import printable
    from iopatterns.configuration import drive_entries

    drives = drive_entries.read_drive_entries(Path.cwd(), complete=complete).entries
    if name not in drives:
        near = yaml_schema.did_you_mean(name, drives)
        file = drive_entries.DRIVES_FILE
        raise yaml_schema.ConfigError(f"neither {file} nor a study has a drive '{printable(name)}'.{near}")
    return drives[name]
