"""The fio process: it is started, watched for disturbances, and always ended."""

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from iopatterns.base import signals
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.subprocess_env import child_environment, minimal_environment

_MIN_SUSPENDED_S = 0.001  # the two clocks of `_suspended_s` are not read at the same moment
# fio that has not ended this long after its expected end hangs (dead disk, stuck kernel)
_PATIENCE_S = 120.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_PARENT_STOPPED = "ran while the measuring process itself was stopped"
_CHILD_SIGNALS = (signal.SIGCHLD, signal.SIGCONT)
# A signal that another thread of this process receives does not end sigtimedwait(2), so the wait is repeated
_LONGEST_WAIT_S = 1.0


class FioError(IoPatternsError):
    """The error raised if fio failed, or if its result is not a valid measurement.

    The message contains what fio printed, if anything.
    """


class DisturbedError(FioError):
    """The error raised if a measurement was disturbed, although fio succeeded.

    The result does not describe the drive. For example, the machine was suspended during the measurement. Another
    attempt may succeed.
    """


@dataclass(frozen=True)
class FioOutcome:
    """When a fio process ran, and what disturbed it.

    Attributes:
        started_s: The time of the start, in seconds since the epoch.
        ended_s: The time of the end, in seconds since the epoch.
        wall_s: The duration in seconds, by the monotonic clock, which is never set.
        disturbed: What disturbed fio, as the rest of a sentence that begins with "fio", such as "was stopped by a
            signal for a while". None if nothing disturbed fio.
        counters: The counters of a simulated drive at the end, by name. None for a real drive.
    """

    started_s: float
    ended_s: float
    wall_s: float
    disturbed: str | None = None
    counters: Mapping[str, int] | None = None


def version() -> str:
    """Return the output of ``fio --version``, such as ``fio-3.33``.

    The output is cached until the program file of fio changes.

    Raises:
        FioError: fio is not installed, or does not start.
    """
    path = shutil.which("fio")
    if path is None:
        raise FioError("fio is not installed. Run ./reproduce.sh, which installs it.")
    state = os.stat(path)
    return _version(path, state.st_ino, state.st_mtime_ns)


@functools.cache
def _version(path: str, *_state: int) -> str:
    """Return the version that the fio at a path prints.

    Results are cached. Inode and modification time of the file are arguments only so that a new fio at the same path is
    asked again.
    """
    try:
        result = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, env=child_environment()
        )
        return result.stdout.strip()
    except OSError as error:
        raise FioError(f"{path}: {error.strerror}. Is it a program of this machine?") from None
    except subprocess.CalledProcessError as error:
        raise FioError(f"fio --version failed: {error.stderr.strip()}") from None


def run_fio(
    argv: list[str], expected_s: float, descriptors: Collection[int] = (), *, written: int | None = None
) -> FioOutcome:
    """Run fio on a real drive, in its own process group, and wait for its end.

    A stop signal (such as SIGINT) or an error kills the process group at once. If this process is killed, the kernel
    kills fio. fio gets the environment variables of `minimal_environment` only.

    Args:
        argv: The words of the command line.
        expected_s: The expected duration in seconds. fio that takes far longer is killed.
        descriptors: The file descriptors that fio inherits.
        written: The descriptor of the drive, if fio writes to the drive through the page cache. This function then
            flushes the writes when fio has ended. The descriptor must have been opened before the call. None for all
            other workloads.

    Returns:
        When fio started and ended, and what disturbed it.

    Raises:
        FioError: fio failed or hangs, or its buffered writes were lost. The message contains what fio printed.
    """
    started_s, clock, suspended_s = time.time(), time.monotonic(), _suspended_s()
    # stop signals are received in `_wait` alone, so that none interrupts starting or killing fio
    with tempfile.TemporaryFile() as output:
        with child_signals_blocked() as mask, signals.stop_signals_blocked():
            spawning = spawned(argv, output, mask, minimal_environment(), descriptors)
            with spawning as process, timeout_as_error(argv, expected_s) as timeout_s:
                status, disturbed = _wait(process, timeout_s)
        require_success(status, output, argv)
    suspended_s = _suspended_s() - suspended_s
    if suspended_s > _MIN_SUSPENDED_S:
        disturbed = f"ran while the machine was suspended for {suspended_s:.1f} s"
    outcome = FioOutcome(started_s, time.time(), time.monotonic() - clock, disturbed)
    if written is not None:
        _flush(written, argv)
    return outcome


