"""Behaviour of simulated SSDs: latency distribution, depth, discards, wear, throttling, caches and flushes."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from twins import command, fio

from iopatterns import twin
from iopatterns.twin import traces

TIMED = ["--time_based=1", "--runtime=2", "--norandommap=1", "--ioengine=libaio", "--group_reporting=1"]
RANDREAD = [*TIMED, "--rw=randread"]
MIX = [*TIMED, "--rw=randrw", "--rwmixread=99"]
SSDS = [name for name in twin.list_models() if twin.load_model(name).kind == "ssd"]
# as with a queue for each processor, which needs no common lock
NO_LOCK = "host.lock_time=0"


def reads(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["jobs"][0]["read"]
    return found


def percentile_us(content: dict[str, Any], percent: float) -> float:
    return float(reads(content)["clat_ns"]["percentile"][f"{percent:.6f}"] / 1e3)


@pytest.mark.parametrize("model", ["px05smb040", "mz7km240", "ssdsc2kg480g7", "nvme-generic"])
def test_latencies_of_reads_vary_with_the_page_and_with_retries(tmp_path: Path, model: str) -> None:
    found = fio(tmp_path, *RANDREAD, model=model)
    mean_us = reads(found)["clat_ns"]["mean"] / 1e3
    # read times of lower and upper pages differ
    assert percentile_us(found, 95) > 1.05 * percentile_us(found, 5)
    # AnandTech's survey of enterprise drives (article 13704, 2018): the 99.99th percentile of single random reads is
    # at most some 2.5 times their mean
    assert 1.5 * mean_us < percentile_us(found, 99.99) < 2.7 * mean_us


def test_retries_depend_on_the_seed_alone(tmp_path: Path) -> None:
    def latencies(seed: int, name: str) -> Any:
        return reads(fio(tmp_path / name, *RANDREAD, f"--randseed={seed}", model="mz7km240"))["clat_ns"]

    assert latencies(1, "a") == latencies(1, "b")
    assert latencies(1, "a") != latencies(2, "c")


def test_reads_wait_for_programs_only_if_the_flash_cannot_suspend(tmp_path: Path) -> None:
    settings = [NO_LOCK, "ftl.initial_state=random", "flash.housekeeping_interval=0", "flash.read_retry_rate=0"]
    waiting = fio(tmp_path, *MIX, "--iodepth=8", settings=[*settings, "flash.suspend_time=0"])
    suspending = fio(tmp_path, *MIX, "--iodepth=8", settings=settings)
    assert percentile_us(suspending, 99.9) < 0.5 * percentile_us(waiting, 99.9)
    assert reads(suspending)["clat_ns"]["mean"] < reads(waiting)["clat_ns"]["mean"]


@pytest.mark.parametrize("model", ["c400", "mz7km240", "px05smb040"])
def test_the_rate_grows_with_the_depth_up_to_the_controller_s_limit(tmp_path: Path, model: str) -> None:
    one, many = (
        reads(fio(tmp_path, *RANDREAD, f"--iodepth={depth}", "--size=1g", model=model, settings=[NO_LOCK]))
        for depth in (1, 32)
    )
    assert many["iops"] > 6 * one["iops"]
    assert many["iops"] <= 1e9 / twin.load_model(model).number("controller.read_interval")


def test_all_jobs_share_the_lock_of_the_block_layer_s_queue(tmp_path: Path) -> None:
    jobs = [*TIMED, "--rw=randread", "--numjobs=8", "--iodepth=16", "--runtime=300ms", "--size=1g"]
    lock_ns = twin.load_model("px05smb040").number("host.lock_time")
    locked, free = (reads(fio(tmp_path, *jobs, settings=settings))["iops"] for settings in ([], [NO_LOCK]))
    assert locked == pytest.approx(1e9 / lock_ns, rel=0.02)
    assert free > 2 * locked


def test_the_time_of_a_discard_grows_with_its_range(tmp_path: Path) -> None:
    def longest_us(size: str) -> float:
        found = fio(tmp_path, "--rw=trim", f"--bs={size}", "--size=1g", "--ioengine=psync", model="mz7km240")
        return float(found["jobs"][0]["trim"]["clat_ns"]["max"] / 1e3)

    unit_ns = twin.load_model("mz7km240").number("controller.discard_unit_time")
    grown_us = (2**30 - 2**20) / 4096 * unit_ns / 1e3
    assert longest_us("1g") - longest_us("1m") == pytest.approx(grown_us, rel=0.05)


def test_a_worn_drive_reads_with_more_retries(tmp_path: Path) -> None:
    model = twin.load_model("mz7km240")
    rated = int(model.number("ageing.rated_cycles"))
    new, worn = (
        fio(tmp_path, *RANDREAD, model="mz7km240", settings=[f"ageing.cycles={cycles}"]) for cycles in (0, rated)
    )
    more_us = model.number("ageing.retry_rate_when_worn") * model.number("flash.read_time") / 1e3
    assert (reads(worn)["clat_ns"]["mean"] - reads(new)["clat_ns"]["mean"]) / 1e3 == pytest.approx(more_us, rel=0.1)


@pytest.mark.parametrize("throttle", [0.25, 0.5])
def test_a_throttled_drive_accepts_commands_for_a_part_of_the_time(tmp_path: Path, throttle: float) -> None:
    options = [*RANDREAD, "--iodepth=32", "--size=1g"]
    cool, hot = (
        reads(fio(tmp_path, *options, model="mz7km240", settings=[NO_LOCK, f"controller.throttle={share}"]))["iops"]
        for share in (0, throttle)
    )
    # the drive completes accepted commands while it accepts no others
    assert hot / cool == pytest.approx(1 - throttle, abs=0.05)


def replay(model: twin.Model, operation: list[int], offset_bytes: list[int], arrival_ns: list[int]) -> list[int]:
    """Return the latencies of 4 KiB requests in nanoseconds, in the order of the trace."""
    types = {"arrival_ns": "int64", "operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
    columns = {"arrival_ns": arrival_ns, "operation": operation, "offset_bytes": offset_bytes, "size_bytes": 4096}
    done = twin.replay_trace(model, pd.DataFrame(columns).astype(types)).latencies
    return done.set_index("request").sort_index()["latency_ns"].tolist()


def test_a_read_of_data_that_are_being_read_waits_for_the_flash() -> None:
    model = twin.load_model("mz7km240").overridden(["flash.read_retry_rate=0", "flash.housekeeping_interval=0"])
    first, second, later = replay(model, [0, 0, 0], [0, 0, 0], [0, 10_000, 10_000_000])
    read_ns = model.number("flash.read_time") * (1 - model.number("flash.read_time_spread"))
    assert first > read_ns
    assert first - 10_000 <= second <= first + 20_000
    assert later < first - read_ns + 1000


def test_a_read_after_a_write_finds_the_new_data_in_the_write_buffer() -> None:
    model = twin.load_model("mz7km240").overridden(["flash.read_retry_rate=0", "flash.housekeeping_interval=0"])
    first, _, third = replay(model, [0, 1, 0], [0, 0, 0], [0, 10_000, 40_000])  # the write arrives during the read
    assert third < first


@pytest.mark.parametrize("model", SSDS)
@pytest.mark.parametrize("shift", [512, 1024, 2048])
def test_a_misaligned_read_is_never_faster_than_an_aligned_read(model: str, shift: int) -> None:
    offsets = np.random.default_rng(1).integers(0, 2**16, 4000) * 4096
    drive = twin.load_model(model).overridden(["flash.read_retry_rate=0", "flash.housekeeping_interval=0"])
    aligned, misaligned = (
        twin.replay_trace(
            drive,
            pd.DataFrame({"operation": 0, "offset_bytes": offsets + each, "size_bytes": 4096}).astype(
                {"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
            ),
            depth=1,
        ).latencies["latency_ns"]
        for each in (0, shift)
    )
    # two flash pages, each of which has to be read and transferred up to the last sector that is needed
    assert misaligned.mean() >= 0.999 * aligned.mean()


@pytest.mark.parametrize(("model", "queues"), [("mz7km240", False), ("px05smb040", True), ("nvme-generic", True)])
@pytest.mark.parametrize("operation", ["flush", "discard"])
def test_a_sata_drive_does_nothing_else_while_it_flushes_or_discards(model: str, queues: bool, operation: str) -> None:
    # NCQ queues only reads and writes; SCSI and NVMe queue all commands
    drive = twin.load_model(model).overridden([NO_LOCK, "flash.read_retry_rate=0", "flash.housekeeping_interval=0"])
    blocks = [4096 * 1000 * number for number in range(4)]
    alone = replay(drive, [0], [blocks[0]], [0])[0]
    first, waiting, after = replay(drive, [0, traces.OPERATIONS[operation], 0], blocks[:3], [0, 1000, 2000])
    assert first == pytest.approx(alone, rel=0.5)
    if queues:
        assert waiting < first
        assert after == pytest.approx(alone, rel=0.5)
    else:
        assert waiting > first - 1000
        assert after > waiting - 1000 + 0.5 * alone


# Requests a flush by fsync() or by io_submit(), with the structures of the C library and libaio
FLUSHES = """
import ctypes, os, struct, sys
drive = os.open(sys.argv[1], os.O_RDWR)
os.pread(drive, 4096, 0)
if sys.argv[2] == "fsync":
    os.fsync(drive)
    sys.exit()
