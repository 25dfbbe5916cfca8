"""An archive is measured and packed in one project, and analysed in another one without drive and fio."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support import FIXTURE, Project, copy_project, pdf_text

STUDY = "config/studies/tiny.yaml"
DRIVES = ["mine", "scratch"]
TOOLS_OF_A_DRIVE = {"fio", "sdparm", "sg_modes"}


def little(root: Path) -> Project:
    """Return a project with a simulated drive and a file, which does not accept the settings of some cells."""
    project = copy_project(root)
    experiments = yaml.safe_load((FIXTURE / STUDY).read_text())["experiments"]
    project.edit(STUDY, experiments={name: experiments[name] for name in ("initial", "refusing")})
    project.edit("config/config.yaml", drives=DRIVES, runtime="50 ms")
    # an archive may not have the name of a study's drive
    project.edit("config/drives.yaml", mine={"kind": "twin", "model": "c400"})
    return project


@pytest.fixture(scope="module")
def measured(module_disk_folder: Path) -> Project:
    """Return a project whose drives are measured, analysed and packed."""
    project = little(module_disk_folder / "lab")
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    for drive in DRIVES:
        packed = project.iopatterns("archive", drive)
        assert packed.returncode == 0, packed.stdout
    return project


@pytest.fixture(scope="module")
def no_fio(module_disk_folder: Path) -> str:
    """Return a PATH with all programs of this machine except the ones that measure drives."""
    folder = module_disk_folder / "bin"
    folder.mkdir()
    for part in reversed(os.environ["PATH"].split(":")):
        for tool in Path(part).glob("*"):
            if tool.name not in TOOLS_OF_A_DRIVE:
                (folder / tool.name).unlink(missing_ok=True)
                (folder / tool.name).symlink_to(tool.resolve())
    assert shutil.which("fio")
    assert not shutil.which("fio", path=str(folder))
    return str(folder)


def elsewhere(measured: Project, root: Path) -> Project:
    """Return a fresh project with copies of the archives."""
    project = little(root)
    shutil.copytree(measured.root / "data/archives", root / "data/archives")
    archives = {drive: {"kind": "archive", "path": f"data/archives/{drive}.tar.xz"} for drive in DRIVES}
    project.edit("config/drives.yaml", **archives)
    return project


@pytest.fixture(scope="module")
def analysed(measured: Project, no_fio: str, module_disk_folder: Path) -> Project:
    """Return a project in which the archives were analysed without fio."""
    project = elsewhere(measured, module_disk_folder / "office")
    done = without_fio(project, no_fio)
    assert done.returncode == 0, done.stdout
    assert "To measure" not in done.stdout
    return project


def without_fio(project: Project, no_fio: str, *words: str) -> "subprocess.CompletedProcess[str]":
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", no_fio)
        return project.snakemake(*words)


@pytest.fixture
def office(analysed: Project, no_fio: str, disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a copy of the analysed project that a test may change, without fio."""
    monkeypatch.setenv("PATH", no_fio)
    shutil.copytree(analysed.root, disk_folder / "office")
    return Project(disk_folder / "office")


def results(project: Project, *folders: str) -> dict[str, bytes]:
    base = project.root / "results"
    paths = [path for folder in folders for path in sorted((base / folder).rglob("*.*"))]
    return {str(path.relative_to(base)): path.read_bytes() for path in paths}


def test_results_and_raw_files_are_those_of_the_measuring_machine(measured: Project, analysed: Project) -> None:
    folders = ("tables", "figures", "numbers")
    assert results(analysed, *folders) == results(measured, *folders)
    assert len(results(analysed, "tables")) > 9
    for file in ("scorecard.json", "measurements/tiny.parquet", "measurements/tiny.tuning.json"):
        assert (analysed.root / "results" / file).read_bytes() == (measured.root / "results" / file).read_bytes()
    assert json.loads((analysed.root / "results/colophon.json").read_text())["studies"]["tiny"]["left_out"] == 8 + 4

    def raw_files(project: Project) -> dict[str, bytes]:
        raw = project.root / "data/raw"
        paths = [path for drive in DRIVES for path in (raw / drive).glob("*/*/*")]
        return {str(path.relative_to(raw)): path.read_bytes() for path in paths}

    assert raw_files(analysed) == raw_files(measured)
    # raw and metadata files, two repetitions, two experiments, two drives
    assert len(raw_files(analysed)) == 2 * 2 * 4 * 8


