"""Where each call reads and writes: descriptors, and the positions of files, followed process by process.

A trace of calls names a file once, when it is opened, and says where it is read only if the call itself does, as
pread64 does. All else follows from the calls before, as in the kernel: a position belongs to what was opened, and is
shared by all descriptors that come from it, through dup and fork.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from iopatterns.calls.form import CALL_KINDS, UNKNOWN, Call

# What is no file on any drive
_NO_FILES = ("/dev/", "/proc/", "/sys/")
# Names of calls that no table has, and that say whose descriptors are which
FORK, EXECUTE, EXIT, CLOSE_RANGE = "fork", "execve", "exit", "close_range"


class Event(NamedTuple):
    """A call as a program made it, and what came of it. Only calls that succeeded are told.

    ``call``: one of `CALL_KINDS`, or `FORK`, `EXECUTE`, `EXIT`, `CLOSE_RANGE`. ``time_ns``: when it began, from any moment
    on. ``descriptor``: the one it was given; of iowait the number that iread or iwrite returned. ``result``: the
    descriptor that is new then (open, dup), the number of an iread or iwrite, the child of a fork, the last
    descriptor of a close_range. ``file``: of an open. ``size_bytes``: what was read or written. ``offset_bytes``:
    where, if the call says so; of a seek how far from its ``whence``; of ftruncate the new length. ``flags``: of an
    open (O_APPEND, O_TRUNC, O_CLOEXEC), or of a fork whose descriptors are shared (CLONE_FILES).
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
class _Open:
    """What an open made: its position is that of all its descriptors. None where it is not known."""

    file: str
    position: int | None = 0
    appends: bool = False


@dataclass
class _Descriptor:
    opened: _Open
    closes_on_exec: bool = False


class PositionTracker:
    """The descriptors of all processes. ``left_out`` counts reads and writes that nothing can be said of.

    Those are of descriptors that were opened before the trace began, or are no file's: pipes, sockets, terminals.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._start_ns: int | None = None
        self._tables: dict[int, dict[int, _Descriptor]] = {}
        self._sizes: dict[str, int] = {}
        self._asynchronous: dict[tuple[int, int], str] = {}

    def follow(self, events: Iterable[Event]) -> Iterator[Call]:
        """Yield the calls on files, with file and offset, times from the first event on."""
        for event in events:
            if self._start_ns is None:
                self._start_ns = event.time_ns
            call = self._call(event)
            if call is not None and not call.file.startswith(_NO_FILES):
                yield call

    def _call(self, event: Event) -> Call | None:
        kind = CALL_KINDS.get(event.call)
        table = self._tables.setdefault(event.process, {})
        if kind is None:
            self._of_process(event, table)
            return None
        if kind == "open":
            opened = _Open(event.file, 0, "O_APPEND" in event.flags)
            if "O_TRUNC" in event.flags or event.call == "creat":
                self._sizes[event.file] = 0
            table[event.result] = _Descriptor(opened, "O_CLOEXEC" in event.flags)
            return self._told(event, event.file)
        if kind == "wait":
            file = self._asynchronous.pop((event.process, event.descriptor), None)
            return None if file is None else self._told(event, file)
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
            return self._sought(event, opened)
        elif kind == "truncate":
            self._sizes[opened.file] = event.offset_bytes or 0
            return self._told(event, opened.file, event.offset_bytes or 0)
        elif kind in {"read", "write"}:
            return self._moved(event, kind, opened)
        return self._told(event, opened.file)

    def _told(self, event: Event, file: str, offset_bytes: int = UNKNOWN, size_bytes: int = 0) -> Call:
        # of calls in two parts one that began earlier may be told later
        time_ns = max(0, event.time_ns - (self._start_ns or 0))
        return Call(event.process, time_ns, event.call, file, offset_bytes, size_bytes, event.duration_ns)

    @staticmethod
    def _descriptor(event: Event, table: dict[int, _Descriptor]) -> _Descriptor | None:
        """Return what a descriptor is of. A file that the event itself names is believed more than what was before."""
        known = table.get(event.descriptor)
        if not event.file or (known is not None and known.opened.file == event.file):
            return known
        if not event.file.startswith("/"):  # a pipe, a socket
            table.pop(event.descriptor, None)
            return None
        if known is not None and not known.opened.file.startswith("/"):
            return known  # the trace has opened it by another name
        return table.setdefault(event.descriptor, _Descriptor(_Open(event.file, None)))

    def _moved(self, event: Event, kind: str, opened: _Open) -> Call | None:
        if event.offset_bytes is not None:
            offset: int | None = event.offset_bytes
        else:
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
        return self._told(event, opened.file, offset, event.size_bytes)

    def _sought(self, event: Event, opened: _Open) -> Call | None:
        bases = {"SEEK_SET": 0, "SEEK_CUR": opened.position, "SEEK_END": self._sizes.get(opened.file)}
        base = bases.get(event.whence)
        if event.result != UNKNOWN:
            opened.position = event.result
            if event.whence == "SEEK_END":
                self._sizes[opened.file] = event.result - (event.offset_bytes or 0)
        else:
            opened.position = None if base is None else base + (event.offset_bytes or 0)
        return None if opened.position is None else self._told(event, opened.file, opened.position)

    def _of_process(self, event: Event, table: dict[int, _Descriptor]) -> None:
        if event.call == FORK:
            shared = "CLONE_FILES" in event.flags
            copied = {at: _Descriptor(each.opened, each.closes_on_exec) for at, each in table.items()}
            self._tables[event.result] = table if shared else copied
        elif event.call == EXECUTE:
            kept = {at: each for at, each in table.items() if not each.closes_on_exec}
            self._tables[event.process] = kept
        elif event.call == EXIT:
            self._tables.pop(event.process, None)
        elif event.call == CLOSE_RANGE:
            for at in [at for at in table if event.descriptor <= at <= event.result]:
                del table[at]
