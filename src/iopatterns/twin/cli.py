"""Command line `twin`, which runs programs on simulated drives.

Each command is a module of `iopatterns.twin.commands`, which is imported when the command is used.
"""

from collections.abc import Sequence

import click

import iopatterns
from iopatterns.base import command_line

_COMMANDS = ("describe", "fit", "linux", "list", "power-cycle", "replay", "reset", "run", "trace", "validate")


@click.group(
    commands=command_line.CommandModules("iopatterns.twin.commands", _COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(iopatterns.__version__)
def twin_command() -> None:
    """Run programs on simulated drives ("twins") in virtual time.

    fio, sdparm and sg3-utils run unmodified on a simulated drive. A model is a file with the parameters of a drive;
    `twin list` prints the names of the models.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line `twin`, and exit.

    The exit status is 0 on success, 2 for wrong usage or an invalid model, and 1 for other failures. `twin run` and
    `twin linux` exit with the status of the program that they run.

    Args:
        arguments: Words after `twin`, such as ``["describe", "px05smb040"]``; None for the arguments of this process.
    """
    command_line.run_program(twin_command, "twin", arguments)
