"""A setting that a drive keeps itself, through a program: read, set, read back, and what became of it."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iopatterns.base import children
from iopatterns.raw.tuning_steps import (
    ALREADY,
    CHANGED,
    IGNORED,
    NOT_APPLICABLE,
    NOT_CHANGEABLE,
    REFUSED,
    Answer,
    Step,
)

Ask = Callable[[Sequence[str]], Answer]

_TIMEOUT_S = 60.0
_NOT_FOUND = 127  # as a shell says it
_PACKAGES = {"nvme": "nvme-cli", "smartctl": "smartmontools"}  # those that do not bear their program's name


@dataclass(frozen=True)
class Access:
    """How a program reads and sets one setting of one drive.

    ``find`` asks, and returns the value with whether it can change (None where the drive does not say), or None where
    the drive reports no such setting. ``order`` returns the command that sets a value, ``rejected`` whether its answer
    says that the drive did not take it: exit statuses alone say too little.
    """

    program: str
    find: Callable[[Ask], tuple[int, bool | None] | None]
    order: Callable[[int], Sequence[str]]
    rejected: Callable[[Answer], bool] = lambda answer: bool(answer["exit_status"])
    again_after: frozenset[int] = frozenset()  # exit statuses after which a drive answers when it is asked once more


def set_value(access: Access, setting: str, wanted: int, note: Callable[[str, int], object] | None = None) -> Step:
    """Set a value where it differs and can change, and read it back. ``note`` gets name and value before it is set."""
    exchange: list[Answer] = []

    ask = _asking(access, exchange)

    def step(before: int | None, after: int | None, changeable: bool | None, outcome: str, reason: str) -> Step:
        return Step(setting, wanted, before, after, changeable, outcome, reason, exchange)

    found = access.find(ask)
    if found is None:
        last = exchange[-1]
        reason = f"the drive reports no {setting}: {words(last)}"
        if last["exit_status"] == _NOT_FOUND and last["command"][0] == access.program:
            reason = f"{words(last)}; once it is, delete the folder of this cell to have it measured"
        return step(None, None, None, NOT_APPLICABLE, reason)
    before, changeable = found
    if before == wanted:
        return step(before, before, changeable, ALREADY, f"{setting} is {wanted} as the drive was found")
    if changeable is False:
        return step(before, before, changeable, NOT_CHANGEABLE, f"the drive's mask says that {setting} cannot change")
    if note is not None:
        note(setting, before)
    answer = ask(access.order(wanted))
    read_back = access.find(ask)
    after = None if read_back is None else read_back[0]
    if after == wanted:
        return step(before, after, changeable, CHANGED, f"{setting} reads back as {wanted}")
    if not access.rejected(answer):
        return step(before, after, changeable, IGNORED, f"accepted, but {setting} still reads back as {after}")
    reason = f"{access.program} exits with {answer['exit_status']}: {words(answer)}"
    return step(before, after, changeable, REFUSED, reason)


def value(access: Access) -> int | None:
    """Return the value that a drive reports at present, None where it reports no such setting."""
    found = access.find(_asking(access, []))
    return None if found is None else found[0]


def _asking(access: Access, exchange: list[Answer]) -> Ask:
    """Return what runs a command, once more where the drive wants to be asked again; each answer goes to a list."""

    def ask(command: Sequence[str]) -> Answer:
        for _ in range(2):
            exchange.append(run(command))
            if exchange[-1]["exit_status"] not in access.again_after:
                break
        return exchange[-1]

    return ask


def run(command: Sequence[str], timeout_s: float = _TIMEOUT_S) -> Answer:
    """Run a command, and return it with its exit status and what it printed; 127 where it is not installed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # what a drive says of itself may be anything
            timeout=timeout_s,
            env=children.environment(),
            check=False,
        )
        status, stdout, stderr = done.returncode, done.stdout, done.stderr
    except FileNotFoundError:
        package = _PACKAGES.get(command[0], command[0])
        status, stdout, stderr = _NOT_FOUND, "", f"{command[0]} is not installed (apt-get install {package})"
    except subprocess.TimeoutExpired:
        status, stdout, stderr = 124, "", f"no answer within {timeout_s:.0f} s"
    return {"command": list(command), "exit_status": status, "stdout": stdout.strip(), "stderr": stderr.strip()}


def words(answer: Answer) -> str:
    """Return the last line that a command printed: its error, where it has one."""
    lines = (answer["stderr"] or answer["stdout"]).splitlines()
    return lines[-1].strip() if lines else f"exit status {answer['exit_status']}"
