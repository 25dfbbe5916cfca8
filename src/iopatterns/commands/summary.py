"""The command `iopatterns summary`, which summarises the results."""

import sys
from pathlib import Path

import click

from iopatterns.commands.arguments import RESULTS_OPTION


@click.command()
@click.option("--since", type=float, metavar="SECONDS", help="Start of the run, in seconds since the epoch.")
@RESULTS_OPTION
def command(since: float | None, results: str) -> None:
    """Summarise the results, and compare them with the manifest.

    The manifest in data/manifests lists the SHA-256 sums that a run with the default configuration must give. The exit
    status is 1 if a result differs from the manifest. With --since, the summary includes how long the run took.
    """
    from iopatterns.workflow.summary import compare_with_manifest, run_summary

    click.echo(run_summary(Path.cwd(), since, results))
    same, text = compare_with_manifest(Path.cwd(), results)
    click.echo(text)
    if not same:
        sys.exit(1)
