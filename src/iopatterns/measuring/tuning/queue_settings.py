"""Settings of a disk's request queue in the kernel, read and set through sysfs.

They are the I/O scheduler, the read-ahead, the number of requests, and the kernel's view of the disk's write cache.
"""

import errno
import re
from collections.abc import Callable
from pathlib import Path

from iopatterns.base import schedulers
from iopatterns.configuration import factors
from iopatterns.measuring import machine
from iopatterns.raw import tuning_steps
from iopatterns.raw.tuning_steps import TuningStep, tuning_step

QUEUE_SETTINGS = factors.factor_names(factors.FactorRole.QUEUE)
_SCHEDULER = "scheduler"
# The errors of attributes that a disk does not have, or does not support
_NO_ATTRIBUTE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.EOPNOTSUPP})


def attribute_path(disk: str, setting: str) -> Path:
    """Return the sysfs file of a setting, such as /sys/block/sda/queue/scheduler.

    Args:
        disk: The kernel's name of the disk, such as ``sda``.
        setting: The name of a setting of the disk's request queue, such as ``scheduler``.
    """
    return Path("/sys/block") / disk / "queue" / setting


def expected_form(setting: str, value: object) -> str:
    """Return an empty text if a value is valid for a setting, else the valid form.

    Args:
        setting: One of `QUEUE_SETTINGS`, such as ``nr_requests``.
        value: The value to check.

    Returns:
        An empty text if the value is valid. Otherwise, a description of valid values for a message, such as "a number
        of at most 9 digits".
    """
    if setting == _SCHEDULER:  # any name: the disk may have had a scheduler that no study may ask for
        form = "a scheduler's name, one word"
        is_valid = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,32}", value) is not None
    elif choices := factors.FACTORS[setting].choices:
        form, is_valid = " or ".join(map(str, choices)), isinstance(value, str) and value in choices
    else:
        form, is_valid = "a number of at most 9 digits", type(value) is int and 0 <= value < 10**9
    return "" if is_valid else form


def set_attribute(disk: str, setting: str, wanted: int | str, note: Callable[[str, int | str], None]) -> TuningStep:
    """Set a setting of a disk's request queue in the kernel, and verify it.

    If the wanted I/O scheduler no longer exists in the kernel, its successor is set, such as ``bfq`` for ``cfq``. If
    the kernel does not accept the value, no error is raised: the result has the outcome and the reason.

    Args:
        disk: The kernel's name of the disk, such as ``sda``.
        setting: One of `QUEUE_SETTINGS`, such as ``scheduler``.
        wanted: The value to set.
        note: Function that is called before the change, once for each setting that the change affects. Its arguments
            are the name and the old value of the setting. A change of the scheduler also affects ``nr_requests``.

    Returns:
        The values before and after, whether the wanted value is in effect (the outcome), and the reason in words.
    """
    attribute = attribute_path(disk, setting)
    before = attribute_value(attribute)
    if before is None:
        return tuning_step(setting, wanted, tuning_steps.NOT_APPLICABLE, f"{disk} has no {setting}")
    text, stands_for, offered = str(wanted), "", list[str]()
    if setting == _SCHEDULER:
        offered = _offered(attribute)
        text = text if text in offered else schedulers.modern_equivalent(text)
        stands_for = "" if text == wanted else f" in place of {wanted}"
    after: int | str | None = before
    if text == str(before):
        outcome, reason = tuning_steps.ALREADY, f"{text}{stands_for} as the disk was found"
    else:
        note(setting, before)
        requests = attribute_value(attribute_path(disk, "nr_requests"))
        if setting == _SCHEDULER and requests is not None:
            note("nr_requests", requests)  # the kernel sets it to the default of the new scheduler
        try:
            attribute.write_text(text, encoding="ascii")
        except PermissionError as error:
            outcome, reason = tuning_steps.REFUSED, f"{attribute} cannot be written: {error.strerror}; it takes root"
        except OSError as error:
            # only after an attempt: the kernel loads a module for a scheduler that it does not list
            if setting == _SCHEDULER and text not in offered:
                outcome, reason = tuning_steps.NOT_APPLICABLE, f"the kernel offers {', '.join(offered)} for this disk"
            else:
                outcome = tuning_steps.REFUSED
                reason = f"the kernel does not take {text} for {setting} of this disk: {error.strerror}"
        else:
            after = attribute_value(attribute)
            outcome = tuning_steps.CHANGED if str(after) == text else tuning_steps.IGNORED
            reason = f"{after}{stands_for} reads back"
    return tuning_step(setting, wanted, outcome, reason, before=before, after=after, changeable=True)


def restore_attribute(disk: str, setting: str, value: int | str) -> str:
    """Set a setting of a disk's request queue to an earlier value, and verify it.

    Args:
        disk: The kernel's name of the disk, such as ``sda``.
        setting: One of `QUEUE_SETTINGS`, such as ``scheduler``.
        value: The earlier value.

    Returns:
        An empty text if the setting has the earlier value. Otherwise, the reason why it could not be restored.

    Raises:
        OSError: The attribute cannot be read or written.
    """
    attribute = attribute_path(disk, setting)
    if attribute_value(attribute) == value:
        return ""
    if setting == _SCHEDULER and value not in _offered(attribute):
        return f"the kernel offers {', '.join(_offered(attribute)) or 'none'} for this disk"
    attribute.write_text(str(value), encoding="ascii")
    found = attribute_value(attribute)
    return "" if found == value else f"it reads back as {found}"


def _offered(scheduler: Path) -> list[str]:
    """Return the names of the I/O schedulers that the kernel lists for a disk.

    Args:
        scheduler: The sysfs file ``scheduler`` of the disk.
    """
    return [word.strip("[]") for word in (machine.read_kernel_file(scheduler) or "").split()]


def attribute_value(path: Path) -> int | str | None:
    """Return the value in a sysfs file; None if the disk has no such attribute.

    A decimal number is returned as int. If the file lists several words, such as ``none [mq-deadline] kyber``, the
    value is the word in brackets, without the brackets.

    Args:
        path: The path of the file, such as /sys/block/sda/queue/scheduler.

    Raises:
        OSError: The value cannot be read. It may be one that must be restored.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise
        return None
    if text.isdecimal():
        return int(text)
    return next((word[1:-1] for word in text.split() if word.startswith("[")), text or None)
