"""Replay of traces: each request over once, within what physics allows, the same each time; and fits."""

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.twin.fitting import MeasuredPoint, published_points, read_points, recorded_run, simulate_point

# without the read cache, so that every read is one of the flash
MODEL = twin.load_model("px05smb040").overridden(["read_cache.enabled=off"])
SMALL = MODEL.overridden(["capacity.size=1GiB", "flash.pages_per_block=16", "flash.dies_per_channel=1"])
# The models whose published values are those of a study of the project
FITTED = [name for name in twin.list_models() if (ROOT / twin.load_model(name).fit.get("points", "none")).exists()]


def trace(count: int, operation: int = 0, seed: int = 1, span_bytes: int = 2**28, gap_ns: int = 0) -> pd.DataFrame:
    numbers = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "operation": np.full(count, operation, dtype=np.uint8),
            "offset_bytes": numbers.integers(0, span_bytes // 4096, count, dtype=np.uint64) * np.uint64(4096),
            "size_bytes": np.full(count, 4096, dtype=np.uint64),
            "arrival_ns": np.arange(count, dtype=np.int64) * gap_ns,
        }
    )


def test_each_request_is_over_once_and_never_faster_than_physics() -> None:
    done = twin.replay_trace(MODEL, trace(5000), depth=16)
    assert sorted(done.latencies["request"]) == list(range(5000))
    floor_ns = MODEL.number("flash.read_time") + 4096 / MODEL.number("link.rate") * 1e9
    assert done.latencies["latency_ns"].min() >= floor_ns


def test_no_depth_gets_more_than_the_link_carries() -> None:
    rates = []
    for depth in (1, 4, 32, 256):
        done = twin.replay_trace(MODEL, trace(4000), depth=depth, threads=4)
        rates.append(4000 * 4096 / done.duration_ns * 1e9)
    assert max(rates) <= MODEL.number("link.rate")
    assert all(after > 0.99 * before for before, after in pairwise(rates))


def test_the_search_for_a_segment_shows_only_where_it_outlasts_the_data() -> None:
    base = MODEL.overridden(["write_buffer.segment_search_time=0", "link.rate=1 GB/s"])
    searching = base.overridden(["write_buffer.segment_search_time=50 us"])

    def mean_us(model: twin.models.Model, size_bytes: int) -> float:
        writes = trace(500, operation=1, span_bytes=2**26).assign(size_bytes=np.uint64(size_bytes))
        writes["offset_bytes"] = (writes["offset_bytes"] // 2**17 * 2**18).astype("uint64")
        return float(twin.replay_trace(model, writes, depth=1).latencies["latency_ns"].mean() / 1e3)

    # 4 KiB take 4.1 us over the link, 128 KiB 131 us
    assert mean_us(searching, 4096) - mean_us(base, 4096) == pytest.approx(50 - 4.096, abs=1.0)
    assert mean_us(searching, 131072) == pytest.approx(mean_us(base, 131072), abs=0.5)


@pytest.mark.parametrize(
    ("faster", "value"),
    [("flash.read_time", "20 us"), ("link.rate", "4 GB/s"), ("controller.read_command_time", "1 us")],
)
def test_a_faster_part_makes_no_reader_slower(faster: str, value: str) -> None:
    before = twin.replay_trace(MODEL, trace(3000), depth=8).duration_ns
    assert twin.replay_trace(MODEL.overridden([f"{faster}={value}"]), trace(3000), depth=8).duration_ns <= before


def test_units_programmed_are_those_of_the_host_those_moved_and_padding() -> None:
    for state in ("fresh", "sequential", "random"):
        model = SMALL.overridden([f"ftl.initial_state={state}"])
        counters = twin.replay_trace(model, trace(600_000, 1, span_bytes=2**30), depth=32).counters
        parts = counters["units_host"] + counters["units_moved"] + counters["units_padding"]
        assert counters["units_programmed"] == parts
        assert counters["units_host"] > 0
        assert counters["units_moved"] > 0
        assert counters["block_erases"] > 0


def test_mapping_cache_hits_and_misses_are_all_lookups() -> None:
    model = SMALL.overridden(["page_mapping.map_cache_coverage=0.1"])
    done = twin.replay_trace(model, trace(20_000, span_bytes=2**30), depth=4)
    assert done.counters["map_read_hits"] + done.counters["map_read_misses"] == 20_000
    assert done.counters["map_read_misses"] > 10_000
    slower = done.latencies["latency_ns"].mean()
    assert slower > twin.replay_trace(SMALL, trace(20_000, span_bytes=2**30), depth=4).latencies["latency_ns"].mean()


def test_discarded_data_cost_no_flash_to_read() -> None:
    everything = {"operation": [3], "offset_bytes": [0], "size_bytes": [2**28]}
    discard = pd.DataFrame(everything).astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    done = twin.replay_trace(MODEL, [discard, trace(1000)[discard.columns]], depth=1)
    assert done.counters["page_reads"] == 0


OPERATIONS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4000), st.integers(1, 64), st.integers(0, 200_000)),
    min_size=1,
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(
    requests=OPERATIONS,
    depth=st.none() | st.integers(1, 40),
    model=st.sampled_from(["px05smb040", "hard-disk", "c400"]),
)
def test_any_trace_is_replayed_the_same_whole_and_in_pieces(
    requests: list[tuple[int, ...]], depth: int | None, model: str
) -> None:
    table = pd.DataFrame(requests, columns=["operation", "block", "blocks", "gap"])
    whole = pd.DataFrame(
        {
            "operation": table["operation"].astype("uint8"),
            "offset_bytes": table["block"].astype("uint64") * np.uint64(4096),
            "size_bytes": table["blocks"].astype("uint64") * np.uint64(512),
            "arrival_ns": table["gap"].cumsum().astype("int64"),
        }
    )
    drive = twin.load_model(model)
    once = twin.replay_trace(drive, whole, depth=depth)
    assert sorted(once.latencies["request"]) == list(range(len(whole)))
    assert (once.latencies["latency_ns"] > 0).all()
    middle = len(whole) // 2
    pieces = twin.replay_trace(drive, [whole.iloc[:middle], whole.iloc[middle:]], depth=depth)
    pd.testing.assert_frame_equal(once.latencies, pieces.latencies)
    assert once.counters == pieces.counters


