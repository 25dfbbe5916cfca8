"""The base of all errors that are a user's to mend; each domain derives its own from it."""

from typing import ClassVar


class IoPatternsError(Exception):
    """Something that the user can put right.

    ``str(error)`` is the whole message: which file, key or drive, what is wrong, what is valid, what to do.
    Only the command line and the Snakefile end a process with it, with ``exit_status``: 2 where the configuration
    or the command's own words are wrong, 1 for all else.
    """

    exit_status: ClassVar[int] = 1
