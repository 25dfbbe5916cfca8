"""Replays of traces on simulated drives."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import command

from iopatterns import _twin, twin

# without the read cache, so that every read reads the flash
MODEL = twin.load_model("px05smb040").overridden(["read_cache.enabled=off"])
SMALL = MODEL.overridden(["capacity.size=1GiB", "flash.pages_per_block=16", "flash.dies_per_channel=1"])


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


def test_each_request_completes_once_and_not_faster_than_flash_and_link() -> None:
    done = twin.replay_trace(MODEL, trace(5000), depth=16)
    assert sorted(done.latencies["request"]) == list(range(5000))
    floor_ns = MODEL.number("flash.read_time") + 4096 / MODEL.number("link.rate") * 1e9
    assert done.latencies["latency_ns"].min() >= floor_ns


def test_the_rate_grows_with_the_depth_up_to_that_of_the_link() -> None:
    rates = []
    for depth in (1, 4, 32, 256):
        done = twin.replay_trace(MODEL, trace(4000), depth=depth, threads=4)
        rates.append(4000 * 4096 / done.duration_ns * 1e9)
    assert max(rates) <= MODEL.number("link.rate")
    assert all(after > 0.99 * before for before, after in pairwise(rates))


def test_reads_of_a_job_that_lie_together_wait_for_each_other() -> None:
    together = MODEL.overridden(["controller.read_locality=0.8"])

    def rate(model: twin.Model, depth: int, threads: int) -> float:
        return 4000 / twin.replay_trace(model, trace(4000), depth=depth, threads=threads).duration_ns

    assert rate(together, 1, 1) == pytest.approx(rate(MODEL, 1, 1), rel=0.01)
    assert rate(together, 8, 1) < 0.8 * rate(MODEL, 8, 1)
    assert rate(together, 1, 8) == pytest.approx(rate(MODEL, 1, 8), rel=0.02)  # the reads of other jobs lie elsewhere


def test_reads_of_a_job_complete_in_order_within_a_window() -> None:
    def overtaken(window: int, threads: int = 1) -> int:
        """Return how many older reads were outstanding when a read completed, at most."""
        model = MODEL.overridden([f"controller.completion_window={window}", "host.lock_time=0"])
        done = twin.replay_trace(model, trace(2000), depth=16 // threads, threads=threads).latencies
        ends = (done["issue_ns"] + done["latency_ns"]).to_numpy()[np.argsort(done["request"])]
        return max(int((ends[:number] > end).sum()) for number, end in enumerate(ends))

    assert overtaken(1) == 0
    assert 0 < overtaken(3) <= 2 < overtaken(0)
    assert overtaken(1, threads=4) > 0  # each job has its own order


def test_the_window_of_reads_does_not_delay_writes() -> None:
    mixed = trace(2000).assign(operation=np.arange(2000, dtype=np.uint8) % 2)
    waits = []
    for window in (0, 1):
        model = MODEL.overridden([f"controller.completion_window={window}"])
        done = twin.replay_trace(model, mixed, depth=8).latencies
        waits.append(done["latency_ns"][done["request"] % 2 == 1].median())
    assert waits[1] == pytest.approx(waits[0], rel=0.1)


def test_a_random_order_of_commands_spreads_latencies_and_keeps_the_rate() -> None:
    # the controller is the slowest part
    base = MODEL.overridden(["controller.read_interval=50 us", "host.lock_time=0"])
    done = {
        share: twin.replay_trace(base.overridden([f"controller.reordering={share}"]), trace(20_000), depth=32)
        for share in (0, 0.5, 1)
    }
    assert done[1].duration_ns == pytest.approx(done[0].duration_ns, rel=0.01)
    spreads = [each.summary()["latency_p99_us"] / each.summary()["latency_p50_us"] for each in done.values()]
    assert 1.1 * spreads[0] < spreads[1] < spreads[2]
    # a command that waits for one of 32 random choices waits longer than 4.6 times the mean once in a hundred times
    assert 4 < done[1].summary()["latency_p99_us"] / done[1].summary()["latency_mean_us"] < 5


def test_a_random_order_follows_from_the_seed() -> None:
    model = MODEL.overridden(["controller.read_interval=50 us", "host.lock_time=0", "controller.reordering=1"])
    requests = trace(500)
    columns = [requests[name].to_numpy() for name in ("operation", "offset_bytes", "size_bytes")]

    def latencies(seed: int) -> list[int]:
        replay = _twin.Replay(model.text, 1, 32, seed)
        done = [replay.feed(np.empty(0, np.int64), *columns), replay.finish()]
        return [int(latency) for _, _, each in done for latency in each]

    assert latencies(1) == latencies(1)
    assert latencies(1) != latencies(2)


def test_the_search_for_a_segment_costs_time_only_if_it_outlasts_the_transfer() -> None:
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
def test_a_faster_part_does_not_slow_down_reads(faster: str, value: str) -> None:
    before = twin.replay_trace(MODEL, trace(3000), depth=8).duration_ns
    assert twin.replay_trace(MODEL.overridden([f"{faster}={value}"]), trace(3000), depth=8).duration_ns <= before


@pytest.mark.parametrize("state", ["fresh", "sequential", "random"])
def test_programmed_units_are_the_sum_of_host_units_moved_units_and_padding(state: str) -> None:
    model = SMALL.overridden([f"ftl.initial_state={state}"])
    counters = twin.replay_trace(model, trace(600_000, 1, span_bytes=2**30), depth=32).counters
    host, moved = counters["units_host"], counters["units_moved"]
    assert counters["units_programmed"] == host + moved + counters["units_padding"]
    assert min(host, moved, counters["block_erases"]) > 0


def test_each_read_is_a_hit_or_a_miss_of_the_mapping_cache() -> None:
    model = SMALL.overridden(["page_mapping.map_cache_coverage=0.1"])
    done = twin.replay_trace(model, trace(20_000, span_bytes=2**30), depth=4)
    assert done.counters["map_read_hits"] + done.counters["map_read_misses"] == 20_000
    assert done.counters["map_read_misses"] > 10_000
    slower = done.latencies["latency_ns"].mean()
    assert slower > twin.replay_trace(SMALL, trace(20_000, span_bytes=2**30), depth=4).latencies["latency_ns"].mean()


def test_reads_of_discarded_data_do_not_read_the_flash() -> None:
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
def test_a_trace_in_pieces_has_the_same_replay_as_the_whole_trace(
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
def test_twin_replay_writes_latencies_and_counters(tmp_path: Path) -> None:
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


def test_with_blocking_submission_a_thread_has_one_request_in_flight() -> None:
    model = MODEL.overridden(["host.blocking_submit=on"])
    one, many = (twin.replay_trace(model, trace(500), depth=depth) for depth in (1, 32))
    assert many.duration_ns == one.duration_ns
    assert many.counters["queue_depth_max"] == 1
    assert twin.replay_trace(MODEL, trace(500), depth=32).duration_ns < one.duration_ns / 2
