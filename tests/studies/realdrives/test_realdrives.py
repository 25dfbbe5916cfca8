"""The published points of real drives, their parts, and the arithmetic of the tables."""

import csv
import hashlib
import math
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import ROOT

from iopatterns.configuration import config, grid
from iopatterns.workflow.notebooks import study_code

PUBLISHED = ROOT / "data/published/realdrives"
# Sums over the sources' files, computed without this project's code: rows, requests per second, and mean latencies
SUMS = {
    "s4610": (98, 6232815.0, 462078.1),
    "f1": (72, 9710.7, 51698331.8),
    "raptor": (72, 9074.5, 66577571.5),
    "sabrent-rocket-4-plus": (735, 93748897.6 + 95284461.2, 789972.7 + 709052.8),
}
OPTANE_MEGABYTES_PER_S = 179024.0
OPTANE_LATENCIES_US = 1813735.2
# SHA-256 of the lines `identity part`, sorted: the rule must not change after models were fitted
PARTS_SHA256 = "a8970a4387674c24e9da284ad0d0159c57d945933709eb508c3cf40a459e712a"
MOST_REQUESTS = 9_000_000  # of all cells of the default run: about 40 s of one core
FIGURES = ("iops", "lat_mean", "p50", "p99")

realdrives = study_code("realdrives")


@cache
def points() -> pd.DataFrame:
    found: pd.DataFrame = realdrives.load_points(PUBLISHED / "points.csv")
    return found


def identity(row: dict[str, str]) -> str:
    return " ".join(row[name] for name in ("drive", "rw", "rwmixread", "bs_bytes", "iodepth", "numjobs"))


