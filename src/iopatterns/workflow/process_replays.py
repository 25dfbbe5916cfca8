"""Replay the processes of a system call trace in a guest Linux system.

The replay makes the requests to a drive that a recording of a block trace contains. A single fio process does all runs
of a recording, because fio takes seconds to start in a guest. Each run begins with a job that transfers nothing. Before
this job, the guest's shell prepares files and caches, and records the guest's time. A run ends when all its processes
have ended and `sync` has written the page cache to the drive.

The replay follows the trace player that Park and Shen published (www.cs.rochester.edu/research/os/iobench/). All files
exist with their full size before the first run, so that processes overwrite data. Before each run, the page cache is
written and dropped.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from iopatterns.calls import replaying, stand_ins
from iopatterns.twin import linux

# Files in the folder that host and guest share: the start of each phase, fio's jobs, the shell scripts before each run
# and after each process, and a list of the files that the processes use, with their sizes
PHASE_MARKS = "marks"
_JOBS, _BEFORE_RUN, _AFTER_PROCESS, _FILES = "replay.fio", "before-run.sh", "after-process.sh", "files"
# Parallel processes start within this time, which is a few revolutions of a disk, and differently in each run
_START_WITHIN_MS = 20
# Phase of the process that runs before the others, so that all others find the same metadata in memory
_FIRST = "first"

_HEAD = """; Replays processes of a trace, each as a job
[global]
ioengine=psync
thread=1
clocksource=clock_gettime
invalidate=0
replay_no_stall=1
"""
# The files are written once, before the first run
_BEFORE_RUN_TEXT = f"""#!/bin/sh
# Makes files and caches ready for the run $1.
set -e
echo phase prepare-$1 $(date +%s%N) >> {linux.GUEST_FOLDER}/{PHASE_MARKS}
cd {linux.GUEST_MOUNT}
while read -r file bytes; do
  if ! [ -e "$file" ]; then head -c "$bytes" /dev/zero > "$file"; fi
