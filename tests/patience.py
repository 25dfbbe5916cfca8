"""How long tests wait: limits that are written for an idle machine, and stretched by how slow this one is right now.

A limit is there to end what would never end, and must not take a busy machine for a fault. So whenever a limit is about
to expire, a fixed piece of work is timed in wall time, and the limit is given again, as many times as this machine is
slower than the one that limits are written for. Where nothing hangs, nothing is measured.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

# What the piece of work takes on an idle processor of the machine for which limits are written
USUAL_S = 0.1
# What never ends is told at last, however slow the machine is
MOST = 100.0


def slowness() -> float:
    """Return how many times as long as usual a fixed piece of work takes at this moment, in wall time; at least 1."""
    started = time.monotonic()
    total = 0
    for number in range(900_000):  # long enough to be interrupted by whatever else wants the processor
        total += number & 7
    return min(MOST, max(1.0, (time.monotonic() - started) / USUAL_S))


def stretched(limit_s: float) -> float:
    """Return a limit for what has ended already, by the machine's present speed."""
    return limit_s * slowness()


class Limit:
    """A time limit, given in seconds of an idle machine, that starts now."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._given_s = limit_s
        self._expires_s = time.monotonic() + limit_s
        self._stretched = 0.0

    def remaining_s(self) -> float:
        """Return how long to wait before asking again; 0 where the time is over, also on this machine's terms."""
        now = time.monotonic()
        if now >= self._expires_s:
            slow = slowness()
            # Load comes and goes: what it was while the time passed is not known, so the limit is given once in full
            # whatever the speed, and again only where the machine has become slower still.
            if slow > 1.5 * self._stretched:
                self._stretched = slow
                self._expires_s = time.monotonic() + self.limit_s * slow
            now = time.monotonic()
        return max(0.0, self._expires_s - now)

    def expired(self) -> bool:
        """Return whether the time is over."""
        return self.remaining_s() == 0.0


def wait_for(condition: Callable[[], object], limit_s: float = 20, *, otherwise: str = "waited in vain") -> None:
    """Return as soon as a condition holds; AssertionError with the words given where it does not in time."""
    limit = Limit(limit_s)
    while not condition():
        assert not limit.expired(), f"{otherwise} (limit of {limit_s:g} s, on an idle machine)"
        time.sleep(0.01)


def communicate(process: "subprocess.Popen[Any]", limit_s: float) -> tuple[Any, Any]:
    """Wait for a process to end, and return what it wrote. Where it does not in time, kill it; TimeoutExpired."""
    limit = Limit(limit_s)
    while True:
        try:
            return process.communicate(timeout=limit.remaining_s())
        except subprocess.TimeoutExpired:
            if limit.expired():
                process.kill()
                process.communicate()
                raise


def wait(process: "subprocess.Popen[Any]", limit_s: float) -> int:
    """Wait for a process to end, whose output nobody reads, and return its status; likewise."""
    communicate(process, limit_s)
    return int(process.returncode)


def run(command: Sequence[str | Path], limit_s: float, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """Run a command to its end, like subprocess.run (``options`` are Popen's); likewise."""
    with subprocess.Popen(command, **options) as process:
        try:
            output, errors = communicate(process, limit_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@contextlib.contextmanager
def bounded(limit_s: float) -> Iterator[None]:
    """Fail the test where the context lasts too long, whatever it waits for. Only the main thread can ask for it."""
    limit = Limit(limit_s)

    def over(*_: object) -> None:
        if limit.expired():
            import pytest  # which guests, slow as they are, do without

            pytest.fail(f"not done within {limit_s:g} s of an idle machine")  # no Exception: nothing catches it
        signal.setitimer(signal.ITIMER_REAL, max(0.01, limit.remaining_s()))

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
