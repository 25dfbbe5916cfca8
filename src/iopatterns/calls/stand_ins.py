"""Stand-ins for the traces of Park and Shen (2009), which are no longer available.

Stand-ins are synthetic traces of system calls with the properties that the paper states. `STAND_IN_PARAMETERS` lists
all their parameters. For each it says whether the paper states the value or the value is assumed. A trace depends on
the parameters alone. So it has the same calls on every machine and with every version of Python.
"""

import hashlib
import heapq
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import pandas as pd

from iopatterns.base.input_file import printable
from iopatterns.calls import form
from iopatterns.calls.form import Call, CallsError, Trace

# Prefix of the name of each file of a stand-in, which marks everything that is made from the stand-in
STAND_IN_FILE_PREFIX = "stand-in."
STAND_IN_FORM = "stand-in"
_KB = 1024


class SourcedValue(NamedTuple):
    """Value of a parameter of a stand-in, with its source.

    A stand-in is a synthetic trace that replaces a trace of Park and Shen (2009), which is no longer available.

    Attributes:
        value: The value.
        why: Place in the paper by Park and Shen (2009), or reason of the assumption.
        basis: ``stated`` if the paper states the value; ``assumed`` otherwise.
    """

    value: Any
    why: str
    basis: Literal["stated", "assumed"]


_stated = partial(SourcedValue, basis="stated")
_assumed = partial(SourcedValue, basis="assumed")
_SMALL = "small enough that ten processes are replayed in seconds"
_MIX = "figures 1 and 2 are not readable as numbers; the caption and the text give the range, below 1 KB to 2048 KB"
_COMMON = {
    "processes": _stated(32, "section III-A for LANL; figure 4 replays 32 unique traces of each of Sandia's"),
    "pause_ns": _assumed(1_000_000, "times are not published; only the access maps use them, replays do not wait"),
}
_SANDIA = {
    "file_bytes": _assumed(4 * 2**20, f"not published; two such files per process are {_SMALL}"),
    "sequential_share": _assumed(0.4, "table I: Unrecognized pattern; any share far below 0.9 is equivalent"),
}

# Parameters of each stand-in. Sizes of requests are in KB of 1024 bytes, as in the labels of the paper's figures.
STAND_IN_PARAMETERS: Mapping[str, Mapping[str, SourcedValue]] = {
    "LANL-64KB": {
        **_COMMON,
        "read_share": _stated(0.51, "table I"),
        "request_kb": _stated(64, "section III-A"),
        "writes": _assumed(64, f"a segment of 4 MiB per process: {_SMALL}"),
        "reads": _assumed(64, "MPI_IO_TEST reads back what it wrote"),
        "other_reads": _assumed(
            3, "of a file of parameters, which gives the 0.51 of table I; its cause is not published"
        ),
    },
    "LANL-1024KB": {
        **_COMMON,
        "read_share": _stated(0.50, "table I"),
        "request_kb": _stated(1024, "section III-A"),
        "writes": _assumed(8, f"a segment of 8 MiB per process: {_SMALL}"),
        "reads": _assumed(8, "MPI_IO_TEST reads back what it wrote"),
        "other_reads": _assumed(0, "the 0.50 of table I excludes other reads"),
    },
    "Sandia-alegra": {
        **_COMMON,
        **_SANDIA,
        "read_share": _stated(0.14, "table I"),
        # number of requests by the label of their bucket: 41 reads and 252 writes
        "reads_by_kb": _assumed({1: 9, 2: 5, 4: 8, 8: 5, 16: 4, 32: 3, 64: 3, 128: 2, 256: 1, 1024: 1}, _MIX),
        "writes_by_kb": _assumed(
            {1: 54, 2: 24, 4: 40, 8: 30, 16: 24, 32: 24, 64: 30, 128: 14, 256: 7, 512: 3, 1024: 1, 2048: 1}, _MIX
        ),
        "files": _assumed(2, "a full application writes dumps and histories; their number is not published"),
    },
    "Sandia-cth": {
        **_COMMON,
        **_SANDIA,
        "read_share": _stated(0.67, "table I"),
        # 201 reads and 99 writes
        "reads_by_kb": _assumed(
            {1: 25, 2: 15, 4: 45, 8: 30, 16: 20, 32: 20, 64: 25, 128: 12, 256: 5, 512: 2, 1024: 1, 2048: 1}, _MIX
        ),
        "writes_by_kb": _assumed(
            {1: 13, 2: 7, 4: 21, 8: 16, 16: 10, 32: 9, 64: 11, 128: 6, 256: 3, 512: 2, 1024: 1}, _MIX
        ),
        "files": _assumed(2, "a full application reads and writes dumps; their number is not published"),
    },
    "Sandia-s3d": {
        **_COMMON,
        "read_share": _stated(0.0, "table I"),
        "request_kb": _assumed(256, "a variable of 32 x 32 x 32 doubles; the paper says only that sizes are regular"),
        "variables": _assumed(16, "11 species, velocity in 3 directions, pressure and temperature"),
        "checkpoints": _assumed(3, f"12 MiB per process, each checkpoint in a file of its own: {_SMALL}"),
    },
    "web-server": {
        **_COMMON,
        "processes": _assumed(32, "the paper mentions this workload without details; as many as in the other traces"),
        "read_share": _assumed(0.97, "the paper says 'read-mostly' without a number"),
        "documents": _assumed(1024, "shared by all processes; each request reads any of them"),
        "documents_by_kb": _assumed(
            {1: 100, 2: 155, 4: 200, 8: 205, 16: 154, 32: 102, 64: 51, 128: 31, 256: 16, 512: 10},
            "many small files and few large ones; not published",
        ),
        "gets": _assumed(192, f"about 4 MiB per process: {_SMALL}"),
        "request_kb": _assumed(64, "buffer size of a server; a document is read in pieces of at most this size"),
        "gets_a_log_write": _assumed(32, "the access log is buffered, and written 4 KB at a time"),
    },
}
STAND_IN_NAMES = tuple(STAND_IN_PARAMETERS)