def test_colophon_report_and_summary_name_the_archives(measured: Project, analysed: Project) -> None:
    office, lab = (json.loads((each.root / "results/colophon.json").read_text()) for each in (analysed, measured))
    assert [drive["archive"]["archive"] for drive in office["drives"]] == [f"{drive}.tar.xz" for drive in DRIVES]
    assert not any("archive" in drive for drive in lab["drives"])
    assert office["real_executions"] == lab["real_executions"] == 16
    text = pdf_text(analysed.root / "results/report.pdf")
    assert "archive of kind twin" in text
    assert "archive of kind file" in text
    assert "unpacked here from scratch.tar.xz" in text
    said = analysed.iopatterns("summary", "--since", "0")
    assert "scratch (archive of kind file: scratch.tar.xz)" in said.stdout
    assert "not compared, because archives contain the measurements of mine, scratch" in said.stdout


def test_a_second_run_does_nothing(analysed: Project) -> None:
    assert "Nothing to be done" in analysed.snakemake("-n").stdout


def test_the_plan_measures_nothing(office: Project) -> None:
    office.edit("config/config.yaml", drives=["scratch"])
    said = office.snakemake("plan")
    assert said.returncode == 0, said.stdout
    assert "scratch: unpacked from data/archives/scratch.tar.xz" in said.stdout
    assert "Total: about 0 s" in said.stdout


def test_an_unpacked_archive_packs_to_the_same_bytes(office: Project) -> None:
    before = (office.root / "data/archives/scratch.tar.xz").read_bytes()
    assert office.iopatterns("archive", "scratch", "--output", "again.tar.xz").returncode == 0
    assert (office.root / "again.tar.xz").read_bytes() == before


def test_a_deleted_raw_file_is_unpacked_again(office: Project) -> None:
    gone = sorted(office.root.glob("data/raw/scratch/tiny/*/01.json"))[0]
    before = gone.read_bytes()
    gone.unlink()
    done = office.snakemake(str(gone.relative_to(office.root)))
    assert done.returncode == 0, done.stdout
    assert "Unpacking scratch" in done.stdout
    assert "Unpacking mine" not in done.stdout
    assert gone.read_bytes() == before


@pytest.fixture(scope="module")
def measured_again(module_disk_folder: Path) -> Project:
    """Another measurement of the same cells of the file drive, packed."""
    project = little(module_disk_folder / "lab-again")
    project.edit("config/config.yaml", drives=["scratch"])
    assert project.snakemake("collect_tiny").returncode == 0
    assert project.iopatterns("archive", "scratch").returncode == 0
    return project


@pytest.mark.parametrize("age", ["newer", "older"])
def test_a_replaced_archive_is_unpacked_again(measured_again: Project, office: Project, age: str) -> None:
    archive = office.root / "data/archives/scratch.tar.xz"
    shutil.copy(measured_again.root / "data/archives/scratch.tar.xz", archive)
    if age == "older":
        os.utime(archive, (1e9, 1e9))
    done = office.snakemake("collect_tiny")
    assert done.returncode == 0, done.stdout
    name = "scratch/tiny"
    unpacked = {path: content for path, content in office.raw_files().items() if path.startswith(name)}
    assert unpacked == measured_again.raw_files()
    assert "Nothing to be done" in office.snakemake("-n", "collect_tiny").stdout


def test_fewer_repetitions_use_the_first_ones(measured: Project, no_fio: str, disk_folder: Path) -> None:
    project = elsewhere(measured, disk_folder / "office")
    project.edit("config/config.yaml", repetitions=1)
    done = without_fio(project, no_fio, "collect_tiny")
    assert done.returncode == 0, done.stdout
    colophon = json.loads((project.root / "results/measurements/tiny.provenance.json").read_text())
    assert colophon["executions"] == 16 + 4


