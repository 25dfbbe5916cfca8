"""File descriptors of checked files and devices.

Programs such as fio inherit the descriptor that was checked. If the path leads to another file later, that has no
effect.
"""

import contextlib
import fcntl
import os

# Lowest number of a descriptor that programs inherit: fixed, so that a command line is the same each time
_FIRST_INHERITED = 100


def open_path_only(path: str | os.PathLike[str], *, in_folder: int | None = None, follow: bool = True) -> int:
    """Return a descriptor that only identifies a file or device (O_PATH, open(2)).

    Nothing can be read through this descriptor. Opening it does not affect a device, whereas an ordinary open rewinds a
    tape, for example.

    Args:
        path: The path.
        in_folder: The descriptor of the folder that a relative path starts from; None for the working directory.
        follow: Whether to follow a symbolic link at the end of the path. If false, the descriptor identifies the link.

    Raises:
        OSError: The path does not exist or cannot be reached.
    """
    return os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=in_folder)


def reopen(descriptor: int, flags: int) -> int:
    """Open the file or device of an open descriptor again, with other flags.

    The new descriptor leads to the same file, even if the path of the file has been replaced.

    Args:
        descriptor: A descriptor of the file, possibly from `open_path_only`. It stays open.
        flags: The flags of open(2), such as ``os.O_RDWR``.

    Returns:
        The new descriptor. The caller must close it.

    Raises:
        OSError: The file cannot be opened.
    """
    return os.open(descriptor_path(descriptor), flags | os.O_CLOEXEC)


def make_inheritable(descriptor: int) -> int:
    """Move a descriptor to the lowest free number from 100 on.

    These numbers are reserved for descriptors that programs such as fio inherit. The numbers are the same in each run,
    so that command lines with ``/proc/self/fd/100`` are the same. A program inherits the descriptor only if the
    argument ``pass_fds`` of subprocess names it.

    Args:
        descriptor: The descriptor to move. It is closed.

    Returns:
        The new descriptor.
    """
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_INHERITED)
    finally:
        os.close(descriptor)


def descriptor_path(descriptor: int) -> str:
    """Return a path that leads to the file of a descriptor: ``/proc/self/fd/100``.

    The path is valid in this process, and in programs that inherit the descriptor.

    Args:
        descriptor: The number of the descriptor, such as 100.
    """
    return f"/proc/self/fd/{descriptor}"


def resolved_path(descriptor: int) -> str:
    """Return the absolute path of an open descriptor's file, such as ``/dev/sda``.

    Symbolic links are resolved.
    """
    return os.readlink(descriptor_path(descriptor))  # noqa: PTH115 - the path is text here


def device_number_text(number: int) -> str:
    """Return a device number as text ``major:minor``, such as ``8:16``.

    Args:
        number: The device number as os.stat returns it (``st_rdev``).
    """
    return f"{os.major(number)}:{os.minor(number)}"


def close_descriptor(descriptor: int | None) -> None:
    """Close a file descriptor, ignoring errors. Nothing happens for None."""
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)
