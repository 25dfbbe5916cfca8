"""The progress of a run and the time of its jobs.

All processes of a run record both in one file, whose path is in the environment variable IOPATTERNS_PROGRESS. Without
the variable, nothing is recorded.
"""

import contextlib
import json
import os
import time
from pathlib import Path

from iopatterns.base import units

# The path of the file. It is set by the Snakefile; without it, progress is neither recorded nor printed.
PROGRESS_VARIABLE = "IOPATTERNS_PROGRESS"
# The line for a finished repetition. The first line of the file describes the run, other lines describe jobs.
_DONE = "done"
_START_TIME = 19  # index of starttime in the fields of /proc/pid/stat after the name (proc(5))


def begin_count(path: Path, repetitions: int) -> None:
    """Start recording the progress of a run of the workflow.

    This process, and the child processes that it starts later, record their progress in the same file. They find its
    path in the environment variable IOPATTERNS_PROGRESS.

    Args:
        path: The path of the file. An older file is overwritten.
        repetitions: The number of repetitions (runs of fio) that this run will measure.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"executions": repetitions, "started": time.time()}
    path.write_text(json.dumps(header) + "\n", encoding="utf-8")
    os.environ[PROGRESS_VARIABLE] = str(path.resolve())


def is_run_counted() -> bool:
    """Return whether this process belongs to a run whose progress is recorded.

    This is so if the environment variable IOPATTERNS_PROGRESS, with the path of the progress file, is set.
    """
    return PROGRESS_VARIABLE in os.environ


def count_repetition() -> None:
    """Record in the progress file of the run that one repetition is finished.

    Nothing happens if the progress is not recorded, or if the disk is full.
    """
    _note(_DONE)


def record_job_time(part: str) -> None:
    """Record in the progress file of the run how long this process has run so far.

    Nothing happens if the progress is not recorded, or if the disk is full.

    Args:
        part: The part of the run that this process worked on, such as ``measuring`` or ``report``.
    """
    _note(json.dumps({"part": part, "seconds": process_age_s()}))


def process_age_s() -> float:
    """Return how long ago this process was started, in seconds."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")


def _note(line: str) -> None:
    path = os.environ.get(PROGRESS_VARIABLE)
    if path and Path(path).exists():
        # on a full disk, wrong progress is better than a run that ends
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def seconds_by_part(path: Path, since_s: float) -> dict[str, float]:
    """Return how many seconds each part of a run took, added over its processes.

    The keys are the names of the parts that `record_job_time` recorded, such as ``measuring``. The result is empty in
    these cases:

    - the progress file is missing or damaged
    - the run in the progress file began before `since_s`

    Args:
        path: The progress file of the run.
        since_s: The earliest time at which the run may have begun, in seconds since the epoch.
    """
    try:
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        if json.loads(header)["started"] < since_s:
            return {}
        jobs = [json.loads(line) for line in lines if line != _DONE]
        found: dict[str, float] = {}
        for job in jobs:
            found[job["part"]] = found.get(job["part"], 0.0) + job["seconds"]
    except (OSError, ValueError, KeyError, TypeError):  # no run yet, or the disk was full
        return {}
    return found


def progress_text() -> str:
    """Return the progress of the run as text to append to a message.

    An example is " - 30 of 80 repetitions done, about 1 min left". The text is empty if the progress is not recorded.
    """
    path = os.environ.get(PROGRESS_VARIABLE)
    if not path or not Path(path).exists():
        return ""
    header, *lines = Path(path).read_text(encoding="utf-8").splitlines()
    done = lines.count(_DONE)
    plan = json.loads(header)
    left = max(plan["executions"] - done, 0)
    # including the time between repetitions
    each = (time.time() - plan["started"]) / max(done, 1)
    remaining = f", about {units.format_duration(left * each)} left" if left else ""
    return f" - {done} of {plan['executions']} repetitions done{remaining}"
