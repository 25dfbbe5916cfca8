"""Dependencies between the requests of a trace, and replays that keep them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.twin.dependencies import Dependencies
from iopatterns.twin.trace_replay import ReplaySession
from iopatterns.twin.traces import OPERATIONS, UNKNOWN_TIME, RecordedDrive, parquet

# Without random events in the drive, and with a host that takes no time
DRIVE = twin.load_model("wiscsim").overridden(["capacity.size=512 MiB"])
QUICK = DRIVE.overridden(["flash.read_time=2 us", "flash.program_time=20 us"])
SLOW = DRIVE.overridden(["flash.read_time=200 us", "flash.program_time=2 ms"])


def dependencies(arrival_ns: list[int], completed_ns: list[int]) -> tuple[list[int], list[int]]:
    after, delay_ns = Dependencies().of(np.array(arrival_ns), np.array(completed_ns))
    return after.tolist(), delay_ns.tolist()


def test_a_request_waits_for_as_many_completions_as_in_the_trace() -> None:
    # two at once; the third follows the first completion, the fourth both, the fifth everything after a pause
    after, delay_ns = dependencies([0, 0, 10, 25, 100], [10, 20, 40, 30, 110])
    assert after == [0, 0, 1, 2, 4]
    assert delay_ns == [0, 0, 0, 5, 60]


def test_a_request_without_completion_counts_as_complete_at_once() -> None:
    assert dependencies([0, 5, 9], [UNKNOWN_TIME, 7, 12]) == ([0, 1, 2], [0, 5, 2])


def test_no_request_waits_for_itself_or_for_a_later_one() -> None:
    assert dependencies([0, 0, 0], [0, 0, 0]) == ([0, 1, 2], [0, 0, 0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=2, max_size=40), st.integers(1, 39))
def test_pieces_of_a_trace_have_the_dependencies_of_the_whole_trace(rows: list[tuple[int, int]], cut: int) -> None:
    gaps, latencies = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    arrival_ns = gaps.cumsum()
    completed_ns = arrival_ns + latencies
    whole, pieces = Dependencies(), Dependencies()
    expected = whole.of(arrival_ns, completed_ns)
    found = [pieces.of(arrival_ns[part], completed_ns[part]) for part in (slice(cut), slice(cut, None))]
    for one, two in zip(expected, zip(*found, strict=True), strict=True):
        assert one.tolist() == np.concatenate(two).tolist()
    after, delay_ns = expected
    assert (after <= np.arange(len(after))).all()
    assert (np.diff(after.astype(int)) >= 0).all()
    assert (delay_ns >= 0).all()


def recorded(drive: twin.models.Model, depth: int, seed: int = 1) -> pd.DataFrame:
    """Return a trace of programs that keep `depth` requests outstanding on a drive, with a flush now and then."""
    count, numbers = 2000, np.random.default_rng(seed)
    trace = pd.DataFrame({"operation": numbers.integers(0, 2, count), "size_bytes": 4096})
    trace["offset_bytes"] = numbers.integers(0, 2**12, count) * 2**14
    trace.loc[99::100, ["operation", "offset_bytes", "size_bytes"]] = OPERATIONS["flush"], 0, 0
    trace = trace.astype({"operation": "uint8", "offset_bytes": "uint64", "size_bytes": "uint64"})
    done = twin.replay_trace(drive, trace, depth=depth).latencies.set_index("request").sort_index()
    return trace.assign(arrival_ns=done["issue_ns"], completed_ns=done["issue_ns"] + done["latency_ns"])


@pytest.mark.parametrize("depth", [1, 4, 32])
def test_a_replay_on_the_recorded_drive_has_the_recorded_times(depth: int) -> None:
    trace = recorded(DRIVE, depth)
    replayed = twin.replay_trace(DRIVE, trace).latencies.set_index("request").sort_index()
    assert (replayed["issue_ns"] == trace["arrival_ns"]).all()
    assert (replayed["issue_ns"] + replayed["latency_ns"] == trace["completed_ns"]).all()


@pytest.mark.parametrize("depth", [1, 4, 32])
@pytest.mark.parametrize("other", [QUICK, SLOW], ids=["quick", "slow"])
def test_a_replay_on_another_drive_takes_as_long_as_the_programs_there(other: twin.models.Model, depth: int) -> None:
    trace, expected = recorded(DRIVE, depth), recorded(other, depth)["completed_ns"].max()
    assert abs(trace["completed_ns"].max() / expected - 1) > 0.3  # the drives differ
    assert twin.replay_trace(other, trace).duration_ns == pytest.approx(expected, rel=0.1)


def test_a_flush_that_was_alone_at_the_drive_stays_alone() -> None:
    trace = recorded(DRIVE, 1)
    replayed = twin.replay_trace(QUICK, trace).latencies.set_index("request").sort_index()
    ended_ns = replayed["issue_ns"] + replayed["latency_ns"]
    assert (replayed["issue_ns"].iloc[1:].to_numpy() >= ended_ns.iloc[:-1].to_numpy()).all()


def test_a_recording_is_replayed_beneath_the_block_layer(tmp_path: Path) -> None:
    drive = DRIVE.overridden(["host.max_request=64 KiB"])
    trace = recorded(DRIVE, 1).iloc[:50].assign(size_bytes=2**17)
    trace["offset_bytes"] = trace["offset_bytes"] // 2**17 * 2**17
    commands = {}
    for name, recorded_on in {"elsewhere": None, "twin": RecordedDrive("a", "0", 1, 12345)}.items():
        path = tmp_path / f"{name}.parquet"
        parquet.write_requests(path, [trace.astype({"size_bytes": "uint64"})], "made up", recorded_on=recorded_on)
        counters = twin.replay_trace(drive, path).counters
        commands[name] = counters["read_commands"] + counters["write_commands"]
    assert commands == {"elsewhere": 100, "twin": 50}


def test_writes_of_a_used_drive_are_not_sent_before_the_program_has_the_result() -> None:
    # at their arrival times, nearly all would wait for each other: the median would be 2.7 ms
    path = ROOT / "data/traces/park2009/random-writes-x25-m-used.parquet"
    drive = twin.load_model("x25-m").overridden(["ftl.initial_state=random"])
    median_ms = twin.replay_trace(drive, path).latencies["latency_ns"].median() / 1e6
    assert 0.06 < median_ms < 0.075


@pytest.mark.parametrize(("closed", "warns"), [(True, True), (False, False)])
def test_a_closed_loop_at_its_arrival_times_is_warned_of(closed: bool, warns: bool) -> None:
    trace = recorded(DRIVE, 4)
    if not closed:  # requests that arrive at random times
        arrival_ns = np.random.default_rng(1).exponential(200_000, len(trace)).cumsum().astype(np.int64)
        done = twin.replay_trace(DRIVE, trace.assign(arrival_ns=arrival_ns), arrival_times=True).latencies
        ended_ns = done.set_index("request").sort_index().sum(axis=1)
        trace = trace.assign(arrival_ns=arrival_ns, completed_ns=ended_ns.to_numpy())
    session = ReplaySession(DRIVE, arrival_times=True)
    for _ in session.run([trace]):
        pass
    assert ("--arrival-times" in session.warning()) == warns


@pytest.mark.slow
def test_twin_replay_prints_what_it_keeps(tmp_path: Path) -> None:
    path, without = tmp_path / "trace.parquet", tmp_path / "without.parquet"
    trace = recorded(DRIVE, 4)
    parquet.write_requests(path, [trace], "made up")
    parquet.write_requests(without, [trace.drop(columns="completed_ns")], "made up")
    for words, keeps in (
        ([path], "dependencies"),
        ([path, "--arrival-times"], "arrival times"),
        ([without], "arrival times"),
        ([path, "--depth", "2"], "depth"),
    ):
        done = command("replay", "wiscsim", *map(str, words))
        assert json.loads(done.stdout)["summary"]["keeps"] == keeps, done.stderr
        assert ("warning" in done.stderr) == ("--arrival-times" in words)
    done = command("replay", "wiscsim", str(path), "--arrival-times", "--depth", "2")
    assert done.returncode != 0
    assert "either a depth or the arrival times" in done.stderr
