"""Read, set and verify settings that a drive stores, with programs like sdparm."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iopatterns.base.subprocess_env import minimal_environment
from iopatterns.raw import tuning_steps
from iopatterns.raw.tuning_steps import CommandResult, TuningStep, tuning_step

CommandRunner = Callable[[Sequence[str]], CommandResult]

_TIMEOUT_S = 60.0
_NOT_FOUND = 127  # exit status of a shell for a missing program
_PACKAGES = {"nvme": "nvme-cli", "smartctl": "smartmontools"}  # packages with another name than the program


@dataclass(frozen=True)
class SettingAccess:
    """How a program, such as sdparm, reads and sets one setting of one drive.

    Attributes:
        program: The name of the program, such as ``sdparm``.
        find: Function that reads the setting. Its argument is a function that runs a command line and returns the
            result. `find` returns a pair: the value, and whether the setting is changeable (None if unknown). It
            returns None if the drive has no such setting.
        order: Function that returns the command line that sets the value which is its argument.
        rejected: Function that returns whether the drive refused to set the value. Its argument is the result of the
            command. By default, any exit status other than 0 is a refusal.
        again_after: The exit statuses after which a command is repeated once.
    """

    program: str
    find: Callable[[CommandRunner], tuple[int, bool | None] | None]
    order: Callable[[int], Sequence[str]]
    rejected: Callable[[CommandResult], bool] = lambda result: bool(result["exit_status"])
    again_after: frozenset[int] = frozenset()


def set_value(
    access: SettingAccess, setting: str, wanted: int, note: Callable[[str, int], object] | None = None
) -> TuningStep:
    """Set a setting of a drive, and verify it by reading it back.

    Nothing is set if the drive already has the value, or declares the setting as not changeable. If the drive does not
    accept the value, no error is raised: the result has the outcome and the reason.

    Args:
        access: How to read and set the setting.
        setting: The name of the setting, such as ``WCE``.
        wanted: The value to set.
        note: Function that is called before the value is changed, with the name and the old value of the setting. None
            to call nothing.

    Returns:
        The values before and after, whether the wanted value is in effect (the outcome), the reason in words, and the
        commands that were run.
    """
    exchange: list[CommandResult] = []
    ask = _command_runner(access, exchange)
    found = access.find(ask)
    if found is None:
        last = exchange[-1]
        reason = f"the drive reports no {setting}: {last_output_line(last)}"
        if last["exit_status"] == _NOT_FOUND and last["command"][0] == access.program:
            reason = f"{last_output_line(last)}; once it is, delete the folder of this cell to have it measured"
        return tuning_step(setting, wanted, tuning_steps.NOT_APPLICABLE, reason, exchange=exchange)
    before, changeable = found
    after: int | None = before
    if before == wanted:
        outcome, reason = tuning_steps.ALREADY, f"{setting} is {wanted} as the drive was found"
    elif changeable is False:
        outcome, reason = tuning_steps.NOT_CHANGEABLE, f"the drive's mask says that {setting} cannot change"
    else:
        if note is not None:
            note(setting, before)
        result = ask(access.order(wanted))
        read_back = access.find(ask)
        after = None if read_back is None else read_back[0]
        if after == wanted:
            outcome, reason = tuning_steps.CHANGED, f"{setting} reads back as {wanted}"
        elif not access.rejected(result):
            outcome, reason = tuning_steps.IGNORED, f"accepted, but {setting} still reads back as {after}"
        else:
            reason = f"{access.program} exits with {result['exit_status']}: {last_output_line(result)}"
            outcome = tuning_steps.REFUSED
    return tuning_step(
        setting, wanted, outcome, reason, before=before, after=after, changeable=changeable, exchange=exchange
    )


def read_value(access: SettingAccess) -> int | None:
    """Return the current value of a setting; None if the drive has no such setting.

    Args:
        access: How to read the setting.
    """
    found = access.find(_command_runner(access, []))
    return None if found is None else found[0]


def _command_runner(access: SettingAccess, exchange: list[CommandResult]) -> CommandRunner:
    """Return a function that runs a command, records its result and returns it.

    The command is repeated once after the exit statuses that `access` lists.

    Args:
        access: The commands of a setting.
        exchange: The list to which the result of each run is appended.
    """

    def ask(command: Sequence[str]) -> CommandResult:
        for _ in range(2):
            exchange.append(run_command(command))
            if exchange[-1]["exit_status"] not in access.again_after:
                break
        return exchange[-1]

    return ask


def run_command(command: Sequence[str], timeout_s: float = _TIMEOUT_S) -> CommandResult:
    """Run a command; return its exit status and its output.

    No exception is raised if the program is not installed (exit status 127) or exceeds the timeout (exit status 124).
    In both cases, ``stderr`` has the reason. Whitespace at the ends of the output is removed. The environment is that
    of `minimal_environment`.

    Args:
        command: The words of the command line.
        timeout_s: The timeout in seconds.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # the output may contain any bytes of the drive
            timeout=timeout_s,
            env=minimal_environment(),
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
    """Return the last line that a command printed, for a message.

    The line is from stderr, or from stdout if stderr is empty. If the command printed nothing, return a text such as
    ``exit status 5``.

    Args:
        result: The result of the command, from `run_command`.
    """
    lines = (result["stderr"] or result["stdout"]).splitlines()
    return lines[-1].strip() if lines else f"exit status {result['exit_status']}"
