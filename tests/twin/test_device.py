"""What an SSD does with requests, as fio sees it: spread of latencies, depth, discards, age, heat, shared reads."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from twins import command, fio

from iopatterns import twin
from iopatterns.twin import traces
from iopatterns.twin.trace_replay import ReplaySession

TIMED = ["--time_based=1", "--runtime=2", "--norandommap=1", "--ioengine=libaio", "--group_reporting=1"]
RANDREAD = [*TIMED, "--rw=randread"]
# A mix of which the reads alone are looked at.
MIX = [*TIMED, "--rw=randrw", "--rwmixread=99"]
# What a data sheet's machine has: a queue for each processor, and so no lock that all requests take.
NO_LOCK = "host.lock_time=0"


def reads(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["jobs"][0]["read"]
    return found


def percentile_us(content: dict[str, Any], percent: float) -> float:
    return float(reads(content)["clat_ns"]["percentile"][f"{percent:.6f}"] / 1e3)


@pytest.mark.parametrize("model", ["px05smb040", "mz7km240", "ssdsc2kg480g7", "nvme-generic"])
def test_single_reads_spread_by_page_and_now_and_then_by_a_retry(tmp_path: Path, model: str) -> None:
    found = fio(tmp_path, *RANDREAD, model=model)
    mean_us = reads(found)["clat_ns"]["mean"] / 1e3
    # lower and upper pages differ
    assert percentile_us(found, 95) > 1.05 * percentile_us(found, 5)
    # AnandTech's survey of enterprise drives (article 13704, 2018): the 99.99th percentile of single random reads is
    # at most some 2.5 times their mean
    assert 1.5 * mean_us < percentile_us(found, 99.99) < 2.7 * mean_us


def test_executions_with_other_seeds_meet_other_retries_and_the_same_seed_the_same(tmp_path: Path) -> None:
    def latencies(seed: int, name: str) -> Any:
        return reads(fio(tmp_path / name, *RANDREAD, f"--randseed={seed}", model="mz7km240"))["clat_ns"]

    assert latencies(1, "a") == latencies(1, "b")
    assert latencies(1, "a") != latencies(2, "c")


def test_reads_interrupt_programs_where_flash_can_and_wait_for_them_where_it_cannot(tmp_path: Path) -> None:
    settings = [NO_LOCK, "ftl.initial_state=random", "flash.housekeeping_interval=0", "flash.read_retry_rate=0"]
    cannot = fio(tmp_path, *MIX, "--iodepth=8", settings=[*settings, "flash.suspend_time=0"])
    can = fio(tmp_path, *MIX, "--iodepth=8", settings=settings)
    assert percentile_us(can, 99.9) < 0.5 * percentile_us(cannot, 99.9)
    assert reads(can)["clat_ns"]["mean"] < reads(cannot)["clat_ns"]["mean"]


@pytest.mark.parametrize("model", ["c400", "mz7km240", "px05smb040"])
def test_a_command_s_latency_does_not_limit_how_many_are_served(tmp_path: Path, model: str) -> None:
    one, many = (
        reads(fio(tmp_path, *RANDREAD, f"--iodepth={depth}", "--size=1g", model=model, settings=[NO_LOCK]))
        for depth in (1, 32)
    )
    assert many["iops"] > 6 * one["iops"]
    slowest_ns = twin.load_model(model).number("controller.read_interval")
    assert many["iops"] <= 1e9 / slowest_ns


def test_the_lock_of_the_block_layer_s_queue_is_shared_by_all_jobs(tmp_path: Path) -> None:
    jobs = [*TIMED, "--rw=randread", "--numjobs=8", "--iodepth=16", "--runtime=300ms", "--size=1g"]
    lock_ns = twin.load_model("px05smb040").number("host.lock_time")
    locked, free = (reads(fio(tmp_path, *jobs, settings=settings))["iops"] for settings in ([], [NO_LOCK]))
    assert locked == pytest.approx(1e9 / lock_ns, rel=0.02)
    assert free > 2 * locked


def test_discarding_takes_time_by_the_range(tmp_path: Path) -> None:
    def longest_us(size: str) -> float:
        found = fio(tmp_path, "--rw=trim", f"--bs={size}", "--size=1g", "--ioengine=psync", model="mz7km240")
        return float(found["jobs"][0]["trim"]["clat_ns"]["max"] / 1e3)

    unit_ns = twin.load_model("mz7km240").number("controller.discard_unit_time")
    grown_us = (2**30 - 2**20) / 4096 * unit_ns / 1e3
    assert longest_us("1g") - longest_us("1m") == pytest.approx(grown_us, rel=0.05)


def test_a_worn_drive_reads_with_more_retries(tmp_path: Path) -> None:
    rated = int(twin.load_model("mz7km240").number("ageing.rated_cycles"))
    new, worn = (
        fio(tmp_path, *RANDREAD, model="mz7km240", settings=[f"ageing.cycles={cycles}"]) for cycles in (0, rated)
    )
    model = twin.load_model("mz7km240")
    more_us = model.number("ageing.retry_rate_when_worn") * model.number("flash.read_time") / 1e3
    assert (reads(worn)["clat_ns"]["mean"] - reads(new)["clat_ns"]["mean"]) / 1e3 == pytest.approx(more_us, rel=0.1)


@pytest.mark.parametrize("throttle", [0.25, 0.5])
def test_a_hot_drive_takes_commands_for_a_part_of_the_time(tmp_path: Path, throttle: float) -> None:
    options = [*RANDREAD, "--iodepth=32", "--size=1g"]
    cool, hot = (
        reads(fio(tmp_path, *options, model="mz7km240", settings=[NO_LOCK, f"controller.throttle={share}"]))["iops"]
        for share in (0, throttle)
    )
    # what is in the drive when it stops taking commands is still served
    assert hot / cool == pytest.approx(1 - throttle, abs=0.05)


def replay(model: twin.Model, operation: list[int], offset_bytes: list[int], arrival_ns: list[int]) -> list[int]:
    """Return the latencies of requests of 4 KiB in nanoseconds, in the order of the trace."""
    session = ReplaySession(model)
    trace = pd.DataFrame(
        {
            "arrival_ns": np.array(arrival_ns, np.int64),
            "operation": np.array(operation, np.uint8),
            "offset_bytes": np.array(offset_bytes, np.uint64),
            "size_bytes": np.full(len(operation), 4096, np.uint64),
        }
    )
    done = pd.concat(list(session.run([trace]))).set_index("request").sort_index()
    return [int(each) for each in done["latency_ns"]]


def test_a_second_reader_waits_for_the_flash_as_the_first_does() -> None:
    """The read cache has data when they have come, not when they have been asked for."""
    model = twin.load_model("mz7km240").overridden(["flash.read_retry_rate=0", "flash.housekeeping_interval=0"])
    first, second, later = replay(model, [0, 0, 0], [0, 0, 0], [0, 10_000, 10_000_000])
    read_ns = model.number("flash.read_time") * (1 - model.number("flash.read_time_spread"))
    assert first > read_ns
    assert first - 10_000 <= second <= first + 20_000
    assert later < first - read_ns + 1000


def test_a_write_in_between_leaves_nothing_old_in_the_read_cache() -> None:
    """A read that comes after a write finds what was written, in the write buffer, however the first read ends."""
    model = twin.load_model("mz7km240").overridden(["flash.read_retry_rate=0", "flash.housekeeping_interval=0"])
    first, _, third = replay(model, [0, 1, 0], [0, 0, 0], [0, 10_000, 40_000])
    assert third < first


@pytest.mark.parametrize(("model", "queues"), [("mz7km240", False), ("px05smb040", True), ("nvme-generic", True)])
@pytest.mark.parametrize("operation", ["flush", "discard"])
def test_a_sata_drive_does_nothing_else_while_it_flushes_or_discards(model: str, queues: bool, operation: str) -> None:
    """NCQ has reads and writes alone; SCSI and NVMe queue all commands."""
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


# Asks for a flush by fsync() and by io_submit(), as the C library and libaio have them
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
def test_no_flush_is_sent_to_a_drive_whose_write_cache_is_off(call: str, cache: str, tmp_path: Path) -> None:
    table = tmp_path / "counters.csv"
    drive = ["px05smb040", "--state", str(tmp_path), "--counters", str(table), f"--set=write_buffer.enabled={cache}"]
    done = command("run", *drive, "--", sys.executable, "-c", FLUSHES, "{drive}", call)
    assert done.returncode == 0, done.stderr
    counted = pd.read_csv(table)
    assert counted[counted["series"] == "flush_commands"]["value"].max() == (1 if cache == "on" else 0)
