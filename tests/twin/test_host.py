"""Costs of the host in time: submitting, waking up, polling and spinning; the same for fio and replays."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from twins import fio, mean_us

from iopatterns import twin

TIMED = ["--time_based=1", "--runtime=300ms", "--rw=randread", "--norandommap=1", "--group_reporting=1"]
LIBAIO = ["--ioengine=libaio", *TIMED]
BATCHES = [*LIBAIO, "--iodepth=16", "--iodepth_batch=16", "--iodepth_batch_complete_min=16"]


def requests_per_second(content: dict[str, Any]) -> float:
    return float(content["jobs"][0]["read"]["iops"])


@pytest.mark.parametrize("name", ["submit_time", "wakeup_time", "reap_time"])
@pytest.mark.parametrize("engine", ["psync", "libaio"])
def test_a_thread_with_one_request_pays_each_cost_once_per_request(name: str, engine: str, tmp_path: Path) -> None:
    options = [f"--ioengine={engine}", *TIMED]
    low, high = (mean_us(fio(tmp_path, *options, settings=[f"host.{name}={us} us"])) for us in (2, 42))
    assert high - low == pytest.approx(40, abs=0.5)


def test_a_batch_costs_one_wakeup_and_one_reap_per_request(tmp_path: Path) -> None:
    def batch_us(*settings: str) -> float:
        return 16e6 / requests_per_second(fio(tmp_path, *BATCHES, settings=settings))

    base = batch_us("host.wakeup_time=0", "host.reap_time=0")
    assert batch_us("host.wakeup_time=100 us", "host.reap_time=0") - base == pytest.approx(100, rel=0.02)
    assert batch_us("host.wakeup_time=0", "host.reap_time=10 us") - base == pytest.approx(160, rel=0.02)


def test_a_thread_that_does_not_wait_pays_no_wakeup(tmp_path: Path) -> None:
    # with 64 outstanding requests, one has always completed before the thread reaps it
    settings = ["host.submit_time=15 us", "host.reap_time=5 us", "host.wakeup_time=1 ms"]
    rate = requests_per_second(fio(tmp_path, *LIBAIO, "--iodepth=64", settings=settings))
    assert rate == pytest.approx(1e6 / (15 + 5 + 0.1), rel=0.02)


def test_a_polling_thread_finds_a_request_within_one_poll_and_is_not_woken(tmp_path: Path) -> None:
    settings = ["host.wakeup_time=0", "flash.read_time=1 ms"]  # 2000 polls per request if all were made
    waiting, polling = (
        mean_us(fio(tmp_path, *LIBAIO, *how, settings=settings)) for how in ([], ["--iodepth_batch_complete_min=0"])
    )
    assert waiting < polling < waiting + 0.5
    slow = [*settings[1:], "host.wakeup_time=100 us"]
    assert mean_us(fio(tmp_path, *LIBAIO, "--iodepth_batch_complete_min=0", settings=slow)) == pytest.approx(polling)


@pytest.mark.parametrize("spin_us", [5, 200, 20_000])
def test_a_spinning_thread_continues_within_two_percent_of_its_time(spin_us: int, tmp_path: Path) -> None:
    think = [f"--thinktime={spin_us}", f"--thinktime_spin={spin_us}"]
    plain, spinning = (
        1e6 / requests_per_second(fio(tmp_path, "--ioengine=psync", *TIMED, *how)) for how in ([], think)
    )
    assert spinning - plain == pytest.approx(spin_us, rel=0.02, abs=1)  # fio counts whole microseconds


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("depth", [1, 8, 32])
@pytest.mark.parametrize("model", ["px05smb040", "nvme-generic"])
def test_replay_keeps_as_many_requests_outstanding_as_fio_does(
    model: str, depth: int, jobs: int, tmp_path: Path
) -> None:
    measured = fio(tmp_path, *LIBAIO, f"--iodepth={depth}", f"--numjobs={jobs}", model=model)
    requests = measured["jobs"][0]["read"]["total_ios"]
    blocks = np.random.default_rng(1).integers(0, 2**28 // 4096, requests, dtype=np.uint64)
    trace = pd.DataFrame({"operation": np.uint8(0), "offset_bytes": blocks * 4096, "size_bytes": np.uint64(4096)})
    replayed = twin.replay_trace(twin.load_model(model), trace, depth=depth, threads=jobs)
    summary = replayed.summary()
    assert summary["iops"] == pytest.approx(requests_per_second(measured), rel=0.01)
    assert summary["latency_mean_us"] == pytest.approx(mean_us(measured), rel=0.01)
    # Little's law
    assert summary["iops"] * summary["latency_mean_us"] / 1e6 == pytest.approx(depth * jobs, rel=0.01)
