"""Report of the faulty lines of a trace that were skipped."""

from typing import TYPE_CHECKING

from iopatterns.base import messages

if TYPE_CHECKING:
    from iopatterns.twin.traces import Skipped


def report(skipped: "Skipped | None") -> dict[str, int]:
    """Print the first skipped lines of a trace; return their number for the summary.

    The summary has no such number if lines must not be skipped (None).
    """
    if skipped is None:
        return {}
    if skipped.count:
        messages.say("\n".join([f"Skipped {skipped.count} faulty lines. The first:", *skipped.first]))
    return {"skipped": skipped.count}
