"""Read traces of system calls in other formats, with a class of the user.

The traces of Sandia National Laboratories have such a format. docs/application-traces.md has a complete example.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from iopatterns.base.user_class import load_class
from iopatterns.calls.form import CallsError, CallTraceFile
from iopatterns.calls.positions import Event

__all__ = ["Adapter", "Event", "load_adapter", "read_with_adapter"]


class Adapter:
    """Base class for readers of trace formats that this package does not know.

    A trace lists the system calls with which a program accessed files. Derive a class, and implement `events`, which
    parses one line of text. Each file of a trace is read by a separate object of the class, which can store what it
    needs from earlier lines of its file.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, line: str) -> Iterable[Event]:
        """Return the successful system calls in a line, usually one or none.

        Times are in nanoseconds from any starting point, which must be the same for all files of a trace. Within a
        file, times must not decrease. Set ``offset_bytes`` of an event only if the line contains the offset, as for
        pread64(). For read() and write(), the offset follows from earlier calls on the same descriptor.

        Args:
            line: A line of the file.

        Raises:
            ValueError: The line is faulty. The message states the problem.
        """
        raise NotImplementedError


def load_adapter(name: str) -> type[Adapter]:
    """Import a class that reads traces of another format, and return the class.

    The Python file is executed.

    Args:
        name: Python file and class, as ``FILE.py:CLASS``, such as ``sandia.py:SandiaLog``.

    Raises:
        CallsError: The file cannot be imported, or does not contain a class of this name that derives from `Adapter`.
    """
    return load_class(name, Adapter, CallsError)


def read_with_adapter(sources: Sequence[CallTraceFile], adapter: type[Adapter]) -> Iterator[Event]:
    """Yield the system calls in several files of a trace, in order of time.

    Args:
        sources: The files.
        adapter: The class that parses lines, derived from `Adapter`. Each file gets an object of its own.

    Raises:
        CallsError: A line is faulty, and faulty lines are not skipped (``skipped`` of the file is None).
    """
    events = (source.parsed(source.lines(), adapter(source.path).events) for source in sources)
    return heapq.merge(*events, key=lambda event: event.time_ns)
