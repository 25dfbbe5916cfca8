"""Settings of a drive: what is asked for, what became of it, and the exchange with the drive that shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from iopatterns import factors

# What can become of a setting; the value asked for is in effect after the first two alone.
ALREADY = "already so"
CHANGED = "changed"
NOT_CHANGEABLE = "not changeable"  # the drive's own mask says so
REFUSED = "refused"  # changeable, but the drive rejects the command
IGNORED = "ignored"  # the drive accepts the command, and reads back as before
NOT_APPLICABLE = "not applicable"  # there is no such setting
_TAKEN = frozenset({ALREADY, CHANGED})


@dataclass(frozen=True)
class Step:
    """One setting of one drive: what was asked for, and what became of it.

    ``before`` and ``after`` are what the drive reported; None where it reports no such setting. ``changeable`` is what
    its mask of changeable values says, None where it has none. ``exchange`` holds each command with its exit status and
    what it printed, in order.
    """

    setting: str
    wanted: int | str
    before: int | str | None
    after: int | str | None
    changeable: bool | None
    outcome: str
    reason: str
    exchange: list[dict[str, Any]] = field(default_factory=list)

    @property
    def taken(self) -> bool:
        """Whether the value asked for is in effect."""
        return self.outcome in _TAKEN

    def record(self) -> dict[str, Any]:
        """Return the step as JSON has it."""
        return asdict(self)


def not_applicable(setting: str, wanted: int | str, reason: str) -> Step:
    """Return the step of a setting that a drive does not have."""
    return Step(setting, wanted, None, None, None, NOT_APPLICABLE, reason)


def in_order(settings: Iterable[str]) -> list[str]:
    """Return settings in the order in which they are set.

    The scheduler comes first, which brings values of its own, and WCE before the kernel's view of the write cache,
    which follows it.
    """
    return factors.in_turn(settings)


def not_taken(steps: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return those records of steps after which the value asked for is not in effect."""
    return [step for step in steps if step["outcome"] not in _TAKEN]
