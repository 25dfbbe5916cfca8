"""Signatures of file systems, partition tables, LVM, RAID and encryption, on a device and in its partitions."""

import json
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from iopatterns.base import subprocess_env
from iopatterns.measuring.drives.descriptors import descriptor_path

_NOTHING_FOUND, _SEVERAL_FOUND = 2, 8  # exit statuses of blkid(8)
_NOT_INSTALLED = 127  # as a shell reports it


@dataclass(frozen=True)
class Partition:
    """A partition as a table describes it, in sectors of 512 bytes."""

    number: int
    start: int
    sectors: int


def find_signatures(descriptor: int) -> list[str]:
    """Return the types of all signatures on a device that wipefs(8) finds: ext4, gpt, LVM2_member, crypto_LUKS …"""
    said = _ask(["wipefs", "--no-act", "--json", descriptor_path(descriptor)], descriptor)
    if said.returncode:
        return [f"unknown ({said.stderr.strip() or 'wipefs failed'})"]
    return [entry["type"] for entry in json.loads(said.stdout)["signatures"]] if said.stdout.strip() else []


def find_partition_signatures(descriptor: int, known: Collection[tuple[int, int]]) -> Iterator[tuple[Partition, str]]:
    """Yield the types of signatures in the partitions of a device's table, with the partition.

    ``known``: start and length, in sectors, of partitions to leave out: those that have a device of their own.
    """
    argv = ["partx", "--raw", "--noheadings", "--output", "NR,START,SECTORS", descriptor_path(descriptor)]
    said = _ask(argv, descriptor)
    if said.returncode == _NOT_INSTALLED:
        yield Partition(0, 0, 0), f"unknown ({said.stderr})"
    for line in said.stdout.splitlines():  # nothing, and an exit status, where there is no table
        partition = Partition(*map(int, line.split()))
        if (partition.start, partition.sectors) not in known:
            for kind in _at(descriptor, partition):
                yield partition, kind


def _at(descriptor: int, partition: Partition) -> list[str]:
    place = [f"--offset={partition.start * 512}", f"--size={partition.sectors * 512}"]
    said = _ask(["blkid", "--probe", "--output=export", *place, descriptor_path(descriptor)], descriptor)
    if said.returncode == _NOTHING_FOUND:
        return []
    if said.returncode == _SEVERAL_FOUND:
        return ["unknown (several at once)"]
    found = dict(line.partition("=")[::2] for line in said.stdout.splitlines())
    kinds = [found[key] for key in ("TYPE", "PTTYPE") if key in found]
    return kinds or [f"unknown ({said.stderr.strip() or 'blkid failed'})"]


def _ask(argv: Sequence[str], descriptor: int) -> subprocess.CompletedProcess[str]:
    """Run a program that inherits the descriptor. The exit status is 127 if the program is not installed."""
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            env=subprocess_env.child_environment(),
            pass_fds=[descriptor],
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(argv, _NOT_INSTALLED, "", f"{argv[0]} is not installed")
