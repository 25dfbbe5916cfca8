"""The types of what sidecars hold: that what is planned has their keys, and that they are those of the steps."""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import pytest
from support import ROOT

from iopatterns.configuration import config, grid, kinds
from iopatterns.raw import records, tuning_steps


def assert_is(typed: type[Any], value: Mapping[str, Any]) -> None:
    """Fail unless a value has the keys that its type needs, and no others."""
    assert value.keys() <= get_type_hints(typed).keys()
    assert set(typed.__required_keys__) <= value.keys()


def drive_type(kind: str) -> type[Any]:
    """Return the type of a specification's drive of this kind."""
    found: dict[str, type[Any]] = {get_args(get_type_hints(each)["kind"])[0]: each for each in get_args(records.Drive)}
    return found[kind]


def test_a_specification_has_a_type_for_each_kind_of_drive_that_is_measured_here() -> None:
    for name in (name for name, kind in kinds.KINDS.items() if not kind.is_archived):
        assert drive_type(name)


@pytest.mark.parametrize("study", ["saif2020", "clarke2024", "zhou", "datasheets", "kapoor", "park2009"])
def test_what_the_grid_makes_is_a_specification(study: str) -> None:
    overrides = {"drives": ["scratch", *config.load(ROOT).source_drives], "studies": [study]}
    found = list(grid.expand(config.load(ROOT, overrides), study))
    assert found
    for cell in found:
        assert_is(records.Specification, cell.specification)
        drive = cell.specification["drive"]
        assert_is(drive_type(drive["kind"]), drive)
        if "iolog" in cell.specification:
            assert_is(records.Iolog, cell.specification["iolog"])


def test_a_record_has_the_fields_of_a_step() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(tuning_steps.Step)}
    assert get_type_hints(tuning_steps.StepRecord) == fields
    assert_is(tuning_steps.StepRecord, tuning_steps.not_applicable("DRA", 1, "there is none").record())
