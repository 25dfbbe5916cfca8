"""Functions that the measuring commands share.

One runs the body of a command with a log and with handling of stop signals. Another checks that the drive belongs to
this host.
"""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from iopatterns.base import command_line, messages
from iopatterns.base.ownership import OutputFile


@contextmanager
def running_job(
    log: Path | None = None,
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
    die_with_parent: bool = False,
) -> Iterator[None]:
    """Run the body of a measuring command, and report errors and stop signals.

    A stop signal asks a process to end, such as SIGTERM. After a stop signal, or an error that the user can correct, a
    message is written to standard error and to the log. The process then exits. The exit status is 128 plus the number
    of the signal, 2 for an error in the usage or configuration, and 1 for other errors. Exceptions that are neither
    click exceptions, IoPatternsError nor OSError pass through.

    Args:
        log: A file for a copy of all messages; None for no log.
        inputs: Files that the log must not overwrite.
        overwrite: Whether the log may overwrite any other file.
        die_with_parent: Whether this process gets SIGTERM when its parent process ends.

    Raises:
        OutputError: The log is an input or a symbolic link, or exists and ``overwrite`` is false.
    """
    from iopatterns.base.signals import Interrupted, interruptible
    from iopatterns.measuring import fio, progress

    if log is not None:
        OutputFile(log, inputs=inputs, overwrite=overwrite)  # checks only, because a log is read while it grows
    if die_with_parent:
        fio.die_with_parent(signal.SIGTERM)
    with (
        messages.copied_to(log, notes_to_log_only=progress.is_run_counted()),
        command_line.errors_reported("iopatterns"),
    ):
        try:
            with interruptible():
                yield
            progress.record_job_time("measuring")
        except Interrupted as interrupt:
            text = f"stopped by {interrupt}. Finished repetitions are kept."
            command_line.exit_with_error("iopatterns", text, 128 + interrupt.signal_number)


def require_host(host: str | None) -> None:
    """Raise DriveError if a drive belongs to a host other than this one.

    Args:
        host: Name of the host that has the drive, with or without its domain, such as ``node7``. A drive without a host
            (None or "") may be measured anywhere.
    """
    from iopatterns.measuring import machine

    if host and not machine.is_this_host(host):
        from iopatterns.measuring.drives import DriveError

        raise DriveError(
            f"the drive belongs to host {host}, and this host is {machine.host_name()}. Measure the drive on {host}."
        )
