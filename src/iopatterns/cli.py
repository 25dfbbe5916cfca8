"""The program `iopatterns`.

Each of its commands is a module of `iopatterns.commands`.
"""

from collections.abc import Sequence

import click

import iopatterns
from iopatterns.base import command_line

_COMMANDS = (
    *("archive", "bench", "calls", "check", "compare", "factors", "hosts", "lab"),
    *("manifest", "measure", "restore", "scorecard", "spread", "study", "summary", "unpack", "verify"),
)


@click.group(
    commands=command_line.CommandModules("iopatterns.commands", _COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(iopatterns.__version__)
def iopatterns_command() -> None:
    """Measure drives, and inspect results and traces.

    All commands work on the project in the current folder. Most users only need `snakemake --cores 1`, which measures
    the drives and makes the report. `iopatterns COMMAND --help` describes a command.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program `iopatterns`.

    The function returns after success. Otherwise the process exits: with status 2 for wrong usage or configuration, 128
    + N after signal N, and 1 for other errors.

    Args:
        arguments: The arguments, such as ``["check", "labdisk"]``; None for the arguments of this process.
    """
    command_line.run_program(iopatterns_command, "iopatterns", arguments)
