"""The arithmetic of Clarke's study: Little's law and the cost of a mix."""

import math

import clarke2024
import pandas as pd
import pytest


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


def test_a_rate_of_reads_is_doubled() -> None:
    rows = depths([9000.0], [0.111]).assign(published_read_iops=4350.0, published_latency_ms=3.67)
    found = clarke2024.with_published_outstanding(rows, "published_read_iops", directions=2)
    assert found["published_outstanding"][0] == 31.9


def test_without_published_values_there_is_no_error() -> None:
    rows = depths([9000.0], [0.111]).assign(published_iops=math.nan, published_latency_ms=math.nan)
    assert math.isnan(clarke2024.with_published_outstanding(rows, "published_iops")["error_outstanding_percent"][0])


def test_the_text_about_depth_depends_on_the_rate() -> None:
    constant = clarke2024.outstanding_text(depths([9000.0, 9000.0], [0.111, 0.444]), "iodepth")
    rising = clarke2024.outstanding_text(depths([9000.0, 36000.0], [0.111, 0.111]), "iodepth")
    assert "proportional to the depth by arithmetic alone" in constant
    assert "largest rate is 4.00 times the smallest" in rising


@pytest.mark.parametrize(("mixed", "text"), [(900.0, "a mix costs: at worst 0.90"), (1000.0, "costs next to nothing")])
def test_the_text_about_a_mix_depends_on_its_cost(mixed: float, text: str) -> None:
    rows = pd.DataFrame(
        {"drive": "d", "rwmixread": [0, 50, 100], "iops_mean": [1000.0, mixed, 1000.0], "published_iops": math.nan}
    )
    assert text in clarke2024.mix_text(rows)
