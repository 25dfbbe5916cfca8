"""Messages of commands, on standard error and in a log file.

Messages are records of the logger ``iopatterns`` of Python's logging. The function `say` is for messages to the user.
The function `note` is for messages that only a log file needs. Long messages are shortened.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

# Limits of a message. The first lines are sufficient for a mistake that occurs ten thousand times in a file.
_MOST_LINES = 40
_MOST_CHARACTERS = 4_000
_LONGEST_LINE = 1_000


def printable(text: object, most: int = 200) -> str:
    """Return user text in a form that is safe to print in messages.

    Control characters, such as line breaks, are escaped.

    Args:
        text: The text, or any object with a text form.
        most: If the text has more characters than this, its middle is replaced by an ellipsis.
    """
    full = str(text)
    shown = full if len(full) <= most else f"{full[: most - most // 4]} … {full[len(full) - most // 4 :]}"
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)


def bounded(text: str) -> str:
    """Return the first 40 lines of a message, or about 4,000 characters of them.

    If lines are left out, a last line gives their number. A line of more than 1,000 characters loses its middle.
    Control characters are escaped.
    """
    lines = text.split("\n")
    shown = [printable(line.expandtabs(), _LONGEST_LINE) for line in lines[:_MOST_LINES]]
    while sum(len(each) + 1 for each in shown) > _MOST_CHARACTERS:
        shown.pop()
    left_out = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {left_out} more lines"] if left_out else shown)


class _Terminal(logging.Handler):
    """A logging handler that prints messages on standard error.

    It uses the `sys.stderr` at the time of the message.
    """

    def emit(self, record: logging.LogRecord) -> None:
        # another process may show a progress bar on the line of the cursor
        erase_line = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(erase_line + bounded(record.getMessage()), file=sys.stderr, flush=True)


class _LogFile(logging.FileHandler):
    """A logging handler that writes messages to a file.

    Errors of writing, such as a full disk, are ignored, because the measurement reports them itself.
    """

    def format(self, record: logging.LogRecord) -> str:
        return bounded(record.getMessage())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in logging
        pass


_TERMINAL = _Terminal()
_LOGGER = logging.getLogger("iopatterns")
_LOGGER.addHandler(_TERMINAL)
_LOGGER.setLevel(logging.DEBUG)
_LOGGER.propagate = False

say = _LOGGER.info  # for the user
note = _LOGGER.debug  # for the log file only, with `notes_to_log_only` of `copied_to`


@contextlib.contextmanager
def copied_to(path: Path | None, *, notes_to_log_only: bool = False) -> Iterator[None]:
    """Copy all messages into a log file, for as long as this context lasts.

    The function returns a context manager.

    Args:
        path: The log file, which is overwritten; missing parent folders are created. None for no copy.
        notes_to_log_only: Whether messages of `note` go to the log file only. Otherwise, or if `path` is None, they are
            printed on standard error, too.

    Raises:
        OSError: The log file cannot be opened. Later errors of writing are ignored.
    """
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
