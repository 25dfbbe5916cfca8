"""Drive kind `twin`: a simulated drive, on which fio runs in virtual time.

Virtual time is the time of the simulation. It does not depend on the speed of this machine.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from iopatterns.measuring import fio
from iopatterns.measuring.drives import lock
from iopatterns.measuring.drives.error import DriveError, require_capacity
from iopatterns.measuring.tuning import mode_page, sg_commands
from iopatterns.raw import cells, records
from iopatterns.raw.records import Settings, Specification
from iopatterns.raw.tuning_steps import ALREADY, CHANGED, NOT_APPLICABLE, TuningStep, tuning_step
from iopatterns.twin import models, running
from iopatterns.twin.error import TwinError
from iopatterns.twin.state import ERROR_PREFIX, SETTINGS_FILE, model_file_path

# Why simulated drives lack the other settings. These texts are stored in metadata files.
_NOT_IN_MODEL = {
    "read_ahead_kb": "the model has none: its I/O passes no page cache",
    "write_cache": "the model's kernel has no view of its own: it knows what WCE is",
    "look_ahead": "twins speak SCSI, and hdparm speaks to SATA disks; their read-ahead is DRA",
}


class TwinDrive:
    """A simulated drive (kind ``twin``), on which fio runs in virtual time.

    Every repetition starts from the state in the model file, which describes the drive. The results are the same as
    with the command ``twin run``, which metadata files record for users.

    Besides the raw files, measuring writes only below ``data/raw/.twins``. Each cell (a drive, its settings and a
    workload) has a state folder there, which stores the settings of the drive. Several cells of one drive can therefore
    be measured at once.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        self._drive = cast(records.TwinSpecification, specification["drive"])
        self._label = f"drive '{self._drive['name']}' (twin {self._drive['model']})"
        state = Path("data/raw/.twins") / cells.specification_digest(specification)[:16]
        self._state = root / state
        self._totals = self._state.absolute() / "totals"
        self._entry_parameters = [f"{name}={value}" for name, value in self._drive.get("set", {}).items()]
        self._cell_parameters: list[str] = []
        self._command = ["twin", "run", self._drive["model"], "--state", str(state), *_set(self._entry_parameters)]
        self.target = "{drive}"
        self._settings: bytes | None = None
        self._environment: dict[str, str] | None = None
        self._fio: fio.FioForkServer | None = None
        self._verified: tuple[int, ...] = ()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock of the cell while the context lasts.

        If another process holds the lock, a message is printed, and the lock is waited for. The lock protects against a
        job that a cluster starts twice, after it has lost contact to the first host.

        On exit, the fio process is ended, and the state folder with the settings of the drive is deleted.

        Raises:
            OSError: The lock file cannot be created, or its file system has no locks.
        """
        with lock.locked_file(self._state.with_suffix(".lock"), subject=f"{self._label}: this cell"):
            try:
                yield
            finally:
                if self._fio is not None:
                    self._fio.close()
                shutil.rmtree(self._state, ignore_errors=True)

    def guard(self) -> None:
        """Raise DriveError unless the simulated drive may be measured.

        The model file must be unchanged since the run was planned. The drive must have at least as many bytes as are to
        be measured. If the initial state has written only the start of the drive, that part must have as many: to read
        the rest needs no flash.
        """
        self.verify()
        model, needed_bytes = self.model(), self._drive["file_size_bytes"]
        require_capacity(self._label, model.size_bytes, needed_bytes)
        extent_bytes = int(model.values.get("ftl.initial_extent", 0))
        if model.values.get("ftl.initial_state") != "fresh" and 0 < extent_bytes < needed_bytes:
            raise DriveError(
                f"{self._label}: its initial state has written {extent_bytes} bytes (ftl.initial_extent), fewer than"
                f" the {needed_bytes} of file_size. Make file_size smaller, or set ftl.initial_extent to 0 (all of the"
                " drive) or a larger size."
            )

    def doubts(self) -> list[str]:
        """Return an empty list, because a simulated drive gives no cause for doubt.

        Nothing on this machine changes the results of a simulated drive.
        """
        return []

    @property
    def prefix(self) -> list[str]:
        """The words before ``fio`` on the command line: ``twin run`` with its options.

        An example is ``["twin", "run", "hard-disk", "--state", "data/raw/.twins/1a2b…", "--"]``.
        """
        return [*self._command, *_set(self._cell_parameters), "--"]

    def verify(self) -> None:
        """Raise DriveError if the model has changed since the run was planned.

        A missing model file raises the error, too. To be fast, the file is read again only if its inode, size or times
        have changed.
        """
        try:
            state = os.stat(model_file_path(self._drive["model"]))
        except (OSError, TwinError) as error:
            raise DriveError(f"{self._label}: {error}") from None
        seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if seen != self._verified and self.model().digest != self._drive["model_digest"]:
            raise DriveError(f"{self._label}: its model file has changed since the run was planned. Run again.")
        self._verified = seen

    def prepare(self) -> None:
        """Reset the settings of the drive to the values in its model file."""
        shutil.rmtree(self._state, ignore_errors=True)

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set the drive settings of a cell.

        Bits of the SCSI caching mode page, such as ``WCE``, are set with sdparm, as on a real drive. Settings of the
        kernel, such as the I/O scheduler, are parameters of the model.

        Args:
            settings: The wanted values, by name of the setting, such as ``{"scheduler": "deadline", "WCE": 1}``.

        Returns:
            For each setting, in the given order: the values before and after, and whether the wanted value is in
            effect. A setting that simulated drives lack has the outcome ``not applicable``.

        Raises:
            DriveError: The model is not valid, or the simulation failed, such as on a full file system. The drive
                itself has refused nothing.
        """
        steps = []
        for setting, wanted in settings.items():
            if setting in mode_page.MODE_PAGE_BITS:
                access = mode_page.sdparm_access([*self._command, "--"], self.target, setting)
                step = sg_commands.set_value(access, setting, int(wanted))
                for failure in (each["stderr"] for each in step["exchange"] if ERROR_PREFIX in each["stderr"]):
                    raise DriveError(f"{self._label}: {setting} could not be set: {failure}. Run again.")
                steps.append(step)
            elif (name := f"host.{setting}") in models.declared_parameters():
                value = self.model().values[name]
                before = value if isinstance(value, int) else str(value)
                outcome = ALREADY if str(wanted) == str(before) else CHANGED
                self._cell_parameters.append(f"{name}={wanted}")
                reason = "a parameter of the model"
                step = tuning_step(setting, wanted, outcome, reason, before=before, after=wanted, changeable=True)
                steps.append(step)
            else:
                steps.append(tuning_step(setting, wanted, NOT_APPLICABLE, _NOT_IN_MODEL[setting]))
        self._settings = self._stored_settings()
        return steps

    def run(self, argv: list[str], expected_s: float) -> fio.FioOutcome:
        """Run fio on the simulated drive, with the same result as ``twin run``.

        The program ``twin run`` itself is not started, because loading fio once for all repetitions is faster.

        Args:
            argv: The words of the command line. They begin with `prefix`.
            expected_s: The expected duration in seconds. fio that takes far longer is killed.

        Returns:
            When fio started and ended, and the drive's counters by name.

        Raises:
            FioError: fio failed, or uses something that simulated drives do not support.
        """
        try:
            if self._environment is None:
                state, parameters = str(self._state), [*self._entry_parameters, *self._cell_parameters]
                self._environment = running.prepare_environment(self._drive["model"], state, settings=parameters)
            words = running.command_on_drive(argv[len(self.prefix) :], self._environment)
        except TwinError as error:
            raise fio.FioError(f"{self._label}: {error}\n  Command: {' '.join(argv)}") from None
        if self._fio is None:
            self._fio = fio.FioForkServer({**self._environment, "TWIN_TOTALS": str(self._totals)})
        self._totals.unlink(missing_ok=True)
        outcome = self._fio.run(words, expected_s, argv)
        return dataclasses.replace(outcome, counters=_read_counters(self._totals))

    def replay(self, path: Path, replay: records.Replay) -> tuple[list[str], dict[str, Any], dict[str, int]]:
        """Replay a phase of a block trace on a fresh simulated drive.

        A block trace lists requests to a drive with their times. A phase is a named part of a trace.

        Args:
            path: The path of the trace, a Parquet file.
            replay: The key ``replay`` of the cell's specification: the name of the phase, and the options of the
                replay.

        Returns:
            Three values:

            - the words of the command line ``twin replay`` by which a user replays the trace
            - the content of the raw file: a summary of the replay
            - the counters of the simulated drive, by name

        Raises:
            DriveError: The model is not valid.
            ReplayError: The trace has changed since the run was planned, or lacks the phase.
            TwinError: The trace is not valid.
        """
        from iopatterns.measuring import replays  # imports pandas

        command = ["twin", "replay", self._drive["model"], replay["trace"]]
        return command, *replays.replay_phase(self.model(), path, replay)

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message if the drive's settings have changed since `tune`.

        The settings are in a file of the cell's state folder. If this file is unchanged, the list is empty. Otherwise,
        the list has one message for all settings.

        Args:
            steps: The steps that `tune` returned.
        """
        if self._stored_settings() == self._settings:
            return []
        names = ", ".join(f"{step['setting']} (set to {step['after']})" for step in steps)
        return [f"{self._state / SETTINGS_FILE}, which stores {names or 'all settings'}, has changed"]

    def _stored_settings(self) -> bytes | None:
        stored = self._state / SETTINGS_FILE
        return stored.read_bytes() if stored.exists() else None

    def identify(self) -> records.DriveIdentity:
        """Return what metadata files store about the drive.

        A metadata file says how the result of a repetition was made. The content of the returned dictionary
        (`records.DriveIdentity`) is:

        - the name of the drive in the configuration, and how much of it is measured
        - the name and the digest of its model file
        - the parameters of the model that the configuration changes, if any
        - the properties that the model declares, such as serial number and size

        Raises:
            DriveError: The model is not valid.
        """
        model = self.model()
        identity: records.DriveIdentity = {
            "name": self._drive["name"],
            "kind": "twin",
            "twin": self._drive["model"],
            "model_digest": model.digest,
            "model": f"{model.identity['vendor']} {model.identity['product']}".strip(),
            "serial": model.identity["serial"],
            "firmware": model.identity["revision"],
            "size_bytes": model.size_bytes,
            "rotational": model.identity["rotation_rpm"] > 1,
            "logical_block_bytes": 512,
            "scheduler": str(model.values["host.scheduler"]),
            "file_size_bytes": self._drive["file_size_bytes"],
        }
        if "set" in self._drive:
            identity["set"] = self._drive["set"]
        return identity

    def model(self) -> models.Model:
        """Return the drive's model with the parameters that the configuration changes.

        A model describes a simulated drive by named parameters. Settings that `tune` changed are not included.

        Raises:
            DriveError: The model or a parameter is not valid.
        """
        try:
            model = models.load_model(self._drive["model"])
            return model.overridden(self._entry_parameters) if self._entry_parameters else model
        except TwinError as error:
            raise DriveError(str(error)) from None


def _read_counters(path: Path) -> dict[str, int]:
    """Return the counters of the simulated drive after a repetition, by name.

    Args:
        path: The file in which the library that is loaded into fio wrote them. It is missing if fio did no I/O on the
            drive; the result is empty then.
    """
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return {name: int(number) for name, number in map(str.split, lines)}


def _set(parameters: Sequence[str]) -> list[str]:
    """Return ``--set`` options of ``twin run`` for parameters of the model.

    Args:
        parameters: Parameters in the form ``group.name=value``.
    """
    return [word for parameter in parameters for word in ("--set", parameter)]
