"""Tests of sizes and durations."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.base import units


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        *((units.parse_size, text, 4096) for text in ("4k", "4 KiB", "4096", 4096, "0.00390625 MiB")),
        (units.parse_size, "0.5k", 512),
        (units.parse_size, "1 GiB", 2**30),
        (units.parse_signed_size, "-8k", -8192),
        (units.parse_signed_size, -512, -512),
        (units.parse_signed_size, "0", 0),
        (units.parse_duration_us, "500 ms", 500_000),
        (units.parse_duration_us, "2s", 2_000_000),
        (units.parse_duration_us, "1.5 min", 90_000_000),
    ],
)
def test_a_value_is_read_in_its_canonical_unit(read: Callable[[Any], int], text: str | int, expected: int) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((units.parse_size, text) for text in ("4kb", "4 KB", "1GB", "k", "", "-4k", "4 k b", "0.3", "1e3")),
        *((units.parse_signed_size, text) for text in ("--8k", "- 8k", "-8kb", "-")),
        *((units.parse_duration_us, text) for text in ("2", "2 sec", "s", "2 m", "0.5 us")),
    ],
)
def test_an_ambiguous_or_malformed_value_is_refused(read: Callable[[Any], int], text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        read(text)


@given(st.integers(min_value=0, max_value=2**50))
def test_a_formatted_value_reads_back(value: int) -> None:
    assert units.parse_size(units.format_size(value)) == value
    assert units.parse_signed_size(units.format_size(-value)) == -value
    assert units.parse_duration_us(units.format_duration_us(value)) == value


@pytest.mark.parametrize(("seconds", "text"), [(41.6, "42 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_a_duration_for_people_has_at_most_two_units(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


def test_a_duration_is_formatted_in_its_largest_whole_unit() -> None:
    assert [units.format_duration_us(value) for value in (4_000_000, 2000, 1500, 0)] == ["4s", "2ms", "1500us", "0us"]
