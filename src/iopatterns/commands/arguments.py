"""Arguments and options that several commands share, and the look-up of a drive that a user names."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iopatterns.base.command_line import CompletedName
from iopatterns.configuration import study_files

if TYPE_CHECKING:
    from iopatterns.configuration.kinds import DriveEntry

_DRIVES_FILE = "config/drives.yaml"


class DriveName(CompletedName):
    """The name of a drive in config/drives.yaml, or of a simulated drive that a study names."""

    name = "drive"

    def names(self) -> Iterable[str]:
        """Return the drives of the project in the current folder."""
        return _drive_names(Path.cwd())


class StudyName(CompletedName):
    """A command-line argument that names a study: NAME for the file config/studies/NAME.yaml."""

    name = "study"

    def names(self) -> Iterable[str]:
        """Return the studies of the project in the current folder."""
        return study_files.study_names(Path.cwd())


FILE_PATH = click.Path(path_type=Path, dir_okay=False)
FOLDER_PATH = click.Path(path_type=Path, file_okay=False)
DRIVE_ARGUMENT = click.argument("drive", type=DriveName())
RESULTS_OPTION = click.option("--results", metavar="FOLDER", help="Results folder.  [default: that of config.yaml]")
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
    """Return the entry of a drive of the project in the current folder.

    Args:
        name: The name of the drive.
        complete: Whether the entry must have all keys that its kind needs.

    Raises:
        ConfigError: Neither config/drives.yaml nor a study has the drive, or a file has a mistake.
    """
    from iopatterns.base import yaml_schema
    from iopatterns.base.messages import printable
    from iopatterns.configuration import drive_entries

    drives = drive_entries.read_drive_entries(Path.cwd(), complete=complete).entries
    if name not in drives:
        near = yaml_schema.did_you_mean(name, drives)
        raise yaml_schema.ConfigError(
            f"neither {drive_entries.DRIVES_FILE} nor a study has a drive '{printable(name)}'.{near}"
        )
    return drives[name]


def _drive_names(root: Path) -> Iterator[str]:
    """Yield the drives that config/drives.yaml and the studies define or name. Files with mistakes have none."""
    yield from _names_in(_content(root / _DRIVES_FILE))
    for name in study_files.study_names(root):
        study = _content(root / study_files.GRID.format(study=name))
        yield from _names_in(study.get("twins"))
        experiments = study.get("experiments")
        bodies = experiments.values() if isinstance(experiments, dict) else ()
        for body in (study, *bodies):
            yield from _names_in(body.get("drives") if isinstance(body, dict) else None)


def _names_in(content: Any) -> list[str]:
    """Return the texts in a list, or the keys of a mapping."""
    return [each for each in content if isinstance(each, str)] if isinstance(content, (dict, list)) else []


def _content(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; an empty one if the file is missing or has a mistake."""
    from iopatterns.base import yaml_files

    try:
        content = yaml_files.parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
