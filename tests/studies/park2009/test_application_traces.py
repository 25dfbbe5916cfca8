"""The commands of the page on application traces, and the shipped traces of system calls."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import patience
import pytest
import yaml
from support import ROOT, copy_project

from iopatterns import calls
from iopatterns.analysis import applications

PAGE = (ROOT / "docs/application-traces.md").read_text(encoding="utf-8")
RECORDED = ROOT / "data/traces/park2009/calls"
PROVENANCE = json.loads((RECORDED / "provenance.json").read_text(encoding="utf-8"))
needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed (apt-get install strace)")

_PROGRAM = f"""#!{sys.executable} -S
import os
f = os.open('data', os.O_CREAT | os.O_RDWR)
for at in range(20):
    os.write(f, b'x' * 5000)
g = os.open('input', os.O_RDONLY)
while os.read(g, 1000):
    pass
os.fsync(f)
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@needs_strace
def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    *walk, in_report, adapted = blocks("sh")
    program, work = tmp_path / "bin" / "my-program", tmp_path / "work"
    program.parent.mkdir()
    work.mkdir()
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    (work / "input").write_bytes(b"y" * 30_000)
    path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    outputs = []
    for block in walk:
        command = ["bash", "-euc", block]
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, block + done.stdout + done.stderr
        outputs.append(done.stdout)
    assert "Sequential" in outputs[1]
    assert "0.60/0.40" in outputs[1]
    assert {path.name for path in (work / "figures").glob("*.svg")} == {
        *("read-sizes.svg", "write-sizes.svg", "access-map.svg")
    }
    for replay in outputs[3:5]:
        assert re.search(r"issued rwts: total=30,20,0,1", replay), replay
    project = copy_project(tmp_path / "project")
    content = yaml.safe_load((project.root / "config/studies/park2009.yaml").read_text())["experiments"]
    project.edit("config/studies/park2009.yaml", experiments={name: content[name] for name in ("transfer", "own")})
    project.edit("config/config.yaml", file_size="64 MiB")
    shutil.copy(work / "my.parquet", project.root)
    command = ["bash", "-euc", in_report]
    done = patience.run(
        command, 300, cwd=project.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    own = pd.read_csv(project.root / "results/tables/park2009/own.csv")
    assert (list(own["workload"]), own["caviar-se_mb_per_s"][0] > 0) == (["my-program"], True)
    assert (project.root / "results/report.pdf").exists()
    (work / "mine.py").write_text(blocks("python")[0])
    (work / "mine.trace").write_text("0.1 node3 open /out 5\n0.2 node3 write 5 65536\n0.3 node3 write 5 65536\n")
    done = subprocess.run(
        adapted.split(), cwd=work, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "64 KB 100.0%" in done.stdout


@pytest.mark.parametrize("name", sorted(PROVENANCE["traces"]))
def test_each_recorded_trace_matches_its_provenance(name: str) -> None:
    entry = PROVENANCE["traces"][name]
    assert hashlib.sha256((RECORDED / name).read_bytes()).hexdigest() == entry["sha256"]
    assert hashlib.sha256((ROOT / entry["program"]).read_bytes()).hexdigest() == entry["program_sha256"]
    trace = calls.open_trace([RECORDED / name])
    assert (trace.origin, trace.label) == ("recorded", name.removesuffix(".parquet"))
    table = trace.table()
    assert len(table) == entry["calls"]
    assert not table["file"].str.contains("/").any()  # no names of a machine or user


def test_all_shipped_traces_have_provenance() -> None:
    assert {path.name for path in RECORDED.glob("*.parquet")} == set(PROVENANCE["traces"])
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 200_000


def test_the_recorded_programs_have_their_intended_patterns() -> None:
    seen = {
        name.removesuffix(".parquet"): applications.characterise_trace(calls.open_trace([RECORDED / name])).row()
        for name in PROVENANCE["traces"]
    }
    n_to_1, n_to_n = seen["mpi-n-to-1"], seen["mpi-n-to-n"]
    assert (n_to_1["files"], n_to_1["processes"], n_to_1["read_pattern"], n_to_1["write_pattern"]) == (
        *(1, 4),
        *["Sequential"] * 2,
    )
    assert (n_to_n["files"], n_to_n["processes"]) == (8, 4)
    assert seen["mpi-checkpoints"]["read_share"] == 0
    assert seen["mpi-hdf5"]["processes"] == 4
