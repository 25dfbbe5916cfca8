"""The types of what sidecars hold: that what is planned has their keys, and that they are those of the steps."""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec
import pytest
from support import ROOT

from iopatterns.configuration import config, grid, kinds
from iopatterns.raw import records, tuning_steps


def assert_is(typed: type[Any], value: Mapping[str, Any]) -> None:
    """Fail unless a value has the keys that its type needs, and no others."""
    assert value.keys() <= get_type_hints(typed).keys()
    assert set(typed.__required_keys__) <= value.keys()


DRIVE_TYPES: dict[str, type[Any]] = {
    "twin": records.TwinSpecification,
    "file": records.FileSpecification,
    "block": records.BlockSpecification,
}


def test_a_specification_has_a_type_for_each_kind_of_drive_that_is_measured_here() -> None:
    assert DRIVE_TYPES.keys() == {name for name, kind in kinds.DRIVE_KINDS.items() if not kind.is_archived}


@pytest.mark.parametrize("study", sorted(path.stem for path in ROOT.glob("config/studies/*.yaml")))
def test_what_the_grid_makes_is_a_specification(study: str) -> None:
    overrides = {"drives": ["scratch", *config.load_config(ROOT).source_drives], "studies": [study]}
    found = list(grid.expand_grid(config.load_config(ROOT, overrides), study))
    assert found
    for cell in found:
        assert_is(records.Specification, cell.specification)
        drive = cell.specification["drive"]
        assert_is(DRIVE_TYPES[drive["kind"]], drive)
        assert msgspec.convert(cell.specification, records.Specification)
        if "iolog" in cell.specification:
            assert_is(records.IologChecksum, cell.specification["iolog"])


def test_a_record_has_the_fields_of_a_step() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(tuning_steps.Step)}
    assert get_type_hints(tuning_steps.StepRecord) == fields
    assert_is(tuning_steps.StepRecord, tuning_steps.not_applicable_step("DRA", 1, "there is none").record())
