"""Behaviour of simulated hard disks: streams of writes with and without the write cache, and the track buffer."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from iopatterns import twin

MIB = 2**20
READ, WRITE, FLUSH = range(3)
DISKS = ["caviar-se", "hard-disk"]
SIZES = [4096, 64 * 1024, MIB]
CACHE_OFF = "disk.write_cache_enabled=off"


def result_of(
    model: str, operation: int, offsets: Sequence[int] | np.ndarray, size: int, depth: int = 1, *settings: str
) -> twin.ReplayResult:
    """Replay requests of one kind and size, and then a flush, with so many outstanding."""
    requests = pd.DataFrame({"operation": operation, "offset_bytes": offsets, "size_bytes": size})
    requests.loc[len(requests)] = [FLUSH, 0, 0]
    types = {"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
    return twin.replay_trace(twin.load_model(model).overridden(list(settings)), requests.astype(types), depth=depth)


def bytes_per_s(
    model: str, operation: int, offsets: Sequence[int] | np.ndarray, size: int, depth: int = 1, *settings: str
) -> float:
    return len(offsets) * size / result_of(model, operation, offsets, size, depth, *settings).duration_ns * 1e9


def stream(size: int, total: int = 256 * MIB, begin: int = 0) -> np.ndarray:
    """Return the offsets of consecutive requests."""
    return begin + np.arange(0, total, size, dtype=np.int64)


def revolution_s(model: str) -> float:
    return 60 / twin.load_model(model).number("disk.rotation_rpm")


@pytest.mark.parametrize("model", DISKS)
@pytest.mark.parametrize("depth", [1, 32])
@pytest.mark.parametrize("size", SIZES)
def test_with_the_cache_sequential_writes_are_as_fast_as_sequential_reads(model: str, size: int, depth: int) -> None:
    read, write = (bytes_per_s(model, operation, stream(size), size, depth) for operation in (READ, WRITE))
    assert write > 0.9 * read
    assert max(read, write) < twin.load_model(model).number("disk.outer_rate")


@pytest.mark.parametrize("model", DISKS)
def test_the_rate_of_cached_sequential_writes_does_not_depend_on_their_size(model: str) -> None:
    rates = [bytes_per_s(model, WRITE, stream(size), size, 32) for size in SIZES]
    assert max(rates) < 1.02 * min(rates)


@pytest.mark.parametrize("setting", ["disk.write_cache=2 MiB", "disk.write_settle=2 ms", "disk.reorders=off"])
def test_a_stream_of_writes_needs_neither_a_large_cache_nor_reordering(setting: str) -> None:
    assert bytes_per_s("hard-disk", WRITE, stream(65536), 65536, 8, setting) > 0.9 * 200e6


@pytest.mark.parametrize("model", DISKS)
def test_without_the_cache_each_write_takes_a_revolution(model: str) -> None:
    writes = stream(4096, 2 * MIB)
    duration_s = result_of(model, WRITE, writes, 4096, 1, CACHE_OFF).duration_ns / 1e9
    assert duration_s == pytest.approx(len(writes) * revolution_s(model), rel=0.02)


def random_reads_per_s(depth: int, *settings: str) -> float:
    offsets = np.random.default_rng(1).integers(0, 10**12 // 4096, 600) * 4096
    return bytes_per_s("hard-disk", READ, offsets, 4096, depth, *settings) / 4096


def test_a_disk_that_compares_few_commands_gains_less_from_a_queue() -> None:
    rates = [random_reads_per_s(32, f"disk.reorder_share={share}") for share in (0.05, 0.25, 1)]
    assert rates[0] * 1.1 < rates[1] < rates[2] / 1.1
    # of three commands that wait while a fourth is served, a quarter is one
    few = random_reads_per_s(4, "disk.reorder_share=0.25")
    assert few == random_reads_per_s(4, "disk.reorders=off") < random_reads_per_s(4) / 1.1


def test_a_share_of_0_stands_for_all_commands() -> None:
    assert random_reads_per_s(16, "disk.reorder_share=0") == random_reads_per_s(16, "disk.reorder_share=1")


def test_cached_writes_that_wait_too_long_are_written_in_order_of_arrival() -> None:
    offsets = np.random.default_rng(1).integers(0, 10**12 // 4096, 1500) * 4096

    def writes_per_s(*settings: str) -> float:
        return bytes_per_s("hard-disk", WRITE, offsets, 4096, 1, "disk.write_cache=1 MiB", *settings) / 4096

    long, short = (writes_per_s(f"disk.longest_wait={time}") for time in ("50 s", "10 ms"))
    assert long > 2 * short
    assert writes_per_s() == writes_per_s("disk.longest_wait=500 ms")


def test_without_the_cache_queued_contiguous_writes_are_one_stream() -> None:
    assert bytes_per_s("hard-disk", WRITE, stream(65536), 65536, 32, CACHE_OFF) > 0.9 * 200e6


def test_a_disk_writes_interleaved_streams_in_long_pieces() -> None:
    size = 4096
    streams = [stream(size, 32 * MIB, begin=number * 10 * 2**30) for number in range(4)]
    interleaved = np.stack(streams, axis=1).ravel()
    # a seek and a rotation of 10 ms after each MiB leave a third of the media rate
    assert bytes_per_s("hard-disk", WRITE, interleaved, size, 4) > 200e6 / 3


def test_the_cache_stores_data_that_are_written_again_only_once() -> None:
    writes = np.zeros(2000, dtype=np.int64)
    in_place = result_of("hard-disk", WRITE, writes, 4096)
    assert in_place.duration_ns / 1e9 < 0.1 * len(writes) * revolution_s("hard-disk")
    assert in_place.counters["buffer_full_waits"] == 0


def test_writes_enter_a_full_cache_in_order_of_arrival() -> None:
    # small writes all over the disk fill the cache, and do not pass a large write that waits for space
    offsets = np.random.default_rng(1).integers(0, 2**18, 4000) * 4096
    table = pd.DataFrame({"operation": WRITE, "offset_bytes": offsets, "size_bytes": 4096})
    table.loc[3000] = [WRITE, 2**32, 2**20]
    types = {"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"}
    done = twin.replay_trace(twin.load_model("hard-disk"), table.astype(types), depth=8).latencies
    acknowledged = done.set_index("request")[["issue_ns", "latency_ns"]].sum(axis=1)
    assert (acknowledged.loc[3020:] > acknowledged.loc[3000]).all()


def test_writes_that_leave_gaps_take_the_time_of_the_gaps() -> None:
    gaps = 65536 * np.arange(4000, dtype=np.int64)
    rate = bytes_per_s("hard-disk", WRITE, gaps, 4096, 8)
    assert 0.8 < rate / (200e6 / 16) < 1.05


@pytest.mark.parametrize("model", DISKS)
def test_the_track_buffer_forgets_what_it_has_no_space_for(model: str) -> None:
    read_twice = np.concatenate([stream(MIB, 64 * MIB)] * 2)
    found = result_of(model, READ, read_twice, MIB)
    assert len(read_twice) * MIB / found.duration_ns * 1e9 < twin.load_model(model).number("disk.outer_rate")
    assert found.counters["buffer_read_hits"] == 0


def test_a_write_to_data_that_are_being_read_ahead_does_not_extend_an_older_segment() -> None:
    share = twin.load_model("hard-disk").number("disk.track_buffer") / 16
    table = pd.DataFrame(
        [
            (READ, 0, 4096, 0),
            (READ, 2**30, 4096, 50_000_000),
            (WRITE, 2**30 + 8192, 4096, 100_000_000),
            (READ, share, 4096, 200_000_000),  # the last sectors of the first segment, which is full
            (READ, share + 4096, 4096, 300_000_000),  # no segment has these
        ],
        columns=["operation", "offset_bytes", "size_bytes", "arrival_ns"],
    ).astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64", "arrival_ns": "int64"})
    done = twin.replay_trace(twin.load_model("hard-disk"), table).latencies.set_index("request")["latency_ns"]
    assert done[3] < 1_000_000 < done[4]
