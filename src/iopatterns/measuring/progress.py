"""How far a run is, how long it will still take and what its jobs took, shared by these through a file of the run's."""

import contextlib
import json
import os
import time
from pathlib import Path

from iopatterns.base import units

# The Snakefile sets it for a run; without it (a cell measured by hand) there is no outlook.
PROGRESS_VARIABLE = "IOPATTERNS_PROGRESS"
# A line of the file for each execution that is done; its first line is the run's, others are those of jobs
_DONE = "done"
_START_TIME = 19  # the place of starttime among the fields of proc(5), /proc/pid/stat, that follow the name


def begin_count(path: Path, executions: int) -> None:
    """Start the count of a run of so many executions, for this process and those that it starts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"executions": executions, "started": time.time()}
    path.write_text(json.dumps(header) + "\n", encoding="utf-8")
    os.environ[PROGRESS_VARIABLE] = str(path.resolve())


def is_run_counted() -> bool:
    """Return whether this process is part of a run that keeps count, and tells how far it is."""
    return PROGRESS_VARIABLE in os.environ


def count_repetition() -> None:
    """Note that one execution is done."""
    _note(_DONE)


def record_job_time(part: str) -> None:
    """Note for how long this process, which is a job of that part of the run, has lived."""
    _note(json.dumps({"part": part, "seconds": process_age_s()}))


def process_age_s() -> float:
    """Return for how long this process has lived."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")


def _note(line: str) -> None:
    path = os.environ.get(PROGRESS_VARIABLE)
    if path and Path(path).exists():
        # an outlook that is wrong on a full disk is better than a run that ends
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def seconds_by_part(path: Path, since_s: float) -> dict[str, float]:
    """Return how many seconds the jobs of each part took in all; nothing where the run began before ``since_s``.

    ``path`` is that of `begin_count`, and ``since_s`` counts from the epoch. Jobs that ran at the same time count each.
    """
    try:
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(header)["started"] < since_s:
            return {}
        jobs = [json.loads(line) for line in lines if line != _DONE]
        found: dict[str, float] = {}
        for job in jobs:
            found[job["part"]] = found.get(job["part"], 0.0) + job["seconds"]
    except (OSError, ValueError, KeyError, TypeError):  # no run yet, or cut short by a full disk
        return {}
    return found


def progress_text() -> str:
    """Return such as ``" - 30 of 80 repetitions done, about 1 min 40 s left"``, or nothing without a count."""
    path = os.environ.get(PROGRESS_VARIABLE)
    if not path or not Path(path).exists():
        return ""
    header, *lines = Path(path).read_text(encoding="utf-8").splitlines()
    done = lines.count(_DONE)
    plan = json.loads(header)
    left = max(plan["executions"] - done, 0)
    # what an execution has really taken so far, pauses between them included
    each = (time.time() - plan["started"]) / max(done, 1)
    remaining = f", about {units.format_duration(left * each)} left" if left else ""
    return f" - {done} of {plan['executions']} repetitions done{remaining}"
