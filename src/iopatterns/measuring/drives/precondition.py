"""Brings a disk into a known state before it is measured: filled, or written at random until the rate is steady."""

from pathlib import Path

from iopatterns.base import messages
from iopatterns.measuring import fio
from iopatterns.measuring.drives.descriptors import resolved_path
from iopatterns.measuring.steadiness import ROUNDS, steadiness
from iopatterns.raw.records import PreconditioningRecord

# SNIA's test specification stops after as many rounds, steady or not
MAX_ROUNDS = 25


def precondition(descriptor: int, size_bytes: int, mode: str, round_ms: int, output: Path) -> PreconditioningRecord:
    """Write the first ``size_bytes`` of an open block device, and return how that went: what later sidecars tell.

    ``fill`` writes it once in sequence. ``steady`` then writes 4 KiB blocks at random, in rounds of ``round_ms``, until
    the IOPS of the last five are steady by SNIA's definition, or there have been 25. Keys: mode, size_bytes; and of
    steady round_ms, rounds (their IOPS), steady, excursion, rise. Raises FioError.
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
    assert found is not None  # there are more rounds than the definition needs
    messages.say(
        f"{device}: {'steady' if found.steady else 'NOT STEADY'} after {len(rounds)} rounds (of the last {ROUNDS})"
    )
    record["round_ms"], record["rounds"], record["steady"] = round_ms, rounds, found.steady
    record["excursion"], record["rise"] = found.excursion, found.rise
    return record
