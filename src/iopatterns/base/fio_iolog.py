"""Reading of I/O logs of fio (option ``write_iolog``), version 2 or 3.

Each line of such a log is an action on a file, such as a read.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from iopatterns.base.input_file import MAX_NUMBER, InputFile, printable, whole_number

# First line of a log, and whether its lines begin with a time
IOLOG_HEADERS = {"fio version 2 iolog": False, "fio version 3 iolog": True}
_WITH_RANGE = frozenset({"read", "write", "trim"})
_WITHOUT_RANGE = frozenset({"add", "open", "close", "sync", "datasync", "wait"})


class IologAction(NamedTuple):
    """An action in an I/O log of fio, which is one line of the log.

    Attributes:
        time_ns: Time of the action in nanoseconds since the start of the log. In version 2, it is the time that the
            last ``wait`` set.
        file: Name of the file.
        action: ``read``, ``write``, ``trim``, ``sync``, ``datasync``, ``add``, ``open``, ``close`` or ``wait``.
        offset_bytes: Offset of a read, write or trim; 0 for all other actions.
        size_bytes: Size of a read, write or trim; 0 for all other actions.
    """

    time_ns: int
    file: str
    action: str
    offset_bytes: int = 0
    size_bytes: int = 0


class IologParser:
    """Parser of the lines of an I/O log of fio after its header.

    In version 2, the action ``wait N`` sets the time to N milliseconds after the start of the log. So does the code of
    fio, although its manual describes N as a pause.

    Attributes:
        is_timed: Whether lines begin with a time (version 3).
        now_ns: Time of the last line in nanoseconds since the start of the log.
    """

    def __init__(self, source: InputFile, header: str) -> None:
        """Determine the version of a log.

        Args:
            source: The log, for messages.
            header: The first line of the log.

        Raises:
            IoPatternsError: The header is not that of an I/O log. The type of the error is ``source.ERROR``.
        """
        timed = IOLOG_HEADERS.get(header.strip())
        if timed is None:
            raise source.error("not an I/O log of fio, version 2 or 3", "line 1")
        self.is_timed = timed
        self.now_ns = 0

    def parse(self, line: str) -> Iterable[IologAction]:
        """Return the action in a line, if there is one.

        Raises:
            ValueError: The line is faulty.
        """
        words = line.split()
        if not words:
            return ()
        time_ns = 1000 * whole_number(words.pop(0), "the time") if self.is_timed else self.now_ns
        if len(words) < 2:
            raise ValueError(f"neither a file nor an action: '{printable(line.strip())}'")
        file, action, *numbers = words
        if action == "wait" and not self.is_timed:
            time_ns = max(self.now_ns, 1_000_000 * whole_number(numbers[0] if numbers else "", "the time"))
        if time_ns >= MAX_NUMBER:
            raise ValueError("more than 146 years after the start")
        self.now_ns = time_ns
        if action in _WITH_RANGE:
            if len(numbers) < 2:
                raise ValueError(f"'{action}' requires an offset and a length")
            offset, size = whole_number(numbers[0], "the offset"), whole_number(numbers[1], "the length")
            return (IologAction(time_ns, file, action, offset, size),)
        if action not in _WITHOUT_RANGE:
            valid = ", ".join(sorted(_WITH_RANGE | _WITHOUT_RANGE))
            raise ValueError(f"no action '{printable(action)}' in an I/O log of fio. Valid: {valid}")
        return (IologAction(time_ns, file, action),)


def read_iolog_actions(source: InputFile) -> Iterator[IologAction]:
    """Yield the actions in an I/O log of fio, in the order of the lines.

    fio writes such a log with the option ``write_iolog``, in version 2 or 3 of the format.

    Args:
        source: The log. Its attribute ``skipped`` decides whether faulty lines are skipped.

    Raises:
        IoPatternsError: The file is not an I/O log. Or a line is faulty, and ``source`` does not skip faulty lines. The
            type of the error is ``source.ERROR``.
    """
    lines = source.lines()
    parser = IologParser(source, next(lines, (1, ""))[1])
    return source.parsed(lines, parser.parse)
