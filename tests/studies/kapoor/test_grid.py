"""The grid of kapoor: what its replays may ask for, and where they run."""

from pathlib import Path

import pytest
import yaml
from support import ROOT, Project, copy_project

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, grid


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy of what a configuration is read from."""
    return copy_project(tmp_path / "project", without=("src", "notebooks", "paper"))


@pytest.mark.parametrize("every_ms", [0, 60001, "100 ms"])
def test_how_often_blocks_are_looked_at_is_told_with_what_is_valid(project: Project, every_ms: int | str) -> None:
    experiments = yaml.safe_load((project.root / "config/studies/kapoor.yaml").read_text())["experiments"]
    experiments["zombies-large"]["replay"]["blocks_every_ms"] = every_ms
    project.edit("config/studies/kapoor.yaml", experiments=experiments)
    project.edit("config/config.yaml", studies=["kapoor"], drives=["kapoor-128m"])
    with pytest.raises(yaml_schema.ConfigError, match=r"zombies-large.*blocks_every_ms.*from 1 to 60000"):
        config.load_config(project.root)


@pytest.mark.parametrize("depth", [0, 1025, "deep", 1.5])
def test_a_depth_of_a_replay_that_cannot_be_is_told_with_what_is_valid(project: Project, depth: float | str) -> None:
    experiments = yaml.safe_load((project.root / "config/studies/kapoor.yaml").read_text())["experiments"]
    experiments["locality"]["replay"]["depth"] = depth
    project.edit("config/studies/kapoor.yaml", experiments=experiments)
    project.edit("config/config.yaml", studies=["kapoor"], drives=["kapoor-256m-map-50"])
    with pytest.raises(yaml_schema.ConfigError, match=r"locality.*depth.*from 1 to 1024"):
        config.load_config(project.root)


@pytest.mark.parametrize("times", [1, 101, "often"])
def test_blocks_over_time_that_cannot_be_are_told_with_what_is_valid(project: Project, times: int | str) -> None:
    experiments = yaml.safe_load((project.root / "config/studies/kapoor.yaml").read_text())["experiments"]
    experiments["zombies-large"]["replay"]["blocks_over_time"] = times
    project.edit("config/studies/kapoor.yaml", experiments=experiments)
    project.edit("config/config.yaml", studies=["kapoor"], drives=["kapoor-128m"])
    with pytest.raises(yaml_schema.ConfigError, match=r"zombies-large.*blocks_over_time.*from 2 to 100"):
        config.load_config(project.root)


def test_a_real_drive_of_yours_replays_nothing() -> None:
    conf = config.load_config(ROOT, {"drives": ["scratch", "kapoor-512m"], "studies": ["kapoor"]})
    assert {cell.drive for cell in grid.expand_grid(conf, "kapoor")} == {"kapoor-512m"}
