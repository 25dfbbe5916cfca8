"""Read traces of system calls in several formats, and convert them to Parquet.

A trace lists the system calls with which the processes of a program accessed files. docs/application-traces.md
describes the formats.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from iopatterns.base.compressed import first_bytes, plain_name
from iopatterns.base.coverage import Coverage
from iopatterns.base.fio_iolog import IOLOG_HEADERS
from iopatterns.base.input_file import SkippedLines, printable
from iopatterns.base.ownership import OutputFile
from iopatterns.calls import adapter as adapters
from iopatterns.calls import dxt, fio_iologs, form, parquet, strace
from iopatterns.calls.form import CALL_KINDS, UNKNOWN, Call, CallsError, CallTraceFile, Trace, TraceOrigin
from iopatterns.calls.positions import Event, PositionTracker

__all__ = [
    "CALL_KINDS",
    "UNKNOWN",
    "Call",
    "CallConversion",
    "CallsError",
    "Coverage",
    "SkippedLines",
    "Trace",
    "convert_calls",
    "open_trace",
]

_HEAD_BYTES = 2**16
_ACCESSES = {call: f"{kind}s" if kind in {"read", "write"} else "" for call, kind in CALL_KINDS.items()}
# Reasons why reads and writes are left out
_EMPTY = "of these without data"
_OTHER_FILES = "reads and writes of files that --only excludes"
_WITHOUT_FILE = "reads and writes without a known file, such as on pipes"
_VALID_FORMATS = (
    "the text of strace -f -ttt -T, a log of Darshan with DXT records, I/O logs of fio (one for each process), or"
    " Parquet by `iopatterns calls convert`"
)


def open_trace(
    paths: Sequence[Path],
    *,
    name: str = "",
    skipped: SkippedLines | None = None,
    adapter: str = "",
    only: str = "*",
) -> Trace:
    """Return a trace of system calls from one or several files.

    A trace lists the system calls with which a program's processes accessed files. The content of the first file
    determines the format: output of ``strace -f -ttt -T``, a log of Darshan with DXT records, I/O logs of fio, or
    Parquet by `convert_calls`. The calls are read later, by `Trace.pieces`.

    Args:
        paths: The files of the trace. Only strace, I/O logs of fio and adapters accept several: one for each process.
        name: Name of the trace. If it is empty, the name that a Parquet file records is used. For other formats, it is
            the name of the first file without its suffix.
        skipped: The counter of faulty lines, which are skipped. None raises an error at the first faulty line instead.
        adapter: A class of the user, as ``FILE.py:CLASS``, that reads a format for which this package has no reader
            (see `adapter.Adapter`). Empty for a format that this package reads.
        only: Shell pattern of file names, such as ``/home/me/*``. Calls on other files are left out. ``*`` also matches
            slashes.

    Raises:
        CallsError: No file is given, a file is missing or is not a trace, or the adapter cannot be imported. Faulty
            lines raise this error later, in `Trace.pieces`.
    """
    if not paths:
        raise CallsError("give at least one file of a trace")
    sources = [CallTraceFile(path, skipped) for path in paths]
    for source in sources:
        if not source.path.is_file():  # reading a pipe or a device may never end
            raise source.error("not a regular file" if source.path.exists() else "no such file")
    found = _adapted_trace(sources, adapter, only) if adapter else _detect_trace(sources, only)
    coverage = found.coverage

    def read() -> Iterator[pd.DataFrame]:
        count = 0
        coverage.clear()
        coverage.represented.update(reads=0, writes=0)
        try:
            for piece in found.read():
                count += len(piece)
                accesses = _accesses(piece)
                if only != "*":
                    matches = {file: fnmatchcase(file, only) for file in piece["file"].unique()}
                    piece = piece[piece["file"].map(matches).to_numpy(dtype=bool)].reset_index(drop=True)  # noqa: PLW2901
                kept = _accesses(piece)
                coverage.represented.update(kept)
                coverage.left_out[_OTHER_FILES] += sum(accesses[kind] - kept[kind] for kind in ("reads", "writes"))
                if len(piece):
                    yield piece
            if skipped is not None and skipped.count:
                coverage.left_out["faulty lines"] = skipped.count
        except OSError as error:
            raise sources[0].error(f"not readable: {error.strerror or error}") from None
        except OverflowError:
            raise sources[0].error("a number, such as a time, is too large for 64 bits") from None
        except (ValueError, TypeError, NotImplementedError) as error:  # errors of pyarrow
            raise sources[0].error(f"not readable as {found.form}: {printable(error)}") from None
        if skipped is not None and skipped.count and not count:
            raise sources[0].error(f"all lines are faulty. The first: {skipped.first[0]}")

    return replace(found, name=name or found.name, read=read)


def _accesses(piece: pd.DataFrame) -> Counter[str]:
    """Return the numbers of ``reads`` and ``writes`` in a table of calls, and how many of them moved no data."""
    kinds = piece["call"].map(_ACCESSES)
    found = Counter({str(kind): int(count) for kind, count in kinds.value_counts().items() if kind})
    empty = int(((kinds != "") & (piece["size_bytes"] == 0)).sum())
    return found + Counter({_EMPTY: empty})


def _detect_trace(sources: Sequence[CallTraceFile], only: str) -> Trace:
    """Return the trace in files, whose format the content of the first determines.

    Args:
        sources: The files.
        only: Pattern of the files whose calls are kept, for the trace's coverage.

    Raises:
        CallsError: The first file is not a trace, or there are several files of a format that has one file.
    """
    first = sources[0]
    try:
        head = first_bytes(first.path, _HEAD_BYTES)
    except OSError as error:
        raise first.error(f"not readable: {error.strerror or error}") from None
    text = head.decode(errors="replace")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith(("#", "strace: "))]
    line = lines[0].strip() if lines else ""
    name = plain_name(first.path).stem
    coverage = Coverage()
    is_parquet = head[:4] == b"PAR1"
    if (is_parquet or dxt.is_darshan_log(head)) and len(sources) > 1:
        raise sources[1].error(f"{printable(first.path)} is a complete trace. Give only one of the two files.")
    if is_parquet:
        try:
            name, origin = parquet.read_trace_origin(first)
        except (OSError, ValueError) as error:
            raise first.error(f"not readable as Parquet: {printable(error)}") from None
        return Trace(name, origin, "Parquet", lambda: parquet.read_calls(first, coverage), coverage)
    if dxt.is_darshan_log(head):
        return Trace(name, "recorded", "Darshan DXT", lambda: dxt.read_dxt(first, coverage), coverage)
    if line in IOLOG_HEADERS:
        origin = "stand-in" if fio_iologs.is_stand_in_log(first) else "recorded"
        log = fio_iologs.read_iologs
        return Trace(name, origin, "I/O log of fio", lambda: form.call_tables(log(sources, coverage)), coverage)
    has_strace_line = any(map(strace.is_strace_line, lines[:100]))
    if has_strace_line or (first.skipped is None and strace.is_strace_line(line)):
        return Trace(
            name, "recorded", "strace", lambda: _call_tables(strace.read_strace(sources), coverage, only), coverage
        )
    raise first.error(f"not a trace of system calls. Give {_VALID_FORMATS} (docs/application-traces.md).", "line 1")


def _adapted_trace(sources: Sequence[CallTraceFile], adapter: str, only: str) -> Trace:
    """Return the trace in files that an adapter class of the user reads.

    Args:
        sources: The files.
        adapter: The class, as ``FILE.py:CLASS``.
        only: Pattern of the files whose calls are kept, for the trace's coverage.

    Raises:
        CallsError: The class cannot be imported.
    """
    reader = adapters.load_adapter(adapter)
    coverage = Coverage()
    return Trace(
        plain_name(sources[0].path).stem,
        "recorded",
        reader.__name__,
        lambda: _call_tables(adapters.read_with_adapter(sources, reader), coverage, only),
        coverage,
    )


def _call_tables(events: Iterable[Event], coverage: Coverage, only: str) -> Iterator[pd.DataFrame]:
    """Yield the calls that follow from events as tables, see `Trace.pieces`.

    Args:
        events: System calls on descriptors, as the program made them.
        coverage: Receives, at the end, the numbers of calls that the tables do not contain.
        only: Pattern of the files whose calls are kept. Calls on other files are not missing.
    """
    positions = PositionTracker()
    yield from form.call_tables(positions.follow(events))
    coverage.left_out[_WITHOUT_FILE] = positions.left_out
    coverage.left_out["reads and writes below /dev, /proc and /sys"] = positions.on_no_files
    for (call, file), count in positions.unfollowed.items():
        if not file or fnmatchcase(file, only):
            coverage.left_out[f"{call} not followed"] += count
            if call in strace.PRINTED_ON_DEMAND:
                coverage.remark(strace.RECORDING_ADVICE)


@dataclass(frozen=True)
class CallConversion:
    """Summary of a trace of system calls that `convert_calls` has written.

    Attributes:
        name: Name of the trace.
        origin: ``recorded``, or ``stand-in`` for a synthetic trace that replaces an unpublished trace.
        form: Name of the original format, such as ``strace``.
        calls: Number of calls.
        processes: Number of processes with calls.
        duration_ns: Time from the start of the trace to the beginning of its last call.
    """

    name: str
    origin: TraceOrigin
    form: str
    calls: int
    processes: int
    duration_ns: int


def convert_calls(
    trace: Trace, output: Path, inputs: Sequence[Path] = (), *, overwrite: bool = False
) -> CallConversion:
    """Write a trace of system calls to a Parquet file, and return its summary.

    Args:
        trace: The trace, from `open_trace` or `stand_ins.stand_in`.
        output: The Parquet file. It appears only when it is complete.
        inputs: The files of the trace, which must not be overwritten.
        overwrite: Whether an existing output is replaced.

    Returns:
        Name, origin and original format of the trace, its duration, and the numbers of its calls and processes.

    Raises:
        CallsError: The trace is not valid or has no calls, or ``output`` does not end in .parquet.
        OutputError: The output is an input, or exists and ``overwrite`` is false.
    """
    if output.suffix != ".parquet":
        raise CallsError(f"{printable(output)}: the name of the output must end in .parquet")
    done = CallConversion(trace.name, trace.origin, trace.form, 0, 0, 0)
    processes: set[int] = set()

    def counted() -> Iterator[pd.DataFrame]:
        nonlocal done
        for piece in trace.pieces():
            processes.update(piece["process"].unique())
            end_ns = max(done.duration_ns, int(piece["time_ns"].max()))
            done = replace(done, calls=done.calls + len(piece), processes=len(processes), duration_ns=end_ns)
            yield piece
        if not done.calls:
            raise CallsError(f"{printable(trace.name)}: the trace has no calls on files")

    with OutputFile(output, inputs=inputs, overwrite=overwrite) as temporary:
        parquet.write_calls(temporary, trace, counted())
    return done