@cache
def lines() -> list[dict[str, str]]:
    with (PUBLISHED / "points.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# ---- Published points


@pytest.mark.parametrize("drive", SUMS)
def test_the_rows_of_a_drive_have_the_sums_of_its_source(drive: str) -> None:
    rows = [row for row in lines() if row["drive"] == drive]
    rates = sum(float(row[f"{each}_iops"] or 0) for row in rows for each in ("read", "write"))
    latencies = sum(float(row[f"{each}_lat_mean_us"] or 0) for row in rows for each in ("read", "write"))
    count, expected_rates, expected_latencies = SUMS[drive]
    assert len(rows) == count
    assert rates == pytest.approx(expected_rates, rel=1e-5)
    assert latencies == pytest.approx(expected_latencies, rel=1e-5)


def test_the_rows_of_optane_have_the_sums_of_their_source() -> None:
    rows = [row for row in lines() if row["drive"] == "optane-p4800x"]
    rates = sum(float(row["read_iops"] or row["write_iops"]) * int(row["bs_bytes"]) for row in rows)
    latencies = sum(float(row["read_lat_mean_us"] or row["write_lat_mean_us"]) for row in rows)
    assert len(rows) == 100
    assert rates / 1e6 == pytest.approx(OPTANE_MEGABYTES_PER_S, rel=1e-3)
    assert latencies == pytest.approx(OPTANE_LATENCIES_US, rel=1e-4)


def test_each_row_has_a_place_in_its_source_that_no_other_row_has() -> None:
    places = [row["source"] for row in lines()]
    assert len(places) == len(set(places)) == 1077
    assert all("@" in place and ":" in place for place in places)


def test_rate_and_latency_of_a_row_agree_with_its_outstanding_requests() -> None:
    for row in lines():
        outstanding = sum(
            float(row[f"{each}_iops"] or 0) * float(row[f"{each}_lat_mean_us"] or 0) / 1e6 for each in ("read", "write")
        )
        # Little's law; a wrong digit or column would exceed it. Jobs that end early have fewer requests outstanding.
        assert outstanding <= 1.3 * int(row["iodepth"]) * int(row["numjobs"]), row["source"]


# ---- Parts


def test_the_rule_divides_the_rows_as_the_text_says() -> None:
    for row, part in zip(lines(), points()["part"], strict=True):
        depth, jobs = int(row["iodepth"]), int(row["numjobs"])
        fitted = depth in {1, 4, 16} and jobs in {1, 4} and row["rwmixread"] in {"", "50", "95"}
        fitted |= depth == 128 and jobs in {1, 4, 8}
        last_bit = int(hashlib.sha256(identity(row).encode()).hexdigest(), 16) % 2
        assert part == ("fit" if fitted else "test" if last_bit else "selection")


def test_the_parts_have_not_changed_since_the_rule_was_made() -> None:
    texts = sorted(f"{identity(row)} {part}" for row, part in zip(lines(), points()["part"], strict=True))
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == PARTS_SHA256


def test_repeated_measurements_are_in_one_part() -> None:
    parts = defaultdict(set)
    for row, part in zip(lines(), points()["part"], strict=True):
        parts[identity(row)].add(part)
    assert max(map(len, parts.values())) == 1
    assert len(parts) < len(lines())  # some measurements are repeated


# ---- Cells


def test_the_default_run_measures_each_point_up_to_64_outstanding_and_a_limited_number_of_requests() -> None:
    conf = config.load_config(ROOT, {"studies": ["realdrives"]})
    rates: dict[tuple[Any, ...], float] = {}
    for row in points().to_dict("records"):
        workload = (row["drive"], row["rw"], row["rwmixread"] if row["rw"] == "randrw" else None)
        rate = np.nansum([row["read_iops"], row["write_iops"]])
        rates[*workload, row["bs_bytes"], row["iodepth"], row["numjobs"]] = rate
    requests, measured = 0.0, set[tuple[Any, ...]]()
    for cell in grid.expand_grid(conf, "realdrives"):
        fio: Any = cell.specification["fio"]
        key = (cell.drive, fio["rw"], fio.get("rwmixread"), fio["bs"], fio["iodepth"], fio["numjobs"])
        requests += rates[key] * cell.specification["runtime_ms"] / 1000
        measured.add(key)
    thinned = {key for key in set(rates) - measured if key[0] == "sabrent-rocket-4-plus"}
    assert measured | thinned == set(rates)
    # the rule looks at depth and jobs alone
    every_other = {1, 4, 16, 64}
    assert all(depth * jobs > 64 and not {depth, jobs} <= every_other for *_, depth, jobs in thinned)
    assert len(thinned) == 7 * (21 - 6)
    assert requests < MOST_REQUESTS


# ---- Tables


@pytest.fixture
def compared() -> pd.DataFrame:
    """Errors of made-up simulated figures: the measured figure times a number that depends on the row."""
    chosen = points()[points()["drive"].isin(["s4610", "f1", "optane-p4800x"])]
    simulated = pd.DataFrame(index=chosen.index)
    for number, name in enumerate(column for column in map(str, chosen) if column.startswith(("read_", "write_"))):
        simulated[name] = chosen[name] * (1 + 0.01 * ((chosen.index + number) % 37 - 11))
    found: pd.DataFrame = realdrives.errors_of(chosen, simulated)
    return found


def own_errors(table: pd.DataFrame, drive: str, part: str, figure: str) -> list[float]:
    rows = table[(table["drive"] == drive) & (table["part"] == part)]
    pairs = zip(rows[f"model_{figure}"], rows[f"measured_{figure}"], strict=True)
    return [model / measured - 1 for model, measured in pairs if not math.isnan(measured)]


def test_the_leaderboard_has_the_statistics_of_each_part(compared: pd.DataFrame) -> None:
    board = realdrives.leaderboard(compared).data
    assert list(board["drive"].unique()) == ["s4610", "f1", "optane-p4800x"]
    for row, figure in zip(board.to_dict("records"), FIGURES * 3, strict=True):
        for part in ("fit", "selection", "test"):
            sizes = sorted(abs(error) for error in own_errors(compared, row["drive"], part, figure))
            assert row[f"{part}_points"] == len(sizes)
            assert row[f"{part}_mean"] == pytest.approx(sum(sizes) / len(sizes))
            middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
            assert row[f"{part}_median"] == pytest.approx(middle)
            assert row[f"{part}_max"] == pytest.approx(sizes[-1])
            assert sizes[math.floor(0.9 * (len(sizes) - 1))] <= row[f"{part}_p90"] + 1e-12
            assert row[f"{part}_p90"] - 1e-12 <= sizes[math.ceil(0.9 * (len(sizes) - 1))]
        assert abs(row["test_worst"]) == pytest.approx(row["test_max"])


def test_a_target_counts_test_rows_up_to_64_outstanding_requests(compared: pd.DataFrame) -> None:
    found = realdrives.targets_table(compared, points()).data
    row = found[(found["drive"] == "s4610") & (found["kind"] == "writes") & (found["figure"] == "IOPS")].iloc[0]
    used = compared[(compared["rw"] == "randwrite") & (compared["drive"] == "s4610")]
    used = used[(used["iodepth"] * used["numjobs"] <= 64) & (used["part"] == "test")]
    errors = [
        abs(model / measured - 1) for model, measured in zip(used["model_iops"], used["measured_iops"], strict=True)
    ]
    assert row["rows"] == len(errors)
    assert row["mean_error"] == pytest.approx(sum(errors) / len(errors))
    assert row["mean_limit"] == 0.06
    assert row["outcome"] == ("met" if sum(errors) / len(errors) <= 0.06 else "missed")


def test_a_target_yields_to_the_noise_floor(compared: pd.DataFrame) -> None:
    noisy = points().copy()
    of_reads = (noisy["drive"] == "s4610") & (noisy["rw"] == "randread")
    repeated = noisy[of_reads].assign(**{name: noisy[name] * 1.1 for name in ("read_iops", "read_lat_mean_us")})
    found = realdrives.targets_table(compared, pd.concat([noisy, repeated], ignore_index=True)).data
    row = found[(found["drive"] == "s4610") & (found["kind"] == "reads") & (found["figure"] == "IOPS")].iloc[0]
    assert row["noise_median"] == pytest.approx(0.1)
    assert row["mean_limit"] == pytest.approx(0.2)
    twice = noisy[of_reads].assign(**{name: noisy[name] * 1.3 for name in ("read_iops", "read_lat_mean_us")})
    found = realdrives.targets_table(compared, pd.concat([noisy, twice], ignore_index=True)).data
    row = found[(found["drive"] == "s4610") & (found["kind"] == "reads") & (found["figure"] == "IOPS")].iloc[0]
    assert row["outcome"] == "no target"


def test_the_largest_miss_is_the_largest_error_of_a_test_row(compared: pd.DataFrame) -> None:
    lacking = dict.fromkeys(("s4610", "f1", "optane-p4800x"), "something")
    for row in realdrives.misses(compared, lacking).data.to_dict("records"):
        figure = {"IOPS": "iops", "p99": "p99"}[row["figure"]]
        assert abs(row["error"]) == pytest.approx(max(map(abs, own_errors(compared, row["drive"], "test", figure))))


def test_simulated_figures_are_those_of_the_cell_with_the_same_workload() -> None:
    keys = {"drive": "d", "rw": "randrw", "rwmixread": 65.0, "bs_bytes": 4096, "iodepth": 4, "numjobs": 2}
    row = {"experiments": "mixes", "direction": "read", "iops": 10.0, "lat_mean_ns": 2000.0}
    read = {**keys, **row, "clat_p50_ns": 1000.0, "clat_p99_ns": 9000.0}
    write = {**read, "direction": "write", "iops": 5.0}
    longer = {**read, "experiments": "longer-mixes", "iops": 99.0}
    other = {**read, "rwmixread": 35.0, "iops": 77.0}
    cells = pd.DataFrame([read, write, longer, other])
    wanted = pd.DataFrame([keys, {**keys, "iodepth": 8}], index=[7, 3])
    found = realdrives.simulated_figures(wanted, cells)
    assert list(found.index) == [7, 3]
    assert found.loc[7, ["read_iops", "write_iops", "read_lat_mean_us", "read_clat_p99_us"]].tolist() == [10, 5, 2, 9]
    assert found.loc[3].isna().all()
    assert realdrives.simulated_figures(wanted, cells, longer=True).loc[7, "read_iops"] == 99


def test_shorter_runs_are_compared_with_the_longer_runs_of_the_same_cells() -> None:
    measured = points()[points()["drive"] == "s4610"]
    cells = measured[["drive", "rw", "rwmixread", "bs_bytes", "iodepth", "numjobs"]].iloc[:3]
    figures = {"iops": 100.0, "lat_mean_ns": 1e4, "clat_p50_ns": 1e4, "clat_p99_ns": 1e4}
    short = cells.assign(experiments="some", direction="read", **figures)
    longer = short.iloc[:2].assign(experiments="longer-some", iops=[80.0, 125.0])
    (row,) = realdrives.agreement(measured, pd.concat([short, longer])).data.to_dict("records")
    assert row["cells"] == 2
    assert row["iops_mean"] == pytest.approx((0.25 + 0.2) / 2)
    assert row["iops_max"] == pytest.approx(0.25)
    assert row["p99_max"] == 0


def test_the_record_of_errors_has_each_test_row_once(compared: pd.DataFrame) -> None:
    record = realdrives.error_record(compared, ROOT / "data/twins").data
    test = compared[compared["part"] == "test"]
    assert record.groupby("model")["points"].sum().to_dict() == test.groupby("drive").size().to_dict()
    few = test[(test["drive"] == "f1") & (test["rw"] == "randread") & (test["iodepth"] * test["numjobs"] <= 64)]
    row = record[(record["model"] == "f1") & (record["workloads"] == "reads") & (record["outstanding"] == "up to 64")]
    assert row["p99_mean"].iloc[0] == pytest.approx(few["error_p99"].abs().mean())


def test_each_source_drive_has_what_its_model_lacks() -> None:
    with (PUBLISHED / "drives.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["drive_key"] for row in rows} == set(points()["drive"])
    assert all(row["lacking"] for row in rows)
    assert all((ROOT / "data/twins" / f"{row['drive_key']}.yaml").exists() for row in rows)


def test_no_code_of_the_package_names_the_study_or_its_drives() -> None:
    names = ["realdrives", "s4610", "raptor", "sabrent", "optane"]
    files = [path for path in Path(ROOT / "src").rglob("*") if path.suffix in {".py", ".cc", ".h", ".yaml", ".smk"}]
    found = [(path.name, name) for path in files for name in names if name in path.read_text(encoding="utf-8").lower()]
    assert found == []
