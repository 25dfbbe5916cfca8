"""The command `iopatterns manifest`, which compares the results with checksums.

The checksums are those that a run with the default configuration must give.
"""

import sys
from pathlib import Path

import click

from iopatterns.commands.arguments import RESULTS_OPTION


@click.command()
@click.option("--write", is_flag=True, help="Replace the manifest with the checksums of the results.")
@RESULTS_OPTION
def command(write: bool, results: str) -> None:
    """Compare the checksums of the results with the manifest.

    The manifest in data/manifests has the SHA-256 sum of each file that a run with the default configuration writes.
    The exit status is 1 if a file differs. With --write, the checksums of the default results folder become the new
    manifest instead.
    """
    from iopatterns.measuring import fio
    from iopatterns.workflow import manifest

    if write:
        click.echo(f"{manifest.write_manifests(Path.cwd(), fio.version())}: written")
        return
    same, text = manifest.compare_results(Path.cwd(), fio.version(), results)
    click.echo(text)
    if not same:
        sys.exit(1)
