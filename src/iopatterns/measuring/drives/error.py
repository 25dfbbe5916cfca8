"""The error that all kinds of drive raise."""

from iopatterns.base.errors import IoPatternsError


class DriveError(IoPatternsError):
    """A drive may not or cannot be measured.

    The message names the drive, the reason and what to do.
    """


def require_capacity(drive: str, size_bytes: int, needed_bytes: int) -> None:
    """Raise DriveError if a drive is smaller than its part to be measured."""
    if size_bytes < needed_bytes:
        raise DriveError(
            f"{drive}: has {size_bytes} bytes, fewer than the {needed_bytes} that file_size in config/config.yaml asks"
            " for. Make file_size smaller."
        )
