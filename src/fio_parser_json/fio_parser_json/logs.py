"""Tables of the log files of fio, which options such as write_lat_log create."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from fio_parser_json.coverage import TableCoverage
from fio_parser_json.documents import FioParseError
from fio_parser_json.fields import plat_index_to_value
from fio_parser_json.sources import COMPRESSED, Errors, FolderFilter, Item, Skipped, Sources, gather

_NAME = re.compile(r"_(bw|iops|lat|slat|clat|clat_hist)(?:\.(\d+))?\.log" + COMPRESSED)
_SAMPLE_FILES = FolderFilter(
    re.compile(r"_(?:bw|iops|lat|slat|clat)(?:\.\d+)?\.log" + COMPRESSED), "a name such as run_bw.1.log"
)
_BIN_FILES = FolderFilter(re.compile(r"_clat_hist(?:\.\d+)?\.log" + COMPRESSED), "a name such as run_clat_hist.1.log")
_DIRECTIONS: np.ndarray = np.array(["read", "write", "trim"], dtype=object)
_NUMBER = re.compile(r"\s*(?:-?\d{1,18}|0x[0-9a-f]{1,15})\s*", re.I)
# fio has 64 bins for each power of two (PLAT_BITS, 6): 19 groups of bins in microseconds before 3.0, 29 groups in
# nanoseconds since. log_hist_coarseness merges 2, 4 … 64 bins into one.
_GROUPS = {19: 1000, 29: 1}
_BITS = 6
_LEAST_FIELDS = 4  # of a line
_MOST_QUOTED = 60


def log_samples(
    sources: Sources,
    *,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
    coverage: TableCoverage | None = None,
) -> pd.DataFrame:
    """Return a table of bandwidth, IOPS and latency logs, one row per line.

    Args:
        sources: Files named ``*_bw.1.log``, ``*_iops.1.log``, ``*_lat.1.log``, ``*_slat.1.log`` or ``*_clat.1.log``,
            folders (all such files below them), globs or open files. The number is the number of the job. With
            ``per_job_logs=0``, the names have no number.
        errors: What to do with a source that cannot be read: ``"raise"`` its error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.
        coverage: Receives the number of rows.

    Returns:
        A frame with these columns:

        - ``source``: the path.
        - ``log``: ``bw``, ``iops``, ``lat``, ``slat`` or ``clat``.
        - ``job``: the number of the job, from 1; NA with ``per_job_logs=0``.
        - ``time_ms``: time since the start of the job; since 1970 with ``log_unix_epoch``.
        - ``direction``: ``read``, ``write`` or ``trim``.
        - ``value``: bytes per second (``bw``), I/Os per second (``iops``) or nanoseconds (latencies). Latencies of fio
          before 3.0 are in microseconds, and are not converted, because the file does not contain the version.

          With ``log_avg_msec``, the value is the mean of an interval; with ``log_max_value`` too, the maximum of the
          interval. Without ``log_avg_msec``, each line is a single I/O. The value is then 1 for ``iops``, and the block
          size divided by the latency for ``bw``.
        - ``bs_bytes``: size of the I/O; 0 for a mean.
        - ``offset_bytes``: offset of the I/O with ``log_offset``; otherwise NA.
        - ``priority``: with ``log_prio``, the complete value of the I/O priority. Without it, 1 for an I/O of high
          priority, and 0 for other I/Os. NA if the version of fio does not log the priority.

    Raises:
        FioParseError: The name of a file is not the name of such a log, a line is invalid, or a folder or glob has no
            such files.
        OSError: A file cannot be read.
    """
    columns = {"source": "string", "log": "string", "job": "Int64", "time_ms": "Int64", "value": "Int64"}
    columns |= {"direction": "string", "bs_bytes": "Int64", "offset_bytes": "Int64", "priority": "Int64"}
    return _joined(
        gather(sources, _samples, in_folder=_SAMPLE_FILES, errors=errors, skipped=skipped), columns, coverage
    )


def log_bins(
    sources: Sources,
    *,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
    coverage: TableCoverage | None = None,
) -> pd.DataFrame:
    """Return a table of latency histogram logs, one row per non-empty bin.

    With ``write_hist_log``, fio writes a line with the histogram of each interval.

    Args:
        sources: Files named ``*_clat_hist.1.log``, folders (all such files below them), globs or open files.
        errors: What to do with a source that cannot be read: ``"raise"`` its error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.
        coverage: Receives the number of rows.

    Returns:
        A frame with these columns. Bins ascend within a line of the log.

        - ``source``: the path.
        - ``job``: the number of the job, from 1; NA with ``per_job_logs=0``.
        - ``time_ms``: end of the interval, since the start of the job.
        - ``direction``: ``read``, ``write`` or ``trim``.
        - ``bs_bytes``: block size of the line.
        - ``bin_ns``: middle of the bin, as in `latency_bins`. With ``log_hist_coarseness``, fio merges adjacent bins,
          and this is the middle of their common range.
        - ``count``: number of I/Os in the bin during the interval.

    Raises:
        FioParseError: The name of a file is not the name of such a log, a line is invalid, or a folder or glob has no
            such files.
        OSError: A file cannot be read.
    """
    columns = {"source": "string", "job": "Int64", "time_ms": "Int64", "direction": "string", "bs_bytes": "Int64"}
    columns |= {"bin_ns": "Int64", "count": "Int64"}
    return _joined(gather(sources, _intervals, in_folder=_BIN_FILES, errors=errors, skipped=skipped), columns, coverage)


def _joined(parts: Iterable[pd.DataFrame], columns: dict[str, str], coverage: TableCoverage | None) -> pd.DataFrame:
    """Concatenate tables, and convert their columns.

    Args:
        parts: The tables; there may be none.
        columns: The columns of the result in their order, with their types.
        coverage: Receives the number of rows; may be None.
    """
    nothing = pd.DataFrame(columns=list(columns), dtype=object)
    table = pd.concat([*parts] or [nothing], ignore_index=True)[list(columns)].astype(columns)
    if coverage is not None:
        coverage.rows += len(table)
    return table


def _kind(item: Item) -> tuple[str, int | None]:
    """Return the kind of a log and the number of its job, from the file name.

    Returns:
        The kind, such as ``bw`` or ``clat_hist``, and the number of the job; None with ``per_job_logs=0``.

    Raises:
        FioParseError: The name is not the name of a log of fio.
    """
    match = _NAME.search(item.name)
    if match is None:
        raise FioParseError(
            item.name,
            "",
            "this is not the name of a log of fio. Such names end in _bw, _iops, _lat, _slat, _clat or _clat_hist, the"
            " number of the job and .log, such as run_bw.1.log",
        )
    return match[1], int(match[2]) if match[2] else None


def _parsed(item: Item, direction_field: int) -> tuple[np.ndarray, list[list[str]]]:
    """Return the fields of all lines of a log, as numbers and as text.

    Blank lines are skipped. All other lines must have the same number of fields.

    Args:
        item: The log.
        direction_field: Index of the field with the direction, which is 0, 1 or 2 for read, write or trim.

    Returns:
        An array of numbers with a row for each line, and the fields of each line as text.

    Raises:
        FioParseError: A line is invalid.
    """
    rows: list[list[str]] = []
    numbers: list[list[int]] = []
    for number, line in enumerate(io.StringIO(item.text()), start=1):
        if not line.strip():
            continue
        fields = line.split(",")
        valid = len(fields) == len(rows[0]) if rows else len(fields) >= _LEAST_FIELDS
        values = [_number(field) for field in fields] if valid and all(map(_NUMBER.fullmatch, fields)) else []
        if not values or not 0 <= values[direction_field] < len(_DIRECTIONS):
            quoted = " ".join(line.split())[:_MOST_QUOTED]
            raise FioParseError(item.name, f"line {number}", f"not a line of such a log: {quoted!r}")
        rows.append(fields)
        numbers.append(values)
    return np.array(numbers, dtype=np.int64), rows


def _number(field: str) -> int:
    # unlike int(), the pattern and strip() take the separators \x1c to \x1f for blanks
    return int(field.strip(), 16 if "x" in field.lower() else 10)


def _samples(item: Item) -> list[pd.DataFrame]:
    kind, job = _kind(item)
    if kind == "clat_hist":
        raise FioParseError(item.name, "", "this is a log of histograms: use log_bins")
    numbers, rows = _parsed(item, direction_field=2)
    if not rows:
        return []
    table = pd.DataFrame({"time_ms": numbers[:, 0], "value": numbers[:, 1], "bs_bytes": numbers[:, 3]})
    table["direction"] = _DIRECTIONS[numbers[:, 2]]
    # A fifth field is the priority or, in older versions with log_offset, the offset. With six fields, the fifth is the
    # offset and the sixth the priority.
    further = numbers[:, 4:6]
    is_priority = len(rows[0]) == 5 and all(row[4].strip() in {"0", "1"} or "x" in row[4].lower() for row in rows)
    missing = pd.array([pd.NA] * len(rows), dtype="Int64")
    table["offset_bytes"] = missing if is_priority or not further.size else further[:, 0]
    table["priority"] = further[:, -1] if is_priority or further.shape[1] == 2 else missing
    if kind == "bw":
        table["value"] *= 1024  # fio writes KiB/s
    return [table.assign(source=item.name, log=kind, job=job)]


def _intervals(item: Item) -> list[pd.DataFrame]:
    kind, job = _kind(item)
    if kind != "clat_hist":
        raise FioParseError(item.name, "", "this is not a log of histograms: use log_samples")
    numbers, rows = _parsed(item, direction_field=1)
    if not rows:
        return []
    counts = numbers[:, 3:]
    bins = _bin_values(counts.shape[1])
    if bins is None or (counts < 0).any():
        raise FioParseError(item.name, "", f"fio writes no histogram of {counts.shape[1]} bins")
    line, bin_ = np.nonzero(counts)
    table = pd.DataFrame(
        {
            "time_ms": numbers[line, 0],
            "direction": _DIRECTIONS[numbers[line, 1]],
            "bs_bytes": numbers[line, 2],
            "bin_ns": bins[bin_],
            "count": counts[line, bin_],
        }
    )
    return [table.assign(source=item.name, job=job)]


def _bin_values(bins: int) -> np.ndarray | None:
    """Return the latency in ns of each bin of a histogram log: the middle of the bin.

    Returns None if fio writes no histogram with this number of bins.

    Args:
        bins: Number of bins in a line of the log.
    """
    for groups, scale in _GROUPS.items():
        merged, rest = divmod(groups << _BITS, bins)
        if rest == 0 and merged in {1 << coarseness for coarseness in range(_BITS + 1)}:
            values = np.array([plat_index_to_value(index, _BITS) for index in range(groups << _BITS)], dtype=np.int64)
            ranges = values.reshape(bins, merged)
            return (ranges[:, 0] + ranges[:, -1]) // 2 * scale
    return None
