"""The I/O scheduler of a disk's queue, read and set through sysfs."""

from pathlib import Path

from iopatterns.tuning import ALREADY, CHANGED, NOT_APPLICABLE, REFUSED, Step
from iopatterns.tuning.journal import Journal

# Since Linux 5.0 all queues are multi-queue: what took the place of the schedulers before
_SUCCESSORS = {"noop": "none", "deadline": "mq-deadline", "cfq": "bfq"}


def set_scheduler(file: Path, wanted: str, journal: Journal) -> Step:
    """Have a disk's requests ordered by a scheduler, or by its successor in today's kernels, and read it back.

    ``file`` is ``/sys/block/<disk>/queue/scheduler``. What is there before goes into ``journal`` first.
    """
    offered, before = _read(file)
    if before is None:
        return Step("scheduler", wanted, None, None, None, NOT_APPLICABLE, f"{file} offers no scheduler")
    name = wanted if wanted in offered else _SUCCESSORS.get(wanted, wanted)
    stands_for = "" if name == wanted else f" in place of {wanted}"
    if name not in offered:
        reason = f"the kernel offers {', '.join(offered)} for this disk"
        return Step("scheduler", wanted, before, before, True, NOT_APPLICABLE, reason)
    if name == before:
        return Step("scheduler", wanted, before, before, True, ALREADY, f"{name}{stands_for} as the disk was found")
    journal.record_file(file, before)
    try:
        file.write_text(name, encoding="ascii")
    except OSError as error:
        reason = f"{file} cannot be written: {error.strerror}; it takes root"
        return Step("scheduler", wanted, before, before, True, REFUSED, reason)
    after = _read(file)[1]
    outcome = CHANGED if after == name else REFUSED
    return Step("scheduler", wanted, before, after, True, outcome, f"{after}{stands_for} reads back")


def _read(file: Path) -> tuple[list[str], str | None]:
    """Return the schedulers offered, and the one in brackets: ``none [mq-deadline] kyber``."""
    try:
        words = file.read_text(encoding="ascii").split()
    except OSError:
        return [], None
    return [word.strip("[]") for word in words], next((word[1:-1] for word in words if word.startswith("[")), None)
