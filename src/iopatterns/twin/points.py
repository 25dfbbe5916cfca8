"""Read measured points: workloads, and the rates and latencies that fio measured for them.

Points come from fio's JSON output, from folders of it such as the results of bench-fio, and from CSV tables. A point
that cannot represent the drive, such as a buffered measurement, is refused with the reason and the remedy.
"""

import csv
import glob
import hashlib
import io
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fio_parser_json.documents import Document

import fio_parser_json
from iopatterns.base import engines, files, units
from iopatterns.twin.error import TwinError
from iopatterns.twin.models import Model

COUNTED_DIRECTIONS = ("read", "write")
# Measured figures of a point; empty in a table if they are unknown
FIGURE_COLUMNS = tuple(
    f"{direction}_{figure}"
    for figure in ("iops", "lat_mean_us", "clat_p50_us", "clat_p99_us")
    for direction in COUNTED_DIRECTIONS
)
IDENTITY = ("drive", "rw", "rwmixread", "bs_bytes", "iodepth", "numjobs")
_CONDITIONS = ("engine", "direct", "size_bytes", "runtime_s", "ramp_s", "sector_bytes")
POINT_COLUMNS = (*IDENTITY, *_CONDITIONS, *FIGURE_COLUMNS, "part", "source")
_TEXTS = ("drive", "rw", "engine", "part", "source")
FIT_PART = "fit"
_REQUIRED = ("rw", "bs_bytes", "iodepth", "numjobs")
WORKLOADS = ("read", "randread", "write", "randwrite", "randrw")

# A table of published values has one figure a row, and these columns
_VALUE_COLUMNS = ("id", "rw", "bs", "value", "unit")
_RATE_UNITS = ("MB/s", "MiB/s", "IOPS")
_FACTORS = ("numjobs", "iodepth", "rwmixread")
# Quantities of published values that count one direction of a mixed workload
_QUANTITIES = {"read iops": "read", "write iops": "write"}
# Figures of a table of published values: the rate of all requests, or their mean latency
_ALIASES = {"bs": "bs_bytes", "size": "size_bytes"}

_MAX_TABLE_BYTES = 16 * 2**20
_MAX_FIO_BYTES = 256 * 2**20
# Options of fio whose effect on the requests is not simulated, and the values that have no effect
_NOT_SIMULATED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            *("bsrange", "blocksize_range", "bssplit", "bs_unaligned", "percentage_random", "random_distribution"),
            *("zonemode", "fsync", "fdatasync", "sync", "read_iolog", "verify", "offset", "latency_target"),
        ],
        ("0", "none", "random"),
    ),
    **dict.fromkeys(("iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete_min"), ("1",)),
}
_RATE_LIMITS = ("rate", "rate_iops", "rate_process", "thinktime", "flow")
# Rate times latency (Little's law) is the number of outstanding requests. It may exceed the number that the options
# allow, because jobs begin and end at different times; it is lower if the requests did not overlap. In 570 published
# runs on five drives (fit and selection of data/published/README.md) it is 0.62 to 1.21 times the allowed number.
_MOST_OUTSTANDING, _LEAST_OUTSTANDING = 1.25, 0.5
_FEWEST_FOR_P99 = 500  # requests; the percentile of fewer requests is noise
_LINK_TOLERANCE = 1.05
# Highest rates of the links, in bytes per second: SATA 3, 24G SAS, and four lanes of PCIe 5
_LINK_RATES = {"sata": 600e6, "sas": 2.4e9, "nvme": 15.75e9}


@dataclass(frozen=True)
class Points:
    """Measured points, and the reasons why others were refused.

    Attributes:
        table: A row for each point, with the columns `POINT_COLUMNS`. Unknown numbers are NaN and unknown texts empty.
            Rates are in requests per second, latencies in microseconds, sizes in bytes.
        refused: A line for each refused point or file: place, reason and remedy.
        notes: A line for each assumption about accepted points.
    """

    table: pd.DataFrame
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _RefusalError(Exception):
    """A point that cannot represent the drive. The text is the reason and the remedy."""


