"""The hosts of a Slurm cluster: which there are, and whether each has what a job of the workflow needs there."""

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

# Snakemake's executor whose jobs go to Slurm, and the resource by which it names a partition
EXECUTOR = "slurm"
_PARTITION = "slurm_partition"
# How many hosts are asked at the same time, and how long one may take until it is given to the question, and to answer
_AT_ONCE, _GIVEN_S, _ANSWER_S = 16, 20, 120
# States in which Slurm gives a host no job for now, as `sinfo` begins to say them; what it no longer hears from has a *
_AWAY = ("down", "drain", "fail", "maint", "power", "reboot", "unk", "future", "error", "inval")
# File systems that several hosts see. What is noted of one host's disks must not lie there
_SHARED = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.glusterfs"})
_READY = "ready"
# Run on a host; what it says is what a user reads. The folder, a file in it that was made a moment ago, the Python
_QUESTION = """\
cd "$1" 2>/dev/null || { echo "has no folder $1. Have the checkout on a file system that all hosts see."; exit; }
[ -e "$2" ] || { echo "sees another $1 than this host. Have the checkout on a file system that both see."; exit; }
[ -x "$3" ] || { echo "has no $3. Run ./reproduce.sh setup where all hosts see it."; exit; }
shift 2
exec "$@"
"""


class ClusterError(IoPatternsError):
    """Slurm or hosts are not as a run needs them; the message has a line for each host."""


@dataclass(frozen=True)
class Host:
    """A host of the cluster by its name in Slurm, in the state that Slurm says."""

    name: str
    state: str

    @property
    def is_away(self) -> bool:
        """Whether Slurm gives it no job for now."""
        return self.state.endswith("*") or self.state.startswith(_AWAY)


@dataclass(frozen=True)
class SlurmSubmission:
    """Where the jobs of a run go: a partition, Slurm's default for an empty name, without the hosts left out."""

    partition: str = ""
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class HostReport:
    """What a host lacks or has, as text; `is_ready` is None where the host could not be asked."""

    host: Host
    text: str
    is_ready: bool | None


def slurm_submission(workflow: Any) -> SlurmSubmission | None:
    """Return where the jobs of a run of Snakemake go, None where they stay on this host."""
    plugin = workflow.executor_plugin
    if plugin is None or plugin.name != EXECUTOR:
        return None
    defaults = workflow.resource_settings.default_resources
    partition = defaults.get(_PARTITION) if defaults else None
    left_out = (workflow.executor_settings.exclude_failed_nodes or "").split(",")
    return SlurmSubmission(
        partition=str(getattr(partition, "value", partition) or ""),
        left_out=frozenset(name.strip() for name in left_out if name.strip()),
    )


def cluster_hosts(where: SlurmSubmission, wanted: Iterable[str] = ()) -> list[Host]:
    """Return the hosts to which jobs may go, by name, and those of other partitions that are ``wanted``.

    Raises ClusterError where Slurm does not answer.
    """
    try:
        said = subprocess.run(
            ["sinfo", "--Node", "--noheader", "--format=%N|%T|%P"],
            env=subprocess_env.child_environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except FileNotFoundError:
        raise ClusterError(
            "sinfo is not installed: this is no host of a Slurm cluster. Run without the profile."
        ) from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"sinfo: {printable(error.stderr.strip())}. Does Slurm run?") from None
    found: dict[str, Host] = {}
    for line in said.splitlines():
        name, state, partition = line.split("|")
        mine = partition.rstrip("*") == where.partition if where.partition else partition.endswith("*")
        if (mine and name not in where.left_out) or name in wanted:
            found[name] = Host(name, state)
    return sorted(found.values(), key=lambda host: host.name)


def check_host_names(drives: Mapping[str, kinds.ResolvedEntry], hosts: Sequence[Host]) -> None:
    """Raise ConfigError for a drive whose host is none of the cluster's."""
    names = [host.name for host in hosts]
    problems = [
        f"{drive_entries.DRIVES_FILE}: {name}.host: the cluster has no host '{host}'.{did_you_mean(host, names)}"
        f" There: {', '.join(names)}."
        for name, entry in drives.items()
        if (host := kinds.host_of(entry)) and host not in names
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def is_on_this_host(entry: kinds.DriveEntry) -> bool:
    """Return whether a drive can be measured on this host."""
    host = kinds.host_of(entry)
    return not host or machine.is_this_host(host)


def require_hosts(root: Path, drives: Mapping[str, kinds.ResolvedEntry], cluster: SlurmSubmission | None) -> None:
    """Check that some drives can be measured by the jobs of a run, and print what waits for a host.

    Args:
        root: The project's folder.
        drives: The drives by name.
        cluster: Where the jobs go, None where they stay on this host.

    Raises:
        ConfigError: A drive is another host's.
        ClusterError: A host lacks what jobs need, or no host is ready.
    """
    if cluster is None:
        elsewhere = {drive: kinds.host_of(entry) for drive, entry in drives.items() if not is_on_this_host(entry)}
        problems = [
            f"{drive_entries.DRIVES_FILE}: {drive}.host: {host} has this drive, and this host is {machine.host_name()}."
            " Measure it through Slurm: snakemake --profile profiles/slurm"
            for drive, host in elsewhere.items()
        ]
        if problems:
            raise ConfigError("\n".join(problems))
        return
    reports = query_hosts(root, drives, cluster)
    if lacking := report_lines(each for each in reports if each.is_ready is False):
        raise ClusterError("\n".join(["Nothing is queued: hosts lack what jobs need.", *lacking]))
    if not any(each.is_ready for each in reports):
        raise ClusterError("\n".join(["Nothing is queued: no host is ready.", *report_lines(reports)]))
    for line in report_lines(each for each in reports if each.is_ready is None):
        messages.say(line)


def query_hosts(root: Path, drives: Mapping[str, kinds.ResolvedEntry], cluster: SlurmSubmission) -> list[HostReport]:
    """Return what each host of a cluster lacks to measure some drives, by a job on each host.

    Raises:
        ConfigError: The cluster does not have the host of a drive.
        ClusterError: Slurm does not answer.
    """
    of_hosts: dict[str, list[str]] = {}
    for drive, entry in drives.items():
        if host := kinds.host_of(entry):
            of_hosts.setdefault(host, []).append(drive)
    hosts = cluster_hosts(cluster, of_hosts)
    check_host_names(drives, hosts)
    # a name that no host has looked for: it cannot have kept that there is no such file
    with tempfile.NamedTemporaryFile(dir=root, prefix=".iopatterns-") as seen, ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda host: _ask(root, host, Path(seen.name).name, of_hosts.get(host.name, ())), hosts))


