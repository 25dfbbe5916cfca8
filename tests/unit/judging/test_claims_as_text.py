"""Describe statistics and criteria as text."""

from typing import Any

import pandas as pd
import pytest
from claim_checks import VALUES

from iopatterns.judging.claims import ClaimChecks


def check_of(check: dict[str, Any], values: pd.DataFrame = VALUES) -> ClaimChecks:
    parsed = ClaimChecks.parse({"check": {"experiment": "e", **check}}, values)
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
def test_each_statistic_is_described(check: dict[str, Any], text: str) -> None:
    wanted = {"is": ["refused"]} if "outcome" in check else {"at_most": 1}
    assert check_of({**check, **wanted}).describe() == text


@pytest.mark.parametrize(
    ("unit", "check", "text"),
    [
        ("MB/s", {"ratio": {}, "to": {}, "at_most": 0.5, "tolerance": 0.1}, "≤ 0.5, tolerance 10 %"),
        ("MB/s", {"growth": "bs", "at_least": 1}, "≥ 1"),
        ("MB/s", {"difference": {}, "to": {}, "at_most": "limit"}, "≤ 30 MB/s"),
        ("MB/s", {"mean": {}, "equals": "limit", "tolerance": 0.2}, "= 30 MB/s, tolerance 20 %"),
        ("MB/s", {"ratio": {}, "to": {}, "within": 0.05}, "0.9524 to 1.05 (equivalence test)"),
        ("MB/s", {"outcome": "DRA", "to": 1, "is": ["ignored", "refused"]}, "ignored or refused"),
        ("us", {"mean": {"of": "iops"}, "at_least": 9000}, "≥ 9000 IOPS"),
        (
            "us",
            {"difference": {}, "to": {}, "of": "latency", "equals": "limit", "tolerance": 0.01},
            "= 0.03 ms, tolerance 1 %",
        ),
        ("us", {"ratio": {}, "to": {}, "of": "latency", "at_most": "limit"}, "≤ 30"),
        ("us", {"value": "a", "with": {"a": {}}, "at_most": "limit"}, "≤ 30"),
    ],
)
def test_each_criterion_is_described_in_its_unit(unit: str, check: dict[str, Any], text: str) -> None:
    assert check_of(check, pd.DataFrame({"id": ["limit"], "value": [30.0], "unit": unit})).expected() == text
