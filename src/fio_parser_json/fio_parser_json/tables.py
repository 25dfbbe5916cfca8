"""Tables of fio results: jobs, latency bins, sync latencies and disk statistics."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

import pandas as pd

from fio_parser_json.coverage import TableCoverage
from fio_parser_json.documents import Document, is_summary
from fio_parser_json.fields import (
    DIRECTIONS,
    LATENCIES,
    Fields,
    bins_of,
    clat_is_lat,
    directions,
    jobs_of,
    latencies,
    options_of,
    percentiles_of,
    sampled,
    version_of,
)
from fio_parser_json.options import NUMBERS, numbers
from fio_parser_json.sources import Errors, Item, Skipped, Sources, documents_of, gather

_Made = TypeVar("_Made")
_INTEGER, _REAL, _TEXT = "Int64", "float64", "string"
# Buckets of io_u_mark_depth in fio: "16" counts 16 to 31 I/Os in flight. The number is the lower bound.
_DEPTHS = {"1": 1, "2": 2, "4": 4, "8": 8, "16": 16, "32": 32, ">=64": 64}
_DEPTH_COLUMNS = {label: f"iodepth_level_{label.replace('>=', 'ge')}_percent" for label in _DEPTHS}
# Buckets of io_u_mark_submit and io_u_mark_complete in fio: "4" counts calls with 1 to 4 I/Os.
_BATCHES = ("0", "4", "8", "16", "32", "64", ">=64")
_BATCH_COLUMNS = {
    (call, label): f"iodepth_{call}_{label.replace('>=', 'ge')}_percent"
    for call in ("submit", "complete")
    for label in _BATCHES
}
# Buckets of io_u_mark_latency in fio: "10" counts latencies above the previous bucket, up to 10 of the unit.
_UP_TO = ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000")
_LATENCY_COLUMNS = {
    (unit, label): f"latency_{label.replace('>=', 'ge')}_{unit}_percent"
    for unit, labels in {"ns": _UP_TO, "us": _UP_TO, "ms": (*_UP_TO, "2000", ">=2000")}.items()
    for label in labels
}

_TEXT_COLUMNS = {"source", "hostname", "jobname", "direction", "fio_version", "latency", "disk"}
_REAL_COLUMNS = re.compile(r"iops|.*_(mean|stddev)(_ns|_bytes_per_s)?|.*_percent")


def _typed(*columns: str) -> dict[str, str]:
    """Return the pandas type of each column, by its name.

    Means, standard deviations, shares and IOPS are real numbers. Names are text. All other columns are integers.
    """
    return {
        name: _TEXT if name in _TEXT_COLUMNS else _REAL if _REAL_COLUMNS.fullmatch(name) else _INTEGER
        for name in columns
    }


_STATISTICS = ("min", "max", "mean", "stddev")
# The fixed columns of each table in their order, with their types
_JOB_COLUMNS = _typed(
    *("source", "document", "job", "hostname", "jobname", "groupid", "direction", "error", "fio_version"),
    *("timestamp_ms", "runtime_ms", "job_runtime_ms", "io_bytes", "total_ios", "bandwidth_bytes_per_s"),
    *(f"bandwidth_{statistic}_bytes_per_s" for statistic in _STATISTICS),
    *("bandwidth_samples", "bandwidth_share_percent", "iops"),
    *(f"iops_{statistic}" for statistic in _STATISTICS),
    "iops_samples",
    *(f"{latency}_{statistic}_ns" for latency in LATENCIES for statistic in _STATISTICS),
    *("short_ios", "drop_ios", "usr_cpu_percent", "sys_cpu_percent", "context_switches", "iodepth_reached"),
    *_DEPTH_COLUMNS.values(),
    *_BATCH_COLUMNS.values(),
    *_LATENCY_COLUMNS.values(),
)
_SYNC_COLUMNS = _typed(
    *("source", "document", "job", "hostname", "jobname", "syncs"),
    *(f"sync_{statistic}_ns" for statistic in _STATISTICS),
)
_BIN_COLUMNS = _typed("source", "document", "job", "jobname", "direction", "latency", "bin_ns", "count")
# The columns of `disk_util` by field of fio. The prefix "aggr_" is for disks that consist of others.
_DISK_FIELDS = {
    # fio leaves out the last letter of this name only
    f"{prefix}{field}".replace("aggr_write_merges", "aggr_write_merge"): f"{prefix}{column}"
    for prefix in ("", "aggr_")
    for field, column in (
        *((f"{way}_{what}",) * 2 for what in ("ios", "merges", "sectors") for way in ("read", "write")),
        *((time, f"{time}_ms") for time in ("read_ticks", "write_ticks", "in_queue")),
        ("util", "util_percent"),
    )
}
_DISK_COLUMNS = _typed("source", "document", "disk", *_DISK_FIELDS.values())


def jobs(
    sources: Sources,
    *,
    all_directions: bool = False,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
    coverage: TableCoverage | None = None,
) -> pd.DataFrame:
    """Return a table of fio results: one row per job and direction.

    With ``group_reporting``, fio merges the jobs of a group. The group then has one row per direction, and
    ``option_numjobs`` is the number of jobs in the first section of the group. The summary "All clients" of
    ``fio --client`` is left out, so that sums over rows count each I/O once. It is a row if a document has no jobs.

    Args:
        sources: Files, folders, globs, open files, decoded results or documents, see `all_documents`.
        all_directions: Whether to keep directions without I/O. By default they are left out, and a job that failed
            before its first I/O has no row.
        errors: What to do with a source that cannot be read: ``"raise"`` its error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.
        coverage: Receives how much of the sources the table represents.

    Returns:
        A frame with the columns below, of type Int64, float64 or string. A field that this version of fio does not
        write is NA. A statistic without samples is NA, although fio writes 0. The manual of fio (HOWTO) describes the
        fields, and its ``stat.c`` writes them.

        - ``source``, ``document``, ``job``: the path, the position of the document in the source, and the position of
          the job in the document. Positions begin at 0.
        - ``hostname``: the server, in client mode.
        - ``jobname``, ``groupid``, ``error`` (errno of the job), ``fio_version`` (such as ``fio-3.33``).
        - ``direction``: ``read``, ``write`` or ``trim``; ``mixed`` with ``unified_rw_reporting=1``.
        - ``timestamp_ms``: when fio wrote the document, since 1970; whole seconds in client mode (fio 2.2.5 and later).
        - ``runtime_ms`` of the direction, ``job_runtime_ms`` of the job (fio 3.8 and later).
        - ``io_bytes``: number of bytes. fio before 2.21 writes KiB, rounded down, which are converted.
        - ``total_ios``, ``short_ios``, ``drop_ios``: numbers of I/Os (fio 2.1.14 and later).
        - ``bandwidth_bytes_per_s``: ``bw_bytes`` of fio. Before fio 3.2 it is converted from ``bw``, in KiB/s rounded
          down.
        - ``bandwidth_{min,max,mean,stddev}_bytes_per_s``: statistics of the samples that fio takes every ``bwavgtime``,
          converted from KiB/s.
        - ``iops``: I/Os per second.
        - ``iops_{min,max,mean,stddev}``: statistics of the samples that fio takes every ``iopsavgtime`` (fio 3.0 and
          later).
        - ``bandwidth_samples``, ``iops_samples``: number of samples (fio 3.0 and later).
        - ``bandwidth_share_percent``: mean of the bandwidth samples, as a share of the bandwidth of the group of jobs
          (``bw_agg``).
        - ``{slat,clat,lat}_{min,max,mean,stddev}_ns``: submission, completion and total latency. fio before 3.0
          measures microseconds, which are converted.
        - ``usr_cpu_percent``, ``sys_cpu_percent``, ``context_switches``: values of the job, repeated in each of its
          directions.
        - ``iodepth_level_{1,2,4,8,16,32,ge64}_percent``: share of the I/Os of the job that were issued at this I/O
          depth, the number of I/Os in flight. A level reaches to the next level: ``16`` stands for depths 16 to 31
          (``io_u_mark_depth`` in ``io_u.c``). fio writes any share above 0 as at least 0.1.
        - ``iodepth_{submit,complete}_{0,4,8,16,32,64,ge64}_percent``: share of the calls of the I/O engine that
          submitted, or completed, this many I/Os. Each bucket begins above the previous one: ``16`` stands for 9 to 16
          I/Os, and ``ge64`` for more than 64.
        - ``latency_{2,4,10,20,50,100,250,500,750,1000}_{ns,us,ms}_percent``, ``latency_{2000,ge2000}_ms_percent``:
          share of the I/Os of the job by total latency. Each bucket begins at the previous one: ``50_us`` stands for 20
          to 50 us (``io_u_mark_latency``). fio writes any share above 0 as at least 0.01.
        - ``iodepth_reached``: the depth at which the ``iodepth_level`` with the largest share begins. If two levels
          have equal shares, the lower one counts.

        Next come the percentiles in ns, such as ``clat_p99_9_ns``. There is a column
        ``{slat,clat,lat}_p<percentile>_ns`` for each percentile that occurs in any source, in ascending order.

        Then come the options that any source sets, as text, in columns ``option_<name>`` in alphabetical order. fio
        writes them since version 2.3. An option without a value is "". An option that the job does not set is NA. The
        options of a job override global options.

        Last come numeric forms of the options that any source sets, in the order of ``options.NUMBERS``: ``bs_bytes``,
        ``size_bytes``, ``io_size_bytes``, ``offset_bytes``, ``iodepth``, ``numjobs``, ``rwmixread_percent``,
        ``rwmixwrite_percent``, ``rate_bytes_per_s``, ``rate_iops``, ``thinktime_us``, ``ramp_time_us`` and
        ``asked_runtime_us`` (the option ``runtime``). If an option has a value for each direction, each row has the
        value of its direction.

    Raises:
        FioParseError: A source is not complete, valid output of fio, or a field has the wrong type.
        OSError: A file cannot be read.
    """
    rows_of = _of_each_document(
        functools.partial(_job_rows, all_directions=all_directions, coverage=coverage), coverage
    )
    found = list(gather(sources, rows_of, errors=errors, skipped=skipped))
    data = _columns([row.fields for row in found], _JOB_COLUMNS)
    data |= _percentile_columns(found, LATENCIES)
    for option in sorted({name for row in found for name in row.options}):
        data[f"option_{option}"] = pd.Series([row.options.get(option) for row in found], dtype=_TEXT)
    in_numbers = [numbers(row.options, row.fields["direction"]) for row in found]
    for column, (_, names) in NUMBERS.items():
        if any(name in row.options for row in found for name in names):
            data[column] = pd.Series([each[column] for each in in_numbers], dtype=_INTEGER)
            if coverage is not None:
                _cover_texts(column, names, found, data[column], coverage)
    return _counted(pd.DataFrame(data), coverage)


def _cover_texts(
    column: str, names: Sequence[str], rows: Sequence[_Row], values: pd.Series, coverage: TableCoverage
) -> None:
    """Add a remark about rows that have an option, but no number in its column.

    Args:
        column: Name of the column.
        names: Names of the option.
        rows: The rows of the table.
        values: The column.
        coverage: Receives the remark.
    """
    texts = [next((row.options[name] for name in names if name in row.options), None) for row in rows]
    empty = [text for text, is_empty in zip(texts, values.isna(), strict=True) if text is not None and is_empty]
    if empty:
        rows_word = "row" if len(empty) == 1 else "rows"
        coverage.remark(f"{column} is empty in {len(empty):,} {rows_word}, whose option is no number: {empty[0]!r}")


def _counted(table: pd.DataFrame, coverage: TableCoverage | None) -> pd.DataFrame:
    """Return a table, after adding the number of its rows to a coverage, which may be None."""
    if coverage is not None:
        coverage.rows += len(table)
    return table


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table `jobs` or `sync_latencies`.

    Attributes:
        fields: Values of the columns that every table has, by column.
        percentiles: Latencies in ns, by index of the latency in `LATENCIES` and percentile.
        options: The options of the job as text, by name.
    """

    fields: dict[str, Any]
    percentiles: dict[tuple[int, float], int | None]
    options: dict[str, str] = field(default_factory=dict)


