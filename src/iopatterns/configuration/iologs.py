"""I/O logs: lists of requests that fio replays one by one.

A log is generated for a cell (one measured configuration), or read from a file of the user. It can also be made from a
trace of system calls.
"""

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

# The factors that replace the requests of fio by a log
LOG_OPTIONS = ("partitions", "replay", "read_iolog", "stand_in", "trace")
# The rate up to which a generated log lasts for the complete runtime, with one request at a time ...
_REQUESTS_PER_MS = 64
# ... up to this length, which fio reads quickly
MAX_LOG_REQUESTS = 65_536
# Limits for logs of the user; longer logs would take longer to read than to replay
_MOST_BYTES = 64 * 2**20
_MOST_OWN_REQUESTS = 1_000_000
_MOST_NAMED = 8  # processes in a message
_LONGEST_LINE = 4_096  # a path and three numbers
# A replay repeats pairs of phases with the same requests, one for every 16 ms of the runtime. A hard disk takes about
# 8 ms for a request, and therefore completes one pair in the runtime.
_MS_PER_TURN_REQUEST = 16
# The file name in a log. fio replaces it by the drive (replay_redirect).
_NAME = "drive"
_TRANSFERS = frozenset({"read", "write"})
_SYNCS = frozenset({"sync", "datasync"})
_FILE_ACTIONS = frozenset({"add", "open", "close"})


class IologError(IoPatternsError):
    """The error raised for a missing or invalid I/O log or trace of system calls.

    The message names the file and, where it applies, the line. A command that ends with this error has the exit status
    2.
    """

    exit_status = 2


class LogRequest(NamedTuple):
    """A request in an I/O log, which fio replays on a drive.

    Attributes:
        time_us: Time since the first request, in µs. It is 0 in logs without times.
        action: ``read``, ``write``, ``sync`` or ``datasync``.
        offset_bytes: Position on the drive; 0 for a sync without a position.
        length_bytes: Length of the request; 0 for a sync without a length.
    """

    time_us: int
    action: str
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class IoLog:
    """An I/O log that the user provides: a list of requests that fio replays.

    Attributes:
        requests: The requests in their order, at least one of them a read or write.
        sha256: SHA-256 sum of the file, in hexadecimal digits.
    """

    requests: Sequence[LogRequest]
    sha256: str

    @property
    def rw(self) -> str:
        """The value of the fio option ``rw`` that describes all requests together.

        - ``randread`` if all requests are reads
        - ``randrw`` if there are reads and other requests
        - ``randwrite`` if there are no reads
        """
        actions = {request.action for request in self.requests}
        if actions == {"read"}:
            return "randread"
        return "randrw" if "read" in actions else "randwrite"

    @property
    def largest_bytes(self) -> int:
        """The length of the largest request in bytes; syncs count, too."""
        return max(request.length_bytes for request in self.requests)

    @property
    def end_bytes(self) -> int:
        """The end of the furthest request, in bytes from the start of the drive.

        The drive must be at least as large.
        """
        return max(request.offset_bytes + request.length_bytes for request in self.requests)


@dataclass(frozen=True)
class SyscallLog(IoLog):
    """The requests of one process, from the user's trace of system calls.

    The requests go to a drive without a file system. The files of the process are placed one after another on the
    drive. ``sha256`` is the sum of an I/O log with these requests.

    Attributes:
        path: The file of the trace, relative to the project.
        only: A shell pattern of file names, such as ``/home/me/*``. Calls on other files were ignored.
        process: The number of the process.
    """

    path: str
    only: str
    process: int

    def planned(self) -> CallTrace:
        """Return what the specification of a cell stores about these requests of a trace.

        A cell is one configuration: a drive, its settings and a workload. Its specification identifies it.

        Returns:
            A dictionary with the keys ``path`` (of the trace), ``only`` (pattern of the files whose requests are
            replayed), ``process`` (number of the process whose requests are replayed) and ``sha256`` (of the requests).
        """
        return {"path": self.path, "only": self.only, "process": self.process, "sha256": self.sha256}


def is_replay(options: FioOptions) -> bool:
    """Return whether fio replays the requests of a cell from an I/O log.

    Otherwise fio generates the requests. A cell is one configuration: a drive, its settings and a workload.

    Args:
        options: The fio options of the cell, including those of this package that are replaced by a log
            (`LOG_OPTIONS`).
    """
    return not options.keys().isdisjoint(LOG_OPTIONS)


