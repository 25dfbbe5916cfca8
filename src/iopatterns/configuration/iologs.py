"""I/O logs, which fio replays request by request: made for a cell, or a user's own, checked and written anew."""

import hashlib
import io
import itertools
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.input_file import whole_number
from iopatterns.base.messages import printable
from iopatterns.raw.records import CallTrace, FioOptions, Specification

if TYPE_CHECKING:
    import pandas as pd

    from iopatterns.calls import Trace

# The factors that have a cell's requests come from a log
LOG_OPTIONS = ("partitions", "replay", "read_iolog", "stand_in", "trace")
# A log made for a cell lasts for its runtime on any drive that does no more requests than this one after the other ...
_REQUESTS_PER_MS = 64
# ... up to a length that fio reads in no time
MAX_LOG_REQUESTS = 65_536
# Of a user's own log: more would take longer to read than to replay
_MOST_BYTES = 64 * 2**20
_MOST_OWN_REQUESTS = 1_000_000
_MOST_NAMED = 8  # processes, in a message
_LONGEST_LINE = 4_096  # a path, and three numbers
# Each half of a turn of a replay has one request for every 16 ms of the runtime. A hard disk, which takes about 8 ms a
# request, needs half the runtime for it, and completes both halves of the turn.
_MS_PER_TURN_REQUEST = 16
# The name in a log of what is read and written. fio puts the drive's target in its place (replay_redirect).
_NAME = "drive"
_MOVING = frozenset({"read", "write"})
_SYNCING = frozenset({"sync", "datasync"})
_FILE_ACTIONS = frozenset({"add", "open", "close"})


class IologError(IoPatternsError):
    """A log or trace is missing or is none that can be replayed; the message names file and line."""

    exit_status = 2


class LogRequest(NamedTuple):
    """One request of a log; ``time_us`` counts from the first."""

    time_us: int
    action: str
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class IoLog:
    """A user's own log: its requests in order, and the SHA-256 of the file."""

    requests: Sequence[LogRequest]
    sha256: str

    @property
    def rw(self) -> str:
        """What it does, as a value of fio's ``rw``: ``randread`` only where each request of it is a read."""
        actions = {request.action for request in self.requests}
        if actions == {"read"}:
            return "randread"
        return "randrw" if "read" in actions else "randwrite"

    @property
    def largest_bytes(self) -> int:
        """The size of its largest request."""
        return max(request.length_bytes for request in self.requests)

    @property
    def end_bytes(self) -> int:
        """How much of a drive it needs."""
        return max(request.offset_bytes + request.length_bytes for request in self.requests)


@dataclass(frozen=True)
class SyscallLog(IoLog):
    """What one process of a user's own trace asks of a bare drive; the SHA-256 is that of its requests.

    ``path``, ``only`` and ``process`` say what of which file they are, see `read_syscall_trace`.
    """

    path: str
    only: str
    process: int

    def planned(self) -> CallTrace:
        """Return what a specification says of it."""
        return {"path": self.path, "only": self.only, "process": self.process, "sha256": self.sha256}


def is_replay(options: FioOptions) -> bool:
    """Return whether a cell's requests come from a log."""
    return not options.keys().isdisjoint(LOG_OPTIONS)


