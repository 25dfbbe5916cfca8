"""Determine the files and offsets of system calls from their descriptors.

A trace contains the name of a file only at its open, and an offset only if the call has one, as pread64. The rest
follows from the earlier calls, as in the kernel: a position belongs to an open file description, which all descriptors
share that dup and fork have made of its descriptor.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from iopatterns.calls.form import CALL_KINDS, UNKNOWN, Call

# Folders whose files are not on a drive
_NO_FILES = ("/dev/", "/proc/", "/sys/")
# Events that are not in tables, but change the descriptors of processes
FORK, EXECUTE, EXIT, CLOSE_RANGE = "fork", "execve", "exit", "close_range"


class Event(NamedTuple):
    """A successful system call, as a program made it.

    Attributes:
        process: Number of the process.
        time_ns: Time at which the call began, since any moment.
        call: A key of `CALL_KINDS`, or `FORK`, `EXECUTE`, `EXIT` or `CLOSE_RANGE`.
        descriptor: The descriptor in the arguments. For iowait, the number that iread or iwrite returned. For
            close_range, the first descriptor.
        file: Path of the opened file. For other calls, the file of the descriptor if the trace contains it.
        size_bytes: Number of bytes read or written.
        offset_bytes: Offset of a read or write if the call has one; distance of a seek from ``whence``; new size of a
            truncated file.
        result: New descriptor (open, dup), new position (seek), number of an iread or iwrite, child of a fork, or last
            descriptor of a close_range; `UNKNOWN` for a seek whose new position is not in the trace.
        whence: SEEK_SET, SEEK_CUR or SEEK_END, for a seek.
        duration_ns: Duration of the call.
        flags: O_APPEND, O_TRUNC and O_CLOEXEC of an open; CLONE_FILES of a fork whose child shares the descriptors.
    """

    process: int
    time_ns: int
    call: str
    descriptor: int = UNKNOWN
    file: str = ""
    size_bytes: int = 0
    offset_bytes: int | None = None
    result: int = UNKNOWN
    whence: str = "SEEK_SET"
    duration_ns: int = UNKNOWN
    flags: frozenset[str] = frozenset()


@dataclass
class _OpenFile:
    """An open file description; its position is None if it is unknown."""

    file: str
    position: int | None = 0
    appends: bool = False


class _Descriptor(NamedTuple):
    opened: _OpenFile
    closes_on_exec: bool = False


class PositionTracker:
    """The descriptors of all processes, and the positions of their files.

    Attributes:
        left_out: Number of reads and writes whose file or offset is unknown. Their descriptors were opened before the
            trace began, or are pipes, sockets or terminals.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._start_ns: int | None = None
        self._tables: dict[int, dict[int, _Descriptor]] = {}
        self._sizes: dict[str, int] = {}
        self._asynchronous: dict[tuple[int, int], str] = {}

    def follow(self, events: Iterable[Event]) -> Iterator[Call]:
        """Yield the calls on files, with file and offset, and times since the first event.

        Args:
            events: The events of all processes, in order of time.
        """
        for event in events:
            if self._start_ns is None:
                self._start_ns = event.time_ns
            call = self._call(event)
            if call is not None and not call.file.startswith(_NO_FILES):
                yield call

    def _call(self, event: Event) -> Call | None:
        """Apply an event to the descriptors, and return its call.

        Returns None if the event is not a call on a known file.
        """
        kind = CALL_KINDS.get(event.call)
        table = self._tables.setdefault(event.process, {})
        if kind is None:
            self._change_table(event, table)
            return None
        if kind == "open":
            if "O_TRUNC" in event.flags or event.call == "creat":
                self._sizes[event.file] = 0
            opened = _OpenFile(event.file, 0, "O_APPEND" in event.flags)
            table[event.result] = _Descriptor(opened, "O_CLOEXEC" in event.flags)
            return self._call_on(event, event.file)
        if kind == "wait":
            file = self._asynchronous.pop((event.process, event.descriptor), None)
            return None if file is None else self._call_on(event, file)
        descriptor = self._descriptor(event, table)
        if descriptor is None:
            self.left_out += kind in {"read", "write"}
            return None
        opened = descriptor.opened
        if kind == "close":
            del table[event.descriptor]
        elif kind == "duplicate":
            table[event.result] = _Descriptor(opened, "O_CLOEXEC" in event.flags)
        elif kind == "seek":
            return self._seek(event, opened)
        elif kind == "truncate":
            self._sizes[opened.file] = event.offset_bytes or 0
            return self._call_on(event, opened.file, event.offset_bytes or 0)
        elif kind in {"read", "write"}:
            return self._transfer(event, kind, opened)
        return self._call_on(event, opened.file)

    def _call_on(self, event: Event, file: str, offset_bytes: int = UNKNOWN, size_bytes: int = 0) -> Call:
        # an event may follow later events if strace printed it in two parts
        time_ns = max(0, event.time_ns - (self._start_ns or 0))
        return Call(event.process, time_ns, event.call, file, offset_bytes, size_bytes, event.duration_ns)

    @staticmethod
    def _descriptor(event: Event, table: dict[int, _Descriptor]) -> _Descriptor | None:
        """Return the descriptor of an event; None if it is unknown or not a file.

        A file in the event itself takes precedence over the descriptor table.
        """
        known = table.get(event.descriptor)
        if not event.file or (known is not None and known.opened.file == event.file):
            return known
        if not event.file.startswith("/"):  # a pipe or a socket
            table.pop(event.descriptor, None)
            return None
        if known is not None and not known.opened.file.startswith("/"):
            return known  # opened by a relative path
        return table.setdefault(event.descriptor, _Descriptor(_OpenFile(event.file, None)))

    def _transfer(self, event: Event, kind: str, opened: _OpenFile) -> Call | None:
        """Return the call of a read or write, and advance the position.

        A call with an offset does not change the position.
        """
        offset = event.offset_bytes
        if offset is None:
            offset = self._sizes.get(opened.file, 0) if kind == "write" and opened.appends else opened.position
        if offset is None:
            self.left_out += 1
            return None
        end = offset + event.size_bytes
        if event.offset_bytes is None:
            opened.position = end
        if kind == "write":
            self._sizes[opened.file] = max(end, self._sizes.get(opened.file, 0))
        if event.call in {"iread", "iwrite"}:
            self._asynchronous[event.process, event.result] = opened.file
        return self._call_on(event, opened.file, offset, event.size_bytes)

    def _seek(self, event: Event, opened: _OpenFile) -> Call | None:
        """Set the position of a file; return the call.

        Returns None if the new position is unknown.
        """
        if event.result != UNKNOWN:
            opened.position = event.result
            if event.whence == "SEEK_END":
                self._sizes[opened.file] = event.result - (event.offset_bytes or 0)
        else:
            bases = {"SEEK_SET": 0, "SEEK_CUR": opened.position, "SEEK_END": self._sizes.get(opened.file)}
            base = bases.get(event.whence)
            opened.position = None if base is None else base + (event.offset_bytes or 0)
        return None if opened.position is None else self._call_on(event, opened.file, opened.position)

    def _change_table(self, event: Event, table: dict[int, _Descriptor]) -> None:
        """Apply an event that changes the descriptors of a process."""
        if event.call == FORK:
            self._tables[event.result] = table if "CLONE_FILES" in event.flags else table.copy()
        elif event.call == EXECUTE:
            kept = {number: each for number, each in table.items() if not each.closes_on_exec}
            self._tables[event.process] = kept
        elif event.call == EXIT:
            self._tables.pop(event.process, None)
        elif event.call == CLOSE_RANGE:
            for number in [number for number in table if event.descriptor <= number <= event.result]:
                del table[number]
