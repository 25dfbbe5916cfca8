"""Drive kind `file`: a file of incompressible data on a mounted disk."""

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
from iopatterns.measuring.drives import descriptors, file_users, lock, restoring, storage_layers
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.own_folder import OWN_FOLDER_NAME, NotOursError, OwnFolder
from iopatterns.measuring.tuning import queue_settings
from iopatterns.measuring.tuning.journal import Journal, Owner, connected_disk
from iopatterns.raw import records
from iopatterns.raw.records import Settings, Specification
from iopatterns.raw.tuning_steps import NOT_APPLICABLE, TuningStep, tuning_step

_MIB = 2**20
# Remains free on the disk, so that measuring never fills it
_SPARE_BYTES = 64 * _MIB
# The last block of the file, which marks the file as created by this package
_MARK_BYTES = 4096
_MARK_TEXT = "Made by iopatterns, which measures the drive under this file and overwrites it. Identity: {}\n"
_RENAME_NOREPLACE = 1  # renameat2(2)


class _Note(msgspec.Struct, frozen=True):
    """The note about the measured file, by which this package recognises it.

    It is stored in the folder ``.iopatterns`` beside the file.

    Attributes:
        identity: The random text in the last block of the file.
        file_size_bytes: The size of the part that fio uses.
        inode: The inode of the file.
        size_bytes: The size of the file.
        ctime_ns: The change time of the file, which the kernel updates at each change. None while the file is being
            written.
        laid_out_bytes: The size of the file without its last block.
    """

    identity: str
    file_size_bytes: int
    inode: int
    size_bytes: int
    ctime_ns: int | None
    laid_out_bytes: int


