"""`iopatterns study`."""

from pathlib import Path

import click


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Create a notebook and a report section for a new study.

    The notebook and the section work with any grid.
    """
    from iopatterns.workflow import skeleton

    for path in skeleton.write(Path.cwd(), name):
        click.echo(f"{path}: written")
    click.echo(skeleton.what_else(name))
