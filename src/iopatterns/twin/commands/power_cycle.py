"""Command `twin power-cycle`, which drops unsaved settings of a simulated drive."""

import os
from pathlib import Path

import click

from iopatterns.twin.commands.arguments import MODEL_ARGUMENT, STATE_OPTION, state_folder_of
from iopatterns.twin.state import SETTINGS_FILE


@click.command()
@MODEL_ARGUMENT
@STATE_OPTION
def command(model: str, folder: Path | None) -> None:
    """Power-cycle a simulated drive: unsaved settings are lost.

    MODEL is the name of a model of a drive (`twin list`), or the path of a model file. The saved settings of the drive,
    such as its cache settings, replace its current settings.
    """
    folder = state_folder_of(model, folder)
    settings = folder / SETTINGS_FILE
    if settings.exists():
        _load_saved_settings(settings)
    click.echo(f"{folder}: the saved settings are in effect")


def _load_saved_settings(settings: Path) -> None:
    """Replace the drive's current settings with its saved settings.

    A settings file has two lines: the current and the saved content of the drive's mode page, which holds its cache
    settings.

    Args:
        settings: The settings file in a state folder.

    Raises:
        TwinError: The file is not a settings file.
    """
    import fcntl
    import re

    from iopatterns.base import files
    from iopatterns.twin.error import TwinError

    descriptor = os.open(settings.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a running program may change the settings
        found = re.fullmatch(r"current [0-9a-f]{40}\nsaved ([0-9a-f]{40})\n", settings.read_text(errors="replace"))
        if not found:
            raise TwinError(f"{settings}: not the settings of a simulated drive. `twin reset` replaces the file.")
        files.write_text(settings, f"current {found[1]}\nsaved {found[1]}\n")
    finally:
        os.close(descriptor)
