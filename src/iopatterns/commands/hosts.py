"""The command `iopatterns hosts`, which checks the hosts of a cluster."""

import sys
from pathlib import Path

import click

from iopatterns.commands.arguments import DriveName, drive_entry


@click.command()
@click.option("--here", is_flag=True, help="Check only this host, without Slurm.")
@click.option("--partition", default="", help="Partition of the hosts.  [default: from Slurm]")
@click.argument("drives", nargs=-1, type=DriveName())
def command(here: bool, partition: str, drives: tuple[str, ...]) -> None:
    """Check that the hosts of a Slurm cluster can run jobs.

    DRIVES are the drives to measure, by default all configured drives. The command prints a report for each host. A run
    with profiles/slurm makes the same checks before it submits a job. The exit status is 1 if a host cannot run the
    jobs.
    """
    from iopatterns.configuration import config, kinds
    from iopatterns.workflow import hosts

    root = Path.cwd()
    if here:
        ready, text = hosts.check_this_host(root, {drive: drive_entry(drive) for drive in drives})
        click.echo(text)
        sys.exit(not ready)
    configured = config.load_config(root, {"drives": list(drives)} if drives else None).drives
    measured = {drive: entry for drive, entry in configured.items() if not kinds.is_archived(entry)}
    reports = hosts.query_hosts(root, measured, hosts.SlurmSubmission(partition))
    for line in hosts.report_lines(reports):
        click.echo(line)
    if any(each.is_ready is False for each in reports):
        sys.exit(1)
