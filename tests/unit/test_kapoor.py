"""Kapoor's measures on small traces made up for these tests, and what was copied from the paper."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from support import ROOT

from iopatterns import twin
from iopatterns.analysis import kapoor, published
from iopatterns.base import yaml_schema
from iopatterns.twin import traces
from iopatterns.twin.traces import UNKNOWN

READ, WRITE = traces.OPERATIONS["read"], traces.OPERATIONS["write"]
FOLDER = ROOT / "data/published/kapoor"
WORKLOADS = ROOT / "data/workloads/kapoor"
CONTENT = yaml.safe_load((FOLDER / "claims.yaml").read_text(encoding="utf-8"))


def requests(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    """Return a made-up trace of operations, sizes in bytes, dispatches and completions in ns."""
    table = pd.DataFrame(rows, columns=["operation", "size_bytes", "dispatched_ns", "completed_ns"])
    return table.assign(offset_bytes=np.uint64(0), arrival_ns=table["dispatched_ns"].clip(lower=0))


def test_a_dispatch_deepens_the_queue_and_a_completion_frees_its_slot_first() -> None:
    depth = kapoor.queue_depth(requests((WRITE, 1, 0, 10), (READ, 1, 5, 20), (WRITE, 1, 10, 30), (READ, 1, 7, UNKNOWN)))
    assert list(depth["time_ns"]) == [0, 5, 10, 10, 20, 30]
    assert list(depth["depth"]) == [1, 2, 1, 2, 1, 0]
    assert list(depth["before"]) == [0, 1, 2, 1, 2, 1]
    assert list(depth["operation"]) == [WRITE, READ, WRITE, WRITE, READ, WRITE]


def test_no_queue_is_ever_less_than_empty() -> None:
    depth = kapoor.queue_depth(requests((WRITE, 1, 0, 10), (WRITE, 1, 10, 10), (WRITE, 1, 10, 20)))
    assert (depth["depth"].min(), depth["depth"].iloc[-1]) == (0, 0)


def test_a_box_has_quartiles_and_whiskers_within_one_and_a_half_times_their_distance() -> None:
    assert kapoor.box([1, 2, 3, 4, 5, 100]) == {
        "low_whisker": 1,
        "first_quartile": 2.25,
        "median": 3.5,
        "third_quartile": 4.75,
        "high_whisker": 5,
    }
    with pytest.raises(ValueError, match="no queue depth"):
        kapoor.box([])


def test_a_workload_lasts_from_its_first_dispatch_to_its_last_completion() -> None:
    trace = requests((WRITE, 40960, 1_000, 51_000), (READ, 2**20, 2_000, 101_000), (WRITE, 4096, 3_000, UNKNOWN))
    assert kapoor.workload(trace) == {"duration_s": 1e-4, "max_request_bytes": 40960, "write_mb_per_s": 409.6}
    with pytest.raises(ValueError, match="no request was completed"):
        kapoor.workload(trace.iloc[2:])


def replayed(tmp_path: Path, operations: list[int], offsets: list[int], size: int, *overridden: str) -> pd.DataFrame:
    """Return what the model records of a made-up trace, a request a millisecond, then a read long after."""
    count = len(operations)
    trace = pd.DataFrame({"operation": [*operations, READ], "offset_bytes": [*offsets, 0], "size_bytes": size})
    trace = trace.astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    trace["arrival_ns"] = [*(number * 10**6 for number in range(count)), (count + 500) * 10**6]
    file = tmp_path / "counters.parquet"
    twin.replay(twin.load("wiscsim").overridden(list(overridden)), trace, counters_file=file)
    return pd.read_parquet(file)


SMALL = ("capacity.size=128 MiB", "ftl.over_provisioning=1", "page_mapping.gc_reserve=13")


def test_a_drive_that_is_written_once_in_order_has_no_zombies(tmp_path: Path) -> None:
    once = [number * 2**17 for number in range(512)]
    series = replayed(tmp_path, [WRITE] * 512, once, 2**17, *SMALL)
    last = kapoor.zombies(kapoor.zombie_curves(series, 2**17, 2**27)).iloc[-1]
    assert (last["area"], last["space"], last["mean_valid_ratio"], last["zombie_share"]) == (0.5, 0.5, 1, 0)


def test_what_was_written_together_and_dies_together_leaves_no_zombies(tmp_path: Path) -> None:
    once = [number * 2**17 for number in range(512)]
    series = replayed(tmp_path, [WRITE] * 512 + [WRITE] * 1024, once + [n * 2**16 for n in range(1024)], 2**15, *SMALL)
    curves = kapoor.zombie_curves(series, 2**17, 2**27)
    assert (curves["valid_ratio"] > 0).all()
    assert all((np.diff(curve["valid_ratio"]) <= 0).all() for _, curve in curves.groupby("time_ns"))
    last = kapoor.zombies(curves).iloc[-1]
    # 512 requests of 32 KiB were written, then 1,024, of which each second one overwrote one of these
    assert last["area"] == last["space"] == 1024 * 2**15 / 2**27
    assert last["zombie_share"] == 0


def test_what_is_overwritten_here_and_there_leaves_zombies(tmp_path: Path) -> None:
    once = [number * 2**15 for number in range(1024)]
    chosen = [number for number in once if number // 2**15 * 40_503 % 7 == 0]
    series = replayed(tmp_path, [WRITE] * (1024 + len(chosen)), once + chosen, 2**15, *SMALL)
    last = kapoor.zombies(kapoor.zombie_curves(series, 2**17, 2**27)).iloc[-1]
    assert last["area"] == pytest.approx(1024 * 2**15 / 2**27)
    assert last["space"] > last["area"]
    assert last["zombie_share"] > 0.5


def test_a_map_cache_that_covers_less_misses_more_and_none_that_covers_all(tmp_path: Path) -> None:
    written = [number * 2**15 for number in range(2**13)]
    read = [number * 40_503 % 2**13 * 2**15 for number in range(4096)]
    ratios = []
    for coverage in (0.01, 0.05, 1):
        setting = f"page_mapping.map_cache_coverage={coverage}"
        series = replayed(
            tmp_path, [WRITE] * len(written) + [READ] * 4096, written + read, 2048,
            "capacity.size=256 MiB", "page_mapping.gc_reserve=16", setting,
        )  # fmt: skip
        writes = series[(series["series"] == "write_commands") & (series["value"] == len(written))]
        ratios.append(kapoor.miss_ratio_of_phase(series, int(writes["time_ns"].iloc[0])))
    assert 1 >= ratios[0] > ratios[1] > ratios[2] == 0


# ---- What was copied from the paper


def test_at_least_twenty_claims_with_a_name_of_their_own_fit_the_schema() -> None:
    values = published.load(FOLDER)
    names = [claim["id"] for claim in CONTENT["claims"]]
    assert len(set(names)) == len(names) >= 20
    yaml_schema.check("claims.yaml", CONTENT, yaml_schema.read_yaml(ROOT, "workflow/schemas/claims.schema.yaml"))
    known = {*names, *values["id"]}
    for each in CONTENT["contradictions"]:
        assert set(each["between"]) <= known


def test_every_drive_of_the_values_is_one_of_config_drives() -> None:
    drives = yaml_schema.read_yaml(ROOT, "config/drives.yaml")
    keys = set(published.load(FOLDER)["drive_key"]) - {""}
    assert keys <= set(published.load_drives(FOLDER)["drive_key"]) <= set(drives)
    coverages = published.load(FOLDER).query("quantity == 'coverage of the map cache'")["value"]
    settings = [drive["set"] for name, drive in drives.items() if name.startswith("kapoor-256m-map-")]
    of_drives = [100 * each["page_mapping.map_cache_coverage"] for each in settings]
    assert sorted(of_drives) == pytest.approx(sorted(coverages))
    for each in settings:
        assert twin.load("wiscsim").overridden([f"{key}={value}" for key, value in each.items()]).size_bytes == 2**28


def test_sums_that_the_contradictions_tell_are_those_of_the_tables() -> None:
    values = published.load(FOLDER).set_index("id")["value"]
    said = next(each["says"] for each in CONTENT["contradictions"] if each["id"] == "bytes-written")
    for table in (2, 3):
        for threads in (1, 10, 20):
            row = f"table{table}-{threads}-threads"
            written = values[f"{row}-duration"] * values[f"{row}-bandwidth"]
            assert re.search(rf"\b{written:.0f}\b", said), (row, written)


# ---- The workloads as jobs of fio

JOBS = sorted(WORKLOADS.glob("*.fio"))
SETTINGS = {"CHUNK": "1k", "THREADS": "10", "FILES": "12"}


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
def test_fio_takes_each_job(job: Path) -> None:
    done = subprocess.run(
        ["fio", "--parse-only", job], env=os.environ | SETTINGS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_random_read_may_begin_at_any_byte_as_in_the_pseudo_code(tmp_path: Path) -> None:
    text = (WORKLOADS / "locality-random.fio").read_text().replace("filesize=2m", "filesize=64k")
    (tmp_path / "job.fio").write_text(text)
    log = tmp_path / "io.log"
    command = ["fio", f"--write_iolog={log}", "--section=read-0", "job.fio"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | SETTINGS, capture_output=True, check=True)
    table = pd.concat(list(traces.read_pieces(log)))
    assert len(table) == 20 * 64  # of each file as many reads as it has chunks
    assert set(table["size_bytes"]) == {1024}
    assert (table["offset_bytes"] % 512 != 0).any()


def test_the_same_thirty_files_are_deleted_each_time(tmp_path: Path) -> None:
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
