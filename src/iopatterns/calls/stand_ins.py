"""Stand-ins for the traces of Park and Shen (2009), which are no longer to be had: made from what their paper states.

Every figure that they are made of is in `STAND_IN_PARAMETERS`, with whether the paper states it or it is assumed here. A trace
is a function of these figures alone: the same calls on every machine and with every version of Python.
"""

import hashlib
import heapq
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from iopatterns.base.input_file import printable
from iopatterns.calls import form
from iopatterns.calls.form import Call, CallsError, Trace

# Begins the name of each file of a stand-in, so that whatever is made of it shows that it is one
STAND_IN_FILE_PREFIX = "stand-in."
STAND_IN_FORM = "stand-in"
_KB = 1024


@dataclass(frozen=True)
class SourcedValue:
    """A figure that a stand-in is made of, and whether the paper states it or it is assumed here, and why."""

    value: Any
    basis: Literal["stated", "assumed"]
    why: str


def _stated(value: object, where: str) -> SourcedValue:
    return SourcedValue(value, "stated", where)


def _assumed(value: object, why: str) -> SourcedValue:
    return SourcedValue(value, "assumed", why)


_PROCESSES = _stated(32, "section III-A for LANL; figure 4 replays 32 unique traces of each of Sandia's")
_PAUSE = _assumed(1_000_000, "times are not published; they serve the access maps alone, replays do not wait")
_SMALL = "small enough that ten processes are replayed in seconds"
_MIX = "figures 1 and 2 are not readable as numbers; the caption and the text give the range, below 1 KB to 2048 KB"
_UNRECOGNISED = "table I: Unrecognized pattern; any share well below 0.9 would do"
_FILE_BYTES = _assumed(4 * 2**20, "not published; two such files a process are " + _SMALL)

# What each stand-in is made of. Sizes of requests are in KB of 1024 bytes, as the labels of the paper's figures are.
STAND_IN_PARAMETERS: Mapping[str, Mapping[str, SourcedValue]] = {
    "LANL-64KB": {
        "processes": _PROCESSES,
        "read_share": _stated(0.51, "table I"),
        "request_kb": _stated(64, "section III-A"),
        "writes": _assumed(64, "a segment of 4 MiB a process: " + _SMALL),
        "reads": _assumed(64, "MPI_IO_TEST reads back what it wrote"),
        "other_reads": _assumed(
            3, "of a file of parameters, to come to the 0.51 of table I; its cause is not published"
        ),
        "pause_ns": _PAUSE,
    },
    "LANL-1024KB": {
        "processes": _PROCESSES,
        "read_share": _stated(0.50, "table I"),
        "request_kb": _stated(1024, "section III-A"),
        "writes": _assumed(8, "a segment of 8 MiB a process: " + _SMALL),
        "reads": _assumed(8, "MPI_IO_TEST reads back what it wrote"),
        "other_reads": _assumed(0, "the 0.50 of table I leaves no room for any"),
        "pause_ns": _PAUSE,
    },
    "Sandia-alegra": {
        "processes": _PROCESSES,
        "read_share": _stated(0.14, "table I"),
        # number of requests by the label of their bucket: 41 reads and 252 writes
        "reads_by_kb": _assumed({1: 9, 2: 5, 4: 8, 8: 5, 16: 4, 32: 3, 64: 3, 128: 2, 256: 1, 1024: 1}, _MIX),
        "writes_by_kb": _assumed(
            {1: 54, 2: 24, 4: 40, 8: 30, 16: 24, 32: 24, 64: 30, 128: 14, 256: 7, 512: 3, 1024: 1, 2048: 1}, _MIX
        ),
        "files": _assumed(2, "a full application writes dumps and histories; their number is not published"),
        "file_bytes": _FILE_BYTES,
        "sequential_share": _assumed(0.4, _UNRECOGNISED),
        "pause_ns": _PAUSE,
    },
    "Sandia-cth": {
        "processes": _PROCESSES,
        "read_share": _stated(0.67, "table I"),
        # 201 reads and 99 writes
        "reads_by_kb": _assumed(
            {1: 25, 2: 15, 4: 45, 8: 30, 16: 20, 32: 20, 64: 25, 128: 12, 256: 5, 512: 2, 1024: 1, 2048: 1}, _MIX
        ),
        "writes_by_kb": _assumed(
            {1: 13, 2: 7, 4: 21, 8: 16, 16: 10, 32: 9, 64: 11, 128: 6, 256: 3, 512: 2, 1024: 1}, _MIX
        ),
        "files": _assumed(2, "a full application reads and writes dumps; their number is not published"),
        "file_bytes": _FILE_BYTES,
        "sequential_share": _assumed(0.4, _UNRECOGNISED),
        "pause_ns": _PAUSE,
    },
    "Sandia-s3d": {
        "processes": _PROCESSES,
        "read_share": _stated(0.0, "table I"),
        "request_kb": _assumed(256, "a variable of 32 x 32 x 32 doubles; the paper says only that sizes are regular"),
        "variables": _assumed(16, "11 species, velocity in 3 directions, pressure and temperature"),
        "checkpoints": _assumed(3, "12 MiB a process, each checkpoint in a file of its own: " + _SMALL),
        "pause_ns": _PAUSE,
    },
    "web-server": {
        "processes": _assumed(32, "the paper only names such a load; as many as of the others"),
        "read_share": _assumed(0.97, "the paper says 'read-mostly' and no number"),
        "documents": _assumed(1024, "shared by all processes, each request is for any of them"),
        "documents_by_kb": _assumed(
            {1: 100, 2: 155, 4: 200, 8: 205, 16: 154, 32: 102, 64: 51, 128: 31, 256: 16, 512: 10},
            "many small files and few large ones; not published",
        ),
        "gets": _assumed(192, "some 4 MiB a process: " + _SMALL),
        "request_kb": _assumed(
            64, "a buffer of a server; a document is read to its end in pieces of at most this size"
        ),
        "gets_a_log_write": _assumed(32, "the log of accesses is buffered, and written 4 KB at a time"),
        "pause_ns": _PAUSE,
    },
}
STAND_IN_NAMES = tuple(STAND_IN_PARAMETERS)


