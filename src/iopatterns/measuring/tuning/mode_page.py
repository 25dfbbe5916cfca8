"""Bits of the SCSI caching mode page, read and set with sdparm."""

import re
from collections.abc import Sequence

from iopatterns.configuration import factors
from iopatterns.measuring.tuning import sg_commands
from iopatterns.raw.tuning_steps import CommandResult

# SBC-4, 6.5.6, by the names that sdparm gives them
MODE_PAGE_BITS = factors.factor_names(factors.FactorRole.MODE_PAGE)

_UNIT_ATTENTION = 6  # sdparm's exit status; a drive reports it once after a change, and answers when asked again


def sdparm_access(prefix: Sequence[str], target: str, setting: str) -> sg_commands.SettingAccess:
    """Return how sdparm reads and sets a bit until the drive's next power cycle.

    ``prefix`` stands before sdparm on the command line, ``target`` is the drive's path.
    """
    return sg_commands.SettingAccess(
        program="sdparm",
        find=lambda ask: _bit(ask([*prefix, "sdparm", f"--get={setting}", target]), setting),
        order=lambda value: [*prefix, "sdparm", f"--set={setting}={value}", target],
        again_after=frozenset({_UNIT_ATTENTION}),
    )


def _bit(result: CommandResult, setting: str) -> tuple[int, bool] | None:
    """Return value and changeability from what ``sdparm --get`` printed: ``DRA   0  [cha: y, def:  0, sav:  0]``.

    Its exit status is not asked: it is 5 on drives that save no values, although the value was printed.
    """
    found = re.search(rf"^{setting}\s+([01])\s+\[cha: ([yn])", result["stdout"], re.MULTILINE)
    return (int(found[1]), found[2] == "y") if found else None
