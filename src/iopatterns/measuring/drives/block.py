"""Drive kind `block`: a whole disk. It is read as it is, and written only past the gate, with the user's consent."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from iopatterns.base import files, host_state, messages
from iopatterns.configuration import factors
from iopatterns.configuration.kinds import BlockEntry
from iopatterns.measuring import fio, machine
from iopatterns.measuring.drives import descriptors, restoring
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.lock import locked
from iopatterns.measuring.drives.precondition import precondition
from iopatterns.measuring.drives.prewrite_checks import PrewriteChecks
from iopatterns.measuring.tuning import disk_settings, queue_settings
from iopatterns.measuring.tuning.journal import Owner, connected_disk
from iopatterns.raw import records, tuning_steps
from iopatterns.raw.records import Settings, Specification


def _consent(root: Path, name: str) -> dict[str, Any]:
    """Return what config/drives.yaml says at this moment of writing to a drive: no measurement depends on it."""
    from iopatterns.base import yaml_schema  # which take time to load, and no other kind needs
    from iopatterns.configuration import drive_entries

    entry = yaml_schema.read_yaml(root, drive_entries.DRIVES_FILE).get(name) or {}
    return {key: entry[key] for key in ("destroy", "expendable") if key in entry}


class BlockDrive:
    """A disk, of which the first part is measured.

    Its path is resolved once, when it is held: what was opened then is what is checked, locked, tuned, measured and
    told of. While it is held, no other measurement uses it, of whatever checkout: the lock is on the device itself.
    While it is written, nothing can mount it. What is set on it is noted in the journal of the disk first.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        self.prefix: list[str] = []
        self._drive = cast(records.BlockSpecification, specification["drive"])
        self._writing = not fio.only_reads(specification["fio"])
        self._gate = PrewriteChecks(cast(BlockEntry, {**self._drive, **_consent(root, self._drive["name"])}))
        self._folder = root / "data/raw" / self._drive["name"]
        self._note = self._folder / ".preconditioned.json"
        self._owner = Owner(self._drive["name"], str(root.resolve()))
        self._held = contextlib.ExitStack()
        self._claimed = False

    @property
    def target(self) -> str:
        """The device that was checked, by the descriptor that fio inherits."""
        return descriptors.descriptor_path(self._gate.descriptor)

    def run(self, argv: list[str], expected_s: float) -> fio.FioOutcome:
        """Run fio, which inherits the descriptor of `target`. Raises FioError."""
        return fio.run_fio(argv, expected_s, [self._gate.descriptor])

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Open the device and hold its lock, waiting while another measurement has it; put settings back at the end."""
        with self._held:
            self._held.callback(self._gate.close)
            self._refuse_unless_passed(writing=False)
            self._held.enter_context(locked(self._gate.number, waiting=self._say_that_it_waits))
            found = connected_disk(self._gate.name)
            if found is None or found.device_number != self._gate.number:
                raise DriveError(f"drive '{self._drive['name']}': {self._gate.node} is gone. Is it still connected?")
            with restoring.restored_on_exit(found, self._owner) as self._journal:
                yield

    def _say_that_it_waits(self, owner: str) -> None:
        messages.say(f"drive '{self._drive['name']}' is being measured by {owner}; waiting for it")

    def guard(self) -> None:
        """Raise DriveError unless the drive may be measured with this workload; a drive to be written is claimed."""
        self._refuse_unless_passed(writing=self._writing)
        if self._writing:
            self._begin_writing()

    def _begin_writing(self) -> None:
        self._claim()
        self._gate.note_writing(done=False)
        self._held.callback(self._end_writing)

    def _end_writing(self) -> None:
        # a disk that has failed, or is gone, keeps the note that it was being written
        with contextlib.suppress(OSError, DriveError, host_state.StateError):
            self._gate.note_writing(done=True)

    def _claim(self) -> None:
        """Keep everybody else from mounting the device while it is held. Raises OSError where it is in use."""
        if not self._claimed:
            self._held.enter_context(self._gate.claimed())
            self._claimed = True

    def _refuse_unless_passed(self, *, writing: bool) -> None:
        name = f"drive '{self._drive['name']}'"
        for check in self._gate.checks(writing=writing):
            if not check.passed:
                raise DriveError(f"{name}: refused by the check of {check.name}: {check.found}. {check.remedy}")
        size_bytes = machine.disk_facts(self._gate.number)["size_bytes"] or 0
        if size_bytes < self._drive["file_size_bytes"]:
            raise DriveError(
                f"{name}: holds {size_bytes} bytes, fewer than file_size in config/config.yaml asks for."
                " Make file_size smaller."
            )

    def verify(self) -> None:
        """Raise DriveError unless the disk is still there as it was checked."""
        try:
            self._gate.verify()
        except DriveError as error:
            raise DriveError(f"drive '{self._drive['name']}': {error}") from None

    def prepare(self) -> None:
        """Fill the disk, or bring it into a steady state, where the configuration asks for it and it has not been done.

        That writes, and so passes the gate for writing first. What was done is noted beside the raw files, and told in
        the sidecars; to have it done again, delete the note. Raises DriveError or FioError.
        """
        wanted = self._drive.get("precondition")
        if wanted is None:
            return
        done = self.preconditioned()
        same = {"serial": self._drive["serial"], "size_bytes": self._drive["file_size_bytes"], **wanted}
        if done is not None and all(done.get(key) == value for key, value in same.items()):
            return
        self._note.unlink(missing_ok=True)
        if not self._writing:  # else it is past the gate, and claimed
            self._refuse_unless_passed(writing=True)
            self._begin_writing()
        size_bytes, output = self._drive["file_size_bytes"], self._folder / ".precondition.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        record = precondition(self._gate.descriptor, size_bytes, wanted["mode"], wanted["round_ms"], output)
        files.write_json(self._note, {**record, **same})

    def preconditioned(self) -> records.PreconditioningRecord | None:
        """Return what was done to the disk before it was measured, None where nothing is noted."""
        try:
            return files.decode_json(self._note.read_bytes(), records.PreconditioningRecord)
        except (OSError, ValueError, RecursionError):
            return None

    def tune(self, settings: Settings) -> list[tuning_steps.Step]:
        """Set what config/drives.yaml lets be set."""
        return [self._set(setting, settings[setting]) for setting in factors.in_setting_order(settings)]

    def _set(self, setting: str, wanted: int | str) -> tuning_steps.Step:
        if setting not in self._drive.get("tune", ()):
            reason = f"config/drives.yaml does not have {setting} under `tune` of this drive"
            return tuning_steps.not_applicable_step(setting, wanted, reason)
        if setting not in queue_settings.QUEUE_SETTINGS:
            return disk_settings.set_on_disk(self._gate.node, setting, int(wanted), self._journal.record)
        if setting == "write_cache":
            try:
                self._claim()
            except OSError as error:
                reason = f"without flushes what else uses {self._gate.node} may lose its data: {error.strerror}"
                return tuning_steps.not_applicable_step(setting, wanted, reason)
        return queue_settings.set_attribute(self._gate.name, setting, wanted, self._journal.record)

    def changed_settings(self, steps: Sequence[tuning_steps.StepRecord]) -> list[str]:
        """Return what is not as it was set; see `restoring.settings_changed_since_tuning`."""
        return restoring.settings_changed_since_tuning(self._gate.name, steps)

    def identify(self) -> records.DriveIdentity:
        """Return what the kernel says of the disk, see `machine.disk_facts`, and as ``opened`` what `PrewriteChecks.about` does."""
        identity = {
            "name": self._drive["name"],
            "kind": "block",
            "path": self._drive["path"],
            "opened": self._gate.about(),
            "file_size_bytes": self._drive["file_size_bytes"],
            "preconditioned": self.preconditioned() if "precondition" in self._drive else None,
            **machine.disk_facts(self._gate.number),
        }
        return cast(records.DriveIdentity, identity)
