"""Calls as I/O logs that fio replays: one log a process, and what must be there before they are replayed.

What fio 3.33 makes of such logs was tried, and is why they are written as they are:

- It refuses to open a file that is open. So a file is opened in a log where it is first used, and closed with its
  last close.
- A request of no bytes ends the replay without a word. These are left out.
- It creates missing files where a log writes, but no folders. What is read must be there, to its last byte.
- `directory` does not go with `read_iolog`. Files are named from fio's working directory, or by whole paths.
- With threads (`thread=1`), jobs by `numjobs` and a list of logs crash where two logs name one file. A job of its own
  for each log does not.
- `replay_redirect` crashes on a log with several files: it is for the logs of `to_drive_iologs`.
- `sync` and `datasync` need an offset and a length, though both mean nothing.
- Logs have no truncation, and seeks say nothing that requests do not. Both are left out.
"""

import bisect
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from iopatterns.base import files
from iopatterns.base.input_file import printable
from iopatterns.calls.form import CALL_KINDS, Call, CallsError, Trace

_SYNCS = {"fsync": "sync", "fdatasync": "datasync"}
_LONGEST_FILE = 100  # fio reads names of up to 256 characters
_FILL_BYTES = 2**20
# The name in a log on a bare drive. fio puts the drive in its place (replay_redirect).
_DRIVE = "drive"


@dataclass(frozen=True)
class WrittenIologs:
    """Logs written for fio: their paths by process, and what must be there before they are replayed.

    ``sizes_bytes``: how large each file must at least be, with content, because a process reads what it has not
    written; by the file's name in the logs, 0 where it need not be there. Of a bare drive, how much of it is used.
    ``names``: the name in the logs of each file of the trace.
    """

    logs: Mapping[int, Path]
    sizes_bytes: Mapping[str, int]
    names: Mapping[str, str]

    def job_file(self, options: Mapping[str, object]) -> str:
        """Return a job file of fio with these options for all jobs, and a job for each log, named ``processN``."""
        lines = ["[global]", *(f"{name}={value}" for name, value in options.items())]
        for process, log in self.logs.items():
            lines += [f"[process{process}]", f"read_iolog={log}"]
        return "\n".join(lines) + "\n"


def to_iologs(
    trace: Trace, folder: Path, *, processes: Collection[int] | None = None, within: str = "", timed: bool = False
) -> WrittenIologs:
    """Write a log for each of the processes that read or write, to be replayed on files, as ``TRACE.PROCESS.log``.

    ``processes``: all by default. ``within``: what the names of files begin with, such as ``/mnt/``; they are in one
    folder and have plain names. Without ``timed`` requests follow one another at once (version 2); with it fio waits
    for their times (version 3). Raises CallsError, also for a process that is not in the trace or does neither.
    """
    if not re.fullmatch(r"[^\s:]{0,120}", within):
        raise CallsError(
            f"'{printable(within)}': fio's logs have names without spaces and colons, of at most 120 characters"
        )
    names = _Names(within)
    jobs = _Jobs(lambda: _OnFiles(names), timed)
    logs = _write(trace, folder, processes, jobs)
    sizes = dict.fromkeys(sorted(names.given.values()), 0)
    for job in jobs.by_process.values():
        for file, size in job.needed_bytes.items():
            sizes[file] = max(sizes[file], size)
    return WrittenIologs(logs, sizes, dict(names.given))


