"""Drive kind `twin`: a simulated drive. Every execution finds it as its model says, and takes virtual time alone."""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from iopatterns.base import messages
from iopatterns.measuring import fio
from iopatterns.measuring.drives import lock
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.tuning import mode_page, sg_commands
from iopatterns.raw import cells, records, tuning_steps
from iopatterns.raw.records import Settings, Specification
from iopatterns.twin import models, running
from iopatterns.twin.error import TwinError
from iopatterns.twin.state import SETTINGS_FILE, model_file_path

# Why a twin does not have a setting that is neither a bit of its mode page nor a parameter of its host's block layer
_NOT_OF_THE_MODEL = {
    "read_ahead_kb": "the model has none: its I/O passes no page cache",
    "write_cache": "the model's kernel has no view of its own: it knows what WCE is",
    "look_ahead": "twins speak SCSI, and hdparm speaks to SATA disks; their read-ahead is DRA",
}


class TwinDrive:
    """A twin: fio runs as under ``twin run``, and nothing of this machine but a state folder is read or written.

    fio is kept loaded for all executions of the cell. The command lines that begin with ``prefix`` give the same, byte
    for byte.

    The state folder, below ``data/raw/.twins``, holds the drive's settings. Each cell has its own, made anew before and
    deleted after it, so that cells of one twin may be measured at the same time.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        self._drive = cast(records.TwinSpecification, specification["drive"])
        state = Path("data/raw/.twins") / cells.specification_digest(specification)[:16]
        self._state = root / state
        self._totals = self._state.absolute() / "totals"
        # parameters that the drive's entry sets, and those that the cell's settings do
        self._own = [f"{name}={value}" for name, value in self._drive.get("set", {}).items()]
        self._parameters: list[str] = []
        self._command = ["twin", "run", self._drive["model"], "--state", str(state), *_set(self._own)]
        self.target = "{drive}"
        self._settings: bytes | None = None
        self._environment: dict[str, str] | None = None
        self._fio: fio.FioForkServer | None = None
        self._verified: tuple[int, ...] = ()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the cell's lock; waits while another job has it. Ends fio and deletes the state folder at the end.

        Others may measure other cells of the twin meanwhile. Two jobs have one cell where a cluster has lost sight of a
        host, whose job goes on, and has begun that job elsewhere.
        """
        with lock.locked_file(self._state.with_suffix(".lock"), waiting=self._say_that_it_waits):
            try:
                yield
            finally:
                if self._fio is not None:
                    self._fio.close()
                shutil.rmtree(self._state, ignore_errors=True)

    def _say_that_it_waits(self, owner: str) -> None:
        messages.say(f"{self._name}: this cell is being measured by {owner}; waiting for it")

    def guard(self) -> None:
        """Raise DriveError when the model is no longer the one that the cell was planned for, or too small."""
        self.verify()
        model = self.model()
        if model.size_bytes < self._drive["file_size_bytes"]:
            raise DriveError(
                f"{self._name}: holds {model.size_bytes} bytes, fewer than file_size in config/config.yaml asks for."
                " Make file_size smaller."
            )

    @property
    def prefix(self) -> list[str]:
        """The words before fio's own."""
        return [*self._command, *_set(self._parameters), "--"]

    @property
    def _name(self) -> str:
        return f"drive '{self._drive['name']}' (twin {self._drive['model']})"

    def verify(self) -> None:
        """Raise DriveError when the model is no longer the one that the cell was planned for.

        Its file is read only when it has changed: this is done before and after each execution.
        """
        try:
            state = os.stat(model_file_path(self._drive["model"]))
        except (OSError, TwinError) as error:
            raise DriveError(f"{self._name}: {error}") from None
        seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if seen != self._verified and self.model().digest != self._drive["model_digest"]:
            raise DriveError(f"{self._name}: its model file has changed since the run was planned. Run again.")
        self._verified = seen

    def prepare(self) -> None:
        """Make the drive as it left the factory."""
        shutil.rmtree(self._state, ignore_errors=True)

    def tune(self, settings: Settings) -> list[tuning_steps.Step]:
        """Set bits of the mode page through sdparm, and have fio run with the other settings that the model has."""
        steps = []
        for setting, wanted in settings.items():
            if setting in mode_page.MODE_PAGE_BITS:
                access = mode_page.sdparm_access([*self._command, "--"], self.target, setting)
                steps.append(sg_commands.set_value(access, setting, int(wanted)))
            elif (name := f"host.{setting}") in models.declared_parameters():
                before = self.model().values[name]
                outcome = tuning_steps.ALREADY if str(wanted) == str(before) else tuning_steps.CHANGED
                self._parameters.append(f"{name}={wanted}")
                found = before if isinstance(before, int) else str(before)
                steps.append(
                    tuning_steps.Step(setting, wanted, found, wanted, True, outcome, "a parameter of the model")
                )
            else:
                steps.append(tuning_steps.not_applicable_step(setting, wanted, _NOT_OF_THE_MODEL[setting]))
        self._settings = self._stored()
        return steps

    def run(self, argv: list[str], expected_s: float) -> fio.FioOutcome:
        """Run fio on the twin, without ``twin run`` between. Raises FioError, for what cannot be served too."""
        try:
            if self._environment is None:
                state = str(self._state)
                self._environment = running.prepare_environment(
                    self._drive["model"], state, settings=[*self._own, *self._parameters]
                )
            words = running.command_on_drive(argv[len(self.prefix) :], self._environment)
        except TwinError as error:
            raise fio.FioError(f"{self._name}: {error}\n  Command: {' '.join(argv)}") from None
        if self._fio is None:
            self._fio = fio.FioForkServer({**self._environment, "TWIN_TOTALS": str(self._totals)})
        self._totals.unlink(missing_ok=True)
        outcome = self._fio.run(words, expected_s, argv)
        return dataclasses.replace(outcome, counters=_read_totals(self._totals))

    def replay(self, path: Path, asked: records.Replay) -> tuple[list[str], dict[str, Any], dict[str, int]]:
        """Replay a phase of a trace on a new drive of the model, see `replays.replay_phase`; the command comes first."""
        from iopatterns.measuring import replays  # pandas with it

        return ["twin", "replay", self._drive["model"], asked["trace"]], *replays.replay_phase(
            self.model(), path, asked
        )

    def changed_settings(self, steps: Sequence[tuning_steps.StepRecord]) -> list[str]:
        """Return the file of the twin's settings where it is not as `tune` left it."""
        if self._stored() == self._settings:
            return []
        names = ", ".join(f"{step['setting']} (set to {step['after']})" for step in steps)
        return [f"{self._state / SETTINGS_FILE}, which holds {names or 'all settings'}, has changed"]

    def _stored(self) -> bytes | None:
        try:
            return (self._state / SETTINGS_FILE).read_bytes()
        except FileNotFoundError:
            return None

    def identify(self) -> records.DriveIdentity:
        """Return name, kind, model file, and what the drive says it is: model, serial, size_bytes, rotational."""
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
        """Return the drive's model, with what its entry sets. Raises DriveError."""
        try:
            model = models.load_model(self._drive["model"])
            return model.overridden(self._own) if self._own else model
        except TwinError as error:
            raise DriveError(str(error)) from None


def _read_totals(path: Path) -> dict[str, int]:
    """Return a drive's counters at the end of an execution, by name, as the preload library wrote them.

    None where fio did nothing on the drive, of which `fio.check_result` tells.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return {}
    return {name: int(number) for name, number in (line.split() for line in lines)}


def _set(parameters: Sequence[str]) -> list[str]:
    """Return the options of ``twin run`` that set parameters given as ``group.name=value``."""
    return [word for parameter in parameters for word in ("--set", parameter)]
