"""Drive kind `file`: a file of real data on a mounted disk, made by this package and by nothing else."""

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import msgspec

from iopatterns.base import messages
from iopatterns.configuration import factors
from iopatterns.measuring import fio, machine
from iopatterns.measuring.drives import descriptors, file_users, lock, restoring, signatures
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.own_folder import OWN_FOLDER_NAME, NotOursError, OwnFolder
from iopatterns.measuring.tuning import queue_settings
from iopatterns.measuring.tuning.journal import Journal, Owner, connected_disk
from iopatterns.raw import records, tuning_steps
from iopatterns.raw.records import Settings, Specification

_MIB = 2**20
# Memory and the kernel's own views: I/O on them measures no drive
_NO_DISK = frozenset({"tmpfs", "ramfs", "devtmpfs", "proc", "sysfs", "cgroup2", "hugetlbfs"})
# What stays free beside the file, so that measuring never fills somebody's disk to the brim
_SPARE_BYTES = 64 * _MIB
# The block at the end of the file that says that this package made it
_MARK_BYTES = 4096
_MARK_TEXT = "Made by iopatterns, which measures the drive under this file and overwrites it. Identity: {}\n"
# What an earlier version of this package put beside its file
_EARLIER_MARK = ".made-by-iopatterns"
_RENAME_NOREPLACE = 1  # renameat2(2)


class _Mark(msgspec.Struct, frozen=True):
    """The note beside the file: what tells the file from any other.

    ``file_size_bytes`` is what fio uses of it, ``laid_out_bytes`` what is in front of the block with the identity,
    ``size_bytes`` its whole size. ``ctime_ns`` is None while it is being written.
    """

    identity: str
    file_size_bytes: int
    inode: int
    size_bytes: int
    ctime_ns: int | None
    laid_out_bytes: int


