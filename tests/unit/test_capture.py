"""Recordings of traces: scripts for the guest, shipped traces, and their comparison."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from linux_kernel import needs_kernel
from support import ROOT

from iopatterns.analysis.recordings import MAX_DIFFERENCE
from iopatterns.base import files
from iopatterns.configuration import drive_entries
from iopatterns.twin import models, traces
from iopatterns.twin.trace_replay import replay_trace
from iopatterns.twin.traces import parquet
from iopatterns.workflow import capture

SHIPPED = sorted((ROOT / capture.SHIPPED_TRACES).glob("*/*.parquet"))


@pytest.mark.parametrize("recording", capture.load_recordings(ROOT), ids=lambda each: each.name)
def test_each_script_is_valid_shell_without_paths_of_this_machine(recording: capture.TraceRecording) -> None:
    done = subprocess.run(["sh", "-n"], input=recording.script(), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(ROOT) not in recording.script()


def test_phases_begin_at_times_since_the_first_request(tmp_path: Path) -> None:
    table = pd.DataFrame({"operation": ["write", "read"], "offset_bytes": [0, 0], "size_bytes": [512, 512]})
    times = {"time_ns": [1000, 5000], "dispatched_ns": [1000, 5000], "completed_ns": [2000, 6000]}
    table.assign(**times).to_csv(tmp_path / "trace.csv", index=False)
    made = tmp_path / "trace.parquet"
    traces.write_as_parquet(tmp_path / "trace.csv", made, recorded_on=traces.RecordedDrive("x25-m", "0", 1, 1000))
    marks = {"prepare": 500, "run": 4000, "end": 7000}
    capture.write_shipped_trace(made, tmp_path / "out.parquet", "x25-m-used", marks)
    recorded_on = parquet.read_recorded_drive(tmp_path / "out.parquet")
    assert recorded_on == traces.RecordedDrive("x25-m-used", "0", 1, 1000)
    assert parquet.read_phases(tmp_path / "out.parquet") == {"prepare": 0, "run": 3000, "end": 6000}
    (piece,) = traces.read_pieces(tmp_path / "out.parquet")
    assert list(piece["arrival_ns"]) == [0, 4000]


def made(**changes: Any) -> dict[str, Any]:
    return {"kernel": {"gcc": "12"}, "programs": {"fio": "3"}, "traces": {"a": {"sha256": "0"}}} | changes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "1 traces, identical"),
        ({"traces": {"a": {"sha256": "1"}}}, "1 of 1 traces differ from the shipped traces: a"),
        ({"traces": {"a": {"sha256": "1"}}, "kernel": {"gcc": "14"}}, "(kernel differ from"),
    ],
)
def test_recorded_traces_are_compared_with_shipped_ones(changes: Any, text: str, tmp_path: Path) -> None:
    folder = tmp_path / capture.SHIPPED_TRACES / "study"
    folder.mkdir(parents=True)
    (folder / capture.PROVENANCE_FILE).write_text(json.dumps(made()))
    same, line = capture.compare_with_shipped(tmp_path, made(**changes), "study")
    assert text in line
    assert same == (not changes)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_trace_agrees_with_its_provenance(path: Path) -> None:
    provenance = json.loads((path.parent / capture.PROVENANCE_FILE).read_text())["traces"][path.stem]
    assert provenance["sha256"] == files.sha256(path)
    assert provenance["phases_ns"] == parquet.read_phases(path)
    assert provenance["requests"] == sum(len(piece) for piece in traces.read_pieces(path))


def test_each_recording_is_shipped() -> None:
    recordings = {f"{each.study}/{each.name}" for each in capture.load_recordings(ROOT)}
    assert {f"{path.parent.name}/{path.stem}" for path in SHIPPED} == recordings


@pytest.mark.slow
@needs_kernel
def test_a_recording_runs_no_program_of_an_activated_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "environment/bin"
    programs.mkdir(parents=True)
    for name in ("sh", "date", "sync", "sleep", "fio", "mkfs.ext4"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(programs.parent))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    capture.record_trace(ROOT, "kapoor", "fsync-each-large-1", tmp_path / "trace.parquet")
    assert {"prepare", "run", "end"} == parquet.read_phases(tmp_path / "trace.parquet").keys()
    assert "fio" in capture._programs(capture.load_recordings(ROOT))["fio"]


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_replay_on_the_recorded_drive_is_the_recorded_run(path: Path) -> None:
    recorded_on = parquet.read_recorded_drive(path)
    assert recorded_on is not None
    entry: Any = drive_entries.read_drive_entries(ROOT).entries[recorded_on.name]
    drive = models.load_model(entry["model"]).with_values(entry.get("set", {}), recorded_on.name)
    assert recorded_on.model_digest == drive.digest, "the drive has changed: record the trace again"
    recorded = pd.concat(list(traces.read_pieces(path)), ignore_index=True)
    replayed = replay_trace(drive, path).latencies.set_index("request").sort_index()
    duration_ns = int(recorded["completed_ns"].max())
    latency_ns = recorded["completed_ns"] - recorded["arrival_ns"]
    ended_ns = (replayed["issue_ns"] + replayed["latency_ns"]).max() - recorded_on.start_ns
    assert ended_ns == pytest.approx(duration_ns, rel=MAX_DIFFERENCE)
    assert replayed["latency_ns"].mean() == pytest.approx(latency_ns.mean(), rel=MAX_DIFFERENCE)
