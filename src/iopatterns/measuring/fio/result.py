"""The check of fio's results: complete, valid and undisturbed."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fio_parser_json.documents import FioParseError, read_documents

from iopatterns.base import engines
from iopatterns.measuring.fio.command_line import one_pass_bytes
from iopatterns.measuring.fio.process import DisturbedError, FioError, FioOutcome, indented
from iopatterns.raw.records import FioOptions, Specification

# A direction of a mixed workload may have had no request if this is at least as likely by chance
_MIN_LIKELIHOOD = 1e-6
# A repetition whose I/O ran for less than this share of the requested runtime was cut short
_MIN_RUNTIME_SHARE = 0.9
# A repetition whose I/O ran for longer than this was disturbed. fio submits its last requests within the runtime; the
# time that these take is added (`_max_runtime_ms`). The share and the milliseconds allow for a drive that completes its
# last requests late, such as during garbage collection. Half a second is more than SSDs and hard disks take for one
# request without error recovery.
_MAX_RUNTIME_SHARE = 1.5
_MAX_LATE_END_MS = 500
# fio may need this long in addition to its I/O: to start threads, to read a log, to empty the page cache of the drive.
# The limit is generous because overhead alone changes no result.
_MAX_OVERHEAD_S = 30.0


def check_result(
    output: Path, specification: Specification, requests: int | None = None, outcome: FioOutcome | None = None
) -> int:
    """Check the result of a repetition; return how many bytes it read and wrote.

    fio may exit with 0 although it measured nothing. A valid result therefore has:

    - one document without errors
    - the expected number of jobs
    - reads if the workload reads, and writes if it writes
    - a runtime that is at least 90 % of the requested runtime; without a requested runtime, a transfer of the file

    There are two exceptions:

    - A replay of a log may lack reads or writes, and may end early once all its requests are done.
    - A mixed workload may lack reads or writes, if it made so few requests that chance explains the lack.

    On a real drive, the runtime must not be far longer than a requested runtime, either.

    Args:
        output: The path of fio's result file (json+ format).
        specification: Everything that can change what is measured in the cell that the repetition belongs to.
        requests: The number of requests in the replayed log; None if fio replayed no log.
        outcome: When the fio process ran, and what disturbed it. None for a simulated drive, which nothing can disturb.

    Returns:
        The number of bytes that all jobs read and wrote together.

    Raises:
        DisturbedError: On a real drive, fio was disturbed, or ran too short or too long. Another attempt may succeed.
        FioError: The result is not valid.
    """
    if outcome is not None and outcome.disturbed:
        raise DisturbedError(f"fio {outcome.disturbed}.")
    try:
        documents = read_documents(output)
    except FioParseError as error:
        raise FioError(f"fio wrote no valid result: {error}") from None
    if len(documents) != 1:
        raise FioError(f"fio wrote {len(documents)} results where one was expected")
    document = documents[0]
    printed = f" It printed:\n{indented(document.preamble)}" if document.preamble.strip() else ""
    options = specification["fio"]
    jobs = document.jobs
    expected_jobs = 1 if options.get("group_reporting") else options.get("numjobs", 1)
    if len(jobs) != expected_jobs:
        raise FioError(f"fio reported {len(jobs)} jobs where {expected_jobs} were expected.{printed}")
    shares = _shares(options)
    moved_bytes = 0
    for job in jobs:
        if job["error"]:
            raise FioError(f"fio reported error {job['error']} ({os.strerror(job['error'])}).{printed}")
        total_ios = sum(job[direction]["total_ios"] for direction in shares)
        for direction, share in shares.items():
            done = job[direction]
            moved_bytes += done["io_bytes"]
            if done["io_bytes"] <= 0:
                if total_ios and (requests is not None or (1 - share) ** total_ios >= _MIN_LIKELIHOOD):
                    continue
                raise FioError(f"fio ended well but did no {direction} I/O.{printed}")
            is_replayed = requests is not None and total_ios >= requests
            if not is_replayed and done["runtime"] < _MIN_RUNTIME_SHARE * specification["runtime_ms"]:
                # fio calibrates the processor's clock when it starts, which may fail on a busy machine
                kind = FioError if outcome is None else DisturbedError
                raise kind(
                    f"fio ran for {done['runtime']} ms where {specification['runtime_ms']} ms were asked for.{printed}"
                )
    if not specification["runtime_ms"] and requests is None and moved_bytes < (wanted := one_pass_bytes(specification)):
        raise FioError(f"fio transferred {moved_bytes} bytes where one pass has {wanted}.{printed}")
    if outcome is not None and specification["runtime_ms"]:
        _check_duration(jobs, specification, outcome)
    return moved_bytes


def _check_duration(jobs: Sequence[Mapping[str, Any]], specification: Specification, outcome: FioOutcome) -> None:
    """Raise DisturbedError if fio took longer than the drive explains.

    Both the I/O of each job and the remaining time of the process are limited.

    Args:
        jobs: The jobs in fio's result.
        specification: The specification of the cell.
        outcome: The times of the fio process.
    """
    options = specification["fio"]
    longest_ms = 0
    for job in jobs:
        done = [job[direction] for direction in _shares(options)]
        runtime_ms = max(each["runtime"] for each in done)
        longest_ms = max(longest_ms, runtime_ms)
        max_ms = _max_runtime_ms(specification, sum(each["total_ios"] for each in done), runtime_ms)
        if runtime_ms > max_ms:
            raise DisturbedError(
                f"fio ran for {runtime_ms} ms where {specification['runtime_ms']} ms were asked for, and its last"
                f" requests explain no more than {max_ms:.0f} ms."
            )
    # buffered writes, of this repetition or earlier, may have to reach the disk before fio starts or ends
    overhead_s = outcome.wall_s - longest_ms / 1000 - options.get("ramp_time", 0) / 1e6
    if options.get("direct") and overhead_s > _MAX_OVERHEAD_S:
        raise DisturbedError(f"fio took {overhead_s:.0f} s in addition to the {longest_ms} ms of its I/O.")


def _max_runtime_ms(specification: Specification, total_ios: int, runtime_ms: int) -> float:
    """Return the longest plausible runtime of a job, in ms.

    The last requests are submitted just before the requested runtime ends, as many as can be outstanding at once. The
    drive needs time to complete them: at a queue depth of 1024, a hard disk of 100 IOPS ends ten seconds late.

    Args:
        specification: The specification of the cell.
        total_ios: The number of requests of the job.
        runtime_ms: The actual runtime of the job.
    """
    options = specification["fio"]
    depth = options.get("iodepth", 1) if options.get("ioengine") in engines.ASYNCHRONOUS_ENGINES else 1
    outstanding = depth * (options.get("numjobs", 1) if options.get("group_reporting") else 1)
    drain_ms = runtime_ms * min(1.0, outstanding / max(1, total_ios))
    pause_ms = options.get("thinktime", 0) / 1000
    return float(_MAX_RUNTIME_SHARE * specification["runtime_ms"] + _MAX_LATE_END_MS + pause_ms + drain_ms)


def _shares(options: FioOptions) -> dict[str, float]:
    """Return the expected share of each direction in the requests of a workload.

    The keys are ``read``, ``write`` or both. The shares add up to 1.

    Args:
        options: The fio options of the workload.
    """
    rw = options["rw"]
    if rw in {"readwrite", "randrw"}:
        share = options.get("rwmixread", 50) / 100
        return {name: part for name, part in (("read", share), ("write", 1 - share)) if part > 0}
    return {"read" if rw.endswith("read") else "write": 1.0}
