"""Settings of a drive: set, read back, noted so that they can be put back."""

from collections.abc import Iterable

from iopatterns.configuration import factors


def in_order(settings: Iterable[str]) -> list[str]:
    """Return settings in the order in which they are set.

    The scheduler comes first, which brings values of its own, and WCE before the kernel's view of the write cache,
    which follows it.
    """
    return factors.in_turn(settings)
