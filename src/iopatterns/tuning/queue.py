"""The queue of a disk in the kernel: scheduler, read-ahead, requests, view of the write cache, set through sysfs."""

from collections.abc import Callable
from pathlib import Path

from iopatterns import factors
from iopatterns.tuning import ALREADY, CHANGED, IGNORED, NOT_APPLICABLE, REFUSED, Step

SETTINGS = factors.names(factors.Role.QUEUE)

# Since Linux 5.0 all queues are multi-queue: what took the place of the schedulers before
_SUCCESSORS = {"noop": "none", "deadline": "mq-deadline", "cfq": "bfq"}


def set_attribute(disk: str, setting: str, wanted: int | str, note: Callable[[Path, str], None]) -> Step:
    """Set an attribute of a disk's queue, ``/sys/block/<disk>/queue/<setting>``, and read it back.

    ``note`` gets each file that will change, and its value before. A scheduler of old is taken to be its successor in
    today's kernels.
    """
    file = Path("/sys/block") / disk / "queue" / setting
    before = present(file)
    if before is None:
        return Step(setting, wanted, None, None, None, NOT_APPLICABLE, f"{disk} has no {setting}")
    text, stands_for, offered = str(wanted), "", list[str]()
    if setting == "scheduler":
        offered = [word.strip("[]") for word in _read(file).split()]
        text = text if text in offered else _SUCCESSORS.get(text, text)
        stands_for = "" if text == wanted else f" in place of {wanted}"
    if text == str(before):
        return Step(setting, wanted, before, before, True, ALREADY, f"{text}{stands_for} as the disk was found")
    note(file, str(before))
    requests = file.with_name("nr_requests")
    if setting == "scheduler" and requests.exists():
        note(requests, str(present(requests)))  # another scheduler brings its own
    try:
        file.write_text(text, encoding="ascii")
    except PermissionError as error:
        reason = f"{file} cannot be written: {error.strerror}; it takes root"
        return Step(setting, wanted, before, before, True, REFUSED, reason)
    except OSError as error:
        if setting == "scheduler" and text not in offered:  # asked for all the same: the kernel loads what it has
            reason = f"the kernel offers {', '.join(offered)} for this disk"
            return Step(setting, wanted, before, before, True, NOT_APPLICABLE, reason)
        reason = f"the kernel does not take {text} for {setting} of this disk: {error.strerror}"
        return Step(setting, wanted, before, before, True, REFUSED, reason)
    after = present(file)
    taken = str(after) == text
    return Step(setting, wanted, before, after, True, CHANGED if taken else IGNORED, f"{after}{stands_for} reads back")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def present(file: Path) -> int | str | None:
    """Return a file's number, of several words the one in brackets (``none [mq-deadline] kyber``), or else its text."""
    text = _read(file)
    if text.isdecimal():
        return int(text)
    return next((word[1:-1] for word in text.split() if word.startswith("[")), text or None)
