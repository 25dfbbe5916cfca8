"""Traces of system calls: read piece by piece from each form that there is, and converted into one, our own.

docs/application-traces.md describes the form.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from iopatterns.base import files
from iopatterns.base.input_file import SkippedLines, printable
from iopatterns.calls import adapter as adapters
from iopatterns.calls import dxt, fio_logs, form, parquet, texts
from iopatterns.calls.form import CALL_KINDS, UNKNOWN, Call, CallsError, CallTraceFile, Trace, TraceOrigin
from iopatterns.calls.positions import Event, PositionTracker

__all__ = [
    "CALL_KINDS",
    "UNKNOWN",
    "Call",
    "CallConversion",
    "CallsError",
    "ReadingNotes",
    "SkippedLines",
    "Trace",
    "convert_calls",
    "open_trace",
]

_HEAD_BYTES = 2**16
_FORMS = (
    "the text of strace -f -ttt -T, a log of Darshan with DXT records, I/O logs of fio (one for each process), or"
    " Parquet by `iopatterns calls convert`"
)


@dataclass
class ReadingNotes:
    """What was told while a trace was read.

    ``skipped``: where it is given, faulty lines are left out and counted there; without, the first one raises.
    ``left_out``: reads and writes on descriptors that no open was seen of, such as pipes.
    """

    skipped: SkippedLines | None = None
    left_out: int = 0


def open_trace(
    paths: Sequence[Path],
    *,
    name: str = "",
    notes: ReadingNotes | None = None,
    adapter: str = "",
    only: str = "*",
) -> Trace:
    """Return the trace in one or several files. Their content determines the form of the trace.

    Args:
        paths: The files.
        name: Name of the trace; the name of the first file by default.
        notes: What is reported about faulty lines and calls that are left out.
        adapter: Class that reads another form, as ``FILE.py:CLASS``, see `adapter.Adapter`.
        only: Shell pattern; only calls on files with matching names are kept.

    Raises:
        CallsError: A file is not a trace. `Trace.pieces` raises it with file and line of the first faulty line.
    """
    if not paths:
        raise CallsError("no file of a trace is given")
    notes = notes or ReadingNotes()
    skipped = notes.skipped
    sources = [CallTraceFile(path, skipped) for path in paths]
    for source in sources:
        if not source.path.is_file():  # reading a pipe or a device may never end
            raise source.error("no regular file" if source.path.exists() else "no such file")
    found = _adapted(sources, adapters.load_adapter(adapter), notes) if adapter else _trace_of(sources, notes)

    def read() -> Iterator[pd.DataFrame]:
        count = 0
        try:
            for piece in found.read():
                kept = piece
                if only != "*":
                    fits = {file: fnmatchcase(file, only) for file in piece["file"].unique()}
                    kept = piece[piece["file"].map(fits).to_numpy(dtype=bool)].reset_index(drop=True)
                count += len(piece)
                if len(kept):
                    yield kept
        except OSError as error:
            raise sources[0].error(f"not readable: {error.strerror or error}") from None
        except (ValueError, TypeError, NotImplementedError) as error:  # pyarrow's are of these
            raise sources[0].error(f"not readable as {found.form}: {printable(error)}") from None
        if skipped is not None and skipped.count and not count:
            raise sources[0].error(f"no line is sound. The first: {skipped.first[0]}")

    return replace(found, name=name or found.name, read=read)


def _trace_of(sources: Sequence[CallTraceFile], notes: ReadingNotes) -> Trace:
    """Return the trace in files; the content of the first determines its form. Does not catch errors of reading."""
    first = sources[0]
    with first.path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    text = head.decode(errors="replace")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith(("#", "strace: "))]
    line = lines[0].strip() if lines else ""
    name = first.path.stem
    if head[:4] == b"PAR1":
        _alone(sources)
        try:
            name, origin = parquet.read_trace_origin(first)
        except (OSError, ValueError) as error:
            raise first.error(f"not readable as Parquet: {printable(error)}") from None
        return Trace(name, origin, "Parquet", lambda: parquet.read_calls(first))
    if dxt.is_darshan_log(head):
        _alone(sources)
        return Trace(name, "recorded", "Darshan DXT", lambda: _from_start(dxt.read_dxt(first)))
    if line in fio_logs.IOLOG_HEADERS:
        origin = "stand-in" if fio_logs.is_stand_in_log(first) else "recorded"
        return Trace(name, origin, "I/O log of fio", lambda: form.call_tables(fio_logs.read_iologs(sources)))
    sound = any(map(texts.is_strace_line, lines[:100]))
    if sound or (notes.skipped is None and texts.is_strace_line(line)):
        return Trace(name, "recorded", "strace", lambda: _followed(texts.read_strace(sources), notes))
    raise first.error(f"no trace of calls. Give {_FORMS} (docs/application-traces.md).", "line 1")


def _adapted(sources: Sequence[CallTraceFile], adapter: type[adapters.Adapter], notes: ReadingNotes) -> Trace:
    def read() -> Iterator[pd.DataFrame]:
        return _followed(adapters.read_with_adapter(sources, adapter), notes)

    return Trace(sources[0].path.stem, "recorded", adapter.__name__, read)


def _alone(sources: Sequence[CallTraceFile]) -> None:
    if len(sources) > 1:
        raise sources[1].error(f"{printable(sources[0].path)} is a whole trace by itself. Give one of the two.")


def _followed(events: Iterable[Event], notes: ReadingNotes) -> Iterator[pd.DataFrame]:
    """Yield the calls that events make."""
    positions = PositionTracker()
    yield from form.call_tables(positions.follow(events))
    notes.left_out = positions.left_out


def _from_start(pieces: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    start_ns: int | None = None
    for piece in pieces:
        start_ns = int(piece["time_ns"].iloc[0]) if start_ns is None else start_ns
        yield piece.assign(time_ns=piece["time_ns"] - start_ns)


@dataclass(frozen=True)
class CallConversion:
    """What a conversion wrote: name, origin and form of the trace, and how many calls of how many processes."""

    name: str
    origin: TraceOrigin
    form: str
    calls: int
    processes: int
    duration_ns: int


def convert_calls(trace: Trace, output: Path, inputs: Sequence[Path] = ()) -> CallConversion:
    """Write a trace to ``output`` in our own form, Parquet, whole or not at all. ``inputs``: the files it comes from.

    Raises CallsError, also for a trace without any call.
    """
    if output.suffix != ".parquet":
        raise CallsError(f"{printable(output)}: traces are written as .parquet; give the file this ending")
    if any(path.exists() and output.exists() and path.samefile(output) for path in inputs):
        raise CallsError(f"{printable(output)}: is the trace that is to be read; give another name")
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
            raise CallsError(f"{printable(trace.name)}: no call on a file in it")

    files.write_atomically(output, lambda temporary: parquet.write_calls(temporary, trace, counted()))
    return done
