"""The context of commands that measure.

It consists of a log, the handling of stop signals, and the check of the host.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iopatterns.base import command_line, messages


@contextmanager
def running_job(log: Path | None = None, *, die_with_parent: bool = False) -> Iterator[None]:
    """Report errors and stop signals also in the log, and end the process after them.

    Args:
        log: A file for a copy of all messages.
        die_with_parent: Whether to stop when the parent process ends.
    """
    from iopatterns.measuring import fio, progress
    from iopatterns.measuring.cell import Interrupted, interruptible

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
    """Raise DriveError if a drive belongs to another host.

    A drive without a host may be measured anywhere.
    """
    from iopatterns.measuring import machine

    if host and not machine.is_this_host(host):
        from iopatterns.measuring.drives import DriveError

        raise DriveError(
            f"the drive belongs to host {host}, and this host is {machine.host_name()}. Measure the drive on {host}."
        )
