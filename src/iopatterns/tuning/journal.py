"""The journal: what was set before anything was changed, on the disk first, so that it can be put back."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from iopatterns import files, messages
from iopatterns.errors import IoPatternsError


class RestoreError(IoPatternsError):
    """A setting could not be put back; the message names it, and says how to do it by hand."""


class Journal:
    """Files of the kernel with the values that they had, in a folder of one drive; empty where nothing is changed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "journal.json"

    def record(self, file: Path, value: str) -> None:
        """Note a value before it is changed; the note is on the disk when this returns. The first value counts."""
        entries = self._entries()
        if str(file) not in entries:
            files.write_json(self._file, {**entries, str(file): value})

    def restore(self) -> list[str]:
        """Put back all that is noted, in reverse order, and return it. Raises RestoreError; the note stays then."""
        entries = self._entries()
        for name, value in reversed(entries.items()):
            try:
                Path(name).write_text(value, encoding="ascii")
            except OSError as error:
                raise RestoreError(
                    f"{name}: could not be set back to '{value}': {error.strerror}. As root:"
                    f" echo {value} > {name}, then delete {self._file}."
                ) from None
        self._file.unlink(missing_ok=True)
        return [f"{name}: {value}" for name, value in entries.items()]

    @contextlib.contextmanager
    def kept(self) -> Iterator["Journal"]:
        """Put back what an earlier run left changed, and when the context ends, however it does, what this one did."""
        for line in self.restore():
            messages.say(f"put back what an interrupted run had changed: {line}")
        try:
            yield self
        finally:
            self.restore()

    def _entries(self) -> dict[str, str]:
        try:
            entries: dict[str, str] = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RestoreError(f"{self._file}: not readable ({error}). It says what to put back by hand.") from None
        return entries
