"""Command `twin reset`, which deletes the settings and data of a simulated drive."""

from pathlib import Path

import click

from iopatterns.twin.commands.arguments import MODEL_ARGUMENT, STATE_OPTION, state_folder_of
from iopatterns.twin.state import SETTINGS_FILE


@click.command()
@MODEL_ARGUMENT
@STATE_OPTION
def command(model: str, folder: Path | None) -> None:
    """Reset the simulated drive MODEL to its factory state.

    MODEL is the name of a model of a drive (`twin list`), or the path of a model file. All settings and all kept data
    of the drive are deleted from its state folder (--state).
    """
    folder = state_folder_of(model, folder)
    for path in (folder / SETTINGS_FILE, folder / "content", *folder.glob("model-*")):
        path.unlink(missing_ok=True)
    click.echo(f"{folder}: reset to the factory state")
