"""Ownership of outputs: which files this package writes, replaces and deletes.

Every output that a user names, or that is in a user's folder, is made by this module:

- A folder is used if it is new or empty, or if this package has marked it as its own. The mark is the file
  ``.iopatterns-folder``.
- A file is written under a temporary name. It gets its name when it is complete and on stable storage.
- An existing file is replaced only if the user asks for it, or if its content shows that this package wrote it for the
  same purpose.
- An input is never an output, whatever its name. Symbolic links are not followed.

`twin run` imports this module at each start. So the module imports only what `twin run` has imported before.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

TYPE_CHECKING = False  # importing `typing` takes too long
if TYPE_CHECKING:
    from iopatterns.base.errors import OutputError

MARKER_FILE = ".iopatterns-folder"
_MARKER_TEXT = b"iopatterns made this folder. It replaces and deletes files in this folder.\n"

# ---- Folders


def is_own_folder(folder: str) -> bool:
    """Return whether a folder has the mark of this package, ``.iopatterns-folder``.

    The mark is a small file, which `claim_folder` writes. It permits this package to replace and delete files in the
    folder. The result is False for a missing or unreadable folder.
    """
    try:
        descriptor = os.open(os.path.join(folder, MARKER_FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # noqa: PTH118
    except OSError:
        return False
    try:
        return os.read(descriptor, len(_MARKER_TEXT) + 1) == _MARKER_TEXT
    except OSError:
        return False
    finally:
        os.close(descriptor)


def claim_folder(
    folder: str,
    *,
    inputs: Iterable[Path | str] = (),
    overwrite: bool | None = None,
    is_ours: Callable[[str, Sequence[str]], bool] | None = None,
) -> None:
    """Mark a folder as this package's own, unless it contains files of somebody else.

    The mark is the file ``.iopatterns-folder``. It permits this package to replace and delete files in the folder. A
    missing folder is created. A folder that already has the mark is accepted.

    Args:
        folder: Path of the folder.
        inputs: Files and folders that the caller reads. The folder must not be one of them.
        overwrite: True accepts a folder with files of somebody else, and leaves it without a mark. False refuses the
            folder, and the error message suggests the option ``--overwrite``. None refuses the folder without this
            suggestion, for commands that lack the option.
        is_ours: Function that recognises a folder that an earlier version of this package made without a mark. Its
            arguments are the path of the folder and the names of its entries. None to recognise no such folder.

    Raises:
        OutputError: The folder is an input. Or the folder has no mark, and is a symbolic link or contains files of
            somebody else. Or the path is not a folder.
        OSError: The folder cannot be created or marked.
    """
    _require_no_input(folder, inputs)
    if is_own_folder(folder) and not os.path.islink(folder):  # noqa: PTH114
        return
    import fcntl

    descriptor = _open_folder(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # another process may be marking the same folder
        if is_own_folder(folder):
            return
        names = sorted(os.listdir(descriptor))
        if MARKER_FILE in names and _is_empty_file(descriptor, MARKER_FILE):
            names.remove(MARKER_FILE)
            os.unlink(MARKER_FILE, dir_fd=descriptor)  # a process ended between creating and writing the mark
        if names and not (is_ours is not None and is_ours(folder, names)):
            if overwrite:
                return
            raise _foreign_files(folder, names[0], "" if overwrite is None else ", or add --overwrite")
        _write_mark(folder)
    finally:
        os.close(descriptor)


def _write_mark(folder: str) -> None:
    path = os.path.join(folder, MARKER_FILE)  # noqa: PTH118
    mark = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        os.write(mark, _MARKER_TEXT)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(mark)


def create_folder(folder: str) -> None:
    """Create a folder, or accept an existing folder that contains no files.

    Empty subfolders are accepted, because Snakemake creates the folders of outputs before a job starts. The folder is
    not marked as this package's own.

    Args:
        folder: Path of the folder. Missing parents are created.

    Raises:
        OutputError: The folder is a symbolic link, or contains a file or link at any depth, or the path is not a
            folder.
        OSError: The folder cannot be created.
    """
    os.close(_open_folder(folder))
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]  # noqa: PTH114, PTH118
        if names or links:
            raise _foreign_files(folder, min(names + links))


def _open_folder(folder: str) -> int:
    """Create a folder if it is missing; return a descriptor of it.

    Raises:
        OutputError: The path is a symbolic link, or not a folder.
    """
    with contextlib.suppress(FileExistsError):  # reported below
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    if os.path.islink(folder):  # noqa: PTH114
        raise _refusal(folder, "a symbolic link. Give the path of the folder itself")
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError:
        raise _refusal(folder, "not a folder. Give a new or empty folder") from None


def _is_empty_file(folder: int, name: str) -> bool:
    state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.S_ISREG(state.st_mode) and state.st_size == 0


def _foreign_files(folder: str, name: str, other_remedy: str = "") -> "OutputError":
    problem = f"has files that iopatterns did not write there, such as {name!r}"
    return _refusal(folder, f"{problem}. Give a new or empty folder{other_remedy}")


# ---- Files


class OutputFile:
    """A context manager that writes a file which a user named, atomically.

    The context yields the path of an empty temporary file in the same folder and with the same suffix. The caller
    writes the content to the temporary file. When the context ends without an error, the temporary file is flushed to
    disk and renamed to `path`. When it ends with an error, the temporary file is deleted, and any existing file at
    `path` stays unchanged.

    The end of the context raises OutputError if another program has meanwhile created or replaced the file at `path`.

    Attributes:
        path: Path of the file.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        inputs: Iterable[Path | str] = (),
        overwrite: bool = False,
        is_ours: Callable[[Path], bool] | None = None,
    ) -> None:
        """Check whether a file may be written, before a long computation of its content.

        Nothing is written before the context begins.

        Args:
            path: The file. Missing parent folders are created when the context begins.
            inputs: Files that the caller reads. ``path`` must not be one of them, not even under another name.
            overwrite: Whether an existing file may be replaced.
            is_ours: Function that returns whether this package wrote an existing file for the same purpose. Such a file
                is replaced without ``overwrite``. None to recognise no file.

        Raises:
            OutputError: The path is a symbolic link, a folder or an input. Or it is an existing file that may not be
                replaced.
        """
        self.path = Path(path)
        self._temporary: Path | None = None
        self._replaced: tuple[int, int] | None = None
        shown = str(path)
        try:
            state = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return  # a parent that is not a folder is an OSError when the file is created
        if stat.S_ISLNK(state.st_mode):
            raise _refusal(shown, "a symbolic link. Give the path of a file")
        if not stat.S_ISREG(state.st_mode):
            raise _refusal(shown, "not a regular file. Give the path of a file")
        _require_no_input(shown, inputs)
        if not (overwrite or (is_ours is not None and is_ours(self.path))):
            raise _refusal(shown, "the file exists. Give another name, or add --overwrite")
        self._replaced = (state.st_dev, state.st_ino)

    def __enter__(self) -> Path:
        """Create the empty temporary file, and return its path.

        Missing parent folders are created.
        """
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = path.with_name(f".{path.stem[:100]}.{os.urandom(4).hex()}.partial{path.suffix}")
        os.close(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        """Give the temporary file its final name, or delete it after an error.

        Nothing happens after `discard`.

        Raises:
            OutputError: Another program has created or replaced the file at `path` since this object was created.
        """
        if self._temporary is None:
            return
        try:
            if kind is None:
                self._commit(self._temporary)
            elif isinstance(error, OSError) and error.filename in {None, str(self._temporary)}:
                error.filename = str(self.path)  # the name that the user knows
        finally:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None

    def discard(self) -> None:
        """Delete the temporary file, so that the end of the context writes nothing.

        Any existing file at `path` stays unchanged.
        """
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None

    def _commit(self, temporary: Path) -> None:
        from iopatterns.base import files  # slow, and without outputs not needed

        files.commit_file(temporary, self.path, self._rename)

    def _rename(self, temporary: Path, path: Path) -> None:
        """Rename a file, unless the new name has been created or replaced since it was checked.

        Raises:
            OutputError: The name has been created or replaced.
        """
        changed = _refusal(str(path), "created or replaced by another program during the run. Run again")
        if self._replaced is not None:
            state = os.lstat(path)
            if (state.st_dev, state.st_ino) != self._replaced:
                raise changed
            temporary.replace(path)
            return
        try:
            os.link(temporary, path, follow_symlinks=False)
        except FileExistsError:
            raise changed from None
        except OSError:  # a file system without hard links, such as FAT
            if os.path.lexists(path):
                raise changed from None
            temporary.rename(path)


def _require_no_input(path: str, inputs: Iterable[Path | str]) -> None:
    """Raise OutputError if an existing file or folder is one of the inputs."""
    for each in inputs:
        with contextlib.suppress(OSError, ValueError):  # the code that reads the input reports the problem
            if os.path.samestat(os.stat(path), os.stat(each)):
                raise _refusal(path, f"an input of this command ({each}). Give another name")


def _refusal(path: str, problem: str) -> "OutputError":
    from iopatterns.base.errors import OutputError
    from iopatterns.base.messages import printable

    return OutputError(f"{printable(path)}: {problem}.")
