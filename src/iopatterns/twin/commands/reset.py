"""`twin reset`."""

from pathlib import Path

import click

from iopatterns.twin.commands.arguments import MODEL, STATE, state_folder


@click.command()
@MODEL
@STATE
def command(model: str, folder: Path | None) -> None:
    """Reset a simulated drive to its factory state.

    All settings and the kept data of the drive are deleted.
    """
    folder = state_folder(model, folder)
    for path in (folder / "mode-pages", folder / "content", *folder.glob("model-*")):
        path.unlink(missing_ok=True)
    click.echo(f"{folder}: reset to the factory state")