def _columns(rows: list[dict[str, Any]], types: dict[str, str]) -> dict[str, pd.Series]:
    return {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in types.items()}


def _percentile_columns(rows: list[_Row], names: Sequence[str]) -> dict[str, pd.Series]:
    """Return the columns of percentiles, such as ``clat_p99_9_ns``.

    There is a column for each percentile that occurs in any row. Columns are in the order of latencies, then
    percentiles.

    Args:
        rows: The rows.
        names: The name of each latency in columns, by the index in `_Row.percentiles`.

    Returns:
        The values of each column, by its name.
    """
    columns = {}
    for latency, percentile in sorted({key for row in rows for key in row.percentiles}):
        label = f"{percentile:.6f}".rstrip("0").rstrip(".").replace(".", "_")
        values = [row.percentiles.get((latency, percentile)) for row in rows]
        columns[f"{names[latency]}_p{label}_ns"] = pd.Series(values, dtype=_INTEGER)
    return columns


def _of_each_document(
    make: Callable[[Fields], Iterable[_Made]], coverage: TableCoverage | None
) -> Callable[[Item], Iterable[_Made]]:
    """Return a function for `gather` that applies ``make`` to each document.

    Args:
        make: Returns the rows of a document. Its argument is the top level of the document.
        coverage: Receives the number of documents, and what is left out of them; may be None.
    """

    def of_item(item: Item) -> Iterator[_Made]:
        for document in documents_of(item):
            if coverage is not None:
                _cover(document, coverage)
            yield from make(Fields(document, "", document.data))

    return of_item


