"""Stand-ins for the traces of Park and Shen (2009): they have the stated properties, and are marked."""

import hashlib
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


def test_a_process_transfers_a_few_mebibytes(workload: str) -> None:
    calls = calls_of(workload)
    assert 3 * 2**20 < calls["size_bytes"].sum() / 32 < 17 * 2**20


def test_the_segments_of_lanl_form_one_file_without_gap_or_overlap() -> None:
    calls = calls_of("LANL-1024KB")
    writes = calls[calls["call"].isin(WRITES)].sort_values("offset_bytes")
    assert writes["file"].nunique() == 1
    assert list(writes["offset_bytes"]) == [number * 2**20 for number in range(32 * 8)]
    assert list(writes["process"]) == sorted(writes["process"])


def test_the_calls_never_change(workload: str) -> None:
    # recordings depend on the same calls on every machine and with every version of Python and numpy
    calls = calls_of(workload)
    text = calls.to_csv(index=False, lineterminator="\n")
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == _SHA256[workload]


_SHA256 = {
    "LANL-64KB": "33ae85156f687cf7",
    "LANL-1024KB": "1374dc2de951b6e4",
    "Sandia-alegra": "ba96b2190bcc2730",
    "Sandia-cth": "6e1e729594062d2e",
    "Sandia-s3d": "d05cf1329678affb",
    "web-server": "4fc3ce5171ce8888",
}


def test_a_stand_in_is_marked_in_label_files_and_parquet(workload: str, tmp_path: Path) -> None:
    trace = stand_ins.stand_in(workload)
    assert trace.origin == "stand-in"
    assert "stand-in" in trace.label
    assert trace.table()["file"].str.startswith(stand_ins.STAND_IN_FILE_PREFIX).all()
    parquet.write_calls(tmp_path / "calls.parquet", trace, trace.pieces())
    assert parquet.read_trace_origin(form.CallTraceFile(tmp_path / "calls.parquet")) == (workload, "stand-in")


def test_every_parameter_is_stated_or_assumed_with_a_reason() -> None:
    table = stand_ins.parameters_table()
    assert set(table["basis"]) == {"stated", "assumed"}
    assert table["why"].str.len().min() > 5
    assert (table[table["workload"] == "web-server"]["basis"] == "assumed").all()


def test_an_unknown_stand_in_is_refused() -> None:
    with pytest.raises(CallsError, match=r"no stand-in 'LANL'. Valid: LANL-64KB"):
        stand_ins.stand_in("LANL")