def replayed_requests(
    specification: Specification, own: IoLog | None, randseed: int, runtime_ms: int
) -> Sequence[LogRequest] | None:
    """Return the requests that one execution of a cell replays, or None where fio makes them itself.

    ``own``: the log or trace that the cell names, if it does. Of one with times, what comes after the runtime is left
    out: fio would wait for it.
    """
    options = specification["fio"]
    if not is_replay(options):
        return None
    if own is not None:
        if options.get("replay_no_stall"):
            return own.requests
        return [request for request in own.requests if request.time_us < runtime_ms * 1000]
    if "stand_in" in options:
        return _of_stand_in(options["stand_in"])
    size_bytes = options.get("size", specification["drive"]["file_size_bytes"])
    blocks = _in_partitions if "partitions" in options else _in_turns
    length_bytes, base_bytes = options["bs"], options.get("offset", 0)
    count = min(MAX_LOG_REQUESTS, _REQUESTS_PER_MS * specification["runtime_ms"])
    found = blocks(options, size_bytes // length_bytes, specification["runtime_ms"], random.Random(randseed))
    return [
        LogRequest(0, action, base_bytes + block * length_bytes, length_bytes)
        for action, block in itertools.islice(found, count)
    ]


def _of_stand_in(workload: str) -> Sequence[LogRequest]:
    """Return what the first process of a stand-in reads and writes, its files one after another on the drive."""
    from iopatterns.calls import replaying, stand_ins  # pandas with it, which no other cell needs

    with tempfile.TemporaryDirectory(prefix="stand-in-") as folder:
        made = replaying.to_drive_iologs(stand_ins.stand_in(workload), Path(folder), processes=[0])
        return load_iolog(made.logs[0]).requests


def _in_partitions(
    options: FioOptions, blocks: int, _runtime_ms: int, _chance: random.Random
) -> Iterator[tuple[str, int]]:
    """Yield (action, block) without end: sequential in each of as many equal parts as asked for, the parts in turn."""
    parts = options["partitions"]
    blocks_a_part = blocks // parts
    for turn in itertools.count():
        for part in range(parts):
            yield options["rw"], part * blocks_a_part + turn % blocks_a_part


def _in_turns(options: FioOptions, blocks: int, runtime_ms: int, chance: random.Random) -> Iterator[tuple[str, int]]:
    """Yield (action, block) without end: requests at random, then the same ones again in the same order, and so on."""
    size = min(MAX_LOG_REQUESTS // 2, max(1, runtime_ms // _MS_PER_TURN_REQUEST))
    while True:
        # of Python's generator, only random() gives the same sequence in every version
        drawn = [int(chance.random() * blocks) for _ in range(size)]
        for action in options["replay"].split("-"):
            for block in drawn:
                yield action, block


def iolog_text(requests: Sequence[LogRequest]) -> str:
    """Return a log of version 3, which gives fio the time of each request in microseconds."""
    end_us = requests[-1].time_us if requests else 0
    # fio takes 0 for no time at all (delay_since_ttime in its iolog.c), and would not wait for the second request
    start_us = 1 if end_us else 0
    lines = ["fio version 3 iolog", f"{start_us} {_NAME} add", f"{start_us} {_NAME} open"]
    lines += [
        f"{start_us + time_us} {_NAME} {action} {offset} {length}" for time_us, action, offset, length in requests
    ]
    return "\n".join([*lines, f"{start_us + end_us} {_NAME} close\n"])


def count_transfers(requests: Sequence[LogRequest]) -> int:
    """Return how many of the requests read or write."""
    return sum(request.action in _MOVING for request in requests)


def read_syscall_trace(root: Path, path: str, only: str = "*", process: int | None = None) -> SyscallLog:
    """Return what one process in a trace of calls reads and writes, its files one after another on a bare drive.

    ``path``: a file below ``root`` of any form that `calls.open_trace` reads. ``only``: a pattern of the names of the
    files whose calls count. ``process``: the one that moves most bytes, and the lowest number of several such, where
    none is given. Raises IologError, which names file and line.
    """
    from iopatterns.calls import CallsError, Trace, open_trace, replaying  # pandas with it, which few cells need

    shown = printable(root / path)
    try:
        trace = open_trace([root / path], only=only)
        calls = _of_process(trace, shown, only, process)
        number = int(calls["process"].iloc[0])
        alone = Trace(trace.name, trace.origin, trace.form, lambda: iter([calls]))
        with tempfile.TemporaryDirectory(prefix="calls-") as folder:
            made = replaying.to_drive_iologs(alone, Path(folder), processes=[number])
            log = files.read_text_bounded(made.logs[number], _MOST_BYTES)
            requests = load_iolog(made.logs[number]).requests
    except CallsError as error:
        raise IologError(str(error)) from None
    return SyscallLog(requests, hashlib.sha256(log.encode()).hexdigest(), path, only, number)


def _of_process(trace: "Trace", shown: str, only: str, process: int | None) -> "pd.DataFrame":
    """Return the calls of one process that are replayed, in the order in which it made them."""
    import pandas as pd

    from iopatterns.calls.form import CALL_KINDS

    replayed = [call for call, kind in CALL_KINDS.items() if kind in {"read", "write", "sync"}]
    kept, count = [], 0
    there: set[int] = set()
    for piece in trace.pieces():
        there.update(map(int, piece.loc[piece["size_bytes"] > 0, "process"].unique()))
        asked = piece["call"].isin(replayed) & ((piece["process"] == process) if process is not None else True)
        kept.append(piece[asked])
        count += len(kept[-1])
        if count > _MOST_OWN_REQUESTS:
            raise IologError(
                f"{shown}: more than {_MOST_OWN_REQUESTS:,} requests. Name a process, or fewer files by `only`."
            )
    if not there:
        which = "a file" if only == "*" else f"a file that fits '{printable(only)}'"
        raise IologError(f"{shown}: no call in it reads or writes {which}")
    if process is not None and process not in there:
        some = ", ".join(map(str, sorted(there)[:_MOST_NAMED])) + (" …" if len(there) > _MOST_NAMED else "")
        raise IologError(f"{shown}: its process {process} reads and writes nothing. Others do: {some}.")
    calls = pd.concat(kept, ignore_index=True)
    if process is None:
        moved_bytes = calls.groupby("process")["size_bytes"].sum()  # by number, so that the lowest comes first
        process = int(moved_bytes.index[int(moved_bytes.argmax())])
    return calls[calls["process"] == process].reset_index(drop=True)


def load_iolog(path: Path) -> IoLog:
    """Return a log that fio or a user wrote, of version 2 or 3. Raises IologError with the line that is wrong."""
    shown = printable(path)
    try:
        content = files.read_text_bounded(path, _MOST_BYTES)
    except FileNotFoundError:
        raise IologError(f"{shown}: there is no such file. Put the log there, or correct the path.") from None
    except files.UnreadableError as error:
        raise IologError(f"{shown}: cannot be read: {error}") from None
    lines = io.StringIO(content)
    versions = {f"fio version {version} iolog": version for version in (2, 3)}
    head = lines.readline().strip()
    if head not in versions:
        raise IologError(f"{shown}: line 1: the first line of a log must be one of: {', '.join(versions)}")
    timed = versions[head] == 3
    requests: list[LogRequest] = []
    names = set()
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            name, request = _parsed(_words(line), timed=timed)
            if requests and request is not None and request.time_us < requests[-1].time_us:
                raise ValueError("its time lies before that of the line above")
            if len(requests) >= _MOST_OWN_REQUESTS:
                raise ValueError(f"a log has at most {_MOST_OWN_REQUESTS:,} requests; cut it to the part of interest")
        except ValueError as error:
            raise IologError(f"{shown}: line {number}: '{printable(line.rstrip())}': {error}") from None
        names.add(name)
        if request is not None:
            requests.append(request)
    if not count_transfers(requests):
        raise IologError(f"{shown}: holds no request that reads or writes")
    if len(names) > 1:
        some = ", ".join(map(printable, sorted(names)[:3]))
        raise IologError(
            f"{shown}: its requests go to {len(names)} files ({some} …), and a drive can stand"
            " for one. Keep the lines of one of them."
        )
    start_us = requests[0].time_us
    requests = [request._replace(time_us=request.time_us - start_us) for request in requests]
    return IoLog(requests, hashlib.sha256(content.encode()).hexdigest())


def _words(line: str) -> list[str]:
    """Return the words of a line. Raises ValueError for one that no log of fio's has."""
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"a line has at most {_LONGEST_LINE} characters")
    words = line.split()
    if not all(map(str.isprintable, words)):
        raise ValueError("it holds control characters")
    return words


def _parsed(words: Sequence[str], *, timed: bool) -> tuple[str, LogRequest | None]:
    """Return what a line is about: the file's name, and the request if it is one. Raises ValueError."""
    form = ("TIME " if timed else "") + "FILE ACTION [OFFSET LENGTH]"
    time_us = whole_number(words[0], "the time") if timed else 0
    rest = words[1:] if timed else words
    if len(rest) not in {2, 4}:
        raise ValueError(f"a line is {form}")
    name, action = rest[:2]
    if action in _FILE_ACTIONS:
        return name, None
    if action not in _MOVING | _SYNCING:
        remedy = "write times instead (version 3)" if action == "wait" else "leave such lines out"
        replayed = ", ".join(sorted(_MOVING | _SYNCING))
        raise ValueError(f"'{printable(action)}' is not replayed here, only {replayed}; {remedy}")
    if len(rest) == 2:
        if action in _MOVING:
            raise ValueError(f"a line is {form}")
        return name, LogRequest(time_us, action, 0, 0)
    offset_bytes, length_bytes = whole_number(rest[2], "the offset"), whole_number(rest[3], "the length")
    if action in _MOVING and not length_bytes:
        raise ValueError("a request of 0 bytes")
    return name, LogRequest(time_us, action, offset_bytes, length_bytes)