# Fields of a job that the tables of this module have
_USED_FIELDS = frozenset({"jobname", "groupid", "error", "hostname", "job_runtime", "usr_cpu", "sys_cpu", "ctx"})
_USED_FIELDS |= {"job options", "iodepth_level", "iodepth_submit", "iodepth_complete", "sync", *DIRECTIONS}
_USED_FIELDS |= {"latency_ns", "latency_us", "latency_ms"}


def _cover(document: Document, coverage: TableCoverage) -> None:
    """Count a document, and the parts of it that no table has.

    Args:
        document: The document.
        coverage: Receives the numbers.
    """
    coverage.documents += 1
    coverage.left_out["documents without jobs"] += not document.jobs
    listed = document.data.get("client_stats" if "jobs" not in document.data else "jobs", [])
    coverage.left_out['sums over all servers ("All clients")'] += len(listed) - len(document.jobs)
    if any(map(is_summary, document.jobs)) and "jobs" not in document.data:
        coverage.remark('a document has no jobs, only the sum over all servers ("All clients"), which is a row')
    if document.index:
        coverage.remark("several documents of a file are results of one run since its start: use the last")
    for job in document.jobs:
        coverage.fields |= job.keys() - _USED_FIELDS
        coverage.left_out['sums over directions ("mixed")'] += "mixed" in job and not job.keys().isdisjoint(
            {"read", "write", "trim"}
        )
    for key, times in document.repeated.items():
        kept = "joined with colons" if key == "filename" else "of which the last counts"
        coverage.remark(f"the key {key!r} occurs up to {times} times in an object, {kept}")