def _flush(descriptor: int, argv: list[str]) -> None:
    """Flush the buffered writes of fio; raise FioError if the kernel has lost any.

    The kernel writes the pages when fio has ended, and reports an error only to descriptors that were open before.

    Args:
        descriptor: The descriptor of the drive.
        argv: The command line, for the message.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise FioError(
            f"fio ended well, but the drive did not accept all its buffered writes: {error.strerror}. The log of the"
            f" kernel (dmesg) has the reason. Command: {' '.join(argv)}"
        ) from None


@contextlib.contextmanager
def spawned(
    argv: list[str],
    output: IO[bytes],
    mask: set[int | signal.Signals],
    environment: Mapping[str, str],
    descriptors: Collection[int],
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process of a new program; kill the process on exit if it still runs.

    The process has its own process group, which is killed with it. If this process dies, the kernel kills the program.

    Args:
        argv: The words of the command line.
        output: The file that receives stdout and stderr.
        mask: The signals that are blocked in the program, from `child_signals_blocked`.
        environment: The environment variables.
        descriptors: The file descriptors that the program inherits.

    Raises:
        FioError: The program is not installed.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        # a stop signal that arrives meanwhile stays pending until fio can be killed
        with signals.stop_signals_blocked():
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
                env=dict(environment),
                pass_fds=tuple(descriptors),
                preexec_fn=functools.partial(_preexec, os.getpid(), mask),  # noqa: PLW1509 - no threads here
            )
        yield process
    except FileNotFoundError:
        if process is not None:
            raise
        raise FioError(f"{argv[0]} is not installed. Run ./reproduce.sh, which installs it.") from None
    finally:
        if process is not None and process.returncode is None:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)  # not yet reaped, so the number of the group is still fio's
    process.wait()


def _preexec(parent: int, mask: set[int | signal.Signals]) -> None:
    """Prepare a child process between fork and exec (``preexec_fn`` of Popen).

    The function asks the kernel to kill the child when its parent dies, and sets the signal mask. A stop signal that
    the child received meanwhile ends the child: the parent's handlers would raise an exception here.

    Args:
        parent: The process ID of the parent. The child exits at once if the parent is already dead.
        mask: The signals to block in the child.
    """
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # the parent was killed before prctl(2)
        os._exit(1)
    for number in signals.STOP_SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send a signal to this process when its parent thread ends.

    See PR_SET_PDEATHSIG in prctl(2). The parent thread is the thread that started this process.

    Args:
        signal_number: The number of the signal, such as ``signal.SIGKILL``.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number)


@contextlib.contextmanager
def child_signals_blocked() -> Iterator[set[int | signal.Signals]]:
    """Block SIGCHLD and SIGCONT in this process while the context lasts.

    Code within the context that waits for a child process can then receive the two signals with sigtimedwait(2). Within
    the context, SIGCHLD has its default action: if the signal were ignored, the kernel would discard the exit status of
    the child.

    Yields:
        The signals that were blocked before. A child should be started with only these signals blocked.
    """
    action = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD_SIGNALS)
    try:
        while signal.sigtimedwait(_CHILD_SIGNALS, 0):  # discard older signals
            pass
        yield set(mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, action)


def _wait(process: subprocess.Popen[bytes], timeout: float) -> tuple[int, str | None]:
    """Wait for a process to end; return its exit status and what disturbed it.

    A disturbance is that the process, or this process, is stopped meanwhile.

    SIGCHLD, SIGCONT and the stop signals must be blocked (`child_signals_blocked`, `signals.stop_signals_blocked`). A
    stop signal kills the process, and takes effect in this process once it is no longer blocked.

    Args:
        process: The process.
        timeout: The timeout in seconds.

    Returns:
        The exit status (minus the number of the signal that killed the process), and what disturbed the process, such
        as "was stopped by a signal for a while". None if nothing did.

    Raises:
        TimeoutError: The process has not ended within the timeout.
    """
    disturbed = None
    deadline_s = time.monotonic() + timeout
    stops = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
    while True:
        signals.raise_if_interrupted()
        change = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | stops)
        if change is not None and change.si_code not in {os.CLD_STOPPED, os.CLD_CONTINUED}:
            # if the child stopped, continued and ended while this process was stopped, only its end is reported
            if signal.SIGCONT in signal.sigpending():
                disturbed = disturbed or _PARENT_STOPPED
            return process.wait(), disturbed
        if change is not None:
            disturbed = "was stopped by a signal for a while"
            with contextlib.suppress(ChildProcessError):  # the child has ended since
                os.waitid(os.P_PID, process.pid, stops)
            continue
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        received = signal.sigtimedwait((*_CHILD_SIGNALS, *signals.STOP_SIGNALS), min(remaining_s, _LONGEST_WAIT_S))
        if received is None or received.si_signo == signal.SIGCHLD:
            continue
        if received.si_signo == signal.SIGCONT:
            disturbed = disturbed or _PARENT_STOPPED
        # if this process was stopped for longer than the wait, Python may return a meaningless number
        elif received.si_signo in signals.STOP_SIGNALS and signal.getsignal(received.si_signo) != signal.SIG_IGN:
            _kill(process)
            signal.raise_signal(received.si_signo)
            return process.returncode, disturbed


@contextlib.contextmanager
def timeout_as_error(argv: list[str], expected_s: float) -> Iterator[float]:
    """Yield a timeout for fio; convert TimeoutError within the context to FioError.

    The timeout is ten times the expected duration plus 120 s. fio that exceeds it is considered to hang.

    Args:
        argv: The words of the command line, for the message.
        expected_s: The expected duration in seconds.

    Yields:
        The timeout in seconds.

    Raises:
        FioError: The code within the context raised TimeoutError.
    """
    clock = time.monotonic()
    try:
        yield 10 * expected_s + _PATIENCE_S
    except TimeoutError:
        raise FioError(
            f"fio did not end: it was to take {expected_s:.1f} s and was stopped after"
            f" {time.monotonic() - clock:.0f} s. Does the drive still answer? Command: {' '.join(argv)}"
        ) from None


def require_success(status: int, output: IO[bytes], argv: list[str]) -> None:
    """Raise FioError unless fio succeeded, which is exit status 0.

    Args:
        status: The exit status of fio; minus the number of the signal if a signal killed fio.
        output: The open file with what fio printed, for the message.
        argv: The words of the command line, for the message.
    """
    if status:
        output.seek(0)
        printed = output.read().decode(errors="replace").strip() or _preamble(argv) or "(nothing)"
        how = f"was killed by signal {-status}" if status < 0 else f"failed with exit status {status}"
        raise FioError(f"fio {how}. It printed:\n{indented(printed)}\n  Command: {' '.join(argv)}")


def indented(text: str) -> str:
    """Return the last twelve lines of a text, each indented by four spaces."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-12:])


def _preamble(argv: list[str]) -> str:
    """Return what fio wrote before the JSON text in its output file, such as errors.

    The path of the file is taken from the option ``--output``. The result is empty if the file cannot be read.

    Args:
        argv: The command line of fio.
    """
    output = next((word.removeprefix("--output=") for word in argv if word.startswith("--output=")), "")
    with contextlib.suppress(OSError):
        return Path(output).read_text(errors="replace").partition("{")[0].strip()
    return ""


def _suspended_s() -> float:
    """Return for how long the machine has been suspended since boot, in seconds.

    It is the difference of two clocks. Only CLOCK_BOOTTIME runs during suspension (clock_gettime(2)).
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
