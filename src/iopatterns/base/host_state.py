"""Files that record the state of this host's disks, for all checkouts.

For example, such a file records disk settings to be restored. The files are JSON, in a folder to which no other user
can write. The folder is in /var/lib/iopatterns for root, and by default in ~/.local/state/iopatterns for other users.
"""

import contextlib
import json
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Any

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError

# Overrides the folder, for hosts on which the default cannot be written
STATE_VARIABLE = "IOPATTERNS_STATE"
_ROOT_FOLDER = Path("/var/lib/iopatterns")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The state of a disk has some hundred bytes. Larger files are not read.
_MOST_BYTES = 2**20


class StateError(IoPatternsError):
    """The error raised for a state file that cannot be written, or is not trusted.

    A state file records the state of a disk, such as settings to be restored. A file is not trusted if another user
    could have changed it, or if it cannot be read as JSON.
    """


def own_state_folder(name: str) -> Path:
    """Return the path of a folder for state files of this user.

    State files record the state of the disks of this host, such as settings to be restored. The folder need not exist.
    It is inside the first of these folders that applies:

    - the folder that the environment variable IOPATTERNS_STATE names
    - for root, /var/lib/iopatterns
    - for other users, $XDG_STATE_HOME/iopatterns
    - without XDG_STATE_HOME, ~/.local/state/iopatterns

    Args:
        name: Name of the folder for state files, the last part of the returned path.
    """
    given = os.environ.get(STATE_VARIABLE)
    if given:
        return Path(given).absolute() / name
    if os.geteuid() == 0:
        return _ROOT_FOLDER / name
    # from the password database, because sudo and su may leave the HOME of another user
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state") / "iopatterns" / name


def all_state_folders(name: str) -> list[Path]:
    """Return the folders for state files of this user and of root, in this order.

    State files record the state of the disks of this host, such as settings to be restored. The folders need not exist.
    Users other than root can list the files in the folder of root, but cannot read the files.

    Only one folder is returned if the user is root, or if the environment variable IOPATTERNS_STATE is set.

    Args:
        name: Name of the folder, the last part of each returned path.
    """
    own = own_state_folder(name)
    return [own] if os.environ.get(STATE_VARIABLE) or os.geteuid() == 0 else [own, _ROOT_FOLDER / name]


def read_state(path: Path) -> Any:
    """Return the JSON content of a state file, or None if there is no such file.

    A state file records the state of a disk, such as settings to be restored. A file that another user could have
    changed is refused, because root may act on its content. A state file must therefore be a regular file with a single
    hard link, and not a symbolic link. The file and its folder must belong to this user or root, and no other user may
    have the right to write to them. For root, the same conditions hold for the parent of the folder, unless it has the
    sticky bit.

    Raises:
        StateError: The file does not meet these conditions, cannot be read, is larger than 1 MiB, or is not JSON.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _untrusted(path, f"it cannot be opened ({error.strerror})") from None
    try:
        _check_folder(path.parent)
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
            raise _untrusted(path, "it is not a regular file, or has several hard links")
        _check_owner(path, state)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise _untrusted(path, f"it is larger than {_MOST_BYTES} bytes")
        return json.loads(content.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _untrusted(path, f"it is not readable as JSON ({error})") from None
    finally:
        os.close(descriptor)


def write_state(path: Path, content: Any) -> None:
    """Write a state file as JSON, atomically, and flush it to disk.

    A state file records the state of a disk, such as settings to be restored. Only this user may read the file (mode
    0600). A missing folder is created with mode 0755, independently of the umask. An existing file is replaced.

    Args:
        path: The file.
        content: A value that `json.dump` accepts.

    Raises:
        StateError: No file can be created in the folder, or other users could change the files in the folder.
        OSError: The file cannot be written for another reason, for example because the disk is full.
    """
    try:
        _make_folder(path.parent)
        _check_folder(path.parent)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")  # O_EXCL, and 0600 whatever the umask
    except OSError as error:
        raise StateError(
            f"{path}: cannot be written: {error.strerror}. Changed settings of disks are recorded there. Set"
            f" {STATE_VARIABLE} to a folder that you may write to."
        ) from None
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, sort_keys=True)
            file.write("\n")
        files.commit_file(Path(temporary), path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _make_folder(path: Path) -> None:
    if path.is_dir():
        return
    _make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755)
        path.chmod(0o755)


def _check_folder(path: Path) -> None:
    """Raise StateError if other users can change the files in a folder.

    The folder must belong to this user or root and must not be writable by others. For root, this also applies to the
    parent folder, because its owner could replace the folder.
    """
    _check_owner(path, path.stat(follow_symlinks=False))
    above = path.parent.stat()
    # other users' homes may be writable by a group; with the sticky bit, only the owner can rename the folder
    if os.geteuid() == 0 and not above.st_mode & stat.S_ISVTX:
        _check_owner(path.parent, above)


def _check_owner(path: Path, state: os.stat_result) -> None:
    if stat.S_ISLNK(state.st_mode):
        raise _untrusted(path, "it is a symbolic link")
    if state.st_uid not in {0, os.geteuid()}:
        raise _untrusted(path, f"it belongs to user {state.st_uid}")
    if state.st_mode & _WRITABLE_BY_OTHERS:
        raise _untrusted(path, f"other users can write to it (mode {stat.S_IMODE(state.st_mode):o})")


def _untrusted(path: Path, reason: str) -> StateError:
    return StateError(
        f"{path}: not trusted, because {reason}. Read the file, restore its settings by hand, then delete it."
    )
