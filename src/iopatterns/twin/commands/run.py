"""`twin run`, for help and shell completion.

`iopatterns.twin.__main__` runs programs without this module.
"""

import click

from iopatterns.twin import running
from iopatterns.twin.commands.arguments import ModelNameType


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("words", nargs=-1, type=ModelNameType())
def command(words: tuple[str, ...]) -> None:
    """Run a program on a simulated drive in virtual time."""
    running.main(list(words))
