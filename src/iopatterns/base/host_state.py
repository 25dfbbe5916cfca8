"""What is kept of this host's disks whatever the checkout: JSON files in a folder that nobody else may write."""

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

# Another place than the usual one, for hosts on which that cannot be written
STATE_VARIABLE = "IOPATTERNS_STATE"
_OF_ROOT = Path("/var/lib/iopatterns")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
# What is kept of a disk takes some hundred bytes: what is larger is none of ours, and is not read into memory
_MOST_BYTES = 2**20


class StateError(IoPatternsError):
    """A file of this host's state cannot be kept or cannot be trusted; the message names it and says what to do."""


def own_state_folder(name: str) -> Path:
    """Return the folder of that name in this user's state; it need not be there.

    The state lies in /var/lib/iopatterns for root, for others in XDG_STATE_HOME/iopatterns or
    ~/.local/state/iopatterns.
    """
    given = os.environ.get(STATE_VARIABLE)
    if given:
        return Path(given).absolute() / name
    if os.geteuid() == 0:
        return _OF_ROOT / name
    # the password database, not HOME: what sudo and su leave in there is another user's
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state") / "iopatterns" / name


def all_state_folders(name: str) -> list[Path]:
    """Return `own_state_folder`, and behind it root's of the same name where that is another.

    Everybody may list the files in both; what is in them is for their owner alone.
    """
    own = own_state_folder(name)
    return [own] if os.environ.get(STATE_VARIABLE) or os.geteuid() == 0 else [own, _OF_ROOT / name]


def read_state(path: Path) -> Any:
    """Return the content of a JSON file that only this user or root can have written; None where there is none.

    Raises StateError for a symbolic or hard link, for what is no plain file or not JSON, and for a file or folder of
    another user's or that others may write: what it says is carried out with this user's rights.
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
            raise _untrusted(path, "it is no plain file, or has several names")
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
    """Write a JSON file that is whole or not there, and on the disk when this returns: for its user alone (0600).

    Its folder is made where it is missing, one that others may list and only this user may write, whatever the umask.
    Raises StateError where its folder is not this user's, or may be written by others.
    """
    try:
        _make_folder(path.parent)
        _check_folder(path.parent)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")  # O_EXCL, and 0600 whatever the umask
    except OSError as error:
        raise StateError(
            f"{path}: cannot be written: {error.strerror}. What is changed on this host's disks is noted there; set"
            f" {STATE_VARIABLE} to a folder that this user may write."
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
    """Raise StateError where others may put files into a folder, or another folder in its place."""
    _check_owner(path, path.stat(follow_symlinks=False))
    above = path.parent.stat()
    # a user's home may be open to a group of his own; and with the sticky bit nobody renames what is not his
    if os.geteuid() == 0 and not above.st_mode & stat.S_ISVTX:
        _check_owner(path.parent, above)


def _check_owner(path: Path, state: os.stat_result) -> None:
    if stat.S_ISLNK(state.st_mode):
        raise _untrusted(path, "it is a symbolic link")
    if state.st_uid not in {0, os.geteuid()}:
        raise _untrusted(path, f"it belongs to user {state.st_uid}")
    if state.st_mode & _OTHERS_MAY_WRITE:
        raise _untrusted(path, f"others may write it (mode {stat.S_IMODE(state.st_mode):o})")


def _untrusted(path: Path, reason: str) -> StateError:
    return StateError(f"{path}: not trusted, for {reason}. Look at what it says, do that by hand, then delete it.")
