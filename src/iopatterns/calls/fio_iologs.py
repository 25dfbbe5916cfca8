"""Read I/O logs of fio (option write_iolog) as traces of system calls.

Each log has the requests of one process.
"""

import heapq
from collections.abc import Iterator, Sequence

from iopatterns.base.coverage import Coverage
from iopatterns.base.fio_iolog import IOLOG_HEADERS, read_iolog_actions
from iopatterns.calls.form import Call, CallTraceFile
from iopatterns.calls.stand_ins import STAND_IN_FILE_PREFIX

# The call of each action. fio reads and writes at a given offset. Programs cannot trim a file.
_CALLS = {"read": "pread64", "write": "pwrite64", "open": "open", "close": "close"}
_CALLS |= {"sync": "fsync", "datasync": "fdatasync"}


def read_iologs(sources: Sequence[CallTraceFile], coverage: Coverage) -> Iterator[Call]:
    """Yield the system calls in several I/O logs of fio, in order of time.

    Each log (fio option write_iolog) has the requests of one process. The number of the process is the position of its
    log in ``sources``, from 0. The times of each log count from its own start. A ``trim`` is skipped, because programs
    have no such system call.

    Args:
        sources: The logs.
        coverage: Receives the number of reads and writes by file, and the number of trims.

    Raises:
        CallsError: A line is faulty, and faulty lines are not skipped (``skipped`` of the log is None).
    """
    logs = (_read_iolog(source, process, coverage) for process, source in enumerate(sources))
    return heapq.merge(*logs, key=lambda call: call.time_ns)


def _read_iolog(source: CallTraceFile, process: int, coverage: Coverage) -> Iterator[Call]:
    now_ns = 0
    for each in read_iolog_actions(source):
        now_ns = max(now_ns, each.time_ns)
        if each.action in {"read", "write"}:
            coverage.parts[each.file] += 1
            yield Call(process, now_ns, _CALLS[each.action], each.file, each.offset_bytes, each.size_bytes)
        elif each.action in _CALLS:
            yield Call(process, now_ns, _CALLS[each.action], each.file)
        elif each.action == "trim":
            coverage.left_out["trims, for which programs have no system call"] += 1


def is_stand_in_log(source: CallTraceFile) -> bool:
    """Return whether an I/O log of fio was made from a stand-in.

    A stand-in is a synthetic trace that replaces an unpublished trace. In a log that was made from a stand-in, the
    first file name begins with `STAND_IN_FILE_PREFIX` (``stand-in.``), after any folders.

    Args:
        source: The log.
    """
    for _, line in source.lines():
        if line.strip() not in IOLOG_HEADERS:
            return any(word.rpartition("/")[2].startswith(STAND_IN_FILE_PREFIX) for word in line.split()[:2])
    return False