def _job_rows(top: Fields, *, all_directions: bool, coverage: TableCoverage | None) -> Iterator[_Row]:
    for number, job, name, direction in directions(top.document):
        if all_directions or _issued_io(direction):
            options = options_of(top, job)
            fields = {
                **_position(top.document, number),
                "direction": name,
                **_job_fields(top, job),
                **_direction_fields(top, direction),
            }
            yield _Row(fields, dict(percentiles_of(top, direction, options)), options)
        elif coverage is not None:
            coverage.left_out["directions without I/O"] += 1


def _position(document: Document, job: int) -> dict[str, Any]:
    return {"source": document.source, "document": document.index, "job": job}


def latency_bins(
    sources: Sources,
    *,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
    coverage: TableCoverage | None = None,
) -> pd.DataFrame:
    """Return a table of latency histograms, one row per non-empty bin.

    fio writes histograms with ``--output-format=json+``.

    Args:
        sources: Files, folders, globs, open files, decoded results or documents, see `all_documents`.
        errors: What to do with a source that cannot be read: ``"raise"`` its error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.
        coverage: Receives how much of the sources the table represents.

    Returns:
        A frame with the columns below, bins in ascending order. Results without bins (``json``, or fio before 2.2.12)
        have no rows.

        - ``source``, ``document``, ``job``, ``jobname``, ``direction``: as in `jobs`.
        - ``latency``: ``slat``, ``clat`` or ``lat``. fio writes ``clat`` only, unless ``slat_percentiles``,
          ``lat_percentiles`` or ``clat_percentiles`` are set.
        - ``bin_ns``: the middle of the bin, which fio writes as its latency (``plat_idx_to_val`` in ``stat.c``). A bin
          below 128 ns is 1 ns wide. A bin above 128 ns is at most 1/64 of its latency wide. fio before 3.0 has the
          same bins in microseconds.
        - ``count``: number of I/Os in the bin. The sum over all bins is the number of samples that fio writes as ``N``.

    Raises:
        FioParseError: A source is not complete, valid output of fio, or a field has the wrong type.
        OSError: A file cannot be read.
    """
    found = list(gather(sources, _of_each_document(_histograms, coverage), errors=errors, skipped=skipped))
    types = {name: dtype for name, dtype in _BIN_COLUMNS.items() if name not in {"bin_ns", "count"}}
    histograms = pd.DataFrame([each.labels for each in found], columns=list(types)).astype(types)
    lengths = [len(each.bins) for each in found]
    table = histograms.loc[histograms.index.repeat(lengths)].reset_index(drop=True)
    # conversion by way of int64 is ten times as fast for a million numbers
    for column, numbers_of in (("bin_ns", attrgetter("bins")), ("count", attrgetter("counts"))):
        numbers = list(itertools.chain.from_iterable(map(numbers_of, found)))
        table[column] = pd.Series(numbers, dtype="int64").astype("Int64")
    return _counted(table, coverage)


