"""Command `twin linux`, which runs a program in a guest with a simulated drive."""

import os
import sys
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from iopatterns.base import schedulers
from iopatterns.base.command_line import OVERWRITE_OPTION
from iopatterns.twin.commands.arguments import (
    FILE_TYPE,
    INTERVAL_BYTES_OPTION,
    INTERVAL_OPTION,
    MODEL_ARGUMENT,
    SECONDS_TYPE,
    SET_OPTION,
    SIZE_TYPE,
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--fs",
    "file_system",
    type=click.Choice(["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs", "none"]),
    default="ext4",
    show_default=True,
    help="File system on the drive, or none for the bare drive.",
)
@click.option(
    "--fs-size", "file_system_bytes", type=SIZE_TYPE, help="Size of the file system.  [default: capacity of the drive]"
)
@click.option("--mkfs-options", default="", help="Options for mkfs, as one word.")
@click.option("--mount-options", default="", help="Options for mount, such as discard,noatime.")
@click.option(
    "--scheduler",
    type=click.Choice(schedulers.MODERN_SCHEDULERS),
    help="I/O scheduler of the block layer.  [default: scheduler of the model]",
)
@click.option(
    "--queue",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting in /sys/block/vda/queue, such as wbt_lat_usec=0; may be given several times.",
)
@click.option(
    "--memory", "memory_bytes", type=SIZE_TYPE, default="512 MiB", show_default=True, help="Memory of the guest."
)
@click.option(
    "--queue-depth", type=int, help="Largest number of requests at the drive.  [default: as many as the drive takes]"
)
@click.option("--trace", type=FILE_TYPE, help="File for a trace of the requests of the command (.parquet, .csv).")
@click.option("--trace-all", is_flag=True, help="Include the requests of mkfs and mount in the trace.")
@click.option("--counters", type=FILE_TYPE, help="File for counters of the drive over time (.parquet, .csv).")
@INTERVAL_OPTION
@INTERVAL_BYTES_OPTION
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), help="Folder for the settings of the drive.")
@SET_OPTION
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--keep", type=FILE_TYPE, metavar="IMAGE", help="Sparse file for the content of the drive after the command."
)
@OVERWRITE_OPTION
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the host in which the command may write. Its path in the guest is /mnt/folder ({folder}).",
)
@click.option(
    "--wall-limit",
    "wall_limit_s",
    type=SECONDS_TYPE,
    default="10 min",
    show_default=True,
    help="Limit of the wall-clock time.",
)
@click.option(
    "--real-time",
    is_flag=True,
    help="Use the clock of the host and Debian's user-mode-linux. Results are not repeatable.",
)
@click.option(
    "--drop-caches",
    is_flag=True,
    help="Provide /mnt/drop-caches: a read of this file empties the page cache. Shifts all times by about 1 us.",
)
@click.option(
    "--call-ns",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Virtual time of each system call of COMMAND, in ns; 0 for none.",
)
@click.option(
    "--fault-ns",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Virtual time of each page fault of COMMAND, in ns; 0 for none.",
)
@click.option(
    "--date",
    type=click.DateTime(),
    default="2030-01-01",
    show_default=True,
    help="Time of day (UTC) at which the clock of the guest starts.",
)
@click.option("--kernel", type=FILE_TYPE, help="Kernel image.  [default: kernel of `./reproduce.sh linux`]")
@MODEL_ARGUMENT
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(model: str, command: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND in a Linux guest with a simulated drive.

    MODEL is the name of a model of a drive (`twin list`), or the path of a model file. The guest has this simulated
    drive as /dev/vda. The guest runs in virtual time unless --real-time is given.

    COMMAND is a program of this host and runs as an ordinary user. The file system of the drive is mounted at
    /mnt/drive. With --fs none there is no file system, and COMMAND uses the bare drive. The text {drive} in COMMAND
    stands for /dev/vda. The files of the host are read-only, except in the folder of --folder.

    `twin linux` prints the output of COMMAND, and exits with the status of COMMAND. The status is 124 if the wall-clock
    limit is reached, and 125 if the guest fails.
    """
    from iopatterns.twin import linux

    words = command[1:] if command[0] == "--" else command
    if not words:
        raise click.UsageError("requires a command after --")
    options["date"] = options["date"].replace(tzinfo=UTC)
    if activated := os.environ.get("VIRTUAL_ENV"):
        options["virtual_environment"] = Path(activated)
    given = {name: value for name, value in options.items() if value is not None}
    sys.exit(linux.run_in_linux(model, words, linux.LinuxOptions(**given)).returncode)
