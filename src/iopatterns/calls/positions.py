"""Determine the files and offsets of system calls from their descriptors.

A trace contains the name of a file only where the file is opened. It contains an offset only for calls such as pread64,
which have one. Everything else follows from earlier calls, as in the kernel: a position belongs to an open file
description. All descriptors that dup and fork have made from one descriptor share its open file description.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from iopatterns.calls.form import CALL_KINDS, UNKNOWN, Call

# Folders whose files are not on a drive
_NO_FILES = ("/dev/", "/proc/", "/sys/")
# Events that are not in tables, but change the descriptors of processes
FORK, EXECUTE, EXIT, CLOSE_RANGE = "fork", "execve", "exit", "close_range"


class Event(NamedTuple):
    """Successful system call on a descriptor, as a program made it.

    `PositionTracker` determines file and offset of the call from earlier events.

    Attributes:
        process: Number of the process.
        time_ns: Time at which the call began, in nanoseconds from any starting point that all events share.
        call: Name of the call: a key of `CALL_KINDS`, such as ``pread64``, or `FORK`, `EXECUTE`, `EXIT` or
            `CLOSE_RANGE`. Any other name is a call that may access files, but whose accesses are not in the trace.
        descriptor: Descriptor on which the call acts. For close_range: the first closed descriptor. For iowait: the
            number that iread or iwrite returned.
        file: For an open: path of the opened file. For other calls: path of the descriptor's file if the line of the
            trace contains the path, otherwise empty.
        size_bytes: Number of bytes read or written.
        offset_bytes: For a read or write: the offset in the arguments, or None for a call without this argument, such
            as read(). For a seek: distance from ``whence``. For a truncation: new size of the file.
        result: For an open or dup: new descriptor. For a seek: new position, or `UNKNOWN` if the trace does not contain
            the position. For an iread or iwrite: number of the request. For a fork: number of the child process. For a
            close_range: the last closed descriptor.
        whence: Point from which a seek counts: SEEK_SET, SEEK_CUR or SEEK_END.
        duration_ns: Duration of the call in nanoseconds; `UNKNOWN` (-1) if the duration was not recorded.
        flags: For an open: O_APPEND, O_TRUNC and O_CLOEXEC, if set. For a dup: O_CLOEXEC, if set. For a fork:
            CLONE_FILES, if the child shares the descriptors of its parent.
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
    """Open file description, which several descriptors may share.

    Attributes:
        file: Path of the file.
        position: Offset of the next read or write; None if it is unknown.
        appends: Whether writes go to the end of the file (O_APPEND).
    """

    file: str
    position: int | None = 0
    appends: bool = False


class _Descriptor(NamedTuple):
    opened: _OpenFile
    closes_on_exec: bool = False


class PositionTracker:
    """Tracker of the open files of all processes, and of the position in each of them.

    A trace contains offsets only for some system calls, such as pread64. The tracker computes all other offsets from
    earlier calls, as the kernel does. Use a new tracker for each trace.

    Attributes:
        left_out: Number of reads and writes that `follow` has left out because their file or offset is unknown. For
            example, their descriptor was opened before the trace began, or belongs to a pipe or socket.
        on_no_files: Number of reads and writes below /dev, /proc and /sys, which `follow` has left out.
        unfollowed: Number of other calls that access files, but whose accesses are not in the trace, by name of the
            call and file. The file is empty if it is unknown.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self.on_no_files = 0
        self.unfollowed: Counter[tuple[str, str]] = Counter()
        self._start_ns: int | None = None
        self._tables: dict[int, dict[int, _Descriptor]] = {}
        self._sizes: dict[str, int] = {}
        self._asynchronous: dict[tuple[int, int], str] = {}

    def follow(self, events: Iterable[Event]) -> Iterator[Call]:
        """Convert events to calls on files, each with its file and offset.

        Events that are not calls on a known file, such as a fork, are left out. Calls on files below /dev, /proc and
        /sys are left out, too. Times count from the first event.

        Args:
            events: The system calls of all processes, in order of time.

        Yields:
            The calls, in the order of the events.
        """
        for event in events:
            if self._start_ns is None:
                self._start_ns = event.time_ns
            call = self._call(event)
            if call is not None and call.file.startswith(_NO_FILES):
                self.on_no_files += CALL_KINDS[call.call] in {"read", "write"}
            elif call is not None:
                yield call

    def _call(self, event: Event) -> Call | None:
        """Apply an event to the descriptors, and return the event as a call on a file.

        Returns None if the event is not a call on a known file.
        """
        kind = CALL_KINDS.get(event.call)
        table = self._tables.setdefault(event.process, {})
        if kind is None and event.call in {FORK, EXECUTE, EXIT, CLOSE_RANGE}:
            self._change_table(event, table)
            return None
        if kind is None:
            known = table.get(event.descriptor)
            file = event.file or ("" if known is None else known.opened.file)
            if not file.startswith(_NO_FILES):
                self.unfollowed[event.call, file] += 1
            return None
        if kind == "open":
            if "O_TRUNC" in event.flags or event.call == "creat":
                self._sizes[event.file] = 0
            opened = _OpenFile(event.file, 0, "O_APPEND" in event.flags)
            table[event.result] = _Descriptor(opened, "O_CLOEXEC" in event.flags)
            return self._call_on(event, event.file)
        if kind == "wait":
            waited = self._asynchronous.pop((event.process, event.descriptor), None)
            return None if waited is None else self._call_on(event, waited)
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
        """Return the descriptor on which an event acts; None if it is not a known file.

        If the event names a file, that file takes precedence over the file in the table.

        Args:
            event: The event.
            table: The descriptors of the process by number. A descriptor that the event shows to be a new file is
                added; a pipe or socket is removed.
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
        """Return the call of a read or write, and advance the position in the file.

        A call with its own offset, such as pread64, does not change the position. Returns None if the offset is
        unknown.

        Args:
            event: The read or write.
            kind: ``read`` or ``write``.
            opened: The open file description of the descriptor.
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
        """Set the position in a file, and return the call of the seek.

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
        """Apply a fork, execve, exit or close_range to the descriptors of processes.

        Args:
            event: The event.
            table: The descriptors of the process by number.
        """
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
