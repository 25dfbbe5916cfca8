"""What calls look like: the rule of the pattern, the paper's buckets, table I of the stand-ins, figures that say so."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.analysis import applications, plots, tables
from iopatterns.calls import form, stand_ins
from iopatterns.calls.form import Call, Trace

KB = 1024


def trace_of(calls: Sequence[Call], pieces: int = 1) -> Trace:
    """Return a trace that is given in so many pieces."""
    table = pd.concat([form.empty_calls(), *form.call_tables(calls)], ignore_index=True)
    parts = [table.iloc[its] for its in np.array_split(np.arange(len(table)), pieces)]
    return Trace("mine", "recorded", "test", lambda: iter(parts))


def characterised(*calls: Call, pieces: int = 1) -> pd.Series:
    return applications.characteristics_frame([applications.characterise_trace(trace_of(calls, pieces))]).iloc[0]


def writes(begins: Sequence[int], size: int = 10, process: int = 0, file: str = "f") -> list[Call]:
    return [Call(process, at, "write", file, begin, size) for at, begin in enumerate(begins)]


def test_nine_of_ten_that_go_on_are_sequential_and_eight_are_not() -> None:
    assert characterised(*writes([*range(0, 100, 10), 500]))["write_pattern"] == "Sequential"
    assert characterised(*writes([*range(0, 90, 10), 500, 600]))["write_pattern"] == "Unrecognized pattern"


def test_a_direction_without_requests_has_no_pattern() -> None:
    row = characterised(*writes([0, 10]), Call(0, 5, "read", "f", 0, 0))
    assert (row["read_pattern"], row["reads"], row["read_share"]) == ("N/A", 0, 0)


def test_each_process_file_and_direction_goes_on_by_itself() -> None:
    mine = [Call(0, 2 * at, "write", "f", 10 * at, 10) for at in range(20)]
    others = [
        *(Call(1, 2 * at, "write", "f", 1000 + 10 * at, 10) for at in range(20)),
        *(Call(0, 2 * at, "write", "g", 10 * at, 10) for at in range(20)),
        *(Call(0, 2 * at, "read", "f", 5 * at, 5) for at in range(20)),
    ]
    row = characterised(*sorted([*mine, *others], key=lambda call: call.time_ns))
    assert (row["write_continued_share"], row["read_continued_share"]) == (1, 1)
    assert (row["processes"], row["files"]) == (2, 2)


def test_files_of_one_request_each_show_no_pattern() -> None:
    row = characterised(*(Call(0, at, "read", f"f{at}", 0, 10) for at in range(9)))
    assert row["read_pattern"] == "Unrecognized pattern"
    assert np.isnan(row["read_continued_share"])


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("fg"), st.integers(0, 5), st.integers(0, 3)), min_size=1),
    st.integers(1, 7),
)
def test_how_a_trace_is_cut_into_pieces_changes_nothing(given: list[tuple[int, str, int, int]], pieces: int) -> None:
    calls = [Call(process, at, "write", file, begin, size) for at, (process, file, begin, size) in enumerate(given)]
    followed, continued, ends = 0, 0, dict[tuple[int, str], int]()
    for call in calls:
        if call.size_bytes:
            key = (call.process, call.file)
            followed += key in ends
            continued += ends.get(key) == call.offset_bytes
            ends[key] = call.offset_bytes + call.size_bytes
    share = characterised(*calls, pieces=pieces)["write_continued_share"]
    assert share == (continued / followed if followed else pytest.approx(float("nan"), nan_ok=True))


@pytest.mark.parametrize(
    ("size", "bucket"),
    [
        (1, "1"),
        (KB, "1"),
        (KB + 1, "2"),
        (2 * KB, "2"),
        (2 * KB + 1, "4"),
        (2048 * KB, "2048"),
        (2048 * KB + 1, ">2048"),
    ],
)
def test_a_bucket_has_what_is_above_the_label_before_it_up_to_its_own(size: int, bucket: str) -> None:
    found = applications.size_distribution([applications.characterise_trace(trace_of(writes([0], size)))], "write")
    assert list(found.loc[found["requests"] > 0, "bucket"]) == [bucket]
    assert found["share"].sum() == 1


@pytest.fixture(scope="module")
def stood_in() -> list[applications.TraceCharacteristics]:
    return [applications.characterise_trace(stand_ins.stand_in(workload)) for workload in stand_ins.STAND_IN_NAMES]


def test_stand_ins_have_the_patterns_of_table_1(stood_in: list[applications.TraceCharacteristics]) -> None:
    table = applications.characteristics_frame(stood_in).set_index("trace")
    unrecognised = "Unrecognized pattern"
    assert table["read_pattern"].to_dict() == {
        "LANL-64KB": "Sequential",
        "LANL-1024KB": "Sequential",
        "Sandia-alegra": unrecognised,
        "Sandia-cth": unrecognised,
        "Sandia-s3d": "N/A",
        "web-server": unrecognised,
    }
    assert list(table["write_pattern"]) == [*["Sequential"] * 2, *[unrecognised] * 2, *["Sequential"] * 2]


def test_tables_and_figures_say_of_a_stand_in_that_it_is_one(stood_in: list[applications.TraceCharacteristics]) -> None:
    text = tables.to_text(applications.characteristics_table(applications.characteristics_frame(stood_in)))
    assert text.count("(stand-in)") == len(stand_ins.STAND_IN_NAMES)
    figure = applications.size_figure(applications.size_distribution(stood_in, "read"), "read")
    assert {axes.get_title("left") for axes in figure.axes} == {
        f"{workload} (stand-in)" for workload in stand_ins.STAND_IN_NAMES if workload != "Sandia-s3d"
    }
    figure = applications.access_map(stand_ins.stand_in("Sandia-s3d"), [0, 1])
    assert all("(stand-in)" in axes.get_title("left") for axes in figure.axes[:2])
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("Time (s)", "Offset in the file (MiB)")


def test_a_map_shows_each_request_of_the_processes_asked_for() -> None:
    trace = stand_ins.stand_in("LANL-1024KB")
    figure = applications.access_map(trace, [3])
    points = [axes.collections[0].get_offsets() for axes in figure.axes[:2]]
    assert [len(np.asarray(each)) for each in points] == [160, 160]
    assert np.asarray(points[1])[:, 1].tolist() == [3 * 160 + at for at in range(160)]


def test_where_there_is_nothing_to_draw_it_is_told() -> None:
    trace = trace_of([Call(0, 0, "open", "f")])
    with pytest.raises(plots.PlotError, match="no request"):
        applications.access_map(trace)
    with pytest.raises(plots.PlotError, match="no trace has write requests"):
        applications.size_figure(
            applications.size_distribution([applications.characterise_trace(trace)], "write"), "write"
        )
