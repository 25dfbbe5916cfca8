"""Read block traces in several formats, and convert them to Parquet and other formats.

A block trace lists the requests that a drive received. docs/traces.md describes the formats.
"""

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import pandas as pd

from iopatterns.base import compressed
from iopatterns.base.coverage import Coverage
from iopatterns.base.input_file import SkippedLines, printable
from iopatterns.base.ownership import OutputFile
from iopatterns.twin.error import TwinError
from iopatterns.twin.traces import (
    adapter,
    blktrace,
    delimited,
    event_tools,
    form,
    iolog,
    oracle_general,
    parquet,
    writers,
)
from iopatterns.twin.traces.form import (
    OPERATIONS,
    REQUEST_COLUMNS,
    TIME_COLUMNS,
    UNKNOWN_TIME,
    RecordedDrive,
    TraceFile,
    check_order,
)

__all__ = [
    "OPERATIONS",
    "REQUEST_COLUMNS",
    "TRACE_FORMS",
    "UNKNOWN_TIME",
    "WRITTEN_FORMS",
    "Coverage",
    "ReadingOptions",
    "RecordedDrive",
    "SkippedLines",
    "TraceForm",
    "check_order",
    "convert_trace",
    "describe_guess",
    "read_pieces",
    "recorded_drive",
]

_PAGE_BYTES = 4096
_PARQUET = "parquet"
WRITTEN_FORMS = (_PARQUET, *writers.WRITERS)
_ZSTD = ".zst"


class ReadingOptions(TypedDict, total=False):
    """How to read a block trace.

    Attributes:
        skipped: Receives the number of faulty lines, which are skipped. None to raise an error at the first faulty
            line.
        issued: Whether to read the requests issued to the drive instead of those queued in the kernel. Only the formats
            of the kernel's block events record both.
        volumes: Names of the volumes (disks or files) whose requests are read; empty for all. The requests of one
            volume keep their offsets. Several volumes are placed one after another.
        sample: Share of the blocks of 4 KiB whose requests are read, above 0, at most 1. A request belongs to the block
            in which it begins.
        sample_seed: Seed of the choice of blocks.
        adapter: A class of the user, as ``FILE.py:CLASS``, that reads another format; empty for a known format.
        coverage: Receives how much of its source the reader represents.
    """

    skipped: SkippedLines | None
    issued: bool
    volumes: tuple[str, ...]
    sample: float
    sample_seed: int
    adapter: str
    coverage: Coverage


@dataclass(frozen=True)
class TraceForm:
    """File format of block traces.

    A block trace lists the requests that a drive received.

    Attributes:
        name: Name of the format, such as ``I/O log of fio``, as recorded in converted files.
        read: Function that yields the requests of a file as tables, with the columns of `read_pieces`. Times count from
            any starting point. A further column ``volume`` names the disk or file of each request.
        matches: Function that returns whether a file has the format. Its arguments are the first bytes of the file (at
            most 4096), the first line that is not part of a header of blkparse, and the path of the file.
        has_issued: Whether the format records both the requests queued in the kernel and the requests issued to the
            drive.
        guess: What the format is taken to be, for a file without a header; empty otherwise.
    """

    name: str
    read: Callable[[TraceFile], Iterator[pd.DataFrame]]
    matches: Callable[[bytes, str, Path], bool] = lambda _head, _line, _path: False
    has_issued: bool = False
    guess: str = ""


def _is_blktrace(head: bytes, _line: str, path: Path) -> bool:
    return bool(blktrace.byte_order(head)) or (not head and blktrace.is_per_cpu_file(path))


def _is_blkparse(_head: bytes, line: str, _path: Path) -> bool:
    return bool(blktrace.BLKPARSE_LINE.match(line))


def _is_perf(head: bytes, _line: str, _path: Path) -> bool:
    lines = head.decode(errors="replace").split("\n")
    return any(map(event_tools.is_perf_line, (line for line in lines if "block_" in line)))


