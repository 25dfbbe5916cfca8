"""Find signatures of file systems, partition tables, LVM, RAID and encryption.

A signature is a fixed sequence of bytes by which programs recognise the type of data on a disk.
"""

import json
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from iopatterns.base.subprocess_env import minimal_environment
from iopatterns.measuring.drives.descriptors import descriptor_path

_NOTHING_FOUND, _SEVERAL_FOUND = 2, 8  # exit statuses of blkid(8)
_NOT_INSTALLED = 127  # as a shell reports it


@dataclass(frozen=True)
class Partition:
    """An entry of a partition table.

    Attributes:
        number: The number of the partition; 0 if the partition table could not be read.
        start: The first sector, in sectors of 512 bytes.
        sectors: The length, in sectors of 512 bytes.
    """

    number: int
    start: int
    sectors: int


def find_signatures(descriptor: int) -> list[str]:
    """Return the types of all signatures on a device, such as ext4 or crypto_LUKS.

    A signature is a fixed sequence of bytes by which programs recognise the type of data, such as a file system or a
    partition table. The program wipefs(8) finds the signatures. If wipefs fails or is not installed, the list has one
    text that begins with ``unknown``. The list is empty if there are no signatures.

    Args:
        descriptor: The file descriptor of the open device.
    """
    result = _run(["wipefs", "--no-act", "--json", descriptor_path(descriptor)], descriptor)
    if result.returncode:
        return [f"unknown ({result.stderr.strip() or 'wipefs failed'})"]
    return [entry["type"] for entry in json.loads(result.stdout)["signatures"]] if result.stdout.strip() else []


def find_partition_signatures(descriptor: int, known: Collection[tuple[int, int]]) -> Iterator[tuple[Partition, str]]:
    """Find the signatures in the partitions of a device; yield partition and type.

    A signature is a fixed sequence of bytes by which programs recognise the type of data, such as ``ext4``. The
    partition table is read from the device with partx(8), so that partitions that the kernel does not know are found
    too. Nothing is yielded without a partition table.

    If the signatures in a partition cannot be determined, the type is a text that begins with ``unknown``. If partx is
    not installed, the only item is a partition with the number 0 and such a text.

    Args:
        descriptor: The file descriptor of the open device.
        known: The partitions to skip, because the kernel has devices for them. Each is a pair of start and length, in
            sectors of 512 bytes.
    """
    argv = ["partx", "--raw", "--noheadings", "--output", "NR,START,SECTORS", descriptor_path(descriptor)]
    result = _run(argv, descriptor)
    if result.returncode == _NOT_INSTALLED:
        yield Partition(0, 0, 0), f"unknown ({result.stderr})"
    for line in result.stdout.splitlines():  # empty without a partition table
        partition = Partition(*map(int, line.split()))
        if (partition.start, partition.sectors) not in known:
            for kind in _signatures_in(descriptor, partition):
                yield partition, kind


def _signatures_in(descriptor: int, partition: Partition) -> list[str]:
    part = [f"--offset={partition.start * 512}", f"--size={partition.sectors * 512}"]
    result = _run(["blkid", "--probe", "--output=export", *part, descriptor_path(descriptor)], descriptor)
    if result.returncode == _NOTHING_FOUND:
        return []
    if result.returncode == _SEVERAL_FOUND:
        return ["unknown (several at once)"]
    found = dict(line.partition("=")[::2] for line in result.stdout.splitlines())
    kinds = [found[key] for key in ("TYPE", "PTTYPE") if key in found]
    return kinds or [f"unknown ({result.stderr.strip() or 'blkid failed'})"]


def _run(argv: Sequence[str], descriptor: int) -> subprocess.CompletedProcess[str]:
    """Run a program that inherits a file descriptor; return its output.

    The exit status is 127 if the program is not installed.
    """
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=minimal_environment(), pass_fds=[descriptor]
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(argv, _NOT_INSTALLED, "", f"{argv[0]} is not installed")
