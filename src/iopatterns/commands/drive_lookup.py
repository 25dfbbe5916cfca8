"""Look-up of a drive that the user names on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iopatterns.configuration.kinds import Entry


def drive_entry(name: str, *, complete: bool = True) -> "Entry":
    """Return the entry of a drive in config/drives.yaml of the current folder.

    Args:
        name: The name of the drive.
        complete: Whether the entry must have all keys that its kind needs.

    Raises:
        ConfigError: The file has no such drive, or has a mistake.
    """
    from iopatterns.base import yaml_schema
    from iopatterns.base.messages import printable
    from iopatterns.configuration import config

    drives = config.read_drives(Path.cwd(), complete=complete)
    if name not in drives:
        near = yaml_schema.nearest(name, drives)
        raise yaml_schema.ConfigError(f"{config.DRIVES_FILE} has no drive '{printable(name)}'.{near}")
    return drives[name]