def parameters_table() -> pd.DataFrame:
    """Return what the stand-ins are made of: ``workload``, ``parameter``, ``value``, ``basis`` and ``why``."""
    rows = [
        (workload, name, given.value, given.basis, given.why)
        for workload, its in STAND_IN_PARAMETERS.items()
        for name, given in its.items()
    ]
    return pd.DataFrame(rows, columns=["workload", "parameter", "value", "basis", "why"])


def stand_in(workload: str) -> Trace:
    """Return the stand-in for one of `STAND_IN_NAMES`, its processes numbered from 0. Raises CallsError for another name."""
    if workload not in STAND_IN_PARAMETERS:
        raise CallsError(f"no stand-in '{printable(workload)}'. There are: {', '.join(STAND_IN_NAMES)}.")
    return Trace(workload, "stand-in", STAND_IN_FORM, lambda: form.call_tables(_calls(workload)))


def _calls(workload: str) -> Iterator[Call]:
    """Yield the calls of all processes in the order of their times; the processes run side by side."""
    its = {name: given.value for name, given in STAND_IN_PARAMETERS[workload].items()}
    maker = {"LANL": _segments, "Sandia": _mixed, "web": _served}[workload.partition("-")[0]]
    if "checkpoints" in its:
        maker = _checkpoints
    tag = f"{STAND_IN_FILE_PREFIX}{workload.lower()}"
    lives = (_timed(process, maker(tag, process, its), its["pause_ns"]) for process in range(its["processes"]))
    return heapq.merge(*lives, key=lambda call: (call.time_ns, call.process))


# A call as the makers below give it: its name, its file, where, and how much
_Step = tuple[str, str, int, int]


def _timed(process: int, steps: Iterator[_Step], pause_ns: int) -> Iterator[Call]:
    for number, (call, file, offset, size) in enumerate(steps):
        yield Call(process, number * pause_ns, call, file, offset, size)


def _open(file: str, call: str = "open") -> _Step:
    return (call, file, form.UNKNOWN, 0)


def _close(file: str) -> _Step:
    return ("close", file, form.UNKNOWN, 0)


