"""Record the system calls of the MPI programs in this folder with strace; write data/traces/park2009/calls.

Run it with the project's Python: `.venv/bin/python data/workloads/park2009/programs/record.py`. It needs the Debian
packages strace, openmpi-bin, python3-mpi4py and python3-h5py-mpi. The programs run in /tmp/run, so that no trace
contains names of the machine or of a user.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from iopatterns import calls
from iopatterns.base import files
from iopatterns.calls import form

HERE = Path(__file__).parent
RUN = Path("/tmp/run")
OUTPUT = HERE.parents[2] / "traces/park2009/calls"
PROGRAMS = ("n_to_1", "n_to_n", "hdf5", "checkpoints")
RANKS = 4
PYTHON = "/usr/bin/python3"  # Debian's, which can import Debian's MPI packages
CALLS = (
    "open,openat,creat,close,read,readv,pread64,preadv,preadv2,write,writev,pwrite64,pwritev,pwritev2,lseek,ftruncate,"
    "fsync,fdatasync,dup,dup2,dup3,fcntl,execve,clone,clone3,fork,vfork,exit_group"
)


def record(program: str, output: Path) -> dict[str, object]:
    """Record a program to the file ``output`` and return the provenance of the trace."""
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir()
    shutil.copy(HERE / f"{program}.py", RUN)
    traced = f"exec strace -f -y -ttt -T -s 0 -e trace={CALLS} -o trace.$OMPI_COMM_WORLD_RANK {PYTHON} {program}.py"
    # the ranks communicate only through memory
    mpi = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "-n", str(RANKS)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(RUN), "LC_ALL": "C.UTF-8", "TMPDIR": str(RUN)}
    subprocess.run([*mpi, "sh", "-c", traced], cwd=RUN, env=environment, check=True, timeout=300)
    trace = calls.Trace(f"mpi-{program.replace('_', '-')}", "recorded", "strace", lambda: form.call_tables(_of_ranks()))
    done = calls.convert_calls(trace, output)
    return {
        "program": f"{(HERE / program).relative_to(HERE.parents[3])}.py",
        "program_sha256": files.sha256(HERE / f"{program}.py"),
        "command": " ".join([*mpi, "strace -f -y -ttt -T -s 0 -o trace.RANK python3", f"{program}.py"]),
        "ranks": RANKS,
        "calls": done.calls,
        "sha256": files.sha256(output),
    }


def _of_ranks() -> Iterator[form.Call]:
    """Yield the calls of all ranks on files of the program, sorted by time, with the rank as the process."""
    parts = []
    for rank in range(RANKS):
        path = RUN / f"trace.{rank}"
        begin = re.search(r"(\d+)\.(\d{6}) ", path.read_text(encoding="utf-8", errors="replace"))
        assert begin is not None
        table = calls.open_trace([path], only=f"{RUN}/*.*").table()
        table["time_ns"] += int(begin[1]) * 10**9 + int(begin[2]) * 1000
        kept = table[~table["file"].str.contains(r"\.py|ompi|trace\.", regex=True)]
        parts.append(kept.assign(process=rank))
    whole = pd.concat(parts).sort_values(["time_ns", "process"], kind="stable")
    whole["time_ns"] -= whole["time_ns"].min()
    whole["file"] = whole["file"].str.removeprefix(f"{RUN}/")
    return (form.Call(*row) for row in whole.itertuples(index=False, name=None))


def versions() -> dict[str, str]:
    """Return the versions of the packages that run and trace the programs, by package."""
    packages = ("strace", "openmpi-bin", "python3-mpi4py", "python3-h5py-mpi", "libhdf5-openmpi-103-1")
    found = {}
    for package in packages:
        command = ["dpkg-query", "-W", "-f", "${Version}", package]
        found[package] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return found


def main() -> None:
    """Record the programs named on the command line, or all programs."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    provenance = OUTPUT / "provenance.json"
    content = json.loads(provenance.read_text(encoding="utf-8")) if provenance.is_file() else {"traces": {}}
    for program in sys.argv[1:] or PROGRAMS:
        name = f"mpi-{program.replace('_', '-')}.parquet"
        content["traces"][name] = record(program, OUTPUT / name)
        print(f"{name}: {content['traces'][name]['calls']} calls, {(OUTPUT / name).stat().st_size} bytes")
    content["origin"] = "recorded on a virtual machine with two processors; names of files are those below /tmp/run"
    content["versions"] = versions()
    files.write_json(provenance, content)


main()
