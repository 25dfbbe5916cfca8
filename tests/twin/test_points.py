"""Measured points are read from real output of fio, or refused with the reason and the remedy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from twins import command

from iopatterns import twin
from iopatterns.twin import points

JOB = "[a]\nrw=randread\nbs=4k\nsize=1g\nruntime=200ms\ntime_based\n"
GROUPED = JOB + "numjobs=8\n"


def measured(folder: Path, job_file: str, *options: str, name: str = "measured.json") -> Path:
    """Run a job file on a simulated drive; return fio's JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.fio").write_text(job_file)
    words = ["run", "px05smb040", "--", "fio", "--filename={drive}", "--direct=1", "--output-format=json", *options]
    said = command(*words, f"--output={folder / name}", str(folder / "job.fio"))
    assert said.returncode == 0, said.stderr
    return folder / name


def edited(path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(twin.TwinError, match="no measured points to use") as raised:
        twin.read_points([path])
    return str(raised.value).split("\n")[1]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("one"), JOB + "ramp_time=100ms\niodepth=4\nioengine=libaio\n")


def test_workload_conditions_and_figures_are_taken_from_fio(one: Path) -> None:
    (row,) = twin.read_points([one]).table.to_dict("records")
    (job,) = json.loads(one.read_text())["jobs"]
    assert (row["rw"], row["bs_bytes"], row["iodepth"], row["numjobs"]) == ("randread", 4096, 4, 1)
    assert (row["engine"], row["direct"], row["size_bytes"], row["ramp_s"]) == ("libaio", 1, 2**30, 0.1)
    assert row["runtime_s"] == pytest.approx(0.2, abs=0.01)
    assert row["drive"] == "/dev/twin-px05smb040"
    assert row["read_iops"] == pytest.approx(job["read"]["iops"])
    assert row["read_lat_mean_us"] == pytest.approx(job["read"]["lat_ns"]["mean"] / 1e3)
    assert row["read_clat_p99_us"] == job["read"]["clat_ns"]["percentile"]["99.000000"] / 1e3
    assert np.isnan(row["write_iops"])


def test_files_folders_and_globs_are_read(tmp_path: Path, one: Path) -> None:
    for name in ("randread-4-1.json", "randread-4-2.json"):
        (tmp_path / "drive/4k").mkdir(parents=True, exist_ok=True)
        (tmp_path / "drive/4k" / name).write_bytes(one.read_bytes())
    (tmp_path / "drive/settings.json").write_text('{"any": 1}')
    found = twin.read_points([tmp_path])
    assert len(found.table) == 2
    assert [line for line in found.refused if "settings.json" in line]
    pd.testing.assert_frame_equal(twin.read_points([f"{tmp_path}/drive/*/randread-*"]).table, found.table)
    for missing in (tmp_path / "none", tmp_path / "none*.json"):
        with pytest.raises(twin.TwinError, match="no such file or folder"):
            twin.read_points([missing])
    with pytest.raises(twin.TwinError, match=r"no file in this folder ends in \.json"):
        twin.read_points([_empty(tmp_path)])


def _empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def test_a_table_of_points_equals_the_output_of_fio(tmp_path: Path, one: Path) -> None:
    found = twin.read_points([one]).table
    found.to_csv(tmp_path / "points.csv", index=False)
    again = twin.read_points([tmp_path / "points.csv"]).table
    pd.testing.assert_frame_equal(again, found)


def test_a_point_of_fio_is_the_total_of_all_jobs_of_a_section_grouped_or_not(tmp_path: Path) -> None:
    rates = []
    for grouping in ("", "group_reporting\n"):
        path = measured(tmp_path, GROUPED + grouping)
        document = json.loads(path.read_text())
        assert len(document["jobs"]) == (1 if grouping else 8)
        for options in (document["global options"], document["jobs"][0]["job options"]):
            options.pop("group_reporting", None)  # as fio before 3.39 writes it
        path.write_text(json.dumps(document))
        (row,) = twin.read_points([path]).table.to_dict("records")
        assert (row["numjobs"], row["iodepth"], row["rw"]) == (8, 1, "randread")
        rates.append(row["read_iops"])
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def test_a_file_without_output_of_fio_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n")
    line = refusal(path)
    assert "no JSON output of fio found" in line
    assert line.count(str(path)) == 1


