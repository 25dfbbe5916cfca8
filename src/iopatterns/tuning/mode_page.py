"""Bits of the SCSI caching mode page, read and set with sdparm."""

import re
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from iopatterns.tuning import ALREADY, CHANGED, IGNORED, NOT_APPLICABLE, NOT_CHANGEABLE, REFUSED, Step

# SBC-4, 6.5.6, by the names that sdparm gives them
BITS = ("DRA", "FSW", "RCD", "WCE")

_EXCHANGE_TIMEOUT_S = 60.0
_UNIT_ATTENTION = 6  # sdparm's exit status; a drive reports it once after a change, and answers when asked again


def set_bit(
    prefix: Sequence[str], target: str, setting: str, wanted: int, *, note: Callable[[str, int], None] | None = None
) -> Step:
    """Set a bit of the caching mode page of a drive with sdparm, until its next power cycle.

    ``prefix`` stands before sdparm on the command line, ``target`` is the drive's path. The bit is read, with the mask
    of what can change, then set where it differs and the mask allows it, then read back: sdparm's exit status alone
    says too little (a drive may accept a value and keep the old one). ``note`` gets the bit and its value before it is
    set.
    """
    exchange: list[dict[str, Any]] = []

    def ask(action: str) -> dict[str, Any]:
        for _ in range(2):
            exchange.append(_run([*prefix, "sdparm", action, target]))
            if exchange[-1]["exit_status"] != _UNIT_ATTENTION:
                break
        return exchange[-1]

    def step(before: int | None, after: int | None, changeable: bool | None, outcome: str, reason: str) -> Step:
        return Step(setting, wanted, before, after, changeable, outcome, reason, exchange)

    found = _bit(ask(f"--get={setting}"), setting)
    if found is None:
        return step(None, None, None, NOT_APPLICABLE, f"the drive reports no {setting}: {_words(exchange[-1])}")
    before, changeable = found
    if before == wanted:
        return step(before, before, changeable, ALREADY, f"{setting} is {wanted} as the drive was found")
    if not changeable:
        return step(before, before, changeable, NOT_CHANGEABLE, f"the drive's mask says that {setting} cannot change")
    if note is not None:
        note(setting, before)
    answer = ask(f"--set={setting}={wanted}")
    read_back = _bit(ask(f"--get={setting}"), setting)
    after = None if read_back is None else read_back[0]
    if after == wanted:
        return step(before, after, changeable, CHANGED, f"{setting} reads back as {wanted}")
    if answer["exit_status"] == 0:
        return step(before, after, changeable, IGNORED, f"accepted, but {setting} still reads back as {after}")
    return step(before, after, changeable, REFUSED, f"sdparm exits with {answer['exit_status']}: {_words(answer)}")


def _run(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_EXCHANGE_TIMEOUT_S, check=False
        )
        status, stdout, stderr = done.returncode, done.stdout, done.stderr
    except FileNotFoundError:
        status, stdout, stderr = 127, "", f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        status, stdout, stderr = 124, "", f"no answer within {_EXCHANGE_TIMEOUT_S:.0f} s"
    return {"command": command, "exit_status": status, "stdout": stdout.strip(), "stderr": stderr.strip()}


def _bit(answer: dict[str, Any], setting: str) -> tuple[int, bool] | None:
    """Return value and changeability from what ``sdparm --get`` printed: ``DRA   0  [cha: y, def:  0, sav:  0]``.

    Its exit status is not asked: it is 5 on drives that save no values, although the value was printed.
    """
    found = re.search(rf"^{setting}\s+([01])\s+\[cha: ([yn])", answer["stdout"], re.MULTILINE)
    return (int(found[1]), found[2] == "y") if found else None


def _words(answer: dict[str, Any]) -> str:
    """Return the last line that a command printed: its error, where it has one."""
    lines = (answer["stderr"] or answer["stdout"]).splitlines()
    return lines[-1].strip() if lines else f"exit status {answer['exit_status']}"
