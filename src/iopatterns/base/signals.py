"""The signals that ask a measurement to stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Keep `STOP_SIGNALS` pending in this context.

    This applies to this process, and to child processes that are started meanwhile.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # the handler of a signal that arrived just before may raise here
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
