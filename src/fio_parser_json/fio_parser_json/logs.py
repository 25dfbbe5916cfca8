"""Logs that fio writes beside its results (write_bw_log, write_lat_log, write_iops_log, write_hist_log) as tables."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from fio_parser_json.documents import FioParseError
from fio_parser_json.fields import plat_index_to_value
from fio_parser_json.sources import Errors, Item, OfFolder, Skipped, Sources, gather

_NAME = re.compile(r"_(bw|iops|lat|slat|clat|clat_hist)(?:\.(\d+))?\.log$")
_OF_SAMPLES = OfFolder(re.compile(r"_(?:bw|iops|lat|slat|clat)(?:\.\d+)?\.log$"), "with a name such as run_bw.1.log")
_OF_BINS = OfFolder(re.compile(r"_clat_hist(?:\.\d+)?\.log$"), "with a name such as run_clat_hist.1.log")
_DIRECTIONS = ("read", "write", "trim")
# fio's default is 64 bins for each power of two (PLAT_BITS, 6): 19 groups in microseconds, before 3.0, 29 since then in
# nanoseconds; log_hist_coarseness puts 2, 4 … 64 of them together.
_GROUPS = {19: 1000, 29: 1}
_BITS = 6
_LEAST_FIELDS = 4  # of a line
_MOST_QUOTED = 60


def log_samples(sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None) -> pd.DataFrame:
    """Tabulate logs of bandwidth, IOPS and latencies: one row per line, in the order of the files.

    Args:
        sources: files named ``*_bw.1.log``, ``*_iops.1.log``, ``*_lat.1.log``, ``*_slat.1.log``, ``*_clat.1.log``
            (without a number where ``per_job_logs=0``), folders of them (all such files below), globs or open files.
        errors: ``"raise"`` for the first source that cannot be read, or ``"skip"`` it.
        skipped: a list to which the sources that are left out are appended.

    Returns:
        A frame with these columns.

        - ``source``; ``log``: ``bw``, ``iops``, ``lat``, ``slat`` or ``clat``; ``job``: its number, from 1.
        - ``time_ms`` since the job began (since 1970 with ``log_unix_epoch``); ``direction``: ``read``, ``write`` or
          ``trim``.
        - ``value``: bytes per second of ``bw``, whole IOPS of ``iops``, nanoseconds of latencies (of logs of fio before
          3.0 it is their microseconds, which the file does not tell). With ``log_avg_msec`` each line is the mean,
          or with ``log_max_value`` the greatest, of so long; without, each line is one I/O, and then ``value`` of
          ``iops`` is 1, and ``bw`` is the block size over the latency.
        - ``bs_bytes`` of the I/O, 0 of a mean; ``offset_bytes`` with ``log_offset``, else NA; ``priority``: 1 for an
          I/O of high priority, with ``log_prio`` the whole value, NA in logs of older versions.

    Raises:
        FioParseError: the name is not that of such a log, or a line is none of fio's.
        OSError: a file cannot be read.
    """
    columns = {"source": "string", "log": "string", "job": "Int64", "time_ms": "Int64", "value": "Int64"}
    columns |= {"direction": "string", "bs_bytes": "Int64", "offset_bytes": "Int64", "priority": "Int64"}
    return _joined(gather(sources, _samples, of_folder=_OF_SAMPLES, errors=errors, skipped=skipped), columns)


def log_bins(sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None) -> pd.DataFrame:
    """Tabulate logs of latency histograms (``write_hist_log``): one row per bin that is not empty.

    Args:
        sources: files named ``*_clat_hist.1.log``, folders of them (all such files below), globs or open files.
        errors: ``"raise"`` for the first source that cannot be read, or ``"skip"`` it.
        skipped: a list to which the sources that are left out are appended.

    Returns:
        A frame with these columns, bins ascending within a line of the log.

        - ``source``; ``job``: its number, from 1; ``time_ms`` since the job began: where the interval ends of which
          the bins are; ``direction``; ``bs_bytes`` of the line.
        - ``bin_ns``: the middle of the bin's range, as in `latency_bins`; with ``log_hist_coarseness`` that of the
          range of all that were put together.
        - ``count``: I/Os of the interval in the bin.

    Raises:
        FioParseError: the name is not that of such a log, or a line is none of fio's.
        OSError: a file cannot be read.
    """
    columns = {"source": "string", "job": "Int64", "time_ms": "Int64", "direction": "string", "bs_bytes": "Int64"}
    columns |= {"bin_ns": "Int64", "count": "Int64"}
    return _joined(gather(sources, _intervals, of_folder=_OF_BINS, errors=errors, skipped=skipped), columns)


def _joined(parts: Iterable[pd.DataFrame], columns: dict[str, str]) -> pd.DataFrame:
    """Return parts of a table as one table with these columns and types."""
    nothing = pd.DataFrame(columns=list(columns), dtype=object)
    return pd.concat([*parts] or [nothing], ignore_index=True)[list(columns)].astype(columns)


def _kind(item: Item) -> tuple[str, int | None]:
    """Return what a log is of, by its name (``bw``, ``clat_hist`` and the like), and the job's number if it has one."""
    match = _NAME.search(item.name)
    if match is None:
        raise FioParseError(
            item.name,
            "",
            "the name is not that of a log of fio's, which ends in _bw, _iops, _lat, _slat, _clat or _clat_hist, the"
            " job's number and .log, such as run_bw.1.log",
        )
    return match[1], int(match[2]) if match[2] else None


