"""Tests of factors: reading and printing of levels, and the table."""

import re
import subprocess
import sys
from fractions import Fraction

import jsonschema_rs
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.configuration.factors import (
    FACTORS,
    OPTION_ROLES,
    SETTING_ROLES,
    Factor,
    FactorError,
    FactorRole,
    factor_definitions,
    factor_names,
    find_factor,
    level_scale,
)
from iopatterns.measuring.drives import twin
from iopatterns.twin import models

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "µs": 1, "ms": 10**3, "s": 10**6, "%": 1, "": 1}


def unit_of(label: str) -> str:
    found = re.search(r" \((.+)\)$", label)
    return found.group(1) if found else ""


def number_in(text: str) -> float:
    return float(text.replace("−", "-"))


# ---- Printing


@pytest.mark.parametrize(
    ("factor", "levels", "label", "texts"),
    [
        ("bs_bytes", [4096, 28672, 2**20], "Block size (KiB)", ["4", "28", "1024"]),
        ("bs_bytes", [512, 2048], "Block size (B)", ["512", "2048"]),
        ("bs_bytes", [512, 4096], "Block size (KiB)", ["0.5", "4"]),
        ("size", [2**20, 2**24, 2**27], "Target size (MiB)", ["1", "16", "128"]),
        ("skip", [-8192, -4096, 4096], "Gap (KiB)", ["−8", "−4", "4"]),
        ("thinktime", [100, 200], "Pause (µs)", ["100", "200"]),
        ("thinktime", [1000, 10_000], "Pause (ms)", ["1", "10"]),
        ("thinktime", [10**6, 2 * 10**7], "Pause (s)", ["1", "20"]),
        ("rwmixread", [99, 50], "Share of reads (%)", ["99", "50"]),
        ("numjobs", [1, 16], "Number of jobs", ["1", "16"]),
        ("iodepth", [1, 1024], "I/O depth", ["1", "1024"]),
        ("replay", ["write-read"], "Replay", ["write-read"]),
        ("set_scheduler", ["none", "cfq"], "Scheduler", ["none", "cfq"]),
        ("set_DRA", [0, 1], "DRA", ["0", "1"]),
        ("offset", [0, 512], "Offset (B)", ["0", "512"]),
    ],
)
def test_levels_are_printed_in_the_unit_of_the_label(
    factor: str, levels: list[object], label: str, texts: list[str]
) -> None:
    shown = level_scale(factor, levels)
    assert (shown.label, [shown.texts[level] for level in levels]) == (label, texts)


@pytest.mark.parametrize(
    ("factor", "label"), [("random_distribution", "Random distribution"), ("fsync", "Fsync"), ("set_XYZ", "XYZ")]
)
def test_a_factor_without_a_label_is_printed_under_its_name(factor: str, label: str) -> None:
    shown = level_scale(factor, [3, "zipf:1.2", 3])
    assert (shown.label, shown.texts) == (label, {3: "3", "zipf:1.2": "zipf:1.2"})
    assert level_scale(factor, []).label == label


@pytest.mark.parametrize("column", [pd.Series([4096, 8192]), pd.Series([4096, 8192, None], dtype="Int64")])
def test_levels_of_a_column_are_printed_like_those_of_a_list(column: pd.Series) -> None:
    assert [level_scale("bs_bytes", column).texts[level] for level in column.dropna()] == ["4", "8"]


whole = st.integers(-(2**40), 2**40)


@given(st.sampled_from(["bs_bytes", "size", "offset", "skip", "thinktime", "rwmixread", "numjobs"]), st.lists(whole))
def test_a_printed_level_times_its_unit_is_the_level(factor: str, levels: list[int]) -> None:
    shown = level_scale(factor, levels)
    for level in levels:
        printed = number_in(shown.texts[level]) * UNITS[unit_of(shown.label)]
        assert printed == pytest.approx(level, rel=1e-5)


@given(st.integers(0, 40), st.integers(0, 40))
def test_similar_powers_of_two_are_printed_exactly(small: int, more: int) -> None:
    levels = [2**small, 2 ** (small + more % 10)]
    shown = level_scale("size", levels)
    unit = UNITS[unit_of(shown.label)]
    if small >= 30:  # numbers of MiB with more than six digits are rounded
        return
    assert [Fraction(shown.texts[level]) * unit == level for level in levels if level >= unit / 8]


# ---- Reading


