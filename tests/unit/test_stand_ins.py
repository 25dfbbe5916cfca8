"""Stand-ins for the traces of Park and Shen (2009): they have the stated properties, and are marked."""

import functools
import hashlib
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from iopatterns.calls import form, parquet, stand_ins
from iopatterns.calls.form import READS, WRITES, CallsError
from iopatterns.configuration.factors import FACTORS


@pytest.fixture(scope="module", params=stand_ins.STAND_IN_NAMES)
def workload(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_the_levels_of_the_factor_are_all_stand_ins() -> None:
    assert FACTORS["stand_in"].choices == stand_ins.STAND_IN_NAMES


@functools.cache
def calls_of(workload: str) -> pd.DataFrame:
    return stand_ins.stand_in(workload).table()


def share_of_reads(calls: pd.DataFrame, weights: pd.Series) -> float:
    return float(weights[calls["call"].isin(READS)].sum() / weights[calls["call"].isin([*READS, *WRITES])].sum())


def test_the_read_share_is_that_of_table_1_by_requests_and_by_bytes(workload: str) -> None:
    calls = calls_of(workload)
    published = stand_ins.STAND_IN_PARAMETERS[workload]["read_share"].value
    assert share_of_reads(calls, calls["size_bytes"] * 0 + 1) == pytest.approx(published, abs=0.0101)
    if workload != "web-server":  # the paper gives no share
        assert share_of_reads(calls, calls["size_bytes"]) == pytest.approx(published, abs=0.0101)


def test_sizes_range_from_below_1_kb_to_2048_kb() -> None:
    sizes = pd.concat([calls_of(workload) for workload in stand_ins.STAND_IN_NAMES[:5]])["size_bytes"]
    assert 0 < sizes[sizes > 0].min() < 1024
    assert 1024 * 1024 < sizes.max() <= 2048 * 1024


def test_each_of_32_processes_makes_different_calls(workload: str) -> None:
    calls = calls_of(workload)
    own = calls.drop(columns="time_ns").groupby("process")
    processes = [tuple(map(tuple, each.drop(columns="process").to_numpy())) for _, each in own]
    assert len(processes) == len(set(processes)) == 32


def test_a_process_moves_about_ten_times_the_largest_cache_of_the_drives(workload: str) -> None:
    # 16 MB, see table II; the web server reads, and no cache absorbs reads
    calls = calls_of(workload)
    moved = calls[calls["call"].isin([*READS, *WRITES])]["size_bytes"].sum() / 32
    assert moved > 9 * 16e6 if workload != "web-server" else moved > 3 * 2**20


def test_the_segments_of_lanl_form_one_file_without_gap_or_overlap() -> None:
    calls = calls_of("LANL-1024KB")
    writes = calls[calls["call"].isin(WRITES)].sort_values("offset_bytes")
    assert writes["file"].nunique() == 1
    assert list(writes["offset_bytes"]) == [number * 2**20 for number in range(32 * 160)]
    assert list(writes["process"]) == sorted(writes["process"])


def test_the_calls_never_change(workload: str) -> None:
    # recordings depend on the same calls on every machine and with every version of Python and numpy
    calls = calls_of(workload)
    text = calls.to_csv(index=False, lineterminator="\n")
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == _SHA256[workload]


_SHA256 = {
    "LANL-64KB": "729efc82cc45383d",
    "LANL-1024KB": "0b3fe3d44c95ca75",
    "Sandia-alegra": "a930d924e01646a6",
    "Sandia-cth": "165b1917261a4736",
    "Sandia-s3d": "02b7d65bd36e5c04",
    "web-server": "4fc3ce5171ce8888",
}


def test_a_stand_in_is_marked_in_label_files_and_parquet(workload: str, tmp_path: Path) -> None:
    trace = stand_ins.stand_in(workload)
    assert trace.origin == "stand-in"
    assert "stand-in" in trace.label
    assert trace.table()["file"].str.startswith(stand_ins.STAND_IN_FILE_PREFIX).all()
    parquet.write_calls(tmp_path / "calls.parquet", trace, trace.pieces())
    assert parquet.read_trace_origin(form.CallTraceFile(tmp_path / "calls.parquet")) == (workload, "stand-in")


def test_an_assumption_can_be_changed_within_its_range() -> None:
    requests = {
        share: calls_of_sandia({"sequential_share": share})["offset_bytes"].diff().eq(0).mean() for share in (0, 0.85)
    }
    assert requests[0] != requests[0.85]
    ordered = calls_of_sandia({"order": "reads first"})
    reads = ordered[ordered["call"].isin([*READS, *WRITES])].groupby("process")["call"].agg(list)
    assert all(calls == sorted(calls) for calls in reads)  # "read" sorts before "write"
    interleaved = calls_of_sandia({})
    writes = interleaved[interleaved["call"].isin([*READS, *WRITES])].groupby("process")["call"].agg(list)
    assert not any(calls == sorted(calls) for calls in writes)


def calls_of_sandia(changes: dict[str, object]) -> pd.DataFrame:
    return stand_ins.stand_in("Sandia-cth", changes).table()


def test_a_process_of_lanl_reads_its_own_segment_or_the_next() -> None:
    for reads_of, shift in (("own segment", 0), ("next segment", 1)):
        calls = stand_ins.stand_in("LANL-1024KB", {"reads_of": reads_of}).table()
        first = calls[calls["call"].isin([*READS, *WRITES])].groupby(["process", "call"])["offset_bytes"].min()
        segments = first.unstack() // (160 * 2**20)
        assert list(segments["write"]) == list(range(32))
        assert list(segments["read"]) == [(process + shift) % 32 for process in range(32)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequential_share": 0.9}, "Valid: 0.0 to 0.85"),
        ({"order": "backwards"}, "Valid: interleaved, reads first"),
        ({"read_share": 0.5}, "not an assumption with a range. Valid: sequential_share, order"),
    ],
)
def test_only_plausible_changes_are_accepted(changes: dict[str, object], message: str) -> None:
    with pytest.raises(CallsError, match=message):
        stand_ins.stand_in("Sandia-cth", changes)


def test_a_part_of_a_stand_in_has_the_first_calls_of_each_process() -> None:
    calls, part = (
        stand_ins.stand_in("Sandia-alegra", part=share).table().groupby("process")["offset_bytes"].agg(list)
        for share in (Fraction(1), Fraction(1, 8))
    )
    assert len(part) == 32
    for every, some in zip(calls, part, strict=True):
        assert some == every[: len(some)]
        assert len(some) == -(-len(every) // 8)


def test_every_parameter_is_stated_or_assumed_with_a_reason() -> None:
    table = stand_ins.parameters_table()
    assert set(table[table["range"].map(len) > 0]["basis"]) == {"assumed"}
    assert set(table["basis"]) == {"stated", "assumed"}
    assert table["why"].str.len().min() > 5
    assert (table[table["workload"] == "web-server"]["basis"] == "assumed").all()


def test_an_unknown_stand_in_is_refused() -> None:
    with pytest.raises(CallsError, match=r"no stand-in 'LANL'. Valid: LANL-64KB"):
        stand_ins.stand_in("LANL")
