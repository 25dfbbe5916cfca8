"""What is held open: whatever was checked is what every program gets, wherever its path leads to by then."""

import contextlib
import fcntl
import os

# Descriptors that programs inherit get numbers from here on, so that a command is the same each time
_FIRST_INHERITED = 100


def open_path_only(path: str | os.PathLike[str], *, in_folder: int | None = None, follow: bool = True) -> int:
    """Return a descriptor that names what is at ``path`` and does nothing to it (O_PATH, open(2)).

    A device is not opened by it: opening a tape, say, would move it. Raises OSError.
    """
    return os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=in_folder)


def reopen(descriptor: int, flags: int) -> int:
    """Return a descriptor of the same file or device, opened with other flags: no path is followed. Raises OSError."""
    return os.open(descriptor_path(descriptor), flags | os.O_CLOEXEC)


def make_inheritable(descriptor: int) -> int:
    """Return the descriptor under a number that programs which inherit it get; the one given is closed."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_INHERITED)
    finally:
        os.close(descriptor)


def descriptor_path(descriptor: int) -> str:
    """Return the path under which this process, and a program that inherits the descriptor, reaches what it names."""
    return f"/proc/self/fd/{descriptor}"


def resolved_path(descriptor: int) -> str:
    """Return the path at which something was found, symbolic links followed."""
    return os.readlink(descriptor_path(descriptor))  # noqa: PTH115 - the path is text here


def device_number_text(number: int) -> str:
    """Return a device number as the kernel writes it: ``8:16``."""
    return f"{os.major(number)}:{os.minor(number)}"


def close_descriptor(descriptor: int | None) -> None:
    """Close a descriptor, if it is one."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)
