"""Keep jobs that measure from disturbing each other.

Snakemake resources and Slurm options restrict which jobs run at the same time. Two jobs that measure real drives of one
host do not run at the same time, unless both drives are listed under ``independent_drives`` in config/config.yaml.
"""

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.measuring import machine
from iopatterns.workflow import hosts


def resource_names(conf: config.Config) -> list[str]:
    """Return the names of the Snakemake resources that jobs of a run may require.

    A run has one unit of each resource. There is a resource for each of these:

    - this host;
    - each host that the entry of a drive names;
    - each independent drive, which is a drive listed under ``independent_drives`` in config/config.yaml.
    """
    hosts_of = dict.fromkeys(["", *(kinds.host_of(entry) for entry in conf.drives.values())])
    return [*(_of_host(host) for host in hosts_of), *(_of_independent(drive) for drive in conf.independent_drives)]


def resource_amount(conf: config.Config, drive: str, resource: str) -> int:
    """Return the amount of a resource that measuring a drive requires: 1 or 0.

    The amount is 1 for these resources, and 0 for others:

    - A drive listed under ``independent_drives`` in config/config.yaml requires its own resource.
    - Any other real drive requires the resource of its host, and those of all independent drives of this host.
    - A simulated drive requires no resource.

    Args:
        conf: The configuration.
        drive: The name of the drive.
        resource: One of `resource_names`.
    """
    if drive in conf.independent_drives:
        return int(resource == _of_independent(drive))
    host = kinds.host_of(conf.drives[drive])
    beside = [other for other in conf.independent_drives if kinds.host_of(conf.drives[other]) == host]
    of_drive = {_of_host(host), *(_of_independent(other) for other in beside)}
    return int(kinds.is_real(conf.drives[drive]) and resource in of_drive)


def slurm_options(conf: config.Config, drive: str) -> str:
    """Return the Slurm options of a job that measures a drive, as one text.

    For a drive on a host, the text is ``--exclusive --nodelist=HOST``. If the drive is listed under
    ``independent_drives`` in config/config.yaml, ``--exclusive`` is left out. For a drive without a host, the text is
    empty.
    """
    host = kinds.host_of(conf.drives[drive])
    # the host comes last, because the plugin would take text after a blank for an option
    alone = "" if drive in conf.independent_drives else "--exclusive "
    return f"{alone}--nodelist={host}" if host else ""


def check_independence(conf: config.Config) -> None:
    """Raise ConfigError if two independent drives are on the same disk of this host.

    Independent drives are listed under ``independent_drives`` in config/config.yaml. They may be measured at the same
    time, which would disturb both measurements on one disk.
    """
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
    """Return the names of the physical disks of a real drive, such as ``sda``.

    A real drive is a disk, or a file on one or several disks. The list is empty if the drive is not real, or if its
    disks cannot be determined.

    Args:
        conf: The configuration.
        drive: The name of the drive.
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
