"""Bits of the SCSI caching mode page, read and set with sdparm.

The caching mode page is a block of settings in a disk, such as WCE (write cache enable).
"""

import re
from collections.abc import Sequence

from iopatterns.configuration import factors
from iopatterns.measuring.tuning import sg_commands
from iopatterns.raw.tuning_steps import CommandResult

# The bits by the names that sdparm has for them (SBC-4, 6.5.6)
MODE_PAGE_BITS = factors.factor_names(factors.FactorRole.MODE_PAGE)

_UNIT_ATTENTION = 6  # exit status of sdparm; a drive reports it once after a change, and replies to a second attempt


def sdparm_access(prefix: Sequence[str], target: str, setting: str) -> sg_commands.SettingAccess:
    """Return the commands by which sdparm reads and sets a caching mode page bit.

    The caching mode page is a block of settings in a SCSI or SATA disk. A bit that sdparm has set keeps its value until
    the next power cycle of the drive.

    Args:
        prefix: The words before ``sdparm`` on the command line, such as those of ``twin run`` for a simulated drive.
            Empty for a real drive.
        target: The path of the drive, such as ``/dev/sda``.
        setting: One of `MODE_PAGE_BITS`, such as ``WCE`` (write cache enable).
    """
    return sg_commands.SettingAccess(
        program="sdparm",
        find=lambda ask: _parse_bit(ask([*prefix, "sdparm", f"--get={setting}", target]), setting),
        order=lambda value: [*prefix, "sdparm", f"--set={setting}={value}", target],
        again_after=frozenset({_UNIT_ATTENTION}),
    )


def _parse_bit(result: CommandResult, setting: str) -> tuple[int, bool] | None:
    """Return the value of a bit, and whether it is changeable, from sdparm's output.

    A line of the output is ``DRA   0  [cha: y, def:  0, sav:  0]``. The exit status is ignored, because it is 5 for
    drives that save no values, although sdparm printed the value.

    Args:
        result: The command and its output.
        setting: The name of the bit.

    Returns:
        The value and the changeability. None if the output lacks the bit.
    """
    found = re.search(rf"^{setting}\s+([01])\s+\[cha: ([yn])", result["stdout"], re.MULTILINE)
    return (int(found[1]), found[2] == "y") if found else None