def _rows(item: Item) -> tuple[list[list[str]], list[int]]:
    """Return the fields of each line of a log, with the numbers of these lines; all have as many fields."""
    rows: list[list[str]] = []
    places: list[int] = []
    for number, line in enumerate(io.StringIO(item.text()), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < _LEAST_FIELDS or (rows and len(fields) != len(rows[0])):
            raise _no_line(item, number, line)
        rows.append(fields)
        places.append(number)
    return rows, places


def _no_line(item: Item, number: int, line: str) -> FioParseError:
    quoted = " ".join(line.split())[:_MOST_QUOTED]
    return FioParseError(item.name, f"line {number}", f"this is no line of such a log of fio's: {quoted!r}")


def _numbers(item: Item, rows: list[list[str]], places: list[int]) -> np.ndarray:
    """Return the fields of a log as numbers; fio writes them in decimal, and priorities also as 0x4002."""
    try:
        return np.array([[int(field, 0) for field in row] for row in rows], dtype=np.int64)
    except (ValueError, OverflowError):
        for row, number in zip(rows, places, strict=True):
            for field in row:
                if not re.fullmatch(r"-?\d{1,18}|0x[0-9a-f]{1,15}", field, re.I):
                    raise _no_line(item, number, ", ".join(row)) from None
        raise


def _direction_names(item: Item, codes: np.ndarray, rows: list[list[str]], places: list[int]) -> np.ndarray:
    wrong = np.flatnonzero((codes < 0) | (codes >= len(_DIRECTIONS)))
    if wrong.size:
        raise _no_line(item, places[wrong[0]], ", ".join(rows[wrong[0]]))
    names: np.ndarray = np.array(_DIRECTIONS, dtype=object)
    return np.take(names, codes)


def _samples(item: Item) -> list[pd.DataFrame]:
    kind, job = _kind(item)
    if kind == "clat_hist":
        raise FioParseError(item.name, "", "this is a log of histograms: log_bins reads it")
    rows, places = _rows(item)
    if not rows:
        return []
    numbers = _numbers(item, rows, places)
    table = pd.DataFrame({"time_ms": numbers[:, 0], "value": numbers[:, 1], "bs_bytes": numbers[:, 3]})
    table["direction"] = _direction_names(item, numbers[:, 2], rows, places)
    # A fifth field is the priority, or with log_offset in older versions the offset; of six it is the offset.
    further = numbers[:, 4:6]
    is_priority = len(rows[0]) == 5 and all(row[4] in {"0", "1"} or row[4].startswith("0x") for row in rows)
    missing = pd.array([pd.NA] * len(rows), dtype="Int64")
    table["offset_bytes"] = missing if is_priority or not further.size else further[:, 0]
    table["priority"] = further[:, -1] if is_priority or further.shape[1] == 2 else missing
    if kind == "bw":
        table["value"] *= 1024  # fio writes KiB/s
    return [table.assign(source=item.name, log=kind, job=job)]


def _intervals(item: Item) -> list[pd.DataFrame]:
    kind, job = _kind(item)
    if kind != "clat_hist":
        raise FioParseError(item.name, "", "this is no log of histograms: log_samples reads it")
    rows, places = _rows(item)
    if not rows:
        return []
    numbers = _numbers(item, rows, places)
    counts = numbers[:, 3:]
    bins = _bin_values(counts.shape[1])
    if bins is None or (counts < 0).any():
        raise FioParseError(item.name, f"line {places[0]}", f"fio writes no histogram of {counts.shape[1]} bins")
    line, bin_ = np.nonzero(counts)
    table = pd.DataFrame(
        {
            "time_ms": numbers[line, 0],
            "direction": _direction_names(item, numbers[:, 1], rows, places)[line],
            "bs_bytes": numbers[line, 2],
            "bin_ns": bins[bin_],
            "count": counts[line, bin_],
        }
    )
    return [table.assign(source=item.name, job=job)]


def _bin_values(bins: int) -> np.ndarray | None:
    """Return the latency in ns of each of so many bins, the middle of its range; None where fio has no such number."""
    for groups, scale in _GROUPS.items():
        together, rest = divmod(groups << _BITS, bins)
        if rest == 0 and together in {1 << coarseness for coarseness in range(_BITS + 1)}:
            values = np.array([plat_index_to_value(index, _BITS) for index in range(groups << _BITS)], dtype=np.int64)
            ranges = values.reshape(bins, together)
            return (ranges[:, 0] + ranges[:, -1]) // 2 * scale
    return None
