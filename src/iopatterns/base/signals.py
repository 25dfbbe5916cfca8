"""The signals that ask a measurement to stop, and how a process reacts to them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Signals that do not end a process by default (signal(7)), that no process can handle, that report a fault of the
# process itself, or that Python turns into an OSError (SIGPIPE, SIGXFSZ)
_OTHER_SIGNALS = frozenset(
    {
        *(signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH),
        *(signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
        *(signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP),
        *(signal.SIGPIPE, signal.SIGXFSZ),
    }
)
# All signals that would end a process without clean-up, such as SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGUSR1
STOP_SIGNALS = tuple(sorted(signal.valid_signals() - _OTHER_SIGNALS))

_received: list[int] = []  # the first stop signal within `interruptible`, if any


class Interrupted(BaseException):
    """The exception that a stop signal raises within `interruptible`.

    Repetitions that were finished before are kept.

    Attributes:
        signal_number: The number of the signal.
    """

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        try:
            name = signal.Signals(signal_number).name
        except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
            name = f"signal {signal_number}"
        super().__init__(name)


@contextmanager
def interruptible() -> Iterator[None]:
    """Make each stop signal raise `Interrupted` while the context lasts.

    Only the first signal raises. Later ones are ignored, so that they do not interrupt the clean-up. If Python discards
    the exception, which it does in destructors and callbacks, the end of the context or `raise_if_interrupted` raises
    the exception again.
    """

    def stop(signal_number: int, _frame: FrameType | None) -> None:
        for number in STOP_SIGNALS:  # a second Ctrl-C must not interrupt the clean-up
            signal.signal(number, signal.SIG_IGN)
        _received.append(signal_number)
        raise Interrupted(signal_number)

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
        raise_if_interrupted()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _received.clear()


def raise_if_interrupted() -> None:
    """Raise `Interrupted` if a stop signal has arrived within `interruptible`.

    Code that starts long work, or waits, calls this function: the first exception may have been discarded.
    """
    if _received:
        raise Interrupted(_received[0])


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Block all stop signals while this context lasts.

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
