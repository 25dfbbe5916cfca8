"""Look-up of a drive that the user names on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iopatterns.configuration.kinds import Entry


def drive_entry(name: str, *, complete: bool = True) -> "Entry":
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

    drives = drive_entries.read(Path.cwd(), complete=complete).entries
    if name not in drives:
        near = yaml_schema.nearest(name, drives)
        raise yaml_schema.ConfigError(
            f"neither {drive_entries.FILE} nor a study has a drive '{printable(name)}'.{near}"
        )
    return drives[name]
