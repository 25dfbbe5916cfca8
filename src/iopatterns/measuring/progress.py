"""How far a run is and how long it will still take, shared by the measuring commands of one run through a file."""

import contextlib
import json
import os
import time
from pathlib import Path

from iopatterns.base import units

# The Snakefile sets it for a run; without it (a cell measured by hand) there is no outlook.
VARIABLE = "IOPATTERNS_PROGRESS"


def begin(path: Path, executions: int) -> None:
    """Start the count of a run of so many executions, for this process and those that it starts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"executions": executions, "started": time.time()}
    path.write_text(json.dumps(header) + "\n", encoding="utf-8")
    os.environ[VARIABLE] = str(path.resolve())


def advance() -> None:
    """Note that one execution is done."""
    path = os.environ.get(VARIABLE)
    if path and Path(path).exists():
        # an outlook that is wrong on a full disk is better than a run that ends
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write("done\n")


def outlook() -> str:
    """Return such as ``" - 30 of 80 executions done, about 1 min 40 s left"``, or nothing without a count."""
    path = os.environ.get(VARIABLE)
    if not path or not Path(path).exists():
        return ""
    header, *done = Path(path).read_text(encoding="utf-8").splitlines()
    plan = json.loads(header)
    left = max(plan["executions"] - len(done), 0)
    # what an execution has really taken so far, pauses between them included
    each = (time.time() - plan["started"]) / max(len(done), 1)
    remaining = f", about {units.format_duration(left * each)} left" if left else ""
    return f" - {len(done)} of {plan['executions']} executions done{remaining}"