@dataclass(frozen=True, slots=True)
class _Histogram:
    """A latency histogram, which becomes several rows of the table `latency_bins`.

    Attributes:
        labels: The values of the columns before ``bin_ns``, which are equal in all rows.
        bins: The latencies of the non-empty bins, in ns.
        counts: Number of I/Os in each bin.
    """

    labels: tuple[Any, ...]
    bins: list[int]
    counts: list[int]


def _histograms(top: Fields) -> Iterator[_Histogram]:
    document = top.document
    for number, job, name, direction in directions(document):
        moved = clat_is_lat(top, options_of(top, job))
        for latency, statistics, scale in latencies(direction):
            bins, counts = bins_of(statistics.child("bins"), scale)
            if bins:
                which = "lat" if moved and latency == "clat" else latency
                labels = (document.source, document.index, number, job.text("jobname"), name, which)
                yield _Histogram(labels, bins, counts)


def sync_latencies(
    sources: Sources,
    *,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
    coverage: TableCoverage | None = None,
) -> pd.DataFrame:
    """Return a table of sync latencies, one row per job with syncs.

    Syncs are the system calls ``fsync``, ``fdatasync`` and ``sync_file_range``.

    Args:
        sources: Files, folders, globs, open files, decoded results or documents, see `all_documents`.
        errors: What to do with a source that cannot be read: ``"raise"`` its error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.
        coverage: Receives how much of the sources the table represents.

    Returns:
        A frame with these columns. fio before 3.5 does not write sync latencies.

        - ``source``, ``document``, ``job``, ``hostname``, ``jobname``: as in `jobs`.
        - ``syncs``: number of measured syncs.
        - ``sync_{min,max,mean,stddev}_ns``: statistics of the duration of the system call.
        - ``sync_p<percentile>_ns``: a percentile of the duration. There is a column for each percentile that occurs in
          any source.

    Raises:
        FioParseError: A source is not complete, valid output of fio, or a field has the wrong type.
        OSError: A file cannot be read.
    """
    found = list(gather(sources, _of_each_document(_sync_rows, coverage), errors=errors, skipped=skipped))
    # fio files the percentiles of syncs under lat_ns
    columns = _percentile_columns(found, ["sync"] * len(LATENCIES))
    return _counted(pd.DataFrame(_columns([row.fields for row in found], _SYNC_COLUMNS) | columns), coverage)


