"""Messages of commands: Python's logger `iopatterns`, with bounded lines on standard error and in a log file."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

# Limits of a message. The first lines suffice for a mistake that a file has ten thousand times.
_MOST_LINES = 40
_MOST_CHARACTERS = 4_000
_LONGEST_LINE = 1_000


def printable(text: object, most: int = 200) -> str:
    """Return a user's text for a message: control characters escaped, the middle of a long text left out."""
    full = str(text)
    shown = full if len(full) <= most else f"{full[: most - most // 4]} … {full[len(full) - most // 4 :]}"
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)


def bounded(text: str) -> str:
    """Return a message for print: each line `printable`, and the number of lines left out if there are too many."""
    lines = text.split("\n")
    shown = [printable(line.expandtabs(), _LONGEST_LINE) for line in lines[:_MOST_LINES]]
    while sum(len(each) + 1 for each in shown) > _MOST_CHARACTERS:
        shown.pop()
    left_out = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {left_out} more lines"] if left_out else shown)


class _Terminal(logging.Handler):
    """Prints on the standard error that the process has at the time of a message."""

    def emit(self, record: logging.LogRecord) -> None:
        print(bounded(record.getMessage()), file=sys.stderr, flush=True)


class _LogFile(logging.FileHandler):
    """Writes a log file. A full disk is no error here: what is measured reports it."""

    def format(self, record: logging.LogRecord) -> str:
        return bounded(record.getMessage())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in logging
        pass


_TERMINAL = _Terminal()
_LOGGER = logging.getLogger("iopatterns")
_LOGGER.addHandler(_TERMINAL)
_LOGGER.setLevel(logging.DEBUG)
_LOGGER.propagate = False

say = _LOGGER.info  # for the person who waits
note = _LOGGER.debug  # for the log file alone, if `copied_to` says so


@contextlib.contextmanager
def copied_to(path: Path | None, *, notes_to_log_only: bool = False) -> Iterator[None]:
    """Copy all messages into a new file at `path`, and no note to the terminal with `notes_to_log_only`."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    log = _LogFile(path, "w", encoding="utf-8")
    _LOGGER.addHandler(log)
    _TERMINAL.setLevel(logging.INFO if notes_to_log_only else logging.NOTSET)
    try:
        yield
    finally:
        _TERMINAL.setLevel(logging.NOTSET)
        _LOGGER.removeHandler(log)
        with contextlib.suppress(OSError):
            log.close()