# A file has the first format that matches, or else one of `delimited.LAYOUTS`
TRACE_FORMS = (
    TraceForm("Parquet", parquet.read_requests, lambda head, _, path: head[:4] == b"PAR1" or path.suffix == ".parquet"),
    TraceForm("binary records of blktrace", blktrace.read_blktrace, _is_blktrace, True),
    TraceForm("I/O log of fio", iolog.read_iolog, lambda _, line, __: line.startswith("fio version ")),
    TraceForm("text of blkparse", blktrace.read_blkparse, _is_blkparse, True),
    TraceForm("block events of perf or ftrace", event_tools.read_perf, _is_perf, True),
    TraceForm("biosnoop", event_tools.read_biosnoop, lambda _, line, __: event_tools.is_biosnoop_line(line)),
    TraceForm(
        "oracleGeneral of libCacheSim",
        oracle_general.read_oracle_general,
        lambda head, _, path: oracle_general.is_oracle_general(head, path),
    ),
)
_OWN_CSV = "CSV with a head"
_FORM_NAMES = ", ".join([*(each.name for each in (*TRACE_FORMS, *delimited.LAYOUTS)), _OWN_CSV])
_VALID_FORMS = f"Valid formats: {_FORM_NAMES} (docs/traces.md). Read any other format with --adapter FILE.py:CLASS."
_HEAD_BYTES = 4096


def _delimited_form(source: TraceFile, lines: list[str]) -> TraceForm | None:
    """Return the format of a text file with one request per line, or None if the file has no such format.

    Args:
        source: The trace file.
        lines: The first complete lines of the file.

    Raises:
        TwinError: The file is a CSV file with a header that lacks a column.
    """
    first, second = [*lines, "", ""][:2]
    layouts = delimited.layouts(first)
    for layout in layouts:
        headed = layout.with_header(first)
        if headed is not None:
            return _with_layout(layout.name, headed, 1)
    separator = delimited.separator(first)
    names = [name.strip().strip('"') for name in first.lower().split(separator)]
    if set(REQUEST_COLUMNS) & set(names):
        source.check_columns(names)
        return _with_layout(_OWN_CSV, delimited.own_layout(names, separator), 1)
    for header_lines, line in enumerate((first, second)):
        fitting = next((layout for layout in layouts if layout.fits(line)), None)
        if fitting is not None and (not header_lines or not any(map(str.isdigit, first[:1]))):
            guess = f"this looks like a block trace of {fitting.name}: {fitting.description}"
            return _with_layout(fitting.name, fitting, header_lines, guess)
    if compressed.plain_name(source.path).suffix == ".csv" and not any(map(str.isdigit, names)):
        if len(first) >= source.MOST_LINE:
            raise source.error(f"longer than {source.MOST_LINE} characters", "line 1")
        source.check_columns(names)
    return None


def _with_layout(name: str, layout: delimited.Layout, header_lines: int, guess: str = "") -> TraceForm:
    read = functools.partial(delimited.read_delimited, layout=layout, header_lines=header_lines)
    return TraceForm(name, read, guess=guess)


def _detect_form(source: TraceFile) -> TraceForm:
    """Return the format of a trace file, which its content or name determines.

    Raises:
        TwinError: The file is missing, or is not a trace.
        OSError: The file cannot be read.
    """
    path = source.path
    if not path.is_file():  # reading a pipe or a device may never end
        problem = "no such file" if not path.exists() else "not a regular file"
        raise source.error(f"{problem}. {_VALID_FORMS}")
    if source.adapter:
        return TraceForm(source.adapter.rpartition(":")[2], adapter.read_adapted_requests)
    head = compressed.first_bytes(path, _HEAD_BYTES)
    lines = head.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").split("\n")
    line = next((line for line in lines if not line.startswith(blktrace.BLKPARSE_HEADER)), "")
    for each in TRACE_FORMS:
        if each.matches(head, line, path):
            return each
    if not head.strip():
        raise source.error(f"the file is {'blank' if head else 'empty'}. {_VALID_FORMS}")
    found = _delimited_form(source, lines[:2])
    if found is None:
        raise source.error(f"not a trace. {_VALID_FORMS}", "line 1")
    return found


