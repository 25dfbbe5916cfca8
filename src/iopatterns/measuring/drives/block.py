"""Drive kind `block`: a disk, given by its block device.

Reading workloads need no consent. The disk is written only if all pre-write checks pass. One check requires
the user's consent in config/drives.yaml.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from iopatterns.base import files, host_state
from iopatterns.configuration import factors
from iopatterns.configuration.kinds import BlockEntry
from iopatterns.measuring import fio, machine
from iopatterns.measuring.drives import descriptors, restoring, storage_layers
from iopatterns.measuring.drives.error import DriveError, require_capacity
from iopatterns.measuring.drives.lock import locked
from iopatterns.measuring.drives.precondition import precondition
from iopatterns.measuring.drives.prewrite_checks import PrewriteChecks
from iopatterns.measuring.tuning import disk_settings, queue_settings
from iopatterns.measuring.tuning.journal import Owner, connected_disk
from iopatterns.raw import records
from iopatterns.raw.records import Settings, Specification
from iopatterns.raw.tuning_steps import NOT_APPLICABLE, TuningStep, tuning_step


def _read_consent(root: Path, name: str) -> dict[str, Any]:
    """Return what config/drives.yaml at present permits to overwrite on a drive.

    The result has the keys ``destroy`` (the disk's serial number, as consent) and ``expendable`` (types of content that
    may be lost), each only if the drive's entry has it. They are read again each time, because a cell's specification
    does not include them.

    Args:
        root: The project folder.
        name: The name of the drive.
    """
    from iopatterns.base import yaml_schema  # these imports take time, and only disks need them
    from iopatterns.configuration import drive_entries

    entry = yaml_schema.read_yaml(root, drive_entries.DRIVES_FILE).get(name) or {}
    return {key: entry[key] for key in ("destroy", "expendable") if key in entry}


class BlockDrive:
    """A disk that is measured directly, without a file system (kind ``block``).

    Only the first ``file_size`` bytes of the disk are measured (``file_size`` is a key of config/config.yaml).

    The path of the disk is resolved only once, in `hold`. All other methods then use the device that was opened, even
    if the path leads to another device later. While the device is locked, no other process of this package can measure
    it, not even one of another project folder. While a cell writes to the disk, nothing can mount it.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        self.prefix: list[str] = []
        self._drive = cast(records.BlockSpecification, specification["drive"])
        self._label = f"drive '{self._drive['name']}'"
        self._writing = not fio.only_reads(specification["fio"])
        self._buffers_writes = fio.buffers_writes(specification["fio"])
        self._checks = PrewriteChecks(cast(BlockEntry, {**self._drive, **_read_consent(root, self._drive["name"])}))
        self._folder = root / "data/raw" / self._drive["name"]
        self._note = self._folder / ".preconditioned.json"
        self._owner = Owner(self._drive["name"], str(root.resolve()))
        self._resources = contextlib.ExitStack()
        self._claimed = False

    @property
    def target(self) -> str:
        """The path that is given to fio, such as ``/proc/self/fd/100``.

        It leads to the opened device, whose file descriptor fio inherits. The path is valid within `hold`.
        """
        return descriptors.descriptor_path(self._checks.descriptor)

    def run(self, argv: list[str], expected_s: float) -> fio.FioOutcome:
        """Run fio, which inherits the descriptor of the device, and wait for its end.

        If fio writes through the page cache, the writes are flushed when fio has ended.

        Args:
            argv: The words of the command line.
            expected_s: The expected duration in seconds. fio that takes far longer is killed.

        Returns:
            When fio started and ended, and what disturbed it.

        Raises:
            FioError: fio failed, or its buffered writes were lost.
        """
        written = self._checks.descriptor if self._buffers_writes else None
        return fio.run_fio(argv, expected_s, [self._checks.descriptor], written=written)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Open and lock the device while the context lasts; restore its settings on exit.

        If another process holds the lock, a message is printed, and the lock is waited for. Settings that an
        interrupted run left changed are restored first.

        Raises:
            DriveError: The device cannot be opened, is not the disk in the configuration, or is too small. Or root left
                settings of the disk changed, and this user may not restore them.
            RestoreError: A setting could not be restored.
        """
        with self._resources:
            self._resources.callback(self._checks.close)
            self._require_passed(writing=False)
            self._resources.enter_context(locked(self._checks.number, subject=self._label))
            found = connected_disk(self._checks.name)
            if found is None or found.device_number != self._checks.number:
                raise DriveError(f"{self._label}: {self._checks.node} is gone. Is it still connected?")
            with restoring.restored_on_exit(found, self._owner) as self._journal:
                yield

    def guard(self) -> None:
        """Raise DriveError unless the cell's workload may run on the disk.

        The device must be the disk in the configuration, and must be large enough. If the workload writes, all
        pre-write checks must pass: for example, nothing else may use the disk, and the user must have consented to
        losing its data. The disk is then opened exclusively, so that nothing can mount it until `hold` ends. A note on
        this host records that this package writes to the disk.

        Raises:
            DriveError: A check has failed.
            OSError: The disk has come into use since it was checked.
            StateError: The note cannot be written.
        """
        self._require_passed(writing=self._writing)
        if self._writing:
            self._begin_writing()

    def _begin_writing(self) -> None:
        self._claim()
        self._checks.note_writing(done=False)
        self._resources.callback(self._end_writing)

    def _end_writing(self) -> None:
        # a disk that has failed, or is gone, keeps the note that it was being written
        with contextlib.suppress(OSError, DriveError, host_state.StateError):
            self._checks.note_writing(done=True)

    def _claim(self) -> None:
        """Prevent everybody from mounting the device until `hold` ends.

        Raises OSError if the device is in use.
        """
        if not self._claimed:
            self._resources.enter_context(self._checks.claimed())
            self._claimed = True

    def _require_passed(self, *, writing: bool) -> None:
        """Raise DriveError if a check of the disk fails, or if the disk is too small.

        Args:
            writing: Whether the disk is to be written, which requires more checks than reading.
        """
        for check in self._checks.checks(writing=writing):
            if not check.passed:
                raise DriveError(f"{self._label}: refused by the check of {check.name}: {check.found}. {check.remedy}")
        size_bytes = machine.disk_facts(self._checks.number)["size_bytes"] or 0
        require_capacity(self._label, size_bytes, self._drive["file_size_bytes"])

    def verify(self) -> None:
        """Raise DriveError unless the disk that was checked is still connected.

        The kernel's name, the serial number and the size of the disk must be the same as at the check.
        """
        try:
            self._checks.verify()
        except DriveError as error:
            raise DriveError(f"{self._label}: {error}") from None

    def prepare(self) -> None:
        """Precondition the disk if the configuration asks for it, unless already done.

        Preconditioning writes to the disk until it is in a known state. It therefore requires that all pre-write checks
        pass, as for a workload that writes. A note beside the raw files, ``.preconditioned.json``, records what was
        done. If the user deletes the note, the disk is preconditioned again.

        Raises:
            DriveError: A pre-write check has failed.
            FioError: fio, which writes the data, failed.
            OSError: The disk has come into use since it was checked.
        """
        wanted = self._drive.get("precondition")
        if wanted is None:
            return
        done = self.preconditioned()
        key = {"serial": self._drive["serial"], "size_bytes": self._drive["file_size_bytes"], **wanted}
        if done is not None and key.items() <= done.items():
            return
        self._note.unlink(missing_ok=True)
        if not self._writing:  # otherwise `guard` has done both
            self._require_passed(writing=True)
            self._begin_writing()
        size_bytes, output = self._drive["file_size_bytes"], self._folder / ".precondition.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        record = precondition(self._checks.descriptor, size_bytes, wanted["mode"], wanted["round_ms"], output)
        files.write_json(self._note, {**record, **key})

    def preconditioned(self) -> records.PreconditioningRecord | None:
        """Return how the disk was preconditioned, from the note beside the raw files.

        The note is the file ``.preconditioned.json`` that `prepare` writes. Returns None if there is no valid note.
        """
        try:
            return files.decode_json(self._note.read_bytes(), records.PreconditioningRecord)
        except (OSError, ValueError, RecursionError):
            return None

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set the drive settings of a cell, as far as the configuration permits.

        Only settings in the list ``tune`` of the drive in config/drives.yaml are set.

        Args:
            settings: The wanted values, by name of the setting, such as ``{"scheduler": "deadline", "WCE": 1}``.

        Returns:
            For each setting, the values before and after, and whether the wanted value is in effect. The order is that
            in which the settings were set. A setting that is not permitted has the outcome ``not applicable``.
        """
        return [self._set(setting, settings[setting]) for setting in factors.in_setting_order(settings)]

    def _set(self, setting: str, wanted: int | str) -> TuningStep:
        if setting not in self._drive.get("tune", ()):
            reason = f"config/drives.yaml does not have {setting} under `tune` of this drive"
            return tuning_step(setting, wanted, NOT_APPLICABLE, reason)
        if setting not in queue_settings.QUEUE_SETTINGS:
            return disk_settings.set_on_disk(self._checks.node, setting, int(wanted), self._journal.record)
        if setting == "write_cache":
            try:
                self._claim()
            except OSError as error:
                reason = f"without flushes what else uses {self._checks.node} may lose its data: {error.strerror}"
                return tuning_step(setting, wanted, NOT_APPLICABLE, reason)
        return queue_settings.set_attribute(self._checks.name, setting, wanted, self._journal.record)

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message for each setting that no longer has its value after `tune`.

        The list is empty if no setting has changed.

        Args:
            steps: The steps that `tune` returned.
        """
        return restoring.settings_changed_since_tuning(self._checks.name, steps)

    def doubts(self) -> list[str]:
        """Return the doubts that follow from where the data of the device are stored.

        There is a doubt if data are not stored on a disk, such as "stored in memory: loop0 on tmpfs", or if a loop
        device accesses its file through the page cache. Otherwise, the list is empty.
        """
        return storage_layers.storage_doubts(storage_layers.paths_below_device(self._checks.number))

    def identify(self) -> records.DriveIdentity:
        """Return what metadata files store about the drive.

        A metadata file says how the result of a repetition was made. The content of the returned dictionary
        (`records.DriveIdentity`) is:

        - the name and the path of the drive in the configuration
        - the device that was opened, and how much of it is measured
        - how the disk was preconditioned; None if it was not
        - what the kernel reports about the disk, such as model and serial number
        """
        identity = {
            "name": self._drive["name"],
            "kind": "block",
            "path": self._drive["path"],
            "opened": self._checks.opened_target(),
            "file_size_bytes": self._drive["file_size_bytes"],
            "preconditioned": self.preconditioned() if "precondition" in self._drive else None,
            **machine.disk_facts(self._checks.number),
        }
        return cast(records.DriveIdentity, identity)
