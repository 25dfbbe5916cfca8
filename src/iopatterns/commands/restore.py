"""The command `iopatterns restore`, which restores settings of disks.

An interrupted measurement may leave such settings changed.
"""

import sys

import click

from iopatterns.base import command_line


@click.command()
def command() -> None:
    """Restore disk settings that interrupted runs left changed.

    The command prints each restored setting. It is not required: the next measurement of a disk also restores the
    disk's settings. The exit status is 1 if a setting could not be restored.
    """
    from iopatterns.measuring.drives.restoring import restore_all_disks

    restored, problems = restore_all_disks()
    for line in restored:
        click.echo(line)
    for problem in problems:
        command_line.report_error("iopatterns", problem)
    if problems:
        sys.exit(1)
    if not restored:
        click.echo("Nothing to restore.")
