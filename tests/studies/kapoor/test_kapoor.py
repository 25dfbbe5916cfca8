"""Replays of made-up traces, Kapoor's jobs and figures, and the transcription of the paper."""

import io
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kapoor
import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image, ImageSequence
from recorded import Recorded
from support import ROOT

from iopatterns import twin
from iopatterns.analysis import published, replays
from iopatterns.base import files, schedulers, yaml_schema
from iopatterns.base.units import parse_size
from iopatterns.measuring import recordings
from iopatterns.measuring import replays as replaying
from iopatterns.twin import traces
from iopatterns.twin.traces import parquet
from iopatterns.workflow import capture

READ, WRITE, DISCARD = (traces.OPERATIONS[name] for name in ("read", "write", "discard"))
FOLDER = ROOT / "data/published/kapoor"
WORKLOADS = ROOT / "data/workloads/kapoor"
KAPOOR = Recorded("kapoor")
CONTENT = yaml.safe_load((FOLDER / "claims.yaml").read_text(encoding="utf-8"))


def recorded(path: Path, operations: list[int], offsets: list[int], size: int, first: int) -> dict[str, str]:
    """Write a made-up trace with a request per millisecond, whose phase run begins at request `first`."""
    count = len(operations)
    trace = pd.DataFrame({"operation": operations, "offset_bytes": offsets, "size_bytes": size})
    trace = trace.astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    trace["arrival_ns"] = np.arange(count, dtype="int64") * 10**6
    phases_ns = {"prepare": 0, "run": first * 10**6, "end": (count + 500) * 10**6}
    parquet.write_requests(path, [trace], "made up", phases_ns)
    return {"trace": path.name, "phase": "run", "sha256": files.sha256(path)}


def replayed(
    tmp_path: Path, operations: list[int], offsets: list[int], size: int, *overridden: str, first: int = 0
) -> dict[str, float]:
    """Return the results of the phase run of such a trace on the model."""
    path = tmp_path / "trace.parquet"
    asked = recorded(path, operations, offsets, size, first)
    content, _ = replaying.replay_phase(twin.load_model("wiscsim").overridden(list(overridden)), tmp_path, asked)  # type: ignore[arg-type]
    return replays.replay_results(json.loads(json.dumps(content)))


SMALL = ("capacity.size=128 MiB", "ftl.over_provisioning=1", "page_mapping.gc_reserve=13")
MAP = ("capacity.size=256 MiB", "page_mapping.gc_reserve=16")


def test_only_the_requested_phase_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    asked = recorded(path, [WRITE] * 8 + [READ] * 4, [number * 2**15 for number in range(12)], 2**15, 8)
    content, totals = replaying.replay_phase(twin.load_model("wiscsim"), tmp_path, asked)  # type: ignore[arg-type]
    assert {name: each["count"] for name, each in content["requests"].items()} == {"read": 4}
    assert (totals["write_commands"], content["counters"]["write_commands"]) == (8, 0)
    assert content["counters"]["read_commands"] == 4
    assert 3e6 < content["duration_ns"] < 4e6
    assert content["depth"]["events"] == [4, 4]  # each request is sent to an idle drive


