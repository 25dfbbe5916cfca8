"""Settings stored in the drive, read and set by a program such as sdparm, and read back."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iopatterns.base import subprocess_env
from iopatterns.raw.tuning_steps import (
    ALREADY,
    CHANGED,
    IGNORED,
    NOT_APPLICABLE,
    NOT_CHANGEABLE,
    REFUSED,
    CommandResult,
    Step,
)

CommandRunner = Callable[[Sequence[str]], CommandResult]

_TIMEOUT_S = 60.0
_NOT_FOUND = 127  # as a shell says it
_PACKAGES = {"nvme": "nvme-cli", "smartctl": "smartmontools"}  # those that do not bear their program's name


@dataclass(frozen=True)
class SettingAccess:
    """The commands by which a program reads and sets one setting of one drive.

    Attributes:
        program: The program.
        find: Reads the value and whether it is changeable (None: unknown). None if there is no such setting.
        order: Returns the command that sets a value.
        rejected: Whether the result of `order`'s command is a refusal. An exit status alone is no evidence.
        again_after: The exit statuses after which the drive replies to a second attempt.
    """

    program: str
    find: Callable[[CommandRunner], tuple[int, bool | None] | None]
    order: Callable[[int], Sequence[str]]
    rejected: Callable[[CommandResult], bool] = lambda result: bool(result["exit_status"])
    again_after: frozenset[int] = frozenset()


def set_value(
    access: SettingAccess, setting: str, wanted: int, note: Callable[[str, int], object] | None = None
) -> Step:
    """Set a value if it differs and is changeable, and read it back; call ``note`` with name and old value before."""
    exchange: list[CommandResult] = []

    ask = _asking(access, exchange)

    def step(before: int | None, after: int | None, changeable: bool | None, outcome: str, reason: str) -> Step:
        return Step(setting, wanted, before, after, changeable, outcome, reason, exchange)

    found = access.find(ask)
    if found is None:
        last = exchange[-1]
        reason = f"the drive reports no {setting}: {last_output_line(last)}"
        if last["exit_status"] == _NOT_FOUND and last["command"][0] == access.program:
            reason = f"{last_output_line(last)}; once it is, delete the folder of this cell to have it measured"
        return step(None, None, None, NOT_APPLICABLE, reason)
    before, changeable = found
    if before == wanted:
        return step(before, before, changeable, ALREADY, f"{setting} is {wanted} as the drive was found")
    if changeable is False:
        return step(before, before, changeable, NOT_CHANGEABLE, f"the drive's mask says that {setting} cannot change")
    if note is not None:
        note(setting, before)
    result = ask(access.order(wanted))
    read_back = access.find(ask)
    after = None if read_back is None else read_back[0]
    if after == wanted:
        return step(before, after, changeable, CHANGED, f"{setting} reads back as {wanted}")
    if not access.rejected(result):
        return step(before, after, changeable, IGNORED, f"accepted, but {setting} still reads back as {after}")
    reason = f"{access.program} exits with {result['exit_status']}: {last_output_line(result)}"
    return step(before, after, changeable, REFUSED, reason)


def read_value(access: SettingAccess) -> int | None:
    """Return the current value, None if the drive reports no such setting."""
    found = access.find(_asking(access, []))
    return None if found is None else found[0]


def _asking(access: SettingAccess, exchange: list[CommandResult]) -> CommandRunner:
    """Return a function that runs a command, repeats it if required, and appends each result to ``exchange``."""

    def ask(command: Sequence[str]) -> CommandResult:
        for _ in range(2):
            exchange.append(run_command(command))
            if exchange[-1]["exit_status"] not in access.again_after:
                break
        return exchange[-1]

    return ask


def run_command(command: Sequence[str], timeout_s: float = _TIMEOUT_S) -> CommandResult:
    """Run a command; return it with its exit status (127 if it is not installed) and its output."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # what a drive says of itself may be anything
            timeout=timeout_s,
            env=subprocess_env.child_environment(),
            check=False,
        )
        status, stdout, stderr = done.returncode, done.stdout, done.stderr
    except FileNotFoundError:
        package = _PACKAGES.get(command[0], command[0])
        status, stdout, stderr = _NOT_FOUND, "", f"{command[0]} is not installed (apt-get install {package})"
    except subprocess.TimeoutExpired:
        status, stdout, stderr = 124, "", f"no answer within {timeout_s:.0f} s"
    return {"command": list(command), "exit_status": status, "stdout": stdout.strip(), "stderr": stderr.strip()}


def last_output_line(result: CommandResult) -> str:
    """Return the last line of a command's output: its error, if there is one."""
    lines = (result["stderr"] or result["stdout"]).splitlines()
    return lines[-1].strip() if lines else f"exit status {result['exit_status']}"
