"""Drive kind `twin`: a simulated drive, on which fio runs in virtual time."""

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
from iopatterns.twin.state import SETTINGS_FILE, model_file_path

# Why simulated drives lack the other settings. These texts are stored in metadata files.
_NOT_IN_MODEL = {
    "read_ahead_kb": "the model has none: its I/O passes no page cache",
    "write_cache": "the model's kernel has no view of its own: it knows what WCE is",
    "look_ahead": "twins speak SCSI, and hdparm speaks to SATA disks; their read-ahead is DRA",
}


class TwinDrive:
    """A simulated drive, measured as by ``twin run``.

    Every repetition starts from the state in the model file.

    Nothing on this machine is read or written except a state folder below ``data/raw/.twins``, which stores the
    settings of the drive. Each cell has its own, so that cells of one drive can be measured concurrently.

    fio stays loaded for all repetitions of the cell. A command line with `prefix` gives the same result.
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

        On exit, end fio and delete the state folder.

        Two jobs may measure the same cell if a cluster has lost contact to a host and has started its job elsewhere.
        """
        with lock.locked_file(self._state.with_suffix(".lock"), subject=f"{self._label}: this cell"):
            try:
                yield
            finally:
                if self._fio is not None:
                    self._fio.close()
                shutil.rmtree(self._state, ignore_errors=True)

    def guard(self) -> None:
        """Raise DriveError if the model has changed since planning, or is too small."""
        self.verify()
        require_capacity(self._label, self.model().size_bytes, self._drive["file_size_bytes"])

    @property
    def prefix(self) -> list[str]:
        """The words before ``fio`` on the command line."""
        return [*self._command, *_set(self._cell_parameters), "--"]

    def verify(self) -> None:
        """Raise DriveError if the model has changed since the run was planned.

        The model file is read only if its metadata have changed: this method is called twice for each repetition.
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
        """Reset the settings of the drive to the values in the model file."""
        shutil.rmtree(self._state, ignore_errors=True)

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set bits of the mode page with sdparm, and other settings in the model."""
        steps = []
        for setting, wanted in settings.items():
            if setting in mode_page.MODE_PAGE_BITS:
                access = mode_page.sdparm_access([*self._command, "--"], self.target, setting)
                steps.append(sg_commands.set_value(access, setting, int(wanted)))
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
        """Run fio on the drive, without starting ``twin run``.

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
        """Replay a phase of a block trace, see `ReplayingDrive.replay`."""
        from iopatterns.measuring import replays  # imports pandas

        command = ["twin", "replay", self._drive["model"], replay["trace"]]
        return command, *replays.replay_phase(self.model(), path, replay)

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message if the file of the drive's settings has changed since `tune`."""
        if self._stored_settings() == self._settings:
            return []
        names = ", ".join(f"{step['setting']} (set to {step['after']})" for step in steps)
        return [f"{self._state / SETTINGS_FILE}, which stores {names or 'all settings'}, has changed"]

    def _stored_settings(self) -> bytes | None:
        stored = self._state / SETTINGS_FILE
        return stored.read_bytes() if stored.exists() else None

    def identify(self) -> records.DriveIdentity:
        """Return the identity of the simulated drive, with the digest of its model."""
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
        """Return the model with the parameters that the drive's entry changes.

        Raises DriveError.
        """
        try:
            model = models.load_model(self._drive["model"])
            return model.overridden(self._entry_parameters) if self._entry_parameters else model
        except TwinError as error:
            raise DriveError(str(error)) from None


def _read_counters(path: Path) -> dict[str, int]:
    """Return the counters that the preload library wrote, by name.

    The result is empty if fio did nothing on the drive.
    """
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return {name: int(number) for name, number in map(str.split, lines)}


def _set(parameters: Sequence[str]) -> list[str]:
    """Return options of ``twin run`` for parameters, given as ``group.name=value``."""
    return [word for parameter in parameters for word in ("--set", parameter)]