def _ask(root: Path, host: Host, seen: str, drives: Sequence[str]) -> HostReport:
    if host.is_away:
        return HostReport(host, f"is {host.state}: what is to be measured there waits for it", None)
    job = ["srun", f"--nodelist={host.name}", "--nodes=1", "--ntasks=1", f"--immediate={_GIVEN_S}", "--time=5"]
    job += ["--job-name=iopatterns-hosts", "--chdir=/", "--quiet", "--input=none", "--export=ALL"]
    question = ["sh", "-c", _QUESTION, "sh", str(root.resolve()), seen]
    command = [sys.executable, "-m", "iopatterns", "hosts", "--here", *drives]
    try:
        asked = subprocess.run(
            [*job, *question, *command],
            env=subprocess_env.child_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_GIVEN_S + _ANSWER_S,
        )
    except FileNotFoundError:
        raise ClusterError("srun is not installed: this is no host of a Slurm cluster.") from None
    except subprocess.TimeoutExpired:
        return HostReport(host, f"did not answer within {_ANSWER_S} s", is_ready=False)
    said = asked.stdout.strip()
    if said.startswith(_READY) and not asked.returncode:
        return HostReport(host, said, is_ready=True)
    if said:
        return HostReport(host, said, is_ready=False)
    trouble = asked.stderr.strip() or f"exit status {asked.returncode}"
    if "busy" in trouble or "Unable to allocate resources" in trouble:
        return HostReport(host, f"is {host.state}, and could not be asked", None)
    return HostReport(host, f"could not answer: {printable(' '.join(trouble.split()))}", is_ready=False)


def check_this_host(root: Path, drives: Mapping[str, kinds.DriveEntry]) -> tuple[bool, str]:
    """Return whether this host has what is needed to measure some drives of its own and any twin, and what it lacks."""
    lacks = []
    try:
        text = f"{_READY}, {fio.version()}"
    except fio.FioError as error:
        text = ""
        lacks.append(str(error))
    try:
        from iopatterns.twin import models  # noqa: F401 - whether it loads is the question
    except ImportError as error:
        lacks.append(f"the package does not load: {error}. Run ./reproduce.sh setup on a host of the same system")
    for name, entry in drives.items():
        if problem := _problem(root, entry):
            lacks.append(f"drive '{name}': {problem}")
    text += f" (drives: {', '.join(drives)})" if drives else ""
    return not lacks, "lacks: " + " ".join(lacks) if lacks else text


def _problem(root: Path, entry: kinds.DriveEntry) -> str:
    """Return what is in the way of measuring a real drive, as far as it can be seen without touching it."""
    if not kinds.is_real(entry):
        return ""
    folder = host_state.own_state_folder("journal")
    state = next(path for path in (folder, *folder.parents) if path.exists())
    if entry.get("tune") and machine.file_system_type(state) in _SHARED:
        return (
            f"{folder} is seen by other hosts, and this host's settings would be noted there. Set"
            f" {host_state.STATE_VARIABLE} to a folder on a disk of its own."
        )
    if kinds.is_whole_disk(entry):
        with contextlib.closing(PrewriteChecks(entry)) as gate:
            refused = next((each for each in gate.checks(writing=False) if not each.passed), None)
        return f"{refused.name}: {refused.found}. {refused.remedy}".rstrip() if refused else ""
    place = (root / entry["path"]).resolve().parent
    if root.resolve() in (place, *place.parents):
        return ""  # it is made
    if not place.is_dir():
        return f"{place} is not there. Is the disk mounted?"
    return "" if os.access(place, os.W_OK) else f"{place} is not this user's to write."


def report_lines(answers: Iterable[HostReport]) -> list[str]:
    """Return a line for each answer."""
    return [f"{each.host.name} {each.text}" for each in answers]
