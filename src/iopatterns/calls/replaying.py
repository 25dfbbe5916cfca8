"""Convert traces of system calls to I/O logs that fio replays.

There is one log for each process.

The logs take into account how fio 3.33 behaves:

- fio refuses to open a file that is already open. So a log opens a file at its first use, and closes it at its last
  close.
- fio ends the replay without a message at a request of zero bytes. These requests are left out.
- fio creates missing files that a log writes, but no folders. Files that a log reads must exist with their full size.
- fio cannot combine `directory` with `read_iolog`. File names are relative to fio's working directory, or absolute.
- fio with threads (`thread=1`) crashes if `numjobs` jobs replay a list of logs and two logs contain the same file. So
  each log has a job of its own.
- fio with `replay_redirect` crashes on a log with several files. So only the logs of `to_drive_iologs` use it.
- fio requires an offset and a length for `sync` and `datasync`, and ignores them.
- Logs cannot contain truncations. Seeks only determine the offsets of requests, which the log contains. Both are left
  out.
"""

import bisect
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from iopatterns.base import files, ownership
from iopatterns.base.input_file import printable
from iopatterns.calls.form import CALL_KINDS, Call, CallsError, Trace

_SYNCS = {"fsync": "sync", "fdatasync": "datasync"}
_MAX_NAME = 100  # characters; fio reads names of up to 256 characters
_FILL_BYTES = 2**20
_PAGE_BYTES = 4096
# File name in a log for a bare drive; replay_redirect replaces it
_DRIVE = "drive"


@dataclass(frozen=True)
class WrittenIologs:
    """I/O logs for fio that replay a trace, and the files that they require.

    Attributes:
        logs: Path of each log, by the number of its process.
        sizes_bytes: Size that each file must have before the replay, by the name of the file in the logs. The size
            covers all data that a process reads before it writes them; 0 if there are no such data. For a replay on a
            bare drive, the only key is ``drive``, with the size of the accessed part of the drive.
        ends_bytes: End of the data that the processes read or write, by the name of the file in the logs.
        names: Name of each file in the logs, by the path of the file in the trace. For a replay on a bare drive, all
            files have the name ``drive``.
    """

    logs: Mapping[int, Path]
    sizes_bytes: Mapping[str, int]
    ends_bytes: Mapping[str, int]
    names: Mapping[str, str]

    def job_file(self, options: Mapping[str, object]) -> str:
        """Return the text of a job file with which fio replays the logs.

        The file has a job ``processN`` for each log, where N is the number of the process.

        Args:
            options: Options of fio for all jobs, by name, such as ``{"ioengine": "psync"}``.
        """
        lines = ["[global]", *(f"{name}={value}" for name, value in options.items())]
        for process, log in self.logs.items():
            lines += [f"[process{process}]", f"read_iolog={log}"]
        return "\n".join(lines) + "\n"


def to_iologs(
    trace: Trace, folder: Path, *, processes: Collection[int] | None = None, within: str = "", timed: bool = False
) -> WrittenIologs:
    """Write an I/O log of fio for each process, for a replay on files.

    Args:
        trace: The trace of system calls.
        folder: Folder for the logs, which are named ``TRACE.PROCESS.log``. It is created if it is missing.
        processes: Numbers of the processes to replay; None for all.
        within: Prefix of all file names in the logs, such as ``/mnt/``. After the prefix, the names contain no slash.
        timed: True to let fio wait for the time of each request in the trace (logs of version 3). False to let fio
            submit the requests one after another without waiting for these times (logs of version 2).

    Returns:
        The paths of the logs, and the files that must exist before the replay. These files are not written.

    Raises:
        CallsError: A process is not in the trace or makes no reads and writes, or fio cannot read a path.
    """
    if not re.fullmatch(r"[^\s:]{0,120}", within):
        raise CallsError(
            f"'{printable(within)}': file names in logs of fio must be without spaces and colons, and have at most 120"
            " characters"
        )
    names = _Names(within)
    needed: dict[str, int] = {}
    ends: dict[str, int] = {}
    logs = _write_logs(trace, folder, processes, lambda: _OnFiles(names, needed, ends), timed)
    sizes = {name: needed.get(name, 0) for name in sorted(names.given.values())}
    return WrittenIologs(logs, sizes, {name: ends[name] for name in sizes}, dict(names.given))