def replayed_requests(
    specification: Specification, own: IoLog | None, randseed: int, runtime_ms: int
) -> Sequence[LogRequest] | None:
    """Return the requests that fio replays from an I/O log in a repetition of a cell.

    A cell is one configuration: a drive, its settings and a workload. A repetition is one run of fio for it. The result
    is None if fio generates the requests of the cell itself.

    Args:
        specification: The specification of the cell.
        own: The log or trace of the user that the cell replays; None for all other cells.
        randseed: The seed of the repetition, for the random requests of the option ``replay``.
        runtime_ms: The runtime of fio in milliseconds. Requests of ``own`` with later times are left out, unless the
            cell has the fio option ``replay_no_stall``.
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
    length_bytes, base_bytes = options["bs"], options.get("offset", 0)
    blocks = options.get("size", specification["drive"]["file_size_bytes"]) // length_bytes
    if "partitions" in options:
        generated = _in_partitions(options, blocks)
    else:
        generated = _in_turns(options, blocks, specification["runtime_ms"], random.Random(randseed))
    count = min(MAX_LOG_REQUESTS, _REQUESTS_PER_MS * specification["runtime_ms"])
    return [
        LogRequest(0, action, base_bytes + block * length_bytes, length_bytes)
        for action, block in itertools.islice(generated, count)
    ]


def _of_stand_in(workload: str) -> Sequence[LogRequest]:
    """Return the requests of the first process of a synthetic trace.

    The files of the process follow one another on the drive.

    Args:
        workload: Name of the application that the trace imitates, such as ``Sandia-cth``.
    """
    from iopatterns.calls import replaying, stand_ins  # imports pandas, which no other cell needs

    with tempfile.TemporaryDirectory(prefix="stand-in-") as folder:
        made = replaying.to_drive_iologs(stand_ins.stand_in(workload), Path(folder), processes=[0])
        return load_iolog(made.logs[0]).requests


def _in_partitions(options: FioOptions, blocks: int) -> Iterator[tuple[str, int]]:
    """Yield (action, block) without end, for the option ``partitions``.

    The file is divided into equal parts. The requests go to one part after the other, and proceed sequentially in each
    part.

    Args:
        options: The fio options of the cell.
        blocks: Number of blocks in the used part of the file.
    """
    parts = options["partitions"]
    blocks_per_part = blocks // parts
    for turn in itertools.count():
        for part in range(parts):
            yield options["rw"], part * blocks_per_part + turn % blocks_per_part


def _in_turns(options: FioOptions, blocks: int, runtime_ms: int, chance: random.Random) -> Iterator[tuple[str, int]]:
    """Yield (action, block) without end, for the option ``replay``.

    For ``replay=write-read``, the phases are writes of random blocks, and reads of the same blocks in the same order.
    After each pair of phases, other random blocks are drawn.

    Args:
        options: The fio options of the cell.
        blocks: Number of blocks in the used part of the file.
        runtime_ms: The runtime of fio, which determines the number of requests in a phase.
        chance: The generator of random numbers.
    """
    size = min(MAX_LOG_REQUESTS // 2, max(1, runtime_ms // _MS_PER_TURN_REQUEST))
    while True:
        # random() is the only method with the same sequence in every version of Python
        drawn = [int(chance.random() * blocks) for _ in range(size)]
        for action in options["replay"].split("-"):
            for block in drawn:
                yield action, block


def iolog_text(requests: Sequence[LogRequest]) -> str:
    """Return requests as the text of an I/O log of fio, version 3.

    Such a log contains the time of each request in microseconds. The file name in the log is ``drive``. fio replaces
    the name if it has the option ``replay_redirect``.

    Args:
        requests: The requests, in order of time.
    """
    end_us = requests[-1].time_us if requests else 0
    # fio ignores the time 0 (delay_since_ttime in its iolog.c), and would not wait for the second request
    start_us = 1 if end_us else 0
    lines = ["fio version 3 iolog", f"{start_us} {_NAME} add", f"{start_us} {_NAME} open"]
    lines += [
        f"{start_us + time_us} {_NAME} {action} {offset} {length}" for time_us, action, offset, length in requests
    ]
    return "\n".join([*lines, f"{start_us + end_us} {_NAME} close\n"])


def count_transfers(requests: Sequence[LogRequest]) -> int:
    """Return the number of requests that are reads or writes, not syncs."""
    return sum(request.action in _TRANSFERS for request in requests)


def read_syscall_trace(root: Path, path: str, only: str = "*", process: int | None = None) -> SyscallLog:
    """Return the requests of one process, from a trace of system calls.

    The requests go to a drive without a file system. The files of the process are placed one after another on the
    drive. The trace may have at most 1,000,000 reads, writes and syncs that are selected by ``only`` and ``process``.

    Args:
        root: The folder of the project.
        path: The trace, relative to ``root``, in any format that `calls.open_trace` reads, such as the output of
            strace.
        only: A shell pattern of file names, such as ``/home/me/*``. Calls on other files are ignored.
        process: The number of the process. None selects the process that transfers most bytes. If several processes
            transfer equally many bytes, it is the one with the lowest number.

    Raises:
        IologError: The trace cannot be read or replayed, or the process reads and writes nothing. The message names the
            file and, where it applies, the line.
    """
    from iopatterns.calls import CallsError, Trace, open_trace, replaying  # imports pandas, which few cells need

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
    """Return the calls of one process that can be replayed, in their order.

    These are reads, writes and syncs.

    Args:
        trace: The trace.
        shown: Path of the trace, for messages.
        only: The pattern with which the trace was opened, for messages.
        process: The number of the process; None for the process that transfers most bytes.

    Raises:
        IologError: The trace has too many requests, or the process reads and writes nothing.
    """
    import pandas as pd

    from iopatterns.calls.form import CALL_KINDS

    replayed = [call for call, kind in CALL_KINDS.items() if kind in {"read", "write", "sync"}]
    pieces, count = [], 0
    transferring: set[int] = set()
    for piece in trace.pieces():
        transferring.update(map(int, piece.loc[piece["size_bytes"] > 0, "process"].unique()))
        selected = piece["call"].isin(replayed) & ((piece["process"] == process) if process is not None else True)
        pieces.append(piece[selected])
        count += len(pieces[-1])
        if count > _MOST_OWN_REQUESTS:
            raise IologError(
                f"{shown}: more than {_MOST_OWN_REQUESTS:,} requests. Select a process, or fewer files with `only`."
            )
    if not transferring:
        which = "a file" if only == "*" else f"a file that matches '{printable(only)}'"
        raise IologError(f"{shown}: no call reads or writes {which}")
    if process is not None and process not in transferring:
        some = ", ".join(map(str, sorted(transferring)[:_MOST_NAMED])) + (
            " …" if len(transferring) > _MOST_NAMED else ""
        )
        raise IologError(f"{shown}: process {process} reads and writes nothing. Processes that do: {some}.")
    calls = pd.concat(pieces, ignore_index=True)
    if process is None:
        moved_bytes = calls.groupby("process")["size_bytes"].sum()  # sorted by number
        process = int(moved_bytes.index[int(moved_bytes.argmax())])
    return calls[calls["process"] == process].reset_index(drop=True)


def load_iolog(path: Path) -> IoLog:
    """Return the requests in an I/O log of fio, version 2 or 3.

    The log may have at most 64 MiB and 1,000,000 requests, which all go to one file.

    Args:
        path: The file, written by fio (option write_iolog) or by the user.

    Returns:
        The requests, with times since the first request, and the SHA-256 sum of the file.

    Raises:
        IologError: The file is missing or is not a valid log, or no request reads or writes. The message names the file
            and, where it applies, the line.
    """
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
                raise ValueError("its time is before the time of the previous line")
            if len(requests) >= _MOST_OWN_REQUESTS:
                raise ValueError(f"a log has at most {_MOST_OWN_REQUESTS:,} requests; cut it to the part of interest")
        except ValueError as error:
            raise IologError(f"{shown}: line {number}: '{printable(line.rstrip())}': {error}") from None
        names.add(name)
        if request is not None:
            requests.append(request)
    if not count_transfers(requests):
        raise IologError(f"{shown}: no request reads or writes")
    if len(names) > 1:
        some = ", ".join(map(printable, sorted(names)[:3]))
        raise IologError(
            f"{shown}: its requests go to {len(names)} files ({some} …), but a drive replaces only one."
            " Keep the lines of one file."
        )
    start_us = requests[0].time_us
    requests = [request._replace(time_us=request.time_us - start_us) for request in requests]
    return IoLog(requests, hashlib.sha256(content.encode()).hexdigest())


def _words(line: str) -> list[str]:
    """Return the words of a line, after checking its length and characters.

    Raises:
        ValueError: The line is too long, or contains control characters.
    """
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"a line has at most {_LONGEST_LINE} characters")
    words = line.split()
    if not all(map(str.isprintable, words)):
        raise ValueError("it contains control characters")
    return words


def _parsed(words: Sequence[str], *, timed: bool) -> tuple[str, LogRequest | None]:
    """Return the file name in a line of a log, and its request.

    The request is None if the line opens or closes the file.

    Args:
        words: The words of the line.
        timed: Whether the first word is a time, as in version 3.

    Raises:
        ValueError: The line is malformed, or its action is not supported.
    """
    syntax = ("TIME " if timed else "") + "FILE ACTION [OFFSET LENGTH]"
    time_us = whole_number(words[0], "the time") if timed else 0
    rest = words[1:] if timed else words
    if len(rest) not in {2, 4}:
        raise ValueError(f"the syntax is {syntax}")
    name, action = rest[:2]
    if action in _FILE_ACTIONS:
        return name, None
    if action not in _TRANSFERS | _SYNCS:
        remedy = "write times instead (version 3)" if action == "wait" else "remove such lines"
        replayed = ", ".join(sorted(_TRANSFERS | _SYNCS))
        raise ValueError(f"'{printable(action)}' is not supported, only {replayed}; {remedy}")
    if len(rest) == 2:
        if action in _TRANSFERS:
            raise ValueError(f"the syntax is {syntax}")
        return name, LogRequest(time_us, action, 0, 0)
    offset_bytes, length_bytes = whole_number(rest[2], "the offset"), whole_number(rest[3], "the length")
    if action in _TRANSFERS and not length_bytes:
        raise ValueError("a request of 0 bytes")
    return name, LogRequest(time_us, action, offset_bytes, length_bytes)
