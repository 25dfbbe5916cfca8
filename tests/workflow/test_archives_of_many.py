"""Drives measured on separate hosts without a cluster: one report of their archives, and their spread."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from support import Project, copy_project, pdf_text

# Three drives of one model; the third one takes longer for each read
DRIVES = {"lab1": {}, "lab2": {}, "lab3": {"controller.read_command_time": "60 us"}}
ARCHIVES = {name: {"kind": "archive", "path": f"data/archives/{name}.tar.xz"} for name in DRIVES}


@pytest.fixture(scope="module")
def office(module_disk_folder: Path) -> Project:
    """Return a project with the archives of three hosts, each with its own drive, and the report of all drives."""
    project = copy_project(module_disk_folder / "office")
    (project.root / "data/archives").mkdir(parents=True)
    for name, values in DRIVES.items():
        lab = copy_project(module_disk_folder / name)
        twin = {"kind": "twin", "model": "c400", **({"set": values} if values else {})}
        lab.edit("config/drives.yaml", **{name: twin})
        lab.edit("config/config.yaml", drives=[name], repetitions=3)
        assert (done := lab.snakemake("measure_tiny")).returncode == 0, done.stdout
        assert (packed := lab.iopatterns("archive", name)).returncode == 0, packed.stdout
        shutil.copy(lab.root / ARCHIVES[name]["path"], project.root / "data/archives")
    project.edit("config/drives.yaml", **ARCHIVES)
    project.edit("config/config.yaml", drives=list(DRIVES), repetitions=3)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert "To measure" not in done.stdout
    return project


def test_the_report_has_the_drives_of_all_hosts(office: Project) -> None:
    colophon = json.loads((office.root / "results/colophon.json").read_text())
    assert [drive["name"] for drive in colophon["drives"]] == list(DRIVES)
    text = pdf_text(office.root / "results/report.pdf")
    for name in DRIVES:
        assert f"unpacked here from {name}.tar.xz" in text


def test_the_spread_between_drives_is_printed_with_the_spread_within_each_drive(office: Project) -> None:
    said = office.iopatterns("spread", *DRIVES)
    assert said.returncode == 0, said.stdout
    assert "bandwidth of 3 drives at 8 points: " in said.stdout
    assert "results/spread: table and figures written" in said.stdout
    points = pd.read_csv(office.root / "results/spread/bandwidth.csv")
    rows = pd.read_parquet(office.root / "results/measurements/tiny.parquet")
    for point in points.to_dict("records"):
        size = int(str(point["point"]).rsplit(" ", 1)[1]) * 1024
        here = rows[(rows["rw"] == point["rw"]) & (rows["bs_bytes"] == size)]
        of_drives = here.groupby("drive")["bandwidth_bytes_per_s"]
        mean = of_drives.mean().mean()
        assert point["within"] == pytest.approx(100 * (of_drives.var().mean() ** 0.5) / mean, abs=1e-6)
        assert point["executions"] == 9
    random_reads = points[points["rw"] == "randread"]
    assert set(random_reads["verdict"]) == {"drives differ"}
    assert (random_reads["between"] > random_reads["within"]).all()
    assert (office.root / "results/spread/tiny-initial-bandwidth.svg").exists()


def test_an_unknown_drive_is_refused(office: Project) -> None:
    said = office.iopatterns("spread", "lab1", "lab4")
    assert said.returncode == 2
    assert "'lab4' is no drive of results/measurements" in said.stdout
    assert "lab1, lab2, lab3" in said.stdout
    assert "Traceback" not in said.stdout
