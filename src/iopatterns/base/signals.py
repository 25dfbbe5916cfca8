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
    """The exception that a stop signal raises within the context `interruptible`.

    A stop signal asks a process to end. Examples are SIGINT (Ctrl-C) and SIGTERM. The text of the exception is the name
    of the signal. ``except Exception`` does not catch it. A measurement that ends with this exception keeps its
    finished repetitions (runs of fio).

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
    """Make stop signals raise `Interrupted` while this context lasts.

    A stop signal asks a process to end. Examples are SIGINT (Ctrl-C) and SIGTERM. Only the first signal raises the
    exception. Later signals are ignored, so that they do not interrupt the clean-up. The earlier signal handlers are
    restored at the end. Only the main thread can use this context.

    Python discards exceptions in destructors and callbacks. If it discards `Interrupted`, the end of the context or the
    next `raise_if_interrupted` raises the exception again.
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
    """Raise `Interrupted` again if a stop signal has arrived within `interruptible`.

    Python discards an exception that a signal handler raises in a destructor or callback. Code therefore calls this
    function before it starts long work or waits. Outside `interruptible`, nothing happens.
    """
    if _received:
        raise Interrupted(_received[0])


@contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """Block all stop signals in the current thread while this context lasts.

    A stop signal asks a process to end. Examples are SIGINT (Ctrl-C) and SIGTERM. Signals that arrive meanwhile stay
    pending, and are delivered on exit. Child processes that are started in the context inherit the blocked signals.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # the handler of a signal that arrived just before may raise here
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
