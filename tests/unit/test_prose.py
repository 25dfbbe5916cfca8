"""Sentences and numbers about results, for notebooks and reports."""

import pandas as pd
import pytest

from iopatterns.analysis import prose


def summary(rates: dict[str, list[float]], levels: list[int], factor: str = "numjobs") -> pd.DataFrame:
    rows = [
        {"drive": "d", "rw": rw, "bs_bytes": 4096, factor: level, "mean": mean}
        for rw, means in rates.items()
        for level, mean in zip(levels, means, strict=True)
    ]
    return pd.DataFrame(rows)


def test_the_text_of_a_gap_names_its_smallest_ratio() -> None:
    rows = summary({"read": [100.0, 100.0], "randread": [30.0, 90.0]}, [4096, 65536], "bs")
    rows["bs_bytes"] = rows["bs"]
    text = prose.random_to_sequential_text(rows, ["bs_bytes"], "mean")
    assert text == (
        "On d, random reads reach 0.30 to 0.90 of the bandwidth of sequential reads; the ratio is smallest at 4 KiB."
    )


def test_the_text_says_if_there_is_no_gap() -> None:
    rows = summary({"write": [100.0], "randwrite": [99.0]}, [1])
    assert "random writes are as fast as sequential writes" in prose.random_to_sequential_text(
        rows, ["bs_bytes"], "mean"
    )


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        (["no effect"] * 2, "In tests of equivalence, 2 of 2 comparisons show no effect; none shows an effect."),
        (["effect", "no effect"], "1 of 2 comparisons show no effect; comparisons with an effect: 1 (a)."),
        (["undecided", "ignored"], "none shows an effect; 2 are undecided, or the drive did not take the setting."),
    ],
)
def test_comparisons_are_counted_by_verdict(verdicts: list[str], text: str) -> None:
    table = pd.DataFrame({"setting": ["a", "b"], "verdict": verdicts})
    assert prose.comparisons_text(table, "setting").endswith(text)


def test_the_range_of_means_names_the_varying_levels() -> None:
    rows = summary({"read": [300.0, 900.0], "randread": [30.0, 90.0]}, [1, 16], "iodepth")
    assert prose.range_of_means(rows, ["iodepth"], "iops", "iodepth") == {
        "quantity": "rate",
        "unit": "IOPS",
        "over": "I/O depth",
        "means": [{"mean": 30.0, "at": "rand. read, I/O depth 1"}, {"mean": 900.0, "at": "read, I/O depth 16"}],
    }


def test_the_range_of_means_prints_durations_with_their_unit() -> None:
    rows = summary({"read": [1.0, 3.0]}, [0, 2000], "thinktime")
    found = prose.range_of_means(rows, ["thinktime"], "latency", "thinktime")
    assert (found["over"], [mean["at"] for mean in found["means"]]) == (
        "pause",
        ["pause 0 µs", "pause 2 ms"],
    )


def test_the_range_of_no_means_is_empty() -> None:
    rows = summary({"read": [3.0]}, [1], "iodepth")[:0]
    assert prose.range_of_means(rows, ["iodepth"], "latency", "iodepth")["means"] == []
