"""Recordings of one program on several drives, compared with their replays."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import ROOT

from iopatterns import twin
from iopatterns.analysis import recordings as analysis
from iopatterns.analysis import replays as analysed
from iopatterns.configuration import config, grid
from iopatterns.measuring import replays
from iopatterns.twin.traces import RecordedDrive, parquet

DRIVES = {
    name: twin.load_model("wiscsim").overridden(
        ["capacity.size=512 MiB", "ftl.initial_state=sequential", f"flash.read_time={time}"]
    )
    for name, time in {"usual": "20 us", "slow": "200 us"}.items()
}


def record(root: Path, drive: str, depth: int = 4) -> None:
    """Record reads of a program on a drive, which keeps `depth` of them outstanding, in two runs."""
    trace = pd.DataFrame({"operation": 0, "offset_bytes": np.arange(400) * 2**16 % 2**28, "size_bytes": 4096})
    trace = trace.astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    done = twin.replay_trace(DRIVES[drive], trace, depth=depth).latencies.set_index("request").sort_index()
    trace = trace.assign(arrival_ns=done["issue_ns"], completed_ns=done["issue_ns"] + done["latency_ns"])
    phases = {"prepare": 0, "run-1": trace["arrival_ns"][100], "run-2": trace["arrival_ns"][300], "end": 10**9}
    recorded_on = RecordedDrive(drive, DRIVES[drive].digest, 0, 0)
    path = root / f"program-{drive}.parquet"
    parquet.write_requests(path, [trace], "made up", {name: int(at) for name, at in phases.items()}, recorded_on)


def measured(root: Path, drive: str, **options: Any) -> dict[str, Any]:
    other = next(each for each in DRIVES if each != drive)
    asked: Any = {
        "trace": f"program-{drive}.parquet",
        "phase": "run-*",
        "compare": [{"trace": f"program-{other}.parquet"}],
    }
    content, _ = replays.replay_phase(DRIVES[drive], root, asked | options)
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("options", [{}, {"depth": 2}, {"arrival_times": True}], ids=str)
def test_recordings_are_compared_with_their_replays_on_the_drive(
    drive: str, options: dict[str, Any], tmp_path: Path
) -> None:
    for each in DRIVES:
        record(tmp_path, each)
    content = measured(tmp_path, drive, **options)
    own, other = content["recordings"]
    assert (own["drive"], own["on_this_drive"], other["on_this_drive"]) == (drive, True, False)
    assert own["replayed_ns"] == own["recorded_ns"]
    assert own["replayed_latency_ns"] == own["recorded_latency_ns"]
    assert other["replayed_ns"] == pytest.approx(own["recorded_ns"], rel=0.05)
    assert other["recorded_ns"] != pytest.approx(own["recorded_ns"], rel=0.5)
    assert (own["largest_depth"], own["requests"], len(own["recorded_ns"])) == (4, 300, 2)
    if "depth" not in options:
        assert content["runs_ns"] == own["recorded_ns"]


def test_on_a_changed_drive_only_the_replayed_recording_is_shown(tmp_path: Path) -> None:
    for each in DRIVES:
        record(tmp_path, each)
    changed = DRIVES["usual"].overridden(["flash.program_time=1 ms"])
    asked: Any = {"trace": "program-usual.parquet", "phase": "run-*", "compare": [{"trace": "program-slow.parquet"}]}
    content = replays.replay_phase(changed, tmp_path, asked)[0]
    (shown,) = content["recordings"]
    assert (shown["drive"], shown["on_this_drive"]) == ("usual", False)
    assert "recordings" not in replays.replay_phase(changed, tmp_path, asked | {"depth": 1})[0]
    found = runs(tmp_path, shown)
    (row,) = analysis.recordings_table(found).data.to_dict("records")
    assert row["recorded_s"] == sum(shown["recorded_ns"]) / 1e9
    assert row["replayed_s"] == content["duration_ns"] / 1e9
    assert np.isnan(row["live_s"])
    assert analysis.recordings_text(found) == ""


def test_traces_without_their_drive_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(analysis.RecordingError, match="snakemake capture"):
        runs(tmp_path)


def comparison(drive: str, recorded_s: float, replayed_s: float, **changes: Any) -> dict[str, Any]:
    """Return the comparison of a recording with one run, as raw files have it."""
    return {
        "trace": f"program-{drive}.parquet", "phase": "run", "drive": drive, "on_this_drive": False, "live": False,
        "requests": 100, "largest_depth": 4, "recorded_ns": [recorded_s * 1e9], "replayed_ns": [replayed_s * 1e9],
        "recorded_latency_ns": 1000.0, "replayed_latency_ns": 1000.0,
    } | changes  # fmt: skip


def runs(tmp_path: Path, *compared: dict[str, Any], time_based: bool = False) -> pd.DataFrame:
    shown = json.dumps({"recordings": compared} if compared else {})
    rows = pd.DataFrame({"drive": ["a"], "cell": ["c"], "experiments": ["one two"], analysed.DETAILS_COLUMN: [shown]})
    rows.to_parquet(tmp_path / "measurements.parquet")
    return analysis.recorded_runs(tmp_path / "measurements.parquet", lambda name: time_based and name == "two")


@pytest.mark.parametrize("wrong", [{"replayed_ns": [1.03e9]}, {"replayed_latency_ns": 970.0}], ids=str)
def test_a_replay_that_misses_its_own_recording_is_an_error(wrong: dict[str, Any], tmp_path: Path) -> None:
    assert len(runs(tmp_path, comparison("a", 1, 1.01, on_this_drive=True))) == 1
    with pytest.raises(analysis.RecordingError, match=r"program, run: .* on a, .* by -?3\.0%"):
        runs(tmp_path, comparison("a", 1, 1, on_this_drive=True, **wrong))


def test_the_table_shows_recording_replay_and_live_side_by_side(tmp_path: Path) -> None:
    found = runs(
        tmp_path,
        comparison("a", 2, 2, on_this_drive=True, live=True),
        comparison("a", 1, 2.1),  # the shipped recording, of the drive before a change
        comparison("b", 5, 1.9, largest_depth=1),
    )
    table = analysis.recordings_table(found)
    (row,) = table.data.to_dict("records")
    assert (row["program"], row["recorded_s"], row["replayed_s"], row["live_s"]) == ("program", 1, 2.1, 2)
    assert row["others"] == "b −5.0 %"
    text = analysis.recordings_text(found)
    assert "a median of 5.0 % over 2 runs" in text
    assert "5.0 % if the recorded drive held one request at a time" in text


def test_durations_of_programs_that_run_for_a_fixed_time_are_per_request(tmp_path: Path) -> None:
    own, other = comparison("a", 1, 1, on_this_drive=True), comparison("b", 1, 2, requests=200)
    for time_based, error in ((False, 1.0), (True, 0.0)):
        found = runs(tmp_path, own, other, time_based=time_based)
        assert found.loc[~found["on_this_drive"], "error"].tolist() == [error]


def test_each_recording_of_a_study_is_compared_with_those_on_other_drives() -> None:
    conf = config.load_config(ROOT, {"drives": ["twins"], "studies": ["park2009"]})
    for cell in grid.expand_grid(conf, "park2009"):
        if cell.experiments[0].startswith("parallel-"):
            replay = cell.specification["replay"]
            others = {Path(each["trace"]).stem.rpartition("-")[0] for each in replay["compare"]}
            assert len(replay["compare"]) == 2
            assert replay["trace"] not in {each["trace"] for each in replay["compare"]}
            assert all(name.startswith(cell.experiments[0]) for name in others)


def test_a_live_recording_is_compared_with_the_shipped_one() -> None:
    conf = config.load_config(ROOT, {"drives": ["twins"], "studies": ["park2009"]})
    shipped = "data/traces/park2009/random-writes-mtron-7500.parquet"
    live = config.Config(**{**vars(conf), "recordings": {shipped: config.PlannedRecording("results/traces/a", "0")}})
    (cell,) = (
        each
        for each in grid.expand_grid(live, "park2009")
        if "random-writes" in each.experiments and each.drive == "mtron-7500"
    )
    replay = cell.specification["replay"]
    assert (replay["trace"], replay["made_of"], replay.get("sha256")) == ("results/traces/a", "0", None)
    assert replay["compare"][0]["trace"] == shipped
