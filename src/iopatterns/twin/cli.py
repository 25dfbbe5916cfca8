"""The command line `twin`. Each command is a module of `iopatterns.twin.commands`."""

from collections.abc import Sequence

import click

import iopatterns
from iopatterns.base import command_line

_COMMANDS = ("describe", "fit", "linux", "list", "power-cycle", "replay", "reset", "run", "trace")


@click.group(
    commands=command_line.CommandModules("iopatterns.twin.commands", _COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(iopatterns.__version__)
def twin_command() -> None:
    """Run programs on simulated drives ("twins") in virtual time.

    fio, sdparm and sg3-utils run unmodified on a simulated drive.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    The exit status is 2 for wrong usage or an invalid model, and 1 for other failures.
    """
    command_line.run_program(twin_command, "twin", arguments)
