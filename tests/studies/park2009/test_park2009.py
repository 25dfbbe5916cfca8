"""Replays of applications: recordings, results of several runs, and the transcription of the paper."""

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import park2009
import pytest
import yaml
from linux_kernel import needs_kernel
from support import ROOT

from iopatterns import twin
from iopatterns.analysis import published, replays
from iopatterns.base import files, yaml_schema
from iopatterns.calls import stand_ins
from iopatterns.configuration import config, factors, grid, iologs
from iopatterns.measuring import recordings
from iopatterns.measuring import replays as replaying
from iopatterns.twin import linux, traces
from iopatterns.twin.traces import parquet
from iopatterns.workflow import capture, study_rules
from iopatterns.workflow.process_replays import ProcessReplay

READ, WRITE = traces.OPERATIONS["read"], traces.OPERATIONS["write"]
FOLDER = ROOT / "data/published/park2009"
CONTENT = yaml.safe_load((FOLDER / "claims.yaml").read_text(encoding="utf-8"))
MS = 10**6


def recorded(path: Path, rows: list[tuple[int, int, int]], marks_ms: dict[str, int], **asked: Any) -> dict[str, Any]:
    """Write a trace of (time in ms, operation, offset) with requests of 4 KiB; return the replay of a cell."""
    trace = pd.DataFrame(rows, columns=["arrival_ns", "operation", "offset_bytes"]).assign(size_bytes=4096)
    trace["arrival_ns"] *= MS
    trace = trace.astype(
        {"arrival_ns": "int64", "operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
    )
    parquet.write_requests(path, [trace], "made up", {name: at * MS for name, at in marks_ms.items()})
    return {"trace": path.name, "sha256": files.sha256(path), **asked}


def measured(path: Path, asked: dict[str, Any], model: str) -> dict[str, Any]:
    content, _ = replaying.replay_phase(twin.load_model(model), path.parent, asked)  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


# ---- Replays of several runs


def test_each_run_has_a_duration_without_the_time_between_runs(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    marks = {"prepare-run-1": 0, "run-1": 100, "prepare-run-2": 300, "run-2": 500, "end": 900}
    between = [(0, WRITE, 0), (350, WRITE, 8192)]
    runs = [(110, READ, 0), (150, READ, 4096), (510, READ, 0), (600, READ, 4096)]
    asked = recorded(path, sorted(between + runs), marks, phase="run-*")
    content = measured(path, asked, "x25-m")
    assert [round(run / MS) for run in content["runs_ns"]] == [40, 90]
    assert content["requests"]["read"]["count"] == 4
    assert "write" not in content["requests"]
    found = replays.replay_results(content)
    assert found["longest_run_s"] == max(content["runs_ns"]) / 1e9
    assert found["spread_of_runs"] == pytest.approx((90 - 40) / 65, rel=0.02)
    assert content["duration_ns"] == sum(content["runs_ns"])


def test_a_single_phase_has_no_results_of_runs(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    asked = recorded(path, [(0, WRITE, 0), (5, READ, 0)], {"run": 0, "end": 100}, phase="run")
    content = measured(path, asked, "x25-m")
    assert not {"runs_ns", "latency"} & set(content)
    assert not {name for name in replays.replay_results(content) if "run" in name or "peak" in name}


def test_a_disk_has_no_results_of_blocks(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    asked = recorded(path, [(0, WRITE, 0), (5, READ, 2**30)], {"run": 0, "end": 100}, phase="run")
    found = replays.replay_results(measured(path, asked, "caviar-se"))
    assert found["duration_s"] > 0.005
    assert np.isnan(found["occupied"])


def test_peaks_of_latency_are_recorded_with_their_positions(tmp_path: Path) -> None:
    # reads one at a time; every tenth is of 4 MiB
    path = tmp_path / "trace.parquet"
    rows = pd.DataFrame({"arrival_ns": np.arange(200) * 100 * MS, "operation": READ, "offset_bytes": 0})
    rows["size_bytes"] = np.where(np.arange(200) % 10 == 5, 2**22, 4096)
    rows["offset_bytes"] = np.arange(200) * 2**23
    types = {"arrival_ns": "int64", "operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
    parquet.write_requests(path, [rows.astype(types)], "made up", {"run": 0, "end": 200 * 100 * MS})
    asked = {"trace": path.name, "phase": "run", "sha256": files.sha256(path), "latencies": True}
    content = measured(path, asked, "x25-m")
    assert content["latency"]["standing_out"]["request"] == list(range(5, 200, 10))
    found = replays.replay_results(content)
    assert (found["peaks_per_thousand"], found["irregularity_of_peaks"]) == (100, 0)
    assert found["peak_latency_ms"] > 5 * found["median_latency_ms"]
    assert found["largest_latency_ms"] >= found["peak_latency_ms"]


def test_background_cleaning_leaves_enough_blocks_for_a_burst_of_writes() -> None:
    # the drive ran out of erased blocks on this trace when background gains reduced the cleaning of later writes
    model = twin.load_model("x25-m").overridden(["capacity.size=16 GiB"])
    counters = twin.replay_trace(
        model, ROOT / capture.SHIPPED_TRACES / "park2009/parallel-sandia-cth-x25-m.parquet", arrival_times=True
    ).counters
    assert counters["gc_runs_background"] > 0
    assert counters["gc_runs_foreground"] > 0
    assert counters["units_programmed"] == sum(counters[f"units_{what}"] for what in ("host", "moved", "padding"))


# ---- The grid


def test_a_drive_of_the_reader_replays_the_recording_of_the_configured_drive() -> None:
    drives = {"x25-m": "x25-m", "mine": "caviar-se"}
    conf = config.load_config(ROOT, {"drives": ["x25-m", "c400"], "studies": ["park2009"]})
    entry = {**conf.drives["c400"], "kind": "twin"}
    own = config.Config(**{**vars(conf), "drives": {"x25-m": conf.drives["x25-m"], "mine": entry}})
    for cell in grid.expand_grid(own, "park2009"):
        if cell.experiments[0].startswith("sequential-"):
            assert cell.specification["replay"]["trace"].endswith(f"-{drives[cell.drive]}.parquet")


def test_each_trace_has_the_phases_of_the_study() -> None:
    conf = config.load_config(
        ROOT, {"drives": ["x25-m", "mtron-7500", "caviar-se", "x25-m-used"], "studies": ["park2009"]}
    )
    asked = [
        cell.specification["replay"] for cell in grid.expand_grid(conf, "park2009") if "replay" in cell.specification
    ]
    runs = {"process-*": 10, "first": 1, "2-run-*": 3, "8-run-*": 3, "32-run-*": 3, "run": 1}
    for replay in asked:
        at_an_end = re.match(r"scattered|ordered|uncached", Path(replay["trace"]).name)
        found = recordings.phase_bounds(ROOT / replay["trace"], replay["phase"])
        assert len(found) == (2 if at_an_end else runs[replay["phase"]])
    assert {Path(replay["trace"]).stem for replay in asked} == {
        each.name for each in capture.load_recordings(ROOT, "park2009")
    }


def test_a_grid_can_name_all_stand_ins() -> None:
    assert set(factors.find_factor("stand_in").choices) == set(stand_ins.STAND_IN_NAMES)


@pytest.mark.parametrize("workload", stand_ins.STAND_IN_NAMES)
def test_the_first_process_of_a_stand_in_becomes_a_log_for_a_bare_drive(workload: str) -> None:
    specification: Any = {"fio": {"stand_in": workload, "bs": 4096}, "runtime_ms": 1000,
                          "drive": {"file_size_bytes": 2**30}}  # fmt: skip
    found = iologs.replayed_requests(specification, None, 1, 1000)
    assert found is not None
    moved = [request for request in found if request.action in {"read", "write"}]
    table = stand_ins.stand_in(workload).table()
    asked = table[(table["process"] == 0) & (table["size_bytes"] > 0)]
    assert len(moved) == len(asked)
    assert all(request.offset_bytes % 4096 == request.length_bytes % 4096 == 0 for request in moved)
    assert max(request.offset_bytes + request.length_bytes for request in moved) <= 2**28
    assert sum(request.length_bytes for request in moved) >= asked["size_bytes"].sum()


# ---- Tables


def study_of(times: dict[str, dict[str, float]]) -> Any:
    """Return a study with the longest runs (s) of replays, by experiment and drive."""
    rows = {
        experiment: pd.DataFrame(
            {"drive": list(of), "longest_run_s": list(of.values()), "duration_s": list(of.values())}
        ).assign(spread_of_runs=0.0)
        for experiment, of in times.items()
    }
    return SimpleNamespace(experiments=list(times), rows=rows.__getitem__)


TIMES = {
    "sequential-sandia-cth": {"x25-m": 1.0, "caviar-se": 4.0},
    "sequential-sandia-s3d": {"x25-m": 2.0, "caviar-se": 2.0},
    "first-sandia-cth": {"x25-m": 2.0, "caviar-se": 5.0},
    "first-sandia-s3d": {"x25-m": 3.0, "caviar-se": 6.0},
    "scattered-sandia-cth": {"x25-m": 1.0, "caviar-se": 8.0},
    "ordered-sandia-cth": {"x25-m": 1.0, "caviar-se": 1.0},
    "uncached-sandia-cth": {"x25-m": 1.0, "caviar-se": 2.0},
}


def test_the_first_process_has_a_row_of_its_own_below_the_ten() -> None:
    study = study_of(TIMES)
    found = park2009.completion_times(study, "sequential", "longest_run_s")
    table = park2009.sequential_table(found, park2009.completion_times(study, "first", "duration_s")).data
    assert list(zip(table["workload"].str[:10], table["process"], table["x25-m_time_s"], strict=True)) == [
        ("Sandia-cth", "Longest of ten", 1.0),
        ("Sandia-cth", "First, left out", 2.0),
        ("Sandia-s3d", "Longest of ten", 2.0),
        ("Sandia-s3d", "First, left out", 3.0),
    ]


@pytest.mark.parametrize(
    ("bound", "holds"),
    [
        ({"at_least": 0.1}, "everywhere"),
        ({"at_least": 0.5}, "in a part"),
        ({"at_most": 0.1}, "nowhere"),
    ],
)
def test_a_check_over_the_range_of_assumptions(bound: dict[str, float], holds: str) -> None:
    check = {"ratio": {}, "to": {"drive": "caviar-se"}, "of": "longest run", "experiment": "sequential-sandia-cth"}
    claim = {"id": "gain", "says": "It takes as long", "check": {**check, "where": {"drive": ["x25-m"]}, **bound}}
    elsewhere = {"id": "other", "says": "It is not varied", "check": {**check, "experiment": "sequential-sandia-s3d"}}
    table = park2009.claims_over_assumptions(study_of(TIMES), [claim, elsewhere]).data
    assert table[["claim", "drive", "lowest", "highest", "holds"]].to_numpy().tolist() == [
        ["gain", "x25-m", 0.125, 1.0, holds]
    ]


def test_a_ratio_of_ratios_over_the_range_of_assumptions() -> None:
    check = {
        "ratio": {"drive": "x25-m"},
        "to": {"drive": "caviar-se"},
        "over_ratio": {"experiment": "sequential-sandia-cth", "drive": "x25-m"},
        "over_to": {"experiment": "sequential-sandia-cth", "drive": "caviar-se"},
        "of": "longest run",
        "experiment": "sequential-sandia-s3d",
        "at_least": 1,
    }
    table = park2009.claims_over_assumptions(study_of(TIMES), [{"id": "c", "says": "s", "check": check}]).data
    # s3d takes as long on both drives; cth takes 1/8 to all of the disk's time on the SSD
    assert table[["lowest", "highest", "holds"]].to_numpy().tolist() == [[1.0, 8.0, "everywhere"]]


def test_the_notebook_runs_again_when_the_claims_that_it_shows_change() -> None:
    conf = config.load_config(ROOT)
    assert study_rules.shown_claims_files(conf, "park2009") == ["data/published/park2009/claims.yaml"]
    assert study_rules.shown_claims_files(conf, "kapoor") == []


# ---- Recordings


def test_fio_accepts_the_jobs_of_a_recording_with_a_log_per_process(tmp_path: Path) -> None:
    ProcessReplay.at_once("Sandia-cth", [2, 8], 2).write(tmp_path)
    jobs = (tmp_path / "replay.fio").read_text()
    assert jobs.count("read_iolog=") == 2 * (2 + 8)
    assert re.findall(r"\[before-(.*)\]", jobs) == ["2-run-1", "2-run-2", "8-run-1", "8-run-2"]
    for name in set(re.findall(rf"read_iolog={linux.GUEST_FOLDER}/(.*)", jobs)):
        assert (tmp_path / name).read_text().startswith("fio version 2 iolog\n")
    done = subprocess.run(
        ["fio", "--parse-only", tmp_path / "replay.fio"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    for script in ("before-run.sh", "after-process.sh"):
        assert subprocess.run(["sh", "-n", tmp_path / script], check=False).returncode == 0


def test_processes_start_at_different_times_that_differ_between_runs() -> None:
    first, second = ProcessReplay.at_once("Sandia-cth", [8], 2).runs
    starts = [[run.delay_ms(process) for process in run.processes] for run in (first, second)]
    assert starts[0] != starts[1]
    assert all(len(set(each)) > 4 for each in starts)
    assert max(map(max, starts)) < 20
    assert [run.delay_ms(run.processes[0]) for run in ProcessReplay.one_by_one("Sandia-cth", 3).runs] == [0] * 4


def test_all_files_exist_with_their_full_size_before_the_first_run(tmp_path: Path) -> None:
    ProcessReplay.one_by_one("Sandia-s3d", 2).write(tmp_path)
    sizes = [int(line.split()[1]) for line in (tmp_path / "files").read_text().splitlines()]
    assert sizes == [16 * 2**20] * 10 * 3
    ProcessReplay.one_by_one("LANL-1024KB", 2, changes={"reads_of": "next segment"}).write(tmp_path)
    assert (tmp_path / "files").read_text().split()[1] == str(4 * 160 * 2**20)


def test_one_more_process_runs_before_the_others() -> None:
    runs = ProcessReplay.one_by_one("Sandia-s3d", 2).runs
    assert [(run.name, run.processes) for run in runs] == [("first", (2,)), ("process-01", (0,)), ("process-02", (1,))]


def test_a_run_writes_all_data_when_its_last_process_has_ended(tmp_path: Path) -> None:
    ProcessReplay.at_once("Sandia-cth", [2], 1).write(tmp_path)
    assert (tmp_path / "replay.fio").read_text().count("after-process.sh 2-run-1 2\n") == 2
    script = (tmp_path / "after-process.sh").read_text().replace(linux.GUEST_FOLDER, str(tmp_path))
    (tmp_path / "here.sh").write_text(f"sync() {{ echo sync; }}\n{script}")
    ended = [
        subprocess.run(["sh", tmp_path / "here.sh", "2-run-1", "2"], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert ended == ["", "sync\n"]


@pytest.mark.slow
@needs_kernel
def test_a_new_recording_equals_the_shipped_trace(tmp_path: Path) -> None:
    name = "sequential-lanl-1024kb-caviar-se"
    provenance = json.loads((ROOT / capture.SHIPPED_TRACES / "park2009" / capture.PROVENANCE_FILE).read_text())
    kernel = (ROOT / ".linux/linux.txt").read_text()
    if provenance["kernel"]["kernel sha256"] not in kernel:
        pytest.skip("the shipped traces were recorded with another kernel")
    capture.record_trace(ROOT, "park2009", name, tmp_path / "trace.parquet")
    assert files.sha256(tmp_path / "trace.parquet") == provenance["traces"][name]["sha256"]


# ---- Transcription of the paper


def test_there_are_at_least_twenty_valid_checkable_claims() -> None:
    values = published.load_values(FOLDER)
    names = [claim["id"] for claim in CONTENT["claims"]]
    assert len(set(names)) == len(names)
    assert sum("untestable" not in claim for claim in CONTENT["claims"]) >= 20
    assert not set(names) & set(values["id"])
    yaml_schema.require_valid(
        "claims.yaml", CONTENT, yaml_schema.read_yaml(ROOT, "workflow/schemas/claims.schema.yaml")
    )


def test_the_stand_ins_have_the_shares_and_sizes_of_the_paper() -> None:
    values = published.load_values(FOLDER).set_index("id")["value"]
    for workload, its in stand_ins.STAND_IN_PARAMETERS.items():
        if f"table1-{workload.lower()}-reads" in values:
            assert its["read_share"].value == values[f"table1-{workload.lower()}-reads"]
    assert stand_ins.STAND_IN_PARAMETERS["LANL-64KB"]["request_kb"].value == values["lanl-64kb-size"]
    assert stand_ins.STAND_IN_PARAMETERS["LANL-1024KB"]["request_kb"].value == values["lanl-1024kb-size"]


def test_the_three_models_are_fitted_to_table_ii_alone() -> None:
    for model in ("x25-m", "mtron-7500", "caviar-se"):
        fit = yaml.safe_load((ROOT / f"data/twins/{model}.yaml").read_text())["fit"]
        assert set(fit["fitted"]) <= {f"table2-{model}-read", f"table2-{model}-write"}
        assert "predicted" not in fit


def test_all_drives_of_the_values_are_in_the_study() -> None:
    drives = yaml_schema.read_yaml(ROOT, "config/studies/park2009.yaml")["twins"]
    assert set(published.load_values(FOLDER)["drive_key"]) - {""} == set(
        published.load_source_drives(FOLDER)["drive_key"]
    )
    assert set(published.load_source_drives(FOLDER)["drive_key"]) <= set(drives)


def test_all_workloads_are_labelled_as_stand_ins() -> None:
    study = yaml.safe_load((ROOT / "config/studies/park2009.yaml").read_text())
    of_workloads = [name for name, body in study["experiments"].items() if "replay" in body and name != "random-writes"]
    assert len(of_workloads) == 24
    assert all(park2009.workload_label(name).endswith("(stand-in)") for name in of_workloads)
