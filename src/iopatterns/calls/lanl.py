"""Traces by LANL-Trace, such as those of MPI_IO_TEST: a text of ltrace(1) for each rank, and the file of their clocks.

A line is ``HH:MM:SS.us SYS_name(arguments) = result <duration>``. Lines ``MPI_…`` are calls of a library, for which the
system calls around them were made. They are passed over.
"""

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from iopatterns.base.reading import shown
from iopatterns.calls.form import CallsError, Source
from iopatterns.calls.positions import Event
from iopatterns.calls.texts import event_of, nanoseconds, printed

_LINE = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{1,9})\s+(?=SYS_|MPI|<\.\.\.|---|\+\+\+|[A-Za-z_])(.*)$")
_NAME = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\((.*)$")
_RESUMED = re.compile(r"<\.\.\. ([A-Za-z_][A-Za-z_0-9]*) resumed>\s?(.*)$")
_UNFINISHED = re.compile(r"\s*<unfinished \.\.\.>\s*$")
_BARRIER = re.compile(r"\s*(\d{1,6}): .* Exited barrier at (\d{1,12})\.(\d{1,9})\s*$")
_SYSTEM = "SYS_"
_DAY_NS = 24 * 3600 * 1_000_000_000


def is_lanl(line: str) -> bool:
    """Return whether this may be a line of the text of a rank."""
    found = _LINE.match(line)
    return found is not None and found[5].startswith((_SYSTEM, "MPI", "<... MPI", "<... SYS_"))


def lanl(sources: Sequence[Source], clocks: Path | None = None) -> Iterator[Event]:
    """Yield the events of all ranks by their times, which count from the midnight before.

    Each source is the text of a rank, whose number is the last one in the file's name. ``clocks``: LANL-Trace's file of
    timings. All ranks leave a barrier at one moment: what their clocks differ by then is taken off their times.
    Raises CallsError.
    """
    ranks: dict[int, Source] = {}
    for source in sources:
        numbers = re.findall(r"\d+", source.path.name)
        rank = int(numbers[-1][-9:]) if numbers else 0
        if rank in ranks:
            raise source.error(f"its name says rank {rank}, and so does that of {shown(ranks[rank].path)}")
        ranks[rank] = source
    skews = {} if clocks is None else skews_ns(clocks)
    for rank, source in ranks.items():
        if skews and rank not in skews:
            raise source.error(f"{shown(clocks)} says nothing of the clock of rank {rank}")
    events = (_rank(source, rank, skews) for rank, source in sorted(ranks.items()))
    return heapq.merge(*events, key=lambda event: event.time_ns)


def skews_ns(clocks: Path) -> dict[int, int]:
    """Return by how much the clock of each rank is before that of the lowest, in nanoseconds, at the first barrier.

    Raises CallsError where the file has no line ``RANK: HOST (PID) Exited barrier at SECONDS``.
    """
    found: dict[int, int] = {}
    for _, line in Source(clocks).lines():
        barrier = _BARRIER.match(line)
        if barrier is not None:
            found.setdefault(int(barrier[1]), nanoseconds(barrier[2], barrier[3]))
    if not found:
        raise CallsError(
            f"{shown(clocks)}: no line 'RANK: HOST (PID) Exited barrier at SECONDS'. Give LANL-Trace's file of timings."
        )
    first = found[min(found)]
    return {rank: time_ns - first for rank, time_ns in found.items()}


def _rank(source: Source, rank: int, skews: Mapping[int, int]) -> Iterator[Event]:
    unfinished: dict[str, tuple[int, str]] = {}
    last_ns = 0
    midnights_ns = 0

    def parse(line: str) -> Iterable[Event]:
        nonlocal last_ns, midnights_ns
        if not line.strip() or line.startswith("#"):
            return ()
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"no line of LANL-Trace: '{shown(line.strip())}'")
        hours, minutes, seconds, fraction, rest = found.groups()
        since_midnight_ns = nanoseconds(str(int(hours) * 3600 + int(minutes) * 60 + int(seconds)), fraction)
        if since_midnight_ns + midnights_ns < last_ns - _DAY_NS // 2:
            midnights_ns += _DAY_NS
        last_ns = since_midnight_ns + midnights_ns
        return _events(rank, last_ns - skews.get(rank, 0), rest, unfinished)

    return source.parsed(source.lines(), parse)


def _events(rank: int, time_ns: int, rest: str, unfinished: dict[str, tuple[int, str]]) -> list[Event]:
    if rest.startswith(("--- ", "+++ ")):
        return []
    resumed = _RESUMED.match(rest)
    found = resumed or _NAME.match(rest)
    if found is None:
        raise ValueError(f"no call: '{shown(rest.strip())}'")
    name, arguments = found.groups()
    if not name.startswith(_SYSTEM):
        return []
    if resumed is not None:
        if name not in unfinished:
            raise ValueError(f"'{name}' is resumed, but did not begin before")
        time_ns, begun = unfinished.pop(name)
        arguments = begun + arguments
    elif cut := _UNFINISHED.search(arguments):
        unfinished[name] = (time_ns, arguments[: cut.start()])
        return []
    event = event_of(rank, time_ns, printed(name.removeprefix(_SYSTEM), arguments.rstrip()))
    return [] if event is None else [event]