@pytest.mark.parametrize(
    ("factor", "written", "level"),
    [
        ("bs", "28 KiB", 28672),
        ("bs", 4096, 4096),
        ("skip", "-8k", -8192),
        ("thinktime", "1 ms", 1000),
        ("rw", "randread", "randread"),
        ("read_iolog", "./logs/../x.iolog", "x.iolog"),
    ],
)
def test_a_level_is_read_in_canonical_form(factor: str, written: object, level: object) -> None:
    assert find_factor(factor).read(written) == level


@pytest.mark.parametrize(("factor", "written"), [("bs", "4q"), ("offset", "k"), ("thinktime", "10"), ("size", "")])
def test_text_that_is_not_a_size_or_duration_is_refused(factor: str, written: str) -> None:
    with pytest.raises(ValueError, match=r"is no (size|duration)"):
        find_factor(factor).read(written)


@pytest.mark.parametrize(
    ("factor", "text"),
    [("rw", True), ("drive", True), ("scheduler", True), ("ioengine", True), ("replay", True), ("bs", False)],
)
def test_names_are_distinguished_from_numbers(factor: str, text: bool) -> None:
    assert find_factor(factor).is_text is text


# ---- The table


@pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS)
def test_each_factor_has_its_own_column_and_a_hint(factor: Factor) -> None:
    assert [other.name for other in FACTORS.values() if other.column == factor.column] == [factor.name]
    assert factor.column.startswith("set_") == (factor.role in SETTING_ROLES)
    assert "None" not in factor.hint


@pytest.mark.parametrize("name", factor_names(*OPTION_ROLES, *SETTING_ROLES))
def test_the_schema_accepts_each_choice_and_bound_and_nothing_beyond(name: str) -> None:
    factor, validator = FACTORS[name], jsonschema_rs.validator_for(FACTORS[name].schema())
    inside = [*factor.choices, *(bound for bound in (factor.least, factor.most) if bound is not None)]
    outside = [bound + step for bound, step in ((factor.least, -1), (factor.most, 1)) if bound is not None]
    assert all(validator.is_valid(level) for level in inside)
    assert not any(validator.is_valid(level) for level in [*outside, None])


def test_settings_without_a_tag_have_distinct_levels() -> None:
    levels = [
        level for name in factor_names(*SETTING_ROLES) if not FACTORS[name].tag for level in FACTORS[name].choices
    ]
    assert len(levels) == len(set(levels)) > 0


def test_a_study_may_vary_each_option_and_each_setting() -> None:
    schemas = factor_definitions()
    both = {**schemas["options"]["properties"], **schemas["settings"]["properties"]}
    assert (
        list(schemas["factors"]["properties"])
        == list(both)
        == [*factor_names(*OPTION_ROLES), *factor_names(*SETTING_ROLES)]
    )


def test_a_twin_handles_each_setting() -> None:
    of_the_model = [name for name in factor_names(*SETTING_ROLES) if f"host.{name}" in models.declared_parameters()]
    known = [*factor_names(FactorRole.MODE_PAGE), *of_the_model, *twin._NOT_IN_MODEL]
    assert sorted(known) == sorted(factor_names(*SETTING_ROLES))


def test_the_command_line_lists_each_factor_with_its_levels() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "iopatterns", "factors"], capture_output=True, text=True, check=True
    ).stdout
    listed = re.findall(r"^  (\w+): (.+)$", done, re.MULTILINE)
    assert listed == [(name, FACTORS[name].hint) for name in factor_names(*OPTION_ROLES, *SETTING_ROLES)]


def test_each_setting_may_be_tuned_and_the_hint_lists_those_of_shared_disks() -> None:
    tune = factor_definitions()["tune"]
    assert set(tune["items"]["enum"]) == set(factor_names(*SETTING_ROLES))
    assert tune["x-hint"].endswith("of the disk under a `file` [scheduler, nr_requests, read_ahead_kb]")


def test_a_study_may_name_exactly_the_schedulers_of_models() -> None:
    declared = models.declared_parameters()["host.scheduler"]
    assert declared["kind"] == "choice"
    assert list(FACTORS["scheduler"].choices) == declared["choices"]


@pytest.mark.parametrize(
    ("name", "hint"), [("bss", "did you mean 'bs'?"), ("wce", "did you mean 'WCE'?"), ("qqq", "valid are drive, rw, ")]
)
def test_an_unknown_factor_is_reported_with_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(FactorError, match=f"there is no factor '{name}'; {re.escape(hint)}"):
        find_factor(name)
