"""Common parts of command-line programs.

The parts are the import of commands on first use, the completion of names in the shell, and error messages.
"""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, cast

import click
from click.shell_completion import CompletionItem

from iopatterns.base import messages
from iopatterns.base.errors import IoPatternsError, os_error_text

# The option of all commands with outputs that a user names; `twin run` has the same option without click
OVERWRITE_OPTION = click.option(
    "--overwrite", is_flag=True, help="Replace existing files that have the names of outputs."
)


class CommandModules(Mapping[str, click.Command]):
    """The commands of a program by name, each imported when it is looked up.

    A command is the attribute ``command`` of the module that has its name, with underscores instead of hyphens. For
    example, the command ``power-cycle`` is in the module ``power_cycle``.

    Args:
        package: The package that contains the modules.
        names: The names of the commands.
    """

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self._package = package
        self._names = names

    def __getitem__(self, name: str) -> click.Command:
        """Import the module of a command, and return the command.

        Args:
            name: The name of the command, such as ``power-cycle``.

        Raises:
            KeyError: There is no such command.
        """
        if name not in self._names:
            raise KeyError(name)
        module = importlib.import_module(f"{self._package}.{name.replace('-', '_')}")
        return cast("click.Command", module.command)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the commands, without importing a command."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of commands."""
        return len(self._names)


class CompletedName(click.ParamType[str]):
    """A type of click argument for names that the shell can complete, such as drives.

    A subclass defines the valid names. If the typed text contains a slash, the shell completes it as a path instead. By
    itself, the type does not check that an argument is a valid name.
    """

    def names(self) -> Iterable[str]:
        """Return the valid names, in any order. Each subclass implements this method."""
        raise NotImplementedError

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the valid names that begin with the typed text, sorted.

        If the typed text contains a slash, the result instead asks the shell to complete a path.

        Args:
            ctx: Not used.
            param: Not used.
            incomplete: The text that the user has typed so far.
        """
        if os.sep in incomplete:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(name) for name in sorted(set(self.names())) if name.startswith(incomplete)]


def run_program(group: click.Group, program: str, arguments: Sequence[str] | None = None) -> None:
    """Run a command-line program. If a command fails, print one message and exit.

    A command fails with a click exception, IoPatternsError or OSError. All other exceptions pass through unchanged.
    After success, the function returns.

    The exit status is 2 for wrong usage or configuration, 130 for an interrupt (Ctrl-C), and 1 for other errors.

    Args:
        group: The commands of the program.
        program: The name of the program, which begins each error message.
        arguments: The arguments of the program; None for `sys.argv[1:]`.
    """
    with errors_reported(program):
        group.main(arguments, prog_name=program, standalone_mode=False)


@contextmanager
def errors_reported(program: str) -> Iterator[None]:
    """Print errors that the user can correct, and exit the process after them.

    These errors are click exceptions, IoPatternsError and OSError that code in this context raises. All other
    exceptions pass through unchanged. The function returns a context manager.

    The exit status is 2 for wrong usage or configuration, 130 for an interrupt (Ctrl-C), and 1 for other errors.

    Args:
        program: The name of the program. The message is ``PROGRAM: error: TEXT`` on standard error.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        exit_with_error(program, f"{error.format_message()}{_help_hint(error)}", error.exit_code)
    except click.Abort:
        sys.exit(130)
    except IoPatternsError as error:
        # a failed restore, raised while another error is handled, must not hide the other error
        first = None if error.__suppress_context__ else error.__context__
        texts = [str(each) for each in (first, error) if isinstance(each, IoPatternsError)]
        exit_with_error(program, "\n".join(texts), error.exit_status)
    except OSError as error:
        exit_with_error(program, os_error_text(error), 1)


def exit_with_error(program: str, text: str, exit_status: int) -> NoReturn:
    """Print ``PROGRAM: error: TEXT`` on standard error, and end the process.

    Args:
        program: The name of the program.
        text: What is wrong.
        exit_status: The exit status of the process.
    """
    report_error(program, text)
    sys.exit(exit_status)


def report_error(program: str, text: str) -> None:
    """Print ``PROGRAM: error: TEXT`` on standard error; the process goes on.

    Args:
        program: The name of the program.
        text: What is wrong.
    """
    messages.say(f"{program}: error: {text}")


def _help_hint(error: click.ClickException) -> str:
    """Return a line that names the help option of the misused command.

    The line is empty if the error does not know the command.
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"\nTry '{context.command_path} --help' for help." if context else ""
