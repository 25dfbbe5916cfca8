"""Drive kind `twin`: a simulated drive. Every execution finds it as its model says, and takes virtual time alone."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.tuning import mode_page
from iopatterns.raw import cells, records, tuning_steps
from iopatterns.raw.records import Settings, Specification
from iopatterns.twin import models
from iopatterns.twin.error import TwinError
from iopatterns.twin.state import SETTINGS, find_model

# Settings of the kernel's queue that the model's own block layer has
_OF_THE_MODEL = frozenset({"scheduler", "nr_requests"})
_NOT_OF_THE_MODEL = {
    "read_ahead_kb": "the model has none: its I/O passes no page cache",
    "write_cache": "the model's kernel has no view of its own: it knows what WCE is",
    "look_ahead": "twins speak SCSI, and hdparm speaks to SATA disks; their read-ahead is DRA",
}


class TwinDrive:
    """A twin: fio runs under ``twin run``, and nothing of this machine but a state folder is read or written.

    The state folder, below ``data/raw/.twins``, holds the drive's settings. Each cell has its own, made anew before and
    deleted after it, so that cells of one twin may be measured at the same time.
    """

    def __init__(self, root: Path, specification: Specification) -> None:
        self._root = root
        self._drive = cast(records.Twin, specification["drive"])
        state = Path("data/raw/.twins") / cells.digest(specification)[:16]
        self._state = root / state
        self._command = ["twin", "run", self._drive["model"], "--state", str(state)]
        self.prefix = [*self._command, "--"]
        self.target = "{drive}"
        self._settings: bytes | None = None
        self.descriptors: tuple[int, ...] = ()
        self._verified: tuple[int, ...] = ()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Delete the state folder when the context ends; there is nothing to keep others off."""
        try:
            yield
        finally:
            shutil.rmtree(self._state, ignore_errors=True)

    def guard(self) -> None:
        """Raise DriveError when the model is no longer the one that the cell was planned for, or too small."""
        self.verify()
        model = self._model()
        if model.size_bytes < self._drive["file_size_bytes"]:
            raise DriveError(
                f"{self._name}: holds {model.size_bytes} bytes, fewer than file_size in config/config.yaml asks for."
                " Make file_size smaller."
            )

    @property
    def _name(self) -> str:
        return f"drive '{self._drive['name']}' (twin {self._drive['model']})"

    def verify(self) -> None:
        """Raise DriveError when the model is no longer the one that the cell was planned for.

        Its file is read only when it has changed: this is done before and after each execution.
        """
        try:
            state = os.stat(find_model(self._drive["model"]))
        except (OSError, TwinError) as error:
            raise DriveError(f"{self._name}: {error}") from None
        seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if seen != self._verified and self._model().digest != self._drive["model_digest"]:
            raise DriveError(f"{self._name}: its model file has changed since the run was planned. Run again.")
        self._verified = seen

    def prepare(self) -> None:
        """Make the drive as it left the factory."""
        shutil.rmtree(self._state, ignore_errors=True)

    def tune(self, settings: Settings) -> list[tuning_steps.Step]:
        """Set mode page bits through sdparm, and have fio run under the scheduler asked for, one of the model's own."""
        steps = []
        for setting, wanted in settings.items():
            if setting in _OF_THE_MODEL:
                name = f"host.{setting}"
                before = self._model().values[name]
                outcome = tuning_steps.ALREADY if str(wanted) == str(before) else tuning_steps.CHANGED
                self.prefix = [*self.prefix[:-1], "--set", f"{name}={wanted}", "--"]
                found = before if isinstance(before, int) else str(before)
                steps.append(
                    tuning_steps.Step(setting, wanted, found, wanted, True, outcome, "a parameter of the model")
                )
            elif setting not in mode_page.BITS:
                steps.append(tuning_steps.not_applicable(setting, wanted, _NOT_OF_THE_MODEL[setting]))
            else:
                steps.append(mode_page.set_bit([*self._command, "--"], self.target, setting, int(wanted)))
        self._settings = self._stored()
        return steps

    def changed_settings(self, steps: Sequence[tuning_steps.Record]) -> list[str]:
        """Return the file of the twin's settings where it is not as `tune` left it."""
        if self._stored() == self._settings:
            return []
        names = ", ".join(f"{step['setting']} (set to {step['after']})" for step in steps)
        return [f"{self._state / SETTINGS}, which holds {names or 'all settings'}, has changed"]

    def _stored(self) -> bytes | None:
        try:
            return (self._state / SETTINGS).read_bytes()
        except FileNotFoundError:
            return None

    def identify(self) -> dict[str, Any]:
        """Return name, kind, model file, and what the drive says it is: model, serial, size_bytes, rotational."""
        model = self._model()
        return {
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
            "scheduler": model.values["host.scheduler"],
            "file_size_bytes": self._drive["file_size_bytes"],
        }

    def _model(self) -> models.Model:
        try:
            return models.load(self._drive["model"])
        except TwinError as error:
            raise DriveError(str(error)) from None