def describe_guess(path: Path) -> str:
    """Return what a trace file without a header is taken to be, as a sentence; empty if its format is certain.

    Args:
        path: The trace file.

    Raises:
        TwinError: The file is missing, or is not a trace.
    """
    return _detect_form(TraceFile(path)).guess


def read_pieces(path: Path, **options: Unpack[ReadingOptions]) -> Iterator[pd.DataFrame]:
    """Yield the requests of a block trace as tables, in the order of the trace.

    A block trace lists the requests that a drive received. Each table has at most about 100,000 rows, so that memory
    use does not grow with the length of the trace. The format is determined from the content and the name of the file;
    docs/traces.md describes the formats. Columns:

    - ``operation`` (uint8): 0 for a read, 1 for a write, 2 for a flush, 3 for a discard; see `OPERATIONS`.
    - ``offset_bytes`` and ``size_bytes`` (uint64).
    - ``arrival_ns`` (int64): time of the request's arrival.
    - ``dispatched_ns`` (int64): time at which the request was issued to the drive.
    - ``completed_ns`` (int64): time at which the request completed.

    All times are nanoseconds since the arrival of the first request that is read. A time that is unknown for the whole
    trace has no column. A time that is unknown for a single request is `UNKNOWN_TIME`.

    Args:
        path: The trace file.
        options: Which requests are read, and what happens to faulty lines.

    Raises:
        TwinError: The file is missing, or is not a valid trace. The message has the file and the line, byte, request or
            column. Or ``issued`` is set, and the format does not record issued requests separately. Or the trace has no
            volume of a given name, or ``sample`` is not a share.
    """
    given = _Selection.of(options)
    skipped, coverage = given.skipped, given.coverage
    coverage.clear()
    coverage.represented["requests"] = 0
    source = TraceFile(path, skipped, given.issued, given.adapter, coverage)
    try:
        trace_form = _detect_form(source)
        if given.issued and not trace_form.has_issued:
            raise source.error(f"the format {trace_form.name} does not record issued requests separately")
        places = _Places(lambda: _volume_starts(trace_form, source, given), given.volumes)
        has_requests = False
        for piece in _selected(trace_form.read(source), source, places, given):
            has_requests = has_requests or len(piece) > 0
            coverage.represented["requests"] += len(piece)
            yield piece
        if skipped is not None and skipped.count:
            coverage.left_out["faulty lines"] = skipped.count
            if not has_requests:
                raise source.error(f"all lines are faulty. The first: {skipped.first[0].removeprefix(f'{path}, ')}")
    except (OSError, ValueError, TypeError, NotImplementedError, OverflowError) as error:
        raise source.error(f"not readable as a trace: {printable(error)}") from None


@dataclass(frozen=True)
class _Selection:
    """The options of `ReadingOptions` with their defaults."""

    skipped: SkippedLines | None = None
    issued: bool = False
    volumes: tuple[str, ...] = ()
    sample: float = 1
    sample_seed: int = 0
    adapter: str = ""
    coverage: Coverage = field(default_factory=Coverage)

    @classmethod
    def of(cls, options: ReadingOptions) -> "_Selection":
        selection = cls(**options)
        if not 0 < selection.sample <= 1:
            raise TwinError(f"the sample is {selection.sample}, but must be a share above 0 and at most 1")
        return selection


class _Places:
    """Where each volume of a trace begins in the address range of the tables.

    The first volume begins at 0, so that the trace is read once more only if it has a second volume.

    Attributes:
        starts: Start of each selected volume that has appeared, in bytes.
    """

    def __init__(self, find_all: Callable[[], dict[str, int]], selected: tuple[str, ...]) -> None:
        self.starts: dict[str, int] = {}
        self._find_all = find_all
        self._selected = selected

    def add(self, volumes: Iterable[str]) -> None:
        """Determine where volumes begin that have not appeared before.

        Args:
            volumes: Names of volumes; those that are not selected are ignored.

        Raises:
            TwinError: The trace has no volume of a given name, or is faulty.
        """
        new = [each for each in volumes if each not in self.starts and (not self._selected or each in self._selected)]
        if new:
            self.starts = {new[0]: 0} if len(new) == 1 and not self.starts else self._find_all()


