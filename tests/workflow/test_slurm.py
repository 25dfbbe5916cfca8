"""Runs on a Slurm cluster of two nodes: the hosts of jobs, checks of the nodes, and failures."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm
import yaml
from loops import Loop, loop_device, undone
from patience import communicate, wait_for
from patience import run as run_patiently
from support import Project, copy_project

from iopatterns.base import files

A, B = slurm.NODES
TWIN = "c400"
# With a name that no study has, so that every cell is measured on the drive
MINE = {"kind": "twin", "model": TWIN}
STUDY = "config/studies/tiny.yaml"
# The command of a user, except that the end of a job is noticed sooner
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--profile", "profiles/slurm")
SOONER = ("--slurm-init-seconds-before-status-checks", "2")

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    with slurm.cluster() as started:
        yield started


@pytest.fixture(scope="module")
def disk(module_disk_folder: Path) -> Iterator[Loop]:
    """Yield a disk that both nodes see, because they are one machine. Only one of them may measure it."""
    with loop_device(module_disk_folder, "disk", 16) as device:
        yield device


def entry(loop: Loop, host: str, **more: Any) -> dict[str, Any]:
    return {"kind": "block", "path": str(loop.device), "serial": loop.serial, "host": host, **more}


def small_project(root: Path, drives: dict[str, dict[str, Any]], **values: Any) -> Project:
    """Return a project with some drives and one cell on each drive."""
    project = copy_project(root)
    project.edit("config/drives.yaml", **drives)
    project.edit("config/config.yaml", drives=list(drives), **values)
    few_cells(project)
    return project


def few_cells(project: Project, **vary: list[Any]) -> None:
    project.edit(STUDY, experiments={"one": {"vary": {"rw": ["read"], "bs": ["4k"], **vary}}})


def environment() -> dict[str, str]:
    """Return the environment of a user who has not activated .venv."""
    return {
        **os.environ,
        "PATH": ":".join(p for p in os.environ["PATH"].split(":") if p != str(Path(sys.executable).parent)),
    }


def run(cluster: slurm.Cluster, project: Project, *words: str) -> "subprocess.CompletedProcess[str]":
    return cluster.run(*SNAKEMAKE, *SOONER, *words, cwd=project.root, env=environment(), timeout_s=600)


@contextlib.contextmanager
def running(cluster: slurm.Cluster, project: Project, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a run; if it has not ended at the end of the context, stop it."""
    command = cluster.submitting(*SNAKEMAKE, *SOONER, *words)
    with subprocess.Popen(
        command, cwd=project.root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                communicate(process, 120)


def until(
    condition: Callable[[], object], process: "subprocess.Popen[str]", cluster: slurm.Cluster, limit_s: float = 180
) -> None:
    """Wait for a condition during a run."""

    def holds() -> bool:
        if condition():
            return True
        assert process.poll() is None, f"{communicate(process, 10)[0]}\n{cluster.logs()}"
        return False

    wait_for(holds, limit_s, otherwise=cluster.logs())


def sidecars(project: Project, drive: str) -> list[dict[str, Any]]:
    paths = sorted((project.root / "data/raw" / drive).glob("*/*/*.sidecar.json"))
    return [json.loads(path.read_text()) for path in paths]


def node_of(cluster: slurm.Cluster, project: Project, drive: str) -> set[str]:
    """Return the nodes on which a drive was measured, from the comments of Snakemake's jobs."""
    batches = {path.stem for path in (project.root / "results/logs/measure" / drive).glob("*.log")}
    return {job["node"] for job in cluster.jobs() if job["comment"].removeprefix("rule_") in batches}


def every_raw_file_is_whole(project: Project) -> bool:
    raw = project.root / "data/raw"
    raws = [raw / path for path in project.raw_files()]
    sums = [json.loads(path.with_suffix(".sidecar.json").read_text())["raw"]["sha256"] for path in raws]
    return bool(raws) and sums == [files.sha256(path) for path in raws]


# ---- Hosts of jobs


@pytest.fixture(scope="module")
def reported(cluster: slurm.Cluster, disk: Loop, module_disk_folder: Path) -> tuple[Project, str]:
    """Return a project with a real drive on each node and a simulated drive, and the output of its run."""
    project = copy_project(module_disk_folder / "reported")
    here = yaml.safe_load((project.root / "config/drives.yaml").read_text())["scratch"]
    project.edit("config/drives.yaml", disk=entry(disk, B, destroy=disk.serial), scratch={**here, "host": A})
    project.edit("config/config.yaml", drives=["scratch", "disk", TWIN])
    study = yaml.safe_load((project.root / STUDY).read_text())
    project.edit(STUDY, levels={**study["levels"], "small": ["4k"]})
    done = run(cluster, project, "--config", "runtime=100 ms")
    assert done.returncode == 0, f"{done.stdout}\n{cluster.logs()}"
    return project, done.stdout


def test_the_report_is_made_with_the_output_of_a_local_run(reported: tuple[Project, str]) -> None:
    project, output = reported
    assert (project.root / "results/report.pdf").stat().st_size > 10_000
    drives = ("scratch", "disk", TWIN)
    assert {drive: len(sidecars(project, drive)) for drive in drives} == dict.fromkeys(drives, 8)
    assert "To measure: " in output
    assert "The report is results/report.pdf" in output
    assert "SLURM run ID" not in output


def test_a_real_drive_is_measured_only_on_its_host(cluster: slurm.Cluster, reported: tuple[Project, str]) -> None:
    project, _ = reported
    assert node_of(cluster, project, "scratch") == {A}
    assert node_of(cluster, project, "disk") == {B}
    assert node_of(cluster, project, TWIN) <= {A, B}


def test_a_second_run_does_nothing(cluster: slurm.Cluster, reported: tuple[Project, str]) -> None:
    project, _ = reported
    assert "Nothing to be done" in run(cluster, project, "-n", "--config", "runtime=100 ms").stdout


def test_simulated_drives_give_the_bytes_of_a_local_run(reported: tuple[Project, str], disk_folder: Path) -> None:
    project, _ = reported
    local = copy_project(disk_folder / "local")
    local.edit("config/config.yaml", drives=[TWIN], runtime="100 ms")
    shutil.copy(project.root / STUDY, local.root / STUDY)
    done = local.snakemake("measure_tiny", "--config", "runtime=100 ms")
    assert done.returncode == 0, done.stdout
    there = {path: content for path, content in project.raw_files().items() if path.startswith(f"{TWIN}/")}
    assert there == local.raw_files()


def test_a_drive_of_another_host_is_refused_without_slurm(reported: tuple[Project, str], disk_folder: Path) -> None:
    project = Project(disk_folder / "project")
    shutil.copytree(reported[0].root, project.root, ignore=shutil.ignore_patterns(".snakemake", "scratch.bin*"))
    shutil.rmtree(project.root / "data/raw")
    refused = project.snakemake("measure_tiny")
    assert refused.returncode == 2
    assert f"config/drives.yaml: scratch.host: this drive belongs to {A}, and this host is" in refused.stdout
    assert "snakemake --profile profiles/slurm" in refused.stdout
    assert project.raw_files() == {}


# ---- One measurement of a drive at a time


def intervals(*projects: Project) -> list[tuple[str, str]]:
    return sorted((each["started"], each["ended"]) for project in projects for each in sidecars(project, "disk"))


def test_two_checkouts_and_a_local_run_never_measure_a_drive_at_the_same_time(
    cluster: slurm.Cluster, disk: Loop, disk_folder: Path
) -> None:
    # independent, so that Slurm itself would run both jobs at once
    values: dict[str, Any] = {"independent_drives": ["disk"], "repetitions": 12, "runtime": "500 ms"}
    first, second, logged_in = (
        small_project(disk_folder / name, {"disk": entry(disk, B)}, **values)
        for name in ("first", "second", "logged-in")
    )
    with running(cluster, first, "measure_tiny") as one, running(cluster, second, "measure_tiny") as other:
        until(lambda: sidecars(first, "disk") or sidecars(second, "disk"), one, cluster)
        # a run on the node itself
        node = {**environment(), "SLURMD_NODENAME": B}
        command = [sys.executable, "-m", "snakemake", "--cores", "1", "measure_tiny"]
        by_hand = run_patiently(command, 300, cwd=logged_in.root, env=node, stdout=subprocess.PIPE, text=True)
        assert by_hand.returncode == 0, by_hand.stdout
        for each in (one, other):
            said, _ = communicate(each, 300)
            assert each.returncode == 0, said
    ran = intervals(first, second, logged_in)
    assert len(ran) == 3 * 12
    assert all(ended <= started for (_, ended), (started, _) in itertools.pairwise(ran))
    logs = (first.root / "results/logs/measure/disk/measure_tiny_1.log").read_text()
    logs += (second.root / "results/logs/measure/disk/measure_tiny_1.log").read_text()
    assert "drive 'disk' is being measured by " in logs


# ---- Checks of hosts before a job is submitted


def asked(cluster: slurm.Cluster, project: Project) -> "subprocess.CompletedProcess[str]":
    return cluster.run(sys.executable, "-m", "iopatterns", "hosts", cwd=project.root, env=environment())


def numbers(cluster: slurm.Cluster) -> set[str]:
    return {job["number"] for job in cluster.jobs() if job["comment"].startswith("rule_")}


@contextlib.contextmanager
def node_that_sees(cluster: slurm.Cluster, node: str, mounts: str) -> Iterator[None]:
    """Restart a node with other mounts, and restore it at the end of the context."""
    cluster.kill_node(node)
    cluster.start_node(node, mounts)
    try:
        ready(cluster, node)
        yield
    finally:
        cluster.kill_node(node)
        cluster.start_node(node)
        ready(cluster, node)


def ready(cluster: slurm.Cluster, node: str) -> None:
    def answers() -> bool:
        asked = cluster.run("srun", f"--nodelist={node}", "--immediate=5", "true")
        return asked.returncode == 0

    wait_for(answers, 60, otherwise=cluster.logs())


@pytest.fixture
def ready_made(disk: Loop, disk_folder: Path) -> Project:
    return small_project(disk_folder / "project", {"disk": entry(disk, B), "mine": MINE})


def test_hosts_that_lack_nothing_are_ready(cluster: slurm.Cluster, ready_made: Project) -> None:
    said = asked(cluster, ready_made)
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert (said.returncode, said.stdout) == (0, f"{A} ready, {version}\n{B} ready, {version} (drives: disk)\n")


LACKS = {
    "the checkout": ("mount -t tmpfs none {root}/..", "has no folder {root}. Put the checkout on a file system"),
    "the same checkout": ("mount -t tmpfs none {root}", "sees another {root} than this host"),
    "the environment": ("mount -t tmpfs none {environment}", "has no {environment}/"),
    "fio": ("mount --bind /bin/false {fio}", "lacks: fio --version failed"),
    "the disk": ("mount --bind /dev/null {disk}", "lacks: drive 'disk': block device: "),
}


@pytest.mark.parametrize("what", LACKS)
def test_a_missing_requirement_of_a_host_is_reported_before_a_job_is_submitted(
    cluster: slurm.Cluster, ready_made: Project, disk: Loop, what: str
) -> None:
    mounts, message = LACKS[what]
    places = {
        "disk": str(disk.device),
        "root": str(ready_made.root),
        "environment": str(Path(sys.executable).parent),
        "fio": shutil.which("fio"),
    }
    before = numbers(cluster)
    with node_that_sees(cluster, B, mounts.format(**places)):
        said = asked(cluster, ready_made)
        assert said.returncode == 1
        first, second = said.stdout.splitlines()
        assert first.startswith(f"{A} ready")
        assert second.startswith(f"{B} {message.format(**places)}")
        refused = run(cluster, ready_made, "measure_tiny")
    assert refused.returncode == 1
    assert f"No job was submitted, because hosts lack what jobs need.\n{second}\n" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert numbers(cluster) == before
    assert ready_made.raw_files() == {}


def test_an_unknown_host_is_refused_with_the_nearest_name(
    cluster: slurm.Cluster, ready_made: Project, disk: Loop
) -> None:
    ready_made.edit("config/drives.yaml", disk=entry(disk, "disk-bb"))
    refused = run(cluster, ready_made, "measure_tiny")
    assert refused.returncode == 2
    assert (
        f"config/drives.yaml: disk.host: the cluster has no host 'disk-bb'. Did you mean '{B}'? Hosts: {A}, {B}.\n"
        in refused.stdout
    )


def test_an_unreachable_slurm_is_reported(ready_made: Project) -> None:
    said = ready_made.iopatterns("hosts")
    assert said.returncode == 1
    assert said.stdout.startswith("iopatterns: error: sinfo: ")
    assert "Does Slurm run?" in said.stdout
    assert "Traceback" not in said.stdout


# ---- Failures


def other_scheduler(disk: Loop) -> tuple[str, str]:
    """Return a scheduler other than the disk's present one: its names in studies and in the kernel."""
    return ("deadline", "mq-deadline") if disk.present_scheduler() == "none" else ("none", "none")


def test_the_batch_of_a_dead_node_is_measured_when_the_node_is_back(
    cluster: slurm.Cluster, disk: Loop, disk_folder: Path
) -> None:
    drives = {"disk": entry(disk, B, tune=["scheduler"]), "mine": MINE}
    project = small_project(disk_folder / "project", drives, repetitions=8, runtime="1 s")
    before, (level, wanted) = disk.present_scheduler(), other_scheduler(disk)
    few_cells(project, scheduler=[level])
    journals = Path(os.environ["IOPATTERNS_STATE"]) / "journal"
    with running(cluster, project, "measure_tiny") as process:
        until(lambda: len(sidecars(project, "disk")) >= 2, process, cluster)
        cluster.kill_node(B)
        try:
            assert disk.present_scheduler() == wanted  # no process was left to restore it
            assert len(list(journals.glob("*.json"))) == 1
            kept = project.raw_files()
            assert every_raw_file_is_whole(project)
            until(lambda: cluster.states()[B].startswith("down"), process, cluster)
            until(lambda: len(sidecars(project, "mine")) == 8, process, cluster)  # other jobs continue
            assert len(sidecars(project, "disk")) < 8
        finally:
            cluster.start_node(B)
        said, _ = communicate(process, 300)
    assert process.returncode == 0, f"{said}\n{cluster.logs()}"
    assert len(sidecars(project, "disk")) == 8
    assert every_raw_file_is_whole(project)
    assert {path: content for path, content in project.raw_files().items() if path in kept} == kept
    assert disk.present_scheduler() == before
    assert list(journals.glob("*.json")) == []
    log = "".join(path.read_text() for path in (project.root / "results/logs/measure/disk").glob("*.log"))
    assert f"after an interrupted run for disk: restored scheduler of {disk.device}: {before}" in log


def test_an_unavailable_host_delays_only_its_own_drives(cluster: slurm.Cluster, disk: Loop, disk_folder: Path) -> None:
    project = small_project(disk_folder / "project", {"disk": entry(disk, B), "mine": MINE})
    cluster.run("scontrol", "update", f"nodename={B}", "state=drain", "reason=tests")
    try:
        with running(cluster, project, "measure_tiny") as process:
            until(lambda: len(sidecars(project, "mine")) == 2, process, cluster)
            assert sidecars(project, "disk") == []
            cluster.run("scontrol", "update", f"nodename={B}", "state=resume")
            said, _ = communicate(process, 300)
    finally:
        cluster.run("scontrol", "update", f"nodename={B}", "state=resume")
    assert process.returncode == 0, said
    assert f"{B} is drained: its measurements wait until it is available" in said
    assert len(sidecars(project, "disk")) == 2


def test_a_job_that_reaches_its_time_limit_continues_in_a_second_attempt(
    cluster: slurm.Cluster, disk: Loop, disk_folder: Path
) -> None:
    # the cell takes longer than a minute, which is Slurm's shortest limit
    drives = {"disk": entry(disk, B, tune=["scheduler"])}
    project = small_project(disk_folder / "project", drives, repetitions=8, runtime="10 s")
    before = disk.present_scheduler()
    few_cells(project, scheduler=[other_scheduler(disk)[0]])
    limit = "measure_tiny_1:runtime=1 if attempt == 1 else 30"
    done = run(cluster, project, "measure_tiny", "--set-resources", limit)
    assert done.returncode == 0, f"{done.stdout}\n{cluster.logs()}"
    assert "Failed (it reached its time limit): Measuring tiny on disk: " in done.stdout
    assert "It is started again." in done.stdout
    assert len(sidecars(project, "disk")) == 8
    assert every_raw_file_is_whole(project)
    assert disk.present_scheduler() == before


def test_a_full_shared_disk_loses_no_complete_raw_file(cluster: slurm.Cluster, disk_folder: Path) -> None:
    project = small_project(disk_folder / "project", {"mine": MINE}, repetitions=5)
    few_cells(project, bs=[f"{size}k" for size in range(4, 68, 4)], rw=["read", "randread"])
    raw = project.root / "data/raw"
    raw.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1000k", "tmpfs", str(raw)], check=True)
    with undone("umount", raw):
        for node in slurm.NODES:  # a node sees mounts that exist when it starts
            cluster.kill_node(node)
            cluster.start_node(node)
            ready(cluster, node)
        full = run(cluster, project, "measure_tiny", "--retries", "0")
        assert full.returncode == 1
        assert "No space left on device" in full.stdout + "".join(
            path.read_text() for path in (project.root / "results/logs/measure").rglob("*.log")
        )
        assert "Traceback" not in full.stdout
        kept = project.raw_files()
        assert every_raw_file_is_whole(project)
        subprocess.run(["mount", "-o", "remount,size=100m", str(raw)], check=True)
        done = run(cluster, project, "measure_tiny")
        assert done.returncode == 0, done.stdout
        assert {path: content for path, content in project.raw_files().items() if path in kept} == kept
        assert len(project.raw_files()) == 32 * 5
        for node in slurm.NODES:  # so that the disk can be unmounted everywhere
            cluster.kill_node(node)
            cluster.start_node(node)


# ---- The test cluster


def test_the_cluster_leaves_no_daemons_and_files(cluster: slurm.Cluster) -> None:
    def daemons() -> set[str]:
        found = set()
        for each in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if each.read_text().strip() in {"munged", "slurmctld", "slurmd", "slurmstepd"}:
                    found.add(each.parent.name)
        return found

    before, of_host = daemons(), sorted(Path("/etc/slurm").iterdir())
    with slurm.cluster() as another, contextlib.suppress(RuntimeError):
        assert len(daemons()) == len(before) + 4
        another.run("sbatch", "--wrap", "sleep 100")
        raise RuntimeError  # like a failing test
    wait_for(lambda: daemons() == before)
    assert not another.folder.exists()
    assert sorted(Path("/etc/slurm").iterdir()) == of_host
