"""Sizes and durations, as written and as read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.base import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4k", 4096),
        ("4 KiB", 4096),
        ("28k", 28672),
        ("1m", 2**20),
        ("1 GiB", 2**30),
        ("512", 512),
        ("0.5k", 512),
        (7, 7),
    ],
)
def test_size_is_read_in_powers_of_two(text: str | int, expected: int) -> None:
    assert units.parse_size(text) == expected


@pytest.mark.parametrize("text", ["4kb", "4 KB", "1GB", "k", "", "-4k", "4 k b", "0.3", "1e3"])
def test_size_that_could_mean_two_things_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        units.parse_size(text)


@pytest.mark.parametrize(("text", "expected"), [("-8k", -8192), ("4k", 4096), (-512, -512), ("0", 0)])
def test_signed_size_may_be_negative(text: str | int, expected: int) -> None:
    assert units.parse_signed_size(text) == expected


@pytest.mark.parametrize("text", ["--8k", "- 8k", "-8kb", "-"])
def test_signed_size_has_one_sign_and_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        units.parse_signed_size(text)


@pytest.mark.parametrize(("text", "expected"), [("500 ms", 500_000), ("2s", 2_000_000), ("1.5 min", 90_000_000)])
def test_duration_is_read_in_microseconds(text: str, expected: int) -> None:
    assert units.parse_duration_us(text) == expected


@pytest.mark.parametrize("text", ["2", "2 sec", "s", "2 m", "0.5 us"])
def test_duration_needs_a_known_unit(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        units.parse_duration_us(text)


@given(st.integers(min_value=0, max_value=2**50))
def test_formatted_size_reads_back(value_bytes: int) -> None:
    assert units.parse_size(units.format_size(value_bytes)) == value_bytes
    assert units.parse_signed_size(units.format_size(-value_bytes)) == -value_bytes


@pytest.mark.parametrize(("seconds", "text"), [(41.6, "42 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_duration_for_people(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_s_exact_spelling_reads_back(value_us: int) -> None:
    assert units.parse_duration_us(units.format_duration_us(value_us)) == value_us


def test_a_duration_is_spelt_in_its_largest_whole_unit() -> None:
    assert [units.format_duration_us(value) for value in (4_000_000, 2000, 1500, 0)] == ["4s", "2ms", "1500us", "0us"]
