"""Tests of the checks of a grid, and of the lines that they name."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support import ROOT, Project, copy_project

from iopatterns.base.yaml_schema import ConfigError
from iopatterns.configuration import config, grid

STUDIES = sorted(path.stem for path in (ROOT / "config/studies").glob("*.yaml"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("check") / "project", without=("src", "notebooks", "data/traces")).root


def expanded(root: Path, study: str, *drives: str) -> list[grid.Cell]:
    """Return the cells of a study with this text on the given drives."""
    (root / "config/studies/mine.yaml").write_text(study)
    return list(
        grid.expand_grid(config.load_config(root, {"studies": ["mine"], "drives": list(drives or ("c400",))}), "mine")
    )


def refused(root: Path, study: str, *drives: str) -> str:
    with pytest.raises(ConfigError) as caught:
        expanded(root, study, *drives)
    return str(caught.value)


ONE = """\
title: One experiment
fio: {{ioengine: {engine}, direct: {direct}{more}}}
experiments:
  one:
    drives: [c400, scratch]
    vary:
      rw: [read]
      {vary}
"""


def one(vary: str = "bs: [4k]", engine: str = "libaio", direct: int = 1, more: str = "") -> str:
    return ONE.format(engine=engine, direct=direct, vary=vary, more=f", {more}" if more else "")


# ---- I/O depth


@pytest.mark.parametrize("engine", ["sync", "psync", "vsync", "pvsync", "pvsync2"])
def test_a_varied_depth_of_a_synchronous_engine_is_refused(root: Path, engine: str) -> None:
    message = refused(root, one("bs: [4k]\n      iodepth: [1, 8]", engine))
    assert message.startswith("config/studies/mine.yaml:9: experiments.one: iodepth 8 has no effect")
    assert "libaio" in message
    assert "iodepth_has_no_effect" not in message


def test_a_fixed_depth_is_refused_unless_the_study_declares_it(root: Path) -> None:
    study = one(engine="psync", more="iodepth: 32")
    message = refused(root, study)
    assert message.startswith("config/studies/mine.yaml:2: experiments.one: iodepth 32 has no effect")
    assert "`iodepth_has_no_effect: true`" in message
    assert expanded(root, study + "iodepth_has_no_effect: true\n")


def test_a_declared_depth_must_not_vary(root: Path) -> None:
    study = one("bs: [4k]\n      iodepth: [1, 8]", "psync") + "iodepth_has_no_effect: true\n"
    assert "iodepth 8 has no effect" in refused(root, study)


def test_the_default_engine_of_fio_is_synchronous(root: Path) -> None:
    study = one(more="iodepth: 4").replace("ioengine: libaio, ", "")
    assert "synchronous ioengine psync" in refused(root, study)


# ---- Engines


def test_an_engine_that_simulated_drives_do_not_support_is_allowed_on_real_drives(root: Path) -> None:
    study = one(engine="io_uring")
    message = refused(root, study)
    assert message.startswith(
        "config/studies/mine.yaml:2: experiments.one: a simulated drive does not support ioengine"
    )
    assert message.endswith("and 'c400' is one. Use sync, psync, vsync, pvsync, pvsync2 or libaio.")
    assert {cell.drive for cell in expanded(root, study, "scratch")} == {"scratch"}


# ---- Sizes


@pytest.mark.parametrize("option", ["size", "offset", "offset_increment", "bs", "blockalign", "skip"])
def test_a_size_that_is_not_a_multiple_of_a_sector_is_refused(root: Path, option: str) -> None:
    vary = "bs: [4k, 700]" if option == "bs" else f"bs: [4k]\n      {option}: [10700]"
    study = one(vary).replace("rw: [read]", "rw: [randread]") if option == "blockalign" else one(vary)
    line, near = (8, "512 or 1024") if option == "bs" else (9, "10240 or 10752")
    size = 700 if option == "bs" else 10700
    place = f"config/studies/mine.yaml:{line}: experiments.one"
    assert refused(root, study) == f"{place}: {option} {size} is not a multiple of a sector, 512 bytes. Use {near}."


def test_a_buffered_request_may_have_any_size_on_a_real_drive_only(root: Path) -> None:
    study = one("bs: [700]", direct=0)
    assert expanded(root, study, "scratch")
    assert "not a multiple of a sector" in refused(root, study, "c400")


def test_the_line_of_shared_levels_is_named(root: Path) -> None:
    study = one("bs: sizes") + "levels:\n  sizes: [4k, 700]\n"
    assert refused(root, study).startswith("config/studies/mine.yaml:10: experiments.one: bs 700")


# ---- Tables and figures


def notebook(root: Path, *cells: str) -> None:
    (root / "notebooks").mkdir(exist_ok=True)
    content = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]}
    (root / "notebooks/mine.ipynb").write_text(json.dumps(content))


OUTPUTS = one() + "    figures: [depths]\n"


@pytest.fixture
def with_notebook(root: Path) -> Iterator[Path]:
    yield root
    for path in (root / "notebooks").glob("mine.*"):
        path.unlink()


@pytest.mark.parametrize(
    "cell",
    [
        "outputs.figure(drawn, 'one')",
        "show, draw = outputs.table, outputs.figure\ndepths = 1\ndraw(drawn, 'queue-depth')",
        "for experiment in study.experiments:\n    outputs.figure(drawn, experiment)",
        "outputs.figure(drawn, f'{experiment}-all')",
    ],
    ids=["constant", "alias", "loop", "f-string"],
)
def test_a_figure_that_the_notebook_does_not_write_is_refused(with_notebook: Path, cell: str) -> None:
    notebook(with_notebook, cell)
    message = refused(with_notebook, OUTPUTS)
    assert message.startswith(
        "config/studies/mine.yaml:9: experiments.one.figures: notebooks/mine.ipynb writes no figure"
    )
    assert "outputs.figure(…, 'depths')" in message


@pytest.mark.parametrize(
    "cell",
    [
        "outputs.figure(drawn, 'depths')",
        "for name in ['depths']:\n    outputs.figure(drawn, name)",
        "outputs.figure(drawn, f'{word}s')",
        "outputs.figure(drawn, names[0])",
        "save(drawn, folder / 'depths')",
        "save(drawn, folder / '-'.join(words))",
        "%matplotlib inline\n!ls\noutputs.figure(drawn, name='depths')",
        "%run other.ipynb",
        "no python",
    ],
)
def test_a_figure_that_the_notebook_may_write_is_not_refused(with_notebook: Path, cell: str) -> None:
    notebook(with_notebook, cell)
    assert expanded(with_notebook, OUTPUTS)


@pytest.mark.parametrize("name", ["one", "c400", "randread"])
def test_an_output_may_have_the_name_of_a_loop_value(with_notebook: Path, name: str) -> None:
    notebook(with_notebook, "for each in found:\n    outputs.figure(drawn, each)")
    study = OUTPUTS.replace("depths", name).replace("[read]", "[read, randread]")
    assert expanded(with_notebook, study)


def test_the_code_beside_a_notebook_is_included(with_notebook: Path) -> None:
    notebook(with_notebook, "mine.draw(outputs)")
    (with_notebook / "notebooks/mine.py").write_text("def draw(outputs):\n    outputs.figure(drawn, 'depths')\n")
    assert expanded(with_notebook, OUTPUTS)


@pytest.mark.parametrize("study", STUDIES)
def test_each_shipped_output_is_found_and_a_changed_name_is_refused(study: str, project: Project) -> None:
    path = project.root / f"config/studies/{study}.yaml"
    content = yaml.safe_load(path.read_text())
    drives = sorted(
        {drive for body in content["experiments"].values() for drive in body.get("drives", content.get("drives", []))}
    )
    overrides = {"studies": [study], "drives": drives, "file_size": "1 GiB", "runtime": "1 min"}
    assert list(grid.expand_grid(config.load_config(project.root, overrides), study))
    (place, *_) = [body for body in (content, *content["experiments"].values()) if body.get("tables")]
    place["tables"].append(f"{place['tables'][0]}x")
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    with pytest.raises(grid.GridError, match=f"writes no table '{place['tables'][-1]}'"):
        list(grid.expand_grid(config.load_config(project.root, overrides), study))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copy_project(tmp_path_factory.mktemp("shipped") / "project", without=("src", "paper"))