aio = ctypes.CDLL("libaio.so.1")
context = ctypes.c_void_p()
assert aio.io_setup(1, ctypes.byref(context)) == 0
fsync = ctypes.create_string_buffer(struct.pack("<QIIHhiQQq", 0, 0, 0, 2, 0, drive, 0, 0, 0), 64)
assert aio.io_submit(context, 1, (ctypes.c_void_p * 1)(ctypes.addressof(fsync))) == 1
event = ctypes.create_string_buffer(32)
assert aio.io_getevents(context, 1, 1, event, None) == 1
assert struct.unpack("<q", event[16:24]) == (0,)
"""


@pytest.mark.parametrize("call", ["fsync", "io_submit"])
@pytest.mark.parametrize("cache", ["on", "off"])
def test_a_drive_without_write_cache_receives_no_flush(call: str, cache: str, tmp_path: Path) -> None:
    table = tmp_path / "counters.csv"
    drive = ["px05smb040", "--state", str(tmp_path), "--counters", str(table), f"--set=write_buffer.enabled={cache}"]
    done = command("run", *drive, "--", sys.executable, "-c", FLUSHES, "{drive}", call)
    assert done.returncode == 0, done.stderr
    counted = pd.read_csv(table)
    assert counted[counted["series"] == "flush_commands"]["value"].max() == (1 if cache == "on" else 0)


@pytest.mark.parametrize("delay", ["0", "1 ms"])
def test_a_write_buffer_works_with_any_delay_of_partial_pages(delay: str) -> None:
    buffer = ["write_buffer.size=1 MiB", "write_buffer.enabled=on", f"write_buffer.destage_delay={delay}"]
    offsets = np.random.default_rng(1).integers(0, 2**18, 2000) * 4096
    found = twin.replay_trace(
        twin.load_model("pqi").overridden(buffer),
        pd.DataFrame({"operation": 1, "offset_bytes": offsets, "size_bytes": 4096}).astype(
            {"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
        ),
        depth=8,
    )
    assert found.counters["buffer_full_waits"] > 0  # the flash accepts no batch while the buffer is full
    assert len(found.latencies) == 2000
