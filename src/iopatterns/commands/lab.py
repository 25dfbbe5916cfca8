"""The command `iopatterns lab`, for work on copies of the notebooks."""

from pathlib import Path

import click


@click.group()
def command() -> None:
    """Work on copies of the notebooks in JupyterLab.

    The copies are in notebooks/working. They write tables, figures and numbers to results/working, so that the
    notebooks of the project and their results stay unchanged. `./reproduce.sh lab` creates the copies and opens
    JupyterLab.
    """


@command.command("copy")
def copy_notebooks() -> None:
    """Copy the notebooks to notebooks/working.

    Existing copies that you have edited are kept. The command names them.
    """
    from iopatterns.lab import working_copies

    root = Path.cwd()
    for name in working_copies.create_working_copies(root):
        click.echo(f"{working_copies.COPIES_FOLDER}/{name}.ipynb: kept, because it has edits")


@command.command("save")
@click.argument("names", metavar="[NAME]...", nargs=-1)
def save_edits(names: tuple[str, ...]) -> None:
    """Copy edits from notebooks/working back into the notebooks.

    NAME... are the names of notebooks without suffix, by default all. The outputs of edited cells are removed. The
    command names the notebooks that it writes.
    """
    from iopatterns.lab import working_copies

    saved = working_copies.save_working_copies(Path.cwd(), list(names))
    for each in saved:
        cleared = f"; outputs of {each.cleared_cells} edited cells removed" if each.cleared_cells else ""
        click.echo(f"{each.path}: written{cleared}")
    if not saved:
        click.echo("No working copy has edits.")
