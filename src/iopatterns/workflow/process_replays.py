"""Traces of applications replayed in a guest: one job of fio for each process, and what the guest does between runs.

One fio does all runs of a recording, since it takes seconds to start in a guest. A job that moves nothing begins each:
before it the guest's shell brings files and caches into the state that a run begins in, and says so on the guest's
clock. A run ends when all that its processes have left in the page cache is on the drive.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iopatterns.calls import replaying, stand_ins
from iopatterns.twin import linux

# Files in the folder that host and guest share: when each phase began, fio's jobs, what the shell does before each run,
# and the files that the processes use, with their sizes
PHASE_MARKS = "marks"
_JOBS, _BETWEEN, _FILES = "replay.fio", "between.sh", "files"
# Processes that run at once start within so many ms of each other, a few turns of a disk, and differently in each run
_APART_MS = 20

_HEAD = """; Replays processes of a trace, each as a job
[global]
ioengine=psync
thread=1
clocksource=clock_gettime
invalidate=0
replay_no_stall=1
"""
# A file that no process reads before it has written it is made anew in each run; one that is read is there before
_BETWEEN_RUNS = f"""#!/bin/sh
# Makes files and caches ready for the run $1.
set -e
echo phase prepare-$1 $(date +%s%N) >> {linux.GUEST_FOLDER}/{PHASE_MARKS}
cd {linux.GUEST_MOUNT}
while read -r file bytes; do
  if [ "$bytes" = 0 ]; then rm -f "$file"; elif ! [ -e "$file" ]; then head -c "$bytes" /dev/zero > "$file"; fi
done < {linux.GUEST_FOLDER}/{_FILES}
cat {linux.DROP_CACHES_FILE}
sleep 1
echo phase $1 $(date +%s%N) >> {linux.GUEST_FOLDER}/{PHASE_MARKS}
"""


@dataclass(frozen=True)
class ReplayRun:
    """Processes that run at once, by their numbers in the trace, under the name of the phase that they are."""

    name: str
    processes: Sequence[int]

    def delay_ms(self, process: int) -> int:
        """Return how long after the first possible moment a process starts: 0 where it is alone."""
        if len(self.processes) == 1:
            return 0
        drawn = hashlib.sha256(f"{self.name}/{process}".encode()).digest()
        return int.from_bytes(drawn[:4], "big") % _APART_MS


@dataclass(frozen=True)
class ProcessReplay:
    """The runs of a recording, one after another, of one of `stand_ins.STAND_IN_NAMES`."""

    workload: str
    runs: Sequence[ReplayRun]

    @classmethod
    def one_by_one(cls, workload: str, processes: int) -> "ProcessReplay":
        """Return the first processes of a workload, each alone: ``process-01`` …"""
        return cls(workload, [ReplayRun(f"process-{number + 1:02}", (number,)) for number in range(processes)])

    @classmethod
    def at_once(cls, workload: str, numbers: Sequence[int], runs: int) -> "ProcessReplay":
        """Return the first so many processes of a workload at once, each number so many times: ``8-run-1`` …"""
        return cls(
            workload,
            [ReplayRun(f"{count}-run-{run + 1}", tuple(range(count))) for count in numbers for run in range(runs)],
        )

    def write(self, folder: Path) -> None:
        """Write what the guest is given of it: fio's jobs and logs, the list of files, and what is done between runs.

        Raises CallsError for a workload or a process that is not there.
        """
        trace = stand_ins.stand_in(self.workload)
        processes = sorted({process for run in self.runs for process in run.processes})
        iologs = replaying.to_iologs(trace, folder, processes=processes, within=f"{linux.GUEST_MOUNT}/")
        logs = {process: path.name for process, path in iologs.logs.items()}
        (folder / _JOBS).write_text(_HEAD + "".join(self._jobs(run, logs) for run in self.runs), encoding="utf-8")
        (folder / _BETWEEN).write_text(_BETWEEN_RUNS, encoding="utf-8")
        listed = (f"{file} {size_bytes}\n" for file, size_bytes in iologs.sizes_bytes.items())
        (folder / _FILES).write_text("".join(listed), encoding="utf-8")
        (folder / PHASE_MARKS).touch()
        for path in folder.iterdir():
            path.chmod(0o666)  # whoever runs this, the guest's user is to add to the marks

    def _jobs(self, run: ReplayRun, logs: dict[int, str]) -> str:
        lines = [
            f"\n[before-{run.name}]",
            "stonewall",
            "ioengine=null",
            *("rw=read", "bs=4k", "size=4k"),
            f"exec_prerun=sh {linux.GUEST_FOLDER}/{_BETWEEN} {run.name}",
        ]
        for number, process in enumerate(run.processes):
            lines += [f"[{run.name}.{process:02}]", *(["stonewall"] if number == 0 else [])]
            lines.append(f"read_iolog={linux.GUEST_FOLDER}/{logs[process]}")
            if delay_ms := run.delay_ms(process):
                lines.append(f"exec_prerun=sleep 0.{delay_ms:03}")
            lines.append("exec_postrun=sync")
        return "\n".join(lines) + "\n"

    def told(self) -> dict[str, object]:
        """Return for the provenance what is replayed: a stand-in, and of each run how many of its processes."""
        runs = {run.name: len(run.processes) for run in self.runs}
        return {"of": self.workload, "origin": "stand-in", "runs": runs}

    def script(self) -> str:
        """Return what the guest's shell is given; it tells of each run by the guest's clock."""
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
