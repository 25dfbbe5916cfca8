"""`iopatterns lab`."""

from pathlib import Path

import click


@click.group()
def command() -> None:
    """Work on copies of the notebooks in JupyterLab.

    Copies are in notebooks/working. They write tables, figures and numbers to results/working. `./reproduce.sh lab`
    makes the copies and opens them.
    """


@command.command()
def copy() -> None:
    """Copy the notebooks; keep copies with edits."""
    from iopatterns.lab import working_copies

    root = Path.cwd()
    for name in working_copies.create_working_copies(root):
        click.echo(f"{working_copies.COPIES_FOLDER}/{name}.ipynb: kept, because it has edits")


@command.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def save(names: tuple[str, ...]) -> None:
    """Copy edits back into the notebooks.

    NAMES are the names of notebooks, by default all. Edited cells lose their outputs.
    """
    from iopatterns.lab import working_copies

    saved = working_copies.save_working_copies(Path.cwd(), list(names))
    for each in saved:
        cleared = f"; {each.cleared_cells} code cells without outputs" if each.cleared_cells else ""
        click.echo(f"{each.path}: written{cleared}")
    if not saved:
        click.echo("No working copy has edits.")
