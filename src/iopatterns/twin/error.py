"""The error that simulated drives raise."""

from iopatterns.base.errors import IoPatternsError


class TwinError(IoPatternsError):
    """A model, a trace or a command for a simulated drive is not valid.

    The message names the file, the key or line, and the valid values.
    """

    exit_status = 2