def identities(table: pd.DataFrame) -> pd.Series:
    """Return the identity of each point: drive and workload as text, such as ``ssd randread  4096 16 4``.

    Repeated measurements of a point have the same identity. Unknown values are empty.

    Args:
        table: Points with the columns `IDENTITY`.
    """

    def texts(name: str) -> Iterator[str]:
        for value in table[name]:
            yield value if isinstance(value, str) else "" if pd.isna(value) else f"{value:.0f}"

    rows = zip(*(texts(name) for name in IDENTITY), strict=True)
    return pd.Series([" ".join(row) for row in rows], index=table.index, dtype=str)


def read_points(paths: Sequence[str | Path]) -> Points:
    """Read measured points from fio's JSON output and from CSV tables.

    A path is a file, a folder or a glob. Of a folder, all files below it that end in ``.json`` are read. Other files
    than ``.csv`` are fio's JSON or JSON+ output. Each section of fio's job file is a point, with the total rate of its
    jobs. A CSV table has the columns `POINT_COLUMNS` (required: ``rw``, ``bs_bytes``, ``iodepth``, ``numjobs`` and one
    figure), or those of a table of published values: ``id``, ``rw``, ``bs``, ``value`` and ``unit``.

    Args:
        paths: The paths. The order of the result follows them; files of a folder or glob are sorted by name.

    Returns:
        The points, and a line for each point that was refused.

    Raises:
        TwinError: A path matches no file, a CSV table is not valid, or all points were refused.
    """
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    for path in input_files(paths):
        if path.suffix == ".csv":
            found, problems = _read_table(path)
        else:
            found, problems = _read_fio(path)
        rows += found
        refused += problems
    if not rows:
        raise TwinError("\n".join(["there are no measured points to use.", *refused]))
    table = _typed(rows)
    notes = []
    if "io_uring" in set(table["engine"]):
        notes.append("Points with ioengine=io_uring are simulated as libaio: the model has one way to submit requests.")
    return Points(table, refused, notes)


def named_points(paths: Sequence[str | Path], names: Sequence[str], drive: str = "") -> pd.DataFrame:
    """Return the points of the given names, in the order of the names.

    Other rows of a table of published values are not parsed, because many cannot be simulated.

    Args:
        paths: The paths, see `read_points`.
        names: Values of ``id``, or names as `point_texts` returns them.
        drive: The name of the drive, see `of_drive`.

    Raises:
        TwinError: There is no point of a name, or it cannot be simulated.
        OSError: A table cannot be read.
    """
    rows: list[dict[str, Any]] = []
    others: list[str | Path] = []
    for path in map(Path, paths):
        lines: list[dict[str, str]] = []
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                lines = list(csv.DictReader(file))
        if lines and "value" in lines[0]:
            rows += [published_row(line, f"{path}: {line['id']}") for line in lines if line["id"] in set(names)]
        else:
            others.append(path)
    table = _typed(rows)
    if others:
        read, _ = merged_repeats(of_drive(read_points(others).table, drive))
        table = pd.concat([table, read.assign(id=point_texts(read))], ignore_index=True)
    table = table.drop_duplicates("id").set_index("id", drop=False) if len(table) else table
    if missing := [name for name in names if name not in table.index]:
        places = ", ".join(map(str, paths))
        raise TwinError(f"{places}: there is no value '{missing[0]}', which the fit section of the model refers to")
    return table.loc[list(names)].reset_index(drop=True)


