"""Facts about statistics and criteria as text."""

from typing import Any

import pandas as pd
import pytest

from iopatterns.judging.claims import ClaimChecks


def check_of(check: dict[str, Any], values: pd.DataFrame | None = None) -> ClaimChecks:
    claim = {"check": {"experiment": "e", **check}}
    parsed = ClaimChecks.parse(claim, pd.DataFrame() if values is None else values)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (
            {"ratio": {"rw": "randread"}, "to": {"rw": "read"}, "where": {"drive": "c400", "bs": ["4k", "28k"]}},
            "mean bandwidth, randread / read; c400, 4k|28k",
        ),
        (
            {"ratio": {"DRA": 1}, "to": {"DRA": 0}, "over_ratio": {"RCD": 1}, "over_to": {"RCD": 0}},
            "mean bandwidth, (DRA 1 / DRA 0) / (RCD 1 / RCD 0)",
        ),
        (
            {"difference": {"rw": "write"}, "to": {"rw": "randwrite"}, "where": {"bs": "all"}},
            "mean bandwidth, write − randwrite; each bs",
        ),
        ({"mean": {"numjobs": 16, "bs": "4k"}}, "mean bandwidth, 16 jobs, 4k"),
        ({"growth": "numjobs"}, "mean bandwidth, from each numjobs to the next"),
        (
            {"growth": "bs", "ratio": {"rw": "randread"}, "to": {"rw": "read"}},
            "mean bandwidth, randread / read, from each bs to the next",
        ),
        ({"column": "iodepth_reached"}, "largest iodepth reached"),
        ({"outcome": "DRA", "to": 1, "where": {"drive": "c400"}}, "outcome of setting DRA to 1; c400"),
    ],
)
def test_each_statistic_is_described(check: dict[str, Any], text: str) -> None:
    wanted = {"is": ["refused"]} if "outcome" in check else {"at_most": 1}
    assert check_of({**check, **wanted}).describe() == text


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"ratio": {}, "to": {}, "at_most": 0.5, "tolerance": 0.1}, "≤ 0.5, tolerance 10 %"),
        ({"growth": "bs", "at_least": 1}, "≥ 1"),
        ({"difference": {}, "to": {}, "at_most": "limit"}, "≤ 30 MB/s"),
        ({"mean": {}, "equals": "limit", "tolerance": 0.2}, "= 30 MB/s, tolerance 20 %"),
        ({"ratio": {}, "to": {}, "within": 0.05}, "1 ± 5 % (equivalence)"),
        ({"outcome": "DRA", "to": 1, "is": ["ignored", "refused"]}, "ignored or refused"),
    ],
)
def test_each_expectation_is_put_in_words(check: dict[str, Any], text: str) -> None:
    assert check_of(check, pd.DataFrame({"id": ["limit"], "value": [30.0], "unit": "MB/s"})).expected() == text


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"ratio": {"rwmixread": 99}, "to": {"rw": "read"}, "of": "iops"}, "mean iops, rwmixread 99 / read"),
        (
            {"ratio": {"of": "read iops"}, "to": {"of": "iops", "experiment": "baseline"}},
            "means, read iops / iops, experiment baseline",
        ),
        ({"mean": {"of": "latency", "rw": "read"}}, "mean latency, read"),
        ({"difference": {"rw": "read"}, "to": {"rw": "write"}, "of": "latency"}, "mean latency, read − write"),
        ({"growth": "iodepth", "of": "latency"}, "mean latency, from each iodepth to the next"),
        (
            {"value": "r / w", "with": {"r": {"rw": "read"}, "w": {"of": "latency"}}, "of": "iops"},
            "r / w (r: mean iops, read; w: mean latency)",
        ),
    ],
)
def test_the_statistic_of_any_quantity_is_described(check: dict[str, Any], text: str) -> None:
    wanted = {"is": ["refused"]} if "outcome" in check else {"at_most": 1}
    assert check_of({**check, **wanted}).describe() == text


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"mean": {"of": "iops"}, "at_least": 9000}, "≥ 9000 IOPS"),
        ({"difference": {}, "to": {}, "of": "latency", "equals": "limit"}, "= 0.03 ms"),
        ({"ratio": {}, "to": {}, "of": "latency", "at_most": "limit"}, "≤ 30"),
        ({"value": "a", "with": {"a": {}}, "at_most": "limit"}, "≤ 30"),
    ],
)
def test_the_expectation_of_any_quantity_is_put_in_its_unit(check: dict[str, Any], text: str) -> None:
    assert check_of(check, pd.DataFrame({"id": ["limit"], "value": [30.0], "unit": "us"})).expected() == text
