"""`snakemake twin_of_<drive>` fits a simulated drive to a drive, and reports its error on held-out points."""

import json
from itertools import product
from pathlib import Path

import pytest
import yaml
from support import Project, copy_project

from iopatterns.twin import models
from iopatterns.twin.points import read_points
from iopatterns.workflow import fit_user_drive

LITTLE = ("repetitions=2", "runtime=100ms")


@pytest.fixture(scope="module")
def done(module_disk_folder: Path) -> tuple[Project, Path, str]:
    """Return a project in which a twin was fitted to a simulated drive, the folder of the fit, and the output."""
    project = copy_project(module_disk_folder / "project")
    drives = yaml.safe_load((project.root / "config/drives.yaml").read_text())
    slower = {"flash.read_time": "110 us", "link.rate": "700 MB/s"}
    project.edit("config/drives.yaml", **{**drives, "labdisk": {"kind": "twin", "model": "px05smb040", "set": slower}})
    said = project.snakemake("twin_of_labdisk", "--config", *LITTLE, "file_size=256MiB", timeout_s=900)
    assert said.returncode == 0, said.stdout
    return project, project.root / "results/twin_of_labdisk", said.stdout


def test_a_third_of_the_points_is_held_out_with_some_of_each_level() -> None:
    points = list(product(*fit_user_drive.FIT_LEVELS.values()))
    out = [point for point in points if fit_user_drive.is_held_out(*point)]
    assert len(out) == len(points) / 3
    for place, levels in enumerate(fit_user_drive.FIT_LEVELS.values()):
        for level in levels:
            assert {point[place] == level for point in out} == {True, False}
            assert {point[place] == level for point in set(points) - set(out)} == {True, False}


def test_the_twin_predicts_the_held_out_points(done: tuple[Project, Path, str]) -> None:
    found = json.loads((done[1] / "found.json").read_text())
    assert found["fits"]
    assert found["held_out_error_percent"] < 10
    out = [point for point in found["points"] if point["held_out"]]
    assert len(out) == 8
    largest = max(abs(point["model_iops"] / point["measured_iops"] - 1) for point in out)
    assert found["held_out_largest_error_percent"] == pytest.approx(100 * largest)
    assert f"{found['held_out_error_percent']:.1f} % on the held-out points" in done[2]


def test_the_model_can_be_loaded_and_has_the_fitted_values(done: tuple[Project, Path, str]) -> None:
    model = models.load_model(done[1] / "model.yaml")
    found = json.loads((done[1] / "found.json").read_text())
    assert yaml.safe_load((done[1] / "model.yaml").read_text())["name"] == "twin-of-labdisk"
    for parameter in found["parameters"]:
        assert models.format_value(parameter["name"], model.values[parameter["name"]]) == parameter["fitted"]
    assert model.fit["points"] == "results/twin_of_labdisk/points.csv"
    factors = ("rw", "bs_bytes", "iodepth")
    rows = read_points([done[1] / "points.csv"]).table.to_dict("records")
    assert {tuple(row[name] for name in factors): row["part"] != "fit" for row in rows} == {
        tuple(point[name] for name in factors): point["held_out"] for point in found["points"]
    }


def test_notebook_report_tables_and_figure_are_written(done: tuple[Project, Path, str]) -> None:
    assert (done[1] / "report.pdf").read_bytes().startswith(b"%PDF")
    notebook = json.loads((done[1] / "notebook.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {path.name for path in (done[1] / "tables").glob("*.csv")} == {"parameters.csv", "points.csv"}
    assert (done[1] / "figures/rates.svg").is_file()


def test_the_drive_is_only_read(done: tuple[Project, Path, str]) -> None:
    sidecars = list((done[0].root / "results/bench").glob("*/raw/labdisk/bench/*/*.sidecar.json"))
    assert len(sidecars) == 48
    assert all("--readonly" in json.loads(path.read_text())["command"] for path in sidecars)
    assert done[0].raw_files() == {}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("twin_of_c40", "neither config/drives.yaml nor a study has a drive of this name. Did you mean 'c400'?"),
        ("twin_of_elsewhere", "'elsewhere' is an archive"),
    ],
)
def test_a_drive_that_cannot_be_fitted_is_refused(project: Project, target: str, message: str) -> None:
    drives = yaml.safe_load((project.root / "config/drives.yaml").read_text())
    project.edit("config/drives.yaml", **{**drives, "elsewhere": {"kind": "archive", "path": "elsewhere.tar.xz"}})
    said = project.snakemake(target)
    assert said.returncode == 2, said.stdout
    assert message in said.stdout
    assert "Traceback" not in said.stdout


def test_a_twin_can_be_fitted_to_a_file_on_a_disk(project: Project) -> None:
    said = project.snakemake("twin_of_scratch", "--config", *LITTLE, "file_size=64MiB", timeout_s=900)
    assert said.returncode == 0, said.stdout
    found = json.loads((project.root / "results/twin_of_scratch/found.json").read_text())
    assert (project.root / "results/twin_of_scratch/model.yaml").exists() is found["fits"]
    assert (project.root / "results/twin_of_scratch/report.pdf").is_file()
    if not found["fits"]:
        assert "No model was written: none of the models describes this drive." in said.stdout
        assert "Measure for 10 s or more" in said.stdout
