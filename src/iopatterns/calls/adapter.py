"""Traces of a form that is not known here, such as those of Sandia National Laboratories, by a class of the user's.

docs/application-traces.md has an example from begin to end.
"""

import heapq
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from iopatterns.base.input_file import printable
from iopatterns.calls.form import CallsError, CallTraceFile
from iopatterns.calls.positions import Event

__all__ = ["Adapter", "Event", "load_adapter", "read_with_adapter"]


class Adapter:
    """How the lines of a trace are read; derive from it, and write `events`. One object reads one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, line: str) -> Iterable[Event]:
        """Return the calls that a line tells of, most often one or none. Raises ValueError with what is wrong.

        Only calls that succeeded are told. Offsets need not be: they follow from the descriptors, see `Event`.
        Times are nanoseconds from any moment on, the same for all files; in a file they do not go back.
        """
        raise NotImplementedError


def load_adapter(name: str) -> type[Adapter]:
    """Return the class that ``FILE.py:CLASS`` names. Raises CallsError where there is none."""
    path, colon, class_name = name.rpartition(":")
    if not (colon and path.endswith(".py") and class_name):
        raise CallsError(f"'{printable(name)}' names no adapter. Give it as FILE.py:CLASS.")
    if not Path(path).is_file():
        raise CallsError(f"{printable(path)}: there is no such file. Give the adapter as FILE.py:CLASS.")
    spec = importlib.util.spec_from_file_location("iopatterns_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's module may raise
        raise CallsError(
            f"{printable(path)}: cannot be imported: {type(error).__name__}: {printable(error)}"
        ) from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise CallsError(f"{printable(path)}: has no class '{printable(class_name)}' that derives from Adapter")
    return found


def read_with_adapter(sources: Sequence[CallTraceFile], adapter: type[Adapter]) -> Iterator[Event]:
    """Yield the events of the files by their times, each file read with an object of the class."""
    events = (source.parsed(source.lines(), adapter(source.path).events) for source in sources)
    return heapq.merge(*events, key=lambda event: event.time_ns)
