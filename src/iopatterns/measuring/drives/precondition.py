"""Precondition a disk: fill it, and write it randomly until its rate is steady.

The rate of an SSD depends on what was written to it before. Preconditioning gives the SSD a defined history of writes.
"""

from pathlib import Path

from iopatterns.base import messages
from iopatterns.measuring import fio
from iopatterns.measuring.drives.descriptors import resolved_path
from iopatterns.measuring.steadiness import ROUNDS, steadiness
from iopatterns.raw.records import PreconditioningRecord

# The maximum number of rounds in SNIA's Performance Test Specification
MAX_ROUNDS = 25


def precondition(descriptor: int, size_bytes: int, mode: str, round_ms: int, output: Path) -> PreconditioningRecord:
    """Write to a block device until it is in a known state.

    Both modes begin with writing the first `size_bytes` bytes once, sequentially. With the mode ``steady``, rounds of
    random 4 KiB writes to this part follow. They end once the IOPS of the last five rounds are steady, or after 25
    rounds. Steady means SNIA's limits: the range is at most 20 % of the mean, and the best linear fit rises or falls by
    at most 10 % of the mean.

    Args:
        descriptor: The file descriptor of the open device.
        size_bytes: The size of the part that is written, from the start of the device.
        mode: ``fill`` or ``steady``.
        round_ms: The duration of a round in milliseconds. The mode ``fill`` ignores it.
        output: The path of a temporary file for fio's results, which is deleted.

    Returns:
        The record for metadata files, with the keys ``mode`` and ``size_bytes``. The mode ``steady`` adds ``round_ms``,
        ``rounds`` (the IOPS of each round), ``steady`` (whether the disk became steady), ``excursion`` and ``rise``
        (range and rise of the last five rounds, divided by their mean).

    Raises:
        FioError: fio failed.
    """
    device = resolved_path(descriptor)
    messages.say(f"{device}: writing its first {size_bytes / 2**30:.2f} GiB once")
    fio.fill(descriptor, size_bytes)
    record: PreconditioningRecord = {"mode": mode, "size_bytes": size_bytes}
    if mode == "fill":
        return record
    rounds: list[float] = []
    found = None
    while len(rounds) < MAX_ROUNDS and not (found is not None and found.steady):
        rounds.append(fio.random_writes(descriptor, size_bytes, round_ms, len(rounds) + 1, output))
        found = steadiness(rounds)
        messages.say(f"{device}: round {len(rounds)} of random writes, {rounds[-1]:.0f} IOPS")
    assert found is not None  # MAX_ROUNDS is more than the definition needs
    messages.say(
        f"{device}: {'steady' if found.steady else 'NOT STEADY'} after {len(rounds)} rounds (by the last {ROUNDS})"
    )
    return {
        **record,
        "round_ms": round_ms,
        "rounds": rounds,
        "steady": found.steady,
        "excursion": found.excursion,
        "rise": found.rise,
    }
