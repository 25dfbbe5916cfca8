"""The grid of kapoor: valid settings of its replays, and the drives on which they run."""

from pathlib import Path

import pytest
import yaml
from support import ROOT, Project, copy_project

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, grid


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Copy the files of the configuration."""
    return copy_project(tmp_path / "project", without=("src", "notebooks", "paper"))


@pytest.mark.parametrize(
    ("experiment", "key", "value", "valid"),
    [
        *(("zombies-large", "blocks_over_time", value, "from 2 to 100") for value in (1, 101, "often")),
        *(("locality", "depth", value, "from 1 to 1024") for value in (0, 1025, "deep", 1.5)),
    ],
)
def test_invalid_settings_of_a_replay_are_refused(
    project: Project, experiment: str, key: str, value: float | str, valid: str
) -> None:
    experiments = yaml.safe_load((project.root / "config/studies/kapoor.yaml").read_text())["experiments"]
    experiments[experiment]["replay"][key] = value
    project.edit("config/studies/kapoor.yaml", experiments=experiments)
    project.edit("config/config.yaml", studies=["kapoor"], drives=["kapoor-128m", "kapoor-256m-map-50"])
    with pytest.raises(yaml_schema.ConfigError, match=rf"{experiment}.*{key}.*{valid}"):
        config.load_config(project.root)


def test_traces_are_not_replayed_on_real_drives() -> None:
    conf = config.load_config(ROOT, {"drives": ["scratch", "kapoor-512m"], "studies": ["kapoor"]})
    assert {cell.drive for cell in grid.expand_grid(conf, "kapoor")} == {"kapoor-512m"}
