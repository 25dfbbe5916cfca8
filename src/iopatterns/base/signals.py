"""The signals that ask a measurement to stop: SIGINT, SIGTERM and SIGHUP."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Block SIGINT, SIGTERM and SIGHUP while this context lasts.

    Signals that arrive meanwhile stay pending, and are delivered on exit. Child processes that are started in the
    context inherit the blocked signals.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # the handler of a signal that arrived just before may raise here
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
