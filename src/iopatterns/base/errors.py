"""The base class of all errors that the user of a command can correct."""

from typing import ClassVar


class IoPatternsError(Exception):
    """An error that the user can correct, such as a mistake in a file.

    ``str(error)`` is the complete message for the user. It names the file, key or drive, and says what is wrong, what
    is valid and what to do.

    The code that raises the error does not print the message. The command line and the Snakefile print it, and end the
    process.

    Attributes:
        exit_status: Exit status of the process: 2 for wrong usage or configuration, 1 for other errors.
    """

    exit_status: ClassVar[int] = 1


class OutputError(IoPatternsError):
    """The error raised if an output would replace a file of the user, or an input.

    The message names the output, and says what the user can do.
    """

    exit_status = 2


def os_error_text(error: OSError) -> str:
    """Return why a system call failed, such as ``x.json: Permission denied``.

    The text begins with the name of the file if the error contains it.
    """
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)
