"""Record the block traces that studies replay (`snakemake --cores 1 capture`).

The workloads of a study run in a real Linux kernel, in a guest system whose disk is a simulated drive (twin). The trace
contains the requests that reach this drive.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from iopatterns.base import files, subprocess_env, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, drive_entries, kinds
from iopatterns.twin import linux, models, traces
from iopatterns.twin.traces import parquet
from iopatterns.workflow import process_replays

WORKLOADS_FOLDER = "data/workloads"
SHIPPED_TRACES = "data/traces"
RECORDED_TRACES = "results/traces"
PROVENANCE_FILE = "provenance.json"
_FILE = "recordings.yaml"
_KERNEL = ".linux/linux"
# The guest's time of day when virtual time begins
_DATE = datetime(2026, 1, 1, tzinfo=UTC)
_MARK = re.compile(r"^phase (\S+) (\d+)$", re.MULTILINE)
_WALL_LIMIT_S = 3600
_COPIED = ("*.fio", "*.sh")


class CaptureError(IoPatternsError):
    """A block trace could not be recorded; the message has the cause.

    A block trace lists the requests that reach a drive while programs run.
    """

    exit_status = 2


@dataclass(frozen=True)
class TraceRecording:
    """The description of how one block trace is recorded on a simulated drive.

    A block trace lists the requests that reach a drive. They are recorded in a guest, a Linux system whose disk is the
    simulated drive. The guest either runs shell commands, one for each phase, or replays processes of a system call
    trace, which is a recording of the calls of programs.

    Attributes:
        study: The name of the study.
        name: The name of the recording, such as ``scale-fsync-0``. The file of its trace is ``<name>.parquet``.
        drive: The name of the simulated drive.
        options: Attributes of `linux.LinuxOptions` by name: ``{"file_system": "ext4", "queue_depth": 32}``.
        phases: The shell command of each phase, by the name of the phase, in order; empty for a replay.
        level: An environment variable for the shell commands, as a mapping of its name to its value. It distinguishes
            this recording from similar ones. Empty if there is none.
        replay: The processes to replay; None for shell commands.
    """

    study: str
    name: str
    drive: str
    options: Mapping[str, Any]
    phases: Mapping[str, str]
    level: Mapping[str, str]
    replay: process_replays.ProcessReplay | None = None

    def script(self) -> str:
        """Return the shell script that runs in the guest.

        The script prints a line ``phase NAME NANOSECONDS`` with the guest's time of day for the start of each phase. A
        last line, ``phase end NANOSECONDS``, has the time of the end.
        """
        if self.replay is not None:
            return self.replay.script()
        lines = [f"export JOBS={linux.GUEST_FOLDER}", *(f"export {name}={level}" for name, level in self.level.items())]
        for name, line in self.phases.items():
            lines += [
                f"echo phase {name} $(date +%s%N)",
                f"{{ {line}; }} > {linux.GUEST_FOLDER}/said 2>&1",
                "sync",
                "sleep 1",
            ]
        return "\n".join(["set -e", *lines, "echo phase end $(date +%s%N)"])


def load_recordings(root: Path, study: str | None = None) -> list[TraceRecording]:
    """Return the recordings that data/workloads/<study>/recordings.yaml describes.

    A recording says how a block trace (a list of requests to a drive) is recorded on a simulated drive.

    Args:
        root: The project's folder.
        study: The name of the study; None for the recordings of all studies.

    Returns:
        The recordings, in the order of the studies' names and then of the file. The list is empty for a study without
        recordings.

    Raises:
        ConfigError: A file of recordings cannot be read.
    """
    found = sorted((root / WORKLOADS_FOLDER).glob(f"*/{_FILE}"))
    return [each for path in found if study in {None, path.parent.name} for each in _of_study(root, path.parent.name)]


def _of_study(root: Path, study: str) -> Iterator[TraceRecording]:
    content = yaml_schema.read_yaml(root, f"{WORKLOADS_FOLDER}/{study}/{_FILE}")
    for group, body in content["recordings"].items():
        options = {**content["options"], **body.get("options", {})}
        for drive in body.get("drives", [body.get("drive")]):
            # a recording on several drives has the drive in its name
            ending = f"-{drive}" if "drives" in body else ""
            if "processes" in body:
                for name, replay in _replays(group, body["processes"]):
                    yield TraceRecording(study, f"{name}{ending}", drive, options, {}, {}, replay)
                continue
            ((variable, levels),) = body.get("vary", {"": [""]}).items()
            for level in levels:
                name = f"{group}-{level}" if level else group
                yield TraceRecording(
                    study, f"{name}{ending}", drive, options, body["phases"], {variable: level} if variable else {}
                )


def _replays(group: str, processes: Mapping[str, Any]) -> Iterator[tuple[str, process_replays.ProcessReplay]]:
    """Yield a replay for each workload under ``processes`` in recordings.yaml.

    Args:
        group: The name of the entry, with which names of recordings begin.
        processes: The content of the key ``processes``.

    Yields:
        The name of the recording, and the replay.
    """
    options = {"changes": processes.get("changes", {}), "part": Fraction(processes.get("part", 1))}
    for workload in processes["of"]:
        if "one_by_one" in processes:
            replay = process_replays.ProcessReplay.one_by_one(workload, processes["one_by_one"], **options)
        else:
            replay = process_replays.ProcessReplay.at_once(workload, processes["at_once"], processes["runs"], **options)
        yield f"{group}-{workload.lower()}", replay


def planned_recordings(root: Path, studies: Iterable[str]) -> dict[str, config.PlannedRecording]:
    """Return the recordings of studies, by the shipped trace that each replaces.

    A block trace lists the requests that reached a drive. A shipped trace is a committed file,
    data/traces/<study>/<name>.parquet. A run that records traces replays a file below results/traces instead.

    Args:
        root: The project's folder.
        studies: The names of the studies. A study without recordings adds nothing.

    Returns:
        A mapping of the path of the shipped trace to the recording. The recording has the path of the file below
        results/traces and a SHA-256 of everything that determines the trace. Paths are relative to the project's
        folder.

    Raises:
        CaptureError: The Linux kernel for recording has not been built.
        ConfigError: A file of recordings cannot be read.
    """
    kernel = root / _KERNEL
    if not kernel.is_file():
        raise CaptureError(
            f"{config.CONFIG_FILE}: live: recording requires a kernel in {_KERNEL}. Build it with `./reproduce.sh"
            " linux`, or set live to false to replay the shipped traces."
        )
    kernel_sha256 = files.sha256(kernel)
    drives = drive_entries.read_drive_entries(root).entries
    found = {}
    for study in studies:
        folder = root / WORKLOADS_FOLDER / study
        if not (folder / _FILE).exists():
            continue
        sums = {path.name: files.sha256(path) for path in sorted(folder.iterdir()) if path.is_file()}
        of_study = load_recordings(root, study)
        machine = [kernel_sha256, _programs(of_study)]
        for each in of_study:
            entry = drives[each.drive]
            twin = [models.load_model(entry["model"]).digest, entry.get("set", {})] if kinds.is_simulated(entry) else []
            inputs = [each.name, each.options, each.script(), sums, *twin, *machine]
            digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
            recording = config.PlannedRecording(f"{RECORDED_TRACES}/{study}/{each.name}.parquet", digest)
            found[f"{SHIPPED_TRACES}/{study}/{each.name}.parquet"] = recording
    return found


def recording_digest(conf: config.Config, study: str, name: str) -> str:
    """Return the SHA-256 of everything that determines a recorded trace.

    These inputs are the files in data/workloads/<study>, the options, the script, the simulated drive, the kernel and
    the programs. The trace lists the requests that reach the drive while the script runs.

    Args:
        conf: The configuration.
        study: The name of the study.
        name: The name of the recording, such as ``scale-fsync-0``.

    Returns:
        64 hexadecimal digits; an empty text if the configuration plans no such recording.
    """
    found = conf.recordings.get(f"{SHIPPED_TRACES}/{study}/{name}.parquet")
    return found.made_of if found else ""


def workload_files(root: Path, study: str) -> list[str]:
    """Return the paths of the files that describe a study's recordings, sorted.

    These are the files in data/workloads/<study> except Markdown files. The paths are relative to the project's folder.
    The folder must exist.

    Args:
        root: The project's folder.
        study: The name of the study.
    """
    folder = f"{WORKLOADS_FOLDER}/{study}"
    return sorted(f"{folder}/{path.name}" for path in (root / folder).iterdir() if path.suffix != ".md")


def record_trace(root: Path, study: str, name: str, output: Path) -> None:
    """Record a block trace on a simulated drive, and write it as a Parquet file.

    The trace lists the requests that reach the drive while a Linux guest runs the workload. The metadata of the file
    contain the start of each phase, see `parquet.read_phases`.

    Args:
        root: The project's folder.
        study: The name of the study.
        name: The name of the recording, one of those that `load_recordings` returns.
        output: The Parquet file to write, which is replaced if it exists.

    Raises:
        CaptureError: The drive is not simulated, or the script failed in the guest.
        TwinError: The simulated drive or an option is not valid, or the kernel is not installed.
    """
    recording = next(each for each in load_recordings(root, study) if each.name == name)
    entry = drive_entries.read_drive_entries(root).entries[recording.drive]
    if not kinds.is_simulated(entry):
        raise CaptureError(f"{study}/{name}: {recording.drive} is not a simulated drive")
    with tempfile.TemporaryDirectory(prefix="capture-") as temporary:
        folder, trace = Path(temporary) / "jobs", Path(temporary) / "trace.parquet"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)  # the guest's user writes fio's output here, whichever user runs this
        Path(temporary).chmod(0o755)
        for pattern in _COPIED:
            for path in (root / WORKLOADS_FOLDER / study).glob(pattern):
                shutil.copy(path, folder)
                (folder / path.name).chmod(0o644)
        if recording.replay is not None:
            recording.replay.write(folder)
        options = linux.LinuxOptions(
            **recording.options,
            trace=trace,
            trace_all=True,  # so that a replay brings the drive into the same state before each request
            folder=folder,
            state=Path(temporary) / "state",
            settings=[f"{key}={value}" for key, value in entry.get("set", {}).items()],
            wall_limit_s=_WALL_LIMIT_S,
            kernel=root / _KERNEL,
            call_ns=0,  # a trace has the times of the drive alone
            fault_ns=0,
            date=_DATE,
        )
        command = ["/bin/sh", "-c", recording.script()]  # not a `sh` of the user's PATH
        done = linux.run_in_linux(entry["model"], command, options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            said = (folder / "said").read_text(errors="replace") if (folder / "said").exists() else ""
            texts = "\n".join(filter(None, (said.strip(), done.stderr.decode(errors="replace").strip())))
            raise CaptureError(f"{study}/{name}: not recorded, exit status {done.returncode}: {texts[-2000:]}")
        marks = {phase: int(at) - int(_DATE.timestamp()) * 10**9 for phase, at in _MARK.findall(done.stdout.decode())}
        write_shipped_trace(trace, output, recording.drive, marks)


def write_shipped_trace(trace: Path, output: Path, drive: str, marks: Mapping[str, int]) -> None:
    """Write a trace in the form of shipped traces: Parquet with the recorded drive and the start of phases.

    A trace lists the requests that reached a drive. Shipped traces are the committed files in data/traces.

    Args:
        trace: The Parquet file that `twin linux` wrote.
        output: The Parquet file to write, which is replaced if it exists.
        drive: The name of the recorded drive in the study.
        marks: The time at the start of each phase, in nanoseconds of the guest's clock, by the name of the phase and
            in order of time. The last entry, ``end``, is the end of the last phase.
    """
    recorded_on = parquet.read_recorded_drive(trace)
    assert recorded_on is not None, "twin linux records the drive"
    recorded_on = dataclasses.replace(recorded_on, name=drive)
    phases = {name: max(0, at - recorded_on.start_ns) for name, at in marks.items()}
    pieces = traces.read_pieces(trace)
    files.write_atomically(
        output, lambda temporary: parquet.write_requests(temporary, pieces, "twin linux", phases, recorded_on)
    )


def recording_provenance(root: Path, study: str, made: Iterable[Path]) -> dict[str, Any]:
    """Return the provenance of a study's recorded traces: how each of them was made.

    A trace lists the requests that reached a simulated drive.

    Args:
        root: The project's folder.
        study: The name of the study.
        made: The paths of all recorded traces of the study, Parquet files.

    Returns:
        A mapping with these keys:

        - ``kernel``: the versions of its source and compiler, and the checksums of its configuration and binary.
        - ``programs``: the version of fio and of each mkfs program, by the name of the program.
        - ``traces``: a mapping for each trace, by the name of the recording. Its keys are ``drive``, ``options``,
          ``script`` (lines), ``processes`` (for a replay), ``requests`` (their number), ``phases_ns`` (start of each
          phase) and ``sha256``.

    Raises:
        KeyError: A trace of the study is missing in ``made``.
    """
    built = (root / ".linux/linux.txt").read_text(encoding="utf-8").splitlines()
    recorded = {path.stem: path for path in made}
    found = load_recordings(root, study)
    return {
        "kernel": dict(line.rsplit(" ", 1) if "sha256" in line else line.split(" ", 1) for line in built),
        "programs": _programs(found),
        "traces": {
            each.name: {
                "drive": each.drive,
                "options": dict(each.options),
                "script": each.script().splitlines(),
                **({} if each.replay is None else {"processes": each.replay.description()}),
                "requests": sum(len(piece) for piece in traces.read_pieces(recorded[each.name])),
                "phases_ns": parquet.read_phases(recorded[each.name]),
                "sha256": files.sha256(recorded[each.name]),
            }
            for each in found
        },
    }


def _programs(recordings: Iterable[TraceRecording]) -> dict[str, str]:
    """Return the version of fio and of the mkfs programs that recordings use, by name."""
    file_systems = {each.options["file_system"] for each in recordings} - {linux.NO_FILE_SYSTEM}
    makers = {linux.MKFS_PROGRAMS[file_system][0][0] for file_system in file_systems}
    return {"fio": _version("fio", "--version"), **{name: _version(name, "-V") for name in sorted(makers)}}


def _version(program: str, option: str) -> str:
    path = shutil.which(program, path=linux.GUEST_PATH)
    if path is None:
        return "not installed"
    done = subprocess.run(
        [path, option], capture_output=True, text=True, check=False, env=subprocess_env.child_environment(os.environ)
    )
    return (done.stdout + done.stderr).splitlines()[0].strip()


def compare_with_shipped(root: Path, made: Mapping[str, Any], study: str) -> tuple[bool, str]:
    """Compare recorded traces with the shipped traces in data/traces.

    A trace lists the requests that reached a simulated drive. The checksums and descriptions of the traces are
    compared, not the files themselves.

    Args:
        root: The project's folder.
        made: The provenance of the recorded traces, as `recording_provenance` returns it.
        study: The name of the study.

    Returns:
        Whether each recorded trace is identical to its shipped trace, and a line of text about the comparison. If the
        study has no shipped traces, the first item is False, and the text says how to ship the recorded traces.
    """
    path = root / SHIPPED_TRACES / study / PROVENANCE_FILE
    if not path.exists():
        copy = f"copy {RECORDED_TRACES}/{study} to {SHIPPED_TRACES}/{study}"
        return False, f"{study}: no traces are shipped. To ship the recorded traces, {copy}."
    shipped = json.loads(path.read_text(encoding="utf-8"))
    known, found = shipped["traces"], made["traces"]
    different = [name for name in sorted({*known, *found}) if known.get(name) != found.get(name)]
    if not different:
        return True, f"{study}: {len(found)} traces, identical to those in {SHIPPED_TRACES}/{study}"
    others = [key for key in ("kernel", "programs") if shipped[key] != made[key]]
    why = f" ({' and '.join(others)} differ from {path.relative_to(root)})" if others else ""
    count = f"{len(different)} of {len({*known, *found})} traces"
    return False, f"{study}: {count} differ from the shipped traces{why}: {', '.join(different)}"
