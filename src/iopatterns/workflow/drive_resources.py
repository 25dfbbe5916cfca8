"""Snakemake resources and Slurm options that keep drives undisturbed.

Two jobs that measure real drives of a host do not run at the same time, unless the drives are independent.
"""

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.measuring import machine
from iopatterns.workflow import hosts


def resource_names(conf: config.Config) -> list[str]:
    """Return the names of the resources of a run, which has one unit of each.

    This host, each host that a drive names, and each independent drive have a resource.
    """
    hosts_of = dict.fromkeys(["", *(kinds.host_of(entry) for entry in conf.drives.values())])
    return [*(_of_host(host) for host in hosts_of), *(_of_independent(drive) for drive in conf.independent_drives)]


def resource_amount(conf: config.Config, drive: str, resource: str) -> int:
    """Return 1 if a job that measures the drive requires the resource, otherwise 0.

    A job of an independent drive requires the resource of this drive only. A job of another real drive requires the
    resource of its host, and the resources of all independent drives of this host. A simulated drive requires no
    resource.
    """
    if drive in conf.independent_drives:
        return int(resource == _of_independent(drive))
    host = kinds.host_of(conf.drives[drive])
    beside = [other for other in conf.independent_drives if kinds.host_of(conf.drives[other]) == host]
    of_drive = {_of_host(host), *(_of_independent(other) for other in beside)}
    return int(kinds.is_real(conf.drives[drive]) and resource in of_drive)


def slurm_options(conf: config.Config, drive: str) -> str:
    """Return the Slurm options of a job that measures a drive.

    They name the host of the drive, and request exclusive use unless the drive is independent.
    """
    host = kinds.host_of(conf.drives[drive])
    # the host comes last, because the plugin would take text after a blank for an option
    alone = "" if drive in conf.independent_drives else "--exclusive "
    return f"{alone}--nodelist={host}" if host else ""


def check_independence(conf: config.Config) -> None:
    """Raise ConfigError if two independent drives are on the same disk of this host."""
    on: dict[str, str] = {}
    for drive in conf.independent_drives:
        for disk in disks_of_drive(conf, drive) if hosts.is_on_this_host(conf.drives[drive]) else ():
            if disk in on:
                raise yaml_schema.ConfigError(
                    f"{config.CONFIG_FILE}: independent_drives: '{on[disk]}' and '{drive}' are both on {disk}, so"
                    " that their measurements disturb each other. Remove one of them."
                )
            on[disk] = drive


def disks_of_drive(conf: config.Config, drive: str) -> list[str]:
    """Return the kernel's names of the disks under a real drive.

    The result is empty if the disk or the folder of the file does not exist.
    """
    entry = conf.drives[drive]
    if not kinds.is_real(entry):
        return []
    place = conf.root / entry["path"]
    try:
        if kinds.is_whole_disk(entry):
            return machine.physical_disks(place.resolve().name)
        folder = next(folder for folder in place.resolve().parents if folder.exists())
        return sorted(disk.name for disk in machine.whole_disks_under(folder))
    except OSError:
        return []


def _of_host(host: str) -> str:
    return f"real_drives_of_{host}" if host else "real_drive"


def _of_independent(drive: str) -> str:
    return f"real_drive_{drive}"
