"""Drive kind `file`: a file of real data on a mounted disk, made by this package and by nothing else."""

import contextlib
import errno
import fcntl
import json
import mmap
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns import fio, machine, messages, tuning
from iopatterns.drives import restoring
from iopatterns.drives.error import DriveError
from iopatterns.tuning import queue
from iopatterns.tuning.journal import Author, Journal, present_disk

# Memory and the kernel's own views: I/O on them measures no drive
_NO_DISK = frozenset({"tmpfs", "ramfs", "devtmpfs", "proc", "sysfs", "cgroup2", "hugetlbfs"})
# What stays free beside the file, so that measuring never fills somebody's disk to the brim
_SPARE_BYTES = 64 * 2**20


class FileDrive:
    """A file, laid out once with incompressible data and kept between cells.

    Beside the file at ``path`` lie ``path.made-by-iopatterns``, which says that this package made the file and how
    large it is, and ``path.lock``, held while a measurement runs.
    """

    def __init__(self, root: Path, specification: Mapping[str, Any]) -> None:
        self.prefix: list[str] = []
        self._root = root.resolve()
        self._name = specification["name"]
        self._size_bytes: int = specification["file_size_bytes"]
        self.target = str(specification["path"])
        # symbolic links are followed first, so that every check is of what would really be written
        self._path = (self._root / self.target).resolve()
        self._tunable = frozenset(specification.get("tune", ()))
        self._journal: Journal | None = None  # of the disk under the file, while that is held
        self._mark = self._path.with_name(self._path.name + ".made-by-iopatterns")

    def _refusal(self, reason: str, remedy: str) -> DriveError:
        return DriveError(f"drive '{self._name}' ({self.target}): {reason}. {remedy}")

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the drive's lock file; waits, and says so, while another measurement has it.

        Raises DriveError where the folder is no place for the file: nothing is left there then.
        """
        self._check_folder()
        lock = self._path.with_name(self._path.name + ".lock")
        try:
            file = open(lock, "a+", encoding="utf-8")  # noqa: SIM115 - closed below, after the work that it guards
        except OSError as error:
            denied = isinstance(error, PermissionError)
            remedy = "Does it belong to another user? Delete it." if denied else "Does the disk under it still answer?"
            raise self._refusal(f"its lock file {lock} cannot be opened: {error.strerror}", remedy) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                messages.say(f"drive '{self._name}' is being measured by process {owner}; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            with self._disk_held():
                yield

    @contextlib.contextmanager
    def _disk_held(self) -> Iterator[None]:
        """Hold the disk under the file, and keep its settings: alone where they may be changed, else with others."""
        folder = self._path.parent
        names = [machine.disk_under(folder)["device"], *(entry.name for entry in machine.disks_under(folder))]
        disks = [found for name in dict.fromkeys(names) if name and (found := present_disk(name)) is not None]
        if not disks:
            yield
            return
        author = Author(self._name, str(self._root))

        def waiting(owner: str) -> None:
            messages.say(f"the disk under drive '{self._name}' is being measured by {owner}; waiting for it")

        with restoring.held(disks, author, changing=bool(self._tunable), waiting=waiting) as self._journal:
            yield

    def _check_folder(self) -> None:
        """Raise DriveError unless the folder is a place for the file; one inside the project is made."""
        folder = self._path.parent
        if not folder.is_dir() and not folder.is_relative_to(self._root):
            # made here, the file would land on the disk that is mounted above, which nobody meant
            raise self._refusal(
                f"the folder {folder} does not exist",
                "Is the disk mounted? Mount it, or make the folder, and run again.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        kind = machine.file_system(folder)
        if kind in _NO_DISK:
            raise self._refusal(
                f"{folder} lies on {kind}, which is no disk", "Give a path on the disk that is to be measured."
            )
        if not os.access(folder, os.W_OK):
            raise self._refusal(
                f"{folder} is not writable for this user", "Give a path in a folder of your own, or change its owner."
            )

    def identify(self) -> dict[str, Any]:
        """Return the file, its file system and the disk under it; see `machine.disk_under` for the latter."""
        folder = self._path.parent
        return {
            "name": self._name,
            "kind": "file",
            "path": self.target,
            "file_size_bytes": self._size_bytes,
            "file_system": machine.file_system(folder),
            **machine.disk_under(folder),
        }

    def guard(self) -> None:
        """Raise DriveError unless the path is, or can become, a file that this package made, with direct I/O."""
        with contextlib.suppress(FileNotFoundError):
            mode = self._path.lstat().st_mode
            if not stat.S_ISREG(mode):
                what = "a block device" if stat.S_ISBLK(mode) else "a folder" if stat.S_ISDIR(mode) else "no plain file"
                raise self._refusal(
                    f"the path is {what}",
                    "Kind 'file' measures a file: give a path at which the package may make one.",
                )
            if self._marked_size() is None:
                raise self._refusal(
                    "a file is there that this package did not make, and measuring would overwrite it",
                    "Give another path in config/drives.yaml; delete it only if it is a copy of one of this package's.",
                )
        self._try_direct_io(self._path.parent)

    def _marked_size(self) -> int | None:
        """Return the size in bytes that the mark states for the very file at the path, or None without such a mark."""
        try:
            mark = json.loads(self._mark.read_text(encoding="utf-8"))
            return int(mark["size_bytes"]) if mark["inode"] == self._path.stat().st_ino else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _try_direct_io(self, folder: Path) -> None:
        """Write one aligned block past the page cache: some file systems accept O_DIRECT only at open()."""
        descriptor, name = tempfile.mkstemp(prefix=".direct-io-", dir=folder)
        os.close(descriptor)
        block = mmap.mmap(-1, 2**16)  # anonymous memory, hence aligned; 64 KiB suits every logical block size
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_DIRECT)
            try:
                os.write(descriptor, block)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._refusal(f"no space is left on {folder}", "Free some, or give another path.") from None
            raise self._refusal(
                f"the file system ({machine.file_system(folder)}) offers no direct I/O (O_DIRECT): {error.strerror}",
                "Give a path on another file system, such as ext4 or xfs.",
            ) from None
        finally:
            block.close()
            os.unlink(name)

    def prepare(self) -> None:
        """Lay the file out with real, incompressible data, unless it lies there in full size already."""
        if self._is_laid_out():
            return
        part = self._path.with_name(self._path.name + ".layout")
        part.unlink(missing_ok=True)
        # guard() has seen that it is ours; gone first, its space serves the new one and no mark can name the wrong file
        self._path.unlink(missing_ok=True)
        self._check_space()
        messages.say(f"drive '{self._name}': writing {self._size_bytes / 2**30:.2f} GiB of data to {self.target}")
        try:
            fio.lay_out(str(part), self._size_bytes)
            # the mark goes first: a file without one is refused as somebody else's
            mark = {"size_bytes": self._size_bytes, "inode": part.stat().st_ino}
            self._mark.write_text(json.dumps(mark) + "\n", encoding="utf-8")
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)

    def tune(self, settings: Mapping[str, Any]) -> list[tuning.Step]:
        """Set what config/drives.yaml lets be set: the disk under a file, and its settings, serve others too."""
        return [self._set(setting, settings[setting]) for setting in tuning.in_order(settings)]

    def _set(self, setting: str, wanted: int | str) -> tuning.Step:
        if setting not in queue.SETTINGS:
            return tuning.not_applicable(setting, wanted, "a file has no mode pages; its disk serves others too")
        if setting == "write_cache":
            reason = "the disk serves others too, who may lose data when the kernel sends it no flushes"
            return tuning.not_applicable(setting, wanted, reason)
        disk = machine.disk_under(self._path.parent)["device"]
        if setting not in self._tunable or disk is None:
            reason = f"the disk serves others too; config/drives.yaml has no `tune: [{setting}]` for it"
            return tuning.not_applicable(setting, wanted, reason)
        if self._journal is None:
            reason = f"/dev/{disk} is not there, without which its settings could not be put back after a crash"
            return tuning.not_applicable(setting, wanted, reason)
        return queue.set_attribute(disk, setting, wanted, self._journal.record)

    def changed_settings(self, steps: Sequence[tuning.Record]) -> list[str]:
        """Return which settings of the disk are not as they were set; see `restoring.changed_settings`."""
        disk = machine.disk_under(self._path.parent)["device"]
        return restoring.changed_settings(disk, steps) if disk else []

    def _is_laid_out(self) -> bool:
        size_bytes = self._size_bytes
        if self._marked_size() != size_bytes:
            return False
        state = self._path.stat()
        # a sparse file has fewer blocks than its size needs, and reading its holes measures no drive
        return state.st_size == size_bytes and state.st_blocks * 512 >= size_bytes

    def _check_space(self) -> None:
        folder = os.statvfs(self._path.parent)
        free_bytes = folder.f_bavail * folder.f_frsize
        need_bytes = self._size_bytes + _SPARE_BYTES
        if free_bytes < need_bytes:
            raise self._refusal(
                f"its file needs {need_bytes / 2**30:.2f} GiB, and {free_bytes / 2**30:.2f} GiB are free"
                f" on {self._path.parent}",
                "Free some space, make file_size in config/config.yaml smaller, or give a path on another disk.",
            )
