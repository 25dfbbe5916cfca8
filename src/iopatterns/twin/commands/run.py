"""Command `twin run`, for help and shell completion.

When a user runs a program on a simulated drive, `iopatterns.twin.__main__` bypasses this module.
"""

import click

from iopatterns.twin import running
from iopatterns.twin.commands.arguments import ModelNameType


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("words", nargs=-1, type=ModelNameType())
def command(words: tuple[str, ...]) -> None:
    """Run a program on a simulated drive in virtual time.

    `twin run --help` prints the arguments.
    """
    running.main(list(words))
