"""The queue of a disk in the kernel: scheduler, read-ahead, requests, view of the write cache, set through sysfs."""

import re
from collections.abc import Callable
from pathlib import Path

from iopatterns.base import schedulers
from iopatterns.configuration import factors
from iopatterns.measuring import machine
from iopatterns.raw.tuning_steps import ALREADY, CHANGED, IGNORED, NOT_APPLICABLE, REFUSED, Step

QUEUE_SETTINGS = factors.factor_names(factors.FactorRole.QUEUE)
# A disk may have been found with another scheduler than those that a study may ask for
_SCHEDULER = "scheduler"


def attribute_path(disk: str, setting: str) -> Path:
    """Return the kernel's file of a setting; ``disk`` is the kernel's name of a disk."""
    return Path("/sys/block") / disk / "queue" / setting


def attribute_values_text(setting: str) -> str:
    """Return of what form a setting's values are, for messages."""
    if setting == _SCHEDULER:
        return "a scheduler's name, one word"
    return " or ".join(map(str, factors.FACTORS[setting].choices)) or "a number of at most 9 digits"


def is_valid_value(setting: str, value: object) -> bool:
    """Return whether a value is of the form that a setting's values have."""
    if setting == _SCHEDULER:
        return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,32}", value) is not None
    if choices := factors.FACTORS[setting].choices:
        return isinstance(value, str) and value in choices
    return type(value) is int and 0 <= value < 10**9


def set_attribute(disk: str, setting: str, wanted: int | str, note: Callable[[str, int | str], None]) -> Step:
    """Set an attribute of a disk's queue, ``/sys/block/<disk>/queue/<setting>``, and read it back.

    ``note`` gets the name of each setting that will change, and its value before. A scheduler of old is taken to be its
    successor in today's kernels.
    """
    attribute = attribute_path(disk, setting)
    before = attribute_value(attribute)
    if before is None:
        return Step(setting, wanted, None, None, None, NOT_APPLICABLE, f"{disk} has no {setting}")
    text, stands_for, offered = str(wanted), "", list[str]()
    if setting == _SCHEDULER:
        offered = _offered(attribute)
        text = text if text in offered else schedulers.modern_equivalent(text)
        stands_for = "" if text == wanted else f" in place of {wanted}"
    if text == str(before):
        return Step(setting, wanted, before, before, True, ALREADY, f"{text}{stands_for} as the disk was found")
    note(setting, before)
    requests = attribute_value(attribute_path(disk, "nr_requests"))
    if setting == _SCHEDULER and requests is not None:
        note("nr_requests", requests)  # another scheduler brings its own
    try:
        attribute.write_text(text, encoding="ascii")
    except PermissionError as error:
        reason = f"{attribute} cannot be written: {error.strerror}; it takes root"
        return Step(setting, wanted, before, before, True, REFUSED, reason)
    except OSError as error:
        if setting == _SCHEDULER and text not in offered:  # asked for all the same: the kernel loads what it has
            reason = f"the kernel offers {', '.join(offered)} for this disk"
            return Step(setting, wanted, before, before, True, NOT_APPLICABLE, reason)
        reason = f"the kernel does not take {text} for {setting} of this disk: {error.strerror}"
        return Step(setting, wanted, before, before, True, REFUSED, reason)
    after = attribute_value(attribute)
    taken = str(after) == text
    return Step(setting, wanted, before, after, True, CHANGED if taken else IGNORED, f"{after}{stands_for} reads back")


def restore_attribute(disk: str, setting: str, value: int | str) -> str:
    """Set an attribute to a value that it had, unless it is so; return what is in the way, nothing where there is none.

    A scheduler must be one that the kernel offers for this disk.
    """
    attribute = attribute_path(disk, setting)
    if attribute_value(attribute) == value:
        return ""
    if setting == _SCHEDULER and value not in _offered(attribute):
        return f"the kernel offers {', '.join(_offered(attribute)) or 'none'} for this disk"
    try:
        attribute.write_text(str(value), encoding="ascii")
    except OSError as error:
        return error.strerror or str(error)
    found = attribute_value(attribute)
    return "" if found == value else f"it reads back as {found}"


def _offered(scheduler: Path) -> list[str]:
    return [word.strip("[]") for word in (machine.read_kernel_file(scheduler) or "").split()]


def attribute_value(path: Path) -> int | str | None:
    """Return a file's number, of several words the one in brackets (``none [mq-deadline] kyber``), or else its text."""
    text = machine.read_kernel_file(path) or ""
    if text.isdecimal():
        return int(text)
    return next((word[1:-1] for word in text.split() if word.startswith("[")), text or None)
