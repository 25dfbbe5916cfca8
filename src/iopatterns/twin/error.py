"""The error of all that has to do with twins."""

from iopatterns.base.errors import IoPatternsError


class TwinError(IoPatternsError):
    """A model, a trace or a command on a twin is wrong; the message names file, key and what is valid."""

    exit_status = 2