def test_more_repetitions_than_packed_are_refused_with_cell_and_both_numbers(office: Project) -> None:
    office.edit("config/config.yaml", repetitions=5)
    wrong = office.snakemake("-n")
    assert wrong.returncode == 2
    assert "mine.tar.xz has 2 repetitions of the cell tiny/read-4k-j1-" in wrong.stdout
    assert "; 5 are configured" in wrong.stdout
    assert "Traceback" not in wrong.stdout


def test_experiments_without_cells_in_the_archive_are_refused_and_others_left_out(office: Project) -> None:
    experiments = yaml.safe_load((office.root / STUDY).read_text())["experiments"]
    office.edit(STUDY, experiments={"other": experiments["initial"]})
    wrong = office.snakemake("-n")
    assert wrong.returncode == 2
    assert "has no cell of an experiment of tiny. It has tiny: initial" in wrong.stdout
    office.edit(STUDY, experiments={"initial": experiments["initial"]})
    done = office.snakemake("collect_tiny")
    assert done.returncode == 0, done.stdout
    provenance = json.loads((office.root / "results/measurements/tiny.provenance.json").read_text())
    assert (provenance["cells"], provenance["left_out"]) == (16, 0)


def test_a_drive_is_analysed_under_its_configured_name(measured: Project, no_fio: str, disk_folder: Path) -> None:
    project = elsewhere(measured, disk_folder / "office")
    project.edit("config/drives.yaml", **{"lab.disk-1": {"kind": "archive", "path": "data/archives/scratch.tar.xz"}})
    project.edit("config/config.yaml", drives=["lab.disk-1"])
    done = without_fio(project, no_fio)
    assert done.returncode == 0, done.stdout
    drive = json.loads((project.root / "results/colophon.json").read_text())["drives"][0]
    assert (drive["name"], drive["archive"]["drive"]) == ("lab.disk-1", "scratch")
    assert "lab.disk-1" in (project.root / "results/tables/tiny/ratios.csv").read_text()


def test_a_missing_archive_is_reported_before_anything_runs(office: Project) -> None:
    (office.root / "data/archives/scratch.tar.xz").unlink()
    wrong = office.snakemake("-n")
    assert wrong.returncode == 2
    assert "config/drives.yaml: scratch.path: " in wrong.stdout
    assert "data/archives/scratch.tar.xz: there is no such file. Put the archive there" in wrong.stdout
    assert "Traceback" not in wrong.stdout


def test_nothing_is_unpacked_from_a_truncated_archive(measured: Project, no_fio: str, disk_folder: Path) -> None:
    project = elsewhere(measured, disk_folder / "office")
    archive = project.root / "data/archives/scratch.tar.xz"
    archive.write_bytes(archive.read_bytes()[:-100])
    wrong = without_fio(project, no_fio, "collect_tiny")
    assert wrong.returncode == 1
    assert "data/archives/scratch.tar.xz: cut short, " in wrong.stdout
    assert "Traceback" not in wrong.stdout
    assert not list((project.root / "data/raw").glob("scratch/*"))


def test_raw_files_measured_here_are_not_replaced(measured: Project, disk_folder: Path) -> None:
    project = Project(disk_folder / "lab")
    shutil.copytree(measured.root, project.root)
    before = project.raw_files()
    archived = {"scratch": {"kind": "archive", "path": "data/archives/scratch.tar.xz"}}
    project.edit("config/drives.yaml", **archived)
    refused = project.snakemake("collect_tiny")
    assert refused.returncode == 1
    assert "data/raw/scratch: holds raw files that were measured here" in refused.stdout
    assert project.raw_files() == before


def test_unpacked_raw_files_do_not_count_as_measured_here(office: Project) -> None:
    office.edit("config/drives.yaml", scratch={"kind": "file", "path": "data/scratch/scratch.bin"})
    office.edit("config/config.yaml", repetitions=3, drives=["scratch"])
    refused = office.snakemake("collect_tiny")
    assert refused.returncode == 1
    assert "data/raw/scratch: holds what was measured elsewhere" in refused.stdout