def _volume_starts(trace_form: TraceForm, source: TraceFile, given: _Selection) -> dict[str, int]:
    """Return where each volume begins in the address range of the tables, after reading the file once.

    The requests of a single volume keep their offsets. Otherwise the volumes follow one another in the order of their
    first requests. Each extends to the end of its furthest request, rounded up to a multiple of 4 KiB.

    Args:
        trace_form: The format of the trace.
        source: The trace file.
        given: The selected volumes.

    Raises:
        TwinError: The trace has no volume of a given name, or is faulty.
    """
    quiet = dataclasses.replace(source, skipped=None if source.skipped is None else SkippedLines(), coverage=Coverage())
    ends: dict[str, int] = {}
    for piece in trace_form.read(quiet):
        if "volume" not in piece:
            continue
        end = piece["offset_bytes"] + piece["size_bytes"]
        for volume, furthest in end.groupby(piece["volume"], observed=True, sort=False).max().items():
            ends[str(volume)] = max(ends.get(str(volume), 0), int(furthest))
    _check_volumes(source, given.volumes, ends)
    placed = [volume for volume in ends if not given.volumes or volume in given.volumes]
    if len(placed) == 1:
        return {placed[0]: 0}
    rounded = [-(-ends[volume] // _PAGE_BYTES) * _PAGE_BYTES for volume in placed]
    starts = dict(zip(placed, itertools.accumulate(rounded, initial=0), strict=False))
    if placed:
        source.coverage.remark(
            f"the {len(placed)} volumes are placed one after another, on {sum(rounded):,} bytes; --volume NAME selects"
        )
    return starts


def _check_volumes(source: TraceFile, asked: tuple[str, ...], found: "dict[str, int] | Counter[str]") -> None:
    """Raise TwinError if the trace has no volume of a given name."""
    missing = [volume for volume in asked if volume not in found]
    if missing:
        names = ", ".join(map(printable, list(found)[:20])) or "none with a name"
        more = f" and {len(found) - 20} more" if len(found) > 20 else ""
        raise source.error(f"no requests of a volume '{printable(missing[0])}'. Volumes of the trace: {names}{more}")


def _selected(
    pieces: Iterator[pd.DataFrame], source: TraceFile, places: _Places, given: _Selection
) -> Iterator[pd.DataFrame]:
    """Yield the requests of the selected volumes and blocks, at their places and with times since the first of them.

    Args:
        pieces: All requests of the trace, with their volumes.
        source: The trace file.
        places: Where each selected volume begins.
        given: Which requests are selected.

    Raises:
        TwinError: The trace has no volume of a given name.
    """
    coverage = source.coverage
    seen: Counter[str] = Counter()
    start_ns: int | None = None
    read = 0
    for piece in pieces:
        count = len(piece)
        if "volume" in piece:
            counts = piece["volume"].value_counts(sort=False)
            named = {str(volume): int(number) for volume, number in counts.items() if number}
            seen.update(named)
            places.add(named)
            piece = _placed(piece, places.starts)  # noqa: PLW2901
        elif given.volumes:
            piece = piece.iloc[:0]  # noqa: PLW2901
        if given.volumes:
            coverage.left_out["requests of volumes that were not selected"] += count - len(piece)
        if given.sample < 1:
            kept = _sampled(piece, given, read)
            coverage.left_out[f"requests outside the sample of {given.sample:g} of the blocks"] += int((~kept).sum())
            read += len(piece)
            piece = piece[kept].reset_index(drop=True)  # noqa: PLW2901
        if len(piece) and "arrival_ns" in piece:
            start_ns = int(piece["arrival_ns"].iloc[0]) if start_ns is None else start_ns
            for name in TIME_COLUMNS:
                if name in piece:
                    piece[name] = np.where(piece[name] == UNKNOWN_TIME, UNKNOWN_TIME, piece[name] - start_ns)
            if "completed_ns" in piece:
                unknown = int((piece["completed_ns"] == UNKNOWN_TIME).sum())
                coverage.represented.update({"of these without completion": unknown} if unknown else {})
        if len(piece):
            yield piece
    _check_volumes(source, given.volumes, seen)
    coverage.parts.update({volume: count for volume, count in seen.items() if volume in places.starts})


def _placed(piece: pd.DataFrame, starts: dict[str, int]) -> pd.DataFrame:
    """Return the requests of the volumes that have a start, moved to it, without their volumes.

    Args:
        piece: The requests, with their volumes.
        starts: Where each selected volume begins.
    """
    codes, names = piece["volume"].cat.codes.to_numpy(), [str(name) for name in piece["volume"].cat.categories]
    piece = piece.drop(columns="volume")
    if len(names) == 1 and starts.get(names[0]) == 0:
        return piece
    known = np.array([name in starts for name in names])[codes]
    begin = np.array([starts.get(name, 0) for name in names], dtype=np.uint64)[codes]
    piece["offset_bytes"] += np.where(piece["operation"] == OPERATIONS["flush"], np.uint64(0), begin)
    return piece if known.all() else piece[known].reset_index(drop=True)


def _sampled(piece: pd.DataFrame, given: _Selection, position: int) -> np.ndarray:
    """Return whether each request is in the sample, which the hash of its block decides.

    A flush has no block: its position in the trace takes the place of the block.

    Args:
        piece: The requests.
        given: The share of the blocks, and the seed.
        position: Number of requests before these.
    """
    blocks = piece["offset_bytes"].to_numpy() // np.uint64(_PAGE_BYTES)
    positions = np.arange(position, position + len(piece), dtype=np.uint64)
    keys = np.where(piece["operation"] == OPERATIONS["flush"], positions, blocks)
    # splitmix64
    with np.errstate(over="ignore"):
        keys = keys + np.uint64(given.sample_seed + 1) * np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys ^= keys >> np.uint64(31)
    return np.asarray(keys < np.uint64(min(int(given.sample * 2.0**64), 2**64 - 1)))


def recorded_drive(path: Path, adapter: str = "") -> RecordedDrive | None:
    """Return the simulated drive on which a block trace was recorded; None if it was recorded elsewhere.

    Args:
        path: The trace file, of any supported format.
        adapter: A class of the user that reads the file, see `ReadingOptions`.

    Raises:
        TwinError: The file is missing, or is not a trace.
    """
    source = TraceFile(path, adapter=adapter)
    return parquet.read_recorded_drive(path) if _detect_form(source).read is parquet.read_requests else None


@dataclass(frozen=True)
class TraceConversion:
    """Result of converting a block trace.

    Attributes:
        form: Name of the original format, such as ``I/O log of fio``.
        requests: Number of requests.
        duration_ns: Time from the first to the last arrival, in nanoseconds; None if the trace has no times.
        coverage: How much of the original the new file represents.
    """

    form: str
    requests: int
    duration_ns: int | None
    coverage: Coverage


def written_form(output: Path, asked: str | None) -> str:
    """Return the format in which a trace is written, one of `WRITTEN_FORMS`.

    Args:
        output: The file, whose suffix names the format if ``asked`` is None.
        asked: The format for which the user asks.

    Raises:
        TwinError: The suffix is not that of a format.
    """
    plain = output.with_suffix("") if output.suffix == _ZSTD else output
    found = asked or {f".{each.lower()}": each for each in WRITTEN_FORMS}.get(plain.suffix.lower())
    if found is None or (output.suffix == _ZSTD and found == _PARQUET):
        suffixes = ", ".join(f".{each}" for each in WRITTEN_FORMS)
        raise TwinError(
            f"{printable(output)}: the name of the output must end in {suffixes} (all but .parquet also with {_ZSTD}),"
            " or give its format with --to"
        )
    return found


def convert_trace(
    path: Path,
    output: Path,
    *,
    to: str | None = None,
    overwrite: bool = False,
    **options: Unpack[ReadingOptions],
) -> TraceConversion:
    """Convert a block trace of any supported format to another file.

    A block trace lists the requests that a drive received. docs/traces.md describes the formats.

    Args:
        path: The trace file.
        output: The file to write. It is compressed if its name ends in ``.zst``.
        to: The format to write, one of `WRITTEN_FORMS`; None for the format that the suffix of ``output`` names.
        overwrite: Whether an existing output is replaced.
        options: Which requests are read, and what happens to faulty lines.

    Returns:
        The original format, the number of requests, the duration and the coverage.

    Raises:
        TwinError: The trace is not valid or has no requests, its arrival times decrease, or the format of ``output`` is
            not clear.
        OutputError: The output is the trace itself, or exists and ``overwrite`` is false.
    """
    target = written_form(output, to)
    with OutputFile(output, inputs=[path], overwrite=overwrite) as temporary:
        if target == _PARQUET:
            done = write_as_parquet(path, temporary, **options)
        else:
            done = _write_other(path, temporary, writers.WRITERS[target], options)
        if not done.requests:
            raise TwinError(f"{printable(path)}: the trace has no requests")
        if output.suffix == _ZSTD:
            writers.compress(temporary)
    return done


def _write_other(path: Path, temporary: Path, write: writers.Writer, options: ReadingOptions) -> TraceConversion:
    checked = _CheckedPieces(path, options)
    write(temporary, checked.pieces(), checked.coverage)
    return checked.conversion()


class _CheckedPieces:
    """The requests of a block trace, whose order is checked, and which are counted.

    Attributes:
        coverage: How much of the trace the requests represent; complete at their end.
    """

    def __init__(self, path: Path, options: ReadingOptions) -> None:
        self.coverage = options.get("coverage") or Coverage()
        options = {**options, "coverage": self.coverage}
        self._path = path
        self._form = _detect_form(TraceFile(path, adapter=options.get("adapter", ""))).name
        self._read = read_pieces(path, **options)
        self._requests = 0
        self._last_ns: int | None = None

    def pieces(self) -> Iterator[pd.DataFrame]:
        """Yield the requests.

        Raises:
            TwinError: The trace is not valid, or its arrival times decrease.
        """
        for piece in self._read:
            if "arrival_ns" in piece and len(piece):
                arrival_ns = piece["arrival_ns"].to_numpy()
                self._last_ns = check_order(arrival_ns, self._last_ns or 0, self._requests, printable(self._path))
            self._requests += len(piece)
            yield piece

    def conversion(self) -> TraceConversion:
        """Return the summary of the requests that have been read."""
        return TraceConversion(self._form, self._requests, self._last_ns, self.coverage)


def write_as_parquet(
    path: Path, temporary: Path, *, recorded_on: RecordedDrive | None = None, **options: Unpack[ReadingOptions]
) -> TraceConversion:
    """Write the requests of a block trace to a Parquet file, which is overwritten.

    A block trace lists the requests that a drive received. `convert_trace` does the same, but checks the output path,
    and leaves no partial file behind.

    Args:
        path: The trace file, of any supported format.
        temporary: The Parquet file, which is overwritten.
        recorded_on: The simulated drive on which the trace was recorded; None if it was recorded elsewhere.
        options: Which requests are read, and what happens to faulty lines.

    Returns:
        The original format, the number of requests, which may be 0, the duration and the coverage.

    Raises:
        TwinError: The trace is not valid, or its arrival times decrease.
    """
    checked = _CheckedPieces(path, options)
    pieces = checked.pieces()
    first = next((piece for piece in pieces if len(piece)), form.empty_requests())
    parquet.write_requests(
        temporary,
        itertools.chain([first], pieces),
        checked.conversion().form,
        recorded_on=recorded_on,
        coverage=checked.coverage if recorded_on is None else None,
    )
    return checked.conversion()