@pytest.mark.parametrize(
    ("change", "message"), [({"phase": "walk"}, "no phase 'walk'"), ({"sha256": "0"}, "has changed")]
)
def test_a_changed_trace_or_unknown_phase_is_refused(change: dict[str, str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    asked = recorded(path, [WRITE], [0], 4096, 0) | change
    with pytest.raises(recordings.ReplayError, match=message):
        replaying.replay_phase(twin.load_model("wiscsim"), tmp_path, asked)  # type: ignore[arg-type]


def test_replay_results_are_computed_from_the_raw_file() -> None:
    content = {
        "requests": {
            "write": {"largest_bytes": 40960, "median_bytes": 4096.0, "bytes": 3 * 2**20},
            "flush": {"count": 2},
        },
        "duration_ns": 5 * 10**8,
        "depth": {"events": [3, 1, 0, 0, 1]},
        "counters": {f"map_{user}_{what}": int(what == "misses") for user in ("read", "write", "discard")
                     for what in ("hits", "misses")} | {"write_bytes": 16, "page_programs": 12},
        "blocks": {"block_bytes": 4, "capacity_bytes": 16, "by_valid_pages": [7, 1, 2]},
    }  # fmt: skip
    found = replays.replay_results(content)
    assert (found["duration_s"], found["largest_write_kib"], found["miss_ratio"]) == (0.5, 40, 1)
    depths = [found[f"depth_{name}"] for name in ("median", "third_quartile", "largest")]
    assert [*depths, found["drained"]] == [0, 1, 4, 3]  # each event counts once
    assert (found["written_mib"], found["flushes"]) == (3, 2)
    assert found["write_amplification"] == 1.5  # twelve pages of two bytes for sixteen bytes
    assert (found["occupied"], found["area"]) == (0.75, 0.625)
    assert found["zombies"] == pytest.approx(1 / 3)
    assert list(replays.zombie_curve(content["blocks"])["valid_ratio"]) == [1, 1, 0.5]  # type: ignore[arg-type]


def test_a_drive_written_once_in_order_has_no_zombies(tmp_path: Path) -> None:
    once = [number * 2**17 for number in range(512)]
    found = replayed(tmp_path, [WRITE] * 512, once, 2**17, *SMALL)
    assert found["zombies"] == 0
    assert found["area"] == found["occupied"] == 0.5


def test_writes_of_less_than_a_page_are_amplified(tmp_path: Path) -> None:
    pages = [number * 2**15 for number in range(256)]
    whole = replayed(tmp_path, [WRITE] * 256, pages, 2048, *SMALL)
    halves = replayed(tmp_path, [WRITE] * 256, pages, 1024, *SMALL)
    assert whole["write_amplification"] == pytest.approx(1)
    assert halves["write_amplification"] == pytest.approx(2)


def test_scattered_overwrites_leave_zombies(tmp_path: Path) -> None:
    once = [number * 2**15 for number in range(1024)]
    chosen = [number for number in once if number // 2**15 * 40_503 % 7 == 0]
    found = replayed(tmp_path, [WRITE] * (1024 + len(chosen)), once + chosen, 2**15, *SMALL)
    assert found["occupied"] > found["area"]
    assert found["zombies"] > 0.5


def test_a_smaller_map_cache_misses_more_and_a_complete_one_never(tmp_path: Path) -> None:
    written = [number * 2**15 for number in range(2**13)]
    read = [number * 40_503 % 2**13 * 2**15 for number in range(4096)]
    ratios = [
        replayed(
            tmp_path, [WRITE] * len(written) + [READ] * 4096, written + read, 2048, *MAP,
            f"page_mapping.map_cache_coverage={coverage}", first=len(written),
        )["miss_ratio"]
        for coverage in (0.01, 0.05, 1)
    ]  # fmt: skip
    assert 1 >= ratios[0] > ratios[1] > ratios[2] == 0


# ---- Transcription of the paper


def test_there_are_at_least_twenty_valid_claims_with_unique_ids() -> None:
    values = published.load_values(FOLDER)
    names = [claim["id"] for claim in CONTENT["claims"]]
    assert len(set(names)) == len(names) >= 20
    yaml_schema.require_valid(
        "claims.yaml", CONTENT, yaml_schema.read_yaml(ROOT, "workflow/schemas/claims.schema.yaml")
    )
    known = {*names, *values["id"]}
    for each in CONTENT["contradictions"]:
        assert set(each["between"]) <= known


def test_all_drives_of_the_values_are_in_the_study() -> None:
    drives = yaml_schema.read_yaml(ROOT, "config/studies/kapoor.yaml")["twins"]
    keys = set(published.load_values(FOLDER)["drive_key"]) - {""}
    assert keys <= set(published.load_source_drives(FOLDER)["drive_key"]) <= set(drives)
    coverages = published.load_values(FOLDER).query("quantity == 'coverage of the map cache'")["value"]
    settings = [drive["set"] for name, drive in drives.items() if name.startswith("kapoor-256m-map-")]
    of_drives = [100 * each["page_mapping.map_cache_coverage"] for each in settings]
    assert sorted(of_drives) == pytest.approx(sorted(coverages))
    for each in settings:
        assert (
            twin.load_model("wiscsim").overridden([f"{key}={value}" for key, value in each.items()]).size_bytes == 2**28
        )


def test_contradictions_give_the_products_of_the_tables() -> None:
    values = published.load_values(FOLDER).set_index("id")["value"]
    said = next(each["says"] for each in CONTENT["contradictions"] if each["id"] == "bytes-written")
    for table in (2, 3):
        for threads in (1, 10, 20):
            row = f"table{table}-{threads}-threads"
            duration_s = values[f"{row}-duration"]
            written = duration_s * values[f"{row}-bandwidth"]
            # whole, within the precision of the bandwidth's two decimals
            assert written == pytest.approx(round(written), abs=0.01 * duration_s), (row, written)
            assert re.search(rf"\b{written:.0f}\b", said), (row, written)


# ---- The workloads as jobs of fio

JOBS = sorted(WORKLOADS.glob("*.fio"))
SETTINGS = {"CHUNK": "1k", "READS": "64", "THREADS": "1", "FILES": "12", "LOGS": "log.0", "RUNTIME": "1s"}


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
def test_fio_accepts_each_job(job: Path) -> None:
    done = subprocess.run(
        ["fio", "--parse-only", job], env=os.environ | SETTINGS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_random_reads_begin_at_any_byte_as_in_the_pseudo_code(tmp_path: Path) -> None:
    text = (WORKLOADS / "locality-random.fio").read_text().replace("filesize=2m", "filesize=64k")
    (tmp_path / "job.fio").write_text(text)
    log = tmp_path / "io.log"
    command = ["fio", f"--write_iolog={log}", "--section=read-0", "job.fio"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | SETTINGS, capture_output=True, check=True)
    table = pd.concat(list(traces.read_pieces(log)))
    assert len(table) == 20 * 64
    # one file after the other, with a read per chunk of the file
    names = [word for line in log.read_text().splitlines() if " read " in line for word in line.split() if "f." in word]
    assert [len(list(run)) for _, run in itertools.groupby(names)] == [64] * 20
    assert set(table["size_bytes"]) == {1024}
    assert (table["offset_bytes"] % 512 != 0).any()


@pytest.mark.parametrize(("order", "chunk"), [("in-order", 524288), ("at-random", 1024)])
def test_each_thread_creates_and_then_overwrites_its_files(tmp_path: Path, order: str, chunk: int) -> None:
    jobs = tmp_path / "jobs"
    shutil.copytree(WORKLOADS, jobs)
    # without twelve thousand calls of fsync(), which the drive of this machine should not get
    settings = {"THREADS": "20", "CHUNK": str(chunk), "JOBS": str(jobs)} | (
        {} if order == "in-order" else {"FSYNC": "0"}
    )
    command = ["sh", str(jobs / "zombies.sh"), order]
    subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, check=True)
    sizes = {path.name: path.stat().st_size for path in tmp_path.glob("f.*")}
    assert sizes == {f"f.{thread}.{number}": 2**20 for thread in range(20) for number in range(6)}
    logs = [(jobs / f"log.{thread}").read_text().splitlines() for thread in range(20)]
    assert len({*map(tuple, logs)}) == 20
    for thread, log in enumerate(logs):
        of_files = [line.split() for line in log[1:]]
        # after every ten overwriting requests; a thread has two for each of its six files
        synced = [index for index, (_, does, *_) in enumerate(of_files) if does == "sync"]
        assert [sum(map(is_write, of_files[:index])) for index in synced] == ([22] if order == "in-order" else [])
        writes = [(name, int(offset)) for name, does, offset, *_ in filter(is_write, of_files)]
        in_order = [(f"f.{thread}.{number}", at) for number in range(6) for at in range(0, 2**20, chunk)]
        created, overwritten = writes[: len(in_order)], writes[len(in_order) :]
        assert created == in_order
        assert [name for name, _ in overwritten] == [name for name, _ in in_order]
        offsets = [offset for _, offset in overwritten]
        if order == "in-order":
            assert overwritten == in_order
        else:
            assert all(0 <= offset <= 2**20 - chunk for offset in offsets)
            # at any byte, evenly over a file, and some chunks never
            assert len({offset % chunk for offset in offsets}) > 900
            assert min(np.histogram(offsets, 4)[0]) > 0.9 * len(offsets) / 4
            begun = {(name, offset // chunk) for name, offset in overwritten}
            assert 0.6 < len(begun) / len(overwritten) < 0.66


def is_write(line: Sequence[str]) -> bool:
    return line[1] == "write"


def test_errors_other_than_a_full_file_system_stop_a_recording(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    shutil.copytree(WORKLOADS, jobs)
    (tmp_path / "f.0.0").mkdir()
    settings = {"THREADS": "1", "CHUNK": "524288", "JOBS": str(jobs)}
    command = ["sh", str(jobs / "zombies.sh"), "in-order"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "f.0.0" in done.stdout


def test_the_file_system_of_section_3_3_limits_the_writes_of_one_thread(tmp_path: Path) -> None:
    recordings = {each.name: each for each in capture.load_recordings(ROOT, "kapoor")}
    options = recordings["zombies-large-1"].options
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(options["file_system_bytes"])
    path = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    subprocess.run(
        ["mkfs.ext4", "-q", "-F", *options["mkfs_options"].split(), image],
        env=os.environ | path,
        capture_output=True,
        check=True,
    )
    header = subprocess.run(
        ["dumpe2fs", "-h", image], env=os.environ | path, capture_output=True, text=True, check=True
    ).stdout
    free_mib = int(re.search(r"Free blocks:\s+(\d+)", header)[1]) * 4096 / 2**20  # type: ignore[index]
    values = published.load_values(FOLDER).set_index("id")["value"]
    for table in (2, 3):
        row = f"table{table}-1-threads"
        written_mib = values[f"{row}-duration"] * values[f"{row}-bandwidth"]
        assert written_mib == pytest.approx(free_mib, abs=1)
        # 120 files of 1 MiB do not fit, and the only thread ends before it overwrites
        shipped = ROOT / f"data/traces/kapoor/zombies-{'large' if table == 2 else 'small'}-1.parquet"
        trace = pd.read_parquet(shipped)
        of_run = trace[(trace["operation"] == "write") & (trace["time_ns"] >= parquet.read_phases(shipped)["run"])]
        assert 0.9 * free_mib < of_run["size_bytes"].sum() / 2**20 < free_mib


def test_deletion_at_random_is_deterministic(tmp_path: Path) -> None:
    left = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        for number in range(120):
            (folder / f"f.{number // 12}.{number % 12}").touch()
        subprocess.run(["sh", WORKLOADS / "delete-at-random.sh", "30"], cwd=folder, check=True)
        left.append(sorted(path.name for path in folder.iterdir()))
    assert left[0] == left[1]
    assert len(left[0]) == 90


def test_the_requested_number_of_snapshots_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    asked = recorded(path, [WRITE] * 12, [number * 2**17 for number in range(12)], 2**17, 4)
    model = twin.load_model("wiscsim").overridden(list(SMALL))
    plain, _ = replaying.replay_phase(model, path.parent, asked)  # type: ignore[arg-type]
    content, _ = replaying.replay_phase(model, path.parent, {**asked, "blocks_over_time": 5})  # type: ignore[typeddict-item]
    over_time = content.pop("blocks_over_time")
    assert [each["at_ns"] for each in over_time] == [content["duration_ns"] * part // 5 for part in range(1, 6)]
    valid = [np.dot(each["by_valid_pages"], np.arange(65)) for each in over_time]
    assert valid == sorted(valid)
    assert valid[0] > 4 * 64  # written before the phase
    assert over_time[-1]["by_valid_pages"] == plain["blocks"]["by_valid_pages"]
    assert content.pop("replay") == {**plain.pop("replay"), "blocks_over_time": 5}
    assert content == plain


def in_closed_loop(path: Path, depth: int, *overridden: str, pause_ns: int = 0, over_time: int = 2) -> dict[str, Any]:
    """Replay reads of written data in a closed loop with `depth` requests outstanding; the trace contains a pause."""
    count, written = 48, 16
    trace = pd.DataFrame({"operation": [WRITE] * written + [READ] * (count - written), "size_bytes": 2**17})
    trace["offset_bytes"] = np.arange(count) % written * 2**17
    trace = trace.astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    # nearly all at once, so that they would wait for each other in an open loop
    trace["arrival_ns"] = np.arange(count, dtype="int64") * 1000
    trace.loc[count - 8 :, "arrival_ns"] += pause_ns
    parquet.write_requests(path, [trace], "made up", {"prepare": 0, "run": written * 1000, "end": 10**9 + pause_ns})
    asked = {"trace": path.name, "phase": "run", "sha256": files.sha256(path), "depth": depth}
    model = twin.load_model("wiscsim").overridden(list(overridden))
    return replaying.replay_phase(model, path.parent, {**asked, "blocks_over_time": over_time})[0]  # type: ignore[typeddict-item]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_closed_loop_keeps_the_requested_depth(tmp_path: Path, depth: int) -> None:
    content = in_closed_loop(tmp_path / "trace.parquet", depth)
    assert len(content["depth"]["events"]) - 1 == max(content["depth"]["most"]) == depth
    assert content["replay"]["depth"] == depth
    assert content["requests"]["read"]["count"] == content["counters"]["read_commands"] == 32
    assert (content["counters"]["write_commands"], content["counters"]["flush_commands"]) == (0, 0)
    # at the end all written data are valid
    for blocks in (content["blocks"], *content["blocks_over_time"]):
        assert np.dot(blocks["by_valid_pages"], np.arange(65)) == 16 * 64
    assert content["blocks_over_time"][-1]["at_ns"] == content["duration_ns"]


def valid_bytes(blocks: dict[str, Any]) -> int:
    return int(np.dot(blocks["by_valid_pages"], np.arange(65))) * 2048


# without and with a host that takes time until a request reaches the drive, and without the times of the trace
@pytest.mark.parametrize("host", [(), ("host.submit_time=50 us",)])
@pytest.mark.parametrize("depth", [{}, {"depth": 1}])
@pytest.mark.parametrize("over_time", [{}, {"blocks_over_time": 7}])
def test_blocks_are_counted_before_the_first_discard_of_a_phase_and_at_its_end(
    tmp_path: Path, host: tuple[str, ...], depth: dict[str, int], over_time: dict[str, int]
) -> None:
    path = tmp_path / "trace.parquet"
    # the first discard is not in the phase
    operations = [WRITE, DISCARD, *[WRITE] * 11, *[DISCARD] * 5, *[WRITE] * 3]
    offsets = [number * 2**17 for number in (20, 20, *range(11), *range(5), 30, 31, 32)]
    asked = recorded(path, operations, offsets, 2**17, 4) | depth | over_time
    model = twin.load_model("wiscsim").overridden([*SMALL, *host])
    content, _ = replaying.replay_phase(model, path.parent, asked)  # type: ignore[arg-type]
    before = content["blocks_before_discards"]
    assert valid_bytes(before) == 11 * 2**17
    assert valid_bytes(content["blocks"]) == (11 - 5 + 3) * 2**17
    if not depth:
        assert before["at_ns"] == 9 * 10**6
    found = replays.replay_results(json.loads(json.dumps(content)))
    assert found["area_before_discards"] == 11 / 1024
    assert found["area"] == 9 / 1024
    assert found["first_discard_s"] == before["at_ns"] / 1e9


@pytest.mark.parametrize("drive", ["wiscsim", "hard-disk"])
def test_a_replay_without_discards_or_flash_has_no_state_before_discards(tmp_path: Path, drive: str) -> None:
    path = tmp_path / "trace.parquet"
    operations = [WRITE] * 4 if drive == "wiscsim" else [WRITE, WRITE, DISCARD, WRITE]
    asked = recorded(path, operations, [number * 2**17 for number in range(4)], 2**17, 0)
    content, _ = replaying.replay_phase(twin.load_model(drive), path.parent, asked)  # type: ignore[arg-type]
    assert "blocks_before_discards" not in content
    assert np.isnan(replays.replay_results(content)["zombies_before_discards"])


def test_a_closed_loop_ignores_pauses_of_the_trace(tmp_path: Path) -> None:
    without, with_pause = (in_closed_loop(tmp_path / f"{ns}.parquet", 1, pause_ns=ns) for ns in (0, 10**8))
    for content in (without, with_pause):
        del content["replay"]  # its checksum of the trace differs
    assert without == with_pause
    # each request begins when the previous one is complete
    assert without["duration_ns"] == pytest.approx(32 * without["requests"]["read"]["latency_mean_ns"])


def test_a_closed_loop_is_deterministic_and_faster_with_more_requests(tmp_path: Path) -> None:
    one, again, four = (in_closed_loop(tmp_path / "trace.parquet", depth, over_time=3) for depth in (1, 1, 4))
    assert one == again
    assert four["duration_ns"] < one["duration_ns"]
    slots = in_closed_loop(tmp_path / "trace.parquet", 4, "link.queue_slots=1", over_time=3)
    assert slots["duration_ns"] == one["duration_ns"]  # the drive accepts one request at a time


def test_latencies_in_a_closed_loop_include_the_time_of_the_host(tmp_path: Path) -> None:
    costs = ("host.submit_time=3 us", "host.reap_time=2 us", "host.wakeup_time=4 us")
    quick, slow = in_closed_loop(tmp_path / "trace.parquet", 1), in_closed_loop(tmp_path / "trace.parquet", 1, *costs)
    assert slow["duration_ns"] - quick["duration_ns"] == 32 * 9000
    assert slow["requests"]["read"]["latency_mean_ns"] - quick["requests"]["read"]["latency_mean_ns"] == 9000
    assert slow["counters"]["read_commands"] == quick["counters"]["read_commands"]


def zombies(times: int) -> pd.DataFrame:
    """Return made-up replays of both workloads by 1, 10 and 20 threads, with fewer valid pages in later snapshots."""
    rows = []
    for experiment, threads in itertools.product(("zombies-large", "zombies-small"), (1, 10, 20)):
        over_time = [{"at_ns": time, "by_valid_pages": [0, threads, 90 - time]} for time in range(times)]
        blocks = {"block_bytes": 2**17, "capacity_bytes": 2**24, "by_valid_pages": over_time[-1]["by_valid_pages"]}
        # the phase lasts 0.95 s from 0.2 s on; its discards come in its last 20 ms
        rows.append(
            {
                "experiments": experiment,
                "numjobs": threads,
                "depth": {"began_ns": 200_000_000},
                "replay_duration_s": 0.95,
                "blocks": blocks,
                "blocks_before_discards": {"at_ns": 930_000_000, "by_valid_pages": [0, threads, 95]},
                "blocks_over_time": over_time,
            }
        )
    return pd.DataFrame(rows)


def test_the_blocks_before_deletion_are_drawn_beside_those_at_the_end() -> None:
    figure = kapoor.zombie_figure(zombies(4))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"{workload}, {state}"
        for workload in ("Large sequential writes", "Small random writes")
        for state in ("before deletion", "at the end")
    ]
    before, end = (np.asarray(axes.lines[0].get_xdata()) for axes in figure.axes[:2])
    assert (before.size, end.size) == (96, 88)


def test_the_text_compares_the_discards_with_the_last_snapshot_of_wiscsim() -> None:
    rows = zombies(4)
    text = kapoor.deletion_text(rows)
    assert "20.0 ms before the end" in text
    assert "0.930 of 0.950 s with 1; 0.930 of 0.950 s with 10; 0.930 of 0.950 s with 20 threads" in text
    assert "50 ms before the end" in text  # 1.1 s of 1.15 s
    assert "in 6 of 6 replays" in text
    late = rows.assign(blocks_before_discards=pd.Series([{"at_ns": 890_000_000, "by_valid_pages": [0]}] * 6))
    assert "in 0 of 6 replays" in kapoor.deletion_text(late)
    assert kapoor.deletion_text(rows.assign(blocks_before_discards=None)) == ""


def test_the_bandwidths_of_tables_2_and_3_are_printed_as_in_the_source() -> None:
    table = kapoor.zombie_table(KAPOOR.study())
    values = published.load_values(FOLDER)
    values = values[values["quantity"].eq("bandwidth") & values["experiment"].str.startswith("zombies")]
    (column,) = (each for each in table.columns if each.names == ("published_bandwidth_mib_per_s",))
    assert [column.formatter(value) for value in table.data[column.names[0]]] == list(values["printed"])
    assert set(values["unit"]) == {f"{column.unit}"}
    assert column.unit == "MiB/s"


def test_each_published_bandwidth_is_whole_megabytes_over_its_duration() -> None:
    values = published.load_values(FOLDER).set_index("id")["value"]
    written = {}
    for name in (each for each in values.index if re.fullmatch("table[23]-.*-bandwidth", each)):
        duration_s = values[name.replace("bandwidth", "duration")]
        written[name] = round(values[name] * duration_s)
        # WiscSim prints all digits, of which the source keeps two decimals
        assert int(100 * written[name] / duration_s) / 100 == values[name]
    assert list(written.values()) == [107, 145, 163, 108, 346, 440]


def test_the_animation_has_a_frame_per_snapshot_and_is_deterministic() -> None:
    rows = zombies(6)
    animation = kapoor.zombie_animation(rows)
    assert kapoor.snapshot_count(rows) == 6
    with Image.open(io.BytesIO(animation)) as image:
        assert len([*ImageSequence.Iterator(image)]) == 6
        assert image.info["loop"] == 0
    assert kapoor.zombie_animation(rows) == animation


def test_four_snapshots_are_drawn_side_by_side_up_to_the_end() -> None:
    figure = kapoor.zombie_times_figure(zombies(8))
    titles = [axes.get_title(loc="left").splitlines()[-1] for axes in figure.axes]
    assert titles == [f"after {share} % of the time" for share in (25, 50, 75, 100)] * 2
    assert all(len(axes.lines) == 3 for axes in figure.axes)


def test_replays_without_snapshots_are_recognised() -> None:
    assert kapoor.snapshot_count(zombies(4).assign(blocks_over_time=None)) == 0
    assert kapoor.snapshot_count(zombies(4).iloc[:0]) == 0


def test_the_rule_table_has_the_cost_of_breaking_each_rule_on_each_drive() -> None:
    table = kapoor.rule_table(KAPOOR.study()).data
    assert list(table["rule"].unique()) == ["Request scale", "Locality", "Grouping by death time"]
    assert set(table["drive"]) == {"s3500", "kapoor-256m-map-50", "kapoor-128m", "nvme", "nvme-little-map"}
    assert np.allclose(table["cost"], table["breaks_s"] / table["follows_s"])
    of_map = table[table["rule"] == "Locality"].set_index("drive")["breaks"]
    assert of_map["nvme"] == 0  # its complete map is in memory
    assert of_map["nvme-little-map"] > 0


@pytest.mark.parametrize("claim", ["largest-random-miss-ratio", "largest-sequential-miss-ratio"])
def test_claims_about_largest_miss_ratios_check_the_largest(claim: str) -> None:
    check = next(each["check"] for each in CONTENT["claims"] if each["id"] == claim)
    levels = check["mean"]
    ratios = KAPOOR.study().summary("locality", of="miss ratio")
    ratios = ratios[ratios["rw"] == levels["rw"]]
    largest = ratios.loc[ratios["mean"].idxmax()]
    assert (largest["drive"], largest["bs_bytes"]) == (levels["drive"], parse_size(levels["bs"]))


def test_each_scheduler_of_the_kernel_is_compared_with_its_counterpart() -> None:
    assert kapoor.MODELLED.keys() == set(schedulers.MODERN_SCHEDULERS)
    found = kapoor.compare_schedulers(KAPOOR.study())
    assert len(found) == 2 * 3 * 4
    assert set(zip(found["scheduler"], found["modelled"], strict=True)) == set(kapoor.MODELLED.items())
    # without a scheduler both forward requests unchanged
    without = found[(found["scheduler"] == "none") & (found["drive"] == "ssd-alone")]
    assert (without["difference_percent"].abs() < 1).all()
    assert f"of {len(found)} bandwidths" in kapoor.schedulers_text(found)
    assert len(kapoor.scheduler_figure(found).axes) == 6
