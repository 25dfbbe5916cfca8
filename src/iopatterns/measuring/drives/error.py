"""The error of all kinds of drive."""

from iopatterns.base.errors import IoPatternsError


class DriveError(IoPatternsError):
    """A drive may not or cannot be measured; the message names the drive, the reason and what to do."""
