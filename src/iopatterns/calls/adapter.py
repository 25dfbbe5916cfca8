"""Read traces in other formats with a class of the user.

The traces of Sandia National Laboratories have such a format. docs/application-traces.md has a complete example.
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
    """Base class of readers for other formats: derive from it, and implement `events`.

    Each file is read by an object of its own.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, line: str) -> Iterable[Event]:
        """Return the successful calls in a line, usually one or none.

        Offsets may be missing: they follow from the descriptors, see `Event`. Times are in nanoseconds since any
        moment, which must be the same for all files. In a file they must not decrease.

        Raises:
            ValueError: The line is faulty. The message states the problem.
        """
        raise NotImplementedError


def load_adapter(name: str) -> type[Adapter]:
    """Import an adapter class and return it.

    Args:
        name: File and class, as ``FILE.py:CLASS``.

    Raises:
        CallsError: The file cannot be imported, or does not contain the class.
    """
    path, colon, class_name = name.rpartition(":")
    if not (colon and path.endswith(".py") and class_name):
        raise CallsError(f"'{printable(name)}' is not an adapter. Give it as FILE.py:CLASS.")
    if not Path(path).is_file():
        raise CallsError(f"{printable(path)}: no such file. Give the adapter as FILE.py:CLASS.")
    spec = importlib.util.spec_from_file_location("iopatterns_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's module may raise anything
        raise CallsError(
            f"{printable(path)}: cannot be imported: {type(error).__name__}: {printable(error)}"
        ) from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, Adapter)):
        raise CallsError(f"{printable(path)}: no class '{printable(class_name)}' that derives from Adapter")
    return found


def read_with_adapter(sources: Sequence[CallTraceFile], adapter: type[Adapter]) -> Iterator[Event]:
    """Yield the events of several files in order of time.

    A separate object of the class reads each file.
    """
    events = (source.parsed(source.lines(), adapter(source.path).events) for source in sources)
    return heapq.merge(*events, key=lambda event: event.time_ns)
