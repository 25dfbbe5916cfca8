"""The progress of a run and the time of its jobs, in a file that they share."""

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
    """Start recording the progress of a run, for this process and its children."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"executions": repetitions, "started": time.time()}
    path.write_text(json.dumps(header) + "\n", encoding="utf-8")
    os.environ[PROGRESS_VARIABLE] = str(path.resolve())


def is_run_counted() -> bool:
    """Return whether the progress of this process is recorded and printed."""
    return PROGRESS_VARIABLE in os.environ


def count_repetition() -> None:
    """Record that one repetition is finished."""
    _note(_DONE)


def record_job_time(part: str) -> None:
    """Record the age of this process as the time that a job of a part of the run took."""
    _note(json.dumps({"part": part, "seconds": process_age_s()}))


def process_age_s() -> float:
    """Return the age of this process in seconds."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")


def _note(line: str) -> None:
    path = os.environ.get(PROGRESS_VARIABLE)
    if path and Path(path).exists():
        # on a full disk, wrong progress is better than a run that ends
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def seconds_by_part(path: Path, since_s: float) -> dict[str, float]:
    """Return the total time of the jobs of each part of a run, in seconds.

    The result is empty if the file is missing or damaged, or if the run began before ``since_s`` (since the epoch).
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
    """Return the progress as text: " - 30 of 80 repetitions done, about 1 min left".

    The text is empty if no progress is recorded.
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
