"""The signals that ask a measurement to stop, and holding them back while it must not be disturbed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Let those signals wait, for this process and those that it starts, until the context ends."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # where a signal came just before, its handler may raise from here
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
