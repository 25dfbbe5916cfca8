"""Find the hosts of a Slurm cluster, and check whether jobs can run on them."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iopatterns.base import host_state, messages, subprocess_env
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.base.yaml_schema import ConfigError, did_you_mean
from iopatterns.configuration import drive_entries, kinds
from iopatterns.measuring import fio, machine
from iopatterns.measuring.drives.prewrite_checks import PrewriteChecks

# Snakemake's executor for Slurm, and its resource for the partition
EXECUTOR = "slurm"
_PARTITION = "slurm_partition"
# The number of hosts checked at the same time, and the time limits for starting a check on a host and for its answer
_AT_ONCE, _START_S, _ANSWER_S = 16, 20, 120
# How the states begin in which Slurm starts no job on a host; a state ends with "*" if the host does not answer
_UNAVAILABLE = ("down", "drain", "fail", "maint", "power", "reboot", "unk", "future", "error", "inval")
# File systems that several hosts share. The journal of one host's changed settings must not be on them.
_SHARED = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.glusterfs"})
_READY = "ready"
# Shell script that checks a host; users read its output. Arguments: the project's folder, a file in it that was just
# made, the Python interpreter, and its arguments.
_CHECK = """\
cd "$1" 2>/dev/null || { echo "has no folder $1. Put the checkout on a file system that all hosts share."; exit; }
[ -e "$2" ] || { echo "sees another $1 than this host. Put the checkout on a file system that both share."; exit; }
[ -x "$3" ] || { echo "has no $3. Run ./reproduce.sh setup in a checkout that all hosts share."; exit; }
shift 2
exec "$@"
"""


class ClusterError(IoPatternsError):
    """Slurm or a host of the cluster cannot run the jobs.

    If hosts are the cause, the message has a line for each of these hosts.
    """


@dataclass(frozen=True)
class Host:
    """A host of the Slurm cluster.

    Attributes:
        name: The name of the host in Slurm.
        state: The state of the host as Slurm's `sinfo` prints it, such as ``idle`` or ``down*``.
    """

    name: str
    state: str

    @property
    def is_unavailable(self) -> bool:
        """Whether Slurm starts no job on the host because of its state.

        Such states are ``drained`` and ``down``, and states that end with ``*``: the host does not answer.
        """
        return self.state.endswith("*") or self.state.startswith(_UNAVAILABLE)


@dataclass(frozen=True)
class SlurmSubmission:
    """The partition and hosts of a Slurm cluster to which a run submits its jobs.

    Attributes:
        partition: The partition of the cluster; empty for Slurm's default partition.
        excluded: The names of hosts that get no jobs.
    """

    partition: str = ""
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class HostReport:
    """The result of checking whether jobs can run on a host.

    Attributes:
        host: The host.
        text: What the host has or lacks, as a text that follows the name of the host, such as ``ready, fio-3.39``.
        is_ready: Whether jobs can run on the host; None if the host could not be checked, for example because it is
            down or busy.
    """

    host: Host
    text: str
    is_ready: bool | None


def slurm_submission(workflow: Any) -> SlurmSubmission | None:
    """Return where a workflow submits its Slurm jobs; None if it does not use Slurm.

    Without Slurm, the jobs run on this host.

    Args:
        workflow: Snakemake's object of the running workflow.
    """
    plugin = workflow.executor_plugin
    if plugin is None or plugin.name != EXECUTOR:
        return None
    defaults = workflow.resource_settings.default_resources
    partition = defaults.get(_PARTITION) if defaults else None
    excluded = (workflow.executor_settings.exclude_failed_nodes or "").split(",")
    return SlurmSubmission(
        partition=str(getattr(partition, "value", partition) or ""),
        excluded=frozenset(name.strip() for name in excluded if name.strip()),
    )


def cluster_hosts(submission: SlurmSubmission, required: Iterable[str] = ()) -> list[Host]:
    """Return the hosts of a Slurm cluster that may get jobs, sorted by name.

    Args:
        submission: Where the jobs are submitted. Hosts outside its partition and its excluded hosts are left out.
        required: The names of hosts that are returned even if they would be left out.

    Raises:
        ClusterError: Slurm is not installed or does not answer.
    """
    try:
        output = subprocess.run(
            ["sinfo", "--Node", "--noheader", "--format=%N|%T|%P"],
            env=subprocess_env.child_environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except FileNotFoundError:
        raise ClusterError(
            "sinfo is not installed, so this is no host of a Slurm cluster. Run without --profile profiles/slurm."
        ) from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"sinfo: {printable(error.stderr.strip())}. Does Slurm run?") from None
    found: dict[str, Host] = {}
    for line in output.splitlines():
        name, state, partition = line.split("|")
        is_chosen = partition.rstrip("*") == submission.partition if submission.partition else partition.endswith("*")
        if (is_chosen and name not in submission.excluded) or name in required:
            found[name] = Host(name, state)
    return sorted(found.values(), key=lambda host: host.name)


def check_host_names(drives: Mapping[str, kinds.ResolvedEntry], hosts: Sequence[Host]) -> None:
    """Raise ConfigError if the entry of a drive names a host that the cluster lacks.

    The message has a line for each such drive.

    Args:
        drives: The entries of config/drives.yaml, by the name of the drive.
        hosts: The hosts of the cluster.
    """
    names = [host.name for host in hosts]
    problems = [
        f"{drive_entries.DRIVES_FILE}: {name}.host: the cluster has no host '{host}'.{did_you_mean(host, names)}"
        f" Hosts: {', '.join(names)}."
        for name, entry in drives.items()
        if (host := kinds.host_of(entry)) and host not in names
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def is_on_this_host(entry: kinds.DriveEntry) -> bool:
    """Return whether a drive belongs to this host.

    A drive belongs to this host if its entry names this host or no host.

    Args:
        entry: The entry of the drive in config/drives.yaml.
    """
    host = kinds.host_of(entry)
    return not host or machine.is_this_host(host)


def require_hosts(root: Path, drives: Mapping[str, kinds.ResolvedEntry], cluster: SlurmSubmission | None) -> None:
    """Raise an error unless the hosts of a run can measure its drives.

    Without Slurm, only the names of the drives' hosts are compared with this host. With Slurm, a check runs on each
    host (see `query_hosts`). A host that cannot be checked now, for example because it is down, is only printed if
    another host is ready: the jobs for this host wait.

    Args:
        root: The project's folder.
        drives: The entries of the drives to measure, by name.
        cluster: Where the jobs are submitted; None if they run on this host.

    Raises:
        ConfigError: A drive belongs to another host than this one, or to a host that the cluster lacks.
        ClusterError: A host lacks something that jobs need, no host is ready, or Slurm does not answer.
    """
    if cluster is None:
        problems = [
            f"{drive_entries.DRIVES_FILE}: {drive}.host: this drive belongs to {kinds.host_of(entry)}, and this host is"
            f" {machine.host_name()}. Measure it through Slurm: snakemake --profile profiles/slurm"
            for drive, entry in drives.items()
            if not is_on_this_host(entry)
        ]
        if problems:
            raise ConfigError("\n".join(problems))
        return
    reports = query_hosts(root, drives, cluster)
    if lacking := report_lines(each for each in reports if each.is_ready is False):
        raise ClusterError("\n".join(["No job was submitted, because hosts lack what jobs need.", *lacking]))
    if not any(each.is_ready for each in reports):
        raise ClusterError("\n".join(["No job was submitted, because no host is ready.", *report_lines(reports)]))
    for line in report_lines(each for each in reports if each.is_ready is None):
        messages.say(line)


def query_hosts(root: Path, drives: Mapping[str, kinds.ResolvedEntry], cluster: SlurmSubmission) -> list[HostReport]:
    """Run a check on each host of a Slurm cluster; return a report per host, by name.

    The check is a Slurm job on the host, which runs ``iopatterns hosts --here``. It checks the checkout, fio, and the
    drives of this host. Up to 16 hosts are checked at the same time. A host that is unavailable gets no job, and its
    report says so.

    Args:
        root: The project's folder.
        drives: The entries of the drives to measure, by name. Each host that an entry names is checked, too.
        cluster: Where the jobs are submitted.

    Raises:
        ConfigError: The cluster does not have the host of a drive.
        ClusterError: Slurm is not installed or does not answer.
    """
    drives_of: dict[str, list[str]] = {}
    for drive, entry in drives.items():
        if host := kinds.host_of(entry):
            drives_of.setdefault(host, []).append(drive)
    hosts = cluster_hosts(cluster, drives_of)
    check_host_names(drives, hosts)
    # a new name: no host can have cached that the file does not exist
    with tempfile.NamedTemporaryFile(dir=root, prefix=".iopatterns-") as new, ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda host: _query(root, host, Path(new.name).name, drives_of.get(host.name, ())), hosts))


def _query(root: Path, host: Host, new_file: str, drives: Sequence[str]) -> HostReport:
    if host.is_unavailable:
        return HostReport(host, f"is {host.state}: its measurements wait until it is available", None)
    job = ["srun", f"--nodelist={host.name}", "--nodes=1", "--ntasks=1", f"--immediate={_START_S}", "--time=5"]
    job += ["--job-name=iopatterns-hosts", "--chdir=/", "--quiet", "--input=none", "--export=ALL"]
    check = ["sh", "-c", _CHECK, "sh", str(root.resolve()), new_file]
    try:
        done = subprocess.run(
            [*job, *check, sys.executable, "-m", "iopatterns", "hosts", "--here", *drives],
            env=subprocess_env.child_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_S + _ANSWER_S,
        )
    except FileNotFoundError:
        raise ClusterError("srun is not installed, so this is no host of a Slurm cluster.") from None
    except subprocess.TimeoutExpired:
        return HostReport(host, f"did not answer within {_ANSWER_S} s", is_ready=False)
    if output := done.stdout.strip():
        return HostReport(host, output, is_ready=output.startswith(_READY) and not done.returncode)
    error = done.stderr.strip() or f"exit status {done.returncode}"
    if "busy" in error or "Unable to allocate resources" in error:
        return HostReport(host, f"is {host.state}, and could not be checked", None)
    return HostReport(host, f"could not be checked: {printable(' '.join(error.split()))}", is_ready=False)


def check_this_host(root: Path, drives: Mapping[str, kinds.DriveEntry]) -> tuple[bool, str]:
    """Check whether this host can measure simulated drives and the given drives.

    The check does not change or write to the drives.

    Args:
        root: The project's folder.
        drives: The entries of the drives that belong to this host, by name.

    Returns:
        Whether this host can measure them; and a text. If it can, the text has the version of fio, such as ``ready,
        fio-3.39``. Otherwise it lists everything that is missing.
    """
    lacks = []
    version = ""
    try:
        version = fio.version()
    except fio.FioError as error:
        lacks.append(str(error))
    try:
        from iopatterns.twin import models  # noqa: F401 - only to check that it can be imported
    except ImportError as error:
        lacks.append(f"the package cannot be imported: {error}. Run ./reproduce.sh setup on a host of the same system")
    for name, entry in drives.items():
        if problem := _problem(root, entry):
            lacks.append(f"drive '{name}': {problem}")
    if lacks:
        return False, f"lacks: {' '.join(lacks)}"
    return True, f"{_READY}, {version}" + (f" (drives: {', '.join(drives)})" if drives else "")


def _problem(root: Path, entry: kinds.DriveEntry) -> str:
    """Return what prevents measuring a real drive on this host; empty if nothing does.

    The check writes nothing. A disk is opened for reading only; a file is not opened.

    Args:
        root: The project's folder.
        entry: The entry of the drive in config/drives.yaml.
    """
    if not kinds.is_real(entry):
        return ""
    folder = host_state.own_state_folder("journal")
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if entry.get("tune") and machine.file_system_type(existing) in _SHARED:
        return (
            f"{folder} is shared with other hosts, but would hold the journal of this host's settings. Set"
            f" {host_state.STATE_VARIABLE} to a folder on a local disk."
        )
    if kinds.is_whole_disk(entry):
        with contextlib.closing(PrewriteChecks(entry)) as gate:
            refused = next((each for each in gate.checks(writing=False) if not each.passed), None)
        return f"{refused.name}: {refused.found}. {refused.remedy}".rstrip() if refused else ""
    folder = (root / entry["path"]).resolve().parent
    if root.resolve() in (folder, *folder.parents):
        return ""  # the folder is made when it is needed
    if not folder.is_dir():
        return f"the folder {folder} does not exist. Is the disk mounted?"
    return "" if os.access(folder, os.W_OK) else f"this user may not write to {folder}."


def report_lines(reports: Iterable[HostReport]) -> list[str]:
    """Return a line for each report: the name of the host, and what it has or lacks.

    An example is ``node1 ready, fio-3.39``.
    """
    return [f"{each.host.name} {each.text}" for each in reports]