def _sync_rows(top: Fields) -> Iterator[_Row]:
    for number, job in jobs_of(top.document):
        sync = job.child("sync")
        statistics = sync.child("lat_ns")
        # newer versions count syncs in N only, and write 0 as total_ios
        syncs = statistics.integer("N") or sync.integer("total_ios")
        if syncs:
            names = {"hostname": job.text("hostname"), "jobname": job.text("jobname"), "syncs": syncs}
            fields = {**_position(top.document, number), **names, **_statistics("sync", statistics)}
            yield _Row(fields, dict(percentiles_of(top, sync, {})))


def disk_util(
    sources: Sources,
    *,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
    coverage: TableCoverage | None = None,
) -> pd.DataFrame:
    """Return a table of disk statistics, one row per document and disk.

    The kernel collects these statistics during the run.

    Args:
        sources: Files, folders, globs, open files, decoded results or documents, see `all_documents`.
        errors: What to do with a source that cannot be read: ``"raise"`` its error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.
        coverage: Receives how much of the sources the table represents.

    Returns:
        A frame with these columns:

        - ``source``, ``document``: as in `jobs`.
        - ``disk``: the kernel's name of the disk.
        - ``{read,write}_ios``, ``{read,write}_merges``: numbers of completed and of merged requests.
        - ``{read,write}_sectors``: sectors of 512 bytes (fio 3.38 and later).
        - ``{read,write}_ticks_ms``, ``in_queue_ms``: waiting time, summed over all requests.
        - ``util_percent``: share of the time in which the disk was busy.
        - ``aggr_`` before the name of each statistic, such as ``aggr_read_ios``: for a disk that consists of other
          disks (RAID, LVM), the mean over these disks. ``aggr_util_percent`` is the maximum over these disks.

    Raises:
        FioParseError: A source is not complete, valid output of fio, or a field has the wrong type.
        OSError: A file cannot be read.
    """
    found = list(gather(sources, _of_each_document(_disk_rows, coverage), errors=errors, skipped=skipped))
    return _counted(pd.DataFrame(_columns(found, _DISK_COLUMNS)), coverage)


def _disk_rows(top: Fields) -> Iterator[dict[str, Any]]:
    for disk in top.objects("disk_util"):
        row = {"source": top.document.source, "document": top.document.index, "disk": disk.text("name")}
        for key, column in _DISK_FIELDS.items():
            row[column] = disk.integer(key) if _DISK_COLUMNS[column] == _INTEGER else disk.real(key)
        yield row


def _issued_io(direction: Fields) -> bool:
    # fio before 2.1.14 does not write total_ios
    return any(direction.real(key) for key in ("total_ios", "io_bytes", "runtime"))


