"""Start a run: lock the raw folder, check hosts, and print what will be measured.

The raw folder is data/raw, where fio's results are stored.
"""

import fcntl
import os
from pathlib import Path

from iopatterns.base import files, messages, subprocess_env, units, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import kinds
from iopatterns.measuring import health, progress
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.workflow import forecast, hosts
from iopatterns.workflow.planned_cells import PROGRESS_FILE, Cells

# Up to this number, drives are listed by name
_MOST_NAMES = 4


class RunLockError(IoPatternsError):
    """Another process measures in the same project.

    The other process has locked the folder of raw files. The message has the number of the other process.
    """


def begin_run(cells: Cells, cluster: hosts.SlurmSubmission | None = None) -> None:
    """Lock the raw folder, check the hosts, and print what will be measured.

    The raw folder is data/raw, where fio's results are stored. The lock is held until this process ends, and prevents
    that two runs measure at the same time. The function does not wait for the lock.

    Args:
        cells: All cells of the run. A cell is one configuration: a drive, its settings and a workload.
        cluster: Where the jobs are submitted; None if they run on this host.

    Raises:
        RunLockError: Another process has the lock.
        ConfigError: The raw folder cannot be written, or a drive belongs to another host.
        ClusterError: A host lacks something that jobs need, or no host is ready.
        NoRoomError: The disk of the project is full.
    """
    files.require_room(cells.root)
    lock_raw_folder(cells.root / RAW_FOLDER)  # never closed, because closing would release the lock
    subprocess_env.make_environment_uniform()
    forecasts = [each for each in forecast.drive_forecasts(cells) if each.repetitions]
    drives = {each.drive: cells.config.drives[each.drive] for each in forecasts}
    hosts.require_hosts(cells.root, drives, cluster)
    repetitions, seconds = sum(each.repetitions for each in forecasts), sum(each.seconds for each in forecasts)
    progress.begin_count(cells.root / PROGRESS_FILE, repetitions)
    if repetitions:
        on = ", ".join(drives) if len(drives) <= _MOST_NAMES else f"{len(drives)} drives"
        total = units.format_duration(forecast.run_s(cells, forecasts))
        messages.say(
            f"To measure: {repetitions} repetitions on {on}, about {units.format_duration(seconds)}; with analysis and"
            f" report about {total}."
        )
    if any(kinds.is_real(entry) for entry in drives.values()) and health.health_program() is None:
        messages.say(
            "Temperature and health of drives are not recorded, because neither smartctl nor nvme is installed."
            " Install smartctl: apt-get install smartmontools"
        )


def lock_raw_folder(folder: Path) -> int:
    """Lock a raw folder, and return the file descriptor that holds the lock.

    While the lock is held, no other process can lock the folder to measure into it. The function does not wait for a
    lock that is held already. The lock lasts until the returned descriptor is closed, at the latest until the process
    ends.

    Snakemake's own lock would outlive a killed run, and a user would have to remove it.

    Args:
        folder: The raw folder, which is created if it is missing.

    Raises:
        RunLockError: Another process, or another descriptor of this process, holds the lock.
        ConfigError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".run.lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise yaml_schema.ConfigError(
            f"{messages.printable(error.filename)}: {error.strerror}. Raw files are written there."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode(errors="replace")
        os.close(descriptor)
        raise RunLockError(f"Process {owner} is running this workflow already. Wait for it, or stop it.") from None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor
