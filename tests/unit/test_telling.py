"""Facts about the paragraphs that notebooks say of their results, and the arithmetic of Clarke and Zhou."""

import math

import clarke2024
import pandas as pd
import pytest
import zhou

from iopatterns.analysis import telling
from iopatterns.analysis.tables import printed


def summary(rates: dict[str, list[float]], levels: list[int], factor: str = "numjobs") -> pd.DataFrame:
    rows = [
        {"drive": "d", "rw": rw, "bs_bytes": 4096, factor: level, "mean": mean}
        for rw, means in rates.items()
        for level, mean in zip(levels, means, strict=True)
    ]
    return pd.DataFrame(rows)


def test_a_course_is_told_by_its_ends() -> None:
    text = telling.over_levels(summary({"read": [100.0, 250.0], "write": [100.0, 101.0]}, [1, 4]), "numjobs", "iops")
    assert text == ("Rate from Number of jobs 1 to 4. d: read grows to 2.50 times what it was; write stays.")


def test_a_dip_between_the_ends_is_told() -> None:
    text = telling.over_levels(summary({"read": [100.0, 40.0, 100.0]}, [1, 2, 4]), "numjobs", "iops")
    assert "read stays (at 2: 0.400 times)" in text


def test_one_level_alone_is_no_course() -> None:
    assert telling.over_levels(summary({"read": [100.0]}, [1]), "numjobs", "iops") == ""


def test_a_gap_is_told_with_its_widest_place() -> None:
    rows = summary({"read": [100.0, 100.0], "randread": [30.0, 90.0]}, [4096, 65536], "bs")
    rows["bs_bytes"] = rows["bs"]
    text = telling.gap(rows, ["bs_bytes"], "mean")
    assert text == "On d random reads reach 0.30 to 0.90 of the bandwidth of sequential ones, least at 4 KiB."


def test_no_gap_is_told_as_none() -> None:
    rows = summary({"write": [100.0], "randwrite": [99.0]}, [1])
    assert "random writes are as fast as sequential ones" in telling.gap(rows, ["bs_bytes"], "mean")


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        (["no effect"] * 2, "Of 2 comparisons 2 show no effect, by a test of equivalence; none shows an effect."),
        (
            ["effect", "no effect"],
            "Of 2 comparisons 1 show no effect, by a test of equivalence; an effect have those of a.",
        ),
        (["undecided", "ignored"], "none shows an effect; 2 are undecided, or the setting was not taken."),
    ],
)
def test_verdicts_are_counted(verdicts: list[str], text: str) -> None:
    table = pd.DataFrame({"setting": ["a", "b"], "verdict": verdicts})
    assert telling.verdicts(table, "setting").endswith(text)


# ---- Clarke: Little's law


def depths(rates: list[float], latencies_ms: list[float]) -> pd.DataFrame:
    levels = [1, 4, 16][: len(rates)]
    outstanding = [rate * latency / 1e3 for rate, latency in zip(rates, latencies_ms, strict=True)]
    depth = {"iodepth": levels, "iodepth_reached": levels}
    return pd.DataFrame({"drive": "d", **depth, "iops_mean": rates, "outstanding_mean": outstanding})


def test_published_outstanding_requests_are_rate_times_latency() -> None:
    rows = depths([9000.0], [0.111]).assign(published_iops=9162.0, published_latency_ms=0.11)
    found = clarke2024.with_published_outstanding(rows, "published_iops").iloc[0]
    assert found["published_outstanding"] == 1.0
    assert found["error_outstanding_percent"] == pytest.approx(-0.1)


def test_a_rate_of_reads_alone_counts_twice() -> None:
    rows = depths([9000.0], [0.111]).assign(published_read_iops=4350.0, published_latency_ms=3.67)
    found = clarke2024.with_published_outstanding(rows, "published_read_iops", directions=2)
    assert found["published_outstanding"][0] == 31.9


def test_without_published_values_there_is_no_error() -> None:
    rows = depths([9000.0], [0.111]).assign(published_iops=math.nan, published_latency_ms=math.nan)
    assert math.isnan(clarke2024.with_published_outstanding(rows, "published_iops")["error_outstanding_percent"][0])


def test_the_words_on_depth_follow_the_rate() -> None:
    constant = clarke2024.outstanding(depths([9000.0, 9000.0], [0.111, 0.444]), "iodepth")
    rising = clarke2024.outstanding(depths([9000.0, 36000.0], [0.111, 0.111]), "iodepth")
    assert "proportional to it by arithmetic alone" in constant
    assert "grows to 4.00 of its smallest" in rising


@pytest.mark.parametrize(("mixed", "text"), [(900.0, "a mix costs: at worst 0.90"), (1000.0, "costs next to nothing")])
def test_the_words_on_a_mix_follow_its_cost(mixed: float, text: str) -> None:
    rows = pd.DataFrame(
        {"drive": "d", "rwmixread": [0, 50, 100], "iops_mean": [1000.0, mixed, 1000.0], "published_iops": math.nan}
    )
    assert text in clarke2024.mix(rows)


# ---- Zhou: interference


def mixes(rate: float) -> pd.DataFrame:
    baseline = pd.DataFrame(
        {"drive": "d", "rw": ["randread", "randwrite"], "iops_mean": [3360.0, 190.0], "published_iops": [3360.4, 190.3]}
    )
    mixed = {"drive": ["d"], "rwmixread": [99], "iops_mean": [rate], "published_iops": [2442.0], "study": ["mix"]}
    return zhou.interference(baseline, pd.DataFrame(mixed))


def test_the_arithmetic_is_that_of_the_slides() -> None:
    row = mixes(2441.0).iloc[0]
    assert [round(row[name]) for name in ("cost_reads", "ideal_percent", "real_percent")] == [18, 85, 73]


def test_the_table_has_the_slides_three_rates() -> None:
    assert list(printed(zhou.interference_table(mixes(2441.0))).iloc[0])[:7] == [
        "d",
        "190",
        "190",
        "3360",
        "3360",
        "2441",
        "2442",
    ]


@pytest.mark.parametrize(
    ("rate", "text"), [(2441.0, "costs more than the time"), (2850.0, "costs no more than the time")]
)
def test_the_words_on_a_write_follow_what_it_costs(rate: float, text: str) -> None:
    assert text in zhou.findings(mixes(rate))