def _job_fields(top: Fields, job: Fields) -> dict[str, Any]:
    timestamp_ms = top.integer("timestamp_ms")
    depths = job.child("iodepth_level")
    shares = {label: depths.real(label) for label in _DEPTHS}
    largest = max(_DEPTHS, key=lambda label: shares[label] or 0)
    return {
        "hostname": job.text("hostname"),
        "jobname": job.text("jobname"),
        "groupid": job.integer("groupid"),
        "error": job.integer("error"),
        "fio_version": top.text("fio version"),
        "timestamp_ms": top.integer("timestamp", 1000) if timestamp_ms is None else timestamp_ms,
        "job_runtime_ms": job.integer("job_runtime"),
        "usr_cpu_percent": job.real("usr_cpu"),
        "sys_cpu_percent": job.real("sys_cpu"),
        "context_switches": job.integer("ctx"),
        "iodepth_reached": _DEPTHS[largest] if shares[largest] else None,
        **{_DEPTH_COLUMNS[label]: share for label, share in shares.items()},
        **{column: job.child(f"iodepth_{call}").real(label) for (call, label), column in _BATCH_COLUMNS.items()},
        **{column: job.child(f"latency_{unit}").real(label) for (unit, label), column in _LATENCY_COLUMNS.items()},
    }


def _direction_fields(top: Fields, direction: Fields) -> dict[str, Any]:
    # io_bytes is in KiB before fio 2.21, which introduced io_kbytes; bw_bytes came later
    in_bytes = "io_kbytes" in direction.fields or "bw_bytes" in direction.fields
    in_bytes = in_bytes or (version_of(top) or (0, 0)) >= (2, 21)
    bandwidth = direction.integer("bw_bytes")
    row = {
        "runtime_ms": direction.integer("runtime"),
        "io_bytes": direction.integer("io_bytes", 1 if in_bytes else 1024),
        "total_ios": direction.integer("total_ios"),
        "short_ios": direction.integer("short_ios"),
        "drop_ios": direction.integer("drop_ios"),
        "iops": direction.real("iops"),
        "bandwidth_bytes_per_s": direction.integer("bw", 1024) if bandwidth is None else bandwidth,
    }
    # the standard deviation of bandwidth is bw_dev, the one of IOPS iops_stddev
    for name, key, deviation, unit, scale in (
        ("bandwidth", "bw_", "bw_dev", "_bytes_per_s", 1024),
        ("iops", "iops_", "iops_stddev", "", 1),
    ):
        keys = f"{key}min", f"{key}max", f"{key}mean", deviation
        row |= _statistics(name, direction, scale, keys=keys, unit=unit, count=f"{key}samples")
        row[f"{name}_samples"] = direction.integer(f"{key}samples")
    row["bandwidth_share_percent"] = direction.real("bw_agg") if sampled(direction, "bw_samples") else None
    for latency, statistics, scale in latencies(direction):
        row |= _statistics(latency, statistics, scale)
    return row


def _statistics(
    name: str,
    statistics: Fields,
    scale: int = 1,
    *,
    keys: Sequence[str] = _STATISTICS,
    unit: str = "_ns",
    count: str = "N",
) -> dict[str, Any]:
    """Return minimum, maximum, mean and standard deviation as columns of a row.

    Without samples, all values are None.

    Args:
        name: Beginning of the column names, such as ``clat``.
        statistics: The object with the fields of fio.
        scale: Factor from the unit of fio to the unit of the columns.
        keys: The fields with the four statistics, in the order above.
        unit: End of the column names.
        count: The field with the number of samples.

    Returns:
        The values by column, such as ``clat_min_ns``.
    """
    readers = (statistics.integer, statistics.integer, statistics.real, statistics.real)
    there = sampled(statistics, count)
    return {
        f"{name}_{statistic}{unit}": read(key, scale) if there else None
        for statistic, key, read in zip(_STATISTICS, keys, readers, strict=True)
    }
