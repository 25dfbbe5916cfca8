"""What a command says to the person who waits: lines on standard error, bounded, copied into a log file if wanted."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_log: TextIO | None = None
# Whether notes are for the log alone
_silent = False

# What a message has at most. A mistake that stands ten thousand times in a file is told well enough by its first lines.
_MOST_LINES = 40
_MOST_CHARACTERS = 4_000
_LONGEST_LINE = 1_000


def printable(text: object, most: int = 200) -> str:
    """Return a text of the user's as a message quotes it: control characters made visible, the middle of a long one
    left out.
    """
    full = str(text)
    shown = full if len(full) <= most else f"{full[: most - most // 4]} … {full[len(full) - most // 4 :]}"
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in shown)


def bounded(text: str) -> str:
    """Return a whole message as it is printed: its lines made `printable`, and those that are too many counted."""
    lines = text.split("\n")
    shown: list[str] = []
    room = _MOST_CHARACTERS
    for line in lines[:_MOST_LINES]:
        each = printable(line.expandtabs(), _LONGEST_LINE)
        room -= len(each) + 1
        if room < 0:
            break
        shown.append(each)
    left_out = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {left_out} more lines"] if left_out else shown)


@contextlib.contextmanager
def copied_to(path: Path | None, *, noted_there_alone: bool = False) -> Iterator[None]:
    """Copy all that is said while the context lasts into a new file at ``path``.

    With ``noted_there_alone`` what is only noted goes there and nowhere else.
    """
    global _log, _silent  # noqa: PLW0603 - a process has one standard error and one log
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    _silent = noted_there_alone
    _log = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed below, whether or not the disk is full by then
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            _log.close()
        _log, _silent = None, False


def say(text: str) -> None:
    """Print a message on standard error at once."""
    text = bounded(text)
    print(text, file=sys.stderr, flush=True)
    _copy(text)


def note(text: str) -> None:
    """Say what a run of the workflow tells in its own way: there it goes into the log alone, see `copied_to`."""
    if _silent:
        _copy(bounded(text))
    else:
        say(text)


def _copy(text: str) -> None:
    if _log is not None:
        with contextlib.suppress(OSError):  # that the disk is full is told where it matters
            print(text, file=_log, flush=True)
