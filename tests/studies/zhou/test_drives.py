"""fio on the twins of zhou's drives, compared with published values and statements of the slides."""

import math
import random
from pathlib import Path

import pytest
from support import ROOT
from twins import a_second, fio, iops, mean_fit_errors

from iopatterns.analysis import published
from iopatterns.lab import explore
from iopatterns.twin import models

pytestmark = pytest.mark.slow  # some hundred runs of fio

PUBLISHED = published.load_values(ROOT / "data/published/zhou").set_index("id")["value"]
DIRECT = ["pqi", "ocz"]  # drives that write directly into flash
SSDS = [*DIRECT, "intel"]


def mean_iops(state: Path, model: str, rw: str, *options: str) -> float:
    return math.fsum(iops(state, model, rw, *options, f"--randseed={seed}") for seed in range(10)) / 10


def write_us(state: Path, model: str, rw: str, *options: str) -> float:
    return float(a_second(state, model, rw, *options)["write"]["lat_ns"]["mean"] / 1000)


@pytest.mark.parametrize(("model", "rw"), [(m, rw) for m in ("pqi", "intel") for rw in ("randread", "randwrite")])
def test_fio_reports_the_fitted_rates(tmp_path: Path, model: str, rw: str) -> None:
    assert mean_iops(tmp_path, model, rw) == pytest.approx(PUBLISHED[f"mix-{model}-{rw}"], rel=0.02)


@pytest.mark.parametrize("model", ["pqi", "intel"])
def test_one_write_among_a_hundred_reads_costs_more_than_its_time(tmp_path: Path, model: str) -> None:
    read, write = (mean_iops(tmp_path, model, rw) for rw in ("randread", "randwrite"))
    mixed = mean_iops(tmp_path, model, "randrw", "--rwmixread=99")
    assert mixed < 0.95 / (0.99 / read + 0.01 / write)  # the slides' arithmetic
    assert mixed == pytest.approx(PUBLISHED[f"mix-{model}-mixed"], rel=0.10)


@pytest.mark.parametrize("model", DIRECT)
def test_without_a_cache_a_random_write_takes_milliseconds_for_a_merge(tmp_path: Path, model: str) -> None:
    random_us = write_us(tmp_path, model, "randwrite")
    assert 3000 < random_us < 20_000
    assert write_us(tmp_path, model, "write") < random_us / 5
    assert write_us(tmp_path, model, "randwrite", "--size=4m") < random_us / 5  # its log blocks suffice


def test_with_a_cache_a_random_write_takes_a_fraction_of_a_millisecond(tmp_path: Path) -> None:
    assert write_us(tmp_path, "intel", "randwrite") < 300
    assert write_us(tmp_path, "intel", "write:-4k") < 100  # in place: what is in the cache is written again


@pytest.mark.parametrize("shift", ["512", "1k", "2k"])
def test_misaligned_writes_take_two_units_on_ssds_and_no_more_on_a_disk(tmp_path: Path, shift: str) -> None:
    def ratio(model: str, rw: str) -> float:
        return iops(tmp_path, model, rw, f"--offset={shift}") / iops(tmp_path, model, rw)

    assert 0.45 < ratio("intel", "randwrite") < 0.65
    assert 0.60 < ratio("pqi", "randwrite") < 1.0  # one merge as before
    assert ratio("pqi", "write") < 0.5
    assert ratio("ocz", "write") < 0.6
    for rw in ("write", "randwrite", "read", "randread"):
        assert ratio("hard-disk", rw) == pytest.approx(1, abs=0.01)


def test_sequential_writes_with_gaps_are_slow_on_a_disk(tmp_path: Path) -> None:
    # between two writes of 4 KiB the head passes over 60 KiB
    sequential, gaps, scattered = (
        iops(tmp_path, "hard-disk", rw, "--ramp_time=4s") for rw in ("write", "write:60k", "randwrite")
    )
    assert scattered < gaps < 0.5 * sequential


