"""Recordings of traces: what the guest is given, what is written of it, and what is said where it differs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import ROOT

from iopatterns.twin import traces
from iopatterns.twin.traces import parquet
from iopatterns.workflow import capture

SHIPPED = sorted((ROOT / capture.SHIPPED_TRACES).glob("*/*.parquet"))


@pytest.mark.parametrize("recording", capture.load_recordings(ROOT), ids=lambda each: each.name)
def test_the_shell_takes_each_script(recording: capture.TraceRecording) -> None:
    done = subprocess.run(["sh", "-n"], input=recording.script(), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_phases_are_told_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    table = pd.DataFrame({"operation": ["write", "read"], "offset_bytes": [0, 0], "size_bytes": [512, 512]})
    times = {"time_ns": [1000, 5000], "dispatched_ns": [1000, 5000], "completed_ns": [2000, 6000]}
    table.assign(**times).to_csv(tmp_path / "trace.csv", index=False)
    capture.write_shipped_trace(
        tmp_path / "trace.csv", tmp_path / "out.parquet", {"prepare": 500, "run": 4000, "end": 7000}
    )
    assert parquet.read_phases(tmp_path / "out.parquet") == {"prepare": 0, "run": 3000, "end": 6000}
    (piece,) = traces.read_pieces(tmp_path / "out.parquet")
    assert list(piece["arrival_ns"]) == [0, 4000]


def made(**changes: Any) -> dict[str, Any]:
    return {"kernel": {"gcc": "12"}, "programs": {"fio": "3"}, "traces": {"a": {"sha256": "0"}}} | changes


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "1 traces, identical"),
        ({"traces": {"a": {"sha256": "1"}}}, "1 of 1 traces differ from the shipped traces: a"),
        ({"traces": {"a": {"sha256": "1"}}, "kernel": {"gcc": "14"}}, "(kernel differ from"),
    ],
)
def test_what_was_recorded_is_held_against_what_is_shipped(changes: Any, told: str, tmp_path: Path) -> None:
    folder = tmp_path / capture.SHIPPED_TRACES / "study"
    folder.mkdir(parents=True)
    (folder / capture.PROVENANCE_FILE).write_text(json.dumps(made()))
    same, line = capture.compare_with_shipped(tmp_path, made(**changes), "study")
    assert told in line
    assert same == (not changes)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_trace_is_the_one_that_its_provenance_tells_of(path: Path) -> None:
    from iopatterns.base import files

    told = json.loads((path.parent / capture.PROVENANCE_FILE).read_text())["traces"][path.stem]
    assert told["sha256"] == files.sha256(path)
    assert told["phases_ns"] == parquet.read_phases(path)
    assert told["requests"] == sum(len(piece) for piece in traces.read_pieces(path))


def test_each_recording_is_shipped() -> None:
    recordings = {f"{each.study}/{each.name}" for each in capture.load_recordings(ROOT)}
    assert {f"{path.parent.name}/{path.stem}" for path in SHIPPED} == recordings


def test_nothing_of_this_machine_is_in_what_the_guest_is_given() -> None:
    for each in capture.load_recordings(ROOT):
        assert str(ROOT) not in each.script()