def test_sections_that_ran_at_the_same_time_are_refused(tmp_path: Path) -> None:
    second = GROUPED.replace("[a]", "[b]")
    assert "job a: it ran at the same time as job b" in refusal(measured(tmp_path, GROUPED + second))
    grouped = GROUPED + "group_reporting\n" + second + "group_reporting\n"
    assert "requests were outstanding (Little's law), but its options allow 8" in refusal(measured(tmp_path, grouped))
    apart = measured(tmp_path, GROUPED + "group_reporting\n" + second + "stonewall\ngroup_reporting\n")
    found = twin.read_points([apart]).table
    assert found["numjobs"].tolist() == [8, 8]
    assert [source.rpartition(":")[2] for source in found["source"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("direct=0", "through the page cache of the operating system. Measure with direct=1."),
        ("rate_iops=1000", "rate_iops=1000 limits its rate. Measure without rate_iops."),
        ("rate=1m", "rate=1m limits its rate"),
        ("thinktime=1000", "thinktime=1000 limits its rate"),
        ("bssplit=4k/50:8k/50", "its option bssplit=4k/50:8k/50 cannot be simulated. Measure without bssplit."),
        ("rw=write\nfsync=1", "its option fsync=1 cannot be simulated"),
        ("offset=1m", "its option offset=1m cannot be simulated"),
        ("bs=4k,64k", "bs=4k,64k is not simulated"),
        ("rw=rw", "rw=rw is not simulated. Measure one of read, randread"),
        ("rw=read\nnumjobs=4\ngroup_reporting", "its 4 jobs read or write the same blocks in sequence"),
        ("size=50%", "size=50% leaves the region open"),
    ],
)
def test_a_job_that_cannot_represent_the_drive_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    path = measured(tmp_path, f"[global]\n{JOB.split(chr(10), 1)[1]}[a]\n{lines}\n", *_direct(lines))
    assert message in refusal(path)


def _direct(lines: str) -> list[str]:
    return ["--direct=0"] if lines == "direct=0" else []