@pytest.mark.slow
def test_latencies_and_counters_are_written(tmp_path: Path) -> None:
    trace(3000, gap_ns=20_000).assign(operation="read").rename(columns={"arrival_ns": "time_ns"}).to_csv(
        tmp_path / "trace.csv", index=False
    )
    said = command(
        "replay", "px05smb040", str(tmp_path / "trace.csv"), "--output", str(tmp_path / "latencies.csv"),
        "--counters", str(tmp_path / "counters.csv"), "--interval", "10 ms",
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert len(pd.read_csv(tmp_path / "latencies.csv")) == 3000
    series = pd.read_csv(tmp_path / "counters.csv")
    depth = series[series["series"] == "queue_depth"]["value"]
    assert (len(depth), depth.iloc[-1]) == (6000, 0)
    assert {"read_commands", "valid_ratio", "erase_count"} <= set(series["series"])


@pytest.mark.slow
@pytest.mark.parametrize("name", FITTED)
def test_fitting_a_shipped_model_again_gives_its_values(name: str) -> None:
    model = twin.load_model(name)
    found = twin.fit_model(model, published_points(ROOT, model.fit), model.fit["moved"], recorded_run(model.fit))
    assert found.moved == {key: model.values[key] for key in model.fit["moved"]}


def test_a_point_may_count_one_direction_of_a_mix(tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text(
        "id,rw,bs,value,unit,rwmixread,quantity\n"
        "both,randrw,4k,1000,IOPS,75,iops\n"
        "reads,randrw,4k,750,IOPS,75,read iops\n"
        "writes,randrw,4k,250,IOPS,75,write iops\n"
    )
    both, reads, writes = (simulate_point(MODEL, point) for point in read_points(points))
    assert reads == pytest.approx(0.75 * both)
    assert writes == pytest.approx(0.25 * both)
    for mix, quantity in ((75, "share"), (101, "iops"), (100, "write iops")):
        points.write_text(f"id,rw,bs,value,unit,rwmixread,quantity\na,randrw,4k,1000,IOPS,{mix},{quantity}\n")
        if quantity == "share":
            assert read_points(points)[0].direction == ""
            continue
        with pytest.raises(twin.TwinError, match="rwmixread"):
            read_points(points)


def test_where_submitting_blocks_a_thread_has_one_request_in_flight() -> None:
    model = MODEL.overridden(["host.blocking_submit=on"])
    one, many = (twin.replay_trace(model, trace(500), depth=depth) for depth in (1, 32))
    assert many.duration_ns == one.duration_ns
    assert many.counters["queue_depth_max"] == 1
    assert twin.replay_trace(MODEL, trace(500), depth=32).duration_ns < one.duration_ns / 2


def test_a_fit_finds_the_parameters_that_made_the_points(tmp_path: Path) -> None:
    truth = MODEL.overridden(["flash.read_time=90 us", "link.rate=700 MB/s"])
    lines = ["id,rw,bs,value,unit"]
    for point in (
        MeasuredPoint("a", "read", 4096, 1, "MB/s"),
        MeasuredPoint("b", "read", 28672, 1, "MB/s"),
        MeasuredPoint("c", "randread", 4096, 1, "MB/s"),
    ):
        lines.append(f"{point.id},{point.rw},{point.bs_bytes},{simulate_point(truth, point)},MB/s")
    (tmp_path / "points.csv").write_text("\n".join(lines) + "\n")
    fitted = tmp_path / "fitted.yaml"
    words = ["--points", str(tmp_path / "points.csv"), "--move", "flash.read_time", "--move", "link.rate"]
    said = command("fit", "px05smb040", *words, "--output", str(fitted))
    assert said.returncode == 0, said.stderr
    model = twin.load_model(fitted)
    assert model.number("flash.read_time") == pytest.approx(90_000, rel=0.05)
    assert model.number("link.rate") == pytest.approx(700e6, rel=0.02)
    assert model.sources["flash.read_time"][0] == "fitted"
    assert not math.isnan(float(model.fit["fitted"][lines[1].split(",")[0]].split()[1]))


def test_a_fit_counts_after_the_ramp_time_on_the_drive_as_it_is_set(tmp_path: Path) -> None:
    # With a large buffer a drive writes more at first than it can keep up
    cut = ("capacity.size=4 GiB", "write_buffer.size=256 MiB")
    program_time_ns = 2 * int(MODEL.number("flash.program_time"))
    slow = MODEL.replaced({"flash.program_time": program_time_ns}).overridden(cut)
    points = tmp_path / "points.csv"
    points.write_text("id,rw,bs,value,unit\na,write,128k,376,MB/s\n")
    (point,) = read_points(points)
    sustained = simulate_point(slow, point, run=twin.PointRun(ramp_time_s=2, runtime_s=1))
    assert sustained < 0.6 * simulate_point(slow, point, run=twin.PointRun(runtime_s=0.5))
    points.write_text(f"id,rw,bs,value,unit\na,write,128k,{sustained},MB/s\n")
    begin = tmp_path / "begin.yaml"
    begin.write_text(
        re.sub(r"( program_time: {value: )[^,]+", rf"\g<1>{17 * program_time_ns // 20} ns", MODEL.path.read_text())
    )
    words = ["--points", str(points), "--move", "flash.program_time", "--ramp-time", "2", "--runtime", "1"]
    words += [word for each in cut for word in ("--set", each)]
    fitted = tmp_path / "fitted.yaml"
    said = command("fit", str(begin), *words, "--output", str(fitted))
    assert said.returncode == 0, said.stderr
    model = twin.load_model(fitted)
    assert model.number("flash.program_time") == pytest.approx(program_time_ns, rel=0.02)
    assert model.number("capacity.size") == MODEL.number("capacity.size")
    # the file says how, so that the fit can be repeated
    assert recorded_run(model.fit) == twin.PointRun(2, 1, {"capacity.size": "4 GiB", "write_buffer.size": "256 MiB"})
    unknown = command("fit", "px05smb040", *words, "--set", "flash.reed_time=1 us")
    assert unknown.returncode == 2
    assert "--set flash.reed_time" in unknown.stderr


def test_fits_that_cannot_be_are_told(tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("id,rw,bs,value,unit\na,read,4k,100,MB/s\n")
    few = command("fit", "px05smb040", "--points", str(points), "--move", "link.rate", "--move", "flash.read_time")
    assert (few.returncode, "cannot be found from 1 points" in few.stderr) == (2, True)
    odd = command("fit", "px05smb040", "--points", str(points), "--move", "link.rat")
    assert (odd.returncode, "Did you mean 'link.rate'" in odd.stderr) == (2, True)
    points.write_text("id,rw,bs,value,unit\na,read,4k,100,parsecs\n")
    unit = command("fit", "px05smb040", "--points", str(points), "--move", "link.rate")
    assert (unit.returncode, "no unit 'parsecs'" in unit.stderr) == (2, True)


def measured(tmp_path: Path, job_file: str, *options: str) -> Path:
    """Return what fio writes of a job file on the twin px05smb040."""
    (tmp_path / "job.fio").write_text(job_file)
    output = tmp_path / "measured.json"
    words = ["run", "px05smb040", "--", "fio", "--filename={drive}", "--direct=1", "--output-format=json", *options]
    said = command(*words, f"--output={output}", str(tmp_path / "job.fio"))
    assert said.returncode == 0, said.stderr
    return output


GROUPED = "[a]\nrw=randread\nbs=4k\nsize=1g\nruntime=200ms\ntime_based\nnumjobs=8\n"


def test_a_point_of_fio_is_that_of_all_jobs_of_a_section_grouped_or_not(tmp_path: Path) -> None:
    rates = []
    for grouping in ("", "group_reporting\n"):
        path = measured(tmp_path, GROUPED + grouping)
        document = json.loads(path.read_text())
        assert len(document["jobs"]) == (1 if grouping else 8)
        for options in (document["global options"], document["jobs"][0]["job options"]):
            options.pop("group_reporting", None)  # as fio before 3.39 writes it
        path.write_text(json.dumps(document))
        [point] = read_points(path)
        assert (point.numjobs, point.iodepth, point.rw) == (8, 1, "randread")
        rates.append(point.value)
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def test_several_sections_in_one_group_are_refused(tmp_path: Path) -> None:
    second = GROUPED.replace("[a]", "[b]")
    with pytest.raises(twin.TwinError, match="the jobs a and b ran at the same time"):
        read_points(measured(tmp_path, GROUPED + second))
    with pytest.raises(twin.TwinError, match=r"job a: .* 1[56]\.[0-9] requests were outstanding .* options allow 8"):
        read_points(measured(tmp_path, GROUPED + "group_reporting\n" + second + "group_reporting\n"))
    apart = read_points(measured(tmp_path, GROUPED + "group_reporting\n" + second + "stonewall\ngroup_reporting\n"))
    assert [(point.id, point.numjobs) for point in apart] == [("measured.json:a:read", 8), ("measured.json:b:read", 8)]


def test_a_fit_far_from_its_points_fails_and_writes_nothing(tmp_path: Path) -> None:
    points, fitted = tmp_path / "points.csv", tmp_path / "fitted.yaml"
    points.write_text("id,rw,bs,value,unit\nslow,randread,4k,100,IOPS\nfast,randread,8k,20000,IOPS\n")
    words = ["fit", "px05smb040", "--points", str(points), "--move", "flash.read_time", "--output", str(fitted)]
    said = command(*words)
    assert said.returncode == 1
    assert "no fit" in said.stderr
    assert "more than 20 % (most at slow, +" in said.stderr
    assert "Predicted" not in said.stdout
    assert "slow " in said.stdout  # the report is there to see why
    assert not fitted.exists()
    assert command(*words, "--most-error", "10000").returncode == 0
    assert fitted.exists()


def test_a_parameter_that_ends_at_its_bound_is_told(tmp_path: Path) -> None:
    points, fitted = tmp_path / "points.csv", tmp_path / "fitted.yaml"
    slow = 4096 / MODEL.number("link.rate") * 20  # more than ten times the time of the link
    points.write_text(f"id,rw,bs,value,unit\na,read,1m,{1 / slow / 256},IOPS\n")
    words = ["--points", str(points), "--move", "link.rate", "--output", str(fitted), "--most-error", "500"]
    said = command("fit", "px05smb040", *words)
    assert said.returncode == 0, said.stderr
    assert "It ended at the bound of the search, a tenth of the value it began with" in said.stdout
    assert twin.load_model(fitted).fit["at_bounds"] == {"link.rate": "a tenth of the value it began with"}
