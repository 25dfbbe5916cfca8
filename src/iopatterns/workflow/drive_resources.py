"""Snakemake resources and Slurm options that keep jobs from disturbing each other's drives."""

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.measuring import machine
from iopatterns.workflow import hosts


def resource_names(conf: config.Config) -> list[str]:
    """Return the resources of a run, one of each: of each host that a drive names, of this host, of independent drives.

    A job that measures a real drive takes the resource of its host. An independent drive has a resource of its own.
    """
    hosts_of = dict.fromkeys(["", *(kinds.host_of(entry) for entry in conf.drives.values())])
    return [*(_of_host(host) for host in hosts_of), *(_of_independent(drive) for drive in conf.independent_drives)]


def resource_amount(conf: config.Config, drive: str, resource: str) -> int:
    """Return how much of a resource a job takes that measures a drive: 1 or 0.

    A drive that is not independent takes the resources of its host and of all independent drives of that host.
    """
    if drive in conf.independent_drives:
        return int(resource == _of_independent(drive))
    host = kinds.host_of(conf.drives[drive])
    beside = [other for other in conf.independent_drives if kinds.host_of(conf.drives[other]) == host]
    of_drive = {_of_host(host), *(_of_independent(other) for other in beside)}
    return int(kinds.is_real(conf.drives[drive]) and resource in of_drive)


def slurm_options(conf: config.Config, drive: str) -> str:
    """Return the Slurm options of a job that measures a drive: its host, for itself unless the drive is independent."""
    host = kinds.host_of(conf.drives[drive])
    # the host comes last: the plugin takes the end of a name and a blank after it for an option
    alone = "" if drive in conf.independent_drives else "--exclusive "
    return f"{alone}--nodelist={host}" if host else ""


def check_independence(conf: config.Config) -> None:
    """Raise ConfigError where two independent drives are on one disk of this host."""
    on: dict[str, str] = {}
    for drive in conf.independent_drives:
        for disk in disks_of_drive(conf, drive) if hosts.is_on_this_host(conf.drives[drive]) else ():
            if disk in on:
                raise yaml_schema.ConfigError(
                    f"{config.CONFIG_FILE}: independent_drives: '{on[disk]}' and '{drive}' are both on {disk}, and"
                    f" disturb each other. Leave one of them out."
                )
            on[disk] = drive


def disks_of_drive(conf: config.Config, drive: str) -> list[str]:
    """Return the kernel's names of the disks under a real drive; none where nothing exists yet."""
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
