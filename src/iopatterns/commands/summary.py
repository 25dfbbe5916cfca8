"""`iopatterns summary`."""

import sys
from pathlib import Path

import click


@click.command()
@click.option("--since", type=float, metavar="SECONDS", help="Start of the run, in seconds since the epoch.")
def command(since: float | None) -> None:
    """Summarise the results, and compare them with the manifest.

    The exit status is 1 if a result differs from the committed manifest.
    """
    from iopatterns.workflow.summary import compare, summarise

    click.echo(summarise(Path.cwd(), since))
    same, text = compare(Path.cwd())
    click.echo(text)
    if not same:
        sys.exit(1)