class _Chance:
    """Numbers drawn for one process of a stand-in. Of Python's generator only random() never changes."""

    def __init__(self, *of: object) -> None:
        seed = hashlib.sha256("/".join(map(str, of)).encode()).digest()
        self._random = random.Random(int.from_bytes(seed[:8], "big")).random

    def below(self, bound: int) -> int:
        """Return a whole number from 0 below ``bound``."""
        return int(self._random() * bound)

    def happens(self, share: float) -> bool:
        """Return true in this share of the cases."""
        return self._random() < share

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        """Return the items in an order drawn."""
        return [item for _, _, item in sorted((self._random(), number, item) for number, item in enumerate(items))]

    def size_bytes(self, label_kb: int) -> int:
        """Return a size of the bucket with this label: above half of it (from 1 byte, of the first) up to it."""
        above = 0 if label_kb == 1 else label_kb * _KB // 2
        return above + 1 + self.below(label_kb * _KB - above)


def _segments(tag: str, process: int, its: Mapping[str, Any]) -> Iterator[_Step]:
    """N-to-1, not strided: each process writes a segment of one file from its beginning, then reads it back."""
    size = its["request_kb"] * _KB
    first = process * its["writes"] * size
    if its["other_reads"]:
        file = f"{tag}.parameters"
        yield _open(file)
        for number in range(its["other_reads"]):
            yield "read", file, number * size, size
        yield _close(file)
    file = f"{tag}.out"
    for call, count in (("write", its["writes"]), ("read", its["reads"])):
        yield _open(file)
        for number in range(count):
            offset = first + number * size
            yield "lseek", file, offset, 0
            yield call, file, offset, size
        yield _close(file)


def _mixed(tag: str, process: int, its: Mapping[str, Any]) -> Iterator[_Step]:
    """Reads and writes of all sizes among each other, on files of the process's own, some going on, others not."""
    chance = _Chance(tag, process)
    asked = [
        (call, chance.size_bytes(label))
        for call, counts in (("read", its["reads_by_kb"]), ("write", its["writes_by_kb"]))
        for label, count in counts.items()
        for _ in range(count)
    ]
    names = [f"{tag}.{number}.{process:02}" for number in range(its["files"])]
    ends: dict[tuple[str, str], int] = {}
    positions = dict.fromkeys(names, 0)
    for file in names:
        yield _open(file)
    for call, size in chance.shuffled(asked):
        file = names[chance.below(len(names))]
        goes_on = chance.happens(its["sequential_share"])
        anywhere = chance.below(its["file_bytes"] - size + 1)
        offset = ends.get((call, file), 0)
        if not goes_on or offset + size > its["file_bytes"]:
            offset = anywhere
        if offset != positions[file]:
            yield "lseek", file, offset, 0
        yield call, file, offset, size
        positions[file] = ends[call, file] = offset + size
    for file in names:
        yield _close(file)


def _checkpoints(tag: str, process: int, its: Mapping[str, Any]) -> Iterator[_Step]:
    """Each process writes a file of its own at each checkpoint, variable after variable."""
    size = its["request_kb"] * _KB
    for checkpoint in range(its["checkpoints"]):
        file = f"{tag}.{checkpoint}.{process:02}"
        yield _open(file)
        for variable in range(its["variables"]):
            yield "write", file, variable * size, size
        yield _close(file)


def _served(tag: str, process: int, its: Mapping[str, Any]) -> Iterator[_Step]:
    """Documents at random, each read from its beginning to its end; now and then a piece of a log of the process."""
    sizes_of = _Chance(tag, "documents")
    sizes = [sizes_of.size_bytes(label) for label, count in its["documents_by_kb"].items() for _ in range(count)]
    chance = _Chance(tag, process)
    most = its["request_kb"] * _KB
    log, log_end = f"{tag}.log.{process:02}", 0
    yield _open(log)
    for get in range(its["gets"]):
        document = chance.below(its["documents"])
        file = f"{tag}.{document:04}"
        yield _open(file)
        for offset in range(0, sizes[document], most):
            yield "read", file, offset, min(most, sizes[document] - offset)
        yield _close(file)
        if get % its["gets_a_log_write"] == its["gets_a_log_write"] - 1:
            yield "write", log, log_end, 4 * _KB
            log_end += 4 * _KB
    yield _close(log)