def test_an_engine_that_is_not_simulated_is_refused(one: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(one.read_bytes())

    def engine(document: dict[str, Any], name: str) -> None:
        document["jobs"][0]["job options"]["ioengine"] = name

    assert "ioengine=posixaio is not simulated. Measure with libaio" in refusal(
        edited(path, lambda document: engine(document, "posixaio"))
    )
    found = twin.read_points([edited(path, lambda document: engine(document, "io_uring"))])
    assert found.table["iodepth"].tolist() == [4]
    assert found.notes == [
        "Points with ioengine=io_uring are simulated as libaio: the model has one way to submit requests."
    ]


def test_requests_that_did_not_overlap_and_failed_jobs_are_refused(one: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(one.read_bytes())
    edited(path, lambda document: document["jobs"][0]["job options"].update(iodepth="64"))
    assert "of 64 requests were outstanding (Little's law)" in refusal(path)
    edited(path, lambda document: document["jobs"][0].update(error=5))
    assert "fio reports error 5. Repeat the measurement." in refusal(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"read": {"iops": "fast"}}, "read.iops: expected a number, found a string. Repeat the measurement."),
        ({"read": {"iops": float("nan")}}, "it states no rate of its requests. Repeat the measurement."),
        ({"job options": {"offset_increment": "10%"}}, "offset_increment=10% is not a size in bytes"),
        ({"job options": {"blockalign": "x"}}, "blockalign=x is not a size in bytes"),
        ({"job options": {"bs": "4k-64k"}}, "bs=4k-64k is not simulated. Measure one size"),
        ({"job options": {"bsrange": "4k-64k"}}, "its option bsrange=4k-64k cannot be simulated"),
        ({"job options": {"iodepth_batch_submit": "4"}}, "its option iodepth_batch_submit=4 cannot be simulated"),
        ({"job options": {"direct": "0"}}, "direct=1 is not among its options"),
    ],
)
def test_unusual_output_of_fio_is_refused(one: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(one.read_bytes())

    def edit(document: dict[str, Any]) -> None:
        document["global options"].pop("direct", None)
        document["jobs"][0]["job options"].setdefault("direct", "1")
        for key, values in change.items():
            document["jobs"][0][key].update(values)

    line = refusal(edited(path, edit))
    assert message in line
    assert line.count(str(path)) == 1


def test_missing_latencies_leave_the_other_figures(one: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(one.read_bytes())
    (row,) = twin.read_points([edited(path, lambda text: text["jobs"][0]["read"].pop("clat_ns"))]).table.to_dict(
        "records"
    )
    assert row["read_lat_mean_us"] > 0
    assert np.isnan(row["read_clat_p99_us"])
    edited(path, lambda text: text["jobs"][0]["read"]["lat_ns"].update(mean=0.0))
    (row,) = twin.read_points([path]).table.to_dict("records")
    assert row["read_iops"] > 0
    assert np.isnan(row["read_lat_mean_us"])


def test_other_json_files_of_a_folder_are_named_and_left_out(one: Path, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(one.read_bytes())
    (tmp_path / "cut.json").write_bytes(one.read_bytes()[:3000])
    (tmp_path / "package.json").write_text('{"name": "x"}')
    found = twin.read_points([tmp_path])
    assert len(found.table) == 1
    cut, package = found.refused
    assert "cut.json: line 1" in cut or "the JSON is truncated" in cut
    assert "package.json" in package
    assert "this JSON is not output of fio" in package


def test_rates_above_the_link_are_refused_as_unwritten(one: Path) -> None:
    model = twin.load_model("ssdsc2kg480g7")
    found = twin.read_points([one])
    fast = found.table.assign(read_iops=200_000.0, source="fast")
    both = points.Points(pd.concat([found.table, fast], ignore_index=True))
    left = points.possible_points(both, model)
    assert left.table["read_iops"].tolist() == found.table["read_iops"].tolist()
    (line,) = left.refused
    assert line.startswith("fast: it transfers 819 MB/s, but the link of the drive")
    assert "never written" in line
    with pytest.raises(twin.TwinError, match="no measured points to use"):
        points.possible_points(points.Points(fast), model)


def test_points_of_several_drives_are_refused(one: Path) -> None:
    table = twin.read_points([one]).table
    both = pd.concat([table, table.assign(drive="/dev/other")], ignore_index=True)
    with pytest.raises(twin.TwinError, match="several drives: /dev/other, /dev/twin-px05smb040"):
        points.possible_points(points.Points(both), twin.load_model("px05smb040"))
    # a table may have points of several twins
    named = points.Points(both.assign(drive=["px05smb040", "/dev/other"]))
    assert len(points.possible_points(named, twin.load_model("px05smb040")).table) == len(both) / 2


def test_interim_results_are_no_points(one: Path, tmp_path: Path) -> None:
    document = json.loads(one.read_text())
    interim = json.loads(one.read_text())
    interim["timestamp"] -= 1
    interim["jobs"][0]["elapsed"] = document["jobs"][0]["elapsed"] - 1
    path = tmp_path / "interim.json"
    path.write_text(json.dumps(interim) + "\n" + json.dumps(document))
    assert len(twin.read_points([path]).table) == 1


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("rw,bs_bytes,iodepth,numjobs", "randread,4096,1,1", "line 1: no column with a figure"),
        ("rw,iodepth,numjobs,read_iops", "randread,1,1,9", "line 1: no column 'bs_bytes'"),
        ("rw,bs,iodepth,numjobs,read_iops", "randread,4k,1,1,fast", "line 2: read_iops is 'fast'"),
        ("rw,bs,iodepth,numjobs,read_iops", "randread,4k,1,1,-5", "line 2: read_iops is -5"),
        ("rw,bs,iodepth,numjobs,read_iops,direct", "randread,4k,1,1,5,0", "through the page cache"),
        ("rw,bs,iodepth,numjobs,write_iops", "randread,4k,1,1,5", "line 2: no figure is given"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, header: str, row: str, message: str) -> None:
    (tmp_path / "points.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(twin.TwinError, match=message):
        twin.read_points([tmp_path / "points.csv"])


def many(count: int) -> pd.DataFrame:
    rows = [
        {"rw": "randread", "bs_bytes": 4096, "iodepth": depth, "numjobs": 1, "read_iops": 1000.0 * depth}
        for depth in range(1, count + 1)
    ]
    table = pd.DataFrame(rows).reindex(columns=[*points.POINT_COLUMNS])
    return table.assign(part="", drive="", engine="", source="")


def test_a_share_of_the_points_is_held_out_by_hash_and_seed() -> None:
    table = pd.concat([many(12), many(12)], ignore_index=True)
    split = points.with_parts(table, seed=1)
    assert (split["part"][:12] == "held out").sum() == 3
    assert split["part"][:12].tolist() == split["part"][12:].tolist()  # repeats share the part
    assert points.with_parts(table, seed=1)["part"].tolist() == split["part"].tolist()
    assert points.with_parts(table, seed=2)["part"].tolist() != split["part"].tolist()
    assert set(points.with_parts(table, held_out=0)["part"]) == {"fit"}


def test_a_column_with_parts_replaces_the_split() -> None:
    table = many(4).assign(part=["fit", "selection", "", "test"])
    assert points.with_parts(table)["part"].tolist() == ["fit", "selection", "fit", "test"]


def test_repeats_become_one_point_with_their_noise() -> None:
    table = pd.concat([many(2), many(1).assign(read_iops=1500.0)], ignore_index=True)
    merged, noise = points.merged_repeats(table)
    assert merged["read_iops"].tolist() == pytest.approx([(1000 * 1500) ** 0.5, 2000])
    assert noise["read_iops"][0] == pytest.approx(np.log(1.5) / 2**0.5)
    assert np.isnan(noise["read_iops"][1])


def test_a_value_can_count_one_direction_of_a_mix(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    header = "id,rw,bs,value,unit,rwmixread,quantity"
    rows = ["b,randrw,4k,1000,IOPS,75,iops", "r,randrw,4k,750,IOPS,75,read iops", "w,randrw,4k,250,IOPS,75,write iops"]
    path.write_text("\n".join([header, *rows]) + "\n")
    found = twin.read_points([path]).table[["read_iops", "write_iops"]].fillna(0).to_numpy().tolist()
    assert found == [[750, 250], [750, 0], [0, 250]]
    for mix, quantity in ((101, "iops"), (100, "write iops")):
        path.write_text(f"{header}\na,randrw,4k,1000,IOPS,{mix},{quantity}\n")
        with pytest.raises(twin.TwinError, match=f"rwmixread.*{mix}"):
            twin.read_points([path])
