"""The command `iopatterns check`, which checks whether a drive may be measured."""

import contextlib
import sys

import click

from iopatterns.commands.arguments import DRIVE_ARGUMENT, drive_entry
from iopatterns.commands.job import require_host


@click.command()
@DRIVE_ARGUMENT
@click.option("--writing/--reading", default=True, show_default=True, help="Checks for writing, or for reading only.")
def command(drive: str, writing: bool) -> None:
    """Check whether DRIVE may be written, before any measurement.

    DRIVE is a block device in config/drives.yaml. It may be written under these conditions: it is the configured disk,
    it is writable, nothing else uses it, it contains no data except those listed under 'expendable', and its entry
    consents with 'destroy'. With --reading, it only has to be the configured disk.

    The command prints each check, its result and, where necessary, the remedy. It ends at the first failed check, and
    changes nothing on the drive. The exit status is 1 if a check fails. A drive that is no block device needs no
    checks.
    """
    from iopatterns.base.yaml_schema import ConfigError
    from iopatterns.configuration import drive_entries, kinds
    from iopatterns.measuring.drives.prewrite_checks import PrewriteChecks

    entry = drive_entry(drive, complete=False)
    require_host(kinds.host_of(entry))
    if not kinds.is_whole_disk(entry):
        click.echo(f"{drive}: a drive of kind '{entry['kind']}' uses no block device: nothing to check.")
        return
    if "path" not in entry:
        raise ConfigError(f"{drive_entries.DRIVES_FILE}: {drive}: the entry has no path. Add one.")
    passed = True
    with contextlib.closing(PrewriteChecks(entry)) as gate:
        for each in gate.checks(writing=writing):
            click.echo(f"{'passed' if each.passed else 'REFUSED':8} {each.name}: {each.found}. {each.remedy}".rstrip())
            passed = each.passed
    click.echo(f"{drive} {'may' if passed else 'may not'} be {'written' if writing else 'read'}.")
    if not passed:
        sys.exit(1)
