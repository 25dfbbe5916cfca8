"""Keep jobs that measure from disturbing each other.

Snakemake resources and Slurm options restrict which jobs run at the same time. Two jobs that measure real drives of one
host do not run at the same time, with one exception: both drives are listed under ``independent_drives`` in
config/config.yaml.
"""

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.measuring import machine
from iopatterns.workflow import hosts


def resource_names(conf: config.Config) -> list[str]:
    """Return the names of the Snakemake resources that jobs of a run may require.

    A run has one unit of each resource, so that two jobs that require the same resource run one after the other. There
    is a resource for each of these:

    - this host: ``real_drive``
    - each host that the entry of a configured drive names: ``real_drives_of_HOST``
    - each independent drive, which is a drive listed under ``independent_drives`` in config/config.yaml:
      ``real_drive_DRIVE``
    """
    hosts_of = dict.fromkeys(["", *(kinds.host_of(entry) for entry in conf.drives.values())])
    return [*(_of_host(host) for host in hosts_of), *(_of_independent(drive) for drive in conf.independent_drives)]


def resource_amount(conf: config.Config, drive: str, resource: str) -> int:
    """Return how many units of a resource a drive's measurement requires: 1 or 0.

    The amount is 1 in these cases, and otherwise 0:

    - The drive is independent (listed under ``independent_drives`` in config/config.yaml), and the resource is that of
      the drive.
    - The drive is any other real drive, and the resource is that of its host, or that of an independent drive on the
      same host.

    A simulated drive therefore requires no resource.

    Args:
        conf: The configuration.
        drive: The name of a configured drive.
        resource: The name of a Snakemake resource, one of `resource_names`.
    """
    if drive in conf.independent_drives:
        return int(resource == _of_independent(drive))
    host = kinds.host_of(conf.drives[drive])
    beside = [other for other in conf.independent_drives if kinds.host_of(conf.drives[other]) == host]
    of_drive = {_of_host(host), *(_of_independent(other) for other in beside)}
    return int(kinds.is_real(conf.drives[drive]) and resource in of_drive)


def slurm_options(conf: config.Config, drive: str) -> str:
    """Return the Slurm options of a job that measures a drive, as one text.

    If the entry of the drive names a host, the text is ``--exclusive --nodelist=HOST``: the job runs alone on this
    host. If the drive is also listed under ``independent_drives`` in config/config.yaml, the text is
    ``--nodelist=HOST``. If the entry names no host, the text is empty.

    Args:
        conf: The configuration.
        drive: The name of a configured drive.
    """
    host = kinds.host_of(conf.drives[drive])
    # the host comes last, because the plugin would take text after a blank for an option
    alone = "" if drive in conf.independent_drives else "--exclusive "
    return f"{alone}--nodelist={host}" if host else ""


def check_independence(conf: config.Config) -> None:
    """Raise ConfigError if two independent drives are on the same disk of this host.

    Independent drives are the drives listed under ``independent_drives`` in config/config.yaml. Their measurements may
    run at the same time. On one disk, both measurements would be disturbed. Drives of other hosts are not checked.
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
    """Return the names of the physical disks of a real drive, such as ``["sda"]``.

    A real drive is a whole disk, or a file on one or several disks. The list is empty if the drive is not real, or if
    its disks cannot be determined.

    Args:
        conf: The configuration.
        drive: The name of a configured drive.
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