def of_drive(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the points of the drive of a name if there are any, otherwise all points."""
    own = table["drive"] == name
    return table[own] if own.any() else table


def _typed(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    extra = [name for name in ("id", "unit") if any(name in row for row in rows)]
    table = pd.DataFrame(rows, columns=[*POINT_COLUMNS, *extra])
    texts = [*_TEXTS, *extra]
    table[texts] = table[texts].astype(object).fillna("").astype(str)
    numbers = [name for name in POINT_COLUMNS if name not in _TEXTS]
    table[numbers] = table[numbers].apply(pd.to_numeric).astype(float)
    return table.astype(dict.fromkeys(("bs_bytes", "iodepth", "numjobs"), np.int64))


def input_files(paths: Sequence[str | Path]) -> list[Path]:
    """Return the files of paths, folders and globs.

    Args:
        paths: The paths, see `read_points`.

    Raises:
        TwinError: A path matches no file.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            here = sorted(each for each in path.rglob("*.json") if each.is_file())
            if not here:
                raise TwinError(f"{path}: no file in this folder ends in .json, as fio's JSON output should")
        else:
            matches = glob.glob(str(path), recursive=True)  # noqa: PTH207 - a pattern may be absolute
            here = [path] if path.exists() or path.is_symlink() else sorted(map(Path, matches))
            if not here:
                raise TwinError(f"{path}: no such file or folder")
        found += here
    return list(dict.fromkeys(found))


# --- tables ---------------------------------------------------------------------------------------------------------


def _read_table(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        text = files.read_bounded(path, _MAX_TABLE_BYTES).decode()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        names = [_ALIASES.get(name, name) for name in reader.fieldnames or []]
        published = "value" in names
        required = _VALUE_COLUMNS if published else _REQUIRED
        given = reader.fieldnames or [] if published else names
        if missing := [column for column in required if column not in given]:
            raise TwinError(f"{path}, line 1: no column '{missing[0]}'. Required: {', '.join(required)}.")
        if not published and not set(names) & set(FIGURE_COLUMNS):
            raise TwinError(f"{path}, line 1: no column with a figure. Valid: {', '.join(FIGURE_COLUMNS)}.")
        rows, refused = [], []
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            try:
                rows.append(published_row(row, where) if published else _table_row(row, where))
            except _RefusalError as problem:
                refused.append(f"{where}: {problem}")
        return rows, refused
    except (FileNotFoundError, files.UnreadableError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise TwinError(f"{path}: not readable as a table of points: {reason}") from None


def _table_row(row: Mapping[str, str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {"source": where}
    for name, text in row.items():
        column = _ALIASES.get(name, name)
        if column not in {*POINT_COLUMNS, "id"} or not text:
            continue
        try:
            if column in {*_TEXTS, "id"}:
                found[column] = text
            elif column in {"bs_bytes", "size_bytes", "sector_bytes"}:
                found[column] = units.parse_size(text)
            else:
                found[column] = float(text)
        except ValueError:
            raise TwinError(f"{where}: {name} is '{text}', but must be a number") from None
    if found.get("rw") == "randrw" and "rwmixread" not in found:
        found["rwmixread"] = 50.0
    if not found.get("direct", 1):
        raise _RefusalError(_BUFFERED)
    _check_workload(found, where)
    _check_figures(found, where)
    return found


def published_row(row: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return the point of a row of a table of published values, which has one figure.

    Args:
        row: The texts of the row: ``id``, ``rw``, ``bs``, ``value`` and ``unit`` (MB/s, MiB/s, IOPS, or us for the mean
            latency). Optional: ``numjobs``, ``iodepth`` and ``rwmixread``, also as one text in ``conditions``, such as
            ``numjobs=16; iodepth=4``; ``quantity``, ``read iops`` or ``write iops`` if the value counts one direction
            of a mixed workload; ``part``, see `FIT_PART`.
        where: File and line, with which error messages begin.

    Returns:
        Values by column of `POINT_COLUMNS`, and ``id`` and ``unit``.

    Raises:
        TwinError: The point cannot be simulated.
    """
    row = {**row, **_parse_conditions(row.get("conditions") or "", where)}
    try:
        found: dict[str, Any] = {
            "rw": row["rw"],
            "bs_bytes": units.parse_size(row["bs"] or ""),
            **{name: int(row.get(name) or 1) for name in ("numjobs", "iodepth")},
        }
        value = float(row["value"] or "")
        if found["rw"] == "randrw":
            found["rwmixread"] = float(int(row.get("rwmixread") or 50))
    except ValueError as error:
        raise TwinError(f"{where}: {error}") from None
    _check_workload(found, where)
    unit = row["unit"]
    if unit not in {*_RATE_UNITS, "us"}:
        raise TwinError(f"{where}: unit is '{unit}'. Valid: {', '.join((*_RATE_UNITS, 'us'))}.")
    if not 0 < value < math.inf:
        raise TwinError(f"{where}: value must be above 0")
    shares = read_write_shares(found["rw"], found.get("rwmixread", math.nan))
    counted = [direction for direction in COUNTED_DIRECTIONS if shares[direction]]
    if named := _QUANTITIES.get(row.get("quantity") or ""):
        if named not in counted:
            raise TwinError(
                f"{where}: the value counts the direction {named}, which rw={found['rw']} with"
                f" rwmixread={found.get('rwmixread', math.nan):g} excludes"
            )
        counted = [named]
    if unit == "us":
        if len(counted) > 1 or named:
            raise TwinError(
                f"{where}: cannot fit the time per request of one direction of a mixed workload. Give its rate."
            )
        found[f"{counted[0]}_lat_mean_us"] = value
    else:
        total = sum(shares[direction] for direction in counted)
        for direction in counted:
            found[f"{direction}_iops"] = value / unit_per_iops(unit, found["bs_bytes"]) * shares[direction] / total
    return {**found, "id": row["id"], "unit": unit, "part": row.get("part") or "", "source": where}


def unit_per_iops(unit: str, bs_bytes: int) -> float:
    """Return how much one request per second is in a unit: 1 for requests of 1 MB and the unit MB/s.

    Args:
        unit: ``MB/s``, ``MiB/s``, or another text for requests per second.
        bs_bytes: Size of a request.
    """
    return {"MB/s": bs_bytes / 1e6, "MiB/s": bs_bytes / 2**20}.get(unit, 1.0)


def read_write_shares(rw: str, rwmixread: float) -> dict[str, float]:
    """Return the shares of reads and writes among the requests of a workload, from 0 to 1.

    Args:
        rw: Kind of workload as in fio, an item of `WORKLOADS`.
        rwmixread: Percentage of reads of the mixed workload randrw.
    """
    reads = rwmixread / 100 if rw == "randrw" else float(rw.endswith("read"))
    return {"read": reads, "write": 1 - reads}


def _parse_conditions(text: str, where: str) -> dict[str, str]:
    """Return the names and values in a text such as ``numjobs=16; iodepth=4``.

    Raises:
        TwinError: A name is none of numjobs, iodepth and rwmixread. The fit would compare the point with a different
            workload.
    """
    pairs = [pair.strip().partition("=") for pair in text.split(";") if pair.strip()]
    for factor, _, level in pairs:
        if factor not in _FACTORS or not level:
            raise TwinError(
                f"{where}: the condition '{factor}={level}' cannot be simulated by a fit, which varies only rw, bs and"
                f" {', '.join(_FACTORS)}. Leave this point out."
            )
    return {factor: level for factor, _, level in pairs}


def _check_workload(found: Mapping[str, Any], where: str) -> None:
    """Raise TwinError for a row of a table without a workload that can be simulated."""
    rw = found.get("rw", "")
    if rw not in WORKLOADS:
        raise TwinError(f"{where}: rw is '{rw}'. Valid: {', '.join(WORKLOADS)}.")
    if any(found.get(name, 0) < 1 for name in _REQUIRED[1:]) or found["bs_bytes"] % 512:
        raise TwinError(f"{where}: bs, numjobs and iodepth must be above 0, and bs a multiple of 512 bytes")
    if not 0 <= found.get("rwmixread", 0) <= 100:
        raise TwinError(f"{where}: rwmixread is {found['rwmixread']:g}, but must be from 0 to 100")


def _check_figures(found: dict[str, Any], where: str) -> None:
    """Drop the figures of directions without requests; raise TwinError for figures that are not valid."""
    shares = read_write_shares(found["rw"], found.get("rwmixread", 0))
    for name in FIGURE_COLUMNS:
        if name in found and (not shares[name.partition("_")[0]] or not found[name]):
            del found[name]
        elif name in found and not 0 < found[name] < math.inf:
            raise TwinError(f"{where}: {name} is {found[name]:g}, but must be above 0")
    if not set(found) & set(FIGURE_COLUMNS):
        raise TwinError(f"{where}: no figure is given. Valid: {', '.join(FIGURE_COLUMNS)}.")


# --- output of fio --------------------------------------------------------------------------------------------------

_BUFFERED = (
    "direct=1 is not among its options: it was measured through the page cache of the operating system. Measure with"
    " direct=1."
)


def _read_fio(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    try:
        files.read_bounded(path, _MAX_FIO_BYTES)  # refuses pipes and devices, from which reading may never end
        documents = fio_parser_json.read_documents(path)
    except fio_parser_json.FioParseError as error:  # its message names the file
        return [], [str(error)]
    except (files.UnreadableError, OSError) as error:
        return [], [f"{path}: {getattr(error, 'strerror', None) or error}"]
    rows, refused = [], []
    for document in _final(documents):
        for name, jobs, concurrent in _sections(document):
            where = f"{path}, job {name}"
            try:
                if concurrent:
                    raise _RefusalError(
                        f"it ran at the same time as job {concurrent}, but each point is simulated alone. Put"
                        " 'stonewall' between the sections and measure again."
                    )
                rows.append({**_fio_row(document, jobs), "source": f"{path}:{name}"})
            except _RefusalError as problem:
                refused.append(f"{where}: {problem}")
    if not rows and not refused:
        refused.append(f"{path}: no job in it reads or writes")
    return rows, refused


def _final(documents: Sequence[Document]) -> list[Document]:
    """Return the documents without the interim results that fio writes with ``--status-interval``.

    Interim results have the same jobs, and begin at the same time as their final result.
    """

    def start_s(document: Document) -> tuple[Hashable, float]:
        names = tuple(job.get("jobname") for job in document.jobs)
        elapsed_s = max((job.get("elapsed") or 0 for job in document.jobs), default=0)
        return names, float(document.data.get("timestamp") or 0) - elapsed_s

    starts = [start_s(document) for document in documents]
    interim = [first[0] == last[0] and abs(first[1] - last[1]) <= 1 for first, last in pairwise(starts)]
    return [document for document, dropped in zip(documents, [*interim, False], strict=True) if not dropped]


def _sections(document: Document) -> Iterator[tuple[str, list[Mapping[str, Any]], str]]:
    """Yield the sections of fio's job file: the name, the jobs, and the name of a concurrent section if there is one.

    Sections of one group run at the same time, except for sections with the option ``wait_for``. fio begins a new group
    at the option ``stonewall``.
    """
    sections: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for job in document.jobs:
        sections.setdefault((job.get("hostname"), job.get("groupid"), job["jobname"]), []).append(job)
    groups: dict[tuple[Any, ...], list[str]] = {}
    for (host, group, name), jobs in sections.items():
        if group is not None and "wait_for" not in jobs[0].get("job options", {}):
            groups.setdefault((host, group), []).append(name)
    for (host, group, name), jobs in sections.items():
        others = [other for other in groups.get((host, group), []) if other != name]
        own = name in groups.get((host, group), [])
        yield name, jobs, others[0] if own and others else ""


def _fio_row(document: Document, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the point of one section of fio's job file.

    Args:
        document: The document.
        jobs: The results of the section: one for each job, or a single result for all jobs (``group_reporting``). The
            number of results decides which, because fio before 3.39 does not write that option.

    Returns:
        Values by column of `POINT_COLUMNS`.

    Raises:
        _RefusalError: The section cannot represent the drive.
    """
    # the parser resolves the units of all versions of fio, and the options of the command line and of the job
    content: dict[str, Any] = {**document.data, _jobs_key(document): list(jobs)}
    try:
        table = fio_parser_json.jobs(content)
    except fio_parser_json.FioParseError as error:
        raise _RefusalError(f"{str(error).removeprefix('<decoded 0>: ')}. Repeat the measurement.") from None
    if errors := sorted(set(table["error"].dropna()) - {0}):
        raise _RefusalError(f"fio reports error {errors[0]}. Repeat the measurement.")
    if table.empty:
        raise _RefusalError("it neither read nor wrote. Repeat the measurement.")
    options = {
        str(name).removeprefix("option_"): str(value)
        for name, value in table.iloc[0].items()
        if str(name).startswith("option_") and not pd.isna(value)
    }
    row = _workload(options, table.iloc[0])
    _check_options(options, row)
    numjobs = row["numjobs"]
    if len(jobs) not in {1, numjobs}:
        raise _RefusalError(
            f"{len(jobs)} results have this name, but numjobs={numjobs} gives {numjobs} results, or one with"
            " group_reporting. Give each section a name of its own."
        )
    outstanding = 0.0
    for direction in distinct(table["direction"]):
        part = table[table["direction"] == direction]
        if direction not in COUNTED_DIRECTIONS:
            raise _RefusalError(
                f"it has requests of the kind '{direction}', which is not simulated. Leave this job out."
            )
        requests = float(part["total_ios"].sum())
        iops = float(part["iops"].sum())
        if not iops > 0:
            raise _RefusalError("it states no rate of its requests. Repeat the measurement.")
        weights = part["iops"].to_numpy(dtype=float)
        means = part["lat_mean_ns"].to_numpy(dtype=float, na_value=np.nan) / 1e3
        means[means == 0] = np.nan  # disable_lat=1
        row[f"{direction}_iops"] = iops
        row[f"{direction}_lat_mean_us"] = float(np.average(means, weights=weights))
        outstanding += iops * row[f"{direction}_lat_mean_us"] / 1e6
        for percentile in (50, 99):
            column = f"clat_p{percentile}_ns"
            enough = percentile == 50 or not requests < _FEWEST_FOR_P99
            if len(part) == 1 and enough and column in part and not pd.isna(part[column].iloc[0]):
                row[f"{direction}_clat_p{percentile}_us"] = float(part[column].iloc[0]) / 1e3
    row["runtime_s"] = float(table["runtime_ms"].max()) / 1e3
    allowed = numjobs * row["iodepth"]
    if not outstanding <= allowed * _MOST_OUTSTANDING and not math.isnan(outstanding):
        raise _RefusalError(
            f"by its rate and latency, {outstanding:.1f} requests were outstanding (Little's law), but its options"
            f" allow {allowed} (numjobs={numjobs}, iodepth={row['iodepth']}, ioengine={row['engine']}). Possible cause:"
            " several sections in one group. Put 'stonewall' between the sections and measure again."
        )
    if outstanding < allowed * _LEAST_OUTSTANDING:
        raise _RefusalError(
            f"by its rate and latency, only {outstanding:.1f} of {allowed} requests were outstanding (Little's law)."
            " The file system or engine did not keep them outstanding. Measure the block device with libaio, direct=1."
        )
    return {name: value for name, value in row.items() if name not in FIGURE_COLUMNS or value > 0}


def _jobs_key(document: Document) -> str:
    return "jobs" if "jobs" in document.data else "client_stats"


def _workload(options: Mapping[str, str], first: pd.Series) -> dict[str, Any]:
    """Return the columns `IDENTITY` and the conditions of a point.

    Args:
        options: The options of the job as text.
        first: The first row of `fio_parser_json.jobs`, with the numeric options.

    Raises:
        _RefusalError: The workload is not simulated.
    """

    def number(name: str, otherwise: float = math.nan) -> float:
        value = first.get(name)
        return otherwise if value is None or pd.isna(value) else float(value)

    rw = options.get("rw") or options.get("readwrite") or "read"
    if rw not in WORKLOADS:
        raise _RefusalError(f"rw={rw} is not simulated. Measure one of {', '.join(WORKLOADS)}.")
    engine = options.get("ioengine", engines.DEFAULT_ENGINE)
    if engine not in {*engines.SYNCHRONOUS_ENGINES, *engines.ASYNCHRONOUS_ENGINES}:
        raise _RefusalError(f"ioengine={engine} is not simulated. Measure with libaio, io_uring or psync.")
    block = options.get("bs") or options.get("blocksize") or "4k"
    bs_bytes = number("bs_bytes", math.nan if "bs" in options else 4096)
    if "blocksize" in options:
        bs_bytes = math.nan if "," in block else _option_size(options, "blocksize")
    if not bs_bytes >= 512 or bs_bytes % 512 or "," in block:
        raise _RefusalError(f"bs={block} is not simulated. Measure one size, a multiple of 512 bytes.")
    size = options.get("size", "")
    if size.endswith("%") and size != "100%":
        raise _RefusalError(f"size={size} leaves the region open. Give size in bytes, or measure the whole drive.")
    names = options.get("filename", "").replace("\\:", "")
    if ":" in names:
        raise _RefusalError(
            f"it accesses several files or drives ({options['filename']}). Measure one drive at a time."
        )
    asynchronous = engine in engines.ASYNCHRONOUS_ENGINES
    numjobs = int(number("numjobs", 1))
    size_bytes = number("size_bytes") or math.nan
    if not names:  # each job has a file of its own
        size_bytes *= numjobs
    elif "offset_increment" in options:
        size_bytes += (numjobs - 1) * _option_size(options, "offset_increment")
    elif numjobs > 1 and not rw.startswith("rand"):
        raise _RefusalError(
            f"its {numjobs} jobs read or write the same blocks in sequence, which caches answer. Measure with"
            " offset_increment, so that each job has a part of its own."
        )
    return {
        "drive": options.get("filename", "").replace("\\:", ":"),
        "rw": rw,
        "rwmixread": number("rwmixread_percent", 50) if rw == "randrw" else math.nan,
        "bs_bytes": int(bs_bytes),
        "iodepth": int(number("iodepth", 1)) if asynchronous else 1,
        "numjobs": numjobs,
        "engine": engine,
        "size_bytes": size_bytes,
        "ramp_s": number("ramp_time_us", 0) / 1e6,
    }


def _check_options(options: Mapping[str, str], row: dict[str, Any]) -> None:
    """Raise _RefusalError if the options of a job spoil its figures; add to the row whether it was direct."""
    direct = options.get("direct", "0") not in {"0", "false"} or options.get("buffered") == "0"
    if not direct:
        raise _RefusalError(_BUFFERED)
    row["direct"] = 1.0
    for option in _RATE_LIMITS:
        if options.get(option, "0") not in {"0", "none", "linear"}:
            raise _RefusalError(f"{option}={options[option]} limits its rate. Measure without {option}.")
    for option, neutral in _NOT_SIMULATED.items():
        if option in options and options[option] not in neutral:
            raise _RefusalError(f"its option {option}={options[option]} cannot be simulated. Measure without {option}.")
    for option in ("blockalign", "ba"):
        if option in options and _option_size(options, option) < row["bs_bytes"]:
            raise _RefusalError(f"{option}={options[option]} misaligns its requests. Measure without {option}.")


def _option_size(options: Mapping[str, str], name: str) -> int:
    """Return the value of an option in bytes.

    Raises:
        _RefusalError: The value is not a size, such as ``10%``.
    """
    try:
        return units.parse_size(options[name])
    except ValueError:
        raise _RefusalError(f"{name}={options[name]} is not a size in bytes. Measure with one, such as 4k.") from None


# --- checks against a model -----------------------------------------------------------------------------------------


def possible_points(found: Points, model: Model) -> Points:
    """Refuse points that the drive of a model cannot have reached.

    A rate above that of the link suggests that the drive or a file system answered without reading: from unwritten
    extents of a sparse file, from discarded blocks, or from a cache.

    Args:
        found: The points. If some are of a drive with the model's name, points of other drives are left out.
        model: The model. Its data sheet or its kind of link determines the highest rate.

    Returns:
        The possible points, with the refused points added to ``refused``.

    Raises:
        TwinError: No point is left, or the points are of several drives.
    """
    table = of_drive(found.table, model.name)
    drives = sorted(set(table["drive"]) - {""})
    if len(drives) > 1:
        raise TwinError(
            f"the points are of several drives: {', '.join(drives)}. A twin is of one drive: give the results of one"
            " drive only."
        )
    rate = _LINK_RATES[str(model.identity["transport"])]
    if model.sources["link.rate"][0] == "datasheet":
        rate = min(rate, model.number("link.rate") * _LINK_TOLERANCE)
    totals = table[[f"{direction}_iops" for direction in COUNTED_DIRECTIONS]].mul(table["bs_bytes"], axis=0)
    too_fast = (totals > rate).any(axis=1)
    refused = [
        f"{source}: it transfers {total / 1e6:.0f} MB/s, but the link of the drive {rate / 1e6:.0f} MB/s. Suspected:"
        " blocks that were never written or are discarded, which a drive or file system answers without reading, or a"
        " cache. Write the region once, then measure with direct=1."
        for source, total in zip(table["source"][too_fast], totals[too_fast].max(axis=1), strict=True)
    ]
    left = Points(table[~too_fast].reset_index(drop=True), [*found.refused, *refused], found.notes)
    if left.table.empty:
        raise TwinError("\n".join(["there are no measured points to use.", *left.refused]))
    return left


# --- parts ----------------------------------------------------------------------------------------------------------


def with_parts(table: pd.DataFrame, seed: int = 1, held_out: float = 0.25) -> pd.DataFrame:
    """Return the points with their part: `FIT_PART`, or the name of a part that the fit does not see.

    If any row has a part, the given parts are kept, and an empty part is `FIT_PART`. Otherwise the points are sorted by
    the SHA-256 of ``SEED IDENTITY`` (see `identities`), and the first are held out. Repeats of a point have the same
    part.

    Args:
        table: The points.
        seed: Another seed holds out other points.
        held_out: Share of the held-out points, rounded down.
    """
    part = table["part"].replace({"": FIT_PART, "predict": "held out"})
    if not table["part"].any():
        names = identities(table)
        order = sorted(set(names), key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
        out = order[: int(held_out * len(order))]
        part = names.isin(out).map({True: "held out", False: FIT_PART})
    return table.assign(part=part)


def merged_repeats(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return one row per point, and the noise of its repeats.

    Args:
        table: The points, repeats included.

    Returns:
        The points, with the geometric mean of each figure over the repeats; and a table of the same index with a column
        for each of `FIGURE_COLUMNS`: the standard deviation of the natural logarithm of the repeats, NaN for a single
        measurement.
    """
    names = identities(table)
    first = table.groupby(names, sort=False).first()
    figures = table[list(FIGURE_COLUMNS)]
    logarithms = pd.DataFrame(np.log(figures.where(figures > 0).to_numpy()), table.index, figures.columns)
    means = logarithms.groupby(names, sort=False).mean().transform("exp")
    noise = logarithms.groupby(names, sort=False).std()
    single = names.groupby(names, sort=False).size() == 1
    merged = first.reindex(columns=table.columns)
    merged[list(FIGURE_COLUMNS)] = means.where(~single, first[list(FIGURE_COLUMNS)], axis=0)
    return merged.reset_index(drop=True), noise.reset_index(drop=True)


def point_texts(table: pd.DataFrame) -> list[str]:
    """Return a short name for each point, such as ``randread 4k, depth 16, jobs 4``; its ``id`` if it has one."""
    texts = []
    for row in table.to_dict("records"):
        mix = f" {row['rwmixread']:.0f}" if row["rw"] == "randrw" else ""
        size = units.format_size(int(row["bs_bytes"])).replace(" ", "")
        usual = f"{row['rw']}{mix} {size}, depth {row['iodepth']}, jobs {row['numjobs']}"
        texts.append(row.get("id") or usual)
    return texts


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in ascending order."""
    return sorted(set(values))