def to_drive_iologs(
    trace: Trace,
    folder: Path,
    *,
    processes: Collection[int] | None = None,
    timed: bool = False,
) -> WrittenIologs:
    """Write an I/O log of fio for each process, for a replay on a bare drive.

    A bare drive has no file system. Each file of the trace takes up a part of the drive, from the start of the file to
    the last accessed byte. The parts follow one another in the order in which the trace first reads or writes the
    files. The requests are extended to begin and end at multiples of 4 KiB, like the pages of a file system.

    Args:
        trace: The trace of system calls. It is read twice.
        folder: Folder for the logs, which are named ``TRACE.PROCESS.log``. It is created if it is missing.
        processes: Numbers of the processes to replay; None for all.
        timed: Whether fio waits for the times of the trace, see `to_iologs`.

    Returns:
        The paths of the logs, and the size of the accessed part of the drive.

    Raises:
        CallsError: A process is not in the trace or makes no reads and writes, or fio cannot read the folder's path.
    """
    ends: dict[str, int] = {}
    for piece in trace.pieces():
        for row in _rows(piece, processes):
            if row.size_bytes and CALL_KINDS[row.call] in {"read", "write"}:
                ends[row.file] = max(ends.get(row.file, 0), row.offset_bytes + row.size_bytes)
    starts, end = {}, 0
    for file, file_end in ends.items():
        starts[file] = end
        end += -(-file_end // _PAGE_BYTES) * _PAGE_BYTES
    logs = _write_logs(trace, folder, processes, lambda: _OnDrive(starts), timed)
    return WrittenIologs(logs, {_DRIVE: end}, {_DRIVE: end}, dict.fromkeys(starts, _DRIVE))


def write_replay_folder(
    trace: Trace, folder: Path, *, processes: Collection[int] | None = None, timed: bool = False, drive: bool = False
) -> Path:
    """Write all files that fio needs to replay a trace; return the job file's path.

    The job file is ``replay.fio``. The I/O logs, one for each process, are in the subfolder ``logs``. For a replay on
    files, the subfolder ``files`` has these files, with the sizes that they must have before the replay.

    Args:
        trace: The trace of system calls.
        folder: The folder, which must be empty or missing.
        processes: Numbers of the processes to replay; None for all.
        timed: Whether fio waits for the times of the trace, see `to_iologs`.
        drive: Whether to replay on a bare drive, without a file system, instead of on files. fio takes the path of the
            drive from the environment variable TWIN_DRIVE, which `twin run` sets.

    Raises:
        CallsError: The trace cannot be replayed.
        OutputError: The folder is not empty, or is a symbolic link.
    """
    ownership.create_folder(str(folder))
    absolute = folder.absolute()
    options: dict[str, object] = {"ioengine": "psync", "thread": 1}
    if drive:
        written = to_drive_iologs(trace, absolute / "logs", processes=processes, timed=timed)
        options |= {"replay_redirect": "${TWIN_DRIVE}", "direct": 1}
    else:
        within = f"{absolute / 'files'}/"
        written = to_iologs(trace, absolute / "logs", processes=processes, within=within, timed=timed)
        for name, size in written.sizes_bytes.items():
            _write_file(Path(name), size)
    job_file = folder / "replay.fio"
    files.write_atomically(job_file, lambda path: path.write_text(written.job_file(options), encoding="utf-8"))
    return job_file


def _write_file(path: Path, size_bytes: int) -> None:
    """Write a file of pseudo-random data that do not compress.

    The data repeat after 1 MiB, and depend only on the file's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = hashlib.shake_256(path.name.encode()).digest(_FILL_BYTES)
    with open(path, "wb") as file:
        for begin in range(0, size_bytes, _FILL_BYTES):
            file.write(part[: size_bytes - begin])


def _rows(piece: pd.DataFrame, processes: Collection[int] | None) -> Iterator[Call]:
    """Yield the calls in a table of calls.

    Args:
        piece: The table, with the columns of `Trace.pieces`.
        processes: Numbers of the processes whose calls are yielded; None for all.
    """
    if processes is not None:
        piece = piece[piece["process"].isin(list(processes))]
    return (Call(*row) for row in piece.itertuples(index=False, name=None))


class _Names:
    """Unique names for the files of a trace, which fio can read in logs.

    All files are in one folder. The names have no spaces or colons.

    Attributes:
        given: The names so far, by the path of the file in the trace.
    """

    def __init__(self, within: str) -> None:
        self._within = within
        self._taken: set[str] = set()
        self.given: dict[str, str] = {}

    def name(self, file: str) -> str:
        """Return the name that a file of the trace has in the logs.

        The name is derived from the path. It is unique, and the same in each call.

        Args:
            file: Path of the file in the trace.
        """
        if file not in self.given:
            plain = re.sub(r"[^A-Za-z0-9._-]", "_", file.strip("/"))[-_MAX_NAME:] or "file"
            name, number = plain, 1
            while name in self._taken:
                number += 1
                name = f"{plain}.{number}"
            self._taken.add(name)
            self.given[file] = self._within + name
        return self.given[file]


class _OnFiles:
    """Generator of the lines in the I/O log of one process, for a replay on files.

    It remembers which files the log has opened, and what the process has written.
    """

    def __init__(self, names: _Names, needed_bytes: dict[str, int], ends_bytes: dict[str, int]) -> None:
        """Begin a log.

        Args:
            names: Names of files, which all logs share.
            needed_bytes: Receives, by name of the file, the end of the data that the process reads without having
                written them.
            ends_bytes: Receives, by name of the file, the end of all data that the process reads or writes.
        """
        self._names = names
        self._needed_bytes = needed_bytes
        self._ends_bytes = ends_bytes
        self._added: set[str] = set()
        self._descriptors: dict[str, int] = {}  # number of descriptors of each file in the process
        self._open: set[str] = set()  # files that are open in the log
        self._written: dict[str, _Ranges] = {}

    def lines(self, row: Call) -> Iterator[str]:
        """Yield the lines of the log that replay a system call.

        A read or write may need several lines, because its file is first opened. A seek, for example, needs none.

        Args:
            row: The next call of the process.
        """
        kind = CALL_KINDS[row.call]
        if kind in {"open", "duplicate"}:
            self._descriptors[row.file] = self._descriptors.get(row.file, 0) + 1
        elif kind == "close":
            left = max(0, self._descriptors.get(row.file, 0) - 1)
            self._descriptors[row.file] = left
            if not left and row.file in self._open:
                self._open.remove(row.file)
                yield f"{self._names.name(row.file)} close"
        elif kind == "sync" and row.file in self._open:
            yield f"{self._names.name(row.file)} {_SYNCS[row.call]} 0 0"
        elif kind in {"read", "write"} and row.size_bytes:
            name = self._names.name(row.file)
            if name not in self._added:
                self._added.add(name)
                yield f"{name} add"
            if row.file not in self._open:
                self._open.add(row.file)
                yield f"{name} open"
            yield f"{name} {kind} {row.offset_bytes} {row.size_bytes}"
            written, end = self._written.setdefault(name, _Ranges()), row.offset_bytes + row.size_bytes
            self._ends_bytes[name] = max(self._ends_bytes.get(name, 0), end)
            if kind == "write":
                written.add(row.offset_bytes, end)
            elif not written.cover(row.offset_bytes, end):
                self._needed_bytes[name] = max(self._needed_bytes.get(name, 0), end)

    def end(self) -> Iterator[str]:
        """Yield the last lines of the log, which close the open files."""
        for file in sorted(self._open):
            yield f"{self._names.name(file)} close"


class _OnDrive:
    """Generator of the lines in the I/O log of one process, for a bare drive."""

    def __init__(self, starts: Mapping[str, int]) -> None:
        self._starts = starts
        self._is_open = False

    def lines(self, row: Call) -> Iterator[str]:
        """Yield the lines of the log that replay a system call.

        The first read or write needs several lines, because the drive is first opened. An open of a file, for example,
        needs none.

        Args:
            row: The next call of the process.
        """
        kind = CALL_KINDS[row.call]
        if kind == "sync" and self._is_open:
            yield f"{_DRIVE} {_SYNCS[row.call]} 0 0"
        elif kind in {"read", "write"} and row.size_bytes:
            if not self._is_open:
                self._is_open = True
                yield from (f"{_DRIVE} add", f"{_DRIVE} open")
            start, row_end = self._starts[row.file], row.offset_bytes + row.size_bytes
            begin = start + row.offset_bytes // _PAGE_BYTES * _PAGE_BYTES
            end = start - row_end // -_PAGE_BYTES * _PAGE_BYTES
            yield f"{_DRIVE} {kind} {begin} {end - begin}"

    def end(self) -> Iterator[str]:
        """Yield the last line of the log, which closes the drive."""
        yield f"{_DRIVE} close"


class _Ranges:
    """Set of byte ranges. Ranges that overlap or touch are merged."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Add the range that begins at ``begin`` and ends just before ``end``."""
        first = bisect.bisect_left(self._ends, begin)
        last = bisect.bisect_right(self._begins, end)
        if first < last:
            begin, end = min(begin, self._begins[first]), max(end, self._ends[last - 1])
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def cover(self, begin: int, end: int) -> bool:
        """Return whether the ranges cover all bytes from ``begin`` to ``end`` - 1."""
        at = bisect.bisect_right(self._begins, begin) - 1
        return at >= 0 and self._ends[at] >= end


def _write_logs(
    trace: Trace,
    folder: Path,
    processes: Collection[int] | None,
    make: "Callable[[], _OnFiles | _OnDrive]",
    timed: bool,
) -> dict[int, Path]:
    """Write the logs of the processes; return their paths by process.

    Either all logs are written completely, or none.

    Args:
        trace: The trace.
        folder: Folder for the logs.
        processes: Numbers of the processes to replay; None for all.
        make: Returns a new object that makes the lines for one process.
        timed: Whether fio waits for the times of the trace, see `to_iologs`.

    Raises:
        CallsError: A process is not in the trace or makes no reads and writes, or the folder's path has a colon.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if ":" in str(folder):
        raise CallsError(f"{printable(folder)}: fio splits paths of logs at colons. Give a folder without a colon.")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", trace.name)
    header = f"fio version {3 if timed else 2} iolog\n"
    jobs: dict[int, _OnFiles | _OnDrive] = {}
    paths: dict[int, Path] = {}
    last_ns: dict[int, int] = {}

    def stamped(lines: Iterable[str], time_ns: int) -> list[str]:
        # fio ignores a time of 0, and would not wait for the second request
        prefix = f"{1 + time_ns // 1000} " if timed else ""
        return [f"{prefix}{line}\n" for line in lines]

    def append(process: int, lines: list[str]) -> None:
        is_new = process not in paths
        paths.setdefault(process, folder / f"{name}.{process:02}.log")
        with open(files.partial_path(paths[process]), "w" if is_new else "a", encoding="utf-8") as file:
            file.writelines([header, *lines] if is_new else lines)

    try:
        for piece in trace.pieces():
            lines: dict[int, list[str]] = {}
            for row in _rows(piece, processes):
                if row.process not in jobs:
                    jobs[row.process] = make()
                last_ns[row.process] = max(row.time_ns, last_ns.get(row.process, 0))
                lines.setdefault(row.process, []).extend(stamped(jobs[row.process].lines(row), row.time_ns))
            for process, new_lines in lines.items():
                if new_lines:
                    append(process, new_lines)
        for process in paths:
            append(process, stamped(jobs[process].end(), last_ns[process]))
        missing = [process for process in processes or () if process not in paths]
        if missing or not paths:
            problem = (
                f"process {missing[0]} is missing or neither reads nor writes"
                if missing
                else "its processes neither read nor write"
            )
            raise CallsError(f"{printable(trace.name)}: {problem}")
        for path in paths.values():
            files.commit_file(files.partial_path(path), path)
    finally:
        for path in paths.values():
            files.partial_path(path).unlink(missing_ok=True)
    return dict(sorted(paths.items()))
