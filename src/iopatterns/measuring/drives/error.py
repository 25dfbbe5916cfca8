"""The error that all kinds of drive raise."""

from iopatterns.base.errors import IoPatternsError


class DriveError(IoPatternsError):
    """The error raised if a drive cannot be measured, or must not be measured.

    The message names the drive and the reason, and says what the user can do.
    """


def require_capacity(drive: str, size_bytes: int, needed_bytes: int) -> None:
    """Raise DriveError if a drive is smaller than the part of it to be measured.

    Args:
        drive: The drive for the message, such as ``drive 'lab'``.
        size_bytes: The size of the drive.
        needed_bytes: The size of the part: ``file_size`` in config/config.yaml.
    """
    if size_bytes < needed_bytes:
        raise DriveError(
            f"{drive}: has {size_bytes} bytes, fewer than the {needed_bytes} that file_size in config/config.yaml asks"
            " for. Make file_size smaller."
        )
