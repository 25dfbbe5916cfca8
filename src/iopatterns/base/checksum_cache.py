"""A cache of SHA-256 checksums, so that unchanged files are not read again.

As in git's index, a checksum is valid as long as size, times and inode of its file are unchanged. One of the times is
that of the last status change (ctime). No program can set it, so that a replaced file is noticed even if it has its old
modification time. Files that changed shortly before they were read are read again, because another change may have had
the same time.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from iopatterns.base import files

# A time of a file is a multiple of the clock tick of the kernel, or of up to 2 s on some file systems
_RECENT_NS = 2_000_000_000


class _Entry(msgspec.Struct, array_like=True):
    """A text that was derived from some files.

    Attributes:
        state: A digest of the names, sizes, times and inodes of the files.
        text: The text, such as a checksum.
    """

    state: str
    text: str


class ChecksumCache:
    """A cache of checksums and other short texts that are derived from files.

    A cached text is used again as long as size, times and inode of its files are unchanged. A text is not cached if one
    of its files changed within two seconds before it was read. A group consists of files in one folder, and has one
    entry. A million files in groups of ten need 100,000 entries.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Read the cache.

        Args:
            path: The file that stores the cache between runs. If it is missing or damaged, the cache is empty. With
                None, nothing is read, and `save` does nothing.
        """
        self._path = path
        self._entries: dict[str, _Entry] = {}
        self._has_changed = False
        if path is not None:
            with contextlib.suppress(OSError, ValueError, RecursionError):
                self._entries = msgspec.json.decode(path.read_bytes(), type=dict[str, _Entry])

    def save(self) -> None:
        """Store the cache for the next run, if it has changed.

        If the file cannot be written, for example because the disk is full, nothing happens.
        """
        if self._path is not None and self._has_changed:
            content = msgspec.json.encode(self._entries)
            with contextlib.suppress(OSError):  # such as a full disk: the next run reads more files
                files.write_atomically(self._path, lambda temporary: temporary.write_bytes(content))

    def file_text(self, path: Path, derive: Callable[[Path], str]) -> str | None:
        """Return a text that is derived from the content of a file, such as its checksum.

        Returns None if there is no such file.

        Args:
            path: The file.
            derive: A function that reads the file, and returns the text. It must be the same function for a file each
                time. It is called only if the cache lacks the text, or if the file has changed since the text was
                cached.
        """
        try:
            found = path.stat()
        except OSError:
            return None
        return self.text(str(path), {path.name: found}, lambda: derive(path)) if path.is_file() else None

    def group_sha256(self, folder: Path, stats: Mapping[str, os.stat_result]) -> str:
        """Return one checksum for several files in a folder, as 64 hexadecimal digits.

        It is the SHA-256 of the text that the program ``sha256sum`` prints for the files, sorted by name. The files are
        read only if the cache lacks the checksum.

        Args:
            folder: The folder. It has one entry in the cache.
            stats: The results of ``stat`` of the files, by file name.
        """
        return self.text(str(folder), stats, lambda: _group_sha256(folder, sorted(stats)))

    def text(self, key: str, stats: Mapping[str, os.stat_result], derive: Callable[[], str]) -> str:
        """Return a text that is derived from the contents of files.

        Args:
            key: The key of the text in the cache, such as the path of the folder.
            stats: The results of ``stat`` of the files, by name. They decide whether a cached text is still valid.
            derive: A function that reads the files, and returns the text. It is called if the cache lacks the text, or
                if one of the files has changed since the text was cached.
        """
        began_ns = time.time_ns()
        state = _state(stats)
        entry = self._entries.get(key)
        if entry is not None and entry.state == state:
            return entry.text
        entry = _Entry(state, derive())
        latest_ns = max((max(each.st_mtime_ns, each.st_ctime_ns) for each in stats.values()), default=0)
        if latest_ns < began_ns - _RECENT_NS:
            self._entries[key] = entry
            self._has_changed = True
        return entry.text


def _state(stats: Mapping[str, os.stat_result]) -> str:
    lines = (
        f"{name}\0{each.st_size} {each.st_mtime_ns} {each.st_ctime_ns} {each.st_dev} {each.st_ino}"
        for name, each in sorted(stats.items())
    )
    return hashlib.blake2b("\n".join(lines).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _group_sha256(folder: Path, names: Sequence[str]) -> str:
    lines = (f"{files.sha256(folder / name)}  {name}\n" for name in names)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