done < {linux.GUEST_FOLDER}/{_FILES}
cat {linux.DROP_CACHES_FILE}
sleep 1
echo phase $1 $(date +%s%N) >> {linux.GUEST_FOLDER}/{PHASE_MARKS}
"""
# fio itself would begin the next job some tenths of a second after the last process has ended
_AFTER_PROCESS_TEXT = f"""#!/bin/sh
# Writes all data to the drive when the last of the $2 processes of the run $1 has ended.
set -e
echo ended >> {linux.GUEST_FOLDER}/$1.ended
if [ $(wc -l < {linux.GUEST_FOLDER}/$1.ended) = $2 ]; then sync; fi
"""


@dataclass(frozen=True)
class ReplayRun:
    """Processes of a system call trace that are replayed in parallel.

    A run is one phase (named part) of the block trace that is recorded during the replay.

    Attributes:
        name: The name of the phase, such as ``8-run-1``.
        processes: The numbers of the processes in the trace, counted from 0.
    """

    name: str
    processes: Sequence[int]

    def delay_ms(self, process: int) -> int:
        """Return the delay in milliseconds after which a process starts in this run.

        The delay is pseudo-random, from 0 to 19 ms. It depends only on the name of the run and the number of the
        process. If the run has a single process, the delay is 0.

        Args:
            process: The number of the process in the trace, counted from 0.
        """
        if len(self.processes) == 1:
            return 0
        drawn = hashlib.sha256(f"{self.name}/{process}".encode()).digest()
        return int.from_bytes(drawn[:4], "big") % _START_WITHIN_MS


@dataclass(frozen=True)
class ProcessReplay:
    """The replay of a workload's processes that is recorded as one block trace.

    A replay consists of runs, which take place one after the other.

    Attributes:
        workload: The name of the replayed workload (a synthetic trace of system calls), one of
            `stand_ins.STAND_IN_NAMES`.
        runs: The runs, in order.
        changes: Changed assumptions of the workload, see `stand_ins.stand_in`.
        part: Share of the calls of each process that is replayed, from its first call on.
    """

    workload: str
    runs: Sequence[ReplayRun]
    changes: Mapping[str, Any] = field(default_factory=dict)
    part: Fraction = Fraction(1)

    @classmethod
    def one_by_one(cls, workload: str, processes: int, **options: Any) -> "ProcessReplay":
        """Return a replay with a run for each of the first processes of a workload.

        The names of these runs are ``process-01``, ``process-02`` and so on. They follow the run ``first`` of one more
        process, which finds other metadata of the file system in memory than the processes after it.

        Args:
            workload: The name of the workload, such as ``Sandia-cth``.
            processes: The number of processes to replay after the first run.
            **options: The attributes ``changes`` and ``part``.
        """
        runs = [ReplayRun(f"process-{number + 1:02}", (number,)) for number in range(processes)]
        return cls(workload, [ReplayRun(_FIRST, (processes,)), *runs], **options)

    @classmethod
    def at_once(cls, workload: str, numbers: Sequence[int], runs: int, **options: Any) -> "ProcessReplay":
        """Return a replay with runs of several parallel processes.

        With ``numbers=[2, 8]`` and ``runs=3``, three runs of 2 processes are followed by three runs of 8 processes. The
        runs of 8 processes replay the first 8 processes of the workload, and have the names ``8-run-1``, ``8-run-2``
        and ``8-run-3``.

        Args:
            workload: The name of the workload, such as ``Sandia-cth``.
            numbers: The number of parallel processes in each group of runs.
            runs: The number of runs in each group.
            **options: The attributes ``changes`` and ``part``.
        """
        return cls(
            workload,
            [ReplayRun(f"{count}-run-{run + 1}", tuple(range(count))) for count in numbers for run in range(runs)],
            **options,
        )

    def write(self, folder: Path) -> None:
        """Write the files that the guest system needs for the replay.

        These are fio's job file and I/O logs, a list of the files that the processes use, the scripts that run before
        each run and after each process, and an empty file for the times at which phases start. All files in the folder
        become readable and writable for every user.

        Args:
            folder: The folder that host and guest share.

        Raises:
            CallsError: The workload does not exist, lacks a process of a run, or has no such assumption.
        """
        trace = stand_ins.stand_in(self.workload, self.changes, self.part)
        processes = sorted({process for run in self.runs for process in run.processes})
        iologs = replaying.to_iologs(trace, folder, processes=processes, within=f"{linux.GUEST_MOUNT}/")
        logs = {process: path.name for process, path in iologs.logs.items()}
        (folder / _JOBS).write_text(_HEAD + "".join(self._jobs(run, logs) for run in self.runs), encoding="utf-8")
        (folder / _BEFORE_RUN).write_text(_BEFORE_RUN_TEXT, encoding="utf-8")
        (folder / _AFTER_PROCESS).write_text(_AFTER_PROCESS_TEXT, encoding="utf-8")
        listed = (f"{file} {size_bytes}\n" for file, size_bytes in iologs.ends_bytes.items())
        (folder / _FILES).write_text("".join(listed), encoding="utf-8")
        (folder / PHASE_MARKS).touch()
        for path in folder.iterdir():
            path.chmod(0o666)  # the guest's user appends to the marks, whichever user runs this

    def _jobs(self, run: ReplayRun, logs: dict[int, str]) -> str:
        lines = [
            f"\n[before-{run.name}]",
            "stonewall",
            "ioengine=null",
            *("rw=read", "bs=4k", "size=4k"),
            f"exec_prerun=sh {linux.GUEST_FOLDER}/{_BEFORE_RUN} {run.name}",
        ]
        for number, process in enumerate(run.processes):
            lines += [f"[{run.name}.{process:02}]", *(["stonewall"] if number == 0 else [])]
            lines.append(f"read_iolog={linux.GUEST_FOLDER}/{logs[process]}")
            if delay_ms := run.delay_ms(process):
                lines.append(f"exec_prerun=sleep 0.{delay_ms:03}")
            lines.append(f"exec_postrun=sh {linux.GUEST_FOLDER}/{_AFTER_PROCESS} {run.name} {len(run.processes)}")
        return "\n".join(lines) + "\n"

    def description(self) -> dict[str, object]:
        """Return a description of the replay, to be stored with the recorded trace.

        Keys of the dictionary:

        - ``of``: the name of the workload
        - ``origin``: always ``stand-in``, for a synthetic trace
        - ``changes``: the changed assumptions of the workload; missing if there are none
        - ``part``: the share of each process's calls, such as ``1/8``; missing if all calls are replayed
        - ``runs``: the number of processes of each run, by the name of the run
        """
        runs = {run.name: len(run.processes) for run in self.runs}
        changes = {"changes": dict(self.changes)} if self.changes else {}
        part = {"part": str(self.part)} if self.part != 1 else {}
        return {"of": self.workload, "origin": "stand-in", **changes, **part, "runs": runs}

    def script(self) -> str:
        """Return the text of the shell script that replays the processes in the guest.

        At its end the script prints a line ``phase NAME NANOSECONDS`` for the start of each phase, with the guest's
        time.
        """
        return "\n".join(
            [
                "set -e",
                f"cd {linux.GUEST_FOLDER}",
                f"fio {_JOBS} > said 2>&1",
                f"cat {PHASE_MARKS}",
                "sleep 1",
                "echo phase end $(date +%s%N)",
            ]
        )
