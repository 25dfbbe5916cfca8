"""The journal: what was set before anything was changed, on the disk first, so that it can be put back."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iopatterns import files, machine, messages, signals
from iopatterns.errors import IoPatternsError
from iopatterns.tuning import disk, queue

_NAME = "journal.json"


class RestoreError(IoPatternsError):
    """A setting could not be put back; the message names it, and says how to do it by hand."""


def is_noted(root: Path, drive: str) -> bool:
    """Return whether a run has left settings of a drive changed."""
    return (root / "data/raw" / drive / ".restore" / _NAME).exists()


class Journal:
    """The settings of one disk as they were, in a folder of one drive; empty where nothing is changed.

    A setting is a file of the kernel, or a bit that the disk keeps itself. ``device`` is the disk's node: after a
    restart another disk may have its name, so that the serial number goes with each note and is looked at before
    anything is set.
    """

    def __init__(self, folder: Path, device: Path | None = None) -> None:
        self._file = folder / _NAME
        self._device = device

    def record_file(self, file: Path, value: str) -> None:
        """Note the value of a file of the kernel before it is changed; the note is on the disk when this returns."""
        self._record({"file": str(file), "value": value})

    def record_bit(self, setting: str, value: int) -> None:
        """Note a setting that the disk keeps itself, likewise."""
        self._record({"bit": setting, "value": value})

    def _record(self, entry: dict[str, Any]) -> None:
        entries = self._entries()
        names = [{key: known.get(key) for key in ("file", "bit")} for known in entries]
        if {key: entry.get(key) for key in ("file", "bit")} in names:
            return  # the first value counts: what the user had set
        if self._device is not None:
            entry |= {"device": str(self._device), "serial": machine.disk(self._device)["serial"]}
        files.write_json(self._file, [*entries, entry])

    def restore(self) -> list[str]:
        """Put back all that is noted, in the order in which it was set, and return it.

        In that order since a scheduler brings values of its own, and WCE the kernel's view, which are put right after
        them. A signal to stop waits until all is back. Raises RestoreError; the note stays then.
        """
        with signals.held_back():
            return self._restore()

    def _restore(self) -> list[str]:
        entries = self._entries()
        others = [entry for entry in entries if _is_another_disk(entry)]
        if others:
            told = ", ".join(f"{_told(entry)} (it was {entry['value']})" for entry in others)
            raise RestoreError(
                f"{self._file}: {others[0]['device']} is no longer the disk with the serial {others[0]['serial']!r}, of"
                f" which was changed: {told}. If that disk has been without power since, its settings are back;"
                f" otherwise put them back by hand. Then delete {self._file}."
            )
        # what can be put back is, whatever else cannot
        problems = [problem for entry in entries if (problem := _put_back(entry, self._file))]
        if problems:
            raise RestoreError("\n".join(problems))
        self._file.unlink(missing_ok=True)
        return [f"{_told(entry)}: {entry['value']}" for entry in entries]

    @contextlib.contextmanager
    def kept(self) -> Iterator["Journal"]:
        """Put back what an earlier run left changed, and when the context ends, however it does, what this one did."""
        for line in self.restore():
            messages.say(f"put back what an interrupted run had changed: {line}")
        try:
            yield self
        finally:
            self.restore()

    def _entries(self) -> list[dict[str, Any]]:
        try:
            entries: list[dict[str, Any]] = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise RestoreError(f"{self._file}: not readable ({error}). It says what to put back by hand.") from None
        return entries


def _told(entry: dict[str, Any]) -> str:
    return str(entry["file"]) if "file" in entry else f"{entry['bit']} of {entry['device']}"


def _is_another_disk(entry: dict[str, Any]) -> bool:
    if "device" not in entry:
        return False
    try:
        return bool(machine.disk(Path(entry["device"]))["serial"] != entry["serial"])
    except OSError:
        return True


def _put_back(entry: dict[str, Any], noted: Path) -> str:
    """Set what is noted, unless it is so: a disk that refused a value refuses to have it put back too.

    Returns what is in the way and what to do by hand, nothing where it is put back.
    """
    if "file" in entry:
        by_hand = f"echo {entry['value']} > {entry['file']}"
        problem = _write(Path(entry["file"]), entry["value"])
    else:
        device = Path(entry["device"])
        by_hand = disk.by_hand(device, entry["bit"], entry["value"])
        step = disk.set_on_disk(device, entry["bit"], entry["value"])
        problem = "" if step.taken else step.reason
    if not problem:
        return ""
    return (
        f"{_told(entry)} could not be set back to {entry['value']}: {problem}. As root: {by_hand}, then delete {noted}."
    )


def _write(file: Path, value: str) -> str:
    """Make a file of the kernel say a value; return what is in the way, nothing where it says so."""
    if str(queue.present(file)) == value:
        return ""
    try:
        file.write_text(value, encoding="ascii")
    except OSError as error:
        return error.strerror or str(error)
    return ""
