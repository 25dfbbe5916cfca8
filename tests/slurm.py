"""A Slurm cluster for tests: munged, slurmctld and two slurmd with different names on this machine.

Each daemon has its own mount and process namespaces. This machine's /etc/slurm is therefore unchanged, a node can lack
files, and all processes of a killed node end, as after a loss of power. The kernel ends each daemon when the process
that started it ends.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from patience import run, wait, wait_for

NODES = ("disk-a", "disk-b")
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "unshare", "setpriv")
_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# a job that lost its node is held back until its credential has expired
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
# neither control groups nor systemd, which a container may lack
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
MinJobAge=7200
SlurmdTimeout=9
KillWait=5
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=3,sched_min_interval=100000
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
# Run in a mount namespace: mount the cluster's /etc/slurm, and make the mounts of the node
_IN_NAMESPACE = 'set -e; mount --bind "$0" /etc/slurm; eval "$1"; shift; exec "$@"'
_FIRST_WITHOUT_CGROUPS = (23, 11)


def require() -> None:
    """Skip the test if no cluster can be started here."""
    missing = [program for program in _PROGRAMS if _program(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    if os.geteuid() != 0:
        pytest.skip("only root can start a Slurm cluster of its own")
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no namespaces can be made here: {tried.stderr.strip()}")


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


class Cluster:
    """A cluster with the nodes `NODES`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "etc").mkdir()
        (folder / "state").mkdir()
        controller, *ports = _free_ports(1 + len(NODES))
        lines = [
            f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000"
            for name, port in zip(NODES, ports, strict=True)
        ]
        text = _CONFIGURATION.format(
            host=socket.gethostname(),
            port=controller,
            folder=folder,
            nodes="\n".join(lines),
            names=",".join(NODES),
        )
        (folder / "etc/slurm.conf").write_text(text)
        if _version() >= _FIRST_WITHOUT_CGROUPS:
            (folder / "etc/cgroup.conf").write_text("CgroupPlugin=disabled\n")
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def start(self) -> None:
        """Start all daemons, and wait until the nodes are idle."""
        munged = [f"--{name}={self.folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        self._start("munged", "munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key", *munged)
        wait_for((self.folder / "munge.socket").exists, otherwise="munged does not start")
        self._start("slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        wait_for(lambda: set(self.states().values()) == {"idle"}, 60, otherwise=self.logs())

    def start_node(self, node: str, mounts: str = "") -> None:
        """Start a node. The shell commands `mounts` change which files it sees."""
        self._start(node, "slurmd", "-D", "-N", node, mounts=mounts)

    def kill_node(self, node: str) -> None:
        """End a node and all its processes at once, as in a loss of power."""
        self._end(self._daemons.pop(node))

    def stop(self) -> None:
        """End all daemons in the reverse order of their start."""
        while self._daemons:
            self._end(self._daemons.popitem()[1])

    def states(self) -> dict[str, str]:
        """Return the state of each node."""
        said = self.run("sinfo", "--Node", "--noheader", "--format=%N %T")
        return dict(line.split() for line in said.stdout.splitlines() if len(line.split()) == 2)

    def jobs(self) -> list[dict[str, str]]:
        """Return number, state, node and comment of all known jobs. The comment names the rule of a job."""
        said = self.run("squeue", "--noheader", "--states=all", "--format=%i|%T|%N|%k")
        names = ("number", "state", "node", "comment")
        return [dict(zip(names, line.split("|"), strict=True)) for line in said.stdout.splitlines()]

    def logs(self) -> str:
        """Return the last part of the log of each daemon."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text(errors='replace')[-600:]}" for path in logs)

    def run(
        self, *words: str | Path, timeout_s: float = 120, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command on the submitting host; standard output and error are one text."""
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return run(self.submitting(*words), timeout_s, cwd=cwd, env=env, **options)

    def submitting(self, *words: str | Path) -> list[str]:
        """Return the command line that runs a command on the submitting host."""
        return ["unshare", "--mount", *self._prepared(""), *map(str, words)]

    def _prepared(self, mounts: str) -> list[str]:
        return ["sh", "-c", _IN_NAMESPACE, str(self.folder / "etc"), mounts or ":"]

    def _start(self, name: str, program: str, *options: str, mounts: str = "") -> None:
        found = _program(program)
        assert found is not None
        alone = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]
        # without the variables of a job in which these tests may run
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        with open(self.folder / f"{name}.out.log", "ab") as said:
            self._daemons[name] = subprocess.Popen(
                [*alone, *self._prepared(mounts), found, *options],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=environment,
                start_new_session=True,
            )

    def _end(self, daemon: "subprocess.Popen[bytes]") -> None:
        # if the first process of a namespace ends, all others in it end, and then the process that waits for it here
        children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children")
        for process in children.read_text().split() if daemon.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        try:
            wait(daemon, 20)
        except subprocess.TimeoutExpired:
            pytest.fail("a daemon does not end")


def _version() -> tuple[int, ...]:
    slurmd = _program("slurmd")
    assert slurmd is not None
    said = subprocess.run([slurmd, "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[-1].split(".")[:2])


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a running cluster, and end it; skip the test if no cluster can be started."""
    require()
    # the path of a socket must be short
    with tempfile.TemporaryDirectory(prefix="iopatterns-slurm-") as folder:
        Path(folder).chmod(0o755)
        started = Cluster(Path(folder))
        try:
            started.start()
            yield started
        finally:
            started.stop()
