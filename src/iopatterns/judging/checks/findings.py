"""What a check comes to: the status of each of its parts, and how a published number counts that was missed."""

import math
from dataclasses import dataclass

from iopatterns.base.errors import IoPatternsError

REPRODUCED = "reproduced"
WITHIN = "within tolerance"
DEVIATES = "deviates"
UNDECIDED = "undecided"  # the interval reaches to both sides of the bound; more executions would tell

# A published number counts as reproduced up to this relative error, and as within tolerance up to the second
EXACT, TOLERANCE = 0.05, 0.20


class ClaimsError(IoPatternsError):
    """A file of claims is wrong; the message names the file and the claim."""

    exit_status = 2


@dataclass(frozen=True)
class Part:
    """A check at one combination of levels: ``label`` says which, ``value`` has the unit of the statistic.

    ``low`` and ``high`` are the interval that decided (NaN without one); ``off`` is how far the value lies on the wrong
    side of its bound, relative to the bound, 0 on the right side.
    """

    label: str
    value: float | str
    low: float
    high: float
    status: str
    off: float


def error_of(measured: float, published: float) -> float:
    """Return by what share a published number was missed; infinite for a published zero that is none."""
    if published:
        return measured / published - 1
    return 0.0 if not measured else math.inf


def of_error(error: float, tolerance: float = TOLERANCE) -> str:
    """Return the status of a published number that was missed by a relative error."""
    return REPRODUCED if abs(error) <= EXACT else WITHIN if abs(error) <= tolerance else DEVIATES