def parameters_table() -> pd.DataFrame:
    """Return the parameters of all stand-ins as a table with a row for each parameter.

    A stand-in is a synthetic trace that replaces a trace of Park and Shen (2009), which is no longer available.

    Returns:
        A table with these columns:

        - ``workload``: name of the stand-in, such as ``Sandia-cth``.
        - ``parameter``: name of the parameter, such as ``processes``.
        - ``value``: its value, of any type.
        - ``basis``: ``stated`` if the paper by Park and Shen (2009) states the value; ``assumed`` otherwise.
        - ``why``: place in the paper, or reason of the assumption.
    """
    rows = [
        (workload, name, each.value, each.basis, each.why)
        for workload, parameters in STAND_IN_PARAMETERS.items()
        for name, each in parameters.items()
    ]
    return pd.DataFrame(rows, columns=["workload", "parameter", "value", "basis", "why"])


def stand_in(workload: str) -> Trace:
    """Return a synthetic trace of system calls that replaces an unpublished trace.

    The synthetic trace is called a stand-in. It has the properties that Park and Shen (2009) publish about the
    original. The calls are generated when the trace is read, and are the same on every machine. The processes are
    numbered from 0.

    Args:
        workload: Name of the stand-in, one of `STAND_IN_NAMES`, such as ``Sandia-cth``.

    Raises:
        CallsError: There is no such stand-in.
    """
    if workload not in STAND_IN_PARAMETERS:
        raise CallsError(f"no stand-in '{printable(workload)}'. Valid: {', '.join(STAND_IN_NAMES)}.")
    return Trace(workload, "stand-in", STAND_IN_FORM, lambda: form.call_tables(_calls(workload)))


def _calls(workload: str) -> Iterator[Call]:
    """Yield the calls of all processes of a stand-in in order of time.

    Args:
        workload: Name of the stand-in (synthetic trace), one of `STAND_IN_NAMES`.
    """
    values = {name: each.value for name, each in STAND_IN_PARAMETERS[workload].items()}
    steps = {"LANL": _segments, "Sandia": _mixed, "web": _documents}[workload.partition("-")[0]]
    if "checkpoints" in values:
        steps = _checkpoints
    tag = f"{STAND_IN_FILE_PREFIX}{workload.lower()}"

    def calls(process: int) -> Iterator[Call]:
        for number, (call, file, offset, size) in enumerate(steps(tag, process, values)):
            yield Call(process, number * values["pause_ns"], call, file, offset, size)

    return heapq.merge(*map(calls, range(values["processes"])), key=lambda call: (call.time_ns, call.process))


# Name, file, offset and size of a call
_Step = tuple[str, str, int, int]


def _open(file: str) -> _Step:
    return ("open", file, form.UNKNOWN, 0)


def _close(file: str) -> _Step:
    return ("close", file, form.UNKNOWN, 0)


