"""The types of metadata files match what is planned and measured."""

from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec
import pytest
from support import ROOT

from iopatterns.configuration import config, grid, kinds
from iopatterns.raw import records


def require_keys(typed: type[Any], value: Mapping[str, Any]) -> None:
    """Require that a value has all required keys of a type, and no unknown keys."""
    assert value.keys() <= get_type_hints(typed).keys()
    assert set(typed.__required_keys__) <= value.keys()


DRIVE_TYPES: dict[str, type[Any]] = {
    "twin": records.TwinSpecification,
    "file": records.FileSpecification,
    "block": records.BlockSpecification,
}


def test_each_kind_of_drive_has_a_type() -> None:
    assert DRIVE_TYPES.keys() == {name for name, kind in kinds.DRIVE_KINDS.items() if not kind.is_archived}


@pytest.mark.parametrize("study", sorted(path.stem for path in ROOT.glob("config/studies/*.yaml")))
def test_cells_of_each_study_match_the_type(study: str) -> None:
    overrides = {"drives": ["scratch", *config.load_config(ROOT).source_drives], "studies": [study]}
    found = list(grid.expand_grid(config.load_config(ROOT, overrides), study))
    assert found
    for cell in found:
        require_keys(records.Specification, cell.specification)
        drive = cell.specification["drive"]
        require_keys(DRIVE_TYPES[drive["kind"]], drive)
        assert msgspec.convert(cell.specification, records.Specification)
