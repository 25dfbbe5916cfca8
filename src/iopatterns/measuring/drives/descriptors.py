"""File descriptors of checked files and devices.

Programs get the descriptor that was checked, so that a path that leads elsewhere meanwhile has no effect.
"""

import contextlib
import fcntl
import os

# Lowest number of a descriptor that programs inherit: fixed, so that a command line is the same each time
_FIRST_INHERITED = 100


def open_path_only(path: str | os.PathLike[str], *, in_folder: int | None = None, follow: bool = True) -> int:
    """Return a descriptor that only identifies a file or device (O_PATH, open(2)).

    Raises OSError.

    A device is not opened, because that may change it: opening a tape drive rewinds the tape.

    Args:
        path: The path.
        in_folder: Descriptor of the folder that a relative path starts from; None for the working directory.
        follow: Whether to follow a symbolic link at the end of the path.
    """
    return os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=in_folder)


def reopen(descriptor: int, flags: int) -> int:
    """Open the file or device of a descriptor with other flags.

    Returns the new descriptor. Raises OSError.
    """
    return os.open(descriptor_path(descriptor), flags | os.O_CLOEXEC)


def make_inheritable(descriptor: int) -> int:
    """Move a descriptor to a number reserved for programs that inherit it.

    Returns the new descriptor; the given one is closed.
    """
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_INHERITED)
    finally:
        os.close(descriptor)


def descriptor_path(descriptor: int) -> str:
    """Return a path of the descriptor's file.

    The path is valid in this process, and in programs that inherit the descriptor.
    """
    return f"/proc/self/fd/{descriptor}"


def resolved_path(descriptor: int) -> str:
    """Return the path of a descriptor's file, with symbolic links resolved."""
    return os.readlink(descriptor_path(descriptor))  # noqa: PTH115 - the path is text here


def device_number_text(number: int) -> str:
    """Return a device number in the kernel's notation: ``8:16``."""
    return f"{os.major(number)}:{os.minor(number)}"


def close_descriptor(descriptor: int | None) -> None:
    """Close a descriptor; None is allowed. Errors are ignored."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)