def test_read_ahead_only_serves_sequential_readers(tmp_path: Path) -> None:
    scattered = iops(tmp_path, "intel", "randread")
    sequential = iops(tmp_path, "intel", "read")
    assert sequential > 2 * scattered
    assert iops(tmp_path, "intel", "read:4k") == pytest.approx(scattered, rel=0.02)
    half = iops(tmp_path, "intel", "randread", "--percentage_random=50")
    assert half < 0.8 * 2 / (1 / scattered + 1 / sequential)  # each random read discards prefetched data
    for model in DIRECT:
        assert iops(tmp_path, model, "read") == pytest.approx(iops(tmp_path, model, "randread"), rel=0.01)


def test_pauses_between_bursts_help_drives_with_a_cache(tmp_path: Path) -> None:
    bursts = ["--thinktime=100ms", "--thinktime_blocks=32"]

    def gain(model: str) -> float:
        return write_us(tmp_path, model, "randwrite") / write_us(tmp_path, model, "randwrite", *bursts)

    assert gain("intel") > 2
    assert gain("hard-disk") > 2
    for model in DIRECT:
        assert 1 < gain(model) < 1.3


OPTIONS: dict[str, list[str]] = {
    "sectors": ["--rw=randrw", "--bs=512"],
    "any sector": ["--rw=randrw", "--blockalign=512"],
    "gaps": ["--rw=write:4k"],
    "reverse": ["--rw=write:-8k"],
    "in place": ["--rw=write:-4k"],
    "semi-random": ["--rw=randread", "--percentage_random=50"],
    "pause": ["--rw=randwrite", "--thinktime=1ms"],
    "bursts": ["--rw=randwrite", "--thinktime=20ms", "--thinktime_blocks=8"],
    "16 jobs": ["--rw=randrw", "--numjobs=16", "--group_reporting"],
}


@pytest.mark.parametrize("model", [*SSDS, "hard-disk"])
@pytest.mark.parametrize("name", OPTIONS)
def test_workloads_of_the_slides_are_deterministic(tmp_path: Path, model: str, name: str) -> None:
    options = ["--ioengine=psync", "--time_based=1", "--runtime=200ms", *OPTIONS[name]]
    first = fio(tmp_path, *options, model=model)
    assert first == fio(tmp_path, *options, model=model)
    (job,) = first["jobs"]
    assert job["error"] == 0
    assert job["read"]["total_ios"] + job["write"]["total_ios"] > 10


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("model", SSDS)
def test_writes_and_reads_of_the_written_data_are_replayed(tmp_path: Path, model: str, version: int) -> None:
    numbers = random.Random(5)
    offsets = [512 * numbers.randrange(2**21) for _ in range(200)]
    time = "0 " if version == 3 else ""
    lines = [f"fio version {version} iolog", f"{time}/dev/elsewhere add", f"{time}/dev/elsewhere open"]
    lines += [f"{time}/dev/elsewhere {action} {offset} 4096" for action in ("write", "read") for offset in offsets]
    log = tmp_path / "io.log"
    log.write_text("\n".join([*lines, f"{time}/dev/elsewhere close"]) + "\n")
    options = [f"--read_iolog={log}", "--replay_redirect={drive}", "--replay_no_stall=1", "--ioengine=psync"]
    (job,) = fio(tmp_path / "state", *options, model=model)["jobs"]
    assert (job["write"]["total_ios"], job["read"]["total_ios"]) == (200, 200)
    assert (job["write"]["io_bytes"], job["read"]["io_bytes"]) == (200 * 4096, 200 * 4096)


@pytest.mark.parametrize("model", ["pqi", "intel"])
def test_errors_of_the_published_values_are_small(model: str) -> None:
    fitted, predicted = mean_fit_errors(model)
    assert fitted <= 0.01
    assert predicted <= 0.10


def test_garbage_collection_ends_a_long_stream_early() -> None:
    worn = explore.simulate_workload(models.load_model("intel"), explore.Workload("randwrite", 65536, requests=4000))
    assert 0 < worn.requests < 4000
    assert worn.counters["units_programmed"] < 30 * 4000
