"""The folder ``.iopatterns`` of this package's own files, beside a measured file."""

import contextlib
import fcntl
import json
import os
import stat
from typing import Any, Self

from iopatterns.measuring.drives import descriptors

OWN_FOLDER_NAME = ".iopatterns"
_OWNER = "owner"
_OWNER_TEXT = (
    b"This folder and all that is in it are made and deleted by iopatterns, for the drive's files beside it.\n"
)


class NotOursError(Exception):
    """The error raised if somebody else's file or folder has a name of this package.

    An example is a folder ``.iopatterns`` that another user created. The message says what was found.
    """


class OwnFolder:
    """The open folder ``.iopatterns`` of this package's files beside a measured file.

    Only the user who measures can access the folder. It contains a file ``owner`` with a fixed text, by which this
    package recognises its own folder. Only regular files of this user with one hard link are opened. Symbolic links are
    never followed. `opened` returns the folder, and the caller must call `close`.

    Attributes:
        descriptor: The file descriptor of the folder.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def opened(cls, parent: int, *, create: bool) -> Self | None:
        """Open the folder ``.iopatterns`` in a parent folder.

        Args:
            parent: The file descriptor of the parent folder.
            create: Whether to create the folder if it is missing.

        Returns:
            The open folder. None if the folder is missing and `create` is false.

        Raises:
            NotOursError: The folder belongs to somebody else, others may access it, or it is not a folder.
            OSError: The folder cannot be created.
        """
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(OWN_FOLDER_NAME, 0o700, dir_fd=parent)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder = cls(os.open(OWN_FOLDER_NAME, flags, dir_fd=parent))
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not create:
                return None
            raise NotOursError(f"{OWN_FOLDER_NAME} cannot be opened as a folder ({error.strerror})") from None
        try:
            folder._check()
        except BaseException:
            folder.close()
            raise
        return folder

    def close(self) -> None:
        """Close the descriptor of the folder."""
        descriptors.close_descriptor(self.descriptor)

    def _check(self) -> None:
        state = os.fstat(self.descriptor)
        if state.st_uid != os.geteuid():
            raise NotOursError(f"{OWN_FOLDER_NAME} belongs to user {state.st_uid}")
        if stat.S_IMODE(state.st_mode) & 0o077:
            raise NotOursError(f"{OWN_FOLDER_NAME} is open to others (mode {stat.S_IMODE(state.st_mode):o})")
        # the process that creates the folder marks it before another checks it
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        try:
            found = self._owner_text()
            # a process that was killed while it marked the folder has written nothing else into it
            if found != _OWNER_TEXT and _OWNER_TEXT.startswith(found) and set(os.listdir(self.descriptor)) <= {_OWNER}:
                self.delete(_OWNER)
                self._create(_OWNER, _OWNER_TEXT)
                found = self._owner_text()
        finally:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        if found != _OWNER_TEXT:
            raise NotOursError(f"{OWN_FOLDER_NAME} exists, and this package did not create it")

    def _owner_text(self) -> bytes:
        """Return the content of the file ``owner``; empty if there is no such file."""
        try:
            with open(self.open(_OWNER, os.O_RDONLY), "rb") as file:
                return file.read(len(_OWNER_TEXT) + 1)
        except FileNotFoundError:
            return b""

    def open(self, name: str, flags: int) -> int:
        """Open a file in the folder, and return its file descriptor.

        Args:
            name: The name of the file.
            flags: The flags of open(2), such as ``os.O_RDONLY``. O_CREAT creates the file with mode 0600.

        Raises:
            NotOursError: The file is not a regular file (such as a symbolic link), belongs to another user, or has
                several hard links.
            OSError: The file does not exist, or cannot be opened.
        """
        try:
            descriptor = os.open(
                name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=self.descriptor
            )
        except IsADirectoryError:
            raise NotOursError(f"{OWN_FOLDER_NAME}/{name} is a folder") from None
        except OSError as error:
            if stat.S_ISLNK(self._mode(name)):
                raise NotOursError(f"{OWN_FOLDER_NAME}/{name} is a symbolic link") from None
            raise error from None
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_uid != os.geteuid():
                raise NotOursError(
                    f"{OWN_FOLDER_NAME}/{name} is not a regular file of this user, or has several hard links"
                )
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _mode(self, name: str) -> int:
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mode
        except OSError:
            return 0

    def new(self, name: str) -> int:
        """Create an empty file in the folder, in place of any older file.

        Args:
            name: The name of the file.

        Returns:
            The descriptor of the file, open for reading and writing.

        Raises:
            OSError: The file cannot be created.
        """
        self.delete(name)
        return self.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def delete(self, name: str) -> None:
        """Delete a file in the folder. Nothing happens if the file does not exist.

        If the file is a symbolic link, only the link is deleted.

        Args:
            name: The name of the file.

        Raises:
            OSError: The file cannot be deleted.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def has(self, name: str) -> bool:
        """Return whether the folder contains a file, folder or link of this name."""
        return bool(self._mode(name))

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file in the folder.

        Returns None if the file is missing or not readable as JSON.

        Args:
            name: The name of the file.

        Raises:
            NotOursError: The name belongs to something else than a regular file of this user with one hard link.
        """
        try:
            with open(self.open(name, os.O_RDONLY), encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError, RecursionError):
            return None

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file in the folder atomically, and wait until it is on the disk.

        Args:
            name: The name of the file. An older file of this name is replaced.
            content: The content, of types that JSON has.

        Raises:
            OSError: The file cannot be written.
        """
        temporary = f"{name}.new"
        self.delete(temporary)
        try:
            self._create(temporary, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())
            os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            self.delete(temporary)
            raise
        os.fsync(self.descriptor)

    def _create(self, name: str, content: bytes) -> None:
        with open(self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
