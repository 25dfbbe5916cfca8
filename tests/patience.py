"""Time limits for tests, which are extended on a slow or busy machine.

A limit ends what would never end, but must not take a busy machine for a fault. When a limit expires, a fixed piece of
work is timed, and the limit is given again as often as this machine is slower than an idle one. Nothing is timed before
a limit expires.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

# The duration of the piece of work on an idle machine
USUAL_S = 0.1
# The largest factor by which a limit is extended
MAX_SLOWNESS = 100.0


def slowness() -> float:
    """Return how many times slower than when idle this machine is; at least 1."""
    started = time.monotonic()
    total = 0
    for number in range(900_000):  # long enough to be interrupted by other processes
        total += number & 7
    return min(MAX_SLOWNESS, max(1.0, (time.monotonic() - started) / USUAL_S))


def stretched(limit_s: float) -> float:
    """Return a limit multiplied by the present slowness."""
    return limit_s * slowness()


class Limit:
    """A time limit in seconds of an idle machine, from now on."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._given_s = limit_s
        self._expires_s = time.monotonic() + limit_s
        self._stretched = 0.0

    def remaining_s(self) -> float:
        """Return how long to wait before asking again; 0 if the limit has expired."""
        now = time.monotonic()
        if now >= self._expires_s:
            slow = slowness()
            # The past load is unknown. The limit is therefore given in full once more, and again only if the machine
            # has become still slower.
            if slow > 1.5 * self._stretched:
                self._stretched = slow
                self._expires_s = time.monotonic() + self.limit_s * slow
            now = time.monotonic()
        return max(0.0, self._expires_s - now)

    def expired(self) -> bool:
        """Return whether the limit has expired."""
        return self.remaining_s() == 0.0


def wait_for(condition: Callable[[], object], limit_s: float = 20, *, otherwise: str = "waited in vain") -> None:
    """Wait until a condition holds.

    Raises AssertionError with the text ``otherwise`` after the limit.
    """
    limit = Limit(limit_s)
    while not condition():
        assert not limit.expired(), f"{otherwise} (limit of {limit_s:g} s, on an idle machine)"
        time.sleep(0.01)


def communicate(process: "subprocess.Popen[Any]", limit_s: float) -> tuple[Any, Any]:
    """Wait for a process and return its output.

    After the limit, the process is killed, and TimeoutExpired is raised.
    """
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
    """Wait for a process and return its exit status, as `communicate` does."""
    communicate(process, limit_s)
    return int(process.returncode)


def run(command: Sequence[str | Path], limit_s: float, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """Run a command as subprocess.run does, with a limit as in `communicate`.

    ``options`` are passed to Popen.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            output, errors = communicate(process, limit_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@contextlib.contextmanager
def bounded(limit_s: float) -> Iterator[None]:
    """Fail the test if the context lasts too long. Works in the main thread only."""
    limit = Limit(limit_s)

    def over(*_: object) -> None:
        if limit.expired():
            import pytest  # takes time in slow guests

            pytest.fail(f"not done within {limit_s:g} s of an idle machine")  # no Exception
        signal.setitimer(signal.ITIMER_REAL, max(0.01, limit.remaining_s()))

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
