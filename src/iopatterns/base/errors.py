"""The base class of all errors that the user can correct."""

from typing import ClassVar


class IoPatternsError(Exception):
    """An error that the user can correct.

    ``str(error)`` is the complete message: which file, key or drive, what is wrong, what is valid, and what to do. Only
    the command line and the Snakefile end a process because of it.

    Attributes:
        exit_status: Exit status of the process: 2 for wrong usage or configuration, 1 for other errors.
    """

    exit_status: ClassVar[int] = 1