class FileDrive:
    """A file on a mounted disk, filled with incompressible data (kind ``file``).

    The file is created once, and kept between cells (a cell is one configuration: a drive, its settings and a
    workload). fio uses the first ``file_size`` bytes of the file (``file_size`` is a key of config/config.yaml). For a
    workload with fio's offset increment (the option `skip`), the file is longer, because fio then goes beyond these
    bytes.

    The package overwrites only a file that it made itself. Two marks that must match identify such a file:

    - the last block of the file contains a random identity
    - a note in the folder ``.iopatterns`` beside the file has the same identity, and the inode, size and change time of
      the file

    Any other file at the path is refused with a DriveError.

    The folder of the file is opened only in `hold`, and an existing file only in `guard`. fio inherits the descriptor
    of the opened file. If another file gets the path after the check, fio does not use it.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        drive = cast(records.FileSpecification, specification["drive"])
        options = specification.get("fio", {"rw": "write"})
        self.prefix: list[str] = []
        self._root = root.resolve()
        self._name = drive["name"]
        self._size_bytes: int = drive["file_size_bytes"]
        self._given = str(drive["path"])
        # resolved first, so that all checks are of the file that would really be written
        self._path = Path(os.path.realpath(self._root / self._given))
        self._note_name = f"{self._path.name}.mark"
        self._tunable = frozenset(drive.get("tune", ()))
        self._journal: Journal | None = None  # of the disk under the file
        self._writing = not fio.only_reads(options)
        self._buffers_writes = fio.buffers_writes(options)
        # with `skip`, fio continues behind its part of the file, and starts again only at the end of the file
        reach_bytes = abs(options["skip"]) + options["bs"] if options.get("skip") else 0
        self._behind_bytes = max(1, -(-reach_bytes // _MIB)) * _MIB
        self._file: int | None = None  # descriptor
        self._note: _Note  # of the open file
        self._is_written = False  # whether this run has written, or may have written, the file since its note

    @property
    def target(self) -> str:
        """The path that is given to fio, such as ``/proc/self/fd/100``.

        It leads to the opened file, whose descriptor fio inherits. The path is valid after `prepare`.
        """
        return descriptors.descriptor_path(self._descriptor)

    @property
    def _descriptor(self) -> int:
        """The descriptor of the file, which must be open."""
        assert self._file is not None
        return self._file

    def run(self, argv: list[str], expected_s: float) -> fio.FioOutcome:
        """Run fio, which inherits the descriptor of the file, and wait for its end.

        If fio writes through the page cache, the writes are flushed when fio has ended.

        Args:
            argv: The words of the command line.
            expected_s: The expected duration in seconds. fio that takes far longer is killed.

        Returns:
            When fio started and ended, and what disturbed it.

        Raises:
            FioError: fio failed, or its buffered writes were lost.
        """
        written = self._descriptor if self._buffers_writes else None
        return fio.run_fio(argv, expected_s, [self._descriptor], written=written)

    def _refusal(self, reason_and_remedy: str) -> DriveError:
        return DriveError(f"drive '{self._name}' ({self._given}): {reason_and_remedy}")

    # ---- The folder, and the lock

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Lock the file and the disk under it while the context lasts.

        If another process holds a lock, a message is printed, and the lock is waited for. Settings of the disk that an
        interrupted run left changed are restored first. On exit, settings that `tune` changed are restored.

        Raises:
            DriveError: The folder of the file cannot be used, for example because it is not on a disk. Or a file exists
                that this package did not make; nothing is created then. Or root left settings of the disk changed.
            RestoreError: A setting of the disk could not be restored.
        """
        with contextlib.ExitStack() as resources:
            try:
                self._open_folder(resources)
                self._take_lock(resources)
            except OSError as error:
                raise self._refusal(f"{self._path.parent}: {error.strerror}. Does the disk still answer?") from None
            except NotOursError as error:
                raise self._foreign_own_folder(error) from None
            resources.callback(self._note_change_time)
            with self._disk_locked():
                yield

    @contextlib.contextmanager
    def _disk_locked(self) -> Iterator[None]:
        """Lock the disks under the file while the context lasts.

        The lock is exclusive if the configuration permits to change settings of the disk. Otherwise, other measurements
        that change no settings may share it.
        """
        folder = self._path.parent
        devices = [machine.disk_facts_under(folder)["device"]]
        devices += [entry.name for entry in machine.whole_disks_under(folder)]
        disks = [found for name in dict.fromkeys(devices) if name and (found := connected_disk(name)) is not None]
        if not disks:
            yield
            return
        owner, subject = Owner(self._name, str(self._root)), f"the disk under drive '{self._name}'"
        exclusive = bool(self._tunable)
        with restoring.locked_disks(disks, owner, exclusive=exclusive, subject=subject) as self._journal:
            yield

    def _open_folder(self, resources: contextlib.ExitStack) -> None:
        """Open the folder of the file, and the folder ``.iopatterns`` in it.

        The latter is created if it is missing. If a file exists at the path and this package did not make it, nothing
        is created.

        Args:
            resources: The stack that closes both folders.

        Raises:
            DriveError: The folder is not suitable, or the file belongs to somebody else.
            NotOursError: The folder ``.iopatterns`` belongs to somebody else.
        """
        self._check_folder()
        if not self._path.parent.is_dir():
            self._path.parent.mkdir(parents=True, exist_ok=True)  # only inside the project, see _check_folder
        self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        resources.callback(os.close, self._folder)
        with self._found() as found:
            if found is not None:
                self._check_type(os.fstat(found))
        # our folder is not created beside a file that belongs to somebody else
        own = OwnFolder.opened(self._folder, create=found is None)
        if own is None:
            raise self._foreign_file()
        self._own = own
        resources.callback(self._own.close)
        if found is not None and not self._own.has(self._note_name):
            raise self._foreign_file()

    def _take_lock(self, resources: contextlib.ExitStack) -> None:
        resources.callback(self._close_file)
        descriptor = self._own.open(f"{self._path.name}.lock", os.O_RDWR | os.O_CREAT)
        resources.callback(os.close, descriptor)
        lock.take_lock(descriptor, self._given, subject=f"drive '{self._name}'")

    def _close_file(self) -> None:
        descriptors.close_descriptor(self._file)
        self._file = None

    def _check_folder(self) -> None:
        """Raise DriveError unless the folder of the file is suitable.

        It must be a writable folder on a disk. If it is missing, it must be inside the project.
        """
        folder = self._path.parent
        try:
            os.stat(self._root / self._given)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._refusal("its symbolic links lead in a circle. Give another path.") from None
        if not folder.is_dir() and not folder.is_relative_to(self._root):
            # creating the folder would put the file on the disk that is mounted above, not on the intended disk
            raise self._refusal(
                f"the folder {folder} does not exist. Is the disk mounted? Mount it or create it, and run again."
            )
        existing = next(path for path in (folder, *folder.parents) if path.is_dir())
        kind = machine.file_system_type(existing)
        if kind in storage_layers.NO_DISK:
            raise self._refusal(f"{existing} is on {kind}, which is no disk. Give a path on the disk to measure.")
        if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
            raise self._refusal(
                f"{existing} is not writable for this user. Give a path in a folder of your own, or change its owner."
            )

    # ---- Whether the file is ours

    def _foreign_own_folder(self, error: NotOursError) -> DriveError:
        folder = self._path.parent
        return self._refusal(
            f"{folder}: {error}; this package needs this name for its own files. Give a path in another folder, or move"
            f" {folder / OWN_FOLDER_NAME} away."
        )

    def _foreign_file(self, reason: str = "") -> DriveError:
        return self._refusal(
            f"a file exists that this package did not make{reason}, and measuring would overwrite it. Give another path"
            " in config/drives.yaml; delete it only if nothing in it is needed."
        )

    @contextlib.contextmanager
    def _found(self) -> Iterator[int | None]:
        """Yield a descriptor of the file at the drive's path; None if there is no file.

        The descriptor only identifies the file (O_PATH). It is closed on exit.
        """
        try:
            found = descriptors.open_path_only(self._path.name, in_folder=self._folder, follow=False)
        except FileNotFoundError:
            yield None
            return
        try:
            yield found
        finally:
            os.close(found)

    def _check_type(self, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            kinds = {stat.S_IFBLK: "a block device", stat.S_IFDIR: "a folder"}
            raise self._refusal(
                f"the path is {kinds.get(stat.S_IFMT(state.st_mode), 'no regular file')}. Kind 'file' measures a file:"
                " give a path at which this package may create one."
            )

    def guard(self) -> None:
        """Raise DriveError unless the file may be measured.

        - The file must be missing, or made by this package and unchanged since its last measurement. After a
          measurement that was killed while it wrote the file, the file may only be read.
        - Nothing else may use an existing file, such as a loop device or another process that writes to it.
        - The file system must support direct I/O.
        """
        try:
            with self._found() as found:
                if found is not None:
                    self._check_file(os.fstat(found))
                    self._close_file()
                    self._file = descriptors.make_inheritable(descriptors.reopen(found, os.O_RDONLY | os.O_NONBLOCK))
                    self._check_mark()
            self._try_direct_io()
        except NotOursError as error:
            raise self._foreign_own_folder(error) from None

    def _check_file(self, state: os.stat_result) -> None:
        """Raise DriveError unless the file matches its note, and nothing else uses it.

        Args:
            state: The inode, size and number of hard links of the file, from stat(2).
        """
        self._check_type(state)
        try:
            note = msgspec.convert(self._own.read_json(self._note_name), _Note)
        except msgspec.ValidationError:
            raise self._foreign_file() from None
        if (state.st_ino, state.st_size) != (note.inode, note.size_bytes):
            raise self._foreign_file(" (its inode or size differs from that of the file that it made)")
        if state.st_nlink != 1:
            raise self._refusal(
                f"the file has {state.st_nlink} names (hard links). Delete the others, or give another path."
            )
        if user := file_users.find_file_user(state.st_dev, state.st_ino):
            raise self._refusal(f"the file is in use: {user}. Give another path, or end that use.")
        self._note = note

    def _check_mark(self) -> None:
        """Raise DriveError unless the open file is unchanged since it was measured.

        Its last block must have the identity in the note, and its change time must be the one in the note. If a run was
        killed, or its disk failed, while it wrote, the note has no change time. The file may then be read, but neither
        written nor replaced.
        """
        if not self._is_marked():
            raise self._foreign_file(" (it does not have this package's mark)")
        if self._note.ctime_ns is None:
            if self._writing or not self._is_laid_out():
                raise self._refusal(
                    "the last measurement was killed, or its disk failed, while it wrote the file, so whether somebody"
                    " has changed the file since then is unknown. Delete the file if nothing in it is needed, and run"
                    " again."
                )
        elif os.fstat(self._descriptor).st_ctime_ns != self._note.ctime_ns:
            raise self._foreign_file(" in its present form (it was changed since)")

    def _is_marked(self) -> bool:
        block = os.pread(self._descriptor, _MARK_BYTES, self._note.size_bytes - _MARK_BYTES)
        return block == _mark_block(self._note.identity)

    def verify(self) -> None:
        """Raise DriveError if the open file was replaced, renamed, linked or changed.

        For a workload that writes, a change of the content is noticed only if it affects the size of the file, or its
        last block, which has the package's mark.
        """
        try:
            state = os.fstat(self._descriptor)
            at_path = os.stat(self._path.name, dir_fd=self._folder, follow_symlinks=False)
            same = os.path.samestat(state, at_path) and state.st_nlink == 1
            whole = same and state.st_size == self._note.size_bytes and self._is_marked()
        except OSError as error:
            raise self._refusal(f"the file does not exist any more: {error.strerror}. Run again.") from None
        if not whole or self._note.ctime_ns not in {None, state.st_ctime_ns}:
            what = "replaced, renamed or linked" if not same else "changed"
            raise self._refusal(f"the file was {what} while it was measured. Find out by what, and run again.")

    def _write_note(self, note: _Note) -> None:
        self._note = note
        self._own.write_json(self._note_name, msgspec.to_builtins(note))

    def _note_change_time(self) -> None:
        """Write the change time of the file to its note after this run's last write.

        Nothing happens if this run has not written the file. Somebody else may have done so after a killed run.
        """
        # a disk that has failed keeps the note that the file was being written
        with contextlib.suppress(OSError, NotOursError, DriveError):
            if self._file is not None and self._is_written:
                self.verify()
                os.fsync(self._file)  # some file systems write times later than data
                self._write_note(msgspec.structs.replace(self._note, ctime_ns=os.fstat(self._file).st_ctime_ns))
                self._is_written = False

    def _try_direct_io(self) -> None:
        """Raise DriveError unless a block can be written with direct I/O.

        Opening a file is not enough to know: some file systems accept O_DIRECT in open(2), but not in write(2).
        """
        name = f"{self._path.name}.trial"
        with mmap.mmap(-1, 2**16) as block:  # anonymous memory is aligned; 64 KiB is a multiple of all block sizes
            created = self._own.new(name)
            try:
                direct = descriptors.reopen(created, os.O_RDWR | os.O_DIRECT)
                try:
                    os.write(direct, block)
                finally:
                    os.close(direct)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    message = f"no space is left on {self._path.parent}. Free some, or give another path."
                    raise self._refusal(message) from None
                raise self._refusal(
                    f"the file system ({machine.file_system_type(self._path.parent)}) offers no direct I/O (O_DIRECT):"
                    f" {error.strerror}. Give a path on another file system, such as ext4 or xfs."
                ) from None
            finally:
                os.close(created)
                self._own.delete(name)

    # ---- Creating the file

    def prepare(self) -> None:
        """Create the file and fill it with data, unless it exists with the right size.

        If the workload writes, the note in the folder ``.iopatterns`` is updated first: it then says that the file is
        being written. If the run is killed meanwhile, later runs may read the file, but neither write nor replace it.

        Raises:
            DriveError: The disk has too little space, or another file was created at the path meanwhile.
            FioError: fio, which fills the file, failed.
        """
        if not self._is_laid_out():
            self._lay_out()
        if self._writing:
            self._is_written = True
            self._write_note(msgspec.structs.replace(self._note, ctime_ns=None))

    def _is_laid_out(self) -> bool:
        if self._file is None:
            return False
        state = os.fstat(self._file)
        behind_bytes = self._note.laid_out_bytes - self._size_bytes - self._behind_bytes
        # a sparse file has fewer blocks than its size needs, and reading its holes measures no drive
        is_whole = state.st_blocks * 512 >= state.st_size
        return self._note.file_size_bytes == self._size_bytes and behind_bytes >= 0 and is_whole

    def _lay_out(self) -> None:
        """Create a file of the right size in place of the old one, filled with data.

        The file gets its final name only when it is complete.
        """
        part = f"{self._path.name}.part"
        self._delete_file(part)
        self._check_space()
        messages.say(f"drive '{self._name}': writing {self._size_bytes / 2**30:.2f} GiB of data to {self._given}")
        laid_out_bytes = self._size_bytes + self._behind_bytes
        identity = secrets.token_hex(16)
        file = descriptors.make_inheritable(self._own.new(part))
        try:
            os.posix_fallocate(file, 0, laid_out_bytes + _MARK_BYTES)
            try:
                fio.fill(file, laid_out_bytes)
            except fio.FioError as error:  # which names only a descriptor
                raise fio.FioError(str(self._refusal(f"its file cannot be filled with data: {error}"))) from None
            os.pwrite(file, _mark_block(identity), laid_out_bytes)
            os.fsync(file)
            state = os.fstat(file)
            # the note comes first: a file without a note is refused
            self._write_note(
                _Note(
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
            self._is_written = True
            self._note_change_time()
        except FileExistsError:
            raise self._refusal(
                "another file was created at the path while this package made its own; it is left alone. Run again."
            ) from None
        finally:
            os.close(file)
            self._own.delete(part)

    def _delete_file(self, part: str) -> None:
        """Delete the file that `guard` has checked, to free its space for a new one.

        Args:
            part: The name of the unfinished new file in ``.iopatterns``. An unfinished file of an earlier run is
                deleted, too.
        """
        self._own.delete(part)
        if self._file is None:
            return
        # renamed before it is deleted: if another file took its place meanwhile, that file is renamed back
        self._rename(part, inwards=True)
        if os.stat(part, dir_fd=self._own.descriptor, follow_symlinks=False).st_ino != os.fstat(self._file).st_ino:
            self._rename(part, inwards=False)
            raise self._foreign_file()
        self._own.delete(part)
        self._close_file()

    def _rename(self, part: str, *, inwards: bool) -> None:
        """Move the file between the drive's path and the folder ``.iopatterns``.

        Args:
            part: The name of the file in ``.iopatterns``.
            inwards: Whether to move the file into ``.iopatterns``.

        Raises:
            FileExistsError: A file exists at the destination.
        """
        ends = [(self._folder, self._path.name), (self._own.descriptor, part)]
        (source, old), (target, new) = ends if inwards else reversed(ends)
        library = ctypes.CDLL(None, use_errno=True)
        if library.renameat2(source, os.fsencode(old), target, os.fsencode(new), _RENAME_NOREPLACE):
            number = ctypes.get_errno()
            if number not in {errno.EINVAL, errno.ENOSYS}:
                raise OSError(number, os.strerror(number), old)
            # the file system does not support RENAME_NOREPLACE
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
                f" on {self._path.parent}. Free some space, make file_size in config/config.yaml smaller, or give"
                " a path on another disk."
            )

    # ---- Identity and settings

    def identify(self) -> records.DriveIdentity:
        """Return what metadata files store about the drive.

        A metadata file says how the result of a repetition was made. The content of the returned dictionary
        (`records.DriveIdentity`) is:

        - the name and the path of the drive in the configuration
        - the file that was opened (None if none was), and how much of it is measured
        - the type of its file system, such as ``ext4``
        - what the kernel reports about the disk under the file, such as model and serial number
        """
        folder = self._path.parent
        state = None if self._file is None else os.fstat(self._file)
        opened: records.OpenedTarget | None = state and {
            "path": str(self._path),
            "file_system_number": descriptors.device_number_text(state.st_dev),
            "inode": state.st_ino,
            "size_bytes": state.st_size,
        }
        identity = {
            "name": self._name,
            "kind": "file",
            "path": self._given,
            "opened": opened,
            "file_size_bytes": self._size_bytes,
            "file_system": machine.file_system_type(folder),
            **machine.disk_facts_under(folder),
        }
        return cast(records.DriveIdentity, identity)

    def doubts(self) -> list[str]:
        """Return the doubts that follow from where the data of the file are stored.

        There is a doubt if data are not stored on a disk, such as "stored in memory: ext4 on loop0 on tmpfs", or if a
        loop device below accesses its file through the page cache. Otherwise, the list is empty.
        """
        return storage_layers.storage_doubts(storage_layers.paths_below_file(self._path.parent))

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set the settings of the disk under the file that the configuration permits.

        Only settings in the list ``tune`` of the drive in config/drives.yaml are set. Because other programs use the
        disk too, only settings of the kernel's request queue that endanger no data are ever set, such as the I/O
        scheduler.

        Args:
            settings: The wanted values, by name of the setting, such as ``{"scheduler": "deadline"}``.

        Returns:
            For each setting, the values before and after, and whether the wanted value is in effect. The order is that
            in which the settings were set. A setting that is not permitted has the outcome ``not applicable``.
        """
        return [self._set(setting, settings[setting]) for setting in factors.in_setting_order(settings)]

    def _set(self, setting: str, wanted: int | str) -> TuningStep:
        disk = machine.disk_facts_under(self._path.parent)["device"]
        if setting not in queue_settings.QUEUE_SETTINGS:
            reason = "a file has no mode pages; its disk serves others too"
        elif not factors.FACTORS[setting].shared:  # write_cache
            reason = "the disk serves others too, who may lose data when the kernel sends it no flushes"
        elif setting not in self._tunable or disk is None:
            reason = f"the disk serves others too; config/drives.yaml has no `tune: [{setting}]` for it"
        elif self._journal is None:
            reason = f"/dev/{disk} is not there, without which its settings could not be put back after a crash"
        else:
            return queue_settings.set_attribute(disk, setting, wanted, self._journal.record)
        return tuning_step(setting, wanted, NOT_APPLICABLE, reason)

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message for each setting of the disk that has changed since `tune`.

        The list is empty if no setting has changed, or if the disk under the file is unknown.

        Args:
            steps: The steps that `tune` returned.
        """
        disk = machine.disk_facts_under(self._path.parent)["device"]
        return restoring.settings_changed_since_tuning(disk, steps) if disk else []


def _mark_block(identity: str) -> bytes:
    return _MARK_TEXT.format(identity).encode().ljust(_MARK_BYTES, b"\n")