class _Chance:
    """Random numbers for one process of a stand-in (synthetic trace).

    The same seed always gives the same numbers. Only Python's random() is used, because other versions of Python may
    have different versions of its other random functions.
    """

    def __init__(self, *seed: object) -> None:
        digest = hashlib.sha256("/".join(map(str, seed)).encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big")).random

    def below(self, bound: int) -> int:
        """Return a random integer from 0 to ``bound`` - 1."""
        return int(self._random() * bound)

    def happens(self, share: float) -> bool:
        """Return True with a probability of ``share``, a number from 0 to 1."""
        return self._random() < share

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        """Return the items in random order."""
        return [item for _, _, item in sorted((self._random(), number, item) for number, item in enumerate(items))]

    def size_bytes(self, label_kb: int) -> int:
        """Return a random size in bytes from a bucket (range of sizes).

        For example, bucket 8 has the sizes above 4 KB, up to and including 8 KB. Bucket 1 has the sizes from 1 byte to
        1 KB.

        Args:
            label_kb: Label of the bucket: the largest size in the bucket, in KB of 1024 bytes.
        """
        above = 0 if label_kb == 1 else label_kb * _KB // 2
        return above + 1 + self.below(label_kb * _KB - above)


def _segments(tag: str, process: int, values: Mapping[str, Any]) -> Iterator[_Step]:
    """Yield the calls of a process when all processes share one file (N-to-1).

    The process writes its own part of the file, and reads that part back. Before that, it may read a file of
    parameters.

    Args:
        tag: Beginning of all file names.
        process: Number of the process, from 0, which determines its part of the file.
        values: Parameters of the stand-in by name, see `STAND_IN_PARAMETERS`.
    """
    size = values["request_kb"] * _KB
    first = process * values["writes"] * size
    if values["other_reads"]:
        file = f"{tag}.parameters"
        yield _open(file)
        for number in range(values["other_reads"]):
            yield "read", file, number * size, size
        yield _close(file)
    file = f"{tag}.out"
    for call, count in (("write", values["writes"]), ("read", values["reads"])):
        yield _open(file)
        for number in range(count):
            offset = first + number * size
            yield "lseek", file, offset, 0
            yield call, file, offset, size
        yield _close(file)


def _mixed(tag: str, process: int, values: Mapping[str, Any]) -> Iterator[_Step]:
    """Yield reads and writes of all sizes in random order.

    Each process has its own files. A part of the requests is sequential; the offsets of all others are random.

    Args:
        tag: Beginning of all file names.
        process: Number of the process, from 0.
        values: Parameters of the stand-in by name, see `STAND_IN_PARAMETERS`.
    """
    chance = _Chance(tag, process)
    requests = [
        (call, chance.size_bytes(label))
        for call, counts in (("read", values["reads_by_kb"]), ("write", values["writes_by_kb"]))
        for label, count in counts.items()
        for _ in range(count)
    ]
    names = [f"{tag}.{number}.{process:02}" for number in range(values["files"])]
    ends: dict[tuple[str, str], int] = {}
    positions = dict.fromkeys(names, 0)
    for file in names:
        yield _open(file)
    for call, size in chance.shuffled(requests):
        file = names[chance.below(len(names))]
        is_sequential = chance.happens(values["sequential_share"])
        random_offset = chance.below(values["file_bytes"] - size + 1)
        offset = ends.get((call, file), 0)
        if not is_sequential or offset + size > values["file_bytes"]:
            offset = random_offset
        if offset != positions[file]:
            yield "lseek", file, offset, 0
        yield call, file, offset, size
        positions[file] = ends[call, file] = offset + size
    for file in names:
        yield _close(file)


def _checkpoints(tag: str, process: int, values: Mapping[str, Any]) -> Iterator[_Step]:
    """Yield the writes of a process to a new file at each checkpoint.

    Each file contains all variables, one after another.

    Args:
        tag: Beginning of all file names.
        process: Number of the process, from 0.
        values: Parameters of the stand-in by name, see `STAND_IN_PARAMETERS`.
    """
    size = values["request_kb"] * _KB
    for checkpoint in range(values["checkpoints"]):
        file = f"{tag}.{checkpoint}.{process:02}"
        yield _open(file)
        for variable in range(values["variables"]):
            yield "write", file, variable * size, size
        yield _close(file)


def _documents(tag: str, process: int, values: Mapping[str, Any]) -> Iterator[_Step]:
    """Yield the calls of one process of a web server.

    The process reads randomly chosen documents from start to end. Each time it has read a fixed number of documents, it
    writes to its log.

    Args:
        tag: Beginning of all file names.
        process: Number of the process, from 0.
        values: Parameters of the stand-in by name, see `STAND_IN_PARAMETERS`.
    """
    sizes_chance = _Chance(tag, "documents")
    sizes = [sizes_chance.size_bytes(label) for label, count in values["documents_by_kb"].items() for _ in range(count)]
    chance = _Chance(tag, process)
    piece = values["request_kb"] * _KB
    log, log_end = f"{tag}.log.{process:02}", 0
    yield _open(log)
    for get in range(values["gets"]):
        document = chance.below(values["documents"])
        file = f"{tag}.{document:04}"
        yield _open(file)
        for offset in range(0, sizes[document], piece):
            yield "read", file, offset, min(piece, sizes[document] - offset)
        yield _close(file)
        if get % values["gets_a_log_write"] == values["gets_a_log_write"] - 1:
            yield "write", log, log_end, 4 * _KB
            log_end += 4 * _KB
    yield _close(log)