def to_drive_iologs(
    trace: Trace,
    folder: Path,
    *,
    processes: Collection[int] | None = None,
    offset_bytes: int = 0,
    alignment_bytes: int = 4096,
    timed: bool = False,
) -> WrittenIologs:
    """Write a log for each process as `to_iologs` does, to be replayed on a bare drive, which stands for all files.

    The files that the processes use lie one after another from ``offset_bytes`` on, in the order in which the trace
    first names them, each as long as it is read or written. Requests begin and end at multiples of ``alignment_bytes``:
    they are made longer by what is missing, as a file system's pages are.
    """
    ends: dict[str, int] = {}
    for call in _requests(trace, processes):
        ends[call.file] = max(ends.get(call.file, 0), call.offset_bytes + call.size_bytes)
    starts, end = {}, offset_bytes
    for file, its_end in ends.items():
        starts[file] = end
        end += -(-its_end // alignment_bytes) * alignment_bytes
    logs = _write(trace, folder, processes, _Jobs(lambda: _OnDrive(starts, alignment_bytes), timed))
    return WrittenIologs(logs, {_DRIVE: end}, dict.fromkeys(starts, _DRIVE))


def write_replay_folder(
    trace: Trace, folder: Path, *, processes: Collection[int] | None = None, timed: bool = False, drive: bool = False
) -> Path:
    """Make a new folder with all that fio needs to replay a trace, and return the job file in it, ``replay.fio``.

    The logs are in ``logs``; the files that they use, as large as they must be before, in ``files``. For a bare
    ``drive`` there are none: the job file takes it from the environment, as `twin run` says it (TWIN_DRIVE).

    Raises CallsError.
    """
    if folder.exists() and any(folder.iterdir()):
        raise CallsError(f"{printable(folder)}: is not empty. Give a new folder.")
    whole = folder.absolute()
    options: dict[str, object] = {"ioengine": "psync", "thread": 1}
    if drive:
        made = to_drive_iologs(trace, whole / "logs", processes=processes, timed=timed)
        options |= {"replay_redirect": "${TWIN_DRIVE}", "direct": 1}
    else:
        within = f"{whole / 'files'}/"
        made = to_iologs(trace, whole / "logs", processes=processes, within=within, timed=timed)
        for name, size in made.sizes_bytes.items():
            _fill(Path(name), size)
    job_file = folder / "replay.fio"
    files.write_atomically(job_file, lambda path: path.write_text(made.job_file(options), encoding="utf-8"))
    return job_file


def _fill(path: Path, size_bytes: int) -> None:
    """Write a file of so many bytes, which no drive can compress away or leave out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = hashlib.shake_256(path.name.encode()).digest(_FILL_BYTES)
    with open(path, "wb") as file:
        for begin in range(0, size_bytes, _FILL_BYTES):
            file.write(part[: size_bytes - begin])


def _rows(piece: pd.DataFrame, processes: Collection[int] | None) -> Iterator[Call]:
    if processes is not None:
        piece = piece[piece["process"].isin(list(processes))]
    return (Call(*row) for row in piece.itertuples(index=False, name=None))


def _requests(trace: Trace, processes: Collection[int] | None) -> Iterator[Call]:
    """Yield what the processes read and write."""
    for piece in trace.pieces():
        for row in _rows(piece, processes):
            if row.size_bytes and CALL_KINDS[row.call] in {"read", "write"}:
                yield row


class _Names:
    """Names of files as logs can have them: each of its own, in one folder, without spaces."""

    def __init__(self, within: str) -> None:
        self._within = within
        self.given: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, file: str) -> str:
        """Return the name in logs of a file of the trace."""
        if file not in self.given:
            plain = re.sub(r"[^A-Za-z0-9._-]", "_", file.strip("/"))[-_LONGEST_FILE:] or "file"
            name, number = plain, 1
            while name in self._taken:
                number += 1
                name = f"{plain}.{number}"
            self._taken.add(name)
            self.given[file] = self._within + name
        return self.given[file]


class _OnFiles:
    """What is to stand in the log of one process for each of its calls, where files are replayed."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._added: set[str] = set()
        self._opened: dict[str, int] = {}  # how many descriptors the process has of each file
        self._in_log: set[str] = set()  # which files are open in the log
        self._written: dict[str, _Ranges] = {}
        self.needed_bytes: dict[str, int] = {}

    def lines(self, row: Call) -> Iterator[str]:
        """Yield the lines of a call."""
        kind = CALL_KINDS[row.call]
        if kind in {"open", "duplicate"}:
            self._opened[row.file] = self._opened.get(row.file, 0) + 1
        elif kind == "close":
            left = max(0, self._opened.get(row.file, 0) - 1)
            self._opened[row.file] = left
            if not left and row.file in self._in_log:
                self._in_log.remove(row.file)
                yield f"{self._names.of(row.file)} close"
        elif kind == "sync":
            if row.file in self._in_log:
                yield f"{self._names.of(row.file)} {_SYNCS[row.call]} 0 0"
        elif kind in {"read", "write"} and row.size_bytes:
            name = self._names.of(row.file)
            if name not in self._added:
                self._added.add(name)
                yield f"{name} add"
            if row.file not in self._in_log:
                self._in_log.add(row.file)
                yield f"{name} open"
            yield f"{name} {kind} {row.offset_bytes} {row.size_bytes}"
            self._note(name, kind, row.offset_bytes, row.offset_bytes + row.size_bytes)

    def _note(self, name: str, kind: str, begin: int, end: int) -> None:
        written = self._written.setdefault(name, _Ranges())
        if kind == "write":
            written.add(begin, end)
        elif not written.cover(begin, end):
            self.needed_bytes[name] = max(self.needed_bytes.get(name, 0), end)

    def end(self) -> Iterator[str]:
        """Yield the lines that end the log."""
        for file in sorted(self._in_log):
            yield f"{self._names.of(file)} close"


class _OnDrive:
    """What is to stand in the log of one process for each of its calls, where a bare drive is replayed on."""

    def __init__(self, starts: Mapping[str, int], alignment_bytes: int) -> None:
        self._starts = starts
        self._alignment = alignment_bytes
        self._begun = False
        self.needed_bytes: dict[str, int] = {}

    def lines(self, row: Call) -> Iterator[str]:
        """Yield the lines of a call."""
        kind = CALL_KINDS[row.call]
        if kind == "sync" and self._begun:
            yield f"{_DRIVE} {_SYNCS[row.call]} 0 0"
        elif kind in {"read", "write"} and row.size_bytes:
            if not self._begun:
                self._begun = True
                yield f"{_DRIVE} add"
                yield f"{_DRIVE} open"
            begin = self._starts[row.file] + row.offset_bytes // self._alignment * self._alignment
            end = self._starts[row.file] - (row.offset_bytes + row.size_bytes) // -self._alignment * self._alignment
            yield f"{_DRIVE} {kind} {begin} {end - begin}"

    def end(self) -> Iterator[str]:
        """Yield the lines that end the log."""
        yield f"{_DRIVE} close"


class _Ranges:
    """Ranges of a file, merged where they touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Add a range."""
        first = bisect.bisect_left(self._ends, begin)
        last = bisect.bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def cover(self, begin: int, end: int) -> bool:
        """Return whether all of a range was added."""
        at = bisect.bisect_right(self._begins, begin) - 1
        return at >= 0 and self._ends[at] >= end


@dataclass
class _Jobs:
    """The logs of all processes as they are being made. ``make`` begins that of a process."""

    make: "Callable[[], _OnFiles | _OnDrive]"
    timed: bool
    by_process: "dict[int, _OnFiles | _OnDrive]" = field(default_factory=dict)

    def lines(self, row: Call) -> Iterator[str]:
        """Yield the lines of a call, with the time where it is asked for."""
        if row.process not in self.by_process:
            self.by_process[row.process] = self.make()
        for line in self.by_process[row.process].lines(row):
            yield self._stamped(line, row.time_ns)

    def end(self, process: int, time_ns: int) -> Iterator[str]:
        """Yield the lines that end the log of a process."""
        for line in self.by_process[process].end():
            yield self._stamped(line, time_ns)

    def _stamped(self, line: str, time_ns: int) -> str:
        # fio takes 0 for no time at all, and would not wait for the second request
        return f"{1 + time_ns // 1000} {line}\n" if self.timed else f"{line}\n"


def _write(trace: Trace, folder: Path, processes: Collection[int] | None, jobs: _Jobs) -> dict[int, Path]:
    """Write the logs of the processes, whole or not at all, and return their paths by process."""
    folder.mkdir(parents=True, exist_ok=True)
    if ":" in str(folder):
        raise CallsError(
            f"{printable(folder)}: fio separates the logs of its jobs by colons. Give a folder without one."
        )
    name = re.sub(r"[^A-Za-z0-9._-]", "_", trace.name)
    head = f"fio version {3 if jobs.timed else 2} iolog\n"
    paths: dict[int, Path] = {}
    last_ns: dict[int, int] = {}

    def append(process: int, lines: list[str]) -> None:
        new = process not in paths
        paths.setdefault(process, folder / f"{name}.{process:02}.log")
        with open(files.partial_path(paths[process]), "w" if new else "a", encoding="utf-8") as file:
            file.writelines([head, *lines] if new else lines)

    try:
        for piece in trace.pieces():
            lines: dict[int, list[str]] = {}
            for row in _rows(piece, processes):
                last_ns[row.process] = max(row.time_ns, last_ns.get(row.process, 0))
                if its := list(jobs.lines(row)):
                    lines.setdefault(row.process, []).extend(its)
            for process, its in lines.items():
                append(process, its)
        for process in paths:
            append(process, list(jobs.end(process, last_ns[process])))
        missing = [process for process in processes or () if process not in paths]
        if missing or not paths:
            which = (
                f"process {missing[0]} is not in it, or reads and writes" if missing else "its processes read and write"
            )
            raise CallsError(f"{printable(trace.name)}: {which} nothing")
        for path in paths.values():
            files.commit_file(files.partial_path(path), path)
    finally:
        for path in paths.values():
            files.partial_path(path).unlink(missing_ok=True)
    return dict(sorted(paths.items()))
