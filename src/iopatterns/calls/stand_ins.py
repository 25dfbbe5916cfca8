"""Stand-ins for the traces of Park and Shen (2009).

Stand-ins are synthetic traces of system calls with the properties that the paper states. `STAND_IN_PARAMETERS` lists
all their parameters. For each it says whether the paper states the value or the value is assumed. Assumptions that
decide published claims have a range of plausible values. A trace depends on the parameters alone. So it has the same
calls on every machine and with every version of Python.

The authors published the traces in the format of their own trace player, as zip archives on the web page
www.cs.rochester.edu/research/os/iobench/. What was tried to obtain the archives is listed in
data/workloads/park2009/README.md.
"""

import hashlib
import heapq
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from types import MappingProxyType
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

    A stand-in is a synthetic trace that replaces a trace of Park and Shen (2009).

    Attributes:
        value: The value.
        why: Place in the paper by Park and Shen (2009), or reason of the assumption.
        basis: ``stated`` if the paper states the value; ``assumed`` otherwise.
        range: Other plausible values of an assumption that decides claims: the smallest and the largest number, or all
            words. Empty if the value is stated, or decides no claim.
    """

    value: Any
    why: str
    basis: Literal["stated", "assumed"]
    range: tuple[Any, ...] = ()


_stated = partial(SourcedValue, basis="stated")
_assumed = partial(SourcedValue, basis="assumed")
_VOLUME = "about ten times the largest cache of table II, 16 MB, so that the cache absorbs little of it"
_MIX = (
    "figures 1 and 2 are not readable as numbers; the text says less regular, from below 1 KB to 2048 KB: as many"
    " requests in each of their twelve buckets"
)
_OWN_SEGMENT, _NEXT_SEGMENT = "own segment", "next segment"
_INTERLEAVED, _READS_FIRST = "interleaved", "reads first"
_COMMON = {
    "processes": _stated(32, "section III-A for LANL; figure 4 replays 32 unique traces of each of Sandia's"),
    "pause_ns": _assumed(1_000_000, "times are not published; only the access maps use them, replays do not wait"),
}
_LANL = {
    "reads_of": _assumed(
        _OWN_SEGMENT,
        "MPI_IO_TEST reads back what the processes wrote; a process reads its own part from the page cache of 2 GB, the"
        " part of the next process from the drive; the paper does not say which",
        range=(_OWN_SEGMENT, _NEXT_SEGMENT),
    ),
}
_SANDIA = {
    "files": _assumed(2, "a full application uses several files; their number is not published"),
    "file_bytes": _assumed(64 * 2**20, "not published; two such files are a little less than what a process transfers"),
    "sequential_share": _assumed(
        0.4,
        "table I: Unrecognized pattern, not Sequential; the middle of the range. From 0.9, our table I calls a pattern"
        " sequential",
        range=(0.0, 0.85),
    ),
    "order": _assumed(
        _INTERLEAVED,
        "section II: in a full application reads and writes may be interleaved in a complex way; otherwise a process"
        " reads its input before it writes results",
        range=(_INTERLEAVED, _READS_FIRST),
    ),
}
_BUCKETS_KB = tuple(2**power for power in range(12))

# Parameters of each stand-in. Sizes of requests are in KB of 1024 bytes, as in the labels of the paper's figures.
STAND_IN_PARAMETERS: Mapping[str, Mapping[str, SourcedValue]] = {
    "LANL-64KB": {
        **_COMMON,
        **_LANL,
        "read_share": _stated(0.51, "table I"),
        "request_kb": _stated(64, "section III-A"),
        "writes": _assumed(2560, f"160 MiB per process: {_VOLUME}"),
        "reads": _assumed(2560, "MPI_IO_TEST reads back what it wrote"),
        "other_reads": _assumed(
            104, "of a file of parameters, which gives the 0.51 of table I; its cause is not published"
        ),
    },
    "LANL-1024KB": {
        **_COMMON,
        **_LANL,
        "read_share": _stated(0.50, "table I"),
        "request_kb": _stated(1024, "section III-A"),
        "writes": _assumed(160, f"160 MiB per process: {_VOLUME}"),
        "reads": _assumed(160, "MPI_IO_TEST reads back what it wrote"),
        "other_reads": _assumed(0, "the 0.50 of table I excludes other reads"),
    },
    "Sandia-alegra": {
        **_COMMON,
        **_SANDIA,
        "read_share": _stated(0.14, "table I"),
        # number of requests by the label of their bucket: 84 reads and 516 writes
        "reads_by_kb": _assumed(dict.fromkeys(_BUCKETS_KB, 7), _MIX),
        "writes_by_kb": _assumed(dict.fromkeys(_BUCKETS_KB, 43), f"{_MIX}; 150 MiB per process: {_VOLUME}"),
    },
    "Sandia-cth": {
        **_COMMON,
        **_SANDIA,
        "read_share": _stated(0.67, "table I"),
        # 408 reads and 204 writes
        "reads_by_kb": _assumed(dict.fromkeys(_BUCKETS_KB, 34), _MIX),
        "writes_by_kb": _assumed(dict.fromkeys(_BUCKETS_KB, 17), f"{_MIX}; 150 MiB per process: {_VOLUME}"),
    },
    "Sandia-s3d": {
        **_COMMON,
        "read_share": _stated(0.0, "table I"),
        "request_kb": _assumed(1024, "a variable of 64 x 64 x 32 doubles; the paper says only that sizes are regular"),
        "variables": _assumed(16, "11 species, velocity in 3 directions, pressure and temperature"),
        "checkpoints": _assumed(10, f"160 MiB per process, each checkpoint in a file of its own: {_VOLUME}"),
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
        "gets": _assumed(192, "about 4 MiB per process: no cache absorbs reads that come after empty caches"),
        "request_kb": _assumed(64, "buffer size of a server; a document is read in pieces of at most this size"),
        "gets_a_log_write": _assumed(32, "the access log is buffered, and written 4 KB at a time"),
    },
}
STAND_IN_NAMES = tuple(STAND_IN_PARAMETERS)


def parameters_table() -> pd.DataFrame:
    """Return the parameters of all stand-ins as a table with a row for each parameter.

    A stand-in is a synthetic trace that replaces a trace of Park and Shen (2009).

    Returns:
        A table with these columns:

        - ``workload``: name of the stand-in, such as ``Sandia-cth``.
        - ``parameter``: name of the parameter, such as ``processes``.
        - ``value``: its value, of any type.
        - ``basis``: ``stated`` if the paper by Park and Shen (2009) states the value; ``assumed`` otherwise.
        - ``range``: other plausible values of an assumption that decides claims, see `SourcedValue`.
        - ``why``: place in the paper, or reason of the assumption.
    """
    rows = [
        (workload, name, each.value, each.basis, each.range, each.why)
        for workload, parameters in STAND_IN_PARAMETERS.items()
        for name, each in parameters.items()
    ]
    return pd.DataFrame(rows, columns=["workload", "parameter", "value", "basis", "range", "why"])


def stand_in(workload: str, changes: Mapping[str, Any] = MappingProxyType({}), part: Fraction = Fraction(1)) -> Trace:
    """Return a synthetic trace of system calls that replaces a trace of the paper.

    The synthetic trace is called a stand-in. It has the properties that Park and Shen (2009) publish about the
    original. The calls are generated when the trace is read, and are the same on every machine. The processes are
    numbered from 0.

    Args:
        workload: Name of the stand-in, one of `STAND_IN_NAMES`, such as ``Sandia-cth``.
        changes: Other values of assumptions that have a range, such as ``{"sequential_share": 0.85}``.
        part: Share of the calls of each process, from its first call on.

    Raises:
        CallsError: There is no such stand-in, or a changed value is not in its range.
    """
    if workload not in STAND_IN_PARAMETERS:
        raise CallsError(f"no stand-in '{printable(workload)}'. Valid: {', '.join(STAND_IN_NAMES)}.")
    for name, value in changes.items():
        _check_change(workload, name, value)
    values = {name: each.value for name, each in STAND_IN_PARAMETERS[workload].items()} | dict(changes)
    return Trace(workload, "stand-in", STAND_IN_FORM, lambda: form.call_tables(_calls(workload, values, part)))


def _check_change(workload: str, name: str, value: object) -> None:
    """Raise CallsError unless a value is in the range of a parameter.

    Args:
        workload: Name of a stand-in (synthetic trace).
        name: Name of the parameter.
        value: The value.
    """
    ranges = {name: each.range for name, each in STAND_IN_PARAMETERS[workload].items() if each.range}
    if name not in ranges:
        raise CallsError(
            f"stand-in {workload}: '{printable(name)}' is not an assumption with a range. Valid:"
            f" {', '.join(ranges) or 'none'}."
        )
    ends = ranges[name]
    if isinstance(ends[0], str):
        is_valid, valid = value in ends, ", ".join(ends)
    else:
        is_valid, valid = isinstance(value, (int, float)) and ends[0] <= value <= ends[1], f"{ends[0]} to {ends[1]}"
    if not is_valid:
        raise CallsError(f"stand-in {workload}: {name}: '{printable(value)}' is not valid. Valid: {valid}.")


def _calls(workload: str, values: Mapping[str, Any], part: Fraction) -> Iterator[Call]:
    """Yield the calls of all processes of a stand-in in order of time.

    Args:
        workload: Name of the stand-in (synthetic trace), one of `STAND_IN_NAMES`.
        values: Values of its parameters by name, see `STAND_IN_PARAMETERS`.
        part: Share of the calls of each process, from its first call on.
    """
    steps = {"LANL": _segments, "Sandia": _mixed, "web": _documents}[workload.partition("-")[0]]
    if "checkpoints" in values:
        steps = _checkpoints
    tag = f"{STAND_IN_FILE_PREFIX}{workload.lower()}"

    def calls(process: int) -> Iterator[Call]:
        all_steps = list(steps(tag, process, values))
        for number, (call, file, offset, size) in enumerate(all_steps[: math.ceil(part * len(all_steps))]):
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

    The process writes its own part of the file. Then it reads this part, or the part of the next process. Before all
    that, it may read a file of parameters.

    Args:
        tag: Beginning of all file names.
        process: Number of the process, from 0, which determines its part of the file.
        values: Parameters of the stand-in by name, see `STAND_IN_PARAMETERS`.
    """
    size = values["request_kb"] * _KB
    reads_from = (process + (values["reads_of"] == _NEXT_SEGMENT)) % values["processes"]
    if values["other_reads"]:
        file = f"{tag}.parameters"
        yield _open(file)
        for number in range(values["other_reads"]):
            yield "read", file, number * size, size
        yield _close(file)
    file = f"{tag}.out"
    for call, count, segment in (("write", values["writes"], process), ("read", values["reads"], reads_from)):
        yield _open(file)
        for number in range(count):
            offset = (segment * values["writes"] + number) * size
            yield "lseek", file, offset, 0
            yield call, file, offset, size
        yield _close(file)


def _mixed(tag: str, process: int, values: Mapping[str, Any]) -> Iterator[_Step]:
    """Yield reads and writes of all sizes in random order.

    Each process has its own files. A part of the requests is sequential; the offsets of all others are random. All
    reads may come before all writes.

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
    shuffled = chance.shuffled(requests)
    if values["order"] == _READS_FIRST:
        shuffled.sort(key=lambda request: request[0])  # stable
    for call, size in shuffled:
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
