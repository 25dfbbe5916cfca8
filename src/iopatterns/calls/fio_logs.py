"""I/O logs that fio wrote (`write_iolog`), version 2 or 3, as calls: one log for each process."""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from iopatterns.base.input_file import MAX_NUMBER, printable, whole_number
from iopatterns.calls.form import Call, CallTraceFile
from iopatterns.calls.stand_ins import STAND_IN_FILE_PREFIX

IOLOG_HEADERS = {"fio version 2 iolog": False, "fio version 3 iolog": True}
_MOVING = {"read": "pread64", "write": "pwrite64"}
_OTHERS = {"open": "open", "close": "close", "sync": "fsync", "datasync": "fdatasync"}
_PASSED_OVER = frozenset({"add", "wait", "trim"})


def read_iologs(sources: Sequence[CallTraceFile]) -> Iterator[Call]:
    """Yield the calls of logs by their times; the process is the place of its log among the sources.

    fio says at which offset it reads and writes: so these are pread64 and pwrite64. Discards are passed over, since no
    call makes them on a file. Times of version 3 count from the log's begin; those of version 2 are its waits, which
    end so many milliseconds after the log began.
    """
    calls = (_log(source, process) for process, source in enumerate(sources))
    return heapq.merge(*calls, key=lambda call: call.time_ns)


def is_stand_in_log(source: CallTraceFile) -> bool:
    """Return whether a log is of a stand-in: the files in it say so."""
    for _, line in source.lines():
        if line.strip() not in IOLOG_HEADERS:
            return any(word.rpartition("/")[2].startswith(STAND_IN_FILE_PREFIX) for word in line.split()[:2])
    return False


def _log(source: CallTraceFile, process: int) -> Iterator[Call]:
    lines = source.lines()
    _, head = next(lines, (1, ""))
    if head.strip() not in IOLOG_HEADERS:
        raise source.error(f"the first line of a log of fio must be one of: {', '.join(IOLOG_HEADERS)}", "line 1")
    timed = IOLOG_HEADERS[head.strip()]
    now_ns = 0

    def parse(line: str) -> Iterable[Call]:
        nonlocal now_ns
        words = line.split()
        if not words:
            return ()
        if timed:
            now_ns = max(now_ns, 1000 * whole_number(words.pop(0), "the time"))
        if len(words) < 2:
            raise ValueError(f"neither a file nor what is done to it: '{printable(line.strip())}'")
        file, action, numbers = words[0], words[1], words[2:4]
        if action == "wait" and not timed:
            now_ns = max(now_ns, 1_000_000 * whole_number(numbers[0] if numbers else "", "the time"))
        if now_ns >= MAX_NUMBER:
            raise ValueError("more than 146 years after the start")
        if action in _MOVING:
            if len(numbers) < 2:
                raise ValueError(f"'{action}' needs an offset and a length")
            offset, size = whole_number(numbers[0], "the offset"), whole_number(numbers[1], "the length")
            return (Call(process, now_ns, _MOVING[action], file, offset, size),)
        if action in _OTHERS:
            return (Call(process, now_ns, _OTHERS[action], file),)
        if action not in _PASSED_OVER:
            raise ValueError(f"no action '{printable(action)}' in a log of fio")
        return ()

    return source.parsed(lines, parse)