class FileDrive:
    """A file, laid out once with incompressible data and kept between cells.

    fio uses its first ``file_size`` bytes, and of those behind them as many as a workload with `skip` reaches before
    it turns round. The last block of the file carries an identity. A note in the folder `.iopatterns` beside it repeats
    that, with what else tells this file from any other: its inode, its size and, unless it is being written, its
    ctime, which the kernel sets at each change. Whatever does not bear all of that is somebody else's, and refused.

    The folder and the file are opened once, while the drive is held: what was checked is what fio is given.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        drive = cast(records.FileSpecification, specification["drive"])
        options = specification.get("fio", {"rw": "write"})
        self.prefix: list[str] = []
        self._root = root.resolve()
        self._name = drive["name"]
        self._size_bytes: int = drive["file_size_bytes"]
        self._given = str(drive["path"])
        # symbolic links are followed first, so that every check is of what would really be written
        self._path = Path(os.path.realpath(self._root / self._given))
        self._tunable = frozenset(drive.get("tune", ()))
        self._journal: Journal | None = None  # of the disk under the file, while that is held
        self._writing = not fio.only_reads(options)
        # with `skip`, fio goes on behind the part that it was given, and turns round at the end of the file only
        reach_bytes = abs(options["skip"]) + options["bs"] if options.get("skip") else 0
        self._behind_bytes = max(1, -(-reach_bytes // _MIB)) * _MIB
        self._file: int | None = None
        self._mark: _Mark  # while there is a file

    @property
    def target(self) -> str:
        """The file that was checked, by the descriptor that fio inherits."""
        assert self._file is not None  # the drive is prepared
        return descriptors.descriptor_path(self._file)

    def run(self, argv: list[str], expected_s: float) -> fio.FioOutcome:
        """Run fio, which inherits the descriptor of `target`. Raises FioError."""
        assert self._file is not None
        return fio.run_fio(argv, expected_s, [self._file])

    def _refusal(self, reason: str, remedy: str) -> DriveError:
        return DriveError(f"drive '{self._name}' ({self._given}): {reason}. {remedy}")

    # ---- Its place, and the lock

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the drive's lock; waits, and says so, while another measurement has it.

        Raises DriveError where the folder is no place for the file, or something else is there: nothing is left then.
        """
        with contextlib.ExitStack() as held:
            try:
                self._open_folder(held)
                self._take_lock(held)
            except OSError as error:
                raise self._refusal(f"{self._path.parent}: {error.strerror}", "Does the disk still answer?") from None
            except NotOursError as error:
                raise self._refusal(*self._not_ours(error)) from None
            held.callback(self._settle)
            with self._disk_held():
                yield

    @contextlib.contextmanager
    def _disk_held(self) -> Iterator[None]:
        """Hold the disk under the file, and keep its settings: alone where they may be changed, else with others."""
        folder = self._path.parent
        names = [
            machine.disk_facts_under(folder)["device"],
            *(entry.name for entry in machine.whole_disks_under(folder)),
        ]
        disks = [found for name in dict.fromkeys(names) if name and (found := connected_disk(name)) is not None]
        if not disks:
            yield
            return
        owner = Owner(self._name, str(self._root))

        def say_busy(holder: str) -> None:
            messages.say(f"the disk under drive '{self._name}' is being measured by {holder}; waiting for it")

        exclusive = bool(self._tunable)
        with restoring.locked_disks(disks, owner, exclusive=exclusive, on_wait=say_busy) as self._journal:
            yield

    def _open_folder(self, held: contextlib.ExitStack) -> None:
        """Open the folder, which is a place for the file, and in which its name is free or ours."""
        self._check_folder()
        if not self._path.parent.is_dir():
            self._path.parent.mkdir(parents=True, exist_ok=True)  # inside the project
        self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        held.callback(os.close, self._folder)
        with self._found() as there:
            if there is not None:
                self._check_kind(os.fstat(there))
        # nothing of ours is made beside a file that is somebody else's
        own = OwnFolder.existing(self._folder) if there is not None else OwnFolder.made(self._folder)
        if own is None:
            raise self._somebody_elses()
        self._own = own
        held.callback(self._own.close)
        if there is not None and not self._own.has(self._note):
            raise self._somebody_elses()

    def _take_lock(self, held: contextlib.ExitStack) -> None:
        held.callback(self._close_file)
        descriptor = self._own.open(f"{self._path.name}.lock", os.O_RDWR | os.O_CREAT)
        held.callback(os.close, descriptor)
        lock.take_lock(descriptor, self._given, waiting=self._say_that_it_waits)

    def _say_that_it_waits(self, owner: str) -> None:
        messages.say(f"drive '{self._name}' is being measured by {owner}; waiting for it")

    def _close_file(self) -> None:
        descriptors.close_descriptor(self._file)
        self._file = None

    def _check_folder(self) -> None:
        """Raise DriveError unless the folder is a place for the file; one inside the project may be made."""
        folder = self._path.parent
        try:
            os.stat(self._root / self._given)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._refusal("its symbolic links lead in a circle", "Give another path.") from None
        if not folder.is_dir() and not folder.is_relative_to(self._root):
            # made here, the file would land on the disk that is mounted above, which nobody meant
            raise self._refusal(
                f"the folder {folder} does not exist",
                "Is the disk mounted? Mount it, or make the folder, and run again.",
            )
        there = next(path for path in (folder, *folder.parents) if path.is_dir())
        kind = machine.file_system_type(there)
        if kind in _NO_DISK:
            raise self._refusal(
                f"{there} lies on {kind}, which is no disk", "Give a path on the disk that is to be measured."
            )
        if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
            raise self._refusal(
                f"{there} is not writable for this user", "Give a path in a folder of your own, or change its owner."
            )

    # ---- Whose it is

    @property
    def _note(self) -> str:
        return f"{self._path.name}.mark"

    def _not_ours(self, error: NotOursError) -> tuple[str, str]:
        folder = self._path.parent
        return (
            f"{folder}: {error}; this package keeps its own files there, under no other name",
            f"Give a path in another folder, or move {folder / OWN_FOLDER_NAME} away.",
        )

    def _somebody_elses(self, reason: str = "") -> DriveError:
        earlier = self._path.with_name(self._path.name + _EARLIER_MARK)
        if earlier.is_file() and not reason:
            return self._refusal(
                "the file is that of an earlier version of this package, which could not tell it from another",
                f"It holds nothing but random data: delete it, {earlier.name} and {self._path.name}.lock, and run"
                " again; it is made anew.",
            )
        return self._refusal(
            f"a file is there that this package did not make{reason}, and measuring would overwrite it",
            "Give another path in config/drives.yaml; delete it only if nothing in it is needed.",
        )

    @contextlib.contextmanager
    def _found(self) -> Iterator[int | None]:
        """Yield a descriptor that names what is at the path, None where there is nothing."""
        try:
            there = descriptors.open_path_only(self._path.name, in_folder=self._folder, follow=False)
        except FileNotFoundError:
            yield None
            return
        try:
            yield there
        finally:
            os.close(there)

    def _check_kind(self, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            kinds = {stat.S_IFBLK: "a block device", stat.S_IFDIR: "a folder"}
            raise self._refusal(
                f"the path is {kinds.get(stat.S_IFMT(state.st_mode), 'no plain file')}",
                "Kind 'file' measures a file: give a path at which the package may make one.",
            )

    def guard(self) -> None:
        """Raise DriveError unless the path is, or can become, a file that this package made, with direct I/O."""
        try:
            with self._found() as there:
                if there is not None:
                    self._check_file(os.fstat(there))
                    self._close_file()
                    self._file = descriptors.make_inheritable(descriptors.reopen(there, os.O_RDONLY | os.O_NONBLOCK))
                    self._check_mark()
            self._try_direct_io()
        except NotOursError as error:
            raise self._refusal(*self._not_ours(error)) from None

    def _check_file(self, state: os.stat_result) -> None:
        """Raise DriveError unless that is a plain file, the one that the note describes."""
        self._check_kind(state)
        try:
            mark = msgspec.convert(self._own.read_json(self._note), _Mark)
        except msgspec.ValidationError:
            raise self._somebody_elses() from None
        if (state.st_ino, state.st_size) != (mark.inode, mark.size_bytes):
            raise self._somebody_elses(" (it has another inode or size than the one that was)")
        if state.st_nlink != 1:
            raise self._refusal(
                f"the file has {state.st_nlink} names (hard links)", "Delete the others, or give another path."
            )
        if used := file_users.find_file_user(state.st_dev, state.st_ino):
            raise self._refusal(f"the file is in use: {used}", "Give another path, or end that use.")
        self._mark = mark

    def _check_mark(self) -> None:
        """Raise DriveError unless the open file bears its mark, and is as this package has left it."""
        assert self._file is not None
        if not self._is_marked():
            raise self._somebody_elses(" (it does not bear this package's mark)")
        if self._mark.ctime_ns is None:  # what wrote it last was killed, and could note no time
            if found := signatures.find_signatures(self._file):
                raise self._somebody_elses(f" (it carries a signature of type {found[0]})")
        elif os.fstat(self._file).st_ctime_ns != self._mark.ctime_ns:
            raise self._somebody_elses(" as it is (it was changed since)")

    def _is_marked(self) -> bool:
        assert self._file is not None
        block = _mark_block(self._mark.identity)
        return os.pread(self._file, _MARK_BYTES, self._mark.size_bytes - _MARK_BYTES) == block

    def verify(self) -> None:
        """Raise DriveError unless the open file is still at its path, whole, and bears its mark."""
        assert self._file is not None
        try:
            state, there = os.fstat(self._file), os.stat(self._path.name, dir_fd=self._folder, follow_symlinks=False)
            same = os.path.samestat(state, there) and state.st_nlink == 1
            whole = same and state.st_size == self._mark.size_bytes and self._is_marked()
        except OSError as error:
            raise self._refusal(f"the file is not there any more: {error.strerror}", "Run again.") from None
        if not whole or self._mark.ctime_ns not in {None, state.st_ctime_ns}:
            what = "replaced, renamed or linked" if not same else "changed"
            raise self._refusal(f"the file was {what} while it was measured", "Find out by what, and run again.")

    def _write_note(self, mark: _Mark) -> None:
        self._mark = mark
        self._own.write_json(self._note, msgspec.to_builtins(mark))

    def _settle(self) -> None:
        """Note the file's ctime, once nothing of ours writes it any more."""
        # a disk that has failed keeps the note that the file was being written
        with contextlib.suppress(OSError, NotOursError, DriveError):
            if self._file is not None and self._mark.ctime_ns is None:
                self.verify()
                os.fsync(self._file)  # some file systems write times later than data
                self._write_note(msgspec.structs.replace(self._mark, ctime_ns=os.fstat(self._file).st_ctime_ns))

    def _try_direct_io(self) -> None:
        """Write one aligned block past the page cache: some file systems accept O_DIRECT only at open()."""
        name = f"{self._path.name}.trial"
        with mmap.mmap(-1, 2**16) as block:  # anonymous memory, hence aligned; 64 KiB suits every logical block size
            made = self._own.new(name)
            try:
                direct = descriptors.reopen(made, os.O_RDWR | os.O_DIRECT)
                try:
                    os.write(direct, block)
                finally:
                    os.close(direct)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise self._refusal(
                        f"no space is left on {self._path.parent}", "Free some, or give another path."
                    ) from None
                raise self._refusal(
                    f"the file system ({machine.file_system_type(self._path.parent)}) offers no direct I/O (O_DIRECT):"
                    f" {error.strerror}",
                    "Give a path on another file system, such as ext4 or xfs.",
                ) from None
            finally:
                os.close(made)
                self._own.delete(name)

    # ---- The file

    def prepare(self) -> None:
        """Lay the file out with real, incompressible data, unless it lies there in full size already.

        Notes that it is being written, if it is, before anything does.
        """
        if not self._is_laid_out():
            self._lay_out()
        elif self._writing and self._mark.ctime_ns is not None:
            self._write_note(msgspec.structs.replace(self._mark, ctime_ns=None))

    def _is_laid_out(self) -> bool:
        if self._file is None:
            return False
        state = os.fstat(self._file)
        behind_bytes = self._mark.laid_out_bytes - self._size_bytes - self._behind_bytes
        # a sparse file has fewer blocks than its size needs, and reading its holes measures no drive
        is_whole = state.st_blocks * 512 >= state.st_size
        return self._mark.file_size_bytes == self._size_bytes and behind_bytes >= 0 and is_whole

    def _lay_out(self) -> None:
        part = f"{self._path.name}.part"
        self._delete_file(part)
        self._check_space()
        messages.say(f"drive '{self._name}': writing {self._size_bytes / 2**30:.2f} GiB of data to {self._given}")
        laid_out_bytes = self._size_bytes + self._behind_bytes
        identity = secrets.token_hex(16)
        file = descriptors.make_inheritable(self._own.new(part))
        try:
            os.posix_fallocate(file, 0, laid_out_bytes + _MARK_BYTES)
            fio.fill(file, laid_out_bytes)
            os.pwrite(file, _mark_block(identity), laid_out_bytes)
            os.fsync(file)
            state = os.fstat(file)
            # the note goes first: a file without one is refused as somebody else's
            self._write_note(
                _Mark(
                    file_size_bytes=self._size_bytes,
                    laid_out_bytes=laid_out_bytes,
                    identity=identity,
                    inode=state.st_ino,
                    size_bytes=state.st_size,
                    ctime_ns=None,
                )
            )
            self._rename(part, inwards=False)
            self._file = descriptors.make_inheritable(descriptors.reopen(file, os.O_RDONLY))
        except FileExistsError:
            raise self._refusal(
                "a file was put there while this package made its own, and is left alone", "Run again."
            ) from None
        finally:
            os.close(file)
            self._own.delete(part)

    def _delete_file(self, part: str) -> None:
        """Delete the file that `guard` has seen: its space serves the new one."""
        self._own.delete(part)
        if self._file is None:
            return
        # whoever puts another file there at this moment gets it back
        self._rename(part, inwards=True)
        if os.stat(part, dir_fd=self._own.descriptor, follow_symlinks=False).st_ino != os.fstat(self._file).st_ino:
            self._rename(part, inwards=False)
            raise self._somebody_elses()
        self._own.delete(part)
        self._close_file()

    def _rename(self, part: str, *, inwards: bool) -> None:
        """Move the file between its path and our folder. Raises FileExistsError where something is there already."""
        ends = [(self._folder, self._path.name), (self._own.descriptor, part)]
        (source, old), (target, new) = ends if inwards else reversed(ends)
        library = ctypes.CDLL(None, use_errno=True)
        if library.renameat2(source, os.fsencode(old), target, os.fsencode(new), _RENAME_NOREPLACE):
            number = ctypes.get_errno()
            if number not in {errno.EINVAL, errno.ENOSYS}:
                raise OSError(number, os.strerror(number), old)
            # a file system that cannot do both at once
            os.link(old, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            os.unlink(old, dir_fd=source)
        for folder in (source, target):
            os.fsync(folder)

    def _check_space(self) -> None:
        folder = os.statvfs(self._path.parent)
        free_bytes = folder.f_bavail * folder.f_frsize
        need_bytes = self._size_bytes + self._behind_bytes + _SPARE_BYTES
        if free_bytes < need_bytes:
            raise self._refusal(
                f"its file needs {need_bytes / 2**30:.2f} GiB, and {free_bytes / 2**30:.2f} GiB are free"
                f" on {self._path.parent}",
                "Free some space, make file_size in config/config.yaml smaller, or give a path on another disk.",
            )

    # ---- What it is, and its settings

    def identify(self) -> records.DriveIdentity:
        """Return the file, its file system and the disk under it; see `machine.disk_facts_under` for the latter.

        ``opened`` is what was opened: its path, symbolic links followed, device number of its file system, and inode.
        """
        folder = self._path.parent
        state = None if self._file is None else os.fstat(self._file)
        about: records.OpenedTarget | None = state and {
            "path": str(self._path),
            "file_system_number": descriptors.device_number_text(state.st_dev),
            "inode": state.st_ino,
            "size_bytes": state.st_size,
        }
        identity = {
            "name": self._name,
            "kind": "file",
            "path": self._given,
            "opened": about,
            "file_size_bytes": self._size_bytes,
            "file_system": machine.file_system_type(folder),
            **machine.disk_facts_under(folder),
        }
        return cast(records.DriveIdentity, identity)

    def tune(self, settings: Settings) -> list[tuning_steps.Step]:
        """Set what config/drives.yaml lets be set: the disk under a file, and its settings, serve others too."""
        return [self._set(setting, settings[setting]) for setting in factors.in_setting_order(settings)]

    def _set(self, setting: str, wanted: int | str) -> tuning_steps.Step:
        if setting not in queue_settings.QUEUE_SETTINGS:
            return tuning_steps.not_applicable_step(
                setting, wanted, "a file has no mode pages; its disk serves others too"
            )
        if not factors.FACTORS[setting].shared:  # write_cache
            reason = "the disk serves others too, who may lose data when the kernel sends it no flushes"
            return tuning_steps.not_applicable_step(setting, wanted, reason)
        disk = machine.disk_facts_under(self._path.parent)["device"]
        if setting not in self._tunable or disk is None:
            reason = f"the disk serves others too; config/drives.yaml has no `tune: [{setting}]` for it"
            return tuning_steps.not_applicable_step(setting, wanted, reason)
        if self._journal is None:
            reason = f"/dev/{disk} is not there, without which its settings could not be put back after a crash"
            return tuning_steps.not_applicable_step(setting, wanted, reason)
        return queue_settings.set_attribute(disk, setting, wanted, self._journal.record)

    def changed_settings(self, steps: Sequence[tuning_steps.StepRecord]) -> list[str]:
        """Return which settings of the disk are not as they were set; see `restoring.settings_changed_since_tuning`."""
        disk = machine.disk_facts_under(self._path.parent)["device"]
        return restoring.settings_changed_since_tuning(disk, steps) if disk else []


def _mark_block(identity: str) -> bytes:
    return _MARK_TEXT.format(identity).encode().ljust(_MARK_BYTES, b"\n")
