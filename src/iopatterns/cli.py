"""The command line `iopatterns`. Each command is a module of `iopatterns.commands`."""

from collections.abc import Sequence

import click

import iopatterns
from iopatterns.base import command_line

_COMMANDS = (
    "archive",
    "bench",
    "calls",
    "check",
    "compare",
    "factors",
    "hosts",
    "lab",
    "manifest",
    "measure",
    "restore",
    "scorecard",
    "spread",
    "study",
    "summary",
    "unpack",
)


@click.group(
    commands=command_line.CommandModules("iopatterns.commands", _COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(iopatterns.__version__)
def iopatterns_command() -> None:
    """Measure drives, and inspect results and traces.

    All commands work on the project in the current folder. `snakemake --cores 1` makes the report of the project; few
    users need more.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit status 2: wrong usage or configuration; 1: other failure; 128 + N: signal N."""
    command_line.run_program(iopatterns_command, "iopatterns", arguments)
